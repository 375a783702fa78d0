// SPDX-License-Identifier: Apache-2.0
//
// One request that asks to switch protocols; its response is read by h1_answer.c. What follows a
// 101 is passed on as it is.
#include "net/tunnel.h"

#include <assert.h>
#include <stdlib.h>

#include "net/h1_answer.h"

#include "base/banned.h"

#define ANSWER_NS (30 * CLOCK_NS_PER_SEC)

enum tunnel_state { WAITING, REFUSING, OPEN };

struct tunnel {
    struct tunnel_options o;
    struct exec *exec;
    struct dial *dial; // NULL: it has closed
    enum tunnel_state state;
    struct exec_timer timer;
    struct h1_answer answer;
    struct sbuf body; // of a refusal
    bool drained_due; // was drained before it was open
    bool invalid;     // the request cannot be sent
    bool closed;      // no callback runs any more
    int busy;
};

// --- Life ----------------------------------------------------------------------------------------

static void tunnel_release_self(struct tunnel *t)
{
    if (t->busy > 0)
        return;
    exec_timer_stop(t->exec, &t->timer);
    sbuf_done(&t->body);
    h1_answer_done(&t->answer);
    free(t);
}

static void tunnel_leave_callback(struct tunnel *t)
{
    if (--t->busy == 0 && t->closed)
        tunnel_release_self(t);
}

void tunnel_close(struct tunnel *t)
{
    t->closed = true;
    if (t->dial)
        dial_close(take_ptr(t->dial));
    tunnel_release_self(t);
}

void tunnel_end(struct tunnel *t)
{
    t->closed = true;
    if (t->dial)
        dial_end(take_ptr(t->dial));
    tunnel_release_self(t);
}

static void tunnel_fail_with(struct tunnel *t, const struct err *err)
{
    if (!t->closed) {
        t->closed = true;
        t->o.closed(t->o.arg, err);
    }
    if (t->dial)
        dial_close(take_ptr(t->dial));
}

static void tunnel_on_closed(void *arg, const struct err *err);

static void tunnel_on_timeout(void *arg)
{
    struct tunnel *t = arg;
    struct err err = {0};
    t->busy++;
    if (t->invalid)
        err_record(&err, ERR_BAD_REQUEST, "the request has characters that HTTP does not allow");
    else
        err_record(&err, ERR_TIMEOUT, "the peer did not answer in time");
    tunnel_fail_with(t, &err);
    tunnel_leave_callback(t);
}

bool tunnel_write(struct tunnel *t, struct str bytes)
{
    return !t->dial || dial_write(t->dial, bytes);
}

void tunnel_hold(struct tunnel *t, bool hold)
{
    if (t->dial)
        dial_hold(t->dial, hold);
}

// --- The answer ----------------------------------------------------------------------------------

static void tunnel_on_refused(struct tunnel *t)
{
    if (t->closed)
        return;
    t->closed = true;
    t->o.refused(t->o.arg, t->answer.status, h1_answer_find(&t->answer, STR("content-type")),
                 sbuf_str(&t->body));
    if (t->dial)
        dial_close(take_ptr(t->dial));
}

static void tunnel_open(struct tunnel *t)
{
    t->state = OPEN;
    exec_timer_stop(t->exec, &t->timer);
    t->o.opened(t->o.arg, t->answer.headers, t->answer.headers_len);
    if (!t->closed && t->drained_due && t->o.drained)
        t->o.drained(t->o.arg);
}

// tunnel_read_answer reads the response; false: there is nothing more to read for now.
static bool tunnel_read_answer(struct tunnel *t, struct str *in)
{
    struct str piece;
    struct err err = {0};
    int r = h1_answer_read(&t->answer, in, &piece, &err);
    if (r < 0) {
        tunnel_fail_with(t, &err);
    } else if (r == H1_ANSWER_HEAD) {
        t->state = REFUSING;
    } else if (r == H1_ANSWER_SWITCHED) {
        tunnel_open(t);
    } else if (r == H1_ANSWER_DATA) {
        sbuf_add(&t->body, str_upto(piece, TUNNEL_REFUSAL_BYTES - t->body.n));
        if (t->body.n >= TUNNEL_REFUSAL_BYTES)
            tunnel_on_refused(t);
    } else if (r == H1_ANSWER_END) {
        tunnel_on_refused(t);
    }
    return r > H1_ANSWER_MORE;
}

static void tunnel_on_input(void *arg, struct str bytes)
{
    struct tunnel *t = arg;
    t->busy++;
    while (t->state != OPEN && !t->closed && tunnel_read_answer(t, &bytes))
        ;
    if (t->state == OPEN && !t->closed && bytes.n)
        t->o.input(t->o.arg, bytes);
    tunnel_leave_callback(t);
}

static void tunnel_on_closed(void *arg, const struct err *err)
{
    struct tunnel *t = arg;
    struct err early = {0};
    t->busy++;
    t->dial = NULL;
    if (t->state == REFUSING)
        tunnel_on_refused(t);
    else if (err || t->state == OPEN || h1_answer_eof(&t->answer, &early) == 0)
        tunnel_fail_with(t, err);
    else
        tunnel_fail_with(t, &early);
    tunnel_leave_callback(t);
}

static void tunnel_on_drained(void *arg)
{
    struct tunnel *t = arg;
    t->busy++;
    t->drained_due = t->state != OPEN;
    if (t->state == OPEN && t->o.drained)
        t->o.drained(t->o.arg);
    tunnel_leave_callback(t);
}

static void tunnel_on_connected(void *arg)
{
    struct tunnel *t = arg;
    exec_timer_start(t->exec, &t->timer, t->o.timeout_ns > 0 ? t->o.timeout_ns : ANSWER_NS);
}

// --- The request ---------------------------------------------------------------------------------

static void tunnel_send_request(struct tunnel *t, const struct tunnel_options *o)
{
    cleanup_sbuf struct sbuf b = {0}, authority = {0};
    h1_add_authority(&authority, o->host, o->port);
    bool ok = h1_add_request_line(&b, o->method, o->target, sbuf_str(&authority));
    sbuf_addz(&b, "Connection: Upgrade\r\n");
    if (str_eqz(o->method, "POST"))
        sbuf_addz(&b, "Content-Length: 0\r\n");
    for (size_t i = 0; i < o->headers_len; i++)
        ok &= h1_add_field(&b, o->headers[i].name, o->headers[i].value);
    sbuf_addz(&b, "\r\n");
    if (ok) {
        (void)dial_write(t->dial, sbuf_str(&b));
        return;
    }
    t->invalid = true;
    dial_close(take_ptr(t->dial));
    exec_timer_start(t->exec, &t->timer, 0);
}

struct tunnel *tunnel_new(const struct tunnel_options *options)
{
    struct tunnel *t = xcalloc(1, sizeof(*t));
    t->o = *options;
    t->exec = loop_exec(options->loop);
    t->timer.fn = tunnel_on_timeout;
    t->timer.arg = t;
    const struct dial_options d = {.loop = options->loop,
                                   .host = options->host,
                                   .port = options->port,
                                   .tls = options->tls,
                                   .server_name = options->server_name,
                                   .unix_path = options->unix_path,
                                   .proxy = options->proxy,
                                   .proxy_tls = options->proxy_tls,
                                   .timeout_ns = options->timeout_ns,
                                   .connected = tunnel_on_connected,
                                   .input = tunnel_on_input,
                                   .drained = tunnel_on_drained,
                                   .closed = tunnel_on_closed,
                                   .arg = t};
    t->dial = dial_new(&d);
    tunnel_send_request(t, options);
    return t;
}
