// SPDX-License-Identifier: Apache-2.0
//
// Kubernetes' matching rules (src/api/match), row by row: those that Kubernetes has behind private
// functions. match_rows_test.c has the others, with answers of Kubernetes itself.
#include "api/match/claim.h"
#include "api/match/device_taint.h"
#include "api/match/node.h"
#include "api/match/taint.h"
#include "unit.h"

#include "base/banned.h"

// Seconds: NONE: the field is not there.
#define NONE    (-1000)
#define FOREVER (-1) // the answer: not evicted

static struct api_device_toleration toleration(const char *key, const char *operator,
                                               const char * value, const char *effect, int64_t s)
{
    return (struct api_device_toleration){.key = str_z(key),
                                          .operator= str_z(operator),
                                          .value = str_z(value),
                                          .effect = str_z(effect),
                                          .toleration_seconds = s == NONE ? 0 : s,
                                          .has_toleration_seconds = s != NONE};
}

static const struct api_device_taint broken = {
    .key = STR_INIT("broken"), .value = STR_INIT("v"), .effect = STR_INIT("NoExecute")};

// Rows with upstream's answers: a device with the taint broken=v:NoExecute may be chosen; its pods leave after so long.
static void one_toleration(void **state)
{
    (void)state;
    static const struct {
        const char *key, *operator, * value, *effect;
        int64_t seconds;
        bool chosen;
        int64_t leaves_s;
    } rows[] = {
        // Choosing takes any effect where none is named; staying needs the effect.
        {"broken", "Exists", "", "", NONE, true, 0},
        {"broken", "Exists", "", "NoExecute", NONE, true, FOREVER},
        {"broken", "Exists", "", "NoSchedule", NONE, false, 0},
        {"", "Exists", "", "", NONE, true, 0},
        {"", "Exists", "", "NoExecute", NONE, true, FOREVER},
        {"other", "Exists", "", "NoExecute", NONE, false, 0},
        {"broken", "Equal", "v", "NoExecute", NONE, true, FOREVER},
        {"broken", "Equal", "w", "NoExecute", NONE, false, 0},
        {"broken", "", "v", "NoExecute", NONE, true, FOREVER}, // Equal is the default
        {"broken", "", "", "NoExecute", NONE, false, 0},
        {"", "", "v", "NoExecute", NONE, true, FOREVER},
        {"broken", "Gt", "v", "NoExecute", NONE, false, 0}, // unknown
        {"broken", "Exists", "", "NoExecute", 300, true, 300},
        {"broken", "Exists", "", "NoExecute", 0, true, 0},
        {"broken", "Exists", "", "NoExecute", -7, true, 0},
        {"broken", "Exists", "", "", 300, true, 0}, // without the effect the seconds are nothing
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct api_device_toleration t = toleration(rows[i].key, rows[i].operator, rows[i].value,
                                                    rows[i].effect, rows[i].seconds);
        const struct api_device_toleration_array all = {&t, 1};
        int64_t wait = FOREVER;
        bool evicts = device_taint_evicts(&all, &broken, &wait);
        if (device_taint_is_tolerated(&all, &broken) != rows[i].chosen ||
            evicts != (rows[i].leaves_s != FOREVER) || wait != rows[i].leaves_s)
            fail_msg("row %zu: chosen %d, leaves after %lld", i, !rows[i].chosen, (long long)wait);
    }
}

static void several_tolerations(void **state)
{
    (void)state;
    struct api_device_toleration t[] = {toleration("broken", "Exists", "", "NoExecute", 60),
                                        toleration("", "Exists", "", "NoExecute", 20),
                                        toleration("other", "Exists", "", "NoExecute", 5),
                                        toleration("broken", "Equal", "v", "NoExecute", NONE)};
    int64_t wait = 0;
    assert_true(device_taint_evicts(&(struct api_device_toleration_array){t, 3}, &broken, &wait));
    assert_int_equal(wait, 20); // the shortest that matches
    assert_false(device_taint_evicts(&(struct api_device_toleration_array){t, 4}, &broken, &wait));
    assert_true(device_taint_evicts(&(struct api_device_toleration_array){0}, &broken, &wait));
    assert_int_equal(wait, 0);
    // A rule with the effect None is asked about as if it evicted.
    struct api_device_taint none = broken;
    none.effect = STR("None");
    assert_false(device_taint_evicts(&(struct api_device_toleration_array){t, 4}, &none, &wait));
}

