// SPDX-License-Identifier: Apache-2.0
//
// ReplicaSets and Deployments. Each test is named for the rule.
#include "ctl_kubelet.h"

#include "base/banned.h"

#define LOADS_ON         (WITH(CTL_REPLICA_SETS) | WITH(CTL_DEPLOYMENTS))
#define TEST_LOADS(name) TEST_WITH_CTLS(name, "", LOADS_ON)

#define SET(name)    ((struct target){"apps/v1", "ReplicaSet", "", "default", name})
#define DEPLOY(name) ((struct target){"apps/v1", "Deployment", "", "default", name})
#define SET_JSON(replicas, rest)                                                               \
    "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"replicas\":" replicas                          \
    ",\"selector\":{\"matchLabels\":{\"app\":\"a\"}},\"template\":{\"metadata\":{\"labels\":{" \
    "\"app\":\"a\"}},\"spec\":{" CONTAINERS "}}" rest "}}"
#define DEPLOY_JSON(replicas, rest)                                                            \
    "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"replicas\":" replicas                          \
    ",\"selector\":{\"matchLabels\":{\"app\":\"a\"}},\"template\":{\"metadata\":{\"labels\":{" \
    "\"app\":\"a\"}},\"spec\":{" CONTAINERS "}}" rest "}}"
#define NEW_IMAGE(image)                                                                    \
    "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"" image \
    "\"}]}}}}"

static void merge(struct ctl_world *c, struct target t, const char *patch)
{
    assert_ok(do_patch(c->w, t, REGISTRY_PATCH_MERGE, patch));
    settle(c);
}

// --- ReplicaSets ---------------------------------------------------------------------------------

TEST_LOADS(rs_makes_as_many_pods_as_are_wanted_and_says_so)
{
    assert_ok(do_create(c->w, SET(""), SET_JSON("3", "")));
    settle(c);
    struct names pods = pods_of(c);
    assert_int_equal(pods.n, 3);
    (void)do_get(c->w, POD(pods.p[0]));
    assert_memory_equal(pods.p[0], "s-", 2);
    assert_field(c->w, "metadata.ownerReferences[0].kind", "ReplicaSet");
    assert_field(c->w, "metadata.ownerReferences[0].apiVersion", "apps/v1");
    assert_field(c->w, "metadata.ownerReferences[0].controller", "true");
    assert_field(c->w, "metadata.ownerReferences[0].blockOwnerDeletion", "true");
    assert_field(c->w, "metadata.labels.app", "a");
    (void)do_get(c->w, SET("s"));
    assert_field(c->w, "status.replicas", "3");
    assert_field(c->w, "status.fullyLabeledReplicas", "3");
    assert_field(c->w, "status.readyReplicas", "-");
    assert_field(c->w, "status.observedGeneration", "1");
    run_pods(c);
    (void)do_get(c->w, SET("s"));
    assert_field(c->w, "status.readyReplicas", "3");
    assert_field(c->w, "status.availableReplicas", "3");
    assert_int_equal(count_events(c, "SuccessfulCreate"), 3);
}

TEST_LOADS(rs_a_pod_that_ends_or_goes_is_replaced)
{
    assert_ok(do_create(c->w, SET(""), SET_JSON("2", "")));
    settle(c);
    struct names pods = pods_of(c);
    end_pod(c, pods.p[0], "Failed");
    assert_ok(do_delete(c->w, POD(pods.p[1]), NULL));
    settle(c);
    assert_int_equal(pods_of(c).n, 3); // the failed one stays to be looked at
    (void)do_get(c->w, SET("s"));
    assert_field(c->w, "status.replicas", "2");
}

