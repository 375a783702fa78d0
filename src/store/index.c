// SPDX-License-Identifier: Apache-2.0
#include "store/index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "store/store_int.h"

#include "base/banned.h"

#define BLOCK_ENTRIES_MAX   256
#define BLOCK_ENTRIES_FIRST 4

struct store_key entry_key(const struct entry *e)
{
    const struct object *o = e->visible ? e->visible : e->head ? e->head : e->newest->object;
    return (struct store_key){o->kind, o->namespace, o->name};
}

int store_key_cmp(const struct store_key *a, const struct store_key *b)
{
    // All kinds stand in one table, so that their addresses are an order that every run shares.
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    int order = str_cmp(a->namespace, b->namespace);
    return order ? order : str_cmp(a->name, b->name);
}

// --- Ordered sets --------------------------------------------------------------------------------

static int cmp_at(const struct index_block *b, size_t at, const struct store_key *key)
{
    struct store_key k = entry_key(b->entries[at]);
    return store_key_cmp(&k, key);
}

// The last block whose first entry is not behind key; the first block when all are.
static size_t find_block(const struct index *x, const struct store_key *key)
{
    size_t low = 0, high = x->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (cmp_at(x->blocks[mid], 0, key) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? low - 1 : 0;
}

// The first place in a block that is not before key.
static size_t find_in_block(const struct index_block *b, const struct store_key *key)
{
    size_t low = 0, high = b->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (cmp_at(b, mid, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct index_place settle(const struct index *x, struct index_place p)
{
    if (p.block < x->n && p.at == x->blocks[p.block]->n)
        return (struct index_place){p.block + 1, 0};
    return p;
}

struct index_place index_seek(const struct index *x, const struct store_key *key, bool at_too)
{
    if (x->n == 0)
        return (struct index_place){0, 0};
    struct index_place p = {.block = find_block(x, key)};
    const struct index_block *b = x->blocks[p.block];
    p.at = find_in_block(b, key);
    if (!at_too && p.at < b->n && cmp_at(b, p.at, key) == 0)
        p.at++;
    return settle(x, p);
}

struct entry *index_at(const struct index *x, struct index_place p)
{
    return p.block < x->n ? x->blocks[p.block]->entries[p.at] : NULL;
}

struct index_place index_step(const struct index *x, struct index_place p)
{
    p.at++;
    return settle(x, p);
}

static struct index_block *block_resize(struct index_block *b, uint32_t cap)
{
    bool fresh = !b;
    b = xrealloc(b, sizeof(*b) + cap * sizeof(struct entry *));
    if (fresh)
        b->n = 0;
    b->cap = cap;
    return b;
}

static void insert_block(struct index *x, size_t at, struct index_block *b)
{
    if (x->n == x->cap) {
        x->cap = x->cap ? x->cap * 2 : 1;
        x->blocks = xreallocarray(x->blocks, x->cap, sizeof(struct index_block *));
    }
    memmove(x->blocks + at + 1, x->blocks + at, (x->n - at) * sizeof(struct index_block *));
    x->blocks[at] = b;
    x->n++;
}

// Splits a full block. Keys that come in order fill the left one, so that it is left nearly full.
static void split_block(struct index *x, size_t at, bool at_end)
{
    struct index_block *left = x->blocks[at];
    uint32_t keep = at_end ? left->n - left->n / 16 : left->n / 2;
    struct index_block *right = block_resize(NULL, BLOCK_ENTRIES_MAX);
    right->n = left->n - keep;
    memcpy(right->entries, left->entries + keep, right->n * sizeof(struct entry *));
    left->n = keep;
    insert_block(x, at + 1, right);
}

void index_add(struct index *x, struct entry *e)
{
    struct store_key key = entry_key(e);
    if (x->n == 0)
        insert_block(x, 0, block_resize(NULL, BLOCK_ENTRIES_FIRST));
    size_t at_block = x->blocks[0]->n ? find_block(x, &key) : 0;
    struct index_block *b = x->blocks[at_block];
    size_t at = find_in_block(b, &key);
    if (at < b->n && b->entries[at] == e)
        return;
    assert(at == b->n || cmp_at(b, at, &key) != 0);
    if (b->n == BLOCK_ENTRIES_MAX) {
        split_block(x, at_block, at_block + 1 == x->n && at == b->n);
        if (at > b->n) {
            at -= b->n;
            at_block++;
        }
        b = x->blocks[at_block];
    }
    if (b->n == b->cap)
        b = x->blocks[at_block] = block_resize(b, b->cap * 2);
    memmove(b->entries + at + 1, b->entries + at, (b->n - at) * sizeof(struct entry *));
    b->entries[at] = e;
    b->n++;
    x->len++;
    x->changes++;
}

static void remove_block(struct index *x, size_t at)
{
    free(x->blocks[at]);
    x->n--;
    memmove(x->blocks + at, x->blocks + at + 1, (x->n - at) * sizeof(struct index_block *));
}

// Joins a block with the one behind it when both fit well into one.
static void join_blocks(struct index *x, size_t at)
{
    if (at + 1 >= x->n || x->blocks[at]->n + x->blocks[at + 1]->n > BLOCK_ENTRIES_MAX / 2)
        return;
    struct index_block *left = x->blocks[at], *right = x->blocks[at + 1];
    if (left->cap < BLOCK_ENTRIES_MAX)
        left = x->blocks[at] = block_resize(left, BLOCK_ENTRIES_MAX);
    memcpy(left->entries + left->n, right->entries, right->n * sizeof(struct entry *));
    left->n += right->n;
    remove_block(x, at + 1);
}

void index_remove(struct index *x, const struct entry *e)
{
    struct store_key key = entry_key(e);
    if (x->n == 0)
        return;
    size_t at_block = find_block(x, &key);
    struct index_block *b = x->blocks[at_block];
    size_t at = find_in_block(b, &key);
    if (at == b->n || b->entries[at] != e)
        return;
    b->n--;
    memmove(b->entries + at, b->entries + at + 1, (b->n - at) * sizeof(struct entry *));
    x->len--;
    x->changes++;
    if (b->n == 0)
        remove_block(x, at_block);
    else
        join_blocks(x, at_block ? at_block - 1 : 0);
}

void index_done(struct index *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->blocks[i]);
    free(x->blocks);
    *x = (struct index){0};
}

// --- Hash of entries -----------------------------------------------------------------------------

#define MIX UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * MIX;
    return h ^ h >> 29;
}

static uint64_t kind_number(const struct api_kind *kind)
{
    return (uint64_t)(kind - api_kinds);
}

uint32_t store_key_hash(const struct store_key *key)
{
    uint64_t h = mix(hash_str(key->name), hash_str(key->namespace));
    return (uint32_t)(mix(h, kind_number(key->kind)) >> 32);
}

struct entry *entry_table_find(const struct entry_table *t, const struct store_key *key)
{
    if (t->n == 0)
        return NULL;
    uint32_t hash = store_key_hash(key);
    size_t mask = t->slots_len - 1;
    for (size_t at = hash & mask; t->slots[at]; at = (at + 1) & mask) {
        struct entry *e = t->slots[at];
        if (e->hash != hash)
            continue;
        struct store_key k = entry_key(e);
        if (store_key_cmp(&k, key) == 0)
            return e;
    }
    return NULL;
}

static void entry_table_link(struct entry_table *t, struct entry *e)
{
    size_t mask = t->slots_len - 1;
    size_t at = e->hash & mask;
    while (t->slots[at])
        at = (at + 1) & mask;
    t->slots[at] = e;
}

void entry_table_add(struct entry_table *t, struct entry *e)
{
    if ((t->n + 1) * 4 > t->slots_len * 3) {
        struct entry_table old = *t;
        t->slots_len = old.slots_len ? old.slots_len * 2 : 16;
        t->slots = xcalloc(t->slots_len, sizeof(struct entry *));
        for (size_t i = 0; i < old.slots_len; i++)
            if (old.slots[i])
                entry_table_link(t, old.slots[i]);
        free(old.slots);
    }
    entry_table_link(t, e);
    t->n++;
}

void entry_table_remove(struct entry_table *t, const struct entry *e)
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

void entry_table_done(struct entry_table *t)
{
    free(t->slots);
    *t = (struct entry_table){0};
}

// --- Labels and owners ---------------------------------------------------------------------------

uint64_t term_label_hash(const struct api_kind *kind, struct str key, struct str value)
{
    return mix(mix(hash_str(key), hash_str(value)), kind_number(kind) + 1);
}

uint64_t term_owner_hash(struct str uid)
{
    return mix(hash_str(uid), UINT64_MAX);
}

static bool term_used(const struct term *t)
{
    return t->one || t->many;
}

static struct term *term_slot(const struct term_table *t, uint64_t hash)
{
    size_t mask = t->slots_len - 1;
    size_t at = (size_t)hash & mask;
    while (term_used(&t->slots[at]) && t->slots[at].hash != hash)
        at = (at + 1) & mask;
    return &t->slots[at];
}

const struct term *term_table_find(const struct term_table *t, uint64_t hash)
{
    if (t->n == 0)
        return NULL;
    const struct term *found = term_slot(t, hash);
    return term_used(found) ? found : NULL;
}

static void term_table_grow(struct term_table *t)
{
    struct term_table old = *t;
    t->slots_len = old.slots_len ? old.slots_len * 2 : 16;
    t->slots = xcalloc(t->slots_len, sizeof(struct term));
    for (size_t i = 0; i < old.slots_len; i++)
        if (term_used(&old.slots[i]))
            *term_slot(t, old.slots[i].hash) = old.slots[i];
    free(old.slots);
}

static void term_add(struct term_table *t, uint64_t hash, struct entry *e)
{
    if ((t->n + 1) * 4 > t->slots_len * 3)
        term_table_grow(t);
    struct term *term = term_slot(t, hash);
    if (!term_used(term)) {
        *term = (struct term){.hash = hash, .one = e};
        t->n++;
        return;
    }
    if (term->one == e)
        return;
    if (!term->many) {
        term->many = xcalloc(1, sizeof(*term->many));
        index_add(term->many, term->one);
        term->one = NULL;
    }
    index_add(term->many, e);
}

static void term_drop(struct term_table *t, struct term *term)
{
    size_t mask = t->slots_len - 1;
    size_t hole = (size_t)(term - t->slots);
    for (size_t at = (hole + 1) & mask; term_used(&t->slots[at]); at = (at + 1) & mask) {
        size_t home = (size_t)t->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            t->slots[hole] = t->slots[at];
            hole = at;
        }
    }
    t->slots[hole] = (struct term){0};
    t->n--;
}

static void term_remove(struct term_table *t, uint64_t hash, const struct entry *e)
{
    if (t->n == 0)
        return;
    struct term *term = term_slot(t, hash);
    if (!term_used(term) || (term->one && term->one != e))
        return;
    if (term->many) {
        index_remove(term->many, e);
        if (term->many->len)
            return;
        index_done(term->many);
        free(term->many);
    }
    term_drop(t, term);
}

void term_table_add_object(struct term_table *t, struct entry *e, const struct object *o)
{
    for (size_t i = 0; i < o->labels_len; i++)
        term_add(t, term_label_hash(o->kind, o->labels[i].key, o->labels[i].value), e);
    for (size_t i = 0; i < o->owners_len; i++)
        term_add(t, term_owner_hash(o->owners[i]), e);
}

void term_table_remove_object(struct term_table *t, struct entry *e, const struct object *o)
{
    for (size_t i = 0; i < o->labels_len; i++)
        term_remove(t, term_label_hash(o->kind, o->labels[i].key, o->labels[i].value), e);
    for (size_t i = 0; i < o->owners_len; i++)
        term_remove(t, term_owner_hash(o->owners[i]), e);
}

void term_table_done(struct term_table *t)
{
    for (size_t i = 0; i < t->slots_len; i++) {
        if (t->slots[i].many) {
            index_done(t->slots[i].many);
            free(t->slots[i].many);
        }
    }
    free(t->slots);
    *t = (struct term_table){0};
}
