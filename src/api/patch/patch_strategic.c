// SPDX-License-Identifier: Apache-2.0
//
// Strategic merge patch. Objects are merged member by member; lists whose field is marked so are
// merged item by item, found by a key or, among scalars, by value. Members and items named $… are
// directives:
//
//     $patch: replace|delete            in an object or an item: instead of merging
//     $retainKeys: [...]                drop the members that are not named
//     $deleteFromPrimitiveList/x: [...] drop these values from list x
//     $setElementOrder/x: [...]         the order of list x
//
// Upstream works on Go's maps and slices, and some of its answers come from how those share memory;
// struct tree_list shares alike. The order in which upstream visits members is random; ours is that
// of the text.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/patch.h"
#include "api/patch/patch_int.h"
#include "api/patch/patch_order.h"
#include "api/type/tree.h"

#include "base/banned.h"

#define PATCH_MARKER  "$patch"
#define RETAIN_KEYS   "$retainKeys"
#define DELETE_PREFIX "$deleteFromPrimitiveList"
#define ORDER_PREFIX  "$setElementOrder"

// The schema of an object that is being merged.
struct schema_at {
    const struct api_type *type; // NULL when it is no struct
    const char *go_kind;         // what it is to Go: struct, map, ...
};

// How a field is merged, and what its values or items are.
struct strategy {
    struct schema_at sub;
    struct str merge_key; // empty when there is none
    bool merge;           // items are merged
    bool replace;         // whatever its shape, a new value takes the old one's place
};

static int merge_object(struct patch_work *w, struct tree *original, struct tree *patch,
                        const struct schema_at *schema, struct tree **ret);

// --- The schema ----------------------------------------------------------------------------------

static const char *go_kind_of_elem(const struct api_field *f)
{
    switch (f->elem) {
    case API_STR:
        return "string";
    case API_BOOL:
        return "bool";
    case API_I32:
        return "int32";
    case API_I64:
        return "int64";
    case API_BYTES:
    case API_STRLIST:
        return "slice";
    case API_QUANTITY:
    case API_TIME:
    case API_MICROTIME:
    case API_INTSTR:
    case API_RAW:
    case API_FIELDS:
    case API_STRUCT:
    case API_ELEMS:
        break;
    }
    return "struct";
}

// A RawExtension is a struct without fields to JSON.
static const struct api_type no_fields = {.name = STR_INIT("RawExtension")};

static struct schema_at schema_of(const struct api_field *f)
{
    const struct api_type *type = f->sub ? f->sub : f->elem == API_RAW ? &no_fields : NULL;
    return (struct schema_at){type, go_kind_of_elem(f)};
}

static const struct api_field *patch_strategic_find_field(const struct api_type *t, struct str name)
{
    const struct api_field *f = api_type_field(t, name);
    for (size_t i = 0; !f && i < t->json_len; i++)
        if (t->json[i].name.n == name.n && strncasecmp(t->json[i].name.p, name.p, name.n) == 0)
            f = &t->json[i];
    return f;
}

static int find_strategy(struct patch_work *w, const struct schema_at *at, struct str name,
                         const struct api_field **ret_field, struct strategy *ret)
{
    if (!at->type)
        return err_set(w->err, ERR_INTERNAL,
                       "merging an object in json but data type is not struct, instead is: %s",
                       at->go_kind);
    const struct api_field *f = patch_strategic_find_field(at->type, name);
    if (!f) {
        cleanup_sbuf struct sbuf quoted = {0};
        sbuf_add_quoted(&quoted, name);
        return err_set(w->err, ERR_INTERNAL,
                       "unable to find api field in struct %.*s for the json field %s",
                       STR_ARG(at->type->name), quoted.p);
    }
    *ret = (struct strategy){.sub = schema_of(f),
                             .merge_key = str_z(f->info ? f->info->merge_key : NULL),
                             .merge = f->flags & API_PATCH_MERGE,
                             .replace = f->flags & API_PATCH_REPLACE};
    *ret_field = f;
    return 0;
}

