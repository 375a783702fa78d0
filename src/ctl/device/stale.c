// SPDX-License-Identifier: Apache-2.0
//
// Devices of drivers that are gone (docs/design/controllers.md, Stale slices). A pool whose
// publisher gives no sign of life gets a DeviceTaintRule that keeps new allocations away; the rule
// goes when the sign is back. Slices are never touched: they are the driver's. Signs of life: of a
// slice of a node that its Node is ready; of any slice that names a Lease in an annotation that the
// Lease is renewed within its duration.
#include <stdlib.h>

#include "api/match/taint.h"
#include "base/map.h"
#include "ctl/workload/load.h"

#include "base/banned.h"

#define STALE_KEY "dray.dev/stale"

enum { DURATION_DEFAULT_S = 40 };

struct renewed {
    char *name;
    int64_t at_ns;
};
struct renewed_map MAP(struct renewed);

struct stale_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct renewed_map renewed; // Leases by NAMESPACE/NAME: when they last changed, on our clock
    size_t by_pool;             // index of slices: DRIVER/POOL
};

static void stale_pool_key(const struct typed_object *o, struct sbuf *out)
{
    const struct api_resource_slice *s = as_slice(o);
    sbuf_addf(out, "%.*s/%.*s", STR_ARG(s->spec.driver), STR_ARG(s->spec.pool.name));
}

static void index_pool(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                       void *ctx)
{
    cleanup_sbuf struct sbuf key = {0};
    stale_pool_key(o, &key);
    add(ctx, sbuf_str(&key));
}

static void stale_add_pool(void *arg, const struct typed_object *o)
{
    struct stale_ctl *s = arg;
    cleanup_sbuf struct sbuf key = {0};
    stale_pool_key(o, &key);
    work_add(s->work, sbuf_str(&key));
}

// --- Signs of life -------------------------------------------------------------------------------

struct verdict {
    struct stale_ctl *ctl;
    const char *why; // not NULL: stale
    int64_t left_ns; // until it may be
};

static void stale_judge_node(struct verdict *v, const struct api_resource_slice *slice)
{
    const struct api_node *node =
        maybe_node(ctl_find(v->ctl->ctl, CACHE_NODES, STR(""), slice->spec.node_name));
    if (!node)
        v->why = "NodeGone";
    for (size_t i = 0; node && i < node->status.conditions.n; i++) {
        const struct api_node_condition *c = &node->status.conditions.p[i];
        if (str_eqz(c->type, "Ready") && !str_eqz(c->status, "True"))
            v->why = "NodeNotReady";
    }
}

static void judge_lease(struct verdict *v, struct str name)
{
    struct str namespace;
    struct str lease;
    str_cut(name, '/', &namespace, &lease);
    const struct typed_object *o = ctl_find(v->ctl->ctl, CACHE_LEASES, namespace, lease);
    const struct renewed *r = map_get(&v->ctl->renewed, name);
    if (!o || !r) {
        v->why = "LeaseGone";
        return;
    }
    const struct api_lease *l = o->object.value;
    int64_t seconds =
        l->spec.has_lease_duration_seconds ? l->spec.lease_duration_seconds : DURATION_DEFAULT_S;
    int64_t left = r->at_ns + seconds * CLOCK_NS_PER_SEC - exec_now_ns(v->ctl->ctl->exec);
    if (left <= 0)
        v->why = "LeaseNotRenewed";
    else if (left < v->left_ns)
        v->left_ns = left;
}

static void stale_judge_slice(void *arg, const struct typed_object *o)
{
    struct verdict *v = arg;
    const struct api_resource_slice *slice = as_slice(o);
    const struct str *lease = api_map_find(&o->meta->annotations, STR(META_PUBLISHER_LEASE));
    if (slice->spec.has_node_name && slice->spec.node_name.n)
        stale_judge_node(v, slice);
    if (lease)
        judge_lease(v, *lease);
}

// --- Rules ---------------------------------------------------------------------------------------

static struct str rule_name(struct str key, struct arena *arena)
{
    char letters[12];
    meta_hash_letters(meta_hash(META_HASH_START, key), letters, sizeof(letters));
    return arena_strf(arena, "dray-stale-%.*s", (int)sizeof(letters), letters);
}

static void create_rule(struct stale_ctl *s, struct str key, struct str name, const char *why)
{
    struct api_device_taint_selector selector = {.has_driver = true, .has_pool = true};
    str_cut(key, '/', &selector.driver, &selector.pool);
    struct api_str_entry label = {STR("app.kubernetes.io/managed-by"), STR("dray-stale-slices")};
    struct api_device_taint_rule rule = {
        .metadata = {.name = name, .labels = {&label, 1}},
        .spec = {.device_selector = &selector,
                 .taint = {.key = STR(STALE_KEY),
                           .value = str_z(why),
                           .effect = STR(TAINT_NO_SCHEDULE)}},
    };
    const struct api_object object = {ctl_kind(CACHE_RULES), &rule};
    api_set_type_meta(&object);
    client_create(s->ctl->client, &object, NULL, ctl_call_done,
                  ctl_call_new(&s->calls, s->work, key, CACHE_RULES));
}

