// SPDX-License-Identifier: Apache-2.0
//
// UUIDs (RFC 4122), 16 bytes, written in lower case.
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include <stdint.h>

#include "base/rand.h"

#define UUID_TEXT_LEN 36

struct uuid {
    uint8_t bytes[16];
};

// uuid_random makes a version 4 UUID.
struct uuid uuid_random(struct rng *r);

// uuid_write writes 36 characters and a NUL.
void uuid_write(const struct uuid *u, char out[UUID_TEXT_LEN + 1]);

#endif
