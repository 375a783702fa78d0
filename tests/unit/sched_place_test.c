// SPDX-License-Identifier: Apache-2.0
//
// Nodes a pod may run on, devices aside, and the best of them.
#include "sched_kit.h"

#include "base/banned.h"

#define ASKS(list) "'containers':[{'name':'c','image':'i','resources':{'requests':{" list "}}}]"
#define ZONE(z)    ",'spec':{}"

static void node_in(struct kit *k, const char *name, const char *zone, const char *spec)
{
    world_putf(&k->w,
               "{'apiVersion':'v1','kind':'Node','metadata':{'name':'%s','labels':"
               "{'zone':'%s','kubernetes.io/hostname':'%s'}},'spec':{%s},'status':{'allocatable':"
               "{'cpu':'4','memory':'32Gi','pods':'110','ephemeral-storage':'100Gi'}}}",
               name, zone, name, spec);
}

static void resources_decide(void **state)
{
    static const struct {
        const char *spec;
        const char *told; // NULL: it is bound
    } cases[] = {
        {ASKS("'cpu':'4','memory':'32Gi'"), NULL},
        {ASKS("'cpu':'4001m'"), "insufficient cpu"},
        {ASKS("'memory':'33Gi'"), "insufficient memory"},
        {ASKS("'ephemeral-storage':'101Gi'"), "insufficient ephemeral-storage"},
        {ASKS("'example.com/x':'1'"), "insufficient example.com/x"},
        // Init containers run one by one: the most counts, not the sum.
        {"'initContainers':[{'name':'a','resources':{'requests':{'cpu':'4'}}},{'name':'b',"
         "'resources':{'requests':{'cpu':'4'}}}]," ASKS("'cpu':'1'"),
         NULL},
        // A sidecar runs beside all that follow it.
        {"'initContainers':[{'name':'a','restartPolicy':'Always','resources':{'requests':{'cpu':"
         "'2'}}},{'name':'b','resources':{'requests':{'cpu':'3'}}}]," ASKS("'cpu':'1'"),
         "insufficient cpu"},
        {"'initContainers':[{'name':'b','resources':{'requests':{'cpu':'4'}}},{'name':'a',"
         "'restartPolicy':'Always','resources':{'requests':{'cpu':'2'}}}]," ASKS("'cpu':'2'"),
         NULL},
        {"'overhead':{'cpu':'3'}," ASKS("'cpu':'2'"), "insufficient cpu"},
        // Resources of the pod stand above those of its containers.
        {"'resources':{'requests':{'cpu':'5'}}," ASKS("'cpu':'1'"), "insufficient cpu"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(cases); i++) {
        struct kit k;
        kit_start(&k);
        kit_node(&k, "n", "");
        kit_pod(&k, "p", cases[i].spec);
        world_run(&k.w, 10);
        if (cases[i].told)
            kit_told(&k, "ns/p", cases[i].told);
        else
            kit_on(&k, "ns/p", "n");
        kit_end(&k);
    }
}

static void pods_in_flight_count(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    for (int i = 0; i < 5; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_pod(&k, name, ASKS("'cpu':'1'"));
    }
    world_run(&k.w, 10);
    assert_int_equal(kit_stats(&k).bound, 4);
    kit_told(&k, "ns/p4", "insufficient cpu");
    kit_end(&k);
}

static void selectors_and_affinity_decide(void **state)
{
    static const struct {
        const char *spec;
        const char *node; // NULL: none
    } cases[] = {
        {"'nodeSelector':{'zone':'b'}", "b"},
        {"'nodeSelector':{'zone':'c'}", NULL},
#define REQUIRED(terms)                                                             \
    "'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':" \
    "{'nodeSelectorTerms':[" terms "]}}}"
        {REQUIRED("{'matchExpressions':[{'key':'zone','operator':'In','values':['b','x']}]}"), "b"},
        {REQUIRED("{'matchExpressions':[{'key':'zone','operator':'NotIn','values':['a']}]}"), "b"},
        {REQUIRED("{'matchFields':[{'key':'metadata.name','operator':'In','values':['b']}]}"), "b"},
        {REQUIRED("{'matchFields':[{'key':'metadata.name','operator':'In','values':['q']}]}"),
         NULL},
        {REQUIRED("{}"), NULL}, // an empty term matches nothing
        {"'affinity':{'nodeAffinity':{'preferredDuringSchedulingIgnoredDuringExecution':[{'weight':"
         "5,'preference':{'matchExpressions':[{'key':'zone','operator':'In','values':['b']}]}}]}}",
         "b"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(cases); i++) {
        struct kit k;
        kit_start(&k);
        node_in(&k, "a", "a", "");
        node_in(&k, "b", "b", "");
        kit_pod(&k, "p", cases[i].spec);
        world_run(&k.w, 10);
        if (cases[i].node)
            kit_on(&k, "ns/p", cases[i].node);
        else
            kit_told(&k, "ns/p", "node selector or affinity");
        kit_end(&k);
    }
}

static void taints_and_cordons_decide(void **state)
{
    static const struct {
        const char *node;
        const char *spec;
        const char *told;
    } cases[] = {
        {"'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]", "", "taint k=v:NoSchedule"},
        {"'taints':[{'key':'k','effect':'NoExecute'}]", "", "taint k:NoExecute"},
        {"'taints':[{'key':'k','effect':'PreferNoSchedule'}]", "", NULL},
        {"'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
         "'tolerations':[{'key':'k','operator':'Equal','value':'v','effect':'NoSchedule'}]", NULL},
        {"'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
         "'tolerations':[{'operator':'Exists'}]", NULL},
        {"'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
         "'tolerations':[{'key':'k','operator':'Equal','value':'w'}]", "taint k=v:NoSchedule"},
        {"'unschedulable':true", "", "cordoned"},
        {"'unschedulable':true",
         "'tolerations':[{'key':'node.kubernetes.io/unschedulable','operator':'Exists'}]", NULL},
    };
    (void)state;
    for (size_t i = 0; i < array_len(cases); i++) {
        struct kit k;
        kit_start(&k);
        node_in(&k, "n", "a", cases[i].node);
        kit_pod(&k, "p", cases[i].spec);
        world_run(&k.w, 10);
        if (cases[i].told)
            kit_told(&k, "ns/p", cases[i].told);
        else
            kit_on(&k, "ns/p", "n");
        kit_end(&k);
    }
}

static void soft_taints_repel(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    node_in(&k, "a", "a", "'taints':[{'key':'k','effect':'PreferNoSchedule'}]");
    node_in(&k, "b", "b", "");
    kit_pod(&k, "p", "");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

static void host_ports_clash(void **state)
{
#define PORT(ip, proto)                                                                   \
    "'containers':[{'name':'c','image':'i','ports':[{'containerPort':80,'hostPort':8080," \
    "'hostIP':'" ip "','protocol':'" proto "'}]}]"
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "p", PORT("10.0.0.1", "TCP"));
    world_run(&k.w, 10);
    kit_pod(&k, "other-ip", PORT("10.0.0.2", "TCP"));
    kit_pod(&k, "other-protocol", PORT("10.0.0.1", "UDP"));
    kit_pod(&k, "any-ip", PORT("0.0.0.0", "TCP"));
    world_run(&k.w, 10);
    kit_on(&k, "ns/other-ip", "n");
    kit_on(&k, "ns/other-protocol", "n");
    kit_told(&k, "ns/any-ip", "host port 8080 in use");
    kit_pod(
        &k, "many",
        "'containers':[{'name':'c','image':'i','ports':[{'containerPort':1,'hostPort':9000},"
        "{'containerPort':1,'hostPort':8080,'hostIP':'10.0.0.3'},{'containerPort':1,"
        "'hostPort':8080,'hostIP':'0.0.0.0','protocol':'SCTP'},{'containerPort':1,'hostPort':80}]}"
        "]");
    world_run(&k.w, 10);
    kit_on(&k, "ns/many", "n");
    kit_pod(&k, "clash",
            "'containers':[{'name':'c','image':'i','ports':[{'containerPort':1,'hostPort':8081},"
            "{'containerPort':1,'hostPort':8080,'hostIP':'10.0.0.4'},{'containerPort':1,"
            "'hostPort':8080,'hostIP':'10.0.0.3'},{'containerPort':1,'hostPort':81}]}]");
    kit_pod(&k, "any-clash",
            "'containers':[{'name':'c','image':'i','ports':[{'containerPort':1,'hostPort':8080,"
            "'hostIP':'10.0.0.9','protocol':'SCTP'},{'containerPort':1,'hostPort':7}]}]");
    world_run(&k.w, 10);
    kit_told(&k, "ns/clash", "host port 8080 in use");
    kit_told(&k, "ns/any-clash", "host port 8080 in use");
    // Kubernetes takes :: for one address.
    kit_pod(&k, "six", PORT("::", "SCTP"));
    world_run(&k.w, 10);
    kit_told(&k, "ns/six", "host port 8080 in use");
    world_delete(&k.w, "Pod", "ns/many");
    world_run(&k.w, 20000);
    kit_on(&k, "ns/six", "n");
    kit_on(&k, "ns/any-clash", "n");
    kit_end(&k);
}

#define LABELLED(v) ",'labels':{'app':'" v "'}"
#define TERM(v, rest) \
    "{'labelSelector':{'matchLabels':{'app':'" v "'}},'topologyKey':'zone'" rest "}"
#define NEAR(v)                                                                             \
    "'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[" TERM(v, \
                                                                                         "") "]}}"
#define FAR(v, rest)                                                                          \
    "'affinity':{'podAntiAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[" TERM( \
        v, rest) "]}}"

static void pods_stay_near_and_far(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    node_in(&k, "a", "a", "");
    node_in(&k, "b", "b", "");
    kit_pod_of(&k, "web", LABELLED("web"), "'nodeSelector':{'zone':'b'}");
    world_run(&k.w, 10);
    kit_pod(&k, "near", NEAR("web"));
    kit_pod(&k, "far", FAR("web", ""));
    kit_pod(&k, "nobody", NEAR("ghost"));
    kit_pod_of(&k, "first", LABELLED("self"), NEAR("self"));
    world_run(&k.w, 10);
    kit_on(&k, "ns/near", "b");
    kit_on(&k, "ns/far", "a");
    kit_told(&k, "ns/nobody", "pod affinity");
    assert_true(world_node_of(&k.w, "ns/first").n >
                0); // the first of its kind has nobody to be near
    kit_end(&k);
}

static void anti_affinity_works_both_ways(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    node_in(&k, "a", "a", "");
    kit_pod_of(&k, "loner", LABELLED("loner"), FAR("web", ""));
    world_run(&k.w, 10);
    kit_pod_of(&k, "web", LABELLED("web"), "");
    world_run(&k.w, 10);
    kit_told(&k, "ns/web", "a pod with anti-affinity to this one");
    world_delete(&k.w, "Pod", "ns/loner");
    world_run(&k.w, 2000);
    kit_on(&k, "ns/web", "a");
    kit_end(&k);
}

static void terms_look_into_other_namespaces(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    node_in(&k, "a", "a", "");
    world_put(&k.w, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'other','labels':"
                    "{'team':'x'}}}");
    world_put(&k.w, "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'web','namespace':'other',"
                    "'labels':{'app':'web'}},'spec':{'nodeName':'a','containers':[{'name':'c'}]}}");
    world_run(&k.w, 10);
    kit_pod(&k, "own", FAR("web", ""));
    kit_pod(&k, "listed", FAR("web", ",'namespaces':['other']"));
    kit_pod(&k, "selected", FAR("web", ",'namespaceSelector':{'matchLabels':{'team':'x'}}"));
    kit_pod(&k, "all", FAR("web", ",'namespaceSelector':{}"));
    kit_pod(&k, "none", FAR("web", ",'namespaceSelector':{'matchLabels':{'team':'y'}}"));
    world_run(&k.w, 10);
    kit_on(&k, "ns/own", "a");
    kit_on(&k, "ns/none", "a");
    kit_told(&k, "ns/listed", "anti-affinity");
    kit_told(&k, "ns/selected", "anti-affinity");
    kit_told(&k, "ns/all", "anti-affinity");
    kit_end(&k);
}

#define SPREAD(when, rest)                                                                      \
    "'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'zone','whenUnsatisfiable':'" when \
    "','labelSelector':{'matchLabels':{'app':'s'}}" rest "}]"

static void spread_keeps_domains_even(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    node_in(&k, "a", "a", "");
    node_in(&k, "b", "b", "");
    kit_node(&k, "nowhere", "");
    for (int i = 0; i < 4; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_pod_of(&k, name, LABELLED("s"), SPREAD("DoNotSchedule", ""));
        world_run(&k.w, 10);
    }
    size_t in_a = 0;
    for (int i = 0; i < 4; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "ns/p%d", i);
        in_a += str_eqz(world_node_of(&k.w, key), "a");
    }
    assert_int_equal(in_a, 2);
    // With one zone cordoned the skew would grow; node taints do not count unless asked to.
    node_in(&k, "b", "b", "'unschedulable':true");
    kit_pod_of(&k, "p4", LABELLED("s"), SPREAD("DoNotSchedule", ""));
    world_run(&k.w, 10);
    kit_on(&k, "ns/p4", "a");
    kit_pod_of(&k, "p5", LABELLED("s"), SPREAD("DoNotSchedule", ""));
    world_run(&k.w, 10);
    kit_told(&k, "ns/p5", "would exceed the topology spread over zone of 1");
    kit_pod_of(&k, "p6", LABELLED("s"), SPREAD("ScheduleAnyway", ""));
    world_run(&k.w, 10);
    assert_true(world_node_of(&k.w, "ns/p6").n > 0);
    kit_end(&k);
}

static void min_domains_counts_missing_ones_as_empty(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    node_in(&k, "a", "a", "");
    node_in(&k, "b", "b", "");
    for (int i = 0; i < 3; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        kit_pod_of(&k, name, LABELLED("s"), SPREAD("DoNotSchedule", ",'minDomains':3"));
        world_run(&k.w, 10);
    }
    kit_told(&k, "ns/p2", "topology spread");
    kit_end(&k);
}

static void gates_keep_a_pod_out(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    kit_pod(&k, "p", "'schedulingGates':[{'name':'example.com/wait'}]");
    world_run(&k.w, 10);
    assert_int_equal(kit_stats(&k).gated, 1);
    assert_int_equal(kit_stats(&k).attempts, 0);
    kit_pod(&k, "p", "");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

static void only_own_pods_are_placed(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n", "");
    world_put(&k.w, "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','namespace':'ns'},"
                    "'spec':{'schedulerName':'other','containers':[{'name':'c'}]}}");
    world_run(&k.w, 10);
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    assert_int_equal(kit_stats(&k).attempts, 0);
    kit_end(&k);
}

static void empty_nodes_are_preferred_for_plain_pods(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "a", "");
    kit_node(&k, "b", "");
    kit_pod(&k, "p0", ASKS("'cpu':'2','memory':'16Gi'"));
    world_run(&k.w, 10);
    kit_pod(&k, "p1", ASKS("'cpu':'2','memory':'16Gi'"));
    world_run(&k.w, 10);
    assert_false(str_eq(world_node_of(&k.w, "ns/p0"), world_node_of(&k.w, "ns/p1")));
    kit_end(&k);
}

static void all_nodes_are_ruled_out_before_a_pod_is_refused(void **state)
{
    (void)state;
    struct kit k;
    kit_start_with(&k, (struct sched_options){.feasible_max = 1});
    for (int i = 0; i < 200; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        node_in(&k, name, i == 137 ? "right" : "wrong", "");
    }
    kit_pod(&k, "p", "'nodeSelector':{'zone':'right'}");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "n137");
    kit_end(&k);
}

