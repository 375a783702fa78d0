// SPDX-License-Identifier: Apache-2.0
//
// The claim controller, rule by rule. Names begin with the section of the behaviour they are about:
// a2 names, a3 events, a4 pods, a6 claims, a7 extended resources, gc owners.
#include "ctl_world.h"

#include "base/banned.h"

TEST_WITH_CTL(a4_makes_a_claim_from_a_template_and_names_it)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    settle(c);
    const char *name = the_claim(c);
    assert_non_null(name);
    assert_memory_equal(name, "web-gpu-", 8);
    assert_int_equal(strlen(name), 13);
    (void)do_get(c->w, POD("web"));
    assert_field(c->w, "status.resourceClaimStatuses[0].name", "gpu");
    assert_field(c->w, "status.resourceClaimStatuses[0].resourceClaimName", name);
    const char *uid = reply_field(c->w, "metadata.uid");
    (void)do_get(c->w, CLAIM(name));
    assert_field(c->w, "metadata.ownerReferences[0].uid", uid);
    assert_field(c->w, "metadata.ownerReferences[0].kind", "Pod");
    assert_field(c->w, "metadata.ownerReferences[0].controller", "true");
    assert_field(c->w, "metadata.ownerReferences[0].blockOwnerDeletion", "-");
    assert_field(c->w, "metadata.labels.l", "1");
    assert_field(c->w, "metadata.annotations.a", "2");
    assert_field(c->w, "metadata.annotations[resource.kubernetes.io/pod-claim-name]", "gpu");
    assert_field(c->w, "metadata.generateName", "web-gpu-");
    assert_field(c->w, "spec.devices.requests[0].exactly.deviceClassName", "gpu");
    assert_true(ctl_idle(c->ctl));
}

TEST_WITH_CTL(a4_cuts_long_names_in_proportion)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    // 40 + 1 + 20 + 1 = 62 characters: 40 * 57 / 62 = 36 and 20 * 57 / 62 = 18 are kept.
    assert_ok(do_create(c->w, POD(""),
                        POD_JSON("p123456789p123456789p123456789p123456789",
                                 ",\"resourceClaims\":[{\"name\":\"e123456789e123456789\","
                                 "\"resourceClaimTemplateName\":\"t\"}]")));
    settle(c);
    (void)do_get(c->w, CLAIM(the_claim(c)));
    assert_field(c->w, "metadata.generateName",
                 "p123456789p123456789p123456789p12345-e123456789e1234567");
}

TEST_WITH_CTL(a3_a_template_created_late_costs_nothing)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    world_pass(c->w, 600);
    assert_null(the_claim(c));
    assert_int_equal(count_of(c, "v1", "Event"), 1);
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    world_run(c->w);
    assert_non_null(the_claim(c));
}

TEST_WITH_CTL(a4_tells_people_when_the_template_is_missing)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    settle(c);
    (void)do_get(c->w, (struct target){"v1", "Event", "", "default", find_one(c, "v1", "Event")});
    assert_field(c->w, "reason", "FailedResourceClaimCreation");
    assert_field(c->w, "type", "Warning");
    assert_non_null(strstr(reply_field(c->w, "message"),
                           "PodResourceClaim gpu: resource claim template \"t\""));
}

TEST_WITH_CTL(a4_finds_a_claim_whose_name_was_not_written_down)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    (void)do_get(c->w, POD("web"));
    const char *claim =
        arena_strf(&c->w->arena,
                   "{\"metadata\":{\"name\":\"orphan\",\"annotations\":{\"resource.kubernetes.io/"
                   "pod-claim-name\":\"gpu\"},\"ownerReferences\":[{\"apiVersion\":\"v1\","
                   "\"kind\":\"Pod\",\"name\":\"web\",\"uid\":\"%s\",\"controller\":true}]},"
                   "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{"
                   "\"deviceClassName\":\"gpu\"}}]}}}",
                   reply_field(c->w, "metadata.uid"))
            .p;
    assert_ok(do_create(c->w, CLAIM(""), claim));
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    settle(c);
    assert_string_equal(the_claim(c), "orphan");
    (void)do_get(c->w, POD("web"));
    assert_field(c->w, "status.resourceClaimStatuses[0].resourceClaimName", "orphan");
}

TEST_WITH_CTL(a4_makes_a_new_claim_when_the_named_one_is_gone)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    settle(c);
    const char *first = the_claim(c);
    (void)do_get(c->w, CLAIM(first));
    const char *uid = reply_field(c->w, "metadata.uid");
    assert_ok(do_delete(c->w, CLAIM(first), NULL));
    settle(c);
    const char *second = the_claim(c);
    assert_non_null(second);
    (void)do_get(c->w, CLAIM(second));
    assert_string_not_equal(uid, reply_field(c->w, "metadata.uid"));
    (void)do_get(c->w, POD("web"));
    assert_field(c->w, "status.resourceClaimStatuses[0].resourceClaimName", second);
}

