// SPDX-License-Identifier: Apache-2.0
//
// The life of pods on a node: order of containers, restarts, probes, ends; what the API is told. A machine in
// memory, a fake clock.
#include <dirent.h>
#include <fcntl.h>

#include <sys/stat.h>

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

#define EXITS(name, code, ms)                                                                      \
    "{\"name\":\"" name "\",\"image\":\"busybox:1\",\"command\":[\"exit\",\"" code "\",\"" ms "\"" \
    "]}"

TEST_WITH_PODS(init_containers_come_one_after_the_other_and_sidecars_stay)
{
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON(
            "a", "\"initContainers\":[" EXITS("i1", "0", "1000") "," RUNNING(
                     "side",
                     ",\"restartPolicy\":\"Always\"") "," EXITS("i2", "0",
                                                                "1000") "],\"containers\":"
                                                                        "[" RUNNING("c", "") "]")));
    world_run(p->w);
    assert_int_equal(p->machine.containers.n, 1);
    assert_pod(p, "a", "status.phase", "Pending");
    assert_pod(p, "a", "status.containerStatuses[0].state.waiting.reason", "PodInitializing");
    world_pass(p->w, 1);
    assert_int_equal(p->machine.containers.n, 3); // the sidecar is up, i2 runs
    assert_pod(p, "a", "status.phase", "Pending");
    world_pass(p->w, 2);
    assert_int_equal(fake_running(&p->machine), 2);
    assert_pod(p, "a", "status.phase", "Running");
    assert_pod(p, "a", "status.initContainerStatuses[0].state.terminated.reason", "Completed");
    assert_pod(p, "a", "status.initContainerStatuses[0].ready", "true");
    assert_pod(p, "a", "status.initContainerStatuses[1].ready", "true");
    // The sidecar ends last.
    sbuf_clear(&p->machine.log);
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 1);
    assert_non_null(strstr(p->machine.log.p, "stop c\nstop side\n"));
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
}

TEST_WITH_PODS(an_init_container_that_fails_for_good_fails_the_pod)
{
    assert_ok(
        do_create(p->w, POD("a"),
                  PODS_JSON("a", "\"restartPolicy\":\"Never\",\"initContainers\":[" EXITS(
                                     "i", "3", "10") "],\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    assert_pod(p, "a", "status.phase", "Failed");
    assert_pod(p, "a", "status.initContainerStatuses[0].state.terminated.exitCode", "3");
    assert_null(fake_find(&p->machine, "c"));
}

TEST_WITH_PODS(a_pod_that_is_done_is_over)
{
    assert_ok(do_create(p->w, POD("a"),
                        PODS_JSON("a", "\"restartPolicy\":\"Never\",\"containers\":[" EXITS(
                                           "c", "0", "100") "," EXITS("d", "0", "200") "]")));
    world_pass(p->w, 1);
    assert_pod(p, "a", "status.phase", "Succeeded");
    assert_int_equal(p->machine.containers.n, 2); // for their logs
    assert_false(p->machine.sandboxes.p[0]->ready);
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 1);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
    assert_int_equal(p->machine.containers.n, 0);
    assert_int_equal(p->machine.sandboxes.n, 0);
}

TEST_WITH_PODS(crashes_are_backed_off_from)
{
    assert_ok(
        do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" EXITS("c", "1", "10") "]")));
    world_pass(p->w, 1); // the first restart comes at once
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 1);
    assert_pod(p, "a", "status.containerStatuses[0].state.waiting.reason", "CrashLoopBackOff");
    assert_pod(p, "a", "status.containerStatuses[0].lastState.terminated.reason", "Error");
    assert_pod(p, "a", "status.phase", "Running");
    pods_world_expect_event(p, "BackOff|Back-off restarting failed container c in pod a_default(");
    const char *text =
        pods_world_field(p, "a", "status.containerStatuses[0].state.waiting.message");
    assert_non_null(strstr(text, "back-off 10s restarting failed container=c pod=a_default("));
    world_pass(p->w, 11);
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 2);
    assert_int_equal(p->machine.containers.n, 2); // the last two are kept
    world_pass(p->w, 17);
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 2);
    world_pass(p->w, 3);
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 3);
    world_pass(p->w, 3600); // five minutes at most
    uint32_t then = fake_find(&p->machine, "c")->attempt;
    world_pass(p->w, 3000);
    assert_in_range(fake_find(&p->machine, "c")->attempt - then, 9, 11);
    assert_pod(p, "a", "status.containerStatuses[0].ready", "false");
}

TEST_WITH_PODS(a_clock_that_is_set_back_starts_nothing_twice)
{
    assert_ok(
        do_create(p->w, POD("a"),
                  PODS_JSON("a", "\"containers\":[{\"name\":\"n\",\"image\":\"none:1\",\"command\":"
                                 "[\"run\"]}]")));
    world_pass(p->w, 1);
    assert_int_equal(fake_running(&p->machine), 0);
    p->w->clock.wall -= INT64_C(3600) * CLOCK_NS_PER_SEC; // after its namespaces were made
    p->machine.registry = "none:1";
    world_pass(p->w, 60);
    assert_int_equal(fake_running(&p->machine), 1);
    assert_int_equal(fake_find(&p->machine, "n")->attempt, 0);
    assert_pod(p, "a", "status.phase", "Running");
}

TEST_WITH_PODS(a_clock_that_is_set_back_does_not_prolong_the_pause_after_a_crash)
{
    assert_ok(
        do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" EXITS("c", "1", "10") "]")));
    world_pass(p->w, 1);
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 1);
    p->w->clock.wall -= INT64_C(3600) * CLOCK_NS_PER_SEC;
    world_pass(p->w, 12);
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 2);
    world_pass(p->w, 12); // the next pause is twice as long, as ever
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 2);
    world_pass(p->w, 12);
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 3);
}

