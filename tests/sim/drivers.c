// SPDX-License-Identifier: Apache-2.0
//
// Drivers whose devices have to be made ready before a pod may be bound to them (binding
// conditions): they answer sooner or later, or say that it failed.
#include "check.h"

#include "base/banned.h"

static const struct api_condition *condition_of(
    const struct api_resource_claim *claim, const struct api_device_request_allocation_result *r,
    struct str type)
{
    for (size_t i = 0; i < claim->status.devices.n; i++) {
        const struct api_allocated_device_status *d = &claim->status.devices.p[i];
        for (size_t k = 0; k < d->conditions.n; k++)
            if (str_eq(d->device, r->device) && str_eq(d->pool, r->pool) &&
                str_eq(d->driver, r->driver) && str_eq(d->conditions.p[k].type, type))
                return &d->conditions.p[k];
    }
    return NULL;
}

static bool holds(const struct api_resource_claim *claim,
                  const struct api_device_request_allocation_result *r, struct str type)
{
    const struct api_condition *c = condition_of(claim, r, type);
    return c && str_eqz(c->status, "True");
}

enum readiness claim_readiness(const struct api_resource_claim *claim)
{
    const struct api_device_request_allocation_result_array *rs =
        &claim->status.allocation->devices.results;
    bool ready = true;
    for (size_t i = 0; i < rs->n; i++) {
        for (size_t k = 0; k < rs->p[i].binding_failure_conditions.n; k++)
            if (holds(claim, &rs->p[i], rs->p[i].binding_failure_conditions.p[k]))
                return CLAIM_FAILED;
        for (size_t k = 0; k < rs->p[i].binding_conditions.n; k++)
            ready &= holds(claim, &rs->p[i], rs->p[i].binding_conditions.p[k]);
    }
    return ready ? CLAIM_READY : CLAIM_WAITS;
}

static void answered(void *arg, const struct client_answer *a)
{
    struct sim *s = arg;
    if (a->code == -ERR_INVALID || a->code == -ERR_BAD_REQUEST)
        sim_break(s, "a driver's status was refused: %s", a->err->msg);
}

// answer writes the status of all devices of a claim that have conditions.
static void answer(struct content *c, const struct api_resource_claim *claim, bool well)
{
    struct sim *s = c->s;
    const struct api_device_request_allocation_result_array *rs =
        &claim->status.allocation->devices.results;
    struct api_allocated_device_status *all =
        arena_array(&c->arena, struct api_allocated_device_status, rs->n);
    size_t n = 0;
    for (size_t i = 0; i < rs->n; i++) {
        const struct api_device_request_allocation_result *r = &rs->p[i];
        bool twice = false; // with admin access one device may be there for two requests
        for (size_t k = 0; k < n; k++)
            twice |= str_eq(all[k].device, r->device) && str_eq(all[k].pool, r->pool);
        if (!r->binding_conditions.n || twice)
            continue;
        struct api_condition *said = arena_one(&c->arena, struct api_condition);
        *said = (struct api_condition){
            .type = well ? r->binding_conditions.p[0] : r->binding_failure_conditions.p[0],
            .status = STR("True"),
            .reason = STR("Driver"),
            .last_transition_time = {moment_from_ns(clock_wall_ns(&s->clock.clock)), true}};
        said->last_transition_time.at.nsec = 0;
        all[n++] = (struct api_allocated_device_status){
            .driver = r->driver, .pool = r->pool, .device = r->device, .conditions = {said, 1}};
    }
    struct api_resource_claim changed = *claim;
    changed.status.devices = (struct api_allocated_device_status_array){all, n};
    const struct api_object object = {
        api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim")), &changed};
    sim_log(s, "devices of claim %.*s/%.*s are %s", STR_ARG(claim->metadata.namespace),
            STR_ARG(claim->metadata.name), well ? "ready" : "not to be had");
    client_update(s->hands, &object, &(struct client_write){.subresource = STR("status")}, answered,
                  s);
}

void sim_drive(struct sim *s, uint64_t in, uint64_t fail_in)
{
    struct content c;
    bool idle = true;
    if (s->driven == store_revision(s->store))
        return;
    content_load(&c, s);
    for (size_t i = 0; i < c.lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c.lists[LOADED_CLAIMS].p[i];
        if (!claim->status.allocation || claim_readiness(claim) != CLAIM_WAITS)
            continue;
        idle = false;
        if (sim_draw(s, in) == 0)
            answer(&c, claim, !fail_in || sim_draw(s, fail_in) != 0);
    }
    s->driven = idle ? store_revision(s->store) : 0;
    content_done(&c);
}
