// SPDX-License-Identifier: Apache-2.0
//
// Linear probing over positions into a dense entry array. A deleted entry stays, marked dead, so
// that probe chains hold; the next rebuild drops it.
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"

#include "base/banned.h"

// Slots hold 32-bit positions.
#define MAP_ENTRIES_MAX ((size_t)UINT32_MAX - 1)

static size_t map_probe_slot(const struct map_index *m, struct str key, uint64_t hash)
{
    size_t mask = m->slots_len - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        if (m->slots[at] == 0)
            return SIZE_MAX;
        const struct map_entry *e = &m->entries[m->slots[at] - 1];
        if (e->live && e->hash == hash && str_eq(e->key, key))
            return m->slots[at] - 1;
    }
}

size_t map_index_find(const struct map_index *m, struct str key)
{
    return m->live ? map_probe_slot(m, key, hash_str(key)) : SIZE_MAX;
}

static void link_slot(struct map_index *m, size_t entry)
{
    size_t mask = m->slots_len - 1;
    size_t at = (size_t)m->entries[entry].hash & mask;
    while (m->slots[at] != 0)
        at = (at + 1) & mask;
    m->slots[at] = (uint32_t)(entry + 1);
}

// Drops dead entries; order stays.
static void map_compact_entries(struct map_index *m, char *values, size_t value_size)
{
    size_t to = 0;
    for (size_t from = 0; from < m->used; from++) {
        if (!m->entries[from].live)
            continue;
        if (to != from) {
            m->entries[to] = m->entries[from];
            memcpy(values + to * value_size, values + from * value_size, value_size);
        }
        to++;
    }
    m->used = to;
}

// Makes room for one more entry: compacts when much is dead, else grows; rebuilds the slots.
static void map_make_room(struct map_index *m, void **values, size_t value_size)
{
    assert(m->used < MAP_ENTRIES_MAX);
    if (m->used)
        map_compact_entries(m, *values, value_size);
    if (m->used >= m->cap / 2) {
        m->cap = m->cap ? m->cap * 2 : 8;
        m->entries = xreallocarray(m->entries, m->cap, sizeof(*m->entries));
        *values = xreallocarray(*values, m->cap, value_size);
        m->slots_len = m->cap * 2;
        m->slots = xreallocarray(m->slots, m->slots_len, sizeof(*m->slots));
    }
    memset(m->slots, 0, m->slots_len * sizeof(*m->slots));
    for (size_t i = 0; i < m->used; i++)
        link_slot(m, i);
}

size_t map_index_put(struct map_index *m, void **values, size_t value_size, struct str key,
                     bool *ret_new)
{
    uint64_t hash = hash_str(key);
    size_t found = m->live ? map_probe_slot(m, key, hash) : SIZE_MAX;
    if (ret_new)
        *ret_new = found == SIZE_MAX;
    if (found != SIZE_MAX)
        return found;
    if (m->used == m->cap)
        map_make_room(m, values, value_size);
    size_t at = m->used++;
    m->entries[at] = (struct map_entry){key, hash, true};
    memset((char *)*values + at * value_size, 0, value_size);
    link_slot(m, at);
    m->live++;
    return at;
}

bool map_index_del(struct map_index *m, struct str key)
{
    size_t at = map_index_find(m, key);
    if (at == SIZE_MAX)
        return false;
    m->entries[at].live = false;
    m->entries[at].key = (struct str){0}; // the key's bytes may go away now
    m->live--;
    return true;
}

size_t map_index_next(const struct map_index *m, size_t at)
{
    while (at < m->used && !m->entries[at].live)
        at++;
    return at < m->used ? at : SIZE_MAX;
}

void map_index_done(struct map_index *m)
{
    free(m->entries);
    free(m->slots);
    *m = (struct map_index){0};
}
