// SPDX-License-Identifier: Apache-2.0
//
// The node's HTTPS endpoint, kubelet's: logs, exec, attach, for an API server to call on behalf of
// those who asked it. Paths, parameters, protocols and texts are kubelet's, so that kube-apiserver
// can call it as well. Every request needs a certificate of the cluster's CA or a token.
//
// It does not know pods: the agent looks containers up for it.
#ifndef NODE_ENDPOINT_KUBELET_HTTP_H
#define NODE_ENDPOINT_KUBELET_HTTP_H

#include "client/client.h"
#include "net/http.h"
#include "node/runtime/runtime.h"

struct kubelet_http;

// A container of a pod, as far as streams need it. Texts are good until the next question.
struct kubelet_container {
    struct str id;          // of the newest run; empty: there is none
    struct str previous_id; // of the run before; may be empty
    bool running;
    const char *log_path, *previous_log_path; // in the CRI's format; NULL: none
    struct str waiting;                       // why there is no run yet
};

struct kubelet_user {
    struct str name;
    const struct str *groups;
    size_t groups_len;
};

// Who tokens belong to, and what users may do. Each answers once, now or later; members of
// system:masters may do everything without a question.
struct kubelet_access {
    // who finds the user of a token; NULL: unknown token.
    void (*who)(void *arg, struct str token, void (*done)(void *ctx, const struct kubelet_user *u),
                void *ctx);
    // may: verb (get, create) on a part of the node (proxy, metrics, pods, healthz).
    void (*may)(void *arg, const struct kubelet_user *u, struct str verb, struct str part,
                void (*done)(void *ctx, bool allowed), void *ctx);
    void *arg;
};

struct kubelet_http_options {
    struct loop *loop;
    struct tls_server *tls; // borrowed, with the cluster's CA for clients
    struct runtime *runtime;
    struct kubelet_access access;
    // find finds a container of a pod; uid may be empty. Returns 0; -ERR_NOT_FOUND or
    // -ERR_BAD_REQUEST with kubelet's text.
    int (*find)(void *arg, struct str namespace, struct str pod, struct str uid,
                struct str container, struct kubelet_container *ret, struct err *err);
    // list adds a PodList as JSON; may be NULL.
    void (*list)(void *arg, struct sbuf *out);
    // metrics adds metrics to /metrics; may be NULL.
    void (*metrics)(void *arg, struct sbuf *out);
    void *arg;
};

struct kubelet_http *kubelet_http_new(const struct kubelet_http_options *options);

// kubelet_http_listen binds host:port; ret_port, if not NULL, gets the port.
int kubelet_http_listen(struct kubelet_http *h, struct str address, uint16_t *ret_port,
                        struct err *err) MUST_USE;

// kubelet_http_free ends all streams and closes. Pending access questions lose their request, but
// their answers still arrive: free the access's side afterwards.
void kubelet_http_free(struct kubelet_http *h);

// --- Access reviews by the API server ------------------------------------------------------------

struct kubelet_reviews;

// kubelet_reviews_new asks with TokenReview and SubjectAccessReview, as kubelet does. The client is
// borrowed.
struct kubelet_reviews *kubelet_reviews_new(struct client *client, struct str node);
struct kubelet_access kubelet_reviews_access(struct kubelet_reviews *r);
void kubelet_reviews_free(struct kubelet_reviews *r);

#endif
