// SPDX-License-Identifier: Apache-2.0
//
// Scheduler rules on whatever the registry accepts: pods and nodes with any affinity, spreading,
// tolerations, selectors, ports, resources and claims. The scheduler comes to rest within bounds,
// and no node holds more pods than it allows. cluster.h has the events.
#include "cluster.h"
#include "fuzz.h"

#include "base/banned.h"

#define NODE(name, zone, taints)                                                       \
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"" name          \
    "\",\"labels\":{\"zone\":\"" zone "\",\"kubernetes.io/hostname\":\"" name          \
    "\",\"n\":\"5\"}},\"spec\":{\"unschedulable\":false,\"taints\":[" taints           \
    "]},\"status\":{\"allocatable\":{\"cpu\":\"8\",\"memory\":\"8Gi\",\"pods\":\"3\"," \
    "\"d.io/"                                                                          \
    "x\":\"2\",\"ephemeral-storage\":\"10Gi\"},\"capacity\":{\"cpu\":\"8\",\"pods\":\"3\"}}}"
#define POD(name, spec)                                                                       \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name                  \
    "\",\"labels\":{\"a\":\"b\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"," \
    "\"ports\":[{\"containerPort\":80,\"hostPort\":0}],\"resources\":{\"requests\":{\"cpu\":" \
    "\"1\",\"memory\":\"1Gi\"},\"limits\":{\"d.io/x\":\"1\"}}}]," spec "}}"
#define TERM                                                                                       \
    "{\"labelSelector\":{\"matchLabels\":{\"a\":\"b\"}},\"topologyKey\":\"zone\",\"namespaces\":[" \
    "\"default\"],\"matchLabelKeys\":[\"a\"]}"

static const char *const fuzz_scheduler_bases[] = {
    NODE("n1", "a", ""),
    NODE("n2", "b", "{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoSchedule\"}"),
    NODE("n3", "b", "{\"key\":\"5\",\"value\":\"1\",\"effect\":\"PreferNoSchedule\"}"),
    POD("p1", "\"terminationGracePeriodSeconds\":0"),
    POD("p2",
        "\"affinity\":{\"podAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[" TERM
        "]},\"podAntiAffinity\":{\"preferredDuringSchedulingIgnoredDuringExecution\":[{"
        "\"weight\":5,\"podAffinityTerm\":" TERM "}]}}"),
    POD("p3", "\"affinity\":{\"podAntiAffinity\":{"
              "\"requiredDuringSchedulingIgnoredDuringExecution\":[" TERM "]}}"),
    POD("p4",
        "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"
        "\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"n\",\"operator\":\"Gt\","
        "\"values\":[\"4\"]},{\"key\":\"zone\",\"operator\":\"In\",\"values\":[\"a\"]}],"
        "\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n1\"]}]"
        "}]},\"preferredDuringSchedulingIgnoredDuringExecution\":[{\"weight\":100,"
        "\"preference\":{\"matchExpressions\":[{\"key\":\"n\",\"operator\":\"Lt\",\"values\":["
        "\"9\"]}]}}]}}"),
    POD("p5", "\"topologySpreadConstraints\":[{\"maxSkew\":1,\"minDomains\":2,\"topologyKey\":"
              "\"zone\",\"whenUnsatisfiable\":\"DoNotSchedule\",\"nodeAffinityPolicy\":\"Honor\","
              "\"nodeTaintsPolicy\":\"Ignore\",\"labelSelector\":{\"matchExpressions\":[{\"key\":"
              "\"a\",\"operator\":\"In\",\"values\":[\"b\"]}]},\"matchLabelKeys\":[\"a\"]},{"
              "\"maxSkew\":2,\"topologyKey\":\"kubernetes.io/hostname\",\"whenUnsatisfiable\":"
              "\"ScheduleAnyway\"}]"),
    POD("p6", "\"tolerations\":[{\"key\":\"k\",\"operator\":\"Equal\",\"value\":\"v\",\"effect\":"
              "\"NoSchedule\"},{\"operator\":\"Exists\",\"effect\":\"NoExecute\","
              "\"tolerationSeconds\":5},{\"key\":\"5\",\"operator\":\"Lt\",\"value\":\"3\"}],"
              "\"nodeSelector\":{\"zone\":\"b\"},\"priority\":0"),
    POD("p7", "\"overhead\":{\"cpu\":\"1\"},\"initContainers\":[{\"name\":\"i\",\"image\":\"i\","
              "\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"2\","
              "\"ephemeral-storage\":\"1Gi\",\"hugepages-2Mi\":\"2Mi\",\"memory\":\"1Gi\"},"
              "\"limits\":{\"hugepages-2Mi\":\"2Mi\"}}}],\"hostNetwork\":true"),
    POD("p8", "\"resourceClaims\":[{\"name\":\"g\",\"resourceClaimName\":\"c\"}],"
              "\"schedulingGates\":[{\"name\":\"g\"}]"),
    POD("p9", "\"resourceClaims\":[{\"name\":\"g\",\"resourceClaimName\":\"c\"}]"),
    "{\"apiVersion\":\"resource.k8s.io/"
    "v1\",\"kind\":\"ResourceClaim\",\"metadata\":{\"name\":\"c\"},"
    "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"x\","
    "\"allocationMode\":\"ExactCount\",\"count\":1}}]}}}",
    "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceClass\",\"metadata\":{\"name\":\"x\"},"
    "\"spec\":{\"selectors\":[{\"cel\":{\"expression\":\"device.driver == 'd.io'\"}}]}}",
    "{\"apiVersion\":\"resource.k8s.io/"
    "v1\",\"kind\":\"ResourceSlice\",\"metadata\":{\"name\":\"s\"},"
    "\"spec\":{\"driver\":\"d.io\",\"pool\":{\"name\":\"p\",\"generation\":1,"
    "\"resourceSliceCount\":1},"
    "\"nodeName\":\"n1\",\"devices\":[{\"name\":\"a\"},{\"name\":\"b\",\"taints\":[{\"key\":\"k\","
    "\"effect\":\"NoSchedule\"}]}]}}",
};

