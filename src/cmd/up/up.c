// SPDX-License-Identifier: Apache-2.0
//
// dray up: a whole control plane in one process. The API server has a thread of its own; scheduler,
// controllers, simulated nodes and the agent share another one (up_worker).
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "cmd/input.h"
#include "cmd/run/agent_run.h"
#include "cmd/run/logging.h"
#include "cmd/run/process.h"
#include "cmd/run/server_run.h"
#include "cmd/up/up_card.h"
#include "cmd/up/up_int.h"
#include "cmd/up/up_storage.h"
#include "cmd/verb.h"
#include "ctl/ctl.h"
#include "inproc/local.h"
#include "node/sim.h"
#include "pki/certificate.h"
#include "sched/sched.h"

#include "base/banned.h"

// --- Applying files ------------------------------------------------------------------------------

static void up_on_applied(void *arg, const struct client_answer *a)
{
    char *what = arg;
    if (a->code != 0 && a->code != -ERR_ALREADY_EXISTS)
        (void)fprintf(stderr, "dray up: %s: %s\n", what, a->err->msg);
    free(what);
}

static void up_apply_object(struct up *u, const struct api_object *o)
{
    struct api_object_meta *meta = api_object_meta(o);
    if (!meta)
        return;
    if (o->kind->namespaced && meta->namespace.n == 0)
        meta->namespace = STR("default");
    struct sbuf what = {0};
    sbuf_addf(&what, "%.*s %.*s", STR_ARG(o->kind->kind),
              STR_ARG(meta->name.n ? meta->name : meta->generate_name));
    client_create(u->client, o, NULL, up_on_applied, sbuf_take(&what));
}

static int apply_file(struct up *u, const char *path, struct err *err)
{
    cleanup_input struct input in = {0};
    int r = input_open(&in, path, err);
    for (;;) {
        cleanup_json_doc struct json_doc doc = {0};
        struct api_object o;
        if (r == 0)
            r = input_next(&in, &doc, err);
        if (r <= 0)
            break;
        r = api_decode(&doc, doc.root, &u->arena, NULL, &o, err);
        if (r == 0)
            up_apply_object(u, &o);
    }
    if (r < 0)
        input_error(&in, "up", err);
    return r;
}

// --- Starting ------------------------------------------------------------------------------------

// Everything is there. The start itself may take long turns: programs of the machine are probed.
static void start_applying(void *arg)
{
    struct up *u = arg;
    loop_watch_turns(up_worker_loop(u->worker), "components");
    if (u->asked.apply.n == 0)
        return;
    printf("\n");
    u->watch = up_watch_new(u->client);
    for (size_t i = 0; i < u->asked.apply.n; i++) {
        struct err err = {0};
        (void)!apply_file(u, u->asked.apply.p[i], &err);
    }
}

static void nodes_ready(void *arg, const struct err *failure)
{
    struct up *u = arg;
    struct err err = {0};
    if (failure)
        (void)fprintf(stderr, "dray up: not all simulated nodes could be made: %s\n", failure->msg);
    up_progress_end();
    up_card_show(u);
    up_card_check_profiles(u);
    if (!u->asked.agent) {
        start_applying(u);
        return;
    }
    const struct up_agent_options o = {.host = &u->host,
                                       .node = u->asked.agent_name,
                                       .data_dir = server_flags.data_dir,
                                       .image_dir = u->asked.image_dir,
                                       .devices = u->profiles_len ? u->asked.sim : NULL,
                                       .loop = up_worker_loop(u->worker),
                                       .registered = start_applying,
                                       .arg = u};
    if (geteuid() != 0)
        (void)err_set(&err, EPERM,
                      "that needs root. Everything else works without: pods go to simulated nodes");
    if (err.code || up_agent_new(&o, &u->real, &err) < 0) {
        (void)fprintf(stderr, "dray up: this machine cannot be a node: %s\n", err.msg);
        start_applying(u); // the simulated ones are there
        return;
    }
    cleanup_sbuf struct sbuf about = {0};
    up_agent_about(u->real, &about);
    printf("\n  this machine is the node %s: %s", up_agent_node(u->real), about.p);
    (void)fflush(stdout);
}

