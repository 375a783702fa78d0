// SPDX-License-Identifier: Apache-2.0
//
// The claim's status.devices: read, merge, write with the resource version, again when somebody was
// faster. Entries and conditions of others stay; an unchanged condition keeps its time.
// (Server-side apply would do the same, but not every server has it.)
#include <stdlib.h>

#include "codec/json.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "driver/sdk/sdk.h"

#include "base/banned.h"

enum { TRIES_MAX = 10 };

struct status_list VEC(struct api_allocated_device_status);

struct write {
    struct sdk_pending pending;
    struct client *client;
    struct arena arena;
    struct client_key key;
    struct str uid;
    struct status_list devices; // what is to be there
    client_done_fn done;
    void *arg;
    int tries;
};

static void status_end_write(struct write *w, const struct client_answer *a)
{
    if (w->done)
        w->done(w->arg, a);
    list_remove(&w->pending.node);
    arena_done(&w->arena);
    free(w);
}

static void status_fail_write(struct write *w, const char *why)
{
    struct err err;
    int code = err_set(&err, ERR_CONFLICT, "the status of claim %.*s/%.*s was not written: %s",
                       STR_ARG(w->key.namespace), STR_ARG(w->key.name), why);
    const struct client_answer a = {.code = code, .err = &err};
    status_end_write(w, &a);
}

// --- Merging -------------------------------------------------------------------------------------

static bool status_same_device(const struct api_allocated_device_status *a,
                               const struct api_allocated_device_status *b)
{
    return str_eq(a->driver, b->driver) && str_eq(a->pool, b->pool) &&
           str_eq(a->device, b->device) && a->has_share_id == b->has_share_id &&
           str_eq(a->share_id, b->share_id);
}

static void merge_condition(struct api_allocated_device_status *to, const struct api_condition *c,
                            struct arena *a)
{
    for (size_t i = 0; i < to->conditions.n; i++) {
        struct api_condition *have = &to->conditions.p[i];
        if (!str_eq(have->type, c->type))
            continue;
        struct api_time since =
            str_eq(have->status, c->status) ? have->last_transition_time : c->last_transition_time;
        *have = *c;
        have->last_transition_time = since;
        return;
    }
    struct api_condition *all = arena_array(a, struct api_condition, to->conditions.n + 1);
    if (to->conditions.n)
        memcpy(all, to->conditions.p, to->conditions.n * sizeof(*all));
    all[to->conditions.n] = *c;
    to->conditions.p = all;
    to->conditions.n++;
}

static void merge_device(struct status_list *all, const struct api_allocated_device_status *from,
                         struct arena *a)
{
    assert(all->p || all->cap == 0);
    struct api_allocated_device_status *to = NULL;
    vec_foreach(all, one)
        if (status_same_device(one, from))
            to = one;
    if (!to) {
        vec_push_arena(a, all, *from);
        return;
    }
    for (size_t i = 0; i < from->conditions.n; i++)
        merge_condition(to, &from->conditions.p[i], a);
    if (from->data.p)
        to->data = from->data;
    if (from->network_data)
        to->network_data = from->network_data;
}

// --- Writing -------------------------------------------------------------------------------------

static void status_read_claim(struct write *w);

static void status_on_written(void *arg, const struct client_answer *a)
{
    struct write *w = arg;
    if (a->code == -ERR_CONFLICT && ++w->tries < TRIES_MAX && w->pending.driver)
        status_read_claim(w);
    else
        status_end_write(w, a);
}

static void status_on_claim_read(void *arg, const struct client_answer *a)
{
    struct write *w = arg;
    if (a->code != 0 || !a->object) {
        status_end_write(w, a);
        return;
    }
    const struct api_resource_claim *from = a->object->object.value;
    if (!str_eq(from->metadata.uid, w->uid) || !from->status.allocation) {
        status_fail_write(w, "it is gone, or not allocated any more");
        return;
    }
    cleanup_arena struct arena arena = {0};
    struct api_resource_claim claim = {0};
    api_copy(a->object->object.kind->type, from, &claim, &arena);
    struct status_list all = {0};
    for (size_t i = 0; i < claim.status.devices.n; i++)
        vec_push_arena(&arena, &all, claim.status.devices.p[i]);
    vec_foreach(&w->devices, d)
        merge_device(&all, d, &arena);
    claim.status.devices = (struct api_allocated_device_status_array){all.p, all.n};
    if (api_equal(a->object->object.kind->type, from, &claim)) {
        status_end_write(w, a);
        return;
    }
    const struct api_object object = {a->object->object.kind, &claim};
    const struct client_write how = {.subresource = STR("status")};
    client_update(w->client, &object, &how, status_on_written, w);
}

