// SPDX-License-Identifier: Apache-2.0
//
// TLS 1.2 and 1.3 over OpenSSL, for servers and clients. Keys and certificates are made in src/pki.
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

// The code of a connection that failed since the peer's certificate is for other names.
#define TLS_WRONG_NAME EKEYREJECTED

// Who a verified client certificate speaks for.
struct tls_peer {
    struct str common_name;
    const struct str *organizations;
    size_t organizations_len;
    int64_t not_after; // seconds since 1970; invalid from then on
    char serial[64];   // hexadecimal digits, as many as fit
    char sha256[65];   // fingerprint of the certificate
};

struct tls_server;

struct tls_server_options {
    const char *certificate_file; // PEM, with chain
    const char *key_file;
    const char *client_ca_file; // NULL: client certificates are not requested
};

// tls_server_new reads the files. Client certificates are optional; one that does not verify ends
// the handshake. ALPN offers h2 and http/1.1.
int tls_server_new(const struct tls_server_options *options, struct tls_server **ret,
                   struct err *err) MUST_USE;
void tls_server_free(struct tls_server *t);

// tls_server_reload reads the files again; connections made from then on use them. On failure the
// old ones stay.
int tls_server_reload(struct tls_server *t, struct err *err) MUST_USE;

// tls_server_follow is tls_server_reload if one of the files has changed since they were read last,
// successfully or not. Returns 1 if they were read, 0 if nothing changed, or a -code.
int tls_server_follow(struct tls_server *t, struct err *err) MUST_USE;

// --- Clients -------------------------------------------------------------------------------------

struct tls_client;

struct tls_client_options {
    struct str ca_pem;          // who vouches for servers; empty: the system's
    bool system_too;            // trust the system's beside ca_pem
    struct str certificate_pem; // ours, with chain; empty: none
    struct str key_pem;
    bool insecure; // take any certificate
    bool h2;       // offer HTTP/2 beside HTTP/1.1
};

// tls_client_new reads the texts. Returns 0 or -ERR_INVALID.
int tls_client_new(const struct tls_client_options *options, struct tls_client **ret,
                   struct err *err) MUST_USE;
void tls_client_free(struct tls_client *t);

#endif
