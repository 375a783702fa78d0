// SPDX-License-Identifier: Apache-2.0
//
// Pods that ask for isolation which the agent cannot provide: each is refused, and nothing of it runs.
#include <fcntl.h>

#include "os/file.h"
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
        p, "UserNamespacesNotSupported|hostUsers: false is not supported on this node; remove "
           "hostUsers or choose another node: its runtime has none\n");
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

// --- A machine that can --------------------------------------------------------------------------

static const struct runtime_handler isolation_handlers[] = {
    {STR_INIT("fake"), true}, {STR_INIT("old"), false}, {STR_INIT("sandbox"), true}};
static const struct runtime_features isolation_all = {.handlers = isolation_handlers,
                                                      .handlers_len = 3,
                                                      .recursive_read_only = true,
                                                      .apparmor = true,
                                                      .selinux = true};

static const struct fake_sandbox *isolation_sandbox(struct pods_world *p, const char *pod)
{
    const char *uid = pods_world_field(p, pod, "metadata.uid");
    vec_foreach(&p->machine.sandboxes, s)
        if (strcmp((*s)->uid, uid) == 0)
            return *s;
    fail_msg("pod %s has no sandbox", pod);
    return NULL;
}

static const struct fake_container *isolation_container(struct pods_world *p, const char *pod)
{
    const char *uid = pods_world_field(p, pod, "metadata.uid");
    vec_foreach(&p->machine.containers, c)
        if (strcmp((*c)->pod_uid, uid) == 0)
            return *c;
    fail_msg("pod %s has no container", pod);
    return NULL;
}

// Ranges are never shared, stay across a restart of the agent, and are used again afterwards.
TEST_WITH_PODS(pods_with_user_namespaces_have_ids_of_their_own)
{
    p->machine.features = &isolation_all;
    isolation_create_pod(p, "a", "\"hostUsers\":false," SIMPLE);
    isolation_create_pod(p, "b", "\"hostUsers\":false," WITH_CONTEXT("\"procMount\":\"Unmasked\""));
    isolation_create_pod(p, "host", SIMPLE);
    assert_pod(p, "b", "status.phase", "Running");
    assert_int_equal(isolation_sandbox(p, "a")->users.base, 65536);
    assert_int_equal(isolation_sandbox(p, "b")->users.base, 2 * 65536);
    assert_int_equal(isolation_sandbox(p, "b")->users.length, 65536);
    assert_int_equal(isolation_sandbox(p, "host")->users.length, 0);
    pods_world_kill(p);
    pods_world_boot(p);
    world_pass(p->w, 2);
    isolation_create_pod(p, "c", "\"hostUsers\":false," SIMPLE);
    assert_int_equal(isolation_sandbox(p, "c")->users.base, 3 * 65536);
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 60);
    isolation_create_pod(p, "d", "\"hostUsers\":false," SIMPLE);
    assert_int_equal(isolation_sandbox(p, "d")->users.base, 65536);
}

static void isolation_write_record(struct pods_world *p, const char *pod, const char *text)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/pods/%s/userns", p->dir, pods_world_field(p, pod, "metadata.uid"));
    assert_int_equal(file_replace_atomic(AT_FDCWD, path.p, str_z(text), 0600, NULL), 0);
}

// A record that a loss of power has emptied takes no range; one that says something else may stand
// for any, and stops new pods with user namespaces, not others.
TEST_WITH_PODS(a_record_of_ids_may_be_damaged)
{
    p->machine.features = &isolation_all;
    isolation_create_pod(p, "a", "\"hostUsers\":false," SIMPLE);
    isolation_write_record(p, "a", "");
    isolation_create_pod(p, "b", "\"hostUsers\":false," SIMPLE);
    assert_int_equal(isolation_sandbox(p, "b")->users.base, 65536);
    isolation_write_record(p, "a", "{\"uidMappings\":[{\"hostId\":7}]}");
    isolation_create_pod(p, "c", "\"hostUsers\":false," SIMPLE);
    isolation_create_pod(p, "host", SIMPLE);
    assert_pod(p, "c", "status.phase", "Pending");
    assert_pod(p, "host", "status.phase", "Running");
    pods_world_expect_event(p, "/userns cannot be read; delete the pod with this uid\n");
    assert_ok(do_delete(p->w, POD("a"), NULL));
    world_pass(p->w, 60);
    assert_pod(p, "c", "status.phase", "Running");
    assert_int_equal(isolation_sandbox(p, "c")->users.base, 2 * 65536);
}

