// SPDX-License-Identifier: Apache-2.0
//
// What nodes offer and pods ask for in `dray bench sched`: its own variants, and the workloads of
// Kubernetes' scheduler_perf with their counts. Devices are described in our words, their number
// and what makes a search hard are the same.
#include <stdio.h>
#include <string.h>

#include "lab/bench_sched.h"

#include "base/banned.h"

// --- Devices -------------------------------------------------------------------------------------

static void plain_devices(struct sbuf *out, const struct sched_bench *s, size_t node, size_t slice)
{
    (void)slice;
    sbuf_addz(out, "\"devices\":[");
    for (size_t j = 0; j < s->gpus; j++)
        sbuf_addf(out,
                  "%s{\"name\":\"gpu-%zu\",\"attributes\":{\"model\":{\"string\":\"A100\"},"
                  "\"index\":{\"int\":%zu},\"uuid\":{\"string\":\"GPU-%04zu-%02zu\"},"
                  "\"driverVersion\":{\"version\":\"1.2.3\"},"
                  "\"resource.kubernetes.io/pcieRoot\":{\"string\":\"pci0000:%02zx\"}},"
                  "\"capacity\":{\"memory\":{\"value\":\"80Gi\"}}}",
                  j ? "," : "", j, j, node, j, j / ((s->gpus + 1) / 2));
    sbuf_addc(out, ']');
}

// The first slice of a node has the counters, the second the devices that draw on them.
static void bench_sched_add_counters(struct sbuf *out, const char *name, size_t n, const char *more)
{
    sbuf_addz(out, "\"sharedCounters\":[{\"name\":\"set\",\"counters\":{");
    for (size_t i = 1; i <= n; i++)
        sbuf_addf(out, "%s\"%s%zu\":{\"value\":\"1\"}", i > 1 ? "," : "", name, i);
    sbuf_addf(out, "%s}}]", more);
}

static void bench_form_add_halves(struct sbuf *out, const char *groups)
{
    sbuf_addf(out,
              "\"devices\":[{\"name\":\"device-1\",\"consumesCounters\":[{\"counterSet\":\"set\"%s,"
              "\"counters\":{\"counter1\":{\"value\":\"1\"},\"counter2\":{\"value\":\"1\"}}}]},"
              "{\"name\":\"device-2\",\"consumesCounters\":[{\"counterSet\":\"set\"%s,"
              "\"counters\":{\"counter3\":{\"value\":\"1\"},\"counter4\":{\"value\":\"1\"}}}]}]",
              groups, groups);
}

static void bench_form_add_partitions(struct sbuf *out, const struct sched_bench *s, size_t node,
                                      size_t slice)
{
    (void)s;
    (void)node;
    if (slice == 0)
        bench_sched_add_counters(out, "counter", 4, "");
    else
        bench_form_add_halves(out, "");
}

static void bench_form_add_compatible(struct sbuf *out, const struct sched_bench *s, size_t node,
                                      size_t slice)
{
    (void)s;
    (void)node;
    if (slice == 0)
        bench_sched_add_counters(out, "counter", 4, "");
    else
        bench_form_add_halves(out, ",\"compatibilityGroups\":[\"mig\"]");
}

// The first device takes so much that seven fit only without it.
static void bench_form_add_backtracking(struct sbuf *out, const struct sched_bench *s, size_t node,
                                        size_t slice)
{
    (void)node;
    if (slice == 0) {
        bench_sched_add_counters(out, "cpu", s->gpus, ",\"mem\":{\"value\":\"70Gi\"}");
        return;
    }
    sbuf_addz(out, "\"devices\":[");
    for (size_t i = 1; i <= s->gpus; i++)
        sbuf_addf(out,
                  "%s{\"name\":\"device-%zu\",\"consumesCounters\":[{\"counterSet\":\"set\","
                  "\"counters\":{\"cpu%zu\":{\"value\":\"1\"},\"mem\":{\"value\":\"%s\"}}}]}",
                  i > 1 ? "," : "", i, i, i == 1 ? "20Gi" : "10Gi");
    sbuf_addc(out, ']');
}

