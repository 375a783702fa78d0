// SPDX-License-Identifier: Apache-2.0
//
// ResourceClaim's spec and ResourceClaimTemplate.
#include "api/validate/validate_int.h"

#include "base/banned.h"

#define REQUESTS_MAX         32
#define ALTERNATIVES_MAX     8
#define SELECTORS_MAX        32
#define CONSTRAINTS_MAX      32
#define CONFIGS_MAX          32
#define EXPRESSION_BYTES_MAX (10 * 1024)
#define EXPRESSION_COST_MAX  1000000
#define PARAMETERS_BYTES_MAX (10 * 1024)

// What the checks of one claim share.
struct claim_check {
    struct validator *v;
    const struct api_device_claim *claim;
    uint64_t derived_cost; // of all derived attributes together
    struct seen used;      // attributes that constraints name, each with what they aim at
};

static void check_deviceclass_name(struct validator *v, const struct path *at, struct str name,
                                   bool covered)
{
    size_t from = v->causes->n;
    if (name.n == 0)
        cause_required(v->causes, at, STR(""));
    else
        validate_dns_subdomain(v, at, name);
    causes_mark(v->causes, from, NULL, covered);
}

// --- CEL -----------------------------------------------------------------------------------------

// Adds the estimated cost to *cost, if given.
static void validate_claim_expression(struct validator *v, const struct path *at,
                                      struct str expression, bool derived, uint64_t *cost)
{
    if (expression.n > EXPRESSION_BYTES_MAX) {
        cause_too_long(v->causes, at, EXPRESSION_BYTES_MAX);
        return;
    }
    const struct api_cel *cel = v->rules->cel;
    if (!cel)
        return;
    struct api_cel_question question = {
        .expression = expression,
        .derived_attribute = derived,
        .consumable_capacity = gate(v, FEATURE_DRA_CONSUMABLE_CAPACITY),
        .list_type_attributes = gate(v, FEATURE_DRA_LIST_TYPE_ATTRIBUTES),
    };
    struct api_cel_answer answer = {0};
    question.spending = &v->causes->cel;
    if (question.spending->refused)
        return; // reported at the expression before
    cel->check(cel->ctx, &question, scratch(v), &answer);
    if (answer.verdict == API_CEL_REFUSED) {
        cause_forbidden(v->causes, at, str_z(cel_spending_refusal));
    } else if (answer.verdict == API_CEL_INVALID) {
        cause_invalid(v->causes, at, expression, answer.detail);
    } else if (answer.verdict == API_CEL_INTERNAL) {
        cause_internal(v->causes, at, answer.detail);
    } else {
        if (answer.max_cost > EXPRESSION_COST_MAX)
            cause_forbidden(v->causes, at, STR("too complex, exceeds cost limit"));
        if (cost && __builtin_add_overflow(*cost, answer.max_cost, cost))
            *cost = UINT64_MAX;
    }
}

void validate_selectors(struct validator *v, const struct path *at,
                        const struct api_device_selector_array *selectors, bool stored)
{
    if (!validate_max_items(v, at, selectors->n, SELECTORS_MAX, COVERED))
        return;
    for (size_t i = 0; i < selectors->n; i++) {
        if (!selectors->p[i].cel)
            cause_required(v->causes, AT(AT_ITEM(at, i), "cel"), STR(""));
        else if (!stored) // what is stored was good when it was stored
            validate_claim_expression(v, AT(AT(AT_ITEM(at, i), "cel"), "expression"),
                                      selectors->p[i].cel->expression, false, NULL);
    }
}

// --- Derived attributes --------------------------------------------------------------------------

static struct str use_key(const struct claim_check *c, struct str attribute, struct str target)
{
    return arena_strf(scratch(c->v), "%.*s\n%.*s", STR_ARG(attribute), STR_ARG(target));
}

// Notes which attributes constraints use and for which requests; "" stands for all, which is what a
// constraint aims at that names none (or, wrongly, an empty one).
static void note_constraints(struct claim_check *c)
{
    for (size_t i = 0; i < c->claim->constraints.n; i++) {
        const struct api_device_constraint *constraint = &c->claim->constraints.p[i];
        struct str name = constraint->has_match_attribute ? constraint->match_attribute
                                                          : constraint->distinct_attribute;
        if (!constraint->has_match_attribute && !constraint->has_distinct_attribute)
            continue;
        if (constraint->requests.n == 0)
            (void)seen_add(&c->used, use_key(c, name, STR("")));
        for (size_t j = 0; j < constraint->requests.n; j++)
            (void)seen_add(&c->used, use_key(c, name, constraint->requests.p[j]));
    }
}

