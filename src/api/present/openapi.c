// SPDX-License-Identifier: Apache-2.0
//
// OpenAPI definitions: one schema a type.
#include "api/openapi.h"

#include <assert.h>

#include "api/openapi_custom.h"
#include "api/present/openapi_int.h"
#include "api/types.h"

#include "base/banned.h"

// The types behind elements that are not structs have definitions of their own.
static const struct prim {
    enum api_elem elem;
    const char *name;
    const char *doc;
    const char *v2; // content besides the description
    const char *v3;
} prims[] = {
    {API_QUANTITY, "io.k8s.apimachinery.pkg.api.resource.Quantity",
     "A number with an optional suffix: 500m, 2, 1.5Gi, 3e6.", "\"type\":\"string\"",
     "\"oneOf\":[{\"type\":\"string\"},{\"type\":\"number\"}]"},
    {API_TIME, "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
     "A moment in RFC 3339 form, in whole seconds.", "\"type\":\"string\",\"format\":\"date-time\"",
     "\"type\":\"string\",\"format\":\"date-time\""},
    {API_MICROTIME, "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
     "A moment in RFC 3339 form, in microseconds.", "\"type\":\"string\",\"format\":\"date-time\"",
     "\"type\":\"string\",\"format\":\"date-time\""},
    {API_INTSTR, "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "A number or a string.",
     "\"type\":\"string\",\"format\":\"int-or-string\"",
     "\"format\":\"int-or-string\",\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]"},
    {API_RAW, "io.k8s.apimachinery.pkg.runtime.RawExtension", "Any JSON object.",
     "\"type\":\"object\"", "\"type\":\"object\""},
    {API_FIELDS, "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
     "A set of fields as a tree of field names.", "\"type\":\"object\"", "\"type\":\"object\""},
};

static const struct prim *prim_of(enum api_elem elem)
{
    for (size_t i = 0; i < array_len(prims); i++)
        if (prims[i].elem == elem)
            return &prims[i];
    return NULL;
}

void openapi_write_key(struct oas *o, const char *key)
{
    json_write_key(&o->w, str_z(key));
}

void openapi_write_member(struct oas *o, const char *key, struct str value)
{
    openapi_write_key(o, key);
    json_write_str(&o->w, value);
}

void openapi_write_gvk(struct oas *o, const struct api_kind *k)
{
    json_write_object_begin(&o->w);
    openapi_write_member(o, "group", k->group);
    openapi_write_member(o, "kind", k->kind);
    openapi_write_member(o, "version", k->version);
    json_write_object_end(&o->w);
}

// --- Names ---------------------------------------------------------------------------------------

static struct str openapi_package_base(struct str package)
{
    struct str base, rest;
    (void)str_cut(package, '/', &base, &rest);
    return base;
}

// package_of is where a type that is referred to from a package has its name: a version that shares
// types with another still publishes them as its own.
static struct str package_of(struct str from, const struct api_type *t)
{
    return str_eq(openapi_package_base(from), openapi_package_base(t->package)) ? from : t->package;
}

static struct str def_name(struct oas *o, struct str package, const struct api_type *t)
{
    struct str base, version;
    (void)str_cut(package, '/', &base, &version);
    const char *root = str_eqz(base, "meta") ? "io.k8s.apimachinery.pkg.apis" : "io.k8s.api";
    return arena_strf(&o->arena, "%s.%.*s.%.*s.%.*s", root, STR_ARG(base), STR_ARG(version),
                      STR_ARG(t->name));
}

static void ref_to(struct oas *o, struct str name)
{
    struct str place = arena_strf(&o->arena, "#/%s/%.*s",
                                  o->v2 ? "definitions" : "components/schemas", STR_ARG(name));
    openapi_write_member(o, "$ref", place);
}

void openapi_write_ref(struct oas *o, struct str package, const struct api_type *t)
{
    json_write_object_begin(&o->w);
    ref_to(o, def_name(o, package_of(package, t), t));
    json_write_object_end(&o->w);
}

void openapi_collect_definitions(struct oas *o, struct str package, const struct api_type *t)
{
    package = package_of(package, t);
    vec_foreach(&o->defs, def) {
        if (def->type == t && str_eq(def->package, package))
            return;
    }
    vec_push_arena(&o->arena, &o->defs, (struct oas_def){package, t});
    for (size_t i = 0; i < t->json_len; i++)
        if (t->json[i].elem == API_STRUCT)
            openapi_collect_definitions(o, package, t->json[i].sub);
}

