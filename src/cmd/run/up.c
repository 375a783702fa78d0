// SPDX-License-Identifier: Apache-2.0
//
// dray up: a whole control plane in one process. API server, scheduler, controllers and simulated
// nodes share the server's loop.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "cmd/input.h"
#include "cmd/run/process.h"
#include "cmd/run/server_run.h"
#include "cmd/run/up_agent.h"
#include "cmd/run/up_storage.h"
#include "cmd/run/up_watch.h"
#include "cmd/verb.h"
#include "ctl/ctl.h"
#include "inproc/local.h"
#include "net/address.h"
#include "node/sim.h"
#include "pki/certificate.h"
#include "sched/sched.h"

#include "base/banned.h"

struct up {
    const char *sim, *policy_name, *controller_list;
    size_t nodes;
    enum alloc_policy policy;
    int64_t binding_timeout_ns; // 0: the scheduler's own
    struct cli_texts apply;
    bool controllers[CTL_CONTROLLERS]; // which run
    int64_t terminated_pods;           // how many may stay
    bool agent;
    const char *agent_name, *image_dir;
    struct up_agent *real; // this machine as a node
    struct profile *profiles[16];
    size_t profiles_len;
    struct server_host host;
    struct client *client; // of the controllers and of the simulated nodes
    struct client *sched_client;
    struct sched *sched;
    struct ctl *ctl;
    struct sim_nodes *sim_nodes;
    struct up_watch *watch; // of the pods in files that were applied
    struct arena arena;
    size_t applying;
    bool stopped;
};

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

// up_is_reachable: from other machines, as far as a URL can tell.
static bool up_is_reachable(const char *url)
{
    struct str host, port;
    return address_split(str_z(strstr(url, "://") + 3), &host, &port) && !address_is_loopback(host);
}

// example_file is a claim to try: of the source tree, or of the package. NULL: neither is here.
static const char *example_file(void)
{
    static const char *const places[] = {"examples/claim.yaml",
                                         "/usr/share/doc/dray/examples/claim.yaml"};
    for (size_t i = 0; i < array_len(places); i++)
        if (access(places[i], R_OK) == 0)
            return places[i];
    return NULL;
}

static void show_card(const struct up *u)
{
    struct sim_stats s;
    up_progress_end();
    sim_nodes_stats(u->sim_nodes, &s);
    printf("dray is up at %s\n\n  export KUBECONFIG=%s\n\n", u->host.url, u->host.kubeconfig);
    if (s.nodes > 0)
        printf(
            "  %zu simulated node%s (%s) with %zu devices in %zu slice%s, %zu device class%s\n\n",
            s.nodes, s.nodes == 1 ? "" : "s", u->sim, s.devices, s.slices, s.slices == 1 ? "" : "s",
            s.classes, s.classes == 1 ? "" : "es");
    const char *example = example_file();
    printf("Try:\n  dray get nodes,resourceslices\n");
    if (s.nodes > 0 && example)
        printf("  dray apply -f %s && dray get pods,resourceclaims\n", example);
    printf("  dray why POD                  # why a pod waits, and what would help\n\n");
    if (u->host.pki && up_is_reachable(u->host.public_url))
        printf("Other machines join at %s; the command for them:\n"
               "  dray token create --print-join-command\n\n",
               u->host.public_url);
    printf("Ctrl-C stops it; the same command continues later.\n");
    (void)fflush(stdout);
}

static void start_applying(void *arg)
{
    struct up *u = arg;
    if (u->apply.n == 0)
        return;
    printf("\n");
    u->watch = up_watch_new(u->client);
    for (size_t i = 0; i < u->apply.n; i++) {
        struct err err = {0};
        (void)!apply_file(u, u->apply.p[i], &err);
    }
}

