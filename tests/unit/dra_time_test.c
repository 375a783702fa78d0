// SPDX-License-Identifier: Apache-2.0
//
// The DRA manager on a fake clock, with a driver in memory: every rule that has a time in it, and every
// rule of prepare and unprepare.
#include <unistd.h>

#include <sys/stat.h>

#include "dra_kit.h"

#include "base/banned.h"

#define SECOND CLOCK_NS_PER_SEC
#define DRIVER "gpu.example.com"

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct exec *exec;
    struct kit_api api;
    struct kit_transport transport;
    struct kit_driver driver;
    struct event_recorder *events;
    struct features features;
    struct disk *disk;
    struct dra *dra;
    struct kit_objects active; // pods
    bool pods_known;
    char dir[40], registry[64], state[64], endpoint[64], socket[96];
    struct sbuf health_log;
    struct sbuf plugin_log;
    const char *boot;
    bool rebuild;
    int disk_works; // so many more writes of the state, then
    int disk_fails; // so many that fail
};

// A disk that can be full.
struct full_disk {
    struct disk disk;
    struct disk *under;
    struct world *world;
};

static struct full_disk full;

static int full_read(struct disk *d, const char *name, struct sbuf *out, struct err *err)
{
    (void)d;
    return full.under->read(full.under, name, out, err);
}

static int full_replace(struct disk *d, const char *name, struct str bytes, struct err *err)
{
    (void)d;
    struct world *w = full.world;
    bool is_state = strcmp(name, DRA_STATE_FILE) == 0;
    if (is_state && w->disk_works > 0) {
        w->disk_works--;
    } else if (is_state && w->disk_fails > 0) {
        w->disk_fails--;
        return err_set(err, ENOSPC, "cannot write %s: No space left on device", name);
    }
    return full.under->replace(full.under, name, bytes, err);
}

static int full_copy(struct disk *d, const char *from, const char *to, struct err *err)
{
    (void)d;
    return full.under->copy(full.under, from, to, err);
}

static bool active_pods(void *arg, dra_pod_fn each, void *ctx)
{
    struct world *w = arg;
    if (!w->pods_known)
        return false;
    vec_foreach(&w->active, pod)
        each(ctx, *pod);
    return true;
}

static void on_health(void *arg, struct str uid)
{
    struct world *w = arg;
    sbuf_addf(&w->health_log, "%.*s;", STR_ARG(uid));
}

static void on_plugin(void *arg, struct str driver, bool usable)
{
    struct world *w = arg;
    sbuf_addf(&w->plugin_log, "%.*s %s;", STR_ARG(driver), usable ? "up" : "down");
}

static int try_start(struct world *w, struct err *err)
{
    const struct dra_options o = {
        .exec = w->exec,
        .client = &w->api.client,
        .events = w->events,
        .transport = &w->transport.transport,
        .disk = &full.disk,
        .features = &w->features,
        .node = STR("node-a"),
        .boot_id = str_z(w->boot),
        .registry = w->registry,
        .rebuild = w->rebuild,
        .pods = active_pods,
        .health_changed = on_health,
        .plugin_changed = on_plugin,
        .arg = w,
    };
    int rc = dra_new(&o, &w->dra, err);
    if (rc == 0)
        dra_start(w->dra);
    return rc;
}

static void start(struct world *w)
{
    struct err err = {0};
    if (try_start(w, &err) < 0)
        fail_msg("%s", err.msg);
}

static void stop(struct world *w)
{
    dra_free(w->dra);
    w->dra = NULL;
}

static void run(struct world *w, int64_t ns)
{
    exec_sim_run(w->sim, clock_mono_ns(&w->clock.clock) + ns);
}

static void world_init(struct world *w)
{
    *w = (struct world){.dir = "/tmp/dra-test-XXXXXX", .boot = "boot-1", .pods_known = true};
    struct err err = {0};
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->registry, sizeof(w->registry), "%s/registry", w->dir);
    (void)snprintf(w->state, sizeof(w->state), "%s/state", w->dir);
    (void)snprintf(w->endpoint, sizeof(w->endpoint), "%s/dra.sock", w->dir);
    (void)snprintf(w->socket, sizeof(w->socket), "%s/" DRIVER "-reg.sock", w->registry);
    clock_fake_init(&w->clock, INT64_C(1800000000) * SECOND);
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    w->exec = exec_sim_exec(w->sim);
    kit_api_init(&w->api, w->exec);
    kit_transport_init(&w->transport, w->exec);
    features_init(&w->features, FEATURES_MINOR);
    w->features.on[FEATURE_RESOURCE_HEALTH_STATUS] = true;
    w->events = events_recorder_new(
        &(struct event_recorder_options){.client = &w->api.client, .component = STR("kubelet")});
    w->driver = (struct kit_driver){
        .name = DRIVER, .versions = {PLUGIN_ID_DRA_V1}, .endpoint = w->endpoint};
    kit_transport_add(&w->transport, w->endpoint, &w->driver);
    kit_transport_add(&w->transport, w->socket, &w->driver);
    assert_int_equal(disk_folder_new(w->state, &w->disk, &err), 0);
    full = (struct full_disk){{full_read, full_replace, full_copy}, w->disk, w};
    assert_int_equal(mkdir(w->registry, 0755), 0);
    (void)kit_api_add(&w->api, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":"
                               "\"node-a\",\"uid\":\"node-uid\"}}");
}

