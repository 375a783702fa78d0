// SPDX-License-Identifier: Apache-2.0
//
// Pods with a user namespace, and limits of whole pods, in real containers. Needs root, crun or runc, and a
// static busybox; without them, or where the kernel has no id-mapped mounts, it says so and is skipped.
#include <fcntl.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/stat.h>

#include "os/file.h"
#include "runtime_kit.h"

#include "base/banned.h"

#define BASE 196608u

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

static void says(const struct sbuf *text, const char *what)
{
    if (!text->p || !strstr(text->p, what))
        fail_msg("it does not say '%s' but '%s'", what, text->p ? text->p : "");
}

static void users_make_pod(const char *uid, bool share_pid, struct runtime_limits limits,
                           struct runtime_users users, char id[80])
{
    char logs[96];
    (void)snprintf(logs, sizeof(logs), "%s/logs", kit.dir);
    const struct runtime_pod pod = {.namespace = STR("default"),
                                    .name = str_z(uid),
                                    .uid = str_z(uid),
                                    .hostname = str_z(uid),
                                    .log_dir = logs,
                                    .resolv_conf = STR("nameserver 192.0.2.1\n"),
                                    .share_pid = share_pid,
                                    .cgroup_parent = STR("burstable"),
                                    .limits = limits,
                                    .users = users};
    must(kit_pod_run(&kit, &pod, id));
}

static void users_run(const char *pod, const char *name, const struct runtime_container *like,
                      const char *script, struct sbuf *out)
{
    const struct str command[] = {STR("/bin/sh"), STR("-c"), str_z(script)};
    struct runtime_container c = *like;
    char id[80];
    c.name = str_z(name);
    c.image = str_z(kit.image);
    c.command = command;
    c.command_len = 3;
    must(kit_create(&kit, pod, &c, id));
    must(kit_start(&kit, id));
    (void)kit_wait(&kit, id);
    kit_log(&kit, name, 0, out);
}

static bool users_are_possible(void)
{
    const struct runtime_features *f = kit.runtime->ops->features(kit.runtime);
    if (!f->no_users && f->handlers[0].users)
        return true;
    printf("skipped: no user namespaces for pods: %s\n", f->no_users ? f->no_users : "old runtime");
    return false;
}

static void root_inside_is_not_root_outside(void **state)
{
    (void)state;
    if (!users_are_possible())
        return;
    char pod[80], volume[96], path[128];
    struct stat st;
    cleanup_sbuf struct sbuf out = {0}, core = {0}, core_after = {0};
    (void)snprintf(volume, sizeof(volume), "%s/volume", kit.dir);
    (void)snprintf(path, sizeof(path), "%s/old", volume);
    assert_int_equal(mkdir(volume, 0755), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 1000, 1000), 0);
    (void)!file_read("/proc/sys/kernel/core_pattern", 256, &core, NULL);
    users_make_pod("users-a", false, (struct runtime_limits){0},
                   (struct runtime_users){BASE, 65536}, pod);
    const struct runtime_mount mounts[] = {
        {.host_path = volume, .container_path = "/v", .sub_path = ""},
        {.host_path = volume, .container_path = "/sub", .sub_path = "made"}};
    const struct runtime_container like = {
        .mounts = mounts, .mounts_len = 2, .security = {.unmasked_proc = true}};
    users_run(pod, "c", &like,
              "id -u; cat /proc/self/uid_map; stat -c '%u %n' /bin/sh /v /v/old /etc/hosts;"
              "echo x > /v/new; chown 7:8 /v/new; echo y > /sub/s; echo z > /root-file;"
              "echo 1.2.3.4 h >> /etc/hosts && echo hosts-written;"
              "echo evil > /proc/sys/kernel/core_pattern || echo core-refused;"
              "hostname changed && echo hostname-set; ip link set lo up && echo net-owned;"
              "mknod /n b 8 0 || echo mknod-refused; stat -c 'shm %a' /dev/shm;"
              "mount -t tmpfs t /mnt 2>/dev/null && echo mounted; ls /dev/null && echo done",
              &out);
    says(&out, "0\n");
    says(&out, "196608      65536");
    says(&out, "0 /bin/sh");
    says(&out, "0 /v\n");
    says(&out, "1000 /v/old");
    says(&out, "0 /etc/hosts");
    says(&out, "hosts-written");
    says(&out, "core-refused");
    says(&out, "net-owned");
    says(&out, "mknod-refused");
    says(&out, "done");
    (void)!file_read("/proc/sys/kernel/core_pattern", 256, &core_after, NULL);
    assert_string_equal(core.p, core_after.p);
    // On disk, files have the owners that the container sees.
    (void)snprintf(path, sizeof(path), "%s/new", volume);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, 7);
    assert_int_equal(st.st_gid, 8);
    (void)snprintf(path, sizeof(path), "%s/made/s", volume);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, 0);
}

