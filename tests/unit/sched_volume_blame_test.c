// SPDX-License-Identifier: Apache-2.0
//
// Volumes: who is told what is to blame, and what happens to those that wait beside a pod on its
// way.
#include "sched_volume_kit.h"

#include "base/banned.h"

#define CLAIM(v, c) "{'name':'" v "','persistentVolumeClaim':{'claimName':'" c "'}}"

// --- What is to blame ----------------------------------------------------------------------------

static struct str why(struct kit *k, struct sbuf *out)
{
    struct err err;
    sbuf_clear(out);
    assert_int_equal(sched_explain(k->s, STR("pods"), STR("ns"), STR("p"), out, &err), 0);
    return sbuf_str(out);
}

// A claim's name may be part of another's, or of any word: only the one that is to blame is spoken
// of.
static void a_claim_that_is_well_is_not_blamed(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf out = {0};
    kit_start(&k);
    kit_node(&k, "a", "");
    volume_put(&k, "pv", "", "1Gi", "", "");
    claim_bound(&k, "data", "pv", "ReadWriteOnce");
    kit_pod(&k, "p", "'volumes':[" CLAIM("v", "data") "," CLAIM("w", "data-2") "]");
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "persistentvolumeclaim \"data-2\" not found");
    assert_false(kit_holds(why(&k, &out), "uses claim data"));
    assert_true(kit_holds(why(&k, &out), "data-2"));
    kit_end(&k);
}

static void only_unbound_claims_have_to_be_bound(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf out = {0};
    kit_start(&k);
    kit_node(&k, "a", "");
    class_put(&k, "now", "example.com/disk", "Immediate", "");
    volume_put(&k, "pv", "", "1Gi", "", "");
    claim_bound(&k, "data", "pv", "ReadWriteOnce");
    claim_put(&k, "more", "now", "1Gi", "", "");
    kit_pod(&k, "p", "'volumes':[" CLAIM("v", "data") "," CLAIM("w", "more") "]");
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "unbound immediate");
    assert_true(kit_holds(why(&k, &out), "claim more has to be bound first"));
    assert_false(kit_holds(why(&k, &out), "uses claim data"));
    kit_end(&k);
}

// The unbound claim could have a volume on the node; the bound one's is elsewhere.
static void a_node_is_told_of_the_claim_that_lacks(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf out = {0};
    kit_start(&k);
    kit_node(&k, "a", "");
    class_put(&k, "disk", "example.com/disk", "WaitForFirstConsumer", "");
    claim_put(&k, "data", "disk", "1Gi", "", "");
    volume_put(&k, "far", "", "1Gi", "", ON_NODE("gone"));
    claim_bound(&k, "more", "far", "ReadWriteOnce");
    kit_pod(&k, "p", "'volumes':[" CLAIM("v", "data") "," CLAIM("w", "more") "]");
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "PersistentVolume's node affinity");
    assert_true(kit_holds(why(&k, &out), "volume far can be reached from no node"));
    assert_false(kit_holds(why(&k, &out), "let provisioner example.com/disk"));
    kit_end(&k);
}

static void a_zone_is_told(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf out = {0};
    kit_start(&k);
    world_put(&k.w, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'a','labels':{"
                    "'topology.kubernetes.io/zone':'x'}},'status':{'allocatable':{'cpu':'4',"
                    "'memory':'8Gi','pods':'9'}}}");
    volume_put(&k, "pv", "", "1Gi", ",'labels':{'topology.kubernetes.io/zone':'y'}", "");
    claim_bound(&k, "data", "pv", "ReadWriteOnce");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "had no available volume zone");
    assert_true(kit_holds(why(&k, &out), "volume pv can be reached from no node"));
    assert_false(kit_holds(why(&k, &out), "end a pod with volumes"));
    kit_end(&k);
}

