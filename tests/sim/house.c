// SPDX-License-Identifier: Apache-2.0
//
// The parts: how they start, crash and take their turns.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../fault/fault_vfs.h"
#include "sim.h"

#include "base/banned.h"

// From this seed on PodGroups are among what happens; earlier ones are what they were.
#define PRIORITY_SEEDS 10000
#define GROUP_SEEDS    20000
#define LOSS_SEEDS     40000

#define START_NS (INT64_C(1800000000) * CLOCK_NS_PER_SEC)

void sim_log(struct sim *s, const char *fmt, ...)
{
    struct sbuf b = {0};
    sbuf_addf(&b, "%10.3f ", (double)s->clock.mono / 1e9);
    va_list ap;
    va_start(ap, fmt);
    char text[512];
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    sbuf_addz(&b, text);
    if (s->verbose)
        puts(b.p);
    char **slot = &s->log[s->logged++ % LOG_LINES];
    free(*slot);
    *slot = sbuf_take(&b);
}

void sim_break(struct sim *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[4096];
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    sbuf_addf(&s->problem, "%10.3f %s\n", (double)s->clock.mono / 1e9, text);
    s->broken = true;
}

// --- Server --------------------------------------------------------------------------------------

static const struct registry_user user = {.name = STR_INIT("sim")};

static void must(int code, const struct err *err)
{
    if (code >= 0)
        return;
    (void)fprintf(stderr, "sim: %s\n", err->msg);
    abort();
}

void server_start(struct sim *s)
{
    struct err err = {0};
    struct exec *exec = exec_sim_exec(s->server_exec);
    const struct store_options so = {
        .exec = exec, .path = "sim.db", .vfs = "sim", .commit_on_exec = true};
    must(store_open(&so, &s->store, &err), &err);
    const struct registry_options ro = {.store = s->store,
                                        .exec = exec,
                                        .features = &s->features,
                                        .cel = api_cel_engine_rules(s->cel)};
    must(registry_new(&ro, &s->registry, &err), &err);
    s->hands = local_client_new(s->registry, exec, &user);
    s->net.server = s->hands;
    sim_log(s, "server starts at revision %llu", (unsigned long long)store_revision(s->store));
}

static void drain(struct exec_sim *e)
{
    while (exec_sim_step(e))
        ;
}

void server_crash(struct sim *s)
{
    if (!s->store)
        return;
    sim_log(s, "server crashes");
    net_server_lost(&s->net);
    fault_vfs_crash(); // what is not on disk now never will be
    drain(s->server_exec);
    client_free(s->hands);
    s->hands = NULL;
    drain(s->server_exec);
    registry_free(s->registry);
    store_close(s->store);
    drain(s->server_exec);
    s->registry = NULL;
    s->store = NULL;
    fault_vfs_restart();
}

// --- Parts ---------------------------------------------------------------------------------------

static void kubelet_ready(void *arg, const struct err *err)
{
    (void)arg;
    (void)err;
}

static struct profile *kubelet_profile(void)
{
    static const char text[] = "profile: \"n\"\nabout: nodes of the simulation\nnode:\n  status:\n"
                               "    allocatable: {cpu: \"8\", pods: \"20\"}\n";
    struct profile *p = NULL;
    struct err err = {0};
    must(profile_parse(str_z(text), &p, &err), &err);
    return p;
}

static struct profile *kubelet_profiles[1];

void part_start(struct sim *s, struct part *p)
{
    struct exec *exec = exec_sim_exec(p->exec);
    static const struct str names[] = {STR_INIT("dray"), STR_INIT("other")};
    bool divided = s->two_schedulers && !s->same_pods;
    sim_log(s, "%s starts", p->name);
    p->client = net_client_new(&s->net, exec, p->name);
    struct err err = {0};
    switch (p->kind) {
    case PART_SCHED: {
        const struct sched_options o = {.client = p->client,
                                        .names = divided ? &names[p - s->parts] : names,
                                        .names_len = divided ? 1 : 2,
                                        .features = &s->features,
                                        .policy = (enum alloc_policy)(s->seed % 3)};
        p->sched = sched_new(&o);
        sched_start(p->sched);
        break;
    }
    case PART_CTL: {
        struct ctl_options o = {.client = p->client,
                                .exec = exec,
                                .features = &s->features,
                                .off = {[CTL_WORKLOADS... CTL_CONTROLLERS - 1] = true}};
        o.off[CTL_NODES] = o.off[CTL_TAINT_EVICTION] = o.off[CTL_POD_GARBAGE] = !s->losses;
        p->ctl = ctl_new(&o);
        ctl_start(p->ctl);
        break;
    }
    case PART_KUBELET: {
        if (!kubelet_profiles[0])
            kubelet_profiles[0] = kubelet_profile();
        const struct sim_options o = {.client = p->client,
                                      .exec = exec,
                                      .profiles = kubelet_profiles,
                                      .profiles_len = 1,
                                      .ready = kubelet_ready};
        p->kubelet = sim_nodes_new(&o);
        must(sim_nodes_start(p->kubelet, &err), &err);
        break;
    }
    }
}

void part_crash(struct sim *s, struct part *p)
{
    if (!p->client)
        return;
    sim_log(s, "%s crashes", p->name);
    sched_free(p->sched);
    s->ctl_crashed |= p->ctl != NULL;
    ctl_free(p->ctl);
    sim_nodes_free(p->kubelet);
    p->sched = NULL;
    p->ctl = NULL;
    p->kubelet = NULL;
    net_client_kill(p->client);
    p->client = NULL;
    drain(p->exec);
}

