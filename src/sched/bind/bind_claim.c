// SPDX-License-Identifier: Apache-2.0
//
// Writing a claim for a pod: finalizer, then allocation and reservation in one status update. After
// a conflict the claim is read and the write retried.
#include "api/match/claim.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"
#include "sched/dra/dra_int.h"

#include "base/banned.h"

static void bind_claim_next(struct bind_claim *c);
static void bind_claim_end(struct bind_claim *c);

struct sched_claim *bind_entry(const struct bind_claim *c)
{
    return c->name.n ? claims_find(&c->b->s->claims, bind_pod(c->b)->metadata.namespace, c->name)
                     : NULL;
}

void bind_hold_claim(struct bind_claim *c, const struct typed_object *o)
{
    const struct typed_object *old = c->object;
    c->object = typed_object_ref(o);
    typed_object_unref(old);
}

// --- One writer a claim --------------------------------------------------------------------------

static void claim_key(const struct bind_claim *c, struct sbuf *out)
{
    sbuf_addf(out, "%.*s/%.*s", STR_ARG(bind_pod(c->b)->metadata.namespace), STR_ARG(c->name));
}

static struct claim_writer *writer_of(const struct bind_claim *c)
{
    cleanup_sbuf struct sbuf key = {0};
    claim_key(c, &key);
    struct claim_writer **w = map_get(&c->b->s->writes.writers, sbuf_str(&key));
    return w ? *w : NULL;
}

// True: no other binding writes the claim. False: next_writer calls when it is this one's turn.
static bool may_write(struct bind_claim *c)
{
    cleanup_sbuf struct sbuf key = {0};
    struct claim_writer *w = writer_of(c);
    if (w) {
        list_push_back(&w->waiting, &c->wait);
        return false;
    }
    w = xcalloc(1, sizeof(*w));
    w->writer = c;
    list_init(&w->waiting);
    claim_key(c, &key);
    struct str mine = str_make(xstrndup(key.p, key.n), key.n);
    *map_put(&c->b->s->writes.writers, mine) = w;
    return true;
}

void bind_writers_done(struct sched *s)
{
    map_foreach(&s->writes.writers, i) {
        free(*map_value(&s->writes.writers, i));
        free((void *)(uintptr_t)map_key(&s->writes.writers, i).p);
    }
    map_done(&s->writes.writers);
}

static void forget_writer(struct sched *s, struct str key, struct claim_writer *w)
{
    struct str mine = map_key(&s->writes.writers, map_index_find(&s->writes.writers.index, key));
    (void)map_del(&s->writes.writers, mine);
    free((void *)(uintptr_t)mine.p);
    free(w);
}

// Thousands may wait for the same obstacle: a writer that gives up at once returns to this loop, so
// that the stack does not grow.
static void next_writer(struct sched *s, struct str key, struct claim_writer *w)
{
    struct list_node *n;
    while (!w->writer && (n = list_pop_front(&w->waiting))) {
        struct bind_claim *c = list_entry(n, struct bind_claim, wait);
        w->turning = true;
        w->writer = c;
        const struct sched_claim *k = bind_entry(c);
        if (k && k->latest)
            bind_hold_claim(c, k->latest);
        if (c->b->failed)
            bind_claim_end(c);
        else
            bind_claim_next(c);
        w->turning = false;
    }
    if (!w->writer)
        forget_writer(s, key, w);
}

static void bind_claim_end(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    struct claim_writer *w = writer_of(c);
    cleanup_sbuf struct sbuf key = {0};
    claim_key(c, &key);
    bool was_writer = w && w->writer == c;
    list_remove(&c->wait);
    bind_claim_finished(c->b); // the binding may be gone now
    if (!was_writer)
        return;
    w->writer = NULL;
    if (!w->turning)
        next_writer(s, sbuf_str(&key), w);
}

// The consumer that the claim is reserved for: the pod, or its group.
static struct api_resource_claim_consumer_reference bind_claim_consumer(const struct bind_claim *c)
{
    return consumer_reference_to(c->group ? c->b->in.group->meta : &bind_pod(c->b)->metadata,
                                 c->group);
}

// Is the stored allocation the one of this attempt? Then the answer to its write got lost.
static bool bind_claim_is_ours(const struct api_allocation_result *stored,
                               const struct api_allocation_result *a)
{
    const struct api_device_request_allocation_result_array *x = &stored->devices.results;
    const struct api_device_request_allocation_result_array *y = &a->devices.results;
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (!api_equal(&api_device_request_allocation_result_type, &x->p[i], &y->p[i]))
            return false;
    return true;
}

