// SPDX-License-Identifier: Apache-2.0
//
// ResourceQuotas: status.hard is the spec's, status.used what there is. Admission counts in
// what is created; here everything is counted again when a quota comes or changes, and when
// something that it counts goes. Kinds are followed from the first quota on that counts them.
//
// Admission may count in something that the caches have not seen yet. So a quota that has just
// changed is left alone for a moment, and the update names the version it was made of: a writer
// that comes between wins.
#include "api/quota.h"

#include <stdlib.h>

#include "api/amounts.h"
#include "api/match/claim.h"
#include "api/validate.h"
#include "base/map.h"
#include "base/vec.h"
#include "ctl/core/ctl_int.h"

#include "base/banned.h"

#define SETTLE_NS  (200 * CLOCK_NS_PER_MS)
#define RECOUNT_NS (300 * CLOCK_NS_PER_SEC) // pods whose time is up are seen by nothing else

struct counted_kind {
    struct quota_ctl *owner;
    const struct api_kind *kind;
    struct informer *informer;
    bool own; // else it is one of the shared caches
};

struct quota_ctl {
    struct ctl *ctl;
    struct work *work; // NAMESPACE/NAME
    struct list calls;
    struct VEC(struct counted_kind *) kinds;
    struct counted_kind *classes;
    struct MAP(int64_t) changed; // when, by key; keys on the heap
};

static const struct api_resource_quota *as_quota(const struct typed_object *o)
{
    return o->object.value;
}

static void add_quota(void *arg, const struct typed_object *o)
{
    struct quota_ctl *c = arg;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    work_add_after(c->work, sbuf_str(&key), SETTLE_NS);
}

// --- What is counted -----------------------------------------------------------------------------

struct in_namespace {
    struct quota_ctl *c;
    struct str namespace;
};

static void add_if_there(void *arg, const struct typed_object *o)
{
    const struct in_namespace *n = arg;
    if (str_eq(o->meta->namespace, n->namespace))
        add_quota(n->c, o);
}

// A new object was counted in; one that goes, or becomes another, is not counted out.
static void counted_changed(void *arg, const struct typed_object *before,
                            const struct typed_object *after)
{
    const struct counted_kind *k = arg;
    if (!before)
        return;
    if (after && after->object.kind->type == &api_pod_type &&
        pod_is_terminal(as_pod(before)) == pod_is_terminal(as_pod(after)))
        return;
    struct in_namespace n = {k->owner, before->meta->namespace};
    informer_foreach(k->owner->ctl->caches[CACHE_QUOTAS], add_if_there, &n);
}

static void all_again(void *arg)
{
    const struct counted_kind *k = arg;
    informer_foreach(k->owner->ctl->caches[CACHE_QUOTAS], add_quota, k->owner);
}

static struct counted_kind *quota_follow_kind(struct quota_ctl *c, const struct api_kind *kind)
{
    struct counted_kind *k = xcalloc(1, sizeof(*k));
    const struct informer_options o = {.client = c->ctl->client, .kind = kind};
    const struct informer_handler h = {.changed = counted_changed, .synced = all_again, .arg = k};
    k->owner = c;
    k->own = true;
    k->kind = kind;
    k->informer = informer_new(&o);
    informer_add_handler(k->informer, &h);
    informer_start(k->informer);
    return k;
}

static struct counted_kind *quota_share_cache(struct quota_ctl *c, enum ctl_cache which)
{
    struct counted_kind *k = xcalloc(1, sizeof(*k));
    k->owner = c;
    k->kind = ctl_kind(which);
    k->informer = c->ctl->caches[which];
    ctl_watch(c->ctl, which, counted_changed, k, c->work);
    return k;
}

static struct str quota_class_resource(void *ctx, struct str class_name, struct arena *arena)
{
    const struct quota_ctl *c = ctx;
    const struct typed_object *o =
        c->classes ? informer_get(c->classes->informer, STR(""), class_name) : NULL;
    return o ? arena_str(
                   arena,
                   ((const struct api_device_class *)o->object.value)->spec.extended_resource_name)
             : STR("");
}

