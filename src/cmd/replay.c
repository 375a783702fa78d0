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

const char replay_usage[] =
    "dray replay --nodes N.csv --pods P.csv --arrivals A.txt --order O.txt [--policy P] [--seed "
    "S]\n"
    "            [--history FILE|none] [--no-buy] [--check] [-o json]\n"
    "dray replay --mig [--policy P] [--seed S] [--gpu G] [--mix M] [--gpus N] [--load PERCENT]\n"
    "            [--claims N] [--no-buy] [--check] [-o json]\n\n"
    "Pods arrive in the order of a line of the arrivals, none leaves; nodes of equal score are "
    "taken\n"
    "in the order of the line with the same seed. Without --seed all lines are replayed, and the\n"
    "mean is told.\n\n"
    "  --policy pack      dray's own (default)\n"
    "           whole     whole GPUs, as device plugins give them\n"
    "           first     the first device that fits, as kube-scheduler chooses\n"
    "           bestfit   as published with FGD\n"
    "           fgd       fragmentation gradient descent, as published\n"
    "  --history FILE     what the policy knows comes from this list of pods, not from --pods\n"
    "  --history none     it knows only what has arrived so far (pack)\n"
    "  --no-buy           skip gpusToBuy, which replays the list once more\n"
    "  --check            let the independent checker see every allocation\n"
    "  --curve            with --seed and -o json: also what is allocated at every load\n\n"
    "With --mig, claims for partitions of GPUs come and go at random; seeds 42 to 51 unless one "
    "is\n"
    "given.\n\n"
    "  --policy pack      dray's own (default)\n"
    "           first     the first node and the first partition that fit\n"
    "           mfi       minimum growth of fragmentation, as published\n"
    "  --gpu a100|h100    whose profiles (default a100)\n"
    "  --mix M            uniform (default), small, large or bimodal: which profiles\n"
    "  --gpus N           GPUs, eight a node (default 128)\n"
    "  --load PERCENT     slices asked for at a time, of all there are (default 100)\n"
    "  --claims N         that come (default 20000)\n\n"
    "Exit status: 0 done, 1 a file cannot be read or understood, 2 wrong usage.";

struct replay_args {
    const char *nodes, *pods, *arrivals, *order, *history;
    const char *policy, *seed, *format;
    const char *gpu, *mix, *gpus, *load, *claims;
    struct replay_options options;
    struct mig_options mig_options;
    bool mig;
    bool json;
    bool one;
    int64_t only;
};

static const char **option_of(struct replay_args *a, const char *word)
{
    const struct {
        const char *name;
        const char **to;
    } options[] = {
        {"--nodes", &a->nodes},   {"--pods", &a->pods},       {"--arrivals", &a->arrivals},
        {"--order", &a->order},   {"--history", &a->history}, {"--policy", &a->policy},
        {"--seed", &a->seed},     {"-o", &a->format},         {"--gpu", &a->gpu},
        {"--mix", &a->mix},       {"--gpus", &a->gpus},       {"--load", &a->load},
        {"--claims", &a->claims},
    };
    for (size_t i = 0; i < array_len(options); i++)
        if (strcmp(word, options[i].name) == 0)
            return options[i].to;
    return NULL;
}

static bool number_or(const char *text, int64_t fallback, uint32_t *ret)
{
    int64_t n = fallback;
    if (text && (str_to_i64(str_z(text), &n) < 0 || n < 0 || n > INT32_MAX))
        return false;
    *ret = (uint32_t)n;
    return true;
}

static const char *judge_mig(struct replay_args *a)
{
    struct mig_options *o = &a->mig_options;
    uint32_t load = 0;
    if (a->nodes || a->pods || a->arrivals || a->order || a->history)
        return "--mig makes its own nodes and claims: no files";
    if (a->policy && !mig_policy_parse(str_z(a->policy), &o->policy))
        return "--policy is one of pack, first, mfi";
    if (!number_or(a->gpus, 128, &o->gpus) || !number_or(a->claims, 20000, &o->claims) ||
        !number_or(a->load, 100, &load))
        return "--gpus, --claims and --load are whole numbers";
    o->load = load;
    o->gpu = str_z(a->gpu ? a->gpu : "a100");
    o->mix = str_z(a->mix ? a->mix : "uniform");
    o->check = a->options.check;
    o->no_buying = a->options.no_buying;
    o->clock = a->options.clock;
    return mig_judge(o);
}

