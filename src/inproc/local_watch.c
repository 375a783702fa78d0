// SPDX-License-Identifier: Apache-2.0
//
// Watches: the store's events are filtered on its exec and queued; the client's exec takes them
// from there, many at a time, and decodes them. A queue that is not read is ended, not grown.
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/partial.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/vec.h"
#include "inproc/local_int.h"

#include "base/banned.h"

// What may wait for a slow client beyond the objects it requested at first.
#define WATCH_EVENTS_MAX ((size_t)100000)
#define WATCH_BYTES_MAX  ((size_t)64 * 1024 * 1024)

struct queued {
    enum client_event_type type;
    const struct object *object; // referenced; NULL where the event has none
    uint64_t revision;
    bool initial;
};

struct queued_list VEC(struct queued);

struct client_watch {
    struct local *local; // the client side's; may be gone once it has stopped the watch
    struct registry *registry;
    struct exec *client_exec;
    _Atomic uint32_t refs;       // the client's side, the registry's side, each posted delivery
    struct arena arena;          // of the request
    const struct api_kind *kind; // the client side's
    struct str namespace;
    struct str label_text, field_text;
    uint64_t since;
    client_event_fn event;
    void *arg;
    bool stopped; // the client's

    struct { // the registry side's alone
        // The registry side's alone:
        const struct api_kind *asked, *stored;
        struct store_select select;
        struct store_watch watch;
        bool begun, watching, cancelled;
    };

    pthread_mutex_t lock;
    struct { // under the lock
        // Under the lock:
        struct queued_list queue;
        size_t events, bytes; // waiting, initial ones not counted
        struct err end_err;
        bool posted;
    };
};

static void queue_drop(struct queued_list *queue)
{
    for (size_t i = 0; i < queue->n; i++)
        object_unref(queue->p[i].object);
    vec_done(queue);
}

static void watch_unref(struct client_watch *w)
{
    if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) > 1)
        return;
    queue_drop(&w->queue);
    must_succeed(pthread_mutex_destroy(&w->lock));
    arena_done(&w->arena);
    free(w);
}

// --- On the client's exec ------------------------------------------------------------------------

// local_watch_deliver_event hands one event to the client. Returns false when it was the last.
static bool local_watch_deliver_event(struct client_watch *w, const struct queued *q,
                                      const struct err *end_err)
{
    struct err err = {0};
    struct typed_object *object = NULL;
    struct client_event event = {.type = q->type, .revision = q->revision};
    if (q->object) {
        object = typed_cache_get(w->local->typed, q->object, w->kind, !q->initial, &err);
        if (!object)
            event = (struct client_event){.type = CLIENT_ENDED, .code = -err.code, .err = &err};
        event.object = object;
    } else if (q->type == CLIENT_ENDED) {
        event.code = -end_err->code;
        event.err = end_err;
    }
    bool last = event.type == CLIENT_ENDED;
    w->event(w->arg, &event);
    typed_object_unref(object);
    return !last;
}

static void watch_deliver(void *arg)
{
    struct client_watch *w = arg;
    must_succeed(pthread_mutex_lock(&w->lock));
    struct queued_list queue = w->queue;
    struct err end_err = w->end_err;
    w->queue = (struct queued_list){0};
    w->events = w->bytes = 0;
    w->posted = false;
    must_succeed(pthread_mutex_unlock(&w->lock));
    for (size_t i = 0; i < queue.n && !w->stopped; i++)
        if (!local_watch_deliver_event(w, &queue.p[i], &end_err))
            break;
    queue_drop(&queue);
    watch_unref(w);
}

// --- On the registry's exec ----------------------------------------------------------------------

// queue_event adds an event for the client, which takes o's reference.
static void queue_event(struct client_watch *w, const struct queued *q)
{
    must_succeed(pthread_mutex_lock(&w->lock));
    vec_push(&w->queue, *q);
    if (!q->initial) {
        w->events++;
        w->bytes += q->object ? q->object->block_size : 0;
    }
    bool post = !w->posted;
    w->posted = true;
    must_succeed(pthread_mutex_unlock(&w->lock));
    if (!post)
        return;
    atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    exec_post(w->client_exec, watch_deliver, w);
}

// watch_link makes the watch one of the store's, or not one any more; who writes the objects of a
// watched kind keeps their typed form.
static void watch_link(struct client_watch *w, bool watching)
{
    if (w->watching != watching)
        typed_cache_want(registry_typed(w->registry), w->stored, watching);
    w->watching = watching;
}

static void watch_unlink(struct client_watch *w)
{
    if (w->watching)
        store_watch_stop(registry_store(w->registry), &w->watch);
    watch_link(w, false);
}

static void watch_over(struct client_watch *w, const struct err *err)
{
    watch_unlink(w);
    must_succeed(pthread_mutex_lock(&w->lock));
    w->end_err = *err;
    must_succeed(pthread_mutex_unlock(&w->lock));
    queue_event(w, &(struct queued){.type = CLIENT_ENDED});
}