static bool used_by_constraint(const struct claim_check *c, struct str attribute,
                               struct str request, struct str subrequest)
{
    if (map_has(&c->used, use_key(c, attribute, STR(""))) ||
        map_has(&c->used, use_key(c, attribute, request)))
        return true;
    struct str sub = arena_strf(scratch(c->v), "%.*s/%.*s", STR_ARG(request), STR_ARG(subrequest));
    return subrequest.n && map_has(&c->used, use_key(c, attribute, sub));
}

static void check_derived_attributes(struct claim_check *c, const struct path *at,
                                     const struct api_device_derived_attribute_array *list,
                                     struct str request, struct str subrequest)
{
    struct validator *v = c->v;
    for (size_t i = 0; i < list->n; i++) {
        const struct api_device_derived_attribute *a = &list->p[i];
        if (a->name.n && !used_by_constraint(c, a->name, request, subrequest))
            cause_invalid(v->causes, AT(AT_ITEM(at, i), "name"), a->name,
                          STR("must be referenced by at least one matchAttribute or "
                              "distinctAttribute constraint targeting this request"));
        if (a->expression.n)
            validate_claim_expression(v, AT(AT_ITEM(at, i), "expression"), a->expression, true,
                                      &c->derived_cost);
    }
    validate_unique(v, at, TEXTS(list, name), OWN);
}

// --- Requests ------------------------------------------------------------------------------------

static void check_allocation_mode(struct validator *v, const struct path *at, struct str mode,
                                  int64_t count)
{
    static const struct str modes[] = {STR_INIT("All"), STR_INIT("ExactCount")};
    if (str_eq(mode, modes[0])) {
        if (count != 0)
            cause_invalid_i64(v->causes, AT(at, "count"), count,
                              STR("must not be specified when allocationMode is 'All'"));
    } else if (str_eq(mode, modes[1])) {
        if (count <= 0)
            cause_invalid_i64(v->causes, AT(at, "count"), count, STR("must be greater than zero"));
    } else {
        validate_covered(v,
                         cause_not_supported(v->causes, AT(at, "allocationMode"), mode, modes, 2));
    }
}

static bool known_effect(struct str effect)
{
    return str_eqz(effect, "None") || str_eqz(effect, "NoSchedule") || str_eqz(effect, "NoExecute");
}

static const struct str effects[] = {STR_INIT("NoExecute"), STR_INIT("NoSchedule"),
                                     STR_INIT("None")};

void validate_toleration(struct validator *v, const struct path *at,
                         const struct api_device_toleration *t)
{
    static const struct str operators[] = {STR_INIT("Equal"), STR_INIT("Exists")};
    size_t from = v->causes->n;
    if (t->key.n)
        validate_label_key(v, AT(at, "key"), t->key);
    causes_mark(v->causes, from, NULL, COVERED);
    if (str_eqz(t->operator, "Exists")) {
        if (t->value.n)
            cause_invalid(v->causes, AT(at, "value"), t->value,
                          STR("must be empty for operator `Exists`"));
    } else if (str_eqz(t->operator, "Equal")) {
        validate_label_value(v, AT(at, "value"), t->value);
    } else if (t->operator.n == 0) {
        validate_covered(v, cause_required(v->causes, AT(at, "operator"), STR("")));
    } else {
        validate_covered(v, cause_not_supported(v->causes, AT(at, "operator"), t->operator,
                                                operators, 2));
    }
    if (t->effect.n && !known_effect(t->effect))
        validate_covered(v, cause_not_supported(v->causes, AT(at, "effect"), t->effect, effects,
                                                array_len(effects)));
}

void validate_taint(struct validator *v, const struct path *at,
                    const struct api_device_taint *taint, const struct api_device_taint *old)
{
    validate_label_key(v, AT(at, "key"), taint->key);
    if (taint->value.n)
        validate_label_value(v, AT(at, "value"), taint->value);
    if (old && str_eq(old->effect, taint->effect))
        return;
    if (taint->effect.n == 0)
        validate_covered(v, cause_required(v->causes, AT(at, "effect"), STR("")));
    else if (!known_effect(taint->effect))
        validate_covered(v, cause_not_supported(v->causes, AT(at, "effect"), taint->effect, effects,
                                                array_len(effects)));
}

static void validate_device_tolerations(struct validator *v, const struct path *at,
                                        const struct api_device_toleration_array *tolerations)
{
    for (size_t i = 0; i < tolerations->n; i++)
        validate_toleration(v, AT_ITEM(AT(at, "tolerations"), i), &tolerations->p[i]);
}

static void check_exact(struct claim_check *c, const struct path *at,
                        const struct api_exact_device_request *r, struct str name)
{
    check_deviceclass_name(c->v, AT(at, "deviceClassName"), r->device_class_name, OWN);
    validate_selectors(c->v, AT(at, "selectors"), &r->selectors, false);
    check_derived_attributes(c, AT(at, "derivedAttributes"), &r->derived_attributes, name, STR(""));
    check_allocation_mode(c->v, at, r->allocation_mode, r->count);
    validate_device_tolerations(c->v, at, &r->tolerations);
}

