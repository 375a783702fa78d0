// SPDX-License-Identifier: Apache-2.0
//
// Defaults and preparation of the kinds that extend the server: definitions, admission policies,
// webhooks.
#include "api/type/extension.h"

#include "base/banned.h"

// --- Defaults ------------------------------------------------------------------------------------

static void default_definition(struct defaulter *d, void *value)
{
    struct api_custom_resource_definition *crd = value;
    struct api_custom_resource_definition_names *names = &crd->spec.names;
    if (names->singular.n == 0)
        names->singular = validate_lower_case(names->kind, d->arena);
    if (names->list_kind.n == 0 && names->kind.n)
        names->list_kind = arena_strf(d->arena, "%.*sList", STR_ARG(names->kind));
    if (!crd->spec.conversion) {
        crd->spec.conversion = arena_one(d->arena, struct api_custom_resource_conversion);
        crd->spec.conversion->strategy = STR("None");
    }
}

static void default_rule(struct defaulter *d, void *value)
{
    (void)d;
    struct api_rule *rule = value;
    if (rule->has_scope)
        return;
    rule->has_scope = true;
    rule->scope = STR("*");
}

// No selector selects everything.
static void default_selectors(struct defaulter *d, struct api_label_selector **namespaces,
                              struct api_label_selector **objects)
{
    if (!*namespaces)
        *namespaces = arena_one(d->arena, struct api_label_selector);
    if (!*objects)
        *objects = arena_one(d->arena, struct api_label_selector);
}

static void default_match(struct defaulter *d, void *value)
{
    struct api_match_resources *m = value;
    default_selectors(d, &m->namespace_selector, &m->object_selector);
}

static void default_validating(struct defaulter *d, void *value)
{
    struct api_validating_webhook *w = value;
    default_selectors(d, &w->namespace_selector, &w->object_selector);
}

static void default_mutating(struct defaulter *d, void *value)
{
    struct api_mutating_webhook *w = value;
    default_selectors(d, &w->namespace_selector, &w->object_selector);
}

default_hook *extension_default_hook(const struct api_type *t)
{
    if (t == &api_custom_resource_definition_type)
        return default_definition;
    if (t == &api_rule_type)
        return default_rule;
    if (t == &api_match_resources_type)
        return default_match;
    if (t == &api_validating_webhook_type)
        return default_validating;
    return t == &api_mutating_webhook_type ? default_mutating : NULL;
}

// --- Preparation ---------------------------------------------------------------------------------

static void note_stored(const struct preparer *p, struct api_custom_resource_definition *crd)
{
    struct api_str_array *list = &crd->status.stored_versions;
    for (size_t i = 0; i < crd->spec.versions.n; i++) {
        const struct api_custom_resource_definition_version *v = &crd->spec.versions.p[i];
        bool there = !v->storage;
        for (size_t k = 0; k < list->n; k++)
            there |= str_eq(list->p[k], v->name);
        if (there)
            continue;
        struct str *all = arena_array(p->arena, struct str, list->n + 1);
        for (size_t k = 0; k < list->n; k++)
            all[k] = list->p[k];
        all[list->n] = v->name;
        *list = (struct api_str_array){all, list->n + 1};
        return;
    }
}

static void prepare_definition(const struct preparer *p, struct api_custom_resource_definition *crd,
                               const struct api_custom_resource_definition *old)
{
    if (old && p->op == API_STATUS_UPDATE) {
        crd->spec = old->spec;
        return;
    }
    crd->status = old ? old->status : (struct api_custom_resource_definition_status){0};
    if (!old)
        crd->metadata.generation = 1;
    else if (!api_equal(&api_custom_resource_definition_spec_type, &crd->spec, &old->spec))
        crd->metadata.generation = old->metadata.generation + 1;
    // What is written into must not be shared with the old object.
    if (crd->status.conditions.n) {
        struct api_custom_resource_definition_status copy = crd->status;
        api_copy(&api_custom_resource_definition_status_type, &copy, &crd->status, p->arena);
    }
    note_stored(p, crd);
}

static void prepare_policy(const struct preparer *p, struct api_validating_admission_policy *policy,
                           const struct api_validating_admission_policy *old)
{
    if (old && p->op == API_STATUS_UPDATE) {
        policy->spec = old->spec;
        return;
    }
    policy->status = old ? old->status : (struct api_validating_admission_policy_status){0};
    if (!old)
        policy->metadata.generation = 1;
    else if (!api_equal(&api_validating_admission_policy_spec_type, &policy->spec, &old->spec))
        policy->metadata.generation = old->metadata.generation + 1;
}

// The others count what is not metadata.
static void prepare_plain(const struct api_object *object, const struct api_object *old)
{
    struct api_object_meta *meta = api_object_meta(object);
    const struct api_type *t = object->kind->type;
    bool same = old != NULL;
    for (size_t i = 3; old && i < t->fields_len; i++)
        same &= api_field_equal(&t->fields[i], object->value, old->value);
    if (!old)
        meta->generation = 1;
    else if (!same)
        meta->generation = api_object_meta(old)->generation + 1;
}

bool extension_prepare(const struct preparer *p, const struct api_object *object,
                       const struct api_object *old)
{
    const struct api_type *t = object->kind->type;
    if (t == &api_custom_resource_definition_type)
        prepare_definition(p, object->value, old ? old->value : NULL);
    else if (t == &api_validating_admission_policy_type)
        prepare_policy(p, object->value, old ? old->value : NULL);
    else if (t == &api_validating_admission_policy_binding_type ||
             t == &api_validating_webhook_configuration_type ||
             t == &api_mutating_webhook_configuration_type)
        prepare_plain(object, old);
    else
        return false;
    return true;
}
