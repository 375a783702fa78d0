// SPDX-License-Identifier: Apache-2.0
//
// Calls: encoded when they are made, sent, tried again where that is safe, decoded, answered.
#include "client/remote.h"

#include <assert.h>
#include <stdlib.h>

#include "api/partial.h"
#include "client/remote/remote_int.h"
#include "net/tls.h"

#include "base/banned.h"

#define CALL_TIMEOUT_MS 65000 // the server gives up after 60 s
#define TRIES_MAX       10    // when the server asks for patience, as client-go
#define RETRY_MAX_S     60
#define READ_TRIES_MAX  3 // of reads whose connection broke

// Objects are read and written back as protobuf where the server has it. In JSON it would give us
// opaque parameters compacted, and take them for changed when they come back: an allocation cannot
// be then.
#define PROTOBUF REMOTE_PROTOBUF

struct call {
    struct remote *remote;
    struct list_node node;
    struct sending sending;
    const struct api_kind *kind; // of the answer
    struct arena arena;
    struct sbuf target, body;
    client_done_fn done;
    client_raw_fn raw; // instead of done
    void (*data)(void *arg, struct str bytes);
    bool no_object; // the answer is a list, which is dropped
    void *arg;
};

void remote_release(struct remote *r)
{
    assert(r->busy > 0);
    if (--r->busy > 0 || !r->freed)
        return;
    remote_auth_done(r);
    arena_done(&r->arena);
    free(r);
}

static void remote_free(struct client *c);

// --- Paths ---------------------------------------------------------------------------------------

void client_escape(struct sbuf *out, struct str s)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '_' || c == '.' || c == '~') {
            sbuf_addc(out, (char)c);
        } else {
            sbuf_addc(out, '%');
            sbuf_addc(out, hex[c >> 4]);
            sbuf_addc(out, hex[c & 15]);
        }
    }
}

static void add_segment(struct sbuf *out, struct str s)
{
    sbuf_addc(out, '/');
    client_escape(out, s);
}

void remote_path(struct sbuf *out, const struct api_kind *kind, struct str namespace,
                 struct str name, struct str subresource)
{
    sbuf_addz(out, kind->group.n ? "/apis/" : "/api/");
    sbuf_add(out, kind->api_version);
    if (kind->namespaced && namespace.n) {
        sbuf_addz(out, "/namespaces");
        add_segment(out, namespace);
    }
    add_segment(out, kind->plural);
    if (name.n)
        add_segment(out, name);
    if (subresource.n)
        add_segment(out, subresource);
}

void remote_query(struct sbuf *out, bool *first, const char *name, struct str value)
{
    sbuf_addc(out, *first ? '?' : '&');
    *first = false;
    sbuf_addz(out, name);
    sbuf_addc(out, '=');
    client_escape(out, value);
}

// --- Versions ------------------------------------------------------------------------------------

const struct api_kind *remote_kind(const struct remote *r, const struct api_kind *kind)
{
    for (size_t i = 0; i < REMOTE_REDIRECTS && r->redirects[i].from; i++)
        if (r->redirects[i].from == kind)
            return r->redirects[i].to;
    return kind;
}

void client_remote_redirect(struct client *c, const struct api_kind *from,
                            const struct api_kind *to)
{
    struct remote *r = remote_of(c);
    size_t i = 0;
    assert(from->type == to->type);
    while (i < REMOTE_REDIRECTS && r->redirects[i].from && r->redirects[i].from != from)
        i++;
    assert(i < REMOTE_REDIRECTS);
    r->redirects[i].from = from;
    r->redirects[i].to = to;
}

struct str remote_accept(const struct api_kind *kind, bool list)
{
    if (!api_kind_is_partial(kind))
        return STR(PROTOBUF ",application/json");
    return list ? STR("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
                      "application/json")
                : STR("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
                      "application/json");
}

// --- Counting ------------------------------------------------------------------------------------

static void remote_count_request(struct remote *r, const char *method, int code)
{
    size_t i = 0;
    while (i + 1 < REMOTE_COUNTS && r->counts[i].n &&
           (r->counts[i].code != code || strcmp(r->counts[i].method, method) != 0))
        i++;
    r->counts[i].method = method; // a static text
    r->counts[i].code = code;
    r->counts[i].n++;
}

