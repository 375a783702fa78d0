// SPDX-License-Identifier: Apache-2.0
//
// Field sets as FieldsV1: objects within objects whose keys are path elements (f:name, k:{…}, v:…,
// i:…); a node that is a member and has children is marked with ".".
#include <stdlib.h>

#include "api/patch/field_set.h"
#include "base/vec.h"
#include "codec/json_writer.h"

#include "base/banned.h"

// --- Writing -------------------------------------------------------------------------------------

static void elem_text(const struct field_elem *e, struct sbuf *out)
{
    struct json_writer w = {.out = out, .html = true};
    switch (e->kind) {
    case FIELD_NAME:
        sbuf_add(out, STR("f:"));
        sbuf_add(out, e->name);
        return;
    case FIELD_KEY:
        sbuf_addz(out, "k:");
        json_write_object_begin(&w);
        for (size_t i = 0; i < e->keys_len; i++) {
            json_write_key(&w, e->keys[i].name);
            json_write_value(&w, e->keys[i].value);
        }
        json_write_object_end(&w);
        return;
    case FIELD_VALUE:
        sbuf_addz(out, "v:");
        json_write_value(&w, e->value);
        return;
    case FIELD_INDEX:
        break;
    }
    sbuf_addf(out, "i:%lld", (long long)e->index);
}

// text is for the elements' texts, one after the other.
static void field_text_write_set(const struct field_set *s, struct sbuf *text,
                                 struct json_writer *w)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field_node *n = &s->p[i];
        bool below = !field_set_empty(n->children);
        if (!n->member && !below)
            continue;
        sbuf_clear(text);
        elem_text(&n->elem, text);
        json_write_key(w, sbuf_str(text));
        json_write_object_begin(w);
        if (n->member && below) {
            json_write_key(w, STR("."));
            json_write_object_begin(w);
            json_write_object_end(w);
        }
        if (below)
            field_text_write_set(n->children, text, w);
        json_write_object_end(w);
    }
}

void field_set_write(const struct field_set *s, struct sbuf *out)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    field_text_write_set(s, &text, &w);
    json_write_object_end(&w);
}

// --- Reading -------------------------------------------------------------------------------------

// A JSON value in the text of an element. Its document lives in the arena's company: values of sets
// are scalars, so they are built again there.
static int parse_value(struct str text, struct arena *a, const yyjson_val **ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(text, NULL, &doc, err);
    if (r < 0)
        return r;
    if (json_is_container(doc.root))
        return err_set(err, ERR_BAD_REQUEST, "a value in a field set must be a scalar");
    yyjson_val *v = arena_one(a, yyjson_val);
    *v = *doc.root;
    if (json_is_string(doc.root) || json_type(doc.root) == JSON_BIG)
        v->uni.str = arena_str(a, json_str(doc.root)).p;
    *ret = v;
    return 0;
}

static int parse_keys(struct str text, struct arena *a, struct field_elem *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct VEC(struct field_key) keys = {0};
    int r = json_parse(text, NULL, &doc, err);
    if (r == 0 && !json_is_object(doc.root))
        r = err_set(err, ERR_BAD_REQUEST, "the keys of an item in a field set must be an object");
    if (r < 0)
        return r;
    json_obj_foreach(doc.root, key, value) {
        cleanup_sbuf struct sbuf one = {0};
        struct json_writer w = {.out = &one};
        struct field_key k = {.name = arena_str(a, json_str(key))};
        json_write_value(&w, value);
        r = parse_value(sbuf_str(&one), a, &k.value, err);
        if (r < 0)
            return r;
        vec_push_arena(a, &keys, k);
    }
    if (keys.n)
        qsort(keys.p, keys.n, sizeof(keys.p[0]), str_cmp_elements);
    ret->keys = keys.p;
    ret->keys_len = keys.n;
    return 0;
}

// Returns 1, 0 for an element of a kind that is not known, which is left out, or -ERR_BAD_REQUEST.
static int parse_elem(struct str text, struct arena *a, struct field_elem *ret, struct err *err)
{
    struct str rest = str_from(text, 2);
    *ret = (struct field_elem){0};
    if (text.n < 2 || text.p[1] != ':')
        return err_set(err, ERR_BAD_REQUEST, "\"%.*s\" is not an element of a field set",
                       (int)(text.n < 100 ? text.n : 100), text.p ? text.p : "");
    int r = 0;
    switch (text.p[0]) {
    case 'f':
        ret->kind = FIELD_NAME;
        ret->name = arena_str(a, rest);
        break;
    case 'k':
        ret->kind = FIELD_KEY;
        r = parse_keys(rest, a, ret, err);
        break;
    case 'v':
        ret->kind = FIELD_VALUE;
        r = parse_value(rest, a, &ret->value, err);
        break;
    case 'i':
        ret->kind = FIELD_INDEX;
        if (str_to_i64(rest, &ret->index) < 0)
            r = err_set(err, ERR_BAD_REQUEST, "an index in a field set is not a number");
        break;
    default:
        return 0;
    }
    return r < 0 ? r : 1;
}

// A node, and which one it was of those that were read.
struct read_node {
    struct field_node node;
    size_t at;
};

static int field_text_order_nodes(const void *x, const void *y)
{
    const struct read_node *a = x, *b = y;
    int c = field_elem_cmp(&a->node.elem, &b->node.elem);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

// sort_nodes puts the nodes of a set in order, all at once: what a client wrote may stand in any.
// Of two with one element the last one's children count.
static void sort_nodes(struct field_set *s, struct arena *a)
{
    struct read_node *all = arena_array(a, struct read_node, s->n + 1);
    for (size_t i = 0; i < s->n; i++)
        all[i] = (struct read_node){s->p[i], i};
    qsort(all, s->n, sizeof(all[0]), field_text_order_nodes);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct field_node *node = &all[i].node;
        if (i == 0 || field_elem_cmp(&all[i - 1].node.elem, &node->elem) != 0) {
            s->p[n++] = *node;
            continue;
        }
        s->p[n - 1].member |= node->member;
        if (node->children)
            s->p[n - 1].children = node->children;
    }
    s->n = n;
}

// Reads what an object holds. *ret_member: its own path is a member.
static int field_text_read_set(const yyjson_val *v, struct arena *a, struct field_set *ret,
                               bool *ret_member, struct err *err)
{
    bool any = false, sorted = true;
    *ret_member = false;
    if (!json_is_object(v))
        return err_set(err, ERR_BAD_REQUEST, "a field set is made of objects, not of %s",
                       json_type_name(v));
    json_obj_foreach(v, key, value) {
        struct field_elem e;
        bool member = false;
        if (str_eq(json_str(key), STR("."))) {
            *ret_member = true;
            continue;
        }
        int r = parse_elem(json_str(key), a, &e, err);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        struct field_set *below = arena_one(a, struct field_set);
        r = field_text_read_set(value, a, below, &member, err);
        if (r < 0)
            return r;
        sorted = sorted && (ret->n == 0 || field_elem_cmp(&vec_last(ret)->elem, &e) < 0);
        field_set_push(ret, &(struct field_node){e, member, below->n ? below : NULL}, a);
        any |= member || below->n > 0;
    }
    if (!sorted)
        sort_nodes(ret, a);
    *ret_member |= !any;
    return 0;
}

int field_set_read(const yyjson_val *v, struct arena *a, struct field_set *ret, struct err *err)
{
    struct field_set s = {0};
    bool member;
    int r = field_text_read_set(v, a, &s, &member, err);
    if (r == 0)
        *ret = s;
    return r;
}
