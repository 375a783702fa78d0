// SPDX-License-Identifier: Apache-2.0
#include "dra_kit.h"

#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/mem.h"

#include "base/banned.h"

struct typed_object *kit_object(const char *json)
{
    struct json_doc doc = {0};
    struct err err = {0};
    struct typed_object *o = typed_object_new();
    if (json_parse(str_z(json), NULL, &doc, &err) < 0 ||
        api_decode(&doc, doc.root, &o->arena, NULL, &o->object, &err) < 0)
        fail_msg("%s: %s", err.msg, json);
    json_doc_done(&doc);
    o->meta = api_object_meta(&o->object);
    o->revision = 1;
    return o;
}

// --- The API -------------------------------------------------------------------------------------

struct answer {
    struct client *client;
    client_done_fn done;
    void *arg;
    int code;
    const struct typed_object *object;
};

static void on_answer(void *arg)
{
    struct answer *a = arg;
    struct err err = {0};
    if (a->code < 0)
        (void)err_set(&err, -a->code, "refused");
    if (a->code == -ERR_NOT_FOUND)
        (void)err_set(&err, -a->code, "not found");
    const struct client_answer answer = {a->code, a->code ? &err : NULL, a->object};
    a->done(a->arg, &answer);
    typed_object_unref(a->object);
    free(a);
}

static struct kit_api *api_of(struct client *c)
{
    return container_of(c, struct kit_api, client);
}

static void answer(struct client *c, int code, const struct typed_object *o, client_done_fn done,
                   void *arg)
{
    struct answer *a = xcalloc(1, sizeof(*a));
    int refuse = api_of(c)->refuse;
    *a = (struct answer){c, done, arg, refuse ? refuse : code, refuse ? NULL : typed_object_ref(o)};
    exec_post(c->exec, on_answer, a);
}

static void api_get(struct client *c, const struct client_key *key, client_done_fn done, void *arg)
{
    vec_foreach(&api_of(c)->objects, it) {
        const struct typed_object *o = *it;
        if (o->object.kind == key->kind && str_eq(o->meta->name, key->name) &&
            str_eq(o->meta->namespace, key->namespace)) {
            answer(c, 0, o, done, arg);
            return;
        }
    }
    answer(c, -ERR_NOT_FOUND, NULL, done, arg);
}

static void api_create(struct client *c, const struct api_object *object,
                       const struct client_write *how, client_done_fn done, void *arg)
{
    (void)how;
    struct sbuf *log = &api_of(c)->log;
    sbuf_addf(log, "create %.*s", STR_ARG(object->kind->kind));
    if (str_eqz(object->kind->kind, "Event")) {
        const struct api_event *e = object->value;
        sbuf_addf(log, " %.*s %.*s/%.*s: %.*s", STR_ARG(e->reason),
                  STR_ARG(e->involved_object.kind), STR_ARG(e->involved_object.name),
                  STR_ARG(e->message));
    }
    sbuf_addc(log, '\n');
    answer(c, 0, NULL, done, arg);
}

static void api_patch(struct client *c, const struct client_key *key, enum client_patch type,
                      struct str body, const struct client_write *how, client_done_fn done,
                      void *arg)
{
    (void)type;
    sbuf_addf(&api_of(c)->log, "patch %.*s/%.*s %.*s %.*s\n", STR_ARG(key->kind->kind),
              STR_ARG(key->name), STR_ARG(how->subresource), STR_ARG(body));
    answer(c, 0, NULL, done, arg);
}

static void api_remove_all(struct client *c, const struct api_kind *kind,
                           const struct client_list_options *list, client_done_fn done, void *arg)
{
    sbuf_addf(&api_of(c)->log, "delete-all %.*s %.*s\n", STR_ARG(kind->kind),
              STR_ARG(list->field_selector));
    answer(c, 0, NULL, done, arg);
}

void kit_api_init(struct kit_api *a, struct exec *exec)
{
    static const struct client_ops ops = {
        .get = api_get,
        .create = api_create,
        .patch = api_patch,
        .remove_all = api_remove_all,
    };
    *a = (struct kit_api){.client = {&ops, exec}};
}

