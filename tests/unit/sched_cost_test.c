// SPDX-License-Identifier: Apache-2.0
//
// Costly selectors: evaluated in slices, each once for a kind of device, with the answer of cheap
// ones; other pods get their turns meanwhile; a claim that costs too much is told so and left alone
// for a while.
#include "sched_kit.h"

#include "base/banned.h"

#define NODES 40

// Costs some 120,000 and is true; what follows && decides.
#define TEN    "[0,1,2,3,4,5,6,7,8,9]"
#define COSTLY TEN ".all(x," TEN ".all(y," TEN ".all(z," TEN ".all(w, x + y + z + w >= 0)))) && "
#define SERIAL "device.attributes[\\\"drv\\\"].serial"

// A slice, one evaluation more, and what remedies may cost.
#define TURN_MOST UINT64_C(2500000)

static void put_device(struct kit *k, const char *node, int serial)
{
    world_putf(&k->w,
               "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':"
               "{'name':'slice-%s'},'spec':{'driver':'drv','nodeName':'%s','pool':{'name':'%s',"
               "'generation':1,'resourceSliceCount':1},'devices':[{'name':'d','attributes':"
               "{'serial':{'int':%d}}}]}}",
               node, node, node, serial);
}

// Nodes with a device each, no two of a kind to whoever reads the serial number.
static void start(struct kit *k, struct sched_options options)
{
    kit_start_with(k, options);
    for (int i = 0; i < NODES; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(k, name, "");
        put_device(k, name, i);
    }
    world_run(&k->w, 5);
}

static void claim_pod(struct kit *k, const char *name, const char *expression, const char *spec)
{
    world_putf(&k->w,
               "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'%s',"
               "'namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':"
               "{'deviceClassName':'gpu','allocationMode':'ExactCount','count':1,'selectors':"
               "[{'cel':{'expression':'%s'}}]}}]}}}",
               name, expression);
    cleanup_sbuf struct sbuf all = {0};
    sbuf_addf(&all, "'resourceClaims':[{'name':'gpu','resourceClaimName':'%s'}]%s", name, spec);
    kit_pod(k, name, all.p);
}

static struct str condition_of(struct kit *k, const char *key, const char *drop, struct sbuf *out)
{
    struct str text = world_condition(&k->w, key);
    ptrdiff_t at = str_find(text, str_z(drop));
    sbuf_add(out, at < 0 ? text : str_upto(text, (size_t)at));
    return sbuf_str(out);
}

// No node has the device: every kind is looked at, by the search and by the explanation.
static void turns_are_short_and_the_answer_is_that_of_a_cheap_selector(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf costly = {0}, cheap = {0};
    start(&k, (struct sched_options){0});
    claim_pod(&k, "costly", COSTLY SERIAL " == 99", "");
    world_run(&k.w, 100);
    struct sched_stats st = kit_stats(&k);
    kit_told(&k, "ns/costly", "0/40 nodes");
    assert_true(st.postponed >= 5);
    assert_true(st.selector_cost > 5000000);
    if (st.selector_turn_most > TURN_MOST)
        fail_msg("a turn cost %llu", (unsigned long long)st.selector_turn_most);
    claim_pod(&k, "cheap", SERIAL " == 99", "");
    world_run(&k.w, 100);
    assert_int_equal(str_cmp(condition_of(&k, "ns/costly", ";", &costly),
                             condition_of(&k, "ns/cheap", ";", &cheap)),
                     0);
    kit_end(&k);
}

// Search and explanation together evaluate a selector of one term once for a kind, and so does the
// next pod's.
static void a_verdict_is_made_once(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){0});
    claim_pod(&k, "a", "(" COSTLY SERIAL " == 99) || false", "");
    world_run(&k.w, 100);
    kit_told(&k, "ns/a", "0/40 nodes");
    uint64_t cost = kit_stats(&k).selector_cost;
    // Remedies leave the term out, which costs nothing.
    assert_in_range(cost, NODES * 110000, NODES * 145000);
    claim_pod(&k, "b", "(" COSTLY SERIAL " == 99) || false", ",'nodeSelector':{'no':'where'}");
    claim_pod(&k, "c", "(" COSTLY SERIAL " == 99) || false",
              ",'tolerations':[{'key':'k','operator':'Exists'}]");
    world_run(&k.w, 100);
    kit_told(&k, "ns/c", "0/40 nodes");
    // … but once on a node like the others that a remedy makes up.
    assert_in_range(kit_stats(&k).selector_cost - cost, 0, 2 * 120000);
    kit_end(&k);
}

