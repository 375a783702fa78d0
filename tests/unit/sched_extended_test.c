// SPDX-License-Identifier: Apache-2.0
//
// Extended resources with a class behind them, and devices that take of the node's own resources.
#include "sched_kit.h"

#include "base/banned.h"

#define ASKS(list) "'containers':[{'name':'c','image':'i','resources':{'requests':{" list "}}}]"
#define EXPLICIT                                        \
    CLASS("ext", "'extendedResourceName':'example.com/" \
                 "gpu','selectors':[{'cel':{'expression':'device.driver == \\\"drv\\\"'}}]")

static const struct api_resource_claim *special(struct kit *k, struct str *ret_name)
{
    const struct api_pod *p = world_pod(&k->w, "ns/p");
    cleanup_sbuf struct sbuf key = {0};
    assert_non_null(p->status.extended_resource_claim_status);
    *ret_name = p->status.extended_resource_claim_status->resource_claim_name;
    sbuf_addf(&key, "ns/%.*s", STR_ARG(*ret_name));
    const struct api_resource_claim *c = world_claim(&k->w, key.p);
    assert_non_null(c);
    return c;
}

// §9: the claim is made in PreBind, owned by the pod, marked, allocated and reserved; the pod's
// status maps containers to requests.
static void a_claim_is_made_for_the_pod(void **state)
{
    (void)state;
    struct kit k;
    struct str name;
    kit_start(&k);
    world_put(&k.w, EXPLICIT);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 3);
    kit_pod(&k, "p", ASKS("'cpu':'1','example.com/gpu':'2'"));
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    const struct api_resource_claim *c = special(&k, &name);
    assert_true(str_starts(name, STR("p-extended-resources-")));
    assert_str(c->metadata.annotations.p[0].key, "resource.kubernetes.io/extended-resource-claim");
    assert_str(c->metadata.owner_references.p[0].name, "p");
    assert_true(c->metadata.owner_references.p[0].controller);
    assert_int_equal(c->spec.devices.requests.n, 1);
    assert_str(c->spec.devices.requests.p[0].name, "container-0-request-1"); // cpu is request 0
    assert_int_equal(c->spec.devices.requests.p[0].exactly->count, 2);
    assert_int_equal(c->status.allocation->devices.results.n, 2);
    assert_int_equal(c->status.reserved_for.n, 1);
    const struct api_container_extended_resource_request *m =
        &world_pod(&k.w, "ns/p")->status.extended_resource_claim_status->request_mappings.p[0];
    assert_str(m->container_name, "c");
    assert_str(m->resource_name, "example.com/gpu");
    assert_str(m->request_name, "container-0-request-1");
    kit_end(&k);
}

// §9: every class has an implicit name.
static void the_implicit_name_works(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_pod(&k, "p", ASKS("'deviceclass.resource.kubernetes.io/gpu':'1'"));
    kit_pod(&k, "q", ASKS("'deviceclass.resource.kubernetes.io/gpu':'1'"));
    world_run(&k.w, 10);
    assert_int_equal(kit_stats(&k).bound, 1);
    assert_int_equal(kit_stats(&k).waiting, 1);
    kit_end(&k);
}

// §9: a node that offers the resource itself serves it itself.
static void device_plugins_come_first(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    world_put(&k.w, EXPLICIT);
    world_put(&k.w, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'n'},'status':"
                    "{'allocatable':{'cpu':'4','memory':'1Gi','pods':'9','example.com/gpu':'1'}}}");
    kit_gpus(&k, "n", 3);
    kit_pod(&k, "p", ASKS("'example.com/gpu':'1'"));
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_count(&k.w, "ResourceClaim"), 0);
    kit_pod(&k, "q", ASKS("'example.com/gpu':'1'"));
    world_run(&k.w, 10);
    kit_told(&k, "ns/q", "insufficient example.com/gpu");
    kit_end(&k);
}

// §9: of two classes with one name the younger wins, of equals the lower name.
static void the_younger_class_wins(void **state)
{
    (void)state;
    struct kit k;
    struct str name;
    kit_start(&k);
#define AGED(n, time)                                                                \
    "{'apiVersion':'resource.k8s.io/v1','kind':'DeviceClass','metadata':{'name':'" n \
    "','creationTimestamp':'" time "'},'spec':{'extendedResourceName':'example.com/gpu'}}"
    world_put(&k.w, AGED("old", "2026-01-01T00:00:00Z"));
    world_put(&k.w, AGED("young-b", "2026-02-01T00:00:00Z"));
    world_put(&k.w, AGED("young-a", "2026-02-01T00:00:00Z"));
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_pod(&k, "p", ASKS("'example.com/gpu':'1'"));
    world_run(&k.w, 10);
    assert_str(special(&k, &name)->spec.devices.requests.p[0].exactly->device_class_name,
               "young-a");
    kit_end(&k);
}

// §9: short-lived init containers reuse what long-lived ones behind them get, and share the rest.
static void init_containers_reuse_requests(void **state)
{
    (void)state;
    struct kit k;
    struct str name;
    kit_start(&k);
    world_put(&k.w, EXPLICIT);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 8);
