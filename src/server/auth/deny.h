// SPDX-License-Identifier: Apache-2.0
//
// The deny list: credentials that are refused although they are valid. A file of lines, one entry
// each, that is followed while the server runs:
//
//   user NAME                 every credential of this user
//   certificate-serial HEX    a client certificate
//   certificate-sha256 HEX    the same by its fingerprint
//   token-id JTI              a token by its claim jti
//   token-sha256 HEX          any bearer token by the hash of its text
//
// Empty lines and those that begin with # are skipped.
#ifndef SERVER_AUTH_DENY_H
#define SERVER_AUTH_DENY_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct deny;

// The credentials of a request. Empty: it has none such.
struct deny_subject {
    struct str user; // who authenticated: impersonation does not change it
    struct str certificate_serial, certificate_sha256;
    struct str token_id, token_sha256;
};

// deny_new reads the file; a missing one is an empty list. Returns 0, -ERR_INVALID with the line,
// or -errno. The path is copied.
int deny_new(const char *path, struct deny **ret, struct err *err) MUST_USE;
void deny_free(struct deny *d);

// deny_parse reads a text; on failure the list is as before.
int deny_parse(struct deny *d, struct str text, struct err *err) MUST_USE;

// deny_follow reads the file again if it has changed. Returns 1 if it was read, 0 if nothing
// changed, or a negative code; then the list is as before.
int deny_follow(struct deny *d, struct err *err) MUST_USE;

// deny_add adds an entry to the file, durably, and to the list. Returns 0, -ERR_BAD_REQUEST (not an
// entry) or -errno.
int deny_add(struct deny *d, struct str kind, struct str value, struct err *err) MUST_USE;

// deny_has: whether one of the credentials is on the list. d may be NULL.
bool deny_has(const struct deny *d, const struct deny_subject *s);

#endif
