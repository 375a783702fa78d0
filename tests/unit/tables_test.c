// SPDX-License-Identifier: Apache-2.0
//
// Tables, PartialObjectMetadata and Status objects.
#include "api/status.h"
#include "api/tables.h"
#include "unit.h"

#include "base/banned.h"

// 2001-09-09T01:46:40Z
#define NOW 1000000000

static struct api_object decode(const char *json, struct arena *arena)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o = {0};
    struct err err = {0};
    if (json_parse(str_z(json), NULL, &doc, &err) < 0 ||
        api_decode(&doc, doc.root, arena, NULL, &o, &err) < 0)
        fail_msg("%s in %s", err.msg, json);
    return o;
}

// row writes the row of an object.
static void row(const char *json, enum api_include include, struct sbuf *out)
{
    cleanup_arena struct arena arena = {0};
    struct json_writer w = {.out = out, .html = true};
    struct api_object o = decode(json, &arena);
    struct api_table_view t = {.kind = o.kind, .now = {NOW, 0}, .include = include};
    api_table_look(&t, o.value);
    assert_int_equal(api_table_row(&t, o.value, STR(""), &w, NULL), 0);
}

static void shows(const char *json, const char *want)
{
    cleanup_sbuf struct sbuf out = {0}, full = {0};
    row(json, API_INCLUDE_NONE, &out);
    sbuf_addf(&full, "{\"cells\":%s,\"object\":null}", want);
    assert_str(sbuf_str(&out), full.p);
}

#define META(name) \
    "\"metadata\":{\"name\":\"" name "\",\"creationTimestamp\":\"2001-09-09T01:41:20Z\"}"

static void claims_show_their_state(void **state)
{
    (void)state;
#define CLAIM "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\"," META("c")
    shows(CLAIM "}", "[\"c\",\"pending\",\"5m20s\"]");
    shows(CLAIM ",\"status\":{\"allocation\":{}}}", "[\"c\",\"allocated\",\"5m20s\"]");
    shows(CLAIM ",\"status\":{\"allocation\":{},\"reservedFor\":[{\"resource\":\"pods\",\"name\":"
                "\"p\",\"uid\":\"u\"}]}}",
          "[\"c\",\"allocated,reserved\",\"5m20s\"]");
    shows("{\"apiVersion\":\"resource.k8s.io/v1beta1\",\"kind\":\"ResourceClaim\",\"metadata\":{"
          "\"name\":\"c\",\"deletionTimestamp\":\"2001-09-09T01:41:20Z\"}}",
          "[\"c\",\"deleted\",\"\\u003cunknown\\u003e\"]");
}

static void kinds_of_the_group_have_their_columns(void **state)
{
    (void)state;
    shows("{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\"," META(
              "s") ",\"spec\":{\"nodeName\":\"n\",\"driver\":\"d\",\"pool\":{\"name\":\"p\"}}}",
          "[\"s\",\"n\",\"d\",\"p\",\"5m20s\"]");
    shows("{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceTaintRule\"," META(
              "t") ",\"spec\":{\"taint\":{\"key\":\"k\",\"effect\":\"NoExecute\"}}}",
          "[\"t\",\"k\",\"\",\"NoExecute\",\"\",\"5m20s\"]");
    shows("{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceClass\"," META("d") "}",
          "[\"d\",\"5m20s\"]");
    shows(
        "{\"apiVersion\":\"resource.k8s.io/v1alpha3\",\"kind\":\"ResourcePoolStatusRequest\"," META(
            "r") ",\"spec\":{\"driver\":\"d\"},\"status\":{\"poolCount\":3,\"pools\":[{\"driver\":"
                 "\"d\",\"poolName\":\"p\",\"generation\":1,\"totalDevices\":4,"
                 "\"allocatedDevices\":1,\"availableDevices\":3}],\"conditions\":[{\"type\":"
                 "\"Complete\",\"status\":\"True\",\"lastTransitionTime\":\"2001-09-09T01:46:30Z\","
                 "\"reason\":\"\",\"message\":\"\"}]}}",
        "[\"r\",\"d\",\"4\",\"3\",\"1\",\"0\",\"0\",3,\"Complete (1/3 pools)\",\"10s\"]");
}