static int strategy_of_object(struct patch_work *w, const struct schema_at *at, struct str name,
                              struct strategy *ret)
{
    const struct api_field *f = NULL;
    int r = find_strategy(w, at, name, &f, ret);
    if (r < 0)
        return r;
    if (f->shape == API_MAP)
        ret->sub = (struct schema_at){NULL, "map"};
    else if (f->shape == API_LIST)
        ret->sub = (struct schema_at){NULL, "slice"};
    return 0;
}

static int strategy_of_list(struct patch_work *w, const struct schema_at *at, struct str name,
                            struct strategy *ret)
{
    const struct api_field *f = NULL;
    int r = find_strategy(w, at, name, &f, ret);
    if (r < 0)
        return r;
    bool list = f->shape == API_LIST || f->shape == API_OPT || f->elem == API_BYTES ||
                f->elem == API_STRLIST;
    if (!list || f->shape == API_MAP)
        return err_set(w->err, ERR_INTERNAL, "expected slice or array type, but got: struct");
    return 0;
}

// --- Words ---------------------------------------------------------------------------------------

static int bad_type(struct patch_work *w, const char *want, const struct tree *have)
{
    return err_set(w->err, ERR_INTERNAL, "expected a %s, but received a %s", want,
                   patch_order_go_type(have));
}

static int unknown_directive(struct patch_work *w, struct tree *directive, struct tree *patch)
{
    cleanup_sbuf struct sbuf shown = {0}, word = {0};
    struct str text = tree_text(directive);
    if (text.p) {
        sbuf_add(&word, text);
    } else {
        sbuf_addf(&word, "%%!s(%s", patch_order_go_type(directive));
        if (!tree_is_null(directive)) {
            sbuf_addc(&word, '=');
            tree_write_go(directive, &word, w->arena);
        }
        sbuf_addc(&word, ')');
    }
    tree_write_go(patch, &shown, w->arena);
    return err_set(w->err, ERR_INTERNAL, "unknown patch type: %s in map: %s", word.p, shown.p);
}

static bool patch_strategic_is_word(const struct tree *t, const char *word)
{
    struct str text = tree_text(t);
    return text.p && str_eqz(text, word);
}

// element_kind finds what all items of two lists are. Returns a sample, which is NULL on failure.
static int element_kind(struct patch_work *w, const struct tree_list *a, const struct tree_list *b,
                        struct tree **ret)
{
    struct tree *first = NULL;
    const struct tree_list *lists[] = {a, b};
    int r = patch_work_add(w, a->n + b->n);
    if (r < 0)
        return r;
    for (size_t l = 0; l < array_len(lists); l++) {
        for (size_t i = 0; i < lists[l]->n; i++) {
            struct tree *item = lists[l]->p[i];
            if (!first && tree_is_list(item))
                return err_set(w->err, ERR_INVALID, "lists of lists are not supported");
            if (!first && tree_is_null(item))
                return err_set(w->err, ERR_INTERNAL, "a list to merge holds null");
            first = first ? first : item;
            if (patch_order_go_class(first) == patch_order_go_class(item))
                continue;
            cleanup_sbuf struct sbuf shown = {0};
            sbuf_addc(&shown, '[');
            tree_write_go(tree_new_list(w->arena, *a), &shown, w->arena);
            sbuf_addc(&shown, ' ');
            tree_write_go(tree_new_list(w->arena, *b), &shown, w->arena);
            sbuf_addc(&shown, ']');
            return err_set(w->err, ERR_INTERNAL, "list element types are not identical: %s",
                           shown.p);
        }
    }
    if (!first)
        return err_set(w->err, ERR_INTERNAL, "no elements in any of the given slices");
    *ret = first;
    return 0;
}

// --- New values ----------------------------------------------------------------------------------

static void discard_nulls(struct tree *t, struct arena *arena)
{
    if (!tree_is_object(t) && !tree_is_list(t))
        return;
    tree_open(t, arena);
    for (size_t i = 0; i < t->list.n; i++)
        discard_nulls(t->list.p[i], arena);
    tree_foreach(t, m)
    {
        if (tree_is_null(m->value))
            (void)tree_remove(t, m->key, arena);
        else
            discard_nulls(m->value, arena);
    }
}