// log_file is the path of a file in the folder of logs of the container c of pod a, which is made.
static const char *log_file(struct pods_world *p, const char *name)
{
    const char *uid = pods_world_field(p, "a", "metadata.uid");
    struct str pod = arena_strf(&p->w->arena, "%s/default_a_%s", p->dir, uid);
    struct str folder = arena_strf(&p->w->arena, "%.*s/c", STR_ARG(pod));
    (void)mkdir(pod.p, 0755);
    (void)mkdir(folder.p, 0755);
    return arena_strf(&p->w->arena, "%.*s/%s", STR_ARG(folder), name).p;
}

static void write_log(struct pods_world *p, const char *name, off_t bytes)
{
    int fd = open(log_file(p, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    assert_true(fd >= 0 && ftruncate(fd, bytes) == 0);
    (void)close(fd);
}

// How many logs of the first run were moved away.
static int moved_logs(struct pods_world *p)
{
    int n = 0;
    DIR *d = opendir(log_file(p, ""));
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) // NOLINT(concurrency-mt-unsafe): one thread
        n += strncmp(e->d_name, "0.log.2027", 10) == 0;
    (void)closedir(d);
    return n;
}

TEST_WITH_PODS(logs_that_become_large_are_begun_anew)
{
    struct stat st;
    assert_ok(do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 10);
    write_log(p, "0.log", 1024 * 1024);
    world_pass(p->w, 20);
    assert_int_equal(stat(log_file(p, "0.log"), &st), 0);
    assert_int_equal(st.st_size, 1024 * 1024);
    for (int i = 0; i < 8; i++) {
        write_log(p, "0.log", 11 * 1024 * 1024);
        world_pass(p->w, 60);
        assert_int_equal(stat(log_file(p, "0.log"), &st), 0);
        assert_int_equal(st.st_size, 0);
    }
    assert_int_equal(moved_logs(p), 4);
}

TEST_WITH_PODS(logs_go_with_the_runs_they_are_of)
{
    struct stat st;
    assert_ok(
        do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" EXITS("c", "1", "10") "]")));
    write_log(p, "0.log", 1);
    write_log(p, "0.log.20270115-080000", 1);
    write_log(p, "1.log", 1);
    world_pass(p->w, 1);
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 1);
    assert_int_equal(stat(log_file(p, "0.log"), &st), 0); // people may ask for the one before
    world_pass(p->w, 12);
    assert_int_equal(fake_find(&p->machine, "c")->attempt, 2);
    assert_int_not_equal(stat(log_file(p, "0.log"), &st), 0);
    assert_int_not_equal(stat(log_file(p, "0.log.20270115-080000"), &st), 0);
    assert_int_equal(stat(log_file(p, "1.log"), &st), 0);
}

TEST_WITH_PODS(images_that_cannot_be_had)
{
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON("a", "\"containers\":[{\"name\":\"n\",\"image\":\"none:1\"},{\"name\":\"o\","
                       "\"image\":\"none:1\",\"imagePullPolicy\":\"Never\"},{\"name\":\"b\","
                       "\"image\":\"Bad Name\"}," RUNNING("c", "") "]")));
    world_run(p->w);
    assert_int_equal(fake_running(&p->machine), 1); // others do not wait for them
    assert_pod(p, "a", "status.containerStatuses[0].state.waiting.reason", "ErrImagePull");
    assert_pod(p, "a", "status.containerStatuses[1].state.waiting.reason", "ErrImageNeverPull");
    assert_pod(p, "a", "status.containerStatuses[2].state.waiting.reason", "InvalidImageName");
    assert_pod(p, "a", "status.phase", "Pending");
    pods_world_expect_event(p, "Pulling|Pulling image \"none:1\"\n");
    pods_world_expect_event(p, "Failed|Failed to pull image \"none:1\": not found\n");
    pods_world_expect_event(p, "Failed|Error: ErrImagePull\n");
    world_pass(p->w, 2);
    assert_pod(p, "a", "status.containerStatuses[0].state.waiting.reason", "ImagePullBackOff");
    pods_world_expect_event(p, "BackOff|Back-off pulling image \"none:1\"\n");
    p->machine.registry = "none:1";
    world_pass(p->w, 20);
    assert_int_equal(fake_find(&p->machine, "n")->state, RUNTIME_RUNNING);
    // The pod can be deleted although one image never comes.
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 1);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
}

TEST_WITH_PODS(a_container_that_cannot_start_crashes)
{
    assert_ok(
        do_create(p->w, POD("a"),
                  PODS_JSON("a", "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\","
                                 "\"image\":\"busybox:1\",\"command\":[\"nostart\"]}]")));
    world_pass(p->w, 1);
    assert_pod(p, "a", "status.phase", "Failed");
    assert_pod(p, "a", "status.containerStatuses[0].state.terminated.reason", "StartError");
    assert_pod(p, "a", "status.containerStatuses[0].state.terminated.exitCode", "128");
}

#define PROBE(kind, what, more) \
    "\"" kind "\":{\"exec\":{\"command\":[\"check\",\"" what "\"]}" more "}"

TEST_WITH_PODS(probes_gate_and_restart)
{
    p->machine.good = "live";
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON(
            "a",
            "\"containers\":[" RUNNING(
                "c",
                "," PROBE("startupProbe", "up", ",\"periodSeconds\":1,\"failureThreshold\":60") "," PROBE(
                    "livenessProbe", "live",
                    ",\"periodSeconds\":2") "," PROBE("readinessProbe", "ready",
                                                      ",\"periodSeconds\":1,\"successThreshold\":2,"
                                                      "\"failureThreshold\":1")) "]")));
    world_pass(p->w, 5);
    assert_pod(p, "a", "status.containerStatuses[0].started", "false");
    assert_null(strstr(p->machine.log.p, "check live")); // not before it has started
    pods_world_expect_event(p, "Unhealthy|Startup probe failed: no good\n");
    p->machine.good = "live up";
    world_pass(p->w, 3);
    assert_pod(p, "a", "status.containerStatuses[0].started", "true");
    assert_pod(p, "a", "status.containerStatuses[0].ready", "false");
    assert_pod(p, "a", "status.phase", "Running");
    p->machine.good = "live up ready";
    world_pass(p->w, 1);
    assert_pod(p, "a", "status.containerStatuses[0].ready", "false"); // once is not enough
    world_pass(p->w, 2);
    assert_pod(p, "a", "status.containerStatuses[0].ready", "true");
    p->machine.good = "live up";
    world_pass(p->w, 2);
    assert_pod(p, "a", "status.containerStatuses[0].ready", "false");
    pods_world_expect_event(p, "Unhealthy|Readiness probe failed: no good\n");
    p->machine.good = "up ready";
    world_pass(p->w, 3); // three failures two seconds apart
    assert_pod(p, "a", "status.containerStatuses[0].restartCount", "0");
    world_pass(p->w, 5);
    assert_pod(p, "a", "status.containerStatuses[0].restartCount", "1");
    pods_world_expect_event(p, "Killing|Container c failed liveness probe, will be restarted\n");
    assert_int_equal(p->machine.most_running, 1);
}

