// SPDX-License-Identifier: Apache-2.0
//
// TLS over OpenSSL without I/O: a BIO that reads from a slice and writes into a buffer, so that an
// idle connection keeps no buffers. Also the server's files and their reload.
#include "net/tls.h"

#include <assert.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>

#include <sys/stat.h>

#include "base/vec.h"
#include "net/tls/tls_int.h"

#include "base/banned.h"

// A resumed session skips the certificates; not for longer than this.
#define SESSION_SEC 300

// Identifies one version of a file.
struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

enum { STAMP_CERTIFICATE, STAMP_KEY, STAMP_CA, STAMPS };

struct tls_server {
    SSL_CTX *ctx;
    char *certificate_file, *key_file, *client_ca_file;
    struct stamp stamps[STAMPS]; // of the files when they were read last
};

struct tls_conn {
    SSL *ssl;
    struct str in;
    struct sbuf *out;
    bool ready;
    unsigned long problem; // OpenSSL's code of what broke it
};

int tls_fail(struct err *err, int code, const char *what)
{
    char text[200] = "no details";
    unsigned long first = ERR_get_error();
    if (first)
        ERR_error_string_n(first, text, sizeof(text));
    ERR_clear_error();
    return err_set(err, code, "%s: %s", what, text);
}

bool tls_read_time(const ASN1_TIME *t, int64_t *ret)
{
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    bool ok = epoch && ASN1_TIME_diff(&days, &seconds, epoch, t) == 1;
    ASN1_TIME_free(epoch);
    *ret = (int64_t)days * 86400 + seconds;
    return ok;
}

// --- BIO: from a slice, into an sbuf -------------------------------------------------------------

static int bio_read(BIO *bio, char *to, int cap)
{
    struct tls_conn *c = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t n = cap > 0 && (size_t)cap < c->in.n ? (size_t)cap : c->in.n;
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(to, c->in.p, n);
    c->in = str_from(c->in, n);
    return (int)n;
}

