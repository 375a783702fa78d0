// SPDX-License-Identifier: Apache-2.0
//
// dray describe: an object in words, with what has happened to it.
#include "cmd/objects/describe.h"

#include <stdio.h>

#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/objects/follow.h"
#include "codec/base64.h"
#include "codec/yaml.h"
#include "view/human.h"

#include "base/banned.h"

#define VALUE_COLUMN 18

static struct cli_texts words;

static int verb_describe(void);

const struct cli_verb describe_verb = {
    .name = "describe",
    .summary = "show details and events",
    .chapter = CLI_OBJECTS,
    .everyday = true,
    .synopsis = "describe KIND[,KIND…] [NAME…] [OPTIONS]\ndescribe KIND/NAME… [OPTIONS]",
    .text = "Shows objects in detail: what they request, what they got, and their events.",
    .examples = "dray describe pod trainer\n"
                "dray describe claim -n team-a\n"
                "dray describe slice,class\n"
                "dray describe node/gpu-1",
    .groups = {&common_list, &common_cluster},
    .words = &words,
    .kinds = true,
    .run = verb_describe,
};

// --- Lines ---------------------------------------------------------------------------------------

void describe_field(struct sbuf *out, size_t indent, const char *name, struct str value)
{
    size_t used = indent + strlen(name) + 1;
    sbuf_add_repeat(out, ' ', indent);
    sbuf_addf(out, "%s:", name);
    sbuf_add_repeat(out, ' ', used < VALUE_COLUMN ? VALUE_COLUMN - used : 1);
    if (value.n)
        view_add_line(out, value);
    else
        sbuf_addz(out, "<none>");
    sbuf_addc(out, '\n');
}

void describe_value(struct sbuf *out, const yyjson_val *v)
{
    if (!v)
        return;
    if (json_is_string(v))
        sbuf_add(out, json_str(v));
    else
        view_add_json(out, v, 0);
}

void describe_map(struct sbuf *out, size_t indent, const char *name, const yyjson_val *map)
{
    if (!map || !json_is_object(map) || json_len(map) == 0) {
        describe_field(out, indent, name, (struct str){0});
        return;
    }
    const char *label = name;
    json_obj_foreach(map, key, value) {
        if (str_eqz(json_str(key), "kubectl.kubernetes.io/last-applied-configuration"))
            continue; // the whole object once more, a secret's values as well
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "%.*s=", STR_ARG(json_str(key)));
        describe_value(&text, value);
        if (label) {
            describe_field(out, indent, label, sbuf_str(&text));
        } else {
            sbuf_add_repeat(out, ' ', VALUE_COLUMN);
            view_add_line(out, sbuf_str(&text));
            sbuf_addc(out, '\n');
        }
        label = NULL;
    }
    if (label)
        describe_field(out, indent, label, (struct str){0});
}

void describe_map_line(struct sbuf *out, const yyjson_val *map)
{
    const char *between = "";
    if (!map || !json_is_object(map))
        return;
    json_obj_foreach(map, key, value) {
        sbuf_addf(out, "%s%.*s=", between, STR_ARG(json_str(key)));
        describe_value(out, value);
        between = ", ";
    }
}

static void describe_add_table(struct sbuf *out, struct view_table *t)
{
    cleanup_sbuf struct sbuf text = {0};
    const struct view_layout how = {0};
    view_table_write(t, &how, &text);
    for (struct str rest = sbuf_str(&text), row; rest.n;) {
        str_cut(rest, '\n', &row, &rest);
        sbuf_addf(out, "  %.*s\n", STR_ARG(row));
    }
}

void describe_conditions(struct sbuf *out, const yyjson_val *object)
{
    static const char *const fields[] = {"type", "status", "reason", "message"};
    static const char *const names[] = {"Type", "Status", "Reason", "Message"};
    const yyjson_val *list = objects_list(object, "status.conditions");
    cleanup_view_table struct view_table t = {0};
    if (!list || json_len(list) == 0)
        return;
    for (size_t i = 0; i < array_len(names); i++)
        view_table_column(&t, str_z(names[i]), 0);
    json_arr_foreach(list, c) {
        for (size_t i = 0; i < array_len(fields); i++)
            view_table_cell(&t, objects_text(c, fields[i]), VIEW_PLAIN);
    }
    sbuf_addz(out, "Conditions:\n");
    describe_add_table(out, &t);
}

// --- Events --------------------------------------------------------------------------------------

// describe_event_time is when it was seen last, in either field.
static struct str describe_event_time(const yyjson_val *e)
{
    static const char *const fields[] = {"series.lastObservedTime", "lastTimestamp", "eventTime",
                                         "metadata.creationTimestamp"};
    struct str at = {0};
    for (size_t i = 0; i < array_len(fields) && !at.n; i++)
        at = objects_text(e, fields[i]);
    return at;
}

