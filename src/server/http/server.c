// SPDX-License-Identifier: Apache-2.0
//
// One request from its path to a verb: identity, form, flow, authorization. Also start and stop of
// the server.
#include <stdlib.h>

#include "client/cluster_info.h"
#include "net/address.h"
#include "server/audit/trail.h"
#include "server/auth/access.h"
#include "server/auth/cluster.h"
#include "server/auth/denial.h"
#include "server/flow/flow.h"
#include "server/http/server_int.h"
#include "server/oidc/oidc.h"

#include "base/banned.h"

// Requests that wait for keys of a token issuer: how many, for how long, looking how often.
#define OIDC_WAITING_MAX  64
#define OIDC_WAIT_NS      (3 * CLOCK_NS_PER_SEC)
#define OIDC_WAIT_POLL_NS (20 * CLOCK_NS_PER_MS)

#define BOOKMARK_DEFAULT_NS (60 * CLOCK_NS_PER_SEC)

// Users added, changed or took away a kind.
static void kinds_changed(void *arg)
{
    struct server *s = arg;
    catalog_set_customs(&s->catalog, registry_customs(s->registry));
    vec_done(&s->openapi);
    encode_cache_done(&s->cache);
}

int server_new(const struct server_options *options, struct server **ret, struct err *err)
{
    struct server *s = xcalloc(1, sizeof(*s));
    s->exec = options->exec;
    s->registry = options->registry;
    s->store = registry_store(options->registry);
    s->access.anonymous = options->anonymous;
    s->audit = options->audit;
    s->watchers.bookmark_ns = options->bookmark_ns > 0 ? options->bookmark_ns : BOOKMARK_DEFAULT_NS;
    s->started_wall_ns = exec_wall_ns(s->exec);
    fair_init(&s->turns.fair, SERVER_SEATS, SERVER_WAITING);
    list_init(&s->watchers.all);
    list_init(&s->node.relays);
    list_init(&s->exchanges.active);
    list_init(&s->exchanges.spare);
    int r = catalog_init(&s->catalog, options->runtime_config, err);
    if (r < 0) {
        free(s);
        return r;
    }
    s->pieces = piece_pool_new();
    catalog_set_customs(&s->catalog, registry_customs(s->registry));
    r = auth_load(&s->auth, options->token_file, err);
    if (r == 0 && options->account_key.n)
        r = sign_key_load(options->account_key, &s->access.accounts, err);
    if (r == 0 && options->deny_file)
        r = denial_start(s, options->deny_file, err);
    if (r < 0) {
        server_free(s);
        return r;
    }
    if (options->authorization != SERVER_ALWAYS_ALLOW)
        authz_start(s, options->authorization == SERVER_NODE_RBAC);
    registry_set_kinds_hook(s->registry, kinds_changed, s);
    *ret = s;
    return 0;
}

static void stop_founding(struct server *s)
{
    self_service_stop(&s->self);
    if (s->founder)
        client_free(s->founder);
    s->founder = NULL;
}

void server_free(struct server *s)
{
    if (!s)
        return;
    authz_stop(s);
    stop_founding(s);
    while (!list_empty(&s->exchanges.spare)) {
        struct exchange *ex =
            list_entry(list_pop_front(&s->exchanges.spare), struct exchange, node);
        arena_done(&ex->arena);
        free(ex);
    }
    fair_done(&s->turns.fair);
    encode_cache_done(&s->cache);
    piece_pool_free(s->pieces);
    sign_key_free(s->access.accounts);
    deny_free(s->access.deny);
    tls_client_free(s->node.tls);
    arena_done(&s->node.arena);
    catalog_done(&s->catalog);
    auth_done(&s->auth);
    metrics_done(&s->metrics);
    vec_done(&s->doors);
    vec_done(&s->openapi);
    sbuf_done(&s->address);
    free(s);
}