// drop_directives removes everything that holds a $patch. False when t itself does.
static bool drop_directives(struct tree *t, struct arena *arena)
{
    if (!tree_is_object(t) && !tree_is_list(t))
        return true;
    tree_open(t, arena);
    if (t->shape == TREE_OBJECT) {
        if (tree_get(t, STR(PATCH_MARKER), arena))
            return false;
        tree_foreach(t, m) if (!drop_directives(m->value, arena))(void)
            tree_remove(t, m->key, arena);
        return true;
    }
    struct tree_list kept = {0}; // holders of the old list still see all of it
    for (size_t i = 0; i < t->list.n; i++)
        if (drop_directives(t->list.p[i], arena))
            tree_list_add(&kept, t->list.p[i], arena);
    t->list = kept;
    return true;
}

// set_new gives object a member that it had not, or had with another type.
static void set_new(struct patch_work *w, struct tree *object, struct str key, struct tree *value)
{
    discard_nulls(value, w->arena);
    if (drop_directives(value, w->arena))
        tree_put(object, key, value, w->arena);
    else
        (void)tree_remove(object, key, w->arena);
}

// --- Lists ---------------------------------------------------------------------------------------

// patch_strategic_find_item finds the first object in list whose merge key has a value; list->n
// when there is none.
static int patch_strategic_find_item(struct patch_work *w, const struct tree_list *list,
                                     struct str merge_key, const struct tree *value, size_t *ret)
{
    if (tree_text(value).p) {
        size_t odd = SIZE_MAX;
        int r = patch_order_look_up(w, list, tree_text(value), merge_key, ret, &odd);
        return r < 0 || odd == SIZE_MAX
                   ? r
                   : err_set(w->err, ERR_INTERNAL, "value for key %zu is not a map", odd);
    }
    int r = patch_work_add(w, list->n);
    if (r < 0)
        return r;
    size_t i = 0;
    for (; i < list->n; i++) {
        if (!tree_is_object(list->p[i]))
            return err_set(w->err, ERR_INTERNAL, "value for key %zu is not a map", i);
        const struct tree *found = tree_get(list->p[i], merge_key, w->arena);
        if (found && patch_order_same(found, value))
            break;
    }
    *ret = i;
    return 0;
}

struct patch_strategic_names MAP(bool);

// All items are objects. Those whose key is a string go in one pass, however many are named.
static int delete_matching(struct patch_work *w, struct tree_list *list, struct str merge_key,
                           const struct patch_strategic_names *names, const struct tree *value)
{
    size_t kept = 0;
    int r = patch_work_add(w, list->n);
    for (size_t i = 0; r == 0 && i < list->n; i++) {
        const struct tree *found = tree_get(list->p[i], merge_key, w->arena);
        bool gone = found && (names ? tree_text(found).p && map_has(names, tree_text(found))
                                    : patch_order_same(found, value));
        if (!gone)
            list->p[kept++] = list->p[i];
    }
    if (r == 0)
        list->n = kept;
    patch_order_forget(w);
    return r;
}

