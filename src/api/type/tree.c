// SPDX-License-Identifier: Apache-2.0
//
// Changeable JSON: members are added, replaced and removed in an arena. Parts that nothing touched
// are written as their source text, so that a patch does not alter what it does not name.
#include "api/type/tree.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/type/raw.h"
#include "base/hash.h"

#include "base/banned.h"

// From this many members on an object has an index.
#define INDEX_FROM 17

static const yyjson_val null_value = {.tag = YYJSON_TYPE_NULL};

struct tree *tree_of(struct arena *arena, const struct json_doc *doc, const yyjson_val *key,
                     const yyjson_val *val)
{
    struct tree *t = arena_one(arena, struct tree);
    t->doc = doc;
    t->key = key;
    t->val = val;
    return t;
}

struct tree *tree_null(struct arena *arena)
{
    return tree_of(arena, NULL, NULL, &null_value);
}

struct tree *tree_new_object(struct arena *arena)
{
    struct tree *t = arena_one(arena, struct tree);
    t->shape = TREE_OBJECT;
    return t;
}

struct tree *tree_new_list(struct arena *arena, struct tree_list items)
{
    struct tree *t = arena_one(arena, struct tree);
    t->shape = TREE_LIST;
    t->list = items;
    return t;
}

bool tree_is_object(const struct tree *t)
{
    return t->shape == TREE_OBJECT || (t->shape == TREE_SOURCE && json_is_object(t->val));
}

bool tree_is_list(const struct tree *t)
{
    return t->shape == TREE_LIST || (t->shape == TREE_SOURCE && json_is_array(t->val));
}

bool tree_is_null(const struct tree *t)
{
    return t->shape == TREE_SOURCE && json_is_null(t->val);
}

struct str tree_text(const struct tree *t)
{
    if (t->shape == TREE_SOURCE && json_is_string(t->val))
        return json_str(t->val);
    return (struct str){NULL, 0};
}

// tree_find_slot finds the slot of key, or the free one where it belongs.
static uint32_t *tree_find_slot(const struct tree *t, struct str key)
{
    size_t mask = t->slots_len - 1;
    for (size_t i = hash_str(key) & mask;; i = (i + 1) & mask) {
        uint32_t at = t->slots[i];
        if (at == 0 || str_eq(t->members[at - 1].key, key))
            return &t->slots[i];
    }
}

static void index_members(struct tree *t, struct arena *arena)
{
    t->slots_len = 64;
    while (t->slots_len < t->members_cap * 2)
        t->slots_len *= 2;
    t->slots = arena_array(arena, uint32_t, t->slots_len);
    for (size_t i = 0; i < t->members_len; i++)
        *tree_find_slot(t, t->members[i].key) = (uint32_t)(i + 1);
}

// find_member finds the place of a key, removed or not.
static struct tree_member *find_member(const struct tree *t, struct str key)
{
    if (t->slots) {
        uint32_t at = *tree_find_slot(t, key);
        return at ? &t->members[at - 1] : NULL;
    }
    for (size_t i = 0; i < t->members_len; i++)
        if (str_eq(t->members[i].key, key))
            return &t->members[i];
    return NULL;
}

static void grow_members(struct tree *t, size_t cap, struct arena *arena)
{
    struct tree_member *members = arena_array(arena, struct tree_member, cap);
    if (t->members)
        memcpy(members, t->members, t->members_len * sizeof(*members));
    t->members = members;
    t->members_cap = cap;
    t->slots = NULL;
    if (cap >= INDEX_FROM)
        index_members(t, arena);
}

void tree_put(struct tree *object, struct str key, struct tree *value, struct arena *arena)
{
    tree_open(object, arena);
    struct tree_member *m = find_member(object, key);
    if (!m) {
        if (object->members_len == object->members_cap)
            grow_members(object, object->members_cap ? object->members_cap * 2 : 4, arena);
        assert(object->members);
        m = &object->members[object->members_len++];
        m->key = key;
        if (object->slots)
            *tree_find_slot(object, key) = (uint32_t)object->members_len;
    }
    if (!m->value)
        object->live++;
    m->value = value;
}

bool tree_remove(struct tree *object, struct str key, struct arena *arena)
{
    tree_open(object, arena);
    struct tree_member *m = find_member(object, key);
    if (!m || !m->value)
        return false;
    m->value = NULL;
    object->live--;
    return true;
}

