// SPDX-License-Identifier: Apache-2.0
//
// Labels, annotations and owners of objects that controllers, and publishers of slices, make or change.
#ifndef CTL_META_H
#define CTL_META_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/str.h"

// On ResourceSlices: NAMESPACE/NAME of the Lease that their publisher renews.
#define CTL_PUBLISHER_LEASE "dray.dev/publisher-lease"

// ctl_map_put makes *map a copy in arena with key set to value; maps are sorted.
void ctl_map_put(struct api_str_map *map, struct str key, struct str value, struct arena *arena);

// ctl_map_drop makes *map a copy in arena without key.
void ctl_map_drop(struct api_str_map *map, struct str key, struct arena *arena);

// ctl_map_get finds a value; NULL when there is none.
const struct str *ctl_map_get(const struct api_str_map *map, struct str key);

// ctl_map_int reads a whole number; false when there is none.
bool ctl_map_int(const struct api_str_map *map, struct str key, int64_t *ret);

// ctl_list_drop makes *list a copy in arena without text.
void ctl_list_drop(struct api_str_array *list, struct str text, struct arena *arena);
void ctl_list_add(struct api_str_array *list, struct str text, struct arena *arena);
bool ctl_list_has(const struct api_str_array *list, struct str text);

// ctl_own makes kind/owner the one and controlling owner of an object.
void ctl_own(struct api_object_meta *meta, const struct api_kind *kind,
             const struct api_object_meta *owner, bool block, struct arena *arena);

// ctl_hash is FNV-1a over the bytes, the same in every process; start with CTL_HASH_START.
#define CTL_HASH_START UINT64_C(14695981039346656037)
uint64_t ctl_hash(uint64_t hash, struct str bytes);

// ctl_hash_letters writes a hash in n of the letters that the server takes for generated names.
void ctl_hash_letters(uint64_t hash, char *out, size_t n);

#endif
