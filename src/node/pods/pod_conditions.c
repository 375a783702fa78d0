// SPDX-License-Identifier: Apache-2.0
//
// The conditions of a pod that a kubelet owns, computed from the statuses of its containers with
// kubelet's reasons and messages.
#include "node/pods/pod_conditions.h"

#include "api/match/claim.h"
#include "base/str.h"

#include "base/banned.h"

static const struct str ours[] = {
    STR_INIT("PodReadyToStartContainers"), STR_INIT("Initialized"),  STR_INIT("Ready"),
    STR_INIT("ContainersReady"),           STR_INIT("PodScheduled"), STR_INIT("DisruptionTarget"),
};

// All but the last are always there; that one is about evictions, and others set it too.
enum { OURS_ALWAYS = array_len(ours) - 1 };

bool pod_condition_is_ours(const struct api_pod_condition *c)
{
    for (size_t i = 0; i < OURS_ALWAYS; i++)
        if (str_eq(ours[i], c->type))
            return true;
    return str_eq(ours[OURS_ALWAYS], c->type) && str_eqz(c->reason, "TerminationByKubelet");
}

static const struct api_container_status *pod_conditions_find_status(
    const struct api_container_status_array *all, struct str name)
{
    for (size_t i = 0; i < all->n; i++)
        if (str_eq(all->p[i].name, name))
            return &all->p[i];
    return NULL;
}

static bool pod_conditions_is_sidecar(const struct api_container *c)
{
    return c->has_restart_policy && str_eqz(c->restart_policy, "Always");
}

static const struct api_pod_condition *pod_conditions_find_type(
    const struct api_pod_condition_array *all, struct str type)
{
    for (size_t i = 0; i < all->n; i++)
        if (str_eq(all->p[i].type, type))
            return &all->p[i];
    return NULL;
}

static void pod_conditions_list_name(struct sbuf *list, struct str name)
{
    sbuf_addf(list, "%s%.*s", list->n ? " " : "", STR_ARG(name));
}

static void pod_conditions_set(struct api_pod_condition *c, const char *status, const char *reason,
                               struct str message)
{
    c->status = str_z(status);
    c->reason = str_z(reason);
    c->message = message;
}

static void pod_conditions_make_initialized(const struct api_pod *pod,
                                            const struct api_pod_status *s, struct arena *arena,
                                            struct api_pod_condition *c)
{
    cleanup_sbuf struct sbuf missing = {0};
    pod_conditions_set(c, "True", NULL, (struct str){0});
    if (str_eqz(s->phase, "Succeeded")) {
        c->reason = STR("PodCompleted");
        return;
    }
    for (size_t i = 0; i < s->container_statuses.n; i++)
        if (s->container_statuses.p[i].state.running || s->container_statuses.p[i].container_id.n)
            return; // a container has run: it was initialized before
    for (size_t i = 0; i < pod->spec.init_containers.n; i++) {
        const struct api_container *spec = &pod->spec.init_containers.p[i];
        const struct api_container_status *is =
            pod_conditions_find_status(&s->init_container_statuses, spec->name);
        bool done = is && (pod_conditions_is_sidecar(spec) ? is->started : is->ready);
        if (!done)
            pod_conditions_list_name(&missing, spec->name);
    }
    if (missing.n)
        pod_conditions_set(c, "False", "ContainersNotInitialized",
                           arena_strf(arena, "containers with incomplete status: [%s]", missing.p));
}

static void pod_conditions_make_containers_ready(const struct api_pod *pod,
                                                 const struct api_pod_status *s,
                                                 struct arena *arena, struct api_pod_condition *c)
{
    cleanup_sbuf struct sbuf missing = {0};
    pod_conditions_set(c, "True", NULL, (struct str){0});
    if (pod_phase_is_final(s->phase)) {
        pod_conditions_set(c, "False", str_eqz(s->phase, "Failed") ? "PodFailed" : "PodCompleted",
                           (struct str){0});
        return;
    }
    for (size_t i = 0; i < pod->spec.init_containers.n; i++) {
        const struct api_container *spec = &pod->spec.init_containers.p[i];
        const struct api_container_status *is =
            pod_conditions_find_status(&s->init_container_statuses, spec->name);
        if (pod_conditions_is_sidecar(spec) && !(is && is->ready))
            pod_conditions_list_name(&missing, spec->name);
    }
    for (size_t i = 0; i < pod->spec.containers.n; i++) {
        struct str name = pod->spec.containers.p[i].name;
        const struct api_container_status *is =
            pod_conditions_find_status(&s->container_statuses, name);
        if (!is || !is->ready)
            pod_conditions_list_name(&missing, name);
    }
    if (missing.n)
        pod_conditions_set(c, "False", "ContainersNotReady",
                           arena_strf(arena, "containers with unready status: [%s]", missing.p));
}

