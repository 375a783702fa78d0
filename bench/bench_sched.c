// SPDX-License-Identifier: Apache-2.0
//
// The scheduler on a registry in the same process, store in memory: CPU per bound pod, everything
// included (creation of the objects aside), in the shapes of peers/schedbench: a pod with one device by
// selector, with a pair on one PCIe root, with none. And how long an impossible pod takes to be told.
#include <stdarg.h>
#include <stdlib.h>

#include "api/cel_check.h"
#include "bench.h"
#include "inproc/local.h"
#include "sched/sched.h"

#include "base/banned.h"

#define GPUS 8

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct features features;
    struct api_cel_engine *cel;
    struct store *store;
    struct registry *registry;
    struct client *client;
    struct sched *sched;
    size_t failed;
};

static void check(int r, const struct err *err)
{
    if (r >= 0)
        return;
    (void)fprintf(stderr, "bench_sched: %s\n", err->msg);
    exit(1);
}

static void written(void *arg, const struct client_answer *answer)
{
    struct world *w = arg;
    if (answer->code < 0 && w->failed++ == 0)
        (void)fprintf(stderr, "bench_sched: %s\n", answer->err->msg);
}

static void put(struct world *w, const char *fmt, ...) ERR_PRINTF(2, 3);

static void put(struct world *w, const char *fmt, ...)
{
    char *text = NULL;
    struct err err;
    struct json_doc doc = {0};
    struct arena arena = {0};
    struct api_object o;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    for (int i = 0; i < n; i++)
        if (text[i] == '\'')
            text[i] = '"';
    check(json_parse(str_make(text, (size_t)n), NULL, &doc, &err), &err);
    check(api_decode(&doc, doc.root, &arena, NULL, &o, &err), &err);
    client_create(w->client, &o, NULL, written, w);
    json_doc_done(&doc);
    arena_done(&arena);
    free(text);
}

static void run(struct world *w, int64_t ms)
{
    exec_sim_run(w->sim, clock_mono_ns(&w->clock.clock) + ms * CLOCK_NS_PER_MS);
}

