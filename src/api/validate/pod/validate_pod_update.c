// SPDX-License-Identifier: Apache-2.0
//
// What may change of a pod that is there: nearly nothing of its spec. Subresources change their
// part.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define UPDATABLE                                                                             \
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," \
    "`spec.tolerations` (only additions to existing tolerations),"                            \
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// --- Parts that may change in one direction ------------------------------------------------------

// False: the remaining rules do not apply to this pod.
static bool check_same_containers(struct validator *v, const struct path *list,
                                  const struct api_container_array *now,
                                  const struct api_container_array *old)
{
    if (now->n != old->n) {
        cause_forbidden(v->causes, list, STR("pod updates may not add or remove containers"));
        return false;
    }
    for (size_t i = 0; i < now->n; i++)
        validate_required(v, AT(AT_ITEM(list, i), "image"), now->p[i].image);
    return true;
}

static bool check_deadline(struct validator *v, const struct path *at,
                           const struct api_pod_spec *now, const struct api_pod_spec *old)
{
    int64_t value = now->active_deadline_seconds;
    if (!now->has_active_deadline_seconds) {
        if (old->has_active_deadline_seconds)
            cause_invalid_json(v->causes, at, STR("null"),
                               STR("must not update from a positive integer to nil value"));
        return true;
    }
    size_t before = v->causes->n;
    validate_between(v, at, value, 0, INT32_MAX);
    if (v->causes->n == before && old->has_active_deadline_seconds &&
        old->active_deadline_seconds < value)
        cause_invalid_i64(v->causes, at, value,
                          STR("must be less than or equal to previous value"));
    return v->causes->n == before;
}

// All of a toleration but its seconds, as one text that no other has.
static struct str toleration_text(const struct api_toleration *t, struct arena *arena)
{
    return arena_strf(arena, "%zu,%zu,%zu,%.*s%.*s%.*s%.*s", t->key.n, t->operator.n, t->value.n,
                      STR_ARG(t->key), STR_ARG(t->operator), STR_ARG(t->value), STR_ARG(t->effect));
}

static void check_added_tolerations(struct validator *v, const struct path *at,
                                    const struct api_toleration_array *now,
                                    const struct api_toleration_array *old)
{
    cleanup_seen struct seen kept = {0};
    for (size_t i = 0; old->n && i < now->n; i++)
        (void)seen_add(&kept, toleration_text(&now->p[i], scratch(v)));
    for (size_t i = 0; i < old->n; i++) {
        if (!map_has(&kept, toleration_text(&old->p[i], scratch(v)))) {
            cause_forbidden(
                v->causes, at,
                STR("existing toleration can not be modified except its tolerationSeconds"));
            return;
        }
    }
}

static void check_removed_gates(struct validator *v, const struct path *list,
                                const struct api_pod_scheduling_gate_array *now,
                                const struct api_pod_scheduling_gate_array *old)
{
    cleanup_seen struct seen known = {0};
    for (size_t i = 0; i < old->n; i++)
        (void)seen_add(&known, old->p[i].name);
    for (size_t i = 0; i < now->n; i++)
        if (!map_has(&known, now->p[i].name))
            cause_forbidden(
                v->causes, AT(AT_ITEM(list, i), "name"),
                arena_strf(scratch(v),
                           "only deletion is allowed, but found new scheduling gate '%.*s'",
                           STR_ARG(now->p[i].name)));
}

static void check_annotation_changes(struct validator *v, const struct api_str_map *now,
                                     const struct api_str_map *old, bool added)
{
    static const struct str app_armor = STR_INIT("container.apparmor.security.beta.kubernetes.io/");
    const struct path *at = AT(AT(NULL, "metadata"), "annotations");
    for (size_t i = 0; i < old->n; i++) {
        struct str key = old->p[i].key;
        bool armor = str_starts(key, app_armor);
        if (!armor && !str_eqz(key, "kubernetes.io/config.mirror"))
            continue;
        const struct str *is = api_map_find(now, key);
        if (!is || (!added && !str_eq(*is, old->p[i].value)))
            cause_forbidden(v->causes, AT_KEY(at, key),
                            arena_strf(scratch(v), "may not %s %s annotation%s",
                                       added ? "add" : "remove or update",
                                       armor ? "AppArmor" : "mirror pod", armor ? "s" : ""));
    }
}

// --- Pods that wait behind gates -----------------------------------------------------------------

static bool only_additions(const struct api_str_map *now, const struct api_str_map *old)
{
    for (size_t i = 0; i < old->n; i++) {
        const struct str *is = api_map_find(now, old->p[i].key);
        if (!is || !str_eq(*is, old->p[i].value))
            return false;
    }
    return true;
}

