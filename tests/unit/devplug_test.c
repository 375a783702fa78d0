// SPDX-License-Identifier: Apache-2.0
//
// The manager of device plugins on a fake clock, with plugins in memory: each test is a rule of kubelet's device
// manager, or of docs/design/device-plugins.md where that says otherwise.
#include <ftw.h>
#include <unistd.h>

#include "devplug_kit.h"
#include "node/devplug/devplug.h"

#include "base/banned.h"

#define SECOND   CLOCK_NS_PER_SEC
#define RESOURCE "example.com/r"

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct exec *exec;
    struct kit_transport transport;
    struct fake_plugin plugin, second;
    struct disk *disk;
    struct disk full; // stands before it
    bool disk_fails;
    struct devplug *d;
    struct kit_objects pods;
    char dir[40], one[64], two[64];
    struct sbuf amounts, health;
    int changes;
};

static int full_read(struct disk *d, const char *name, struct sbuf *out, struct err *err)
{
    const struct world *w = container_of(d, struct world, full);
    return w->disk->read(w->disk, name, out, err);
}

static int full_replace(struct disk *d, const char *name, struct str bytes, struct err *err)
{
    const struct world *w = container_of(d, struct world, full);
    return w->disk_fails ? err_set(err, ENOSPC, "no space left")
                         : w->disk->replace(w->disk, name, bytes, err);
}

static bool each_pod(void *arg, dra_pod_fn each, void *ctx)
{
    const struct world *w = arg;
    vec_foreach(&w->pods, pod)
        each(ctx, *pod);
    return true;
}

static void on_changed(void *arg)
{
    ((struct world *)arg)->changes++;
}

static void on_health(void *arg, struct str uid)
{
    sbuf_addf(&((struct world *)arg)->health, "%.*s;", STR_ARG(uid));
}

static void start(struct world *w)
{
    const struct devplug_options o = {.exec = w->exec,
                                      .transport = &w->transport.transport,
                                      .disk = &w->full,
                                      .folder = w->dir,
                                      .pods = each_pod,
                                      .changed = on_changed,
                                      .health_changed = on_health,
                                      .arg = w};
    w->d = devplug_new(&o);
}

static void run(struct world *w, int64_t ns)
{
    exec_sim_run(w->sim, clock_mono_ns(&w->clock.clock) + ns);
}

static void world_init(struct world *w)
{
    struct err err = {0};
    *w = (struct world){.dir = "/tmp/devplug-XXXXXX",
                        .full = {.read = full_read, .replace = full_replace}};
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->one, sizeof(w->one), "%s/one.sock", w->dir);
    (void)snprintf(w->two, sizeof(w->two), "%s/two.sock", w->dir);
    clock_fake_init(&w->clock, INT64_C(1800000000) * SECOND);
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    w->exec = exec_sim_exec(w->sim);
    kit_transport_init(&w->transport, w->exec);
    fake_plugin_init(&w->plugin);
    fake_plugin_init(&w->second);
    kit_transport_add(&w->transport, w->one, &w->plugin.driver);
    kit_transport_add(&w->transport, w->two, &w->second.driver);
    assert_int_equal(disk_folder_new(w->dir, &w->disk, &err), 0);
    start(w);
}

