// SPDX-License-Identifier: Apache-2.0
//
// Pools, their slices and users; classes, rules, nodes. Each change finds out which pools' states
// change by it and notifies index_place.c and index_view.c.
#include <stdlib.h>

#include "alloc/index/index_int.h"
#include "alloc/model/answer.h"
#include "api/match/device_taint.h"
#include "base/hash.h"

#include "base/banned.h"

struct index *index_new(const struct index_options *options)
{
    struct index *x = xcalloc(1, sizeof(*x));
    x->options = *options;
    if (!x->options.devices_kept)
        x->options.devices_kept = DEVICES_KEPT;
    x->kit = alloc_kit_new(&options->features);
    return x;
}

// --- Pools ---------------------------------------------------------------------------------------

static void index_pool_key(struct str driver, struct str name, struct sbuf *out)
{
    sbuf_add(out, driver);
    sbuf_addc(out, '\0');
    sbuf_add(out, name);
}

// What drivers and pools may be called fits; others are found more slowly.
#define NAMES_MAX 384

static struct index_pool *pool_find(const struct index *x, struct str driver, struct str name)
{
    char names[NAMES_MAX];
    cleanup_sbuf struct sbuf key = {0};
    struct str s;
    if (driver.n + name.n < sizeof(names)) {
        memcpy(names, driver.p ? driver.p : "", driver.n);
        names[driver.n] = '\0';
        memcpy(names + driver.n + 1, name.p ? name.p : "", name.n);
        s = str_make(names, driver.n + 1 + name.n);
    } else {
        index_pool_key(driver, name, &key);
        s = sbuf_str(&key);
    }
    struct index_pool **known = map_get(&x->pools, s);
    return known ? *known : NULL;
}

static struct index_pool *pool_get(struct index *x, struct str driver, struct str name)
{
    struct index_pool *p = pool_find(x, driver, name);
    if (p)
        return p;
    cleanup_sbuf struct sbuf key = {0};
    index_pool_key(driver, name, &key);
    p = xcalloc(1, sizeof(*p));
    p->key = str_make(xstrndup(key.p, key.n), key.n);
    p->driver = str_upto(p->key, driver.n);
    p->name = str_from(p->key, driver.n + 1);
    *map_put(&x->pools, p->key) = p;
    return p;
}

static void slice_free(const struct index *x, struct index_slice *s)
{
    index_let_go(x, s->object.owner);
    free(s);
}

static void pool_free(const struct index *x, struct index_pool *p)
{
    vec_foreach(&p->slices, s)
        slice_free(x, *s);
    vec_done(&p->slices);
    vec_done(&p->users);
    vec_done(&p->sets);
    free((void *)(uintptr_t)p->key.p);
    free(p);
}

static void pool_maybe_forget(struct index *x, struct index_pool *p)
{
    if (p->slices.n || p->users.n)
        return;
    (void)map_del(&x->pools, p->key);
    pool_free(x, p);
}

// --- Use -----------------------------------------------------------------------------------------

size_t index_user_len(const struct index_user *u)
{
    return u->allocation ? u->allocation->devices.results.n : u->uses_len;
}

// Results count as the scheduler counts them: admin access uses nothing.
bool index_user_use(const struct index *x, const struct index_user *u, size_t i,
                    struct alloc_use *ret)
{
    if (!u->allocation) {
        *ret = u->uses[i];
        return true;
    }
    const struct api_device_request_allocation_result *r = &u->allocation->devices.results.p[i];
    bool share = x->options.features.consumable_capacity && r->has_share_id;
    *ret = (struct alloc_use){.id = {r->driver, r->pool, r->device},
                              .exclusive = !share,
                              .share = share,
                              .has_capacity = share && r->consumed_capacity.p,
                              .capacity = r->consumed_capacity,
                              .owner = u->owner};
    return !(r->has_admin_access && r->admin_access);
}

static bool index_is_of(const struct alloc_use *u, const struct index_pool *p)
{
    return str_eq(u->id.pool, p->name) && str_eq(u->id.driver, p->driver);
}

// Amounts add up, so that the order in which shares came makes no difference.
static uint64_t index_hash_consumption(const struct alloc_use *u)
{
    uint64_t sum = 0;
    for (size_t i = 0; u->has_capacity && i < u->capacity.n; i++)
        sum += hash_str(u->capacity.p[i].key) *
               (uint64_t)amount_from_quantity(&u->capacity.p[i].value);
    return sum;
}

