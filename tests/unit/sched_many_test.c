// SPDX-License-Identifier: Apache-2.0
//
// Devices that need time (binding conditions), several schedulers at once, crashes, explanations.
#include "sched_kit.h"

#include "base/banned.h"

#define USES(name) "'resourceClaims':[{'name':'gpu','resourceClaimName':'" name "'}]"

// --- Binding conditions --------------------------------------------------------------------------

static void start_conditions(struct kit *k, const char *other)
{
    kit_start_with(k, (struct sched_options){.binding_timeout_ns = 60 * CLOCK_NS_PER_SEC});
    kit_node(k, "n", "");
    world_putf(&k->w,
               "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':'s'},"
               "'spec':{'driver':'drv','allNodes':true,'pool':{'name':'n','generation':1,"
               "'resourceSliceCount':1},'devices':[{'name':'d','bindsToNode':true,"
               "'bindingConditions':['ready'],'bindingFailureConditions':['broken']}%s]}}",
               other);
    kit_gpu_pod(k, "p", 1);
    world_run(&k->w, 20);
    assert_int_equal(world_node_of(&k->w, "ns/p").n, 0);
    assert_int_equal(kit_stats(k).binding, 1);
    assert_non_null(world_claim(&k->w, "ns/p")->status.allocation);
}

static void set_condition(struct kit *k, const char *type)
{
    const struct api_resource_claim *old = world_claim(&k->w, "ns/p");
    char uid[64];
    (void)snprintf(uid, sizeof(uid), "%.*s", STR_ARG(old->status.reserved_for.p[0].uid));
    world_putf(
        &k->w,
        "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'p',"
        "'namespace':'ns','finalizers':['resource.kubernetes.io/delete-protection']},"
        "'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'gpu',"
        "'allocationMode':'ExactCount','count':1}}]}},'status':{'reservedFor':[{'resource':"
        "'pods','name':'p','uid':'%s'}],'allocation':{'allocationTimestamp':"
        "'2027-01-15T08:00:00Z','nodeSelector':{'nodeSelectorTerms':[{'matchFields':[{'key':"
        "'metadata.name','operator':'In','values':['n']}]}]},'devices':{'results':[{'request':"
        "'r','driver':'drv','pool':'n','device':'d','bindingConditions':['ready'],"
        "'bindingFailureConditions':['broken']}]}},'devices':[{'driver':'drv','pool':'n',"
        "'device':'d','conditions':[{'type':'%s','status':'True','reason':'R','message':'M',"
        "'lastTransitionTime':'2027-01-15T08:00:00Z'}]}]}}",
        uid, type);
}

static void waited(struct kit *k, const char *status, int n)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_sbuf struct sbuf line = {0};
    sched_metrics(k->s, &text);
    sbuf_addf(&line,
              "\nscheduler_dra_bindingconditions_allocations_total{driver=\"drv\",profile=\"dray\","
              "status=\"%s\"} %d\n",
              status, n);
    if (!kit_holds(sbuf_str(&text), line.p))
        fail_msg("%s is not in\n%s", line.p, text.p);
    sbuf_clear(&line);
    sbuf_addf(
        &line,
        "\nscheduler_dra_bindingconditions_wait_duration_seconds_count{driver=\"drv\",profile="
        "\"dray\",status=\"%s\"} %d\n",
        status, n);
    if (!kit_holds(sbuf_str(&text), line.p))
        fail_msg("%s is not in\n%s", line.p, text.p);
}

// §7.6: the pod is bound when all conditions are true, at once when they become so.
static void binding_waits_for_conditions(void **state)
{
    (void)state;
    struct kit k;
    start_conditions(&k, "");
    assert_non_null(world_event(&k.w, "p", "BindingConditionsPending"));
    set_condition(&k, "ready");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    waited(&k, "success", 1);
    kit_end(&k);
}

static void a_wait_for_conditions_ends_with_its_pod(void **state)
{
    (void)state;
    struct kit k;
    start_conditions(&k, "");
    world_delete(&k.w, "Pod", "ns/p");
    world_run(&k.w, 100);
    waited(&k, "error", 1);
    kit_end(&k);
}

