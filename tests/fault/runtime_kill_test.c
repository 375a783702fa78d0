// SPDX-License-Identifier: Apache-2.0
//
// kill -9 at every step of a pod's life: of the agent before each thing it does, of the containers' monitors at each of
// those points, of crun within each of its calls. After each, a new agent over the same folder goes through the whole
// story again and must come to its end, with nothing left: no process, no mount, no link, no address, no control group,
// no file. Skipped where containers cannot run.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "os/fault.h"
#include "os/file.h"
#include "os/process.h"
#include "runtime_kit.h"

#include "base/banned.h"

#define NEVER       (-1)
#define MANY_POINTS 1000

struct shared {
    int steps, agent_crash, monitor_crash;
    char what[64]; // the step it happened before
};

static struct shared *shared;
static char dir[64];     // of the whole test: the image's layout, the wrapper
static char wrapper[96]; // a crun that dies

// --- Killing -------------------------------------------------------------------------------------

// All monitors that work for this test.
static void kill_monitors(void)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int64_t pid;
    while (d && (e = readdir(d))) { // NOLINT(concurrency-mt-unsafe): the stream is its own
        char path[300];
        cleanup_sbuf struct sbuf words = {0};
        if (str_to_i64(str_z(e->d_name), &pid) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
        if (file_read_at(AT_FDCWD, path, 65536, &words) == 0 &&
            str_contains(sbuf_str(&words), STR("dray-monitor")) &&
            str_contains(sbuf_str(&words), str_z(dir)))
            (void)kill((pid_t)pid, SIGKILL);
    }
    if (d)
        (void)closedir(d);
}

static int on_step(void *arg, const char *what)
{
    (void)arg;
    int step = __atomic_fetch_add(&shared->steps, 1, __ATOMIC_SEQ_CST);
    if (step == shared->agent_crash || step == shared->monitor_crash)
        (void)snprintf(shared->what, sizeof(shared->what), "%s", what);
    if (step == shared->agent_crash) {
        shared->agent_crash = NEVER;
        (void)kill(getpid(), SIGKILL);
    }
    if (step == shared->monitor_crash) {
        shared->monitor_crash = NEVER;
        kill_monitors();
    }
    return 0;
}

// --- The story -----------------------------------------------------------------------------------

// Failures are fine when something was killed in this very run; they are not when nothing was.
static void story(struct kit_runtime *k, bool must_work)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    const char *bad = NULL;
    if (kit_image(k, "busybox:1.36", RUNTIME_PULL_NEVER) < 0)
        bad = "image";
    memcpy(k->image, k->id, sizeof(k->image));
    if (!bad && kit_pod(k, "story", pod) < 0)
        bad = "pod";
    if (!bad && kit_shell(k, pod, "box", "sleep 1000", id) < 0)
        bad = "create";
    if (!bad && kit_start(k, id) < 0)
        bad = "start";
    if (!bad && kit_status(k, id).state == RUNTIME_RUNNING &&
        kit_exec(k, id, "true", 0, &out, &status) < 0)
        bad = kit_status(k, id).state == RUNTIME_RUNNING && must_work ? "exec" : NULL;
    if (!bad && kit_stop(k, id, 0) < 0)
        bad = "stop";
    if (!bad && kit_remove_container(k, id) < 0)
        bad = "remove";
    if (bad && must_work) {
        (void)fprintf(stderr, "%s: %s\n", bad, k->err.msg);
        _exit(3);
    }
}

static void run_agent(const char *root, const char *program, bool must_work)
{
    static const struct fault_hook hook = {on_step, NULL};
    struct kit_runtime k = {.program = program};
    fault_hook_set(&hook);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(k.dir, sizeof(k.dir), "%s", root);
    (void)snprintf(k.bridge, sizeof(k.bridge), "drk%d", (int)getppid());
    (void)snprintf(k.cgroup_top, sizeof(k.cgroup_top), "dray-kill-%d", (int)getppid());
    kit_runtime_again(&k);
    story(&k, must_work);
    kit_remove_pods(&k);
    kit_runtime_quit(&k);
    _exit(0);
}

static int start_agent(const char *root, const char *program, bool must_work)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        run_agent(root, program, must_work);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void make_root(char root[80])
{
    char path[96], target[96];
    static const char *const parts[] = {"cdi", "logs"};
    (void)snprintf(root, 80, "%s/r-XXXXXX", dir);
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < array_len(parts); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", root, parts[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    (void)snprintf(path, sizeof(path), "%s/images", root);
    (void)snprintf(target, sizeof(target), "%s/images", dir);
    assert_int_equal(symlink(target, path), 0);
}

// --- What must not be left -----------------------------------------------------------------------

