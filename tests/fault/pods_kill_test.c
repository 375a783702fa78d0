// SPDX-License-Identifier: Apache-2.0
//
// The agent dies before each thing it does, at every step of the life of pods with claims; then it, or the whole
// machine, starts again and has to come to the same end: nothing left on the machine, nothing left with the driver,
// no container twice, no device with two claims at once, no pod stuck. Registry, machine, driver and disk go on.
#include "ctl/ctl.h"
#include "dra_kit.h"
#include "node/dra/plugins.h"
#include "os/fault.h"
#include "pods_world.h"

#include "base/banned.h"

#define DRIVER   "d.io"
#define ENDPOINT "/endpoint"

struct fault_world {
    struct pods_world p; // first: callbacks get a pointer to it
    struct kit_transport transport;
    struct kit_driver driver;
    struct disk *disk;
    struct dra *dra;
    int boots;
    bool reboot; // the machine goes down with the agent
    int violations;
};

static void look(struct fault_world *f)
{
    if (f->driver.prepared.n > 1) // a and b are the same device
        f->violations++;
    if (f->p.machine.most_running > 1)
        f->violations++;
}

static int on_step(void *arg, const char *what)
{
    struct fault_world *f = arg;
    look(f);
    return pods_world_step(&f->p, what);
}

static bool each_pod(void *arg, dra_pod_fn each, void *ctx)
{
    struct fault_world *f = arg;
    return pods_each(f->p.pods, each, ctx);
}

// A disk that a dead process cannot write to.
static int dead_replace(struct disk *d, const char *name, struct str bytes, struct err *err);
static int dead_read(struct disk *d, const char *name, struct sbuf *out, struct err *err);
static int dead_copy(struct disk *d, const char *from, const char *to, struct err *err);

static struct {
    struct disk disk;
    struct fault_world *world;
} mortal = {.disk = {.read = dead_read, .replace = dead_replace, .copy = dead_copy}};

static int dead_read(struct disk *d, const char *name, struct sbuf *out, struct err *err)
{
    (void)d;
    return mortal.world->disk->read(mortal.world->disk, name, out, err);
}

static int dead_replace(struct disk *d, const char *name, struct str bytes, struct err *err)
{
    (void)d;
    if (mortal.world->p.dead)
        return err_set(err, EIO, "dead");
    return mortal.world->disk->replace(mortal.world->disk, name, bytes, err);
}

static int dead_copy(struct disk *d, const char *from, const char *to, struct err *err)
{
    (void)d;
    if (mortal.world->p.dead)
        return err_set(err, EIO, "dead");
    return mortal.world->disk->copy(mortal.world->disk, from, to, err);
}

static void boot(struct fault_world *f)
{
    struct pods_world *p = &f->p;
    struct exec *exec = exec_sim_exec(p->w->sim);
    struct err err = {0};
    char boot_id[16];
    p->dead = false;
    (void)snprintf(boot_id, sizeof(boot_id), "boot-%d", f->reboot ? f->boots : 0);
    f->boots++;
    cut_client_init(&p->client, p->inner);
    fake_runtime_init(&p->runtime, &p->machine, exec);
    fake_net_init(&p->net, exec);
    const struct pods_options o = {.exec = exec,
                                   .client = &p->client.client,
                                   .runtime = &p->runtime.runtime,
                                   .net = &p->net.net,
                                   .node = STR("n1"),
                                   .data_dir = p->dir,
                                   .log_dir = p->dir,
                                   .host_ips = STR("192.0.2.1"),
                                   .features = &p->w->features,
                                   .node_object = pods_world_node,
                                   .arg = f};
    p->hook = (struct fault_hook){on_step, f};
    fault_hook_set(&p->hook);
    p->pods = pods_new(&o);
    const struct dra_options d = {.exec = exec,
                                  .client = &p->client.client,
                                  .transport = &f->transport.transport,
                                  .disk = &mortal.disk,
                                  .features = &p->w->features,
                                  .node = STR("n1"),
                                  .boot_id = str_z(boot_id),
                                  .keep_slices = true,
                                  .pods = each_pod,
                                  .arg = f};
    while (dra_new(&d, &f->dra, &err) < 0) { // it may die as early as this, and is started again
        if (!p->dead)
            fail_msg("%s", err.msg);
        p->dead = p->client.cut = p->runtime.cut = false;
    }
    static struct str versions[] = {STR_INIT("v1.DRAPlugin")};
    const struct plugin_info info = {.type = STR("DRAPlugin"),
                                     .name = STR(DRIVER),
                                     .endpoint = STR(ENDPOINT),
                                     .supported_versions = {.p = versions, .n = 1}};
    assert_int_equal(plugins_add(dra_plugins(f->dra), &info, &err), 0);
    pods_set_dra(p->pods, f->dra);
    dra_start(f->dra);
    pods_start(p->pods);
}

