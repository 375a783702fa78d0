// SPDX-License-Identifier: Apache-2.0
//
// A runtime that comes back: to containers that still run, that ended meanwhile, whose monitor was killed, of before
// the machine was restarted. Skipped as runtime_test.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <uv.h>

#include <sys/mount.h>
#include <sys/stat.h>

#include "os/fault.h"
#include "os/file.h"
#include "runtime_kit.h"

#include "base/banned.h"

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

static void restart(void)
{
    kit_runtime_quit(&kit);
    kit_runtime_again(&kit);
}

// The monitor of a container: whoever has its folder as an argument.
static pid_t find_monitor(const char *id)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int64_t pid, found = 0;
    while (d && (e = readdir(d))) { // NOLINT(concurrency-mt-unsafe): one thread
        char path[300];
        cleanup_sbuf struct sbuf words = {0};
        (void)snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
        if (str_to_i64(str_z(e->d_name), &pid) == 0 &&
            file_read_at(AT_FDCWD, path, 65536, &words) == 0 &&
            str_contains(sbuf_str(&words), STR("dray-monitor")) &&
            str_contains(sbuf_str(&words), str_z(id)))
            found = pid;
    }
    if (d)
        (void)closedir(d);
    assert_true(found > 0);
    return (pid_t)found;
}

