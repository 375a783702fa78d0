// SPDX-License-Identifier: Apache-2.0
//
// Asking any cluster that a kubeconfig names, one question after the other, for verbs that ask and
// end.
#ifndef CMD_CLUSTER_H
#define CMD_CLUSTER_H

#include "api/features.h"
#include "base/err.h"
#include "base/str.h"
#include "client/client.h"
#include "client/discovery.h"
#include "client/kubeconfig.h"
#include "client/remote.h"
#include "net/loop.h"

// Zeroed, it is closed.
struct cluster {
    struct loop *loop;
    struct kubeconfig config;
    struct kubeconfig_target target;
    struct client *client;
    struct discovery kinds; // see cluster_kinds
    struct {
        struct VEC(struct str) shown;
        struct arena arena;
    } warnings;
};

// cluster_open connects to c->target, which common_find found. End with cluster_close in any case.
int cluster_open(struct cluster *c, struct err *err) MUST_USE;
void cluster_close(struct cluster *c);

// cluster_get adds the body of the answer to a GET. Returns 0 or the server's error.
int cluster_get(struct cluster *c, const char *target, struct sbuf *out, struct err *err) MUST_USE;

// cluster_request sends any request and adds the body of its answer; done, data and arg of q are
// set here. Returns as cluster_get.
int cluster_request(struct cluster *c, struct client_raw_request q, struct sbuf *out,
                    struct err *err) MUST_USE;

// cluster_stream sends a request whose answer is handed to data as it comes, until it ends, data
// does not return 0, or the time is over (0: never). Returns 0 when it has ended, what data
// returned, -ERR_TIMEOUT, or the server's error.
typedef int (*cluster_data_fn)(void *arg, struct str bytes, struct err *err);
int cluster_stream(struct cluster *c, struct client_raw_request q, int64_t timeout_ns,
                   cluster_data_fn data, void *arg, struct err *err) MUST_USE;

// cluster_pause lets time go by.
void cluster_pause(struct cluster *c, int64_t ns);

// cluster_kinds asks once which kinds the server has, and again with refresh.
int cluster_kinds(struct cluster *c, bool anew, struct err *err) MUST_USE;

// cluster_features asks what the server offers.
int cluster_features(struct cluster *c, struct features *ret, struct err *err) MUST_USE;

// cluster_wait runs the loop until done returns true. Returns 0 or -ERR_TIMEOUT after a minute.
int cluster_wait(struct cluster *c, bool (*done)(void *arg), void *arg, struct err *err) MUST_USE;

#endif
