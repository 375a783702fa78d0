// SPDX-License-Identifier: Apache-2.0
//
// Nodes, accounts of namespaces, and drivers that are gone. Each test is named for the rule.
#include "ctl_kubelet.h"

#include "base/banned.h"

#define TEST_NODES(name)                                                             \
    TEST_WITH_CTLS(name, "",                                                         \
                   WITH(CTL_NODES) | WITH(CTL_TAINT_EVICTION) | WITH(CTL_ACCOUNTS) | \
                       WITH(CTL_STALE_SLICES) | WITH(CTL_ROOT_CA))
#define LEASE(ns, name) ((struct target){"coordination.k8s.io/v1", "Lease", "", ns, name})
#define NODE_JSON                                                                                 \
    "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":" \
    "\"True\"}]}}"
#define SLICE_JSON(meta, where)                                                                \
    "{\"metadata\":{\"name\":\"x\"" meta "},\"spec\":{\"driver\":\"d.io\",\"pool\":{\"name\":" \
    "\"p\",\"generation\":1,\"resourceSliceCount\":1}," where                                  \
    ",\"devices\":[{\"name\":\"dev\"}]}}"

static void renew(struct ctl_world *c, const char *ns, const char *name)
{
    static int times;
    const char *patch =
        arena_strf(&c->w->arena,
                   "{\"spec\":{\"holderIdentity\":\"h\",\"leaseDurationSeconds\":40,"
                   "\"leaseTransitions\":%d}}",
                   times++)
            .p;
    assert_ok(do_patch(c->w, LEASE(ns, name), REGISTRY_PATCH_MERGE, patch));
}

static void add_lease(struct ctl_world *c, const char *ns, const char *name)
{
    assert_ok(do_create(c->w, LEASE(ns, ""),
                        arena_strf(&c->w->arena,
                                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{"
                                   "\"leaseDurationSeconds\":40}}",
                                   name)
                            .p));
}

static void add_node(struct ctl_world *c)
{
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    add_lease(c, "kube-node-lease", "n1");
    settle(c);
}

static void node_is(struct ctl_world *c, const char *ready)
{
    assert_ok(do_patch(c->w, (struct target){"v1", "Node", "status", "", "n1"},
                       REGISTRY_PATCH_STRATEGIC,
                       arena_strf(&c->w->arena,
                                  "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":"
                                  "\"%s\"}]}}",
                                  ready)
                           .p));
    settle(c);
}

TEST_NODES(node_that_renews_its_lease_stays_ready)
{
    add_node(c);
    for (int i = 0; i < 20; i++) {
        renew(c, "kube-node-lease", "n1");
        world_pass(c->w, 10);
    }
    (void)do_get(c->w, NODE("n1"));
    assert_field(c->w, "status.conditions[0].status", "True");
    assert_field(c->w, "spec.taints", "-");
}

TEST_NODES(node_that_is_silent_becomes_unknown_and_tainted_until_it_is_back)
{
    add_node(c);
    world_pass(c->w, 60);
    (void)do_get(c->w, NODE("n1"));
    assert_field(c->w, "status.conditions[0].status", "Unknown");
    assert_field(c->w, "status.conditions[0].reason", "NodeStatusUnknown");
    assert_field(c->w, "spec.taints[0].key", "node.kubernetes.io/unreachable");
    assert_field(c->w, "spec.taints[0].effect", "NoSchedule");
    assert_field(c->w, "spec.taints[1].effect", "NoExecute");
    renew(c, "kube-node-lease", "n1");
    node_is(c, "True");
    (void)do_get(c->w, NODE("n1"));
    assert_field(c->w, "spec.taints", "-");
}

// The watch of Leases of a controller that can be cut off.
static struct {
    client_event_fn event;
    void *arg;
    bool deaf;
} lease_watch;

static void on_lease_event(void *arg, const struct client_event *event)
{
    (void)arg;
    if (!lease_watch.deaf)
        lease_watch.event(lease_watch.arg, event);
}

static const struct client_ops *whole_ops;

static struct client_watch *watch_leases(struct client *c, const struct api_kind *kind,
                                         const struct client_list_options *options, uint64_t since,
                                         client_event_fn event, void *arg)
{
    if (!str_eqz(kind->kind, "Lease"))
        return whole_ops->watch(c, kind, options, since, event, arg);
    lease_watch.event = event;
    lease_watch.arg = arg;
    return whole_ops->watch(c, kind, options, since, on_lease_event, NULL);
}

static void hear_again(struct ctl_world *c)
{
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "the connection broke");
    lease_watch.deaf = false;
    lease_watch.event(lease_watch.arg, &(struct client_event){.type = CLIENT_ENDED,
                                                              .code = -ERR_UNAVAILABLE,
                                                              .err = &err});
    settle(c);
}