TEST_LOADS(rs_scaled_down_deletes_what_is_not_ready_and_what_costs_least_first)
{
    assert_ok(do_create(c->w, SET(""), SET_JSON("4", "")));
    settle(c);
    struct names pods = pods_of(c);
    for (size_t i = 0; i < 3; i++)
        make_ready(c, pods.p[i]); // the fourth is not
    assert_ok(do_patch(c->w, POD(pods.p[1]), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"annotations\":{\"controller.kubernetes.io/"
                       "pod-deletion-cost\":\"-5\"}}}"));
    merge(c, SET("s"), "{\"spec\":{\"replicas\":2}}");
    struct names left = pods_of(c);
    assert_int_equal(left.n, 2);
    assert_string_equal(left.p[0], pods.p[0]);
    assert_string_equal(left.p[1], pods.p[2]);
    assert_int_equal(count_events(c, "SuccessfulDelete"), 2);
}

TEST_LOADS(rs_adopts_pods_that_match_and_releases_those_that_do_not)
{
    assert_ok(do_create(c->w, POD(""),
                        "{\"metadata\":{\"name\":\"mine\",\"labels\":{\"app\":\"a\"}},\"spec\":{"
                        "" CONTAINERS "}}"));
    assert_ok(do_create(c->w, SET(""), SET_JSON("2", "")));
    settle(c);
    assert_int_equal(pods_of(c).n, 2);
    (void)do_get(c->w, POD("mine"));
    assert_field(c->w, "metadata.ownerReferences[0].name", "s");
    merge(c, POD("mine"), "{\"metadata\":{\"labels\":{\"app\":\"other\"}}}");
    (void)do_get(c->w, POD("mine"));
    assert_field(c->w, "metadata.ownerReferences", "-");
    assert_int_equal(pods_of(c).n, 3); // a new one in its place
}

TEST_LOADS(rs_pods_are_available_after_min_ready_seconds)
{
    assert_ok(do_create(c->w, SET(""), SET_JSON("1", ",\"minReadySeconds\":30")));
    settle(c);
    run_pods(c);
    (void)do_get(c->w, SET("s"));
    assert_field(c->w, "status.readyReplicas", "1");
    assert_field(c->w, "status.availableReplicas", "-");
    world_pass(c->w, 40);
    (void)do_get(c->w, SET("s"));
    assert_field(c->w, "status.availableReplicas", "1");
}

TEST_LOADS(rs_what_the_server_refuses_is_a_condition_and_an_event)
{
    assert_ok(do_create(c->w, SET(""),
                        "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                        "\"app\":\"a\"}},\"template\":{\"metadata\":{\"labels\":{\"app\":\"a\"}},"
                        "\"spec\":{\"priorityClassName\":\"none-such\"," CONTAINERS "}}}}"));
    world_pass(c->w, 5);
    assert_int_equal(pods_of(c).n, 0);
    (void)do_get(c->w, SET("s"));
    assert_field(c->w, "status.conditions[0].type", "ReplicaFailure");
    assert_field(c->w, "status.conditions[0].reason", "FailedCreate");
    assert_true(count_events(c, "FailedCreate") > 0);
}

TEST_LOADS(rs_that_is_being_deleted_makes_no_pods)
{
    assert_ok(do_create(c->w, SET(""),
                        "{\"metadata\":{\"name\":\"s\",\"finalizers\":[\"x/y\"]},\"spec\":{"
                        "\"replicas\":0,\"selector\":{\"matchLabels\":{\"app\":\"a\"}},"
                        "\"template\":{\"metadata\":{\"labels\":{\"app\":\"a\"}},\"spec\":{"
                        "" CONTAINERS "}}}}"));
    assert_ok(do_delete(c->w, SET("s"), NULL));
    merge(c, SET("s"), "{\"spec\":{\"replicas\":2}}");
    assert_int_equal(pods_of(c).n, 0);
}

// --- Deployments ---------------------------------------------------------------------------------

// The set of the newest revision, and how many there are.
static const char *set_with_image(struct ctl_world *c, const char *image)
{
    struct names sets = names_of(c, "apps/v1", "ReplicaSet");
    for (size_t i = 0; i < sets.n; i++) {
        (void)do_get(c->w, SET(sets.p[i]));
        if (strcmp(reply_field(c->w, "spec.template.spec.containers[0].image"), image) == 0)
            return sets.p[i];
    }
    return NULL;
}

