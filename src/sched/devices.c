// SPDX-License-Identifier: Apache-2.0
//
// Pools, their slices and users; snapshots of nodes. Which nodes to ask is in candidates.c.
#include "sched/devices_int.h"
#include "sched/select.h"

#include "base/banned.h"

static const struct api_resource_slice *slice_of(const struct client_object *o)
{
    return o->object.value;
}

struct devices *devices_new(const struct alloc_features *features, enum alloc_policy policy)
{
    struct devices *d = xcalloc(1, sizeof(*d));
    d->features = *features;
    d->policy = policy;
    d->kit = alloc_kit_new(features);
    return d;
}

// --- Snapshots -----------------------------------------------------------------------------------

static void drop_state(struct snapshot *s)
{
    alloc_cluster_free(s->state);
    s->state = NULL;
}

static void drop_snapshot(struct snapshot *s)
{
    drop_state(s);
    alloc_cluster_free(s->base);
    s->base = NULL;
    vec_foreach(&s->held, o)
        client_object_unref(*o);
    vec_clear(&s->held);
}

static void drop_view(struct dev_node *n)
{
    alloc_view_free(n->view);
    n->view = NULL;
}

// The node's devices are in other use: its view is made anew when asked for.
static void mark_use(struct devices *d, struct dev_node *n)
{
    drop_view(n);
    drop_state(&n->own);
    candidates_touch(d, n);
}

// The node has other devices.
static void mark_slices(struct devices *d, struct dev_node *n)
{
    drop_view(n);
    drop_snapshot(&n->own);
    n->failed = false;
    candidates_touch(d, n);
}

static void mark_common_use(struct devices *d)
{
    for (size_t i = 0; i < d->nodes.n; i++)
        if (d->nodes.p[i] && (!d->nodes.p[i]->own.base || d->nodes.p[i]->sees_shared))
            mark_use(d, d->nodes.p[i]);
    drop_state(&d->common);
}

static void mark_all(struct devices *d)
{
    for (size_t i = 0; i < d->nodes.n; i++)
        if (d->nodes.p[i])
            mark_slices(d, d->nodes.p[i]);
    drop_snapshot(&d->common);
}

static struct dev_node *node_named(const struct devices *d, struct str name)
{
    struct dev_node **n = map_get(&d->by_name, name);
    return n ? *n : NULL;
}

static void mark_pool(struct devices *d, const struct dev_pool *p, bool slices)
{
    if (p->shared) {
        if (slices)
            mark_all(d);
        else
            mark_common_use(d);
        return;
    }
    struct dev_node *n = p->node.n ? node_named(d, p->node) : NULL;
    if (n && slices)
        mark_slices(d, n);
    else if (n)
        mark_use(d, n);
}

// --- Pools ---------------------------------------------------------------------------------------

static struct dev_pool *pool_get(struct devices *d, struct str driver, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_add(&key, driver);
    sbuf_addc(&key, '\0');
    sbuf_add(&key, name);
    struct dev_pool **known = map_get(&d->pools, sbuf_str(&key));
    if (known)
        return *known;
    struct dev_pool *p = xcalloc(1, sizeof(*p));
    p->key = str_make(xstrndup(key.p, key.n), key.n);
    p->driver = str_upto(p->key, driver.n);
    p->name = str_from(p->key, driver.n + 1);
    *map_put(&d->pools, p->key) = p;
    return p;
}

static const struct dev_pool *pool_find(const struct devices *d, struct str driver, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_add(&key, driver);
    sbuf_addc(&key, '\0');
    sbuf_add(&key, name);
    struct dev_pool **known = map_get(&d->pools, sbuf_str(&key));
    return known ? *known : NULL;
}

static void pool_free(struct dev_pool *p)
{
    vec_foreach(&p->slices, o)
        client_object_unref(*o);
    vec_done(&p->slices);
    vec_done(&p->users);
    free((void *)(uintptr_t)p->key.p);
    free(p);
}

static void pool_maybe_forget(struct devices *d, struct dev_pool *p)
{
    if (p->slices.n || p->users.n)
        return;
    (void)map_del(&d->pools, p->key);
    pool_free(p);
}

static void unlist_local(struct devices *d, struct dev_pool *p)
{
    struct pool_vec *v = map_get(&d->local, p->node);
    for (size_t i = 0; v && i < v->n; i++)
        if (v->p[i] == p) {
            v->p[i] = vec_pop(v);
            break;
        }
    p->node = (struct str){0};
}

