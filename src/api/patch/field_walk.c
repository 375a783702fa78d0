// SPDX-License-Identifier: Apache-2.0
//
// Values and types side by side: the paths a value has, and the differences between two values. The
// tables of types decide which lists are sets or maps and which values are atomic.
#include "api/field_walk.h"

#include <assert.h>
#include <stdlib.h>

#include "base/vec.h"

#include "base/banned.h"

// --- Types ---------------------------------------------------------------------------------------

static enum field_shape list_shape(const struct api_field *f)
{
    if (f->flags & API_LIST_MAP)
        return SHAPE_LIST_MAP;
    if (f->flags & API_LIST_SET)
        return SHAPE_LIST_SET;
    if ((f->flags & API_LIST_ATOMIC) || !(f->flags & API_PATCH_MERGE))
        return SHAPE_ATOMIC;
    // Older lists have only what strategic merge patches go by.
    return f->info && f->info->merge_key ? SHAPE_LIST_MAP : SHAPE_LIST_SET;
}

enum field_shape field_shape_of(const struct field_type *t)
{
    const struct api_field *f = t->field;
    if (t->deduced)
        return SHAPE_DEDUCED;
    if (!f)
        return t->type->atomic ? SHAPE_ATOMIC : SHAPE_STRUCT;
    if (!t->item && f->shape == API_LIST)
        return list_shape(f);
    if (!t->item && f->shape == API_MAP)
        return f->flags & API_MAP_ATOMIC ? SHAPE_ATOMIC : SHAPE_MAP;
    if (f->elem == API_STRUCT)
        return f->sub->atomic || (f->flags & API_STRUCT_ATOMIC) ? SHAPE_ATOMIC : SHAPE_STRUCT;
    if (f->elem == API_FIELDS)
        return SHAPE_DEDUCED;
    return f->elem == API_STRLIST || f->elem == API_RAW ? SHAPE_ATOMIC : SHAPE_SCALAR;
}

bool field_type_below(const struct field_type *t, struct str name, struct field_type *ret)
{
    switch (field_shape_of(t)) {
    case SHAPE_STRUCT: {
        const struct api_type *type = t->field ? t->field->sub : t->type;
        const struct api_field *f = api_type_field(type, name);
        *ret = (struct field_type){.field = f};
        return f != NULL;
    }
    case SHAPE_MAP:
    case SHAPE_LIST_SET:
    case SHAPE_LIST_MAP:
        *ret = (struct field_type){.field = t->field, .item = true};
        return true;
    case SHAPE_SCALAR:
    case SHAPE_ATOMIC:
    case SHAPE_DEDUCED:
        break;
    }
    *ret = (struct field_type){.deduced = true};
    return true;
}

// --- Members and items ---------------------------------------------------------------------------

struct field_members field_members_of(const yyjson_val *v, struct arena *a)
{
    struct field_members m = {0};
    if (!v || !json_is_object(v))
        return m;
    m.p = arena_array(a, struct field_member, json_len(v) + 1);
    json_obj_foreach(v, key, value)
        m.p[m.n++] = (struct field_member){json_str(key), value};
    qsort(m.p, m.n, sizeof(m.p[0]), str_cmp_elements);
    return m;
}

// A key that an item leaves out may have a default: the declared one, or the zero of what JSON
// always shows, as OpenAPI has it.
static const yyjson_val *default_key(const struct api_field *f, struct arena *a)
{
    bool declared = f && (f->flags & API_DEFAULT_DECLARED) && f->info && f->info->default_text;
    if (!declared && (!f || f->shape != API_ONE || !(f->flags & API_ALWAYS)))
        return NULL;
    struct str text = declared ? str_z(f->info->default_text) : STR("");
    yyjson_val *v = arena_one(a, yyjson_val);
    int64_t number = 0;
    if (f->elem == API_STR) {
        v->tag = (uint64_t)text.n << YYJSON_TAG_BIT | YYJSON_TYPE_STR;
        v->uni.str = text.p;
    } else if (f->elem == API_BOOL) {
        v->tag =
            YYJSON_TYPE_BOOL | (str_eqz(text, "true") ? YYJSON_SUBTYPE_TRUE : YYJSON_SUBTYPE_FALSE);
    } else if (text.n == 0 || str_to_i64(text, &number) == 0) {
        v->tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_SINT;
        v->uni.i64 = number;
    }
    return v;
}