void client_remote_metrics(struct client *c, struct sbuf *out)
{
    const struct remote *r = remote_of(c);
    sbuf_addz(out, "# HELP rest_client_requests_total Number of HTTP requests, partitioned by "
                   "status code and method.\n# TYPE rest_client_requests_total counter\n");
    for (size_t i = 0; i < REMOTE_COUNTS && r->counts[i].n; i++) {
        char code[16] = "<error>";
        if (r->counts[i].code)
            (void)snprintf(code, sizeof(code), "%d", r->counts[i].code);
        sbuf_addf(out, "rest_client_requests_total{code=\"%s\",method=\"%s\"} %llu\n", code,
                  r->counts[i].method, (unsigned long long)r->counts[i].n);
    }
}

// --- Sending -------------------------------------------------------------------------------------

static void remote_on_retry(void *arg)
{
    remote_sending_start(arg);
}

static void start_later(struct sending *s, int64_t delay_ns)
{
    s->retry.fn = remote_on_retry;
    s->retry.arg = s;
    exec_timer_start(s->remote->client.exec, &s->retry, delay_ns);
}

// remote_may_retry reports whether the request is sent once more, and arranges for it.
static bool remote_may_retry(struct sending *s, const struct https_answer *a)
{
    s->tries++;
    if (a->code < 0) {
        bool read = strcmp(s->request.method, "GET") == 0 && !s->request.data;
        if (a->code != -ERR_UNAVAILABLE || a->unsent || !read || s->tries >= READ_TRIES_MAX)
            return false;
        start_later(s, 0);
        return true;
    }
    if (a->status == 401 && !s->reauthorized && remote_auth_refused(s->remote)) {
        s->reauthorized = true;
        start_later(s, 0);
        return true;
    }
    bool patience = a->status == 429 || a->status >= 500;
    if (!patience || a->retry_after_seconds <= 0 || s->tries >= TRIES_MAX)
        return false;
    int64_t wait_s = a->retry_after_seconds < RETRY_MAX_S ? a->retry_after_seconds : RETRY_MAX_S;
    start_later(s, wait_s * CLOCK_NS_PER_SEC);
    return true;
}

static void remote_on_answer(void *arg, const struct https_answer *a)
{
    struct sending *s = arg;
    s->call = NULL;
    remote_count_request(s->remote, s->request.method, a->code < 0 ? 0 : a->status);
    if (a->date_seconds)
        s->remote->date_seconds = a->date_seconds;
    if (!remote_may_retry(s, a))
        s->done(s->arg, a);
}

void remote_sending_start(struct sending *s)
{
    struct remote *r = s->remote;
    assert(!s->call && !r->freed);
    if (!remote_auth_ready(r, s))
        return;
    s->request.authorization = sbuf_str(&r->auth.authorization);
    s->request.done = remote_on_answer;
    s->request.arg = s;
    s->call = https_start(r->https, &s->request);
}

void remote_sending_stop(struct sending *s)
{
    list_remove(&s->waiting);
    exec_timer_stop(s->remote->client.exec, &s->retry);
    if (s->call)
        https_cancel(take_ptr(s->call));
}

void remote_sending_fail(struct sending *s, const struct err *err)
{
    struct https_answer answer = {.code = -err->code, .err = err, .unsent = true};
    s->done(s->arg, &answer);
}

// --- Answers -------------------------------------------------------------------------------------

static void remote_call_free(struct call *call)
{
    struct remote *r = call->remote;
    list_remove(&call->node);
    sbuf_done(&call->target);
    sbuf_done(&call->body);
    arena_done(&call->arena);
    free(call);
    remote_release(r);
}

static void remote_call_answer(struct call *call, int code, const struct err *err,
                               const struct typed_object *object)
{
    struct client_answer answer = {.code = code, .err = code ? err : NULL, .object = object};
    list_remove(&call->node); // client_free must not find it any more
    if (call->raw)
        call->raw(call->arg, code, answer.err, (struct str){0});
    else if (call->done)
        call->done(call->arg, &answer);
    remote_call_free(call);
}