static void list_local(struct devices *d, struct dev_pool *p, struct str node)
{
    bool is_new = false;
    if (!map_has(&d->local, node))
        node = str_make(xstrndup(node.p, node.n), node.n);
    struct pool_vec *v = map_put_new(&d->local, node, &is_new);
    vec_push(v, p);
    p->node = map_key(&d->local, map_index_find(&d->local.index, node));
}

// Whose pool is it, after its slices changed?
static void settle(struct devices *d, struct dev_pool *p)
{
    struct str node = {0};
    bool shared = false;
    p->shareable = false;
    p->devices = 0;
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct api_resource_slice_spec *spec = &slice_of(p->slices.p[i])->spec;
        shared |= spec->node_name.n == 0 || (node.n && !str_eq(node, spec->node_name));
        node = spec->node_name;
        p->devices += spec->devices.n;
        for (size_t k = 0; k < spec->devices.n; k++)
            p->shareable |= spec->devices.p[k].has_allow_multiple_allocations &&
                            spec->devices.p[k].allow_multiple_allocations;
    }
    if (p->node.n)
        unlist_local(d, p);
    d->shared_pools -= p->shared;
    p->shared = shared;
    d->shared_pools += shared;
    if (!shared && node.n)
        list_local(d, p, node);
}

static void slice_drop(struct devices *d, const struct client_object *o)
{
    const struct api_resource_slice *s = slice_of(o);
    struct dev_pool *p = pool_get(d, s->spec.driver, s->spec.pool.name);
    mark_pool(d, p, true);
    for (size_t i = 0; i < p->slices.n; i++)
        if (str_eq(p->slices.p[i]->meta->name, o->meta->name)) {
            client_object_unref(p->slices.p[i]);
            p->slices.p[i] = vec_pop(&p->slices);
            break;
        }
    settle(d, p);
    mark_pool(d, p, true);
    pool_maybe_forget(d, p);
}

static void slice_add(struct devices *d, const struct client_object *o)
{
    const struct api_resource_slice *s = slice_of(o);
    struct dev_pool *p = pool_get(d, s->spec.driver, s->spec.pool.name);
    if (p->slices.n)
        mark_pool(d, p, true);
    const struct client_object *mine = client_object_ref(o);
    vec_push(&p->slices, mine);
    settle(d, p);
    mark_pool(d, p, true);
}

void devices_slice(struct devices *d, const struct client_object *before,
                   const struct client_object *after)
{
    if (before)
        slice_drop(d, before);
    if (after)
        slice_add(d, after);
}

// --- Classes and rules ---------------------------------------------------------------------------

static void replace(struct object_list *v, const struct client_object *before,
                    const struct client_object *after)
{
    const struct client_object *mine = after ? client_object_ref(after) : NULL;
    for (size_t i = 0; before && i < v->n; i++)
        if (str_eq(v->p[i]->meta->name, before->meta->name)) {
            client_object_unref(v->p[i]);
            if (mine)
                v->p[i] = mine;
            else
                v->p[i] = vec_pop(v);
            return;
        }
    if (mine)
        vec_push(v, mine);
}

void devices_class(struct devices *d, const struct client_object *before,
                   const struct client_object *after)
{
    if (before)
        (void)map_del(&d->class_index, before->meta->name);
    replace(&d->classes, before, after);
    map_done(&d->class_index);
    d->class_index = (struct class_index){0};
    vec_foreach(&d->classes, c)
        *map_put(&d->class_index, (*c)->meta->name) = (*c)->object.value;
    mark_all(d);
}

static bool rule_touches(const struct client_object *rule, const struct dev_pool *p)
{
    if (!rule)
        return false;
    const struct api_device_taint_rule *r = rule->object.value;
    const struct api_device_taint_selector *s = r->spec.device_selector;
    return s && (!s->has_driver || str_eq(s->driver, p->driver)) &&
           (!s->has_pool || str_eq(s->pool, p->name));
}

void devices_rule(struct devices *d, const struct client_object *before,
                  const struct client_object *after)
{
    replace(&d->rules, before, after);
    map_foreach(&d->pools, i) {
        const struct dev_pool *p = *map_value(&d->pools, i);
        if (rule_touches(before, p) || rule_touches(after, p))
            mark_pool(d, p, true);
    }
}

const struct api_device_class *devices_find_class(const struct devices *d, struct str name)
{
    const struct api_device_class **c = map_get(&d->class_index, name);
    return c ? *c : NULL;
}

const struct api_device *devices_find(const struct devices *d,
                                      const struct api_device_request_allocation_result *r)
{
    const struct dev_pool *p = pool_find(d, r->driver, r->pool);
    for (size_t i = 0; p && i < p->slices.n; i++) {
        const struct api_device_array *all = &slice_of(p->slices.p[i])->spec.devices;
        for (size_t k = 0; k < all->n; k++)
            if (str_eq(all->p[k].name, r->device))
                return &all->p[k];
    }
    return NULL;
}

