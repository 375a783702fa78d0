// SPDX-License-Identifier: Apache-2.0
//
// Putting what was found by hand and what the schema's rules found together, as upstream does: the
// common rules of metadata, those of the kind, then the declarative ones, which take the place of
// what is marked as covered by them.
#include "api/validate.h"

#include <string.h>

#include "api/custom.h"
#include "api/type/extension.h"
#include "api/validate/validate_core.h"

#include "base/banned.h"

const struct api_kind *api_hub_kind(const struct api_kind *kind)
{
    if (!str_eqz(kind->group, "resource.k8s.io") || str_eqz(kind->version, "v1"))
        return kind;
    const struct api_kind *hub = api_kind_find(STR("resource.k8s.io/v1"), kind->kind);
    return hub ? hub : kind;
}

// --- By hand -------------------------------------------------------------------------------------

static void validate_kind(struct validator *v, const struct api_type *t, const void *value,
                          const void *old)
{
    bool status = v->op == API_STATUS_UPDATE;
    if (t == &api_resource_claim_type && status)
        validate_claim_status(v, value, old);
    else if (t == &api_resource_claim_type && old)
        validate_claim_update(v, value, old);
    else if (t == &api_resource_claim_type)
        validate_claim_create(v, value);
    else if (t == &api_resource_claim_template_type && old)
        validate_template_update(v, value, old);
    else if (t == &api_resource_claim_template_type)
        validate_template_create(v, value);
    else if (t == &api_resource_slice_type)
        validate_slice(v, value, old);
    else if (t == &api_device_class_type)
        validate_class(v, value, old);
    else if (t == &api_device_taint_rule_type)
        validate_taint_rule(v, value, old);
    else if (t == &api_resource_pool_status_request_type)
        validate_pool_status_request(v, value, old);
    else if (t == &api_pod_type)
        validate_pod(v, value, old);
    else if (t == &api_custom_resource_definition_type)
        validate_definition(v, value, old);
    else if (str_eqz(t->package, "admissionregistration/v1"))
        validate_admission(v, t, value, old);
    else
        validate_work_numbers(v, t, value, old);
    if (!status)
        validate_selector(v, t, value, old);
    if (!status)
        validate_pod_template(v, t, value);
}

static void check_by_hand(struct validator *v, const struct api_object *object,
                          const struct api_object *old)
{
    const struct api_object_meta *meta = api_object_meta(object);
    const struct api_object_meta *old_meta = old ? api_object_meta(old) : NULL;
    bool namespaced = object->kind->namespaced;
    if (meta && old_meta)
        validate_common_meta(v, meta, old_meta, namespaced);
    validate_core_kind(v, object, old);
    validate_kind(v, object->kind->type, object->value, old ? old->value : NULL);
    // On create the general rules only speak when the kind's own have nothing to say.
    if (meta && !old && v->causes->n == 0)
        validate_common_meta(v, meta, NULL, namespaced);
}

// --- Together ------------------------------------------------------------------------------------

// v1beta1 has the fields of an exact request in the request itself, and a device's in `basic`; what
// is found by hand is named as in v1. name_in_hub answers the field's path in v1.
static struct str name_in_hub(struct str field, struct arena *arena)
{
    static const struct str moved[] = {STR_INIT("deviceClassName"),  STR_INIT("selectors"),
                                       STR_INIT("allocationMode"),   STR_INIT("count"),
                                       STR_INIT("adminAccess"),      STR_INIT("tolerations"),
                                       STR_INIT("derivedAttributes")};
    struct str requests = STR("spec.devices.requests["), devices = STR("spec.devices[");
    ptrdiff_t at = str_find(field, requests), slice = str_find(field, devices);
    size_t from = at >= 0 ? (size_t)at + requests.n : slice >= 0 ? (size_t)slice + devices.n : 0;
    ptrdiff_t close = str_find(str_from(field, from), STR("]."));
    if (from == 0 || close < 0)
        return field;
    size_t rest_at = from + (size_t)close + 2;
    struct str head = str_upto(field, rest_at), rest = str_from(field, rest_at);
    if (at < 0)
        return str_starts(rest, STR("basic."))
                   ? arena_strf(arena, "%.*s%.*s", STR_ARG(head), STR_ARG(str_from(rest, 6)))
                   : field;
    for (size_t i = 0; i < array_len(moved); i++)
        if (str_starts(rest, moved[i]))
            return arena_strf(arena, "%.*sexactly.%.*s", STR_ARG(head), STR_ARG(rest));
    return field;
}

// What a declarative cause and one found by hand have in common when they say the same.
static struct str rule_key(const struct cause *c, struct str field, struct arena *arena)
{
    return arena_strf(arena, "%d %s %.*s", (int)c->type, c->origin ? c->origin : "",
                      STR_ARG(field));
}

// Drops causes that a declarative one replaces; those start at `declared`.
static void drop_replaced(struct causes *c, size_t from, size_t declared)
{
    cleanup_seen struct seen rules = {0};
    for (size_t i = declared; i < c->n; i++) {
        if (!c->p[i].beta || (c->p[i].type == CAUSE_INVALID && !c->p[i].origin))
            continue;
        (void)seen_add(&rules, rule_key(&c->p[i], c->p[i].field, c->arena));
        (void)seen_add(&rules, rule_key(&c->p[i], name_in_hub(c->p[i].field, c->arena), c->arena));
    }
    size_t n = from;
    for (size_t i = from; i < c->n; i++) {
        bool replaced = i < declared && c->p[i].covered &&
                        map_has(&rules, rule_key(&c->p[i], c->p[i].field, c->arena));
        if (!replaced)
            c->p[n++] = c->p[i];
    }
    c->n = n;
}

// Several rules check metadata; each cause is reported once.
static void validate_drop_repeated(struct causes *c, size_t from)
{
    cleanup_seen struct seen reported = {0};
    size_t n = from;
    for (size_t i = from; i < c->n; i++) {
        struct str key =
            arena_strf(c->arena, "%d %zu %.*s %.*s", (int)c->p[i].type, c->p[i].field.n,
                       STR_ARG(c->p[i].field), STR_ARG(c->p[i].message));
        if (!seen_add(&reported, key))
            c->p[n++] = c->p[i];
    }
    c->n = n;
}

// The object as the request's version has it, converted if need be.
static struct api_object in_version(const struct validator *v, const struct api_object *hub)
{
    struct api_object o = {v->version, hub->value};
    if (v->version->type != hub->kind->type &&
        api_convert(hub, v->version, scratch(v), &o, NULL) < 0)
        return *hub;
    return o;
}

void api_validate(enum api_op op, const struct api_object *object, const struct api_object *old,
                  const struct api_kind *version, const struct api_rules *rules,
                  struct causes *causes)
{
    struct validator v = {.rules = rules, .causes = causes, .op = op, .version = version};
    size_t from = causes->n;
    if (object->kind->custom) {
        custom_validate(op, object, old, version, causes);
        return;
    }
    check_by_hand(&v, object, old);
    size_t declared = causes->n;
    struct api_object versioned = in_version(&v, object), old_versioned;
    if (old)
        old_versioned = in_version(&v, old);
    validate_declarative(&v, &versioned, old ? &old_versioned : NULL);
    drop_replaced(causes, from, declared);
    validate_drop_repeated(causes, from);
}
