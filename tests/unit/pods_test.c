// SPDX-License-Identifier: Apache-2.0
//
// The life of pods on a node: order of containers, restarts, probes, ends; what the API is told. A machine in
// memory, a fake clock.
#include "pods_world.h"

#include "base/banned.h"

TEST_WITH_PODS(a_pod_runs_and_its_status_says_so)
{
    assert_ok(do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    assert_int_equal(fake_running(&p->machine), 1);
    assert_pod(p, "a", "status.phase", "Running");
    assert_pod(p, "a", "status.podIP", "10.0.0.1");
    assert_pod(p, "a", "status.podIPs", "[{\"ip\":\"10.0.0.1\"}]");
    assert_pod(p, "a", "status.hostIP", "192.0.2.1");
    assert_pod(p, "a", "status.qosClass", "BestEffort");
    assert_pod(p, "a", "status.observedGeneration", "1");
    assert_pod(p, "a", "status.startTime", "2027-01-15T08:00:00Z");
    assert_pod(p, "a", "status.containerStatuses[0].ready", "true");
    assert_pod(p, "a", "status.containerStatuses[0].started", "true");
    assert_pod(p, "a", "status.containerStatuses[0].restartCount", "0");
    assert_pod(p, "a", "status.containerStatuses[0].imageID", "sha256:feed");
    assert_pod(p, "a", "status.containerStatuses[0].state.running.startedAt",
               "2027-01-15T08:00:00Z");
    const char *conditions = pods_world_field(p, "a", "status.conditions");
    assert_non_null(strstr(conditions, "\"type\":\"Ready\""));
    assert_null(strstr(conditions, "\"status\":\"False\""));
    pods_world_expect_event(p, "Pulled|Container image \"busybox:1\" already present on machine\n");
    pods_world_expect_event(p, "Created|Container created\n");
    pods_world_expect_event(p, "Started|Container started\n");
}

TEST_WITH_PODS(a_deleted_pod_stops_and_is_let_go)
{
    assert_ok(do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 2);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
    assert_int_equal(p->machine.containers.n, 0);
    assert_int_equal(p->machine.sandboxes.n, 0);
    assert_int_equal(pods_len(p->pods), 0);
    pods_world_expect_event(p, "Killing|Stopping container c\n");
}

RUN_TESTS(TEST_CASE(a_pod_runs_and_its_status_says_so),
          TEST_CASE(a_deleted_pod_stops_and_is_let_go))
