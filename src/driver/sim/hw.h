// SPDX-License-Identifier: Apache-2.0
//
// The simulated hardware's inside: nodes, the drivers on them, devices and what is wrong with them.
//
// A driver's hardware is a folder: hw/<pool>_<device>/ holds `identity`, which containers see, and
// one file claim.<uid> for each claim the device is set up for. Like real hardware it outlives the
// driver, and like real hardware it refuses to be set up for two at once.
#ifndef DRIVER_SIM_HW_H
#define DRIVER_SIM_HW_H

#include "api/api.h"
#include "base/exec.h"
#include "base/vec.h"
#include "driver/fault.h"
#include "driver/hw_sim.h"
#include "driver/profile.h"
#include "driver/sdk/sdk.h"
#include "os/fault.h"

struct hw_driver;

// What is known of a device: of the profile and of how it is now.
struct hw_device {
    const struct api_device *device;
    struct str pool;
    bool shared; // of the network: any node may have it
};

struct hw_devices VEC(struct hw_device);
struct hw_counters VEC(struct api_counter_set);

enum heal_state { HEAL_FINE, HEAL_DRAINING, HEAL_RESETTING, HEAL_LOST };

// A device that something is wrong with.
struct heal {
    const struct hw_device *device;
    enum heal_state state;
    int64_t until_ns; // of a reset
    enum fault_kind kind;
    int64_t code;
};

struct heals VEC(struct heal);

// A device that is being attached for a claim.
struct hw_attaching {
    char *key;
    int64_t due_ns;
};

// A driver on a node, or (node NULL) the part of it that serves no node.
struct hw_driver {
    struct list_node node_of; // of the sim
    struct hw_sim *sim;
    struct dray_driver *driver;
    const struct hw_family *family;
    const char *name;
    const char *node; // NULL: none
    size_t index;     // of the node
    const char *hw;   // folder
    struct hw_devices devices;
    struct hw_counters counters; // sets of all pools
    struct heals heals;
    struct fault_hook hook;
    _Atomic int64_t steps;                      // fault points since there is a fault "crash"
    struct fault_file faults;                   // of the node
    struct VEC(struct hw_attaching) attachings; // the driver's thread alone
};

struct hw_sim {
    struct hw_sim_options o;
    struct arena arena;
    struct dray_runtime *runtime;
    struct exec *exec;
    struct list drivers;
    struct exec_timer tick;
    struct list calls;
};

// --- Families: what drivers of a kind do with parameters and environment
// --------------------------

// What a family is given for one device of a claim.
struct hw_setting {
    const struct hw_driver *driver;
    const struct dray_claim *claim;
    const struct dray_allocated *allocated;
    const struct hw_device *device;
    struct dray_outcome *out;
    size_t index;            // of the device in the claim
    const char *folder;      // of the device, on the host
    struct sbuf *setup;      // what the file claim.<uid> will say
    const struct str *texts; // what the files of other claims say
    size_t texts_len;
};

struct hw_family {
    const char *driver; // its name; NULL: any
    const char *env;    // GPU makes GPU_DEVICE_0
    const struct dray_schema *schemas;
    size_t schemas_len;
    // apply checks decoded parameters (schema and value NULL: there are none) and returns what they
    // mean.
    int (*apply)(const struct hw_setting *s, const struct dray_schema *schema, const void *value,
                 struct dray_error *err);
    // check looks at the whole claim before anything is done. May be NULL.
    int (*check)(const struct hw_driver *d, const struct dray_claim *claim, struct dray_error *err);
};

// hw_family_of finds the family of a driver.
const struct hw_family *hw_family_of(const char *driver);

// hw_configure applies all parameters of a device; the last of a kind wins, as drivers have it.
int hw_configure(const struct hw_setting *s, struct dray_error *err);

// --- Devices -------------------------------------------------------------------------------------

const struct hw_device *hw_find(const struct hw_driver *d, struct str pool, struct str device);

// hw_text and hw_int are attributes of a device, by name without domain or with; empty, -1: none.
struct str hw_text(const struct hw_device *d, const char *name);
int64_t hw_int(const struct hw_device *d, const char *name);

// hw_env_name adds the name of the variable that shows a device: GPU_DEVICE_0.
void hw_env_name(const struct hw_setting *s, struct sbuf *out);

int hw_prepare(void *arg, const struct dray_claim *claim, struct dray_outcome *out,
               struct dray_error *err);
int hw_unprepare(void *arg, const struct dray_claim *claim, struct dray_error *err);
int hw_verify(void *arg, const struct dray_claim *claim, struct dray_error *err);
int hw_attach(void *arg, const struct dray_claim *claim, const struct dray_allocated *device,
              struct dray_error *err);

// hw_write_identity makes the file that containers see.
int hw_write_identity(const struct hw_driver *d, const struct hw_device *device,
                      struct err *err) MUST_USE;

// --- Healing -------------------------------------------------------------------------------------

// hw_heal_tick looks at faults and moves every device one step on its way back.
void hw_heal_tick(struct hw_driver *d);

#endif
