// SPDX-License-Identifier: Apache-2.0
//
// A watch goes through up to three stages: the objects that are there (streamed by the server where
// it can, else listed page by page), then what changes; the last is begun again, from the last
// revision seen, whenever the connection ends.
#include <assert.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/log.h"
#include "client/backoff.h"
#include "client/lines.h"
#include "client/remote/frames.h"
#include "client/remote/remote_int.h"

#include "base/banned.h"

#define LIST_PAGE       STR("500")
#define LIST_TIMEOUT_MS 65000
#define WATCH_SECONDS   300 // at least; as much again by chance, as client-go

static struct log_module log_mod = LOG_MODULE("watch");

enum stage { STAGE_STREAM, STAGE_LIST, STAGE_WATCH };

struct client_watch {
    struct remote *remote;
    const struct api_kind *kind;
    struct arena arena; // of the next three
    struct str namespace, labels, fields;
    client_event_fn event;
    void *arg;
    enum stage stage;
    struct sending sending;
    struct sbuf target;
    struct sbuf next_page;                               // continue
    enum { FORM_UNKNOWN, FORM_LINES, FORM_FRAMES } form; // of the stream: by its first byte
    struct lines lines;                                  // of JSON
    struct frames frames;                                // of protobuf
    uint64_t revision;
    struct exec_timer retry;
    struct backoff backoff;
    bool told; // something came since the last start
    bool ended, stopped;
    unsigned entered;
};

static void remote_watch_begin_request(struct client_watch *w);

static void watch_free(struct client_watch *w)
{
    struct remote *r = w->remote;
    sbuf_done(&w->target);
    sbuf_done(&w->next_page);
    lines_done(&w->lines);
    frames_done(&w->frames);
    arena_done(&w->arena);
    free(w);
    remote_release(r);
}

// remote_watch_enter_callback and leave stand around everything that may call the owner, who may
// stop the watch then.
static void remote_watch_enter_callback(struct client_watch *w)
{
    w->entered++;
}

static void remote_watch_leave_callback(struct client_watch *w)
{
    if (--w->entered == 0 && w->stopped)
        watch_free(w);
}

static bool remote_watch_is_over(const struct client_watch *w)
{
    return w->stopped || w->ended;
}

static void remote_watch_deliver_event(struct client_watch *w, const struct client_event *event)
{
    if (!remote_watch_is_over(w))
        w->event(w->arg, event);
}

static void remote_watch_end_stream(struct client_watch *w, int code, const struct err *err)
{
    if (remote_watch_is_over(w))
        return;
    struct client_event event = {.type = CLIENT_ENDED, .code = code, .err = err};
    remote_sending_stop(&w->sending);
    w->ended = true;
    w->event(w->arg, &event);
}

static void remote_watch_on_retry(void *arg)
{
    remote_watch_begin_request(arg);
}

// begin_later: after a failure, or (0) when the server has ended it in good order.
static void begin_later(struct client_watch *w, int code, const struct err *err)
{
    struct exec *exec = w->remote->client.exec;
    if (w->told)
        w->backoff = (struct backoff){0};
    w->told = false;
    exec_timer_start(exec, &w->retry, backoff_next(&w->backoff, code, exec->rng));
    if (code < 0 && backoff_worth_telling(&w->backoff, code))
        LOG_WARN(&log_mod, "a watch is cut off; trying on", log_str("kind", w->kind->kind),
                 log_z("why", err->msg));
}

// lost: the stage ended with a failure. What is being given at first cannot be resumed; what
// follows can.
static void remote_watch_connection_lost(struct client_watch *w, int code, struct err *err)
{
    if (code == -ERR_GONE)
        code = err_set(err, ERR_EXPIRED, "the revision is gone: list again");
    if (w->stage == STAGE_WATCH && backoff_passing(code)) {
        remote_sending_stop(&w->sending);
        begin_later(w, code, err);
        return;
    }
    remote_watch_end_stream(w, code, err);
}

// --- Events --------------------------------------------------------------------------------------

static bool ends_initial_events(const struct api_object_meta *m)
{
    const struct str *value = api_map_find(&m->annotations, STR("k8s.io/initial-events-end"));
    return value && str_eqz(*value, "true");
}

