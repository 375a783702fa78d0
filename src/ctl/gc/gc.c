// SPDX-License-Identifier: Apache-2.0
//
// The garbage collector's graph: who owns whom, from the caches of all kinds. It keeps nothing of
// its own but UIDs that are known to be gone; gc_step.c decides what becomes of an object.
#include <stdlib.h>

#include "ctl/gc/gc_int.h"

#include "base/banned.h"

static void index_owners(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                         void *ctx)
{
    for (size_t i = 0; i < o->meta->owner_references.n; i++)
        add(ctx, o->meta->owner_references.p[i].uid);
}

static void index_uid(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                      void *ctx)
{
    add(ctx, o->meta->uid);
}

void gc_add(const struct gc_kind *k, const struct api_object_meta *meta)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%zu/%.*s/%.*s", k->number, STR_ARG(meta->namespace), STR_ARG(meta->name));
    work_add(k->g->work, sbuf_str(&key));
}

void gc_remember(void *g, struct str uid)
{
    gone_add(&((struct gc_ctl *)g)->gone, uid);
}

const struct gc_kind *gc_kind_of_owner(const struct gc_ctl *g, const struct api_owner_reference *o)
{
    struct str group, version;
    if (!str_cut(o->api_version, '/', &group, &version))
        group = (struct str){0};
    const struct gc_kind *past = NULL;
    vec_foreach(&g->kinds, k) {
        if (!str_eq((*k)->kind->kind, o->kind) || !str_eq((*k)->kind->group, group))
            continue;
        if ((*k)->cache)
            return *k;
        if ((*k)->undefined)
            past = *k;
    }
    return past;
}

static void note_first(void *arg, const struct typed_object *o)
{
    const struct typed_object **found = arg;
    if (!*found)
        *found = o;
}

const struct typed_object *gc_by_uid(const struct gc_kind *k, struct str uid)
{
    const struct typed_object *found = NULL;
    if (k->cache)
        informer_by(k->cache, k->by_uid, uid, note_first, &found);
    return found;
}

struct dependents {
    const struct gc_kind *kind;
    gc_dependent_fn fn;
    void *arg;
};

static void one_dependent(void *arg, const struct typed_object *o)
{
    const struct dependents *d = arg;
    d->fn(d->arg, d->kind, o);
}

void gc_dependents(const struct gc_ctl *g, struct str uid, gc_dependent_fn fn, void *arg)
{
    vec_foreach(&g->kinds, k) {
        struct dependents d = {*k, fn, arg};
        if ((*k)->cache)
            informer_by((*k)->cache, (*k)->by_owner, uid, one_dependent, &d);
    }
}

// --- What changed --------------------------------------------------------------------------------

static void add_dependent(void *arg, const struct gc_kind *k, const struct typed_object *o)
{
    (void)arg;
    gc_add(k, o->meta);
}

void gc_gone(struct gc_ctl *g, const struct api_object_meta *meta)
{
    gc_remember(g, meta->uid);
    gc_dependents(g, meta->uid, add_dependent, NULL);
}

// An owner that waits for its dependents may be waiting for this one.
static void add_waiting_owners(const struct gc_ctl *g, const struct api_object_meta *meta)
{
    for (size_t i = 0; i < meta->owner_references.n; i++) {
        const struct gc_kind *k = gc_kind_of_owner(g, &meta->owner_references.p[i]);
        const struct typed_object *owner = k ? gc_by_uid(k, meta->owner_references.p[i].uid) : NULL;
        if (owner && owner->meta->deletion_timestamp.set)
            gc_add(k, owner->meta);
    }
}

static void gc_on_changed(void *arg, const struct typed_object *before,
                          const struct typed_object *after)
{
    const struct gc_kind *k = arg;
    if (before && (!after || !str_eq(before->meta->uid, after->meta->uid)))
        gc_gone(k->g, before->meta);
    if (before)
        add_waiting_owners(k->g, before->meta);
    if (after && (after->meta->owner_references.n || after->meta->deletion_timestamp.set))
        gc_add(k, after->meta);
}

static void gc_on_progress(void *arg, uint64_t revision)
{
    const struct gc_kind *k = arg;
    work_seen(k->g->work, k->number, revision);
}

static void gc_on_refused(void *arg, int code)
{
    struct gc_kind *k = arg;
    (void)code;
    k->refused = true;
}

void gc_kind_watch(struct gc_kind *k, struct informer *cache)
{
    const struct informer_options options = {.client = k->g->ctl->client, .kind = k->kind};
    const struct informer_handler handler = {
        .changed = gc_on_changed, .progress = gc_on_progress, .refused = gc_on_refused, .arg = k};
    k->cache = cache ? cache : informer_new(&options);
    k->own = !cache;
    k->refused = false;
    k->by_owner = informer_add_index(k->cache, index_owners);
    k->by_uid = informer_add_index(k->cache, index_uid);
    informer_add_handler(k->cache, &handler);
}

// --- What is public ------------------------------------------------------------------------------

struct gc_ctl *gc_ctl_new(struct ctl *ctl)
{
    struct gc_ctl *g = xcalloc(1, sizeof(*g));
    g->ctl = ctl;
    g->work = ctl_work(ctl, "garbage_collector_attempt_to_delete", gc_step, g);
    list_init(&g->calls);
    gc_kinds_init(g);
    return g;
}

void gc_ctl_free(struct gc_ctl *g)
{
    if (!g)
        return;
    ctl_calls_drop(&g->calls);
    work_free(g->work);
    gc_kinds_done(g);
    gone_done(&g->gone);
    gc_inquiries_done(g);
    free(g);
}
