// SPDX-License-Identifier: Apache-2.0
//
// Volumes that outlive pods: claims that are not there, volumes that cannot be reached, claims that
// wait for their first pod.
#include "api/match/claim.h"
#include "sched_volume_kit.h"

#include "base/banned.h"

static void start(struct kit *k)
{
    kit_start(k);
    kit_node(k, "a", "");
    kit_node(k, "b", "");
    world_run(&k->w, 1);
}

static void pods_without_claims_read_nothing(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_pod(&k, "p", "'volumes':[{'name':'v','emptyDir':{}}]");
    world_run(&k.w, 100);
    assert_int_not_equal(world_node_of(&k.w, "ns/p").n, 0);
    assert_false(world_watches(&k.w, "PersistentVolumeClaim"));
    kit_pod(&k, "q", DATA);
    world_run(&k.w, 100);
    assert_true(world_watches(&k.w, "PersistentVolumeClaim"));
    kit_end(&k);
}

static void a_missing_claim_is_waited_for(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "0/2 nodes are available: persistentvolumeclaim \"data\" not found.");
    uint64_t attempts = kit_stats(&k).attempts;
    claim_bound(&k, "other", "pv", "ReadWriteOnce");
    world_run(&k.w, 3000);
    assert_int_equal(kit_stats(&k).attempts, attempts); // another's claim is none of its business
    volume_put(&k, "pv", "", "1Gi", "", "");
    claim_bound(&k, "data", "pv", "ReadWriteOnce");
    world_run(&k.w, 3000);
    assert_int_not_equal(world_node_of(&k.w, "ns/p").n, 0);
    kit_end(&k);
}

static void a_claim_that_goes_is_refused(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    volume_put(&k, "pv", "", "1Gi", "", "");
    claim_put(
        &k, "data", "", "1Gi",
        ",'finalizers':['x/y'],'deletionTimestamp':'2027-01-01T00:00:00Z','annotations':{'" BOUND
        "':'yes'}",
        ",'volumeName':'pv'");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "persistentvolumeclaim \"data\" is being deleted");
    kit_end(&k);
}

static void a_lost_claim_is_refused(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    world_put(&k.w, "{'apiVersion':'v1','kind':'PersistentVolumeClaim','metadata':{'name':'data',"
                    "'namespace':'ns'},'spec':{'volumeName':'pv'},'status':{'phase':'Lost'}}");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p",
             "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv\"");
    kit_end(&k);
}

static void an_ephemeral_claim_must_be_the_pods(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    volume_put(&k, "pv", "", "1Gi", "", "");
    kit_pod(&k, "p", "'volumes':[{'name':'tmp','ephemeral':{'volumeClaimTemplate':{'spec':{}}}}]");
    world_run(&k.w, 100);
    kit_told(
        &k, "ns/p",
        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-tmp\"");
    claim_bound(&k, "p-tmp", "pv", "ReadWriteOnce");
    world_run(&k.w, 15000);
    kit_told(&k, "ns/p", "PVC ns/p-tmp was not created for pod ns/p (pod is not owner)");
    cleanup_sbuf struct sbuf meta = {0};
    sbuf_addf(&meta,
              ",'annotations':{'" BOUND "':'yes'},'ownerReferences':[{'apiVersion':'v1','kind':"
              "'Pod','name':'p','controller':true,'uid':'%.*s'}]",
              STR_ARG(world_pod(&k.w, "ns/p")->metadata.uid));
    claim_put(&k, "p-tmp", "", "1Gi", meta.p, ",'volumeName':'pv'");
    world_run(&k.w, 15000);
    assert_int_not_equal(world_node_of(&k.w, "ns/p").n, 0);
    kit_end(&k);
}

