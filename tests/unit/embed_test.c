// SPDX-License-Identifier: Apache-2.0
//
// libdray's interface: good texts, texts that are wrong, and texts that are none.
#include <stdio.h>
#include <string.h>

#include "dray/alloc.h"
#include "dray/cel.h"
#include "dray/validate.h"
#include "unit.h"

#include "base/banned.h"

#define SLICE                                                                                    \
    "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: " \
    "d.example.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1}, "      \
    "devices: [{name: a, attributes: {size: {int: 1}}}, {name: b, attributes: {size: {int: "     \
    "2}}}]}}\n---\n"
#define NODE "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n"
#define CLASS                                                                                     \
    "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: c}, spec: {selectors: " \
    "[{cel: {expression: 'device.driver == \"d.example.com\"'}}]}}\n---\n"
#define CLUSTER NODE CLASS SLICE

// What is no manifest, or no object.
static const char *const broken[] = {
    "{",    "a: [",       "kind: ResourceSlice\n",
    "\x01", "- 1\n- 2\n", "{\"kind\": \"ResourceSlice\", \"apiVersion\": 3}"};

// --- Validation ----------------------------------------------------------------------------------

struct seen {
    size_t n;
    struct {
        size_t line;
        char field[64], message[160];
    } first;
};

static void note(void *arg, const struct dray_problem *p)
{
    struct seen *s = arg;
    if (s->n++ > 0)
        return;
    s->first.line = p->line;
    (void)snprintf(s->first.field, sizeof(s->first.field), "%s", p->field);
    (void)snprintf(s->first.message, sizeof(s->first.message), "%s", p->message);
}

static int validate(const char *text, struct seen *s, struct dray_error *err)
{
    struct dray_validator *v = NULL;
    *s = (struct seen){0};
    assert_int_equal(dray_validator_new(NULL, &v, err), 0);
    int r = dray_validate(v, text, strlen(text), note, s, err);
    dray_validator_free(v);
    return r;
}

static void problems_come_with_field_and_line(void **state)
{
    (void)state;
    struct seen s;
    struct dray_error err;
    assert_int_equal(validate(CLUSTER, &s, &err), 0);
    assert_int_equal(s.n, 0);
    assert_int_equal(validate("", &s, &err), 0);
    assert_int_equal(
        validate("# a comment\napiVersion: v1\nkind: Node\nmetadata:\n  name: A_B\n", &s, &err), 1);
    assert_int_equal(s.first.line, 5);
    assert_string_equal(s.first.field, "metadata.name");
    assert_int_equal(
        validate("kind: List\nitems: [{apiVersion: v1, kind: Node, metadata: {name: n1}, "
                 "spec: {foo: 1}}]",
                 &s, &err),
        1);
    assert_string_equal(s.first.field, "spec.foo");
    assert_string_equal(s.first.message, "unknown field");
}

static void broken_texts_are_errors_or_problems(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct seen s;
        struct dray_error err = {0};
        int r = validate(broken[i], &s, &err);
        assert_true((r == 1 && s.n > 0) || (r == -1 && err.message[0] != '\0'));
        assert_int_not_equal(validate(broken[i], &s, NULL), 0);
    }
}

static void releases_and_gates_are_checked(void **state)
{
    (void)state;
    struct dray_validator *v = NULL;
    struct dray_error err;
    assert_int_equal(
        dray_validator_new(&(struct dray_validate_options){.release = "1.34"}, &v, &err), 0);
    dray_validator_free(v);
    assert_int_equal(
        dray_validator_new(&(struct dray_validate_options){.release = "next"}, &v, &err), -1);
    assert_non_null(strstr(err.message, "release"));
    assert_int_equal(dray_validator_new(&(struct dray_validate_options){.feature_gates = "No=true"},
                                        &v, &err),
                     -1);
    assert_non_null(strstr(err.message, "feature gates"));
}

// --- CEL -----------------------------------------------------------------------------------------

static void selectors_match_devices(void **state)
{
    (void)state;
    struct dray_cel *p = NULL;
    struct dray_devices *d = NULL;
    struct dray_error err;
    const char *text = CLUSTER;
    assert_int_equal(
        dray_cel_compile("device.attributes['d.example.com'].size > 1", NULL, &p, &err), 0);
    assert_string_equal(dray_cel_info(p).type, "bool");
    assert_true(dray_cel_info(p).min_cost <= dray_cel_info(p).max_cost);
    assert_int_equal(dray_devices_read(text, strlen(text), &d, &err), 0);
    assert_int_equal(dray_devices_len(d), 2);
    assert_string_equal(dray_devices_name(d, 1), "d.example.com/n1/b");
    for (size_t i = 0; i < 2; i++) {
        struct dray_cel_result r;
        dray_cel_eval(p, d, i, &r);
        assert_false(r.failed);
        assert_int_equal(r.match, i == 1);
        assert_string_equal(r.text, i == 1 ? "true" : "false");
        dray_cel_result_done(&r);
    }
    dray_cel_free(p);
    assert_int_equal(dray_cel_compile("1 + 1", NULL, &p, &err), -1);
    assert_int_equal(dray_cel_compile("device.attributes['d.example.com'].none",
                                      &(struct dray_cel_options){.any_type = true}, &p, &err),
                     0);
    struct dray_cel_result r;
    dray_cel_eval(p, d, 0, &r);
    assert_true(r.failed && !r.match);
    assert_non_null(strstr(r.text, "no such key"));
    dray_cel_result_done(&r);
    dray_cel_free(p);
    dray_devices_free(d);
    assert_int_equal(dray_cel_compile("device.", NULL, &p, &err), -1);
    assert_non_null(strstr(err.message, "Syntax error"));
}

