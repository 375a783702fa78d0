// SPDX-License-Identifier: Apache-2.0
//
// The way from a pod to the endpoint of the node it runs on, for what the API server does not keep
// itself: logs, commands, forwarded ports.
#ifndef SERVER_HTTP_NODE_H
#define SERVER_HTTP_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"

struct exchange;

// How nodes are spoken to; as kube-apiserver's flags --kubelet-….
struct server_nodes {
    struct loop *loop;
    struct str ca_pem;          // who vouches for nodes
    struct str certificate_pem; // what they are shown
    struct str key_pem;
    bool insecure; // take any certificate
    struct str
        address_types; // by commas, the preferred one first; empty: InternalIP, ExternalIP, …
    uint16_t port;     // of nodes that do not say; 0: 10250
    int64_t connect_timeout_ms; // 0: 5 s
};

// Where a pod's container is. Texts live in the exchange.
struct node_location {
    struct str host; // empty: the pod has no node
    uint16_t port;
    struct str container;
};

// node_locate finds the node of the exchange's pod. container may be empty; it is then the only
// one. any_container: it does not matter. False: the exchange has been answered.
bool node_locate(struct exchange *ex, struct str container, bool any_container,
                 struct node_location *ret);

#endif
