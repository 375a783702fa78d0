// SPDX-License-Identifier: Apache-2.0
//
// Joining a cluster. join_steps is the whole chain in order. A step that calls the server runs the
// loop until its callback has recorded the result.
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
#include "net/tls.h"
#include "node/identity.h"
#include "os/file.h"
#include "pki/csr.h"

#include "base/banned.h"

#define PIN_PREFIX   "sha256:"
#define TRY_AGAIN_NS (500 * CLOCK_NS_PER_MS)
#define UNSIGNED_NS  (5 * CLOCK_NS_PER_SEC) // the signer may not have come to a new token yet
#define SKEW_MOST_S  240                    // certificates begin five minutes ago
#define CONNECT_MS   5000

// What a join needs and has got so far.
struct joining {
    const struct join_options *options;
    struct bootstrap_token token;
    struct str pin;
    struct sbuf url, pki;
    struct arena arena;
    struct cluster_info info;
    struct loop *loop;
    struct client *client; // authenticates by the token and verifies the CA
    int64_t give_up_ns;
    // The result of the call under way.
    int r;
    struct err err;
    struct sbuf body;
    int64_t date_s;
    bool reported_wait;
};

static void join_report(const struct joining *j, const char *line)
{
    if (j->options->say)
        j->options->say(j->options->arg, line);
}

static int64_t join_wall_s(void)
{
    return clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
}

// join_record ends the call under way.
static void join_record(struct joining *j, int r, const struct err *err)
{
    j->r = r;
    if (r < 0)
        j->err = *err;
    loop_stop(j->loop);
}

// --- Options -------------------------------------------------------------------------------------

static bool join_is_hex(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    return true;
}

// join_check checks the syntax of the options. Returns 0 or -ERR_INVALID.
static int join_check(const struct join_options *o, struct err *err)
{
    struct bootstrap_token token;
    struct str host, port, pin = str_from(o->ca_hash, sizeof(PIN_PREFIX) - 1);
    if (!address_split(o->address, &host, &port))
        return err_set(err, ERR_INVALID, "the address is HOST:PORT, such as 10.0.0.1:6443");
    if (!bootstrap_token_parse(o->token, &token))
        return err_set(
            err, ERR_INVALID,
            "--token is ID.SECRET, six and sixteen of a-z and 0-9; create one with 'dray token "
            "create' on the server's machine");
    if (!str_starts(o->ca_hash, STR(PIN_PREFIX)) || pin.n != CSR_PIN_BYTES - 1 || !join_is_hex(pin))
        return err_set(err, ERR_INVALID,
                       "--ca-hash is sha256: and 64 digits of 0-9 and a-f; 'dray token create "
                       "--print-join-command' on the server's machine prints it");
    return 0;
}

// --- Waiting -------------------------------------------------------------------------------------

static void join_stop_loop(void *arg)
{
    loop_stop(((struct joining *)arg)->loop);
}

// join_pause waits before a retry; false: it would end after until_ns.
static bool join_pause(struct joining *j, int64_t until_ns)
{
    struct exec *exec = loop_exec(j->loop);
    struct exec_timer timer = {.fn = join_stop_loop, .arg = j};
    if (exec_now_ns(exec) + TRY_AGAIN_NS >= until_ns)
        return false;
    exec_timer_start(exec, &timer, TRY_AGAIN_NS);
    loop_run(j->loop);
    return true;
}

// --- Discovery -----------------------------------------------------------------------------------

static void join_on_info(void *arg, const struct https_answer *a)
{
    struct joining *j = arg;
    struct err err = {0};
    sbuf_clear(&j->body);
    sbuf_add(&j->body, a->body);
    j->date_s = a->date_seconds;
    if (a->code < 0)
        join_record(j, a->code, a->err);
    else
        join_record(j, client_remote_status(a->status, a->body, &err), &err);
}

// join_fetch_info requests cluster-info, without credentials and from a server not verified yet.
static int join_fetch_info(struct joining *j)
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
                                    .done = join_on_info,
                                    .arg = j};
    j->r = https_new(j->loop, &o, &h, &j->err);
    if (j->r < 0)
        return j->r;
    (void)https_start(h, &q);
    loop_run(j->loop);
    https_free(h);
    return j->r;
}

static int join_check_clock(const struct joining *j, struct err *err)
{
    int64_t ahead = j->date_s ? join_wall_s() - j->date_s : 0;
    if (ahead <= SKEW_MOST_S && ahead >= -SKEW_MOST_S)
        return 0;
    return err_set(err, ERR_INVALID,
                   "this machine's clock is %lld seconds %s the server's, certificates would be "
                   "invalid; synchronize the clocks (NTP)",
                   (long long)(ahead > 0 ? ahead : -ahead), ahead > 0 ? "ahead of" : "behind");
}