static bool starts_alike(const struct api_node_selector_requirement_array *now,
                         const struct api_node_selector_requirement_array *old)
{
    for (size_t i = 0; i < old->n; i++)
        if (i >= now->n || !api_equal(&api_node_selector_requirement_type, &now->p[i], &old->p[i]))
            return false;
    return true;
}

static bool term_only_grew(const struct api_node_selector_term *now,
                           const struct api_node_selector_term *old)
{
    bool was_empty = old->match_expressions.n == 0 && old->match_fields.n == 0;
    if (was_empty && (now->match_expressions.n || now->match_fields.n))
        return false;
    return starts_alike(&now->match_expressions, &old->match_expressions) &&
           starts_alike(&now->match_fields, &old->match_fields);
}

static const struct api_node_affinity *node_affinity(const struct api_pod_spec *s)
{
    return s->affinity ? s->affinity->node_affinity : NULL;
}

static void check_gated_affinity(struct validator *v, const struct path *spec,
                                 const struct api_node_affinity *now,
                                 const struct api_node_affinity *old)
{
    const struct path *at = AT(AT(spec, "affinity"), "nodeAffinity");
    const struct path *terms =
        AT(AT(at, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms");
    static const struct api_node_selector_term_array none = {0};
    if (!old || !old->required_during_scheduling_ignored_during_execution)
        return;
    const struct api_node_selector_term_array *was =
        &old->required_during_scheduling_ignored_during_execution->node_selector_terms;
    const struct api_node_selector_term_array *is =
        now && now->required_during_scheduling_ignored_during_execution
            ? &now->required_during_scheduling_ignored_during_execution->node_selector_terms
            : &none;
    if (was->n && was->n != is->n) {
        cleanup_sbuf struct sbuf b = {0};
        for (size_t i = 0; i < is->n; i++)
            sbuf_addf(&b, "%s%.*s", i ? "," : "[",
                      STR_ARG(validate_show_internal_json(&api_node_selector_term_type, &is->p[i],
                                                          scratch(v))));
        sbuf_addz(&b, is->n ? "]" : is->p ? "[]" : "null");
        cause_invalid_json(
            v->causes, terms, arena_str(scratch(v), sbuf_str(&b)),
            STR("no additions/deletions to non-empty NodeSelectorTerms list are allowed"));
        return;
    }
    for (size_t i = 0; i < was->n; i++)
        if (!term_only_grew(&is->p[i], &was->p[i]))
            cause_invalid_json(v->causes, AT_ITEM(terms, i),
                               validate_show_internal_json(&api_node_selector_term_type, &is->p[i],
                                                           scratch(v)),
                               STR("only additions are allowed (no mutations or deletions)"));
}

// What a gated pod may change is put back in masked after it was looked at.
static void check_gated(struct validator *v, const struct path *spec, struct api_pod_spec *masked,
                        const struct api_pod_spec *old)
{
    const struct api_field *f = api_type_field(&api_pod_spec_type, STR("nodeSelector"));
    if (!api_field_equal(f, masked, old) &&
        !only_additions(&masked->node_selector, &old->node_selector)) {
        cleanup_sbuf struct sbuf b = {0};
        struct json_writer w = {.out = &b, .html = true};
        json_write_object_begin(&w);
        for (size_t i = 0; i < masked->node_selector.n; i++) {
            json_write_key(&w, masked->node_selector.p[i].key);
            json_write_str(&w, masked->node_selector.p[i].value);
        }
        json_write_object_end(&w);
        cause_invalid_json(v->causes, AT(spec, "nodeSelector"),
                           masked->node_selector.p ? arena_str(scratch(v), sbuf_str(&b))
                                                   : STR("null"),
                           STR("only additions to spec.nodeSelector are allowed (no mutations or "
                               "deletions)"));
    }
    masked->node_selector = old->node_selector;
    check_gated_affinity(v, spec, node_affinity(masked), node_affinity(old));
    struct api_affinity *a = arena_one(scratch(v), struct api_affinity);
    if (masked->affinity)
        *a = *masked->affinity;
    a->node_affinity = old->affinity ? old->affinity->node_affinity : NULL;
    bool empty = !a->node_affinity && !a->pod_affinity && !a->pod_anti_affinity;
    masked->affinity = empty && !old->affinity ? NULL : a;
}

// --- The whole -----------------------------------------------------------------------------------

enum part { PART_WHOLE, PART_DEBUGGERS, PART_RESIZE };

static struct api_container_array with_old(struct validator *v,
                                           const struct api_container_array *now,
                                           const struct api_container_array *old, enum part part)
{
    struct api_container *all = arena_array(scratch(v), struct api_container, now->n + 1);
    for (size_t i = 0; i < now->n; i++) {
        all[i] = now->p[i];
        all[i].image = old->p[i].image;
        if (part == PART_RESIZE) {
            all[i].resources.limits = old->p[i].resources.limits;
            all[i].resources.requests = old->p[i].resources.requests;
        }
    }
    return (struct api_container_array){now->p ? all : NULL, now->n};
}

// Whether the specs are the same but for what may differ.
static void check_rest(struct validator *v, const struct path *spec, const struct api_pod_spec *now,
                       const struct api_pod_spec *old, enum part part)
{
    struct api_pod_spec masked = *now;
    masked.containers = with_old(v, &now->containers, &old->containers, part);
    masked.init_containers = with_old(v, &now->init_containers, &old->init_containers, part);
    masked.has_active_deadline_seconds = old->has_active_deadline_seconds;
    masked.active_deadline_seconds = old->active_deadline_seconds;
    masked.scheduling_gates = old->scheduling_gates;
    masked.tolerations = old->tolerations;
    if (part == PART_DEBUGGERS)
        masked.ephemeral_containers = old->ephemeral_containers;
    if (part == PART_RESIZE)
        masked.resources = old->resources;
    if (old->has_termination_grace_period_seconds && old->termination_grace_period_seconds < 0 &&
        now->has_termination_grace_period_seconds && now->termination_grace_period_seconds == 1)
        masked.termination_grace_period_seconds = old->termination_grace_period_seconds;
    if (old->scheduling_gates.n)
        check_gated(v, spec, &masked, old);
    if (!api_equal(&api_pod_spec_type, &masked, old))
        cause_forbidden(v->causes, spec,
                        STR("pod updates may not change fields other than " UPDATABLE));
}

// Debuggers can be added, never changed or taken away.
static void check_debuggers(struct validator *v, const struct path *at,
                            const struct api_ephemeral_container_array *now,
                            const struct api_ephemeral_container_array *old)
{
    cleanup_positions struct positions first = {0};
    for (size_t i = now->n; old->n && i-- > 0;)
        *map_put(&first, now->p[i].ephemeral_container_common.name) = i;
    for (size_t i = 0; i < old->n; i++) {
        const struct api_ephemeral_container *was = &old->p[i];
        struct str name = was->ephemeral_container_common.name;
        const size_t *place = map_get(&first, name);
        const struct api_ephemeral_container *is = place ? &now->p[*place] : NULL;
        if (is && api_equal(&api_ephemeral_container_type, is, was))
            continue;
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addz(&b, "existing ephemeral containers ");
        sbuf_add_quoted(&b, name);
        sbuf_addz(&b, is ? " may not be changed\n" : " may not be removed\n");
        cause_forbidden(v->causes, at, sbuf_str(&b));
    }
}

void validate_pod_update(struct validator *v, const struct api_pod *pod, const struct api_pod *old)
{
    const struct path *spec = AT(NULL, "spec");
    const struct api_pod_spec *now = &pod->spec, *was = &old->spec;
    struct str sub = v->rules->subresource;
    enum part part = str_eqz(sub, "ephemeralcontainers") ? PART_DEBUGGERS
                     : str_eqz(sub, "resize")            ? PART_RESIZE
                                                         : PART_WHOLE;
    check_annotation_changes(v, &pod->metadata.annotations, &old->metadata.annotations, false);
    check_annotation_changes(v, &old->metadata.annotations, &pod->metadata.annotations, true);
    if (part == PART_DEBUGGERS)
        check_debuggers(v, AT(spec, "ephemeralContainers"), &now->ephemeral_containers,
                        &was->ephemeral_containers);
    if (!check_same_containers(v, AT(spec, "containers"), &now->containers, &was->containers) ||
        !check_same_containers(v, AT(spec, "initContainers"), &now->init_containers,
                               &was->init_containers) ||
        !check_deadline(v, AT(spec, "activeDeadlineSeconds"), now, was))
        return;
    check_added_tolerations(v, AT(spec, "tolerations"), &now->tolerations, &was->tolerations);
    check_removed_gates(v, AT(spec, "schedulingGates"), &now->scheduling_gates,
                        &was->scheduling_gates);
    if (!api_equal(&api_pod_spec_type, now, was))
        check_rest(v, spec, now, was, part);
}
