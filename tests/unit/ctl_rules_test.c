// SPDX-License-Identifier: Apache-2.0
//
// Rules of the controllers that ctl_claim_test.c and ctl_taint_test.c do not come by. Names begin with
// the section, as there.
#include "ctl_world.h"

#include "base/banned.h"

#define EVENT(name) ((struct target){"v1", "Event", "", "default", name})
#define GROUP(name) ((struct target){"scheduling.k8s.io/v1beta1", "PodGroup", "", "default", name})
#define GROUPS_ON   "GenericWorkload=true,DRAWorkloadResourceClaims=true"

TEST_WITH_CTL(a1_events_and_fields_carry_the_controllers_name)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    settle(c);
    (void)do_get(c->w, EVENT(find_one(c, "v1", "Event")));
    assert_field(c->w, "source.component", "resource_claim");
}

TEST_WITH_CTL(a2_an_entry_whose_status_has_no_name_needs_no_claim)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    settle(c);
    assert_ok(do_patch(c->w, POD_STATUS("web"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"resourceClaimStatuses\":[{\"name\":\"gpu\"}]}}"));
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    world_pass(c->w, 600);
    assert_null(the_claim(c));
}

TEST_WITH_CTL(a4_a_claim_of_somebody_else_is_replaced)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("foreign")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    assert_ok(do_patch(c->w, POD_STATUS("web"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"resourceClaimStatuses\":[{\"name\":\"gpu\","
                       "\"resourceClaimName\":\"foreign\"}]}}"));
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    world_pass(c->w, 600);
    (void)do_get(c->w, POD("web"));
    const char *name = reply_field(c->w, "status.resourceClaimStatuses[0].resourceClaimName");
    assert_string_not_equal(name, "foreign");
    assert_memory_equal(name, "web-gpu-", 8);
    assert_int_equal(count_of(c, "resource.k8s.io/v1", "ResourceClaim"), 2);
}

TEST_WITH_CTL(a4_names_of_several_claims_are_sorted)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(
        c->w, POD(""),
        POD_JSON("web", ",\"resourceClaims\":[{\"name\":\"z\",\"resourceClaimTemplateName\":\"t\"},"
                        "{\"name\":\"a\",\"resourceClaimTemplateName\":\"t\"}]")));
    settle(c);
    (void)do_get(c->w, POD("web"));
    assert_field(c->w, "status.resourceClaimStatuses[0].name", "a");
    assert_field(c->w, "status.resourceClaimStatuses[1].name", "z");
    assert_int_equal(count_of(c, "resource.k8s.io/v1", "ResourceClaim"), 2);
}

TEST_WITH_CTL(a4_a_pod_that_is_going_gets_no_claim)
{
    assert_ok(do_create(c->w, POD(""),
                        "{\"metadata\":{\"name\":\"web\",\"finalizers\":[\"x/y\"]},\"spec\":{"
                        "" CONTAINERS FROM_TEMPLATE "}}"));
    assert_ok(do_delete(c->w, POD("web"), NULL));
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    world_pass(c->w, 600);
    assert_null(the_claim(c));
}

TEST_WITH_CTL(a4_what_the_server_refuses_is_told)
{
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    // The template was made while the namespace had the label; now it has not.
    assert_ok(do_patch(c->w, (struct target){"v1", "Namespace", "", "", "default"},
                       REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"labels\":{\"resource.kubernetes.io/admin-access\":"
                       "\"true\"}}}"));
    settle(c);
    assert_int_equal(count_of(c, "v1", "Event"), 1);
    assert_ok(do_create(c->w, TEMPLATE(""),
                        "{\"metadata\":{\"name\":\"other\"},\"spec\":{\"spec\":{\"devices\":{"
                        "\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"gpu\","
                        "\"adminAccess\":true}}]}}}}"));
    assert_ok(
        do_patch(c->w, (struct target){"v1", "Namespace", "", "", "default"}, REGISTRY_PATCH_MERGE,
                 "{\"metadata\":{\"labels\":{\"resource.kubernetes.io/admin-access\":null}}}"));
    assert_ok(do_create(c->w, POD(""),
                        POD_JSON("admin", ",\"resourceClaims\":[{\"name\":\"gpu\","
                                          "\"resourceClaimTemplateName\":\"other\"}]")));
    settle(c);
    assert_null(the_claim(c));
    assert_int_equal(count_of(c, "v1", "Event"), 2);
}

