// SPDX-License-Identifier: Apache-2.0
//
// What a node serves and this server passes on: logs as a streamed answer, commands and ports as a
// connection that leaves HTTP, whose bytes it does not interpret. A slow side holds the other
// end up.
#include <stdlib.h>

#include "api/status.h"
#include "codec/rfc3339.h"
#include "net/https.h"
#include "net/tunnel.h"
#include "net/websocket.h"
#include "server/audit/trail.h"
#include "server/auth/denial.h"
#include "server/http/node.h"
#include "server/http/server_int.h"

#include "base/banned.h"

#define LOG_REFUSAL_BYTES ((size_t)50000)

struct relay {
    struct list_node node; // server.relays
    struct exchange *ex;
    // Logs.
    struct https *https;
    struct https_call *call;
    bool started;
    // Everything else.
    struct tunnel *tunnel;
};

// --- The end -------------------------------------------------------------------------------------

static void relay_free(struct relay *r)
{
    list_remove(&r->node);
    if (r->call)
        https_cancel(r->call);
    https_free(r->https);
    free(r);
}

// The answer was streamed and is over.
static void relay_over(struct relay *r, bool broken)
{
    struct exchange *ex = r->ex;
    struct http_request *q = ex->q;
    relay_free(r);
    ex->q = NULL;
    if (q) {
        q->closed = NULL;
        q->drained = NULL;
        if (broken)
            http_abort(q);
        else
            http_end(q);
    }
    exchange_end(ex, 200);
}

// The client is gone.
static void stream_on_client_gone(void *arg)
{
    struct relay *r = arg;
    if (r->tunnel)
        tunnel_end(take_ptr(r->tunnel));
    r->ex->q = NULL;
    struct exchange *ex = r->ex;
    relay_free(r);
    exchange_end(ex, 499);
}

// relay_stop ends a stream: with a status if it has not begun.
static void relay_stop(struct relay *r, int code, const char *reason, struct str message)
{
    struct exchange *ex = r->ex;
    if (r->tunnel)
        tunnel_end(take_ptr(r->tunnel));
    if (r->started) {
        relay_over(r, true);
        return;
    }
    relay_free(r);
    answer_fail(ex, code, reason, message, NULL);
}

void stream_stop_all(struct server *s)
{
    while (!list_empty(&s->node.relays))
        relay_stop(list_entry(s->node.relays.head.next, struct relay, node), 503,
                   "ServiceUnavailable", STR("the server is stopping"));
}

void stream_stop_denied(struct server *s)
{
    list_foreach(&s->node.relays, node) {
        struct relay *r = list_entry(node, struct relay, node);
        if (denial_is(r->ex))
            relay_stop(r, 401, "Unauthorized", STR("Unauthorized"));
    }
}

static struct relay *relay_new(struct exchange *ex)
{
    struct relay *r = xcalloc(1, sizeof(*r));
    r->ex = ex;
    list_push_back(&ex->s->node.relays, &r->node);
    ex->q->closed = stream_on_client_gone;
    ex->q->arg = r;
    return r;
}

// Fails a call before anything was streamed.
static void relay_fail(struct relay *r, const struct api_status *status)
{
    struct exchange *ex = r->ex;
    relay_free(r);
    answer_status(ex, status);
}

// --- Logs ----------------------------------------------------------------------------------------

static struct path root_field(const char *name)
{
    return path_root(str_z(name));
}

static void check_least(struct causes *causes, const char *name, int64_t value, int64_t least,
                        const char *message)
{
    struct path p = root_field(name);
    if (value < least)
        cause_invalid_i64(causes, &p, value, str_z(message));
}

