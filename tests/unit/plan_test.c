// SPDX-License-Identifier: Apache-2.0
//
// Plans: which nodes pods may run on, what they get one after the other, and what changes if.
#include "plan/plan.h"
#include "unit.h"

#include "base/banned.h"

#define CLASS                                                                                \
    "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\nspec:\n" \
    "  extendedResourceName: example.com/gpu\n"                                              \
    "  selectors: [{cel: {expression: \"device.driver == 'd.example.com'\"}}]\n"
#define SLICE(node, devices)                                                                   \
    "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s-" node "}\n" \
    "spec:\n  driver: d.example.com\n  nodeName: " node "\n  pool: {name: " node               \
    ", generation: 1, resourceSliceCount: 1}\n  devices: [" devices "]\n"
#define NODE(name, spec)                                                                 \
    "---\napiVersion: v1\nkind: Node\nmetadata: {name: " name ", labels: {zone: z-" name \
    "}}\nspec: {" spec "}\n"
#define TEMPLATE(name, request)                                                                \
    "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: " name \
    "}\n"                                                                                      \
    "spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, " request    \
    "}}]}}}\n"
#define POD(name, template, more)                                                                \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name "}\nspec:\n"                        \
    "  resourceClaims: [{name: c, resourceClaimTemplateName: " template "}]\n"                   \
                                                                        "  containers: [{name: " \
                                                                        "m, image: i}]\n" more
#define CLAIM(name, status)                                                                  \
    "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: " name "}\n" \
    "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}\n" status
#define HAS(node, device)                                                                       \
    "status: {allocation: {devices: {results: [{request: r, driver: d.example.com, pool: " node \
    ", device: " device "}]}, nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: "         \
    "metadata.name, operator: In, values: [" node "]}]}]}}}\n"
#define TWO "{name: a}, {name: b}"

static struct plan_world *world(const char *text)
{
    struct plan_world *w = plan_world_new();
    struct err err = {0};
    if (plan_world_read(w, STR("test"), str_z(text), &err) < 0)
        fail_msg("line %zu: %s", err.line, err.msg);
    return w;
}

static struct plan *make(struct plan_world *w, enum alloc_policy policy)
{
    struct plan *p = NULL;
    struct err err = {0};
    struct plan_options o = {.policy = policy};
    if (plan_make(w, &o, &p, &err) < 0)
        fail_msg("%s", err.msg);
    return p;
}

// Every step as "NAME NODE DEVICES" or "NAME -", a line each.
static void check_plan(struct plan_world *w, enum alloc_policy policy, const char *want)
{
    cleanup_sbuf struct sbuf b = {0};
    cleanup_sbuf struct sbuf text = {0};
    struct plan *p = make(w, policy);
    for (size_t i = 0; i < plan_steps(p); i++) {
        struct plan_step s = plan_step_at(p, i);
        sbuf_addf(&b, "%.*s", STR_ARG(s.name));
        if (s.status == PLAN_PLACED || s.status == PLAN_RUNNING)
            sbuf_addf(&b, " %.*s%s %.*s\n", STR_ARG(s.node), s.status == PLAN_RUNNING ? "!" : "",
                      STR_ARG(s.devices));
        else
            sbuf_addf(&b, " %s\n", s.status == PLAN_NO ? "-" : "?");
    }
    plan_text(p, &text);
    plan_json(p, &text);
    plan_free(p);
    assert_str(sbuf_str(&b), want);
}

static void test_one_after_the_other(void **state)
{
    (void)state;
    struct plan_world *w =
        world(CLASS SLICE("n1", TWO) SLICE("n2", TWO) TEMPLATE("one", "count: 1")
                  POD("p1", "one", "") POD("p2", "one", "") POD("p3", "one", ""));
    check_plan(w, ALLOC_PACK,
               "pod default/p1 n1 r: a\npod default/p2 n1 r: b\npod default/p3 n2 r: a\n");
    check_plan(w, ALLOC_SPREAD,
               "pod default/p1 n1 r: a\npod default/p2 n2 r: a\npod default/p3 n1 r: b\n");
    check_plan(w, ALLOC_FIRST,
               "pod default/p1 n1 r: a\npod default/p2 n1 r: b\npod default/p3 n2 r: a\n");
    plan_world_free(w);
}

static void test_allocated_claims_are_in_use(void **state)
{
    (void)state;
    struct plan_world *w =
        world(CLASS SLICE("n1", TWO) CLAIM("held", HAS("n1", "a")) TEMPLATE("two", "count: 2")
                  POD("p", "two", "") CLAIM("free", ""));
    check_plan(w, ALLOC_PACK,
               "pod default/p -\nclaim default/held n1! r: a\nclaim default/free n1 r: b\n");
    plan_world_free(w);
}

