// SPDX-License-Identifier: Apache-2.0
//
// Eviction from tainted devices (b2 to b4), the status of rules (b5), pool status requests (c).
#include "ctl_world.h"

#include "base/banned.h"

#define RULES_ON "DRADeviceTaintRules=true"

#define SLICE_JSON(generation, taints)                                                         \
    "{\"metadata\":{\"name\":\"s" generation "\"},\"spec\":{\"driver\":\"d.io\",\"nodeName\":" \
    "\"n1\",\"pool\":{\"name\":\"p\",\"generation\":" generation ",\"resourceSliceCount\":1}," \
    "\"devices\":[{\"name\":\"x\",\"taints\":[" taints "]},{\"name\":\"y\"}]}}"
#define NO_EXECUTE "{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoExecute\"}"

#define RULE_JSON(effect, device)                                                                 \
    "{\"metadata\":{\"name\":\"r1\"},\"spec\":{\"deviceSelector\":{\"driver\":\"d.io\",\"pool\":" \
    "\"p\",\"device\":\"" device "\"},\"taint\":{\"key\":\"k\",\"effect\":\"" effect "\"}}}"

static bool is_there(struct ctl_world *c, const char *pod)
{
    (void)do_get(c->w, POD(pod));
    return strcmp(reply_field(c->w, "metadata.name"), "-") != 0 &&
           strcmp(reply_field(c->w, "metadata.deletionTimestamp"), "-") == 0;
}

// running makes a pod with an allocated claim, bound and reserved; tolerations is JSON.
static void running(struct ctl_world *c, const char *pod, const char *claim, const char *device,
                    const char *tolerations)
{
    struct arena *a = &c->w->arena;
    assert_ok(do_create(c->w, CLAIM(""),
                        arena_strf(a,
                                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"devices\":{"
                                   "\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":"
                                   "\"gpu\"}}]}}}",
                                   claim)
                            .p));
    assert_ok(do_create(c->w, POD(""),
                        arena_strf(a,
                                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{" CONTAINERS
                                   ",\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimName\":"
                                   "\"%s\"}]}}",
                                   pod, claim)
                            .p));
    assert_ok(do_patch(c->w, CLAIM_STATUS(claim), REGISTRY_PATCH_MERGE,
                       arena_strf(a,
                                  "{\"status\":{\"allocation\":{\"devices\":{\"results\":[{"
                                  "\"request\":\"r\",\"driver\":\"d.io\",\"pool\":\"p\",\"device\":"
                                  "\"%s\",\"tolerations\":[%s]}]}},\"reservedFor\":[%s]}}",
                                  device, tolerations, consumer(c, pod))
                           .p));
    bind_pod(c, pod);
    settle(c);
}

TEST_WITH_CTL(b4_a_pod_on_a_tainted_device_is_marked_and_deleted)
{
    running(c, "web", "a", "x", "");
    running(c, "other", "b", "y", "");
    assert_true(is_there(c, "web"));
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", NO_EXECUTE)));
    settle(c);
    assert_false(is_there(c, "web"));
    assert_true(is_there(c, "other"));
    (void)do_get(c->w, POD("web"));
    assert_field(c->w, "metadata.deletionGracePeriodSeconds", "30");
    bool found = false;
    for (int i = 0; i < 4; i++) {
        const char *at = arena_strf(&c->w->arena, "status.conditions[%d].", i).p;
        const char *type = reply_field(c->w, arena_strf(&c->w->arena, "%stype", at).p);
        if (strcmp(type, "DisruptionTarget") != 0)
            continue;
        found = true;
        assert_field(c->w, arena_strf(&c->w->arena, "%sreason", at).p,
                     "DeletionByDeviceTaintManager");
        assert_field(c->w, arena_strf(&c->w->arena, "%sstatus", at).p, "True");
    }
    assert_true(found);
}

// A pod with an extended resource names its claim in its status alone.
TEST_WITH_CTL(b4_a_pod_with_an_extended_resource_is_deleted)
{
    struct arena *a = &c->w->arena;
    assert_ok(
        do_create(c->w, POD(""),
                  "{\"metadata\":{\"name\":\"web\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                  "\"image\":\"i\",\"resources\":{\"limits\":{\"example.com/gpu\":\"1\"}}}]}}"));
    (void)do_get(c->w, POD("web"));
    const char *uid = reply_field(c->w, "metadata.uid");
    assert_ok(do_create(
        c->w, CLAIM(""),
        arena_strf(a,
                   "{\"metadata\":{\"name\":\"e\",\"ownerReferences\":[{\"apiVersion\":\"v1\","
                   "\"kind\":\"Pod\",\"name\":\"web\",\"uid\":\"%s\",\"controller\":true}]},"
                   "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{"
                   "\"deviceClassName\":\"gpu\"}}]}}}",
                   uid)
            .p));
    assert_ok(do_patch(c->w, CLAIM_STATUS("e"), REGISTRY_PATCH_MERGE,
                       arena_strf(a,
                                  "{\"status\":{\"allocation\":{\"devices\":{\"results\":[{"
                                  "\"request\":\"r\",\"driver\":\"d.io\",\"pool\":\"p\",\"device\":"
                                  "\"x\"}]}},\"reservedFor\":[%s]}}",
                                  consumer(c, "web"))
                           .p));
    assert_ok(do_patch(c->w, POD_STATUS("web"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"extendedResourceClaimStatus\":{\"resourceClaimName\":\"e\","
                       "\"requestMappings\":[{\"containerName\":\"c\",\"resourceName\":"
                       "\"example.com/gpu\",\"requestName\":\"r\"}]}}}"));
    bind_pod(c, "web");
    settle(c);
    assert_true(is_there(c, "web"));
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", NO_EXECUTE)));
    settle(c);
    assert_false(is_there(c, "web"));
}

TEST_WITH_CTL(b2_only_the_newest_generation_of_a_pool_counts)
{
    running(c, "web", "a", "x", "");
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("2", "")));
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", NO_EXECUTE)));
    settle(c);
    assert_true(is_there(c, "web"));
}

