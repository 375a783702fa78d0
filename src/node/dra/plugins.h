// SPDX-License-Identifier: Apache-2.0
//
// The plugins that are registered: of each driver one or, while it is being updated, several
// instances, in the order they came. Keeps a connection to each and watches the health of their
// devices.
#ifndef NODE_DRA_PLUGINS_H
#define NODE_DRA_PLUGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/exec.h"
#include "driver/plugin_api.h"
#include "node/dra/transport.h"

struct plugins;
struct plugin;

#define PLUGINS_PER_DRIVER_MAX 64
#define PLUGINS_DRIVERS_MAX    4096
#define PLUGINS_NAME_MAX       63 // of a driver, as the API has it

struct plugins_options {
    struct exec *exec;
    struct transport *transport; // borrowed
    int64_t health_retry_ns;     // 0: 5 s
    bool health;                 // watch it
    // changed: an instance came or went, connected or lost its connection. usable: one is
    // connected.
    void (*changed)(void *arg, struct str driver, bool usable);
    // A health message; the end of a health stream.
    void (*health_message)(void *arg, struct str driver, struct str message);
    void (*health_end)(void *arg, struct str driver);
    void *arg;
};

struct plugins *plugins_new(const struct plugins_options *options);
void plugins_free(struct plugins *p);

// plugins_add registers an instance and connects to it. Returns 0, -ERR_INVALID, or
// -ERR_ALREADY_EXISTS (that endpoint is taken).
int plugins_add(struct plugins *p, const struct plugin_info *info, struct err *err) MUST_USE;
void plugins_remove(struct plugins *p, struct str driver, struct str endpoint);

// plugins_pick is the instance to call: the newest that is connected, else the newest; NULL, and
// err set, when the driver is not registered. Good until control goes back to the exec.
struct plugin *plugins_pick(const struct plugins *p, struct str driver, struct err *err);

// plugins_usable: an instance of the driver is connected.
bool plugins_usable(const struct plugins *p, struct str driver);

// plugins_service is what its methods are called by: /k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/.
const char *plugins_service(const struct plugin *p);

// plugins_call calls a method of DRA (NodePrepareResources, NodeUnprepareResources) in the version
// that was agreed on. done runs once, later.
void plugins_call(struct plugin *p, struct str method, struct str message, int64_t timeout_ns,
                  void (*done)(void *arg, const struct grpc_result *result), void *arg);

struct plugin_view {
    struct str driver, endpoint;
    struct str service;        // v1.DRAPlugin
    struct str health_service; // empty: none
    bool connected;
};

// plugins_each calls fn for all instances, drivers in the order of registration.
void plugins_each(const struct plugins *p, void (*fn)(void *arg, const struct plugin_view *v),
                  void *arg);

#endif
