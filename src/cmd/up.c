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

#include "agent/sim.h"
#include "client/local.h"
#include "cmd/input.h"
#include "cmd/option.h"
#include "cmd/process.h"
#include "cmd/server_run.h"
#include "cmd/up_agent.h"
#include "cmd/up_say.h"
#include "cmd/up_storage.h"
#include "cmd/verb.h"
#include "ctl/ctl.h"
#include "net/address.h"
#include "sched/sched.h"

#include "base/banned.h"

const char up_usage[] =
    "dray up [--sim PROFILE[,PROFILE…]] [--nodes N] [--apply FILE…] [--data-dir DIR] [FLAGS]\n\n"
    "Starts a cluster in this process: API server, scheduler, controllers, and simulated nodes "
    "with\n"
    "the devices of a profile. kubectl and client-go work with it. Ctrl-C stops it; the next 'up'\n"
    "with the same folder continues where it was.\n\n"
    "--sim PROFILE           what the nodes look like; default example-gpu. 'dray up --sim list'\n"
    "                        shows the profiles; a path to a YAML file works as well\n"
    "--nodes N               how many nodes of each profile; default 3, 0 for none\n"
    "--apply FILE            creates the objects in a file when the cluster is ready, and tells "
    "what\n"
    "                        becomes of its pods; may be repeated\n"
    "--agent[=NAME]          makes this machine a node as well, whose pods run in containers and "
    "see\n"
    "                        the devices of --sim (root, crun or runc; see 'dray help agent');\n"
    "                        --image-dir DIR: local images\n"
    "--controllers LIST      which controllers run, as kube-controller-manager's: '*' (the "
    "default), "
    "NAME,\n"
    "                        -NAME for all but it; see docs/controllers.md\n"
    "--terminated-pod-gc-threshold N   how many pods that are over may stay; default 12500, 0: "
    "all\n"
    "--policy pack|spread|first   how devices are chosen; default pack\n"
    "--binding-timeout 10m   give a device back when its binding conditions are not true after so "
    "long\n"
    "--data-dir DIR          default ~/.dray\n\n"
    "All flags of 'dray server' work here, too.";

struct paths {
    const char *list[64];
    size_t n;
};

struct up {
    const char *sim;
    size_t nodes;
    enum alloc_policy policy;
    int64_t binding_timeout_ns; // 0: the scheduler's own
    struct paths apply;
    bool controllers[CTL_CONTROLLERS]; // which run
    int64_t terminated_pods;           // how many may stay
    bool agent;
    const char *agent_name, *image_dir, *data_dir;
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

static void applied(void *arg, const struct client_answer *a)
{
    char *what = arg;
    if (a->code != 0 && a->code != -ERR_ALREADY_EXISTS)
        (void)fprintf(stderr, "dray up: %s: %s\n", what, a->err->msg);
    free(what);
}

static void apply_one(struct up *u, const struct api_object *o)
{
    struct api_object_meta *meta = api_object_meta(o);
    if (!meta)
        return;
    if (o->kind->namespaced && meta->namespace.n == 0)
        meta->namespace = STR("default");
    struct sbuf what = {0};
    sbuf_addf(&what, "%.*s %.*s", STR_ARG(o->kind->kind),
              STR_ARG(meta->name.n ? meta->name : meta->generate_name));
    client_create(u->client, o, NULL, applied, sbuf_take(&what));
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
            apply_one(u, &o);
    }
    if (r < 0)
        input_error(&in, "up", err);
    return r;
}

// --- Starting ------------------------------------------------------------------------------------

// is_reachable: from other machines, as far as a URL can tell.
static bool is_reachable(const char *url)
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
    if (u->host.pki && is_reachable(u->host.public_url))
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
        (void)!apply_file(u, u->apply.list[i], &err);
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
                                       .data_dir = u->data_dir,
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