static void what_steers_a_cluster_has_its_columns(void **state)
{
    (void)state;
    shows("{\"apiVersion\":\"certificates.k8s.io/v1\",\"kind\":\"CertificateSigningRequest\"," META(
              "x") ",\"spec\":{\"signerName\":\"s.io/"
                   "x\",\"username\":\"u\",\"expirationSeconds\":3600,\"request\":\"\",\"usages\":["
                   "]}}",
          "[\"x\",\"5m20s\",\"s.io/x\",\"u\",\"60m\",\"Pending\"]");
    shows("{\"apiVersion\":\"certificates.k8s.io/v1\",\"kind\":\"CertificateSigningRequest\"," META(
              "x") ",\"spec\":{\"signerName\":\"s.io/"
                   "x\",\"username\":\"u\",\"request\":\"\",\"usages\":[]},\"status\":{"
                   "\"certificate\":\"QQ==\",\"conditions\":[{\"type\":\"Approved\",\"status\":"
                   "\"True\"}]}}",
          "[\"x\",\"5m20s\",\"s.io/x\",\"u\",\"\\u003cnone\\u003e\",\"Approved,Issued\"]");
    shows("{\"apiVersion\":\"certificates.k8s.io/v1\",\"kind\":\"CertificateSigningRequest\"," META(
              "x") ",\"spec\":{\"signerName\":\"s.io/"
                   "x\",\"username\":\"u\",\"request\":\"\",\"usages\":[]},\"status\":{"
                   "\"conditions\":[{\"type\":\"Approved\",\"status\":\"True\"},{\"type\":"
                   "\"Denied\",\"status\":\"True\"},{\"type\":\"Failed\",\"status\":\"True\"}]}}",
          "[\"x\",\"5m20s\",\"s.io/x\",\"u\",\"\\u003cnone\\u003e\",\"Denied,Failed\"]");
    shows("{\"apiVersion\":\"certificates.k8s.io/v1\",\"kind\":\"ClusterTrustBundle\"," META(
              "x") ",\"spec\":{\"trustBundle\":\"t\"}}",
          "[\"x\",\"\\u003cnone\\u003e\"]");
    shows("{\"apiVersion\":\"certificates.k8s.io/v1\",\"kind\":\"PodCertificateRequest\"," META(
              "x") ",\"spec\":{\"podName\":\"p\",\"serviceAccountName\":\"a\",\"nodeName\":\"n\","
                   "\"signerName\":\"s\",\"unverifiedUserAnnotations\":{\"k\":\"v\"}},\"status\":{"
                   "\"conditions\":[{\"type\":\"Issued\",\"status\":\"True\"}]}}",
          "[\"x\",\"p\",\"a\",\"n\",\"s\",\"Issued\",\"k=v\"]");
    shows("{\"apiVersion\":\"admissionregistration.k8s.io/"
          "v1\",\"kind\":\"MutatingWebhookConfiguration\"," META(
              "x") ",\"webhooks\":[{\"name\":\"a\"},{\"name\":\"b\"}]}",
          "[\"x\",2,\"5m20s\"]");
    shows("{\"apiVersion\":\"admissionregistration.k8s.io/"
          "v1\",\"kind\":\"ValidatingWebhookConfiguration\"," META("x") "}",
          "[\"x\",0,\"5m20s\"]");
    shows("{\"apiVersion\":\"admissionregistration.k8s.io/"
          "v1\",\"kind\":\"ValidatingAdmissionPolicy\"," META(
              "x") ",\"spec\":{\"paramKind\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"},"
                   "\"validations\":[{\"expression\":\"true\"}]}}",
          "[\"x\",1,\"v1/ConfigMap\",\"5m20s\"]");
    shows("{\"apiVersion\":\"admissionregistration.k8s.io/"
          "v1\",\"kind\":\"ValidatingAdmissionPolicyBinding\"," META(
              "x") ",\"spec\":{\"policyName\":\"p\",\"paramRef\":{\"name\":\"n\"}}}",
          "[\"x\",\"p\",\"*/n\",\"5m20s\"]");
    shows("{\"apiVersion\":\"admissionregistration.k8s.io/"
          "v1\",\"kind\":\"ValidatingAdmissionPolicyBinding\"," META(
              "x") ",\"spec\":{\"policyName\":\"p\",\"paramRef\":{\"selector\":{\"matchLabels\":{"
                   "\"a\":\"b\"},\"matchExpressions\":[{\"key\":\"k\",\"operator\":\"In\","
                   "\"values\":[\"c\",\"d\"]}]}}}}",
          "[\"x\",\"p\",\"\\u0026LabelSelector{MatchLabels:map[string]string{a: "
          "b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:"
          "In,Values:[c d],},},}\",\"5m20s\"]");
    shows("{\"apiVersion\":\"flowcontrol.apiserver.k8s.io/v1\",\"kind\":\"FlowSchema\"," META(
              "x") ",\"spec\":{\"priorityLevelConfiguration\":{\"name\":\"l\"},"
                   "\"matchingPrecedence\":7,\"distinguisherMethod\":{\"type\":\"ByUser\"}},"
                   "\"status\":{\"conditions\":[{\"type\":\"Dangling\",\"status\":\"False\"}]}}",
          "[\"x\",\"l\",7,\"ByUser\",\"5m20s\",\"False\"]");
    shows("{\"apiVersion\":\"flowcontrol.apiserver.k8s.io/"
          "v1\",\"kind\":\"PriorityLevelConfiguration\"," META(
              "x") ",\"spec\":{\"type\":\"Limited\",\"limited\":{\"nominalConcurrencyShares\":3,"
                   "\"limitResponse\":{\"type\":\"Queue\",\"queuing\":{\"queues\":64,\"handSize\":"
                   "6,\"queueLengthLimit\":50}}}}}",
          "[\"x\",\"Limited\",3,64,6,50,\"5m20s\"]");
    shows("{\"apiVersion\":\"flowcontrol.apiserver.k8s.io/"
          "v1\",\"kind\":\"PriorityLevelConfiguration\"," META(
              "x") ",\"spec\":{\"type\":\"Exempt\"}}",
          "[\"x\",\"Exempt\",\"\\u003cnone\\u003e\",\"\\u003cnone\\u003e\",\"\\u003cnone\\u003e\","
          "\"\\u003cnone\\u003e\",\"5m20s\"]");
    shows("{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\"," META(
              "x") ",\"spec\":{\"scaleTargetRef\":{\"kind\":\"Deployment\",\"name\":\"d\"},"
                   "\"maxReplicas\":5,\"minReplicas\":2,\"metrics\":[{\"type\":\"Resource\","
                   "\"resource\":{\"name\":\"cpu\",\"target\":{\"type\":\"Utilization\","
                   "\"averageUtilization\":80}}},{\"type\":\"External\",\"external\":{\"metric\":{"
                   "\"name\":\"m\"},\"target\":{\"type\":\"AverageValue\",\"averageValue\":\"3\"}}}"
                   ",{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"m\"},\"target\":{\"type\":"
                   "\"AverageValue\",\"averageValue\":\"1\"}}}]},\"status\":{\"currentReplicas\":3,"
                   "\"desiredReplicas\":3,\"currentMetrics\":[{\"type\":\"Resource\",\"resource\":{"
                   "\"name\":\"cpu\",\"current\":{\"averageUtilization\":40,\"averageValue\":"
                   "\"100m\"}}}]}}",
          "[\"x\",\"Deployment/d\",\"cpu: 40%/80%, \\u003cunknown\\u003e/3 (avg) + 1 "
          "more...\",\"2\",5,3,\"5m20s\"]");
    shows("{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\"," META(
              "x") ",\"spec\":{\"scaleTargetRef\":{\"kind\":\"Deployment\",\"name\":\"d\"},"
                   "\"maxReplicas\":5,\"metrics\":[{\"type\":\"Object\",\"object\":{"
                   "\"describedObject\":{\"kind\":\"Service\",\"name\":\"s\"},\"metric\":{\"name\":"
                   "\"m\"},\"target\":{\"type\":\"Value\",\"value\":\"2k\"}}}]},\"status\":{"
                   "\"currentReplicas\":0,\"desiredReplicas\":0,\"currentMetrics\":[{\"type\":"
                   "\"Object\",\"object\":{\"metric\":{\"name\":\"m\"},\"describedObject\":{"
                   "\"kind\":\"Service\",\"name\":\"s\"},\"current\":{\"value\":\"1k\"}}}]}}",
          "[\"x\",\"Deployment/d\",\"1k/2k\",\"\\u003cunset\\u003e\",5,0,\"5m20s\"]");
    shows("{\"apiVersion\":\"storage.k8s.io/v1\",\"kind\":\"VolumeAttributesClass\"," META(
              "x") ",\"driverName\":\"d.io\"}",
          "[\"x\",\"d.io\",\"5m20s\"]");
    shows(
        "{\"apiVersion\":\"storagemigration.k8s.io/v1\",\"kind\":\"StorageVersionMigration\"," META(
            "x") ",\"spec\":{\"resource\":{\"group\":\"apps\",\"resource\":\"deployments\"}},"
                 "\"status\":{\"conditions\":[{\"type\":\"Running\",\"status\":\"False\"},{"
                 "\"type\":\"Succeeded\",\"status\":\"True\"}]}}",
        "[\"x\",\"deployments.apps\",\"Succeeded\"]");
}

