// SPDX-License-Identifier: Apache-2.0
//
// Evicts pods that hold more than their limits of local storage, and, when the node itself runs
// short, the pod that comes first in kubelet's order. A pass gathers what is to be measured,
// measures where that may block, and decides on the exec. Pods without limits are measured only
// while the node is short of something.
#include <stdlib.h>

#include "api/amounts.h"
#include "api/match/taint.h"
#include "base/mem.h"
#include "node/pods/pods_int.h"

#include "base/banned.h"

#define LOOK_NS           (10 * CLOCK_NS_PER_SEC)
#define LOOK_SHARE        10 // a pass takes at most a tenth of the time
#define GRACE_NS          CLOCK_NS_PER_SEC
#define CLEANUP_NS        (30 * CLOCK_NS_PER_SEC) // the next one waits for the end of this
#define PRIORITY_CRITICAL 2000000000

struct pod_usages VEC(struct pod_usage);

// One pass.
struct evict_pass {
    struct pods_evict *owner; // NULL: gone
    struct arena arena;
    const struct runtime *runtime;
    void (*observe)(void *arg, const struct eviction_places *at, struct eviction_facts *ret);
    void *observe_arg;
    struct eviction_places places; // copies
    struct eviction_facts facts;
    struct pod_usages usages;
    bool all;       // every pod, for the ranking
    bool reclaimed; // images were removed before
    int64_t begun_ns;
};

struct pods_evict {
    struct pods *pods;
    struct eviction_state state;
    struct exec_timer timer;
    struct evict_pass *pass; // under way; NULL: none
    bool reclaiming;
    char *evicted; // the uid of the pod evicted last for the node's sake; NULL: none
    int64_t evicted_ns;
};

static void evict_begin(struct pods_evict *e, bool all, bool reclaimed);

// --- One pod -------------------------------------------------------------------------------------

static bool evict_is_critical(const struct api_pod *pod)
{
    return pod->spec.has_priority && pod->spec.priority >= PRIORITY_CRITICAL;
}

static bool evict_pod(struct pod *p, int64_t grace_ns, bool for_node, const char *message)
{
    if (p->stage != POD_ACTIVE || p->failed_reason || evict_is_critical(pod_spec_of(p)))
        return false;
    pod_add_event(p, EVENT_WARNING, "Evicted", "%s", message);
    pod_text_set(&p->failed_reason, "Evicted");
    pod_text_set(&p->failed_message, message);
    p->evicted = true;
    p->evicted_for_node = for_node;
    p->evict_grace_ns = grace_ns;
    pod_wake(p, 0);
    return true;
}

static void evict_add_quantity(struct sbuf *out, const struct quantity *q)
{
    sbuf_addc(out, '"');
    quantity_write(q, out);
    sbuf_addc(out, '"');
}

// --- Limits of a pod -----------------------------------------------------------------------------

static bool evict_is_over(struct usage used, const struct quantity *limit)
{
    return limit && quantity_sign(limit) > 0 && used.bytes > (uint64_t)quantity_value(limit);
}

static bool evict_check_volumes(const struct api_pod *pod, const struct pod_usage *u,
                                struct sbuf *why)
{
    vec_foreach(&u->volumes, v)
        for (size_t i = 0; i < pod->spec.volumes.n; i++) {
            const struct api_empty_dir_volume_source *e =
                pod->spec.volumes.p[i].volume_source.empty_dir;
            if (!e || !str_eq(pod->spec.volumes.p[i].name, v->name) ||
                !evict_is_over(v->usage, e->size_limit))
                continue;
            sbuf_addf(why, "Usage of EmptyDir volume \"%.*s\" exceeds the limit ",
                      STR_ARG(v->name));
            evict_add_quantity(why, e->size_limit);
            sbuf_addz(why, ". ");
            return true;
        }
    return false;
}

static bool evict_check_total(const struct api_pod *pod, const struct pod_usage *u,
                              struct sbuf *why)
{
    cleanup_arena struct arena arena = {0};
    const struct api_quantity_map limits = pod_amounts(pod, true, &arena);
    const struct quantity *limit = amounts_get(&limits, STR("ephemeral-storage"));
    if (!evict_is_over(u->disk, limit))
        return false;
    sbuf_addz(why, "Pod ephemeral local storage usage exceeds the total limit of containers ");
    quantity_write(limit, why);
    sbuf_addz(why, ". ");
    return true;
}

