// SPDX-License-Identifier: Apache-2.0
//
// The devices of a cluster as people ask for them: states, holders, what is free, how near, what is wrong,
// words for claims, history, snapshots.
#include "api/api.h"
#include "api/features.h"
#include "plan/doctor.h"
#include "plan/inventory.h"
#include "plan/past.h"
#include "plan/snapshot.h"
#include "plan/taint.h"
#include "plan/topo.h"
#include "plan/words.h"
#include "unit.h"

#include "base/banned.h"

#define CLASS(name, expression)                                                            \
    "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: " name "}\n" \
    "spec: {selectors: [{cel: {expression: \"" expression "\"}}]}\n"
#define GPUS CLASS("gpu.example.com", "device.driver == 'gpu.example.com'")
#define POOL(slice, driver, node, generation, count, rest)                                    \
    "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: " slice "}\n" \
    "spec:\n  driver: " driver "\n  nodeName: " node "\n  pool: {name: " node                 \
    ", generation: " generation ", resourceSliceCount: " count "}\n" rest
#define SLICE(node, devices) \
    POOL("s-" node, "gpu.example.com", node, "1", "1", "  devices: [" devices "]\n")
#define NODE(name) "---\napiVersion: v1\nkind: Node\nmetadata: {name: " name "}\n"
#define HELD(name, node, device, more)                                                        \
    "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\n"                              \
    "metadata: {name: " name ", creationTimestamp: '2026-11-16T10:00:00Z'}\n"                 \
    "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}\n" \
    "status:\n  reservedFor: [{resource: pods, name: p-" name ", uid: u-" name "}]\n"         \
    "  allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: " node    \
    ", device: " device more "}]}}\n"
#define POD(name, node)                                                                  \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name "}\nspec: {nodeName: " node \
    ", containers: [{name: c, image: i, env: [{name: PASSWORD, value: hunter2}]}]}\n"

// The pod that holds the claim of that name.
#define USER(name, node)                                                                     \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p-" name ", uid: u-" name "}\nspec: {" \
    "nodeName: " node ", containers: [{name: c, image: i}], resourceClaims: [{name: g, "     \
    "resourceClaimName: " name "}]}\n"
#define TOLERATES(more) ", tolerations: [{key: k, operator: Exists, effect: NoExecute" more "}]"

static struct plan_world *world(const char *text)
{
    struct plan_world *w = plan_world_new();
    struct err err = {0};
    if (plan_world_read(w, STR("test"), str_z(text), &err) < 0)
        fail_msg("line %zu: %s", err.line, err.msg);
    return w;
}

static struct alloc_features all_features(void)
{
    struct alloc_features f = {0};
    assert_true(alloc_features_add(&f, STR("all")));
    return f;
}

static struct inventory *inventory(struct plan_world *w)
{
    struct inventory *inv = NULL;
    struct err err = {0};
    const struct inventory_options o = {.features = all_features()};
    if (inventory_new(w, &o, &inv, &err) < 0)
        fail_msg("%s", err.msg);
    assert_non_null(inv);
    return inv;
}

// Every device as "POOL/DEVICE STATE why", a line each.
static void check_states(const char *text, const char *want)
{
    cleanup_sbuf struct sbuf b = {0};
    struct plan_world *w = world(text);
    struct inventory *inv = inventory(w);
    for (size_t i = 0; i < inv->devices_len; i++) {
        const struct inventory_device *d = &inv->devices[i];
        sbuf_addf(&b, "%.*s/%.*s %s%s%.*s\n", STR_ARG(d->id.pool), STR_ARG(d->id.device),
                  inventory_state_name(d->state), d->why.n ? " " : "", STR_ARG(d->why));
    }
    assert_str(sbuf_str(&b), want);
    inventory_free(inv);
    plan_world_free(w);
}

static void test_states(void **state)
{
    (void)state;
    check_states(GPUS NODE("n1") SLICE("n1", "{name: a}, {name: b}, {name: c, taints: [{key: k, "
                                             "value: v, effect: NoSchedule}]}")
                     HELD("x", "n1", "a", ""),
                 "n1/a held\nn1/b free\nn1/c tainted k=v:NoSchedule\n");
}

static void test_only_the_newest_complete_generation_counts(void **state)
{
    (void)state;
    check_states(NODE("n1")
                     POOL("old", "gpu.example.com", "n1", "1", "1", "  devices: [{name: a}]\n")
                         POOL("new", "gpu.example.com", "n1", "2", "1", "  devices: [{name: b}]\n"),
                 "n1/b free\n");
    check_states(NODE("n1")
                     POOL("s", "gpu.example.com", "n1", "3", "2", "  devices: [{name: a}]\n"),
                 "n1/a lost 1 of 2 slices of generation 3 are there\n");
    check_states(NODE("n1") SLICE("n2", "{name: a}"), "n2/a lost node n2 is not there\n");
}

