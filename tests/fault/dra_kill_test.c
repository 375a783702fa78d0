// SPDX-License-Identifier: Apache-2.0
//
// kill -9 at every step: the manager is killed before each thing it does to the disk or to a driver, the
// driver before, within and after each thing it does. After each, everything is started again and has
// to come to the same end: nothing leaked, no device given to two claims, the checkpoint empty.
//
// The manager and the drivers are processes of their own; the drivers keep what they prepared in files, so
// they too know it after a restart.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "dra_kit.h"
#include "os/fault.h"

#include "base/banned.h"

#define MS          CLOCK_NS_PER_MS
#define GIVE_UP_NS  (60 * CLOCK_NS_PER_SEC)
#define DRIVER_ONE  "one.example.com"
#define DRIVER_TWO  "two.example.com"
#define NEVER       (-1)
#define PHASES      3
#define MANY_POINTS 2000

// What all processes see.
struct shared {
    int manager_steps, manager_crash;
    int driver_steps, driver_crash;
    int violations;
};

static struct shared *shared;
static char dir[40];

// A claim and the device it has been given. Claims of one device never exist at the same time.
struct row {
    const char *claim, *driver, *device, *pods;
};

static const struct row rows[] = {
    {"a", DRIVER_ONE, "gpu-0", "p1"},    {"b", DRIVER_TWO, "nic-0", "p1"},
    {"s", DRIVER_ONE, "gpu-1", "p1 p2"}, {"c", DRIVER_TWO, "nic-1", "p3"},
    {"d", DRIVER_ONE, "gpu-0", "p4"}, // after a
};

// Pods, their claims, and in which phases they are active.
static const struct {
    const char *uid, *claims;
    bool active[PHASES];
} pods[] = {
    {"p1", "a b s", {true, false, false}},
    {"p2", "s", {true, true, false}},
    {"p3", "c", {true, true, false}},
    {"p4", "d", {false, true, false}},
};

static void crash(int *steps, int at)
{
    if ((*steps)++ == at)
        (void)raise(SIGKILL);
}

static void must(bool what)
{
    if (!what)
        _exit(1);
}

// --- The drivers ---------------------------------------------------------------------------------

struct driver {
    const char *name;
    struct grpc_server *dra, *registration;
    char endpoint[96], socket[96], prepared[96];
};

static void driver_step(void)
{
    crash(&shared->driver_steps, shared->driver_crash);
}

static const char *device_of(struct str uid)
{
    for (size_t i = 0; i < array_len(rows); i++)
        if (str_ends(uid, str_z(rows[i].claim)))
            return rows[i].device;
    return "";
}

// Says so if another claim has the device.
static void check_device(const struct driver *d, struct str uid)
{
    DIR *folder = opendir(d->prepared);
    must(folder);
    for (const struct dirent *e; (e = readdir(folder));) // NOLINT(concurrency-mt-unsafe)
        if (e->d_name[0] != '.' && !str_eqz(uid, e->d_name) &&
            strcmp(device_of(str_z(e->d_name)), device_of(uid)) == 0)
            shared->violations++;
    (void)closedir(folder);
}

static void set_up(const struct driver *d, struct str uid)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%.*s", d->prepared, STR_ARG(uid));
    check_device(d, uid);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    must(fd >= 0);
    (void)close(fd);
}

static void tear_down(const struct driver *d, struct str uid)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%.*s", d->prepared, STR_ARG(uid));
    (void)unlink(path);
}

static void on_prepare(void *arg, struct grpc_call *call)
{
    const struct driver *d = arg;
    struct plugin_claims q = {0};
    struct plugin_prepare_response r = {0};
    struct arena *a = call->arena;
    driver_step();
    must(plugin_decode(&plugin_claims_message, call->request, &q, a, NULL) == 0);
    vec_foreach(&q.claims, c) {
        struct plugin_prepared one = {.uid = c->uid};
        struct plugin_device device = {.pool_name = STR("pool"),
                                       .device_name = str_z(device_of(c->uid))};
        set_up(d, c->uid);
        driver_step();
        vec_push_arena(a, &device.cdi_device_ids,
                       arena_strf(a, "%s/dev=%s", d->name, device_of(c->uid)));
        vec_push_arena(a, &one.claim.devices, device);
        vec_push_arena(a, &r.claims, one);
    }
    cleanup_proto_writer struct proto_writer w = {0};
    plugin_encode(&plugin_prepare_response_message, &r, &w);
    grpc_reply(call, proto_written(&w));
    driver_step();
}

