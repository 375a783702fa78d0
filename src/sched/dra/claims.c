// SPDX-License-Identifier: Apache-2.0
//
// Claims as the watch has shown them, as our own writes have changed them since, and the
// allocations in flight. Devices of all three are in use before the next question is answered.
#include "sched/dra/claims.h"

#include <stdlib.h>

#include "api/match/claim.h"

#include "base/banned.h"

void claims_init(struct claims *c, struct index *devices)
{
    *c = (struct claims){.devices = devices};
}

static void flight_unref(struct flight *f)
{
    if (!f || --f->refs)
        return;
    arena_done(&f->arena);
    free(f);
}

static void claim_free(struct sched_claim *k)
{
    typed_object_unref(k->seen);
    typed_object_unref(k->latest);
    typed_object_unref(k->held);
    flight_unref(k->held_flight);
    flight_unref(k->flight);
    vec_done(&k->user.pools);
    vec_done(&k->pods);
    free((void *)(uintptr_t)k->key.p);
    free(k);
}

void claims_done(struct claims *c)
{
    for (size_t i = 0; i < c->unseen.n; i++)
        free(c->unseen.p[i]);
    vec_done(&c->unseen);
    map_foreach(&c->by_key, i)
        claim_free(*map_value(&c->by_key, i));
    map_done(&c->by_key);
}

static void key_write(struct sbuf *out, struct str namespace, struct str name)
{
    sbuf_add(out, namespace);
    sbuf_addc(out, '/');
    sbuf_add(out, name);
}

static struct sched_claim *claims_find_key(const struct claims *c, struct str key)
{
    struct sched_claim **k = map_get(&c->by_key, key);
    return k ? *k : NULL;
}

struct sched_claim *claims_find(const struct claims *c, struct str namespace, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    key_write(&key, namespace, name);
    return claims_find_key(c, sbuf_str(&key));
}

static struct sched_claim *claims_get_key(struct claims *c, struct str key)
{
    struct sched_claim *k = claims_find_key(c, key);
    if (k)
        return k;
    k = xcalloc(1, sizeof(*k));
    k->key = str_make(xstrndup(key.p, key.n), key.n);
    k->user.owner = k->key;
    *map_put(&c->by_key, k->key) = k;
    return k;
}

struct sched_claim *claims_get(struct claims *c, struct str namespace, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    key_write(&key, namespace, name);
    return claims_get_key(c, sbuf_str(&key));
}

const struct api_resource_claim *claims_api(const struct sched_claim *k)
{
    return k && k->latest ? k->latest->object.value : NULL;
}

static bool claims_forget_idle(struct claims *c, struct sched_claim *k)
{
    if (k->seen || k->latest || k->flight || k->pods.n)
        return false;
    (void)map_del(&c->by_key, k->key);
    claim_free(k);
    return true;
}

// The same devices, whatever else the allocation has.
static bool claims_same_result(const struct api_allocation_result *a,
                               const struct api_allocation_result *b)
{
    const struct api_device_request_allocation_result_array *x = &a->devices.results;
    const struct api_device_request_allocation_result_array *y = &b->devices.results;
    if (a == b)
        return true;
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (!api_equal(&api_device_request_allocation_result_type, &x->p[i], &y->p[i]))
            return false;
    return true;
}

// What is in force: the stored allocation; else the one in flight.
static void claims_settle_latest(struct claims *c, struct sched_claim *k)
{
    const struct api_resource_claim *api = claims_api(k);
    const struct api_allocation_result *stored = api ? api->status.allocation : NULL;
    const struct api_allocation_result *force =
        stored ? stored : (k->flight ? k->flight->allocation : NULL);
    bool kept = force && k->user.allocation && claims_same_result(force, k->user.allocation);
    if (!stored || (!kept && !c->assuming))
        k->ours = false; // a list may hide that it was cleared in between
    if (!force && !k->user.allocation)
        return;
    if (stored && k->user.revision == UINT64_MAX) {
        k->user.revision = k->latest->revision;
        k->user.not_before = c->listing ? 0 : k->latest->revision;
    }
    // Our own write may be shown before it is answered; what another wrote while ours was on its
    // way is nothing that our other decisions knew of.
    k->user.foreign =
        stored && !k->ours && !(k->flight && claims_same_result(stored, k->flight->allocation));
    if (kept)
        return;
    k->lost = false;
    k->user.revision = stored ? k->latest->revision : UINT64_MAX;
    k->user.not_before = stored && c->listing ? 0 : k->user.revision;
    index_use(c->devices, &k->user, force);
    typed_object_unref(k->held);
    flight_unref(k->held_flight);
    k->held = stored ? typed_object_ref(k->latest) : NULL;
    k->held_flight = NULL;
    if (force && !stored) {
        k->held_flight = k->flight;
        k->flight->refs++;
    }
}

static void set_latest(struct sched_claim *k, const struct typed_object *object)
{
    const struct typed_object *old = k->latest;
    k->latest = object ? typed_object_ref(object) : NULL;
    typed_object_unref(old);
}

static void set_seen(struct sched_claim *k, const struct typed_object *object)
{
    const struct typed_object *old = k->seen;
    k->seen = object ? typed_object_ref(object) : NULL;
    typed_object_unref(old);
}

static void drop_flight(struct sched_claim *k)
{
    flight_unref(k->flight);
    k->flight = NULL;
}

