// SPDX-License-Identifier: Apache-2.0
//
// dray controllers: DRA's controllers on any API server, instead of those of kube-controller-manager.
#include <stdlib.h>

#include "cmd/component.h"
#include "cmd/verb.h"
#include "ctl/ctl.h"
#include "server/pki.h"

#include "base/banned.h"

const char controllers_usage[] =
    "dray controllers [--kubeconfig FILE] [--controllers LIST] [FLAGS]\n\n"
    "Makes claims from templates, releases and deletes them, evicts pods from tainted devices, "
    "tells how\n"
    "full pools are, on any Kubernetes from 1.34 on. Switch the same controllers off in\n"
    "kube-controller-manager: --controllers=*,-resourceclaim-controller,"
    "-device-taint-eviction-controller,…\n\n"
    "--controllers LIST      '*' (the default): resourceclaim-controller,\n"
    "                        device-taint-eviction-controller, podgroup-protection-controller,\n"
    "                        resourcepoolstatusrequest-controller; NAME and -NAME choose others.\n"
    "                        Off unless named: garbage-collector-controller (all kinds, those "
    "of\n"
    "                        CustomResourceDefinitions too), and others that "
    "kube-controller-manager\n"
    "                        runs as well: docs/controllers.md\n"
    "--terminated-pod-gc-threshold N   how many pods that are over may stay; default 12500, 0: "
    "all\n"
    "--root-ca-file FILE     who vouches for the API server, for "
    "root-ca-certificate-publisher-controller\n" COMPONENT_USAGE;

struct controllers {
    const char *list, *root_ca_file;
    char *root_ca;
    int64_t terminated_pods;
    bool on[CTL_CONTROLLERS];
    struct exec *exec;
    struct features features;
    struct ctl *ctl;
};

static int check(void *arg, struct err *err)
{
    struct controllers *c = arg;
    int r = ctl_controllers_parse(str_z(c->list), c->on, err);
    if (r < 0)
        return err_wrap(err, "--controllers");
    if (c->on[CTL_ROOT_CA] && !c->root_ca_file)
        return err_set(err, ERR_INVALID, "%s needs --root-ca-file FILE",
                       ctl_controller_name(CTL_ROOT_CA));
    r = c->root_ca_file ? pki_read_file(c->root_ca_file, &c->root_ca, err) : 0;
    return r == -ENOENT ? err_set(err, ERR_INVALID, "there is no file %s", c->root_ca_file) : r;
}

static void start(void *arg, struct client *client, const struct features *features, bool standby)
{
    struct controllers *c = arg;
    c->features = *features;
    struct ctl_options o = {.client = client,
                            .exec = client->exec,
                            .features = &c->features,
                            .aggregate_roles = c->on[CTL_ROLES],
                            .collect_all = true, // who collects sees all, or takes too much
                            .terminated_pods = c->terminated_pods,
                            .root_ca = str_z(c->root_ca),
                            .standby = standby};
    for (size_t i = 0; i < CTL_CONTROLLERS; i++)
        o.off[i] = !c->on[i];
    c->ctl = ctl_new(&o);
    ctl_start(c->ctl);
}

static void lead(void *arg)
{
    struct controllers *c = arg;
    ctl_lead(c->ctl);
}

static void stop(void *arg)
{
    struct controllers *c = arg;
    ctl_free(take_ptr(c->ctl));
}

static bool synced(const void *arg)
{
    const struct controllers *c = arg;
    return ctl_synced(c->ctl);
}

static void metrics(const void *arg, struct sbuf *out)
{
    const struct controllers *c = arg;
    ctl_metrics(c->ctl, out);
}

int verb_controllers(int argc, char **argv)
{
    struct controllers c = {
        .list = "*",
        .terminated_pods = CTL_TERMINATED_PODS,
        .on = {[CTL_CLAIMS] = true, [CTL_TAINTS] = true, [CTL_POOLS] = true, [CTL_GROUPS] = true}};
    const struct option options[] = {{.name = "--controllers", .text = &c.list},
                                     {.name = "--terminated-pod-gc-threshold",
                                      .number = &c.terminated_pods},
                                     {.name = "--root-ca-file", .text = &c.root_ca_file}};
    const struct component_ops ops = {.name = "dray-controllers",
                                      .verb = "controllers",
                                      .listen = "127.0.0.1:10252",
                                      .options = options,
                                      .options_len = array_len(options),
                                      .check = check,
                                      .start = start,
                                      .lead = lead,
                                      .stop = stop,
                                      .synced = synced,
                                      .metrics = metrics,
                                      .arg = &c};
    int code = component_run(&ops, argc, argv);
    free(c.root_ca);
    return code;
}
