// SPDX-License-Identifier: Apache-2.0
//
// The node authorizer and NodeRestriction: what a user `system:node:NAME` in the group
// `system:nodes` may do. A node reads what its pods need and nothing else, and writes its own Node,
// lease, slices and the status of its own pods. Answers and reasons are kube-apiserver's.
#ifndef SERVER_AUTH_NODEAUTH_H
#define SERVER_AUTH_NODEAUTH_H

#include "registry/registry.h"
#include "server/auth/kinship.h"
#include "server/auth/rbac.h"

struct nodeauth;

struct nodeauth *nodeauth_new(struct store *store);
void nodeauth_free(struct nodeauth *n);

// nodeauth_node: the user is a node; *ret is its name, which may be empty.
bool nodeauth_node(const struct registry_user *user, struct str *ret);

// nodeauth_allows answers a question of a node; false for everybody else. why gets the reason of a
// no.
bool nodeauth_allows(const struct nodeauth *n, const struct access *q, struct sbuf *why);

// noderestrict_check refuses what a node must not write, as the registry's guard: object is NULL
// for a deletion, old for a creation. Returns 0, or -ERR_FORBIDDEN or -ERR_NOT_FOUND with the
// reason.
int noderestrict_check(struct store *store, const struct registry_request *request,
                       const struct api_object *object, const struct api_object *old,
                       struct sbuf *why);

// noderestrict_token does the same for a TokenRequest. allows: an authorizer's answer to whether
// the node may ask for an audience that its pod does not name.
int noderestrict_token(struct store *store, const struct registry_request *request,
                       const struct api_token_request *token,
                       bool (*allows)(void *arg, const struct access *q), void *arg,
                       struct sbuf *why);

#endif
