// SPDX-License-Identifier: Apache-2.0
//
// Jobs. Each test is named for the rule.
#include "ctl_kubelet.h"

#include "base/banned.h"

#define TEST_JOBS(name) TEST_WITH_CTLS(name, "", WITH(CTL_JOBS))
#define JOB(name)       ((struct target){"batch/v1", "Job", "", "default", name})
#define JOB_JSON(rest)                                                                    \
    "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{\"spec\":{\"restartPolicy\":" \
    "\"Never\"," CONTAINERS "}}" rest "}}"

static const char *condition(struct ctl_world *c, const char *type, const char *field)
{
    (void)do_get(c->w, JOB("j"));
    for (int i = 0; i < 4; i++) {
        const char *path = arena_strf(&c->w->arena, "status.conditions[%d].type", i).p;
        if (strcmp(reply_field(c->w, path), type) == 0)
            return reply_field(c->w,
                               arena_strf(&c->w->arena, "status.conditions[%d].%s", i, field).p);
    }
    return "-";
}

// Pods that are neither over nor being deleted.
static struct names live_pods(struct ctl_world *c)
{
    struct names all = pods_of(c), live = {0};
    for (size_t i = 0; i < all.n; i++) {
        (void)do_get(c->w, POD(all.p[i]));
        const char *phase = reply_field(c->w, "status.phase");
        if (strcmp(phase, "Failed") != 0 && strcmp(phase, "Succeeded") != 0 &&
            strcmp(reply_field(c->w, "metadata.deletionTimestamp"), "-") == 0)
            live.p[live.n++] = all.p[i];
    }
    return live;
}

static void end_all(struct ctl_world *c, const char *phase)
{
    struct names live = live_pods(c);
    for (size_t i = 0; i < live.n; i++)
        end_pod(c, live.p[i], phase);
    settle(c);
}

// fail_with ends a pod whose container left a code.
static void fail_with(struct ctl_world *c, const char *pod, int code)
{
    set_pod_status(
        c, pod,
        arena_strf(&c->w->arena,
                   "{\"phase\":\"Failed\",\"containerStatuses\":[{\"name\":\"c\",\"image\":\"i\","
                   "\"imageID\":\"\",\"ready\":false,\"restartCount\":0,\"state\":{\"terminated\":{"
                   "\"exitCode\":%d}}}]}",
                   code)
            .p);
    settle(c);
}

TEST_JOBS(job_runs_until_enough_pods_have_succeeded)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON(",\"completions\":3,\"parallelism\":2")));
    settle(c);
    assert_int_equal(live_pods(c).n, 2);
    (void)do_get(c->w, POD(live_pods(c).p[0]));
    assert_field(c->w, "metadata.finalizers[0]", "batch.kubernetes.io/job-tracking");
    assert_field(c->w, "metadata.labels[batch.kubernetes.io/job-name]", "j");
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.active", "2");
    end_all(c, "Succeeded");
    assert_int_equal(live_pods(c).n, 1);
    assert_string_equal(condition(c, "Complete", "status"), "-");
    end_all(c, "Succeeded");
    assert_string_equal(condition(c, "Complete", "status"), "True");
    assert_string_equal(condition(c, "SuccessCriteriaMet", "reason"), "CompletionsReached");
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.succeeded", "3");
    assert_field(c->w, "status.active", "-");
    assert_field(c->w, "status.uncountedTerminatedPods", "{}");
    assert_string_not_equal(reply_field(c->w, "status.completionTime"), "-");
    struct names pods = pods_of(c);
    assert_int_equal(pods.n, 3);
    (void)do_get(c->w, POD(pods.p[0]));
    assert_field(c->w, "metadata.finalizers", "-");
    assert_int_equal(count_events(c, "Completed"), 1);
}

TEST_JOBS(job_counts_every_pod_once_whatever_crashes)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON(",\"completions\":5,\"parallelism\":5")));
    settle(c);
    struct names live = live_pods(c);
    for (size_t i = 0; i < live.n; i++) {
        end_pod(c, live.p[i], "Succeeded");
        for (size_t k = 0; k < 3 * i; k++)
            (void)exec_sim_step(c->w->sim);
        ctl_world_restart(c);
    }
    settle(c);
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.succeeded", "5");
    assert_string_equal(condition(c, "Complete", "status"), "True");
}