static bool is_status(const yyjson_val *v)
{
    const yyjson_val *kind = json_get(v, STR("kind"));
    return kind && json_is_string(kind) && str_eqz(json_str(kind), "Status");
}

static int remote_decode_object(const struct call *call, struct str body, struct typed_object **ret,
                                struct err *err)
{
    static const struct json_options options = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                                .duplicates = JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc doc = {0};
    if (api_envelope_is(body))
        return remote_decode_envelope(call->kind, body, false, ret, err);
    int r = json_parse(body, &options, &doc, err);
    if (r < 0)
        return err_wrap(err, "invalid answer from the server");
    if (!json_is_object(doc.root) || is_status(doc.root))
        return 0;
    *ret = remote_decode(call->kind, &doc, doc.root, false, err);
    return *ret ? 0 : -err->code;
}

static void remote_on_data(void *arg, struct str bytes)
{
    struct sending *s = arg; // remote_on_answer has the same argument
    struct call *call = s->arg;
    call->data(call->arg, bytes);
}

static void remote_on_done(void *arg, const struct https_answer *a)
{
    struct call *call = arg;
    struct err err = {0};
    int r = a->code;
    if (r < 0) {
        remote_call_answer(call, r, a->err, NULL);
        return;
    }
    r = client_remote_status(a->status, a->body, &err);
    if (r == 0 && call->raw) {
        list_remove(&call->node);
        call->raw(call->arg, 0, NULL, a->body);
        remote_call_free(call);
        return;
    }
    struct typed_object *object = NULL;
    if (r == 0 && a->body.n && !call->no_object)
        r = remote_decode_object(call, a->body, &object, &err);
    remote_call_answer(call, r, &err, object);
    typed_object_unref(object);
}

// --- Calls ---------------------------------------------------------------------------------------

static struct call *remote_call_new(struct client *c, const char *method, client_done_fn done,
                                    void *arg)
{
    struct remote *r = remote_of(c);
    struct call *call = xcalloc(1, sizeof(*call));
    call->remote = r;
    call->done = done;
    call->arg = arg;
    call->sending.remote = r;
    call->sending.request.method = method;
    call->sending.request.accept = STR("application/json");
    call->sending.request.timeout_ms = CALL_TIMEOUT_MS;
    call->sending.done = remote_on_done;
    call->sending.arg = call;
    list_push_back(&r->calls, &call->node);
    r->busy++;
    return call;
}

static void remote_call_start(struct call *call)
{
    call->sending.request.target = sbuf_str(&call->target);
    call->sending.request.body = sbuf_str(&call->body);
    if (call->body.n && call->sending.request.content_type.n == 0)
        call->sending.request.content_type = STR("application/json");
    remote_sending_start(&call->sending);
}

struct failed {
    struct call *call;
    struct err err;
};

static void remote_on_failed(void *arg)
{
    struct failed *f = arg;
    if (f->call->remote->freed)
        (void)err_set(&f->err, ECANCELED, "the client is gone");
    remote_call_answer(f->call, -f->err.code, &f->err, NULL);
    free(f);
}

// call_fail answers a call that cannot be sent, later.
static void call_fail(struct call *call, const struct err *err)
{
    struct failed *f = xcalloc(1, sizeof(*f));
    f->call = call;
    f->err = *err;
    list_remove(&call->node);
    exec_post(call->remote->client.exec, remote_on_failed, f);
}

static void add_how(struct call *call, const struct client_write *how, bool force)
{
    bool first = true;
    if (how->dry_run)
        remote_query(&call->target, &first, "dryRun", STR("All"));
    if (how->field_manager.n)
        remote_query(&call->target, &first, "fieldManager", how->field_manager);
    if (force && how->force)
        remote_query(&call->target, &first, "force", STR("true"));
}