void kit_api_done(struct kit_api *a)
{
    vec_foreach(&a->objects, o)
        typed_object_unref(*o);
    vec_done(&a->objects);
    sbuf_done(&a->log);
}

const struct typed_object *kit_api_add(struct kit_api *a, const char *json)
{
    struct typed_object *o = kit_object(json);
    kit_api_remove(a, o->object.kind->kind.p, o->meta->name.p);
    vec_push(&a->objects, o);
    return o;
}

void kit_api_remove(struct kit_api *a, const char *kind, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < a->objects.n; i++) {
        struct typed_object *o = a->objects.p[i];
        if (str_eqz(o->object.kind->kind, kind) && str_eqz(o->meta->name, name))
            typed_object_unref(o);
        else
            a->objects.p[kept++] = o;
    }
    a->objects.n = kept;
}

void kit_claim(struct kit_api *a, const char *name, const char *driver, const char *pods)
{
    cleanup_sbuf struct sbuf json = {0};
    struct str rest = str_z(pods), uid;
    sbuf_addf(&json,
              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\",\"metadata\":{"
              "\"name\":\"%s\",\"namespace\":\"default\",\"uid\":\"uid-%s\"},\"spec\":{},"
              "\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"gpu\","
              "\"driver\":\"%s\",\"pool\":\"pool\",\"device\":\"dev-%s\"}]}},\"reservedFor\":[",
              name, name, driver, name);
    for (const char *comma = ""; rest.n > 0; comma = ",") {
        (void)str_cut(rest, ' ', &uid, &rest);
        sbuf_addf(&json, "%s{\"resource\":\"pods\",\"name\":\"p\",\"uid\":\"%.*s\"}", comma,
                  STR_ARG(uid));
    }
    sbuf_addz(&json, "]}}");
    (void)kit_api_add(a, json.p);
}

struct typed_object *kit_pod(const char *name, const char *uid, const char *claims)
{
    cleanup_sbuf struct sbuf json = {0}, entries = {0}, uses = {0};
    struct str rest = str_z(claims), claim;
    for (const char *comma = ""; rest.n > 0; comma = ",") {
        (void)str_cut(rest, ' ', &claim, &rest);
        sbuf_addf(&entries, "%s{\"name\":\"%.*s\",\"resourceClaimName\":\"%.*s\"}", comma,
                  STR_ARG(claim), STR_ARG(claim));
        sbuf_addf(&uses, "%s{\"name\":\"%.*s\"}", comma, STR_ARG(claim));
    }
    sbuf_addf(
        &json,
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
        "\"namespace\":\"default\",\"uid\":\"%s\"},\"spec\":{\"resourceClaims\":[%.*s],"
        "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"claims\":[%.*s]}}]}}",
        name, uid, STR_ARG(sbuf_str(&entries)), STR_ARG(sbuf_str(&uses)));
    return kit_object(json.p);
}

// --- The driver ----------------------------------------------------------------------------------

void kit_driver_done(struct kit_driver *d)
{
    vec_foreach(&d->prepared, p)
        free(p->uid);
    vec_done(&d->prepared);
    sbuf_done(&d->log);
    sbuf_done(&d->registration_error);
}

bool kit_driver_has(const struct kit_driver *d, const char *uid)
{
    vec_foreach(&d->prepared, p)
        if (strcmp(p->uid, uid) == 0)
            return true;
    return false;
}

static void take(struct kit_driver *d, struct str uid)
{
    char *copy = xstrndup(uid.p, uid.n);
    if (kit_driver_has(d, copy)) {
        free(copy);
        return;
    }
    vec_push(&d->prepared, ((struct kit_prepared){copy}));
}

static void let_go(struct kit_driver *d, struct str uid)
{
    for (size_t i = 0; i < d->prepared.n; i++) {
        if (!str_eqz(uid, d->prepared.p[i].uid))
            continue;
        free(d->prepared.p[i].uid);
        d->prepared.p[i] = d->prepared.p[--d->prepared.n];
        return;
    }
}

