// SPDX-License-Identifier: Apache-2.0
//
// A driver whose functions are called from many threads at once: kubelets prepare and unprepare, others
// publish, taint, tell of health and events and ask what is in use, and so do the callbacks.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/cel_check.h"
#include "driver/sdk/sdk.h"
#include "inproc/local.h"
#include "unit.h"

#include "base/banned.h"

enum { KUBELETS = 2, CHATTERS = 2, CLAIMS = 4, ROUNDS = 25 };

#define DRIVER "led.example.com"

struct world {
    char dir[32];
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct client *client;
    struct dray_runtime *runtime;
    struct dray_driver *driver;
    struct api_cel_engine *cel;
    char uids[CLAIMS][64];
    size_t answers;
    _Atomic int kubelets;  // that are not done
    _Atomic size_t lit;    // devices, by the callbacks
    _Atomic size_t failed; // troubles of preparing
};

// --- The driver ----------------------------------------------------------------------------------

static void publish(struct dray_driver *d, int64_t number)
{
    struct dray_pool *pool = dray_pool_new(NULL);
    for (int i = 0; i < CLAIMS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "led%d", i);
        dray_attribute_int(dray_pool_device(pool, name), "number", number);
    }
    assert_int_equal(dray_publish(d, pool, NULL), 0);
    dray_pool_free(pool);
}

static int prepare(void *arg, const struct dray_claim *claim, struct dray_outcome *out,
                   struct dray_error *err)
{
    struct world *w = arg;
    (void)err;
    for (size_t i = 0; i < claim->devices_len; i++) {
        dray_env(out, i, "LED", claim->devices[i].device);
        dray_health(w->driver, NULL, claim->devices[i].device, DRAY_HEALTHY, "");
        dray_condition(out, i, "Ready", true, "Lit", "");
        atomic_fetch_add(&w->lit, 1);
    }
    return 0;
}

static int unprepare(void *arg, const struct dray_claim *claim, struct dray_error *err)
{
    struct world *w = arg;
    (void)err;
    for (size_t i = 0; i < claim->devices_len; i++) {
        dray_untaint(w->driver, NULL, claim->devices[i].device, DRIVER "/hot");
        atomic_fetch_sub(&w->lit, 1);
    }
    return 0;
}

// --- Kubelets ------------------------------------------------------------------------------------

struct kubelet {
    struct world *world;
    pthread_t thread;
    struct loop *loop;
    struct grpc_client *client;
    int number, rounds;
    bool preparing;
};

static void call(struct kubelet *k);

static void answered(void *arg, const struct grpc_result *r)
{
    struct kubelet *k = arg;
    cleanup_arena struct arena a = {0};
    struct plugin_prepare_response prepared = {0};
    bool ok = r->status == GRPC_OK;
    if (ok && k->preparing) {
        ok = plugin_decode(&plugin_prepare_response_message, r->response, &prepared, &a, NULL) == 0;
        vec_foreach(&prepared.claims, c)
            ok = ok && c->claim.error.n == 0 && c->claim.devices.n == 1;
    }
    if (!ok)
        atomic_fetch_add(&k->world->failed, 1);
    if (!k->preparing)
        k->rounds++;
    k->preparing = !k->preparing;
    if (k->rounds < ROUNDS)
        call(k);
    else
        loop_stop(k->loop);
}