static void charge_device(struct index_device *d, const struct alloc_use *u, bool take)
{
    uint64_t consumed = index_hash_consumption(u);
    if (u->exclusive)
        d->exclusive = (uint16_t)(take ? d->exclusive + 1 : d->exclusive - 1);
    else
        d->shares = (uint16_t)(take ? d->shares + 1 : d->shares - 1);
    d->consumed = take ? d->consumed + consumed : d->consumed - consumed;
}

static void index_charge_pool(const struct index *x, struct index_pool *p,
                              const struct index_user *u, bool take)
{
    for (size_t i = 0; i < index_user_len(u); i++) {
        struct alloc_use use;
        if (!index_user_use(x, u, i, &use) || !index_is_of(&use, p))
            continue;
        p->uses += take ? 1 : -1;
        for (size_t s = 0; s < p->slices.n; s++) {
            const struct api_device_array *all = &p->slices.p[s]->api->spec.devices;
            for (size_t k = 0; k < all->n; k++)
                if (str_eq(all->p[k].name, use.id.device))
                    charge_device(&p->slices.p[s]->devices[k], &use, take);
        }
    }
}

// --- Changes of pools ----------------------------------------------------------------------------

// The pool's devices are in other use.
static void pool_used(struct index *x, struct index_pool *p)
{
    index_key_pool(p);
    if (p->node) {
        index_view_drop(x, p->node, false);
        index_place_own(x, p->node);
    } else if (p->shared) {
        index_place_shared(x, p);
    }
}

// The pool's devices look otherwise to questions, or rules changed.
static void pool_looks(struct index *x, struct index_pool *p)
{
    index_key_pool(p);
    if (p->node) {
        index_view_drop(x, p->node, true);
        index_place_own(x, p->node);
    } else if (p->shared) {
        index_place_visible(x, p, false);
    }
}

static struct index_node *node_named(struct index *x, struct str name)
{
    struct index_node **known = map_get(&x->by_name, name);
    if (known)
        return *known;
    struct index_node *n = xcalloc(1, sizeof(*n));
    n->name = str_make(xstrndup(name.p, name.n), name.n);
    n->number = UINT32_MAX;
    *map_put(&x->by_name, n->name) = n;
    return n;
}

static void node_maybe_forget(struct index *x, struct index_node *n)
{
    if (n->pools.n || n->number != UINT32_MAX)
        return;
    (void)map_del(&x->by_name, n->name);
    vec_done(&n->pools);
    free((void *)(uintptr_t)n->name.p);
    free(n);
}

static void node_list(struct index_node *n, struct index_pool *p)
{
    vec_push(&n->pools, p);
    size_t at = n->pools.n - 1;
    for (; at && str_cmp(p->key, n->pools.p[at - 1]->key) < 0; at--)
        n->pools.p[at] = n->pools.p[at - 1];
    n->pools.p[at] = p;
}

static void node_unlist(struct index_node *n, const struct index_pool *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->pools.n; i++)
        if (n->pools.p[i] != p)
            n->pools.p[kept++] = n->pools.p[i];
    n->pools.n = kept;
}

static bool any_twice(const struct index_pool *p)
{
    struct MAP(bool) names = {0};
    bool twice = false;
    for (size_t i = 0; i < p->slices.n && !twice; i++) {
        const struct api_device_array *all = &p->slices.p[i]->api->spec.devices;
        for (size_t k = 0; k < all->n && !twice; k++) {
            bool is_new = false;
            (void)map_put_new(&names, all->p[k].name, &is_new);
            twice = !is_new;
        }
    }
    map_done(&names);
    return twice;
}

// Whose pool is it, by its slices? Empty: of no single node.
static struct str owner_of(struct index_pool *p)
{
    struct str node = {0};
    bool shared = false;
    p->shareable = p->grouped = false;
    p->devices = 0;
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct api_resource_slice_spec *spec = &p->slices.p[i]->api->spec;
        shared |= spec->node_name.n == 0 || (node.n && !str_eq(node, spec->node_name)) ||
                  spec->has_per_device_node_selection;
        node = spec->node_name;
        p->devices += (uint32_t)spec->devices.n;
        p->grouped |= cluster_slice_uses_groups(p->slices.p[i]->api);
        for (size_t k = 0; k < spec->devices.n; k++)
            p->shareable |= spec->devices.p[k].has_allow_multiple_allocations &&
                            spec->devices.p[k].allow_multiple_allocations;
    }
    p->shared = shared;
    return shared ? (struct str){0} : node;
}