static bool evict_check_containers(const struct api_pod *pod, const struct pod_usage *u,
                                   struct sbuf *why)
{
    vec_foreach(&u->containers, c)
        for (size_t i = 0; i < pod->spec.containers.n; i++) {
            const struct api_container *spec = &pod->spec.containers.p[i];
            const struct quantity *limit =
                amounts_get(&spec->resources.limits, STR("ephemeral-storage"));
            struct usage used = c->layers;
            usage_add(&used, c->log);
            if (!str_eq(spec->name, c->name) || !evict_is_over(used, limit))
                continue;
            sbuf_addf(why, "Container %.*s exceeded its local ephemeral storage limit ",
                      STR_ARG(c->name));
            evict_add_quantity(why, limit);
            sbuf_addz(why, ". ");
            return true;
        }
    return false;
}

static struct pod *evict_find_pod(const struct pods *p, struct str uid)
{
    struct pod **at = map_get(&p->by_uid, uid);
    return at ? *at : NULL;
}

// True: a pod was evicted; the node's own needs can wait for what that frees.
static bool evict_for_limits(struct pods_evict *e, const struct evict_pass *pass)
{
    bool any = false;
    vec_foreach(&pass->usages, u) {
        cleanup_sbuf struct sbuf why = {0};
        struct pod *p = evict_find_pod(e->pods, u->uid);
        const struct api_pod *pod = p ? pod_spec_of(p) : NULL;
        if (pod && (evict_check_volumes(pod, u, &why) || evict_check_total(pod, u, &why) ||
                    evict_check_containers(pod, u, &why)))
            any |= evict_pod(p, GRACE_NS, false, why.p);
    }
    return any;
}

// --- Needs of the node ---------------------------------------------------------------------------

static int64_t evict_usage_of(enum eviction_signal signal, const struct pod_usage *u)
{
    bool inodes = signal == EVICTION_NODE_INODES || signal == EVICTION_IMAGE_INODES;
    return signal == EVICTION_MEMORY ? u->memory_bytes
           : signal == EVICTION_PIDS ? u->processes
           : inodes                  ? (int64_t)u->disk.files
                                     : (int64_t)u->disk.bytes;
}

static int64_t evict_request_of(enum eviction_signal signal, const struct api_pod *pod)
{
    cleanup_arena struct arena arena = {0};
    struct str resource = str_z(eviction_resource(signal));
    const struct api_quantity_map requests = pod_amounts(pod, false, &arena);
    const struct quantity *q = amounts_get(&requests, resource); // none of inodes and process ids
    return q ? quantity_value(q) : 0;
}

static int64_t evict_container_usage(enum eviction_signal signal,
                                     const struct pod_usage_container *c)
{
    return signal == EVICTION_MEMORY ? c->memory_bytes : (int64_t)(c->layers.bytes + c->log.bytes);
}

// Names the containers that use more than they requested.
static void evict_blame_containers(const struct eviction_threshold *t, const struct api_pod *pod,
                                   const struct pod_usage *u, struct sbuf *out)
{
    struct str resource = str_z(eviction_resource(t->signal));
    if (!str_eqz(resource, "memory") && !str_eqz(resource, "ephemeral-storage"))
        return;
    vec_foreach(&u->containers, c)
        for (size_t i = 0; i < pod->spec.containers.n + pod->spec.init_containers.n; i++) {
            size_t n = pod->spec.containers.n;
            const struct api_container *spec =
                i < n ? &pod->spec.containers.p[i] : &pod->spec.init_containers.p[i - n];
            const struct quantity *asked = amounts_get(&spec->resources.requests, resource);
            struct quantity request = asked ? *asked : quantity_from_i64(0, QUANTITY_DECIMAL_SI);
            struct quantity used =
                quantity_from_i64(evict_container_usage(t->signal, c), QUANTITY_BINARY_SI);
            if (!str_eq(spec->name, c->name) || quantity_cmp(&used, &request) <= 0)
                continue;
            sbuf_addf(out, "Container %.*s was using ", STR_ARG(c->name));
            quantity_write(&used, out);
            sbuf_addz(out, ", request is ");
            quantity_write(&request, out);
            sbuf_addf(out, ", has larger consumption of %.*s. ", STR_ARG(resource));
        }
}

