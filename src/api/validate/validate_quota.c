// SPDX-License-Identifier: Apache-2.0
//
// Limit ranges and resource quotas.
#include "api/validate/validate_core.h"

#include "base/banned.h"

// --- LimitRange ----------------------------------------------------------------------------------

static void check_limit_name(struct validator *v, const struct path *at, struct str type,
                             struct str name)
{
    if (str_eqz(type, "Pod") || str_eqz(type, "Container"))
        validate_container_resource_name(v, at, name);
    else
        validate_resource_name(v, at, name);
}

static void check_limit_names(struct validator *v, const struct path *at, struct str type,
                              const struct api_quantity_map *map)
{
    for (size_t i = 0; i < map->n && !causes_full(v->causes); i++)
        check_limit_name(v, AT_KEY(at, map->p[i].key), type, map->p[i].key);
}

// Two amounts of one resource of which the first must not be the greater one.
struct pair {
    const struct api_quantity_map *less, *more;
    const char *less_name, *more_name;
    const struct path *at;
    bool shows_less;
};

static void check_pair(struct validator *v, const struct pair *p)
{
    for (size_t i = 0; i < p->less->n && !causes_full(v->causes); i++) {
        struct str name = p->less->p[i].key;
        const struct quantity *less = &p->less->p[i].value, *more = amounts_get(p->more, name);
        if (!more || quantity_cmp(less, more) <= 0)
            continue;
        struct str a = validate_quantity_text(less, scratch(v)),
                   b = validate_quantity_text(more, scratch(v));
        cause_invalid(v->causes, AT_KEY(p->at, name), p->shows_less ? a : b,
                      arena_strf(scratch(v), "%s value %.*s is greater than %s value %.*s",
                                 p->less_name, STR_ARG(a), p->more_name, STR_ARG(b)));
    }
}

static void check_ratios(struct validator *v, const struct path *at,
                         const struct api_limit_range_item *item)
{
    const struct quantity one = quantity_from_i64(1, QUANTITY_DECIMAL_SI);
    for (size_t i = 0; i < item->max_limit_request_ratio.n && !causes_full(v->causes); i++) {
        struct str name = item->max_limit_request_ratio.p[i].key;
        const struct quantity *ratio = &item->max_limit_request_ratio.p[i].value;
        struct str text = validate_quantity_text(ratio, scratch(v));
        if (quantity_cmp(ratio, &one) < 0)
            cause_invalid(v->causes, AT_KEY(at, name), text,
                          arena_strf(scratch(v), "ratio %.*s is less than 1", STR_ARG(text)));
        const struct quantity *min = amounts_get(&item->min, name);
        const struct quantity *max = amounts_get(&item->max, name);
        if (!min || !max || quantity_sign(min) == 0)
            continue;
        double most = quantity_as_double(max) / quantity_as_double(min);
        if (quantity_as_double(ratio) > most)
            cause_invalid(v->causes, AT_KEY(at, name), text,
                          arena_strf(scratch(v), "ratio %.*s is greater than max/min = %f",
                                     STR_ARG(text), most));
    }
}

static void validate_quota_defaults(struct validator *v, const struct path *at,
                                    const struct api_limit_range_item *item)
{
    static const struct str why = STR_INIT("may not be specified when `type` is 'Pod'");
    const struct path *request = AT(at, "defaultRequest"), *limit = AT(at, "default");
    if (str_eqz(item->type, "Pod")) {
        if (item->default_value.n)
            cause_forbidden(v->causes, limit, why);
        if (item->default_request.n)
            cause_forbidden(v->causes, request, why);
        return;
    }
    check_limit_names(v, limit, item->type, &item->default_value);
    check_limit_names(v, request, item->type, &item->default_request);
    const struct pair pairs[] = {
        {&item->min, &item->default_request, "min", "default request", request, false},
        {&item->default_request, &item->max, "default request", "max", request, true},
        {&item->default_request, &item->default_value, "default request", "default limit", request,
         true},
        {&item->min, &item->default_value, "min", "default", limit, true},
        {&item->default_value, &item->max, "default", "max", limit, false},
    };
    for (size_t i = 0; i < array_len(pairs); i++)
        check_pair(v, &pairs[i]);
    for (size_t i = 0; i < item->default_value.n && !causes_full(v->causes); i++) {
        struct str name = item->default_value.p[i].key;
        const struct quantity *most = &item->default_value.p[i].value;
        const struct quantity *asked = amounts_get(&item->default_request, name);
        if (!asked || resources_can_overcommit(name) || quantity_cmp(most, asked) == 0)
            continue;
        struct str a = validate_quantity_text(most, scratch(v)),
                   b = validate_quantity_text(asked, scratch(v));
        cause_invalid(v->causes, AT_KEY(request, name), b,
                      arena_strf(scratch(v),
                                 "default value %.*s must equal to defaultRequest value %.*s in "
                                 "%.*s",
                                 STR_ARG(a), STR_ARG(b), STR_ARG(name)));
    }
}