void server_found_cluster(struct server *s, struct str client_ca_pem, struct str proxy_ca_pem,
                          struct str url)
{
    const struct cluster_facts facts = {.client_ca_pem = client_ca_pem,
                                        .proxy_ca_pem = proxy_ca_pem,
                                        .url = url,
                                        .now_ns = s->started_wall_ns};
    s->founder = local_client_new(s->registry, s->exec, &auth_admin);
    cluster_ensure(s->founder, &facts);
    if (url.n > 0)
        self_service_start(&s->self, s->exec, s->founder, url);
}

void server_publish_ca(struct server *s, struct str client_ca_pem, struct str proxy_ca_pem,
                       struct str url)
{
    const struct cluster_facts facts = {.client_ca_pem = client_ca_pem,
                                        .proxy_ca_pem = proxy_ca_pem,
                                        .url = url,
                                        .now_ns = s->started_wall_ns};
    if (s->founder)
        cluster_publish_ca(s->founder, &facts);
}

void server_set_address(struct server *s, struct str address)
{
    sbuf_clear(&s->address);
    sbuf_add(&s->address, address);
}

void server_add_door(struct server *s, const struct server_door *door)
{
    vec_push(&s->doors, door);
}

void server_stop(struct server *s)
{
    s->stopping = true;
    watch_stop_all(s);
    stream_stop_all(s);
    authz_stop(s);
    denial_stop(s);
    oidc_free(s->access.oidc);
    s->access.oidc = NULL;
    stop_founding(s);
    registry_set_kinds_hook(s->registry, NULL, NULL);
}

int server_set_nodes(struct server *s, const struct server_nodes *nodes, struct err *err)
{
    const struct tls_client_options o = {.ca_pem = nodes->ca_pem,
                                         .certificate_pem = nodes->certificate_pem,
                                         .key_pem = nodes->key_pem,
                                         .insecure = nodes->insecure};
    struct tls_client *tls = NULL;
    int r = tls_client_new(&o, &tls, err);
    if (r < 0)
        return r;
    tls_client_free(s->node.tls);
    s->node.tls = tls;
    struct arena *a = &s->node.arena;
    s->node.to = *nodes;
    s->node.to.ca_pem = arena_str(a, nodes->ca_pem);
    s->node.to.certificate_pem = arena_str(a, nodes->certificate_pem);
    s->node.to.key_pem = arena_str(a, nodes->key_pem);
    s->node.to.address_types = arena_str(a, nodes->address_types);
    return 0;
}

int server_set_account_key(struct server *s, struct str pem, struct err *err)
{
    struct sign_key *key = NULL;
    int r = sign_key_load(pem, &key, err);
    if (r < 0)
        return r;
    sign_key_free(s->access.accounts);
    s->access.accounts = key;
    return 0;
}

int server_set_oidc(struct server *s, const struct oidc_options *options, struct err *err)
{
    return oidc_new(options, &s->access.oidc, err);
}

// --- One request ---------------------------------------------------------------------------------

static struct exchange *exchange_new(struct server *s, struct http_request *q)
{
    struct exchange *ex;
    if (list_empty(&s->exchanges.spare)) {
        ex = xcalloc(1, sizeof(*ex));
    } else {
        ex = list_entry(list_pop_front(&s->exchanges.spare), struct exchange, node);
        s->exchanges.spare_len--;
        struct arena arena = ex->arena;
        *ex = (struct exchange){.arena = arena};
    }
    ex->s = s;
    ex->q = q;
    ex->started_ns = exec_now_ns(s->exec);
    list_push_back(&s->exchanges.active, &ex->node);
    return ex;
}

// Health and version are open to anonymous requests.
static bool is_public(const struct route *r)
{
    return r->type == ROUTE_HEALTH || r->type == ROUTE_VERSION;
}