static void stale_step_key(void *arg, struct str key)
{
    struct stale_ctl *s = arg;
    if (!ctl_synced(s->ctl)) {
        work_retry(s->work, key);
        return;
    }
    cleanup_arena struct arena arena = {0};
    struct verdict v = {.ctl = s, .left_ns = INT64_MAX};
    informer_by(s->ctl->caches[CACHE_SLICES], s->by_pool, key, stale_judge_slice, &v);
    struct str name = rule_name(key, &arena);
    const struct typed_object *rule = ctl_find(s->ctl, CACHE_RULES, STR(""), name);
    if (v.why && !rule) {
        create_rule(s, key, name, v.why);
    } else if (!v.why && rule) {
        const struct client_key at = {rule->object.kind, STR(""), name};
        struct api_preconditions same = {.uid = rule->meta->uid, .has_uid = true};
        const struct api_delete_options options = {.preconditions = &same};
        client_delete(s->ctl->client, &at, &options, ctl_call_done,
                      ctl_call_new(&s->calls, s->work, key, CACHE_RULES));
    } else if (v.left_ns != INT64_MAX) {
        work_again(s->work, key, v.left_ns);
    } else {
        work_done(s->work, key);
    }
}

// --- What changed --------------------------------------------------------------------------------

static void stale_slice_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    if (before)
        stale_add_pool(arg, before);
    if (after)
        stale_add_pool(arg, after);
}

static bool stale_node_is_ready(const struct typed_object *o)
{
    const struct api_node *node = maybe_node(o);
    for (size_t i = 0; node && i < node->status.conditions.n; i++)
        if (str_eqz(node->status.conditions.p[i].type, "Ready"))
            return str_eqz(node->status.conditions.p[i].status, "True");
    return node != NULL;
}

struct of_node {
    struct stale_ctl *ctl;
    struct str node, lease;
};

static void add_if_of(void *arg, const struct typed_object *o)
{
    const struct of_node *of = arg;
    const struct str *lease = api_map_find(&o->meta->annotations, STR(META_PUBLISHER_LEASE));
    if ((of->node.n && str_eq(as_slice(o)->spec.node_name, of->node)) ||
        (of->lease.n && lease && str_eq(*lease, of->lease)))
        stale_add_pool(of->ctl, o);
}

static void stale_node_changed(void *arg, const struct typed_object *before,
                               const struct typed_object *after)
{
    struct stale_ctl *s = arg;
    struct of_node of = {s, (after ? after : before)->meta->name, STR("")};
    if (stale_node_is_ready(before) != stale_node_is_ready(after))
        informer_foreach(s->ctl->caches[CACHE_SLICES], add_if_of, &of);
}

static void stale_lease_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct stale_ctl *s = arg;
    const struct api_object_meta *meta = (after ? after : before)->meta;
    if (str_eqz(meta->namespace, "kube-node-lease"))
        return; // those speak for nodes
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(meta->namespace), STR_ARG(meta->name));
    struct renewed *r = map_get(&s->renewed, sbuf_str(&key));
    if (!after && r) {
        char *name = r->name;
        map_del(&s->renewed, sbuf_str(&key));
        free(name);
    } else if (after) {
        char *name = r ? r->name : xstrndup(key.p, key.n);
        *map_put(&s->renewed, str_make(name, key.n)) =
            (struct renewed){name, exec_now_ns(s->ctl->exec)};
    }
    struct of_node of = {s, STR(""), sbuf_str(&key)};
    informer_foreach(s->ctl->caches[CACHE_SLICES], add_if_of, &of);
}

struct stale_ctl *stale_ctl_new(struct ctl *ctl)
{
    struct stale_ctl *s = xcalloc(1, sizeof(*s));
    s->ctl = ctl;
    s->work = ctl_work(ctl, "stale_slices", stale_step_key, s);
    list_init(&s->calls);
    s->by_pool = informer_add_index(ctl->caches[CACHE_SLICES], index_pool);
    ctl_watch(ctl, CACHE_SLICES, stale_slice_changed, s, s->work);
    ctl_watch(ctl, CACHE_NODES, stale_node_changed, s, s->work);
    ctl_watch(ctl, CACHE_LEASES, stale_lease_changed, s, s->work);
    ctl_watch(ctl, CACHE_RULES, NULL, NULL, s->work);
    return s;
}

void stale_ctl_free(struct stale_ctl *s)
{
    if (!s)
        return;
    ctl_calls_drop(&s->calls);
    work_free(s->work);
    map_foreach(&s->renewed, i)
        free(map_value(&s->renewed, i)->name);
    map_done(&s->renewed);
    free(s);
}
