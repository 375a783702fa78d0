// SPDX-License-Identifier: Apache-2.0
//
// The life of claims in the scheduler, rule by rule: before the queue (PreEnqueue), before and at
// the nodes (PreFilter, Filter), choice (Score), Reserve and Unreserve, PreBind, PostFilter,
// sharing.
#include "sched_kit.h"

#include "base/banned.h"

#define USES(name) "'resourceClaims':[{'name':'gpu','resourceClaimName':'" name "'}]"
#define CLAIM(name, meta, requests, status)                                               \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'" name \
    "','namespace':'ns'" meta "},'spec':{'devices':{'requests':[" requests "]}}" status "}"
#define ONE \
    "{'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':'ExactCount','count':1}}"
#define RESULT(pool, device, rest) \
    "{'request':'r','driver':'drv','pool':'" pool "','device':'" device "'" rest "}"
#define ON(node)                                                                              \
    "'nodeSelector':{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name','operator':" \
    "'In','values':['" node "']}]}]}"
#define HAS(node, results, rest) \
    ",'status':{'allocation':{'devices':{'results':[" results "]}," ON(node) rest "}"

// A template's claim as the controller makes it: named in the pod's status.
static void template_pod(struct kit *k, const char *status)
{
    world_putf(
        &k->w,
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','namespace':'ns','uid':'u-p'},"
        "'spec':{'schedulerName':'dray','containers':[{'name':'c'}],'resourceClaims':"
        "[{'name':'gpu','resourceClaimTemplateName':'t'}]}%s}",
        status);
}

#define NAMED ",'status':{'resourceClaimStatuses':[{'name':'gpu','resourceClaimName':'c'}]}"

static void gated_with(struct kit *k, const char *text)
{
    cleanup_sbuf struct sbuf json = {0};
    struct err err;
    world_run(&k->w, 10);
    assert_int_equal(kit_stats(k).gated, 1);
    assert_int_equal(kit_stats(k).attempts, 0);
    assert_int_equal(world_condition(&k->w, "ns/p").n, 0); // neither condition nor event
    assert_int_equal(world_count(&k->w, "Event"), 0);
    assert_int_equal(sched_explain(k->s, STR("pod"), STR("ns"), STR("p"), &json, &err), 0);
    if (!kit_holds(sbuf_str(&json), text))
        fail_msg("\"%s\" is not in %s", text, json.p);
}

// §2: claims that are missing, being deleted or another's keep the pod out of the queue.
static void pre_enqueue_waits_for_claims(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    template_pod(&k, "");
    gated_with(&k, "ResourceClaim not created yet");
    template_pod(&k, NAMED);
    gated_with(&k, "could not find ResourceClaim \\\"ns/c\\\"");
    world_put(&k.w, CLAIM("c", ",'finalizers':['x'],'deletionTimestamp':'2026-01-01T00:00:00Z'",
                          ONE, ""));
    gated_with(&k, "resourceclaim \\\"c\\\" is being deleted");
    world_put(&k.w, CLAIM("c", "", ONE, ""));
    gated_with(&k, "ResourceClaim ns/c was not created for Pod ns/p (Pod is not owner)");
    world_put(&k.w, CLAIM("c",
                          ",'ownerReferences':[{'apiVersion':'v1','kind':'Pod','name':'p',"
                          "'uid':'u-p','controller':true}]",
                          ONE, ""));
    world_run(&k.w, 10); // at once, without back-off
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// §3: an entry whose status says that no claim is needed is none.
static void an_entry_without_claim_needs_nothing(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    template_pod(&k, ",'status':{'resourceClaimStatuses':[{'name':'gpu'}]}");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// §3: every class must exist; its creation helps.
static void a_missing_class_is_named(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    world_put(&k.w, CLAIM("c", "",
                          "{'name':'r','firstAvailable':[{'name':'s','deviceClassName':'tpu',"
                          "'allocationMode':'ExactCount','count':1}]}",
                          ""));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 10);
    kit_told(&k, "ns/p", "0/1 nodes are available: request r/s: device class tpu does not exist.");
    world_put(&k.w, CLASS("tpu", ""));
    world_run(&k.w, 1500);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// §3, §12: a claim in flight is not allocated a second time; its other pods wait without penalty.
static void pods_share_a_claim(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_gpus(&k, "b", 1);
    kit_claim(&k, "c", 1);
    for (int i = 0; i < 5; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_pod(&k, name, USES("c"));
    }
    world_run(&k.w, 10);
    assert_int_equal(kit_stats(&k).bound, 5);
    assert_int_equal(world_claim(&k.w, "ns/c")->status.reserved_for.n, 5);
    for (int i = 0; i < 5; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "ns/p%d", i);
        kit_on(&k, key, "b");
    }
    kit_end(&k);
}

// §12: the 257th reservation is refused by the API; the pod is retried, nothing breaks.
static void the_257th_pod_waits(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    for (int i = 0; i < 3; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name, "");
    }
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':"
                    "'net'},'spec':{'driver':'drv','allNodes':true,'pool':{'name':'net',"
                    "'generation':1,'resourceSliceCount':1},'devices':[{'name':'d'}]}}");
    kit_claim(&k, "c", 1);
    for (int i = 0; i < 257; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_pod(&k, name, USES("c"));
    }
    world_run(&k.w, 500);
    assert_int_equal(world_claim(&k.w, "ns/c")->status.reserved_for.n, 256);
    assert_int_equal(kit_stats(&k).bound, 256);
    assert_int_equal(kit_stats(&k).backing_off, 1);
    kit_end(&k);
}

