// SPDX-License-Identifier: Apache-2.0
//
// Rules of pods: what is set when they are made, and their subresources.
#include "registry_world.h"

#include "base/banned.h"

#define POD_SUB(sub) ((struct target){"v1", "Pod", sub, "default", "p"})
#define CONTAINERS   "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]"

static struct reply *make_pod(struct world *w, const char *meta, const char *spec)
{
    return do_create(w, POD(NULL),
                     arena_strf(&w->arena,
                                "{\"metadata\":{\"name\":\"p\"%s},\"spec\":{" CONTAINERS "%s}}",
                                meta, spec)
                         .p);
}

TEST_IN_WORLD(test_new_pods)
{
    assert_ok(make_pod(w, "", ""));
    assert_field(w, "metadata.generation", "1");
    assert_field(w, "status.phase", "Pending");
    assert_field(w, "status.qosClass", "BestEffort");
    assert_field(w, "spec.serviceAccountName", "default");
    assert_field(w, "spec.serviceAccount", "default");
    assert_field(w, "spec.priority", "0");
    assert_field(w, "spec.preemptionPolicy", "PreemptLowerPriority");
    assert_field(w, "spec.terminationGracePeriodSeconds", "30");
    assert_field(w, "spec.tolerations",
                 "[{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",\"effect\":"
                 "\"NoExecute\",\"tolerationSeconds\":300},{\"key\":"
                 "\"node.kubernetes.io/unreachable\",\"operator\":\"Exists\",\"effect\":"
                 "\"NoExecute\",\"tolerationSeconds\":300}]");
}

TEST_IN_WORLD(test_own_tolerations_count)
{
    assert_ok(make_pod(w, "", ",\"tolerations\":[{\"operator\":\"Exists\"}]"));
    assert_field(w, "spec.tolerations", "[{\"operator\":\"Exists\"}]");
}

TEST_IN_WORLD(test_quality_of_service)
{
    static const struct {
        const char *resources, *want;
    } rows[] = {
        {"{}", "BestEffort"},
        {"{\"requests\":{\"cpu\":\"1\"}}", "Burstable"},
        {"{\"limits\":{\"cpu\":\"1\",\"memory\":\"1Gi\"}}", "Guaranteed"},
        {"{\"limits\":{\"cpu\":\"1\"}}", "Burstable"},
        {"{\"requests\":{\"cpu\":\"1000m\",\"memory\":\"1024Mi\"},\"limits\":{\"cpu\":\"1\","
         "\"memory\":\"1Gi\"}}",
         "Guaranteed"},
        {"{\"requests\":{\"x.io/y\":\"1\"},\"limits\":{\"x.io/y\":\"1\"}}", "BestEffort"},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct str body = arena_strf(&w->arena,
                                     "{\"metadata\":{\"name\":\"p%zu\"},\"spec\":{\"containers\":[{"
                                     "\"name\":\"c\",\"image\":\"i\",\"resources\":%s}]}}",
                                     i, rows[i].resources);
        assert_ok(do_create(w, POD(NULL), body.p));
        assert_field(w, "status.qosClass", rows[i].want);
    }
}

// What a pod does not ask for as a whole: what its containers ask for, else its limit.
TEST_IN_WORLD(test_requests_of_a_whole_pod)
{
    static const struct {
        const char *more, *cpu;
    } rows[] = {
        {"", "1"},
        {",{\"name\":\"d\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"2\"}}}", "3"},
        {"],\"initContainers\":[{\"name\":\"b\",\"image\":\"i\",\"resources\":{\"requests\":{"
         "\"cpu\":\"2500m\"}}}",
         "2500m"},
        {"],\"initContainers\":[{\"name\":\"b\",\"image\":\"i\",\"restartPolicy\":\"Always\","
         "\"resources\":{\"requests\":{\"cpu\":\"500m\"}}}",
         "1500m"},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct str body =
            arena_strf(&w->arena,
                       "{\"metadata\":{\"name\":\"p%zu\"},\"spec\":{\"resources\":{\"limits\":{"
                       "\"cpu\":\"4\",\"memory\":\"1Gi\"}},\"containers\":[{\"name\":\"c\","
                       "\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"1000m\"}}}%s]}}",
                       i, rows[i].more);
        assert_ok(do_create(w, POD(NULL), body.p));
        assert_field(w, "spec.resources.requests.cpu", rows[i].cpu);
        assert_field(w, "spec.resources.requests.memory", "1Gi");
    }
}

