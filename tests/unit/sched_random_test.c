// SPDX-License-Identifier: Apache-2.0
//
// Random histories: nodes, slices, rules, pods and claims come and go, two schedulers work, writes
// conflict, watches lag, schedulers stop and start. In the end no device is held twice, every cache
// is right, and no pod waits that would fit.
#include "sched_kit.h"

#include "base/banned.h"

#define NODES 4
#define PODS  12

static const struct str second_name = STR_INIT("second");

struct history {
    struct kit k;
    struct client *client2;
    struct sched *s2;
    bool node[NODES];
    bool pod[PODS];
    bool rule;
    unsigned made; // pods, for names that are not used twice
    unsigned number[PODS];
    size_t preempted;
};

static uint64_t dice(struct history *h, uint64_t n)
{
    return rng_below(&h->k.w.rng.rng, n);
}

static int sometimes(struct world *w, const char *verb, const struct api_kind *kind,
                     struct str name)
{
    (void)name;
    (void)kind;
    if (rng_below(&w->rng.rng, 12))
        return 0;
    if (strcmp(verb, "bind") == 0)
        return rng_below(&w->rng.rng, 2) ? -ERR_INTERNAL : -ERR_FORBIDDEN;
    return -ERR_CONFLICT;
}

static struct sched *second_new(struct history *h)
{
    struct sched *s = sched_new(
        &(struct sched_options){.client = h->client2, .names = &second_name, .names_len = 1});
    sched_start(s);
    return s;
}

static void change_node(struct history *h)
{
    static const char *const specs[] = {"", "", ",'spec':{'unschedulable':true}",
                                        ",'spec':{'taints':[{'key':'k','effect':'NoSchedule'}]}"};
    uint64_t i = dice(h, NODES);
    char name[8];
    (void)snprintf(name, sizeof(name), "n%u", (unsigned)i);
    if (h->node[i] && dice(h, 4) == 0) {
        world_delete(&h->k.w, "Node", name);
        h->node[i] = false;
        return;
    }
    kit_node(&h->k, name, specs[dice(h, array_len(specs))]);
    kit_gpus(&h->k, name, 1 + (int)dice(h, 4));
    h->node[i] = true;
}

static void change_rule(struct history *h)
{
    if (h->rule)
        world_delete(&h->k.w, "DeviceTaintRule", "r");
    else
        world_putf(&h->k.w,
                   "{'apiVersion':'resource.k8s.io/v1','kind':'DeviceTaintRule','metadata':{'name':"
                   "'r'},'spec':{'deviceSelector':{'pool':'n%u'},'taint':{'key':'k','effect':"
                   "'NoSchedule'}}}",
                   (unsigned)dice(h, NODES));
    h->rule = !h->rule;
}

#define CLAIM_PLAIN                                                                              \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'p%u',"        \
    "'namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':" \
    "'gpu','allocationMode':'ExactCount','count':1}}]}}}"

// What the claim controller does when a pod is gone.
static void drop_pod(struct history *h, size_t i)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "ns/p%u", h->number[i]);
    if (world_pod(&h->k.w, key))
        world_delete(&h->k.w, "Pod", key);
    world_putf(&h->k.w, CLAIM_PLAIN, h->number[i]);
    world_delete(&h->k.w, "ResourceClaim", key);
    h->pod[i] = false;
}

// Pods that a scheduler preempted leave their claims.
static size_t drop_preempted(struct history *h)
{
    size_t n = 0;
    for (size_t i = 0; i < PODS; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "ns/p%u", h->number[i]);
        if (!h->pod[i] || world_pod(&h->k.w, key))
            continue;
        drop_pod(h, i);
        n++;
    }
    return n;
}

static void change_pod(struct history *h)
{
    size_t i = dice(h, PODS);
    if (h->pod[i]) {
        drop_pod(h, i);
        return;
    }
    char name[16];
    h->number[i] = h->made++;
    (void)snprintf(name, sizeof(name), "p%u", h->number[i]);
    bool late = dice(h, 4) == 0;
    if (!late)
        kit_claim(&h->k, name, 1 + (int)dice(h, 2));
    world_putf(
        &h->k.w,
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'ns'},'spec':"
        "{'schedulerName':'%s','priority':%u,'containers':[{'name':'c','resources':"
        "{'requests':{'cpu':'%u'}}}],'resourceClaims':[{'name':'g','resourceClaimName':'%s'}]}}",
        name, dice(h, 3) ? "dray" : "second", (unsigned)dice(h, 3), (unsigned)dice(h, 3), name);
    if (late) {
        world_run(&h->k.w, (int64_t)dice(h, 20));
        kit_claim(&h->k, name, 1);
    }
    h->pod[i] = true;
}