static void check_alternative(struct claim_check *c, const struct path *at,
                              const struct api_device_sub_request *r, struct str request)
{
    validate_dns_label(c->v, AT(at, "name"), r->name);
    check_deviceclass_name(c->v, AT(at, "deviceClassName"), r->device_class_name, COVERED);
    validate_selectors(c->v, AT(at, "selectors"), &r->selectors, false);
    check_derived_attributes(c, AT(at, "derivedAttributes"), &r->derived_attributes, request,
                             r->name);
    check_allocation_mode(c->v, at, r->allocation_mode, r->count);
    validate_device_tolerations(c->v, at, &r->tolerations);
}

static void check_alternatives(struct claim_check *c, const struct path *at,
                               const struct api_device_request *request)
{
    const struct api_device_sub_request_array *list = &request->first_available;
    if (!validate_max_items(c->v, at, list->n, ALTERNATIVES_MAX, COVERED))
        return;
    for (size_t i = 0; i < list->n; i++)
        check_alternative(c, AT_ITEM(at, i), &list->p[i], request->name);
    validate_unique(c->v, at, TEXTS(list, name), COVERED);
}

static void check_request(struct claim_check *c, const struct path *at,
                          const struct api_device_request *r)
{
    validate_dns_label(c->v, AT(at, "name"), r->name);
    if (r->exactly && r->first_available.n)
        cause_invalid_json(c->v->causes, at, STR("null"),
                           STR("exactly one of `exactly` or `firstAvailable` is required, but "
                               "multiple fields are set"));
    else if (r->exactly)
        check_exact(c, AT(at, "exactly"), r->exactly, r->name);
    else if (r->first_available.n)
        check_alternatives(c, AT(at, "firstAvailable"), r);
    else
        cause_required(c->v->causes, at,
                       STR("exactly one of `exactly` or `firstAvailable` is required"));
}

static void validate_claim_requests(struct claim_check *c, const struct path *at)
{
    const struct api_device_request_array *list = &c->claim->requests;
    if (!validate_max_items(c->v, at, list->n, REQUESTS_MAX, COVERED))
        return;
    for (size_t i = 0; i < list->n; i++)
        check_request(c, AT_ITEM(at, i), &list->p[i]);
    validate_unique(c->v, at, TEXTS(list, name), COVERED);
}

// --- Constraints and configuration ---------------------------------------------------------------

static const char ref_rule[] = "must be the name of a request in the claim or the name of a "
                               "request and a subrequest separated by '/'";

static bool claim_has_request(const struct api_device_claim *claim, struct str request,
                              const struct str *subrequest)
{
    // Of requests with the same name, the last counts.
    const struct api_device_request *found = NULL;
    for (size_t i = 0; i < claim->requests.n; i++)
        if (str_eq(claim->requests.p[i].name, request))
            found = &claim->requests.p[i];
    if (!found || !subrequest)
        return found != NULL;
    for (size_t i = 0; i < found->first_available.n; i++)
        if (str_eq(found->first_available.p[i].name, *subrequest))
            return true;
    return false;
}

void validate_request_ref(struct validator *v, const struct path *at, struct str name,
                          const struct api_device_claim *claim)
{
    struct str request, subrequest;
    bool two = str_cut(name, '/', &request, &subrequest);
    if (two && str_find_char(subrequest, '/') >= 0) {
        cause_invalid(v->causes, at, name, str_z(ref_rule));
        return;
    }
    validate_dns_label(v, at, request);
    if (two)
        validate_dns_label(v, at, subrequest);
    if (!claim_has_request(claim, request, two ? &subrequest : NULL))
        cause_invalid(v->causes, at, name, str_z(ref_rule));
}

void validate_request_refs(struct validator *v, const struct path *at,
                           const struct api_str_array *names, const struct api_device_claim *claim)
{
    if (!validate_max_items(v, at, names->n, REQUESTS_MAX, COVERED))
        return;
    for (size_t i = 0; i < names->n; i++)
        validate_request_ref(v, AT_ITEM(at, i), names->p[i], claim);
    validate_unique(v, at, STRINGS(names), COVERED);
}

static void validate_claim_constraint(struct claim_check *c, const struct path *at,
                                      const struct api_device_constraint *constraint)
{
    struct validator *v = c->v;
    validate_request_refs(v, AT(at, "requests"), &constraint->requests, c->claim);
    size_t from = v->causes->n;
    if (constraint->has_match_attribute)
        validate_fully_qualified_name(v, AT(at, "matchAttribute"), constraint->match_attribute);
    else if (constraint->has_distinct_attribute)
        validate_fully_qualified_name(v, AT(at, "distinctAttribute"),
                                      constraint->distinct_attribute);
    causes_mark(v->causes, from, NULL, COVERED);
    if (constraint->has_match_attribute || constraint->has_distinct_attribute)
        return;
    if (gate(v, FEATURE_DRA_CONSUMABLE_CAPACITY))
        cause_required(v->causes, at,
                       STR("exactly one of \"matchAttribute\" or \"distinctAttribute\" is "
                           "required, but multiple fields are set"));
    else
        cause_required(v->causes, AT(at, "matchAttribute"), STR(""));
}

