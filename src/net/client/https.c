// SPDX-License-Identifier: Apache-2.0
//
// The client: its options, its connections and the calls that wait for one. Over HTTP/2 all calls
// share as few connections as the server's limit of streams allows; over HTTP/1.1 each call has one
// to itself, kept for the next.
#include "net/https.h"

#include <assert.h>
#include <stdlib.h>

#include "net/client/https_int.h"
#include "net/client/proxy.h"

#include "base/banned.h"

#define HTTPS_CONNECTIONS     8
#define HTTPS_BODY_BYTES      ((size_t)256 * 1024 * 1024)
#define HTTPS_CONNECT_NS      (10 * CLOCK_NS_PER_SEC)
#define HTTPS_CONNECTIONS_MAX ((size_t)1024)

// --- Turns ---------------------------------------------------------------------------------------

static struct https_conn *https_find_conn(const struct https *h)
{
    list_foreach(&h->conns, n) {
        struct https_conn *c = container_of(n, struct https_conn, node);
        if (https_conn_has_room(c))
            return c;
    }
    return NULL;
}

// https_wants_conn: calls wait and one connection more would take them. While the server's protocol
// is not known, one is made at a time: it may take them all.
static bool https_wants_conn(const struct https *h)
{
    size_t queued = 0, live = 0, connecting = 0;
    list_foreach(&h->queued, n)
        queued++;
    list_foreach(&h->conns, n) {
        const struct https_conn *c = container_of(n, const struct https_conn, node);
        live += !c->leaving;
        connecting += !c->leaving && !c->open;
    }
    bool later = live > 0 && exec_timer_armed(&h->again);
    size_t at_once = h->tls && !h->h1_only ? 1 : queued;
    return queued > 0 && !later && live < h->connections && connecting < at_once &&
           connecting < queued;
}

static void https_fail_queued(struct https *h, const struct err *err)
{
    for (struct list_node *n; (n = list_pop_front(&h->queued));)
        https_call_fail(container_of(n, struct https_call, queue), err, true);
}

static void https_dispatch(struct https *h)
{
    struct err err = {0};
    for (struct https_conn *c; !list_empty(&h->queued) && (c = https_find_conn(h));)
        https_conn_send(c, container_of(list_pop_front(&h->queued), struct https_call, queue));
    while (https_wants_conn(h)) {
        if (https_conn_new(h, &err) < 0) {
            https_fail_queued(h, &err);
            return;
        }
    }
}

static void https_settle(struct https *h)
{
    do {
        for (struct list_node *n; !h->freed && (n = list_pop_front(&h->ready));)
            https_call_settle(container_of(n, struct https_call, ready));
        if (h->freed)
            break;
        list_foreach(&h->conns, n)
            https_conn_flush(container_of(n, struct https_conn, node));
        https_dispatch(h);
        list_foreach(&h->conns, n)
            https_conn_flush(container_of(n, struct https_conn, node));
    } while (!list_empty(&h->ready) || (!list_empty(&h->queued) && https_find_conn(h)) ||
             https_wants_conn(h));
}

static void https_release(struct https *h)
{
    tls_client_free(h->tls_client);
    tls_client_free(h->tunnel_tls);
    tls_client_free(h->proxy_tls);
    net_url_done(&h->url);
    net_url_done(&h->proxy);
    free(h->shown);
    free(h->unix_socket);
    free(h->server_name);
    free(h->user_agent);
    sbuf_done(&h->authorization);
    sbuf_done(&h->proxy_basic);
    sbuf_done(&h->ca);
    sbuf_done(&h->certificate);
    sbuf_done(&h->key);
    free(h);
}

void https_enter(struct https *h)
{
    h->entered++;
}

void https_leave(struct https *h)
{
    if (h->entered > 1) {
        h->entered--;
        return;
    }
    https_settle(h);
    for (struct list_node *n; (n = list_pop_front(&h->dead));)
        https_conn_free(container_of(n, struct https_conn, node));
    h->entered--;
    if (!h->freed)
        return;
    for (struct list_node *n; (n = list_pop_front(&h->calls));)
        https_call_free(container_of(n, struct https_call, node));
    https_release(h);
}

void https_wake(struct https *h)
{
    if (h->entered == 0 && !h->freed && !exec_timer_armed(&h->turn))
        exec_timer_start(h->exec, &h->turn, 0);
}

static void https_on_turn(void *arg)
{
    https_enter(arg);
    https_leave(arg);
}

struct https_call *https_start(struct https *h, const struct https_request *q)
{
    assert(!h->freed && q->done);
    return https_call_new(h, q);
}

// --- Life ----------------------------------------------------------------------------------------

static char *https_copy(struct str s)
{
    return s.n ? xstrndup(s.p, s.n) : NULL;
}