// --- Nodes ---------------------------------------------------------------------------------------

static void node_drop(struct devices *d, uint32_t index)
{
    struct dev_node *n = d->nodes.p[index];
    d->nodes.p[index] = NULL;
    candidates_gone(d, index);
    (void)map_del(&d->by_name, n->name);
    drop_view(n);
    drop_snapshot(&n->own);
    vec_done(&n->own.held);
    client_object_unref(n->object);
    free((void *)(uintptr_t)n->name.p);
    free(n);
}

void devices_node(struct devices *d, uint32_t index, struct str name,
                  const struct client_object *object)
{
    while (d->nodes.n <= index)
        vec_push(&d->nodes, NULL);
    struct dev_node *n = d->nodes.p[index];
    if (n && (!object || !str_eq(n->name, name))) {
        node_drop(d, index);
        n = NULL;
    }
    if (!object)
        return;
    if (!n) {
        n = xcalloc(1, sizeof(*n));
        n->index = index;
        n->name = str_make(xstrndup(name.p, name.n), name.n);
        d->nodes.p[index] = n;
        *map_put(&d->by_name, n->name) = n;
    }
    drop_view(n);
    const struct client_object *old = n->object;
    n->object = client_object_ref(object);
    client_object_unref(old);
    // Which shared pools it sees may depend on its labels.
    if (d->shared_pools)
        drop_snapshot(&n->own);
    n->failed = false;
    candidates_touch(d, n);
}

// --- Users ---------------------------------------------------------------------------------------

static void user_leave(struct devices *d, struct dev_user *u)
{
    for (size_t i = 0; i < u->pools.n; i++) {
        struct dev_pool *p = u->pools.p[i];
        for (size_t k = 0; k < p->users.n; k++)
            if (p->users.p[k] == u) {
                p->users.p[k] = vec_pop(&p->users);
                break;
            }
        mark_pool(d, p, false);
        pool_maybe_forget(d, p);
    }
    vec_done(&u->pools);
    u->allocation = NULL;
}

static bool in_pools(const struct dev_user *u, const struct dev_pool *p)
{
    for (size_t i = 0; i < u->pools.n; i++)
        if (u->pools.p[i] == p)
            return true;
    return false;
}

void devices_use(struct devices *d, struct dev_user *u,
                 const struct api_allocation_result *allocation)
{
    if (u->allocation)
        user_leave(d, u);
    u->allocation = allocation;
    for (size_t i = 0; allocation && i < allocation->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &allocation->devices.results.p[i];
        struct dev_pool *p = pool_get(d, r->driver, r->pool);
        if (in_pools(u, p))
            continue;
        vec_push(&u->pools, p);
        vec_push(&p->users, u);
        mark_pool(d, p, false);
    }
}

bool devices_holds(const struct devices *d, const struct dev_user *u)
{
    (void)d;
    for (size_t i = 0; i < u->pools.n; i++) {
        bool found = false;
        for (size_t k = 0; k < u->pools.p[i]->users.n; k++)
            found |= u->pools.p[i]->users.p[k] == u;
        if (!found)
            return false;
    }
    return true;
}

// --- Making snapshots ----------------------------------------------------------------------------

struct gathering {
    struct slice_ptrs VEC(const struct api_resource_slice *) slices;
    struct class_ptrs VEC(const struct api_device_class *) classes;
    struct rule_ptrs VEC(const struct api_device_taint_rule *) rules;
    struct use_vec VEC(struct alloc_use) uses;
};

static void gathering_done(struct gathering *g)
{
    vec_done(&g->slices);
    vec_done(&g->classes);
    vec_done(&g->rules);
    vec_done(&g->uses);
}

static void gather_slices(struct gathering *g, const struct dev_pool *p, struct snapshot *s)
{
    for (size_t i = 0; i < p->slices.n; i++) {
        vec_push(&g->slices, slice_of(p->slices.p[i]));
        const struct client_object *mine = client_object_ref(p->slices.p[i]);
        vec_push(&s->held, mine);
    }
}

