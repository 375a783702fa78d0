// SPDX-License-Identifier: Apache-2.0
#include "node/join.h"

#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "api/api.h"
#include "base/log.h"
#include "client/cluster_info.h"
#include "client/kubeconfig.h"
#include "client/remote.h"
#include "net/address.h"
#include "net/https.h"
#include "node/identity.h"
#include "os/file.h"
#include "pki/csr.h"

#include "base/banned.h"

#define PIN_PREFIX   "sha256:"
#define TRY_AGAIN_NS (500 * CLOCK_NS_PER_MS)
#define UNSIGNED_NS  (5 * CLOCK_NS_PER_SEC) // the signer may not have come to a new token yet
#define SKEW_MOST_S  240                    // certificates begin five minutes ago
#define CONNECT_MS   5000

struct joining {
    const struct join_options *options;
    struct bootstrap_token token;
    struct str pin;
    struct sbuf url, pki;
    struct arena arena;
    struct cluster_info info;
    struct loop *loop;
    struct client *client; // with the token, checked by the CA
    int64_t give_up_ns;
    // Of the call that is waited for.
    int code;
    struct err err;
    struct sbuf body;
    int64_t date_s;
    bool waited_said;
};

static void say(const struct joining *j, const char *line)
{
    if (j->options->say)
        j->options->say(j->options->arg, line);
}

static int64_t wall_s(void)
{
    return clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
}

// --- What was typed ------------------------------------------------------------------------------

static bool is_hex(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    return true;
}

// join_check says whether what was typed can be meant. Returns 0 or -ERR_INVALID with what to do.
static int join_check(const struct join_options *o, struct err *err)
{
    struct bootstrap_token token;
    struct str host, port, pin = str_from(o->ca_hash, sizeof(PIN_PREFIX) - 1);
    if (!address_split(o->address, &host, &port))
        return err_set(err, ERR_INVALID, "the address is HOST:PORT, such as 10.0.0.1:6443");
    if (!bootstrap_token_parse(o->token, &token))
        return err_set(
            err, ERR_INVALID,
            "--token is ID.SECRET, six and sixteen of a-z and 0-9: 'dray token create' on "
            "the other machine makes one");
    if (!str_starts(o->ca_hash, STR(PIN_PREFIX)) || pin.n != CSR_PIN_BYTES - 1 || !is_hex(pin))
        return err_set(err, ERR_INVALID,
                       "--ca-hash is sha256: and 64 digits of 0-9 and a-f: 'dray token create "
                       "--print-join-command' on the other machine tells it");
    return 0;
}

// --- Waiting -------------------------------------------------------------------------------------

static void on_pause_over(void *arg)
{
    loop_stop(((struct joining *)arg)->loop);
}

// pause_a_while lets time go by; false: there is no more.
static bool pause_a_while(struct joining *j, int64_t until_ns)
{
    struct exec *exec = loop_exec(j->loop);
    struct exec_timer timer = {.fn = on_pause_over, .arg = j};
    if (exec_now_ns(exec) + TRY_AGAIN_NS >= until_ns)
        return false;
    exec_timer_start(exec, &timer, TRY_AGAIN_NS);
    loop_run(j->loop);
    return true;
}

// --- Discovery -----------------------------------------------------------------------------------

static void on_info(void *arg, const struct https_answer *a)
{
    struct joining *j = arg;
    j->code = a->code;
    if (a->code < 0)
        j->err = *a->err;
    else
        j->code = client_remote_status(a->status, a->body, &j->err);
    sbuf_clear(&j->body);
    sbuf_add(&j->body, a->body);
    j->date_s = a->date_seconds;
    loop_stop(j->loop);
}

// fetch_info asks for cluster-info without credentials, and without knowing yet whom it asks.
static int fetch_info(struct joining *j, struct err *err)
{
    struct https *h = NULL;
    const struct https_options o = {.url = sbuf_str(&j->url),
                                    .insecure = true,
                                    .connect_timeout_ms = CONNECT_MS,
                                    .body_bytes = (size_t)1024 * 1024,
                                    .user_agent = STR("dray-join")};
    const struct https_request q = {.method = "GET",
                                    .target = STR(CLUSTER_INFO_PATH),
                                    .accept = STR("application/json"),
                                    .timeout_ms = 2 * CONNECT_MS,
                                    .done = on_info,
                                    .arg = j};
    int code = https_new(j->loop, &o, &h, err);
    if (code < 0)
        return code;
    j->err = (struct err){0};
    (void)https_start(h, &q);
    loop_run(j->loop);
    https_free(h);
    *err = j->err;
    return j->code;
}

static int check_clock(const struct joining *j, struct err *err)
{
    int64_t ahead = j->date_s ? wall_s() - j->date_s : 0;
    if (ahead <= SKEW_MOST_S && ahead >= -SKEW_MOST_S)
        return 0;
    return err_set(
        err, ERR_INVALID,
        "this machine's clock is %lld seconds %s the server's: certificates would not be "
        "good yet, or not any more. Set the clocks by NTP",
        (long long)(ahead > 0 ? ahead : -ahead), ahead > 0 ? "ahead of" : "behind");
}

