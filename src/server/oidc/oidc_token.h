// SPDX-License-Identifier: Apache-2.0
//
// What an issuer's documents and tokens state. No I/O here.
#ifndef SERVER_OIDC_OIDC_TOKEN_H
#define SERVER_OIDC_OIDC_TOKEN_H

#include <stdint.h>

#include "base/arena.h"
#include "pki/jwk.h"
#include "registry/registry.h"
#include "server/oidc.h"

#define OIDC_DISCOVERY_BYTES_MAX ((size_t)256 * 1024)

struct oidc_claim {
    struct str name, value;
};

// The options, checked, with their defaults. Texts are in an arena.
struct oidc_rules {
    struct str issuer, client_id;
    struct str username_claim, username_prefix;
    struct str groups_claim, groups_prefix;
    const struct oidc_claim *required;
    size_t required_len;
    const struct str *algs;
    size_t algs_len;
};

// oidc_rules_make checks options. Returns 0 or -ERR_INVALID, which names the flag.
int oidc_rules_make(const struct oidc_options *options, struct arena *arena, struct oidc_rules *ret,
                    struct err *err) MUST_USE;

// oidc_read_discovery finds where the keys are in a discovery document, which must be of this
// issuer. The URL is split behind the host; both texts are in arena.
int oidc_read_discovery(struct str text, struct str issuer, struct arena *arena,
                        struct str *ret_origin, struct str *ret_target, struct err *err) MUST_USE;

// oidc_token_is_of: whether a token states that it is of this issuer; nothing is verified.
bool oidc_token_is_of(struct str token, struct str issuer);

// oidc_token_read verifies a token. keys may be NULL: there are none yet. Returns 0; -ERR_NOT_FOUND
// when no key fits, so that newer ones may; or -ERR_INVALID. What *ret points to is in arena.
int oidc_token_read(struct str token, const struct oidc_rules *rules, const struct jwk_set *keys,
                    int64_t now, struct arena *arena, struct registry_user *ret,
                    struct err *err) MUST_USE;

#endif