// Pods may be seen before their node, change there, and outlive it.
static void pods_on_unknown_nodes(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
#define THERE(label)                                                                             \
    "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','namespace':'ns','labels':{'a':"     \
    "'" label                                                                                    \
    "'}},'spec':{'nodeName':'late','containers':[{'name':'c','resources':{'requests':{'cpu':'3'" \
    "}}}]}}"
    world_put(&k.w, THERE("1"));
    world_run(&k.w, 5);
    world_put(&k.w, THERE("2"));
    world_run(&k.w, 5);
    kit_node(&k, "late", "");
    kit_pod(&k, "q", ASKS("'cpu':'2'"));
    world_run(&k.w, 5);
    kit_told(&k, "ns/q", "insufficient cpu");
    world_delete(&k.w, "Node", "late");
    world_run(&k.w, 5);
    world_delete(&k.w, "Pod", "ns/p");
    world_run(&k.w, 5);
    kit_node(&k, "late", "");
    world_run(&k.w, 3000);
    kit_on(&k, "ns/q", "late");
    kit_end(&k);
}

// Worth is made of kinds of devices, and all of these are of one kind: it judges by the first that
// the claim cannot have it, and offers no node. The nodes are asked all the same.
static void what_worth_does_not_offer_is_asked(void **state)
{
    static const char *const nodes[] = {"a", "b"};
    struct kit k;
    (void)state;
    kit_start_with(&k, (struct sched_options){.policy = ALLOC_PACK});
    for (int i = 0; i < 2; i++) {
        kit_node(&k, nodes[i], "");
        world_putf(&k.w,
                   "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':"
                   "{'name':'slice-%s'},'spec':{'driver':'drv','nodeName':'%s','pool':{'name':'%s',"
                   "'generation':1,'resourceSliceCount':1},'devices':[{'name':'gpu','attributes':"
                   "{'index':{'int':%d}}}]}}",
                   nodes[i], nodes[i], nodes[i], i);
    }
    world_put(
        &k.w,
        "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'c',"
        "'namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':"
        "{'deviceClassName':'gpu','allocationMode':'ExactCount','count':1,'selectors':[{'cel':"
        "{'expression':'device.attributes[\\\"drv\\\"].index == 1'}}]}}]}}}");
    kit_pod(&k, "p", "'resourceClaims':[{'name':'r','resourceClaimName':'c'}]");
    world_run(&k.w, 10);
    kit_on(&k, "ns/p", "b");
    kit_end(&k);
}

