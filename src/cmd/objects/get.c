// SPDX-License-Identifier: Apache-2.0
//
// dray get: objects of any kind, as the server's own tables or as data.
#include <stdio.h>

#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/objects/follow.h"
#include "cmd/objects/objects.h"
#include "codec/json_writer.h"
#include "view/human.h"

#include "base/banned.h"

static struct {
    struct cli_texts words, label_columns;
    const char *field_selector;
    bool show_labels, ignore_not_found;
} args;

static int verb_get(void);

static const struct cli_option get_options[] = {
    {"--field-selector", NULL, "FIELDS", "show objects with these fields: status.phase=Running",
     .text = &args.field_selector},
    {"--show-labels", NULL, NULL, "show a column with the labels", .flag = &args.show_labels},
    {"--label-columns", "-L", "KEY,KEY", "show a column for each of these labels; repeatable",
     .many = &args.label_columns},
    {"--ignore-not-found", NULL, NULL, "do not fail if an object does not exist",
     .flag = &args.ignore_not_found},
};
static const struct cli_group get_group = CLI_GROUP("Options", get_options);

const struct cli_verb get_verb = {
    .name = "get",
    .summary = "show objects of any kind",
    .chapter = CLI_OBJECTS,
    .everyday = true,
    .synopsis = "get KIND[,KIND…] [NAME…] [OPTIONS]\nget KIND/NAME… [OPTIONS]",
    .text = "Shows objects of any kind that the server has. KIND is a plural, a singular, a short "
            "name or a kind, with a group "
            "where needed (deployments.apps), or a category such as all.",
    .examples = "dray get pods -A -o wide\n"
                "dray get claims,slices\n"
                "dray get resourceclaim my-claim -o yaml\n"
                "dray get pods -l app=web -o jsonpath='{.items[*].metadata.name}'\n"
                "dray get pods --watch",
    .groups = {&get_group, &common_list, &common_cluster},
    .words = &args.words,
    .kinds = true,
    .kubectl = "--sort-by -f --filename -k --kustomize --chunk-size --raw --subresource "
               "--output-watch-events --watch-only",
    .run = verb_get,
};

#define COLUMNS_FOR_GROUPS 120

// What is being shown: a table of one kind, or all objects as one document.
struct show {
    struct cluster *c;
    struct arena arena;
    struct view_output output;
    struct view_layout layout;
    struct str namespace; // empty: all
    struct targets targets;
    bool many_kinds;
    size_t shown; // rows and objects
    bool failed;  // a name was not there
    bool blank;   // a line between this table and the last
    // The table that is being filled.
    const struct discovery_kind *kind;
    struct view_table table;
    size_t columns; // of the server's; 0: not known yet
    // Or the document.
    struct json_builder items;
};

// --- Tables --------------------------------------------------------------------------------------

static void add_upper(struct sbuf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        char ch = text.p[i];
        sbuf_addc(out, (char)(ch >= 'a' && ch <= 'z' ? ch - 'a' + 'A' : ch));
    }
}

static bool shows_namespace(const struct show *s)
{
    return s->kind->namespaced && common.all_namespaces;
}

static void add_column(struct show *s, const yyjson_val *definition)
{
    cleanup_sbuf struct sbuf name = {0};
    const yyjson_val *priority = json_get(definition, STR("priority"));
    int64_t p = 0;
    if (priority)
        (void)!json_to_i64(priority, &p, NULL);
    add_upper(&name, objects_text(definition, "name"));
    view_table_column(&s->table, sbuf_str(&name),
                      (p > 0 ? VIEW_COLUMN_WIDE : 0U) | (s->columns == 0 ? VIEW_COLUMN_WHOLE : 0U));
    s->columns++;
}

// get_each_label_column calls fn with the key of each column of --label-columns.
static void get_each_label_column(void (*fn)(void *arg, struct str key), void *arg)
{
    vec_foreach(&args.label_columns, list)
        for (struct str rest = str_z(*list), key; rest.n;) {
            (void)str_cut(rest, ',', &key, &rest);
            if (key.n)
                fn(arg, key);
        }
}

static void get_add_label_column(void *arg, struct str key)
{
    struct show *s = arg;
    cleanup_sbuf struct sbuf name = {0};
    ptrdiff_t slash = str_rfind_char(key, '/');
    add_upper(&name, slash < 0 ? key : str_from(key, (size_t)slash + 1));
    view_table_column(&s->table, sbuf_str(&name), 0);
}

struct get_label_cells {
    struct show *s;
    const yyjson_val *labels;
};

