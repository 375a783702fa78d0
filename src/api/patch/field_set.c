// SPDX-License-Identifier: Apache-2.0
//
// The algebra of field sets. Sets are sorted by element, so that each operation is one merge of two
// sorted lists; results share the parts that did not change.
#include "api/patch/field_set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "codec/json_writer.h"

#include "base/banned.h"

#define SET_NODES_FIRST 4

// --- Elements ------------------------------------------------------------------------------------

static double field_set_get_number(const yyjson_val *v)
{
    switch (json_type(v)) {
    case JSON_INT:
        return (double)v->uni.i64;
    case JSON_UINT:
        return (double)v->uni.u64;
    case JSON_DOUBLE:
        return v->uni.f64;
    case JSON_NULL:
    case JSON_BOOL:
    case JSON_BIG:
    case JSON_STRING:
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    return 0;
}

// Numbers, strings, booleans, lists, maps, null.
static int field_set_rank_value(const yyjson_val *v)
{
    switch (json_type(v)) {
    case JSON_INT:
    case JSON_UINT:
    case JSON_DOUBLE:
    case JSON_BIG:
        return 0;
    case JSON_STRING:
        return 1;
    case JSON_BOOL:
        return 2;
    case JSON_ARRAY:
        return 3;
    case JSON_OBJECT:
        return 4;
    case JSON_NULL:
        break;
    }
    return 5;
}

static int field_set_order_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int number_cmp(const yyjson_val *a, const yyjson_val *b)
{
    if (json_type(a) == JSON_INT && json_type(b) == JSON_INT)
        return field_set_order_numbers(a->uni.i64, b->uni.i64);
    double x = field_set_get_number(a), y = field_set_get_number(b);
    return (x > y) - (x < y);
}

// Keys and items of sets are scalars; containers are compared by their text, which is an order as
// good as any.
static int field_set_order_values(const yyjson_val *a, const yyjson_val *b)
{
    int rank = field_set_rank_value(a);
    if (rank != field_set_rank_value(b))
        return field_set_order_numbers(rank, field_set_rank_value(b));
    bool x = false, y = false;
    switch (rank) {
    case 0:
        return number_cmp(a, b);
    case 1:
        return str_cmp(json_str(a), json_str(b));
    case 2:
        (void)!json_to_bool(a, &x, NULL);
        (void)!json_to_bool(b, &y, NULL);
        return field_set_order_numbers(x, y);
    default:
        break;
    }
    if (rank == 5 || json_equal(a, b))
        return 0;
    cleanup_sbuf struct sbuf p = {0}, q = {0};
    struct json_writer pw = {.out = &p}, qw = {.out = &q};
    json_write_value(&pw, a);
    json_write_value(&qw, b);
    return str_cmp(sbuf_str(&p), sbuf_str(&q));
}

static int keys_cmp(const struct field_elem *a, const struct field_elem *b)
{
    for (size_t i = 0; i < a->keys_len && i < b->keys_len; i++) {
        // Names of keys are those of the type: mostly the same bytes.
        bool same =
            a->keys[i].name.p == b->keys[i].name.p && a->keys[i].name.n == b->keys[i].name.n;
        int c = same ? 0 : str_cmp(a->keys[i].name, b->keys[i].name);
        if (c == 0)
            c = field_set_order_values(a->keys[i].value, b->keys[i].value);
        if (c != 0)
            return c;
    }
    return field_set_order_numbers((int64_t)a->keys_len, (int64_t)b->keys_len);
}

int field_elem_cmp(const struct field_elem *a, const struct field_elem *b)
{
    if (a->kind != b->kind)
        return field_set_order_numbers(a->kind, b->kind);
    switch (a->kind) {
    case FIELD_NAME:
        return str_cmp(a->name, b->name);
    case FIELD_KEY:
        return keys_cmp(a, b);
    case FIELD_VALUE:
        return field_set_order_values(a->value, b->value);
    case FIELD_INDEX:
        break;
    }
    return field_set_order_numbers(a->index, b->index);
}

// --- Sets ----------------------------------------------------------------------------------------

bool field_set_empty(const struct field_set *s)
{
    for (size_t i = 0; s && i < s->n; i++)
        if (s->p[i].member || !field_set_empty(s->p[i].children))
            return false;
    return true;
}

// Where an element stands or would stand.
static size_t field_set_find_place(const struct field_set *s, const struct field_elem *e,
                                   bool *ret_there)
{
    size_t low = 0, high = s->n;
    *ret_there = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = field_elem_cmp(&s->p[middle].elem, e);
        if (c == 0) {
            *ret_there = true;
            return middle;
        }
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct field_node *field_set_find(const struct field_set *s, const struct field_elem *e)
{
    bool there;
    size_t at = field_set_find_place(s, e, &there);
    return there ? &s->p[at] : NULL;
}

// field_set_seek_place finds the first place from `from` on whose element does not stand before e,
// in few steps where it is near and not in many where it is far: small sets are often held against
// large ones.
static size_t field_set_seek_place(const struct field_set *s, size_t from,
                                   const struct field_elem *e)
{
    size_t low = from, high = from;
    for (size_t step = 1; high < s->n && field_elem_cmp(&s->p[high].elem, e) < 0; step *= 2) {
        low = high + 1;
        high += step;
    }
    high = high < s->n ? high : s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (field_elem_cmp(&s->p[middle].elem, e) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void field_set_push(struct field_set *s, const struct field_node *n, struct arena *a)
{
    // Most sets are those of a list's item: few nodes, and there may be thousands of such sets.
    if (s->cap == 0) {
        s->p = arena_array(a, struct field_node, SET_NODES_FIRST);
        s->cap = SET_NODES_FIRST;
    }
    vec_push_arena(a, s, *n);
}

struct field_node *field_set_at(struct field_set *s, const struct field_elem *e, struct arena *a)
{
    bool there = false;
    // Most come in order: the last one again, for what is below it, or one behind it.
    size_t at = s->n;
    int last = s->n ? field_elem_cmp(&s->p[s->n - 1].elem, e) : -1;
    if (last == 0)
        return &s->p[s->n - 1];
    if (last > 0)
        at = field_set_find_place(s, e, &there);
    if (there)
        return &s->p[at];
    field_set_push(s, &(struct field_node){0}, a);
    memmove(&s->p[at + 1], &s->p[at], (s->n - 1 - at) * sizeof(*s->p));
    s->p[at] = (struct field_node){.elem = *e};
    return &s->p[at];
}

// field_set_below is what is below an element; the empty set when there is nothing.
static const struct field_set *field_set_below(const struct field_set *s,
                                               const struct field_elem *e)
{
    static const struct field_set nothing;
    const struct field_node *n = field_set_find(s, e);
    return n && n->children ? n->children : &nothing;
}

static bool field_set_has(const struct field_set *s, const struct field_elem *e)
{
    const struct field_node *n = field_set_find(s, e);
    return n && n->member;
}

static void field_set_push_node(struct field_set *s, struct field_node node, struct arena *a)
{
    if (node.children && field_set_empty(node.children))
        node.children = NULL;
    if (node.member || node.children)
        field_set_push(s, &node, a);
}

typedef struct field_set (*combine_fn)(const struct field_set *x, const struct field_set *y,
                                       struct arena *a);

static struct field_set *field_set_combine_children(combine_fn fn, const struct field_node *x,
                                                    const struct field_node *y, struct arena *a)
{
    struct field_set *s = arena_one(a, struct field_set);
    *s = fn(x->children, y->children, a);
    return s;
}

struct field_set field_set_union(const struct field_set *x, const struct field_set *y,
                                 struct arena *a)
{
    struct field_set ret = {0};
    size_t i = 0, k = 0;
    while (i < x->n || k < y->n) {
        int c = i == x->n ? 1 : k == y->n ? -1 : field_elem_cmp(&x->p[i].elem, &y->p[k].elem);
        if (c < 0) {
            field_set_push_node(&ret, x->p[i++], a);
        } else if (c > 0) {
            field_set_push_node(&ret, y->p[k++], a);
        } else {
            struct field_node n = x->p[i];
            n.member |= y->p[k].member;
            if (!n.children)
                n.children = y->p[k].children;
            else if (y->p[k].children)
                n.children = field_set_combine_children(field_set_union, &x->p[i], &y->p[k], a);
            field_set_push_node(&ret, n, a);
            i++, k++;
        }
    }
    return ret;
}

static struct field_set field_set_subtract(const struct field_set *x, const struct field_set *y,
                                           bool recursive, struct arena *a);

static struct field_set subtract_one(const struct field_set *x, const struct field_set *y,
                                     struct arena *a)
{
    return field_set_subtract(x, y, false, a);
}

static struct field_set subtract_all(const struct field_set *x, const struct field_set *y,
                                     struct arena *a)
{
    return field_set_subtract(x, y, true, a);
}

static struct field_set field_set_subtract(const struct field_set *x, const struct field_set *y,
                                           bool recursive, struct arena *a)
{
    struct field_set ret = {0};
    for (size_t i = 0, k = 0; i < x->n; i++) {
        struct field_node n = x->p[i];
        k = field_set_seek_place(y, k, &n.elem);
        if (k < y->n && field_elem_cmp(&n.elem, &y->p[k].elem) == 0) {
            if (recursive && y->p[k].member)
                continue;
            n.member &= !y->p[k].member;
            if (n.children && y->p[k].children)
                n.children = field_set_combine_children(recursive ? subtract_all : subtract_one, &n,
                                                        &y->p[k], a);
        }
        field_set_push_node(&ret, n, a);
    }
    return ret;
}

struct field_set field_set_difference(const struct field_set *x, const struct field_set *y,
                                      struct arena *a)
{
    return field_set_subtract(x, y, false, a);
}

struct field_set field_set_recursive_difference(const struct field_set *x,
                                                const struct field_set *y, struct arena *a)
{
    return field_set_subtract(x, y, true, a);
}

struct field_set field_set_intersection(const struct field_set *x, const struct field_set *y,
                                        struct arena *a)
{
    struct field_set ret = {0};
    for (size_t i = 0, k = 0; i < x->n && k < y->n;) {
        int c = field_elem_cmp(&x->p[i].elem, &y->p[k].elem);
        if (c == 0) {
            struct field_node n = {.elem = x->p[i].elem,
                                   .member = x->p[i].member && y->p[k].member};
            if (x->p[i].children && y->p[k].children)
                n.children =
                    field_set_combine_children(field_set_intersection, &x->p[i], &y->p[k], a);
            field_set_push_node(&ret, n, a);
            i++, k++;
        } else if (c < 0) {
            i = field_set_seek_place(x, i + 1, &y->p[k].elem);
        } else {
            k = field_set_seek_place(y, k + 1, &x->p[i].elem);
        }
    }
    return ret;
}

static bool children_equal(const struct field_set *x, const struct field_set *y)
{
    static const struct field_set nothing;
    return field_set_equal(x ? x : &nothing, y ? y : &nothing);
}

// Nodes that say nothing do not count.
bool field_set_equal(const struct field_set *x, const struct field_set *y)
{
    size_t i = 0, k = 0;
    for (;;) {
        while (i < x->n && !x->p[i].member && field_set_empty(x->p[i].children))
            i++;
        while (k < y->n && !y->p[k].member && field_set_empty(y->p[k].children))
            k++;
        if (i == x->n || k == y->n)
            return i == x->n && k == y->n;
        if (field_elem_cmp(&x->p[i].elem, &y->p[k].elem) != 0 || x->p[i].member != y->p[k].member ||
            !children_equal(x->p[i].children, y->p[k].children))
            return false;
        i++, k++;
    }
}

// --- Paths ---------------------------------------------------------------------------------------

static struct field_set *field_set_descend_path(struct field_set *s, const struct field_path *path,
                                                struct arena *a)
{
    if (!path)
        return s;
    struct field_node *n = field_set_at(field_set_descend_path(s, path->parent, a), path->elem, a);
    if (!n->children)
        n->children = arena_one(a, struct field_set);
    return n->children;
}

static const struct field_set *field_set_below_path(const struct field_set *s,
                                                    const struct field_path *path)
{
    return path ? field_set_below(field_set_below_path(s, path->parent), path->elem) : s;
}

bool field_set_has_path(const struct field_set *s, const struct field_path *path)
{
    return path && field_set_has(field_set_below_path(s, path->parent), path->elem);
}

void field_set_add(struct field_set *s, const struct field_path *path, struct arena *a)
{
    if (path)
        field_set_at(field_set_descend_path(s, path->parent, a), path->elem, a)->member = true;
}

static void field_set_show_value(const yyjson_val *v, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    if (json_is_string(v))
        sbuf_add_quoted(out, json_str(v));
    else
        json_write_value(&w, v);
}

static void field_set_show_elem(const struct field_elem *e, struct sbuf *out)
{
    switch (e->kind) {
    case FIELD_NAME:
        sbuf_addf(out, ".%.*s", STR_ARG(e->name));
        return;
    case FIELD_KEY:
        sbuf_addc(out, '[');
        for (size_t i = 0; i < e->keys_len; i++) {
            sbuf_addf(out, "%s%.*s=", i ? "," : "", STR_ARG(e->keys[i].name));
            field_set_show_value(e->keys[i].value, out);
        }
        sbuf_addc(out, ']');
        return;
    case FIELD_VALUE:
        sbuf_addz(out, "[=");
        field_set_show_value(e->value, out);
        sbuf_addc(out, ']');
        return;
    case FIELD_INDEX:
        break;
    }
    sbuf_addf(out, "[%lld]", (long long)e->index);
}

void field_path_write(const struct field_path *path, struct sbuf *out)
{
    if (!path)
        return;
    field_path_write(path->parent, out);
    field_set_show_elem(path->elem, out);
}

static void field_set_each_below(const struct field_set *s, const struct field_path *parent,
                                 void (*fn)(void *arg, const struct field_path *path), void *arg)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field_path path = {parent, &s->p[i].elem};
        if (s->p[i].member)
            fn(arg, &path);
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct field_path path = {parent, &s->p[i].elem};
        if (s->p[i].children)
            field_set_each_below(s->p[i].children, &path, fn, arg);
    }
}

void field_set_each(const struct field_set *s, void (*fn)(void *arg, const struct field_path *path),
                    void *arg)
{
    field_set_each_below(s, NULL, fn, arg);
}
