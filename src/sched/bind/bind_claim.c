// SPDX-License-Identifier: Apache-2.0
//
// Writing a claim for a pod: finalizer, then allocation and reservation in one status update. A
// conflict is answered by reading the claim and trying again.
#include "api/match/claim.h"
#include "sched/bind/bind_int.h"

#include "base/banned.h"

static void bind_claim_write(struct bind_claim *c);
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
    struct claim_writer **w = map_get(&c->b->s->writers, sbuf_str(&key));
    return w ? *w : NULL;
}

// True: nobody else writes the claim, we may. False: we are told when it is our turn.
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
    *map_put(&c->b->s->writers, mine) = w;
    return true;
}

void bind_writers_done(struct sched *s)
{
    map_foreach(&s->writers, i) {
        free(*map_value(&s->writers, i));
        free((void *)(uintptr_t)map_key(&s->writers, i).p);
    }
    map_done(&s->writers);
}

static void forget_writer(struct sched *s, struct str key, struct claim_writer *w)
{
    struct str mine = map_key(&s->writers, map_index_find(&s->writers.index, key));
    (void)map_del(&s->writers, mine);
    free((void *)(uintptr_t)mine.p);
    free(w);
}

// Thousands may wait, and all of them find the same obstacle: each that gives up at once leaves the turn to this loop.
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
            bind_claim_write(c);
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
    c->finished = true;
    bind_claim_finished(c); // the binding may be gone now
    if (!was_writer)
        return;
    w->writer = NULL;
    if (!w->turning)
        next_writer(s, sbuf_str(&key), w);
}

// Whom the claim is reserved for: the pod, or its group.
static struct api_resource_claim_consumer_reference bind_claim_consumer(const struct bind_claim *c)
{
    return consumer_reference_to(c->group ? c->b->group->meta : &bind_pod(c->b)->metadata,
                                 c->group);
}

static bool bind_claim_lists_consumer(const struct api_resource_claim_consumer_reference *list,
                                      size_t n, struct str uid)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(list[i].uid, uid))
            return true;
    return false;
}

static bool bind_claim_is_ours(const struct api_allocation_result *stored,
                               const struct api_allocation_result *a);

// May another that waits ride along with a write that leaves this allocation?
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

// Those that wait for nothing but a reservation can ride along with this write.
static size_t bind_claim_add_sharers(struct bind_claim *c, const struct api_resource_claim *claim,
                                     const struct api_allocation_result *allocation,
                                     struct api_resource_claim_consumer_reference *list, size_t n)
{
    struct claim_writer *w = writer_of(c);
    for (struct list_node *node = w->waiting.head.next; node != &w->waiting.head;
         node = node->next) {
        struct bind_claim *other = list_entry(node, struct bind_claim, wait);
        if ((n >= RESERVED_MAX && !other->group) ||
            !bind_claim_can_share_write(other, claim, allocation))
            continue;
        struct api_resource_claim_consumer_reference who = bind_claim_consumer(other);
        bool listed = bind_claim_lists_consumer(list, n, who.uid);
        if (!listed && n >= RESERVED_MAX)
            continue;
        other->riding = true;
        if (!listed)
            list[n++] = who;
    }
    return n;
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

// --- Writing -------------------------------------------------------------------------------------

static void bind_claim_give_up(struct bind_claim *c, const char *what)
{
    const struct api_pod *pod = bind_pod(c->b);
    bind_fail(c->b, "claim %.*s/%.*s %s", STR_ARG(pod->metadata.namespace), STR_ARG(c->name), what);
    bind_claim_end(c);
}

static void bind_claim_on_read(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_claim *c = arg;
    (void)s;
    if (answer->code < 0) {
        bind_fail(c->b, "get claim %.*s: %s", STR_ARG(c->name), answer->err->msg);
        bind_claim_end(c);
        return;
    }
    bind_hold_claim(c, answer->object);
    c->fresh = true;
    bind_claim_write(c);
}

static void bind_claim_read_again(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    struct client_key key = {sched_kind(WATCH_CLAIMS), bind_pod(c->b)->metadata.namespace, c->name};
    client_get(s->client, &key, calls_on_answer, calls_begin(s, bind_claim_on_read, c));
}

// A write came back: 1 it is done, 0 it will be tried again or was given up.
static int bind_claim_take_answer(struct bind_claim *c, const struct client_answer *answer)
{
    if (answer->code == 0 && answer->object) {
        bind_hold_claim(c, answer->object);
        c->fresh = true;
        return 1;
    }
    if (answer->code == -ERR_CONFLICT && ++c->tries < CLAIM_TRIES) {
        bind_claim_read_again(c);
        return 0;
    }
    bind_fail(c->b, "update claim %.*s: %s", STR_ARG(c->name),
              answer->err ? answer->err->msg : "no answer");
    bind_claim_end(c);
    return 0;
}

static void bind_claim_on_finalizer(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_claim *c = arg;
    (void)s;
    if (bind_claim_take_answer(c, answer))
        bind_claim_write(c);
}

static void bind_claim_on_status(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_claim *c = arg;
    beside_wrote(s, exec_now_ns(s->exec) - c->sent_ns);
    if (answer->code < 0)
        bind_claim_finish_sharers(c, false);
    if (!bind_claim_take_answer(c, answer))
        return;
    c->revision = c->object->revision;
    c->reserved = !c->group;
    struct sched_claim *k = claims_get(&s->claims, bind_pod(c->b)->metadata.namespace, c->name);
    (void)claims_assume(&s->claims, k, c->object);
    bind_claim_finish_sharers(c, true);
    bind_claim_end(c);
}

static bool has_finalizer(const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < claim->metadata.finalizers.n; i++)
        if (str_eq(claim->metadata.finalizers.p[i], STR(CLAIM_FINALIZER)))
            return true;
    return false;
}

