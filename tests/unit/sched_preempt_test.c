// SPDX-License-Identifier: Apache-2.0
//
// Preemption, live: who has to go, what is written about it, for whom the room is kept, and that
// neither restarts nor failures cost more pods than needed.
#include "sched_kit.h"

#include "base/banned.h"

#define ASKS(cpu) \
    "'containers':[{'name':'c','image':'i','resources':{'requests':{'cpu':'" cpu "'}}}]"

// Ends only when the test says so: as a pod with a long grace period.
#define SLOW ",'finalizers':['test/slow']"

static void start(struct kit *k)
{
    kit_start(k);
    kit_node(k, "n", "");
}

static void running(struct kit *k, const char *name, int priority, const char *cpu,
                    const char *meta)
{
    cleanup_sbuf struct sbuf spec = {0};
    sbuf_addf(&spec,
              "'priority':%d,'containers':[{'name':'c','image':'i','resources':{'requests':"
              "{'cpu':'%s'}}}]",
              priority, cpu);
    kit_pod_of(k, name, meta, spec.p);
    world_run(&k->w, 50);
    char key[64];
    (void)snprintf(key, sizeof(key), "ns/%s", name);
    assert_true(world_node_of(&k->w, key).n > 0);
}

static void pending(struct kit *k, const char *name, int priority, const char *cpu)
{
    cleanup_sbuf struct sbuf spec = {0};
    sbuf_addf(&spec,
              "'priority':%d,'containers':[{'name':'c','image':'i','resources':{'requests':"
              "{'cpu':'%s'}}}]",
              priority, cpu);
    kit_pod(k, name, spec.p);
}

static bool exists(struct kit *k, const char *key)
{
    return world_pod(&k->w, key) != NULL;
}

static bool is_ending(struct kit *k, const char *key)
{
    const struct api_pod *p = world_pod(&k->w, key);
    return p && p->metadata.deletion_timestamp.set;
}

static struct str nominated(struct kit *k, const char *key)
{
    return world_pod(&k->w, key)->status.nominated_node_name;
}

// What a kubelet does when the containers have stopped.
static void finish(struct kit *k, const char *key)
{
    const struct api_pod *p = world_pod(&k->w, key);
    assert_non_null(p);
    struct api_object o = {.kind = api_kind_by_name(STR("Pod")), .value = NULL};
    struct api_pod copy = *p;
    copy.metadata.finalizers.n = 0;
    o.value = &copy;
    (void)memory_put(k->w.memory, &o);
}

static void restart(struct kit *k)
{
    sched_free(k->s);
    k->s = sched_new(&(struct sched_options){.client = k->client});
    sched_start(k->s);
}

// --- Victims -------------------------------------------------------------------------------------

static void the_less_important_pod_goes(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    running(&k, "ten", 10, "2", "");
    running(&k, "twenty", 20, "2", "");
    pending(&k, "p", 100, "2");
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    assert_false(exists(&k, "ns/ten"));
    assert_true(exists(&k, "ns/twenty"));
    const struct api_event *e = world_event(&k.w, "ten", "Preempted");
    assert_non_null(e);
    assert_str(e->type, "Normal");
    cleanup_sbuf struct sbuf want = {0};
    sbuf_addf(&want, "Preempted by pod %.*s on node n",
              STR_ARG(world_pod(&k.w, "ns/p")->metadata.uid));
    assert_str(e->message, want.p);
    kit_end(&k);
}

static void a_free_node_costs_no_pod(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    running(&k, "low", 1, "3", "");
    kit_node(&k, "free", "");
    pending(&k, "p", 100, "3");
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "free");
    assert_true(exists(&k, "ns/low"));
    assert_int_equal(kit_stats(&k).dry_runs, 0);
    kit_end(&k);
}

static void equal_priority_is_left_alone(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    running(&k, "same", 100, "3", "");
    pending(&k, "p", 100, "3");
    world_run(&k.w, 30000);
    kit_told(&k, "ns/p", "insufficient cpu");
    assert_true(exists(&k, "ns/same"));
    assert_int_equal(nominated(&k, "ns/p").n, 0);
    kit_end(&k);
}

static void a_pod_that_never_preempts_waits(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    running(&k, "low", 1, "3", "");
    kit_pod(&k, "p", "'priority':100,'preemptionPolicy':'Never'," ASKS("3"));
    world_run(&k.w, 30000);
    kit_told(&k, "ns/p", "preemption: not eligible due to preemptionPolicy=Never.");
    assert_true(exists(&k, "ns/low"));
    kit_end(&k);
}

