// SPDX-License-Identifier: Apache-2.0
//
// DaemonSets and StatefulSets. Each test is named for the rule.
#include "ctl_kubelet.h"

#include "base/banned.h"

#define TEST_SETS(name) TEST_WITH_CTLS(name, "", WITH(CTL_DAEMON_SETS) | WITH(CTL_STATEFUL_SETS))
#define DAEMON(name)    ((struct target){"apps/v1", "DaemonSet", "", "default", name})
#define STATEFUL(name)  ((struct target){"apps/v1", "StatefulSet", "", "default", name})
#define TEMPLATE_OF(rest)                                                                     \
    "\"selector\":{\"matchLabels\":{\"app\":\"a\"}},\"template\":{\"metadata\":{\"labels\":{" \
    "\"app\":\"a\"}},\"spec\":{" CONTAINERS rest "}}"
#define DAEMON_JSON(in_pod, rest) \
    "{\"metadata\":{\"name\":\"d\"},\"spec\":{" TEMPLATE_OF(in_pod) rest "}}"
#define STATEFUL_JSON(replicas, rest)                                                         \
    "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"serviceName\":\"svc\",\"replicas\":" replicas \
    "," TEMPLATE_OF("") rest "}}"
#define NEW_IMAGE(image)                                                                    \
    "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"" image \
    "\"}]}}}}"

static void merge(struct ctl_world *c, struct target t, const char *patch)
{
    assert_ok(do_patch(c->w, t, REGISTRY_PATCH_MERGE, patch));
    settle(c);
}

static void add_node(struct ctl_world *c, const char *name, const char *rest)
{
    assert_ok(do_create(
        c->w, NODE(""),
        arena_strf(&c->w->arena, "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"name\":\"%s\"}}%s}",
                   name, name, rest)
            .p));
}

static size_t with_image(struct ctl_world *c, const char *image)
{
    struct names pods = pods_of(c);
    size_t n = 0;
    for (size_t i = 0; i < pods.n; i++) {
        (void)do_get(c->w, POD(pods.p[i]));
        n += strcmp(reply_field(c->w, "spec.containers[0].image"), image) == 0;
    }
    return n;
}

// --- DaemonSets ----------------------------------------------------------------------------------

TEST_SETS(daemon_runs_one_pod_on_every_node_that_matches)
{
    add_node(c, "n1", "");
    add_node(c, "n2", "");
    add_node(c, "tainted", ",\"spec\":{\"taints\":[{\"key\":\"k\",\"effect\":\"NoSchedule\"}]}");
    assert_ok(do_create(c->w, DAEMON(""), DAEMON_JSON("", "")));
    settle(c);
    struct names pods = pods_of(c);
    assert_int_equal(pods.n, 2);
    (void)do_get(c->w, POD(pods.p[0]));
#define TERMS                                                                                      \
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[" \
    "0]"
    assert_field(c->w, TERMS ".matchFields[0].key", "metadata.name");
    assert_field(c->w, "spec.tolerations[0].key", "node.kubernetes.io/not-ready");
    add_node(c, "n3", "");
    settle(c);
    assert_int_equal(pods_of(c).n, 3);
    run_pods(c);
    (void)do_get(c->w, DAEMON("d"));
    assert_field(c->w, "status.desiredNumberScheduled", "3");
    assert_field(c->w, "status.currentNumberScheduled", "3");
    assert_field(c->w, "status.numberReady", "3");
    assert_field(c->w, "status.numberAvailable", "3");
    assert_field(c->w, "status.updatedNumberScheduled", "3");
    assert_field(c->w, "status.numberMisscheduled", "0");
}

TEST_SETS(daemon_leaves_nodes_that_do_not_match_any_more)
{
    add_node(c, "n1", "");
    add_node(c, "n2", "");
    assert_ok(do_create(c->w, DAEMON(""), DAEMON_JSON(",\"nodeSelector\":{\"name\":\"n1\"}", "")));
    settle(c);
    assert_int_equal(pods_of(c).n, 1);
    merge(c, NODE("n1"), "{\"metadata\":{\"labels\":{\"name\":\"x\"}}}");
    assert_int_equal(pods_of(c).n, 0);
}

TEST_SETS(daemon_pod_that_failed_is_replaced)
{
    add_node(c, "n1", "");
    assert_ok(do_create(c->w, DAEMON(""), DAEMON_JSON("", "")));
    settle(c);
    const char *first = pods_of(c).p[0];
    end_pod(c, first, "Failed");
    settle(c);
    struct names pods = pods_of(c);
    assert_int_equal(pods.n, 1);
    assert_string_not_equal(pods.p[0], first);
    assert_int_equal(count_events(c, "FailedDaemonPod"), 1);
}

