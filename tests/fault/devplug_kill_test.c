// SPDX-License-Identifier: Apache-2.0
//
// Pods that need devices of a plugin, on a machine in memory: how they are admitted and refused, and the agent dying
// before each thing it does, whereafter it, or the whole machine, starts again. No device is ever in two containers at
// the same time, no pod is stuck, and in the end nothing is held. Registry, machine, plugin and disk go on.
#include "devplug_kit.h"
#include "node/devplug/devplug.h"
#include "os/fault.h"
#include "pods_world.h"

#include "base/banned.h"

#define RESOURCE "example.com/r"

struct plug_world {
    struct pods_world p; // first: callbacks get a pointer to it
    struct kit_transport transport;
    struct fake_plugin plugin;
    struct disk disk; // one file, in memory
    struct sbuf file;
    bool file_is_there;
    struct devplug *d;
    char socket[96];
    bool reboot; // the machine goes down with the agent
    int violations;
};

// Containers that run and have been given the one device.
static void look(struct plug_world *w)
{
    int users = 0;
    vec_foreach(&w->p.machine.containers, c)
        users += (*c)->state == RUNTIME_RUNNING && strstr((*c)->env, "DEVICES=a") != NULL;
    w->violations += users > 1;
}

static int on_step(void *arg, const char *what)
{
    struct plug_world *w = arg;
    look(w);
    return pods_world_step(&w->p, what);
}

static bool each_pod(void *arg, dra_pod_fn each, void *ctx)
{
    const struct plug_world *w = arg;
    return pods_each(w->p.pods, each, ctx);
}

static int disk_read(struct disk *d, const char *name, struct sbuf *out, struct err *err)
{
    const struct plug_world *w = container_of(d, struct plug_world, disk);
    if (!w->file_is_there)
        return err_set(err, ENOENT, "%s is not there", name);
    sbuf_add(out, sbuf_str(&w->file));
    return 0;
}

// A dead process cannot write.
static int disk_replace(struct disk *d, const char *name, struct str bytes, struct err *err)
{
    struct plug_world *w = container_of(d, struct plug_world, disk);
    if (w->p.dead)
        return err_set(err, EIO, "%s: dead", name);
    sbuf_clear(&w->file);
    sbuf_add(&w->file, bytes);
    w->file_is_there = true;
    return 0;
}

static void run(struct plug_world *w, int64_t ns)
{
    exec_sim_run(w->p.w->sim, w->p.w->clock.mono + ns);
}

// The plugin registers and tells of its device.
static void enrol(struct plug_world *w, const char *devices)
{
    cleanup_sbuf struct sbuf message = {0};
    struct kit_result r = {0};
    const struct plugin_register_request q = {
        .version = STR("v1beta1"), .endpoint = STR("p.sock"), .resource_name = STR(RESOURCE)};
    devplug_register(w->d, &q, kit_done, &r);
    run(w, CLOCK_NS_PER_MS);
    assert_int_equal(r.done, 1);
    fake_plugin_list(&message, devices);
    (void)kit_transport_send(&w->transport, w->socket, sbuf_str(&message));
}

static void boot(struct plug_world *w, const char *devices)
{
    struct pods_world *p = &w->p;
    struct exec *exec = exec_sim_exec(p->w->sim);
    p->dead = false;
    cut_client_init(&p->client, p->inner);
    fake_runtime_init(&p->runtime, &p->machine, exec);
    fake_net_init(&p->net, exec);
    const struct event_recorder_options eo = {
        .client = p->inner, .component = STR("kubelet"), .host = STR("n1")};
    p->events = events_recorder_new(&eo);
    const struct pods_options o = {.exec = exec,
                                   .client = &p->client.client,
                                   .events = p->events,
                                   .runtime = &p->runtime.runtime,
                                   .net = &p->net.net,
                                   .node = STR("n1"),
                                   .data_dir = p->dir,
                                   .log_dir = p->dir,
                                   .host_ips = STR("192.0.2.1"),
                                   .features = &p->w->features,
                                   .node_object = pods_world_node,
                                   .arg = w};
    p->hook = (struct fault_hook){on_step, w};
    fault_hook_set(&p->hook);
    p->pods = pods_new(&o);
    const struct devplug_options d = {.exec = exec,
                                      .transport = &w->transport.transport,
                                      .disk = &w->disk,
                                      .folder = p->dir,
                                      .pods = each_pod,
                                      .arg = w};
    w->d = devplug_new(&d);
    enrol(w, devices);
    pods_set_devices(p->pods, w->d);
    pods_start(p->pods);
}