static void world_done(struct world *w)
{
    stop(w);
    run(w, SECOND);
    events_recorder_free(w->events);
    run(w, SECOND);
    kit_api_done(&w->api);
    kit_transport_done(&w->transport);
    kit_driver_done(&w->driver);
    disk_folder_free(w->disk);
    exec_sim_free(w->sim);
    vec_foreach(&w->active, pod)
        typed_object_unref(*pod);
    vec_done(&w->active);
    sbuf_done(&w->health_log);
    sbuf_done(&w->plugin_log);
    char command[80];
    (void)snprintf(command, sizeof(command), "rm -rf %s", w->dir);
    assert_int_equal(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
}

// A world whose driver is registered.
static void world_ready(struct world *w)
{
    world_init(w);
    kit_socket(w->socket);
    start(w);
    run(w, 2 * SECOND);
    assert_int_equal(w->driver.registered, 1);
}

static const struct typed_object *pod_add(struct world *w, const char *uid, const char *claims)
{
    struct typed_object *pod = kit_pod(uid, uid, claims);
    vec_push(&w->active, pod);
    return pod;
}

static void pod_gone(struct world *w, const char *uid)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->active.n; i++) {
        if (str_eqz(w->active.p[i]->meta->uid, uid))
            typed_object_unref(w->active.p[i]);
        else
            w->active.p[kept++] = w->active.p[i];
    }
    w->active.n = kept;
}

static struct kit_result prepare(struct world *w, const struct typed_object *pod)
{
    struct kit_result r = {0};
    dra_prepare(w->dra, pod, kit_done, &r);
    assert_int_equal(r.done, 0);
    run(w, 50 * SECOND);
    assert_int_equal(r.done, 1);
    return r;
}

static struct kit_result unprepare(struct world *w, const struct typed_object *pod)
{
    struct kit_result r = {0};
    dra_unprepare(w->dra, pod, kit_done, &r);
    run(w, 50 * SECOND);
    assert_int_equal(r.done, 1);
    return r;
}

#define assert_works(result)                \
    do {                                    \
        struct kit_result works = (result); \
        if (works.code != 0)                \
            fail_msg("%s", works.err.msg);  \
    } while (0)

#define assert_fails(result, text)                     \
    do {                                               \
        struct kit_result fails = (result);            \
        assert_true(fails.code < 0);                   \
        assert_int_equal(fails.err.code, -fails.code); \
        assert_string_equal(fails.err.msg, (text));    \
    } while (0)

static size_t claims_len(const struct world *w)
{
    return map_len(&dra_claims(w->dra)->by_key);
}

// --- Prepare and unprepare -----------------------------------------------------------------------

static void a_claim_is_prepared_and_unprepared(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_works(prepare(&w, pod));
    assert_string_equal(w.driver.log.p, "prepare uid-a;");
    assert_true(dra_needs_unprepare(w.dra, STR("p1")));

    cleanup_arena struct arena arena = {0};
    const struct api_pod *p = pod->object.value;
    struct dra_texts ids = {0};
    struct err err;
    assert_int_equal(dra_container_devices(w.dra, p, &p->spec.containers.p[0], &arena, &ids, &err),
                     0);
    assert_int_equal(ids.n, 1);
    assert_str(ids.p[0], DRIVER "/gpu=a");

    assert_works(prepare(&w, pod)); // a second time: nothing to ask
    assert_int_equal(w.driver.prepares, 1);
    assert_works(unprepare(&w, pod));
    assert_string_equal(w.driver.log.p, "prepare uid-a;unprepare uid-a;");
    assert_false(dra_needs_unprepare(w.dra, STR("p1")));
    assert_works(unprepare(&w, pod));
    assert_int_equal(w.driver.unprepares, 1);
    world_done(&w);
}