static bool local_watch_is_overflowing(struct client_watch *w)
{
    must_succeed(pthread_mutex_lock(&w->lock));
    bool yes = w->events >= WATCH_EVENTS_MAX || w->bytes >= WATCH_BYTES_MAX;
    must_succeed(pthread_mutex_unlock(&w->lock));
    return yes;
}

static void on_store_event(void *arg, const struct store_event *e)
{
    static const enum client_event_type types[] = {[STORE_ADDED] = CLIENT_ADDED,
                                                   [STORE_MODIFIED] = CLIENT_MODIFIED,
                                                   [STORE_DELETED] = CLIENT_DELETED};
    struct client_watch *w = arg;
    enum store_event_type type;
    const struct object *shown;
    if (!store_select_event(&w->select, e, &type, &shown))
        return;
    if (local_watch_is_overflowing(w)) {
        struct err err;
        (void)err_set(&err, ERR_EXPIRED, "the watcher does not keep up: list again");
        watch_over(w, &err);
        return;
    }
    queue_event(w, &(struct queued){
                       .type = types[type],
                       .object = object_ref(shown),
                       .revision = e->object->revision,
                   });
}

// local_watch_find_kind finds out what is watched, and what of it.
static int local_watch_find_kind(struct client_watch *w, struct err *err)
{
    const struct api_kind *kind = local_kind(w->registry, w->asked);
    if (!kind)
        return err_set(err, ERR_NOT_FOUND, "the server could not find the requested resource");
    w->stored = registry_stored_kind(kind);
    return store_select_parse(w->label_text, w->field_text, kind, w->stored, &w->arena, &w->select,
                              err);
}

// list queues everything that is there now and returns its revision.
static uint64_t list_now(struct client_watch *w, const struct store *store)
{
    struct err err;
    struct store_walk walk = {
        .kind = w->stored, .one_namespace = w->namespace.n > 0, .namespace = w->namespace};
    int r = store_walk_start(store, &walk, &err);
    assert(r == 0); // the present is always there
    for (const struct object *o; (o = store_walk_next(store, &walk));)
        if (store_select_matches(&w->select, o))
            queue_event(w, &(struct queued){.type = CLIENT_ADDED,
                                            .object = object_ref(o),
                                            .revision = o->revision,
                                            .initial = true});
    store_walk_done(&walk);
    queue_event(
        w, &(struct queued){.type = CLIENT_SYNCED, .revision = walk.revision, .initial = true});
    return walk.revision;
}

static void local_watch_begin(void *arg)
{
    struct client_watch *w = arg;
    struct store *store = registry_store(w->registry);
    struct err err;
    w->begun = true;
    if (w->cancelled) {
        watch_unref(w);
        return;
    }
    if (local_watch_find_kind(w, &err) < 0) {
        watch_over(w, &err);
        return;
    }
    // A revision from a future that a restored backup does not know.
    if (w->since > store_revision(store)) {
        (void)err_set(&err, ERR_EXPIRED, "Too large resource version: %llu, current: %llu",
                      (unsigned long long)w->since, (unsigned long long)store_revision(store));
        watch_over(w, &err);
        return;
    }
    w->watch = (struct store_watch){
        .kind = w->stored,
        .namespace = w->namespace,
        .seen = w->since ? w->since : list_now(w, store),
        .event = on_store_event,
        .arg = w,
    };
    watch_link(w, true); // the replay may overflow already
    if (store_watch_start(store, &w->watch, &err) < 0) {
        watch_link(w, false);
        watch_over(w, &err);
    }
}

static void watch_end(void *arg)
{
    struct client_watch *w = arg;
    if (!w->begun) { // on one exec the stop overtakes the start
        w->cancelled = true;
        return;
    }
    watch_unlink(w);
    watch_unref(w);
}

// --- On the client's exec ------------------------------------------------------------------------

struct client_watch *local_watch(struct client *c, const struct api_kind *kind,
                                 const struct client_list_options *options, uint64_t since,
                                 client_event_fn event, void *arg)
{
    struct local *l = local_of(c);
    struct client_watch *w = xcalloc(1, sizeof(*w));
    w->local = l;
    w->registry = l->registry;
    w->client_exec = c->exec;
    w->refs = 2;
    w->kind = kind;
    w->asked = api_kind_keep(&w->arena, kind);
    w->namespace = arena_str(&w->arena, options->namespace);
    w->label_text = arena_str(&w->arena, options->label_selector);
    w->field_text = arena_str(&w->arena, options->field_selector);
    w->since = since;
    w->event = event;
    w->arg = arg;
    must_succeed(pthread_mutex_init(&w->lock, NULL));
    l->busy++;
    exec_post(l->registry_exec, local_watch_begin, w);
    return w;
}

void local_watch_stop(struct client_watch *w)
{
    struct local *l = w->local;
    assert(!w->stopped);
    w->stopped = true;
    if (l->registry_exec == l->client.exec)
        watch_end(w);
    else
        exec_post(l->registry_exec, watch_end, w);
    watch_unref(w); // NOLINT(clang-analyzer-unix.Malloc): watch_end gave up another reference
    local_release(l);
}