static int up_start(void *arg, const struct server_host *host, struct err *err)
{
    struct up *u = arg;
    u->host = *host;
    int r = up_worker_new(host->loop, &u->worker, err);
    if (r == 0)
        r = up_start_components(u, nodes_ready, err);
    if (r == 0)
        r = up_worker_start(u->worker, err);
    if (r < 0) {
        // Watches that were requested begin yet: the store must not close before they end.
        up_stop_components(u);
        up_stop_approver(u);
        up_worker_settle(u->worker);
        up_free_clients(u);
        return r;
    }
    server_set_components(host->server, up_ask, u);
    return 0;
}

static void up_stop(void *arg, exec_fn done, void *done_arg)
{
    struct up *u = arg;
    const struct up_worker_end end = {.stop = up_stop_components,
                                      .leave = up_free_clients,
                                      .done = done,
                                      .arg = u,
                                      .done_arg = done_arg};
    server_set_components(u->host.server, NULL, NULL);
    u->stopping = true;
    up_stop_approver(u);
    up_worker_stop(u->worker, &end);
}

// up_ca_changed runs on the server's thread; controllers and the agent live on the worker's.
static void up_ca_changed(void *arg)
{
    struct up *u = arg;
    exec_post(loop_exec(up_worker_loop(u->worker)), up_take_ca, u);
}

static void up_free(void *arg)
{
    struct up *u = arg;
    up_worker_free(take_ptr(u->worker));
}

// --- The command line ----------------------------------------------------------------------------

static int list_profiles(void)
{
    for (size_t i = 0; i < profile_builtins_len; i++) {
        struct profile *p = NULL;
        if (profile_parse(profile_builtins[i].text, &p, NULL) != 0)
            continue;
        printf("%-24s %.*s\n", profile_builtins[i].name, STR_ARG(profile_about(p)));
        profile_free(p);
    }
    return VERB_OK;
}

#define SIM_NONE "none"

static int up_open_profiles(struct up *u, struct err *err)
{
    struct str rest = strcmp(u->asked.sim, SIM_NONE) == 0 ? STR("") : str_z(u->asked.sim);
    while (rest.n > 0) {
        struct str one;
        str_cut(rest, ',', &one, &rest);
        char *name = xstrndup(one.p, one.n);
        int r = u->profiles_len == array_len(u->profiles)
                    ? err_set(err, ERR_INVALID, "16 profiles at most")
                    : profile_open(name, &u->profiles[u->profiles_len], err);
        free(name);
        if (r < 0)
            return r;
        u->profiles_len++;
    }
    return 0;
}

#define APPLY_MOST 64

static struct up up_cluster = {.asked = {.policy_name = "pack",
                                         .preemption_name = "kubernetes",
                                         .controller_list = "*",
                                         .nodes = 3,
                                         .job_run_time_ns = 10 * CLOCK_NS_PER_SEC,
                                         .terminated_pods = CTL_TERMINATED_PODS}};
static struct up_request *const args = &up_cluster.asked;

static int verb_up(void);
static int up_check(struct err *err);

static int up_take_agent(const struct cli_option *o, const char *value, struct err *err)
{
    (void)o;
    (void)err;
    args->agent = true;
    args->agent_name = value;
    return 0;
}

static const struct cli_option up_options[] = {
    {"--sim", NULL, "PROFILE[,PROFILE…]",
     "simulate nodes of these profiles or YAML files, or none; default example-gpu, with --agent "
     "none; 'list' shows the profiles",
     .text = &up_cluster.asked.sim, .names = "profiles"},
    {"--nodes", NULL, "N", "simulate this many nodes of each profile; default 3",
     .size = &up_cluster.asked.nodes, .most = 100000},
    {"--sim-run-time", NULL, "TIME",
     "let pods of Jobs on simulated nodes succeed after this time; default 10s, 0: never. The "
     "annotation dray.dev/run-time of a pod precedes",
     .duration_ns = &up_cluster.asked.job_run_time_ns, .most = 30 * 24 * 3600 * CLOCK_NS_PER_SEC},
    {"--apply", NULL, "FILE",
     "create the objects of a file when the cluster is ready, and report its pods; repeatable",
     .many = &up_cluster.asked.apply},
    {"--agent", NULL, "NAME",
     "make this machine a node, whose pods run in containers; with --sim they can get simulated "
     "devices. Needs root, and crun or runc (see 'dray help agent')",
     .take = up_take_agent, .optional = true},
    {"--image-dir", NULL, "DIR", "read local images for --agent here",
     .text = &up_cluster.asked.image_dir, .needs = "--agent"},
    {"--controllers", NULL, "LIST",
     "run these controllers, as kube-controller-manager's flag: '*' (the default), NAME, -NAME; "
     "see docs/design/controllers.md",
     .text = &up_cluster.asked.controller_list},
    {"--terminated-pod-gc-threshold", NULL, "N",
     "keep at most this many terminated pods; default 12500, 0: all",
     .number = &up_cluster.asked.terminated_pods, .most = CLI_MOST},
    {"--policy", NULL, "POLICY", "choose devices by this policy; default pack",
     .text = &up_cluster.asked.policy_name, .choices = "pack spread first"},
    {"--preemption", NULL, "MODE",
     "delete pods of lower priority for a pod that fits nowhere, chosen as kube-scheduler does, or "
     "never; default kubernetes",
     .text = &up_cluster.asked.preemption_name, .choices = "kubernetes off"},
    {"--binding-timeout", NULL, "TIME",
     "release a device whose binding conditions are not true after this time; default 10m",
     .duration_ns = &up_cluster.asked.binding_timeout_ns, .least = CLOCK_NS_PER_SEC},
};
static const struct cli_group up_group = CLI_GROUP("Options", up_options);