TEST_WITH_PODS(a_clock_that_is_set_back_does_not_put_off_probes)
{
    p->machine.good = "ready";
    assert_ok(do_create(p->w, POD("a"),
                        PODS_JSON("a", "\"containers\":[" RUNNING(
                                           "c", "," PROBE("readinessProbe", "ready",
                                                          ",\"initialDelaySeconds\":5")) "]")));
    world_pass(p->w, 20);
    assert_pod(p, "a", "status.containerStatuses[0].ready", "true");
    p->w->clock.wall -= INT64_C(3600) * CLOCK_NS_PER_SEC;
    pods_world_kill(p);
    p->machine.good = "";
    pods_world_boot(p);
    world_pass(p->w, 60);
    assert_pod(p, "a", "status.containerStatuses[0].ready", "false");
}

TEST_WITH_PODS(probes_over_the_network)
{
    p->net.open = "tcp:80";
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON("a",
                  "\"containers\":[" RUNNING(
                      "t", ",\"ports\":[{\"name\":\"web\",\"containerPort\":"
                           "80}],"
                           "\"readinessProbe\":{\"tcpSocket\":{\"port\":"
                           "\"web\"}}") "," RUNNING("h", ",\"readinessProbe\":{"
                                                         "\"httpGet\":{\"port\":"
                                                         "8080}}") "," RUNNING("g", ",\""
                                                                                    "rea"
                                                                                    "din"
                                                                                    "ess"
                                                                                    "Pro"
                                                                                    "be"
                                                                                    "\":"
                                                                                    "{\""
                                                                                    "grp"
                                                                                    "c\""
                                                                                    ":{"
                                                                                    "\"p"
                                                                                    "ort"
                                                                                    "\":"
                                                                                    "90}"
                                                                                    "}") "]")));
    world_pass(p->w, 1);
    assert_pod(p, "a", "status.containerStatuses[0].ready", "true");
    assert_pod(p, "a", "status.containerStatuses[1].ready", "false");
    p->net.open = "tcp:80 http:8080 grpc:90";
    world_pass(p->w, 11);
    assert_pod(p, "a", "status.containerStatuses[1].ready", "true");
    assert_pod(p, "a", "status.containerStatuses[2].ready", "true");
}

TEST_WITH_PODS(a_stubborn_container_is_killed_when_its_grace_is_over)
{
    assert_ok(
        do_create(p->w, POD("a"),
                  PODS_JSON("a", "\"terminationGracePeriodSeconds\":7,\"containers\":[{\"name\":"
                                 "\"c\",\"image\":\"busybox:1\",\"command\":[\"stubborn\"]}]")));
    world_pass(p->w, 1);
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 6);
    assert_int_equal(fake_running(&p->machine), 1);
    assert_pod(p, "a", "status.phase", "Running");
    world_pass(p->w, 2);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
}

// A number of seconds may be as large as numbers are, also where the server does not cut it: when a probe fails.
TEST_WITH_PODS(the_longest_grace_is_long)
{
    p->net.open = "";
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON("a", "\"terminationGracePeriodSeconds\":9223372036854775807,\"containers\":[{"
                       "\"name\":\"c\",\"image\":\"busybox:1\",\"command\":[\"stubborn\"],"
                       "\"lifecycle\":{\"preStop\":{\"sleep\":{\"seconds\":20000000000}}}},{"
                       "\"name\":\"d\",\"image\":\"busybox:1\",\"command\":[\"stubborn\"],"
                       "\"livenessProbe\":{\"tcpSocket\":{\"port\":80},\"periodSeconds\":1}}]")));
    world_pass(p->w, 60);
    assert_int_equal(fake_running(&p->machine), 2);
    assert_pod(p, "a", "status.containerStatuses[1].restartCount", "0");
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 3600);
    assert_int_equal(fake_running(&p->machine), 2);
    assert_ok(do_delete(p->w, POD("a"), "{\"gracePeriodSeconds\":1}"));
    world_pass(p->w, 3);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
}

TEST_WITH_PODS(a_second_deletion_can_be_more_urgent)
{
    assert_ok(
        do_create(p->w, POD("a"),
                  PODS_JSON("a", "\"terminationGracePeriodSeconds\":3600,\"containers\":[{\"name\":"
                                 "\"c\",\"image\":\"busybox:1\",\"command\":[\"stubborn\"]}]")));
    world_pass(p->w, 1);
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 60);
    assert_int_equal(fake_running(&p->machine), 1);
    assert_ok(do_delete(p->w, POD("a"), "{\"gracePeriodSeconds\":1}"));
    world_pass(p->w, 3);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
}

TEST_WITH_PODS(a_pod_whose_object_is_gone_is_taken_down)
{
    assert_ok(do_create(p->w, POD("a"),
                        PODS_JSON("a", "\"containers\":[{\"name\":\"c\",\"image\":\"busybox:1\","
                                       "\"command\":[\"stubborn\"]}]")));
    world_pass(p->w, 1);
    assert_ok(do_delete(p->w, POD("a"), "{\"gracePeriodSeconds\":0}"));
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
    // One of the same name comes at once and is another pod.
    assert_ok(do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 5);
    assert_int_equal(p->machine.containers.n, 1);
    assert_int_equal(fake_running(&p->machine), 1);
    assert_int_equal(pods_len(p->pods), 1);
    assert_pod(p, "a", "status.phase", "Running");
}

