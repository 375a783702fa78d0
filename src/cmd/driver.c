// SPDX-License-Identifier: Apache-2.0
//
// dray driver: DRA drivers for network interfaces and for simulated hardware, and faults for the latter.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cmd/driver_net.h"
#include "cmd/option.h"
#include "cmd/process.h"
#include "cmd/verb.h"
#include "codec/json_writer.h"
#include "driver/fault.h"
#include "driver/hw_sim.h"

#include "base/banned.h"

const char driver_usage[] =
    "dray driver sim --profile NAME[,NAME…] (--node NAME | --nodes N) [FLAGS]\n"
    "dray driver fault [--state DIR] --node NAME add KIND [--device D] [--code N] [--ms N] [--step "
    "N]\n"
    "dray driver fault [--state DIR] --node NAME clear [KIND] [--device D]\n"
    "dray driver fault [--state DIR] --node NAME list\n"
    "dray driver net --node NAME [FLAGS]\n"
    "dray driver profiles\n"
    "dray driver show PROFILE [--node NAME]\n\n"
    "sim: DRA drivers for hardware that is not there, under this machine's kubelet or any other.\n"
    "They publish what a profile says, prepare and unprepare claims, survive being killed, and "
    "heal\n"
    "devices that fail. 'dray driver profiles' lists the profiles; a path to a YAML file works "
    "too.\n"
    "--node NAME         be the drivers of this node; --nodes N: of N nodes <profile>-<number>\n"
    "--kubeconfig FILE   default $KUBECONFIG, ~/.kube/config, or the pod's service account\n"
    "--plugins DIR       default /var/lib/kubelet/plugins; --registry DIR: ….plugins_registry;\n"
    "--cdi DIR           default /var/run/cdi\n"
    "--root DIR          instead: DIR/<node>/{plugins,plugins_registry,cdi} for each node\n"
    "--instance UID      the pod's UID: two instances may run while one replaces the other\n"
    "--lease-namespace NS   where each pool has a Lease that tells that its driver lives; default\n"
    "                    kube-system, '': none. --lease-seconds N: how long it is good for, 40\n"
    "--make-nodes        create Node objects (kubelets do that otherwise)\n"
    "--no-classes        do not create the profile's DeviceClasses\n"
    "--no-shared         leave pools that belong to no node to another process\n"
    "--evict             taints of failed devices evict pods (NoExecute); default: they wait\n"
    "--attach-ms N       how long attaching takes, default 2000; --reset-ms N: a reset, 1000\n\n"
    "net: this machine's network interfaces (docs/driver-net.md). --node, --kubeconfig, "
    "--plugins,\n"
    "--registry, --cdi and --instance as above; may be repeated: --only, --skip and --allow "
    "PATTERN\n"
    "(of interface names; --allow also gives away what the default route needs), --offer\n"
    "veth[:BRIDGE]=N, macvlan:PARENT=N, ipvlan:PARENT=N, vlan:PARENT=FIRST-LAST, --vfs IF=N.\n"
    "--name DRIVER (dra.net), --hook PATH (of this program on the host), --inject hook|runtime,\n"
    "--list: show what would be published, and why others are not.\n\n"
    "show: the ResourceSlices that a node of a profile publishes, as JSON.\n"
    "fault: what is wrong with a node's hardware ('shared': what belongs to no node). KIND is\n"
    "xid (--code), lost, slow-prepare (--ms), prepare-failure, unprepare-failure,\n"
    "crash (--step: the driver dies at that step of the next call), attach-failure,\n"
    "slow-attach (--ms). --state DIR: what sim has as --root, or its plugins folder + /dray-sim.";

struct driver_args {
    const char *profiles, *kubeconfig, *node, *device, *state;
    struct hw_sim_options sim;
    int64_t code, ms, step;
    struct VEC(const char *) words;
    bool bad;
};

