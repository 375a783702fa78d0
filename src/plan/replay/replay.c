// SPDX-License-Identifier: Apache-2.0
//
// The replay of a trace: pods one after the other through fleet and allocator, the measurement, and
// the servers that would have to be bought.
#include <math.h>

#include "plan/replay/replay_int.h"

#include "base/banned.h"

#define MIB         (INT64_C(1) << 20)
#define BINS        512 // of load in %
#define SERVER_GPUS 8
#define SERVERS_MAX 200000

static const char *const policy_names[] = {"pack", "whole", "first", "bestfit", "fgd"};

bool replay_policy_parse(struct str name, enum replay_policy *ret)
{
    size_t at = 0;
    bool known = replay_find_name(policy_names, array_len(policy_names), name, &at);
    if (known)
        *ret = (enum replay_policy)at;
    return known;
}

const char *replay_policy_name(enum replay_policy p)
{
    return policy_names[p];
}

// A trace on the stage.
struct play {
    const struct replay_trace *trace;
    const struct replay_options *options;
    struct rules *rules;
    struct stage stage;
};

static void replay_begin_play(struct play *s, const struct replay_trace *t,
                              const struct replay_options *options, bool any_model)
{
    *s = (struct play){.trace = t, .options = options};
    struct replay_world *w = replay_world_new(t, options->policy == REPLAY_WHOLE, any_model);
    s->rules = replay_rules_new(t, w, options->policy);
    bool first = options->policy == REPLAY_WHOLE || options->policy == REPLAY_FIRST;
    replay_stage_begin(&s->stage, w, replay_rules_fleet(s->rules),
                       first ? ALLOC_FIRST : ALLOC_PACK);
    s->stage.check = options->check;
}

static void replay_end_play(struct play *s)
{
    replay_stage_end(&s->stage);
    replay_rules_free(s->rules);
}

static int replay_add_node(struct play *s, const struct trace_node *n, uint32_t order,
                           struct err *err)
{
    int r = replay_world_add_node(s->stage.world, n, order, err);
    if (r == 0)
        replay_stage_update_node(&s->stage, (uint32_t)s->stage.world->nodes.n - 1);
    return r;
}

static const struct api_resource_claim *replay_make_claim(struct play *s, const struct trace_pod *p)
{
    uint64_t hash;
    const struct api_resource_claim *claim = replay_world_make_claim(s->stage.world, p, &hash);
    (void)fleet_ask(s->stage.fleet, hash, &claim, claim ? 1 : 0, p->cpu, p->memory * MIB);
    return claim;
}

// A history that is of another load is a beginning, which counts as so many requests at most; what
// arrives is learnt beside it, as a scheduler does.
#define HISTORY_COUNTS 1000.0

static bool replay_is_learning(const struct play *s)
{
    return s->options->policy == REPLAY_PACK &&
           (s->options->knowledge == REPLAY_KNOW_NOTHING || s->trace->has_history);
}

// What the policy knows before the first pod comes.
static void learn_before(struct play *s)
{
    double all = (double)replay_known_pods(s->trace)->n;
    double times = s->trace->has_history && all > HISTORY_COUNTS ? HISTORY_COUNTS / all : 1;
    if (s->options->policy != REPLAY_PACK || s->options->knowledge == REPLAY_KNOW_NOTHING)
        return;
    vec_foreach(replay_known_pods(s->trace), p) {
        (void)replay_make_claim(s, p);
        fleet_learn(s->stage.fleet, times);
    }
    fleet_settle(s->stage.fleet);
}

static int replay_place_pod(struct play *s, const struct trace_pod *p, uint32_t *ret_node,
                            struct err *err)
{
    const struct api_resource_claim *claim = replay_make_claim(s, p);
    if (replay_is_learning(s))
        fleet_learn(s->stage.fleet, 1);
    return replay_stage_place(&s->stage, claim, p, ret_node, err);
}

// --- A run ---------------------------------------------------------------------------------------

struct measure {
    int64_t capacity; // thousandths of GPUs
    int64_t arrived;
    int64_t used;
    double fragments; // of all nodes
    double *node_fragments;
    double sum[BINS];
    double frag_sum[BINS];
    size_t n[BINS];
};

static void measure_node(struct measure *m, const struct play *s, uint32_t node)
{
    double now = rules_fragments(s->rules, node, fleet_node_at(s->stage.fleet, node));
    m->fragments += now - m->node_fragments[node];
    m->node_fragments[node] = now;
}