static void bench_form_add_bandwidths(struct sbuf *out, const struct sched_bench *s, size_t node,
                                      size_t slice)
{
    (void)node;
    (void)slice;
    sbuf_addz(out, "\"devices\":[");
    for (size_t i = 1; i <= s->gpus; i++)
        sbuf_addf(out,
                  "%s{\"name\":\"device-%zu\",\"allowMultipleAllocations\":true,\"attributes\":{"
                  "\"dra.example.com/index\":{\"int\":%zu}},\"capacity\":{\"bandwidth\":{\"value\":"
                  "\"%s\",\"requestPolicy\":{\"default\":\"1M\",\"validRange\":{\"min\":\"1M\","
                  "\"step\":\"8\"}}}}}",
                  i > 1 ? "," : "", i, i, i == 2 ? "10Gi" : "10G");
    sbuf_addc(out, ']');
}

static void network_device(struct sbuf *out, const struct sched_bench *s, size_t node, size_t slice)
{
    (void)s;
    (void)node;
    (void)slice;
    sbuf_addz(out, "\"devices\":[{\"name\":\"device\"}]");
}

#define LIST_OWN 47 // values that a device shares with no other

// Only the second half of the devices has a value in common.
static void bench_form_add_lists(struct sbuf *out, const struct sched_bench *s, size_t node,
                                 size_t slice)
{
    (void)node;
    (void)slice;
    sbuf_addz(out, "\"devices\":[");
    for (size_t i = 0; i < s->gpus; i++) {
        sbuf_addf(out,
                  "%s{\"name\":\"device-%zu\",\"attributes\":{\"dra.example.com/match\":{"
                  "\"strings\":[",
                  i ? "," : "", i);
        for (size_t v = 0; v < LIST_OWN; v++)
            sbuf_addf(out, "%s\"own-%zu-%zu\"", v ? "," : "", i, v);
        sbuf_addf(out, "%s]}}}", i >= s->gpus / 2 ? ",\"shared\"" : "");
    }
    sbuf_addc(out, ']');
}

// --- Requests ------------------------------------------------------------------------------------

#define SELECTORS                                                                           \
    ",\"selectors\":[{\"cel\":{\"expression\":\"device.attributes[\\\"gpu.example.com\\\"]" \
    ".model == \\\"A100\\\" && device.capacity[\\\"gpu.example.com\\\"].memory.compareTo("  \
    "quantity(\\\"40Gi\\\")) >= 0\"}}]"
#define REQUEST(name, rest) \
    "{\"name\":\"" name "\",\"exactly\":{\"deviceClassName\":\"" BENCH_DRIVER "\"" rest "}}"
#define MATCH(attribute)            ",\"constraints\":[{\"matchAttribute\":\"" attribute "\"}]"
#define SPEC(requests, constraints) "{\"devices\":{\"requests\":[" requests "]" constraints "}}"
#define MANY(text)        \
    REQUEST("a" text, "") \
    "," REQUEST("b" text, "") "," REQUEST("c" text, "") "," REQUEST("d" text, "")
#define FOUR(text) MANY(text)
#define THIRTY_TWO                                                                                \
    FOUR("0")                                                                                     \
    "," FOUR("1") "," FOUR("2") "," FOUR("3") "," FOUR("4") "," FOUR("5") "," FOUR("6") "," FOUR( \
        "7")

static const char one[] = SPEC(REQUEST("gpu", SELECTORS), "");
static const char pair[] = SPEC(REQUEST("gpu-a", SELECTORS) "," REQUEST("gpu-b", SELECTORS),
                                MATCH("resource.kubernetes.io/pcieRoot"));
static const char five[] =
    SPEC(FOUR("0") "," REQUEST("e", ""), MATCH("resource.kubernetes.io/pcieRoot"));
static const char thirty_two[] = SPEC(THIRTY_TWO, MATCH("dra.example.com/match"));
static const char plain[] = SPEC(REQUEST("r", ""), "");
static const char two[] = SPEC(REQUEST("r", ",\"count\":2"), "");
static const char seven[] = SPEC(REQUEST("r", ",\"count\":7"), "");
static const char bandwidth[] =
    SPEC(REQUEST("r", ",\"count\":2,\"capacity\":{\"requests\":{\"bandwidth\":\"2500M\"}}"),
         ",\"constraints\":[{\"distinctAttribute\":\"dra.example.com/index\"}]");
static const char tolerant[] = SPEC(
    REQUEST("r", ",\"tolerations\":[{\"key\":\"example.com/taint\",\"operator\":\"Exists\"}]"), "");
