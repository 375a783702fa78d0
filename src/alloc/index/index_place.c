// SPDX-License-Identifier: Apache-2.0
//
// Where nodes stand: the set of shared pools that a node sees, the cell of nodes with equal devices
// and set, the group of cells in one state. A change of a node moves it from cell to cell; a change
// of a shared pool moves the cells of its sets, not their nodes.
#include <stdlib.h>

#include "alloc/index/index_int.h"
#include "api/match/label.h"
#include "api/match/node.h"
#include "base/hash.h"

#include "base/banned.h"

static struct str index_place_bytes_of(const void *p, size_t n)
{
    return str_make(p, n);
}

// --- Groups --------------------------------------------------------------------------------------

// index_bucket_of is where a group stands among those that are walked.
static struct index_groups *index_bucket_of(struct index *x, const struct index_group *g)
{
    struct index_bucket *b = &x->group.buckets[g->idle < BUCKETS ? g->idle : BUCKETS - 1];
    return g->loose ? &b->loose : &b->firm;
}

static void bucket_leave(struct index *x, struct index_group *g)
{
    struct index_groups *b = index_bucket_of(x, g);
    struct index_group *last = vec_pop(b);
    if (last != g) {
        b->p[g->in_bucket] = last;
        last->in_bucket = g->in_bucket;
    }
}

static void bucket_enter(struct index *x, struct index_group *g, const struct index_cell *c)
{
    g->idle = c->idle + c->set->idle;
    g->loose = c->loose || c->set->loose;
    struct index_groups *b = index_bucket_of(x, g);
    g->in_bucket = (uint32_t)b->n;
    vec_push(b, g);
}

// A number that was given back, or the next.
static uint32_t index_place_take_number(struct index_numbers *spare, size_t next)
{
    return spare->n ? vec_pop(spare) : (uint32_t)next;
}

static struct index_group *group_get(struct index *x, uint64_t state, const struct index_cell *c)
{
    struct index_group **known =
        map_get(&x->group.by_state, index_place_bytes_of(&state, sizeof(state)));
    if (known)
        return *known;
    struct index_group *g = xcalloc(1, sizeof(*g));
    g->state = state;
    g->born = ++x->group.births;
    g->number = index_place_take_number(&x->group.free, x->group.all.n);
    if (g->number == x->group.all.n)
        vec_push(&x->group.all, g);
    else
        x->group.all.p[g->number] = g;
    bucket_enter(x, g, c);
    *map_put(&x->group.by_state, index_place_bytes_of(&g->state, sizeof(g->state))) = g;
    return g;
}

static void group_leave(struct index *x, struct index_cell *c)
{
    struct index_group *g = c->group;
    struct index_cell *last = vec_pop(&g->cells);
    if (last != c) {
        g->cells.p[c->in_group] = last;
        last->in_group = c->in_group;
    }
    c->group = NULL;
    if (g->cells.n)
        return;
    bucket_leave(x, g);
    (void)map_del(&x->group.by_state, index_place_bytes_of(&g->state, sizeof(g->state)));
    x->group.all.p[g->number] = NULL;
    vec_push(&x->group.free, g->number);
    vec_done(&g->cells);
    free(g);
}

static void group_enter(struct index *x, struct index_cell *c)
{
    uint64_t state = index_mix(c->own, c->set->state);
    struct index_group *g = group_get(x, state ? state : 1, c);
    c->group = g;
    c->in_group = (uint32_t)g->cells.n;
    vec_push(&g->cells, c);
}

// --- Cells ---------------------------------------------------------------------------------------

struct cell_key {
    uint64_t own;
    const struct index_set *set;
};