// §4: an allocated claim binds the pod to the nodes of its selector.
static void an_allocated_claim_chooses_the_node(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_gpus(&k, "a", 4);
    kit_gpus(&k, "b", 1);
    world_put(&k.w, CLAIM("c", "", ONE, HAS("b", RESULT("b", "gpu-0", ""), "") "}"));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

// §4: results that skip node operations need a node that declares it can.
static void skipped_operations_need_the_feature(void **state)
{
    (void)state;
    struct kit k;
    struct features f;
    features_init(&f, FEATURES_MINOR);
    f.on[FEATURE_DRA_OPTIONAL_NODE_OPERATIONS] = true;
    kit_start_with(&k, (struct sched_options){.features = &f});
    kit_node(&k, "a", "");
    world_put(&k.w, CLAIM("c", "", ONE,
                          ",'status':{'reservedFor':[{'resource':'pods','name':'x','uid':'x'}],"
                          "'allocation':{'devices':{'results':[" RESULT(
                              "a", "gpu-0", ",'skipNodeOperations':['Prepare']") "]}}}"));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 10);
    kit_told(&k, "ns/p", "resourceclaim not available on the node");
    world_put(&k.w, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'a'},'status':"
                    "{'declaredFeatures':['DRAOptionalNodeOperations'],'allocatable':"
                    "{'cpu':'4','memory':'32Gi','pods':'110'}}}");
    world_run(&k.w, 2000);
    kit_on(&k, "ns/p", "a");
    kit_end(&k);
}

// §4: an error of the allocator ends the attempt; the pod backs off.
static void an_allocator_error_is_a_scheduler_error(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 1);
    world_put(&k.w,
              CLAIM("c", "",
                    "{'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':'ExactCount',"
                    "'count':1,'selectors':[{'cel':{'expression':"
                    "'device.attributes[\\'drv\\'].missing == 1'}}]}}",
                    ""));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 10);
    const struct api_pod *p = world_pod(&k.w, "ns/p");
    assert_int_equal(p->status.conditions.n, 1);
    assert_str(p->status.conditions.p[0].reason, "SchedulerError");
    assert_int_equal(kit_stats(&k).backing_off, 1);
    kit_end(&k);
}

// §4: claims of one pod are allocated together, or not at all.
static void all_claims_of_a_pod_go_together(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_gpus(&k, "a", 1);
    kit_gpus(&k, "b", 2);
    kit_claim(&k, "x", 1);
    kit_claim(&k, "y", 1);
    kit_pod(&k, "p",
            "'resourceClaims':[{'name':'x','resourceClaimName':'x'},{'name':'y',"
            "'resourceClaimName':'y'}]");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

// §5: the node that gives the earlier alternative wins, whatever else speaks for others.
static void rank_of_alternatives_decides(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    world_put(&k.w, CLASS("nice",
                          "'selectors':[{'cel':{'expression':'device.driver == \\\"nice\\\"'}}]"));
    for (int i = 0; i < 6; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name, "");
        kit_gpus(&k, name, 1);
    }
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':"
              "'nice'},'spec':{'driver':'nice','nodeName':'n4','pool':{'name':'nice',"
              "'generation':1,'resourceSliceCount':1},'devices':[{'name':'d'},{'name':'e'}]}}");
    world_put(&k.w, CLAIM("c", "",
                          "{'name':'r','firstAvailable':[{'name':'best','deviceClassName':'nice',"
                          "'allocationMode':'ExactCount','count':1},{'name':'any',"
                          "'deviceClassName':'gpu','allocationMode':'ExactCount','count':1}]}",
                          ""));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n4");
    assert_str(world_claim(&k.w, "ns/c")->status.allocation->devices.results.p[0].request,
               "r/best");
    kit_end(&k);
}

