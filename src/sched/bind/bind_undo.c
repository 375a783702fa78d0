// SPDX-License-Identifier: Apache-2.0
//
// Taking back: reservations, allocations that gave way, special claims, the pod's place. First the
// fence, so that no Binding that relies on them can come any more; then the claims, each in the
// version known before the fence. Whatever stays behind is found by the next attempt or by the
// claim controller.
#include "api/match/claim.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"
#include "sched/bind/fence.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/report.h"

#include "base/banned.h"

static void bind_undo_start(struct binding *b);

void bind_wake_users(struct sched *s, struct sched_claim *k)
{
    for (size_t i = 0; k && i < k->pods.n; i++)
        if (k->pods.p[i]->state == POD_GATED)
            sched_enqueue(s, k->pods.p[i]);
}

static const struct api_resource_claim *bind_undo_claim_of(const struct bind_claim *c)
{
    assert(c->object);
    return c->object->object.value;
}

// --- The pod -------------------------------------------------------------------------------------

static void retry_cleaned(struct binding *b, struct sched_pod *p)
{
    if (b->undo.slow) {
        p->queue.tried_ns = exec_now_ns(b->s->exec);
        p->queue.attempts += p->queue.attempts == 0;
    }
    queue_retry(&b->s->queue, p);
}

static void bind_undo_give_back(struct binding *b)
{
    struct sched *s = b->s;
    struct sched_pod *p = b->pod;
    p->binding = NULL;
    p->on.evicted = false; // if it was sent back to make room, that is done
    if (p->assumed) {
        struct sched_node *waited = list_empty(&p->node->nominated) ? NULL : p->node;
        p->assumed = false;
        cluster_lift(&s->cluster, p);
        needs_of_pod(&s->cluster, p, NULL); // without what devices take
        sched_wake(s, sched_room_whys(p));
        if (waited)
            preempt_room(s, waited);
    }
    if (p->state != POD_BINDING)
        return;
    if (b->undo.cleanup) {
        retry_cleaned(b, p);
        return;
    }
    p->queue.tried_ns = exec_now_ns(s->exec); // the attempt ends here
    if (b->give_way) {
        p->queue.attempts = 1; // no fault of its own
    } else {
        s->stats.errors++;
        meter_attempt(s, p, METER_ERROR);
        report_set_message(s, p, "SchedulerError", sbuf_str(&b->error));
    }
    queue_retry(&s->queue, p);
}

void bind_finish(struct binding *b)
{
    if (b->pod)
        bind_undo_give_back(b);
    bind_free(b);
}

// --- The fence -----------------------------------------------------------------------------------

// The fence is up, or nothing is left to be fenced.
static void bind_undo_proceed(struct binding *b)
{
    if (b->in.take)
        gang_take_fenced(b, true);
    else
        bind_undo_start(b);
}

static void bind_undo_on_fenced(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct binding *b = arg;
    (void)s;
    switch (-answer->code) {
    case 0:
        if (answer->object)
            fence_hold_pod(b, answer->object);
        bind_undo_proceed(b);
        break;
    case ERR_NOT_FOUND:
        b->undo.gone = true;
        bind_undo_proceed(b);
        break;
    case ERR_INVALID:
    case ERR_BAD_REQUEST:
    case ERR_FORBIDDEN:
    case ERR_UNAUTHORIZED:
    case ERR_UNSUPPORTED:
        b->undo.slow = true;
        if (b->in.take)
            gang_take_fenced(b, false);
        else
            bind_leave(b);
        break;
    default:
        fence_look(b);
    }
}

void bind_undo_again(struct binding *b, bool gone)
{
    b->undo.gone = gone;
    if (gone)
        bind_undo_start(b);
    else
        fence_send(b, bind_undo_on_fenced);
}

// An allocation that gives way is cleared by the last that has it reserved: others may run with it,
// or be about to, and no fence was put up for them.
static bool must_take(const struct bind_claim *c)
{
    return c->object && c->name.n &&
           (c->special || c->reserved ||
            (c->gives_way && claims_only_for(bind_undo_claim_of(c), bind_pod(c->b))));
}

// A claim that is not reserved for the pod is nothing that a Binding of it could rely on: its own
// version is guard enough.
static bool needs_fence(const struct binding *b)
{
    for (size_t i = 0; i < b->claims_len; i++) {
        const struct bind_claim *c = &b->claims[i];
        if (must_take(c) &&
            (c->special || c->reserved ||
             claim_is_reserved_for(bind_undo_claim_of(c), bind_pod(b)->metadata.uid)))
            return true;
    }
    return b->sent;
}

// --- Claims --------------------------------------------------------------------------------------

// The pod is not tried again before it is clear that no write of this attempt is still under way.
static void bind_undo_claim_done(struct binding *b)
{
    bool again = false;
    if (--b->pending)
        return;
    for (size_t i = 0; i < b->claims_len; i++) {
        again |= b->claims[i].again;
        b->claims[i].again = false;
    }
    if (!again) {
        bind_finish(b);
    } else if (++b->tries < CLAIM_TRIES) {
        fence_send(b,
                   bind_undo_on_fenced); // the writer of the claim may have bound the pod by now
    } else {
        b->undo.slow = true;
        bind_finish(b);
    }
}

