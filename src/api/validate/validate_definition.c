// SPDX-License-Identifier: Apache-2.0
//
// What makes a CustomResourceDefinition a good one.
#include "api/crd/crd_schema.h"
#include "api/type/extension.h"

#include "base/banned.h"

typedef struct api_custom_resource_definition definition;
typedef struct api_custom_resource_definition_version version;

#define SELECTABLE_MAX 8

// All messages of a check in one cause.
static void check_shape(struct validator *v, const struct path *at, struct str value,
                        struct str shown, name_check check, const char *before)
{
    struct name_msgs bad = {.arena = scratch(v)};
    cleanup_sbuf struct sbuf why = {0};
    check(value, &bad);
    if (bad.n == 0)
        return;
    sbuf_addz(&why, before);
    for (size_t i = 0; i < bad.n; i++) {
        sbuf_addz(&why, i ? "," : "");
        sbuf_add(&why, bad.p[i]);
    }
    cause_invalid(v->causes, at, shown, sbuf_str(&why));
}

static void validate_definition_names(struct validator *v,
                                      const struct api_custom_resource_definition_names *n,
                                      const struct path *at)
{
    const struct {
        const char *field;
        struct str text;
        bool mixed;
    } names[] = {{"plural", n->plural, false},
                 {"singular", n->singular, false},
                 {"kind", n->kind, true},
                 {"listKind", n->list_kind, true}};
    for (size_t i = 0; i < array_len(names); i++) {
        struct str text =
            names[i].mixed ? validate_lower_case(names[i].text, scratch(v)) : names[i].text;
        if (text.n)
            check_shape(v, AT_NAME(at, str_z(names[i].field)), text, names[i].text,
                        name_dns1035_label,
                        names[i].mixed ? "may have mixed case, but should otherwise match: " : "");
    }
    const struct {
        const char *field;
        const struct api_str_array *list;
    } lists[] = {{"shortNames", &n->short_names}, {"categories", &n->categories}};
    if (n->kind.n && str_eq(n->kind, n->list_kind))
        cause_invalid(v->causes, AT(at, "listKind"), n->list_kind,
                      STR("kind and listKind may not be the same"));
    for (size_t k = 0; k < array_len(lists); k++) {
        for (size_t i = 0; i < lists[k].list->n; i++)
            check_shape(v, AT_ITEM(AT_NAME(at, str_z(lists[k].field)), i), lists[k].list->p[i],
                        lists[k].list->p[i], name_dns1035_label, "");
    }
}

// --- Versions ------------------------------------------------------------------------------------

static void check_json_path(struct validator *v, const struct path *at, struct str path)
{
    if (path.n == 0)
        cause_required(v->causes, at, STR(""));
    else if (path.p[0] != '.')
        cause_invalid(v->causes, at, path, STR("must be a simple json path starting with ."));
}

static void check_column(struct validator *v, const struct path *at,
                         const struct api_custom_resource_column_definition *c)
{
    static const char *const types[] = {"boolean", "date", "integer", "number", "string"};
    static const char *const formats[] = {"byte",  "date",  "date-time", "double",
                                          "float", "int32", "int64",     "password"};
    struct str must = STR("must be one of boolean,date,integer,number,string");
    bool known = false, known_format = c->format.n == 0;
    for (size_t i = 0; i < array_len(types); i++)
        known |= str_eqz(c->type, types[i]);
    for (size_t i = 0; i < array_len(formats); i++)
        known_format |= str_eqz(c->format, formats[i]);
    if (c->name.n == 0)
        cause_required(v->causes, AT(at, "name"), STR(""));
    if (c->type.n == 0)
        cause_required(v->causes, AT(at, "type"), must);
    else if (!known)
        cause_invalid(v->causes, AT(at, "type"), c->type, must);
    if (!known_format)
        cause_invalid(v->causes, AT(at, "format"), c->format,
                      STR("must be one of byte,date,date-time,double,float,int32,int64,password"));
    check_json_path(v, AT(at, "JSONPath"), c->json_path);
}

static void check_scale_path(struct validator *v, const struct path *at, const char *field,
                             struct str path, struct str below, struct str why)
{
    const struct path *here = AT_NAME(at, str_z(field));
    size_t before = v->causes->n;
    check_json_path(v, here, path);
    if (v->causes->n == before && !str_starts(path, below) &&
        !(str_eqz(str_z(field), "scale.labelSelectorPath") && str_starts(path, STR(".spec."))))
        cause_invalid(v->causes, here, path, why);
}