static void add_event(struct view_table *t, const yyjson_val *e)
{
    cleanup_sbuf struct sbuf age = {0};
    struct str from = objects_text(e, "source.component");
    view_add_age(&age, describe_event_time(e), view_now());
    view_table_cell(t, objects_text(e, "type"), VIEW_PLAIN);
    view_table_cell(t, objects_text(e, "reason"), VIEW_PLAIN);
    view_table_cell(t, sbuf_str(&age), VIEW_PLAIN);
    view_table_cell(t, from.n ? from : objects_text(e, "reportingComponent"), VIEW_PLAIN);
    view_table_cell(t, objects_text(e, "message"), VIEW_PLAIN);
}

static int on_events(void *arg, const yyjson_val *page, struct err *err)
{
    const yyjson_val *items = objects_list(page, "items");
    (void)err;
    if (items) {
        json_arr_foreach(items, e)
            add_event(arg, e);
    }
    return 0;
}

static int describe_add_events(struct cluster *c, const yyjson_val *object, struct sbuf *out,
                               struct err *err)
{
    static const char *const names[] = {"Type", "Reason", "Age", "From", "Message"};
    cleanup_sbuf struct sbuf path = {0}, query = {0}, fields = {0};
    cleanup_view_table struct view_table t = {0};
    struct str namespace = objects_text(object, "metadata.namespace");
    for (size_t i = 0; i < array_len(names); i++)
        view_table_column(&t, str_z(names[i]), 0);
    sbuf_addz(&path, "/api/v1/");
    if (namespace.n) {
        sbuf_addz(&path, "namespaces/");
        client_escape(&path, namespace);
        sbuf_addc(&path, '/');
    }
    sbuf_addz(&path, "events");
    sbuf_addf(&fields, "involvedObject.name=%.*s,involvedObject.kind=%.*s",
              STR_ARG(objects_text(object, "metadata.name")),
              STR_ARG(objects_text(object, "kind")));
    follow_add_query(&query, "fieldSelector", sbuf_str(&fields));
    const struct follow f = {
        .path = sbuf_str(&path), .query = sbuf_str(&query), .page = on_events, .arg = &t};
    int r = follow_list(c, &f, NULL, err);
    if (r == -ERR_FORBIDDEN)
        return 0; // who may see the object need not see events
    if (r < 0)
        return r;
    if (t.cells.n == 0) {
        describe_field(out, 0, "Events", (struct str){0});
        return 0;
    }
    sbuf_addz(out, "Events:\n");
    describe_add_table(out, &t);
    return 0;
}

// --- Any kind ------------------------------------------------------------------------------------

// describe_other shows what is behind the metadata as YAML.
static void describe_other(struct sbuf *out, const yyjson_val *object)
{
    json_obj_foreach(object, key, value) {
        cleanup_sbuf struct sbuf text = {0};
        struct str name = json_str(key);
        if (str_eqz(name, "kind") || str_eqz(name, "apiVersion") || str_eqz(name, "metadata"))
            continue;
        sbuf_addf(out, "%.*s:\n", STR_ARG(name));
        yaml_write(value, true, &text);
        for (struct str rest = sbuf_str(&text), row; rest.n;) {
            str_cut(rest, '\n', &row, &rest);
            sbuf_addf(out, "  %.*s\n", STR_ARG(row));
        }
    }
}

// Of a secret only how long its values are: what is on a screen is seen by others. `dray get -o
// yaml` gives them.
static void describe_secret(struct sbuf *out, const yyjson_val *secret)
{
    const yyjson_val *data = objects_at(secret, "data");
    describe_field(out, 0, "Type", objects_text(secret, "type"));
    sbuf_addz(out, "Data:\n");
    if (!data || !json_is_object(data))
        return;
    json_obj_foreach(data, key, value) {
        cleanup_sbuf struct sbuf bytes = {0}, text = {0};
        if (json_is_string(value) && base64_decode(json_str(value), BASE64_STD, &bytes, NULL) == 0)
            sbuf_addf(&text, "%zu bytes", bytes.n);
        cleanup_free char *name = xstrndup(json_str(key).p, json_str(key).n);
        describe_field(out, 2, name, sbuf_str(&text));
    }
}

static describe_fn describe_function_for(const struct discovery_kind *k)
{
    static const struct {
        const char *group, *kind;
        describe_fn tell;
    } tellers[] = {
        {"", "Node", describe_node},
        {"", "Secret", describe_secret},
        {"resource.k8s.io", "ResourceClaim", describe_claim},
        {"resource.k8s.io", "ResourceClaimTemplate", describe_template},
        {"resource.k8s.io", "DeviceClass", describe_class},
        {"resource.k8s.io", "ResourceSlice", describe_slice},
    };
    for (size_t i = 0; i < array_len(tellers); i++)
        if (str_eqz(k->group, tellers[i].group) && str_eqz(k->kind, tellers[i].kind))
            return tellers[i].tell;
    return describe_other;
}

