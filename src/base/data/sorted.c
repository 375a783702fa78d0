// SPDX-License-Identifier: Apache-2.0
//
// Sorted blocks of at most 256 pointers. A block splits when it is full and joins a neighbour when
// both are nearly empty.
#include "base/sorted.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

#define BLOCK_ITEMS_MAX   256
#define BLOCK_ITEMS_FIRST 4

// The last block whose first item is not behind key; the first block when all are.
static size_t find_block(const struct sorted *s, const void *key)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->cmp(s->blocks[mid]->items[0], key) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? low - 1 : 0;
}

// The first place in a block that is not before key; *ret_same when that is the key.
static size_t find_in_block(const struct sorted *s, const struct sorted_block *b, const void *key,
                            bool *ret_same)
{
    size_t low = 0, high = b->n;
    *ret_same = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = s->cmp(b->items[mid], key);
        if (order == 0) {
            *ret_same = true;
            return mid;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct sorted_place sorted_seek(const struct sorted *s, const void *key, bool at_too)
{
    if (s->n == 0)
        return (struct sorted_place){0, 0};
    bool same;
    struct sorted_place p = {.block = find_block(s, key)};
    p.at = find_in_block(s, s->blocks[p.block], key, &same);
    if (same && !at_too)
        p.at++;
    if (p.at == s->blocks[p.block]->n)
        p = (struct sorted_place){p.block + 1, 0};
    return p;
}

void *sorted_find(const struct sorted *s, const void *key)
{
    if (s->n == 0)
        return NULL;
    bool same;
    const struct sorted_block *b = s->blocks[find_block(s, key)];
    size_t at = find_in_block(s, b, key, &same);
    return same ? b->items[at] : NULL;
}

static struct sorted_block *block_resize(struct sorted_block *b, uint32_t cap)
{
    bool fresh = !b;
    b = xrealloc(b, sizeof(*b) + cap * sizeof(b->items[0]));
    if (fresh)
        b->n = 0;
    b->cap = cap;
    return b;
}

static void insert_block(struct sorted *s, size_t at, struct sorted_block *b)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 1;
        s->blocks = xreallocarray(s->blocks, s->cap, sizeof(struct sorted_block *));
    }
    memmove(s->blocks + at + 1, s->blocks + at, (s->n - at) * sizeof(struct sorted_block *));
    s->blocks[at] = b;
    s->n++;
}

// Splits a full block. Keys that come in order leave the left one nearly full.
static void split_block(struct sorted *s, size_t at, bool at_end)
{
    struct sorted_block *left = s->blocks[at];
    uint32_t keep = at_end ? left->n - left->n / 16 : left->n / 2;
    struct sorted_block *right = block_resize(NULL, BLOCK_ITEMS_MAX);
    right->n = left->n - keep;
    memcpy(right->items, left->items + keep, right->n * sizeof(right->items[0]));
    left->n = keep;
    insert_block(s, at + 1, right);
}

bool sorted_add(struct sorted *s, const void *key, void *item)
{
    bool same = false;
    size_t block = 0, at = 0;
    if (s->n == 0) {
        insert_block(s, 0, block_resize(NULL, BLOCK_ITEMS_FIRST));
    } else {
        block = find_block(s, key);
        at = find_in_block(s, s->blocks[block], key, &same);
    }
    if (same)
        return false;
    struct sorted_block *b = s->blocks[block];
    if (b->n == BLOCK_ITEMS_MAX) {
        split_block(s, block, block + 1 == s->n && at == b->n);
        if (at > b->n) {
            at -= b->n;
            block++;
        }
        b = s->blocks[block];
    }
    if (b->n == b->cap)
        b = s->blocks[block] = block_resize(b, b->cap * 2);
    memmove(b->items + at + 1, b->items + at, (b->n - at) * sizeof(b->items[0]));
    b->items[at] = item;
    b->n++;
    s->len++;
    s->changes++;
    return true;
}

static void remove_block(struct sorted *s, size_t at)
{
    free(s->blocks[at]);
    s->n--;
    memmove(s->blocks + at, s->blocks + at + 1, (s->n - at) * sizeof(struct sorted_block *));
}

// Joins a block with the one behind it when both fit well into one.
static void join_blocks(struct sorted *s, size_t at)
{
    if (at + 1 >= s->n || s->blocks[at]->n + s->blocks[at + 1]->n > BLOCK_ITEMS_MAX / 2)
        return;
    struct sorted_block *left = s->blocks[at];
    const struct sorted_block *right = s->blocks[at + 1];
    if (left->cap < left->n + right->n)
        left = s->blocks[at] = block_resize(left, BLOCK_ITEMS_MAX);
    memcpy(left->items + left->n, right->items, right->n * sizeof(right->items[0]));
    left->n += right->n;
    remove_block(s, at + 1);
}

void *sorted_remove(struct sorted *s, const void *key)
{
    if (s->n == 0)
        return NULL;
    bool same;
    size_t block = find_block(s, key);
    struct sorted_block *b = s->blocks[block];
    size_t at = find_in_block(s, b, key, &same);
    if (!same)
        return NULL;
    void *item = b->items[at];
    b->n--;
    memmove(b->items + at, b->items + at + 1, (b->n - at) * sizeof(b->items[0]));
    s->len--;
    s->changes++;
    if (b->n == 0)
        remove_block(s, block);
    else
        join_blocks(s, block ? block - 1 : 0);
    return item;
}

void sorted_done(struct sorted *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->blocks[i]);
    free(s->blocks);
    *s = (struct sorted){.cmp = s->cmp};
}
