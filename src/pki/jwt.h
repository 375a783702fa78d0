// SPDX-License-Identifier: Apache-2.0
//
// Tokens of service accounts: JSON Web Tokens signed with this server's key, with Kubernetes'
// claims. Reading verifies signature, issuer and times. Whether the account and the bound object
// still exist is for the caller to find out.
#ifndef PKI_JWT_H
#define PKI_JWT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "pki/sign.h"

#define JWT_ISSUER "https://kubernetes.default.svc.cluster.local"

struct jwt_object {
    struct str name;
    struct str uid;
};

struct jwt {
    struct str issuer;
    struct str namespace; // of the account
    struct jwt_object account;
    struct jwt_object pod, node, secret; // empty names: not bound to one; a pod's node may be known
    const struct str *audiences;
    size_t audiences_len;
    struct str id;
    int64_t issued, not_before, expires; // seconds since 1970
};

// jwt_write adds the token's text.
int jwt_write(const struct jwt *t, const struct sign_key *key, struct sbuf *out,
              struct err *err) MUST_USE;

// jwt_read checks form, signature, issuer and times. What *ret points to is in arena. Returns 0 or
// -ERR_INVALID with what is wrong, in words that tell an attacker nothing about the key.
int jwt_read(struct str text, const struct sign_key *key, int64_t now, struct arena *arena,
             struct jwt *ret, struct err *err) MUST_USE;

// jwt_key_set adds the public key and its older ones as a JSON Web Key Set.
void jwt_key_set(const struct sign_key *key, struct sbuf *out);

#endif