TEST_WITH_CTL(a2_a_claim_named_by_the_pod_is_the_users_business)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_CLAIM)));
    settle(c);
    assert_null(the_claim(c));
    assert_int_equal(count_of(c, "v1", "Event"), 0);
}

TEST_WITH_CTL(a4_reserves_allocated_claims_for_pods_bound_by_others)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("other", FROM_CLAIM)));
    allocate(c, "shared", "x", consumer(c, "other"));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_CLAIM)));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor[1]", "-");
    bind_pod(c, "web");
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor[1].name", "web");
}

TEST_WITH_CTL(a6_a_finished_pod_frees_and_removes_its_claim)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    settle(c);
    allocate(c, the_claim(c), "x", consumer(c, "web"));
    bind_pod(c, "web");
    settle(c);
    assert_non_null(the_claim(c));
    assert_ok(do_patch(c->w, POD_STATUS("web"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"phase\":\"Succeeded\"}}"));
    settle(c);
    assert_null(the_claim(c));
    cleanup_sbuf struct sbuf problems = {0};
    assert_true(ctl_check(c->ctl, &problems)); // nothing is remembered of it
}

TEST_WITH_CTL(a6_a_shared_claim_is_freed_by_its_last_user_and_stays)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", FROM_CLAIM)));
    assert_ok(do_create(c->w, POD(""), POD_JSON("two", FROM_CLAIM)));
    const char *both = arena_strf(&c->w->arena, "%s,%s", consumer(c, "one"), consumer(c, "two")).p;
    allocate(c, "shared", "x", both);
    settle(c);
    assert_ok(do_delete(c->w, POD("one"), NULL));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor[0].name", "two");
    assert_field(c->w, "status.reservedFor[1]", "-");
    assert_field(c->w, "status.allocation.devices.results[0].device", "x");
    assert_ok(do_delete(c->w, POD("two"), NULL));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "metadata.name", "shared");
    assert_field(c->w, "status.allocation", "-");
    assert_field(c->w, "metadata.finalizers", "-");
}

TEST_WITH_CTL(a6_a_claim_that_was_never_reserved_stays_allocated)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    allocate(c, "shared", "x", "");
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.allocation.devices.results[0].device", "x");
}

// A scheduler whose binding failed takes the reservation back and leaves the allocation to the next attempt.
TEST_WITH_CTL(an_allocation_that_a_scheduler_left_goes_with_the_last_pod_that_wants_it)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", FROM_CLAIM)));
    allocate(c, "shared", "x", consumer(c, "one"));
    settle(c);
    assert_ok(do_patch(c->w, CLAIM_STATUS("shared"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"reservedFor\":null}}"));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.allocation.devices.results[0].device", "x");
    assert_ok(do_delete(c->w, POD("one"), NULL));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.allocation", "-");
    assert_field(c->w, "metadata.finalizers", "-");
}

// extended_claim makes a claim as a scheduler does for the extended resources of pod one.
static void extended_claim(struct ctl_world *c, bool filled)
{
    const char *user = consumer(c, "one");
    const char *uid = reply_field(c->w, "metadata.uid");
    const char *claim =
        arena_strf(
            &c->w->arena,
            "{\"metadata\":{\"name\":\"ext\",\"annotations\":{\"resource.kubernetes.io/"
            "extended-resource-claim\":\"true\"},\"ownerReferences\":[{\"apiVersion\":\"v1\","
            "\"kind\":\"Pod\",\"name\":\"one\",\"uid\":\"%s\",\"controller\":true}]},"
            "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{"
            "\"deviceClassName\":\"gpu\"}}]}}}",
            uid)
            .p;
    assert_ok(do_create(c->w, CLAIM(""), claim));
    if (filled)
        allocate(c, "ext", "x", user);
    settle(c);
}

// The pod's status need not name a claim that a scheduler made for extended resources.
TEST_WITH_CTL(a_claim_for_extended_resources_that_no_status_names_goes_with_its_pod)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", "")));
    settle(c);
    extended_claim(c, true);
    assert_non_null(the_claim(c));
    assert_ok(do_delete(c->w, POD("one"), NULL));
    settle(c);
    assert_null(the_claim(c));
}

// The status names the claim before the pod is bound: one that it does not name then came too late.
TEST_WITH_CTL(a_claim_for_extended_resources_that_a_running_pod_does_not_name_goes)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", "")));
    settle(c);
    extended_claim(c, true);
    assert_non_null(the_claim(c)); // the pod may still be bound with it
    bind_pod(c, "one");
    settle(c);
    assert_null(the_claim(c));
    assert_ok(do_get(c->w, POD("one")));
}

