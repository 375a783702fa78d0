// SPDX-License-Identifier: Apache-2.0
//
// The driver as kubelet's plugin: registration, and NodePrepareResources and NodeUnprepareResources
// in both versions. A call fetches the claims, hands them to the driver's thread, and answers; one
// that kubelet gave up is finished nevertheless, so that its next try finds the work done.
#include <openssl/evp.h>
#include <stdlib.h>

#include <sys/un.h>

#include "codec/base64.h"
#include "driver/sdk/sdk.h"
#include "os/file.h"

#include "base/banned.h"

enum { CLAIMS_MAX = 1024 }; // of one call

struct sdk_claim_call {
    struct sdk_call *call;
    struct plugin_claim asked;
    struct typed_object *object; // NULL for unprepare and failures
    struct journal_entry entry;  // answer of prepare
    struct err err;
    int code;
};

struct sdk_call {
    struct sdk_pending pending;
    struct grpc_call *grpc; // NULL: kubelet does not wait any more
    struct arena arena;
    struct sdk_claim_call *claims;
    size_t claims_len;
    size_t waiting; // for the API server
    bool unprepare;
    bool beta; // v1beta1: no share ids
};

// --- Answers -------------------------------------------------------------------------------------

static struct str error_text(const struct sdk_claim_call *c, struct arena *a)
{
    if (c->code == 0)
        return STR("");
    return arena_strf(a, "%s%s%s", c->err.path, c->err.path[0] ? ": " : "",
                      c->err.msg[0] ? c->err.msg : "failed");
}

static void plugin_add_devices(const struct sdk_call *call, const struct sdk_claim_call *c,
                               struct plugin_prepared *to, struct arena *a)
{
    const struct dray_claim *claim = &c->entry.claim;
    for (size_t i = 0; c->code == 0 && i < claim->devices_len; i++) {
        const struct dray_allocated *from = &claim->devices[i];
        struct plugin_device d = {.pool_name = str_z(from->pool),
                                  .device_name = str_z(from->device),
                                  .share_id = str_z(from->share_id),
                                  .has_share_id = from->share_id && !call->beta};
        vec_push_arena(a, &d.request_names, str_z(from->request));
        for (size_t k = 0; c->entry.ids && k < c->entry.ids[i].n; k++)
            vec_push_arena(a, &d.cdi_device_ids, c->entry.ids[i].p[k]);
        vec_push_arena(a, &to->claim.devices, d);
    }
}

static void reply_prepare(struct sdk_call *call)
{
    struct plugin_prepare_response r = {0};
    for (size_t i = 0; i < call->claims_len; i++) {
        const struct sdk_claim_call *c = &call->claims[i];
        struct plugin_prepared p = {.uid = c->asked.uid};
        p.claim.error = error_text(c, &call->arena);
        plugin_add_devices(call, c, &p, &call->arena);
        vec_push_arena(&call->arena, &r.claims, p);
    }
    struct proto_writer w = {0};
    plugin_encode(&plugin_prepare_response_message, &r, &w);
    grpc_reply(call->grpc, proto_written(&w));
    proto_writer_done(&w);
}

static void reply_unprepare(struct sdk_call *call)
{
    struct plugin_unprepare_response r = {0};
    for (size_t i = 0; i < call->claims_len; i++) {
        struct plugin_unprepared p = {.uid = call->claims[i].asked.uid};
        p.claim.error = error_text(&call->claims[i], &call->arena);
        vec_push_arena(&call->arena, &r.claims, p);
    }
    struct proto_writer w = {0};
    plugin_encode(&plugin_unprepare_response_message, &r, &w);
    grpc_reply(call->grpc, proto_written(&w));
    proto_writer_done(&w);
}

static void call_end(struct sdk_call *call)
{
    list_remove(&call->pending.node);
    for (size_t i = 0; i < call->claims_len; i++)
        if (call->claims[i].object)
            typed_object_unref(call->claims[i].object);
    arena_done(&call->arena);
    free(call);
}

static void kubelet_left(void *arg)
{
    ((struct sdk_call *)arg)->grpc = NULL;
}

// The status of a claim's devices is written behind the answer: the pod runs without it.
struct status_write {
    struct sdk_pending pending;
};

