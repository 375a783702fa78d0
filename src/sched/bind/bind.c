// SPDX-License-Identifier: Apache-2.0
//
// From a decision to a bound pod: claims are written, the watch shows the writes, the pod's status
// is written, devices get ready, the pod is bound. Many pods are on this way at once.
#include "sched/bind/bind.h"

#include <stdarg.h>

#include "api/match/claim.h"
#include "codec/json_writer.h"
#include "sched/bind/bind_int.h"
#include "sched/bind/fence.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/report.h"
#include "sched/gang/gang.h"

#include "base/banned.h"

static void bind_write_claims(struct binding *b);
static void bind_check_echo(struct binding *b);
static void bind_write_pod_status(struct binding *b);
static void bind_send(struct binding *b);

// --- The steps -----------------------------------------------------------------------------------

// The whole way of a pod to its node. An answer of the API, news of a watch or a timer ends a step,
// with bind_next or bind_undo. After a failure no further step begins, all is taken back.
void bind_enter(struct binding *b, enum bind_step step)
{
    enum bind_step from = b->step;
    exec_timer_stop(b->s->exec, &b->timer); // of the step that ends
    if (b->failed) {
        bind_undo(b);
        return;
    }
    b->step = step;
    switch (step) {
    case BIND_VOLUMES:
        bind_volumes_start(b);
        break;
    case BIND_CLAIMS:
        bind_write_claims(b);
        break;
    case BIND_ECHO:
        bind_check_echo(b);
        break;
    case BIND_STATUS:
        bind_write_pod_status(b);
        break;
    case BIND_CONDITIONS: // again after the quorum: much may have happened to the devices
        bind_await_devices(b, from != BIND_QUORUM);
        break;
    case BIND_QUORUM:
        if (gang_arrive(b))
            bind_next(b);
        break;
    case BIND_POD:
        bind_send(b);
        break;
    case BIND_DECIDED:
    case BIND_UNDO:
        break;
    }
}

void bind_next(struct binding *b)
{
    bind_enter(b, (enum bind_step)(b->step + 1));
}

