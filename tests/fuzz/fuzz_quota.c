// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a ResourceQuota and an object that it may count, in JSON, separated by a line of three dashes. Counting
// must come to an end, say the same twice, and count an object once.
#include <assert.h>

#include "api/amounts.h"
#include "api/quota.h"
#include "api/validate.h"
#include "codec/json.h"
#include "fuzz.h"

#include "base/banned.h"

static bool read_object(struct arena *arena, struct str text, struct api_object *ret)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object decoded;
    if (json_parse(text, NULL, &doc, NULL) < 0 ||
        api_decode(&doc, doc.root, arena, NULL, &decoded, NULL) < 0)
        return false;
    api_default(decoded.kind->type, decoded.value, NULL, arena);
    return api_convert(&decoded, api_hub_kind(decoded.kind), arena, ret, NULL) == 0;
}

static struct str extended_of(void *ctx, struct str class_name, struct arena *arena)
{
    (void)ctx, (void)arena;
    return class_name.n % 2 ? STR("example.com/gpu") : STR("");
}

static bool has_class(void *ctx, struct str extended)
{
    (void)ctx;
    return extended.n % 2;
}

static const struct api_pod *pod_of(void *ctx, struct str namespace, struct str name,
                                    struct arena *arena)
{
    (void)ctx, (void)namespace, (void)name, (void)arena;
    return NULL;
}

static void check(const struct api_resource_quota *q, const struct api_object *o,
                  struct arena *arena)
{
    struct features features;
    features_init(&features, FEATURES_MINOR);
    const struct quota_world w = {.features = &features,
                                  .extended_of = extended_of,
                                  .has_class = has_class,
                                  .pod_of = pod_of};
    cleanup_sbuf struct sbuf text = {0};
    struct api_quantity_map a = quota_usage(o, &w, arena), b = quota_usage(o, &w, arena);
    struct str names[64];
    struct api_str_array hard = {names, 0};
    assert(amounts_same(&a, &b));
    for (size_t i = 0; i < q->spec.hard.n && hard.n < 64; i++)
        if (quota_counts(q->spec.hard.p[i].key, o->kind, &w))
            names[hard.n++] = q->spec.hard.p[i].key;
    (void)quota_in_scope(q, o);
    if (o->kind->type == &api_pod_type)
        quota_lacks(o->value, &hard, &text);
    amounts_add(&a, &b, arena);
    amounts_most(&b, &a, arena);
    amounts_write(&a, &text);
    size_t ones = 0;
    for (size_t i = 0; i < a.n; i++)
        ones += str_starts(a.p[i].key, STR("count/"));
    assert(ones == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_arena struct arena arena = {0};
    struct str text = str_make((const char *)data, size);
    ptrdiff_t at = str_find(text, STR("\n---\n"));
    struct api_object quota, o;
    if (at < 0 || !read_object(&arena, str_upto(text, (size_t)at), &quota) ||
        quota.kind->type != &api_resource_quota_type ||
        !read_object(&arena, str_from(text, (size_t)at + 5), &o) || !api_object_meta(&o))
        return 0;
    check(quota.value, &o, &arena);
    return 0;
}
