// SPDX-License-Identifier: Apache-2.0
//
// The kinds of admissionregistration.k8s.io: policies and bindings by their rules; webhooks are refused, because a
// request that a webhook should have judged must not pass unjudged.
#include "api/match/label_selector.h"
#include "api/policy.h"
#include "api/type/extension.h"

#include "base/banned.h"

static void check_one_of(struct validator *v, const struct path *at, struct str value,
                         const struct str *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(value, all[i]))
            return;
    (void)cause_not_supported(v->causes, at, value, all, n);
}

static void check_rule_list(struct validator *v, const struct path *at,
                            const struct api_str_array *list, bool star_alone)
{
    bool star = false;
    if (list->n == 0)
        (void)cause_required(v->causes, at, STR(""));
    for (size_t i = 0; i < list->n; i++)
        star |= str_eqz(list->p[i], "*");
    if (star && star_alone && list->n > 1)
        (void)cause_invalid_plain(v->causes, at,
                                  STR("if '*' is present, must not specify other values"));
}

static void validate_admission_rules(struct validator *v, const struct path *list,
                                     const struct api_named_rule_with_operations_array *rules)
{
    static const struct str operations[] = {STR_INIT("*"), STR_INIT("CONNECT"), STR_INIT("CREATE"),
                                            STR_INIT("DELETE"), STR_INIT("UPDATE")};
    static const struct str scopes[] = {STR_INIT("*"), STR_INIT("Cluster"), STR_INIT("Namespaced")};
    for (size_t i = 0; i < rules->n; i++) {
        const struct api_rule_with_operations *r = &rules->p[i].rule_with_operations;
        const struct path item = path_index(list, i);
        const struct path ops = path_field(&item, STR("operations"));
        const struct path groups = path_field(&item, STR("apiGroups"));
        const struct path versions = path_field(&item, STR("apiVersions"));
        const struct path resources = path_field(&item, STR("resources"));
        const struct path scope = path_field(&item, STR("scope"));
        check_rule_list(v, &ops, &r->operations, true);
        check_rule_list(v, &groups, &r->rule.api_groups, true);
        check_rule_list(v, &versions, &r->rule.api_versions, true);
        check_rule_list(v, &resources, &r->rule.resources, false);
        for (size_t k = 0; k < r->operations.n; k++) {
            const struct path op = path_index(&ops, k);
            check_one_of(v, &op, r->operations.p[k], operations, array_len(operations));
        }
        if (r->rule.has_scope)
            check_one_of(v, &scope, r->rule.scope, scopes, array_len(scopes));
    }
}

static void check_selector(struct validator *v, const struct path *at,
                           const struct api_label_selector *s)
{
    struct label_selector read;
    struct err err = {0};
    if (s && label_selector_of(s, scratch(v), &read, &err) < 0)
        (void)cause_invalid_plain(v->causes, at, str_z(err.msg));
}

static void validate_admission_match(struct validator *v, const struct path *at,
                                     const struct api_match_resources *m)
{
    static const struct str policies[] = {STR_INIT("Equivalent"), STR_INIT("Exact")};
    const struct path rules = path_field(at, STR("resourceRules"));
    const struct path excluded = path_field(at, STR("excludeResourceRules"));
    const struct path namespaces = path_field(at, STR("namespaceSelector"));
    const struct path objects = path_field(at, STR("objectSelector"));
    const struct path policy = path_field(at, STR("matchPolicy"));
    validate_admission_rules(v, &rules, &m->resource_rules);
    validate_admission_rules(v, &excluded, &m->exclude_resource_rules);
    check_selector(v, &namespaces, m->namespace_selector);
    check_selector(v, &objects, m->object_selector);
    if (m->has_match_policy)
        check_one_of(v, &policy, m->match_policy, policies, array_len(policies));
}