// write_typed adds an object with kind and apiVersion, whether it carries them or not.
static int write_typed(struct call *call, const struct api_object *object, bool protobuf,
                       struct err *err)
{
    const struct api_type *type = object->kind->type;
    struct api_object typed = {object->kind, arena_dup(&call->arena, object->value, type->size,
                                                       _Alignof(max_align_t))};
    api_set_type_meta(&typed);
    if (protobuf) {
        call->sending.request.content_type = STR(PROTOBUF);
        call->sending.request.accept = STR(PROTOBUF ",application/json");
        api_envelope_write(&typed, &call->body);
        return 0;
    }
    struct json_writer w = {.out = &call->body};
    return api_json_write(type, typed.value, &w, err);
}

static void call_object(struct call *call, const struct api_object *object,
                        const struct client_write *how, bool named)
{
    // A Binding and an Eviction are bodies of a pod's subresource: the request is about the pod. So
    // is a TokenRequest about a service account, but it is answered with itself.
    const struct api_object mapped = {remote_kind(call->remote, object->kind), object->value};
    object = &mapped;
    const struct api_kind *about = object->kind;
    if (str_eqz(how->subresource, "binding") || str_eqz(how->subresource, "eviction"))
        about = api_kind_find(STR("v1"), STR("Pod"));
    else if (str_eqz(how->subresource, "token"))
        about = api_kind_find(STR("v1"), STR("ServiceAccount"));
    call->kind = str_eqz(how->subresource, "token") ? object->kind : about;
    const struct api_object_meta *meta = api_object_meta(object);
    struct err err = {0};
    bool update = strcmp(call->sending.request.method, "PUT") == 0;
    if (write_typed(call, object, update, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    named = named || how->subresource.n;
    remote_path(&call->target, about, meta ? meta->namespace : (struct str){0},
                meta && named ? meta->name : (struct str){0}, how->subresource);
    add_how(call, how, false);
    remote_call_start(call);
}

static void remote_get(struct client *c, const struct client_key *key, client_done_fn done,
                       void *arg)
{
    struct call *call = remote_call_new(c, "GET", done, arg);
    call->kind = api_kind_keep(&call->arena, remote_kind(call->remote, key->kind));
    call->sending.request.accept = remote_accept(call->kind, false);
    remote_path(&call->target, call->kind, key->namespace, key->name, (struct str){0});
    remote_call_start(call);
}

static void remote_create(struct client *c, const struct api_object *object,
                          const struct client_write *how, client_done_fn done, void *arg)
{
    call_object(remote_call_new(c, "POST", done, arg), object, how, false);
}

static void remote_update(struct client *c, const struct api_object *object,
                          const struct client_write *how, client_done_fn done, void *arg)
{
    call_object(remote_call_new(c, "PUT", done, arg), object, how, true);
}

static struct str remote_patch_type(enum client_patch type)
{
    switch (type) {
    case CLIENT_PATCH_JSON:
        return STR("application/json-patch+json");
    case CLIENT_PATCH_STRATEGIC:
        return STR("application/strategic-merge-patch+json");
    case CLIENT_PATCH_APPLY:
        return STR("application/apply-patch+yaml");
    case CLIENT_PATCH_MERGE:
        break;
    }
    return STR("application/merge-patch+json");
}

static void remote_patch(struct client *c, const struct client_key *key, enum client_patch type,
                         struct str body, const struct client_write *how, client_done_fn done,
                         void *arg)
{
    struct call *call = remote_call_new(c, "PATCH", done, arg);
    call->kind = api_kind_keep(&call->arena, remote_kind(call->remote, key->kind));
    remote_path(&call->target, call->kind, key->namespace, key->name, how->subresource);
    add_how(call, how, type == CLIENT_PATCH_APPLY);
    sbuf_add(&call->body, body);
    call->sending.request.content_type = remote_patch_type(type);
    remote_call_start(call);
}

static void remote_remove(struct client *c, const struct client_key *key,
                          const struct api_delete_options *options, client_done_fn done, void *arg)
{
    struct call *call = remote_call_new(c, "DELETE", done, arg);
    call->kind = api_kind_keep(&call->arena, remote_kind(call->remote, key->kind));
    remote_path(&call->target, call->kind, key->namespace, key->name, (struct str){0});
    struct err err = {0};
    if (options) {
        struct api_delete_options typed = *options;
        typed.kind = STR("DeleteOptions");
        typed.api_version = STR("v1");
        struct json_writer w = {.out = &call->body};
        if (api_json_write(&api_delete_options_type, &typed, &w, &err) < 0) {
            call_fail(call, &err);
            return;
        }
    }
    remote_call_start(call);
}

static void remote_remove_all(struct client *c, const struct api_kind *kind,
                              const struct client_list_options *list, client_done_fn done,
                              void *arg)
{
    struct call *call = remote_call_new(c, "DELETE", done, arg);
    bool first = true;
    call->kind = api_kind_keep(&call->arena, remote_kind(call->remote, kind));
    call->no_object = true;
    remote_path(&call->target, call->kind, list->namespace, (struct str){0}, (struct str){0});
    if (list->label_selector.n)
        remote_query(&call->target, &first, "labelSelector", list->label_selector);
    if (list->field_selector.n)
        remote_query(&call->target, &first, "fieldSelector", list->field_selector);
    remote_call_start(call);
}

void client_remote_request(struct client *c, const struct client_raw_request *q)
{
    assert(c->ops->free == remote_free);
    struct call *call = remote_call_new(c, q->method, NULL, q->arg);
    struct https_request *to = &call->sending.request;
    call->raw = q->done;
    call->data = q->data;
    sbuf_add(&call->target, q->target);
    sbuf_add(&call->body, q->body);
    to->accept = q->accept.n ? q->accept : STR("application/json, */*"); // logs are not JSON
    if (q->content_type.n)
        to->content_type = q->content_type;
    if (q->data) {
        to->data = remote_on_data;
        to->timeout_ms = 0;
    }
    remote_call_start(call);
}

void client_remote_raw(struct client *c, const char *method, struct str target, struct str body,
                       client_raw_fn done, void *arg)
{
    const struct client_raw_request q = {
        .method = method, .target = target, .body = body, .done = done, .arg = arg};
    client_remote_request(c, &q);
}

int64_t client_remote_date(struct client *c)
{
    return remote_of(c)->date_seconds;
}

// --- Life ----------------------------------------------------------------------------------------

static void on_cancelled(void *arg)
{
    struct call *call = arg;
    struct err err;
    int code = err_set(&err, ECANCELED, "the client is gone");
    remote_call_answer(call, code, &err, NULL);
}

static void remote_free(struct client *c)
{
    struct remote *r = remote_of(c);
    assert(!r->freed);
    r->busy++;
    for (struct list_node *n; (n = list_pop_front(&r->calls));) {
        struct call *call = container_of(n, struct call, node);
        remote_sending_stop(&call->sending);
        exec_post(c->exec, on_cancelled, call);
    }
    r->freed = true;
    https_free(take_ptr(r->https));
    remote_release(r);
}

static const struct client_ops remote_ops = {
    .get = remote_get,
    .create = remote_create,
    .update = remote_update,
    .patch = remote_patch,
    .remove = remote_remove,
    .remove_all = remote_remove_all,
    .watch = remote_watch,
    .watch_stop = remote_watch_stop,
    .free = remote_free,
};

int client_remote_new(struct loop *loop, const struct client_remote_options *options,
                      struct client **ret, struct err *err)
{
    const struct kubeconfig_target *t = options->target;
    const struct https_options ho = {
        .url = t->server,
        .unix_socket = options->unix_socket,
        .ca_pem = t->ca_pem,
        .server_name = t->server_name,
        .proxy = t->proxy,
        .insecure = t->insecure,
        .connections = options->connections,
        .warning = options->warning,
        .warning_arg = options->warning_arg,
        .user_agent = options->user_agent.n ? options->user_agent : STR("dray"),
    };
    struct https *https = NULL;
    int code = https_new(loop, &ho, &https, err);
    if (code < 0)
        return code;
    struct remote *r = xcalloc(1, sizeof(*r));
    r->client = (struct client){&remote_ops, loop_exec(loop)};
    r->loop = loop;
    r->https = https;
    r->no_watch_list = options->no_watch_list;
    list_init(&r->calls);
    remote_auth_init(r, t);
    if (t->certificate_pem.n)
        https_set_identity(https, t->certificate_pem, t->key_pem);
    *ret = &r->client;
    return 0;
}
