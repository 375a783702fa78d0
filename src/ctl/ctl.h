// SPDX-License-Identifier: Apache-2.0
//
// The controllers of DRA's control plane, on one exec with one client:
//   claims      claims from templates, reservations, deallocation, clean-up
//   taints      eviction from tainted devices, status of DeviceTaintRules
//   pools       answers to ResourcePoolStatusRequests
//   garbage     objects whose owners are gone
//   groups      PodGroups stay as long as pods need them
//   roles       rules of aggregated ClusterRoles
//   quotas      what is used of ResourceQuotas
// and, where they are enabled, those that make it a small cluster: workloads and nodes.
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "api/features.h"
#include "base/exec.h"
#include "client/client.h"

struct ctl;

enum ctl_controller {
    CTL_CLAIMS,
    CTL_TAINTS,
    CTL_POOLS,
    CTL_GARBAGE,
    CTL_GROUPS,
    CTL_ROLES,
    CTL_WORKLOADS, // what follows makes it a small cluster
    CTL_REPLICA_SETS = CTL_WORKLOADS,
    CTL_DEPLOYMENTS,
    CTL_DAEMON_SETS,
    CTL_STATEFUL_SETS,
    CTL_JOBS,
    CTL_ACCOUNTS,
    CTL_NODES,
    CTL_TAINT_EVICTION,
    CTL_STALE_SLICES,
    CTL_QUOTAS,
    CTL_POD_GARBAGE,
    CTL_ROOT_CA,
    CTL_CSR_APPROVING,
    CTL_CSR_SIGNING,
    CTL_CSR_CLEANER,
    CTL_BOOTSTRAP_SIGNER,
    CTL_TOKEN_CLEANER,
    CTL_VOLUMES,
    CTL_HISTORY,
    CTL_CONTROLLERS,
};

// ctl_controller_name is kube-controller-manager's name for it.
const char *ctl_controller_name(enum ctl_controller which);

// ctl_controllers_parse reads a list as kube-controller-manager's --controllers: '*' (those that on
// has already), NAME, -NAME; without '*' only those that are named. Returns 0 or -ERR_INVALID.
int ctl_controllers_parse(struct str list, bool on[CTL_CONTROLLERS], struct err *err) MUST_USE;

// What kube-controller-manager lets stay.
#define CTL_TERMINATED_PODS 12500

// What the controllers of certificates work with; texts are copied.
struct ctl_certificates {
    struct str ca_certificate, ca_key; // PEM; empty: nothing is signed
    struct str server_certificate;     // whose names no node gets
    // may: who made a request may create certificatesigningrequests/SUBRESOURCE. NULL: no request
    // may.
    bool (*may)(void *arg, const struct api_certificate_signing_request *request,
                const char *subresource);
    void *arg;
};

struct ctl_options {
    struct client *client; // borrowed
    struct exec *exec;     // the client's
    const struct features *features;
    bool aggregate_roles;      // where no kube-controller-manager does
    bool collect_all;          // garbage of all kinds, not of those alone that are cached anyway
    bool off[CTL_CONTROLLERS]; // what somebody else does
    int64_t terminated_pods;   // how many may stay; 0: all
    struct str root_ca; // PEM of what signs the server's certificate; borrowed; empty: unknown
    struct ctl_certificates certificates;
    bool standby; // know everything, do nothing before ctl_lead
};

struct ctl *ctl_new(const struct ctl_options *options);

// ctl_start begins to list and watch.
void ctl_start(struct ctl *c);

// ctl_set_ca replaces the CA that is published and that signs, PEM as in ctl_options: of several
// certificates the first one signs.
void ctl_set_ca(struct ctl *c, struct str ca_certificate, struct str ca_key);

// ctl_lead ends standing by. There is no way back but ctl_free.
void ctl_lead(struct ctl *c);

// ctl_synced: every cache has been filled once.
bool ctl_synced(const struct ctl *c);

// ctl_free stops at once; answers still to come are ignored. Posted work of the exec must be run
// once more before the exec goes.
void ctl_free(struct ctl *c);

// ctl_idle: every cache has been filled and nothing is left to do for now.
bool ctl_idle(const struct ctl *c);

// ctl_metrics adds Prometheus' text, with the names of Kubernetes' controllers.
void ctl_metrics(const struct ctl *c, struct sbuf *out);

// ctl_check reports whether nothing is remembered of claims that are gone; else adds a line for
// each.
bool ctl_check(const struct ctl *c, struct sbuf *problems);

#endif