#define PARTS                                                                              \
    NODE("n1")                                                                             \
    POOL("c", "gpu.example.com", "n1", "1", "2",                                           \
         "  sharedCounters: [{name: g, counters: {mem: {value: 40Gi}}}]\n")                \
    POOL("d", "gpu.example.com", "n1", "1", "2",                                           \
         "  devices: [" PART("whole", "40Gi") ", " PART("left", "20Gi") ", " PART("right", \
                                                                                  "20Gi") "]\n")
#define PART(name, mem) \
    "{name: " name ", consumesCounters: [{counterSet: g, counters: {mem: {value: " mem "}}}]}"

static void test_partitions_block_each_other(void **state)
{
    (void)state;
    check_states(GPUS PARTS, "n1/whole free\nn1/left free\nn1/right free\n");
    check_states(GPUS PARTS HELD("x", "n1", "left", ""),
                 "n1/whole blocked others use g/mem\nn1/left held\nn1/right free\n");
}

#define SHARED                                                                          \
    NODE("n1")                                                                          \
    SLICE("n1", "{name: a, allowMultipleAllocations: true, capacity: {memory: {value: " \
                "40Gi, requestPolicy: {default: 10Gi, validRange: {min: 1Gi}}}}}")
#define SHARE(id, amount) ", shareID: " id ", consumedCapacity: {memory: " amount "}"

static void test_shares_tell_what_is_left(void **state)
{
    (void)state;
    struct plan_world *w = world(
        GPUS SHARED HELD("x", "n1", "a", SHARE("11111111-1111-1111-1111-111111111111", "15Gi")));
    struct inventory *inv = inventory(w);
    assert_int_equal(inv->devices[0].state, INVENTORY_PART);
    assert_non_null(inv->devices[0].left);
    assert_str(inv->devices[0].left[0], "25Gi");
    inventory_free(inv);
    plan_world_free(w);
    check_states(GPUS SHARED HELD("x", "n1", "a",
                                  SHARE("11111111-1111-1111-1111-111111111111", "35Gi")),
                 "n1/a held\n");
}

static void test_holders(void **state)
{
    (void)state;
    struct plan_world *w =
        world(GPUS NODE("n1") SLICE("n1", "{name: a}, {name: b}") HELD("x", "n1", "a", "")
                  HELD("z", "n1", "zz", "") POD("p-x", "n1"));
    struct inventory *inv = inventory(w);
    assert_int_equal(inv->devices[0].holds_len, 1);
    assert_int_equal(inv->devices[1].holds_len, 0);
    const struct inventory_claim *c = &inv->claims[inv->holds[inv->devices[0].first_hold].claim];
    assert_str(c->name, "default/x");
    assert_str(c->pods, "p-x");
    assert_str(c->node, "n1");
    assert_int_equal(c->since_how, INVENTORY_SINCE_CREATION);
    // The device of z is gone: such holds come last.
    assert_int_equal(inv->holds[inv->holds_len - 1].device, UINT32_MAX);
    inventory_free(inv);
    plan_world_free(w);
}

static void test_names(void **state)
{
    (void)state;
    struct plan_world *w = world(SLICE("n1", "{name: a}, {name: b}") SLICE("n2", "{name: a}"));
    struct inventory *inv = inventory(w);
    assert_int_equal(inventory_find(inv, STR("a"), NULL, NULL), 2);
    assert_int_equal(inventory_find(inv, STR("n1/a"), NULL, NULL), 1);
    assert_int_equal(inventory_find(inv, STR("gpu.example.com/n2/a"), NULL, NULL), 1);
    assert_int_equal(inventory_find(inv, STR("gpu.example.com/b"), NULL, NULL), 1);
    assert_int_equal(inventory_find(inv, STR("other/n2/a"), NULL, NULL), 0);
    assert_int_equal(inventory_find(inv, STR("c"), NULL, NULL), 0);
    inventory_free(inv);
    plan_world_free(w);
}

// --- Free ----------------------------------------------------------------------------------------