static void on_bookmark(struct client_watch *w, const struct typed_object *o)
{
    struct client_event event = {.type = CLIENT_BOOKMARK, .revision = o->revision};
    if (o->revision == 0)
        return; // no use
    w->revision = o->revision;
    if (w->stage == STAGE_STREAM) {
        if (!ends_initial_events(o->meta))
            return;
        event.type = CLIENT_SYNCED;
        w->stage = STAGE_WATCH;
    }
    remote_watch_deliver_event(w, &event);
}

static void remote_watch_on_object(struct client_watch *w, enum client_event_type type,
                                   const struct typed_object *object)
{
    struct client_event event = {.type = type, .object = object, .revision = object->revision};
    if (w->stage != STAGE_LIST && object->revision > w->revision)
        w->revision = object->revision;
    remote_watch_deliver_event(w, &event);
}

struct feeding {
    struct client_watch *watch;
    struct err err;
};

// on_piece takes one event, a line or a frame.
static int on_piece(void *arg, struct str bytes)
{
    struct feeding *f = arg;
    struct client_watch *w = f->watch;
    struct remote_event event = {0};
    if (remote_watch_is_over(w))
        return 1;
    int r = w->form == FORM_LINES ? remote_event_json(w->kind, bytes, &event, &f->err)
                                  : remote_event_frame(w->kind, bytes, &event, &f->err);
    if (r < 0)
        return r;
    w->told = true;
    if (event.type == CLIENT_BOOKMARK)
        on_bookmark(w, event.object);
    else
        remote_watch_on_object(w, event.type, event.object);
    typed_object_unref(event.object);
    return 0;
}

static int remote_watch_feed_bytes(struct client_watch *w, struct str bytes, struct feeding *f)
{
    // A length that is not too large begins with a small byte, which no text does.
    static_assert(REMOTE_EVENT_BYTES_MAX >> 24 < '\t', "a frame must differ from a line");
    if (w->form == FORM_UNKNOWN && bytes.n)
        w->form = (unsigned char)bytes.p[0] < '\t' ? FORM_FRAMES : FORM_LINES;
    if (w->form == FORM_LINES)
        return lines_feed(&w->lines, bytes, on_piece, f, &f->err);
    return frames_feed(&w->frames, bytes, on_piece, f, &f->err);
}

static void remote_watch_on_data(void *arg, struct str bytes)
{
    struct client_watch *w = arg;
    if (remote_watch_is_over(w))
        return;
    remote_watch_enter_callback(w);
    struct feeding f = {.watch = w};
    int r = remote_watch_feed_bytes(w, bytes, &f);
    if (r < 0 && !remote_watch_is_over(w)) {
        remote_sending_stop(&w->sending);
        remote_watch_connection_lost(w, r, &f.err);
    }
    remote_watch_leave_callback(w);
}

// https hands data to its own argument, which is the sending.
static void on_sending_data(void *arg, struct str bytes)
{
    struct sending *s = arg;
    remote_watch_on_data(s->arg, bytes);
}

// --- Lists ---------------------------------------------------------------------------------------

static int on_item(void *arg, struct typed_object *o)
{
    struct client_watch *w = arg;
    remote_watch_on_object(w, CLIENT_ADDED, o);
    return remote_watch_is_over(w);
}

static int remote_watch_on_page(struct client_watch *w, struct str body, struct err *err)
{
    struct remote_page page = {0};
    int r = remote_page_read(w->kind, body, on_item, w, &page, err);
    sbuf_done(&w->next_page);
    w->next_page = page.next;
    if (r < 0 || remote_watch_is_over(w))
        return r < 0 ? r : 0;
    if (page.next.n == 0) {
        w->revision = page.revision;
        w->stage = STAGE_WATCH;
        remote_watch_deliver_event(w, &(struct client_event){.type = CLIENT_SYNCED,
                                                             .revision = page.revision});
    }
    if (!remote_watch_is_over(w))
        remote_watch_begin_request(w);
    return 0;
}

// --- Requests ------------------------------------------------------------------------------------

// The server does not stream lists: it answers 400 or 422.
static bool cannot_stream(const struct client_watch *w, int status)
{
    return w->stage == STAGE_STREAM && (status == 400 || status == 422);
}