TEST_WITH_CTL(b2_other_effects_evict_nobody)
{
    running(c, "web", "a", "x", "");
    assert_ok(
        do_create(c->w, SLICE(""), SLICE_JSON("1", "{\"key\":\"k\",\"effect\":\"NoSchedule\"}")));
    settle(c);
    assert_true(is_there(c, "web"));
}

TEST_WITH_CTL(b2_a_toleration_for_the_effect_keeps_the_pod_for_ever)
{
    running(c, "web", "a", "x", "{\"operator\":\"Exists\",\"effect\":\"NoExecute\"}");
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", NO_EXECUTE)));
    world_pass(c->w, 100000);
    assert_true(is_there(c, "web"));
}

TEST_WITH_CTL(b2_a_toleration_without_effect_does_not_count_here)
{
    running(c, "web", "a", "x", "{\"operator\":\"Exists\"}");
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", NO_EXECUTE)));
    settle(c);
    assert_false(is_there(c, "web"));
}

TEST_WITH_CTL(b2_the_shortest_toleration_decides)
{
    running(c, "web", "a", "x",
            "{\"key\":\"k\",\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":"
            "300},{\"key\":\"k\",\"operator\":\"Equal\",\"value\":\"v\",\"effect\":\"NoExecute\","
            "\"tolerationSeconds\":60}");
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", NO_EXECUTE)));
    world_pass(c->w, 50);
    assert_true(is_there(c, "web"));
    world_pass(c->w, 20);
    assert_false(is_there(c, "web"));
}

TEST_WITH_CTL(b3_an_eviction_is_called_off_when_the_taint_goes)
{
    running(c, "web", "a", "x",
            "{\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":60}");
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", NO_EXECUTE)));
    world_pass(c->w, 10);
    assert_ok(do_delete(c->w, SLICE("s1"), NULL));
    world_pass(c->w, 100);
    assert_true(is_there(c, "web"));
    (void)do_get(c->w, (struct target){"v1", "Event", "", "default", find_one(c, "v1", "Event")});
    assert_field(c->w, "reason", "DeviceTaintManagerEviction");
    assert_field(c->w, "message", "Cancelling deletion");
}

TEST_WITH_CTL(b3_a_pod_that_is_not_bound_is_left_alone)
{
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", NO_EXECUTE)));
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_CLAIM)));
    allocate(c, "shared", "x", consumer(c, "web"));
    settle(c);
    assert_true(is_there(c, "web"));
}

TEST_WITH_CTL_GATES(b2_a_rule_evicts_and_counts, RULES_ON)
{
    running(c, "web", "a", "x", "");
    running(c, "other", "b", "y", "");
    assert_ok(do_create(c->w, RULE(""), RULE_JSON("NoExecute", "x")));
    settle(c);
    assert_false(is_there(c, "web"));
    assert_true(is_there(c, "other"));
    world_pass(c->w, 60);
    (void)do_get(c->w, RULE("r1"));
    assert_field(c->w, "status.conditions[0].type", "EvictionInProgress");
    assert_field(c->w, "status.conditions[0].status", "False");
    assert_field(c->w, "status.conditions[0].reason", "Completed");
    assert_field(c->w, "status.conditions[0].message",
                 "1 pod evicted since starting the controller.");
}

