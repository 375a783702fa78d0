// SPDX-License-Identifier: Apache-2.0
//
// What if: a node drained, devices tainted, a claim gone, nodes added. Objects are copied before they
// are changed.
#include "alloc/node.h"
#include "api/match/device_taint.h"
#include "plan/plan_int.h"

#include "base/banned.h"

#define ADD_NODES_MAX 1000

static const char *const kind_words[] = {
    [PLAN_SLICE] = "slice", [PLAN_CLASS] = "class",       [PLAN_RULE] = "taint rule",
    [PLAN_NODE] = "node",   [PLAN_CLAIM] = "claim",       [PLAN_TEMPLATE] = "claim template",
    [PLAN_POD] = "pod",     [PLAN_WORKLOAD] = "workload", [PLAN_EVENT] = "event",
};

// "there is no node x; there are a, b, c, …"
static int no_such(const struct plan_world *w, enum plan_kind kind, struct str name,
                   struct err *err)
{
    cleanup_sbuf struct sbuf b = {0};
    size_t n = 0;
    world_foreach(w, kind, o) if (n++ < 5)
        sbuf_addf(&b, "%s%.*s", n > 1 ? ", " : "", STR_ARG(o->name));
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "there is no %s %.*s: the files have none",
                       kind_words[kind], STR_ARG(name));
    return err_set(err, ERR_NOT_FOUND, "there is no %s %.*s; there %s %.*s%s", kind_words[kind],
                   STR_ARG(name), n == 1 ? "is" : "are", STR_ARG(sbuf_str(&b)), n > 5 ? ", …" : "");
}

static void *copy_of(struct plan_world *w, struct plan_object *o)
{
    void *to = arena_alloc(&w->arena, o->type->size, _Alignof(max_align_t));
    api_copy(o->type, o->value, to, &w->arena);
    o->value = to;
    return to;
}

// --- Nodes ---------------------------------------------------------------------------------------

static bool named_by_slice(const struct plan_world *w, struct str name)
{
    world_foreach(w, PLAN_SLICE,
                  o) if (str_eq(((const struct api_resource_slice *)o->value)->spec.node_name,
                                name)) return true;
    return false;
}

// A node that only slices name becomes an object.
static struct plan_object *node_named(struct plan_world *w, struct str name)
{
    struct plan_object *o = world_find(w, PLAN_NODE, name);
    bool any = false;
    world_foreach(w, PLAN_NODE, x) any = any || x->kind == PLAN_NODE;
    if (o || any || !named_by_slice(w, name))
        return o;
    // There are no nodes yet: all that slices name have to be made, or the others would be lost.
    struct VEC(struct str) names = {0};
    world_foreach(w, PLAN_SLICE, s)
        vec_push(&names, ((const struct api_resource_slice *)s->value)->spec.node_name);
    for (size_t i = 0; i < names.n; i++) {
        if (names.p[i].n == 0 || world_find(w, PLAN_NODE, names.p[i]))
            continue;
        struct api_node *node = arena_one(&w->arena, struct api_node);
        node->metadata.name = names.p[i];
        (void)world_add(w, &(struct plan_object){.kind = PLAN_NODE,
                                                 .type = &api_node_type,
                                                 .value = node,
                                                 .name = names.p[i],
                                                 .file = STR("(slices)")});
    }
    vec_done(&names);
    return world_find(w, PLAN_NODE, name);
}

struct pools_of VEC(const struct api_resource_slice_spec *);

static bool holds_one(const struct api_resource_claim *c, const struct pools_of *pools)
{
    const struct api_allocation_result *a = c->status.allocation;
    for (size_t i = 0; a && i < a->devices.results.n; i++)
        for (size_t k = 0; k < pools->n; k++)
            if (str_eq(pools->p[k]->pool.name, a->devices.results.p[i].pool) &&
                str_eq(pools->p[k]->driver, a->devices.results.p[i].driver))
                return true;
    return false;
}

// The claim has to be allocated anew.
static void release(struct plan_world *w, struct plan_object *o)
{
    struct api_resource_claim *c = copy_of(w, o);
    c->status.allocation = NULL;
    c->status.reserved_for = (struct api_resource_claim_consumer_reference_array){0};
}