struct class_search {
    struct str extended;
    bool found;
};

static void quota_visit_class(void *arg, const struct typed_object *o)
{
    struct class_search *s = arg;
    const struct api_device_class *class = o->object.value;
    s->found |= str_eq(class->spec.extended_resource_name, s->extended);
}

static bool quota_ctl_has_class(void *ctx, struct str extended)
{
    const struct quota_ctl *c = ctx;
    struct class_search s = {.extended = extended};
    if (c->classes)
        informer_foreach(c->classes->informer, quota_visit_class, &s);
    return s.found;
}

static const struct api_pod *quota_find_pod(void *ctx, struct str namespace, struct str name,
                                            struct arena *arena)
{
    const struct quota_ctl *c = ctx;
    (void)arena;
    return maybe_pod(ctl_find(c->ctl, CACHE_PODS, namespace, name));
}

static struct quota_world world_of(struct quota_ctl *c)
{
    return (struct quota_world){.features = c->ctl->features,
                                .now = ctl_now(c->ctl),
                                .extended_of = quota_class_resource,
                                .has_class = quota_ctl_has_class,
                                .pod_of = quota_find_pod,
                                .ctx = c};
}

static bool is_followed(const struct quota_ctl *c, const struct api_kind *kind)
{
    for (size_t i = 0; i < c->kinds.n; i++)
        if (c->kinds.p[i]->kind == kind)
            return true;
    return false;
}

// follow_all sees to it that every kind is followed that a quota counts. Claims may be counted by
// what classes say.
static void follow_all(struct quota_ctl *c, const struct api_quantity_map *hard)
{
    const struct quota_world w = world_of(c);
    if (!c->classes)
        c->classes =
            quota_follow_kind(c, api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceClass")));
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *kind = &api_kinds[i];
        if (!kind->namespaced || !kind->plural.n || !kind->list || kind != api_hub_kind(kind) ||
            is_followed(c, kind))
            continue;
        for (size_t k = 0; k < hard->n; k++) {
            if (!quota_counts(hard->p[k].key, kind, &w))
                continue;
            struct counted_kind *one = quota_follow_kind(c, kind);
            vec_push(&c->kinds, one);
            break;
        }
    }
}

// --- Counting ------------------------------------------------------------------------------------

struct counting {
    struct arena arena;
    struct quota_world world;
    const struct api_resource_quota *quota;
    struct api_quantity_map used;
};

static void quota_count_object(void *arg, const struct typed_object *o)
{
    struct counting *n = arg;
    const struct api_resource_quota *q = n->quota;
    if (!str_eq(o->meta->namespace, q->metadata.namespace) || !quota_in_scope(q, &o->object))
        return;
    struct api_quantity_map usage = quota_usage(&o->object, &n->world, &n->arena), mine = {0};
    for (size_t i = 0; i < usage.n; i++)
        if (amounts_get(&q->spec.hard, usage.p[i].key) &&
            quota_counts(usage.p[i].key, o->object.kind, &n->world))
            amounts_set(&mine, usage.p[i].key, &usage.p[i].value, &n->arena);
    amounts_add(&n->used, &mine, &n->arena);
}

// quota_count_all is false when not everything is known yet.
static bool quota_count_all(struct quota_ctl *c, struct counting *n)
{
    const struct quantity zero = quantity_from_i64(0, QUANTITY_DECIMAL_SI);
    follow_all(c, &n->quota->spec.hard);
    if (!informer_synced(c->classes->informer))
        return false;
    for (size_t i = 0; i < n->quota->spec.hard.n; i++)
        amounts_set(&n->used, n->quota->spec.hard.p[i].key, &zero, &n->arena);
    for (size_t i = 0; i < c->kinds.n; i++) {
        if (!informer_synced(c->kinds.p[i]->informer))
            return false;
        informer_foreach(c->kinds.p[i]->informer, quota_count_object, n);
    }
    return true;
}

