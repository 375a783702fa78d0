// SPDX-License-Identifier: Apache-2.0
//
// What users do that nobody expects: the same claim twice, another claim of an old name, amounts
// beyond all bounds, more containers than anybody needs.
#include <sys/resource.h>

#include "sched_kit.h"

#include "base/banned.h"

#define USES(name) "'resourceClaims':[{'name':'gpu','resourceClaimName':'" name "'}]"
#define ASKS(list) "'containers':[{'name':'c','image':'i','resources':{'requests':{" list "}}}]"

// A pod that names a claim twice uses it once, and its devices are nobody else's.
static void a_claim_named_twice_is_one(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 2);
    kit_claim(&k, "x", 1);
    kit_claim(&k, "y", 1);
    world_run(&k.w, 1);
    kit_pod(&k, "p",
            "'resourceClaims':[{'name':'a','resourceClaimName':'x'},"
            "{'name':'b','resourceClaimName':'x'}]");
    kit_pod(&k, "q", USES("y"));
    world_run(&k.w, 20);
    kit_on(&k, "ns/p", "n");
    kit_on(&k, "ns/q", "n");
    assert_int_equal(world_claim(&k.w, "ns/x")->status.reserved_for.n, 1);
    kit_end(&k);
}

// What was said of a pod's claim does not hold for another of its name.
static void another_claim_of_the_name_is_another_question(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_gpu_pod(&k, "p", 2);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "0/1 nodes");
    world_put(&k.w, CLASS("other", ""));
    world_run(&k.w, 1000); // it is tried again, and told nothing new
    world_delete(&k.w, "ResourceClaim", "ns/p");
    kit_claim(&k, "p", 1);
    world_run(&k.w, 100);
    kit_gpu_pod(&k, "like-the-old-one", 2); // is told before p has its turn
    world_run(&k.w, 100);
    kit_told(&k, "ns/like-the-old-one", "0/1 nodes");
    world_run(&k.w, 2000);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// Sums of what pods ask for end at the largest number, and come back when the pods go.
static void amounts_have_an_end(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "a", "'nodeName':'n'," ASKS("'memory':'9223372036854775807','cpu':'9e15'"));
    kit_pod(&k, "b",
            "'nodeName':'n','containers':[{'name':'c','image':'i','resources':{'requests':{"
            "'memory':'9223372036854775807'}}},{'name':'d','image':'i'}]");
    kit_pod(&k, "c", "'nodeName':'n'," ASKS("'memory':'1Gi'"));
    kit_pod(&k, "huge", ASKS("'memory':'9223372036854775807','cpu':'1'"));
    world_run(&k.w, 10);
    kit_pod(&k, "p", ASKS("'memory':'30Gi'"));
    world_run(&k.w, 3000);
    kit_told(&k, "ns/p", "insufficient memory");
    kit_told(&k, "ns/huge", "insufficient memory");
    world_delete(&k.w, "Pod", "ns/a");
    world_run(&k.w, 3000);
    kit_told(&k, "ns/p", "insufficient memory");
    world_delete(&k.w, "Pod", "ns/b");
    world_run(&k.w, 5000);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

static void asks_for_much(struct kit *k, int pod, int names)
{
    cleanup_sbuf struct sbuf list = {0};
    cleanup_sbuf struct sbuf spec = {0};
    char name[16];
    for (int i = 0; i < names; i++)
        sbuf_addf(&list, "%s'example.com/r%d-%d':'1'", i ? "," : "", pod, i);
    sbuf_addf(&spec, "'containers':[{'name':'c','image':'i','resources':{'requests':{%s}}}]",
              list.p);
    (void)snprintf(name, sizeof(name), "much%d", pod);
    kit_pod(k, name, spec.p);
}

// Names of resources that pods make up are not kept without end; one that a node comes to have is
// found all the same.
static void resources_without_end(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    for (int i = 0; i < 5; i++)
        asks_for_much(&k, i, 1000);
    world_run(&k.w, 100);
    for (int i = 0; i < 5; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "ns/much%d", i);
        world_delete(&k.w, "Pod", key);
    }
    kit_pod(&k, "p", ASKS("'example.com/new':'1'"));
    kit_pod(&k, "q", ASKS("'example.com/gone':'1'"));
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "insufficient unknown resources");
    world_put(&k.w, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'m'},'status':"
                    "{'allocatable':{'cpu':'4','pods':'9','example.com/new':'1'}}}");
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "m");
    kit_told(&k, "ns/q", "insufficient unknown resources");
    kit_end(&k);
}