static void describe_add_head(struct sbuf *out, const yyjson_val *object)
{
    cleanup_sbuf struct sbuf owner = {0}, age = {0};
    const yyjson_val *owners = objects_list(object, "metadata.ownerReferences");
    describe_field(out, 0, "Name", objects_text(object, "metadata.name"));
    if (objects_text(object, "metadata.namespace").n)
        describe_field(out, 0, "Namespace", objects_text(object, "metadata.namespace"));
    describe_map(out, 0, "Labels", objects_at(object, "metadata.labels"));
    describe_map(out, 0, "Annotations", objects_at(object, "metadata.annotations"));
    describe_field(out, 0, "API version", objects_text(object, "apiVersion"));
    describe_field(out, 0, "Kind", objects_text(object, "kind"));
    view_add_age(&age, objects_text(object, "metadata.creationTimestamp"), view_now());
    describe_field(out, 0, "Age", sbuf_str(&age));
    if (objects_text(object, "metadata.deletionTimestamp").n)
        describe_field(out, 0, "Being deleted", objects_text(object, "metadata.deletionTimestamp"));
    if (owners && json_at(owners, 0)) {
        const yyjson_val *first = json_at(owners, 0);
        sbuf_addf(&owner, "%.*s/%.*s", STR_ARG(objects_text(first, "kind")),
                  STR_ARG(objects_text(first, "name")));
        describe_field(out, 0, "Owner", sbuf_str(&owner));
    }
}

static int describe_one(struct cluster *c, const struct target *t, struct str namespace,
                        struct err *err)
{
    cleanup_json_doc struct json_doc raw = {0}, doc = {0};
    cleanup_json_builder struct json_builder b = {0};
    cleanup_sbuf struct sbuf out = {0}, fitted = {0};
    struct view_layout how = {0};
    int r = common_layout(&how, err);
    if (r == 0)
        r = objects_get(c, t, namespace, &raw, err);
    if (r == 0)
        r = objects_build(&b, raw.root, t->kind, err);
    if (r < 0)
        return r;
    json_build_finish(&b, &doc);
    describe_add_head(&out, doc.root);
    if (str_eqz(t->kind->kind, "Pod") && !t->kind->group.n)
        describe_pod(&out, doc.root, c);
    else
        describe_function_for(t->kind)(&out, doc.root);
    r = describe_add_events(c, doc.root, &out, err);
    if (r < 0 || !how.term.columns)
        return r < 0 ? r : common_print(sbuf_str(&out), err);
    view_add_hanging(&fitted, sbuf_str(&out), how.term.columns);
    return common_print(sbuf_str(&fitted), err);
}

// --- The verb ------------------------------------------------------------------------------------

static int describe_run_verb(struct cluster *c, struct arena *arena, bool *ret_failed,
                             struct err *err)
{
    struct targets targets = {0}, all = {0};
    int r = common_open(c, err);
    if (r == 0 && common.all_namespaces)
        r = err_set(err, ERR_INVALID, "describe works in one namespace: -n NAME");
    if (r == 0)
        r = objects_read(c, &words, arena, &targets, err);
    for (size_t i = 0; i < targets.n && r == 0; i++) {
        if (targets.p[i].name.n)
            vec_push_arena(arena, &all, targets.p[i]);
        else
            r = objects_names(c, targets.p[i].kind, arena, &all, err);
    }
    if (r == 0 && all.n == 0)
        (void)fprintf(stderr, "No resources found\n");
    for (size_t i = 0; i < all.n && r == 0; i++) {
        if (i)
            r = common_print(STR("\n\n"), err);
        if (r == 0)
            r = describe_one(c, &all.p[i], common_namespace(c), err);
        if (r == -ERR_NOT_FOUND) {
            (void)common_fail("describe", err);
            *ret_failed = true;
            r = 0;
        }
    }
    return r;
}

static int verb_describe(void)
{
    struct cluster c = {0};
    cleanup_arena struct arena arena = {0};
    struct err err = {0};
    bool failed = false;
    int r = VERB_OK;
    if (describe_run_verb(&c, &arena, &failed, &err) < 0)
        r = err.code == ERR_INVALID ? cli_usage_error("describe", err.msg)
                                    : common_fail("describe", &err);
    if (r == VERB_OK && failed)
        r = VERB_NO;
    cluster_close(&c);
    return r;
}
