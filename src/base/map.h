// SPDX-License-Identifier: Apache-2.0
//
// Hash map from str to a value type, typed by macro over one implementation. Keys are borrowed:
// their bytes must live as long as the entry. Entries are kept in insertion order, so walking a map
// is deterministic whatever the hash key. A zeroed map is empty and ready.
//
//     struct counts MAP(int64_t);
//     struct counts m = {0};
//     *map_put(&m, STR("gpu")) += 1;      // a new value is zeroed
//     int64_t *v = map_get(&m, STR("gpu"));
//
// Values move when the map grows or is compacted: a pointer is good until the next put or delete.
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/str.h"

struct map_entry {
    struct str key;
    uint64_t hash;
    bool live;
};

// The part that does not know the value type. entries and the typed value array run in parallel.
struct map_index {
    struct map_entry *entries;
    uint32_t *slots;  // 0 = free, else position in entries + 1; dead entries keep their slot
    size_t slots_len; // a power of two, or 0
    size_t used;      // entries in use, live and dead
    size_t cap;       // room in entries and values
    size_t live;
};

// NOLINTBEGIN(bugprone-macro-parentheses): types and loop variables cannot stand in parentheses
#define MAP(T)                  \
    {                           \
        struct map_index index; \
        T *values;              \
    }

// The functions behind the macros. SIZE_MAX means not found.
size_t map_index_find(const struct map_index *m, struct str key);
size_t map_index_put(struct map_index *m, void **values, size_t value_size, struct str key,
                     bool *ret_new);
bool map_index_del(struct map_index *m, struct str key);
size_t map_index_next(const struct map_index *m, size_t at);
void map_index_done(struct map_index *m);

// map_get returns a pointer to the value, or NULL.
#define map_get(m, key)                                           \
    ({                                                            \
        size_t map_get_at = map_index_find(&(m)->index, (key));   \
        map_get_at == SIZE_MAX ? NULL : &(m)->values[map_get_at]; \
    })

#define map_has(m, key) (map_index_find(&(m)->index, (key)) != SIZE_MAX)

// map_put returns a pointer to the value of key, adding a zeroed one if there is none; the key
// kept is the first one. map_put_new also reports whether it was added.
#define map_put(m, key) map_put_new((m), (key), NULL)
#define map_put_new(m, key, ret_new)                                                             \
    ({                                                                                           \
        void *map_put_values = (m)->values;                                                      \
        size_t map_put_at =                                                                      \
            map_index_put(&(m)->index, &map_put_values, sizeof(*(m)->values), (key), (ret_new)); \
        (m)->values = map_put_values;                                                            \
        &(m)->values[map_put_at];                                                                \
    })

// map_del removes an entry and reports whether there was one. Safe while walking.
#define map_del(m, key) map_index_del(&(m)->index, (key))

#define map_len(m) ((m)->index.live)

// map_foreach walks positions in insertion order; map_key and map_value read one.
#define map_foreach(m, i)                                          \
    for (size_t i = map_index_next(&(m)->index, 0); i != SIZE_MAX; \
         i = map_index_next(&(m)->index, i + 1))
#define map_key(m, i)   ((m)->index.entries[i].key)
#define map_value(m, i) (&(m)->values[i])

#define map_done(m) (map_index_done(&(m)->index), free((m)->values), (void)((m)->values = NULL))
// NOLINTEND(bugprone-macro-parentheses)

#endif
