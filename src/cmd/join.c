// SPDX-License-Identifier: Apache-2.0
//
// dray join: this machine as a node of a cluster that runs elsewhere.
#include "agent/join.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/identity.h"
#include "cmd/agent_run.h"
#include "cmd/common.h"
#include "cmd/grammar.h"
#include "cmd/sim_driver.h"
#include "cmd/verb.h"
#include "net/address.h"

#include "base/banned.h"

static struct {
    struct option_texts words;
    const char *token, *token_file, *ca_hash, *sim;
    int64_t timeout_ns, lifetime_ns, renew_after_ns;
    struct agent_args agent;
    bool only;
} args = {.timeout_ns = 120 * CLOCK_NS_PER_SEC, .agent = {.data_dir = "/var/lib/dray-agent"}};

static const struct option join_options[] = {
    {.name = "--token",
     .value_name = "TOKEN",
     .text = &args.token,
     .help = "ID.SECRET, from 'dray token create' on the other machine"},
    {.name = "--token-file",
     .value_name = "FILE",
     .text = &args.token_file,
     .help = "instead: the file that holds it, so that it is not among the processes' arguments"},
    {.name = "--ca-hash",
     .value_name = "sha256:HEX",
     .text = &args.ca_hash,
     .help = "of the cluster's CA: nobody else gets the token"},
    {.name = "--timeout",
     .value_name = "TIME",
     .duration_ns = &args.timeout_ns,
     .help = "how long to try; default 2m"},
    {.name = "--certificate-lifetime",
     .value_name = "TIME",
     .duration_ns = &args.lifetime_ns,
     .help = "of the certificates that are asked for; 10m at least; default a year"},
    {.name = "--renew-after",
     .value_name = "TIME",
     .duration_ns = &args.renew_after_ns,
     .help = "renew them this long after they were made; default at 70 to 90 % of their time"},
    {.name = "--only",
     .flag = &args.only,
     .value = true,
     .help = "get the certificate and end; the next 'dray join' runs the node"},
};

static const struct option node_options[] = {
    {.name = "--node-name",
     .value_name = "NAME",
     .text = &args.agent.node,
     .help = "default this machine's name"},
    {.name = "--node-ip",
     .value_name = "ADDRESS",
     .text = &args.agent.node_ip,
     .help = "how others reach it; default the one it reaches the server from"},
    {.name = "--data-dir",
     .value_name = "DIR",
     .text = &args.agent.data_dir,
     .help = "default /var/lib/dray-agent"},
    {.name = "--sim",
     .value_name = "PROFILES",
     .text = &args.sim,
     .help = "simulated devices of these profiles, as 'dray up --sim'"},
    {.name = "--listen",
     .value_name = "HOST:PORT",
     .text = &args.agent.listen,
     .help = "the endpoint for logs and commands; default 0.0.0.0:10250; 'none'"},
    {.name = "--image-dir",
     .value_name = "DIR",
     .text = &args.agent.image_dir,
     .help = "local images"},
    {.name = "--runtime",
     .value_name = "PROGRAM",
     .text = &args.agent.runtime,
     .help = "crun or runc; default what is found"},
    {.name = "--monitor", .value_name = "PROGRAM", .text = &args.agent.monitor},
    {.name = "--device-plugins",
     .value_name = "DIR",
     .text = &args.agent.device_plugins,
     .help = "where device plugins register"},
    {.name = "--cdi-dir",
     .value_name = "DIR",
     .many = &args.agent.cdi_dirs,
     .help = "where CDI specs are; default /etc/cdi, /var/run/cdi and DIR/cdi"},
    {.name = "--pod-subnet",
     .value_name = "CIDR",
     .text = &args.agent.subnet,
     .help = "addresses of pods; default 10.199.0.0/16"},
    {.name = "--bridge", .value_name = "NAME", .text = &args.agent.bridge, .help = "default dray0"},
    {.name = "--cgroup", .value_name = "NAME", .text = &args.agent.cgroup, .help = "default dray"},
    {.name = "--labels",
     .value_name = "A=B,C=D",
     .text = &args.agent.labels,
     .help = "of the Node"},
    {.name = "--taints",
     .value_name = "KEY=VALUE:EFFECT",
     .text = &args.agent.taints,
     .help = "of the Node, when it is made"},
    {.name = "--max-pods",
     .value_name = "N",
     .number = &args.agent.max_pods,
     .least = 1,
     .help = "default 110"},
    {.name = "--image-gc-high-threshold",
     .value_name = "PERCENT",
     .number = &args.agent.image_high,
     .least = 1,
     .help = "of the disk, from which on images that nobody uses go; default 85"},
    {.name = "--image-gc-low-threshold",
     .value_name = "PERCENT",
     .number = &args.agent.image_low,
     .least = 1,
     .help = "until which they go; default 80"},
    {.name = "--keep-slices",
     .flag = &args.agent.keep_slices,
     .value = true,
     .help = "leave ResourceSlices of drivers that are gone"},
};

