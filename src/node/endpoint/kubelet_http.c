// SPDX-License-Identifier: Apache-2.0
//
// Authenticates and authorizes requests, finds their container and routes them.
#include "node/endpoint/kubelet_http.h"

#include <assert.h>
#include <stdlib.h>

#include "node/endpoint/kubelet_http_int.h"

#include "base/banned.h"

#define SEGMENTS_MAX 6

static const struct str masters = STR_INIT("system:masters");
static const struct str authenticated = STR_INIT("system:authenticated");

// A request while it is found out whether it may be served.
struct visit {
    struct list_node node;
    struct kubelet_http *h; // NULL: the endpoint is gone
    struct http_request *q; // NULL: the client is gone
    struct arena arena;
    struct kubelet_user user;
    bool asked_all; // whether they may use all of the node, after a part of it was refused
};

// --- Replies -------------------------------------------------------------------------------------

void kubelet_reply(struct http_request *q, int status, struct str text)
{
    http_reply(q, status, STR("text/plain; charset=utf-8"), NULL, 0, net_buf_copy(text));
}

void kubelet_reply_error(struct http_request *q, const struct err *err)
{
    int status = 500;
    if (err->code == ERR_NOT_FOUND)
        status = 404;
    else if (err->code == ERR_BAD_REQUEST)
        status = 400;
    kubelet_reply(q, status, str_z(err->msg));
}

// --- Paths ---------------------------------------------------------------------------------------

static void kubelet_http_serve_metrics(struct kubelet_http *h, struct http_request *q)
{
    struct http_server_stats st;
    http_server_get_stats(h->http, &st);
    struct sbuf b = {0};
    size_t streams = 0;
    list_foreach(&h->streams, node)
        streams++;
    sbuf_addf(&b,
              "# HELP dray_node_http_requests_total Requests the node's endpoint has answered.\n"
              "# TYPE dray_node_http_requests_total counter\n"
              "dray_node_http_requests_total %llu\n"
              "# HELP dray_node_streams Logs that are followed and commands that run.\n"
              "# TYPE dray_node_streams gauge\n"
              "dray_node_streams %zu\n"
              "# HELP scrape_error 1 if there was an error while getting container metrics, 0 "
              "otherwise\n"
              "# TYPE scrape_error gauge\n"
              "scrape_error 0\n",
              (unsigned long long)st.requests, streams);
    if (h->o.metrics)
        h->o.metrics(h->o.arg, &b);
    http_reply(q, 200, STR("text/plain; version=0.0.4; charset=utf-8"), NULL, 0, net_buf_new(&b));
}

static void serve_pods(struct kubelet_http *h, struct http_request *q)
{
    struct sbuf b = {0};
    if (h->o.list)
        h->o.list(h->o.arg, &b);
    else
        sbuf_addz(&b, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[]}");
    http_reply(q, 200, STR("application/json"), NULL, 0, net_buf_new(&b));
}

struct segments {
    struct str p[SEGMENTS_MAX + 1];
    size_t n;
};

static struct segments kubelet_http_split_path(struct str path)
{
    struct segments s = {0};
    path = str_from(path, path.n && path.p[0] == '/' ? 1 : 0);
    while (path.n && s.n <= SEGMENTS_MAX)
        str_cut(path, '/', &s.p[s.n++], &path);
    return s;
}

// The part of the node a path belongs to, as roles name it; empty: there is no such path.
static struct str kubelet_http_subresource(const struct segments *s)
{
    struct str first = s->p[0];
    if (s->n == 0 || s->n > SEGMENTS_MAX)
        return STR("");
    if (str_eqz(first, "containerLogs") || str_eqz(first, "exec") || str_eqz(first, "attach") ||
        str_eqz(first, "portForward"))
        return STR("proxy");
    if (str_eqz(first, "metrics"))
        return STR("metrics");
    if (str_eqz(first, "pods") && s->n == 1)
        return STR("pods");
    return str_eqz(first, "healthz") ? STR("healthz") : STR("");
}