// Rows as "NODE devices free fits", a line each, then the total, and how many tolerant ones fit.
static void check_free(const char *text, const struct free_question *q, const char *want)
{
    cleanup_sbuf struct sbuf b = {0};
    struct plan_world *w = world(text);
    struct arena arena = {0};
    struct inventory *inv = NULL;
    struct free_answer a = {0};
    struct err err = {0};
    struct features f;
    features_init(&f, FEATURES_MINOR);
    assert_int_equal(features_parse(&f, STR("AllAlpha=true,AllBeta=true"), NULL), 0);
    int r = free_find(w, q, &f, &arena, &inv, &a, &err);
    for (size_t i = 0; r == 0 && i < a.rows_len; i++)
        sbuf_addf(&b, "%.*s %zu %zu %zu\n", STR_ARG(a.rows[i].node), a.rows[i].devices,
                  a.rows[i].states[INVENTORY_FREE], a.rows[i].fits);
    if (r == 0)
        sbuf_addf(&b, "%zu %zu %zu%s\n", a.total.devices, a.total.states[INVENTORY_FREE],
                  a.total.fits, a.total.more ? "+" : "");
    if (r == 0 && a.total.fits_tolerant != a.total.fits)
        sbuf_addf(&b, "tolerant %zu\n", a.total.fits_tolerant);
    else if (r < 0)
        sbuf_addz(&b, err.msg);
    if (want)
        assert_str(sbuf_str(&b), want);
    else
        assert_true(r < 0);
    inventory_free(inv);
    arena_done(&arena);
    plan_world_free(w);
}

static void test_free_counts(void **state)
{
    (void)state;
    static const char text[] = GPUS NODE("n1") NODE("n2") SLICE("n1", "{name: a}, {name: b}")
        SLICE("n2", "{name: a}") HELD("x", "n1", "a", "");
    check_free(text, &(struct free_question){.class_name = STR("gpu.example.com")},
               "n1 2 1 1\nn2 1 1 1\n3 2 2\n");
    check_free(text, &(struct free_question){.node = STR("n2")}, "n2 1 1 1\n1 1 1\n");
    check_free(text, &(struct free_question){.cel = STR("device.driver == 'no'")}, "0 0 0\n");
    check_free(text, &(struct free_question){.class_name = STR("nic")},
               "there is no DeviceClass nic");
    check_free(text, &(struct free_question){.node = STR("n9")}, "there is no node n9");
    check_free(text, &(struct free_question){.cel = STR("device.nothing +")}, NULL);
}

// Devices of a node that takes no pod are there, and nobody gets them.
static void test_free_knows_closed_nodes(void **state)
{
    (void)state;
    static const char text[] =
        GPUS NODE("n1") SLICE("n1", "{name: a}") SLICE("n2", "{name: a}") SLICE("n3", "{name: a}")
            SLICE("n4", "{name: a}") "---\napiVersion: v1\nkind: Node\nmetadata: {name: n2}\nspec: "
                                     "{unschedulable: true}\n"
                                     "---\napiVersion: v1\nkind: Node\nmetadata: {name: "
                                     "n3}\nstatus: {allocatable: {pods: 1}}\n"
                                     "---\napiVersion: v1\nkind: Node\nmetadata: {name: n4}\nspec: "
                                     "{taints: [{key: gpu, "
                                     "effect: NoSchedule}]}\n" POD("full", "n3");
    check_free(text, &(struct free_question){.class_name = STR("gpu.example.com")},
               "n1 1 1 1\nn2 1 1 0\nn3 1 1 0\nn4 1 1 0\n4 4 1\ntolerant 2\n");
}

// What tenants have in any namespace does not change the answer: neither limits that would apply to
// the pods that are tried, nor pods of their names.
static void test_free_uses_a_namespace_of_its_own(void **state)
{
    (void)state;
#define LIMITS(namespace)                                                                          \
    "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: " namespace "}\nspec: " \
                                                                                       "{limits: " \
                                                                                       "[{type: "  \
                                                                                       "Container" \
                                                                                       ", "        \
                                                                                       "default: " \
                                                                                       "{cpu: "    \
                                                                                       "1k}, "     \
                                                                                       "defaultRe" \
                                                                                       "quest: "   \
                                                                                       "{cpu: "    \
                                                                                       "1k}}]}\n"  \
                                                                                       "---"       \
                                                                                       "\napiVers" \
                                                                                       "ion: "     \
                                                                                       "v1\nkind:" \
                                                                                       " Pod\nmet" \
                                                                                       "adata: "   \
                                                                                       "{name: "   \
                                                                                       "probe-0, " \
                                                                                       "namespace" \
                                                                                       ":"         \
                                                                                       " " namespace ", uid: u}\nspec: {nodeName: n1, containers: [{name: c, image: i}]}\n"
    static const char text[] =
        GPUS "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: "
             "{cpu: 4, pods: 10}}\n" SLICE("n1", "{name: a}, {name: b}") LIMITS("dray-free")
                 LIMITS("dray-free-1");
    check_free(text, &(struct free_question){.class_name = STR("gpu.example.com")},
               "n1 2 2 2\n2 2 2\n");
#undef LIMITS
}

// A minute passes from each look at this clock to the next.
static int64_t hasty_ns(const struct clock *c)
{
    (void)c;
    static int64_t now;
    return now += 60 * CLOCK_NS_PER_SEC;
}

