// SPDX-License-Identifier: Apache-2.0
//
// The DRA manager and drivers over real sockets, in one process.
#include <unistd.h>

#include <sys/stat.h>

#include "dra_kit.h"
#include "node/podresources.h"

#include "base/banned.h"

#define SECOND CLOCK_NS_PER_SEC
#define MS     CLOCK_NS_PER_MS
#define DRIVER "gpu.example.com"

struct world {
    struct loop *loop;
    struct kit_api api;
    struct transport *transport;
    struct kit_driver driver;
    struct kit_served served;
    struct features features;
    struct disk *disk;
    struct dra *dra;
    struct kit_objects pods;
    struct grpc_server *podresources_server;
    struct podresources *podresources;
    char dir[40];
    int usable, changes, health;
};

static void stop_loop(void *arg)
{
    struct world *w = arg;
    loop_stop(w->loop);
}

static void run_for(struct world *w, int64_t ns)
{
    struct exec_timer tick = {.fn = stop_loop, .arg = w};
    exec_timer_start(loop_exec(w->loop), &tick, ns);
    loop_run(w->loop);
}

// Runs the loop until *counter is at least want; fails after 20 s.
static void run_until(struct world *w, const int *counter, int want)
{
    int64_t end_ns = exec_now_ns(loop_exec(w->loop)) + 20 * SECOND;
    while (*counter < want) {
        run_for(w, 2 * MS);
        if (exec_now_ns(loop_exec(w->loop)) > end_ns)
            fail_msg("waited in vain: %d of %d", *counter, want);
    }
}

static bool active_pods(void *arg, dra_pod_fn each, void *ctx)
{
    struct world *w = arg;
    vec_foreach(&w->pods, pod)
        each(ctx, *pod);
    return true;
}

static void on_plugin(void *arg, struct str driver, bool usable)
{
    struct world *w = arg;
    (void)driver;
    w->usable = usable;
    w->changes++;
}

static void on_health(void *arg, struct str uid)
{
    struct world *w = arg;
    (void)uid;
    w->health++;
}