// patch_strategic_apply_directives carries out the items of patch that are directives and leaves
// the others in it.
static int patch_strategic_apply_directives(struct patch_work *w, struct tree_list *original,
                                            struct tree_list *patch, struct str merge_key)
{
    struct tree_list rest = {0};
    struct patch_strategic_names names = {0};
    bool replace = false;
    int r = 0;
    for (size_t i = 0; r == 0 && i < patch->n; i++) {
        struct tree *item = patch->p[i];
        struct tree *directive = tree_get(item, STR(PATCH_MARKER), w->arena);
        if (!directive) {
            tree_list_add(&rest, item, w->arena);
        } else if (patch_strategic_is_word(directive, "delete")) {
            const struct tree *value = tree_get(item, merge_key, w->arena);
            if (!value)
                r = patch_order_fail_merge_key(w, item, merge_key);
            else if (tree_text(value).p)
                *map_put(&names, tree_text(value)) = true;
            else
                r = delete_matching(w, original, merge_key, NULL, value);
        } else if (patch_strategic_is_word(directive, "replace")) {
            replace = true;
        } else if (patch_strategic_is_word(directive, "merge")) {
            r = err_set(w->err, ERR_INTERNAL, "merging lists cannot yet be specified in the patch");
        } else {
            r = unknown_directive(w, directive, item);
        }
    }
    if (r == 0 && map_len(&names))
        r = delete_matching(w, original, merge_key, &names, NULL);
    map_done(&names);
    if (r < 0)
        return r;
    if (replace) {
        *original = rest;
        *patch = (struct tree_list){0};
    } else {
        *patch = rest;
    }
    return 0;
}

// patch_strategic_merge_items merges or appends each item of patch. *list is the result's; original
// stays as Go's caller would see it.
static int patch_strategic_merge_items(struct patch_work *w, struct tree_list *list,
                                       const struct tree_list *patch, struct str merge_key,
                                       const struct schema_at *schema)
{
    for (size_t i = 0; i < patch->n; i++) {
        struct tree *item = patch->p[i];
        const struct tree *value = tree_get(item, merge_key, w->arena);
        if (!value)
            return patch_order_fail_merge_key(w, item, merge_key);
        size_t at = 0;
        int r = patch_strategic_find_item(w, list, merge_key, value, &at);
        if (r < 0)
            return r;
        if (at == list->n) {
            tree_list_add(list, item, w->arena);
            continue;
        }
        struct tree *merged = NULL;
        r = merge_object(w, list->p[at], item, schema, &merged);
        if (r < 0)
            return r;
        list->p[at] = merged;
        const struct tree *now = tree_get(merged, merge_key, w->arena);
        if (!now || !patch_order_same(now, value))
            patch_order_forget(w); // directives took the key away
    }
    return 0;
}

static int delete_scalars(struct patch_work *w, const struct tree_list *from,
                          const struct tree_list *which, struct tree_list *ret)
{
    *ret = (struct tree_list){0};
    for (size_t i = 0; i < from->n; i++) {
        size_t at = 0;
        int r = patch_order_find_item(w, which, from->p[i], (struct str){NULL, 0}, &at);
        if (r < 0)
            return r;
        if (at == which->n)
            tree_list_add(ret, from->p[i], w->arena);
    }
    return 0;
}

// add_scalars joins two lists without repeats. A repeated item's place is taken by the last one.
static int add_scalars(struct patch_work *w, const struct tree_list *a, const struct tree_list *b,
                       struct tree_list *ret)
{
    struct tree_list all = *a; // where it was, when there is nothing to add
    if (b->n)
        all = (struct tree_list){.p = arena_array(w->arena, struct tree *, a->n + b->n),
                                 .cap = a->n + b->n};
    for (size_t i = 0; b->n && i < a->n + b->n; i++)
        tree_list_add(&all, i < a->n ? a->p[i] : b->p[i - a->n], w->arena);
    patch_order_forget(w); // items change places in a list that others may hold
    for (size_t i = 0; i < all.n; i++) {
        int r = patch_work_add(w, all.n - i);
        if (r < 0)
            return r;
        for (size_t j = i + 1; j < all.n;) {
            if (patch_order_same(all.p[i], all.p[j]))
                all.p[j] = all.p[--all.n];
            else
                j++;
        }
    }
    *ret = all;
    return 0;
}

// merge_lists_of merges two lists that are not both empty; class is what their items are.
static int merge_lists_of(struct patch_work *w, struct tree_list original, struct tree_list patch,
                          const struct strategy *how, bool objects, struct tree_list *ret)
{
    struct tree_list merged = {0};
    int r = 0;
    if (!objects) {
        r = add_scalars(w, &original, &patch, &merged);
    } else if (how->merge_key.n == 0) {
        return err_set(w->err, ERR_INTERNAL, "cannot merge lists without merge key for %s",
                       how->sub.go_kind);
    } else {
        r = patch_strategic_apply_directives(w, &original, &patch, how->merge_key);
        merged = original;
        if (r == 0)
            r = patch_strategic_merge_items(w, &merged, &patch, how->merge_key, &how->sub);
    }
    if (r < 0)
        return r;
    struct order_request order = {merged, patch, original, how->merge_key, objects};
    return patch_order_settle(w, &order, ret);
}

