// SPDX-License-Identifier: Apache-2.0
//
// How long the way from a decision to a bound pod takes, and what devices with binding conditions
// cost.
#include "sched/bind/bind_int.h"

#include "base/banned.h"

void meter_bind_prepared(struct binding *b)
{
    b->time.began_ns = b->claims_len ? exec_now_ns(b->s->exec) : 0;
}

void meter_bind_written(struct binding *b)
{
    if (b->sent)
        return; // once more
    int64_t now = exec_now_ns(b->s->exec);
    if (b->time.began_ns)
        meter_plugin(b->s, METER_PREBIND, METER_SUCCESS, now - b->time.began_ns);
    b->time.began_ns = now;
}

void meter_bind_over(struct binding *b, bool well)
{
    enum meter_point point = b->step == BIND_POD ? METER_BIND : METER_PREBIND;
    meter_bind_awaited(b, METER_WAIT_ERROR);
    if (b->time.began_ns)
        meter_plugin(b->s, point, well ? METER_SUCCESS : METER_FAILURE,
                     exec_now_ns(b->s->exec) - b->time.began_ns);
    b->time.began_ns = 0;
}

static void count_drivers(struct binding *b, const struct api_allocation_result *a,
                          enum meter_wait how, int64_t took_ns)
{
    for (size_t i = 0; a && i < a->devices.results.n; i++)
        if (a->devices.results.p[i].binding_conditions.n)
            meter_waited(b->s, a->devices.results.p[i].driver, how, took_ns);
}

void meter_bind_awaited(struct binding *b, enum meter_wait how)
{
    struct sched *s = b->s;
    if (!b->time.waits_ns)
        return;
    int64_t took_ns = exec_now_ns(s->exec) - b->time.waits_ns;
    b->time.waits_ns = 0;
    s->meter.round++;
    for (size_t i = 0; i < b->claims_len; i++) {
        const struct api_resource_claim *claim = claims_api(bind_entry(&b->claims[i]));
        const struct api_allocation_result *now = claim ? claim->status.allocation : NULL;
        count_drivers(b, now ? now : b->claims[i].allocation, how, took_ns);
    }
}