static void networks_have_their_columns(void **state)
{
    (void)state;
    shows("{\"apiVersion\":\"discovery.k8s.io/v1\",\"kind\":\"EndpointSlice\"," META(
              "x") ",\"addressType\":\"IPv4\",\"ports\":[{\"port\":80},{\"name\":\"web\"},{},{"
                   "\"port\":1}],\"endpoints\":[{\"addresses\":[\"1.1.1.1\",\"1.1.1.2\"]},{"
                   "\"addresses\":[\"1.1.1.3\"]}]}",
          "[\"x\",\"IPv4\",\"80,web,* + 1 more...\",\"1.1.1.1,1.1.1.2,1.1.1.3\",\"5m20s\"]");
    shows("{\"apiVersion\":\"discovery.k8s.io/v1\",\"kind\":\"EndpointSlice\"," META(
              "x") ",\"addressType\":\"IPv6\",\"endpoints\":[]}",
          "[\"x\",\"IPv6\",\"\\u003cunset\\u003e\",\"\\u003cunset\\u003e\",\"5m20s\"]");
    shows("{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"Ingress\"," META(
              "x") ",\"spec\":{\"ingressClassName\":\"c\",\"tls\":[{}],\"rules\":[{\"host\":\"a\"},"
                   "{\"host\":\"b\"},{\"host\":\"c\"},{\"host\":\"d\"}]},\"status\":{"
                   "\"loadBalancer\":{\"ingress\":[{\"ip\":\"2.2.2.2\"},{\"hostname\":\"h\"},{"
                   "\"ip\":\"1.1.1.1\"},{\"ip\":\"2.2.2.2\"}]}}}",
          "[\"x\",\"c\",\"a,b,c + 1 more...\",\"1.1.1.1,2.2.2.2,h\",\"80, 443\",\"5m20s\"]");
    shows("{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"Ingress\"," META("x") "}",
          "[\"x\",\"\\u003cnone\\u003e\",\"*\",\"\",\"80\",\"5m20s\"]");
    shows("{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"IngressClass\"," META(
              "x") ",\"spec\":{\"controller\":\"c.io/"
                   "x\",\"parameters\":{\"apiGroup\":\"g.io\",\"kind\":\"K\",\"name\":\"n\"}}}",
          "[\"x\",\"c.io/x\",\"K.g.io/n\",\"5m20s\"]");
    shows("{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"IPAddress\"," META(
              "x") ",\"spec\":{\"parentRef\":{\"resource\":\"services\",\"namespace\":\"ns\","
                   "\"name\":\"s\"}}}",
          "[\"x\",\"services/ns/s\"]");
    shows("{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"ServiceCIDR\"," META(
              "x") ",\"spec\":{\"cidrs\":[\"10.0.0.0/16\",\"fd00::/108\"]}}",
          "[\"x\",\"10.0.0.0/16,fd00::/108\",\"5m20s\"]");
    shows("{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"NetworkPolicy\"," META(
              "x") ",\"spec\":{\"podSelector\":{\"matchLabels\":{\"a\":\"b\"}}}}",
          "[\"x\",\"a=b\",\"5m20s\"]");
}

