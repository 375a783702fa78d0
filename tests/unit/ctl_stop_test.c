// SPDX-License-Identifier: Apache-2.0
//
// Controllers may be stopped at any moment, with requests under way whose answers come when they are
// gone: nothing is touched that is not there any more (the sanitizers tell), and who starts next does
// what was left.
#include "ctl_kubelet.h"

#include "base/banned.h"

#define ALL_CONTROLLERS (~0U)
#define PODS_OF(app)                                \
    "\"selector\":{\"matchLabels\":{\"app\":\"" app \
    "\"}},\"template\":{\"metadata\":{\"labels\":{" \
    "\"app\":\"" app "\"}},\"spec\":{" CONTAINERS FROM_TEMPLATE "}}"
#define PODS_IN_THE_END 6 // 2 of the ReplicaSet, the orphan among them, 1 each of the four others

static void create(struct ctl_world *c, const char *api_version, const char *kind, const char *json)
{
    const bool in_namespace = api_kind_find(str_z(api_version), str_z(kind))->namespaced;
    const struct target t = {api_version, kind, "", in_namespace ? "default" : "", ""};
    assert_ok(do_create(c->w, t, json));
}

// Something for most controllers to write about: children to make, an orphan to adopt, garbage.
static void give_work(struct ctl_world *c)
{
    create(c, "v1", "Node", "{\"metadata\":{\"name\":\"n1\"}}");
    create(c, "v1", "Pod",
           "{\"metadata\":{\"name\":\"orphan\",\"labels\":{\"app\":\"r\"}},\"spec\":{" CONTAINERS
           "}}");
    create(c, "v1", "Pod",
           "{\"metadata\":{\"name\":\"left\",\"ownerReferences\":[{\"apiVersion\":\"apps/v1\","
           "\"kind\":\"ReplicaSet\",\"name\":\"gone\",\"uid\":\"gone\"}]},\"spec\":{" CONTAINERS
           "}}");
    create(c, "resource.k8s.io/v1", "ResourceClaimTemplate", TEMPLATE_JSON);
    create(c, "v1", "ResourceQuota",
           "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"hard\":{\"pods\":\"50\"}}}");
    create(c, "apps/v1", "ReplicaSet",
           "{\"metadata\":{\"name\":\"r\"},\"spec\":{\"replicas\":2," PODS_OF("r") "}}");
    create(c, "apps/v1", "Deployment",
           "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"replicas\":1," PODS_OF("d") "}}");
    create(c, "apps/v1", "DaemonSet",
           "{\"metadata\":{\"name\":\"d\"},\"spec\":{" PODS_OF("n") "}}");
    create(c, "apps/v1", "StatefulSet",
           "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"serviceName\":\"s\"," PODS_OF("s") "}}");
    create(c, "batch/v1", "Job",
           "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{\"spec\":{"
           "\"restartPolicy\":\"Never\"," CONTAINERS "}}}}");
}

static bool step(struct ctl_world *c, int64_t until)
{
    if (exec_sim_step(c->w->sim))
        return true;
    int64_t next = exec_sim_next_ns(c->w->sim);
    if (next > until)
        return false;
    exec_sim_run(c->w->sim, next);
    return true;
}

// stop_after gives false when there were less steps than that.
static bool stop_after(size_t steps)
{
    struct ctl_world c = {.controllers = ALL_CONTROLLERS};
    c.w = world_new();
    const struct registry_user user = {.name = STR("system:kube-controller-manager")};
    c.client = local_client_new(c.w->registry, exec_sim_exec(c.w->sim), &user);
    give_work(&c);
    ctl_world_make(&c);
    const int64_t until = c.w->clock.mono + CLOCK_NS_PER_SEC;
    size_t done = 0;
    while (done < steps && step(&c, until))
        done++;
    ctl_world_restart(&c);
    world_pass(c.w, 2);
    size_t pods = pods_of(&c).n;
    if (pods != PODS_IN_THE_END)
        fail_msg("%zu pods after a stop at step %zu", pods, steps);
    (void)do_get(c.w, POD("left"));
    assert_field(c.w, "metadata.uid", "-");
    ctl_world_end(&c);
    return done == steps;
}

static void stops_at_any_step(void **state)
{
    (void)state;
    size_t steps = 0;
    while (stop_after(steps))
        steps++;
    assert_true(steps > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stops_at_any_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
