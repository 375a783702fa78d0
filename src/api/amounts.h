// SPDX-License-Identifier: Apache-2.0
//
// Lists of resources and quantities, as arithmetic: what quotas and limits are made of. Maps are
// sorted by key and live in the arena they are made in.
#ifndef API_AMOUNTS_H
#define API_AMOUNTS_H

#include "api/types.h"
#include "base/arena.h"
#include "base/vec.h"

// amounts_get finds a quantity; NULL when there is none.
const struct quantity *amounts_get(const struct api_quantity_map *m, struct str key);

// amounts_set sets one, new or not. All entries are copied: many at once are for amounts_put.
void amounts_set(struct api_quantity_map *m, struct str key, const struct quantity *q,
                 struct arena *arena);

// struct amounts gathers entries with different keys; amounts_sorted makes a map of them, in place.
struct amounts VEC(struct api_quantity_entry);
struct api_quantity_map amounts_sorted(const struct amounts *all);

// amounts_put sets in a all that b has.
void amounts_put(struct api_quantity_map *a, const struct api_quantity_map *b, struct arena *arena);

// amounts_add adds all of b to a; amounts_most raises a to b where b is more.
void amounts_add(struct api_quantity_map *a, const struct api_quantity_map *b, struct arena *arena);
void amounts_most(struct api_quantity_map *a, const struct api_quantity_map *b,
                  struct arena *arena);

// amounts_same: the same names with the same numbers.
bool amounts_same(const struct api_quantity_map *a, const struct api_quantity_map *b);

// amounts_write adds "a=1,b=2Gi".
void amounts_write(const struct api_quantity_map *m, struct sbuf *out);

// container_amounts is what the containers of a pod need, requests or limits: all together, init
// containers one after another, those that stay. pod_amounts is what the pod needs: its own amounts
// where it has them. pod_with_overhead adds what its sandbox takes.
struct api_quantity_map container_amounts(const struct api_pod_spec *spec, bool limits,
                                          struct arena *arena);
struct api_quantity_map pod_amounts(const struct api_pod *pod, bool limits, struct arena *arena);
struct api_quantity_map pod_with_overhead(const struct api_pod *pod, bool limits,
                                          struct arena *arena);

#endif