#define POD "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"," META("p")

static void pods_are_summed_up(void **state)
{
    (void)state;
    shows(
        POD ",\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"nodeName\":\"n\"},"
            "\"status\":{\"phase\":\"Running\",\"podIP\":\"1.2.3.4\",\"containerStatuses\":[{"
            "\"name\":\"a\",\"ready\":true,\"restartCount\":2,\"image\":\"\",\"imageID\":\"\","
            "\"state\":{\"running\":{}},\"lastState\":{\"terminated\":{\"exitCode\":1,"
            "\"finishedAt\":\"2001-09-09T01:46:00Z\"}}},{\"name\":\"b\",\"ready\":false,"
            "\"restartCount\":0,\"image\":\"\",\"imageID\":\"\",\"state\":{\"waiting\":{"
            "\"reason\":\"CrashLoopBackOff\"}}}]}}",
        "[\"p\",\"1/2\",\"CrashLoopBackOff\",\"2 (40s ago)\",\"5m20s\",\"1.2.3.4\",\"n\",\"\\u003c"
        "none\\u003e\",\"\\u003cnone\\u003e\"]");
    shows(
        POD ",\"spec\":{\"initContainers\":[{\"name\":\"i\"}],\"containers\":[{\"name\":\"a\"}]},"
            "\"status\":{\"phase\":\"Pending\",\"initContainerStatuses\":[{\"name\":\"i\","
            "\"ready\":false,\"restartCount\":0,\"image\":\"\",\"imageID\":\"\",\"state\":{"
            "\"running\":{}}}]}}",
        "[\"p\",\"0/1\",\"Init:0/1\",\"0\",\"5m20s\",\"\\u003cnone\\u003e\",\"\\u003cnone\\u003e\","
        "\"\\u003cnone\\u003e\",\"\\u003cnone\\u003e\"]");
    shows(POD ",\"spec\":{\"containers\":[{\"name\":\"a\"}]},\"status\":{\"phase\":\"Pending\","
              "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
              "\"SchedulingGated\"}]}}",
          "[\"p\",\"0/1\",\"SchedulingGated\",\"0\",\"5m20s\",\"\\u003cnone\\u003e\",\"\\u003cnone"
          "\\u003e\",\"\\u003cnone\\u003e\",\"\\u003cnone\\u003e\"]");
}

