// SPDX-License-Identifier: Apache-2.0
//
// The controllers of DRA's control plane, on one exec with one client:
//   claims      claims from templates, reservations, deallocation, clean-up
//   taints      eviction from tainted devices, status of DeviceTaintRules
//   pools       answers to ResourcePoolStatusRequests
//   garbage     objects whose owners are gone
//   groups      PodGroups stay as long as pods need them
//   roles       rules of aggregated ClusterRoles
// and, where they are asked for, those that make it a small cluster: workloads and nodes.
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <stdbool.h>

#include "api/features.h"
#include "base/exec.h"
#include "client/client.h"

struct ctl;

// Controllers that may be left out, for those who have others.
enum {
    CTL_REPLICA_SETS = 1 << 0,
    CTL_DEPLOYMENTS = 1 << 1,
    CTL_DAEMON_SETS = 1 << 2,
    CTL_STATEFUL_SETS = 1 << 3,
    CTL_JOBS = 1 << 4,
    CTL_ACCOUNTS = 1 << 5,
    CTL_POD_GC = 1 << 6,
    CTL_NODES = 1 << 7,
    CTL_TAINT_EVICTION = 1 << 8,
    CTL_STALE_SLICES = 1 << 9,
    CTL_ALL = (1 << 10) - 1,
};

// ctl_controllers_parse reads a list as kube-controller-manager's --controllers: names, -NAME for all but it, * for
// all. Returns 0 or -ERR_INVALID.
int ctl_controllers_parse(struct str list, unsigned *ret, struct err *err) MUST_USE;

struct ctl_options {
    struct client *client; // borrowed
    struct exec *exec;     // the client's
    const struct features *features;
    bool aggregate_roles; // where no kube-controller-manager does
    unsigned controllers; // CTL_…
};

struct ctl *ctl_new(const struct ctl_options *options);

// ctl_start begins to list and watch.
void ctl_start(struct ctl *c);

// ctl_free stops at once; answers still to come are ignored. Posted work of the exec must be run
// once more before the exec goes.
void ctl_free(struct ctl *c);

// ctl_idle: every cache has been filled and nothing is left to do for now.
bool ctl_idle(const struct ctl *c);

// ctl_metrics adds Prometheus' text, with the names of Kubernetes' controllers.
void ctl_metrics(const struct ctl *c, struct sbuf *out);

// ctl_check says whether nothing is remembered of claims that are gone; else adds a line for each.
bool ctl_check(const struct ctl *c, struct sbuf *problems);

#endif