static const char *condition(struct ctl_world *c, const char *type, const char *field)
{
    (void)do_get(c->w, DEPLOY("d"));
    for (int i = 0; i < 4; i++) {
        const char *path = arena_strf(&c->w->arena, "status.conditions[%d].type", i).p;
        if (strcmp(reply_field(c->w, path), type) == 0)
            return reply_field(c->w,
                               arena_strf(&c->w->arena, "status.conditions[%d].%s", i, field).p);
    }
    return "-";
}

// A rollout to its end: pods run as soon as they are there.
static void roll(struct ctl_world *c)
{
    for (int i = 0; i < 20; i++)
        run_pods(c);
}

TEST_LOADS(deploy_makes_a_replica_set_of_its_template)
{
    assert_ok(do_create(c->w, DEPLOY(""), DEPLOY_JSON("3", "")));
    settle(c);
    assert_string_equal(condition(c, "Progressing", "reason"), "ReplicaSetUpdated");
    assert_string_equal(condition(c, "Available", "status"), "False");
    roll(c);
    const char *set = find_one(c, "apps/v1", "ReplicaSet");
    assert_non_null(set);
    (void)do_get(c->w, SET(set));
    const char *hash = reply_field(c->w, "metadata.labels.pod-template-hash");
    assert_string_equal(set, arena_strf(&c->w->arena, "d-%s", hash).p);
    assert_field(c->w, "spec.selector.matchLabels.pod-template-hash", hash);
    assert_field(c->w, "spec.template.metadata.labels.pod-template-hash", hash);
    assert_field(c->w, "metadata.ownerReferences[0].kind", "Deployment");
    (void)do_get(c->w, DEPLOY("d"));
    assert_field(c->w, "status.replicas", "3");
    assert_field(c->w, "status.updatedReplicas", "3");
    assert_field(c->w, "status.readyReplicas", "3");
    assert_field(c->w, "status.availableReplicas", "3");
    assert_field(c->w, "status.unavailableReplicas", "-");
    assert_string_equal(condition(c, "Progressing", "reason"), "NewReplicaSetAvailable");
    assert_string_equal(condition(c, "Available", "reason"), "MinimumReplicasAvailable");
    assert_int_equal(count_events(c, "ScalingReplicaSet"), 1);
}

TEST_LOADS(deploy_rolls_within_surge_and_unavailability)
{
    assert_ok(do_create(c->w, DEPLOY(""),
                        DEPLOY_JSON("4", ",\"strategy\":{\"rollingUpdate\":{\"maxSurge\":1,"
                                         "\"maxUnavailable\":1}}")));
    roll(c);
    merge(c, DEPLOY("d"), NEW_IMAGE("i2"));
    for (int i = 0; i < 20; i++) {
        struct names pods = pods_of(c);
        size_t ready = 0;
        for (size_t k = 0; k < pods.n; k++) {
            (void)do_get(c->w, POD(pods.p[k]));
            ready += strcmp(reply_field(c->w, "status.phase"), "Running") == 0;
        }
        assert_true(pods.n <= 5);
        assert_true(ready >= 3);
        for (size_t k = 0; k < pods.n; k++) { // one at a time
            (void)do_get(c->w, POD(pods.p[k]));
            if (strcmp(reply_field(c->w, "status.phase"), "Pending") != 0)
                continue;
            make_ready(c, pods.p[k]);
            break;
        }
        settle(c);
    }
    assert_int_equal(pods_of(c).n, 4);
    (void)do_get(c->w, SET(set_with_image(c, "i2")));
    assert_field(c->w, "status.availableReplicas", "4");
    assert_field(c->w, "metadata.annotations[deployment.kubernetes.io/revision]", "2");
    (void)do_get(c->w, SET(set_with_image(c, "i")));
    assert_field(c->w, "spec.replicas", "0");
    assert_string_equal(condition(c, "Progressing", "reason"), "NewReplicaSetAvailable");
}