static void an_immediate_claim_must_be_bound(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    class_put(&k, "fast", "example.com/disk", "Immediate", "");
    claim_put(&k, "data", "fast", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "pod has unbound immediate PersistentVolumeClaims");
    volume_put(&k, "pv", "fast", "1Gi", "", ON_NODE("b"));
    controller_binds(&k, "data", "fast", "pv");
    world_run(&k.w, 15000);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

static void a_claim_whose_class_is_gone_is_immediate(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    claim_put(&k, "data", "local", "1Gi", "", "");
    volume_put(&k, "pv", "local", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "pod has unbound immediate PersistentVolumeClaims");
    local_class(&k); // which wakes it
    world_run(&k.w, 15000);
    assert_non_null(world_volume(&k.w, "pv")->spec.claim_ref);
    kit_end(&k);
}

static void a_volume_is_reached_from_its_node(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    volume_put(&k, "pv", "", "1Gi", "", ON_NODE("b"));
    claim_bound(&k, "data", "pv", "ReadWriteOnce");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "b");
    volume_put(&k, "far", "", "1Gi", "", ON_NODE("c"));
    claim_bound(&k, "data", "far", "ReadWriteOnce");
    kit_pod(&k, "q", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/q",
             "didn't match PersistentVolume's node affinity (claim data has volume far)");
    kit_node(&k, "c", "");
    world_run(&k.w, 15000);
    kit_on(&k, "ns/q", "c");
    kit_end(&k);
}

static void a_volume_that_is_gone_is_said(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    claim_bound(&k, "data", "pv", "ReadWriteOnce");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "unavailable due to one or more pvc(s) bound to non-existent pv(s)");
    volume_put(&k, "pv", "", "1Gi", "", "");
    world_run(&k.w, 15000);
    assert_int_not_equal(world_node_of(&k.w, "ns/p").n, 0);
    kit_end(&k);
}

static void zoned_node(struct kit *k, const char *name, const char *key, const char *zone)
{
    world_putf(&k->w,
               "{'apiVersion':'v1','kind':'Node','metadata':{'name':'%s','labels':{'%s':'%s'}},"
               "'status':{'allocatable':{'cpu':'4','memory':'8Gi','pods':'9'}}}",
               name, key, zone);
}

static void a_volume_stays_in_its_zone(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    zoned_node(&k, "x", "topology.kubernetes.io/zone", "x");
    volume_put(&k, "pv", "", "1Gi", ",'labels':{'failure-domain.beta.kubernetes.io/zone':'y__z'}",
               "");
    claim_bound(&k, "data", "pv", "ReadWriteOnce");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "had no available volume zone");
    zoned_node(&k, "z", "topology.kubernetes.io/zone", "z"); // the newer name of the same label
    world_run(&k.w, 15000);
    kit_on(&k, "ns/p", "z");
    kit_end(&k);
}

// An older label of a volume may be met by the newer one of a node, not the other way round; a
// label with an empty zone says nothing.
static void older_names_of_zones_count_one_way(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    zoned_node(&k, "x", "failure-domain.beta.kubernetes.io/zone", "x");
    volume_put(&k, "pv", "", "1Gi", ",'labels':{'topology.kubernetes.io/zone':'x'}", "");
    volume_put(&k, "odd", "", "1Gi",
               ",'labels':{'topology.kubernetes.io/zone':'','topology.kubernetes.io/region':'a__'}",
               "");
    claim_bound(&k, "data", "pv", "ReadWriteOnce");
    claim_bound(&k, "more", "odd", "ReadWriteOnce");
    kit_pod(&k, "p", DATA);
    kit_pod(&k, "q", "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'more'}}]");
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "had no available volume zone");
    kit_on(&k, "ns/q", "x");
    kit_end(&k);
}

static void one_pod_alone_has_a_claim(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    volume_put(&k, "pv", "", "1Gi", "", "");
    claim_bound(&k, "data", "pv", "ReadWriteOncePod");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    assert_int_not_equal(world_node_of(&k.w, "ns/p").n, 0);
    kit_pod(&k, "q", DATA);
    world_run(&k.w, 100);
    kit_told(
        &k, "ns/q",
        "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod "
        "(data is used by pod ns/p)");
    world_delete(&k.w, "Pod", "ns/p");
    world_run(&k.w, 15000);
    assert_int_not_equal(world_node_of(&k.w, "ns/q").n, 0);
    kit_end(&k);
}

