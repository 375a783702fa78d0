// SPDX-License-Identifier: Apache-2.0
//
// Everything that is not a resource: discovery, OpenAPI, version, health, metrics, backup.
#include <assert.h>
#include <stdio.h>

#include "api/features.h"
#include "api/openapi.h"
#include "api/openapi_custom.h"
#include "codec/json_writer.h"
#include "net/loop.h"
#include "pki/jwt.h"
#include "server/audit/trail.h"
#include "server/flow/flow.h"
#include "server/http/discovery.h"
#include "server/http/server_int.h"
#include "store/room.h"

#include "base/banned.h"

// Namespaces that metrics name; the rest is little.
#define DOCUMENT_LARGEST_NAMESPACES 10

static const struct str type_text = STR_INIT("text/plain; charset=utf-8");

// document_write_digest is a fingerprint of bytes that is the same in every process: two FNV-1a
// sums from different starts. It distinguishes versions of the server's own documents and is no
// secret.
static void document_write_digest(struct str bytes, char out[33])
{
    uint64_t a = UINT64_C(0xcbf29ce484222325), b = UINT64_C(0x6c62272e07bb0142);
    for (size_t i = 0; i < bytes.n; i++) {
        unsigned char c = (unsigned char)bytes.p[i];
        a = (a ^ c) * UINT64_C(0x100000001b3);
        b = (b ^ c ^ (a >> 56)) * UINT64_C(0x100000001b3);
    }
    (void)snprintf(out, 33, "%016llX%016llX", (unsigned long long)a, (unsigned long long)b);
}

static void answer_text(struct exchange *ex, int code, struct str text)
{
    answer_buf(ex, code, type_text, net_buf_copy(text));
}

// --- Discovery -----------------------------------------------------------------------------------

static void document_serve_aggregated(struct exchange *ex, bool core)
{
    struct server *s = ex->s;
    bool old = ex->form.as == FORM_DISCOVERY_V2BETA1;
    struct sbuf json = {0};
    discovery_aggregated(&s->catalog, core, old, &json);
    char tag[36] = "\"";
    document_write_digest(sbuf_str(&json), tag + 1);
    tag[33] = '"';
    tag[34] = '\0';
    struct str type = old ? STR("application/json;g=apidiscovery.k8s.io;v=v2beta1;as="
                                "APIGroupDiscoveryList")
                          : STR("application/json;g=apidiscovery.k8s.io;v=v2;as="
                                "APIGroupDiscoveryList");
    struct http_header headers[] = {{STR("etag"), str_z(tag)},
                                    {STR("vary"), STR("Accept")},
                                    {STR("audit-id"), ex->audit.id},
                                    {STR("cache-control"), STR("public")}};
    struct http_request *q = ex->q;
    bool same = str_eq(http_find_header(q, STR("if-none-match")), str_z(tag));
    if (same)
        sbuf_done(&json);
    ex->q = NULL;
    http_reply(q, same ? 304 : 200, type, headers, array_len(headers),
               same ? NULL : net_buf_new(&json));
    exchange_end(ex, same ? 304 : 200);
}

static void serve_discovery(struct exchange *ex)
{
    const struct route *r = &ex->route;
    const struct catalog *c = &ex->s->catalog;
    bool all = r->type == ROUTE_API_VERSIONS || r->type == ROUTE_API_GROUPS;
    if (all && (ex->form.as == FORM_DISCOVERY_V2 || ex->form.as == FORM_DISCOVERY_V2BETA1)) {
        document_serve_aggregated(ex, r->type == ROUTE_API_VERSIONS);
        return;
    }
    struct sbuf json = {0};
    if (r->type == ROUTE_API_VERSIONS)
        discovery_versions(c, sbuf_str(&ex->s->address), &json);
    else if (r->type == ROUTE_API_GROUPS)
        discovery_groups(c, &json);
    else if (r->type == ROUTE_API_GROUP)
        discovery_group(catalog_find_group(c, r->group), &json);
    else
        discovery_resources(catalog_find_version(c, r->group, r->version), &json);
    answer_json(ex, 200, &json);
}

// --- OpenAPI -------------------------------------------------------------------------------------

static bool openapi_of(const struct server *s, struct str group, struct str version,
                       struct sbuf *out)
{
    return api_openapi_v3(group, version, out) ||
           openapi_custom_v3(registry_customs(s->registry), group, version, out);
}