static void list_shared(struct index *x, struct index_pool *p, bool was_shared)
{
    if (p->shared && !was_shared) {
        p->in_shared = (uint32_t)x->shared.pools.n;
        vec_push(&x->shared.pools, p);
    } else if (!p->shared && was_shared) {
        struct index_pool *last = vec_pop(&x->shared.pools);
        last->in_shared = p->in_shared;
        if (last != p)
            x->shared.pools.p[p->in_shared] = last;
    }
}

// After its slices changed.
static void pool_settle(struct index *x, struct index_pool *p)
{
    struct index_node *old = p->node;
    bool was_shared = p->shared;
    struct str owner = owner_of(p);
    struct index_node *now = owner.n ? node_named(x, owner) : NULL;
    p->twice = any_twice(p);
    index_key_pool(p);
    list_shared(x, p, was_shared);
    if (was_shared && !p->shared)
        index_place_visible(x, p, true);
    if (old != now) {
        if (old)
            node_unlist(old, p);
        p->node = now;
        if (now)
            node_list(now, p);
    }
    if (old) {
        index_view_drop(x, old, true);
        index_place_own(x, old);
    }
    if (now && now != old) {
        index_view_drop(x, now, true);
        index_place_own(x, now);
    }
    if (p->shared)
        index_place_visible(x, p, false);
    if (old && old != now)
        node_maybe_forget(x, old);
}

// --- Slices --------------------------------------------------------------------------------------

static void slice_take(struct index *x, struct index_pool *p, struct str name)
{
    for (size_t i = 0; i < p->slices.n; i++) {
        if (!str_eq(p->slices.p[i]->api->metadata.name, name))
            continue;
        slice_free(x, p->slices.p[i]);
        p->slices.n--;
        for (size_t k = i; k < p->slices.n; k++)
            p->slices.p[k] = p->slices.p[k + 1];
        return;
    }
}

static void slice_put(struct index *x, struct index_pool *p, struct index_object o)
{
    const struct api_resource_slice *api = o.value;
    struct index_slice *s =
        xcalloc(1, sizeof(*s) + api->spec.devices.n * sizeof(struct index_device));
    s->object = o;
    s->api = api;
    index_keep(x, o.owner);
    index_key_slice(x, s);
    vec_push(&p->slices, s);
    size_t at = p->slices.n - 1;
    for (; at && str_cmp(api->metadata.name, p->slices.p[at - 1]->api->metadata.name) < 0; at--)
        p->slices.p[at] = p->slices.p[at - 1];
    p->slices.p[at] = s;
    // What is in use of it was in use before it was published.
    struct index_pool alone = {.driver = p->driver, .name = p->name, .slices = {&s, 1, 1}};
    for (size_t i = 0; i < p->users.n; i++)
        index_charge_pool(x, &alone, p->users.p[i], true);
}

void index_set_slice(struct index *x, struct index_object before, struct index_object after)
{
    const struct api_resource_slice *old = before.value;
    const struct api_resource_slice *new = after.value;
    struct index_pool *from = old ? pool_find(x, old->spec.driver, old->spec.pool.name) : NULL;
    struct index_pool *to = new ? pool_get(x, new->spec.driver, new->spec.pool.name) : NULL;
    // Views borrow from slices: they go first.
    if (from) {
        if (from->node)
            index_view_drop(x, from->node, true);
        slice_take(x, from, old->metadata.name);
    }
    if (from && from != to) {
        pool_settle(x, from);
        pool_maybe_forget(x, from);
    }
    if (to) {
        slice_put(x, to, after);
        pool_settle(x, to);
    }
}

// --- Classes and rules ---------------------------------------------------------------------------

static struct str index_name_of(const struct index_object *o)
{
    _Static_assert(offsetof(struct api_device_class, metadata) ==
                       offsetof(struct api_device_taint_rule, metadata),
                   "classes and rules begin alike");
    const struct api_device_class *c = o->value;
    return c->metadata.name;
}