static void start(struct world *w)
{
    struct err err;
    static const struct registry_user user = {.name = STR_INIT("bench")};
    *w = (struct world){0};
    clock_fake_init(&w->clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    features_init(&w->features, FEATURES_MINOR);
    w->cel = api_cel_engine_new();
    struct exec *exec = exec_sim_exec(w->sim);
    check(store_open(&(struct store_options){.exec = exec, .commit_on_exec = true}, &w->store,
                     &err),
          &err);
    check(registry_new(&(struct registry_options){.store = w->store,
                                                  .exec = exec,
                                                  .features = &w->features,
                                                  .cel = api_cel_engine_rules(w->cel)},
                       &w->registry, &err),
          &err);
    w->client = local_client_new(w->registry, exec, &user);
    w->sched = sched_new(&(struct sched_options){.client = w->client});
    sched_start(w->sched);
    run(w, 1);
}

static void end(struct world *w)
{
    sched_free(w->sched);
    run(w, 1);
    client_free(w->client);
    run(w, 1);
    registry_free(w->registry);
    store_close(w->store);
    api_cel_engine_free(w->cel);
    exec_sim_free(w->sim);
}

static void add_node(struct world *w, int i)
{
    cleanup_sbuf struct sbuf devices = {0};
    for (int j = 0; j < GPUS; j++)
        sbuf_addf(&devices,
                  "%s{'name':'gpu-%d','attributes':{'model':{'string':'A100'},'index':{'int':%d},"
                  "'uuid':{'string':'GPU-%04d-%02d'},'driverVersion':{'version':'1.2.3'},"
                  "'resource.kubernetes.io/pcieRoot':{'string':'pci0000:%02x'}},"
                  "'capacity':{'memory':{'value':'80Gi'}}}",
                  j ? "," : "", j, j, i, j, (unsigned)(j / (GPUS / 2)));
    put(w,
        "{'apiVersion':'v1','kind':'Node','metadata':{'name':'node-%04d','labels':"
        "{'kubernetes.io/hostname':'node-%04d'}},'status':{'capacity':{'cpu':'64','memory':'256Gi',"
        "'pods':'110'},'allocatable':{'cpu':'64','memory':'256Gi','pods':'110'}}}",
        i, i);
    put(w,
        "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':'s-%04d'},"
        "'spec':{'driver':'gpu.example.com','nodeName':'node-%04d','pool':{'name':'node-%04d',"
        "'generation':1,'resourceSliceCount':1},'devices':[%s]}}",
        i, i, i, devices.p);
}

#define REQUEST(name)                                                                          \
    "{'name':'" name "','exactly':{'deviceClassName':'gpu','selectors':[{'cel':{'expression':" \
    "'device.attributes[\\'gpu.example.com\\'].model == \\'A100\\' && device.capacity["        \
    "\\'gpu.example.com\\'].memory.compareTo(quantity(\\'40Gi\\')) >= 0'}}]}}"

static void add_pod(struct world *w, const char *name, const char *spec)
{
    if (spec)
        put(w,
            "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'%s',"
            "'namespace':'default'},'spec':{'devices':{%s}}}",
            name, spec);
    put(w,
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'default','labels':"
        "{'app':'bench'}},'spec':{'schedulerName':'dray','containers':[{'name':'c','image':'pause',"
        "'resources':{'requests':{'cpu':'100m','memory':'64Mi'}}}]%s%s%s}}",
        name, spec ? ",'resourceClaims':[{'name':'gpu','resourceClaimName':'" : "",
        spec ? name : "", spec ? "'}]" : "");
}

static const char *spec_of(const char *variant)
{
    static const char one[] = "'requests':[" REQUEST("gpu") "]";
    static const char pair[] = "'requests':[" REQUEST("gpu-a") "," REQUEST(
        "gpu-b") "],'constraints':[{'requests':['gpu-a',"
                 "'gpu-b'],'matchAttribute':'resource.kubernetes.io/pcieRoot'}]";
    return strcmp(variant, "one") == 0 ? one : strcmp(variant, "pair") == 0 ? pair : NULL;
}

static void start_cluster(struct world *w, int nodes)
{
    start(w);
    put(w,
        "{'apiVersion':'resource.k8s.io/v1','kind':'DeviceClass','metadata':{'name':'gpu'},"
        "'spec':{'selectors':[{'cel':{'expression':'device.driver == \\'gpu.example.com\\''}}]}}");
    for (int i = 0; i < nodes; i++)
        add_node(w, i);
    run(w, 1000);
}

// Pods are made at once; returns when all that can be are bound.
static void add_pods(struct world *w, int first, int pods, const char *variant)
{
    char name[64];
    for (int i = first; i < first + pods; i++) {
        (void)snprintf(name, sizeof(name), "pod-%05d", i);
        add_pod(w, name, spec_of(variant));
    }
    run(w, 1000);
}

// What a pod costs as more of them come at once, and as there are more nodes.
static void growth(void)
{
    static const int sizes[] = {10, 100, 1000};
    for (size_t i = 0; i < array_len(sizes); i++) {
        struct world w;
        start_cluster(&w, 250);
        double before = bench_cpu_ns();
        add_pods(&w, 0, sizes[i], "one");
        bench_point("a pod, so many at once on 250 nodes", (size_t)sizes[i],
                    (bench_cpu_ns() - before) / sizes[i]);
        end(&w);
    }
    for (size_t i = 0; i < array_len(sizes); i++) {
        struct world w;
        start_cluster(&w, sizes[i]);
        double before = bench_cpu_ns();
        add_pods(&w, 0, 50, "one");
        bench_point("a pod, of 50, on so many nodes", (size_t)sizes[i],
                    (bench_cpu_ns() - before) / 50);
        end(&w);
    }
}

static void measure(int nodes, int pods, const char *variant)
{
    struct world w;
    char name[64];
    struct sched_stats stats;
    start_cluster(&w, nodes);
    double before = bench_cpu_ns();
    add_pods(&w, 0, pods, variant);
    double took = bench_cpu_ns() - before;
    sched_get_stats(w.sched, &stats);
    if (stats.bound != (uint64_t)pods)
        (void)fprintf(stderr, "bench_sched: %s: %llu of %d pods are bound\n", variant,
                      (unsigned long long)stats.bound, pods);
    (void)snprintf(name, sizeof(name), "sched %dx%d %s, a pod", nodes, pods, variant);
    bench_print(name, took / pods, 0, NULL);
    before = bench_cpu_ns();
    add_pod(&w, "impossible",
            "'requests':[{'name':'gpu','exactly':{'deviceClassName':'gpu','count':9}}]");
    run(&w, 100);
    (void)snprintf(name, sizeof(name), "sched %dx%d %s, impossible", nodes, pods, variant);
    bench_print(name, bench_cpu_ns() - before, 0, NULL);
    end(&w);
}

static const char *const variants[] = {"one", "pair", "none"};

static void count(void)
{
    for (size_t i = 0; i < array_len(variants); i++) {
        struct world w;
        char name[64];
        int next = 0;
        start_cluster(&w, 20);
        (void)snprintf(name, sizeof(name), "ten pods on 20 nodes, %s", variants[i]);
        COUNT(name, 3, add_pods(&w, next, 10, variants[i]); next += 10);
        end(&w);
    }
}

int main(int argc, char **argv)
{
    int64_t nodes = 0;
    int64_t pods = 0;
    if (bench_counting(argc, argv)) {
        count();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--growth") == 0) {
        growth();
        return 0;
    }
    if (argc > 3 && str_to_i64(str_z(argv[1]), &nodes) == 0 &&
        str_to_i64(str_z(argv[2]), &pods) == 0) {
        measure((int)nodes, (int)pods, argv[3]);
        return 0;
    }
    for (size_t i = 0; i < array_len(variants); i++) {
        measure(100, 400, variants[i]);
        measure(500, 2000, variants[i]);
    }
    measure(5000, 5000, "one");
    return 0;
}
