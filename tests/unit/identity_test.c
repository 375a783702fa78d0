// SPDX-License-Identifier: Apache-2.0
//
// Asking for a node's certificate from a server that is not always there.
#include "api/api.h"
#include "base/rand.h"
#include "node/identity.h"
#include "pki/certificate.h"
#include "unit.h"

#include "base/banned.h"

// A server with one request in it, at most.
static struct {
    struct client client;
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct typed_object object;
    struct api_certificate_signing_request request;
    struct pki_key_pair certificate;
    int creates;
    const int *answers; // to creates, until a 0; ERR_TIMEOUT: it is made, and the answer is lost
    bool made;
    // What came of it.
    int done, code;
    struct sbuf pem;
} t;

struct told {
    client_done_fn done;
    void *arg;
    int code;
};

static void tell(void *arg)
{
    struct told *w = arg;
    struct err err = {0};
    struct client_answer a = {.code = w->code ? err_set(&err, w->code, "the server's words") : 0};
    a.err = a.code ? &err : NULL;
    a.object = a.code ? NULL : &t.object;
    w->done(w->arg, &a);
    free(w);
}

static void answer(int code, client_done_fn done, void *arg)
{
    struct told *w = xcalloc(1, sizeof(*w));
    *w = (struct told){done, arg, code};
    exec_post(t.client.exec, tell, w);
}

static void on_get(struct client *c, const struct client_key *key, client_done_fn done, void *arg)
{
    (void)c;
    (void)key;
    t.request.status.certificate = str_z(t.certificate.certificate_pem);
    answer(t.made ? 0 : ERR_NOT_FOUND, done, arg);
}

static void on_create(struct client *c, const struct api_object *object,
                      const struct client_write *how, client_done_fn done, void *arg)
{
    (void)c;
    (void)object;
    (void)how;
    int code = t.made ? ERR_ALREADY_EXISTS : t.answers[t.creates];
    t.creates++;
    t.made = t.made || code == 0 || code == ERR_TIMEOUT;
    answer(code, done, arg);
}

static const struct client_ops ops = {.get = on_get, .create = on_create};

static void on_done(void *arg, int code, const struct err *err, struct str pem)
{
    (void)arg;
    (void)err;
    t.done++;
    t.code = code;
    sbuf_add(&t.pem, pem);
}

static void ask(const int *answers)
{
    const struct pki_subject subject = {
        .common_name = "system:node:n", .not_before = 1700000000, .not_after = 1900000000};
    memset(&t, 0, sizeof(t));
    clock_fake_init(&t.clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&t.rng, 1);
    t.sim = exec_sim_new(&t.clock, &t.rng.rng);
    t.client = (struct client){.ops = &ops, .exec = exec_sim_exec(t.sim)};
    t.object.object = (struct api_object){
        api_kind_find(STR("certificates.k8s.io/v1"), STR("CertificateSigningRequest")), &t.request};
    t.answers = answers;
    assert_int_equal(pki_make_ca(&subject, &t.certificate, NULL), 0);
    const struct identity_request_options wish = {
        .client = &t.client, .node = "n", .timeout_ns = 60 * CLOCK_NS_PER_SEC, .done = on_done};
    assert_non_null(identity_request_new(&wish));
    exec_sim_run(t.sim, exec_now_ns(t.client.exec) + 100 * CLOCK_NS_PER_SEC);
    assert_int_equal(t.done, 1);
}

static void end(void)
{
    exec_sim_free(t.sim);
    pki_key_pair_done(&t.certificate);
    sbuf_done(&t.pem);
}

static void a_request_that_did_not_get_through_is_made_again(void **state)
{
    static const int answers[] = {ERR_UNAVAILABLE, ERR_UNAVAILABLE, 0};
    (void)state;
    ask(answers);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.creates, 3);
    assert_true(str_starts(sbuf_str(&t.pem), STR("-----BEGIN CERTIFICATE-----")));
    assert_non_null(strstr(t.pem.p, "PRIVATE KEY"));
    end();
}

static void a_request_whose_answer_was_lost_is_there(void **state)
{
    static const int answers[] = {ERR_TIMEOUT};
    (void)state;
    ask(answers);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.creates, 2);
    end();
}

static void who_may_not_ask_hears_it_at_once(void **state)
{
    static const int answers[] = {ERR_FORBIDDEN};
    (void)state;
    ask(answers);
    assert_int_equal(t.code, -ERR_FORBIDDEN);
    assert_int_equal(t.creates, 1);
    end();
}

RUN_TESTS(TEST_CASE(a_request_that_did_not_get_through_is_made_again),
          TEST_CASE(a_request_whose_answer_was_lost_is_there),
          TEST_CASE(who_may_not_ask_hears_it_at_once))
