// SPDX-License-Identifier: Apache-2.0
//
// At most one request is under way. A turn reads the lease and, if it may be had, writes it; a
// holder's turn writes what it knows, and reads first only after a conflict. The server's
// resourceVersion decides between two who write.
#include "client/lease.h"

#include <assert.h>
#include <stdlib.h>

#include "codec/rfc3339.h"

#include "base/banned.h"

// A request under way; l is NULL when no caller waits for its answer any more.
struct lease_call {
    struct lease *l;
};

struct lease {
    struct lease_options o;
    struct arena arena; // of its texts
    struct exec *exec;
    struct lease_call *call;
    const struct typed_object *seen; // the newest known; NULL: none
    int64_t seen_ns;                 // when it was seen to change
    int64_t slow_ns;                 // how long an answer takes, the slowest of late
    int64_t asked_ns;                // when the request under way was sent
    struct exec_timer turn, deadline;
    bool leading, stopping;
    exec_fn released;
    void *released_arg;
};

static const struct api_kind *lease_find_kind(void)
{
    return api_kind_find(STR("coordination.k8s.io/v1"), STR("Lease"));
}

int lease_check(const struct lease_options *o, struct err *err)
{
    if (o->duration_ns < CLOCK_NS_PER_SEC || o->duration_ns % CLOCK_NS_PER_SEC)
        return err_set(err, ERR_INVALID, "the lease duration must be whole seconds, at least 1s");
    if (o->duration_ns <= o->renew_deadline_ns)
        return err_set(err, ERR_INVALID,
                       "the lease duration must be greater than the renew deadline");
    if (o->retry_ns < 1 || o->renew_deadline_ns <= o->retry_ns + o->retry_ns / 5)
        return err_set(err, ERR_INVALID,
                       "the renew deadline must be greater than 1.2 times the retry period");
    return 0;
}

// --- Calls ---------------------------------------------------------------------------------------

static struct lease_call *lease_call_new(struct lease *l)
{
    assert(!l->call);
    l->call = xcalloc(1, sizeof(*l->call));
    l->call->l = l;
    l->asked_ns = exec_now_ns(l->exec);
    return l->call;
}

// lease_call_take ends a call; NULL when no caller waits for it.
static struct lease *lease_call_take(void *arg)
{
    struct lease_call *c = arg;
    struct lease *l = c->l;
    if (l) {
        int64_t took_ns = exec_now_ns(l->exec) - l->asked_ns;
        int64_t before_ns = l->slow_ns - l->slow_ns / 8;
        l->call = NULL;
        l->slow_ns = took_ns > before_ns ? took_ns : before_ns;
    }
    free(c);
    return l;
}

static void call_drop(struct lease *l)
{
    if (l->call)
        take_ptr(l->call)->l = NULL;
}

static const struct api_lease_spec *spec_of(const struct typed_object *o)
{
    return &((const struct api_lease *)o->object.value)->spec;
}

static struct str holder_of(const struct typed_object *o)
{
    return o && spec_of(o)->has_holder_identity ? spec_of(o)->holder_identity : (struct str){0};
}

// How long somebody else's lease is left alone, from when it was seen to change: where our own
// requests are slow, renewals are, too.
static int64_t patience_ns(const struct lease *l)
{
    return l->o.duration_ns + 2 * l->slow_ns;
}

static void next_turn(struct lease *l)
{
    int64_t now = exec_now_ns(l->exec);
    int64_t wait = l->o.retry_ns;
    int64_t left = l->seen_ns + patience_ns(l) - now; // of somebody else's lease
    if (l->leading)
        wait = l->asked_ns + l->o.retry_ns - now;
    else
        wait += (int64_t)rng_below(l->exec->rng, (uint64_t)l->o.retry_ns / 5 + 1);
    if (!l->leading && holder_of(l->seen).n && left > 0 && left < wait)
        wait = left; // not a moment later than it may be had
    exec_timer_start(l->exec, &l->turn, wait > CLOCK_NS_PER_MS ? wait : CLOCK_NS_PER_MS);
}

// lease_observe_holder notes a version of the lease. Renewals count from here, whatever time stands
// in them.
static void lease_observe_holder(struct lease *l, const struct typed_object *o)
{
    struct str before = holder_of(l->seen), now = holder_of(o);
    bool other = !l->seen || !str_eq(before, now);
    bool news = !l->seen || l->seen->revision != o->revision;
    const struct typed_object *old = l->seen;
    l->seen = typed_object_ref(o);
    if (news)
        l->seen_ns = exec_now_ns(l->exec);
    if (other && l->o.holder)
        l->o.holder(l->o.arg, now);
    typed_object_unref(old);
}

// --- Taking and keeping --------------------------------------------------------------------------

static void lease_lose_leadership(struct lease *l)
{
    l->leading = false;
    exec_timer_stop(l->exec, &l->turn);
    exec_timer_stop(l->exec, &l->deadline);
    call_drop(l);
    l->o.lost(l->o.arg);
}

static void read_lease(struct lease *l);

static void lease_on_written(void *arg, const struct client_answer *a)
{
    struct lease *l = lease_call_take(arg);
    if (!l)
        return;
    if (a->code == 0 && a->object) {
        bool first = !l->leading;
        lease_observe_holder(l, a->object);
        l->leading = true;
        if (!l->o.steadfast)
            exec_timer_start(l->exec, &l->deadline,
                             l->asked_ns + l->o.renew_deadline_ns - exec_now_ns(l->exec));
        next_turn(l);
        if (first)
            l->o.leading(l->o.arg);
    } else if (l->leading && (a->code == -ERR_CONFLICT || a->code == -ERR_NOT_FOUND ||
                              a->code == -ERR_ALREADY_EXISTS)) {
        read_lease(l); // is it still ours?
    } else {
        next_turn(l);
    }
}