static int explain_info(struct joining *j, int code, struct err *err)
{
    if (code == -ERR_UNAUTHORIZED || code == -ERR_FORBIDDEN || code == -ERR_NOT_FOUND)
        return err_set(
            err, ERR_UNAVAILABLE,
            "the server at %.*s shows no cluster-info: it is not a 'dray up' that can be "
            "joined",
            STR_ARG(j->options->address));
    return err_set(
        err, ERR_UNAVAILABLE,
        "nobody answers at %.*s (%s): is the address right, does 'dray up' listen there, "
        "may this machine get there?",
        STR_ARG(j->options->address), j->err.msg);
}

// discover ends with a CA that the hash names and a text that the token has signed.
static int discover(struct joining *j, struct err *err)
{
    int64_t unsigned_until = exec_now_ns(loop_exec(j->loop)) + UNSIGNED_NS;
    if (unsigned_until > j->give_up_ns)
        unsigned_until = j->give_up_ns;
    for (;;) {
        int code = fetch_info(j, err);
        bool unanswered = code == -ERR_UNAVAILABLE || code == -ERR_TIMEOUT;
        if (code == 0) {
            code = check_clock(j, err);
            if (code == 0)
                code = cluster_info_check(sbuf_str(&j->body), &j->token, j->pin, &j->arena,
                                          &j->info, err);
            if (code != -ERR_NOT_FOUND || !pause_a_while(j, unsigned_until))
                return code;
            continue;
        }
        if (unanswered && !j->waited_said)
            say(j, "the server does not answer yet, trying again");
        j->waited_said = true;
        if (!unanswered || !pause_a_while(j, j->give_up_ns))
            return explain_info(j, code, err);
    }
}

// --- The certificate -----------------------------------------------------------------------------

static void on_node(void *arg, const struct client_answer *a)
{
    struct joining *j = arg;
    j->code = a->code;
    if (a->code < 0)
        j->err = *a->err;
    const struct api_node *node = a->code == 0 ? a->object->object.value : NULL;
    for (size_t i = 0; node && i < node->status.conditions.n; i++)
        if (str_eqz(node->status.conditions.p[i].type, "Ready") &&
            str_eqz(node->status.conditions.p[i].status, "True"))
            j->code = err_set(&j->err, ERR_CONFLICT,
                              "the cluster has a living node %s: choose another --node-name, or "
                              "stop that one and 'kubectl delete node %s' first",
                              j->options->node, j->options->node);
    loop_stop(j->loop);
}

static int explain_call(struct joining *j, struct err *err)
{
    *err = j->err;
    if (j->code == -ERR_UNAUTHORIZED)
        return err_set(err, ERR_UNAUTHORIZED, "the server does not take the token %.*s (any more)",
                       STR_ARG(j->token.id));
    if (j->code == -ERR_FORBIDDEN)
        return err_wrap(err, "the token may not be used to join");
    if (str_contains(str_z(j->err.msg), STR("subject name")) ||
        str_contains(str_z(j->err.msg), STR("not match")))
        return err_set(err, ERR_INVALID,
                       "the server's certificate is not for %.*s: join by an address it knows, or "
                       "start it with 'dray up --advertise-address HOST'",
                       STR_ARG(j->options->address));
    return j->code;
}

// check_name asks, now with the token and checked, whether the name is free.
static int check_name(struct joining *j, struct err *err)
{
    const struct client_key key = {.kind = api_kind_find(STR("v1"), STR("Node")),
                                   .name = str_z(j->options->node)};
    client_get(j->client, &key, on_node, j);
    loop_run(j->loop);
    return j->code == 0 || j->code == -ERR_NOT_FOUND ? 0 : explain_call(j, err);
}

static void on_certificate(void *arg, int code, const struct err *err, struct str pem)
{
    struct joining *j = arg;
    j->code = code;
    if (code < 0)
        j->err = *err;
    sbuf_clear(&j->body);
    sbuf_add(&j->body, pem);
    loop_stop(j->loop);
}

static int get_certificate(struct joining *j, struct err *err)
{
    const struct kubeconfig_target target = {.server = sbuf_str(&j->url),
                                             .ca_pem = j->info.ca_pem,
                                             .token = j->options->token,
                                             .namespace = STR("default")};
    const struct client_remote_options o = {.target = &target, .user_agent = STR("dray-join")};
    int code = client_remote_new(j->loop, &o, &j->client, err);
    if (code == 0)
        code = check_name(j, err);
    if (code < 0)
        return code;
    say(j, "asking for a certificate");
    const struct identity_wish wish = {.client = j->client,
                                       .node = j->options->node,
                                       .lifetime_s = j->options->lifetime_s,
                                       .timeout_ns =
                                           j->give_up_ns - exec_now_ns(loop_exec(j->loop)),
                                       .done = on_certificate,
                                       .arg = j};
    if (identity_ask(&wish))
        loop_run(j->loop);
    return j->code < 0 ? explain_call(j, err) : 0;
}

// --- Files ---------------------------------------------------------------------------------------

