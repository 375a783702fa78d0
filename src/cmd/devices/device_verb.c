// SPDX-License-Identifier: Apache-2.0
//
// What the verbs on devices share: objects from a cluster or a snapshot, the inventory, and answers
// as tables or data.
#include "cmd/devices/device_verb.h"

#include <stdio.h>

#include "api/match/device_history.h"
#include "client/remote.h"
#include "cmd/input.h"
#include "cmd/local.h"

#include "base/banned.h"

const char *device_snapshot;

// --- A cluster -----------------------------------------------------------------------------------

// What is listed, with the versions in which servers may have it, newest first.
#define RESOURCE(version, plural) "/apis/resource.k8s.io/" version "/" plural
#define STORAGE(plural)           "/apis/storage.k8s.io/v1/" plural
static const struct {
    const char *targets[3];
    unsigned only; // of enum device_verb_read_world: read if one of these is requested; 0: always
    bool needed;   // without it there is nothing to tell
} lists[] = {
    {{"/api/v1/nodes"}, 0, false},
    {{RESOURCE("v1", "deviceclasses"), RESOURCE("v1beta2", "deviceclasses"),
      RESOURCE("v1beta1", "deviceclasses")},
     0,
     true},
    {{RESOURCE("v1", "resourceslices"), RESOURCE("v1beta2", "resourceslices"),
      RESOURCE("v1beta1", "resourceslices")},
     0,
     true},
    {{RESOURCE("v1", "devicetaintrules"), RESOURCE("v1beta2", "devicetaintrules"),
      RESOURCE("v1alpha3", "devicetaintrules")},
     0,
     false},
    {{RESOURCE("v1", "resourceclaimtemplates"), RESOURCE("v1beta2", "resourceclaimtemplates"),
      RESOURCE("v1beta1", "resourceclaimtemplates")},
     0,
     false},
    {{RESOURCE("v1", "resourceclaims"), RESOURCE("v1beta2", "resourceclaims"),
      RESOURCE("v1beta1", "resourceclaims")},
     0,
     true},
    {{"/api/v1/pods"}, 0, false},
    {{"/api/v1/events"}, DEVICE_WORLD_EVENTS, false},
    {{"/api/v1/namespaces/" DEVICE_HISTORY_NAMESPACE
      "/configmaps?labelSelector=" DEVICE_HISTORY_LABEL "%3D" DEVICE_HISTORY_VALUE},
     DEVICE_WORLD_EVENTS,
     false},
    {{"/api/v1/namespaces"}, DEVICE_WORLD_ALL, false},
    {{"/apis/scheduling.k8s.io/v1/priorityclasses"}, DEVICE_WORLD_ALL, false},
    {{"/api/v1/resourcequotas"}, DEVICE_WORLD_ALL, false},
    {{"/api/v1/limitranges"}, DEVICE_WORLD_ALL, false},
    {{"/apis/node.k8s.io/v1/runtimeclasses"}, DEVICE_WORLD_ALL, false},
    {{"/apis/policy/v1/poddisruptionbudgets"}, DEVICE_WORLD_ALL, false},
    {{"/apis/apps/v1/daemonsets"}, DEVICE_WORLD_ALL, false},
    {{"/apis/scheduling.k8s.io/v1beta1/podgroups", "/apis/scheduling.k8s.io/v1alpha1/podgroups"},
     DEVICE_WORLD_ALL,
     false},
    {{"/api/v1/persistentvolumes"}, DEVICE_WORLD_ALL, false},
    {{"/api/v1/persistentvolumeclaims"}, DEVICE_WORLD_ALL, false},
    {{STORAGE("storageclasses")}, DEVICE_WORLD_ALL, false},
    {{STORAGE("csinodes")}, DEVICE_WORLD_ALL, false},
    {{STORAGE("csidrivers")}, DEVICE_WORLD_ALL, false},
    {{STORAGE("csistoragecapacities")}, DEVICE_WORLD_ALL, false},
};

enum { LIST_RULES = 3 }; // in lists

static int device_verb_read_list(struct cluster *c, struct plan_world *w, size_t at,
                                 struct err *err)
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

// device_verb_in_namespace writes the path of a list in one namespace. False: the kind has none.
static bool device_verb_in_namespace(const char *target, struct str namespace, struct sbuf *out)
{
    static const char *const namespaced[] = {"resourceclaims", "resourceclaimtemplates",
                                             "pods",           "events",
                                             "resourcequotas", "limitranges",
                                             "podgroups",      "poddisruptionbudgets",
                                             "daemonsets",     "persistentvolumeclaims"};
    struct str all = str_z(target);
    size_t slash = (size_t)str_rfind_char(all, '/');
    for (size_t i = 0; namespace.n && i < array_len(namespaced); i++)
        if (str_eqz(str_from(all, slash + 1), namespaced[i])) {
            sbuf_addf(out, "%.*s/namespaces/", STR_ARG(str_upto(all, slash)));
            local_escape(out, namespace);
            sbuf_add(out, str_from(all, slash));
            return true;
        }
    return false;
}

// What the user may not list in the whole cluster.
struct device_rights {
    struct sbuf none, some; // not at all; in one namespace alone
    bool incomplete;        // a kind without which there is no answer is among the first
};

static void device_verb_note(struct sbuf *out, const char *target)
{
    ptrdiff_t slash = str_rfind_char(str_z(target), '/');
    sbuf_addf(out, "%s%s", out->n ? ", " : "", target + slash + 1);
}

