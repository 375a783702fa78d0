// SPDX-License-Identifier: Apache-2.0
//
// The hash of entries, by open addressing. Keys are read from the objects, so an entry needs no
// copy of its key.
#include "store/index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/custom.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/store_int.h"

#include "base/banned.h"

struct store_key store_entry_key(const struct entry *e)
{
    const struct object *o = e->visible ? e->visible : e->head ? e->head : e->newest->object;
    return (struct store_key){o->kind, o->namespace, o->name};
}

size_t store_kind_number(const struct api_kind *kind)
{
    return kind->custom ? api_kinds_len + kind->custom->number : (size_t)(kind - api_kinds);
}

static int store_key_cmp(const struct store_key *a, const struct store_key *b)
{
    if (a->kind != b->kind)
        return store_kind_number(a->kind) < store_kind_number(b->kind) ? -1 : 1;
    int order = str_cmp(a->namespace, b->namespace);
    return order ? order : str_cmp(a->name, b->name);
}

int store_entry_order(const void *entry, const void *key)
{
    struct store_key k = store_entry_key(entry);
    return store_key_cmp(&k, key);
}

// --- Hash of entries -----------------------------------------------------------------------------

#define MIX UINT64_C(0x9e3779b97f4a7c15)

static uint64_t index_mix_hash(uint64_t h, uint64_t v)
{
    h = (h ^ v) * MIX;
    return h ^ h >> 29;
}

uint32_t store_key_hash(const struct store_key *key)
{
    uint64_t h = index_mix_hash(hash_str(key->name), hash_str(key->namespace));
    return (uint32_t)(index_mix_hash(h, store_kind_number(key->kind)) >> 32);
}

struct entry *index_table_find(const struct entry_table *t, const struct store_key *key)
{
    if (t->n == 0)
        return NULL;
    uint32_t hash = store_key_hash(key);
    size_t mask = t->slots_len - 1;
    for (size_t at = hash & mask; t->slots[at]; at = (at + 1) & mask) {
        struct entry *e = t->slots[at];
        if (e->hash != hash)
            continue;
        struct store_key k = store_entry_key(e);
        if (store_key_cmp(&k, key) == 0)
            return e;
    }
    return NULL;
}

static void index_table_link(struct entry_table *t, struct entry *e)
{
    size_t mask = t->slots_len - 1;
    size_t at = e->hash & mask;
    while (t->slots[at])
        at = (at + 1) & mask;
    t->slots[at] = e;
}

void index_table_add(struct entry_table *t, struct entry *e)
{
    if ((t->n + 1) * 4 > t->slots_len * 3) {
        struct entry_table old = *t;
        t->slots_len = old.slots_len ? old.slots_len * 2 : 16;
        t->slots = xcalloc(t->slots_len, sizeof(struct entry *));
        for (size_t i = 0; i < old.slots_len; i++)
            if (old.slots[i])
                index_table_link(t, old.slots[i]);
        free(old.slots);
    }
    index_table_link(t, e);
    t->n++;
}

void index_table_remove(struct entry_table *t, const struct entry *e)
{
    size_t mask = t->slots_len - 1;
    size_t hole = e->hash & mask;
    while (t->slots[hole] != e)
        hole = (hole + 1) & mask;
    // What stands behind moves up unless it would come before its own place.
    for (size_t at = (hole + 1) & mask; t->slots[at]; at = (at + 1) & mask) {
        size_t home = t->slots[at]->hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            t->slots[hole] = t->slots[at];
            hole = at;
        }
    }
    t->slots[hole] = NULL;
    t->n--;
}

void index_table_done(struct entry_table *t)
{
    free(t->slots);
    *t = (struct entry_table){0};
}
