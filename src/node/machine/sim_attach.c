// SPDX-License-Identifier: Apache-2.0
//
// Devices of simulated drivers that have to be attached before a pod is bound: the driver's part
// is played by setting their binding conditions in the claim's status.
#include "api/match/claim.h"
#include "node/machine/sim_int.h"

#include "base/banned.h"

static bool sim_attach_is_waiting(const struct sim_nodes *s, const struct api_resource_claim *claim,
                                  const struct api_device_request_allocation_result *r)
{
    for (size_t i = 0; i < r->binding_conditions.n; i++)
        if (!claim_device_condition(claim, r, r->binding_conditions.p[i]))
            return sim_has_driver(s, r->driver);
    return false;
}

static bool sim_attach_is_wanted(const struct sim_nodes *s, const struct api_resource_claim *claim)
{
    if (!claim || !claim->status.allocation || claim->metadata.deletion_timestamp.set)
        return false;
    const struct api_device_request_allocation_result_array *all =
        &claim->status.allocation->devices.results;
    for (size_t i = 0; i < all->n; i++)
        if (sim_attach_is_waiting(s, claim, &all->p[i]))
            return true;
    return false;
}

static struct api_allocated_device_status sim_attach_status(
    const struct sim_nodes *s, struct arena *arena,
    const struct api_device_request_allocation_result *r)
{
    size_t n = r->binding_conditions.n;
    struct api_condition *all = arena_array(arena, struct api_condition, n);
    int64_t now_s = exec_wall_ns(s->options.exec) / CLOCK_NS_PER_SEC;
    for (size_t i = 0; i < n; i++)
        all[i] =
            (struct api_condition){.type = r->binding_conditions.p[i],
                                   .status = STR("True"),
                                   .reason = STR("Attached"),
                                   .message = STR("the simulated device is attached"),
                                   .last_transition_time = {.at = {.sec = now_s}, .set = true}};
    return (struct api_allocated_device_status){.driver = r->driver,
                                                .pool = r->pool,
                                                .device = r->device,
                                                .share_id = r->share_id,
                                                .has_share_id = r->has_share_id,
                                                .conditions = {all, n}};
}

static bool sim_attach_is_of(const struct api_allocated_device_status *d,
                             const struct api_device_request_allocation_result *r)
{
    return str_eq(d->driver, r->driver) && str_eq(d->pool, r->pool) &&
           str_eq(d->device, r->device) && str_eq(d->share_id, r->share_id);
}

// Statuses of devices that wait are written anew; those of other devices stay.
static void sim_attach_write(struct sim_nodes *s, struct str key, const struct typed_object *o)
{
    cleanup_arena struct arena arena = {0};
    struct api_resource_claim claim = *(const struct api_resource_claim *)o->object.value;
    const struct api_device_request_allocation_result_array *all =
        &claim.status.allocation->devices.results;
    struct api_allocated_device_status *devices =
        arena_array(&arena, struct api_allocated_device_status, claim.status.devices.n + all->n);
    size_t n = 0;
    for (size_t i = 0; i < claim.status.devices.n; i++)
        devices[n++] = claim.status.devices.p[i];
    for (size_t i = 0; i < all->n; i++) {
        const struct api_device_request_allocation_result *r = &all->p[i];
        size_t at = 0;
        if (!sim_attach_is_waiting(s, &claim, r))
            continue;
        while (at < n && !sim_attach_is_of(&devices[at], r))
            at++;
        devices[at] = sim_attach_status(s, &arena, r);
        n += at == n;
    }
    claim.status.devices = (struct api_allocated_device_status_array){devices, n};
    const struct api_object object = {o->object.kind, &claim};
    const struct client_write how = {.subresource = STR("status")};
    client_update(s->options.client, &object, &how, sim_on_step_done,
                  sim_step_call(s, s->claim_work, key));
}

static void sim_attach_step(void *arg, struct str key)
{
    struct sim_nodes *s = arg;
    struct str namespace, name;
    str_cut(key, '/', &namespace, &name);
    const struct typed_object *o = informer_get(s->claims, namespace, name);
    if (sim_attach_is_wanted(s, o ? o->object.value : NULL))
        sim_attach_write(s, key, o);
    else
        work_done(s->claim_work, key);
}

static void sim_attach_on_changed(void *arg, const struct typed_object *before,
                                  const struct typed_object *after)
{
    struct sim_nodes *s = arg;
    cleanup_sbuf struct sbuf key = {0};
    (void)before;
    if (!after || !sim_attach_is_wanted(s, after->object.value))
        return;
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(after->meta->namespace), STR_ARG(after->meta->name));
    work_add(s->claim_work, sbuf_str(&key));
}

static void sim_attach_on_progress(void *arg, uint64_t revision)
{
    struct sim_nodes *s = arg;
    work_seen(s->claim_work, 0, revision);
}

void sim_attach_new(struct sim_nodes *s)
{
    const struct informer_options o = {.client = s->options.client,
                                       .kind = sim_kind_of("resource.k8s.io/v1", "ResourceClaim")};
    const struct informer_handler h = {
        .changed = sim_attach_on_changed, .progress = sim_attach_on_progress, .arg = s};
    s->claim_work = work_new(s->options.exec, NULL, sim_attach_step, s);
    s->claims = informer_new(&o);
    informer_add_handler(s->claims, &h);
}
