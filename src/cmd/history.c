// SPDX-License-Identifier: Apache-2.0
//
// dray history: what happened to a device or a claim, as far as the cluster still knows.
#include "cmd/device_verb.h"

#include "base/banned.h"

static struct option_texts words;

static const struct option own_options[] = {DEVICE_SNAPSHOT_OPTION};
static const struct option_group own = OPTION_GROUP("What", own_options);

const struct grammar history_grammar = {
    .synopsis = "history DEVICE|[claim/][NAMESPACE/]CLAIM",
    .text = "Tells what happened to a device or a claim, oldest first, and where that is known "
            "from: times in\n"
            "the objects, managedFields, conditions, taints, events. What is not known is said.",
    .examples = "dray history gpu-0\ndray history claim/training -n team",
    .groups = {&own, &common_output, &common_cluster},
    .words = &words,
};

static int show(struct device_source *s, const struct inventory *inv, struct err *err)
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
        r = device_show_json(s, &out, err);
    }
    past_done(&h);
    return r;
}

int verb_history(int argc, char **argv)
{
    int r = grammar_read("history", &history_grammar, argc, argv);
    if (r != VERB_OK)
        return r;
    if (words.n != 1)
        return verb_usage_error("history", "of what? one device or claim");
    return device_run("history", true, show);
}
