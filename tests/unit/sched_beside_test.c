// SPDX-License-Identifier: Apache-2.0
//
// A scheduler that stands by, and one beside another that gives away the same devices.
#include "sched_kit.h"

#include "base/banned.h"

static void who_stands_by_writes_nothing_and_is_ready_at_once(void **state)
{
    (void)state;
    struct kit k;
    kit_start_with(&k, (struct sched_options){.standby = true});
    kit_node(&k, "n", "");
    kit_gpus(&k, "n", 2);
    kit_gpu_pod(&k, "a", 1);
    kit_gpu_pod(&k, "b", 3); // fits nowhere
    kit_pod(&k, "c", "'resourceClaims':[{'name':'g','resourceClaimName':'missing'}]"); // gated
    world_run(&k.w, 60000);
    assert_true(sched_synced(k.s) && !sched_idle(k.s));
    assert_int_equal(kit_stats(&k).attempts, 0);
    assert_int_equal(world_node_of(&k.w, "ns/a").n, 0);
    assert_int_equal(world_condition(&k.w, "ns/b").n + world_condition(&k.w, "ns/c").n, 0);
    sched_lead(k.s);
    world_run(&k.w, 100);
    kit_on(&k, "ns/a", "n");
    kit_told(&k, "ns/b", "0/1 nodes");
    world_run(&k.w, 15000);
    kit_told(&k, "ns/c", "missing");
    kit_end(&k);
}

#define GIVEN_UP ",'status':{'conditions':[{'type':'PodScheduled','status':'False'}]}"

static void foreign_pod(struct kit *k, const char *name, const char *status)
{
    world_putf(&k->w,
               "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'ns'},'spec':"
               "{'schedulerName':'default-scheduler','containers':[{'name':'c','image':'i'}],"
               "'resourceClaims':[{'name':'g','resourceClaimName':'theirs'}]}%s}",
               name, status);
}

static void start_beside(struct kit *k)
{
    kit_start_with(k, (struct sched_options){.settle_ns = 250 * CLOCK_NS_PER_MS});
    kit_node(k, "n", "");
    kit_gpus(k, "n", 4);
}

static void the_field_is_left_to_others_while_they_try(void **state)
{
    (void)state;
    struct kit k;
    start_beside(&k);
    kit_claim(&k, "theirs", 1);
    foreign_pod(&k, "f", "");
    kit_gpu_pod(&k, "p", 1);
    kit_pod(&k, "plain", "");
    world_run(&k.w, 3000);
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    foreign_pod(&k, "f", GIVEN_UP);
    world_run(&k.w, 240);
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    world_run(&k.w, 3000);
    kit_on(&k, "ns/p", "n");
    kit_on(&k, "ns/plain", "n");
    kit_end(&k);
}

static void others_that_have_given_up_are_not_waited_for(void **state)
{
    (void)state;
    struct kit k;
    start_beside(&k);
    kit_claim(&k, "theirs", 1);
    foreign_pod(&k, "f", GIVEN_UP);
    kit_gpu_pod(&k, "p", 1);
    world_run(&k.w, 100);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

static void after_ten_seconds_it_is_our_turn(void **state)
{
    (void)state;
    struct kit k;
    start_beside(&k);
    kit_claim(&k, "theirs", 1);
    foreign_pod(&k, "f", "");
    kit_gpu_pod(&k, "p", 1);
    world_run(&k.w, 9000);
    assert_int_equal(world_node_of(&k.w, "ns/p").n, 0);
    world_run(&k.w, 2000);
    kit_on(&k, "ns/p", "n");
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(who_stands_by_writes_nothing_and_is_ready_at_once),
          TEST_CASE(the_field_is_left_to_others_while_they_try),
          TEST_CASE(others_that_have_given_up_are_not_waited_for),
          TEST_CASE(after_ten_seconds_it_is_our_turn))