// The smallest volume that fits, by everything that a claim can ask for.
static void the_smallest_volume_is_given(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    local_class(&k);
    volume_put(&k, "large", "local", "9Gi", ",'labels':{'t':'x'}", ON_NODE("b"));
    volume_put(&k, "right", "local", "2Gi", ",'labels':{'t':'x'}", ON_NODE("b"));
    volume_put(&k, "small", "local", "512Mi", ",'labels':{'t':'x'}", ON_NODE("b"));
    volume_put(&k, "unlabelled", "local", "1Gi", "", ON_NODE("b"));
    volume_put(&k, "block", "local", "1Gi", ",'labels':{'t':'x'}",
               ",'volumeMode':'Block'" ON_NODE("b"));
    volume_put(&k, "other", "another", "1Gi", ",'labels':{'t':'x'}", ON_NODE("b"));
    volume_put(&k, "taken", "local", "1Gi", ",'labels':{'t':'x'}",
               ",'claimRef':{'namespace':'ns','name':'else'}" ON_NODE("b"));
    volume_put(&k, "nowhere", "local", "1Gi", ",'labels':{'t':'x'}", ON_NODE("c"));
    claim_put(&k, "data", "local", "1Gi", "", ",'selector':{'matchLabels':{'t':'x'}}");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    const struct api_persistent_volume *v = world_volume(&k.w, "right");
    assert_non_null(v->spec.claim_ref);
    assert_str(v->spec.claim_ref->name, "data");
    assert_str(v->spec.claim_ref->namespace, "ns");
    assert_true(str_eq(v->spec.claim_ref->uid, world_volume_claim(&k.w, "ns/data")->metadata.uid));
    assert_str(meta_annotation(&v->metadata, STR("pv.kubernetes.io/bound-by-controller")), "yes");
    assert_null(world_volume(&k.w, "large")->spec.claim_ref);
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0); // before the claim is bound
    controller_binds(&k, "data", "local", "right");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

static void modes_must_be_offered(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    local_class(&k);
    volume_put(&k, "pv", "local", "1Gi", "", "");
    world_put(&k.w, "{'apiVersion':'v1','kind':'PersistentVolumeClaim','metadata':{'name':'data',"
                    "'namespace':'ns'},'spec':{'accessModes':['ReadWriteMany'],"
                    "'storageClassName':'local'}}");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p",
             "didn't find available persistent volumes to bind (claim data, class local)");
    kit_end(&k);
}

// Two pods, one volume for each: what is on its way is not given twice.
static void a_volume_on_its_way_is_not_given_twice(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    local_class(&k);
    volume_put(&k, "v1", "local", "1Gi", "", ON_NODE("a"));
    volume_put(&k, "v2", "local", "1Gi", "", ON_NODE("b"));
    claim_put(&k, "data", "local", "1Gi", "", "");
    claim_put(&k, "more", "local", "1Gi", "", "");
    world_run(&k.w, 10);
    world_lag(k.client, "PersistentVolume");
    kit_pod(&k, "p", DATA);
    kit_pod(&k, "q", "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'more'}}]");
    kit_pod(&k, "r", "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'data'}}]");
    world_run(&k.w, 100);
    world_release(k.client);
    world_run(&k.w, 100);
    assert_str(world_volume(&k.w, "v1")->spec.claim_ref->name, "data");
    assert_str(world_volume(&k.w, "v2")->spec.claim_ref->name, "more");
    controller_binds(&k, "data", "local", "v1");
    controller_binds(&k, "more", "local", "v2");
    world_run(&k.w, 6000);
    kit_on(&k, "ns/p", "a");
    kit_on(&k, "ns/q", "b");
    kit_on(&k, "ns/r", "a"); // it shares the claim, and so the node
    assert_int_equal(kit_stats(&k).errors, 0);
    kit_end(&k);
}

