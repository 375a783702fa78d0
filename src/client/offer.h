// SPDX-License-Identifier: Apache-2.0
//
// What an API server offers, asked once at the start of a component: its release, the versions of
// the kinds that come and go between releases, and its feature gates as far as it reports them.
//
// Gates are read from the server's own metrics (kubernetes_feature_enabled) where we may read
// those; else they are the defaults of its release. A gate whose kind is not served is off,
// whatever else is stated.
#ifndef CLIENT_OFFER_H
#define CLIENT_OFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "api/features.h"
#include "base/err.h"
#include "base/str.h"
#include "client/client.h"

// The oldest release that has resource.k8s.io/v1: 1.34.
#define OFFER_MINOR_OLDEST 34

struct offer {
    uint32_t minor; // of the release whose API it shows, 1.minor
    bool claims;    // resource.k8s.io/v1
    bool pod_groups, pool_requests;
    const struct api_kind
        *rules;       // DeviceTaintRules in the newest version that is served; NULL: none
    bool gates_known; // from the server's metrics
    bool gate_said[FEATURES];
    bool gate_on[FEATURES];
};

// Reading the parts of it; offer starts zeroed. offer_read_version takes the body of /version,
// offer_read_resources that of /apis/GROUP/VERSION, offer_read_metrics that of /metrics. Return 0
// or -ERR_BAD_REQUEST.
int offer_read_version(struct offer *o, struct str body, struct err *err) MUST_USE;
int offer_read_resources(struct offer *o, struct str group_version, struct str body,
                         struct err *err) MUST_USE;
void offer_read_metrics(struct offer *o, struct str body);

// offer_features fills what it comes to. Returns 0, or -ERR_UNSUPPORTED for a server that is too
// old.
int offer_features(const struct offer *o, struct features *ret, struct err *err) MUST_USE;

// offer_ask asks a server. client must be one of client_remote_new; requests for kinds that the
// server has only in another version are sent there from then on. done runs once; code 0, or what
// the server answered.
typedef void (*offer_fn)(void *arg, int code, const struct err *err, const struct offer *o);
void offer_ask(struct client *c, offer_fn done, void *arg);

#endif
