// SPDX-License-Identifier: Apache-2.0
//
// The messages that kubelet and its plugins exchange (k8s.io/kubelet v0.37): registration, DRA,
// device health, pod resources, device plugins, and the names of the methods. Both ends use them:
// the driver and the agent.
//
// v1 and v1beta1 of DRA, and v1 and v1alpha1 of health, have the same messages; v1beta1 drivers
// leave share_id out.
#ifndef DRIVER_PLUGIN_API_H
#define DRIVER_PLUGIN_API_H

#include "base/arena.h"
#include "base/vec.h"
#include "codec/proto.h"

#define PLUGIN_GET_INFO     "/pluginregistration.Registration/GetInfo"
#define PLUGIN_NOTIFY       "/pluginregistration.Registration/NotifyRegistrationStatus"
#define PLUGIN_DRA_V1       "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define PLUGIN_DRA_V1BETA1  "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"
#define PLUGIN_HEALTH_V1    "/v1.DRAResourceHealth/NodeWatchResources"
#define PLUGIN_HEALTH_ALPHA "/v1alpha1.DRAResourceHealth/NodeWatchResources"
#define PLUGIN_PODRESOURCES "/v1.PodResourcesLister/"
#define PLUGIN_REGISTER     "/v1beta1.Registration/Register" // of device plugins
#define PLUGIN_DEVICES      "/v1beta1.DevicePlugin/"

// What a plugin lists as supported; not the names of the services.
#define PLUGIN_ID_DRA_V1       "v1.DRAPlugin"
#define PLUGIN_ID_DRA_V1BETA1  "v1beta1.DRAPlugin"
#define PLUGIN_ID_HEALTH_V1    "v1.DRAResourceHealth"
#define PLUGIN_ID_HEALTH_ALPHA "v1alpha1.DRAResourceHealth"
#define PLUGIN_TYPE_DRA        "DRAPlugin"
#define PLUGIN_ID_DEVICES      "v1beta1" // the version in a device plugin's registration
#define PLUGIN_DEVICE_HEALTHY  "Healthy" // everything else is not

struct plugin_strs VEC(struct str);
struct plugin_i64s VEC(int64_t);

struct plugin_empty {
    char unused;
};

struct plugin_info {
    struct str type;
    struct str name;
    struct str endpoint;
    struct plugin_strs supported_versions;
};

struct plugin_registration_status {
    bool plugin_registered;
    struct str error;
};

struct plugin_claim {
    struct str namespace;
    struct str uid;
    struct str name;
};

// Requests of NodePrepareResources and NodeUnprepareResources.
struct plugin_claims {
    struct VEC(struct plugin_claim) claims;
};

struct plugin_device {
    struct plugin_strs request_names;
    struct str pool_name;
    struct str device_name;
    struct plugin_strs cdi_device_ids;
    struct str share_id;
    bool has_share_id;
};

struct plugin_prepared {
    struct str uid; // the key
    struct {
        struct VEC(struct plugin_device) devices;
        struct str error;
    } claim;
};

struct plugin_prepare_response {
    struct VEC(struct plugin_prepared) claims;
};

struct plugin_unprepared {
    struct str uid; // the key
    struct {
        struct str error;
    } claim;
};

struct plugin_unprepare_response {
    struct VEC(struct plugin_unprepared) claims;
};

enum plugin_health {
    PLUGIN_HEALTH_UNKNOWN = 0,
    PLUGIN_HEALTHY = 1,
    PLUGIN_UNHEALTHY = 2,
};

struct plugin_device_health {
    struct {
        struct str pool_name;
        struct str device_name;
    } device;
    int64_t health; // enum plugin_health
    int64_t last_updated_time_sec;
    int64_t health_check_timeout_sec;
    struct str message;
};

struct plugin_health_response {
    struct VEC(struct plugin_device_health) devices;
};

struct plugin_cdi_device {
    struct str name;
};

struct plugin_claim_resource {
    struct VEC(struct plugin_cdi_device) cdi_devices;
    struct str driver_name;
    struct str pool_name;
    struct str device_name;
    struct str share_id;
    bool has_share_id;
};

struct plugin_dynamic_resource {
    struct str claim_name;
    struct str claim_namespace;
    struct VEC(struct plugin_claim_resource) claim_resources;
};

// Messages that may be left out are lists of one.
struct plugin_numa_node {
    int64_t id;
};

