// SPDX-License-Identifier: Apache-2.0
//
// What rooms that call OpenSSL share.
#ifndef NET_OPENSSL_H
#define NET_OPENSSL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct asn1_string_st;

// tls_fail turns OpenSSL's error queue into err. Returns -code.
int tls_fail(struct err *err, int code, const char *what);

// tls_read_time reads an ASN1_TIME as seconds since 1970. False: it is not a time.
bool tls_read_time(const struct asn1_string_st *t, int64_t *ret);

#endif