// Pods that use a claim are not bound any more.
static void unbind_users(struct plan_world *w, const struct api_resource_claim *c)
{
    world_foreach(w, PLAN_POD, o)
    {
        const struct api_pod *pod = o->value;
        bool uses = false;
        if (!str_eq(pod->metadata.namespace, c->metadata.namespace))
            continue;
        for (size_t i = 0; i < pod->spec.resource_claims.n; i++)
            uses |= str_eq(pod->spec.resource_claims.p[i].resource_claim_name, c->metadata.name);
        for (size_t i = 0; i < pod->status.resource_claim_statuses.n; i++)
            uses |= str_eq(pod->status.resource_claim_statuses.p[i].resource_claim_name,
                           c->metadata.name);
        if (uses && pod->spec.node_name.n)
            ((struct api_pod *)copy_of(w, o))->spec.node_name = (struct str){0};
    }
}

int plan_drain(struct plan_world *w, struct str node, struct err *err)
{
    struct plan_object *o = node_named(w, node);
    if (!o)
        return no_such(w, PLAN_NODE, node, err);
    ((struct api_node *)copy_of(w, o))->spec.unschedulable = true;
    world_foreach(w, PLAN_POD, p) if (str_eq(((const struct api_pod *)p->value)->spec.node_name,
                                             node))((struct api_pod *)copy_of(w, p))
        ->spec.node_name = (struct str){0};
    struct pools_of pools = {0};
    world_foreach(w, PLAN_SLICE, s)
    {
        const struct api_resource_slice_spec *spec =
            &((const struct api_resource_slice *)s->value)->spec;
        if (str_eq(spec->node_name, node))
            vec_push(&pools, spec);
    }
    world_foreach(w, PLAN_CLAIM, c) if (holds_one(c->value, &pools)) release(w, c);
    vec_done(&pools);
    return 0;
}

// --- Taints --------------------------------------------------------------------------------------

// DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT
static bool read_short(struct str text, struct api_device_taint_selector *s,
                       struct api_device_taint *t)
{
    struct str selector, taint, pool, device;
    if (!str_cut(text, '=', &selector, &taint))
        return false;
    ptrdiff_t colon = str_rfind_char(taint, ':');
    if (colon <= 0)
        return false;
    t->effect = str_from(taint, (size_t)colon + 1);
    (void)str_cut(str_upto(taint, (size_t)colon), '=', &t->key, &t->value);
    (void)str_cut(selector, '/', &s->driver, &pool);
    (void)str_cut(pool, '/', &s->pool, &device);
    s->device = device;
    return true;
}

// driver=D,pool=P,device=X,key=K,value=V,effect=E
static bool read_long(struct str text, struct api_device_taint_selector *s,
                      struct api_device_taint *t)
{
    while (text.n) {
        struct str one, key, value;
        (void)str_cut(text, ',', &one, &text);
        if (!str_cut(one, '=', &key, &value))
            return false;
        struct str *to = str_eqz(key, "driver")   ? &s->driver
                         : str_eqz(key, "pool")   ? &s->pool
                         : str_eqz(key, "device") ? &s->device
                         : str_eqz(key, "key")    ? &t->key
                         : str_eqz(key, "value")  ? &t->value
                         : str_eqz(key, "effect") ? &t->effect
                                                  : NULL;
        if (!to)
            return false;
        *to = value;
    }
    return true;
}

static bool any_device(const struct plan_world *w, const struct api_device_taint_selector *s)
{
    world_foreach(w, PLAN_SLICE, o)
    {
        const struct api_resource_slice_spec *spec =
            &((const struct api_resource_slice *)o->value)->spec;
        for (size_t i = 0; i < spec->devices.n; i++)
            if (device_taint_selects(s, spec->driver, spec->pool.name, &spec->devices.p[i].name))
                return true;
    }
    return false;
}