// Pack: a node that is used already is filled up before another is begun.
static void devices_are_packed(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    for (int i = 0; i < 4; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name, "");
        kit_gpus(&k, name, 4);
    }
    for (int i = 0; i < 8; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_gpu_pod(&k, name, 1);
        world_run(&k.w, 10);
    }
    size_t full = 0;
    kit_gpu_pod(&k, "whole-1", 4);
    kit_gpu_pod(&k, "whole-2", 4);
    world_run(&k.w, 10);
    full += world_node_of(&k.w, "ns/whole-1").n > 0;
    full += world_node_of(&k.w, "ns/whole-2").n > 0;
    assert_int_equal(full, 2);
    kit_end(&k);
}

static void spread_policy_uses_all_nodes(void **state)
{
    (void)state;
    struct kit k;
    kit_start_with(&k, (struct sched_options){.policy = ALLOC_SPREAD});
    for (int i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name, "");
        kit_gpus(&k, name, 4);
        (void)snprintf(name, sizeof(name), "p%d", i);
        world_run(&k.w, 10);
    }
    kit_gpu_pod(&k, "p0", 1);
    world_run(&k.w, 10);
    kit_gpu_pod(&k, "p1", 1);
    world_run(&k.w, 10);
    assert_false(str_eq(world_node_of(&k.w, "ns/p0"), world_node_of(&k.w, "ns/p1")));
    kit_end(&k);
}

// §7: finalizer, then allocation and reservation with a timestamp.
static void pre_bind_writes_the_claim(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n1", "");
    kit_gpus(&k, "n1", 2);
    kit_gpu_pod(&k, "p", 1);
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n1");
    const struct api_resource_claim *c = world_claim(&k.w, "ns/p");
    assert_str(c->status.allocation->devices.results.p[0].device, "gpu-0");
    assert_true(c->status.allocation->allocation_timestamp.set);
    assert_non_null(c->status.allocation->node_selector);
    assert_int_equal(c->status.reserved_for.n, 1);
    assert_str(c->status.reserved_for.p[0].resource, "pods");
    assert_str(c->status.reserved_for.p[0].name, "p");
    assert_str(c->metadata.finalizers.p[0], "resource.kubernetes.io/delete-protection");
    kit_end(&k);
}

static int refuse_some(struct world *w, const char *verb, const struct api_kind *kind,
                       struct str name)
{
    (void)name;
    if (w->refusals > 0 && str_eqz(kind->kind, "ResourceClaim") && strcmp(verb, "status") == 0) {
        w->refusals--;
        return -ERR_CONFLICT;
    }
    return 0;
}

// §7: a conflict is answered by reading again, four times; the fifth ends the attempt.
static void conflicts_are_retried(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    k.w.refuse = refuse_some;
    k.w.refusals = 4;
    kit_gpu_pod(&k, "p", 1);
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(kit_stats(&k).errors, 0);
    world_delete(&k.w, "Pod", "ns/p");
    kit_end(&k);

    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    k.w.refuse = refuse_some;
    k.w.refusals = 5;
    kit_gpu_pod(&k, "p", 1);
    world_run(&k.w, 10);
    assert_int_equal(kit_stats(&k).errors, 1);
    assert_int_equal(kit_stats(&k).backing_off, 1);
    world_run(&k.w, 1100);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// Another scheduler writes between our decision and our write.
static int allocate_first(struct world *w, const char *verb, const struct api_kind *kind,
                          struct str name)
{
    (void)name;
    if (w->refusals > 0 && str_eqz(kind->kind, "ResourceClaim") && strcmp(verb, "update") == 0) {
        w->refusals = 0;
        world_put(w, CLAIM("c", ",'finalizers':['resource.kubernetes.io/delete-protection']", ONE,
                           HAS("b", RESULT("b", "gpu-0", ""), "") "}"));
    }
    return 0;
}

// §7: an allocation made elsewhere in the meantime stands.
static void allocated_elsewhere_in_the_meantime(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 1);
    kit_claim(&k, "c", 1);
    k.w.refuse = allocate_first;
    k.w.refusals = 1;
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 5);
    kit_node(&k, "b", "");
    kit_gpus(&k, "b", 1);
    world_run(&k.w, 1);
    kit_told(&k, "ns/p", "got allocated elsewhere in the meantime");
    world_run(&k.w, 2000);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

