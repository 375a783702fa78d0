// SPDX-License-Identifier: Apache-2.0
//
// Lists that are sets or maps: no item twice, and which was which. And objects within objects:
// names and labels as everywhere.
#include "api/crd/crd_schema.h"
#include "api/names.h"
#include "api/rules/at.h"
#include "base/map.h"

#include "base/banned.h"

// Lists of more items are looked up by an index.
#define SEARCHED_MAX 16

struct times MAP(size_t);

// The text two items share when they are the same.
static struct str crd_lists_item_text(const struct dyn *v, struct arena *a)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b, "%d", v ? (int)v->type : -1);
    if (v)
        dyn_text(v, &b);
    return arena_str(a, sbuf_str(&b));
}

static struct str crd_lists_key_text(const struct dyn *item, const struct crd_node *n,
                                     struct arena *a, struct str *ret_json)
{
    struct dyn key = {.type = DYN_OBJECT};
    cleanup_sbuf struct sbuf json = {0};
    for (size_t i = 0; i < n->list_map_keys.n; i++) {
        const struct dyn *v = dyn_get(item, n->list_map_keys.p[i]);
        if (v)
            dyn_set(&key, n->list_map_keys.p[i], *v, a);
    }
    dyn_text(&key, &json);
    *ret_json = arena_str(a, sbuf_str(&json));
    return crd_lists_item_text(&key, a);
}

static void crd_lists_check_unique(const struct dyn *v, const struct crd_node *n,
                                   const struct path *at, struct causes *causes)
{
    struct times seen = {0};
    bool map = str_eqz(n->list_type, "map");
    for (size_t i = 0; i < v->items_len; i++) {
        struct str shown = {0}, key;
        if (map)
            key = crd_lists_key_text(&v->items[i], n, causes->arena, &shown);
        else
            key = crd_lists_item_text(&v->items[i], causes->arena);
        if (!map) {
            cleanup_sbuf struct sbuf b = {0};
            crd_show(&v->items[i], &b);
            shown = arena_str(causes->arena, sbuf_str(&b));
        }
        size_t *times = map_put(&seen, key);
        if (++*times == 2)
            cause_duplicate_json(causes, AT_ITEM(at, i), shown);
    }
    map_done(&seen);
}

