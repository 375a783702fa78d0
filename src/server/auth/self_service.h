// SPDX-License-Identifier: Apache-2.0
//
// The Service default/kubernetes with its Endpoints and EndpointSlice: where clients in the cluster
// find the server. It is made at the start and brought back every few seconds, as kube-apiserver
// does.
#ifndef SERVER_AUTH_SELF_SERVICE_H
#define SERVER_AUTH_SELF_SERVICE_H

#include "base/exec.h"
#include "client/client.h"

// Its cluster IP: the first address of the range that kubeadm gives to Services. Nothing in dray
// forwards cluster IPs; agents see the annotation, and give pods the server's own address instead.
#define SELF_SERVICE_IP "10.96.0.1"

struct self_service {
    struct exec *exec;
    struct client *client;
    struct exec_timer timer;
    struct str host; // as other machines reach the server: an address or a name; belongs to text
    uint16_t port;
    char *text;
};

// self_service_start begins with the URL that other machines use. One that cannot be read is
// logged.
void self_service_start(struct self_service *s, struct exec *exec, struct client *client,
                        struct str url);

// self_service_stop ends it. A zeroed one may be stopped.
void self_service_stop(struct self_service *s);

#endif