static const char first[] =
    SPEC("{\"name\":\"r\",\"firstAvailable\":[{\"name\":\"a\",\"deviceClassName\":\"" BENCH_DRIVER
         "\",\"selectors\":[{\"cel\":{\"expression\":\"device.driver == \\\"none\\\"\"}}]},"
         "{\"name\":\"b\",\"deviceClassName\":\"" BENCH_DRIVER "\"}]}",
         "");

static const struct bench_form forms[] = {
    {.name = "none", .uses = USES_NOTHING},
    {.name = "one", .slices = 1, .write = plain_devices, .claim = one, .fill = 1},
    {.name = "pair", .slices = 1, .write = plain_devices, .claim = pair, .fill = 1},
    {.name = "match", .slices = 1, .write = plain_devices, .claim = five, .fill = 1},
    {.name = "first", .slices = 1, .write = plain_devices, .claim = first, .fill = 1},
    {.name = "taint", .slices = 1, .write = plain_devices, .claim = tolerant, .tainted = true},
    {.name = "shared", .slices = 1, .write = plain_devices, .claim = one, .uses = USES_SHARED},
    {.name = "explicit", .slices = 1, .write = plain_devices, .uses = USES_EXPLICIT},
    {.name = "implicit", .slices = 1, .write = plain_devices, .uses = USES_IMPLICIT},
    {.name = "scoring", .slices = 1, .write = plain_devices, .uses = USES_SAME},
    {.name = "partition",
     .devices = 2,
     .slices = 2,
     .write = bench_form_add_partitions,
     .claim = two,
     .fill = 2},
    {.name = "compatible",
     .devices = 2,
     .slices = 2,
     .write = bench_form_add_compatible,
     .claim = two,
     .fill = 2},
    {.name = "backtracking",
     .devices = 8,
     .slices = 2,
     .write = bench_form_add_backtracking,
     .claim = seven,
     .fill = 7},
    {.name = "consumable",
     .devices = 4,
     .slices = 1,
     .write = bench_form_add_bandwidths,
     .claim = bandwidth,
     .several = true},
    {.name = "group",
     .devices = 1,
     .slices = 1,
     .write = network_device,
     .claim = plain,
     .network = true,
     .uses = USES_GROUP},
    {.name = "group-template",
     .devices = 1,
     .slices = 1,
     .write = network_device,
     .claim = plain,
     .network = true,
     .uses = USES_GROUP_TEMPLATE},
    {.name = "list",
     .devices = 64,
     .slices = 1,
     .write = bench_form_add_lists,
     .claim = thirty_two},
};

