// SPDX-License-Identifier: Apache-2.0
//
// dray join: this machine as a node of a cluster that runs elsewhere.
#include "node/join.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/run/agent_run.h"
#include "cmd/run/logging.h"
#include "cmd/run/sim_driver.h"
#include "cmd/verb.h"
#include "net/address.h"
#include "node/identity.h"

#include "base/banned.h"

static struct {
    struct cli_texts words;
    const char *token, *token_file, *ca_hash, *sim;
    int64_t timeout_ns, lifetime_ns, renew_after_ns;
    bool only;
} args = {.timeout_ns = 120 * CLOCK_NS_PER_SEC};

static int verb_join(void);

static const struct cli_option join_options[] = {
    {"--token", NULL, "TOKEN",
     "authenticate with this token: ID.SECRET, from 'dray token create' on the other machine",
     .text = &args.token},
    {"--token-file", NULL, "FILE",
     "read the token from a file, which keeps it out of the process list",
     .text = &args.token_file},
    {"--ca-hash", NULL, "sha256:HEX", "send the token only to the server whose CA has this hash",
     .text = &args.ca_hash},
    {"--timeout", NULL, "TIME", "stop trying after this time; default 2m",
     .duration_ns = &args.timeout_ns},
    {"--certificate-lifetime", NULL, "TIME",
     "request certificates for this time, at least 10m; default one year",
     .duration_ns = &args.lifetime_ns, .least = 600 * CLOCK_NS_PER_SEC},
    {"--renew-after", NULL, "TIME",
     "renew certificates after this time; default after 70 to 90 % of their lifetime",
     .duration_ns = &args.renew_after_ns},
    {"--only", NULL, NULL, "get the certificate and exit; the next 'dray join' runs the node",
     .flag = &args.only},
    {"--sim", NULL, "PROFILES", "simulate devices of these profiles, as 'dray up --sim' does",
     .text = &args.sim},
};
static const struct cli_group join_group = CLI_GROUP("Options", join_options);

const struct cli_verb join_verb = {
    .name = "join",
    .summary = "join this machine to a cluster as a node",
    .chapter = CLI_CLUSTER,
    .synopsis = "join ADDRESS --token TOKEN --ca-hash sha256:HEX [OPTIONS]\njoin [OPTIONS]",
    .text = "Makes this machine a node of the cluster at ADDRESS (HOST:PORT) and runs it, as 'dray "
            "agent' does. Needs root, and "
            "crun or runc. The token is sent only to the server whose CA has the given hash. Later "
            "starts use the files in "
            "--data-dir and need no token. 'dray token create --print-join-command' on the other "
            "machine prints the command.",
    .examples = "dray join 10.0.0.1:6443 --token abcdef.0123456789abcdef --ca-hash sha256:…\n"
                "dray join 10.0.0.1:6443 --token … --ca-hash … --sim example-gpu\n"
                "dray join                     # again, after a reboot",
    .groups = {&join_group, &agent_node_group, &agent_machine_group, &logging_group},
    .words = &args.words,
    .words_most = 1,
    .check = agent_check,
    .run = verb_join,
};

static void join_print_line(void *arg, const char *line)
{
    (void)arg;
    printf("%s\n", line);
    (void)fflush(stdout);
}

// --- Becoming a node -----------------------------------------------------------------------------

static int read_token(struct sbuf *out, struct err *err)
{
    if (args.token_file && !args.token) {
        cleanup_sbuf struct sbuf text = {0};
        int r = kubeconfig_read_file(args.token_file, &text, err);
        sbuf_add(out, str_trim(sbuf_str(&text)));
        return r;
    }
    sbuf_addz(out, args.token ? args.token : "");
    return 0;
}

static int join_cluster(const char *name, struct err *err)
{
    cleanup_sbuf struct sbuf token = {0};
    int r = read_token(&token, err);
    const struct join_options o = {.address = str_z(args.words.p[0]),
                                   .token = sbuf_str(&token),
                                   .ca_hash = str_z(args.ca_hash),
                                   .node = name,
                                   .data_dir = agent_args.data_dir,
                                   .lifetime_s = args.lifetime_ns / CLOCK_NS_PER_SEC,
                                   .timeout_ns = args.timeout_ns,
                                   .say = join_print_line};
    return r < 0 ? r : join_run(&o, err);
}

// same_address: an earlier join was to the server that is named now, or none is named.
static bool same_address(const struct join_state *state)
{
    struct str url = sbuf_str(&state->server);
    return !args.words.n || str_eqz(str_from(url, STR("https://").n), args.words.p[0]);
}

// join_store_state joins, unless that has been done before.
static int join_store_state(struct join_state *state, const char *machine, struct err *err)
{
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    int r = join_read_state(agent_args.data_dir, now, state, err);
    if (r < 0)
        return r;
    bool before = state->joined || state->expired;
    if (before && agent_args.node && !str_eqz(sbuf_str(&state->node), agent_args.node))
        return err_set(err, ERR_CONFLICT,
                       "this machine has joined as %s: leave --node-name out, or use another "
                       "--data-dir",
                       state->node.p);
    if (before && !same_address(state))
        return err_set(
            err, ERR_CONFLICT,
            "this machine has joined %s: leave the address out, or use another --data-dir",
            state->server.p);
    if (state->joined) {
        printf("continuing as the node %s of %s\n", state->node.p, state->server.p);
        return 0;
    }
    if (!args.words.n)
        return err_set(err, ERR_INVALID,
                       state->expired
                           ? "the certificate in %s is over: join again, with the address "
                             "and a new token"
                           : "no earlier join is recorded in %s: name the address, "
                             "--token and --ca-hash",
                       agent_args.data_dir);
    const char *name = before ? state->node.p : agent_args.node ? agent_args.node : machine;
    printf("joining %s as the node %s\n", args.words.p[0], name);
    (void)fflush(stdout);
    r = join_cluster(name, err);
    join_state_done(state);
    *state = (struct join_state){0};
    return r < 0 ? r : join_read_state(agent_args.data_dir, now, state, err);
}