// A provisioner was told of a node that is gone: nobody can make room there.
static void a_claim_for_a_node_that_is_gone_is_told(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf out = {0};
    kit_start(&k);
    kit_node(&k, "a", "");
    class_put(&k, "disk", "example.com/disk", "WaitForFirstConsumer", "");
    claim_put(&k, "data", "disk", "1Gi",
              ",'annotations':{'volume.kubernetes.io/selected-node':'gone'}", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "is being made for node gone");
    assert_true(kit_holds(why(&k, &out), "node gone is not there"));
    assert_true(kit_holds(why(&k, &out), "kubectl annotate pvc data -n ns "
                                         "volume.kubernetes.io/selected-node-"));
    assert_false(kit_holds(why(&k, &out), "make room there"));
    kit_end(&k);
}

// Claims for storage are none of the business of DynamicResources.
static void volumes_are_not_counted_as_devices(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf out = {0};
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "not found");
    sched_metrics(k.s, &out);
    assert_false(kit_holds(sbuf_str(&out), "extension_point=\"PreFilter\",plugin=\"DynamicResources"
                                           "\",status=\"UnschedulableAndUnresolvable\""));
    kit_end(&k);
}

// --- Beside a pod on its way ---------------------------------------------------------------------

// The time a gang waits for its last pods is not the time that a volume may take.
static void a_gang_waits_as_long_as_a_volume_may_take(void **state)
{
    (void)state;
    struct kit k;
    struct features gates;
    struct err err;
    features_init(&gates, FEATURES_MINOR);
    assert_int_equal(features_parse(&gates, STR("GenericWorkload=true"), &err), 0);
    kit_start_with(&k, (struct sched_options){.features = &gates});
    kit_node(&k, "a", "");
    class_put(&k, "disk", "example.com/disk", "WaitForFirstConsumer", "");
    claim_put(&k, "data", "disk", "1Gi", "", "");
    world_put(&k.w, "{'apiVersion':'scheduling.k8s.io/v1beta1','kind':'PodGroup','metadata':"
                    "{'name':'g','namespace':'ns'},'spec':{'schedulingPolicy':{'gang':{"
                    "'minCount':2}}}}");
    kit_pod(&k, "p", "'schedulingGroup':{'podGroupName':'g'}," DATA);
    kit_pod(&k, "q", "'schedulingGroup':{'podGroupName':'g'}");
    world_run(&k.w, 400000);
    assert_int_equal(kit_stats(&k).errors, 0);
    assert_int_equal(kit_stats(&k).binding, 2);
    volume_put(&k, "made", "disk", "1Gi", "", "");
    controller_binds(&k, "data", "disk", "made");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "a");
    kit_on(&k, "ns/q", "a");
    kit_end(&k);
}

// A write that came to nothing, of a pod that is gone by then: nothing but its end tells that the
// volume is free.
static int refuse_once_pod_is_gone(struct world *w, const char *verb, const struct api_kind *kind,
                                   struct str name)
{
    (void)verb;
    (void)name;
    if (!str_eqz(kind->kind, "PersistentVolume") || w->refusals-- <= 0)
        return 0;
    world_delete(w, "Pod", "ns/p");
    return -ERR_UNAVAILABLE;
}

static void a_volume_is_free_when_its_pod_has_gone(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    class_put(&k, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", "");
    volume_put(&k, "pv", "local", "1Gi", "", "");
    claim_put(&k, "data", "local", "1Gi", "", "");
    claim_put(&k, "more", "local", "1Gi", "", "");
    k.w.refuse = refuse_once_pod_is_gone;
    k.w.refusals = 1;
    k.w.refused_ms = 10000; // long after the others were tried again
    kit_pod(&k, "p", DATA);
    kit_pod(&k, "q", "'volumes':[" CLAIM("v", "more") "]");
    world_run(&k.w, 60000);
    assert_null(world_pod(&k.w, "ns/p"));
    const struct api_object_reference *r = world_volume(&k.w, "pv")->spec.claim_ref;
    assert_true(r && str_eqz(r->name, "more"));
    kit_end(&k);
}

// Pods that share a claim all learn that it is bound.
static void all_that_share_a_claim_go_on(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    class_put(&k, "disk", "example.com/disk", "WaitForFirstConsumer", "");
    claim_put(&k, "data", "disk", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    kit_pod(&k, "q", DATA);
    kit_pod(&k, "r", DATA);
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).binding, 3);
    controller_binds(&k, "data", "disk", "made");
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).binding, 3); // the volume itself is not known yet
    volume_put(&k, "made", "disk", "1Gi", "", ",'claimRef':{'namespace':'ns','name':'data'}");
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).binding, 0);
    kit_on(&k, "ns/p", "a");
    kit_on(&k, "ns/q", "a");
    kit_on(&k, "ns/r", "a");
    kit_end(&k);
}

