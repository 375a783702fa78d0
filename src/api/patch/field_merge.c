// SPDX-License-Identifier: Apache-2.0
//
// A configuration laid over an object, and paths taken out of one.
#include <assert.h>
#include <stdlib.h>

#include "api/field_walk.h"
#include "base/vec.h"
#include "codec/json_writer.h"

#include "base/banned.h"

struct merging {
    struct arena *arena;
    struct err *err;
    struct sbuf *out;
};

static void field_merge_add_value(struct sbuf *out, const yyjson_val *v)
{
    struct json_writer w = {.out = out};
    json_write_value(&w, v);
}

// field_merge_value adds the text of live (x) with config (y) over it; one of them may be NULL.
// Returns 1; 0 when nothing is left to be written; or -ERR_INVALID.
static int field_merge_value(struct merging *m, const struct field_type *t, const yyjson_val *x,
                             const yyjson_val *y);

static int merge_leaf(struct merging *m, const yyjson_val *x, const yyjson_val *y)
{
    field_merge_add_value(m->out, y ? y : x);
    return 1;
}

static int merge_members(struct merging *m, const struct field_type *t, const yyjson_val *x,
                         const yyjson_val *y)
{
    struct field_members l = field_members_of(x, m->arena), c = field_members_of(y, m->arena);
    if (l.n == 0 && c.n == 0)
        return merge_leaf(m, x, y);
    size_t start = m->out->n;
    sbuf_addc(m->out, '{');
    for (size_t i = 0, k = 0; i < l.n || k < c.n;) {
        int o = i == l.n ? 1 : k == c.n ? -1 : str_cmp(l.p[i].key, c.p[k].key);
        struct str key = o <= 0 ? l.p[i].key : c.p[k].key;
        struct field_type bt;
        if (!field_type_below(t, key, &bt))
            bt = (struct field_type){.deduced = true};
        size_t before = m->out->n;
        if (before > start + 1)
            sbuf_addc(m->out, ',');
        sbuf_add_json_str(m->out, key, false);
        sbuf_addc(m->out, ':');
        int r =
            field_merge_value(m, &bt, o <= 0 ? l.p[i].value : NULL, o >= 0 ? c.p[k].value : NULL);
        if (r < 0)
            return r;
        if (r == 0)
            sbuf_truncate(m->out, before);
        i += o <= 0;
        k += o >= 0;
    }
    if (m->out->n == start + 1) {
        sbuf_truncate(m->out, start);
        return 0;
    }
    sbuf_addc(m->out, '}');
    return 1;
}

// --- Lists ---------------------------------------------------------------------------------------

// A list in its own order, with what is known of each item.
struct order {
    const struct field_item **p; // by position
    size_t n;
    bool *merged; // of config: already written
};

static struct order field_merge_make_order(const struct field_items *l, struct arena *a)
{
    struct order o = {.p = arena_array(a, const struct field_item *, l->n + 1),
                      .n = l->n,
                      .merged = arena_array(a, bool, l->n + 1)};
    for (size_t i = 0; i < l->n; i++)
        o.p[l->p[i].at] = &l->p[i];
    return o;
}

struct list_merge {
    struct merging *m;
    const struct field_type *item;
    struct field_items live, config;
    struct order live_order, config_order;
    size_t *shared; // positions in config of items that live has, too
    size_t shared_len, shared_at;
    size_t start;
};

static const yyjson_val null_value = {.tag = YYJSON_TYPE_NULL};

// What live has for an element: NULL nothing, null where it has several.
static const yyjson_val *live_value(const struct list_merge *lm, const struct field_elem *e)
{
    size_t at, n = field_items_find(&lm->live, e, &at);
    return n == 0 ? NULL : n == 1 ? lm->live.p[at].value : &null_value;
}

static const struct field_item *config_item(const struct list_merge *lm, const struct field_elem *e)
{
    size_t at;
    return field_items_find(&lm->config, e, &at) ? &lm->config.p[at] : NULL;
}

static int field_merge_add_item(struct list_merge *lm, const yyjson_val *x, const yyjson_val *y)
{
    struct sbuf *out = lm->m->out;
    size_t before = out->n;
    if (before > lm->start + 1)
        sbuf_addc(out, ',');
    int r = field_merge_value(lm->m, lm->item, x, y);
    if (r == 0)
        sbuf_truncate(out, before);
    return r;
}