static int https_read_url(struct https *h, struct str text, struct err *err)
{
    cleanup_sbuf struct sbuf shown = {0};
    int r = net_url_parse(text, &h->url, NULL);
    if (r < 0 || h->url.scheme == NET_SOCKS5)
        return err_set(err, ERR_INVALID, "'%.*s' is not the URL of a server: https://HOST[:PORT]",
                       STR_ARG(text));
    h->tls = h->url.scheme == NET_HTTPS;
    if (h->unix_socket)
        sbuf_addz(&shown, h->unix_socket);
    else
        sbuf_addf(&shown, "%s://%s%s", h->tls ? "https" : "http", h->url.authority, h->url.prefix);
    h->shown = sbuf_take(&shown);
    net_url_basic(&h->url, &h->authorization);
    return 0;
}

static void https_choose_proxy(struct https *h, const struct https_options *o)
{
    struct proxy_env env;
    struct str chosen = o->proxy;
    if (o->no_proxy || o->unix_socket.n)
        return;
    proxy_env_read(&env);
    if (chosen.n == 0)
        chosen = proxy_env_choose(&env, h->tls, str_z(h->url.host), h->url.port);
    if (chosen.n == 0)
        return;
    // Not an error of https_new: each call reports it, as any other target that does not
    // lead there.
    if (proxy_parse(chosen, &h->proxy, &h->broken) < 0)
        return;
    h->proxied = true;
    h->absolute = !h->tls && h->proxy.scheme != NET_SOCKS5;
    net_url_basic(&h->proxy, &h->proxy_basic);
}

int https_new(struct loop *loop, const struct https_options *options, struct https **ret,
              struct err *err)
{
    struct https *h = xcalloc(1, sizeof(*h));
    h->loop = loop;
    h->exec = loop_exec(loop);
    h->turn = (struct exec_timer){.fn = https_on_turn, .arg = h};
    h->again = (struct exec_timer){.fn = https_on_turn, .arg = h};
    list_init(&h->conns);
    list_init(&h->dead);
    list_init(&h->calls);
    list_init(&h->queued);
    list_init(&h->ready);
    h->unix_socket = https_copy(options->unix_socket);
    h->server_name = https_copy(options->server_name);
    h->user_agent = h1_is_value(options->user_agent) ? https_copy(options->user_agent) : NULL;
    h->insecure = options->insecure;
    h->connections = options->connections ? options->connections : HTTPS_CONNECTIONS;
    if (h->connections > HTTPS_CONNECTIONS_MAX)
        h->connections = HTTPS_CONNECTIONS_MAX;
    h->body_bytes = options->body_bytes ? options->body_bytes : HTTPS_BODY_BYTES;
    h->warning = options->warning;
    h->warning_arg = options->warning_arg;
    h->connect_timeout_ns = options->connect_timeout_ms
                                ? options->connect_timeout_ms * CLOCK_NS_PER_MS
                                : HTTPS_CONNECT_NS;
    sbuf_add(&h->ca, options->ca_pem);
    int r = https_read_url(h, options->url, err);
    if (r < 0) {
        https_release(h);
        return r;
    }
    https_choose_proxy(h, options);
    *ret = h;
    return 0;
}

void https_free(struct https *h)
{
    if (!h)
        return;
    assert(!h->freed);
    https_enter(h);
    list_foreach(&h->calls, n) {
        struct https_call *call = container_of(n, struct https_call, node);
        if (call->entered)
            call->cancelled =
                true; // its own callback frees the client; https_call_settle frees the call
        else
            https_call_free(call);
    }
    h->freed = true;
    exec_timer_stop(h->exec, &h->turn);
    exec_timer_stop(h->exec, &h->again);
    list_foreach(&h->conns, n)
        https_conn_lose(container_of(n, struct https_conn, node), NULL);
    https_leave(h);
}

// https_renew_tls: connections made with the other one end with their calls.
static void https_renew_tls(struct https *h)
{
    tls_client_free(take_ptr(h->tls_client));
    tls_client_free(take_ptr(h->tunnel_tls));
    h->identity++;
    https_wake(h);
}

void https_set_identity(struct https *h, struct str certificate_pem, struct str key_pem)
{
    sbuf_clear(&h->certificate);
    sbuf_clear(&h->key);
    sbuf_add(&h->certificate, certificate_pem);
    sbuf_add(&h->key, key_pem);
    https_renew_tls(h);
}

void https_set_trust(struct https *h, struct str ca_pem)
{
    sbuf_clear(&h->ca);
    sbuf_add(&h->ca, ca_pem);
    tls_client_free(take_ptr(h->proxy_tls));
    https_renew_tls(h);
}