void bind_fail(struct binding *b, const char *fmt, ...)
{
    if (b->failed)
        return; // the first reason is the one
    b->failed = true;
    char text[DRAY_ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    sbuf_addz(&b->error, text);
}

// No answer is under way that would find out that the binding has failed.
bool bind_is_waiting(const struct binding *b)
{
    return b->step == BIND_DECIDED || b->step == BIND_QUORUM || b->step == BIND_CONDITIONS ||
           ((b->step == BIND_ECHO || b->step == BIND_VOLUMES) && !b->pending);
}

void bind_free(struct binding *b)
{
    exec_timer_stop(b->s->exec, &b->timer);
    gang_leave(b);
    if (b->in.take)
        gang_take_member_gone(b);
    list_remove(&b->node);
    for (size_t i = 0; i < b->claims_len; i++)
        bind_claim_done(&b->claims[i]);
    bind_volumes_free(b);
    typed_object_unref(b->pod_object);
    typed_object_unref(b->in.group);
    sbuf_done(&b->error);
    arena_done(&b->arena);
    free(b);
}

void bind_drop_all(struct sched *s)
{
    gang_drop_all(s);
    gang_take_drop_all(s);
    list_foreach(&s->writes.bindings, node)
        bind_free(list_entry(node, struct binding, node));
    bind_writers_done(s);
}

void bind_claim_done(struct bind_claim *c)
{
    claims_land(&c->b->s->claims, NULL, c->flight);
    typed_object_unref(c->object);
    typed_object_unref(c->decided);
}

void bind_land(struct binding *b)
{
    struct sched *s = b->s;
    for (size_t i = 0; i < b->claims_len; i++) {
        struct bind_claim *c = &b->claims[i];
        struct sched_claim **special =
            c->special ? map_get(&s->claims.by_key, b->special.key) : NULL;
        struct sched_claim *k = c->special ? (special ? *special : NULL) : bind_entry(c);
        claims_land(&s->claims, k, c->flight);
        c->flight = NULL;
    }
    bind_volumes_land(b);
}

// --- Start ---------------------------------------------------------------------------------------

static const struct api_allocation_result *bind_copy_result(struct binding *b,
                                                            const struct api_allocation_result *a)
{
    struct api_allocation_result *copy = arena_one(&b->arena, struct api_allocation_result);
    api_copy(&api_allocation_result_type, a, copy, &b->arena);
    return copy;
}

static void bind_take_special(struct attempt *a, struct binding *b, struct bind_claim *c)
{
    struct sched *s = a->s;
    c->special = true;
    b->special.claim = arena_one(&b->arena, struct api_resource_claim);
    api_copy(&api_resource_claim_type, a->special.claim, b->special.claim, &b->arena);
    b->special.mappings.n = a->special.mappings.n;
    b->special.mappings.p = arena_array(&b->arena, struct api_container_extended_resource_request,
                                        a->special.mappings.n + 1);
    for (size_t i = 0; i < a->special.mappings.n; i++)
        api_copy(&api_container_extended_resource_request_type, &a->special.mappings.p[i],
                 &b->special.mappings.p[i], &b->arena);
    // Until the claim exists, its devices are held under a name that no claim can have.
    struct str name =
        arena_strf(&b->arena, "<extended-resources>%.*s", STR_ARG(a->api->metadata.uid));
    struct sched_claim *k = claims_get(&s->claims, a->api->metadata.namespace, name);
    b->special.key = arena_str(&b->arena, k->key);
    c->flight = claims_fly(&s->claims, k, c->allocation, 0);
}

static void bind_take_claims(struct attempt *a, struct binding *b)
{
    size_t open = 0;
    b->claims = arena_array(&b->arena, struct bind_claim, a->wants_len + 1);
    for (size_t i = 0; i < a->wants_len; i++) {
        const struct want *w = &a->wants[i];
        if (w->special && !a->special.used)
            continue;
        struct bind_claim *c = &b->claims[b->claims_len++];
        c->b = b;
        if (!w->allocated) {
            assert(open < a->last.answer.results_len);
            c->allocation = bind_copy_result(b, &a->last.answer.results[open++]);
        } else if (w->pending) {
            c->allocation = bind_copy_result(b, w->allocation);
        }
        if (w->special) {
            bind_take_special(a, b, c);
            continue;
        }
        c->name = arena_str(&b->arena, w->claim->metadata.name);
        c->uid = arena_str(&b->arena, w->claim->metadata.uid);
        c->object = typed_object_ref(w->object);
        c->decided = typed_object_ref(w->object);
        c->group = w->group;
        if (w->pending)
            c->flight = claims_share(w->entry);
        else if (c->allocation)
            c->flight = claims_fly(&a->s->claims, w->entry, c->allocation, a->s->turn.gang_now);
    }
}

static void take_statuses(struct attempt *a, struct binding *b)
{
    b->node_statuses.n = a->last.statuses.n;
    b->node_statuses.p = arena_array(&b->arena, struct api_node_allocatable_resource_claim_status,
                                     a->last.statuses.n + 1);
    for (size_t i = 0; i < a->last.statuses.n; i++)
        api_copy(&api_node_allocatable_resource_claim_status_type, &a->last.statuses.p[i],
                 &b->node_statuses.p[i], &b->arena);
}

// Counts the pod on the node, with what its devices will take there.
static void bind_assume_pod(struct attempt *a, struct sched_node *n)
{
    if (a->last.statuses.n)
        needs_of_pod(&a->s->cluster, a->pod, &a->last.statuses);
    a->pod->assumed = true;
    cluster_place(&a->s->cluster, a->pod, n);
}

struct binding *bind_prepare(struct attempt *a, struct sched_node *n)
{
    struct sched *s = a->s;
    struct binding *b = xcalloc(1, sizeof(*b));
    *b = (struct binding){.s = s, .pod = a->pod, .pod_object = typed_object_ref(a->pod->object)};
    b->node_name = arena_str(&b->arena, n->name);
    if (a->pod->group && a->pod->group->object)
        b->in.group = typed_object_ref(a->pod->group->object);
    list_push_back(&s->writes.bindings, &b->node);
    bind_take_claims(a, b);
    take_statuses(a, b);
    bind_volumes_take(a, b, n);
    bind_assume_pod(a, n);
    queue_bind(&s->queue, a->pod);
    a->pod->binding = b;
    return b;
}

void bind_revert(struct binding *b)
{
    struct sched_pod *p = b->pod;
    bind_land(b);
    p->binding = NULL;
    p->assumed = false;
    cluster_lift(&b->s->cluster, p);
    needs_of_pod(&b->s->cluster, p, NULL); // without what devices take
    queue_leave(&b->s->queue, p);
    bind_free(b);
}

void bind_start(struct attempt *a, struct sched_node *n)
{
    bind_next(bind_prepare(a, n));
}

// --- Claims --------------------------------------------------------------------------------------

static void bind_write_claims(struct binding *b)
{
    meter_bind_prepared(b);
    b->pending = b->claims_len + 1; // one is ours: nothing goes on before all are started
    for (size_t i = 0; i < b->claims_len; i++)
        bind_claim_start(&b->claims[i]);
    bind_claim_finished(b);
}

void bind_claim_finished(struct binding *b)
{
    assert(b->pending);
    if (--b->pending == 0)
        bind_next(b);
}

static uint32_t node_index(const struct binding *b)
{
    struct sched_node **n = map_get(&b->s->cluster.nodes, b->node_name);
    return n ? (*n)->index : UINT32_MAX;
}

// Does another pod run with the claim? Who was bound to it had it judged before.
static bool bind_claim_in_use(const struct binding *b, const struct api_resource_claim *claim)
{
    const struct api_object_meta *mine = &bind_pod(b)->metadata;
    cleanup_sbuf struct sbuf key = {0};
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        const struct api_resource_claim_consumer_reference *r = &claim->status.reserved_for.p[i];
        if (consumer_is_group(r)) {
            if (groups_runs_with(b->s, r, claim))
                return true;
            continue;
        }
        sbuf_clear(&key);
        sbuf_addf(&key, "%.*s/%.*s", STR_ARG(mine->namespace), STR_ARG(r->name));
        const struct sched_pod *p = cluster_pod(&b->s->cluster, sbuf_str(&key));
        if (p && str_eq(p->api->metadata.uid, r->uid) && !str_eq(r->uid, mine->uid) &&
            p->api->spec.node_name.n)
            return true;
    }
    return false;
}