static const struct field_elem *next_shared(const struct list_merge *lm)
{
    return lm->shared_at < lm->shared_len ? &lm->config_order.p[lm->shared[lm->shared_at]]->elem
                                          : NULL;
}

// Writes config's item at a position, over live's if there is one.
static int take_config(struct list_merge *lm, size_t at)
{
    const struct field_item *item = lm->config_order.p[at];
    lm->config_order.merged[at] = true;
    return field_merge_add_item(lm, live_value(lm, &item->elem), item->value);
}

// Goes through both lists at once: live's own items keep their places between those both have,
// whose order is config's.
static int merge_orders(struct list_merge *lm)
{
    size_t i = 0, k = 0, nl = lm->live_order.n, nc = lm->config_order.n;
    int r = 0;
    while ((i < nl || k < nc) && r >= 0) {
        const struct field_elem *live = i < nl ? &lm->live_order.p[i]->elem : NULL;
        const struct field_item *same = live ? config_item(lm, live) : NULL;
        const struct field_elem *shared = next_shared(lm);
        if (live && k < nc) {
            if (same && same->at == k) {
                r = take_config(lm, k);
                i++, k++;
                lm->shared_at += shared != NULL;
                continue;
            }
            if (same && shared && field_elem_cmp(shared, live) != 0) {
                i++; // both have it, but its turn comes elsewhere
                continue;
            }
        }
        if (live && !same) {
            r = field_merge_add_item(lm, lm->live_order.p[i]->value, NULL);
            i++;
            continue;
        }
        if (live && lm->config_order.merged[same->at])
            i++;
        if (k < nc) {
            const struct field_elem *mine = &lm->config_order.p[k]->elem;
            r = take_config(lm, k);
            lm->shared_at += shared && field_elem_cmp(shared, mine) == 0;
            k++;
        }
    }
    return r < 0 ? r : 0;
}

static int check_duplicates(const struct merging *m, const struct field_items *l)
{
    for (size_t i = 1; i < l->n; i++) {
        if (field_elem_cmp(&l->p[i - 1].elem, &l->p[i].elem) != 0)
            continue;
        cleanup_sbuf struct sbuf text = {0};
        field_path_write(&(struct field_path){NULL, &l->p[i].elem}, &text);
        return err_set(m->err, ERR_INVALID, "duplicate entries for key %s", text.p);
    }
    return 0;
}

static int field_merge_items(struct merging *m, const struct field_type *t, const yyjson_val *x,
                             const yyjson_val *y)
{
    struct field_type bt;
    struct list_merge lm = {.m = m, .item = &bt, .start = m->out->n};
    int r = field_items_of(t, y, m->arena, &lm.config, m->err);
    if (r == 0)
        r = check_duplicates(m, &lm.config);
    if (r == 0)
        r = field_items_of(t, x, m->arena, &lm.live, m->err);
    if (r < 0)
        return r;
    if (lm.live.n == 0 && lm.config.n == 0)
        return merge_leaf(m, x, y);
    (void)field_type_below(t, STR(""), &bt);
    lm.live_order = field_merge_make_order(&lm.live, m->arena);
    lm.config_order = field_merge_make_order(&lm.config, m->arena);
    lm.shared = arena_array(m->arena, size_t, lm.config.n + 1);
    for (size_t k = 0; k < lm.config_order.n; k++)
        if (live_value(&lm, &lm.config_order.p[k]->elem))
            lm.shared[lm.shared_len++] = k;
    sbuf_addc(m->out, '[');
    r = merge_orders(&lm);
    if (r < 0)
        return r;
    if (m->out->n == lm.start + 1) {
        sbuf_truncate(m->out, lm.start);
        return 0;
    }
    sbuf_addc(m->out, ']');
    return 1;
}