static void bury(struct plug_world *w)
{
    fault_hook_set(NULL);
    struct pods_world *p = &w->p;
    p->dead = p->client.cut = p->runtime.cut = true;
    pods_free(p->pods);
    p->pods = NULL;
    devplug_free(w->d);
    fake_runtime_done(&p->runtime);
    cut_client_done(&p->client);
    events_recorder_free(p->events);
    world_run(p->w);
}

static void start(struct plug_world *w, int crash_at)
{
    pods_world_start(&w->p);
    pods_world_kill(&w->p); // its own agent: this test has one with plugins
    pods_world_node_is(&w->p, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":"
                              "\"n1\"},\"status\":{\"allocatable\":{\"cpu\":\"4\",\"memory\":"
                              "\"8Gi\",\"pods\":\"110\",\"" RESOURCE "\":\"1\"}}}");
    w->disk = (struct disk){.read = disk_read, .replace = disk_replace};
    (void)snprintf(w->socket, sizeof(w->socket), "%s/p.sock", w->p.dir);
    kit_transport_init(&w->transport, exec_sim_exec(w->p.w->sim));
    fake_plugin_init(&w->plugin);
    w->plugin.pre_start = true;
    kit_transport_add(&w->transport, w->socket, &w->plugin.driver);
    w->p.steps = 0;
    w->p.crash_at = crash_at;
}

static void finish(struct plug_world *w)
{
    bury(w);
    kit_transport_done(&w->transport);
    fake_plugin_done(&w->plugin);
    sbuf_done(&w->file);
    client_free(w->p.inner);
    typed_object_unref(w->p.node);
    world_free(w->p.w);
    fake_machine_done(&w->p.machine);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    (void)nftw(w->p.dir, pods_world_rm, 16, FTW_DEPTH | FTW_PHYS);
}

// --- Waiting -------------------------------------------------------------------------------------

// Time passes until something is so; whoever died meanwhile is started again.
static bool until(struct plug_world *w, bool (*so)(struct plug_world *w, const char *pod),
                  const char *pod)
{
    for (int i = 0; i < 3000; i++) {
        run(w, CLOCK_NS_PER_SEC / 5);
        look(w);
        if (w->p.dead) {
            w->p.crash_at = -1;
            bury(w);
            if (w->reboot)
                fake_machine_reboot(&w->p.machine);
            boot(w, "a");
        }
        if (so(w, pod))
            return true;
    }
    return false;
}

static bool runs(struct plug_world *w, const char *pod)
{
    return strcmp(pods_world_field(&w->p, pod, "status.phase"), "Running") == 0;
}

static bool fails(struct plug_world *w, const char *pod)
{
    return strcmp(pods_world_field(&w->p, pod, "status.phase"), "Failed") == 0;
}

static bool is_gone(struct plug_world *w, const char *pod)
{
    return do_get(w->p.w, POD(pod))->json[0] == '\0';
}

static bool nothing_is_left(struct plug_world *w, const char *pod)
{
    (void)pod;
    return w->p.machine.containers.n == 0 && w->p.machine.sandboxes.n == 0 &&
           pods_idle(w->p.pods) && pods_len(w->p.pods) == 0 && devplug_ledger(w->d)->grants.n == 0;
}

static void must(bool what, struct plug_world *w, int at, const char *phase)
{
    if (!what)
        fail_msg("killed at step %d: %s; a is %s, b is %s; the plugin was asked %s", at, phase,
                 pods_world_field(&w->p, "a", "status"), pods_world_field(&w->p, "b", "status"),
                 w->plugin.log.n ? w->plugin.log.p : "nothing");
}

