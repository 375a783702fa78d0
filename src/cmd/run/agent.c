// SPDX-License-Identifier: Apache-2.0
//
// dray agent: this machine as a node of a cluster, dray's or any other.
#include "node/agent.h"

#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/log.h"
#include "base/vec.h"
#include "client/kubeconfig.h"
#include "client/remote.h"
#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/run/agent_run.h"
#include "cmd/run/logging.h"
#include "cmd/run/process.h"
#include "cmd/verb.h"
#include "net/tls_follow.h"
#include "node/image_keeper.h"
#include "os/fault.h"
#include "os/file.h"
#include "pki/pki.h"

#include "base/banned.h"

struct agent_args agent_args;

static int verb_agent(void);

static const struct cli_option node_options[] = {
    {"--node-name", NULL, "NAME", "set the name of the node; default: the machine's name",
     .text = &agent_args.node},
    {"--node-ip", NULL, "ADDRESS",
     "set the address at which others reach the node; default: its first address, with join the "
     "one that reaches the server",
     .text = &agent_args.node_ip},
    {"--data-dir", NULL, "DIR",
     "keep state here; default /var/lib/dray-agent. Drivers register in DIR/plugins_registry and "
     "listen in DIR/plugins",
     .text = &agent_args.data_dir},
    {"--image-dir", NULL, "DIR",
     "read local images (OCI layouts and archives) here; default DIR/images. Others are pulled by "
     "skopeo if it is installed",
     .text = &agent_args.image_dir},
    {"--device-plugins", NULL, "DIR",
     "let device plugins register here; default /var/lib/kubelet/device-plugins, or "
     "DIR/device-plugins with another --data-dir",
     .text = &agent_args.device_plugins},
    {"--cdi-dir", NULL, "DIR",
     "read CDI specs here; repeatable; default /etc/cdi and /var/run/cdi, with join also DIR/cdi",
     .many = &agent_args.cdi_dirs},
    {"--monitor", NULL, "PROGRAM", .text = &agent_args.monitor},
    {"--listen", NULL, "HOST:PORT",
     "serve logs and commands here; default 0.0.0.0:10250; 'none': not at all",
     .text = &agent_args.listen},
    {"--keep-slices", NULL, NULL, "keep ResourceSlices of drivers that are gone",
     .flag = &agent_args.keep_slices},
};
static const struct cli_option machine_options[] = {
    {"--runtime", NULL, "PROGRAM",
     "run containers with crun or runc; default: the one that is installed",
     .text = &agent_args.runtime},
    {"--runtime-handler", NULL, "NAME=PATH[,type=crun|runc]",
     "run pods of a RuntimeClass with this handler with another program, called as crun or runc; "
     "repeatable. crun and runc are handlers where they are installed",
     .many = &agent_args.handlers},
    {"--pod-subnet", NULL, "CIDR",
     "give pods addresses of this subnet; default 10.199.0.0/16; empty: loopback only",
     .text = &agent_args.subnet},
    {"--bridge", NULL, "NAME", "name the bridge of the pods; default dray0",
     .text = &agent_args.bridge},
    {"--cgroup", NULL, "NAME", "name the parent cgroup of the pods; default dray",
     .text = &agent_args.cgroup},
    {"--labels", NULL, "A=B,C=D", "label the Node", .text = &agent_args.labels},
    {"--taints", NULL, "KEY=VALUE:EFFECT", "taint the Node when it is created",
     .text = &agent_args.taints},
    {"--max-pods", NULL, "N", "run at most this many pods; default 110",
     .number = &agent_args.max_pods, .least = 1, .most = 10000},
    {"--pod-max-pids", NULL, "N",
     "let a pod have at most this many processes; default 4096; -1: no limit",
     .number = &agent_args.pod_pids, .least = -1, .most = 4194304},
    {"--eviction-hard", NULL, "SIGNAL<AMOUNT,…",
     "evict pods at once when less than this is left; default 100Mi of memory.available, 10% of "
     "nodefs.available, 15% of imagefs.available, 5% of their inodesFree and 1000 of pid.available",
     .text = &agent_args.eviction.hard},
    {"--eviction-soft", NULL, "SIGNAL<AMOUNT,…",
     "evict pods when less than this is left for longer than the grace of the signal",
     .text = &agent_args.eviction.soft, .needs = "--eviction-soft-grace-period"},
    {"--eviction-soft-grace-period", NULL, "SIGNAL=TIME,…",
     "set the grace of soft thresholds, such as memory.available=1m30s",
     .text = &agent_args.eviction.soft_grace},
    {"--eviction-max-pod-grace-period", NULL, "SECONDS",
     "give pods evicted by a soft threshold at most this long to end; default 0",
     .number = &agent_args.eviction.pod_grace_s_max, .least = 0, .most = 86400},
    {"--eviction-minimum-reclaim", NULL, "SIGNAL=AMOUNT,…",
     "go on until this much more than the threshold is left, such as nodefs.available=500Mi",
     .text = &agent_args.eviction.reclaim},
    {"--eviction-pressure-transition-period", NULL, "TIME",
     "keep a pressure condition this long after it was last seen; default 5m",
     .text = &agent_args.eviction.transition},
    {"--image-gc-high-threshold", NULL, "PERCENT",
     "remove unused images when the disk is fuller than this; default 85",
     .number = &agent_args.image_high, .least = 1, .most = 100},
    {"--image-gc-low-threshold", NULL, "PERCENT", "remove unused images down to this; default 80",
     .number = &agent_args.image_low, .least = 1, .most = 100},
    {"--refresh", NULL, "SECONDS", "update files of config maps and secrets this often; default 60",
     .number = &agent_args.refresh_s, .least = 1, .most = 86400},
};
static const struct cli_option agent_options[] = {
    {"--tls-cert-file", NULL, "FILE", "serve with this certificate; default: made in DIR/pki",
     .text = &agent_args.certificate, .needs = "--tls-private-key-file"},
    {"--tls-private-key-file", NULL, "FILE", "use the key of the certificate",
     .text = &agent_args.key, .needs = "--tls-cert-file"},
    {"--client-ca-file", NULL, "FILE",
     "accept clients with certificates of this CA; default: the kubeconfig's",
     .text = &agent_args.client_ca},
    {"--pki", NULL, "DIR", "sign the serving certificate with the CA of a dray server (DATA/pki)",
     .text = &agent_args.pki},
};
const struct cli_group agent_node_group = CLI_GROUP("Node options", node_options);
const struct cli_group agent_machine_group = CLI_GROUP("Pods of the node", machine_options);
static const struct cli_group agent_group = CLI_GROUP("Certificates", agent_options);

