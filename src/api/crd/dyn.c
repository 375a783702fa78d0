// SPDX-License-Identifier: Apache-2.0
//
// JSON values that can be changed (dyn.h): made from parsed documents, compared, copied, and
// written. Members are kept sorted, so lookups are binary searches.
#include "api/crd/dyn.h"

#include <stdlib.h>

#include "base/banned.h"

struct ordered {
    struct dyn_member member;
    size_t at;
};

static int dyn_compare_members(const void *x, const void *y)
{
    const struct ordered *a = x, *b = y;
    int c = str_cmp(a->member.key, b->member.key);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

static struct dyn dyn_read_object(const yyjson_val *v, struct arena *a)
{
    struct dyn o = {.type = DYN_OBJECT};
    size_t n = 0, len = json_len(v);
    struct ordered *all = xcalloc(len + 1, sizeof(*all));
    json_obj_foreach(v, key, value) {
        all[n] = (struct ordered){{arena_str(a, json_str(key)), dyn_of(value, a)}, n};
        n++;
    }
    qsort(all, n, sizeof(*all), dyn_compare_members);
    o.members = arena_array(a, struct dyn_member, n + 1);
    for (size_t i = 0; i < n; i++) {
        bool again = i > 0 && str_eq(all[i].member.key, all[i - 1].member.key);
        o.members[again ? o.members_len - 1 : o.members_len] = all[i].member;
        o.members_len += again ? 0 : 1;
    }
    free(all);
    return o;
}

static struct dyn dyn_read_list(const yyjson_val *v, struct arena *a)
{
    struct dyn l = {.type = DYN_LIST, .items = arena_array(a, struct dyn, json_len(v) + 1)};
    json_arr_foreach(v, item)
        l.items[l.items_len++] = dyn_of(item, a);
    return l;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
struct dyn dyn_of(const yyjson_val *v, struct arena *a)
{
    struct dyn d = {.type = DYN_NULL};
    double real = 0;
    switch (json_type(v)) {
    case JSON_NULL:
        break;
    case JSON_BOOL:
        d.type = DYN_BOOL;
        (void)json_to_bool(v, &d.truth, NULL);
        break;
    case JSON_INT:
        d.type = DYN_INT;
        (void)json_to_i64(v, &d.number, NULL);
        break;
    case JSON_UINT:
    case JSON_DOUBLE:
    case JSON_BIG:
        // What no double can hold is the largest one.
        d.type = DYN_DOUBLE;
        d.real = json_to_double(v, &real, NULL) == 0 ? real : 1.7976931348623157e308;
        break;
    case JSON_STRING:
        return dyn_str(arena_str(a, json_str(v)));
    case JSON_ARRAY:
        return dyn_read_list(v, a);
    case JSON_OBJECT:
        return dyn_read_object(v, a);
    }
    return d;
}

// The position of a key, or where it would stand.
static size_t dyn_search_member(const struct dyn *o, struct str key, bool *ret_there)
{
    size_t low = 0, high = o->members_len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(o->members[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_there = low < o->members_len && str_eq(o->members[low].key, key);
    return low;
}

struct dyn *dyn_get(const struct dyn *o, struct str key)
{
    bool there = false;
    if (!o || o->type != DYN_OBJECT)
        return NULL;
    size_t at = dyn_search_member(o, key, &there);
    return there ? &o->members[at].value : NULL;
}

void dyn_set(struct dyn *o, struct str key, struct dyn value, struct arena *a)
{
    bool there = false;
    size_t at = dyn_search_member(o, key, &there);
    if (there) {
        o->members[at].value = value;
        return;
    }
    struct dyn_member *all = arena_array(a, struct dyn_member, o->members_len + 1);
    for (size_t i = 0; i < o->members_len; i++)
        all[i < at ? i : i + 1] = o->members[i];
    all[at] = (struct dyn_member){key, value};
    o->members = all;
    o->members_len++;
}

void dyn_remove(struct dyn *o, struct str key)
{
    bool there = false;
    size_t at = o->type == DYN_OBJECT ? dyn_search_member(o, key, &there) : 0;
    if (!there)
        return;
    o->members_len--;
    for (size_t i = at; i < o->members_len; i++)
        o->members[i] = o->members[i + 1];
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
struct dyn dyn_copy(const struct dyn *v, struct arena *a)
{
    struct dyn d = *v;
    if (v->type == DYN_STR) {
        d.text = arena_str(a, v->text);
    } else if (v->type == DYN_LIST) {
        d.items = arena_array(a, struct dyn, v->items_len + 1);
        for (size_t i = 0; i < v->items_len; i++)
            d.items[i] = dyn_copy(&v->items[i], a);
    } else if (v->type == DYN_OBJECT) {
        d.members = arena_array(a, struct dyn_member, v->members_len + 1);
        for (size_t i = 0; i < v->members_len; i++)
            d.members[i] = (struct dyn_member){arena_str(a, v->members[i].key),
                                               dyn_copy(&v->members[i].value, a)};
    }
    return d;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
bool dyn_equal(const struct dyn *a, const struct dyn *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case DYN_NULL:
        return true;
    case DYN_BOOL:
        return a->truth == b->truth;
    case DYN_INT:
        return a->number == b->number;
    case DYN_DOUBLE:
        return a->real == b->real;
    case DYN_STR:
        return str_eq(a->text, b->text);
    case DYN_LIST:
        if (a->items_len != b->items_len)
            return false;
        for (size_t i = 0; i < a->items_len; i++)
            if (!dyn_equal(&a->items[i], &b->items[i]))
                return false;
        return true;
    case DYN_OBJECT:
        break;
    }
    if (a->members_len != b->members_len)
        return false;
    for (size_t i = 0; i < a->members_len; i++)
        if (!str_eq(a->members[i].key, b->members[i].key) ||
            !dyn_equal(&a->members[i].value, &b->members[i].value))
            return false;
    return true;
}

struct str dyn_type_name(const struct dyn *v)
{
    static const struct str names[] = {
        [DYN_NULL] = STR_INIT("null"),     [DYN_BOOL] = STR_INIT("boolean"),
        [DYN_INT] = STR_INIT("integer"),   [DYN_DOUBLE] = STR_INIT("number"),
        [DYN_STR] = STR_INIT("string"),    [DYN_LIST] = STR_INIT("array"),
        [DYN_OBJECT] = STR_INIT("object"),
    };
    return names[v->type];
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
void dyn_write(const struct dyn *v, struct json_writer *w)
{
    switch (v->type) {
    case DYN_NULL:
        json_write_null(w);
        return;
    case DYN_BOOL:
        json_write_bool(w, v->truth);
        return;
    case DYN_INT:
        json_write_i64(w, v->number);
        return;
    case DYN_DOUBLE:
        json_write_double(w, v->real);
        return;
    case DYN_STR:
        json_write_str(w, v->text);
        return;
    case DYN_LIST:
        json_write_array_begin(w);
        for (size_t i = 0; i < v->items_len; i++)
            dyn_write(&v->items[i], w);
        json_write_array_end(w);
        return;
    case DYN_OBJECT:
        json_write_object_begin(w);
        for (size_t i = 0; i < v->members_len; i++) {
            json_write_key(w, v->members[i].key);
            dyn_write(&v->members[i].value, w);
        }
        json_write_object_end(w);
        return;
    }
}

void dyn_text(const struct dyn *v, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    dyn_write(v, &w);
}
