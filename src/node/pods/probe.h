// SPDX-License-Identifier: Apache-2.0
//
// Checks of a container: startup, liveness and readiness, each by a command, over HTTP, by a
// connection or by gRPC's health service, with kubelet's delays and thresholds. Network checks go
// through an interface, so that tests need no network.
#ifndef NODE_PODS_PROBE_H
#define NODE_PODS_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"
#include "base/exec.h"
#include "client/client.h"
#include "node/runtime/runtime.h"

// --- The network ---------------------------------------------------------------------------------

enum probe_net_kind { PROBE_NET_TCP, PROBE_NET_HTTP, PROBE_NET_HTTPS, PROBE_NET_GRPC };

struct probe_net_request {
    enum probe_net_kind kind;
    const char *netns; // where the socket is made; NULL: the host's
    struct str host;   // address or name
    uint16_t port;
    struct str path;        // HTTP
    struct str host_header; // HTTP; empty: host
    const struct api_http_header *headers;
    size_t headers_len;
    struct str service; // gRPC
    int64_t timeout_ns;
};

// ok, and a text for people: of a failure what went wrong.
typedef void (*probe_net_fn)(void *arg, bool ok, struct str text);

struct probe_net_call;

struct probe_net {
    // check begins one; done runs once, after the call has returned, unless it is cancelled.
    struct probe_net_call *(*check)(struct probe_net *n, const struct probe_net_request *q,
                                    probe_net_fn done, void *arg);
    void (*cancel)(struct probe_net_call *call);
};

// --- One check, now ------------------------------------------------------------------------------

// Where the container is.
struct probe_target {
    struct exec *exec;
    struct runtime *runtime;
    struct probe_net *net; // may be NULL
    struct str container_id;
    const char *netns;
    struct str address; // of the pod; empty: 127.0.0.1 in netns
    const struct api_container *container;
};

struct probe_action; // one command or request under way

// probe_run runs a handler (one of exec, http, tcp, grpc; the others NULL). done: ok, and the
// output, at most 10 KiB; not called after a cancel.
struct probe_action *probe_run(const struct probe_target *t, const struct api_probe_handler *h,
                               int64_t timeout_ns, probe_net_fn done, void *arg);
void probe_cancel(struct probe_action *a);

// --- Periodic probes -----------------------------------------------------------------------------

enum probe_type { PROBE_STARTUP, PROBE_LIVENESS, PROBE_READINESS, PROBE_TYPES };

const char *probe_type_name(enum probe_type t); // Startup, Liveness, Readiness

struct probe;

struct probe_options {
    struct probe_target target;     // texts are copied; container and probe are in `pod`
    const struct typed_object *pod; // kept
    enum probe_type type;
    const struct api_probe *probe;
    int64_t started_ns; // of the container, wall clock
    bool good;          // what it counts as before the first check has an answer
    // changed: the result is another now. failed: a check was not passed, with what to tell people.
    void (*changed)(void *arg, enum probe_type type, bool good);
    void (*failed)(void *arg, enum probe_type type, struct str text);
    void *arg;
};

struct probe *probe_new(const struct probe_options *options);
void probe_free(struct probe *p);

// probe_start begins; before that nothing is checked (liveness and readiness wait for startup).
void probe_start(struct probe *p);

bool probe_good(const struct probe *p);

#endif
