// SPDX-License-Identifier: Apache-2.0
//
// Allocation problems as `dray alloc` reads them: one JSON object becomes slices, classes, claims,
// nodes and uses for the allocator.
#include "lab/alloc_question.h"

#include <stdlib.h>

#include "base/banned.h"

static int alloc_question_read_object(struct question *q, const struct api_type *t,
                                      const yyjson_val *v, size_t size, void **ret, struct err *err)
{
    *ret = arena_alloc(&q->arena, size, 16);
    return api_json_read(t, &q->doc, v, *ret, &q->arena, NULL, err);
}

// Reads the list under a key into a vector of pointers to objects.
#define READ_LIST(q, key, type, list, err)                                                  \
    ({                                                                                      \
        int read_list_r = 0;                                                                \
        const yyjson_val *read_list_v = json_get((q)->doc.root, STR(key));                  \
        if (read_list_v && !json_is_null(read_list_v))                                      \
            read_list_r = json_want_array(read_list_v, (err));                              \
        if (read_list_r == 0 && read_list_v && json_is_array(read_list_v)) {                \
            json_arr_foreach(read_list_v, item) {                                           \
                void *read_list_o = NULL;                                                   \
                if (read_list_r == 0)                                                       \
                    read_list_r = alloc_question_read_object((q), &api_##type##_type, item, \
                                                             sizeof(struct api_##type),     \
                                                             &read_list_o, (err));          \
                vec_push_arena(&(q)->arena, (list), read_list_o);                           \
            }                                                                               \
        }                                                                                   \
        read_list_r < 0 ? err_wrap((err), key) : 0;                                         \
    })

static int read_use(struct question *q, const yyjson_val *v, struct alloc_use *u, struct err *err)
{
    const yyjson_val *caps = json_get(v, STR("capacity"));
    size_t n = caps && json_is_object(caps) ? json_len(caps) : 0;
    struct api_quantity_entry *p = arena_array(&q->arena, struct api_quantity_entry, n + 1);
    size_t i = 0;
    u->id = (struct alloc_device_id){json_get_str(v, "driver"), json_get_str(v, "pool"),
                                     json_get_str(v, "device")};
    if (n == 0)
        return 0;
    json_obj_foreach(caps, key, val) {
        struct str text = json_is_string(val) ? json_str(val) : (struct str){0};
        int64_t number;
        p[i].key = json_str(key);
        if (json_is_integral(val, &number))
            p[i++].value = quantity_from_i64(number, QUANTITY_DECIMAL_SI);
        else if (quantity_parse(text, &q->arena, &p[i++].value, err) < 0)
            return err_wrap(err, "capacity %.*s", STR_ARG(json_str(key)));
    }
    u->capacity = (struct api_quantity_map){p, n};
    return 0;
}

static int read_uses(struct question *q, const yyjson_val *allocated, const char *key,
                     struct alloc_use kind, struct err *err)
{
    const yyjson_val *list = allocated ? json_get(allocated, str_z(key)) : NULL;
    if (!list || !json_is_array(list))
        return 0;
    json_arr_foreach(list, item) {
        struct alloc_use u = kind;
        int r = read_use(q, item, &u, err);
        if (r < 0)
            return err_wrap(err, "allocated.%s", key);
        vec_push_arena(&q->arena, &q->uses, u);
    }
    return 0;
}

static int alloc_question_read_features(struct question *q, struct err *err)
{
    const yyjson_val *list = json_get(q->doc.root, STR("features"));
    if (!list || !json_is_array(list))
        return 0;
    json_arr_foreach(list, item) {
        struct str name = json_is_string(item) ? json_str(item) : (struct str){0};
        if (!alloc_features_add(&q->features, name))
            return err_set(err, ERR_INVALID, "unknown feature \"%.*s\"", STR_ARG(name));
    }
    return 0;
}

static int alloc_question_read_nodes(struct question *q, struct err *err)
{
    const yyjson_val *one = json_get(q->doc.root, STR("node"));
    int r = READ_LIST(q, "nodes", node, &q->nodes, err);
    q->sweep = q->nodes.n > 0;
    if (r < 0 || q->sweep)
        return r;
    void *node = arena_one(&q->arena, struct api_node);
    if (one && json_is_object(one) &&
        alloc_question_read_object(q, &api_node_type, one, sizeof(struct api_node), &node, err) < 0)
        return err_wrap(err, "node");
    vec_push_arena(&q->arena, &q->nodes, node);
    return 0;
}

int alloc_question_read(struct question *q, struct str text, struct err *err)
{
    struct json_options options = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                   .duplicates = JSON_DUPLICATES_KEEP};
    int r = json_parse(text, &options, &q->doc, err);
    if (r == 0 && !json_is_object(q->doc.root))
        r = err_set(err, ERR_BAD_REQUEST, "a problem must be a JSON object");
    if (r == 0)
        r = alloc_question_read_features(q, err);
    if (r == 0)
        r = READ_LIST(q, "deviceClasses", device_class, &q->classes, err);
    if (r == 0)
        r = READ_LIST(q, "classes", device_class, &q->classes, err);
    if (r == 0)
        r = READ_LIST(q, "resourceSlices", resource_slice, &q->slices, err);
    if (r == 0)
        r = READ_LIST(q, "slices", resource_slice, &q->slices, err);
    if (r == 0)
        r = READ_LIST(q, "claims", resource_claim, &q->claims, err);
    if (r == 0)
        r = READ_LIST(q, "allocatedClaims", resource_claim, &q->allocated, err);
    if (r == 0)
        r = READ_LIST(q, "deviceTaintRules", device_taint_rule, &q->rules, err);
    if (r == 0)
        r = alloc_question_read_nodes(q, err);
    const yyjson_val *allocated = r == 0 ? json_get(q->doc.root, STR("allocated")) : NULL;
    if (r == 0)
        r = read_uses(q, allocated, "devices", (struct alloc_use){.exclusive = true}, err);
    if (r == 0)
        r = read_uses(q, allocated, "sharedDevices", (struct alloc_use){.share = true}, err);
    if (r == 0)
        r = read_uses(q, allocated, "capacity", (struct alloc_use){.has_capacity = true}, err);
    const yyjson_val *timeout = r == 0 ? json_get(q->doc.root, STR("timeoutMs")) : NULL;
    if (timeout && !json_is_null(timeout))
        r = json_to_i64(timeout, &q->timeout_ms, err);
    return r;
}

void alloc_question_done(struct question *q)
{
    json_doc_done(&q->doc);
    arena_done(&q->arena);
}

int alloc_question_prepare(const struct question *q, struct prepared *p, struct err *err)
{
    struct alloc_input in = {.features = q->features,
                             .slices = q->slices.p,
                             .slices_len = q->slices.n,
                             .classes = q->classes.p,
                             .classes_len = q->classes.n,
                             .taint_rules = q->rules.p,
                             .taint_rules_len = q->rules.n,
                             .claims = q->allocated.p,
                             .claims_len = q->allocated.n,
                             .uses = q->uses.p,
                             .uses_len = q->uses.n};
    int r = alloc_cluster_new(&in, &p->cluster, err);
    p->views = xcalloc(q->nodes.n + 1, sizeof(*p->views));
    for (size_t i = 0; r == 0 && i < q->nodes.n; i++)
        r = alloc_view_new(p->cluster, q->nodes.p[i], &p->views[i], err);
    return r;
}

void alloc_question_end(const struct question *q, struct prepared *p)
{
    for (size_t i = 0; p->views && i < q->nodes.n; i++)
        alloc_view_free(p->views[i]);
    free(p->views);
    alloc_cluster_free(p->cluster);
}
