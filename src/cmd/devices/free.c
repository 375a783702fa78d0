// SPDX-License-Identifier: Apache-2.0
//
// dray free: devices by state, and how many more claims the scheduler would serve.
#include "cmd/devices/device_verb.h"
#include "cmd/devices/own_claims.h"

#include "base/banned.h"

static const char *class_name, *expression, *node;

static int verb_free(void);

static const struct cli_option free_options[] = {
    {"--class", NULL, "CLASS", "show devices of this DeviceClass, node by node",
     .text = &class_name, .names = "deviceclasses"},
    {"--cel", NULL, "EXPR", "show devices for which this CEL expression is true",
     .text = &expression},
    {"--node", NULL, "NODE", "show devices of this node", .text = &node, .names = "nodes"},
    DEVICE_SNAPSHOT_OPTION,
};
static const struct cli_group free_group = CLI_GROUP("Options", free_options);

const struct cli_verb free_verb = {
    .name = "free",
    .summary = "show free devices and how many more claims fit",
    .chapter = CLI_DEVICES,
    .everyday = true,
    .synopsis = "free [--class CLASS] [--cel EXPR] [--node NODE] [OPTIONS]",
    .text =
        "Shows devices by state and how many more claims for one device fit (FITS): one line a "
        "class, or node by node for one class or expression. FITS is the scheduler's answer: "
        "it places pods that ask for one device in a copy of the cluster in memory until one "
        "does not fit. Room for pods, cordons, shares, counters and exclusive partitions "
        "count; tainted devices do not. The pods tolerate no taint of nodes, and request no CPU "
        "or memory; a column TOLERANT shows the number for pods that tolerate the taints "
        "administrators set, where it differs. A + after FITS means that the answer stopped at "
        "its bound. BROKEN devices are in use, and tainted or reported unhealthy. Exit status 1 "
        "if nothing fits.",
    .examples = "dray free\n"
                "dray free --class gpu.example.com\n"
                "dray free --cel "
                "\"device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0\"\n"
                "dray free --snapshot bug.json --node n1 -o json",
    .groups = {&free_group, &common_output, &common_cluster},
    .run = verb_free,
};

struct answers {
    struct view_free *all;
    struct free_answer *answers;
    size_t n;
};

static int free_verb_ask_class(struct device_source *s, struct str class_of, struct answers *a,
                               struct err *err)
{
    const struct free_question q = {.class_name = class_of,
                                    .cel = str_z(expression),
                                    .node = str_z(node),
                                    .clock = clock_system()};
    struct inventory *inv = NULL;
    int r = free_find(s->world, &q, &s->gates, &s->arena, &inv, &a->answers[a->n], err);
    if (r == 0) {
        a->all[a->n] = (struct view_free){class_of, inv, &a->answers[a->n]};
        a->n++;
    }
    return r;
}

static int free_verb_ask_classes(struct device_source *s, struct answers *a, struct err *err)
{
    size_t n = 0;
    const struct str *names = plan_class_names(s->world, &s->arena, &n);
    bool one = class_name || expression || n == 0;
    size_t most = one ? 1 : n;
    int r = 0;
    a->all = arena_array(&s->arena, struct view_free, most);
    a->answers = arena_array(&s->arena, struct free_answer, most);
    for (size_t i = 0; r == 0 && i < most; i++)
        r = free_verb_ask_class(s, one ? str_z(class_name) : names[i], a, err);
    return r;
}

static int free_verb_print(struct device_source *s, const struct answers *a, struct err *err)
{
    cleanup_view_table struct view_table t = {0};
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    if (!view_is_table(&s->format)) {
        view_free_json(&w, a->all, a->n);
        return device_verb_show_json(s, &json, err);
    }
    if (class_name || expression)
        view_free_nodes(&t, &a->all[0]);
    else
        view_free_classes(&t, a->all, a->n);
    return device_verb_show_table(s, &t, err);
}

static int verb_free(void)
{
    struct device_source s = {0};
    struct answers a = {0};
    struct err err = {0};
    bool any = false;
    int r = device_verb_open(&s, DEVICE_WORLD_DEVICES, &err);
    if (r == -ERR_FORBIDDEN)
        return own_claims_answer("free", &s, &err);
    if (r == 0)
        r = free_verb_ask_classes(&s, &a, &err);
    if (r == 0)
        r = free_verb_print(&s, &a, &err);
    for (size_t i = 0; i < a.n; i++) {
        any |= a.answers[i].total.fits > 0;
        inventory_free((struct inventory *)(uintptr_t)a.all[i].inv);
    }
    device_verb_close(&s);
    return r < 0 ? common_fail("free", &err) : any ? VERB_OK : VERB_NO;
}