static void bind_claim_send_update(struct bind_claim *c, struct api_resource_claim *claim,
                                   struct str subresource, call_fn done)
{
    struct sched *s = c->b->s;
    struct api_object o = {sched_kind(WATCH_CLAIMS), claim};
    c->sent_ns = exec_now_ns(s->exec);
    client_update(s->client, &o, &(struct client_write){.subresource = subresource},
                  calls_on_answer, calls_begin(s, done, c));
}

static void write_finalizer(struct bind_claim *c, const struct api_resource_claim *claim)
{
    struct arena tmp = {0};
    struct api_resource_claim changed = *claim;
    size_t n = claim->metadata.finalizers.n;
    struct str *list = arena_array(&tmp, struct str, n + 1);
    for (size_t i = 0; i < n; i++)
        list[i] = claim->metadata.finalizers.p[i];
    list[n] = STR(CLAIM_FINALIZER);
    changed.metadata.finalizers = (struct api_str_array){list, n + 1};
    bind_claim_send_update(c, &changed, (struct str){0}, bind_claim_on_finalizer);
    arena_done(&tmp);
}

static void bind_claim_write_status(struct bind_claim *c, const struct api_resource_claim *claim)
{
    const struct sched *s = c->b->s;
    struct arena tmp = {0};
    struct api_resource_claim changed = *claim;
    size_t n = claim->status.reserved_for.n;
    struct api_resource_claim_consumer_reference *list =
        arena_array(&tmp, struct api_resource_claim_consumer_reference, n + 1 + RESERVED_MAX);
    if (n)
        memcpy(list, claim->status.reserved_for.p, n * sizeof(*list));
    struct api_resource_claim_consumer_reference who = bind_claim_consumer(c);
    if (!bind_claim_lists_consumer(list, n, who.uid))
        list[n++] = who;
    changed.status.reserved_for.p = list;
    changed.status.reserved_for.n = bind_claim_add_sharers(
        c, claim, claim->status.allocation ? claim->status.allocation : c->allocation, list, n);
    if (c->allocation && !claim->status.allocation) {
        struct api_allocation_result *a = arena_one(&tmp, struct api_allocation_result);
        *a = *c->allocation;
        if (features_on(&s->features, FEATURE_DRA_DEVICE_BINDING_CONDITIONS) &&
            !a->allocation_timestamp.set) {
            a->allocation_timestamp.at = moment_from_ns(exec_wall_ns(s->exec));
            a->allocation_timestamp.at.nsec = 0;
            a->allocation_timestamp.set = true;
        }
        changed.status.allocation = a;
    }
    bind_claim_send_update(c, &changed, STR("status"), bind_claim_on_status);
    arena_done(&tmp);
}