static void pods_that_ended_are_marked(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf out = {0};
    row(POD ",\"status\":{\"phase\":\"Succeeded\"}}", API_INCLUDE_NONE, &out);
    assert_true(str_contains(sbuf_str(&out),
                             STR("\"conditions\":[{\"type\":\"Completed\",\"status\":\"True\","
                                 "\"reason\":\"Succeeded\",\"message\":\"The pod has completed "
                                 "successfully.\"}],\"object\":null")));
}

static void nodes_events_and_others(void **state)
{
    (void)state;
    shows(
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\",\"labels\":{"
        "\"node-role.kubernetes.io/worker\":\"\",\"node-role.kubernetes.io/control-plane\":\"\"}},"
        "\"spec\":{\"unschedulable\":true},\"status\":{\"conditions\":[{\"type\":\"Ready\","
        "\"status\":\"True\"}],\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"}],"
        "\"nodeInfo\":{\"kubeletVersion\":\"v1.37.0\",\"kernelVersion\":\"6.1\",\"architecture\":"
        "\"amd64\"}}}",
        "[\"n\",\"Ready,SchedulingDisabled\",\"control-plane,worker\",\"\\u003cunknown\\u003e\","
        "\"v1.37.0\",\"10.0.0.1\",\"\\u003cnone\\u003e\",\"\\u003cunknown\\u003e\",\"6.1 (amd64)\","
        "\"\\u003cunknown\\u003e\"]");
    shows(
        "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"e\"},"
        "\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"p\"},\"reason\":\"R\",\"message\":\" m \","
        "\"type\":\"Normal\",\"lastTimestamp\":\"2001-09-09T01:46:38Z\",\"source\":{\"component\":"
        "\"k\",\"host\":\"h\"}}",
        "[\"2s\",\"Normal\",\"R\",\"pod/p\",\"\",\"k, h\",\"m\",\"\\u003cunknown\\u003e\",1,"
        "\"e\"]");
    shows("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"," META("c") ",\"data\":{\"a\":\"1\","
                                                                     "\"b\":\"2\"}}",
          "[\"c\",2,\"5m20s\"]");
    shows(
        "{\"apiVersion\":\"v1\",\"kind\":\"Service\"," META(
            "s") ",\"spec\":{\"type\":\"NodePort\",\"clusterIP\":\"10.1.1.1\",\"ports\":[{\"port\":"
                 "80,\"nodePort\":30080,\"protocol\":\"TCP\"}],\"selector\":{\"a\":\"b\"}}}",
        "[\"s\",\"NodePort\",\"10.1.1.1\",\"\\u003cnone\\u003e\",\"80:30080/TCP\",\"5m20s\","
        "\"a=b\"]");
    shows("{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\"," META(
              "d") ",\"spec\":{\"replicas\":3,\"selector\":{\"matchLabels\":{\"a\":\"b\"}},"
                   "\"template\":{\"spec\":{\"containers\":[{\"name\":\"x\",\"image\":\"i\"}]}}},"
                   "\"status\":{\"readyReplicas\":1}}",
          "[\"d\",\"1/3\",0,0,\"5m20s\",\"x\",\"i\",\"a=b\"]");
    shows("{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\"," META(
              "j") ",\"spec\":{\"completions\":2,\"template\":{\"spec\":{\"containers\":[]}}},"
                   "\"status\":{\"succeeded\":1,\"startTime\":\"2001-09-09T01:45:40Z\"}}",
          "[\"j\",\"Running\",\"1/2\",\"60s\",\"5m20s\",\"\",\"\",\"\\u003cnone\\u003e\"]");
    shows("{\"apiVersion\":\"storage.k8s.io/v1\",\"kind\":\"StorageClass\",\"metadata\":{\"name\":"
          "\"s\",\"annotations\":{\"storageclass.kubernetes.io/is-default-class\":\"true\"}},"
          "\"provisioner\":\"p\"}",
          "[\"s (default)\",\"p\",\"Delete\",\"Immediate\",false,\"\\u003cunknown\\u003e\"]");
    shows("{\"apiVersion\":\"v1\",\"kind\":\"LimitRange\"," META("l") "}",
          "[\"l\",\"2001-09-09T01:41:20Z\"]");
}