const struct cli_verb agent_verb = {
    .name = "agent",
    .summary = "run this machine as a node",
    .chapter = CLI_NODE,
    .synopsis = "agent [--kubeconfig FILE] [--node-name NAME] [--data-dir DIR] [OPTIONS]",
    .text = "Makes this machine a node: registers it, runs the pods that are bound to it with crun "
            "or runc, prepares their "
            "claims with DRA drivers, and serves logs and commands. Needs root. Containers survive "
            "a stop; the next start "
            "takes them over.",
    .examples = "sudo dray agent --kubeconfig admin.kubeconfig --node-name n1\n"
                "sudo dray agent --config /etc/dray/agent.yaml",
    .groups = {&agent_node_group, &agent_machine_group, &agent_group, &logging_group,
               &common_connect},
    .config = true,
    .check = agent_check,
    .run = verb_agent,
};

struct running {
    const char *verb;
    const struct agent_args *args;
    const struct agent_guest *guest; // NULL: none
    struct loop *loop;
    struct kubeconfig config;
    struct kubeconfig_target target;
    struct client *client;
    struct features features;
    struct tls_server *tls;
    struct tls_follow follow;
    struct agent *agent;
    struct exec_timer stop;
    bool told;
    int64_t give_up_ns;
    struct sbuf node;
    char host[256];
};

// --- The endpoint's certificate ------------------------------------------------------------------