static int merge_lists(struct patch_work *w, struct tree *original, struct tree *patch,
                       const struct strategy *how, bool deletes, struct tree_list *ret)
{
    tree_open(original, w->arena);
    tree_open(patch, w->arena);
    if (!how->merge && !deletes) {
        *ret = patch->list;
        return 0;
    }
    if (original->list.n == 0 && patch->list.n == 0) {
        *ret = original->list;
        return 0;
    }
    struct tree *sample = NULL;
    int r = element_kind(w, &original->list, &patch->list, &sample);
    if (r < 0)
        return r;
    if (!tree_is_object(sample) && deletes)
        return delete_scalars(w, &original->list, &patch->list, ret);
    return merge_lists_of(w, original->list, patch->list, how, tree_is_object(sample), ret);
}

// --- Directives of objects -----------------------------------------------------------------------

// list_key finds what a parallel list is about: "$prefix/key".
static bool list_key(struct str name, struct str prefix, struct str *ret)
{
    struct str head;
    return str_cut(name, '/', &head, ret) && str_eq(head, prefix);
}

// without_deletes lists the items of a patch that are not there to delete something.
static int without_deletes(struct patch_work *w, const struct tree_list *patch,
                           struct tree_list *ret)
{
    *ret = (struct tree_list){0};
    for (size_t i = 0; i < patch->n; i++) {
        if (!tree_is_object(patch->p[i]))
            return patch_order_fail_map(w, patch->p[i]);
        struct tree *directive = tree_get(patch->p[i], STR(PATCH_MARKER), w->arena);
        if (!directive || !patch_strategic_is_word(directive, "delete"))
            tree_list_add(ret, patch->p[i], w->arena);
    }
    return 0;
}

// check_order checks that the items of patch are in the order list, in that order.
static int check_order(struct patch_work *w, const struct tree_list *patch,
                       const struct tree_list *order, struct str merge_key)
{
    if (order->n == 0 || patch->n == 0)
        return 0;
    struct tree_list items = *patch;
    int r = patch_work_add(w, patch->n + order->n);
    if (r == 0 && merge_key.n)
        r = without_deletes(w, patch, &items);
    size_t i = 0, o = 0;
    while (r == 0 && i < items.n && o < order->n) {
        bool same =
            tree_is_object(items.p[i]) && tree_get(items.p[i], STR(PATCH_MARKER), w->arena) != NULL;
        if (!same)
            r = patch_order_same_key(w, items.p[i], order->p[o++], merge_key, &same);
        i += same;
    }
    if (r < 0 || i == items.n)
        return r;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text, "The order in patch list:\n");
    tree_write_go(tree_new_list(w->arena, *patch), &text, w->arena);
    sbuf_addz(&text, "\n doesn't match " ORDER_PREFIX " list:\n");
    tree_write_go(tree_new_list(w->arena, *order), &text, w->arena);
    return err_set(w->err, ERR_INTERNAL, "%s\n", text.p);
}

