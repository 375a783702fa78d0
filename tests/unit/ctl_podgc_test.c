// SPDX-License-Identifier: Apache-2.0
//
// Pods that nobody else removes. Each test is named for the rule.
#include "ctl_kubelet.h"

#include "base/banned.h"

#define TEST_POD_GC(name) TEST_WITH_CTLS(name, "", WITH(CTL_POD_GARBAGE))
#define NODE_JSON                                                                                 \
    "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":" \
    "\"True\"}]}}"

// is_gone says whether a pod is not there any more.
static bool is_gone(struct ctl_world *c, const char *pod)
{
    (void)do_get(c->w, POD(pod));
    return strcmp(reply_field(c->w, "metadata.name"), "-") == 0;
}

static void run_pod(struct ctl_world *c, const char *pod, const char *meta)
{
    const char *json =
        arena_strf(&c->w->arena, "{\"metadata\":{\"name\":\"%s\"%s},\"spec\":{" CONTAINERS "}}",
                   pod, meta)
            .p;
    assert_ok(do_create(c->w, POD(""), json));
    bind_pod(c, pod);
    make_ready(c, pod);
    settle(c);
}

#define HELD ",\"finalizers\":[\"example.com/look\"]"

static void let_go(struct ctl_world *c, const char *pod)
{
    assert_ok(
        do_patch(c->w, POD(pod), REGISTRY_PATCH_MERGE, "{\"metadata\":{\"finalizers\":null}}"));
}

TEST_POD_GC(pods_of_a_node_that_is_gone_fail_and_go_after_a_quarantine)
{
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    run_pod(c, "p", HELD);
    world_pass(c->w, 100);
    (void)do_get(c->w, POD("p"));
    assert_field(c->w, "status.phase", "Running");
    assert_ok(do_delete(c->w, NODE("n1"), NULL));
    world_pass(c->w, 39);
    (void)do_get(c->w, POD("p"));
    assert_field(c->w, "status.phase", "Running");
    world_pass(c->w, 2);
    (void)do_get(c->w, POD("p"));
    assert_field(c->w, "status.phase", "Failed");
    assert_field(c->w, "status.conditions[0].type", "DisruptionTarget");
    assert_field(c->w, "status.conditions[0].status", "True");
    assert_field(c->w, "status.conditions[0].reason", "DeletionByPodGC");
    assert_field(c->w, "status.conditions[0].message", "PodGC: node no longer exists");
    assert_field(c->w, "metadata.deletionGracePeriodSeconds", "0");
    let_go(c, "p");
    settle(c);
    assert_true(is_gone(c, "p"));
}

TEST_POD_GC(a_node_that_is_back_within_the_quarantine_keeps_its_pods)
{
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    run_pod(c, "p", "");
    assert_ok(do_delete(c->w, NODE("n1"), NULL));
    world_pass(c->w, 30);
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    world_pass(c->w, 30);
    (void)do_get(c->w, POD("p"));
    assert_field(c->w, "status.phase", "Running");
    // The next time counts from the start.
    assert_ok(do_delete(c->w, NODE("n1"), NULL));
    world_pass(c->w, 30);
    assert_false(is_gone(c, "p"));
    world_pass(c->w, 20);
    assert_true(is_gone(c, "p"));
}

TEST_POD_GC(pods_that_ended_on_a_node_that_is_gone_keep_their_phase_and_go)
{
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    run_pod(c, "p", HELD);
    end_pod(c, "p", "Succeeded");
    assert_ok(do_delete(c->w, NODE("n1"), NULL));
    world_pass(c->w, 60);
    (void)do_get(c->w, POD("p"));
    assert_field(c->w, "status.phase", "Succeeded");
    assert_field(c->w, "metadata.deletionGracePeriodSeconds", "0");
    let_go(c, "p");
}