TEST_JOBS(job_fails_when_too_many_pods_have)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON(",\"backoffLimit\":1")));
    settle(c);
    end_all(c, "Failed");
    assert_int_equal(live_pods(c).n, 0); // it waits before it tries again
    world_pass(c->w, 15);
    assert_int_equal(live_pods(c).n, 1);
    end_all(c, "Failed");
    assert_string_equal(condition(c, "Failed", "reason"), "BackoffLimitExceeded");
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.failed", "2");
    assert_int_equal(count_events(c, "BackoffLimitExceeded"), 1);
}

TEST_JOBS(job_past_its_deadline_ends_its_pods)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON(",\"activeDeadlineSeconds\":30")));
    world_pass(c->w, 20);
    assert_int_equal(live_pods(c).n, 1);
    world_pass(c->w, 20);
    assert_int_equal(live_pods(c).n, 0);
    assert_string_equal(condition(c, "Failed", "reason"), "DeadlineExceeded");
}

TEST_JOBS(job_may_have_a_deadline_that_nobody_lives_to_see)
{
    static const char *const deadlines[] = {"9999999999", "9223372036854775807"};
    for (size_t i = 0; i < array_len(deadlines); i++) {
        const char *json =
            arena_strf(&c->w->arena, JOB_JSON(",\"activeDeadlineSeconds\":%s"), deadlines[i]).p;
        c->w->hold = true;
        (void)do_create(c->w, JOB(""), json);
        assert_true(comes_to_rest(c));
        c->w->hold = false;
        settle(c);
        assert_int_equal(live_pods(c).n, 1);
        end_all(c, "Succeeded");
        assert_string_equal(condition(c, "Complete", "status"), "True");
        assert_ok(do_delete(c->w, JOB("j"), NULL));
        settle(c);
    }
}