// The user may not list a kind in all namespaces: perhaps in the own one.
static int device_verb_read_own(struct cluster *c, struct plan_world *w, size_t at,
                                struct str namespace, struct device_rights *rights, struct err *err)
{
    cleanup_sbuf struct sbuf own = {0}, body = {0};
    const char *target = lists[at].targets[0];
    int r = -ERR_FORBIDDEN;
    if (device_verb_in_namespace(target, namespace, &own))
        r = cluster_get(c, own.p, &body, err);
    if (r == 0)
        r = plan_world_read(w, sbuf_str(&own), sbuf_str(&body), err);
    if (r != -ERR_FORBIDDEN && r != 0)
        return r;
    device_verb_note(r == 0 ? &rights->some : &rights->none, target);
    rights->incomplete |= r < 0 && lists[at].needed;
    return 0;
}

static int device_verb_tell_rights(const struct device_rights *rights, struct str namespace,
                                   struct err *err)
{
    if (rights->some.n)
        (void)fprintf(stderr, "you may list %s in namespace %.*s only: others are left out\n",
                      rights->some.p, STR_ARG(namespace));
    if (rights->incomplete)
        return err_set(err, ERR_FORBIDDEN,
                       "you may not list %s; an administrator can bind a ClusterRole that may",
                       rights->none.p);
    if (rights->none.n)
        (void)fprintf(stderr, "you may not list %s: they are left out\n", rights->none.p);
    return 0;
}

int device_verb_read_world(struct cluster *c, struct plan_world *w, unsigned what,
                           struct str namespace, struct err *err)
{
    struct device_rights rights = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < array_len(lists); i++) {
        if (lists[i].only && !(lists[i].only & what))
            continue;
        r = device_verb_read_list(c, w, i, err);
        if (r == -ERR_NOT_FOUND)
            r = lists[i].needed
                    ? err_set(err, ERR_INVALID,
                              "the server has no resource.k8s.io: Dynamic Resource Allocation is "
                              "off there, or it is older than 1.32")
                    : 0;
        else if (r == -ERR_FORBIDDEN)
            r = device_verb_read_own(c, w, i, namespace, &rights, err);
    }
    if (r == 0)
        r = device_verb_tell_rights(&rights, namespace, err);
    sbuf_done(&rights.none);
    sbuf_done(&rights.some);
    return r;
}

static void device_verb_read_features(struct device_source *s)
{
    if (cluster_features(&s->cluster, &s->gates, NULL) < 0)
        return; // the defaults do
    s->features = alloc_features_of(&s->gates);
}

// --- Writing -------------------------------------------------------------------------------------

int device_verb_send(struct cluster *c, const char *method, const char *target, struct str body,
                     struct sbuf *out, struct err *err)
{
    cleanup_sbuf struct sbuf unused = {0};
    const struct client_raw_request q = {.method = method, .target = str_z(target), .body = body};
    return cluster_request(c, q, out ? out : &unused, err);
}

int device_verb_rules_target(struct cluster *c, const char **ret, struct err *err)
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
    // It shows what was allocated, whatever was on.
    (void)alloc_gates_add(&s->gates, STR("all"));
    s->features = alloc_features_of(&s->gates);
    s->namespace = common.namespace ? str_z(common.namespace) : STR("default");
    return 0;
}

int device_verb_open(struct device_source *s, unsigned what, struct err *err)
{
    s->world = plan_world_new();
    features_init(&s->gates, FEATURES_MINOR);
    s->features = alloc_features_of(&s->gates);
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
        device_verb_read_features(s);
        s->namespace = common_namespace(&s->cluster);
        r = device_verb_read_world(&s->cluster, s->world, what, s->namespace, err);
    }
    return r;
}

void device_verb_close(struct device_source *s)
{
    plan_world_free(s->world);
    cluster_close(&s->cluster);
    arena_done(&s->arena);
    *s = (struct device_source){0};
}

int device_verb_inventory(struct device_source *s, struct inventory **ret, struct err *err)
{
    const struct inventory_options o = {.features = s->features};
    return inventory_new(s->world, &o, ret, err);
}

int device_verb_run(const char *verb, unsigned what, device_fn fn)
{
    struct device_source s = {0};
    struct inventory *inv = NULL;
    struct err err = {0};
    int r = device_verb_open(&s, what, &err);
    if (r == 0)
        r = device_verb_inventory(&s, &inv, &err);
    if (r == 0)
        r = fn(&s, inv, &err);
    inventory_free(inv);
    device_verb_close(&s);
    return r < 0 ? common_fail(verb, &err) : VERB_OK;
}

// --- Output --------------------------------------------------------------------------------------

int device_verb_show_json(struct device_source *s, const struct sbuf *json, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf out = {0};
    const struct json_options o = {.max_bytes = SIZE_MAX};
    int r = json_parse(sbuf_str(json), &o, &doc, err);
    if (r == 0)
        r = view_output_write(&s->format, doc.root, &out, err);
    return r < 0 ? r : common_print(sbuf_str(&out), err);
}

int device_verb_show_table(struct device_source *s, struct view_table *t, struct err *err)
{
    cleanup_sbuf struct sbuf out = {0};
    view_table_write(t, &s->layout, &out);
    return common_print(sbuf_str(&out), err);
}