TEST_SETS(daemon_pod_that_fails_again_and_again_is_not_made_as_fast_as_can_be)
{
    add_node(c, "n1", "");
    assert_ok(do_create(c->w, DAEMON(""), DAEMON_JSON("", "")));
    settle(c);
    size_t made = 0;
    for (int i = 0; i < 60; i++) {
        struct names pods = pods_of(c);
        assert_true(pods.n <= 1);
        (void)do_get(c->w, POD(pods.n ? pods.p[0] : "none"));
        bool fresh = strcmp(reply_field(c->w, "status.phase"), "Pending") == 0;
        made += fresh;
        if (fresh)
            end_pod(c, pods.p[0], "Failed");
        settle(c);
    }
    assert_in_range(made, 4, 8);
}

TEST_SETS(daemon_pod_that_fails_beside_the_one_it_replaces_is_not_made_as_fast_as_can_be)
{
    add_node(c, "n1", "");
    assert_ok(
        do_create(c->w, DAEMON(""),
                  DAEMON_JSON("", ",\"updateStrategy\":{\"type\":\"RollingUpdate\","
                                  "\"rollingUpdate\":{\"maxSurge\":1,\"maxUnavailable\":0}}")));
    settle(c);
    run_pods(c);
    merge(c, DAEMON("d"), NEW_IMAGE("i2"));
    size_t made = 0;
    for (int i = 0; i < 60; i++) {
        struct names pods = pods_of(c);
        assert_true(pods.n <= 2);
        for (size_t k = 0; k < pods.n; k++) {
            (void)do_get(c->w, POD(pods.p[k]));
            if (strcmp(reply_field(c->w, "status.phase"), "Pending") != 0)
                continue;
            made++;
            end_pod(c, pods.p[k], "Failed");
        }
        settle(c);
    }
    assert_in_range(made, 4, 8);
}

TEST_SETS(daemon_rolls_no_more_nodes_at_once_than_may_be_without)
{
    add_node(c, "n1", "");
    add_node(c, "n2", "");
    add_node(c, "n3", "");
    assert_ok(do_create(c->w, DAEMON(""), DAEMON_JSON("", "")));
    settle(c);
    run_pods(c);
    merge(c, DAEMON("d"), NEW_IMAGE("i2"));
    for (size_t done = 1; done <= 3; done++) {
        assert_int_equal(with_image(c, "i2"), done);
        assert_int_equal(pods_of(c).n, 3);
        run_pods(c);
    }
    assert_int_equal(count_of(c, "apps/v1", "ControllerRevision"), 2);
    merge(c, DAEMON("d"), NEW_IMAGE("i")); // back: no third revision
    for (int i = 0; i < 4; i++)
        run_pods(c);
    assert_int_equal(with_image(c, "i"), 3);
    assert_int_equal(count_of(c, "apps/v1", "ControllerRevision"), 2);
}

TEST_SETS(daemon_with_on_delete_waits_for_its_pods_to_be_deleted)
{
    add_node(c, "n1", "");
    assert_ok(do_create(c->w, DAEMON(""),
                        DAEMON_JSON("", ",\"updateStrategy\":{\"type\":\"OnDelete\"}")));
    settle(c);
    run_pods(c);
    merge(c, DAEMON("d"), NEW_IMAGE("i2"));
    assert_int_equal(with_image(c, "i"), 1);
    assert_ok(do_delete(c->w, POD(pods_of(c).p[0]), NULL));
    settle(c);
    assert_int_equal(with_image(c, "i2"), 1);
}

// --- StatefulSets --------------------------------------------------------------------------------

TEST_SETS(stateful_makes_pods_one_after_the_other)
{
    assert_ok(do_create(c->w, STATEFUL(""), STATEFUL_JSON("3", "")));
    settle(c);
    for (size_t n = 1; n <= 3; n++) {
        assert_int_equal(pods_of(c).n, n);
        run_pods(c);
    }
    (void)do_get(c->w, POD("s-1"));
    assert_field(c->w, "metadata.labels[statefulset.kubernetes.io/pod-name]", "s-1");
    assert_field(c->w, "metadata.labels[apps.kubernetes.io/pod-index]", "1");
    assert_field(c->w, "spec.hostname", "s-1");
    assert_field(c->w, "spec.subdomain", "svc");
    (void)do_get(c->w, STATEFUL("s"));
    assert_field(c->w, "status.readyReplicas", "3");
    assert_field(c->w, "status.currentReplicas", "3");
    assert_field(c->w, "status.currentRevision", reply_field(c->w, "status.updateRevision"));
    assert_int_equal(count_events(c, "SuccessfulCreate"), 3);
}

