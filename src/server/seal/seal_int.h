// SPDX-License-Identifier: Apache-2.0
//
// An encryption configuration in memory: for each entry the resources and, in their order, the keys
// of its providers. identity is a provider without a key.
#ifndef SERVER_SEAL_SEAL_INT_H
#define SERVER_SEAL_SEAL_INT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/vec.h"
#include "server/seal.h"

#define SEAL_KEY_BYTES_MAX  32
#define SEAL_NAME_BYTES_MAX 255

struct seal_key {
    struct str name;
    size_t n; // 16, 24 or 32; 0: identity
    unsigned char bytes[SEAL_KEY_BYTES_MAX];
};

// The first key writes, all read.
struct seal_entry {
    struct VEC(struct str) resources; // plural, plural.group, *.group, "*." (core) or *.*
    struct VEC(struct seal_key) keys;
};

struct seal_config {
    struct VEC(struct seal_entry) entries; // the first that names a resource is its entry
    struct store_sealer sealer;
    struct arena arena; // names
};

// seal_config_bind fills in the sealer; for the parser.
void seal_config_bind(struct seal_config *c);

#endif
