// SPDX-License-Identifier: Apache-2.0
//
// dray driver: DRA drivers for network interfaces and for simulated hardware, and faults for the
// latter.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cmd/engine/cli.h"
#include "cmd/run/driver_net.h"
#include "cmd/run/process.h"
#include "cmd/verb.h"
#include "codec/json_writer.h"
#include "driver/fault.h"
#include "driver/hw_sim.h"

#include "base/banned.h"

static struct driver_args {
    const char *profiles, *kubeconfig, *device;
    struct hw_sim_options sim;
    int64_t code, ms, step;
    int64_t parent;
    struct cli_texts words;
} args = {.sim = {.lease_namespace = "kube-system",
                  .make_classes = true,
                  .shared = true,
                  .attach_ms = 2000,
                  .reset_ms = 1000}};

static int driver_run_sim(void);
static int driver_run_fault(void);
static int driver_run_profiles(void);
static int driver_run_show(void);

static const struct cli_option sim_options[] = {
    {"--profile", NULL, "NAME[,NAME…]",
     "simulate the hardware of these profiles ('dray driver profiles' lists them) or YAML files",
     .text = &args.profiles, .required = true},
    {"--node", NULL, "NAME", "be the drivers of this node", .text = &args.sim.node},
    {"--nodes", NULL, "N", "be the drivers of N nodes named <profile>-<number>",
     .size = &args.sim.nodes, .most = 100000, .needs = "--root"},
    {"--kubeconfig", NULL, "FILE",
     "use this kubeconfig; default: $KUBECONFIG, ~/.kube/config, the pod's service account",
     .text = &args.kubeconfig},
    {"--plugins", NULL, "DIR", "listen here; default /var/lib/kubelet/plugins",
     .text = &args.sim.plugins_dir},
    {"--registry", NULL, "DIR", "register here; default /var/lib/kubelet/plugins_registry",
     .text = &args.sim.registry_dir},
    {"--cdi", NULL, "DIR", "write CDI specs here; default /var/run/cdi", .text = &args.sim.cdi_dir},
    {"--root", NULL, "DIR", "use DIR/<node>/{plugins,plugins_registry,cdi} for each node instead",
     .text = &args.sim.root},
    {"--state", NULL, "DIR",
     "keep the state of the hardware here; default: --root, or dray-sim in the plugins directory",
     .text = &args.sim.state},
    {"--instance", NULL, "UID",
     "set the pod's UID: two instances may run while one replaces the other",
     .text = &args.sim.instance},
    {"--lease-namespace", NULL, "NAME",
     "keep a Lease for each pool, which shows that its driver lives, here; default kube-system, "
     "'': none",
     .text = &args.sim.lease_namespace},
    {"--lease-seconds", NULL, "N", "let these Leases last so long; default 40",
     .number = &args.sim.lease_seconds, .least = 1, .most = 86400},
    {"--make-nodes", NULL, NULL, "create Node objects, as kubelets do",
     .flag = &args.sim.make_nodes},
    {"--no-classes", NULL, NULL, "do not create the DeviceClasses of the profile",
     .flag = &args.sim.make_classes, .off = true},
    {"--no-shared", NULL, NULL, "leave pools that belong to no node to another process",
     .flag = &args.sim.shared, .off = true},
    {"--device-nodes", NULL, NULL,
     "give containers a node /dev/NAME for each device, a copy of /dev/null",
     .flag = &args.sim.device_nodes},
    {"--parent", NULL, "PID", .number = &args.parent, .least = 1, .most = INT32_MAX},
    {"--evict", NULL, NULL, "evict pods from failed devices (NoExecute); default NoSchedule",
     .flag = &args.sim.evict},
    {"--attach-ms", NULL, "N", "take so long to attach; default 2000",
     .number = &args.sim.attach_ms, .most = CLI_MOST},
    {"--reset-ms", NULL, "N", "take so long to reset; default 1000", .number = &args.sim.reset_ms,
     .most = CLI_MOST},
};
static const struct cli_option fault_options[] = {
    {"--node", NULL, "NAME", "change the hardware of this node; shared: that of no node",
     .text = &args.sim.node, .required = true},
    {"--state", NULL, "DIR",
     "use the --root of sim, or dray-sim in its plugins directory; default "
     "/var/lib/kubelet/plugins/dray-sim",
     .text = &args.sim.state},
    {"--device", NULL, "NAME", "change this device; default: all", .text = &args.device},
    {"--code", NULL, "N", "set the code of an xid fault", .number = &args.code, .most = CLI_MOST},
    {"--ms", NULL, "N", "set the delay of slow-prepare and slow-attach", .number = &args.ms,
     .most = CLI_MOST},
    {"--step", NULL, "N", "let the driver die at this step of the next call (crash)",
     .number = &args.step, .most = CLI_MOST},
};
static const struct cli_option show_options[] = {
    {"--node", NULL, "NAME", "show the slices of this node; default node-0",
     .text = &args.sim.node},
};
static const struct cli_group sim_group = CLI_GROUP("Options", sim_options);
static const struct cli_group fault_group = CLI_GROUP("Options", fault_options);
static const struct cli_group show_group = CLI_GROUP("Options", show_options);