static const struct option_group joining = OPTION_GROUP("Joining", join_options);
static const struct option_group node = OPTION_GROUP("The node", node_options);

const struct grammar join_grammar = {
    .synopsis = "join ADDRESS --token TOKEN --ca-hash sha256:HEX [--node-name NAME]\n"
                "join [--data-dir DIR]",
    .text = "Makes this machine a node of the cluster at ADDRESS (HOST:PORT) and runs it, as 'dray "
            "agent' does. Needs\n"
            "root, and crun or runc. The token goes to nobody but the server whose CA has that "
            "hash. The second\n"
            "time the files in --data-dir are enough: no token is needed. 'dray token create "
            "--print-join-command'\n"
            "on the other machine prints the whole command.",
    .examples = "dray join 10.0.0.1:6443 --token abcdef.0123456789abcdef --ca-hash sha256:…\n"
                "dray join 10.0.0.1:6443 --token … --ca-hash … --sim example-gpu\n"
                "dray join                     # again, after a reboot",
    .groups = {&joining, &node},
    .words = &args.words,
};

static void say(void *arg, const char *line)
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

static int join(const char *name, struct err *err)
{
    cleanup_sbuf struct sbuf token = {0};
    int r = read_token(&token, err);
    const struct join_options o = {.address = str_z(args.words.p[0]),
                                   .token = sbuf_str(&token),
                                   .ca_hash = str_z(args.ca_hash),
                                   .node = name,
                                   .data_dir = args.agent.data_dir,
                                   .lifetime_s = args.lifetime_ns / CLOCK_NS_PER_SEC,
                                   .timeout_ns = args.timeout_ns,
                                   .say = say};
    return r < 0 ? r : join_run(&o, err);
}

// same_address: an earlier join was to the server that is named now, or none is named.
static bool same_address(const struct join_state *state)
{
    struct str url = sbuf_str(&state->server);
    return !args.words.n || str_eqz(str_from(url, STR("https://").n), args.words.p[0]);
}

// settle joins, unless that has been done before.
static int settle(struct join_state *state, const char *machine, struct err *err)
{
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    int r = join_look(args.agent.data_dir, now, state, err);
    if (r < 0)
        return r;
    bool before = state->joined || state->expired;
    if (before && args.agent.node && !str_eqz(sbuf_str(&state->node), args.agent.node))
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
                           : "nothing in %s tells of an earlier join: name the address, "
                             "--token and --ca-hash",
                       args.agent.data_dir);
    const char *name = before ? state->node.p : args.agent.node ? args.agent.node : machine;
    printf("joining %s as the node %s\n", args.words.p[0], name);
    (void)fflush(stdout);
    r = join(name, err);
    join_state_done(state);
    *state = (struct join_state){0};
    return r < 0 ? r : join_look(args.agent.data_dir, now, state, err);
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
    pid_t driver;
};

static void on_renewed(void *arg, bool serving)
{
    struct staying *s = arg;
    struct err err = {0};
    if (serving && s->host.tls && tls_server_reload(s->host.tls, &err) < 0)
        (void)fprintf(stderr, "dray join: the endpoint's new certificate: %s\n", err.msg);
}

