// SPDX-License-Identifier: Apache-2.0
//
// OpenAPI paths: the operations on each resource.
#include "api/present/openapi_int.h"
#include "api/types.h"

#include "base/banned.h"

// What an operation takes and gives.
struct operation {
    const char *method; // of HTTP
    const char *action; // x-kubernetes-action
    const char *verb;   // first word of the operation's id
    bool body;          // takes an object
    bool patch;         // takes a patch
    bool options;       // takes DeleteOptions
    bool list;          // gives a list
    bool status;        // gives a Status
    const char *const *parameters;
};

static const char *const list_parameters[] = {"allowWatchBookmarks",
                                              "continue",
                                              "fieldSelector",
                                              "labelSelector",
                                              "limit",
                                              "resourceVersion",
                                              "resourceVersionMatch",
                                              "sendInitialEvents",
                                              "timeoutSeconds",
                                              "watch",
                                              NULL};
static const char *const write_parameters[] = {"dryRun", "fieldManager", "fieldValidation", NULL};
static const char *const patch_parameters[] = {"dryRun", "fieldManager", "fieldValidation", "force",
                                               NULL};
static const char *const delete_parameters[] = {"dryRun", "gracePeriodSeconds", "orphanDependents",
                                                "propagationPolicy", NULL};
static const char *const no_parameters[] = {NULL};

static const struct operation on_collection[] = {
    {"get", "list", "list", .list = true, .parameters = list_parameters},
    {"post", "post", "create", .body = true, .parameters = write_parameters},
    {"delete", "deletecollection", "deleteCollection", .options = true, .status = true,
     .parameters = delete_parameters},
};
static const struct operation on_item[] = {
    {"get", "get", "read", .parameters = no_parameters},
    {"put", "put", "replace", .body = true, .parameters = write_parameters},
    {"patch", "patch", "patch", .patch = true, .parameters = patch_parameters},
    {"delete", "delete", "delete", .options = true, .status = true,
     .parameters = delete_parameters},
};

static const struct {
    const char *name;
    const char *type;
    const char *doc;
} parameters[] = {
    {"allowWatchBookmarks", "boolean", "Send BOOKMARK events in a watch."},
    {"continue", "string", "Where a truncated list continues: the token of the last response."},
    {"dryRun", "string", "All: do everything but store the result."},
    {"fieldManager", "string", "The name under which changed fields are owned."},
    {"fieldSelector", "string", "Only objects whose fields match."},
    {"fieldValidation", "string", "Unknown and repeated fields: Ignore, Warn or Strict."},
    {"force", "boolean", "Apply: take fields over from other managers."},
    {"gracePeriodSeconds", "integer", "Seconds until the object goes; 0 is at once."},
    {"labelSelector", "string", "Only objects whose labels match."},
    {"limit", "integer", "At most this many objects in one answer."},
    {"orphanDependents", "boolean", "Old form of propagationPolicy."},
    {"propagationPolicy", "string", "Dependents: Orphan, Background or Foreground."},
    {"resourceVersion", "string", "The version a list or watch starts from."},
    {"resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."},
    {"sendInitialEvents", "boolean", "Start a watch with the objects that exist."},
    {"timeoutSeconds", "integer", "How long a list or watch may take."},
    {"watch", "boolean", "Stream changes instead of a list."},
    {"name", "string", "The object's name."},
    {"namespace", "string", "The object's namespace."},
};

static void openapi_paths_write_parameter(struct oas *o, const char *name, bool in_path)
{
    size_t i = 0;
    while (!str_eqz(str_z(parameters[i].name), name))
        i++;
    json_write_object_begin(&o->w);
    openapi_write_member(o, "name", str_z(name));
    openapi_write_member(o, "in", in_path ? STR("path") : STR("query"));
    openapi_write_member(o, "description", str_z(parameters[i].doc));
    if (in_path) {
        openapi_write_key(o, "required");
        json_write_bool(&o->w, true);
    }
    if (!o->v2) {
        openapi_write_key(o, "schema");
        json_write_object_begin(&o->w);
    }
    openapi_write_member(o, "type", str_z(parameters[i].type));
    openapi_write_key(o, "uniqueItems");
    json_write_bool(&o->w, true);
    if (!o->v2)
        json_write_object_end(&o->w);
    json_write_object_end(&o->w);
}

