// SPDX-License-Identifier: Apache-2.0
//
// Nodes: taints, addresses, amounts of resources, features they declare.
#include "api/validate/validate_core.h"

#include "base/banned.h"

static void check_node_taints(struct validator *v, const struct path *list,
                              const struct api_taint_array *taints)
{
    cleanup_seen struct seen seen = {0};
    for (size_t i = 0; i < taints->n && !causes_full(v->causes); i++) {
        const struct api_taint *t = &taints->p[i];
        const struct path *at = AT_ITEM(list, i);
        struct name_msgs msgs = {.arena = scratch(v)};
        cleanup_sbuf struct sbuf b = {0};
        validate_label_key(v, AT(at, "key"), t->key);
        name_label_value(t->value, &msgs);
        for (size_t j = 0; j < msgs.n; j++)
            sbuf_addf(&b, "%s%.*s", j ? ";" : "", STR_ARG(msgs.p[j]));
        if (msgs.n)
            cause_invalid(v->causes, AT(at, "value"), t->value, sbuf_str(&b));
        if (t->effect.n == 0)
            cause_required(v->causes, AT(at, "effect"), STR(""));
        else
            validate_taint_effect(v, AT(at, "effect"), t->effect);
        struct str key = arena_strf(scratch(v), "%.*s %.*s", STR_ARG(t->effect), STR_ARG(t->key));
        if (seen_add(&seen, key)) {
            size_t n = cause_duplicate_json(
                v->causes, at, validate_show_internal_json(&api_taint_type, t, scratch(v)));
            v->causes->p[n].message =
                arena_strf(scratch(v), "%.*s: taints must be unique by key and effect pair",
                           STR_ARG(v->causes->p[n].message));
        }
    }
}

static void check_amounts(struct validator *v, const struct path *at,
                          const struct api_quantity_map *map)
{
    for (size_t i = 0; i < map->n && !causes_full(v->causes); i++)
        validate_amount(v, AT_NAME(at, map->p[i].key), map->p[i].key, &map->p[i].value);
}

static bool node_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Segments between slashes, of which the first begins with a capital and the others with a letter.
static bool good_feature(struct str name)
{
    struct str part;
    bool first = true;
    for (bool more = true; more; first = false) {
        more = str_cut(name, '/', &part, &name);
        if (part.n == 0 || !node_is_letter(part.p[0]) || (first && part.p[0] > 'Z'))
            return false;
        for (size_t i = 0; i < part.n; i++)
            if (!node_is_letter(part.p[i]) && (part.p[i] < '0' || part.p[i] > '9'))
                return false;
    }
    return true;
}

static void validate_node_declared(struct validator *v, const struct path *list,
                                   const struct api_str_array *features)
{
    for (size_t i = 0; i < features->n && !causes_full(v->causes); i++) {
        struct str name = features->p[i];
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addz(&b, "invalid feature name ");
        sbuf_add_quoted(&b, name);
        if (name.n > 253)
            sbuf_addz(&b, ": must be no more than 253 characters");
        else
            sbuf_addz(&b, ": must start with an UpperCamelCase segment, with subsequent segments "
                          "separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and "
                          "contain only alphanumeric characters and slashes");
        if (name.n > 253 || !good_feature(name))
            cause_invalid(v->causes, AT_ITEM(list, i), name, sbuf_str(&b));
        if (i == 0)
            continue;
        int order = str_cmp(features->p[i - 1], name);
        if (order == 0)
            cause_duplicate(v->causes, AT_ITEM(list, i), name);
        else if (order > 0)
            cause_invalid(v->causes, AT_ITEM(list, i), name,
                          STR("list must be sorted alphabetically"));
    }
}

static void check_addresses(struct validator *v, const struct path *list,
                            const struct api_node_address_array *addresses)
{
    cleanup_seen struct seen seen = {0};
    for (size_t i = 0; i < addresses->n && !causes_full(v->causes); i++) {
        const struct api_node_address *a = &addresses->p[i];
        struct str key = arena_strf(scratch(v), "%.*s %.*s", STR_ARG(a->type), STR_ARG(a->address));
        if (seen_add(&seen, key))
            cause_duplicate_json(v->causes, AT_ITEM(list, i),
                                 validate_show_internal_json(&api_node_address_type, a,
                                                             scratch(v)));
    }
}

// The older field is the first of the newer one, and wins.
static struct api_str_array cidrs_of(struct validator *v, const struct api_node_spec *s)
{
    if (s->pod_cidr.n == 0 || (s->pod_cidrs.n && str_eq(s->pod_cidrs.p[0], s->pod_cidr)))
        return s->pod_cidrs;
    struct api_str_array one = {arena_one(scratch(v), struct str), 1};
    one.p[0] = s->pod_cidr;
    return one;
}

static void check_changes(struct validator *v, const struct path *spec,
                          const struct api_node_spec *now, const struct api_node_spec *old)
{
    static const struct str cidr =
        STR_INIT("node updates may not change podCIDR except from \"\" to valid");
    struct api_str_array is = cidrs_of(v, now), was = cidrs_of(v, old);
    bool same = is.n == was.n;
    for (size_t i = 0; same && i < was.n; i++)
        same = str_eq(is.p[i], was.p[i]);
    if (was.n && !same)
        cause_forbidden(v->causes, AT(spec, "podCIDRs"), cidr);
    if (old->provider_id.n && now->provider_id.n == 0)
        cause_invalid_json(v->causes, AT(spec, "providerID"), STR("null"),
                           STR("field cannot be cleared once set"));
    else if (old->provider_id.n && !str_eq(now->provider_id, old->provider_id))
        cause_invalid_json(v->causes, AT(spec, "providerID"), STR("null"),
                           STR("field cannot be modified once set"));
    if (!str_eq(now->external_id, old->external_id))
        cause_forbidden(v->causes, AT(spec, "externalID"), STR("may not be updated"));
}

static void check_cidrs(struct validator *v, const struct path *list,
                        const struct api_str_array *cidrs)
{
    size_t six = 0;
    for (size_t i = 0; i < cidrs->n && !causes_full(v->causes); i++) {
        cleanup_sbuf struct sbuf b = {0};
        if (!name_canonical_interface_address(cidrs->p[i], &b))
            cause_invalid(v->causes, AT_ITEM(list, i), cidrs->p[i],
                          STR("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"));
        six += str_find_char(cidrs->p[i], ':') >= 0;
    }
    if (cidrs->n > 2 || (cidrs->n == 2 && six != 1))
        cause_invalid_json(v->causes, list, validate_show_strings(cidrs->p, cidrs->n, scratch(v)),
                           STR("may specify no more than one CIDR for each IP family"));
}

void validate_node(struct validator *v, const struct api_node *node, const struct api_node *old)
{
    const struct path *status = AT(NULL, "status");
    // Upstream looks for taints below metadata.
    check_node_taints(v, AT(AT(NULL, "metadata"), "taints"), &node->spec.taints);
    check_amounts(v, AT(status, "capacity"), &node->status.capacity);
    check_amounts(v, AT(status, "allocatable"), &node->status.allocatable);
    validate_node_declared(v, AT(status, "declaredFeatures"), &node->status.declared_features);
    if (old) {
        check_addresses(v, AT(status, "addresses"), &node->status.addresses);
        check_changes(v, AT(NULL, "spec"), &node->spec, &old->spec);
    }
    struct api_str_array cidrs = cidrs_of(v, &node->spec);
    check_cidrs(v, AT(AT(NULL, "spec"), "podCIDRs"), &cidrs);
}