// May a write that leaves this allocation carry the reservation of another that waits?
static bool bind_claim_can_share_write(const struct bind_claim *other,
                                       const struct api_resource_claim *claim,
                                       const struct api_allocation_result *allocation)
{
    if (other->b->failed || !str_eq(other->uid, claim->metadata.uid))
        return false;
    if (!other->group && claim_is_reserved_for(claim, bind_pod(other->b)->metadata.uid))
        return false; // another attempt's
    if (other->allocation && !(allocation && bind_claim_is_ours(allocation, other->allocation)))
        return false;
    return true;
}

// Adds the reservations of those that wait for nothing else; the list of changed has room for them.
static void bind_claim_add_sharers(struct bind_claim *c, const struct api_resource_claim *claim,
                                   const struct api_allocation_result *allocation,
                                   struct api_resource_claim *changed)
{
    struct api_resource_claim_consumer_reference_array *list = &changed->status.reserved_for;
    list_foreach(&writer_of(c)->waiting, node) {
        struct bind_claim *other = list_entry(node, struct bind_claim, wait);
        if ((list->n >= RESERVED_MAX && !other->group) ||
            !bind_claim_can_share_write(other, claim, allocation))
            continue;
        struct api_resource_claim_consumer_reference consumer = bind_claim_consumer(other);
        bool listed = claim_is_reserved_for(changed, consumer.uid);
        if (!listed && list->n >= RESERVED_MAX)
            continue;
        other->riding = true;
        if (!listed)
            list->p[list->n++] = consumer;
    }
}

static void bind_claim_finish_sharers(struct bind_claim *c, bool well)
{
    struct claim_writer *w = writer_of(c);
    list_foreach(&w->waiting, node) {
        struct bind_claim *other = list_entry(node, struct bind_claim, wait);
        if (!other->riding)
            continue;
        other->riding = false;
        if (!well)
            continue;
        other->reserved = !other->group;
        other->revision = c->revision;
        bind_hold_claim(other, c->object);
        bind_claim_end(other);
    }
}

// --- Requests ------------------------------------------------------------------------------------

static void bind_claim_on_answer(struct sched *s, void *arg, const struct client_answer *answer);

static void bind_claim_create(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    struct api_resource_claim claim = *c->b->special.claim;
    claim.metadata.name = (struct str){0};
    struct api_object o = {sched_kind(WATCH_CLAIMS), &claim};
    client_create(s->client, &o, NULL, calls_on_answer, calls_begin(s, bind_claim_on_answer, c));
}

static void bind_claim_read(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    struct client_key key = {sched_kind(WATCH_CLAIMS), bind_pod(c->b)->metadata.namespace, c->name};
    client_get(s->client, &key, calls_on_answer, calls_begin(s, bind_claim_on_answer, c));
}

static void bind_claim_send_update(struct bind_claim *c, struct api_resource_claim *claim,
                                   struct str subresource)
{
    struct sched *s = c->b->s;
    struct api_object o = {sched_kind(WATCH_CLAIMS), claim};
    c->sent_ns = exec_now_ns(s->exec);
    client_update(s->client, &o, &(struct client_write){.subresource = subresource},
                  calls_on_answer, calls_begin(s, bind_claim_on_answer, c));
}

static void bind_claim_write_finalizer(struct bind_claim *c, const struct api_resource_claim *claim)
{
    struct arena tmp = {0};
    struct api_resource_claim changed = *claim;
    size_t n = claim->metadata.finalizers.n;
    struct str *list = arena_array(&tmp, struct str, n + 1);
    for (size_t i = 0; i < n; i++)
        list[i] = claim->metadata.finalizers.p[i];
    list[n] = STR(CLAIM_FINALIZER);
    changed.metadata.finalizers = (struct api_str_array){list, n + 1};
    bind_claim_send_update(c, &changed, (struct str){0});
    arena_done(&tmp);
}

static struct api_allocation_result *bind_claim_stamp(const struct bind_claim *c,
                                                      struct arena *arena)
{
    const struct sched *s = c->b->s;
    struct api_allocation_result *a = arena_one(arena, struct api_allocation_result);
    *a = *c->allocation;
    if (features_on(&s->config.features, FEATURE_DRA_DEVICE_BINDING_CONDITIONS) &&
        !a->allocation_timestamp.set) {
        a->allocation_timestamp.at = moment_from_ns(exec_wall_ns(s->exec));
        a->allocation_timestamp.at.nsec = 0;
        a->allocation_timestamp.set = true;
    }
    return a;
}