static const struct cli_verb driver_sim = {
    .name = "sim",
    .summary = "run drivers for simulated hardware",
    .synopsis = "sim --profile NAME[,NAME…] (--node NAME | --nodes N --root DIR) [OPTIONS]",
    .text =
        "Runs DRA drivers for simulated hardware, under this machine's kubelet or any other. They "
        "publish the devices of a "
        "profile, prepare and unprepare claims, survive being killed, and repair failed devices.",
    .groups = {&sim_group},
    .run = driver_run_sim,
};
static const struct cli_verb driver_fault = {
    .name = "fault",
    .summary = "add, clear or list faults of simulated hardware",
    .synopsis =
        "fault --node NAME add KIND [--device NAME] [--code N] [--ms N] [--step N] [OPTIONS]\n"
        "fault --node NAME clear [KIND] [--device NAME] [OPTIONS]\n"
        "fault --node NAME list [OPTIONS]",
    .text = "Changes the faults of a node's simulated hardware. KIND is xid, lost, slow-prepare, "
            "prepare-failure, "
            "unprepare-failure, crash, attach-failure or slow-attach.",
    .groups = {&fault_group},
    .words = &args.words,
    .word = "add KIND, clear or list",
    .words_least = 1,
    .words_most = 2,
    .word_choices = "add clear list",
    .run = driver_run_fault,
};
static const struct cli_verb driver_profiles = {
    .name = "profiles",
    .summary = "list the profiles of simulated hardware",
    .synopsis = "profiles",
    .text = "Lists the built-in profiles of simulated hardware.",
    .run = driver_run_profiles,
};
static const struct cli_verb driver_show = {
    .name = "show",
    .summary = "print the ResourceSlices of a profile",
    .synopsis = "show PROFILE [--node NAME]",
    .text = "Prints the ResourceSlices that a node of a profile publishes, as JSON.",
    .groups = {&show_group},
    .words = &args.words,
    .word = "PROFILE",
    .words_least = 1,
    .words_most = 1,
    .run = driver_run_show,
};
static const struct cli_verb *const driver_verbs[] = {
    &driver_sim, &driver_net_verb, &driver_fault, &driver_profiles, &driver_show, NULL};

const struct cli_verb driver_verb = {
    .name = "driver",
    .summary = "run drivers for network interfaces and simulated hardware",
    .chapter = CLI_NODE,
    .text = "Runs DRA drivers for this machine's network interfaces or for simulated hardware, and "
            "injects faults into the "
            "latter.",
    .examples = "dray driver profiles\n"
                "dray driver sim --profile example-gpu --node n1\n"
                "dray driver fault --node n1 add xid --device gpu-0 --code 79\n"
                "dray driver net --list",
    .subverbs = driver_verbs,
};

static int driver_verb_fail(const struct err *err)
{
    char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX + 64];
    err_text(err, text, sizeof(text));
    (void)fprintf(stderr, "dray driver: %s\n", text);
    return VERB_NO;
}

// --- sim -----------------------------------------------------------------------------------------

enum { PROFILES_MAX = 64 };

static int driver_verb_open_profiles(const char *names, struct profile **ret, size_t *n,
                                     struct err *err)
{
    struct str rest = str_z(names);
    while (rest.n) {
        struct str name;
        str_cut(rest, ',', &name, &rest);
        if (*n == PROFILES_MAX)
            return err_set(err, ERR_TOO_MANY, "at most %d profiles", PROFILES_MAX);
        cleanup_free char *z = xstrndup(name.p, name.n);
        int r = profile_open(z, &ret[*n], err);
        if (r != 0)
            return r;
        (*n)++;
    }
    return 0;
}

static void driver_verb_on_change(void *arg, const char *node, const char *driver, const char *what)
{
    (void)arg;
    printf("%s%s%s: %s\n", node, *node ? " " : "", driver, what);
    (void)fflush(stdout);
}

static int driver_run_sim(void)
{
    struct driver_args *a = &args;
    struct profile *profiles[PROFILES_MAX];
    size_t n = 0;
    struct err err = {0};
    struct dray_error why = {0};
    if (!a->sim.node && a->sim.nodes == 0)
        return cli_usage_error("driver sim", "--node NAME or --nodes N is missing");
    const struct dray_runtime_options where = {.kubeconfig = a->kubeconfig,
                                               .user_agent = "dray-driver-sim"};
    process_hide();
    if (a->parent && !process_ends_with(a->parent))
        return VERB_NO;
    int r = driver_verb_open_profiles(a->profiles, profiles, &n, &err);
    if (r == 0 && dray_runtime_new(&where, &a->sim.runtime, &why) != 0)
        r = err_set(&err, ERR_UNAVAILABLE, "%s", why.message);
    struct hw_sim *sim = NULL;
    if (r == 0) {
        a->sim.profiles = profiles;
        a->sim.profiles_len = n;
        a->sim.told = driver_verb_on_change;
        r = hw_sim_start(&a->sim, &sim, &err);
    }
    if (r == 0) {
        puts("drivers run");
        (void)fflush(stdout);
        dray_runtime_run(a->sim.runtime);
    }
    if (sim)
        hw_sim_stop(sim);
    if (a->sim.runtime)
        dray_runtime_free(a->sim.runtime);
    hw_sim_free(sim);
    while (n > 0)
        profile_free(profiles[--n]);
    return r == 0 ? VERB_OK : driver_verb_fail(&err);
}