struct plugin_topology {
    struct VEC(struct plugin_numa_node) nodes;
};

struct plugin_container_devices {
    struct str resource_name;
    struct plugin_strs device_ids;
    struct VEC(struct plugin_topology) topology;
};

struct plugin_allocatable_response {
    struct VEC(struct plugin_container_devices) devices;
    struct plugin_i64s cpu_ids;
};

// Memory is not kept here; it is skipped.
struct plugin_container_resources {
    struct str name;
    struct VEC(struct plugin_container_devices) devices;
    struct plugin_i64s cpu_ids;
    struct VEC(struct plugin_dynamic_resource) dynamic_resources;
};

struct plugin_pod_resources {
    struct str name;
    struct str namespace;
    struct VEC(struct plugin_container_resources) containers;
    struct plugin_i64s cpu_ids;
};

struct plugin_list_pods_response {
    struct VEC(struct plugin_pod_resources) pod_resources;
};

struct plugin_get_pod_request {
    struct str pod_name;
    struct str pod_namespace;
};

struct plugin_get_pod_response {
    struct plugin_pod_resources pod_resources;
};

// --- Device plugins, v1beta1 ---------------------------------------------------------------------

struct plugin_devices_options {
    bool pre_start_required;
    bool preferred_allocation_available;
};

struct plugin_register_request {
    struct str version;
    struct str endpoint; // the name of its socket, in the folder of the registration socket
    struct str resource_name;
    struct plugin_devices_options options;
};

struct plugin_listed_device {
    struct str id;
    struct str health;
    struct VEC(struct plugin_topology) topology;
};

// A message of ListAndWatch: all devices there are.
struct plugin_device_list {
    struct VEC(struct plugin_listed_device) devices;
};

// PreStartContainerRequest; a container in a request of Allocate or an answer of
// GetPreferredAllocation.
struct plugin_device_ids {
    struct plugin_strs ids;
};

// AllocateRequest, PreferredAllocationResponse.
struct plugin_devices_by_container {
    struct VEC(struct plugin_device_ids) containers;
};

struct plugin_preference {
    struct plugin_strs available;
    struct plugin_strs must_include;
    int64_t size;
};

struct plugin_preferred_request {
    struct VEC(struct plugin_preference) containers;
};

struct plugin_pair {
    struct str key, value;
};

struct plugin_mount {
    struct str container_path;
    struct str host_path;
    bool read_only;
};

struct plugin_device_node {
    struct str container_path;
    struct str host_path;
    struct str permissions; // of r, w, m
};

// What a container needs to use its devices.
struct plugin_allocation {
    struct VEC(struct plugin_pair) envs;
    struct VEC(struct plugin_mount) mounts;
    struct VEC(struct plugin_device_node) devices;
    struct VEC(struct plugin_pair) annotations;
    struct VEC(struct plugin_cdi_device) cdi_devices;
};

struct plugin_allocate_response {
    struct VEC(struct plugin_allocation) containers;
};

// A kind of message; one for each struct above that travels by itself.
struct plugin_message;

extern const struct plugin_message plugin_info_message, plugin_registration_status_message,
    plugin_claims_message, plugin_prepare_response_message, plugin_unprepare_response_message,
    plugin_health_response_message, plugin_list_pods_response_message,
    plugin_get_pod_request_message, plugin_get_pod_response_message, plugin_empty_message,
    plugin_allocatable_response_message, plugin_devices_options_message,
    plugin_register_request_message, plugin_device_list_message, plugin_device_ids_message,
    plugin_devices_by_container_message, plugin_preferred_request_message,
    plugin_allocation_message, plugin_allocate_response_message;

// plugin_encode writes a message, fields in order of their numbers; entries of maps as they stand.
// w comes empty.
void plugin_encode(const struct plugin_message *m, const void *value, struct proto_writer *w);

// plugin_decode reads a message into a zeroed value. Slices point into bytes; lists live in the
// arena. Unknown fields are skipped. Returns 0, -ERR_BAD_REQUEST, or -ERR_TOO_LARGE when lists
// would take more than the bound.
#define PLUGIN_DECODE_BYTES_MAX ((size_t)64 * 1024 * 1024)
int plugin_decode(const struct plugin_message *m, struct str bytes, void *value, struct arena *a,
                  struct err *err) MUST_USE;

#endif
