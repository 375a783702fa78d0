// SPDX-License-Identifier: Apache-2.0
//
// dray scheduler: the scheduler on any API server, beside kube-scheduler or instead of it.
#include "cmd/common.h"
#include "cmd/run/component.h"
#include "cmd/run/logging.h"
#include "cmd/verb.h"
#include "sched/sched.h"

#include "base/banned.h"

#define NAMES_MAX 16

static struct scheduler {
    const char *names, *policy_name, *preemption_name;
    struct str name[NAMES_MAX];
    size_t names_len;
    enum alloc_policy policy;
    enum sched_preemption preemption;
    int64_t settle_ns, binding_timeout_ns;
    struct sched *sched;
} scheduler = {.names = "dray",
               .policy_name = "pack",
               .preemption_name = "kubernetes",
               .settle_ns = 250 * CLOCK_NS_PER_MS,
               .binding_timeout_ns = 600 * CLOCK_NS_PER_SEC};

static int verb_scheduler(void);
static int scheduler_check(struct err *err);

static const struct cli_option scheduler_options[] = {
    {"--scheduler-name", NULL, "NAME[,NAME…]",
     "schedule pods with this spec.schedulerName; default dray; default-scheduler replaces "
     "kube-scheduler",
     .text = &scheduler.names},
    {"--policy", NULL, "POLICY", "choose devices by this policy; default pack",
     .text = &scheduler.policy_name, .choices = "pack spread first"},
    {"--preemption", NULL, "MODE",
     "delete pods of lower priority for a pod that fits nowhere, chosen as kube-scheduler does, or "
     "never; default kubernetes",
     .text = &scheduler.preemption_name, .choices = "kubernetes off"},
    {"--binding-timeout", NULL, "TIME",
     "release a device whose binding conditions are not true after this time; default 10m",
     .duration_ns = &scheduler.binding_timeout_ns, .least = CLOCK_NS_PER_SEC},
    {"--settle", NULL, "TIME",
     "wait at least this time before a Binding while other schedulers have pods with claims, and "
     "yield to their allocations; default 250ms, 0s: never",
     .duration_ns = &scheduler.settle_ns},
};
static const struct cli_group scheduler_group = CLI_GROUP("Options", scheduler_options);

const struct cli_verb scheduler_verb = {
    .name = "scheduler",
    .summary = "run the scheduler for a Kubernetes cluster",
    .chapter = CLI_CLUSTER,
    .synopsis = "scheduler [--kubeconfig FILE] [--scheduler-name NAME[,NAME…]] [OPTIONS]",
    .text = "Binds pods to nodes and allocates their devices on any Kubernetes from 1.34 on, "
            "beside kube-scheduler or instead of "
            "it. Several may run: one leads, the others are ready to take over.",
    .examples =
        "dray scheduler --kubeconfig scheduler.kubeconfig\n"
        "dray scheduler --config /etc/dray/scheduler.yaml --scheduler-name default-scheduler",
    .groups = {&scheduler_group, &component_group, &logging_group, &common_connect},
    .config = true,
    .check = scheduler_check,
    .run = verb_scheduler,
};

static int scheduler_check(struct err *err)
{
    struct scheduler *s = &scheduler;
    struct str rest = str_z(s->names);
    while (rest.n) {
        struct str name;
        str_cut(rest, ',', &name, &rest);
        if (s->names_len == NAMES_MAX || !name.n)
            return err_set(err, ERR_INVALID, "--scheduler-name takes 1 to %d names", NAMES_MAX);
        s->name[s->names_len++] = name;
    }
    (void)alloc_policy_parse(str_z(s->policy_name), &s->policy);
    (void)sched_preemption_parse(str_z(s->preemption_name), &s->preemption);
    return component_check(err);
}

static void scheduler_verb_start(void *arg, struct client *client, const struct features *features,
                                 bool standby)
{
    struct scheduler *s = arg;
    const struct sched_options o = {.client = client,
                                    .names = s->name,
                                    .names_len = s->names_len,
                                    .features = features,
                                    .policy = s->policy,
                                    .preemption = s->preemption,
                                    .settle_ns = s->settle_ns,
                                    .binding_timeout_ns = s->binding_timeout_ns,
                                    .standby = standby};
    s->sched = sched_new(&o);
    sched_start(s->sched);
}

static void scheduler_verb_lead(void *arg)
{
    struct scheduler *s = arg;
    sched_lead(s->sched);
}

static void scheduler_verb_stop(void *arg)
{
    struct scheduler *s = arg;
    sched_free(take_ptr(s->sched));
}

static bool scheduler_verb_is_synced(const void *arg)
{
    const struct scheduler *s = arg;
    return sched_synced(s->sched);
}

static void scheduler_verb_add_metrics(const void *arg, struct sbuf *out)
{
    const struct scheduler *s = arg;
    sched_metrics(s->sched, out);
}

static int verb_scheduler(void)
{
    const struct component_ops ops = {.name = "dray-scheduler",
                                      .verb = "scheduler",
                                      .listen = "127.0.0.1:10251",
                                      .start = scheduler_verb_start,
                                      .lead = scheduler_verb_lead,
                                      .stop = scheduler_verb_stop,
                                      .synced = scheduler_verb_is_synced,
                                      .metrics = scheduler_verb_add_metrics,
                                      .arg = &scheduler};
    return component_run(&ops);
}