static void call(struct kubelet *k)
{
    struct plugin_claims claims = {0};
    cleanup_arena struct arena a = {0};
    for (int i = k->number; i < CLAIMS; i += KUBELETS) {
        const struct plugin_claim c = {.namespace = STR("default"),
                                       .name = arena_strf(&a, "c%d", i),
                                       .uid = str_z(k->world->uids[i])};
        vec_push_arena(&a, &claims.claims, c);
    }
    struct proto_writer w = {0};
    plugin_encode(&plugin_claims_message, &claims, &w);
    const struct grpc_request q = {.method = k->preparing
                                                 ? STR(PLUGIN_DRA_V1 "NodePrepareResources")
                                                 : STR(PLUGIN_DRA_V1 "NodeUnprepareResources"),
                                   .message = proto_written(&w),
                                   .timeout_ns = 60 * CLOCK_NS_PER_SEC,
                                   .wait_for_ready = true,
                                   .done = answered,
                                   .arg = k};
    (void)grpc_client_call(k->client, &q);
    proto_writer_done(&w);
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

static void turn(struct loop *loop)
{
    exec_post(loop_exec(loop), stop_loop, loop);
    loop_run(loop);
}

// Only when the driver is gone: ThreadSanitizer does not see libuv close files, and would take the next
// owner of a number for the last one.
static void kubelet_done(struct kubelet *k)
{
    grpc_client_free(k->client);
    turn(k->loop);
    loop_free(k->loop);
}

static void *kubelet_main(void *arg)
{
    struct kubelet *k = arg;
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/plugins/" DRIVER "/dra.sock", k->world->dir);
    assert_int_equal(loop_new(&k->loop, NULL), 0);
    const struct grpc_client_options o = {.loop = k->loop, .path = path};
    k->client = grpc_client_new(&o);
    k->preparing = true;
    call(k);
    loop_run(k->loop);
    if (atomic_fetch_sub(&k->world->kubelets, 1) == 1)
        loop_stop(k->world->loop);
    return NULL;
}

// --- Others --------------------------------------------------------------------------------------

static void *chatter_main(void *arg)
{
    struct world *w = arg;
    for (int64_t i = 0; atomic_load(&w->kubelets) > 0; i++) {
        const char *device = i % 2 ? "led0" : "led1";
        publish(w->driver, i % 3);
        dray_taint(w->driver, NULL, device, DRIVER "/hot", "yes", "NoSchedule");
        dray_health(w->driver, NULL, device, i % 2 ? DRAY_UNHEALTHY : DRAY_HEALTHY, "hot");
        dray_event(w->driver, true, "Hot", "an LED is hot");
        assert_true(dray_in_use(w->driver, NULL, device) <= 1);
        (void)usleep(2000);
    }
    return NULL;
}

// --- Setting up ----------------------------------------------------------------------------------

static void on_answer(void *arg, const struct client_answer *a)
{
    struct world *w = arg;
    if (a->code != 0)
        fail_msg("%s", a->err->msg);
    if (a->object && str_eqz(a->object->object.kind->kind, "ResourceClaim")) {
        int number = a->object->meta->name.p[1] - '0';
        (void)snprintf(w->uids[number], sizeof(w->uids[number]), "%.*s",
                       STR_ARG(a->object->meta->uid));
    }
    w->answers++;
    loop_stop(w->loop);
}

// Creates an object, or writes its status.
static void put(struct world *w, const char *json, bool status)
{
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_arena struct arena arena = {0};
    struct api_object object;
    struct err err = {0};
    if (json_parse(str_z(json), NULL, &doc, &err) < 0 ||
        api_decode(&doc, doc.root, &arena, NULL, &object, &err) < 0)
        fail_msg("%s: %s", err.msg, json);
    size_t before = w->answers;
    const struct client_write how = {.subresource = STR("status")};
    if (status)
        client_update(w->client, &object, &how, on_answer, w);
    else
        client_create(w->client, &object, NULL, on_answer, w);
    while (w->answers == before)
        loop_run(w->loop);
}

static void make_claim(struct world *w, int number)
{
    static const char head[] = "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\","
                               "\"metadata\":{\"name\":\"c%d\",\"namespace\":\"default\"},\"spec\":"
                               "{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":"
                               "{\"deviceClassName\":\"led\"}}]}}";
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json, head, number);
    sbuf_addc(&json, '}');
    put(w, json.p, false);
    sbuf_clear(&json);
    sbuf_addf(&json, head, number);
    sbuf_addf(&json,
              ",\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\","
              "\"driver\":\"" DRIVER "\",\"pool\":\"n1\",\"device\":\"led%d\"}]}}}}",
              number);
    put(w, json.p, true);
}

static void open_registry(struct world *w)
{
    static const struct registry_user user = {.name = STR_INIT("tester")};
    static struct features features;
    struct err err;
    features_init(&features, FEATURES_MINOR);
    w->cel = api_cel_engine_new();
    assert_int_equal(loop_new(&w->loop, &err), 0);
    struct exec *exec = loop_exec(w->loop);
    assert_int_equal(store_open(&(struct store_options){.exec = exec}, &w->store, &err), 0);
    assert_int_equal(registry_new(&(struct registry_options){.store = w->store,
                                                             .exec = exec,
                                                             .features = &features,
                                                             .cel = api_cel_engine_rules(w->cel)},
                                  &w->registry, &err),
                     0);
    const struct store_key ns = {api_kind_find(STR("v1"), STR("Namespace")), STR(""),
                                 STR("default")};
    while (!store_get(w->store, &ns))
        turn(w->loop);
    w->client = local_client_new(w->registry, exec, &user);
}

