// SPDX-License-Identifier: Apache-2.0
//
// Certificates of our making, and the server over TLS with OpenSSL's client.
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <sys/stat.h>

#include "http_fixture.h"
#include "os/file.h"
#include "pki/certificate.h"

#include "base/banned.h"

#define DAY INT64_C(86400)

// A CA, a server's and two clients' certificates (one of another CA) in a folder.
struct pki {
    char folder[64];
    struct pki_key_pair ca, other_ca, server, client, stranger;
};

static const char *const server_names[] = {"localhost", "dray.example", "127.0.0.1", "::1", NULL};
static const char *const groups[] = {"system:masters", "ops", NULL};

static int64_t now_sec(void)
{
    return clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
}

static const char *file(const struct pki *p, const char *name)
{
    static char paths[4][128];
    static int next;
    char *to = paths[next++ % 4];
    (void)snprintf(to, sizeof(paths[0]), "%s/%s", p->folder, name);
    return to;
}

static void make(const struct pki_key_pair *ca, bool server, const char *name, int64_t end,
                 struct pki_key_pair *ret)
{
    struct err err = {0};
    struct pki_subject s = {.common_name = name, .server = server, .not_before = now_sec() - DAY};
    s.not_after = end;
    s.organizations = server ? NULL : groups;
    s.names = server ? server_names : NULL;
    if ((ca ? pki_make_certificate(ca, &s, ret, &err) : pki_make_ca(&s, ret, &err)) < 0)
        fail_msg("%s", err.msg);
}

static void pki_make(struct pki *p)
{
    *p = (struct pki){.folder = "/tmp/dray_tls_test.XXXXXX"};
    assert_non_null(mkdtemp(p->folder));
    int64_t end = now_sec() + DAY;
    make(NULL, false, "ca", end, &p->ca);
    make(NULL, false, "ca", end, &p->other_ca); // of the same name
    make(&p->ca, true, "server", end, &p->server);
    make(&p->ca, false, "admin", end, &p->client);
    make(&p->other_ca, false, "admin", end, &p->stranger);
    assert_int_equal(
        file_replace_durable(AT_FDCWD, file(p, "ca"), str_z(p->ca.certificate_pem), 0600, NULL), 0);
    assert_int_equal(file_replace_durable(AT_FDCWD, file(p, "crt"),
                                          str_z(p->server.certificate_pem), 0600, NULL),
                     0);
    assert_int_equal(
        file_replace_durable(AT_FDCWD, file(p, "key"), str_z(p->server.key_pem), 0600, NULL), 0);
}

static void pki_done(struct pki *p)
{
    (void)unlink(file(p, "ca"));
    (void)unlink(file(p, "crt"));
    (void)unlink(file(p, "key"));
    assert_int_equal(rmdir(p->folder), 0); // and nothing else was left
    pki_key_pair_done(&p->ca);
    pki_key_pair_done(&p->other_ca);
    pki_key_pair_done(&p->server);
    pki_key_pair_done(&p->client);
    pki_key_pair_done(&p->stranger);
}

static struct tls_server *server_tls(const struct pki *p, bool ask)
{
    struct err err = {0};
    struct tls_server *t = NULL;
    struct tls_server_options o = {file(p, "crt"), file(p, "key"), ask ? file(p, "ca") : NULL};
    if (tls_server_new(&o, &t, &err) < 0)
        fail_msg("%s", err.msg);
    return t;
}

static X509 *read_x509(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert_non_null(x);
    return x;
}

static EVP_PKEY *read_pkey(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *k = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert_non_null(k);
    return k;
}