static int remove_file(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void world_done(struct world *w)
{
    devplug_free(w->d);
    run(w, SECOND);
    kit_transport_done(&w->transport);
    fake_plugin_done(&w->plugin);
    fake_plugin_done(&w->second);
    disk_folder_free(w->disk);
    exec_sim_free(w->sim);
    vec_foreach(&w->pods, pod)
        typed_object_unref(*pod);
    vec_done(&w->pods);
    sbuf_done(&w->amounts);
    sbuf_done(&w->health);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    (void)nftw(w->dir, remove_file, 8, FTW_DEPTH | FTW_PHYS);
}

#define TEST_IN_WORLD(name)                 \
    static void name##_in(struct world *w); \
    static void name(void **state)          \
    {                                       \
        (void)state;                        \
        struct world w;                     \
        world_init(&w);                     \
        name##_in(&w);                      \
        world_done(&w);                     \
    }                                       \
    static void name##_in(struct world *w)

// --- What the tests do and ask -------------------------------------------------------------------

static struct kit_result enrol_as(struct world *w, const char *version, const char *endpoint,
                                  const char *resource)
{
    struct kit_result r = {0};
    const struct plugin_register_request q = {
        .version = str_z(version), .endpoint = str_z(endpoint), .resource_name = str_z(resource)};
    devplug_register(w->d, &q, kit_done, &r);
    run(w, 11 * SECOND);
    assert_int_equal(r.done, 1);
    return r;
}

static void enrol(struct world *w, const char *endpoint)
{
    struct kit_result r = enrol_as(w, "v1beta1", endpoint, RESOURCE);
    if (r.code < 0)
        fail_msg("%s", r.err.msg);
}

static void tell(struct world *w, const char *path, const char *devices)
{
    cleanup_sbuf struct sbuf message = {0};
    fake_plugin_list(&message, devices);
    assert_int_equal(kit_transport_send(&w->transport, path, sbuf_str(&message)), 1);
    run(w, SECOND);
}

static void add_amount(void *arg, struct str resource, int64_t capacity, int64_t allocatable)
{
    sbuf_addf(arg, "%.*s %lld/%lld;", STR_ARG(resource), (long long)allocatable,
              (long long)capacity);
}

static const char *amounts(struct world *w)
{
    sbuf_clear(&w->amounts);
    devplug_amounts(w->d, add_amount, &w->amounts);
    return w->amounts.n ? w->amounts.p : "";
}

#define LIMIT(n)       "\"resources\":{\"limits\":{\"" RESOURCE "\":\"" n "\"}}"
#define WANTS(name, n) "{\"name\":\"" name "\",\"image\":\"i\"," LIMIT(n) "}"

static const struct typed_object *add_pod(struct world *w, const char *uid, const char *spec,
                                          const char *status)
{
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json,
              "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":"
              "\"default\",\"uid\":\"%s\"},\"spec\":{%s},\"status\":{%s}}",
              uid, spec, status);
    vec_push(&w->pods, kit_object(json.p));
    return *vec_last(&w->pods);
}

static const struct typed_object *simple(struct world *w, const char *uid, const char *number)
{
    cleanup_sbuf struct sbuf spec = {0};
    sbuf_addf(&spec,
              "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"limits\":{"
              "\"" RESOURCE "\":\"%s\"}}}]",
              number);
    return add_pod(w, uid, spec.p, "");
}

static struct kit_result allocate(struct world *w, const struct typed_object *pod)
{
    struct kit_result r = {0};
    devplug_allocate(w->d, pod, kit_done, &r);
    assert_int_equal(r.done, 0); // never before it has returned
    run(w, SECOND);
    return r;
}

static void must_allocate(struct world *w, const struct typed_object *pod)
{
    struct kit_result r = allocate(w, pod);
    if (r.done != 1 || r.code < 0)
        fail_msg("%d: %s", r.done, r.err.msg);
}

#define assert_refused(r, text)                          \
    do {                                                 \
        struct kit_result assert_got = (r);              \
        assert_int_equal(assert_got.done, 1);            \
        assert_true(assert_got.code < 0);                \
        assert_string_equal(assert_got.err.msg, (text)); \
    } while (0)

// "pod/container=a,b …", in the order they were given.
static const char *held(const struct world *w, struct sbuf *out)
{
    sbuf_clear(out);
    vec_foreach(&devplug_ledger(w->d)->grants, g) {
        sbuf_addf(out, "%s%.*s/%.*s=", out->n ? " " : "", STR_ARG((*g)->pod_uid),
                  STR_ARG((*g)->container));
        vec_foreach(&(*g)->devices, d)
            sbuf_addf(out, "%s%.*s", d == (*g)->devices.p ? "" : ",", STR_ARG(d->id));
    }
    return out->n ? out->p : "";
}

#define assert_held(w, text)                             \
    do {                                                 \
        struct sbuf assert_held_text = {0};              \
        held((w), &assert_held_text);                    \
        assert_str(sbuf_str(&assert_held_text), (text)); \
        sbuf_done(&assert_held_text);                    \
    } while (0)

