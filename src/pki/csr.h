// SPDX-License-Identifier: Apache-2.0
//
// Requests for certificates (PKCS#10 in PEM): making one, reading one that came from outside,
// signing it with a CA. Reading takes nothing on trust: sizes are bounded, the signature is
// checked, names with a NUL are refused. What a request wants beyond a subject, a key and names is
// not looked at and never gets into a certificate.
#ifndef PKI_CSR_H
#define PKI_CSR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "pki/certificate.h"

#define CSR_NAMES_MAX 256

enum csr_name_type { CSR_NAME_DNS, CSR_NAME_IP, CSR_NAME_EMAIL, CSR_NAME_URI, CSR_NAME_OTHER };

struct csr_name {
    enum csr_name_type type;
    struct str text; // addresses as they are written; of others than these four: empty
};

struct csr_request {
    struct str common_name;
    const struct str *organizations;
    size_t organizations_len;
    size_t others_len; // parts of the subject that are neither
    const struct csr_name *names;
    size_t names_len;
};

// csr_parse reads the first PEM block of a text into *ret, whose parts live in arena. Returns 0, or
// -ERR_INVALID: not such a block, not a request, or one whose signature is not by its own key.
int csr_parse(struct str pem, struct arena *arena, struct csr_request *ret,
              struct err *err) MUST_USE;

// csr_make makes a key (EC P-256) and a request for a subject, whose times and server are not used.
// Adds PEM to both.
int csr_make(const struct pki_subject *subject, struct sbuf *ret_request, struct sbuf *ret_key,
             struct err *err) MUST_USE;

struct csr_terms {
    int64_t not_before, not_after; // seconds since 1970; the latter is cut to the CA's
    bool server;                   // for servers, else for clients
};

// csr_sign makes a certificate of a request's key, common name, organizations, DNS names and
// addresses. Adds PEM. Returns 0, or -ERR_INVALID: not a request, or a CA that is none.
int csr_sign(const struct pki_key_pair *ca, struct str pem, const struct csr_terms *terms,
             struct sbuf *ret, struct err *err) MUST_USE;

// csr_check_chain: a text of certificates in PEM, one at least, and of nothing else. Returns 0 or
// -ERR_INVALID.
int csr_check_chain(struct str pem, struct err *err) MUST_USE;

// csr_certificate_is_for: whether a certificate is a server's of this name (DNS or address).
bool csr_certificate_is_for(struct str certificate_pem, struct str name);

// csr_signed_by: whether a certificate is signed with the key of another.
bool csr_signed_by(struct str certificate_pem, struct str ca_pem);

// csr_common_name adds the common name of a certificate's subject. Returns 0 or -ERR_INVALID.
int csr_common_name(struct str certificate_pem, struct sbuf *ret, struct err *err) MUST_USE;

// csr_certificate_times reads from when to when a certificate is good. Returns 0 or -ERR_INVALID.
int csr_certificate_times(struct str certificate_pem, int64_t *ret_from, int64_t *ret_until,
                          struct err *err) MUST_USE;

// csr_pin writes the SHA-256 of a certificate's public key (Subject Public Key Info): 64 digits and
// a NUL.
#define CSR_PIN_BYTES 65
int csr_pin(struct str certificate_pem, char ret[CSR_PIN_BYTES], struct err *err) MUST_USE;

// csr_find_pin looks in a text of certificates for the one whose public key has this hash. *ret is
// its PEM, on the heap. Returns 0, -ERR_NOT_FOUND, or -ERR_INVALID: not certificates.
int csr_find_pin(struct str bundle_pem, struct str pin, char **ret, struct err *err) MUST_USE;

#endif
