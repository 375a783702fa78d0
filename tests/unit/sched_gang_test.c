// SPDX-License-Identifier: Apache-2.0
//
// PodGroups in the scheduler, rule by rule: claims that are reserved for a group (6, 7, 8, 12) and
// pods that are placed together or not at all (13).
#include "sched_kit.h"

#include "base/banned.h"

#define GROUPS "GenericWorkload=true,DRAWorkloadResourceClaims=true"

static struct features gates;

static void begin(struct kit *k)
{
    struct err err;
    features_init(&gates, FEATURES_MINOR);
    assert_int_equal(features_parse(&gates, STR(GROUPS), &err), 0);
    kit_start_with(k, (struct sched_options){.features = &gates});
}

// policy: "'basic':{}" or "'gang':{'minCount':3}"; rest: more of the spec.
static void group(struct kit *k, const char *name, const char *policy, const char *rest)
{
    world_putf(
        &k->w,
        "{'apiVersion':'scheduling.k8s.io/v1beta1','kind':'PodGroup','metadata':{'name':'%s',"
        "'namespace':'ns','uid':'u-%s'},'spec':{'schedulingPolicy':{%s}%s}}",
        name, name, policy, rest);
}

#define SHARED ",'resourceClaims':[{'name':'net','resourceClaimName':'c'}]"
#define USES   "'resourceClaims':[{'name':'net','resourceClaimName':'c'}]"

static void member(struct kit *k, const char *name, const char *of, const char *rest)
{
    cleanup_sbuf struct sbuf spec = {0};
    sbuf_addf(&spec, "'schedulingGroup':{'podGroupName':'%s'}%s%s", of, *rest ? "," : "", rest);
    kit_pod(k, name, spec.p);
}

static void members(struct kit *k, const char *of, int n, const char *rest)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%s-%d", of, i);
        member(k, name, of, rest);
    }
}

// A pod of a group with a claim of its own for so many devices.
static void gpu_members(struct kit *k, const char *of, int n, int devices)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        cleanup_sbuf struct sbuf rest = {0};
        (void)snprintf(name, sizeof(name), "%s-%d", of, i);
        kit_claim(k, name, devices);
        sbuf_addf(&rest, "'resourceClaims':[{'name':'gpu','resourceClaimName':'%s'}]", name);
        member(k, name, of, rest.p);
    }
}

static size_t bound(struct kit *k, const char *of, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++) {
        char key[40];
        (void)snprintf(key, sizeof(key), "ns/%s-%d", of, i);
        sum += world_node_of(&k->w, key).n > 0;
    }
    return sum;
}

static void remove_members(struct kit *k, const char *of, int n)
{
    for (int i = 0; i < n; i++) {
        char key[40];
        (void)snprintf(key, sizeof(key), "ns/%s-%d", of, i);
        world_delete(&k->w, "Pod", key);
        kit_claim(k, key + strlen("ns/"), 1); // as the claim controller leaves it
    }
}

static const struct api_condition *condition(struct kit *k, const char *name)
{
    const struct api_pod_group *g = world_group(&k->w, name);
    for (size_t i = 0; g && i < g->status.conditions.n; i++)
        if (str_eqz(g->status.conditions.p[i].type, "PodGroupInitiallyScheduled"))
            return &g->status.conditions.p[i];
    return NULL;
}

static void says(struct kit *k, const char *name, const char *status, const char *reason,
                 const char *text)
{
    const struct api_condition *c = condition(k, name);
    assert_non_null(c);
    assert_str(c->status, status);
    assert_str(c->reason, reason);
    if (!kit_holds(c->message, text))
        fail_msg("\"%s\" is not in \"%.*s\"", text, STR_ARG(c->message));
}

static size_t allocated(struct kit *k, const char *of, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++) {
        char key[40];
        (void)snprintf(key, sizeof(key), "ns/%s-%d", of, i);
        const struct api_resource_claim *c = world_claim(&k->w, key);
        sum += c && c->status.allocation;
    }
    return sum;
}

// --- Claims of groups ----------------------------------------------------------------------------

static void reserved_for_group(struct kit *k, const char *claim, const char *group_name)
{
    const struct api_resource_claim *c = world_claim(&k->w, claim);
    assert_non_null(c->status.allocation);
    assert_int_equal(c->status.reserved_for.n, 1);
    assert_str(c->status.reserved_for.p[0].api_group, "scheduling.k8s.io");
    assert_str(c->status.reserved_for.p[0].resource, "podgroups");
    assert_str(c->status.reserved_for.p[0].name, group_name);
}