#define assert_log(plugin, text)                      \
    do {                                              \
        assert_str(sbuf_str(&(plugin)->log), (text)); \
        sbuf_clear(&(plugin)->log);                   \
    } while (0)

// --- Registration and capacity -------------------------------------------------------------------

// Healthy devices are allocatable, all are capacity; a second message replaces the first.
TEST_IN_WORLD(healthy_devices_are_allocatable)
{
    enrol(w, "one.sock");
    assert_log(&w->plugin, "options;");
    assert_string_equal(amounts(w), RESOURCE " 0/0;"); // nothing was told yet
    tell(w, w->one, "a b c!");
    assert_string_equal(amounts(w), RESOURCE " 2/3;");
    tell(w, w->one, "a a d");
    assert_string_equal(amounts(w), RESOURCE " 2/2;");
    assert_true(w->changes >= 2);
}

TEST_IN_WORLD(other_versions_and_native_names_are_refused)
{
    assert_refused(enrol_as(w, "v1alpha", "one.sock", RESOURCE),
                   "requested API version \"v1alpha\" is not supported by kubelet. Supported "
                   "version is [\"v1beta1\"]");
    static const char *const names[] = {"cpu", "kubernetes.io/gpu", "requests.example.com/r", "",
                                        "example.com/-r"};
    for (size_t i = 0; i < array_len(names); i++) {
        struct kit_result r = enrol_as(w, "v1beta1", "one.sock", names[i]);
        assert_int_equal(r.code, -ERR_INVALID);
        assert_non_null(strstr(r.err.msg, "is invalid"));
    }
    assert_int_equal(enrol_as(w, "v1beta1", "", RESOURCE).code, -ERR_INVALID);
    assert_string_equal(amounts(w), "");
}

TEST_IN_WORLD(a_plugin_that_does_not_answer_is_refused)
{
    assert_refused(enrol_as(w, "v1beta1", "nobody.sock", RESOURCE),
                   "failed to dial device plugin: context deadline exceeded");
    w->plugin.driver.rpc_error = "broken";
    assert_refused(enrol_as(w, "v1beta1", "one.sock", RESOURCE),
                   "failed to get device plugin options: rpc error: code = FailedPrecondition desc "
                   "= broken");
    assert_string_equal(amounts(w), "");
}

// Nothing is allocatable without a plugin; capacity stays for five minutes, for one that only restarts.
TEST_IN_WORLD(capacity_outlives_a_plugin_by_five_minutes)
{
    enrol(w, "one.sock");
    tell(w, w->one, "a b");
    (void)kit_transport_end(&w->transport, w->one, GRPC_UNAVAILABLE);
    run(w, 200 * SECOND);
    assert_string_equal(amounts(w), RESOURCE " 0/2;");
    enrol(w, "one.sock");
    run(w, 200 * SECOND);
    assert_string_equal(amounts(w), RESOURCE " 0/2;"); // it has told nothing yet
    tell(w, w->one, "a b");
    assert_string_equal(amounts(w), RESOURCE " 2/2;");
    (void)kit_transport_end(&w->transport, w->one, GRPC_UNAVAILABLE);
    run(w, 301 * SECOND);
    assert_string_equal(amounts(w), RESOURCE " 0/0;");
    assert_false(devplug_wanted(w->d, simple(w, "u1", "1")->object.value)); // not ours any more
}

// A message that cannot be read ends a plugin, as it ends grpc-go's stream.
TEST_IN_WORLD(a_message_without_sense_ends_a_plugin)
{
    enrol(w, "one.sock");
    tell(w, w->one, "a");
    assert_int_equal(kit_transport_send(&w->transport, w->one, STR("\x0a\xff")), 1);
    run(w, SECOND);
    assert_string_equal(amounts(w), RESOURCE " 0/1;");
}

