// SPDX-License-Identifier: Apache-2.0
//
// Expands YAML with holes and repetition. The number of values is bounded, because a few lines can
// ask for many.
#include "driver/sim/template.h"

#include "base/banned.h"

struct expander {
    const struct json_doc *doc;
    struct json_builder out;
    struct arena arena; // texts that expressions make
    size_t values;
    struct err *err;
};

static int template_expand_value(struct expander *x, const yyjson_val *v,
                                 const struct template_scope *scope);

// template_fail_at gives an error that has no position yet the place of v.
static int template_fail_at(struct expander *x, const yyjson_val *v, int code)
{
    struct json_pos pos;
    if (code < 0 && x->err && x->err->line == 0 && json_locate(x->doc, v, &pos))
        err_at(x->err, pos.line, pos.column);
    return code;
}

static int template_count_value(struct expander *x, const yyjson_val *v)
{
    if (++x->values <= TEMPLATE_VALUES_MAX)
        return 0;
    return template_fail_at(x, v,
                            err_set(x->err, ERR_INVALID, "the template makes more than %d values",
                                    TEMPLATE_VALUES_MAX));
}

// --- Texts ---------------------------------------------------------------------------------------

static void add_as_text(struct sbuf *out, const struct template_value *v)
{
    if (v->type == TEMPLATE_TEXT)
        sbuf_add(out, v->text);
    else if (v->type == TEMPLATE_BOOL)
        sbuf_addz(out, v->number ? "true" : "false");
    else
        sbuf_add_i64(out, v->number);
}

// next_hole finds ${…} in s: *head is what stands before, *expr what is inside, *tail the rest.
static int next_hole(struct expander *x, struct str s, struct str *head, struct str *expr,
                     struct str *tail, bool *ret_found)
{
    ptrdiff_t open = str_find(s, STR("${"));
    *ret_found = open >= 0;
    if (open < 0) {
        *head = s;
        return 0;
    }
    *head = str_upto(s, (size_t)open);
    struct str rest = str_from(s, (size_t)open + 2);
    ptrdiff_t close = str_find_char(rest, '}');
    if (close < 0)
        return err_set(x->err, ERR_INVALID, "\"%.*s\": the closing } of ${ is missing", STR_ARG(s));
    *expr = str_upto(rest, (size_t)close);
    *tail = str_from(rest, (size_t)close + 1);
    return 0;
}

static int fill_text(struct expander *x, struct str s, const struct template_scope *scope,
                     struct sbuf *out)
{
    for (;;) {
        struct str head;
        struct str expr;
        struct str tail;
        bool found;
        int r = next_hole(x, s, &head, &expr, &tail, &found);
        if (r != 0)
            return r;
        sbuf_add(out, head);
        if (!found)
            return 0;
        struct template_value v;
        r = template_eval(expr, scope, &x->arena, &v, x->err);
        if (r != 0)
            return r;
        if (v.type == TEMPLATE_JSON)
            return err_set(x->err, ERR_INVALID, "\"%.*s\" is a list or an object, not a text",
                           STR_ARG(expr));
        add_as_text(out, &v);
        s = tail;
    }
}

static int build_value(struct expander *x, const struct template_value *v)
{
    switch (v->type) {
    case TEMPLATE_INT:
        json_build_i64(&x->out, v->number);
        return 0;
    case TEMPLATE_BOOL:
        json_build_bool(&x->out, v->number != 0);
        return 0;
    case TEMPLATE_TEXT:
        json_build_str(&x->out, v->text);
        return 0;
    case TEMPLATE_JSON:
        break;
    }
    return json_build_value(&x->out, v->json, x->err);
}

static int expand_text(struct expander *x, const yyjson_val *v, const struct template_scope *scope)
{
    struct str s = json_str(v);
    struct str head;
    struct str expr;
    struct str tail = {0};
    bool found;
    int r = next_hole(x, s, &head, &expr, &tail, &found);
    if (r != 0)
        return template_fail_at(x, v, r);
    if (!found) {
        json_build_str(&x->out, s);
        return 0;
    }
    if (head.n == 0 && tail.n == 0) {
        struct template_value value;
        r = template_eval(expr, scope, &x->arena, &value, x->err);
        return template_fail_at(x, v, r == 0 ? build_value(x, &value) : r);
    }
    struct sbuf filled = {0};
    r = fill_text(x, s, scope, &filled);
    if (r == 0)
        json_build_str(&x->out, sbuf_str(&filled));
    sbuf_done(&filled);
    return template_fail_at(x, v, r);
}