static void claims_of_a_pod_go_in_one_call(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    kit_claim(&w.api, "b", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a b");
    assert_works(prepare(&w, pod));
    assert_works(unprepare(&w, pod));
    assert_string_equal(w.driver.log.p, "prepare uid-a uid-b;unprepare uid-a uid-b;");
    world_done(&w);
}

static void a_shared_claim_goes_with_its_last_pod(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1 p2");
    const struct typed_object *one = pod_add(&w, "p1", "a"), *two = pod_add(&w, "p2", "a");
    assert_works(prepare(&w, one));
    assert_works(prepare(&w, two));
    assert_int_equal(w.driver.prepares, 1);
    assert_works(unprepare(&w, one));
    assert_int_equal(w.driver.unprepares, 0);
    assert_works(unprepare(&w, two));
    assert_string_equal(w.driver.log.p, "prepare uid-a;unprepare uid-a;");
    world_done(&w);
}

static void what_is_wrong_is_told_in_kubelets_words(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_fails(prepare(&w, pod), "fetch ResourceClaim a: not found");
    kit_claim(&w.api, "a", DRIVER, "someone");
    assert_fails(prepare(&w, pod), "pod p1 (p1) is not allowed to use ResourceClaim a (uid-a)");
    (void)kit_api_add(&w.api, "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\","
                              "\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":"
                              "\"uid-a\"},\"status\":{\"reservedFor\":[{\"resource\":\"pods\","
                              "\"name\":\"p\",\"uid\":\"p1\"}]}}");
    assert_fails(prepare(&w, pod), "ResourceClaim a: not allocated");
    kit_claim(&w.api, "a", "other.example.com", "p1");
    assert_fails(prepare(&w, pod), "DRA driver other.example.com is not registered");
    assert_int_equal(w.driver.prepares, 0);
    assert_int_equal(claims_len(&w), 0); // no trace

    kit_claim(&w.api, "a", DRIVER, "p1");
    w.driver.claim_error = "on fire";
    assert_fails(prepare(&w, pod), "NodePrepareResources failed for ResourceClaim a: on fire");
    w.driver.claim_error = NULL;
    w.driver.rpc_error = "not now";
    assert_fails(prepare(&w, pod),
                 "NodePrepareResources: rpc error: code = FailedPrecondition desc = not now");
    w.driver.rpc_error = NULL;
    w.driver.skip_first = true;
    assert_fails(prepare(&w, pod), "NodePrepareResources skipped 1 ResourceClaims");
    w.driver.skip_first = false;
    w.driver.add_unknown = true;
    assert_fails(prepare(&w, pod),
                 "NodePrepareResources returned result for unknown claim UID stranger");
    w.driver.add_unknown = false;
    w.driver.hang = true;
    assert_fails(prepare(&w, pod), "NodePrepareResources: rpc error: code = DeadlineExceeded desc "
                                   "= context deadline exceeded");
    w.driver.hang = false;
    w.driver.twice = true; // a map knows no twice
    assert_works(prepare(&w, pod));

    w.driver.claim_error = "stuck";
    assert_fails(unprepare(&w, pod), "NodeUnprepareResources failed for ResourceClaim a: stuck");
    // What is being unprepared takes no more pods.
    kit_claim(&w.api, "a", DRIVER, "p1 p2");
    assert_fails(prepare(&w, pod_add(&w, "p2", "a")), "ResourceClaim a is being unprepared");
    w.driver.claim_error = NULL;
    w.driver.skip_first = true;
    assert_fails(unprepare(&w, pod), "NodeUnprepareResources skipped 1 ResourceClaims");
    w.driver.skip_first = false;
    assert_works(unprepare(&w, pod));
    run(&w, SECOND);
    assert_non_null(strstr(w.api.log.p,
                           "create Event FailedPrepareDynamicResources Pod/p1: Failed to prepare "
                           "dynamic resources: prepare dynamic resources: DRA driver "
                           "other.example.com is not registered"));
    world_done(&w);
}

static void another_claim_of_the_same_name_waits(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_works(prepare(&w, pod));
    (void)kit_api_add(
        &w.api,
        "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\",\"metadata\":{"
        "\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"other\"},\"status\":{"
        "\"allocation\":{\"devices\":{\"results\":[{\"request\":\"gpu\",\"driver\":\"" DRIVER
        "\",\"pool\":\"p\",\"device\":\"d\"}]}},\"reservedFor\":[{\"resource\":\"pods\","
        "\"name\":\"p\",\"uid\":\"p2\"}]}}");
    assert_fails(
        prepare(&w, pod_add(&w, "p2", "a")),
        "old ResourceClaim with same name a and different UID uid-a still exists (previous "
        "pod force-deleted?!)");
    world_done(&w);
}

// The driver that a claim with these operations skipped needs.
static void claim_with_skips(struct world *w, const char *skips)
{
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json,
              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\",\"metadata\":{"
              "\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"uid-a\"},\"status\":{"
              "\"allocation\":{\"devices\":{\"results\":[{\"request\":\"gpu\",\"driver\":\"%s\","
              "\"pool\":\"p\",\"device\":\"d\",\"skipNodeOperations\":[%s]}]}},\"reservedFor\":[{"
              "\"resource\":\"pods\",\"name\":\"p\",\"uid\":\"p1\"}]}}",
              DRIVER, skips);
    (void)kit_api_add(&w->api, json.p);
}