TEST_LOADS(deploy_goes_back_to_an_old_template_with_its_old_set)
{
    assert_ok(do_create(c->w, DEPLOY(""), DEPLOY_JSON("2", "")));
    roll(c);
    const char *first = find_one(c, "apps/v1", "ReplicaSet");
    merge(c, DEPLOY("d"), NEW_IMAGE("i2"));
    roll(c);
    merge(c, DEPLOY("d"), NEW_IMAGE("i"));
    roll(c);
    assert_int_equal(count_of(c, "apps/v1", "ReplicaSet"), 2);
    assert_string_equal(set_with_image(c, "i"), first);
    (void)do_get(c->w, SET(first));
    assert_field(c->w, "spec.replicas", "2");
    assert_field(c->w, "metadata.annotations[deployment.kubernetes.io/revision]", "3");
    assert_field(c->w, "metadata.annotations[deployment.kubernetes.io/revision-history]", "1");
    (void)do_get(c->w, DEPLOY("d"));
    assert_field(c->w, "metadata.annotations[deployment.kubernetes.io/revision]", "3");
}

TEST_LOADS(deploy_rolls_back_when_the_old_annotation_asks)
{
    assert_ok(do_create(c->w, DEPLOY(""), DEPLOY_JSON("1", "")));
    roll(c);
    merge(c, DEPLOY("d"), NEW_IMAGE("i2"));
    roll(c);
    merge(c, DEPLOY("d"),
          "{\"metadata\":{\"annotations\":{\"deprecated.deployment.rollback.to\":\"1\"}}}");
    roll(c);
    (void)do_get(c->w, DEPLOY("d"));
    assert_field(c->w, "spec.template.spec.containers[0].image", "i");
    assert_field(c->w, "metadata.annotations[deprecated.deployment.rollback.to]", "-");
    assert_int_equal(count_events(c, "DeploymentRollback"), 1);
}

TEST_LOADS(deploy_recreate_ends_all_old_pods_before_it_makes_new_ones)
{
    assert_ok(
        do_create(c->w, DEPLOY(""), DEPLOY_JSON("2", ",\"strategy\":{\"type\":\"Recreate\"}")));
    roll(c);
    struct names pods = pods_of(c);
    assert_ok(do_patch(c->w, POD(pods.p[0]), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"finalizers\":[\"x/y\"]}}"));
    merge(c, DEPLOY("d"), NEW_IMAGE("i2"));
    assert_int_equal(pods_of(c).n, 1); // it still ends
    assert_null(set_with_image(c, "i2"));
    merge(c, POD(pods.p[0]), "{\"metadata\":{\"finalizers\":null}}");
    roll(c);
    assert_int_equal(pods_of(c).n, 2);
    assert_non_null(set_with_image(c, "i2"));
}

TEST_LOADS(deploy_paused_does_not_roll_but_scales)
{
    assert_ok(do_create(c->w, DEPLOY(""), DEPLOY_JSON("2", "")));
    roll(c);
    merge(c, DEPLOY("d"), "{\"spec\":{\"paused\":true}}");
    assert_string_equal(condition(c, "Progressing", "reason"), "DeploymentPaused");
    merge(c, DEPLOY("d"), NEW_IMAGE("i2"));
    merge(c, DEPLOY("d"), "{\"spec\":{\"replicas\":5}}");
    roll(c);
    assert_null(set_with_image(c, "i2"));
    assert_int_equal(pods_of(c).n, 5);
    merge(c, DEPLOY("d"), "{\"spec\":{\"paused\":false}}");
    roll(c);
    assert_non_null(set_with_image(c, "i2"));
    assert_string_equal(condition(c, "Progressing", "reason"), "NewReplicaSetAvailable");
}

TEST_LOADS(deploy_without_progress_says_so_after_its_deadline)
{
    assert_ok(do_create(c->w, DEPLOY(""), DEPLOY_JSON("1", ",\"progressDeadlineSeconds\":60")));
    world_pass(c->w, 30);
    assert_string_equal(condition(c, "Progressing", "status"), "True");
    world_pass(c->w, 60);
    assert_string_equal(condition(c, "Progressing", "reason"), "ProgressDeadlineExceeded");
    assert_string_equal(condition(c, "Progressing", "status"), "False");
    roll(c);
    assert_string_equal(condition(c, "Progressing", "reason"), "NewReplicaSetAvailable");
}

