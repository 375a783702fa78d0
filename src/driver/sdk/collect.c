// SPDX-License-Identifier: Apache-2.0
//
// Claims that are held but that kubelet will never unprepare: half prepared, or prepared before a
// reboot, and gone from the API server because kubelet lost its own records. Claims that are
// prepared in this boot are kubelet's alone: their containers may run.
#include <stdlib.h>

#include "driver/sdk/sdk.h"

#include "base/banned.h"

#define COLLECT_FIRST_NS (60 * CLOCK_NS_PER_SEC)
#define COLLECT_EVERY_NS (600 * CLOCK_NS_PER_SEC)

struct collect {
    struct sdk_pending waiting;
    struct arena arena;
    struct dray_claim claim;
    struct err err;
    int code;
};

static void collect_end_round(struct collect *c)
{
    list_remove(&c->waiting.node);
    arena_done(&c->arena);
    free(c);
}

static void collect_run_worker(void *arg)
{
    struct collect *c = arg;
    c->code = core_unprepare(c->waiting.driver->core, &c->claim, &c->err);
}

static void collect_on_collected(void *arg)
{
    struct collect *c = arg;
    struct dray_driver *d = c->waiting.driver;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "claim %s/%s (%s) is gone; ", c->claim.namespace_, c->claim.name,
              c->claim.uid);
    if (c->code == 0)
        sbuf_addz(&text, "its devices were released");
    else
        sbuf_addf(&text, "its devices could not be released: %s", c->err.msg);
    if (d)
        dray_event(d, c->code != 0, c->code == 0 ? "ClaimCollected" : "ClaimStuck", text.p);
    collect_end_round(c);
}

static void collect_claim_answered(void *arg, const struct client_answer *a)
{
    struct collect *c = arg;
    bool gone =
        a->code == -ERR_NOT_FOUND || (a->code == 0 && !str_eqz(a->object->meta->uid, c->claim.uid));
    if (gone && c->waiting.driver)
        sdk_job(c->waiting.driver, collect_run_worker, collect_on_collected, c);
    else
        collect_end_round(c);
}

static void collect_consider_claim(void *arg, const struct core_held *held)
{
    struct dray_driver *d = arg;
    if (!held->rebooted && held->entry->step == JOURNAL_PREPARED)
        return;
    struct collect *c = xcalloc(1, sizeof(*c));
    c->waiting.driver = d;
    c->claim.namespace_ = arena_str(&c->arena, str_z(held->entry->claim.namespace_)).p;
    c->claim.name = arena_str(&c->arena, str_z(held->entry->claim.name)).p;
    c->claim.uid = arena_str(&c->arena, str_z(held->entry->claim.uid)).p;
    list_push_back(&d->pendings, &c->waiting.node);
    const struct client_key key = {api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim")),
                                   str_z(c->claim.namespace_), str_z(c->claim.name)};
    client_get(d->runtime->client, &key, collect_claim_answered, c);
}

static void collect_on_tick(void *arg)
{
    struct dray_driver *d = arg;
    core_foreach(d->core, collect_consider_claim, d);
    exec_timer_start(d->runtime->exec, &d->collect_timer, COLLECT_EVERY_NS);
}

void sdk_collect_open(struct dray_driver *d)
{
    d->collect_timer = (struct exec_timer){.fn = collect_on_tick, .arg = d};
    exec_timer_start(d->runtime->exec, &d->collect_timer, COLLECT_FIRST_NS);
}

void sdk_collect_close(struct dray_driver *d)
{
    exec_timer_stop(d->runtime->exec, &d->collect_timer);
}