TEST_WITH_PODS(handlers_choose_the_runtime)
{
    p->machine.features = &isolation_all;
    isolation_create_class(p, "strong", "sandbox");
    isolation_create_class(p, "weak", "old");
    isolation_create_class(p, "other", "runsc");
    isolation_create_pod(p, "a", "\"runtimeClassName\":\"strong\"," SIMPLE);
    assert_string_equal(isolation_sandbox(p, "a")->handler, "sandbox");
    isolation_create_pod(p, "b", "\"hostUsers\":false,\"runtimeClassName\":\"weak\"," SIMPLE);
    assert_pod(p, "b", "status.reason", "UserNamespacesNotSupported");
    isolation_create_pod(p, "c", "\"runtimeClassName\":\"other\"," SIMPLE);
    assert_pod(p, "c", "status.reason", "RuntimeHandlerNotSupported");
    pods_world_expect_event(
        p, "RuntimeHandlerNotSupported|the pod's runtime handler is not supported on this node: "
           "RuntimeClass \"other\" has handler \"runsc\", this node has \"fake\", \"old\", "
           "\"sandbox\"\n");
}

TEST_WITH_PODS(profiles_and_labels_are_passed_on)
{
    static const struct {
        const char *name, *spec, *labels;
    } rows[] = {
        {"none", SIMPLE, "  "},
        {"default",
         "\"securityContext\":{\"appArmorProfile\":{\"type\":\"RuntimeDefault\"}}," SIMPLE,
         "cri-containerd.apparmor.d  "},
        {"own",
         WITH_CONTEXT("\"appArmorProfile\":{\"type\":\"Localhost\",\"localhostProfile\":\"x\"}"),
         "x  "},
        {"label", "\"securityContext\":{\"seLinuxOptions\":{\"level\":\"s0:c1,c2\"}}," SIMPLE,
         " system_u:system_r:container_t:s0:c1,c2 system_u:object_r:container_file_t:s0:c1,c2"},
    };
    p->machine.features = &isolation_all;
    for (size_t i = 0; i < array_len(rows); i++) {
        isolation_create_pod(p, rows[i].name, rows[i].spec);
        assert_pod(p, rows[i].name, "status.phase", "Running");
        assert_string_equal(isolation_container(p, rows[i].name)->labels, rows[i].labels);
    }
    isolation_create_pod(p, "mounts", WITH_MOUNT(",\"recursiveReadOnly\":\"Enabled\""));
    isolation_create_pod(p, "maybe", WITH_MOUNT(",\"recursiveReadOnly\":\"IfPossible\""));
    assert_non_null(strstr(isolation_container(p, "mounts")->mounts, ":rro\n"));
    assert_non_null(strstr(isolation_container(p, "maybe")->mounts, ":rro\n"));
}

TEST_WITH_PODS(a_pod_has_limits_of_its_own)
{
    isolation_create_pod(
        p, "a",
        "\"containers\":[" RUNNING(
            "c", ",\"resources\":{\"limits\":{\"memory\":"
                 "\"64Mi\",\"cpu\":\"1\"}}") "," RUNNING("d", ",\"resources\":{\"limits\":{"
                                                              "\"memory\":\"32Mi\"}}") "]");
    const struct runtime_limits *l = &isolation_sandbox(p, "a")->limits;
    assert_int_equal(l->pids, PODS_PIDS_MAX);
    assert_int_equal(l->memory_bytes, 96 << 20);
    assert_int_equal(l->cpu_shares, 1024);
    assert_int_equal(l->cpu_quota_us, 0); // one container may use any
}

RUN_TESTS(TEST_CASE(what_cannot_be_provided_is_refused), TEST_CASE(what_asks_for_nothing_more_runs),
          TEST_CASE(a_runtime_class_that_is_gone_is_waited_for),
          TEST_CASE(an_ephemeral_container_cannot_ask_for_more_either),
          TEST_CASE(a_profile_in_an_annotation_is_one),
          TEST_CASE(pods_with_user_namespaces_have_ids_of_their_own),
          TEST_CASE(a_record_of_ids_may_be_damaged), TEST_CASE(handlers_choose_the_runtime),
          TEST_CASE(profiles_and_labels_are_passed_on), TEST_CASE(a_pod_has_limits_of_its_own))