TEST_NODES(node_is_not_blamed_when_the_controllers_are_cut_off)
{
    struct client_ops ops = *c->client->ops;
    whole_ops = c->client->ops;
    ops.watch = watch_leases;
    c->client->ops = &ops;
    ctl_world_restart(c);
    add_node(c);
    lease_watch.deaf = true;
    for (int i = 0; i < 10; i++) {
        renew(c, "kube-node-lease", "n1");
        world_pass(c->w, 10);
    }
    (void)do_get(c->w, NODE("n1"));
    assert_field(c->w, "status.conditions[0].status", "True");
    assert_field(c->w, "spec.taints", "-");
    hear_again(c);
    world_pass(c->w, 30);
    (void)do_get(c->w, NODE("n1"));
    assert_field(c->w, "status.conditions[0].status", "True");
    world_pass(c->w, 40);
    (void)do_get(c->w, NODE("n1"));
    assert_field(c->w, "status.conditions[0].status", "Unknown");
    c->client->ops = whole_ops;
}

TEST_NODES(node_without_a_lease_is_left_alone)
{
    assert_ok(do_create(c->w, NODE(""), NODE_JSON));
    world_pass(c->w, 600);
    (void)do_get(c->w, NODE("n1"));
    assert_field(c->w, "status.conditions[0].status", "True");
}

TEST_NODES(node_that_says_it_is_not_ready_is_tainted)
{
    add_node(c);
    node_is(c, "False");
    (void)do_get(c->w, NODE("n1"));
    assert_field(c->w, "spec.taints[0].key", "node.kubernetes.io/not-ready");
}

TEST_NODES(pods_of_a_silent_node_are_not_ready_and_leave_when_they_tolerate_it_no_longer)
{
    add_node(c);
    assert_ok(do_create(c->w, POD(""),
                        POD_JSON("brief", ",\"tolerations\":[{\"key\":\"node.kubernetes.io/"
                                          "unreachable\",\"operator\":\"Exists\",\"effect\":"
                                          "\"NoExecute\",\"tolerationSeconds\":30}]")));
    assert_ok(do_create(c->w, POD(""),
                        POD_JSON("forever", ",\"tolerations\":[{\"operator\":\"Exists\"}]")));
    assert_ok(do_create(c->w, POD(""), POD_JSON("usual", "")));
    bind_pod(c, "brief");
    bind_pod(c, "forever");
    bind_pod(c, "usual");
    make_ready(c, "forever");
    world_pass(c->w, 60);
    (void)do_get(c->w, POD("forever"));
    assert_field(c->w, "status.conditions[0].status", "False");
    world_pass(c->w, 60);
    (void)do_get(c->w, POD("brief"));
    assert_string_not_equal(reply_field(c->w, "metadata.deletionTimestamp"), "-");
    (void)do_get(c->w, POD("usual"));
    assert_field(c->w, "metadata.deletionTimestamp", "-"); // five minutes, as every pod
    world_pass(c->w, 300);
    (void)do_get(c->w, POD("usual"));
    assert_string_not_equal(reply_field(c->w, "metadata.deletionTimestamp"), "-");
    (void)do_get(c->w, POD("forever"));
    assert_field(c->w, "metadata.deletionTimestamp", "-");
}

#define TOLERANT(name, seconds)                                                           \
    POD_JSON(name, ",\"tolerations\":[{\"key\":\"k\",\"operator\":\"Exists\",\"effect\":" \
                   "\"NoExecute\",\"tolerationSeconds\":" seconds "}]")

static bool is_leaving(struct ctl_world *c, const char *pod)
{
    (void)do_get(c->w, POD(pod));
    return strcmp(reply_field(c->w, "metadata.deletionTimestamp"), "-") != 0;
}

TEST_NODES(pods_tolerate_a_taint_for_their_time_though_it_does_not_say_when_it_came)
{
    add_node(c);
    assert_ok(do_create(c->w, POD(""), TOLERANT("a", "30")));
    bind_pod(c, "a");
    assert_ok(do_patch(c->w, NODE("n1"), REGISTRY_PATCH_MERGE,
                       "{\"spec\":{\"taints\":[{\"key\":\"k\",\"effect\":\"NoExecute\"}]}}"));
    world_pass(c->w, 25);
    assert_false(is_leaving(c, "a"));
    world_pass(c->w, 10);
    assert_true(is_leaving(c, "a"));
}

TEST_NODES(pods_that_tolerate_a_taint_longer_than_anybody_waits_stay)
{
    struct sbuf now = {0};
    add_node(c);
    assert_ok(do_create(c->w, POD(""), TOLERANT("long", "9999999999")));
    assert_ok(do_create(c->w, POD(""), TOLERANT("longest", "9223372036854775807")));
    bind_pod(c, "long");
    bind_pod(c, "longest");
    rfc3339_write_seconds((struct moment){.sec = c->w->clock.wall / CLOCK_NS_PER_SEC}, &now);
    c->w->hold = true;
    (void)do_patch(c->w, NODE("n1"), REGISTRY_PATCH_MERGE,
                   arena_strf(&c->w->arena,
                              "{\"spec\":{\"taints\":[{\"key\":\"k\",\"effect\":\"NoExecute\","
                              "\"timeAdded\":\"%s\"}]}}",
                              now.p)
                       .p);
    sbuf_done(&now);
    assert_true(comes_to_rest(c));
    c->w->hold = false;
    settle(c);
    assert_false(is_leaving(c, "long"));
    assert_false(is_leaving(c, "longest"));
}