static int bio_write(BIO *bio, const char *from, int n)
{
    struct tls_conn *c = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (n > 0 && c->out)
        sbuf_add(c->out, str_make(from, (size_t)n));
    return n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *p)
{
    (void)bio, (void)number, (void)p;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *bio_method;
static pthread_once_t bio_once = PTHREAD_ONCE_INIT;

static void bio_method_free(void)
{
    BIO_meth_free(bio_method);
}

static void bio_method_make(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dray");
    if (!bio_method)
        abort(); // out of memory
    (void)BIO_meth_set_read(bio_method, bio_read);
    (void)BIO_meth_set_write(bio_method, bio_write);
    (void)BIO_meth_set_ctrl(bio_method, bio_ctrl);
    (void)atexit(bio_method_free);
}

// --- Server --------------------------------------------------------------------------------------

static int choose_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                       const unsigned char *offered, unsigned offered_len, void *arg)
{
    (void)ssl, (void)arg;
    static const unsigned char spoken[] = "\x02h2\x08http/1.1";
    union {
        const unsigned char **in;
        unsigned char **out;
    } to = {ret};
    if (SSL_select_next_proto(to.out, ret_len, spoken, sizeof(spoken) - 1, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL; // as RFC 7301 wants it
    return SSL_TLSEXT_ERR_OK;
}

static void tls_configure_context(SSL_CTX *ctx)
{
    static const unsigned char session_context[] = "dray";
    (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_IGNORE_UNEXPECTED_EOF |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    int ok = SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20");
    assert(ok == 1);
    // Tickets alone: sessions live with the client, not in our memory.
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(ctx, 1);
    (void)SSL_CTX_set_timeout(ctx, SESSION_SEC);
    (void)SSL_CTX_set_session_id_context(ctx, session_context, sizeof(session_context) - 1);
    SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
}

static int load_files(SSL_CTX *ctx, const struct tls_server *t, struct err *err)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, t->certificate_file) != 1) {
        (void)tls_fail(err, EINVAL, "not a readable PEM certificate");
        return err_wrap(err, "%s", t->certificate_file);
    }
    if (SSL_CTX_use_PrivateKey_file(ctx, t->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1) {
        (void)tls_fail(err, EINVAL, "not the readable PEM key of the certificate");
        return err_wrap(err, "%s", t->key_file);
    }
    if (!t->client_ca_file)
        return 0;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(t->client_ca_file);
    if (!names || SSL_CTX_load_verify_file(ctx, t->client_ca_file) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        (void)tls_fail(err, EINVAL, "not a readable PEM file of CA certificates");
        return err_wrap(err, "%s", t->client_ca_file);
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    return 0;
}

static void take_stamps(const struct tls_server *t, struct stamp stamps[STAMPS])
{
    const char *const files[STAMPS] = {t->certificate_file, t->key_file, t->client_ca_file};
    memset(stamps, 0, STAMPS * sizeof(*stamps)); // with the gaps: they are compared as bytes
    for (size_t i = 0; i < STAMPS; i++) {
        struct stat st;
        if (!files[i] || stat(files[i], &st) < 0)
            continue;
        stamps[i].dev = st.st_dev;
        stamps[i].ino = st.st_ino;
        stamps[i].size = st.st_size;
        stamps[i].changed = st.st_mtim;
    }
}

static int make_context(const struct tls_server *t, SSL_CTX **ret, struct err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx)
        return tls_fail(err, ERR_INTERNAL, "cannot set up TLS");
    tls_configure_context(ctx);
    int r = load_files(ctx, t, err);
    if (r < 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    *ret = ctx;
    return 0;
}

static char *tls_copy_text(const char *z)
{
    return z ? xstrndup(z, strlen(z)) : NULL;
}

int tls_server_new(const struct tls_server_options *options, struct tls_server **ret,
                   struct err *err)
{
    (void)pthread_once(&bio_once, bio_method_make);
    struct tls_server *t = xcalloc(1, sizeof(*t));
    t->certificate_file = tls_copy_text(options->certificate_file);
    t->key_file = tls_copy_text(options->key_file);
    t->client_ca_file = tls_copy_text(options->client_ca_file);
    take_stamps(t, t->stamps);
    int r = make_context(t, &t->ctx, err);
    if (r < 0) {
        tls_server_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

void tls_server_free(struct tls_server *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    free(t->certificate_file);
    free(t->key_file);
    free(t->client_ca_file);
    free(t);
}

int tls_server_reload(struct tls_server *t, struct err *err)
{
    SSL_CTX *fresh = NULL;
    int r = make_context(t, &fresh, err);
    if (r < 0)
        return r;
    SSL_CTX_free(t->ctx); // connections hold references of their own
    t->ctx = fresh;
    return 0;
}

int tls_server_follow(struct tls_server *t, struct err *err)
{
    struct stamp now[STAMPS];
    take_stamps(t, now);
    if (memcmp(now, t->stamps, sizeof(now)) == 0)
        return 0;
    memcpy(t->stamps, now, sizeof(now)); // before reading: what changes meanwhile is seen next time
    int r = tls_server_reload(t, err);
    return r < 0 ? r : 1;
}

// --- Connection ----------------------------------------------------------------------------------

struct tls_conn *tls_conn_wrap(struct ssl_st *ssl)
{
    (void)pthread_once(&bio_once, bio_method_make);
    struct tls_conn *c = xcalloc(1, sizeof(*c));
    c->ssl = ssl;
    BIO *bio = BIO_new(bio_method);
    if (!c->ssl || !bio)
        abort(); // out of memory
    BIO_set_data(bio, c);
    BIO_set_init(bio, 1);
    SSL_set_bio(c->ssl, bio, bio);
    return c;
}

struct tls_conn *tls_conn_new(struct tls_server *t)
{
    struct tls_conn *c = tls_conn_wrap(SSL_new(t->ctx));
    SSL_set_accept_state(c->ssl);
    return c;
}

int tls_conn_problem(const struct tls_conn *c, struct err *err)
{
    long verdict = SSL_get_verify_result(c->ssl);
    bool wrong_name =
        verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH;
    if (!c->ready && verdict != X509_V_OK && SSL_get_verify_mode(c->ssl) != SSL_VERIFY_NONE)
        return err_set(err, wrong_name ? TLS_WRONG_NAME : ERR_FORBIDDEN,
                       "its certificate is not trusted: %s",
                       X509_verify_cert_error_string(verdict));
    const char *why = c->problem ? ERR_reason_error_string(c->problem) : NULL;
    return err_set(err, ERR_UNAVAILABLE, "%s%s%s",
                   c->ready ? "the TLS connection broke" : "the TLS handshake failed",
                   why ? ": " : "", why ? why : "");
}

void tls_conn_free(struct tls_conn *c)
{
    if (!c)
        return;
    c->out = NULL;
    SSL_free(c->ssl);
    free(c);
}

void tls_conn_input(struct tls_conn *c, struct str cipher, struct sbuf *out)
{
    c->in = cipher;
    c->out = out;
}

// A ticket may outlive the certificate it was given for.
static bool peer_expired(const struct tls_conn *c)
{
    const X509 *x = SSL_get0_peer_certificate(c->ssl);
    return x && SSL_session_reused(c->ssl) && X509_cmp_current_time(X509_get0_notAfter(x)) <= 0;
}

static int tls_read_outcome(struct tls_conn *c, int r)
{
    switch (SSL_get_error(c->ssl, r)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        return -ENOTCONN;
    default:
        c->problem = ERR_peek_error();
        ERR_clear_error();
        return -EPROTO;
    }
}

int tls_conn_read(struct tls_conn *c, char *to, size_t cap)
{
    assert(cap > 0 && cap <= INT_MAX);
    ERR_clear_error();
    if (!c->ready) {
        int r = SSL_do_handshake(c->ssl);
        if (r != 1)
            return tls_read_outcome(c, r) == 0 ? 0 : -EPROTO;
        c->ready = true;
        if (peer_expired(c))
            return -EPROTO;
    }
    int n = SSL_read(c->ssl, to, (int)cap);
    return n > 0 ? n : tls_read_outcome(c, n);
}

bool tls_conn_ready(const struct tls_conn *c)
{
    return c->ready;
}

bool tls_conn_h2(const struct tls_conn *c)
{
    const unsigned char *name = NULL;
    unsigned n = 0;
    SSL_get0_alpn_selected(c->ssl, &name, &n);
    return n == 2 && memcmp(name, "h2", 2) == 0;
}

int tls_conn_write(struct tls_conn *c, struct str plain, struct sbuf *out)
{
    c->out = out;
    ERR_clear_error();
    while (plain.n) {
        int n = SSL_write(c->ssl, plain.p,
                          plain.n < TLS_RECORD_MAX ? (int)plain.n : (int)TLS_RECORD_MAX);
        if (n <= 0) {
            ERR_clear_error();
            return -EPROTO; // the BIO never refuses
        }
        plain = str_from(plain, (size_t)n);
    }
    return 0;
}

void tls_conn_shutdown(struct tls_conn *c, struct sbuf *out)
{
    c->out = out;
    if (c->ready)
        (void)SSL_shutdown(c->ssl);
    ERR_clear_error();
}

struct names VEC(struct str);

static void tls_add_names(const X509_NAME *subject, int nid, struct arena *a, struct names *ret)
{
    for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, nid, at)) >= 0;) {
        const X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, at);
        unsigned char *text = NULL;
        int n = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
        if (n < 0)
            continue;
        // A NUL inside could make a name look like another one.
        if (!memchr(text, '\0', (size_t)n))
            vec_push_arena(a, ret, arena_str(a, str_make((const char *)text, (size_t)n)));
        OPENSSL_free(text);
    }
}