// Cross-origin requests: a page in a browser must use neither the user's client certificate, which
// browsers send by themselves, nor the loopback port that needs none (whatever name resolves to it:
// DNS rebinding). A page cannot know a bearer token. Other programs send no Origin.
static bool from_elsewhere(const struct exchange *ex, const struct server_door *door)
{
    struct str origin = http_find_header(ex->q, STR("origin")),
               host = http_find_header(ex->q, STR("host")), scheme, rest;
    if (door->trusted || (!door->insecure && !ex->q->certificate))
        return false;
    if (door->insecure && host.n && !address_is_loopback(host))
        return true;
    if (!origin.n)
        return false;
    bool whole = str_cut(origin, ':', &scheme, &rest) && str_starts(rest, STR("//"));
    return !whole || !str_eq(str_from(rest, 2), host);
}

// Machines that want to join read the cluster's CA without credentials, if roles allow it.
static bool server_path_is_open(const struct exchange *ex)
{
    return is_public(&ex->route) || (str_eqz(ex->q->method, "GET") &&
                                     str_eqz(ex->q->path, CLUSTER_INFO_PATH) && !ex->q->query.n);
}

// *ret_unknown_key: the token is of the issuer, and signed with a key that is not known yet.
static bool server_identify_user(struct exchange *ex, const struct server_door *door,
                                 bool *ret_unknown_key)
{
    *ret_unknown_key = false;
    if (door->trusted || door->insecure) {
        ex->user = auth_admin;
        return true;
    }
    struct str token;
    struct api_str_array ours = {0};
    int64_t now = exec_wall_ns(ex->s->exec) / CLOCK_NS_PER_SEC;
    enum auth_answer who = auth_identify(&ex->s->auth, ex->q, now, &ex->arena, &ex->user, &token);
    if (who == AUTH_BAD && token.n &&
        (account_of_token(ex->s, token, &ours, &ex->arena, &ex->user, NULL) == 0 ||
         bootstrap_of_token(ex->s, token, &ex->arena, &ex->user, NULL) == 0))
        who = AUTH_KNOWN;
    if (who == AUTH_BAD && token.n) {
        int r = oidc_of_token(ex->s->access.oidc, token, &ex->arena, &ex->user, NULL);
        who = r == 0 ? AUTH_KNOWN : who;
        *ret_unknown_key = r == -ERR_NOT_FOUND;
    }
    if (who == AUTH_KNOWN) {
        denial_describe(ex, token);
        if (!denial_is(ex))
            return true;
        who = AUTH_BAD;
    }
    ex->user = auth_anonymous;
    return who == AUTH_NOBODY && (ex->s->access.anonymous || server_path_is_open(ex));
}

static bool starts_with(struct str s, const char *z)
{
    return str_starts(s, str_z(z));
}

// wants_pretty: as the query wants it; else interactive tools get indented text.
static bool wants_pretty(const struct exchange *ex)
{
    struct str v;
    if (query_get(&ex->query, STR("pretty"), &v))
        return str_eq(v, STR("true")) || str_eq(v, STR("1")) || str_eq(v, STR("True")) ||
               str_eq(v, STR("TRUE")) || str_eq(v, STR("t")) || str_eq(v, STR("T"));
    return starts_with(ex->user_agent, "curl") || starts_with(ex->user_agent, "Wget") ||
           starts_with(ex->user_agent, "Mozilla/5.0");
}

static bool comes_in_proto(const struct route *r)
{
    const struct api_kind *kind = r->sub && r->sub->kind ? r->sub->kind : r->resource->kind;
    return api_kind_in_proto(kind);
}

