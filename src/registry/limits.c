// SPDX-License-Identifier: Apache-2.0
//
// LimitRanges: what containers get that ask for nothing, and how much or little containers, pods
// and volume claims may ask for.
#include "api/limits.h"

#include "api/amounts.h"
#include "registry/stage_int.h"

#include "base/banned.h"

#define ANNOTATION "kubernetes.io/limit-ranger"

// Calls fn for each LimitRange of the request's namespace until it refuses.
static int each_range(struct op *op,
                      int (*fn)(struct op *op, const struct api_object *object,
                                const struct api_limit_range *range),
                      const struct api_object *object)
{
    struct registry *reg = op->reg;
    struct store_walk walk = {
        .kind = reg->kinds.limits, .one_namespace = true, .namespace = op->request->namespace};
    int r = 0;
    if (store_count(reg->store, reg->kinds.limits, op->request->namespace) == 0 ||
        store_walk_start(reg->store, &walk, NULL) < 0)
        return 0;
    for (const struct object *o; r == 0 && (o = store_walk_next(reg->store, &walk));) {
        struct api_object range = {0};
        r = op_decode(op, o, &range);
        if (r == 0)
            r = fn(op, object, range.value);
    }
    store_walk_done(&walk);
    return r;
}

static bool limits_apply_to(const struct op *op, const struct api_object *object,
                            const struct api_object *old)
{
    struct str sub = op->request->subresource;
    if (object->kind->type == &api_pod_type)
        return old ? str_eqz(sub, "resize") : !sub.n;
    return object->kind->type == &api_persistent_volume_claim_type && !sub.n;
}

// --- Defaults ------------------------------------------------------------------------------------

static int fill_pod(struct op *op, const struct api_object *object,
                    const struct api_limit_range *range)
{
    struct api_pod *pod = object->value;
    cleanup_sbuf struct sbuf summary = {0};
    limits_default_pod(pod, range, &summary, op->arena);
    if (summary.n)
        create_annotate(op, &pod->metadata, STR(ANNOTATION),
                        arena_strf(op->arena, "LimitRanger plugin set: %.*s",
                                   STR_ARG(sbuf_str(&summary))));
    return 0;
}

int limits_admit(struct op *op, const struct api_object *object, const struct api_object *old)
{
    if (object->kind->type != &api_pod_type || old || op->request->subresource.n)
        return 0;
    return each_range(op, fill_pod, object);
}

// --- Bounds --------------------------------------------------------------------------------------

// The requested amounts, and what is wrong with them.
struct asked {
    struct arena *arena;
    struct str type; // as in the LimitRange
    const struct api_quantity_map *requests, *limits;
    struct VEC(struct str) wrong;
};

static struct str limits_text_of(const struct asked *a, const struct quantity *q)
{
    cleanup_sbuf struct sbuf b = {0};
    quantity_write(q, &b);
    return arena_str(a->arena, sbuf_str(&b));
}

static void limits_add_reason(struct asked *a, struct str text)
{
    for (size_t i = 0; i < a->wrong.n; i++)
        if (str_eq(a->wrong.p[i], text))
            return;
    vec_push_arena(a->arena, &a->wrong, text);
}

// side: minimum or maximum; what: request or limit; q is what there is, NULL: none.
static void limits_report_bound(struct asked *a, const char *side,
                                const struct api_quantity_entry *bound, const char *what,
                                const struct quantity *q)
{
    struct str enforced = limits_text_of(a, &bound->value);
    struct str text = arena_strf(a->arena, "%s %.*s usage per %.*s is %.*s", side,
                                 STR_ARG(bound->key), STR_ARG(a->type), STR_ARG(enforced));
    if (q)
        text = arena_strf(a->arena, "%.*s, but %s is %.*s", STR_ARG(text), what,
                          STR_ARG(limits_text_of(a, q)));
    else
        text = arena_strf(a->arena, "%.*s.  No %s is specified", STR_ARG(text), what);
    limits_add_reason(a, text);
}

static void check_min(struct asked *a, const struct api_quantity_entry *bound)
{
    const struct quantity *request = amounts_get(a->requests, bound->key);
    const struct quantity *limit = amounts_get(a->limits, bound->key);
    if (!request || quantity_cmp(request, &bound->value) < 0)
        limits_report_bound(a, "minimum", bound, "request", request);
    else if (limit && quantity_cmp(limit, &bound->value) < 0)
        limits_report_bound(a, "minimum", bound, "limit", limit);
}