static int join_explain_info(struct joining *j, struct err *err)
{
    if (j->r == -ERR_UNAUTHORIZED || j->r == -ERR_FORBIDDEN || j->r == -ERR_NOT_FOUND)
        return err_set(err, ERR_UNAVAILABLE,
                       "the server at %.*s has no cluster-info; join a cluster of 'dray up'",
                       STR_ARG(j->options->address));
    return err_set(err, ERR_UNAVAILABLE,
                   "no answer from %.*s (%s); check the address, that 'dray up' listens there, and "
                   "the route from this machine",
                   STR_ARG(j->options->address), j->err.msg);
}

// join_discover ends with a CA of the given hash and a cluster-info that the token has signed.
static int join_discover(struct joining *j, struct err *err)
{
    int64_t unsigned_until = exec_now_ns(loop_exec(j->loop)) + UNSIGNED_NS;
    if (unsigned_until > j->give_up_ns)
        unsigned_until = j->give_up_ns;
    for (;;) {
        int r = join_fetch_info(j);
        if (r == 0) {
            r = join_check_clock(j, err);
            if (r == 0)
                r = cluster_info_check(sbuf_str(&j->body), &j->token, j->pin, &j->arena, &j->info,
                                       err);
            if (r != -ERR_NOT_FOUND || !join_pause(j, unsigned_until))
                return r;
            continue;
        }
        bool unanswered = r == -ERR_UNAVAILABLE || r == -ERR_TIMEOUT;
        if (unanswered && !j->reported_wait)
            join_report(j, "the server does not answer yet, retrying");
        j->reported_wait = true;
        if (!unanswered || !join_pause(j, j->give_up_ns))
            return join_explain_info(j, err);
    }
}

// --- The certificate -----------------------------------------------------------------------------

static int join_connect(struct joining *j, struct err *err)
{
    const struct kubeconfig_target target = {.server = sbuf_str(&j->url),
                                             .ca_pem = j->info.ca_pem,
                                             .token = j->options->token,
                                             .namespace = STR("default")};
    const struct client_remote_options o = {.target = &target, .user_agent = STR("dray-join")};
    return client_remote_new(j->loop, &o, &j->client, err);
}

static int join_explain_call(struct joining *j, struct err *err)
{
    *err = j->err;
    if (j->r == -ERR_UNAUTHORIZED)
        return err_set(err, ERR_UNAUTHORIZED,
                       "the server rejects the token %.*s; create another with 'dray token create'",
                       STR_ARG(j->token.id));
    if (j->r == -ERR_FORBIDDEN)
        return err_wrap(err, "the token is not authorized to join");
    if (j->r == -TLS_WRONG_NAME)
        return err_set(err, ERR_INVALID,
                       "the server's certificate is not for %.*s; join by an address in it, or "
                       "start the server with 'dray up --advertise-address HOST'",
                       STR_ARG(j->options->address));
    return j->r;
}

static void join_on_node(void *arg, const struct client_answer *a)
{
    struct joining *j = arg;
    const struct api_node *node = a->code == 0 ? a->object->object.value : NULL;
    struct err err = {0};
    for (size_t i = 0; node && i < node->status.conditions.n; i++)
        if (str_eqz(node->status.conditions.p[i].type, "Ready") &&
            str_eqz(node->status.conditions.p[i].status, "True"))
            err_record(&err, ERR_CONFLICT,
                       "the cluster has a living node %s; choose another --node-name, or stop that "
                       "one and run 'kubectl delete node %s' first",
                       j->options->node, j->options->node);
    join_record(j, node ? -err.code : a->code, node ? &err : a->err);
}

// join_check_name checks that no living node has the name, now authenticated and verified.
static int join_check_name(struct joining *j, struct err *err)
{
    const struct client_key key = {.kind = api_kind_find(STR("v1"), STR("Node")),
                                   .name = str_z(j->options->node)};
    client_get(j->client, &key, join_on_node, j);
    loop_run(j->loop);
    return j->r == 0 || j->r == -ERR_NOT_FOUND ? 0 : join_explain_call(j, err);
}

static void join_on_certificate(void *arg, int code, const struct err *err, struct str pem)
{
    struct joining *j = arg;
    sbuf_clear(&j->body);
    sbuf_add(&j->body, pem);
    join_record(j, code, err);
}

static int join_get_certificate(struct joining *j, struct err *err)
{
    const struct identity_request_options o = {.client = j->client,
                                               .node = j->options->node,
                                               .lifetime_s = j->options->lifetime_s,
                                               .timeout_ns =
                                                   j->give_up_ns - exec_now_ns(loop_exec(j->loop)),
                                               .done = join_on_certificate,
                                               .arg = j};
    join_report(j, "requesting a certificate");
    if (identity_request_new(&o))
        loop_run(j->loop);
    return j->r < 0 ? join_explain_call(j, err) : 0;
}

// --- Files ---------------------------------------------------------------------------------------

static void join_write_kubeconfig(const struct joining *j, struct sbuf *out)
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