static void off_means_off(void **state)
{
    (void)state;
    struct kit k;
    kit_start_with(&k, (struct sched_options){.preemption = SCHED_PREEMPTION_OFF});
    kit_node(&k, "n", "");
    running(&k, "low", 1, "3", "");
    pending(&k, "p", 100, "3");
    world_run(&k.w, 30000);
    kit_told(&k, "ns/p", "insufficient cpu");
    assert_true(exists(&k, "ns/low"));
    assert_false(world_watches(&k.w, "PodDisruptionBudget"));
    kit_end(&k);
}

static void budgets_decide_between_equals(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    running(&k, "guarded", 10, "2", ",'labels':{'app':'web'}");
    running(&k, "other", 10, "2", "");
    world_put(&k.w, "{'apiVersion':'policy/v1','kind':'PodDisruptionBudget','metadata':{'name':'b',"
                    "'namespace':'ns'},'spec':{'selector':{'matchLabels':{'app':'web'}}},"
                    "'status':{'disruptionsAllowed':0}}");
    world_run(&k.w, 10);
    pending(&k, "p", 100, "2");
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    assert_true(exists(&k, "ns/guarded"));
    assert_false(exists(&k, "ns/other"));
    kit_end(&k);
}

// A budget is a preference: without another choice it is violated.
static void a_budget_does_not_forbid(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    running(&k, "guarded", 10, "3", ",'labels':{'app':'web'}");
    world_put(&k.w, "{'apiVersion':'policy/v1','kind':'PodDisruptionBudget','metadata':{'name':'b',"
                    "'namespace':'ns'},'spec':{'selector':{'matchLabels':{'app':'web'}}},"
                    "'status':{'disruptionsAllowed':0}}");
    pending(&k, "p", 100, "3");
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    cleanup_sbuf struct sbuf metrics = {0};
    sched_metrics(k.s, &metrics);
    assert_true(kit_holds(sbuf_str(&metrics), "scheduler_preemption_attempts_total 1\n"));
    assert_true(kit_holds(sbuf_str(&metrics), "scheduler_preemption_victims_count 1\n"));
    assert_true(
        kit_holds(sbuf_str(&metrics), "scheduler_preemption_pdb_violations_total{type=\"pod\"} 1"));
    kit_end(&k);
}

