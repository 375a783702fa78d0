// SPDX-License-Identifier: Apache-2.0
//
// One TLS connection without I/O: ciphertext goes in as slices and comes out into a buffer the
// caller names. Nothing is kept between calls but what OpenSSL keeps, so an idle connection is
// small.
#ifndef NET_TLS_TLS_INT_H
#define NET_TLS_TLS_INT_H

#include "base/arena.h"
#include "net/openssl.h"
#include "net/tls.h"

struct tls_conn;

// The most plain text one call of tls_conn_read gives.
#define TLS_RECORD_MAX ((size_t)16 * 1024)

struct tls_conn *tls_conn_new(struct tls_server *t);
void tls_conn_free(struct tls_conn *c);

// tls_conn_new_client makes the other end; name is the server's, a host name or an address, as its
// certificate must have it. tls_conn_problem gives the reason of a failure. Returns -ERR_FORBIDDEN
// (the certificate is not trusted), -TLS_WRONG_NAME or -ERR_UNAVAILABLE.
struct tls_conn *tls_conn_new_client(struct tls_client *t, const char *name);
int tls_conn_problem(const struct tls_conn *c, struct err *err);

// tls_conn_wrap makes a connection of an SSL that is set up but for its BIO. Takes it over.
struct ssl_st;
struct tls_conn *tls_conn_wrap(struct ssl_st *ssl);

// tls_conn_input names ciphertext that arrived, which tls_conn_read takes, and where ciphertext to
// send is added (all that the next calls make). Both are borrowed until the next tls_conn_input.
void tls_conn_input(struct tls_conn *c, struct str cipher, struct sbuf *out);

// tls_conn_read goes on with the handshake and reads plain text. Returns its length, 0 when there
// is no more for now, -ENOTCONN when the peer has closed its side, -EPROTO on a violation.
int tls_conn_read(struct tls_conn *c, char *to, size_t cap) MUST_USE;

bool tls_conn_ready(const struct tls_conn *c); // the handshake is over
bool tls_conn_h2(const struct tls_conn *c);    // ALPN chose HTTP/2

// tls_conn_peer reads the verified client certificate; NULL when there is none. The caller frees
// it.
struct tls_peer *tls_conn_peer(const struct tls_conn *c);

// tls_conn_write encrypts into out. tls_conn_shutdown adds the closing alert. Return 0 or -EPROTO.
int tls_conn_write(struct tls_conn *c, struct str plain, struct sbuf *out) MUST_USE;
void tls_conn_shutdown(struct tls_conn *c, struct sbuf *out);

#endif
