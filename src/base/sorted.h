// SPDX-License-Identifier: Apache-2.0
//
// An ordered set of pointers: sorted blocks, in order. Finding is two binary searches; inserting
// moves at most one block's pointers, and the list of blocks when one splits; little memory beside
// the pointers. The items' keys must not change while they are in it.
#ifndef BASE_SORTED_H
#define BASE_SORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A run of items; never empty while it is in a set.
struct sorted_block {
    uint32_t n, cap;
    void *items[];
};

// sorted_cmp_fn compares an item with a key: <0 when the item comes before it, 0, >0.
typedef int (*sorted_cmp_fn)(const void *item, const void *key);

struct sorted {
    sorted_cmp_fn cmp;
    struct sorted_block **blocks;
    size_t n, cap;
    size_t len;       // items in all blocks
    uint64_t changes; // places found before a change mean nothing after it
};

struct sorted_place {
    size_t block, at;
};

static inline void sorted_init(struct sorted *s, sorted_cmp_fn cmp)
{
    *s = (struct sorted){.cmp = cmp};
}

// sorted_done frees the set, not the items.
void sorted_done(struct sorted *s);

// sorted_add puts item under key, which must be its own. False, with nothing changed, when the key
// is there.
bool sorted_add(struct sorted *s, const void *key, void *item);

// sorted_remove takes the item under key out and returns it, or NULL.
void *sorted_remove(struct sorted *s, const void *key);

// sorted_find is the item under key, or NULL.
void *sorted_find(const struct sorted *s, const void *key);

// sorted_seek finds the first place behind key, or at it when that is wanted.
struct sorted_place sorted_seek(const struct sorted *s, const void *key, bool at_too);

// sorted_at is the item at a place, NULL at the end; sorted_step goes from an item to the next. A
// zeroed place is the first. Inline: lists are walks.
static inline void *sorted_at(const struct sorted *s, struct sorted_place p)
{
    return p.block < s->n ? s->blocks[p.block]->items[p.at] : NULL;
}

static inline struct sorted_place sorted_step(const struct sorted *s, struct sorted_place p)
{
    // A place behind a block's last item is the next block's first.
    if (++p.at == s->blocks[p.block]->n)
        p = (struct sorted_place){p.block + 1, 0};
    return p;
}

#endif