static void test_shared_claim_binds_pods_to_its_node(void **state)
{
    (void)state;
    static const char user[] = "  nodeSelector: {zone: z-n2}\n";
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text,
              CLASS SLICE("n1", TWO) SLICE("n2", TWO) NODE("n1", "") NODE("n2", "") CLAIM("c", ""));
    for (int i = 0; i < 3; i++)
        sbuf_addf(&text,
                  "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec:\n"
                  "  resourceClaims: [{name: c, resourceClaimName: c}]\n"
                  "  containers: [{name: m, image: i}]\n%s",
                  i, i == 2 ? user : "");
    struct plan_world *w = world(text.p);
    check_plan(w, ALLOC_PACK, "pod default/p0 n1 r: a\npod default/p1 n1 r: a\npod default/p2 -\n");
    plan_world_free(w);
}

static void test_nodes_that_pods_may_run_on(void **state)
{
    (void)state;
    static const char all[] = CLASS SLICE("n1", TWO) SLICE("n2", TWO) SLICE("n3", TWO)
        SLICE("n4", TWO) NODE("n1", "unschedulable: true") NODE(
            "n2", "taints: [{key: k, value: v, effect: NoSchedule}]") NODE("n3", "") NODE("n4", "")
            TEMPLATE("one", "count: 1") POD("plain", "one",
                                            "") POD("tolerant", "one",
                                                    "  tolerations: [{key: k, operator: Exists}]\n"
                                                    "  nodeSelector: {zone: z-n2}\n")
                POD("choosy", "one",
                    "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
                    "{nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, "
                    "values: [z-n4]}]}]}}}\n")
                    POD("lost", "one", "  nodeSelector: {zone: nowhere}\n");
    struct plan_world *w = world(all);
    check_plan(w, ALLOC_PACK,
               "pod default/plain n3 r: a\npod default/tolerant n2 r: a\n"
               "pod default/choosy n4 r: a\npod default/lost -\n");
    plan_world_free(w);
}

static void test_extended_resources_and_replicas(void **state)
{
    (void)state;
    struct plan_world *w =
        world(CLASS SLICE("n1", TWO)
                  SLICE("n2", TWO) "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: "
                                   "web}\nspec:\n  replicas: 3\n"
                                   "  selector: {matchLabels: {a: b}}\n  template:\n    metadata: "
                                   "{labels: {a: b}}\n    spec:\n"
                                   "      containers: [{name: m, image: i, resources: {limits: "
                                   "{example.com/gpu: 2}}}]\n");
    check_plan(w, ALLOC_PACK,
               "pod default/web-0 n1 container-0-request-0: a, b\n"
               "pod default/web-1 n2 container-0-request-0: a, b\n"
               "pod default/web-2 -\n");
    plan_world_free(w);
}

static void test_missing_template(void **state)
{
    (void)state;
    struct plan_world *w = world(CLASS SLICE("n1", TWO) POD("p", "nope", ""));
    struct plan *p = make(w, ALLOC_PACK);
    assert_int_equal(plan_step_at(p, 0).status, PLAN_ERROR);
    assert_str(plan_step_at(p, 0).summary,
               "pod \"default/p\": ResourceClaim not created yet: ResourceClaimTemplate \"nope\" "
               "does not exist");
    assert_false(plan_complete(p));
    plan_free(p);
    plan_world_free(w);
}

// --- What if -------------------------------------------------------------------------------------

static void test_drain_moves_what_runs_there(void **state)
{
    (void)state;
    struct plan_world *w =
        world(CLASS SLICE("n1", TWO) SLICE("n2", TWO) CLAIM("c", HAS("n1", "a")));
    check_plan(w, ALLOC_PACK, "claim default/c n1! r: a\n");
    assert_int_equal(plan_drain(w, STR("n1"), NULL), 0);
    check_plan(w, ALLOC_PACK, "claim default/c n2 r: a\n");
    struct err err = {0};
    assert_int_equal(plan_drain(w, STR("n9"), &err), -ERR_NOT_FOUND);
    assert_string_equal(err.msg, "there is no node n9; there are n1, n2");
    plan_world_free(w);
}

static void test_taint(void **state)
{
    (void)state;
    struct err err = {0};
    struct plan_world *w = world(CLASS SLICE("n1", TWO) CLAIM("c", HAS("n1", "a")) CLAIM("d", ""));
    assert_int_equal(plan_taint(w, STR("d.example.com/n1/b=k=v:NoSchedule"), &err), 0);
    check_plan(w, ALLOC_PACK, "claim default/c n1! r: a\nclaim default/d -\n");
    // Pods are evicted, not claims: one that no pod uses stays.
    assert_int_equal(plan_taint(w, STR("driver=d.example.com,key=k,effect=NoExecute"), &err), 0);
    check_plan(w, ALLOC_PACK, "claim default/c n1! r: a\nclaim default/d -\n");
    assert_int_equal(plan_taint(w, STR("d.example.com/n7=k:NoSchedule"), &err), -ERR_NOT_FOUND);
    assert_int_equal(plan_taint(w, STR("d.example.com=k:Sometimes"), &err), -ERR_INVALID);
    assert_int_equal(plan_taint(w, STR("nonsense"), &err), -ERR_INVALID);
    plan_world_free(w);
}