// --- Life ----------------------------------------------------------------------------------------

void sim_open(struct sim *s, uint64_t seed, bool verbose)
{
    static const struct {
        const char *name;
        enum part_kind kind;
    } parts[PARTS] = {
        {"sched", PART_SCHED}, {"other", PART_SCHED}, {"ctl", PART_CTL}, {"kubelet", PART_KUBELET}};
    struct err err = {0};
    *s = (struct sim){.seed = seed, .verbose = verbose};
    rng_seeded_init(&s->rng, seed);
    rng_seeded_init(&s->net_rng, seed ^ 0x6e6574);
    rng_seeded_init(&s->server_rng, seed ^ 0x737276);
    clock_fake_init(&s->clock, START_NS);
    fault_vfs_new("sim", seed);
    s->net_exec = exec_sim_new(&s->clock, &s->net_rng.rng);
    s->server_exec = exec_sim_new(&s->clock, &s->server_rng.rng);
    net_init(&s->net, exec_sim_exec(s->net_exec), &s->net_rng.rng);
    s->net.verbose = verbose;
    features_init(&s->features, FEATURES_MINOR);
    s->cel = api_cel_engine_new();
    s->groups = seed >= GROUP_SEEDS;
    s->priorities = seed >= PRIORITY_SEEDS && !s->groups;
    s->losses = seed >= LOSS_SEEDS;
    if (s->groups)
        must(features_parse(&s->features,
                            STR("GenericWorkload=true,DRAWorkloadResourceClaims=true"), &err),
             &err);
    s->two_schedulers = seed % 2;
    s->same_pods = seed % 8 == 3;
    server_start(s);
    for (size_t i = 0; i < PARTS; i++) {
        struct part *p = &s->parts[i];
        p->name = parts[i].name;
        p->kind = parts[i].kind;
        p->used = i != 1 || s->two_schedulers;
        rng_seeded_init(&p->rng, seed ^ (0x70617274 + i));
        p->exec = exec_sim_new(&s->clock, &p->rng.rng);
        if (p->used)
            part_start(s, p);
    }
}

void sim_close(struct sim *s)
{
    for (size_t i = 0; i < PARTS; i++)
        part_crash(s, &s->parts[i]);
    server_crash(s);
    drain(s->net_exec);
    while (!list_empty(&s->net.orphans)) // they find no server
        exec_sim_run(s->net_exec, s->clock.mono + CLOCK_NS_PER_SEC);
    for (size_t i = 0; i < PARTS; i++)
        exec_sim_free(s->parts[i].exec);
    exec_sim_free(s->net_exec);
    exec_sim_free(s->server_exec);
    api_cel_engine_free(s->cel);
    fault_vfs_free();
    for (size_t i = 0; i < LOG_LINES; i++)
        free(s->log[i]);
    for (size_t i = 0; i < s->known.n; i++)
        free(s->known.p[i]);
    vec_done(&s->known);
    for (size_t i = 0; i < s->gangs.n; i++) {
        struct seen_gang *g = &s->gangs.p[i];
        for (size_t k = 0; k < g->pods.n; k++)
            free(g->pods.p[k]);
        for (size_t k = 0; k < g->bound.n; k++)
            free(g->bound.p[k]);
        vec_done(&g->pods);
        vec_done(&g->bound);
        free(g->uid);
    }
    vec_done(&s->gangs);
    sbuf_done(&s->problem);
    profile_free(kubelet_profiles[0]);
    kubelet_profiles[0] = NULL;
}

// --- Turns ---------------------------------------------------------------------------------------

// step gives one exec that has something to do its turn; which one is drawn. False: none has.
static bool step(struct sim *s)
{
    struct exec_sim *ready[PARTS + 2];
    size_t n = 0;
    struct exec_sim *all[PARTS + 2] = {s->net_exec, s->server_exec};
    for (size_t i = 0; i < PARTS; i++)
        all[i + 2] = s->parts[i].exec;
    for (size_t i = 0; i < PARTS + 2; i++)
        if (exec_sim_next_ns(all[i]) <= s->clock.mono)
            ready[n++] = all[i];
    if (n == 0)
        return false;
    s->steps++;
    return exec_sim_step(ready[n == 1 ? 0 : rng_below(&s->net_rng.rng, n)]);
}

static int64_t next_ns(const struct sim *s)
{
    int64_t next = exec_sim_next_ns(s->net_exec);
    int64_t server = exec_sim_next_ns(s->server_exec);
    next = server < next ? server : next;
    for (size_t i = 0; i < PARTS; i++) {
        int64_t at = exec_sim_next_ns(s->parts[i].exec);
        next = at < next ? at : next;
    }
    return next;
}

bool sim_run(struct sim *s, int64_t ns, uint64_t max)
{
    int64_t until = s->clock.mono + ns;
    for (uint64_t i = 0; i < max;) {
        if (step(s)) {
            i++;
            continue;
        }
        int64_t next = next_ns(s);
        if (next > until) {
            clock_fake_advance(&s->clock, until - s->clock.mono);
            return true;
        }
        clock_fake_advance(&s->clock, next - s->clock.mono);
    }
    return false;
}