static void rules_select_devices(void **state)
{
    (void)state;
    struct str driver = STR("d"), pool = STR("p"), device = STR("x"), other = STR("y");
    struct api_device_taint_selector s = {0};
    assert_false(device_taint_selects(NULL, driver, pool, &device));
    assert_true(device_taint_selects(&s, driver, pool, &device)); // an empty one is for all
    s = (struct api_device_taint_selector){
        .driver = driver, .has_driver = true, .device = device, .has_device = true};
    assert_true(device_taint_selects(&s, driver, pool, &device));
    assert_false(device_taint_selects(&s, driver, pool, &other));
    assert_false(device_taint_selects(&s, other, pool, &device));
    assert_true(device_taint_selects(&s, driver, pool, NULL));
    s.pool = other;
    s.has_pool = true;
    assert_false(device_taint_selects(&s, driver, pool, &device));
    assert_false(device_taint_selects(&s, driver, pool, NULL));
}

static void effects_have_their_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *effect;
        bool hard, soft, evicting;
    } rows[] = {{"NoSchedule", true, false, false},
                {"NoExecute", true, false, true},
                {"PreferNoSchedule", false, true, false},
                {"None", false, false, false},
                {"", false, false, false}};
    for (size_t i = 0; i < array_len(rows); i++) {
        struct str effect = str_z(rows[i].effect);
        assert_int_equal(taint_is_hard(effect), rows[i].hard);
        assert_int_equal(taint_is_soft(effect), rows[i].soft);
        assert_int_equal(taint_is_evicting(effect), rows[i].evicting);
    }
}

static void the_first_untolerated_taint_counts(void **state)
{
    (void)state;
    struct api_taint taints[] = {{.key = STR("a"), .effect = STR("PreferNoSchedule")},
                                 {.key = STR("b"), .effect = STR("NoSchedule")},
                                 {.key = STR("c"), .effect = STR("NoExecute")},
                                 {.key = STR("d"), .effect = STR("NoExecute")}};
    struct api_toleration t = {.key = STR("c"), .operator= STR("Exists")};
    const struct api_taint_array all = {taints, array_len(taints)};
    const struct api_toleration_array none = {0}, one = {&t, 1};
    assert_ptr_equal(taint_untolerated(&all, &none, taint_is_soft), &taints[0]);
    assert_ptr_equal(taint_untolerated(&all, &none, taint_is_hard), &taints[1]);
    assert_ptr_equal(taint_untolerated(&all, &none, taint_is_evicting), &taints[2]);
    assert_ptr_equal(taint_untolerated(&all, &one, taint_is_evicting), &taints[3]);
    t.key = STR("");
    assert_null(taint_untolerated(&all, &one, taint_is_hard));
}

static void a_selector_may_name_one_node(void **state)
{
    (void)state;
    struct str names[] = {STR_INIT("n1"), STR_INIT("n2")};
    struct api_node_selector_requirement r = {
        .key = STR("metadata.name"), .operator= STR("In"), .values = {names, 1}};
    struct api_node_selector_term terms[2] = {{.match_fields = {&r, 1}}, {.match_fields = {&r, 1}}};
    struct api_node_selector s = {.node_selector_terms = {terms, 1}};
    assert_str(node_only_name(&s), "n1");
    s.node_selector_terms.n = 2; // terms are alternatives
    assert_int_equal(node_only_name(&s).n, 0);
    s.node_selector_terms.n = 1;
    r.values.n = 2;
    assert_int_equal(node_only_name(&s).n, 0);
    r.values.n = 1;
    r.operator= STR("NotIn");
    assert_int_equal(node_only_name(&s).n, 0);
    r.operator= STR("In");
    r.key = STR("metadata.uid");
    assert_int_equal(node_only_name(&s).n, 0);
    assert_int_equal(node_only_name(NULL).n, 0);
}

