// SPDX-License-Identifier: Apache-2.0
#include "runtime_kit.h"

#include <fcntl.h>
#include <unistd.h>
#include <uv.h>

#include <sys/stat.h>

#include "os/file.h"
#include "os/process.h"

#include "base/banned.h"

#define GIVE_UP_NS (120 * CLOCK_NS_PER_SEC)

const char *kit_runtime_possible(void)
{
    cleanup_sbuf struct sbuf path = {0};
    if (geteuid() != 0)
        return "not root";
    if (!process_find("crun", &path) && !process_find("runc", &path))
        return "neither crun nor runc is installed";
    if (access("/bin/busybox", X_OK) != 0)
        return "no static busybox (package busybox-static)";
    return NULL;
}

// --- Waiting -------------------------------------------------------------------------------------

void kit_turn(struct kit_runtime *k, const bool *flag)
{
    const struct clock *clock = clock_system();
    int64_t end_ns = clock_mono_ns(clock) + GIVE_UP_NS;
    while (!*flag) {
        if (clock_mono_ns(clock) > end_ns)
            fail_msg("no answer for two minutes");
        (void)uv_run(loop_uv(k->loop), UV_RUN_ONCE);
    }
}

static void on_done(void *arg, int code, const struct err *err)
{
    struct kit_runtime *k = arg;
    k->answered = true;
    k->code = code;
    k->err = err ? *err : (struct err){0};
}

static void on_id(void *arg, int code, struct str id, const struct err *err)
{
    struct kit_runtime *k = arg;
    (void)snprintf(k->id, sizeof(k->id), "%.*s", STR_ARG(id));
    on_done(arg, code, err);
}

static void keep_id(char to[80], const struct kit_runtime *k)
{
    assert_true(strlen(k->id) < 80);
    memcpy(to, k->id, strlen(k->id) + 1);
}

static int wait_answer(struct kit_runtime *k)
{
    kit_turn(k, &k->answered);
    k->answered = false;
    return k->code;
}

static void on_exited(void *arg, const struct runtime_container_status *status)
{
    struct kit_runtime *k = arg;
    k->exited = true;
    k->end = *status;
    (void)snprintf(k->end_id, sizeof(k->end_id), "%.*s", STR_ARG(status->id));
}

// --- Life ----------------------------------------------------------------------------------------

void kit_runtime_again(struct kit_runtime *k)
{
    cleanup_sbuf struct sbuf root = {0}, images = {0}, cdi = {0};
    struct err err = {0};
    sbuf_addf(&root, "%s/root", k->dir);
    sbuf_addf(&images, "%s/images", k->dir);
    sbuf_addf(&cdi, "%s/cdi", k->dir);
    const char *dirs[] = {cdi.p};
    char subnet[32];
    int64_t number = 0;
    // A bridge that a killed test left behind must not be the way to the pods of this one.
    assert_int_equal(str_to_i64(str_from(str_z(k->bridge), 3), &number), 0);
    (void)snprintf(subnet, sizeof(subnet), "10.197.%d.0/24", (int)(number % 250));
    assert_int_equal(loop_new(&k->loop, &err), 0);
    const struct runtime_crun_options o = {
        .loop = k->loop,
        .root = root.p,
        .monitor = getenv("DRAY_MONITOR"), // NOLINT(concurrency-mt-unsafe): a test
        .runtime =
            k->program ? k->program : getenv("DRAY_TEST_RUNTIME"), // NOLINT(concurrency-mt-unsafe)
        .image_dir = images.p,
        .cdi_dirs = dirs,
        .cdi_dirs_len = 1,
        .cgroup_top = k->cgroup_top,
        .bridge = k->bridge,
        .subnet = subnet,
    };
    if (runtime_crun_new(&o, &k->runtime, &err) < 0)
        fail_msg("%s", err.msg);
    k->runtime->listener = (struct runtime_listener){.exited = on_exited, .arg = k};
}

void kit_runtime_open(struct kit_runtime *k)
{
    cleanup_sbuf struct sbuf path = {0};
    static const char *const parts[] = {"images", "cdi", "logs"};
    (void)snprintf(k->dir, sizeof(k->dir), "/tmp/dray-rt-XXXXXX");
    assert_non_null(mkdtemp(k->dir));
    (void)snprintf(k->bridge, sizeof(k->bridge), "drt%d", (int)getpid());
    (void)snprintf(k->cgroup_top, sizeof(k->cgroup_top), "dray-test-%d", (int)getpid());
    for (size_t i = 0; i < array_len(parts); i++) {
        sbuf_clear(&path);
        sbuf_addf(&path, "%s/%s", k->dir, parts[i]);
        assert_int_equal(mkdir(path.p, 0755), 0);
    }
    sbuf_clear(&path);
    sbuf_addf(&path, "%s/images/busybox", k->dir);
    assert_true(kit_busybox(path.p, "1.36", "{\"Cmd\":[\"/bin/sh\"],\"Env\":[\"FROM=image\"]}"));
    kit_runtime_again(k);
    assert_int_equal(kit_image(k, "busybox:1.36", RUNTIME_PULL_IF_NOT_PRESENT), 0);
    keep_id(k->image, k);
}

