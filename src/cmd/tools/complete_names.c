// SPDX-License-Identifier: Apache-2.0
//
// Names for shell completion. Asks the cluster that a verb would ask; failures give no names.
#include "cmd/tools/complete_names.h"

#include <unistd.h>

#include "cmd/common.h"
#include "cmd/objects/objects.h"
#include "driver/profile.h"

#include "base/banned.h"

#define PATIENCE_S 2

static void complete_names_profiles(void (*add)(void *ctx, struct str name), void *ctx)
{
    for (size_t i = 0; i < profile_builtins_len; i++)
        add(ctx, str_z(profile_builtins[i].name));
}

static int complete_names_read(struct cluster *c, struct str kind, struct json_doc *ret)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf path = {0}, word = {0}, body = {0};
    struct targets targets = {0};
    struct err err = {0};
    sbuf_add(&word, kind);
    const char *words[] = {word.p};
    const struct cli_texts list = {.p = words, .n = 1};
    int r = objects_read(c, &list, &arena, &targets, &err);
    if (r == 0 && targets.n) {
        objects_add_path(&path, &targets.p[0], common_namespace(c));
        sbuf_addz(&path, "?limit=500");
        r = cluster_get(c, path.p, &body, &err);
    }
    return r == 0 ? json_parse(sbuf_str(&body), NULL, ret, &err) : r;
}

// complete_names_add gives the objects of a list, or the devices in them.
static void complete_names_add(const yyjson_val *list, bool devices,
                               void (*add)(void *ctx, struct str name), void *ctx)
{
    const yyjson_val *items = objects_list(list, "items");
    if (!items)
        return;
    json_arr_foreach(items, item) {
        const yyjson_val *inner = devices ? objects_list(item, "spec.devices") : NULL;
        if (!devices)
            add(ctx, objects_text(item, "metadata.name"));
        if (!inner)
            continue;
        json_arr_foreach(inner, device)
            add(ctx, objects_text(device, "name"));
    }
}

void complete_names_of(struct str kind, void (*add)(void *ctx, struct str name), void *ctx)
{
    struct cluster c = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    bool devices = str_eqz(kind, "devices");
    if (str_eqz(kind, "profiles")) {
        complete_names_profiles(add, ctx);
        return;
    }
    (void)alarm(PATIENCE_S);
    if (common_open(&c, &err) == 0 &&
        complete_names_read(&c, devices ? STR("resourceslices") : kind, &doc) == 0)
        complete_names_add(doc.root, devices, add, ctx);
    (void)alarm(0);
    cluster_close(&c);
}