static void claim_read(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_claim *c = arg;
    struct binding *b = c->b;
    const struct typed_object *o = answer->code == 0 ? answer->object : NULL;
    c->again = false;
    if (o && str_eq(o->meta->uid, c->object->meta->uid)) {
        bind_hold_claim(c, o);
        struct sched_claim *k = claims_get(&s->claims, o->meta->namespace, o->meta->name);
        claims_learn(&s->claims, k, o);
        c->reserved =
            !c->special && claim_is_reserved_for(bind_undo_claim_of(c), bind_pod(b)->metadata.uid);
        c->gives_way = c->gives_way && bind_undo_claim_of(c)->status.allocation;
        c->again = must_take(c);
    }
    bind_undo_claim_done(b);
}

static void bind_undo_read_again(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    const struct client_key key = {sched_kind(WATCH_CLAIMS), c->object->meta->namespace, c->name};
    client_get(s->client, &key, calls_on_answer, calls_begin(s, claim_read, c));
}

static void delete_step(struct bind_claim *c);

static void claim_written(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_claim *c = arg;
    struct binding *b = c->b;
    if (answer->code == -ERR_CONFLICT) {
        bind_undo_read_again(c);
        return;
    }
    if (answer->code == 0 && answer->object) {
        struct sched_claim *k =
            claims_get(&s->claims, answer->object->meta->namespace, answer->object->meta->name);
        claims_learn(&s->claims, k, answer->object);
        bind_hold_claim(c, answer->object);
        if (c->special) {
            delete_step(c);
            return;
        }
    } else if (answer->code != -ERR_NOT_FOUND) {
        b->undo.slow = true; // perhaps it was written, perhaps not: the next attempt looks
    }
    bind_undo_claim_done(b);
}

static void claim_deleted(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_claim *c = arg;
    (void)s;
    (void)answer;
    bind_undo_claim_done(c->b);
}

static void bind_undo_send_update(struct bind_claim *c, struct api_resource_claim *changed,
                                  struct str subresource)
{
    struct sched *s = c->b->s;
    const struct api_object o = {sched_kind(WATCH_CLAIMS), changed};
    client_update(s->client, &o, &(struct client_write){.subresource = subresource},
                  calls_on_answer, calls_begin(s, claim_written, c));
}

static void bind_undo_deallocate(struct bind_claim *c)
{
    struct api_resource_claim changed = *bind_undo_claim_of(c);
    changed.status = (struct api_resource_claim_status){0};
    bind_undo_send_update(c, &changed, STR("status"));
}

// Takes the pod out of reservedFor; the allocation stays.
static void bind_undo_unreserve(struct bind_claim *c)
{
    struct arena tmp = {0};
    struct api_resource_claim changed = *bind_undo_claim_of(c);
    const struct api_resource_claim_consumer_reference_array was = changed.status.reserved_for;
    struct api_resource_claim_consumer_reference *list =
        arena_array(&tmp, struct api_resource_claim_consumer_reference, was.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < was.n; i++)
        if (!str_eq(was.p[i].uid, bind_pod(c->b)->metadata.uid))
            list[n++] = was.p[i];
    changed.status.reserved_for = (struct api_resource_claim_consumer_reference_array){list, n};
    bind_undo_send_update(c, &changed, STR("status"));
    arena_done(&tmp);
}

static void bind_undo_remove_finalizer(struct bind_claim *c)
{
    struct arena tmp = {0};
    struct api_resource_claim changed = *bind_undo_claim_of(c);
    const struct api_str_array old = changed.metadata.finalizers;
    struct str *list = arena_array(&tmp, struct str, old.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < old.n; i++)
        if (!str_eq(old.p[i], STR(CLAIM_FINALIZER)))
            list[n++] = old.p[i];
    changed.metadata.finalizers = (struct api_str_array){list, n};
    bind_undo_send_update(c, &changed, (struct str){0});
    arena_done(&tmp);
}

// The allocation goes before the finalizer, the finalizer before the claim: wherever this ends,
// devices are free if and only if no allocation names them.
static void delete_step(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    const struct api_resource_claim *claim = bind_undo_claim_of(c);
    c->b->undo.slow = true;
    if (claim->status.allocation || claim->status.reserved_for.n) {
        bind_undo_deallocate(c);
    } else if (meta_has_finalizer(&claim->metadata, STR(CLAIM_FINALIZER))) {
        bind_undo_remove_finalizer(c);
    } else {
        const struct client_key key = {sched_kind(WATCH_CLAIMS), claim->metadata.namespace,
                                       c->name};
        struct api_preconditions same = {.uid = claim->metadata.uid, .has_uid = true};
        const struct api_delete_options options = {.preconditions = &same};
        client_delete(s->client, &key, &options, calls_on_answer, calls_begin(s, claim_deleted, c));
    }
}

// A claim whose last user is gone is freed, as by the claim controller. Left without a reservation
// it would look as if somebody had put it there to stay, to a controller that missed what was in
// between.
static bool is_orphan(const struct bind_claim *c)
{
    return c->b->undo.gone && c->reserved;
}