static struct index_cell *cell_get(struct index *x, uint64_t own, struct index_set *set,
                                   uint32_t idle, bool loose)
{
    struct cell_key key = {own, set};
    struct index_cell **known = map_get(&x->cell.by_own, index_place_bytes_of(&key, sizeof(key)));
    if (known)
        return *known;
    struct index_cell *c = xcalloc(1, sizeof(*c));
    c->own = own;
    c->set = set;
    c->idle = idle;
    c->loose = loose;
    c->number = index_place_take_number(&x->cell.free, x->cell.all.n);
    if (c->number == x->cell.all.n)
        vec_push(&x->cell.all, c);
    else
        x->cell.all.p[c->number] = c;
    c->in_set = (uint32_t)set->cells.n;
    vec_push(&set->cells, c);
    _Static_assert(offsetof(struct index_cell, set) ==
                       offsetof(struct index_cell, own) + sizeof(uint64_t),
                   "own and set are the key");
    *map_put(&x->cell.by_own, index_place_bytes_of(&c->own, sizeof(key))) = c;
    group_enter(x, c);
    return c;
}

static void cell_drop(struct index *x, struct index_cell *c)
{
    struct index_cells *in = &c->set->cells;
    struct index_cell *last = vec_pop(in);
    if (last != c) {
        in->p[c->in_set] = last;
        last->in_set = c->in_set;
    }
    group_leave(x, c);
    (void)map_del(&x->cell.by_own, index_place_bytes_of(&c->own, sizeof(struct cell_key)));
    x->cell.all.p[c->number] = NULL;
    vec_push(&x->cell.free, c->number);
    vec_done(&c->nodes);
    free(c);
}

static void index_place_touch_node(struct index *x, uint32_t number)
{
    if (x->touched.n <= x->nodes.n)
        vec_push(&x->touched, number);
}

static void cell_leave(struct index *x, struct index_node *n)
{
    struct index_cell *c = n->cell;
    crowd_remove(&c->nodes, x->places.p, n->number);
    c->set->nodes--;
    n->cell = NULL;
    if (!c->nodes.n)
        cell_drop(x, c);
}

// --- Sets ----------------------------------------------------------------------------------------

// Which slices and devices of a shared pool are for a node; a hash of 0: none is.
static struct index_seen pool_seen(const struct index_pool *p, const struct api_node *node)
{
    uint64_t h = 0;
    uint32_t devices = 0;
    bool any = false;
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct api_resource_slice_spec *s = &p->slices.p[i]->api->spec;
        bool each = s->has_per_device_node_selection && s->per_device_node_selection;
        int r = node_matches(node, s->node_name, s->has_all_nodes && s->all_nodes, s->node_selector,
                             NULL);
        any |= each || r != 0;
        h = index_mix(h, (uint64_t)(unsigned)(r + 2));
        devices += r && !each ? (uint32_t)s->devices.n : 0;
        for (size_t k = 0; each && k < s->devices.n; k++) {
            const struct api_device *d = &s->devices.p[k];
            r = node_matches(node, d->node_name, d->has_all_nodes && d->all_nodes, d->node_selector,
                             NULL);
            h = index_mix(h, (uint64_t)(unsigned)(r + 2));
            devices += r != 0;
        }
    }
    return (struct index_seen){any ? h | 1 : 0, devices};
}

static void set_state(struct index_set *s)
{
    uint64_t h = 0;
    s->idle = 0;
    s->loose = false;
    for (size_t i = 0; i < s->pools.n; i++) {
        const struct index_pool *p = s->pools.p[i];
        const struct index_seen *seen = &s->seen.p[i];
        h = index_mix(index_mix(h, p->state), seen->hash);
        s->idle += p->idle < seen->devices ? p->idle : seen->devices;
        s->loose |= p->shareable;
    }
    s->state = h;
}

// The place of a pool in a set, or where it would be.
static size_t set_find(const struct index_set *s, const struct index_pool *p, bool *ret_there)
{
    size_t from = 0;
    size_t to = s->pools.n;
    while (from < to) {
        size_t at = from + (to - from) / 2;
        if (str_cmp(s->pools.p[at]->key, p->key) < 0)
            from = at + 1;
        else
            to = at;
    }
    *ret_there = from < s->pools.n && s->pools.p[from] == p;
    return from;
}