static void on_unprepare(void *arg, struct grpc_call *call)
{
    const struct driver *d = arg;
    struct plugin_claims q = {0};
    struct plugin_unprepare_response r = {0};
    driver_step();
    must(plugin_decode(&plugin_claims_message, call->request, &q, call->arena, NULL) == 0);
    vec_foreach(&q.claims, c) {
        tear_down(d, c->uid);
        driver_step();
        vec_push_arena(call->arena, &r.claims, ((struct plugin_unprepared){.uid = c->uid}));
    }
    cleanup_proto_writer struct proto_writer w = {0};
    plugin_encode(&plugin_unprepare_response_message, &r, &w);
    grpc_reply(call, proto_written(&w));
    driver_step();
}

static void on_get_info(void *arg, struct grpc_call *call)
{
    const struct driver *d = arg;
    cleanup_proto_writer struct proto_writer w = {0};
    struct plugin_info info = {
        .type = STR(PLUGIN_TYPE_DRA), .name = str_z(d->name), .endpoint = str_z(d->endpoint)};
    driver_step();
    vec_push_arena(call->arena, &info.supported_versions, STR(PLUGIN_ID_DRA_V1));
    plugin_encode(&plugin_info_message, &info, &w);
    grpc_reply(call, proto_written(&w));
}

static void on_notify(void *arg, struct grpc_call *call)
{
    (void)arg;
    driver_step();
    grpc_reply(call, STR(""));
}

static void serve(struct driver *d, struct loop *loop, const char *name)
{
    struct err err;
    *d = (struct driver){.name = name};
    (void)snprintf(d->endpoint, sizeof(d->endpoint), "%s/plugins/%s.sock", dir, name);
    (void)snprintf(d->socket, sizeof(d->socket), "%s/registry/%s-reg.sock", dir, name);
    (void)snprintf(d->prepared, sizeof(d->prepared), "%s/prepared-%s", dir, name);
    (void)mkdir(d->prepared, 0755);
    d->dra = grpc_server_new(loop, NULL);
    d->registration = grpc_server_new(loop, NULL);
    grpc_server_handle(d->dra, STR(PLUGIN_DRA_V1 "NodePrepareResources"), on_prepare, d);
    grpc_server_handle(d->dra, STR(PLUGIN_DRA_V1 "NodeUnprepareResources"), on_unprepare, d);
    grpc_server_handle(d->registration, STR(PLUGIN_GET_INFO), on_get_info, d);
    grpc_server_handle(d->registration, STR(PLUGIN_NOTIFY), on_notify, d);
    must(grpc_server_listen(d->dra, d->endpoint, &err) == 0 &&
         grpc_server_listen(d->registration, d->socket, &err) == 0);
}