// Reads and judges the options of a log as upstream does. False: answered.
static bool check_log(struct exchange *ex)
{
    struct causes causes = {.arena = &ex->arena};
    struct err err = {0};
    int64_t n = 0;
    struct moment since;
    struct str time = query_str(&ex->query, STR("sinceTime"));
    struct path root = root_field("");
    int tail = query_i64(&ex->query, STR("tailLines"), &n, &err);
    if (tail > 0)
        check_least(&causes, "tailLines", n, 0, "must be greater than or equal to 0");
    int limit = query_i64(&ex->query, STR("limitBytes"), &n, &err);
    if (limit > 0)
        check_least(&causes, "limitBytes", n, 1, "must be greater than 0");
    int seconds = query_i64(&ex->query, STR("sinceSeconds"), &n, &err);
    if (seconds > 0 && time.n)
        cause_forbidden(&causes, &root,
                        STR("at most one of `sinceTime` or `sinceSeconds` may be specified"));
    else if (seconds > 0)
        check_least(&causes, "sinceSeconds", n, 1, "must be greater than 0");
    if (tail < 0 || limit < 0 || seconds < 0 || (time.n && rfc3339_parse(time, &since, &err) < 0)) {
        answer_status(ex, api_status_bad_request(&ex->arena, str_z(err.msg)));
        return false;
    }
    if (causes.n == 0)
        return true;
    const struct status_subject subject = {STR(""), STR("PodLogOptions"), ex->route.name};
    answer_status(ex, api_status_invalid(&ex->arena, &subject, &causes));
    return false;
}

// One parameter for the node, if the client gave it.
static void stream_pass_option(const struct exchange *ex, const char *name, struct sbuf *out)
{
    struct str v;
    if (!query_get(&ex->query, str_z(name), &v) || v.n == 0)
        return;
    sbuf_addf(out, "%c%s=", str_find_char(sbuf_str(out), '?') < 0 ? '?' : '&', name);
    query_escape(v, out);
}

static void pass_flag(const struct exchange *ex, const char *name, const char *as, const char *yes,
                      struct sbuf *out)
{
    if (query_bool(&ex->query, str_z(name)))
        sbuf_addf(out, "%c%s=%s", str_find_char(sbuf_str(out), '?') < 0 ? '?' : '&', as, yes);
}

static void start_answer(struct relay *r)
{
    if (r->started)
        return;
    r->started = true;
    answer_start(r->ex, 200, STR("text/plain"));
    http_set_patient(r->ex->q);
}

static void stream_log_drained(void *arg)
{
    struct relay *r = arg;
    if (r->call)
        https_hold(r->call, false);
}

static void stream_log_data(void *arg, struct str bytes)
{
    struct relay *r = arg;
    start_answer(r);
    if (!http_write(r->ex->q, net_buf_copy(bytes)))
        https_hold(r->call, true);
}

// What kube-apiserver makes of a node's refusal.
static const struct api_status *stream_refusal_status(struct exchange *ex, int status,
                                                      struct str body)
{
    struct arena *a = &ex->arena;
    struct str text = arena_str(a, str_upto(body, LOG_REFUSAL_BYTES));
    if (status == 500)
        return api_status_internal(a, text);
    if (status == 400)
        return api_status_bad_request(a, text);
    struct api_status *s = arena_one(a, struct api_status);
    *s = (struct api_status){.status = STR("Failure"), .code = status};
    const char *message = NULL;
    if (status == 404) {
        s->reason = STR("NotFound");
        message = "the server could not find the requested resource";
    } else if (status == 401) {
        s->reason = STR("Unauthorized");
        message = "the server has asked for the client to provide credentials";
    } else if (status == 403) {
        s->reason = STR("Forbidden");
    } else if (status == 422) {
        s->reason = STR("Invalid");
        message = "the server rejected our request due to an error in our request";
    } else if (status > 500) {
        s->reason = STR("InternalError");
    }
    s->message = arena_strf(a, "%.*s ( pods/log %.*s)", STR_ARG(message ? str_z(message) : text),
                            STR_ARG(ex->route.name));
    s->details = arena_one(a, struct api_status_details);
    s->details->kind = STR("pods/log");
    s->details->name = ex->route.name;
    return s;
}

