// SPDX-License-Identifier: Apache-2.0
//
// Devices with binding conditions: when a claim has been given one, the driver attaches it and
// reports so in the claim's status; the scheduler binds the pod then, or gives up when the driver
// reports that it failed.
#include <stdlib.h>

#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "driver/sdk/sdk.h"

#include "base/banned.h"

enum { SOURCE_CLAIMS };

enum verdict { WAITING, ATTACHED, FAILED };

struct attach_device {
    const struct api_device_request_allocation_result *result; // in the object
    size_t allocated;                                          // index in claim.devices
    enum verdict verdict;
    bool asked; // the driver was asked now
    struct dray_error why;
};

struct attach_call {
    struct sdk_pending waiting;
    struct typed_object *object;
    struct dray_claim claim;
    struct attach_device *devices;
    size_t devices_len;
    struct arena arena;
    char *key;
    bool pending; // a device is not attached yet
};

static void attach_end_call(struct attach_call *c)
{
    list_remove(&c->waiting.node);
    typed_object_unref(c->object);
    arena_done(&c->arena);
    free(c->key);
    free(c);
}

// --- Status so far -----------------------------------------------------------------

static const struct api_allocated_device_status *attach_find_status(
    const struct api_resource_claim *claim, const struct api_device_request_allocation_result *r)
{
    for (size_t i = 0; i < claim->status.devices.n; i++) {
        const struct api_allocated_device_status *s = &claim->status.devices.p[i];
        if (str_eq(s->driver, r->driver) && str_eq(s->pool, r->pool) &&
            str_eq(s->device, r->device) && (!r->has_share_id || str_eq(s->share_id, r->share_id)))
            return s;
    }
    return NULL;
}

static bool attach_condition_is_true(const struct api_allocated_device_status *s, struct str type)
{
    for (size_t i = 0; s && i < s->conditions.n; i++)
        if (str_eq(s->conditions.p[i].type, type))
            return str_eq(s->conditions.p[i].status, STR("True"));
    return false;
}

static enum verdict verdict_of(const struct api_resource_claim *claim,
                               const struct api_device_request_allocation_result *r)
{
    const struct api_allocated_device_status *s = attach_find_status(claim, r);
    for (size_t i = 0; i < r->binding_failure_conditions.n; i++)
        if (attach_condition_is_true(s, r->binding_failure_conditions.p[i]))
            return FAILED;
    for (size_t i = 0; i < r->binding_conditions.n; i++)
        if (!attach_condition_is_true(s, r->binding_conditions.p[i]))
            return WAITING;
    return ATTACHED;
}

static bool attach_result_is_ours(const struct dray_driver *d,
                                  const struct api_device_request_allocation_result *r)
{
    return str_eqz(r->driver, d->o.name) && r->binding_conditions.n &&
           publish_has_pool(d->publisher, r->pool);
}

static bool attach_is_wanted(const struct dray_driver *d, const struct api_resource_claim *claim)
{
    if (!claim->status.allocation || claim->metadata.deletion_timestamp.set)
        return false;
    const struct api_device_request_allocation_result_array *results =
        &claim->status.allocation->devices.results;
    for (size_t i = 0; i < results->n; i++)
        if (attach_result_is_ours(d, &results->p[i]) &&
            verdict_of(claim, &results->p[i]) == WAITING)
            return true;
    return false;
}

// --- Writing it ----------------------------------------------------------------------------------

static void attach_write_condition(struct json_writer *w, struct str type, struct str reason,
                                   const char *message, struct str now)
{
    const struct str pairs[][2] = {{STR("type"), type},
                                   {STR("status"), STR("True")},
                                   {STR("lastTransitionTime"), now},
                                   {STR("reason"), reason},
                                   {STR("message"), str_z(message)}};
    json_write_object_begin(w);
    for (size_t i = 0; i < array_len(pairs); i++) {
        json_write_key(w, pairs[i][0]);
        json_write_str(w, pairs[i][1]);
    }
    json_write_object_end(w);
}

static void attach_write_device(struct json_writer *w, const struct attach_device *a,
                                struct str now)
{
    const struct api_device_request_allocation_result *r = a->result;
    const struct str names[][2] = {{STR("driver"), r->driver},
                                   {STR("pool"), r->pool},
                                   {STR("device"), r->device},
                                   {STR("shareID"), r->share_id}};
    json_write_object_begin(w);
    for (size_t i = 0; i < array_len(names); i++) {
        if (names[i][1].n == 0)
            continue;
        json_write_key(w, names[i][0]);
        json_write_str(w, names[i][1]);
    }
    json_write_key(w, STR("conditions"));
    json_write_array_begin(w);
    for (size_t i = 0; a->verdict == ATTACHED && i < r->binding_conditions.n; i++)
        attach_write_condition(w, r->binding_conditions.p[i], STR("Attached"),
                               "the device is attached", now);
    if (a->verdict == FAILED)
        attach_write_condition(w, r->binding_failure_conditions.p[0], STR("AttachFailed"),
                               a->why.message, now);
    json_write_array_end(w);
    json_write_object_end(w);
}

