// SPDX-License-Identifier: Apache-2.0
//
// SipHash-1-3 with a key of the process: names that a peer chooses cannot be made to collide. The
// key is fixed until hash_seed is called, so tests and simulations see the same order every run.
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

#include "base/str.h"

// hash_seed sets the key. Call once at start, before any map is used or thread started.
void hash_seed(const uint64_t key[2]);

// hash_str hashes the bytes of s.
uint64_t hash_str(struct str s);

#endif