static bool fill_target(const struct segments *s, bool may_have_uid, struct kubelet_target *ret)
{
    if (s->n != 4 && (s->n != 5 || !may_have_uid))
        return false;
    ret->namespace = s->p[1];
    ret->pod = s->p[2];
    ret->uid = s->n == 5 ? s->p[3] : STR("");
    ret->container = s->p[s->n - 1];
    return ret->namespace.n && ret->pod.n && ret->container.n;
}

static void kubelet_http_serve(struct kubelet_http *h, struct http_request *q)
{
    struct segments s = kubelet_http_split_path(q->path);
    struct kubelet_target t = {0};
    struct str first = s.p[0];
    bool get = str_eqz(q->method, "GET");
    query_parse(q->query, q->arena, &t.query);
    if (str_eqz(first, "containerLogs") && get && fill_target(&s, false, &t))
        kubelet_logs(h, q, &t);
    else if (str_eqz(first, "exec") && fill_target(&s, true, &t))
        kubelet_exec(h, q, &t, false);
    else if (str_eqz(first, "attach") && fill_target(&s, true, &t))
        kubelet_exec(h, q, &t, true);
    else if (str_eqz(first, "portForward"))
        kubelet_reply(q, 501,
                      STR("this node does not forward ports (SPDY/3.1 within a WebSocket); logs, "
                          "exec and attach work: kubectl exec -i POD -- nc localhost PORT reaches "
                          "one port"));
    else if (!get)
        kubelet_reply(q, 405, STR("405: Method Not Allowed"));
    else if (str_eqz(first, "metrics"))
        kubelet_http_serve_metrics(h, q);
    else if (str_eqz(first, "pods"))
        serve_pods(h, q);
    else if (str_eqz(first, "healthz"))
        kubelet_reply(q, 200, STR("ok"));
    else
        kubelet_reply(q, 404, STR("404 page not found\n"));
}

// --- Authentication and authorization ------------------------------------------------------------

static void visit_free(struct visit *v)
{
    list_remove(&v->node);
    arena_done(&v->arena);
    free(v);
}

// Takes the request out of the visit, which is over.
static struct http_request *visit_over(struct visit *v)
{
    struct http_request *q = v->q;
    if (q)
        q->closed = NULL;
    visit_free(v);
    return q;
}

static void visit_closed(void *arg)
{
    struct visit *v = arg;
    v->q = NULL; // the authorizer still answers
}

// pods and healthz can be allowed by themselves, or with all the rest.
static bool kubelet_http_authorize_next(struct visit *v, void (*done)(void *ctx, bool allowed))
{
    if (!v->q || !v->h)
        return false;
    struct segments s = kubelet_http_split_path(v->q->path);
    struct str part = kubelet_http_subresource(&s);
    if (v->asked_all || (!str_eqz(part, "pods") && !str_eqz(part, "healthz")))
        return false;
    const struct kubelet_access *a = &v->h->o.access;
    v->asked_all = true;
    a->may(a->arg, &v->user, STR("get"), STR("proxy"), done, v);
    return true;
}

static void kubelet_http_on_authorized(void *ctx, bool allowed)
{
    struct visit *v = ctx;
    struct kubelet_http *h = v->h;
    if (!allowed && h && h->o.access.may &&
        kubelet_http_authorize_next(v, kubelet_http_on_authorized))
        return;
    struct sbuf why = {0};
    sbuf_addf(&why, "Forbidden (user=%.*s)", STR_ARG(v->user.name));
    struct http_request *q = visit_over(v);
    if (q && h && allowed)
        kubelet_http_serve(h, q);
    else if (q)
        kubelet_reply(q, 403, sbuf_str(&why));
    sbuf_done(&why);
}

static bool kubelet_http_is_master(const struct kubelet_user *u)
{
    for (size_t i = 0; i < u->groups_len; i++)
        if (str_eq(u->groups[i], masters))
            return true;
    return false;
}