// The kubeconfig is written last: it marks the join as complete.
static int join_save_files(struct joining *j, struct err *err)
{
    cleanup_sbuf struct sbuf ca = {0}, client = {0}, config = {0}, text = {0};
    sbuf_addf(&ca, "%s/" IDENTITY_CA, j->pki.p);
    sbuf_addf(&client, "%s/" IDENTITY_CLIENT, j->pki.p);
    sbuf_addf(&config, "%s/node.kubeconfig", j->options->data_dir);
    join_write_kubeconfig(j, &text);
    int r = file_replace_durable(AT_FDCWD, ca.p, str_z(j->info.ca_pem.p), 0600, err);
    if (r == 0)
        r = file_replace_durable(AT_FDCWD, client.p, str_z(j->body.p), 0600, err);
    return r < 0 ? r : file_replace_durable(AT_FDCWD, config.p, sbuf_str(&text), 0600, err);
}

static int join_make_directories(struct joining *j, struct err *err)
{
    sbuf_addf(&j->pki, "%s/pki", j->options->data_dir);
    if (mkdir(j->options->data_dir, 0755) < 0 && errno != EEXIST)
        return err_set(err, errno, "cannot create the directory %s: %m", j->options->data_dir);
    if (mkdir(j->pki.p, 0700) < 0 && errno != EEXIST)
        return err_set(err, errno, "cannot create the directory %s: %m", j->pki.p);
    file_remove_temporaries(j->pki.p, STR(""));
    return 0;
}

static int join_open_loop(struct joining *j, struct err *err)
{
    int r = loop_new(&j->loop, err);
    if (r == 0)
        j->give_up_ns = exec_now_ns(loop_exec(j->loop)) + j->options->timeout_ns;
    return r;
}

// --- The chain -----------------------------------------------------------------------------------

static void join_done(struct joining *j)
{
    if (j->client)
        client_free(j->client);
    if (j->loop) {
        exec_post(loop_exec(j->loop), join_stop_loop, j);
        loop_run(j->loop); // deliver the ends of cancelled calls
    }
    loop_free(j->loop);
    if (j->body.p)
        explicit_bzero(j->body.p, j->body.n);
    sbuf_done(&j->body);
    sbuf_done(&j->url);
    sbuf_done(&j->pki);
    arena_done(&j->arena);
}

enum join_step {
    JOIN_MAKE_DIRECTORIES,
    JOIN_OPEN_LOOP,
    JOIN_DISCOVER,   // CA and cluster-info, by hash and token
    JOIN_CONNECT,    // to the verified server, with the token
    JOIN_CHECK_NAME, // of the node
    JOIN_GET_CERTIFICATE,
    JOIN_SAVE_FILES,
    JOIN_STEPS
};

static int (*const join_steps[JOIN_STEPS])(struct joining *j, struct err *err) = {
    [JOIN_MAKE_DIRECTORIES] = join_make_directories,
    [JOIN_OPEN_LOOP] = join_open_loop,
    [JOIN_DISCOVER] = join_discover,
    [JOIN_CONNECT] = join_connect,
    [JOIN_CHECK_NAME] = join_check_name,
    [JOIN_GET_CERTIFICATE] = join_get_certificate,
    [JOIN_SAVE_FILES] = join_save_files,
};

int join_run(const struct join_options *options, struct err *err)
{
    struct joining j = {.options = options,
                        .pin = str_from(options->ca_hash, sizeof(PIN_PREFIX) - 1)};
    int r = join_check(options, err);
    if (r < 0)
        return r;
    (void)bootstrap_token_parse(options->token, &j.token);
    sbuf_addf(&j.url, "https://%.*s", STR_ARG(options->address));
    for (enum join_step s = 0; r == 0 && s < JOIN_STEPS; s++)
        r = join_steps[s](&j, err);
    join_done(&j);
    return r;
}

// --- The state an earlier join left --------------------------------------------------------------

int join_read_state(const char *data_dir, int64_t now_s, struct join_state *ret, struct err *err)
{
    static const struct str prefix = STR_INIT("system:node:");
    cleanup_kubeconfig struct kubeconfig k = {0};
    struct kubeconfig_target target = {0};
    int64_t from = 0, until = 0;
    sbuf_addf(&ret->kubeconfig, "%s/node.kubeconfig", data_dir);
    if (access(ret->kubeconfig.p, F_OK) < 0)
        return 0;
    int r = kubeconfig_find(&k, ret->kubeconfig.p, NULL, &target, err);
    if (r == 0)
        r = csr_common_name(target.certificate_pem, &ret->node, err);
    if (r == 0)
        r = csr_certificate_times(target.certificate_pem, &from, &until, err);
    if (r == 0 && !str_starts(sbuf_str(&ret->node), prefix))
        r = err_set(err, ERR_INVALID, "the certificate is not a node's");
    if (r < 0)
        return err_set(
            err, ERR_INVALID,
            "the files of an earlier join in %s are unusable (%s); remove %s to join again",
            data_dir, err->msg, ret->kubeconfig.p);
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