static void stream_log_done(void *arg, const struct https_answer *answer)
{
    struct relay *r = arg;
    struct exchange *ex = r->ex;
    r->call = NULL;
    if (answer->code < 0 && r->started) {
        relay_over(r, true);
    } else if (answer->code < 0) {
        relay_fail(r, api_status_unknown(&ex->arena, str_z(answer->err->msg)));
    } else if (answer->status < 200 || answer->status > 206) {
        relay_fail(r, stream_refusal_status(ex, answer->status, answer->body));
    } else {
        start_answer(r);
        relay_over(r, false);
    }
}

static void add_host(struct str host, struct sbuf *out)
{
    bool six = str_find_char(host, ':') >= 0;
    sbuf_addf(out, "%s%.*s%s", six ? "[" : "", STR_ARG(host), six ? "]" : "");
}

static int start_log(struct relay *r, const struct node_location *at, struct err *err)
{
    struct exchange *ex = r->ex;
    const struct server_nodes *nodes = &ex->s->node.to;
    cleanup_sbuf struct sbuf url = {0}, target = {0};
    sbuf_addz(&url, "https://");
    add_host(at->host, &url);
    sbuf_addf(&url, ":%u", (unsigned)at->port);
    sbuf_addf(&target, "/containerLogs/%.*s/%.*s/%.*s", STR_ARG(ex->route.namespace),
              STR_ARG(ex->route.name), STR_ARG(at->container));
    pass_flag(ex, "follow", "follow", "true", &target);
    pass_flag(ex, "previous", "previous", "true", &target);
    pass_flag(ex, "timestamps", "timestamps", "true", &target);
    stream_pass_option(ex, "sinceSeconds", &target);
    stream_pass_option(ex, "sinceTime", &target);
    stream_pass_option(ex, "tailLines", &target);
    stream_pass_option(ex, "limitBytes", &target);
    stream_pass_option(ex, "stream", &target);
    bool skip = query_bool(&ex->query, STR("insecureSkipTLSVerifyBackend"));
    const struct https_options o = {
        .url = sbuf_str(&url),
        .ca_pem = nodes->ca_pem,
        .insecure = nodes->insecure || skip,
        .user_agent = STR("dray-server"),
        .no_proxy = true,
        .connections = 1,
        .body_bytes = LOG_REFUSAL_BYTES * 2,
        .connect_timeout_ms = nodes->connect_timeout_ms ? nodes->connect_timeout_ms : 5000};
    int ret = https_new(nodes->loop, &o, &r->https, err);
    if (ret < 0)
        return ret;
    if (nodes->certificate_pem.n)
        https_set_identity(r->https, nodes->certificate_pem, nodes->key_pem);
    const struct https_request q = {.method = "GET",
                                    .target = sbuf_str(&target),
                                    .data = stream_log_data,
                                    .done = stream_log_done,
                                    .arg = r};
    r->call = https_start(r->https, &q);
    return 0;
}

static void serve_log(struct exchange *ex)
{
    struct node_location at;
    struct err err = {0};
    if (!check_log(ex) || !node_locate(ex, query_str(&ex->query, STR("container")), false, &at))
        return;
    if (at.host.n == 0) {
        answer_buf(ex, 204, STR(""), NULL); // nothing was written anywhere yet
        return;
    }
    struct relay *r = relay_new(ex);
    ex->q->drained = stream_log_drained;
    if (start_log(r, &at, &err) < 0)
        relay_fail(r, api_status_unknown(&ex->arena, str_z(err.msg)));
}

// --- Commands and ports --------------------------------------------------------------------------

static void from_client(void *arg, struct str bytes)
{
    struct relay *r = arg;
    if (r->tunnel && !tunnel_write(r->tunnel, bytes))
        http_hold(r->ex->q, true);
}