static void set_put(struct index_set *s, struct index_pool *p, struct index_seen seen)
{
    bool there;
    size_t at = set_find(s, p, &there);
    if (there) {
        s->seen.p[at] = seen;
        return;
    }
    vec_push(&p->sets, s);
    vec_push(&s->pools, p);
    vec_push(&s->seen, seen);
    for (size_t i = s->pools.n - 1; i > at; i--) {
        s->pools.p[i] = s->pools.p[i - 1];
        s->seen.p[i] = s->seen.p[i - 1];
    }
    s->pools.p[at] = p;
    s->seen.p[at] = seen;
}

static void pool_unlist(struct index_pool *p, const struct index_set *s)
{
    for (size_t i = 0; i < p->sets.n; i++)
        if (p->sets.p[i] == s) {
            p->sets.p[i] = vec_pop(&p->sets);
            return;
        }
}

static void set_take(struct index_set *s, size_t at)
{
    pool_unlist(s->pools.p[at], s);
    s->pools.n--;
    s->seen.n--;
    for (size_t i = at; i < s->pools.n; i++) {
        s->pools.p[i] = s->pools.p[i + 1];
        s->seen.p[i] = s->seen.p[i + 1];
    }
}

static void index_place_write_labels(const struct index *x, const struct index_node *n,
                                     struct sbuf *out)
{
    const struct api_node *node = n->object.value;
    map_foreach(&x->shared.label_keys, i) {
        const struct str *v =
            api_map_find(&node->metadata.labels, map_key(&x->shared.label_keys, i));
        sbuf_addc(out, v ? '=' : '-');
        if (v)
            sbuf_add(out, *v);
        sbuf_addc(out, '\0');
    }
    if (map_has(&x->shared.node_names, n->name))
        sbuf_add(out, n->name);
}

static struct index_set *set_get(struct index *x, const struct index_node *n)
{
    cleanup_sbuf struct sbuf labels = {0};
    index_place_write_labels(x, n, &labels);
    struct index_set **known = map_get(&x->sets, sbuf_str(&labels));
    if (known)
        return *known;
    struct index_set *s = xcalloc(1, sizeof(*s));
    s->labels = str_make(xstrndup(labels.p ? labels.p : "", labels.n), labels.n);
    *map_put(&x->sets, s->labels) = s;
    vec_foreach(&x->shared.pools, p) {
        struct index_seen seen = pool_seen(*p, n->object.value);
        if (seen.hash)
            set_put(s, *p, seen);
    }
    set_state(s);
    return s;
}

static void set_maybe_drop(struct index *x, struct index_set *s)
{
    if (s->cells.n)
        return;
    (void)map_del(&x->sets, s->labels);
    index_view_done(x, s);
    for (size_t i = 0; i < s->pools.n; i++)
        pool_unlist(s->pools.p[i], s);
    for (size_t i = 0; i < x->dirty.n; i++) // also one that was settled by itself
        if (x->dirty.p[i] == s)
            x->dirty.p[i] = NULL;
    vec_done(&s->pools);
    vec_done(&s->seen);
    vec_done(&s->cells);
    free((void *)(uintptr_t)s->labels.p);
    free(s);
}

// --- Nodes ---------------------------------------------------------------------------------------

// Pools are searched by name: where the node's own stand among shared ones of their driver.
static uint64_t index_place_hash_ranks(const struct index_node *n, const struct index_set *s)
{
    uint64_t h = 0;
    for (size_t i = 0; s->pools.n && i < n->pools.n; i++) {
        bool there;
        size_t at = set_find(s, n->pools.p[i], &there);
        size_t from = at;
        while (from && str_eq(s->pools.p[from - 1]->driver, n->pools.p[i]->driver))
            from--;
        h = index_mix(h, at - from);
    }
    return h;
}

