// SPDX-License-Identifier: Apache-2.0
//
// Devices for users who may not list slices and classes: those that the claims of their namespace
// hold.
#include "cmd/devices/own_claims.h"

#include <stdio.h>

#include "cmd/local.h"

#include "base/banned.h"

static void own_claims_add_row(struct view_table *t, const yyjson_val *claim,
                               const yyjson_val *result)
{
    cleanup_sbuf struct sbuf device = {0};
    const yyjson_val *users = json_get(json_get(claim, STR("status")), STR("reservedFor"));
    const yyjson_val *user = users ? json_at(users, 0) : NULL;
    sbuf_addf(&device, "%.*s/%.*s/%.*s", STR_ARG(json_get_str(result, "driver")),
              STR_ARG(json_get_str(result, "pool")), STR_ARG(json_get_str(result, "device")));
    view_table_cell(t, sbuf_str(&device), VIEW_PLAIN);
    view_table_cell(t, json_get_str(json_get(claim, STR("metadata")), "name"), VIEW_PLAIN);
    view_table_cell(t, user ? json_get_str(user, "name") : STR(""), VIEW_PLAIN);
}

static void own_claims_add_rows(struct view_table *t, const yyjson_val *claim)
{
    const yyjson_val *allocation = json_get(json_get(claim, STR("status")), STR("allocation"));
    const yyjson_val *results = json_get(json_get(allocation, STR("devices")), STR("results"));
    if (!results || !json_is_array(results))
        return;
    json_arr_foreach(results, result)
        own_claims_add_row(t, claim, result);
}

static int own_claims_show(struct device_source *s, struct err *err)
{
    cleanup_sbuf struct sbuf target = {0}, body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_view_table struct view_table t = {0};
    sbuf_addz(&target, "/apis/resource.k8s.io/v1/namespaces/");
    local_escape(&target, s->namespace);
    sbuf_addz(&target, "/resourceclaims");
    int r = cluster_get(&s->cluster, target.p, &body, err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &doc, err);
    if (r < 0)
        return r;
    if (!view_is_table(&s->format))
        return device_verb_show_json(s, &body, err);
    view_table_column(&t, STR("DEVICE"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("CLAIM"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("POD"), VIEW_COLUMN_WHOLE);
    const yyjson_val *items = json_get(doc.root, STR("items"));
    if (items && json_is_array(items)) {
        json_arr_foreach(items, claim)
            own_claims_add_rows(&t, claim);
    }
    return device_verb_show_table(s, &t, err);
}

int own_claims_answer(const char *verb, struct device_source *s, const struct err *why)
{
    struct err err = {0};
    (void)common_fail(verb, why);
    (void)fprintf(stderr, "What claims of namespace %.*s hold:\n", STR_ARG(s->namespace));
    int r = s->connected ? own_claims_show(s, &err) : 0;
    device_verb_close(s);
    return r < 0 ? common_fail(verb, &err) : VERB_NO;
}