const struct bench_form *bench_form_find(const char *name)
{
    for (size_t i = 0; i < array_len(forms); i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
}

void bench_form_names(struct sbuf *out)
{
    for (size_t i = 0; i < array_len(forms); i++)
        sbuf_addf(out, "%s%s", i ? ", " : "", forms[i].name);
}

// --- Workloads -----------------------------------------------------------------------------------

// A test of scheduler_perf, and its workloads as they are spelled there.
struct test {
    const char *name;
    const char *form;
    size_t devices;
};

static const struct test tests[] = {
    {"SchedulingWithResourceClaimTemplate", "one", 10},
    {"SchedulingWithResourceClaim", "shared", 2},
    {"FirstAvailable", "first", 10},
    {"DeviceTaintToleration", "taint", 10},
    {"Partitionable", "partition", 2},
    {"PartitionableBacktracking", "backtracking", 8},
    {"CompatibilityGroups", "compatible", 2},
    {"ConsumableCapacity", "consumable", 4},
    {"SchedulingWithResourceClaimTemplateListAttributes", "list", 64},
    {"ExtendedResource", "explicit", 10},
    {"ExtendedResourceScoring", "scoring", 10},
    {"PublishResourceSlices", "one", 10},
    {"SharedPodGroupResourceClaim", "group", 1},
    {"SharedPodGroupResourceClaimTemplate", "group-template", 1},
};

struct workload {
    const char *test;
    const char *name;
    const char *form;                                            // another than the test's
    size_t nodes, plain, classes, prefill, init, pods, steady_s; // classes: or PodGroups
};

// clang-format off
#define T "SchedulingWithResourceClaimTemplate"
#define HALVES(test)                                                                           \
    {test, "empty_100nodes", NULL, 100, 0, 0, 0, 0, 10, 10},                                   \
    {test, "half_100nodes", NULL, 100, 0, 0, 50, 0, 10, 10},                                   \
    {test, "empty_500nodes", NULL, 500, 0, 0, 0, 0, 10, 10},                                   \
    {test, "half_500nodes", NULL, 500, 0, 0, 250, 0, 10, 10},                                  \
    {test, "full_500nodes", NULL, 500, 0, 0, 490, 0, 10, 10},                                  \
    {test, "empty_1000nodes", NULL, 1000, 0, 0, 0, 0, 10, 10},                                 \
    {test, "half_1000nodes", NULL, 1000, 0, 0, 500, 0, 10, 10},                                \
    {test, "full_1000nodes", NULL, 1000, 0, 0, 990, 0, 10, 10},                                \
    {test, "fast", NULL, 1, 1, 0, 0, 0, 1, 0}

#define GROUPS(test)                                                                           \
    {test, "fast", NULL, 1, 0, 10, 0, 0, 10, 0},                                               \
    {test, "1podgroup_1000pods", NULL, 10, 0, 1, 0, 0, 1000, 0},                               \
    {test, "100podgroups_5000pods", NULL, 50, 0, 100, 0, 0, 5000, 0}

static const struct workload workloads[] = {
    {T, "fast", NULL, 1, 1, 0, 0, 0, 10, 0},
    {T, "2000pods_200nodes", NULL, 200, 0, 0, 1000, 0, 1000, 0},
    {T, "5000pods_500nodes", NULL, 500, 0, 0, 2500, 0, 2500, 0},
    {T, "empty_100nodes", NULL, 100, 0, 0, 0, 0, 10, 10},
    {T, "empty_200nodes", NULL, 200, 0, 0, 0, 0, 10, 10},
    {T, "empty_500nodes", NULL, 500, 0, 0, 0, 0, 10, 10},
    {T, "half_100nodes", NULL, 100, 0, 0, 500, 0, 10, 10},
    {T, "half_200nodes", NULL, 200, 0, 0, 1000, 0, 10, 10},
    {T, "half_500nodes", NULL, 500, 0, 0, 2500, 0, 10, 10},
    {T, "full_100nodes", NULL, 100, 0, 0, 990, 0, 10, 10},
    {T, "full_200nodes", NULL, 200, 0, 0, 1990, 0, 10, 10},
    {T, "full_500nodes", NULL, 500, 0, 0, 4990, 0, 10, 10},
    {T, "selector_fast", NULL, 1, 1, 0, 0, 0, 10, 0},
    {T, "selector_empty_500nodes", NULL, 500, 0, 0, 0, 0, 10, 10},
    {T, "match_fast", "match", 1, 1, 0, 0, 0, 2, 0},
    {T, "match_empty_500nodes", "match", 500, 0, 0, 0, 0, 10, 10},
    {"SchedulingWithResourceClaim", "fast", NULL, 1, 1, 0, 0, 0, 10, 0},
    {"SchedulingWithResourceClaim", "2000pods_200nodes", NULL, 200, 0, 0, 0, 1000, 1000, 0},
    {"SchedulingWithResourceClaim", "5000pods_500nodes", NULL, 500, 0, 0, 0, 2500, 2500, 0},
    {"FirstAvailable", "fast", NULL, 1, 1, 0, 0, 0, 10, 0},
    {"DeviceTaintToleration", "fast", NULL, 1, 1, 0, 0, 0, 10, 0},
    HALVES("Partitionable"),
    HALVES("PartitionableBacktracking"),
    HALVES("CompatibilityGroups"),
    {"ConsumableCapacity", "fast", NULL, 1, 1, 0, 0, 0, 1, 0},
    {"ConsumableCapacity", "fast_with_DRAPartitionableDevices", NULL, 1, 1, 0, 0, 0, 1, 0},
    {"ConsumableCapacity", "empty_100nodes", NULL, 100, 0, 0, 0, 0, 10, 10},
    {"ConsumableCapacity", "half_100nodes", NULL, 100, 0, 0, 0, 400, 10, 10},
    {"ConsumableCapacity", "empty_500nodes", NULL, 500, 0, 0, 0, 0, 10, 10},
    {"ConsumableCapacity", "half_500nodes", NULL, 500, 0, 0, 0, 2000, 10, 10},
    {"ConsumableCapacity", "full_500nodes", NULL, 500, 0, 0, 0, 3990, 10, 10},
    {"ConsumableCapacity", "empty_1000nodes", NULL, 1000, 0, 0, 0, 0, 10, 10},
    {"ConsumableCapacity", "half_1000nodes", NULL, 1000, 0, 0, 0, 4000, 10, 10},
    {"ConsumableCapacity", "full_1000nodes", NULL, 1000, 0, 0, 0, 7990, 10, 10},
    {"SchedulingWithResourceClaimTemplateListAttributes", "fast", NULL, 1, 0, 0, 0, 0, 1, 0},
    {"SchedulingWithResourceClaimTemplateListAttributes", "empty_500nodes", NULL, 500, 0, 0, 0, 0,
     500, 10},
    {"ExtendedResource", "fast", NULL, 1, 1, 10, 0, 0, 10, 0},
    {"ExtendedResource", "Explicit_25classes_2000pods_200nodes", NULL, 200, 0, 25, 0, 1000, 1000, 0},
    {"ExtendedResource", "Explicit_25classes_5000pods_500nodes", NULL, 500, 0, 25, 0, 2500, 2500, 0},
    {"ExtendedResource", "Explicit_50classes_2000pods_200nodes", NULL, 200, 0, 50, 0, 1000, 1000, 0},
    {"ExtendedResource", "Explicit_50classes_5000pods_500nodes", NULL, 500, 0, 50, 0, 2500, 2500, 0},
    {"ExtendedResource", "Implicit_25classes_2000pods_200nodes", "implicit", 200, 0, 25, 0, 1000,
     1000, 0},
    {"ExtendedResource", "Implicit_25classes_5000pods_500nodes", "implicit", 500, 0, 25, 0, 2500,
     2500, 0},
    {"ExtendedResourceScoring", "fast", NULL, 3, 1, 2, 0, 0, 10, 0},
    {"ExtendedResourceScoring", "2000pods_200nodes", NULL, 200, 0, 10, 0, 0, 2000, 0},
    {"ExtendedResourceScoring", "5000pods_500nodes", NULL, 500, 0, 20, 0, 0, 5000, 0},
    {"PublishResourceSlices", "500nodes", NULL, 500, 0, 0, 0, 0, 0, 0},
    {"PublishResourceSlices", "5000nodes", NULL, 5000, 0, 0, 0, 0, 0, 0},
    GROUPS("SharedPodGroupResourceClaim"),
    GROUPS("SharedPodGroupResourceClaimTemplate"),
};
// clang-format on

static const struct test *test_of(const struct workload *w)
{
    for (size_t i = 0; i < array_len(tests); i++)
        if (strcmp(tests[i].name, w->test) == 0)
            return &tests[i];
    return NULL;
}

// TEST/WORKLOAD, or a workload of the first test alone.
static const struct workload *find_workload(const char *name)
{
    for (size_t i = 0; i < array_len(workloads); i++) {
        const struct workload *w = &workloads[i];
        size_t n = strlen(w->test);
        if (strncmp(name, w->test, n) == 0 && name[n] == '/' && strcmp(name + n + 1, w->name) == 0)
            return w;
        if (strcmp(w->test, tests[0].name) == 0 && strcmp(w->name, name) == 0)
            return w;
    }
    return NULL;
}

int bench_workload_take(struct sched_bench *s, const char *name, struct err *err)
{
    const struct workload *w = find_workload(name);
    if (!w) {
        cleanup_sbuf struct sbuf known = {0};
        for (size_t i = 0; i < array_len(workloads); i++)
            sbuf_addf(&known, "%s%s/%s", i ? ", " : "", workloads[i].test, workloads[i].name);
        (void)fprintf(stderr, "workloads: %s\n", known.p);
        return err_set(err, ERR_INVALID, "--workload %s is not known; see the list above", name);
    }
    const struct test *t = test_of(w);
    s->variant = w->form ? w->form : t->form;
    s->gpus = t->devices;
    s->nodes = w->nodes;
    s->plain_nodes = w->plain;
    s->classes = w->classes;
    s->prefill = w->prefill;
    s->init_pods = w->init;
    s->pods = w->pods;
    s->steady_s = w->steady_s;
    return 0;
}
