// SPDX-License-Identifier: Apache-2.0
//
// The controllers of DRA's control plane, on one exec with one client:
//   claims      claims from templates, reservations, deallocation, clean-up
//   taints      eviction from tainted devices, status of DeviceTaintRules
//   pools       answers to ResourcePoolStatusRequests
//   garbage     objects whose owners are gone
//   groups      PodGroups stay as long as pods need them
//   roles       rules of aggregated ClusterRoles
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <stdbool.h>

#include "api/features.h"
#include "base/exec.h"
#include "client/client.h"

struct ctl;

struct ctl_options {
    struct client *client; // borrowed
    struct exec *exec;     // the client's
    const struct features *features;
    bool aggregate_roles; // where no kube-controller-manager does
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