static int keys_elem(const struct api_field *f, const yyjson_val *item, struct arena *a,
                     struct field_elem *ret, struct err *err)
{
    bool by_schema = (f->flags & API_LIST_MAP) != 0;
    struct str names = str_z(by_schema ? f->info->keys : f->info->merge_key);
    struct VEC(struct field_key) keys = {.cap = 1};
    if (!json_is_object(item))
        return err_set(err, ERR_INVALID,
                       json_is_null(item)
                           ? "associative list with keys may not have a null element"
                           : "associative list with keys may not have non-map elements");
    for (size_t i = 0; i < names.n; i++)
        keys.cap += names.p[i] == ',';
    keys.p = arena_array(a, struct field_key, keys.cap);
    for (struct str rest = names; rest.n;) {
        struct str name;
        str_cut(rest, ',', &name, &rest);
        const yyjson_val *value = json_get(item, name);
        if (!value && f->elem == API_STRUCT)
            value = default_key(api_type_field(f->sub, name), a);
        if (!value)
            continue;
        // By name.
        vec_push_arena(a, &keys, (struct field_key){0});
        size_t at = keys.n - 1;
        for (; at > 0 && str_cmp(keys.p[at - 1].name, name) > 0; at--)
            keys.p[at] = keys.p[at - 1];
        keys.p[at] = (struct field_key){name, value};
    }
    if (keys.n == 0) {
        cleanup_sbuf struct sbuf shown = {0};
        for (struct str rest = names; rest.n;) {
            struct str name;
            str_cut(rest, ',', &name, &rest);
            sbuf_addf(&shown, "%s\"%.*s\"", shown.n ? " " : "", STR_ARG(name));
        }
        return err_set(err, ERR_INVALID,
                       "associative list with keys has an element that omits all key fields [%s] "
                       "(and doesn't have default values for any key fields)",
                       shown.n ? shown.p : "");
    }
    *ret = (struct field_elem){.kind = FIELD_KEY, .keys = keys.p, .keys_len = keys.n};
    return 0;
}

int field_item_elem(const struct field_type *t, const yyjson_val *item, struct arena *a,
                    struct field_elem *ret, struct err *err)
{
    if (field_shape_of(t) == SHAPE_LIST_MAP)
        return keys_elem(t->field, item, a, ret, err);
    if (json_is_object(item))
        return err_set(err, ERR_INVALID,
                       "associative list without keys has an element that's a map type");
    if (json_is_array(item))
        return err_set(err, ERR_INVALID, "not supported: associative list with lists as elements");
    if (json_is_null(item))
        return err_set(err, ERR_INVALID,
                       "associative list without keys has an element that's an explicit null");
    *ret = (struct field_elem){.kind = FIELD_VALUE, .value = item};
    return 0;
}