// §7.2, §12: one reservation serves all pods of the group, more than 256 of them, too.
static void a_group_claim_is_reserved_for_the_group(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    for (int i = 0; i < 3; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%d", i);
        kit_node(&k, name, "");
    }
    world_put(&k.w, "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':"
                    "'net'},'spec':{'driver':'drv','allNodes':true,'pool':{'name':'net',"
                    "'generation':1,'resourceSliceCount':1},'devices':[{'name':'d'}]}}");
    kit_claim(&k, "c", 1);
    group(&k, "g", "'basic':{}", SHARED);
    members(&k, "g", 300, USES);
    world_run(&k.w, 50);
    assert_int_equal(bound(&k, "g", 300), 300);
    reserved_for_group(&k, "ns/c", "g");
    kit_end(&k);
}

// §7.2: the entry must be the group's in all parts; else the claim is the pod's own affair.
static void another_entry_is_the_pods_own(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_claim(&k, "c", 1);
    group(&k, "g", "'basic':{}", SHARED);
    member(&k, "p", "g", "'resourceClaims':[{'name':'other','resourceClaimName':'c'}]");
    world_run(&k.w, 20);
    kit_on(&k, "ns/p", "n");
    assert_str(world_claim(&k.w, "ns/c")->status.reserved_for.p[0].resource, "pods");
    kit_end(&k);
}

#define GROUP_OWNED                                                                            \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'made',"     \
    "'namespace':'ns','ownerReferences':[{'apiVersion':'scheduling.k8s.io/v1beta1','kind':"    \
    "'PodGroup','name':'g','uid':'u-g','controller':true}]},'spec':{'devices':{'requests':[{"  \
    "'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':'ExactCount','count':1}}]" \
    "}}}"
#define MADE_POD(name)                                                                          \
    "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'" name "','namespace':'ns'},'spec':{"  \
    "'schedulerName':'dray','schedulingGroup':{'podGroupName':'g'},'containers':[{'name':'c'}]" \
    ",'resourceClaims':[{'name':'net','resourceClaimTemplateName':'t'}]},'status':{"            \
    "'resourceClaimStatuses':[{'name':'net','resourceClaimName':'made'}]}}"

// §2: a claim made from a template for the group is its pods' too, and no other group's.
static void a_claim_made_for_the_group_is_its_pods(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    group(&k, "g", "'basic':{}",
          ",'resourceClaims':[{'name':'net','resourceClaimTemplateName':'t'}]");
    world_put(&k.w, GROUP_OWNED);
    world_put(&k.w, MADE_POD("g-0"));
    world_put(&k.w, MADE_POD("g-1"));
    world_put(&k.w, "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'stranger','namespace':'ns'"
                    "},'spec':{'schedulerName':'dray','containers':[{'name':'c'}],'resourceClaims':"
                    "[{'name':'net','resourceClaimTemplateName':'t'}]},'status':{"
                    "'resourceClaimStatuses':[{'name':'net','resourceClaimName':'made'}]}}");
    world_run(&k.w, 12000);
    assert_int_equal(bound(&k, "g", 2), 2);
    reserved_for_group(&k, "ns/made", "g");
    kit_told(&k, "ns/stranger", "was not created for Pod ns/stranger (Pod is not owner)");
    kit_end(&k);
}

// §3.3, §6: pods of one cycle share what is in flight; nobody waits and nothing is allocated twice.
static void pods_of_one_cycle_share_what_is_in_flight(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_gpus(&k, "a", 1);
    kit_gpus(&k, "b", 1);
    kit_claim(&k, "c", 1);
    group(&k, "g", "'gang':{'minCount':4}", SHARED);
    members(&k, "g", 4, USES);
    world_run(&k.w, 20);
    assert_int_equal(bound(&k, "g", 4), 4);
    assert_int_equal(kit_stats(&k).attempts, 4);
    assert_true(kit_stats(&k).solves <= 3); // both nodes, and the best one again: the first pod's
    reserved_for_group(&k, "ns/c", "g");
    kit_end(&k);
}

// Late writes, rule 5 for groups: who finds the reservation writes the claim before it relies on
// it.
static void a_found_reservation_is_not_relied_on_unwritten(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_claim(&k, "c", 1);
    group(&k, "g", "'basic':{}", SHARED);
    member(&k, "g-0", "g", USES);
    world_run(&k.w, 20);
    kit_on(&k, "ns/g-0", "n");
    struct arena cleanup_arena arena = {0};
    struct str before = arena_str(&arena, world_claim(&k.w, "ns/c")->metadata.resource_version);
    member(&k, "g-1", "g", USES);
    world_run(&k.w, 20);
    kit_on(&k, "ns/g-1", "n");
    const struct api_resource_claim *c = world_claim(&k.w, "ns/c");
    assert_false(str_eq(c->metadata.resource_version, before));
    reserved_for_group(&k, "ns/c", "g");
    kit_end(&k);
}

static int refuse_binding(struct world *w, const char *verb, const struct api_kind *kind,
                          struct str name)
{
    (void)name;
    if (!str_eqz(kind->kind, "Pod") || strcmp(verb, "bind") != 0 || w->refusals <= 0)
        return 0;
    w->refusals--;
    return -ERR_INVALID;
}