static char *tls_put_text(char **at, struct str s)
{
    char *to = *at;
    if (s.n)
        memcpy(to, s.p, s.n);
    *at += s.n;
    return to;
}

// In one block: connections live long, and an arena would keep a whole chunk for each.
static struct tls_peer *pack_peer(struct str common_name, const struct names *organizations)
{
    struct tls_peer *p;
    struct str *list;
    size_t text = common_name.n;
    for (size_t i = 0; i < organizations->n; i++)
        text += organizations->p[i].n;
    p = xmalloc(sizeof(*p) + organizations->n * sizeof(*list) + text);
    list = (struct str *)(p + 1);
    char *at = (char *)(list + organizations->n);
    *p = (struct tls_peer){.organizations = list, .organizations_len = organizations->n};
    p->common_name = str_make(tls_put_text(&at, common_name), common_name.n);
    for (size_t i = 0; i < organizations->n; i++)
        list[i] = str_make(tls_put_text(&at, organizations->p[i]), organizations->p[i].n);
    return p;
}

// tls_write_digits writes bytes as lower-case hexadecimal digits, at most cap - 1 of them.
static void tls_write_digits(const unsigned char *bytes, size_t n, char *out, size_t cap)
{
    static const char digits[] = "0123456789abcdef";
    size_t i = 0;
    for (; i < n && 2 * i + 2 < cap; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * i] = '\0';
}

// tls_write_marks writes what a deny list may name a certificate by.
static void tls_write_marks(const X509 *x, struct tls_peer *p)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    const ASN1_INTEGER *serial = X509_get0_serialNumber(x);
    tls_write_digits(ASN1_STRING_get0_data(serial), (size_t)ASN1_STRING_length(serial), p->serial,
                     sizeof(p->serial));
    if (X509_digest(x, EVP_sha256(), sum, &n) == 1)
        tls_write_digits(sum, n, p->sha256, sizeof(p->sha256));
}

struct tls_peer *tls_conn_peer(const struct tls_conn *c)
{
    const X509 *x = SSL_get0_peer_certificate(c->ssl);
    if (!x || SSL_get_verify_result(c->ssl) != X509_V_OK)
        return NULL;
    cleanup_arena struct arena a = {0};
    struct names common = {0}, organizations = {0};
    const X509_NAME *subject = X509_get_subject_name(x);
    tls_add_names(subject, NID_commonName, &a, &common);
    tls_add_names(subject, NID_organizationName, &a, &organizations);
    // Of several common names the last, the most specific one, as Go does.
    struct tls_peer *p =
        pack_peer(common.n ? common.p[common.n - 1] : (struct str){0}, &organizations);
    (void)tls_read_time(X509_get0_notAfter(x), &p->not_after); // 0: not a time
    tls_write_marks(x, p);
    return p;
}