// Evicts the first pod in the order that may be evicted.
static void evict_for_node(struct pods_evict *e, const struct evict_pass *pass,
                           const struct eviction_threshold *t)
{
    struct eviction_candidate *all = xcalloc(pass->usages.n + 1, sizeof(struct eviction_candidate));
    size_t n = 0;
    vec_foreach(&pass->usages, u) {
        struct pod *p = evict_find_pod(e->pods, u->uid);
        if (!p || p->stage != POD_ACTIVE || evict_is_critical(pod_spec_of(p)))
            continue;
        const struct api_pod *pod = pod_spec_of(p);
        all[n++] = (struct eviction_candidate){.pod = u,
                                               .priority = pod->spec.priority,
                                               .usage = evict_usage_of(t->signal, u),
                                               .request = evict_request_of(t->signal, pod)};
    }
    eviction_rank(t->signal, all, n);
    bool done = false;
    for (size_t i = 0; i < n && !done; i++) {
        const struct pod_usage *u = all[i].pod;
        struct pod *p = evict_find_pod(e->pods, u->uid);
        cleanup_sbuf struct sbuf why = {0};
        sbuf_addf(&why, "The node was low on resource: %s. ", eviction_resource(t->signal));
        eviction_write_facts(t, &pass->facts, &why);
        evict_blame_containers(t, pod_spec_of(p), u, &why);
        int64_t soft_ns = e->pods->options.eviction.config->pod_grace_ns_max;
        done = evict_pod(p, t->grace_ns == 0 ? GRACE_NS : soft_ns, true, why.p);
        if (!done)
            continue;
        pod_text_set(&e->evicted, p->uid_text);
        e->evicted_ns = exec_now_ns(e->pods->exec);
    }
    free(all);
}

// The pod that was evicted last has not ended yet: what it holds is about to be free.
static bool evict_awaits_pod(const struct pods_evict *e)
{
    const struct pod *p = e->evicted ? evict_find_pod(e->pods, str_z(e->evicted)) : NULL;
    return p && p->stage != POD_STOPPED && exec_now_ns(e->pods->exec) - e->evicted_ns < CLEANUP_NS;
}

static void evict_add_node_event(struct pods_evict *e, const struct eviction_threshold *t)
{
    const struct pods_options *o = &e->pods->options;
    const struct api_object_reference about = {
        .kind = STR("Node"), .api_version = STR("v1"), .name = o->node, .uid = o->node};
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "Attempting to reclaim %s", eviction_resource(t->signal));
    if (o->events)
        events_record_ref(o->events, &about, EVENT_WARNING, STR("EvictionThresholdMet"),
                          sbuf_str(&text));
}

static void evict_on_reclaimed(void *arg)
{
    struct pods_evict *e = arg;
    e->reclaiming = false;
    if (!e->pods->quiet)
        evict_begin(e, true, true);
}

// Runs of containers that are kept for their status alone give up their files.
static void evict_drop_old_runs(struct pods_evict *e)
{
    list_foreach(&e->pods->all, n) {
        const struct pod *p = list_entry(n, struct pod, node);
        for (size_t i = 0; i < p->containers_len; i++)
            pod_drop_last_run(p->containers[i]);
    }
}

// What helps before a pod has to go: files that nothing uses. True: under way.
static bool evict_reclaim(struct pods_evict *e, const struct eviction_threshold *t)
{
    const struct pods_eviction *o = &e->pods->options.eviction;
    if (!eviction_is_disk(t->signal))
        return false;
    evict_drop_old_runs(e);
    if (!o->reclaim)
        return false;
    e->reclaiming = true;
    o->reclaim(o->arg, evict_on_reclaimed, e);
    return true;
}

static void evict_check_node(struct pods_evict *e, const struct evict_pass *pass)
{
    const struct pods_eviction *o = &e->pods->options.eviction;
    struct eviction_conditions before = e->state.conditions;
    int64_t now_ns = exec_now_ns(e->pods->exec);
    const struct eviction_threshold *t =
        eviction_state_update(&e->state, o->config, &pass->facts, now_ns);
    const struct eviction_conditions *after = &e->state.conditions;
    if (o->changed && (before.memory != after->memory || before.disk != after->disk ||
                       before.pids != after->pids))
        o->changed(o->arg);
    if (evict_for_limits(e, pass) || !t || evict_awaits_pod(e) || e->pods->quiet)
        return;
    if (pass->reclaimed && eviction_is_relieved(o->config, &pass->facts))
        return;
    if (!pass->all) {
        evict_add_node_event(e, t);
        evict_begin(e, true, false);
    } else if (pass->reclaimed || !evict_reclaim(e, t)) {
        evict_for_node(e, pass, t);
    }
}

// --- Passes --------------------------------------------------------------------------------------

