// SPDX-License-Identifier: Apache-2.0
//
// ResourcePoolStatusRequests: each is answered once, from what is published and allocated at that
// moment, and removed some time later.
#include <stdlib.h>

#include "api/match/device_taint.h"
#include "api/match/taint.h"
#include "ctl/core/ctl_int.h"
#include "ctl/device/pool_int.h"
#include "ctl/device/taint_int.h"

#include "base/banned.h"

enum { INCOMPLETE_TRIES = 5, LIMIT_DEFAULT = 100 };

static const int64_t answered_life_seconds = 3600;
static const int64_t pending_life_seconds = INT64_C(24) * 3600;

// How often a request met pools that were not complete.
struct tries {
    char *key; // owns the key
    int n;
};

struct tries_map MAP(struct tries);

struct pool_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct tries_map
        tries; // of requests for pools that are not complete; keys are the caches' names
    struct pool_meter meter;
};

struct pool_map MAP(struct pool *); // by DRIVER/POOL

struct survey {
    const struct pool_ctl *owner;
    const struct api_resource_pool_status_request *request;
    struct arena *arena;
    struct pool_map pools;
};

// --- Gathering -----------------------------------------------------------------------------------

static bool pool_is_selected(const struct survey *s, struct str driver, struct str pool)
{
    return str_eq(driver, s->request->spec.driver) &&
           (!s->request->spec.has_pool_name || s->request->spec.pool_name.n == 0 ||
            str_eq(pool, s->request->spec.pool_name));
}

static struct pool *pool_at(struct survey *s, struct str name)
{
    struct pool **at = map_put(&s->pools, name);
    if (!*at) {
        *at = arena_one(s->arena, struct pool);
        (*at)->generation = -1;
    }
    return *at;
}

static void see_generation(void *arg, const struct typed_object *o)
{
    struct survey *s = arg;
    const struct api_resource_slice_spec *spec = &as_slice(o)->spec;
    if (!pool_is_selected(s, spec->driver, spec->pool.name))
        return;
    struct pool *p = pool_at(s, spec->pool.name);
    if (spec->pool.generation > p->generation)
        p->generation = spec->pool.generation;
}

struct rule_question {
    struct str driver;
    struct str pool;
    struct str device;
    bool yes;
};

static void ask_rule(void *arg, const struct typed_object *o)
{
    struct rule_question *q = arg;
    const struct api_device_taint_rule *rule = as_rule(o);
    if (taint_is_hard(rule->spec.taint.effect) &&
        device_taint_selects(rule->spec.device_selector, q->driver, q->pool, &q->device))
        q->yes = true;
}

static bool is_unavailable(const struct survey *s, const struct pool *p, const struct api_device *d)
{
    for (size_t i = 0; i < d->taints.n; i++)
        if (taint_is_hard(d->taints.p[i].effect))
            return true;
    struct rule_question q = {p->driver, p->name, d->name, false};
    if (s->owner->ctl->caches[CACHE_RULES])
        informer_foreach(s->owner->ctl->caches[CACHE_RULES], ask_rule, &q);
    return q.yes;
}

static void see_slice(void *arg, const struct typed_object *o)
{
    struct survey *s = arg;
    const struct api_resource_slice_spec *spec = &as_slice(o)->spec;
    if (!pool_is_selected(s, spec->driver, spec->pool.name))
        return;
    struct pool *p = pool_at(s, spec->pool.name);
    if (spec->pool.generation < p->generation)
        return;
    struct str node = spec->has_node_name ? spec->node_name : STR("");
    if (p->slices++ == 0) {
        p->driver = spec->driver;
        p->name = spec->pool.name;
        p->node = node;
        p->expected = spec->pool.resource_slice_count;
    } else if (!str_eq(node, p->node)) {
        p->mixed_nodes = true;
    }
    for (size_t i = 0; i < spec->devices.n; i++) {
        const struct api_device *d = &spec->devices.p[i];
        p->unavailable += is_unavailable(s, p, d);
        vec_push(&p->devices, ((struct pool_device){
                                  .device = d,
                                  .type_attribute = spec->has_partition_type_attribute
                                                        ? spec->partition_type_attribute
                                                        : STR(""),
                              }));
    }
    for (size_t i = 0; i < spec->shared_counters.n; i++)
        vec_push(&p->counters, &spec->shared_counters.p[i]);
}

static void see_claim(void *arg, const struct typed_object *o)
{
    struct survey *s = arg;
    const struct api_allocation_result *a = as_claim(o)->status.allocation;
    for (size_t i = 0; a && i < a->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &a->devices.results.p[i];
        if ((r->has_admin_access && r->admin_access) || !str_eq(r->driver, s->request->spec.driver))
            continue;
        struct pool **p = map_get(&s->pools, r->pool);
        if (!p)
            continue;
        *map_put(&(*p)->uses, r->device) = true;
        for (size_t j = 0; j < r->consumed_capacity.n; j++) {
            struct quantity *sum = map_put(&(*p)->consumed, r->consumed_capacity.p[j].key);
            quantity_add(sum, sum, &r->consumed_capacity.p[j].value, s->arena);
        }
    }
}