// Without the right to read budgets no pod is displaced, and the condition says why.
static void unreadable_budgets_forbid(void **state)
{
    (void)state;
    struct kit k;
    world_start(&k.w);
    k.w.denied = "PodDisruptionBudget";
    k.client = world_client(&k.w);
    world_put(&k.w, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    k.s = sched_new(&(struct sched_options){.client = k.client});
    sched_start(k.s);
    kit_node(&k, "n", "");
    world_run(&k.w, 10);
    running(&k, "low", 1, "3", "");
    pending(&k, "p", 100, "3");
    world_run(&k.w, 30000);
    kit_told(&k, "ns/p", "poddisruptionbudgets; grant get, list and watch");
    assert_true(exists(&k, "ns/low"));
    kit_end(&k);
}

// --- While victims end ---------------------------------------------------------------------------

static void start_waiting(struct kit *k)
{
    start(k);
    running(k, "low", 1, "3", SLOW);
    pending(k, "p", 100, "3");
    world_run(&k->w, 3000);
    assert_true(is_ending(k, "ns/low"));
    assert_str(nominated(k, "ns/p"), "n");
}

static void the_condition_of_a_victim_tells_why(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    const struct api_pod_condition_array *all = &world_pod(&k.w, "ns/low")->status.conditions;
    const struct api_pod_condition *c = NULL;
    for (size_t i = 0; i < all->n; i++)
        if (str_eqz(all->p[i].type, "DisruptionTarget"))
            c = &all->p[i];
    assert_non_null(c);
    assert_str(c->status, "True");
    assert_str(c->reason, "PreemptionByScheduler");
    assert_str(c->message, "dray: preempting to accommodate a higher priority pod");
    world_run(&k.w, 12000);
    kit_told(&k, "ns/p",
             "preemption: found a potential placement for pod on node n, preempting 1 victims");
    finish(&k, "ns/low");
    world_run(&k.w, 20);
    kit_on(&k, "ns/p", "n"); // at once, whatever its back-off
    kit_end(&k);
}

static void waiting_costs_no_attempts_and_no_pods(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    running(&k, "small", 1, "1", "");
    running(&k, "low", 1, "3", SLOW);
    pending(&k, "p", 100, "3");
    world_run(&k.w, 3000);
    assert_true(is_ending(&k, "ns/low"));
    uint64_t dry_runs = kit_stats(&k).dry_runs;
    for (int i = 0; i < 10; i++) { // events that could help
        world_putf(&k.w,
                   "{'apiVersion':'v1','kind':'Node','metadata':{'name':'m'},'status':"
                   "{'allocatable':{'cpu':'1','memory':'%dGi','pods':'10'}}}",
                   i + 1);
        world_run(&k.w, 2000);
    }
    assert_int_equal(kit_stats(&k).dry_runs, dry_runs);
    assert_int_equal(kit_stats(&k).preemptions, 1);
    assert_true(exists(&k, "ns/small"));
    finish(&k, "ns/low");
    world_run(&k.w, 20);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

static void the_preemptor_takes_another_node_that_gets_free(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    kit_node(&k, "other", "");
    world_run(&k.w, 12000);
    kit_on(&k, "ns/p", "other");
    pending(&k, "q", 50, "3"); // nothing is kept for the other any more
    finish(&k, "ns/low");
    world_run(&k.w, 12000);
    kit_on(&k, "ns/q", "n");
    kit_end(&k);
}

static void equals_do_not_steal_the_room(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    pending(&k, "thief", 100, "3");
    pending(&k, "again", 1, "3"); // the victim's controller makes a new one
    world_run(&k.w, 12000);
    finish(&k, "ns/low");
    world_run(&k.w, 12000);
    kit_on(&k, "ns/p", "n");
    kit_told(&k, "ns/thief", "insufficient cpu");
    kit_told(&k, "ns/again", "insufficient cpu");
    kit_end(&k);
}

// Room that a small pod of low priority would fit into is kept, too.
static void lower_pods_are_not_bound_into_promised_room(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    running(&k, "a", 1, "1", SLOW);
    running(&k, "b", 1, "2", SLOW);
    pending(&k, "p", 100, "4");
    world_run(&k.w, 3000);
    finish(&k, "ns/a");
    pending(&k, "small", 1, "1");
    world_run(&k.w, 12000);
    kit_told(&k, "ns/small", "insufficient cpu");
    finish(&k, "ns/b");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// Three priorities: the highest takes the node from the one that waits for it.
static void a_higher_pod_ends_the_nomination(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    pending(&k, "top", 200, "3");
    world_run(&k.w, 3000);
    assert_str(nominated(&k, "ns/top"), "n");
    assert_int_equal(nominated(&k, "ns/p").n, 0);
    finish(&k, "ns/low");
    world_run(&k.w, 12000);
    kit_on(&k, "ns/top", "n");
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    assert_int_equal(nominated(&k, "ns/p").n, 0);
    kit_end(&k);
}

static void a_restart_loses_nothing(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_node(&k, "m", "");
    running(&k, "x", 1, "3", SLOW);
    running(&k, "y", 1, "3", SLOW);
    pending(&k, "p", 100, "3");
    world_run(&k.w, 3000);
    assert_int_equal(is_ending(&k, "ns/x") + is_ending(&k, "ns/y"), 1);
    restart(&k);
    world_run(&k.w, 30000);
    pending(&k, "thief", 100, "3");
    world_run(&k.w, 3000);
    assert_int_equal(kit_stats(&k).preemptions, 1); // for the thief alone
    const char *first = str_eqz(nominated(&k, "ns/p"), "n") ? "n" : "m";
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "ns/y" : "ns/x";
        if (str_eqz(world_node_of(&k.w, key), first)) {
            finish(&k, key);
            break;
        }
    }
    world_run(&k.w, 12000);
    kit_on(&k, "ns/p", first);
    kit_end(&k);
}

static int refuse_writes(struct world *w, const char *verb, const struct api_kind *kind,
                         struct str name)
{
    (void)name;
    if (w->refusals <= 0 || !str_eqz(kind->kind, "Pod") || strcmp(verb, "bind") == 0)
        return 0;
    w->refusals--;
    return -ERR_INTERNAL;
}

// A victim that waits for its devices goes back to the queue; it is not deleted.
static void a_pod_on_its_way_is_turned_back(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':"
                    "'s'},'spec':{'driver':'drv','nodeName':'n','pool':{'name':'n','generation':1,"
                    "'resourceSliceCount':1},'devices':[{'name':'gpu-0','bindsToNode':true,"
                    "'bindingConditions':['ready'],'bindingFailureConditions':['bad']}]}}");
    kit_claim(&k, "c", 1);
    kit_pod(&k, "low",
            "'priority':1,'resourceClaims':[{'name':'g','resourceClaimName':'c'}]," ASKS("3"));
    world_run(&k.w, 100);
    assert_non_null(world_claim(&k.w, "ns/c")->status.allocation);
    assert_int_equal(world_node_of(&k.w, "ns/low").n, 0);
    pending(&k, "p", 100, "3");
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    assert_true(exists(&k, "ns/low"));
    assert_non_null(world_event(&k.w, "low", "Preempted"));
    kit_end(&k);
}

// --- Ends of nominations -------------------------------------------------------------------------

static void a_node_that_goes_ends_the_nomination(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    world_delete(&k.w, "Node", "n");
    world_run(&k.w, 3000);
    assert_int_equal(nominated(&k, "ns/p").n, 0);
    kit_end(&k);
}

static void a_preemptor_that_goes_frees_the_room(void **state)
{
    (void)state;
    struct kit k;
    start_waiting(&k);
    pending(&k, "next", 1, "3");
    world_run(&k.w, 3000);
    world_delete(&k.w, "Pod", "ns/p");
    finish(&k, "ns/low");
    world_run(&k.w, 12000);
    kit_on(&k, "ns/next", "n");
    kit_end(&k);
}

// A pod that cannot be tried keeps no room from others.
static void a_gate_ends_the_nomination(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_gpus(&k, "n", 1);
    kit_claim(&k, "c", 1);
    running(&k, "low", 1, "3", SLOW);
    kit_pod(&k, "p",
            "'priority':100,'resourceClaims':[{'name':'g','resourceClaimName':'c'}]," ASKS("3"));
    world_run(&k.w, 3000);
    assert_str(nominated(&k, "ns/p"), "n");
    world_delete(&k.w, "ResourceClaim", "ns/c");
    pending(&k, "next", 1, "3");
    k.w.refuse = refuse_writes;
    k.w.refusals = 2; // it is written again
    finish(&k, "ns/low");
    world_run(&k.w, 30000);
    kit_on(&k, "ns/next", "n");
    assert_int_equal(nominated(&k, "ns/p").n, 0);
    kit_end(&k);
}

// --- Failures ------------------------------------------------------------------------------------

// Whichever write fails, the pod gets its node in the end and no other pod goes for it.
static void failed_writes_are_repeated(void **state)
{
    (void)state;
    for (int failures = 1; failures < 6; failures++) {
        struct kit k;
        start(&k);
        running(&k, "low", 1, "3", "");
        running(&k, "small", 1, "1", "");
        k.w.refuse = refuse_writes;
        k.w.refusals = failures;
        pending(&k, "p", 100, "3");
        world_run(&k.w, 60000);
        kit_on(&k, "ns/p", "n");
        assert_false(exists(&k, "ns/low"));
        assert_true(exists(&k, "ns/small"));
        kit_end(&k);
    }
}

// Many pods at once: as many victims as needed, none more.
static void many_preemptors_settle(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    for (int i = 0; i < 40; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name, "");
        (void)snprintf(name, sizeof(name), "low%d", i);
        pending(&k, name, 1, "3");
        world_run(&k.w, 5);
    }
    for (int i = 0; i < 30; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "high%d", i);
        pending(&k, name, 100, "3");
    }
    world_run(&k.w, 5000);
    size_t high = 0;
    size_t low = 0;
    for (int i = 0; i < 40; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "ns/high%d", i);
        high += i < 30 && world_node_of(&k.w, key).n > 0;
        (void)snprintf(key, sizeof(key), "ns/low%d", i);
        low += exists(&k, key);
    }
    assert_int_equal(high, 30);
    assert_int_equal(low, 10);
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(the_less_important_pod_goes), TEST_CASE(a_free_node_costs_no_pod),
          TEST_CASE(equal_priority_is_left_alone), TEST_CASE(a_pod_that_never_preempts_waits),
          TEST_CASE(off_means_off), TEST_CASE(budgets_decide_between_equals),
          TEST_CASE(a_budget_does_not_forbid), TEST_CASE(unreadable_budgets_forbid),
          TEST_CASE(the_condition_of_a_victim_tells_why),
          TEST_CASE(waiting_costs_no_attempts_and_no_pods),
          TEST_CASE(the_preemptor_takes_another_node_that_gets_free),
          TEST_CASE(equals_do_not_steal_the_room),
          TEST_CASE(lower_pods_are_not_bound_into_promised_room),
          TEST_CASE(a_higher_pod_ends_the_nomination), TEST_CASE(a_restart_loses_nothing),
          TEST_CASE(a_node_that_goes_ends_the_nomination),
          TEST_CASE(a_pod_on_its_way_is_turned_back),
          TEST_CASE(a_preemptor_that_goes_frees_the_room), TEST_CASE(a_gate_ends_the_nomination),
          TEST_CASE(failed_writes_are_repeated), TEST_CASE(many_preemptors_settle))