// §6: Unreserve leaves the group's reservation: other pods may need it.
static void unreserve_leaves_the_groups_reservation(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_claim(&k, "c", 1);
    group(&k, "g", "'basic':{}", SHARED);
    k.w.refuse = refuse_binding;
    k.w.refusals = 1;
    member(&k, "g-0", "g", USES);
    world_run(&k.w, 20);
    assert_int_equal(bound(&k, "g", 1), 0);
    reserved_for_group(&k, "ns/c", "g");
    world_run(&k.w, 3000);
    kit_on(&k, "ns/g-0", "n");
    kit_end(&k);
}

#define HELD(node)                                                                                 \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'c',"            \
    "'namespace':'ns','uid':'u-c','finalizers':['resource.kubernetes.io/delete-protection']},"     \
    "'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'gpu',"               \
    "'allocationMode':'ExactCount','count':1}}]}},'status':{'allocation':{'devices':{'results':[{" \
    "'request':'r','driver':'drv','pool':'" node "','device':'gpu-0'}]},'nodeSelector':{"          \
    "'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name','operator':'In','values':['" node \
    "']}]}]}},'reservedFor':[{'apiGroup':'scheduling.k8s.io','resource':'podgroups','name':'g',"   \
    "'uid':'u-g'}]}}"

// §8: no pod of the group runs and its claim keeps it from nodes that would do: the claim is
// cleared.
static void post_filter_clears_a_group_claim_that_is_out_of_reach(void **state)
{
    (void)state;
    for (int gang = 0; gang < 2; gang++) {
        struct kit k;
        begin(&k);
        kit_node(&k, "a", ",'spec':{'unschedulable':true}");
        kit_node(&k, "b", "");
        kit_gpus(&k, "a", 1);
        kit_gpus(&k, "b", 1);
        world_put(&k.w, HELD("a"));
        group(&k, "g", gang ? "'gang':{'minCount':2}" : "'basic':{}", SHARED);
        members(&k, "g", 2, USES);
        world_run(&k.w, 6000);
        kit_on(&k, "ns/g-0", "b");
        kit_on(&k, "ns/g-1", "b");
        assert_int_equal(kit_stats(&k).given_back, 1);
        reserved_for_group(&k, "ns/c", "g");
        kit_end(&k);
    }
}

// §8: as long as a pod of the group runs nothing is taken from it.
static void post_filter_takes_nothing_from_a_group_that_runs(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_gpus(&k, "a", 1);
    kit_gpus(&k, "b", 1);
    world_put(&k.w, HELD("a"));
    group(&k, "g", "'basic':{}", SHARED);
    member(&k, "g-0", "g", USES);
    world_run(&k.w, 20);
    kit_on(&k, "ns/g-0", "a");
    kit_node(&k, "a", ",'spec':{'unschedulable':true}");
    member(&k, "g-1", "g", USES);
    world_run(&k.w, 30000);
    assert_int_equal(world_node_of(&k.w, "ns/g-1").n, 0);
    assert_int_equal(kit_stats(&k).given_back, 0);
    reserved_for_group(&k, "ns/c", "g");
    kit_end(&k);
}

// §8: a group that fits nowhere for other reasons gives up its reservation, not the allocation.
static void post_filter_unreserves_a_basic_group(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 1);
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'c',"
              "'namespace':'ns','uid':'u-c','finalizers':['resource.kubernetes.io/"
              "delete-protection']},'spec':{'devices':{'requests':[{'name':'r','exactly':{"
              "'deviceClassName':'gpu','allocationMode':'ExactCount','count':1}}]}},'status':{"
              "'allocation':{'devices':{'results':[{'request':'r','driver':'drv','pool':'net',"
              "'device':'d'}]}},'reservedFor':[{'apiGroup':'scheduling.k8s.io','resource':"
              "'podgroups','name':'g','uid':'u-g'}]}}");
    group(&k, "g", "'basic':{}", SHARED);
    member(&k, "g-0", "g",
           USES ",'containers':[{'name':'c','resources':{'requests':{'cpu':'64'}}}]");
    world_run(&k.w, 20);
    kit_told(&k, "ns/g-0", "cpu");
    assert_int_equal(world_claim(&k.w, "ns/c")->status.reserved_for.n, 0);
    assert_non_null(world_claim(&k.w, "ns/c")->status.allocation);
    kit_end(&k);
}

// A group that is being deleted is kept for the pods it has, not for later ones.
static void a_group_that_goes_takes_no_new_pods(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    world_put(&k.w,
              "{'apiVersion':'scheduling.k8s.io/v1beta1','kind':'PodGroup','metadata':{'name':"
              "'g','namespace':'ns','uid':'u-g','finalizers':['x'],'deletionTimestamp':"
              "'2026-01-02T00:00:00Z'},'spec':{'schedulingPolicy':{'basic':{}}}}");
    kit_pod_of(&k, "old", ",'creationTimestamp':'2026-01-01T00:00:00Z'",
               "'schedulingGroup':{'podGroupName':'g'}");
    kit_pod_of(&k, "new", ",'creationTimestamp':'2026-01-03T00:00:00Z'",
               "'schedulingGroup':{'podGroupName':'g'}");
    world_run(&k.w, 12000);
    kit_on(&k, "ns/old", "n");
    kit_told(&k, "ns/new", "pod group \"g\" is being deleted");
    kit_end(&k);
}

