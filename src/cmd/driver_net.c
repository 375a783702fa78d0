// SPDX-License-Identifier: Apache-2.0
//
// dray driver net: this machine's network interfaces as DRA devices.
#include "cmd/driver_net.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/process.h"
#include "cmd/verb.h"
#include "driver/net.h"

#include "base/banned.h"

struct net_args {
    const char *kubeconfig, *inject, *name;
    struct net_options net;
    struct net_filter filter;
    struct net_patterns vfs;
    bool list;
};

static int fail(const struct err *err)
{
    char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX + 64];
    err_text(err, text, sizeof(text));
    (void)fprintf(stderr, "dray driver net: %s\n", text);
    return VERB_NO;
}

// --- The command line ----------------------------------------------------------------------------

static bool add_offer(struct net_args *a, const char *text)
{
    struct net_offer o;
    struct err err;
    if (a->filter.offers.n == NET_OFFERS_MAX || net_offer_parse(text, &o, &err) != 0) {
        (void)fprintf(stderr, "dray driver net: --offer: %s\n",
                      a->filter.offers.n == NET_OFFERS_MAX ? "too many" : err.msg);
        return false;
    }
    vec_push(&a->filter.offers, o);
    return true;
}

static bool take(struct net_args *a, const char *name, const char *value)
{
    const struct {
        const char *name, **text;
        struct net_patterns *list;
    } options[] = {
        {"--kubeconfig", &a->kubeconfig, NULL},
        {"--node", &a->net.node, NULL},
        {"--name", &a->name, NULL},
        {"--plugins", &a->net.plugins_dir, NULL},
        {"--registry", &a->net.registry_dir, NULL},
        {"--cdi", &a->net.cdi_dir, NULL},
        {"--instance", &a->net.instance, NULL},
        {"--hook", &a->net.hook, NULL},
        {"--inject", &a->inject, NULL},
        {"--only", NULL, &a->filter.only},
        {"--skip", NULL, &a->filter.skip},
        {"--allow", NULL, &a->filter.allow},
        {"--vfs", NULL, &a->vfs},
    };
    if (strcmp(name, "--offer") == 0)
        return add_offer(a, value);
    for (size_t i = 0; i < array_len(options); i++) {
        if (strcmp(name, options[i].name) != 0)
            continue;
        if (options[i].text)
            *options[i].text = value;
        else if (options[i].list)
            vec_push(options[i].list, value);
        return true;
    }
    return false;
}

static bool parse(struct net_args *a, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (strcmp(argv[i], "--list") == 0) {
            a->list = true;
        } else if (equals && strncmp(argv[i], "--", 2) == 0) {
            *equals = '\0';
            if (!take(a, argv[i], equals + 1))
                return false;
        } else if (i + 1 >= argc || !take(a, argv[i], argv[i + 1])) {
            return false;
        } else {
            i++;
        }
    }
    return true;
}

// --- Virtual functions -----------------------------------------------------------------------------

static int make_vfs(const struct net_args *a, struct err *err)
{
    vec_foreach(&a->vfs, text) {
        struct str name, number;
        int64_t n = 0;
        if (!str_cut(str_z(*text), '=', &name, &number) || str_to_i64(number, &n) != 0 || n < 1 ||
            net_name_check(name, NULL) != 0)
            return err_set(err, ERR_INVALID, "--vfs wants INTERFACE=N, not \"%.64s\"", *text);
        cleanup_free char *z = xstrndup(name.p, name.n);
        int code = net_vfs_make("/sys", z, n, err);
        if (code != 0)
            return code;
    }
    return 0;
}

// --- List ----------------------------------------------------------------------------------------

static int list(const struct net_args *a)
{
    cleanup_arena struct arena arena = {0};
    struct net_pci_names *names = net_pci_names_open(NET_PCI_IDS);
    struct net_view view = {.sys = "/sys", .names = names};
    struct net_devices devices = {0};
    struct err err = {0};
    int code = net_view_read(-1, &arena, &view, &err);
    if (code == 0)
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
    return code == 0 ? VERB_OK : fail(&err);
}

// --- Run -----------------------------------------------------------------------------------------

static void told(void *arg, const char *what)
{
    (void)arg;
    printf("%s\n", what);
    (void)fflush(stdout);
}

static int run(struct net_args *a)
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
    int code = make_vfs(a, &err);
    if (code == 0 && dray_runtime_new(&where, &a->net.runtime, &why) != 0)
        code = err_set(&err, ERR_UNAVAILABLE, "%s", why.message);
    a->net.filter = &a->filter;
    a->net.name = a->name;
    a->net.told = told;
    if (code == 0)
        code = net_driver_start(&a->net, &driver, &err);
    if (code == 0) {
        told(NULL, "driver runs");
        dray_runtime_run(a->net.runtime);
    }
    net_driver_stop(driver);
    if (a->net.runtime)
        dray_runtime_free(a->net.runtime);
    net_driver_free(driver);
    return code == 0 ? VERB_OK : fail(&err);
}

int driver_net(int argc, char **argv)
{
    struct net_args a = {0};
    int rc;
    if (!parse(&a, argc, argv))
        rc = verb_usage_error("driver", verb_no_sense);
    else if (a.inject && strcmp(a.inject, "hook") != 0 && strcmp(a.inject, "runtime") != 0)
        rc = verb_usage_error("driver", "--inject is hook or runtime");
    else if (a.list)
        rc = list(&a);
    else if (!a.net.node)
        rc = verb_usage_error("driver", "net needs --node");
    else {
        a.net.runtime_moves = a.inject && strcmp(a.inject, "runtime") == 0;
        rc = run(&a);
    }
    vec_done(&a.filter.only);
    vec_done(&a.filter.skip);
    vec_done(&a.filter.allow);
    vec_done(&a.filter.offers);
    vec_done(&a.vfs);
    return rc;
}