// A process of this test; none outlives it.
static pid_t start_process(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static pid_t start_drivers(void)
{
    pid_t pid = start_process();
    if (pid > 0)
        return pid;
    struct loop *loop;
    struct driver one, two;
    must(loop_new(&loop, NULL) == 0);
    serve(&one, loop, DRIVER_ONE);
    serve(&two, loop, DRIVER_TWO);
    loop_run(loop);
    _exit(0);
}

// --- The manager ---------------------------------------------------------------------------------

struct manager {
    struct loop *loop;
    struct kit_api api;
    struct dra *dra;
    int phase;
    struct kit_objects pods;
    struct exec_timer tick;
    int64_t end_ns;
    size_t under_way;
    bool ready[array_len(pods)];
};

static int manager_step(void *arg, const char *what)
{
    (void)arg;
    (void)what;
    crash(&shared->manager_steps, shared->manager_crash);
    return 0;
}

static bool active_pods(void *arg, dra_pod_fn each, void *ctx)
{
    struct manager *m = arg;
    for (size_t i = 0; i < array_len(pods); i++)
        if (pods[i].active[m->phase])
            each(ctx, m->pods.p[i]);
    return true;
}

// The devices that a container of a pod must get.
static bool devices_are_right(struct manager *m, size_t i)
{
    cleanup_arena struct arena a = {0};
    struct dra_texts got = {0};
    const struct api_pod *pod = m->pods.p[i]->object.value;
    struct str rest = str_z(pods[i].claims), name;
    size_t n = 0;
    if (dra_container_devices(m->dra, pod, &pod->spec.containers.p[0], &a, &got, NULL) < 0)
        return false;
    while (rest.n > 0) {
        (void)str_cut(rest, ' ', &name, &rest);
        for (size_t r = 0; r < array_len(rows); r++)
            if (str_eqz(name, rows[r].claim)) {
                struct str want = arena_strf(&a, "%s/dev=%s", rows[r].driver, rows[r].device);
                if (n >= got.n || !str_eq(got.p[n++], want))
                    return false;
            }
    }
    return n == got.n;
}

struct preparing {
    struct manager *manager;
    size_t pod;
};

static void on_prepared(void *arg, int code, const struct err *err)
{
    struct preparing *p = arg;
    (void)err; // tried again
    p->manager->under_way--;
    if (code == 0) {
        must(devices_are_right(p->manager, p->pod));
        p->manager->ready[p->pod] = true;
    }
    free(p);
}

// First what is gone goes, then what is there is prepared: as the control plane gives devices away.
static bool all_gone(struct manager *m)
{
    bool gone = true;
    for (size_t i = 0; i < array_len(pods); i++)
        gone = gone &&
               (pods[i].active[m->phase] || !dra_needs_unprepare(m->dra, m->pods.p[i]->meta->uid));
    return gone;
}

static void on_tick(void *arg)
{
    struct manager *m = arg;
    must(exec_now_ns(loop_exec(m->loop)) < m->end_ns);
    exec_timer_start(loop_exec(m->loop), &m->tick, 5 * MS);
    if (!all_gone(m)) {
        dra_reconcile(m->dra);
        return;
    }
    bool all = true;
    for (size_t i = 0; i < array_len(pods); i++) {
        if (!pods[i].active[m->phase] || m->ready[i])
            continue;
        all = false;
        if (m->under_way > 0) // one after the other, so that steps have an order
            break;
        struct preparing *p = xcalloc(1, sizeof(*p));
        *p = (struct preparing){m, i};
        m->under_way++;
        dra_prepare(m->dra, m->pods.p[i], on_prepared, p);
        break;
    }
    if (all && m->under_way == 0 && dra_idle(m->dra))
        loop_stop(m->loop);
}

static void make_world(struct manager *m)
{
    for (size_t i = 0; i < array_len(rows); i++)
        kit_claim(&m->api, rows[i].claim, rows[i].driver, rows[i].pods);
    for (size_t i = 0; i < array_len(pods); i++)
        vec_push(&m->pods, kit_pod(pods[i].uid, pods[i].uid, pods[i].claims));
}

static void run_manager(int phase)
{
    struct manager m = {.phase = phase, .tick = {.fn = on_tick, .arg = &m}};
    struct features features;
    struct disk *disk;
    struct err err = {0};
    char state[64], registry[64];
    must(loop_new(&m.loop, NULL) == 0);
    kit_api_init(&m.api, loop_exec(m.loop));
    make_world(&m);
    features_init(&features, FEATURES_MINOR);
    (void)snprintf(state, sizeof(state), "%s/state", dir);
    (void)snprintf(registry, sizeof(registry), "%s/registry", dir);
    static const struct fault_hook hook = {manager_step, NULL};
    fault_hook_set(&hook);
    must(disk_folder_new(state, &disk, &err) == 0);
    const struct dra_options o = {
        .exec = loop_exec(m.loop),
        .client = &m.api.client,
        .transport = transport_grpc_new(m.loop),
        .disk = disk,
        .features = &features,
        .node = STR(""),
        .boot_id = STR("boot"),
        .registry = registry,
        .keep_slices = true,
        .times = {.look_ns = 5 * MS, .reconcile_ns = 3600 * CLOCK_NS_PER_SEC},
        .pods = active_pods,
        .arg = &m,
    };
    if (dra_new(&o, &m.dra, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        _exit(1);
    }
    m.end_ns = exec_now_ns(loop_exec(m.loop)) + GIVE_UP_NS;
    dra_start(m.dra);
    exec_timer_start(loop_exec(m.loop), &m.tick, 5 * MS);
    loop_run(m.loop);
    _exit(0);
}

// --- The test ------------------------------------------------------------------------------------

static void make_folders(void)
{
    static const char *const names[] = {"registry", "plugins"};
    // A kill loses nothing that was written, so memory will do for a disk.
    const char *top = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof(dir), "%s/dra-kill-XXXXXX", top);
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < array_len(names); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
}

static void remove_folders(void)
{
    char command[80];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
}

static bool is_prepared(const struct row *r)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/prepared-%s/uid-%s", dir, r->driver, r->claim);
    return access(path, F_OK) == 0;
}