static void ages_are_short(void **state)
{
    (void)state;
    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {
        {0, "0s"},         {119, "119s"},         {120, "2m"},           {601, "10m"},
        {10800, "3h"},     {3600 * 8, "8h"},      {3600 * 48, "2d"},     {3600 * 50, "2d2h"},
        {86400 * 8, "8d"}, {86400 * 729, "729d"}, {86400 * 731, "2y1d"}, {86400LL * 3650, "10y"},
        {-1, "0s"},        {-2, "<invalid>"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_sbuf struct sbuf out = {0};
        struct api_time since = {{NOW - cases[i].seconds, 0}, true};
        sbuf_add_age(&out, &since, (struct moment){NOW, 0});
        assert_str(sbuf_str(&out), cases[i].text);
    }
}

// Every kind can be written as a table, and what is written is a Table.
static void every_kind_has_a_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < api_kinds_len; i++) {
        if (api_kinds[i].plural.n == 0)
            continue;
        cleanup_arena struct arena arena = {0};
        cleanup_sbuf struct sbuf out = {0};
        cleanup_json_doc struct json_doc doc = {0};
        struct json_writer w = {.out = &out};
        struct api_object o;
        void *value = arena_alloc(&arena, api_kinds[i].type->size, _Alignof(max_align_t));
        struct api_table_view t = {.kind = &api_kinds[i], .include = API_INCLUDE_METADATA};
        api_table_begin(&t, NULL, &w);
        assert_int_equal(api_table_row(&t, value, STR(""), &w, NULL), 0);
        api_table_end(&w);
        assert_int_equal(json_parse(sbuf_str(&out), NULL, &doc, NULL), 0);
        assert_int_equal(api_decode(&doc, doc.root, &arena, NULL, &o, NULL), 0);
        const struct api_table *table = o.value;
        assert_int_equal(table->rows.n, 1);
        assert_int_equal(table->rows.p[0].cells.n, table->column_definitions.n);
    }
}