static void bind_undo_take_claim(struct bind_claim *c)
{
    if (!must_take(c))
        return;
    c->b->pending++;
    if (c->special)
        delete_step(c);
    else if ((c->gives_way || is_orphan(c)) &&
             claims_only_for(bind_undo_claim_of(c), bind_pod(c->b)))
        bind_undo_deallocate(c);
    else
        bind_undo_unreserve(c);
}

static void bind_undo_start(struct binding *b)
{
    b->pending = 1; // ours, until all are started
    for (size_t i = 0; i < b->claims_len; i++)
        bind_undo_take_claim(&b->claims[i]);
    bind_undo_claim_done(b);
}

// --- Beginning -----------------------------------------------------------------------------------

// What is taken is taken from the version that was known before the fence: a scheduler that relies
// on the claim after the fence has written it, and so is safe.
static void bind_undo_remember_claim(struct bind_claim *c)
{
    const struct sched_claim *k = bind_entry(c);
    const struct typed_object *newest = k ? k->latest : NULL;
    if (newest && (!c->object || (newest->revision > c->object->revision &&
                                  str_eq(newest->meta->uid, c->object->meta->uid))))
        bind_hold_claim(c, newest);
    if (c->reserved && c->object &&
        !claim_is_reserved_for(bind_undo_claim_of(c), bind_pod(c->b)->metadata.uid))
        c->reserved = false; // gone already
}

static void bind_undo_release_assumed(struct binding *b)
{
    struct sched *s = b->s;
    exec_timer_stop(s->exec, &b->timer);
    gang_leave(b);
    b->step = BIND_UNDO;
    for (size_t i = 0; i < b->claims_len; i++)
        bind_undo_remember_claim(&b->claims[i]);
    bind_land(b);
    for (size_t i = 0; i < b->claims_len; i++)
        bind_wake_users(s, bind_entry(&b->claims[i]));
    sched_wake(s, WHY_BIT(WHY_DEVICES) | (b->volume.n ? WHY_BIT(WHY_VOLUMES) : 0));
}

void bind_undo(struct binding *b)
{
    meter_bind_over(b, false);
    bind_undo_release_assumed(b);
    b->s->stats.gave_way += b->give_way;
    b->tries = 0;
    if (needs_fence(b))
        fence_send(b, bind_undo_on_fenced);
    else
        bind_undo_start(b);
}

void bind_leave(struct binding *b)
{
    meter_bind_over(b, false);
    bind_undo_release_assumed(b);
    bind_finish(b);
}

// --- Without an attempt --------------------------------------------------------------------------

static struct binding *cleanup_new(struct sched *s, struct sched_pod *p, size_t claims)
{
    struct binding *b = xcalloc(1, sizeof(*b));
    *b = (struct binding){.s = s, .pod = p, .undo.cleanup = true};
    b->pod_object = typed_object_ref(p->object);
    b->claims = arena_array(&b->arena, struct bind_claim, claims);
    return b;
}

static struct bind_claim *cleanup_add(struct binding *b, const struct typed_object *claim)
{
    struct bind_claim *c = &b->claims[b->claims_len++];
    c->b = b;
    c->name = arena_str(&b->arena, claim->meta->name);
    c->uid = arena_str(&b->arena, claim->meta->uid);
    c->object = typed_object_ref(claim);
    return c;
}

static void cleanup_start(struct binding *b)
{
    list_push_back(&b->s->writes.bindings, &b->node);
    queue_bind(&b->s->queue, b->pod);
    b->pod->binding = b;
    bind_undo(b);
}

struct binding *bind_fence(struct sched *s, struct sched_pod *p, struct group_take *t)
{
    struct binding *b = cleanup_new(s, p, 0);
    b->in.take = t;
    b->undo.slow = true;
    b->step = BIND_UNDO;
    list_push_back(&s->writes.bindings, &b->node);
    queue_bind(&s->queue, p);
    p->binding = b;
    fence_send(b, bind_undo_on_fenced);
    return b;
}

void bind_deallocate(struct sched *s, struct sched_pod *p, const struct typed_object *claim)
{
    struct binding *b = cleanup_new(s, p, 1);
    cleanup_add(b, claim)->gives_way = true;
    b->undo.slow = true;
    cleanup_start(b);
}

bool bind_leftovers(struct sched *s, struct sched_pod *p)
{
    struct binding *b = NULL;
    for (size_t i = 0; !p->binding && i < p->claims_len; i++) {
        struct sched_claim **k = map_get(&s->claims.by_key, p->claims[i]);
        const struct api_resource_claim *claim = k ? claims_api(*k) : NULL;
        bool special = claim && dra_is_special(claim, p->api);
        if (!claim || (!special && !claim_is_reserved_for(claim, p->api->metadata.uid)))
            continue;
        if (!b)
            b = cleanup_new(s, p, p->claims_len);
        struct bind_claim *c = cleanup_add(b, (*k)->latest);
        c->special = special;
        c->reserved = !special;
    }
    if (b)
        cleanup_start(b);
    return b != NULL;
}