// --- Gangs ---------------------------------------------------------------------------------------

// §13: before the group and minCount of its pods are there nothing is tried.
static void a_gang_waits_for_its_pods(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    members(&k, "g", 2, "");
    world_run(&k.w, 12000);
    kit_told(&k, "ns/g-0", "waiting for pods's pod group \"g\" to appear in scheduling queue");
    group(&k, "g", "'gang':{'minCount':3}", "");
    world_run(&k.w, 12000);
    kit_told(&k, "ns/g-0", "waiting for minCount pods from a gang to appear in scheduling queue");
    assert_int_equal(kit_stats(&k).attempts, 0);
    member(&k, "g-2", "g", "");
    world_run(&k.w, 20); // at once
    assert_int_equal(bound(&k, "g", 3), 3);
    says(&k, "ns/g", "True", "Scheduled", "");
    kit_end(&k);
}

// §13: a pod that is held up by its own gate or claim is none that could be placed.
static void a_gang_waits_for_gates_of_its_pods(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    group(&k, "g", "'gang':{'minCount':2}", "");
    member(&k, "g-0", "g", "");
    member(&k, "g-1", "g", "'schedulingGates':[{'name':'wait'}]");
    world_run(&k.w, 12000);
    kit_told(&k, "ns/g-0", "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining");
    assert_int_equal(kit_stats(&k).attempts, 0);
    member(&k, "g-1", "g", "");
    world_run(&k.w, 20);
    assert_int_equal(bound(&k, "g", 2), 2);
    kit_end(&k);
}

// §13: a gang that does not fit whole binds nothing, holds nothing, and says which part did not
// fit.
static void nothing_is_bound_unless_all_fit(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_gpus(&k, "a", 1);
    kit_gpus(&k, "b", 1);
    group(&k, "g", "'gang':{'minCount':3}", "");
    gpu_members(&k, "g", 3, 1);
    world_run(&k.w, 100);
    assert_int_equal(bound(&k, "g", 3), 0);
    assert_int_equal(allocated(&k, "g", 3), 0);
    kit_told(&k, "ns/g-2", "0/2 nodes");
    kit_told(&k, "ns/g-0",
             "pod group is unschedulable: minCount (3) cannot be satisfied: 2 scheduled, "
             "0 remaining; pod g-2: 0/2 nodes");
    says(&k, "ns/g", "False", "Unschedulable",
         "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining; pod g-2: 0/2 nodes");
    kit_gpu_pod(&k, "single", 1); // others can have what the gang cannot use
    world_run(&k.w, 100);
    assert_true(world_node_of(&k.w, "ns/single").n > 0);
    kit_end(&k);
}

#define LIKES(node)                                                                             \
    "'affinity':{'nodeAffinity':{'preferredDuringSchedulingIgnoredDuringExecution':[{'weight':" \
    "100,'preference':{'matchFields':[{'key':'metadata.name','operator':'In','values':['" node  \
    "']}]}}]}}"
#define CPU(n) "'containers':[{'name':'c','resources':{'requests':{'cpu':'" n "'}}}]"

// The first pod likes a node that has no room for the second, and the claim of both would be there.
static void a_gang_goes_where_all_of_it_fits(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_pod(&k, "busy", "'nodeName':'a'," CPU("1"));
    kit_gpus(&k, "a", 1);
    kit_gpus(&k, "b", 1);
    kit_claim(&k, "c", 1);
    group(&k, "g", "'gang':{'minCount':2}", SHARED);
    members(&k, "g", 2, USES "," CPU("2") "," LIKES("a"));
    world_run(&k.w, 100);
    kit_on(&k, "ns/g-0", "b");
    kit_on(&k, "ns/g-1", "b");
    reserved_for_group(&k, "ns/c", "g");
    kit_end(&k);
}

// A small pod that came first does not keep a large one from the only node that is large enough.
static void the_large_pod_of_a_gang_goes_first(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_gpus(&k, "a", 1);
    kit_gpus(&k, "b", 2);
    kit_claim(&k, "small", 1);
    kit_claim(&k, "large", 2);
    group(&k, "g", "'gang':{'minCount':2}", "");
    member(&k, "small", "g",
           "'resourceClaims':[{'name':'gpu','resourceClaimName':'small'}]," LIKES("b"));
    member(&k, "large", "g", "'resourceClaims':[{'name':'gpu','resourceClaimName':'large'}]");
    world_run(&k.w, 100);
    kit_on(&k, "ns/small", "a");
    kit_on(&k, "ns/large", "b");
    kit_end(&k);
}