// During an update two instances are there: the newest that has told its devices counts.
TEST_IN_WORLD(a_new_endpoint_takes_over)
{
    enrol(w, "one.sock");
    tell(w, w->one, "a b");
    enrol(w, "two.sock");
    assert_string_equal(amounts(w), RESOURCE " 2/2;");
    tell(w, w->two, "a b c");
    tell(w, w->one, "a!"); // the old one ends its work
    assert_string_equal(amounts(w), RESOURCE " 3/3;");
    (void)kit_transport_end(&w->transport, w->one, GRPC_UNAVAILABLE);
    run(w, SECOND);
    assert_string_equal(amounts(w), RESOURCE " 3/3;");
    must_allocate(w, simple(w, "u1", "1"));
    assert_log(&w->second, "options;allocate a;");
    // The same socket again: the instance whose end was not seen goes.
    enrol(w, "two.sock");
    assert_string_equal(amounts(w), RESOURCE " 0/3;");
    tell(w, w->two, "a b");
    assert_string_equal(amounts(w), RESOURCE " 2/2;");
    assert_held(w, "u1/c=a");
}

// --- Allocation ----------------------------------------------------------------------------------

TEST_IN_WORLD(what_the_plugin_answers_reaches_the_container)
{
    cleanup_arena struct arena a = {0};
    struct devplug_gifts g = {0};
    struct err err = {0};
    w->plugin.host_file = "/etc/hosts";
    w->plugin.host_node = "/dev/null";
    w->plugin.cdi_kind = "example.com/class";
    enrol(w, "one.sock");
    tell(w, w->one, "a b c");
    const struct typed_object *pod = simple(w, "u1", "2");
    assert_true(devplug_wanted(w->d, pod->object.value));
    must_allocate(w, pod);
    assert_int_equal(devplug_container(w->d, STR("u1"), STR("c"), &a, &g, &err), 0);
    assert_int_equal(g.env.n, 1);
    assert_str(g.env.p[0].name, "DEVICES");
    assert_str(g.env.p[0].value, "a,b");
    assert_str(g.annotations.p[0].name, "example.com/devices");
    assert_string_equal(g.mounts.p[0].host_path, "/etc/hosts");
    assert_string_equal(g.mounts.p[0].container_path, "/from-plugin");
    assert_true(g.mounts.p[0].read_only);
    assert_int_equal(g.devices.n, 2);
    assert_str(g.devices.p[1].container_path, "/dev/b");
    assert_str(g.devices.p[1].permissions, "rw");
    assert_str(g.cdi_devices.p[1], "example.com/class=b");
    // Another container has nothing of it.
    struct devplug_gifts none = {0};
    assert_int_equal(devplug_container(w->d, STR("u1"), STR("other"), &a, &none, &err), 0);
    assert_int_equal(none.env.n + none.mounts.n + none.devices.n + none.cdi_devices.n, 0);
}

TEST_IN_WORLD(no_device_is_given_twice)
{
    enrol(w, "one.sock");
    tell(w, w->one, "a b! c d");
    // Both at once: one is not answered yet when the other one chooses.
    struct kit_result first = {0}, second = {0};
    devplug_allocate(w->d, simple(w, "u1", "2"), kit_done, &first);
    devplug_allocate(w->d, simple(w, "u2", "2"), kit_done, &second);
    run(w, SECOND);
    assert_int_equal(first.code, 0);
    assert_refused(second, "requested number of devices unavailable for " RESOURCE
                           ". Requested: 2, Available: 1");
    assert_held(w, "u1/c=a,c");
    must_allocate(w, simple(w, "u3", "1"));
    assert_held(w, "u1/c=a,c u3/c=d");
    devplug_release(w->d, STR("u1"));
    must_allocate(w, simple(w, "u4", "2"));
    assert_held(w, "u3/c=d u4/c=a,c");
    assert_int_equal(devplug_held(w->d, STR("u4"), STR(RESOURCE)), 3);
    assert_int_equal(devplug_held(w->d, STR("nobody"), STR(RESOURCE)), 0);
}

// What pods that are gone have left behind is collected before something is given away.
TEST_IN_WORLD(stranded_devices_are_collected)
{
    enrol(w, "one.sock");
    tell(w, w->one, "a");
    must_allocate(w, simple(w, "u1", "1"));
    typed_object_unref(vec_pop(&w->pods));
    must_allocate(w, simple(w, "u2", "1"));
    assert_held(w, "u2/c=a");
}