// A volume that was held for a claim which then got another one: who waits for it learns that it is
// free.
static void a_volume_that_its_claim_does_not_take_is_free_for_others(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    local_class(&k);
    volume_put(&k, "v1", "local", "1Gi", "", ON_NODE("a"));
    claim_put(&k, "data", "local", "1Gi", "", "");
    claim_put(&k, "more", "local", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 10);
    assert_str(world_volume(&k.w, "v1")->spec.claim_ref->name, "data");
    kit_pod(&k, "q", "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'more'}}]");
    world_run(&k.w, 10);
    kit_told(&k, "ns/q", "didn't find available persistent volumes to bind");
    // The claim is bound to a volume that is not known yet, and its own is let go: it stays held
    // until the pod is bound.
    controller_binds(&k, "data", "local", "v2");
    volume_put(&k, "v1", "local", "1Gi", "", ON_NODE("a"));
    world_run(&k.w, 30000);
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    assert_null(world_volume(&k.w, "v1")->spec.claim_ref);
    volume_put(&k, "v2", "other", "1Gi", "", ON_NODE("a"));
    world_run(&k.w, 30000);
    kit_on(&k, "ns/p", "a");
    assert_non_null(world_volume(&k.w, "v1")->spec.claim_ref);
    assert_str(world_volume(&k.w, "v1")->spec.claim_ref->name, "more");
    kit_end(&k);
}

// A pod with two claims gets two volumes of one node, the small claim the small one.
static void claims_of_a_pod_go_together(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    local_class(&k);
    volume_put(&k, "a-only", "local", "5Gi", "", ON_NODE("a"));
    volume_put(&k, "b-small", "local", "1Gi", "", ON_NODE("b"));
    volume_put(&k, "b-large", "local", "5Gi", "", ON_NODE("b"));
    claim_put(&k, "large", "local", "3Gi", "", "");
    claim_put(&k, "small", "local", "1Gi", "", "");
    kit_pod(&k, "p",
            "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'large'}},{'name':'w',"
            "'persistentVolumeClaim':{'claimName':'small'}}]");
    world_run(&k.w, 100);
    assert_str(world_volume(&k.w, "b-small")->spec.claim_ref->name, "small");
    assert_str(world_volume(&k.w, "b-large")->spec.claim_ref->name, "large");
    assert_null(world_volume(&k.w, "a-only")->spec.claim_ref);
    kit_end(&k);
}

static struct str selected(struct kit *k)
{
    return meta_annotation(&world_volume_claim(&k->w, "ns/data")->metadata,
                           STR("volume.kubernetes.io/selected-node"));
}