static void a_device_is_found_behind_costly_ones(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){0});
    claim_pod(&k, "p", COSTLY SERIAL " == 31", "");
    kit_gpu_pod(&k, "other", 1);
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n31");
    assert_true(world_node_of(&k.w, "ns/other").n > 0);
    assert_true(kit_stats(&k).postponed > 0);
    assert_true(kit_stats(&k).selector_turn_most <= TURN_MOST);
    kit_end(&k);
}

// Selectors of classes are paid for by the pods that use the class, in slices, and by no others.
static void selectors_of_classes_count(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){0});
    world_put(&k.w,
              CLASS("costly", "'selectors':[{'cel':{'expression':'" COSTLY SERIAL " == 99'}}]"));
    kit_gpu_pod(&k, "other", 1);
    world_run(&k.w, 100);
    assert_true(world_node_of(&k.w, "ns/other").n > 0);
    assert_true(kit_stats(&k).selector_cost < 120000);
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':"
                    "'c','namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':"
                    "{'deviceClassName':'costly','allocationMode':'ExactCount','count':1}}]}}}");
    kit_pod(&k, "p", "'resourceClaims':[{'name':'gpu','resourceClaimName':'c'}]");
    world_run(&k.w, 100);
    struct sched_stats st = kit_stats(&k);
    kit_told(&k, "ns/p", "0/40 nodes");
    assert_true(st.postponed >= 3);
    assert_in_range(st.selector_cost, NODES * 110000, NODES * 145000);
    if (st.selector_turn_most > TURN_MOST)
        fail_msg("a turn cost %llu", (unsigned long long)st.selector_turn_most);
    kit_end(&k);
}

static char first_claim[16]; // of those that got devices

static int note_first_claim(struct world *w, const char *verb, const struct api_kind *kind,
                            struct str name)
{
    (void)w;
    (void)verb;
    if (!first_claim[0] && str_eqz(kind->kind, "ResourceClaim"))
        (void)snprintf(first_claim, sizeof(first_claim), "%.*s", STR_ARG(name));
    return 0;
}

// Whoever keeps creating costly pods does not keep the first one from its end.
static void postponed_pods_go_on_first_come_first(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){0});
    first_claim[0] = '\0';
    k.w.refuse = note_first_claim;
    claim_pod(&k, "old", COSTLY SERIAL " == 31", "");
    claim_pod(&k, "new-1", COSTLY SERIAL " == 32", "");
    claim_pod(&k, "new-2", COSTLY SERIAL " == 33", "");
    claim_pod(&k, "new-3", COSTLY SERIAL " == 34", "");
    world_run(&k.w, 100);
    kit_on(&k, "ns/old", "n31");
    kit_on(&k, "ns/new-3", "n34");
    assert_true(kit_stats(&k).postponed > 0);
    assert_string_equal(first_claim, "old");
    kit_end(&k);
}

static void a_pod_of_higher_priority_goes_on_first(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){0});
    first_claim[0] = '\0';
    k.w.refuse = note_first_claim;
    claim_pod(&k, "low", COSTLY SERIAL " == 31", "");
    claim_pod(&k, "high", COSTLY SERIAL " == 32", ",'priority':5");
    world_run(&k.w, 100);
    kit_on(&k, "ns/low", "n31");
    kit_on(&k, "ns/high", "n32");
    assert_string_equal(first_claim, "high");
    kit_end(&k);
}

static void step_until_postponed(struct kit *k, uint64_t times)
{
    for (int i = 0; i < 100000 && kit_stats(k).postponed < times; i++)
        if (!exec_sim_step(k->w.sim))
            world_run(&k->w, 1);
    assert_true(kit_stats(k).postponed >= times);
}

static void postponed_pods_are_counted_as_active(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){0});
    claim_pod(&k, "p", COSTLY SERIAL " == 99", "");
    step_until_postponed(&k, 1);
    assert_int_equal(kit_stats(&k).active, 1);
    cleanup_sbuf struct sbuf metrics = {0};
    sched_metrics(k.s, &metrics);
    assert_true(kit_holds(sbuf_str(&metrics), "scheduler_pending_pods{queue=\"active\"} 1\n"));
    world_run(&k.w, 100);
    assert_int_equal(kit_stats(&k).active, 0);
    kit_end(&k);
}

