// SPDX-License-Identifier: Apache-2.0
//
// Patches: what tests/unit/patch_rows_test.c cannot show, such as limits, bytes and strictness.
#include "api/api.h"
#include "api/patch.h"
#include "unit.h"

#include "base/banned.h"

enum how { JSON_PATCH, MERGE_PATCH, STRATEGIC };

struct outcome {
    int rc;
    struct sbuf out;
    struct err err;
};

static struct outcome patch_strictly(enum how how, const char *object, struct str patch,
                                     struct json_strict *strict)
{
    struct outcome o = {0};
    cleanup_json_doc struct json_doc a = {0}, b = {0};
    struct json_options options = {.max_bytes = (size_t)64 << 20,
                                   .duplicates = JSON_DUPLICATES_KEEP};
    assert_int_equal(json_parse(str_z(object), &options, &a, NULL), 0);
    assert_int_equal(json_parse(patch, &options, &b, NULL), 0);
    if (how == JSON_PATCH)
        o.rc = api_patch_json(&a, &b, strict, &o.out, &o.err);
    else if (how == MERGE_PATCH)
        o.rc = api_patch_merge(&a, &b, strict, &o.out, &o.err);
    else
        o.rc = api_patch_strategic(&api_pod_type, &a, &b, strict, &o.out, &o.err);
    return o;
}

static void becomes(enum how how, const char *object, const char *patch, const char *want)
{
    struct outcome o = patch_strictly(how, object, str_z(patch), NULL);
    if (o.rc < 0)
        fail_msg("%s: %s", patch, o.err.msg);
    assert_str(sbuf_str(&o.out), want);
    sbuf_done(&o.out);
}

static void fails(enum how how, const char *object, const char *patch, int code, const char *want)
{
    struct outcome o = patch_strictly(how, object, str_z(patch), NULL);
    assert_int_equal(o.rc, -code);
    assert_string_equal(o.err.msg, want);
    sbuf_done(&o.out);
}

static void operations_change_the_object(void **state)
{
    (void)state;
    becomes(JSON_PATCH, "{\"a\":[1,2]}", "[{\"op\":\"add\",\"path\":\"/a/1\",\"value\":9}]",
            "{\"a\":[1,9,2]}");
    becomes(JSON_PATCH, "{\"a\":[1,2]}", "[{\"op\":\"add\",\"path\":\"/a/-\",\"value\":9}]",
            "{\"a\":[1,2,9]}");
    becomes(JSON_PATCH, "{\"a/b\":{\"m~n\":1}}", "[{\"op\":\"remove\",\"path\":\"/a~1b/m~0n\"}]",
            "{\"a/b\":{}}");
    becomes(JSON_PATCH, "{\"a\":1,\"b\":{}}",
            "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/b/c\"}]", "{\"b\":{\"c\":1}}");
    becomes(JSON_PATCH, "{\"a\":{\"b\":1}}",
            "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/c\"},"
            "{\"op\":\"replace\",\"path\":\"/c/b\",\"value\":2}]",
            "{\"a\":{\"b\":1},\"c\":{\"b\":2}}");
    becomes(JSON_PATCH, "{\"a\":1}", "[]", "{\"a\":1}");
    becomes(JSON_PATCH, "{\"a\":1}", "[{\"op\":\"replace\",\"path\":\"\",\"value\":{\"b\":2}}]",
            "{\"b\":2}");
}

static void a_failing_operation_says_why(void **state)
{
    (void)state;
    fails(JSON_PATCH, "{\"a\":1}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":2}]", ERR_INVALID,
          "testing value /a failed: test failed");
    fails(JSON_PATCH, "{}", "[{\"op\":\"remove\",\"path\":\"/a\"}]", ERR_INVALID,
          "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value");
    fails(JSON_PATCH, "{\"a\":[]}", "[{\"op\":\"add\",\"path\":\"/a/x\",\"value\":1}]", ERR_INVALID,
          "error in add for path: '/a/x': value was not a proper array index: 'x': strconv.Atoi: "
          "parsing \"x\": invalid syntax");
    fails(JSON_PATCH, "{}", "{}", ERR_BAD_REQUEST,
          "json: cannot unmarshal object into Go value of type jsonpatch.Patch");
    fails(MERGE_PATCH, "{}", "null", ERR_BAD_REQUEST, "Invalid JSON Patch");
}

