// SPDX-License-Identifier: Apache-2.0
//
// Objects whose owners are all gone are deleted: claims of pods and PodGroups, slices of nodes, pods
// of nodes' static pods and the like. Owners of kinds that are not cached here count as alive; the
// whole garbage collector, with its three modes, is another controller.
#include <stdlib.h>

#include "ctl/ctl_int.h"
#include "ctl/gone.h"

#include "base/banned.h"

// Which caches hold dependents, and the letter of their keys (X/NAMESPACE/NAME).
static const struct {
    enum ctl_cache cache;
    char letter;
} dependents[] = {{CACHE_CLAIMS, 'c'}, {CACHE_SLICES, 's'}, {CACHE_PODS, 'p'}};

struct gc_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    size_t by_owner[CACHES]; // index: UID of an owner
    struct gone gone;        // owners
};

static void index_owners(const struct client_object *o, void (*add)(void *ctx, struct str key),
                         void *ctx)
{
    for (size_t i = 0; i < o->meta->owner_references.n; i++)
        add(ctx, o->meta->owner_references.p[i].uid);
}

static char letter_of(enum ctl_cache cache)
{
    for (size_t i = 0; i < array_len(dependents); i++)
        if (dependents[i].cache == cache)
            return dependents[i].letter;
    return '?';
}

static enum ctl_cache cache_of(char letter)
{
    for (size_t i = 0; i < array_len(dependents); i++)
        if (dependents[i].letter == letter)
            return dependents[i].cache;
    return CACHES;
}

static void add_key(struct gc_ctl *g, enum ctl_cache cache, const struct api_object_meta *meta)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "%c/%.*s/%.*s", letter_of(cache), STR_ARG(meta->namespace),
              STR_ARG(meta->name));
    work_add(g->work, sbuf_str(&key));
    sbuf_done(&key);
}

// --- Owners --------------------------------------------------------------------------------------

static void remember_gone(void *owner, struct str uid)
{
    struct gc_ctl *g = owner;
    gone_add(&g->gone, uid);
}

// owner_cache is the cache that would hold an owner, CACHES when none does.
static enum ctl_cache owner_cache(const struct gc_ctl *g, const struct api_owner_reference *o)
{
    static const enum ctl_cache owners[] = {CACHE_PODS, CACHE_GROUPS, CACHE_NODES, CACHE_CLAIMS};
    for (size_t i = 0; i < array_len(owners); i++) {
        const struct api_kind *kind = ctl_kind(owners[i]);
        struct str group;
        struct str version;
        if (!str_cut(o->api_version, '/', &group, &version))
            group = (struct str){0};
        if (str_eq(kind->kind, o->kind) && str_eq(kind->group, group) && g->ctl->caches[owners[i]])
            return owners[i];
    }
    return CACHES;
}

enum owner_state { OWNER_ALIVE, OWNER_GONE, OWNER_UNKNOWN };

static enum owner_state owner_state(const struct gc_ctl *g, struct str namespace,
                                    const struct api_owner_reference *o, struct client_key *ret)
{
    if (gone_has(&g->gone, o->uid))
        return OWNER_GONE;
    enum ctl_cache cache = owner_cache(g, o);
    if (cache == CACHES)
        return OWNER_ALIVE;
    const struct api_kind *kind = ctl_kind(cache);
    *ret = (struct client_key){kind, kind->namespaced ? namespace : STR(""), o->name};
    const struct client_object *found = ctl_find(g->ctl, cache, ret->namespace, ret->name);
    return found && str_eq(found->meta->uid, o->uid) ? OWNER_ALIVE : OWNER_UNKNOWN;
}

// --- Steps ---------------------------------------------------------------------------------------

static void collect(struct gc_ctl *g, struct str key, const struct client_object *o)
{
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    struct api_preconditions same = {.uid = o->meta->uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same,
                                               .propagation_policy = STR("Background"),
                                               .has_propagation_policy = true};
    client_delete(g->ctl->client, &at, &options, ctl_call_done,
                  ctl_call_new(&g->calls, g->work, key, cache_of(key.p[0])));
}