static void a_provisioner_is_told_the_node(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    class_put(&k, "disk", "example.com/disk", "WaitForFirstConsumer",
              ",'allowedTopologies':[{'matchLabelExpressions':[{'key':'kubernetes.io/hostname',"
              "'values':['b','c']}]}]");
    claim_put(&k, "data", "disk", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    assert_str(selected(&k), "b");
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    volume_put(&k, "made", "disk", "1Gi", "", ON_NODE("b"));
    controller_binds(&k, "data", "disk", "made");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

// The provisioner cannot, and takes the node's name away: the pod is tried again.
static void a_provisioner_gives_up(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    class_put(&k, "disk", "example.com/disk", "WaitForFirstConsumer", "");
    claim_put(&k, "data", "disk", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    assert_int_not_equal(selected(&k).n, 0);
    claim_put(&k, "data", "disk", "1Gi", "", "");
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "binding volumes: provisioning failed for PVC \"data\"");
    world_run(&k.w, 15000);
    assert_int_not_equal(selected(&k).n, 0);
    kit_end(&k);
}

static void waiting_for_a_volume_ends(void **state)
{
    (void)state;
    struct kit k;
    kit_start_with(&k, (struct sched_options){.binding_timeout_ns = 60 * CLOCK_NS_PER_SEC});
    kit_node(&k, "a", "");
    local_class(&k);
    volume_put(&k, "pv", "local", "1Gi", "", "");
    claim_put(&k, "data", "local", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 50000);
    assert_int_equal(kit_stats(&k).binding, 1);
    assert_int_equal(kit_stats(&k).errors, 0);
    world_run(&k.w, 15000);
    kit_told(&k, "ns/p", "binding volumes: timed out: persistentvolumeclaim \"data\" is not bound");
    world_run(&k.w, 2000);
    controller_binds(&k, "data", "local", "pv"); // the volume is still the claim's
    world_run(&k.w, 15000);
    kit_on(&k, "ns/p", "a");
    kit_end(&k);
}

static int refuse_volume(struct world *w, const char *verb, const struct api_kind *kind,
                         struct str name)
{
    (void)verb;
    (void)name;
    return str_eqz(kind->kind, "PersistentVolume") && w->refusals-- > 0 ? -ERR_CONFLICT : 0;
}

static void a_refused_write_is_tried_again(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    local_class(&k);
    volume_put(&k, "pv", "local", "1Gi", "", ON_NODE("b"));
    claim_put(&k, "data", "local", "1Gi", "", "");
    k.w.refuse = refuse_volume;
    k.w.refusals = 1;
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "binding volumes: refused by the test");
    assert_null(world_volume(&k.w, "pv")->spec.claim_ref);
    world_run(&k.w, 15000);
    assert_non_null(world_volume(&k.w, "pv")->spec.claim_ref);
    controller_binds(&k, "data", "local", "pv");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

static void a_pod_may_go_while_it_waits(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    local_class(&k);
    volume_put(&k, "pv", "local", "1Gi", "", "");
    claim_put(&k, "data", "local", "1Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).binding, 1);
    world_delete(&k.w, "Pod", "ns/p");
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).binding, 0);
    assert_true(sched_idle(k.s));
    kit_end(&k);
}

// Devices are held while volumes are being bound, and written afterwards.
static void devices_wait_for_volumes(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_gpus(&k, "a", 1);
    kit_gpus(&k, "b", 1);
    local_class(&k);
    volume_put(&k, "pv", "local", "1Gi", "", ON_NODE("b"));
    claim_put(&k, "data", "local", "1Gi", "", "");
    kit_claim(&k, "gpu", 1);
    kit_pod(&k, "p", DATA ",'resourceClaims':[{'name':'gpu','resourceClaimName':'gpu'}]");
    world_run(&k.w, 100);
    assert_null(world_claim(&k.w, "ns/gpu")->status.allocation);
    kit_gpu_pod(&k, "q", 1);
    kit_gpu_pod(&k, "r", 1);
    world_run(&k.w, 100);
    kit_on(&k, "ns/q", "a");
    kit_told(&k, "ns/r", "held by ns/gpu");
    controller_binds(&k, "data", "local", "pv");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "b");
    assert_non_null(world_claim(&k.w, "ns/gpu")->status.allocation);
    kit_end(&k);
}

static void gang_member(struct kit *k, const char *name)
{
    cleanup_sbuf struct sbuf spec = {0};
    claim_put(k, name, "local", "1Gi", "", "");
    sbuf_addf(&spec,
              "'schedulingGroup':{'podGroupName':'g'},'volumes':[{'name':'v',"
              "'persistentVolumeClaim':{'claimName':'%s'}}]",
              name);
    kit_pod(k, name, spec.p);
}

static bool any_placed(struct kit *k)
{
    return world_node_of(&k->w, "ns/m0").n || world_node_of(&k->w, "ns/m1").n;
}

static void start_gang(struct kit *k)
{
    static struct features gates;
    struct err err;
    features_init(&gates, FEATURES_MINOR);
    assert_int_equal(features_parse(&gates, STR("GenericWorkload=true"), &err), 0);
    kit_start_with(k, (struct sched_options){.features = &gates,
                                             .binding_timeout_ns = 60 * CLOCK_NS_PER_SEC});
    kit_node(k, "a", "");
    kit_node(k, "b", "");
    local_class(k);
    volume_put(k, "v1", "local", "1Gi", "", ON_NODE("a"));
    world_put(&k->w, "{'apiVersion':'scheduling.k8s.io/v1beta1','kind':'PodGroup','metadata':"
                     "{'name':'g','namespace':'ns'},'spec':{'schedulingPolicy':{'gang':{"
                     "'minCount':2}}}}");
}