static void nodes_ready(void *arg, const struct err *failure)
{
    struct up *u = arg;
    struct err err = {0};
    if (failure)
        (void)fprintf(stderr, "dray up: not all simulated nodes could be made: %s\n", failure->msg);
    show_card(u);
    if (!u->agent) {
        start_applying(u);
        return;
    }
    const struct up_agent_options o = {.host = &u->host,
                                       .node = u->agent_name,
                                       .data_dir = server_flags.data_dir,
                                       .image_dir = u->image_dir,
                                       .devices = u->sim,
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

static size_t up_count_digits(size_t n)
{
    size_t digits = 1;
    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

static int up_explain_object(void *arg, struct str kind, struct str namespace, struct str name,
                             struct sbuf *out, struct err *err)
{
    return sched_explain(arg, kind, namespace, name, out, err);
}

// up_check_health compares what the scheduler believes with the store, object by object.
static bool up_check_health(void *arg, struct sbuf *problems)
{
    struct up *u = arg;
    struct store *store = registry_store(u->host.registry);
    bool equal = sched_check(u->sched, problems);
    equal &= ctl_check(u->ctl, problems);
    const struct api_kind *kind;
    for (size_t i = 0; (kind = sched_watched(i)); i++) {
        struct err err;
        struct store_walk walk = {.kind = registry_stored_kind(kind)};
        size_t stored = 0;
        if (store_walk_start(store, &walk, &err) < 0)
            continue;
        for (const struct object *o; (o = store_walk_next(store, &walk)); stored++) {
            uint64_t known = sched_known(u->sched, i, o->namespace, o->name);
            if (known == o->revision)
                continue;
            sbuf_addf(problems, "%.*s %.*s/%.*s is known at %llu, stored at %llu\n",
                      STR_ARG(kind->kind), STR_ARG(o->namespace), STR_ARG(o->name),
                      (unsigned long long)known, (unsigned long long)o->revision);
            equal = false;
        }
        store_walk_done(&walk);
        if (stored == sched_known_count(u->sched, i))
            continue;
        sbuf_addf(problems, "%zu objects of kind %.*s are known, %zu are stored\n",
                  sched_known_count(u->sched, i), STR_ARG(kind->kind), stored);
        equal = false;
    }
    return equal;
}

static void up_add_metrics(void *arg, struct sbuf *out)
{
    const struct up *u = arg;
    sched_metrics(u->sched, out);
    ctl_metrics(u->ctl, out);
}

// Whether requests for certificates by the creator of this one are approved without a person.
static bool may_have_certificate(void *server,
                                 const struct api_certificate_signing_request *request,
                                 const char *subresource)
{
    const struct registry_user user = {.name = request->spec.username,
                                       .uid = request->spec.uid,
                                       .groups = request->spec.groups.p,
                                       .groups_len = request->spec.groups.n};
    return server_may(server, &user, STR("certificates.k8s.io"), STR("certificatesigningrequests"),
                      str_z(subresource), STR("create"));
}

static int up_start(void *arg, const struct server_host *host, struct err *err)
{
    struct up *u = arg;
    static const struct str names[] = {STR_INIT("default-scheduler"), STR_INIT("dray")};
    // Who works in this process needs no authorization for a call; what a write itself needs (a
    // claim's binding, a role's rules) they have by these names.
    static const struct str masters[] = {STR_INIT("system:masters"),
                                         STR_INIT("system:authenticated")};
    const struct registry_user scheduler = {
        .name = STR("system:kube-scheduler"), .groups = masters + 1, .groups_len = 1};
    const struct registry_user controllers = {
        .name = STR("system:kube-controller-manager"), .groups = masters, .groups_len = 2};
    struct exec *exec = loop_exec(host->loop);
    u->host = *host;
    up_progress("starting scheduler and controllers");
    u->client = local_client_new(host->registry, exec, &controllers);
    u->sched_client = local_client_new(host->registry, exec, &scheduler);
    const struct sched_options so = {.client = u->sched_client,
                                     .names = names,
                                     .names_len = array_len(names),
                                     .features = host->features,
                                     .policy = u->policy,
                                     .binding_timeout_ns = u->binding_timeout_ns};
    u->sched = sched_new(&so);
    sched_start(u->sched);
    server_set_explainer(host->server, up_explain_object, u->sched);
    server_set_checker(host->server, up_check_health, u);
    struct ctl_options co = {.client = u->client,
                             .exec = exec,
                             .features = host->features,
                             .aggregate_roles = true,
                             .collect_all = true,
                             .terminated_pods = u->terminated_pods};
    struct pki_key_pair ca = {0};
    char *certificate = NULL;
    if (host->pki && (pki_read_ca(host->pki, &ca, err) < 0 ||
                      pki_read_file(host->pki->server_file, &certificate, err) < 0)) {
        pki_key_pair_done(&ca);
        return err_wrap(err, "the cluster's certificates");
    }
    co.root_ca = str_z(ca.certificate_pem);
    co.certificates = (struct ctl_certificates){.ca_certificate = str_z(ca.certificate_pem),
                                                .ca_key = str_z(ca.key_pem),
                                                .server_certificate = str_z(certificate),
                                                .may = may_have_certificate,
                                                .arg = host->server};
    for (size_t i = 0; i < CTL_CONTROLLERS; i++)
        co.off[i] = !u->controllers[i];
    u->ctl = ctl_new(&co);
    pki_key_pair_done(&ca);
    free(certificate);
    ctl_start(u->ctl);
    if (u->controllers[CTL_VOLUMES])
        up_storage_start(host->registry, u->client);
    server_set_meter(host->server, up_add_metrics, u);
    const struct sim_options no = {.client = u->client,
                                   .exec = exec,
                                   .profiles = u->profiles,
                                   .profiles_len = u->profiles_len,
                                   .nodes = u->nodes,
                                   .min_digits = up_count_digits(u->nodes ? u->nodes - 1 : 0),
                                   .ready = nodes_ready,
                                   .arg = u};
    if (u->nodes)
        up_progress("making %zu simulated node%s of %s", u->nodes * u->profiles_len,
                    u->nodes * u->profiles_len == 1 ? "" : "s", u->sim);
    u->sim_nodes = sim_nodes_new(&no);
    return sim_nodes_start(u->sim_nodes, err);
}

static void up_stop(void *arg)
{
    struct up *u = arg;
    u->stopped = true;
    server_set_explainer(u->host.server, NULL, NULL);
    server_set_checker(u->host.server, NULL, NULL);
    server_set_meter(u->host.server, NULL, NULL);
    up_watch_free(take_ptr(u->watch));
    up_agent_stop(u->real);
    sim_nodes_free(take_ptr(u->sim_nodes));
    sched_free(take_ptr(u->sched));
    ctl_free(take_ptr(u->ctl));
}

static void up_free(void *arg)
{
    struct up *u = arg;
    if (!u->stopped)
        up_stop(u);
    up_agent_free(take_ptr(u->real));
    client_free(take_ptr(u->sched_client));
    client_free(take_ptr(u->client));
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

static int up_open_profiles(struct up *u, struct err *err)
{
    struct str rest = str_z(u->sim);
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

static struct up args = {.sim = "example-gpu",
                         .policy_name = "pack",
                         .controller_list = "*",
                         .nodes = 3,
                         .terminated_pods = CTL_TERMINATED_PODS};

static int verb_up(void);
static int up_check(struct err *err);

static int up_take_agent(const struct cli_option *o, const char *value, struct err *err)
{
    (void)o;
    (void)err;
    args.agent = true;
    args.agent_name = value;
    return 0;
}

static const struct cli_option up_options[] = {
    {"--sim", NULL, "PROFILE[,PROFILE…]",
     "simulate nodes of these profiles or YAML files; default example-gpu; 'list' shows the "
     "profiles",
     .text = &args.sim},
    {"--nodes", NULL, "N", "simulate this many nodes of each profile; default 3",
     .size = &args.nodes, .most = 100000},
    {"--apply", NULL, "FILE",
     "create the objects of a file when the cluster is ready, and report its pods; repeatable",
     .many = &args.apply},
    {"--agent", NULL, "NAME",
     "make this machine a node as well, whose pods run in containers and see the devices of --sim; "
     "needs root, and crun or runc (see 'dray help agent')",
     .take = up_take_agent, .optional = true},
    {"--image-dir", NULL, "DIR", "read local images for --agent here", .text = &args.image_dir,
     .needs = "--agent"},
    {"--controllers", NULL, "LIST",
     "run these controllers, as kube-controller-manager's flag: '*' (the default), NAME, -NAME; "
     "see docs/design/controllers.md",
     .text = &args.controller_list},
    {"--terminated-pod-gc-threshold", NULL, "N",
     "keep at most this many terminated pods; default 12500, 0: all",
     .number = &args.terminated_pods, .most = CLI_MOST},
    {"--policy", NULL, "POLICY", "choose devices by this policy; default pack",
     .text = &args.policy_name, .choices = "pack spread first"},
    {"--binding-timeout", NULL, "TIME",
     "release a device whose binding conditions are not true after this time; default 10m",
     .duration_ns = &args.binding_timeout_ns, .least = CLOCK_NS_PER_SEC},
};
static const struct cli_group up_group = CLI_GROUP("Options", up_options);

const struct cli_verb up_verb = {
    .name = "up",
    .summary = "start a whole cluster with simulated nodes",
    .chapter = CLI_CLUSTER,
    .synopsis =
        "up [--sim PROFILE[,PROFILE…]] [--nodes N] [--apply FILE]… [--data-dir DIR] [OPTIONS]",
    .text = "Starts a cluster in this process: API server, scheduler, controllers, and simulated "
            "nodes with the devices of a "
            "profile. kubectl and client-go work with it. Ctrl-C stops it; the next 'up' with the "
            "same directory continues "
            "where it stopped.",
    .examples = "dray up\ndray up --sim nvidia-a100-mig --nodes 1\ndray up --sim list\nsudo dray "
                "up --agent",
    .groups = {&up_group, &server_group},
    .config = true,
    .check = up_check,
    .run = verb_up,
};

static int up_check(struct err *err)
{
    for (size_t i = 0; i < CTL_CONTROLLERS; i++)
        args.controllers[i] = true;
    (void)alloc_policy_parse(str_z(args.policy_name), &args.policy);
    if (args.apply.n > APPLY_MOST)
        return err_set(err, ERR_INVALID, "--apply is given more than %d times", APPLY_MOST);
    vec_foreach(&args.apply, file)
        if (strcmp(*file, "-") != 0 && access(*file, R_OK) < 0)
            return err_set(err, ERR_INVALID, "--apply: cannot read %s: %s", *file,
                           strerrordesc_np(errno));
    return cli_given("--controllers") &&
                   ctl_controllers_parse(str_z(args.controller_list), args.controllers, err) < 0
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
    if (u->agent)
        process_hide();
    else
        process_confine();
    up_progress("opening %s", server_flags.data_dir);
    const struct server_guest guest = {
        .start = up_start, .stop = up_stop, .free = up_free, .arg = u};
    return server_run("up", &guest);
}

static int verb_up(void)
{
    cleanup_sbuf struct sbuf folder = {0};
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (strcmp(args.sim, "list") == 0)
        return list_profiles();
    sbuf_addf(&folder, "%s/.dray", home && home[0] ? home : ".");
    if (!server_flags.data_dir)
        server_flags.data_dir = folder.p;
    int r = up_run(&args);
    for (size_t i = 0; i < args.profiles_len; i++)
        profile_free(args.profiles[i]);
    arena_done(&args.arena);
    return r;
}
