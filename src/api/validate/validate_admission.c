// SPDX-License-Identifier: Apache-2.0
//
// The kinds of admissionregistration.k8s.io: policies and bindings by their rules; webhooks are
// refused, because a request that a webhook should have judged must not pass unjudged.
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
    cause_not_supported(v->causes, at, value, all, n);
}

static void check_rule_list(struct validator *v, const struct path *at,
                            const struct api_str_array *list, bool star_alone)
{
    bool star = false;
    if (list->n == 0)
        cause_required(v->causes, at, STR(""));
    for (size_t i = 0; i < list->n; i++)
        star |= str_eqz(list->p[i], "*");
    if (star && star_alone && list->n > 1)
        cause_invalid_plain(v->causes, at, STR("if '*' is present, must not specify other values"));
}

static void validate_admission_rules(struct validator *v, const struct path *list,
                                     const struct api_named_rule_with_operations_array *rules)
{
    static const struct str operations[] = {STR_INIT("*"), STR_INIT("CONNECT"), STR_INIT("CREATE"),
                                            STR_INIT("DELETE"), STR_INIT("UPDATE")};
    static const struct str scopes[] = {STR_INIT("*"), STR_INIT("Cluster"), STR_INIT("Namespaced")};
    for (size_t i = 0; i < rules->n; i++) {
        const struct api_rule_with_operations *r = &rules->p[i].rule_with_operations;
        const struct path *item = AT_ITEM(list, i);
        check_rule_list(v, AT(item, "operations"), &r->operations, true);
        check_rule_list(v, AT(item, "apiGroups"), &r->rule.api_groups, true);
        check_rule_list(v, AT(item, "apiVersions"), &r->rule.api_versions, true);
        check_rule_list(v, AT(item, "resources"), &r->rule.resources, false);
        for (size_t k = 0; k < r->operations.n; k++)
            check_one_of(v, AT_ITEM(AT(item, "operations"), k), r->operations.p[k], operations,
                         array_len(operations));
        if (r->rule.has_scope)
            check_one_of(v, AT(item, "scope"), r->rule.scope, scopes, array_len(scopes));
    }
}

static void check_selector(struct validator *v, const struct path *at,
                           const struct api_label_selector *s)
{
    struct label_selector read;
    struct err err = {0};
    if (s && label_selector_of(s, scratch(v), &read, &err) < 0)
        cause_invalid_plain(v->causes, at, str_z(err.msg));
}

static void validate_admission_match(struct validator *v, const struct path *at,
                                     const struct api_match_resources *m)
{
    static const struct str policies[] = {STR_INIT("Equivalent"), STR_INIT("Exact")};
    validate_admission_rules(v, AT(at, "resourceRules"), &m->resource_rules);
    validate_admission_rules(v, AT(at, "excludeResourceRules"), &m->exclude_resource_rules);
    check_selector(v, AT(at, "namespaceSelector"), m->namespace_selector);
    check_selector(v, AT(at, "objectSelector"), m->object_selector);
    if (m->has_match_policy)
        check_one_of(v, AT(at, "matchPolicy"), m->match_policy, policies, array_len(policies));
}

static void check_policy(struct validator *v, const struct api_validating_admission_policy *p)
{
    static const struct str failures[] = {STR_INIT("Fail"), STR_INIT("Ignore")};
    const struct api_validating_admission_policy_spec *s = &p->spec;
    const struct path *spec = AT(NULL, "spec");
    const struct path *match = AT(spec, "matchConstraints");
    if (!s->match_constraints)
        cause_required(v->causes, match, STR(""));
    else if (s->match_constraints->resource_rules.n == 0)
        cause_required(v->causes, AT(match, "resourceRules"), STR(""));
    if (s->match_constraints)
        validate_admission_match(v, match, s->match_constraints);
    if (s->has_failure_policy)
        check_one_of(v, AT(spec, "failurePolicy"), s->failure_policy, failures,
                     array_len(failures));
    if (s->validations.n == 0 && s->audit_annotations.n == 0)
        cause_required(v->causes, AT(spec, "validations"),
                       STR("validations or auditAnnotations must contain at least one item"));
    if (s->audit_annotations.n)
        cause_forbidden(v->causes, AT(spec, "auditAnnotations"),
                        STR("this server has no audit log to write annotations to"));
    policy_check(s, v->causes);
}

static void validate_admission_binding(struct validator *v,
                                       const struct api_validating_admission_policy_binding *b)
{
    static const struct str actions[] = {STR_INIT("Audit"), STR_INIT("Deny"), STR_INIT("Warn")};
    const struct path *spec = AT(NULL, "spec");
    const struct path *list = AT(spec, "validationActions");
    bool deny = false, warn = false;
    if (b->spec.policy_name.n == 0)
        cause_required(v->causes, AT(spec, "policyName"), STR(""));
    if (b->spec.validation_actions.n == 0)
        cause_required(v->causes, list, STR("at least one validation action is required"));
    for (size_t i = 0; i < b->spec.validation_actions.n; i++) {
        struct str a = b->spec.validation_actions.p[i];
        check_one_of(v, AT_ITEM(list, i), a, actions, array_len(actions));
        deny |= str_eqz(a, "Deny");
        warn |= str_eqz(a, "Warn");
        for (size_t k = 0; k < i; k++)
            if (str_eq(b->spec.validation_actions.p[k], a))
                cause_duplicate(v->causes, AT_ITEM(list, i), a);
    }
    if (deny && warn)
        cause_invalid_plain(v->causes, list,
                            STR("must not contain both Deny and Warn (repeating the same "
                                "validation failure information in the API response and "
                                "headers serves no purpose)"));
    if (b->spec.match_resources)
        validate_admission_match(v, AT(spec, "matchResources"), b->spec.match_resources);
    const struct api_param_ref *p = b->spec.param_ref;
    if (p && !p->has_parameter_not_found_action)
        cause_required(v->causes, AT(AT(spec, "paramRef"), "parameterNotFoundAction"), STR(""));
    if (p && (p->name.n == 0) == (p->selector == NULL))
        cause_required(v->causes, AT(spec, "paramRef"),
                       STR("one of name or selector must be specified"));
}

static void refuse_webhooks(struct validator *v, size_t n)
{
    if (n)
        cause_forbidden(v->causes, AT(NULL, "webhooks"),
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