void validate_configuration(struct validator *v, const struct path *at,
                            const struct api_device_configuration *config, bool stored)
{
    const struct path *opaque = AT(at, "opaque");
    if (!config->opaque) {
        cause_required(v->causes, opaque, STR(""));
        return;
    }
    validate_driver_name(v, AT(opaque, "driver"), config->opaque->driver, COVERED);
    validate_raw_object(v, AT(opaque, "parameters"), config->opaque->parameters, stored,
                        PARAMETERS_BYTES_MAX);
}

static void check_claim_configs(struct claim_check *c, const struct path *at)
{
    const struct api_device_claim_configuration_array *list = &c->claim->config;
    if (!validate_max_items(c->v, at, list->n, CONFIGS_MAX, COVERED))
        return;
    for (size_t i = 0; i < list->n; i++) {
        validate_request_refs(c->v, AT(AT_ITEM(at, i), "requests"), &list->p[i].requests, c->claim);
        validate_configuration(c->v, AT_ITEM(at, i), &list->p[i].device_configuration, false);
    }
}

static void validate_claim_spec(struct validator *v, const struct path *at,
                                const struct api_resource_claim_spec *spec)
{
    struct claim_check c = {.v = v, .claim = &spec->devices};
    const struct path *devices = AT(at, "devices");
    note_constraints(&c);
    validate_claim_requests(&c, AT(devices, "requests"));
    seen_done(&c.used);
    if (validate_max_items(v, AT(devices, "constraints"), spec->devices.constraints.n,
                           CONSTRAINTS_MAX, COVERED))
        for (size_t i = 0; i < spec->devices.constraints.n; i++)
            validate_claim_constraint(&c, AT_ITEM(AT(devices, "constraints"), i),
                                      &spec->devices.constraints.p[i]);
    check_claim_configs(&c, AT(devices, "config"));
    if (c.derived_cost > EXPRESSION_COST_MAX)
        cause_forbidden(v->causes, devices,
                        STR("too complex, total cost of derived attribute CEL expressions in the "
                            "claim exceeds cost limit"));
}

// --- The kinds -----------------------------------------------------------------------------------

static const struct name_rule subdomain = {.check = name_dns_subdomain};

static void check_claim_meta(struct validator *v, const struct api_object_meta *meta)
{
    validate_object_meta(v, meta, true, &subdomain);
    validate_kube_finalizers(v, meta);
}

void validate_claim_create(struct validator *v, const struct api_resource_claim *claim)
{
    validate_admin_access(v, &claim->spec.devices.requests);
    check_claim_meta(v, &claim->metadata);
    validate_claim_spec(v, AT(NULL, "spec"), &claim->spec);
}

void validate_claim_update(struct validator *v, const struct api_resource_claim *claim,
                           const struct api_resource_claim *old)
{
    check_claim_meta(v, &claim->metadata);
    validate_object_meta_update(v, &claim->metadata, &old->metadata);
    validate_kube_finalizers(v, &claim->metadata);
    // A spec that cannot change need not be looked at again.
    if (!api_equal(&api_resource_claim_spec_type, &claim->spec, &old->spec))
        causes_mark(v->causes,
                    validate_report_immutable(v, AT(NULL, "spec"), &api_resource_claim_spec_type,
                                              &claim->spec),
                    "immutable", COVERED);
}

void validate_template_create(struct validator *v, const struct api_resource_claim_template *t)
{
    if (v->op == API_CREATE)
        validate_admin_access(v, &t->spec.spec.devices.requests);
    check_claim_meta(v, &t->metadata);
    validate_template_meta(v, &t->spec.metadata, AT(AT(NULL, "spec"), "metadata"));
    validate_claim_spec(v, AT(AT(NULL, "spec"), "spec"), &t->spec.spec);
}

void validate_template_update(struct validator *v, const struct api_resource_claim_template *t,
                              const struct api_resource_claim_template *old)
{
    // Upstream checks the whole template again here, unlike a claim.
    validate_template_create(v, t);
    validate_object_meta_update(v, &t->metadata, &old->metadata);
    validate_kube_finalizers(v, &t->metadata);
    if (!api_equal(&api_resource_claim_template_spec_type, &t->spec, &old->spec))
        validate_report_immutable(v, AT(NULL, "spec"), &api_resource_claim_template_spec_type,
                                  &t->spec);
}