// What an attempt cost that ended for another reason is not held against the next one.
static void a_claim_that_goes_takes_its_cost_along(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){.selector_budget = 6000000});
    claim_pod(&k, "p", COSTLY SERIAL " == 99", "");
    step_until_postponed(&k, 4);
    world_delete(&k.w, "ResourceClaim", "ns/p");
    world_run(&k.w, 100);
    uint64_t before = kit_stats(&k).selector_cost;
    claim_pod(&k, "p", COSTLY SERIAL " == 31", "");
    world_run(&k.w, 5000);
    assert_true(kit_stats(&k).selector_cost - before > 2000000);
    kit_on(&k, "ns/p", "n31");
    kit_end(&k);
}

// A selector that fails is an error of the pod's, told with its text as if it were cheap.
static void failures_are_kept_with_their_texts(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){0});
    claim_pod(&k, "p", COSTLY SERIAL " != 99 && device.attributes[\\\"drv\\\"].none == 1", "");
    world_run(&k.w, 100);
    kit_told(&k, "ns/p", "no such key: none");
    assert_true(kit_stats(&k).selector_turn_most <= TURN_MOST);
    kit_end(&k);
}

static void too_costly_claims_are_told_so_and_left_alone(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){.selector_budget = 3000000});
    claim_pod(&k, "p", COSTLY SERIAL " == 99", "");
    world_run(&k.w, 100);
    kit_told(&k, "ns/p",
             "selectors of claim ns/p cost more than 3000000 to evaluate on the cluster's devices; "
             "simplify them");
    uint64_t cost = kit_stats(&k).selector_cost;
    for (int i = 0; i < 20; i++) {
        put_device(&k, "n0", 100 + i % 3); // devices change, which would help others
        world_run(&k.w, 5000);
    }
    assert_int_equal(kit_stats(&k).selector_cost, cost);
    kit_gpu_pod(&k, "other", 1);
    world_run(&k.w, 100);
    assert_true(world_node_of(&k.w, "ns/other").n > 0);
    // What was found out is kept: after some rounds it is known that no device will do, if not why.
    for (int i = 0; i < 8; i++)
        world_run(&k.w, 400000);
    kit_told(&k, "ns/p",
             "0/40 nodes are available: cannot allocate all claims (selectors of claim");
    kit_end(&k);
}

static void whoever_asks_why_gets_an_answer_in_slices(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){.standby = true});
    claim_pod(&k, "p", COSTLY SERIAL " == 99", "");
    world_run(&k.w, 5);
    struct sbuf out = {0};
    int r = -ERR_UNAVAILABLE;
    int asked = 0;
    for (; r == -ERR_UNAVAILABLE && asked < 100; asked++) {
        struct err err = {0};
        uint64_t before = kit_stats(&k).selector_cost;
        r = sched_explain(k.s, STR("Pod"), STR("ns"), STR("p"), &out, &err);
        assert_true(kit_stats(&k).selector_cost - before <= TURN_MOST);
        assert_int_equal(out.n == 0, r != 0);
    }
    assert_int_equal(r, 0);
    assert_true(asked > 5);
    assert_true(kit_holds(sbuf_str(&out), "serial == 99"));
    sbuf_done(&out);
    kit_end(&k);
}

// More kinds fail than have their texts kept: saying so must not evaluate them all again.
static void an_explanation_evaluates_no_failure_again(void **state)
{
    (void)state;
    struct kit k;
    start(&k, (struct sched_options){.standby = true});
    for (int i = 0; i < 2 * NODES; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "m%d", i);
        kit_node(&k, name, "");
        put_device(&k, name, 100 + i);
    }
    claim_pod(&k, "p", "(" COSTLY SERIAL " + device.attributes[\\\"drv\\\"].none == 1) || false",
              "");
    world_run(&k.w, 5);
    int r = -ERR_UNAVAILABLE;
    for (int i = 0; r == -ERR_UNAVAILABLE && i < 100; i++) {
        cleanup_sbuf struct sbuf out = {0};
        r = sched_explain(k.s, STR("Pod"), STR("ns"), STR("p"), &out, NULL);
    }
    assert_int_equal(r, 0);
    uint64_t cost = kit_stats(&k).selector_cost;
    cleanup_sbuf struct sbuf out = {0};
    assert_int_equal(sched_explain(k.s, STR("Pod"), STR("ns"), STR("p"), &out, NULL), 0);
    assert_true(kit_holds(sbuf_str(&out), "no such key: none"));
    assert_in_range(kit_stats(&k).selector_cost - cost, 0, 2 * 130000);
    kit_end(&k);
}

#define IN_GROUP ",'schedulingGroup':{'podGroupName':'g'}"