static void status_answered(void *arg, const struct client_answer *a)
{
    struct status_write *write = arg;
    if (a->code != 0 && a->err && write->pending.driver)
        sdk_trouble(write->pending.driver, a->err);
    list_remove(&write->pending.node);
    free(write);
}

static void plugin_write_status(struct dray_driver *d, const struct journal_entry *e)
{
    struct status_write *write = xcalloc(1, sizeof(*write));
    write->pending.driver = d;
    list_push_back(&d->pendings, &write->pending.node);
    sdk_write_status(d, &e->claim, e->status, status_answered, write);
}

static void plugin_answer_call(void *arg)
{
    struct sdk_call *call = arg;
    struct dray_driver *d = call->pending.driver;
    for (size_t i = 0; d && !call->unprepare && i < call->claims_len; i++) {
        const struct sdk_claim_call *c = &call->claims[i];
        if (c->code == 0 && c->entry.status.n)
            plugin_write_status(d, &c->entry);
    }
    if (call->grpc && call->unprepare)
        reply_unprepare(call);
    else if (call->grpc)
        reply_prepare(call);
    call_end(call);
}

// --- On the driver's thread ----------------------------------------------------------------------

static const char *plugin_copy_text(struct arena *a, struct str s)
{
    return arena_str(a, s).p;
}

static void run_prepare(struct sdk_call *call, struct sdk_claim_call *c)
{
    struct dray_driver *d = call->pending.driver;
    struct dray_claim claim;
    if (c->code != 0)
        return;
    c->code = sdk_claim(c->object->object.value, str_z(d->o.name), &call->arena, &claim, &c->err);
    if (c->code == 0)
        c->code = core_prepare(d->core, &claim, &call->arena, &c->entry, &c->err);
}

static void run_unprepare(struct sdk_call *call, struct sdk_claim_call *c)
{
    const struct dray_claim claim = {.namespace_ =
                                         plugin_copy_text(&call->arena, c->asked.namespace),
                                     .name = plugin_copy_text(&call->arena, c->asked.name),
                                     .uid = plugin_copy_text(&call->arena, c->asked.uid)};
    c->code = core_unprepare(call->pending.driver->core, &claim, &c->err);
}

static void plugin_run_claims(void *arg)
{
    struct sdk_call *call = arg;
    for (size_t i = 0; i < call->claims_len; i++) {
        if (call->unprepare)
            run_unprepare(call, &call->claims[i]);
        else
            run_prepare(call, &call->claims[i]);
    }
}

// --- Claims of the API server --------------------------------------------------------------------

static void plugin_claim_answered(void *arg, const struct client_answer *a)
{
    struct sdk_claim_call *c = arg;
    struct sdk_call *call = c->call;
    c->code = a->code;
    if (a->code != 0) {
        if (a->err)
            c->err = *a->err;
        (void)err_wrap(&c->err, "cannot get the claim");
    } else if (!str_eq(a->object->meta->uid, c->asked.uid)) {
        c->code = err_set(&c->err, ERR_CONFLICT,
                          "claim %.*s/%.*s was replaced: it has UID %.*s, not %.*s",
                          STR_ARG(c->asked.namespace), STR_ARG(c->asked.name),
                          STR_ARG(a->object->meta->uid), STR_ARG(c->asked.uid));
    } else {
        c->object = typed_object_ref(a->object);
    }
    if (--call->waiting > 0)
        return;
    if (call->pending.driver)
        sdk_job(call->pending.driver, plugin_run_claims, plugin_answer_call, call);
    else
        call_end(call);
}

static void plugin_fetch_claims(struct sdk_call *call)
{
    const struct api_kind *kind = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"));
    call->waiting = call->claims_len;
    for (size_t i = 0; i < call->claims_len; i++) {
        struct sdk_claim_call *c = &call->claims[i];
        const struct client_key key = {kind, c->asked.namespace, c->asked.name};
        client_get(call->pending.driver->runtime->client, &key, plugin_claim_answered, c);
    }
}

// --- Calls of kubelet ----------------------------------------------------------------------------