// §13: what helps the pod that does not fit helps the gang, after its back-off.
static void a_gang_wakes_when_its_part_may_fit(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 2);
    group(&k, "g", "'gang':{'minCount':3}", "");
    gpu_members(&k, "g", 3, 1);
    world_run(&k.w, 5000);
    uint64_t tried = kit_stats(&k).attempts;
    kit_node(&k, "a", ",'spec':{'taints':[]}"); // nothing new
    world_run(&k.w, 20000);
    assert_int_equal(kit_stats(&k).attempts, tried);
    kit_gpus(&k, "a", 3);
    world_run(&k.w, 3000);
    assert_int_equal(bound(&k, "g", 3), 3);
    says(&k, "ns/g", "True", "Scheduled", "");
    kit_end(&k);
}

// §13: pods beyond minCount are tried with the others; those that do not fit wait by themselves.
static void more_than_min_count_is_welcome(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 3);
    group(&k, "g", "'gang':{'minCount':2}", "");
    gpu_members(&k, "g", 4, 1);
    world_run(&k.w, 100);
    assert_int_equal(bound(&k, "g", 4), 3);
    kit_told(&k, "ns/g-3", "0/1 nodes");
    says(&k, "ns/g", "True", "Scheduled", "");
    kit_gpus(&k, "a", 4);
    world_run(&k.w, 3000);
    assert_int_equal(bound(&k, "g", 4), 4);
    kit_end(&k);
}

// §13: pods of a basic group are placed each by itself; the group counts as scheduled with the
// first.
static void a_basic_group_takes_what_it_gets(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 1);
    group(&k, "g", "'basic':{}", "");
    gpu_members(&k, "g", 3, 1);
    world_run(&k.w, 100);
    assert_int_equal(bound(&k, "g", 3), 1);
    kit_told(&k, "ns/g-2", "0/1 nodes");
    says(&k, "ns/g", "True", "Scheduled", "");
    kit_end(&k);
}

// §13: all pods have the scheduler, priority and preemption policy of their group; else an error.
static void pods_of_a_group_must_agree(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    group(&k, "g", "'basic':{}", ",'priority':7");
    member(&k, "g-0", "g", "'priority':7");
    member(&k, "g-1", "g", "'priority':3");
    world_run(&k.w, 100);
    assert_int_equal(bound(&k, "g", 2), 0);
    kit_told(&k, "ns/g-0",
             "all pods in a single pod group should have the same priority as the pod group's "
             "priority, got 3 and 7");
    says(&k, "ns/g", "False", "SchedulerError", "got 3 and 7");
    world_delete(&k.w, "Pod", "ns/g-1");
    member(&k, "g-2", "g", "'priority':7,'preemptionPolicy':'Never'");
    world_run(&k.w, 12000);
    kit_told(&k, "ns/g-0",
             "should have the same preemption policy, got Never and "
             "PreemptLowerPriority");
    world_delete(&k.w, "Pod", "ns/g-2");
    world_run(&k.w, 20000);
    kit_on(&k, "ns/g-0", "n");
    kit_end(&k);
}

// §13: once True, the condition stays.
static void the_condition_never_regresses(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 2);
    group(&k, "g", "'gang':{'minCount':2}", "");
    gpu_members(&k, "g", 2, 1);
    world_run(&k.w, 100);
    says(&k, "ns/g", "True", "Scheduled", "");
    remove_members(&k, "g", 2);
    kit_gpus(&k, "a", 1);
    gpu_members(&k, "g", 2, 1);
    world_run(&k.w, 30000);
    assert_int_equal(bound(&k, "g", 2), 0);
    says(&k, "ns/g", "True", "Scheduled", "");
    kit_end(&k);
}

// §13, events: a lower minCount may make it fit.
static void a_lower_min_count_wakes(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 2);
    group(&k, "g", "'gang':{'minCount':3}", "");
    gpu_members(&k, "g", 3, 1);
    world_run(&k.w, 3000);
    assert_int_equal(bound(&k, "g", 3), 0);
    group(&k, "g", "'gang':{'minCount':2}", "");
    world_run(&k.w, 3000);
    assert_int_equal(bound(&k, "g", 3), 2);
    kit_end(&k);
}

static int refuse_claim(struct world *w, const char *verb, const struct api_kind *kind,
                        struct str name)
{
    if (!str_eqz(kind->kind, "ResourceClaim") || !str_eqz(name, "g-2") || w->refusals <= 0 ||
        strcmp(verb, "update") != 0)
        return 0;
    w->refusals--;
    return -ERR_INVALID;
}

