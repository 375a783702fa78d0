// SPDX-License-Identifier: Apache-2.0
//
// One request and what has come of its response. Connections only note here; https_call_settle
// notifies the owner.
#include <assert.h>
#include <stdlib.h>

#include "base/civil.h"
#include "net/client/https_int.h"

#include "base/banned.h"

// How often a call that the server did not look at is sent.
#define HTTPS_TRIES_MAX 5

// --- Life ----------------------------------------------------------------------------------------

static void https_call_on_timeout(void *arg)
{
    struct https_call *call = arg;
    struct https *h = call->https;
    https_enter(h);
    https_call_failf(call, !call->conn, ERR_TIMEOUT, "no answer from %s in time", h->shown);
    https_leave(h);
}

static struct str https_keep_text(char **at, struct str s)
{
    char *to = *at;
    if (s.n)
        memcpy(to, s.p, s.n);
    *at += s.n;
    return str_make(to, s.n);
}

static void https_call_copy(struct https_call *call, const struct https_request *q)
{
    const struct https *h = call->https;
    struct str prefix = str_z(h->url.prefix), method = str_z(q->method);
    struct str authorization = q->authorization.n ? q->authorization : sbuf_str(&h->authorization);
    char *at = xmalloc(method.n + prefix.n + q->target.n + q->content_type.n + q->accept.n +
                       authorization.n + 2);
    call->texts = at;
    call->method = https_keep_text(&at, method);
    call->target = https_keep_text(&at, prefix);
    call->target.n += https_keep_text(&at, q->target).n;
    if (call->target.n == 0)
        call->target = https_keep_text(&at, STR("/"));
    call->content_type = https_keep_text(&at, q->content_type);
    call->accept = https_keep_text(&at, q->accept);
    call->authorization = https_keep_text(&at, authorization);
    call->body = q->body.n ? net_buf_copy(q->body) : NULL;
}

// https_call_is_valid: a request that is exactly one. A token from a file may end in a line feed.
static bool https_call_is_valid(const struct https_call *call)
{
    return h1_is_token(call->method) && h1_is_target(call->target) &&
           h1_is_value(call->content_type) && h1_is_value(call->accept) &&
           h1_is_value(call->authorization);
}

static void https_call_queue(struct https_call *call);

struct https_call *https_call_new(struct https *h, const struct https_request *q)
{
    struct https_call *call = xcalloc(1, sizeof(*call));
    call->https = h;
    call->data = q->data;
    call->done = q->done;
    call->arg = q->arg;
    call->timeout = (struct exec_timer){.fn = https_call_on_timeout, .arg = call};
    https_call_copy(call, q);
    list_push_back(&h->calls, &call->node);
    if (q->timeout_ms > 0)
        exec_timer_start(h->exec, &call->timeout, q->timeout_ms * CLOCK_NS_PER_MS);
    if (h->broken.code)
        https_call_fail(call, &h->broken, true);
    else if (!https_call_is_valid(call))
        https_call_failf(call, true, ERR_INVALID,
                         "the request for %s has characters that HTTP does not allow; look at the "
                         "token and the path",
                         h->shown);
    else
        https_call_queue(call);
    return call;
}

void https_call_free(struct https_call *call)
{
    if (call->conn)
        https_conn_cancel(call->conn, call);
    https_call_detach(call);
    exec_timer_stop(call->https->exec, &call->timeout);
    list_remove(&call->node);
    list_remove(&call->queue);
    list_remove(&call->ready);
    outq_done(&call->h2.out);
    net_buf_unref(call->body);
    sbuf_done(&call->in);
    free(call->texts);
    free(call);
}

static void https_call_queue(struct https_call *call)
{
    assert(!call->conn);
    list_push_back(&call->https->queued, &call->queue);
    https_wake(call->https);
}

void https_call_detach(struct https_call *call)
{
    struct https_conn *c = call->conn;
    if (!c)
        return;
    call->conn = NULL;
    list_remove(&call->queue);
    c->calls_len--;
    c->idle_ns = exec_now_ns(call->https->exec); // from now on, if it was the last
    outq_done(&call->h2.out);
    call->h2 = (struct h2_stream){0};
}

// --- The response --------------------------------------------------------------------------------

static void https_call_make_ready(struct https_call *call)
{
    if (!list_linked(&call->ready))
        list_push_back(&call->https->ready, &call->ready);
    https_wake(call->https);
}

static uint64_t https_read_number(struct str *text, size_t digits)
{
    uint64_t n = 0;
    if (text->n < digits || str_to_u64(str_upto(*text, digits), &n) < 0)
        n = UINT64_MAX;
    *text = str_from(*text, digits);
    return n;
}

static int64_t https_parse_date(struct str text)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    // Sun, 06 Nov 1994 08:49:37 GMT
    if (text.n != 29 || text.p[3] != ',' || !str_ends(text, STR(" GMT")))
        return 0;
    text = str_from(text, 5);
    uint64_t day = https_read_number(&text, 2);
    ptrdiff_t month = str_find(str_z(months), str_make(text.p + 1, 3));
    text = str_from(text, 5);
    uint64_t year = https_read_number(&text, 4);
    text = str_from(text, 1);
    uint64_t hour = https_read_number(&text, 2);
    text = str_from(text, 1);
    uint64_t minute = https_read_number(&text, 2);
    text = str_from(text, 1);
    uint64_t second = https_read_number(&text, 2);
    if (month < 0 || month % 3 != 0 || day > 31 || year < 1970 || year > 9999 || hour > 23 ||
        minute > 59 || second > 60)
        return 0;
    const struct civil_date date = {(int)year, (int)(month / 3) + 1, (int)day};
    if (!civil_valid(date))
        return 0;
    return civil_to_days(date) * 86400 + (int64_t)(hour * 3600 + minute * 60 + second);
}