static double load_of(const struct measure *m)
{
    return 100.0 * (double)m->arrived / (double)m->capacity;
}

// The share in use, in two digits as the published tables have it.
static void measure_bin(struct measure *m)
{
    double bin = floor(load_of(m) + 0.5);
    if (bin < 0 || bin >= BINS)
        return;
    m->sum[(size_t)bin] += round(10000.0 * (double)m->used / (double)m->capacity) / 100;
    m->frag_sum[(size_t)bin] += 100 * m->fragments / (double)m->capacity;
    m->n[(size_t)bin]++;
}

static double mean_at(const struct measure *m, const double *sum, size_t bin)
{
    // A trace that ends earlier counts as it stands there.
    while (bin > 0 && !m->n[bin])
        bin--;
    return m->n[bin] ? sum[bin] / (double)m->n[bin] : 0;
}

static int begin_run(struct play *s, const struct trace_line *order, struct measure *m,
                     struct err *err)
{
    const struct replay_trace *t = s->trace;
    cleanup_free uint32_t *place_of = xcalloc(t->nodes.n, sizeof(*place_of));
    for (uint32_t i = 0; i < t->nodes.n; i++)
        place_of[i] = order ? (uint32_t)t->nodes.n : i;
    for (size_t i = 0; order && i < order->n; i++)
        place_of[t->order.rows.p[order->first + i]] = (uint32_t)i;
    m->node_fragments = xcalloc(t->nodes.n, sizeof(double));
    for (uint32_t i = 0; i < t->nodes.n; i++) {
        int r = replay_add_node(s, &t->nodes.p[i], place_of[i], err);
        if (r < 0)
            return r;
        m->capacity += (int64_t)t->nodes.p[i].gpus * REPLAY_WHOLE_GPU;
        measure_node(m, s, i);
    }
    learn_before(s);
    return 0;
}

static int run_arrivals(struct play *s, const struct trace_line *line, struct measure *m,
                        struct replay_result *ret, struct err *err)
{
    const struct replay_trace *t = s->trace;
    int64_t spent = 0;
    ret->first_rejection = -1;
    for (size_t i = 0; i < line->n; i++) {
        const struct trace_pod *p = &t->pods.p[t->arrivals.rows.p[line->first + i]];
        uint32_t node = NO_NODE;
        int64_t before = clock_mono_ns(s->options->clock);
        int r = replay_place_pod(s, p, &node, err);
        spent += clock_mono_ns(s->options->clock) - before;
        if (r < 0)
            return r;
        m->arrived += (int64_t)p->num * p->milli;
        if (node != NO_NODE) {
            ret->pods++;
            m->used += (int64_t)p->num * p->milli;
            measure_node(m, s, node);
        } else if (ret->first_rejection < 0) {
            ret->first_rejection = load_of(m);
        }
        measure_bin(m);
    }
    if (ret->first_rejection < 0)
        ret->first_rejection = load_of(m); // none
    ret->decisions_per_second = spent > 0 ? 1e9 * (double)line->n / (double)spent : 0;
    return 0;
}

// --- Buying --------------------------------------------------------------------------------------

// The server that is bought: eight GPUs, with the most processors and memory of those in the trace.
static struct trace_node replay_make_server(const struct replay_trace *t)
{
    struct trace_node best = {.name = STR("server"), .gpus = SERVER_GPUS};
    vec_foreach(&t->nodes, n)
        if (n->gpus >= SERVER_GPUS &&
            (n->cpu > best.cpu || (n->cpu == best.cpu && n->memory > best.memory))) {
            best.cpu = n->cpu;
            best.memory = n->memory;
            best.model = n->model;
        }
    return best;
}

static bool could_run(const struct trace_node *server, const struct trace_pod *p)
{
    return p->num <= server->gpus && p->cpu <= server->cpu && p->memory <= server->memory;
}