// Init containers leave their devices to those that come after them; sidecars keep theirs.
TEST_IN_WORLD(init_containers_pass_devices_on)
{
    enrol(w, "one.sock");
    tell(w, w->one, "a b c d");
    must_allocate(
        w, add_pod(
               w, "u1",
               "\"initContainers\":[" WANTS("i1", "1") "," WANTS(
                   "i2",
                   "2") ","
                        "{\"name\":\"s\",\"image\":\"i\",\"restartPolicy\":\"Always\"," LIMIT(
                            "1") "}," WANTS("i3",
                                            "1") "],\"containers\":[" WANTS("m1",
                                                                            "1") "," WANTS("m2",
                                                                                           "1") "]",
               ""));
    assert_held(w, "u1/i1=a u1/i2=a,b u1/s=a u1/i3=b u1/m1=b u1/m2=c");
    must_allocate(w, simple(w, "u2", "1"));
    assert_held(w, "u1/i1=a u1/i2=a,b u1/s=a u1/i3=b u1/m1=b u1/m2=c u2/c=d");
}

TEST_IN_WORLD(a_plugins_preference_counts)
{
    w->plugin.preferred = true;
    w->plugin.likes = "zz d a d b";
    enrol(w, "one.sock");
    tell(w, w->one, "a b c d");
    assert_log(&w->plugin, "options;");
    must_allocate(w, simple(w, "u1", "2"));
    assert_log(&w->plugin, "prefer 2 of a b c d;allocate d a;");
    // What it names may be taken; then others do.
    must_allocate(w, simple(w, "u2", "2"));
    assert_log(&w->plugin, "prefer 2 of b c;allocate b c;");
    devplug_release(w->d, STR("u1"));
    devplug_release(w->d, STR("u2"));
    // What is passed on must be among them.
    w->plugin.likes = "c";
    must_allocate(
        w, add_pod(w, "u3",
                   "\"initContainers\":[" WANTS("i", "1") "],\"containers\":[" WANTS("m", "2") "]",
                   ""));
    assert_log(&w->plugin,
               "prefer 1 of a b c d;allocate c;prefer 2 of a b d c with c;allocate c a;");
}

TEST_IN_WORLD(a_failure_leaves_nothing)
{
    enrol(w, "one.sock");
    assert_refused(allocate(w, simple(w, "u0", "1")),
                   "no healthy devices present; cannot allocate unhealthy devices " RESOURCE);
    tell(w, w->one, "a b");
    w->plugin.driver.rpc_error = "no power";
    assert_refused(allocate(w, simple(w, "u1", "1")),
                   "rpc error: code = FailedPrecondition desc = no power");
    w->plugin.driver.rpc_error = NULL;
    w->plugin.answers_nothing = true;
    assert_refused(allocate(w, simple(w, "u2", "1")),
                   "no containers return in allocation response");
    w->plugin.answers_nothing = false;
    w->disk_fails = true;
    assert_refused(
        allocate(w, simple(w, "u3", "1")),
        "failed to write checkpoint file \"kubelet_internal_checkpoint\": no space left");
    w->disk_fails = false;
    // One container got its device; the other one cannot.
    assert_refused(
        allocate(w, add_pod(w, "u4", "\"containers\":[" WANTS("c1", "1") "," WANTS("c2", "2") "]",
                            "")),
        "requested number of devices unavailable for " RESOURCE ". Requested: 2, Available: 1");
    assert_held(w, "");
}

