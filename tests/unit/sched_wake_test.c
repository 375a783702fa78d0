// SPDX-License-Identifier: Apache-2.0
//
// Who is tried when: order, back-off, and the events that give a waiting pod another turn (queueing
// hints), each with one that must not.
#include "sched_kit.h"

#include "base/banned.h"

#define ASKS(list) "'containers':[{'name':'c','image':'i','resources':{'requests':{" list "}}}]"
#define USES(name) "'resourceClaims':[{'name':'gpu','resourceClaimName':'" name "'}]"

static void priority_goes_first(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_pod(&k, "low", "'priority':1," ASKS("'cpu':'3'"));
    kit_pod(&k, "first", "'priority':5," ASKS("'cpu':'3'"));
    kit_pod(&k, "second", "'priority':5," ASKS("'cpu':'3'"));
    world_run(&k.w, 10);
    kit_node(&k, "n", "");
    world_run(&k.w, 12000); // texts are rewritten every ten seconds at most
    kit_on(&k, "ns/first", "n");
    kit_told(&k, "ns/second", "insufficient cpu");
    kit_told(&k, "ns/low", "insufficient cpu");
    kit_end(&k);
}

// A pod that waits for devices, before something happens. Long enough to be past its back-off.
static void start_waiting(struct kit *k)
{
    kit_start(k);
    kit_node(k, "n", "");
    kit_gpus(k, "n", 1);
    kit_gpu_pod(k, "holder", 1);
    world_run(&k->w, 10);
    kit_gpu_pod(k, "p", 1);
    world_run(&k->w, 2000);
    assert_int_equal(kit_stats(k).waiting, 1);
}

static void expect_attempts(struct kit *k, uint64_t more)
{
    uint64_t before = kit_stats(k).attempts;
    world_run(&k->w, 100);
    assert_int_equal(kit_stats(k).attempts, before + more);
}

#define CLAIM_OF(name, status)                                                                    \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'" name         \
    "','namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName'" \
    ":'gpu','allocationMode':'ExactCount','count':1}}]}}" status "}"

// §10: deallocation of any claim, or deletion with an allocation.
static void a_deallocated_claim_wakes(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    world_delete(&k.w, "Pod", "ns/holder");
    world_put(&k.w, CLAIM_OF("holder", ""));
    expect_attempts(&k, 1);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// §10: unrelated claims, claims without allocation that go, changes of metadata do not.
static void other_claim_events_do_not(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    world_put(&k.w, CLAIM_OF("unrelated", ""));
    expect_attempts(&k, 0);
    world_delete(&k.w, "ResourceClaim", "ns/unrelated");
    expect_attempts(&k, 0);
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'p',"
              "'namespace':'ns','labels':{'x':'y'}},'spec':{'devices':{'requests':[{'name':'r',"
              "'exactly':{'deviceClassName':'gpu','allocationMode':'ExactCount','count':1}}]}}}");
    expect_attempts(&k, 0);
    kit_end(&k);
}

// §10: nodes that come, or change in labels or allocatable; not by heartbeats.
static void nodes_wake(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    kit_node(&k, "n", ",'spec':{'podCIDR':'10.0.0.0/24'}");
    expect_attempts(&k, 0);
    world_put(&k.w, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'n','labels':{'a':'b'}},"
                    "'status':{'allocatable':{'cpu':'4','memory':'32Gi','pods':'110'}}}");
    expect_attempts(&k, 1);
    kit_node(&k, "m", "");
    world_run(&k.w, 4000);
    expect_attempts(&k, 0);
    kit_end(&k);
}

// §10: slices added or updated, through rules too; classes; deletion of a slice is no event.
static void slices_rules_and_classes_wake(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    kit_node(&k, "m", "");
    kit_gpus(&k, "m", 1);
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'DeviceTaintRule','metadata':{'name':"
              "'r'},'spec':{'deviceSelector':{'pool':'m'},'taint':{'key':'k','effect':"
              "'NoSchedule'}}}");
    world_run(&k.w, 12000);
    kit_told(&k, "ns/p", "0/2 nodes");
    uint64_t before = kit_stats(&k).attempts;
    world_put(&k.w, CLASS("other", ""));
    world_run(&k.w, 5000);
    assert_int_equal(kit_stats(&k).attempts, before + 1);
    world_delete(&k.w, "ResourceSlice", "slice-n");
    world_run(&k.w, 10000);
    assert_int_equal(kit_stats(&k).attempts, before + 1);
    world_delete(&k.w, "DeviceTaintRule", "r");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "m");
    kit_end(&k);
}

