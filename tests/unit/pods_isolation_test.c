// SPDX-License-Identifier: Apache-2.0
//
// Pods that ask for isolation which the agent cannot provide: each is refused, and nothing of it runs.
#include "pods_world.h"

#include "base/banned.h"

#define RUNTIME_CLASS(name) ((struct target){"node.k8s.io/v1", "RuntimeClass", "", "", name})
#define SIMPLE              "\"containers\":[" RUNNING("c", "") "]"
#define WITH_MOUNT(options)                                                                      \
    "\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}],\"containers\":[" RUNNING(                   \
        "c", ",\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\",\"readOnly\":true" options \
             "}]") "]"
#define WITH_CONTEXT(context) \
    "\"containers\":[" RUNNING("c", ",\"securityContext\":{" context "}") "]"

static void isolation_create_pod(struct pods_world *p, const char *name, const char *spec)
{
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json, "{\"metadata\":{\"name\":\"%s\"},\"spec\":{" ON_NODE ",%s}}", name, spec);
    assert_ok(do_create(p->w, POD(name), json.p));
    world_pass(p->w, 1);
}

static void isolation_create_class(struct pods_world *p, const char *name, const char *handler)
{
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json, "{\"metadata\":{\"name\":\"%s\"},\"handler\":\"%s\"}", name, handler);
    assert_ok(do_create(p->w, RUNTIME_CLASS(name), json.p));
}

TEST_WITH_PODS(what_cannot_be_provided_is_refused)
{
    static const struct {
        const char *name, *spec, *reason;
    } rows[] = {
        {"users", "\"hostUsers\":false," SIMPLE, "UserNamespacesNotSupported"},
        // Validation accepts the unmasked /proc only because of the user namespace.
        {"unmasked",
         "\"hostUsers\":false," WITH_CONTEXT("\"procMount\":\"Unmasked\",\"capabilities\":{"
                                             "\"drop\":[\"ALL\"]}"),
         "UserNamespacesNotSupported"},
        {"handler", "\"runtimeClassName\":\"sandboxed\"," SIMPLE, "RuntimeHandlerNotSupported"},
        {"armor-pod",
         "\"securityContext\":{\"appArmorProfile\":{\"type\":\"RuntimeDefault\"}}," SIMPLE,
         "AppArmor"},
        {"armor",
         WITH_CONTEXT("\"appArmorProfile\":{\"type\":\"Localhost\",\"localhostProfile\":\"x\"}"),
         "AppArmor"},
        {"armor-init",
         "\"initContainers\":[" RUNNING("i", ",\"securityContext\":{\"appArmorProfile\":{\"type\":"
                                             "\"RuntimeDefault\"}}") "]," SIMPLE,
         "AppArmor"},
        {"label-pod", "\"securityContext\":{\"seLinuxOptions\":{\"level\":\"s0:c1,c2\"}}," SIMPLE,
         "SELinuxNotSupported"},
        {"label", WITH_CONTEXT("\"seLinuxOptions\":{\"type\":\"spc_t\"}"), "SELinuxNotSupported"},
        {"mounts", WITH_MOUNT(",\"recursiveReadOnly\":\"Enabled\""),
         "RecursiveReadOnlyNotSupported"},
    };
    isolation_create_class(p, "sandboxed", "runsc");
    for (size_t i = 0; i < array_len(rows); i++) {
        isolation_create_pod(p, rows[i].name, rows[i].spec);
        assert_pod(p, rows[i].name, "status.phase", "Failed");
        assert_pod(p, rows[i].name, "status.reason", rows[i].reason);
        assert_non_null(
            strstr(pods_world_field(p, rows[i].name, "status.message"), "Pod was rejected: "));
    }
    assert_int_equal(p->machine.containers.n, 0);
    assert_int_equal(p->machine.sandboxes.n, 0);
    pods_world_expect_event(
        p, "UserNamespacesNotSupported|hostUsers: false is not supported on this node: "
           "it has no user namespaces for pods; remove hostUsers or choose another node\n");
    pods_world_expect_event(
        p, "RuntimeHandlerNotSupported|the pod's runtime handler is not supported on this "
           "node: RuntimeClass \"sandboxed\" has handler \"runsc\", this node has \"fake\"\n");
}

