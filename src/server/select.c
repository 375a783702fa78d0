// SPDX-License-Identifier: Apache-2.0
#include "server/select.h"

#include "base/banned.h"

int select_parse(struct str labels, struct str fields, const struct api_kind *kind,
                 const struct api_kind *stored, struct arena *arena, struct select *ret,
                 struct err *err)
{
    *ret = (struct select){0};
    int r = label_selector_parse(labels, arena, &ret->labels, err);
    if (r < 0)
        return err_wrap(err, "unable to parse requirement");
    r = field_selector_parse(fields, kind, stored->type, arena, &ret->fields, err);
    if (r == 0 && !field_selector_exact(&ret->fields, STR("metadata.name"), &ret->name))
        ret->name = (struct str){0};
    return r;
}

static bool has_value(const struct label_requirement *q, struct str value)
{
    for (size_t i = 0; i < q->values_len; i++)
        if (str_eq(q->values[i], value))
            return true;
    return false;
}

static bool label_holds(const struct label_requirement *q, const struct object *o)
{
    struct str value = {0};
    bool there = object_label(o, q->key, &value);
    int64_t number = 0;
    switch (q->relation) {
    case LABEL_EQUALS:
    case LABEL_DOUBLE_EQUALS:
    case LABEL_IN:
        return there && has_value(q, value);
    case LABEL_NOT_EQUALS:
    case LABEL_NOT_IN:
        return !there || !has_value(q, value);
    case LABEL_EXISTS:
        return there;
    case LABEL_DOES_NOT_EXIST:
        return !there;
    case LABEL_GREATER:
        return there && str_to_i64(value, &number) == 0 && number > q->number;
    case LABEL_LESS:
        return there && str_to_i64(value, &number) == 0 && number < q->number;
    }
    return false;
}

static bool field_holds(const struct field_requirement *q, const struct object *o)
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

bool select_matches(const struct select *s, const struct object *o)
{
    if (s->labels.nothing)
        return false;
    for (size_t i = 0; i < s->labels.n; i++)
        if (!label_holds(&s->labels.p[i], o))
            return false;
    for (size_t i = 0; i < s->fields.n; i++)
        if (!field_holds(&s->fields.p[i], o))
            return false;
    return true;
}