static void node_operations_can_be_skipped(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    w.features.on[FEATURE_DRA_OPTIONAL_NODE_OPERATIONS] = false;
    claim_with_skips(&w, "\"NodePrepareResources\"");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_fails(prepare(&w, pod), "ResourceClaim a: DRAOptionalNodeOperations feature gate is "
                                   "disabled on kubelet");
    w.features.on[FEATURE_DRA_OPTIONAL_NODE_OPERATIONS] = true;
    assert_works(prepare(&w, pod));
    assert_works(unprepare(&w, pod));
    assert_string_equal(w.driver.log.p, "unprepare uid-a;");
    claim_with_skips(&w, "\"*\"");
    assert_works(prepare(&w, pod));
    assert_works(unprepare(&w, pod));
    assert_string_equal(w.driver.log.p, "unprepare uid-a;");
    claim_with_skips(&w, "\"NodeUnprepareResources\"");
    assert_works(prepare(&w, pod));
    assert_works(unprepare(&w, pod));
    assert_string_equal(w.driver.log.p, "unprepare uid-a;prepare uid-a;");
    world_done(&w);
}

static void pods_that_are_gone_are_unprepared(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    assert_works(prepare(&w, pod_add(&w, "p1", "a")));
    w.pods_known = false;
    pod_gone(&w, "p1");
    run(&w, 130 * SECOND);
    assert_int_equal(w.driver.unprepares, 0); // nobody knows
    w.pods_known = true;
    run(&w, 61 * SECOND);
    assert_string_equal(w.driver.log.p, "prepare uid-a;unprepare uid-a;");
    assert_int_equal(claims_len(&w), 0);
    world_done(&w);
}

static void operations_of_one_pod_wait_for_each_other(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    struct kit_result one = {0}, two = {0}, three = {0};
    dra_prepare(w.dra, pod, kit_done, &one);
    dra_unprepare(w.dra, pod, kit_done, &two);
    dra_prepare(w.dra, pod, kit_done, &three);
    run(&w, SECOND);
    assert_int_equal(one.done + two.done + three.done, 3);
    assert_string_equal(w.driver.log.p, "prepare uid-a;unprepare uid-a;prepare uid-a;");
    assert_true(dra_idle(w.dra));
    world_done(&w);
}

static void freeing_ends_everything(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    kit_claim(&w.api, "b", DRIVER, "p2");
    w.driver.hang = true;
    struct kit_result one = {0}, two = {0}, three = {0};
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    dra_prepare(w.dra, pod, kit_done, &one);
    dra_unprepare(w.dra, pod, kit_done, &three); // waits for the first
    run(&w, SECOND);
    dra_prepare(w.dra, pod_add(&w, "p2", "b"), kit_done, &two); // has not begun
    stop(&w);
    assert_int_equal(one.done + two.done + three.done, 3);
    assert_int_equal(two.code, -ECANCELED);
    assert_int_equal(three.code, -ECANCELED);
    world_done(&w);
}

// --- Restarts ------------------------------------------------------------------------------------

static void a_restart_knows_what_is_owed(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_works(prepare(&w, pod));
    stop(&w);
    start(&w);
    run(&w, 2 * SECOND);
    cleanup_arena struct arena arena = {0};
    const struct api_pod *p = pod->object.value;
    struct dra_texts ids = {0};
    struct err err;
    assert_int_equal(dra_container_devices(w.dra, p, &p->spec.containers.p[0], &arena, &ids, &err),
                     0);
    assert_int_equal(ids.n, 1);
    assert_int_equal(w.driver.prepares, 1);
    assert_works(prepare(&w, pod)); // not trusted to be prepared by this process
    assert_int_equal(w.driver.prepares, 2);
    kit_api_remove(&w.api, "ResourceClaim", "a");
    assert_works(unprepare(&w, pod)); // the API is not asked
    assert_int_equal(w.driver.unprepares, 1);
    world_done(&w);
}

static void another_boot_is_not_believed(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    kit_claim(&w.api, "b", DRIVER, "p2");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_works(prepare(&w, pod));
    assert_works(prepare(&w, pod_add(&w, "p2", "b")));
    stop(&w);
    pod_gone(&w, "p2"); // while the machine was down
    w.boot = "boot-2";
    kit_transport_up(&w.transport, w.socket, false);
    kit_transport_up(&w.transport, w.endpoint, false);
    start(&w);
    run(&w, 2 * SECOND);
    cleanup_arena struct arena arena = {0};
    const struct api_pod *p = pod->object.value;
    struct dra_texts ids = {0};
    struct err err;
    assert_int_equal(dra_container_devices(w.dra, p, &p->spec.containers.p[0], &arena, &ids, &err),
                     -ERR_CONFLICT);
    assert_string_equal(err.msg, "ResourceClaim a was prepared in another boot and has to be "
                                 "prepared again");
    // When the driver is back, what active pods use is prepared again and the rest let go of.
    kit_transport_up(&w.transport, w.socket, true);
    kit_transport_up(&w.transport, w.endpoint, true);
    run(&w, 130 * SECOND);
    assert_int_equal(dra_container_devices(w.dra, p, &p->spec.containers.p[0], &arena, &ids, &err),
                     0);
    assert_int_equal(ids.n, 1);
    assert_true(kit_driver_has(&w.driver, "uid-a"));
    assert_false(kit_driver_has(&w.driver, "uid-b"));
    assert_int_equal(claims_len(&w), 1);
    stop(&w);
    int asked = w.driver.prepares;
    start(&w); // the same boot now
    run(&w, 130 * SECOND);
    assert_int_equal(w.driver.prepares, asked);
    world_done(&w);
}