static void test_without(void **state)
{
    (void)state;
    struct plan_world *w =
        world(CLASS SLICE("n1", "{name: a}") CLAIM("c", HAS("n1", "a")) CLAIM("d", ""));
    check_plan(w, ALLOC_PACK, "claim default/c n1! r: a\nclaim default/d -\n");
    assert_int_equal(plan_without(w, STR("c"), NULL), 0);
    check_plan(w, ALLOC_PACK, "claim default/d n1 r: a\n");
    assert_int_equal(plan_without(w, STR("c"), NULL), -ERR_NOT_FOUND);
    plan_world_free(w);
}

static void test_add_node(void **state)
{
    (void)state;
    struct plan_world *w = world(CLASS SLICE("n1", "{name: a}") CLAIM("c", HAS("n1", "a"))
                                     CLAIM("d", "") CLAIM("e", "") CLAIM("f", ""));
    assert_int_equal(plan_add_node(w, STR("like=n1,count=2,name=new"), NULL), 0);
    check_plan(w, ALLOC_PACK,
               "claim default/c n1! r: a\nclaim default/d new-1 r: a\n"
               "claim default/e new-2 r: a\nclaim default/f -\n");
    assert_int_equal(plan_add_node(w, STR("like=n1,count=0"), NULL), -ERR_INVALID);
    assert_int_equal(plan_add_node(w, STR("count=1"), NULL), -ERR_INVALID);
    assert_int_equal(plan_add_node(w, STR("like=zz"), NULL), -ERR_NOT_FOUND);
    plan_world_free(w);
}

// --- Why -----------------------------------------------------------------------------------------

static void check_why(struct plan_world *w, const char *name, bool alone, const char *want)
{
    struct plan *p = NULL;
    struct err err = {0};
    cleanup_sbuf struct sbuf text = {0};
    struct plan_options o = {.alone = alone};
    if (plan_why(w, str_z(name), &o, &p, &err) < 0)
        fail_msg("%s", err.msg);
    plan_text(p, &text);
    plan_free(p);
    assert_str(str_upto(sbuf_str(&text), strlen(want)), want);
}

// What is told of a pod or claim has this in it, as text and as the summary.
static void check_told(struct plan_world *w, const char *name, const char *part)
{
    struct plan *p = NULL;
    struct err err = {0};
    cleanup_sbuf struct sbuf text = {0};
    if (plan_why(w, str_z(name), &(struct plan_options){0}, &p, &err) < 0)
        fail_msg("%s", err.msg);
    plan_text(p, &text);
    sbuf_add(&text, plan_step_at(p, 0).summary);
    plan_free(p);
    if (!str_contains(sbuf_str(&text), str_z(part)))
        fail_msg("'%s' is not in: %s", part, text.p);
}

static void test_why(void **state)
{
    (void)state;
    struct plan_world *w = world(CLASS SLICE("n1", "{name: a}") TEMPLATE("one", "count: 1")
                                     POD("p1", "one", "") POD("p2", "one", ""));
    check_why(w, "p1", false, "pod default/p1 fits: it would land on n1 with r: a.\n");
    check_why(w, "pod/default/p2", false,
              "pod default/p2 does not fit:\n1 node (n1):\n  request r: wants 1, 0 of 1 usable\n"
              "      1 in use, held by default/p1-c-");
    check_told(w, "p2", "\nIt would fit with claim default/p1-c-");
    check_told(w, "p2", " gone: pod p1 uses it (on n1)\n  or with one more node like n1\n");
    check_why(w, "p2", true, "pod default/p2 fits: ");
    check_why(w, "claim/p2-c", true, "pod default/p2 fits: ");
    struct plan *p = NULL;
    struct err err = {0};
    struct plan_options o = {0};
    assert_int_equal(plan_why(w, STR("p3"), &o, &p, &err), -ERR_NOT_FOUND);
    assert_string_equal(
        err.msg, "no pod or claim p3 in the files; there are pod default/p1, pod default/p2");
    plan_world_free(w);
}

// --- All that the scheduler looks at --------------------------------------------------------------

#define ROOM(name, cpu, more)                                                                 \
    "---\napiVersion: v1\nkind: Node\nmetadata: {name: " name ", labels: {host: " name "}}\n" \
    "status: {allocatable: {cpu: " cpu ", memory: 8Gi, pods: 10" more "}}\n"