// §7.6, §4, §8: a failure ends the binding; the claim is deallocated and another device is found.
static void a_failed_condition_deallocates(void **state)
{
    (void)state;
    struct kit k;
    start_conditions(&k, "");
    set_condition(&k, "broken");
    world_run(&k.w, 5);
    kit_told(&k, "ns/p", "device binding failed: claim=ns/p, reason=R, message=\"M\"");
    waited(&k, "failure", 1);
    world_run(&k.w, 1200);
    assert_true(!world_claim(&k.w, "ns/p")->status.allocation ||
                kit_stats(&k).binding == 1); // given up, perhaps allocated anew
    world_run(&k.w, 6000);
    assert_int_equal(world_claim(&k.w, "ns/p")->status.devices.n, 0);
    kit_end(&k);
}

// §7.6: neither true nor false for too long is a failure as well.
static void conditions_time_out(void **state)
{
    (void)state;
    struct kit k;
    start_conditions(&k, "");
    world_run(&k.w, 59000);
    assert_int_equal(kit_stats(&k).binding, 1);
    assert_int_equal(world_condition(&k.w, "ns/p").n, 0);
    for (int i = 0; i < 60 && !world_condition(&k.w, "ns/p").n; i++)
        world_run(&k.w, 100);
    assert_true(kit_holds(world_condition(&k.w, "ns/p"), "device binding timeout"));
    waited(&k, "timeout", 1);
    kit_end(&k);
}

// --- Two schedulers ------------------------------------------------------------------------------

// §12: both schedule the same pods; the API's conflicts and the order of writes decide, and no
// device is handed out twice, whatever either has seen.
static void two_schedulers_on_one_store(void **state)
{
    (void)state;
    static const struct str other = STR_INIT("other");
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct kit k;
        kit_start(&k);
        rng_seeded_init(&k.w.rng, seed);
        struct client *second = world_client(&k.w);
        struct sched *s2 =
            sched_new(&(struct sched_options){.client = second, .names = &other, .names_len = 1});
        sched_start(s2);
        kit_node(&k, "n", "");
        kit_gpus(&k, "n", 4);
        world_run(&k.w, 5);
        if (seed % 3 == 0)
            world_lag(second, "ResourceClaim");
        if (seed % 3 == 1)
            world_lag(k.client, "ResourceClaim");
        for (int i = 0; i < 6; i++) {
            char name[8];
            (void)snprintf(name, sizeof(name), "p%d", i);
            kit_claim(&k, name, 1);
            world_putf(&k.w,
                       "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'ns'},"
                       "'spec':{'schedulerName':'%s','containers':[{'name':'c'}],'resourceClaims':"
                       "[{'name':'g','resourceClaimName':'%s'}]}}",
                       name, i % 2 ? "other" : "dray", name);
        }
        world_release(second);
        world_release(k.client);
        for (int i = 0; i < (int)(seed % 7); i++)
            (void)exec_sim_step(k.w.sim);
        if (seed % 2)
            world_lag(second, "ResourceClaim");
        world_run(&k.w, 50);
        world_release(second);
        world_run(&k.w, 60000);
        struct sched_stats st;
        sched_get_stats(s2, &st);
        assert_int_equal(kit_stats(&k).bound + st.bound, 4);
        cleanup_sbuf struct sbuf problems = {0};
        if (!sched_check(s2, &problems))
            fail_msg("%s", problems.p);
        sched_free(s2);
        kit_end(&k);
    }
}

