// SPDX-License-Identifier: Apache-2.0
//
// What the files of the manager of device plugins share.
//
//     devplug ── resources ── plugins (instances, the newest counts) ── list of devices
//        │            └── the newest list, or the last instance's, all unhealthy
//        ├── ledger: grants (pod, container, resource → devices, the plugin's answer)
//        └── operations: one for each pod being admitted, or container about to start
#ifndef NODE_DEVPLUG_DEVPLUG_INT_H
#define NODE_DEVPLUG_DEVPLUG_INT_H

#include "base/list.h"
#include "base/log.h"
#include "net/grpc.h"
#include "node/devplug/devplug.h"

extern struct log_module devplug_log;

struct listed {
    struct str id;
    bool healthy;
    struct VEC(int64_t) nodes; // NUMA
};

// The devices of one message; never changed.
struct device_list {
    struct arena arena;
    struct VEC(struct listed) all;
    struct MAP(size_t) by_id; // places in all
    size_t healthy;
};

struct resource;

// A plugin that registers, or has registered.
struct device_plugin {
    struct list_node node; // of devplug.plugins
    struct devplug *owner;
    struct resource *resource; // NULL until it is registered
    char *name, *path;
    struct transport_link *link;
    struct plugin_devices_options options;
    struct device_list *list; // NULL: none reported yet
    struct exec_timer timer;  // of the dialling, then of the burial
    bool asking, dead;        // its options; it goes when control is back at the exec
    devplug_done_fn done;     // of the registration, until it is answered
    void *arg;
};

struct resource {
    struct devplug *owner;
    char *name;
    struct VEC(struct device_plugin *) plugins; // in the order they came
    struct device_list *left;                   // by the last plugin; NULL: none
    struct exec_timer grace; // armed while there is no plugin, and capacity is kept
    bool known;              // it counts: a plugin is there, or was a while ago
};

// A container and a resource of which it needs some.
struct device_step {
    const struct api_container *container;
    struct str resource;
    size_t needed;
};

struct device_op {
    struct list_node node; // of devplug.ops; not linked: over, and freed with its last answer
    struct devplug *owner;
    struct arena arena;
    const struct typed_object *pod; // kept
    struct VEC(struct device_step) steps;
    size_t next;
    struct VEC(struct device_grant *) made; // taken back if it fails
    struct exec_timer begin;
    bool waiting;  // for an answer
    bool starting; // a container: PreStartContainer is called as well
    devplug_done_fn done;
    void *arg;
    struct err err;
};

struct devplug {
    struct devplug_options options;
    char *folder;
    struct device_ledger ledger;
    struct VEC(struct resource *) resources;
    struct list plugins;
    size_t plugins_len;
    struct list ops;
    struct grpc_server *server;
    bool is_new;
    bool closing;
};

int devplug_save(struct devplug *d, struct err *err) MUST_USE;

struct resource *devplug_find(const struct devplug *d, struct str name);
// devplug_resource_list is the current list, NULL: none was reported yet. live: its plugin is
// there, so devices can be healthy. devplug_resource_plugin is the instance to ask, or NULL.
const struct device_list *devplug_resource_list(const struct resource *r, bool *ret_live);
struct device_plugin *devplug_resource_plugin(const struct resource *r);
const struct listed *devplug_list_find(const struct device_list *l, struct str id);
// devplug_resource_healthy is how many devices can be allocated.
size_t devplug_resource_healthy(const struct resource *r);

// devplug_call_plugin asks a plugin; done runs once, later.
void devplug_call_plugin(struct device_plugin *p, const char *method,
                         const struct plugin_message *message, const void *value,
                         int64_t timeout_ns, void (*done)(void *arg, const struct grpc_result *r),
                         void *arg);

// devplug_cancel_ops ends operations of a pod, or of all (empty uid).
void devplug_cancel_ops(struct devplug *d, struct str pod_uid);

#endif
