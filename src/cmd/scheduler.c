// SPDX-License-Identifier: Apache-2.0
//
// dray scheduler: the scheduler on any API server, beside kube-scheduler or instead of it.
#include "cmd/component.h"
#include "cmd/verb.h"
#include "sched/sched.h"

#include "base/banned.h"

const char scheduler_usage[] =
    "dray scheduler [--kubeconfig FILE] [--scheduler-name NAME[,NAME…]] [FLAGS]\n\n"
    "Gives pods whose spec.schedulerName is NAME (default dray; default-scheduler: instead of "
    "kube-scheduler)\n"
    "a node and devices, on any Kubernetes from 1.34 on. Several may run: one leads, the others "
    "know all\n"
    "and stand by.\n\n"
    "--policy pack|spread|first   how devices are chosen; default pack\n"
    "--binding-timeout 10m   give a device back when its binding conditions are not true after so "
    "long\n"
    "--settle 250ms          while other schedulers have pods with claims to place, wait at least "
    "so "
    "long\n"
    "                        before a Binding, and give way to what they wrote; 0s: "
    "never\n" COMPONENT_USAGE;

#define NAMES_MAX 16

struct scheduler {
    const char *names, *policy_name;
    struct str name[NAMES_MAX];
    size_t names_len;
    enum alloc_policy policy;
    int64_t settle_ns, binding_timeout_ns;
    struct sched *sched;
};

static int check(void *arg, struct err *err)
{
    struct scheduler *s = arg;
    struct str rest = str_z(s->names);
    while (rest.n) {
        struct str name;
        str_cut(rest, ',', &name, &rest);
        if (s->names_len == NAMES_MAX || !name.n)
            return err_set(err, ERR_INVALID, "--scheduler-name takes 1 to %d names", NAMES_MAX);
        s->name[s->names_len++] = name;
    }
    if (!alloc_policy_parse(str_z(s->policy_name), &s->policy))
        return err_set(err, ERR_INVALID, "--policy is pack, spread or first, not '%s'",
                       s->policy_name);
    if (s->binding_timeout_ns < CLOCK_NS_PER_SEC)
        return err_set(err, ERR_INVALID, "--binding-timeout is 1s at least");
    return 0;
}

static void start(void *arg, struct client *client, const struct features *features, bool standby)
{
    struct scheduler *s = arg;
    const struct sched_options o = {.client = client,
                                    .names = s->name,
                                    .names_len = s->names_len,
                                    .features = features,
                                    .policy = s->policy,
                                    .settle_ns = s->settle_ns,
                                    .binding_timeout_ns = s->binding_timeout_ns,
                                    .standby = standby};
    s->sched = sched_new(&o);
    sched_start(s->sched);
}

static void lead(void *arg)
{
    struct scheduler *s = arg;
    sched_lead(s->sched);
}

static void stop(void *arg)
{
    struct scheduler *s = arg;
    sched_free(take_ptr(s->sched));
}

static bool synced(const void *arg)
{
    const struct scheduler *s = arg;
    return sched_synced(s->sched);
}

static void metrics(const void *arg, struct sbuf *out)
{
    const struct scheduler *s = arg;
    sched_metrics(s->sched, out);
}

int verb_scheduler(int argc, char **argv)
{
    struct scheduler s = {.names = "dray",
                          .policy_name = "pack",
                          .settle_ns = 250 * CLOCK_NS_PER_MS,
                          .binding_timeout_ns = 600 * CLOCK_NS_PER_SEC};
    const struct option options[] = {{.name = "--scheduler-name", .text = &s.names},
                                     {.name = "--policy", .text = &s.policy_name},
                                     {.name = "--settle", .duration_ns = &s.settle_ns},
                                     {.name = "--binding-timeout",
                                      .duration_ns = &s.binding_timeout_ns}};
    const struct component_ops ops = {.name = "dray-scheduler",
                                      .verb = "scheduler",
                                      .listen = "127.0.0.1:10251",
                                      .options = options,
                                      .options_len = array_len(options),
                                      .check = check,
                                      .start = start,
                                      .lead = lead,
                                      .stop = stop,
                                      .synced = synced,
                                      .metrics = metrics,
                                      .arg = &s};
    return component_run(&ops, argc, argv);
}