static void start_driver(struct world *w)
{
    char plugins[64], registry[64], cdi[64];
    struct err err = {0};
    (void)snprintf(plugins, sizeof(plugins), "%s/plugins", w->dir);
    (void)snprintf(registry, sizeof(registry), "%s/registry", w->dir);
    (void)snprintf(cdi, sizeof(cdi), "%s/cdi", w->dir);
    const struct dray_driver_options o = {
        .name = DRIVER,
        .node = "n1",
        .plugins_dir = plugins,
        .registry_dir = registry,
        .cdi_dir = cdi,
        .health = true,
        .metadata = true,
        .callbacks = {.prepare = prepare, .unprepare = unprepare},
        .arg = w,
    };
    w->runtime = sdk_runtime_around(w->loop, w->client);
    if (sdk_driver_start(w->runtime, &o, NULL, &w->driver, &err) != 0)
        fail_msg("%s", err.msg);
}

static void world_done(struct world *w)
{
    dray_runtime_free(w->runtime);
    for (int i = 0; i < 10; i++)
        turn(w->loop);
    client_free(w->client);
    turn(w->loop);
    registry_free(w->registry);
    store_close(w->store);
    loop_free(w->loop);
    api_cel_engine_free(w->cel);
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", w->dir);
    assert_int_equal(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
}

static void functions_may_be_called_from_any_thread(void **state)
{
    (void)state;
    static struct world w = {.dir = "/tmp/sdk-XXXXXX"};
    static struct kubelet kubelets[KUBELETS];
    pthread_t chatters[CHATTERS];
    assert_non_null(mkdtemp(w.dir));
    open_registry(&w);
    put(&w, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}", false);
    for (int i = 0; i < CLAIMS; i++)
        make_claim(&w, i);
    start_driver(&w);
    atomic_store(&w.kubelets, KUBELETS);
    for (int i = 0; i < KUBELETS; i++) {
        kubelets[i] = (struct kubelet){.world = &w, .number = i};
        assert_int_equal(pthread_create(&kubelets[i].thread, NULL, kubelet_main, &kubelets[i]), 0);
    }
    for (int i = 0; i < CHATTERS; i++)
        assert_int_equal(pthread_create(&chatters[i], NULL, chatter_main, &w), 0);
    while (atomic_load(&w.kubelets) > 0)
        loop_run(w.loop);
    for (int i = 0; i < KUBELETS; i++)
        assert_int_equal(pthread_join(kubelets[i].thread, NULL), 0);
    for (int i = 0; i < CHATTERS; i++)
        assert_int_equal(pthread_join(chatters[i], NULL), 0);
    for (int i = 0; i < 10; i++)
        turn(w.loop);
    assert_int_equal(atomic_load(&w.failed), 0);
    assert_int_equal(atomic_load(&w.lit), 0);
    for (int i = 0; i < CLAIMS; i++) {
        char device[16];
        (void)snprintf(device, sizeof(device), "led%d", i);
        assert_int_equal(dray_in_use(w.driver, NULL, device), 0);
    }
    world_done(&w);
    for (int i = 0; i < KUBELETS; i++)
        kubelet_done(&kubelets[i]);
}

// --- Claims that nobody will unprepare -------------------------------------------------------------

static int light(void *arg, const struct dray_claim *claim, struct dray_outcome *out,
                 struct dray_error *err)
{
    struct world *w = arg;
    (void)out;
    (void)err;
    atomic_fetch_add(&w->lit, claim->devices_len);
    return 0;
}

static void prepare_claim(struct world *w, struct core *core, int number)
{
    cleanup_arena struct arena a = {0};
    struct journal_entry entry;
    struct err err = {0};
    const struct dray_allocated device = {.request = "r",
                                          .request_ref = "r",
                                          .pool = "n1",
                                          .device = arena_strf(&a, "led%d", number).p};
    const struct dray_claim claim = {.namespace_ = "default",
                                     .name = arena_strf(&a, "c%d", number).p,
                                     .uid = w->uids[number],
                                     .devices = &device,
                                     .devices_len = 1};
    if (core_prepare(core, &claim, &a, &entry, &err) != 0)
        fail_msg("%s", err.msg);
}

// Leaves two claims behind that were prepared before the machine last started.
static void earlier_boot(struct world *w)
{
    char data[96], cdi[64];
    struct core *core = NULL;
    struct err err = {0};
    (void)snprintf(data, sizeof(data), "%s/plugins/" DRIVER, w->dir);
    (void)snprintf(cdi, sizeof(cdi), "%s/cdi", w->dir);
    const struct core_options o = {.driver = DRIVER,
                                   .cdi_class = "device",
                                   .data_dir = data,
                                   .cdi_dir = cdi,
                                   .boot_id = "earlier",
                                   .callbacks = {.prepare = light},
                                   .arg = w,
                                   .clock = loop_exec(w->loop)->clock};
    if (core_open(&o, &core, &err) != 0)
        fail_msg("%s", err.msg);
    prepare_claim(w, core, 0);
    prepare_claim(w, core, 1);
    core_free(core);
}

static void delete_claim(struct world *w, const char *name)
{
    const struct client_key key = {api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim")),
                                   STR("default"), str_z(name)};
    size_t before = w->answers;
    client_delete(w->client, &key, NULL, on_answer, w);
    while (w->answers == before)
        loop_run(w->loop);
}

static void name_held(void *arg, const struct core_held *held)
{
    struct sbuf *out = arg;
    sbuf_addf(out, "%s ", held->entry->claim.name);
}

static void claims_that_are_gone_are_released_unless_kubelet_may_still_ask(void **state)
{
    (void)state;
    static struct world w = {.dir = "/tmp/sdk-XXXXXX"};
    struct sbuf held = {0};
    assert_non_null(mkdtemp(w.dir));
    open_registry(&w);
    put(&w, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}", false);
    for (int i = 0; i < 3; i++)
        make_claim(&w, i);
    earlier_boot(&w);
    start_driver(&w);
    prepare_claim(&w, w.driver->core, 2);
    assert_int_equal(atomic_load(&w.lit), 3);
    delete_claim(&w, "c0"); // of the boot before: nobody knows of it any more
    delete_claim(&w, "c2"); // of this boot: containers may have it
    w.driver->collect_timer.fn(w.driver->collect_timer.arg);
    do { // it is released first, then that is written down
        turn(w.loop);
        sbuf_clear(&held);
        core_foreach(w.driver->core, name_held, &held);
    } while (strstr(held.p, "c0"));
    for (int i = 0; i < 10; i++) // the others would be next
        turn(w.loop);
    sbuf_clear(&held);
    core_foreach(w.driver->core, name_held, &held);
    assert_int_equal(atomic_load(&w.lit), 2);
    assert_null(strstr(held.p, "c0"));
    assert_non_null(strstr(held.p, "c1"));
    assert_non_null(strstr(held.p, "c2"));
    sbuf_done(&held);
    world_done(&w);
}

// Other threads of a driver need not know that its runtime has stopped: what they say until it is freed does no harm.
static void functions_may_be_called_after_the_runtime_has_stopped(void **state)
{
    (void)state;
    static const char config[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"c\",\"clusters\":[{"
        "\"name\":\"c\",\"cluster\":{\"server\":\"http://127.0.0.1:1\"}}],\"contexts\":[{"
        "\"name\":\"c\",\"context\":{\"cluster\":\"c\",\"user\":\"u\"}}],\"users\":[{\"name\":"
        "\"u\",\"user\":{}}]}";
    char path[] = "/tmp/dray-sdk-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, config, sizeof(config) - 1), sizeof(config) - 1);
    (void)close(fd);
    const struct dray_runtime_options where = {.kubeconfig = path};
    const struct dray_driver_options what = {.name = DRIVER};
    struct dray_runtime *r = NULL;
    struct dray_driver *d = NULL;
    struct dray_error err = {0};
    if (dray_runtime_new(&where, &r, &err) != 0 || dray_driver_start(r, &what, &d, &err) != 0)
        fail_msg("%s", err.message);
    dray_runtime_stop(r);
    dray_runtime_run(r);
    dray_health(d, "pool", "led0", DRAY_HEALTHY, "");
    dray_taint(d, "pool", "led0", DRIVER "/hot", "", "NoSchedule");
    dray_event(d, false, "Late", "after the end");
    dray_unpublish(d, "pool");
    dray_runtime_free(r);
    (void)unlink(path);
}

RUN_TESTS(TEST_CASE(functions_may_be_called_from_any_thread),
          TEST_CASE(functions_may_be_called_after_the_runtime_has_stopped),
          TEST_CASE(claims_that_are_gone_are_released_unless_kubelet_may_still_ask))