TEST_WITH_CTL(a3_a_pod_deleted_before_it_was_bound_frees_its_claim)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""),
                        "{\"metadata\":{\"name\":\"web\",\"finalizers\":[\"x/y\"]},\"spec\":{"
                        "" CONTAINERS FROM_CLAIM "}}"));
    allocate(c, "shared", "x", consumer(c, "web"));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor[0].name", "web");
    assert_ok(do_delete(c->w, POD("web"), NULL));
    settle(c);
    (void)do_get(c->w, POD("web")); // still there
    assert_field(c->w, "metadata.name", "web");
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor", "-");
    assert_field(c->w, "status.allocation", "-");
    assert_field(c->w, "metadata.finalizers", "-");
}

#define GROUP_JSON                                                                  \
    "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"schedulingPolicy\":{\"basic\":{}}," \
    "\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimTemplateName\":\"t\"}]}}"
#define IN_GROUP FROM_TEMPLATE ",\"schedulingGroup\":{\"podGroupName\":\"g\"}"

TEST_WITH_CTL_GATES(a5_a_group_gets_one_claim_that_its_pods_use, GROUPS_ON)
{
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", IN_GROUP)));
    settle(c);
    assert_null(the_claim(c)); // never made for a pod that says it is of a group
    assert_ok(do_create(c->w, GROUP(""), GROUP_JSON));
    assert_ok(do_create(c->w, POD(""), POD_JSON("two", IN_GROUP)));
    world_pass(c->w, 60);
    const char *name = the_claim(c);
    assert_non_null(name);
    assert_memory_equal(name, "g-gpu-", 6);
    (void)do_get(c->w, GROUP("g"));
    assert_field(c->w, "status.resourceClaimStatuses[0].resourceClaimName", name);
    const char *uid = reply_field(c->w, "metadata.uid");
    (void)do_get(c->w, CLAIM(name));
    assert_field(c->w, "metadata.ownerReferences[0].kind", "PodGroup");
    assert_field(c->w, "metadata.ownerReferences[0].apiVersion", "scheduling.k8s.io/v1beta1");
    assert_field(c->w, "metadata.ownerReferences[0].uid", uid);
    (void)do_get(c->w, POD("one"));
    assert_field(c->w, "status.resourceClaimStatuses[0].resourceClaimName", name);
    (void)do_get(c->w, POD("two"));
    assert_field(c->w, "status.resourceClaimStatuses[0].resourceClaimName", name);
}

TEST_WITH_CTL_GATES(a6_a_group_that_goes_gives_up_its_reservation, GROUPS_ON)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(
        do_create(c->w, GROUP(""),
                  "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"schedulingPolicy\":{\"basic\":{}"
                  "},\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimName\":\"shared\"}]}}"));
    (void)do_get(c->w, GROUP("g"));
    allocate(c, "shared", "x",
             arena_strf(&c->w->arena,
                        "{\"apiGroup\":\"scheduling.k8s.io\",\"resource\":\"podgroups\",\"name\":"
                        "\"g\",\"uid\":\"%s\"}",
                        reply_field(c->w, "metadata.uid"))
                 .p);
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor[0].name", "g");
    // Its protection is the business of another controller.
    assert_ok(
        do_patch(c->w, GROUP("g"), REGISTRY_PATCH_MERGE, "{\"metadata\":{\"finalizers\":null}}"));
    assert_ok(do_delete(c->w, GROUP("g"), NULL));
    settle(c);
    (void)do_get(c->w, CLAIM("shared"));
    assert_field(c->w, "status.reservedFor", "-");
    assert_field(c->w, "status.allocation", "-");
}

