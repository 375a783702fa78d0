// SPDX-License-Identifier: Apache-2.0
//
// Objects of manifests, in the order of the files.
#include <stdarg.h>
#include <stdio.h>

#include "api/validate.h"
#include "codec/docs.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

#define OBJECTS_MAX 2000000 // positions are 32-bit numbers

struct plan_world *plan_world_new(void)
{
    return xcalloc(1, sizeof(struct plan_world));
}

void plan_world_free(struct plan_world *w)
{
    if (!w)
        return;
    vec_done(&w->objects);
    vec_done(&w->notes);
    map_done(&w->names);
    arena_done(&w->arena);
    free(w);
}

void world_note(struct plan_world *w, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vec_push(&w->notes, arena_str(&w->arena, str_z(text)));
}

struct str world_full_name(struct arena *a, struct str namespace, struct str name)
{
    return namespace.n ? arena_strf(a, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name)) : name;
}

const struct api_kind *world_kind(const struct api_type *type)
{
    for (size_t i = 0; i < api_kinds_len; i++)
        if (api_kinds[i].type == type && api_kinds[i].plural.n)
            return &api_kinds[i];
    return NULL;
}

// --- By name -------------------------------------------------------------------------------------

static struct str world_make_key(struct arena *a, enum plan_kind kind, const struct api_type *type,
                                 struct str name)
{
    // Workloads of different kinds may have the same name, and so may other objects.
    bool several = kind == PLAN_WORKLOAD || kind == PLAN_OTHER;
    struct str of = several && type ? type->name : (struct str){0};
    return arena_strf(a, "%d%.*s:%.*s", (int)kind, STR_ARG(of), STR_ARG(name));
}

static struct plan_object *world_look_up(const struct plan_world *w, enum plan_kind kind,
                                         const struct api_type *type, struct str name)
{
    struct arena tmp = {0};
    const uint32_t *at = map_get(&w->names, world_make_key(&tmp, kind, type, name));
    arena_done(&tmp);
    return at && !w->objects.p[*at].gone ? &w->objects.p[*at] : NULL;
}

struct plan_object *world_find(const struct plan_world *w, enum plan_kind kind, struct str name)
{
    return world_look_up(w, kind, NULL, name);
}

struct plan_object *world_find_other(const struct plan_world *w, const struct api_type *type,
                                     struct str name)
{
    return world_look_up(w, PLAN_OTHER, type, name);
}

struct plan_object *world_add(struct plan_world *w, const struct plan_object *o)
{
    bool is_new = false;
    uint32_t *at =
        map_put_new(&w->names, world_make_key(&w->arena, o->kind, o->type, o->name), &is_new);
    if (!is_new && !w->objects.p[*at].gone) {
        const struct plan_object *old = &w->objects.p[*at];
        world_note(w, "%.*s:%zu: %.*s %.*s replaces the one in %.*s:%zu", STR_ARG(o->file), o->line,
                   STR_ARG(o->type->name), STR_ARG(o->name), STR_ARG(old->file), old->line);
        w->objects.p[*at] = *o;
        return &w->objects.p[*at];
    }
    *at = (uint32_t)w->objects.n;
    vec_push(&w->objects, *o);
    return vec_last(&w->objects);
}

// --- Reading -------------------------------------------------------------------------------------

static const struct {
    const struct api_type *type;
    enum plan_kind kind;
} wanted[] = {
    {&api_resource_slice_type, PLAN_SLICE},
    {&api_device_class_type, PLAN_CLASS},
    {&api_device_taint_rule_type, PLAN_RULE},
    {&api_node_type, PLAN_NODE},
    {&api_resource_claim_type, PLAN_CLAIM},
    {&api_resource_claim_template_type, PLAN_TEMPLATE},
    {&api_pod_type, PLAN_POD},
    {&api_deployment_type, PLAN_WORKLOAD},
    {&api_replica_set_type, PLAN_WORKLOAD},
    {&api_stateful_set_type, PLAN_WORKLOAD},
    {&api_job_type, PLAN_WORKLOAD},
    {&api_event_type, PLAN_EVENT},
    {&api_config_map_type, PLAN_RECORD},
    {&api_namespace_type, PLAN_OTHER},
    {&api_priority_class_type, PLAN_OTHER},
    {&api_resource_quota_type, PLAN_OTHER},
    {&api_limit_range_type, PLAN_OTHER},
    {&api_runtime_class_type, PLAN_OTHER},
    {&api_pod_disruption_budget_type, PLAN_OTHER},
    {&api_daemon_set_type, PLAN_OTHER},
    {&api_pod_group_type, PLAN_OTHER},
    {&api_persistent_volume_type, PLAN_OTHER},
    {&api_persistent_volume_claim_type, PLAN_OTHER},
    {&api_storage_class_type, PLAN_OTHER},
    {&api_csi_node_type, PLAN_OTHER},
    {&api_csi_driver_type, PLAN_OTHER},
    {&api_csi_storage_capacity_type, PLAN_OTHER},
};

static struct str given_name(struct plan_world *w, const struct api_object_meta *m, size_t number)
{
    if (m->name.n || m->generate_name.n == 0)
        return m->name;
    return arena_strf(&w->arena, "%.*s%zu", STR_ARG(m->generate_name), number);
}