static void restart(struct history *h)
{
    if (dice(h, 2)) {
        sched_free(h->s2);
        h->s2 = second_new(h);
        return;
    }
    sched_free(h->k.s);
    h->k.s = sched_new(&(struct sched_options){.client = h->k.client});
    sched_start(h->k.s);
}

static void step(struct history *h)
{
    h->preempted += drop_preempted(h);
    switch (dice(h, 12)) {
    case 0:
    case 1:
        change_node(h);
        break;
    case 2:
        change_rule(h);
        break;
    case 3:
        restart(h);
        break;
    case 4:
        world_lag(dice(h, 2) ? h->k.client : h->client2, "ResourceClaim");
        break;
    case 5:
        world_release(h->k.client);
        world_release(h->client2);
        break;
    default:
        change_pod(h);
        break;
    }
    if (dice(h, 3) == 0)
        world_run(&h->k.w, (int64_t)dice(h, 3000));
    for (uint64_t i = dice(h, 10); i > 0; i--)
        (void)exec_sim_step(h->k.w.sim);
}

static void judge(struct history *h, struct sched *s, struct str name, uint64_t seed)
{
    cleanup_sbuf struct sbuf problems = {0};
    if (!sched_check(s, &problems))
        fail_msg("seed %llu: %s", (unsigned long long)seed, problems.p);
    for (size_t i = 0; i < PODS; i++) {
        cleanup_sbuf struct sbuf json = {0};
        char key[24];
        struct err err;
        (void)snprintf(key, sizeof(key), "ns/p%u", h->number[i]);
        const struct api_pod *p = h->pod[i] ? world_pod(&h->k.w, key) : NULL;
        if (!p || p->spec.node_name.n || !str_eq(p->spec.scheduler_name, name))
            continue;
        assert_int_equal(sched_explain(s, STR("pod"), STR("ns"), p->metadata.name, &json, &err), 0);
        if (!kit_holds(sbuf_str(&json), "\"state\":\"unschedulable\"") ||
            kit_holds(sbuf_str(&json), "\"would fit\""))
            fail_msg("seed %llu: pod %s waits: %s", (unsigned long long)seed, key, json.p);
    }
}

static void random_histories_end_well(void **state)
{
    (void)state;
    uint64_t bound = 0;
    uint64_t gave_way = 0;
    uint64_t errors = 0;
    uint64_t preempted = 0;
    const char *more = getenv("SCHED_SEEDS"); // how many
    int64_t seeds = 150;
    if (more)
        assert_int_equal(str_to_i64(str_z(more), &seeds), 0);
    for (uint64_t seed = 1; seed <= (uint64_t)seeds; seed++) {
        struct history h = {0};
        kit_start(&h.k);
        rng_seeded_init(&h.k.w.rng, seed);
        h.client2 = world_client(&h.k.w);
        h.s2 = second_new(&h);
        h.k.w.refuse = sometimes;
        for (int i = 0; i < 60; i++)
            step(&h);
        h.k.w.refuse = NULL;
        world_release(h.k.client);
        world_release(h.client2);
        do
            world_run(&h.k.w, 120000);
        while (drop_preempted(&h));
        preempted += h.preempted;
        judge(&h, h.k.s, STR("dray"), seed);
        judge(&h, h.s2, second_name, seed);
        struct sched_stats one = kit_stats(&h.k);
        struct sched_stats two;
        sched_get_stats(h.s2, &two);
        bound += one.bound + two.bound;
        gave_way += one.gave_way + two.gave_way;
        errors += one.errors + two.errors;
        world_sound(&h.k.w);
        sched_free(h.s2);
        kit_end(&h.k);
    }
    // Something did happen.
    print_message("%llu bound, %llu gave way, %llu errors, %llu preempted\n",
                  (unsigned long long)bound, (unsigned long long)gave_way,
                  (unsigned long long)errors, (unsigned long long)preempted);
    assert_true(bound > 400 && gave_way > 0 && errors > 0 && preempted > 0);
}

RUN_TESTS(TEST_CASE(random_histories_end_well))