TEST_WITH_CTL(a8_claims_are_counted)
{
    cleanup_sbuf struct sbuf text = {0};
    assert_ok(do_create(c->w, TEMPLATE(""), TEMPLATE_JSON));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_TEMPLATE)));
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("mine")));
    allocate(c, "mine", "x", "");
    settle(c);
    ctl_metrics(c->ctl, &text);
    const char *const lines[] = {
        "dynamic_resource_allocation_resource_claims{admin_access=\"false\",allocated=\"true\","
        "source=\"\"} 1\n",
        "dynamic_resource_allocation_resource_claims{admin_access=\"false\",allocated=\"false\","
        "source=\"resource_claim_template\"} 1\n",
        "dynamic_resource_allocation_resourceclaim_creates_total{status=\"success\"} 1\n",
        "dynamic_resource_allocation_resourceclaim_creates_total{status=\"failure\"} 0\n",
    };
    for (size_t i = 0; i < array_len(lines); i++)
        if (!str_contains(sbuf_str(&text), str_z(lines[i])))
            fail_msg("%s is not in\n%s", lines[i], text.p);
    // Every controller has its queue, and that of claims has worked.
    assert_true(str_contains(sbuf_str(&text), STR("workqueue_depth{name=\"resource_claim\"} 0\n")));
    assert_true(str_contains(
        sbuf_str(&text), STR("workqueue_depth{name=\"device-taint-eviction-controller\"} 0\n")));
    assert_false(
        str_contains(sbuf_str(&text), STR("workqueue_adds_total{name=\"resource_claim\"} 0\n")));
}

// --- Protection of groups ------------------------------------------------------------------------

#define PLAIN_GROUP "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"schedulingPolicy\":{\"basic\":{}}}}"
#define OF_GROUP    ",\"schedulingGroup\":{\"podGroupName\":\"g\"}"

static bool group_is_there(struct ctl_world *c)
{
    (void)do_get(c->w, GROUP("g"));
    return strcmp(reply_field(c->w, "metadata.name"), "g") == 0;
}

TEST_WITH_CTL_GATES(d_a_group_goes_when_no_pod_needs_it, "GenericWorkload=true")
{
    assert_ok(do_create(c->w, GROUP(""), PLAIN_GROUP));
    (void)do_get(c->w, GROUP("g"));
    assert_field(c->w, "metadata.finalizers[0]", "scheduling.k8s.io/podgroup-protection");
    settle(c);
    assert_ok(do_delete(c->w, GROUP("g"), NULL));
    settle(c);
    assert_false(group_is_there(c));
}

TEST_WITH_CTL_GATES(d_a_group_stays_while_a_pod_names_it, "GenericWorkload=true")
{
    assert_ok(do_create(c->w, GROUP(""), PLAIN_GROUP));
    assert_ok(do_create(c->w, POD(""), POD_JSON("one", OF_GROUP)));
    assert_ok(do_create(c->w, POD(""), POD_JSON("two", OF_GROUP)));
    assert_ok(do_create(c->w, POD(""), POD_JSON("stranger", "")));
    settle(c);
    assert_ok(do_delete(c->w, GROUP("g"), NULL));
    world_pass(c->w, 600);
    assert_true(group_is_there(c));
    // A pod that is over needs it no more; one that is being deleted and runs still does.
    assert_ok(do_patch(c->w, POD_STATUS("one"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"phase\":\"Succeeded\"}}"));
    world_pass(c->w, 600);
    assert_true(group_is_there(c));
    ctl_world_restart(c);
    assert_ok(do_delete(c->w, POD("two"), NULL));
    settle(c);
    assert_false(group_is_there(c));
}

// The finalizers of others are theirs.
TEST_WITH_CTL_GATES(d_only_its_own_finalizer_is_removed, "GenericWorkload=true")
{
    assert_ok(do_create(c->w, GROUP(""),
                        "{\"metadata\":{\"name\":\"g\",\"finalizers\":[\"a/b\"]},\"spec\":{"
                        "\"schedulingPolicy\":{\"basic\":{}}}}"));
    assert_ok(do_delete(c->w, GROUP("g"), NULL));
    settle(c);
    assert_true(group_is_there(c));
    assert_field(c->w, "metadata.finalizers[0]", "a/b");
    assert_field(c->w, "metadata.finalizers[1]", "-");
}

// --- Taints --------------------------------------------------------------------------------------

#define TAINTED_SLICE(device, count)                                                             \
    "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"driver\":\"d.io\",\"nodeName\":\"n1\","          \
    "\"pool\":{\"name\":\"p\",\"generation\":1,\"resourceSliceCount\":" count "},\"devices\":[{" \
    "\"name\":\"" device "\",\"taints\":[{\"key\":\"k\",\"effect\":\"NoExecute\"}]}]}}"

static bool is_going(struct ctl_world *c, const char *pod)
{
    (void)do_get(c->w, POD(pod));
    return strcmp(reply_field(c->w, "metadata.name"), "-") == 0 ||
           strcmp(reply_field(c->w, "metadata.deletionTimestamp"), "-") != 0;
}

static void run_with_claim(struct ctl_world *c)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", FROM_CLAIM)));
    allocate(c, "shared", "x", consumer(c, "web"));
    bind_pod(c, "web");
    settle(c);
}

