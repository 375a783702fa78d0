// SPDX-License-Identifier: Apache-2.0
//
// Drivers for hardware that is not there: profiles as real drivers publish them, prepared and
// unprepared as real drivers do, with faults on demand. Any number of nodes in one process.
#ifndef DRIVER_HW_SIM_H
#define DRIVER_HW_SIM_H

#include "base/err.h"
#include "dray/driver.h"
#include "driver/profile.h"

struct hw_sim_options {
    struct dray_runtime *runtime;
    struct profile *const *profiles; // borrowed
    size_t profiles_len;
    const char *node; // one node of this name; NULL: many
    size_t nodes;     // of each profile, named <profile>-<number>
    // Folders: with root, <root>/<node>/{plugins,plugins_registry,cdi} each; else kubelet's own.
    const char *root;
    const char *plugins_dir, *registry_dir, *cdi_dir;
    const char *instance;
    const char *lease_namespace; // of signs of life; NULL: none
    int64_t lease_seconds;       // 0: the SDK's own
    const char *state;           // folder of faults; NULL: plugins_dir/dray-sim, or root
    bool make_nodes;             // create Node objects
    bool make_classes;           // create DeviceClasses
    bool shared;                 // publish pools that belong to no node, attach their devices
    bool evict;                  // drain by NoExecute
    int64_t attach_ms;           // how long it takes
    bool device_nodes;           // containers get /dev/NAME, a copy of /dev/null
    int64_t reset_ms;
    // told is called when a driver is registered, and for failures; may be NULL.
    void (*told)(void *arg, const char *node, const char *driver, const char *what);
    void *arg;
};

struct hw_sim;

// hw_sim_start starts all drivers on the runtime. Texts must live as long as it. Returns 0 or a
// negative code; *ret is there in any case.
int hw_sim_start(const struct hw_sim_options *options, struct hw_sim **ret,
                 struct err *err) MUST_USE;

// hw_sim_stop ends its timer, before the runtime goes; hw_sim_free frees it, after the runtime.
void hw_sim_stop(struct hw_sim *s);
void hw_sim_free(struct hw_sim *s);

#endif