static void processes_have_the_pods_ids(void **state)
{
    (void)state;
    if (!users_are_possible())
        return;
    char pod[80], id[80], path[192];
    cleanup_sbuf struct sbuf text = {0}, out = {0};
    users_make_pod("users-b", true, (struct runtime_limits){0},
                   (struct runtime_users){BASE + 65536, 65536}, pod);
    must(kit_shell(&kit, pod, "c", "sleep 600", id));
    must(kit_start(&kit, id));
    (void)snprintf(path, sizeof(path), "%s/root/containers/%s/pid", kit.dir, id);
    must(file_read(path, 64, &text, &kit.err));
    (void)snprintf(path, sizeof(path), "/proc/%.*s", STR_ARG(str_trim(sbuf_str(&text))));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, BASE + 65536);
    int32_t status;
    must(kit_exec(&kit, id, "id -u; ps | grep -c pause; cat /proc/1/cmdline", 0, &out, &status));
    says(&out, "0\n");
    must(kit_stop(&kit, id, 0));
}

static void a_fork_bomb_ends_at_the_limit_of_its_pod(void **state)
{
    (void)state;
    char pod[80], other[80];
    cleanup_sbuf struct sbuf out = {0}, fine = {0};
    users_make_pod("bomb", false, (struct runtime_limits){.pids = 32}, (struct runtime_users){0},
                   pod);
    users_make_pod("neighbour", false, (struct runtime_limits){.pids = 32},
                   (struct runtime_users){0}, other);
    users_run(pod, "c", &(struct runtime_container){0},
              "i=0; while [ $i -lt 100 ]; do sleep 2 & i=$((i+1)); done; echo survived", &out);
    says(&out, "Resource temporarily unavailable");
    users_run(other, "d", &(struct runtime_container){0},
              "for i in 1 2 3 4 5 6 7 8; do sleep 0 & done; wait; echo all-forked", &fine);
    says(&fine, "all-forked");
}

static void usage_of_a_pod_is_measured(void **state)
{
    (void)state;
    char pod[80], id[80];
    users_make_pod("measured", false, (struct runtime_limits){.pids = 64},
                   (struct runtime_users){0}, pod);
    must(kit_shell(&kit, pod, "c", "dd if=/dev/zero of=/big bs=1M count=8 2>/dev/null; sleep 600",
                   id));
    must(kit_start(&kit, id));
    const struct str ids[] = {str_z(id)};
    struct runtime_container_usage one = {0};
    struct runtime_usage u = {.containers = &one};
    const struct runtime_measure what = {.uid = STR("measured"),
                                         .cgroup_parent = STR("burstable"),
                                         .containers = ids,
                                         .containers_len = 1,
                                         .disk = true};
    for (int i = 0; i < 100 && one.disk_bytes < (8u << 20); i++) {
        kit.runtime->ops->measure(kit.runtime, &what, &u);
        (void)usleep(20000);
    }
    assert_true(one.disk_bytes >= (8u << 20) && one.disk_bytes < (10u << 20));
    assert_true(u.processes >= 1 && u.processes < 5);
    assert_true(u.memory_bytes > 0);
    must(kit_stop(&kit, id, 0));
}