static void crd_lists_check_list(const struct dyn *v, const struct crd_node *n,
                                 const struct path *at, struct causes *causes)
{
    if (str_eqz(n->list_type, "map"))
        for (size_t i = 0; i < v->items_len; i++) {
            if (v->items[i].type == DYN_OBJECT || v->items[i].type == DYN_NULL)
                continue;
            cleanup_sbuf struct sbuf b = {0};
            crd_show(&v->items[i], &b);
            cause_invalid_json(causes, AT_ITEM(at, i), sbuf_str(&b),
                               STR("must be an object for an array of list-type map"));
            return;
        }
    if (str_eqz(n->list_type, "map") || str_eqz(n->list_type, "set"))
        crd_lists_check_unique(v, n, at, causes);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
void crd_check_lists(const struct dyn *v, const struct crd_node *n, const struct path *at,
                     struct causes *causes)
{
    if (!n || causes_full(causes))
        return;
    if (v->type == DYN_LIST) {
        crd_lists_check_list(v, n, at, causes);
        for (size_t i = 0; n->items && i < v->items_len; i++)
            crd_check_lists(&v->items[i], n->items, AT_ITEM(at, i), causes);
    }
    if (v->type != DYN_OBJECT)
        return;
    for (size_t i = 0; i < v->members_len; i++) {
        const struct dyn_member *m = &v->members[i];
        const struct crd_node *property = crd_property(n, m->key);
        const struct path below = property ? path_field(at, m->key) : path_key(at, m->key);
        crd_check_lists(&m->value, property ? property : n->additional, &below, causes);
    }
}

// --- Objects within objects ----------------------------------------------------------------------

static void check_texts(const struct dyn *map, const struct path *at, bool values,
                        struct causes *causes)
{
    for (size_t i = 0; map && map->type == DYN_OBJECT && i < map->members_len; i++) {
        struct name_msgs bad = {.arena = causes->arena};
        name_label_key(map->members[i].key, &bad);
        if (values && map->members[i].value.type == DYN_STR)
            name_label_value(map->members[i].value.text, &bad);
        for (size_t k = 0; k < bad.n; k++)
            cause_invalid(causes, at, map->members[i].key, bad.p[k]);
    }
}

static void crd_lists_check_value(const struct dyn *v, const struct path *at, struct causes *causes)
{
    static const char *const texts[] = {"apiVersion", "kind"};
    for (size_t i = 0; i < array_len(texts); i++) {
        const struct dyn *have = dyn_get(v, str_z(texts[i]));
        const struct path *below = AT_NAME(at, str_z(texts[i]));
        if (!have)
            cause_required(causes, below, STR(""));
        else if (have->type == DYN_STR && have->text.n == 0)
            cause_required(causes, below, STR("must not be empty"));
        else if (have->type != DYN_STR)
            cause_add(causes, CAUSE_TYPE_INVALID, below, STR("\"\""), STR("must be a string"));
    }
    const struct dyn *meta = dyn_get(v, STR("metadata"));
    const struct path *below = AT(at, "metadata");
    const struct dyn *name = dyn_get(meta, STR("name"));
    struct name_msgs bad = {.arena = causes->arena};
    if (name && name->type == DYN_STR && name->text.n)
        name_dns_subdomain(name->text, &bad);
    for (size_t k = 0; k < bad.n; k++)
        cause_invalid(causes, AT(below, "name"), name->text, bad.p[k]);
    check_texts(dyn_get(meta, STR("labels")), AT(below, "labels"), true, causes);
    check_texts(dyn_get(meta, STR("annotations")), AT(below, "annotations"), false, causes);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
void crd_check_embedded(const struct dyn *v, const struct crd_node *n, const struct path *at,
                        struct causes *causes)
{
    if (!n || causes_full(causes))
        return;
    if (n->embedded && at && v->type == DYN_OBJECT)
        crd_lists_check_value(v, at, causes);
    for (size_t i = 0; v->type == DYN_LIST && n->items && i < v->items_len; i++)
        crd_check_embedded(&v->items[i], n->items, AT_ITEM(at, i), causes);
    for (size_t i = 0; v->type == DYN_OBJECT && i < v->members_len; i++) {
        const struct dyn_member *m = &v->members[i];
        const struct crd_node *property = crd_property(n, m->key);
        const struct path below = property ? path_field(at, m->key) : path_key(at, m->key);
        crd_check_embedded(&m->value, property ? property : n->additional, &below, causes);
    }
}

// --- Items known again ---------------------------------------------------------------------------

static bool crd_lists_keys_equal(const struct dyn *a, const struct dyn *b, const struct crd_node *n)
{
    for (size_t i = 0; i < n->list_map_keys.n; i++) {
        const struct dyn *x = dyn_get(a, n->list_map_keys.p[i]);
        const struct dyn *y = dyn_get(b, n->list_map_keys.p[i]);
        if ((x == NULL) != (y == NULL) || (x && !dyn_equal(x, y)))
            return false;
    }
    return true;
}

static const struct dyn *crd_lists_search(const struct crd_before *b, const struct dyn *item)
{
    for (size_t i = 0; i < b->old->items_len; i++)
        if (crd_lists_keys_equal(&b->old->items[i], item, b->node))
            return &b->old->items[i];
    return NULL;
}

// Of several with the same keys the first counts.
static void index_items(struct crd_before *b)
{
    struct str json;
    for (size_t i = 0; i < b->old->items_len; i++) {
        bool added;
        size_t *place = map_put_new(
            &b->places, crd_lists_key_text(&b->old->items[i], b->node, b->arena, &json), &added);
        if (added)
            *place = i;
    }
}

const struct dyn *crd_before_find(struct crd_before *b, const struct dyn *item)
{
    struct str json;
    if (!b->old || b->old->type != DYN_LIST || !str_eqz(b->node->list_type, "map"))
        return NULL;
    if (b->old->items_len <= SEARCHED_MAX)
        return crd_lists_search(b, item);
    if (map_len(&b->places) == 0)
        index_items(b);
    const size_t *place = map_get(&b->places, crd_lists_key_text(item, b->node, b->arena, &json));
    return place ? &b->old->items[*place] : NULL;
}

void crd_before_done(struct crd_before *b)
{
    map_done(&b->places);
}
