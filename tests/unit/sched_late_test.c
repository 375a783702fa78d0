// SPDX-License-Identifier: Apache-2.0
//
// Writes that come late: of a scheduler that crashed, of one that was told that there was no
// answer, of another one that serves the same pods. Whatever the order, no pod is bound without its
// devices.
#include "sched_kit.h"

#include "base/banned.h"

#define USES(name) "'resourceClaims':[{'name':'gpu','resourceClaimName':'" name "'}]"
#define ASKS \
    "'containers':[{'name':'c','image':'i','resources':{'requests':{'example.com/gpu':'1'}}}]"
#define EXPLICIT CLASS("ext", "'extendedResourceName':'example.com/gpu'")

// A Binding that is under way: what it said.
struct late {
    bool caught;
    char version[24];
    int catches; // so many Bindings get no answer
};

static struct late late;

static int catch_binding(struct world *w, const char *verb, const struct api_kind *kind,
                         struct str name)
{
    (void)kind;
    (void)name;
    if (strcmp(verb, "bind") != 0 || late.catches <= 0)
        return 0;
    late.catches--;
    if (!late.caught)
        (void)snprintf(late.version, sizeof(late.version), "%.*s",
                       STR_ARG(world_pod(w, "ns/p")->metadata.resource_version));
    late.caught = true;
    return -ERR_TIMEOUT;
}

static void note(void *arg, const struct client_answer *a)
{
    *(int *)arg = a->code;
}

// arrives carries the late Binding out, and says what became of it.
static int arrives(struct kit *k, const char *node)
{
    int code = 1;
    const struct api_object_meta pod = {.namespace = STR("ns"),
                                        .name = STR("p"),
                                        .uid = world_pod(&k->w, "ns/p")->metadata.uid,
                                        .resource_version = str_z(late.version)};
    struct client *c = world_client(&k->w);
    late.catches = 0;
    client_bind(c, &pod, str_z(node), note, &code);
    world_run(&k->w, 1);
    return code;
}

// crash ends the scheduler when its Binding is under way, and starts another.
static void crash(struct kit *k)
{
    for (int i = 0; i < 1000 && !late.caught; i++)
        (void)exec_sim_step(k->w.sim);
    assert_true(late.caught);
    sched_free(k->s);
    k->s = sched_new(&(struct sched_options){.client = k->client});
    sched_start(k->s);
}

// tried: an attempt has been made, and its first write is under way.
static void tried(struct kit *k)
{
    for (int i = 0; i < 1000 && !kit_stats(k).attempts; i++)
        (void)exec_sim_step(k->w.sim);
    assert_int_equal(kit_stats(k).attempts, 1);
}

static void start(struct kit *k)
{
    late = (struct late){.catches = 1};
    kit_start(k);
    k->w.refuse = catch_binding;
    world_put(&k->w, EXPLICIT);
    kit_node(k, "n", "");
    kit_gpus(k, "n", 1);
}

// The successor takes the reservation back and makes its own: only its own Binding counts.
static void a_late_binding_fails_once_the_reservation_was_taken(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_gpu_pod(&k, "p", 1);
    crash(&k);
    late.catches = 1; // the successor's gets no answer either
    for (int i = 0; i < 1000 && late.catches; i++)
        (void)exec_sim_step(k.w.sim);
    assert_int_equal(late.catches, 0);
    assert_int_equal(arrives(&k, "n"), -ERR_CONFLICT);
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_claim(&k.w, "ns/p")->status.reserved_for.n, 1);
    kit_end(&k);
}

// One that comes before the successor has done anything stands, and keeps its reservation.
static void a_binding_that_comes_first_stands(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_gpu_pod(&k, "p", 1);
    crash(&k);
    assert_int_equal(arrives(&k, "n"), 0);
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_claim(&k.w, "ns/p")->status.reserved_for.n, 1);
    assert_true(sched_idle(k.s));
    kit_end(&k);
}

// A claim for extended resources of the predecessor is deleted; its Binding must not bind the pod
// to it.
static void a_late_binding_fails_once_the_special_claim_was_deleted(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_pod(&k, "p", ASKS);
    crash(&k);
    for (int i = 0; i < 200 && world_count(&k.w, "ResourceClaim"); i++)
        (void)exec_sim_step(k.w.sim);
    assert_int_equal(world_count(&k.w, "ResourceClaim"), 0);
    assert_int_equal(arrives(&k, "n"), -ERR_CONFLICT);
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(world_count(&k.w, "ResourceClaim"), 1);
    kit_end(&k);
}

// Somebody else's change of the pod is no reason to start anew.
static void a_change_of_the_pod_does_not_cost_the_attempt(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    late.catches = 0;
    kit_claim(&k, "c", 1);
    kit_pod(&k, "p", USES("c"));
    tried(&k);
    world_lag(k.client, "Pod"); // the scheduler knows the pod as it was at first
    kit_pod_of(&k, "p", ",'labels':{'a':'b'}", USES("c"));
    world_run(&k.w, 20);
    kit_on(&k, "ns/p", "n");
    assert_int_equal(kit_stats(&k).errors, 0);
    world_release(k.client);
    kit_end(&k);
}

