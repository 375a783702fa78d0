// SPDX-License-Identifier: Apache-2.0
//
// A client of an API server over the network: any Kubernetes, or dray's own.
//
// Calls are tried again where that is safe: when the server asks for it (Retry-After), when nothing
// was sent, once with fresh credentials after 401, reads after a broken connection. Watches survive
// broken connections and time-outs by resuming from the last revision; they end with -ERR_EXPIRED
// when the server no longer has that.
#ifndef CLIENT_REMOTE_H
#define CLIENT_REMOTE_H

#include "client/client.h"
#include "client/kubeconfig.h"
#include "net/loop.h"

struct client_remote_options {
    const struct kubeconfig_target *target; // copied
    struct str unix_socket;                 // connect here instead; the URL may be http://localhost
    struct str user_agent;                  // default: dray
    size_t connections;                     // at most; 0: the transport's default
    void (*warning)(void *arg, struct str text); // what the server warns of; may be NULL
    void *warning_arg;
    bool no_watch_list; // list and watch even where the server can stream lists
};

// client_remote_new makes a client whose answers come on loop's exec. Nothing is connected before
// the first call. Freed by client_free, before the loop. Returns 0 or -ERR_INVALID.
int client_remote_new(struct loop *loop, const struct client_remote_options *options,
                      struct client **ret, struct err *err) MUST_USE;

// client_remote_raw sends a request as it is (body may be empty: JSON) and hands over the answer's
// body: for what the interface has no call for. client must be one of client_remote_new. done runs
// once, as for other calls; code and err as there.
typedef void (*client_raw_fn)(void *arg, int code, const struct err *err, struct str body);
void client_remote_raw(struct client *c, const char *method, struct str target, struct str body,
                       client_raw_fn done, void *arg);

// client_remote_request is the same with all parameters. Texts that are not copied stay:
// content_type and accept.
struct client_raw_request {
    const char *method;
    struct str target;
    struct str content_type; // of the body; empty: JSON
    struct str accept;       // empty: JSON, else anything
    struct str body;
    // data (may be NULL) gets a good answer's body as it comes, for as long as it comes; done gets
    // none then.
    void (*data)(void *arg, struct str bytes);
    client_raw_fn done;
    void *arg;
};
void client_remote_request(struct client *c, const struct client_raw_request *q);

// client_remote_tunnel asks the server to switch protocols, with the credentials of the last call
// that was answered: make one before. Of options loop, host, port, tls and server_name are set
// here. Returns 0, -ERR_INVALID or -ERR_UNSUPPORTED (through a proxy). The tunnel must be closed
// before the client is freed.
struct tunnel;
struct tunnel_options;
int client_remote_tunnel(struct client *c, const struct tunnel_options *options,
                         struct tunnel **ret, struct err *err) MUST_USE;

// client_escape adds a text as a segment of a path or a value of a query.
void client_escape(struct sbuf *out, struct str s);

// client_remote_redirect sends requests for a kind to another version of it from now on, for
// servers that do not have ours. Both must be of one type.
void client_remote_redirect(struct client *c, const struct api_kind *from,
                            const struct api_kind *to);

// client_remote_date is the server's clock at its last answer, in seconds since 1970; 0: not
// known.
int64_t client_remote_date(struct client *c);

// client_remote_metrics adds Prometheus' text: requests by method and code, with client-go's name.
void client_remote_metrics(struct client *c, struct sbuf *out);

// client_remote_status turns what a server answered to a call into a code and its message: by the
// Status in body, else by the HTTP status alone. 0 for 2xx. The codes are those the registry gives.
int client_remote_status(int http_status, struct str body, struct err *err);

#endif