static void check_subresources(struct validator *v, const struct path *at,
                               const struct api_custom_resource_subresources *s)
{
    if (!s || !s->scale)
        return;
    check_scale_path(v, at, "scale.specReplicasPath", s->scale->spec_replicas_path, STR(".spec."),
                     STR("should be a json path under .spec"));
    check_scale_path(v, at, "scale.statusReplicasPath", s->scale->status_replicas_path,
                     STR(".status."), STR("should be a json path under .status"));
    if (s->scale->label_selector_path.n)
        check_scale_path(v, at, "scale.labelSelectorPath", s->scale->label_selector_path,
                         STR(".status."),
                         STR("should be a json path under either .spec or .status"));
}

// The schema that a path without brackets leads to; NULL: none.
static const struct crd_node *node_at(const struct crd_node *n, struct str path)
{
    while (n && path.n) {
        struct str step;
        if (path.p[0] != '.')
            return NULL;
        path = str_from(path, 1);
        ptrdiff_t dot = str_find_char(path, '.');
        step = dot < 0 ? path : str_upto(path, (size_t)dot);
        path = str_from(path, step.n);
        n = crd_property(n, step);
    }
    return n;
}

static void check_selectable(struct validator *v, const struct path *at, const version *ver,
                             const struct crd_schema *schema)
{
    for (size_t i = 0; i < ver->selectable_fields.n; i++) {
        struct str path = ver->selectable_fields.p[i].json_path;
        const struct path *here = AT(AT_ITEM(at, i), "jsonPath");
        const struct crd_node *n = schema ? node_at(schema->root, path) : NULL;
        if (path.n == 0) {
            cause_required(v->causes, here, STR(""));
            continue;
        }
        if (str_find_char(path, '[') >= 0 || !n) {
            cause_invalid(v->causes, here, path,
                          str_find_char(path, '[') >= 0
                              ? STR("is an invalid path: array notation is not allowed")
                              : STR("is an invalid path: does not refer to a valid field"));
            continue;
        }
        if (str_starts(path, STR(".metadata")))
            cause_invalid(v->causes, here, path, STR("must not point to fields in metadata"));
        if (!str_eqz(n->type, "string") && !str_eqz(n->type, "boolean") &&
            !str_eqz(n->type, "integer"))
            cause_invalid(v->causes, here, path,
                          STR("must point to a field of type string, boolean or integer. Enum "
                              "string fields and strings with formats are allowed."));
        for (size_t k = 0; k < i; k++)
            if (str_eq(ver->selectable_fields.p[k].json_path, path))
                cause_duplicate(v->causes, here, path);
    }
    if (ver->selectable_fields.n > SELECTABLE_MAX)
        cause_too_many(v->causes, at, ver->selectable_fields.n, SELECTABLE_MAX);
}

// at: of the version; top: where upstream keeps what all versions have in common.
static void validate_definition_schema(struct validator *v, const struct path *at,
                                       const struct path *top, const version *ver)
{
    const struct path schema_at =
        top ? path_field(top, STR("validation")) : path_field(at, STR("schema"));
    const struct path *here = AT(&schema_at, "openAPIV3Schema");
    struct crd_schema *schema = NULL;
    struct err err = {0};
    if (!ver->schema || !ver->schema->open_apiv3_schema.p) {
        cause_required(v->causes, here, STR(""));
        return;
    }
    if (crd_schema_read(ver->schema->open_apiv3_schema, NULL, &schema, &err) < 0) {
        cause_invalid(v->causes, here, STR(""), str_z(err.msg));
        return;
    }
    const struct crd_check check = {
        .causes = v->causes, .at = here, .status = ver->subresources && ver->subresources->status};
    crd_schema_check(schema, &check);
    check_selectable(v, AT(at, "selectableFields"), ver, schema);
    crd_schema_free(schema);
}

static void check_version_name(struct validator *v, const struct path *at, const version *ver)
{
    check_shape(v, AT(at, "name"), ver->name, ver->name, name_dns1035_label, "");
}

