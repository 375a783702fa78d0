// SPDX-License-Identifier: Apache-2.0
//
// Requests whose credentials are on the deny list.
#ifndef SERVER_AUTH_DENIAL_H
#define SERVER_AUTH_DENIAL_H

#include "server/http/server_int.h"

// denial_start follows the deny list; denial_of describes a request's credentials, after
// auth_identify; denial_is: whether the exchange is (now) denied; denial_serve adds an entry.
int denial_start(struct server *s, const char *path, struct err *err) MUST_USE;
void denial_stop(struct server *s);
void denial_describe(struct exchange *ex, struct str token);
bool denial_is(const struct exchange *ex);
void denial_serve(struct exchange *ex);

// denial_of_token: whether a token of this user is denied, for reviews.
bool denial_of_token(const struct server *s, struct str token, const struct registry_user *user);

// watch_stop_denied and stream_stop_denied end what the deny list forbids now.
void watch_stop_denied(struct server *s);
void stream_stop_denied(struct server *s);

#endif