#define ASKS(name, spec, resources)                                                         \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: a}}\nspec:\n" \
    "  containers: [{name: m, image: i, resources: {" resources "}}]\n" spec

static void test_room_counts(void **state)
{
    (void)state;
    struct plan_world *w =
        world(ROOM("n1", "4", "") ASKS("huge", "", "requests: {cpu: 5000, memory: 100Ti}")
                  ASKS("nv", "", "limits: {nvidia.com/gpu: 1}") ASKS("a", "", "requests: {cpu: 3}")
                      ASKS("b", "", "requests: {cpu: 3}"));
    check_plan(w, ALLOC_PACK,
               "pod default/huge -\npod default/nv -\npod default/a n1 \npod default/b -\n");
    check_told(w, "huge", "1 node (n1): have insufficient cpu, insufficient memory\n");
    check_told(w, "huge", "0/1 nodes: 1 has insufficient cpu, insufficient memory");
    check_told(w, "nv", "insufficient nvidia.com/gpu");
    check_told(w, "b", "insufficient cpu");
    plan_world_free(w);
    w = world(ROOM("n1", "4", ", nvidia.com/gpu: 1") ASKS("nv", "", "limits: {nvidia.com/gpu: 1}")
                  ASKS("nw", "", "limits: {nvidia.com/gpu: 1}"));
    check_plan(w, ALLOC_PACK, "pod default/nv n1 \npod default/nw -\n");
    plan_world_free(w);
}

static void test_other_pods_count(void **state)
{
    (void)state;
    static const char apart[] =
        "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "[{topologyKey: host, labelSelector: {matchLabels: {app: a}}}]}}\n";
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text, ROOM("n1", "4", "") ROOM("n2", "4", ""));
    for (int i = 0; i < 3; i++)
        sbuf_addf(&text, ASKS("p%d", "%s", ""), i, apart);
    struct plan_world *w = world(text.p);
    struct plan *p = make(w, ALLOC_PACK);
    assert_int_equal(plan_step_at(p, 0).status, PLAN_PLACED);
    assert_int_equal(plan_step_at(p, 1).status, PLAN_PLACED);
    assert_false(str_eq(plan_step_at(p, 0).node, plan_step_at(p, 1).node));
    assert_int_equal(plan_step_at(p, 2).status, PLAN_NO);
    plan_free(p);
    plan_world_free(w);
    w = world(ROOM("n1", "4", "") "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"
                                  "  containers: [{name: m, image: i, ports: [{containerPort: 80, "
                                  "hostPort: 80}]}]\n"
                                  "---\napiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec:\n"
                                  "  containers: [{name: m, image: i, ports: [{containerPort: 80, "
                                  "hostPort: 80}]}]\n");
    check_plan(w, ALLOC_PACK, "pod default/p n1 \npod default/q -\n");
    check_told(w, "q", "host port");
    plan_world_free(w);
}

static void test_storage_counts(void **state)
{
    (void)state;
    struct plan_world *w = world(ROOM("n1", "4", "") ROOM("n2", "4", "") ASKS(
        "p", "  volumes: [{name: v, persistentVolumeClaim: {claimName: nope}}]\n",
        "") ASKS("q", "  volumes: [{name: v, persistentVolumeClaim: {claimName: far}}]\n",
                 "") "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: far}\n"
                     "spec: {volumeName: far, accessModes: [ReadWriteOnce], storageClassName: '', "
                     "resources: {requests: {storage: 1Gi}}}\nstatus: {phase: Bound}\n"
                     "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: far}\n"
                     "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], "
                     "storageClassName: '', "
                     "hostPath: {path: /x}, claimRef: {namespace: default, name: far}, "
                     "nodeAffinity: {required: "
                     "{nodeSelectorTerms: [{matchExpressions: [{key: host, operator: In, values: "
                     "[n2]}]}]}}}\n"
                     "status: {phase: Bound}\n");
    check_told(w, "p", "persistentvolumeclaim \"nope\" not found");
    check_why(w, "q", false, "pod default/q fits: it would land on n2.\n");
    plan_world_free(w);
}

static void test_priority_comes_first(void **state)
{
    (void)state;
    struct plan_world *w =
        world(ROOM("n1", "4", "") ASKS("low", "", "requests: {cpu: 3}")
                  ASKS("high", "  priorityClassName: vip\n",
                       "requests: {cpu: 3}") "---\napiVersion: "
                                             "scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: "
                                             "{name: vip}\nvalue: 1000\n");
    check_plan(w, ALLOC_PACK, "pod default/low -\npod default/high n1 \n");
    plan_world_free(w);
}

#define QUOTA(hard)                                                                       \
    "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: default}\n" \
    "spec: {hard: {" hard "}}\n"