TEST_WITH_PODS(hooks_run_around_the_life_of_a_container)
{
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON("a",
                  "\"containers\":[" RUNNING(
                      "c", ",\"lifecycle\":{\"postStart\":{\"exec\":{\"command\":[\"true\"]}},"
                           "\"preStop\":{\"sleep\":{\"seconds\":5}}}") "," RUNNING("d", "") "]")));
    world_pass(p->w, 1);
    assert_non_null(strstr(p->machine.log.p, "start c\nexec true\ncreate d\n"));
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 4);
    assert_int_equal(fake_running(&p->machine), 1); // c sleeps still
    world_pass(p->w, 3);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
}

TEST_WITH_PODS(a_post_start_that_fails_kills_its_container)
{
    assert_ok(
        do_create(p->w, POD("a"),
                  PODS_JSON("a", "\"containers\":[" RUNNING(
                                     "c", ",\"lifecycle\":{\"postStart\":{\"exec\":{\"command\":["
                                          "\"false\"]}}}") "]")));
    world_pass(p->w, 1);
    pods_world_expect_event(p, "FailedPostStartHook|PostStartHook failed\n");
    assert_pod(p, "a", "status.containerStatuses[0].restartCount", "1");
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 40);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
}

TEST_WITH_PODS(a_pod_may_run_no_longer_than_its_deadline)
{
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON("a", "\"activeDeadlineSeconds\":20,\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 19);
    assert_pod(p, "a", "status.phase", "Running");
    world_pass(p->w, 3);
    assert_pod(p, "a", "status.phase", "Failed");
    assert_pod(p, "a", "status.reason", "DeadlineExceeded");
    assert_pod(p, "a", "status.message",
               "Pod was active on the node longer than the specified deadline");
    assert_int_equal(fake_running(&p->machine), 0);
}

// --- Admission -----------------------------------------------------------------------------------

TEST_WITH_PODS(pods_that_do_not_belong_here_are_rejected)
{
    static const struct {
        const char *name, *spec, *reason, *message;
    } rows[] = {
        {"cpu",
         "\"containers\":[" RUNNING("c", ",\"resources\":{\"requests\":{\"cpu\":\"5\"}}") "]",
         "OutOfcpu",
         "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000, used: 1000, "
         "capacity: 4000"},
        {"label", "\"nodeSelector\":{\"zone\":\"b\"},\"containers\":[" RUNNING("c", "") "]",
         "NodeAffinity",
         "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node "
         "affinity/selector"},
        {"os", "\"os\":{\"name\":\"windows\"},\"containers\":[" RUNNING("c", "") "]",
         "PodOSNotSupported",
         "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"},
    };
    assert_ok(do_create(p->w, POD("first"),
                        PODS_JSON("first",
                                  "\"containers\":[" RUNNING(
                                      "c", ",\"resources\":{\"requests\":{\"cpu\":\"1\"}}") "]")));
    world_pass(p->w, 1);
    for (size_t i = 0; i < array_len(rows); i++) {
        struct sbuf json = {0};
        sbuf_addf(&json, "{\"metadata\":{\"name\":\"%s\"},\"spec\":{" ON_NODE ",%s}}", rows[i].name,
                  rows[i].spec);
        assert_ok(do_create(p->w, POD(rows[i].name), json.p));
        world_pass(p->w, 1);
        assert_pod(p, rows[i].name, "status.phase", "Failed");
        assert_pod(p, rows[i].name, "status.reason", rows[i].reason);
        assert_pod(p, rows[i].name, "status.message", rows[i].message);
        sbuf_done(&json);
    }
    assert_int_equal(fake_running(&p->machine), 1);
    assert_ok(do_delete(p->w, POD("os"), NULL));
    world_pass(p->w, 1);
    assert_string_equal(do_get(p->w, POD("os"))->json, "");
}

TEST_WITH_PODS(a_taint_that_is_not_tolerated_rejects)
{
    pods_world_node_is(p,
                       "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"},"
                       "\"spec\":{\"taints\":[{\"key\":\"bad\",\"effect\":\"NoExecute\"},{\"key\":"
                       "\"new\",\"effect\":\"NoSchedule\"}]},\"status\":{\"allocatable\":{\"pods\":"
                       "\"2\"}}}");
    assert_ok(do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "]")));
    assert_ok(
        do_create(p->w, POD("b"),
                  PODS_JSON("b", "\"tolerations\":[{\"key\":\"bad\",\"operator\":\"Exists\"}],"
                                 "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    assert_pod(p, "a", "status.reason", "TaintToleration");
    assert_pod(p, "b", "status.phase", "Running");
}

// --- What pods refer to --------------------------------------------------------------------------

static void create_with(struct pods_world *p, const char *name, const struct sbuf *rest)
{
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json,
              "{\"metadata\":{\"name\":\"%s\"},\"spec\":{" ON_NODE ",\"containers\":[{\"name\":"
              "\"%s\",\"image\":\"busybox:1\",%s}]}}",
              name, name, rest->p);
    assert_ok(do_create(p->w, POD(name), json.p));
}

// What a pod's variables make of each other is bounded: they grow by their product, and the agent serves others.
TEST_WITH_PODS(variables_of_variables_do_not_grow_without_end)
{
    cleanup_sbuf struct sbuf bomb = {0}, many = {0}, open = {0};
    sbuf_addz(&bomb, "\"env\":[{\"name\":\"V0\",\"value\":\"xxxxxxxxxx\"}");
    for (int i = 1; i <= 30; i++) {
        sbuf_addf(&bomb, ",{\"name\":\"V%d\",\"value\":\"", i);
        for (int k = 0; k < 10; k++)
            sbuf_addf(&bomb, "$(V%d)", i - 1);
        sbuf_addz(&bomb, "\"}");
    }
    sbuf_addz(&bomb, "]");
    sbuf_addz(&many, "\"env\":[{\"name\":\"V\",\"value\":\"");
    sbuf_add_repeat(&many, 'x', 100000);
    sbuf_addz(&many, "\"}],\"command\":[\"run\"");
    for (int i = 0; i < 1000; i++)
        sbuf_addz(&many, ",\"$(V)\"");
    sbuf_addz(&many, "]");
    sbuf_addz(&open, "\"env\":[{\"name\":\"V\",\"value\":\"");
    for (int i = 0; i < 300000; i++)
        sbuf_addz(&open, "$(");
    sbuf_addz(&open, "\"}],\"command\":[\"run\"]");
    create_with(p, "bomb", &bomb);
    create_with(p, "many", &many);
    create_with(p, "open", &open);
    world_pass(p->w, 5);
    assert_pod(p, "bomb", "status.containerStatuses[0].state.waiting.reason",
               "CreateContainerConfigError");
    assert_pod(p, "many", "status.containerStatuses[0].state.waiting.reason",
               "CreateContainerConfigError");
    assert_pod(p, "open", "status.phase", "Running");
}

// Thousands of files of a volume may be made of the same bytes.
TEST_WITH_PODS(files_of_volumes_are_bounded)
{
    cleanup_sbuf struct sbuf large = {0}, many = {0};
    sbuf_addz(&large, "{\"metadata\":{\"name\":\"large\",\"annotations\":{\"a\":\"");
    sbuf_add_repeat(&large, 'x', 250000);
    sbuf_addz(&large,
              "\"}},\"spec\":{" ON_NODE ",\"containers\":[" RUNNING(
                  "large", "") "],\"volumes\":[{\"name\":\"v\",\"downwardAPI\":{\"items\":[");
    for (int i = 0; i < 1200; i++)
        sbuf_addf(&large,
                  "%s{\"path\":\"p%d\",\"fieldRef\":{\"fieldPath\":\"metadata.annotations\"}}",
                  i ? "," : "", i);
    sbuf_addz(&large, "]}}]}}");
    sbuf_addz(&many,
              "{\"metadata\":{\"name\":\"many\"},\"spec\":{" ON_NODE
              ",\"containers\":[" RUNNING("many", "") "],\"volumes\":[{\"name\":\"v\","
                                                      "\"configMap\":{\"name\":\"cm\",\"items\":[");
    for (size_t i = 0; i <= DRAY_VOLUME_FILES_MAX; i++)
        sbuf_addf(&many, "%s{\"key\":\"k\",\"path\":\"p%zu\"}", i ? "," : "", i);
    sbuf_addz(&many, "]}}]}}");
    assert_ok(
        do_create(p->w, CONFIG("cm"), "{\"metadata\":{\"name\":\"cm\"},\"data\":{\"k\":\"\"}}"));
    assert_ok(do_create(p->w, POD("large"), large.p));
    assert_ok(do_create(p->w, POD("many"), many.p));
    assert_ok(do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 5);
    assert_pod(p, "large", "status.phase", "Pending");
    assert_pod(p, "many", "status.phase", "Pending");
    assert_pod(p, "a", "status.phase", "Running");
}

TEST_WITH_PODS(the_environment_has_every_source)
{
    assert_ok(
        do_create(p->w, CONFIG("cm"), "{\"metadata\":{\"name\":\"cm\"},\"data\":{\"k\":\"cv\"}}"));
    assert_ok(do_create(p->w, ((struct target){"v1", "Secret", "", "default", "s"}),
                        "{\"metadata\":{\"name\":\"s\"},\"stringData\":{\"p\":\"sv\"}}"));
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON(
            "a",
            "\"containers\":[" RUNNING(
                "c",
                ",\"resources\":{\"limits\":{\"cpu\":\"1500m\",\"memory\":\"64Mi\"}},"
                "\"envFrom\":[{\"prefix\":\"P_\",\"configMapRef\":{\"name\":\"cm\"}},{"
                "\"secretRef\":{"
                "\"name\":\"s\"}},{\"configMapRef\":{\"name\":\"none\",\"optional\":true}}],"
                "\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"$(A)-$$(A)-$"
                "(Z)\"},"
                "{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}},"
                "{\"name\":\"IP\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"status.podIP\"}}},"
                "{\"name\":\"CPU\",\"valueFrom\":{\"resourceFieldRef\":{\"resource\":\"limits."
                "cpu\"}}},"
                "{\"name\":\"MILLI\",\"valueFrom\":{\"resourceFieldRef\":{\"resource\":\"limits."
                "cpu\","
                "\"divisor\":\"1m\"}}},{\"name\":\"MEM\",\"valueFrom\":{\"resourceFieldRef\":{"
                "\"resource\":"
                "\"limits.memory\",\"divisor\":\"1Mi\"}}},"
                "{\"name\":\"C\",\"valueFrom\":{\"configMapKeyRef\":{\"name\":\"cm\",\"key\":\"k\"}"
                "}},"
                "{\"name\":\"S\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"p\"}}},"
                "{\"name\":\"O\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"q\","
                "\"optional\":true}}}]") "]")));
    world_pass(p->w, 1);
    const struct fake_container *c = fake_find(&p->machine, "c");
    assert_non_null(c);
    static const char *const lines[] = {"\nP_k=cv\n",        "\np=sv\n",       "\nA=1\n",
                                        "\nB=1-$(A)-$(Z)\n", "\nN=a\n",        "\nIP=10.0.0.1\n",
                                        "\nCPU=2\n",         "\nMILLI=1500\n", "\nMEM=64\n",
                                        "\nC=cv\n",          "\nS=sv\n"};
    for (size_t i = 0; i < array_len(lines); i++)
        if (!strstr(c->env, lines[i]))
            fail_msg("no %s in %s", lines[i], c->env);
    assert_null(strstr(c->env, "\nO="));
    assert_non_null(strstr(c->env, "KUBERNETES_SERVICE_HOST=192.0.2.100\n"));
}