static int field_walk_order_elems(const void *x, const void *y)
{
    const struct field_item *a = x, *b = y;
    int c = field_elem_cmp(&a->elem, &b->elem);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

struct field_elem field_some_elem(const struct field_type *t, const yyjson_val *item,
                                  struct arena *a)
{
    struct field_elem e;
    if (field_item_elem(t, item, a, &e, NULL) < 0)
        e = (struct field_elem){.kind = FIELD_INDEX, .index = -1};
    return e;
}

// strict: an item without keys is an error.
static int field_walk_list_items(const struct field_type *t, const yyjson_val *v, bool strict,
                                 struct arena *a, struct field_items *ret, struct err *err)
{
    struct field_items l = {0};
    if (v && json_is_array(v)) {
        l.p = arena_array(a, struct field_item, json_len(v) + 1);
        json_arr_foreach(v, item) {
            struct field_item *to = &l.p[l.n];
            *to = (struct field_item){.value = item, .at = l.n};
            int r = strict ? field_item_elem(t, item, a, &to->elem, err) : 0;
            if (r < 0)
                return r;
            if (!strict)
                to->elem = field_some_elem(t, item, a);
            l.n++;
        }
        qsort(l.p, l.n, sizeof(l.p[0]), field_walk_order_elems);
    }
    *ret = l;
    return 0;
}

int field_items_of(const struct field_type *t, const yyjson_val *v, struct arena *a,
                   struct field_items *ret, struct err *err)
{
    return field_walk_list_items(t, v, true, a, ret, err);
}

size_t field_items_find(const struct field_items *l, const struct field_elem *e, size_t *ret_first)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (field_elem_cmp(&l->p[middle].elem, e) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t n = 0;
    while (low + n < l->n && field_elem_cmp(&l->p[low + n].elem, e) == 0)
        n++;
    *ret_first = low;
    return n;
}

// --- The paths of a value ------------------------------------------------------------------------

struct setting {
    struct arena *arena;
    struct field_set *set;
};

static void field_walk_add_value(struct setting *s, const struct field_type *t, const yyjson_val *v,
                                 const struct field_path *path);

static bool is_nothing(const yyjson_val *v)
{
    return json_is_null(v) || (json_is_object(v) && json_len(v) == 0);
}

static void set_of_members(struct setting *s, const struct field_type *t, const yyjson_val *v,
                           const struct field_path *path)
{
    bool named = field_shape_of(t) == SHAPE_STRUCT;
    struct field_members m = field_members_of(v, s->arena);
    for (size_t i = 0; i < m.n; i++) {
        const struct field_elem e = {.kind = FIELD_NAME, .name = m.p[i].key};
        const struct field_path below = {path, &e};
        struct field_type bt;
        bool known = field_type_below(t, m.p[i].key, &bt);
        if (known)
            field_walk_add_value(s, &bt, m.p[i].value, &below);
        if (!named || !known || is_nothing(m.p[i].value))
            field_set_add(s->set, &below, s->arena);
    }
}

static void set_of_items(struct setting *s, const struct field_type *t, const yyjson_val *v,
                         const struct field_path *path)
{
    struct field_items l = {0};
    struct field_type bt;
    (void)!field_walk_list_items(t, v, false, s->arena, &l, NULL);
    (void)field_type_below(t, STR(""), &bt);
    for (size_t i = 0, n = 0; i < l.n; i += n) {
        const struct field_path below = {path, &l.p[i].elem};
        for (n = 1; i + n < l.n && field_elem_cmp(&l.p[i].elem, &l.p[i + n].elem) == 0;)
            n++;
        if (n == 1) // those that are there twice are owned as a whole
            field_walk_add_value(s, &bt, l.p[i].value, &below);
        field_set_add(s->set, &below, s->arena);
    }
}

static void field_walk_add_value(struct setting *s, const struct field_type *t, const yyjson_val *v,
                                 const struct field_path *path)
{
    switch (field_shape_of(t)) {
    case SHAPE_STRUCT:
    case SHAPE_MAP:
        set_of_members(s, t, v, path);
        return;
    case SHAPE_LIST_SET:
    case SHAPE_LIST_MAP:
        set_of_items(s, t, v, path);
        return;
    case SHAPE_DEDUCED:
        if (json_is_object(v) || json_is_null(v)) {
            set_of_members(s, t, v, path);
            return;
        }
        break;
    case SHAPE_SCALAR:
    case SHAPE_ATOMIC:
        break;
    }
    field_set_add(s->set, path, s->arena);
}

struct field_set field_set_of(const struct field_type *t, const yyjson_val *v, struct arena *a)
{
    struct field_set set = {0};
    struct setting s = {.arena = a, .set = &set};
    field_walk_add_value(&s, t, v, NULL);
    return set;
}

// --- Two values ----------------------------------------------------------------------------------

struct comparing {
    struct arena *arena;
    struct err *err;
    struct field_diff *diff;
};

static int field_walk_compare_values(struct comparing *c, const struct field_type *t,
                                     const yyjson_val *x, const yyjson_val *y,
                                     const struct field_path *path);

// A path that is there on one side only, or with another value.
static void compare_leaf(struct comparing *c, const yyjson_val *x, const yyjson_val *y,
                         const struct field_path *path)
{
    if (!x)
        field_set_add(&c->diff->added, path, c->arena);
    else if (!y)
        field_set_add(&c->diff->removed, path, c->arena);
    else if (!json_equal(x, y))
        field_set_add(&c->diff->modified, path, c->arena);
}

static void compare_presence(struct comparing *c, const yyjson_val *x, const yyjson_val *y,
                             const struct field_path *path)
{
    if (!x)
        field_set_add(&c->diff->added, path, c->arena);
    else if (!y)
        field_set_add(&c->diff->removed, path, c->arena);
}

static int compare_members(struct comparing *c, const struct field_type *t, const yyjson_val *x,
                           const yyjson_val *y, const struct field_path *path)
{
    struct field_members l = field_members_of(x, c->arena), m = field_members_of(y, c->arena);
    if (l.n == 0 && m.n == 0) {
        compare_leaf(c, x, y, path);
        return 0;
    }
    for (size_t i = 0, k = 0; i < l.n || k < m.n;) {
        int o = i == l.n ? 1 : k == m.n ? -1 : str_cmp(l.p[i].key, m.p[k].key);
        const struct field_elem e = {.kind = FIELD_NAME, .name = o <= 0 ? l.p[i].key : m.p[k].key};
        const struct field_path below = {path, &e};
        struct field_type bt;
        if (!field_type_below(t, e.name, &bt))
            bt = (struct field_type){.deduced = true};
        int r = field_walk_compare_values(c, &bt, o <= 0 ? l.p[i].value : NULL,
                                          o >= 0 ? m.p[k].value : NULL, &below);
        if (r < 0)
            return r;
        i += o <= 0;
        k += o >= 0;
    }
    compare_presence(c, x, y, path);
    return 0;
}

static bool items_equal(const struct field_item *x, const struct field_item *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!json_equal(x[i].value, y[i].value))
            return false;
    return true;
}