static void kubelet_http_authorize(struct visit *v)
{
    const struct kubelet_access *a = &v->h->o.access;
    struct segments s = kubelet_http_split_path(v->q->path);
    struct str part = kubelet_http_subresource(&s);
    if (part.n == 0) {
        kubelet_reply(visit_over(v), 404, STR("404 page not found\n"));
        return;
    }
    bool writes = str_eqz(s.p[0], "exec") || str_eqz(s.p[0], "attach") ||
                  str_eqz(s.p[0], "portForward") || !str_eqz(v->q->method, "GET");
    if (kubelet_http_is_master(&v->user))
        kubelet_http_on_authorized(v, true);
    else if (!a->may)
        kubelet_http_on_authorized(v, false);
    else
        a->may(a->arg, &v->user, writes ? STR("create") : STR("get"), part,
               kubelet_http_on_authorized, v);
}

static void kubelet_http_on_authenticated(void *ctx, const struct kubelet_user *u)
{
    struct visit *v = ctx;
    if (!v->q || !v->h || !u || u->name.n == 0) {
        struct http_request *q = visit_over(v);
        if (q)
            kubelet_reply(q, 401, STR("Unauthorized"));
        return;
    }
    struct str *groups = arena_array(&v->arena, struct str, u->groups_len + 1);
    bool said = false;
    size_t n = u->groups_len;
    for (size_t i = 0; i < n; i++) {
        groups[i] = arena_str(&v->arena, u->groups[i]);
        said = said || str_eq(groups[i], authenticated);
    }
    if (!said) // certificates do not name the group of all authenticated users
        groups[n++] = authenticated;
    v->user = (struct kubelet_user){arena_str(&v->arena, u->name), groups, n};
    kubelet_http_authorize(v);
}

// A bearer token; empty: there is none.
static struct str token_of(const struct http_request *q)
{
    struct str header = str_trim(http_find_header(q, STR("authorization"))), scheme, token;
    if (!str_cut(header, ' ', &scheme, &token) ||
        !(str_eqz(scheme, "Bearer") || str_eqz(scheme, "bearer")))
        return STR("");
    return str_trim(token);
}

// A connection may outlive the certificate that it began with.
static bool kubelet_http_has_credentials(const struct kubelet_http *h, const struct tls_peer *peer)
{
    return peer && peer->common_name.n &&
           peer->not_after > exec_wall_ns(h->exec) / CLOCK_NS_PER_SEC;
}

static void kubelet_http_handle(void *arg, struct http_request *q)
{
    struct kubelet_http *h = arg;
    struct visit *v = xcalloc(1, sizeof(*v));
    struct str token = token_of(q);
    v->h = h;
    v->q = q;
    q->closed = visit_closed;
    q->arg = v;
    list_push_back(&h->visits, &v->node);
    if (kubelet_http_has_credentials(h, q->certificate)) {
        const struct kubelet_user u = {q->certificate->common_name, q->certificate->organizations,
                                       q->certificate->organizations_len};
        kubelet_http_on_authenticated(v, &u);
    } else if (token.n && h->o.access.who) {
        h->o.access.who(h->o.access.arg, token, kubelet_http_on_authenticated, v);
    } else {
        kubelet_http_on_authenticated(v, NULL);
    }
}

// --- Lifecycle -----------------------------------------------------------------------------------

struct kubelet_http *kubelet_http_new(const struct kubelet_http_options *options)
{
    struct kubelet_http *h = xcalloc(1, sizeof(*h));
    h->o = *options;
    h->exec = loop_exec(options->loop);
    list_init(&h->streams);
    list_init(&h->visits);
    const struct http_server_options o = {
        .loop = options->loop, .tls = options->tls, .handle = kubelet_http_handle, .arg = h};
    h->http = http_server_new(&o);
    return h;
}

int kubelet_http_listen(struct kubelet_http *h, struct str address, uint16_t *ret_port,
                        struct err *err)
{
    return http_server_listen_tcp(h->http, address, ret_port, err);
}

void kubelet_http_free(struct kubelet_http *h)
{
    if (!h)
        return;
    while (!list_empty(&h->streams)) {
        struct kubelet_stream *s = list_entry(h->streams.head.next, struct kubelet_stream, node);
        s->end(s);
    }
    http_server_free(h->http); // ends the requests of visits
    for (struct list_node *n; (n = list_pop_front(&h->visits));)
        list_entry(n, struct visit, node)->h = NULL;
    free(h);
}