const struct cli_verb up_verb = {
    .name = "up",
    .summary = "start a whole cluster with simulated nodes",
    .chapter = CLI_CLUSTER,
    .everyday = true,
    .synopsis =
        "up [--sim PROFILE[,PROFILE…]] [--nodes N] [--apply FILE]… [--data-dir DIR] [OPTIONS]",
    .text = "Starts a cluster in this process: API server, scheduler, controllers, and simulated "
            "nodes with the devices of a "
            "profile. kubectl and client-go work with it. Ctrl-C stops it; the next 'up' with the "
            "same directory continues "
            "where it stopped.",
    .examples = "dray up\ndray up --sim nvidia-a100-mig --nodes 1\ndray up --sim list\nsudo dray "
                "up --agent",
    .groups = {&up_group, &agent_machine_group, &server_group, &logging_group},
    .config = true,
    .check = up_check,
    .run = verb_up,
};

static int up_check(struct err *err)
{
    for (size_t i = 0; i < CTL_CONTROLLERS; i++)
        args->controllers[i] = true;
    if (!args->sim)
        args->sim = args->agent ? SIM_NONE : "example-gpu";
    (void)alloc_policy_parse(str_z(args->policy_name), &up_cluster.asked.policy);
    (void)sched_preemption_parse(str_z(args->preemption_name), &up_cluster.asked.preemption);
    if (args->apply.n > APPLY_MOST)
        return err_set(err, ERR_INVALID, "--apply is given more than %d times", APPLY_MOST);
    vec_foreach(&up_cluster.asked.apply, file)
        if (strcmp(*file, "-") != 0 && access(*file, R_OK) < 0)
            return err_set(err, ERR_INVALID, "--apply: cannot read %s: %s", *file,
                           strerrordesc_np(errno));
    int r = agent_check(err);
    if (r < 0)
        return r;
    return cli_given("--controllers") &&
                   ctl_controllers_parse(str_z(args->controller_list), args->controllers, err) < 0
               ? err_wrap(err, "--controllers")
               : 0;
}

static int up_run(struct up *u)
{
    struct err err = {0};
    if (up_open_profiles(u, &err) < 0) {
        (void)fprintf(stderr, "dray up: %s\n", err.msg);
        return VERB_NO;
    }
    if (u->asked.agent)
        process_hide();
    else
        process_confine();
    up_progress("opening %s", server_flags.data_dir);
    const struct server_guest guest = {
        .start = up_start, .stop = up_stop, .free = up_free, .ca_changed = up_ca_changed, .arg = u};
    server_flags.any_port = !cli_given("--listen");
    int r = server_run("up", &guest);
    if (r == VERB_OK)
        up_card_show_end(u);
    return r;
}

static int verb_up(void)
{
    cleanup_sbuf struct sbuf folder = {0};
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (strcmp(args->sim, "list") == 0)
        return list_profiles();
    sbuf_addf(&folder, "%s/.dray", home && home[0] ? home : ".");
    if (!server_flags.data_dir)
        server_flags.data_dir = folder.p;
    int r = up_run(&up_cluster);
    for (size_t i = 0; i < up_cluster.profiles_len; i++)
        profile_free(up_cluster.profiles[i]);
    arena_done(&up_cluster.arena);
    return r;
}
