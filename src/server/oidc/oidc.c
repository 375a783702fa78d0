// SPDX-License-Identifier: Apache-2.0
//
// Fetching: the discovery document, then the key set it names. Known keys stay in use while a fetch
// runs and when it fails. Every 5 minutes a new fetch; after a failure sooner, with a growing
// pause;
// at once for a token whose key is not known, but not more often than every 10 s, whatever tokens
// clients show.
#include "server/oidc/oidc.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/https.h"
#include "net/loop.h"
#include "server/oidc/oidc_token.h"

#include "base/banned.h"

#define OIDC_PERIOD_NS       (300 * CLOCK_NS_PER_SEC)
#define OIDC_PAUSE_FIRST_NS  (1 * CLOCK_NS_PER_SEC)
#define OIDC_PAUSE_MOST_NS   (60 * CLOCK_NS_PER_SEC)
#define OIDC_UNKNOWN_KEY_NS  (10 * CLOCK_NS_PER_SEC)
#define OIDC_CALL_TIMEOUT_MS 10000

static struct log_module log_mod = LOG_MODULE("oidc");

struct oidc {
    struct loop *loop;
    struct exec *exec;
    struct arena arena; // of the rules
    struct oidc_rules rules;
    char *ca_pem;
    struct jwk_set *keys;         // NULL: none yet
    struct https *issuer, *other; // other: where the keys are, while they are fetched
    struct exec_timer timer;
    int64_t pause_ns;   // after the next failure
    int64_t started_ns; // the last fetch; INT64_MIN: none
    bool fetching;
};

static void oidc_fetch(void *arg);

static void oidc_end_fetch(struct oidc *o, int64_t next_ns)
{
    o->fetching = false;
    if (o->other)
        https_free(o->other);
    o->other = NULL;
    exec_timer_start(o->exec, &o->timer, next_ns);
}

static void oidc_fail_fetch(struct oidc *o, const char *what, const char *why)
{
    LOG_WARN(&log_mod, "cannot fetch the issuer's keys", log_z("what", what), log_z("why", why));
    oidc_end_fetch(o, o->pause_ns);
    o->pause_ns = o->pause_ns * 2 < OIDC_PAUSE_MOST_NS ? o->pause_ns * 2 : OIDC_PAUSE_MOST_NS;
}

// oidc_answer_good: whether there is a document; if not, the fetch has ended.
static bool oidc_answer_good(struct oidc *o, const char *what, const struct https_answer *a)
{
    char status[32];
    (void)snprintf(status, sizeof(status), "HTTP status %d", a->status);
    if (a->code == 0 && a->status == 200)
        return true;
    oidc_fail_fetch(o, what, a->code < 0 && a->err ? a->err->msg : status);
    return false;
}

static void oidc_take_keys(void *arg, const struct https_answer *answer)
{
    struct oidc *o = arg;
    struct jwk_set *keys = NULL;
    struct err err = {0};
    if (!oidc_answer_good(o, "key set", answer))
        return;
    if (jwk_set_parse(answer->body, &keys, &err) < 0) {
        oidc_fail_fetch(o, "key set", err.msg);
        return;
    }
    jwk_set_free(o->keys);
    o->keys = keys;
    o->pause_ns = OIDC_PAUSE_FIRST_NS;
    oidc_end_fetch(o, OIDC_PERIOD_NS);
}

static int oidc_make_client(const struct oidc *o, struct str url, struct https **ret,
                            struct err *err)
{
    const struct https_options options = {.url = url,
                                          .ca_pem = str_z(o->ca_pem),
                                          .user_agent = STR("dray"),
                                          .connections = 1,
                                          .body_bytes = JWK_SET_BYTES_MAX};
    return https_new(o->loop, &options, ret, err);
}

static void oidc_take_discovery(void *arg, const struct https_answer *answer)
{
    struct oidc *o = arg;
    struct err err = {0};
    cleanup_arena struct arena arena = {0};
    struct str origin, target;
    if (!oidc_answer_good(o, "discovery document", answer))
        return;
    if (oidc_read_discovery(answer->body, o->rules.issuer, &arena, &origin, &target, &err) < 0 ||
        oidc_make_client(o, origin, &o->other, &err) < 0) {
        oidc_fail_fetch(o, "discovery document", err.msg);
        return;
    }
    const struct https_request q = {.method = "GET",
                                    .target = target,
                                    .accept = STR("application/json"),
                                    .timeout_ms = OIDC_CALL_TIMEOUT_MS,
                                    .done = oidc_take_keys,
                                    .arg = o};
    (void)https_start(o->other, &q);
}

static void oidc_fetch(void *arg)
{
    struct oidc *o = arg;
    const struct https_request q = {.method = "GET",
                                    .target = STR("/.well-known/openid-configuration"),
                                    .accept = STR("application/json"),
                                    .timeout_ms = OIDC_CALL_TIMEOUT_MS,
                                    .done = oidc_take_discovery,
                                    .arg = o};
    exec_timer_stop(o->exec, &o->timer);
    o->fetching = true;
    o->started_ns = exec_now_ns(o->exec);
    (void)https_start(o->issuer, &q);
}

bool oidc_is_fetching(const struct oidc *o)
{
    return o && o->fetching;
}

bool oidc_renew(struct oidc *o)
{
    if (!o)
        return false;
    if (!o->fetching && exec_now_ns(o->exec) - o->started_ns >= OIDC_UNKNOWN_KEY_NS)
        oidc_fetch(o);
    return o->fetching;
}

int oidc_of_token(const struct oidc *o, struct str token, struct arena *arena,
                  struct registry_user *ret, struct err *err)
{
    if (!o || !oidc_token_is_of(token, o->rules.issuer))
        return err_set(err, ERR_INVALID, "the token is not known");
    int64_t now = exec_wall_ns(o->exec) / CLOCK_NS_PER_SEC;
    return oidc_token_read(token, &o->rules, o->keys, now, arena, ret, err);
}

int oidc_new(const struct oidc_options *options, struct oidc **ret, struct err *err)
{
    struct oidc *o = xcalloc(1, sizeof(*o));
    o->loop = options->loop;
    o->exec = loop_exec(options->loop);
    o->pause_ns = OIDC_PAUSE_FIRST_NS;
    o->ca_pem = xstrndup(options->ca_pem.n ? options->ca_pem.p : "", options->ca_pem.n);
    o->timer = (struct exec_timer){.fn = oidc_fetch, .arg = o};
    int r = oidc_rules_make(options, &o->arena, &o->rules, err);
    if (r == 0)
        r = oidc_make_client(o, o->rules.issuer, &o->issuer, err);
    if (r < 0) {
        oidc_free(o);
        return r;
    }
    oidc_fetch(o);
    *ret = o;
    return 0;
}

void oidc_free(struct oidc *o)
{
    if (!o)
        return;
    exec_timer_stop(o->exec, &o->timer);
    if (o->other)
        https_free(o->other);
    if (o->issuer)
        https_free(o->issuer);
    jwk_set_free(o->keys);
    arena_done(&o->arena);
    free(o->ca_pem);
    free(o);
}
