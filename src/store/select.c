// SPDX-License-Identifier: Apache-2.0
//
// Selectors against stored objects. A watch asks for every event of its kind, so nothing is decoded
// or allocated: labels and fields are kept beside the JSON, sorted by key.
#include "store/select.h"

#include "base/banned.h"

int store_select_parse(struct str labels, struct str fields, const struct api_kind *kind,
                       const struct api_kind *stored, struct arena *arena, struct store_select *ret,
                       struct err *err)
{
    *ret = (struct store_select){0};
    int r = label_selector_parse(labels, arena, &ret->labels, err);
    if (r < 0)
        return err_wrap(err, "unable to parse requirement");
    r = field_selector_parse(fields, kind, stored->type, arena, &ret->fields, err);
    if (r == 0 && !field_selector_exact(&ret->fields, STR("metadata.name"), &ret->name))
        ret->name = (struct str){0};
    return r;
}

static bool store_field_holds(const struct field_requirement *q, const struct object *o)
{
    struct str value = {0};
    if (str_eq(q->field, STR("metadata.name")))
        value = o->name;
    else if (str_eq(q->field, STR("metadata.namespace")))
        value = o->namespace;
    else if (!object_field(o, q->field, &value))
        value = (struct str){0};
    return str_eq(value, q->value) != q->differs;
}

bool store_select_matches(const struct store_select *s, const struct object *o)
{
    // Both are lists of key and value, sorted by key.
    _Static_assert(sizeof(struct object_pair) == sizeof(struct api_str_entry) &&
                       offsetof(struct object_pair, value) == offsetof(struct api_str_entry, value),
                   "labels of stored and typed objects look alike");
    const struct api_str_map labels = {(struct api_str_entry *)(uintptr_t)o->labels, o->labels_len};
    if (!label_selector_matches(&s->labels, &labels))
        return false;
    for (size_t i = 0; i < s->fields.n; i++)
        if (!store_field_holds(&s->fields.p[i], o))
            return false;
    return true;
}

bool store_select_event(const struct store_select *s, const struct store_event *e,
                        enum store_event_type *ret_type, const struct object **ret)
{
    *ret_type = e->type;
    *ret = e->object;
    if (store_select_everything(s))
        return true;
    bool is = e->type != STORE_DELETED && store_select_matches(s, e->object);
    bool was = e->before && store_select_matches(s, e->before);
    if (!is && was && e->type != STORE_DELETED)
        *ret = e->before;
    *ret_type = !is ? STORE_DELETED : was ? STORE_MODIFIED : STORE_ADDED;
    return is || was;
}