static void untouched_text_stays_byte_for_byte(void **state)
{
    (void)state;
    const char *object =
        "{\"p\":{\"x\":1.0, \"y\":\"\\u003c\\/\" ,\"z\":1e2},\"l\":[{\"q\":2.50}]}";
    becomes(JSON_PATCH, object, "[{\"op\":\"add\",\"path\":\"/n\",\"value\":{\"v\":3.00}}]",
            "{\"p\":{\"x\":1.0, \"y\":\"\\u003c\\/\" ,\"z\":1e2},\"l\":[{\"q\":2.50}],\"n\":{\"v\":"
            "3.00}}");
    becomes(MERGE_PATCH, object, "{\"l\":null}",
            "{\"p\":{\"x\":1.0, \"y\":\"\\u003c\\/\" ,\"z\":1e2}}");
    becomes(STRATEGIC, object, "{\"l\":null}",
            "{\"p\":{\"x\":1.0, \"y\":\"\\u003c\\/\" ,\"z\":1e2}}");
}

static void copies_are_bounded(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf patch = {0};
    sbuf_addc(&patch, '[');
    for (int i = 0; i < 30; i++)
        sbuf_addf(&patch, "%s{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a/%d\"}", i ? "," : "",
                  i);
    sbuf_addc(&patch, ']');
    struct outcome o =
        patch_strictly(JSON_PATCH, "{\"a\":{\"b\":\"0123456789\"}}", sbuf_str(&patch), NULL);
    assert_int_equal(o.rc, -ERR_INVALID);
    assert_true(str_starts(str_z(o.err.msg), STR("Unable to complete the copy, the accumulated "
                                                 "size increase of copy is ")));
    sbuf_done(&o.out);
}

static void operations_are_bounded(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf patch = {0};
    sbuf_addc(&patch, '[');
    for (int i = 0; i <= API_PATCH_OPERATIONS_MAX; i++)
        sbuf_addf(&patch, "%s{\"op\":\"test\",\"path\":\"/a\",\"value\":1}", i ? "," : "");
    sbuf_addc(&patch, ']');
    struct outcome o = patch_strictly(JSON_PATCH, "{\"a\":1}", sbuf_str(&patch), NULL);
    assert_int_equal(o.rc, -ERR_TOO_LARGE);
    assert_string_equal(o.err.msg, "Request entity too large: The allowed maximum operations in a "
                                   "JSON patch is 10000, got 10001");
    sbuf_done(&o.out);
}

// A value that is moved into a copy of itself again and again nests deeper each time.
static void nesting_is_bounded(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf patch = {0};
    sbuf_addc(&patch, '[');
    for (int i = 0; i < 600; i++)
        sbuf_addf(&patch,
                  "%s{\"op\":\"add\",\"path\":\"/b\",\"value\":{}},"
                  "{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/b/a\"},"
                  "{\"op\":\"move\",\"from\":\"/b\",\"path\":\"/a\"}",
                  i ? "," : "");
    sbuf_addc(&patch, ']');
    struct outcome o = patch_strictly(JSON_PATCH, "{\"a\":1}", sbuf_str(&patch), NULL);
    assert_int_equal(o.rc, -ERR_INVALID);
    assert_string_equal(o.err.msg, "the patched object nests deeper than 256 levels");
    sbuf_done(&o.out);
}