static int fence_then_bind(struct world *w, const char *verb, const struct api_kind *kind,
                           struct str name)
{
    (void)kind;
    (void)name;
    if (strcmp(verb, "bind") != 0 || w->refusals-- != 1)
        return 0;
    world_put(w, "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','namespace':'ns','uid':"
                 "'u-p'},'spec':{'schedulerName':'dray','containers':[{'name':'c'}],"
                 "'resourceClaims':[{'name':'gpu','resourceClaimName':'c'}]},'status':{"
                 "'conditions':[{'type':'PodScheduled','status':'False','reason':'SchedulerError',"
                 "'lastProbeTime':'2031-01-01T00:00:00Z'}]}}");
    return 0;
}

// Another scheduler's fence says that it is about to take the claims: the attempt is over, and
// begins anew with reservations of its own.
static void a_fence_of_another_ends_the_attempt(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    k.w.refuse = fence_then_bind;
    k.w.refusals = 1;
    kit_claim(&k, "c", 1);
    kit_pod_of(&k, "p", ",'uid':'u-p'", USES("c"));
    world_run(&k.w, 20);
    kit_told(&k, "ns/p", "");
    assert_int_equal(world_claim(&k.w, "ns/c")->status.reserved_for.n, 0);
    assert_non_null(world_claim(&k.w, "ns/c")->status.allocation);
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

// A pod that cannot be tried gives back what an earlier attempt left it: here one claim of two is
// going.
static void a_gated_pod_keeps_no_reservation(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    late.catches = 0;
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'c',"
              "'namespace':'ns','finalizers':['resource.kubernetes.io/delete-protection']},'spec':{"
              "'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'gpu',"
              "'allocationMode':'ExactCount','count':1}}]}},'status':{'allocation':{'devices':{"
              "'results':[{'request':'r','driver':'drv','pool':'n','device':'gpu-0'}]}},"
              "'reservedFor':[{'resource':'pods','name':'p','uid':'u-p'}]}}");
    kit_pod_of(&k, "p", ",'uid':'u-p'",
               "'resourceClaims':[{'name':'a','resourceClaimName':'c'},{'name':'b',"
               "'resourceClaimName':'missing'}]");
    world_run(&k.w, 50);
    assert_int_equal(world_claim(&k.w, "ns/c")->status.reserved_for.n, 0);
    assert_int_equal(kit_stats(&k).gated, 1);
    kit_end(&k);
}

// A status update that nobody waits for any more gives a claim a device that another pod got
// meanwhile.
static void a_late_allocation_gives_way(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    late.catches = 0;
    kit_gpu_pod(&k, "first", 1);
    world_run(&k.w, 20);
    kit_on(&k, "ns/first", "n");
    kit_claim(&k, "c", 1);
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 20);
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'c',"
              "'namespace':'ns','finalizers':['resource.kubernetes.io/delete-protection']},'spec':{"
              "'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'gpu',"
              "'allocationMode':'ExactCount','count':1}}]}},'status':{'allocation':{'devices':{"
              "'results':[{'request':'r','driver':'drv','pool':'n','device':'gpu-0'}]}}}}");
    world_run(&k.w, 5000);
    assert_null(world_claim(&k.w, "ns/c")->status.allocation);
    kit_told(&k, "ns/p", "");
    kit_end(&k);
}

// The condition is for the pod as it was: written late it must not say of a pod that runs that it
// waits.
static void a_late_condition_is_dropped(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    late.catches = 0;
    world_lag(k.client, "Pod");
    kit_pod(&k, "p", "'nodeSelector':{'no':'such'}");
    world_release(k.client);
    world_lag(k.client, "Pod"); // it sees the pod, and no change of it
    for (int i = 0; i < 1000 && !kit_stats(&k).conditions; i++)
        (void)exec_sim_step(k.w.sim);
    kit_pod(&k, "p", "'nodeSelector':{'no':'such'},'nodeName':'n'"); // bound by hand
    uint64_t written = kit_stats(&k).conditions;
    world_run(&k.w, 20000); // it is said again, of a pod that the scheduler believes to wait
    assert_true(kit_stats(&k).conditions > written);
    assert_int_equal(world_condition(&k.w, "ns/p").n, 0);
    world_release(k.client);
    kit_end(&k);
}

// A claim that somebody else has given a device; more: the rest of its status.
static void given(struct world *w, const char *name, const char *device, const char *more)
{
    world_putf(w,
               "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'%s',"
               "'namespace':'ns','finalizers':['resource.kubernetes.io/delete-protection']},'spec':"
               "{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'gpu',"
               "'allocationMode':'ExactCount','count':1}}]}},'status':{'allocation':{'devices':{"
               "'results':[{'request':'r','driver':'drv','pool':'n','device':'%s'}]}}%s}}",
               name, device, more);
}