TEST_WITH_PODS(what_asks_for_nothing_more_runs)
{
    static const struct {
        const char *name, *spec;
    } rows[] = {
        {"users", "\"hostUsers\":true," SIMPLE},
        {"handler", "\"runtimeClassName\":\"plain\"," SIMPLE},
        {"armor", "\"securityContext\":{\"appArmorProfile\":{\"type\":\"Unconfined\"}}," SIMPLE},
        {"label", "\"securityContext\":{\"seLinuxOptions\":{}}," SIMPLE},
        {"groups", "\"securityContext\":{\"supplementalGroupsPolicy\":\"Merge\"}," SIMPLE},
        {"groups-strict", "\"securityContext\":{\"supplementalGroupsPolicy\":\"Strict\"}," SIMPLE},
        {"mounts", WITH_MOUNT(",\"recursiveReadOnly\":\"IfPossible\"")},
        {"seccomp",
         "\"securityContext\":{\"seccompProfile\":{\"type\":\"RuntimeDefault\"}}," SIMPLE},
    };
    isolation_create_class(p, "plain", "fake"); // the runtime's name
    for (size_t i = 0; i < array_len(rows); i++) {
        isolation_create_pod(p, rows[i].name, rows[i].spec);
        assert_pod(p, rows[i].name, "status.phase", "Running");
    }
}

// A class that was deleted after the pod was created may come back: kubelet waits for it.
TEST_WITH_PODS(a_runtime_class_that_is_gone_is_waited_for)
{
    isolation_create_class(p, "plain", "fake");
    pods_world_kill(p);
    isolation_create_pod(p, "a", "\"runtimeClassName\":\"plain\"," SIMPLE);
    assert_ok(do_delete(p->w, RUNTIME_CLASS("plain"), NULL));
    pods_world_boot(p);
    world_pass(p->w, 5);
    assert_pod(p, "a", "status.phase", "Pending");
    pods_world_expect_event(p, "FailedCreatePodSandBox|Failed to create pod sandbox: RuntimeClass "
                               "\"plain\" not found; create it\n");
    isolation_create_class(p, "plain", "fake");
    world_pass(p->w, 1);
    assert_pod(p, "a", "status.phase", "Running");
}

// Ephemeral containers come after admission.
TEST_WITH_PODS(an_ephemeral_container_cannot_ask_for_more_either)
{
    isolation_create_pod(p, "p", SIMPLE);
    assert_ok(do_patch(p->w, ((struct target){"v1", "Pod", "ephemeralcontainers", "default", "p"}),
                       REGISTRY_PATCH_STRATEGIC,
                       "{\"spec\":{\"ephemeralContainers\":[{\"name\":\"look\",\"image\":"
                       "\"busybox:1\",\"command\":[\"run\"],\"securityContext\":{"
                       "\"seLinuxOptions\":{\"type\":\"spc_t\"}}}]}}"));
    world_pass(p->w, 1);
    assert_pod(p, "p", "status.phase", "Running");
    assert_int_equal(fake_running(&p->machine), 1);
    assert_pod(p, "p", "status.ephemeralContainerStatuses[0].state.waiting.reason",
               "CreateContainerConfigError");
}

// Profiles were annotations once, and pods that have only those are still about.
TEST_WITH_PODS(a_profile_in_an_annotation_is_one)
{
    static const struct {
        const char *name, *profile, *phase;
    } rows[] = {{"localhost", "localhost/tight", "Failed"},
                {"runtime", "runtime/default", "Failed"},
                {"none", "unconfined", "Running"}};
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf json = {0};
        sbuf_addf(&json,
                  "{\"metadata\":{\"name\":\"%s\",\"annotations\":{"
                  "\"container.apparmor.security.beta.kubernetes.io/c\":\"%s\"}},\"spec\":{" ON_NODE
                  "," SIMPLE "}}",
                  rows[i].name, rows[i].profile);
        assert_ok(do_create(p->w, POD(rows[i].name), json.p));
        world_pass(p->w, 1);
        assert_pod(p, rows[i].name, "status.phase", rows[i].phase);
    }
    assert_pod(p, "localhost", "status.reason", "AppArmor");
}

RUN_TESTS(TEST_CASE(what_cannot_be_provided_is_refused), TEST_CASE(what_asks_for_nothing_more_runs),
          TEST_CASE(a_runtime_class_that_is_gone_is_waited_for),
          TEST_CASE(an_ephemeral_container_cannot_ask_for_more_either),
          TEST_CASE(a_profile_in_an_annotation_is_one))
