// SPDX-License-Identifier: Apache-2.0
#include "store/index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/custom.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/store_int.h"

#include "base/banned.h"

struct store_key entry_key(const struct entry *e)
{
    const struct object *o = e->visible ? e->visible : e->head ? e->head : e->newest->object;
    return (struct store_key){o->kind, o->namespace, o->name};
}

size_t store_kind_number(const struct api_kind *kind)
{
    return kind->custom ? api_kinds_len + kind->custom->number : (size_t)(kind - api_kinds);
}

int store_key_cmp(const struct store_key *a, const struct store_key *b)
{
    if (a->kind != b->kind)
        return store_kind_number(a->kind) < store_kind_number(b->kind) ? -1 : 1;
    int order = str_cmp(a->namespace, b->namespace);
    return order ? order : str_cmp(a->name, b->name);
}

int entry_order(const void *entry, const void *key)
{
    struct store_key k = entry_key(entry);
    return store_key_cmp(&k, key);
}

// --- Hash of entries -----------------------------------------------------------------------------

#define MIX UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * MIX;
    return h ^ h >> 29;
}

uint32_t store_key_hash(const struct store_key *key)
{
    uint64_t h = mix(hash_str(key->name), hash_str(key->namespace));
    return (uint32_t)(mix(h, store_kind_number(key->kind)) >> 32);
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
    return mix(mix(hash_str(key), hash_str(value)), store_kind_number(kind) + 1);
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

// An entry is in a set once, however many of its object's terms lead there.
static void term_set_add(struct sorted *set, struct entry *e)
{
    struct store_key key = entry_key(e);
    (void)sorted_add(set, &key, e);
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
        term->many = xmalloc(sizeof(*term->many));
        sorted_init(term->many, entry_order);
        term_set_add(term->many, term->one);
        term->one = NULL;
    }
    term_set_add(term->many, e);
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
        struct store_key key = entry_key(e);
        (void)sorted_remove(term->many, &key);
        if (term->many->len)
            return;
        sorted_done(term->many);
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
            sorted_done(t->slots[i].many);
            free(t->slots[i].many);
        }
    }
    free(t->slots);
    *t = (struct term_table){0};
}
