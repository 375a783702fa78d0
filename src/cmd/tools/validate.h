// SPDX-License-Identifier: Apache-2.0
//
// What the two faces of `dray validate` share. Private to src/cmd.
#ifndef CMD_TOOLS_VALIDATE_H
#define CMD_TOOLS_VALIDATE_H

#include <stdbool.h>

#include "api/validate.h"
#include "base/str.h"

// validate_jsonl answers one case a line from standard input, in order, and returns VERB_OK.
// server_only: with nothing but what the server would answer.
int validate_jsonl(bool server_only);

// struct judged is an object on its way: decoded in its own version, seen in the hub's.
struct judged {
    struct api_object hub;
    const struct api_kind *version;
};

// validate_decode_object defaults an object and converts it to its hub version. Returns as
// api_convert.
int validate_decode_object(const struct api_object *decoded, const struct api_rules *rules,
                           struct arena *arena, struct judged *ret, struct err *err) MUST_USE;

// validate_object_name does for a new object what the server does before it looks at it: it gets a
// namespace and, in place of a generated one, a name. Returns the name it came with, to be put
// back.
struct str validate_object_name(const struct judged *j, struct arena *arena);

#endif