static void client_drained(void *arg)
{
    struct relay *r = arg;
    if (r->tunnel)
        tunnel_hold(r->tunnel, false);
}

static void client_ended(void *arg)
{
    struct relay *r = arg;
    if (r->tunnel)
        tunnel_end(take_ptr(r->tunnel));
    relay_over(r, false);
}

static void from_node(void *arg, struct str bytes)
{
    struct relay *r = arg;
    if (!http_write(r->ex->q, net_buf_copy(bytes)))
        tunnel_hold(r->tunnel, true);
}

static void node_drained(void *arg)
{
    struct relay *r = arg;
    http_hold(r->ex->q, false);
}

// Headers that speak of one connection alone.
static bool is_hop(struct str name)
{
    static const char *const hop[] = {
        "connection", "upgrade", "keep-alive",        "host", "content-length",
        "te",         "trailer", "transfer-encoding", "date", "proxy-connection"};
    for (size_t i = 0; i < array_len(hop); i++)
        if (str_eqz(name, hop[i]))
            return true;
    return false;
}

// Headers by which this server knew who asks, or whom they act as. The node is asked by this
// server, and what it learned it could use elsewhere.
static bool is_credential(struct str name)
{
    return str_eqz(name, "authorization") || str_eqz(name, "proxy-authorization") ||
           str_eqz(name, "cookie") || str_eqz(name, "origin") ||
           str_starts(name, STR("impersonate-")) || str_starts(name, STR("x-remote-"));
}

struct header_vec VEC(struct http_header);

// Pages that cannot set headers put their token among the subprotocols, as Kubernetes lets them: it
// is no business of the node's, whether it was believed here or not.
static struct str without_bearer(struct exchange *ex, struct str protocols)
{
    static const struct str bearer = STR_INIT("base64url.bearer.authorization.k8s.io.");
    cleanup_sbuf struct sbuf kept = {0};
    while (protocols.n) {
        struct str one;
        str_cut(protocols, ',', &one, &protocols);
        if (!str_starts(str_trim(one), bearer))
            sbuf_addf(&kept, "%s%.*s", kept.n ? ", " : "", STR_ARG(str_trim(one)));
    }
    return arena_str(&ex->arena, sbuf_str(&kept));
}

static void add_header(struct exchange *ex, const struct http_header *h, struct header_vec *to)
{
    struct http_header kept = *h;
    if (is_hop(h->name) || is_credential(h->name))
        return;
    if (str_eqz(h->name, "sec-websocket-protocol"))
        kept.value = without_bearer(ex, h->value);
    if (kept.value.n || !h->value.n)
        vec_push_arena(&ex->arena, to, kept);
}

static void node_opened(void *arg, const struct http_header *headers, size_t n)
{
    struct relay *r = arg;
    struct exchange *ex = r->ex;
    struct header_vec extra = {0};
    struct str protocol = STR("websocket");
    for (size_t i = 0; i < n; i++) {
        if (str_eqz(headers[i].name, "upgrade"))
            protocol = headers[i].value;
        else if (!is_hop(headers[i].name) && !str_eqz(headers[i].name, "audit-id"))
            vec_push_arena(&ex->arena, &extra, headers[i]);
    }
    vec_push_arena(&ex->arena, &extra, ((struct http_header){STR("audit-id"), ex->audit.id}));
    r->started = true;
    ex->q->input = from_client;
    ex->q->input_end = client_ended;
    ex->q->drained = client_drained;
    audit_started(ex, 101);
    http_upgrade(ex->q, protocol, extra.p, extra.n);
}

// A node's refusal goes to the client as it is: its library shows the text.
static void node_refused(void *arg, int status, struct str content_type, struct str body)
{
    struct relay *r = arg;
    struct exchange *ex = r->ex;
    r->tunnel = NULL;
    relay_free(r);
    answer_buf(ex, status, content_type.n ? arena_str(&ex->arena, content_type) : STR("text/plain"),
               net_buf_copy(body));
}