TEST_WITH_CTL_GATES(b5_a_rule_says_how_many_pods_must_still_go, RULES_ON)
{
    running(c, "web", "a", "x",
            "{\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":600}");
    assert_ok(do_create(c->w, RULE(""), RULE_JSON("NoExecute", "x")));
    world_pass(c->w, 30);
    (void)do_get(c->w, RULE("r1"));
    assert_field(c->w, "status.conditions[0].status", "True");
    assert_field(c->w, "status.conditions[0].reason", "PodsPendingEviction");
    assert_field(c->w, "status.conditions[0].message", "1 pod needs to be evicted in 1 namespace.");
    assert_field(c->w, "status.conditions[0].observedGeneration", "1");
}

TEST_WITH_CTL_GATES(b5_a_rule_without_effect_says_what_it_would_do, RULES_ON)
{
    running(c, "web", "a", "x", "");
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("1", "")));
    assert_ok(do_create(c->w, RULE(""), RULE_JSON("None", "x")));
    settle(c);
    (void)do_get(c->w, RULE("r1"));
    assert_field(c->w, "status.conditions[0].reason", "NoEffect");
    assert_field(c->w, "status.conditions[0].message",
                 "1 published device selected. 1 allocated device selected. 1 pod would be evicted "
                 "in 1 namespace if the effect was NoExecute. This information will not be updated "
                 "again. Recreate the DeviceTaintRule to trigger an update.");
    assert_true(is_there(c, "web"));
}

TEST_WITH_CTL_GATES(b5_other_effects_are_explained, RULES_ON)
{
    assert_ok(do_create(c->w, RULE(""), RULE_JSON("NoSchedule", "x")));
    settle(c);
    (void)do_get(c->w, RULE("r1"));
    assert_field(c->w, "status.conditions[0].reason", "OtherEffect");
    assert_field(c->w, "status.conditions[0].message",
                 "Eviction only happens for the NoExecute effect.");
}

// --- Pool status ---------------------------------------------------------------------------------

#define POOLS_ON "DRAResourcePoolStatus=true,DRAPartitionableDevicesType=true"
#define POOL_REQUEST(name) \
    ((struct target){"resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", "", "", name})

TEST_WITH_CTL_GATES(c_a_request_is_answered_once_and_removed_later, POOLS_ON)
{
    assert_ok(
        do_create(c->w, SLICE(""), SLICE_JSON("1", "{\"key\":\"k\",\"effect\":\"NoSchedule\"}")));
    running(c, "web", "a", "y", "");
    assert_ok(do_create(c->w, POOL_REQUEST(""),
                        "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"driver\":\"d.io\"}}"));
    settle(c);
    (void)do_get(c->w, POOL_REQUEST("q"));
    assert_field(c->w, "status.poolCount", "1");
    assert_field(c->w, "status.pools[0].poolName", "p");
    assert_field(c->w, "status.pools[0].nodeName", "n1");
    assert_field(c->w, "status.pools[0].totalDevices", "2");
    assert_field(c->w, "status.pools[0].allocatedDevices", "1");
    assert_field(c->w, "status.pools[0].unavailableDevices", "1");
    assert_field(c->w, "status.pools[0].availableDevices", "0");
    assert_field(c->w, "status.conditions[0].type", "Complete");
    assert_field(c->w, "status.conditions[0].reason", "CalculationComplete");
    assert_field(c->w, "status.conditions[0].message", "Calculated status for 1 pools");
    world_pass(c->w, 3500);
    (void)do_get(c->w, POOL_REQUEST("q"));
    assert_field(c->w, "metadata.name", "q");
    world_pass(c->w, 200);
    (void)do_get(c->w, POOL_REQUEST("q"));
    assert_field(c->w, "metadata.name", "-");
}

TEST_WITH_CTL_GATES(c_an_incomplete_pool_is_waited_for, POOLS_ON)
{
    assert_ok(
        do_create(c->w, SLICE(""),
                  "{\"metadata\":{\"name\":\"s1\"},\"spec\":{\"driver\":\"d.io\",\"nodeName\":"
                  "\"n1\",\"pool\":{\"name\":\"p\",\"generation\":1,\"resourceSliceCount\":2}}"
                  "}"));
    assert_ok(do_create(c->w, POOL_REQUEST(""),
                        "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"driver\":\"d.io\"}}"));
    settle(c);
    (void)do_get(c->w, POOL_REQUEST("q"));
    assert_field(c->w, "status", "-");
}