TEST_WITH_PODS(what_is_missing_is_waited_for_and_named)
{
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON("a",
                  "\"containers\":[" RUNNING(
                      "c", ",\"env\":[{\"name\":\"C\",\"valueFrom\":{\"configMapKeyRef\":{\"name\":"
                           "\"cm\",\"key\":\"k\"}}}]") "]")));
    assert_ok(
        do_create(p->w, POD("v"),
                  PODS_JSON("v", "\"volumes\":[{\"name\":\"v\",\"configMap\":{\"name\":\"cm\"}}],"
                                 "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 2);
    assert_pod(p, "a", "status.containerStatuses[0].state.waiting.reason",
               "CreateContainerConfigError");
    assert_pod(p, "a", "status.containerStatuses[0].state.waiting.message",
               "configmap \"cm\" not found");
    assert_pod(p, "v", "status.containerStatuses[0].state.waiting.reason", "ContainerCreating");
    pods_world_expect_event(p, "FailedMount|MountVolume.SetUp failed for volume \"v\" : configmap "
                               "\"cm\" not found\n");
    assert_ok(
        do_create(p->w, CONFIG("cm"), "{\"metadata\":{\"name\":\"cm\"},\"data\":{\"k\":\"cv\"}}"));
    world_pass(p->w, 30);
    assert_pod(p, "a", "status.phase", "Running");
    assert_pod(p, "v", "status.phase", "Running");
}

static void assert_file(const struct pods_world *p, const char *pod_uid, const char *path,
                        const char *want)
{
    struct sbuf name = {0}, text = {0};
    sbuf_addf(&name, "%s/pods/%s/volumes/%s", p->dir, pod_uid, path);
    read_file(name.p, &text);
    assert_string_equal(text.n ? text.p : "", want);
    sbuf_done(&name);
    sbuf_done(&text);
}

TEST_WITH_PODS(volumes_hold_what_they_should_and_follow_changes)
{
    assert_ok(do_create(p->w, CONFIG("cm"),
                        "{\"metadata\":{\"name\":\"cm\"},\"data\":{\"k\":\"one\",\"l\":\"two\"}}"));
    assert_ok(do_create(p->w, ((struct target){"v1", "Secret", "", "default", "s"}),
                        "{\"metadata\":{\"name\":\"s\"},\"stringData\":{\"p\":\"sv\"}}"));
    assert_ok(do_create(
        p->w, POD("a"),
        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"app\":\"x\"}},\"spec\":{" ON_NODE
        ",\"volumes\":[{\"name\":\"c\",\"configMap\":{\"name\":\"cm\"}},{\"name\":\"s\",\"secret\":"
        "{"
        "\"secretName\":\"s\",\"items\":[{\"key\":\"p\",\"path\":\"deep/file\",\"mode\":256}]}},"
        "{\"name\":\"e\",\"emptyDir\":{}},{\"name\":\"d\",\"downwardAPI\":{\"items\":[{\"path\":"
        "\"labels\","
        "\"fieldRef\":{\"fieldPath\":\"metadata.labels\"}}]}},{\"name\":\"p\",\"projected\":{"
        "\"sources\":["
        "{\"configMap\":{\"name\":\"cm\",\"items\":[{\"key\":\"l\",\"path\":\"ell\"}]}},{"
        "\"secret\":{"
        "\"name\":\"s\"}}]}}],\"containers\":[" RUNNING(
            "c", ",\"volumeMounts\":[{\"name\":\"c\",\"mountPath\":\"/"
                 "c\"},{\"name\":\"e\",\"mountPath\":"
                 "\"/e\",\"subPath\":\"sub\"}]") "]}}"));
    world_pass(p->w, 1);
    assert_pod(p, "a", "status.phase", "Running");
    const char *uid = pods_world_field(p, "a", "metadata.uid");
    assert_file(p, uid, "kubernetes.io~configmap/c/k", "one");
    assert_file(p, uid, "kubernetes.io~secret/s/deep/file", "sv");
    assert_file(p, uid, "kubernetes.io~downward-api/d/labels", "app=\"x\"");
    assert_file(p, uid, "kubernetes.io~projected/p/ell", "two");
    assert_file(p, uid, "kubernetes.io~projected/p/p", "sv");
    assert_non_null(strstr(fake_find(&p->machine, "c")->mounts, "~empty-dir/e:sub\n"));
    assert_non_null(strstr(fake_find(&p->machine, "c")->mounts, "/dev/termination-log:"));
    assert_ok(do_patch(p->w, CONFIG("cm"), REGISTRY_PATCH_MERGE,
                       "{\"data\":{\"k\":\"new\",\"l\":null,\"m\":\"more\"}}"));
    world_pass(p->w, 61);
    assert_file(p, uid, "kubernetes.io~configmap/c/k", "new");
    assert_file(p, uid, "kubernetes.io~configmap/c/m", "more");
    struct sbuf gone = {0};
    sbuf_addf(&gone, "%s/pods/%s/volumes/kubernetes.io~configmap/c/l", p->dir, uid);
    assert_int_not_equal(access(gone.p, F_OK), 0);
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 1);
    sbuf_clear(&gone);
    sbuf_addf(&gone, "%s/pods/%s", p->dir, uid);
    assert_int_not_equal(access(gone.p, F_OK), 0);
    sbuf_done(&gone);
}

TEST_WITH_PODS(last_words_are_told)
{
    assert_ok(do_create(p->w, POD("a"),
                        PODS_JSON("a", "\"restartPolicy\":\"Never\",\"containers\":[" EXITS(
                                           "c", "2", "5000") "]")));
    world_pass(p->w, 1);
    struct sbuf path = {0};
    sbuf_addf(&path, "%s/pods/%s/containers/c/0", p->dir, pods_world_field(p, "a", "metadata.uid"));
    FILE *f = fopen(path.p, "we");
    assert_non_null(f);
    (void)fputs("I did my best", f);
    (void)fclose(f);
    sbuf_done(&path);
    world_pass(p->w, 6);
    assert_pod(p, "a", "status.containerStatuses[0].state.terminated.message", "I did my best");
    assert_pod(p, "a", "status.phase", "Failed");
}

// --- Restarts of the agent -----------------------------------------------------------------------

TEST_WITH_PODS(a_new_agent_takes_over_what_runs)
{
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "," EXITS("d", "1", "30000") "]")));
    world_pass(p->w, 1);
    sbuf_clear(&p->machine.log);
    pods_world_kill(p);
    world_pass(p->w, 1);
    pods_world_boot(p);
    world_pass(p->w, 1);
    assert_string_equal(p->machine.log.n ? p->machine.log.p : "", ""); // nothing had to be done
    assert_int_equal(fake_running(&p->machine), 2);
    assert_pod(p, "a", "status.phase", "Running");
    world_pass(p->w, 30);
    assert_pod(p, "a", "status.containerStatuses[1].restartCount", "1");
    // Deleted while nobody looks.
    pods_world_kill(p);
    assert_ok(do_delete(p->w, POD("a"), NULL));
    pods_world_boot(p);
    world_pass(p->w, 1);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
    assert_int_equal(p->machine.containers.n, 0);
}