// --- Fields --------------------------------------------------------------------------------------

static void openapi_write_scalar(struct oas *o, const struct api_field *f)
{
    switch (f->elem) {
    case API_STR:
        openapi_write_member(o, "type", STR("string"));
        return;
    case API_BYTES:
        openapi_write_member(o, "type", STR("string"));
        openapi_write_member(o, "format", STR("byte"));
        return;
    case API_BOOL:
        openapi_write_member(o, "type", STR("boolean"));
        return;
    case API_I32:
    case API_I64:
        openapi_write_member(o, "type", STR("integer"));
        openapi_write_member(o, "format", f->elem == API_I32 ? STR("int32") : STR("int64"));
        return;
    case API_STRLIST:
        openapi_write_member(o, "type", STR("array"));
        openapi_write_key(o, "items");
        json_write_raw(&o->w, STR("{\"type\":\"string\"}"));
        return;
    case API_QUANTITY:
    case API_TIME:
    case API_MICROTIME:
    case API_INTSTR:
    case API_RAW:
    case API_FIELDS:
    case API_STRUCT:
    case API_ELEMS:
        break;
    }
    assert(false);
}

static void enum_values(struct oas *o, const struct api_field *f)
{
    if (!f->info->values)
        return;
    openapi_write_key(o, "enum");
    json_write_array_begin(&o->w);
    for (const char *const *v = f->info->values; *v; v++)
        json_write_str(&o->w, str_z(*v));
    json_write_array_end(&o->w);
}

static bool is_ref(const struct api_field *f)
{
    return f->elem == API_STRUCT || prim_of(f->elem);
}

static void elem_ref(struct oas *o, struct str package, const struct api_field *f)
{
    const struct prim *prim = prim_of(f->elem);
    if (prim)
        ref_to(o, str_z(prim->name));
    else
        ref_to(o, def_name(o, package_of(package, f->sub), f->sub));
}

// openapi_write_item writes the schema of one element of a list or map.
static void openapi_write_item(struct oas *o, struct str package, const struct api_field *f)
{
    json_write_object_begin(&o->w);
    if (is_ref(f)) {
        elem_ref(o, package, f);
    } else {
        openapi_write_scalar(o, f);
        enum_values(o, f);
    }
    json_write_object_end(&o->w);
}

// openapi_write_single writes the schema of a single value. OpenAPI 3.0 allows nothing beside a
// $ref, so it is put into allOf.
static void openapi_write_single(struct oas *o, struct str package, const struct api_field *f)
{
    if (!is_ref(f)) {
        openapi_write_scalar(o, f);
        enum_values(o, f);
    } else if (o->v2) {
        elem_ref(o, package, f);
    } else {
        openapi_write_key(o, "allOf");
        json_write_array_begin(&o->w);
        openapi_write_item(o, package, f);
        json_write_array_end(&o->w);
    }
}

static void declared_default(struct oas *o, const struct api_field *f)
{
    struct str text = str_z(f->info->default_text);
    openapi_write_key(o, "default");
    if (f->elem == API_STR)
        json_write_str(&o->w, text);
    else
        json_write_raw(&o->w, text);
}

// defaults: the declared one, else the zero value of what JSON always shows.
static void openapi_write_defaults(struct oas *o, const struct api_field *f)
{
    if (o->v2 || (f->shape != API_ONE && f->shape != API_OPT))
        return;
    if (f->flags & API_DEFAULT_DECLARED) {
        declared_default(o, f);
        return;
    }
    if (f->shape == API_OPT)
        return;
    if (f->elem == API_STRUCT) {
        openapi_write_key(o, "default");
        json_write_raw(&o->w, STR("{}"));
    } else if ((f->flags & API_ALWAYS) && !is_ref(f) && f->elem != API_BYTES &&
               f->elem != API_STRLIST) {
        openapi_write_key(o, "default");
        json_write_raw(&o->w, f->elem == API_STR    ? STR("\"\"")
                              : f->elem == API_BOOL ? STR("false")
                                                    : STR("0"));
    }
}

static void string_list(struct oas *o, const char *key, struct str commas)
{
    openapi_write_key(o, key);
    json_write_array_begin(&o->w);
    while (commas.n) {
        struct str head;
        (void)str_cut(commas, ',', &head, &commas);
        json_write_str(&o->w, head);
    }
    json_write_array_end(&o->w);
}