static void validate_definition_version(struct validator *v, const struct path *at,
                                        const struct path *top, const version *ver)
{
    const struct path *warning = AT(at, "deprecationWarning");
    check_version_name(v, at, ver);
    if (ver->has_deprecation_warning && !ver->deprecated)
        cause_invalid(v->causes, warning, ver->deprecation_warning,
                      STR("can only be set for deprecated versions"));
    else if (ver->has_deprecation_warning && ver->deprecation_warning.n > 256)
        cause_invalid(v->causes, warning, ver->deprecation_warning,
                      STR("must be <= 256 characters long"));
    else if (ver->has_deprecation_warning && ver->deprecation_warning.n == 0)
        cause_invalid(v->causes, warning, ver->deprecation_warning,
                      STR("must not be an empty string"));
    validate_definition_schema(v, at, top, ver);
    check_subresources(v, AT(at, "subresources"), ver->subresources);
    for (size_t i = 0; i < ver->additional_printer_columns.n; i++)
        check_column(v, AT_ITEM(AT(at, "additionalPrinterColumns"), i),
                     &ver->additional_printer_columns.p[i]);
}

static void validate_definition_versions(struct validator *v, const definition *crd,
                                         const struct path *spec)
{
    const struct path *list = AT(spec, "versions");
    const version *all = crd->spec.versions.p;
    size_t stored = 0;
    bool unique = true, alike = true;
    for (size_t i = 1; i < crd->spec.versions.n; i++)
        alike &= all[0].schema && all[i].schema &&
                 str_eq(all[0].schema->open_apiv3_schema, all[i].schema->open_apiv3_schema);
    for (size_t i = 0; i < crd->spec.versions.n; i++) {
        stored += crd->spec.versions.p[i].storage;
        for (size_t k = 0; k < i; k++)
            unique &= !str_eq(crd->spec.versions.p[k].name, crd->spec.versions.p[i].name);
        // What all versions say is judged once.
        if (!alike || i == 0)
            validate_definition_version(v, AT_ITEM(list, i), alike ? spec : NULL,
                                        &crd->spec.versions.p[i]);
        else
            check_version_name(v, AT_ITEM(list, i), &all[i]);
    }
    if (!unique)
        cause_invalid_plain(v->causes, list, STR("must contain unique version names"));
    if (stored != 1)
        cause_invalid_plain(v->causes, list,
                            STR("must have exactly one version marked as storage version"));
}

// --- The rest ------------------------------------------------------------------------------------

static void check_group(struct validator *v, const definition *crd, const struct path *spec)
{
    const struct path *at = AT(spec, "group");
    struct name_msgs bad = {.arena = scratch(v)};
    struct str group = crd->spec.group;
    name_dns_subdomain(group, &bad);
    if (group.n == 0)
        cause_required(v->causes, at, STR(""));
    else if (bad.n)
        check_shape(v, at, group, group, name_dns_subdomain, "");
    else if (str_find_char(group, '.') < 0)
        cause_invalid(v->causes, at, group, STR("should be a domain with at least one dot"));
}

static void check_conversion(struct validator *v, const definition *crd, const struct path *spec)
{
    static const struct str strategies[] = {STR_INIT("None"), STR_INIT("Webhook")};
    const struct path *at = AT(AT(spec, "conversion"), "strategy");
    const struct api_custom_resource_conversion *c = crd->spec.conversion;
    if (!c || str_eqz(c->strategy, "None"))
        return;
    if (c->strategy.n == 0)
        cause_required(v->causes, at, STR(""));
    else if (str_eqz(c->strategy, "Webhook"))
        cause_forbidden(v->causes, at,
                        STR("this server does not call conversion webhooks; use None, which "
                            "changes the apiVersion alone"));
    else
        cause_not_supported(v->causes, at, c->strategy, strategies, array_len(strategies));
}

// Groups of Kubernetes' own community need its approval.
static void check_approval(struct validator *v, const definition *crd)
{
    struct str key = STR("api-approved.kubernetes.io"), group = crd->spec.group, value = {0};
    if (!str_ends(group, STR(".k8s.io")) && !str_ends(group, STR(".kubernetes.io")) &&
        !str_eqz(group, "k8s.io") && !str_eqz(group, "kubernetes.io"))
        return;
    for (size_t i = 0; i < crd->metadata.annotations.n; i++)
        if (str_eq(crd->metadata.annotations.p[i].key, key))
            value = crd->metadata.annotations.p[i].value;
    if (value.n == 0)
        cause_required(v->causes, AT_KEY(AT(AT(NULL, "metadata"), "annotations"), key),
                       STR("protected groups must have approval annotation "
                           "\"api-approved.kubernetes.io\", see "
                           "https://github.com/kubernetes/enhancements/pull/1111"));
    else if (!str_starts(value, STR("unapproved")) && str_find(value, STR("://")) < 0)
        cause_invalid(v->causes, AT_KEY(AT(AT(NULL, "metadata"), "annotations"), key), value,
                      STR("protected groups must have approval annotation "
                          "\"api-approved.kubernetes.io\" with "
                          "either a URL or a reason starting with \"unapproved\", see "
                          "https://github.com/kubernetes/enhancements/pull/1111"));
}

