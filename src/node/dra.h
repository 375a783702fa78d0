// SPDX-License-Identifier: Apache-2.0
//
// The DRA manager of a node, kubelet's part of Dynamic Resource Allocation: drivers register with
// it, claims of pods are prepared before their containers start and unprepared after they stopped,
// and what is owed to drivers is on disk before they hear of it. Design and crash points:
// docs/design/agent.md.
//
// Lives on one exec. Every operation ends once, by its `done`, never before the call has returned.
#ifndef NODE_DRA_H
#define NODE_DRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/features.h"
#include "base/exec.h"
#include "client/client.h"
#include "client/events.h"
#include "node/dra/claims.h"
#include "node/dra/plugins.h"
#include "node/dra/transport.h"
#include "node/machine/disk.h"

struct dra;

#define DRA_STATE_FILE   "dra_manager_state" // kubelet's
#define DRA_STATE_OLD    "dra_manager_state.old"
#define DRA_STATE_BAD    "dra_manager_state.damaged"
#define DRA_HEALTH_FILE  "dra_health_state" // kubelet's
#define DRA_BOOT_ID_FILE "dra_boot_id"

#define DRA_ABANDON_ANNOTATION "dray.dev/abandon-driver" // of the Node: names of drivers
#define DRA_BLOCKED_CONDITION  "DRAUnprepareBlocked"     // of the Node

// 0: as kubelet.
struct dra_times {
    int64_t call_ns;         // NodePrepareResources, NodeUnprepareResources: 45 s
    int64_t reconcile_ns;    // 60 s
    int64_t wipe_ns;         // until slices of a driver that is gone are deleted: 30 s
    int64_t look_ns;         // at the registration folder: 1 s
    int64_t dial_ns;         // 10 s
    int64_t health_retry_ns; // 5 s
};

typedef void (*dra_pod_fn)(void *ctx, const struct typed_object *pod);

struct dra_options {
    struct exec *exec;
    struct client *client;         // NULL: claims are handed over, no slice is wiped
    struct event_recorder *events; // may be NULL
    struct transport *transport;
    struct disk *disk;
    const struct features *features;
    struct str node;      // its name; copied
    struct str boot_id;   // of the machine; copied
    const char *registry; // the registration folder; NULL: plugins are added by dra_plugins
    bool rebuild;     // start empty when no checkpoint can be read, and learn from the active pods
    bool keep_slices; // wipe nothing
    struct dra_times times;
    // pods calls each for every active pod of the node. False: they are not known yet. NULL: there
    // are none to know of, and nothing is unprepared by itself.
    bool (*pods)(void *arg, dra_pod_fn each, void *ctx);
    // The health of a device that a pod uses changed: its status should be written again.
    void (*health_changed)(void *arg, struct str pod_uid);
    // For those who show what happens; each may be NULL.
    void (*plugin_changed)(void *arg, struct str driver, bool usable);
    void (*plugin_failed)(void *arg, struct str socket, const struct err *err);
    void (*looked)(void *arg, size_t unsettled);
    void *arg;
};

// dra_new loads the state. Returns 0, or -ERR_INVALID when it cannot be read (drain the node and
// remove the file), or -errno.
int dra_new(const struct dra_options *options, struct dra **ret, struct err *err) MUST_USE;

// dra_start begins to register plugins, to wipe slices and to reconcile.
void dra_start(struct dra *d);

// dra_free ends all operations with -ECANCELED before it returns; none may be started from there,
// and it is not called from one of them.
void dra_free(struct dra *d);

typedef void (*dra_done_fn)(void *arg, int code, const struct err *err);

// dra_prepare prepares all claims of a pod. Codes: -ERR_NOT_FOUND (claim or driver), -ERR_FORBIDDEN
// (not reserved for the pod), -ERR_INVALID, -ERR_CONFLICT, -ERR_UNAVAILABLE, -ERR_TIMEOUT, -errno
// of the checkpoint … with kubelet's texts.
void dra_prepare(struct dra *d, const struct typed_object *pod, dra_done_fn done, void *arg);

// dra_unprepare lets go of the claims of a pod whose containers have stopped.
void dra_unprepare(struct dra *d, const struct typed_object *pod, dra_done_fn done, void *arg);

// dra_prepare_claims prepares claims for a consumer without a Pod object, and without asking
// whether they are reserved for it.
void dra_prepare_claims(struct dra *d, struct str consumer_uid,
                        const struct typed_object *const *claims, size_t n, dra_done_fn done,
                        void *arg);

// dra_unprepare_uid lets go of all claims of a consumer, from the checkpoint alone.
void dra_unprepare_uid(struct dra *d, struct str consumer_uid, dra_done_fn done, void *arg);

// dra_needs_unprepare: the pod may not be reported as gone yet.
bool dra_needs_unprepare(const struct dra *d, struct str pod_uid);

// dra_idle: no operation is under way.
bool dra_idle(const struct dra *d);

// dra_reconcile does at once what is otherwise done every minute.
void dra_reconcile(struct dra *d);

// --- What containers get -------------------------------------------------------------------------

struct dra_texts VEC(struct str);

// dra_container_devices adds the CDI names of a container's devices, in arena. Returns 0 or
// -ERR_NOT_FOUND when a claim is not known here, -ERR_CONFLICT when it has to be prepared again.
int dra_container_devices(const struct dra *d, const struct api_pod *pod,
                          const struct api_container *container, struct arena *arena,
                          struct dra_texts *out, struct err *err) MUST_USE;

// dra_container_claims calls fn for each claim of a container, as PodResources reports them.
// Returns 0 or -ERR_NOT_FOUND.
int dra_container_claims(const struct dra *d, const struct api_pod *pod,
                         const struct api_container *container,
                         void (*fn)(void *arg, const struct node_claim *claim), void *arg,
                         struct err *err) MUST_USE;

// dra_container_health makes allocatedResourcesStatus of a container, in arena.
void dra_container_health(const struct dra *d, const struct api_pod *pod,
                          const struct api_container *container, struct arena *arena,
                          struct api_resource_status_array *ret);

// dra_device_health is what is known of a device: Healthy, Unhealthy, Unknown.
struct str dra_device_health(const struct dra *d, struct str driver, struct str pool,
                             struct str device, struct str *ret_message);

// --- Queries -------------------------------------------------------------------------------------

const struct node_claims *dra_claims(const struct dra *d);

// dra_metrics adds what it counts in Prometheus' text form.
void dra_metrics(const struct dra *d, struct sbuf *out);

struct plugins *dra_plugins(struct dra *d);

// A driver that owes an unprepare and is not there.
struct dra_blocked {
    struct str driver;
    struct str reason; // DriverNotRegistered, DriverNotAnswering
    int64_t since_ns;  // on the wall clock
    struct str claims; // namespace/name, by commas
};

void dra_blocked_each(const struct dra *d, void (*fn)(void *arg, const struct dra_blocked *b),
                      void *arg);

// dra_abandon makes claims forget a driver that will not come back: the caller vouches that its
// devices are free. waiting_only: only claims whose unprepare waits for it. Returns how many did,
// -ERR_CONFLICT when the driver is there, or -errno of the checkpoint.
int dra_abandon(struct dra *d, struct str driver, bool waiting_only, struct err *err) MUST_USE;

#endif
