// SPDX-License-Identifier: Apache-2.0
//
// Watches. A watcher that does not keep up holds no events: it stops listening to the store when
// its connection is full and, once that has drained, goes on from the store's history. If the
// history has moved on by then, the watch ends with 410 and the client lists again.
#include <stdlib.h>

#include "api/status.h"
#include "server/auth/denial.h"
#include "server/flow/flow.h"
#include "server/http/server_int.h"
#include "store/select.h"

#include "base/banned.h"

#define WATCH_TIMEOUT_MIN_S 1800

// How often a watcher that reads nothing is looked at.
#define STALLED_NS (10 * CLOCK_NS_PER_SEC)

struct watcher {
    struct list_node node; // in the server's
    struct exchange *ex;
    struct store_watch watch;
    struct store_select select;
    struct encode_how how;
    struct exec_timer deadline;
    struct exec_timer bookmark;
    struct VEC(const struct object *) initial; // referenced; the objects at the start
    size_t initial_sent;
    uint64_t initial_revision;
    struct store_walk walk;
    struct list_options options;
    bool walking;
    bool collecting;
    bool posted;
    bool listening; // to the store
    bool full;      // waiting for the connection to drain
    bool started;   // the answer has begun; before, it may wait for a revision
};

// watch_stop_events sees to it that nothing calls the watcher any more but a step that is on its
// way.
static void watch_stop_events(struct watcher *w)
{
    struct server *s = w->ex->s;
    if (w->listening)
        store_watch_stop(s->store, &w->watch);
    w->listening = false;
    exec_timer_stop(s->exec, &w->deadline);
    exec_timer_stop(s->exec, &w->bookmark);
}

static void watcher_free(void *arg)
{
    struct watcher *w = arg;
    struct server *s = w->ex->s;
    watch_stop_events(w);
    if (w->walking)
        store_walk_done(&w->walk);
    for (size_t i = w->initial_sent; i < w->initial.n; i++)
        object_unref(w->initial.p[i]);
    vec_done(&w->initial);
    list_remove(&w->node);
    s->watchers.n--;
    free(w);
}

// watch_leave_store lets go of a watcher whose stream is over.
static void watch_leave_store(struct watcher *w)
{
    struct exchange *ex = w->ex;
    ex->q = NULL;
    if (w->posted) {
        watch_stop_events(w);
        return;
    }
    watcher_free(w);
    exchange_end(ex, 200);
}

// watcher_end completes the stream; abort breaks it off.
static void watcher_end(struct watcher *w, bool abort)
{
    struct http_request *q = w->ex->q;
    q->closed = q->drained = NULL;
    if (abort)
        http_abort(q);
    else
        http_end(q);
    watch_leave_store(w);
}

static void watcher_closed(void *arg)
{
    watch_leave_store(arg);
}

// watch_send_event gives bytes to the connection. False: it is full now.
static bool watch_send_event(struct watcher *w, struct net_buf *b)
{
    bool room = http_write(w->ex->q, b);
    w->full = !room;
    return room;
}

// send_error ends a watch with a Status in its stream.
static void send_error(struct watcher *w, const struct api_status *status)
{
    (void)watch_send_event(w, encode_error(&w->how, status));
    watcher_end(w, false);
}

static void send_expired(struct watcher *w)
{
    struct arena *arena = &w->ex->arena;
    send_error(w, api_status_expired(
                      arena, arena_strf(arena, "too old resource version: %llu (%llu)",
                                        (unsigned long long)w->watch.seen,
                                        (unsigned long long)store_oldest(w->ex->s->store))));
}

// --- Live events ---------------------------------------------------------------------------------

static void watch_on_store_event(void *arg, const struct store_event *e)
{
    struct watcher *w = arg;
    enum store_event_type type;
    const struct object *o;
    if (!store_select_event(&w->select, e, &type, &o))
        return;
    w->how.now_ns = exec_wall_ns(w->ex->s->exec); // ages in a table are those of this moment
    struct net_buf *line = encode_event(&w->ex->s->cache, type, o, e->object->revision, &w->how);
    w->how.no_headers = true;
    if (!watch_send_event(w, line)) {
        store_watch_stop(w->ex->s->store, &w->watch);
        w->listening = false;
    }
}

static void listen_on(struct watcher *w)
{
    struct err err = {0};
    flow_release(w->ex); // what is left to do is done for all watchers
    w->listening = true;
    int r = store_watch_start(w->ex->s->store, &w->watch, &err);
    if (r < 0) {
        w->listening = false;
        send_expired(w);
    }
}

