// SPDX-License-Identifier: Apache-2.0
//
// What the two faces of `dray validate` share. Private to src/cmd.
#ifndef CMD_TOOLS_VALIDATE_H
#define CMD_TOOLS_VALIDATE_H

#include <stdbool.h>

#include "embed/judge.h"

// validate_jsonl answers one case a line from standard input, in order, and returns VERB_OK.
// server_only: with nothing but what the server would answer.
int validate_jsonl(bool server_only);

#endif
