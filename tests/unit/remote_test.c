// SPDX-License-Identifier: Apache-2.0
//
// The remote transport on one loop with what it talks to: dray's own server over TLS, and a scripted
// one that misbehaves.
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "api/cel_check.h"
#include "client/informer.h"
#include "client/lines.h"
#include "client/remote.h"
#include "net/http.h"
#include "pki/pki.h"
#include "server/server.h"
#include "unit.h"

#include "base/banned.h"

#define PATIENCE_NS (20 * CLOCK_NS_PER_SEC)
#define PROTOBUF    "application/vnd.kubernetes.protobuf"

struct remote_world {
    struct loop *loop;
    struct http_server *http;
    struct client *client;
    struct arena arena;
    struct exec_timer limit;
    char folder[64];
    // The real server:
    struct store *store;
    struct features features;
    struct api_cel_engine *cel;
    struct registry *registry;
    struct server *server;
    struct server_door door;
    struct pki pki;
    struct tls_server *tls;
    // The scripted one:
    const char *const *script; // STATUS [retry] BODY, one a request; NULL ends it
    size_t requests;
    struct sbuf targets, tokens, body; // of the last request
    struct kubeconfig_target target;
    struct http_request *held;
};

static void on_limit(void *arg)
{
    (void)arg;
    fail_msg("nothing happened for %lld seconds", (long long)(PATIENCE_NS / CLOCK_NS_PER_SEC));
}

