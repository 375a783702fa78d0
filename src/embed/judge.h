// SPDX-License-Identifier: Apache-2.0
//
// A new object on its way to validation: defaulted, converted to its hub version, named. libdray
// and the verb `dray validate` take the same way.
#ifndef EMBED_JUDGE_H
#define EMBED_JUDGE_H

#include "api/validate.h"
#include "base/str.h"

// An object decoded in its own version, and as the hub version has it.
struct judged {
    struct api_object hub;
    const struct api_kind *version;
};

// judge_decode defaults an object and converts it to its hub version. Returns as api_convert.
int judge_decode(const struct api_object *decoded, const struct api_rules *rules,
                 struct arena *arena, struct judged *ret, struct err *err) MUST_USE;

// judge_name gives a new object what the server sets before validation: a namespace and, in place
// of a generated name, a name. Returns the name it came with, to be put back.
struct str judge_name(const struct judged *j, struct arena *arena);

#endif