static void openapi_write_extensions(struct oas *o, const struct api_field *f)
{
    if (f->info->keys)
        string_list(o, "x-kubernetes-list-map-keys", str_z(f->info->keys));
    if (f->flags & (API_LIST_ATOMIC | API_LIST_SET | API_LIST_MAP))
        openapi_write_member(o, "x-kubernetes-list-type",
                             f->flags & API_LIST_ATOMIC ? STR("atomic")
                             : f->flags & API_LIST_SET  ? STR("set")
                                                        : STR("map"));
    if (f->flags & (API_MAP_ATOMIC | API_MAP_GRANULAR))
        openapi_write_member(o, "x-kubernetes-map-type",
                             f->flags & API_MAP_ATOMIC ? STR("atomic") : STR("granular"));
    if (f->info->merge_key)
        openapi_write_member(o, "x-kubernetes-patch-merge-key", str_z(f->info->merge_key));
    if (f->flags & (API_PATCH_MERGE | API_PATCH_REPLACE | API_PATCH_RETAIN_KEYS)) {
        bool retain = f->flags & API_PATCH_RETAIN_KEYS;
        openapi_write_member(o, "x-kubernetes-patch-strategy",
                             f->flags & API_PATCH_MERGE
                                 ? (retain ? STR("merge,retainKeys") : STR("merge"))
                             : retain ? STR("retainKeys")
                                      : STR("replace"));
    }
}

static void openapi_write_property(struct oas *o, struct str package, const struct api_field *f)
{
    json_write_object_begin(&o->w);
    openapi_write_member(o, "description", str_z(f->info->doc));
    if (f->shape == API_LIST) {
        openapi_write_member(o, "type", STR("array"));
        openapi_write_key(o, "items");
        openapi_write_item(o, package, f);
    } else if (f->shape == API_MAP) {
        openapi_write_member(o, "type", STR("object"));
        openapi_write_key(o, "additionalProperties");
        openapi_write_item(o, package, f);
    } else {
        openapi_write_single(o, package, f);
    }
    openapi_write_defaults(o, f);
    openapi_write_extensions(o, f);
    json_write_object_end(&o->w);
}

// --- Types ---------------------------------------------------------------------------------------

static void kinds_of(struct oas *o, const struct oas_def *def)
{
    bool any = false;
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *k = &api_kinds[i];
        if (k->type != def->type || !str_eq(k->package, def->package))
            continue;
        if (!any) {
            openapi_write_key(o, "x-kubernetes-group-version-kind");
            json_write_array_begin(&o->w);
        }
        any = true;
        openapi_write_gvk(o, k);
    }
    if (any)
        json_write_array_end(&o->w);
}

static void openapi_write_definition(struct oas *o, const struct oas_def *def)
{
    const struct api_type *t = def->type;
    bool required = false;
    json_write_object_begin(&o->w);
    openapi_write_member(o, "description", str_z(t->doc));
    openapi_write_member(o, "type", STR("object"));
    if (t->json_len) {
        openapi_write_key(o, "properties");
        json_write_object_begin(&o->w);
        for (size_t i = 0; i < t->json_len; i++) {
            json_write_key(&o->w, t->json[i].name);
            openapi_write_property(o, def->package, &t->json[i]);
            required |= (t->json[i].flags & API_REQUIRED) != 0;
        }
        json_write_object_end(&o->w);
    }
    if (required) {
        openapi_write_key(o, "required");
        json_write_array_begin(&o->w);
        for (size_t i = 0; i < t->json_len; i++)
            if (t->json[i].flags & API_REQUIRED)
                json_write_str(&o->w, t->json[i].name);
        json_write_array_end(&o->w);
    }
    if (t->atomic)
        openapi_write_member(o, "x-kubernetes-map-type", STR("atomic"));
    kinds_of(o, def);
    json_write_object_end(&o->w);
}

static void patch_definition(struct oas *o)
{
    openapi_write_key(o, "io.k8s.apimachinery.pkg.apis.meta.v1.Patch");
    json_write_object_begin(&o->w);
    openapi_write_member(o, "description",
                         STR("The body of a PATCH, in the form its content type names."));
    openapi_write_member(o, "type", STR("object"));
    json_write_object_end(&o->w);
}

