// SPDX-License-Identifier: Apache-2.0
//
// What the two faces of `dray validate` share. Private to src/cmd.
#ifndef CMD_VALIDATE_H
#define CMD_VALIDATE_H

#include <stdbool.h>

#include "api/validate.h"
#include "base/str.h"

// validate_jsonl answers one case a line from standard input, in order, and returns VERB_OK.
int validate_jsonl(void);

// struct judged is an object on its way: decoded in its own version, seen in the hub's.
struct judged {
    struct api_object hub;
    const struct api_kind *version;
};

// judge_decode defaults an object and converts it to its hub version. Returns as api_convert.
int judge_decode(const struct api_object *decoded, const struct api_rules *rules,
                 struct arena *arena, struct judged *ret, struct err *err) MUST_USE;

// judge_create does for a new object what the server does before it looks at it: a namespace, a
// name in place of a generated one. Returns what to call the object's name afterwards: empty when
// it was made up here.
struct str judge_name(const struct judged *j, struct arena *arena);

#endif