// --- Being one -----------------------------------------------------------------------------------

struct staying {
    struct join_state state;
    struct sbuf pki, serving, ca, cdi;
    char node_ip[ADDRESS_BYTES];
    char machine[256];
    const char *names[4];
    struct agent_host host;
    struct identity *identity;
    struct sim_driver_keeper *driver; // NULL: none
};

static void on_renewed(void *arg, bool serving)
{
    struct staying *s = arg;
    struct err err = {0};
    if (serving && s->host.tls && tls_server_reload(s->host.tls, &err) < 0)
        (void)fprintf(stderr, "dray join: the endpoint's new certificate: %s\n", err.msg);
}

static void join_verb_on_registered(void *arg, const struct agent_host *host)
{
    struct staying *s = arg;
    s->host = *host;
    const struct identity_options o = {.client = host->client,
                                       .folder = s->pki.p,
                                       .node = s->state.node.p,
                                       .names = s->names,
                                       .lifetime_s = args.lifetime_ns / CLOCK_NS_PER_SEC,
                                       .renew_after_s = args.renew_after_ns / CLOCK_NS_PER_SEC,
                                       .say = join_print_line,
                                       .renewed = on_renewed,
                                       .arg = s};
    s->identity = identity_new(&o);
    const struct sim_driver d = {.verb = "join",
                                 .profiles = args.sim,
                                 .node = s->state.node.p,
                                 .kubeconfig = s->state.kubeconfig.p,
                                 .data_dir = agent_args.data_dir,
                                 .as_node = true};
    if (args.sim)
        s->driver = sim_driver_keep(loop_exec(host->loop), &d); // its slices belong to the Node
}

static void on_stop(void *arg)
{
    struct staying *s = arg;
    identity_free(take_ptr(s->identity));
    sim_driver_drop(take_ptr(s->driver));
}

// find_address is that from which the server is reached.
static int find_address(struct staying *s, struct err *err)
{
    struct str url = sbuf_str(&s->state.server), host, port;
    cleanup_sbuf struct sbuf text = {0};
    if (agent_args.node_ip)
        return 0;
    if (!address_split(str_from(url, STR("https://").n), &host, &port))
        return err_set(err, ERR_INVALID, "%s is not an address of a server", s->state.server.p);
    sbuf_add(&text, host);
    int r = address_towards(text.p, port.p, s->node_ip, err);
    agent_args.node_ip = s->node_ip;
    return r < 0 ? err_wrap(err, "this node's address (--node-ip)") : 0;
}

static int join_prepare_agent(struct staying *s, struct err *err)
{
    int r = find_address(s, err);
    if (r < 0)
        return r;
    sbuf_addf(&s->pki, "%s/pki", agent_args.data_dir);
    sbuf_addf(&s->serving, "%s/" IDENTITY_SERVING, s->pki.p);
    sbuf_addf(&s->ca, "%s/" IDENTITY_CA, s->pki.p);
    sbuf_addf(&s->cdi, "%s/cdi", agent_args.data_dir);
    if (agent_args.cdi_dirs.n == 0) {
        vec_push(&agent_args.cdi_dirs, "/etc/cdi");
        vec_push(&agent_args.cdi_dirs, "/var/run/cdi");
        vec_push(&agent_args.cdi_dirs, s->cdi.p);
    }
    agent_args.kubeconfig = s->state.kubeconfig.p;
    agent_args.node = s->state.node.p;
    agent_args.certificate = agent_args.key = s->serving.p;
    agent_args.client_ca = s->ca.p;
    s->names[0] = s->state.node.p;
    s->names[1] = agent_args.node_ip;
    return identity_placeholder(s->pki.p, s->state.node.p,
                                clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC, err);
}

static int verb_join(void)
{
    struct staying s = {0};
    struct err err = {0};
    if (!agent_args.data_dir)
        agent_args.data_dir = "/var/lib/dray-agent";
    if (geteuid() != 0) { // before the token is used up
        (void)fprintf(stderr, "dray join: a node runs containers, which needs root\n");
        return VERB_NO;
    }
    (void)gethostname(s.machine, sizeof(s.machine) - 1);
    (void)signal(SIGPIPE, SIG_IGN);
    int r = join_store_state(&s.state, s.machine, &err);
    if (r == 0 && !args.only)
        r = join_prepare_agent(&s, &err);
    const struct agent_guest guest = {
        .registered = join_verb_on_registered, .stop = on_stop, .arg = &s};
    int code = r < 0       ? common_fail("join", &err)
               : args.only ? VERB_OK
                           : agent_run("join", &agent_args, &guest);
    join_state_done(&s.state);
    sbuf_done(&s.pki);
    sbuf_done(&s.serving);
    sbuf_done(&s.ca);
    sbuf_done(&s.cdi);
    return code;
}
