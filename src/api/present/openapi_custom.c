// SPDX-License-Identifier: Apache-2.0
//
// OpenAPI of kinds made by CustomResourceDefinitions: definitions from their schemas, and their
// paths.
#include "api/openapi_custom.h"

#include "base/banned.h"

struct writing {
    struct json_writer w;
    bool v2;
    const struct api_kind *kind;
    struct str name; // of the definition
};

// com.example.stable.v1.CronTab: the group's labels in reverse.
static struct str definition_name(const struct api_kind *k, struct arena *a)
{
    cleanup_sbuf struct sbuf b = {0};
    struct str rest = k->group;
    while (rest.n) {
        ptrdiff_t dot = str_rfind_char(rest, '.');
        sbuf_add(&b, str_from(rest, dot < 0 ? 0 : (size_t)dot + 1));
        sbuf_addc(&b, '.');
        rest = str_upto(rest, dot < 0 ? 0 : (size_t)dot);
    }
    sbuf_addf(&b, "%.*s.%.*s", STR_ARG(k->version), STR_ARG(k->kind));
    return arena_str(a, sbuf_str(&b));
}

static void group_version_kind(struct writing *g, struct str kind, bool list)
{
    json_write_key(&g->w, STR("x-kubernetes-group-version-kind"));
    if (list)
        json_write_array_begin(&g->w);
    json_write_object_begin(&g->w);
    json_write_text(&g->w, "group", g->kind->group);
    json_write_text(&g->w, "kind", kind);
    json_write_text(&g->w, "version", g->kind->version);
    json_write_object_end(&g->w);
    if (list)
        json_write_array_end(&g->w);
}

static void openapi_custom_write_reference(struct writing *g, struct str name)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b, "#/%s/%.*s", g->v2 ? "definitions" : "components/schemas", STR_ARG(name));
    json_write_object_begin(&g->w);
    json_write_text(&g->w, "$ref", sbuf_str(&b));
    json_write_object_end(&g->w);
}