static void world_init(struct world *w, const char *version, const char *health)
{
    char path[64];
    struct err err = {0};
    *w = (struct world){.dir = "/tmp/dra-grpc-XXXXXX"};
    assert_non_null(mkdtemp(w->dir));
    assert_int_equal(loop_new(&w->loop, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/plugins", w->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/state", w->dir);
    assert_int_equal(disk_folder_new(path, &w->disk, &err), 0);
    (void)snprintf(path, sizeof(path), "%s/registry", w->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    kit_api_init(&w->api, loop_exec(w->loop));
    w->transport = transport_grpc_new(w->loop);
    features_init(&w->features, FEATURES_MINOR);
    w->features.on[FEATURE_RESOURCE_HEALTH_STATUS] = true;
    w->driver = (struct kit_driver){.name = DRIVER, .versions = {version, health}};
    kit_serve(&w->served, w->loop, &w->driver, w->dir, "one");
    const struct dra_options o = {
        .exec = loop_exec(w->loop),
        .client = &w->api.client,
        .transport = w->transport,
        .disk = w->disk,
        .features = &w->features,
        .node = STR("node-a"),
        .boot_id = STR("boot"),
        .registry = path,
        .times = {.call_ns = 300 * MS, .look_ns = 20 * MS, .health_retry_ns = 50 * MS},
        .pods = active_pods,
        .plugin_changed = on_plugin,
        .health_changed = on_health,
        .arg = w,
    };
    if (dra_new(&o, &w->dra, &err) < 0)
        fail_msg("%s", err.msg);
    dra_start(w->dra);
    run_until(w, &w->driver.registered, 1);
    run_until(w, &w->usable, 1);
}

static void world_done(struct world *w)
{
    dra_free(w->dra);
    grpc_server_free(w->podresources_server);
    podresources_free(w->podresources);
    kit_serve_stop(&w->served);
    run_for(w, 5 * MS);
    transport_grpc_free(w->transport);
    disk_folder_free(w->disk);
    loop_free(w->loop);
    kit_api_done(&w->api);
    kit_driver_done(&w->driver);
    vec_foreach(&w->pods, pod)
        typed_object_unref(*pod);
    vec_done(&w->pods);
    char command[80];
    (void)snprintf(command, sizeof(command), "rm -rf %s", w->dir);
    assert_int_equal(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
}

static const struct typed_object *pod_add(struct world *w, const char *uid, const char *claims)
{
    vec_push(&w->pods, kit_pod(uid, uid, claims));
    return w->pods.p[w->pods.n - 1];
}

static struct kit_result finish(struct world *w, struct kit_result *r)
{
    run_until(w, &r->done, 1);
    return *r;
}

static struct kit_result prepare(struct world *w, const struct typed_object *pod)
{
    struct kit_result r = {0};
    dra_prepare(w->dra, pod, kit_done, &r);
    return finish(w, &r);
}

static struct kit_result unprepare(struct world *w, const struct typed_object *pod)
{
    struct kit_result r = {0};
    dra_unprepare(w->dra, pod, kit_done, &r);
    return finish(w, &r);
}

static void assert_metric(const struct world *w, const char *line)
{
    cleanup_sbuf struct sbuf text = {0};
    dra_metrics(w->dra, &text);
    if (!str_contains(sbuf_str(&text), str_z(line)))
        fail_msg("no %s in:\n%s", line, text.p);
}

// Kubelet's names and labels.
static void the_metrics_are_kubelets(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, PLUGIN_ID_DRA_V1, NULL);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_metric(&w, "dra_resource_claims_in_use{driver_name=\"<any>\"} 0\n");
    w.driver.hang = true;
    assert_int_equal(prepare(&w, pod).code, -ERR_TIMEOUT);
    w.driver.hang = false;
    assert_int_equal(prepare(&w, pod).code, 0);
    assert_metric(&w, "dra_resource_claims_in_use{driver_name=\"<any>\"} 1\n");
    assert_metric(&w, "dra_resource_claims_in_use{driver_name=\"" DRIVER "\"} 1\n");
    assert_int_equal(unprepare(&w, pod).code, 0);
    assert_metric(&w, "dra_resource_claims_in_use{driver_name=\"<any>\"} 0\n");
    for (size_t i = 0; i < 3; i++) {
        static const char *const calls[] = {
            "NodePrepareResources\",grpc_status_code=\"OK\"",
            "NodePrepareResources\",grpc_status_code=\"DeadlineExceeded\"",
            "NodeUnprepareResources\",grpc_status_code=\"OK\""};
        static const char *const operations[] = {"PrepareResources\",is_error=\"false\"",
                                                 "PrepareResources\",is_error=\"true\"",
                                                 "UnprepareResources\",is_error=\"false\""};
        cleanup_sbuf struct sbuf call = {0}, operation = {0};
        sbuf_addf(&call,
                  "dra_grpc_operations_duration_seconds_count{driver_name=\"" DRIVER
                  "\",method_name=\"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/%s} 1\n",
                  calls[i]);
        sbuf_addf(&operation, "dra_operations_duration_seconds_count{operation_name=\"%s} 1\n",
                  operations[i]);
        assert_metric(&w, call.p);
        assert_metric(&w, operation.p);
    }
    assert_metric(&w,
                  "dra_operations_duration_seconds_bucket{operation_name=\"UnprepareResources\","
                  "is_error=\"false\",le=\"40\"} 1\n");
    world_done(&w);
}

static void both_versions_work_over_sockets(void **state)
{
    (void)state;
    static const char *const versions[] = {PLUGIN_ID_DRA_V1, PLUGIN_ID_DRA_V1BETA1};
    for (size_t i = 0; i < array_len(versions); i++) {
        struct world w;
        world_init(&w, versions[i], NULL);
        kit_claim(&w.api, "a", DRIVER, "p1");
        const struct typed_object *pod = pod_add(&w, "p1", "a");
        struct kit_result r = prepare(&w, pod);
        assert_string_equal(r.err.msg, "");
        assert_true(kit_driver_has(&w.driver, "uid-a"));
        assert_int_equal(unprepare(&w, pod).code, 0);
        assert_int_equal(w.driver.prepared.n, 0);
        world_done(&w);
    }
}

static void a_driver_that_hangs_meets_the_deadline(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, PLUGIN_ID_DRA_V1, NULL);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    w.driver.hang = true;
    assert_int_equal(prepare(&w, pod).code, -ERR_TIMEOUT);
    w.driver.hang = false;
    assert_int_equal(prepare(&w, pod).code, 0);
    w.driver.hang = true;
    assert_int_equal(unprepare(&w, pod).code, -ERR_TIMEOUT);
    w.driver.hang = false;
    assert_int_equal(unprepare(&w, pod).code, 0);
    assert_int_equal(w.driver.prepared.n, 0);
    world_done(&w);
}

static void a_socket_that_vanishes_fails_the_call_and_comes_back(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, PLUGIN_ID_DRA_V1, NULL);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    w.driver.hang = true;
    struct kit_result r = {0};
    dra_prepare(w.dra, pod, kit_done, &r);
    run_for(&w, 50 * MS);
    assert_int_equal(r.done, 0);
    kit_serve_stop(&w.served); // with the call under way
    (void)finish(&w, &r);
    assert_true(r.code == -ERR_UNAVAILABLE || r.code == -ECANCELED);
    w.driver.hang = false;
    w.usable = 0;
    int before = w.driver.registered;
    kit_serve(&w.served, w.loop, &w.driver, w.dir, "one");
    run_until(&w, &w.driver.registered, before + 1);
    run_until(&w, &w.usable, 1);
    assert_int_equal(prepare(&w, pod).code, 0);
    assert_int_equal(unprepare(&w, pod).code, 0);
    world_done(&w);
}

