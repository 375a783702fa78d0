// SPDX-License-Identifier: Apache-2.0
//
// CEL selectors: compiling, evaluating one device, and a batch of devices; the same expressions and
// device as bench/peers/cel. With --count: instructions.
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cel/cel.h"

#include "base/banned.h"

static const struct {
    const char *name;
    struct str expr;
} selectors[] = {
    {"driver", STR_INIT("device.driver == \"gpu.nvidia.com\"")},
    {"equality", STR_INIT("device.driver == \"gpu.nvidia.com\" && "
                          "device.attributes[\"gpu.nvidia.com\"].type == \"gpu\"")},
    {"quantity", STR_INIT("device.capacity[\"gpu.nvidia.com\"].memory.compareTo("
                          "quantity(\"40Gi\")) >= 0")},
    {"semver", STR_INIT("device.attributes[\"gpu.nvidia.com\"].driverVersion.isGreaterThan("
                        "semver(\"535.0.0\")) && device.attributes[\"gpu.nvidia.com\"]"
                        ".cudaComputeCapability.compareTo(semver(\"8.0.0\")) >= 0")},
    {"string-regex",
     STR_INIT(
         "device.attributes[\"gpu.nvidia.com\"].productName.lowerAscii().matches("
         "\"^.*a100.*$\") && device.attributes[\"gpu.nvidia.com\"].uuid.startsWith(\"GPU-\")")},
    {"in-list", STR_INIT("device.attributes[\"gpu.nvidia.com\"].architecture in [\"Turing\", "
                         "\"Ampere\", \"Ada Lovelace\", \"Hopper\", \"Blackwell\"]")},
    {"macros",
     STR_INIT("device.attributes[\"gpu.nvidia.com\"].links.exists(l, l == \"nvlink2\") && "
              "device.attributes[\"resource.kubernetes.io\"].numaNodes.all(n, n >= 0 && n < 4)")},
    {"bind", STR_INIT("cel.bind(gpu, device.attributes[\"gpu.nvidia.com\"], gpu.type == \"gpu\" && "
                      "gpu.index < 4 && gpu.eccEnabled)")},
    {"has-optional",
     STR_INIT("has(device.attributes[\"gpu.nvidia.com\"].productName) && "
              "device.attributes[\"gpu.nvidia.com\"].?brand.orValue(\"\") == \"Nvidia\" && "
              "!device.attributes[\"other.example.com\"].?vendor.hasValue()")},
};

static const struct str gpu_strings[] = {
    STR_INIT("gpu"),
    STR_INIT("GPU-18db0e85-99e9-c746-8531-ffeb86328b39"),
    STR_INIT("NVIDIA A100-SXM4-80GB"),
    STR_INIT("Nvidia"),
    STR_INIT("Ampere"),
    STR_INIT("8.0.0"),
    STR_INIT("550.54.15"),
    STR_INIT("12.4.0"),
    STR_INIT("pci0000:00"),
};
static const struct str links[] = {STR_INIT("nvlink0"), STR_INIT("nvlink1"), STR_INIT("nvlink2"),
                                   STR_INIT("nvlink3")};
static const int64_t index_value[] = {3};
static const int64_t nodes[] = {0, 1};
static const bool yes[] = {true};

static const struct cel_attr_input attributes[] = {
    {STR_INIT("type"), CEL_ATTR_STRING, false, 1, {.strings = &gpu_strings[0]}},
    {STR_INIT("uuid"), CEL_ATTR_STRING, false, 1, {.strings = &gpu_strings[1]}},
    {STR_INIT("productName"), CEL_ATTR_STRING, false, 1, {.strings = &gpu_strings[2]}},
    {STR_INIT("brand"), CEL_ATTR_STRING, false, 1, {.strings = &gpu_strings[3]}},
    {STR_INIT("architecture"), CEL_ATTR_STRING, false, 1, {.strings = &gpu_strings[4]}},
    {STR_INIT("cudaComputeCapability"), CEL_ATTR_VERSION, false, 1, {.strings = &gpu_strings[5]}},
    {STR_INIT("driverVersion"), CEL_ATTR_VERSION, false, 1, {.strings = &gpu_strings[6]}},
    {STR_INIT("cudaDriverVersion"), CEL_ATTR_VERSION, false, 1, {.strings = &gpu_strings[7]}},
    {STR_INIT("index"), CEL_ATTR_INT, false, 1, {.ints = index_value}},
    {STR_INIT("minor"), CEL_ATTR_INT, false, 1, {.ints = index_value}},
    {STR_INIT("eccEnabled"), CEL_ATTR_BOOL, false, 1, {.bools = yes}},
    {STR_INIT("resource.kubernetes.io/pcieRoot"),
     CEL_ATTR_STRING,
     false,
     1,
     {.strings = &gpu_strings[8]}},
    {STR_INIT("resource.kubernetes.io/numaNodes"), CEL_ATTR_INT, true, 2, {.ints = nodes}},
    {STR_INIT("links"), CEL_ATTR_STRING, true, 4, {.strings = links}},
};
static const struct cel_capacity_input capacities[] = {
    {STR_INIT("memory"), STR_INIT("80Gi")},
    {STR_INIT("multiprocessors"), STR_INIT("108")},
    {STR_INIT("copyEngines"), STR_INIT("7")},
};