static void status_read_claim(struct write *w)
{
    client_get(w->client, &w->key, status_on_claim_read, w);
}

static int status_read_devices(struct write *w, struct str json, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(json, NULL, &doc, err);
    if (r == 0)
        r = json_want_array(doc.root, err);
    if (r != 0)
        return r;
    json_arr_foreach(doc.root, item) {
        struct api_allocated_device_status one = {0};
        r = api_json_read(&api_allocated_device_status_type, &doc, item, &one, &w->arena, NULL,
                          err);
        if (r != 0)
            return r;
        vec_push_arena(&w->arena, &w->devices, one);
    }
    return 0;
}

void sdk_write_status(struct dray_driver *d, const struct dray_claim *claim, struct str devices,
                      client_done_fn done, void *arg)
{
    struct write *w = xcalloc(1, sizeof(*w));
    struct err err;
    w->pending.driver = d;
    w->client = d->runtime->client;
    w->key = (struct client_key){api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim")),
                                 arena_str(&w->arena, str_z(claim->namespace_)),
                                 arena_str(&w->arena, str_z(claim->name))};
    w->uid = arena_str(&w->arena, str_z(claim->uid));
    w->done = done;
    w->arg = arg;
    list_push_back(&d->pendings, &w->pending.node);
    if (status_read_devices(w, devices, &err) != 0)
        status_fail_write(w, err.msg);
    else
        status_read_claim(w);
}

// --- Conditions that become known later
// ------------------------------------------------------------

struct report {
    struct sdk_pending pending;
    struct arena arena;
    struct dray_claim claim;
    struct dray_claim_condition c;
};

static const char *status_keep_text(struct report *r, const char *text)
{
    return text ? arena_str(&r->arena, str_z(text)).p : NULL;
}

static void status_put_member(struct json_writer *w, struct str key, const char *value)
{
    if (!value)
        return;
    json_write_key(w, key);
    json_write_str(w, str_z(value));
}

static void status_on_reported(void *arg, const struct client_answer *a)
{
    struct report *r = arg;
    if (a->code != 0 && a->code != -ERR_NOT_FOUND && a->err && r->pending.driver)
        sdk_trouble(r->pending.driver, a->err);
    list_remove(&r->pending.node);
    arena_done(&r->arena);
    free(r);
}

static void report_on_loop(void *arg)
{
    struct report *r = arg;
    struct dray_driver *d = r->pending.driver;
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    cleanup_sbuf struct sbuf now = {0};
    rfc3339_write_seconds(moment_from_ns(exec_wall_ns(d->runtime->exec)), &now);
    json_write_array_begin(&w);
    json_write_object_begin(&w);
    status_put_member(&w, STR("driver"), d->o.name);
    status_put_member(&w, STR("pool"), r->c.pool);
    status_put_member(&w, STR("device"), r->c.device);
    status_put_member(&w, STR("shareID"), r->c.share_id);
    json_write_key(&w, STR("conditions"));
    json_write_array_begin(&w);
    json_write_object_begin(&w);
    status_put_member(&w, STR("type"), r->c.type);
    status_put_member(&w, STR("status"), r->c.yes ? "True" : "False");
    status_put_member(&w, STR("lastTransitionTime"), now.p);
    status_put_member(&w, STR("reason"), r->c.reason && *r->c.reason ? r->c.reason : r->c.type);
    status_put_member(&w, STR("message"), r->c.message ? r->c.message : "");
    json_write_object_end(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    json_write_array_end(&w);
    list_push_back(&d->pendings, &r->pending.node);
    sdk_write_status(d, &r->claim, sbuf_str(&json), status_on_reported, r);
}

void dray_report(struct dray_driver *d, const struct dray_claim *claim,
                 const struct dray_claim_condition *condition)
{
    struct report *r = xcalloc(1, sizeof(*r));
    r->pending.driver = d;
    r->claim = (struct dray_claim){.namespace_ = status_keep_text(r, claim->namespace_),
                                   .name = status_keep_text(r, claim->name),
                                   .uid = status_keep_text(r, claim->uid)};
    r->c = (struct dray_claim_condition){
        .pool = status_keep_text(r, condition->pool),
        .device = status_keep_text(r, condition->device),
        .share_id = status_keep_text(r, condition->share_id),
        .type = status_keep_text(r, condition->type),
        .reason = status_keep_text(r, condition->reason),
        .message = status_keep_text(r, condition->message),
        .yes = condition->yes,
    };
    exec_post(d->runtime->exec, report_on_loop, r);
}
