// SPDX-License-Identifier: Apache-2.0
//
// Reading from any cluster that a kubeconfig names, for verbs that ask and end. Nothing is written.
#ifndef CMD_CLUSTER_H
#define CMD_CLUSTER_H

#include "api/features.h"
#include "base/err.h"
#include "base/str.h"
#include "client/client.h"
#include "client/kubeconfig.h"
#include "net/loop.h"

// Zeroed, it is closed.
struct cluster {
    struct loop *loop;
    struct kubeconfig config;
    struct kubeconfig_target target;
    struct client *client;
};

// cluster_open connects to what the kubeconfig (NULL: as kubectl finds it) and the context (NULL: the current one) name. End with
// cluster_close in any case.
int cluster_open(struct cluster *c, const char *kubeconfig, const char *context,
                 struct err *err) MUST_USE;
void cluster_close(struct cluster *c);

// cluster_get adds the body of the answer to a GET. Returns 0 or what the server said.
int cluster_get(struct cluster *c, const char *target, struct sbuf *out, struct err *err) MUST_USE;

// cluster_features asks what the server offers.
int cluster_features(struct cluster *c, struct features *ret, struct err *err) MUST_USE;

// cluster_wait runs the loop until done says so. Returns 0 or -ERR_TIMEOUT after a minute.
int cluster_wait(struct cluster *c, bool (*done)(void *arg), void *arg, struct err *err) MUST_USE;

#endif