static void check_limit_item(struct validator *v, const struct path *at,
                             const struct api_limit_range_item *item)
{
    static const struct str types[] = {STR_INIT("Pod"), STR_INIT("Container"),
                                       STR_INIT("PersistentVolumeClaim")};
    size_t before = v->causes->n;
    validate_named(v, AT(at, "type"), item->type, name_label_key);
    if (v->causes->n == before && str_find_char(item->type, '/') < 0 &&
        !validate_is_choice(CHOICES(types), item->type))
        cause_invalid(v->causes, AT(at, "type"), item->type,
                      STR("must be a standard limit type or fully qualified"));
    check_limit_names(v, AT(at, "max"), item->type, &item->max);
    check_limit_names(v, AT(at, "min"), item->type, &item->min);
    const struct pair extremes = {&item->min, &item->max, "min", "max", AT(at, "min"), true};
    check_pair(v, &extremes);
    validate_quota_defaults(v, at, item);
    if (str_eqz(item->type, "PersistentVolumeClaim") && !amounts_get(&item->min, STR("storage")) &&
        !amounts_get(&item->max, STR("storage")))
        cause_required(
            v->causes, AT(at, "limits"),
            STR("either minimum or maximum storage value is required, but neither was provided"));
    check_limit_names(v, AT(at, "maxLimitRequestRatio"), item->type,
                      &item->max_limit_request_ratio);
    check_ratios(v, AT(at, "maxLimitRequestRatio"), item);
}

void validate_limit_range(struct validator *v, const struct api_limit_range *range)
{
    const struct path *list = AT(AT(NULL, "spec"), "limits");
    cleanup_seen struct seen types = {0};
    for (size_t i = 0; i < range->spec.limits.n && !causes_full(v->causes); i++) {
        const struct api_limit_range_item *item = &range->spec.limits.p[i];
        const struct path *at = AT_ITEM(list, i);
        check_limit_item(v, at, item);
        if (seen_add(&types, item->type))
            cause_duplicate(v->causes, AT(at, "type"), item->type);
    }
}

// --- ResourceQuota -------------------------------------------------------------------------------

static const struct str scopes[] = {
    STR_INIT("Terminating"),   STR_INIT("NotTerminating"), STR_INIT("BestEffort"),
    STR_INIT("NotBestEffort"), STR_INIT("PriorityClass"),  STR_INIT("VolumeAttributesClass"),
};

static void check_hard(struct validator *v, const struct path *at,
                       const struct api_quantity_map *hard)
{
    for (size_t i = 0; i < hard->n && !causes_full(v->causes); i++) {
        struct str name = hard->p[i].key;
        const struct path *here = AT_KEY(at, name);
        size_t before = v->causes->n;
        validate_resource_name(v, here, name);
        bool known = v->causes->n == before && !str_eqz(name, "storage");
        if (str_find_char(name, '/') < 0 && !known)
            cause_invalid(v->causes, here, name, STR("must be a standard resource for quota"));
        validate_amount(v, here, name, &hard->p[i].value);
    }
}

