// SPDX-License-Identifier: Apache-2.0
//
// The columns a definition asks for, as cells of a Table.
#include "api/crd/custom_table.h"

#include "base/vec.h"
#include "codec/rfc3339.h"

#include "base/banned.h"

// What a JSON path finds. More are not looked for.
#define FOUND_MAX 64

struct found {
    const struct dyn *p[FOUND_MAX];
    size_t n;
};

static void custom_table_add_value(struct found *f, const struct dyn *v)
{
    if (v && f->n < FOUND_MAX)
        f->p[f->n++] = v;
}

static struct str custom_table_unquote(struct str s)
{
    bool quoted = s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0];
    return quoted ? str_make(s.p + 1, s.n - 2) : s;
}

// [?(@.type=="Ready")]: items whose member is this.
static void custom_table_filter_list(const struct dyn *v, struct str test, struct found *out)
{
    ptrdiff_t equals = str_find(test, STR("=="));
    struct str path = str_trim(equals < 0 ? test : str_upto(test, (size_t)equals));
    struct str want =
        equals < 0 ? STR("") : custom_table_unquote(str_trim(str_from(test, (size_t)equals + 2)));
    if (!str_starts(path, STR("@")) || v->type != DYN_LIST)
        return;
    for (size_t i = 0; i < v->items_len; i++) {
        const struct dyn *have = custom_at(&v->items[i], str_from(path, 1));
        cleanup_sbuf struct sbuf text = {0};
        if (have && have->type == DYN_STR)
            sbuf_add(&text, have->text);
        else if (have)
            dyn_text(have, &text);
        if (have && (equals < 0 || str_eq(sbuf_str(&text), want)))
            custom_table_add_value(out, &v->items[i]);
    }
}

static void custom_table_eval_bracket(const struct dyn *v, struct str inside, struct found *out)
{
    int64_t at = 0;
    if (str_starts(inside, STR("?(")) && str_ends(inside, STR(")"))) {
        custom_table_filter_list(v, str_make(inside.p + 2, inside.n - 3), out);
    } else if (str_eqz(inside, "*") && v->type == DYN_LIST) {
        for (size_t i = 0; i < v->items_len; i++)
            custom_table_add_value(out, &v->items[i]);
    } else if (v->type == DYN_LIST && str_to_i64(inside, &at) == 0) {
        at += at < 0 ? (int64_t)v->items_len : 0;
        if (at >= 0 && (size_t)at < v->items_len)
            custom_table_add_value(out, &v->items[at]);
    } else {
        custom_table_add_value(out, dyn_get(v, custom_table_unquote(inside)));
    }
}

// The end of a step that starts with a bracket: the one that closes it, quotes considered.
static size_t bracket_end(struct str path)
{
    char quote = 0;
    for (size_t i = 1; i < path.n; i++) {
        char c = path.p[i];
        if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == ']')
            return i;
    }
    return path.n;
}

static void custom_table_eval_member(const struct dyn *v, struct str name, struct found *out)
{
    if (!str_eqz(name, "*")) {
        custom_table_add_value(out, dyn_get(v, name));
        return;
    }
    for (size_t i = 0; v->type == DYN_OBJECT && i < v->members_len; i++)
        custom_table_add_value(out, &v->members[i].value);
    for (size_t i = 0; v->type == DYN_LIST && i < v->items_len; i++)
        custom_table_add_value(out, &v->items[i]);
}

static void custom_table_eval_path(const struct dyn *root, struct str path, struct found *ret)
{
    *ret = (struct found){{root}, 1};
    while (path.n && ret->n) {
        struct found next = {0};
        struct str step;
        bool in_brackets = path.p[0] == '[';
        if (in_brackets) {
            size_t end = bracket_end(path);
            step = str_make(path.p + 1, end - 1);
            path = str_from(path, end + 1);
        } else {
            path = str_from(path, path.p[0] == '.' ? 1 : 0);
            size_t end = 0;
            while (end < path.n && path.p[end] != '.' && path.p[end] != '[') {
                end += path.p[end] == '\\' && end + 1 < path.n ? 2 : 1;
            }
            step = str_upto(path, end);
            path = str_from(path, end);
        }
        for (size_t i = 0; i < ret->n && (in_brackets || step.n); i++) {
            if (in_brackets)
                custom_table_eval_bracket(ret->p[i], step, &next);
            else
                custom_table_eval_member(ret->p[i], step, &next);
        }
        *ret = next;
    }
}