struct tree *tree_get(struct tree *object, struct str key, struct arena *arena)
{
    tree_open(object, arena);
    struct tree_member *m = find_member(object, key);
    return m ? m->value : NULL;
}

void tree_open(struct tree *t, struct arena *arena)
{
    if (t->shape != TREE_SOURCE)
        return;
    const yyjson_val *val = t->val;
    if (json_is_object(val)) {
        t->shape = TREE_OBJECT;
        if (json_len(val))
            grow_members(t, json_len(val), arena);
        json_obj_foreach(val, key, item)
            tree_put(t, json_str(key), tree_of(arena, t->doc, key, item), arena);
    } else if (json_is_array(val)) {
        t->shape = TREE_LIST;
        t->list.p = arena_array(arena, struct tree *, json_len(val));
        t->list.cap = json_len(val);
        json_arr_foreach(val, item)
            t->list.p[t->list.n++] = tree_of(arena, t->doc, NULL, item);
    }
}

void tree_list_add(struct tree_list *list, struct tree *item, struct arena *arena)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        struct tree **p = arena_array(arena, struct tree *, cap);
        if (list->p)
            memcpy(p, list->p, list->n * sizeof(*p));
        list->p = p;
        list->cap = cap;
    }
    list->p[list->n++] = item;
}

static struct tree *tree_copy_below(const struct tree *t, size_t depth, struct arena *arena)
{
    if (depth > DRAY_DOC_DEPTH_MAX)
        return NULL;
    struct tree *to = arena_one(arena, struct tree);
    if (t->shape == TREE_SOURCE) {
        *to = *t;
        return to;
    }
    to->shape = t->shape;
    for (size_t i = 0; i < t->list.n; i++) {
        struct tree *item = tree_copy_below(t->list.p[i], depth + 1, arena);
        if (!item)
            return NULL;
        tree_list_add(&to->list, item, arena);
    }
    tree_foreach(t, m)
    {
        struct tree *value = tree_copy_below(m->value, depth + 1, arena);
        if (!value)
            return NULL;
        tree_put(to, m->key, value, arena);
    }
    return to;
}

struct tree *tree_copy(const struct tree *t, struct arena *arena)
{
    return tree_copy_below(t, 0, arena);
}

static bool same_scalar(const yyjson_val *a, const yyjson_val *b)
{
    enum json_type type = json_type(a);
    if (type != json_type(b))
        return false;
    switch (type) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
    case JSON_INT:
    case JSON_UINT:
        return a->tag == b->tag && (type == JSON_BOOL || a->uni.u64 == b->uni.u64);
    case JSON_DOUBLE:
        return !(a->uni.f64 < b->uni.f64) && !(a->uni.f64 > b->uni.f64);
    case JSON_BIG:
    case JSON_STRING:
        return str_eq(json_str(a), json_str(b));
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    return false;
}

static bool tree_equal_below(struct tree *a, struct tree *b, size_t depth, struct arena *arena)
{
    if (depth > DRAY_DOC_DEPTH_MAX || tree_is_object(a) != tree_is_object(b) ||
        tree_is_list(a) != tree_is_list(b))
        return false;
    if (!tree_is_object(a) && !tree_is_list(a))
        return same_scalar(a->val, b->val);
    tree_open(a, arena);
    tree_open(b, arena);
    if (a->list.n != b->list.n || a->live != b->live)
        return false;
    for (size_t i = 0; i < a->list.n; i++)
        if (!tree_equal_below(a->list.p[i], b->list.p[i], depth + 1, arena))
            return false;
    tree_foreach(a, m)
    {
        struct tree *other = tree_get(b, m->key, arena);
        if (!other || !tree_equal_below(m->value, other, depth + 1, arena))
            return false;
    }
    return true;
}

bool tree_equal(struct tree *a, struct tree *b, struct arena *arena)
{
    return tree_equal_below(a, b, 0, arena);
}

// write_source writes a value of a document, by its text where that can be found.
static void write_source(const struct json_doc *doc, const yyjson_val *key, const yyjson_val *val,
                         struct json_writer *w)
{
    bool exact = json_is_container(val) || json_type(val) == JSON_DOUBLE;
    struct str text = exact && key ? raw_source(doc, key, val) : (struct str){NULL, 0};
    if (text.p) {
        json_write_raw(w, text);
    } else if (json_is_object(val)) {
        json_write_object_begin(w);
        json_obj_foreach(val, name, item) {
            json_write_key(w, json_str(name));
            write_source(doc, name, item, w);
        }
        json_write_object_end(w);
    } else if (json_is_array(val)) {
        json_write_array_begin(w);
        json_arr_foreach(val, item)
            write_source(doc, NULL, item, w);
        json_write_array_end(w);
    } else {
        json_write_value(w, val);
    }
}