static void test_quotas_count(void **state)
{
    (void)state;
    struct plan_world *w = world(ROOM("n1", "8", "") QUOTA("pods: '2'") ASKS("a", "", "")
                                     ASKS("b", "", "") ASKS("c", "", ""));
    check_plan(w, ALLOC_PACK, "pod default/a n1 \npod default/b n1 \npod default/c -\n");
    check_told(w, "c",
               "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, "
               "limited: pods=2");
    plan_world_free(w);
    w = world(CLASS SLICE("n1", TWO) TEMPLATE("one", "count: 1") QUOTA(
        "gpu.deviceclass.resource.k8s.io/devices: '1'") POD("p1", "one", "") POD("p2", "one", ""));
    check_plan(w, ALLOC_PACK, "pod default/p1 n1 r: a\npod default/p2 -\n");
    check_told(w, "p2", "is forbidden: exceeded quota: q");
    plan_world_free(w);
}

// --- Evictions, as the controller does them -------------------------------------------------------

#define RUNS(name, claim)                                                                  \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", uid: u-" name "}\nspec:\n" \
    "  nodeName: n1\n  resourceClaims: [{name: c, resourceClaimName: " claim "}]\n"        \
    "  containers: [{name: m, image: i}]\n"
#define HOLDS(pod, device, tolerations)                                                        \
    "status: {reservedFor: [{resource: pods, name: " pod ", uid: u-" pod "}], allocation: "    \
    "{devices: {results: [{request: r, driver: d.example.com, pool: n1, device: " device       \
    ", tolerations: [" tolerations "]}]}, nodeSelector: {nodeSelectorTerms: [{matchFields: [{" \
    "key: metadata.name, operator: In, values: [n1]}]}]}}}\n"

static void test_evicted_pods_move(void **state)
{
    (void)state;
    struct plan_world *w = world(
        CLASS SLICE("n1", TWO) SLICE("n2", TWO) CLAIM("c", HOLDS("p", "a", "")) RUNS("p", "c")
            CLAIM("d", HOLDS("q", "b", "{operator: Exists, effect: NoExecute}")) RUNS("q", "d"));
    assert_int_equal(plan_taint(w, STR("d.example.com/n1=k:NoExecute"), NULL), 0);
    check_plan(w, ALLOC_PACK, "pod default/p n2 r: a\npod default/q n1! r: b\n");
    plan_world_free(w);
}

// --- More nodes ----------------------------------------------------------------------------------

static void test_profiles_make_nodes(void **state)
{
    (void)state;
    struct err err = {0};
    struct plan_world *w = world(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: "
        "{devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}\n");
    if (plan_add_node(w, STR("profile=example-gpu,count=2,name=sim"), &err) < 0)
        fail_msg("%s", err.msg);
    check_why(w, "claim/c", false, "claim default/c fits: it would land on sim-1 with r: gpu-0.\n");
    assert_int_equal(plan_add_node(w, STR("profile=nope"), &err), -ERR_NOT_FOUND);
    assert_int_equal(plan_add_node(w, STR("profile=example-gpu,like=sim-1"), &err), -ERR_INVALID);
    plan_world_free(w);
}

static void check_needed(const char *text, const struct str *kinds, size_t n, const char *want)
{
    struct plan_world *w = world(text);
    struct plan *p = NULL;
    struct err err = {0};
    cleanup_sbuf struct sbuf out = {0};
    int r = plan_needed(w, kinds, n, &(struct plan_options){0}, &p, &err);
    if (r == 0)
        plan_text(p, &out);
    else
        sbuf_addz(&out, err.msg);
    plan_free(p);
    plan_world_free(w);
    assert_str(str_upto(sbuf_str(&out), strlen(want)), want);
}

static void test_needed_nodes(void **state)
{
    (void)state;
    static const struct str small = STR_INIT("like=small");
    static const struct str both[] = {STR_INIT("like=small"), STR_INIT("like=large")};
    static const char three[] =
        ROOM("small", "2", "") ROOM("large", "8", "") ASKS("a", "", "requests: {cpu: 8}")
            ASKS("b", "", "requests: {cpu: 8}") ASKS("c", "", "requests: {cpu: 2}")
                ASKS("d", "", "requests: {cpu: 2}") ASKS("e", "", "requests: {cpu: 2}");
    check_needed(ROOM("small", "2", "") ASKS("a", "", "requests: {cpu: 2}"), &small, 1,
                 "Needed: 0 more nodes; everything fits as it is\n");
    check_needed(ROOM("small", "2", "") ASKS("a", "", "requests: {cpu: 2}")
                     ASKS("b", "", "requests: {cpu: 2}") ASKS("c", "", "requests: {cpu: 2}"),
                 &small, 1,
                 "Needed: 2 more nodes: 2 of like=small; with 1 something does not fit\n");
    check_needed(three, both, 2,
                 "Needed: 2 more nodes: 2 of like=large; with 1 something does not fit\n");
    // The kinds mix where one alone would not do with so few.
    check_needed(ROOM("small", "2", ", x.com/y: 1") ROOM("large", "8", "")
                     ASKS("a", "", "requests: {cpu: 8}") ASKS("b", "", "requests: {cpu: 8}")
                         ASKS("c", "", "limits: {cpu: 2, x.com/y: 1}")
                             ASKS("d", "", "limits: {cpu: 2, x.com/y: 1}"),
                 both, 2,
                 "Needed: 2 more nodes: 1 of like=small, 1 of like=large; with 1 something does "
                 "not fit\n");
    check_needed(three, &small, 1, "something does not fit with 512 more nodes either");
    check_needed(three, NULL, 0, "--needed wants 1 to 4 kinds of nodes");
}

