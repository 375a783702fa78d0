// SPDX-License-Identifier: Apache-2.0
//
// A connection of the HTTPS client: its life, and HTTP/1.1 on it, one call at a time.
#include <assert.h>
#include <stdlib.h>

#include "net/client/https_int.h"

#include "base/banned.h"

// A connection without calls is kept for this long. One with calls that has been silent is asked
// whether it is alive (PING of HTTP/2), and must answer in time. The times are client-go's.
#define HTTPS_IDLE_NS  (90 * CLOCK_NS_PER_SEC)
#define HTTPS_QUIET_NS (30 * CLOCK_NS_PER_SEC)
#define HTTPS_PONG_NS  (15 * CLOCK_NS_PER_SEC)

#define HTTPS_TRY_AGAIN_NS CLOCK_NS_PER_SEC // to make one connection more, after a failure

// --- Life ----------------------------------------------------------------------------------------

void https_conn_free(struct https_conn *c)
{
    assert(c->calls_len == 0 && !c->dial);
    list_remove(&c->node);
    if (c->session.ng)
        h2_session_close(&c->session);
    outq_done(&c->out);
    h1_answer_done(&c->answer);
    free(c);
}

static struct https_call *https_conn_first(const struct https_conn *c)
{
    return list_empty(&c->calls) ? NULL
                                 : container_of(c->calls.head.next, struct https_call, queue);
}

static bool https_call_is_safe(const struct https_call *call)
{
    return str_eqz(call->method, "GET") || str_eqz(call->method, "HEAD") ||
           str_eqz(call->method, "OPTIONS");
}

// A kept connection may be closed by the server just when it is used again.
static bool https_conn_was_stale(const struct https_conn *c, const struct https_call *call)
{
    return !c->h2 && c->served && !c->began && https_call_is_safe(call);
}

static void https_conn_end_call(struct https_conn *c, struct https_call *call,
                                const struct err *err)
{
    struct err early = {0};
    bool whole =
        c->h2 ? call->h2.remote_end : !err && c->began && h1_answer_eof(&c->answer, &early) == 0;
    if (whole)
        https_call_succeed(call);
    else if (https_conn_was_stale(c, call))
        https_call_refused(call, "the server closed it");
    else if (err)
        https_call_fail(call, err, false);
    else
        https_call_failf(call, false, ERR_UNAVAILABLE, "the connection to %s failed: %s",
                         c->https->shown, early.code ? early.msg : "the server closed it");
}

void https_conn_lose(struct https_conn *c, const struct err *err)
{
    struct https *h = c->https;
    if (c->dial)
        dial_close(take_ptr(c->dial));
    c->leaving = true;
    exec_timer_stop(h->exec, &c->timer);
    list_remove(&c->node);
    list_push_back(&h->dead, &c->node);
    for (struct https_call *call; (call = https_conn_first(c));) {
        call->h2.session = NULL; // nothing can be sent on it any more
        https_conn_end_call(c, call, err);
    }
    https_wake(h);
}

// https_conn_give_up: it could not be made. Calls that wait fail unless another connection may take
// them.
static void https_conn_give_up(struct https_conn *c, const struct err *err)
{
    struct https *h = c->https;
    struct err whole = *err;
    bool others = false;
    https_conn_lose(c, err);
    list_foreach(&h->conns, n)
        others |= !container_of(n, struct https_conn, node)->leaving;
    if (others) {
        exec_timer_start(h->exec, &h->again, HTTPS_TRY_AGAIN_NS);
        return;
    }
    const char *remedy = "";
    if (err->code == ERR_FORBIDDEN)
        remedy = "; give its CA (certificate-authority)";
    else if (err->code == ERR_UNAVAILABLE && !h->proxied)
        remedy = "; is the server running?";
    bool kept = err->code == ERR_TIMEOUT || err->code == TLS_WRONG_NAME;
    err_record(&whole, kept ? err->code : ERR_UNAVAILABLE, "%s%s", err->msg, remedy);
    for (struct list_node *n; (n = list_pop_front(&h->queued));)
        https_call_fail(container_of(n, struct https_call, queue), &whole, true);
}