// §13, Permit: no pod is bound before minCount have all they need; one that fails takes all back.
static void nobody_is_bound_before_a_quorum_is_ready(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 3);
    group(&k, "g", "'gang':{'minCount':3}", "");
    k.w.refuse = refuse_claim;
    k.w.refusals = 1;
    gpu_members(&k, "g", 3, 1);
    world_run(&k.w, 500);
    assert_int_equal(bound(&k, "g", 3), 0);
    for (int i = 0; i < 3; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "ns/g-%d", i);
        assert_int_equal(world_claim(&k.w, key)->status.reserved_for.n, 0);
    }
    kit_told(&k, "ns/g-0", "waiting for minCount pods from a gang to be scheduled: pod g-2:");
    world_run(&k.w, 5000);
    assert_int_equal(bound(&k, "g", 3), 3);
    kit_end(&k);
}

// §13: a gang that has lost a pod on the way holds no devices while it waits for another.
static void a_gang_that_is_short_holds_nothing(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 3);
    group(&k, "g", "'gang':{'minCount':3}", "");
    k.w.refuse = refuse_claim;
    k.w.refusals = 1;
    gpu_members(&k, "g", 3, 1);
    world_run(&k.w, 500);
    assert_int_equal(bound(&k, "g", 3), 0);
    assert_true(allocated(&k, "g", 3) > 0);
    world_delete(&k.w, "Pod", "ns/g-2");
    world_run(&k.w, 15000);
    assert_int_equal(bound(&k, "g", 2), 0);
    assert_int_equal(allocated(&k, "g", 3), 0);
    kit_end(&k);
}

// §13: a claim of the group that is being deleted keeps a new pod waiting; when the last that ran
// is gone it is given back.
static void a_gang_that_ended_gives_back_what_new_pods_wait_for(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    group(&k, "g", "'gang':{'minCount':2}", SHARED);
    world_put(&k.w,
              "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'c',"
              "'namespace':'ns','uid':'u-c','finalizers':['resource.kubernetes.io/"
              "delete-protection'],'deletionTimestamp':'2026-01-02T00:00:00Z'},'spec':{'devices':{"
              "'requests':[{'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':"
              "'ExactCount','count':1}}]}},'status':{'allocation':{'devices':{'results':[{"
              "'request':'r','driver':'drv','pool':'n','device':'d0'}]}},'reservedFor':[{"
              "'apiGroup':'scheduling.k8s.io','resource':'podgroups','name':'g','uid':'u-g'}]}}");
    members(&k, "g", 2, USES ",'nodeName':'n'");
    member(&k, "late", "g", USES);
    world_run(&k.w, 15000);
    kit_told(&k, "ns/late", "resourceclaim \"c\" is being deleted");
    reserved_for_group(&k, "ns/c", "g");
    world_delete(&k.w, "Pod", "ns/g-0");
    world_run(&k.w, 15000);
    reserved_for_group(&k, "ns/c", "g"); // one runs with it
    world_delete(&k.w, "Pod", "ns/g-1");
    world_run(&k.w, 15000);
    assert_null(world_claim(&k.w, "ns/c")->status.allocation);
    assert_int_equal(world_claim(&k.w, "ns/c")->status.reserved_for.n, 0);
    kit_end(&k);
}

// §13: of two gangs that want the same devices one runs whole, then the other; neither holds up the
// other.
static void two_gangs_take_turns(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_gpus(&k, "a", 2);
    kit_gpus(&k, "b", 2);
    group(&k, "x", "'gang':{'minCount':3}", "");
    group(&k, "y", "'gang':{'minCount':3}", "");
    gpu_members(&k, "x", 3, 1);
    gpu_members(&k, "y", 3, 1);
    world_run(&k.w, 30000);
    size_t x = bound(&k, "x", 3);
    size_t y = bound(&k, "y", 3);
    assert_int_equal(x + y, 3);
    assert_true(x == 3 || y == 3);
    remove_members(&k, x ? "x" : "y", 3);
    world_run(&k.w, 15000);
    assert_int_equal(bound(&k, x ? "y" : "x", 3), 3);
    kit_end(&k);
}

// §13: the gang with the higher priority goes first.
static void priority_decides_between_gangs(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "a", "");
    group(&k, "low", "'gang':{'minCount':2}", "");
    group(&k, "high", "'gang':{'minCount':2}", ",'priority':9");
    gpu_members(&k, "low", 2, 1);
    for (int i = 0; i < 2; i++) {
        char name[16];
        cleanup_sbuf struct sbuf rest = {0};
        (void)snprintf(name, sizeof(name), "high-%d", i);
        kit_claim(&k, name, 1);
        sbuf_addf(&rest, "'priority':9,'resourceClaims':[{'name':'gpu','resourceClaimName':'%s'}]",
                  name);
        member(&k, name, "high", rest.p);
    }
    world_run(&k.w, 20000);
    kit_gpus(&k, "a", 2);
    world_run(&k.w, 20000);
    assert_int_equal(bound(&k, "high", 2), 2);
    assert_int_equal(bound(&k, "low", 2), 0);
    kit_end(&k);
}

