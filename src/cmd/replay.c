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
    "            [--history FILE|none] [--no-buy] [--check] [-o json]\n\n"
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
    "  --check            let the independent checker see every allocation\n\n"
    "Exit status: 0 done, 1 a file cannot be read or understood, 2 wrong usage.";

struct replay_args {
    const char *nodes, *pods, *arrivals, *order, *history;
    const char *policy, *seed, *format;
    struct replay_options options;
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
        {"--nodes", &a->nodes}, {"--pods", &a->pods},       {"--arrivals", &a->arrivals},
        {"--order", &a->order}, {"--history", &a->history}, {"--policy", &a->policy},
        {"--seed", &a->seed},   {"-o", &a->format},
    };
    for (size_t i = 0; i < array_len(options); i++)
        if (strcmp(word, options[i].name) == 0)
            return options[i].to;
    return NULL;
}

static const char *judge(struct replay_args *a)
{
    if (!a->nodes || !a->pods || !a->arrivals || !a->order)
        return "--nodes, --pods, --arrivals and --order are needed";
    if (a->policy && !replay_policy_parse(str_z(a->policy), &a->options.policy))
        return "--policy is one of pack, whole, first, bestfit, fgd";
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
        else if (!to)
            return verb_usage_error("replay", "no such option");
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

int verb_replay(int argc, char **argv)
{
    const struct clock processor = {.mono_ns = processor_ns};
    struct replay_args a = {.options = {.clock = &processor}};
    int r = read_args(&a, argc, argv);
    if (r != VERB_OK)
        return r;
    struct replay_trace *t = replay_new();
    r = read_trace(t, &a);
    if (r == VERB_OK)
        r = run_all(t, &a);
    replay_free(t);
    return r;
}