static void bind_claim_write_status(struct bind_claim *c, const struct api_resource_claim *claim)
{
    struct arena tmp = {0};
    struct api_resource_claim changed = *claim;
    size_t n = claim->status.reserved_for.n;
    struct api_resource_claim_consumer_reference consumer = bind_claim_consumer(c);
    struct api_resource_claim_consumer_reference *list =
        arena_array(&tmp, struct api_resource_claim_consumer_reference, n + 1 + RESERVED_MAX);
    if (n)
        memcpy(list, claim->status.reserved_for.p, n * sizeof(*list));
    if (!claim_is_reserved_for(claim, consumer.uid))
        list[n++] = consumer;
    changed.status.reserved_for = (struct api_resource_claim_consumer_reference_array){list, n};
    bind_claim_add_sharers(
        c, claim, claim->status.allocation ? claim->status.allocation : c->allocation, &changed);
    if (c->allocation && !claim->status.allocation)
        changed.status.allocation = bind_claim_stamp(c, &tmp);
    bind_claim_send_update(c, &changed, STR("status"));
    arena_done(&tmp);
}

// The reservation of the group exists. A scheduler that knows this version of the claim and none of
// our pod may take it back: this write makes that fail (docs/design/scheduler.md, "Late writes").
static void bind_claim_touch(struct bind_claim *c, const struct api_resource_claim *claim)
{
    struct arena tmp = {0};
    struct api_resource_claim changed = *claim;
    const struct api_str_map old = changed.metadata.annotations;
    struct api_str_entry *list = arena_array(&tmp, struct api_str_entry, old.n + 1);
    struct str key = STR(CLAIM_RELIED_ON);
    size_t n = 0;
    for (; n < old.n && str_cmp(old.p[n].key, key) < 0; n++)
        list[n] = old.p[n];
    list[n] = (struct api_str_entry){key, claim->metadata.resource_version};
    size_t from = n < old.n && str_eq(old.p[n].key, key) ? n + 1 : n;
    for (n++; from < old.n; from++)
        list[n++] = old.p[from];
    changed.metadata.annotations = (struct api_str_map){list, n};
    list_foreach(&writer_of(c)->waiting, node) {
        struct bind_claim *other = list_entry(node, struct bind_claim, wait);
        other->riding = other->group &&
                        bind_claim_can_share_write(other, claim, claim->status.allocation) &&
                        str_eq(bind_claim_consumer(other).uid, bind_claim_consumer(c).uid);
    }
    bind_claim_send_update(c, &changed, (struct str){0});
    arena_done(&tmp);
}

// --- The steps -----------------------------------------------------------------------------------

static void bind_claim_give_up(struct bind_claim *c, const char *what)
{
    const struct api_pod *pod = bind_pod(c->b);
    bind_fail(c->b, "claim %.*s/%.*s %s", STR_ARG(pod->metadata.namespace), STR_ARG(c->name), what);
    bind_claim_end(c);
}

// A reservation for this pod that another attempt wrote may be taken back by it at any time, and a
// Binding may rely on it. This attempt must not rely on it: the next one takes it back first.
static void bind_claim_found_reserved(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    struct sched_claim *k = claims_get(&s->claims, bind_pod(c->b)->metadata.namespace, c->name);
    claims_learn(&s->claims, k, c->object);
    c->b->give_way = true;
    bind_claim_give_up(c, "is reserved by another attempt for the same pod");
}

// All that is done to a claim. The answer to each request comes to bind_claim_on_answer.
static void bind_claim_enter(struct bind_claim *c, enum claim_step step)
{
    const struct api_resource_claim *claim = c->object ? c->object->object.value : NULL;
    c->step = step;
    switch (step) {
    case CLAIM_STEP_CREATE:
        bind_claim_create(c);
        break;
    case CLAIM_STEP_TURN:
        if (may_write(c))
            bind_claim_next(c);
        break;
    case CLAIM_STEP_READ:
        bind_claim_read(c);
        break;
    case CLAIM_STEP_FINALIZER:
        bind_claim_write_finalizer(c, claim);
        break;
    case CLAIM_STEP_STATUS:
        bind_claim_write_status(c, claim);
        break;
    case CLAIM_STEP_TOUCH:
        bind_claim_touch(c, claim);
        break;
    case CLAIM_STEP_FOREIGN:
        bind_claim_found_reserved(c);
        break;
    }
}

