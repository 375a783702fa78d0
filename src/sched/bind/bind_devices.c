// SPDX-License-Identifier: Apache-2.0
//
// Devices with binding conditions are made ready after they were allocated: a pod is bound when all
// are true, and gives its devices back when one fails or the time is over.
#include <stdlib.h>

#include "sched/bind/bind_int.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/report.h"

#include "base/banned.h"

static void bind_devices_give_up(struct binding *b, enum meter_wait how)
{
    meter_bind_awaited(b, how);
    b->failed = true;
    bind_undo(b);
}

// Kept for the explanation, also when the pod has devices again.
static void bind_devices_remember_failure(struct sched_pod *p,
                                          const struct api_resource_claim *claim, struct str why)
{
    const struct api_device_request_allocation_result *r = dra_unready(claim);
    cleanup_sbuf struct sbuf device = {0};
    if (!p || !r)
        return;
    sbuf_addf(&device, "%.*s/%.*s/%.*s", STR_ARG(r->driver), STR_ARG(r->pool), STR_ARG(r->device));
    free(p->report.given_up);
    free(p->report.given_up_device);
    p->report.given_up = xstrndup(why.p, why.n);
    p->report.given_up_device = xstrndup(device.p, device.n);
}

static void bind_devices_report_pending(struct binding *b)
{
    cleanup_sbuf struct sbuf text = {0};
    if (b->told || !b->pod)
        return;
    sbuf_addf(&text, "waiting for binding conditions for device on node %.*s",
              STR_ARG(b->node_name));
    report_event(b->s, b->pod_object, "Normal", "BindingConditionsPending", sbuf_str(&text));
    b->told = true;
}

void bind_check_conditions(struct binding *b)
{
    struct sched *s = b->s;
    bool ready = true;
    for (size_t i = 0; i < b->claims_len; i++) {
        const struct api_resource_claim *claim = claims_api(bind_entry(&b->claims[i]));
        if (!claim || !claim->status.allocation) {
            bind_fail(b, "claim %.*s got deallocated elsewhere in the meantime",
                      STR_ARG(b->claims[i].name));
            bind_devices_give_up(b, METER_WAIT_ERROR);
            return;
        }
        if (!dra_has_conditions(claim->status.allocation))
            continue;
        enum binding_state state = dra_binding_state(s, claim, &b->error);
        if (state < BINDING_WAITS) {
            bind_devices_remember_failure(b->pod, claim, sbuf_str(&b->error));
            bind_devices_give_up(b,
                                 state == BINDING_LATE ? METER_WAIT_TIMEOUT : METER_WAIT_FAILURE);
            return;
        }
        ready &= state == BINDING_READY;
    }
    if (ready) {
        meter_bind_awaited(b, METER_WAIT_SUCCESS);
        bind_next(b);
        return;
    }
    bind_devices_report_pending(b);
    exec_timer_start(s->exec, &b->timer, CONDITION_NS);
}

static void condition_time(void *arg)
{
    bind_check_conditions(arg);
}

void bind_await_devices(struct binding *b, bool first)
{
    b->timer = (struct exec_timer){.fn = condition_time, .arg = b};
    bool wait = false;
    for (size_t i = 0; i < b->claims_len; i++) {
        const struct api_resource_claim *claim = claims_api(bind_entry(&b->claims[i]));
        wait |= claim && claim->status.allocation && dra_has_conditions(claim->status.allocation);
    }
    if (!wait || !features_on(&b->s->config.features, FEATURE_DRA_DEVICE_BINDING_CONDITIONS)) {
        bind_next(b);
        return;
    }
    if (first)
        b->time.waits_ns = exec_now_ns(b->s->exec);
    bind_check_conditions(b);
}
