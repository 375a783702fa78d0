// SPDX-License-Identifier: Apache-2.0
//
// The cluster in memory: its life, what is admitted to it, and when it has come to rest.
#include "plan/sim/sim.h"

#include "api/quota.h"
#include "plan/sim/admission.h"

#include "base/banned.h"

// Who wants to try again within this time is waited for; later tries mean that it does not succeed.
#define SOON_NS (2 * CLOCK_NS_PER_SEC)

// A pod that tolerates a taint for longer stays.
#define LOOK_AHEAD_NS (INT64_C(366) * 24 * 3600 * CLOCK_NS_PER_SEC)

// --- Objects -------------------------------------------------------------------------------------

void sim_put(struct sim *s, const struct api_type *type, void *value)
{
    const struct api_object o = {world_kind(type), value};
    assert(o.kind);
    (void)memory_put(s->memory, &o);
}

static const struct typed_object *sim_find(const struct sim *s, const char *version,
                                           const char *kind, struct str namespace, struct str name)
{
    return memory_find(s->memory, &(struct client_key){api_kind_find(str_z(version), str_z(kind)),
                                                       namespace, name});
}

const struct typed_object *sim_pod(const struct sim *s, struct str namespace, struct str name)
{
    return sim_find(s, "v1", "Pod", namespace, name);
}

const struct typed_object *sim_claim(const struct sim *s, struct str namespace, struct str name)
{
    return sim_find(s, "resource.k8s.io/v1", "ResourceClaim", namespace, name);
}

// --- Quotas --------------------------------------------------------------------------------------

static struct str sim_extended_of(void *ctx, struct str class_name, struct arena *arena)
{
    const struct typed_object *o =
        sim_find(ctx, "resource.k8s.io/v1", "DeviceClass", STR(""), class_name);
    const struct api_device_class *c = o ? o->object.value : NULL;
    return c ? arena_str(arena, c->spec.extended_resource_name) : STR("");
}

struct class_search {
    struct str extended;
    bool found;
};

static void sim_match_class(void *arg, const struct typed_object *o)
{
    struct class_search *c = arg;
    const struct api_device_class *class_ = o->object.value;
    c->found |= str_eq(class_->spec.extended_resource_name, c->extended);
}

static bool sim_has_class(void *ctx, struct str extended)
{
    const struct sim *s = ctx;
    struct class_search c = {.extended = extended};
    memory_foreach(s->memory, api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceClass")),
                   sim_match_class, &c);
    return c.found;
}

static const struct api_pod *sim_pod_of(void *ctx, struct str namespace, struct str name,
                                        struct arena *arena)
{
    (void)arena;
    const struct typed_object *o = sim_pod(ctx, namespace, name);
    return o ? o->object.value : NULL;
}

struct quota_search {
    struct str namespace;
    struct VEC(const struct typed_object *) found; // referenced
};

static void sim_match_quota(void *arg, const struct typed_object *o)
{
    struct quota_search *q = arg;
    if (str_eq(o->meta->namespace, q->namespace))
        vec_push(&q->found, typed_object_ref(o));
}

// sim_charge counts an object in the quotas of its namespace, in all of them or in none.
static int sim_charge(struct sim *s, const struct api_object *object, struct sbuf *why)
{
    struct quota_search q = {.namespace = api_object_meta(object)->namespace};
    struct arena arena = {0};
    const struct quota_world world = {.features = &s->features,
                                      .now = {.set = true,
                                              .at = moment_from_ns(clock_wall_ns(&s->clock.clock))},
                                      .extended_of = sim_extended_of,
                                      .has_class = sim_has_class,
                                      .pod_of = sim_pod_of,
                                      .ctx = s};
    const struct api_object_meta *m = api_object_meta(object);
    cleanup_sbuf struct sbuf reason = {0};
    int r = 0;
    memory_foreach(s->memory, world_kind(&api_resource_quota_type), sim_match_quota, &q);
    struct api_resource_quota *changed =
        arena_array(&arena, struct api_resource_quota, q.found.n + 1);
    bool *counted = arena_array(&arena, bool, q.found.n + 1);
    struct quota_change c = {0};
    if (q.found.n)
        c = quota_change_of(object, NULL, &world, &arena);
    for (size_t i = 0; r == 0 && i < q.found.n; i++) {
        changed[i] = *(const struct api_resource_quota *)q.found.p[i]->object.value;
        r = quota_admit(&changed[i], &c, &arena, &counted[i], &reason);
    }
    for (size_t i = 0; i < q.found.n; i++) {
        if (r == 0 && counted[i])
            sim_put(s, &api_resource_quota_type, &changed[i]);
        typed_object_unref(q.found.p[i]);
    }
    if (r < 0) {
        struct str group = object->kind->group;
        sbuf_addf(why, "%.*s%s%.*s \"%.*s\" is forbidden: %.*s", STR_ARG(object->kind->plural),
                  group.n ? "." : "", STR_ARG(group),
                  STR_ARG(m->name.n ? m->name : m->generate_name), STR_ARG(sbuf_str(&reason)));
    }
    vec_done(&q.found);
    arena_done(&arena);
    return r;
}