static void check_max(struct asked *a, const struct api_quantity_entry *bound, bool requests_only)
{
    const struct quantity *request = amounts_get(a->requests, bound->key);
    const struct quantity *limit = amounts_get(a->limits, bound->key);
    if (!requests_only && (!limit || quantity_cmp(limit, &bound->value) > 0))
        limits_report_bound(a, "maximum", bound, "limit", limit);
    else if (requests_only ? !request || quantity_cmp(request, &bound->value) > 0
                           : request && quantity_cmp(request, &bound->value) > 0)
        limits_report_bound(a, "maximum", bound, "request", request);
}

static void check_ratio(struct asked *a, const struct api_quantity_entry *bound)
{
    const struct quantity *request = amounts_get(a->requests, bound->key);
    const struct quantity *limit = amounts_get(a->limits, bound->key);
    struct str head = arena_strf(a->arena, "%.*s max limit to request ratio per %.*s is %.*s",
                                 STR_ARG(bound->key), STR_ARG(a->type),
                                 STR_ARG(limits_text_of(a, &bound->value)));
    const char *lacking = !request || quantity_sign(request) == 0 ? "request"
                          : !limit || quantity_sign(limit) == 0   ? "limit"
                                                                  : NULL;
    if (lacking) {
        limits_add_reason(a, arena_strf(a->arena, "%.*s, but no %s is specified or %s is 0",
                                        STR_ARG(head), lacking, lacking));
        return;
    }
    double ratio = (double)quantity_milli(limit) / (double)quantity_milli(request);
    if (ratio * 1000 > (double)quantity_milli(&bound->value))
        limits_add_reason(a, arena_strf(a->arena, "%.*s, but provided ratio is %f", STR_ARG(head),
                                        ratio));
}

static void check_item(struct asked *a, const struct api_limit_range_item *item, bool requests_only)
{
    a->type = item->type;
    for (size_t i = 0; i < item->min.n; i++)
        check_min(a, &item->min.p[i]);
    for (size_t i = 0; i < item->max.n; i++)
        check_max(a, &item->max.p[i], requests_only);
    for (size_t i = 0; !requests_only && i < item->max_limit_request_ratio.n; i++)
        check_ratio(a, &item->max_limit_request_ratio.p[i]);
}

static void limits_check_containers(struct asked *a, const struct api_container_array *list,
                                    const struct api_limit_range_item *item)
{
    for (size_t i = 0; i < list->n; i++) {
        a->requests = &list->p[i].resources.requests;
        a->limits = &list->p[i].resources.limits;
        check_item(a, item, false);
    }
}

static void limits_check_pod(struct asked *a, const struct api_pod *pod,
                             const struct api_limit_range_item *item)
{
    if (str_eqz(item->type, "Container")) {
        limits_check_containers(a, &pod->spec.containers, item);
        limits_check_containers(a, &pod->spec.init_containers, item);
    } else if (str_eqz(item->type, "Pod")) {
        struct api_quantity_map requests = pod_amounts(pod, false, a->arena);
        struct api_quantity_map limits = pod_amounts(pod, true, a->arena);
        a->requests = &requests;
        a->limits = &limits;
        check_item(a, item, false);
    }
}

static int limits_check_range(struct op *op, const struct api_object *object,
                              const struct api_limit_range *range)
{
    static const struct api_quantity_map none;
    struct asked a = {.arena = op->arena, .limits = &none};
    for (size_t i = 0; i < range->spec.limits.n; i++) {
        const struct api_limit_range_item *item = &range->spec.limits.p[i];
        if (object->kind->type == &api_pod_type) {
            limits_check_pod(&a, object->value, item);
        } else if (str_eqz(item->type, "PersistentVolumeClaim")) {
            const struct api_persistent_volume_claim *c = object->value;
            a.requests = &c->spec.resources.requests;
            check_item(&a, item, true);
        }
    }
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < a.wrong.n; i++)
        sbuf_addf(&text, "%s%.*s", i ? ", " : a.wrong.n > 1 ? "[" : "", STR_ARG(a.wrong.p[i]));
    if (a.wrong.n > 1)
        sbuf_addc(&text, ']');
    return a.wrong.n ? fail_forbidden(op, admit_about(op, object), "%.*s", STR_ARG(sbuf_str(&text)))
                     : 0;
}

int limits_check(struct op *op, const struct api_object *object, const struct api_object *old)
{
    return limits_apply_to(op, object, old) ? each_range(op, limits_check_range, object) : 0;
}