static const char *left_behind(const char *root)
{
    static const char *const parts[] = {"pods", "containers", "crun", "net", "images/tmp"};
    cleanup_sbuf struct sbuf text = {0};
    char path[160];
    struct kit_runtime k = {0};
    (void)snprintf(k.bridge, sizeof(k.bridge), "drk%d", (int)getpid());
    assert_int_equal(file_read_at(AT_FDCWD, "/proc/self/mountinfo", (size_t)64 << 20, &text), 0);
    if (str_contains(sbuf_str(&text), str_z(root)))
        return "a mount";
    (void)snprintf(path, sizeof(path), "/sys/class/net/%s", k.bridge);
    if (access(path, F_OK) == 0)
        return "the bridge";
    (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/pids/dray-kill-%d/burstable/podstory",
                   (int)getpid());
    if (access(path, F_OK) == 0)
        return "a control group";
    for (size_t i = 0; i < array_len(parts); i++) {
        (void)snprintf(path, sizeof(path), "%s/root/%s", root, parts[i]);
        if (rmdir(path) != 0 && errno != ENOENT)
            return parts[i];
    }
    return NULL;
}

static void check_end(const char *root, int point)
{
    // A process that was killed a moment ago may still be on its way out.
    const char *left = left_behind(root);
    if (left)
        fail_msg("point %d (before '%s'): %s was left in %s", point, shared->what, left, root);
    kit_remove(root);
}

// The story with one kill. Returns whether it came to that.
static bool run_story(int agent_crash, int monitor_crash, int point)
{
    char root[80];
    *shared = (struct shared){.agent_crash = agent_crash, .monitor_crash = monitor_crash};
    make_root(root);
    int status = start_agent(root, NULL, false);
    bool happened =
        agent_crash != NEVER ? shared->agent_crash == NEVER : shared->monitor_crash == NEVER;
    if (agent_crash != NEVER && happened)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    shared->agent_crash = shared->monitor_crash = NEVER;
    status = start_agent(root, NULL, true);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("point %d (before '%s'): the second run ended with %d", point, shared->what,
                 status);
    check_end(root, point);
    return happened;
}

// --- Tests ---------------------------------------------------------------------------------------

static int setup(void **state)
{
    char path[96];
    cleanup_sbuf struct sbuf script = {0}, crun = {0};
    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)snprintf(dir, sizeof(dir), "/tmp/dray-kill-XXXXXX");
    if (shared == MAP_FAILED || !mkdtemp(dir))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/images", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/images/busybox", dir);
    assert_true(kit_busybox(path, "1.36", "{\"Cmd\":[\"/bin/sh\"]}"));
    if (!process_find("crun", &crun))
        (void)process_find("runc", &crun);
    // The call whose number is in `at` dies after the time in `after`.
    sbuf_addf(&script,
              "#!/bin/sh\n[ \"$1\" = --version ] && exec %s \"$@\"\n"
              "n=$(cat %s/count); echo $((n+1)) > %s/count\n"
              "[ $n = \"$(cat %s/at)\" ] || exec %s \"$@\"\n"
              "%s \"$@\" & p=$!\n"
              "sleep $(cat %s/after); kill -9 $p 2>/dev/null; wait $p; exit 137\n",
              crun.p, dir, dir, dir, crun.p, crun.p, dir);
    (void)snprintf(wrapper, sizeof(wrapper), "%s/crun-that-dies", dir);
    kit_write(wrapper, sbuf_str(&script));
    return chmod(wrapper, 0755);
}

static int teardown(void **state)
{
    (void)state;
    kit_remove(dir);
    return 0;
}

static void killing_the_agent_at_any_step_leaves_nothing(void **state)
{
    int points = 0;
    (void)state;
    while (points < MANY_POINTS && run_story(points, NEVER, points))
        points += sample(4);
    printf("the agent was killed at %d points\n", points);
    assert_in_range(points, 25, MANY_POINTS - 1);
}

static void killing_the_monitors_at_any_step_leaves_nothing(void **state)
{
    int points = 0;
    (void)state;
    while (points < MANY_POINTS && run_story(NEVER, points, points))
        points += sample(4);
    printf("the monitors were killed at %d points\n", points);
    assert_in_range(points, 25, MANY_POINTS - 1);
}

static void put_number(const char *name, const char *text)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    kit_write(path, str_z(text));
}

static void killing_crun_within_any_call_leaves_nothing(void **state)
{
    static const char *const after[] = {"0",     "0.002", "0.004", "0.007",
                                        "0.011", "0.016", "0.025", "0.05"};
    int points = 0;
    (void)state;
    for (int call = 0; call < 4; call++) {
        for (size_t i = 0; i < array_len(after); i += (size_t)sample(2), points++) {
            char root[80], text[16];
            *shared = (struct shared){.agent_crash = NEVER, .monitor_crash = NEVER};
            (void)snprintf(shared->what, sizeof(shared->what), "call %d, %s s", call, after[i]);
            (void)snprintf(text, sizeof(text), "%d\n", call);
            put_number("count", "0\n");
            put_number("at", text);
            put_number("after", after[i]);
            make_root(root);
            (void)start_agent(root, wrapper, false);
            int status = start_agent(root, NULL, true);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail_msg("%s: the second run ended with %d", shared->what, status);
            check_end(root, points);
        }
    }
    printf("crun was killed at %d points\n", points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(killing_the_agent_at_any_step_leaves_nothing),
        TEST_CASE(killing_the_monitors_at_any_step_leaves_nothing),
        TEST_CASE(killing_crun_within_any_call_leaves_nothing),
    };
    const char *why = kit_runtime_possible();
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