// --- Initial events ------------------------------------------------------------------------------

static void send_initial(void *arg);

static void post_initial(struct watcher *w)
{
    w->posted = true;
    exec_post(w->ex->s->exec, send_initial, w);
}

static void initial_over(struct watcher *w)
{
    if (w->options.allow_bookmarks && w->options.send_initial == QUERY_TRUE)
        (void)watch_send_event(w, encode_bookmark(&w->how, w->initial_revision, true));
    w->watch.seen = w->initial_revision;
    w->collecting = false;
    vec_done(&w->initial);
    w->initial_sent = 0;
    // Even if the connection is full: the first event that does not fit stops the watch.
    if (!w->full)
        listen_on(w);
}

static bool watch_collect_initial(struct watcher *w)
{
    for (size_t i = 0; i < SERVER_STEP_OBJECTS; i++) {
        const struct object *o = store_walk_next(w->ex->s->store, &w->walk);
        if (!o)
            return true;
        if (store_select_matches(&w->select, o))
            vec_push(&w->initial, object_ref(o));
    }
    return false;
}

static void send_some(struct watcher *w)
{
    struct sbuf piece = {0};
    while (w->initial_sent < w->initial.n && piece.n < SERVER_PIECE_BYTES) {
        const struct object *o = w->initial.p[w->initial_sent++];
        encode_event_to(STORE_ADDED, o, 0, &w->how, &piece);
        w->how.no_headers = true;
        object_unref(o);
    }
    if (piece.n)
        (void)watch_send_event(w, net_buf_new(&piece));
}

static void send_initial(void *arg)
{
    struct watcher *w = arg;
    w->posted = false;
    if (!w->ex->q) {
        watch_leave_store(w);
        return;
    }
    if (w->walking) {
        if (!watch_collect_initial(w)) {
            post_initial(w);
            return;
        }
        bool expired = w->walk.expired;
        store_walk_done(&w->walk);
        w->walking = false;
        if (expired) {
            w->watch.seen = w->initial_revision;
            send_expired(w);
            return;
        }
    }
    send_some(w);
    if (w->initial_sent == w->initial.n)
        initial_over(w);
    else if (!w->full)
        post_initial(w);
}

static void begin_initial(struct watcher *w)
{
    struct exchange *ex = w->ex;
    struct err err = {0};
    w->collecting = true;
    w->walk = (struct store_walk){.kind = w->watch.kind,
                                  .one_namespace = ex->route.namespace.n > 0,
                                  .namespace = ex->route.namespace};
    int r = store_walk_start(ex->s->store, &w->walk, &err);
    if (r < 0) {
        send_expired(w);
        return;
    }
    w->walking = true;
    w->initial_revision = w->walk.revision;
    send_initial(w);
}

static void watcher_drained(void *arg)
{
    struct watcher *w = arg;
    if (!w->full)
        return;
    w->full = false;
    if (w->collecting) {
        if (!w->posted)
            post_initial(w);
    } else if (!w->listening) {
        listen_on(w);
    }
}

// --- Time ----------------------------------------------------------------------------------------

static void bookmark_due(void *arg)
{
    struct watcher *w = arg;
    struct server *s = w->ex->s;
    bool current = w->listening && !w->full;
    if (!current && !w->collecting && w->watch.seen < store_oldest(s->store)) {
        // It has not read for so long that what it missed is forgotten.
        watcher_end(w, true);
        return;
    }
    if (current && w->options.allow_bookmarks)
        (void)watch_send_event(w, encode_bookmark(&w->how, store_revision(s->store), false));
    if (w->full && w->listening) {
        store_watch_stop(s->store, &w->watch);
        w->listening = false;
    }
    bool stalled = w->full || !w->listening;
    exec_timer_start(s->exec, &w->bookmark,
                     stalled && s->watchers.bookmark_ns > STALLED_NS ? STALLED_NS
                                                                     : s->watchers.bookmark_ns);
}

static void deadline_due(void *arg)
{
    struct watcher *w = arg;
    if (w->listening && !w->full && w->options.allow_bookmarks)
        (void)watch_send_event(w, encode_bookmark(&w->how, store_revision(w->ex->s->store), false));
    watcher_end(w, false);
}

