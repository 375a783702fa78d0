// SPDX-License-Identifier: Apache-2.0
//
// The network driver: interfaces of this machine as devices, on the SDK. Preparing a claim plans
// and remembers; the container runtime calls a hook (net_hook.h) when the pod's namespace is there,
// which moves the interface in; unpreparing brings it back. The reasons are in
// docs/design/driver-net.md.
#ifndef DRIVER_NET_H
#define DRIVER_NET_H

#include "base/err.h"
#include "dray/driver.h"
#include "driver/net/net_inventory.h"

#define NET_DRIVER_NAME "dra.net"
#define NET_WAIT_NS     (3 * CLOCK_NS_PER_SEC)

struct net_options {
    struct dray_runtime *runtime;
    const char *name; // NULL: NET_DRIVER_NAME
    const char *node;
    const char *plugins_dir; // NULL: kubelet's directories
    const char *registry_dir;
    const char *cdi_dir;
    const char *instance;
    const char *hook;   // the program that runtimes call, as a path of the host
    bool runtime_moves; // let the runtime move interfaces (CDI 1.1); the hook only sets them up
    const struct net_filter *filter; // borrowed
    // told is called on any thread with messages for the log; may be NULL.
    void (*told)(void *arg, const char *what);
    void *arg;
};

struct net_driver;

// net_driver_start starts the driver on a runtime that does not run yet, and publishes. Freed by
// net_driver_free, after the runtime; net_driver_stop comes before that of the runtime.
int net_driver_start(const struct net_options *options, struct net_driver **ret,
                     struct err *err) MUST_USE;
void net_driver_stop(struct net_driver *d);
void net_driver_free(struct net_driver *d);

#endif
