// SPDX-License-Identifier: Apache-2.0
//
// dray replay: a trace of a cluster through the allocator, and how full the cluster gets.
#include "plan/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/vec.h"
#include "cmd/input.h"
#include "cmd/verb.h"
#include "plan/replay_mig.h"

#include "base/banned.h"

// Processor time, so that what else the machine does is not counted.
static int64_t processor_ns(const struct clock *c)
{
    (void)c;
    struct timespec ts = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * CLOCK_NS_PER_SEC + ts.tv_nsec;
}

static struct replay_args {
    const char *nodes, *pods, *arrivals, *order, *history;
    const char *policy, *output, *gpu, *mix;
    int64_t seed, gpus, load, claims;
    struct replay_options options;
    struct mig_options mig_options;
    bool mig;
} args = {.gpu = "a100", .mix = "uniform", .gpus = 128, .load = 100, .claims = 20000};

static int verb_replay(void);
static int replay_check(struct err *err);

static const struct cli_option replay_options[] = {
    {"--policy", NULL, "POLICY",
     "choose by this policy: pack (default, dray's own) or first (the first device that fits, as "
     "kube-scheduler). "
     "Traces only: whole: whole GPUs, as device plugins give them; bestfit, fgd: as published with "
     "FGD. --mig only: mfi: minimum growth of fragmentation, as published",
     .text = &args.policy, .choices = "pack whole first bestfit fgd mfi"},
    {"--seed", NULL, "N",
     "replay the line with this seed, or these random claims; default: all lines, or 42 to 51",
     .number = &args.seed, .least = INT32_MIN, .most = CLI_MOST},
    {"--no-buy", NULL, NULL, "skip gpusToBuy, which replays the list once more",
     .flag = &args.options.no_buying},
    {"--check", NULL, NULL, "let the independent checker verify every allocation",
     .flag = &args.options.check},
    {"--output", "-o", "FORMAT", "print text (default) or json", .text = &args.output,
     .choices = "text json"},
};
static const struct cli_option trace_options[] = {
    {"--nodes", NULL, "FILE", "read nodes from a CSV file", .text = &args.nodes,
     .excludes = "--mig"},
    {"--pods", NULL, "FILE", "read pods from a CSV file", .text = &args.pods, .excludes = "--mig"},
    {"--arrivals", NULL, "FILE", "read the order in which pods arrive, a line a run",
     .text = &args.arrivals, .excludes = "--mig"},
    {"--order", NULL, "FILE", "read the order of nodes with equal scores, a line a seed",
     .text = &args.order, .excludes = "--mig"},
    {"--history", NULL, "FILE",
     "let the policy know these pods instead of --pods; none: only what has arrived",
     .text = &args.history, .suggest = "none", .excludes = "--mig"},
    {"--curve", NULL, NULL, "print what is allocated at every load, with --seed and -o json",
     .flag = &args.options.curve, .excludes = "--mig"},
};
static const struct cli_option mig_options[] = {
    {"--mig", NULL, NULL, "replay random claims for partitions of GPUs that come and go",
     .flag = &args.mig},
    {"--gpu", NULL, "MODEL", "use profiles of this GPU; default a100", .text = &args.gpu,
     .choices = "a100 h100", .needs = "--mig"},
    {"--mix", NULL, "MIX", "choose among profiles; default uniform", .text = &args.mix,
     .choices = "uniform small large bimodal", .needs = "--mig"},
    {"--gpus", NULL, "N", "simulate this many GPUs, eight a node; default 128",
     .number = &args.gpus, .least = 8, .most = 8000, .needs = "--mig"},
    {"--load", NULL, "PERCENT", "request this share of all slices at a time; default 100",
     .number = &args.load, .least = 1, .most = 1000, .needs = "--mig"},
    {"--claims", NULL, "N", "simulate this many claims; default 20000", .number = &args.claims,
     .least = 5, .most = 2000000, .needs = "--mig"},
};
static const struct cli_group replay_group = CLI_GROUP("Options", replay_options);
static const struct cli_group trace_group = CLI_GROUP("Traces", trace_options);
static const struct cli_group mig_group = CLI_GROUP("Random claims", mig_options);

const struct cli_verb replay_verb = {
    .name = "replay",
    .summary = "replay a trace of a cluster and measure utilization",
    .chapter = CLI_DEVELOPERS,
    .synopsis =
        "replay --nodes FILE --pods FILE --arrivals FILE --order FILE [OPTIONS]\n"
        "replay --mig [--gpu MODEL] [--mix MIX] [--gpus N] [--load PERCENT] [--claims N] [OPTIONS]",
    .text = "Pods arrive in the order of a line of the arrivals, none leaves; nodes of equal score "
            "are taken in the order of the "
            "line with the same seed. Without --seed it replays all lines and prints the mean.\n\n"
            "With --mig, claims for partitions of GPUs come and go at random.",
    .examples = "dray replay --nodes n.csv --pods p.csv --arrivals a.txt --order o.txt --policy "
                "fgd -o json\n"
                "dray replay --mig --mix small --seed 42",
    .groups = {&replay_group, &trace_group, &mig_group},
    .check = replay_check,
    .run = verb_replay,
};