// Pods of a gang get a volume each, and none runs before all have theirs.
static void a_gang_waits_for_all_volumes(void **state)
{
    (void)state;
    struct kit k;
    start_gang(&k);
    gang_member(&k, "m0");
    gang_member(&k, "m1");
    world_run(&k.w, 100);
    assert_false(any_placed(&k));
    assert_null(world_volume(&k.w, "v1")->spec.claim_ref); // all or nothing
    volume_put(&k, "v2", "local", "1Gi", "", ON_NODE("b"));
    world_run(&k.w, 15000);
    const struct api_object_reference *first = world_volume(&k.w, "v1")->spec.claim_ref;
    const struct api_object_reference *second = world_volume(&k.w, "v2")->spec.claim_ref;
    assert_true(first && second && !str_eq(first->name, second->name));
    cleanup_sbuf struct sbuf one = {0}, other = {0};
    sbuf_add(&one, first->name);
    sbuf_add(&other, second->name);
    controller_binds(&k, one.p, "local", "v1");
    world_run(&k.w, 1000);
    assert_false(any_placed(&k));
    world_run(&k.w, 90000); // the other's claim is not bound in time: both are tried again
    assert_false(any_placed(&k));
    assert_true(kit_stats(&k).errors > 0);
    controller_binds(&k, other.p, "local", "v2");
    world_run(&k.w, 30000);
    assert_int_not_equal(world_node_of(&k.w, "ns/m0").n, 0);
    assert_int_not_equal(world_node_of(&k.w, "ns/m1").n, 0);
    kit_end(&k);
}

// One of a gang cannot have its volume any more: the others do not go on waiting for theirs.
static void a_gang_goes_back_together(void **state)
{
    (void)state;
    struct kit k;
    start_gang(&k);
    volume_put(&k, "v2", "local", "1Gi", "", ON_NODE("b"));
    gang_member(&k, "m0");
    gang_member(&k, "m1");
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).binding, 2);
    world_delete(&k.w, "PersistentVolumeClaim", "ns/m1");
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).binding, 0);
    kit_end(&k);
}

static void csi_node(struct kit *k, const char *name, int count)
{
    world_putf(&k->w,
               "{'apiVersion':'storage.k8s.io/v1','kind':'CSINode','metadata':{'name':'%s'},'spec':"
               "{'drivers':[{'name':'csi.example.com','nodeID':'%s','allocatable':{'count':%d}}]}}",
               name, name, count);
}

static void csi_pod(struct kit *k, const char *name)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, ",'csi':{'driver':'csi.example.com','volumeHandle':'%s'}", name);
    volume_put(k, name, "", "1Gi", "", text.p);
    claim_bound(k, name, name, "ReadWriteOnce");
    sbuf_clear(&text);
    sbuf_addf(&text, "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'%s'}}]", name);
    kit_pod(k, name, text.p);
    world_run(&k->w, 100);
}

static void a_node_has_so_many_volumes(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    csi_node(&k, "a", 2);
    csi_pod(&k, "p");
    csi_pod(&k, "q");
    csi_pod(&k, "r");
    kit_on(&k, "ns/p", "a");
    kit_on(&k, "ns/q", "a");
    kit_told(&k, "ns/r", "exceeds max volume count (driver csi.example.com: 2 of 2 in use)");
    kit_pod(&k, "s", "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'p'}}]");
    world_run(&k.w, 100);
    kit_on(&k, "ns/s", "a"); // a volume that is there already
    csi_node(&k, "a", 3);
    world_run(&k.w, 15000);
    kit_on(&k, "ns/r", "a");
    kit_end(&k);
}