// The pod that is made for a claim is none of the files, whatever those are called.
static void test_pods_with_names_of_made_ones(void **state)
{
    (void)state;
#define BOUND(name)                                                                           \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: '" name "', uid: u}\nspec: {nodeName: " \
    "n1, containers: [{name: m, image: i}]}\n"
    struct plan_world *w =
        world(CLASS SLICE("n1", TWO) CLAIM("c", "") CLAIM("d", "") BOUND("c.claim"));
    check_plan(w, ALLOC_PACK,
               "pod default/c.claim n1! \nclaim default/c n1 r: a\nclaim default/d n1 r: b\n");
    plan_world_free(w);
    // No server accepts this name. Files are not validated.
    w = world(CLASS SLICE("n1", TWO) CLAIM("c", "") BOUND("c:claim"));
    plan_free(make(w, ALLOC_PACK));
    plan_world_free(w);
#undef BOUND
}

static void test_no_replicas_below_zero(void **state)
{
    (void)state;
    struct plan_world *w =
        world(NODE("n1", "") "---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: d}\n"
                             "spec: {replicas: -2147483648, template: {spec: {containers: [{name: "
                             "m, image: i}]}}}\n"
                             "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: u, "
                             "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: d, "
                             "uid: d, controller: true}]}\nspec: {nodeName: n1, containers: "
                             "[{name: m, image: i}]}\n");
    check_plan(w, ALLOC_PACK, "pod default/p n1! \n");
    plan_world_free(w);
}

static void test_bad_input_has_a_place(void **state)
{
    (void)state;
    struct plan_world *w = plan_world_new();
    struct err err = {0};
    assert_int_equal(plan_world_read(w, STR("f"), STR("a: [1\n"), &err), -ERR_BAD_REQUEST);
    assert_true(err.line > 0);
    err = (struct err){0};
    assert_int_equal(plan_world_read(w, STR("f"), STR(CLASS "---\n- 1\n"), &err), -ERR_BAD_REQUEST);
    assert_int_equal(err.line, 9);
    err = (struct err){0};
    assert_int_equal(plan_world_read(w, STR("f"),
                                     STR("apiVersion: v1\nkind: Node\nmetadata: {name: 3}\n"),
                                     &err),
                     -ERR_BAD_REQUEST);
    assert_int_equal(err.line, 3);
    // Kinds that are not needed, or not known, are no mistake.
    assert_int_equal(plan_world_read(w, STR("f"), STR("apiVersion: x.io/v1\nkind: Foo\n"), &err),
                     0);
    plan_world_free(w);
}

// --- Admission -----------------------------------------------------------------------------------

// Every refusal as "NAME: SUMMARY", a line each.
static void check_refusals(struct plan_world *w, const char *want)
{
    cleanup_sbuf struct sbuf b = {0};
    struct plan *p = make(w, ALLOC_PACK);
    for (size_t i = 0; i < plan_steps(p); i++) {
        struct plan_step s = plan_step_at(p, i);
        if (s.status == PLAN_NO)
            sbuf_addf(&b, "%.*s: %.*s\n", STR_ARG(s.name), STR_ARG(s.summary));
    }
    assert_true(plan_complete(p) == (b.n == 0));
    plan_free(p);
    assert_str(sbuf_str(&b), want);
}

#define SMALL_NODE(name)                                                                           \
    "---\napiVersion: v1\nkind: Node\nmetadata: {name: " name "}\nstatus: {allocatable: {cpu: 2, " \
    "memory: 4Gi, pods: 10}}\n"
#define CPU_POD(name, request, more)                                                   \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: web}}\n" \
    "spec:\n  containers: [{name: m, image: i, resources: {" request "}}]\n" more

