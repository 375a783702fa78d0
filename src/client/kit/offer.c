// SPDX-License-Identifier: Apache-2.0
//
// Finds out what a server offers: its release, the versions of the kinds and the feature gates that
// follow from them. Old servers lack kinds that the scheduler would otherwise watch in vain.
#include "client/offer.h"

#include <stdlib.h>

#include "client/remote.h"
#include "codec/json.h"

#include "base/banned.h"

#define RULES "DeviceTaintRule"

static const struct json_options loose = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                          .duplicates = JSON_DUPLICATES_LAST};

// The paths at which each answer is found.
static const struct {
    const char *target;
    const char *group_version; // NULL: it is not discovery
    bool optional;             // who may not read it does without
} questions[] = {
    {"/version", NULL, false},
    {"/apis/resource.k8s.io/v1", "resource.k8s.io/v1", false},
    {"/apis/resource.k8s.io/v1beta2", "resource.k8s.io/v1beta2", false},
    {"/apis/resource.k8s.io/v1alpha3", "resource.k8s.io/v1alpha3", false},
    {"/apis/scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1beta1", false},
    {"/metrics", NULL, true},
};

// --- Reading -------------------------------------------------------------------------------------

static struct str offer_field_text(const yyjson_val *v, const char *field)
{
    const yyjson_val *found = json_get(v, str_z(field));
    return found && json_is_string(found) ? json_str(found) : (struct str){0};
}

int offer_read_version(struct offer *o, struct str body, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(body, &loose, &doc, err);
    if (r < 0)
        return err_wrap(err, "invalid version from the server");
    // A server may show the API of an older release.
    struct str text = offer_field_text(doc.root, "emulationMinor");
    if (!text.n)
        text = offer_field_text(doc.root, "minor");
    size_t digits = 0;
    while (digits < text.n && text.p[digits] >= '0' && text.p[digits] <= '9')
        digits++;
    uint64_t minor = 0;
    if (str_to_u64(str_upto(text, digits), &minor) < 0 || minor > UINT32_MAX)
        return err_set(err, ERR_BAD_REQUEST, "invalid version from the server: minor is '%.*s'",
                       STR_ARG(text));
    o->minor = (uint32_t)minor;
    return 0;
}

// Newest version of the DeviceTaintRules so far; questions are asked newest first, but answered in
// any order.
static void note_rules(struct offer *o, struct str group_version)
{
    static const char *const order[] = {"resource.k8s.io/v1", "resource.k8s.io/v1beta2",
                                        "resource.k8s.io/v1alpha3"};
    for (size_t i = 0; i < array_len(order); i++) {
        if (o->rules && str_eqz(o->rules->api_version, order[i]))
            return;
        if (str_eqz(group_version, order[i]))
            break;
    }
    o->rules = api_kind_find(group_version, STR(RULES));
}

static void note_resource(struct offer *o, struct str group_version, struct str name)
{
    if (str_eqz(name, "devicetaintrules"))
        note_rules(o, group_version);
    else if (str_eqz(name, "resourceclaims") && str_eqz(group_version, "resource.k8s.io/v1"))
        o->claims = true;
    else if (str_eqz(name, "resourcepoolstatusrequests"))
        o->pool_requests = true;
    else if (str_eqz(name, "podgroups"))
        o->pod_groups = true;
}

int offer_read_resources(struct offer *o, struct str group_version, struct str body,
                         struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(body, &loose, &doc, err);
    if (r < 0)
        return err_wrap(err, "invalid list of resources from the server");
    const yyjson_val *list = json_get(doc.root, STR("resources"));
    if (!list || !json_is_array(list))
        return 0;
    json_arr_foreach(list, item)
        note_resource(o, group_version, offer_field_text(item, "name"));
    return 0;
}