// own_certificate makes a CA and a certificate in DIR/pki, unless they are there.
static int own_certificate(const char *folder, const char *node, const char *const *names,
                           struct sbuf *crt, struct sbuf *key, struct err *err)
{
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    cleanup_sbuf struct sbuf ca_file = {0}, name = {0};
    struct pki_key_pair ca = {0}, pair = {0};
    sbuf_addf(crt, "%s/node.crt", folder);
    sbuf_addf(key, "%s/node.key", folder);
    sbuf_addf(&ca_file, "%s/ca.crt", folder);
    sbuf_addf(&name, "system:node:%s", node);
    if (access(crt->p, R_OK) == 0 && access(key->p, R_OK) == 0)
        return 0;
    const struct pki_subject root = {.common_name = "dray-agent-ca",
                                     .not_before = now - 3600,
                                     .not_after = now + INT64_C(10) * 365 * 86400};
    const struct pki_subject leaf = {.common_name = name.p,
                                     .names = names,
                                     .server = true,
                                     .not_before = now - 3600,
                                     .not_after = now + INT64_C(5) * 365 * 86400};
    int r = pki_make_ca(&root, &ca, err);
    if (r == 0)
        r = pki_make_certificate(&ca, &leaf, &pair, err);
    if (r == 0)
        r = file_replace_durable(AT_FDCWD, ca_file.p, str_z(ca.certificate_pem), 0600, err);
    if (r == 0)
        r = file_replace_durable(AT_FDCWD, key->p, str_z(pair.key_pem), 0600, err);
    if (r == 0)
        r = file_replace_durable(AT_FDCWD, crt->p, str_z(pair.certificate_pem), 0600, err);
    pki_key_pair_done(&ca);
    pki_key_pair_done(&pair);
    return r;
}

// Signed by the CA of a dray server on this machine.
static int signed_certificate(const char *folder, const char *node, const char *const *names,
                              struct sbuf *crt, struct sbuf *key, struct err *err)
{
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    cleanup_sbuf struct sbuf ca = {0};
    char *file = NULL, *key_file = NULL;
    sbuf_addf(&ca, "%s/ca.crt", folder);
    cleanup_free char *copy = xstrndup(folder, strlen(folder));
    const struct pki pki = {.folder = copy, .ca_file = ca.p};
    int r = pki_make_node_certificate(&pki, node, names, now, &file, &key_file, err);
    if (r == 0) {
        sbuf_addz(crt, file);
        sbuf_addz(key, key_file);
    }
    free(file);
    free(key_file);
    return r;
}

static int agent_verb_open_tls(struct running *r, const char *data_dir, struct err *err)
{
    const struct agent_args *a = r->args;
    cleanup_sbuf struct sbuf crt = {0}, key = {0}, ca = {0}, folder = {0};
    // An API server tries the Node's Hostname before its addresses.
    const char *const names[] = {r->node.p, a->node_ip ? a->node_ip : "127.0.0.1", r->host, NULL};
    int code = 0;
    if (a->listen && strcmp(a->listen, "none") == 0)
        return 0;
    sbuf_addf(&folder, "%s/pki", data_dir);
    (void)mkdir(data_dir, 0755);
    (void)mkdir(folder.p, 0700);
    file_remove_temporaries(folder.p, STR(""));
    if (a->certificate && a->key) {
        sbuf_addz(&crt, a->certificate);
        sbuf_addz(&key, a->key);
    } else if (a->pki) {
        code = signed_certificate(a->pki, r->node.p, names, &crt, &key, err);
    } else {
        code = own_certificate(folder.p, r->node.p, names, &crt, &key, err);
    }
    if (a->client_ca) {
        sbuf_addz(&ca, a->client_ca);
    } else if (a->pki) {
        sbuf_addf(&ca, "%s/ca.crt", a->pki);
    } else if (code == 0 && r->target.ca_pem.n) {
        cleanup_sbuf struct sbuf pem = {0};
        sbuf_addf(&ca, "%s/client-ca.crt", folder.p);
        sbuf_add(&pem, r->target.ca_pem);
        code = file_replace_durable(AT_FDCWD, ca.p, sbuf_str(&pem), 0600, err);
    }
    const struct tls_server_options o = {
        .certificate_file = crt.p, .key_file = key.p, .client_ca_file = ca.n ? ca.p : NULL};
    return code < 0 ? err_wrap(err, "the endpoint's certificate")
                    : tls_server_new(&o, &r->tls, err);
}

// --- Running -------------------------------------------------------------------------------------

// For tests: DRAY_AGENT_KILL_AT=N dies before the N-th change, DRAY_AGENT_STEPS=FILE counts them.
static atomic_long steps;
static int64_t kill_at = -1;
static FILE *steps_file;