static void check_stored(struct validator *v, const definition *crd)
{
    for (size_t i = 0; i < crd->status.stored_versions.n; i++) {
        struct str name = crd->status.stored_versions.p[i];
        bool there = false;
        for (size_t k = 0; k < crd->spec.versions.n; k++)
            there |= str_eq(crd->spec.versions.p[k].name, name);
        if (!there)
            cause_invalid(
                v->causes, AT_ITEM(AT(AT(NULL, "status"), "storedVersions"), i), name,
                arena_strf(scratch(v),
                           "missing from spec.versions; %.*s was previously a storage version, and "
                           "must remain in spec.versions until a storage migration ensures no data "
                           "remains persisted in %.*s and removes %.*s from status.storedVersions",
                           STR_ARG(name), STR_ARG(name), STR_ARG(name)));
    }
}

static bool definition_is_established(const definition *crd)
{
    for (size_t i = 0; i < crd->status.conditions.n; i++)
        if (str_eqz(crd->status.conditions.p[i].type, "Established"))
            return str_eqz(crd->status.conditions.p[i].status, "True");
    return false;
}

static void check_change(struct validator *v, const definition *crd, const definition *old,
                         const struct path *spec)
{
    if (definition_is_established(old)) {
        validate_unchanged(v, AT(spec, "scope"), crd->spec.scope, old->spec.scope);
        validate_unchanged(v, AT(AT(spec, "names"), "kind"), crd->spec.names.kind,
                           old->spec.names.kind);
    }
    validate_unchanged(v, AT(spec, "group"), crd->spec.group, old->spec.group);
    validate_unchanged(v, AT(AT(spec, "names"), "plural"), crd->spec.names.plural,
                       old->spec.names.plural);
}

static void check_needed_names(struct validator *v, const definition *crd, const struct path *names)
{
    const struct {
        const char *field;
        struct str text;
    } needed[] = {{"plural", crd->spec.names.plural},
                  {"singular", crd->spec.names.singular},
                  {"kind", crd->spec.names.kind},
                  {"listKind", crd->spec.names.list_kind}};
    for (size_t i = 0; i < array_len(needed); i++) {
        if (needed[i].text.n == 0)
            cause_required(v->causes, AT_NAME(names, str_z(needed[i].field)), STR(""));
    }
}

static void validate_definition_name(struct validator *v, const definition *crd)
{
    struct str want = arena_strf(scratch(v), "%.*s.%.*s", STR_ARG(crd->spec.names.plural),
                                 STR_ARG(crd->spec.group));
    if (!str_eq(crd->metadata.name, want))
        cause_invalid(v->causes, AT(AT(NULL, "metadata"), "name"), crd->metadata.name,
                      STR("must be spec.names.plural+\".\"+spec.group"));
}

void validate_definition(struct validator *v, const definition *crd, const definition *old)
{
    static const struct str scopes[] = {STR_INIT("Cluster"), STR_INIT("Namespaced")};
    const struct path *spec = AT(NULL, "spec");
    if (v->op == API_STATUS_UPDATE)
        return;
    if (!old)
        validate_definition_name(v, crd);
    check_group(v, crd, spec);
    if (crd->spec.scope.n == 0)
        cause_required(v->causes, AT(spec, "scope"), STR(""));
    else if (!str_eqz(crd->spec.scope, "Cluster") && !str_eqz(crd->spec.scope, "Namespaced"))
        cause_not_supported(v->causes, AT(spec, "scope"), crd->spec.scope, scopes,
                            array_len(scopes));
    validate_definition_versions(v, crd, spec);
    check_needed_names(v, crd, AT(spec, "names"));
    validate_definition_names(v, &crd->spec.names, AT(spec, "names"));
    check_conversion(v, crd, spec);
    if (old)
        check_change(v, crd, old, spec);
    check_stored(v, crd);
    check_approval(v, crd);
    if (crd->spec.preserve_unknown_fields && !(old && old->spec.preserve_unknown_fields))
        cause_invalid_bool(
            v->causes, AT(spec, "preserveUnknownFields"), true,
            STR("cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                "spec.versions[*].schema instead"));
}