// Everything in use; with judged only what may have been stored before its allocation.
static void gather_uses(const struct devices *d, struct gathering *g, const struct dev_pool *p,
                        const struct dev_user *judged)
{
    for (size_t i = 0; i < p->users.n; i++) {
        const struct dev_user *u = p->users.p[i];
        const struct api_device_request_allocation_result_array *rs =
            &u->allocation->devices.results;
        if (judged && (u == judged || u->not_before >= judged->revision))
            continue;
        for (size_t k = 0; k < rs->n; k++) {
            const struct api_device_request_allocation_result *r = &rs->p[k];
            bool share = d->features.consumable_capacity && r->has_share_id;
            if (!str_eq(r->driver, p->driver) || !str_eq(r->pool, p->name) ||
                (r->has_admin_access && r->admin_access))
                continue;
            vec_push(&g->uses, (struct alloc_use){.id = {r->driver, r->pool, r->device},
                                                  .exclusive = !share,
                                                  .share = share,
                                                  .has_capacity = share && r->consumed_capacity.p,
                                                  .capacity = r->consumed_capacity,
                                                  .owner = u->owner});
        }
    }
}

static bool pool_visible(const struct dev_pool *p, const struct api_node *node)
{
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct api_resource_slice_spec *s = &slice_of(p->slices.p[i])->spec;
        if (s->has_all_nodes && s->all_nodes)
            return true;
        if (s->has_per_device_node_selection && s->per_device_node_selection)
            return true;
        if (s->node_name.n ? str_eq(s->node_name, node->metadata.name)
                           : s->node_selector && select_node(s->node_selector, node) != 0)
            return true;
    }
    return false;
}

typedef void (*pool_fn)(void *arg, const struct dev_pool *p);

// Calls fn for all pools of a node's own snapshot; node NULL: of the common one.
static bool for_pools(const struct devices *d, const struct dev_node *n, pool_fn fn, void *arg)
{
    const struct pool_vec *local = n ? map_get(&d->local, n->name) : NULL;
    bool shared = false;
    for (size_t i = 0; local && i < local->n; i++)
        fn(arg, local->p[i]);
    if (!d->shared_pools)
        return false;
    map_foreach(&d->pools, i) {
        const struct dev_pool *p = *map_value(&d->pools, i);
        if (!p->shared || (n && !pool_visible(p, n->object->object.value)))
            continue;
        shared = true;
        fn(arg, p);
    }
    return shared;
}

struct gather_arg {
    const struct devices *d;
    struct gathering *g;
    struct snapshot *s;
    const struct dev_user *judged;
};

static void gather_slices_fn(void *arg, const struct dev_pool *p)
{
    const struct gather_arg *a = arg;
    gather_slices(a->g, p, a->s);
}

static void gather_uses_fn(void *arg, const struct dev_pool *p)
{
    const struct gather_arg *a = arg;
    gather_uses(a->d, a->g, p, a->judged);
}

static int make_base(struct devices *d, struct dev_node *n, struct snapshot *s, struct err *err)
{
    struct gathering g = {0};
    struct gather_arg arg = {d, &g, s, NULL};
    bool shared = for_pools(d, n, gather_slices_fn, &arg);
    if (n)
        n->sees_shared = shared;
    for (size_t i = 0; i < d->classes.n; i++) {
        vec_push(&g.classes, d->classes.p[i]->object.value);
        const struct client_object *mine = client_object_ref(d->classes.p[i]);
        vec_push(&s->held, mine);
    }
    for (size_t i = 0; i < d->rules.n; i++) {
        vec_push(&g.rules, d->rules.p[i]->object.value);
        const struct client_object *mine = client_object_ref(d->rules.p[i]);
        vec_push(&s->held, mine);
    }
    struct alloc_input in = {.features = d->features,
                             .kit = d->kit,
                             .slices = g.slices.p,
                             .slices_len = g.slices.n,
                             .classes = g.classes.p,
                             .classes_len = g.classes.n,
                             .taint_rules = g.rules.p,
                             .taint_rules_len = g.rules.n};
    int r = alloc_cluster_new(&in, &s->base, err);
    gathering_done(&g);
    return r;
}

static struct alloc_cluster *make_state(const struct devices *d, const struct dev_node *n,
                                        const struct snapshot *s, const struct dev_user *judged)
{
    struct gathering g = {0};
    struct gather_arg arg = {d, &g, NULL, judged};
    (void)for_pools(d, n, gather_uses_fn, &arg);
    struct alloc_input in = {.uses = g.uses.p, .uses_len = g.uses.n};
    struct alloc_cluster *c = alloc_cluster_in_use(s->base, &in);
    gathering_done(&g);
    return c;
}

static bool has_local(const struct devices *d, const struct dev_node *n)
{
    const struct pool_vec *local = map_get(&d->local, n->name);
    return local && local->n;
}

