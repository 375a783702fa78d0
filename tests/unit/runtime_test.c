// SPDX-License-Identifier: Apache-2.0
//
// Containers for real: made, started, stopped, looked at, run in. Needs root, crun or runc, and a static busybox; without
// them it says so and is skipped.
#include <unistd.h>

#include "runtime_kit.h"

#include "base/banned.h"

static struct kit_runtime kit;

static int setup(void **state)
{
    (void)state;
    kit_runtime_open(&kit);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_runtime_close(&kit);
    return 0;
}

static void must(int rc)
{
    if (rc < 0)
        fail_msg("%s", kit.err.msg);
}

static void a_container_runs_says_something_and_ends(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf log = {0};
    (void)state;
    must(kit_pod(&kit, "hello", pod));
    must(kit_shell(&kit, pod, "hello", "echo to out; echo to err >&2; printf cut; exit 7", id));
    assert_int_equal(kit_status(&kit, id).state, RUNTIME_CREATED);
    must(kit_start(&kit, id));
    struct runtime_container_status s = kit_wait(&kit, id);
    assert_int_equal(s.exit_code, 7);
    assert_int_equal(s.signal, 0);
    assert_false(s.oom_killed);
    assert_true(s.started_ns >= s.created_ns && s.finished_ns >= s.started_ns);
    kit_log(&kit, "hello", 0, &log);
    assert_non_null(strstr(log.p, "to out\n"));
    assert_non_null(strstr(log.p, "to err\n"));
    assert_non_null(strstr(log.p, "cut"));
    must(kit_pod_remove(&kit, pod));
}

static void a_command_runs_in_a_container(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    (void)state;
    must(kit_pod(&kit, "exec", pod));
    must(kit_shell(&kit, pod, "exec", "sleep 1000", id));
    must(kit_start(&kit, id));
    must(kit_exec(&kit, id, "hostname; echo $FROM; exit 3", 0, &out, &status));
    assert_int_equal(status, 3);
    assert_str(sbuf_str(&out), "exec\nimage\n");
    must(kit_stop(&kit, id, 0));
    assert_int_equal(kit_status(&kit, id).exit_code, 137);
    must(kit_pod_remove(&kit, pod));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(a_container_runs_says_something_and_ends),
        TEST_CASE(a_command_runs_in_a_container),
    };
    const char *why = kit_runtime_possible();
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