static int refuse_bind(struct world *w, const char *verb, const struct api_kind *kind,
                       struct str name)
{
    (void)kind;
    (void)name;
    return w->refusals-- > 0 && strcmp(verb, "bind") == 0 ? -ERR_FORBIDDEN : 0;
}

// §6: a failed binding takes the reservation back; the allocation stays and is used again.
static void unreserve_keeps_the_allocation(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 2);
    k.w.refuse = refuse_bind;
    k.w.refusals = 3; // finalizer, status, bind
    kit_gpu_pod(&k, "p", 1);
    world_run(&k.w, 10);
    const struct api_resource_claim *c = world_claim(&k.w, "ns/p");
    assert_non_null(c->status.allocation);
    assert_int_equal(c->status.reserved_for.n, 0);
    kit_told(&k, "ns/p", "binding to node n");
    world_run(&k.w, 1100);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_claim(&k.w, "ns/p")->status.reserved_for.n, 1);
    kit_end(&k);
}

static int lose_answer(struct world *w, const char *verb, const struct api_kind *kind,
                       struct str name)
{
    (void)kind;
    (void)name;
    if (w->refusals <= 0 || strcmp(verb, "bind") != 0)
        return 0;
    w->refusals = 0;
    world_put(w, "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','namespace':'ns','uid':"
                 "'u-p'},'spec':{'schedulerName':'dray','nodeName':'n','containers':[{'name':'c'}],"
                 "'resourceClaims':[{'name':'gpu','resourceClaimName':'c'}]}}");
    return -ERR_TIMEOUT;
}

// A pod whose binding was carried out keeps its reservation, though the answer never came.
static void a_binding_whose_answer_is_lost_stands(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_claim(&k, "c", 1);
    k.w.refuse = lose_answer;
    k.w.refusals = 1;
    kit_pod_of(&k, "p", ",'uid':'u-p'", USES("c"));
    world_run(&k.w, 10);
    assert_int_equal(k.w.refusals, 0);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_claim(&k.w, "ns/c")->status.reserved_for.n, 1);
    assert_int_equal(kit_stats(&k).bound, 1);
    kit_end(&k);
}

// A pod whose claim does not come is told so, once it has waited for a while.
static void a_gated_pod_is_told_what_it_waits_for(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "p", USES("late"));
    world_run(&k.w, 5000);
    assert_int_equal(world_condition(&k.w, "ns/p").n, 0);
    world_run(&k.w, 6000);
    kit_told(&k, "ns/p", "late");
    uint64_t writes = memory_writes(k.w.memory);
    world_run(&k.w, 100000);
    assert_int_equal(memory_writes(k.w.memory), writes); // and once is enough
    kit_end(&k);
}

// One that is found to be gated only when its turn has come is told as well.
static void a_pod_gated_at_its_turn_is_told(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_claim(&k, "c", 1);
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 20);
    kit_told(&k, "ns/p", "0/1 nodes");
    world_run(&k.w, 20000);
    world_delete(&k.w, "ResourceClaim", "ns/c");
    kit_node(&k, "b", "");
    world_run(&k.w, 30000);
    assert_int_equal(kit_stats(&k).gated, 1);
    kit_told(&k, "ns/p", "could not find ResourceClaim");
    kit_end(&k);
}

// §6: a pod that is deleted while it is bound leaves nothing behind in memory.
static void a_pod_may_vanish_at_any_step(void **state)
{
    (void)state;
    for (size_t steps = 0; steps < 14; steps++) {
        struct kit k;
        kit_start(&k);
        kit_node(&k, "n", "");
        kit_gpus(&k, "n", 1);
        kit_gpu_pod(&k, "p", 1);
        for (size_t i = 0; i < steps; i++)
            (void)exec_sim_step(k.w.sim);
        world_delete(&k.w, "Pod", "ns/p");
        world_run(&k.w, 50);
        assert_true(sched_idle(k.s));
        assert_int_equal(kit_stats(&k).binding, 0);
        kit_end(&k);
    }
}