// Two schedulers may have given one device to two claims. Of such allocations the one that was
// stored first stands. When the watch has shown our write it has shown all earlier ones, so each
// scheduler knows before it binds whether its own stands. An allocation that was there before, but
// that no pod runs with yet, may be one that was never looked at so, or is about to be taken back:
// a reservation of another pod proves nothing.
//
// After a wait for a scheduler that does not look, later allocations take precedence, too.
static bool bind_allocations_stand(struct binding *b)
{
    for (size_t i = 0; i < b->claims_len; i++) {
        struct bind_claim *c = &b->claims[i];
        struct sched_claim *k = bind_entry(c);
        const struct api_resource_claim *claim = claims_api(k);
        if (!claim || !k->user.allocation || !index_contested(&k->user) ||
            bind_claim_in_use(b, claim))
            continue;
        uint64_t before = b->settled ? UINT64_MAX : k->user.revision;
        if (index_stands(b->s->devices, node_index(b), &k->user, claim, before))
            continue;
        bind_fail(b, "another scheduler allocated a device of claim %.*s first", STR_ARG(c->name));
        b->give_way = true;
        c->gives_way = true;
        k->lost = c->group;
        return false;
    }
    return true;
}

static void bind_on_bound(struct binding *b)
{
    struct sched *s = b->s;
    bool left = bind_volumes_left(b);
    meter_bind_over(b, true);
    bind_land(b);
    if (left) // news that it was free came while it was still held
        sched_wake(s, WHY_BIT(WHY_VOLUMES));
    for (size_t i = 0; i < b->claims_len; i++)
        if (b->claims[i].allocation)
            bind_wake_users(s, bind_entry(&b->claims[i]));
    s->stats.bound++;
    if (b->pod) {
        struct sched_pod *p = b->pod;
        meter_bound(s, p);
        report_bound(s, b->pod_object, b->node_name);
        p->binding = NULL;
        if (p->state == POD_BINDING)
            queue_leave(&s->queue, p);
    }
    bind_free(b);
}