// Pods that wait may take more time to decide on than there is: the answer is a lower bound then.
static void test_free_ends_in_time(void **state)
{
    (void)state;
    static const struct clock hasty = {hasty_ns, hasty_ns};
    check_free(GPUS NODE("n1") SLICE("n1", "{name: a}"),
               &(struct free_question){.class_name = STR("gpu.example.com"), .clock = &hasty},
               "n1 1 1 0\n1 1 0+\n");
}

static void test_free_asks_the_allocator_for_partitions_and_shares(void **state)
{
    (void)state;
    // Three partitions are free, but not at once: the whole one would exclude both halves.
    check_free(GPUS PARTS, &(struct free_question){.class_name = STR("gpu.example.com")},
               "n1 3 3 2\n3 3 2\n");
    // A share is 10Gi if nothing else is said: two more fit beside 15 of 40.
    check_free(GPUS SHARED HELD("x", "n1", "a",
                                SHARE("11111111-1111-1111-1111-111111111111", "15Gi")),
               &(struct free_question){.class_name = STR("gpu.example.com")}, "n1 1 0 2\n1 0 2\n");
}

static void test_free_counts_network_devices_once(void **state)
{
    (void)state;
    check_free(NODE("n1") NODE("n2") "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\n"
                                     "metadata: {name: cams}\nspec: {driver: cam.example.com, "
                                     "allNodes: true, pool: {name: cams, generation: 1, "
                                     "resourceSliceCount: 1}, devices: [{name: a}, {name: b}]}\n",
               &(struct free_question){0}, " 2 2 2\n2 2 2\n");
}

// --- Topology ------------------------------------------------------------------------------------

#define AT(name, root, numa)                                                        \
    "{name: " name ", attributes: {resource.kubernetes.io/pcieRoot: {string: " root \
    "}, dra.net/numaNode: {int: " numa "}}}"

static void test_topology(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf b = {0};
    struct plan_world *w =
        world(NODE("n1") SLICE("n1", AT("a", "r1", "0") ", " AT("b", "r1", "0") ", " AT(
                                         "c", "r2", "0") ", " AT("d", "r3", "1") ", {name: e}"));
    struct inventory *inv = inventory(w);
    struct arena arena = {0};
    struct topo t;
    assert_int_equal(topo_find(inv, STR("n1"), false, &arena, &t, NULL), 0);
    assert_int_equal(t.n, 5);
    for (size_t i = 0; i < t.n; i++) {
        sbuf_addf(&b, "%.*s:", STR_ARG(inv->devices[t.devices[i]].id.device));
        for (size_t k = 0; k < t.n; k++)
            sbuf_addf(&b, " %s", topo_word(t.near[i * t.n + k]));
        sbuf_addc(&b, '\n');
    }
    // What is told least comes first.
    assert_str(sbuf_str(&b), "e: X ? ? ? ?\na: ? X PHB NODE SYS\nb: ? PHB X NODE SYS\n"
                             "c: ? NODE NODE X SYS\nd: ? SYS SYS SYS X\n");
    assert_int_equal(topo_find(inv, STR("n2"), false, &arena, &t, NULL), -ERR_NOT_FOUND);
    arena_done(&arena);
    inventory_free(inv);
    plan_world_free(w);
}

static void test_topology_folds_partitions(void **state)
{
    (void)state;
    struct plan_world *w = world(PARTS);
    struct inventory *inv = inventory(w);
    struct arena arena = {0};
    struct topo t;
    assert_int_equal(topo_find(inv, STR("n1"), false, &arena, &t, NULL), 0);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.folded[0], 2);
    assert_int_equal(topo_find(inv, STR("n1"), true, &arena, &t, NULL), 0);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.near[1], TOPO_PART);
    arena_done(&arena);
    inventory_free(inv);
    plan_world_free(w);
}

// --- Taints --------------------------------------------------------------------------------------

// What-if evicts the same pods as the eviction controller does, sooner or later.
static void test_a_plan_evicts_as_the_controller_does(void **state)
{
    (void)state;
    static const struct {
        const char *toleration;
        bool stays;
    } rows[] = {{"{key: k, operator: Exists}", false},
                {"{key: k, operator: Exists, effect: NoExecute}", true},
                {"{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 60}", false},
                {"{key: other, operator: Exists, effect: NoExecute}", false}};
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text,
                  GPUS NODE("n1") SLICE("n1", "{name: a}")
                      HELD("x", "n1", "a", ", tolerations: [%s]") USER("x", "n1"),
                  rows[i].toleration);
        struct plan_world *w = world(text.p);
        struct plan *p = NULL;
        assert_int_equal(plan_taint(w, STR("gpu.example.com=k=v:NoExecute"), NULL), 0);
        assert_int_equal(plan_make(w, &(struct plan_options){0}, &p, NULL), 0);
        if ((plan_step_at(p, 0).status == PLAN_RUNNING) != rows[i].stays)
            fail_msg("%s: status %d", rows[i].toleration, (int)plan_step_at(p, 0).status);
        plan_free(p);
        plan_world_free(w);
    }
}

