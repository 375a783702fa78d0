// SPDX-License-Identifier: Apache-2.0
//
// Signatures with an elliptic-curve key (P-256, SHA-256: what JOSE calls ES256), for tokens.
#ifndef PKI_SIGN_H
#define PKI_SIGN_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define SIGN_BYTES       64 // r and s, 32 bytes each
#define SIGN_COORD_BYTES 32

struct sign_key;

// sign_key_make makes a key as PEM text (PKCS #8).
int sign_key_make(struct sbuf *ret_pem, struct err *err) MUST_USE;

// sign_key_load reads a private key, or a public one that can only verify. Private keys that follow
// the first in the text, at most SIGN_OLDER_MAX, are older ones: what they signed still verifies.
// Returns 0 or -ERR_INVALID.
#define SIGN_OLDER_MAX 7
int sign_key_load(struct str pem, struct sign_key **ret, struct err *err) MUST_USE;
void sign_key_free(struct sign_key *k);

// sign_key_older is the next older key, NULL behind the last.
const struct sign_key *sign_key_older(const struct sign_key *k);

// sign_key_id names the key: the same for both halves of a pair. 64 hexadecimal digits and a NUL.
#define SIGN_ID_BYTES 65
void sign_key_id(const struct sign_key *k, char ret[SIGN_ID_BYTES]);

// sign_key_point gives the public point.
void sign_key_point(const struct sign_key *k, unsigned char x[SIGN_COORD_BYTES],
                    unsigned char y[SIGN_COORD_BYTES]);

int sign_make(const struct sign_key *k, struct str bytes, unsigned char ret[SIGN_BYTES],
              struct err *err) MUST_USE;
// sign_verify: the key, or an older one of it, signed the bytes.
bool sign_verify(const struct sign_key *k, struct str bytes, struct str signature);

// --- Secrets that both sides know ----------------------------------------------------------------

#define SIGN_HMAC_BYTES 32

// sign_hmac is HMAC with SHA-256: what JOSE calls HS256.
void sign_hmac(struct str key, struct str bytes, unsigned char ret[SIGN_HMAC_BYTES]);

// sign_sha256 is the hash of bytes as 64 lower-case hexadecimal digits and a NUL.
#define SIGN_SHA256_BYTES 65
void sign_sha256(struct str bytes, char ret[SIGN_SHA256_BYTES]);

// sign_same compares two texts in a time that depends on their lengths alone.
bool sign_same(struct str a, struct str b);

#endif
