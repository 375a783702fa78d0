// SPDX-License-Identifier: Apache-2.0
//
// The order of lists after a strategic merge: $setElementOrder, and the item order kubectl expects.
// Comparisons follow Go, whose dynamic types upstream compares.
#include "api/patch/patch_order.h"

#include <stdint.h>
#include <string.h>

#include "base/banned.h"

// --- Values as Go sees them ----------------------------------------------------------------------

enum order_class patch_order_go_class(const struct tree *t)
{
    if (t->shape != TREE_SOURCE)
        return t->shape == TREE_LIST ? ORDER_LIST : ORDER_OBJECT;
    switch (json_type(t->val)) {
    case JSON_NULL:
        return ORDER_NIL;
    case JSON_BOOL:
        return ORDER_BOOL;
    case JSON_INT:
        return ORDER_INT;
    case JSON_UINT:
    case JSON_DOUBLE:
    case JSON_BIG:
        return ORDER_FLOAT;
    case JSON_STRING:
        return ORDER_STRING;
    case JSON_ARRAY:
        return ORDER_LIST;
    case JSON_OBJECT:
        break;
    }
    return ORDER_OBJECT;
}

const char *patch_order_go_type(const struct tree *t)
{
    switch (patch_order_go_class(t)) {
    case ORDER_NIL:
        return "%!s(<nil>)";
    case ORDER_BOOL:
        return "bool";
    case ORDER_INT:
        return "int64";
    case ORDER_FLOAT:
        return "float64";
    case ORDER_STRING:
        return "string";
    case ORDER_LIST:
        return "[]interface {}";
    case ORDER_OBJECT:
        break;
    }
    return "map[string]interface {}";
}

bool patch_order_same(const struct tree *a, const struct tree *b)
{
    enum order_class class = patch_order_go_class(a);
    if (class != patch_order_go_class(b))
        return false;
    double x, y;
    switch (class) {
    case ORDER_NIL:
        return true;
    case ORDER_BOOL:
        return a->val->tag == b->val->tag;
    case ORDER_INT:
        return a->val->uni.i64 == b->val->uni.i64;
    case ORDER_FLOAT:
        return json_to_double(a->val, &x, NULL) == 0 && json_to_double(b->val, &y, NULL) == 0 &&
               x <= y && x >= y;
    case ORDER_STRING:
        return str_eq(json_str(a->val), json_str(b->val));
    case ORDER_LIST:
    case ORDER_OBJECT:
        break;
    }
    return false;
}

// patch_order_get_key is what an item is known by: the value of its merge key or, among scalars,
// itself. NULL when it has none.
static struct tree *patch_order_get_key(struct patch_work *w, struct tree *item,
                                        struct str merge_key)
{
    if (merge_key.n == 0)
        return item;
    return tree_is_object(item) ? tree_get(item, merge_key, w->arena) : NULL;
}

int patch_order_fail_map(struct patch_work *w, const struct tree *have)
{
    return err_set(w->err, ERR_INTERNAL, "expected a %s, but received a %s",
                   "map[string]interface {}", patch_order_go_type(have));
}

int patch_order_fail_merge_key(struct patch_work *w, struct tree *item, struct str key)
{
    cleanup_sbuf struct sbuf shown = {0};
    tree_write_go(item, &shown, w->arena);
    return err_set(w->err, ERR_INTERNAL, "map: %s does not contain declared merge key: %.*s",
                   shown.p, STR_ARG(key));
}

// want_key demands that an item is an object with the merge key.
static int want_key(struct patch_work *w, struct tree *item, struct str merge_key)
{
    if (!tree_is_object(item))
        return patch_order_fail_map(w, item);
    return tree_get(item, merge_key, w->arena) ? 0 : patch_order_fail_merge_key(w, item, merge_key);
}

int patch_order_same_key(struct patch_work *w, struct tree *a, struct tree *b, struct str merge_key,
                         bool *ret)
{
    if (merge_key.n) {
        if (!tree_is_object(a) || !tree_is_object(b))
            return patch_order_fail_map(w, tree_is_object(a) ? b : a);
        int r = want_key(w, a, merge_key);
        if (r == 0)
            r = want_key(w, b, merge_key);
        if (r < 0)
            return r;
    }
    *ret = patch_order_same(patch_order_get_key(w, a, merge_key),
                            patch_order_get_key(w, b, merge_key));
    return 0;
}

// --- Indexes -------------------------------------------------------------------------------------

