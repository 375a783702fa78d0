// SPDX-License-Identifier: Apache-2.0
//
// The issuer's keys: fetched, kept, renewed. Lives on the server's loop.
#ifndef SERVER_OIDC_OIDC_INT_H
#define SERVER_OIDC_OIDC_INT_H

#include "base/arena.h"
#include "registry/registry.h"
#include "server/oidc.h"

struct oidc;

// oidc_new checks the options and begins to fetch. Returns 0 or -ERR_INVALID.
int oidc_new(const struct oidc_options *options, struct oidc **ret, struct err *err) MUST_USE;
void oidc_free(struct oidc *o);

// oidc_of_token finds out whose a token is. o NULL: of nobody. Returns 0; -ERR_NOT_FOUND when it
// has a key that is not known; or -ERR_INVALID.
int oidc_of_token(const struct oidc *o, struct str token, struct arena *arena,
                  struct registry_user *ret, struct err *err) MUST_USE;

// oidc_renew fetches keys because of a token whose key is not known, at most once in 10 s. Returns
// whether keys are on their way.
bool oidc_renew(struct oidc *o);

// oidc_is_fetching: whether keys are on their way.
bool oidc_is_fetching(const struct oidc *o);

#endif
