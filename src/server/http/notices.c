// SPDX-License-Identifier: Apache-2.0
//
// The tables behind warnings by kind. Deprecations are Kubernetes 1.37's, in its words. A kind
// leaves the second table with the controller that serves it.
#include "server/http/notices.h"

#include "base/mem.h"

#include "base/banned.h"

static const struct {
    const char *group, *version, *kind;
    const char *since, *removed, *instead;
} deprecations[] = {
    {"", "v1", "ComponentStatus", "1.19", "", ""},
    {"", "v1", "Endpoints", "1.33", "", "discovery.k8s.io/v1 EndpointSlice"},
    {"certificates.k8s.io", "v1beta1", "ClusterTrustBundle", "1.37", "1.40",
     "certificates.k8s.io/v1 ClusterTrustBundle"},
    {"certificates.k8s.io", "v1beta1", "PodCertificateRequest", "1.37", "1.40",
     "certificates.k8s.io/v1 PodCertificateRequest"},
    {"coordination.k8s.io", "v1alpha2", "LeaseCandidate", "1.35", "1.38", ""},
    {"coordination.k8s.io", "v1beta1", "LeaseCandidate", "1.36", "1.39", ""},
    {"resource.k8s.io", "v1alpha3", "DeviceTaintRule", "1.36", "1.39", ""},
    {"resource.k8s.io", "v1beta1", "DeviceClass", "1.35", "1.38", ""},
    {"resource.k8s.io", "v1beta1", "ResourceClaim", "1.35", "1.38", ""},
    {"resource.k8s.io", "v1beta1", "ResourceClaimTemplate", "1.35", "1.38", ""},
    {"resource.k8s.io", "v1beta1", "ResourceSlice", "1.35", "1.38", ""},
    {"resource.k8s.io", "v1beta2", "DeviceClass", "1.36", "1.39", ""},
    {"resource.k8s.io", "v1beta2", "ResourceClaim", "1.36", "1.39", ""},
    {"resource.k8s.io", "v1beta2", "ResourceClaimTemplate", "1.36", "1.39", ""},
    {"resource.k8s.io", "v1beta2", "ResourceSlice", "1.36", "1.39", ""},
    {"storagemigration.k8s.io", "v1beta1", "StorageVersionMigration", "1.37", "1.40",
     "storagemigration.k8s.io/v1 StorageVersionMigration"},
};

#define NOT_RUN " is stored but no controller of this cluster runs it"
static const struct {
    const char *group, *kind;
    struct str text;
} unserved[] = {
    {"", "ReplicationController", STR_INIT("ReplicationController" NOT_RUN)},
    {"", "Service",
     STR_INIT("Service is stored but this cluster routes no traffic to it and gives it no "
              "cluster IP")},
    {"autoscaling", "HorizontalPodAutoscaler", STR_INIT("HorizontalPodAutoscaler" NOT_RUN)},
    {"batch", "CronJob", STR_INIT("CronJob" NOT_RUN)},
    {"certificates.k8s.io", "PodCertificateRequest", STR_INIT("PodCertificateRequest" NOT_RUN)},
    {"flowcontrol.apiserver.k8s.io", "FlowSchema",
     STR_INIT("FlowSchema is stored but not enforced by this cluster")},
    {"flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration",
     STR_INIT("PriorityLevelConfiguration is stored but not enforced by this cluster")},
    {"networking.k8s.io", "Ingress", STR_INIT("Ingress" NOT_RUN)},
    {"networking.k8s.io", "IngressClass", STR_INIT("IngressClass" NOT_RUN)},
    {"networking.k8s.io", "NetworkPolicy",
     STR_INIT("NetworkPolicy is stored but not enforced by this cluster")},
    {"networking.k8s.io", "ServiceCIDR", STR_INIT("ServiceCIDR" NOT_RUN)},
    {"policy", "PodDisruptionBudget",
     STR_INIT("PodDisruptionBudget is stored but no controller of this cluster computes its "
              "status: evictions see the status that clients write")},
    {"storage.k8s.io", "VolumeAttachment", STR_INIT("VolumeAttachment" NOT_RUN)},
    {"storage.k8s.io", "VolumeAttributesClass", STR_INIT("VolumeAttributesClass" NOT_RUN)},
    {"storagemigration.k8s.io", "StorageVersionMigration",
     STR_INIT("StorageVersionMigration" NOT_RUN)},
};

static void notices_deprecate(const struct api_kind *k, size_t i, struct arena *arena,
                              struct notices *n)
{
    cleanup_sbuf struct sbuf text = {0};
    if (k->group.n)
        sbuf_addf(&text, "%.*s/", STR_ARG(k->group));
    sbuf_addf(&text, "%.*s %.*s is deprecated in v%s+", STR_ARG(k->version), STR_ARG(k->kind),
              deprecations[i].since);
    if (deprecations[i].removed[0])
        sbuf_addf(&text, ", unavailable in v%s+", deprecations[i].removed);
    if (deprecations[i].instead[0])
        sbuf_addf(&text, "; use %s", deprecations[i].instead);
    n->deprecated = arena_str(arena, sbuf_str(&text));
    n->removed = str_z(deprecations[i].removed);
}

struct notices notices_of(const struct api_kind *kind, struct arena *arena)
{
    struct notices n = {0};
    for (size_t i = 0; !kind->custom && i < array_len(deprecations); i++)
        if (str_eqz(kind->group, deprecations[i].group) &&
            str_eqz(kind->version, deprecations[i].version) &&
            str_eqz(kind->kind, deprecations[i].kind))
            notices_deprecate(kind, i, arena, &n);
    for (size_t i = 0; !kind->custom && i < array_len(unserved); i++)
        if (str_eqz(kind->group, unserved[i].group) && str_eqz(kind->kind, unserved[i].kind))
            n.unserved = unserved[i].text;
    return n;
}