// list_documents notes which documents there are. Making them all takes a while, so it waits until
// somebody asks.
static void list_documents(struct server *s)
{
    if (s->openapi.n)
        return;
    vec_foreach(&s->catalog.groups, g) {
        vec_foreach(&g->versions, v) {
            struct sbuf text = {0};
            if (openapi_of(s, v->group, v->version, &text)) {
                struct openapi_document d = {.group = v->group, .version = v->version};
                document_write_digest(sbuf_str(&text), d.hash);
                vec_push(&s->openapi, d);
            }
            sbuf_done(&text);
        }
    }
}

static void openapi_index(struct exchange *ex)
{
    struct sbuf json = {0};
    list_documents(ex->s);
    sbuf_add(&json, STR("{\"paths\":{"));
    size_t n = 0;
    vec_foreach(&ex->s->openapi, d) {
        const char *root = d->group.n ? "apis/" : "api";
        sbuf_addf(&json,
                  "%s\"%s%.*s/%.*s\":{\"serverRelativeURL\":\"/openapi/v3/%s%.*s/%.*s?hash=%s"
                  "\"}",
                  n++ ? "," : "", root, STR_ARG(d->group), STR_ARG(d->version), root,
                  STR_ARG(d->group), STR_ARG(d->version), d->hash);
    }
    sbuf_add(&json, STR("}}"));
    answer_json(ex, 200, &json);
}

static void openapi_document(struct exchange *ex)
{
    struct sbuf json = {0};
    const struct route *r = &ex->route;
    if (!catalog_find_version(&ex->s->catalog, r->group, r->version) ||
        !openapi_of(ex->s, r->group, r->version, &json)) {
        sbuf_done(&json);
        answer_text(ex, 404, STR("404 page not found\n"));
        return;
    }
    answer_json(ex, 200, &json);
}

static bool is_served(void *arg, struct str group, struct str version)
{
    const struct server *s = arg;
    return catalog_find_version(&s->catalog, group, version) != NULL;
}

// The document may hold schemas that users wrote, which protobuf cannot say in every case.
static void openapi_v2_proto(struct exchange *ex, struct sbuf *json)
{
    struct sbuf message = {0};
    struct err err = {0};
    int made = api_openapi_v2_proto(sbuf_str(json), &message, &err);
    sbuf_done(json);
    if (made == 0) {
        answer_bytes(ex, 200, STR("application/com.github.proto-openapi.spec.v2.v1.0+protobuf"),
                     &message);
        return;
    }
    sbuf_done(&message);
    answer_error(ex, &err);
}

static void serve_openapi(struct exchange *ex)
{
    if (ex->route.type == ROUTE_OPENAPI_V3) {
        if (ex->route.version.n)
            openapi_document(ex);
        else
            openapi_index(ex);
        return;
    }
    struct sbuf json = {0};
    api_openapi_v2(is_served, ex->s, registry_customs(ex->s->registry), &json);
    if (ex->form.media == MEDIA_OPENAPI) {
        openapi_v2_proto(ex, &json);
        return;
    }
    answer_json(ex, 200, &json);
}

// --- Version, health, metrics --------------------------------------------------------------------

static void serve_version(struct exchange *ex)
{
    struct sbuf json = {0};
    sbuf_addf(
        &json,
        "{\"major\":\"1\",\"minor\":\"%d\",\"emulationMajor\":\"1\",\"emulationMinor\":\"%d\","
        "\"minCompatibilityMajor\":\"1\",\"minCompatibilityMinor\":\"%d\","
        "\"gitVersion\":\"v1.%d.1+dray\",\"gitCommit\":\"\",\"gitTreeState\":\"clean\","
        "\"buildDate\":\"1970-01-01T00:00:00Z\",\"goVersion\":\"none\",\"compiler\":\"cc\","
        "\"platform\":\"linux/"
#if defined(__aarch64__)
        "arm64"
#else
        "amd64"
#endif
        "\"}",
        FEATURES_MINOR, FEATURES_MINOR, FEATURES_MINOR - 1, FEATURES_MINOR);
    answer_json(ex, 200, &json);
}

static bool check_ping(const struct server *s)
{
    (void)s;
    return true;
}

static bool check_store(const struct server *s)
{
    struct store_stats stats;
    store_get_stats(s->store, &stats);
    return !stats.failing;
}

