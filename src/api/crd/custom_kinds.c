// SPDX-License-Identifier: Apache-2.0
//
// The table of kinds that users added, and what their schemas look like to server-side apply.
#include <assert.h>
#include <stdlib.h>

#include "api/custom.h"
#include "base/vec.h"

#include "base/banned.h"

// One version: the kind, its list, and the parts of its definition. Never freed before the table.
struct version {
    struct api_kind kind, list;
    struct api_type type;
    struct api_custom custom;
    struct arena arena; // of the parts of the definition; renewed with it
};

struct custom_kind {
    struct version hub;
    struct VEC(struct version *) versions; // every one there ever was
    struct str group, name;
};

struct custom_kinds {
    struct VEC(struct custom_kind *) all;
    struct arena arena; // names
};

// --- Types for apply -----------------------------------------------------------------------------

#define OFFSET(member) ((uint32_t)offsetof(struct custom_object, member))

static void field_of(struct arena *a, const struct crd_node *n, struct str name,
                     struct api_field *f);

static const struct api_type *custom_kinds_type_of(struct arena *a, const struct crd_node *n)
{
    struct api_type *t = arena_one(a, struct api_type);
    size_t meta = n->embedded ? 3 : 0;
    struct api_field *fields = arena_array(a, struct api_field, n->properties_len + meta + 1);
    t->name = STR("object");
    t->atomic = str_eqz(n->map_type, "atomic");
    for (size_t i = 0; i < n->properties_len; i++)
        field_of(a, n->properties[i].node, n->properties[i].name, &fields[t->json_len++]);
    if (n->embedded) {
        fields[t->json_len++] = (struct api_field){.name = STR("apiVersion"), .elem = API_STR};
        fields[t->json_len++] = (struct api_field){.name = STR("kind"), .elem = API_STR};
        fields[t->json_len++] = (struct api_field){.name = STR("metadata"), .elem = API_FIELDS};
    }
    t->json = fields;
    return t;
}

// What an item of a list, a value of a map or a field itself is. Lists and maps within lists and
// maps are taken as they come.
static void custom_kinds_set_elem(struct arena *a, const struct crd_node *n, struct api_field *f)
{
    bool object = n && str_eqz(n->type, "object");
    f->elem = API_FIELDS;
    if (!n || n->preserve)
        return;
    if (n->int_or_string)
        f->elem = API_INTSTR;
    else if (object && !n->has_additional) {
        f->elem = API_STRUCT;
        f->sub = custom_kinds_type_of(a, n);
        f->flags |= f->sub->atomic ? API_STRUCT_ATOMIC : 0;
    } else if (str_eqz(n->type, "string"))
        f->elem = API_STR;
    else if (str_eqz(n->type, "boolean"))
        f->elem = API_BOOL;
    else if (str_eqz(n->type, "integer") || str_eqz(n->type, "number"))
        f->elem = API_I64;
    else if (str_eqz(n->type, "array"))
        f->elem = API_RAW; // owned as a whole
}

static const char *custom_kinds_join_keys(struct arena *a, const struct crd_strings *keys)
{
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < keys->n; i++) {
        sbuf_addz(&b, i ? "," : "");
        sbuf_add(&b, keys->p[i]);
    }
    return arena_str(a, sbuf_str(&b)).p;
}

