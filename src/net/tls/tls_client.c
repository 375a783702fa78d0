// SPDX-License-Identifier: Apache-2.0
//
// TLS from the client's side: who is trusted, what is shown.
#include <assert.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <arpa/inet.h>

#include "net/tls/tls_int.h"

#include "base/banned.h"

struct tls_client {
    SSL_CTX *ctx;
};

static BIO *open_pem(struct str pem)
{
    return pem.n <= INT_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
}

static int tls_client_load_trust(SSL_CTX *ctx, struct str pem, bool system, struct err *err)
{
    if (system && SSL_CTX_set_default_verify_paths(ctx) != 1)
        return tls_fail(err, ERR_INVALID, "cannot read the system's CA certificates");
    if (pem.n == 0)
        return 0;
    BIO *bio = open_pem(pem);
    size_t found = 0;
    for (X509 *x; bio && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)); found++) {
        (void)X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), x);
        X509_free(x);
    }
    BIO_free(bio);
    if (found == 0)
        return tls_fail(err, ERR_INVALID, "not PEM CA certificates");
    ERR_clear_error(); // that the text has ended
    return 0;
}

static int tls_client_load_identity(SSL_CTX *ctx, struct str certificate, struct str key,
                                    struct err *err)
{
    if (certificate.n == 0)
        return 0;
    BIO *bio = open_pem(certificate);
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    bool ok = x && SSL_CTX_use_certificate(ctx, x) == 1;
    X509_free(x);
    while (ok && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        if (SSL_CTX_add0_chain_cert(ctx, x) != 1)
            X509_free(x);
    }
    BIO_free(bio);
    bio = open_pem(key);
    EVP_PKEY *k = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    ok = ok && k && SSL_CTX_use_PrivateKey(ctx, k) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    EVP_PKEY_free(k);
    BIO_free(bio);
    if (!ok)
        return tls_fail(err, ERR_INVALID, "not a PEM client certificate and its key");
    ERR_clear_error();
    return 0;
}

int tls_client_new(const struct tls_client_options *options, struct tls_client **ret,
                   struct err *err)
{
    static const unsigned char protocols[] = "\x02h2\x08http/1.1";
    const unsigned char *offered = protocols + (options->h2 ? 0 : 3);
    const unsigned offered_len = (unsigned)(sizeof(protocols) - 1) - (options->h2 ? 0 : 3);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx)
        return tls_fail(err, ERR_INTERNAL, "cannot set up TLS");
    (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_alpn_protos(ctx, offered, offered_len);
    // As Go's clients do: 128 bits are as safe here and cost both ends a quarter less.
    (void)SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                        "TLS_CHACHA20_POLY1305_SHA256");
    SSL_CTX_set_verify(ctx, options->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    int r = options->insecure
                ? 0
                : tls_client_load_trust(ctx, options->ca_pem,
                                        options->ca_pem.n == 0 || options->system_too, err);
    if (r == 0)
        r = tls_client_load_identity(ctx, options->certificate_pem, options->key_pem, err);
    if (r < 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    *ret = xcalloc(1, sizeof(**ret));
    (*ret)->ctx = ctx;
    return 0;
}

void tls_client_free(struct tls_client *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    free(t);
}

static bool is_address(const char *name)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

struct tls_conn *tls_conn_new_client(struct tls_client *t, const char *name)
{
    SSL *ssl = SSL_new(t->ctx);
    if (!ssl)
        abort(); // out of memory
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (is_address(name)) {
        (void)X509_VERIFY_PARAM_set1_ip_asc(param, name);
    } else {
        char *copy = xstrndup(name, strlen(name)); // OpenSSL's macro wants to be able to write
        (void)X509_VERIFY_PARAM_set1_host(param, name, 0);
        (void)SSL_set_tlsext_host_name(ssl, copy);
        free(copy);
    }
    SSL_set_connect_state(ssl);
    return tls_conn_wrap(ssl);
}