// How long the watch lasts: as its client wants it, but not longer than the token or certificate
// that it was let in with.
static int64_t lifetime_s(const struct watcher *w)
{
    const struct server *s = w->ex->s;
    int64_t seconds = w->options.timeout_seconds, until = w->ex->user.until;
    if (seconds <= 0)
        seconds = WATCH_TIMEOUT_MIN_S + (int64_t)rng_below(s->exec->rng, WATCH_TIMEOUT_MIN_S);
    if (seconds > INT32_MAX)
        seconds = INT32_MAX;
    int64_t left = until ? until - exec_wall_ns(s->exec) / CLOCK_NS_PER_SEC : seconds;
    return left >= seconds ? seconds : left > 0 ? left : 0;
}

static void start_timers(struct watcher *w)
{
    struct server *s = w->ex->s;
    w->deadline.fn = deadline_due;
    w->deadline.arg = w;
    exec_timer_start(s->exec, &w->deadline, lifetime_s(w) * CLOCK_NS_PER_SEC);
    w->bookmark.fn = bookmark_due;
    w->bookmark.arg = w;
    // Spread, so that a thousand watchers do not get theirs at once.
    int64_t first = s->watchers.bookmark_ns / 2 +
                    (int64_t)rng_below(s->exec->rng, (uint64_t)s->watchers.bookmark_ns / 2 + 1);
    exec_timer_start(s->exec, &w->bookmark, first);
}

// --- Beginning -----------------------------------------------------------------------------------

// As upstream: once the question is understood, errors come as events of the stream.
static void watch_go(struct exchange *ex, bool there)
{
    struct watcher *w = ex->state;
    ex->q->closed = watcher_closed;
    ex->q->drained = watcher_drained;
    ex->q->arg = w;
    w->started = true;
    answer_start(ex, 200,
                 w->how.protobuf ? STR("application/vnd.kubernetes.protobuf;stream=watch")
                                 : STR("application/json"));
    if (!there) {
        send_error(w, api_status_resource_version_too_large(&ex->arena, ex->wait_revision,
                                                            store_revision(ex->s->store), 1));
        return;
    }
    start_timers(w);
    if (w->options.send_initial == QUERY_TRUE) {
        begin_initial(w);
        return;
    }
    w->watch.seen = w->options.revision ? w->options.revision : store_revision(ex->s->store);
    listen_on(w);
}

static struct watcher *watcher_new(struct exchange *ex, const struct list_options *options)
{
    struct watcher *w = xcalloc(1, sizeof(*w));
    w->ex = ex;
    w->options = *options;
    w->how = exchange_how(ex);
    w->watch = (struct store_watch){.kind = registry_stored_kind(ex->route.resource->kind),
                                    .namespace = ex->route.namespace,
                                    .event = watch_on_store_event,
                                    .arg = w};
    list_push_back(&ex->s->watchers.all, &w->node);
    ex->s->watchers.n++;
    return w;
}

void watch_serve(struct exchange *ex, const struct list_options *options)
{
    const struct api_kind *kind = ex->route.resource->kind;
    struct err err = {0};
    struct store_select select;
    ex->verb = VERB_WATCH;
    int r = store_select_parse(options->label_selector, options->field_selector, kind,
                               registry_stored_kind(kind), &ex->arena, &select, &err);
    if (r < 0) {
        answer_error(ex, &err);
        return;
    }
    if (ex->form.media == MEDIA_YAML) {
        answer_fail(ex, 406, "NotAcceptable",
                    STR("only the following media types are accepted: application/json, "
                        "application/vnd.kubernetes.protobuf"),
                    NULL);
        return;
    }
    struct watcher *w = watcher_new(ex, options);
    w->select = select;
    ex->state = w;
    ex->free_state = watcher_free;
    exchange_wait(ex, options->revision, watch_go);
}

// watcher_stop ends a watch: with a status if it has not begun.
static void watcher_stop(struct watcher *w, int code, const char *reason, struct str message)
{
    struct exchange *ex = w->ex;
    if (!w->started) {
        watcher_free(w);
        answer_fail(ex, code, reason, message, NULL);
    } else if (ex->q) {
        watcher_end(w, false);
    }
}

void watch_stop_all(struct server *s)
{
    list_foreach(&s->watchers.all, node) {
        watcher_stop(list_entry(node, struct watcher, node), 503, "ServiceUnavailable",
                     STR("the server is stopping"));
    }
}

void watch_stop_denied(struct server *s)
{
    list_foreach(&s->watchers.all, node) {
        struct watcher *w = list_entry(node, struct watcher, node);
        if (denial_is(w->ex))
            watcher_stop(w, 401, "Unauthorized", STR("Unauthorized"));
    }
}