static void bury(struct fault_world *f)
{
    fault_hook_set(NULL);
    struct pods_world *p = &f->p;
    p->dead = p->client.cut = p->runtime.cut = true;
    dra_free(f->dra);
    pods_free(p->pods);
    p->pods = NULL;
    fake_runtime_done(&p->runtime);
    cut_client_done(&p->client);
    world_run(p->w);
}

// Time passes until something is so; whoever died meanwhile is started again.
static bool until(struct fault_world *f, bool (*so)(struct fault_world *f), int64_t seconds)
{
    for (int64_t i = 0; i < seconds * 5; i++) {
        exec_sim_run(f->p.w->sim, f->p.w->clock.mono + CLOCK_NS_PER_SEC / 5);
        look(f);
        if (f->p.dead) {
            f->p.crash_at = -1;
            bury(f);
            if (f->reboot)
                fake_machine_reboot(&f->p.machine);
            boot(f);
        }
        if (so(f))
            return true;
    }
    return false;
}

static bool runs(struct fault_world *f, const char *pod)
{
    return strcmp(pods_world_field(&f->p, pod, "status.phase"), "Running") == 0;
}

static bool a_runs(struct fault_world *f)
{
    return runs(f, "a");
}

static bool b_runs(struct fault_world *f)
{
    return runs(f, "b");
}

static bool a_is_gone(struct fault_world *f)
{
    return do_get(f->p.w, POD("a"))->json[0] == '\0';
}

static bool b_is_gone(struct fault_world *f)
{
    return do_get(f->p.w, POD("b"))->json[0] == '\0';
}

static bool nothing_is_left(struct fault_world *f)
{
    return f->p.machine.containers.n == 0 && f->p.machine.sandboxes.n == 0 &&
           f->driver.prepared.n == 0 && pods_idle(f->p.pods) && pods_len(f->p.pods) == 0;
}

// What the scheduler does: the claim is allocated and reserved, then the pod is bound.
static void place(struct fault_world *f, const char *name)
{
    struct pods_world *p = &f->p;
    struct sbuf b = {0};
    sbuf_addf(&b,
              "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"devices\":{\"requests\":[{\"name\":"
              "\"gpu\",\"exactly\":{\"deviceClassName\":\"c\"}}]}}}",
              name);
    assert_ok(do_create(p->w, CLAIM(name), b.p));
    sbuf_clear(&b);
    sbuf_addf(&b,
              "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"terminationGracePeriodSeconds\":1,"
              "\"resourceClaims\":[{\"name\":\"r\",\"resourceClaimName\":\"%s\"}],"
              "\"volumes\":[{\"name\":\"v\",\"downwardAPI\":{\"items\":[{\"path\":\"n\","
              "\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}]}}],"
              "\"initContainers\":[{\"name\":\"i\",\"image\":\"busybox:1\",\"command\":[\"exit\","
              "\"0\",\"10\"]},{\"name\":\"s\",\"image\":\"busybox:1\",\"command\":[\"run\"],"
              "\"restartPolicy\":\"Always\"}],"
              "\"containers\":[{\"name\":\"m\",\"image\":\"busybox:1\",\"command\":[\"run\"],"
              "\"resources\":{\"claims\":[{\"name\":\"r\"}]},\"lifecycle\":{\"preStop\":{\"exec\":"
              "{\"command\":[\"true\"]}}}},{\"name\":\"o\",\"image\":\"busybox:1\",\"command\":["
              "\"stubborn\"]}]}}",
              name, name);
    assert_ok(do_create(p->w, POD(name), b.p));
    const char *uid = arena_str(&p->w->arena, str_z(pods_world_field(p, name, "metadata.uid"))).p;
    sbuf_clear(&b);
    sbuf_addf(&b,
              "{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"gpu\","
              "\"driver\":\"" DRIVER "\",\"pool\":\"p\",\"device\":\"x\"}]}},\"reservedFor\":[{"
              "\"resource\":\"pods\",\"name\":\"%s\",\"uid\":\"%s\"}]}}",
              name, uid);
    assert_ok(do_patch(p->w, CLAIM_STATUS(name), REGISTRY_PATCH_MERGE, b.p));
    const char *binding =
        arena_strf(&p->w->arena,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"%s\"},"
                   "\"target\":{\"kind\":\"Node\",\"name\":\"n1\"}}",
                   name)
            .p;
    assert_ok(do_create(p->w, (struct target){"v1", "Pod", "binding", "default", name}, binding));
    sbuf_done(&b);
}