TEST_WITH_CTL(a_claim_for_extended_resources_that_is_made_after_the_binding_goes)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", "")));
    settle(c);
    bind_pod(c, "one");
    settle(c);
    extended_claim(c, false);
    assert_null(the_claim(c));
}

TEST_WITH_CTL(a6_the_finalizer_alone_is_the_schedulers_business)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_patch(c->w, CLAIM("shared"), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"finalizers\":[\"resource.kubernetes.io/"
                       "delete-protection\"]}}"));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "metadata.finalizers[0]", "resource.kubernetes.io/delete-protection");
}

TEST_WITH_CTL(a6_a_deleted_claim_goes_when_nobody_uses_it)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", FROM_CLAIM)));
    allocate(c, "shared", "x", consumer(c, "one"));
    assert_ok(do_delete(c->w, CLAIM("shared"), NULL));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_string_not_equal(reply_field(c->w, "metadata.deletionTimestamp"), "-");
    assert_ok(do_delete(c->w, POD("one"), NULL));
    settle(c);
    assert_null(the_claim(c));
}

TEST_WITH_CTL(a6_a_deleted_claim_without_users_loses_its_allocation_first)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    allocate(c, "shared", "x", "");
    assert_ok(do_delete(c->w, CLAIM("shared"), NULL));
    settle(c);
    assert_null(the_claim(c));
}

TEST_WITH_CTL(a6_consumers_of_other_kinds_are_left_alone)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    allocate(c, "shared", "x",
             "{\"apiGroup\":\"other.io\",\"resource\":\"things\",\"name\":\"y\",\"uid\":\"u\"}");
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor[0].name", "y");
}

TEST_WITH_CTL(a6_a_pod_made_anew_under_the_same_name_is_another_consumer)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", FROM_CLAIM)));
    const char *old = consumer(c, "one");
    assert_ok(do_delete(c->w, POD("one"), NULL));
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", FROM_CLAIM)));
    allocate(c, "shared", "x", old);
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor", "-");
    assert_field(c->w, "status.allocation", "-");
}

