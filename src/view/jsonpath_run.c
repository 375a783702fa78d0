// SPDX-License-Identifier: Apache-2.0
//
// Evaluation of a JSONPath template on a value, within bounds on nesting, values and output.
#include "base/str.h"
#include "codec/json_writer.h"
#include "view/jsonpath_int.h"
#include "view/output.h"

#include "base/banned.h"

struct run {
    const struct jsonpath *path;
    struct arena *arena;
    size_t steps; // values looked at
    struct sbuf *out;
    struct err *err;
};

// jsonpath_run_count_value counts a value that is looked at.
static int jsonpath_run_count_value(struct run *run)
{
    if (++run->steps > JSONPATH_STEPS_MAX)
        return err_set(run->err, ERR_TOO_LARGE, "jsonpath: the template looks at too much");
    return 0;
}

static int jsonpath_run_add_result(struct run *run, struct jsonpath_values *out,
                                   const yyjson_val *v)
{
    vec_push_arena(run->arena, out, v);
    return jsonpath_run_count_value(run);
}

static int run_steps(struct run *run, const struct step_list *steps, struct jsonpath_values from,
                     struct jsonpath_values *ret);

// --- Steps ---------------------------------------------------------------------------------------

// jsonpath_run_add_children adds what a list or a map holds.
static int jsonpath_run_add_children(struct run *run, const yyjson_val *v,
                                     struct jsonpath_values *out)
{
    int r = 0;
    if (json_is_array(v)) {
        json_arr_foreach(v, item) {
            r = jsonpath_run_add_result(run, out, item);
            if (r < 0)
                return r;
        }
    } else if (json_is_object(v)) {
        json_obj_foreach(v, key, value) {
            r = jsonpath_run_add_result(run, out, value);
            if (r < 0)
                return r;
        }
    }
    return r;
}

// jsonpath_run_descend adds v and everything in it that holds something, a container before its
// content. A document's values stand in this order one behind the other, so there is nothing to
// remember.
static int jsonpath_run_descend(struct run *run, const yyjson_val *v, struct jsonpath_values *out)
{
    const yyjson_val *end = json_next(v);
    int r = 0;
    for (; v < end && r == 0; v++)
        r = json_is_container(v) && json_len(v) ? jsonpath_run_add_result(run, out, v)
                                                : jsonpath_run_count_value(run);
    return r;
}

// jsonpath_run_bound_index makes an index of a bound: from the end if it is negative.
static int64_t jsonpath_run_bound_index(const struct slice_bound *b, int64_t otherwise, int64_t len)
{
    int64_t at = b->known ? b->value : otherwise;
    return at < 0 && at >= -len ? at + len : at;
}

static int jsonpath_run_slice(struct run *run, const struct step *s, const yyjson_val *v,
                              struct jsonpath_values *out)
{
    if (json_is_null(v))
        return 0;
    if (!json_is_array(v))
        return err_set(run->err, ERR_INVALID, "jsonpath: a %s is not a list and has no index",
                       json_type_name(v));
    int64_t len = (int64_t)json_len(v);
    int64_t from = jsonpath_run_bound_index(&s->bound[0], 0, len);
    int64_t to = s->one ? from + 1 : jsonpath_run_bound_index(&s->bound[1], len, len);
    int64_t by = s->bound[2].known ? s->bound[2].value : 1;
    if (from == to)
        return 0;
    if (from < 0 || to < 0 || from >= len || to > len)
        return err_set(run->err, ERR_INVALID,
                       "jsonpath: index %lld is out of bounds: the list has %lld",
                       (long long)(from < 0 || from >= len ? from : to - 1), (long long)len);
    if (from > to)
        return err_set(run->err, ERR_INVALID, "jsonpath: a slice from %lld to %lld has no items",
                       (long long)from, (long long)to);
    int64_t i = 0;
    json_arr_foreach(v, item) {
        if (i >= to)
            break;
        int r = i >= from && (i - from) % by == 0 ? jsonpath_run_add_result(run, out, item)
                                                  : jsonpath_run_count_value(run);
        if (r < 0)
            return r;
        i++;
    }
    return 0;
}

// --- Filters -------------------------------------------------------------------------------------

