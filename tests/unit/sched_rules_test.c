// SPDX-License-Identifier: Apache-2.0
//
// Rules of the scheduler that the other files do not come by. Comments begin with the section.
#include "sched_kit.h"

#include "base/banned.h"

#define USES(name) "'resourceClaims':[{'name':'gpu','resourceClaimName':'" name "'}]"
#define CLAIM(name, requests)                                                             \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'" name \
    "','namespace':'ns'},'spec':{'devices':{'requests':[" requests "]}}}"
#define SLICE(name, count, devices)                                                       \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':'" name \
    "'},'spec':{'driver':'drv','nodeName':'n','pool':{'name':'n','generation':1,"         \
    "'resourceSliceCount':" count "},'devices':[" devices "]}}"

static void is_error(struct kit *k, const char *part)
{
    const struct api_pod *p = world_pod(&k->w, "ns/p");
    kit_told(k, "ns/p", part);
    assert_str(p->status.conditions.p[0].reason, "SchedulerError");
    assert_int_equal(kit_stats(k).backing_off, 1);
}

// §1, §12: an allocation counts from the decision on, whatever the watch has shown.
static void an_allocation_counts_before_the_watch_shows_it(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_claim(&k, "p", 1);
    kit_claim(&k, "q", 1);
    world_run(&k.w, 1);
    world_lag(k.client, "ResourceClaim");
    kit_pod(&k, "p", USES("p"));
    world_run(&k.w, 5);
    kit_pod(&k, "q", USES("q"));
    world_run(&k.w, 20);
    assert_non_null(world_claim(&k.w, "ns/p")->status.allocation);
    assert_null(world_claim(&k.w, "ns/q")->status.allocation);
    kit_told(&k, "ns/q", "has no free device");
    world_release(k.client);
    world_run(&k.w, 20);
    kit_on(&k, "ns/p", "n");
    kit_told(&k, "ns/q", "held by ns/p");
    kit_end(&k);
}

// §3: a request of a kind that is not known is named.
static void an_unknown_request_is_named(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    world_put(&k.w, CLAIM("c", "{'name':'r'}"));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 10);
    kit_told(&k, "ns/p", "request r: unknown request type");
    kit_end(&k);
}

// §4: without a solution, pools that cannot be used are told of.
static void an_invalid_pool_is_told(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf json = {0};
    struct err err;
    kit_start(&k);
    kit_node(&k, "n", "");
    world_put(&k.w, SLICE("s", "1", "{'name':'d'},{'name':'d'}"));
    kit_gpu_pod(&k, "p", 1);
    world_run(&k.w, 10);
    kit_told(&k, "ns/p", "0/1 nodes: 1 ");
    assert_int_equal(sched_explain(k.s, STR("pod"), STR("ns"), STR("p"), &json, &err), 0);
    if (!kit_holds(sbuf_str(&json), "pool"))
        fail_msg("the pool is not in %s", json.p);
    world_put(&k.w, SLICE("s", "1", "{'name':'d'},{'name':'e'}"));
    world_run(&k.w, 2000);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// §4, §11.2: all devices of a pool that is not complete cannot be known: an error, not a refusal.
static void all_of_an_incomplete_pool_is_an_error(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    world_put(&k.w, SLICE("s0", "2", "{'name':'d'}"));
    world_put(&k.w, CLAIM("c", "{'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':"
                               "'All'}}"));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 10);
    is_error(&k, "resource pool drv/n is currently being updated");
    world_put(&k.w, SLICE("s1", "2", "{'name':'e'}"));
    world_run(&k.w, 2000);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_claim(&k.w, "ns/c")->status.allocation->devices.results.n, 2);
    kit_end(&k);
}

// §4, §11.2: more than 32 devices for one claim is an error.
static void more_than_32_devices_is_an_error(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 40);
    kit_gpu_pod(&k, "p", 33);
    world_run(&k.w, 10);
    is_error(&k, "32");
    kit_end(&k);
}

