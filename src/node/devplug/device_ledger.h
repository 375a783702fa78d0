// SPDX-License-Identifier: Apache-2.0
//
// Who holds which devices of device plugins: the node's one ledger of them, pure data. A grant is
// what one container got of one resource. Devices that a claim gives are not in here: what a claim
// satisfies is never asked of a plugin (docs/design/device-plugins.md).
//
// Written to disk as kubelet's `kubelet_internal_checkpoint`, so that either program can take over
// from the other.
#ifndef NODE_DEVPLUG_DEVICE_LEDGER_H
#define NODE_DEVPLUG_DEVICE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "driver/plugin_api.h"

#define DEVICE_NODE_NONE       (-1) // of a device that belongs to no NUMA node
#define DEVICE_GRANTS_MAX      1000000
#define DEVICE_CHECKPOINT_FILE "kubelet_internal_checkpoint"

// A device of a grant; one that belongs to several NUMA nodes has an entry for each.
struct device_place {
    int64_t node;
    struct str id;
};

struct device_places VEC(struct device_place);

struct device_grant {
    struct arena arena; // of everything below
    struct str pod_uid, container, resource;
    struct device_places devices;
    struct str response; // plugin_allocation, as the plugin wrote it
    bool settled; // the plugin agreed. Until then the devices are only held, and nothing is on disk
};

struct device_ledger {
    struct VEC(struct device_grant *) grants; // in the order they were made
};

struct device_set MAP(bool);

struct device_grant *device_ledger_add(struct device_ledger *l, struct str pod_uid,
                                       struct str container, struct str resource);
void device_grant_add(struct device_grant *g, int64_t node, struct str id);
bool device_grant_has(const struct device_grant *g, struct str id);
size_t device_grant_len(const struct device_grant *g); // devices, each once

struct device_grant *device_ledger_find(const struct device_ledger *l, struct str pod_uid,
                                        struct str container, struct str resource);
bool device_ledger_has_pod(const struct device_ledger *l, struct str pod_uid);
bool device_ledger_has_resource(const struct device_ledger *l, struct str resource);

// device_ledger_held adds the ids of a resource's devices that are held by anybody. The set borrows
// them.
void device_ledger_held(const struct device_ledger *l, struct str resource, struct device_set *out);

// device_ledger_drop removes the grants that fn selects. Returns how many.
size_t device_ledger_drop(struct device_ledger *l,
                          bool (*fn)(void *arg, const struct device_grant *g), void *arg);
void device_ledger_done(struct device_ledger *l);

// --- On disk -------------------------------------------------------------------------------------

// A resource that a plugin has registered, with the ids of its healthy devices.
struct device_registered {
    struct str resource;
    struct plugin_strs ids;
};

struct device_registrations VEC(struct device_registered);

// device_ledger_write adds the text: settled grants and registrations, under kubelet's checksum.
void device_ledger_write(const struct device_ledger *l, const struct device_registrations *r,
                         struct sbuf *out);

// device_ledger_read reads it into an empty ledger; registrations live in arena. Returns 0,
// -ERR_INVALID (checksum) or -ERR_BAD_REQUEST; then the ledger is empty.
int device_ledger_read(struct str text, struct device_ledger *ret, struct arena *arena,
                       struct device_registrations *ret_registered, struct err *err) MUST_USE;

#endif