TEST_IN_WORLD(test_priority_comes_from_the_class)
{
    struct target class_ = {"scheduling.k8s.io/v1", "PriorityClass", "", "", NULL};
    assert_ok(make_pod(w, ",\"namespace\":\"default\"",
                       ",\"priorityClassName\":\"system-node-critical\""));
    assert_field(w, "spec.priority", "2000001000");
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_refused(make_pod(w, "", ",\"priorityClassName\":\"none\""), 403,
                   "pods \"p\" is forbidden: no PriorityClass with name none was found");
    assert_refused(make_pod(w, "", ",\"priority\":5"), 403,
                   "pods \"p\" is forbidden: the integer value of priority (5) must not be "
                   "provided in pod spec; priority admission controller computed 0 from the given "
                   "PriorityClass name");
    assert_ok(do_create(w, class_,
                        "{\"metadata\":{\"name\":\"usual\"},\"value\":7,"
                        "\"globalDefault\":true,\"preemptionPolicy\":\"Never\"}"));
    assert_field(w, "metadata.generation", "1");
    assert_ok(make_pod(w, "", ""));
    assert_field(w, "spec.priority", "7");
    assert_field(w, "spec.priorityClassName", "usual");
    assert_field(w, "spec.preemptionPolicy", "Never");
    assert_refused(do_create(w, class_,
                             "{\"metadata\":{\"name\":\"other\"},\"value\":8,"
                             "\"globalDefault\":true}"),
                   403,
                   "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass usual "
                   "is already marked as default. Only one default can exist");
    class_.name = "usual";
    assert_ok(do_delete(w, class_, NULL));
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_ok(make_pod(w, "", ""));
    assert_field(w, "spec.priority", "0");
}

// --- Binding -------------------------------------------------------------------------------------

#define BINDING(meta, target)                                                            \
    "{\"kind\":\"Binding\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\"" meta "}," \
    "\"target\":{" target "}}"

TEST_IN_WORLD(test_binding)
{
    assert_ok(make_pod(w, ",\"annotations\":{\"b\":\"old\",\"d\":\"4\"}", ""));
    assert_ok(do_create(w, POD_SUB("binding"),
                        BINDING(",\"annotations\":{\"a\":\"1\",\"b\":\"2\"},\"labels\":{\"l\":"
                                "\"m\"}",
                                "\"kind\":\"Node\",\"name\":\"n\"")));
    assert_true(w->reply.has_status);
    assert_int_equal(w->reply.http, 201);
    assert_ok(do_get(w, POD("p")));
    assert_field(w, "spec.nodeName", "n");
    assert_field(w, "metadata.generation", "1");
    assert_field(w, "metadata.annotations", "{\"a\":\"1\",\"b\":\"2\",\"d\":\"4\"}");
    assert_field(w, "metadata.labels.l", "m");
    assert_field(w, "status.conditions[0].type", "PodScheduled");
    assert_field(w, "status.conditions[0].status", "True");
    assert_field(w, "status.conditions[0].lastTransitionTime", "2027-01-15T08:00:00Z");
    assert_refused(do_create(w, POD_SUB("binding"), BINDING("", "\"name\":\"m\"")), 409,
                   "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned "
                   "to node \"n\"");
    assert_string_equal(w->reply.reason, "Conflict");
}

