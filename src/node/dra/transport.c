// SPDX-License-Identifier: Apache-2.0
//
// gRPC over unix sockets as the production transport, and kubelet's texts for failed calls.
#include "node/dra/transport.h"

#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

struct grpc_transport {
    struct transport transport;
    struct loop *loop;
};

static struct transport_link *transport_open_link(struct transport *t, const char *path,
                                                  void (*state)(void *arg, bool connected),
                                                  void *arg)
{
    struct grpc_transport *g = container_of(t, struct grpc_transport, transport);
    const struct grpc_client_options o = {
        .loop = g->loop, .path = path, .state = state, .arg = arg};
    return (struct transport_link *)grpc_client_new(&o);
}

static void transport_call_link(struct transport_link *l, const struct grpc_request *q)
{
    (void)grpc_client_call((struct grpc_client *)l, q);
}

static void transport_close_link(struct transport_link *l)
{
    if (l)
        grpc_client_free((struct grpc_client *)l);
}

struct transport *transport_grpc_new(struct loop *loop)
{
    struct grpc_transport *g = xcalloc(1, sizeof(*g));
    g->transport = (struct transport){
        .open = transport_open_link, .call = transport_call_link, .close = transport_close_link};
    g->loop = loop;
    return &g->transport;
}

void transport_grpc_free(struct transport *t)
{
    if (t)
        free(container_of(t, struct grpc_transport, transport));
}

// The names of grpc-go, which differ from those of the specification.
static const char *transport_status_name(enum grpc_status s)
{
    static const char *const names[] = {
        "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
        "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
        "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
        "DataLoss", "Unauthenticated"};
    return (size_t)s < array_len(names) ? names[s] : "Unknown";
}

int transport_error(const struct grpc_result *r, struct err *err)
{
    int code = r->status == GRPC_DEADLINE_EXCEEDED ? ERR_TIMEOUT
               : r->status == GRPC_CANCELLED       ? ECANCELED
               : r->status == GRPC_UNAVAILABLE     ? ERR_UNAVAILABLE
                                                   : ERR_INTERNAL;
    struct str why =
        r->status == GRPC_DEADLINE_EXCEEDED ? STR("context deadline exceeded") : r->message;
    return err_set(err, code, "rpc error: code = %s desc = %.*s", transport_status_name(r->status),
                   STR_ARG(why));
}