// kubelet waits for ever; here a plugin has two minutes, and a pod that ends does not wait.
TEST_IN_WORLD(a_plugin_that_hangs_holds_nobody)
{
    enrol(w, "one.sock");
    tell(w, w->one, "a b");
    w->plugin.driver.hang = true;
    struct kit_result r = {0};
    devplug_allocate(w->d, simple(w, "u1", "1"), kit_done, &r);
    run(w, SECOND);
    assert_int_equal(r.done, 0);
    assert_held(w, "u1/c=a");
    struct kit_result *late = xcalloc(1, sizeof(*late));
    devplug_allocate(w->d, simple(w, "u2", "1"), kit_done, late);
    run(w, SECOND);
    devplug_release(w->d, STR("u2"));
    assert_int_equal(late->code, -ECANCELED);
    free(late); // nobody writes to it any more
    assert_held(w, "u1/c=a");
    run(w, 121 * SECOND);
    assert_refused(r, "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
    assert_held(w, "");
}

// What a claim gives is not asked of a plugin, container by container.
TEST_IN_WORLD(what_a_claim_satisfies_is_not_asked_of_a_plugin)
{
    static const char claimed[] =
        "\"extendedResourceClaimStatus\":{\"resourceClaimName\":\"x\",\"requestMappings\":[{"
        "\"containerName\":\"c1\",\"resourceName\":\"" RESOURCE "\",\"requestName\":\"r\"}]}";
    enrol(w, "one.sock");
    tell(w, w->one, "a b");
    const struct typed_object *both =
        add_pod(w, "u1", "\"containers\":[" WANTS("c1", "1") "," WANTS("c2", "1") "]", claimed);
    const struct typed_object *all =
        add_pod(w, "u2", "\"containers\":[" WANTS("c1", "1") "]", claimed);
    assert_true(devplug_wanted(w->d, both->object.value));
    assert_false(devplug_wanted(w->d, all->object.value));
    must_allocate(w, both);
    must_allocate(w, all);
    assert_held(w, "u1/c2=a");
    assert_log(&w->plugin, "options;allocate a;");
    struct kit_result r = {0};
    const struct api_pod *pod = all->object.value;
    assert_false(devplug_pre_start(w->d, all, &pod->spec.containers.p[0], kit_done, &r));
}

// --- Before a container starts -------------------------------------------------------------------

TEST_IN_WORLD(plugins_that_want_to_are_told_of_every_start)
{
    w->plugin.pre_start = true;
    enrol(w, "one.sock");
    tell(w, w->one, "a b");
    const struct typed_object *pod = simple(w, "u1", "2");
    const struct api_container *c =
        &((const struct api_pod *)pod->object.value)->spec.containers.p[0];
    must_allocate(w, pod);
    assert_log(&w->plugin, "options;allocate a b;");
    for (int i = 0; i < 2; i++) {
        struct kit_result r = {0};
        assert_true(devplug_pre_start(w->d, pod, c, kit_done, &r));
        run(w, SECOND);
        assert_int_equal(r.done, 1);
        assert_int_equal(r.code, 0);
        assert_log(&w->plugin, "prestart a b;");
    }
    w->plugin.driver.rpc_error = "dirty";
    struct kit_result r = {0};
    assert_true(devplug_pre_start(w->d, pod, c, kit_done, &r));
    run(w, SECOND);
    assert_refused(r, "device plugin PreStartContainer rpc failed with err: rpc error: code = "
                      "FailedPrecondition desc = dirty");
    assert_held(w, "u1/c=a,b"); // as before
    w->plugin.driver.rpc_error = NULL;
    // A pod that was admitted when nobody was here to give it devices gets them now.
    devplug_release(w->d, STR("u1"));
    struct kit_result again = {0};
    assert_true(devplug_pre_start(w->d, pod, c, kit_done, &again));
    run(w, SECOND);
    assert_int_equal(again.code, 0);
    assert_log(&w->plugin, "allocate a b;prestart a b;");
}

TEST_IN_WORLD(others_are_not_asked_at_a_start)
{
    enrol(w, "one.sock");
    tell(w, w->one, "a");
    const struct typed_object *pod = simple(w, "u1", "1");
    struct kit_result r = {0};
    must_allocate(w, pod);
    assert_false(devplug_pre_start(
        w->d, pod, &((const struct api_pod *)pod->object.value)->spec.containers.p[0], kit_done,
        &r));
}

// --- Restarts ------------------------------------------------------------------------------------

TEST_IN_WORLD(a_restarted_manager_knows_who_holds_what)
{
    cleanup_arena struct arena a = {0};
    struct devplug_gifts g = {0};
    struct err err = {0};
    assert_true(devplug_is_new(w->d));
    enrol(w, "one.sock");
    tell(w, w->one, "a b@1");
    const struct typed_object *pod = simple(w, "u1", "1");
    must_allocate(w, pod);
    devplug_free(w->d);
    start(w);
    assert_false(devplug_is_new(w->d));
    assert_string_equal(amounts(w), RESOURCE " 0/0;"); // until the plugin is back
    assert_int_equal(devplug_container(w->d, STR("u1"), STR("c"), &a, &g, &err), 0);
    assert_str(g.env.p[0].value, "a");
    sbuf_clear(&w->plugin.log);
    must_allocate(w, pod); // has it already: nobody is asked, also without a plugin
    assert_log(&w->plugin, "");
    enrol(w, "one.sock");
    tell(w, w->one, "a b@1");
    must_allocate(w, simple(w, "u2", "1"));
    assert_held(w, "u1/c=a u2/c=b");
    // A pod that asks for another number than it has is an error, as for kubelet.
    const struct typed_object *other = simple(w, "u1", "2");
    assert_refused(allocate(w, other),
                   "pod \"u1\" container \"c\" changed request for resource \"" RESOURCE
                   "\" from 1 to 2");
    // Five minutes after a restart without its plugin, a resource is not registered any more.
    devplug_free(w->d);
    start(w);
    run(w, 301 * SECOND);
    assert_refused(allocate(w, simple(w, "u3", "1")),
                   "cannot allocate unregistered device " RESOURCE);
    assert_held(w, "u1/c=a u2/c=b");
}

TEST_IN_WORLD(a_damaged_checkpoint_is_begun_anew)
{
    struct err err = {0};
    enrol(w, "one.sock");
    tell(w, w->one, "a");
    must_allocate(w, simple(w, "u1", "1"));
    devplug_free(w->d);
    assert_int_equal(w->disk->replace(w->disk, DEVICE_CHECKPOINT_FILE, STR("{\"Data\":"), &err), 0);
    start(w);
    assert_held(w, "");
    assert_string_equal(amounts(w), "");
    assert_false(devplug_is_new(w->d));
}

// --- Health and PodResources ---------------------------------------------------------------------

TEST_IN_WORLD(health_is_told_of_the_pods_that_have_the_device)
{
    cleanup_arena struct arena a = {0};
    struct api_resource_status_array s = {0};
    enrol(w, "one.sock");
    tell(w, w->one, "a b");
    must_allocate(w, simple(w, "u1", "1"));
    must_allocate(w, simple(w, "u2", "1"));
    sbuf_clear(&w->health);
    tell(w, w->one, "a b!");
    assert_str(sbuf_str(&w->health), "u2;");
    devplug_health(w->d, STR("u2"), STR("c"), &a, &s);
    assert_int_equal(s.n, 1);
    assert_str(s.p[0].name, RESOURCE);
    assert_str(s.p[0].resources.p[0].resource_id, "b");
    assert_str(s.p[0].resources.p[0].health, "Unhealthy");
    sbuf_clear(&w->health);
    (void)kit_transport_end(&w->transport, w->one, GRPC_UNAVAILABLE);
    run(w, SECOND);
    assert_str(sbuf_str(&w->health), "u1;");
    s = (struct api_resource_status_array){0};
    devplug_health(w->d, STR("u1"), STR("c"), &a, &s);
    assert_str(s.p[0].resources.p[0].health, "Unhealthy");
}

TEST_IN_WORLD(pod_resources_list_each_device_with_its_node)
{
    cleanup_arena struct arena a = {0};
    struct plugin_container_resources c = {0};
    struct plugin_allocatable_response all = {0};
    enrol(w, "one.sock");
    tell(w, w->one, "a b@1 c@0!");
    must_allocate(w, simple(w, "u1", "2"));
    devplug_of_container(w->d, STR("u1"), STR("c"), &a, &c);
    assert_int_equal(c.devices.n, 2);
    assert_str(c.devices.p[0].resource_name, RESOURCE);
    assert_str(c.devices.p[0].device_ids.p[0], "a");
    assert_int_equal(c.devices.p[0].topology.n, 0);
    assert_str(c.devices.p[1].device_ids.p[0], "b");
    assert_int_equal(c.devices.p[1].topology.p[0].nodes.p[0].id, 1);
    devplug_allocatable(w->d, &a, &all); // healthy ones, whoever has them
    assert_int_equal(all.devices.n, 2);
}

// --- kubelet's file ------------------------------------------------------------------------------

// Written by kubelet's own code (v1.37.1).
static const char kubelets[] =
    "{\"Data\":{\"PodDeviceEntries\":[{\"PodUID\":\"u1\",\"ContainerName\":\"c\",\"ResourceName\":"
    "\"example.com/r\",\"DeviceIDs\":{\"-1\":[\"d1\"],\"0\":[\"d\\\"4\"],\"1\":[\"d2\",\"d3\"]},"
    "\"AllocResp\":\"CgNhYv8=\"},{\"PodUID\":\"u2\",\"ContainerName\":\"c\",\"ResourceName\":"
    "\"example.com/r\",\"DeviceIDs\":{},\"AllocResp\":\"\"}],\"RegisteredDevices\":{\"a.com/y\":["
    "\"i1\",\"i2\"],\"b.com/x\":[]}},\"Checksum\":3902117778}";

static void kubelets_checkpoint_is_read_and_written(void **state)
{
    (void)state;
    static const char *const texts[] = {
        kubelets, "{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":{}},\"Checksum\":"
                  "3467439661}"};
    for (size_t i = 0; i < array_len(texts); i++) {
        cleanup_arena struct arena a = {0};
        cleanup_sbuf struct sbuf out = {0};
        struct device_ledger l = {0};
        struct device_registrations r = {0};
        struct err err = {0};
        if (device_ledger_read(str_z(texts[i]), &l, &a, &r, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(l.grants.n, i == 0 ? 2 : 0);
        device_ledger_write(&l, &r, &out);
        assert_str(sbuf_str(&out), texts[i]);
        device_ledger_done(&l);
    }
}

// What is read although a byte is another means the same: the name of a member that is empty.
static void every_changed_byte_is_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kubelets) - 1; i++) {
        cleanup_arena struct arena a = {0};
        cleanup_sbuf struct sbuf out = {0};
        char text[sizeof(kubelets)];
        struct device_ledger l = {0};
        struct device_registrations r = {0};
        struct err err = {0};
        memcpy(text, kubelets, sizeof(text));
        text[i] ^= 1;
        int rc = device_ledger_read(str_make(text, sizeof(text) - 1), &l, &a, &r, &err);
        if (rc < 0)
            assert_true(l.grants.n == 0 && r.n == 0 && err.msg[0]);
        device_ledger_write(&l, &r, &out);
        if (rc == 0)
            assert_str(sbuf_str(&out), kubelets);
        device_ledger_done(&l);
    }
}