static void test_overhead_of_runtime_classes_counts(void **state)
{
    (void)state;
    struct plan_world *w =
        world(SMALL_NODE("n1") SMALL_NODE(
            "n2") "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: "
                  "vm}\nhandler: kata\noverhead: {podFixed: {cpu: 1500m}}\nscheduling: "
                  "{nodeSelector: {kubernetes.io/hostname: n2}}\n"
                  "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: "
                  "thin}\nhandler: runc\noverhead: {podFixed: {cpu: 1500m}}\n" CPU_POD(
                      "a", "requests: {cpu: 1}", "  runtimeClassName: thin\n") // 2.5 of 2 CPUs
              CPU_POD("b", "requests: {cpu: 400m}", "  runtimeClassName: thin\n")
                  CPU_POD("c", "requests: {cpu: 400m}", "  runtimeClassName: thin\n")
                      CPU_POD("d", "requests: {cpu: 1m}",
                              "  runtimeClassName: vm\n") // no node has the label
              CPU_POD("e", "requests: {cpu: 1m}", "  runtimeClassName: none\n"));
    check_plan(w, ALLOC_PACK,
               "pod default/a -\npod default/b n1 \npod default/c n2 \npod default/d -\n"
               "pod default/e -\n");
    struct plan *p = make(w, ALLOC_PACK);
    assert_str(plan_step_at(p, 4).summary,
               "pods \"e\" is forbidden: pod rejected: RuntimeClass \"none\" not found");
    plan_free(p);
    plan_world_free(w);
}

static void test_limit_ranges_count(void **state)
{
    (void)state;
    // Without its own request a container gets 1500m: one to a node. More than 1800m is refused.
    struct plan_world *w = world(SMALL_NODE(
        "n1") "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: lr}\nspec: {limits: "
              "[{type: Container, defaultRequest: {cpu: 1500m}, default: {cpu: 1500m}, "
              "max: {cpu: 1800m}, min: {cpu: 100m}}]}\n" CPU_POD("a", "", "") CPU_POD("b", "", "")
                                     CPU_POD("c", "limits: {cpu: 1900m}", "")
                                         CPU_POD("d", "limits: {cpu: 50m}", ""));
    check_plan(w, ALLOC_PACK,
               "pod default/a n1 \npod default/b -\npod default/c -\npod default/d -\n");
    struct plan *p = make(w, ALLOC_PACK);
    assert_str(plan_step_at(p, 2).summary,
               "pods \"c\" is forbidden: maximum cpu usage per Container "
               "is 1800m, but limit is 1900m");
    assert_str(plan_step_at(p, 3).summary,
               "pods \"d\" is forbidden: minimum cpu usage per Container "
               "is 100m, but request is 50m");
    plan_free(p);
    plan_world_free(w);
}

// Admission adds tolerations of not-ready and unreachable nodes (NoExecute): a pod may land on a node
// that only has the eviction taint, and not on one that is tainted NoSchedule.
static void test_default_tolerations_count(void **state)
{
    (void)state;
    static const char *const effects[][2] = {{"NoExecute", "pod default/a n1 \n"},
                                             {"NoSchedule", "pod default/a -\n"}};
    for (size_t i = 0; i < array_len(effects); i++) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text,
                  NODE("n1", "taints: [{key: node.kubernetes.io/not-ready, effect: %s}]")
                      CPU_POD("a", "", ""),
                  effects[i][0]);
        struct plan_world *w = world(text.p);
        check_plan(w, ALLOC_PACK, effects[i][1]);
        plan_world_free(w);
    }
}

static void test_daemons_take_room_on_added_nodes(void **state)
{
    (void)state;
    // The daemon takes 1500m of the 2 CPUs of a node; two pods of 800m need two nodes besides.
    static const char text[] = SMALL_NODE(
        "n1") "---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: log, uid: "
              "d1}\nspec:\n  selector: {matchLabels: {d: log}}\n  template:\n    metadata: "
              "{labels: {d: "
              "log}}\n    spec:\n      priorityClassName: system-node-critical\n      containers: "
              "[{name: "
              "m, image: i, resources: {requests: {cpu: 1500m}}}]\n"
              "---\napiVersion: v1\nkind: Pod\nmetadata: {name: log-x, uid: p1, labels: {d: log}, "
              "ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: log, uid: d1, "
              "controller: true}]}\nspec: {nodeName: n1, containers: [{name: m, image: i, "
              "resources: "
              "{requests: {cpu: 1500m}}}]}\nstatus: {phase: Running}\n" CPU_POD(
                  "a", "requests: {cpu: 800m}", "");
    struct plan_world *w = world(text);
    struct err err = {0};
    assert_int_equal(plan_add_node(w, STR("like=n1,count=1"), &err), 0);
    struct plan *p = make(w, ALLOC_PACK);
    assert_int_equal(plan_steps(p), 3);
    assert_str(plan_step_at(p, 0).node, "n1");
    assert_int_equal(plan_step_at(p, 1).status, PLAN_NO); // 500m are left on each node
    assert_true(str_starts(plan_step_at(p, 2).name, STR("pod default/log-")));
    assert_str(plan_step_at(p, 2).node, "n1-new-1");
    plan_free(p);
    plan_world_free(w);
}