static void work_on_long_lists_is_bounded(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf patch = {0};
    sbuf_addz(&patch, "[{\"op\":\"add\",\"path\":\"/a\",\"value\":[0");
    for (int i = 0; i < 100000; i++)
        sbuf_addz(&patch, ",0");
    sbuf_addz(&patch, "]}");
    for (int i = 0; i < 5000; i++)
        sbuf_addz(&patch, ",{\"op\":\"add\",\"path\":\"/a/0\",\"value\":1}");
    sbuf_addc(&patch, ']');
    struct outcome o = patch_strictly(JSON_PATCH, "{}", sbuf_str(&patch), NULL);
    assert_int_equal(o.rc, -ERR_TOO_LARGE);
    sbuf_done(&o.out);
}

static void merge_patch_is_rfc_7386(void **state)
{
    (void)state;
    becomes(MERGE_PATCH, "{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}");
    becomes(MERGE_PATCH, "{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}");
    becomes(MERGE_PATCH, "{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}");
    becomes(MERGE_PATCH, "{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}",
            "{\"a\":{\"b\":\"d\"}}");
    becomes(MERGE_PATCH, "{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}");
}

static const char pod[] =
    "{\"metadata\":{\"name\":\"p\",\"finalizers\":[\"x\",\"y\"]},\"spec\":{\"containers\":["
    "{\"name\":\"a\",\"image\":\"1\"},{\"name\":\"b\",\"image\":\"2\"}]}}";

static void lists_merge_by_key(void **state)
{
    (void)state;
    becomes(
        STRATEGIC, pod,
        "{\"spec\":{\"containers\":[{\"name\":\"b\",\"image\":\"3\"},{\"name\":\"c\"}]}}",
        "{\"metadata\":{\"name\":\"p\",\"finalizers\":[\"x\",\"y\"]},\"spec\":{\"containers\":["
        "{\"name\":\"a\",\"image\":\"1\"},{\"name\":\"b\",\"image\":\"3\"},{\"name\":\"c\"}]}}");
    becomes(STRATEGIC, pod, "{\"spec\":{\"containers\":[{\"name\":\"a\",\"$patch\":\"delete\"}]}}",
            "{\"metadata\":{\"name\":\"p\",\"finalizers\":[\"x\",\"y\"]},\"spec\":{\"containers\":["
            "{\"name\":\"b\",\"image\":\"2\"}]}}");
    becomes(STRATEGIC, pod,
            "{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"x\"]},\"spec\":{"
            "\"$setElementOrder/containers\":[{\"name\":\"b\"},{\"name\":\"a\"}]}}",
            "{\"metadata\":{\"name\":\"p\",\"finalizers\":[\"y\"]},\"spec\":{\"containers\":["
            "{\"name\":\"b\",\"image\":\"2\"},{\"name\":\"a\",\"image\":\"1\"}]}}");
    becomes(STRATEGIC, pod,
            "{\"metadata\":{\"finalizers\":[\"z\"]},\"spec\":{\"$patch\":\"replace\"}}",
            "{\"metadata\":{\"name\":\"p\",\"finalizers\":[\"z\",\"x\",\"y\"]},\"spec\":{}}");
}

static void retain_keys_drop_the_others(void **state)
{
    (void)state;
    becomes(STRATEGIC,
            "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"emptyDir\":{},\"x\":1},{\"name\":\"w\"}]}}",
            "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/\"},"
            "\"$retainKeys\":[\"name\",\"hostPath\"]}]}}",
            "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/\"}},{\"name\":"
            "\"w\"}]}}");
    fails(STRATEGIC, pod, "{\"spec\":{\"$retainKeys\":[],\"hostname\":\"h\"}}", ERR_BAD_REQUEST,
          "invalid patch format of retainKeys");
}