static void makes_certificates_others_accept(void **state)
{
    (void)state;
    struct pki p;
    struct err err;
    pki_make(&p);
    X509 *ca = read_x509(p.ca.certificate_pem), *server = read_x509(p.server.certificate_pem);
    X509 *client = read_x509(p.client.certificate_pem);
    EVP_PKEY *key = read_pkey(p.ca.key_pem);
    assert_int_equal(X509_verify(server, key), 1);
    assert_int_equal(X509_check_ca(ca), 1);
    assert_int_equal(X509_check_ca(server), 0);
    assert_int_equal(X509_check_host(server, "dray.example", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(server, "other.example", 0, 0, NULL), 0);
    assert_int_equal(X509_check_ip_asc(server, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(server, "::1", 0), 1);
    assert_int_equal(X509_check_purpose(server, X509_PURPOSE_SSL_SERVER, 0), 1);
    assert_int_equal(X509_check_purpose(server, X509_PURPOSE_SSL_CLIENT, 0), 0);
    assert_int_equal(X509_check_purpose(client, X509_PURPOSE_SSL_CLIENT, 0), 1);
    assert_int_equal(X509_check_issued(ca, client), X509_V_OK);
    assert_int_not_equal(
        ASN1_INTEGER_cmp(X509_get0_serialNumber(server), X509_get0_serialNumber(client)), 0);
    int64_t end = 0;
    assert_int_equal(pki_certificate_expiry(p.server.certificate_pem, &end, &err), 0);
    assert_in_range(end, now_sec() + DAY - 60, now_sec() + DAY);
    assert_int_equal(pki_certificate_expiry("nonsense", &end, &err), -EINVAL);
    // A CA whose parts do not belong together is no CA.
    struct pki_key_pair mixed = {p.ca.certificate_pem, p.other_ca.key_pem}, none;
    struct pki_subject s = {.common_name = "x", .not_after = now_sec()};
    assert_int_equal(pki_make_certificate(&mixed, &s, &none, &err), -EINVAL);
    EVP_PKEY_free(key);
    X509_free(ca);
    X509_free(server);
    X509_free(client);
    pki_done(&p);
}

static void compares_names_with_those_of_a_certificate(void **state)
{
    (void)state;
    struct pki p;
    static const char *const fewer[] = {"system:masters", NULL};
    pki_make(&p);
    const char *pem = p.client.certificate_pem; // admin, in groups
    struct pki_subject s = {.common_name = "admin", .organizations = groups};
    assert_true(pki_certificate_names(pem, &s));
    s.organizations = NULL;
    assert_false(pki_certificate_names(pem, &s));
    s.organizations = fewer;
    assert_false(pki_certificate_names(pem, &s));
    s = (struct pki_subject){.common_name = "other", .organizations = groups};
    assert_false(pki_certificate_names(pem, &s));
    assert_false(pki_certificate_names("nonsense", &s));
    pki_done(&p);
}

static void writes_files_for_the_owner_alone(void **state)
{
    (void)state;
    struct pki p;
    struct stat st;
    struct err err;
    pki_make(&p);
    assert_int_equal(stat(file(&p, "key"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(file_replace_durable(AT_FDCWD, file(&p, "key"), str_z("new"), 0600, NULL), 0);
    cleanup_sbuf struct sbuf b = {0};
    read_file(file(&p, "key"), &b);
    assert_str(sbuf_str(&b), "new");
    assert_int_equal(file_replace_durable(AT_FDCWD, "/nonexistent/key", str_z("x"), 0600, &err),
                     -ENOENT);
    assert_non_null(strstr(err.msg, "/nonexistent/key"));
    pki_done(&p);
}

// --- Talking -------------------------------------------------------------------------------------

struct talk {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
};

static void talk_context(struct talk *t, const struct pki *p, const struct pki_key_pair *who)
{
    t->ctx = SSL_CTX_new(TLS_client_method());
    assert_non_null(t->ctx);
    X509 *ca = read_x509(p->ca.certificate_pem);
    assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(t->ctx), ca), 1);
    X509_free(ca);
    SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
    if (who) {
        X509 *x = read_x509(who->certificate_pem);
        EVP_PKEY *k = read_pkey(who->key_pem);
        assert_int_equal(SSL_CTX_use_certificate(t->ctx, x), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(t->ctx, k), 1);
        X509_free(x);
        EVP_PKEY_free(k);
    }
}

// Whether the handshake goes through on our side.
static bool talk_open(struct talk *t, const struct fixture *f, SSL_SESSION *session)
{
    t->fd = client_open(f);
    t->ssl = SSL_new(t->ctx);
    (void)SSL_set_fd(t->ssl, t->fd);
    (void)SSL_set1_host(t->ssl, "localhost");
    if (session)
        (void)SSL_set_session(t->ssl, session);
    return SSL_connect(t->ssl) == 1;
}

static void talk_close(struct talk *t)
{
    (void)SSL_shutdown(t->ssl); // else OpenSSL forgets the session
    SSL_free(t->ssl);
    (void)close(t->fd);
    ERR_clear_error();
}

// Reads to the end of the connection, or until the text is there.
static bool talk_ask(struct talk *t, const char *request, struct sbuf *answer, const char *until)
{
    if (SSL_write(t->ssl, request, (int)strlen(request)) <= 0)
        return false;
    while (!until || !sbuf_has(answer, until)) {
        int n = SSL_read(t->ssl, sbuf_space(answer, 65536), 65536);
        if (n <= 0)
            return !until && answer->n > 0;
        sbuf_commit(answer, (size_t)n);
    }
    return true;
}

#define ASK "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

static void who_handle(void *arg, struct http_request *q)
{
    if (!str_eqz(q->path, "/who")) {
        fixture_handle(arg, q);
        return;
    }
    struct sbuf b = {0};
    sbuf_addf(&b, "tls=%d ", q->tls);
    if (q->certificate) {
        sbuf_add(&b, q->certificate->common_name);
        for (size_t i = 0; i < q->certificate->organizations_len; i++)
            sbuf_addf(&b, ",%.*s", STR_ARG(q->certificate->organizations[i]));
    } else {
        sbuf_addz(&b, "nobody");
    }
    sbuf_addz(&b, ".");
    http_reply(q, 200, STR("text/plain"), NULL, 0, net_buf_new(&b));
}

#define WHO "GET /who HTTP/1.1\r\nHost: a\r\n\r\n"

static void start_who(struct fixture *f, struct tls_server *tls)
{
    struct err err = {0};
    *f = (struct fixture){0};
    assert_int_equal(loop_new(&f->loop, &err), 0);
    struct http_server_options options = {
        .loop = f->loop, .tls = tls, .handle = who_handle, .arg = f};
    f->server = http_server_new(&options);
    assert_int_equal(http_server_listen_tcp(f->server, STR("127.0.0.1:0"), &f->port, &err), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, fixture_run, f), 0);
}

static void speaks_http_over_tls(void **state)
{
    (void)state;
    struct pki p;
    struct fixture f;
    pki_make(&p);
    struct tls_server *tls = server_tls(&p, false);
    start_who(&f, tls);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        struct talk t;
        cleanup_sbuf struct sbuf b = {0};
        talk_context(&t, &p, NULL);
        (void)SSL_CTX_set_max_proto_version(t.ctx, version);
        assert_true(talk_open(&t, &f, NULL));
        assert_int_equal(SSL_version(t.ssl), version);
        assert_true(talk_ask(&t, WHO, &b, "tls=1 nobody."));
        assert_true(talk_ask(&t, ASK, &b, "\r\n\r\nhello"));
        sbuf_clear(&b);
        assert_true(talk_ask(&t, "GET /fill?3000000 HTTP/1.0\r\n\r\n", &b, NULL));
        assert_true(b.n > 3000000);
        assert_int_equal(SSL_get_shutdown(t.ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
        talk_close(&t);
        SSL_CTX_free(t.ctx);
    }
    fixture_end(&f);
    tls_server_free(tls);
    pki_done(&p);
}

static void refuses_old_versions_and_plain_text(void **state)
{
    (void)state;
    struct pki p;
    struct fixture f;
    struct talk t;
    pki_make(&p);
    struct tls_server *tls = server_tls(&p, false);
    start_who(&f, tls);
    talk_context(&t, &p, NULL);
    SSL_CTX_set_security_level(t.ctx, 0);
    (void)SSL_CTX_set_min_proto_version(t.ctx, TLS1_VERSION);
    (void)SSL_CTX_set_max_proto_version(t.ctx, TLS1_1_VERSION);
    assert_false(talk_open(&t, &f, NULL));
    talk_close(&t);
    SSL_CTX_free(t.ctx);
    cleanup_sbuf struct sbuf b = {0};
    client_ask(&f, STR(ASK), &b);
    assert_false(sbuf_has(&b, "200"));
    // ALPN: a protocol we do not speak ends the handshake, ours are chosen.
    talk_context(&t, &p, NULL);
    assert_int_equal(SSL_CTX_set_alpn_protos(t.ctx, (const unsigned char *)"\3foo", 4), 0);
    assert_false(talk_open(&t, &f, NULL));
    talk_close(&t);
    const unsigned char *chosen;
    unsigned n;
    assert_int_equal(
        SSL_CTX_set_alpn_protos(t.ctx, (const unsigned char *)"\x08http/1.1\x02h2", 12), 0);
    assert_true(talk_open(&t, &f, NULL));
    SSL_get0_alpn_selected(t.ssl, &chosen, &n);
    assert_str(str_make((const char *)chosen, n), "h2"); // our preference
    talk_close(&t);
    SSL_CTX_free(t.ctx);
    fixture_end(&f);
    tls_server_free(tls);
    pki_done(&p);
}

static void knows_clients_by_certificate(void **state)
{
    (void)state;
    struct pki p;
    struct fixture f;
    struct talk t;
    cleanup_sbuf struct sbuf b = {0};
    pki_make(&p);
    struct tls_server *tls = server_tls(&p, true);
    start_who(&f, tls);
    talk_context(&t, &p, &p.client);
    assert_true(talk_open(&t, &f, NULL));
    assert_true(talk_ask(&t, WHO, &b, "tls=1 admin,system:masters,ops."));
    // Resumed, it is still the same one.
    SSL_SESSION *session = SSL_get1_session(t.ssl);
    assert_true(SSL_SESSION_is_resumable(session));
    talk_close(&t);
    assert_true(talk_open(&t, &f, session));
    assert_int_equal(SSL_session_reused(t.ssl), 1);
    sbuf_clear(&b);
    assert_true(talk_ask(&t, WHO, &b, "tls=1 admin,system:masters,ops."));
    talk_close(&t);
    SSL_SESSION_free(session);
    SSL_CTX_free(t.ctx);
    // None is fine.
    sbuf_clear(&b);
    talk_context(&t, &p, NULL);
    assert_true(talk_open(&t, &f, NULL));
    assert_true(talk_ask(&t, WHO, &b, "nobody."));
    talk_close(&t);
    SSL_CTX_free(t.ctx);
    // One of another CA of the same name, a server's, an expired one: not.
    struct pki_key_pair expired;
    make(&p.ca, false, "admin", now_sec() - 60, &expired);
    const struct pki_key_pair *bad[] = {&p.stranger, &p.server, &expired};
    for (size_t i = 0; i < array_len(bad); i++) {
        sbuf_clear(&b);
        talk_context(&t, &p, bad[i]);
        assert_false(talk_open(&t, &f, NULL) && talk_ask(&t, WHO, &b, "."));
        talk_close(&t);
        SSL_CTX_free(t.ctx);
    }
    pki_key_pair_done(&expired);
    fixture_end(&f);
    tls_server_free(tls);
    pki_done(&p);
}

struct reload {
    struct tls_server *tls;
    struct err err;
    int r;
    atomic_int done;
};

static void do_reload(void *arg)
{
    struct reload *r = arg;
    r->r = tls_server_follow(r->tls, &r->err);
    atomic_fetch_add(&r->done, 1);
}

static void reloads_certificates(void **state)
{
    (void)state;
    struct pki p;
    struct fixture f;
    struct talk t, again;
    cleanup_sbuf struct sbuf b = {0};
    struct pki_key_pair fresh;
    pki_make(&p);
    struct reload reload = {.tls = server_tls(&p, false)};
    start_who(&f, reload.tls);
    talk_context(&t, &p, NULL);
    talk_context(&again, &p, NULL);
    assert_true(talk_open(&t, &f, NULL));
    // A broken file changes nothing.
    assert_int_equal(file_replace_durable(AT_FDCWD, file(&p, "crt"), str_z("broken"), 0600, NULL),
                     0);
    exec_post(loop_exec(f.loop), do_reload, &reload);
    fixture_wait(&reload.done, 1);
    assert_true(reload.r < 0);
    assert_non_null(strstr(reload.err.msg, "/crt: "));
    exec_post(loop_exec(f.loop), do_reload, &reload);
    fixture_wait(&reload.done, 2);
    assert_int_equal(reload.r, 0); // nothing has changed since: it is not told of again
    assert_true(talk_open(&again, &f, NULL));
    talk_close(&again);
    make(&p.ca, true, "fresh", now_sec() + DAY, &fresh);
    assert_int_equal(file_replace_durable(AT_FDCWD, file(&p, "crt"), str_z(fresh.certificate_pem),
                                          0600, NULL),
                     0);
    assert_int_equal(
        file_replace_durable(AT_FDCWD, file(&p, "key"), str_z(fresh.key_pem), 0600, NULL), 0);
    exec_post(loop_exec(f.loop), do_reload, &reload);
    fixture_wait(&reload.done, 3);
    assert_int_equal(reload.r, 1);
    assert_true(talk_open(&again, &f, NULL));
    char name[64];
    (void)X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(again.ssl)),
                                    NID_commonName, name, sizeof(name));
    assert_string_equal(name, "fresh");
    assert_true(talk_ask(&t, ASK, &b, "hello")); // the old connection lives on
    talk_close(&again);
    talk_close(&t);
    SSL_CTX_free(again.ctx);
    SSL_CTX_free(t.ctx);
    fixture_end(&f);
    tls_server_free(reload.tls);
    pki_key_pair_done(&fresh);
    pki_done(&p);
}

static void says_which_file_is_wrong(void **state)
{
    (void)state;
    struct pki p;
    struct err err;
    struct tls_server *t = NULL;
    pki_make(&p);
    struct tls_server_options o = {"/nonexistent/crt", file(&p, "key"), NULL};
    assert_true(tls_server_new(&o, &t, &err) < 0);
    assert_non_null(strstr(err.msg, "/nonexistent/crt"));
    o = (struct tls_server_options){file(&p, "crt"), file(&p, "ca"), NULL};
    assert_true(tls_server_new(&o, &t, &err) < 0);
    assert_non_null(strstr(err.msg, "/ca: "));
    o = (struct tls_server_options){file(&p, "crt"), file(&p, "key"), file(&p, "key")};
    assert_true(tls_server_new(&o, &t, &err) < 0);
    assert_non_null(strstr(err.msg, "CA certificates"));
    pki_done(&p);
}

static void ends_handshakes_that_do_not_move(void **state)
{
    (void)state;
    struct pki p;
    struct fixture f;
    static const struct http_limits limits = {.header_timeout_ns = 100 * CLOCK_NS_PER_MS};
    pki_make(&p);
    struct tls_server *tls = server_tls(&p, false);
    fixture_start(&f, tls, &limits);
    cleanup_sbuf struct sbuf b = {0};
    client_ask(&f, STR("\x16\x03\x01\x02\x00"), &b); // the beginning of a hello
    assert_int_equal(b.n, 0);
    fixture_end(&f);
    tls_server_free(tls);
    pki_done(&p);
}

RUN_TESTS(TEST_CASE(makes_certificates_others_accept),
          TEST_CASE(compares_names_with_those_of_a_certificate),
          TEST_CASE(writes_files_for_the_owner_alone), TEST_CASE(speaks_http_over_tls),
          TEST_CASE(refuses_old_versions_and_plain_text), TEST_CASE(knows_clients_by_certificate),
          TEST_CASE(reloads_certificates), TEST_CASE(says_which_file_is_wrong),
          TEST_CASE(ends_handshakes_that_do_not_move))