void openapi_write_definitions(struct oas *o)
{
    json_write_object_begin(&o->w);
    vec_foreach(&o->defs, def) {
        json_write_key(&o->w, def_name(o, def->package, def->type));
        openapi_write_definition(o, def);
    }
    for (size_t i = 0; i < array_len(prims); i++) {
        openapi_write_key(o, prims[i].name);
        json_write_object_begin(&o->w);
        openapi_write_member(o, "description", str_z(prims[i].doc));
        sbuf_addc(o->w.out, ',');
        sbuf_addz(o->w.out, o->v2 ? prims[i].v2 : prims[i].v3);
        json_write_object_end(&o->w);
    }
    patch_definition(o);
    json_write_object_end(&o->w);
}

// --- Documents -----------------------------------------------------------------------------------

static void collect_package(struct oas *o, struct str package)
{
    for (size_t i = 0; i < api_kinds_len; i++)
        if (str_eq(api_kinds[i].package, package))
            openapi_collect_definitions(o, package, api_kinds[i].type);
    const struct str meta = STR("meta/v1");
    openapi_collect_definitions(o, meta, &api_status_type);
    openapi_collect_definitions(o, meta, &api_delete_options_type);
    openapi_collect_definitions(o, meta, &api_watch_event_type);
    openapi_collect_definitions(o, meta, &api_api_resource_list_type);
}

static void openapi_write_info(struct oas *o)
{
    openapi_write_key(o, "info");
    json_write_object_begin(&o->w);
    openapi_write_member(o, "title", STR("dray"));
    openapi_write_member(o, "version", STR("unversioned"));
    json_write_object_end(&o->w);
}

static const struct api_kind *openapi_first_kind(struct str group, struct str version)
{
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *k = &api_kinds[i];
        if (!str_eqz(k->package, "meta/v1") && str_eq(k->group, group) &&
            str_eq(k->version, version))
            return k;
    }
    return NULL;
}

static void oas_done(struct oas *o)
{
    arena_done(&o->arena);
}

bool api_openapi_v3(struct str group, struct str version, struct sbuf *out)
{
    const struct api_kind *k = openapi_first_kind(group, version);
    if (!k)
        return false;
    cleanup_with(oas_done) struct oas o = {.w = {.out = out}};
    collect_package(&o, k->package);
    json_write_object_begin(&o.w);
    openapi_write_member(&o, "openapi", STR("3.0.0"));
    openapi_write_info(&o);
    openapi_write_key(&o, "paths");
    json_write_object_begin(&o.w);
    openapi_write_paths(&o, k->package);
    json_write_object_end(&o.w);
    openapi_write_key(&o, "components");
    json_write_object_begin(&o.w);
    openapi_write_key(&o, "schemas");
    openapi_write_definitions(&o);
    json_write_object_end(&o.w);
    json_write_object_end(&o.w);
    return true;
}

// first_of_package reports whether row i is the first of its package, so that each is taken once.
static bool first_of_package(size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (str_eq(api_kinds[j].package, api_kinds[i].package))
            return false;
    return !str_eqz(api_kinds[i].package, "meta/v1");
}

void api_openapi_v2(bool (*served)(void *ctx, struct str group, struct str version), void *ctx,
                    const struct custom_kinds *customs, struct sbuf *out)
{
    cleanup_with(oas_done) struct oas o = {.w = {.out = out}, .v2 = true};
    json_write_object_begin(&o.w);
    openapi_write_member(&o, "swagger", STR("2.0"));
    openapi_write_info(&o);
    openapi_write_key(&o, "paths");
    json_write_object_begin(&o.w);
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *k = &api_kinds[i];
        if (!first_of_package(i) || (served && !served(ctx, k->group, k->version)))
            continue;
        collect_package(&o, k->package);
        openapi_write_paths(&o, k->package);
    }
    cleanup_sbuf struct sbuf definitions = {0};
    if (customs)
        openapi_custom_v2(customs, &definitions, out);
    json_write_object_end(&o.w);
    openapi_write_key(&o, "definitions");
    openapi_write_definitions(&o);
    // They stand within the braces that were just closed.
    if (definitions.n) {
        sbuf_truncate(out, out->n - 1);
        sbuf_add(out, sbuf_str(&definitions));
        sbuf_addc(out, '}');
    }
    json_write_object_end(&o.w);
}