static bool has_settled(const struct quota_ctl *c, struct str key)
{
    const int64_t *when = map_get(&c->changed, key);
    return !when || exec_now_ns(c->ctl->exec) - *when >= SETTLE_NS;
}

static void quota_step_key(void *arg, struct str key)
{
    struct quota_ctl *c = arg;
    struct str namespace, name;
    str_cut(key, '/', &namespace, &name);
    const struct typed_object *o = ctl_find(c->ctl, CACHE_QUOTAS, namespace, name);
    if (!o) {
        work_done(c->work, key);
        return;
    }
    struct counting n = {.quota = as_quota(o), .world = world_of(c)};
    bool known = has_settled(c, key) && quota_count_all(c, &n);
    if (!known) {
        work_again(c->work, key, SETTLE_NS);
    } else if (amounts_same(&n.used, &n.quota->status.used) &&
               amounts_same(&n.quota->spec.hard, &n.quota->status.hard)) {
        work_again(c->work, key, RECOUNT_NS);
    } else {
        struct api_resource_quota changed = *n.quota;
        changed.status.hard = n.quota->spec.hard;
        changed.status.used = n.used;
        const struct api_object object = {o->object.kind, &changed};
        const struct client_write how = {.subresource = STR("status")};
        client_update(c->ctl->client, &object, &how, ctl_call_done,
                      ctl_call_new(&c->calls, c->work, key, CACHE_QUOTAS));
    }
    arena_done(&n.arena);
}

static void quota_changed(void *arg, const struct typed_object *before,
                          const struct typed_object *after)
{
    struct quota_ctl *c = arg;
    const struct typed_object *o = after ? after : before;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    size_t at = map_index_find(&c->changed.index, sbuf_str(&key));
    if (!after && at != SIZE_MAX) {
        char *kept = (char *)(uintptr_t)map_key(&c->changed, at).p;
        (void)map_del(&c->changed, sbuf_str(&key));
        free(kept);
        return;
    }
    // A new one has nothing to settle: it is not counted before its first status.
    bool fresh = after && after->object.value && as_quota(after)->status.hard.n == 0;
    if (after && !fresh && at == SIZE_MAX) {
        struct str k = sbuf_str(&key);
        *map_put(&c->changed, str_make(xstrndup(k.p, k.n), k.n)) = exec_now_ns(c->ctl->exec);
    } else if (after && !fresh) {
        *map_value(&c->changed, at) = exec_now_ns(c->ctl->exec);
    }
    if (!after)
        return;
    if (fresh)
        work_add(c->work, sbuf_str(&key));
    else if (!before || !amounts_same(&as_quota(after)->spec.hard, &as_quota(after)->status.hard))
        add_quota(c, after);
}

struct quota_ctl *quota_ctl_new(struct ctl *ctl)
{
    struct quota_ctl *c = xcalloc(1, sizeof(*c));
    c->ctl = ctl;
    list_init(&c->calls);
    c->work = ctl_work(ctl, "resourcequota_primary", quota_step_key, c);
    ctl_watch(ctl, CACHE_QUOTAS, quota_changed, c, c->work);
    vec_push(&c->kinds, quota_share_cache(c, CACHE_PODS));
    vec_push(&c->kinds, quota_share_cache(c, CACHE_CLAIMS));
    return c;
}

static void counted_free(struct counted_kind *k)
{
    if (k && k->own)
        informer_free(k->informer);
    free(k);
}

void quota_ctl_free(struct quota_ctl *c)
{
    if (!c)
        return;
    ctl_calls_drop(&c->calls);
    work_free(c->work);
    for (size_t i = 0; i < c->kinds.n; i++)
        counted_free(c->kinds.p[i]);
    vec_done(&c->kinds);
    counted_free(c->classes);
    map_foreach(&c->changed, i)
        free((void *)(uintptr_t)map_key(&c->changed, i).p);
    map_done(&c->changed);
    free(c);
}