TEST_WITH_CTL_GATES(c_partitions_and_shares_are_summed_up, POOLS_ON)
{
    assert_ok(do_create(
        c->w, SLICE(""),
        "{\"metadata\":{\"name\":\"s0\"},\"spec\":{\"driver\":\"d.io\",\"nodeName\":\"n1\","
        "\"pool\":{"
        "\"name\":\"p\",\"generation\":1,\"resourceSliceCount\":2},\"sharedCounters\":[{\"name\":"
        "\"set\",\"counters\":{\"mem\":{\"value\":\"10\"}}}]}}"));
    assert_ok(do_create(
        c->w, SLICE(""),
        "{\"metadata\":{\"name\":\"s1\"},\"spec\":{\"driver\":\"d.io\",\"nodeName\":\"n1\","
        "\"pool\":{"
        "\"name\":\"p\",\"generation\":1,\"resourceSliceCount\":2},\"partitionTypeAttribute\":"
        "\"d.io/type\",\"devices\":["
        "{\"name\":\"big-0\",\"attributes\":{\"type\":{\"string\":\"big\"}},\"consumesCounters\":[{"
        "\"counterSet\":\"set\",\"counters\":{\"mem\":{\"value\":\"6\"}}}]},"
        "{\"name\":\"big-1\",\"attributes\":{\"type\":{\"string\":\"big\"}},\"consumesCounters\":[{"
        "\"counterSet\":\"set\",\"counters\":{\"mem\":{\"value\":\"6\"}}}]},"
        "{\"name\":\"x\",\"attributes\":{\"type\":{\"string\":\"small\"}},\"consumesCounters\":[{"
        "\"counterSet\":\"set\",\"counters\":{\"mem\":{\"value\":\"2\"}}}]},"
        "{\"name\":\"small-1\",\"attributes\":{\"type\":{\"string\":\"small\"}},"
        "\"consumesCounters\":[{\"counterSet\":\"set\",\"counters\":{\"mem\":{\"value\":\"2\"}}}]}"
        "]}}"));
    running(c, "web", "a", "x", "");
    assert_ok(do_create(c->w, POOL_REQUEST(""),
                        "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"driver\":\"d.io\",\"poolName\":"
                        "\"p\"}}"));
    settle(c);
    (void)do_get(c->w, POOL_REQUEST("q"));
    assert_field(c->w, "status.pools[0].partitionSummary[0].type", "big");
    assert_field(c->w, "status.pools[0].partitionSummary[0].total", "2");
    assert_field(c->w, "status.pools[0].partitionSummary[0].allocatable", "1");
    assert_field(c->w, "status.pools[0].partitionSummary[1].type", "small");
    assert_field(c->w, "status.pools[0].partitionSummary[1].total", "2");
    assert_field(c->w, "status.pools[0].partitionSummary[1].allocatable", "1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b4_a_pod_on_a_tainted_device_is_marked_and_deleted),
        cmocka_unit_test(b4_a_pod_with_an_extended_resource_is_deleted),
        cmocka_unit_test(b2_only_the_newest_generation_of_a_pool_counts),
        cmocka_unit_test(b2_other_effects_evict_nobody),
        cmocka_unit_test(b2_a_toleration_for_the_effect_keeps_the_pod_for_ever),
        cmocka_unit_test(b2_a_toleration_without_effect_does_not_count_here),
        cmocka_unit_test(b2_the_shortest_toleration_decides),
        cmocka_unit_test(b3_an_eviction_is_called_off_when_the_taint_goes),
        cmocka_unit_test(b3_a_pod_that_is_not_bound_is_left_alone),
        cmocka_unit_test(b2_a_rule_evicts_and_counts),
        cmocka_unit_test(b5_a_rule_says_how_many_pods_must_still_go),
        cmocka_unit_test(b5_a_rule_without_effect_says_what_it_would_do),
        cmocka_unit_test(b5_other_effects_are_explained),
        cmocka_unit_test(c_a_request_is_answered_once_and_removed_later),
        cmocka_unit_test(c_an_incomplete_pool_is_waited_for),
        cmocka_unit_test(c_partitions_and_shares_are_summed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