static void attach_status_written(void *arg, const struct client_answer *a)
{
    struct attach_call *c = arg;
    struct dray_driver *d = c->waiting.driver;
    if (d && a->code == 0 && !c->pending)
        work_after(d->attach, str_z(c->key), SOURCE_CLAIMS, a->object ? a->object->revision : 0);
    else if (d)
        work_again(d->attach, str_z(c->key), CLOCK_NS_PER_SEC);
    attach_end_call(c);
}

static void driver_answered(void *arg)
{
    struct attach_call *c = arg;
    struct dray_driver *d = c->waiting.driver;
    if (!d) {
        attach_end_call(c);
        return;
    }
    cleanup_sbuf struct sbuf now = {0}, body = {0};
    struct json_writer w = {.out = &body};
    bool any = false;
    rfc3339_write_seconds(moment_from_ns(exec_wall_ns(d->runtime->exec)), &now);
    json_write_array_begin(&w);
    for (size_t i = 0; i < c->devices_len; i++) {
        if (c->devices[i].verdict == WAITING)
            continue;
        any = any || c->devices[i].asked;
        attach_write_device(&w, &c->devices[i], sbuf_str(&now));
    }
    json_write_array_end(&w);
    if (!any) {
        work_again(d->attach, str_z(c->key), CLOCK_NS_PER_SEC);
        attach_end_call(c);
        return;
    }
    sdk_write_status(d, &c->claim, sbuf_str(&body), attach_status_written, c);
}

// --- Asking the driver ---------------------------------------------------------------------------

static void attach_ask_driver(void *arg)
{
    struct attach_call *c = arg;
    const struct dray_driver *d = c->waiting.driver;
    for (size_t i = 0; d && i < c->devices_len; i++) {
        struct attach_device *a = &c->devices[i];
        if (a->verdict != WAITING)
            continue;
        int r =
            d->o.callbacks.attach(d->o.arg, &c->claim, &c->claim.devices[a->allocated], &a->why);
        a->asked = r != DRAY_PENDING;
        if (r == 0)
            a->verdict = ATTACHED;
        else if (r < 0 && a->result->binding_failure_conditions.n)
            a->verdict = FAILED;
        c->pending = c->pending || a->verdict == WAITING;
    }
}

static void attach_step_key(void *arg, struct str key)
{
    struct dray_driver *d = arg;
    struct str namespace;
    struct str name;
    str_cut(key, '/', &namespace, &name);
    const struct typed_object *o = informer_get(d->claims, namespace, name);
    const struct api_resource_claim *claim = o ? o->object.value : NULL;
    if (!claim || !attach_is_wanted(d, claim)) {
        work_done(d->attach, key);
        return;
    }
    struct attach_call *c = xcalloc(1, sizeof(*c));
    c->waiting.driver = d;
    c->object = typed_object_ref(o);
    c->key = xstrndup(key.p, key.n);
    list_push_back(&d->pendings, &c->waiting.node);
    const struct api_device_request_allocation_result_array *results =
        &claim->status.allocation->devices.results;
    c->devices = arena_array(&c->arena, struct attach_device, results->n);
    if (sdk_claim(claim, str_z(d->o.name), &c->arena, &c->claim, NULL) != 0)
        c->claim.devices_len = 0;
    size_t own = 0;
    for (size_t i = 0; i < results->n; i++) {
        const struct api_device_request_allocation_result *r = &results->p[i];
        if (attach_result_is_ours(d, r))
            c->devices[c->devices_len++] = (struct attach_device){
                .result = r, .allocated = own, .verdict = verdict_of(claim, r)};
        own += str_eqz(r->driver, d->o.name);
    }
    sdk_job(d, attach_ask_driver, driver_answered, c);
}

// --- Watching ------------------------------------------------------------------------------------

static void attach_claim_changed(void *arg, const struct typed_object *before,
                                 const struct typed_object *after)
{
    struct dray_driver *d = arg;
    (void)before;
    if (!after || !attach_is_wanted(d, after->object.value))
        return;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(after->meta->namespace), STR_ARG(after->meta->name));
    work_add(d->attach, sbuf_str(&key));
}

static void attach_claims_progress(void *arg, uint64_t revision)
{
    work_seen(((struct dray_driver *)arg)->attach, SOURCE_CLAIMS, revision);
}

void sdk_attach_open(struct dray_driver *d)
{
    const struct informer_options options = {.client = d->runtime->client,
                                             .kind = api_kind_find(STR("resource.k8s.io/v1"),
                                                                   STR("ResourceClaim"))};
    d->attach = work_new(d->runtime->exec, NULL, attach_step_key, d);
    d->claims = informer_new(&options);
    const struct informer_handler h = {
        .changed = attach_claim_changed, .progress = attach_claims_progress, .arg = d};
    informer_add_handler(d->claims, &h);
    informer_start(d->claims);
}

static void attach_visit_claim(void *arg, const struct typed_object *o)
{
    attach_claim_changed(arg, NULL, o);
}

void sdk_attach_look(struct dray_driver *d)
{
    if (d->claims)
        informer_foreach(d->claims, attach_visit_claim, d);
}

void sdk_attach_close(struct dray_driver *d)
{
    if (!d->attach)
        return;
    informer_free(d->claims);
    work_free(d->attach);
    d->attach = NULL;
    d->claims = NULL;
}