static void answer_prepare(struct kit_driver *d, const struct plugin_claims *q, struct arena *a,
                           struct proto_writer *w)
{
    struct plugin_prepare_response r = {0};
    sbuf_addz(&d->log, "prepare");
    d->prepares++;
    for (size_t i = 0; i < q->claims.n; i++) {
        const struct plugin_claim *c = &q->claims.p[i];
        struct plugin_prepared one = {.uid = c->uid};
        struct plugin_device device = {.pool_name = STR("pool"),
                                       .device_name = arena_strf(a, "dev-%.*s", STR_ARG(c->name))};
        sbuf_addf(&d->log, " %.*s", STR_ARG(c->uid));
        if (d->skip_first && i == 0)
            continue;
        vec_push_arena(a, &device.request_names, d->request ? str_z(d->request) : STR("gpu"));
        vec_push_arena(a, &device.cdi_device_ids,
                       arena_strf(a, "%s/gpu=%.*s", d->name, STR_ARG(c->name)));
        vec_push_arena(a, &one.claim.devices, device);
        if (d->claim_error)
            one.claim.error = str_z(d->claim_error);
        else
            take(d, c->uid);
        vec_push_arena(a, &r.claims, one);
        if (d->twice)
            vec_push_arena(a, &r.claims, one);
    }
    if (d->add_unknown)
        vec_push_arena(a, &r.claims, ((struct plugin_prepared){.uid = STR("stranger")}));
    sbuf_addc(&d->log, ';');
    plugin_encode(&plugin_prepare_response_message, &r, w);
}

static void answer_unprepare(struct kit_driver *d, const struct plugin_claims *q, struct arena *a,
                             struct proto_writer *w)
{
    struct plugin_unprepare_response r = {0};
    sbuf_addz(&d->log, "unprepare");
    d->unprepares++;
    for (size_t i = 0; i < q->claims.n; i++) {
        struct plugin_unprepared one = {.uid = q->claims.p[i].uid};
        sbuf_addf(&d->log, " %.*s", STR_ARG(one.uid));
        if (d->skip_first && i == 0)
            continue;
        if (d->claim_error)
            one.claim.error = str_z(d->claim_error);
        else
            let_go(d, one.uid);
        vec_push_arena(a, &r.claims, one);
    }
    if (d->add_unknown)
        vec_push_arena(a, &r.claims, ((struct plugin_unprepared){.uid = STR("stranger")}));
    sbuf_addc(&d->log, ';');
    plugin_encode(&plugin_unprepare_response_message, &r, w);
}

static void answer_info(struct kit_driver *d, struct arena *a, struct proto_writer *w)
{
    struct plugin_info info = {.type = str_z(d->type ? d->type : PLUGIN_TYPE_DRA),
                               .name = str_z(d->name),
                               .endpoint = str_z(d->endpoint)};
    for (size_t i = 0; d->versions[i]; i++)
        vec_push_arena(a, &info.supported_versions, str_z(d->versions[i]));
    plugin_encode(&plugin_info_message, &info, w);
}

static void take_notice(struct kit_driver *d, struct str request, struct arena *a)
{
    struct plugin_registration_status s = {0};
    assert_int_equal(plugin_decode(&plugin_registration_status_message, request, &s, a, NULL), 0);
    if (s.plugin_registered)
        d->registered++;
    else
        d->refused++;
    sbuf_clear(&d->registration_error);
    sbuf_add(&d->registration_error, s.error);
}

// The version in the method must be one that the driver offers.
static bool offers(const struct kit_driver *d, struct str method)
{
    bool beta = str_starts(method, STR(PLUGIN_DRA_V1BETA1));
    for (size_t i = 0; d->versions[i]; i++)
        if (strcmp(d->versions[i], beta ? PLUGIN_ID_DRA_V1BETA1 : PLUGIN_ID_DRA_V1) == 0)
            return true;
    return false;
}