static void parse(struct driver_args *a, int argc, char **argv)
{
    int64_t nodes = 0;
    const struct option options[] = {
        {.name = "--profile", .text = &a->profiles},
        {.name = "--kubeconfig", .text = &a->kubeconfig},
        {.name = "--node", .text = &a->node},
        {.name = "--nodes", .number = &nodes},
        {.name = "--plugins", .text = &a->sim.plugins_dir},
        {.name = "--registry", .text = &a->sim.registry_dir},
        {.name = "--cdi", .text = &a->sim.cdi_dir},
        {.name = "--root", .text = &a->sim.root},
        {.name = "--instance", .text = &a->sim.instance},
        {.name = "--lease-namespace", .text = &a->sim.lease_namespace},
        {.name = "--lease-seconds", .number = &a->sim.lease_seconds, .least = 1},
        {.name = "--state", .text = &a->state},
        {.name = "--make-nodes", .flag = &a->sim.make_nodes, .value = true},
        {.name = "--no-classes", .flag = &a->sim.make_classes, .value = false},
        {.name = "--no-shared", .flag = &a->sim.shared, .value = false},
        {.name = "--evict", .flag = &a->sim.evict, .value = true},
        {.name = "--attach-ms", .number = &a->sim.attach_ms},
        {.name = "--reset-ms", .number = &a->sim.reset_ms},
        {.name = "--device", .text = &a->device},
        {.name = "--code", .number = &a->code},
        {.name = "--ms", .number = &a->ms},
        {.name = "--step", .number = &a->step},
    };
    for (int i = 2; i < argc; i++) {
        bool known = argv[i][0] != '-';
        if (known)
            vec_push(&a->words, argv[i]);
        for (size_t k = 0; k < array_len(options) && !known; k++)
            known = option_take(&options[k], argc, argv, &i);
        a->bad = a->bad || !known;
    }
    a->sim.node = a->node;
    a->sim.nodes = (size_t)nodes;
    a->sim.state = a->state;
}

static int fail(const struct err *err)
{
    char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX + 64];
    err_text(err, text, sizeof(text));
    (void)fprintf(stderr, "dray driver: %s\n", text);
    return VERB_NO;
}

// --- sim -----------------------------------------------------------------------------------------

enum { PROFILES_MAX = 64 };

static int open_profiles(const char *names, struct profile **ret, size_t *n, struct err *err)
{
    struct str rest = str_z(names);
    while (rest.n) {
        struct str name;
        str_cut(rest, ',', &name, &rest);
        if (*n == PROFILES_MAX)
            return err_set(err, ERR_TOO_MANY, "at most %d profiles", PROFILES_MAX);
        cleanup_free char *z = xstrndup(name.p, name.n);
        int rc = profile_open(z, &ret[*n], err);
        if (rc != 0)
            return rc;
        (*n)++;
    }
    return 0;
}

static void told(void *arg, const char *node, const char *driver, const char *what)
{
    (void)arg;
    printf("%s%s%s: %s\n", node, *node ? " " : "", driver, what);
    (void)fflush(stdout);
}

static int run_sim(struct driver_args *a)
{
    struct profile *profiles[PROFILES_MAX];
    size_t n = 0;
    struct err err = {0};
    struct dray_error why = {0};
    if (!a->profiles || (!a->node && a->sim.nodes == 0) || a->words.n)
        return verb_usage_error("driver", "sim needs --profile, and --node or --nodes");
    if (a->sim.nodes > 0 && !a->sim.root)
        return verb_usage_error("driver", "--nodes needs --root, a folder for their sockets");
    const struct dray_runtime_options where = {.kubeconfig = a->kubeconfig,
                                               .user_agent = "dray-driver-sim"};
    process_hide();
    int rc = open_profiles(a->profiles, profiles, &n, &err);
    if (rc == 0 && dray_runtime_new(&where, &a->sim.runtime, &why) != 0)
        rc = err_set(&err, ERR_UNAVAILABLE, "%s", why.message);
    struct hw_sim *sim = NULL;
    if (rc == 0) {
        a->sim.profiles = profiles;
        a->sim.profiles_len = n;
        a->sim.told = told;
        rc = hw_sim_start(&a->sim, &sim, &err);
    }
    if (rc == 0) {
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
    return rc == 0 ? VERB_OK : fail(&err);
}

// --- fault ---------------------------------------------------------------------------------------

static bool matches(const struct fault *f, bool any_kind, enum fault_kind kind, const char *device)
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
        return verb_usage_error("driver", "there is no such fault");
    if (faults_load(path, &arena, &faults, &err) != 0)
        return fail(&err);
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
            if (!matches(&faults.p[i], !has_kind, kind, a->device))
                faults.p[left++] = faults.p[i];
        faults.n = left;
    }
    return faults_save(path, &faults, &err) == 0 ? VERB_OK : fail(&err);
}