static void start_group(struct kit *k, struct features *features, uint64_t budget)
{
    features_init(features, FEATURES_MINOR);
    assert_int_equal(features_set(features, STR("GenericWorkload"), true, NULL), 0);
    start(k, (struct sched_options){.features = features, .selector_budget = budget});
    world_put(&k->w,
              "{'apiVersion':'scheduling.k8s.io/v1beta1','kind':'PodGroup','metadata':{'name':"
              "'g','namespace':'ns'},'spec':{'schedulingPolicy':{'gang':{'minCount':2}}}}");
}

static void pods_of_a_group_are_placed_in_slices(void **state)
{
    (void)state;
    struct kit k;
    struct features features;
    start_group(&k, &features, 0);
    claim_pod(&k, "a", COSTLY SERIAL " == 31", IN_GROUP);
    claim_pod(&k, "b", COSTLY SERIAL " == 32", IN_GROUP);
    world_run(&k.w, 200);
    kit_on(&k, "ns/a", "n31");
    kit_on(&k, "ns/b", "n32");
    assert_true(kit_stats(&k).postponed > 0);
    assert_true(kit_stats(&k).selector_turn_most <= TURN_MOST);
    kit_end(&k);
}

// The long pause is for what cost too much: a failure of another kind is tried again soon.
static void a_group_pauses_long_for_cost_alone(void **state)
{
    (void)state;
    struct kit k;
    struct features features;
    start_group(&k, &features, 3000000);
    claim_pod(&k, "a", COSTLY SERIAL " == 99", IN_GROUP);
    claim_pod(&k, "b", COSTLY SERIAL " == 98", IN_GROUP);
    world_run(&k.w, 1000);
    kit_told(&k, "ns/a", "cost too much; simplify them");
    uint64_t errors = kit_stats(&k).errors;
    world_run(&k.w, 200000);
    assert_int_equal(kit_stats(&k).errors, errors);
    world_delete(&k.w, "ResourceClaim", "ns/a");
    claim_pod(&k, "a", "device.attributes[\\\"drv\\\"].none == 1", IN_GROUP);
    world_run(&k.w, 120000);
    kit_told(&k, "ns/a", "no such key: none");
    errors = kit_stats(&k).errors;
    world_run(&k.w, 60000);
    assert_true(kit_stats(&k).errors >= errors + 3);
    kit_end(&k);
}

// Selectors that cost nothing and are many: each would be read anew in each turn.
static void claims_of_thousands_of_selectors_are_refused(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf claims = {0};
    start(&k, (struct sched_options){0});
    for (int c = 0; c < 66; c++) {
        cleanup_sbuf struct sbuf all = {0};
        for (int i = 0; i < 32; i++)
            sbuf_addf(&all, "%s{'cel':{'expression':'" SERIAL " != %d'}}", i ? "," : "",
                      1000 + c * 32 + i);
        world_putf(&k.w,
                   "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':"
                   "'c%d','namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':"
                   "{'deviceClassName':'gpu','allocationMode':'ExactCount','count':1,'selectors':"
                   "[%s]}}]}}}",
                   c, all.p);
        sbuf_addf(&claims, "%s{'name':'d%d','resourceClaimName':'c%d'}", c ? "," : "", c, c);
        cleanup_sbuf struct sbuf spec = {0};
        sbuf_addf(&spec, "'resourceClaims':[%s]", claims.p);
        if (c == 0 || c == 65)
            kit_pod(&k, c ? "many" : "few", spec.p);
    }
    world_run(&k.w, 100);
    kit_told(&k, "ns/many", "0/40 nodes are available: the pod's claims have 2080 selectors");
    assert_true(world_node_of(&k.w, "ns/few").n > 0);
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(turns_are_short_and_the_answer_is_that_of_a_cheap_selector),
          TEST_CASE(a_verdict_is_made_once), TEST_CASE(a_device_is_found_behind_costly_ones),
          TEST_CASE(selectors_of_classes_count), TEST_CASE(postponed_pods_go_on_first_come_first),
          TEST_CASE(a_pod_of_higher_priority_goes_on_first),
          TEST_CASE(postponed_pods_are_counted_as_active),
          TEST_CASE(a_claim_that_goes_takes_its_cost_along),
          TEST_CASE(failures_are_kept_with_their_texts),
          TEST_CASE(too_costly_claims_are_told_so_and_left_alone),
          TEST_CASE(whoever_asks_why_gets_an_answer_in_slices),
          TEST_CASE(an_explanation_evaluates_no_failure_again),
          TEST_CASE(pods_of_a_group_are_placed_in_slices),
          TEST_CASE(a_group_pauses_long_for_cost_alone),
          TEST_CASE(claims_of_thousands_of_selectors_are_refused))