// ordered_list merges what there is of a list that has an order list. *ret stays NULL when there is
// nothing to order.
static int ordered_list(struct patch_work *w, struct tree *old, struct tree *changes,
                        struct tree *order, const struct strategy *how, struct tree **ret)
{
    const struct tree_list none = {0};
    struct tree_list before = old ? old->list : none, merged;
    struct tree_list given = changes ? changes->list : none;
    int r = check_order(w, &given, &order->list, how->merge_key);
    if (r < 0)
        return r;
    if (!old && !changes)
        return 0;
    if (old && changes) {
        r = merge_lists(w, old, changes, how, false, &merged);
        if (r < 0)
            return r;
    } else if (changes) {
        (void)drop_directives(changes, w->arena);
        merged = changes->list;
    } else {
        merged = before;
    }
    struct order_request request = {merged, order->list, before, how->merge_key, false};
    struct tree *sample = NULL;
    struct tree_list parted[2];
    r = patch_order_part(w, &request, parted);
    if (r == 0)
        r = element_kind(w, &before, &given, &sample);
    if (r < 0)
        return r;
    struct tree_list settled;
    request.objects = tree_is_object(sample);
    r = patch_order_join(w, &request, parted, &settled);
    if (r == 0)
        *ret = tree_new_list(w->arena, settled);
    return r;
}

// apply_order carries out one $setElementOrder of patch, and the list it is about.
static int apply_order(struct patch_work *w, struct tree *original, struct tree *patch,
                       const struct tree_member *directive, const struct schema_at *schema)
{
    struct tree *order = directive->value;
    struct str key;
    bool named = list_key(directive->key, STR(ORDER_PREFIX), &key);
    (void)tree_remove(patch, directive->key, w->arena);
    if (!tree_is_list(order))
        return bad_type(w, "[]interface {}", order);
    if (!named)
        return err_set(w->err, ERR_BAD_REQUEST, "invalid patch format of setElementOrder list");
    struct tree *old = tree_get(original, key, w->arena);
    struct tree *changes = tree_get(patch, key, w->arena);
    if ((old && !tree_is_list(old)) || (changes && !tree_is_list(changes)))
        return bad_type(w, "[]interface {}", old && !tree_is_list(old) ? old : changes);
    tree_open(order, w->arena);
    if (old)
        tree_open(old, w->arena);
    if (changes)
        tree_open(changes, w->arena);
    struct strategy how;
    struct tree *merged = NULL;
    int r = strategy_of_list(w, schema, key, &how);
    if (r == 0)
        r = ordered_list(w, old, changes, order, &how, &merged);
    if (r < 0 || !merged)
        return r;
    tree_put(original, key, merged, w->arena);
    (void)tree_remove(patch, key, w->arena);
    return 0;
}

static int apply_orders(struct patch_work *w, struct tree *original, struct tree *patch,
                        const struct schema_at *schema)
{
    tree_foreach(patch, m)
    {
        if (!str_starts(m->key, STR(ORDER_PREFIX)))
            continue;
        struct tree_member directive = *m;
        int r = apply_order(w, original, patch, &directive, schema);
        if (r < 0)
            return r;
    }
    return 0;
}

static int names_key(struct patch_work *w, const struct tree_list *names, struct str key, bool *ret)
{
    *ret = false;
    for (size_t i = 0; i < names->n && !*ret; i++) {
        struct str name = tree_text(names->p[i]);
        *ret = name.p && str_eq(name, key);
    }
    return patch_work_add(w, names->n);
}

static int retain_keys(struct patch_work *w, struct tree *original, struct tree *patch)
{
    struct tree *names = tree_get(patch, STR(RETAIN_KEYS), w->arena);
    if (!names)
        return 0;
    (void)tree_remove(patch, STR(RETAIN_KEYS), w->arena);
    if (!tree_is_list(names))
        return err_set(w->err, ERR_BAD_REQUEST, "invalid patch format of retainKeys");
    tree_open(names, w->arena);
    bool named = false;
    tree_foreach(patch, m)
    {
        if (tree_is_null(m->value) || str_starts(m->key, STR(DELETE_PREFIX)) ||
            str_starts(m->key, STR(ORDER_PREFIX)))
            continue;
        int r = names_key(w, &names->list, m->key, &named);
        if (r < 0)
            return r;
        if (!named)
            return err_set(w->err, ERR_BAD_REQUEST, "invalid patch format of retainKeys");
    }
    tree_open(original, w->arena);
    tree_foreach(original, m)
    {
        int r = names_key(w, &names->list, m->key, &named);
        if (r < 0)
            return r;
        if (!named)
            (void)tree_remove(original, m->key, w->arena);
    }
    return 0;
}