static bool check_shutdown(const struct server *s)
{
    return !s->stopping;
}

static const struct health_check {
    const char *name;
    bool (*good)(const struct server *s);
    bool only_ready;
} checks[] = {
    {"ping", check_ping, false},
    {"store", check_store, false},
    {"shutdown", check_shutdown, true},
};

static bool is_excluded(const struct exchange *ex, const char *name)
{
    vec_foreach(&ex->query, pair) {
        if (str_eq(pair->name, STR("exclude")) && str_eqz(pair->value, name))
            return true;
    }
    return false;
}

static void serve_health(struct exchange *ex)
{
    const struct route *r = &ex->route;
    bool ready = str_eq(r->group, STR("readyz")), good = true, found = r->name.n == 0;
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < array_len(checks); i++) {
        if (checks[i].only_ready && !ready)
            continue;
        if (r->name.n && !str_eqz(r->name, checks[i].name))
            continue;
        found = true;
        if (is_excluded(ex, checks[i].name)) {
            sbuf_addf(&text, "[+]%s excluded: ok\n", checks[i].name);
            continue;
        }
        bool ok = checks[i].good(ex->s);
        good &= ok;
        sbuf_addf(&text, ok ? "[+]%s ok\n" : "[-]%s failed: reason withheld\n", checks[i].name);
    }
    if (!found) {
        answer_text(ex, 404, STR("404 page not found\n"));
        return;
    }
    sbuf_addf(&text, "%.*s check %s\n", STR_ARG(r->group), good ? "passed" : "failed");
    struct str verbose;
    if (good && !query_get(&ex->query, STR("verbose"), &verbose))
        answer_text(ex, 200, STR("ok"));
    else
        answer_text(ex, good ? 200 : 500, sbuf_str(&text));
}

// space_metrics: what --max-database-bytes bounds, and the namespaces that take most of it.
static void space_metrics(const struct server *s, size_t bytes, struct sbuf *out)
{
    struct store_namespace_bytes largest[DOCUMENT_LARGEST_NAMESPACES];
    size_t n = store_largest_namespaces(s->store, largest, array_len(largest));
    sbuf_addf(out,
              "# HELP apiserver_storage_size_bytes Bytes of the stored objects.\n"
              "# TYPE apiserver_storage_size_bytes gauge\n"
              "apiserver_storage_size_bytes{storage_cluster_id=\"dray\"} %zu\n",
              bytes);
    sbuf_addz(out, "# HELP dray_store_namespace_bytes Bytes of the largest namespaces.\n"
                   "# TYPE dray_store_namespace_bytes gauge\n");
    for (size_t i = 0; i < n; i++)
        sbuf_addf(out, "dray_store_namespace_bytes{namespace=\"%.*s\"} %zu\n",
                  STR_ARG(largest[i].namespace), largest[i].bytes);
}

static void store_metrics(const struct server *s, struct sbuf *out)
{
    struct store_stats stats;
    store_get_stats(s->store, &stats);
    metrics_gauge(out, "dray_store_objects", "Objects in the store.", stats.objects);
    metrics_gauge(out, "dray_store_object_bytes", "Memory of the objects.", stats.object_bytes);
    space_metrics(s, stats.object_bytes, out);
    metrics_gauge(out, "dray_store_history_events", "Superseded versions kept for watches.",
                  stats.history_events);
    metrics_gauge(out, "dray_store_history_bytes", "Memory of these versions.",
                  stats.history_bytes);
    metrics_counter(out, "dray_store_commits_total", "Transactions on disk.", stats.commits);
    metrics_counter(out, "dray_store_writes_total", "Writes in them.", stats.writes);
    metrics_gauge(out, "dray_store_failing", "1 when the disk refuses writes.", stats.failing);
    metrics_gauge(out, "dray_store_low_space", "1 when the disk is nearly full.", stats.low);
    metrics_gauge(out, "dray_store_revision", "Newest visible revision.", store_revision(s->store));
    sbuf_addz(out, "# HELP apiserver_resource_objects Objects of a kind.\n"
                   "# TYPE apiserver_resource_objects gauge\n");
    vec_foreach(&s->catalog.resources, r) {
        // Every object once, under the version it is stored in.
        if (!r->kind->list || registry_stored_kind(r->kind) != r->kind)
            continue;
        size_t n = store_count(s->store, r->kind, (struct str){0});
        if (n)
            sbuf_addf(out, "apiserver_resource_objects{group=\"%.*s\",resource=\"%.*s\"} %zu\n",
                      STR_ARG(r->kind->group), STR_ARG(r->kind->plural), n);
    }
}