// --- Answering -----------------------------------------------------------------------------------

static void pool_describe_status(struct survey *s, struct pool *p, struct api_pool_status *ret)
{
    *ret = (struct api_pool_status){
        .driver = p->driver, .pool_name = p->name, .generation = p->generation};
    if (p->node.n > 0 && !p->mixed_nodes) {
        ret->node_name = p->node;
        ret->has_node_name = true;
    }
    if (p->slices < p->expected) {
        ret->validation_error = str_upto(
            arena_strf(s->arena,
                       "PoolIncomplete: pool %.*s/%.*s is incomplete: observed %lld/%lld slices at "
                       "generation %lld",
                       STR_ARG(p->driver), STR_ARG(p->name), (long long)p->slices,
                       (long long)p->expected, (long long)p->generation),
            256);
        ret->has_validation_error = true;
        return;
    }
    for (size_t i = 0; i < p->devices.n; i++)
        p->devices.p[i].in_use = map_has(&p->uses, p->devices.p[i].device->name);
    int32_t total = (int32_t)p->devices.n;
    int32_t used = (int32_t)map_len(&p->uses);
    int32_t rest = total - used - p->unavailable;
    ret->resource_slice_count = (int32_t)p->slices;
    ret->total_devices = total;
    ret->allocated_devices = used;
    ret->unavailable_devices = p->unavailable;
    ret->available_devices = rest > 0 ? rest : 0;
    ret->has_resource_slice_count = ret->has_total_devices = ret->has_allocated_devices =
        ret->has_available_devices = ret->has_unavailable_devices = true;
    pool_views(p, &s->request->spec, s->arena, ret);
}

static int pool_compare_names(const void *a, const void *b)
{
    return str_cmp(((const struct api_pool_status *)a)->pool_name,
                   ((const struct api_pool_status *)b)->pool_name);
}

// pool_answer_request fills *ret; false when a pool is not complete yet.
static bool pool_answer_request(struct survey *s,
                                struct api_resource_pool_status_request_status *ret)
{
    const struct ctl *ctl = s->owner->ctl;
    informer_foreach(ctl->caches[CACHE_SLICES], see_generation, s);
    informer_foreach(ctl->caches[CACHE_SLICES], see_slice, s);
    informer_foreach(ctl->caches[CACHE_CLAIMS], see_claim, s);
    size_t n = map_len(&s->pools);
    struct api_pool_status *list = arena_array(s->arena, struct api_pool_status, n);
    size_t at = 0;
    map_foreach(&s->pools, i)
        pool_describe_status(s, *map_value(&s->pools, i), &list[at++]);
    if (n > 0)
        qsort(list, n, sizeof(list[0]), pool_compare_names);
    size_t limit =
        s->request->spec.has_limit ? (size_t)s->request->spec.limit : (size_t)LIMIT_DEFAULT;
    size_t shown = n < limit ? n : limit;
    size_t wrong = 0;
    bool complete = true;
    for (size_t i = 0; i < shown; i++) {
        wrong += list[i].has_validation_error;
        complete = complete && !(list[i].has_validation_error &&
                                 str_starts(list[i].validation_error, STR("PoolIncomplete:")));
    }
    struct api_condition *c = arena_one(s->arena, struct api_condition);
    *c = (struct api_condition){.type = STR("Complete"),
                                .status = STR("True"),
                                .reason = STR("CalculationComplete"),
                                .last_transition_time = ctl_now(ctl)};
    c->message =
        wrong > 0
            ? arena_strf(s->arena, "Calculated status for %zu pools (%zu incomplete)", shown, wrong)
            : arena_strf(s->arena, "Calculated status for %zu pools", shown);
    *ret = (struct api_resource_pool_status_request_status){
        .pool_count = (int32_t)n,
        .has_pool_count = true,
        .pools = {shown > 0 ? list : NULL, shown},
        .conditions = {c, 1},
    };
    return complete;
}

static void survey_done(struct survey *s)
{
    map_foreach(&s->pools, i) {
        struct pool *p = *map_value(&s->pools, i);
        vec_done(&p->devices);
        vec_done(&p->counters);
        map_done(&p->uses);
        map_done(&p->consumed);
    }
    map_done(&s->pools);
}

// --- Steps ---------------------------------------------------------------------------------------

static const struct api_resource_pool_status_request *as_request(const struct typed_object *o)
{
    return o ? o->object.value : NULL;
}

static struct tries *tries_of(struct pool_ctl *p, struct str key)
{
    struct tries *t = map_get(&p->tries, key);
    if (t)
        return t;
    char *copy = xstrndup(key.p, key.n);
    t = map_put(&p->tries, str_z(copy));
    t->key = copy;
    return t;
}