// Ready: the containers are, and others who were asked agree.
static void pod_conditions_make_ready(const struct pod_conditions_input *in,
                                      const struct api_pod_condition *containers,
                                      struct arena *arena, struct api_pod_condition *c)
{
    const struct api_pod_readiness_gate_array *gates = &in->pod->spec.readiness_gates;
    cleanup_sbuf struct sbuf text = {0};
    c->status = containers->status;
    c->reason = containers->reason;
    c->message = containers->message;
    if (!str_eqz(c->status, "True"))
        return;
    for (size_t i = 0; i < gates->n; i++) {
        struct str type = gates->p[i].condition_type;
        const struct api_pod_condition *g = pod_conditions_find_type(&in->old->conditions, type);
        if (!g)
            sbuf_addf(&text,
                      "%scorresponding condition of pod readiness gate \"%.*s\" does not exist.",
                      text.n ? ", " : "", STR_ARG(type));
        else if (!str_eqz(g->status, "True"))
            sbuf_addf(&text,
                      "%sthe status of pod readiness gate \"%.*s\" is not \"True\", but %.*s",
                      text.n ? ", " : "", STR_ARG(type), STR_ARG(g->status));
    }
    if (text.n)
        pod_conditions_set(c, "False", "ReadinessGatesNotReady", arena_str(arena, sbuf_str(&text)));
}

// The time of the last transition stays while the status does.
static void pod_conditions_set_transition(const struct pod_conditions_input *in,
                                          struct api_pod_condition *c)
{
    const struct api_pod_condition *before =
        pod_conditions_find_type(&in->old->conditions, c->type);
    c->observed_generation = in->pod->metadata.generation;
    if (before && str_eq(before->status, c->status))
        c->last_transition_time = before->last_transition_time;
    else
        c->last_transition_time = (struct api_time){.at = {.sec = in->now_s}, .set = true};
}

void pod_conditions_make(const struct pod_conditions_input *in, struct api_pod_status *status,
                         struct arena *arena)
{
    const struct api_pod_condition_array *old = &in->old->conditions;
    struct api_pod_condition *all =
        arena_array(arena, struct api_pod_condition, old->n + array_len(ours));
    struct api_pod_condition made[array_len(ours)] = {0};
    size_t n = 0, count = in->evicted.n ? array_len(ours) : OURS_ALWAYS;
    for (size_t i = 0; i < count; i++)
        made[i].type = ours[i];
    pod_conditions_set(&made[0], in->sandbox_ready ? "True" : "False", NULL, (struct str){0});
    pod_conditions_make_initialized(in->pod, status, arena, &made[1]);
    pod_conditions_make_containers_ready(in->pod, status, arena, &made[3]);
    pod_conditions_make_ready(in, &made[3], arena, &made[2]);
    pod_conditions_set(&made[4], "True", NULL, (struct str){0});
    pod_conditions_set(&made[OURS_ALWAYS], "True", "TerminationByKubelet", in->evicted);
    for (size_t i = 0; i < count; i++)
        pod_conditions_set_transition(in, &made[i]);
    // In the order the API has them, new ones behind: as a server merges them.
    for (size_t i = 0; i < old->n; i++) {
        all[n++] = old->p[i];
        for (size_t m = 0; m < count; m++)
            if (str_eq(made[m].type, old->p[i].type))
                all[n - 1] = made[m];
    }
    for (size_t m = 0; m < count; m++)
        if (!pod_conditions_find_type(old, made[m].type))
            all[n++] = made[m];
    status->conditions = (struct api_pod_condition_array){all, n};
}
