// SPDX-License-Identifier: Apache-2.0
//
// Replays of small traces whose answers can be counted by hand, and files that cannot be read.
#include "alloc/search/search_int.h"
#include "base/rand.h"
#include "plan/replay/replay_mig_int.h"
#include "unit.h"

#include "base/banned.h"

#define NODES                             \
    "sn,cpu_milli,memory_mib,gpu,model\n" \
    "n0,64000,262144,2,A\n"               \
    "n1,64000,262144,2,B\n"               \
    "n2,128000,786432,8,B\n"
#define PODS                                                 \
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" \
    "half,1000,1024,1,500,\n"                                \
    "whole,1000,1024,1,1000,A\n"                             \
    "eight,8000,1024,8,1000,\n"                              \
    "cpu,1000,1024,0,0,\n"                                   \
    "both,1000,1024,1,500,A|B\n"

static int read_all(struct replay_trace *t, const char *nodes, const char *pods,
                    const char *arrivals, const char *order, struct err *err)
{
    const char *const texts[] = {nodes, pods, arrivals, order};
    const enum replay_file files[] = {REPLAY_NODES, REPLAY_PODS, REPLAY_ARRIVALS, REPLAY_ORDER};
    int r = 0;
    for (size_t i = 0; r == 0 && i < array_len(texts); i++)
        if (texts[i])
            r = replay_read(t, files[i], str_z(texts[i]), err);
    return r < 0 ? r : replay_ready(t, err);
}

static struct replay_result run(const char *arrivals, enum replay_policy policy, bool nothing)
{
    struct replay_trace *t = replay_new();
    struct replay_result result;
    struct err err = {0};
    struct replay_options o = {.policy = policy,
                               .knowledge = nothing ? REPLAY_KNOW_NOTHING : REPLAY_KNOW_PODS,
                               .clock = clock_system(),
                               .check = true};
    if (read_all(t, NODES, PODS, arrivals, "1 3 0 1 2\n", &err) < 0)
        fail_msg("%zu: %s", err.line, err.msg);
    if (replay_run(t, &o, 0, &result, &err) < 0)
        fail_msg("%s", err.msg);
    replay_free(t);
    return result;
}

static const enum replay_policy all[] = {REPLAY_PACK, REPLAY_WHOLE, REPLAY_FIRST, REPLAY_BESTFIT,
                                         REPLAY_FGD};

static void pods_get_what_they_ask_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_len(all); i++) {
        // Four halves and a cpu, then eight: 12 GPUs are there.
        struct replay_result r = run("1 5 0 4 3 1 2\n", all[i], false);
        assert_true(r.pods >= 4);
        assert_int_equal(r.seed, 1);
        // All pods of the list: eight whole ones and two more, on servers of eight.
        assert_int_equal((int)r.gpus_to_buy, 16);
    }
}

static void models_are_respected(void **state)
{
    (void)state;
    // Only the two GPUs of n0 are of model A.
    for (size_t i = 0; i < array_len(all); i++) {
        struct replay_result r = run("1 3 1 1 1\n", all[i], false);
        assert_int_equal((int)r.pods, 2);
        assert_true(r.first_rejection > 24.9 && r.first_rejection < 25.1);
    }
}

static void whole_gpus_are_not_shared(void **state)
{
    (void)state;
    // 24 halves are twelve GPUs; given whole, only twelve fit.
    const char *halves = "1 24 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    struct replay_result parts = run(halves, REPLAY_FIRST, false);
    struct replay_result whole = run(halves, REPLAY_WHOLE, false);
    assert_int_equal((int)parts.pods, 24);
    assert_int_equal((int)whole.pods, 12);
    assert_true(parts.allocated100 > 99.9);
    assert_true(whole.allocated100 < 50.1);
}

static void pack_keeps_the_large_node_for_the_large_pod(void **state)
{
    (void)state;
    for (int nothing = 0; nothing < 2; nothing++) {
        struct replay_result r = run("1 6 0 0 4 0 3 2\n", REPLAY_PACK, nothing);
        assert_int_equal((int)r.pods, 6);
    }
    // kube-scheduler spreads, and has no place left for it.
    struct replay_result r = run("1 6 0 0 4 0 3 2\n", REPLAY_FIRST, false);
    assert_int_equal((int)r.pods, 5);
}

static void the_same_trace_has_the_same_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_len(all); i++) {
        const char *line = "1 12 0 1 4 3 0 0 2 1 0 4 4 0\n";
        struct replay_result a = run(line, all[i], false);
        struct replay_result b = run(line, all[i], false);
        a.decisions_per_second = b.decisions_per_second = 0;
        assert_memory_equal(&a, &b, sizeof(a));
    }
}

