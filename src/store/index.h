// SPDX-License-Identifier: Apache-2.0
//
// The memory index, private to the store: an entry for every key that exists, existed within the
// history or is being written; a hash to find one, ordered sets to walk them.
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

struct history_event;

// A key and its versions.
struct entry {
    const struct object *visible; // referenced; NULL: there is none
    const struct object *head;    // the newest accepted one, while writes are pending; referenced
    struct history_event *newest; // of this key within the history; older ones hang on it
    uint32_t pending;             // accepted writes that are not visible yet
    uint32_t hash;
    bool head_deleted;
};

// entry_key is the key of an entry; its texts live as long as the version they come from.
struct store_key entry_key(const struct entry *e);

int store_key_cmp(const struct store_key *a, const struct store_key *b);

// --- Ordered sets --------------------------------------------------------------------------------

// Entries in order of kind, namespace and name: sorted blocks of pointers, in order. Finding is two
// binary searches; inserting moves at most one block's pointers, and the list of blocks when one
// splits.
struct index_block {
    uint32_t n, cap;
    struct entry *entries[];
};

struct index {
    struct index_block **blocks;
    size_t n, cap;
    size_t len;       // entries in all blocks
    uint64_t changes; // places found before a change mean nothing after it
};

struct index_place {
    size_t block, at;
};

// index_add and index_remove; adding one that is there, removing one that is not, changes nothing.
void index_add(struct index *x, struct entry *e);
void index_remove(struct index *x, const struct entry *e);
void index_done(struct index *x);

// index_seek finds the first entry behind key, or at it when that is wanted.
struct index_place index_seek(const struct index *x, const struct store_key *key, bool at_too);

// index_at is the entry at a place, NULL at the end; index_step goes to the next.
struct entry *index_at(const struct index *x, struct index_place p);
struct index_place index_step(const struct index *x, struct index_place p);

// --- Hash of entries -----------------------------------------------------------------------------

struct entry_table {
    struct entry **slots;
    size_t slots_len; // a power of two, or 0
    size_t n;
};

uint32_t store_key_hash(const struct store_key *key);
struct entry *entry_table_find(const struct entry_table *t, const struct store_key *key);
void entry_table_add(struct entry_table *t, struct entry *e);
void entry_table_remove(struct entry_table *t, const struct entry *e);
void entry_table_done(struct entry_table *t);

// --- Labels and owners ---------------------------------------------------------------------------

// Sets of entries by the hash of a term (a kind's label with its value, an owner's UID). Different
// terms may share a set: who looks one up compares what the objects say.
struct term {
    uint64_t hash;
    struct entry *one; // the only one; NULL: see many
    struct index *many;
};

struct term_table {
    struct term *slots;
    size_t slots_len;
    size_t n;
};

uint64_t term_label_hash(const struct api_kind *kind, struct str key, struct str value);
uint64_t term_owner_hash(struct str uid);

// term_table_add_object and term_table_remove_object: e is found by every label and owner of o.
void term_table_add_object(struct term_table *t, struct entry *e, const struct object *o);
void term_table_remove_object(struct term_table *t, struct entry *e, const struct object *o);
void term_table_done(struct term_table *t);

// term_table_find is the term's set, NULL when it is empty.
const struct term *term_table_find(const struct term_table *t, uint64_t hash);

#endif
