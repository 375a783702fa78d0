// SPDX-License-Identifier: Apache-2.0
//
// Putting the entries of a map that was just read into order. Private to src/api.
#ifndef API_TYPE_MAP_H
#define API_TYPE_MAP_H

#include "api/table.h"
#include "base/arena.h"
#include "codec/json_strict.h"

// map_settle sorts entries of size bytes by key; of entries with equal keys the last one stays, and
// strict (may be NULL) hears of the others.
void map_settle(struct api_span *map, size_t size, struct arena *arena, struct json_strict *strict);

#endif
