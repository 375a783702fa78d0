// SPDX-License-Identifier: Apache-2.0
//
// Field paths written where they are used. Private to src/api: the names are short because checks
// are full of them.
#ifndef API_RULES_AT_H
#define API_RULES_AT_H

#include "api/cause.h"

// The steps below live until the end of the enclosing block. `above` is NULL for the first one.
#define AT(above, field) \
    (&(const struct path){.parent = (above), .name = STR_INIT(field), .kind = PATH_FIELD})
#define AT_NAME(above, field) \
    (&(const struct path){.parent = (above), .name = (field), .kind = PATH_FIELD})
#define AT_ITEM(above, i) \
    (&(const struct path){.parent = (above), .index = (i), .kind = PATH_INDEX})
#define AT_KEY(above, key) \
    (&(const struct path){.parent = (above), .name = (key), .kind = PATH_KEY})

#endif