// That another pod has it reserved does not make a late allocation good: that pod may be told so
// too. And as long as it has, the allocation is not taken from it.
static void a_reservation_of_another_says_nothing(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    late.catches = 0;
    kit_gpu_pod(&k, "first", 1);
    world_run(&k.w, 20);
    kit_on(&k, "ns/first", "n");
    kit_pod_of(&k, "other", ",'uid':'u-other'", "'schedulingGates':[{'name':'g'}]");
    given(&k.w, "c", "gpu-0",
          ",'reservedFor':[{'resource':'pods','name':'other','uid':'u-other'}]");
    kit_pod(&k, "p", USES("c"));
    world_run(&k.w, 5000);
    kit_told(&k, "ns/p", "");
    const struct api_resource_claim *c = world_claim(&k.w, "ns/c");
    assert_non_null(c->status.allocation);
    assert_true(c->status.reserved_for.n >= 1);
    assert_str(c->status.reserved_for.p[0].uid, "u-other");
    given(&k.w, "c", "gpu-0", ""); // now nobody has
    world_run(&k.w, 15000);
    assert_null(world_claim(&k.w, "ns/c")->status.allocation);
    kit_end(&k);
}

// One claim of pod p is written by another scheduler, the writes of its second one get nowhere for
// a while.
static int c_is_taken_d_is_slow(struct world *w, const char *verb, const struct api_kind *kind,
                                struct str name)
{
    if (!str_eqz(kind->kind, "ResourceClaim") || strcmp(verb, "bind") == 0)
        return 0;
    if (str_eqz(name, "c") && w->refusals == 1) {
        w->refusals = 0;
        given(w, "c", "gpu-2", "");
    }
    return str_eqz(name, "d") ? -ERR_CONFLICT : 0;
}

// What another wrote in place of what we had on its way is another's, also before our attempt has
// ended.
static void an_allocation_in_place_of_ours_is_foreign(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    k.w.refuse = c_is_taken_d_is_slow;
    k.w.refusals = 1;
    kit_gpus(&k, "n", 3);
    kit_claim(&k, "c", 1);
    kit_claim(&k, "d", 1);
    kit_pod(&k, "p",
            "'resourceClaims':[{'name':'c','resourceClaimName':'c'},{'name':'d',"
            "'resourceClaimName':'d'}]");
    kit_gpu_pod(&k, "q", 1);
    world_run(&k.w, 8);
    assert_int_equal(k.w.refusals, 0);
    world_run(&k.w, 3000);
    kit_on(&k, "ns/q", "n");
    assert_int_equal(kit_stats(&k).gave_way, 1);
    kit_end(&k);
}

// A pod that goes while it is bound leaves no device behind that nobody uses.
static void a_pod_that_goes_leaves_no_allocation(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    kit_gpu_pod(&k, "p", 1);
    for (int i = 0; i < 1000 && !late.caught; i++)
        (void)exec_sim_step(k.w.sim);
    assert_non_null(world_claim(&k.w, "ns/p")->status.allocation);
    world_delete(&k.w, "Pod", "ns/p");
    world_run(&k.w, 3000);
    assert_null(world_claim(&k.w, "ns/p")->status.allocation);
    assert_int_equal(world_claim(&k.w, "ns/p")->status.reserved_for.n, 0);
    kit_end(&k);
}

static int pod_goes(struct world *w, const char *verb, const struct api_kind *kind, struct str name)
{
    (void)kind;
    if (strcmp(verb, "patch") == 0 && str_eqz(name, "p") && w->refusals-- == 1)
        world_delete(w, "Pod", "ns/p");
    return 0;
}

// Nor does one whose reservation was left by an earlier attempt.
static void a_pod_that_goes_leaves_no_allocation_of_others(void **state)
{
    (void)state;
    struct kit k;
    start(&k);
    k.w.refuse = pod_goes;
    k.w.refusals = 1;
    given(&k.w, "c", "gpu-0", ",'reservedFor':[{'resource':'pods','name':'p','uid':'u-p'}]");
    kit_pod_of(&k, "p", ",'uid':'u-p'", USES("c"));
    world_run(&k.w, 3000);
    assert_null(world_pod(&k.w, "ns/p"));
    assert_null(world_claim(&k.w, "ns/c")->status.allocation);
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(a_late_binding_fails_once_the_reservation_was_taken),
          TEST_CASE(a_binding_that_comes_first_stands),
          TEST_CASE(a_late_binding_fails_once_the_special_claim_was_deleted),
          TEST_CASE(a_change_of_the_pod_does_not_cost_the_attempt),
          TEST_CASE(a_fence_of_another_ends_the_attempt),
          TEST_CASE(a_gated_pod_keeps_no_reservation), TEST_CASE(a_late_allocation_gives_way),
          TEST_CASE(a_late_condition_is_dropped), TEST_CASE(a_reservation_of_another_says_nothing),
          TEST_CASE(an_allocation_in_place_of_ours_is_foreign),
          TEST_CASE(a_pod_that_goes_leaves_no_allocation),
          TEST_CASE(a_pod_that_goes_leaves_no_allocation_of_others))