// --- Repetition ----------------------------------------------------------------------------------

typedef int (*body_fn)(struct expander *x, const yyjson_val *v, const struct template_scope *scope);

// repeated: what one name of $for runs over.
struct repeated {
    const yyjson_val *list; // or NULL:
    int64_t from;
    int64_t count;
};

static int value_here(struct expander *x, const yyjson_val *v, const struct template_scope *scope,
                      struct template_value *ret)
{
    *ret = template_value_of(v);
    if (ret->type != TEMPLATE_TEXT)
        return 0;
    struct str s = str_trim(ret->text);
    if (str_starts(s, STR("${")) && str_ends(s, STR("}")))
        s = str_upto(str_from(s, 2), s.n - 3);
    return template_fail_at(x, v, template_eval(s, scope, &x->arena, ret, x->err));
}

static int number_here(struct expander *x, const yyjson_val *v, const struct template_scope *scope,
                       int64_t *ret)
{
    struct template_value value;
    int r = value_here(x, v, scope, &value);
    if (r != 0)
        return r;
    if (value.type != TEMPLATE_INT)
        return template_fail_at(x, v,
                                err_set(x->err, ERR_INVALID, "a whole number is needed here"));
    *ret = value.number;
    return 0;
}

static int read_repeated(struct expander *x, const yyjson_val *v,
                         const struct template_scope *scope, struct repeated *ret)
{
    *ret = (struct repeated){0};
    if (json_is_object(v)) {
        const yyjson_val *from = json_get(v, STR("from"));
        const yyjson_val *count = json_get(v, STR("count"));
        if (!from || !count || json_len(v) != 2)
            return template_fail_at(x, v,
                                    err_set(x->err, ERR_INVALID, "$for takes {from: a, count: n}"));
        int r = number_here(x, from, scope, &ret->from);
        return r == 0 ? number_here(x, count, scope, &ret->count) : r;
    }
    struct template_value value;
    int r = value_here(x, v, scope, &value);
    if (r != 0)
        return r;
    if (value.type == TEMPLATE_INT) {
        ret->count = value.number;
        return 0;
    }
    if (value.type != TEMPLATE_JSON || !json_is_array(value.json))
        return template_fail_at(x, v,
                                err_set(x->err, ERR_INVALID,
                                        "$for takes a number, a list or {from: a, count: n}"));
    ret->list = value.json;
    return 0;
}

// template_repeat_body runs body once for each combination of the names from key on; key is
// NULL-like when equal to end.
static int template_repeat_body(struct expander *x, const yyjson_val *key, const yyjson_val *end,
                                const yyjson_val *v, const struct template_scope *scope,
                                body_fn body)
{
    if (key == end)
        return body(x, v, scope);
    struct repeated r;
    int code = read_repeated(x, key + 1, scope, &r);
    if (code != 0)
        return code;
    struct template_scope inner = {.parent = scope, .name = json_str(key)};
    const yyjson_val *next = json_next(key + 1);
    if (r.list) {
        json_arr_foreach(r.list, item) {
            inner.value = template_value_of(item);
            code = template_repeat_body(x, next, end, v, &inner, body);
            if (code != 0)
                return code;
        }
        return 0;
    }
    for (int64_t i = 0; i < r.count; i++) {
        code = template_count_value(x, key);
        if (code != 0)
            return code;
        inner.value = (struct template_value){.type = TEMPLATE_INT, .number = r.from + i};
        code = template_repeat_body(x, next, end, v, &inner, body);
        if (code != 0)
            return code;
    }
    return 0;
}

// template_is_wanted evaluates $if; without one the answer is yes.
static int template_is_wanted(struct expander *x, const yyjson_val *v,
                              const struct template_scope *scope, bool *ret)
{
    const yyjson_val *condition = json_get(v, STR("$if"));
    *ret = true;
    if (!condition)
        return 0;
    struct template_value value;
    int r = value_here(x, condition, scope, &value);
    if (r == 0 && (value.type == TEMPLATE_TEXT || value.type == TEMPLATE_JSON))
        r = template_fail_at(x, condition, err_set(x->err, ERR_INVALID, "$if takes a condition"));
    *ret = r == 0 && value.number != 0;
    return r;
}