void kit_runtime_quit(struct kit_runtime *k)
{
    k->runtime->ops->free(k->runtime);
    loop_free(k->loop);
    k->runtime = NULL;
}

struct ids {
    bool done;
    size_t n;
    char pods[64][80];
};

static void on_list(void *arg, const struct runtime_list *all)
{
    struct ids *ids = arg;
    ids->done = true;
    for (size_t i = 0; i < all->pods_len && ids->n < 64; i++)
        (void)snprintf(ids->pods[ids->n++], 80, "%.*s", STR_ARG(all->pods[i].id));
}

static void check_nothing_left(struct kit_runtime *k)
{
    cleanup_sbuf struct sbuf mounts = {0}, path = {0};
    assert_true(file_read_at(AT_FDCWD, "/proc/self/mountinfo", (size_t)64 << 20, &mounts) == 0);
    if (str_contains(sbuf_str(&mounts), str_z(k->dir)))
        fail_msg("a mount was left");
    sbuf_addf(&path, "/sys/class/net/%s", k->bridge);
    if (access(path.p, F_OK) == 0)
        fail_msg("the bridge was left");
    static const char *const parts[] = {"pods", "containers", "crun", "net"};
    for (size_t i = 0; i < array_len(parts); i++) {
        sbuf_clear(&path);
        sbuf_addf(&path, "%s/root/%s", k->dir, parts[i]);
        if (rmdir(path.p) != 0)
            fail_msg("%s is not empty", path.p);
    }
}

void kit_remove_pods(struct kit_runtime *k)
{
    struct ids ids = {0};
    k->runtime->ops->list(k->runtime, on_list, &ids);
    kit_turn(k, &ids.done);
    for (size_t i = 0; i < ids.n; i++)
        if (kit_pod_remove(k, ids.pods[i]) < 0)
            fail_msg("%s", k->err.msg);
}

void kit_runtime_close(struct kit_runtime *k)
{
    kit_remove_pods(k);
    kit_runtime_quit(k);
    check_nothing_left(k);
    kit_remove(k->dir);
}

// --- Operations ----------------------------------------------------------------------------------

int kit_image(struct kit_runtime *k, const char *reference, enum runtime_pull pull)
{
    const struct runtime_image image = {.reference = str_z(reference), .pull = pull};
    k->runtime->ops->image_ensure(k->runtime, &image, on_id, k);
    return wait_answer(k);
}

int kit_pod_run(struct kit_runtime *k, const struct runtime_pod *pod, char id[80])
{
    k->runtime->ops->pod_run(k->runtime, pod, on_id, k);
    int rc = wait_answer(k);
    keep_id(id, k);
    return rc;
}

int kit_pod(struct kit_runtime *k, const char *uid, char id[80])
{
    char logs[96];
    (void)snprintf(logs, sizeof(logs), "%s/logs", k->dir);
    const struct runtime_pod pod = {
        .namespace = STR("default"),
        .name = str_z(uid),
        .uid = str_z(uid),
        .hostname = str_z(uid),
        .log_dir = logs,
        .resolv_conf = STR("nameserver 192.0.2.1\n"),
        .cgroup_parent = STR("burstable"),
    };
    return kit_pod_run(k, &pod, id);
}

int kit_pod_stop(struct kit_runtime *k, const char *id)
{
    k->runtime->ops->pod_stop(k->runtime, str_z(id), on_done, k);
    return wait_answer(k);
}

int kit_pod_remove(struct kit_runtime *k, const char *id)
{
    k->runtime->ops->pod_remove(k->runtime, str_z(id), on_done, k);
    return wait_answer(k);
}

int kit_create(struct kit_runtime *k, const char *pod, const struct runtime_container *c,
               char id[80])
{
    k->runtime->ops->container_create(k->runtime, str_z(pod), c, on_id, k);
    int rc = wait_answer(k);
    keep_id(id, k);
    return rc;
}

