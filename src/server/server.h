// SPDX-License-Identifier: Apache-2.0
//
// The API server above HTTP and below the registry: who asks, for what, in which form. It reads the
// store, writes through the registry, streams lists and watches, and describes itself (discovery,
// OpenAPI, health, metrics). It lives on one exec, that of its registry.
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/http.h"
#include "registry/registry.h"
#include "server/http/node.h"

struct audit;
struct oidc_options;
struct server;

enum server_authorization {
    SERVER_ALWAYS_ALLOW, // every authenticated user may do everything
    SERVER_RBAC,         // Roles, ClusterRoles and their bindings; system:masters everything
    SERVER_NODE_RBAC,    // and before them the node authorizer, with NodeRestriction
};

struct server_options {
    struct exec *exec;
    struct registry *registry;
    struct str runtime_config; // which versions are served, see server/http/catalog.h
    const char *token_file;    // static tokens as CSV; NULL: none
    const char *deny_file;     // credentials that are refused (server/auth/deny.h); NULL: none
    struct str account_key;    // PEM, for tokens of service accounts; empty: none are given out
    enum server_authorization authorization;
    struct audit *audit; // NULL: no audit log; must outlive the server
    bool anonymous;      // let everybody do everything without a name
    int64_t bookmark_ns; // between bookmarks of a watch; 0: one minute
};

// server_new makes a server. What options points to is borrowed, strings are copied. Returns 0;
// -ERR_INVALID for a runtime configuration or a token file that cannot be parsed; or an errno.
int server_new(const struct server_options *options, struct server **ret, struct err *err) MUST_USE;

// server_has_roles: roles say who may do what.
bool server_has_roles(const struct server *s);

// server_free frees a server whose requests have all ended, after its registry: with roles, that
// asks the server.
void server_free(struct server *s);

// Where requests come from. trusted: every client of this door is an administrator (a socket that
// only its owner can open).
struct server_door {
    struct server *server;
    bool trusted;
    bool insecure;                  // plain text: clients cannot authenticate, all are trusted
    const struct http_server *http; // for metrics; may be NULL
};

// server_handle answers one request; for http_server_options with a door as arg.
void server_handle(void *door, struct http_request *q);

// server_refusal writes what HTTP itself refuses as a Status object; for http_server_options.
struct str server_refusal(void *door, int status, const char *why, struct sbuf *body);

// server_set_address sets how clients reach the server: host:port.
void server_set_address(struct server *s, struct str address);

// server_add_door lets metrics count a door's connections. The door is borrowed.
void server_add_door(struct server *s, const struct server_door *door);

// server_set_nodes sets how the server reaches the endpoints of nodes: logs, exec, attach and
// port-forward work from then on. Texts are copied. Returns 0 or -ERR_INVALID for certificates that
// are none.
int server_set_nodes(struct server *s, const struct server_nodes *nodes, struct err *err) MUST_USE;

// server_set_account_key replaces the key for tokens of service accounts (PEM, with older ones
// behind
// it). On failure the old one stays.
int server_set_account_key(struct server *s, struct str pem, struct err *err) MUST_USE;

// server_set_oidc accepts tokens of an issuer (server/oidc.h). Texts are copied. Returns 0 or
// -ERR_INVALID.
int server_set_oidc(struct server *s, const struct oidc_options *options, struct err *err) MUST_USE;

// server_found_cluster makes what every cluster has and is missing here (server/auth/cluster.h).
// The certificates are of those who may sign clients', and those of a proxy in front of other
// servers; url is how other machines reach the server.
void server_found_cluster(struct server *s, struct str client_ca_pem, struct str proxy_ca_pem,
                          struct str url);

// server_publish_ca tells others of a CA that was replaced, after server_found_cluster.
void server_publish_ca(struct server *s, struct str client_ca_pem, struct str proxy_ca_pem,
                       struct str url);

// server_may: whether a user may do something to a resource beyond what a request asks: of a
// request for a certificate (certificatesigningrequests/SUBRESOURCE), whether it may be approved
// without a person.
bool server_may(struct server *s, const struct registry_user *user, struct str group,
                struct str resource, struct str subresource, struct str verb);

// What the server asks the components of its process: scheduler and controllers, which run on a
// thread of their own.
enum server_topic {
    SERVER_EXPLAIN, // GET /dray/explain?kind=&namespace=&name=: a JSON object
    SERVER_METRICS, // their part of GET /metrics, in Prometheus' text form
    SERVER_CHECK,   // GET /dray/check: a line for each difference of their caches from the store
};

struct server_question {
    enum server_topic topic;
    struct str kind, namespace, name; // of SERVER_EXPLAIN
    // The answer.
    struct sbuf out;
    int code; // 0, -ERR_NOT_FOUND, -ERR_BAD_REQUEST or, to be asked again, -ERR_UNAVAILABLE
    struct err err;
};

// server_set_components passes questions to fn, on the server's exec. Each is answered there by
// one call of server_answer, at once or later, before the server is freed. NULL: there are no
// components.
typedef void (*server_ask_fn)(void *arg, struct server_question *q);
void server_set_components(struct server *s, server_ask_fn fn, void *arg);
void server_answer(struct server_question *q);

// server_stop ends all watches and streams so that their connections can go; health checks fail
// from here on.
void server_stop(struct server *s);

#endif
