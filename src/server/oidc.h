// SPDX-License-Identifier: Apache-2.0
//
// Tokens of an OpenID Connect issuer, with the meaning of kube-apiserver's flags --oidc-….
#ifndef SERVER_OIDC_H
#define SERVER_OIDC_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct loop;

struct oidc_options {
    struct loop *loop;
    struct str issuer;           // https://…; the issuer of tokens, and where its keys are found
    struct str client_id;        // an audience that tokens must have
    struct str username_claim;   // empty: sub
    const char *username_prefix; // NULL: ISSUER# unless the claim is email; "-": none
    struct str groups_claim;     // empty: tokens bring no groups
    struct str groups_prefix;
    const char *const *required; // CLAIM=VALUE, each must be in the token
    size_t required_len;
    struct str algs;   // by commas; empty: RS256
    struct str ca_pem; // verifies the issuer's certificate; empty: the system's CAs
};

#endif
