// SPDX-License-Identifier: Apache-2.0
//
// A small network for the pods of one node: a bridge, a veth pair for each pod, IPv4 addresses of a
// subnet that are kept as files. Pods reach each other and the node; there is no way out of it. The
// bridge is made for the first pod and removed with the last. Safe from several threads.
#ifndef NODE_RUNTIME_PODNET_H
#define NODE_RUNTIME_PODNET_H

#include "base/err.h"
#include "base/str.h"

struct podnet;

struct podnet_options {
    const char *bridge; // its name, at most 15 characters
    const char *subnet; // "10.199.0.0/16"; /8 to /29
    const char *folder; // for the files; made
};

// podnet_new reads the subnet and checks that links can be made here. Returns 0, -ERR_INVALID or
// -errno.
int podnet_new(const struct podnet_options *options, struct podnet **ret, struct err *err) MUST_USE;
void podnet_free(struct podnet *n);

// podnet_add gives the network namespace at a path a link and an address, which is added to out.
// Done again for the same pod it changes nothing. Returns 0, -ERR_TOO_MANY (no address is left) or
// -errno.
int podnet_add(struct podnet *n, const char *pod_id, const char *netns, struct sbuf *out,
               struct err *err) MUST_USE;

// podnet_remove removes both; missing ones are success.
void podnet_remove(struct podnet *n, const char *pod_id);

// podnet_move gives a link of the host to a network namespace under a name. Returns 0,
// -ERR_NOT_FOUND or -errno.
int podnet_move(const char *link, const char *netns, const char *name, struct err *err) MUST_USE;

#endif