static int agent_verb_on_step(void *arg, const char *what)
{
    (void)arg;
    int64_t at = atomic_fetch_add(&steps, 1);
    if (steps_file) {
        (void)fprintf(steps_file, "%lld %s %lld\n", (long long)at, what,
                      (long long)(clock_mono_ns(clock_system()) / CLOCK_NS_PER_US));
        (void)fflush(steps_file);
    }
    if (at == kill_at)
        (void)raise(SIGKILL);
    return 0;
}

static void count_steps(void)
{
    static const struct fault_hook hook = {agent_verb_on_step, NULL};
    // NOLINTBEGIN(concurrency-mt-unsafe): the environment does not change
    const char *at = getenv("DRAY_AGENT_KILL_AT");
    const char *file = getenv("DRAY_AGENT_STEPS");
    // NOLINTEND(concurrency-mt-unsafe)
    if (at)
        (void)!str_to_i64(str_z(at), &kill_at);
    if (file)
        steps_file = fopen(file, "we");
    if (at || file)
        fault_hook_set(&hook);
}

static void agent_verb_print_line(void *arg, const char *line)
{
    (void)arg;
    printf("%s\n", line);
    (void)fflush(stdout);
}

static void agent_verb_on_registered(void *arg)
{
    struct running *r = arg;
    if (!r->guest || r->told)
        return;
    r->told = true; // once
    const struct agent_host host = {r->loop, r->client, r->tls};
    r->guest->registered(r->guest->arg, &host);
}

// Being killed is always safe: what is under way is done again by the next start.
static _Noreturn void end_at_once(void)
{
    _exit(VERB_OK);
}

static void on_stop_tick(void *arg)
{
    struct running *r = arg;
    if (!agent_busy(r->agent)) {
        loop_stop(r->loop);
        return;
    }
    if (exec_now_ns(loop_exec(r->loop)) > r->give_up_ns)
        end_at_once();
    exec_timer_start(loop_exec(r->loop), &r->stop, 20 * CLOCK_NS_PER_MS);
}

static void agent_verb_on_signal(void *arg)
{
    struct running *r = arg;
    if (exec_timer_armed(&r->stop))
        end_at_once(); // asked twice
    if (r->guest)
        r->guest->stop(r->guest->arg);
    agent_quiet(r->agent);
    r->give_up_ns = exec_now_ns(loop_exec(r->loop)) + 3 * CLOCK_NS_PER_SEC;
    exec_timer_start(loop_exec(r->loop), &r->stop, 0);
}

static int connect_api(struct running *r, struct err *err)
{
    const struct agent_args *a = r->args;
    int code = kubeconfig_find(&r->config, a->kubeconfig, a->context, &r->target, err);
    const struct client_remote_options o = {.target = &r->target, .user_agent = STR("dray-agent")};
    return code < 0 ? code : client_remote_new(r->loop, &o, &r->client, err);
}

int agent_check(struct err *err)
{
    const struct agent_args *a = &agent_args;
    int64_t high = a->image_high ? a->image_high : IMAGE_KEEPER_HIGH_PERCENT;
    int64_t low = a->image_low ? a->image_low : IMAGE_KEEPER_LOW_PERCENT;
    struct eviction_config eviction;
    if (low < high)
        return eviction_config_parse(&a->eviction, &eviction, err);
    return err_set(err, ERR_INVALID,
                   "--image-gc-low-threshold %lld needs to be below --image-gc-high-threshold %lld",
                   (long long)low, (long long)high);
}

void agent_apply_args(const struct agent_args *a, struct agent_options *o)
{
    o->runtime = a->runtime;
    o->handlers = a->handlers.p;
    o->handlers_len = a->handlers.n;
    o->bridge = a->bridge;
    o->subnet = a->subnet;
    o->cgroup_top = a->cgroup;
    o->labels = str_z(a->labels);
    o->taints = str_z(a->taints);
    o->pods_max = a->max_pods;
    o->pids_max = a->pod_pids;
    o->eviction = a->eviction;
    o->image_high = a->image_high;
    o->image_low = a->image_low;
    o->refresh_ns = a->refresh_s * CLOCK_NS_PER_SEC;
}

