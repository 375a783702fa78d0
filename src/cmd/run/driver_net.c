// SPDX-License-Identifier: Apache-2.0
//
// dray driver net: this machine's network interfaces as DRA devices.
#include "cmd/run/driver_net.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/run/process.h"
#include "cmd/verb.h"
#include "driver/net.h"

#include "base/banned.h"

static struct net_args {
    const char *kubeconfig, *inject, *name;
    struct net_options net;
    struct net_filter filter;
    struct cli_texts only, skip, allow, vfs;
    bool list;
} args;

static int driver_run_net(void);
static int net_take_offer(const struct cli_option *o, const char *value, struct err *err);

static const struct cli_option net_options[] = {
    {"--node", NULL, "NAME", "be the driver of this node", .text = &args.net.node},
    {"--list", NULL, NULL, "show what would be published, and why others are not",
     .flag = &args.list},
    {"--only", NULL, "PATTERN", "publish interfaces of these names only; repeatable",
     .many = &args.only},
    {"--skip", NULL, "PATTERN", "do not publish interfaces of these names; repeatable",
     .many = &args.skip},
    {"--allow", NULL, "PATTERN",
     "publish these interfaces even if the default route needs them; repeatable",
     .many = &args.allow},
    {"--offer", NULL, "OFFER",
     "offer virtual interfaces: veth[:BRIDGE]=N, macvlan:PARENT=N, ipvlan:PARENT=N or "
     "vlan:PARENT=FIRST-LAST; repeatable",
     .take = net_take_offer, .repeats = true},
    {"--vfs", NULL, "IF=N", "create N virtual functions of an interface; repeatable",
     .many = &args.vfs},
    {"--name", NULL, "DRIVER", "set the name of the driver; default dra.net", .text = &args.name},
    {"--hook", NULL, "PATH",
     "call this program as the hook, a path on the host; default: this program",
     .text = &args.net.hook},
    {"--inject", NULL, "HOW", "move interfaces by the hook or let the runtime do it",
     .text = &args.inject, .choices = "hook runtime"},
    {"--kubeconfig", NULL, "FILE",
     "use this kubeconfig; default: $KUBECONFIG, ~/.kube/config, the pod's service account",
     .text = &args.kubeconfig},
    {"--plugins", NULL, "DIR", "listen here; default /var/lib/kubelet/plugins",
     .text = &args.net.plugins_dir},
    {"--registry", NULL, "DIR", "register here; default /var/lib/kubelet/plugins_registry",
     .text = &args.net.registry_dir},
    {"--cdi", NULL, "DIR", "write CDI specs here; default /var/run/cdi", .text = &args.net.cdi_dir},
    {"--instance", NULL, "UID",
     "set the pod's UID: two instances may run while one replaces the other",
     .text = &args.net.instance},
};
static const struct cli_group net_group = CLI_GROUP("Options", net_options);

const struct cli_verb driver_net_verb = {
    .name = "net",
    .summary = "run the driver for this machine's network interfaces",
    .synopsis = "net --node NAME [OPTIONS]\nnet --list [OPTIONS]",
    .text = "Publishes this machine's network interfaces as devices and moves them into pods "
            "(docs/design/driver-net.md).",
    .groups = {&net_group},
    .run = driver_run_net,
};

static int driver_net_fail(const struct err *err)
{
    char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX + 64];
    err_text(err, text, sizeof(text));
    (void)fprintf(stderr, "dray driver net: %s\n", text);
    return VERB_NO;
}

// --- The command line ----------------------------------------------------------------------------

static int net_take_offer(const struct cli_option *o, const char *value, struct err *err)
{
    struct net_offer offer;
    if (args.filter.offers.n == NET_OFFERS_MAX)
        return err_set(err, ERR_INVALID, "%s is given more than %d times", o->name, NET_OFFERS_MAX);
    if (net_offer_parse(value, &offer, err) != 0)
        return err_wrap(err, "%s", o->name);
    vec_push(&args.filter.offers, offer);
    return 0;
}

// --- Virtual functions ---------------------------------------------------------------------------