// The items of one element: one on each side at most, or owned as a whole where there are more.
static int compare_group(struct comparing *c, const struct field_type *t,
                         const struct field_item *x, size_t nx, const struct field_item *y,
                         size_t ny, const struct field_path *path)
{
    int r = 0;
    if (nx <= 1 && ny <= 1)
        return field_walk_compare_values(c, t, nx ? x->value : NULL, ny ? y->value : NULL, path);
    if (nx >= 2 && ny >= 2) {
        if (nx != ny || !items_equal(x, y, nx))
            field_set_add(&c->diff->modified, path, c->arena);
    } else if (nx >= 2) {
        if (ny)
            r = field_walk_compare_values(c, t, NULL, y->value, path);
        field_set_add(&c->diff->removed, path, c->arena);
    } else {
        if (nx)
            r = field_walk_compare_values(c, t, x->value, NULL, path);
        field_set_add(&c->diff->added, path, c->arena);
    }
    return r;
}

static size_t group_size(const struct field_items *l, size_t at)
{
    size_t n = 1;
    while (at + n < l->n && field_elem_cmp(&l->p[at].elem, &l->p[at + n].elem) == 0)
        n++;
    return n;
}

static int compare_items(struct comparing *c, const struct field_type *t, const yyjson_val *x,
                         const yyjson_val *y, const struct field_path *path)
{
    struct field_items l = {0}, m = {0};
    struct field_type bt;
    int r = field_items_of(t, x, c->arena, &l, c->err);
    if (r == 0)
        r = field_items_of(t, y, c->arena, &m, c->err);
    if (r < 0)
        return r;
    if (l.n == 0 && m.n == 0) {
        compare_leaf(c, x, y, path);
        return 0;
    }
    (void)field_type_below(t, STR(""), &bt);
    for (size_t i = 0, k = 0; (i < l.n || k < m.n) && r == 0;) {
        int o = i == l.n ? 1 : k == m.n ? -1 : field_elem_cmp(&l.p[i].elem, &m.p[k].elem);
        size_t nx = o <= 0 ? group_size(&l, i) : 0, ny = o >= 0 ? group_size(&m, k) : 0;
        const struct field_path below = {path, o <= 0 ? &l.p[i].elem : &m.p[k].elem};
        r = compare_group(c, &bt, nx ? &l.p[i] : NULL, nx, ny ? &m.p[k] : NULL, ny, &below);
        i += nx;
        k += ny;
    }
    compare_presence(c, x, y, path);
    return r;
}