static void get_add_label_cell(void *arg, struct str key)
{
    const struct get_label_cells *c = arg;
    const yyjson_val *value = c->labels ? json_get(c->labels, key) : NULL;
    view_table_cell(&c->s->table, value && json_is_string(value) ? json_str(value) : STR(""),
                    VIEW_PLAIN);
}

static void add_columns(struct show *s, const yyjson_val *table)
{
    const yyjson_val *definitions = objects_list(table, "columnDefinitions");
    if (s->columns || !definitions || json_len(definitions) == 0)
        return;
    if (shows_namespace(s))
        view_table_column(&s->table, STR("NAMESPACE"), VIEW_COLUMN_WHOLE);
    json_arr_foreach(definitions, d)
        add_column(s, d);
    get_each_label_column(get_add_label_column, s);
    if (args.show_labels)
        view_table_column(&s->table, STR("LABELS"), 0);
}

static void add_labels(struct show *s, const yyjson_val *meta)
{
    cleanup_sbuf struct sbuf text = {0};
    const yyjson_val *labels = meta ? json_get(meta, STR("labels")) : NULL;
    if (labels && json_is_object(labels)) {
        json_obj_foreach(labels, key, value)
            sbuf_addf(&text, "%s%.*s=%.*s", text.n ? "," : "", STR_ARG(json_str(key)),
                      STR_ARG(json_is_string(value) ? json_str(value) : STR("")));
    }
    view_table_cell(&s->table, text.n ? sbuf_str(&text) : STR("<none>"), VIEW_PLAIN);
}

// get_add_kind adds the kind of an object. A narrow terminal has no room for its group.
static void get_add_kind(const struct show *s, struct sbuf *out)
{
    size_t columns = s->layout.term.columns;
    if (columns && columns < COLUMNS_FOR_GROUPS)
        sbuf_add(out, s->kind->singular.n ? s->kind->singular : s->kind->plural);
    else
        discovery_add_name(out, s->kind, true);
    sbuf_addc(out, '/');
}

// get_add_cell adds a cell of the server's; the first is the name, with its kind where several are
// shown.
static void get_add_cell(struct show *s, const yyjson_val *cell, bool first)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    if (first && s->many_kinds)
        get_add_kind(s, &text);
    if (cell && json_is_string(cell))
        sbuf_add(&text, json_str(cell));
    else if (cell && !json_is_null(cell))
        json_write_value(&w, cell);
    view_table_cell(&s->table, sbuf_str(&text),
                    first ? VIEW_PLAIN : view_style_of(sbuf_str(&text)));
}

static void get_add_row(struct show *s, const yyjson_val *row)
{
    const yyjson_val *meta = objects_at(row, "object.metadata");
    const yyjson_val *cells = objects_list(row, "cells");
    if (shows_namespace(s))
        view_table_cell(&s->table, objects_text(meta, "namespace"), VIEW_PLAIN);
    for (size_t i = 0; i < s->columns; i++)
        get_add_cell(s, cells ? json_at(cells, i) : NULL, i == 0);
    struct get_label_cells labels = {s, meta ? json_get(meta, STR("labels")) : NULL};
    get_each_label_column(get_add_label_cell, &labels);
    if (args.show_labels)
        add_labels(s, meta);
    s->shown++;
}

// add_plain_row is for servers that make no tables of a kind: name and age.
static void add_plain_row(struct show *s, const yyjson_val *object)
{
    cleanup_sbuf struct sbuf age = {0};
    const yyjson_val *meta = json_get(object, STR("metadata"));
    if (!s->columns) {
        if (shows_namespace(s))
            view_table_column(&s->table, STR("NAMESPACE"), VIEW_COLUMN_WHOLE);
        view_table_column(&s->table, STR("NAME"), VIEW_COLUMN_WHOLE);
        view_table_column(&s->table, STR("AGE"), 0);
        s->columns = 2;
    }
    if (shows_namespace(s))
        view_table_cell(&s->table, objects_text(meta, "namespace"), VIEW_PLAIN);
    view_table_cell(&s->table, objects_text(meta, "name"), VIEW_PLAIN);
    view_add_age(&age, objects_text(meta, "creationTimestamp"), view_now());
    view_table_cell(&s->table, sbuf_str(&age), VIEW_PLAIN);
    s->shown++;
}

static void get_add_table(struct show *s, const yyjson_val *table)
{
    const yyjson_val *rows = objects_list(table, "rows"), *items = objects_list(table, "items");
    if (str_eqz(objects_text(table, "kind"), "Table")) {
        add_columns(s, table);
        if (rows && s->columns) {
            json_arr_foreach(rows, row)
                get_add_row(s, row);
        }
    } else if (items) {
        json_arr_foreach(items, item)
            add_plain_row(s, item);
    } else {
        add_plain_row(s, table);
    }
}