static void write_kubeconfig(const struct joining *j, struct sbuf *out)
{
    sbuf_addf(out,
              "apiVersion: v1\nkind: Config\ncurrent-context: node\ncontexts:\n- name: node\n"
              "  context:\n    cluster: cluster\n    user: node\nclusters:\n- name: cluster\n"
              "  cluster:\n    server: %s\n    certificate-authority: pki/" IDENTITY_CA "\n",
              j->url.p);
    sbuf_addz(out, "users:\n- name: node\n  user:\n"
                   "    client-certificate: pki/" IDENTITY_CLIENT "\n"
                   "    client-key: pki/" IDENTITY_CLIENT "\n");
}

// The kubeconfig last: with it the machine has joined.
static int save(struct joining *j, struct err *err)
{
    cleanup_sbuf struct sbuf ca = {0}, client = {0}, config = {0}, text = {0};
    sbuf_addf(&ca, "%s/" IDENTITY_CA, j->pki.p);
    sbuf_addf(&client, "%s/" IDENTITY_CLIENT, j->pki.p);
    sbuf_addf(&config, "%s/node.kubeconfig", j->options->data_dir);
    write_kubeconfig(j, &text);
    int code = file_replace_durable(AT_FDCWD, ca.p, str_z(j->info.ca_pem.p), 0600, err);
    if (code == 0)
        code = file_replace_durable(AT_FDCWD, client.p, str_z(j->body.p), 0600, err);
    return code < 0 ? code : file_replace_durable(AT_FDCWD, config.p, sbuf_str(&text), 0600, err);
}

static int make_folders(struct joining *j, struct err *err)
{
    sbuf_addf(&j->pki, "%s/pki", j->options->data_dir);
    if (mkdir(j->options->data_dir, 0755) < 0 && errno != EEXIST)
        return err_set(err, errno, "cannot make the folder %s: %m", j->options->data_dir);
    if (mkdir(j->pki.p, 0700) < 0 && errno != EEXIST)
        return err_set(err, errno, "cannot make the folder %s: %m", j->pki.p);
    file_remove_temporaries(j->pki.p, STR(""));
    return 0;
}

static void on_settled(void *arg)
{
    loop_stop(((struct joining *)arg)->loop);
}

static void joining_done(struct joining *j)
{
    if (j->client)
        client_free(j->client);
    if (j->loop) {
        exec_post(loop_exec(j->loop), on_settled, j);
        loop_run(j->loop); // what was cancelled is answered
    }
    loop_free(j->loop);
    if (j->body.p)
        explicit_bzero(j->body.p, j->body.n);
    sbuf_done(&j->body);
    sbuf_done(&j->url);
    sbuf_done(&j->pki);
    arena_done(&j->arena);
}

int join_run(const struct join_options *options, struct err *err)
{
    struct joining j = {.options = options,
                        .pin = str_from(options->ca_hash, sizeof(PIN_PREFIX) - 1)};
    int code = join_check(options, err);
    if (code < 0)
        return code;
    (void)bootstrap_token_parse(options->token, &j.token);
    sbuf_addf(&j.url, "https://%.*s", STR_ARG(options->address));
    code = make_folders(&j, err);
    if (code == 0)
        code = loop_new(&j.loop, err);
    if (code == 0) {
        j.give_up_ns = exec_now_ns(loop_exec(j.loop)) + options->timeout_ns;
        code = discover(&j, err);
    }
    if (code == 0)
        code = get_certificate(&j, err);
    if (code == 0)
        code = save(&j, err);
    joining_done(&j);
    return code;
}

// --- What an earlier one has left ----------------------------------------------------------------

int join_look(const char *data_dir, int64_t now_s, struct join_state *ret, struct err *err)
{
    static const struct str prefix = STR_INIT("system:node:");
    cleanup_kubeconfig struct kubeconfig k = {0};
    struct kubeconfig_target target = {0};
    int64_t from = 0, until = 0;
    sbuf_addf(&ret->kubeconfig, "%s/node.kubeconfig", data_dir);
    if (access(ret->kubeconfig.p, F_OK) < 0)
        return 0;
    int code = kubeconfig_find(&k, ret->kubeconfig.p, NULL, &target, err);
    if (code == 0)
        code = csr_common_name(target.certificate_pem, &ret->node, err);
    if (code == 0)
        code = csr_certificate_times(target.certificate_pem, &from, &until, err);
    if (code == 0 && !str_starts(sbuf_str(&ret->node), prefix))
        code = err_set(err, ERR_INVALID, "its certificate is not a node's");
    if (code < 0)
        return err_set(
            err, ERR_INVALID,
            "what an earlier join left in %s cannot be used (%s): remove %s to join anew", data_dir,
            err->msg, ret->kubeconfig.p);
    struct sbuf name = {0};
    sbuf_add(&name, str_from(sbuf_str(&ret->node), prefix.n));
    sbuf_done(&ret->node);
    ret->node = name;
    sbuf_add(&ret->server, target.server);
    ret->joined = until > now_s;
    ret->expired = !ret->joined;
    return 0;
}

void join_state_done(struct join_state *s)
{
    sbuf_done(&s->node);
    sbuf_done(&s->server);
    sbuf_done(&s->kubeconfig);
}