TEST_JOBS(job_suspended_runs_no_pods_until_it_goes_on)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON(",\"suspend\":true")));
    settle(c);
    assert_int_equal(pods_of(c).n, 0);
    assert_string_equal(condition(c, "Suspended", "status"), "True");
    assert_field(c->w, "status.startTime", "-");
    assert_ok(do_patch(c->w, JOB("j"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"suspend\":false}}"));
    settle(c);
    assert_int_equal(live_pods(c).n, 1);
    assert_string_equal(condition(c, "Suspended", "status"), "False");
    assert_ok(do_patch(c->w, JOB("j"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"suspend\":true}}"));
    settle(c);
    assert_int_equal(live_pods(c).n, 0);
}

TEST_JOBS(job_does_not_count_pods_as_failed_that_it_ends_itself)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON(",\"completions\":9,\"parallelism\":9")));
    settle(c);
    run_pods(c);
    assert_int_equal(live_pods(c).n, 9);
    assert_ok(do_patch(c->w, JOB("j"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"parallelism\":8}}"));
    settle(c);
    assert_int_equal(live_pods(c).n, 8);
    assert_ok(do_patch(c->w, JOB("j"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"suspend\":true}}"));
    settle(c);
    assert_int_equal(live_pods(c).n, 0);
    assert_int_equal(pods_of(c).n, 0);
    assert_ok(do_get(c->w, JOB("j")));
    assert_field(c->w, "status.failed", "-");
    assert_string_equal(condition(c, "Failed", "status"), "-");
    assert_ok(do_patch(c->w, JOB("j"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"suspend\":false}}"));
    settle(c);
    assert_int_equal(live_pods(c).n, 8);
}

TEST_JOBS(job_suspended_does_not_use_up_the_failures_of_its_indexes)
{
    assert_ok(do_create(c->w, JOB(""),
                        JOB_JSON(",\"completions\":2,\"parallelism\":2,\"completionMode\":"
                                 "\"Indexed\",\"backoffLimitPerIndex\":0")));
    settle(c);
    assert_ok(do_patch(c->w, JOB("j"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"suspend\":true}}"));
    settle(c);
    assert_int_equal(live_pods(c).n, 0);
    assert_ok(do_patch(c->w, JOB("j"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"suspend\":false}}"));
    settle(c);
    assert_int_equal(live_pods(c).n, 2);
    end_all(c, "Succeeded");
    assert_string_equal(condition(c, "Complete", "status"), "True");
}

TEST_JOBS(job_is_deleted_some_time_after_its_end)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON(",\"ttlSecondsAfterFinished\":60")));
    settle(c);
    end_all(c, "Succeeded");
    world_pass(c->w, 30);
    assert_int_equal(count_of(c, "batch/v1", "Job"), 1);
    world_pass(c->w, 40);
    assert_int_equal(count_of(c, "batch/v1", "Job"), 0);
}

TEST_JOBS(job_indexed_gives_every_number_to_one_pod_that_succeeds)
{
    assert_ok(do_create(c->w, JOB(""),
                        JOB_JSON(",\"completions\":4,\"parallelism\":4,\"completionMode\":"
                                 "\"Indexed\"")));
    settle(c);
    struct names pods = pods_of(c);
    assert_int_equal(pods.n, 4);
    assert_memory_equal(pods.p[2], "j-2-", 4);
    (void)do_get(c->w, POD(pods.p[2]));
    assert_field(c->w, "metadata.annotations[batch.kubernetes.io/job-completion-index]", "2");
    assert_field(c->w, "spec.hostname", "j-2");
    assert_field(c->w, "spec.containers[0].env[0].name", "JOB_COMPLETION_INDEX");
    end_pod(c, pods.p[0], "Succeeded");
    end_pod(c, pods.p[1], "Succeeded");
    end_pod(c, pods.p[3], "Succeeded");
    end_pod(c, pods.p[2], "Failed");
    settle(c);
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.completedIndexes", "0,1,3");
    assert_field(c->w, "status.succeeded", "3");
    world_pass(c->w, 15);
    struct names again = live_pods(c);
    assert_int_equal(again.n, 1);
    assert_memory_equal(again.p[0], "j-2-", 4);
    end_all(c, "Succeeded");
    assert_string_equal(condition(c, "Complete", "status"), "True");
    assert_field(c->w, "status.completedIndexes", "0-3");
}

TEST_JOBS(job_indexed_may_count_failures_for_each_number)
{
    assert_ok(do_create(c->w, JOB(""),
                        JOB_JSON(",\"completions\":2,\"parallelism\":2,\"completionMode\":"
                                 "\"Indexed\",\"backoffLimitPerIndex\":0")));
    settle(c);
    struct names pods = pods_of(c);
    end_pod(c, pods.p[0], "Failed");
    world_pass(c->w, 30);
    assert_int_equal(live_pods(c).n, 1);
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.failedIndexes", "0");
    end_pod(c, pods.p[1], "Succeeded");
    settle(c);
    assert_string_equal(condition(c, "Failed", "reason"), "FailedIndexes");
}

TEST_JOBS(job_failure_policy_fails_it_or_does_not_count)
{
    assert_ok(do_create(
        c->w, JOB(""),
        JOB_JSON(",\"backoffLimit\":0,\"podFailurePolicy\":{\"rules\":[{\"action\":\"Ignore\","
                 "\"onExitCodes\":{\"operator\":\"In\",\"values\":[7]}},{\"action\":\"FailJob\","
                 "\"onExitCodes\":{\"operator\":\"In\",\"values\":[42]}}]}")));
    settle(c);
    fail_with(c, live_pods(c).p[0], 7);
    world_pass(c->w, 15);
    assert_int_equal(live_pods(c).n, 1);
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.failed", "-");
    fail_with(c, live_pods(c).p[0], 42);
    assert_string_equal(condition(c, "Failed", "reason"), "PodFailurePolicy");
}

TEST_JOBS(job_that_is_gone_lets_its_pods_go)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON("")));
    settle(c);
    const char *pod = live_pods(c).p[0];
    assert_ok(do_delete(c->w, JOB("j"), "{\"propagationPolicy\":\"Background\"}"));
    settle(c);
    (void)do_get(c->w, POD(pod));
    assert_field(c->w, "metadata.finalizers", "-");
}

// The collector takes their owner away; nobody would count them any more.
TEST_JOBS(job_lets_orphaned_pods_go)
{
    assert_ok(do_create(c->w, JOB(""), JOB_JSON("")));
    settle(c);
    const char *pod = live_pods(c).p[0];
    assert_ok(do_delete(c->w, JOB("j"), "{\"propagationPolicy\":\"Orphan\"}"));
    settle(c);
    assert_ok(do_get(c->w, POD(pod)));
    assert_field(c->w, "metadata.finalizers", "-");
    assert_field(c->w, "metadata.ownerReferences", "-");
}

TEST_JOBS(job_pods_get_claims_of_templates)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, JOB(""),
                        "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"completions\":2,"
                        "\"parallelism\":2,\"template\":{\"spec\":{\"restartPolicy\":\"Never\","
                        "" CONTAINERS FROM_TEMPLATE "}}}}"));
    settle(c);
    assert_int_equal(count_of(c, "resource.k8s.io/v1", "ResourceClaim"), 2);
    end_all(c, "Succeeded");
    assert_int_equal(count_of(c, "resource.k8s.io/v1", "ResourceClaim"), 0);
    assert_string_equal(condition(c, "Complete", "status"), "True");
}