// Whether a scope, which selects pods or claims to volumes, can limit a resource.
static bool scope_fits(struct str scope, struct str resource)
{
    static const struct str compute[] = {
        STR_INIT("cpu"),           STR_INIT("memory"),       STR_INIT("limits.cpu"),
        STR_INIT("limits.memory"), STR_INIT("requests.cpu"), STR_INIT("requests.memory"),
        STR_INIT("pods"),
    };
    static const struct str storage[] = {STR_INIT("persistentvolumeclaims"),
                                         STR_INIT("requests.storage")};
    if (str_eqz(scope, "BestEffort"))
        return str_eqz(resource, "pods");
    if (str_eqz(scope, "VolumeAttributesClass"))
        return validate_is_choice(CHOICES(storage), resource);
    bool other =
        !validate_is_choice(CHOICES(scopes), scope) && !str_eqz(scope, "CrossNamespacePodAffinity");
    return other || validate_is_choice(CHOICES(compute), resource);
}

static bool scope_fits_all(struct str scope, const struct api_quantity_map *hard)
{
    for (size_t i = 0; i < hard->n; i++)
        if (resources_is_quota(hard->p[i].key) && !scope_fits(scope, hard->p[i].key))
            return false;
    return true;
}

static void check_scopes(struct validator *v, const struct path *at,
                         const struct api_str_array *list, const struct api_quantity_map *hard)
{
    struct str shown = validate_show_strings(list->p, list->n, scratch(v));
    for (size_t i = 0; i < list->n && !causes_full(v->causes); i++)
        if (!validate_is_choice(CHOICES(scopes), list->p[i]))
            cause_invalid_json(v->causes, at, shown, STR("unsupported scope"));
    for (size_t i = 0; i < list->n && !causes_full(v->causes); i++)
        if (!scope_fits_all(list->p[i], hard))
            cause_invalid_json(v->causes, at, shown, STR("unsupported scope applied to resource"));
    if ((api_str_listed(list, STR("BestEffort")) && api_str_listed(list, STR("NotBestEffort"))) ||
        (api_str_listed(list, STR("Terminating")) && api_str_listed(list, STR("NotTerminating"))))
        cause_invalid_json(v->causes, at, shown, STR("conflicting scopes"));
}

static void check_scope_selector(struct validator *v, const struct path *at,
                                 const struct api_scope_selector *selector)
{
    for (size_t i = 0; selector && i < selector->match_expressions.n; i++) {
        const struct api_scoped_resource_selector_requirement *r =
            &selector->match_expressions.p[i];
        bool lists = str_eqz(r->operator, "In") || str_eqz(r->operator, "NotIn");
        bool exists = str_eqz(r->operator, "Exists") || str_eqz(r->operator, "DoesNotExist");
        if (!validate_is_choice(CHOICES(scopes), r->scope_name))
            cause_invalid(v->causes, AT(at, "scopeName"), r->scope_name, STR("unsupported scope"));
        if (lists && r->values.n == 0)
            cause_required(v->causes, AT(at, "values"),
                           STR("must be at least one value when `operator` is 'In' or 'NotIn' for "
                               "scope selector"));
        if (exists && r->values.n)
            cause_invalid_json(v->causes, AT(at, "values"),
                               validate_show_strings(r->values.p, r->values.n, scratch(v)),
                               STR("must be no value when `operator` is 'Exist' or 'DoesNotExist' "
                                   "for scope selector"));
        if (!lists && !exists)
            cause_invalid(v->causes, AT(at, "operator"), r->operator,
                          STR("not a valid selector operator"));
    }
}

void validate_quota(struct validator *v, const struct api_resource_quota *quota,
                    const struct api_resource_quota *old)
{
    const struct path *spec = AT(NULL, "spec");
    const struct api_str_array *list = &quota->spec.scopes;
    check_hard(v, AT(spec, "hard"), &quota->spec.hard);
    check_scopes(v, AT(spec, "scopes"), list, &quota->spec.hard);
    check_scope_selector(v, AT(AT(spec, "scopeSelector"), "matchExpressions"),
                         quota->spec.scope_selector);
    if (!old)
        return;
    bool same = true;
    for (size_t i = 0; i < list->n; i++)
        same = same && api_str_listed(&old->spec.scopes, list->p[i]);
    for (size_t i = 0; i < old->spec.scopes.n; i++)
        same = same && api_str_listed(list, old->spec.scopes.p[i]);
    if (!same)
        cause_invalid_json(v->causes, AT(spec, "scopes"),
                           validate_show_strings(list->p, list->n, scratch(v)),
                           STR("field is immutable"));
}