TEST_WITH_CTL(b2_the_pool_need_not_be_complete)
{
    run_with_claim(c);
    assert_ok(do_create(c->w, SLICE(""), TAINTED_SLICE("x", "2")));
    settle(c);
    assert_true(is_going(c, "web"));
}

TEST_WITH_CTL(b2_a_device_that_is_not_published_evicts_nobody)
{
    run_with_claim(c);
    assert_ok(do_create(c->w, SLICE(""), TAINTED_SLICE("other", "1")));
    world_pass(c->w, 600);
    assert_false(is_going(c, "web"));
}

TEST_WITH_CTL(b3_a_pod_without_a_reservation_stays)
{
    assert_ok(do_create(c->w, CLAIM(""), CLAIM_JSON("shared")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("other", FROM_CLAIM)));
    assert_ok(do_create(c->w, POD(""), POD_JSON("web", ",\"nodeName\":\"n1\"")));
    allocate(c, "shared", "x", consumer(c, "other"));
    assert_ok(do_create(c->w, SLICE(""), TAINTED_SLICE("x", "1")));
    settle(c);
    assert_false(is_going(c, "web"));
    assert_false(is_going(c, "other")); // reserved, but not bound
}

// More than Kubernetes does: users of extended resources are evicted, too.
TEST_WITH_CTL(b3_users_of_extended_resources_are_evicted)
{
    assert_ok(
        do_create(c->w, POD(""),
                  "{\"metadata\":{\"name\":\"web\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                  "\"image\":\"i\",\"resources\":{\"requests\":{\"example.com/gpu\":\"1\"},"
                  "\"limits\":{\"example.com/gpu\":\"1\"}}}]}}"));
    (void)do_get(c->w, POD("web"));
    const char *uid = reply_field(c->w, "metadata.uid");
    assert_ok(do_create(
        c->w, CLAIM(""),
        arena_strf(&c->w->arena,
                   "{\"metadata\":{\"name\":\"ext\",\"annotations\":{\"resource.kubernetes.io/"
                   "extended-resource-claim\":\"true\"},\"ownerReferences\":[{\"apiVersion\":"
                   "\"v1\",\"kind\":\"Pod\",\"name\":\"web\",\"uid\":\"%s\",\"controller\":true}]},"
                   "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{"
                   "\"deviceClassName\":\"gpu\"}}]}}}",
                   uid)
            .p));
    allocate(c, "ext", "x", consumer(c, "web"));
    assert_ok(do_patch(c->w, POD_STATUS("web"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"extendedResourceClaimStatus\":{\"resourceClaimName\":"
                       "\"ext\",\"requestMappings\":[{\"containerName\":\"c\",\"resourceName\":"
                       "\"example.com/gpu\",\"requestName\":\"r\"}]}}}"));
    bind_pod(c, "web");
    settle(c);
    assert_false(is_going(c, "web"));
    assert_ok(do_create(c->w, SLICE(""), TAINTED_SLICE("x", "1")));
    settle(c);
    assert_true(is_going(c, "web"));
}

TEST_WITH_CTL_GATES(b5_a_rule_that_met_nobody_has_not_started, "DRADeviceTaintRules=true")
{
    assert_ok(do_create(c->w, RULE(""),
                        "{\"metadata\":{\"name\":\"r1\"},\"spec\":{\"deviceSelector\":{\"driver\":"
                        "\"d.io\"},\"taint\":{\"key\":\"k\",\"effect\":\"NoExecute\"}}}"));
    world_pass(c->w, 30);
    (void)do_get(c->w, RULE("r1"));
    assert_field(c->w, "status.conditions[0].type", "EvictionInProgress");
    assert_field(c->w, "status.conditions[0].status", "False");
    assert_field(c->w, "status.conditions[0].reason", "NotStarted");
}

// --- Pools ---------------------------------------------------------------------------------------

#define POOL_REQUEST(name) \
    ((struct target){"resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", "", "", name})

TEST_WITH_CTL_GATES(c_the_limit_cuts_pools_but_not_their_number, "DRAResourcePoolStatus=true")
{
    for (int i = 3; i > 0; i--)
        assert_ok(
            do_create(c->w, SLICE(""),
                      arena_strf(&c->w->arena,
                                 "{\"metadata\":{\"name\":\"s%d\"},\"spec\":{\"driver\":\"d.io\","
                                 "\"nodeName\":\"n%d\",\"pool\":{\"name\":\"p%d\",\"generation\":1,"
                                 "\"resourceSliceCount\":1},\"devices\":[{\"name\":\"x\"}]}}",
                                 i, i, i)
                          .p));
    assert_ok(do_create(c->w, POOL_REQUEST(""),
                        "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"driver\":\"d.io\",\"limit\":2}"
                        "}"));
    settle(c);
    (void)do_get(c->w, POOL_REQUEST("q"));
    assert_field(c->w, "status.poolCount", "3");
    assert_field(c->w, "status.pools[0].poolName", "p1");
    assert_field(c->w, "status.pools[1].poolName", "p2");
    assert_field(c->w, "status.pools[2]", "-");
    assert_field(c->w, "status.conditions[0].message", "Calculated status for 2 pools");
    cleanup_sbuf struct sbuf text = {0};
    ctl_metrics(c->ctl, &text);
#define OF "resourcepoolstatusrequest_controller_request"
    const char *const lines[] = {
        OF "s_processed_total{driver_name=\"d.io\"} 1\n",
        OF "_processing_errors_total{driver_name=\"d.io\"} 0\n",
        OF "_processing_duration_seconds_count{driver_name=\"d.io\"} 1\n",
    };
#undef OF
    for (size_t i = 0; i < array_len(lines); i++)
        if (!str_contains(sbuf_str(&text), str_z(lines[i])))
            fail_msg("%s is not in\n%s", lines[i], text.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a1_events_and_fields_carry_the_controllers_name),
        cmocka_unit_test(a2_an_entry_whose_status_has_no_name_needs_no_claim),
        cmocka_unit_test(a4_a_claim_of_somebody_else_is_replaced),
        cmocka_unit_test(a4_names_of_several_claims_are_sorted),
        cmocka_unit_test(a4_a_pod_that_is_going_gets_no_claim),
        cmocka_unit_test(a4_what_the_server_refuses_is_told),
        cmocka_unit_test(a3_a_pod_deleted_before_it_was_bound_frees_its_claim),
        cmocka_unit_test(a5_a_group_gets_one_claim_that_its_pods_use),
        cmocka_unit_test(a8_claims_are_counted),
        cmocka_unit_test(d_a_group_goes_when_no_pod_needs_it),
        cmocka_unit_test(d_a_group_stays_while_a_pod_names_it),
        cmocka_unit_test(d_only_its_own_finalizer_is_removed),
        cmocka_unit_test(a6_a_group_that_goes_gives_up_its_reservation),
        cmocka_unit_test(b2_the_pool_need_not_be_complete),
        cmocka_unit_test(b2_a_device_that_is_not_published_evicts_nobody),
        cmocka_unit_test(b3_a_pod_without_a_reservation_stays),
        cmocka_unit_test(b3_users_of_extended_resources_are_evicted),
        cmocka_unit_test(b5_a_rule_that_met_nobody_has_not_started),
        cmocka_unit_test(c_the_limit_cuts_pools_but_not_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