static int64_t https_retry_after(const struct https_call *call, struct str value)
{
    uint64_t seconds = 0;
    if (str_to_u64(value, &seconds) == 0)
        return seconds < INT32_MAX ? (int64_t)seconds : INT32_MAX;
    int64_t at = https_parse_date(value);
    int64_t now = exec_wall_ns(call->https->exec) / CLOCK_NS_PER_SEC;
    return at > now ? at - now : 0;
}

// https_call_warn hands on the text of `299 AGENT "TEXT"`; other codes, and what follows, are
// ignored.
static void https_call_warn(const struct https_call *call, struct str value)
{
    struct str code, agent, rest;
    cleanup_sbuf struct sbuf text = {0};
    if (!str_cut(str_trim(value), ' ', &code, &rest) || !str_eqz(code, "299") ||
        !str_cut(rest, ' ', &agent, &rest) || !str_starts(rest, STR("\"")))
        return;
    for (size_t i = 1; i < rest.n && rest.p[i] != '"'; i++) {
        if (rest.p[i] == '\\' && i + 1 < rest.n)
            i++;
        sbuf_addc(&text, rest.p[i]);
    }
    call->https->warning(call->https->warning_arg, sbuf_str(&text));
}

void https_call_header(struct https_call *call, struct str name, struct str value)
{
    if (str_eqz(name, "date"))
        call->date_seconds = https_parse_date(value);
    else if (str_eqz(name, "retry-after"))
        call->retry_after_seconds = https_retry_after(call, value);
    else if (call->https->warning && str_eqz(name, "warning"))
        https_call_warn(call, value);
}

void https_call_head(struct https_call *call, int status)
{
    call->status = status;
    call->streaming = call->data && status >= 200 && status < 300;
}

void https_call_body(struct https_call *call, struct str bytes)
{
    size_t most = call->https->body_bytes;
    if (call->finished)
        return;
    if (!call->streaming && bytes.n > most - call->in.n) {
        https_call_failf(call, false, ERR_TOO_LARGE, "the answer has more than %zu bytes", most);
        return;
    }
    sbuf_add(&call->in, bytes);
    if (call->streaming)
        https_call_make_ready(call);
}

bool https_call_is_full(const struct https_call *call)
{
    return call->streaming && (call->held || call->in.n >= HTTPS_STREAM_WINDOW);
}

// --- The end -------------------------------------------------------------------------------------

static void https_call_end(struct https_call *call)
{
    if (call->conn)
        https_conn_cancel(call->conn, call);
    https_call_detach(call);
    list_remove(&call->queue);
    exec_timer_stop(call->https->exec, &call->timeout);
    call->finished = true;
    https_call_make_ready(call);
}

void https_call_succeed(struct https_call *call)
{
    if (!call->finished)
        https_call_end(call);
}

void https_call_fail(struct https_call *call, const struct err *err, bool unsent)
{
    if (call->finished)
        return;
    call->err = *err;
    call->unsent = unsent;
    https_call_end(call);
}

void https_call_failf(struct https_call *call, bool unsent, int code, const char *fmt, ...)
{
    struct err err = {0};
    va_list ap;
    va_start(ap, fmt);
    (void)err_set_v(&err, code, fmt, ap);
    va_end(ap);
    https_call_fail(call, &err, unsent);
}

void https_call_refused(struct https_call *call, const char *why)
{
    if (++call->tries >= HTTPS_TRIES_MAX) {
        https_call_failf(call, true, ERR_UNAVAILABLE, "the connection to %s failed: %s",
                         call->https->shown, why);
        return;
    }
    https_call_detach(call);
    https_call_queue(call);
}

// --- Notifying -----------------------------------------------------------------------------------

static void https_call_tell_data(struct https_call *call)
{
    struct sbuf bytes = call->in;
    call->in = (struct sbuf){0};
    call->data(call->arg, sbuf_str(&bytes));
    if (call->conn && !call->cancelled)
        https_conn_consumed(call->conn, call, bytes.n);
    sbuf_clear(&bytes);
    call->in = bytes;
    if (call->in.cap > HTTPS_STREAM_WINDOW)
        sbuf_done(&call->in);
}

static void https_call_tell_done(struct https_call *call)
{
    struct https_answer answer = {.body = sbuf_str(&call->in),
                                  .code = -call->err.code,
                                  .err = call->err.code ? &call->err : NULL,
                                  .unsent = call->unsent};
    if (!call->err.code) {
        answer.status = call->status;
        answer.retry_after_seconds = call->retry_after_seconds;
        answer.date_seconds = call->date_seconds;
    }
    call->done(call->arg, &answer);
}

void https_call_settle(struct https_call *call)
{
    call->entered = true;
    if (call->streaming && call->in.n > 0 && !call->held)
        https_call_tell_data(call);
    if (call->finished && !call->cancelled && !(call->streaming && call->in.n > 0)) {
        https_call_tell_done(call);
        call->cancelled = true; // over
    }
    call->entered = false;
    if (call->cancelled)
        https_call_free(call);
}

void https_cancel(struct https_call *call)
{
    assert(!call->cancelled);
    call->cancelled = true;
    https_wake(call->https);
    if (!call->entered)
        https_call_free(call);
}

void https_hold(struct https_call *call, bool hold)
{
    call->held = hold;
    if (!hold && !call->entered && (call->in.n > 0 || call->finished))
        https_call_make_ready(call);
    if (call->conn && !call->entered)
        https_conn_consumed(call->conn, call, 0);
}