static int print_table(struct show *s, struct err *err)
{
    cleanup_sbuf struct sbuf out = {0};
    if (s->table.cells.n == 0)
        return 0;
    if (s->blank && !s->table.headed)
        sbuf_addc(&out, '\n');
    view_table_write(&s->table, &s->layout, &out);
    s->blank = true;
    return common_print(sbuf_str(&out), err);
}

static void next_table(struct show *s, const struct discovery_kind *kind)
{
    view_table_done(&s->table);
    s->columns = 0;
    s->kind = kind;
}

// --- Asking --------------------------------------------------------------------------------------

// add_page takes a page of a list into the table or the document.
static int add_page(void *arg, const yyjson_val *page, struct err *err)
{
    struct show *s = arg;
    const yyjson_val *items = objects_list(page, "items");
    if (view_is_table(&s->output)) {
        get_add_table(s, page);
        return 0;
    }
    if (!items)
        return 0;
    json_arr_foreach(items, item) {
        int r = objects_build(&s->items, item, s->kind, err);
        if (r < 0)
            return r;
        s->shown++;
    }
    return 0;
}

static void get_add_selectors(struct sbuf *query, struct str name)
{
    cleanup_sbuf struct sbuf fields = {0};
    if (args.field_selector)
        sbuf_addz(&fields, args.field_selector);
    if (name.n)
        sbuf_addf(&fields, "%smetadata.name=%.*s", fields.n ? "," : "", STR_ARG(name));
    if (common.selector)
        follow_add_query(query, "labelSelector", str_z(common.selector));
    if (fields.n)
        follow_add_query(query, "fieldSelector", sbuf_str(&fields));
}

static int get_list_target(struct show *s, const struct target *t, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, query = {0};
    objects_add_path(&path, t, s->namespace);
    get_add_selectors(&query, (struct str){0});
    const struct follow f = {.path = sbuf_str(&path),
                             .query = sbuf_str(&query),
                             .table = view_is_table(&s->output),
                             .page = add_page,
                             .arg = s};
    return follow_list(s->c, &f, NULL, err);
}

static int get_one(struct show *s, const struct target *t, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    objects_add_path(&path, t, s->namespace);
    const bool table = view_is_table(&s->output);
    const struct client_raw_request q = {.method = "GET",
                                         .target = sbuf_str(&path),
                                         .accept =
                                             table ? STR(FOLLOW_TABLE) : STR("application/json")};
    int r = cluster_request(s->c, q, &body, err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &doc, err);
    if (r < 0)
        return r;
    if (table) {
        get_add_table(s, doc.root);
        return 0;
    }
    s->shown++;
    return objects_build(&s->items, doc.root, t->kind, err);
}

// get_collect_objects asks for all targets; tables are printed as they are whole.
static int get_collect_objects(struct show *s, struct err *err)
{
    for (size_t i = 0; i < s->targets.n; i++) {
        const struct target *t = &s->targets.p[i];
        int r = 0;
        if (t->kind != s->kind) {
            r = print_table(s, err);
            next_table(s, t->kind);
        }
        if (r == 0)
            r = t->name.n ? get_one(s, t, err) : get_list_target(s, t, err);
        if (r == -ERR_NOT_FOUND && t->name.n) {
            if (!args.ignore_not_found) {
                (void)common_fail("get", err);
                s->failed = true;
            }
            r = 0;
        }
        if (r < 0)
            return r;
    }
    return print_table(s, err);
}

// --- Documents -----------------------------------------------------------------------------------

static int begin_document(struct show *s, bool whole_list, struct err *err)
{
    if (!whole_list)
        return 0;
    int r = json_build_object(&s->items, err);
    json_build_str(&s->items, STR("apiVersion"));
    json_build_str(&s->items, STR("v1"));
    json_build_str(&s->items, STR("kind"));
    json_build_str(&s->items, STR("List"));
    json_build_str(&s->items, STR("items"));
    return r < 0 ? r : json_build_array(&s->items, err);
}

static int end_list(struct show *s, struct err *err)
{
    json_build_end(&s->items);
    json_build_str(&s->items, STR("metadata"));
    int r = json_build_object(&s->items, err);
    json_build_str(&s->items, STR("resourceVersion"));
    json_build_str(&s->items, STR(""));
    json_build_end(&s->items);
    json_build_end(&s->items);
    return r;
}