// A claim that is deleted while it is being allocated frees its devices.
static void a_claim_may_vanish_at_any_step(void **state)
{
    (void)state;
    for (size_t steps = 0; steps < 14; steps++) {
        struct kit k;
        kit_start(&k);
        kit_node(&k, "n", "");
        kit_gpus(&k, "n", 1);
        kit_gpu_pod(&k, "p", 1);
        for (size_t i = 0; i < steps; i++)
            (void)exec_sim_step(k.w.sim);
        if (!world_claim(&k.w, "ns/p")->metadata.finalizers.n) {
            world_delete(&k.w, "ResourceClaim", "ns/p");
            world_run(&k.w, 50);
            kit_gpu_pod(&k, "q", 1);
            world_run(&k.w, 12000);
            kit_on(&k, "ns/q", "n");
        }
        kit_end(&k);
    }
}

// §8: an allocation that keeps the pod from every node is given up if nobody else uses it.
static void post_filter_deallocates(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", ",'spec':{'unschedulable':true}");
    kit_gpus(&k, "a", 1);
    kit_gpus(&k, "b", 1);
    world_put(&k.w, CLAIM("c", "", ONE,
                          HAS("b", RESULT("b", "gpu-0", ""), "") ",'devices':[{'driver':'drv',"
                                                                 "'pool':'b','device':'gpu-0'}]}"));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 5);
    assert_null(world_claim(&k.w, "ns/c")->status.allocation);
    assert_int_equal(world_claim(&k.w, "ns/c")->status.devices.n, 0);
    world_run(&k.w, 1500);
    kit_on(&k, "ns/p", "a");
    kit_end(&k);
}

// §8: not if another pod has it reserved.
static void post_filter_leaves_claims_of_others(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 1);
    world_put(&k.w, CLAIM("c", "", ONE,
                          HAS("b", RESULT("b", "gpu-0", ""), "") ",'reservedFor':[{'resource':"
                                                                 "'pods','name':'x','uid':'x'}]}"));
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 5);
    assert_non_null(world_claim(&k.w, "ns/c")->status.allocation);
    assert_int_equal(kit_stats(&k).waiting, 1);
    kit_end(&k);
}

// §3.4: results with admin access hold nothing, shares hold their capacity.
static void admin_access_and_shares_do_not_exclude(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':"
              "'s'},'spec':{'driver':'drv','nodeName':'n','pool':{'name':'n','generation':1,"
              "'resourceSliceCount':1},'devices':[{'name':'d','allowMultipleAllocations':true,"
              "'capacity':{'mem':{'value':'10'}}}]}}");
    world_put(&k.w,
              CLAIM("admin", "", ONE, HAS("n", RESULT("n", "d", ",'adminAccess':true"), "") "}"));
    for (int i = 0; i < 4; i++) {
        world_putf(&k.w,
                   CLAIM("c%d", "",
                         "{'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':"
                         "'ExactCount','count':1,'capacity':{'requests':{'mem':'3'}}}}",
                         ""),
                   i);
        char name[8];
        char uses[80];
        (void)snprintf(name, sizeof(name), "p%d", i);
        (void)snprintf(uses, sizeof(uses), USES("c%d"), i);
        kit_pod(&k, name, uses);
        world_run(&k.w, 10);
    }
    assert_int_equal(kit_stats(&k).bound, 3);
    assert_true(world_claim(&k.w, "ns/c0")->status.allocation->devices.results.p[0].has_share_id);
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(pre_enqueue_waits_for_claims), TEST_CASE(an_entry_without_claim_needs_nothing),
          TEST_CASE(a_missing_class_is_named), TEST_CASE(pods_share_a_claim),
          TEST_CASE(the_257th_pod_waits), TEST_CASE(an_allocated_claim_chooses_the_node),
          TEST_CASE(skipped_operations_need_the_feature),
          TEST_CASE(an_allocator_error_is_a_scheduler_error),
          TEST_CASE(all_claims_of_a_pod_go_together), TEST_CASE(rank_of_alternatives_decides),
          TEST_CASE(devices_are_packed), TEST_CASE(spread_policy_uses_all_nodes),
          TEST_CASE(pre_bind_writes_the_claim), TEST_CASE(conflicts_are_retried),
          TEST_CASE(allocated_elsewhere_in_the_meantime), TEST_CASE(unreserve_keeps_the_allocation),
          TEST_CASE(a_binding_whose_answer_is_lost_stands),
          TEST_CASE(a_gated_pod_is_told_what_it_waits_for),
          TEST_CASE(a_pod_gated_at_its_turn_is_told), TEST_CASE(a_pod_may_vanish_at_any_step),
          TEST_CASE(a_claim_may_vanish_at_any_step), TEST_CASE(post_filter_deallocates),
          TEST_CASE(post_filter_leaves_claims_of_others),
          TEST_CASE(admin_access_and_shares_do_not_exclude))