// The parts of a claim's key become names of files, and folders that are removed with all they
// hold.
static bool plugin_is_path_part(struct str s)
{
    return s.n > 0 && s.p[0] != '.' && str_find_char(s, '/') < 0 && str_find_char(s, '\0') < 0;
}

static int check_asked(const struct plugin_claims *asked, struct err *err)
{
    if (asked->claims.n > CLAIMS_MAX)
        return err_set(err, ERR_TOO_MANY, "more than %d claims in one call", CLAIMS_MAX);
    vec_foreach(&asked->claims, c)
        if (!plugin_is_path_part(c->namespace) || !plugin_is_path_part(c->name) ||
            !plugin_is_path_part(c->uid))
            return err_set(err, ERR_INVALID,
                           "a claim's namespace, name and UID have something in them, no slash and "
                           "no NUL, and do not begin with a dot");
    return 0;
}

static void plugin_begin_call(struct dray_driver *d, struct grpc_call *grpc, bool unprepare)
{
    struct plugin_claims asked = {0};
    struct err err = {0};
    struct sdk_call *call = xcalloc(1, sizeof(*call));
    struct str request = arena_str(&call->arena, grpc->request);
    int r = plugin_decode(&plugin_claims_message, request, &asked, &call->arena, &err);
    if (r == 0)
        r = check_asked(&asked, &err);
    if (r != 0) {
        arena_done(&call->arena);
        free(call);
        grpc_finish(grpc, GRPC_INVALID_ARGUMENT, str_z(err.msg));
        return;
    }
    call->pending.driver = d;
    call->grpc = grpc;
    call->unprepare = unprepare;
    call->beta = str_starts(grpc->method, STR(PLUGIN_DRA_V1BETA1));
    call->claims_len = asked.claims.n;
    call->claims = arena_array(&call->arena, struct sdk_claim_call, asked.claims.n);
    for (size_t i = 0; i < asked.claims.n; i++)
        call->claims[i] = (struct sdk_claim_call){.call = call, .asked = asked.claims.p[i]};
    list_push_back(&d->pendings, &call->pending.node);
    grpc->closed = kubelet_left;
    grpc->arg = call;
    if (unprepare || call->claims_len == 0)
        sdk_job(d, plugin_run_claims, plugin_answer_call, call);
    else
        plugin_fetch_claims(call);
}

static void plugin_on_prepare(void *arg, struct grpc_call *grpc)
{
    plugin_begin_call(arg, grpc, false);
}

static void plugin_on_unprepare(void *arg, struct grpc_call *grpc)
{
    plugin_begin_call(arg, grpc, true);
}

// --- Registration --------------------------------------------------------------------------------

static void get_info(void *arg, struct grpc_call *grpc)
{
    struct dray_driver *d = arg;
    struct plugin_info info = {
        .type = STR(PLUGIN_TYPE_DRA), .name = str_z(d->o.name), .endpoint = str_z(d->endpoint)};
    vec_push_arena(grpc->arena, &info.supported_versions, STR(PLUGIN_ID_DRA_V1));
    vec_push_arena(grpc->arena, &info.supported_versions, STR(PLUGIN_ID_DRA_V1BETA1));
    if (d->o.health) {
        vec_push_arena(grpc->arena, &info.supported_versions, STR(PLUGIN_ID_HEALTH_V1));
        vec_push_arena(grpc->arena, &info.supported_versions, STR(PLUGIN_ID_HEALTH_ALPHA));
    }
    struct proto_writer w = {0};
    plugin_encode(&plugin_info_message, &info, &w);
    grpc_reply(grpc, proto_written(&w));
    proto_writer_done(&w);
}

static void plugin_on_notify(void *arg, struct grpc_call *grpc)
{
    struct dray_driver *d = arg;
    struct plugin_registration_status status = {0};
    struct err err = {0};
    if (plugin_decode(&plugin_registration_status_message, grpc->request, &status, grpc->arena,
                      &err) != 0) {
        grpc_finish(grpc, GRPC_INVALID_ARGUMENT, str_z(err.msg));
        return;
    }
    const char *why = plugin_copy_text(grpc->arena, status.error);
    if (!status.plugin_registered) {
        (void)err_set(&err, ERR_UNAVAILABLE, "kubelet refused the driver: %s", why);
        sdk_trouble(d, &err);
    }
    if (d->o.callbacks.registered)
        d->o.callbacks.registered(d->o.arg, status.plugin_registered, why);
    grpc_reply(grpc, STR(""));
}