// choose_form reads Accept. False: it has been answered.
static bool choose_form(struct exchange *ex)
{
    unsigned allowed = 0;
    struct err err = {0};
    enum route_type type = ex->route.type;
    if (type == ROUTE_RESOURCE && ex->route.sub && ex->route.sub->connect)
        return true; // a text, or no HTTP at all
    if (type == ROUTE_RESOURCE)
        allowed = FORM_ALLOW_TRANSFORMS | (comes_in_proto(&ex->route) ? FORM_ALLOW_PROTOBUF : 0U);
    else if (type == ROUTE_API_VERSIONS || type == ROUTE_API_GROUPS)
        allowed = FORM_ALLOW_DISCOVERY;
    else if (type == ROUTE_OPENAPI_V2)
        allowed = FORM_ALLOW_OPENAPI;
    else if (type != ROUTE_API_GROUP && type != ROUTE_API_RESOURCES && type != ROUTE_OPENAPI_V3)
        return true;
    int r = negotiate_accept(http_find_header(ex->q, STR("accept")), allowed, &ex->form, &err);
    ex->form.pretty |= wants_pretty(ex);
    if (r < 0) {
        answer_fail(ex, 406, "NotAcceptable", arena_str(&ex->arena, str_z(err.msg)), NULL);
        return false;
    }
    if (ex->form.as != FORM_TABLE)
        return true;
    r = api_include_parse(query_str(&ex->query, STR("includeObject")), &ex->include, &err);
    if (r < 0)
        answer_error(ex, &err);
    return r == 0;
}

// The old way to watch one object: its name becomes a selector. It was asked whether this one may
// be seen, so a selector of the client's own has to mean the same. False: it has been answered.
static bool select_by_name(struct exchange *ex, struct list_options *o)
{
    struct str name = ex->route.name;
    if (!name.n)
        return true;
    if (o->field_selector.n && !str_eq(authz_selected(o->field_selector, STR("metadata.name"),
                                                      ex->route.resource->kind, &ex->arena),
                                       name)) {
        answer_fail(ex, 400, "BadRequest",
                    STR("both a name and a field selector are given, and the field selector does "
                        "not select that name alone: leave one of them out"),
                    NULL);
        return false;
    }
    if (!o->field_selector.n)
        o->field_selector = arena_strf(&ex->arena, "metadata.name=%.*s", STR_ARG(name));
    return true;
}

static void serve_list(struct exchange *ex)
{
    struct causes causes = {.arena = &ex->arena};
    struct list_options o;
    struct err err = {0};
    int r = query_list_options(&ex->query, ex->verb == VERB_WATCH, &o, &causes, &err);
    if (r < 0) {
        if (causes.n)
            answer_invalid(ex, STR("ListOptions"), &causes);
        else
            answer_error(ex, &err);
        return;
    }
    if (!select_by_name(ex, &o))
        return;
    if (o.watch)
        watch_serve(ex, &o);
    else
        read_serve_list(ex, &o);
}

// find_verb finds the verb of a request for a resource.
static void find_verb(struct exchange *ex)
{
    const struct route *r = &ex->route;
    ex->verb = route_verb(r, ex->q->method);
    if (ex->verb == VERB_GET && !r->sub && query_bool(&ex->query, STR("watch")))
        ex->verb = VERB_WATCH;
}

static void serve_notices(struct exchange *ex, const struct notices *n)
{
    const unsigned writes = VERB_CREATE | VERB_UPDATE | VERB_PATCH;
    if (n->deprecated.n) {
        exchange_warn(ex, n->deprecated);
        audit_note(ex, STR("k8s.io/deprecated"), STR("true"));
        if (n->removed.n)
            audit_note(ex, STR("k8s.io/removed-release"), n->removed);
    }
    if (n->unserved.n && (ex->verb & writes) && !ex->route.sub)
        exchange_warn(ex, n->unserved);
}

static void serve_resource(struct exchange *ex)
{
    const struct route *r = &ex->route;
    ex->request = (struct registry_request){.kind = r->resource->kind,
                                            .subresource = r->sub ? r->sub->name : STR(""),
                                            .namespace = r->namespace,
                                            .name = r->name,
                                            .user = &ex->user,
                                            .audited = ex->audit.trail != NULL};
    if (!authz_request(ex))
        return;
    serve_notices(ex, &r->resource->notices);
    if (ex->verb && r->sub && r->sub->connect) {
        flow_release(ex);
        stream_serve(ex);
        return;
    }
    switch (ex->verb) {
    case VERB_GET:
        read_get(ex);
        return;
    case VERB_LIST:
    case VERB_WATCH:
        serve_list(ex);
        return;
    case VERB_CREATE:
        write_create(ex);
        return;
    case VERB_UPDATE:
        write_update(ex);
        return;
    case VERB_PATCH:
        write_serve_patch(ex);
        return;
    case VERB_DELETE:
        write_delete(ex);
        return;
    case VERB_DELETE_COLLECTION:
        write_delete_collection(ex);
        return;
    default:
        answer_fail(ex, 405, "MethodNotAllowed",
                    STR("the server does not allow this method on the requested resource"),
                    arena_one(&ex->arena, struct api_status_details));
    }
}

