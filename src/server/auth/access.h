// SPDX-License-Identifier: Apache-2.0
//
// Who may do what: authorization of requests, guards on writes, impersonation, tokens of service
// accounts, reviews. Functions that answer the exchange are marked.
#ifndef SERVER_AUTH_ACCESS_H
#define SERVER_AUTH_ACCESS_H

#include "server/http/server_int.h"

// authz_start lets roles say who may do what, and (nodes) nodes what they need.
void authz_start(struct server *s, bool nodes);
void authz_stop(struct server *s);

bool authz_is_master(const struct registry_user *u);

// authz_create asks, for an apply or update of an object that is not there, whether it may be
// created. False: answered.
bool authz_create(struct exchange *ex);

// authz_refuse answers a question with no.
void authz_refuse(struct exchange *ex, const struct access *q, struct str why);

// authz_describe makes a question of a request.
struct access authz_describe(struct exchange *ex);

// authz_allows answers a question; why (may be NULL) gets the reason.
bool authz_allows(struct server *s, const struct access *q, struct sbuf *why);

// escalate_guard keeps everyone from granting more than they have; as registry_guard_fn.
int escalate_guard(void *server, const struct registry_request *request,
                   const struct api_object *object, const struct api_object *old, struct sbuf *why);

// certguard_check: who may approve, sign and ask for certificates (certguard.c).
int certguard_check(struct server *s, const struct registry_request *request,
                    const struct api_object *object, const struct api_object *old,
                    struct sbuf *why);

// authz_selected is the value that a field selector wants a field to have; empty: it leaves it
// open.
struct str authz_selected(struct str fields, struct str field, const struct api_kind *kind,
                          struct arena *arena);

// impersonate_apply lets a user act as another whom the request's headers name. False: it has been
// answered.
bool impersonate_apply(struct exchange *ex);

// authz_request: whether a request is allowed; if not, it has been answered.
bool authz_request(struct exchange *ex);

// --- Service accounts (account.c) ----------------------------------------------------------------

// account_of_token finds out whose a token is. audiences: for one of these, none: for this server;
// those that it is for are left. What *ret points to is in arena. Returns 0 or -ERR_INVALID.
int account_of_token(const struct server *s, struct str token, struct api_str_array *audiences,
                     struct arena *arena, struct registry_user *ret, struct err *err) MUST_USE;

// account_for_server does the same to the audiences of a token that is for this server alone.
// False: none is left.
bool account_for_server(struct api_str_array *audiences, struct arena *arena);

// bootstrap_of_token is the same for bootstrap tokens (bootstrap.c).
int bootstrap_of_token(const struct server *s, struct str token, struct arena *arena,
                       struct registry_user *ret, struct err *err) MUST_USE;

// account_token answers a TokenRequest.
void account_token(struct exchange *ex, const struct api_object *body);

// review_is: whether a kind is a question that is answered at once; review_answer answers one.
bool review_is(const struct api_kind *kind);
void review_answer(struct exchange *ex, const struct api_object *body);

#endif