TEST_WITH_PODS(orphans_are_removed)
{
    assert_ok(do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    pods_world_kill(p);
    assert_ok(do_delete(p->w, POD("a"), "{\"gracePeriodSeconds\":0}"));
    assert_int_equal(fake_running(&p->machine), 1);
    // Logs of that pod, of one that left nothing else, and something that is no log.
    const char *uid = fake_find(&p->machine, "c")->pod_uid;
    cleanup_sbuf struct sbuf logs = {0}, old = {0}, other = {0};
    sbuf_addf(&logs, "%s/default_a_%s", p->dir, uid);
    sbuf_addf(&old, "%s/default_b_77777777-old", p->dir);
    sbuf_addf(&other, "%s/dra_manager_state", p->dir);
    assert_int_equal(mkdir(logs.p, 0755), 0);
    assert_int_equal(mkdir(old.p, 0755), 0);
    assert_int_equal(close(creat(other.p, 0600)), 0);
    pods_world_boot(p);
    world_pass(p->w, 5);
    assert_int_equal(p->machine.containers.n, 0);
    assert_int_equal(p->machine.sandboxes.n, 0);
    assert_true(pods_idle(p->pods));
    assert_int_not_equal(access(logs.p, F_OK), 0);
    assert_int_not_equal(access(old.p, F_OK), 0);
    assert_int_equal(access(other.p, F_OK), 0);
}

TEST_WITH_PODS(after_a_reboot_pods_start_anew)
{
    assert_ok(
        do_create(p->w, POD("a"),
                  PODS_JSON("a", "\"initContainers\":[" EXITS(
                                     "i", "0", "10") "],\"containers\":[" RUNNING("c", "") "]")));
    assert_ok(do_create(
        p->w, POD("n"),
        PODS_JSON("n", "\"restartPolicy\":\"Never\",\"containers\":[" RUNNING("x", "") "]")));
    world_pass(p->w, 1);
    assert_int_equal(fake_running(&p->machine), 2);
    pods_world_kill(p);
    fake_machine_reboot(&p->machine);
    world_pass(p->w, 1);
    pods_world_boot(p);
    world_pass(p->w, 2);
    assert_pod(p, "a", "status.phase", "Running");
    assert_pod(p, "a", "status.containerStatuses[0].restartCount", "1");
    assert_pod(p, "a", "status.initContainerStatuses[0].restartCount", "1"); // it ran again
    assert_pod(p, "n", "status.phase", "Failed");
    assert_int_equal(fake_running(&p->machine), 1);
}

TEST_WITH_PODS(a_container_that_ends_during_its_post_start_is_started_again)
{
    assert_ok(do_create(
        p->w, POD("a"),
        PODS_JSON(
            "a",
            "\"containers\":[{\"name\":\"c\",\"image\":\"busybox:1\",\"command\":[\"exit\",\"1\","
            "\"500\"],\"lifecycle\":{\"postStart\":{\"exec\":{\"command\":[\"hang\"]}}}}]")));
    world_pass(p->w, 2);
    assert_pod(p, "a", "status.containerStatuses[0].restartCount", "1");
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 2);
    assert_string_equal(do_get(p->w, POD("a"))->json, "");
}