static struct patch_index *patch_order_index_of(struct patch_work *w, const struct tree_list *list,
                                                struct str merge_key)
{
    for (size_t i = 0; i < array_len(w->indexes); i++)
        if (w->indexes[i].p == list->p && str_eq(w->indexes[i].merge_key, merge_key))
            return &w->indexes[i];
    struct patch_index *x = &w->indexes[w->oldest];
    w->oldest = (w->oldest + 1) % array_len(w->indexes);
    map_done(&x->places);
    *x = (struct patch_index){.p = list->p, .merge_key = merge_key, .odd = SIZE_MAX};
    return x;
}

void patch_order_forget(struct patch_work *w)
{
    for (size_t i = 0; i < array_len(w->indexes); i++) {
        map_done(&w->indexes[i].places);
        w->indexes[i] = (struct patch_index){0};
    }
}

int patch_order_look_up(struct patch_work *w, const struct tree_list *list, struct str key,
                        struct str merge_key, size_t *ret, size_t *ret_odd)
{
    struct patch_index *x = patch_order_index_of(w, list, merge_key);
    int r = patch_work_add(w, 1 + (list->n > x->n ? list->n - x->n : 0));
    for (; r == 0 && x->n < list->n; x->n++) {
        struct tree *item = list->p[x->n];
        if (x->odd == SIZE_MAX && !tree_is_object(item))
            x->odd = x->n;
        const struct tree *known = patch_order_get_key(w, item, merge_key);
        bool is_new = false;
        if (known && tree_text(known).p) {
            size_t *at = map_put_new(&x->places, tree_text(known), &is_new);
            *at = is_new ? x->n : *at;
        }
    }
    const size_t *at = r == 0 ? map_get(&x->places, key) : NULL;
    *ret = at && *at < list->n ? *at : list->n;
    *ret_odd = x->odd < *ret ? x->odd : SIZE_MAX;
    return r;
}

int patch_order_find_item(struct patch_work *w, const struct tree_list *list, struct tree *item,
                          struct str merge_key, size_t *ret)
{
    const struct tree *key = patch_order_get_key(w, item, merge_key);
    size_t i = 0, odd = 0;
    if (key && tree_text(key).p)
        return patch_order_look_up(w, list, tree_text(key), merge_key, ret, &odd);
    int r = patch_work_add(w, list->n);
    if (r < 0)
        return r;
    for (; i < list->n; i++) {
        const struct tree *other = patch_order_get_key(w, list->p[i], merge_key);
        if (key && other ? patch_order_same(key, other) : key == other)
            break;
    }
    *ret = i;
    return 0;
}

// --- Parting -------------------------------------------------------------------------------------

// patch_order_is_wanted looks for an item's key in the wanted list.
static int patch_order_is_wanted(struct patch_work *w, const struct order_request *q,
                                 struct tree *item, bool *ret)
{
    size_t at = 0;
    if (q->merge_key.n == 0) {
        int r = patch_order_find_item(w, &q->wanted, item, q->merge_key, &at);
        *ret = at < q->wanted.n;
        return r;
    }
    int r = want_key(w, item, q->merge_key);
    if (r < 0)
        return r;
    const struct tree *key = patch_order_get_key(w, item, q->merge_key);
    if (tree_text(key).p) {
        size_t odd = SIZE_MAX;
        r = patch_order_look_up(w, &q->wanted, tree_text(key), q->merge_key, &at, &odd);
        *ret = at < q->wanted.n;
        return r < 0 || odd == SIZE_MAX
                   ? r
                   : err_set(w->err, ERR_INTERNAL, "value for key %zu is not a map", odd);
    }
    r = patch_work_add(w, q->wanted.n);
    if (r < 0)
        return r;
    *ret = false;
    for (; at < q->wanted.n && !*ret; at++) {
        if (!tree_is_object(q->wanted.p[at]))
            return err_set(w->err, ERR_INTERNAL, "value for key %zu is not a map", at);
        const struct tree *other = patch_order_get_key(w, q->wanted.p[at], q->merge_key);
        *ret = other && patch_order_same(key, other);
    }
    return 0;
}

int patch_order_part(struct patch_work *w, const struct order_request *q, struct tree_list ret[2])
{
    ret[0] = ret[1] = (struct tree_list){0};
    for (size_t i = 0; i < q->merged.n; i++) {
        bool wanted = false;
        int r = patch_order_is_wanted(w, q, q->merged.p[i], &wanted);
        if (r < 0)
            return r;
        tree_list_add(&ret[wanted ? 0 : 1], q->merged.p[i], w->arena);
    }
    return 0;
}

// --- Sorting -------------------------------------------------------------------------------------

// An item and where it stands in a list to sort by; SIZE_MAX when it does not.
struct ranked {
    struct tree *item;
    size_t rank;
};

