// SPDX-License-Identifier: Apache-2.0
//
// Where a pod may run: affinity, tolerations, spreading over topologies.
#include "api/validate/validate_core.h"

#include "base/banned.h"

void validate_taint_effect(struct validator *v, const struct path *at, struct str effect)
{
    static const struct str effects[] = {STR_INIT("NoSchedule"), STR_INIT("PreferNoSchedule"),
                                         STR_INIT("NoExecute")};
    validate_choice(v, at, effect, CHOICES(effects));
}

// --- Tolerations ---------------------------------------------------------------------------------

static void check_toleration_value(struct validator *v, const struct path *at,
                                   const struct api_toleration *t)
{
    static const struct str known[] = {STR_INIT("Equal"), STR_INIT("Exists")};
    static const struct str all[] = {STR_INIT("Equal"), STR_INIT("Exists"), STR_INIT("Lt"),
                                     STR_INIT("Gt")};
    const struct path *operation = AT(at, "operator");
    if (t->operator.n == 0 || str_eqz(t->operator, "Equal")) {
        struct name_msgs msgs = {.arena = scratch(v)};
        cleanup_sbuf struct sbuf b = {0};
        name_label_value(t->value, &msgs);
        for (size_t i = 0; i < msgs.n; i++)
            sbuf_addf(&b, "%s%.*s", i ? ";" : "", STR_ARG(msgs.p[i]));
        if (msgs.n)
            cause_invalid(v->causes, operation, t->value, sbuf_str(&b));
    } else if (str_eqz(t->operator, "Exists")) {
        if (t->value.n)
            cause_invalid(v->causes, operation, t->value,
                          STR("value must be empty when `operator` is 'Exists'"));
    } else if (validate_is_choice(CHOICES(all), t->operator)) {
        // Comparisons are for a gate that is off.
        cause_not_supported(v->causes, operation, t->operator, all, array_len(all));
    } else {
        validate_choice(v, operation, t->operator, CHOICES(known));
    }
}

void validate_tolerations(struct validator *v, const struct path *list,
                          const struct api_toleration_array *tolerations)
{
    for (size_t i = 0; i < tolerations->n && !causes_full(v->causes); i++) {
        const struct api_toleration *t = &tolerations->p[i];
        const struct path *at = AT_ITEM(list, i);
        if (t->key.n)
            validate_label_key(v, AT(at, "key"), t->key);
        if (t->key.n == 0 && !str_eqz(t->operator, "Exists"))
            cause_invalid(v->causes, AT(at, "operator"), t->operator,
                          STR("operator must be Exists when `key` is empty, which means \"match "
                              "all values and all keys\""));
        if (t->has_toleration_seconds && !str_eqz(t->effect, "NoExecute"))
            cause_invalid(v->causes, AT(at, "effect"), t->effect,
                          STR("effect must be 'NoExecute' when `tolerationSeconds` is set"));
        check_toleration_value(v, at, t);
        if (t->effect.n)
            validate_taint_effect(v, AT(at, "effect"), t->effect);
    }
}

// --- Keys of labels that a pod's own values are taken for ----------------------------------------

static void check_label_keys(struct validator *v, const struct path *at,
                             const struct api_str_array *keys,
                             const struct api_label_selector *selector)
{
    if (keys->n && !selector)
        cause_forbidden(v->causes, at, STR("must not be specified when labelSelector is not set"));
    for (size_t i = 0; selector && i < keys->n; i++)
        validate_label_key(v, AT_ITEM(at, i), keys->p[i]);
}

// A key of matchLabelKeys becomes an expression of the selector, so it may stand there once.
static void check_key_overlap(struct validator *v, const struct path *at,
                              const struct api_str_array *keys,
                              const struct api_label_selector *selector)
{
    cleanup_seen struct seen seen = {0};
    cleanup_positions struct positions last = {0};
    for (size_t i = 0; i < keys->n; i++)
        *map_put(&last, keys->p[i]) = i;
    for (size_t i = 0; i < selector->match_labels.n; i++)
        (void)seen_add(&seen, selector->match_labels.p[i].key);
    for (size_t i = 0; i < selector->match_expressions.n; i++) {
        struct str key = selector->match_expressions.p[i].key;
        const size_t *where = seen_add(&seen, key) ? map_get(&last, key) : NULL;
        if (where)
            cause_invalid(v->causes, AT_ITEM(at, *where), key,
                          STR("exists in both matchLabelKeys and labelSelector"));
    }
}