// A mount below a read-only one stays writable unless the mount is recursive.
static void read_only_mounts_can_be_recursive(void **state)
{
    (void)state;
    char pod[80], volume[96], below[128];
    cleanup_sbuf struct sbuf out = {0};
    if (!kit.runtime->ops->features(kit.runtime)->recursive_read_only)
        return;
    (void)snprintf(volume, sizeof(volume), "%s/rro", kit.dir);
    (void)snprintf(below, sizeof(below), "%s/below", volume);
    assert_int_equal(mkdir(volume, 0755), 0);
    assert_int_equal(mkdir(below, 0755), 0);
    assert_int_equal(mount("t", below, "tmpfs", 0, NULL), 0);
    users_make_pod("rro", false, (struct runtime_limits){0}, (struct runtime_users){0}, pod);
    const struct runtime_mount mounts[] = {
        {.host_path = volume, .container_path = "/plain", .sub_path = "", .read_only = true},
        {.host_path = volume,
         .container_path = "/deep",
         .sub_path = "",
         .read_only = true,
         .recursive = true}};
    users_run(pod, "c", &(struct runtime_container){.mounts = mounts, .mounts_len = 2},
              "touch /plain/below/x && echo plain-written; touch /plain/x || echo plain-refused;"
              "touch /deep/below/y || echo deep-refused",
              &out);
    assert_int_equal(umount2(below, MNT_DETACH), 0);
    says(&out, "plain-written");
    says(&out, "plain-refused");
    says(&out, "deep-refused");
}

static void a_handler_runs_with_its_own_program(void **state)
{
    (void)state;
    const struct runtime_features *f = kit.runtime->ops->features(kit.runtime);
    char logs[96], pod_id[80];
    cleanup_sbuf struct sbuf out = {0};
    (void)snprintf(logs, sizeof(logs), "%s/logs", kit.dir);
    struct runtime_pod pod = {.namespace = STR("default"),
                              .name = STR("handled"),
                              .uid = STR("handled"),
                              .hostname = STR("handled"),
                              .log_dir = logs,
                              .cgroup_parent = STR("burstable"),
                              .handler = STR("no-such-handler")};
    assert_int_equal(kit_pod_run(&kit, &pod, pod_id), -ERR_UNSUPPORTED);
    for (size_t i = 0; i < f->handlers_len; i++) {
        char name[32], uid[40], id[80];
        int32_t status = -1;
        (void)snprintf(name, sizeof(name), "h%zu", i);
        (void)snprintf(uid, sizeof(uid), "handled-%zu", i);
        pod.uid = str_z(uid);
        pod.handler = f->handlers[i].name;
        must(kit_pod_run(&kit, &pod, pod_id));
        must(kit_shell(&kit, pod_id, name, "sleep 600", id));
        must(kit_start(&kit, id));
        sbuf_clear(&out);
        must(kit_exec(&kit, id, "echo inside", 0, &out, &status));
        says(&out, "inside");
        must(kit_stop(&kit, id, 0));
    }
}

// Containers may write to /etc/hosts, but not without end.
static void files_of_etc_are_bounded(void **state)
{
    (void)state;
    char pod[80];
    cleanup_sbuf struct sbuf out = {0};
    users_make_pod("etc", false, (struct runtime_limits){0}, (struct runtime_users){0}, pod);
    users_run(pod, "c", &(struct runtime_container){0},
              "dd if=/dev/zero of=/etc/hosts bs=1M count=64 2>&1; stat -c 'has %s' /etc/hosts",
              &out);
    says(&out, "No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_inside_is_not_root_outside),
        cmocka_unit_test(processes_have_the_pods_ids),
        cmocka_unit_test(a_fork_bomb_ends_at_the_limit_of_its_pod),
        cmocka_unit_test(usage_of_a_pod_is_measured),
        cmocka_unit_test(files_of_etc_are_bounded),
        cmocka_unit_test(read_only_mounts_can_be_recursive),
        cmocka_unit_test(a_handler_runs_with_its_own_program),
    };
    const char *why = kit_runtime_possible();
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