int kit_shell(struct kit_runtime *k, const char *pod, const char *name, const char *script,
              char id[80])
{
    const struct str command[] = {STR("/bin/sh"), STR("-c"), str_z(script)};
    const struct runtime_container c = {
        .name = str_z(name), .image = str_z(k->image), .command = command, .command_len = 3};
    return kit_create(k, pod, &c, id);
}

int kit_start(struct kit_runtime *k, const char *id)
{
    k->exited = false;
    k->runtime->ops->container_start(k->runtime, str_z(id), on_done, k);
    return wait_answer(k);
}

int kit_stop(struct kit_runtime *k, const char *id, int64_t grace_ns)
{
    k->runtime->ops->container_stop(k->runtime, str_z(id), grace_ns, on_done, k);
    return wait_answer(k);
}

int kit_remove_container(struct kit_runtime *k, const char *id)
{
    k->runtime->ops->container_remove(k->runtime, str_z(id), on_done, k);
    return wait_answer(k);
}

struct running {
    bool done;
    int code;
    int32_t status;
    struct err err;
    struct sbuf *out;
};

static void on_output(void *arg, int stream, struct str bytes)
{
    struct running *x = arg;
    (void)stream;
    sbuf_add(x->out, bytes);
}

static void on_exec_done(void *arg, int code, int32_t status, const struct err *err)
{
    struct running *x = arg;
    x->done = true;
    x->code = code;
    x->status = status;
    x->err = err ? *err : (struct err){0};
}

int kit_exec(struct kit_runtime *k, const char *id, const char *script, int64_t timeout_ns,
             struct sbuf *out, int32_t *ret_exit)
{
    struct running x = {.out = out};
    const struct str command[] = {STR("/bin/sh"), STR("-c"), str_z(script)};
    const struct runtime_exec_options o = {
        .container_id = str_z(id),
        .command = command,
        .command_len = 3,
        .timeout_ns = timeout_ns,
        .output = on_output,
        .done = on_exec_done,
        .arg = &x,
    };
    (void)k->runtime->ops->exec(k->runtime, &o);
    kit_turn(k, &x.done);
    k->err = x.err;
    *ret_exit = x.status;
    return x.code;
}

struct runtime_container_status kit_status(struct kit_runtime *k, const char *id)
{
    struct runtime_container_status s = {0};
    assert_true(k->runtime->ops->container_status(k->runtime, str_z(id), &s));
    return s;
}

struct runtime_container_status kit_wait(struct kit_runtime *k, const char *id)
{
    const struct clock *clock = clock_system();
    int64_t end_ns = clock_mono_ns(clock) + GIVE_UP_NS;
    while (kit_status(k, id).state != RUNTIME_EXITED) {
        if (clock_mono_ns(clock) > end_ns)
            fail_msg("the container does not end");
        (void)uv_run(loop_uv(k->loop), UV_RUN_ONCE);
    }
    return kit_status(k, id);
}

void kit_log(struct kit_runtime *k, const char *name, unsigned attempt, struct sbuf *out)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    sbuf_addf(&path, "%s/logs/%s/%u.log", k->dir, name, attempt);
    read_file(path.p, &text);
    struct str rest = sbuf_str(&text), line, word;
    while (rest.n > 0) {
        (void)str_cut(rest, '\n', &line, &rest);
        (void)str_cut(line, ' ', &word, &line);
        (void)str_cut(line, ' ', &word, &line);
        (void)str_cut(line, ' ', &word, &line);
        sbuf_add(out, line);
        if (str_eq(word, STR("F")))
            sbuf_addc(out, '\n');
    }
}

int kit_run(struct kit_runtime *k, const struct runtime_container *like, const char *script,
            struct sbuf *out)
{
    static unsigned number;
    char uid[32], pod[80], id[80];
    const struct str command[] = {STR("/bin/sh"), STR("-c"), str_z(script)};
    struct runtime_container c = like ? *like : (struct runtime_container){0};
    (void)snprintf(uid, sizeof(uid), "run-%u", number++);
    if (kit_pod(k, uid, pod) < 0)
        fail_msg("%s", k->err.msg);
    c.name = str_z(uid);
    c.image = c.image.n ? c.image : str_z(k->image);
    c.command = command;
    c.command_len = 3;
    if (kit_create(k, pod, &c, id) < 0 || kit_start(k, id) < 0)
        fail_msg("%s", k->err.msg);
    int code = kit_wait(k, id).exit_code;
    kit_log(k, uid, c.attempt, out);
    if (kit_pod_remove(k, pod) < 0)
        fail_msg("%s", k->err.msg);
    return code;
}