enum grpc_status kit_driver_answer(struct kit_driver *d, struct str method, struct str request,
                                   struct sbuf *out)
{
    cleanup_arena struct arena a = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    struct plugin_claims q = {0};
    if (d->answer)
        return d->answer(d, method, request, out);
    if (str_eqz(method, PLUGIN_GET_INFO)) {
        answer_info(d, &a, &w);
    } else if (str_eqz(method, PLUGIN_NOTIFY)) {
        take_notice(d, request, &a);
    } else if (!offers(d, method)) {
        return GRPC_UNIMPLEMENTED;
    } else if (d->rpc_error) {
        sbuf_addz(out, d->rpc_error);
        return GRPC_FAILED_PRECONDITION;
    } else {
        assert_int_equal(plugin_decode(&plugin_claims_message, request, &q, &a, NULL), 0);
        if (str_ends(method, STR("/NodePrepareResources")))
            answer_prepare(d, &q, &a, &w);
        else
            answer_unprepare(d, &q, &a, &w);
    }
    sbuf_add(out, proto_written(&w));
    return GRPC_OK;
}

void kit_health(struct sbuf *out, const char *text)
{
    cleanup_arena struct arena a = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    struct plugin_health_response r = {0};
    struct str rest = str_z(text), one;
    while (rest.n > 0) {
        struct plugin_device_health h = {0};
        struct str name, state, seconds, message;
        (void)str_cut(rest, ' ', &one, &rest);
        (void)str_cut(one, '=', &name, &state);
        (void)str_cut(state, ':', &state, &message);
        (void)str_cut(name, '@', &name, &seconds);
        (void)str_cut(name, '/', &h.device.pool_name, &h.device.device_name);
        if (seconds.n > 0)
            assert_int_equal(str_to_i64(seconds, &h.health_check_timeout_sec), 0);
        h.health = state.p[0] == 'h'   ? PLUGIN_HEALTHY
                   : state.p[0] == 'u' ? PLUGIN_UNHEALTHY
                                       : PLUGIN_HEALTH_UNKNOWN;
        h.message = message;
        vec_push_arena(&a, &r.devices, h);
    }
    plugin_encode(&plugin_health_response_message, &r, &w);
    sbuf_add(out, proto_written(&w));
}

// --- Served by gRPC ------------------------------------------------------------------------------

static void on_unary(void *arg, struct grpc_call *call)
{
    struct kit_served *s = arg;
    cleanup_sbuf struct sbuf out = {0};
    if (s->driver->hang && str_starts(call->method, STR("/k8s.io")))
        return; // for ever
    enum grpc_status status = kit_driver_answer(s->driver, call->method, call->request, &out);
    if (status == GRPC_OK)
        grpc_reply(call, sbuf_str(&out));
    else
        grpc_finish(call, status, sbuf_str(&out));
}

static void on_stream_closed(void *arg)
{
    struct kit_served *s = arg;
    s->stream = NULL;
}

static void on_stream(void *arg, struct grpc_call *call)
{
    struct kit_served *s = arg;
    call->closed = on_stream_closed;
    call->arg = s;
    s->stream = call;
}

static void handle_dra(struct kit_served *s, const char *service)
{
    static const char *const methods[] = {"NodePrepareResources", "NodeUnprepareResources"};
    for (size_t i = 0; i < array_len(methods); i++) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "%s%s", service, methods[i]);
        grpc_server_handle(s->dra, sbuf_str(&path), on_unary, s);
    }
}