// The scheduler may start on a store that nothing was ever written to: its lists are of revision 0.
static void a_pod_without_claims_needs_no_list_of_them(void **state)
{
    (void)state;
    struct kit k;
    world_start(&k.w);
    k.client = world_client(&k.w);
    k.s = sched_new(&(struct sched_options){.client = k.client});
    sched_start(k.s);
    world_run(&k.w, 1);
    kit_node(&k, "n", "");
    kit_pod(&k, "p", "");
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(a_pod_without_claims_needs_no_list_of_them), TEST_CASE(pods_on_unknown_nodes),
          TEST_CASE(resources_decide), TEST_CASE(pods_in_flight_count),
          TEST_CASE(selectors_and_affinity_decide), TEST_CASE(taints_and_cordons_decide),
          TEST_CASE(soft_taints_repel), TEST_CASE(host_ports_clash),
          TEST_CASE(pods_stay_near_and_far), TEST_CASE(anti_affinity_works_both_ways),
          TEST_CASE(terms_look_into_other_namespaces), TEST_CASE(spread_keeps_domains_even),
          TEST_CASE(min_domains_counts_missing_ones_as_empty), TEST_CASE(gates_keep_a_pod_out),
          TEST_CASE(only_own_pods_are_placed), TEST_CASE(empty_nodes_are_preferred_for_plain_pods),
          TEST_CASE(all_nodes_are_ruled_out_before_a_pod_is_refused),
          TEST_CASE(what_worth_does_not_offer_is_asked))