#define RUNNING(name, node)                                                                      \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", uid: u-" name                    \
    ", labels: {app: web}}\nspec: {nodeName: " node                                              \
    ", containers: [{name: m, image: i}]}\nstatus: {phase: Running, conditions: [{type: Ready, " \
    "status: 'True'}]}\n"
#define BUDGET(spec, status)                                                               \
    "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web" spec "}" \
    "\n" status
#define SELECTS "selector: {matchLabels: {app: web}}"

static void test_budgets_forbid_a_drain(void **state)
{
    (void)state;
    static const struct {
        const char *budget, *refusals;
    } cases[] = {
        {BUDGET("}\nspec: {minAvailable: 2, " SELECTS, ""),
         "pod default/a: Cannot evict pod as it would violate the pod's disruption budget. The "
         "disruption budget web needs 2 healthy pods and has 2 currently\n"},
        {BUDGET("}\nspec: {maxUnavailable: '50%', " SELECTS, ""), ""},
        {BUDGET("}\nspec: {maxUnavailable: 0, " SELECTS, ""),
         "pod default/a: Cannot evict pod as it would violate the pod's disruption budget. The "
         "disruption budget web needs 2 healthy pods and has 2 currently\n"},
        // What the cluster's controller has found counts for a budget of the cluster.
        {BUDGET(", uid: b, generation: 1}\nspec: {minAvailable: 2, " SELECTS,
                "status: {observedGeneration: 1, disruptionsAllowed: 1, currentHealthy: 3, "
                "desiredHealthy: 2, expectedPods: 3}\n"),
         ""},
        {"", ""},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_sbuf struct sbuf text = {0};
        struct err err = {0};
        sbuf_addz(&text, SMALL_NODE("n1") SMALL_NODE("n2") RUNNING("a", "n1") RUNNING("b", "n2"));
        sbuf_addz(&text, cases[i].budget);
        struct plan_world *w = world(text.p);
        assert_int_equal(plan_drain(w, STR("n1"), &err), 0);
        check_refusals(w, cases[i].refusals);
        plan_world_free(w);
    }
}

// Pods that a drain leaves on their node keep their devices.
static void test_drain_leaves_daemons(void **state)
{
    (void)state;
    struct plan_world *w =
        world(CLASS SLICE("n1", TWO) NODE("n1", "") NODE("n2", "")
                  CLAIM("c", "status: {reservedFor: [{resource: pods, name: d, uid: u-d}], "
                             "allocation: {devices: "
                             "{results: [{request: r, driver: d.example.com, pool: n1, device: "
                             "a}]}}}\n") "---\napiVersion: v1\nkind: Pod\nmetadata: {name: d, uid: "
                                         "u-d, ownerReferences: "
                                         "[{apiVersion: apps/v1, kind: DaemonSet, name: ds, uid: "
                                         "x, controller: true}]}\n"
                                         "spec: {nodeName: n1, resourceClaims: [{name: c, "
                                         "resourceClaimName: c}], containers: "
                                         "[{name: m, image: i}]}\nstatus: {phase: Running}\n");
    struct err err = {0};
    assert_int_equal(plan_drain(w, STR("n1"), &err), 0);
    check_plan(w, ALLOC_PACK, "pod default/d n1! r: a\n");
    plan_world_free(w);
}

RUN_TESTS(TEST_CASE(test_one_after_the_other), TEST_CASE(test_allocated_claims_are_in_use),
          TEST_CASE(test_shared_claim_binds_pods_to_its_node),
          TEST_CASE(test_nodes_that_pods_may_run_on),
          TEST_CASE(test_extended_resources_and_replicas), TEST_CASE(test_missing_template),
          TEST_CASE(test_drain_moves_what_runs_there), TEST_CASE(test_taint),
          TEST_CASE(test_without), TEST_CASE(test_add_node), TEST_CASE(test_why),
          TEST_CASE(test_room_counts), TEST_CASE(test_other_pods_count),
          TEST_CASE(test_storage_counts), TEST_CASE(test_priority_comes_first),
          TEST_CASE(test_quotas_count), TEST_CASE(test_evicted_pods_move),
          TEST_CASE(test_profiles_make_nodes), TEST_CASE(test_needed_nodes),
          TEST_CASE(test_overhead_of_runtime_classes_counts), TEST_CASE(test_limit_ranges_count),
          TEST_CASE(test_default_tolerations_count),
          TEST_CASE(test_daemons_take_room_on_added_nodes), TEST_CASE(test_budgets_forbid_a_drain),
          TEST_CASE(test_drain_leaves_daemons), TEST_CASE(test_pods_with_names_of_made_ones),
          TEST_CASE(test_no_replicas_below_zero), TEST_CASE(test_bad_input_has_a_place))
