// SPDX-License-Identifier: Apache-2.0
//
// dray history: what happened to a device or a claim, as far as the cluster still knows.
#include "cmd/devices/device_verb.h"

#include "base/banned.h"

static struct cli_texts words;

static int verb_history(void);

static const struct cli_option history_options[] = {DEVICE_SNAPSHOT_OPTION};
static const struct cli_group history_group = CLI_GROUP("Options", history_options);

const struct cli_verb history_verb = {
    .name = "history",
    .summary = "show what happened to a device or claim",
    .chapter = CLI_DEVICES,
    .synopsis = "history DEVICE|[claim/][NAMESPACE/]CLAIM [OPTIONS]",
    .text =
        "Shows what happened to a device or a claim, oldest first, with the source of each "
        "entry: times in the objects, managedFields, conditions, taints, events, and records of "
        "past holders (the device-history-controller of dray). Lists what is not known.",
    .examples = "dray history gpu-0\ndray history claim/training -n team",
    .groups = {&history_group, &common_output, &common_cluster},
    .words = &words,
    .word = "DEVICE or CLAIM",
    .words_least = 1,
    .words_most = 1,
    .word_names = "devices",
    .run = verb_history,
};

static int history_verb_print(struct device_source *s, const struct inventory *inv, struct err *err)
{
    struct past h = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    int r = past_find(inv, str_z(words.p[0]), s->namespace, &h, err);
    if (r == 0 && view_is_table(&s->format)) {
        view_history(&out, &h, &s->layout);
        r = common_print(sbuf_str(&out), err);
    } else if (r == 0) {
        view_history_json(&w, &h);
        r = device_verb_show_json(s, &out, err);
    }
    past_done(&h);
    return r;
}

static int verb_history(void)
{
    return device_verb_run("history", DEVICE_WORLD_EVENTS, history_verb_print);
}