static int expand_entries(struct expander *x, const yyjson_val *v,
                          const struct template_scope *scope);

static int each_body(struct expander *x, const yyjson_val *v, const struct template_scope *scope)
{
    bool yes;
    int r = template_is_wanted(x, v, scope, &yes);
    return r == 0 && yes ? expand_entries(x, v, scope) : r;
}

static int item_body(struct expander *x, const yyjson_val *v, const struct template_scope *scope)
{
    bool yes;
    int r = template_is_wanted(x, v, scope, &yes);
    if (r != 0 || !yes)
        return r;
    const yyjson_val *item = json_get(v, STR("$item"));
    if (item)
        return template_expand_value(x, item, scope);
    r = template_fail_at(x, v, json_build_object(&x->out, x->err));
    if (r == 0)
        r = expand_entries(x, v, scope);
    if (r == 0)
        json_build_end(&x->out);
    return r;
}

static int repeat_all(struct expander *x, const yyjson_val *v, const struct template_scope *scope,
                      body_fn body)
{
    const yyjson_val *names = json_get(v, STR("$for"));
    if (!names)
        return body(x, v, scope);
    if (!json_is_object(names))
        return template_fail_at(x, names,
                                err_set(x->err, ERR_INVALID, "$for takes {name: values}"));
    return template_repeat_body(x, json_obj_first(names), json_next(names), v, scope, body);
}

// --- Values --------------------------------------------------------------------------------------

static int expand_entry(struct expander *x, const yyjson_val *key, const yyjson_val *v,
                        const struct template_scope *scope)
{
    struct str name = json_str(key);
    if (str_eq(name, STR("$for")) || str_eq(name, STR("$if")))
        return 0;
    if (str_eq(name, STR("$each"))) {
        if (!json_is_object(v))
            return template_fail_at(x, v, err_set(x->err, ERR_INVALID, "$each takes an object"));
        return repeat_all(x, v, scope, each_body);
    }
    struct sbuf filled = {0};
    int r = template_fail_at(x, key, fill_text(x, name, scope, &filled));
    if (r == 0)
        json_build_str(&x->out, sbuf_str(&filled));
    sbuf_done(&filled);
    return r == 0 ? template_expand_value(x, v, scope) : r;
}

static int expand_entries(struct expander *x, const yyjson_val *v,
                          const struct template_scope *scope)
{
    json_obj_foreach(v, key, value) {
        int r = expand_entry(x, key, value, scope);
        if (r != 0)
            return r;
    }
    return 0;
}

static int expand_list(struct expander *x, const yyjson_val *v, const struct template_scope *scope)
{
    int r = template_fail_at(x, v, json_build_array(&x->out, x->err));
    if (r != 0)
        return r;
    json_arr_foreach(v, item) {
        r = json_is_object(item) ? repeat_all(x, item, scope, item_body)
                                 : template_expand_value(x, item, scope);
        if (r != 0)
            return r;
    }
    json_build_end(&x->out);
    return 0;
}

static int template_expand_value(struct expander *x, const yyjson_val *v,
                                 const struct template_scope *scope)
{
    int r = template_count_value(x, v);
    if (r != 0)
        return r;
    if (json_is_string(v))
        return expand_text(x, v, scope);
    if (json_is_array(v))
        return expand_list(x, v, scope);
    if (!json_is_object(v))
        return template_fail_at(x, v, json_build_value(&x->out, v, x->err));
    r = template_fail_at(x, v, json_build_object(&x->out, x->err));
    if (r == 0)
        r = expand_entries(x, v, scope);
    if (r == 0)
        json_build_end(&x->out);
    return r;
}

int template_expand(const struct json_doc *doc, const yyjson_val *v,
                    const struct template_scope *scope, struct json_doc *ret, struct err *err)
{
    struct expander x = {.doc = doc, .err = err};
    int r = template_expand_value(&x, v, scope);
    if (r == 0)
        json_build_finish(&x.out, ret);
    json_builder_done(&x.out);
    arena_done(&x.arena);
    return r;
}
