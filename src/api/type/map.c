// SPDX-License-Identifier: Apache-2.0
//
// Maps of typed objects are arrays sorted by key. Texts have any order, so readers sort what they
// read; of a key that is there twice the last value counts.
#include "api/type/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

struct place {
    struct str key;
    size_t index;
};

static int place_cmp(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = str_cmp(x->key, y->key);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static bool map_is_sorted(const struct api_span *map, size_t size)
{
    const char *entry = map->p;
    for (size_t i = 1; i < map->n; i++, entry += size) {
        const struct str *key = (const void *)entry, *next = (const void *)(entry + size);
        if (str_cmp(*key, *next) >= 0)
            return false;
    }
    return true;
}

void map_settle(struct api_span *map, size_t size, struct arena *arena, struct json_strict *strict)
{
    if (map_is_sorted(map, size))
        return;
    const char *from = map->p;
    struct place *places = arena_array(arena, struct place, map->n);
    for (size_t i = 0; i < map->n; i++)
        places[i] = (struct place){*(const struct str *)(const void *)(from + i * size), i};
    qsort(places, map->n, sizeof(*places), place_cmp);
    char *to = arena_alloc_array(arena, map->n, size, _Alignof(max_align_t));
    size_t kept = 0;
    for (size_t i = 0; i < map->n; i++) {
        if (i + 1 < map->n && str_eq(places[i].key, places[i + 1].key)) {
            json_strict_duplicate(strict, places[i].key);
            continue;
        }
        memcpy(to + kept++ * size, from + places[i].index * size, size);
    }
    map->p = to;
    map->n = kept;
}