#define GPU(n, more, count) \
    "{'name':'" n "'" more ",'resources':{'requests':{'example.com/gpu':'" count "'}}}"
    kit_pod(&k, "p",
            "'initContainers':[" GPU("i0", "", "1") "," GPU("i1", "", "4") "," GPU(
                "side", ",'restartPolicy':'Always'",
                "1") "," GPU("i2", "", "3") "],'containers':[" GPU("c", "", "1") "]");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    const struct api_resource_claim *c = special(&k, &name);
    // i1 needs 4, has 1 (side) + 1 (c): 2 more. i2 needs 3, has 1 (c): 2 more. The larger is
    // shared.
    assert_int_equal(c->spec.devices.requests.n, 3);
    assert_str(c->spec.devices.requests.p[0].name, "container-1-request-0");
    assert_int_equal(c->spec.devices.requests.p[0].exactly->count, 2);
    assert_str(c->spec.devices.requests.p[1].name, "container-2-request-0");
    assert_str(c->spec.devices.requests.p[2].name, "container-4-request-0");
    const struct api_container_extended_resource_request_array *m =
        &world_pod(&k.w, "ns/p")->status.extended_resource_claim_status->request_mappings;
    bool shared = false;
    for (size_t i = 0; i < m->n; i++)
        shared |= str_eqz(m->p[i].container_name, "i2") &&
                  str_eqz(m->p[i].request_name, "container-1-request-0");
    assert_true(shared);
    kit_end(&k);
}

static int refuse_bind(struct world *w, const char *verb, const struct api_kind *kind,
                       struct str name)
{
    (void)kind;
    (void)name;
    if (strcmp(verb, "bind") != 0 || w->refusals-- <= 0)
        return 0;
    return -ERR_FORBIDDEN;
}

// §6: a failed binding deletes the claim again.
static void unreserve_deletes_the_claim(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    world_put(&k.w, EXPLICIT);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    k.w.refuse = refuse_bind;
    k.w.refusals = 1;
    kit_pod(&k, "p", ASKS("'example.com/gpu':'1'"));
    world_run(&k.w, 50);
    assert_int_equal(world_count(&k.w, "ResourceClaim"), 0);
    world_run(&k.w, 1500);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_count(&k.w, "ResourceClaim"), 1);
    kit_end(&k);
}

// §8, §9: a claim left behind by an earlier attempt is deleted, then the pod is tried anew.
static void a_stale_claim_is_deleted_first(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    world_put(&k.w, EXPLICIT);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    world_put(
        &k.w,
        "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'stale',"
        "'namespace':'ns','finalizers':['resource.kubernetes.io/delete-protection'],"
        "'annotations':{'resource.kubernetes.io/extended-resource-claim':'true'},"
        "'ownerReferences':[{'apiVersion':'v1','kind':'Pod','name':'p','uid':'u-p',"
        "'controller':true}]},'spec':{'devices':{'requests':[{'name':'container-0-request-0',"
        "'exactly':{'deviceClassName':'ext','allocationMode':'ExactCount','count':1}}]}},"
        "'status':{'allocation':{'devices':{'results':[{'request':'container-0-request-0',"
        "'driver':'drv','pool':'n','device':'gpu-0'}]}}}}");
    kit_pod_of(&k, "p", ",'uid':'u-p'", ASKS("'example.com/gpu':'1'"));
    // The claim is known as the pod's from the pod's status, or from its owner when it changes.
    world_put(
        &k.w,
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','namespace':'ns','uid':'u-p'},"
        "'spec':{'schedulerName':'dray'," ASKS(
            "'example.com/gpu':'1'") "},'status':"
                                     "{'extendedResourceClaimStatus':{'resourceClaimName':'stale','"
                                     "requestMappings':[]}}}");
    world_run(&k.w, 20);
    assert_null(world_claim(&k.w, "ns/stale"));
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// §4.5, §15 of FEATURES: devices that take cpu of the node count, and the pod's status says so.
static void devices_take_of_the_node(void **state)
{
    (void)state;
    struct kit k;
    struct features f;
    features_init(&f, FEATURES_MINOR);
    f.on[FEATURE_DRA_NODE_ALLOCATABLE_RESOURCES] = true;
    kit_start_with(&k, (struct sched_options){.features = &f});
    kit_node(&k, "n", "");
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':"
                    "'s'},'spec':{'driver':'drv','nodeName':'n','pool':{'name':'n','generation':1,"
                    "'resourceSliceCount':1},'devices':[{'name':'d0','nodeAllocatableResources':"
                    "{'cpu':{'mapping':{'deviceMultiplier':'3'},'overhead':{'perPod':'500m'}}}},"
                    "{'name':'d1','nodeAllocatableResources':{'cpu':{'mapping':{'deviceMultiplier':"
                    "'3'}}}}]}}");
    kit_gpu_pod(&k, "p", 1);
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    const struct api_pod *p = world_pod(&k.w, "ns/p");
    assert_int_equal(p->status.node_allocatable_resource_claim_statuses.n, 1);
    assert_str(p->status.node_allocatable_resource_claim_statuses.p[0].resource_claim_name, "p");
    kit_gpu_pod(&k, "q", 1);
    world_run(&k.w, 10);
    kit_told(&k, "ns/q", "insufficient cpu");
    // A claim with a mapped device is not shared.
    kit_pod(&k, "r", "'resourceClaims':[{'name':'gpu','resourceClaimName':'p'}]");
    world_run(&k.w, 10);
    kit_told(&k, "ns/r", "cannot be shared across pods");
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(a_claim_is_made_for_the_pod), TEST_CASE(the_implicit_name_works),
          TEST_CASE(device_plugins_come_first), TEST_CASE(the_younger_class_wins),
          TEST_CASE(init_containers_reuse_requests), TEST_CASE(unreserve_deletes_the_claim),
          TEST_CASE(a_stale_claim_is_deleted_first), TEST_CASE(devices_take_of_the_node))