// A volume that is being deleted is given to nobody, not even to whom it was promised.
static void a_volume_that_goes_is_not_given(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    class_put(&k, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", "");
    volume_put(&k, "pv", "local", "1Gi",
               ",'finalizers':['x'],'deletionTimestamp':'2026-01-01T00:00:00Z'",
               ",'claimRef':{'namespace':'ns','name':'data'}");
    claim_put(&k, "data", "local", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "find available persistent volumes to bind");
    kit_end(&k);
}

#define BY(key, op, values)                                                               \
    ",'nodeAffinity':{'required':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'" key \
    "','operator':'" op "','values':[" values "]}]}]}}"

// Volumes are found by labels of nodes, whichever those are, and still the smallest is given.
static void the_smallest_of_all_sorts_is_given(void **state)
{
    (void)state;
    static const char *const order[] = {"zone", "either", "host", "any", "other", NULL};
    struct kit k;
    kit_start(&k);
    world_put(&k.w, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'a','labels':{"
                    "'kubernetes.io/hostname':'a','zone':'x'}},'status':{'allocatable':{'cpu':'4',"
                    "'memory':'8Gi','pods':'9'}}}");
    local_class(&k);
    volume_put(&k, "far", "local", "1Gi", "", BY("zone", "In", "'y'"));
    volume_put(&k, "strange", "local", "1Gi", "", BY("rack", "In", "'x'"));
    volume_put(&k, "host", "local", "4Gi", "", ON_NODE("a"));
    volume_put(&k, "zone", "local", "2Gi", "", BY("zone", "In", "'x'"));
    volume_put(&k, "other", "local", "6Gi", "", BY("zone", "In", "'x'"));
    volume_put(&k, "either", "local", "3Gi", "", BY("zone", "In", "'x','y'"));
    volume_put(&k, "any", "local", "5Gi", "", "");
    world_run(&k.w, 100);
    for (size_t i = 0; order[i]; i++) {
        cleanup_sbuf struct sbuf spec = {0};
        claim_put(&k, order[i], "local", "1Gi", "", "");
        sbuf_addf(&spec, "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'%s'}}]",
                  order[i]);
        kit_pod(&k, order[i], spec.p);
        world_run(&k.w, 100);
        const struct api_object_reference *r = world_volume(&k.w, order[i])->spec.claim_ref;
        assert_true(r && str_eqz(r->name, order[i]));
    }
    assert_null(world_volume(&k.w, "far")->spec.claim_ref);
    assert_null(world_volume(&k.w, "strange")->spec.claim_ref);
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(a_claim_that_is_well_is_not_blamed),
          TEST_CASE(only_unbound_claims_have_to_be_bound),
          TEST_CASE(a_node_is_told_of_the_claim_that_lacks), TEST_CASE(a_zone_is_told),
          TEST_CASE(a_claim_for_a_node_that_is_gone_is_told),
          TEST_CASE(volumes_are_not_counted_as_devices),
          TEST_CASE(a_gang_waits_as_long_as_a_volume_may_take),
          TEST_CASE(a_volume_is_free_when_its_pod_has_gone),
          TEST_CASE(all_that_share_a_claim_go_on), TEST_CASE(a_volume_that_goes_is_not_given),
          TEST_CASE(the_smallest_of_all_sorts_is_given))