// The snapshot a node's view is made of: its own, or the common one.
static struct snapshot *snapshot_of(struct devices *d, struct dev_node *n, struct err *err)
{
    bool local = has_local(d, n);
    struct dev_node *owner = local ? n : NULL;
    struct snapshot *s = local ? &n->own : &d->common;
    if (!s->base && make_base(d, owner, s, err) < 0)
        return NULL;
    if (!local)
        n->sees_shared = d->shared_pools > 0;
    if (!s->state)
        s->state = make_state(d, owner, s, NULL);
    return s;
}

const struct alloc_view *devices_view(struct devices *d, uint32_t node, struct err *err)
{
    struct dev_node *n = d->nodes.p[node];
    if (n->view)
        return n->view;
    const struct snapshot *s = snapshot_of(d, n, err);
    if (!s || alloc_view_new(s->state, n->object->object.value, &n->view, err) < 0) {
        n->view = NULL;
        n->failed = true;
    }
    candidates_settle(d, n);
    return n->view;
}

bool devices_warm(struct devices *d, size_t max)
{
    struct err err;
    while (max && d->warm < d->nodes.n) {
        struct dev_node *n = d->nodes.p[d->warm++];
        if (!n || n->view || n->failed)
            continue;
        (void)devices_view(d, n->index, &err);
        max--;
    }
    return d->warm < d->nodes.n;
}

// --- Other schedulers ----------------------------------------------------------------------------

bool devices_contested(const struct dev_user *u)
{
    for (size_t i = 0; i < u->pools.n; i++)
        for (size_t k = 0; k < u->pools.p[i]->users.n; k++)
            if (u->pools.p[i]->users.p[k] != u &&
                (u->foreign || u->pools.p[i]->users.p[k]->foreign))
                return true;
    return false;
}

static bool holds(const struct api_device_request_allocation_result *r)
{
    return !(r->has_admin_access && r->admin_access);
}

// Do two allocations have a device in common that cannot be shared?
static bool collide(const struct api_allocation_result *a, const struct api_allocation_result *b)
{
    for (size_t i = 0; i < a->devices.results.n; i++)
        for (size_t k = 0; k < b->devices.results.n; k++) {
            const struct api_device_request_allocation_result *x = &a->devices.results.p[i];
            const struct api_device_request_allocation_result *y = &b->devices.results.p[k];
            if (holds(x) && holds(y) && !(x->has_share_id && y->has_share_id) &&
                str_eq(x->device, y->device) && str_eq(x->pool, y->pool) &&
                str_eq(x->driver, y->driver))
                return true;
        }
    return false;
}

static bool collides(const struct dev_user *u)
{
    for (size_t i = 0; i < u->pools.n; i++)
        for (size_t k = 0; k < u->pools.p[i]->users.n; k++) {
            const struct dev_user *other = u->pools.p[i]->users.p[k];
            if (other != u && other->not_before < u->revision &&
                collide(u->allocation, other->allocation))
                return true;
        }
    return false;
}

bool devices_stands(struct devices *d, uint32_t node, const struct dev_user *u,
                    const struct api_resource_claim *claim, struct sbuf *problems)
{
    struct err err;
    struct dev_node *n = node < d->nodes.n ? d->nodes.p[node] : NULL;
    const struct snapshot *s = n ? snapshot_of(d, n, &err) : NULL;
    if (!s || collides(u))
        return false; // without its node there is nothing to hold shares and counters against
    struct alloc_cluster *c = make_state(d, has_local(d, n) ? n : NULL, s, u);
    struct alloc_view *v = NULL;
    bool stands = alloc_view_new(c, n->object->object.value, &v, &err) == 0 &&
                  alloc_check(v, &claim, 1, u->allocation, 1, problems);
    alloc_view_free(v);
    alloc_cluster_free(c);
    return stands;
}

void devices_free(struct devices *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->nodes.n; i++)
        if (d->nodes.p[i])
            node_drop(d, i);
    vec_done(&d->nodes);
    drop_snapshot(&d->common);
    vec_done(&d->common.held);
    map_foreach(&d->pools, i)
        pool_free(*map_value(&d->pools, i));
    map_done(&d->pools);
    map_foreach(&d->local, i) {
        vec_done(map_value(&d->local, i));
        free((void *)(uintptr_t)map_key(&d->local, i).p);
    }
    map_done(&d->local);
    map_done(&d->by_name);
    vec_foreach(&d->classes, c)
        client_object_unref(*c);
    vec_foreach(&d->rules, r)
        client_object_unref(*r);
    vec_done(&d->classes);
    vec_done(&d->rules);
    map_done(&d->class_index);
    candidates_done(d);
    alloc_kit_free(d->kit);
    free(d);
}