static const char *judge_trace(struct replay_args *a)
{
    if (a->gpu || a->mix || a->gpus || a->load || a->claims)
        return "--gpu, --mix, --gpus, --load and --claims go with --mig";
    if (!a->nodes || !a->pods || !a->arrivals || !a->order)
        return "--nodes, --pods, --arrivals and --order are needed";
    if (a->policy && !replay_policy_parse(str_z(a->policy), &a->options.policy))
        return "--policy is one of pack, whole, first, bestfit, fgd";
    return NULL;
}

static const char *judge(struct replay_args *a)
{
    const char *wrong = a->mig ? judge_mig(a) : judge_trace(a);
    if (wrong)
        return wrong;
    if (a->format && strcmp(a->format, "json") != 0 && strcmp(a->format, "text") != 0)
        return "-o is one of json, text";
    a->json = a->format && strcmp(a->format, "json") == 0;
    a->one = a->seed != NULL;
    if (a->seed && str_to_i64(str_z(a->seed), &a->only) < 0)
        return "--seed is a whole number";
    if (a->history && strcmp(a->history, "none") == 0) {
        a->options.knowledge = REPLAY_KNOW_NOTHING;
        a->history = NULL;
    }
    return NULL;
}

static int read_args(struct replay_args *a, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char **to = option_of(a, argv[i]);
        if (strcmp(argv[i], "--check") == 0)
            a->options.check = true;
        else if (strcmp(argv[i], "--no-buy") == 0)
            a->options.no_buying = true;
        else if (strcmp(argv[i], "--curve") == 0)
            a->options.curve = true;
        else if (strcmp(argv[i], "--mig") == 0)
            a->mig = true;
        else if (!to)
            return verb_usage_error("replay", verb_no_sense);
        else if (++i >= argc)
            return verb_usage_error("replay", "the last option has no value");
        else
            *to = argv[i];
    }
    const char *wrong = judge(a);
    return wrong ? verb_usage_error("replay", wrong) : VERB_OK;
}

static int read_one(struct replay_trace *t, enum replay_file what, const char *path)
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
    int r = read_one(t, REPLAY_NODES, a->nodes);
    r = r == VERB_OK ? read_one(t, REPLAY_PODS, a->pods) : r;
    r = r == VERB_OK ? read_one(t, REPLAY_HISTORY, a->history) : r;
    r = r == VERB_OK ? read_one(t, REPLAY_ARRIVALS, a->arrivals) : r;
    r = r == VERB_OK ? read_one(t, REPLAY_ORDER, a->order) : r;
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
        if (a->one && replay_seed(t, i) != a->only)
            continue;
        r = replay_run(t, &a->options, i, &one, &err);
        vec_push(&results, one);
    }
    if (r < 0) {
        (void)fprintf(stderr, "dray replay: %s\n", err.msg);
    } else if (!results.n) {
        r = verb_usage_error("replay", "no line of the arrivals has this seed");
    } else {
        if (a->json)
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
    size_t n = a->one ? 1 : SEEDS;
    for (size_t i = 0; i < n; i++) {
        int64_t seed = a->one ? a->only : SEED_FIRST + (int64_t)i;
        if (mig_run(&a->mig_options, seed, &results[i], &err) < 0) {
            (void)fprintf(stderr, "dray replay: %s\n", err.msg);
            return VERB_NO;
        }
    }
    if (a->json)
        mig_json(&a->mig_options, results, n, &out);
    else
        mig_text(&a->mig_options, results, n, &out);
    (void)fwrite(out.p, 1, out.n, stdout);
    return VERB_OK;
}

int verb_replay(int argc, char **argv)
{
    const struct clock processor = {.mono_ns = processor_ns};
    struct replay_args a = {.options = {.clock = &processor}};
    int r = read_args(&a, argc, argv);
    if (r != VERB_OK)
        return r;
    if (a.mig)
        return run_mig(&a);
    struct replay_trace *t = replay_new();
    r = read_trace(t, &a);
    if (r == VERB_OK)
        r = run_all(t, &a);
    replay_free(t);
    return r;
}