static int agent_verb_start(struct running *r, struct err *err)
{
    const struct agent_args *a = r->args;
    const char *data_dir = a->data_dir ? a->data_dir : "/var/lib/dray-agent";
    const char *boot = getenv("DRAY_AGENT_BOOT_ID"); // NOLINT(concurrency-mt-unsafe): for tests
    features_init(&r->features, FEATURES_MINOR);
    r->features.on[FEATURE_DRA_OPTIONAL_NODE_OPERATIONS] = true;
    r->features.on[FEATURE_RESOURCE_HEALTH_STATUS] = true;
    r->features.on[FEATURE_RESOURCE_HEALTH_STATUS_MESSAGE] = true;
    int code = loop_new(&r->loop, err);
    if (code == 0)
        loop_watch_turns(r->loop, "agent");
    if (code == 0)
        code = connect_api(r, err);
    if (code == 0)
        code = agent_verb_open_tls(r, data_dir, err);
    if (code == 0)
        tls_follow_start(&r->follow, loop_exec(r->loop), r->tls);
    struct agent_options o = {.loop = r->loop,
                              .client = r->client,
                              .features = &r->features,
                              .node = sbuf_str(&r->node),
                              .data_dir = a->data_dir,
                              .device_plugins = a->device_plugins,
                              .image_dir = a->image_dir,
                              .monitor = a->monitor,
                              .cdi_dirs = a->cdi_dirs.p,
                              .cdi_dirs_len = a->cdi_dirs.n,
                              .boot_id = boot,
                              .node_ip = str_z(a->node_ip),
                              .api_url = r->target.server,
                              .tls = r->tls,
                              .listen = a->listen,
                              .keep_slices = a->keep_slices,
                              .trim = true,
                              .say = agent_verb_print_line,
                              .registered = agent_verb_on_registered,
                              .arg = r};
    agent_apply_args(a, &o);
    count_steps();
    if (code == 0)
        code = agent_new(&o, &r->agent, err);
    r->stop = (struct exec_timer){.fn = on_stop_tick, .arg = r};
    if (code == 0)
        code = loop_on_signal(r->loop, SIGTERM, agent_verb_on_signal, r, err);
    if (code == 0)
        code = loop_on_signal(r->loop, SIGINT, agent_verb_on_signal, r, err);
    return code;
}

static void agent_verb_on_settled(void *arg)
{
    loop_stop(((struct running *)arg)->loop);
}

static void agent_verb_finish(struct running *r)
{
    if (r->guest)
        r->guest->stop(r->guest->arg);
    tls_follow_stop(&r->follow);
    agent_free(r->agent);
    if (r->client)
        client_free(r->client);
    if (r->loop) {
        exec_post(loop_exec(r->loop), agent_verb_on_settled, r);
        loop_run(r->loop); // what was cancelled is answered
    }
    tls_server_free(r->tls);
    kubeconfig_done(&r->config);
    loop_free(r->loop);
    sbuf_done(&r->node);
}

static void agent_verb_print_ready(const struct running *r)
{
    cleanup_sbuf struct sbuf about = {0};
    agent_about(r->agent, &about);
    printf("node %s, runtime %s", r->node.p, about.p);
    if (agent_port(r->agent))
        printf("logs and commands at port %u\n", agent_port(r->agent));
    (void)fflush(stdout);
}

int agent_run(const char *verb, const struct agent_args *args, const struct agent_guest *guest)
{
    struct running r = {.verb = verb, .args = args, .guest = guest};
    struct err err = {0};
    process_hide();
    // NOLINTNEXTLINE(concurrency-mt-unsafe): threads come later, and only wait
    (void)mallopt(M_ARENA_MAX, 2);
    (void)gethostname(r.host, sizeof(r.host) - 1);
    sbuf_addz(&r.node, args->node ? args->node : r.host);
    int code = logging_start(LOG_FORMAT_TEXT, &err);
    if (code == 0)
        code = agent_verb_start(&r, &err);
    if (code == 0) {
        agent_start(r.agent);
        agent_verb_print_ready(&r);
        loop_run(r.loop);
        if (agent_busy(r.agent)) // something came up while the loop was on its way out
            end_at_once();
    } else {
        (void)fprintf(stderr, "dray %s: %s\n", verb, err.msg);
        if (geteuid() != 0)
            (void)fprintf(stderr,
                          "A node needs root. Without it, 'dray up' shows the same with simulated "
                          "nodes, and 'dray kubelet-stub' calls drivers.\n");
    }
    agent_verb_finish(&r);
    return code == 0 ? VERB_OK : VERB_NO;
}

static int verb_agent(void)
{
    agent_args.kubeconfig = common.kubeconfig;
    agent_args.context = common.context;
    return agent_run("agent", &agent_args, NULL);
}