// NoExecute: claims that hold a tainted device and do not tolerate it for ever are free again, sooner or later.
static void evict(struct plan_world *w, const struct api_device_taint_selector *s,
                  const struct api_device_taint *t)
{
    world_foreach(w, PLAN_CLAIM, o)
    {
        const struct api_resource_claim *c = o->value;
        const struct api_allocation_result *a = c->status.allocation;
        bool hit = false;
        for (size_t i = 0; a && i < a->devices.results.n; i++) {
            const struct api_device_request_allocation_result *r = &a->devices.results.p[i];
            int64_t wait_s;
            hit |= device_taint_selects(s, r->driver, r->pool, &r->device) &&
                   device_taint_evicts(&r->tolerations, t, &wait_s);
        }
        if (!hit)
            continue;
        unbind_users(w, c);
        release(w, o);
    }
}

int rule_parse(struct str text, struct arena *arena, struct api_device_taint_rule **ret,
               struct err *err)
{
    struct api_device_taint_rule *rule = arena_one(arena, struct api_device_taint_rule);
    struct api_device_taint_selector *s = arena_one(arena, struct api_device_taint_selector);
    struct api_device_taint *t = &rule->spec.taint;
    struct str kept = arena_str(arena, text);
    bool ok = str_contains(text, STR("effect=")) ? read_long(kept, s, t) : read_short(kept, s, t);
    if (!ok || t->key.n == 0)
        return err_set(err, ERR_INVALID,
                       "want DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT or "
                       "driver=D,pool=P,device=X,key=K,value=V,effect=E");
    if (!str_eqz(t->effect, "NoSchedule") && !str_eqz(t->effect, "NoExecute") &&
        !str_eqz(t->effect, "None"))
        return err_set(err, ERR_INVALID, "the effect is one of NoSchedule, NoExecute, None");
    s->has_driver = s->driver.n > 0;
    s->has_pool = s->pool.n > 0;
    s->has_device = s->device.n > 0;
    rule->spec.device_selector = s;
    *ret = rule;
    return 0;
}

int plan_taint(struct plan_world *w, struct str text, struct err *err)
{
    struct api_device_taint_rule *rule = NULL;
    if (rule_parse(text, &w->arena, &rule, err) < 0)
        return err_wrap(err, "--taint %.*s", STR_ARG(text));
    const struct api_device_taint_selector *s = rule->spec.device_selector;
    const struct api_device_taint *t = &rule->spec.taint;
    if (!any_device(w, s))
        return err_set(err, ERR_NOT_FOUND, "--taint %.*s: no device in the files is picked",
                       STR_ARG(text));
    struct str name = arena_strf(&w->arena, "--taint %.*s", STR_ARG(text));
    (void)world_add(w, &(struct plan_object){.kind = PLAN_RULE,
                                             .type = &api_device_taint_rule_type,
                                             .value = rule,
                                             .name = name,
                                             .file = STR("(command line)")});
    if (str_eqz(t->effect, "NoExecute"))
        evict(w, s, t);
    return 0;
}

// --- Claims --------------------------------------------------------------------------------------

int plan_without(struct plan_world *w, struct str claim, struct err *err)
{
    struct str full = str_find_char(claim, '/') >= 0 || claim.n == 0
                          ? claim
                          : arena_strf(&w->arena, "default/%.*s", STR_ARG(claim));
    struct plan_object *o = world_find(w, PLAN_CLAIM, full);
    if (!o)
        return no_such(w, PLAN_CLAIM, full, err);
    const struct api_resource_claim *c = o->value;
    world_foreach(w, PLAN_POD, p)
    {
        const struct api_pod *pod = p->value;
        bool needs = false;
        if (!str_eq(pod->metadata.namespace, c->metadata.namespace))
            continue;
        for (size_t i = 0; i < pod->spec.resource_claims.n; i++)
            needs |= str_eq(pod->spec.resource_claims.p[i].resource_claim_name, c->metadata.name);
        for (size_t i = 0; i < pod->status.resource_claim_statuses.n; i++)
            needs |= str_eq(pod->status.resource_claim_statuses.p[i].resource_claim_name,
                            c->metadata.name);
        p->gone |= needs;
    }
    o->gone = true;
    return 0;
}