static bool jsonpath_run_is_number(const yyjson_val *v)
{
    return (v->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_NUM;
}

static bool is_bool(const yyjson_val *v)
{
    return (v->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_BOOL;
}

// jsonpath_run_compare sets *ret to -1, 0 or 1 for two numbers or texts; booleans are equal or not.
static int jsonpath_run_compare(struct run *run, const yyjson_val *a, const yyjson_val *b,
                                enum filter_op op, int *ret)
{
    double x = 0, y = 0;
    int64_t m = 0, n = 0;
    if (json_is_string(a) && json_is_string(b)) {
        int c = str_cmp(json_str(a), json_str(b));
        *ret = c < 0 ? -1 : c > 0;
    } else if (jsonpath_run_is_number(a) && jsonpath_run_is_number(b) &&
               json_to_i64(a, &m, NULL) == 0 && json_to_i64(b, &n, NULL) == 0) {
        *ret = m < n ? -1 : m > n;
    } else if (jsonpath_run_is_number(a) && jsonpath_run_is_number(b) &&
               json_to_double(a, &x, NULL) == 0 && json_to_double(b, &y, NULL) == 0) {
        *ret = x < y ? -1 : x > y;
    } else if (is_bool(a) && is_bool(b) && (op == FILTER_EQ || op == FILTER_NE)) {
        *ret = a->tag != b->tag;
    } else {
        return err_set(run->err, ERR_INVALID, "jsonpath: cannot compare a %s with a %s",
                       json_type_name(a), json_type_name(b));
    }
    return 0;
}

static bool jsonpath_run_order_holds(enum filter_op op, int order)
{
    switch (op) {
    case FILTER_EQ:
        return order == 0;
    case FILTER_NE:
        return order != 0;
    case FILTER_LT:
        return order < 0;
    case FILTER_LE:
        return order <= 0;
    case FILTER_GT:
        return order > 0;
    case FILTER_GE:
        return order >= 0;
    case FILTER_EXISTS:
        break;
    }
    return true;
}

// jsonpath_run_single_value runs a side of a comparison. Returns 1 with its value, 0 when there is
// none.
static int jsonpath_run_single_value(struct run *run, const struct step_list *steps,
                                     const yyjson_val *item, const yyjson_val **ret)
{
    struct jsonpath_values in = {0}, found = {0};
    vec_push_arena(run->arena, &in, item);
    int r = run_steps(run, steps, in, &found);
    if (r < 0 || found.n == 0)
        return r;
    if (found.n > 1)
        return err_set(run->err, ERR_INVALID, "jsonpath: a filter compares one value at a time");
    *ret = found.p[0];
    return 1;
}

// jsonpath_run_passes_filter returns whether a filter takes an item: 1, 0 or a negative code.
static int jsonpath_run_passes_filter(struct run *run, const struct step *s, const yyjson_val *item)
{
    const yyjson_val *left = NULL, *right = NULL;
    if (s->op == FILTER_EXISTS) {
        struct jsonpath_values in = {0}, found = {0};
        vec_push_arena(run->arena, &in, item);
        int r = run_steps(run, &s->left, in, &found);
        return r < 0 ? r : found.n > 0;
    }
    int r = jsonpath_run_single_value(run, &s->left, item, &left);
    if (r > 0)
        r = jsonpath_run_single_value(run, &s->right, item, &right);
    if (r <= 0)
        return r;
    int sign = 0;
    r = jsonpath_run_compare(run, left, right, s->op, &sign);
    return r < 0 ? r : jsonpath_run_order_holds(s->op, sign);
}

static int jsonpath_run_filter(struct run *run, const struct step *s, const yyjson_val *v,
                               struct jsonpath_values *out)
{
    if (!json_is_array(v))
        return err_set(run->err, ERR_INVALID, "jsonpath: a %s is not a list and cannot be filtered",
                       json_type_name(v));
    json_arr_foreach(v, item) {
        int r = jsonpath_run_passes_filter(run, s, item);
        if (r > 0)
            r = jsonpath_run_add_result(run, out, item);
        if (r < 0)
            return r;
    }
    return 0;
}

// --- Walking -------------------------------------------------------------------------------------

static int jsonpath_run_step(struct run *run, const struct step *s, const yyjson_val *v,
                             struct jsonpath_values *out)
{
    const yyjson_val *found;
    switch (s->type) {
    case STEP_FIELD:
        found = json_get(v, s->name);
        return found ? jsonpath_run_add_result(run, out, found) : jsonpath_run_count_value(run);
    case STEP_SLICE:
        return jsonpath_run_slice(run, s, v, out);
    case STEP_FILTER:
        return jsonpath_run_filter(run, s, v, out);
    case STEP_WILDCARD:
        return jsonpath_run_add_children(run, v, out);
    case STEP_RECURSIVE:
        return jsonpath_run_descend(run, v, out);
    case STEP_VALUE:
        return jsonpath_run_add_result(run, out, &s->value);
    case STEP_UNION:
        break;
    }
    return 0;
}

// run_union runs each list of a union on all values, one list after the other.
static int run_union(struct run *run, const struct step *s, const struct jsonpath_values *from,
                     struct jsonpath_values *out)
{
    vec_foreach(&s->lists, list) {
        struct jsonpath_values found = {0};
        int r = run_steps(run, list, *from, &found);
        for (size_t i = 0; i < found.n && r == 0; i++)
            r = jsonpath_run_add_result(run, out, found.p[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int run_steps(struct run *run, const struct step_list *steps, struct jsonpath_values from,
                     struct jsonpath_values *ret)
{
    vec_foreach(steps, s) {
        struct jsonpath_values next = {0};
        int r = s->type == STEP_UNION ? run_union(run, s, &from, &next) : 0;
        for (size_t i = 0; s->type != STEP_UNION && i < from.n && r == 0; i++)
            r = jsonpath_run_step(run, s, from.p[i], &next);
        if (r < 0)
            return r;
        from = next;
    }
    *ret = from;
    return 0;
}

// --- Templates -----------------------------------------------------------------------------------

static void jsonpath_run_add_value(struct sbuf *out, const yyjson_val *v)
{
    struct json_writer w = {.out = out, .html = true};
    if (json_is_string(v))
        sbuf_add(out, json_str(v));
    else if (json_is_container(v))
        view_add_json(out, v, 0);
    else
        json_write_value(&w, v);
}

static int jsonpath_run_add_values(struct run *run, const struct jsonpath_values *values)
{
    for (size_t i = 0; i < values->n; i++) {
        if (i)
            sbuf_addc(run->out, ' ');
        jsonpath_run_add_value(run->out, values->p[i]);
        if (run->out->n > JSONPATH_BYTES_MAX)
            return err_set(run->err, ERR_TOO_LARGE, "jsonpath: more than %zu bytes come out",
                           JSONPATH_BYTES_MAX);
    }
    return jsonpath_run_count_value(run);
}

static int run_parts(struct run *run, size_t from, size_t to, const yyjson_val *root)
{
    for (size_t i = from; i < to; i++) {
        const struct part *p = &run->path->parts.p[i];
        struct arena_mark mark = arena_mark(run->arena);
        struct jsonpath_values in = {0}, found = {0};
        vec_push_arena(run->arena, &in, root);
        int r = p->type == PART_END ? 0 : run_steps(run, &p->steps, in, &found);
        if (r == 0 && p->type == PART_STEPS)
            r = jsonpath_run_add_values(run, &found);
        for (size_t k = 0; p->type == PART_RANGE && k < found.n && r == 0; k++)
            r = run_parts(run, i + 1, p->end, found.p[k]);
        arena_rewind(run->arena, mark);
        if (r < 0)
            return r;
        if (p->type == PART_RANGE)
            i = p->end;
    }
    return 0;
}

int jsonpath_write(const struct jsonpath *path, const yyjson_val *root, struct sbuf *out,
                   struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct run run = {.path = path, .arena = &arena, .out = out, .err = err};
    return run_parts(&run, 0, path->parts.n, root);
}

int jsonpath_find(const struct jsonpath *path, const yyjson_val *root, struct arena *arena,
                  struct jsonpath_values *ret, struct err *err)
{
    struct run run = {.path = path, .arena = arena, .err = err};
    struct jsonpath_values in = {0};
    *ret = (struct jsonpath_values){0};
    if (path->parts.n == 0)
        return 0;
    vec_push_arena(arena, &in, root);
    return run_steps(&run, &path->parts.p[0].steps, in, ret);
}