TEST_LOADS(deploy_scaled_while_it_rolls_keeps_the_proportions)
{
    assert_ok(do_create(c->w, DEPLOY(""),
                        DEPLOY_JSON("10", ",\"strategy\":{\"rollingUpdate\":{\"maxSurge\":3,"
                                          "\"maxUnavailable\":2}}")));
    roll(c);
    merge(c, DEPLOY("d"), NEW_IMAGE("i2")); // 8 old, 5 new, none of which gets ready
    (void)do_get(c->w, SET(set_with_image(c, "i")));
    assert_field(c->w, "spec.replicas", "8");
    (void)do_get(c->w, SET(set_with_image(c, "i2")));
    assert_field(c->w, "spec.replicas", "5");
    merge(c, DEPLOY("d"), "{\"spec\":{\"replicas\":15}}");
    (void)do_get(c->w, SET(set_with_image(c, "i")));
    assert_field(c->w, "spec.replicas", "11");
    (void)do_get(c->w, SET(set_with_image(c, "i2")));
    assert_field(c->w, "spec.replicas", "7");
}

TEST_LOADS(deploy_keeps_as_many_old_sets_as_the_history_says)
{
    assert_ok(do_create(c->w, DEPLOY(""), DEPLOY_JSON("1", ",\"revisionHistoryLimit\":1")));
    roll(c);
    static const char *const images[] = {NEW_IMAGE("i2"), NEW_IMAGE("i3"), NEW_IMAGE("i4")};
    for (size_t i = 0; i < 3; i++) {
        merge(c, DEPLOY("d"), images[i]);
        roll(c);
    }
    assert_int_equal(count_of(c, "apps/v1", "ReplicaSet"), 2);
    assert_non_null(set_with_image(c, "i3"));
}

TEST_LOADS(deploy_takes_another_name_when_its_set_is_somebody_elses)
{
    assert_ok(do_create(c->w, DEPLOY(""), DEPLOY_JSON("1", "")));
    roll(c);
    const char *name = find_one(c, "apps/v1", "ReplicaSet");
    // The set becomes a stranger's: other labels, no owner, and so another template.
    assert_ok(do_patch(c->w, DEPLOY("d"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"paused\":true}}"));
    assert_ok(do_patch(c->w, SET(name), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"ownerReferences\":null,\"labels\":{\"app\":\"x\"}}}"));
    merge(c, DEPLOY("d"), "{\"spec\":{\"paused\":false}}");
    roll(c);
    (void)do_get(c->w, DEPLOY("d"));
    assert_field(c->w, "status.collisionCount", "1");
    assert_int_equal(count_of(c, "apps/v1", "ReplicaSet"), 2);
}

TEST_LOADS(deploy_survives_a_restart_in_the_middle_of_a_rollout)
{
    assert_ok(do_create(c->w, DEPLOY(""), DEPLOY_JSON("4", "")));
    roll(c);
    merge(c, DEPLOY("d"), NEW_IMAGE("i2"));
    for (int i = 0; i < 20; i++) {
        ctl_world_restart(c);
        run_pods(c);
    }
    assert_int_equal(pods_of(c).n, 4);
    (void)do_get(c->w, SET(set_with_image(c, "i2")));
    assert_field(c->w, "status.availableReplicas", "4");
}

TEST_LOADS(deploy_pods_get_claims_of_templates)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, DEPLOY(""),
                        "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"replicas\":3,\"selector\":{"
                        "\"matchLabels\":{\"app\":\"a\"}},\"template\":{\"metadata\":{\"labels\":{"
                        "\"app\":\"a\"}},\"spec\":{" CONTAINERS FROM_TEMPLATE "}}}}"));
    settle(c);
    assert_int_equal(count_of(c, "resource.k8s.io/v1", "ResourceClaim"), 3);
}