static void remote_watch_on_done(void *arg, const struct https_answer *a)
{
    struct client_watch *w = arg;
    remote_watch_enter_callback(w);
    struct err err = {0};
    int r = a->code;
    if (r < 0)
        err = *a->err;
    else
        r = client_remote_status(a->status, a->body, &err);
    if (r < 0 && a->code == 0 && cannot_stream(w, a->status)) {
        w->remote->no_watch_list = true;
        w->stage = STAGE_LIST;
        remote_watch_begin_request(w);
    } else if (r < 0) {
        remote_watch_connection_lost(w, r, &err);
    } else if (w->stage == STAGE_LIST) {
        r = remote_watch_on_page(w, a->body, &err);
        if (r < 0)
            remote_watch_connection_lost(w, r, &err);
    } else if (w->stage == STAGE_STREAM) {
        r = err_set(&err, ERR_UNAVAILABLE, "the list ended before it was complete");
        remote_watch_connection_lost(w, r, &err);
    } else {
        begin_later(w, 0, NULL); // the server's time is up: go on
    }
    remote_watch_leave_callback(w);
}

static void make_target(struct client_watch *w)
{
    bool first = true;
    struct sbuf *t = &w->target;
    char number[32];
    sbuf_clear(t);
    remote_path(t, w->kind, w->namespace, (struct str){0}, (struct str){0});
    if (w->labels.n)
        remote_query(t, &first, "labelSelector", w->labels);
    if (w->fields.n)
        remote_query(t, &first, "fieldSelector", w->fields);
    if (w->stage == STAGE_LIST) {
        remote_query(t, &first, "limit", LIST_PAGE);
        if (w->next_page.n)
            remote_query(t, &first, "continue", sbuf_str(&w->next_page));
        return;
    }
    remote_query(t, &first, "watch", STR("true"));
    remote_query(t, &first, "allowWatchBookmarks", STR("true"));
    if (w->stage == STAGE_STREAM) {
        remote_query(t, &first, "sendInitialEvents", STR("true"));
        remote_query(t, &first, "resourceVersionMatch", STR("NotOlderThan"));
    } else {
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)w->revision);
        remote_query(t, &first, "resourceVersion", str_z(number));
    }
    uint64_t seconds =
        WATCH_SECONDS + rng_below(w->remote->client.exec->rng, (uint64_t)WATCH_SECONDS);
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)seconds);
    remote_query(t, &first, "timeoutSeconds", str_z(number));
}

static void remote_watch_begin_request(struct client_watch *w)
{
    lines_reset(&w->lines);
    frames_reset(&w->frames);
    w->form = FORM_UNKNOWN;
    make_target(w);
    bool list = w->stage == STAGE_LIST;
    w->sending = (struct sending){
        .remote = w->remote,
        .request = {.method = "GET",
                    .target = sbuf_str(&w->target),
                    .accept = remote_accept(w->kind, list),
                    .timeout_ms = list ? LIST_TIMEOUT_MS : 0,
                    .data = list ? NULL : on_sending_data},
        .done = remote_watch_on_done,
        .arg = w,
    };
    remote_sending_start(&w->sending);
}

struct client_watch *remote_watch(struct client *c, const struct api_kind *kind,
                                  const struct client_list_options *options, uint64_t since,
                                  client_event_fn event, void *arg)
{
    struct remote *r = remote_of(c);
    struct client_watch *w = xcalloc(1, sizeof(*w));
    w->remote = r;
    w->kind = remote_kind(r, kind);
    w->namespace = arena_str(&w->arena, options->namespace);
    w->labels = arena_str(&w->arena, options->label_selector);
    w->fields = arena_str(&w->arena, options->field_selector);
    w->event = event;
    w->arg = arg;
    w->revision = since;
    w->stage = since ? STAGE_WATCH : r->no_watch_list ? STAGE_LIST : STAGE_STREAM;
    w->lines.max = w->frames.max = REMOTE_EVENT_BYTES_MAX;
    w->retry = (struct exec_timer){.fn = remote_watch_on_retry, .arg = w};
    r->busy++;
    remote_watch_begin_request(w);
    return w;
}

void remote_watch_stop(struct client_watch *w)
{
    assert(!w->stopped);
    w->stopped = true;
    remote_sending_stop(&w->sending);
    exec_timer_stop(w->remote->client.exec, &w->retry);
    if (w->entered == 0)
        watch_free(w);
}
