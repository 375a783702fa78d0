// SPDX-License-Identifier: Apache-2.0
//
// Probes over the network: a TCP connection, an HTTP request, or gRPC's health check, spoken by
// hand since the peer is a container that may answer anything.
#include "node/pods/probe_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"
#include "net/dial.h"
#include "net/h1_answer.h"
#include "net/tls.h"

#include "base/banned.h"

#define ANSWER_MAX ((size_t)10 * 1024)

struct net {
    struct probe_net net;
    struct loop *loop;
    struct tls_client *tls;
};

struct probe_net_call {
    struct net *owner;
    struct dial *dial;
    struct exec_timer timer;
    enum probe_net_kind kind;
    struct sbuf request, answer; // the answer of gRPC alone
    struct h1_answer http;
    probe_net_fn done;
    void *arg;
};

static void probe_net_call_free(struct probe_net_call *c)
{
    exec_timer_stop(loop_exec(c->owner->loop), &c->timer);
    if (c->dial)
        dial_close(c->dial);
    sbuf_done(&c->request);
    sbuf_done(&c->answer);
    h1_answer_done(&c->http);
    free(c);
}

static void probe_net_finish(struct probe_net_call *c, bool ok, const char *text)
{
    probe_net_fn done = c->done;
    void *arg = c->arg;
    probe_net_call_free(c);
    done(arg, ok, str_z(text));
}

// --- HTTP ----------------------------------------------------------------------------------------

static bool probe_net_has_header(const struct probe_net_request *q, const char *name)
{
    for (size_t i = 0; i < q->headers_len; i++)
        if (q->headers[i].name.n == strlen(name) &&
            strncasecmp(q->headers[i].name.p, name, strlen(name)) == 0)
            return true;
    return false;
}

static void probe_net_add_authority(struct sbuf *out, const struct probe_net_request *q)
{
    if (q->host_header.n && h1_is_value(q->host_header))
        sbuf_add(out, q->host_header);
    else
        h1_add_authority(out, q->host, q->port);
}

// A path is any text: what cannot stand in a request's line is escaped, as kubelet does. Else a pod
// could have its node send whatever it likes to whom it likes.
static void probe_net_add_path(struct sbuf *out, struct str path)
{
    if (path.n == 0 || path.p[0] != '/')
        sbuf_addc(out, '/');
    for (size_t i = 0; i < path.n; i++) {
        if (h1_is_target(str_make(path.p + i, 1)))
            sbuf_addc(out, path.p[i]);
        else
            sbuf_addf(out, "%%%02X", (unsigned char)path.p[i]);
    }
}

void probe_http_request(struct sbuf *out, const struct probe_net_request *q)
{
    cleanup_sbuf struct sbuf path = {0}, authority = {0};
    probe_net_add_path(&path, q->path);
    probe_net_add_authority(&authority, q);
    (void)h1_add_request_line(out, STR("GET"), sbuf_str(&path), sbuf_str(&authority));
    if (!probe_net_has_header(q, "user-agent"))
        sbuf_addz(out, "User-Agent: kube-probe/1.37\r\n");
    if (!probe_net_has_header(q, "accept"))
        sbuf_addz(out, "Accept: */*\r\n");
    for (size_t i = 0; i < q->headers_len; i++) {
        struct str name = q->headers[i].name;
        if (name.n == 4 && strncasecmp(name.p, "host", 4) == 0)
            continue;
        (void)h1_add_field(out, name, q->headers[i].value); // one that is none is left out
    }
    sbuf_addz(out, "Connection: close\r\n\r\n");
}

// --- gRPC ----------------------------------------------------------------------------------------

#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static void probe_net_add_frame(struct sbuf *out, uint8_t type, uint8_t flags, uint32_t stream,
                                struct str body)
{
    const char head[9] = {(char)(body.n >> 16), (char)(body.n >> 8), (char)body.n,
                          (char)type,           (char)flags,         (char)(stream >> 24),
                          (char)(stream >> 16), (char)(stream >> 8), (char)stream};
    sbuf_add(out, str_make(head, sizeof(head)));
    sbuf_add(out, body);
}

// A header as a literal that is not indexed, without Huffman; both parts are short.
static void probe_net_add_field(struct sbuf *out, const char *name, struct str value)
{
    struct str v = str_upto(value, 126);
    sbuf_addc(out, 0);
    sbuf_addc(out, (char)strlen(name));
    sbuf_addz(out, name);
    sbuf_addc(out, (char)v.n);
    sbuf_add(out, v);
}

void probe_grpc_request(struct sbuf *out, struct str authority, struct str service)
{
    cleanup_sbuf struct sbuf head = {0}, body = {0};
    struct str name = str_upto(service, 120);
    probe_net_add_field(&head, ":method", STR("POST"));
    probe_net_add_field(&head, ":scheme", STR("http"));
    probe_net_add_field(&head, ":path", STR("/grpc.health.v1.Health/Check"));
    probe_net_add_field(&head, ":authority", authority);
    probe_net_add_field(&head, "content-type", STR("application/grpc"));
    probe_net_add_field(&head, "te", STR("trailers"));
    probe_net_add_field(&head, "user-agent", STR("kube-probe/1.37"));
    const char prefix[5] = {0, 0, 0, 0, (char)(name.n ? name.n + 2 : 0)};
    sbuf_add(&body, str_make(prefix, sizeof(prefix)));
    if (name.n) {
        sbuf_addc(&body, 0x0a);
        sbuf_addc(&body, (char)name.n);
        sbuf_add(&body, name);
    }
    sbuf_addz(out, H2_PREFACE);
    probe_net_add_frame(out, 4, 0, 0, STR(""));         // SETTINGS
    probe_net_add_frame(out, 1, 4, 1, sbuf_str(&head)); // HEADERS, END_HEADERS
    probe_net_add_frame(out, 0, 1, 1, sbuf_str(&body)); // DATA, END_STREAM
    probe_net_add_frame(out, 4, 1, 0, STR(""));         // SETTINGS, ACK
}

