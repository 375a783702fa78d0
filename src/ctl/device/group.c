// SPDX-License-Identifier: Apache-2.0
//
// PodGroup protection: a group that is being deleted stays, by its finalizer, until no pod that is
// not over names it. Caches of two kinds are not of one moment, so before a group is let go the
// server lists its pods: those that are older than the group's deletion are all in that
// answer.
#include <stdlib.h>

#include "api/match/claim.h"
#include "ctl/core/ctl_int.h"

#include "base/banned.h"

// When pods are found that the cache lacks, or the question had no answer.
#define AGAIN_NS (CLOCK_NS_PER_SEC)

struct group_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct list looks;
    size_t active; // index: pods that are not over by NAMESPACE/GROUP
};

// A question for the pods of a namespace.
struct look {
    struct list_node node;
    struct group_ctl *g;
    struct client_watch *watch;
    char *key;
    bool used;
};

static void look_free(struct look *l)
{
    list_remove(&l->node);
    client_watch_stop(l->g->ctl->client, l->watch);
    free(l->key);
    free(l);
}

static void group_key(struct sbuf *out, const struct api_pod *pod)
{
    struct str name = pod_group_name(pod);
    if (name.n)
        sbuf_addf(out, "%.*s/%.*s", STR_ARG(pod->metadata.namespace), STR_ARG(name));
}

static void index_active(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                         void *ctx)
{
    cleanup_sbuf struct sbuf key = {0};
    if (!pod_is_terminal(as_pod(o)))
        group_key(&key, as_pod(o));
    if (key.n)
        add(ctx, sbuf_str(&key));
}

static void group_see_pod(void *arg, const struct typed_object *o)
{
    bool *any = arg;
    (void)o;
    *any = true;
}

static bool is_candidate(const struct api_pod_group *group)
{
    return group && group->metadata.deletion_timestamp.set &&
           meta_has_finalizer(&group->metadata, STR(GROUP_FINALIZER));
}

static const struct typed_object *group_find_object(const struct group_ctl *g, struct str key)
{
    struct str namespace;
    struct str name;
    str_cut(key, '/', &namespace, &name);
    return ctl_find(g->ctl, CACHE_GROUPS, namespace, name);
}

static void group_remove_finalizer(struct group_ctl *g, struct str key)
{
    const struct typed_object *o = group_find_object(g, key);
    if (!is_candidate(maybe_group(o))) {
        work_done(g->work, key);
        return;
    }
    struct arena arena = {0};
    struct api_pod_group changed = *as_group(o);
    const struct api_str_array all = changed.metadata.finalizers;
    struct str *kept = arena_array(&arena, struct str, all.n);
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++)
        if (!str_eq(all.p[i], STR(GROUP_FINALIZER)))
            kept[n++] = all.p[i];
    changed.metadata.finalizers = (struct api_str_array){n > 0 ? kept : NULL, n};
    const struct api_object object = {o->object.kind, &changed};
    client_update(g->ctl->client, &object, NULL, ctl_call_done,
                  ctl_call_new(&g->calls, g->work, key, CACHE_GROUPS));
    arena_done(&arena);
}

static void group_on_pods_listed(void *arg, const struct client_event *e)
{
    struct look *l = arg;
    struct group_ctl *g = l->g;
    cleanup_sbuf struct sbuf of = {0};
    switch (e->type) {
    case CLIENT_ADDED:
    case CLIENT_MODIFIED:
        if (!pod_is_terminal(as_pod(e->object)))
            group_key(&of, as_pod(e->object));
        l->used |= of.n && str_eqz(sbuf_str(&of), l->key);
        return;
    case CLIENT_DELETED:
    case CLIENT_BOOKMARK:
        return;
    case CLIENT_SYNCED:
        if (l->used)
            work_again(g->work, str_z(l->key), AGAIN_NS);
        else
            group_remove_finalizer(g, str_z(l->key));
        break;
    case CLIENT_ENDED:
        work_retry(g->work, str_z(l->key));
        break;
    }
    look_free(l);
}

static void group_step_key(void *arg, struct str key)
{
    struct group_ctl *g = arg;
    const struct informer *pods = g->ctl->caches[CACHE_PODS];
    if (!informer_synced(pods) || !informer_synced(g->ctl->caches[CACHE_GROUPS])) {
        work_retry(g->work, key);
        return;
    }
    bool used = false;
    const struct typed_object *o = group_find_object(g, key);
    informer_by(pods, g->active, key, group_see_pod, &used);
    if (!is_candidate(maybe_group(o)) || used) {
        work_done(g->work, key); // the end of its last pod comes back here
        return;
    }
    struct look *l = xcalloc(1, sizeof(*l));
    l->g = g;
    l->key = xstrndup(key.p, key.n);
    list_push_back(&g->looks, &l->node);
    const struct client_list_options where = {.namespace = o->meta->namespace};
    l->watch =
        client_watch(g->ctl->client, ctl_kind(CACHE_PODS), &where, 0, group_on_pods_listed, l);
}

static void add_group_of(struct group_ctl *g, const struct api_pod *pod)
{
    cleanup_sbuf struct sbuf key = {0};
    group_key(&key, pod);
    if (key.n)
        work_add(g->work, sbuf_str(&key));
}

static void group_pod_changed(void *arg, const struct typed_object *before,
                              const struct typed_object *after)
{
    if (before && (!after || !str_eq(before->meta->uid, after->meta->uid)))
        add_group_of(arg, as_pod(before));
    if (after && pod_is_terminal(as_pod(after)))
        add_group_of(arg, as_pod(after));
}

static void group_on_group_changed(void *arg, const struct typed_object *before,
                                   const struct typed_object *after)
{
    struct group_ctl *g = arg;
    (void)before;
    if (!is_candidate(maybe_group(after)))
        return;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(after->meta->namespace), STR_ARG(after->meta->name));
    work_add(g->work, sbuf_str(&key));
}

struct group_ctl *group_ctl_new(struct ctl *ctl)
{
    struct group_ctl *g = xcalloc(1, sizeof(*g));
    g->ctl = ctl;
    g->work = ctl_work(ctl, "podgroupprotection", group_step_key, g);
    list_init(&g->calls);
    list_init(&g->looks);
    g->active = informer_add_index(ctl->caches[CACHE_PODS], index_active);
    ctl_watch(ctl, CACHE_PODS, group_pod_changed, g, g->work);
    ctl_watch(ctl, CACHE_GROUPS, group_on_group_changed, g, g->work);
    return g;
}

void group_ctl_free(struct group_ctl *g)
{
    if (!g)
        return;
    list_foreach(&g->looks, node)
        look_free(list_entry(node, struct look, node));
    ctl_calls_drop(&g->calls);
    work_free(g->work);
    free(g);
}