static int replay_check_mig(struct err *err)
{
    struct mig_options *o = &args.mig_options;
    if (args.policy && !replay_mig_parse_policy(str_z(args.policy), &o->policy))
        return err_set(err, ERR_INVALID, "--policy is one of pack, first, mfi with --mig");
    o->gpus = (uint32_t)args.gpus;
    o->claims = (uint32_t)args.claims;
    o->load = (uint32_t)args.load;
    o->gpu = str_z(args.gpu);
    o->mix = str_z(args.mix);
    o->check = args.options.check;
    o->no_buying = args.options.no_buying;
    const char *wrong = replay_mig_check_options(o);
    return wrong ? err_set(err, ERR_INVALID, "%s", wrong) : 0;
}

static int replay_check(struct err *err)
{
    if (args.mig)
        return replay_check_mig(err);
    if (!args.nodes || !args.pods || !args.arrivals || !args.order)
        return err_set(err, ERR_INVALID,
                       "--nodes, --pods, --arrivals and --order are needed, or --mig");
    if (args.policy && !replay_policy_parse(str_z(args.policy), &args.options.policy))
        return err_set(err, ERR_INVALID, "--policy is one of pack, whole, first, bestfit, fgd");
    if (args.history && strcmp(args.history, "none") == 0) {
        args.options.knowledge = REPLAY_KNOW_NOTHING;
        args.history = NULL;
    }
    return 0;
}

static bool replay_wants_json(void)
{
    return args.output && strcmp(args.output, "json") == 0;
}

static int replay_verb_read_file(struct replay_trace *t, enum replay_file what, const char *path)
{
    struct err err = {0};
    cleanup_input struct input in = {0};
    if (!path)
        return VERB_OK;
    int r = input_open(&in, path, &err);
    if (r == 0)
        r = replay_read(t, what, sbuf_str(&in.bytes), &err);
    if (r == 0)
        return VERB_OK;
    struct input named = {.name = in.name ? in.name : path};
    input_error(&named, "replay", &err);
    return VERB_NO;
}

static int read_trace(struct replay_trace *t, const struct replay_args *a)
{
    struct err err = {0};
    int r = replay_verb_read_file(t, REPLAY_NODES, a->nodes);
    r = r == VERB_OK ? replay_verb_read_file(t, REPLAY_PODS, a->pods) : r;
    r = r == VERB_OK ? replay_verb_read_file(t, REPLAY_HISTORY, a->history) : r;
    r = r == VERB_OK ? replay_verb_read_file(t, REPLAY_ARRIVALS, a->arrivals) : r;
    r = r == VERB_OK ? replay_verb_read_file(t, REPLAY_ORDER, a->order) : r;
    if (r == VERB_OK && replay_ready(t, &err) < 0) {
        (void)fprintf(stderr, "dray replay: %s\n", err.msg);
        r = VERB_NO;
    }
    return r;
}

static int run_all(const struct replay_trace *t, const struct replay_args *a)
{
    struct err err = {0};
    struct VEC(struct replay_result) results = {0};
    cleanup_sbuf struct sbuf out = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < replay_runs(t); i++) {
        struct replay_result one;
        if (cli_given("--seed") && replay_seed(t, i) != a->seed)
            continue;
        r = replay_run(t, &a->options, i, &one, &err);
        vec_push(&results, one);
    }
    if (r < 0) {
        (void)fprintf(stderr, "dray replay: %s\n", err.msg);
    } else if (!results.n) {
        r = cli_usage_error("replay", "no line of the arrivals has this seed");
    } else {
        if (replay_wants_json())
            replay_json(&a->options, results.p, results.n, &out);
        else
            replay_text(&a->options, results.p, results.n, &out);
        (void)fwrite(out.p, 1, out.n, stdout);
    }
    vec_done(&results);
    return r < 0 ? VERB_NO : r;
}

// Seeds of replays that make their own claims.
#define SEED_FIRST 42
#define SEEDS      10

static int run_mig(const struct replay_args *a)
{
    struct err err = {0};
    struct mig_result results[SEEDS];
    cleanup_sbuf struct sbuf out = {0};
    bool one = cli_given("--seed");
    size_t n = one ? 1 : SEEDS;
    for (size_t i = 0; i < n; i++) {
        int64_t seed = one ? a->seed : SEED_FIRST + (int64_t)i;
        if (replay_mig_run(&a->mig_options, seed, &results[i], &err) < 0) {
            (void)fprintf(stderr, "dray replay: %s\n", err.msg);
            return VERB_NO;
        }
    }
    if (replay_wants_json())
        replay_mig_write_json(&a->mig_options, results, n, &out);
    else
        replay_mig_write_text(&a->mig_options, results, n, &out);
    (void)fwrite(out.p, 1, out.n, stdout);
    return VERB_OK;
}

static int verb_replay(void)
{
    static const struct clock processor = {.mono_ns = processor_ns};
    args.options.clock = args.mig_options.clock = &processor;
    if (args.mig)
        return run_mig(&args);
    struct replay_trace *t = replay_new();
    int r = read_trace(t, &args);
    if (r == VERB_OK)
        r = run_all(t, &args);
    replay_free(t);
    return r;
}
