// SPDX-License-Identifier: Apache-2.0
//
// The driver SDK: a Kubernetes DRA driver in a page of C (examples/driver-led;
// docs/design/driver-sdk.md is the guide). It speaks to kubelet as Kubernetes' own helper does, so
// it runs under any kubelet ≥ 1.34 and under dray's agent.
//
//     dray_runtime_new(&where, &runtime, &err);      the API server, an event loop
//     dray_driver_start(runtime, &what, &driver, &err);
//     dray_publish(driver, pool, &err);              which devices there are
//     dray_runtime_run(runtime);                     until SIGTERM
//
// The SDK keeps a journal of what is prepared, writes CDI specs and metadata files, and answers
// kubelet again after a crash without asking the driver twice. Callbacks run on a thread of the
// driver's own, one at a time, and may block. Functions are safe on any thread unless they say
// otherwise. Texts are NUL-terminated UTF-8; what a function is given is copied, what a callback is
// given is good until it returns. Functions that can fail return 0, or -1 with the error filled in;
// the error may be NULL.
#ifndef DRAY_DRIVER_H
#define DRAY_DRIVER_H

#include <dray/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// dray_fail fills an error as printf does and returns -1.
DRAY_API int dray_fail(struct dray_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// --- Runtime -------------------------------------------------------------------------------------

struct dray_runtime;

struct dray_runtime_options {
    const char *kubeconfig; // NULL: $KUBECONFIG, ~/.kube/config, else the pod's service account
    const char *context;    // NULL: the current one
    const char *user_agent;
};

// dray_runtime_new finds the API server; nothing is connected yet. options may be NULL.
DRAY_API int dray_runtime_new(const struct dray_runtime_options *options, struct dray_runtime **ret,
                              struct dray_error *err);

// dray_runtime_run runs all drivers of the runtime until SIGTERM, SIGINT or dray_runtime_stop, then
// stops them: calls of kubelet that are under way get their answers, sockets go away.
DRAY_API void dray_runtime_run(struct dray_runtime *r);
DRAY_API void dray_runtime_stop(struct dray_runtime *r);

// dray_runtime_free frees the runtime and its drivers; not while it runs.
DRAY_API void dray_runtime_free(struct dray_runtime *r);

// --- Claims, as callbacks see them
// -----------------------------------------------------------------

// Opaque parameters for this driver, as JSON. dray_decode reads them.
struct dray_config {
    bool from_class; // else from the claim, whose author is a user
    const char *parameters;
};

struct dray_amount {
    const char *name;
    const char *quantity;
};

// A device that the claim has been given.
struct dray_allocated {
    const char *request;     // as containers name it
    const char *request_ref; // with "/subrequest" where there is one
    const char *pool;
    const char *device;
    const char *share_id; // NULL: the whole device
    bool admin_access;
    const struct dray_amount *consumed; // of a share
    size_t consumed_len;
    const struct dray_config *configs; // the least important first
    size_t configs_len;
};

struct dray_claim {
    const char *namespace_; // keywords of C++ are avoided
    const char *name;
    const char *uid;
    const char *pod_claim_name; // what the pod calls a claim made from a template, else NULL
    const struct dray_allocated *devices;
    size_t devices_len; // 0 in unprepare when nothing is known any more
    bool rebooted;      // it was prepared before the machine last started
};

// What a prepare makes; filled by the functions below.
struct dray_outcome;

struct dray_callbacks {
    // prepare makes the devices of a claim ready. It is called again for the same claim after a
    // failure or a crash: it must be able to find its own half-done work. Nothing is called again
    // once it was successful, until unprepare.
    int (*prepare)(void *arg, const struct dray_claim *claim, struct dray_outcome *out,
                   struct dray_error *err);

    // unprepare undoes it, however far it came. May be NULL, as may all that follow.
    int (*unprepare)(void *arg, const struct dray_claim *claim, struct dray_error *err);

    // verify is asked after a restart of the driver, and when kubelet asks for a claim that is
    // prepared: is it still? A failure makes the SDK call prepare again.
    int (*verify)(void *arg, const struct dray_claim *claim, struct dray_error *err);

    // attach is for devices with binding conditions: called when a claim has been allocated, before
    // the pod is bound. Success sets the device's binding conditions, failure its first failure
    // condition; DRAY_PENDING asks again in a second.
    int (*attach)(void *arg, const struct dray_claim *claim, const struct dray_allocated *device,
                  struct dray_error *err);

    // registered: kubelet has taken the driver, or refused it, with the reason. This and trouble
    // run on the runtime's thread and must not block.
    void (*registered)(void *arg, bool yes, const char *why);

    // trouble: something in the background failed and will be tried again.
    void (*trouble)(void *arg, const struct dray_error *err);
};

#define DRAY_PENDING 1

// --- Drivers -------------------------------------------------------------------------------------

struct dray_driver;

struct dray_driver_options {
    const char *name; // of the driver: gpu.example.com
    const char *node; // NULL: this is not a node's part; pools that belong to no node, attach
    const char *plugins_dir;  // NULL: /var/lib/kubelet/plugins
    const char *registry_dir; // NULL: /var/lib/kubelet/plugins_registry
    const char *cdi_dir;      // NULL: /var/run/cdi
    const char *instance;     // the pod's UID: two instances may run while one replaces the other
    const char *cdi_class;    // NULL: device; CDI kinds are NAME/CLASS
    bool health;              // offer the health stream
    bool metadata;            // mount files that describe devices (KEP-5304) into containers
    bool attaches;            // watch claims and call attach
    // A Lease in this namespace for each pool shows that the driver lives, and its slices name it;
    // NULL: none. What is needed: get, create and patch of leases there.
    const char *lease_namespace;
    unsigned lease_seconds; // how long it is good for; 0: 40
    struct dray_callbacks callbacks;
    void *arg;
};

// dray_driver_start checks what was prepared before, opens the sockets and offers the driver to
// kubelet. Before the runtime runs. The driver belongs to the runtime.
DRAY_API int dray_driver_start(struct dray_runtime *r, const struct dray_driver_options *options,
                               struct dray_driver **ret, struct dray_error *err);

// dray_event records a Kubernetes Event about the node of the driver.
DRAY_API void dray_event(struct dray_driver *d, bool warning, const char *reason,
                         const char *message);

// dray_report puts a condition into the status of a claim that is prepared: for what becomes known
// afterwards. Of claim only names and UID count. Failures come as trouble.
struct dray_claim_condition {
    const char *pool, *device, *share_id; // share_id NULL: the whole device
    const char *type, *reason, *message;
    bool yes;
};
DRAY_API void dray_report(struct dray_driver *d, const struct dray_claim *claim,
                          const struct dray_claim_condition *condition);

// dray_in_use reports how many claims hold a device.
DRAY_API size_t dray_in_use(struct dray_driver *d, const char *pool, const char *device);

// --- Pools ---------------------------------------------------------------------------------------

// A pool is put together by one thread and published as a whole. Names of attributes, capacities
// and counters without a domain are the driver's own. Mistakes are reported by dray_publish.
struct dray_pool;
struct dray_device;

// dray_pool_new: a pool of the driver's node; NULL is the usual name, the node's own.
DRAY_API struct dray_pool *dray_pool_new(const char *name);
DRAY_API void dray_pool_free(struct dray_pool *p);

// dray_pool_for_all_nodes, dray_pool_for_nodes: devices of the network, for all nodes or those that
// a NodeSelector (JSON) names.
DRAY_API void dray_pool_for_all_nodes(struct dray_pool *p);
DRAY_API void dray_pool_for_nodes(struct dray_pool *p, const char *node_selector);

// dray_pool_counter: a counter of a set that devices share.
DRAY_API void dray_pool_counter(struct dray_pool *p, const char *set, const char *counter,
                                const char *quantity);

// dray_pool_device adds a device. The pointer is good as long as the pool.
DRAY_API struct dray_device *dray_pool_device(struct dray_pool *p, const char *name);

DRAY_API void dray_attribute_text(struct dray_device *d, const char *name, const char *value);
DRAY_API void dray_attribute_version(struct dray_device *d, const char *name, const char *value);
DRAY_API void dray_attribute_int(struct dray_device *d, const char *name, int64_t value);
DRAY_API void dray_attribute_bool(struct dray_device *d, const char *name, bool value);

DRAY_API void dray_capacity(struct dray_device *d, const char *name, const char *quantity);

// dray_capacity_range: a capacity that is shared: the default of a request, and what
// may be requested. min, max and step may be NULL.
struct dray_range {
    const char *default_value, *min, *max, *step;
};
DRAY_API void dray_capacity_range(struct dray_device *d, const char *name, const char *quantity,
                                  const struct dray_range *range);

// dray_consumes: what the device takes of a counter.
DRAY_API void dray_consumes(struct dray_device *d, const char *set, const char *counter,
                            const char *quantity);

// dray_shareable: the device may be given to several claims.
DRAY_API void dray_shareable(struct dray_device *d);

// dray_binding adds a condition that must be True before pods are bound, and one that makes the
// scheduler give up. Either may be NULL.
DRAY_API void dray_binding(struct dray_device *d, const char *condition, const char *failure);

// dray_device_json adds fields of resource.k8s.io/v1 Device that have no function here, as a JSON
// object.
DRAY_API void dray_device_json(struct dray_device *d, const char *fields);

// dray_pool_json makes a pool of the specs of its slices: a JSON array of ResourceSliceSpec without
// driver and pool. They are published one for one.
DRAY_API int dray_pool_json(const char *name, const char *slices, struct dray_pool **ret,
                            struct dray_error *err);

// dray_publish makes the API server's slices of the pool those of p, with as few writes as
// possible, and keeps them so. dray_unpublish removes a pool. NULL is the node's.
DRAY_API int dray_publish(struct dray_driver *d, const struct dray_pool *p, struct dray_error *err);
DRAY_API void dray_unpublish(struct dray_driver *d, const char *pool);

// --- Health --------------------------------------------------------------------------------------

enum dray_health { DRAY_HEALTH_UNKNOWN, DRAY_HEALTHY, DRAY_UNHEALTHY };

// dray_health reports a device's health to kubelet, and so to the pods' status. pool may be NULL.
DRAY_API void dray_health(struct dray_driver *d, const char *pool, const char *device,
                          enum dray_health health, const char *message);

// dray_taint puts a taint on a device (effect None, NoSchedule or NoExecute), dray_untaint takes it
// away. The pool is published again; taints stay over dray_publish.
DRAY_API void dray_taint(struct dray_driver *d, const char *pool, const char *device,
                         const char *key, const char *value, const char *effect);
DRAY_API void dray_untaint(struct dray_driver *d, const char *pool, const char *device,
                           const char *key);

// --- What prepare makes
// ----------------------------------------------------------------------------

// Within prepare. device is an index of claim->devices, or DRAY_ALL for what all containers of the
// claim get.
#define DRAY_ALL ((size_t)-1)

DRAY_API void dray_env(struct dray_outcome *o, size_t device, const char *name, const char *value);
DRAY_API void dray_device_node(struct dray_outcome *o, size_t device, const char *path,
                               const char *host_path, const char *permissions);
// dray_mount: options are separated by commas; NULL is "ro,nosuid,nodev,bind".
DRAY_API void dray_mount(struct dray_outcome *o, size_t device, const char *host_path,
                         const char *container_path, const char *options);
// dray_hook: an OCI hook; args end with NULL.
DRAY_API void dray_hook(struct dray_outcome *o, size_t device, const char *stage, const char *path,
                        const char *const *args);
// dray_net_device: the runtime moves an interface of the host into the container's network
// namespace. Runtimes that do not know CDI 1.1 refuse the device.
DRAY_API void dray_net_device(struct dray_outcome *o, size_t device, const char *host_interface,
                              const char *name);
// dray_cdi names a CDI device that somebody else describes.
DRAY_API void dray_cdi(struct dray_outcome *o, size_t device, const char *qualified_name);

// What becomes the claim's status.devices: conditions, data (a JSON object), how to reach a network
// device.
DRAY_API void dray_condition(struct dray_outcome *o, size_t device, const char *type, bool yes,
                             const char *reason, const char *message);
DRAY_API void dray_data(struct dray_outcome *o, size_t device, const char *json);
DRAY_API void dray_network(struct dray_outcome *o, size_t device, const char *interface,
                           const char *hardware_address, const char *const *ips);

// dray_describe adds an attribute to the device's metadata file.
DRAY_API void dray_describe(struct dray_outcome *o, size_t device, const char *attribute,
                            const char *value);

// --- Opaque parameters
// -----------------------------------------------------------------------------

// A table of fields describes the parameters; dray_decode reads them into a struct. Fields
// that are not in the table, wrong types and values out of range are errors with the field's path.
enum dray_kind {
    DRAY_TEXT,     // const char *
    DRAY_INT,      // int64_t
    DRAY_BOOL,     // bool
    DRAY_QUANTITY, // const char *, checked
    DRAY_CHOICE,   // const char *, one of `choices`
    DRAY_OBJECT,   // a pointer to a struct of `fields`, NULL when absent
    DRAY_TEXTS,    // struct dray_texts
    DRAY_MAP,      // struct dray_map of texts; `of_quantities` checks them
    DRAY_OBJECTS,  // struct dray_objects, each a struct of `fields`
    DRAY_RAW,      // const char *: any JSON, as it is
    DRAY_OPT_INT,  // const int64_t *, NULL when absent; limits as DRAY_INT
    DRAY_OPT_BOOL, // const bool *, NULL when absent
    DRAY_FLAGS,    // struct dray_flags: an object of booleans
};

struct dray_texts {
    const char *const *p;
    size_t n;
};

struct dray_map {
    const struct dray_amount *p;
    size_t n;
};

struct dray_flag {
    const char *name;
    bool on;
};

struct dray_flags {
    const struct dray_flag *p;
    size_t n;
};

struct dray_objects {
    const void *p; // array of structs
    size_t n;
};

struct dray_field {
    const char *name; // NULL ends a table
    enum dray_kind kind;
    size_t offset; // offsetof the member
    bool required;
    bool of_quantities;
    const char *const *choices; // ends with NULL
    int64_t min, max;           // of DRAY_INT and DRAY_OPT_INT, when they differ
    const struct dray_field *fields;
    size_t size; // of the struct of `fields`
};

// A kind of parameters. Parameters must name exactly this apiVersion and kind; NULL: they name
// none.
struct dray_schema {
    const char *api_version;
    const char *kind;
    const struct dray_field *fields;
    size_t size;
};

struct dray_params; // owns what was decoded

// dray_decode reads JSON that must be of one of the schemas; *ret_schema is the one it was.
// dray_params_value is the struct.
DRAY_API int dray_decode(const char *json, const struct dray_schema *schemas, size_t schemas_len,
                         const struct dray_schema **ret_schema, struct dray_params **ret,
                         struct dray_error *err);
DRAY_API const void *dray_params_value(const struct dray_params *p);
DRAY_API void dray_params_free(struct dray_params *p);

#ifdef __cplusplus
}
#endif

#endif
