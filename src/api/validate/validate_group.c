// SPDX-License-Identifier: Apache-2.0
//
// Workloads and PodGroups: what the schema's rules do not say.
#include "api/validate/validate_core.h"

#include "base/banned.h"

// Templates of groups within templates of groups.
#define TEMPLATE_DEPTH_MAX 4

// --- PodGroup ------------------------------------------------------------------------------------

static bool has_entry(const struct api_pod_group_resource_claim_array *claims, struct str name)
{
    for (size_t i = 0; i < claims->n; i++)
        if (str_eq(claims->p[i].name, name))
            return true;
    return false;
}

void validate_pod_group(struct validator *v, const struct api_pod_group *group, bool is_new)
{
    if (is_new && group->spec.has_parent_composite_pod_group_name && !group->spec.workload_ref)
        cause_required(v->causes, AT(AT(NULL, "spec"), "workloadRef"),
                       STR("must be set when parentCompositePodGroupName is set"));
}

void validate_pod_group_status(struct validator *v, const struct api_pod_group *group)
{
    validate_conditions(v, AT(AT(NULL, "status"), "conditions"), &group->status.conditions);
    const struct api_pod_group_resource_claim_status_array *list =
        &group->status.resource_claim_statuses;
    for (size_t i = 0; i < list->n && !causes_full(v->causes); i++)
        if (!has_entry(&group->spec.resource_claims, list->p[i].name))
            cause_invalid(v->causes,
                          AT(AT_ITEM(AT(AT(NULL, "status"), "resourceClaimStatuses"), i), "name"),
                          list->p[i].name,
                          STR("must match the name of an entry in `spec.resourceClaims`"));
}

// --- Workload ------------------------------------------------------------------------------------

// Names are unique in the workload; those that repeat within one list are the schema's business.
static void validate_group_names(struct validator *v, const struct path *at,
                                 const struct api_composite_pod_group_template_array *list,
                                 struct seen *names, unsigned depth);

static void check_names_below(struct validator *v, const struct path *at,
                              const struct api_composite_pod_group_template *t, struct seen *names,
                              unsigned depth)
{
    for (size_t i = 0; i < t->pod_group_templates.n; i++)
        if (map_has(names, t->pod_group_templates.p[i].name))
            cause_duplicate(v->causes, AT(AT_ITEM(AT(at, "podGroupTemplates"), i), "name"),
                            t->pod_group_templates.p[i].name);
    for (size_t i = 0; i < t->pod_group_templates.n; i++)
        (void)seen_add(names, t->pod_group_templates.p[i].name);
    validate_group_names(v, at, &t->composite_pod_group_templates, names, depth);
}

static void validate_group_names(struct validator *v, const struct path *at,
                                 const struct api_composite_pod_group_template_array *list,
                                 struct seen *names, unsigned depth)
{
    const struct path *field = AT(at, "compositePodGroupTemplates");
    if (depth > TEMPLATE_DEPTH_MAX || causes_full(v->causes))
        return;
    for (size_t i = 0; i < list->n; i++)
        if (map_has(names, list->p[i].name))
            cause_duplicate(v->causes, AT(AT_ITEM(field, i), "name"), list->p[i].name);
    for (size_t i = 0; i < list->n; i++)
        (void)seen_add(names, list->p[i].name);
    for (size_t i = 0; i < list->n; i++)
        check_names_below(v, AT_ITEM(field, i), &list->p[i], names, depth + 1);
}

static bool group_exceeds_depth(const struct api_composite_pod_group_template *t, unsigned depth)
{
    if (depth == TEMPLATE_DEPTH_MAX)
        return true;
    for (size_t i = 0; i < t->composite_pod_group_templates.n; i++)
        if (group_exceeds_depth(&t->composite_pod_group_templates.p[i], depth + 1))
            return true;
    return false;
}

struct one_priority {
    bool known;
    struct str class_name;
    bool has_value;
    int32_t value;
};

static bool same_priority(struct one_priority *one, struct str class_name, bool has_value,
                          int32_t value)
{
    if (!one->known) {
        *one = (struct one_priority){true, class_name, has_value, value};
        return true;
    }
    return str_eq(one->class_name, class_name) && one->has_value == has_value &&
           (!has_value || one->value == value);
}

static bool same_priorities(struct one_priority *one,
                            const struct api_composite_pod_group_template *t, unsigned depth)
{
    bool same = same_priority(one, t->priority_class_name, t->has_priority, t->priority);
    for (size_t i = 0; same && depth < TEMPLATE_DEPTH_MAX && i < t->composite_pod_group_templates.n;
         i++)
        same = same_priorities(one, &t->composite_pod_group_templates.p[i], depth + 1);
    for (size_t i = 0; same && i < t->pod_group_templates.n; i++) {
        const struct api_pod_group_template *g = &t->pod_group_templates.p[i];
        same = same_priority(one, g->priority_class_name, g->has_priority, g->priority);
    }
    return same;
}

static void check_priority(struct validator *v, const struct path *spec,
                           const struct api_workload_spec *s)
{
    struct one_priority one = {0};
    for (size_t i = 0; i < s->pod_group_templates.n; i++) {
        const struct api_pod_group_template *g = &s->pod_group_templates.p[i];
        if (same_priority(&one, g->priority_class_name, g->has_priority, g->priority))
            continue;
        cause_invalid_json(v->causes, spec, STR("null"),
                           STR("detected multiple priority configurations"));
        return;
    }
    for (size_t i = 0; i < s->composite_pod_group_templates.n; i++) {
        if (same_priorities(&one, &s->composite_pod_group_templates.p[i], 1))
            continue;
        cause_invalid_json(v->causes, spec, STR("null"),
                           STR("all priority and priorityClassName values must be identical, "
                               "detected multiple values"));
        return;
    }
}

static void check_children(struct validator *v, const struct path *at,
                           const struct api_composite_pod_group_template *t, unsigned depth)
{
    if (t->pod_group_templates.n == 0 && t->composite_pod_group_templates.n == 0)
        cause_invalid(
            v->causes, at, t->name,
            STR("must have at least one child PodGroupTemplate or CompositePodGroupTemplate"));
    for (size_t i = 0; depth < TEMPLATE_DEPTH_MAX && i < t->composite_pod_group_templates.n; i++)
        check_children(v, AT_ITEM(AT(at, "compositePodGroupTemplates"), i),
                       &t->composite_pod_group_templates.p[i], depth + 1);
}

void validate_workload(struct validator *v, const struct api_workload *workload)
{
    const struct path *spec = AT(NULL, "spec");
    const struct api_workload_spec *s = &workload->spec;
    const struct path *field = AT(spec, "compositePodGroupTemplates");
    cleanup_seen struct seen names = {0};
    for (size_t i = 0; i < s->pod_group_templates.n; i++)
        (void)seen_add(&names, s->pod_group_templates.p[i].name);
    validate_group_names(v, spec, &s->composite_pod_group_templates, &names, 1);
    for (size_t i = 0; i < s->composite_pod_group_templates.n; i++)
        if (group_exceeds_depth(&s->composite_pod_group_templates.p[i], 1))
            cause_invalid(v->causes, AT_ITEM(field, i), s->composite_pod_group_templates.p[i].name,
                          STR("maximum template hierarchy depth is 4"));
    check_priority(v, spec, s);
    for (size_t i = 0; i < s->composite_pod_group_templates.n; i++)
        check_children(v, AT_ITEM(field, i), &s->composite_pod_group_templates.p[i], 1);
}