static void evict_pass_free(struct evict_pass *pass)
{
    arena_done(&pass->arena);
    free(pass);
}

static void evict_work(void *arg)
{
    struct evict_pass *pass = arg;
    if (pass->observe)
        pass->observe(pass->observe_arg, &pass->places, &pass->facts);
    vec_foreach(&pass->usages, u)
        pod_usage_measure(pass->runtime, true, &pass->arena, u);
}

static void evict_after(void *arg)
{
    struct evict_pass *pass = arg;
    struct pods_evict *e = pass->owner;
    if (e) {
        int64_t took = exec_now_ns(e->pods->exec) - pass->begun_ns;
        e->pass = NULL;
        evict_check_node(e, pass);
        if (!e->pass && !e->pods->quiet)
            exec_timer_start(e->pods->exec, &e->timer,
                             took * LOOK_SHARE > LOOK_NS ? took * LOOK_SHARE : LOOK_NS);
    }
    evict_pass_free(pass);
}

static void evict_begin(struct pods_evict *e, bool all, bool reclaimed)
{
    const struct pods_options *o = &e->pods->options;
    struct evict_pass *pass = xcalloc(1, sizeof(*pass));
    *pass = (struct evict_pass){.owner = e,
                                .runtime = o->runtime,
                                .observe = o->eviction.observe,
                                .observe_arg = o->eviction.arg,
                                .all = all,
                                .reclaimed = reclaimed,
                                .begun_ns = exec_now_ns(e->pods->exec)};
    pass->places.node = arena_str(&pass->arena, str_z(o->data_dir)).p;
    pass->places.images = arena_str(&pass->arena, str_z(o->eviction.images)).p;
    e->pass = pass;
    exec_timer_stop(e->pods->exec, &e->timer);
    list_foreach(&e->pods->all, n) {
        const struct pod *p = list_entry(n, struct pod, node);
        if (p->stage != POD_ACTIVE || !p->admitted ||
            (!all && !pod_has_storage_limit(pod_spec_of(p))))
            continue;
        struct pod_usage one;
        pod_usage_gather(p, &pass->arena, &one);
        vec_push_arena(&pass->arena, &pass->usages, one);
    }
    if (o->work) {
        o->work(o->arg, evict_work, evict_after, pass);
    } else {
        evict_work(pass);
        evict_after(pass);
    }
}

static void evict_on_time(void *arg)
{
    struct pods_evict *e = arg;
    if (!e->pass && !e->reclaiming)
        evict_begin(e, false, false);
}

// --- Interface -----------------------------------------------------------------------------------

struct pods_evict *pods_evict_new(struct pods *p)
{
    struct pods_evict *e = xcalloc(1, sizeof(*e));
    e->pods = p;
    eviction_state_init(&e->state);
    e->timer = (struct exec_timer){.fn = evict_on_time, .arg = e};
    return e;
}

void pods_evict_start(struct pods_evict *e)
{
    exec_timer_start(e->pods->exec, &e->timer, 0);
}

bool pods_evict_busy(const struct pods_evict *e)
{
    return e->pass || e->reclaiming;
}

void pods_evict_free(struct pods_evict *e)
{
    exec_timer_stop(e->pods->exec, &e->timer);
    if (e->pass)
        e->pass->owner = NULL;
    free(e->evicted);
    free(e);
}

void pods_pressure(const struct pods *p, struct eviction_conditions *ret)
{
    *ret = p->evict->state.conditions;
}

bool pod_evict_admits(const struct pod *p, struct sbuf *message)
{
    static const struct api_taint memory = {.key = STR_INIT("node.kubernetes.io/memory-pressure"),
                                            .effect = STR_INIT(TAINT_NO_SCHEDULE)};
    const struct eviction_conditions *c = &p->owner->evict->state.conditions;
    const struct api_pod *pod = pod_spec_of(p);
    if ((!c->memory && !c->disk && !c->pids) || evict_is_critical(pod))
        return true;
    if (!c->disk && !c->pids &&
        (!str_eqz(pod->status.qos_class, "BestEffort") ||
         taint_is_tolerated(&pod->spec.tolerations, &memory)))
        return true;
    cleanup_sbuf struct sbuf names = {0};
    sbuf_addf(&names, "%s%s%s", c->memory ? " MemoryPressure" : "", c->disk ? " DiskPressure" : "",
              c->pids ? " PIDPressure" : "");
    sbuf_addf(message, "The node had condition: [%s]. ", names.p + 1);
    return false;
}