static void must(bool what, struct fault_world *f, int at, const char *phase)
{
    if (!what)
        fail_msg("killed at step %d: %s; a is %s, b is %s; %zu containers, %zu sandboxes, %zu "
                 "claims prepared\n%s",
                 at, phase, pods_world_field(&f->p, "a", "status"),
                 pods_world_field(&f->p, "b", "status"), (size_t)f->p.machine.containers.n,
                 (size_t)f->p.machine.sandboxes.n, (size_t)f->driver.prepared.n,
                 f->p.machine.log.n ? f->p.machine.log.p : "");
}

// One life of two pods that use the same device one after the other, with a death at a step. Returns how many
// steps there were.
static int live(int at, bool reboot, bool forced)
{
    struct fault_world f = {.reboot = reboot};
    struct err err = {0};
    struct sbuf state = {0};
    pods_world_start(&f.p);
    pods_world_kill(&f.p); // its own agent: this test has one with claims
    mortal.world = &f;
    f.driver = (struct kit_driver){.name = DRIVER, .versions = {"v1.DRAPlugin"}};
    kit_transport_init(&f.transport, exec_sim_exec(f.p.w->sim));
    kit_transport_add(&f.transport, ENDPOINT, &f.driver);
    sbuf_addf(&state, "%s/state", f.p.dir);
    assert_int_equal(disk_folder_new(state.p, &f.disk, &err), 0);
    f.p.steps = 0;
    f.p.crash_at = at;
    boot(&f);
    place(&f, "a");
    must(until(&f, a_runs, 600), &f, at, "a never runs");
    assert_ok(do_delete(f.p.w, POD("a"), forced ? "{\"gracePeriodSeconds\":0}" : NULL));
    must(until(&f, a_is_gone, 600), &f, at, "a never goes");
    // A forced deletion lets the device go in the API before the machine has: that is its meaning.
    if (forced)
        must(until(&f, nothing_is_left, 600), &f, at, "something of a is left");
    place(&f, "b");
    must(until(&f, b_runs, 600), &f, at, "b never runs");
    assert_ok(do_delete(f.p.w, POD("b"), NULL));
    must(until(&f, b_is_gone, 600), &f, at, "b never goes");
    must(until(&f, nothing_is_left, 600), &f, at, "something is left");
    must(f.violations == 0, &f, at, "a device or a container was there twice");
    must(map_len(&dra_claims(f.dra)->by_key) == 0, &f, at, "the checkpoint is not empty");
    int steps = f.p.steps;
    bury(&f);
    f.p.pods = NULL;
    kit_transport_done(&f.transport);
    kit_driver_done(&f.driver);
    disk_folder_free(f.disk);
    sbuf_done(&state);
    client_free(f.p.inner);
    typed_object_unref(f.p.node);
    world_free(f.p.w);
    fake_machine_done(&f.p.machine);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    (void)nftw(f.p.dir, pods_world_rm, 16, FTW_DEPTH | FTW_PHYS);
    return steps;
}

static void sweep(bool reboot, bool forced)
{
    int steps = live(-1, reboot, forced);
    assert_in_range(steps, 40, 1000);
    for (int at = 0; at < steps; at++)
        (void)live(at, reboot, forced);
    printf("%d points\n", steps);
}

static void the_agent_dies_at_every_step(void **state)
{
    (void)state;
    sweep(false, false);
}

static void the_machine_goes_down_at_every_step(void **state)
{
    (void)state;
    sweep(true, false);
}

static void the_agent_dies_while_a_pod_is_forced_away(void **state)
{
    (void)state;
    sweep(false, true);
}

RUN_TESTS(TEST_CASE(the_agent_dies_at_every_step), TEST_CASE(the_machine_goes_down_at_every_step),
          TEST_CASE(the_agent_dies_while_a_pod_is_forced_away))