static void broken_texts_have_no_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct dray_devices *d = NULL;
        struct dray_error err = {0};
        if (dray_devices_read(broken[i], strlen(broken[i]), &d, &err) == 0)
            assert_int_equal(dray_devices_len(d), 0);
        else
            assert_true(err.message[0] != '\0');
        dray_devices_free(d);
    }
}

// --- Allocation ----------------------------------------------------------------------------------

static const char claim[] =
    "{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, metadata: {name: x, namespace: "
    "default}, spec: {devices: {requests: [{name: r, deviceClassName: c, count: 2}]}}}";
static const char three[] =
    "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: x, namespace: "
    "default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, count: 3}}]}}}";
static const char classless[] =
    "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: x, namespace: "
    "default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: none}}]}}}";

static void claims_get_devices_or_reasons(void **state)
{
    (void)state;
    struct dray_cluster *c = NULL;
    struct dray_answer a;
    struct dray_error err;
    const char *text = CLUSTER;
    assert_int_equal(dray_cluster_read(text, strlen(text), NULL, &c, &err), 0);
    assert_int_equal(dray_allocate(c, NULL, claim, strlen(claim), &a, &err), 0);
    assert_int_equal(a.verdict, DRAY_ALLOCATED);
    assert_string_equal(a.node, "n1");
    assert_non_null(strstr(a.text, "\"device\":\"b\""));
    dray_answer_done(&a);
    assert_int_equal(dray_allocate(c, "n1", three, strlen(three), &a, &err), 0);
    assert_int_equal(a.verdict, DRAY_UNSATISFIABLE);
    assert_true(strlen(a.text) > 0 && strlen(a.node) == 0);
    dray_answer_done(&a);
    assert_int_equal(dray_allocate(c, NULL, classless, strlen(classless), &a, &err), 0);
    assert_int_equal(a.verdict, DRAY_FAILED);
    assert_non_null(strstr(a.text, "none"));
    dray_answer_done(&a);
    assert_int_equal(dray_allocate(c, "elsewhere", claim, strlen(claim), &a, &err), -1);
    assert_string_equal(err.message, "the cluster has no node \"elsewhere\"");
    assert_int_equal(dray_allocate(c, NULL, NODE, strlen(NODE), &a, &err), -1);
    assert_string_equal(err.message, "the text has no ResourceClaim");
    dray_cluster_free(c);
}

static void allocated_claims_count_as_in_use(void **state)
{
    (void)state;
    static const char text[] = CLUSTER
        "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: held, namespace: "
        "default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}, "
        "status: {allocation: {devices: {results: [{request: r, driver: d.example.com, pool: n1, "
        "device: a}]}}}}";
    struct dray_cluster *c = NULL;
    struct dray_answer a;
    struct dray_error err;
    assert_int_equal(dray_cluster_read(text, strlen(text),
                                       &(struct dray_cluster_options){.policy = DRAY_FIRST}, &c,
                                       &err),
                     0);
    assert_int_equal(dray_allocate(c, NULL, claim, strlen(claim), &a, &err), 0);
    assert_int_equal(a.verdict, DRAY_UNSATISFIABLE);
    assert_non_null(strstr(a.text, "default/held"));
    dray_answer_done(&a);
    dray_cluster_free(c);
}

static void broken_texts_make_no_cluster(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct dray_cluster *c = NULL;
        struct dray_answer a;
        struct dray_error err = {0};
        if (dray_cluster_read(broken[i], strlen(broken[i]), NULL, &c, &err) == 0)
            assert_int_equal(dray_allocate(c, NULL, claim, strlen(claim), &a, &err), -1);
        assert_true(err.message[0] != '\0');
        dray_cluster_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(problems_come_with_field_and_line),
        cmocka_unit_test(broken_texts_are_errors_or_problems),
        cmocka_unit_test(releases_and_gates_are_checked),
        cmocka_unit_test(selectors_match_devices),
        cmocka_unit_test(broken_texts_have_no_devices),
        cmocka_unit_test(claims_get_devices_or_reasons),
        cmocka_unit_test(allocated_claims_count_as_in_use),
        cmocka_unit_test(broken_texts_make_no_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