static const char *const patch_types[] = {"application/json-patch+json",
                                          "application/merge-patch+json",
                                          "application/strategic-merge-patch+json",
                                          "application/apply-patch+yaml", NULL};
static const char *const any_type[] = {"*/*", NULL};
static const char *const answer_types[] = {"application/json", "application/yaml",
                                           "application/vnd.kubernetes.protobuf", NULL};

struct target {
    struct str package;
    const struct api_kind *kind;
    const char *sub; // subresource or NULL
};

static void patch_ref(struct oas *o)
{
    json_write_object_begin(&o->w);
    openapi_write_member(
        o, "$ref",
        o->v2 ? STR("#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch")
              : STR("#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"));
    json_write_object_end(&o->w);
}

static void body_schema(struct oas *o, const struct operation *op, const struct target *t)
{
    openapi_write_key(o, "schema");
    if (op->patch)
        patch_ref(o);
    else if (op->options)
        openapi_write_ref(o, STR("meta/v1"), &api_delete_options_type);
    else
        openapi_write_ref(o, t->package, t->kind->type);
}

static void answer_schema(struct oas *o, const struct operation *op, const struct target *t)
{
    openapi_write_key(o, "schema");
    if (op->status)
        openapi_write_ref(o, STR("meta/v1"), &api_status_type);
    else if (op->list)
        openapi_write_ref(o, t->package, t->kind->list->type);
    else
        openapi_write_ref(o, t->package, t->kind->type);
}

// openapi_paths_write_contents writes {"type/sub": {schema}} for each content type, the schema by
// answer or body.
static void openapi_paths_write_contents(struct oas *o, const char *const *types,
                                         const struct operation *op, const struct target *t,
                                         bool answer)
{
    openapi_write_key(o, "content");
    json_write_object_begin(&o->w);
    for (; *types; types++) {
        openapi_write_key(o, *types);
        json_write_object_begin(&o->w);
        if (answer)
            answer_schema(o, op, t);
        else
            body_schema(o, op, t);
        json_write_object_end(&o->w);
    }
    json_write_object_end(&o->w);
}

static void openapi_paths_write_response(struct oas *o, const char *code, const char *text,
                                         const struct operation *op, const struct target *t)
{
    openapi_write_key(o, code);
    json_write_object_begin(&o->w);
    openapi_write_member(o, "description", str_z(text));
    if (o->v2)
        answer_schema(o, op, t);
    else
        openapi_paths_write_contents(o, answer_types, op, t, true);
    json_write_object_end(&o->w);
}

static void openapi_paths_write_responses(struct oas *o, const struct operation *op,
                                          const struct target *t)
{
    openapi_write_key(o, "responses");
    json_write_object_begin(&o->w);
    openapi_paths_write_response(o, "200", "OK", op, t);
    if (op->body || op->patch)
        openapi_paths_write_response(o, "201", "Created", op, t);
    if (op->options)
        openapi_paths_write_response(o, "202", "Accepted", op, t);
    openapi_write_key(o, "401");
    json_write_raw(&o->w, STR("{\"description\":\"Unauthorized\"}"));
    json_write_object_end(&o->w);
}

static void string_array(struct oas *o, const char *key, const char *const *items)
{
    openapi_write_key(o, key);
    json_write_array_begin(&o->w);
    for (; *items; items++)
        json_write_str(&o->w, str_z(*items));
    json_write_array_end(&o->w);
}

