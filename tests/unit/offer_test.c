// SPDX-License-Identifier: Apache-2.0
//
// What a server says of itself, from its answers; and frames of a watch in protobuf, however they arrive.
#include "client/offer.h"
#include "client/remote/frames.h"
#include "unit.h"

#include "base/banned.h"

#define RESOURCES(names) "{\"kind\":\"APIResourceList\",\"resources\":[" names "]}"
#define ONE(name)        "{\"name\":\"" name "\"}"

static struct offer modern(void)
{
    struct offer o = {0};
    struct err err = {0};
    assert_int_equal(offer_read_version(&o, STR("{\"major\":\"1\",\"minor\":\"37\"}"), &err), 0);
    assert_int_equal(offer_read_resources(&o, STR("resource.k8s.io/v1"),
                                          STR(RESOURCES(ONE("resourceclaims"))), &err),
                     0);
    return o;
}

static void a_release_may_be_an_emulated_one(void **state)
{
    (void)state;
    struct offer o = {0};
    struct err err = {0};
    assert_int_equal(
        offer_read_version(&o, STR("{\"minor\":\"37+\",\"emulationMinor\":\"34\"}"), &err), 0);
    assert_int_equal(o.minor, 34);
    assert_int_equal(offer_read_version(&o, STR("{\"minor\":\"36+\"}"), &err), 0);
    assert_int_equal(o.minor, 36);
    assert_int_equal(offer_read_version(&o, STR("{\"minor\":\"new\"}"), &err), -ERR_BAD_REQUEST);
    assert_int_equal(offer_read_version(&o, STR("no JSON"), &err), -ERR_BAD_REQUEST);
}

static void gates_are_what_the_server_says_or_its_defaults(void **state)
{
    (void)state;
    struct offer o = modern();
    struct features f;
    struct err err = {0};
    assert_int_equal(offer_features(&o, &f, &err), 0);
    assert_false(o.gates_known);
    bool before = features_on(&f, FEATURE_DRA_CONSUMABLE_CAPACITY);
    offer_read_metrics(
        &o, STR("# TYPE kubernetes_feature_enabled gauge\n"
                "kubernetes_feature_enabled{name=\"DRAConsumableCapacity\",stage=\"\"} 0\n"
                "kubernetes_feature_enabled{name=\"DRAListTypeAttributes\",stage=\"A\"} 1\n"
                "kubernetes_feature_enabled{name=\"NobodyKnows\",stage=\"\"} 1\n"
                "kubernetes_feature_enabled{name=\"cut"));
    assert_true(o.gates_known);
    assert_int_equal(offer_features(&o, &f, &err), 0);
    assert_true(before && !features_on(&f, FEATURE_DRA_CONSUMABLE_CAPACITY));
    assert_true(features_on(&f, FEATURE_DRA_LIST_TYPE_ATTRIBUTES));
}

static void a_gate_without_its_kind_is_off(void **state)
{
    (void)state;
    struct offer o = modern();
    struct features f;
    struct err err = {0};
    offer_read_metrics(&o, STR("kubernetes_feature_enabled{name=\"GenericWorkload\",stage=\"\"} 1\n"
                               "kubernetes_feature_enabled{name=\"DRADeviceTaintRules\"} 1\n"));
    assert_int_equal(offer_features(&o, &f, &err), 0);
    assert_false(features_on(&f, FEATURE_GENERIC_WORKLOAD));
    assert_false(features_on(&f, FEATURE_DRA_DEVICE_TAINT_RULES));
    assert_int_equal(offer_read_resources(&o, STR("scheduling.k8s.io/v1beta1"),
                                          STR(RESOURCES(ONE("podgroups"))), &err),
                     0);
    assert_int_equal(offer_features(&o, &f, &err), 0);
    assert_true(features_on(&f, FEATURE_GENERIC_WORKLOAD));
}

static void the_newest_version_of_rules_is_taken_in_any_order(void **state)
{
    (void)state;
    static const char *const versions[] = {"resource.k8s.io/v1alpha3", "resource.k8s.io/v1",
                                           "resource.k8s.io/v1beta2"};
    static const char *const newest[] = {"resource.k8s.io/v1alpha3", "resource.k8s.io/v1",
                                         "resource.k8s.io/v1"};
    struct offer o = {0};
    struct err err = {0};
    for (size_t i = 0; i < array_len(versions); i++) {
        assert_int_equal(offer_read_resources(&o, str_z(versions[i]),
                                              STR(RESOURCES(ONE("devicetaintrules"))), &err),
                         0);
        assert_str(o.rules->api_version, newest[i]);
    }
}

static void a_server_that_is_too_old_is_refused(void **state)
{
    (void)state;
    struct offer o = modern();
    struct features f;
    struct err err = {0};
    o.minor = 33;
    assert_int_equal(offer_features(&o, &f, &err), -ERR_UNSUPPORTED);
    o.minor = 34;
    assert_int_equal(offer_features(&o, &f, &err), 0);
    o.claims = false;
    assert_int_equal(offer_features(&o, &f, &err), -ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "resource.k8s.io/v1"));
    o = modern();
    o.minor = 99; // newer than we are: as the newest we know
    assert_int_equal(offer_features(&o, &f, &err), 0);
    assert_int_equal(f.minor, FEATURES_MINOR);
}

// --- Frames --------------------------------------------------------------------------------------

static int note_frame(void *arg, struct str body)
{
    struct sbuf *out = arg;
    sbuf_addf(out, "<%.*s>", STR_ARG(body));
    return 0;
}

static void frames_do_not_depend_on_how_they_come(void **state)
{
    (void)state;
    static const char stream[] = "\0\0\0\5hello\0\0\0\0\0\0\0\3abc\0\0\0\1x";
    for (size_t step = 1; step < sizeof(stream); step++) {
        struct frames f = {.max = 16};
        cleanup_sbuf struct sbuf out = {0};
        struct err err = {0};
        for (size_t at = 0; at < sizeof(stream) - 1; at += step) {
            size_t n = sizeof(stream) - 1 - at < step ? sizeof(stream) - 1 - at : step;
            assert_int_equal(frames_feed(&f, str_make(stream + at, n), note_frame, &out, &err), 0);
        }
        assert_string_equal(out.p, "<hello><><abc><x>");
        frames_done(&f);
    }
}

static void a_frame_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct frames f = {.max = 16};
    cleanup_sbuf struct sbuf out = {0};
    struct err err = {0};
    assert_int_equal(frames_feed(&f, str_make("\0\0\0\x11", 4), note_frame, &out, &err),
                     -ERR_TOO_LARGE);
    frames_reset(&f);
    assert_int_equal(frames_feed(&f, str_make("\x7f", 1), note_frame, &out, &err), 0);
    assert_int_equal(frames_feed(&f, str_make("\xff\xff\xff", 3), note_frame, &out, &err),
                     -ERR_TOO_LARGE);
    frames_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_may_be_an_emulated_one),
        cmocka_unit_test(gates_are_what_the_server_says_or_its_defaults),
        cmocka_unit_test(a_gate_without_its_kind_is_off),
        cmocka_unit_test(the_newest_version_of_rules_is_taken_in_any_order),
        cmocka_unit_test(a_server_that_is_too_old_is_refused),
        cmocka_unit_test(frames_do_not_depend_on_how_they_come),
        cmocka_unit_test(a_frame_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