TEST_IN_WORLD(test_binding_refused)
{
    assert_refused(do_create(w, POD_SUB("binding"), BINDING("", "\"name\":\"n\"")), 404,
                   "pods \"p\" not found");
    assert_ok(make_pod(w, ",\"finalizers\":[\"f.io/f\"]",
                       ",\"schedulingGates\":[{\"name\":\"g.io/g\"}]"));
    assert_field(w, "status.conditions[0].reason", "SchedulingGated");
    assert_refused(do_create(w, POD_SUB("binding"), BINDING("", "")), 500,
                   "target.name: Required value");
    do_create(w, POD_SUB("binding"), BINDING(",\"uid\":\"u\"", "\"name\":\"n\""));
    assert_int_equal(w->reply.http, 409);
    do_create(w, POD_SUB("binding"), BINDING(",\"resourceVersion\":\"1\"", "\"name\":\"n\""));
    assert_int_equal(w->reply.http, 409);
    assert_refused(do_create(w, POD_SUB("binding"), BINDING("", "\"name\":\"n\"")), 409,
                   "Operation cannot be fulfilled on pods/binding \"p\": pod p has non-empty "
                   ".spec.schedulingGates");
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_refused(do_create(w, POD_SUB("binding"), BINDING("", "\"name\":\"n\"")), 409,
                   "Operation cannot be fulfilled on pods/binding \"p\": pod p is being deleted, "
                   "cannot be assigned to a host");
    struct target other = POD_SUB("binding");
    other.name = "q";
    assert_refused(do_create(w, other, BINDING("", "\"name\":\"n\"")), 400,
                   "name in URL does not match name in Binding object");
}

// --- Status --------------------------------------------------------------------------------------

#define WITH_CLAIM                                                                           \
    ",\"nodeName\":\"n\",\"resourceClaims\":[{\"name\":\"c\",\"resourceClaimTemplateName\":" \
    "\"t\"}]"

TEST_IN_WORLD(test_status_fields_of_claims_survive_omission)
{
    struct target status = POD_SUB("status");
    assert_ok(make_pod(w, "", WITH_CLAIM));
    assert_ok(do_update(w, status,
                        "{\"metadata\":{\"name\":\"p\"},\"spec\":{" CONTAINERS "},\"status\":{"
                        "\"phase\":\"Running\",\"resourceClaimStatuses\":[{\"name\":\"c\","
                        "\"resourceClaimName\":\"x\"}]}}"));
    assert_field(w, "status.resourceClaimStatuses[0].resourceClaimName", "x");
    assert_field(w, "status.qosClass", "BestEffort");
    // Someone who does not know the field leaves it.
    assert_ok(
        do_update(w, status,
                  "{\"metadata\":{\"name\":\"p\",\"labels\":{\"l\":\"m\"}},\"spec\":{" CONTAINERS
                  "},\"status\":{\"phase\":\"Failed\"}}"));
    assert_field(w, "status.phase", "Failed");
    assert_field(w, "status.resourceClaimStatuses[0].resourceClaimName", "x");
    assert_field(w, "metadata.labels.l", "m");
    assert_field(w, "spec.nodeName", "n");
    assert_ok(do_update(w, status,
                        "{\"metadata\":{\"name\":\"p\"},\"spec\":{" CONTAINERS "},\"status\":{"
                        "\"resourceClaimStatuses\":[]}}"));
    assert_field(w, "status.resourceClaimStatuses", "-");
}

TEST_IN_WORLD(test_old_updates_keep_priority)
{
    assert_ok(make_pod(w, "", ",\"priorityClassName\":\"system-node-critical\""));
    assert_ok(do_patch(w, POD("p"), REGISTRY_PATCH_MERGE, "{\"spec\":{\"priority\":null}}"));
    assert_field(w, "spec.priority", "2000001000");
}

// --- Eviction ------------------------------------------------------------------------------------

#define EVICTION \
    "{\"kind\":\"Eviction\",\"apiVersion\":\"policy/v1\",\"metadata\":{\"name\":\"p\"}}"
#define BUDGET(sub) ((struct target){"policy/v1", "PodDisruptionBudget", sub, "default", "b"})