TEST_NODES(every_namespace_has_a_default_account)
{
    assert_ok(do_create(c->w, NS(""), "{\"metadata\":{\"name\":\"team\"}}"));
    settle(c);
    const struct target account = {"v1", "ServiceAccount", "", "team", "default"};
    (void)do_get(c->w, account);
    assert_field(c->w, "metadata.name", "default");
    assert_ok(do_delete(c->w, account, NULL));
    settle(c);
    (void)do_get(c->w, account);
    assert_field(c->w, "metadata.name", "default");
}

TEST_NODES(every_namespace_has_the_certificate_of_the_servers_ca)
{
    assert_ok(do_create(c->w, NS(""), "{\"metadata\":{\"name\":\"team\"}}"));
    settle(c);
    const struct target map = {"v1", "ConfigMap", "", "team", "kube-root-ca.crt"};
    (void)do_get(c->w, map);
    assert_field(c->w, "data[ca.crt]", WORLD_ROOT_CA);
    assert_ok(do_patch(c->w, map, REGISTRY_PATCH_MERGE,
                       "{\"data\":{\"ca.crt\":\"forged\",\"more\":\"1\"},\"metadata\":{"
                       "\"annotations\":null}}"));
    settle(c);
    (void)do_get(c->w, map);
    assert_field(c->w, "data[ca.crt]", WORLD_ROOT_CA);
    assert_field(c->w, "data.more", "-");
    assert_non_null(
        strstr(reply_field(c->w, "metadata.annotations[kubernetes.io/description]"), "CA bundle"));
    assert_ok(do_delete(c->w, map, NULL));
    settle(c);
    (void)do_get(c->w, map);
    assert_field(c->w, "data[ca.crt]", WORLD_ROOT_CA);
}

TEST_NODES(devices_of_a_node_that_is_not_ready_are_tainted_until_it_is)
{
    add_node(c);
    assert_ok(do_create(c->w, SLICE(""), SLICE_JSON("", "\"nodeName\":\"n1\"")));
    settle(c);
    assert_int_equal(store_count(c->w->store,
                                 api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceTaintRule")),
                                 STR("")),
                     0);
    node_is(c, "False");
    struct store_walk walk = {.kind =
                                  api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceTaintRule"))};
    struct err err = {0};
    assert_int_equal(store_walk_start(c->w->store, &walk, &err), 0);
    const struct object *rule = store_walk_next(c->w->store, &walk);
    assert_non_null(rule);
    const char *name = arena_str(&c->w->arena, rule->name).p;
    store_walk_done(&walk);
    (void)do_get(c->w, RULE(name));
    assert_field(c->w, "spec.deviceSelector.driver", "d.io");
    assert_field(c->w, "spec.deviceSelector.pool", "p");
    assert_field(c->w, "spec.taint.key", "dray.dev/stale");
    assert_field(c->w, "spec.taint.effect", "NoSchedule");
    node_is(c, "True");
    (void)do_get(c->w, RULE(name));
    assert_field(c->w, "metadata.name", "-");
}

TEST_NODES(devices_of_a_publisher_whose_lease_runs_out_are_tainted_until_it_is_renewed)
{
    add_lease(c, "default", "driver");
    assert_ok(
        do_create(c->w, SLICE(""),
                  SLICE_JSON(",\"annotations\":{\"dray.dev/publisher-lease\":\"default/driver\"}",
                             "\"allNodes\":true")));
    settle(c);
    const struct api_kind *rules = api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceTaintRule"));
    renew(c, "default", "driver");
    world_pass(c->w, 30);
    assert_int_equal(store_count(c->w->store, rules, STR("")), 0);
    world_pass(c->w, 30);
    assert_int_equal(store_count(c->w->store, rules, STR("")), 1);
    renew(c, "default", "driver");
    settle(c);
    assert_int_equal(store_count(c->w->store, rules, STR("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_that_renews_its_lease_stays_ready),
        cmocka_unit_test(node_that_is_silent_becomes_unknown_and_tainted_until_it_is_back),
        cmocka_unit_test(node_is_not_blamed_when_the_controllers_are_cut_off),
        cmocka_unit_test(node_without_a_lease_is_left_alone),
        cmocka_unit_test(node_that_says_it_is_not_ready_is_tainted),
        cmocka_unit_test(
            pods_of_a_silent_node_are_not_ready_and_leave_when_they_tolerate_it_no_longer),
        cmocka_unit_test(pods_tolerate_a_taint_for_their_time_though_it_does_not_say_when_it_came),
        cmocka_unit_test(pods_that_tolerate_a_taint_longer_than_anybody_waits_stay),
        cmocka_unit_test(every_namespace_has_a_default_account),
        cmocka_unit_test(every_namespace_has_the_certificate_of_the_servers_ca),
        cmocka_unit_test(devices_of_a_node_that_is_not_ready_are_tainted_until_it_is),
        cmocka_unit_test(
            devices_of_a_publisher_whose_lease_runs_out_are_tainted_until_it_is_renewed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
