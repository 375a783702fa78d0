// SPDX-License-Identifier: Apache-2.0
//
// dray who: which claim, pod and namespace has a device, on which node, since when.
#include "base/nearest.h"
#include "cmd/devices/device_verb.h"
#include "cmd/devices/own_claims.h"
#include "view/human.h"

#include "base/banned.h"

static struct cli_texts words;
static bool all_devices;

static int verb_who(void);

static const struct cli_option who_options[] = {
    {"--all", NULL, NULL, "show unallocated devices as well, if no device is named",
     .flag = &all_devices},
    DEVICE_SNAPSHOT_OPTION,
};
static const struct cli_group who_group = CLI_GROUP("Options", who_options);

const struct cli_verb who_verb = {
    .name = "who",
    .summary = "show which claims and pods hold devices",
    .chapter = CLI_DEVICES,
    .everyday = true,
    .synopsis = "who [DEVICE…] [OPTIONS]",
    .text = "Shows the holders of devices: DRIVER/POOL/DEVICE, POOL/DEVICE, NODE/DEVICE or DEVICE; "
            "without a name, of all "
            "allocated devices. FOR is the time since the allocation; ≤ and ≥ mark bounds where "
            "the scheduler did not record "
            "it. Exit status 1 if nothing holds the devices.",
    .examples =
        "dray who gpu-0\ndray who gpu.example.com/n1/gpu-0 -o wide\ndray who --snapshot bug.json",
    .groups = {&who_group, &common_output, &common_cluster},
    .words = &words,
    .word_names = "devices",
    .run = verb_who,
};

struct found {
    struct device_source *s;
    struct VEC(uint32_t) devices;
};

static void who_add_device(void *arg, uint32_t device)
{
    struct found *f = arg;
    vec_push_arena(&f->s->arena, &f->devices, device);
}

static int no_such(const struct inventory *inv, struct str name, struct err *err)
{
    struct nearest near = {.word = name};
    for (size_t i = 0; i < inv->devices_len; i++)
        nearest_try(&near, inv->devices[i].id.device);
    if (near.best.n)
        return err_set(err, ERR_NOT_FOUND, "there is no device %.*s; did you mean %.*s?",
                       STR_ARG(name), STR_ARG(near.best));
    return err_set(err, ERR_NOT_FOUND, "there is no device %.*s among %zu", STR_ARG(name),
                   inv->devices_len);
}

static int who_find_devices(const struct inventory *inv, struct found *f, struct err *err)
{
    for (size_t i = 0; i < words.n; i++)
        if (!inventory_find(inv, str_z(words.p[i]), who_add_device, f))
            return no_such(inv, str_z(words.p[i]), err);
    for (size_t i = 0; words.n == 0 && i < inv->devices_len; i++)
        if (all_devices || inv->devices[i].holds_len)
            who_add_device(f, (uint32_t)i);
    return 0;
}

static int who_print_holders(struct device_source *s, const struct inventory *inv,
                             const struct found *f, struct err *err)
{
    cleanup_view_table struct view_table t = {0};
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    if (view_is_table(&s->format)) {
        view_who(&t, inv, f->devices.p, f->devices.n, NULL, view_now());
        return device_verb_show_table(s, &t, err);
    }
    view_who_json(&w, inv, f->devices.p, f->devices.n);
    return device_verb_show_json(s, &json, err);
}

static int verb_who(void)
{
    struct device_source s = {0};
    struct inventory *inv = NULL;
    struct found f = {.s = &s};
    struct err err = {0};
    bool held = false;
    int r = device_verb_open(&s, DEVICE_WORLD_DEVICES, &err);
    if (r == -ERR_FORBIDDEN)
        return own_claims_answer("who", &s, &err);
    if (r == 0)
        r = device_verb_inventory(&s, &inv, &err);
    if (r == 0)
        r = who_find_devices(inv, &f, &err);
    if (r == 0)
        r = who_print_holders(&s, inv, &f, &err);
    for (size_t i = 0; r == 0 && i < f.devices.n; i++)
        held |= inv->devices[f.devices.p[i]].holds_len > 0;
    inventory_free(inv);
    device_verb_close(&s);
    return r < 0 ? common_fail("who", &err) : held ? VERB_OK : VERB_NO;
}