// Whether an input changes nodes, or may bind pods by itself: then nothing is known of their number.
static bool fuzz_scheduler_changes_nodes(struct str text)
{
    while (text.n) {
        struct str line;
        str_cut(text, '\n', &line, &text);
        if (line.n && line.p[0] == '{')
            return true;
        if (line.n > 1 && line.p[0] == 'W' &&
            (unsigned char)line.p[1] % array_len(fuzz_scheduler_bases) < 3)
            return true;
    }
    return false;
}

static void fuzz_scheduler_check(struct fuzz_cluster *c)
{
    size_t held[3] = {0};
    struct store_walk walk = {.kind = api_kind_find(STR("v1"), STR("Pod"))};
    if (store_walk_start(c->store, &walk, NULL) < 0)
        return;
    const struct object *o;
    while ((o = store_walk_next(c->store, &walk)))
        for (size_t i = 0; i < array_len(held); i++) {
            char text[] = "\"nodeName\":\"n0\"";
            text[sizeof(text) - 3] = (char)('1' + i);
            held[i] += str_find(o->json, str_z(text)) >= 0;
        }
    store_walk_done(&walk);
    for (size_t i = 0; i < array_len(held); i++)
        assert(held[i] <= 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cluster c = {.bases = fuzz_scheduler_bases,
                             .bases_len = array_len(fuzz_scheduler_bases)};
    struct str text = str_make((const char *)data, size);
    cluster_open(&c, false);
    for (size_t i = 0; i < 3; i++)
        cluster_put_json(&c, str_z(fuzz_scheduler_bases[i]));
    cluster_run(&c, text);
    cluster_pass(&c, 20);
    assert(sched_idle(c.sched));
    if (!fuzz_scheduler_changes_nodes(text))
        fuzz_scheduler_check(&c);
    cluster_close(&c);
    return 0;
}