// --- New nodes -----------------------------------------------------------------------------------

struct addition {
    struct str like;
    struct str prefix;
    uint64_t count;
};

static int read_addition(struct str text, struct addition *a, struct err *err)
{
    struct str rest = text;
    *a = (struct addition){.count = 1};
    while (rest.n) {
        struct str one, key, value;
        (void)str_cut(rest, ',', &one, &rest);
        bool pair = str_cut(one, '=', &key, &value);
        if (pair && str_eqz(key, "like"))
            a->like = value;
        else if (pair && str_eqz(key, "name"))
            a->prefix = value;
        else if (!pair || !str_eqz(key, "count") || str_to_u64(value, &a->count) < 0 ||
                 a->count == 0 || a->count > ADD_NODES_MAX)
            return err_set(err, ERR_INVALID,
                           "--add-node %.*s: want like=NODE[,count=1…%d][,name=PREFIX]",
                           STR_ARG(text), ADD_NODES_MAX);
    }
    return a->like.n
               ? 0
               : err_set(err, ERR_INVALID,
                         "--add-node %.*s: like=NODE says what the node looks like", STR_ARG(text));
}

static void rename_label(struct api_object_meta *m, struct str old, struct str name)
{
    for (size_t i = 0; i < m->labels.n; i++)
        if (str_eqz(m->labels.p[i].key, "kubernetes.io/hostname") ||
            str_eq(m->labels.p[i].value, old))
            m->labels.p[i].value = name;
}

static void copy_node(struct plan_world *w, const struct plan_object *like, struct str name)
{
    struct plan_object o = *like;
    struct api_node *node = copy_of(w, &o);
    rename_label(&node->metadata, like->name, name);
    node->metadata.name = name;
    node->spec.unschedulable = false;
    o.name = name;
    o.file = STR("(command line)");
    o.line = 0;
    (void)world_add(w, &o);
}

static void copy_slice(struct plan_world *w, const struct plan_object *from, struct str old,
                       struct str name)
{
    struct plan_object o = *from;
    struct api_resource_slice *s = copy_of(w, &o);
    s->spec.node_name = name;
    s->spec.pool.name =
        str_eq(s->spec.pool.name, old)
            ? name
            : arena_strf(&w->arena, "%.*s-%.*s", STR_ARG(s->spec.pool.name), STR_ARG(name));
    s->metadata.name = arena_strf(&w->arena, "%.*s-%.*s", STR_ARG(s->metadata.name), STR_ARG(name));
    for (size_t i = 0; i < s->spec.devices.n; i++)
        if (s->spec.devices.p[i].has_node_name && str_eq(s->spec.devices.p[i].node_name, old))
            s->spec.devices.p[i].node_name = name;
    o.name = s->metadata.name;
    o.file = STR("(command line)");
    o.line = 0;
    (void)world_add(w, &o);
}

int plan_add_node(struct plan_world *w, struct str text, struct err *err)
{
    struct addition a;
    int r = read_addition(arena_str(&w->arena, text), &a, err);
    if (r < 0)
        return r;
    struct plan_object *like = node_named(w, a.like);
    if (!like)
        return no_such(w, PLAN_NODE, a.like, err);
    struct plan_object shape = *like;
    size_t known = w->objects.n;
    uint64_t number = 0;
    for (uint64_t i = 0; i < a.count; i++) {
        struct str name;
        do
            name = arena_strf(&w->arena, "%.*s%s%llu", STR_ARG(a.prefix.n ? a.prefix : a.like),
                              a.prefix.n ? "-" : "-new-", (unsigned long long)++number);
        while (world_find(w, PLAN_NODE, name));
        copy_node(w, &shape, name);
        for (size_t k = 0; k < known; k++) {
            struct plan_object from = w->objects.p[k];
            if (from.kind == PLAN_SLICE && !from.gone &&
                str_eq(((const struct api_resource_slice *)from.value)->spec.node_name, a.like))
                copy_slice(w, &from, a.like, name);
        }
    }
    return 0;
}