static int list_faults(const char *path)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct faults faults;
    struct err err = {0};
    if (faults_load(path, &arena, &faults, &err) != 0)
        return fail(&err);
    faults_write(&faults, &out);
    (void)fputs(out.p, stdout);
    return VERB_OK;
}

static int run_fault(const struct driver_args *a)
{
    const char *verb = a->words.n ? a->words.p[0] : "";
    cleanup_sbuf struct sbuf path = {0};
    bool add = strcmp(verb, "add") == 0;
    if (!a->node || a->words.n > 2 || (add && a->words.n != 2))
        return verb_usage_error("driver", "fault needs --node and add KIND, clear or list");
    sbuf_addf(&path, "%s/%s/faults.json", a->state ? a->state : "/var/lib/kubelet/plugins/dray-sim",
              a->node);
    if (strcmp(verb, "list") == 0 && a->words.n == 1)
        return list_faults(path.p);
    if (!add && strcmp(verb, "clear") != 0)
        return verb_usage_error("driver", "fault needs add KIND, clear or list");
    return change_faults(a, path.p, verb);
}

// --- profiles ------------------------------------------------------------------------------------

static int run_profiles(void)
{
    for (size_t i = 0; i < profile_builtins_len; i++) {
        struct profile *p = NULL;
        struct err err;
        if (profile_parse(profile_builtins[i].text, &p, &err) != 0)
            return fail(&err);
        printf("%-26s %.*s\n", profile_builtins[i].name, STR_ARG(profile_about(p)));
        profile_free(p);
    }
    return VERB_OK;
}

static int write_slices(const struct profile_objects *o, struct json_writer *w, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < o->slices_len; i++) {
        const struct api_object object = {
            api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceSlice")), o->slices[i]};
        api_set_type_meta(&object);
        rc = api_json_write(object.kind->type, object.value, w, err);
    }
    return rc;
}

static int run_show(const struct driver_args *a)
{
    struct profile *p = NULL;
    struct profile_objects own;
    struct profile_objects shared;
    struct err err = {0};
    if (a->words.n != 1)
        return verb_usage_error("driver", "show needs a profile");
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out, .indent = 2};
    int rc = profile_open(a->words.p[0], &p, &err);
    if (rc == 0)
        rc = profile_node(p, str_z(a->node ? a->node : "node-0"), 0, &arena, &own, &err);
    if (rc == 0)
        rc = profile_shared(p, &arena, &shared, &err);
    json_write_array_begin(&w);
    if (rc == 0)
        rc = write_slices(&own, &w, &err);
    if (rc == 0)
        rc = write_slices(&shared, &w, &err);
    json_write_array_end(&w);
    profile_free(p);
    if (rc != 0)
        return fail(&err);
    puts(out.p);
    return VERB_OK;
}

int verb_driver(int argc, char **argv)
{
    struct driver_args a = {.sim = {.lease_namespace = "kube-system",
                                    .make_classes = true,
                                    .shared = true,
                                    .attach_ms = 2000,
                                    .reset_ms = 1000}};
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "net") == 0)
        return driver_net(argc, argv);
    parse(&a, argc, argv);
    int rc;
    if (a.bad)
        rc = verb_usage_error("driver", verb_no_sense);
    else if (strcmp(what, "sim") == 0)
        rc = run_sim(&a);
    else if (strcmp(what, "fault") == 0)
        rc = run_fault(&a);
    else if (strcmp(what, "profiles") == 0 && a.words.n == 0)
        rc = run_profiles();
    else if (strcmp(what, "show") == 0)
        rc = run_show(&a);
    else
        rc = verb_usage_error("driver", "it is sim, net, fault, profiles or show");
    vec_done(&a.words);
    return rc;
}
