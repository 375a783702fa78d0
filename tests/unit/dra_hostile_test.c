// SPDX-License-Identifier: Apache-2.0
//
// Drivers of bad will at the DRA manager: names that are not theirs, answers that are too large or no answers at
// all. Each of them harms its own claims at most; a driver beside it goes on.
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "dra_kit.h"
#include "node/dra/health.h"

#include "base/banned.h"

#define SECOND CLOCK_NS_PER_SEC
#define VICTIM "gpu.example.com"
#define RIVAL  "evil.example.com"

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct exec *exec;
    struct kit_api api;
    struct kit_transport transport;
    struct kit_driver victim, rival;
    struct features features;
    struct disk *disk;
    struct dra *dra;
    struct kit_objects pods;
    char dir[40], registry[64], state[64], socket[2][96], endpoint[2][64];
};

static bool active_pods(void *arg, dra_pod_fn each, void *ctx)
{
    struct world *w = arg;
    vec_foreach(&w->pods, pod)
        each(ctx, *pod);
    return true;
}

static void run(struct world *w, int64_t ns)
{
    exec_sim_run(w->sim, clock_mono_ns(&w->clock.clock) + ns);
}

static void add_driver(struct world *w, int i, struct kit_driver *d, const char *name)
{
    (void)snprintf(w->endpoint[i], sizeof(w->endpoint[i]), "%s/dra-%d.sock", w->dir, i);
    (void)snprintf(w->socket[i], sizeof(w->socket[i]), "%s/%d-reg.sock", w->registry, i);
    *d = (struct kit_driver){
        .name = name, .versions = {PLUGIN_ID_DRA_V1}, .endpoint = w->endpoint[i]};
    kit_transport_add(&w->transport, w->endpoint[i], d);
    kit_transport_add(&w->transport, w->socket[i], d);
    kit_socket(w->socket[i]);
}

static void start(struct world *w, const char *rival)
{
    struct err err = {0};
    *w = (struct world){.dir = "/tmp/dra-hostile-XXXXXX"};
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->registry, sizeof(w->registry), "%s/registry", w->dir);
    (void)snprintf(w->state, sizeof(w->state), "%s/state", w->dir);
    assert_int_equal(mkdir(w->registry, 0755), 0);
    clock_fake_init(&w->clock, INT64_C(1800000000) * SECOND);
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    w->exec = exec_sim_exec(w->sim);
    kit_api_init(&w->api, w->exec);
    kit_transport_init(&w->transport, w->exec);
    features_init(&w->features, FEATURES_MINOR);
    assert_int_equal(disk_folder_new(w->state, &w->disk, &err), 0);
    (void)kit_api_add(&w->api, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":"
                               "\"node-a\",\"uid\":\"node-uid\"}}");
    add_driver(w, 0, &w->victim, VICTIM);
    add_driver(w, 1, &w->rival, rival);
    const struct dra_options o = {.exec = w->exec,
                                  .client = &w->api.client,
                                  .transport = &w->transport.transport,
                                  .disk = w->disk,
                                  .features = &w->features,
                                  .node = STR("node-a"),
                                  .boot_id = STR("boot"),
                                  .registry = w->registry,
                                  .pods = active_pods,
                                  .arg = w};
    if (dra_new(&o, &w->dra, &err) < 0)
        fail_msg("%s", err.msg);
    dra_start(w->dra);
    run(w, 2 * SECOND);
    assert_int_equal(w->victim.registered, 1);
}