static void write_file(const struct world *w, const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", w->state, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void a_damaged_state_is_made_good_from_the_older_copy(void **state)
{
    (void)state;
    static const char *const damages[] = {"", "{", "{\"Data\":\"{}\",\"Checksum\":1}", "null",
                                          "{\"Data\":7}"};
    for (size_t i = 0; i < array_len(damages); i++) {
        struct world w;
        world_ready(&w);
        kit_claim(&w.api, "a", DRIVER, "p1");
        kit_claim(&w.api, "b", DRIVER, "p2");
        assert_works(prepare(&w, pod_add(&w, "p1", "a")));
        assert_works(prepare(&w, pod_add(&w, "p2", "b")));
        stop(&w);
        write_file(&w, DRA_STATE_FILE, damages[i]);
        start(&w);
        run(&w, 130 * SECOND);
        // Nothing is missing: active pods were asked for again.
        assert_int_equal(claims_len(&w), 2);
        pod_gone(&w, "p1");
        pod_gone(&w, "p2");
        run(&w, 130 * SECOND);
        assert_int_equal(w.driver.prepared.n, 0);
        assert_int_equal(claims_len(&w), 0);
        world_done(&w);
    }
}

static void without_any_state_it_does_not_start_unless_told(void **state)
{
    (void)state;
    struct world w;
    struct err err = {0};
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    assert_works(prepare(&w, pod_add(&w, "p1", "a")));
    stop(&w);
    write_file(&w, DRA_STATE_FILE, "x");
    write_file(&w, DRA_STATE_OLD, "y");
    assert_int_equal(try_start(&w, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "please drain node and remove DRA state file"));
    w.rebuild = true;
    start(&w);
    run(&w, 130 * SECOND);
    assert_int_equal(claims_len(&w), 1); // learnt from the active pod
    pod_gone(&w, "p1");
    run(&w, 61 * SECOND);
    assert_int_equal(w.driver.prepared.n, 0);
    world_done(&w);
}

static void a_removed_state_file_means_to_start_anew(void **state)
{
    (void)state;
    struct world w;
    char path[128];
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    assert_works(prepare(&w, pod_add(&w, "p1", "a")));
    stop(&w);
    (void)snprintf(path, sizeof(path), "%s/%s", w.state, DRA_STATE_FILE);
    assert_int_equal(unlink(path), 0);
    start(&w);
    assert_int_equal(claims_len(&w), 0);
    stop(&w);
    write_file(&w, DRA_STATE_FILE, "damaged");
    start(&w); // the older copy is not the one from before
    assert_int_equal(claims_len(&w), 0);
    world_done(&w);
}

static void a_full_disk_stops_nothing_half_way(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    w.disk_fails = 1; // before the driver is asked
    assert_fails(prepare(&w, pod),
                 "checkpoint ResourceClaim cache: cannot write dra_manager_state: "
                 "No space left on device");
    assert_int_equal(w.driver.prepares, 0);
    assert_int_equal(claims_len(&w), 0);
    assert_works(unprepare(&w, pod)); // it can go
    // After the driver was asked: only the second write fails.
    w.disk_works = 1;
    w.disk_fails = 1;
    assert_fails(prepare(&w, pod), "checkpoint ResourceClaim state: cannot write "
                                   "dra_manager_state: No space left on device");
    assert_int_equal(w.driver.prepares, 1);
    assert_works(prepare(&w, pod)); // only the file was missing
    assert_int_equal(w.driver.prepares, 1);
    w.disk_fails = 1;
    assert_fails(unprepare(&w, pod), "checkpoint ResourceClaim state: cannot write "
                                     "dra_manager_state: No space left on device");
    assert_works(unprepare(&w, pod));
    stop(&w);
    start(&w);
    assert_int_equal(claims_len(&w), 0);
    assert_int_equal(w.driver.prepared.n, 0);
    world_done(&w);
}

// --- Drivers that come and go --------------------------------------------------------------------

static int count(const struct sbuf *log, const char *what)
{
    int n = 0;
    for (const char *at = log->p; at && (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void slices_of_a_driver_that_is_gone_are_wiped(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    assert_string_equal(w.api.log.p, "delete-all ResourceSlice spec.nodeName=node-a\n");
    kit_transport_up(&w.transport, w.endpoint, false);
    run(&w, 20 * SECOND);
    kit_transport_up(&w.transport, w.endpoint, true);
    run(&w, 60 * SECOND);
    assert_int_equal(count(&w.api.log, "spec.driver"), 0); // it was back in time
    kit_transport_up(&w.transport, w.endpoint, false);
    run(&w, 15 * SECOND);
    assert_int_equal(unlink(w.socket), 0); // a second reason does not start anew
    run(&w, 16 * SECOND);
    assert_int_equal(count(&w.api.log, "delete-all ResourceSlice spec.driver=" DRIVER
                                       ",spec.nodeName=node-a\n"),
                     1);
    run(&w, 600 * SECOND);
    assert_int_equal(count(&w.api.log, "spec.driver"), 1);
    world_done(&w);
}

static void wiping_waits_for_the_node_and_tries_again(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    kit_api_remove(&w.api, "Node", "node-a");
    start(&w);
    run(&w, 20 * SECOND);
    assert_null(w.api.log.p);
    w.api.refuse = -ERR_UNAUTHORIZED;
    (void)kit_api_add(
        &w.api, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"node-a\"}}");
    run(&w, 100 * SECOND);
    assert_null(w.api.log.p);
    w.api.refuse = 0;
    run(&w, 400 * SECOND);
    assert_string_equal(w.api.log.p, "delete-all ResourceSlice spec.nodeName=node-a\n");
    world_done(&w);
}

static void a_socket_made_anew_is_a_new_plugin(void **state)
{
    (void)state;
    struct world w;
    world_ready(&w);
    kit_socket(w.socket);
    run(&w, 2 * SECOND);
    assert_int_equal(w.driver.registered, 2);
    run(&w, 60 * SECOND);
    assert_int_equal(w.driver.registered, 2);
    assert_int_equal(w.driver.refused, 0);
    world_done(&w);
}

static void refusals_are_told_and_tried_again_later(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.driver.type = "CSIPlugin";
    kit_socket(w.socket);
    start(&w);
    run(&w, 1);
    run(&w, SECOND);
    assert_int_equal(w.driver.refused, 1);
    assert_non_null(strstr(w.driver.registration_error.p,
                           "no handler registered for plugin type: CSIPlugin at socket"));
    w.driver.type = NULL;
    w.driver.versions[0] = "v9.DRAPlugin";
    run(&w, 2 * SECOND);
    assert_non_null(strstr(w.driver.registration_error.p,
                           "none of services supported by the plugin ([\"v9.DRAPlugin\"]) are "
                           "supported by the kubelet ([\"v1.DRAPlugin\" \"v1beta1.DRAPlugin\"])"));
    w.driver.versions[0] = NULL;
    run(&w, 5 * SECOND);
    assert_non_null(strstr(w.driver.registration_error.p, "empty list of supported gRPC services"));
    int before = w.driver.refused;
    run(&w, 600 * SECOND);
    assert_in_range(w.driver.refused - before, 4, 10); // later and later
    w.driver.versions[0] = PLUGIN_ID_DRA_V1BETA1;
    run(&w, 130 * SECOND);
    assert_int_equal(w.driver.registered, 1);
    kit_claim(&w.api, "a", DRIVER, "p1");
    assert_works(prepare(&w, pod_add(&w, "p1", "a"))); // by v1beta1
    world_done(&w);
}

static void the_newest_connected_instance_is_asked(void **state)
{
    (void)state;
    struct world w;
    char endpoint[64], socket[96];
    world_ready(&w);
    (void)snprintf(endpoint, sizeof(endpoint), "%s/dra-2.sock", w.dir);
    (void)snprintf(socket, sizeof(socket), "%s/sub", w.registry);
    assert_int_equal(mkdir(socket, 0755), 0);
    (void)snprintf(socket, sizeof(socket), "%s/sub/2-reg.sock", w.registry);
    struct kit_driver second = {
        .name = DRIVER, .versions = {PLUGIN_ID_DRA_V1}, .endpoint = endpoint};
    kit_transport_add(&w.transport, endpoint, &second);
    kit_transport_add(&w.transport, socket, &second);
    kit_socket(socket);
    run(&w, 2 * SECOND);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_works(prepare(&w, pod));
    assert_int_equal(second.prepares, 1);
    kit_transport_up(&w.transport, endpoint, false);
    assert_works(unprepare(&w, pod));
    assert_int_equal(w.driver.unprepares, 1);
    assert_int_equal(count(&w.api.log, "spec.driver"), 0); // one is usable all the time
    // The old one goes: the new one is all there is, connected or not.
    assert_int_equal(unlink(w.socket), 0);
    run(&w, 2 * SECOND);
    assert_fails(prepare(&w, pod),
                 "NodePrepareResources: rpc error: code = Unavailable desc = connection refused");
    kit_transport_up(&w.transport, endpoint, true);
    assert_works(prepare(&w, pod));
    // Nobody takes an endpoint that is another's.
    struct kit_driver thief = {
        .name = DRIVER, .versions = {PLUGIN_ID_DRA_V1}, .endpoint = endpoint};
    char other[112];
    (void)snprintf(other, sizeof(other), "%s/thief-reg.sock", w.registry);
    kit_transport_add(&w.transport, other, &thief);
    kit_socket(other);
    run(&w, 2 * SECOND);
    assert_non_null(
        strstr(thief.registration_error.p, "already registered for DRA driver plugin "));
    assert_int_equal(thief.registered, 0);
    stop(&w);
    world_done(&w);
    kit_driver_done(&second);
    kit_driver_done(&thief);
}

// --- Drivers that are gone for good --------------------------------------------------------------

static void note_blocked(void *arg, const struct dra_blocked *b)
{
    struct sbuf *out = arg;
    sbuf_addf(out, "%.*s %.*s %.*s;", STR_ARG(b->driver), STR_ARG(b->reason), STR_ARG(b->claims));
}

static void a_dead_driver_is_visible_and_has_a_way_out(void **state)
{
    (void)state;
    struct world w;
    cleanup_sbuf struct sbuf blocked = {0};
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_works(prepare(&w, pod));
    kit_claim(&w.api, "b", DRIVER, "p2");
    assert_works(prepare(&w, pod_add(&w, "p2", "b"))); // goes on
    assert_int_equal(unlink(w.socket), 0);
    run(&w, 2 * SECOND);
    assert_fails(unprepare(&w, pod), "DRA driver " DRIVER " is not registered");
    dra_blocked_each(w.dra, note_blocked, &blocked);
    assert_string_equal(blocked.p, DRIVER " DriverNotRegistered default/a;");
    run(&w, SECOND);
    assert_non_null(strstr(w.api.log.p, "\"type\":\"DRAUnprepareBlocked\",\"status\":\"True\","
                                        "\"reason\":\"DriverNotRegistered\""));
    assert_non_null(
        strstr(w.api.log.p, "create Event FailedUnprepareDynamicResources ResourceClaim/a: "));
    assert_non_null(strstr(w.api.log.p, DRA_ABANDON_ANNOTATION));

    // An administrator vouches for the devices.
    (void)kit_api_add(&w.api, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":"
                              "\"node-a\",\"annotations\":{\"" DRA_ABANDON_ANNOTATION
                              "\":\"x.example.com, " DRIVER "\"}}}");
    run(&w, 61 * SECOND);
    assert_works(unprepare(&w, pod));
    assert_int_equal(claims_len(&w), 1);
    assert_int_equal(
        node_claims_find(dra_claims(w.dra), STR("default"), STR("b"))->drivers.p[0].devices.n, 1);
    sbuf_clear(&blocked);
    dra_blocked_each(w.dra, note_blocked, &blocked);
    assert_int_equal(blocked.n, 0);
    assert_non_null(strstr(w.api.log.p, "\"type\":\"DRAUnprepareBlocked\",\"status\":\"False\""));
    world_done(&w);
}

static void a_driver_that_comes_back_is_not_blocked(void **state)
{
    (void)state;
    struct world w;
    struct err err = {0};
    world_ready(&w);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    assert_works(prepare(&w, pod));
    assert_int_equal(dra_abandon(w.dra, STR(DRIVER), false, &err), -ERR_CONFLICT); // it is there
    w.driver.hang = true;
    assert_true(unprepare(&w, pod).code == -ERR_TIMEOUT);
    w.driver.hang = false;
    pod_gone(&w, "p1");
    run(&w, 130 * SECOND);
    assert_int_equal(claims_len(&w), 0);
    cleanup_sbuf struct sbuf blocked = {0};
    dra_blocked_each(w.dra, note_blocked, &blocked);
    assert_int_equal(blocked.n, 0);
    assert_true(count(&w.api.log, "DriverNotAnswering") >= 1);
    world_done(&w);
}

// --- Health --------------------------------------------------------------------------------------

static void expect_health(const struct world *w, const struct typed_object *o, const char *want)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf text = {0};
    const struct api_pod *pod = o->object.value;
    struct api_resource_status_array all;
    dra_container_health(w->dra, pod, &pod->spec.containers.p[0], &arena, &all);
    for (size_t i = 0; i < all.n; i++)
        for (size_t j = 0; j < all.p[i].resources.n; j++)
            sbuf_addf(&text, "%.*s %.*s %.*s %.*s;", STR_ARG(all.p[i].name),
                      STR_ARG(all.p[i].resources.p[j].resource_id),
                      STR_ARG(all.p[i].resources.p[j].health),
                      STR_ARG(all.p[i].resources.p[j].message));
    assert_str(sbuf_str(&text), want);
}

static void health_is_believed_for_as_long_as_it_says(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.features.on[FEATURE_RESOURCE_HEALTH_STATUS_MESSAGE] = true;
    w.driver.versions[1] = PLUGIN_ID_HEALTH_ALPHA;
    w.driver.versions[2] = PLUGIN_ID_HEALTH_V1;
    kit_socket(w.socket);
    start(&w);
    run(&w, 2 * SECOND);
    kit_claim(&w.api, "a", DRIVER, "p1");
    const struct typed_object *pod = pod_add(&w, "p1", "a");
    struct kit_result r = {0};
    dra_prepare(w.dra, pod, kit_done, &r);
    run(&w, SECOND);
    assert_int_equal(r.done, 1);
    expect_health(&w, pod, "claim:a " DRIVER "/gpu=a Unknown ;");
    assert_int_equal(kit_transport_health(&w.transport, w.endpoint, "pool/dev-a=h pool/dev-b=h"),
                     1);
    expect_health(&w, pod, "claim:a " DRIVER "/gpu=a Healthy ;");
    assert_string_equal(w.health_log.p, "p1;");
    (void)kit_transport_health(&w.transport, w.endpoint, "pool/dev-a=h");
    assert_string_equal(w.health_log.p, "p1;"); // nothing new
    (void)kit_transport_health(&w.transport, w.endpoint, "pool/dev-a@60=u:hot");
    expect_health(&w, pod, "claim:a " DRIVER "/gpu=a Unhealthy hot;");
    assert_string_equal(w.health_log.p, "p1;p1;");
    run(&w, 59 * SECOND);
    expect_health(&w, pod, "claim:a " DRIVER "/gpu=a Unhealthy hot;");
    run(&w, 2 * SECOND);
    expect_health(&w, pod, "claim:a " DRIVER "/gpu=a Unknown ;");
    // A report without the device makes that a change.
    (void)kit_transport_health(&w.transport, w.endpoint, "pool/dev-b=h");
    assert_string_equal(w.health_log.p, "p1;p1;p1;");
    world_done(&w);
}

static void a_health_stream_that_ends_is_tried_again(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.driver.versions[1] = PLUGIN_ID_HEALTH_V1;
    kit_socket(w.socket);
    start(&w);
    run(&w, 2 * SECOND);
    assert_int_equal(kit_transport_health(&w.transport, w.endpoint, "pool/dev-a=h"), 1);
    assert_str(dra_device_health(w.dra, STR(DRIVER), STR("pool"), STR("dev-a"), NULL), "Healthy");
    stop(&w); // a restart keeps what was said
    start(&w);
    assert_str(dra_device_health(w.dra, STR(DRIVER), STR("pool"), STR("dev-a"), NULL), "Healthy");
    run(&w, 2 * SECOND);
    assert_int_equal(kit_transport_end(&w.transport, w.endpoint, GRPC_OK), 1);
    assert_str(dra_device_health(w.dra, STR(DRIVER), STR("pool"), STR("dev-a"), NULL), "Unknown");
    run(&w, 4 * SECOND);
    assert_int_equal(kit_transport_health(&w.transport, w.endpoint, "pool/dev-a=h"), 0);
    run(&w, 2 * SECOND);
    assert_int_equal(kit_transport_health(&w.transport, w.endpoint, "pool/dev-a=h"), 1);
    assert_int_equal(kit_transport_end(&w.transport, w.endpoint, GRPC_UNIMPLEMENTED), 1);
    run(&w, 60 * SECOND);
    assert_int_equal(kit_transport_health(&w.transport, w.endpoint, "pool/dev-a=h"), 0);
    world_done(&w);
}

RUN_TESTS(TEST_CASE(a_claim_is_prepared_and_unprepared), TEST_CASE(claims_of_a_pod_go_in_one_call),
          TEST_CASE(a_shared_claim_goes_with_its_last_pod),
          TEST_CASE(what_is_wrong_is_told_in_kubelets_words),
          TEST_CASE(another_claim_of_the_same_name_waits),
          TEST_CASE(node_operations_can_be_skipped), TEST_CASE(pods_that_are_gone_are_unprepared),
          TEST_CASE(operations_of_one_pod_wait_for_each_other), TEST_CASE(freeing_ends_everything),
          TEST_CASE(a_restart_knows_what_is_owed), TEST_CASE(another_boot_is_not_believed),
          TEST_CASE(a_damaged_state_is_made_good_from_the_older_copy),
          TEST_CASE(without_any_state_it_does_not_start_unless_told),
          TEST_CASE(a_removed_state_file_means_to_start_anew),
          TEST_CASE(a_full_disk_stops_nothing_half_way),
          TEST_CASE(slices_of_a_driver_that_is_gone_are_wiped),
          TEST_CASE(wiping_waits_for_the_node_and_tries_again),
          TEST_CASE(a_socket_made_anew_is_a_new_plugin),
          TEST_CASE(refusals_are_told_and_tried_again_later),
          TEST_CASE(the_newest_connected_instance_is_asked),
          TEST_CASE(a_dead_driver_is_visible_and_has_a_way_out),
          TEST_CASE(a_driver_that_comes_back_is_not_blocked),
          TEST_CASE(health_is_believed_for_as_long_as_it_says),
          TEST_CASE(a_health_stream_that_ends_is_tried_again))