static void run(struct remote_world *w)
{
    w->limit = (struct exec_timer){.fn = on_limit};
    exec_timer_start(loop_exec(w->loop), &w->limit, PATIENCE_NS);
    loop_run(w->loop);
    exec_timer_stop(loop_exec(w->loop), &w->limit);
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

static void connect_client(struct remote_world *w, const struct kubeconfig_target *target)
{
    struct err err = {0};
    const struct client_remote_options o = {.target = target};
    if (client_remote_new(w->loop, &o, &w->client, &err) < 0)
        fail_msg("%s", err.msg);
}

static struct remote_world *real_world(void)
{
    struct remote_world *w = xcalloc(1, sizeof(*w));
    struct err err = {0};
    (void)snprintf(w->folder, sizeof(w->folder), "/tmp/dray-remote-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(loop_new(&w->loop, &err), 0);
    features_init(&w->features, FEATURES_MINOR);
    w->cel = api_cel_engine_new();
    const struct store_options so = {.exec = loop_exec(w->loop)};
    assert_int_equal(store_open(&so, &w->store, &err), 0);
    const struct registry_options ro = {.store = w->store,
                                        .exec = loop_exec(w->loop),
                                        .features = &w->features,
                                        .cel = api_cel_engine_rules(w->cel)};
    assert_int_equal(registry_new(&ro, &w->registry, &err), 0);
    const struct server_options vo = {.exec = loop_exec(w->loop), .registry = w->registry};
    assert_int_equal(server_new(&vo, &w->server, &err), 0);
    w->door = (struct server_door){.server = w->server};
    const struct pki_host host = {.listen = STR("127.0.0.1")};
    if (pki_prepare(w->folder, &host, clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC, &w->pki,
                    &err) < 0)
        fail_msg("%s", err.msg);
    const struct tls_server_options to = {w->pki.server_file, w->pki.server_key_file,
                                          w->pki.ca_file};
    assert_int_equal(tls_server_new(&to, &w->tls, &err), 0);
    const struct http_server_options ho = {
        .loop = w->loop, .tls = w->tls, .handle = server_handle, .arg = &w->door};
    w->http = http_server_new(&ho);
    uint16_t port = 0;
    assert_int_equal(http_server_listen_tcp(w->http, STR("127.0.0.1:0"), &port, &err), 0);
    struct str url = arena_strf(&w->arena, "https://127.0.0.1:%u", (unsigned)port);
    struct str path = arena_strf(&w->arena, "%s/admin.kubeconfig", w->folder);
    assert_int_equal(pki_write_kubeconfig(&w->pki, url.p, path.p, &err), 0);
    struct kubeconfig k = {0};
    struct kubeconfig_target target;
    if (kubeconfig_find(&k, path.p, NULL, &target, &err) < 0)
        fail_msg("%s", err.msg);
    connect_client(w, &target);
    kubeconfig_done(&k);
    return w;
}

static void world_free(struct remote_world *w)
{
    client_free(w->client);
    if (w->server)
        server_stop(w->server);
    http_server_stop(w->http, 0, stop_loop, w->loop);
    run(w);
    http_server_free(w->http);
    if (w->server) {
        registry_stop(w->registry);
        store_close(w->store);
        registry_free(w->registry);
        server_free(w->server);
        api_cel_engine_free(w->cel);
        tls_server_free(w->tls);
        struct str command = arena_strf(&w->arena, "rm -rf %s", w->folder);
        assert_int_equal(system(command.p), 0); // NOLINT: a folder of our own
        pki_done(&w->pki);
    }
    loop_free(w->loop);
    sbuf_done(&w->targets);
    sbuf_done(&w->tokens);
    sbuf_done(&w->body);
    arena_done(&w->arena);
    free(w);
}

static const struct api_kind *config_kind(void)
{
    return api_kind_find(STR("v1"), STR("ConfigMap"));
}

static struct client_key config_key(const char *name)
{
    return (struct client_key){config_kind(), STR("default"), str_z(name)};
}

struct answer {
    struct remote_world *world;
    int calls, code;
    char text[512];
    const struct typed_object *object;
};

static void note_answer(void *arg, const struct client_answer *a)
{
    struct answer *got = arg;
    got->calls++;
    got->code = a->code;
    (void)snprintf(got->text, sizeof(got->text), "%.511s", a->err ? a->err->msg : "");
    typed_object_unref(got->object);
    got->object = typed_object_ref(a->object);
    assert_true((a->code == 0) == (a->err == NULL));
    loop_stop(got->world->loop);
}

static struct api_object decode(struct remote_world *w, const char *json)
{
    struct json_doc doc = {0};
    struct api_object o;
    struct err err = {0};
    assert_int_equal(json_parse(str_z(json), NULL, &doc, &err), 0);
    if (api_decode(&doc, doc.root, &w->arena, NULL, &o, &err) < 0)
        fail_msg("%s: %s", err.path, err.msg);
    json_doc_done(&doc);
    return o;
}

#define CONFIG(name, colour)                                                       \
    "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" name \
    "\",\"namespace\":\"default\",\"labels\":{\"colour\":\"" colour "\"}}}"

static void create(struct remote_world *w, const char *json)
{
    struct answer a = {.world = w};
    struct api_object o = decode(w, json);
    client_create(w->client, &o, NULL, note_answer, &a);
    assert_int_equal(a.calls, 0);
    run(w);
    assert_string_equal(a.text, "");
    typed_object_unref(a.object);
}

// --- Against dray's own server -------------------------------------------------------------------

static void calls_are_answered_as_the_registry_does(void **state)
{
    (void)state;
    struct remote_world *w = real_world();
    struct client *c = w->client;
    struct answer a = {.world = w};
    struct api_object o = decode(w, CONFIG("one", "red"));
    client_create(c, &o, NULL, note_answer, &a);
    assert_int_equal(a.calls, 0);
    run(w);
    assert_string_equal(a.text, "");
    assert_int_equal(a.calls, 1);
    assert_str(a.object->meta->name, "one");
    assert_true(a.object->revision > 0 && a.object->meta->uid.n == 36);
    client_create(c, &o, NULL, note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_ALREADY_EXISTS);
    assert_string_equal(a.text, "configmaps \"one\" already exists");
    assert_null(a.object);
    struct client_key key = config_key("one");
    client_patch(c, &key, CLIENT_PATCH_MERGE, STR("{\"data\":{\"k\":\"v\"}}"), NULL, note_answer,
                 &a);
    run(w);
    assert_int_equal(a.code, 0);
    client_get(c, &key, note_answer, &a);
    run(w);
    assert_int_equal(a.code, 0);
    struct api_config_map stale = {0};
    api_copy(config_kind()->type, a.object->object.value, &stale, &w->arena);
    assert_int_equal(stale.data.n, 1);
    client_patch(c, &key, CLIENT_PATCH_MERGE, STR("{\"data\":{\"k\":\"w\"}}"), NULL, note_answer,
                 &a);
    run(w);
    client_update(c, &(struct api_object){config_kind(), &stale}, NULL, note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_CONFLICT);
    client_delete(c, &key, &(struct api_delete_options){.has_grace_period_seconds = true},
                  note_answer, &a);
    run(w);
    assert_int_equal(a.code, 0);
    client_get(c, &key, note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_NOT_FOUND);
    assert_string_equal(a.text, "configmaps \"one\" not found");
    // Freed with a call under way: it is answered all the same.
    int calls = a.calls;
    client_get(c, &key, note_answer, &a);
    client_free(take_ptr(w->client));
    run(w);
    assert_int_equal(a.calls, calls + 1);
    assert_int_equal(a.code, -ECANCELED);
    world_free(w);
}

static void a_pod_is_bound_and_a_bad_one_refused(void **state)
{
    (void)state;
    struct remote_world *w = real_world();
    struct answer a = {.world = w};
    create(w, "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"namespace\":"
              "\"default\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}");
    client_bind(w->client, &(struct api_object_meta){.namespace = STR("default"), .name = STR("p")},
                STR("node-1"), note_answer, &a);
    run(w);
    assert_string_equal(a.text, "");
    assert_null(a.object); // a Status
    client_bind(w->client, &(struct api_object_meta){.namespace = STR("default"), .name = STR("p")},
                STR("node-2"), note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_CONFLICT);
    struct api_object bad = decode(
        w,
        "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{\"name\":"
        "\"q\",\"namespace\":\"default\"},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"Bad_"
        "Name\","
        "\"exactly\":{\"deviceClassName\":\"c\"}}]}}}");
    client_create(w->client, &bad, NULL, note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_INVALID);
    assert_non_null(strstr(a.text, "spec.devices.requests[0].name"));
    client_create(w->client, &bad, &(struct client_write){.dry_run = true}, note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_INVALID);
    world_free(w);
}

struct log {
    struct remote_world *world;
    struct sbuf text;
    const char *until; // the loop stops when the text ends so
    struct client_watch *watch;
    bool stop_at_end;
};

static void note_event(void *arg, const struct client_event *e)
{
    static const char *const names[] = {"added",  "modified", "deleted",
                                        "synced", "bookmark", "ended"};
    struct log *l = arg;
    if (e->type == CLIENT_BOOKMARK)
        return;
    sbuf_addf(&l->text, "%s", names[e->type]);
    if (e->object)
        sbuf_addf(&l->text, ":%.*s", STR_ARG(e->object->meta->name));
    if (e->type == CLIENT_ENDED)
        sbuf_addf(&l->text, ":%d", e->code);
    else
        assert_true(e->revision > 0);
    sbuf_addc(&l->text, ' ');
    if (l->until && str_ends(sbuf_str(&l->text), str_z(l->until))) {
        if (l->stop_at_end)
            client_watch_stop(l->world->client, take_ptr(l->watch));
        loop_stop(l->world->loop);
    }
}

static void watches_list_then_follow(void **state)
{
    (void)state;
    struct remote_world *w = real_world();
    create(w, CONFIG("a", "red"));
    create(w, CONFIG("b", "blue"));
    const struct client_list_options red = {.namespace = STR("default"),
                                            .label_selector = STR("colour=red")};
    const struct client_list_options bad = {.label_selector = STR("colour in red")};
    struct log l = {.world = w, .until = "synced "};
    l.watch = client_watch(w->client, config_kind(), &red, 0, note_event, &l);
    assert_int_equal(l.text.n, 0);
    run(w);
    assert_str(sbuf_str(&l.text), "added:a synced ");
    sbuf_clear(&l.text);
    struct client_key b = config_key("b");
    struct answer a = {.world = w};
    client_patch(w->client, &b, CLIENT_PATCH_MERGE,
                 STR("{\"metadata\":{\"labels\":{\"colour\":\"red\"}}}"), NULL, note_answer, &a);
    run(w);
    client_delete(w->client, &b, NULL, note_answer, &a);
    l.until = "deleted:b ";
    l.stop_at_end = true;
    while (l.watch)
        run(w);
    assert_str(sbuf_str(&l.text), "added:b deleted:b ");
    struct log refused = {.world = w, .until = " "};
    struct client_watch *r = client_watch(w->client, config_kind(), &bad, 0, note_event, &refused);
    run(w);
    char expected[32];
    (void)snprintf(expected, sizeof(expected), "ended:%d ", -ERR_BAD_REQUEST);
    assert_str(sbuf_str(&refused.text), expected);
    client_watch_stop(w->client, r);
    // From a future that is not there: start anew.
    struct log future = {.world = w, .until = " "};
    r = client_watch(w->client, config_kind(), NULL, 1000000, note_event, &future);
    run(w);
    (void)snprintf(expected, sizeof(expected), "ended:%d ", -ERR_EXPIRED);
    assert_str(sbuf_str(&future.text), expected);
    client_watch_stop(w->client, r);
    sbuf_done(&l.text);
    sbuf_done(&refused.text);
    sbuf_done(&future.text);
    typed_object_unref(a.object);
    world_free(w);
}

static void informer_synced_stop(void *arg)
{
    loop_stop(arg);
}

static void an_informer_keeps_a_cache(void **state)
{
    (void)state;
    struct remote_world *w = real_world();
    create(w, CONFIG("a", "red"));
    const struct informer_options o = {.client = w->client, .kind = config_kind()};
    const struct informer_handler h = {.synced = informer_synced_stop, .arg = w->loop};
    struct informer *i = informer_new(&o);
    informer_add_handler(i, &h);
    informer_start(i);
    run(w);
    assert_true(informer_synced(i));
    assert_non_null(informer_get(i, STR("default"), STR("a")));
    informer_free(i);
    world_free(w);
}

// Against whatever server DRAY_TEST_KUBECONFIG names: it must be one that may be written to.
static void any_server_will_do(void **state)
{
    (void)state;
    const char *path = getenv("DRAY_TEST_KUBECONFIG"); // NOLINT(concurrency-mt-unsafe): one thread
    if (!path)
        skip();
    struct remote_world *w = xcalloc(1, sizeof(*w));
    struct err err = {0};
    struct kubeconfig k = {0};
    struct kubeconfig_target target;
    assert_int_equal(loop_new(&w->loop, &err), 0);
    if (kubeconfig_find(&k, path, NULL, &target, &err) < 0)
        fail_msg("%s", err.msg);
    connect_client(w, &target);
    struct answer a = {.world = w};
    const struct informer_options o = {.client = w->client,
                                       .kind = api_kind_find(STR("resource.k8s.io/v1"),
                                                             STR("ResourceClaim"))};
    const struct informer_handler h = {.synced = informer_synced_stop, .arg = w->loop};
    struct informer *i = informer_new(&o);
    informer_add_handler(i, &h);
    informer_start(i);
    run(w);
    assert_true(informer_synced(i));
    create(
        w,
        "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{\"name\":"
        "\"dray-test\",\"namespace\":\"default\"},\"spec\":{\"devices\":{\"requests\":[{"
        "\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}]}}}");
    create(w, "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"dray-test\","
              "\"namespace\":\"default\"},\"spec\":{\"schedulerName\":\"nobody\",\"containers\":[{"
              "\"name\":\"c\",\"image\":\"i\"}]}}");
    client_bind(w->client,
                &(struct api_object_meta){.namespace = STR("default"), .name = STR("dray-test")},
                STR("node-1"), note_answer, &a);
    run(w);
    assert_string_equal(a.text, "");
    client_bind(w->client,
                &(struct api_object_meta){.namespace = STR("default"), .name = STR("dray-test")},
                STR("node-2"), note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_CONFLICT);
    struct client_key pod = {api_kind_find(STR("v1"), STR("Pod")), STR("default"),
                             STR("dray-test")};
    struct client_key claim = {o.kind, STR("default"), STR("dray-test")};
    client_get(w->client, &pod, note_answer, &a);
    run(w);
    assert_str(((const struct api_pod *)a.object->object.value)->spec.node_name, "node-1");
    assert_non_null(informer_get(i, claim.namespace, claim.name));
    const struct api_delete_options now = {.has_grace_period_seconds = true};
    client_delete(w->client, &pod, &now, note_answer, &a);
    run(w);
    assert_int_equal(a.code, 0);
    client_delete(w->client, &claim, &now, note_answer, &a);
    run(w);
    assert_int_equal(a.code, 0);
    informer_free(i);
    typed_object_unref(a.object);
    client_free(w->client);
    kubeconfig_done(&k);
    loop_free(w->loop);
    arena_done(&w->arena);
    free(w);
}

// --- Against a scripted server -------------------------------------------------------------------

// A line of a script: "STATUS BODY"; a status of 1xxx adds Retry-After: 1, 2xxx streams the body and
// breaks the connection, 3xxx streams it and leaves it open, 4xxx answers in protobuf.
static void scripted(void *arg, struct http_request *q)
{
    struct remote_world *w = arg;
    const char *line = w->script[w->requests];
    if (!line)
        fail_msg("a request too many: %.*s", STR_ARG(q->target));
    w->requests++;
    sbuf_addf(&w->targets, "%.*s %.*s\n", STR_ARG(q->method), STR_ARG(q->target));
    sbuf_addf(&w->tokens, "%.*s\n", STR_ARG(http_find_header(q, STR("authorization"))));
    struct str code, body;
    uint64_t status = 0;
    str_cut(str_z(line), ' ', &code, &body);
    assert_int_equal(str_to_u64(code, &status), 0);
    static const struct http_header later = {STR_INIT("retry-after"), STR_INIT("1")};
    sbuf_clear(&w->body);
    sbuf_add(&w->body, q->body);
    if (status >= 4000) {
        cleanup_sbuf struct sbuf envelope = {0};
        const struct api_object o = decode(w, body.p);
        assert_true(str_starts(http_find_header(q, STR("accept")), STR(PROTOBUF)));
        api_envelope_write(&o, &envelope);
        http_reply(q, (int)(status % 1000), STR(PROTOBUF), NULL, 0,
                   net_buf_copy(sbuf_str(&envelope)));
        return;
    }
    if (status >= 2000) {
        http_start(q, 200, STR("application/json"), NULL, 0);
        (void)http_write(q, net_buf_copy(body));
        if (status < 3000)
            http_abort(q);
        else
            w->held = q;
        return;
    }
    bool retry = status >= 1000;
    http_reply(q, (int)(status % 1000), STR("application/json"), &later, retry ? 1 : 0,
               net_buf_copy(body));
}

static struct remote_world *scripted_world(const char *const *script)
{
    struct remote_world *w = xcalloc(1, sizeof(*w));
    struct err err = {0};
    w->script = script;
    assert_int_equal(loop_new(&w->loop, &err), 0);
    const struct http_server_options ho = {.loop = w->loop, .handle = scripted, .arg = w};
    w->http = http_server_new(&ho);
    uint16_t port = 0;
    assert_int_equal(http_server_listen_tcp(w->http, STR("127.0.0.1:0"), &port, &err), 0);
    w->target.server = arena_strf(&w->arena, "http://127.0.0.1:%u/prefix/", (unsigned)port);
    connect_client(w, &w->target);
    return w;
}

#define ITEM(name, revision)                                                       \
    "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" name \
    "\",\"namespace\":\"default\",\"resourceVersion\":\"" revision "\"}}"
#define EVENT(type, name, revision) "{\"type\":\"" type "\",\"object\":" ITEM(name, revision) "}\n"
#define STATUS(reason, code)                                                                      \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"no: " reason \
    "\",\"reason\":\"" reason "\",\"code\":" code "}"

#define CLAIM                                                                                   \
    "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/"                             \
    "v1\",\"metadata\":{\"name\":\"c\","                                                        \
    "\"namespace\":\"default\",\"resourceVersion\":\"7\"},\"spec\":{\"devices\":{\"config\":[{" \
    "\"opaque\":{\"driver\":\"d\",\"parameters\":{ \"a\": 1 }}}]}}}"

static struct str parameters_of(const struct api_object *o)
{
    const struct api_resource_claim *claim = o->value;
    assert_int_equal(claim->spec.devices.config.n, 1);
    return claim->spec.devices.config.p[0].device_configuration.opaque->parameters;
}

static void waits_when_the_server_asks_for_it(void **state)
{
    (void)state;
    static const char *const script[] = {"1429 " STATUS("TooManyRequests", "429"),
                                         "1503 -",
                                         "200 " ITEM("a", "7"),
                                         "503 " STATUS("ServiceUnavailable", "503"),
                                         "404 nothing here\nat all",
                                         NULL};
    struct remote_world *w = scripted_world(script);
    struct answer a = {.world = w};
    struct client_key key = config_key("a");
    client_get(w->client, &key, note_answer, &a);
    run(w);
    assert_int_equal(a.code, 0);
    assert_int_equal(a.object->revision, 7);
    assert_int_equal(w->requests, 3);
    client_get(w->client, &key, note_answer, &a); // it does not say when to come back
    run(w);
    assert_int_equal(a.code, -ERR_UNAVAILABLE);
    assert_string_equal(a.text, "no: ServiceUnavailable");
    client_get(w->client, &key, note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_NOT_FOUND);
    assert_string_equal(a.text, "the server answered 404: nothing here");
    assert_true(str_starts(sbuf_str(&w->targets),
                           STR("GET /prefix/api/v1/namespaces/default/configmaps/a\n")));
    typed_object_unref(a.object);
    world_free(w);
}

// JSON would come compacted, and go back as something else: see remote.c.
static void parameters_keep_their_spaces(void **state)
{
    (void)state;
    static const char *const script[] = {"4200 " CLAIM, "4200 " CLAIM,
                                         "4409 " STATUS("Conflict", "409"), NULL};
    struct remote_world *w = scripted_world(script);
    struct answer a = {.world = w};
    const struct client_key key = {api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim")),
                                   STR("default"), STR("c")};
    client_get(w->client, &key, note_answer, &a);
    run(w);
    assert_string_equal(a.text, "");
    assert_int_equal(a.object->revision, 7);
    assert_str(parameters_of(&a.object->object), "{ \"a\": 1 }");
    const struct typed_object *got = typed_object_ref(a.object);
    const struct client_write how = {.subresource = STR("status")};
    client_update(w->client, &got->object, &how, note_answer, &a);
    run(w);
    assert_string_equal(a.text, "");
    struct api_object sent;
    assert_int_equal(api_envelope_read(sbuf_str(&w->body), &w->arena, &sent, NULL), 0);
    assert_str(parameters_of(&sent), "{ \"a\": 1 }");
    client_update(w->client, &got->object, &how, note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_CONFLICT);
    assert_string_equal(a.text, "no: Conflict");
    typed_object_unref(got);
    typed_object_unref(a.object);
    world_free(w);
}

static void falls_back_to_pages_and_resumes(void **state)
{
    (void)state;
    static const char *const script[] = {
        "422 " STATUS("Invalid", "422"),
        "200 {\"kind\":\"ConfigMapList\",\"metadata\":{\"resourceVersion\":\"10\",\"continue\":"
        "\"x/y\"},\"items\":[" ITEM("a", "5") "]}",
        "200 "
        "{\"kind\":\"ConfigMapList\",\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[" ITEM(
            "b", "6") "]}",
        "2200 " EVENT("MODIFIED", "a", "11") "{\"type\":\"MOD", // and the connection breaks
        "2200 " EVENT("ADDED", "c", "12") "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
                                          "\"resourceVersion\":\"20\"}}}\n",
        "200 {\"type\":\"ERROR\",\"object\":" STATUS("Expired", "410") "}\n",
        NULL};
    struct remote_world *w = scripted_world(script);
    char ended[64];
    (void)snprintf(ended, sizeof(ended), "ended:%d ", -ERR_EXPIRED);
    struct log l = {.world = w, .until = ended, .stop_at_end = true};
    l.watch = client_watch(w->client, config_kind(), NULL, 0, note_event, &l);
    run(w);
    struct sbuf expected = {0};
    sbuf_addf(&expected, "added:a added:b synced modified:a added:c %s", ended);
    assert_str(sbuf_str(&l.text), expected.p);
    struct str t = sbuf_str(&w->targets);
    assert_true(str_contains(t, STR("sendInitialEvents=true&resourceVersionMatch=NotOlderThan")));
    assert_true(str_contains(t, STR("/configmaps?limit=500\n")));
    assert_true(str_contains(t, STR("limit=500&continue=x%2Fy\n")));
    assert_true(str_contains(t, STR("resourceVersion=10&")));
    assert_true(str_contains(t, STR("resourceVersion=11&")));
    assert_true(str_contains(t, STR("resourceVersion=20&")));
    sbuf_done(&expected);
    sbuf_done(&l.text);
    world_free(w);
}

static void note_raw(void *arg, int code, const struct err *err, struct str body)
{
    struct answer *got = arg;
    got->calls++;
    got->code = code;
    (void)snprintf(got->text, sizeof(got->text), "%.*s", STR_ARG(err ? str_z(err->msg) : body));
    loop_stop(got->world->loop);
}

// A token's file is read again when the server does not know the token any more.
static void a_new_token_is_found(void **state)
{
    (void)state;
    static const char *const script[] = {"401 " STATUS("Unauthorized", "401"), "200 yes",
                                         "401 " STATUS("Unauthorized", "401"),
                                         "401 " STATUS("Unauthorized", "401"), NULL};
    struct remote_world *w = scripted_world(script);
    char path[] = "/tmp/dray-token-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "abc\n", 4), 4);
    assert_int_equal(close(fd), 0);
    struct kubeconfig_target target = w->target;
    target.token_file = str_z(path);
    client_free(w->client);
    connect_client(w, &target);
    struct answer a = {.world = w};
    client_remote_raw(w->client, "GET", STR("/readyz"), STR(""), note_raw, &a);
    assert_int_equal(a.calls, 0);
    run(w);
    assert_int_equal(a.code, 0);
    assert_string_equal(a.text, "yes");
    client_remote_raw(w->client, "GET", STR("/readyz"), STR(""), note_raw, &a);
    run(w);
    assert_int_equal(a.calls, 2);
    assert_int_equal(a.code, -ERR_UNAUTHORIZED);
    assert_int_equal(w->requests, 4);
    assert_true(str_starts(sbuf_str(&w->tokens), STR("Bearer abc\n")));
    assert_int_equal(unlink(path), 0);
    world_free(w);
}

// A plugin that fails fails the calls that wait for it; one that answers is asked once.
static void a_plugin_is_asked(void **state)
{
    (void)state;
    static const char *const script[] = {"200 one", "200 two", NULL};
    static const struct str args[] = {
        STR_INIT("-c"),
        STR_INIT("echo '{\"kind\":\"ExecCredential\",\"apiVersion\":"
                 "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"fresh\"}}'")};
    struct remote_world *w = scripted_world(script);
    struct kubeconfig_target target = w->target;
    target.exec = (struct kubeconfig_exec){.command = STR("sh"),
                                           .api_version = STR("client.authentication.k8s.io/v1"),
                                           .args = args,
                                           .args_len = array_len(args)};
    client_free(w->client);
    connect_client(w, &target);
    struct answer a = {.world = w}, b = {.world = w};
    client_remote_raw(w->client, "GET", STR("/a"), STR(""), note_raw, &a);
    client_remote_raw(w->client, "GET", STR("/b"), STR(""), note_raw, &b);
    while (a.calls + b.calls < 2)
        run(w);
    assert_int_equal(a.code + b.code, 0);
    assert_str(sbuf_str(&w->tokens), "Bearer fresh\nBearer fresh\n");
    target.exec.command = STR("/nowhere/plugin");
    client_free(w->client);
    connect_client(w, &target);
    client_remote_raw(w->client, "GET", STR("/a"), STR(""), note_raw, &a);
    run(w);
    assert_int_equal(a.code, -ENOENT);
    world_free(w);
}

static void a_list_that_breaks_off_ends_the_watch(void **state)
{
    (void)state;
    static const char *const script[] = {"2200 " EVENT("ADDED", "a", "11"),
                                         "403 " STATUS("Forbidden", "403"),
                                         "3200 this is not JSON\n", NULL};
    const int codes[] = {-ERR_UNAVAILABLE, -ERR_FORBIDDEN, -ERR_BAD_REQUEST};
    struct remote_world *w = scripted_world(script);
    for (size_t i = 0; i < array_len(codes); i++) {
        char ended[64];
        (void)snprintf(ended, sizeof(ended), "ended:%d ", codes[i]);
        struct log l = {.world = w, .until = ended, .stop_at_end = true};
        l.watch = client_watch(w->client, config_kind(), NULL, 0, note_event, &l);
        run(w);
        assert_null(l.watch);
        sbuf_done(&l.text);
    }
    world_free(w);
}

static void nobody_there_is_said_clearly(void **state)
{
    (void)state;
    struct remote_world *w = scripted_world(NULL);
    client_free(take_ptr(w->client));
    struct kubeconfig_target target = {.server = STR("https://127.0.0.1:1")};
    connect_client(w, &target);
    struct answer a = {.world = w};
    struct client_key key = config_key("a");
    client_get(w->client, &key, note_answer, &a);
    run(w);
    assert_int_equal(a.code, -ERR_UNAVAILABLE);
    assert_non_null(strstr(a.text, "cannot reach https://127.0.0.1:1"));
    struct err err = {0};
    struct client *none = NULL;
    struct kubeconfig_target odd = {.server = STR("ftp://x")};
    const struct client_remote_options o = {.target = &odd};
    assert_int_equal(client_remote_new(w->loop, &o, &none, &err), -ERR_INVALID);
    world_free(w);
}

// --- Pieces --------------------------------------------------------------------------------------

static void statuses_become_codes(void **state)
{
    (void)state;
    static const struct {
        int http;
        const char *body;
        int code;
    } rows[] = {
        {200, "", 0},
        {201, "{}", 0},
        {409, STATUS("AlreadyExists", "409"), -ERR_ALREADY_EXISTS},
        {409, STATUS("Conflict", "409"), -ERR_CONFLICT},
        {409, "", -ERR_CONFLICT},
        {410, STATUS("Gone", "410"), -ERR_GONE},
        {410, STATUS("Expired", "410"), -ERR_EXPIRED},
        {422, STATUS("Invalid", "422"), -ERR_INVALID},
        {413, STATUS("RequestEntityTooLarge", "413"), -ERR_TOO_LARGE},
        {405, STATUS("MethodNotAllowed", "405"), -ERR_UNSUPPORTED},
        {415, "[", -ERR_UNSUPPORTED},
        {500, STATUS("ServerTimeout", "500"), -ERR_TIMEOUT},
        {500, STATUS("Something", "500"), -ERR_INTERNAL},
        {502, "<html>", -ERR_UNAVAILABLE},
        {504,
         "{\"kind\":\"Status\",\"reason\":\"Timeout\",\"details\":{\"causes\":[{\"reason\":"
         "\"ResourceVersionTooLarge\"}]}}",
         -ERR_EXPIRED},
        {504, STATUS("Timeout", "504"), -ERR_TIMEOUT},
        {302, "", -ERR_INTERNAL},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct err err = {0};
        assert_int_equal(client_remote_status(rows[i].http, str_z(rows[i].body), &err),
                         rows[i].code);
        assert_int_equal(err.code, -rows[i].code);
        assert_true(rows[i].code == 0 || err.msg[0]);
    }
}

static int note_line(void *arg, struct str text)
{
    struct sbuf *out = arg;
    sbuf_addf(out, "[%.*s]", STR_ARG(text));
    return str_eqz(text, "stop") ? -7 : 0;
}

static void lines_do_not_depend_on_how_they_come(void **state)
{
    (void)state;
    struct str text = STR("one\n\ntwo three\r\n\r\nfour\nfi");
    struct err err = {0};
    for (size_t step = 1; step <= text.n; step++) {
        struct lines l = {.max = 16};
        struct sbuf out = {0};
        for (size_t at = 0; at < text.n; at += step)
            assert_int_equal(
                lines_feed(&l, str_upto(str_from(text, at), step), note_line, &out, &err), 0);
        assert_str(sbuf_str(&out), "[one][two three][four]");
        assert_int_equal(lines_feed(&l, STR("ve\nstop\nno\n"), note_line, &out, &err), -7);
        assert_str(sbuf_str(&out), "[one][two three][four][five][stop]");
        lines_reset(&l);
        assert_int_equal(lines_feed(&l, STR("0123456789"), note_line, &out, &err), 0);
        assert_int_equal(lines_feed(&l, STR("0123456"), note_line, &out, &err), -ERR_TOO_LARGE);
        lines_done(&l);
        sbuf_done(&out);
    }
}

RUN_TESTS(TEST_CASE(calls_are_answered_as_the_registry_does),
          TEST_CASE(a_pod_is_bound_and_a_bad_one_refused), TEST_CASE(watches_list_then_follow),
          TEST_CASE(an_informer_keeps_a_cache), TEST_CASE(any_server_will_do),
          TEST_CASE(waits_when_the_server_asks_for_it), TEST_CASE(parameters_keep_their_spaces),
          TEST_CASE(falls_back_to_pages_and_resumes), TEST_CASE(a_new_token_is_found),
          TEST_CASE(a_plugin_is_asked), TEST_CASE(a_list_that_breaks_off_ends_the_watch),
          TEST_CASE(nobody_there_is_said_clearly), TEST_CASE(statuses_become_codes),
          TEST_CASE(lines_do_not_depend_on_how_they_come))
