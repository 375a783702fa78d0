// SPDX-License-Identifier: Apache-2.0
//
// A connection to any cluster for verbs that ask and end: requests run on a loop until the answer
// or a timeout.
#include "cmd/cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/offer.h"
#include "client/remote.h"

#include "base/banned.h"

#define LOOK_NS     (5 * CLOCK_NS_PER_MS)
#define PATIENCE_NS (60 * CLOCK_NS_PER_SEC)

// Each warning is shown once. It comes from the server: what would move a terminal's cursor is not
// passed on.
static void cluster_show_warning(void *arg, struct str text)
{
    struct cluster *c = arg;
    cleanup_sbuf struct sbuf line = {0};
    if (str_listed(c->warnings.shown.p, c->warnings.shown.n, text))
        return;
    vec_push_arena(&c->warnings.arena, &c->warnings.shown, arena_str(&c->warnings.arena, text));
    for (size_t i = 0; i < text.n; i++)
        sbuf_addc(&line, (unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f ? '?' : text.p[i]);
    (void)fprintf(stderr, "Warning: %.*s\n", STR_ARG(sbuf_str(&line)));
}

int cluster_open(struct cluster *c, struct err *err)
{
    int r = loop_new(&c->loop, err);
    const struct client_remote_options o = {
        .target = &c->target, .warning = cluster_show_warning, .warning_arg = c};
    return r < 0 ? r : client_remote_new(c->loop, &o, &c->client, err);
}

static void cluster_stop_loop(void *arg)
{
    loop_stop(arg);
}

void cluster_close(struct cluster *c)
{
    if (c->client)
        client_free(c->client);
    if (c->loop) {
        exec_post(loop_exec(c->loop), cluster_stop_loop, c->loop);
        loop_run(c->loop); // what was cancelled is answered
        loop_free(c->loop);
    }
    kubeconfig_done(&c->config);
    discovery_done(&c->kinds);
    arena_done(&c->warnings.arena);
    *c = (struct cluster){0};
}

// --- Waiting -------------------------------------------------------------------------------------

struct waiting {
    struct cluster *c;
    bool (*done)(void *arg);
    void *arg;
    struct exec_timer timer;
    int64_t end_ns;
    bool late;
};

static void cluster_poll_condition(void *arg)
{
    struct waiting *w = arg;
    struct exec *exec = loop_exec(w->c->loop);
    w->late = exec_now_ns(exec) > w->end_ns;
    if (w->done(w->arg) || w->late)
        loop_stop(w->c->loop);
    else
        exec_timer_start(exec, &w->timer, LOOK_NS);
}

int cluster_wait(struct cluster *c, bool (*done)(void *arg), void *arg, struct err *err)
{
    struct exec *exec = loop_exec(c->loop);
    struct waiting w = {
        .c = c, .done = done, .arg = arg, .end_ns = exec_now_ns(exec) + PATIENCE_NS};
    w.timer = (struct exec_timer){.fn = cluster_poll_condition, .arg = &w};
    exec_timer_start(exec, &w.timer, 0);
    loop_run(c->loop);
    return w.late && !done(arg)
               ? err_set(err, ERR_TIMEOUT, "%.*s did not finish listing objects within 60 s",
                         STR_ARG(c->target.server))
               : 0;
}

// --- Asking --------------------------------------------------------------------------------------

struct reading {
    struct loop *loop;
    struct sbuf *out;
    struct err *err;
    int code;
};

static void on_body(void *arg, int code, const struct err *err, struct str body)
{
    struct reading *r = arg;
    r->code = code;
    if (code < 0 && r->err)
        *r->err = *err;
    if (code == 0)
        sbuf_add(r->out, body);
    loop_stop(r->loop);
}

int cluster_request(struct cluster *c, struct client_raw_request q, struct sbuf *out,
                    struct err *err)
{
    struct reading r = {.loop = c->loop, .out = out, .err = err};
    q.done = on_body;
    q.arg = &r;
    client_remote_request(c->client, &q);
    loop_run(c->loop);
    return r.code;
}

int cluster_get(struct cluster *c, const char *target, struct sbuf *out, struct err *err)
{
    return cluster_request(c, (struct client_raw_request){.method = "GET", .target = str_z(target)},
                           out, err);
}

int cluster_kinds(struct cluster *c, bool anew, struct err *err)
{
    static const char *const paths[] = {"/api", "/apis"};
    int r = 0;
    if (c->kinds.kinds.n && !anew)
        return 0;
    discovery_done(&c->kinds);
    for (size_t i = 0; i < array_len(paths) && r == 0; i++) {
        cleanup_sbuf struct sbuf body = {0};
        const struct client_raw_request q = {
            .method = "GET", .target = str_z(paths[i]), .accept = STR(DISCOVERY_ACCEPT)};
        r = cluster_request(c, q, &body, err);
        if (r == 0)
            r = discovery_read(&c->kinds, sbuf_str(&body), err);
    }
    return r;
}

// --- Streams -------------------------------------------------------------------------------------

// A stream may be given up before the server has ended it: then it outlives its caller, on the
// heap, and goes with the client.
struct streaming {
    struct loop *loop;
    cluster_data_fn data;
    void *arg;
    struct exec_timer timer;
    struct err err;
    int code;
    bool over;     // no caller waits for it any more
    bool answered; // the client has done with it
};

static void stream_data(void *arg, struct str bytes)
{
    struct streaming *s = arg;
    if (s->over || s->code != 0)
        return;
    s->code = s->data(s->arg, bytes, &s->err);
    if (s->code != 0)
        loop_stop(s->loop);
}

static void stream_done(void *arg, int code, const struct err *err, struct str body)
{
    struct streaming *s = arg;
    (void)body;
    s->answered = true;
    if (s->over) {
        free(s);
        return;
    }
    if (s->code == 0 && code < 0) {
        s->code = code;
        s->err = *err;
    }
    loop_stop(s->loop);
}

static void stream_late(void *arg)
{
    struct streaming *s = arg;
    s->code = err_set(&s->err, ERR_TIMEOUT, "the time is over");
    loop_stop(s->loop);
}

int cluster_stream(struct cluster *c, struct client_raw_request q, int64_t timeout_ns,
                   cluster_data_fn data, void *arg, struct err *err)
{
    struct exec *exec = loop_exec(c->loop);
    struct streaming *s = xcalloc(1, sizeof(*s));
    *s = (struct streaming){.loop = c->loop, .data = data, .arg = arg};
    s->timer = (struct exec_timer){.fn = stream_late, .arg = s};
    if (timeout_ns > 0)
        exec_timer_start(exec, &s->timer, timeout_ns);
    q.data = stream_data;
    q.done = stream_done;
    q.arg = s;
    client_remote_request(c->client, &q);
    loop_run(c->loop);
    exec_timer_stop(exec, &s->timer);
    int r = s->code;
    if (r < 0 && err)
        *err = s->err;
    s->over = true;
    if (s->answered)
        free(s);
    return r;
}

static void pause_over(void *arg)
{
    loop_stop(arg);
}

void cluster_pause(struct cluster *c, int64_t ns)
{
    struct exec_timer timer = {.fn = pause_over, .arg = c->loop};
    exec_timer_start(loop_exec(c->loop), &timer, ns);
    loop_run(c->loop);
    exec_timer_stop(loop_exec(c->loop), &timer);
}

// --- What it offers ------------------------------------------------------------------------------

struct offering {
    struct loop *loop;
    struct features *features;
    struct err *err;
    int code;
};

static void cluster_on_features(void *arg, int code, const struct err *err, const struct offer *o)
{
    struct offering *f = arg;
    f->code = code;
    if (code == 0)
        f->code = offer_features(o, f->features, f->err);
    else if (f->err)
        *f->err = *err;
    loop_stop(f->loop);
}

int cluster_features(struct cluster *c, struct features *ret, struct err *err)
{
    struct offering f = {.loop = c->loop, .features = ret, .err = err};
    offer_ask(c->client, cluster_on_features, &f);
    loop_run(c->loop);
    return f.code;
}