static int print_document(struct show *s, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf out = {0};
    json_build_finish(&s->items, &doc);
    int r = view_output_write(&s->output, doc.root, &out, err);
    return r < 0 ? r : common_print(sbuf_str(&out), err);
}

static int get_print_document(struct show *s, struct err *err)
{
    bool whole_list = s->targets.n != 1 || !s->targets.p[0].name.n;
    int r = begin_document(s, whole_list, err);
    if (r == 0)
        r = get_collect_objects(s, err);
    if (r < 0 || (!whole_list && s->shown == 0))
        return r;
    if (whole_list)
        r = end_list(s, err);
    return r < 0 ? r : print_document(s, err);
}

// --- Watching ------------------------------------------------------------------------------------

static int print_item(struct show *s, const yyjson_val *object, struct err *err)
{
    if (s->output.format == VIEW_YAML && s->shown++) {
        int r = common_print(STR("---\n"), err);
        if (r < 0)
            return r;
    }
    int r = objects_build(&s->items, object, s->kind, err);
    return r < 0 ? r : print_document(s, err);
}

static int watch_page(void *arg, const yyjson_val *page, struct err *err)
{
    struct show *s = arg;
    const yyjson_val *items = objects_list(page, "items");
    int r = 0;
    if (view_is_table(&s->output)) {
        get_add_table(s, page);
        return print_table(s, err);
    }
    if (items) {
        json_arr_foreach(items, item) {
            r = print_item(s, item, err);
            if (r < 0)
                break;
        }
    }
    return r;
}

static int watch_event(void *arg, struct str type, const yyjson_val *object, struct err *err)
{
    struct show *s = arg;
    (void)type;
    if (!view_is_table(&s->output))
        return print_item(s, object, err);
    get_add_table(s, object);
    return print_table(s, err);
}

static int get_watch_objects(struct show *s, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, query = {0};
    if (s->targets.n != 1)
        return err_set(err, ERR_INVALID, "--watch shows one kind, or one object of it");
    struct target t = s->targets.p[0];
    get_add_selectors(&query, t.name);
    t.name = (struct str){0};
    s->kind = t.kind;
    objects_add_path(&path, &t, s->namespace);
    const struct follow f = {.path = sbuf_str(&path),
                             .query = sbuf_str(&query),
                             .table = view_is_table(&s->output),
                             .page = watch_page,
                             .event = watch_event,
                             .arg = s};
    return follow_run(s->c, &f, err);
}

// --- The verb ------------------------------------------------------------------------------------

static void tell_empty(const struct show *s)
{
    bool scoped = s->targets.n == 1 && s->targets.p[0].kind->namespaced && s->namespace.n;
    if (s->shown || s->failed || !view_is_table(&s->output) || args.ignore_not_found)
        return;
    if (scoped)
        (void)fprintf(stderr, "No resources found in %.*s namespace.\n", STR_ARG(s->namespace));
    else
        (void)fprintf(stderr, "No resources found\n");
}

static bool several_kinds(const struct targets *t)
{
    for (size_t i = 1; i < t->n; i++)
        if (t->p[i].kind != t->p[0].kind)
            return true;
    return false;
}

static int get_run_verb(struct show *s, struct err *err)
{
    int r = common_open(s->c, err);
    s->namespace = common_namespace(s->c);
    if (r == 0)
        r = objects_read(s->c, &args.words, &s->arena, &s->targets, err);
    if (r < 0)
        return r;
    s->many_kinds = several_kinds(&s->targets);
    if (common.watch)
        return get_watch_objects(s, err);
    return view_is_table(&s->output) ? get_collect_objects(s, err) : get_print_document(s, err);
}

static int verb_get(void)
{
    struct cluster c = {0};
    struct show s = {.c = &c};
    struct err err = {0};
    int r = VERB_OK;
    if (common_format(VIEW_FORMATS_ALL, &s.arena, &s.output, &err) < 0 ||
        common_layout(&s.layout, &err) < 0) {
        r = cli_usage_error("get", err.msg);
    } else {
        s.layout.wide = s.output.format == VIEW_WIDE;
        if (get_run_verb(&s, &err) < 0)
            r = err.code == ERR_INVALID ? cli_usage_error("get", err.msg)
                                        : common_fail("get", &err);
        else
            tell_empty(&s);
        if (s.failed)
            r = VERB_NO;
    }
    view_table_done(&s.table);
    json_builder_done(&s.items);
    arena_done(&s.arena);
    cluster_close(&c);
    return r;
}