TEST_WITH_PODS(another_image_restarts_a_container)
{
    p->machine.images = "busybox:1 busybox:2";
    assert_ok(do_create(p->w, POD("a"), PODS_JSON("a", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    assert_ok(do_patch(p->w, POD("a"), REGISTRY_PATCH_STRATEGIC,
                       "{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"busybox:2\"}]}}"));
    world_pass(p->w, 2);
    assert_pod(p, "a", "status.containerStatuses[0].image", "busybox:2");
    assert_pod(p, "a", "status.containerStatuses[0].restartCount", "1");
    assert_pod(p, "a", "status.observedGeneration", "2");
    pods_world_expect_event(p, "Killing|Container c definition changed, will be restarted\n");
    assert_int_equal(p->machine.most_running, 1);
}

// --- Ephemeral containers ------------------------------------------------------------------------

#define POD_SUB(sub) ((struct target){"v1", "Pod", sub, "default", "p"})

static void add_debugger(struct pods_world *p, const char *name, const char *command)
{
    cleanup_sbuf struct sbuf body = {0};
    sbuf_addf(&body,
              "{\"spec\":{\"ephemeralContainers\":[{\"name\":\"%s\",\"image\":\"busybox:1\","
              "\"command\":[%s]}]}}",
              name, command);
    assert_ok(do_patch(p->w, POD_SUB("ephemeralcontainers"), REGISTRY_PATCH_STRATEGIC, body.p));
}

TEST_WITH_PODS(an_ephemeral_container_joins_a_pod_and_counts_for_nothing)
{
    assert_ok(do_create(p->w, POD("p"), PODS_JSON("p", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    add_debugger(p, "look", "\"run\"");
    world_pass(p->w, 1);
    assert_int_equal(fake_running(&p->machine), 2);
    assert_pod(p, "p", "status.ephemeralContainerStatuses[0].state.running.startedAt",
               "2027-01-15T08:00:01Z");
    assert_pod(p, "p", "status.ephemeralContainerStatuses[0].ready", "false");
    // A second one that fails is not started again, and the pod is as ready as before.
    add_debugger(p, "fail", "\"exit\",\"3\",\"10\"");
    world_pass(p->w, 600);
    assert_int_equal(fake_find(&p->machine, "fail")->attempt, 0);
    assert_pod(p, "p", "status.ephemeralContainerStatuses[1].state.terminated.exitCode", "3");
    assert_pod(p, "p", "status.phase", "Running");
    assert_null(strstr(pods_world_field(p, "p", "status.conditions"), "\"status\":\"False\""));
    // A new agent neither loses nor repeats them.
    pods_world_kill(p);
    pods_world_boot(p);
    world_pass(p->w, 5);
    assert_int_equal(fake_running(&p->machine), 2);
    assert_int_equal(fake_find(&p->machine, "fail")->attempt, 0);
    assert_ok(do_delete(p->w, POD("p"), NULL));
    world_pass(p->w, 2);
    assert_string_equal(do_get(p->w, POD("p"))->json, "");
    assert_int_equal(p->machine.containers.n, 0);
}

TEST_WITH_PODS(one_can_look_into_a_pod_that_does_not_come_up)
{
    assert_ok(
        do_create(p->w, POD("p"),
                  PODS_JSON("p", "\"initContainers\":[" EXITS(
                                     "i", "1", "10") "],"
                                                     "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    add_debugger(p, "look", "\"run\"");
    world_pass(p->w, 1);
    assert_non_null(fake_find(&p->machine, "look"));
    assert_pod(p, "p", "status.phase", "Pending");
}

TEST_WITH_PODS(a_pod_does_not_wait_for_who_looks_into_it)
{
    assert_ok(do_create(p->w, POD("p"),
                        PODS_JSON("p", "\"restartPolicy\":\"Never\",\"containers\":[" EXITS(
                                           "c", "0", "2000") "]")));
    world_pass(p->w, 1);
    add_debugger(p, "look", "\"run\"");
    world_pass(p->w, 10);
    assert_pod(p, "p", "status.phase", "Succeeded");
    assert_int_equal(fake_running(&p->machine), 0);
}

TEST_WITH_PODS(the_target_of_an_ephemeral_container_has_to_run)
{
    assert_ok(do_create(p->w, POD("p"), PODS_JSON("p", "\"containers\":[" RUNNING("c", "") "]")));
    world_pass(p->w, 1);
    assert_ok(do_patch(p->w, POD_SUB("ephemeralcontainers"), REGISTRY_PATCH_STRATEGIC,
                       "{\"spec\":{\"ephemeralContainers\":[{\"name\":\"look\",\"image\":"
                       "\"busybox:1\",\"command\":[\"run\"],\"targetContainerName\":\"c\"}]}}"));
    world_pass(p->w, 1);
    assert_int_equal(fake_running(&p->machine), 2);
}

RUN_TESTS(TEST_CASE(a_pod_runs_and_its_status_says_so),
          TEST_CASE(a_deleted_pod_stops_and_is_let_go),
          TEST_CASE(init_containers_come_one_after_the_other_and_sidecars_stay),
          TEST_CASE(an_init_container_that_fails_for_good_fails_the_pod),
          TEST_CASE(a_pod_that_is_done_is_over), TEST_CASE(crashes_are_backed_off_from),
          TEST_CASE(logs_that_become_large_are_begun_anew),
          TEST_CASE(logs_go_with_the_runs_they_are_of),
          TEST_CASE(a_clock_that_is_set_back_starts_nothing_twice),
          TEST_CASE(a_clock_that_is_set_back_does_not_prolong_the_pause_after_a_crash),
          TEST_CASE(a_clock_that_is_set_back_does_not_put_off_probes),
          TEST_CASE(images_that_cannot_be_had), TEST_CASE(a_container_that_cannot_start_crashes),
          TEST_CASE(probes_gate_and_restart), TEST_CASE(probes_over_the_network),
          TEST_CASE(a_stubborn_container_is_killed_when_its_grace_is_over),
          TEST_CASE(the_longest_grace_is_long), TEST_CASE(a_second_deletion_can_be_more_urgent),
          TEST_CASE(a_pod_whose_object_is_gone_is_taken_down),
          TEST_CASE(hooks_run_around_the_life_of_a_container),
          TEST_CASE(a_post_start_that_fails_kills_its_container),
          TEST_CASE(a_pod_may_run_no_longer_than_its_deadline),
          TEST_CASE(pods_that_do_not_belong_here_are_rejected),
          TEST_CASE(a_taint_that_is_not_tolerated_rejects),
          TEST_CASE(variables_of_variables_do_not_grow_without_end),
          TEST_CASE(files_of_volumes_are_bounded), TEST_CASE(the_environment_has_every_source),
          TEST_CASE(what_is_missing_is_waited_for_and_named),
          TEST_CASE(volumes_hold_what_they_should_and_follow_changes),
          TEST_CASE(last_words_are_told), TEST_CASE(a_new_agent_takes_over_what_runs),
          TEST_CASE(orphans_are_removed), TEST_CASE(after_a_reboot_pods_start_anew),
          TEST_CASE(a_container_that_ends_during_its_post_start_is_started_again),
          TEST_CASE(another_image_restarts_a_container),
          TEST_CASE(an_ephemeral_container_joins_a_pod_and_counts_for_nothing),
          TEST_CASE(one_can_look_into_a_pod_that_does_not_come_up),
          TEST_CASE(a_pod_does_not_wait_for_who_looks_into_it),
          TEST_CASE(the_target_of_an_ephemeral_container_has_to_run))