static void check_policy(struct validator *v, const struct api_validating_admission_policy *p)
{
    static const struct str failures[] = {STR_INIT("Fail"), STR_INIT("Ignore")};
    const struct api_validating_admission_policy_spec *s = &p->spec;
    const struct path spec = path_root(STR("spec"));
    const struct path match = path_field(&spec, STR("matchConstraints"));
    const struct path rules = path_field(&match, STR("resourceRules"));
    const struct path failure = path_field(&spec, STR("failurePolicy"));
    const struct path validations = path_field(&spec, STR("validations"));
    const struct path notes = path_field(&spec, STR("auditAnnotations"));
    if (!s->match_constraints)
        (void)cause_required(v->causes, &match, STR(""));
    else if (s->match_constraints->resource_rules.n == 0)
        (void)cause_required(v->causes, &rules, STR(""));
    if (s->match_constraints)
        validate_admission_match(v, &match, s->match_constraints);
    if (s->has_failure_policy)
        check_one_of(v, &failure, s->failure_policy, failures, array_len(failures));
    if (s->validations.n == 0 && s->audit_annotations.n == 0)
        (void)cause_required(v->causes, &validations,
                             STR("validations or auditAnnotations must contain at least one item"));
    if (s->audit_annotations.n)
        (void)cause_forbidden(v->causes, &notes,
                              STR("this server has no audit log to write annotations to"));
    policy_check(s, v->causes);
}

static void validate_admission_binding(struct validator *v,
                                       const struct api_validating_admission_policy_binding *b)
{
    static const struct str actions[] = {STR_INIT("Audit"), STR_INIT("Deny"), STR_INIT("Warn")};
    const struct path spec = path_root(STR("spec"));
    const struct path name = path_field(&spec, STR("policyName"));
    const struct path list = path_field(&spec, STR("validationActions"));
    const struct path match = path_field(&spec, STR("matchResources"));
    const struct path ref = path_field(&spec, STR("paramRef"));
    const struct path action = path_field(&ref, STR("parameterNotFoundAction"));
    bool deny = false, warn = false;
    if (b->spec.policy_name.n == 0)
        (void)cause_required(v->causes, &name, STR(""));
    if (b->spec.validation_actions.n == 0)
        (void)cause_required(v->causes, &list, STR("at least one validation action is required"));
    for (size_t i = 0; i < b->spec.validation_actions.n; i++) {
        struct str a = b->spec.validation_actions.p[i];
        const struct path item = path_index(&list, i);
        check_one_of(v, &item, a, actions, array_len(actions));
        deny |= str_eqz(a, "Deny");
        warn |= str_eqz(a, "Warn");
        for (size_t k = 0; k < i; k++)
            if (str_eq(b->spec.validation_actions.p[k], a))
                (void)cause_duplicate(v->causes, &item, a);
    }
    if (deny && warn)
        (void)cause_invalid_plain(v->causes, &list,
                                  STR("must not contain both Deny and Warn (repeating the same "
                                      "validation failure information in the API response and "
                                      "headers serves no purpose)"));
    if (b->spec.match_resources)
        validate_admission_match(v, &match, b->spec.match_resources);
    const struct api_param_ref *p = b->spec.param_ref;
    if (p && !p->has_parameter_not_found_action)
        (void)cause_required(v->causes, &action, STR(""));
    if (p && (p->name.n == 0) == (p->selector == NULL))
        (void)cause_required(v->causes, &ref, STR("one of name or selector must be specified"));
}

static void refuse_webhooks(struct validator *v, size_t n)
{
    const struct path at = path_root(STR("webhooks"));
    if (n)
        (void)cause_forbidden(v->causes, &at,
                              STR("this server does not call webhooks, and does not let pass what "
                                  "they should judge; use a ValidatingAdmissionPolicy"));
}

void validate_admission(struct validator *v, const struct api_type *t, const void *value,
                        const void *old)
{
    (void)old;
    if (v->op == API_STATUS_UPDATE)
        return;
    if (t == &api_validating_admission_policy_type)
        check_policy(v, value);
    else if (t == &api_validating_admission_policy_binding_type)
        validate_admission_binding(v, value);
    else if (t == &api_validating_webhook_configuration_type)
        refuse_webhooks(v,
                        ((const struct api_validating_webhook_configuration *)value)->webhooks.n);
    else if (t == &api_mutating_webhook_configuration_type)
        refuse_webhooks(v, ((const struct api_mutating_webhook_configuration *)value)->webhooks.n);
}