TEST_WITH_CTL(a7_the_claim_of_an_extended_resource_goes_with_its_pod)
{
    assert_ok(do_create(c->w, POD(""),
                        "{\"metadata\":{\"name\":\"web\"},\"spec\":{\"containers\":[{\"name\":"
                        "\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"e.io/gpu\":\"1\"},"
                        "\"limits\":{\"e.io/gpu\":\"1\"}}}]}}"));
    (void)do_get(c->w, POD("web"));
    const char *uid = reply_field(c->w, "metadata.uid");
    const char *claim =
        arena_strf(
            &c->w->arena,
            "{\"metadata\":{\"name\":\"ext\",\"annotations\":{\"resource.kubernetes.io/"
            "extended-resource-claim\":\"true\"},\"ownerReferences\":[{\"apiVersion\":\"v1\","
            "\"kind\":\"Pod\",\"name\":\"web\",\"uid\":\"%s\",\"controller\":true}]},"
            "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{"
            "\"deviceClassName\":\"gpu\"}}]}}}",
            uid)
            .p;
    assert_ok(do_create(c->w, CLAIM(""), claim));
    assert_ok(do_patch(c->w, POD_STATUS("web"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"extendedResourceClaimStatus\":{\"resourceClaimName\":"
                       "\"ext\",\"requestMappings\":[{\"containerName\":\"c\",\"resourceName\":"
                       "\"e.io/gpu\",\"requestName\":\"r\"}]}}}"));
    allocate(c, "ext", "x", consumer(c, "web"));
    bind_pod(c, "web");
    assert_ok(do_patch(c->w, POD_STATUS("web"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"phase\":\"Failed\"}}"));
    settle(c);
    assert_null(the_claim(c));
}

TEST_WITH_CTL(gc_a_claim_goes_with_its_pod)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    settle(c);
    assert_non_null(the_claim(c));
    assert_ok(do_delete(c->w, POD("web"), NULL));
    settle(c);
    assert_null(the_claim(c));
}

TEST_WITH_CTL(gc_slices_go_with_their_node_and_others_stay)
{
    assert_ok(do_create(c->w, NODE(""), "{\"metadata\":{\"name\":\"n1\"}}"));
    const char *uid = reply_field(c->w, "metadata.uid");
    const char *slice = arena_strf(&c->w->arena,
                                   "{\"metadata\":{\"name\":\"s1\",\"ownerReferences\":[{"
                                   "\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"n1\","
                                   "\"uid\":\"%s\"}]},\"spec\":{\"driver\":\"d.io\",\"nodeName\":"
                                   "\"n1\",\"pool\":{\"name\":\"p\",\"generation\":1,"
                                   "\"resourceSliceCount\":1}}}",
                                   uid)
                            .p;
    assert_ok(do_create(c->w, SLICE(""), slice));
    assert_ok(
        do_create(c->w, SLICE(""),
                  "{\"metadata\":{\"name\":\"s2\"},\"spec\":{\"driver\":\"d.io\",\"nodeName\":"
                  "\"n1\",\"pool\":{\"name\":\"q\",\"generation\":1,\"resourceSliceCount\":1}}"
                  "}"));
    assert_ok(
        do_create(c->w, SLICE(""),
                  "{\"metadata\":{\"name\":\"s3\",\"ownerReferences\":[{\"apiVersion\":"
                  "\"apps/v1\",\"kind\":\"DaemonSet\",\"name\":\"x\",\"uid\":\"u\"}]},"
                  "\"spec\":{\"driver\":\"d.io\",\"nodeName\":\"n1\",\"pool\":{\"name\":\"r\","
                  "\"generation\":1,\"resourceSliceCount\":1}}}"));
    settle(c);
    assert_ok(do_delete(c->w, NODE("n1"), NULL));
    settle(c);
    (void)do_get(c->w, SLICE("s1"));
    assert_field(c->w, "metadata.name", "-");
    (void)do_get(c->w, SLICE("s2"));
    assert_field(c->w, "metadata.name", "s2");
    (void)do_get(c->w, SLICE("s3"));
    assert_field(c->w, "metadata.name", "s3");
}

TEST_WITH_CTL(a_restart_at_any_moment_loses_nothing)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    for (int i = 0; i < 40; i++) {
        for (int steps = 0; steps < i % 7; steps++)
            (void)exec_sim_step(c->w->sim);
        ctl_world_restart(c);
    }
    settle(c);
    const char *name = the_claim(c); // fails if there is more than one
    assert_non_null(name);
    allocate(c, name, "x", consumer(c, "web"));
    bind_pod(c, "web");
    assert_ok(do_patch(c->w, POD_STATUS("web"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"phase\":\"Succeeded\"}}"));
    for (int i = 0; i < 40; i++) {
        for (int steps = 0; steps < i % 5; steps++)
            (void)exec_sim_step(c->w->sim);
        ctl_world_restart(c);
    }
    settle(c);
    assert_null(the_claim(c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a4_makes_a_claim_from_a_template_and_names_it),
        cmocka_unit_test(a4_cuts_long_names_in_proportion),
        cmocka_unit_test(a3_a_template_created_late_costs_nothing),
        cmocka_unit_test(a4_tells_people_when_the_template_is_missing),
        cmocka_unit_test(a4_finds_a_claim_whose_name_was_not_written_down),
        cmocka_unit_test(a4_makes_a_new_claim_when_the_named_one_is_gone),
        cmocka_unit_test(a2_a_claim_named_by_the_pod_is_the_users_business),
        cmocka_unit_test(a4_reserves_allocated_claims_for_pods_bound_by_others),
        cmocka_unit_test(a6_a_finished_pod_frees_and_removes_its_claim),
        cmocka_unit_test(a6_a_shared_claim_is_freed_by_its_last_user_and_stays),
        cmocka_unit_test(a6_a_claim_that_was_never_reserved_stays_allocated),
        cmocka_unit_test(a6_the_finalizer_alone_is_the_schedulers_business),
        cmocka_unit_test(an_allocation_that_a_scheduler_left_goes_with_the_last_pod_that_wants_it),
        cmocka_unit_test(a_claim_for_extended_resources_that_no_status_names_goes_with_its_pod),
        cmocka_unit_test(a_claim_for_extended_resources_that_a_running_pod_does_not_name_goes),
        cmocka_unit_test(a_claim_for_extended_resources_that_is_made_after_the_binding_goes),
        cmocka_unit_test(a6_a_deleted_claim_goes_when_nobody_uses_it),
        cmocka_unit_test(a6_a_deleted_claim_without_users_loses_its_allocation_first),
        cmocka_unit_test(a6_consumers_of_other_kinds_are_left_alone),
        cmocka_unit_test(a6_a_pod_made_anew_under_the_same_name_is_another_consumer),
        cmocka_unit_test(a7_the_claim_of_an_extended_resource_goes_with_its_pod),
        cmocka_unit_test(gc_a_claim_goes_with_its_pod),
        cmocka_unit_test(gc_slices_go_with_their_node_and_others_stay),
        cmocka_unit_test(a_restart_at_any_moment_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
