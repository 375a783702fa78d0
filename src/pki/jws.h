// SPDX-License-Identifier: Apache-2.0
//
// The compact form of signed JSON: three parts in base64url. Splitting proves nothing; signatures
// are verified by jwt.c (our own key) and jwk.c (keys of an issuer).
#ifndef PKI_JWS_H
#define PKI_JWS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"

#define JWS_BYTES_MAX ((size_t)16 * 1024)

struct jws {
    struct str signed_text; // header and claims
    struct str header, claims, signature;
};

// jws_split finds the parts; false: there are not three, or the text is too long.
bool jws_split(struct str text, struct jws *ret);

// jws_parse_part reads the header or the claims. Returns 0 or -ERR_INVALID.
int jws_parse_part(struct str part, struct json_doc *ret, struct err *err) MUST_USE;

// jws_fail is the error of an invalid token.
int jws_fail(struct err *err, const char *what);

#endif