static void rows_include_what_is_asked_for(void **state)
{
    (void)state;
    enum api_include include;
    struct err err = {0};
    cleanup_sbuf struct sbuf out = {0};
    assert_int_equal(api_include_parse(STR(""), &include, &err), 0);
    assert_int_equal(include, API_INCLUDE_METADATA);
    assert_int_equal(api_include_parse(STR("Object"), &include, &err), 0);
    row("{\"apiVersion\":\"v1\",\"kind\":\"ServiceAccount\"," META("s") "}", include, &out);
    assert_true(
        str_ends(sbuf_str(&out), STR(",\"object\":{\"kind\":\"ServiceAccount\",\"apiVersion\":"
                                     "\"v1\",\"metadata\":{\"name\":\"s\","
                                     "\"creationTimestamp\":\"2001-09-09T01:41:20Z\"}}}")));
    assert_int_equal(api_include_parse(STR("x"), &include, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "unrecognized includeObject value: \"x\"");
}

// --- Status --------------------------------------------------------------------------------------

static const struct status_subject claim = {STR_INIT("resource.k8s.io"), STR_INIT("resourceclaims"),
                                            STR_INIT("x")};

static void is_status(const struct api_status *s, int code, const char *reason, const char *message)
{
    assert_int_equal(s->code, code);
    assert_str(s->reason, reason);
    assert_str(s->message, message);
    assert_str(s->status, "Failure");
}

static void statuses_are_upstreams(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct status_subject pod = {STR(""), STR("pods"), STR("p")};
    is_status(api_status_not_found(&a, &claim), 404, "NotFound",
              "resourceclaims.resource.k8s.io \"x\" not found");
    is_status(api_status_not_found(&a, &pod), 404, "NotFound", "pods \"p\" not found");
    is_status(api_status_already_exists(&a, &pod), 409, "AlreadyExists",
              "pods \"p\" already exists");
    is_status(
        api_status_conflict(&a, &claim, STR(API_STATUS_MODIFIED)), 409, "Conflict",
        "Operation cannot be fulfilled on resourceclaims.resource.k8s.io \"x\": the object has "
        "been modified; please apply your changes to the latest version and try again");
    is_status(api_status_forbidden(&a, &pod, STR("no")), 403, "Forbidden",
              "pods \"p\" is forbidden: no");
    is_status(api_status_of(&a, &pod, &(struct err){.code = ERR_UNAUTHORIZED}), 401, "Unauthorized",
              "not authorized");
    is_status(api_status_method_not_allowed(&a, &claim, STR("create")), 405, "MethodNotAllowed",
              "create is not supported on resources of kind \"resourceclaims.resource.k8s.io\"");
    is_status(api_status_too_large(&a, STR("big")), 413, "RequestEntityTooLarge",
              "Request entity too large: big");
    is_status(api_status_internal(&a, STR("oops")), 500, "InternalError",
              "Internal error occurred: oops");
    is_status(api_status_unknown(&a, STR("oops")), 500, "", "oops");
    const struct api_status *s = api_status_resource_version_too_large(&a, 9, 4, 1);
    is_status(s, 504, "Timeout", "Timeout: Too large resource version: 9, current: 4");
    assert_str(s->details->causes.p[0].reason, "ResourceVersionTooLarge");
    s = api_status_too_many(&a, STR("wait"), 3);
    is_status(s, 429, "TooManyRequests", "wait");
    assert_int_equal(s->details->retry_after_seconds, 3);
}

static void invalid_lists_its_causes(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    struct causes causes = {.arena = &a};
    struct path spec = path_root(STR("spec")), name = path_field(&spec, STR("name"));
    struct status_subject subject = {STR("resource.k8s.io"), STR("ResourceClaim"), STR("x")};
    (void)cause_required(&causes, &name, STR(""));
    is_status(api_status_invalid(&a, &subject, &causes), 422, "Invalid",
              "ResourceClaim.resource.k8s.io \"x\" is invalid: spec.name: Required value");
    (void)cause_invalid(&causes, &spec, STR("v"), STR("bad"));
    (void)cause_required(&causes, &name, STR(""));
    const struct api_status *s = api_status_invalid(&a, &subject, &causes);
    is_status(s, 422, "Invalid",
              "ResourceClaim.resource.k8s.io \"x\" is invalid: [spec.name: Required value, spec: "
              "Invalid value: \"v\": bad]");
    assert_int_equal(s->details->causes.n, 3);
    assert_int_equal(api_json_write(&api_status_type, s, &w, NULL), 0);
    assert_true(str_contains(sbuf_str(&out),
                             STR("\"details\":{\"name\":\"x\",\"group\":\"resource.k8s.io\","
                                 "\"kind\":\"ResourceClaim\",\"causes\":[{\"reason\":"
                                 "\"FieldValueRequired\",\"message\":\"Required value\",\"field\":"
                                 "\"spec.name\"},")));
}

static void errors_become_statuses(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct err err = {0};
    (void)err_set(&err, ERR_NOT_FOUND, "whatever");
    is_status(api_status_of(&a, &claim, &err), 404, "NotFound",
              "resourceclaims.resource.k8s.io \"x\" not found");
    (void)err_set(&err, ERR_EXPIRED, "too old resource version: 1 (5)");
    is_status(api_status_of(&a, &claim, &err), 410, "Expired", "too old resource version: 1 (5)");
    (void)err_set(&err, EIO, "disk");
    is_status(api_status_of(&a, &claim, &err), 500, "InternalError",
              "Internal error occurred: disk");
    const struct api_status *s = api_status_success(&a, &claim, STR("u"));
    assert_str(s->status, "Success");
    assert_str(s->details->uid, "u");
}

RUN_TESTS(TEST_CASE(claims_show_their_state), TEST_CASE(kinds_of_the_group_have_their_columns),
          TEST_CASE(what_steers_a_cluster_has_its_columns), TEST_CASE(networks_have_their_columns),
          TEST_CASE(pods_are_summed_up), TEST_CASE(pods_that_ended_are_marked),
          TEST_CASE(nodes_events_and_others), TEST_CASE(ages_are_short),
          TEST_CASE(every_kind_has_a_table), TEST_CASE(rows_include_what_is_asked_for),
          TEST_CASE(statuses_are_upstreams), TEST_CASE(invalid_lists_its_causes),
          TEST_CASE(errors_become_statuses))