void kit_serve(struct kit_served *s, struct loop *loop, struct kit_driver *d, const char *folder,
               const char *instance)
{
    struct err err = {0};
    *s = (struct kit_served){.driver = d};
    (void)snprintf(s->endpoint, sizeof(s->endpoint), "%s/plugins/%s.sock", folder, instance);
    (void)snprintf(s->socket, sizeof(s->socket), "%s/registry/%s-reg.sock", folder, instance);
    d->endpoint = s->endpoint;
    s->dra = grpc_server_new(loop, NULL);
    s->registration = grpc_server_new(loop, NULL);
    for (size_t i = 0; d->versions[i]; i++) {
        if (strcmp(d->versions[i], PLUGIN_ID_DRA_V1) == 0)
            handle_dra(s, PLUGIN_DRA_V1);
        else if (strcmp(d->versions[i], PLUGIN_ID_DRA_V1BETA1) == 0)
            handle_dra(s, PLUGIN_DRA_V1BETA1);
        else if (strcmp(d->versions[i], PLUGIN_ID_HEALTH_V1) == 0)
            grpc_server_handle(s->dra, STR(PLUGIN_HEALTH_V1), on_stream, s);
        else
            grpc_server_handle(s->dra, STR(PLUGIN_HEALTH_ALPHA), on_stream, s);
    }
    grpc_server_handle(s->registration, STR(PLUGIN_GET_INFO), on_unary, s);
    grpc_server_handle(s->registration, STR(PLUGIN_NOTIFY), on_unary, s);
    if (grpc_server_listen(s->dra, s->endpoint, &err) < 0 ||
        grpc_server_listen(s->registration, s->socket, &err) < 0)
        fail_msg("%s", err.msg);
}

void kit_serve_stop(struct kit_served *s)
{
    grpc_server_free(take_ptr(s->dra));
    grpc_server_free(take_ptr(s->registration));
}

// --- In memory -----------------------------------------------------------------------------------

struct transport_link {
    struct list_node node;
    struct kit_transport *owner;
    char *path;
    void (*state)(void *arg, bool connected);
    void *arg;
    bool connected;
    struct list calls;
    struct exec_timer connect;
};

struct mem_call {
    struct list_node node;
    struct transport_link *link;
    struct str method, message;
    struct arena arena;
    void (*received)(void *arg, struct str message);
    void (*done)(void *arg, const struct grpc_result *result);
    void *arg;
    struct exec_timer soon, deadline;
};

static struct kit_peer *peer_at(const struct kit_transport *t, const char *path)
{
    vec_foreach(&t->peers, p)
        if (strcmp(p->path, path) == 0)
            return p;
    return NULL;
}

static void mem_end(struct mem_call *c, enum grpc_status status, struct str message,
                    struct str response)
{
    struct exec *e = c->link->owner->exec;
    exec_timer_stop(e, &c->soon);
    exec_timer_stop(e, &c->deadline);
    list_remove(&c->node);
    const struct grpc_result r = {.status = status, .message = message, .response = response};
    c->done(c->arg, &r);
    arena_done(&c->arena);
    free(c);
}

static void on_mem_deadline(void *arg)
{
    mem_end(arg, GRPC_DEADLINE_EXCEEDED, STR("the deadline has passed"), STR(""));
}

static void on_mem_soon(void *arg)
{
    struct mem_call *c = arg;
    const struct kit_peer *p = peer_at(c->link->owner, c->link->path);
    cleanup_sbuf struct sbuf out = {0};
    if (!c->link->connected || !p) {
        mem_end(c, GRPC_UNAVAILABLE, STR("connection refused"), STR(""));
    } else if (!c->received && !p->driver->hang) {
        enum grpc_status s = kit_driver_answer(p->driver, c->method, c->message, &out);
        mem_end(c, s, s == GRPC_OK ? STR("") : sbuf_str(&out),
                s == GRPC_OK ? sbuf_str(&out) : STR(""));
    }
}

static void mem_call(struct transport_link *l, const struct grpc_request *q)
{
    struct mem_call *c = xcalloc(1, sizeof(*c));
    c->link = l;
    c->method = arena_str(&c->arena, q->method);
    c->message = arena_str(&c->arena, q->message);
    c->received = q->received;
    c->done = q->done;
    c->arg = q->arg;
    c->soon = (struct exec_timer){.fn = on_mem_soon, .arg = c};
    c->deadline = (struct exec_timer){.fn = on_mem_deadline, .arg = c};
    list_push_back(&l->calls, &c->node);
    exec_timer_start(l->owner->exec, &c->soon, 1);
    if (q->timeout_ns > 0)
        exec_timer_start(l->owner->exec, &c->deadline, q->timeout_ns);
}

