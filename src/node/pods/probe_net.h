// SPDX-License-Identifier: Apache-2.0
//
// Checks over the network on a loop: connections, HTTP and HTTPS (any certificate, as kubelet),
// gRPC's health service, from the host or from within a pod's network namespace.
#ifndef NODE_PODS_PROBE_NET_H
#define NODE_PODS_PROBE_NET_H

#include "net/loop.h"
#include "node/pods/probe.h"

// probe_net_new makes one; freed by probe_net_free when all checks are over or cancelled.
int probe_net_new(struct loop *loop, struct probe_net **ret, struct err *err) MUST_USE;
void probe_net_free(struct probe_net *n);

// probe_http_request adds a check's request: one GET, whatever the pod's path and headers are.
void probe_http_request(struct sbuf *out, const struct probe_net_request *q);

// probe_grpc_status looks for the answer of a health check in the frames a server sent: 1 serving,
// 0 not there yet, -1 anything else.
int probe_grpc_status(struct str bytes);

// probe_grpc_request adds the bytes of a health check: a whole HTTP/2 client.
void probe_grpc_request(struct sbuf *out, struct str authority, struct str service);

#endif