static void index_place_enter_cell(struct index *x, struct index_node *n)
{
    index_place_settle(x, n->set);
    uint32_t idle;
    bool loose;
    uint64_t own = index_key_node(n, &idle, &loose);
    own = index_mix(own, index_place_hash_ranks(n, n->set));
    if (n->cell && n->cell->own == own && n->cell->set == n->set)
        return;
    struct index_cell *old = n->cell;
    struct index_cell *c = cell_get(x, own, n->set, idle, loose);
    if (old)
        cell_leave(x, n);
    while (x->places.n <= n->number)
        vec_push(&x->places, 0);
    n->cell = c;
    crowd_add(&c->nodes, x->places.p, (struct crowd_member){n->number, n->number});
    c->set->nodes++;
}

void index_place_own(struct index *x, struct index_node *n)
{
    if (n->number == UINT32_MAX)
        return;
    index_place_enter_cell(x, n);
    index_place_touch_node(x, n->number);
}

void index_place_node(struct index *x, struct index_node *n)
{
    if (n->number == UINT32_MAX)
        return;
    struct index_set *old = n->set;
    n->set = set_get(x, n);
    if (old != n->set)
        index_view_drop(x, n, true);
    index_place_own(x, n);
    if (old && old != n->set)
        set_maybe_drop(x, old);
}

void index_place_take(struct index *x, struct index_node *n)
{
    struct index_set *s = n->set;
    if (!n->cell)
        return;
    cell_leave(x, n);
    n->set = NULL;
    set_maybe_drop(x, s);
    index_place_touch_node(x, n->number);
}

// --- Shared pools --------------------------------------------------------------------------------

static void touch_set(struct index *x, const struct index_set *s)
{
    for (size_t i = 0; i < s->cells.n; i++)
        for (size_t k = 0; k < s->cells.p[i]->nodes.n; k++)
            index_place_touch_node(x, s->cells.p[i]->nodes.p[k].node);
}

// The cells of a set go where its state is now.
static void move_cells(struct index *x, struct index_set *s)
{
    set_state(s);
    for (size_t i = 0; i < s->cells.n; i++) {
        group_leave(x, s->cells.p[i]);
        group_enter(x, s->cells.p[i]);
    }
}

void index_place_settle(struct index *x, struct index_set *s)
{
    if (!s->dirty)
        return;
    s->dirty = false;
    move_cells(x, s);
}

void index_place_settle_all(struct index *x)
{
    for (size_t i = 0; i < x->dirty.n; i++)
        if (x->dirty.p[i])
            index_place_settle(x, x->dirty.p[i]);
    x->dirty.n = 0;
}

static void mark_dirty(struct index *x, struct index_set *s)
{
    if (s->dirty)
        return;
    if (x->dirty.n > 2 * map_len(&x->sets) + 16)
        index_place_settle_all(x); // it has sets that were settled one by one
    s->dirty = true;
    vec_push(&x->dirty, s);
}

void index_place_shared(struct index *x, const struct index_pool *p)
{
    size_t nodes = 0;
    for (size_t i = 0; i < p->sets.n; i++)
        nodes += p->sets.p[i]->nodes;
    for (size_t i = 0; i < p->sets.n; i++) {
        p->sets.p[i]->uses_stamp++;
        mark_dirty(x, p->sets.p[i]);
        if (nodes <= TOUCHED_MOST)
            touch_set(x, p->sets.p[i]);
    }
}

