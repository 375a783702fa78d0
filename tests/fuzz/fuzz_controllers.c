// SPDX-License-Identifier: Apache-2.0
//
// Whatever the registry accepts, every controller can process and the server can load: workloads
// with any numbers are created, changed and deleted, pods run, fail and end; every controller comes
// to rest within bounds of steps and memory, and again after a restart. cluster.h has the events.
#include "cluster.h"
#include "fuzz.h"

#include "base/banned.h"

static const char *const fuzz_controllers_bases[] = {
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"},\"spec\":{"
    "\"replicas\":3,\"minReadySeconds\":0,\"revisionHistoryLimit\":2,\"progressDeadlineSeconds\":"
    "600,\"paused\":false,\"strategy\":{\"type\":\"RollingUpdate\",\"rollingUpdate\":{\"maxSurge\":"
    "1,\"maxUnavailable\":\"25%\"}}," CLUSTER_SELECTOR "," CLUSTER_TEMPLATE("Always") "}}",
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"metadata\":{\"name\":\"r\"},\"spec\":{"
    "\"replicas\":3,\"minReadySeconds\":0," CLUSTER_SELECTOR "," CLUSTER_TEMPLATE("Always") "}}",
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"DaemonSet\",\"metadata\":{\"name\":\"s\"},\"spec\":{"
    "\"minReadySeconds\":0,\"revisionHistoryLimit\":2,\"updateStrategy\":{\"type\":"
    "\"RollingUpdate\",\"rollingUpdate\":{\"maxSurge\":0,\"maxUnavailable\":1}}," CLUSTER_SELECTOR
    "," CLUSTER_TEMPLATE("Always") "}}",
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"t\"},\"spec\":{"
    "\"replicas\":3,\"minReadySeconds\":0,\"revisionHistoryLimit\":2,\"serviceName\":\"s\","
    "\"podManagementPolicy\":\"Parallel\",\"ordinals\":{\"start\":0},\"updateStrategy\":{\"type\":"
    "\"RollingUpdate\",\"rollingUpdate\":{\"partition\":0,\"maxUnavailable\":1}},"
    "\"persistentVolumeClaimRetentionPolicy\":{\"whenDeleted\":\"Delete\",\"whenScaled\":"
    "\"Retain\"},\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"v\"},\"spec\":{"
    "\"accessModes\":"
    "[\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}}}]," CLUSTER_SELECTOR
    "," CLUSTER_TEMPLATE("Always") "}}",
    "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"j\"},\"spec\":{"
    "\"completions\":4,\"parallelism\":2,\"backoffLimit\":6,\"activeDeadlineSeconds\":100,"
    "\"ttlSecondsAfterFinished\":10,\"completionMode\":\"Indexed\",\"suspend\":false,"
    "\"podReplacementPolicy\":\"Failed\"," CLUSTER_TEMPLATE("Never") "}}",
    "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"k\"},\"spec\":{"
    "\"completions\":8,\"parallelism\":8,\"completionMode\":\"Indexed\",\"backoffLimitPerIndex\":1,"
    "\"maxFailedIndexes\":5,\"podFailurePolicy\":{\"rules\":[{\"action\":\"FailIndex\","
    "\"onExitCodes\":{\"operator\":\"In\",\"values\":[1,2]}}]},\"successPolicy\":{\"rules\":[{"
    "\"succeededIndexes\":\"0-2,5\",\"succeededCount\":2}]}," CLUSTER_TEMPLATE("Never") "}}",
    "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"l\"},\"spec\":{"
    "\"parallelism\":2,\"backoffLimit\":0," CLUSTER_TEMPLATE("OnFailure") "}}",
    "{\"apiVersion\":\"batch/v1\",\"kind\":\"CronJob\",\"metadata\":{\"name\":\"c\"},\"spec\":{"
    "\"schedule\":\"* * * * *\",\"startingDeadlineSeconds\":10,\"successfulJobsHistoryLimit\":2,"
    "\"failedJobsHistoryLimit\":1,\"jobTemplate\":{\"spec\":{\"completions\":2," CLUSTER_TEMPLATE(
        "Never") "}}}}",
    "{\"apiVersion\":\"policy/v1\",\"kind\":\"PodDisruptionBudget\",\"metadata\":{\"name\":\"b\"},"
    "\"spec\":{\"minAvailable\":\"50%\"," CLUSTER_SELECTOR "}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"ReplicationController\",\"metadata\":{\"name\":\"o\"},"
    "\"spec\":{\"replicas\":2,\"minReadySeconds\":0,\"selector\":{\"a\":\"b\"}," CLUSTER_TEMPLATE(
        "Always") "}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"},\"spec\":{\"taints\":[{"
    "\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoExecute\"}]},\"status\":{\"allocatable\":{"
    "\"cpu\":"
    "\"8\",\"memory\":\"8Gi\",\"pods\":\"10\"},\"capacity\":{\"cpu\":\"8\",\"memory\":\"8Gi\","
    "\"pods\":\"10\"}}}",
    "{\"apiVersion\":\"resource.k8s.io/"
    "v1\",\"kind\":\"ResourceSlice\",\"metadata\":{\"name\":\"s\"},"
    "\"spec\":{\"driver\":\"d.io\",\"pool\":{\"name\":\"p\",\"generation\":1,"
    "\"resourceSliceCount\":1},"
    "\"allNodes\":true,\"devices\":[{\"name\":\"a\",\"capacity\":{\"m\":{"
    "\"value\":\"8Gi\"}}},{\"name\":\"b\",\"taints\":[{\"key\":\"k\",\"effect\":\"NoExecute\"}]}]}"
    "}",
    "{\"apiVersion\":\"resource.k8s.io/"
    "v1\",\"kind\":\"ResourceClaim\",\"metadata\":{\"name\":\"c\"},"
    "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"x\","
    "\"allocationMode\":\"ExactCount\",\"count\":1}}]}}}",
    "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceTaintRule\",\"metadata\":{\"name\":"
    "\"t\"},\"spec\":{\"deviceSelector\":{\"driver\":\"d.io\"},\"taint\":{\"key\":\"k\",\"effect\":"
    "\"NoExecute\"}}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"ResourceQuota\",\"metadata\":{\"name\":\"q\"},\"spec\":{"
    "\"hard\":{\"pods\":\"5\",\"requests.cpu\":\"4\",\"count/jobs.batch\":\"2\"}}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":\"p\"},"
    "\"spec\":{\"accessModes\":[\"ReadWriteOnce\"],\"storageClassName\":\"\",\"resources\":{"
    "\"requests\":{\"storage\":\"1Gi\"}}}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":\"p\"},\"spec\":{"
    "\"accessModes\":[\"ReadWriteOnce\"],\"capacity\":{\"storage\":\"1Gi\"},\"hostPath\":{\"path\":"
    "\"/p\"},\"persistentVolumeReclaimPolicy\":\"Delete\"}}",
};

// Pods are bounded as an administrator bounds them: by a quota.
static const char fuzz_controllers_quota[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"ResourceQuota\",\"metadata\":{\"name\":\"bound\"},\"spec\":{"
    "\"hard\":{\"pods\":\"12\",\"count/jobs.batch\":\"6\",\"count/replicasets.apps\":\"8\","
    "\"persistentvolumeclaims\":\"12\"}}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cluster c = {.bases = fuzz_controllers_bases,
                             .bases_len = array_len(fuzz_controllers_bases)};
    cluster_open(&c, true);
    cluster_put_json(&c, str_z(fuzz_controllers_quota));
    cluster_pass(&c, 1);
    cluster_run(&c, str_make((const char *)data, size));
    cluster_pass(&c, 30);
    cluster_stop(&c);
    cluster_start(&c);
    cluster_pass(&c, 30);
    cluster_close(&c);
    return 0;
}