// write_lease writes the lease as ours: made if there is none, else over the version that was seen.
static void write_lease(struct lease *l)
{
    struct api_time now = {.at = moment_from_ns(exec_wall_ns(l->exec)), .set = true};
    struct api_lease lease = {.metadata = {.name = l->o.name, .namespace = l->o.namespace}};
    bool ours = str_eq(holder_of(l->seen), l->o.identity);
    if (l->seen)
        lease = *(const struct api_lease *)l->seen->object.value;
    if (!ours) {
        lease.spec.acquire_time = now;
        lease.spec.lease_transitions += l->seen ? 1 : 0;
        lease.spec.has_lease_transitions = true;
    }
    lease.spec.holder_identity = l->o.identity;
    lease.spec.has_holder_identity = true;
    lease.spec.lease_duration_seconds = (int32_t)(l->o.duration_ns / CLOCK_NS_PER_SEC);
    lease.spec.has_lease_duration_seconds = true;
    lease.spec.renew_time = now;
    const struct api_object object = {lease_find_kind(), &lease};
    if (l->seen)
        client_update(l->o.client, &object, NULL, lease_on_written, lease_call_new(l));
    else
        client_create(l->o.client, &object, NULL, lease_on_written, lease_call_new(l));
}

static bool may_be_had(const struct lease *l)
{
    struct str holder = holder_of(l->seen);
    return holder.n == 0 || str_eq(holder, l->o.identity) ||
           exec_now_ns(l->exec) - l->seen_ns >= patience_ns(l);
}

static void lease_on_read(void *arg, const struct client_answer *a)
{
    struct lease *l = lease_call_take(arg);
    if (!l)
        return;
    if (a->code == -ERR_NOT_FOUND) {
        typed_object_unref(l->seen);
        l->seen = NULL;
        write_lease(l);
        return;
    }
    if (a->code < 0 || !a->object) {
        next_turn(l);
        return;
    }
    lease_observe_holder(l, a->object);
    if (l->leading && !str_eq(holder_of(l->seen), l->o.identity))
        lease_lose_leadership(l);
    else if (may_be_had(l))
        write_lease(l);
    else
        next_turn(l);
}

static void read_lease(struct lease *l)
{
    const struct client_key key = {lease_find_kind(), l->o.namespace, l->o.name};
    client_get(l->o.client, &key, lease_on_read, lease_call_new(l));
}

static void lease_on_turn(void *arg)
{
    struct lease *l = arg;
    // One without an answer for so long is given up: its connection may be dead.
    if (l->call && exec_now_ns(l->exec) - l->asked_ns < l->o.renew_deadline_ns) {
        exec_timer_start(l->exec, &l->turn, l->o.retry_ns);
        return;
    }
    call_drop(l);
    exec_timer_start(l->exec, &l->turn, l->o.retry_ns);
    if (l->leading)
        write_lease(l);
    else
        read_lease(l);
}

static void lease_on_deadline(void *arg)
{
    lease_lose_leadership(arg);
}

// --- Life ----------------------------------------------------------------------------------------

struct lease *lease_new(const struct lease_options *options)
{
    struct lease *l = xcalloc(1, sizeof(*l));
    l->o = *options;
    l->exec = options->client->exec;
    l->o.namespace = arena_str(&l->arena, options->namespace);
    l->o.name = arena_str(&l->arena, options->name);
    l->o.identity = arena_str(&l->arena, options->identity);
    l->turn = (struct exec_timer){.fn = lease_on_turn, .arg = l};
    l->deadline = (struct exec_timer){.fn = lease_on_deadline, .arg = l};
    return l;
}

void lease_start(struct lease *l)
{
    assert(!l->leading && !l->stopping);
    exec_timer_start(l->exec, &l->turn, 0);
}

static void on_released(void *arg, const struct client_answer *a)
{
    struct lease *l = lease_call_take(arg);
    (void)a; // a waiting candidate takes it sooner or later anyway
    if (l)
        l->released(l->released_arg);
}

void lease_release(struct lease *l, exec_fn done, void *arg)
{
    bool had = l->leading;
    l->leading = false;
    l->stopping = true;
    l->released = done;
    l->released_arg = arg;
    exec_timer_stop(l->exec, &l->turn);
    exec_timer_stop(l->exec, &l->deadline);
    call_drop(l);
    if (!had || !l->seen) { // somebody deleted it, and it was not made again yet
        exec_post(l->exec, done, arg);
        return;
    }
    struct api_time now = {.at = moment_from_ns(exec_wall_ns(l->exec)), .set = true};
    struct api_lease lease = *(const struct api_lease *)l->seen->object.value;
    lease.spec.holder_identity = (struct str){0};
    lease.spec.has_holder_identity = true;
    lease.spec.lease_duration_seconds = 1;
    lease.spec.acquire_time = now;
    lease.spec.renew_time = now;
    const struct api_object object = {lease_find_kind(), &lease};
    client_update(l->o.client, &object, NULL, on_released, lease_call_new(l));
}

void lease_free(struct lease *l)
{
    if (!l)
        return;
    exec_timer_stop(l->exec, &l->turn);
    exec_timer_stop(l->exec, &l->deadline);
    call_drop(l);
    typed_object_unref(l->seen);
    arena_done(&l->arena);
    free(l);
}

bool lease_leading(const struct lease *l)
{
    return l->leading;
}