static void test_taint_tells_whom_it_evicts(void **state)
{
    (void)state;
    struct plan_world *w = world(
        GPUS NODE("n1") SLICE("n1", "{name: a}, {name: b}, {name: c}, {name: d}, {name: e}")
            HELD("x", "n1", "a", "") USER("x", "n1")
                HELD("w", "n1", "d", TOLERATES(", tolerationSeconds: 300")) USER("w", "n1")
                    HELD("z", "n1", "b", TOLERATES("")) USER("z", "n1")
                        HELD("nobody", "n1", "c", "")
                            HELD("v", "n1", "e", ", tolerations: [{key: k, operator: Exists}]")
                                USER("v", "n1"));
    struct inventory *inv = inventory(w);
    struct arena arena = {0};
    struct api_device_taint_rule *rule = NULL;
    struct taint_effect e;
    cleanup_sbuf struct sbuf name = {0}, again = {0};
    assert_int_equal(taint_parse(STR("gpu.example.com=k=v:NoExecute"), &arena, &rule, NULL), 0);
    assert_non_null(rule);
    taint_find(inv, &(struct taint_rules){&rule, 1}, NULL, &arena, &e);
    assert_int_equal(e.devices_len, 5);
    assert_true(e.evicts);
    assert_int_equal(e.hits_len, 5);
    assert_false(e.hits[0].tolerates); // by device
    assert_true(e.hits[1].tolerates && !e.hits[1].for_a_while);
    assert_true(e.hits[2].tolerates); // pods are evicted, not claims
    assert_true(e.hits[3].for_a_while);
    assert_int_equal(e.hits[3].seconds, 300);
    assert_false(e.hits[4].tolerates); // without the effect it counts for the scheduler alone
    taint_rule_name(rule, &name);
    taint_rule_name(rule, &again);
    assert_str(sbuf_str(&name), again.p);
    assert_true(str_starts(sbuf_str(&name), STR("dray-gpu-example-com-k-")));
    assert_int_equal(taint_parse(STR("gpu.example.com=k:Never"), &arena, &rule, NULL),
                     -ERR_INVALID);
    arena_done(&arena);
    inventory_free(inv);
    plan_world_free(w);
}

static void test_taint_of_a_class(void **state)
{
    (void)state;
    struct plan_world *w =
        world(GPUS CLASS("big", "device.attributes['gpu.example.com'].?size.orValue(0) == 2")
                  SLICE("n1", "{name: a, attributes: {size: {int: 1}}}, "
                              "{name: b, attributes: {size: {int: 2}}}"));
    struct inventory *inv = inventory(w);
    struct arena arena = {0};
    struct taint_rules rules = {0};
    const struct api_device_taint t = {.key = STR("k"), .effect = STR("NoSchedule")};
    assert_int_equal(taint_of_class(inv, STR("gpu.example.com"), &t, &arena, &rules, NULL), 0);
    assert_int_equal(rules.n, 1);
    assert_false(rules.p[0]->spec.device_selector->has_device);
    assert_int_equal(taint_of_class(inv, STR("big"), &t, &arena, &rules, NULL), 0);
    assert_int_equal(rules.n, 1);
    assert_str(rules.p[0]->spec.device_selector->device, "b");
    assert_int_equal(taint_of_class(inv, STR("none"), &t, &arena, &rules, NULL), -ERR_NOT_FOUND);
    arena_done(&arena);
    inventory_free(inv);
    plan_world_free(w);
}

// --- Doctor --------------------------------------------------------------------------------------

static void check_doctor(const char *text, const char *check, const char *part,
                         enum doctor_level level)
{
    struct plan_world *w = world(text);
    struct inventory *inv = inventory(w);
    struct doctor d = {0};
    bool found = false;
    doctor_inspect(&d, inv, (struct moment){.sec = 1794830400});
    for (size_t i = 0; i < d.findings.n; i++)
        found |= strcmp(d.findings.p[i].check, check) == 0 && d.findings.p[i].level == level &&
                 str_contains(d.findings.p[i].what, str_z(part));
    for (size_t i = 0; !found && i < d.findings.n; i++)
        print_message("%s: %.*s\n", d.findings.p[i].check, STR_ARG(d.findings.p[i].what));
    assert_true(found);
    if (level != DOCTOR_GOOD)
        assert_true(doctor_worst(&d) >= level);
    doctor_done(&d);
    inventory_free(inv);
    plan_world_free(w);
}