static void sim_refuse(struct sim *s, struct str namespace, struct str pod, struct str why)
{
    struct str key = arena_strf(&s->arena, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(pod));
    *map_put(&s->refusals, key) = arena_str(&s->arena, why);
}

struct str sim_refusal(const struct sim *s, struct str pod)
{
    const struct str *why = map_get(&s->refusals, pod);
    return why ? *why : (struct str){0};
}

// --- Admission -----------------------------------------------------------------------------------

static void sim_give_to_admission(void *arg, const struct typed_object *o)
{
    admission_put(arg, &o->object);
}

int sim_apply_admission(struct sim *s, struct api_pod *pod, struct arena *arena, struct sbuf *why)
{
    static const struct api_type *const read[] = {&api_priority_class_type, &api_limit_range_type,
                                                  &api_runtime_class_type};
    if (!s->admission) {
        s->admission = admission_new(&s->features, clock_wall_ns(&s->clock.clock));
        for (size_t i = 0; i < array_len(read); i++)
            memory_foreach(s->memory, world_kind(read[i]), sim_give_to_admission, s->admission);
    }
    return admission_create_pod(s->admission, pod, arena, why);
}

// sim_admit applies admission to a new pod, in place, and counts it in the quotas.
static int sim_admit(struct sim *s, struct api_pod *pod, struct arena *arena, struct sbuf *why)
{
    const struct api_object object = {world_kind(&api_pod_type), pod};
    int r = sim_apply_admission(s, pod, arena, why);
    return r < 0 ? r : sim_charge(s, &object, why);
}

int sim_admit_pod(struct sim *s, const struct api_pod *pod)
{
    struct arena arena = {0};
    struct api_pod own;
    cleanup_sbuf struct sbuf why = {0};
    api_copy(&api_pod_type, pod, &own, &arena);
    int r = sim_admit(s, &own, &arena, &why);
    if (r == 0)
        sim_put(s, &api_pod_type, &own);
    else
        sim_refuse(s, own.metadata.namespace, own.metadata.name, sbuf_str(&why));
    arena_done(&arena);
    return r;
}

int sim_admit_claim(struct sim *s, struct api_resource_claim *claim)
{
    const struct api_object object = {world_kind(&api_resource_claim_type), claim};
    cleanup_sbuf struct sbuf why = {0}, namespace = {0};
    int r = sim_charge(s, &object, &why);
    sbuf_addf(&namespace, SIM_CLAIM_KEY "%.*s", STR_ARG(claim->metadata.namespace));
    if (r == 0)
        sim_put(s, &api_resource_claim_type, claim);
    else
        sim_refuse(s, sbuf_str(&namespace), claim->metadata.name, sbuf_str(&why));
    return r;
}

// sim_guard is the admission of what controllers and the scheduler create.
static int sim_guard(void *arg, const struct api_object *object, const struct typed_object *old,
                     struct err *err)
{
    struct sim *s = arg;
    cleanup_sbuf struct sbuf why = {0};
    const struct api_object_meta *m = api_object_meta(object);
    if (old || !object->kind->namespaced || object->kind->type == &api_event_type)
        return 0;
    int r = object->kind->type == &api_pod_type ? sim_admit(s, object->value, &s->arena, &why)
                                                : sim_charge(s, object, &why);
    if (r == 0)
        return 0;
    if (m->owner_references.n)
        sim_refuse(s, m->namespace, m->owner_references.p[0].name, sbuf_str(&why));
    return err_set(err, ERR_FORBIDDEN, "%.*s", STR_ARG(sbuf_str(&why)));
}

// --- Life ----------------------------------------------------------------------------------------

static void sim_on_write(void *arg, const struct typed_object *before,
                         const struct typed_object *after)
{
    struct sim *s = arg;
    if (after || !s->evicting || before->object.kind->type != &api_pod_type)
        return;
    int64_t after_s = (clock_mono_ns(&s->clock.clock) - s->started_ns) / CLOCK_NS_PER_SEC;
    vec_push(&s->evictions, ((struct sim_eviction){typed_object_ref(before), after_s}));
}