// Takes the allocation away between our decision and our write.
static int deallocate_first(struct world *w, const char *verb, const struct api_kind *kind,
                            struct str name)
{
    (void)name;
    if (w->refusals > 0 && str_eqz(kind->kind, "ResourceClaim") && strcmp(verb, "get") != 0) {
        w->refusals = 0;
        world_put(w, CLAIM("c", "{'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':"
                                "'ExactCount','count':1}}"));
        return -ERR_CONFLICT;
    }
    return 0;
}

// §7: an allocation that went away in the meantime is not made up; the pod is tried anew.
static void deallocated_elsewhere_in_the_meantime(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':"
                    "'c','namespace':'ns','finalizers':['resource.kubernetes.io/delete-protection']"
                    "},'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':"
                    "'gpu','allocationMode':'ExactCount','count':1}}]}},'status':{'allocation':"
                    "{'devices':{'results':[{'request':'r','driver':'drv','pool':'n','device':"
                    "'gpu-0'}]}}}}");
    k.w.refuse = deallocate_first;
    k.w.refusals = 1;
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 10);
    kit_told(&k, "ns/p", "got deallocated elsewhere in the meantime");
    world_run(&k.w, 2000);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// §9: a quantity of zero asks for nothing.
static void zero_of_an_extended_resource_is_nothing(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    world_put(&k.w, CLASS("ext", "'extendedResourceName':'example.com/gpu'"));
    kit_node(&k, "n", "");
    kit_pod(&k, "p",
            "'containers':[{'name':'c','image':'i','resources':{'requests':{'example.com/gpu':'0'},"
            "'limits':{'example.com/gpu':'0'}}}]");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_count(&k.w, "ResourceClaim"), 0);
    kit_end(&k);
}

// §2: the pod is told which template is missing, and is no worse off when it comes.
static void a_missing_template_is_named(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaimTemplate','metadata':"
                    "{'name':'there','namespace':'ns'},'spec':{'spec':{}}}");
    kit_pod(&k, "p",
            "'resourceClaims':[{'name':'a','resourceClaimTemplateName':'there'},"
            "{'name':'b','resourceClaimTemplateName':'late'}]");
    world_run(&k.w, 11000);
    kit_told(&k, "ns/p",
             "ResourceClaim not created yet: ResourceClaimTemplate \"late\" does not "
             "exist");
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaimTemplate','metadata':"
                    "{'name':'late','namespace':'ns'},'spec':{'spec':{}}}");
    world_run(&k.w, 11000);
    assert_int_equal(kit_stats(&k).attempts, 0);
    kit_end(&k);
}

// What keeps a pod off a node is named: which label, which requirement.
static void the_unmatched_label_is_named(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "p", "'nodeSelector':{'kubernetes.io/hostname':'n','disk':'ssd'}");
    kit_pod(&k, "q",
            "'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
            "{'nodeSelectorTerms':[{'matchExpressions':[{'key':'kubernetes.io/hostname','operator':"
            "'Exists'},{'key':'zone','operator':'In','values':['a','b']}]}]}}}");
    world_run(&k.w, 10);
    kit_told(&k, "ns/p", "1 does not match the pod's node selector or affinity: disk=ssd");
    kit_told(&k, "ns/q", "affinity: zone In a, b");
    kit_end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_counts_before_the_watch_shows_it),
        cmocka_unit_test(an_unknown_request_is_named),
        cmocka_unit_test(an_invalid_pool_is_told),
        cmocka_unit_test(all_of_an_incomplete_pool_is_an_error),
        cmocka_unit_test(more_than_32_devices_is_an_error),
        cmocka_unit_test(deallocated_elsewhere_in_the_meantime),
        cmocka_unit_test(zero_of_an_extended_resource_is_nothing),
        cmocka_unit_test(a_missing_template_is_named),
        cmocka_unit_test(the_unmatched_label_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