// Defaults, then the version that the plan knows. Leaves out what the plan does not need.
static int take_object(struct plan_world *w, const struct api_object *decoded, struct str file,
                       size_t line, struct err *err)
{
    struct api_object hub;
    size_t i = 0;
    api_default(decoded->kind->type, decoded->value, NULL, &w->arena);
    int r = api_convert(decoded, api_hub_kind(decoded->kind), &w->arena, &hub, err);
    if (r < 0)
        return r;
    while (i < array_len(wanted) && wanted[i].type != hub.kind->type)
        i++;
    if (i == array_len(wanted)) {
        w->skipped++;
        return 0;
    }
    if (w->objects.n >= OBJECTS_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d objects", OBJECTS_MAX);
    struct api_object_meta *meta = api_object_meta(&hub);
    meta->name = given_name(w, meta, w->objects.n);
    if (meta->name.n == 0)
        return err_set(err, ERR_INVALID, "the %.*s has no metadata.name", STR_ARG(hub.kind->kind));
    if (!hub.kind->namespaced)
        meta->namespace = STR("");
    else if (meta->namespace.n == 0)
        meta->namespace = STR("default");
    struct plan_object o = {.kind = wanted[i].kind,
                            .type = hub.kind->type,
                            .value = hub.value,
                            .name = world_full_name(&w->arena, meta->namespace, meta->name),
                            .file = file,
                            .line = line};
    (void)world_add(w, &o);
    return 0;
}

static int world_add_value(struct plan_world *w, struct str file, const struct json_doc *doc,
                           const yyjson_val *v, struct err *err)
{
    struct api_object o;
    int r = api_decode(doc, v, &w->arena, NULL, &o, err);
    if (r == -ERR_NOT_FOUND) {
        w->skipped++;
        return 0;
    }
    if (r == 0)
        r = take_object(w, &o, file, doc->start.line, err);
    if (r < 0 && err && err->line == 0) {
        struct json_pos pos = doc->start;
        json_locate_err(doc, err);
        if (err->line == 0 && json_locate(doc, v, &pos))
            err->line = pos.line;
    }
    return r;
}

static const yyjson_val *world_list_items(const yyjson_val *v)
{
    if (!json_is_object(v))
        return NULL;
    const yyjson_val *kind = json_get(v, STR("kind"));
    const yyjson_val *items = json_get(v, STR("items"));
    bool list = kind && json_is_string(kind) && str_ends(json_str(kind), STR("List"));
    return list && items && json_is_array(items) ? items : NULL;
}

// Items of a typed list need not say what they are.
static int take_item(struct plan_world *w, struct str file, const struct json_doc *doc,
                     const yyjson_val *list, const yyjson_val *item, struct err *err)
{
    const yyjson_val *version = json_get(list, STR("apiVersion"));
    struct str kind = json_str(json_get(list, STR("kind")));
    struct api_object o;
    if (!json_is_object(item) || json_get(item, STR("kind")) || kind.n <= 4 || !version ||
        !json_is_string(version))
        return world_add_value(w, file, doc, item, err);
    const struct api_kind *k = api_kind_find(json_str(version), str_upto(kind, kind.n - 4));
    if (!k)
        return world_add_value(w, file, doc, item, err);
    int r = api_decode_as(k, doc, item, &w->arena, NULL, &o, err);
    if (r == 0)
        r = take_object(w, &o, file, doc->start.line, err);
    if (r < 0 && err && err->line == 0)
        json_locate_err(doc, err);
    return r;
}

static int world_add_document(struct plan_world *w, struct str file, const struct json_doc *doc,
                              struct err *err)
{
    const yyjson_val *items = world_list_items(doc->root);
    int r = 0;
    if (!json_is_object(doc->root)) {
        r = err_set(err, ERR_BAD_REQUEST, "a Kubernetes object is expected: apiVersion, kind, …");
        if (err)
            err->line = doc->start.line;
        return r;
    }
    if (!items)
        return world_add_value(w, file, doc, doc->root, err);
    json_arr_foreach(items, item) {
        if (r == 0)
            r = take_item(w, file, doc, doc->root, item, err);
    }
    return r;
}

int plan_world_read(struct plan_world *w, struct str file, struct str text, struct err *err)
{
    struct json_options options = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                   .duplicates = JSON_DUPLICATES_KEEP};
    cleanup_docs_reader struct docs_reader docs;
    struct json_doc doc = {0};
    struct str name = arena_str(&w->arena, file);
    docs_reader_init(&docs, text, &options);
    int r;
    while ((r = docs_next(&docs, &doc, err)) > 0) {
        int taken = world_add_document(w, name, &doc, err);
        json_doc_done(&doc);
        if (taken < 0)
            return taken;
    }
    return r;
}

const struct str *plan_class_names(const struct plan_world *w, struct arena *arena, size_t *ret_len)
{
    struct VEC(struct str) names = {0};
    world_foreach(w, PLAN_CLASS, o) vec_push_arena(arena, &names, o->name);
    *ret_len = names.n;
    return names.p;
}

bool plan_world_borrow(struct plan_world *w, const struct api_object *o)
{
    const struct api_object_meta *meta = api_object_meta(o);
    for (size_t i = 0; meta && i < array_len(wanted); i++) {
        if (wanted[i].type != o->kind->type)
            continue;
        (void)world_add(w, &(struct plan_object){.kind = wanted[i].kind,
                                                 .type = o->kind->type,
                                                 .value = o->value,
                                                 .name = world_full_name(&w->arena, meta->namespace,
                                                                         meta->name),
                                                 .file = STR("(cluster)")});
        return true;
    }
    return false;
}

int plan_world_read_proto(struct plan_world *w, struct str file, struct str body, struct err *err)
{
    struct api_object o;
    int r = api_envelope_read(body, &w->arena, &o, err);
    if (r == -ERR_NOT_FOUND) {
        w->skipped++;
        return 0;
    }
    return r < 0 ? r : take_object(w, &o, arena_str(&w->arena, file), 1, err);
}