static void run_pod(struct world *w)
{
    assert_ok(make_pod(w, ",\"labels\":{\"app\":\"x\"}", ",\"nodeName\":\"n\""));
    assert_ok(do_patch(w, POD_SUB("status"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
                       "\"status\":\"True\"}]}}"));
}

static void budget(struct world *w, const char *status)
{
    assert_ok(do_create(w, BUDGET(""),
                        "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"minAvailable\":1,\"selector\":"
                        "{\"matchLabels\":{\"app\":\"x\"}}}}"));
    assert_field(w, "metadata.generation", "1");
    assert_ok(do_patch(w, BUDGET("status"), REGISTRY_PATCH_MERGE, status));
}

TEST_IN_WORLD(test_eviction_without_budget)
{
    assert_refused(do_create(w, POD_SUB("eviction"), EVICTION), 404, "pods \"p\" not found");
    run_pod(w);
    assert_ok(do_create(w, POD_SUB("eviction"), EVICTION));
    assert_int_equal(w->reply.http, 201);
    assert_ok(do_get(w, POD("p")));
    assert_field(w, "metadata.deletionGracePeriodSeconds", "30");
    assert_field(w, "status.conditions[1].type", "DisruptionTarget");
    assert_field(w, "status.conditions[1].reason", "EvictionByEvictionAPI");
}

TEST_IN_WORLD(test_eviction_against_the_budget)
{
    run_pod(w);
    budget(w, "{\"status\":{\"observedGeneration\":0}}");
    assert_refused(do_create(w, POD_SUB("eviction"), EVICTION), 429,
                   "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_string_equal(w->reply.causes,
                        "DisruptionBudget||The disruption budget b is still being processed by "
                        "the server.;");
    assert_ok(do_patch(w, BUDGET("status"), REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"observedGeneration\":1,\"disruptionsAllowed\":0,"
                       "\"currentHealthy\":1,\"desiredHealthy\":1,\"expectedPods\":1}}"));
    assert_refused(do_create(w, POD_SUB("eviction"), EVICTION), 429,
                   "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_string_equal(w->reply.causes, "DisruptionBudget||The disruption budget b needs 1 "
                                         "healthy pods and has 1 currently;");
    assert_ok(do_get(w, POD("p")));
    assert_field(w, "metadata.deletionTimestamp", "-");
}

TEST_IN_WORLD(test_eviction_within_the_budget)
{
    run_pod(w);
    budget(w, "{\"status\":{\"observedGeneration\":1,\"disruptionsAllowed\":1,"
              "\"currentHealthy\":2,\"desiredHealthy\":1,\"expectedPods\":2}}");
    w->dry_run = true;
    assert_ok(do_create(w, POD_SUB("eviction"), EVICTION));
    w->dry_run = false;
    assert_ok(do_get(w, BUDGET("")));
    assert_field(w, "status.disruptionsAllowed", "1");
    assert_ok(do_create(w, POD_SUB("eviction"), EVICTION));
    assert_ok(do_get(w, BUDGET("")));
    assert_field(w, "status.disruptionsAllowed", "0");
    assert_field(w, "status.disruptedPods", "{\"p\":\"2027-01-15T08:00:00Z\"}");
    assert_ok(do_get(w, POD("p")));
    assert_field(w, "metadata.deletionGracePeriodSeconds", "30");
}

TEST_IN_WORLD(test_eviction_of_pending_pods_needs_no_budget)
{
    assert_ok(make_pod(w, ",\"labels\":{\"app\":\"x\"}", ""));
    budget(w, "{\"status\":{\"observedGeneration\":1}}");
    assert_ok(do_create(w, POD_SUB("eviction"), EVICTION));
    do_get(w, POD("p"));
    assert_null(w->reply.doc.root);
}

// --- Parts of the spec ---------------------------------------------------------------------------

TEST_IN_WORLD(test_resize_changes_resources_alone)
{
    assert_ok(make_pod(w, "", ""));
    assert_ok(do_update(w, POD_SUB("resize"),
                        "{\"metadata\":{\"name\":\"p\",\"labels\":{\"x\":\"y\"}},\"spec\":{"
                        "\"containers\":[{\"name\":\"c\",\"image\":\"other\",\"resources\":{"
                        "\"requests\":{\"cpu\":\"1\"}}}]}}"));
    assert_field(w, "spec.containers[0].resources.requests.cpu", "1");
    assert_field(w, "spec.containers[0].image", "i");
    assert_field(w, "metadata.labels", "-");
    assert_field(w, "metadata.generation", "2");
}

TEST_IN_WORLD(test_ephemeral_containers)
{
    assert_ok(make_pod(w, "", ""));
    assert_ok(do_patch(w, POD_SUB("ephemeralcontainers"), REGISTRY_PATCH_STRATEGIC,
                       "{\"metadata\":{\"labels\":{\"x\":\"y\"}},\"spec\":{\"ephemeralContainers\":"
                       "[{\"name\":\"debug\",\"image\":\"j\"}]}}"));
    assert_field(w, "spec.ephemeralContainers[0].name", "debug");
    assert_field(w, "metadata.labels", "-");
    assert_refused(do_patch(w, POD_SUB("ephemeralcontainers"), REGISTRY_PATCH_STRATEGIC,
                            "{\"spec\":{\"ephemeralContainers\":[{\"name\":\"debug\",\"image\":"
                            "\"k\"}]}}"),
                   422,
                   "Pod \"p\" is invalid: spec.ephemeralContainers: Forbidden: existing ephemeral "
                   "containers \"debug\" may not be changed\n");
    assert_refused(do_patch(w, POD_SUB("ephemeralcontainers"), REGISTRY_PATCH_MERGE,
                            "{\"spec\":{\"ephemeralContainers\":null}}"),
                   422,
                   "Pod \"p\" is invalid: spec.ephemeralContainers: Forbidden: existing ephemeral "
                   "containers \"debug\" may not be removed\n");
}

#define RUNTIME ((struct target){"node.k8s.io/v1", "RuntimeClass", NULL, "", NULL})

// RuntimeClass admission: what a class adds to its pods, and what is refused.
TEST_IN_WORLD(test_runtime_class)
{
    assert_refused(make_pod(w, "", ",\"runtimeClassName\":\"kata\""), 403,
                   "pods \"p\" is forbidden: pod rejected: RuntimeClass \"kata\" not found");
    assert_refused(make_pod(w, "", ",\"overhead\":{\"cpu\":\"1\"}"), 403,
                   "pods \"p\" is forbidden: pod rejected: Pod Overhead set without corresponding "
                   "RuntimeClass defined Overhead");
    assert_ok(do_create(w, RUNTIME,
                        "{\"metadata\":{\"name\":\"kata\"},\"handler\":\"kata\",\"overhead\":{"
                        "\"podFixed\":{\"cpu\":\"250m\",\"memory\":\"64Mi\"}},\"scheduling\":{"
                        "\"nodeSelector\":{\"kata\":\"yes\"},\"tolerations\":[{\"key\":\"kata\","
                        "\"operator\":\"Exists\"}]}}"));
    assert_refused(
        make_pod(w, "", ",\"runtimeClassName\":\"kata\",\"nodeSelector\":{\"kata\":\"no\"}"), 403,
        "pods \"p\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[kata] = "
        "yes; pod.spec.nodeSelector[kata] = no");
    assert_refused(make_pod(w, "", ",\"runtimeClassName\":\"kata\",\"overhead\":{\"cpu\":\"1\"}"),
                   403,
                   "pods \"p\" is forbidden: pod rejected: Pod's Overhead doesn't match "
                   "RuntimeClass's defined Overhead");
    assert_ok(make_pod(w, "",
                       ",\"runtimeClassName\":\"kata\",\"nodeSelector\":{\"zone\":\"a\"},"
                       "\"tolerations\":[{\"key\":\"kata\",\"operator\":\"Exists\",\"effect\":"
                       "\"NoSchedule\"},{\"operator\":\"Exists\",\"effect\":\"NoExecute\"}]"));
    assert_field(w, "spec.overhead.cpu", "250m");
    assert_field(w, "spec.overhead.memory", "64Mi");
    assert_field(w, "spec.nodeSelector.kata", "yes");
    assert_field(w, "spec.nodeSelector.zone", "a");
    // The class's toleration covers the pod's own.
    assert_field(w, "spec.tolerations",
                 "[{\"operator\":\"Exists\",\"effect\":\"NoExecute\"},{\"key\":\"kata\","
                 "\"operator\":\"Exists\"}]");
    assert_refused(
        do_create(w, RUNTIME, "{\"metadata\":{\"name\":\"x\"},\"handler\":\"A_b\"}"), 422,
        "RuntimeClass.node.k8s.io \"x\" is invalid: handler: Invalid value: \"A_b\": a "
        "lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
        "'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
        "'123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')");
}

// --- Accounts ------------------------------------------------------------------------------------

#define ACCOUNT(name) ((struct target){"v1", "ServiceAccount", "", "default", name})
#define TOKEN_MOUNT   "/var/run/secrets/kubernetes.io/serviceaccount"
#define AS(account)   ",\"serviceAccountName\":\"" account "\""
#define PLAIN_VOLUME  ",\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]"

TEST_IN_WORLD(test_pods_get_the_token_of_their_account)
{
    assert_ok(
        make_pod(w, "", PLAIN_VOLUME ",\"initContainers\":[{\"name\":\"i\",\"image\":\"i\"}]"));
    const char *volume = reply_field(w, "spec.volumes[1].name");
    assert_int_equal(strncmp(volume, "kube-api-access-", 16), 0);
    assert_int_equal(strlen(volume), 16 + 5);
    assert_field(w, "spec.volumes[1].projected",
                 "{\"sources\":[{\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":"
                 "\"token\"}},{\"configMap\":{\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":"
                 "\"ca.crt\",\"path\":\"ca.crt\"}]}},{\"downwardAPI\":{\"items\":[{\"path\":"
                 "\"namespace\",\"fieldRef\":{\"apiVersion\":\"v1\",\"fieldPath\":"
                 "\"metadata.namespace\"}}]}}],\"defaultMode\":420}");
    static const char *const mounts[] = {"spec.containers[0].volumeMounts[0]",
                                         "spec.initContainers[0].volumeMounts[0]"};
    const char *mount = arena_strf(&w->arena,
                                   "{\"name\":\"%s\",\"readOnly\":true,\"mountPath\":"
                                   "\"" TOKEN_MOUNT "\"}",
                                   volume)
                            .p;
    for (size_t i = 0; i < array_len(mounts); i++)
        assert_field(w, mounts[i], mount);
}

TEST_IN_WORLD(test_pods_run_as_accounts_that_exist)
{
    assert_refused(make_pod(w, "", AS("robot")), 403,
                   "pods \"p\" is forbidden: error looking up service account default/robot: "
                   "serviceaccount \"robot\" not found");
    assert_ok(do_create(w, ACCOUNT(NULL), "{\"metadata\":{\"name\":\"robot\"}}"));
    assert_ok(make_pod(w, "", AS("robot")));
    assert_field(w, "spec.serviceAccount", "robot");
}

TEST_IN_WORLD(test_the_default_account_is_there_before_its_first_pod)
{
    w->dry_run = true;
    assert_ok(make_pod(w, "", ""));
    w->dry_run = false;
    (void)do_get(w, ACCOUNT("default"));
    assert_field(w, "metadata.name", "-");
    assert_ok(make_pod(w, "", ""));
    (void)do_get(w, ACCOUNT("default"));
    assert_field(w, "metadata.name", "default");
}

TEST_IN_WORLD(test_tokens_are_mounted_unless_somebody_says_no)
{
    assert_ok(
        do_create(w, ACCOUNT(NULL),
                  "{\"metadata\":{\"name\":\"shy\"},\"automountServiceAccountToken\":false}"));
    assert_ok(make_pod(w, "", AS("shy")));
    assert_field(w, "spec.volumes", "-");
    assert_ok(do_delete(w, POD("p"), NULL));
    // The pod's word is the last.
    assert_ok(make_pod(w, "", AS("shy") ",\"automountServiceAccountToken\":true"));
    assert_field(w, "spec.containers[0].volumeMounts[0].mountPath", TOKEN_MOUNT);
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_ok(make_pod(w, "", ",\"automountServiceAccountToken\":false"));
    assert_field(w, "spec.volumes", "-");
}

TEST_IN_WORLD(test_a_mount_at_the_tokens_place_stays)
{
    const char *own = "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"volumes\":[{\"name\":\"v\","
                      "\"emptyDir\":{}}],\"containers\":[{\"name\":\"c\",\"image\":\"i\","
                      "\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"" TOKEN_MOUNT "\"}]}]}}";
    assert_ok(do_create(w, POD(NULL), own));
    assert_field(w, "spec.containers[0].volumeMounts[0].name", "v");
    assert_field(w, "spec.volumes[1]", "-");
    assert_ok(do_delete(w, POD("p"), NULL));
    // One that already has the volume, as a copy of another pod has, gets no second.
    assert_ok(
        make_pod(w, "", ",\"volumes\":[{\"name\":\"kube-api-access-abcde\",\"emptyDir\":{}}]"));
    assert_field(w, "spec.containers[0].volumeMounts[0].name", "kube-api-access-abcde");
    assert_field(w, "spec.volumes[1]", "-");
}

TEST_IN_WORLD(test_images_are_pulled_with_the_accounts_secrets)
{
    assert_ok(do_create(w, ACCOUNT(NULL),
                        "{\"metadata\":{\"name\":\"puller\"},\"imagePullSecrets\":[{\"name\":"
                        "\"one\"},{\"name\":\"two\"}]}"));
    assert_ok(make_pod(w, "", AS("puller")));
    assert_field(w, "spec.imagePullSecrets", "[{\"name\":\"one\"},{\"name\":\"two\"}]");
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_ok(make_pod(w, "", AS("puller") ",\"imagePullSecrets\":[{\"name\":\"own\"}]"));
    assert_field(w, "spec.imagePullSecrets", "[{\"name\":\"own\"}]");
}

#define STRICT_POD(container)                                                     \
    "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"serviceAccountName\":\"strict\"," \
    "\"containers\":[{\"name\":\"c\",\"image\":\"i\"," container "}]}}"
#define WHY(text) "pods \"p\" is forbidden: " text " is not allowed because service account strict "

TEST_IN_WORLD(test_strict_accounts_allow_their_own_secrets_alone)
{
    assert_ok(
        do_create(w, ACCOUNT(NULL),
                  "{\"metadata\":{\"name\":\"strict\",\"annotations\":{\"kubernetes.io/"
                  "enforce-mountable-secrets\":\"true\"}},\"secrets\":[{\"name\":\"mine\"}]}"));
    assert_ok(make_pod(w, "",
                       AS("strict") ",\"volumes\":[{\"name\":\"v\",\"secret\":{\"secretName\":"
                                    "\"mine\"}}]"));
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_refused(make_pod(w, "",
                            AS("strict") ",\"volumes\":[{\"name\":\"v\",\"secret\":{"
                                         "\"secretName\":\"other\"}}]"),
                   403,
                   WHY("volume with secret.secretName=\"other\"") "does not reference that secret");
    assert_refused(make_pod(w, "", AS("strict") ",\"imagePullSecrets\":[{\"name\":\"other\"}]"),
                   403,
                   WHY("imagePullSecrets[0].name=\"other\"") "does not reference that "
                                                             "imagePullSecret");
    assert_refused(
        do_create(w, POD(NULL),
                  STRICT_POD("\"env\":[{\"name\":\"E\",\"valueFrom\":{\"secretKeyRef\":{"
                             "\"name\":\"other\",\"key\":\"k\"}}}]")),
        403,
        WHY("container c with envVar E referencing secret.secretName=\"other\"") "does not "
                                                                                 "reference that "
                                                                                 "secret");
    assert_refused(
        do_create(w, POD(NULL), STRICT_POD("\"envFrom\":[{\"secretRef\":{\"name\":\"other\"}}]")),
        403,
        WHY("container c with envFrom referencing secret.secretName=\"other\"") "does not "
                                                                                "reference that "
                                                                                "secret");
}

#define SPREAD(selector)                                                                           \
    ",\"topologySpreadConstraints\":[{\"maxSkew\":1,\"topologyKey\":\"zone\","                     \
    "\"whenUnsatisfiable\":\"DoNotSchedule\",\"labelSelector\":{" selector "},\"matchLabelKeys\":" \
    "[\"rev\",\"none\"]}]"

// What a pod's labels say when it is created is written into its selectors; a key that is there already is an error.
TEST_IN_WORLD(test_label_keys_become_part_of_selectors)
{
    const char *labels = ",\"labels\":{\"app\":\"a\",\"rev\":\"7\"}";
    assert_refused(make_pod(w, labels, SPREAD("\"matchLabels\":{\"rev\":\"7\"}")), 422,
                   "Pod \"p\" is invalid: spec.topologySpreadConstraints[0][0]: Invalid value: "
                   "\"rev\": exists in both matchLabelKeys and labelSelector");
    assert_ok(make_pod(w, labels, SPREAD("\"matchLabels\":{\"app\":\"a\"}")));
    assert_field(
        w, "spec.topologySpreadConstraints",
        "[{\"maxSkew\":1,\"topologyKey\":\"zone\",\"whenUnsatisfiable\":\"DoNotSchedule\","
        "\"labelSelector\":{\"matchLabels\":{\"app\":\"a\"},\"matchExpressions\":[{\"key\":"
        "\"rev\",\"operator\":\"In\",\"values\":[\"7\"]}]},\"matchLabelKeys\":[\"rev\","
        "\"none\"]}]");
    assert_ok(do_create(
        w, POD(NULL),
        "{\"metadata\":{\"name\":\"q\",\"labels\":{\"rev\":\"7\"}},\"spec\":{" CONTAINERS
        ",\"affinity\":{\"podAntiAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{"
        "\"topologyKey\":\"zone\",\"labelSelector\":{},\"mismatchLabelKeys\":[\"rev\"]}]}}}}"));
    assert_field(
        w, "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "[{\"labelSelector\":{\"matchExpressions\":[{\"key\":\"rev\",\"operator\":\"NotIn\","
        "\"values\":[\"7\"]}]},\"topologyKey\":\"zone\",\"mismatchLabelKeys\":[\"rev\"]}]");
}

RUN_TESTS(TEST_CASE(test_new_pods), TEST_CASE(test_label_keys_become_part_of_selectors),
          TEST_CASE(test_runtime_class), TEST_CASE(test_own_tolerations_count),
          TEST_CASE(test_quality_of_service), TEST_CASE(test_requests_of_a_whole_pod),
          TEST_CASE(test_priority_comes_from_the_class), TEST_CASE(test_binding),
          TEST_CASE(test_binding_refused), TEST_CASE(test_status_fields_of_claims_survive_omission),
          TEST_CASE(test_old_updates_keep_priority), TEST_CASE(test_eviction_without_budget),
          TEST_CASE(test_eviction_against_the_budget), TEST_CASE(test_eviction_within_the_budget),
          TEST_CASE(test_eviction_of_pending_pods_needs_no_budget),
          TEST_CASE(test_resize_changes_resources_alone), TEST_CASE(test_ephemeral_containers),
          TEST_CASE(test_pods_get_the_token_of_their_account),
          TEST_CASE(test_pods_run_as_accounts_that_exist),
          TEST_CASE(test_the_default_account_is_there_before_its_first_pod),
          TEST_CASE(test_tokens_are_mounted_unless_somebody_says_no),
          TEST_CASE(test_a_mount_at_the_tokens_place_stays),
          TEST_CASE(test_images_are_pulled_with_the_accounts_secrets),
          TEST_CASE(test_strict_accounts_allow_their_own_secrets_alone))