TEST_SETS(stateful_pod_that_goes_comes_back_with_its_name)
{
    assert_ok(do_create(c->w, STATEFUL(""), STATEFUL_JSON("2", "")));
    for (int i = 0; i < 3; i++)
        run_pods(c);
    assert_ok(do_delete(c->w, POD("s-0"), NULL));
    settle(c);
    struct names pods = pods_of(c);
    assert_int_equal(pods.n, 2);
    assert_string_equal(pods.p[0], "s-0");
}

TEST_SETS(stateful_shrinks_from_the_highest_number)
{
    assert_ok(do_create(c->w, STATEFUL(""), STATEFUL_JSON("3", "")));
    for (int i = 0; i < 4; i++)
        run_pods(c);
    merge(c, STATEFUL("s"), "{\"spec\":{\"replicas\":1}}");
    struct names pods = pods_of(c);
    assert_int_equal(pods.n, 1);
    assert_string_equal(pods.p[0], "s-0");
}

TEST_SETS(stateful_parallel_does_not_wait)
{
    assert_ok(
        do_create(c->w, STATEFUL(""), STATEFUL_JSON("3", ",\"podManagementPolicy\":\"Parallel\"")));
    settle(c);
    assert_int_equal(pods_of(c).n, 3);
}

TEST_SETS(stateful_rolls_from_the_highest_down_to_the_partition)
{
    assert_ok(do_create(c->w, STATEFUL(""),
                        STATEFUL_JSON("3", ",\"updateStrategy\":{\"rollingUpdate\":{\"partition\":"
                                           "1}}")));
    for (int i = 0; i < 4; i++)
        run_pods(c);
    merge(c, STATEFUL("s"), NEW_IMAGE("i2"));
    (void)do_get(c->w, POD("s-2"));
    assert_field(c->w, "spec.containers[0].image", "i2");
    (void)do_get(c->w, POD("s-1"));
    assert_field(c->w, "spec.containers[0].image", "i"); // until the one above is ready
    for (int i = 0; i < 3; i++)
        run_pods(c);
    (void)do_get(c->w, POD("s-1"));
    assert_field(c->w, "spec.containers[0].image", "i2");
    assert_ok(do_delete(c->w, POD("s-0"), NULL));
    settle(c);
    (void)do_get(c->w, POD("s-0"));
    assert_field(c->w, "spec.containers[0].image", "i"); // below the partition: as before
    merge(c, STATEFUL("s"),
          "{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"partition\":0}}}}");
    for (int i = 0; i < 4; i++)
        run_pods(c);
    assert_int_equal(with_image(c, "i2"), 3);
    (void)do_get(c->w, STATEFUL("s"));
    assert_field(c->w, "status.currentRevision", reply_field(c->w, "status.updateRevision"));
    assert_field(c->w, "status.updatedReplicas", "3");
}

TEST_SETS(stateful_pods_have_storage_of_their_own)
{
    assert_ok(do_create(
        c->w, STATEFUL(""),
        STATEFUL_JSON("1", ",\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"data\"},\"spec\":{"
                           "\"accessModes\":[\"ReadWriteOnce\"],\"resources\":{\"requests\":{"
                           "\"storage\":\"1Gi\"}}}}]")));
    settle(c);
    assert_string_equal(find_one(c, "v1", "PersistentVolumeClaim"), "data-s-0");
    (void)do_get(c->w, POD("s-0"));
    assert_field(c->w, "spec.volumes[0].persistentVolumeClaim.claimName", "data-s-0");
}

TEST_SETS(stateful_adopts_no_pod_that_has_another_name)
{
    assert_ok(do_create(c->w, STATEFUL(""), STATEFUL_JSON("1", "")));
    assert_ok(do_create(c->w, POD(""),
                        "{\"metadata\":{\"name\":\"s-shell\",\"labels\":{\"app\":\"a\"}},"
                        "\"spec\":{" CONTAINERS "}}"));
    assert_ok(do_create(c->w, POD(""),
                        "{\"metadata\":{\"name\":\"s-7\",\"labels\":{\"app\":\"a\"}},"
                        "\"spec\":{" CONTAINERS "}}"));
    settle(c);
    (void)do_get(c->w, POD("s-shell"));
    assert_field(c->w, "metadata.ownerReferences", "-");
    (void)do_get(c->w, POD("s-7"));
    assert_field(c->w, "metadata.ownerReferences[0].name", "s");
}

// --- Numbers that no rule allows, or hardly any ---------------------------------------------------

