// SPDX-License-Identifier: Apache-2.0
//
// Selectors: which fields kinds offer, selectors in objects. Texts are compared with upstream's answers
// in patch_rows_test.c.
#include "api/match/field_selector.h"
#include "api/match/label_selector.h"
#include "unit.h"

#include "base/banned.h"

static struct api_object decode(const char *json, struct arena *arena)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o = {0};
    struct err err = {0};
    if (json_parse(str_z(json), NULL, &doc, &err) < 0 ||
        api_decode(&doc, doc.root, arena, NULL, &o, &err) < 0)
        fail_msg("%s", err.msg);
    return o;
}

static const struct api_kind *kind(const char *version, const char *name)
{
    const struct api_kind *k = api_kind_find(str_z(version), str_z(name));
    assert_non_null(k);
    return k;
}

static bool selects(const char *text, const char *json)
{
    cleanup_arena struct arena arena = {0};
    struct field_selector s;
    struct err err = {0};
    struct api_object o = decode(json, &arena);
    if (field_selector_parse(str_z(text), o.kind, NULL, &arena, &s, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return field_selector_matches(&s, o.value);
}

static void refuses(const char *version, const char *name, const char *text, const char *want)
{
    cleanup_arena struct arena arena = {0};
    struct field_selector s;
    struct err err = {0};
    int rc = field_selector_parse(str_z(text), kind(version, name), NULL, &arena, &s, &err);
    assert_int_equal(rc, -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, want);
}

static const char pod[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\"},"
    "\"spec\":{\"nodeName\":\"n1\",\"containers\":[],\"restartPolicy\":\"Never\","
    "\"serviceAccount\":"
    "\"sa\",\"hostNetwork\":true},\"status\":{\"phase\":\"Running\",\"podIP\":\"10.0.0.1\"}}";

static void pods_are_selected_by_their_fields(void **state)
{
    (void)state;
    assert_true(selects("", pod));
    assert_true(selects("metadata.name=p,metadata.namespace=ns", pod));
    assert_true(selects("spec.nodeName=n1,status.phase!=Failed,status.phase!=Succeeded", pod));
    assert_true(selects("spec.host=n1", pod));
    assert_false(selects("spec.nodeName!=n1", pod));
    assert_true(selects("spec.hostNetwork=true", pod));
    assert_false(selects("spec.hostNetwork=false", pod));
    assert_true(selects("spec.serviceAccountName=sa,status.podIP=10.0.0.1", pod));
    assert_true(selects("status.podIPs=", pod));
    assert_false(selects("status.podIPs=10.0.0.1", pod));
    assert_true(selects("status.nominatedNodeName=", pod));
}

static void other_kinds_have_other_fields(void **state)
{
    (void)state;
    const char *slice = "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\","
                        "\"metadata\":{\"name\":\"s\"},\"spec\":{\"driver\":\"d\",\"nodeName\":"
                        "\"n\",\"pool\":{\"name\":\"q\"}}}";
    assert_true(selects("spec.driver=d,spec.nodeName=n,spec.pool.name=q,metadata.name=s", slice));
    assert_false(selects("spec.driver=e", slice));
    assert_true(selects("spec.unschedulable=false", "{\"apiVersion\":\"v1\",\"kind\":\"Node\"}"));
    assert_true(selects("status.successful=3",
                        "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"status\":{\"succeeded\":"
                        "3}}"));
    assert_true(
        selects("type=Opaque", "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"type\":\"Opaque\"}"));
    assert_true(selects("metadata.name=c,metadata.namespace=x",
                        "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\","
                        "\"metadata\":{\"name\":\"c\",\"namespace\":\"x\"}}"));
    assert_true(selects("source=kubelet",
                        "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"reportingComponent\":"
                        "\"kubelet\",\"reportingInstance\":\"\"}"));
}

static void unknown_fields_are_refused_in_upstreams_words(void **state)
{
    (void)state;
    refuses("v1", "Pod", "spec.foo=1", "field label not supported: spec.foo");
    refuses("v1", "Node", "metadata.namespace=x", "field label not supported: metadata.namespace");
    refuses("resource.k8s.io/v1beta2", "ResourceSlice", "spec.foo=1",
            "field label not supported for resource.k8s.io/v1beta2, Kind=ResourceSlice: spec.foo");
    refuses("resource.k8s.io/v1", "ResourceClaim", "spec.foo=1",
            "\"spec.foo\" is not a known field selector: only \"metadata.name\", "
            "\"metadata.namespace\"");
    refuses("batch/v1", "Job", "spec.foo=1", "field label \"spec.foo\" not supported for Job");
    refuses("events.k8s.io/v1", "Event", "source=x", "field label not supported: source");
    refuses("v1", "Pod", "metadata.name",
            "invalid selector: 'metadata.name'; can't understand "
            "'metadata.name'");
}

static void a_selector_of_one_version_matches_objects_of_another(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    struct field_selector s;
    struct str node;
    struct api_object event =
        decode("{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"e\"},"
               "\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"p\"}}",
               &arena);
    assert_int_equal(field_selector_parse(STR("regarding.kind=Pod,regarding.name=p"),
                                          kind("events.k8s.io/v1", "Event"), event.kind->type,
                                          &arena, &s, NULL),
                     0);
    assert_true(field_selector_matches(&s, event.value));
    assert_true(field_selector_exact(&s, STR("involvedObject.name"), &node));
    assert_str(node, "p");
    assert_false(field_selector_exact(&s, STR("reason"), &node));
}

static void selectors_in_objects(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf text = {0};
    struct label_selector s;
    struct err err = {0};
    struct api_str_entry label = {STR("a"), STR("1")};
    struct api_str_map labels = {&label, 1};
    struct str values[] = {STR("y"), STR("x")};
    struct api_label_selector_requirement in = {STR("b"), STR("NotIn"), {values, 2}};
    struct api_label_selector selector = {.match_labels = {&label, 1},
                                          .match_expressions = {&in, 1}};
    assert_int_equal(label_selector_of(NULL, &arena, &s, &err), 0);
    assert_false(label_selector_matches(&s, &labels));
    assert_int_equal(label_selector_of(&(struct api_label_selector){0}, &arena, &s, &err), 0);
    assert_true(label_selector_everything(&s));
    assert_int_equal(label_selector_of(&selector, &arena, &s, &err), 0);
    assert_true(label_selector_matches(&s, &labels));
    label_selector_write(&s, &text);
    assert_str(sbuf_str(&text), "a=1,b notin (x,y)");
    in.operator= STR("Near");
    assert_int_equal(label_selector_of(&selector, &arena, &s, &err), -ERR_INVALID);
    assert_string_equal(err.msg, "\"Near\" is not a valid label selector operator");
    in.operator= STR("In");
    in.values.n = 0;
    assert_int_equal(label_selector_of(&selector, &arena, &s, &err), -ERR_INVALID);
    assert_string_equal(err.msg, "values: Invalid value: null: for 'in', 'notin' operators, values "
                                 "set can't be empty");
}

RUN_TESTS(TEST_CASE(pods_are_selected_by_their_fields), TEST_CASE(other_kinds_have_other_fields),
          TEST_CASE(unknown_fields_are_refused_in_upstreams_words),
          TEST_CASE(a_selector_of_one_version_matches_objects_of_another),
          TEST_CASE(selectors_in_objects))
