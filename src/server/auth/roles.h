// SPDX-License-Identifier: Apache-2.0
//
// The roles and bindings that every cluster has, from schema/roles.policy: made when they are
// missing.
#ifndef SERVER_AUTH_ROLES_H
#define SERVER_AUTH_ROLES_H

#include "client/client.h"

// The policy, as the build has put it into the program.
extern const struct str roles_policy;

// roles_parse calls fn with each object of a policy, in order; it lives in arena. Returns 0 or
// -ERR_INVALID with the line.
int roles_parse(struct str policy, struct arena *arena,
                void (*fn)(void *arg, const struct api_object *object), void *arg,
                struct err *err) MUST_USE;

// roles_ensure creates what is missing of the policy; what exists is left as it is. done runs once
// on the client's exec, with the first failure.
void roles_ensure(struct client *client, void (*done)(void *arg, int code, const struct err *err),
                  void *arg);

#endif
