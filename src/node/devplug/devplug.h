// SPDX-License-Identifier: Apache-2.0
//
// Device plugins, old style: kubelet's device-plugin API v1beta1. Plugins register, tell their
// devices, and are asked at a pod's admission for those it gets; what they offer is the node's
// capacity of an extended resource. Who holds what is in one ledger (device_ledger.h) and on disk
// before a pod is admitted. Design, and how this goes together with extended resources that claims
// satisfy: docs/design/device-plugins.md.
//
// Lives on one exec.
#ifndef NODE_DEVPLUG_DEVPLUG_H
#define NODE_DEVPLUG_DEVPLUG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"
#include "base/exec.h"
#include "net/loop.h"
#include "node/devplug/device_ledger.h"
#include "node/dra.h"
#include "node/dra/transport.h"
#include "node/machine/disk.h"
#include "node/runtime/runtime.h"

struct devplug;

#define DEVPLUG_FOLDER_DEFAULT "/var/lib/kubelet/device-plugins"
#define DEVPLUG_SOCKET         "kubelet.sock"
#define DEVPLUG_RESOURCES_MAX  4096
#define DEVPLUG_PLUGINS_MAX    4096 // instances, registered or about to be

// 0: as kubelet.
struct devplug_times {
    int64_t dial_ns;      // until a plugin that registers answers: 10 s
    int64_t grace_ns;     // until a resource whose plugin is gone loses its capacity: 5 min
    int64_t allocate_ns;  // Allocate and GetPreferredAllocation: 2 min (kubelet waits for ever)
    int64_t pre_start_ns; // PreStartContainer: 30 s
};

struct devplug_options {
    struct exec *exec;
    struct transport *transport; // borrowed
    struct disk *disk;           // of the folder; borrowed
    const char *folder;          // of sockets; copied
    struct devplug_times times;
    // pods calls each for every pod that may hold devices; false: they are not known yet.
    bool (*pods)(void *arg, dra_pod_fn each, void *ctx);
    // changed: capacity or allocatable of the node is another. health_changed: of a device that a
    // pod has.
    void (*changed)(void *arg);
    void (*health_changed)(void *arg, struct str pod_uid);
    // plugin_changed (may be NULL): a plugin came, or the last one of a resource went.
    void (*plugin_changed)(void *arg, struct str resource, bool there);
    void *arg;
};

// devplug_new reads the checkpoint. An unreadable one is reported and replaced by an empty one, as
// by kubelet.
struct devplug *devplug_new(const struct devplug_options *options);

// devplug_free ends all operations with -ECANCELED before it returns.
void devplug_free(struct devplug *d);

// devplug_serve removes the sockets that plugins have in the folder and listens for registrations,
// so that they notice and register again. Returns 0, or the failure to listen: another process may
// serve there.
int devplug_serve(struct devplug *d, struct loop *loop, struct err *err) MUST_USE;

typedef void (*devplug_done_fn)(void *arg, int code, const struct err *err);

// devplug_register accepts the registration of a plugin; done, possibly called before it returns,
// has the answer to the plugin: 0, -ERR_INVALID (version, name), -ERR_TOO_MANY, -ERR_UNAVAILABLE,
// with kubelet's texts.
void devplug_register(struct devplug *d, const struct plugin_register_request *q,
                      devplug_done_fn done, void *arg);

// --- Capacity of the node ------------------------------------------------------------------------

typedef void (*devplug_amount_fn)(void *arg, struct str resource, int64_t capacity,
                                  int64_t allocatable);

// devplug_amounts reports every resource that was ever registered; 0 for one whose plugin is gone
// for good.
void devplug_amounts(const struct devplug *d, devplug_amount_fn fn, void *arg);

// devplug_is_new: there was no checkpoint. The extended resources of a Node object are then from an
// earlier installation.
bool devplug_is_new(const struct devplug *d);

// --- Pods ----------------------------------------------------------------------------------------

// devplug_wanted: a container of the pod asks for what plugins give, and no claim satisfies it.
bool devplug_wanted(const struct devplug *d, const struct api_pod *pod);

// devplug_allocate gives every container of a pod its devices; what it has already stays. All or
// nothing: on failure nothing is held. done comes later, once, with 0 or kubelet's text; -errno
// when it could not be saved.
void devplug_allocate(struct devplug *d, const struct typed_object *pod, devplug_done_fn done,
                      void *arg);

// devplug_pre_start makes sure that a container has its devices, and calls PreStartContainer if the
// plugin requires it. Returns false, and done is not called, when there is nothing to do.
bool devplug_pre_start(struct devplug *d, const struct typed_object *pod,
                       const struct api_container *container, devplug_done_fn done, void *arg);

// devplug_release ends what is under way for a pod with -ECANCELED, and takes back what it has.
void devplug_release(struct devplug *d, struct str pod_uid);

// devplug_held is how many devices of a resource are held by all pods, 0 when this pod holds none:
// a pod that was admitted before fits, whatever became of the plugin.
int64_t devplug_held(const struct devplug *d, struct str pod_uid, struct str resource);

// --- What containers get -------------------------------------------------------------------------

// What plugins ask for a container, each thing once.
struct devplug_gifts {
    struct VEC(struct runtime_pair) env;
    struct VEC(struct runtime_mount) mounts;
    struct VEC(struct runtime_device) devices;
    struct VEC(struct runtime_pair) annotations;
    struct VEC(struct str) cdi_devices;
};

// devplug_container collects it, in arena. Returns 0 or -ERR_INVALID: a saved answer is corrupt.
int devplug_container(const struct devplug *d, struct str pod_uid, struct str container,
                      struct arena *arena, struct devplug_gifts *ret, struct err *err) MUST_USE;

// devplug_health adds to allocatedResourcesStatus of a container, in arena.
void devplug_health(const struct devplug *d, struct str pod_uid, struct str container,
                    struct arena *arena, struct api_resource_status_array *out);

// devplug_of_container and devplug_allocatable add entries of PodResources, one for each device.
void devplug_of_container(const struct devplug *d, struct str pod_uid, struct str container,
                          struct arena *arena, struct plugin_container_resources *out);
void devplug_allocatable(const struct devplug *d, struct arena *arena,
                         struct plugin_allocatable_response *out);

const struct device_ledger *devplug_ledger(const struct devplug *d);

#endif