static void check_match_keys(struct validator *v, const struct path *at,
                             const struct api_str_array *match,
                             const struct api_str_array *mismatch,
                             const struct api_label_selector *selector)
{
    const struct path *list = AT(at, "matchLabelKeys");
    check_label_keys(v, list, match, selector);
    check_label_keys(v, AT(at, "mismatchLabelKeys"), mismatch, selector);
    if (selector)
        check_key_overlap(v, at, match, selector);
    cleanup_seen struct seen mismatched = {0};
    for (size_t i = 0; match->n && i < mismatch->n; i++)
        (void)seen_add(&mismatched, mismatch->p[i]);
    for (size_t i = 0; i < match->n; i++)
        if (map_has(&mismatched, match->p[i]))
            cause_invalid(v->causes, AT_ITEM(list, i), match->p[i],
                          STR("exists in both matchLabelKeys and mismatchLabelKeys"));
}

// --- Affinity ------------------------------------------------------------------------------------

static void check_weight(struct validator *v, const struct path *at, int32_t weight)
{
    if (weight <= 0 || weight > 100)
        cause_invalid_i64(v->causes, at, weight, STR("must be in the range 1-100"));
}

static void check_pod_term(struct validator *v, const struct path *at,
                           const struct api_pod_affinity_term *term)
{
    validate_label_selector(v, AT(at, "labelSelector"), term->label_selector);
    validate_label_selector(v, AT(at, "namespaceSelector"), term->namespace_selector);
    for (size_t i = 0; i < term->namespaces.n; i++)
        validate_named(v, AT(at, "namespace"), term->namespaces.p[i], name_dns_label);
    check_match_keys(v, at, &term->match_label_keys, &term->mismatch_label_keys,
                     term->label_selector);
    const struct path *key = AT(at, "topologyKey");
    if (term->topology_key.n == 0)
        cause_required(v->causes, key, STR("can not be empty"));
    validate_label_key(v, key, term->topology_key);
}

static void check_pod_terms(struct validator *v, const struct path *at,
                            const struct api_pod_affinity_term_array *required,
                            const struct api_weighted_pod_affinity_term_array *preferred)
{
    const struct path *list = AT(at, "requiredDuringSchedulingIgnoredDuringExecution");
    for (size_t i = 0; i < required->n && !causes_full(v->causes); i++)
        check_pod_term(v, AT_ITEM(list, i), &required->p[i]);
    list = AT(at, "preferredDuringSchedulingIgnoredDuringExecution");
    for (size_t i = 0; i < preferred->n && !causes_full(v->causes); i++) {
        const struct path *item = AT_ITEM(list, i);
        check_weight(v, AT(item, "weight"), preferred->p[i].weight);
        check_pod_term(v, AT(item, "podAffinityTerm"), &preferred->p[i].pod_affinity_term);
    }
}

static void check_node_affinity(struct validator *v, const struct path *at,
                                const struct api_node_affinity *a)
{
    if (a->required_during_scheduling_ignored_during_execution)
        validate_node_selector(v, AT(at, "requiredDuringSchedulingIgnoredDuringExecution"),
                               a->required_during_scheduling_ignored_during_execution);
    const struct api_preferred_scheduling_term_array *terms =
        &a->preferred_during_scheduling_ignored_during_execution;
    const struct path *list = AT(at, "preferredDuringSchedulingIgnoredDuringExecution");
    for (size_t i = 0; i < terms->n && !causes_full(v->causes); i++) {
        check_weight(v, AT(AT_ITEM(list, i), "weight"), terms->p[i].weight);
        validate_preferred_term(v, AT(AT_ITEM(list, i), "preference"), &terms->p[i].preference);
    }
}