#define DEVICES 1024

struct world {
    struct cel_env *env;
    struct cel_run *run;
    struct cel_shapes *shapes;
    struct cel_device *devices[DEVICES];
};

static void world_init(struct world *w)
{
    struct cel_env_options options = {.kind = CEL_ENV_DRA};
    struct cel_device_input input = {.driver = STR("gpu.nvidia.com"),
                                     .attributes = attributes,
                                     .attribute_count = array_len(attributes),
                                     .capacities = capacities,
                                     .capacity_count = array_len(capacities)};
    w->env = cel_env_new(&options);
    w->run = cel_run_new();
    w->shapes = cel_shapes_new();
    for (size_t i = 0; i < DEVICES; i++)
        if (cel_device_new(w->shapes, &input, &w->devices[i], NULL) < 0)
            abort();
}

static void world_done(struct world *w)
{
    for (size_t i = 0; i < DEVICES; i++)
        cel_device_free(w->devices[i]);
    cel_shapes_free(w->shapes);
    cel_run_free(w->run);
    cel_env_free(w->env);
}

static struct cel_program *compile(const struct world *w, struct str expr)
{
    struct cel_program *p;
    struct err err = {0};
    if (cel_compile(w->env, expr, &p, NULL, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1); // NOLINT(concurrency-mt-unsafe): one thread
    }
    return p;
}

static void evaluate(struct world *w, const struct cel_program *p)
{
    struct cel_result r;
    bool match = cel_eval_device(w->run, p, w->devices[0], &r);
    bench_keep(match);
    if (r.failed)
        abort();
}

static void batch(struct world *w, const struct cel_program *p)
{
    uint64_t bits[DEVICES / 64];
    size_t n = cel_eval_batch(w->run, p, (const struct cel_device *const *)w->devices, DEVICES,
                              bits, NULL, NULL);
    bench_keep(n);
}

static void measure(struct world *w, const char *name, struct str expr)
{
    char label[64];
    (void)snprintf(label, sizeof(label), "compile %s", name);
    BENCH(label, cel_program_free(compile(w, expr)));
    struct cel_program *p = compile(w, expr);
    (void)snprintf(label, sizeof(label), "eval %s", name);
    BENCH(label, evaluate(w, p));
    double best = 0;
    for (int round = 0; round < 2 * BENCH_ROUNDS; round++) {
        int64_t start = clock_mono_ns(clock_system());
        for (int i = 0; i < 64; i++)
            batch(w, p);
        double each = (double)(clock_mono_ns(clock_system()) - start) / (64.0 * DEVICES);
        if (round == 0 || each < best)
            best = each;
    }
    (void)snprintf(label, sizeof(label), "batch %s (a device)", name);
    bench_print(label, best, 0, NULL);
    cel_program_free(p);
}

static void count(struct world *w)
{
    char label[64];
    for (size_t i = 0; i < array_len(selectors); i++) {
        struct cel_program *p = compile(w, selectors[i].expr);
        (void)snprintf(label, sizeof(label), "eval %s", selectors[i].name);
        COUNT(label, 100, evaluate(w, p));
        cel_program_free(p);
    }
    struct cel_program *p = compile(w, selectors[0].expr);
    COUNT("batch of 1024 devices", 1, batch(w, p));
    cel_program_free(p);
    COUNT("compile semver", 10, cel_program_free(compile(w, selectors[3].expr)));
}

// An expression of so many terms.
static void growth(struct world *w)
{
    static const size_t terms[] = {1, 10, 100};
    enum { RUNS = 500 };
    for (size_t i = 0; i < array_len(terms); i++) {
        cleanup_sbuf struct sbuf text = {0};
        for (size_t k = 0; k < terms[i]; k++)
            sbuf_addf(&text, "%sdevice.attributes[\"gpu.nvidia.com\"].index < %zu", k ? " && " : "",
                      k + 100);
        double before = bench_cpu_ns();
        for (int k = 0; k < RUNS; k++)
            cel_program_free(compile(w, sbuf_str(&text)));
        bench_point("compile so many terms", terms[i], (bench_cpu_ns() - before) / RUNS);
        struct cel_program *p = compile(w, sbuf_str(&text));
        before = bench_cpu_ns();
        for (int k = 0; k < 20 * RUNS; k++)
            evaluate(w, p);
        bench_point("evaluate so many terms", terms[i], (bench_cpu_ns() - before) / (20 * RUNS));
        cel_program_free(p);
    }
}

int main(int argc, char **argv)
{
    struct world w;
    world_init(&w);
    if (bench_counting(argc, argv))
        count(&w);
    else if (argc == 2 && strcmp(argv[1], "--growth") == 0)
        growth(&w);
    else
        for (size_t i = 0; i < array_len(selectors); i++)
            measure(&w, selectors[i].name, selectors[i].expr);
    world_done(&w);
    return 0;
}
