// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as an object, a line end and a patch of each kind. What comes out must be JSON again; the
// empty patch changes nothing; and a merge patch says the same as the JSON patch with its members as
// operations.
#include <assert.h>
#include <string.h>

#include "api/api.h"
#include "api/patch.h"
#include "fuzz.h"

#include "base/banned.h"

static const struct json_options options = {.max_bytes = (size_t)64 << 20,
                                            .duplicates = JSON_DUPLICATES_KEEP};
static const struct json_options last = {.max_bytes = (size_t)64 << 20,
                                         .duplicates = JSON_DUPLICATES_LAST};

// same compares two texts; those that nest too deep for us are not compared.
static void same(struct str a, struct str b)
{
    cleanup_json_doc struct json_doc x = {0}, y = {0};
    bool deep = json_parse(a, &last, &x, NULL) < 0;
    deep |= json_parse(b, &last, &y, NULL) < 0;
    assert(deep || json_equal(x.root, y.root));
}

static void check_result(int rc, const struct sbuf *out)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    if (rc < 0)
        return;
    rc = json_parse(sbuf_str(out), &options, &doc, &err);
    // Two values that nest nearly too deep may do so together.
    assert(rc == 0 || strstr(err.msg, "deep"));
}

static void check_empty(const struct json_doc *object, struct str text)
{
    cleanup_json_doc struct json_doc list = {0}, map = {0};
    cleanup_sbuf struct sbuf a = {0}, b = {0}, c = {0};
    int rc = json_parse(STR("[]"), NULL, &list, NULL);
    rc |= json_parse(STR("{}"), NULL, &map, NULL);
    rc |= api_patch_json(object, &list, NULL, &a, NULL);
    rc |= api_patch_merge(object, &map, NULL, &b, NULL);
    rc |= api_patch_strategic(&api_pod_type, object, &map, NULL, &c, NULL);
    assert(rc == 0);
    same(sbuf_str(&a), text);
    same(sbuf_str(&b), text);
    same(sbuf_str(&c), text);
}

// add_operation writes the operation that does what a member of a merge patch does. False when there is
// none: objects merge, nulls inside of lists are not kept alike.
static bool add_operation(const struct json_doc *object, const yyjson_val *key,
                          const yyjson_val *val, struct sbuf *out)
{
    if (json_is_container(val))
        return false;
    if (json_is_null(val) && !json_get(object->root, json_str(key)))
        return true;
    cleanup_sbuf struct sbuf path = {0};
    struct json_writer w = {.out = out};
    sbuf_addc(&path, '/');
    for (size_t i = 0; i < json_len(key); i++) {
        char c = json_str(key).p[i];
        if (c == '~' || c == '/')
            sbuf_addz(&path, c == '~' ? "~0" : "~1");
        else
            sbuf_addc(&path, c);
    }
    sbuf_addz(out, out->n > 1 ? ",{\"op\":" : "{\"op\":");
    sbuf_addz(out, json_is_null(val) ? "\"remove\",\"path\":" : "\"add\",\"path\":");
    json_write_str(&w, sbuf_str(&path));
    if (!json_is_null(val)) {
        sbuf_addz(out, ",\"value\":");
        w = (struct json_writer){.out = out};
        json_write_value(&w, val);
    }
    sbuf_addc(out, '}');
    return true;
}

static void check_agreement(const struct json_doc *object, const struct json_doc *patch,
                            struct str merged)
{
    cleanup_sbuf struct sbuf text = {0}, out = {0};
    cleanup_json_doc struct json_doc operations = {0};
    if (!json_is_object(patch->root) || !json_is_object(object->root) ||
        json_len(patch->root) > API_PATCH_OPERATIONS_MAX)
        return;
    sbuf_addc(&text, '[');
    json_obj_foreach(patch->root, key, val)
        if (!add_operation(object, key, val, &text))
            return;
    sbuf_addc(&text, ']');
    int rc = json_parse(sbuf_str(&text), &last, &operations, NULL);
    assert(rc == 0);
    rc = api_patch_json(object, &operations, NULL, &out, NULL);
    assert(rc == 0);
    same(sbuf_str(&out), merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str object_text, patch_text;
    cleanup_json_doc struct json_doc object = {0}, patch = {0}, clean = {0};
    cleanup_json_strict struct json_strict strict = {0};
    struct err err = {0};
    if (!str_cut(str_make((const char *)data, size), '\n', &object_text, &patch_text) ||
        json_parse(object_text, &options, &object, NULL) < 0 ||
        json_parse(patch_text, &options, &patch, NULL) < 0 || !json_is_object(object.root))
        return 0;
    cleanup_sbuf struct sbuf a = {0}, b = {0}, c = {0}, d = {0};
    check_result(api_patch_json(&object, &patch, &strict, &a, &err), &a);
    int rc = api_patch_merge(&object, &patch, NULL, &b, &err);
    check_result(rc, &b);
    check_result(api_patch_strategic(&api_pod_type, &object, &patch, NULL, &c, &err), &c);
    check_result(api_patch_strategic(&api_resource_claim_type, &object, &patch, NULL, &d, &err),
                 &d);
    check_empty(&object, object_text);
    if (rc == 0 && json_parse(patch_text, &last, &clean, NULL) == 0)
        check_agreement(&object, &clean, sbuf_str(&b));
    return 0;
}
