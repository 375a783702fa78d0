// SPDX-License-Identifier: Apache-2.0
#include "sched/select.h"

#include "base/banned.h"

const struct str *select_label(const struct api_str_map *labels, struct str key)
{
    for (size_t i = 0; i < labels->n; i++)
        if (str_eq(labels->p[i].key, key))
            return &labels->p[i].value;
    return NULL;
}

static bool listed(const struct api_str_array *values, struct str s)
{
    for (size_t i = 0; i < values->n; i++)
        if (str_eq(values->p[i], s))
            return true;
    return false;
}

bool select_labels(const struct api_label_selector *s, const struct api_str_map *labels)
{
    if (!s)
        return false;
    for (size_t i = 0; i < s->match_labels.n; i++) {
        const struct str *have = select_label(labels, s->match_labels.p[i].key);
        if (!have || !str_eq(*have, s->match_labels.p[i].value))
            return false;
    }
    for (size_t i = 0; i < s->match_expressions.n; i++) {
        const struct api_label_selector_requirement *r = &s->match_expressions.p[i];
        const struct str *have = select_label(labels, r->key);
        bool good = false;
        if (str_eqz(r->operator, "In"))
            good = have && listed(&r->values, *have);
        else if (str_eqz(r->operator, "NotIn"))
            good = !have || !listed(&r->values, *have);
        else if (str_eqz(r->operator, "Exists"))
            good = have != NULL;
        else if (str_eqz(r->operator, "DoesNotExist"))
            good = have == NULL;
        if (!good)
            return false;
    }
    return true;
}

static int compare(const struct api_node_selector_requirement *r, const struct str *have)
{
    int64_t number;
    int64_t bound;
    if (r->values.n != 1 || str_to_i64(r->values.p[0], &bound) < 0)
        return -1;
    if (!have || str_to_i64(*have, &number) < 0)
        return 0;
    return str_eqz(r->operator, "Gt") ? number > bound : number < bound;
}

static int expression(const struct api_node_selector_requirement *r, const struct str *have)
{
    if (str_eqz(r->operator, "In"))
        return r->values.n ? have && listed(&r->values, *have) : -1;
    if (str_eqz(r->operator, "NotIn"))
        return r->values.n ? !have || !listed(&r->values, *have) : -1;
    if (str_eqz(r->operator, "Exists"))
        return r->values.n ? -1 : have != NULL;
    if (str_eqz(r->operator, "DoesNotExist"))
        return r->values.n ? -1 : have == NULL;
    if (str_eqz(r->operator, "Gt") || str_eqz(r->operator, "Lt"))
        return compare(r, have);
    return -1;
}

int select_node_term(const struct api_node_selector_term *t, const struct api_node *node)
{
    if (!t->match_expressions.n && !t->match_fields.n)
        return 0;
    for (size_t i = 0; i < t->match_expressions.n; i++) {
        const struct api_node_selector_requirement *r = &t->match_expressions.p[i];
        int m = expression(r, select_label(&node->metadata.labels, r->key));
        if (m <= 0)
            return m;
    }
    for (size_t i = 0; i < t->match_fields.n; i++) {
        const struct api_node_selector_requirement *r = &t->match_fields.p[i];
        bool in = str_eqz(r->operator, "In");
        if (r->values.n != 1 || (!in && !str_eqz(r->operator, "NotIn")))
            return -1;
        struct str have = str_eqz(r->key, "metadata.name") ? node->metadata.name : (struct str){0};
        if (str_eq(have, r->values.p[0]) != in)
            return 0;
    }
    return 1;
}

int select_node(const struct api_node_selector *s, const struct api_node *node)
{
    int unreadable = 0;
    for (size_t i = 0; i < s->node_selector_terms.n; i++) {
        int m = select_node_term(&s->node_selector_terms.p[i], node);
        if (m > 0)
            return 1;
        unreadable |= m;
    }
    return unreadable;
}

static bool covers(const struct api_toleration *t, const struct api_taint *taint)
{
    if (t->effect.n && !str_eq(t->effect, taint->effect))
        return false;
    if (t->key.n && !str_eq(t->key, taint->key))
        return false;
    if (str_eqz(t->operator, "Exists"))
        return true;
    int64_t have;
    int64_t bound;
    if (str_eqz(t->operator, "Gt") || str_eqz(t->operator, "Lt")) {
        if (str_to_i64(taint->value, &have) < 0 || str_to_i64(t->value, &bound) < 0)
            return false;
        return str_eqz(t->operator, "Gt") ? have > bound : have < bound;
    }
    return (!t->operator.n || str_eqz(t->operator, "Equal")) && t->key.n &&
           str_eq(t->value, taint->value);
}

bool select_tolerates(const struct api_toleration_array *ts, const struct api_taint *taint)
{
    for (size_t i = 0; i < ts->n; i++)
        if (covers(&ts->p[i], taint))
            return true;
    return false;
}