// Without the controller of ReplicaSets: it would make two thousand million pods.
TEST_WITH_CTLS(deploy_with_the_largest_numbers_does_not_overflow, "", WITH(CTL_DEPLOYMENTS))
{
    assert_ok(do_create(c->w, DEPLOY(""),
                        DEPLOY_JSON("2147483647",
                                    ",\"strategy\":{\"rollingUpdate\":{\"maxSurge\":2147483647,"
                                    "\"maxUnavailable\":2147483647}}")));
    settle(c);
    merge(c, DEPLOY("d"), NEW_IMAGE("i2"));
    assert_true(comes_to_rest(c));
    assert_int_equal(count_of(c, "apps/v1", "ReplicaSet"), 2);
    (void)do_get(c->w, SET(set_with_image(c, "i2")));
    assert_field(c->w, "spec.replicas", "2147483647");
    assert_field(c->w, "metadata.annotations[deployment.kubernetes.io/max-replicas]", "4294967294");
    merge(c, DEPLOY("d"), "{\"spec\":{\"replicas\":2147483646}}");
    assert_true(comes_to_rest(c));
}

TEST_WITH_CTLS(deploy_with_negative_numbers_scales_to_nothing, "", WITH(CTL_DEPLOYMENTS))
{
    static const char *const negative[] = {"\"replicas\":2",
                                           "\"replicas\":-2147483648",
                                           "\"maxSurge\":1",
                                           "\"maxSurge\":-2147483648",
                                           "\"maxUnavailable\":1",
                                           "\"maxUnavailable\":-2147483648",
                                           "\"revisionHistoryLimit\":10",
                                           "\"revisionHistoryLimit\":-2147483648",
                                           NULL};
    assert_ok(do_create(c->w, DEPLOY(""),
                        DEPLOY_JSON("2", ",\"strategy\":{\"rollingUpdate\":{\"maxSurge\":1,"
                                         "\"maxUnavailable\":1}}")));
    settle(c);
    plant(c, DEPLOY("d"), negative);
    assert_true(comes_to_rest(c));
    (void)do_get(c->w, SET(names_of(c, "apps/v1", "ReplicaSet").p[0]));
    assert_field(c->w, "spec.replicas", "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rs_makes_as_many_pods_as_are_wanted_and_says_so),
        cmocka_unit_test(rs_a_pod_that_ends_or_goes_is_replaced),
        cmocka_unit_test(rs_scaled_down_deletes_what_is_not_ready_and_what_costs_least_first),
        cmocka_unit_test(rs_adopts_pods_that_match_and_releases_those_that_do_not),
        cmocka_unit_test(rs_pods_are_available_after_min_ready_seconds),
        cmocka_unit_test(rs_what_the_server_refuses_is_a_condition_and_an_event),
        cmocka_unit_test(rs_that_is_being_deleted_makes_no_pods),
        cmocka_unit_test(deploy_makes_a_replica_set_of_its_template),
        cmocka_unit_test(deploy_rolls_within_surge_and_unavailability),
        cmocka_unit_test(deploy_goes_back_to_an_old_template_with_its_old_set),
        cmocka_unit_test(deploy_rolls_back_when_the_old_annotation_asks),
        cmocka_unit_test(deploy_recreate_ends_all_old_pods_before_it_makes_new_ones),
        cmocka_unit_test(deploy_paused_does_not_roll_but_scales),
        cmocka_unit_test(deploy_without_progress_says_so_after_its_deadline),
        cmocka_unit_test(deploy_scaled_while_it_rolls_keeps_the_proportions),
        cmocka_unit_test(deploy_keeps_as_many_old_sets_as_the_history_says),
        cmocka_unit_test(deploy_takes_another_name_when_its_set_is_somebody_elses),
        cmocka_unit_test(deploy_survives_a_restart_in_the_middle_of_a_rollout),
        cmocka_unit_test(deploy_pods_get_claims_of_templates),
        cmocka_unit_test(deploy_with_the_largest_numbers_does_not_overflow),
        cmocka_unit_test(deploy_with_negative_numbers_scales_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