RUN_TESTS(TEST_CASE(healthy_devices_are_allocatable),
          TEST_CASE(other_versions_and_native_names_are_refused),
          TEST_CASE(a_plugin_that_does_not_answer_is_refused),
          TEST_CASE(capacity_outlives_a_plugin_by_five_minutes),
          TEST_CASE(a_message_without_sense_ends_a_plugin), TEST_CASE(a_new_endpoint_takes_over),
          TEST_CASE(what_the_plugin_answers_reaches_the_container),
          TEST_CASE(no_device_is_given_twice), TEST_CASE(stranded_devices_are_collected),
          TEST_CASE(init_containers_pass_devices_on), TEST_CASE(a_plugins_preference_counts),
          TEST_CASE(a_failure_leaves_nothing), TEST_CASE(a_plugin_that_hangs_holds_nobody),
          TEST_CASE(what_a_claim_satisfies_is_not_asked_of_a_plugin),
          TEST_CASE(plugins_that_want_to_are_told_of_every_start),
          TEST_CASE(others_are_not_asked_at_a_start),
          TEST_CASE(a_restarted_manager_knows_who_holds_what),
          TEST_CASE(a_damaged_checkpoint_is_begun_anew),
          TEST_CASE(health_is_told_of_the_pods_that_have_the_device),
          TEST_CASE(pod_resources_list_each_device_with_its_node),
          TEST_CASE(kubelets_checkpoint_is_read_and_written),
          TEST_CASE(every_changed_byte_is_noticed))