static void pods_are_done_when_they_need_no_claim(void **state)
{
    (void)state;
    static const struct {
        const char *phase;
        bool deleting, bound, done;
    } rows[] = {{"Pending", false, false, false}, {"Pending", true, false, true},
                {"Pending", true, true, false},   {"Running", true, true, false},
                {"Succeeded", false, true, true}, {"Failed", false, false, true},
                {"", false, false, false},        {"", true, false, true}};
    for (size_t i = 0; i < array_len(rows); i++) {
        const struct api_pod pod = {.metadata = {.deletion_timestamp = {.set = rows[i].deleting}},
                                    .spec = {.node_name = str_z(rows[i].bound ? "n1" : "")},
                                    .status = {.phase = str_z(rows[i].phase)}};
        if (pod_is_done(&pod) != rows[i].done)
            fail_msg("row %zu", i);
    }
}

static void claims_for_extended_resources(void **state)
{
    (void)state;
    struct api_str_entry annotation = {STR(CLAIM_EXTENDED), STR("true")};
    struct api_owner_reference owner = {
        .uid = STR("u"), .controller = true, .has_controller = true};
    struct api_resource_claim claim = {.metadata = {.name = STR("c"),
                                                    .annotations = {&annotation, 1},
                                                    .owner_references = {&owner, 1}}};
    struct api_container_extended_resource_request mapping = {
        .container_name = STR("main"), .resource_name = STR("example.com/gpu")};
    struct api_pod_extended_resource_claim_status status = {.resource_claim_name = STR("c"),
                                                            .request_mappings = {&mapping, 1}};
    struct api_pod pod = {.metadata = {.uid = STR("u")},
                          .status = {.extended_resource_claim_status = &status}};
    assert_true(pod_resource_is_claimed(&pod, STR("main"), STR("example.com/gpu")));
    assert_false(pod_resource_is_claimed(&pod, STR("other"), STR("example.com/gpu")));
    assert_false(pod_resource_is_claimed(&pod, STR("main"), STR("example.com/nic")));
    assert_true(claim_is_extended(&claim.metadata));
    // Surplus is what no bound pod can come to use: before that its pod may.
    assert_false(claim_is_surplus(&claim, NULL));
    status.resource_claim_name = STR("another");
    assert_false(claim_is_surplus(&claim, &pod));
    pod.spec.node_name = STR("n1");
    assert_true(claim_is_surplus(&claim, &pod));
    status.resource_claim_name = STR("c");
    assert_false(claim_is_surplus(&claim, &pod));
    pod.status.extended_resource_claim_status = NULL;
    assert_true(claim_is_surplus(&claim, &pod));
    assert_false(pod_resource_is_claimed(&pod, STR("main"), STR("example.com/gpu")));
    pod.metadata.uid = STR("v"); // another pod of the name
    assert_false(claim_is_surplus(&claim, &pod));
    pod.metadata.uid = STR("u");
    annotation.value = STR("false");
    assert_false(claim_is_extended(&claim.metadata));
    assert_false(claim_is_surplus(&claim, &pod));
}

RUN_TESTS(TEST_CASE(one_toleration), TEST_CASE(several_tolerations),
          TEST_CASE(rules_select_devices), TEST_CASE(effects_have_their_meaning),
          TEST_CASE(the_first_untolerated_taint_counts), TEST_CASE(a_selector_may_name_one_node),
          TEST_CASE(pods_are_done_when_they_need_no_claim),
          TEST_CASE(claims_for_extended_resources))