// Pods that go free resources; what a pod does not wait for does not wake it.
static void only_what_can_help_wakes(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "big", ASKS("'cpu':'4'"));
    world_run(&k.w, 10);
    kit_pod(&k, "p", ASKS("'cpu':'2'"));
    kit_pod(&k, "selective", "'nodeSelector':{'zone':'x'}");
    world_run(&k.w, 3000);
    uint64_t before = kit_stats(&k).attempts;
    world_delete(&k.w, "Pod", "ns/big");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(kit_stats(&k).attempts, before + 1); // not the selective one
    kit_end(&k);
}

// Back-off: one second, then twice as long each time, ten at most.
static void backoff_doubles(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "p", ASKS("'cpu':'9'"));
    world_run(&k.w, 1);
    static const int64_t waits_s[] = {1, 2, 4, 8, 10, 10};
    int flip = 0;
    for (size_t i = 0; i < array_len(waits_s); i++) {
        uint64_t before = kit_stats(&k).attempts;
        world_putf(&k.w,
                   "{'apiVersion':'v1','kind':'Node','metadata':{'name':'n'},'status':"
                   "{'allocatable':{'cpu':'%d','memory':'1Gi','pods':'5'}}}",
                   4 + flip++ % 2);
        world_run(&k.w, waits_s[i] * 1000 - 100);
        assert_int_equal(kit_stats(&k).attempts, before);
        world_run(&k.w, 101);
        assert_int_equal(kit_stats(&k).attempts, before + 1);
    }
    kit_end(&k);
}

// A change of the pod itself is worth a try; our own condition is not.
static void the_pods_own_change_wakes(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    world_put(&k.w, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'n'},'spec':{'taints':[{"
                    "'key':'k','effect':'NoSchedule'}]},'status':{'allocatable':{'pods':'5'}}}");
    kit_pod(&k, "p", "");
    world_run(&k.w, 3000);
    assert_int_equal(kit_stats(&k).attempts, 1);
    kit_pod(&k, "p", "'tolerations':[{'operator':'Exists'}]");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// Whatever was missed: after five minutes everything is tried again.
static void the_flush_comes_after_minutes(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    uint64_t before = kit_stats(&k).attempts;
    world_run(&k.w, 290000);
    assert_int_equal(kit_stats(&k).attempts, before);
    world_run(&k.w, 320000);
    assert_true(kit_stats(&k).attempts > before);
    kit_end(&k);
}

#define NEAR(app)                                                                              \
    "'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[{"           \
    "'topologyKey':'kubernetes.io/hostname','labelSelector':{'matchLabels':{'app':'" app "'}}" \
    "}]}}"

// A pod that others want to be near wakes them when it is bound, by this scheduler too.
static void a_pod_we_place_wakes_its_friends(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "friend", NEAR("a"));
    world_run(&k.w, 3000);
    kit_told(&k, "ns/friend", "pod affinity");
    kit_pod_of(&k, "a", ",'labels':{'app':'a'}", "");
    kit_pod(&k, "late", NEAR("a"));
    world_run(&k.w, 2000);
    kit_on(&k, "ns/a", "n");
    kit_on(&k, "ns/friend", "n");
    kit_on(&k, "ns/late", "n");
    kit_end(&k);
}

// A pod that is made smaller where it runs leaves room.
static void a_pod_that_shrinks_wakes(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "big", ASKS("'cpu':'4'"));
    world_run(&k.w, 10);
    kit_pod(&k, "p", ASKS("'cpu':'2'"));
    world_run(&k.w, 3000);
    kit_told(&k, "ns/p", "insufficient cpu");
    kit_pod(&k, "big", "'nodeName':'n'," ASKS("'cpu':'1'"));
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

#define RESIZED(has)                                                                         \
    "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'big','namespace':'ns'},'spec':{"    \
    "'nodeName':'n'," ASKS(                                                                  \
        "'cpu':'1'") "},'status':{'containerStatuses':[{'name':'c',"                         \
                     "'allocatedResources':{'cpu':'1'},'resources':{'requests':{'cpu':'" has \
                     "'}}}]}}"

// … but not before its node has taken it back.
static void what_a_pod_still_has_is_not_free(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    world_put(&k.w, RESIZED("4"));
    kit_pod(&k, "p", ASKS("'cpu':'2'"));
    world_run(&k.w, 3000);
    kit_told(&k, "ns/p", "insufficient cpu");
    world_put(&k.w, RESIZED("1"));
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(priority_goes_first), TEST_CASE(a_deallocated_claim_wakes),
          TEST_CASE(other_claim_events_do_not), TEST_CASE(nodes_wake),
          TEST_CASE(slices_rules_and_classes_wake), TEST_CASE(only_what_can_help_wakes),
          TEST_CASE(backoff_doubles), TEST_CASE(the_pods_own_change_wakes),
          TEST_CASE(the_flush_comes_after_minutes), TEST_CASE(a_pod_we_place_wakes_its_friends),
          TEST_CASE(a_pod_that_shrinks_wakes), TEST_CASE(what_a_pod_still_has_is_not_free))