static void openapi_paths_write_request(struct oas *o, const struct operation *op,
                                        const struct target *t)
{
    bool takes = op->body || op->patch || op->options;
    const char *const *types = op->patch ? patch_types : any_type;
    if (takes && o->v2)
        string_array(o, "consumes", types);
    openapi_write_key(o, "parameters");
    json_write_array_begin(&o->w);
    if (takes && o->v2) {
        json_write_object_begin(&o->w);
        openapi_write_member(o, "name", STR("body"));
        openapi_write_member(o, "in", STR("body"));
        openapi_write_key(o, "required");
        json_write_bool(&o->w, !op->options);
        body_schema(o, op, t);
        json_write_object_end(&o->w);
    }
    for (const char *const *p = op->parameters; *p; p++)
        openapi_paths_write_parameter(o, *p, false);
    json_write_array_end(&o->w);
    if (takes && !o->v2) {
        openapi_write_key(o, "requestBody");
        json_write_object_begin(&o->w);
        openapi_paths_write_contents(o, types, op, t, false);
        openapi_write_key(o, "required");
        json_write_bool(&o->w, !op->options);
        json_write_object_end(&o->w);
    }
}

static void openapi_paths_write_operation(struct oas *o, const struct operation *op,
                                          const struct target *t, bool in_namespace)
{
    const struct api_kind *k = t->kind;
    openapi_write_key(o, op->method);
    json_write_object_begin(&o->w);
    openapi_write_member(o, "description",
                         arena_strf(&o->arena, "%s %.*s%s%s", op->action, STR_ARG(k->kind),
                                    t->sub ? " " : "", t->sub ? t->sub : ""));
    openapi_write_member(o, "operationId",
                         arena_strf(&o->arena, "%s_%.*s_%.*s_%s%.*s%s%s", op->verb,
                                    STR_ARG(k->group), STR_ARG(k->version),
                                    in_namespace ? "Namespaced" : "", STR_ARG(k->kind),
                                    t->sub ? "_" : "", t->sub ? t->sub : ""));
    openapi_paths_write_request(o, op, t);
    openapi_paths_write_responses(o, op, t);
    openapi_write_member(o, "x-kubernetes-action", str_z(op->action));
    openapi_write_key(o, "x-kubernetes-group-version-kind");
    openapi_write_gvk(o, k);
    json_write_object_end(&o->w);
}

static void path_parameters(struct oas *o, bool in_namespace, bool named)
{
    openapi_write_key(o, "parameters");
    json_write_array_begin(&o->w);
    if (named)
        openapi_paths_write_parameter(o, "name", true);
    if (in_namespace)
        openapi_paths_write_parameter(o, "namespace", true);
    json_write_array_end(&o->w);
}

static void openapi_paths_write_path(struct oas *o, const struct target *t, bool in_namespace,
                                     bool named)
{
    const struct api_kind *k = t->kind;
    bool core = k->group.n == 0;
    struct str place = arena_strf(&o->arena, "%s%.*s/%.*s%s/%.*s%s%s%s", core ? "/api" : "/apis/",
                                  STR_ARG(k->group), STR_ARG(k->version),
                                  in_namespace ? "/namespaces/{namespace}" : "", STR_ARG(k->plural),
                                  named ? "/{name}" : "", t->sub ? "/" : "", t->sub ? t->sub : "");
    json_write_key(&o->w, place);
    json_write_object_begin(&o->w);
    // All namespaces at once can only be listed.
    size_t count = named                           ? array_len(on_item) - (t->sub != NULL)
                   : k->namespaced != in_namespace ? 1
                                                   : array_len(on_collection);
    const struct operation *ops = named ? on_item : on_collection;
    for (size_t i = 0; i < count; i++)
        openapi_paths_write_operation(o, &ops[i], t, in_namespace);
    path_parameters(o, in_namespace, named);
    json_write_object_end(&o->w);
}

void openapi_write_paths(struct oas *o, struct str package)
{
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *k = &api_kinds[i];
        struct target t = {package, k, NULL};
        // Kinds without a list, such as reviews and bindings, are only ever created.
        if (!str_eq(k->package, package) || k->plural.n == 0 || !k->list)
            continue;
        if (k->namespaced)
            openapi_paths_write_path(o, &t, false, false);
        openapi_paths_write_path(o, &t, k->namespaced, false);
        openapi_paths_write_path(o, &t, k->namespaced, true);
        for (const char *const *sub = k->subresources; sub && *sub; sub++) {
            t.sub = *sub;
            if (str_eqz(str_z(*sub), "status"))
                openapi_paths_write_path(o, &t, k->namespaced, true);
        }
    }
}
