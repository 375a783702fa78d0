// SPDX-License-Identifier: Apache-2.0
//
// The certificates a server of one machine needs: a CA of its own, server and client certificates
// signed by it. Texts in PEM; files are pki.h's.
#ifndef PKI_CERTIFICATE_H
#define PKI_CERTIFICATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct pki_key_pair {
    char *certificate_pem; // heap
    char *key_pem;
};

void pki_key_pair_done(struct pki_key_pair *p);

struct pki_subject {
    const char *common_name;
    const char *const *organizations; // NULL-terminated; may be NULL
    const char *const *names;         // DNS names and IP addresses; NULL-terminated; may be NULL
    bool server;                      // for servers, else for clients
    int64_t not_before;               // seconds since 1970
    int64_t not_after;
};

// pki_make_ca makes a self-signed CA with an EC P-256 key.
int pki_make_ca(const struct pki_subject *subject, struct pki_key_pair *ret,
                struct err *err) MUST_USE;

// pki_make_certificate makes a key and a certificate signed by a CA.
int pki_make_certificate(const struct pki_key_pair *ca, const struct pki_subject *subject,
                         struct pki_key_pair *ret, struct err *err) MUST_USE;

// pki_certificate_expiry reads when a PEM certificate ends.
int pki_certificate_expiry(const char *certificate_pem, int64_t *ret, struct err *err) MUST_USE;

// pki_key_fits: the key is that of the certificate.
bool pki_key_fits(const struct pki_key_pair *pair);

// pki_certificate_names: the PEM certificate is of this common name and these organizations, and of
// no other.
bool pki_certificate_names(const char *certificate_pem, const struct pki_subject *subject);

// pki_certificate_fingerprint is the SHA-256 of the first certificate of a PEM text, 64 hexadecimal
// digits and a NUL. Returns 0 or -ERR_INVALID.
#define PKI_FINGERPRINT_BYTES 65
int pki_certificate_fingerprint(struct str pem, char ret[PKI_FINGERPRINT_BYTES],
                                struct err *err) MUST_USE;

// pki_pair_matches: both can be read, and the key is the certificate's.
bool pki_pair_matches(const char *certificate_pem, const char *key_pem);

#endif