void validate_affinity(struct validator *v, const struct path *at, const struct api_affinity *a)
{
    if (!a)
        return;
    if (a->node_affinity)
        check_node_affinity(v, AT(at, "nodeAffinity"), a->node_affinity);
    if (a->pod_affinity)
        check_pod_terms(v, AT(at, "podAffinity"),
                        &a->pod_affinity->required_during_scheduling_ignored_during_execution,
                        &a->pod_affinity->preferred_during_scheduling_ignored_during_execution);
    if (a->pod_anti_affinity)
        check_pod_terms(
            v, AT(at, "podAntiAffinity"),
            &a->pod_anti_affinity->required_during_scheduling_ignored_during_execution,
            &a->pod_anti_affinity->preferred_during_scheduling_ignored_during_execution);
}

// --- Spreading -----------------------------------------------------------------------------------

// What two constraints must not have in common, as one text.
static struct str spread_text(struct validator *v, const struct api_topology_spread_constraint *c)
{
    return arena_strf(scratch(v), "%zu,%.*s%.*s", c->topology_key.n, STR_ARG(c->topology_key),
                      STR_ARG(c->when_unsatisfiable));
}

static void check_repeated(struct validator *v, const struct path *at,
                           const struct api_topology_spread_constraint *c, bool again)
{
    if (again)
        cause_duplicate(v->causes, AT(at, "{topologyKey, whenUnsatisfiable}"),
                        arena_strf(scratch(v), "{%.*s, %.*s}", STR_ARG(c->topology_key),
                                   STR_ARG(c->when_unsatisfiable)));
}

static void check_min_domains(struct validator *v, const struct path *at,
                              const struct api_topology_spread_constraint *c)
{
    if (!c->has_min_domains)
        return;
    validate_positive(v, at, c->min_domains);
    if (!str_eqz(c->when_unsatisfiable, "DoNotSchedule"))
        cause_invalid_i64(
            v->causes, at, c->min_domains,
            arena_strf(scratch(v),
                       "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %.*s",
                       STR_ARG(c->when_unsatisfiable)));
}

void validate_spread(struct validator *v, const struct path *list,
                     const struct api_topology_spread_constraint_array *constraints)
{
    static const struct str actions[] = {STR_INIT("DoNotSchedule"), STR_INIT("ScheduleAnyway")};
    static const struct str policies[] = {STR_INIT("Honor"), STR_INIT("Ignore")};
    static const struct api_str_array nothing = {0};
    cleanup_positions struct positions last = {0};
    for (size_t i = 0; i < constraints->n; i++)
        *map_put(&last, spread_text(v, &constraints->p[i])) = i;
    for (size_t i = 0; i < constraints->n && !causes_full(v->causes); i++) {
        const struct api_topology_spread_constraint *c = &constraints->p[i];
        const struct path *at = AT_ITEM(list, i);
        validate_positive(v, AT(at, "maxSkew"), c->max_skew);
        if (c->topology_key.n == 0)
            cause_required(v->causes, AT(at, "topologyKey"), STR("can not be empty"));
        validate_choice(v, AT(at, "whenUnsatisfiable"), c->when_unsatisfiable, CHOICES(actions));
        const size_t *again = map_get(&last, spread_text(v, c));
        check_repeated(v, at, c, again && *again > i);
        check_min_domains(v, AT(at, "minDomains"), c);
        if (c->has_node_affinity_policy)
            validate_choice(v, AT(at, "nodeAffinityPolicy"), c->node_affinity_policy,
                            CHOICES(policies));
        if (c->has_node_taints_policy)
            validate_choice(v, AT(at, "nodeTaintsPolicy"), c->node_taints_policy,
                            CHOICES(policies));
        check_match_keys(v, at, &c->match_label_keys, &nothing, c->label_selector);
        validate_label_selector(v, AT(at, "labelSelector"), c->label_selector);
    }
}
