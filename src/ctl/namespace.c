// SPDX-License-Identifier: Apache-2.0
//
// A namespace that is being deleted is emptied and then let go. A sweep lists every kind in it once
// and deletes what it finds; the namespace goes when a sweep finds nothing. Objects with finalizers,
// and pods that are being stopped, keep it waiting.
#include <stdlib.h>

#include "api/validate.h"
#include "ctl/ctl_int.h"

#include "base/banned.h"

// How soon a namespace that was not empty is swept again.
static const int64_t wait_ns = CLOCK_NS_PER_SEC;

struct namespace_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls; // the last write
    struct list sweeps;
};

// One list of a sweep.
struct listing {
    struct sweep *sweep;
    struct client_watch *watch; // NULL when it is complete
};

struct sweep {
    struct list_node node; // in namespace_ctl.sweeps
    struct list removals;
    struct namespace_ctl *owner;
    char *name;
    size_t outstanding; // lists and deletions under way, and one while it starts
    size_t found;
    size_t listings_len;
    struct listing listings[];
};

// A deletion of a sweep, which may be gone when it ends.
struct removal {
    struct list_node node; // in sweep.removals
    struct sweep *sweep;
};

static void sweep_free(struct sweep *s)
{
    for (size_t i = 0; i < s->listings_len; i++)
        if (s->listings[i].watch)
            client_watch_stop(s->owner->ctl->client, s->listings[i].watch);
    while (list_pop_front(&s->removals))
        ;
    list_remove(&s->node);
    free(s->name);
    free(s);
}

// --- Letting go ----------------------------------------------------------------------------------

static void finalize(struct namespace_ctl *n, struct str name)
{
    const struct client_object *o = ctl_find(n->ctl, CACHE_NAMESPACES, STR(""), name);
    if (!o) {
        work_done(n->work, name);
        return;
    }
    struct arena arena = {0};
    struct api_namespace changed = *(const struct api_namespace *)o->object.value;
    const struct api_str_array all = changed.spec.finalizers;
    struct str *kept = arena_array(&arena, struct str, all.n);
    size_t len = 0;
    for (size_t i = 0; i < all.n; i++)
        if (!str_eq(all.p[i], STR("kubernetes")))
            kept[len++] = all.p[i];
    if (len == all.n) {
        work_done(n->work, name); // others hold it
    } else {
        changed.spec.finalizers = (struct api_str_array){len > 0 ? kept : NULL, len};
        const struct api_object object = {o->object.kind, &changed};
        const struct client_write how = {.subresource = STR("finalize")};
        client_update(n->ctl->client, &object, &how, call_done,
                      call_new(&n->calls, n->work, name, CACHE_NAMESPACES));
    }
    arena_done(&arena);
}

// --- Sweeping ------------------------------------------------------------------------------------

// less: one of the things the sweep waits for is over.
static void less(struct sweep *s)
{
    if (--s->outstanding > 0)
        return;
    struct namespace_ctl *n = s->owner;
    if (s->found > 0)
        work_again(n->work, str_z(s->name), wait_ns);
    else
        finalize(n, str_z(s->name));
    sweep_free(s);
}

static void removed(void *arg, const struct client_answer *a)
{
    struct removal *r = arg;
    (void)a; // what could not be deleted is found by the next sweep
    if (list_linked(&r->node)) {
        list_remove(&r->node);
        less(r->sweep);
    }
    free(r);
}

static void remove_object(struct sweep *s, const struct client_object *o)
{
    s->found++;
    if (o->meta->deletion_timestamp.set)
        return;
    struct removal *r = xcalloc(1, sizeof(*r));
    r->sweep = s;
    list_push_back(&s->removals, &r->node);
    s->outstanding++;
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    client_delete(s->owner->ctl->client, &at, NULL, removed, r);
}

static void listed(void *arg, const struct client_event *e)
{
    struct listing *l = arg;
    struct sweep *s = l->sweep;
    if (e->type == CLIENT_ADDED)
        remove_object(s, e->object);
    if (e->type != CLIENT_SYNCED && e->type != CLIENT_ENDED)
        return;
    if (e->type == CLIENT_ENDED)
        s->found++; // not known: look again
    client_watch_stop(s->owner->ctl->client, l->watch);
    l->watch = NULL;
    less(s);
}

// Kinds that live in namespaces, each in the version it is stored in.
static bool is_swept(const struct api_kind *k)
{
    return k->plural.n > 0 && k->namespaced && k->list && api_hub_kind(k) == k;
}

static void step(void *arg, struct str key)
{
    struct namespace_ctl *n = arg;
    const struct client_object *o = ctl_find(n->ctl, CACHE_NAMESPACES, STR(""), key);
    if (!o || !o->meta->deletion_timestamp.set) {
        work_done(n->work, key);
        return;
    }
    struct sweep *s = xcalloc(1, sizeof(*s) + api_kinds_len * sizeof(s->listings[0]));
    s->owner = n;
    s->name = xstrndup(key.p, key.n);
    s->outstanding = 1;
    list_init(&s->removals);
    list_push_back(&n->sweeps, &s->node);
    const struct client_list_options in = {.namespace = key};
    for (size_t i = 0; i < api_kinds_len; i++) {
        if (!is_swept(&api_kinds[i]))
            continue;
        struct listing *l = &s->listings[s->listings_len++];
        l->sweep = s;
        s->outstanding++;
        l->watch = client_watch(n->ctl->client, &api_kinds[i], &in, 0, listed, l);
    }
    less(s);
}

// --- The controller ------------------------------------------------------------------------------

static void namespace_changed(void *arg, const struct client_object *before,
                              const struct client_object *after)
{
    struct namespace_ctl *n = arg;
    (void)before;
    if (after && after->meta->deletion_timestamp.set)
        work_add(n->work, after->meta->name);
}

struct namespace_ctl *namespace_ctl_new(struct ctl *ctl)
{
    struct namespace_ctl *n = xcalloc(1, sizeof(*n));
    n->ctl = ctl;
    n->work = work_new(ctl->exec, step, n);
    list_init(&n->calls);
    list_init(&n->sweeps);
    ctl_watch(ctl, CACHE_NAMESPACES, namespace_changed, n, n->work);
    return n;
}

void namespace_ctl_free(struct namespace_ctl *n)
{
    if (!n)
        return;
    while (!list_empty(&n->sweeps))
        sweep_free(list_entry(n->sweeps.head.next, struct sweep, node));
    calls_drop(&n->calls);
    work_free(n->work);
    free(n);
}

bool namespace_ctl_idle(const struct namespace_ctl *n)
{
    return work_idle(n->work);
}