static void place(struct plug_world *w, const char *name)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(
        &b,
        "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"terminationGracePeriodSeconds\":1," ON_NODE
        ",\"initContainers\":[{\"name\":\"i\",\"image\":\"busybox:1\",\"command\":[\"exit\","
        "\"0\",\"10\"],\"resources\":{\"limits\":{\"" RESOURCE "\":\"1\"}}}],"
        "\"containers\":[{\"name\":\"m\",\"image\":\"busybox:1\",\"command\":[\"run\"],"
        "\"resources\":{\"limits\":{\"" RESOURCE "\":\"1\"}}}]}}",
        name);
    assert_ok(do_create(w->p.w, POD(name), b.p));
}

// --- Dying ---------------------------------------------------------------------------------------

// One life of two pods that use the same device one after the other, with a death at a step. Returns how many steps
// there were.
static int live(int at, bool reboot)
{
    struct plug_world w = {.reboot = reboot};
    start(&w, at);
    boot(&w, "a");
    place(&w, "a");
    must(until(&w, runs, "a"), &w, at, "a never runs");
    assert_non_null(strstr(fake_find(&w.p.machine, "m")->env, "DEVICES=a"));
    assert_ok(do_delete(w.p.w, POD("a"), NULL));
    must(until(&w, is_gone, "a"), &w, at, "a never goes");
    place(&w, "b");
    must(until(&w, runs, "b"), &w, at, "b never runs");
    assert_ok(do_delete(w.p.w, POD("b"), NULL));
    must(until(&w, is_gone, "b"), &w, at, "b never goes");
    must(until(&w, nothing_is_left, ""), &w, at, "something is left");
    must(w.violations == 0, &w, at, "a device was given twice");
    int steps = w.p.steps;
    finish(&w);
    return steps;
}

static void sweep(bool reboot)
{
    int steps = live(-1, reboot);
    assert_in_range(steps, 20, 1000);
    for (int at = 0; at < steps; at++)
        (void)live(at, reboot);
    printf("%d points\n", steps);
}

static void the_agent_dies_at_every_step(void **state)
{
    (void)state;
    sweep(false);
}

static void the_machine_goes_down_at_every_step(void **state)
{
    (void)state;
    sweep(true);
}

// --- Admission -----------------------------------------------------------------------------------

static void a_pod_that_gets_no_device_fails_as_with_kubelet(void **state)
{
    (void)state;
    struct plug_world w = {0};
    start(&w, -1);
    boot(&w, "a!");
    place(&w, "a");
    must(until(&w, fails, "a"), &w, -1, "a is not refused");
    assert_pod(&w.p, "a", "status.reason", "UnexpectedAdmissionError");
    assert_pod(&w.p, "a", "status.message",
               "Pod was rejected: Allocate failed due to no healthy devices present; cannot "
               "allocate unhealthy devices " RESOURCE ", which is unexpected");
    pods_world_expect_event(&w.p, "UnexpectedAdmissionError|Allocate failed due to");
    assert_ok(do_delete(w.p.w, POD("a"), NULL));
    must(until(&w, nothing_is_left, ""), &w, -1, "something is left");
    finish(&w);
}

// A pod on its way in counts for those that come after it; one that is deleted does not wait for a plugin that hangs.
static void a_plugin_that_hangs_does_not_keep_a_pod(void **state)
{
    (void)state;
    struct plug_world w = {0};
    start(&w, -1);
    boot(&w, "a");
    w.plugin.driver.hang = true;
    place(&w, "a");
    run(&w, CLOCK_NS_PER_SEC);
    place(&w, "b");
    must(until(&w, fails, "b"), &w, -1, "b is not refused");
    assert_pod(&w.p, "b", "status.reason", "OutOf" RESOURCE);
    assert_pod(&w.p, "a", "status.phase", "Pending");
    assert_ok(do_delete(w.p.w, POD("a"), NULL));
    run(&w, 2 * CLOCK_NS_PER_SEC);
    assert_true(is_gone(&w, "a"));
    assert_int_equal(devplug_ledger(w.d)->grants.n, 0);
    assert_ok(do_delete(w.p.w, POD("b"), NULL));
    must(until(&w, nothing_is_left, ""), &w, -1, "something is left");
    finish(&w);
}

RUN_TESTS(TEST_CASE(a_pod_that_gets_no_device_fails_as_with_kubelet),
          TEST_CASE(a_plugin_that_hangs_does_not_keep_a_pod),
          TEST_CASE(the_agent_dies_at_every_step), TEST_CASE(the_machine_goes_down_at_every_step))