static void http_metrics(const struct server *s, struct sbuf *out)
{
    struct http_server_stats sum = {0};
    vec_foreach(&s->doors, door) {
        struct http_server_stats one = {0};
        if (!(*door)->http)
            continue;
        http_server_get_stats((*door)->http, &one);
        sum.connections += one.connections;
        sum.streams += one.streams;
        sum.requests += one.requests;
        sum.bytes_in += one.bytes_in;
        sum.bytes_out += one.bytes_out;
        sum.refused += one.refused;
    }
    metrics_gauge(out, "dray_http_connections", "Open connections.", sum.connections);
    metrics_gauge(out, "dray_http_streams", "Requests being answered.", sum.streams);
    metrics_counter(out, "dray_http_requests_total", "Requests read.", sum.requests);
    metrics_counter(out, "dray_http_received_bytes_total", "Bytes read.", sum.bytes_in);
    metrics_counter(out, "dray_http_sent_bytes_total", "Bytes written.", sum.bytes_out);
    metrics_counter(out, "dray_http_refused_total", "Broken, flooding or late peers.", sum.refused);
}

void document_answer_metrics(struct exchange *ex, struct str components)
{
    struct server *s = ex->s;
    struct sbuf text = {0};
    metrics_write(&s->metrics, &text);
    metrics_gauge(&text, "apiserver_longrunning_requests", "Watches.", s->watchers.n);
    flow_metrics(s, &text);
    metrics_counter(&text, "dray_watch_events_shared_total", "Events encoded before.",
                    s->cache.hits);
    metrics_counter(&text, "dray_watch_events_encoded_total", "Events encoded.", s->cache.misses);
    http_metrics(s, &text);
    store_metrics(s, &text);
    registry_write_metrics(s->registry, &text);
    audit_write_metrics(s->audit, &text);
    sbuf_add(&text, components);
    loop_add_metrics(&text);
    metrics_write_process(&text, s->started_wall_ns);
    answer_bytes(ex, 200, STR("text/plain; version=0.0.4; charset=utf-8"), &text);
}

static void serve_root(struct exchange *ex)
{
    struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    json_write_object_begin(&w);
    json_write_key(&w, STR("paths"));
    json_write_array_begin(&w);
    json_write_str(&w, STR("/api"));
    json_write_str(&w, STR("/api/v1"));
    json_write_str(&w, STR("/apis"));
    vec_foreach(&ex->s->catalog.groups, g) {
        if (g->name.n == 0)
            continue;
        json_write_str(&w, arena_strf(&ex->arena, "/apis/%.*s", STR_ARG(g->name)));
        vec_foreach(&g->versions, v)
            json_write_str(&w, arena_strf(&ex->arena, "/apis/%.*s/%.*s", STR_ARG(g->name),
                                          STR_ARG(v->version)));
    }
    static const char *const others[] = {"/healthz",    "/livez",  "/metrics", "/openapi/v2",
                                         "/openapi/v3", "/readyz", "/version"};
    for (size_t i = 0; i < array_len(others); i++)
        json_write_str(&w, str_z(others[i]));
    json_write_array_end(&w);
    json_write_object_end(&w);
    answer_json(ex, 200, &json);
}

// --- Backup --------------------------------------------------------------------------------------

static void backup_closed(void *arg)
{
    struct exchange *ex = arg;
    ex->q = NULL;
}

static void backup_done(void *arg, int code, const struct err *err)
{
    struct exchange *ex = arg;
    if (code < 0) {
        answer_fail(ex, 500, "InternalError", arena_str(&ex->arena, str_z(err ? err->msg : "")),
                    NULL);
        return;
    }
    struct api_status done = {.status = STR("Success"), .code = 200};
    answer_status(ex, &done);
}

bool document_is_master(const struct registry_user *u)
{
    for (size_t i = 0; i < u->groups_len; i++)
        if (str_eq(u->groups[i], STR("system:masters")))
            return true;
    return false;
}