static void node_closed(void *arg, const struct err *err)
{
    struct relay *r = arg;
    struct exchange *ex = r->ex;
    r->tunnel = NULL;
    if (r->started)
        relay_over(r, false);
    else
        relay_fail(r, api_status_unknown(&ex->arena,
                                         str_z(err ? err->msg : "the node closed the connection")));
}

static void stream_add_target(const struct exchange *ex, const struct node_location *at,
                              struct sbuf *out)
{
    struct str sub = ex->route.sub->name;
    bool ports = str_eqz(sub, "portforward");
    sbuf_addf(out, "/%.*s/%.*s/%.*s", STR_ARG(ports ? STR("portForward") : sub),
              STR_ARG(ex->route.namespace), STR_ARG(ex->route.name));
    if (ports) {
        stream_pass_option(ex, "ports", out);
        return;
    }
    sbuf_addf(out, "/%.*s", STR_ARG(at->container));
    pass_flag(ex, "stdin", "input", "1", out);
    pass_flag(ex, "stdout", "output", "1", out);
    pass_flag(ex, "stderr", "error", "1", out);
    pass_flag(ex, "tty", "tty", "1", out);
    vec_foreach(&ex->query, pair) {
        if (!str_eqz(pair->name, "command") || !str_eqz(sub, "exec"))
            continue;
        sbuf_addf(out, "%ccommand=", str_find_char(sbuf_str(out), '?') < 0 ? '?' : '&');
        query_escape(pair->value, out);
    }
}

static void serve_upgrade(struct exchange *ex)
{
    struct node_location at;
    struct http_request *q = ex->q;
    const struct server_nodes *nodes = &ex->s->node.to;
    struct header_vec headers = {0};
    bool ports = str_eqz(ex->route.sub->name, "portforward");
    if (!node_locate(ex, query_str(&ex->query, STR("container")), ports, &at))
        return;
    if (at.host.n == 0) {
        answer_status(ex, api_status_bad_request(
                              &ex->arena,
                              arena_strf(&ex->arena, "pod %.*s does not have a host assigned",
                                         STR_ARG(ex->route.name))));
        return;
    }
    if (q->version != 1 || !http_has_token(q, STR("connection"), STR("upgrade"))) {
        answer_status(ex, api_status_bad_request(&ex->arena, STR("Upgrade request required")));
        return;
    }
    vec_push_arena(&ex->arena, &headers,
                   ((struct http_header){STR("Upgrade"), http_find_header(q, STR("upgrade"))}));
    for (size_t i = 0; i < q->headers_len; i++)
        add_header(ex, &q->headers[i], &headers);
    cleanup_sbuf struct sbuf target = {0};
    stream_add_target(ex, &at, &target);
    struct relay *r = relay_new(ex);
    const struct tunnel_options o = {.loop = nodes->loop,
                                     .host = at.host,
                                     .port = at.port,
                                     .tls = ex->s->node.tls,
                                     .timeout_ns = nodes->connect_timeout_ms * CLOCK_NS_PER_MS,
                                     .method = q->method,
                                     .target = sbuf_str(&target),
                                     .headers = headers.p,
                                     .headers_len = headers.n,
                                     .opened = node_opened,
                                     .refused = node_refused,
                                     .input = from_node,
                                     .drained = node_drained,
                                     .closed = node_closed,
                                     .arg = r};
    r->tunnel = tunnel_new(&o);
}

void stream_serve(struct exchange *ex)
{
    if (!ex->s->node.to.loop) {
        answer_fail(ex, 501, "NotImplemented",
                    STR("this server has no way to the endpoints of nodes"), NULL);
        return;
    }
    if (str_eqz(ex->route.sub->name, "log"))
        serve_log(ex);
    else
        serve_upgrade(ex);
}