static void strategic_patches_fail_as_upstream(void **state)
{
    (void)state;
    fails(STRATEGIC, pod, "{\"spec\":{\"containers\":[{\"image\":\"x\"}]}}", ERR_INTERNAL,
          "map: map[image:x] does not contain declared merge key: name");
    fails(STRATEGIC, pod, "{\"metadata\":{\"finalizers\":[[1]]}}", ERR_INTERNAL,
          "list element types are not identical: [[x y] [[1]]]");
    fails(STRATEGIC, pod, "{\"spec\":{\"$patch\":\"x\"}}", ERR_INTERNAL,
          "unknown patch type: x in map: map[$patch:x]");
    fails(STRATEGIC, pod, "[]", ERR_BAD_REQUEST,
          "json: cannot unmarshal array into Go value of type map[string]interface {}");
    cleanup_sbuf struct sbuf out = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    assert_int_equal(json_parse(STR("{}"), NULL, &doc, NULL), 0);
    assert_int_equal(api_patch_strategic(NULL, &doc, &doc, NULL, &out, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "strategic merge patch format is not supported");
}

static void strictness_reports_what_is_wrong_with_a_patch(void **state)
{
    (void)state;
    cleanup_json_strict struct json_strict strict = {0};
    cleanup_sbuf struct sbuf text = {0};
    struct outcome o = patch_strictly(
        JSON_PATCH, "{}",
        STR("[{\"op\":\"add\",\"path\":\"/a\",\"value\":1,\"foo\":2,\"op\":\"add\"}]"), &strict);
    assert_int_equal(o.rc, 0);
    sbuf_done(&o.out);
    json_strict_text(&strict, &text);
    assert_str(sbuf_str(&text), "json patch unknown field \"[0].foo\", json patch duplicate field "
                                "\"[0].op\"");
    o = patch_strictly(JSON_PATCH, "{}", STR("[{\"op\":1}]"), &strict);
    assert_int_equal(o.rc, -ERR_BAD_REQUEST);
    sbuf_done(&o.out);
    cleanup_json_strict struct json_strict merge = {0};
    o = patch_strictly(MERGE_PATCH, "{}", STR("{\"a\":{\"b\":1,\"b\":2}}"), &merge);
    assert_int_equal(o.rc, 0);
    assert_str(sbuf_str(&o.out), "{\"a\":{\"b\":2}}");
    assert_int_equal(merge.reports.n, 1);
    assert_str(merge.reports.p[0], "duplicate field \"a.b\"");
    sbuf_done(&o.out);
}

// Objects with many members have an index; it must know of members that come and go.
static void large_objects_are_found_through(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf object = {0}, patch = {0}, want = {0};
    sbuf_addz(&object, "{\"d\":{");
    sbuf_addz(&patch, "[");
    for (int i = 0; i < 2000; i++) {
        sbuf_addf(&object, "%s\"k%d\":%d", i ? "," : "", i, i);
        sbuf_addf(&patch, "%s{\"op\":\"remove\",\"path\":\"/d/k%d\"}", i ? "," : "", i);
        if (i % 2)
            sbuf_addf(&patch,
                      ",{\"op\":\"add\",\"path\":\"/d/k%d\",\"value\":0},"
                      "{\"op\":\"remove\",\"path\":\"/d/k%d\"}",
                      i + 5000, i + 5000);
    }
    sbuf_addz(&object, "}}");
    sbuf_addz(&patch, ",{\"op\":\"add\",\"path\":\"/d/k7\",\"value\":true}]");
    struct outcome o = patch_strictly(JSON_PATCH, object.p, sbuf_str(&patch), NULL);
    assert_int_equal(o.rc, 0);
    assert_str(sbuf_str(&o.out), "{\"d\":{\"k7\":true}}");
    sbuf_done(&o.out);
}

RUN_TESTS(TEST_CASE(operations_change_the_object), TEST_CASE(a_failing_operation_says_why),
          TEST_CASE(untouched_text_stays_byte_for_byte), TEST_CASE(copies_are_bounded),
          TEST_CASE(operations_are_bounded), TEST_CASE(nesting_is_bounded),
          TEST_CASE(work_on_long_lists_is_bounded), TEST_CASE(merge_patch_is_rfc_7386),
          TEST_CASE(lists_merge_by_key), TEST_CASE(retain_keys_drop_the_others),
          TEST_CASE(strategic_patches_fail_as_upstream),
          TEST_CASE(strictness_reports_what_is_wrong_with_a_patch),
          TEST_CASE(large_objects_are_found_through))