static bool should_be(const struct row *r, int phase)
{
    for (size_t i = 0; i < array_len(pods); i++)
        if (pods[i].active[phase] && strstr(r->pods, pods[i].uid))
            return true;
    return false;
}

// One phase, with whatever restarts it takes. False: the manager was killed and the world moves on
// without it.
static bool run_phase(int phase, pid_t *drivers, bool move_on)
{
    pid_t manager = -1;
    while (true) {
        int status;
        if (manager < 0) {
            manager = start_process();
            if (manager == 0)
                run_manager(phase);
        }
        pid_t ended = waitpid(-1, &status, 0);
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (ended == *drivers) {
            assert_true(killed);
            shared->driver_crash = NEVER;
            *drivers = start_drivers();
        } else if (killed) {
            assert_int_equal(ended, manager);
            shared->manager_crash = NEVER;
            manager = -1;
            if (move_on)
                return false;
        } else {
            assert_int_equal(ended, manager);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
            return true;
        }
    }
}

static void check_phase(int phase, int point)
{
    if (shared->violations)
        fail_msg("point %d, phase %d: a device was given to two claims", point, phase);
    for (size_t i = 0; i < array_len(rows); i++)
        if (is_prepared(&rows[i]) != should_be(&rows[i], phase))
            fail_msg("point %d, phase %d: claim %s is %sprepared", point, phase, rows[i].claim,
                     is_prepared(&rows[i]) ? "" : "not ");
}

static void check_empty(int point)
{
    char path[80];
    cleanup_sbuf struct sbuf text = {0};
    (void)snprintf(path, sizeof(path), "%s/state/dra_manager_state", dir);
    read_file(path, &text);
    if (!strstr(text.p, "\\\"ClaimInfoStateList\\\":[]"))
        fail_msg("point %d: the checkpoint is not empty: %s", point, text.p);
}

// The whole story with a crash at one step. Returns whether it came to that. move_on: pods that were
// there when the manager was killed may be gone when it is back.
static bool run_story(int manager_crash, int driver_crash, bool move_on)
{
    *shared = (struct shared){.manager_crash = manager_crash, .driver_crash = driver_crash};
    int point = manager_crash != NEVER ? manager_crash : driver_crash;
    make_folders();
    pid_t drivers = start_drivers();
    for (int phase = 0; phase < PHASES; phase++) {
        bool last = phase == PHASES - 1;
        if (run_phase(phase, &drivers, move_on && !last))
            check_phase(phase, point);
    }
    check_empty(point);
    (void)kill(drivers, SIGKILL);
    (void)waitpid(drivers, NULL, 0);
    remove_folders();
    // What was to crash and did not still waits for it.
    return manager_crash != NEVER ? shared->manager_crash == NEVER : shared->driver_crash == NEVER;
}

static int setup(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED;
}

static void killing_the_manager_at_any_step_leaks_nothing(void **state)
{
    (void)state;
    int points = 0;
    while (points < MANY_POINTS && run_story(points, NEVER, false))
        points += sample(3);
    printf("the manager was killed at %d points\n", points);
    assert_in_range(points, 100, MANY_POINTS - 1);
}

static void pods_that_go_while_the_manager_is_dead_leak_nothing(void **state)
{
    (void)state;
    int points = 0;
    while (points < MANY_POINTS && run_story(points, NEVER, true))
        points += sample(3);
    printf("the manager was killed at %d points\n", points);
    assert_in_range(points, 100, MANY_POINTS - 1);
}

static void killing_the_drivers_at_any_step_leaks_nothing(void **state)
{
    (void)state;
    int points = 0;
    while (points < MANY_POINTS && run_story(NEVER, points, false))
        points += sample(3);
    printf("the drivers were killed at %d points\n", points);
    assert_in_range(points, 30, MANY_POINTS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(killing_the_manager_at_any_step_leaks_nothing),
        TEST_CASE(pods_that_go_while_the_manager_is_dead_leak_nothing),
        TEST_CASE(killing_the_drivers_at_any_step_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