static int buy_for(struct play *s, const struct trace_node *server, const struct trace_pod *p,
                   struct err *err)
{
    uint32_t node = NO_NODE;
    int r = could_run(server, p) ? replay_place_pod(s, p, &node, err) : 0;
    if (r < 0 || node != NO_NODE || !could_run(server, p))
        return r;
    if (s->stage.world->nodes.n == SERVERS_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d servers", SERVERS_MAX);
    r = replay_add_node(s, server, (uint32_t)s->stage.world->nodes.n, err);
    return r < 0 ? r : replay_place_pod(s, p, &node, err);
}

// All pods of the list, in the order in which they first arrive, on servers bought one by one.
static int replay_buy_nodes(const struct replay_trace *t, const struct replay_options *options,
                            const struct trace_line *line, double *ret, struct err *err)
{
    const struct trace_node server = replay_make_server(t);
    struct play s;
    int r = 0;
    if (!server.cpu)
        return 0; // no node of the trace is one
    cleanup_free bool *seen = xcalloc(t->pods.n, sizeof(*seen));
    replay_begin_play(&s, t, options, true);
    r = replay_add_node(&s, &server, 0, err);
    if (r == 0)
        learn_before(&s);
    for (size_t i = 0; r == 0 && i < line->n + t->pods.n; i++) {
        uint32_t row = i < line->n ? t->arrivals.rows.p[line->first + i] : (uint32_t)(i - line->n);
        if (!seen[row])
            r = buy_for(&s, &server, &t->pods.p[row], err);
        seen[row] = true;
    }
    *ret = (double)(s.stage.world->nodes.n * server.gpus);
    replay_end_play(&s);
    return r;
}

int replay_run(const struct replay_trace *t, const struct replay_options *options, size_t run,
               struct replay_result *ret, struct err *err)
{
    const struct trace_line *line = &t->arrivals.lines.p[run];
    const struct trace_line *order = NULL;
    struct play s;
    *ret = (struct replay_result){.seed = line->seed};
    vec_foreach(&t->order.lines, o)
        if (o->seed == line->seed)
            order = o;
    struct measure *m = xcalloc(1, sizeof(*m));
    replay_begin_play(&s, t, options, false);
    int r = begin_run(&s, order, m, err);
    if (r == 0)
        r = run_arrivals(&s, line, m, ret, err);
    ret->allocated100 = mean_at(m, m->sum, 100);
    ret->allocated130 = mean_at(m, m->sum, 130);
    ret->fragmentation = mean_at(m, m->frag_sum, 100);
    for (size_t i = 0; i <= REPLAY_LOAD_MOST; i++)
        ret->curve[i] = m->n[i] ? m->sum[i] / (double)m->n[i] : -1;
    replay_end_play(&s);
    free(m->node_fragments);
    free(m);
    if (r == 0 && !options->no_buying)
        r = replay_buy_nodes(t, options, line, &ret->gpus_to_buy, err);
    return r;
}

// --- Output --------------------------------------------------------------------------------------

#define COLUMN(key, title, width, decimals, exact, member)                         \
    {                                                                              \
        key, title, width, decimals, exact, offsetof(struct replay_result, member) \
    }

static const struct replay_column replay_columns[] = {
    COLUMN("allocated100", "AT 100", 9, 2, false, allocated100),
    COLUMN("allocated130", "AT 130", 9, 2, false, allocated130),
    COLUMN("firstRejection", "REJECTS", 9, 2, false, first_rejection),
    COLUMN("pods", "PODS", 8, 1, true, pods),
    COLUMN("gpusToBuy", "TO BUY", 9, 1, true, gpus_to_buy),
    COLUMN("fragmentation", "FRAGMENTS", 9, 2, false, fragmentation),
    COLUMN("decisionsPerSecond", "DECISIONS/S", 12, 0, false, decisions_per_second),
};

static void replay_add_curve(const struct replay_result *r, struct sbuf *out)
{
    const char *comma = "";
    sbuf_addz(out, "\"curve\":[");
    for (size_t i = 0; i <= REPLAY_LOAD_MOST; i++)
        if (r->curve[i] >= 0) {
            sbuf_addf(out, "%s[%zu,%.4f]", comma, i, r->curve[i]);
            comma = ",";
        }
    sbuf_addz(out, "],");
}

void replay_json(const struct replay_options *options, const struct replay_result *results,
                 size_t n, struct sbuf *out)
{
    sbuf_addf(out, "{\"policy\":\"%s\",", replay_policy_name(options->policy));
    if (n == 1)
        sbuf_addf(out, "\"seed\":%lld,", (long long)results[0].seed);
    if (n == 1 && options->curve)
        replay_add_curve(&results[0], out);
    replay_report_json(&(struct replay_report){replay_columns, array_len(replay_columns), results,
                                               sizeof(*results), n},
                       out);
}

void replay_text(const struct replay_options *options, const struct replay_result *results,
                 size_t n, struct sbuf *out)
{
    sbuf_addf(out, "policy %s; %% of GPU capacity\n", replay_policy_name(options->policy));
    replay_report_text(&(struct replay_report){replay_columns, array_len(replay_columns), results,
                                               sizeof(*results), n},
                       out);
}