// What keeps the claim, in the version at hand, from being written for this pod; NULL: nothing.
static const char *bind_claim_obstacle(const struct bind_claim *c,
                                       const struct api_resource_claim *claim)
{
    const struct api_allocation_result *stored = claim->status.allocation;
    const struct api_allocation_result *ours = c->allocation;
    if (c->uid.n && !str_eq(claim->metadata.uid, c->uid))
        return "was replaced by another of its name";
    if (claim->metadata.deletion_timestamp.set)
        return "is being deleted";
    if (!ours && !stored)
        return "got deallocated elsewhere in the meantime";
    if (!ours)
        ours = ((const struct api_resource_claim *)c->decided->object.value)->status.allocation;
    if (stored && !bind_claim_is_ours(stored, ours))
        return "got allocated elsewhere in the meantime";
    return NULL;
}

// The step that the claim needs, in the version at hand. A reservation for the pod in the cached
// version is read again: the attempt that wrote it may have taken it back.
static void bind_claim_next(struct bind_claim *c)
{
    const struct api_resource_claim *claim = c->object->object.value;
    bool stored = claim->status.allocation;
    const char *obstacle = bind_claim_obstacle(c, claim);
    if (obstacle)
        bind_claim_give_up(c, obstacle);
    else if (c->group && stored && claim_is_reserved_for(claim, bind_claim_consumer(c).uid))
        bind_claim_enter(c, CLAIM_STEP_TOUCH);
    else if (stored && claim_is_reserved_for(claim, bind_pod(c->b)->metadata.uid))
        bind_claim_enter(c, c->fresh ? CLAIM_STEP_FOREIGN : CLAIM_STEP_READ);
    else if (c->allocation && !meta_has_finalizer(&claim->metadata, STR(CLAIM_FINALIZER)))
        bind_claim_enter(c, CLAIM_STEP_FINALIZER);
    else
        bind_claim_enter(c, CLAIM_STEP_STATUS);
}

static void bind_claim_take_created(struct bind_claim *c)
{
    struct binding *b = c->b;
    c->name = arena_str(&b->arena, c->object->meta->name);
    c->uid = arena_str(&b->arena, c->object->meta->uid);
    struct sched_claim *k = claims_get(&b->s->claims, c->object->meta->namespace, c->name);
    (void)claims_assume(&b->s->claims, k, c->object);
    if (b->pod)
        sched_index_claim(b->s, b->pod, k->key);
}

static void bind_claim_take_reserved(struct bind_claim *c)
{
    struct claims *claims = &c->b->s->claims;
    c->revision = c->object->revision;
    c->reserved = !c->group;
    (void)claims_assume(claims, claims_get(claims, c->object->meta->namespace, c->name), c->object);
    bind_claim_finish_sharers(c, true);
    bind_claim_end(c);
}

static void bind_claim_on_failure(struct bind_claim *c, const struct client_answer *answer)
{
    bool update = c->step != CLAIM_STEP_CREATE && c->step != CLAIM_STEP_READ;
    if (c->step == CLAIM_STEP_STATUS || c->step == CLAIM_STEP_TOUCH)
        bind_claim_finish_sharers(c, false);
    if (update && answer->code == -ERR_CONFLICT && ++c->tries < CLAIM_TRIES) {
        bind_claim_enter(c, CLAIM_STEP_READ);
        return;
    }
    const char *text = answer->err ? answer->err->msg : "no answer";
    if (c->step == CLAIM_STEP_CREATE)
        bind_fail(c->b, "create claim for extended resources: %s", text);
    else
        bind_fail(c->b, "%s claim %.*s: %s", update ? "update" : "get", STR_ARG(c->name), text);
    bind_claim_end(c);
}

static void bind_claim_on_answer(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_claim *c = arg;
    bool last = c->step == CLAIM_STEP_STATUS || c->step == CLAIM_STEP_TOUCH;
    if (last)
        beside_wrote(s, exec_now_ns(s->exec) - c->sent_ns);
    if (answer->code < 0 || !answer->object) {
        bind_claim_on_failure(c, answer);
        return;
    }
    bind_hold_claim(c, answer->object);
    c->fresh = true;
    if (last) {
        bind_claim_take_reserved(c);
    } else if (c->step == CLAIM_STEP_CREATE) {
        bind_claim_take_created(c);
        bind_claim_enter(c, CLAIM_STEP_TURN);
    } else {
        bind_claim_next(c);
    }
}

void bind_claim_start(struct bind_claim *c)
{
    bind_claim_enter(c, c->special ? CLAIM_STEP_CREATE : CLAIM_STEP_TURN);
}