static void on_mem_connect(void *arg)
{
    struct transport_link *l = arg;
    const struct kit_peer *p = peer_at(l->owner, l->path);
    bool up = p && p->up;
    if (up == l->connected)
        return;
    l->connected = up;
    l->state(l->arg, up);
}

static struct transport_link *mem_open(struct transport *t, const char *path,
                                       void (*state)(void *arg, bool connected), void *arg)
{
    struct kit_transport *k = container_of(t, struct kit_transport, transport);
    struct transport_link *l = xcalloc(1, sizeof(*l));
    l->owner = k;
    l->path = xstrndup(path, strlen(path));
    l->state = state;
    l->arg = arg;
    list_init(&l->calls);
    list_push_back(&k->links, &l->node);
    l->connect = (struct exec_timer){.fn = on_mem_connect, .arg = l};
    exec_timer_start(k->exec, &l->connect, 1);
    return l;
}

static void end_calls(struct transport_link *l, enum grpc_status status)
{
    while (!list_empty(&l->calls))
        mem_end(list_entry(l->calls.head.next, struct mem_call, node), status, STR("gone"),
                STR(""));
}

static void mem_close(struct transport_link *l)
{
    if (!l)
        return;
    end_calls(l, GRPC_CANCELLED);
    exec_timer_stop(l->owner->exec, &l->connect);
    list_remove(&l->node);
    free(l->path);
    free(l);
}

void kit_transport_init(struct kit_transport *t, struct exec *exec)
{
    *t = (struct kit_transport){
        .transport = {.open = mem_open, .call = mem_call, .close = mem_close}, .exec = exec};
    list_init(&t->links);
}

void kit_transport_done(struct kit_transport *t)
{
    assert_true(list_empty(&t->links));
    vec_foreach(&t->peers, p)
        free(p->path);
    vec_done(&t->peers);
}

void kit_transport_add(struct kit_transport *t, const char *path, struct kit_driver *d)
{
    vec_push(&t->peers, ((struct kit_peer){xstrndup(path, strlen(path)), d, true}));
}

void kit_transport_up(struct kit_transport *t, const char *path, bool up)
{
    struct kit_peer *p = peer_at(t, path);
    assert_non_null(p);
    p->up = up;
    list_foreach(&t->links, n) {
        struct transport_link *l = list_entry(n, struct transport_link, node);
        if (strcmp(l->path, path) != 0)
            continue;
        if (!up)
            end_calls(l, GRPC_UNAVAILABLE);
        on_mem_connect(l);
    }
}

size_t kit_transport_health(struct kit_transport *t, const char *path, const char *text)
{
    cleanup_sbuf struct sbuf message = {0};
    kit_health(&message, text);
    return kit_transport_send(t, path, sbuf_str(&message));
}

size_t kit_transport_send(struct kit_transport *t, const char *path, struct str message)
{
    size_t told = 0;
    list_foreach(&t->links, n) {
        struct transport_link *l = list_entry(n, struct transport_link, node);
        if (strcmp(l->path, path) != 0)
            continue;
        list_foreach(&l->calls, m) {
            struct mem_call *c = list_entry(m, struct mem_call, node);
            if (!c->received)
                continue;
            c->received(c->arg, message);
            told++;
        }
    }
    return told;
}

size_t kit_transport_end(struct kit_transport *t, const char *path, enum grpc_status status)
{
    size_t ended = 0;
    list_foreach(&t->links, n) {
        struct transport_link *l = list_entry(n, struct transport_link, node);
        if (strcmp(l->path, path) != 0)
            continue;
        list_foreach(&l->calls, m) {
            struct mem_call *c = list_entry(m, struct mem_call, node);
            if (c->received) {
                mem_end(c, status, STR("ended"), STR(""));
                ended++;
            }
        }
    }
    return ended;
}

void kit_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    (void)unlink(path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    (void)close(fd);
}

void kit_done(void *arg, int code, const struct err *err)
{
    struct kit_result *r = arg;
    r->done++;
    r->code = code;
    r->err = err ? *err : (struct err){0};
}