// kubernetes_feature_enabled{name="DRAAdminAccess",stage="BETA"} 1
static void note_gate(struct offer *o, struct str line)
{
    struct str before, name, rest;
    if (!str_cut(line, '"', &before, &rest) || !str_cut(rest, '"', &name, &rest) ||
        !str_eqz(before, "kubernetes_feature_enabled{name="))
        return;
    enum feature gate = feature_find(name);
    ptrdiff_t space = str_rfind_char(rest, ' ');
    if (gate == FEATURE_NONE || space < 0)
        return;
    o->gates_known = true;
    o->gate_said[gate] = true;
    o->gate_on[gate] = str_eqz(str_trim(str_from(rest, (size_t)space)), "1");
}

void offer_read_metrics(struct offer *o, struct str body)
{
    while (body.n) {
        struct str line;
        str_cut(body, '\n', &line, &body);
        if (str_starts(line, STR("kubernetes_feature_enabled{")))
            note_gate(o, line);
    }
}

int offer_features(const struct offer *o, struct features *ret, struct err *err)
{
    if (o->minor < OFFER_MINOR_OLDEST || !o->claims)
        return err_set(err, ERR_UNSUPPORTED,
                       "the server is 1.%u%s; dray needs 1.%d or newer, with resource.k8s.io/v1",
                       o->minor, o->claims ? "" : " and does not serve resource.k8s.io/v1",
                       OFFER_MINOR_OLDEST);
    features_init(ret, o->minor < FEATURES_MINOR ? o->minor : FEATURES_MINOR);
    for (size_t i = 0; i < FEATURES; i++)
        if (o->gate_said[i])
            ret->on[i] = o->gate_on[i];
    if (!o->rules)
        ret->on[FEATURE_DRA_DEVICE_TAINT_RULES] = false;
    if (!o->pool_requests)
        ret->on[FEATURE_DRA_RESOURCE_POOL_STATUS] = false;
    if (!o->pod_groups) {
        ret->on[FEATURE_GENERIC_WORKLOAD] = false;
        ret->on[FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS] = false;
    }
    return 0;
}

// --- Asking --------------------------------------------------------------------------------------

struct asking {
    struct client *client;
    struct offer offer;
    offer_fn done;
    void *arg;
    size_t left;
    int code;
    struct err err; // of the first failure
};

struct question {
    struct asking *asking;
    size_t which;
};

static void offer_finish_asking(struct asking *a)
{
    const struct offer *o = &a->offer;
    const struct api_kind *newest = api_kind_find(STR("resource.k8s.io/v1"), STR(RULES));
    if (a->code == 0 && o->rules && o->rules != newest && o->rules->type == newest->type)
        client_remote_redirect(a->client, newest, o->rules);
    a->done(a->arg, a->code, a->code ? &a->err : NULL, o);
    free(a);
}

static int read_answer(struct offer *o, size_t which, struct str body, struct err *err)
{
    if (questions[which].group_version)
        return offer_read_resources(o, str_z(questions[which].group_version), body, err);
    if (questions[which].optional) {
        offer_read_metrics(o, body);
        return 0;
    }
    return offer_read_version(o, body, err);
}

static void offer_on_answer(void *arg, int code, const struct err *err, struct str body)
{
    struct question *q = arg;
    struct asking *a = q->asking;
    size_t which = q->which;
    free(q);
    struct err why = {0};
    if (code < 0)
        why = *err;
    else
        code = read_answer(&a->offer, which, body, &why);
    bool absent = code == -ERR_NOT_FOUND && questions[which].group_version;
    if (code < 0 && a->code == 0 && !absent && !questions[which].optional) {
        a->code = code;
        a->err = why;
    }
    if (--a->left == 0)
        offer_finish_asking(a);
}

void offer_ask(struct client *c, offer_fn done, void *arg)
{
    struct asking *a = xcalloc(1, sizeof(*a));
    a->client = c;
    a->done = done;
    a->arg = arg;
    a->left = array_len(questions);
    for (size_t i = 0; i < array_len(questions); i++) {
        struct question *q = xcalloc(1, sizeof(*q));
        *q = (struct question){a, i};
        client_remote_raw(c, "GET", str_z(questions[i].target), (struct str){0}, offer_on_answer,
                          q);
    }
}