static void a_rolling_update_loses_nothing(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, PLUGIN_ID_DRA_V1, NULL);
    kit_claim(&w.api, "a", DRIVER, "p1");
    kit_claim(&w.api, "b", DRIVER, "p2");
    const struct typed_object *one = pod_add(&w, "p1", "a"), *two = pod_add(&w, "p2", "b");
    assert_int_equal(prepare(&w, one).code, 0);
    struct kit_driver next = {.name = DRIVER, .versions = {PLUGIN_ID_DRA_V1}};
    struct kit_served served;
    int changes = w.changes;
    kit_serve(&served, w.loop, &next, w.dir, "two");
    run_until(&w, &next.registered, 1);
    run_until(&w, &w.changes, changes + 2); // registered and connected
    assert_int_equal(prepare(&w, two).code, 0);
    assert_int_equal(next.prepares, 1);
    changes = w.changes;
    kit_serve_stop(&w.served); // the old one leaves
    run_until(&w, &w.changes, changes + 1);
    assert_int_equal(unprepare(&w, one).code, 0);
    assert_int_equal(unprepare(&w, two).code, 0);
    assert_int_equal(next.unprepares, 2);
    assert_int_equal(w.driver.unprepares, 0);
    kit_serve_stop(&served);
    world_done(&w);
    kit_driver_done(&next);
}

static void health_comes_over_a_stream(void **state)
{
    (void)state;
    static const char *const versions[] = {PLUGIN_ID_HEALTH_V1, PLUGIN_ID_HEALTH_ALPHA};
    for (size_t i = 0; i < array_len(versions); i++) {
        struct world w;
        world_init(&w, PLUGIN_ID_DRA_V1, versions[i]);
        kit_claim(&w.api, "a", DRIVER, "p1");
        assert_int_equal(prepare(&w, pod_add(&w, "p1", "a")).code, 0);
        cleanup_sbuf struct sbuf message = {0};
        kit_health(&message, "pool/dev-a=u");
        while (!w.served.stream)
            run_for(&w, 2 * MS);
        (void)grpc_send(w.served.stream, sbuf_str(&message));
        run_until(&w, &w.health, 1);
        assert_str(dra_device_health(w.dra, STR(DRIVER), STR("pool"), STR("dev-a"), NULL),
                   "Unhealthy");
        struct grpc_call *first = take_ptr(w.served.stream);
        grpc_finish(first, GRPC_OK, STR(""));
        while (!w.served.stream) // asked for again
            run_for(&w, 2 * MS);
        assert_str(dra_device_health(w.dra, STR(DRIVER), STR("pool"), STR("dev-a"), NULL),
                   "Unknown");
        world_done(&w);
    }
}

// --- PodResources --------------------------------------------------------------------------------

struct called {
    int done;
    enum grpc_status status;
    struct sbuf why, response;
};

static void on_called(void *arg, const struct grpc_result *r)
{
    struct called *c = arg;
    c->done++;
    c->status = r->status;
    sbuf_add(&c->why, r->message);
    sbuf_add(&c->response, r->response);
}

static void called_clear(struct called *c)
{
    sbuf_done(&c->why);
    sbuf_done(&c->response);
    *c = (struct called){0};
}

static void call(struct world *w, struct grpc_client *client, const char *method,
                 struct str message, struct called *c)
{
    const struct grpc_request q = {
        .method = str_z(method), .message = message, .done = on_called, .arg = c};
    (void)grpc_client_call(client, &q);
    run_until(w, &c->done, 1);
}

