// SPDX-License-Identifier: Apache-2.0
//
// The memory index, private to the store: an entry for every key that exists, existed within the
// history or is being written, and a hash to find one. (Ordered sets: base/sorted.h.)
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sorted.h"
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

// store_kind_number is the position of a kind: first those of the schema, then those users added.
size_t store_kind_number(const struct api_kind *kind);

// store_entry_key is the key of an entry; its texts live as long as the version they come from.
struct store_key store_entry_key(const struct entry *e);

// store_entry_order compares an entry with a struct store_key: by kind, namespace and name.
int store_entry_order(const void *entry, const void *key);

// --- Hash of entries -----------------------------------------------------------------------------

struct entry_table {
    struct entry **slots;
    size_t slots_len; // a power of two, or 0
    size_t n;
};

uint32_t store_key_hash(const struct store_key *key);
struct entry *index_table_find(const struct entry_table *t, const struct store_key *key);
void index_table_add(struct entry_table *t, struct entry *e);
void index_table_remove(struct entry_table *t, const struct entry *e);
void index_table_done(struct entry_table *t);

#endif