static void other_forms_of_lists_are_read(void **state)
{
    (void)state;
    struct replay_trace *t = replay_new();
    struct err err = {0};
    struct replay_result r;
    struct replay_options o = {.policy = REPLAY_FGD, .clock = clock_system()};
    // Other columns, another order, quotes, CRLF, no gpu_spec, empty lines, no order.
    const char *pods = "\xEF\xBB\xBFqos,gpu_milli,num_gpu,name,memory_mib,cpu_milli\r\n"
                       "\"LS\",1000,1,\"a,b\",1024,1000\r\n\r\nBE,500,1,c,1024.0,1000\r\n";
    if (read_all(t, NODES, pods, "7 2 0 1\r\n", NULL, &err) < 0)
        fail_msg("%zu: %s", err.line, err.msg);
    assert_int_equal(replay_seed(t, 0), 7);
    assert_int_equal(replay_run(t, &o, 0, &r, &err), 0);
    assert_int_equal((int)r.pods, 2);
    replay_free(t);
}

static void mistakes_are_told_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *nodes, *pods, *arrivals, *order;
        size_t line;
        const char *says;
    } cases[] = {
        {"", NULL, NULL, NULL, 1, "empty"},
        {"sn,cpu_milli\n", NULL, NULL, NULL, 1, "memory_mib"},
        {"sn,cpu_milli,memory_mib,gpu,model\n", NULL, NULL, NULL, 1, "no node"},
        {"sn,cpu_milli,memory_mib,gpu,model\nn,1,1,99,A\n", NULL, NULL, NULL, 2, "gpu is"},
        {"sn,cpu_milli,memory_mib,gpu,model\nn,x,1,1,A\n", NULL, NULL, NULL, 2, "cpu_milli"},
        {"sn,cpu_milli,memory_mib,gpu,model\n\nn,1,1,\n", NULL, NULL, NULL, 3, "gpu is missing"},
        {"sn,cpu_milli,memory_mib,gpu,model\n\"n,1,1,1,A\n", NULL, NULL, NULL, 2, "quotes"},
        {NODES, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,0\n", NULL, NULL, 2,
         "gpu_milli is 0"},
        {NODES, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1001\n", NULL, NULL, 2,
         "1001"},
        {NODES, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,-1,1,1\n", NULL, NULL, 2, "-1"},
        {NODES, PODS, "1 2 0\n", NULL, 1, "number 2 is missing"},
        {NODES, PODS, "1 1 0 0\n", NULL, 1, "more follow"},
        {NODES, PODS, "1 1 0\n2 1 5\n", NULL, 2, "there are 5"},
        {NODES, PODS, "1 1 0\n1 1 0\n", NULL, 2, "already"},
        {NODES, PODS, "one 1 0\n", NULL, 1, "begins with its seed"},
        {NODES, PODS, "1 1 0\n", "1 1 3\n", 1, "there are 3"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct replay_trace *t = replay_new();
        struct err err = {0};
        int r = read_all(t, cases[i].nodes, cases[i].pods, cases[i].arrivals, cases[i].order, &err);
        assert_true(r < 0);
        if (!str_contains(str_z(err.msg), str_z(cases[i].says)) || err.line != cases[i].line)
            fail_msg("case %zu: line %zu: %s", i, err.line, err.msg);
        replay_free(t);
    }
}

// --- Partitions ----------------------------------------------------------------------------------

static struct mig_result run_mig(enum mig_policy policy, const char *gpu, const char *mix)
{
    struct mig_options o = {.policy = policy,
                            .gpu = str_z(gpu),
                            .mix = str_z(mix),
                            .gpus = 16,
                            .load = 100,
                            .claims = 300,
                            .clock = clock_system(),
                            .check = true};
    struct mig_result r;
    struct err err = {0};
    assert_null(replay_mig_check_options(&o));
    if (replay_mig_run(&o, 7, &r, &err) < 0)
        fail_msg("%s", err.msg);
    return r;
}

static void partitions_come_and_go(void **state)
{
    (void)state;
    for (int p = MIG_PACK; p <= MIG_MFI; p++) {
        struct mig_result r =
            run_mig((enum mig_policy)p, p == MIG_FIRST ? "h100" : "a100", "small");
        struct mig_result again =
            run_mig((enum mig_policy)p, p == MIG_FIRST ? "h100" : "a100", "small");
        assert_true(r.acceptance > 50 && r.acceptance <= 100);
        assert_true(r.allocated > 50 && r.allocated <= 100);
        assert_true(r.first_rejection > 50 && r.first_rejection <= 100);
        assert_true(r.gpus_needed >= 16);
        assert_true(r.acceptance == again.acceptance && r.gpus_needed == again.gpus_needed);
    }
}

static void options_of_partitions_are_judged(void **state)
{
    (void)state;
    const struct mig_options good = {
        .gpu = STR("a100"), .mix = STR("large"), .gpus = 8, .load = 90, .claims = 100};
    struct mig_options o = good;
    enum mig_policy policy;
    assert_null(replay_mig_check_options(&o));
    o.gpu = STR("b100");
    assert_non_null(replay_mig_check_options(&o));
    o = good;
    o.mix = STR("any");
    assert_non_null(replay_mig_check_options(&o));
    o = good;
    o.gpus = 0;
    assert_non_null(replay_mig_check_options(&o));
    o.gpus = 12;
    assert_non_null(replay_mig_check_options(&o));
    o = good;
    o.load = 0;
    assert_non_null(replay_mig_check_options(&o));
    o = good;
    o.claims = 0;
    assert_non_null(replay_mig_check_options(&o));
    assert_true(replay_mig_parse_policy(STR("mfi"), &policy) && policy == MIG_MFI);
    assert_false(replay_mig_parse_policy(STR("fgd"), &policy));
}

// --- Views ---------------------------------------------------------------------------------------

static void assert_same_view(const struct alloc_view *a, const struct alloc_view *b)
{
    assert_int_equal(a->devices_len, b->devices_len);
    assert_int_equal(a->any_set_begun, b->any_set_begun);
    for (size_t i = 0; i < a->counters.n; i++)
        assert_true(a->counters.available[i] == b->counters.available[i]);
    for (size_t i = 0; i < a->places.n; i++)
        assert_int_equal(a->places.free[i], b->places.free[i]);
    for (size_t i = 0; i < a->sets_len; i++) {
        assert_int_equal(a->sets_now[i].fits, b->sets_now[i].fits);
        assert_int_equal(a->sets_now[i].begun, b->sets_now[i].begun);
        assert_int_equal(a->groups[i].mask, b->groups[i].mask);
        assert_int_equal(a->groups[i].members, b->groups[i].members);
    }
    for (size_t i = 0; i < a->devices_len; i++) {
        assert_int_equal(a->devices[i].exclusive_use, b->devices[i].exclusive_use);
        assert_ptr_equal(a->devices[i].cl, b->devices[i].cl);
        assert_int_equal(a->ranks[i].excludes, b->ranks[i].excludes);
        assert_int_equal(a->ranks[i].weight, b->ranks[i].weight);
        assert_int_equal(a->seats[i].device, b->seats[i].device);
        assert_int_equal(a->seats[i].key, b->seats[i].key);
        assert_int_equal(a->seats[i].pack_one, b->seats[i].pack_one);
    }
    for (size_t i = 0; i < a->pools_len; i++) {
        assert_int_equal(a->pools[i].overdrawn, b->pools[i].overdrawn);
        assert_int_equal(a->pools[i].begun_free, b->pools[i].begun_free);
        assert_int_equal(a->pools[i].largest_place, b->pools[i].largest_place);
    }
}

// Any devices, even such that cannot be had together: a view must cope.
static void use_any(struct world_node *n, struct rng *rng)
{
    const struct alloc_view *v = n->view;
    n->uses.n = 0;
    for (uint64_t left = rng_below(rng, 12); left > 0; left--) {
        const struct vw_device *d = &v->devices[rng_below(rng, v->devices_len)];
        vec_push(&n->uses,
                 (struct alloc_use){.id = {d->cl->slice->spec.driver, d->cl->slice->spec.pool.name,
                                           d->cl->api->name},
                                    .exclusive = true,
                                    .owner = STR("some")});
    }
}

static void an_updated_view_is_like_a_new_one(void **state)
{
    (void)state;
    struct err err = {0};
    struct rng_seeded rng;
    rng_seeded_init(&rng, 11);
    struct replay_world *w = replay_mig_new_world();
    assert_int_equal(replay_mig_add_node(w, replay_mig_find_gpu(STR("a100")), &err), 0);
    struct world_node *n = &w->nodes.p[0];
    for (int round = 0; round < 40; round++) {
        struct alloc_view *fresh = NULL;
        use_any(n, &rng.rng);
        struct alloc_cluster *old = n->state;
        n->state = alloc_cluster_in_use(n->base, &(struct alloc_input){.uses = n->uses.p,
                                                                       .uses_len = n->uses.n});
        assert_true(alloc_view_update(n->view, n->state));
        alloc_cluster_free(old);
        assert_int_equal(alloc_view_new(n->state, n->node, &fresh, &err), 0);
        assert_same_view(n->view, fresh);
        alloc_view_free(fresh);
    }
    replay_world_free(w);
}

static void a_view_of_other_slices_is_left_alone(void **state)
{
    (void)state;
    struct err err = {0};
    struct replay_world *w = replay_mig_new_world();
    assert_int_equal(replay_mig_add_node(w, replay_mig_find_gpu(STR("a100")), &err), 0);
    assert_int_equal(replay_mig_add_node(w, replay_mig_find_gpu(STR("h100")), &err), 0);
    assert_false(alloc_view_update(w->nodes.p[0].view, w->nodes.p[1].state));
    assert_ptr_equal(w->nodes.p[0].view->cluster, w->nodes.p[0].state);
    replay_world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_get_what_they_ask_for),
        cmocka_unit_test(models_are_respected),
        cmocka_unit_test(whole_gpus_are_not_shared),
        cmocka_unit_test(pack_keeps_the_large_node_for_the_large_pod),
        cmocka_unit_test(the_same_trace_has_the_same_answer),
        cmocka_unit_test(other_forms_of_lists_are_read),
        cmocka_unit_test(mistakes_are_told_with_their_line),
        cmocka_unit_test(partitions_come_and_go),
        cmocka_unit_test(options_of_partitions_are_judged),
        cmocka_unit_test(an_updated_view_is_like_a_new_one),
        cmocka_unit_test(a_view_of_other_slices_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
