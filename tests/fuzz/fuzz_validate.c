// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a request: a letter for the operation, a letter for the gates, then one or two
// objects in JSON, separated by a line of three dashes. Preparation and validation must come to an
// end, must not disturb the old object, and an object that was accepted must be accepted again as an
// update of itself.
#include <assert.h>
#include <string.h>

#include "api/validate.h"
#include "fuzz.h"

#include "base/banned.h"

struct request {
    struct arena arena;
    struct features features;
    struct api_rules rules;
    enum api_op op;
};

// Decodes, defaults and converts to the hub version; false when it is no object.
static bool read_object(struct request *r, struct str text, struct api_object *ret,
                        const struct api_kind **ret_kind)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object decoded;
    if (json_parse(text, NULL, &doc, NULL) < 0 ||
        api_decode(&doc, doc.root, &r->arena, NULL, &decoded, NULL) < 0)
        return false;
    api_default(decoded.kind->type, decoded.value, NULL, &r->arena);
    *ret_kind = decoded.kind;
    return api_convert(&decoded, api_hub_kind(decoded.kind), &r->arena, ret, NULL) == 0;
}

static size_t judge(struct request *r, enum api_op op, const struct api_object *o,
                    const struct api_object *old, const struct api_kind *kind)
{
    struct causes causes = {.arena = &r->arena};
    api_prepare(op, o, old, &r->rules, &r->arena);
    api_validate(op, o, old, kind, &r->rules, &causes);
    for (size_t i = 0; i < causes.n; i++)
        assert(causes.p[i].message.n > 0);
    return causes.n;
}

static struct api_object copy_of(struct request *r, const struct api_object *o)
{
    struct api_object copy = {o->kind,
                              arena_alloc(&r->arena, o->kind->type->size, _Alignof(max_align_t))};
    api_copy(o->kind->type, o->value, copy.value, &r->arena);
    return copy;
}

// What was accepted as new must do as an update of itself.
static void check_again(struct request *r, const struct api_object *o, const struct api_kind *kind)
{
    struct api_object_meta *meta = api_object_meta(o);
    if (!meta)
        return;
    meta->resource_version = STR("1");
    struct api_object same = copy_of(r, o);
    size_t causes = judge(r, API_UPDATE, &same, o, kind);
    assert(causes == 0);
}

static void take(struct request *r, struct str text)
{
    struct api_object o, old;
    const struct api_kind *kind, *old_kind;
    ptrdiff_t cut = str_find(text, STR("\n---\n"));
    struct str first = cut < 0 ? text : str_upto(text, (size_t)cut);
    if (!read_object(r, first, &o, &kind))
        return;
    if (cut < 0) {
        if (judge(r, API_CREATE, &o, NULL, kind) == 0)
            check_again(r, &o, kind);
        return;
    }
    if (!read_object(r, str_from(text, (size_t)cut + 5), &old, &old_kind) || old.kind != o.kind ||
        !api_object_meta(&o))
        return;
    struct api_object before = copy_of(r, &old);
    (void)judge(r, r->op, &o, &old, kind);
    assert(api_equal(old.kind->type, old.value, before.value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request r = {0};
    if (size < 2)
        return 0;
    r.op = data[0] % 2 ? API_UPDATE : API_STATUS_UPDATE;
    features_init(&r.features, data[1] % 2 ? 37 : 35);
    int rc = features_parse(&r.features, data[1] & 2 ? STR("AllAlpha=true") : STR(""), NULL);
    assert(rc == 0);
    r.rules = (struct api_rules){.features = &r.features, .admin_namespace = true};
    take(&r, str_make((const char *)data + 2, size - 2));
    arena_done(&r.arena);
    return 0;
}