static struct sched_claim *claims_take_object(struct claims *c, const struct typed_object *before,
                                              const struct typed_object *after)
{
    const struct api_object_meta *m = after ? after->meta : before->meta;
    struct sched_claim *k = claims_get(c, m->namespace, m->name);
    bool other = k->latest && after && !str_eq(k->latest->meta->uid, after->meta->uid);
    if (!after || other) {
        // Gone: what was assumed of it and what was on its way to it have no place any more.
        if (!after && k->latest && k->latest != k->seen &&
            !str_eq(k->latest->meta->uid, before->meta->uid)) {
            set_seen(k, NULL); // an older one of that name; ours is newer
            return k;
        }
        set_latest(k, NULL);
        drop_flight(k);
        claims_settle_latest(c, k);
    }
    if (after && (!before || other))
        index_expect(c->devices, after->object.value);
    set_seen(k, after);
    if (after && (!k->latest || after->revision > k->latest->revision))
        set_latest(k, after);
    claims_settle_latest(c, k);
    return claims_forget_idle(c, k) ? NULL : k;
}

struct sched_claim *claims_seen(struct claims *c, const struct typed_object *before,
                                const struct typed_object *after, bool listing)
{
    c->listing = listing;
    struct sched_claim *k = claims_take_object(c, before, after);
    c->listing = false;
    return k;
}

// An answer may be overtaken by the watch, also by a newer claim of the same name.
static bool is_old(const struct sched_claim *k, const struct typed_object *object)
{
    return k->latest && object->revision < k->latest->revision;
}

void claims_learn(struct claims *c, struct sched_claim *k, const struct typed_object *object)
{
    if (is_old(k, object))
        return;
    set_latest(k, object);
    c->listing = true;
    claims_settle_latest(c, k);
    c->listing = false;
    if (!k->seen)
        vec_push(&c->unseen, xstrndup(k->key.p, k->key.n));
}

bool claims_assume(struct claims *c, struct sched_claim *k, const struct typed_object *object)
{
    if (is_old(k, object))
        return false;
    const struct api_resource_claim *api = object->object.value;
    k->ours = api->status.allocation != NULL &&
              (k->ours || k->flight || !claims_api(k) || !claims_api(k)->status.allocation);
    set_latest(k, object);
    c->assuming = true;
    claims_settle_latest(c, k);
    c->assuming = false;
    if (!k->seen)
        vec_push(&c->unseen, xstrndup(k->key.p, k->key.n));
    return true;
}

bool claims_advance(struct claims *c, uint64_t revision,
                    void (*gone)(void *arg, struct sched_claim *k), void *arg)
{
    bool any = false;
    for (size_t i = c->unseen.n; i-- > 0;) {
        struct sched_claim *k = claims_find_key(c, str_z(c->unseen.p[i]));
        if (k && !k->seen && k->latest && k->latest->revision > revision)
            continue;
        free(c->unseen.p[i]);
        c->unseen.p[i] = *vec_last(&c->unseen);
        c->unseen.n--;
        if (!k || k->seen || !k->latest)
            continue;
        any = true;
        set_latest(k, NULL);
        claims_settle_latest(c, k);
        if (!claims_forget_idle(c, k) && gone)
            gone(arg, k);
    }
    return any;
}

struct flight *claims_fly(struct claims *c, struct sched_claim *k,
                          const struct api_allocation_result *allocation, uint64_t gang)
{
    struct flight *f = xcalloc(1, sizeof(*f));
    arena_reserve(&f->arena, 768); // of one device; many are in flight at once
    struct api_allocation_result *copy = arena_one(&f->arena, struct api_allocation_result);
    api_copy(&api_allocation_result_type, allocation, copy, &f->arena);
    f->refs = 2; // the entry's and the caller's
    f->sharers = 1;
    f->gang = gang;
    f->allocation = copy;
    drop_flight(k);
    k->flight = f;
    claims_settle_latest(c, k);
    return f;
}

struct flight *claims_share(struct sched_claim *k)
{
    k->flight->refs++;
    k->flight->sharers++;
    return k->flight;
}

void claims_land(struct claims *c, struct sched_claim *k, struct flight *flight)
{
    bool last = flight && --flight->sharers == 0;
    // The claim may have been replaced by another of its name, with a flight of its own.
    if (last && k && k->flight == flight) {
        drop_flight(k);
        claims_settle_latest(c, k);
        (void)claims_forget_idle(c, k);
    }
    flight_unref(flight);
}

void claims_pod_add(struct claims *c, struct str key, struct sched_pod *p)
{
    struct sched_claim *k = claims_get_key(c, key);
    vec_push(&k->pods, p);
}

void claims_pod_remove(struct claims *c, struct str key, struct sched_pod *p)
{
    struct sched_claim *k = claims_find_key(c, key);
    for (size_t i = 0; k && i < k->pods.n; i++)
        if (k->pods.p[i] == p) {
            k->pods.p[i] = vec_pop(&k->pods);
            (void)claims_forget_idle(c, k);
            return;
        }
}

bool claims_only_for(const struct api_resource_claim *claim, const struct api_pod *pod)
{
    const struct api_resource_claim_consumer_reference_array *r = &claim->status.reserved_for;
    return r->n == 0 || (r->n == 1 && str_eq(r->p[0].uid, pod->metadata.uid));
}

bool claims_check(const struct claims *c, struct sbuf *problems)
{
    bool good = true;
    map_foreach(&c->by_key, i) {
        const struct sched_claim *k = *map_value(&c->by_key, i);
        const struct api_resource_claim *api = claims_api(k);
        bool held = (api && api->status.allocation) || k->flight;
        const char *wrong = NULL;
        if (held != (k->user.allocation != NULL))
            wrong = "what it holds is not its allocation";
        else if (held && !index_holds(&k->user))
            wrong = "its pools do not know it";
        else if (k->seen && k->latest && k->seen->revision > k->latest->revision)
            wrong = "an older version is believed";
        if (!wrong)
            continue;
        good = false;
        sbuf_addf(problems, "claim %.*s: %s\n", STR_ARG(k->key), wrong);
    }
    return good;
}
