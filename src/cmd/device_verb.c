// SPDX-License-Identifier: Apache-2.0
#include "cmd/device_verb.h"

#include <stdio.h>

#include "client/remote.h"
#include "cmd/input.h"

#include "base/banned.h"

const char *device_snapshot;

// --- A cluster -----------------------------------------------------------------------------------

// What is listed, with the versions in which servers may have it, newest first.
static const struct {
    const char *targets[3];
    bool needed; // without it there is nothing to tell
    bool event;
} lists[] = {
    {{"/api/v1/nodes"}, false, false},
    {{"/apis/resource.k8s.io/v1/deviceclasses", "/apis/resource.k8s.io/v1beta2/deviceclasses",
      "/apis/resource.k8s.io/v1beta1/deviceclasses"},
     true,
     false},
    {{"/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1beta2/resourceslices",
      "/apis/resource.k8s.io/v1beta1/resourceslices"},
     true,
     false},
    {{"/apis/resource.k8s.io/v1/devicetaintrules", "/apis/resource.k8s.io/v1beta2/devicetaintrules",
      "/apis/resource.k8s.io/v1alpha3/devicetaintrules"},
     false,
     false},
    {{"/apis/resource.k8s.io/v1/resourceclaimtemplates",
      "/apis/resource.k8s.io/v1beta2/resourceclaimtemplates",
      "/apis/resource.k8s.io/v1beta1/resourceclaimtemplates"},
     false,
     false},
    {{"/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1beta2/resourceclaims",
      "/apis/resource.k8s.io/v1beta1/resourceclaims"},
     true,
     false},
    {{"/api/v1/pods"}, false, false},
    {{"/api/v1/events"}, false, true},
};

enum { LIST_RULES = 3 }; // in lists

static int read_list(struct cluster *c, struct plan_world *w, size_t at, struct err *err)
{
    int r = -ERR_NOT_FOUND;
    for (size_t v = 0; r == -ERR_NOT_FOUND && v < 3 && lists[at].targets[v]; v++) {
        cleanup_sbuf struct sbuf body = {0};
        const char *target = lists[at].targets[v];
        r = cluster_get(c, target, &body, err);
        if (r == 0)
            r = plan_world_read(w, str_z(target), sbuf_str(&body), err);
    }
    return r;
}

int device_world(struct cluster *c, struct plan_world *w, bool events, struct err *err)
{
    for (size_t i = 0; i < array_len(lists); i++) {
        if (lists[i].event && !events)
            continue;
        int r = read_list(c, w, i, err);
        if (r == -ERR_NOT_FOUND && lists[i].needed)
            return err_set(err, ERR_NOT_FOUND,
                           "the server has no resource.k8s.io: Dynamic Resource Allocation is off "
                           "there, or it is older than 1.32");
        if (r == -ERR_FORBIDDEN && !lists[i].needed)
            (void)fprintf(stderr, "left out: %s\n", err->msg);
        else if (r < 0 && r != -ERR_NOT_FOUND)
            return r;
    }
    return 0;
}

static void offered(struct device_source *s)
{
    struct features f;
    if (cluster_features(&s->cluster, &f, NULL) < 0)
        return; // the defaults do
    s->features = alloc_features_of(&f);
}

// --- Writing -------------------------------------------------------------------------------------

int device_send(struct cluster *c, const char *method, const char *target, struct str body,
                struct sbuf *out, struct err *err)
{
    cleanup_sbuf struct sbuf unused = {0};
    const struct client_raw_request q = {.method = method, .target = str_z(target), .body = body};
    return cluster_ask(c, q, out ? out : &unused, err);
}

int device_rules_target(struct cluster *c, const char **ret, struct err *err)
{
    const char *const *targets = lists[LIST_RULES].targets;
    for (size_t v = 0; v < 3; v++) {
        cleanup_sbuf struct sbuf body = {0};
        int r = cluster_get(c, targets[v], &body, err);
        *ret = targets[v];
        if (r != -ERR_NOT_FOUND)
            return r;
    }
    return err_set(err, ERR_NOT_FOUND,
                   "the server has no DeviceTaintRules: the feature gate DRADeviceTaintRules or "
                   "DRADeviceTaints is off there");
}

// --- Open and close ------------------------------------------------------------------------------

static int read_snapshot(struct device_source *s, struct err *err)
{
    cleanup_input struct input in = {0};
    int r = input_open(&in, device_snapshot, err);
    if (r == 0)
        r = plan_world_read(s->world, str_z(device_snapshot), sbuf_str(&in.bytes), err);
    if (r < 0)
        return err_wrap(err, "%s", device_snapshot);
    (void)alloc_features_add(&s->features,
                             STR("all")); // it shows what was allocated, whatever was on
    s->namespace = common.namespace ? str_z(common.namespace) : STR("default");
    return 0;
}

int device_open(struct device_source *s, bool events, struct err *err)
{
    s->world = plan_world_new();
    s->features = alloc_features_default();
    int r = common_layout(&s->layout, err);
    if (r == 0)
        r = common_format(VIEW_FORMATS_DATA | 1U << VIEW_TABLE | 1U << VIEW_WIDE, &s->arena,
                          &s->format, err);
    s->layout.wide = s->format.format == VIEW_WIDE;
    if (r < 0 || device_snapshot)
        return r < 0 ? r : read_snapshot(s, err);
    r = common_open(&s->cluster, err);
    s->connected = r == 0;
    if (r == 0) {
        offered(s);
        s->namespace = common_namespace(&s->cluster);
        r = device_world(&s->cluster, s->world, events, err);
    }
    return r;
}

void device_close(struct device_source *s)
{
    plan_world_free(s->world);
    cluster_close(&s->cluster);
    arena_done(&s->arena);
    *s = (struct device_source){0};
}

int device_inventory(struct device_source *s, struct inventory **ret, struct err *err)
{
    const struct inventory_options o = {.features = s->features};
    return inventory_new(s->world, &o, ret, err);
}

int device_run(const char *verb, bool events, device_fn fn)
{
    struct device_source s = {0};
    struct inventory *inv = NULL;
    struct err err = {0};
    int r = device_open(&s, events, &err);
    if (r == 0)
        r = device_inventory(&s, &inv, &err);
    if (r == 0)
        r = fn(&s, inv, &err);
    inventory_free(inv);
    device_close(&s);
    return r < 0 ? common_fail(verb, &err) : VERB_OK;
}

// --- Showing -------------------------------------------------------------------------------------

int device_show_json(struct device_source *s, const struct sbuf *json, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf out = {0};
    const struct json_options o = {.max_bytes = SIZE_MAX};
    int r = json_parse(sbuf_str(json), &o, &doc, err);
    if (r == 0)
        r = view_output_write(&s->format, doc.root, &out, err);
    return r < 0 ? r : common_print(sbuf_str(&out), err);
}

int device_show_table(struct device_source *s, struct view_table *t, struct err *err)
{
    cleanup_sbuf struct sbuf out = {0};
    view_table_write(t, &s->layout, &out);
    return common_print(sbuf_str(&out), err);
}