#define FINE GPUS NODE("n1") SLICE("n1", "{name: a}")

static void test_doctor(void **state)
{
    (void)state;
    check_doctor(FINE, "pools", "complete", DOCTOR_GOOD);
    check_doctor(FINE, "claims", "every allocated claim", DOCTOR_GOOD);
    check_doctor("", "slices", "no driver", DOCTOR_BAD);
    check_doctor(NODE("n1") POOL("s", "d", "n1", "1", "2", "  devices: [{name: a}]\n"), "pools",
                 "1 of 2 slices", DOCTOR_BAD);
    check_doctor(NODE("n1") SLICE("n1", "{name: a}, {name: a}"), "pools", "twice", DOCTOR_BAD);
    check_doctor(NODE("n1") POOL("o", "d", "n1", "1", "1", "  devices: []\n")
                     POOL("new", "d", "n1", "2", "1", "  devices: []\n"),
                 "slices", "older than generation 2", DOCTOR_WARN);
    check_doctor(NODE("n1") SLICE("n2", "{name: a}"), "slices", "which is not there", DOCTOR_BAD);
    check_doctor(FINE CLASS("nic", "device.driver == 'nic'"), "classes", "matches no device",
                 DOCTOR_WARN);
    check_doctor(FINE CLASS("bad", "device.attributes['x'].y == 1"), "classes", "fails on 1",
                 DOCTOR_BAD);
    check_doctor(FINE HELD("x", "n1", "gone", ""), "claims", "not published any more", DOCTOR_BAD);
    check_doctor(FINE HELD("x", "n1", "a", "") HELD("z", "n1", "a", ""), "claims",
                 "allocated 2 times", DOCTOR_BAD);
    check_doctor(FINE HELD("x", "n1", "a", ""), "claims", "reserved for pod p-x", DOCTOR_BAD);
    check_doctor(FINE "---\napiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: "
                      "{name: r}\nspec: {deviceSelector: {driver: none}, taint: {key: k, effect: "
                      "NoSchedule}}\n",
                 "taint rules", "about no device", DOCTOR_WARN);
    check_doctor(GPUS "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {conditions: "
                      "[{type: Ready, status: 'False'}]}\n" SLICE("n1", "{name: a}"),
                 "nodes", "not ready", DOCTOR_BAD);
    check_doctor(
        FINE HELD("x", "n1", "a", "") USER(
            "x", "n1") "---\napiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: "
                       "{name: r}\nspec: {deviceSelector: {driver: gpu.example.com}, taint: {key: "
                       "xid, value: '79', effect: NoSchedule}}\n",
        "devices", "in use by pod default/p-x, and broken: xid=79:NoSchedule", DOCTOR_BAD);
    check_doctor(FINE "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\n"
                      "spec: {nodeName: n1, containers: [{name: c, image: i}]}\nstatus: {phase: "
                      "Pending, containerStatuses: [{name: c, image: i, imageID: '', ready: false, "
                      "restartCount: 0, state: {waiting: {reason: ImagePullBackOff}}}]}\n",
                 "pods", "pod default/p on node n1 does not run: ImagePullBackOff", DOCTOR_BAD);
}

// --- Words ---------------------------------------------------------------------------------------

#define MODELS                                                                                     \
    GPUS CLASS("nic.example.com", "device.driver == 'nic.example.com'") SLICE(                     \
        "n1", "{name: a, attributes: {model: {string: NVIDIA A100}, "                              \
              "resource.kubernetes.io/pcieRoot: {string: r}}, capacity: {memory: {value: 80Gi}}}") \
        POOL("nics", "nic.example.com", "n1", "1", "1",                                            \
             "  devices: [{name: nic0, attributes: {resource.kubernetes.io/pcieRoot: {string: "    \
             "r}}}]\n")

static int make(struct plan_world *w, struct words *words, struct sbuf *yaml, struct sbuf *notes,
                struct err *err)
{
    struct inventory *inv = inventory(w);
    int r = words_make(inv, words, yaml, notes, err);
    inventory_free(inv);
    return r;
}