// https_conn_look finds out what is due; returns when to look again, or 0 when the connection has
// ended.
static int64_t https_conn_look(struct https_conn *c)
{
    struct err err = {0};
    int64_t now_ns = exec_now_ns(c->https->exec);
    if (c->pinged) {
        err_record(&err, ERR_UNAVAILABLE, "the connection to %s failed: no answer to a PING",
                   c->https->shown);
        https_conn_lose(c, &err);
        return 0;
    }
    if (c->calls_len == 0 && now_ns - c->idle_ns >= HTTPS_IDLE_NS) {
        https_conn_lose(c, NULL);
        return 0;
    }
    int64_t left_ns = HTTPS_QUIET_NS - (now_ns - c->heard_ns);
    if (left_ns > 0 || c->calls_len == 0 || !c->h2)
        return left_ns > 0 ? left_ns : HTTPS_QUIET_NS;
    h2_session_ping(&c->session);
    c->pinged = true;
    return HTTPS_PONG_NS;
}

static void https_conn_on_timer(void *arg)
{
    struct https_conn *c = arg;
    struct https *h = c->https;
    https_enter(h);
    int64_t wait_ns = https_conn_look(c);
    if (wait_ns > 0)
        exec_timer_start(h->exec, &c->timer, wait_ns);
    https_leave(h);
}

// --- HTTP/1.1 ------------------------------------------------------------------------------------

static void https_h1_add_head(const struct https *h, const struct https_call *call, struct sbuf *b)
{
    cleanup_sbuf struct sbuf absolute = {0};
    bool counted = call->body || str_eqz(call->method, "POST") || str_eqz(call->method, "PUT") ||
                   str_eqz(call->method, "PATCH");
    struct str target = call->target;
    if (h->absolute) {
        sbuf_addf(&absolute, "http://%s", h->url.authority);
        sbuf_add(&absolute, target);
        target = sbuf_str(&absolute);
    }
    // All of it was checked by https_call_is_valid or when the client was made.
    (void)h1_add_request_line(b, call->method, target, str_z(h->url.authority));
    if (h->absolute && h->proxy_basic.n)
        (void)h1_add_field(b, STR("Proxy-Authorization"), sbuf_str(&h->proxy_basic));
    if (h->user_agent)
        (void)h1_add_field(b, STR("User-Agent"), str_z(h->user_agent));
    if (call->accept.n)
        (void)h1_add_field(b, STR("Accept"), call->accept);
    if (call->authorization.n)
        (void)h1_add_field(b, STR("Authorization"), call->authorization);
    if (call->content_type.n)
        (void)h1_add_field(b, STR("Content-Type"), call->content_type);
    if (counted)
        sbuf_addf(b, "Content-Length: %zu\r\n", call->body ? call->body->bytes.n : 0);
    sbuf_addz(b, "\r\n");
}

static void https_h1_send(struct https_conn *c, struct https_call *call)
{
    cleanup_sbuf struct sbuf b = {0};
    h1_answer_done(&c->answer);
    c->answer = (struct h1_answer){.head_request = str_eqz(call->method, "HEAD")};
    c->began = false;
    https_h1_add_head(c->https, call, &b);
    if (call->body)
        sbuf_add(&b, call->body->bytes);
    (void)dial_write(c->dial, sbuf_str(&b));
}

static void https_h1_end(struct https_conn *c, struct https_call *call, bool more)
{
    bool keep = c->answer.keep_alive && !more && !c->leaving;
    c->served = true;
    https_call_succeed(call);
    if (!keep)
        https_conn_lose(c, NULL);
}

// https_h1_event handles one event of the response; false: stop reading.
static bool https_h1_event(struct https_conn *c, struct https_call *call, int event,
                           struct str piece, bool more)
{
    switch (event) {
    case H1_ANSWER_HEAD:
        for (size_t i = 0; i < c->answer.headers_len; i++)
            https_call_header(call, c->answer.headers[i].name, c->answer.headers[i].value);
        https_call_head(call, c->answer.status);
        return true;
    case H1_ANSWER_DATA:
        https_call_body(call, piece);
        return c->dial;
    case H1_ANSWER_END:
        https_h1_end(c, call, more);
        return false;
    case H1_ANSWER_SWITCHED:
        https_call_failf(call, false, ERR_UNAVAILABLE,
                         "the connection to %s failed: the server switched protocols unasked",
                         c->https->shown);
        return false;
    default:
        return false;
    }
}