// Members that OpenAPI v2 has no words for are left out there, with what they would contradict.
static bool is_v3_only(struct str key)
{
    static const char *const words[] = {"anyOf", "oneOf", "allOf", "not", "nullable"};
    for (size_t i = 0; i < array_len(words); i++)
        if (str_eqz(key, words[i]))
            return true;
    return false;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void schema_value(struct writing *g, const struct dyn *v)
{
    if (v->type == DYN_LIST) {
        json_write_array_begin(&g->w);
        for (size_t i = 0; i < v->items_len; i++)
            schema_value(g, &v->items[i]);
        json_write_array_end(&g->w);
        return;
    }
    if (v->type != DYN_OBJECT) {
        dyn_write(v, &g->w);
        return;
    }
    bool open = g->v2 && dyn_get(v, STR("x-kubernetes-preserve-unknown-fields"));
    json_write_object_begin(&g->w);
    for (size_t i = 0; i < v->members_len; i++) {
        struct str key = v->members[i].key;
        if (g->v2 && (is_v3_only(key) || (open && (str_eqz(key, "properties") ||
                                                   str_eqz(key, "type") || str_eqz(key, "items")))))
            continue;
        json_write_key(&g->w, key);
        schema_value(g, &v->members[i].value);
    }
    json_write_object_end(&g->w);
}

static void openapi_custom_write_properties(struct writing *g, const struct dyn *root)
{
    static const char *const texts[] = {"apiVersion", "kind"};
    const struct dyn *have = dyn_get(root, STR("properties"));
    json_write_key(&g->w, STR("properties"));
    json_write_object_begin(&g->w);
    for (size_t i = 0; i < array_len(texts); i++)
        if (!dyn_get(have, str_z(texts[i]))) {
            json_write_key(&g->w, str_z(texts[i]));
            json_write_raw(&g->w, STR("{\"type\":\"string\"}"));
        }
    json_write_key(&g->w, STR("metadata"));
    openapi_custom_write_reference(g, STR("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    for (size_t i = 0; have && i < have->members_len; i++) {
        if (str_eqz(have->members[i].key, "metadata"))
            continue;
        json_write_key(&g->w, have->members[i].key);
        schema_value(g, &have->members[i].value);
    }
    json_write_object_end(&g->w);
}

static void openapi_custom_write_definition(struct writing *g)
{
    static const struct dyn none = {.type = DYN_OBJECT};
    const struct crd_schema *s = g->kind->custom->schema;
    const struct dyn *root = s ? &s->json : &none;
    json_write_object_begin(&g->w);
    for (size_t i = 0; i < root->members_len; i++) {
        struct str key = root->members[i].key;
        if (str_eqz(key, "properties") || (g->v2 && is_v3_only(key)))
            continue;
        json_write_key(&g->w, key);
        schema_value(g, &root->members[i].value);
    }
    if (!dyn_get(root, STR("type")))
        json_write_text(&g->w, "type", STR("object"));
    openapi_custom_write_properties(g, root);
    group_version_kind(g, g->kind->kind, true);
    json_write_object_end(&g->w);
}

static void list_definition(struct writing *g)
{
    json_write_object_begin(&g->w);
    json_write_text(&g->w, "type", STR("object"));
    json_write_key(&g->w, STR("required"));
    json_write_raw(&g->w, STR("[\"items\"]"));
    json_write_key(&g->w, STR("properties"));
    json_write_object_begin(&g->w);
    json_write_key(&g->w, STR("apiVersion"));
    json_write_raw(&g->w, STR("{\"type\":\"string\"}"));
    json_write_key(&g->w, STR("kind"));
    json_write_raw(&g->w, STR("{\"type\":\"string\"}"));
    json_write_key(&g->w, STR("metadata"));
    openapi_custom_write_reference(g, STR("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"));
    json_write_key(&g->w, STR("items"));
    json_write_object_begin(&g->w);
    json_write_text(&g->w, "type", STR("array"));
    json_write_key(&g->w, STR("items"));
    openapi_custom_write_reference(g, g->name);
    json_write_object_end(&g->w);
    json_write_object_end(&g->w);
    group_version_kind(g, g->kind->list->kind, true);
    json_write_object_end(&g->w);
}

static void openapi_custom_write_parameters(struct writing *g, bool write, bool patch)
{
    static const char *const all[] = {"dryRun", "fieldManager", "fieldValidation", "force"};
    json_write_key(&g->w, STR("parameters"));
    json_write_array_begin(&g->w);
    for (size_t i = 0; write && i < (patch ? array_len(all) : array_len(all) - 1); i++) {
        json_write_object_begin(&g->w);
        json_write_text(&g->w, "name", str_z(all[i]));
        json_write_text(&g->w, "in", STR("query"));
        if (g->v2)
            json_write_text(&g->w, "type", i == 3 ? STR("boolean") : STR("string"));
        else {
            json_write_key(&g->w, STR("schema"));
            json_write_object_begin(&g->w);
            json_write_text(&g->w, "type", i == 3 ? STR("boolean") : STR("string"));
            json_write_object_end(&g->w);
        }
        json_write_object_end(&g->w);
    }
    json_write_array_end(&g->w);
}

static void openapi_custom_write_responses(struct writing *g, struct str name)
{
    json_write_key(&g->w, STR("responses"));
    json_write_object_begin(&g->w);
    json_write_key(&g->w, STR("200"));
    json_write_object_begin(&g->w);
    json_write_text(&g->w, "description", STR("OK"));
    if (g->v2) {
        json_write_key(&g->w, STR("schema"));
        openapi_custom_write_reference(g, name);
    } else {
        json_write_key(&g->w, STR("content"));
        json_write_object_begin(&g->w);
        json_write_key(&g->w, STR("application/json"));
        json_write_object_begin(&g->w);
        json_write_key(&g->w, STR("schema"));
        openapi_custom_write_reference(g, name);
        json_write_object_end(&g->w);
        json_write_object_end(&g->w);
    }
    json_write_object_end(&g->w);
    json_write_object_end(&g->w);
}

static void openapi_custom_write_operation(struct writing *g, const char *method,
                                           const char *action, const char *id, struct str answer)
{
    bool patch = str_eqz(STR("patch"), method);
    bool write = patch || str_eqz(STR("post"), method) || str_eqz(STR("put"), method);
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "%s%.*s%.*s", id, STR_ARG(g->name), STR_ARG(g->kind->plural));
    json_write_key(&g->w, str_z(method));
    json_write_object_begin(&g->w);
    json_write_text(&g->w, "operationId", sbuf_str(&name));
    json_write_text(&g->w, "x-kubernetes-action", str_z(action));
    group_version_kind(g, g->kind->kind, false);
    openapi_custom_write_parameters(g, write, patch);
    openapi_custom_write_responses(g, answer);
    json_write_object_end(&g->w);
}

static void paths_of(struct writing *g, struct arena *a)
{
    const struct api_kind *k = g->kind;
    struct str list = arena_strf(a, "%.*sList", STR_ARG(g->name));
    struct str base =
        arena_strf(a, "/apis/%.*s/%.*s/%s%.*s", STR_ARG(k->group), STR_ARG(k->version),
                   k->namespaced ? "namespaces/{namespace}/" : "", STR_ARG(k->plural));
    json_write_key(&g->w, base);
    json_write_object_begin(&g->w);
    openapi_custom_write_operation(g, "get", "list", "list", list);
    openapi_custom_write_operation(g, "post", "post", "create", g->name);
    openapi_custom_write_operation(g, "delete", "deletecollection", "deleteCollection", list);
    json_write_object_end(&g->w);
    json_write_key(&g->w, arena_strf(a, "%.*s/{name}", STR_ARG(base)));
    json_write_object_begin(&g->w);
    openapi_custom_write_operation(g, "get", "get", "read", g->name);
    openapi_custom_write_operation(g, "put", "put", "replace", g->name);
    openapi_custom_write_operation(g, "patch", "patch", "patch", g->name);
    openapi_custom_write_operation(g, "delete", "delete", "delete", g->name);
    json_write_object_end(&g->w);
}

// Calls fn for every defined version, of one group and version if those are named.
static bool openapi_custom_each_kind(const struct custom_kinds *customs, struct str group,
                                     struct str version,
                                     void (*fn)(struct writing *g, struct arena *a),
                                     struct writing *g, struct arena *a)
{
    bool any = false;
    const struct api_kind *hub, *k;
    for (size_t i = 0; (hub = custom_hub_at(customs, i)); i++)
        for (size_t v = 0; (k = custom_version_at(hub, v)); v++) {
            if (group.n && (!str_eq(k->group, group) || !str_eq(k->version, version)))
                continue;
            any = true;
            g->kind = k;
            g->name = definition_name(k, a);
            if (fn)
                fn(g, a);
        }
    return any;
}

static void schemas_of(struct writing *g, struct arena *a)
{
    json_write_key(&g->w, g->name);
    openapi_custom_write_definition(g);
    json_write_key(&g->w, arena_strf(a, "%.*sList", STR_ARG(g->name)));
    list_definition(g);
}

// What the schemas refer to, in as few words as do.
static void meta_schemas(struct writing *g)
{
    static const char *const names[] = {"ObjectMeta", "ListMeta"};
    for (size_t i = 0; i < array_len(names); i++) {
        cleanup_sbuf struct sbuf name = {0};
        sbuf_addf(&name, "io.k8s.apimachinery.pkg.apis.meta.v1.%s", names[i]);
        json_write_key(&g->w, sbuf_str(&name));
        json_write_raw(&g->w, STR("{\"type\":\"object\",\"description\":\"Names, labels and "
                                  "bookkeeping.\",\"x-kubernetes-preserve-unknown-fields\":true}"));
    }
}

bool openapi_custom_v3(const struct custom_kinds *customs, struct str group, struct str version,
                       struct sbuf *out)
{
    cleanup_arena struct arena a = {0};
    struct writing g = {.w = {.out = out}};
    if (!openapi_custom_each_kind(customs, group, version, NULL, &g, &a))
        return false;
    json_write_object_begin(&g.w);
    json_write_text(&g.w, "openapi", STR("3.0.0"));
    json_write_key(&g.w, STR("info"));
    json_write_raw(&g.w, STR("{\"title\":\"Kubernetes CRD Swagger\",\"version\":\"v0.1.0\"}"));
    json_write_key(&g.w, STR("paths"));
    json_write_object_begin(&g.w);
    (void)openapi_custom_each_kind(customs, group, version, paths_of, &g, &a);
    json_write_object_end(&g.w);
    json_write_key(&g.w, STR("components"));
    json_write_object_begin(&g.w);
    json_write_key(&g.w, STR("schemas"));
    json_write_object_begin(&g.w);
    (void)openapi_custom_each_kind(customs, group, version, schemas_of, &g, &a);
    meta_schemas(&g);
    json_write_object_end(&g.w);
    json_write_object_end(&g.w);
    json_write_object_end(&g.w);
    return true;
}

void openapi_custom_v2(const struct custom_kinds *customs, struct sbuf *definitions,
                       struct sbuf *paths)
{
    cleanup_arena struct arena a = {0};
    struct writing g = {.w = {.out = definitions, .comma = true}, .v2 = true};
    (void)openapi_custom_each_kind(customs, STR(""), STR(""), schemas_of, &g, &a);
    struct writing p = {.w = {.out = paths, .comma = true}, .v2 = true};
    (void)openapi_custom_each_kind(customs, STR(""), STR(""), paths_of, &p, &a);
}