static void server_serve_exchange(struct exchange *ex)
{
    if (ex->route.type == ROUTE_RESOURCE)
        serve_resource(ex);
    else if (authz_request(ex))
        document_serve(ex);
}

static void server_serve_user(struct exchange *ex)
{
    audit_begin(ex, true);
    if (!impersonate_apply(ex) || !choose_form(ex))
        return;
    if (is_public(&ex->route))
        document_serve(ex); // health checks never queue
    else
        flow_admit(ex, server_serve_exchange);
}

static void server_refuse_user(struct exchange *ex)
{
    audit_begin(ex, false); // as anonymous
    answer_fail(ex, 401, "Unauthorized", STR("Unauthorized"), NULL);
}

// --- Waiting for keys of a token issuer ----------------------------------------------------------

static void server_key_waiter_closed(void *arg)
{
    struct exchange *ex = arg;
    ex->q = NULL;
    ex->s->access.oidc_waiting--;
    exchange_end(ex, 499);
}

static void server_retry_identity(void *arg)
{
    struct exchange *ex = arg;
    const struct server_door *door = ex->state;
    bool unknown = false;
    if (oidc_is_fetching(ex->s->access.oidc) && exec_now_ns(ex->s->exec) < ex->wait_until_ns) {
        exec_timer_start(ex->s->exec, &ex->timer, OIDC_WAIT_POLL_NS);
        return;
    }
    ex->s->access.oidc_waiting--;
    ex->q->closed = NULL;
    ex->state = NULL;
    if (server_identify_user(ex, door, &unknown))
        server_serve_user(ex);
    else
        server_refuse_user(ex);
}

// server_await_keys lets a request wait for the fetch that its token caused. False: none runs, or
// too many wait.
static bool server_await_keys(struct exchange *ex, const struct server_door *door)
{
    if (!oidc_renew(ex->s->access.oidc) || ex->s->access.oidc_waiting >= OIDC_WAITING_MAX)
        return false;
    ex->s->access.oidc_waiting++;
    ex->state = (void *)(uintptr_t)door;
    ex->wait_until_ns = exec_now_ns(ex->s->exec) + OIDC_WAIT_NS;
    ex->timer = (struct exec_timer){.fn = server_retry_identity, .arg = ex};
    ex->q->closed = server_key_waiter_closed;
    ex->q->arg = ex;
    exec_timer_start(ex->s->exec, &ex->timer, OIDC_WAIT_POLL_NS);
    return true;
}

void server_handle(void *door, struct http_request *q)
{
    const struct server_door *d = door;
    struct exchange *ex = exchange_new(d->server, q);
    route_parse(&ex->s->catalog, arena_str(&ex->arena, q->path), &ex->route);
    query_parse(arena_str(&ex->arena, q->query), &ex->arena, &ex->query);
    ex->user_agent = http_find_header(q, STR("user-agent"));
    if (ex->route.type == ROUTE_RESOURCE)
        find_verb(ex);
    audit_identify(ex);
    if (from_elsewhere(ex, d)) {
        ex->user = auth_anonymous;
        audit_begin(ex, false);
        answer_fail(ex, 403, "Forbidden",
                    STR("cross-origin request rejected (Origin/Host mismatch); authenticate with "
                        "a bearer token"),
                    NULL);
        return;
    }
    bool unknown_key = false;
    if (server_identify_user(ex, d, &unknown_key))
        server_serve_user(ex);
    else if (!unknown_key || !server_await_keys(ex, d))
        server_refuse_user(ex);
}