TEST_JOBS(job_takes_no_memory_for_numbers_that_have_no_pods)
{
    assert_ok(do_create(c->w, JOB(""),
                        JOB_JSON(",\"completions\":1000000000,\"parallelism\":3,"
                                 "\"completionMode\":\"Indexed\"")));
    settle(c);
    assert_int_equal(live_pods(c).n, 3);
    end_all(c, "Succeeded");
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.completedIndexes", "0-2");
    assert_field(c->w, "status.succeeded", "3");
    assert_int_equal(live_pods(c).n, 3);
    end_pod(c, live_pods(c).p[1], "Succeeded"); // index 4
    settle(c);
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.completedIndexes", "0-2,4");
    assert_int_equal(live_pods(c).n, 3);
}

TEST_JOBS(job_takes_long_spans_of_numbers_from_its_status)
{
    static const char *const spans[] = {"\"active\":1,",
                                        "\"active\":1,\"completedIndexes\":\"5-99999999,0-3,"
                                        "100000000,7-6,99999999999999999999,x\",",
                                        NULL};
    assert_ok(do_create(c->w, JOB(""),
                        JOB_JSON(",\"completions\":1000000000,\"parallelism\":1,"
                                 "\"completionMode\":\"Indexed\"")));
    settle(c);
    plant(c, JOB("j"), spans);
    (void)do_get(c->w, JOB("j"));
    assert_field(c->w, "status.completedIndexes", "0-3,5-100000000");
    assert_field(c->w, "status.succeeded", "100000000");
    assert_int_equal(live_pods(c).n, 1); // the pod of index 0 is not needed any more
    (void)do_get(c->w, POD(live_pods(c).p[0]));
    assert_field(c->w, "metadata.labels[batch.kubernetes.io/job-completion-index]", "4");
}

TEST_JOBS(job_with_negative_numbers_ends)
{
    static const char *const negative[] = {"\"backoffLimit\":6",
                                           "\"backoffLimit\":-2147483648,"
                                           "\"activeDeadlineSeconds\":-9223372036854775808",
                                           "\"completions\":3",
                                           "\"completions\":-2147483648",
                                           "\"parallelism\":2",
                                           "\"parallelism\":-2147483648",
                                           "\"maxFailedIndexes\":1",
                                           "\"maxFailedIndexes\":-2147483648",
                                           NULL};
    assert_ok(do_create(c->w, JOB(""),
                        JOB_JSON(",\"completions\":3,\"parallelism\":2,\"backoffLimit\":6,"
                                 "\"completionMode\":\"Indexed\",\"backoffLimitPerIndex\":1,"
                                 "\"maxFailedIndexes\":1")));
    settle(c);
    plant(c, JOB("j"), negative);
    assert_true(comes_to_rest(c));
    assert_int_equal(live_pods(c).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_runs_until_enough_pods_have_succeeded),
        cmocka_unit_test(job_counts_every_pod_once_whatever_crashes),
        cmocka_unit_test(job_fails_when_too_many_pods_have),
        cmocka_unit_test(job_past_its_deadline_ends_its_pods),
        cmocka_unit_test(job_may_have_a_deadline_that_nobody_lives_to_see),
        cmocka_unit_test(job_suspended_runs_no_pods_until_it_goes_on),
        cmocka_unit_test(job_does_not_count_pods_as_failed_that_it_ends_itself),
        cmocka_unit_test(job_suspended_does_not_use_up_the_failures_of_its_indexes),
        cmocka_unit_test(job_is_deleted_some_time_after_its_end),
        cmocka_unit_test(job_indexed_gives_every_number_to_one_pod_that_succeeds),
        cmocka_unit_test(job_indexed_may_count_failures_for_each_number),
        cmocka_unit_test(job_failure_policy_fails_it_or_does_not_count),
        cmocka_unit_test(job_that_is_gone_lets_its_pods_go),
        cmocka_unit_test(job_lets_orphaned_pods_go),
        cmocka_unit_test(job_pods_get_claims_of_templates),
        cmocka_unit_test(job_takes_no_memory_for_numbers_that_have_no_pods),
        cmocka_unit_test(job_takes_long_spans_of_numbers_from_its_status),
        cmocka_unit_test(job_with_negative_numbers_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