static void a_driver_says_where_it_has_room(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    world_put(&k.w, "{'apiVersion':'storage.k8s.io/v1','kind':'CSIDriver','metadata':{'name':"
                    "'csi.example.com'},'spec':{'storageCapacity':true}}");
    class_put(&k, "disk", "csi.example.com", "WaitForFirstConsumer", "");
    claim_put(&k, "data", "disk", "10Gi", "", "");
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "did not have enough free storage");
    world_put(&k.w, "{'apiVersion':'storage.k8s.io/v1','kind':'CSIStorageCapacity','metadata':"
                    "{'name':'c','namespace':'ns'},'storageClassName':'disk','capacity':'20Gi',"
                    "'nodeTopology':{'matchLabels':{'kubernetes.io/hostname':'b'}}}");
    world_run(&k.w, 15000);
    assert_str(selected(&k), "b");
    kit_end(&k);
}

// What the server does not show may be what keeps a pod from every node: it waits, says why, and is
// tried when it can be seen.
static void waits_for_permission(const char *kind, const char *told)
{
    struct kit k;
    start(&k);
    k.w.denied = kind;
    kit_pod(&k, "p", DATA);
    kit_pod(&k, "plain", "");
    world_run(&k.w, 100);
    assert_true(sched_synced(k.s));
    kit_told(&k, "ns/p", told);
    assert_int_not_equal(world_node_of(&k.w, "ns/plain").n, 0); // it has no volumes to look at
    world_run(&k.w, 60000);
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    k.w.denied = NULL;
    world_run(&k.w, 120000);
    kit_told(&k, "ns/p", "persistentvolumeclaim \"data\" not found");
    kit_end(&k);
}

static void without_permission_pods_with_volumes_wait(void **state)
{
    (void)state;
    waits_for_permission("PersistentVolumeClaim", "list persistentvolumeclaims of v1");
    waits_for_permission("PersistentVolume", "list persistentvolumes of v1");
    waits_for_permission("CSINode", "list csinodes of storage.k8s.io/v1");
}

// A server that has no such kinds has no volumes either: pods are placed as if there were none.
static void without_the_kinds_volumes_are_not_looked_at(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    k.w.denied = "PersistentVolume";
    k.w.unknown = true;
    kit_pod(&k, "p", DATA);
    world_run(&k.w, 100);
    assert_int_not_equal(world_node_of(&k.w, "ns/p").n, 0);
    k.w.denied = NULL; // from here on they are
    world_run(&k.w, 120000);
    kit_pod(&k, "q", DATA);
    world_run(&k.w, 100);
    kit_told(&k, "ns/q", "persistentvolumeclaim \"data\" not found");
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(pods_without_claims_read_nothing), TEST_CASE(a_missing_claim_is_waited_for),
          TEST_CASE(a_claim_that_goes_is_refused), TEST_CASE(a_lost_claim_is_refused),
          TEST_CASE(an_ephemeral_claim_must_be_the_pods),
          TEST_CASE(an_immediate_claim_must_be_bound),
          TEST_CASE(a_claim_whose_class_is_gone_is_immediate),
          TEST_CASE(a_volume_is_reached_from_its_node), TEST_CASE(a_volume_that_is_gone_is_said),
          TEST_CASE(a_volume_stays_in_its_zone), TEST_CASE(older_names_of_zones_count_one_way),
          TEST_CASE(one_pod_alone_has_a_claim), TEST_CASE(the_smallest_volume_is_given),
          TEST_CASE(modes_must_be_offered), TEST_CASE(a_volume_on_its_way_is_not_given_twice),
          TEST_CASE(a_volume_that_its_claim_does_not_take_is_free_for_others),
          TEST_CASE(claims_of_a_pod_go_together), TEST_CASE(a_provisioner_is_told_the_node),
          TEST_CASE(a_provisioner_gives_up), TEST_CASE(waiting_for_a_volume_ends),
          TEST_CASE(a_refused_write_is_tried_again), TEST_CASE(a_pod_may_go_while_it_waits),
          TEST_CASE(devices_wait_for_volumes), TEST_CASE(a_gang_waits_for_all_volumes),
          TEST_CASE(a_gang_goes_back_together), TEST_CASE(a_node_has_so_many_volumes),
          TEST_CASE(a_driver_says_where_it_has_room),
          TEST_CASE(without_permission_pods_with_volumes_wait),
          TEST_CASE(without_the_kinds_volumes_are_not_looked_at))
