// SPDX-License-Identifier: Apache-2.0
//
// Literals of protobuf's well-known messages, which are plain CEL values.
#ifndef CEL_CODE_MESSAGE_H
#define CEL_CODE_MESSAGE_H

#include "cel/code/run.h"
#include "cel/env.h"

// cel_message_make turns the map of a message literal's fields into its value, or an error.
struct cel_val cel_message_make(struct cel_run *run, const struct cel_message *m,
                                const struct cel_map *fields);

#endif