TEST_POD_GC(a_pod_deleted_on_a_node_that_is_out_of_service_goes_at_once)
{
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    run_pod(c, "deleted", "");
    run_pod(c, "other", "");
    assert_ok(do_delete(c->w, POD("deleted"), NULL));
    world_pass(c->w, 100);
    assert_false(is_gone(c, "deleted")); // a node in service does it itself
    assert_ok(do_patch(c->w, NODE("n1"), REGISTRY_PATCH_MERGE,
                       "{\"spec\":{\"taints\":[{\"key\":\"node.kubernetes.io/out-of-service\","
                       "\"value\":\"nodeshutdown\",\"effect\":\"NoExecute\"}]}}"));
    settle(c);
    assert_false(is_gone(c, "deleted")); // it says that it is ready
    assert_ok(do_patch(c->w, (struct target){"v1", "Node", "status", "", "n1"},
                       REGISTRY_PATCH_STRATEGIC,
                       "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":"
                       "\"Unknown\"}]}}"));
    settle(c);
    assert_true(is_gone(c, "deleted"));
    assert_false(is_gone(c, "other"));
}

TEST_POD_GC(a_pod_deleted_before_it_was_bound_fails)
{
    assert_ok(do_create(c->w, POD(""),
                        "{\"metadata\":{\"name\":\"p\"" HELD "},\"spec\":{" CONTAINERS "}}"));
    world_pass(c->w, 100);
    (void)do_get(c->w, POD("p"));
    assert_field(c->w, "status.phase", "Pending");
    assert_ok(do_delete(c->w, POD("p"), NULL));
    settle(c);
    (void)do_get(c->w, POD("p"));
    assert_field(c->w, "status.phase", "Failed");
    let_go(c, "p");
    settle(c);
    assert_true(is_gone(c, "p"));
}

TEST_POD_GC(too_many_pods_that_are_over_lose_the_evicted_then_the_oldest)
{
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    static const char *const pods[] = {"e", "d", "c", "b", "a"};
    for (size_t i = 0; i < array_len(pods); i++) {
        run_pod(c, pods[i], "");
        world_pass(c->w, 10);
    }
    run_pod(c, "runs", "");
    end_pod(c, "e", "Succeeded");
    end_pod(c, "d", "Failed");
    set_pod_status(c, "c", "{\"phase\":\"Failed\",\"reason\":\"Evicted\"}");
    world_pass(c->w, 100);
    assert_false(is_gone(c, "e") || is_gone(c, "d") || is_gone(c, "c")); // three may stay
    end_pod(c, "b", "Succeeded");
    settle(c);
    assert_true(is_gone(c, "c"));
    assert_false(is_gone(c, "e") || is_gone(c, "d") || is_gone(c, "b"));
    end_pod(c, "a", "Succeeded");
    settle(c);
    assert_true(is_gone(c, "e"));
    assert_false(is_gone(c, "d") || is_gone(c, "b") || is_gone(c, "a") || is_gone(c, "runs"));
}

TEST_POD_GC(a_restart_begins_the_quarantine_again_and_misses_nothing)
{
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    run_pod(c, "p", "");
    assert_ok(do_delete(c->w, NODE("n1"), NULL));
    world_pass(c->w, 30);
    ctl_world_restart(c);
    world_pass(c->w, 30);
    assert_false(is_gone(c, "p"));
    world_pass(c->w, 15);
    assert_true(is_gone(c, "p"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_of_a_node_that_is_gone_fail_and_go_after_a_quarantine),
        cmocka_unit_test(a_node_that_is_back_within_the_quarantine_keeps_its_pods),
        cmocka_unit_test(pods_that_ended_on_a_node_that_is_gone_keep_their_phase_and_go),
        cmocka_unit_test(a_pod_deleted_on_a_node_that_is_out_of_service_goes_at_once),
        cmocka_unit_test(a_pod_deleted_before_it_was_bound_fails),
        cmocka_unit_test(too_many_pods_that_are_over_lose_the_evicted_then_the_oldest),
        cmocka_unit_test(a_restart_begins_the_quarantine_again_and_misses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