static void https_h1_input(struct https_conn *c, struct str bytes)
{
    struct https_call *call = https_conn_first(c);
    struct str piece;
    struct err err = {0};
    if (!call) { // an unsolicited response
        https_conn_lose(c, NULL);
        return;
    }
    c->began = true;
    int r;
    do {
        r = h1_answer_read(&c->answer, &bytes, &piece, &err);
    } while (r > H1_ANSWER_MORE && https_h1_event(c, call, r, piece, bytes.n > 0));
    if (r < 0 && c->dial) {
        https_call_failf(call, false, ERR_UNAVAILABLE, "the connection to %s failed: %s",
                         c->https->shown, err.msg);
    }
    call = https_conn_first(c);
    if (c->dial && call)
        dial_hold(c->dial, https_call_is_full(call));
}

// --- Events of the dial --------------------------------------------------------------------------

static void https_conn_on_connected(void *arg)
{
    struct https_conn *c = arg;
    struct https *h = c->https;
    https_enter(h);
    c->open = true;
    c->h2 = dial_is_h2(c->dial);
    h->h1_only = !c->h2;
    c->heard_ns = c->idle_ns = exec_now_ns(h->exec);
    if (c->h2)
        https_h2_open(c);
    exec_timer_start(h->exec, &c->timer, HTTPS_QUIET_NS);
    https_leave(h);
}

static void https_conn_on_input(void *arg, struct str bytes)
{
    struct https_conn *c = arg;
    struct https *h = c->https;
    https_enter(h);
    c->heard_ns = exec_now_ns(h->exec);
    if (c->pinged) {
        c->pinged = false;
        exec_timer_start(h->exec, &c->timer, HTTPS_QUIET_NS);
    }
    if (c->h2)
        https_h2_input(c, bytes);
    else
        https_h1_input(c, bytes);
    https_leave(h);
}

static void https_conn_on_drained(void *arg)
{
    struct https_conn *c = arg;
    struct https *h = c->https;
    https_enter(h);
    c->blocked = false;
    https_leave(h);
}

static void https_conn_on_closed(void *arg, const struct err *err)
{
    struct https_conn *c = arg;
    struct https *h = c->https;
    https_enter(h);
    c->dial = NULL; // it frees itself
    if (c->open)
        https_conn_lose(c, err);
    else
        https_conn_give_up(c, err);
    https_leave(h);
}

// --- Making one ----------------------------------------------------------------------------------

static int https_make_proxy_tls(struct https *h, struct err *err)
{
    const struct tls_client_options o = {
        .ca_pem = sbuf_str(&h->ca), .system_too = true, .insecure = h->insecure};
    bool wanted = h->proxied && h->proxy.scheme == NET_HTTPS && !h->proxy_tls;
    return wanted ? tls_client_new(&o, &h->proxy_tls, err) : 0;
}

// https_make_tls makes what a connection needs: h2 for calls, not for tunnels.
static int https_make_tls(struct https *h, bool h2, struct err *err)
{
    struct tls_client **to = h2 ? &h->tls_client : &h->tunnel_tls;
    const struct tls_client_options o = {.ca_pem = sbuf_str(&h->ca),
                                         .certificate_pem = sbuf_str(&h->certificate),
                                         .key_pem = sbuf_str(&h->key),
                                         .insecure = h->insecure,
                                         .h2 = h2};
    int r = h->tls && !*to ? tls_client_new(&o, to, err) : 0;
    if (r == 0)
        r = https_make_proxy_tls(h, err);
    return r < 0 ? err_wrap(err, "cannot speak with %s", h->shown) : 0;
}

