// SPDX-License-Identifier: Apache-2.0
//
// dray topo: how near the devices of a node are to each other.
#include "cmd/devices/device_verb.h"

#include "base/banned.h"

static struct cli_texts words;

static bool all;

static int verb_topo(void);

static const struct cli_option topo_options[] = {
    {"--all", NULL, NULL, "show every partition; default: one device for each piece of hardware",
     .flag = &all},
    DEVICE_SNAPSHOT_OPTION,
};
static const struct cli_group topo_group = CLI_GROUP("Options", topo_options);

const struct cli_verb topo_verb = {
    .name = "topo",
    .summary = "show the topology of a node's devices",
    .chapter = CLI_DEVICES,
    .synopsis = "topo NODE [--all] [OPTIONS]",
    .text = "Shows the matrix of 'nvidia-smi topo -m' for any node and the devices of any driver, "
            "from the attributes in its "
            "ResourceSlices: PCIe root, NUMA node, socket, link cliques, shared counters.",
    .examples = "dray topo n1\ndray topo n1 -o json\ndray topo n1 --snapshot bug.json",
    .groups = {&topo_group, &common_output, &common_cluster},
    .words = &words,
    .word = "NODE",
    .words_least = 1,
    .words_most = 1,
    .word_names = "nodes",
    .run = verb_topo,
};

static int topo_verb_print(struct device_source *s, const struct inventory *inv, struct err *err)
{
    struct topo t = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    int r = topo_find(inv, str_z(words.p[0]), all, &s->arena, &t, err);
    if (r < 0)
        return r;
    if (!view_is_table(&s->format)) {
        view_topo_json(&w, inv, &t);
        return device_verb_show_json(s, &out, err);
    }
    if (inventory_simulated(inv, str_z(words.p[0])))
        sbuf_addf(&out, "%s" INVENTORY_SIMULATED "\n", words.p[0]);
    if (t.n == 0)
        sbuf_addf(&out, "node %s has no devices of its own\n", words.p[0]);
    else
        view_topo(&out, inv, &t, &s->layout);
    return common_print(sbuf_str(&out), err);
}

static int verb_topo(void)
{
    return device_verb_run("topo", DEVICE_WORLD_DEVICES, topo_verb_print);
}
