// SPDX-License-Identifier: Apache-2.0
//
// What reading requests (csr.c) and making certificates of them (csr_sign.c) share. Private to src/net.
#ifndef NET_TLS_CSR_INT_H
#define NET_TLS_CSR_INT_H

#include <openssl/x509.h>

#include "net/csr.h"

// csr_read gives the request in the first PEM block, NULL with a message when there is none. Its signature is not
// checked yet.
X509_REQ *csr_read(struct str pem, struct err *err);

// csr_read_certificate gives the first certificate of a text, or NULL.
X509 *csr_read_certificate(struct str pem);

#endif