static int field_merge_value(struct merging *m, const struct field_type *t, const yyjson_val *x,
                             const yyjson_val *y)
{
    switch (field_shape_of(t)) {
    case SHAPE_STRUCT:
    case SHAPE_MAP:
        return merge_members(m, t, x, y);
    case SHAPE_LIST_SET:
    case SHAPE_LIST_MAP:
        return field_merge_items(m, t, x, y);
    case SHAPE_DEDUCED: {
        const yyjson_val *v = y ? y : x;
        assert(v);
        if (json_is_object(v) || json_is_null(v))
            return merge_members(m, t, x, y);
        break;
    }
    case SHAPE_SCALAR:
    case SHAPE_ATOMIC:
        break;
    }
    return merge_leaf(m, x, y);
}

int field_merge(const struct field_type *t, const yyjson_val *live, const yyjson_val *config,
                struct arena *a, struct sbuf *out, struct err *err)
{
    struct merging m = {.arena = a, .err = err, .out = out};
    int r = field_merge_value(&m, t, live, config);
    if (r == 0)
        sbuf_addz(out, "{}");
    return r < 0 ? r : 0;
}

// --- Taking paths out ----------------------------------------------------------------------------

static void field_merge_remove(struct merging *m, const struct field_type *t, const yyjson_val *v,
                               const struct field_set *items);

// Ends a container that began at start; one in which nothing was left is null.
static void end_taking(struct merging *m, size_t start, char end)
{
    if (m->out->n > start + 1) {
        sbuf_addc(m->out, end);
        return;
    }
    sbuf_truncate(m->out, start);
    sbuf_addz(m->out, "null");
}

static void take_out_members(struct merging *m, const struct field_type *t, const yyjson_val *v,
                             const struct field_set *items)
{
    size_t start = m->out->n;
    sbuf_addc(m->out, '{');
    if (json_is_object(v)) {
        json_obj_foreach(v, key, value) {
            const struct field_elem e = {.kind = FIELD_NAME, .name = json_str(key)};
            const struct field_node *n = field_set_find(items, &e);
            struct field_type bt;
            if (n && n->member)
                continue;
            if (m->out->n > start + 1)
                sbuf_addc(m->out, ',');
            sbuf_add_json_str(m->out, e.name, false);
            sbuf_addc(m->out, ':');
            if (!field_type_below(t, e.name, &bt))
                bt = (struct field_type){.deduced = true};
            if (!n || field_set_empty(n->children))
                field_merge_add_value(m->out, value);
            else
                field_merge_remove(m, &bt, value, n->children);
        }
    }
    end_taking(m, start, '}');
}

static void take_out_items(struct merging *m, const struct field_type *t, const yyjson_val *v,
                           const struct field_set *items)
{
    size_t start = m->out->n;
    struct field_type bt;
    (void)field_type_below(t, STR(""), &bt);
    sbuf_addc(m->out, '[');
    if (json_is_array(v)) {
        json_arr_foreach(v, item) {
            const struct field_elem e = field_some_elem(t, item, m->arena);
            const struct field_node *n = field_set_find(items, &e);
            if (n && n->member)
                continue;
            if (m->out->n > start + 1)
                sbuf_addc(m->out, ',');
            if (!n || field_set_empty(n->children))
                field_merge_add_value(m->out, item);
            else
                field_merge_remove(m, &bt, item, n->children);
        }
    }
    end_taking(m, start, ']');
}

static void field_merge_remove(struct merging *m, const struct field_type *t, const yyjson_val *v,
                               const struct field_set *items)
{
    switch (field_shape_of(t)) {
    case SHAPE_STRUCT:
    case SHAPE_MAP:
        take_out_members(m, t, v, items);
        return;
    case SHAPE_LIST_SET:
    case SHAPE_LIST_MAP:
        take_out_items(m, t, v, items);
        return;
    case SHAPE_DEDUCED:
        if (json_is_object(v) || json_is_null(v)) {
            take_out_members(m, t, v, items);
            return;
        }
        break;
    case SHAPE_SCALAR:
    case SHAPE_ATOMIC:
        break;
    }
    // What is owned as a whole goes as a whole.
    if (json_is_container(v))
        sbuf_addz(m->out, "null");
    else
        field_merge_add_value(m->out, v);
}

void field_remove(const struct field_type *t, const yyjson_val *v, const struct field_set *items,
                  struct arena *a, struct sbuf *out)
{
    struct merging m = {.arena = a, .out = out};
    field_merge_remove(&m, t, v, items);
}
