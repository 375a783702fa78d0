// SPDX-License-Identifier: Apache-2.0
//
// The pods of this node, from admission to deletion: kubelet's pod workers, each pod a state
// machine of its own on one exec. What a pod needs is made in the order of
// docs/design/containers.md and taken apart in the reverse order; each step may be cut short by
// kill -9 and is done again after a restart. The only memory is the API, the runtime's list and the
// DRA manager's checkpoint.
#ifndef NODE_PODS_PODS_H
#define NODE_PODS_PODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/exec.h"
#include "client/client.h"
#include "client/events.h"
#include "node/devplug/devplug.h"
#include "node/dra.h"
#include "node/eviction.h"
#include "node/limits/id_ranges.h"
#include "node/pods/probe.h"
#include "node/runtime/runtime.h"

struct pods;

// 0: as kubelet.
struct pods_times {
    int64_t backoff_first_ns; // of containers and images: 10 s
    int64_t backoff_max_ns;   // 5 min
    int64_t retry_first_ns;   // of what failed around a pod: 0.5 s, doubling
    int64_t retry_max_ns;     // 10 s
    int64_t refresh_ns;       // of config maps, secrets and tokens in volumes: 60 s
};

#define PODS_PIDS_MAX 4096 // processes of one pod, unless stated otherwise

// When the node itself runs short. Without observe only the limits of pods count.
struct pods_eviction {
    const struct eviction_config *config; // borrowed; NULL: kubelet's defaults
    // observe measures the node: the disks of data_dir and images, memory and process ids. It runs
    // where it may block, and may still run after pods_free: then arg must live on, or not be used.
    void (*observe)(void *arg, const struct eviction_places *at, struct eviction_facts *ret);
    const char *images; // borrowed
    // reclaim removes what nothing uses (images), then calls done(done_arg). May be NULL.
    void (*reclaim)(void *arg, exec_fn done, void *done_arg);
    // changed: pods_pressure differs. May be NULL.
    void (*changed)(void *arg);
    void *arg;
};

struct pods_options {
    struct exec *exec;
    struct client *client;
    struct event_recorder *events; // may be NULL
    struct runtime *runtime;
    struct probe_net *net; // for probes and hooks over the network; NULL: they fail
    struct str node;       // its name; copied
    const char *data_dir;  // pods/UID/… below it; copied
    const char *log_dir;   // of containers; copied
    struct str host_ips;   // of the node, by commas; copied
    struct str api_host;   // KUBERNETES_SERVICE_HOST without a service; copied
    struct str api_port;
    const struct features *features;
    bool may_mount;              // tmpfs for secrets; else they are on disk, with an event
    const struct id_ranges *ids; // of user namespaces; borrowed; NULL: kubelet's default ones
    int64_t pids_max;            // processes of one pod; 0: PODS_PIDS_MAX, less: no limit
    struct pods_eviction eviction;
    struct pods_times times;
    // node_object is the Node object, for admission. NULL: not known yet.
    const struct typed_object *(*node_object)(void *arg);
    // disk_full: a pull found no space. May be NULL.
    void (*disk_full)(void *arg);
    void *arg;
    // work runs work(job) where it may block, then after(job) on the exec: a volume may hold a
    // million files. NULL: both at once.
    void (*work)(void *arg, exec_fn work, exec_fn after, void *job);
};

struct pods *pods_new(const struct pods_options *options);

// pods_set_dra gives it the manager of claims, which in turn asks for pods_each. Before pods_start;
// without it pods with claims do not start.
void pods_set_dra(struct pods *p, struct dra *dra);

// pods_set_devices gives it the manager of device plugins, likewise; without it, none is called.
void pods_set_devices(struct pods *p, struct devplug *devices);

// pods_start reads what the runtime has, then follows the API.
void pods_start(struct pods *p);

// pods_free leaves everything as it is: what runs goes on.
void pods_free(struct pods *p);

// pods_each is for dra_options.pods: all pods whose claims must stay prepared. False: not known
// yet.
bool pods_each(void *arg, dra_pod_fn each, void *ctx);

// pods_health_changed is for dra_options.health_changed.
void pods_health_changed(void *arg, struct str pod_uid);

// pods_node_changed: labels, taints or capacity of the node have changed.
void pods_node_changed(struct pods *p);

// pods_pressure is what the node is short of, for its conditions.
void pods_pressure(const struct pods *p, struct eviction_conditions *ret);

// --- Queries -------------------------------------------------------------------------------------

// What a container of a pod is, for those who serve logs and exec.
struct pods_container {
    struct str pod_uid;
    struct str pod_id;      // the runtime's; empty: none
    struct str id;          // of the newest run; empty: there is none
    struct str previous_id; // of the run before; may be empty
    uint32_t attempt;
    bool running;
    const char *log_path, *previous_log_path; // good until the next call; NULL: none
    struct str waiting;                       // why there is no run yet
};

// pods_find finds a container of a pod; an empty container name means the only one. uid may be
// empty. Returns 0, -ERR_NOT_FOUND, or -ERR_BAD_REQUEST with kubelet's text.
int pods_find(struct pods *p, struct str namespace, struct str name, struct str uid,
              struct str container, struct pods_container *ret, struct err *err) MUST_USE;

// pods_list_json adds the pods of the node as a PodList.
void pods_list_json(struct pods *p, struct sbuf *out);

// pods_pause begins nothing new; pods_busy: operations of the runtime or of others are still under
// way.
void pods_pause(struct pods *p);
bool pods_busy(const struct pods *p);

// pods_idle: nothing is under way; pods_len: how many it knows.
bool pods_idle(const struct pods *p);
size_t pods_len(const struct pods *p);

#endif