// --- Objects -------------------------------------------------------------------------------------

static int merge_same_shape(struct patch_work *w, struct tree *original, struct str key,
                            struct tree *old, struct tree *value, bool deletes,
                            const struct schema_at *schema)
{
    struct strategy how;
    struct tree *merged = value;
    int r = 0;
    if (tree_is_object(old)) {
        r = strategy_of_object(w, schema, key, &how);
        if (r == 0 && !how.replace)
            r = merge_object(w, old, value, &how.sub, &merged);
    } else if (tree_is_list(old)) {
        struct tree_list list = {0};
        r = strategy_of_list(w, schema, key, &how);
        if (r == 0)
            r = merge_lists(w, old, value, &how, deletes, &list);
        if (r == 0)
            merged = tree_new_list(w->arena, list);
    }
    if (r == 0)
        tree_put(original, key, merged, w->arena);
    return r;
}

static int merge_member(struct patch_work *w, struct tree *original, const struct tree_member *m,
                        const struct schema_at *schema)
{
    struct str key = m->key;
    bool deletes = str_starts(key, STR(DELETE_PREFIX));
    if (deletes && !list_key(key, STR(DELETE_PREFIX), &key))
        return err_set(w->err, ERR_BAD_REQUEST, "invalid patch format of primitive list");
    key = key.n ? key : m->key;
    if (tree_is_null(m->value)) {
        (void)tree_remove(original, key, w->arena);
        return 0;
    }
    struct tree *old = tree_get(original, key, w->arena);
    if (!old || patch_order_go_class(old) != patch_order_go_class(m->value)) {
        if (!deletes)
            set_new(w, original, key, m->value);
        return 0;
    }
    return merge_same_shape(w, original, key, old, m->value, deletes, schema);
}

static int merge_object(struct patch_work *w, struct tree *original, struct tree *patch,
                        const struct schema_at *schema, struct tree **ret)
{
    struct tree *directive = tree_get(patch, STR(PATCH_MARKER), w->arena);
    if (directive && patch_strategic_is_word(directive, "replace")) {
        (void)tree_remove(patch, STR(PATCH_MARKER), w->arena);
        *ret = patch;
        return 0;
    }
    if (directive && patch_strategic_is_word(directive, "delete")) {
        *ret = tree_new_object(w->arena);
        return 0;
    }
    if (directive)
        return unknown_directive(w, directive, patch);
    int r = retain_keys(w, original, patch);
    if (r == 0)
        r = apply_orders(w, original, patch, schema);
    if (r < 0)
        return r;
    tree_foreach(patch, m)
    {
        r = merge_member(w, original, m, schema);
        if (r < 0)
            return r;
    }
    *ret = original;
    return 0;
}

int api_patch_strategic(const struct api_type *type, const struct json_doc *object,
                        const struct json_doc *patch, struct json_strict *strict, struct sbuf *out,
                        struct err *err)
{
    cleanup_arena struct arena arena = {0};
    if (!type)
        return err_set(err, ERR_BAD_REQUEST, "strategic merge patch format is not supported");
    if (!json_is_object(object->root))
        return err_set(err, ERR_BAD_REQUEST, "invalid JSON document");
    struct tree *result = tree_of(&arena, object, NULL, object->root);
    if (!json_is_null(patch->root)) { // which is an empty patch to Go
        if (!json_is_object(patch->root))
            return err_set(
                err, ERR_BAD_REQUEST,
                "json: cannot unmarshal %s into Go value of type map[string]interface {}",
                json_type_name(patch->root));
        json_strict_walk(strict, patch->root);
        struct patch_work w = {.arena = &arena, .err = err};
        struct schema_at top = {type, "struct"};
        struct tree *changes = tree_of(&arena, patch, NULL, patch->root);
        int r = merge_object(&w, result, changes, &top, &result);
        patch_order_forget(&w);
        if (r < 0)
            return r;
    }
    struct json_writer w = {.out = out};
    return tree_write(result, &w, err);
}
