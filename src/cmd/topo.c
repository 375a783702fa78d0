// SPDX-License-Identifier: Apache-2.0
//
// dray topo: how near the devices of a node are to each other.
#include "cmd/device_verb.h"

#include "base/banned.h"

static struct option_texts words;

static bool all;

static const struct option own_options[] = {
    {.name = "--all",
     .flag = &all,
     .value = true,
     .help = "every partition; else one device stands for those of its hardware"},
    DEVICE_SNAPSHOT_OPTION,
};

static const struct option_group own = OPTION_GROUP("What", own_options);

const struct grammar topo_grammar = {
    .synopsis = "topo NODE [--all]",
    .text = "Shows the matrix that 'nvidia-smi topo -m' shows, for any node and any driver's "
            "devices: from the\n"
            "attributes in its ResourceSlices (PCIe root, NUMA node, socket, link cliques, shared "
            "counters).",
    .examples = "dray topo n1\ndray topo n1 -o json\ndray topo n1 --snapshot bug.json",
    .groups = {&own, &common_output, &common_cluster},
    .words = &words,
};

static int show(struct device_source *s, const struct inventory *inv, struct err *err)
{
    struct topo t = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    int r = topo_find(inv, str_z(words.p[0]), all, &s->arena, &t, err);
    if (r < 0)
        return r;
    if (!view_is_table(&s->format)) {
        view_topo_json(&w, inv, &t);
        return device_show_json(s, &out, err);
    }
    if (t.n == 0)
        sbuf_addf(&out, "node %s has no devices of its own\n", words.p[0]);
    else
        view_topo(&out, inv, &t, &s->layout);
    return common_print(sbuf_str(&out), err);
}

int verb_topo(int argc, char **argv)
{
    int r = grammar_read("topo", &topo_grammar, argc, argv);
    if (r != VERB_OK)
        return r;
    if (words.n != 1)
        return verb_usage_error("topo", "of which node? one name");
    return device_run("topo", false, show);
}
