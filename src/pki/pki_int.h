// SPDX-License-Identifier: Apache-2.0
//
// What certificates (certificate.c), requests for them (csr.c, csr_sign.c), keys (sign.c) and files
// (pki.c, ca_rotation.c) share: PEM texts, subjects, names. Private to the room.
#ifndef PKI_PKI_INT_H
#define PKI_PKI_INT_H

#include <openssl/x509v3.h>

#include "pki/certificate.h"

// Bound on every PEM text that is read.
#define PEM_BYTES_MAX ((size_t)64 * 1024)

// pem_open makes a BIO of a text, NULL when it is empty or too long.
BIO *pem_open(struct str pem);

// pem_add_text adds what was written to a memory BIO.
void pem_add_text(struct sbuf *to, BIO *bio);

// certificate_read gives the first certificate of a text, or NULL.
X509 *certificate_read(struct str pem);

bool certificate_add_subject(X509_NAME *name, const struct pki_subject *subject);

// certificate_make_names makes DNS names and addresses of texts. NULL: one of them is neither. The
// caller frees them.
GENERAL_NAMES *certificate_make_names(const char *const *names);

// certificate_sign_key makes a certificate of a public key whose private half another party holds.
// Adds PEM.
int certificate_sign_key(const struct pki_key_pair *ca, const struct pki_subject *subject,
                         EVP_PKEY *public_key, struct sbuf *ret, struct err *err) MUST_USE;

// csr_read gives the request in the first PEM block, NULL with a message when there is none. Its
// signature is not checked.
X509_REQ *csr_read(struct str pem, struct err *err);

// pki_make_cluster_ca makes the CA of a server. now: seconds since 1970.
int pki_make_cluster_ca(int64_t now, struct pki_key_pair *ret, struct err *err) MUST_USE;

// ca_rotation_pick_key leaves of several keys that of the first certificate. False: there is none.
bool ca_rotation_pick_key(struct pki_key_pair *pair);

// sign_verify_curve verifies JOSE's form of an ECDSA signature: two numbers of half bytes each.
bool sign_verify_curve(EVP_PKEY *key, const EVP_MD *digest, size_t half, struct str bytes,
                       struct str signature);

#endif