static void write_age(const struct dyn *v, const struct api_table_view *t, struct json_writer *w)
{
    struct api_time at = {0};
    cleanup_sbuf struct sbuf text = {0};
    if (v->type == DYN_STR && rfc3339_parse(v->text, &at.at, NULL) == 0) {
        at.set = true;
        sbuf_add_age(&text, &at, t->now);
    } else {
        sbuf_addz(&text, "<invalid>");
    }
    json_write_str(w, sbuf_str(&text));
}

static void custom_table_write_text(const struct found *f, struct json_writer *w)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < f->n; i++) {
        sbuf_addz(&text, i ? "," : "");
        if (f->p[i]->type == DYN_STR)
            sbuf_add(&text, f->p[i]->text);
        else
            dyn_text(f->p[i], &text);
    }
    json_write_str(w, sbuf_str(&text));
}

static void write_cell(const struct custom_column *c, const struct dyn *whole,
                       const struct api_table_view *t, struct json_writer *w)
{
    struct found f;
    custom_table_eval_path(whole, c->path, &f);
    const struct dyn *v = f.n ? f.p[0] : NULL;
    if (!v || v->type == DYN_NULL)
        json_write_null(w);
    else if (str_eqz(c->type, "date"))
        write_age(v, t, w);
    else if (str_eqz(c->type, "string"))
        custom_table_write_text(&f, w);
    else if (str_eqz(c->type, "integer") && v->type == DYN_DOUBLE)
        json_write_i64(w, (int64_t)v->real);
    else if ((str_eqz(c->type, "integer") && v->type == DYN_INT) ||
             (str_eqz(c->type, "number") && dyn_is_number(v)) ||
             (str_eqz(c->type, "boolean") && v->type == DYN_BOOL))
        dyn_write(v, w);
    else
        json_write_null(w);
}

static void write_column(const struct custom_column *c, struct json_writer *w)
{
    const struct {
        const char *key;
        struct str text;
    } texts[] = {{"name", c->name},
                 {"type", c->type},
                 {"format", c->format},
                 {"description", c->description}};
    json_write_object_begin(w);
    for (size_t i = 0; i < array_len(texts); i++) {
        json_write_key(w, str_z(texts[i].key));
        json_write_str(w, texts[i].text);
    }
    json_write_key(w, STR("priority"));
    json_write_i64(w, c->priority);
    json_write_object_end(w);
}

static const struct custom_column name_column = {.name = STR_INIT("Name"),
                                                 .type = STR_INIT("string"),
                                                 .format = STR_INIT("name"),
                                                 .description = STR_INIT("The object's name.")};
// Without columns of its own a kind has this one.
static const struct custom_column age_column = {.name = STR_INIT("Age"),
                                                .type = STR_INIT("date"),
                                                .description =
                                                    STR_INIT("How long the object has existed."),
                                                .path = STR_INIT(".metadata.creationTimestamp")};

void custom_columns(const struct api_custom *c, struct json_writer *w)
{
    json_write_array_begin(w);
    write_column(&name_column, w);
    for (size_t i = 0; i < c->columns_len; i++)
        write_column(&c->columns[i], w);
    if (c->columns_len == 0)
        write_column(&age_column, w);
    json_write_array_end(w);
}

void custom_cells(const struct api_table_view *t, const void *value, struct json_writer *w,
                  struct arena *arena)
{
    const struct api_custom *c = t->kind->custom;
    const struct custom_object *o = value;
    struct dyn whole = custom_whole(o, t->kind, arena);
    json_write_str(w, o->metadata.name);
    for (size_t i = 0; i < c->columns_len; i++)
        write_cell(&c->columns[i], &whole, t, w);
    if (c->columns_len == 0)
        write_cell(&age_column, &whole, t, w);
}
