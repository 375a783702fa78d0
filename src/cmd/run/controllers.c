// SPDX-License-Identifier: Apache-2.0
//
// dray controllers: DRA's controllers on any API server, instead of those of
// kube-controller-manager.
#include <stdlib.h>

#include "cmd/common.h"
#include "cmd/run/component.h"
#include "cmd/run/logging.h"
#include "cmd/verb.h"
#include "ctl/ctl.h"
#include "pki/pki.h"

#include "base/banned.h"

static struct controllers {
    const char *list, *root_ca_file;
    char *root_ca;
    int64_t terminated_pods;
    bool on[CTL_CONTROLLERS];
    struct exec *exec;
    struct features features;
    struct ctl *ctl;
} controllers = {
    .list = "*",
    .terminated_pods = CTL_TERMINATED_PODS,
    .on = {[CTL_CLAIMS] = true, [CTL_TAINTS] = true, [CTL_POOLS] = true, [CTL_GROUPS] = true}};

static int verb_controllers(void);
static int controllers_check(struct err *err);

static const struct cli_option controllers_options[] = {
    {"--controllers", NULL, "LIST",
     "run these controllers: '*' (the default) stands for resourceclaim-controller, "
     "device-taint-eviction-controller, podgroup-protection-controller and "
     "resourcepoolstatusrequest-controller; NAME adds and -NAME removes one. Off unless named: "
     "garbage-collector-controller (all kinds) and others that kube-controller-manager runs as "
     "well: docs/design/controllers.md",
     .text = &controllers.list},
    {"--terminated-pod-gc-threshold", NULL, "N",
     "keep at most this many terminated pods; default 12500, 0: all",
     .number = &controllers.terminated_pods, .most = CLI_MOST},
    {"--root-ca-file", NULL, "FILE",
     "publish this CA, for root-ca-certificate-publisher-controller",
     .text = &controllers.root_ca_file},
};
static const struct cli_group controllers_group = CLI_GROUP("Options", controllers_options);

const struct cli_verb controllers_verb = {
    .name = "controllers",
    .summary = "run the DRA controllers for a Kubernetes cluster",
    .chapter = CLI_CLUSTER,
    .synopsis = "controllers [--kubeconfig FILE] [--controllers LIST] [OPTIONS]",
    .text = "Creates claims from templates, releases and deletes them, evicts pods from tainted "
            "devices and reports the status of "
            "pools, on any Kubernetes from 1.34 on. Disable the same controllers in "
            "kube-controller-manager:\n"
            "  --controllers=*,-resourceclaim-controller,-device-taint-eviction-controller,…",
    .examples = "dray controllers --kubeconfig controllers.kubeconfig\n"
                "dray controllers --controllers '*,garbage-collector-controller'",
    .groups = {&controllers_group, &component_group, &logging_group, &common_connect},
    .config = true,
    .check = controllers_check,
    .run = verb_controllers,
};

static int controllers_check(struct err *err)
{
    struct controllers *c = &controllers;
    if (ctl_controllers_parse(str_z(c->list), c->on, err) < 0)
        return err_wrap(err, "--controllers");
    if (c->on[CTL_ROOT_CA] && !c->root_ca_file)
        return err_set(err, ERR_INVALID, "%s needs --root-ca-file FILE",
                       ctl_controller_name(CTL_ROOT_CA));
    int r = c->root_ca_file ? pki_read_file(c->root_ca_file, &c->root_ca, err) : 0;
    if (r == -ENOENT)
        r = err_set(err, ERR_INVALID, "there is no file %s", c->root_ca_file);
    return r < 0 ? r : component_check(err);
}

static void controllers_verb_start(void *arg, struct client *client,
                                   const struct features *features, bool standby)
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

static void controllers_verb_lead(void *arg)
{
    struct controllers *c = arg;
    ctl_lead(c->ctl);
}

static void controllers_verb_stop(void *arg)
{
    struct controllers *c = arg;
    ctl_free(take_ptr(c->ctl));
}

static bool controllers_verb_is_synced(const void *arg)
{
    const struct controllers *c = arg;
    return ctl_synced(c->ctl);
}

static void controllers_verb_add_metrics(const void *arg, struct sbuf *out)
{
    const struct controllers *c = arg;
    ctl_metrics(c->ctl, out);
}

static int verb_controllers(void)
{
    const struct component_ops ops = {.name = "dray-controllers",
                                      .verb = "controllers",
                                      .listen = "127.0.0.1:10252",
                                      .start = controllers_verb_start,
                                      .lead = controllers_verb_lead,
                                      .stop = controllers_verb_stop,
                                      .synced = controllers_verb_is_synced,
                                      .metrics = controllers_verb_add_metrics,
                                      .arg = &controllers};
    int r = component_run(&ops);
    free(controllers.root_ca);
    return r;
}