// --- fault ---------------------------------------------------------------------------------------

static bool driver_verb_matches_fault(const struct fault *f, bool any_kind, enum fault_kind kind,
                                      const char *device)
{
    return (any_kind || f->kind == kind) && (!device || str_eqz(f->device, device));
}

static int change_faults(const struct driver_args *a, const char *path, const char *verb)
{
    cleanup_arena struct arena arena = {0};
    struct faults faults;
    struct err err = {0};
    enum fault_kind kind = FAULT_XID;
    bool has_kind = a->words.n > 1;
    if (has_kind && !fault_kind_parse(str_z(a->words.p[1]), &kind))
        return cli_usage_error("driver fault", "unknown KIND of fault");
    if (fault_list_load(path, &arena, &faults, &err) != 0)
        return driver_verb_fail(&err);
    if (strcmp(verb, "add") == 0) {
        const struct fault f = {.kind = kind,
                                .device = str_z(a->device),
                                .code = a->code,
                                .ms = a->ms,
                                .step = a->step ? a->step : kind == FAULT_CRASH};
        vec_push_arena(&arena, &faults, f);
    } else {
        size_t left = 0;
        for (size_t i = 0; i < faults.n; i++)
            if (!driver_verb_matches_fault(&faults.p[i], !has_kind, kind, a->device))
                faults.p[left++] = faults.p[i];
        faults.n = left;
    }
    return fault_list_save(path, &faults, &err) == 0 ? VERB_OK : driver_verb_fail(&err);
}

static int list_faults(const char *path)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct faults faults;
    struct err err = {0};
    if (fault_list_load(path, &arena, &faults, &err) != 0)
        return driver_verb_fail(&err);
    fault_list_write(&faults, &out);
    (void)fputs(out.p, stdout);
    return VERB_OK;
}

static int driver_run_fault(void)
{
    const struct driver_args *a = &args;
    const char *verb = a->words.p[0];
    cleanup_sbuf struct sbuf path = {0};
    bool add = strcmp(verb, "add") == 0;
    if (add && a->words.n != 2)
        return cli_usage_error("driver fault", "KIND is missing");
    sbuf_addf(&path, "%s/%s/faults.json",
              a->sim.state ? a->sim.state : "/var/lib/kubelet/plugins/dray-sim", a->sim.node);
    if (strcmp(verb, "list") == 0 && a->words.n == 1)
        return list_faults(path.p);
    if (!add && strcmp(verb, "clear") != 0)
        return cli_usage_error("driver fault", "the commands are add KIND, clear and list");
    return change_faults(a, path.p, verb);
}

// --- profiles ------------------------------------------------------------------------------------

static int driver_run_profiles(void)
{
    for (size_t i = 0; i < profile_builtins_len; i++) {
        struct profile *p = NULL;
        struct err err;
        if (profile_parse(profile_builtins[i].text, &p, &err) != 0)
            return driver_verb_fail(&err);
        printf("%-26s %.*s\n", profile_builtins[i].name, STR_ARG(profile_about(p)));
        profile_free(p);
    }
    return VERB_OK;
}

static int write_slices(const struct profile_objects *o, struct json_writer *w, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < o->slices_len; i++) {
        const struct api_object object = {
            api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceSlice")), o->slices[i]};
        api_set_type_meta(&object);
        r = api_json_write(object.kind->type, object.value, w, err);
    }
    return r;
}

static int driver_run_show(void)
{
    const struct driver_args *a = &args;
    struct profile *p = NULL;
    struct profile_objects own;
    struct profile_objects shared;
    struct err err = {0};
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out, .indent = 2};
    int r = profile_open(a->words.p[0], &p, &err);
    if (r == 0)
        r = profile_node(p, str_z(a->sim.node ? a->sim.node : "node-0"), 0, &arena, &own, &err);
    if (r == 0)
        r = profile_shared(p, &arena, &shared, &err);
    json_write_array_begin(&w);
    if (r == 0)
        r = write_slices(&own, &w, &err);
    if (r == 0)
        r = write_slices(&shared, &w, &err);
    json_write_array_end(&w);
    profile_free(p);
    if (r != 0)
        return driver_verb_fail(&err);
    puts(out.p);
    return VERB_OK;
}