static void forget_tries(struct pool_ctl *p, struct str key)
{
    struct tries *t = map_get(&p->tries, key);
    if (!t)
        return;
    char *copy = t->key;
    map_del(&p->tries, key);
    free(copy);
}

// end_of_life is when a request is removed, in seconds since 1970.
static int64_t end_of_life(const struct api_resource_pool_status_request *q)
{
    if (!q->status)
        return q->metadata.creation_timestamp.at.sec + pending_life_seconds;
    for (size_t i = 0; i < q->status->conditions.n; i++) {
        const struct api_condition *c = &q->status->conditions.p[i];
        if (str_eq(c->type, STR("Complete")) || str_eq(c->type, STR("Failed")))
            return c->last_transition_time.at.sec + answered_life_seconds;
    }
    return q->metadata.creation_timestamp.at.sec + answered_life_seconds;
}

static void pool_remove_request(struct pool_ctl *p, struct str key, const struct typed_object *o)
{
    const struct client_key at = {o->object.kind, STR(""), o->meta->name};
    struct api_preconditions same = {.uid = o->meta->uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same};
    client_delete(p->ctl->client, &at, &options, ctl_call_done,
                  ctl_call_new(&p->calls, p->work, key, CACHE_POOL_REQUESTS));
}

static void pool_on_status_written(const struct ctl_call *c, const struct client_answer *a)
{
    struct pool_ctl *p = c->owner;
    const struct typed_object *o = ctl_find(p->ctl, CACHE_POOL_REQUESTS, STR(""), c->key);
    if (o)
        pool_meter_answered(&p->meter, as_request(o)->spec.driver, a->code == 0,
                            exec_now_ns(p->ctl->exec) - c->began_ns);
}

static void try_answer(struct pool_ctl *p, struct str key, const struct typed_object *o)
{
    struct arena arena = {0};
    struct survey s = {.owner = p, .request = as_request(o), .arena = &arena};
    int64_t began_ns = exec_now_ns(p->ctl->exec);
    struct api_resource_pool_status_request_status status;
    if (pool_answer_request(&s, &status)) {
        struct api_resource_pool_status_request changed = *s.request;
        changed.status = &status;
        const struct api_object object = {o->object.kind, &changed};
        const struct client_write how = {.subresource = STR("status")};
        struct ctl_call *c = ctl_call_new(&p->calls, p->work, key, CACHE_POOL_REQUESTS);
        c->ended = pool_on_status_written;
        c->owner = p;
        c->began_ns = began_ns;
        client_update(p->ctl->client, &object, &how, ctl_call_done, c);
    } else if (tries_of(p, key)->n++ < INCOMPLETE_TRIES) {
        work_retry(p->work, key);
    } else {
        work_done(p->work, key);
    }
    survey_done(&s);
    arena_done(&arena);
}

static void pool_step_key(void *arg, struct str key)
{
    struct pool_ctl *p = arg;
    static const enum ctl_cache needed[] = {CACHE_POOL_REQUESTS, CACHE_CLAIMS, CACHE_SLICES,
                                            CACHE_RULES};
    for (size_t i = 0; i < array_len(needed); i++) {
        if (p->ctl->caches[needed[i]] && !informer_synced(p->ctl->caches[needed[i]])) {
            work_retry(p->work, key);
            return;
        }
    }
    const struct typed_object *o = ctl_find(p->ctl, CACHE_POOL_REQUESTS, STR(""), key);
    if (!o || o->meta->deletion_timestamp.set) {
        work_done(p->work, key);
        return;
    }
    int64_t left = end_of_life(as_request(o)) - ctl_now(p->ctl).at.sec;
    if (left <= 0)
        pool_remove_request(p, key, o);
    else if (as_request(o)->status)
        work_again(p->work, key, left * CLOCK_NS_PER_SEC);
    else
        try_answer(p, key, o);
}

static void pool_request_changed(void *arg, const struct typed_object *before,
                                 const struct typed_object *after)
{
    struct pool_ctl *p = arg;
    if (!after)
        forget_tries(p, before->meta->name);
    else
        work_add(p->work, after->meta->name);
}

struct pool_ctl *pool_ctl_new(struct ctl *ctl)
{
    struct pool_ctl *p = xcalloc(1, sizeof(*p));
    p->ctl = ctl;
    p->work = ctl_work(ctl, "resource_pool_status_request", pool_step_key, p);
    list_init(&p->calls);
    ctl_watch(ctl, CACHE_POOL_REQUESTS, pool_request_changed, p, p->work);
    return p;
}

void pool_ctl_free(struct pool_ctl *p)
{
    if (!p)
        return;
    ctl_calls_drop(&p->calls);
    work_free(p->work);
    map_foreach(&p->tries, i)
        free(map_value(&p->tries, i)->key);
    map_done(&p->tries);
    pool_meter_done(&p->meter);
    free(p);
}

void pool_ctl_metrics(const struct pool_ctl *p, struct sbuf *out)
{
    pool_meter_write(&p->meter, out);
}