static bool tree_write_below(const struct tree *t, size_t depth, struct json_writer *w)
{
    if (depth > DRAY_DOC_DEPTH_MAX)
        return false;
    switch (t->shape) {
    case TREE_SOURCE:
        write_source(t->doc, t->key, t->val, w);
        return true;
    case TREE_LIST:
        json_write_array_begin(w);
        for (size_t i = 0; i < t->list.n; i++)
            if (!tree_write_below(t->list.p[i], depth + 1, w))
                return false;
        json_write_array_end(w);
        return true;
    case TREE_OBJECT:
        json_write_object_begin(w);
        tree_foreach(t, m)
        {
            json_write_key(w, m->key);
            if (!tree_write_below(m->value, depth + 1, w))
                return false;
        }
        json_write_object_end(w);
        return true;
    }
    return true;
}

int tree_write(const struct tree *t, struct json_writer *w, struct err *err)
{
    if (tree_write_below(t, 0, w))
        return 0;
    return err_set(err, ERR_INVALID, "the patched object nests deeper than %d levels",
                   DRAY_DOC_DEPTH_MAX);
}

static int member_cmp(const void *a, const void *b)
{
    const struct tree_member *x = a, *y = b;
    return str_cmp(x->key, y->key);
}

// add_go_double: %v prints a float64 as %g with the shortest digits, an exponent from 1e21 on.
static void add_go_double(struct sbuf *out, double v)
{
    size_t before = out->n;
    sbuf_add_json_double(out, v);
    // JSON's form differs in the exponent alone: e-9 there is e-09 here.
    struct str text = str_from(sbuf_str(out), before);
    ptrdiff_t e = str_find_char(text, 'e');
    if (e >= 0 && text.n == (size_t)e + 3) {
        char digit = text.p[e + 2];
        sbuf_truncate(out, out->n - 1);
        sbuf_addc(out, '0');
        sbuf_addc(out, digit);
    }
}

static void add_go_scalar(const yyjson_val *val, struct sbuf *out)
{
    double wide;
    switch (json_type(val)) {
    case JSON_NULL:
        sbuf_addz(out, "<nil>");
        return;
    case JSON_STRING:
        sbuf_add(out, json_str(val));
        return;
    case JSON_UINT:
    case JSON_BIG:
    case JSON_DOUBLE:
        if (json_to_double(val, &wide, NULL) == 0 && isfinite(wide))
            add_go_double(out, wide);
        return;
    case JSON_BOOL:
    case JSON_INT:
    case JSON_ARRAY:
    case JSON_OBJECT: {
        struct json_writer w = {.out = out};
        json_write_value(&w, val);
        return;
    }
    }
}

static void write_go(struct tree *t, size_t depth, struct sbuf *out, struct arena *arena)
{
    if (out->n > DRAY_ERR_MSG_MAX || depth > DRAY_DOC_DEPTH_MAX)
        return;
    tree_open(t, arena);
    if (t->shape == TREE_SOURCE) {
        add_go_scalar(t->val, out);
    } else if (t->shape == TREE_LIST) {
        sbuf_addc(out, '[');
        for (size_t i = 0; i < t->list.n && out->n <= DRAY_ERR_MSG_MAX; i++) {
            if (i)
                sbuf_addc(out, ' ');
            write_go(t->list.p[i], depth + 1, out, arena);
        }
        sbuf_addc(out, ']');
    } else {
        struct tree_member *sorted = arena_array(arena, struct tree_member, t->live);
        size_t n = 0;
        tree_foreach(t, m) sorted[n++] = *m;
        qsort(sorted, n, sizeof(*sorted), member_cmp);
        sbuf_addz(out, "map[");
        for (size_t i = 0; i < n && out->n <= DRAY_ERR_MSG_MAX; i++) {
            if (i)
                sbuf_addc(out, ' ');
            sbuf_add(out, sorted[i].key);
            sbuf_addc(out, ':');
            write_go(sorted[i].value, depth + 1, out, arena);
        }
        sbuf_addc(out, ']');
    }
}

void tree_write_go(struct tree *t, struct sbuf *out, struct arena *arena)
{
    write_go(t, 0, out, arena);
}