int probe_grpc_status(struct str b)
{
    while (b.n >= 9) {
        const uint8_t *u = (const uint8_t *)b.p;
        size_t n = (size_t)u[0] << 16 | (size_t)u[1] << 8 | u[2];
        uint8_t type = u[3];
        if (b.n < 9 + n)
            break;
        const uint8_t *body = u + 9;
        if (type == 0 && n >= 5) // DATA: compressed?, length, then status = field 1
            return body[0] == 0 && n >= 7 && body[5] == 0x08 && body[6] == 1 ? 1 : -1;
        if (type == 3 || type == 7 || (type == 1 && (u[4] & 1))) // RST, GOAWAY, only trailers
            return -1;
        b = str_from(b, 9 + n);
    }
    return b.n > ANSWER_MAX ? -1 : 0;
}

// --- The call ------------------------------------------------------------------------------------

static void probe_net_on_connected(void *arg)
{
    struct probe_net_call *c = arg;
    if (c->kind == PROBE_NET_TCP)
        probe_net_finish(c, true, "");
    else
        (void)dial_write(c->dial, sbuf_str(&c->request));
}

static void probe_net_on_http(struct probe_net_call *c, struct str bytes)
{
    char text[64];
    struct str piece;
    struct err err = {0};
    int r = h1_answer_read(&c->http, &bytes, &piece, &err);
    if (r == H1_ANSWER_MORE)
        return;
    if (r < 0) {
        probe_net_finish(c, false, err.msg);
        return;
    }
    int status = c->http.status;
    (void)snprintf(text, sizeof(text), "HTTP probe failed with statuscode: %d", status);
    bool ok = status >= 200 && status < 400;
    probe_net_finish(c, ok, ok ? "" : text);
}

static void probe_net_on_grpc(struct probe_net_call *c, struct str bytes)
{
    if (c->answer.n < ANSWER_MAX)
        sbuf_add(&c->answer, str_upto(bytes, ANSWER_MAX - c->answer.n));
    int status = probe_grpc_status(sbuf_str(&c->answer));
    if (status != 0)
        probe_net_finish(
            c, status > 0,
            status > 0 ? "" : "service unhealthy (the health service does not say SERVING)");
}

static void probe_net_on_input(void *arg, struct str bytes)
{
    struct probe_net_call *c = arg;
    if (c->kind == PROBE_NET_GRPC)
        probe_net_on_grpc(c, bytes);
    else if (c->kind != PROBE_NET_TCP)
        probe_net_on_http(c, bytes);
}

static void probe_net_on_closed(void *arg, const struct err *err)
{
    struct probe_net_call *c = arg;
    c->dial = NULL; // it frees itself
    probe_net_finish(c, false, err ? err->msg : "EOF");
}

static void probe_net_on_timeout(void *arg)
{
    probe_net_finish(arg, false, "context deadline exceeded");
}

static struct probe_net_call *probe_net_start(struct probe_net *n,
                                              const struct probe_net_request *q, probe_net_fn done,
                                              void *arg)
{
    struct net *owner = container_of(n, struct net, net);
    struct probe_net_call *c = xcalloc(1, sizeof(*c));
    *c = (struct probe_net_call){.owner = owner, .kind = q->kind, .done = done, .arg = arg};
    c->timer = (struct exec_timer){.fn = probe_net_on_timeout, .arg = c};
    if (q->kind == PROBE_NET_GRPC) {
        cleanup_sbuf struct sbuf authority = {0};
        probe_net_add_authority(&authority, q);
        probe_grpc_request(&c->request, sbuf_str(&authority), q->service);
    } else if (q->kind != PROBE_NET_TCP) {
        probe_http_request(&c->request, q);
    }
    const struct dial_options o = {.loop = owner->loop,
                                   .host = q->host,
                                   .port = q->port,
                                   .netns = q->netns,
                                   .tls = q->kind == PROBE_NET_HTTPS ? owner->tls : NULL,
                                   .timeout_ns = q->timeout_ns,
                                   .connected = probe_net_on_connected,
                                   .input = probe_net_on_input,
                                   .closed = probe_net_on_closed,
                                   .arg = c};
    exec_timer_start(loop_exec(owner->loop), &c->timer, q->timeout_ns);
    c->dial = dial_new(&o);
    return c;
}

int probe_net_new(struct loop *loop, struct probe_net **ret, struct err *err)
{
    const struct tls_client_options o = {.insecure = true};
    struct net *n = xcalloc(1, sizeof(*n));
    int r = tls_client_new(&o, &n->tls, err);
    if (r < 0) {
        free(n);
        return r;
    }
    n->loop = loop;
    n->net = (struct probe_net){.check = probe_net_start, .cancel = probe_net_call_free};
    *ret = &n->net;
    return 0;
}

void probe_net_free(struct probe_net *net)
{
    if (!net)
        return;
    struct net *n = container_of(net, struct net, net);
    tls_client_free(n->tls);
    free(n);
}