static bool caches_are_there(const struct gc_ctl *g)
{
    for (size_t i = 0; i < CACHES; i++)
        if (g->ctl->caches[i] && !informer_synced(g->ctl->caches[i]))
            return false;
    return true;
}

static void step(void *arg, struct str key)
{
    struct gc_ctl *g = arg;
    struct str namespace;
    struct str name;
    if (!caches_are_there(g)) {
        work_retry(g->work, key);
        return;
    }
    enum ctl_cache cache = cache_of(key.p[0]);
    str_cut(str_from(key, 2), '/', &namespace, &name);
    const struct client_object *o = ctl_find(g->ctl, cache, namespace, name);
    if (!o || o->meta->deletion_timestamp.set || o->meta->owner_references.n == 0) {
        work_done(g->work, key);
        return;
    }
    for (size_t i = 0; i < o->meta->owner_references.n; i++) {
        const struct api_owner_reference *owner = &o->meta->owner_references.p[i];
        struct client_key at;
        enum owner_state state = owner_state(g, namespace, owner, &at);
        if (state == OWNER_ALIVE) {
            work_done(g->work, key);
            return;
        }
        if (state == OWNER_UNKNOWN) {
            ctl_call_ask(ctl_call_new(&g->calls, g->work, key, cache), g->ctl->client, &at,
                         owner->uid, remember_gone, g);
            return;
        }
    }
    collect(g, key, o);
}

// --- What changed --------------------------------------------------------------------------------

struct add_in {
    struct gc_ctl *g;
    enum ctl_cache cache;
};

static void add_dependent(void *arg, const struct client_object *o)
{
    const struct add_in *in = arg;
    add_key(in->g, in->cache, o->meta);
}

static void owner_went(struct gc_ctl *g, struct str uid)
{
    for (size_t i = 0; i < array_len(dependents); i++) {
        enum ctl_cache cache = dependents[i].cache;
        struct add_in in = {g, cache};
        informer_by(g->ctl->caches[cache], g->by_owner[cache], uid, add_dependent, &in);
    }
}

static void changed(struct gc_ctl *g, enum ctl_cache cache, const struct client_object *before,
                    const struct client_object *after)
{
    if (before && (!after || !str_eq(before->meta->uid, after->meta->uid))) {
        remember_gone(g, before->meta->uid);
        owner_went(g, before->meta->uid);
    }
    if (after && letter_of(cache) != '?' && after->meta->owner_references.n > 0)
        add_key(g, cache, after->meta);
}

#define CHANGED(name, cache)                                        \
    static void name(void *arg, const struct client_object *before, \
                     const struct client_object *after)             \
    {                                                               \
        changed(arg, cache, before, after);                         \
    }

CHANGED(pod_changed, CACHE_PODS)
CHANGED(claim_changed, CACHE_CLAIMS)
CHANGED(slice_changed, CACHE_SLICES)
CHANGED(group_changed, CACHE_GROUPS)
CHANGED(node_changed, CACHE_NODES)

struct gc_ctl *gc_ctl_new(struct ctl *ctl)
{
    struct gc_ctl *g = xcalloc(1, sizeof(*g));
    g->ctl = ctl;
    g->work = ctl_work(ctl, step, g);
    list_init(&g->calls);
    for (size_t i = 0; i < array_len(dependents); i++) {
        enum ctl_cache cache = dependents[i].cache;
        g->by_owner[cache] = informer_add_index(ctl->caches[cache], index_owners);
    }
    ctl_watch(ctl, CACHE_PODS, pod_changed, g, g->work);
    ctl_watch(ctl, CACHE_CLAIMS, claim_changed, g, g->work);
    ctl_watch(ctl, CACHE_SLICES, slice_changed, g, g->work);
    ctl_watch(ctl, CACHE_GROUPS, group_changed, g, g->work);
    ctl_watch(ctl, CACHE_NODES, node_changed, g, g->work);
    return g;
}

void gc_ctl_free(struct gc_ctl *g)
{
    if (!g)
        return;
    ctl_calls_drop(&g->calls);
    work_free(g->work);
    gone_done(&g->gone);
    free(g);
}
