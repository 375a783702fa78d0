// SPDX-License-Identifier: Apache-2.0
//
// What defaulting's files share. Private to src/api.
#ifndef API_PREPARE_DEFAULT_H
#define API_PREPARE_DEFAULT_H

#include "api/api.h"

struct defaulter {
    const struct api_default_options *options;
    struct arena *arena;
};

// A hook sets, in a struct of one type, what the table cannot say. It runs before the struct's own
// table defaults and before anything below it.
typedef void default_hook(struct defaulter *d, void *value);

// default_core_hook finds the hook of a core, apps, batch, rbac or storage type, or NULL.
default_hook *default_core_hook(const struct api_type *t);

#endif