// As the values have it: maps are walked, all else is a leaf. Where one is a map and the other is
// not, both views count.
static int compare_deduced(struct comparing *c, const struct field_type *t, const yyjson_val *x,
                           const yyjson_val *y, const struct field_path *path)
{
    bool x_map = x && (json_is_object(x) || json_is_null(x));
    bool y_map = y && (json_is_object(y) || json_is_null(y));
    int r = 0;
    if (x && y && x_map != y_map)
        r = x_map ? compare_members(c, t, x, y, path) : (compare_leaf(c, x, y, path), 0);
    if (r < 0)
        return r;
    if (y ? y_map : x_map)
        return compare_members(c, t, x, y, path);
    compare_leaf(c, x, y, path);
    return 0;
}

static int field_walk_compare_values(struct comparing *c, const struct field_type *t,
                                     const yyjson_val *x, const yyjson_val *y,
                                     const struct field_path *path)
{
    switch (field_shape_of(t)) {
    case SHAPE_STRUCT:
    case SHAPE_MAP:
        return compare_members(c, t, x, y, path);
    case SHAPE_LIST_SET:
    case SHAPE_LIST_MAP:
        return compare_items(c, t, x, y, path);
    case SHAPE_DEDUCED:
        return compare_deduced(c, t, x, y, path);
    case SHAPE_SCALAR:
    case SHAPE_ATOMIC:
        break;
    }
    compare_leaf(c, x, y, path);
    return 0;
}

int field_compare(const struct field_type *t, const yyjson_val *before, const yyjson_val *after,
                  struct arena *a, struct field_diff *ret, struct err *err)
{
    *ret = (struct field_diff){0};
    struct comparing c = {.arena = a, .err = err, .diff = ret};
    return field_walk_compare_values(&c, t, before, after, NULL);
}

// --- Fields of structs ---------------------------------------------------------------------------

struct field_set field_set_name_members(const struct field_type *t, const struct field_set *s,
                                        struct arena *a)
{
    struct field_set ret = {.p = arena_array(a, struct field_node, s->n), .cap = s->n};
    bool named = field_shape_of(t) == SHAPE_STRUCT;
    for (size_t i = 0; i < s->n; i++) {
        struct field_node n = s->p[i];
        struct field_type bt;
        // managedFields are the client's: entries of other kinds may stand where fields do.
        struct str name = n.elem.kind == FIELD_NAME ? n.elem.name : STR("");
        bool known = field_type_below(t, name, &bt);
        if (n.children) {
            n.member |= named && known && n.elem.kind == FIELD_NAME;
            if (!known)
                bt = (struct field_type){.deduced = true};
            struct field_set *below = arena_one(a, struct field_set);
            *below = field_set_name_members(&bt, n.children, a);
            n.children = below;
        }
        field_set_push(&ret, &n, a);
    }
    return ret;
}