#define EXTENDED                                          \
    CLASS("ext", "'extendedResourceName':'example.com/g'" \
                 ",'selectors':[{'cel':{'expression':'device.driver == \\\"drv\\\"'}}]")

static void add_containers(struct sbuf *out, const char *list, size_t n, const char *count)
{
    sbuf_addf(out, "'%s':[", list);
    for (size_t i = 0; i < n; i++)
        sbuf_addf(out,
                  "%s{'name':'%s%zu','image':'i','resources':{'requests':{'example.com/g':'%s'}}}",
                  i ? "," : "", list, i, count);
    sbuf_addz(out, "]");
}

// Devices for a thousand containers are refused, whatever those before them would share with them.
static void many_containers_are_refused_soon(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    world_put(&k.w, EXTENDED);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    cleanup_sbuf struct sbuf spec = {0};
    add_containers(&spec, "initContainers", 3000, "1000000");
    sbuf_addc(&spec, ',');
    add_containers(&spec, "containers", 3000, "1");
    kit_pod(&k, "p", spec.p);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "limit");
    kit_end(&k);
}

// Counts that cannot be added up are too many devices.
static void counts_of_containers_have_an_end(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    world_put(&k.w, EXTENDED);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    cleanup_sbuf struct sbuf spec = {0};
    add_containers(&spec, "initContainers", 1, "9E");
    sbuf_addc(&spec, ',');
    add_containers(&spec, "containers", 2, "5E");
    kit_pod(&k, "p", spec.p);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "limit");
    kit_end(&k);
}

#define SHARED(name, generation, zone, devices)                                               \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':'" name     \
    "'},'spec':{'driver':'drv','nodeSelector':{'nodeSelectorTerms':[{'matchExpressions':[{'"  \
    "key':'kubernetes.io/hostname','operator':'In','values':['" zone "']}]}]},'pool':{'name'" \
    ":'net','generation':" generation ",'resourceSliceCount':1},'devices':[" devices "]}}"

// A newer generation that a node sees nothing of goes unnoticed there: §2.3 of the allocator.
static void generations_of_shared_pools_are_each_nodes(void **state)
{
    (void)state;
    struct kit k;
    kit_start_with(&k, (struct sched_options){.policy = ALLOC_SPREAD});
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    world_put(&k.w, SHARED("old", "1", "a", "{'name':'d0'},{'name':'d1'}"));
    world_put(&k.w, SHARED("new", "2", "b", "{'name':'e0'}"));
    kit_gpu_pod(&k, "p", 2);
    world_run(&k.w, 20);
    kit_on(&k, "ns/p", "a");
    kit_end(&k);
}

// What devices take of the node is told, whichever node was asked last.
static void what_devices_take_is_told_of_the_node(void **state)
{
    (void)state;
    struct kit k;
    struct features f;
    features_init(&f, FEATURES_MINOR);
    f.on[FEATURE_DRA_NODE_ALLOCATABLE_RESOURCES] = true;
    kit_start_with(&k, (struct sched_options){.features = &f});
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':"
                    "'s'},'spec':{'driver':'drv','allNodes':true,'pool':{'name':'net','generation':"
                    "1,'resourceSliceCount':1},'devices':[{'name':'d0','nodeAllocatableResources':"
                    "{'cpu':{'mapping':{'deviceMultiplier':'3'}}}}]}}");
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'x',"
              "'namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':{"
              "'deviceClassName':'gpu','allocationMode':'ExactCount','count':1}}]}},'status':{"
              "'allocation':{'devices':{'results':[{'request':'r','driver':'drv','pool':'net',"
              "'device':'d0'}]},'nodeSelector':{'nodeSelectorTerms':[{'matchExpressions':[{'key':"
              "'kubernetes.io/hostname','operator':'In','values':['a']}]}]}}}}");
    world_run(&k.w, 1);
    kit_pod(&k, "p", USES("x"));
    world_run(&k.w, 20);
    kit_on(&k, "ns/p", "a");
    assert_int_equal(world_pod(&k.w, "ns/p")->status.node_allocatable_resource_claim_statuses.n, 1);
    kit_end(&k);
}