// https_set_target sets where to connect to: the server, or a proxy that gets the whole URL.
static void https_set_target(const struct https *h, struct dial_options *o)
{
    const struct net_url *to = h->absolute ? &h->proxy : &h->url;
    bool tls = h->absolute ? h->proxy.scheme == NET_HTTPS : h->tls;
    o->host = str_z(to->host);
    o->port = to->port;
    o->tls = !tls ? NULL : h->absolute ? h->proxy_tls : h->tls_client;
    if (h->server_name && !h->absolute)
        o->server_name = str_z(h->server_name);
    if (h->proxied && !h->absolute) {
        o->proxy = &h->proxy;
        o->proxy_tls = h->proxy_tls;
    }
    if (h->unix_socket)
        o->unix_path = str_z(h->unix_socket);
}

int https_conn_new(struct https *h, struct err *err)
{
    int r = https_make_tls(h, true, err);
    if (r < 0)
        return r;
    struct https_conn *c = xcalloc(1, sizeof(*c));
    struct dial_options o = {.loop = h->loop,
                             .name = str_z(h->shown),
                             .timeout_ns = h->connect_timeout_ns,
                             .connected = https_conn_on_connected,
                             .input = https_conn_on_input,
                             .drained = https_conn_on_drained,
                             .closed = https_conn_on_closed,
                             .arg = c};
    https_set_target(h, &o);
    c->https = h;
    c->identity = h->identity;
    c->timer = (struct exec_timer){.fn = https_conn_on_timer, .arg = c};
    list_init(&c->calls);
    list_push_back(&h->conns, &c->node);
    c->dial = dial_new(&o);
    return 0;
}

// --- Calls on it ---------------------------------------------------------------------------------

bool https_conn_has_room(const struct https_conn *c)
{
    return c->open && !c->leaving && c->calls_len < (c->h2 ? c->streams_max : 1);
}

void https_conn_send(struct https_conn *c, struct https_call *call)
{
    list_remove(&call->queue);
    list_push_back(&c->calls, &call->queue);
    call->conn = c;
    c->calls_len++;
    if (c->h2)
        https_h2_send(c, call);
    else
        https_h1_send(c, call);
}

void https_conn_cancel(struct https_conn *c, struct https_call *call)
{
    if (!c->dial)
        return;
    if (c->h2) {
        h2_stream_forget(&call->h2, NGHTTP2_CANCEL);
    } else if (c->answer.state != H1_ANSWER_OVER) {
        // What comes next on it would be the rest of this response.
        https_call_detach(call);
        https_conn_lose(c, NULL);
    }
    https_wake(c->https);
}

void https_conn_consumed(struct https_conn *c, struct https_call *call, size_t n)
{
    if (!c->dial)
        return;
    if (c->h2)
        h2_stream_consume(&call->h2, n);
    else
        dial_hold(c->dial, https_call_is_full(call));
    https_wake(c->https);
}

void https_conn_flush(struct https_conn *c)
{
    c->leaving = c->leaving || c->identity != c->https->identity;
    if (c->dial && c->h2)
        https_h2_flush(c);
    if (c->dial && c->leaving && c->calls_len == 0)
        https_conn_lose(c, NULL);
}

// --- Tunnels -------------------------------------------------------------------------------------

int https_tunnel(struct https *h, const struct tunnel_options *options, struct tunnel **ret,
                 struct err *err)
{
    cleanup_sbuf struct sbuf target = {0};
    struct tunnel_options o = *options;
    if (h->broken.code) {
        *err = h->broken;
        return -err->code;
    }
    int r = https_make_tls(h, false, err);
    if (r < 0)
        return r;
    sbuf_addz(&target, h->url.prefix);
    sbuf_add(&target, options->target);
    o.loop = h->loop;
    o.host = str_z(h->url.host);
    o.port = h->url.port;
    o.unix_path = str_z(h->unix_socket);
    o.proxy = h->proxied ? &h->proxy : NULL;
    o.proxy_tls = h->proxy_tls;
    o.tls = h->tunnel_tls;
    o.server_name = str_z(h->server_name);
    o.target = sbuf_str(&target);
    *ret = tunnel_new(&o);
    return 0;
}