// comes_before is upstream's order: an item that is not in the list comes before whatever it is
// compared with. That is no order at all, so how one sorts matters: by insertion, as Go does below
// twenty-one items.
static bool comes_before(const struct ranked *a, const struct ranked *b)
{
    return a->rank == SIZE_MAX || b->rank == SIZE_MAX || a->rank < b->rank;
}

static void sort_block(struct ranked *p, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && comes_before(&p[j], &p[j - 1]); j--) {
            struct ranked other = p[j];
            p[j] = p[j - 1];
            p[j - 1] = other;
        }
}

static void merge_blocks(struct ranked *p, size_t half, size_t n, struct ranked *scratch)
{
    size_t i = 0, j = half, k = 0;
    while (i < half && j < n)
        scratch[k++] = comes_before(&p[j], &p[i]) ? p[j++] : p[i++];
    while (i < half)
        scratch[k++] = p[i++];
    while (j < n)
        scratch[k++] = p[j++];
    memcpy(p, scratch, n * sizeof(*p));
}

static void sort_ranked(struct ranked *p, size_t n, struct arena *arena)
{
    size_t block = 20;
    for (size_t at = 0; at < n; at += block)
        sort_block(p + at, n - at < block ? n - at : block);
    if (n <= block)
        return;
    struct ranked *scratch = arena_array(arena, struct ranked, n);
    for (; block < n; block *= 2)
        for (size_t at = 0; at + block < n; at += 2 * block)
            merge_blocks(p + at, block, n - at < 2 * block ? n - at : 2 * block, scratch);
}

// patch_order_rank_items finds the places of items in list.
static int patch_order_rank_items(struct patch_work *w, const struct tree_list *items,
                                  const struct tree_list *list, struct str merge_key,
                                  struct ranked **ret)
{
    *ret = arena_array(w->arena, struct ranked, items->n);
    for (size_t i = 0; i < items->n; i++) {
        size_t at = 0;
        int r = patch_order_find_item(w, list, items->p[i], merge_key, &at);
        if (r < 0)
            return r;
        (*ret)[i] = (struct ranked){items->p[i], at < list->n ? at : SIZE_MAX};
    }
    return 0;
}

// patch_order_sort_items puts items into the order of list.
static int patch_order_sort_items(struct patch_work *w, struct tree_list *items,
                                  const struct tree_list *list, const struct order_request *q)
{
    int r = 0;
    for (size_t i = 0; q->objects && r == 0 && i < items->n; i++)
        r = want_key(w, items->p[i], q->merge_key);
    for (size_t i = 0; q->objects && r == 0 && i < list->n; i++)
        r = want_key(w, list->p[i], q->merge_key);
    struct ranked *ranked = NULL;
    if (r == 0)
        r = patch_order_rank_items(w, items, list,
                                   q->objects ? q->merge_key : (struct str){NULL, 0}, &ranked);
    if (r < 0 || !ranked)
        return r;
    sort_ranked(ranked, items->n, w->arena);
    for (size_t i = 0; i < items->n; i++)
        items->p[i] = ranked[i].item;
    return 0;
}

int patch_order_join(struct patch_work *w, const struct order_request *q, struct tree_list parts[2],
                     struct tree_list *ret)
{
    struct str merge_key = q->objects ? q->merge_key : (struct str){NULL, 0};
    struct ranked *wanted = NULL, *others = NULL;
    int r = patch_order_sort_items(w, &parts[0], &q->wanted, q);
    if (r == 0)
        r = patch_order_sort_items(w, &parts[1], &q->before, q);
    if (r == 0)
        r = patch_order_rank_items(w, &parts[0], &q->before, merge_key, &wanted);
    if (r == 0)
        r = patch_order_rank_items(w, &parts[1], &q->before, merge_key, &others);
    if (r != 0)
        return r;
    *ret = (struct tree_list){0};
    size_t i = 0, j = 0;
    while (i < parts[1].n || j < parts[0].n) {
        bool other =
            j == parts[0].n || (i < parts[1].n && others[i].rank != SIZE_MAX &&
                                wanted[j].rank != SIZE_MAX && others[i].rank < wanted[j].rank);
        tree_list_add(ret, other ? others[i++].item : wanted[j++].item, w->arena);
    }
    return 0;
}

int patch_order_settle(struct patch_work *w, const struct order_request *q, struct tree_list *ret)
{
    struct tree_list parts[2];
    int r = patch_order_part(w, q, parts);
    return r < 0 ? r : patch_order_join(w, q, parts, ret);
}