// Crashes: wherever the scheduler ends, the next one brings the gang in whole.
static void a_crash_at_any_step_does_no_harm(void **state)
{
    (void)state;
    for (int step = 1; step < 60; step += 2) {
        struct kit k;
        begin(&k);
        kit_node(&k, "a", "");
        kit_gpus(&k, "a", 3);
        kit_claim(&k, "c", 1);
        group(&k, "g", "'gang':{'minCount':2}", SHARED);
        for (int i = 0; i < 2; i++) {
            char name[16];
            cleanup_sbuf struct sbuf rest = {0};
            (void)snprintf(name, sizeof(name), "g-%d", i);
            kit_claim(&k, name, 1);
            sbuf_addf(&rest,
                      "'resourceClaims':[{'name':'net','resourceClaimName':'c'},{'name':'own',"
                      "'resourceClaimName':'%s'}]",
                      name);
            member(&k, name, "g", rest.p);
        }
        for (int i = 0; i < step; i++)
            (void)exec_sim_step(k.w.sim);
        sched_free(k.s);
        k.s = sched_new(&(struct sched_options){.client = k.client, .features = &gates});
        sched_start(k.s);
        world_run(&k.w, 10000);
        assert_int_equal(bound(&k, "g", 2), 2);
        reserved_for_group(&k, "ns/c", "g");
        kit_end(&k);
    }
}

// Several schedulers, each with a gang of its own: no device is given twice, each is whole or
// nothing.
static void two_schedulers_with_gangs(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct kit k;
        begin(&k);
        rng_seeded_init(&k.w.rng, seed);
        struct str other = STR("other");
        struct sched *second = sched_new(&(struct sched_options){
            .client = world_client(&k.w), .features = &gates, .names = &other, .names_len = 1});
        kit_node(&k, "a", "");
        kit_gpus(&k, "a", 3);
        sched_start(second);
        group(&k, "x", "'gang':{'minCount':2}", "");
        group(&k, "y", "'gang':{'minCount':2}", "");
        gpu_members(&k, "x", 2, 1);
        for (int i = 0; i < 2; i++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "y-%d", i);
            kit_claim(&k, name, 1);
            world_putf(&k.w,
                       "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'ns'},"
                       "'spec':{'schedulerName':'other','schedulingGroup':{'podGroupName':'y'},"
                       "'containers':[{'name':'c'}],'resourceClaims':[{'name':'gpu',"
                       "'resourceClaimName':'%s'}]}}",
                       name, name);
        }
        world_run(&k.w, 60000);
        size_t x = bound(&k, "x", 2);
        size_t y = bound(&k, "y", 2);
        if (x + y != 2 || (x != 0 && x != 2))
            fail_msg("seed %d: %zu and %zu are bound", (int)seed, x, y);
        sched_free(second);
        kit_end(&k);
    }
}

// `dray why` tells of the group, too.
static void a_group_is_explained(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf json = {0};
    struct err err;
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 1);
    group(&k, "g", "'gang':{'minCount':2}", "");
    gpu_members(&k, "g", 2, 1);
    world_run(&k.w, 100);
    assert_int_equal(sched_explain(k.s, STR("podgroup"), STR("ns"), STR("g"), &json, &err), 0);
    assert_true(kit_holds(sbuf_str(&json), "\"minCount\":2"));
    assert_true(kit_holds(sbuf_str(&json), "\"scheduled\":0"));
    assert_true(kit_holds(sbuf_str(&json), "pod g-1: 0/1 nodes"));
    sbuf_clear(&json);
    assert_int_equal(sched_explain(k.s, STR("pod"), STR("ns"), STR("g-0"), &json, &err), 0);
    assert_true(kit_holds(sbuf_str(&json), "\"podGroup\":"));
    kit_end(&k);
}

// Pods that are not tried: one with a gate, one without its claim, one of a group that is not
// there.
static void blocked_pods(struct kit *k)
{
    static const char *const specs[] = {"'schedulingGates':[{'name':'g'}]",
                                        "'resourceClaims':[{'name':'g','resourceClaimName':'no'}]",
                                        "'schedulingGroup':{'podGroupName':'no'}"};
    for (size_t i = 0; i < array_len(specs); i++)
        world_putf(&k->w,
                   "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'blocked-%zu','namespace':"
                   "'ns'},'spec':{'schedulerName':'dray','containers':[{'name':'c'}],%s}}",
                   i, specs[i]);
}