static void what_runs_is_taken_over(void **state)
{
    char pod[80], id[80], made[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    (void)state;
    must(kit_pod(&kit, "over", pod));
    must(kit_shell(&kit, pod, "made", "exit 4", made));
    must(kit_shell(&kit, pod, "box", "while [ ! -e /tmp/go ]; do sleep 0.05; done; exit 9", id));
    must(kit_start(&kit, id));
    int64_t started_ns = kit_status(&kit, id).started_ns;
    restart();
    assert_int_equal(kit_status(&kit, id).state, RUNTIME_RUNNING);
    assert_str(kit_status(&kit, id).name, "box");
    assert_str(kit_status(&kit, id).pod_uid, "over");
    assert_true(
        kit_status(&kit, id).started_ns / CLOCK_NS_PER_SEC - started_ns / CLOCK_NS_PER_SEC <= 1);
    assert_int_equal(kit_status(&kit, made).state, RUNTIME_CREATED);
    must(kit_exec(&kit, id, "touch /tmp/go", 0, &out, &status));
    assert_int_equal(kit_wait(&kit, id).exit_code, 9);
    must(kit_start(&kit, made));
    assert_int_equal(kit_wait(&kit, made).exit_code, 4);
    must(kit_pod_remove(&kit, pod));
}

static void count_watches(uv_handle_t *handle, void *arg)
{
    *(size_t *)arg += handle->type == UV_POLL && !uv_is_closing(handle);
}

static size_t watches(void)
{
    size_t n = 0;
    uv_walk(loop_uv(kit.loop), count_watches, &n);
    return n;
}

static void who_leaves_watches_nothing_and_what_runs_goes_on(void **state)
{
    char pod[80], id[80], late[80];
    (void)state;
    must(kit_pod(&kit, "left", pod));
    must(kit_shell(&kit, pod, "box", "sleep 1000", id));
    must(kit_start(&kit, id));
    assert_int_equal(watches(), 1);
    kit.runtime->ops->leave(kit.runtime);
    assert_int_equal(watches(), 0);
    must(kit_shell(&kit, pod, "late", "exit 0", late)); // as what was under way then
    assert_int_equal(watches(), 0);
    restart();
    assert_int_equal(kit_status(&kit, id).state, RUNTIME_RUNNING);
    assert_int_equal(kit_status(&kit, late).state, RUNTIME_CREATED);
    must(kit_pod_remove(&kit, pod));
}

static void what_ended_meanwhile_is_known(void **state)
{
    char pod[80], id[80], path[200];
    (void)state;
    must(kit_pod(&kit, "meanwhile", pod));
    must(kit_shell(&kit, pod, "box", "sleep 0.3; exit 6", id));
    must(kit_start(&kit, id));
    kit_runtime_quit(&kit);
    (void)snprintf(path, sizeof(path), "%s/root/containers/%s/exit", kit.dir, id);
    for (int i = 0; i < 4000 && access(path, F_OK) != 0; i++)
        (void)usleep(10000);
    kit_runtime_again(&kit);
    struct runtime_container_status s = kit_wait(&kit, id);
    assert_int_equal(s.exit_code, 6);
    assert_true(s.finished_ns > s.started_ns && s.started_ns > 0);
    must(kit_pod_remove(&kit, pod));
}

static void a_container_goes_with_its_monitor(void **state)
{
    char pod[80], one[80], two[80];
    (void)state;
    must(kit_pod(&kit, "monitor", pod));
    must(kit_shell(&kit, pod, "one", "sleep 1000", one));
    must(kit_shell(&kit, pod, "two", "sleep 1000", two));
    must(kit_start(&kit, one));
    must(kit_start(&kit, two));
    kit.exited = false;
    assert_int_equal(kill(find_monitor(one), SIGKILL), 0);
    kit_turn(&kit, &kit.exited);
    assert_string_equal(kit.end_id, one);
    assert_int_equal(kit_status(&kit, one).state, RUNTIME_EXITED);
    assert_int_equal(kit_status(&kit, one).exit_code, 255);
    assert_true(str_contains(kit_status(&kit, one).message, STR("monitor was killed")));
    assert_int_equal(kit_status(&kit, two).state, RUNTIME_RUNNING);
    // The same while nobody looks.
    kit_runtime_quit(&kit);
    pid_t monitor = find_monitor(two);
    assert_int_equal(kill(monitor, SIGKILL), 0);
    while (kill(monitor, 0) == 0)
        (void)usleep(5000);
    kit_runtime_again(&kit);
    assert_int_equal(kit_status(&kit, two).state, RUNTIME_EXITED);
    assert_int_equal(kit_status(&kit, two).exit_code, 255);
    must(kit_pod_remove(&kit, pod));
}

// Replaces the boot id in a description.
static void age(const char *part, const char *id)
{
    char path[200];
    cleanup_sbuf struct sbuf text = {0}, changed = {0};
    (void)snprintf(path, sizeof(path), "%s/root/%s/%s/meta", kit.dir, part, id);
    read_file(path, &text);
    struct str all = sbuf_str(&text);
    ptrdiff_t at = str_find(all, STR("\"bootID\":\""));
    assert_true(at > 0);
    sbuf_add(&changed, str_upto(all, (size_t)at + 10));
    sbuf_addz(&changed, "00000000");
    sbuf_add(&changed, str_from(all, (size_t)at + 18));
    kit_write(path, sbuf_str(&changed));
}

struct pods {
    bool done;
    enum runtime_pod_state state;
};

static void look_at_pods(void *arg, const struct runtime_list *all)
{
    struct pods *p = arg;
    p->done = true;
    assert_int_equal(all->pods_len, 1);
    p->state = all->pods[0].state;
}

static void what_was_before_the_machine_started_has_ended(void **state)
{
    char pod[80], id[80];
    struct pods p = {0};
    (void)state;
    must(kit_pod(&kit, "boot", pod));
    must(kit_shell(&kit, pod, "box", "sleep 1000", id));
    must(kit_start(&kit, id));
    kit_runtime_quit(&kit);
    pid_t monitor = find_monitor(id);
    assert_int_equal(kill(monitor, SIGKILL), 0);
    while (kill(monitor, 0) == 0)
        (void)usleep(5000);
    age("pods", pod);
    age("containers", id);
    kit_runtime_again(&kit);
    assert_int_equal(kit_status(&kit, id).state, RUNTIME_EXITED);
    assert_true(str_contains(kit_status(&kit, id).message, STR("the machine was restarted")));
    kit.runtime->ops->list(kit.runtime, look_at_pods, &p);
    kit_turn(&kit, &p.done);
    assert_int_equal(p.state, RUNTIME_POD_NOT_READY);
    // It can be run anew under its name.
    must(kit_pod(&kit, "boot", pod));
    must(kit_remove_container(&kit, id));
    must(kit_shell(&kit, pod, "box", "exit 2", id));
    must(kit_start(&kit, id));
    assert_int_equal(kit_wait(&kit, id).exit_code, 2);
    must(kit_pod_remove(&kit, pod));
}

static void damaged_descriptions_are_cleared_away(void **state)
{
    char pod[80], id[80], path[200];
    (void)state;
    must(kit_pod(&kit, "damaged", pod));
    must(kit_shell(&kit, pod, "box", "sleep 1000", id));
    must(kit_start(&kit, id));
    kit_runtime_quit(&kit);
    (void)snprintf(path, sizeof(path), "%s/root/pods/%s/meta", kit.dir, pod);
    kit_write(path, STR("{\"half"));
    kit_runtime_again(&kit);
    struct runtime_container_status s;
    assert_false(kit.runtime->ops->container_status(kit.runtime, str_z(id), &s));
    (void)snprintf(path, sizeof(path), "%s/root/containers/%s", kit.dir, id);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void two_runtimes_do_not_share_a_folder(void **state)
{
    struct runtime *other;
    struct err err;
    char root[96];
    (void)state;
    (void)snprintf(root, sizeof(root), "%s/root", kit.dir);
    const struct runtime_crun_options o = {
        .loop = kit.loop,
        .root = root,
        .monitor = getenv("DRAY_MONITOR")}; // NOLINT(concurrency-mt-unsafe)
    assert_int_equal(runtime_crun_new(&o, &other, &err), -ERR_CONFLICT);
}

// Fills a file system to its last byte.
static void fill(const char *path)
{
    static const char block[4096] = {1};
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (size_t n = sizeof(block); n > 0;)
        if (write(fd, block, n) < 0)
            n /= 2;
    (void)close(fd);
}

static void a_full_disk_does_not_keep_a_pod_alive(void **state)
{
    char pod[80], id[80], pods[100], filler[120], file[220];
    (void)state;
    (void)snprintf(pods, sizeof(pods), "%s/root/pods", kit.dir);
    (void)snprintf(filler, sizeof(filler), "%s/.filler", pods);
    assert_int_equal(mount("tmpfs", pods, "tmpfs", 0, "size=256k"), 0);
    must(kit_pod(&kit, "full", pod));
    must(kit_shell(&kit, pod, "c", "sleep 1000", id));
    must(kit_start(&kit, id));
    fill(filler);
    must(kit_pod_stop(&kit, pod));
    assert_int_equal(kit_status(&kit, id).state, RUNTIME_EXITED);
    (void)snprintf(file, sizeof(file), "%s/%s/ns/net", pods, pod);
    assert_int_not_equal(access(file, F_OK), 0);
    restart(); // and nobody takes it for one that is ready
    must(kit_pod_remove(&kit, pod));
    (void)snprintf(file, sizeof(file), "%s/%s", pods, pod);
    assert_int_not_equal(access(file, F_OK), 0);
    assert_int_equal(unlink(filler), 0);
    assert_int_equal(umount(pods), 0);
}

static int take_time(void *arg, const char *what)
{
    (void)arg;
    if (strcmp(what, "send the container a signal") == 0)
        (void)usleep(200000);
    return 0;
}

static void nobody(void *arg, int code, const struct err *err)
{
    (void)arg;
    (void)code;
    (void)err;
}

static void what_is_at_work_may_end_after_the_runtime_was_freed(void **state)
{
    char pod[80], id[80];
    (void)state;
    static const struct fault_hook hook = {take_time, NULL};
    fault_hook_set(&hook);
    restart();
    must(kit_pod(&kit, "late", pod));
    must(kit_shell(&kit, pod, "box", "sleep 1000", id));
    must(kit_start(&kit, id));
    kit.runtime->ops->container_stop(kit.runtime, str_z(id), 60 * CLOCK_NS_PER_SEC, nobody, NULL);
    fault_hook_set(NULL);
    restart();
    must(kit_stop(&kit, id, 0));
    must(kit_pod_remove(&kit, pod));
}

static void on_begun(void *arg, int stream, struct str bytes)
{
    (void)stream;
    (void)bytes;
    *(bool *)arg = true;
}

static void on_command_done(void *arg, int code, int32_t status, const struct err *err)
{
    (void)arg;
    (void)code;
    (void)status;
    (void)err;
}

// A process that hides from the end of its command, and keeps its output open, does not keep the runtime from going.
static void who_keeps_a_command_s_output_is_not_waited_for(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    bool begun = false;
    const struct str command[] = {
        STR("/bin/sh"), STR("-c"),
        STR("env -i /bin/sh -c 'echo begun; exec sleep 61' & sleep 1000")};
    (void)state;
    must(kit_pod(&kit, "hides", pod));
    must(kit_shell(&kit, pod, "box", "sleep 1000", id));
    must(kit_start(&kit, id));
    const struct runtime_exec_options o = {.container_id = str_z(id),
                                           .command = command,
                                           .command_len = array_len(command),
                                           .output = on_begun,
                                           .done = on_command_done,
                                           .arg = &begun};
    struct runtime_exec *x = kit.runtime->ops->exec(kit.runtime, &o);
    kit_turn(&kit, &begun);
    kit.runtime->ops->exec_cancel(x);
    restart();
    must(kit_exec(&kit, id, "ps", 0, &out, &status));
    must(kit_pod_remove(&kit, pod));
    if (!str_contains(sbuf_str(&out), STR("sleep 61")))
        fail_msg("it was waited for: %s", out.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(what_runs_is_taken_over),
        TEST_CASE(who_leaves_watches_nothing_and_what_runs_goes_on),
        TEST_CASE(what_is_at_work_may_end_after_the_runtime_was_freed),
        TEST_CASE(who_keeps_a_command_s_output_is_not_waited_for),
        TEST_CASE(what_ended_meanwhile_is_known),
        TEST_CASE(a_container_goes_with_its_monitor),
        TEST_CASE(what_was_before_the_machine_started_has_ended),
        TEST_CASE(damaged_descriptions_are_cleared_away),
        TEST_CASE(two_runtimes_do_not_share_a_folder),
        TEST_CASE(a_full_disk_does_not_keep_a_pod_alive),
    };
    const char *why = kit_runtime_possible();
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
