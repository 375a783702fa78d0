// SPDX-License-Identifier: Apache-2.0
#include "cmd/cluster.h"

#include "client/offer.h"
#include "client/remote.h"

#include "base/banned.h"

#define LOOK_NS     (5 * CLOCK_NS_PER_MS)
#define PATIENCE_NS (60 * CLOCK_NS_PER_SEC)

int cluster_open(struct cluster *c, const char *kubeconfig, const char *context, struct err *err)
{
    int r = loop_new(&c->loop, err);
    if (r == 0)
        r = kubeconfig_find(&c->config, kubeconfig, context, &c->target, err);
    const struct client_remote_options o = {.target = &c->target};
    return r < 0 ? r : client_remote_new(c->loop, &o, &c->client, err);
}

static void stop(void *arg)
{
    loop_stop(arg);
}

void cluster_close(struct cluster *c)
{
    if (c->client)
        client_free(c->client);
    if (c->loop) {
        exec_post(loop_exec(c->loop), stop, c->loop);
        loop_run(c->loop); // what was cancelled is answered
        loop_free(c->loop);
    }
    kubeconfig_done(&c->config);
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

static void look(void *arg)
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
    w.timer = (struct exec_timer){.fn = look, .arg = &w};
    exec_timer_start(exec, &w.timer, 0);
    loop_run(c->loop);
    return w.late && !done(arg) ? err_set(err, ERR_TIMEOUT, "%.*s did not tell all within a minute",
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

int cluster_get(struct cluster *c, const char *target, struct sbuf *out, struct err *err)
{
    struct reading r = {.loop = c->loop, .out = out, .err = err};
    client_remote_raw(c->client, "GET", str_z(target), (struct str){0}, on_body, &r);
    loop_run(c->loop);
    return r.code;
}

struct offering {
    struct loop *loop;
    struct features *features;
    struct err *err;
    int code;
};

static void on_offer(void *arg, int code, const struct err *err, const struct offer *o)
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
    offer_ask(c->client, on_offer, &f);
    loop_run(c->loop);
    return f.code;
}