// The allocation that was stored later gives way before its pod is bound.
static void the_later_allocation_gives_way(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    world_run(&k.w, 5);
    kit_gpu_pod(&k, "p", 1);
    // Its claim is known; what happens to others from now on is not seen in time.
    for (int i = 0; i < 40 && kit_stats(&k).attempts == 0; i++)
        (void)exec_sim_step(k.w.sim);
    assert_int_equal(kit_stats(&k).attempts, 1);
    world_lag(k.client, "ResourceClaim");
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':"
              "'theirs','namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly'"
              ":{'deviceClassName':'gpu','allocationMode':'ExactCount','count':1}}]}},"
              "'status':{'reservedFor':[{'resource':'pods','name':'x','uid':'x'}],"
              "'allocation':{'devices':{'results':[{'request':'r','driver':'drv','pool':'n',"
              "'device':'gpu-0'}]}}}}");
    world_run(&k.w, 50);
    assert_non_null(world_claim(&k.w, "ns/p")->status.allocation); // written, but not bound
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    world_release(k.client);
    world_run(&k.w, 50);
    assert_null(world_claim(&k.w, "ns/p")->status.allocation);
    assert_int_equal(kit_stats(&k).gave_way, 1);
    world_run(&k.w, 1000);
    kit_told(&k, "ns/p", "0/1 nodes");
    kit_end(&k);
}

// A scheduler may stop at any step; the next one finishes what it began.
static void crashes_leave_nothing_undone(void **state)
{
    (void)state;
    for (int steps = 0; steps < 40; steps++) {
        struct kit k;
        kit_start(&k);
        kit_node(&k, "n", "");
        kit_gpus(&k, "n", 2);
        kit_gpu_pod(&k, "p", 1);
        kit_gpu_pod(&k, "q", 1);
        for (int i = 0; i < steps; i++)
            (void)exec_sim_step(k.w.sim);
        sched_free(k.s);
        k.s = sched_new(&(struct sched_options){.client = k.client});
        sched_start(k.s);
        world_run(&k.w, 20000);
        kit_on(&k, "ns/p", "n");
        kit_on(&k, "ns/q", "n");
        kit_end(&k);
    }
}

// The same seed gives the same history.
static void runs_can_be_repeated(void **state)
{
    (void)state;
    uint64_t writes[2];
    uint64_t revision[2];
    for (int run = 0; run < 2; run++) {
        struct kit k;
        kit_start(&k);
        for (int i = 0; i < 20; i++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "n%d", i);
            kit_node(&k, name, "");
            kit_gpus(&k, name, 3);
            (void)snprintf(name, sizeof(name), "p%d", i);
            kit_gpu_pod(&k, name, 1 + i % 4);
        }
        world_run(&k.w, 30000);
        writes[run] = memory_writes(k.w.memory);
        revision[run] = memory_revision(k.w.memory);
        kit_end(&k);
    }
    assert_int_equal(writes[0], writes[1]);
    assert_int_equal(revision[0], revision[1]);
}

// --- Explanations --------------------------------------------------------------------------------