// Whether a refusal proves that this pod was not bound.
static bool bind_is_refusal(int code)
{
    return code == -ERR_NOT_FOUND || code == -ERR_INVALID || code == -ERR_BAD_REQUEST ||
           code == -ERR_FORBIDDEN || code == -ERR_UNAUTHORIZED || code == -ERR_UNSUPPORTED;
}

// To take the reservation from a pod that runs would let its devices go to another; to bind it
// again once another has put up a fence would rely on claims that may be gone.
void bind_pod_is(struct binding *b, enum pod_is is)
{
    if (b->in.take) {
        bool open = is == POD_IS_OPEN || is == POD_IS_FENCED;
        if (open && ++b->tries < CLAIM_TRIES)
            bind_undo_again(b, false);
        else
            gang_take_fenced(b, is == POD_IS_GONE);
    } else if (is == POD_IS_BOUND && !b->undo.cleanup) {
        bind_on_bound(b);
    } else if (is == POD_IS_BOUND || is == POD_IS_ELSEWHERE) {
        bind_leave(b); // the scheduler that bound it relies on its claims
    } else if (b->step == BIND_UNDO) {
        bind_undo_again(b, is == POD_IS_GONE);
    } else if (is == POD_IS_OPEN && ++b->tries < CLAIM_TRIES) {
        bind_enter(b, b->step); // write once more
    } else {
        bind_undo(b);
    }
}

static void bind_write_failed(struct binding *b, const struct client_answer *answer)
{
    sbuf_clear(&b->error);
    if (b->step == BIND_POD)
        sbuf_addf(&b->error, "binding to node %.*s", STR_ARG(b->node_name));
    else
        sbuf_addz(&b->error, "update status of pod");
    sbuf_addf(&b->error, ": %s", answer->err ? answer->err->msg : "no answer");
    if (bind_is_refusal(answer->code))
        bind_undo(b);
    else
        fence_look(b); // the pod itself knows
}

static void bind_on_written(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct binding *b = arg;
    (void)s;
    if (answer->code < 0 || (b->step == BIND_STATUS && !answer->object)) {
        bind_write_failed(b, answer);
    } else if (b->step == BIND_POD) {
        bind_on_bound(b);
    } else {
        fence_hold_pod(b, answer->object);
        bind_next(b);
    }
}

// The Binding holds for the pod as this attempt knows it: a fence makes it fail.
static void bind_send(struct binding *b)
{
    struct sched *s = b->s;
    meter_bind_written(b);
    b->sent = true;
    client_bind(s->client, b->pod_object->meta, b->node_name, calls_on_answer,
                calls_begin(s, bind_on_written, b));
}

// --- The pod's status ----------------------------------------------------------------------------

static struct str bind_special_name(const struct binding *b)
{
    for (size_t i = 0; i < b->claims_len; i++)
        if (b->claims[i].special)
            return b->claims[i].name;
    return (struct str){0};
}

static bool bind_write_list(struct json_writer *w, const char *key, const struct api_type *type,
                            const void *p, size_t n)
{
    struct err err;
    json_write_key(w, str_z(key));
    json_write_array_begin(w);
    for (size_t i = 0; i < n; i++)
        if (api_json_write(type, (const char *)p + i * type->size, w, &err) < 0)
            return false;
    json_write_array_end(w);
    return true;
}

static void name_special(struct binding *b)
{
    for (size_t i = 0; i < b->node_statuses.n; i++)
        if (str_eqz(b->node_statuses.p[i].resource_claim_name, "<extended-resources>"))
            b->node_statuses.p[i].resource_claim_name = bind_special_name(b);
}