TEST_SETS(daemon_with_a_negative_history_limit_keeps_no_old_revision)
{
    static const char *const negative[] = {"\"revisionHistoryLimit\":10",
                                           "\"revisionHistoryLimit\":-1", "\"maxUnavailable\":1",
                                           "\"maxUnavailable\":-7", NULL};
    struct reply *refused =
        do_create(c->w, DAEMON(""), DAEMON_JSON("", ",\"revisionHistoryLimit\":-1"));
    assert_int_equal(refused->http, 422);
    add_node(c, "n1", "");
    assert_ok(do_create(c->w, DAEMON(""), DAEMON_JSON("", "")));
    settle(c);
    run_pods(c);
    merge(c, DAEMON("d"), NEW_IMAGE("i2"));
    run_pods(c);
    assert_int_equal(count_of(c, "apps/v1", "ControllerRevision"), 2);
    plant(c, DAEMON("d"), negative);
    assert_true(comes_to_rest(c));
    assert_int_equal(count_of(c, "apps/v1", "ControllerRevision"), 1);
    assert_int_equal(with_image(c, "i2"), 1);
}

TEST_SETS(stateful_with_a_negative_history_limit_keeps_no_old_revision)
{
    assert_ok(do_create(c->w, STATEFUL(""), STATEFUL_JSON("1", ",\"revisionHistoryLimit\":-1")));
    settle(c);
    run_pods(c);
    merge(c, STATEFUL("s"), NEW_IMAGE("i2"));
    run_pods(c);
    run_pods(c);
    assert_true(comes_to_rest(c));
    assert_int_equal(with_image(c, "i2"), 1);
    assert_int_equal(count_of(c, "apps/v1", "ControllerRevision"), 1);
}

TEST_SETS(stateful_with_negative_numbers_has_no_pods)
{
    static const char *const negative[] = {
        "\"replicas\":2",  "\"replicas\":-2147483648",  "\"start\":5", "\"start\":-2147483648",
        "\"partition\":0", "\"partition\":-2147483648", NULL};
    assert_ok(do_create(c->w, STATEFUL(""),
                        STATEFUL_JSON("2", ",\"ordinals\":{\"start\":5},"
                                           "\"podManagementPolicy\":\"Parallel\"")));
    settle(c);
    run_pods(c);
    assert_int_equal(pods_of(c).n, 2);
    plant(c, STATEFUL("s"), negative);
    assert_true(comes_to_rest(c));
    assert_int_equal(pods_of(c).n, 0);
}

TEST_SETS(stateful_takes_no_memory_for_pods_that_do_not_exist)
{
    assert_ok(do_create(c->w, STATEFUL(""), STATEFUL_JSON("2147483647", "")));
    settle(c);
    for (size_t n = 1; n <= 3; n++) {
        assert_int_equal(pods_of(c).n, n);
        run_pods(c);
    }
    // A gap is filled first.
    assert_ok(do_delete(c->w, POD("s-1"), NULL));
    settle(c);
    (void)do_get(c->w, POD("s-1"));
    assert_field(c->w, "status.phase", "Pending");
    assert_int_equal(pods_of(c).n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stateful_adopts_no_pod_that_has_another_name),
        cmocka_unit_test(daemon_runs_one_pod_on_every_node_that_matches),
        cmocka_unit_test(daemon_leaves_nodes_that_do_not_match_any_more),
        cmocka_unit_test(daemon_pod_that_failed_is_replaced),
        cmocka_unit_test(daemon_pod_that_fails_again_and_again_is_not_made_as_fast_as_can_be),
        cmocka_unit_test(
            daemon_pod_that_fails_beside_the_one_it_replaces_is_not_made_as_fast_as_can_be),
        cmocka_unit_test(daemon_rolls_no_more_nodes_at_once_than_may_be_without),
        cmocka_unit_test(daemon_with_on_delete_waits_for_its_pods_to_be_deleted),
        cmocka_unit_test(stateful_makes_pods_one_after_the_other),
        cmocka_unit_test(stateful_pod_that_goes_comes_back_with_its_name),
        cmocka_unit_test(stateful_shrinks_from_the_highest_number),
        cmocka_unit_test(stateful_parallel_does_not_wait),
        cmocka_unit_test(stateful_rolls_from_the_highest_down_to_the_partition),
        cmocka_unit_test(stateful_pods_have_storage_of_their_own),
        cmocka_unit_test(daemon_with_a_negative_history_limit_keeps_no_old_revision),
        cmocka_unit_test(stateful_with_a_negative_history_limit_keeps_no_old_revision),
        cmocka_unit_test(stateful_with_negative_numbers_has_no_pods),
        cmocka_unit_test(stateful_takes_no_memory_for_pods_that_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
