// SPDX-License-Identifier: Apache-2.0
//
// Taking back: reservations, allocations that gave way, special claims, the pod's place. Errors here
// are nobody's concern any more: whatever stays behind is found by the next attempt or by the claim
// controller.
#include "codec/json_writer.h"
#include "sched/bind_int.h"

#include "base/banned.h"

void bind_wake_users(struct sched *s, struct sched_claim *k)
{
    for (size_t i = 0; k && i < k->pods.n; i++)
        if (k->pods.p[i]->state == POD_GATED)
            sched_enqueue(s, k->pods.p[i]);
}

// --- Claims --------------------------------------------------------------------------------------

void bind_clear(struct sched *s, const struct client_object *claim)
{
    struct api_resource_claim changed = *(const struct api_resource_claim *)claim->object.value;
    changed.status.allocation = NULL;
    changed.status.reserved_for.n = 0;
    changed.status.reserved_for.p = NULL;
    changed.status.devices.n = 0;
    changed.status.devices.p = NULL;
    struct api_object o = {sched_kind(WATCH_CLAIMS), &changed};
    client_update(s->client, &o, &(struct client_write){.subresource = STR("status")},
                  call_answered, call_new(s, NULL, NULL));
}

static void delete_step(struct sched *s, const struct client_object *claim);

static void delete_next(struct sched *s, void *arg, const struct client_answer *answer)
{
    (void)arg;
    if (answer->code == 0 && answer->object)
        delete_step(s, answer->object);
    // else the next attempt or the controller will find it
}

// The allocation goes before the finalizer, the finalizer before the claim: wherever this ends, devices
// are free if and only if no allocation names them.
static void delete_step(struct sched *s, const struct client_object *claim)
{
    struct arena tmp = {0};
    struct api_resource_claim changed = *(const struct api_resource_claim *)claim->object.value;
    struct api_object o = {sched_kind(WATCH_CLAIMS), &changed};
    const struct api_str_array old = changed.metadata.finalizers;
    struct str *list = arena_array(&tmp, struct str, old.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < old.n; i++)
        if (!str_eq(old.p[i], CLAIM_FINALIZER))
            list[n++] = old.p[i];
    if (changed.status.allocation) {
        changed.status = (struct api_resource_claim_status){0};
        client_update(s->client, &o, &(struct client_write){.subresource = STR("status")},
                      call_answered, call_new(s, delete_next, NULL));
    } else if (n < old.n) {
        changed.metadata.finalizers = (struct api_str_array){list, n};
        client_update(s->client, &o, NULL, call_answered, call_new(s, delete_next, NULL));
    } else {
        struct client_key key = {o.kind, claim->meta->namespace, claim->meta->name};
        struct api_preconditions same = {.uid = claim->meta->uid, .has_uid = true};
        const struct api_delete_options options = {.preconditions = &same};
        client_delete(s->client, &key, &options, call_answered, call_new(s, NULL, NULL));
    }
    arena_done(&tmp);
}

void bind_delete(struct sched *s, const struct client_object *claim)
{
    delete_step(s, claim);
}

static void undone(struct sched *s, void *arg, const struct client_answer *answer);

// Takes the pod out of reservedFor; the allocation stays.
static void unreserve(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    const struct api_pod *pod = bind_pod(c->b);
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    json_write_object_begin(&w);
    json_write_key(&w, STR("metadata"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("uid"));
    json_write_str(&w, c->object->meta->uid);
    json_write_object_end(&w);
    json_write_key(&w, STR("status"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("reservedFor"));
    json_write_array_begin(&w);
    json_write_object_begin(&w);
    json_write_key(&w, STR("$patch"));
    json_write_str(&w, STR("delete"));
    json_write_key(&w, STR("uid"));
    json_write_str(&w, pod->metadata.uid);
    json_write_object_end(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    struct client_key key = {sched_kind(WATCH_CLAIMS), pod->metadata.namespace, c->name};
    client_patch(s->client, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&body),
                 &(struct client_write){.subresource = STR("status")}, call_answered,
                 call_new(s, undone, c->b));
    c->b->pending++;
}

static void undo_claim(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    struct sched_claim *k = bind_entry(c);
    const struct client_object *newest = k && k->latest ? k->latest : c->object;
    if (newest)
        newest = client_object_ref(newest);
    if (k && c->allocation)
        claims_land(&s->claims, k);
    if (c->special) {
        if (c->name.n && newest)
            bind_delete(s, newest);
    } else if (c->gives_way && newest) {
        bind_clear(s, newest);
    } else if (c->reserved && c->object) {
        unreserve(c);
    }
    client_object_unref(newest);
    bind_wake_users(s, bind_entry(c));
}

// --- The pod -------------------------------------------------------------------------------------

static void clear_status(struct binding *b)
{
    const struct api_pod *pod = bind_pod(b);
    cleanup_sbuf struct sbuf body = {0};
    if (!b->status_written || !b->node_statuses.n)
        return;
    sbuf_addf(&body,
              "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":"
              "{\"nodeAllocatableResourceClaimStatuses\":[]}}",
              STR_ARG(pod->metadata.uid));
    struct client_key key = {sched_kind(WATCH_PODS), pod->metadata.namespace, pod->metadata.name};
    client_patch(b->s->client, &key, CLIENT_PATCH_MERGE, sbuf_str(&body),
                 &(struct client_write){.subresource = STR("status")}, call_answered,
                 call_new(b->s, NULL, NULL));
}

static void give_back(struct binding *b)
{
    struct sched *s = b->s;
    struct sched_pod *p = b->pod;
    p->binding = NULL;
    if (p->assumed) {
        p->assumed = false;
        cluster_lift(&s->cluster, p);
        pod_needs(&s->cluster, p); // without what devices take
        sched_wake(s, WHY_BIT(WHY_RESOURCES) | WHY_BIT(WHY_PORTS) | WHY_BIT(WHY_SPREAD) |
                          WHY_BIT(WHY_POD_AFFINITY));
    }
    if (p->state != POD_BINDING)
        return;
    p->tried_ns = exec_now_ns(s->exec); // the attempt ends here
    if (b->give_way) {
        p->attempts = 1; // no fault of its own
    } else {
        s->stats.errors++;
        report_tell(s, p, "SchedulerError", sbuf_str(&b->error));
    }
    queue_retry(&s->queue, p);
}

static void undo_finished(struct binding *b)
{
    if (b->pod)
        give_back(b);
    bind_free(b);
}

// The pod is not tried again before it is clear that no write of this attempt is still under way: one
// that comes late would take the next attempt's reservation.
static void undone(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct binding *b = arg;
    (void)s;
    (void)answer;
    if (--b->pending == 0)
        undo_finished(b);
}

void bind_undo(struct binding *b)
{
    struct sched *s = b->s;
    exec_timer_stop(s->exec, &b->timer);
    b->step = BIND_UNDO;
    b->pending = 0;
    for (size_t i = 0; i < b->claims_len; i++)
        undo_claim(&b->claims[i]);
    if (b->special_key.n) {
        struct sched_claim **k = map_get(&s->claims.by_key, b->special_key);
        if (k)
            claims_land(&s->claims, *k);
    }
    clear_status(b);
    s->stats.gave_way += b->give_way;
    sched_wake(s, WHY_BIT(WHY_DEVICES));
    if (b->pending == 0)
        undo_finished(b);
}
