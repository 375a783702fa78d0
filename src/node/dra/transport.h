// SPDX-License-Identifier: Apache-2.0
//
// Connections to plugins behind an interface: gRPC over unix sockets in production, memory in
// tests. The rules are those of net/grpc.h: a call ends once, by `done`, never before `call` has
// returned; closing a link ends its calls with CANCELLED before it returns, and state is not called
// any more.
#ifndef NODE_DRA_TRANSPORT_H
#define NODE_DRA_TRANSPORT_H

#include "net/grpc.h"

struct transport_link;

struct transport {
    // open connects to a socket, and again when the connection is lost. state is called on a later
    // turn.
    struct transport_link *(*open)(struct transport *t, const char *path,
                                   void (*state)(void *arg, bool connected), void *arg);
    void (*call)(struct transport_link *l, const struct grpc_request *q);
    void (*close)(struct transport_link *l); // NULL is legal
};

// transport_grpc_new makes connections on a loop.
struct transport *transport_grpc_new(struct loop *loop);
void transport_grpc_free(struct transport *t);

// transport_error writes how a call ended as grpc-go does: "rpc error: code = … desc = …".
int transport_error(const struct grpc_result *r, struct err *err);

#endif
