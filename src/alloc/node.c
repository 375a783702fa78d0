// SPDX-License-Identifier: Apache-2.0
//
// Node selectors: which nodes a slice or a device is for.
#include "alloc/alloc_int.h"

#include "base/banned.h"

static const struct str *label_of(const struct api_node *node, struct str key)
{
    for (size_t i = 0; i < node->metadata.labels.n; i++)
        if (str_eq(node->metadata.labels.p[i].key, key))
            return &node->metadata.labels.p[i].value;
    return NULL;
}

static bool listed(const struct api_str_array *values, struct str s)
{
    for (size_t i = 0; i < values->n; i++)
        if (str_eq(values->p[i], s))
            return true;
    return false;
}

static int bad(struct err *err, const char *what, struct str which)
{
    return err_set(err, ERR_INVALID, "%s: \"%.*s\"", what, STR_ARG(which));
}

// Is the requirement one that Kubernetes can read?
static int label_valid(const struct api_node_selector_requirement *r, struct err *err)
{
    int64_t number;
    if (str_eqz(r->operator, "In") || str_eqz(r->operator, "NotIn"))
        return r->values.n
                   ? 0
                   : bad(err, "for 'in', 'notin' operators, values set can't be empty", r->key);
    if (str_eqz(r->operator, "Exists") || str_eqz(r->operator, "DoesNotExist"))
        return r->values.n == 0
                   ? 0
                   : bad(err, "values set must be empty for exists and does not exist", r->key);
    if (str_eqz(r->operator, "Gt") || str_eqz(r->operator, "Lt")) {
        if (r->values.n != 1)
            return bad(err, "for 'Gt', 'Lt' operators, exactly one value is required", r->key);
        return str_to_i64(r->values.p[0], &number) == 0
                   ? 0
                   : bad(err, "for 'Gt', 'Lt' operators, the value must be an integer", r->key);
    }
    return bad(err, "Unsupported value of operator", r->operator);
}

static bool label_matches(const struct api_node *node,
                          const struct api_node_selector_requirement *r)
{
    const struct str *have = label_of(node, r->key);
    int64_t number;
    int64_t bound;
    if (str_eqz(r->operator, "In"))
        return have && listed(&r->values, *have);
    if (str_eqz(r->operator, "NotIn"))
        return !have || !listed(&r->values, *have);
    if (str_eqz(r->operator, "Exists"))
        return have != NULL;
    if (str_eqz(r->operator, "DoesNotExist"))
        return have == NULL;
    if (!have || str_to_i64(*have, &number) < 0 || str_to_i64(r->values.p[0], &bound) < 0)
        return false;
    return str_eqz(r->operator, "Gt") ? number > bound : number < bound;
}

static int field_valid(const struct api_node_selector_requirement *r, struct err *err)
{
    if (!str_eqz(r->operator, "In") && !str_eqz(r->operator, "NotIn"))
        return bad(err, "Unsupported value of operator", r->operator);
    return r->values.n == 1 ? 0 : bad(err, "must have one element", r->key);
}

static bool field_matches(const struct api_node *node,
                          const struct api_node_selector_requirement *r)
{
    struct str name = str_eqz(r->key, "metadata.name") ? node->metadata.name : (struct str){0};
    return str_eq(name, r->values.p[0]) == str_eqz(r->operator, "In");
}

static int term_matches(const struct api_node *node, const struct api_node_selector_term *t)
{
    for (size_t i = 0; i < t->match_expressions.n; i++)
        if (!label_matches(node, &t->match_expressions.p[i]))
            return 0;
    // Upstream looks at fields only if the node has any: a node without a name matches.
    for (size_t i = 0; i < t->match_fields.n && node->metadata.name.n; i++)
        if (!field_matches(node, &t->match_fields.p[i]))
            return 0;
    return 1;
}

static int selector_valid(const struct api_node_selector *s, struct err *err)
{
    for (size_t t = 0; t < s->node_selector_terms.n; t++) {
        const struct api_node_selector_term *term = &s->node_selector_terms.p[t];
        for (size_t i = 0; i < term->match_expressions.n; i++)
            if (label_valid(&term->match_expressions.p[i], err) < 0)
                return -ERR_INVALID;
        for (size_t i = 0; i < term->match_fields.n; i++)
            if (field_valid(&term->match_fields.p[i], err) < 0)
                return -ERR_INVALID;
    }
    return 0;
}

int node_matches(const struct api_node *node, struct str name, bool all,
                 const struct api_node_selector *selector, struct err *err)
{
    if (name.n)
        return str_eq(node->metadata.name, name);
    if (all)
        return 1;
    if (!selector)
        return 0;
    if (selector_valid(selector, err) < 0)
        return err_wrap(err, "failed to parse node selector");
    for (size_t t = 0; t < selector->node_selector_terms.n; t++) {
        const struct api_node_selector_term *term = &selector->node_selector_terms.p[t];
        if (term->match_expressions.n == 0 && term->match_fields.n == 0)
            continue; // an empty term matches nothing
        if (term_matches(node, term))
            return 1;
    }
    return 0;
}

struct str node_only_name(const struct api_node_selector *s)
{
    if (!s || s->node_selector_terms.n != 1)
        return (struct str){0};
    const struct api_node_selector_term *t = &s->node_selector_terms.p[0];
    for (size_t i = 0; i < t->match_fields.n; i++)
        if (str_eqz(t->match_fields.p[i].key, "metadata.name") &&
            str_eqz(t->match_fields.p[i].operator, "In") && t->match_fields.p[i].values.n == 1)
            return t->match_fields.p[i].values.p[0];
    return (struct str){0};
}