static void on_registered(void *arg, const struct agent_host *host)
{
    struct staying *s = arg;
    s->host = *host;
    const struct identity_options o = {.client = host->client,
                                       .folder = s->pki.p,
                                       .node = s->state.node.p,
                                       .names = s->names,
                                       .lifetime_s = args.lifetime_ns / CLOCK_NS_PER_SEC,
                                       .renew_after_s = args.renew_after_ns / CLOCK_NS_PER_SEC,
                                       .say = say,
                                       .renewed = on_renewed,
                                       .arg = s};
    s->identity = identity_new(&o);
    const struct sim_driver d = {.verb = "join",
                                 .profiles = args.sim,
                                 .node = s->state.node.p,
                                 .kubeconfig = s->state.kubeconfig.p,
                                 .data_dir = args.agent.data_dir,
                                 .as_node = true};
    if (args.sim)
        s->driver = sim_driver_start(&d); // its slices belong to the Node
}

static void on_stop(void *arg)
{
    struct staying *s = arg;
    identity_free(take_ptr(s->identity));
    sim_driver_stop(s->driver);
    s->driver = 0;
}

// find_address is that from which the server is reached.
static int find_address(struct staying *s, struct err *err)
{
    struct str url = sbuf_str(&s->state.server), host, port;
    cleanup_sbuf struct sbuf text = {0};
    if (args.agent.node_ip)
        return 0;
    if (!address_split(str_from(url, STR("https://").n), &host, &port))
        return err_set(err, ERR_INVALID, "%s is not an address of a server", s->state.server.p);
    sbuf_add(&text, host);
    int r = address_towards(text.p, port.p, s->node_ip, err);
    args.agent.node_ip = s->node_ip;
    return r < 0 ? err_wrap(err, "this node's address (--node-ip)") : 0;
}

static int prepare(struct staying *s, struct err *err)
{
    int r = find_address(s, err);
    if (r < 0)
        return r;
    sbuf_addf(&s->pki, "%s/pki", args.agent.data_dir);
    sbuf_addf(&s->serving, "%s/" IDENTITY_SERVING, s->pki.p);
    sbuf_addf(&s->ca, "%s/" IDENTITY_CA, s->pki.p);
    sbuf_addf(&s->cdi, "%s/cdi", args.agent.data_dir);
    if (args.agent.cdi_dirs.n == 0) {
        vec_push(&args.agent.cdi_dirs, "/etc/cdi");
        vec_push(&args.agent.cdi_dirs, "/var/run/cdi");
        vec_push(&args.agent.cdi_dirs, s->cdi.p);
    }
    args.agent.kubeconfig = s->state.kubeconfig.p;
    args.agent.node = s->state.node.p;
    args.agent.certificate = args.agent.key = s->serving.p;
    args.agent.client_ca = s->ca.p;
    s->names[0] = s->state.node.p;
    s->names[1] = args.agent.node_ip;
    return identity_placeholder(s->pki.p, s->state.node.p,
                                clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC, err);
}

int verb_join(int argc, char **argv)
{
    struct staying s = {0};
    struct err err = {0};
    int code = grammar_read("join", &join_grammar, argc, argv);
    if (code != VERB_OK)
        return code;
    if (args.words.n > 1)
        return verb_usage_error("join", "one address is enough");
    if (args.lifetime_ns && args.lifetime_ns < 600 * CLOCK_NS_PER_SEC)
        return verb_usage_error("join", "--certificate-lifetime is ten minutes at least");
    if (geteuid() != 0) { // before the token is used up
        (void)fprintf(stderr, "dray join: a node runs containers, which needs root\n");
        return VERB_NO;
    }
    (void)gethostname(s.machine, sizeof(s.machine) - 1);
    (void)signal(SIGPIPE, SIG_IGN);
    int r = settle(&s.state, s.machine, &err);
    if (r == 0 && !args.only)
        r = prepare(&s, &err);
    const struct agent_guest guest = {.registered = on_registered, .stop = on_stop, .arg = &s};
    code = r < 0       ? common_fail("join", &err)
           : args.only ? VERB_OK
                       : agent_run("join", &args.agent, &guest);
    join_state_done(&s.state);
    sbuf_done(&s.pki);
    sbuf_done(&s.serving);
    sbuf_done(&s.ca);
    sbuf_done(&s.cdi);
    vec_done(&args.agent.cdi_dirs);
    return code;
}
