// SPDX-License-Identifier: Apache-2.0
//
// Labels, annotations, finalizers and owners: asked by many rooms, made and changed by controllers
// and by publishers of slices.
#ifndef API_META_H
#define API_META_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/str.h"

// On ResourceSlices: NAMESPACE/NAME of the Lease that their publisher renews.
#define META_PUBLISHER_LEASE "dray.dev/publisher-lease"

// meta_map_put makes *map a copy in arena with key set to value; maps are sorted.
void meta_map_put(struct api_str_map *map, struct str key, struct str value, struct arena *arena);

// meta_map_drop makes *map a copy in arena without key.
void meta_map_drop(struct api_str_map *map, struct str key, struct arena *arena);

// meta_map_int reads a whole number; false when there is none.
bool meta_map_int(const struct api_str_map *map, struct str key, int64_t *ret);

// meta_list_drop makes *list a copy in arena without text.
void meta_list_drop(struct api_str_array *list, struct str text, struct arena *arena);
void meta_list_add(struct api_str_array *list, struct str text, struct arena *arena);

// meta_own makes kind/owner the one and controlling owner of an object.
void meta_own(struct api_object_meta *meta, const struct api_kind *kind,
              const struct api_object_meta *owner, bool block, struct arena *arena);

// meta_controller is the owner reference that controls an object, NULL when there is none.
const struct api_owner_reference *meta_controller(const struct api_object_meta *meta);

// meta_has_finalizer, meta_annotation: the latter is empty when it is not there.
bool meta_has_finalizer(const struct api_object_meta *meta, struct str finalizer);
struct str meta_annotation(const struct api_object_meta *meta, struct str key);

// meta_hash is FNV-1a over the bytes, the same in every process; start with META_HASH_START.
#define META_HASH_START UINT64_C(14695981039346656037)
uint64_t meta_hash(uint64_t hash, struct str bytes);

// meta_hash_letters writes a hash in n of the letters that the server takes for generated names.
void meta_hash_letters(uint64_t hash, char *out, size_t n);

#endif