// Metrics have kube-scheduler's names.
static void attempts_are_counted(void **state)
{
    (void)state;
    struct kit k;
    cleanup_sbuf struct sbuf text = {0};
    begin(&k);
    kit_node(&k, "a", "");
    kit_gpus(&k, "a", 3);
    group(&k, "g", "'gang':{'minCount':2}", "");
    gpu_members(&k, "g", 2, 1);
    kit_gpu_pod(&k, "single", 1);
    kit_gpu_pod(&k, "late", 1);
    blocked_pods(&k);
    world_run(&k.w, 100);
    sched_metrics(k.s, &text);
    const char *const lines[] = {
        "scheduler_schedule_attempts_total{profile=\"dray\",result=\"scheduled\"} 3\n",
        "scheduler_schedule_attempts_total{profile=\"dray\",result=\"unschedulable\"} 1\n",
        "scheduler_podgroup_schedule_attempts_total{profile=\"dray\",result=\"scheduled\"} 1\n",
        "scheduler_scheduling_attempt_duration_seconds_bucket{profile=\"dray\",result="
        "\"scheduled\","
        "le=\"+Inf\"} 3\n",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"1\"} 3\n",
        "scheduler_pod_scheduling_attempts_count 3\n",
        "scheduler_pending_pods{queue=\"unschedulable\"} 1\n",
        "scheduler_unschedulable_pods{plugin=\"DynamicResources\",profile=\"dray\"} 2\n",
        "scheduler_unschedulable_pods{plugin=\"SchedulingGates\",profile=\"dray\"} 1\n",
        "scheduler_unschedulable_pods{plugin=\"GangScheduling\",profile=\"dray\"} 1\n",
        "scheduler_unschedulable_pods{plugin=\"NodePorts\",profile=\"dray\"} 0\n",
        "scheduler_plugin_execution_duration_seconds_count{extension_point=\"PreFilter\",plugin="
        "\"DynamicResources\",status=\"Success\"} 1\n",
        "scheduler_plugin_execution_duration_seconds_count{extension_point=\"PreBind\",plugin="
        "\"DynamicResources\",status=\"Success\"} 3\n",
        "scheduler_plugin_execution_duration_seconds_count{extension_point=\"Bind\",plugin="
        "\"DefaultBinder\",status=\"Success\"} 3\n",
        "extension_point=\"Filter\",plugin=\"DynamicResources\",status=\"Success\"} ",
    };
    for (size_t i = 0; i < array_len(lines); i++)
        if (!kit_holds(sbuf_str(&text), lines[i]))
            fail_msg("%s is not in\n%s", lines[i], text.p);
    kit_end(&k);
}

// Enough of a gang fit, and one of the others waits for a claim that is on its way to a pod
// outside: those behind it are not forgotten.
static void who_stands_behind_one_that_waits_is_tried(void **state)
{
    (void)state;
    struct kit k;
    begin(&k);
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 1);
    kit_claim(&k, "c", 1);
    world_run(&k.w, 10);
    group(&k, "g", "'gang':{'minCount':2}", "");
    kit_pod(&k, "outside", USES);
    members(&k, "g", 2, "");
    member(&k, "g-2", "g", USES);
    member(&k, "g-3", "g", "");
    world_run(&k.w, 5000);
    kit_on(&k, "ns/outside", "n");
    assert_int_equal(bound(&k, "g", 4), 4);
    kit_end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_claim_is_reserved_for_the_group),
        cmocka_unit_test(another_entry_is_the_pods_own),
        cmocka_unit_test(a_claim_made_for_the_group_is_its_pods),
        cmocka_unit_test(pods_of_one_cycle_share_what_is_in_flight),
        cmocka_unit_test(a_found_reservation_is_not_relied_on_unwritten),
        cmocka_unit_test(unreserve_leaves_the_groups_reservation),
        cmocka_unit_test(post_filter_clears_a_group_claim_that_is_out_of_reach),
        cmocka_unit_test(post_filter_takes_nothing_from_a_group_that_runs),
        cmocka_unit_test(post_filter_unreserves_a_basic_group),
        cmocka_unit_test(a_group_that_goes_takes_no_new_pods),
        cmocka_unit_test(a_gang_waits_for_its_pods),
        cmocka_unit_test(a_gang_waits_for_gates_of_its_pods),
        cmocka_unit_test(nothing_is_bound_unless_all_fit),
        cmocka_unit_test(a_gang_goes_where_all_of_it_fits),
        cmocka_unit_test(the_large_pod_of_a_gang_goes_first),
        cmocka_unit_test(a_gang_wakes_when_its_part_may_fit),
        cmocka_unit_test(more_than_min_count_is_welcome),
        cmocka_unit_test(a_basic_group_takes_what_it_gets),
        cmocka_unit_test(pods_of_a_group_must_agree),
        cmocka_unit_test(the_condition_never_regresses),
        cmocka_unit_test(a_lower_min_count_wakes),
        cmocka_unit_test(nobody_is_bound_before_a_quorum_is_ready),
        cmocka_unit_test(a_gang_that_is_short_holds_nothing),
        cmocka_unit_test(a_gang_that_ended_gives_back_what_new_pods_wait_for),
        cmocka_unit_test(two_gangs_take_turns),
        cmocka_unit_test(priority_decides_between_gangs),
        cmocka_unit_test(a_crash_at_any_step_does_no_harm),
        cmocka_unit_test(two_schedulers_with_gangs),
        cmocka_unit_test(a_group_is_explained),
        cmocka_unit_test(attempts_are_counted),
        cmocka_unit_test(who_stands_behind_one_that_waits_is_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
