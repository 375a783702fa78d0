// SPDX-License-Identifier: Apache-2.0
//
// Public keys of a token issuer (JSON Web Key Set), and verification with them. RSA of 2048 to 8192
// bits (RS256 …, PS256 …) and the curves P-256, P-384 and P-521 (ES256 …). A set does not change.
#ifndef PKI_JWK_H
#define PKI_JWK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define JWK_SET_BYTES_MAX ((size_t)1024 * 1024)
#define JWK_KEYS_MAX      64

struct jwk_set;

// jwk_set_parse reads a set. Keys of other types and uses are skipped, as RFC 7517 wants. Returns
// 0, -ERR_TOO_LARGE or -ERR_INVALID (not a set, no key that can be used, too many keys).
int jwk_set_parse(struct str text, struct jwk_set **ret, struct err *err) MUST_USE;
void jwk_set_free(struct jwk_set *s);

// jwk_alg_known: whether an algorithm's name is one of those above.
bool jwk_alg_known(struct str alg);

enum jwk_answer {
    JWK_GOOD,
    JWK_NO_KEY, // none of this id and type
    JWK_BAD,    // another signature
};

// jwk_set_verify verifies a signature. id empty: with any key of the type.
enum jwk_answer jwk_set_verify(const struct jwk_set *s, struct str alg, struct str id,
                               struct str bytes, struct str signature);

#endif