static void index_replace_object(const struct index *x, struct index_objects *v,
                                 struct index_object before, struct index_object after)
{
    size_t at = v->n;
    for (size_t i = 0; before.value && i < v->n; i++)
        if (str_eq(index_name_of(&v->p[i]), index_name_of(&before)))
            at = i;
    if (after.value)
        index_keep(x, after.owner);
    if (at < v->n) {
        index_let_go(x, v->p[at].owner);
        if (after.value)
            v->p[at] = after;
        else
            v->p[at] = vec_pop(v);
    } else if (after.value) {
        vec_push(v, after);
    }
}

void index_set_class(struct index *x, struct index_object before, struct index_object after)
{
    index_view_drop_all(x);
    index_replace_object(x, &x->classes, before, after);
    map_done(&x->class_index);
    x->class_index = (struct index_class_map){0};
    vec_foreach(&x->classes, c)
        *map_put(&x->class_index, index_name_of(c)) = c->value;
    if (after.value && index_reads_class(x, after.value)) {
        index_stale(x);
        (void)index_catch_up(x, SIZE_MAX);
    }
    x->epoch++;
    // Nodes are what they were, but what they are worth may not be.
    while (x->touched.n <= x->nodes.n)
        vec_push(&x->touched, 0);
}

// Pools that a rule may concern look again.
static void apply_rule(struct index *x, const struct api_device_taint_rule *r)
{
    const struct api_device_taint_selector *s = r ? r->spec.device_selector : NULL;
    if (!s)
        return;
    if (s->has_driver && s->has_pool) {
        struct index_pool *p = pool_find(x, s->driver, s->pool);
        for (size_t k = 0; p && k < p->slices.n; k++)
            index_key_devices(x, p->slices.p[k]);
        if (p)
            pool_looks(x, p);
        return;
    }
    map_foreach(&x->pools, i) {
        struct index_pool *p = *map_value(&x->pools, i);
        if (!device_taint_selects(s, p->driver, p->name, NULL))
            continue;
        for (size_t k = 0; k < p->slices.n; k++)
            index_key_devices(x, p->slices.p[k]);
        pool_looks(x, p);
    }
}

void index_set_rule(struct index *x, struct index_object before, struct index_object after)
{
    index_view_drop_all(x); // views borrow the taints of rules
    index_replace_object(x, &x->rules, before, after);
    apply_rule(x, before.value);
    apply_rule(x, after.value);
}

const struct api_device_class *index_find_class(const struct index *x, struct str name)
{
    const struct api_device_class **c = map_get(&x->class_index, name);
    return c ? *c : NULL;
}

// --- Nodes ---------------------------------------------------------------------------------------

static void node_gone(struct index *x, struct index_node *n)
{
    index_place_take(x, n);
    index_view_drop(x, n, true);
    x->nodes.p[n->number] = NULL;
    n->number = UINT32_MAX;
    index_let_go(x, n->object.owner);
    n->object = (struct index_object){0};
    node_maybe_forget(x, n);
}

void index_set_node(struct index *x, uint32_t number, struct str name, struct index_object object)
{
    while (x->nodes.n <= number)
        vec_push(&x->nodes, NULL);
    struct index_node *n = x->nodes.p[number];
    if (n && (!object.value || !str_eq(n->name, name))) {
        node_gone(x, n);
        n = NULL;
    }
    if (!object.value)
        return;
    if (!n) {
        struct index_node **other = map_get(&x->by_name, name);
        if (other && (*other)->number != UINT32_MAX)
            node_gone(x, *other);
        n = node_named(x, name);
    }
    index_view_drop(x, n, true);
    index_keep(x, object.owner);
    if (n->object.value)
        index_let_go(x, n->object.owner);
    n->object = object;
    n->number = number;
    x->nodes.p[number] = n;
    index_place_node(x, n);
}

// --- Users ---------------------------------------------------------------------------------------

static void user_leave(struct index *x, struct index_user *u)
{
    for (size_t i = 0; i < u->pools.n; i++) {
        struct index_pool *p = u->pools.p[i];
        for (size_t k = 0; k < p->users.n; k++)
            if (p->users.p[k] == u) {
                p->users.p[k] = vec_pop(&p->users);
                break;
            }
        index_charge_pool(x, p, u, false);
        pool_used(x, p);
        pool_maybe_forget(x, p);
    }
    vec_done(&u->pools);
    u->allocation = NULL;
    u->uses = NULL;
    u->uses_len = 0;
}