static void end(struct world *w)
{
    dra_free(w->dra);
    run(w, SECOND);
    kit_api_done(&w->api);
    kit_transport_done(&w->transport);
    kit_driver_done(&w->victim);
    kit_driver_done(&w->rival);
    disk_folder_free(w->disk);
    exec_sim_free(w->sim);
    vec_foreach(&w->pods, pod)
        typed_object_unref(*pod);
    vec_done(&w->pods);
    char command[80];
    (void)snprintf(command, sizeof(command), "rm -rf %s", w->dir);
    assert_int_equal(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
}

static struct kit_result prepare(struct world *w, const char *pod, const char *claims)
{
    struct kit_result r = {0};
    vec_push(&w->pods, kit_pod(pod, pod, claims));
    dra_prepare(w->dra, w->pods.p[w->pods.n - 1], kit_done, &r);
    run(w, 50 * SECOND);
    assert_int_equal(r.done, 1);
    return r;
}

// The driver beside the bad one prepares a claim as if nothing were.
static void the_victim_works(struct world *w)
{
    kit_claim(&w->api, "good", VICTIM, "p-good");
    struct kit_result r = prepare(w, "p-good", "good");
    if (r.code != 0)
        fail_msg("%s", r.err.msg);
    assert_true(kit_driver_has(&w->victim, "uid-good"));
}

// --- Registration --------------------------------------------------------------------------------

// In a field selector, "spec.driver==gpu.example.com" is the slices of somebody else.
static void a_name_that_is_none_is_refused(void **state)
{
    static const char *const names[] = {
        "=" VICTIM,
        VICTIM ",spec.nodeName=node-b",
        VICTIM "\\",
        "../" VICTIM,
        "GPU.example.com",
        "gpu example",
        "-gpu.example.com",
        "gpu..example.com",
        "a23456789.a23456789.a23456789.a23456789.a23456789.a23456789.abcd", // 64 characters
    };
    (void)state;
    for (size_t i = 0; i < array_len(names); i++) {
        struct world w;
        start(&w, names[i]);
        assert_int_equal(w.rival.registered, 0);
        assert_true(w.rival.refused > 0);
        assert_non_null(strstr(w.rival.registration_error.p, "is not a DNS name"));
        assert_int_equal(unlink(w.socket[1]), 0);
        run(&w, 120 * SECOND);
        assert_null(strstr(w.api.log.p, "spec.driver")); // nobody's slices are deleted
        the_victim_works(&w);
        end(&w);
    }
}

static void an_endpoint_that_cannot_be_is_refused(void **state)
{
    struct world w;
    char far[8000];
    (void)state;
    memset(far, 'x', sizeof(far) - 1);
    far[0] = '/';
    far[sizeof(far) - 1] = '\0';
    start(&w, RIVAL);
    assert_int_equal(unlink(w.socket[1]), 0);
    run(&w, 2 * SECOND);
    w.rival.registered = 0;
    w.rival.endpoint = far;
    kit_socket(w.socket[1]);
    run(&w, 2 * SECOND);
    assert_int_equal(w.rival.registered, 0);
    assert_non_null(strstr(w.rival.registration_error.p, "too long for a socket"));
    the_victim_works(&w);
    end(&w);
}

// --- Answers -------------------------------------------------------------------------------------

static enum grpc_status (*rival_answer)(struct kit_driver *d, struct str request, struct sbuf *out);

// Registers like every driver; what it says of claims is the test's.
static enum grpc_status answer(struct kit_driver *d, struct str method, struct str request,
                               struct sbuf *out)
{
    if (str_starts(method, STR(PLUGIN_DRA_V1)))
        return rival_answer(d, request, out);
    d->answer = NULL;
    enum grpc_status status = kit_driver_answer(d, method, request, out);
    d->answer = answer;
    return status;
}

static void misbehave(struct world *w,
                      enum grpc_status (*how)(struct kit_driver *, struct str, struct sbuf *))
{
    rival_answer = how;
    start(w, RIVAL);
    w->rival.answer = answer;
    kit_claim(&w->api, "bad", RIVAL, "p-bad");
}

// One claim, so many CDI names.
static void answer_with_ids(struct str uid, size_t n, struct str id, struct sbuf *out)
{
    cleanup_arena struct arena a = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    struct plugin_prepare_response r = {0};
    struct plugin_prepared one = {.uid = uid};
    struct plugin_device device = {.pool_name = STR("pool"), .device_name = STR("dev")};
    for (size_t i = 0; i < n; i++)
        vec_push_arena(&a, &device.cdi_device_ids, id);
    vec_push_arena(&a, &one.claim.devices, device);
    vec_push_arena(&a, &r.claims, one);
    plugin_encode(&plugin_prepare_response_message, &r, &w);
    sbuf_add(out, proto_written(&w));
}

static enum grpc_status many_ids(struct kit_driver *d, struct str request, struct sbuf *out)
{
    (void)d;
    (void)request;
    answer_with_ids(STR("uid-bad"), 500000, STR("e/c=d"), out);
    return GRPC_OK;
}

static enum grpc_status long_id(struct kit_driver *d, struct str request, struct sbuf *out)
{
    (void)d;
    (void)request;
    cleanup_sbuf struct sbuf id = {0};
    sbuf_addz(&id, "e/c=");
    for (size_t i = 0; i < 3000000; i++)
        sbuf_addc(&id, 'd');
    answer_with_ids(STR("uid-bad"), 1, sbuf_str(&id), out);
    return GRPC_OK;
}

static enum grpc_status another_claim(struct kit_driver *d, struct str request, struct sbuf *out)
{
    (void)d;
    (void)request;
    answer_with_ids(STR("uid-good"), 1, STR("e/c=d"), out);
    return GRPC_OK;
}

static size_t state_bytes(struct world *w)
{
    cleanup_sbuf struct sbuf text = {0};
    struct err err = {0};
    assert_int_equal(w->disk->read(w->disk, DRA_STATE_FILE, &text, &err), 0);
    return text.n;
}

static void answers_without_end_are_not_kept(void **state)
{
    enum grpc_status (*const ways[])(struct kit_driver *, struct str, struct sbuf *) = {many_ids,
                                                                                        long_id};
    (void)state;
    for (size_t i = 0; i < array_len(ways); i++) {
        struct world w;
        misbehave(&w, ways[i]);
        struct kit_result r = prepare(&w, "p-bad", "bad");
        assert_int_equal(r.code, -ERR_TOO_LARGE);
        assert_non_null(strstr(r.err.msg, "bytes of devices"));
        assert_true(state_bytes(&w) < 10000);
        the_victim_works(&w);
        end(&w);
    }
}

// Devices for a claim that somebody else has: not believed, whoever says it.
static void devices_of_others_claims_are_not_taken(void **state)
{
    struct world w;
    (void)state;
    misbehave(&w, another_claim);
    the_victim_works(&w);
    struct kit_result r = prepare(&w, "p-bad", "bad");
    assert_true(r.code < 0);
    cleanup_arena struct arena arena = {0};
    const struct api_pod *p = w.pods.p[0]->object.value;
    struct dra_texts ids = {0};
    struct err err;
    assert_int_equal(dra_container_devices(w.dra, p, &p->spec.containers.p[0], &arena, &ids, &err),
                     0);
    assert_int_equal(ids.n, 1);
    assert_str(ids.p[0], VICTIM "/gpu=good");
    end(&w);
}

// Two entries of a pod may name the same claim; its driver answers for it once.
static void a_claim_with_two_names_is_prepared_once(void **state)
{
    struct world w;
    (void)state;
    start(&w, RIVAL);
    kit_claim(&w.api, "twice", VICTIM, "p-twice");
    struct kit_result r = prepare(&w, "p-twice", "twice twice");
    if (r.code != 0)
        fail_msg("%s", r.err.msg);
    end(&w);
}

static struct rng_seeded noise;

// Bytes, at times those of a good answer with some changed.
static enum grpc_status any_bytes(struct kit_driver *d, struct str request, struct sbuf *out)
{
    (void)d;
    (void)request;
    if (rng_below(&noise.rng, 2))
        answer_with_ids(STR("uid-bad"), 3, STR("evil.example.com/c=d"), out);
    for (uint64_t i = rng_below(&noise.rng, 40); i > 0; i--)
        sbuf_addc(out, (char)rng_below(&noise.rng, 256));
    for (uint64_t i = rng_below(&noise.rng, 4); i > 0 && out->n; i--)
        out->p[rng_below(&noise.rng, out->n)] = (char)rng_below(&noise.rng, 256);
    return GRPC_OK;
}

static void any_answer_is_survived(void **state)
{
    struct world w;
    (void)state;
    rng_seeded_init(&noise, 17);
    misbehave(&w, any_bytes);
    vec_push(&w.pods, kit_pod("p-bad", "p-bad", "bad"));
    for (int i = 0; i < 300; i++) {
        struct kit_result r = {0};
        if (i % 2)
            dra_unprepare(w.dra, w.pods.p[0], kit_done, &r);
        else
            dra_prepare(w.dra, w.pods.p[0], kit_done, &r);
        run(&w, 50 * SECOND);
        assert_int_equal(r.done, 1);
        if (r.code < 0)
            assert_true(r.err.msg[0] != '\0');
    }
    the_victim_works(&w);
    end(&w);
}

// --- What is kept --------------------------------------------------------------------------------

// A driver says how long its devices are to be remembered; names have an end all the same.
static void health_of_nameless_length_is_not_kept(void **state)
{
    struct clock_fake clock;
    cleanup_arena struct arena a = {0};
    struct health_changes changes = {0};
    bool dirty = false;
    char name[300];
    (void)state;
    memset(name, 'n', sizeof(name));
    clock_fake_init(&clock, INT64_C(1800000000) * SECOND);
    struct health *h = health_new(&clock.clock);
    struct plugin_device_health devices[] = {
        {.device = {str_make(name, 254), STR("d")}, .health_check_timeout_sec = INT64_MAX},
        {.device = {STR("p"), str_make(name, 254)}, .health_check_timeout_sec = INT64_MAX},
        {.device = {str_make(name, 253), str_make(name, 253)},
         .health_check_timeout_sec = INT64_MAX},
    };
    struct plugin_health_response r = {0};
    for (size_t i = 0; i < array_len(devices); i++)
        vec_push_arena(&a, &r.devices, devices[i]);
    assert_int_equal(health_report(h, STR(RIVAL), &r, &a, &changes, &dirty), 2);
    assert_int_equal(changes.n, 1);
    health_free(h);
}

// What could not be read again is not written: the node would not start any more.
static void a_state_that_is_too_large_is_refused(void **state)
{
    struct err err = {0};
    struct disk *disk;
    char path[] = "/tmp/dra-large-XXXXXX";
    size_t n = DISK_FILE_BYTES_MAX + 1;
    cleanup_sbuf struct sbuf text = {0};
    (void)state;
    assert_non_null(mkdtemp(path));
    assert_int_equal(disk_folder_new(path, &disk, &err), 0);
    assert_int_equal(disk->replace(disk, "state", STR("before"), &err), 0);
    void *bytes = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(bytes != MAP_FAILED);
    assert_int_equal(disk->replace(disk, "state", str_make(bytes, n), &err), -ERR_TOO_LARGE);
    assert_int_equal(munmap(bytes, n), 0);
    assert_int_equal(disk->read(disk, "state", &text, &err), 0);
    assert_str(sbuf_str(&text), "before");
    disk_folder_free(disk);
    char command[80];
    (void)snprintf(command, sizeof(command), "rm -rf %s", path);
    assert_int_equal(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
}

RUN_TESTS(TEST_CASE(a_name_that_is_none_is_refused),
          TEST_CASE(an_endpoint_that_cannot_be_is_refused),
          TEST_CASE(answers_without_end_are_not_kept),
          TEST_CASE(a_claim_with_two_names_is_prepared_once),
          TEST_CASE(devices_of_others_claims_are_not_taken), TEST_CASE(any_answer_is_survived),
          TEST_CASE(health_of_nameless_length_is_not_kept),
          TEST_CASE(a_state_that_is_too_large_is_refused))