static void one_line_tells_why(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    for (int i = 0; i < 6; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name,
                 i < 4 ? ",'spec':{'taints':[{'key':'maintenance','effect':'NoSchedule'}]}" : "");
        kit_gpus(&k, name, 2);
    }
    kit_gpu_pod(&k, "a", 2);
    kit_gpu_pod(&k, "b", 1);
    world_run(&k.w, 20);
    kit_gpu_pod(&k, "p", 2);
    world_run(&k.w, 20);
    struct str line = world_condition(&k.w, "ns/p");
    assert_true(kit_holds(line, "0/6 nodes"));
    assert_true(kit_holds(line, "4 "));
    assert_true(kit_holds(line, "maintenance"));
    const struct api_event *e = world_event(&k.w, "p", "FailedScheduling");
    assert_non_null(e);
    assert_true(str_eq(e->message, line));
    assert_str(e->type, "Warning");
    e = world_event(&k.w, "a", "Scheduled"); // those that got a node are told as well
    assert_non_null(e);
    assert_true(str_starts(e->message, STR("Successfully assigned ns/a to n")));
    assert_str(e->type, "Normal");

    cleanup_sbuf struct sbuf json = {0};
    struct err err;
    struct json_doc doc = {0};
    assert_int_equal(sched_explain(k.s, STR("Pod"), STR("ns"), STR("p"), &json, &err), 0);
    assert_int_equal(json_parse(sbuf_str(&json), NULL, &doc, &err), 0);
    json_doc_done(&doc);
    assert_true(kit_holds(sbuf_str(&json), "\"state\":\"unschedulable\""));
    sbuf_clear(&json);
    assert_int_equal(sched_explain(k.s, STR("resourceclaims"), STR("ns"), STR("p"), &json, &err),
                     0);
    assert_int_equal(json_parse(sbuf_str(&json), NULL, &doc, &err), 0);
    json_doc_done(&doc);
    kit_claim(&k, "alone", 3);
    world_run(&k.w, 20);
    sbuf_clear(&json);
    assert_int_equal(sched_explain(k.s, STR("ResourceClaim"), STR("ns"), STR("alone"), &json, &err),
                     0);
    assert_int_equal(json_parse(sbuf_str(&json), NULL, &doc, &err), 0);
    json_doc_done(&doc);
    assert_true(kit_holds(sbuf_str(&json), "\"nodesThatFit\":0"));
    assert_int_equal(sched_explain(k.s, STR("pod"), STR("ns"), STR("none"), &json, &err),
                     -ERR_NOT_FOUND);
    assert_int_equal(sched_explain(k.s, STR("node"), STR(""), STR("n1"), &json, &err),
                     -ERR_BAD_REQUEST);
    kit_end(&k);
}

// Many tries, one event, one condition; equal pods cost one search.
static void nothing_is_said_twice(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    for (int i = 0; i < 50; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_gpu_pod(&k, name, 2);
    }
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).explained, 1);
    assert_int_equal(kit_stats(&k).conditions, 50);
    for (int i = 0; i < 20; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "other-class-%d", i);
        world_putf(&k.w, CLASS("%s", ""), name);
        world_run(&k.w, 11000);
    }
    assert_true(kit_stats(&k).attempts > 500);
    assert_int_equal(kit_stats(&k).conditions, 50);
    assert_int_equal(world_count(&k.w, "Event"), 50);
    kit_end(&k);
}

// Devices outside nodes: one pool for many.
static void network_devices_are_shared_by_nodes(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    for (int i = 0; i < 4; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name, "");
        if (i < 2)
            kit_gpus(&k, name, 1);
    }
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':"
              "'net'},'spec':{'driver':'drv','nodeSelector':{'nodeSelectorTerms':[{"
              "'matchExpressions':[{'key':'kubernetes.io/hostname','operator':'In','values':"
              "['n1','n2','n3']}]}]},'pool':{'name':'net','generation':1,"
              "'resourceSliceCount':1},'devices':[{'name':'d0'},{'name':'d1'},{'name':'d2'}]}}");
    world_run(&k.w, 5);
    for (int i = 0; i < 6; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_gpu_pod(&k, name, 1);
    }
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).bound, 5);
    assert_int_equal(kit_stats(&k).waiting, 1);
    kit_end(&k);
}

// Nodes that all have the same, and all too little, are one question to the allocator, not one
// each.
static void an_impossible_pod_asks_once_for_each_state(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    for (int i = 0; i < 30; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name, "");
        kit_gpus(&k, name, 1);
    }
    kit_gpu_pod(&k, "p", 2);
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "0/30 nodes");
    assert_true(kit_stats(&k).solves <= 2);
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(an_impossible_pod_asks_once_for_each_state),
          TEST_CASE(binding_waits_for_conditions), TEST_CASE(a_failed_condition_deallocates),
          TEST_CASE(conditions_time_out), TEST_CASE(a_wait_for_conditions_ends_with_its_pod),
          TEST_CASE(two_schedulers_on_one_store), TEST_CASE(the_later_allocation_gives_way),
          TEST_CASE(crashes_leave_nothing_undone), TEST_CASE(runs_can_be_repeated),
          TEST_CASE(one_line_tells_why), TEST_CASE(nothing_is_said_twice),
          TEST_CASE(network_devices_are_shared_by_nodes))
