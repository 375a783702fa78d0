// SPDX-License-Identifier: Apache-2.0
//
// Who asks: client certificates (common name and organizations), static tokens from a file.
#ifndef SERVER_AUTH_AUTH_H
#define SERVER_AUTH_AUTH_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "net/http.h"
#include "registry/registry.h"

struct auth {
    struct MAP(struct registry_user) tokens;
    struct arena arena;
};

// auth_load reads a token file: lines of token,user,uid,"group1,group2". A file that is not there
// is no file. Returns 0, -ERR_INVALID with the line, or -errno.
int auth_load(struct auth *a, const char *path, struct err *err) MUST_USE;

// auth_parse reads such a text.
int auth_parse(struct auth *a, struct str text, struct err *err) MUST_USE;
void auth_done(struct auth *a);

enum auth_answer {
    AUTH_KNOWN,
    AUTH_NOBODY, // nothing was shown
    AUTH_BAD,    // something was shown that is not known
};

// auth_identify finds out who asks; the user's parts live in arena or in a. now: seconds since
// 1970, at which a certificate counts, however old the connection that it was shown on. *ret_token
// is the token that was shown, if any.
enum auth_answer auth_identify(const struct auth *a, const struct http_request *q, int64_t now,
                               struct arena *arena, struct registry_user *ret,
                               struct str *ret_token);

// The administrator of a trusted door, and the anonymous user.
extern const struct registry_user auth_admin, auth_anonymous;

#endif