static void serve_backup(struct exchange *ex)
{
    struct str path = query_str(&ex->query, STR("path"));
    if (!document_is_master(&ex->user))
        answer_fail(ex, 403, "Forbidden", STR("only members of system:masters may take a backup"),
                    NULL);
    else if (path.n == 0 || path.p[0] != '/' || str_find_char(path, '\0') >= 0)
        answer_fail(ex, 400, "BadRequest",
                    STR("say where: ?path=/absolute/path/of/a/new/file on the server's machine"),
                    NULL);
    else {
        ex->q->closed = backup_closed;
        ex->q->arg = ex;
        store_backup(ex->s->store, arena_str(&ex->arena, path).p, backup_done, ex);
    }
}

// --- All of them ---------------------------------------------------------------------------------

static void wrong_method(struct exchange *ex)
{
    answer_fail(ex, 405, "MethodNotAllowed",
                STR("the server does not allow this method on the requested resource"),
                arena_one(&ex->arena, struct api_status_details));
}

// --- Who signs tokens of service accounts --------------------------------------------------------

static void serve_issuer(struct exchange *ex)
{
    struct sbuf json = {0};
    sbuf_addf(
        &json,
        "{\"issuer\":\"%s\",\"jwks_uri\":\"https://%.*s/openid/v1/jwks\","
        "\"response_types_supported\":[\"id_token\"],\"subject_types_supported\":[\"public\"],"
        "\"id_token_signing_alg_values_supported\":[\"ES256\"]}",
        JWT_ISSUER, STR_ARG(sbuf_str(&ex->s->address)));
    answer_bytes(ex, 200, STR("application/json"), &json);
}

static void serve_keys(struct exchange *ex)
{
    struct sbuf json = {0};
    if (ex->s->access.accounts)
        jwt_key_set(ex->s->access.accounts, &json);
    else
        sbuf_addz(&json, "{\"keys\":[]}");
    answer_bytes(ex, 200, STR("application/jwk-set+json"), &json);
}

static void serve_unknown_api(struct exchange *ex)
{
    answer_fail(ex, 404, "NotFound", STR("the server could not find the requested resource"),
                arena_one(&ex->arena, struct api_status_details));
}

static void serve_unknown(struct exchange *ex)
{
    answer_text(ex, 404, STR("404 page not found\n"));
}

// Documents are read; a backup is requested, and a path that is not served has no methods.
enum document_method { METHOD_GET, METHOD_POST, METHOD_ANY };

static const struct {
    void (*serve)(struct exchange *ex);
    enum document_method method;
} documents[] = {
    [ROUTE_UNKNOWN] = {serve_unknown, METHOD_ANY},
    [ROUTE_UNKNOWN_API] = {serve_unknown_api, METHOD_ANY},
    [ROUTE_RESOURCE] = {serve_unknown, METHOD_GET},
    [ROUTE_API_VERSIONS] = {serve_discovery, METHOD_GET},
    [ROUTE_API_GROUPS] = {serve_discovery, METHOD_GET},
    [ROUTE_API_GROUP] = {serve_discovery, METHOD_GET},
    [ROUTE_API_RESOURCES] = {serve_discovery, METHOD_GET},
    [ROUTE_OPENAPI_V2] = {serve_openapi, METHOD_GET},
    [ROUTE_OPENAPI_V3] = {serve_openapi, METHOD_GET},
    [ROUTE_VERSION] = {serve_version, METHOD_GET},
    [ROUTE_HEALTH] = {serve_health, METHOD_GET},
    [ROUTE_METRICS] = {question_serve_metrics, METHOD_GET},
    [ROUTE_ISSUER] = {serve_issuer, METHOD_GET},
    [ROUTE_KEYS] = {serve_keys, METHOD_GET},
    [ROUTE_ROOT] = {serve_root, METHOD_GET},
    [ROUTE_BACKUP] = {serve_backup, METHOD_POST},
    [ROUTE_EXPLAIN] = {question_serve_explain, METHOD_GET},
    [ROUTE_CHECK] = {question_serve_check, METHOD_GET},
};

void document_serve(struct exchange *ex)
{
    struct str method = ex->q->method;
    bool get = str_eq(method, STR("GET")) || str_eq(method, STR("HEAD"));
    enum document_method wanted = documents[ex->route.type].method;
    if (wanted == METHOD_ANY || (wanted == METHOD_GET ? get : str_eq(method, STR("POST"))))
        documents[ex->route.type].serve(ex);
    else
        wrong_method(ex);
}