static bool in_pools(const struct index_user *u, const struct index_pool *p)
{
    for (size_t i = 0; i < u->pools.n; i++)
        if (u->pools.p[i] == p)
            return true;
    return false;
}

static void user_enter(struct index *x, struct index_user *u)
{
    for (size_t i = 0; i < index_user_len(u); i++) {
        struct alloc_use use;
        (void)index_user_use(x, u, i, &use);
        if (u->pools.n && index_is_of(&use, u->pools.p[u->pools.n - 1]))
            continue; // mostly all are of one pool
        struct index_pool *p = pool_get(x, use.id.driver, use.id.pool);
        if (in_pools(u, p))
            continue;
        vec_push(&u->pools, p);
        vec_push(&p->users, u);
        index_charge_pool(x, p, u, true);
        pool_used(x, p);
    }
}

void index_use(struct index *x, struct index_user *u,
               const struct api_allocation_result *allocation)
{
    user_leave(x, u);
    u->allocation = allocation;
    user_enter(x, u);
}

void index_use_list(struct index *x, struct index_user *u, const struct alloc_use *uses,
                    size_t uses_len)
{
    user_leave(x, u);
    u->uses = uses;
    u->uses_len = uses_len;
    user_enter(x, u);
}

bool index_holds(const struct index_user *u)
{
    for (size_t i = 0; i < u->pools.n; i++) {
        bool found = false;
        for (size_t k = 0; k < u->pools.p[i]->users.n; k++)
            found |= u->pools.p[i]->users.p[k] == u;
        if (!found)
            return false;
    }
    return true;
}

// --- Looking -------------------------------------------------------------------------------------

const struct api_device *index_find_device(const struct index *x,
                                           const struct api_device_request_allocation_result *r)
{
    const struct index_pool *p = pool_find(x, r->driver, r->pool);
    for (size_t i = 0; p && i < p->slices.n; i++) {
        const struct api_device_array *all = &p->slices.p[i]->api->spec.devices;
        for (size_t k = 0; k < all->n; k++)
            if (str_eq(all->p[k].name, r->device))
                return &all->p[k];
    }
    return NULL;
}

void index_count_devices(const struct index *x, uint32_t node, size_t *ret_free, size_t *ret_all)
{
    const struct index_node *n = x->nodes.p[node];
    *ret_free = *ret_all = 0;
    for (size_t i = 0; i < n->pools.n; i++) {
        *ret_free += n->pools.p[i]->devices - n->pools.p[i]->taken;
        *ret_all += n->pools.p[i]->devices;
    }
}

uint64_t index_state(struct index *x, uint32_t node)
{
    const struct index_node *n = node < x->nodes.n ? x->nodes.p[node] : NULL;
    if (!n || !n->cell)
        return 0;
    index_place_settle(x, n->set);
    return n->cell->group->state;
}

size_t index_states(struct index *x)
{
    (void)index_catch_up(x, SIZE_MAX);
    index_place_settle_all(x);
    return map_len(&x->group.by_state);
}

struct index_numbers *index_touched(struct index *x)
{
    return &x->touched;
}

void index_free(struct index *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->nodes.n; i++)
        if (x->nodes.p[i])
            node_gone(x, x->nodes.p[i]);
    vec_done(&x->nodes);
    map_foreach(&x->pools, i)
        pool_free(x, *map_value(&x->pools, i));
    map_done(&x->pools);
    map_foreach(&x->by_name, i) {
        struct index_node *n = *map_value(&x->by_name, i);
        vec_done(&n->pools);
        free((void *)(uintptr_t)n->name.p);
        free(n);
    }
    map_done(&x->by_name);
    vec_foreach(&x->classes, c)
        index_let_go(x, c->owner);
    vec_foreach(&x->rules, r)
        index_let_go(x, r->owner);
    vec_done(&x->classes);
    vec_done(&x->rules);
    vec_done(&x->read.list);
    map_done(&x->read.names);
    map_done(&x->class_index);
    index_place_done(x);
    for (size_t i = 0; i < x->questions_len; i++)
        free(x->questions[i].facts);
    vec_done(&x->walk.at);
    vec_done(&x->touched);
    arena_done(&x->arena);
    alloc_kit_free(x->kit);
    free(x);
}