// An allocation of the year 9999 is not late.
static void a_moment_far_ahead_is_not_past(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'x',"
              "'namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':{"
              "'deviceClassName':'gpu','allocationMode':'ExactCount','count':1}}]}},'status':{"
              "'allocation':{'allocationTimestamp':'9999-12-31T23:59:59Z','devices':{'results':[{"
              "'request':'r','driver':'drv','pool':'n','device':'gpu-0','bindingConditions':["
              "'ready'],'bindingFailureConditions':['broken']}]}}}}");
    world_run(&k.w, 1);
    kit_pod(&k, "p", USES("x"));
    world_run(&k.w, 2000);
    assert_int_equal(kit_stats(&k).binding, 1);
    assert_non_null(world_claim(&k.w, "ns/x")->status.allocation);
    kit_end(&k);
}

#define CROWD 1500
#define STACK ((size_t)256 * 1024)

static int refuse_claims(struct world *w, const char *verb, const struct api_kind *kind,
                         struct str name)
{
    (void)w;
    (void)verb;
    (void)name;
    return str_eqz(kind->kind, "ResourceClaim") ? -ERR_UNAVAILABLE : 0;
}

// Any number of pods may be on their way to one claim when it is taken away. They give up one after
// the other, not one inside of the other.
static void a_crowd_gives_up_a_claim(void **state)
{
    (void)state;
    struct kit k;
    struct rlimit was;
    assert_int_equal(getrlimit(RLIMIT_STACK, &was), 0);
    kit_start(&k);
    world_put(&k.w, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'n'},'status':"
                    "{'allocatable':{'cpu':'4','memory':'32Gi','pods':'9999'}}}");
    kit_gpus(&k, "n", 1);
    kit_claim(&k, "x", 1);
    kit_pod(&k, "first", USES("x"));
    world_run(&k.w, 20);
    kit_on(&k, "ns/first", "n");
    for (int i = 0; i < CROWD; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_pod(&k, name, USES("x"));
    }
    k.w.refuse = refuse_claims;
    k.w.refused_ms = 200; // all are on their way by then
    world_run(&k.w, 100);
    assert_true(kit_stats(&k).binding > CROWD - 10);
    assert_int_equal(setrlimit(RLIMIT_STACK, &(struct rlimit){STACK, was.rlim_max}), 0);
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':"
                    "'x','namespace':'ns','deletionTimestamp':'2026-01-01T00:00:00Z','finalizers':"
                    "['resource.kubernetes.io/delete-protection']}}");
    world_run(&k.w, 1000);
    assert_int_equal(setrlimit(RLIMIT_STACK, &was), 0);
    assert_int_equal(kit_stats(&k).binding, 0);
    k.w.refuse = NULL;
    world_delete(&k.w, "Pod", "ns/first");
    kit_end(&k);
}

static void put_odd_slice(struct kit *k, const char *node, const char *attributes)
{
    world_putf(&k->w,
               "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':'s-%s'"
               "},'spec':{'driver':'drv','nodeName':'%s','pool':{'name':'%s','generation':1,"
               "'resourceSliceCount':1},'devices':[{'name':'d','attributes':{%s}}]}}",
               node, node, node, attributes);
}

// A selector that fails on a node is a mistake, whatever other nodes say: the pod waits.
static void a_selector_that_fails_on_one_node_keeps_the_pod_pending(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n1", "");
    kit_node(&k, "n2", "");
    put_odd_slice(&k, "n1", "'there':{'bool':true}");
    put_odd_slice(&k, "n2", "");
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':"
                    "'c','namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':"
                    "{'deviceClassName':'gpu','allocationMode':'ExactCount','count':1,'selectors':"
                    "[{'cel':{'expression':'device.attributes[\\\"drv\\\"].there'}}]}}]}}}");
    kit_pod(&k, "p", "'resourceClaims':[{'name':'gpu','resourceClaimName':'c'}]");
    world_run(&k.w, 30);
    kit_told(&k, "ns/p", "CEL runtime error");
    put_odd_slice(&k, "n2", "'there':{'bool':false}");
    world_run(&k.w, 20000);
    kit_on(&k, "ns/p", "n1");
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(a_selector_that_fails_on_one_node_keeps_the_pod_pending),
          TEST_CASE(a_claim_named_twice_is_one),
          TEST_CASE(another_claim_of_the_name_is_another_question), TEST_CASE(amounts_have_an_end),
          TEST_CASE(resources_without_end), TEST_CASE(counts_of_containers_have_an_end),
          TEST_CASE(generations_of_shared_pools_are_each_nodes),
          TEST_CASE(what_devices_take_is_told_of_the_node),
          TEST_CASE(a_moment_far_ahead_is_not_past), TEST_CASE(a_crowd_gives_up_a_claim),
          TEST_CASE(many_containers_are_refused_soon))