// The reservation of the group is there. It may be taken back by whoever knows this version of the claim
// and none of our pod: this write makes that fail (docs/scheduler.md, "Late writes").
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
    struct claim_writer *w = writer_of(c);
    for (struct list_node *node = w->waiting.head.next; node != &w->waiting.head;
         node = node->next) {
        struct bind_claim *other = list_entry(node, struct bind_claim, wait);
        other->riding = other->group &&
                        bind_claim_can_share_write(other, claim, claim->status.allocation) &&
                        str_eq(bind_claim_consumer(other).uid, bind_claim_consumer(c).uid);
    }
    bind_claim_send_update(c, &changed, (struct str){0}, bind_claim_on_status);
    arena_done(&tmp);
}

// Is the stored allocation the one we meant to write? Then an answer of ours got lost.
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

static const struct api_allocation_result *bind_claim_is_decided(const struct bind_claim *c)
{
    return ((const struct api_resource_claim *)c->decided->object.value)->status.allocation;
}

// Somebody else's reservation for this pod may be taken back by its writer at any time, and a Binding
// may rely on it. It is nothing to build on: the next attempt takes it back first.
static void bind_claim_found_reserved(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    struct sched_claim *k = claims_get(&s->claims, bind_pod(c->b)->metadata.namespace, c->name);
    claims_learn(&s->claims, k, c->object);
    c->b->give_way = true;
    bind_claim_give_up(c, "is reserved by another attempt for the same pod");
}

static void bind_claim_write(struct bind_claim *c)
{
    const struct api_resource_claim *claim = c->object->object.value;
    const struct api_allocation_result *stored = claim->status.allocation;
    if (c->uid.n && !str_eq(claim->metadata.uid, c->uid)) {
        bind_claim_give_up(c, "was replaced by another of its name");
    } else if (claim->metadata.deletion_timestamp.set) {
        bind_claim_give_up(c, "is being deleted");
    } else if (c->allocation && stored && !bind_claim_is_ours(stored, c->allocation)) {
        bind_claim_give_up(c, "got allocated elsewhere in the meantime");
    } else if (!c->allocation && !stored) {
        bind_claim_give_up(c, "got deallocated elsewhere in the meantime");
    } else if (!c->allocation && !bind_claim_is_ours(stored, bind_claim_is_decided(c))) {
        bind_claim_give_up(c, "got allocated elsewhere in the meantime");
    } else if (c->group && stored &&
               bind_claim_lists_consumer(claim->status.reserved_for.p, claim->status.reserved_for.n,
                                         bind_claim_consumer(c).uid)) {
        bind_claim_touch(c, claim);
    } else if (stored && claim_is_reserved_for(claim, bind_pod(c->b)->metadata.uid) && !c->fresh) {
        bind_claim_read_again(c); // an earlier attempt reserved it, and may have taken that back
    } else if (stored && claim_is_reserved_for(claim, bind_pod(c->b)->metadata.uid)) {
        bind_claim_found_reserved(c);
    } else if (c->allocation && !has_finalizer(claim)) {
        write_finalizer(c, claim);
    } else {
        bind_claim_write_status(c, claim);
    }
}

// --- The special claim ---------------------------------------------------------------------------

static void bind_claim_on_created(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_claim *c = arg;
    struct binding *b = c->b;
    if (answer->code < 0 || !answer->object) {
        bind_fail(b, "create claim for extended resources: %s",
                  answer->err ? answer->err->msg : "no answer");
        bind_claim_end(c);
        return;
    }
    bind_hold_claim(c, answer->object);
    c->name = arena_str(&b->arena, answer->object->meta->name);
    c->uid = arena_str(&b->arena, answer->object->meta->uid);
    struct sched_claim *k = claims_get(&s->claims, answer->object->meta->namespace, c->name);
    (void)claims_assume(&s->claims, k, answer->object);
    if (b->pod)
        sched_index_claim(s, b->pod, k->key);
    if (may_write(c))
        bind_claim_write(c);
}

static void bind_claim_create(struct bind_claim *c)
{
    struct sched *s = c->b->s;
    struct api_resource_claim claim = *c->b->special_claim;
    claim.metadata.name = (struct str){0};
    struct api_object o = {sched_kind(WATCH_CLAIMS), &claim};
    client_create(s->client, &o, NULL, calls_on_answer, calls_begin(s, bind_claim_on_created, c));
}

void bind_claim_start(struct bind_claim *c)
{
    if (c->special)
        bind_claim_create(c);
    else if (may_write(c))
        bind_claim_write(c);
}