static void check_resources(const struct plugin_pod_resources *r)
{
    assert_str(r->name, "p1");
    assert_str(r->namespace, "default");
    assert_int_equal(r->containers.n, 1);
    assert_str(r->containers.p[0].name, "c");
    assert_int_equal(r->containers.p[0].dynamic_resources.n, 2);
    const struct plugin_dynamic_resource *d = &r->containers.p[0].dynamic_resources.p[1];
    assert_str(d->claim_name, "b");
    assert_str(d->claim_namespace, "default");
    assert_int_equal(d->claim_resources.n, 1);
    assert_str(d->claim_resources.p[0].driver_name, DRIVER);
    assert_str(d->claim_resources.p[0].pool_name, "pool");
    assert_str(d->claim_resources.p[0].device_name, "dev-b");
    assert_int_equal(d->claim_resources.p[0].cdi_devices.n, 1);
    assert_str(d->claim_resources.p[0].cdi_devices.p[0].name, DRIVER "/gpu=b");
}

static void serve_podresources(struct world *w, char *path, size_t size)
{
    struct err err = {0};
    (void)snprintf(path, size, "%s/kubelet.sock", w->dir);
    w->podresources_server = grpc_server_new(w->loop, NULL);
    const struct podresources_options o = {.dra = w->dra, .pods = active_pods, .arg = w};
    w->podresources = podresources_new(w->podresources_server, &o);
    assert_int_equal(grpc_server_listen(w->podresources_server, path, &err), 0);
}

static void pod_resources_are_told(void **state)
{
    (void)state;
    struct world w;
    char path[64];
    struct called c = {0};
    cleanup_arena struct arena arena = {0};
    cleanup_proto_writer struct proto_writer q = {0};
    world_init(&w, PLUGIN_ID_DRA_V1, NULL);
    kit_claim(&w.api, "a", DRIVER, "p1");
    kit_claim(&w.api, "b", DRIVER, "p1");
    assert_int_equal(prepare(&w, pod_add(&w, "p1", "a b")).code, 0);
    (void)pod_add(&w, "p2", "a b unknown"); // not prepared: told without resources
    serve_podresources(&w, path, sizeof(path));
    struct grpc_client *client =
        grpc_client_new(&(struct grpc_client_options){.loop = w.loop, .path = path});

    struct plugin_list_pods_response list = {0};
    call(&w, client, PLUGIN_PODRESOURCES "List", STR(""), &c);
    assert_int_equal(c.status, GRPC_OK);
    assert_int_equal(plugin_decode(&plugin_list_pods_response_message, sbuf_str(&c.response), &list,
                                   &arena, NULL),
                     0);
    assert_int_equal(list.pod_resources.n, 2);
    check_resources(&list.pod_resources.p[0]);
    assert_int_equal(list.pod_resources.p[1].containers.p[0].dynamic_resources.n, 0);
    called_clear(&c);

    struct plugin_get_pod_request get = {.pod_name = STR("p1"), .pod_namespace = STR("default")};
    struct plugin_get_pod_response got = {0};
    plugin_encode(&plugin_get_pod_request_message, &get, &q);
    call(&w, client, PLUGIN_PODRESOURCES "Get", proto_written(&q), &c);
    assert_int_equal(c.status, GRPC_OK);
    assert_int_equal(plugin_decode(&plugin_get_pod_response_message, sbuf_str(&c.response), &got,
                                   &arena, NULL),
                     0);
    check_resources(&got.pod_resources);
    called_clear(&c);

    get.pod_name = STR("nobody");
    proto_writer_clear(&q);
    plugin_encode(&plugin_get_pod_request_message, &get, &q);
    call(&w, client, PLUGIN_PODRESOURCES "Get", proto_written(&q), &c);
    assert_int_equal(c.status, GRPC_UNKNOWN);
    assert_string_equal(c.why.p, "pod nobody in namespace default not found");
    called_clear(&c);
    call(&w, client, PLUGIN_PODRESOURCES "GetAllocatableResources", STR(""), &c);
    assert_int_equal(c.status, GRPC_OK);
    assert_int_equal(c.response.n, 0);
    called_clear(&c);
    grpc_client_free(client);
    world_done(&w);
}

RUN_TESTS(TEST_CASE(the_metrics_are_kubelets), TEST_CASE(both_versions_work_over_sockets),
          TEST_CASE(a_driver_that_hangs_meets_the_deadline),
          TEST_CASE(a_socket_that_vanishes_fails_the_call_and_comes_back),
          TEST_CASE(a_rolling_update_loses_nothing), TEST_CASE(health_comes_over_a_stream),
          TEST_CASE(pod_resources_are_told))