static int make_vfs(const struct net_args *a, struct err *err)
{
    vec_foreach(&a->vfs, text) {
        struct str name, number;
        int64_t n = 0;
        if (!str_cut(str_z(*text), '=', &name, &number) || str_to_i64(number, &n) != 0 || n < 1 ||
            net_name_check(name, NULL) != 0)
            return err_set(err, ERR_INVALID, "--vfs wants INTERFACE=N, not \"%.64s\"", *text);
        cleanup_free char *z = xstrndup(name.p, name.n);
        int r = net_vfs_make("/sys", z, n, err);
        if (r != 0)
            return r;
    }
    return 0;
}

// --- List ----------------------------------------------------------------------------------------

static int driver_net_list_devices(const struct net_args *a)
{
    cleanup_arena struct arena arena = {0};
    struct net_pci_names *names = net_pci_names_open(NET_PCI_IDS);
    struct net_view view = {.sys = "/sys", .names = names};
    struct net_devices devices = {0};
    struct err err = {0};
    int r = net_view_read(-1, &arena, &view, &err);
    if (r == 0)
        net_inventory(&view, &a->filter, &(struct net_records){0}, &arena, &devices);
    printf("%-20s %-15s %-10s %s\n", "DEVICE", "INTERFACE", "KIND", "ATTRIBUTES");
    vec_foreach(&devices, d)
        printf("%-20.*s %-15.*s %-10.*s %.*s\n", STR_ARG(d->name),
               STR_ARG(d->link ? str_z(d->link->name) : d->parent), STR_ARG(d->kind),
               STR_ARG(d->attributes));
    vec_foreach(&view.links, l) {
        const char *why = net_why_not(&view, &a->filter, l);
        if (why)
            printf("%-20s %-15s %-10s %s\n", "-", l->name, l->kind[0] ? l->kind : "device", why);
    }
    net_pci_names_free(names);
    return r == 0 ? VERB_OK : driver_net_fail(&err);
}

// --- Run -----------------------------------------------------------------------------------------

static void driver_net_on_change(void *arg, const char *what)
{
    (void)arg;
    printf("%s\n", what);
    (void)fflush(stdout);
}

static int driver_net_run_plugin(struct net_args *a)
{
    struct net_driver *driver = NULL;
    struct err err = {0};
    struct dray_error why = {0};
    static char self[PATH_MAX];
    if (!a->net.hook) {
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[n > 0 ? n : 0] = '\0';
        a->net.hook = self;
    }
    const struct dray_runtime_options where = {.kubeconfig = a->kubeconfig,
                                               .user_agent = "dray-driver-net"};
    process_hide();
    int r = make_vfs(a, &err);
    if (r == 0 && dray_runtime_new(&where, &a->net.runtime, &why) != 0)
        r = err_set(&err, ERR_UNAVAILABLE, "%s", why.message);
    a->net.filter = &a->filter;
    a->net.name = a->name;
    a->net.told = driver_net_on_change;
    if (r == 0)
        r = net_driver_start(&a->net, &driver, &err);
    if (r == 0) {
        driver_net_on_change(NULL, "driver runs");
        dray_runtime_run(a->net.runtime);
    }
    net_driver_stop(driver);
    if (a->net.runtime)
        dray_runtime_free(a->net.runtime);
    net_driver_free(driver);
    return r == 0 ? VERB_OK : driver_net_fail(&err);
}

static void net_copy_patterns(const struct cli_texts *from, struct net_patterns *to)
{
    vec_foreach(from, text)
        vec_push(to, *text);
}

static int driver_run_net(void)
{
    net_copy_patterns(&args.only, &args.filter.only);
    net_copy_patterns(&args.skip, &args.filter.skip);
    net_copy_patterns(&args.allow, &args.filter.allow);
    args.net.runtime_moves = args.inject && strcmp(args.inject, "runtime") == 0;
    int r = args.list       ? driver_net_list_devices(&args)
            : args.net.node ? driver_net_run_plugin(&args)
                            : cli_usage_error("driver net", "--node NAME or --list is missing");
    vec_done(&args.filter.only);
    vec_done(&args.filter.skip);
    vec_done(&args.filter.allow);
    vec_done(&args.filter.offers);
    return r;
}