static void bind_write_pod_status(struct binding *b)
{
    struct sched *s = b->s;
    const struct api_pod *pod = bind_pod(b);
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    if (!b->special.mappings.n && !b->node_statuses.n) {
        bind_next(b);
        return;
    }
    json_write_object_begin(&w);
    fence_write_identity(&w, &pod->metadata);
    json_write_key(&w, STR("status"));
    json_write_object_begin(&w);
    if (b->special.mappings.n) {
        json_write_key(&w, STR("extendedResourceClaimStatus"));
        json_write_object_begin(&w);
        (void)bind_write_list(&w, "requestMappings", &api_container_extended_resource_request_type,
                              b->special.mappings.p, b->special.mappings.n);
        json_write_key(&w, STR("resourceClaimName"));
        json_write_str(&w, bind_special_name(b));
        json_write_object_end(&w);
    }
    if (b->node_statuses.n) {
        name_special(b);
        (void)bind_write_list(&w, "nodeAllocatableResourceClaimStatuses",
                              &api_node_allocatable_resource_claim_status_type, b->node_statuses.p,
                              b->node_statuses.n);
    }
    json_write_object_end(&w);
    json_write_object_end(&w);
    struct client_key key = {sched_kind(WATCH_PODS), pod->metadata.namespace, pod->metadata.name};
    client_patch(s->client, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&body),
                 &(struct client_write){.subresource = STR("status")}, calls_on_answer,
                 calls_begin(s, bind_on_written, b));
}

// --- News ----------------------------------------------------------------------------------------

static bool bind_claim_echoed(const struct bind_claim *c, bool *ret_gone)
{
    const struct sched_claim *k = bind_entry(c);
    if (!c->revision)
        return true;
    if (!k || !k->latest || !str_eq(k->latest->meta->uid, c->object->meta->uid)) {
        *ret_gone = true;
        return false;
    }
    return k->seen && k->seen->revision >= c->revision;
}

static void bind_on_settled(void *arg)
{
    struct binding *b = arg;
    b->settled = true;
    bind_check_echo(b);
}

// Beside a scheduler that does not look we wait before the Binding, and give way to what has come
// (stands). True: wait.
static bool bind_wait_to_settle(struct binding *b)
{
    struct exec *exec = b->s->exec;
    int64_t wait_ns = beside_settle_ns(b->s);
    bool ours = false;
    for (size_t i = 0; i < b->claims_len; i++)
        ours |= b->claims[i].allocation != NULL;
    if (!ours || b->settled || wait_ns == 0)
        return false;
    if (exec_timer_armed(&b->timer))
        return true;
    b->timer = (struct exec_timer){.fn = bind_on_settled, .arg = b};
    exec_timer_start(exec, &b->timer, wait_ns);
    return true;
}

static void bind_check_echo(struct binding *b)
{
    // A list comes in order of names: until it is complete an earlier allocation may be missing.
    if (b->claims_len && informer_revision(b->s->watch.informers[WATCH_CLAIMS]) == 0) {
        b->s->writes.echo_later = true;
        return;
    }
    for (size_t i = 0; i < b->claims_len; i++) {
        bool gone = false;
        if (bind_claim_echoed(&b->claims[i], &gone))
            continue;
        if (gone) {
            bind_fail(b, "claim %.*s was deleted in the meantime", STR_ARG(b->claims[i].name));
            bind_undo(b);
        }
        return;
    }
    if (!bind_allocations_stand(b))
        bind_undo(b);
    else if (!bind_wait_to_settle(b))
        bind_next(b);
}

void bind_claims_listed(struct sched *s)
{
    if (!s->writes.echo_later)
        return;
    s->writes.echo_later = false;
    list_foreach(&s->writes.bindings, node) {
        struct binding *b = list_entry(node, struct binding, node);
        if (b->step == BIND_ECHO && !b->pending)
            bind_check_echo(b);
    }
}

void bind_claim_changed(struct sched *s, struct sched_claim *k)
{
    (void)s;
    // Only pods in the index can have a binding with this claim; a binding may end while we look.
    for (size_t i = k->pods.n; i-- > 0;) {
        struct binding *b = i < k->pods.n ? k->pods.p[i]->binding : NULL;
        if (b && b->step == BIND_ECHO && !b->pending)
            bind_check_echo(b);
        else if (b && b->step == BIND_CONDITIONS)
            bind_check_conditions(b);
    }
}

void bind_pod_changed(struct sched *s, struct sched_pod *p)
{
    (void)s;
    if (!p->binding)
        return;
    // The pod is gone: answers under way find out; a wait ends here.
    struct binding *b = p->binding;
    b->pod = NULL;
    p->binding = NULL;
    p->assumed = false;
    bind_fail(b, "the pod was deleted");
    if (bind_is_waiting(b))
        bind_undo(b);
}