// --- Sockets -------------------------------------------------------------------------------------

static void add_hash(struct sbuf *out, struct str bytes, size_t keep)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (EVP_Digest(bytes.p, bytes.n, digest, &n, EVP_sha256(), NULL) != 1)
        abort();
    size_t start = out->n;
    base64_encode(str_make((const char *)digest, keep), BASE64_URL, out);
    while (out->n > start && out->p[out->n - 1] == '=')
        sbuf_truncate(out, out->n - 1);
}

// As Kubernetes' own helper names it, so that kubelet and people see what they know: the longest
// form that fits into a socket's address.
void sdk_registration_name(struct sbuf *out, const char *dir, const char *driver,
                           const char *instance)
{
    if (!instance) {
        sbuf_addf(out, "%s-reg.sock", driver);
        return;
    }
    size_t max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1; // the NUL
    size_t room = strlen(dir) + 1 < max ? max - strlen(dir) - 1 : 0;
    sbuf_addf(out, "%s-%s-reg.sock", driver, instance);
    if (out->n <= room)
        return;
    sbuf_clear(out);
    sbuf_addf(out, "%s-", driver);
    add_hash(out, str_z(instance), 8);
    sbuf_addz(out, "-reg.sock");
    if (out->n <= room)
        return;
    cleanup_sbuf struct sbuf both = {0};
    sbuf_addz(&both, driver);
    sbuf_addc(&both, '\0');
    sbuf_addz(&both, instance);
    sbuf_clear(out);
    sbuf_addz(out, "dra-");
    add_hash(out, sbuf_str(&both), 16);
    sbuf_addz(out, "-reg.sock");
}

static void add_services(struct dray_driver *d)
{
    grpc_server_handle(d->server, STR(PLUGIN_DRA_V1 "NodePrepareResources"), plugin_on_prepare, d);
    grpc_server_handle(d->server, STR(PLUGIN_DRA_V1 "NodeUnprepareResources"), plugin_on_unprepare,
                       d);
    grpc_server_handle(d->server, STR(PLUGIN_DRA_V1BETA1 "NodePrepareResources"), plugin_on_prepare,
                       d);
    grpc_server_handle(d->server, STR(PLUGIN_DRA_V1BETA1 "NodeUnprepareResources"),
                       plugin_on_unprepare, d);
    grpc_server_handle(d->registrar, STR(PLUGIN_GET_INFO), get_info, d);
    grpc_server_handle(d->registrar, STR(PLUGIN_NOTIFY), plugin_on_notify, d);
    if (d->o.health)
        sdk_health_open(d);
}

int sdk_plugin_open(struct dray_driver *d, struct err *err)
{
    const struct grpc_limits limits = {0};
    d->server = grpc_server_new(d->runtime->loop, &limits);
    d->registrar = grpc_server_new(d->runtime->loop, &limits);
    add_services(d);
    int r = file_make_dirs(d->o.registry_dir, 0755, err);
    if (r == 0)
        r = grpc_server_listen(d->server, d->endpoint, err);
    // The registration last: kubelet calls as soon as it sees it.
    if (r == 0)
        r = grpc_server_listen(d->registrar, d->registration, err);
    return r;
}

void sdk_plugin_close(struct dray_driver *d)
{
    if (d->registrar)
        grpc_server_free(take_ptr(d->registrar));
    if (d->server)
        grpc_server_free(take_ptr(d->server));
}

static void server_stopped(void *arg)
{
    struct dray_driver *d = arg;
    if (--d->open_servers > 0)
        return;
    if (--d->runtime->stopping == 0)
        loop_stop(d->runtime->loop);
}

void sdk_driver_stop(struct dray_driver *d)
{
    sdk_health_close(d);
    d->open_servers = 1;
    if (d->registrar) {
        d->open_servers += 2;
        grpc_server_stop(d->registrar, CLOCK_NS_PER_SEC, server_stopped, d);
        grpc_server_stop(d->server, 45 * CLOCK_NS_PER_SEC, server_stopped, d);
    }
    server_stopped(d);
}