static size_t digits_of(size_t n)
{
    size_t digits = 1;
    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

static int explain(void *arg, struct str kind, struct str namespace, struct str name,
                   struct sbuf *out, struct err *err)
{
    return sched_explain(arg, kind, namespace, name, out, err);
}

// check compares what the scheduler believes with the store, object by object.
static bool check(void *arg, struct sbuf *problems)
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

static void meter(void *arg, struct sbuf *out)
{
    const struct up *u = arg;
    sched_metrics(u->sched, out);
    ctl_metrics(u->ctl, out);
}

// Whether requests for certificates by whoever made this one are approved without a person.
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
    // Who works in this process is not asked for the right to a call; what a write itself needs (a claim's binding,
    // a role's rules) they have by these names.
    static const struct str masters[] = {STR_INIT("system:masters"),
                                         STR_INIT("system:authenticated")};
    const struct registry_user scheduler = {
        .name = STR("system:kube-scheduler"), .groups = masters + 1, .groups_len = 1};
    const struct registry_user controllers = {
        .name = STR("system:kube-controller-manager"), .groups = masters, .groups_len = 2};
    struct exec *exec = loop_exec(host->loop);
    u->host = *host;
    up_progress("starting scheduler and controllers");
    u->client = client_local_new(host->registry, exec, &controllers);
    u->sched_client = client_local_new(host->registry, exec, &scheduler);
    const struct sched_options so = {.client = u->sched_client,
                                     .names = names,
                                     .names_len = array_len(names),
                                     .features = host->features,
                                     .policy = u->policy,
                                     .binding_timeout_ns = u->binding_timeout_ns};
    u->sched = sched_new(&so);
    sched_start(u->sched);
    server_set_explainer(host->server, explain, u->sched);
    server_set_checker(host->server, check, u);
    struct ctl_options co = {.client = u->client,
                             .exec = exec,
                             .features = host->features,
                             .aggregate_roles = true,
                             .collect_all = true,
                             .terminated_pods = u->terminated_pods};
    struct tls_key_pair ca = {0};
    char *certificate = NULL;
    if (host->pki && (pki_read_ca(host->pki, &ca, err) < 0 ||
                      pki_read_file(host->pki->server_file, &certificate, err) < 0)) {
        tls_key_pair_done(&ca);
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
    tls_key_pair_done(&ca);
    free(certificate);
    ctl_start(u->ctl);
    if (u->controllers[CTL_VOLUMES])
        up_storage_start(host->registry, u->client);
    server_set_meter(host->server, meter, u);
    const struct sim_options no = {.client = u->client,
                                   .exec = exec,
                                   .profiles = u->profiles,
                                   .profiles_len = u->profiles_len,
                                   .nodes = u->nodes,
                                   .min_digits = digits_of(u->nodes ? u->nodes - 1 : 0),
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

static int open_profiles(struct up *u, struct err *err)
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

// own_flag takes a flag of up itself. Returns how many arguments it took, 0 when it is not one.
static int own_flag(struct up *u, int argc, char **argv, int i, struct err *err)
{
    static const char *const names[] = {"--sim",
                                        "--nodes",
                                        "--apply",
                                        "--policy",
                                        "--image-dir",
                                        "--controllers",
                                        "--terminated-pod-gc-threshold",
                                        "--binding-timeout"};
    struct str arg = str_z(argv[i]);
    struct str value = {0};
    bool joined = str_cut(arg, '=', &arg, &value);
    if (str_eqz(arg, "--agent")) {
        u->agent = true;
        u->agent_name = joined ? value.p : NULL;
        return 1;
    }
    size_t which = 0;
    while (which < array_len(names) && !str_eqz(arg, names[which]))
        which++;
    if (which == array_len(names))
        return 0;
    if (!joined && i + 1 == argc)
        return err_set(err, ERR_INVALID, "%s needs a value", names[which]);
    const char *text = joined ? value.p : argv[i + 1];
    uint64_t n = 0;
    if (which == 0)
        u->sim = text;
    else if (which == 1 && (str_to_u64(str_z(text), &n) < 0 || n > 100000))
        return err_set(err, ERR_INVALID, "--nodes takes a number up to 100000, not '%s'", text);
    else if (which == 1)
        u->nodes = n;
    else if (which == 2 && u->apply.n == array_len(u->apply.list))
        return err_set(err, ERR_INVALID, "64 files at most with --apply");
    else if (which == 2 && strcmp(text, "-") != 0 && access(text, R_OK) < 0)
        return err_set(err, ERR_INVALID, "cannot read %s: %s", text, strerrordesc_np(errno));
    else if (which == 2)
        u->apply.list[u->apply.n++] = text;
    else if (which == 4)
        u->image_dir = text;
    else if (which == 6 && (str_to_u64(str_z(text), &n) < 0 || n > INT32_MAX))
        return err_set(err, ERR_INVALID, "%s takes a number, not '%s'", names[which], text);
    else if (which == 6)
        u->terminated_pods = (int64_t)n;
    else if (which == 7 && option_duration(text, &u->binding_timeout_ns, err) < 0)
        return -ERR_INVALID;
    else if (which == 7 && u->binding_timeout_ns < CLOCK_NS_PER_SEC)
        return err_set(err, ERR_INVALID, "--binding-timeout is 1s at least");
    else if (which == 5)
        return ctl_controllers_parse(str_z(text), u->controllers, err) < 0 ? -ERR_INVALID
               : joined                                                    ? 1
                                                                           : 2;
    else if (which == 3 && !alloc_policy_parse(str_z(text), &u->policy))
        return err_set(err, ERR_INVALID, "--policy is pack, spread or first, not '%s'", text);
    return joined ? 1 : 2;
}

// split takes up's own flags out of argv; the others, with a default folder, are the server's.
static int split(struct up *u, int argc, char **argv, char **rest, int *ret_rest, struct err *err)
{
    int n = 0;
    for (int i = 0; i < argc;) {
        int taken = i == 0 ? 0 : own_flag(u, argc, argv, i, err);
        if (taken < 0)
            return taken;
        if (taken == 0)
            rest[n++] = argv[i++];
        i += taken;
    }
    *ret_rest = n;
    return 0;
}

static bool has_flag(int argc, char **argv, const char *name)
{
    size_t n = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && (argv[i][n] == '\0' || argv[i][n] == '='))
            return true;
    return false;
}

static int up_run(struct up *u, int argc, char **rest, struct sbuf *folder)
{
    struct server_flags flags = {0};
    struct err err = {0};
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nobody changes it
    int n = argc;
    if (!has_flag(n, rest, "--data-dir") && !has_flag(n, rest, "--config")) {
        sbuf_addf(folder, "--data-dir=%s/.dray", home && home[0] ? home : ".");
        rest[n++] = folder->p;
    }
    int r = server_flags_parse(n, rest, &flags, &err);
    if (r == -ERR_INVALID)
        return verb_usage_error("up", err.msg);
    u->data_dir = flags.data_dir;
    if (r == 0)
        r = open_profiles(u, &err);
    if (r < 0) {
        (void)fprintf(stderr, "dray up: %s\n", err.msg);
        server_flags_done(&flags);
        return VERB_NO;
    }
    if (u->agent)
        process_hide();
    else
        process_confine();
    up_progress("opening %s", flags.data_dir);
    const struct server_guest guest = {
        .start = up_start, .stop = up_stop, .free = up_free, .arg = u};
    return server_run("up", &flags, &guest);
}

int verb_up(int argc, char **argv)
{
    struct up u = {.sim = "example-gpu",
                   .nodes = 3,
                   .policy = ALLOC_PACK,
                   .terminated_pods = CTL_TERMINATED_PODS};
    struct err err = {0};
    int rest_len = 0;
    char **rest = xcalloc((size_t)argc + 2, sizeof(*rest));
    for (size_t i = 0; i < CTL_CONTROLLERS; i++)
        u.controllers[i] = true;
    struct sbuf folder = {0};
    int code = VERB_USAGE;
    if (split(&u, argc, argv, rest, &rest_len, &err) < 0)
        (void)verb_usage_error("up", err.msg);
    else if (strcmp(u.sim, "list") == 0)
        code = list_profiles();
    else
        code = up_run(&u, rest_len, rest, &folder);
    for (size_t i = 0; i < u.profiles_len; i++)
        profile_free(u.profiles[i]);
    arena_done(&u.arena);
    sbuf_done(&folder);
    free(rest);
    return code;
}