void sim_start(struct sim *s, const struct features *features, int64_t wall_ns)
{
    *s = (struct sim){0};
    if (features)
        s->features = *features;
    else
        features_init(&s->features, FEATURES_MINOR);
    clock_fake_init(&s->clock, wall_ns);
    rng_seeded_init(&s->rng, 1);
    s->exec = exec_sim_new(&s->clock, &s->rng.rng);
    s->memory = memory_new(exec_sim_exec(s->exec), &s->features);
    s->client = memory_client(s->memory);
    memory_set_guard(s->memory, sim_guard, s);
    memory_set_hook(s->memory, sim_on_write, s);
}

void sim_end(struct sim *s)
{
    if (!s->exec)
        return;
    sched_free(s->sched);
    ctl_free(s->ctl);
    s->ctl = NULL;
    admission_free(s->admission);
    client_free(s->client);
    while (exec_sim_step(s->exec))
        ;
    memory_free(s->memory);
    exec_sim_free(s->exec);
    vec_foreach(&s->evictions, e)
        typed_object_unref(e->pod);
    vec_done(&s->evictions);
    map_done(&s->refusals);
    vec_done(&s->schedulers);
    arena_done(&s->arena);
    *s = (struct sim){0};
}

// sim_lead starts controllers.
static void sim_lead(struct sim *s, const enum ctl_controller *which, size_t len)
{
    struct ctl_options o = {.client = s->client,
                            .exec = exec_sim_exec(s->exec),
                            .features = &s->features,
                            // until all is listed: what is not known yet would be taken for missing
                            .standby = true};
    for (size_t i = 0; i < CTL_CONTROLLERS; i++)
        o.off[i] = true;
    for (size_t i = 0; i < len; i++)
        o.off[which[i]] = false;
    s->ctl = ctl_new(&o);
    ctl_start(s->ctl);
    while (!ctl_synced(s->ctl) && exec_sim_step(s->exec))
        ;
    ctl_lead(s->ctl);
}

void sim_control(struct sim *s)
{
    static const enum ctl_controller which[] = {CTL_CLAIMS, CTL_QUOTAS, CTL_VOLUMES,
                                                CTL_DAEMON_SETS};
    sim_lead(s, which, array_len(which));
}

void sim_evict(struct sim *s)
{
    static const enum ctl_controller which = CTL_TAINTS;
    s->started_ns = clock_mono_ns(&s->clock.clock);
    s->evicting = true;
    sim_lead(s, &which, 1);
    exec_sim_run(s->exec, s->started_ns + LOOK_AHEAD_NS);
    s->evicting = false;
    ctl_free(s->ctl);
    s->ctl = NULL;
    while (exec_sim_step(s->exec))
        ;
}

static void sim_learn_scheduler(void *arg, const struct typed_object *o)
{
    struct sim *s = arg;
    const struct api_pod *pod = o->object.value;
    bool known = pod->spec.node_name.n > 0;
    vec_foreach(&s->schedulers, name)
        known |= str_eq(*name, pod->spec.scheduler_name);
    if (!known)
        vec_push(&s->schedulers, arena_str(&s->arena, pod->spec.scheduler_name));
}

void sim_schedule(struct sim *s, enum alloc_policy policy)
{
    vec_push(&s->schedulers, STR(SIM_SCHEDULER));
    memory_foreach(s->memory, world_kind(&api_pod_type), sim_learn_scheduler, s);
    s->sched = sched_new(&(struct sched_options){.client = s->client,
                                                 .names = s->schedulers.p,
                                                 .names_len = s->schedulers.n,
                                                 .features = &s->features,
                                                 .policy = policy,
                                                 .preemption = SCHED_PREEMPTION_OFF});
    sched_start(s->sched);
}

// sim_at_rest: all components only wait. Pods that are being bound may wait for drivers and
// provisioners, which are not here.
static bool sim_at_rest(const struct sim *s)
{
    struct sched_stats stats = {0};
    if (s->sched)
        sched_get_stats(s->sched, &stats);
    return (!s->sched || sched_synced(s->sched)) && stats.active == 0 && stats.backing_off == 0 &&
           (!s->ctl || ctl_idle(s->ctl));
}

bool sim_is_late(const struct sim *s)
{
    return s->limit.clock && clock_mono_ns(s->limit.clock) >= s->limit.end_ns;
}

void sim_settle(struct sim *s, int64_t seconds)
{
    int64_t until = clock_mono_ns(&s->clock.clock) + seconds * CLOCK_NS_PER_SEC;
    for (;;) {
        while (!sim_is_late(s) && exec_sim_step(s->exec))
            ;
        if (sim_is_late(s))
            return;
        int64_t next = exec_sim_next_ns(s->exec);
        bool soon = next < s->clock.mono + SOON_NS;
        if (next > until || (!soon && sim_at_rest(s)))
            return;
        if (next > s->clock.mono)
            clock_fake_advance(&s->clock, next - s->clock.mono);
    }
}