static void test_words_become_a_claim_that_fits(void **state)
{
    (void)state;
    struct plan_world *w = world(MODELS);
    struct words words = {.kind = WORDS_CLAIM};
    struct words_request gpu = {.word = STR("gpu")}, nic = {.word = STR("nic")};
    cleanup_sbuf struct sbuf yaml = {0}, notes = {0};
    vec_push(&gpu.conditions, (struct words_condition){STR("memory"), STR("40Gi")});
    vec_push(&gpu.conditions, (struct words_condition){STR("model"), STR("a100")});
    vec_push(&words.requests, gpu);
    vec_push(&words.requests, nic);
    vec_push(&words.same, STR("pcieRoot"));
    struct err err = {0};
    if (make(w, &words, &yaml, &notes, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(str_contains(sbuf_str(&yaml), STR("deviceClassName: gpu.example.com\n")));
    assert_true(str_contains(sbuf_str(&yaml),
                             STR("device.capacity['gpu.example.com'].memory.compareTo(quantity('"
                                 "40Gi')) >= 0")));
    assert_true(str_contains(sbuf_str(&yaml), STR(".model == 'NVIDIA A100'")));
    assert_true(
        str_contains(sbuf_str(&yaml), STR("- matchAttribute: resource.kubernetes.io/pcieRoot\n")));
    assert_true(str_contains(sbuf_str(&notes), STR("taken as 'NVIDIA A100'")));
    // The claim is one, and fits.
    struct plan *p = NULL;
    const struct plan_options o = {0};
    assert_int_equal(plan_world_read(w, STR("made"), sbuf_str(&yaml), &err), 0);
    assert_int_equal(plan_why(w, STR("claim/gpu-nic"), &o, &p, &err), 0);
    assert_true(plan_complete(p));
    plan_free(p);
    words_done(&words);
    plan_world_free(w);
}

// A share is asked for by the name that the device publishes, with its domain or without.
static void test_words_ask_for_a_share_that_fits(void **state)
{
    (void)state;
    static const struct {
        const char *key, *asked;
    } rows[] = {{"memory", "memory"},
                {"memory", "gpu.example.com/memory"},
                {"gpu.example.com/memory", "memory"},
                {"other.example.com/memory", "memory"}};
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf text = {0}, yaml = {0}, notes = {0}, line = {0};
        struct words words = {.kind = WORDS_CLAIM};
        struct words_request gpu = {.word = STR("gpu")};
        struct err err = {0};
        sbuf_addf(&text,
                  GPUS NODE("n1")
                      SLICE("n1", "{name: a, allowMultipleAllocations: true, capacity: {%s: {"
                                  "value: 80Gi}}}"),
                  rows[i].key);
        sbuf_addf(&line, "requests:\n            %s: 10Gi\n", rows[i].key);
        struct plan_world *w = world(text.p);
        vec_push(&gpu.conditions, (struct words_condition){str_z(rows[i].asked), STR("10Gi")});
        vec_push(&words.requests, gpu);
        if (make(w, &words, &yaml, &notes, &err) < 0)
            fail_msg("%s", err.msg);
        if (!str_contains(sbuf_str(&yaml), sbuf_str(&line)))
            fail_msg("no %s in\n%s", line.p, yaml.p);
        struct plan *p = NULL;
        const struct plan_options o = {0};
        assert_int_equal(plan_world_read(w, STR("made"), sbuf_str(&yaml), &err), 0);
        assert_int_equal(plan_why(w, STR("claim/gpu"), &o, &p, &err), 0);
        assert_true(plan_complete(p));
        plan_free(p);
        words_done(&words);
        plan_world_free(w);
    }
}

static void test_words_that_nothing_is_called_by(void **state)
{
    (void)state;
    struct plan_world *w = world(MODELS);
    cleanup_sbuf struct sbuf yaml = {0}, notes = {0};
    struct err err = {0};
    struct words words = {0};
    vec_push(&words.requests, (struct words_request){.word = STR("tpu")});
    assert_int_equal(make(w, &words, &yaml, &notes, &err), -ERR_NOT_FOUND);
    assert_string_equal(err.msg,
                        "nothing is called tpu; the classes are gpu.example.com, nic.example.com");
    words.requests.p[0].word = STR("nic");
    vec_push(&words.requests.p[0].conditions, (struct words_condition){STR("memory"), STR("1Gi")});
    assert_int_equal(make(w, &words, &yaml, &notes, &err), -ERR_NOT_FOUND);
    assert_string_equal(err.msg,
                        "devices of class nic.example.com have no memory; they have pcieRoot");
    words.requests.p[0].word = STR("gpu");
    words.requests.p[0].conditions.p[0].value = STR("much");
    assert_int_equal(make(w, &words, &yaml, &notes, &err), -ERR_INVALID);
    assert_int_equal(yaml.n, 0);
    words_done(&words);
    plan_world_free(w);
}

static void test_words_for_pods_and_shares(void **state)
{
    (void)state;
    struct plan_world *w = world(GPUS SHARED);
    cleanup_sbuf struct sbuf yaml = {0}, notes = {0};
    struct words words = {.kind = WORDS_POD, .name = STR("me"), .namespace = STR("team")};
    struct words_request r = {.word = STR("gpu.example.com")};
    vec_push(&r.conditions, (struct words_condition){STR("memory"), STR("5Gi")});
    vec_push(&words.requests, r);
    assert_int_equal(make(w, &words, &yaml, &notes, NULL), 0);
    assert_true(str_contains(sbuf_str(&yaml), STR("            memory: 5Gi\n")));
    assert_true(str_contains(sbuf_str(&yaml), STR("kind: Pod\n")));
    assert_true(str_contains(sbuf_str(&yaml), STR("resourceClaimTemplateName: me\n")));
    words_done(&words);
    plan_world_free(w);
}

// --- History -------------------------------------------------------------------------------------

static void test_history(void **state)
{
    (void)state;
    struct plan_world *w = world(
        GPUS NODE("n1") SLICE("n1", "{name: a, taints: [{key: k, effect: None, timeAdded: "
                                    "'2026-11-16T09:00:00Z'}]}, {name: b}") SLICE("n2", "{name: b}")
            HELD("x", "n1", "a",
                 "") "---\napiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: default}\n"
                     "involvedObject: {kind: Pod, namespace: default, name: p-x}\n"
                     "reason: FailedScheduling\nmessage: no room\nlastTimestamp: "
                     "'2026-11-16T10:00:05Z'\n");
    struct inventory *inv = inventory(w);
    struct past h = {0};
    struct err err = {0};
    assert_int_equal(past_find(inv, STR("a"), STR("default"), &h, &err), 0);
    assert_str(h.subject, "device gpu.example.com/n1/a");
    assert_int_equal(h.entries.n, 3);
    assert_str(h.entries.p[0].what, "tainted k:None");
    assert_str(h.entries.p[1].what, "claim x created");
    assert_str(h.entries.p[2].what, "Pod p-x: FailedScheduling: no room");
    assert_true(h.unknown.n > 0);
    past_done(&h);
    h = (struct past){0};
    assert_int_equal(past_find(inv, STR("claim/default/x"), STR("default"), &h, &err), 0);
    assert_str(h.subject, "claim default/x");
    past_done(&h);
    h = (struct past){0};
    assert_int_equal(past_find(inv, STR("b"), STR("default"), &h, &err), -ERR_INVALID);
    assert_int_equal(past_find(inv, STR("zz"), STR("default"), &h, &err), -ERR_NOT_FOUND);
    past_done(&h);
    inventory_free(inv);
    plan_world_free(w);
}

// --- Snapshots -----------------------------------------------------------------------------------

static void test_snapshot_reads_back_and_keeps_no_secret(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf first = {0}, second = {0};
    const struct snapshot_about about = {.server = STR("v1.37.1"), .taken = STR("2026-11-16")};
    struct plan_world *w = world(GPUS NODE("n1") SLICE("n1", "{name: a}") HELD("x", "n1", "a", "")
                                     POD("p-x", "n1") "---\napiVersion: v1\nkind: Secret\n"
                                                      "metadata: {name: s}\nstringData: {a: b}\n");
    snapshot_write(w, &about, &first);
    plan_world_free(w);
    assert_false(str_contains(sbuf_str(&first), STR("hunter2")));
    assert_false(str_contains(sbuf_str(&first), STR("PASSWORD")));
    assert_false(str_contains(sbuf_str(&first), STR("Secret")));
    w = world(first.p);
    snapshot_write(w, &about, &second);
    assert_str(sbuf_str(&second), first.p);
    struct inventory *inv = inventory(w);
    assert_int_equal(inv->devices[0].state, INVENTORY_HELD);
    inventory_free(inv);
    plan_world_free(w);
}

RUN_TESTS(TEST_CASE(test_states), TEST_CASE(test_only_the_newest_complete_generation_counts),
          TEST_CASE(test_partitions_block_each_other), TEST_CASE(test_shares_tell_what_is_left),
          TEST_CASE(test_holders), TEST_CASE(test_names), TEST_CASE(test_free_counts),
          TEST_CASE(test_free_knows_closed_nodes), TEST_CASE(test_free_uses_a_namespace_of_its_own),
          TEST_CASE(test_free_ends_in_time),
          TEST_CASE(test_free_asks_the_allocator_for_partitions_and_shares),
          TEST_CASE(test_free_counts_network_devices_once), TEST_CASE(test_topology),
          TEST_CASE(test_topology_folds_partitions), TEST_CASE(test_taint_tells_whom_it_evicts),
          TEST_CASE(test_a_plan_evicts_as_the_controller_does), TEST_CASE(test_taint_of_a_class),
          TEST_CASE(test_doctor), TEST_CASE(test_words_become_a_claim_that_fits),
          TEST_CASE(test_words_ask_for_a_share_that_fits),
          TEST_CASE(test_words_that_nothing_is_called_by),
          TEST_CASE(test_words_for_pods_and_shares), TEST_CASE(test_history),
          TEST_CASE(test_snapshot_reads_back_and_keeps_no_secret))
