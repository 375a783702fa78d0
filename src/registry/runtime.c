// SPDX-License-Identifier: Apache-2.0
//
// Admission of pods that name a RuntimeClass: what running them takes besides, where they can run.
#include "api/match/taint.h"
#include "registry/stage_int.h"

#include "base/banned.h"

static int runtime_reject_pod(struct op *op, const struct api_object *object, const char *why)
{
    return fail_forbidden(op, admit_about(op, object), "pod rejected: %s", why);
}

static bool same_amounts(const struct api_quantity_map *a, const struct api_quantity_map *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same =
            str_eq(a->p[i].key, b->p[i].key) && quantity_cmp(&a->p[i].value, &b->p[i].value) == 0;
    return same;
}

// --- Node selector -------------------------------------------------------------------------------

static const struct api_str_entry *runtime_find_entry(const struct api_str_map *map, struct str key)
{
    for (size_t i = 0; i < map->n; i++)
        if (str_eq(map->p[i].key, key))
            return &map->p[i];
    return NULL;
}

// Both are sorted by key, and so is what comes of them.
static int merge_selector(struct op *op, const struct api_object *object, struct api_str_map *have,
                          const struct api_str_map *more)
{
    struct api_str_map all = {arena_array(op->arena, struct api_str_entry, have->n + more->n + 1),
                              0};
    for (size_t i = 0; i < more->n; i++) {
        const struct api_str_entry *own = runtime_find_entry(have, more->p[i].key);
        if (own && !str_eq(own->value, more->p[i].value))
            return fail_forbidden(op, admit_about(op, object),
                                  "conflict: runtimeClass.scheduling.nodeSelector[%.*s] = %.*s; "
                                  "pod.spec.nodeSelector[%.*s] = %.*s",
                                  STR_ARG(own->key), STR_ARG(more->p[i].value), STR_ARG(own->key),
                                  STR_ARG(own->value));
    }
    size_t i = 0, k = 0;
    while (i < have->n || k < more->n) {
        int order = i == have->n ? 1 : k == more->n ? -1 : str_cmp(have->p[i].key, more->p[k].key);
        all.p[all.n++] = order <= 0 ? have->p[i] : more->p[k];
        i += order <= 0;
        k += order >= 0;
    }
    *have = all;
    return 0;
}

// --- Tolerations ---------------------------------------------------------------------------------

static bool runtime_same_toleration(const struct api_toleration *a, const struct api_toleration *b)
{
    return api_equal(&api_toleration_type, a, b);
}

static bool is_redundant(const struct api_toleration_array *kept,
                         const struct api_toleration_array *all, size_t i)
{
    for (size_t k = 0; k < kept->n; k++)
        if (toleration_covers(&kept->p[k], &all->p[i]))
            return true;
    for (size_t k = i + 1; k < all->n; k++)
        if (!runtime_same_toleration(&all->p[i], &all->p[k]) &&
            toleration_covers(&all->p[k], &all->p[i]))
            return true;
    return false;
}

static void merge_tolerations(struct op *op, struct api_toleration_array *have,
                              const struct api_toleration_array *more)
{
    size_t most = have->n + more->n;
    struct api_toleration_array all = {arena_array(op->arena, struct api_toleration, most + 1), 0};
    struct api_toleration_array kept = {arena_array(op->arena, struct api_toleration, most + 1), 0};
    for (size_t i = 0; i < have->n; i++)
        all.p[all.n++] = have->p[i];
    for (size_t i = 0; i < more->n; i++)
        all.p[all.n++] = more->p[i];
    for (size_t i = 0; i < all.n; i++)
        if (!is_redundant(&kept, &all, i))
            kept.p[kept.n++] = all.p[i];
    *have = kept;
}

// --- Together ------------------------------------------------------------------------------------

int runtime_admit_class(struct op *op, const struct api_object *object,
                        const struct api_object *old)
{
    if (object->kind->type != &api_pod_type || old)
        return 0;
    struct api_pod_spec *spec = &((struct api_pod *)object->value)->spec;
    const struct api_runtime_class *class = NULL;
    if (spec->has_runtime_class_name) {
        const struct store_key key = {op->reg->kinds.runtime, STR(""), spec->runtime_class_name};
        const struct object *o = store_head(op->reg->store, &key);
        struct api_object found = {0};
        if (!o)
            return fail_forbidden(op, admit_about(op, object),
                                  "pod rejected: RuntimeClass \"%.*s\" not found",
                                  STR_ARG(spec->runtime_class_name));
        int r = op_decode(op, o, &found);
        if (r < 0)
            return r;
        class = found.value;
    }
    if (!class || !class->overhead) {
        if (spec->overhead.n)
            return runtime_reject_pod(
                op, object, "Pod Overhead set without corresponding RuntimeClass defined Overhead");
    } else if (spec->overhead.n && !same_amounts(&spec->overhead, &class->overhead->pod_fixed)) {
        return runtime_reject_pod(op, object,
                                  "Pod's Overhead doesn't match RuntimeClass's defined Overhead");
    } else {
        spec->overhead = class->overhead->pod_fixed;
    }
    if (!class || !class->scheduling)
        return 0;
    int r = merge_selector(op, object, &spec->node_selector, &class->scheduling->node_selector);
    if (r == 0)
        merge_tolerations(op, &spec->tolerations, &class->scheduling->tolerations);
    return r;
}
