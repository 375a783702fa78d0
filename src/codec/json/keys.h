// SPDX-License-Identifier: Apache-2.0
//
// Equal keys in a list of keys, in O(n log n) whatever a peer sends: sorting, not hashing. Private
// to the JSON and YAML readers.
#ifndef CODEC_JSON_KEYS_H
#define CODEC_JSON_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

// Below this many, comparing each with each is quicker than anything clever.
#define KEYS_FEW 32

// keys_first sets first[i] to the smallest index whose key equals keys[i], and returns how many
// keys are not the first of their kind. first has room for n; n fits 32 bits.
size_t keys_first(const struct str *keys, size_t n, uint32_t *first);

#endif
