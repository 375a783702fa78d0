// SPDX-License-Identifier: Apache-2.0
//
// Calls between the files of the index.
#ifndef ALLOC_INDEX_INDEX_INT_H
#define ALLOC_INDEX_INDEX_INT_H

#include "alloc/index/index_types.h"

// index_mix adds to a hash, in order.
static inline uint64_t index_mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * UINT64_C(0x9E3779B97F4A7C15);
    a ^= a >> 32;
    a *= UINT64_C(0xD6E8FEB86659FD93);
    return a ^ (a >> 29);
}

static inline void index_keep(const struct index *x, const void *owner)
{
    if (x->options.keep)
        x->options.keep(owner);
}

static inline void index_let_go(const struct index *x, const void *owner)
{
    if (x->options.drop)
        x->options.drop(owner);
}

// --- index_key.c, index_reads.c: what questions can see ------------------------------------------

// index_key_slice fills in the hashes of a slice; index_key_devices only those that attributes and
// rules change.
void index_key_slice(const struct index *x, struct index_slice *s);
void index_key_devices(const struct index *x, struct index_slice *s);

// index_key_pool makes the state of a pool of those of its devices. index_key_node is the state of
// a node's own devices, and how many are idle.
void index_key_pool(struct index_pool *p);
uint64_t index_key_node(const struct index_node *n, uint32_t *ret_idle, bool *ret_loose);

// index_reads_class and index_reads_claims find what an object's expressions read. True: that is
// more than before.
bool index_reads_class(struct index *x, const struct api_device_class *c);
bool index_reads_claims(struct index *x, const struct api_resource_claim *const *claims, size_t n);

// index_reads_has reports whether an attribute is among those that are read; name empty: whether
// all of the domain are.
bool index_reads_has(const struct index *x, struct str domain, struct str name);

// index_reads_grow reports whether a slice may have attributes that were not read when it was
// looked at last.
bool index_reads_grow(const struct index *x, const struct index_slice *s);

// index_stale: expressions read attributes that none has read before. All devices have to be looked
// at again (index_catch_up). A slice that has no such attribute costs nothing.
void index_stale(struct index *x);

// index_user_use is the i-th use of a user; false: it holds nothing. index_user_len counts them.
size_t index_user_len(const struct index_user *u);
bool index_user_use(const struct index *x, const struct index_user *u, size_t i,
                    struct alloc_use *ret);

// --- index_place.c: sets, cells, groups ----------------------------------------------------------

// index_place_node puts a node where it belongs; index_place_take takes it out. index_place_own:
// its own pools are in other use. index_place_shared: a shared pool is.
void index_place_node(struct index *x, struct index_node *n);
void index_place_take(struct index *x, struct index_node *n);
void index_place_own(struct index *x, struct index_node *n);
void index_place_shared(struct index *x, const struct index_pool *p);

// index_place_visible: a shared pool has other slices, or is no more shared (gone): who sees it?
void index_place_visible(struct index *x, struct index_pool *p, bool gone);
void index_place_done(struct index *x);

// index_place_settle makes the state of a set current, index_place_settle_all that of every set: a
// shared pool that all nodes see changes them all, which is put off until somebody asks.
void index_place_settle(struct index *x, struct index_set *s);
void index_place_settle_all(struct index *x);

// --- index_walk.c: facts -------------------------------------------------------------------------

// index_fact_of finds or makes a fact; index_fact_known is what is known. index_group_of is the
// group of a node as it is now; NULL: there is no such node.
struct index_fact *index_fact_of(struct index *x, struct index_question *q,
                                 const struct index_group *g);
enum index_known index_fact_known(const struct index *x, const struct index_question *q,
                                  const struct index_group *g);
struct index_group *index_group_of(struct index *x, uint32_t node);

// --- index_view.c --------------------------------------------------------------------------------

// index_view_drop: the node's devices changed (slices), or their use. index_view_drop_all: those of
// all nodes. index_view_done frees what a set keeps.
void index_view_drop(struct index *x, struct index_node *n, bool slices);
void index_view_drop_all(struct index *x);
void index_view_done(struct index *x, struct index_set *set);

#endif