// Label keys and node names that a selector asks for. True: some are new.
static bool read_selector(struct index *x, const struct api_node_selector *sel)
{
    bool any = false;
    for (size_t t = 0; sel && t < sel->node_selector_terms.n; t++) {
        const struct api_node_selector_term *term = &sel->node_selector_terms.p[t];
        for (size_t i = 0; i < term->match_expressions.n; i++)
            if (!map_has(&x->shared.label_keys, term->match_expressions.p[i].key)) {
                *map_put(&x->shared.label_keys,
                         arena_str(&x->arena, term->match_expressions.p[i].key)) = true;
                any = true;
            }
        for (size_t i = 0; i < term->match_fields.n; i++)
            for (size_t k = 0; k < term->match_fields.p[i].values.n; k++)
                if (!map_has(&x->shared.node_names, term->match_fields.p[i].values.p[k])) {
                    *map_put(&x->shared.node_names,
                             arena_str(&x->arena, term->match_fields.p[i].values.p[k])) = true;
                    any = true;
                }
    }
    return any;
}

static bool index_place_read_name(struct index *x, struct str name)
{
    if (!name.n || map_has(&x->shared.node_names, name))
        return false;
    *map_put(&x->shared.node_names, arena_str(&x->arena, name)) = true;
    return true;
}

static bool index_place_read_pool(struct index *x, const struct index_pool *p)
{
    bool any = false;
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct api_resource_slice_spec *s = &p->slices.p[i]->api->spec;
        any |= read_selector(x, s->node_selector);
        any |= index_place_read_name(x, s->node_name);
        for (size_t k = 0; k < s->devices.n; k++) {
            any |= read_selector(x, s->devices.p[k].node_selector);
            any |= index_place_read_name(x, s->devices.p[k].node_name);
        }
    }
    return any;
}

// Some node of a set: they see the same.
static const struct api_node *index_place_sample_node(const struct index *x,
                                                      const struct index_set *s)
{
    return x->nodes.p[s->cells.p[0]->nodes.p[0].node]->object.value;
}

// The nodes of a set stand elsewhere among its pools now.
static void enter_again(struct index *x, struct index_set *s)
{
    struct index_numbers all = {0};
    for (size_t i = 0; i < s->cells.n; i++)
        for (size_t k = 0; k < s->cells.p[i]->nodes.n; k++)
            vec_push(&all, s->cells.p[i]->nodes.p[k].node);
    vec_foreach(&all, number)
        index_place_enter_cell(x, x->nodes.p[*number]);
    vec_done(&all);
}

void index_place_visible(struct index *x, struct index_pool *p, bool gone)
{
    index_place_settle_all(x);
    // With more labels to distinguish nodes by, each looks up its set again.
    if (!gone && index_place_read_pool(x, p)) {
        for (size_t i = 0; i < x->nodes.n; i++)
            if (x->nodes.p[i])
                index_place_node(x, x->nodes.p[i]);
    }
    map_foreach(&x->sets, i) {
        struct index_set *s = *map_value(&x->sets, i);
        bool there;
        size_t at = set_find(s, p, &there);
        struct index_seen seen = {0};
        if (!gone)
            seen = pool_seen(p, index_place_sample_node(x, s));
        if (!there && !seen.hash)
            continue;
        if (seen.hash)
            set_put(s, p, seen);
        else
            set_take(s, at);
        s->slices_stamp++;
        s->uses_stamp++;
        move_cells(x, s);
        touch_set(x, s);
        if (!there || !seen.hash)
            enter_again(x, s);
    }
}

void index_place_done(struct index *x)
{
    map_done(&x->sets);
    vec_done(&x->dirty);
    vec_done(&x->shared.pools);
    map_done(&x->cell.by_own);
    map_done(&x->group.by_state);
    map_done(&x->shared.label_keys);
    map_done(&x->shared.node_names);
    vec_done(&x->places);
    vec_done(&x->cell.all);
    vec_done(&x->cell.free);
    vec_done(&x->group.all);
    vec_done(&x->group.free);
    for (size_t i = 0; i < BUCKETS; i++) {
        vec_done(&x->group.buckets[i].firm);
        vec_done(&x->group.buckets[i].loose);
    }
}