static void set_info(struct arena *a, const struct crd_node *n, struct api_field *f)
{
    struct api_field_info *info = arena_one(a, struct api_field_info);
    cleanup_sbuf struct sbuf text = {0};
    f->info = info;
    if (n->list_map_keys.n)
        info->keys = custom_kinds_join_keys(a, &n->list_map_keys);
    if (!n->has_default)
        return;
    if (n->default_value.type == DYN_STR)
        sbuf_add(&text, n->default_value.text);
    else
        dyn_text(&n->default_value, &text);
    f->flags |= API_DEFAULT_DECLARED;
    info->default_text = arena_str(a, sbuf_str(&text)).p;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void field_of(struct arena *a, const struct crd_node *n, struct str name,
                     struct api_field *f)
{
    *f = (struct api_field){.name = name, .shape = API_ONE};
    set_info(a, n, f);
    if (str_eqz(n->type, "array") && !n->preserve) {
        f->shape = API_LIST;
        f->flags |= str_eqz(n->list_type, "map")   ? API_LIST_MAP
                    : str_eqz(n->list_type, "set") ? API_LIST_SET
                                                   : API_LIST_ATOMIC;
        custom_kinds_set_elem(a, n->items, f);
    } else if (str_eqz(n->type, "object") && n->has_additional && !n->preserve) {
        f->shape = API_MAP;
        f->flags |= str_eqz(n->map_type, "atomic") ? API_MAP_ATOMIC : 0;
        custom_kinds_set_elem(a, n->additional, f);
    } else {
        custom_kinds_set_elem(a, n, f);
    }
}

// The members of an object: three that are structs of ours, and what the schema has.
static void make_type(struct version *v)
{
    static const struct api_field meta[] = {
        {.name = STR_INIT("kind"), .elem = API_STR, .offset = OFFSET(kind)},
        {.name = STR_INIT("apiVersion"), .elem = API_STR, .offset = OFFSET(api_version)},
        {.name = STR_INIT("metadata"),
         .elem = API_STRUCT,
         .offset = OFFSET(metadata),
         .sub = &api_object_meta_type},
    };
    const struct crd_node *root = v->custom.schema ? v->custom.schema->root : NULL;
    size_t n = root ? root->properties_len : 0;
    struct api_field *json = arena_array(&v->arena, struct api_field, n + array_len(meta));
    for (size_t i = 0; i < array_len(meta); i++)
        json[i] = meta[i];
    size_t len = array_len(meta);
    for (size_t i = 0; i < n; i++) {
        struct str name = root->properties[i].name;
        if (!str_eqz(name, "kind") && !str_eqz(name, "apiVersion") && !str_eqz(name, "metadata"))
            field_of(&v->arena, root->properties[i].node, name, &json[len++]);
    }
    v->type = (struct api_type){.name = v->kind.kind,
                                .size = sizeof(struct custom_object),
                                .fields = meta,
                                .fields_len = array_len(meta),
                                .json = json,
                                .json_len = len,
                                .root = true,
                                .custom = &v->custom};
}

// --- The table -----------------------------------------------------------------------------------

struct custom_kinds *custom_kinds_new(void)
{
    return xcalloc(1, sizeof(struct custom_kinds));
}

static void version_done(struct version *v)
{
    crd_schema_free(v->custom.schema);
    arena_done(&v->arena);
}

void custom_kinds_free(struct custom_kinds *t)
{
    if (!t)
        return;
    vec_foreach(&t->all, k) {
        vec_foreach(&(*k)->versions, v) {
            version_done(*v);
            free(*v);
        }
        vec_done(&(*k)->versions);
        version_done(&(*k)->hub);
        free(*k);
    }
    vec_done(&t->all);
    arena_done(&t->arena);
    free(t);
}

static struct custom_kind *custom_kinds_find(const struct custom_kinds *t, struct str group,
                                             struct str kind)
{
    vec_foreach(&t->all, k)
        if (str_eq((*k)->group, group) && str_eq((*k)->name, kind))
            return *k;
    return NULL;
}

static void init_version(struct custom_kinds *t, struct custom_kind *k, struct version *v,
                         struct str version)
{
    v->kind.group = k->group;
    v->kind.version = arena_str(&t->arena, version);
    v->kind.kind = k->name;
    v->kind.api_version = arena_strf(&t->arena, "%.*s/%.*s", STR_ARG(k->group), STR_ARG(version));
    v->kind.type = &v->type;
    v->kind.list = &v->list;
    v->kind.custom = v->list.custom = &v->custom;
    v->custom.owner = k;
    v->custom.hub = &k->hub.kind;
    v->custom.number = k->hub.custom.number;
    make_type(v);
}

static struct custom_kind *custom_kinds_create(struct custom_kinds *t, struct str group,
                                               struct str kind)
{
    struct custom_kind *k = custom_kinds_find(t, group, kind);
    if (k)
        return k;
    k = xcalloc(1, sizeof(*k));
    k->group = arena_str(&t->arena, group);
    k->name = arena_str(&t->arena, kind);
    k->hub.custom.number = t->all.n;
    init_version(t, k, &k->hub, STR("*"));
    vec_push(&t->all, k);
    return k;
}

const struct api_kind *custom_hub(struct custom_kinds *t, struct str group, struct str kind)
{
    return &custom_kinds_create(t, group, kind)->hub.kind;
}

const struct api_kind *custom_hub_of_text(struct custom_kinds *t, struct str text)
{
    ptrdiff_t at = str_find(text, STR("/*/"));
    return at > 0 ? custom_hub(t, str_upto(text, (size_t)at), str_from(text, (size_t)at + 3))
                  : NULL;
}

const struct api_kind *custom_hub_at(const struct custom_kinds *t, size_t number)
{
    return t && number < t->all.n ? &t->all.p[number]->hub.kind : NULL;
}

const struct api_kind *custom_version_at(const struct api_kind *hub, size_t i)
{
    const struct custom_kind *k = hub->custom->owner;
    for (size_t at = 0, seen = 0; at < k->versions.n; at++)
        if (k->versions.p[at]->custom.defined && seen++ == i)
            return &k->versions.p[at]->kind;
    return NULL;
}

const struct api_kind *custom_version_of(const struct api_kind *kind, struct str api_version)
{
    const struct custom_kind *k = kind->custom->owner;
    for (size_t i = 0; i < k->versions.n; i++)
        if (k->versions.p[i]->custom.defined &&
            str_eq(k->versions.p[i]->kind.api_version, api_version))
            return &k->versions.p[i]->kind;
    return NULL;
}

const struct api_kind *custom_find(const struct custom_kinds *t, struct str api_version,
                                   struct str kind)
{
    struct str group, version;
    if (!t || !str_cut(api_version, '/', &group, &version))
        return NULL;
    const struct custom_kind *k = custom_kinds_find(t, group, kind);
    return k ? custom_version_of(&k->hub.kind, api_version) : NULL;
}

// --- Definitions ---------------------------------------------------------------------------------

static const char *const *custom_kinds_copy_names(struct arena *a, const struct api_str_array *in)
{
    if (in->n == 0)
        return NULL;
    const char **out = arena_array(a, const char *, in->n + 1);
    for (size_t i = 0; i < in->n; i++)
        out[i] = arena_str(a, in->p[i]).p;
    return out;
}

// Texts that others keep must outlive the definition: they go to the table's arena when they
// change.
static void keep_text(struct custom_kinds *t, struct str *to, struct str text)
{
    if (!str_eq(*to, text))
        *to = arena_str(&t->arena, text);
}

static void custom_kinds_name_version(struct custom_kinds *t, struct version *v,
                                      const struct api_custom_resource_definition *crd)
{
    const struct api_custom_resource_definition_names *names = &crd->status.accepted_names;
    struct api_kind *k = &v->kind;
    keep_text(t, &k->plural, names->plural);
    keep_text(t, &k->singular, names->singular);
    keep_text(t, &k->package, crd->spec.group);
    k->namespaced = str_eqz(crd->spec.scope, "Namespaced");
    k->short_names = custom_kinds_copy_names(&v->arena, &names->short_names);
    k->categories = custom_kinds_copy_names(&v->arena, &names->categories);
    v->list.group = k->group;
    v->list.version = k->version;
    v->list.api_version = k->api_version;
    keep_text(t, &v->list.kind, names->list_kind);
    v->list.item = k;
}

static void custom_kinds_read_subresources(struct version *v,
                                           const struct api_custom_resource_definition_version *in)
{
    static const char *const subs[] = {"status", "scale", NULL};
    struct api_custom *c = &v->custom;
    struct arena *a = &v->arena;
    const struct api_custom_resource_subresources *s = in->subresources;
    const struct api_custom_resource_subresource_scale *scale = s ? s->scale : NULL;
    c->has_status = s && s->status;
    c->has_scale = scale != NULL;
    if (scale) {
        c->spec_replicas = arena_str(a, scale->spec_replicas_path);
        c->status_replicas = arena_str(a, scale->status_replicas_path);
        c->label_selector = arena_str(a, scale->label_selector_path);
    }
    const char **list = arena_array(a, const char *, array_len(subs));
    size_t n = 0;
    if (c->has_scale)
        list[n++] = subs[1];
    if (c->has_status)
        list[n++] = subs[0];
    v->kind.subresources = n ? list : NULL;
    c->columns_len = in->additional_printer_columns.n;
    c->columns = arena_array(a, struct custom_column, c->columns_len + 1);
    for (size_t i = 0; i < c->columns_len; i++) {
        const struct api_custom_resource_column_definition *d =
            &in->additional_printer_columns.p[i];
        c->columns[i] =
            (struct custom_column){arena_str(a, d->name),      arena_str(a, d->type),
                                   arena_str(a, d->format),    arena_str(a, d->description),
                                   arena_str(a, d->json_path), d->priority};
    }
    c->selectable_len = in->selectable_fields.n;
    c->selectable = arena_array(a, struct str, c->selectable_len + 1);
    for (size_t i = 0; i < c->selectable_len; i++)
        c->selectable[i] = arena_str(a, in->selectable_fields.p[i].json_path);
    c->deprecated = in->deprecated;
    c->deprecation = in->has_deprecation_warning ? arena_str(a, in->deprecation_warning) : STR("");
}

static void define_version(struct custom_kinds *t, struct custom_kind *k,
                           const struct api_custom_resource_definition *crd,
                           const struct api_custom_resource_definition_version *in)
{
    struct version *v = NULL;
    vec_foreach(&k->versions, have)
        if (str_eq((*have)->kind.version, in->name))
            v = *have;
    if (!v) {
        v = xcalloc(1, sizeof(*v));
        init_version(t, k, v, in->name);
        vec_push(&k->versions, v);
    }
    version_done(v);
    v->arena = (struct arena){0};
    v->custom.schema = NULL;
    v->custom.defined = in->served;
    v->custom.terminating = crd->metadata.deletion_timestamp.set;
    custom_kinds_name_version(t, v, crd);
    custom_kinds_read_subresources(v, in);
    if (in->schema && in->schema->open_apiv3_schema.p && !crd->spec.preserve_unknown_fields &&
        crd_schema_read(in->schema->open_apiv3_schema, NULL, &v->custom.schema, NULL) == 0) {
        crd_schema_compile(v->custom.schema);
        crd_compile_rules(v->custom.schema, NULL);
    }
    make_type(v);
}

void custom_define(struct custom_kinds *t, const struct api_custom_resource_definition *crd)
{
    struct custom_kind *k =
        custom_kinds_create(t, crd->spec.group, crd->status.accepted_names.kind);
    vec_foreach(&k->versions, v)
        (*v)->custom.defined = false;
    for (size_t i = 0; i < crd->spec.versions.n; i++) {
        const struct api_custom_resource_definition_version *v = &crd->spec.versions.p[i];
        define_version(t, k, crd, v);
        if (v->storage)
            keep_text(t, &k->hub.kind.api_version,
                      arena_strf(&k->hub.arena, "%.*s/%.*s", STR_ARG(crd->spec.group),
                                 STR_ARG(v->name)));
    }
    custom_kinds_name_version(t, &k->hub, crd);
    k->hub.custom.defined = true;
    k->hub.custom.terminating = crd->metadata.deletion_timestamp.set;
    // Every field that some version offers to selectors is kept beside the stored object.
    size_t n = 0;
    vec_foreach(&k->versions, v)
        n += (*v)->custom.selectable_len;
    k->hub.custom.selectable = arena_array(&k->hub.arena, struct str, n + 1);
    k->hub.custom.selectable_len = 0;
    vec_foreach(&k->versions, v)
        for (size_t i = 0; (*v)->custom.defined && i < (*v)->custom.selectable_len; i++)
            k->hub.custom.selectable[k->hub.custom.selectable_len++] =
                arena_str(&k->hub.arena, (*v)->custom.selectable[i]);
}

void custom_undefine(struct custom_kinds *t, struct str group, struct str kind)
{
    struct custom_kind *k = custom_kinds_find(t, group, kind);
    if (!k)
        return;
    k->hub.custom.defined = false;
    vec_foreach(&k->versions, v)
        (*v)->custom.defined = false;
}
