// SPDX-License-Identifier: Apache-2.0
//
// A claim's devices planned and remembered, and given back: what the driver does between the SDK
// and the kernel. No API server here.
#ifndef DRIVER_NET_NET_PREPARE_H
#define DRIVER_NET_NET_PREPARE_H

#include "dray/driver.h"
#include "driver/net/net_attach.h"
#include "driver/net/net_inventory.h"

struct net_preparer {
    struct net_world world;
    const struct net_filter *filter;
    const struct net_pci_names *names;
    const char *hook;
    bool runtime_moves;
    // report is called when a device came back in another state than it left; may be NULL.
    void (*report)(void *arg, bool warning, const char *reason, const char *message);
    void *arg;
};

// net_prepare and net_unprepare are the callbacks of the SDK; net_verify too. They take the lock.
int net_prepare(struct net_preparer *p, const struct dray_claim *claim, struct dray_outcome *out,
                struct err *err) MUST_USE;
int net_unprepare(struct net_preparer *p, const struct dray_claim *claim, struct err *err) MUST_USE;
int net_verify(struct net_preparer *p, const struct dray_claim *claim, struct err *err) MUST_USE;

#endif
