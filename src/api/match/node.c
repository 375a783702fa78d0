// SPDX-License-Identifier: Apache-2.0
//
// Node selectors. Kubernetes reads a selector before it asks it; here it is read while it is asked,
// which comes to the same: every requirement of a term is read, also behind one that does not hold.
#include "api/match/node.h"

#include "api/match/label.h"

#include "base/banned.h"

static const struct str node_name_field = STR_INIT("metadata.name");

static enum selection node_expressions_match(const struct api_node_selector_requirement_array *all,
                                             const struct api_str_map *labels)
{
    enum selection r = SELECTION_YES;
    for (size_t i = 0; i < all->n; i++) {
        const struct api_node_selector_requirement *e = &all->p[i];
        struct label_requirement q;
        if (!label_requirement_read(e->key, e->operator, & e->values, true, &q))
            return SELECTION_INVALID;
        if (r == SELECTION_YES && !label_requirement_holds(&q, api_map_find(labels, q.key)))
            r = SELECTION_NO;
    }
    return r;
}

// Fields know In and NotIn with one value; a field that nodes do not have is empty.
static bool node_field_read(const struct api_node_selector_requirement *f, bool *ret_in)
{
    enum label_operator relation;
    if (!label_operator_read(f->operator, false, &relation) || f->values.n != 1)
        return false;
    *ret_in = relation == LABEL_IN;
    return relation == LABEL_IN || relation == LABEL_NOT_IN;
}

static enum selection node_fields_match(const struct api_node_selector_requirement_array *all,
                                        struct str name)
{
    enum selection r = SELECTION_YES;
    for (size_t i = 0; i < all->n; i++) {
        const struct api_node_selector_requirement *f = &all->p[i];
        struct str have = str_eq(f->key, node_name_field) ? name : (struct str){0};
        bool in;
        if (!node_field_read(f, &in))
            return SELECTION_INVALID;
        if (name.n && str_eq(have, f->values.p[0]) != in) // a node without a name has no fields
            r = SELECTION_NO;
    }
    return r;
}

bool node_is_simulated(const struct api_node *node)
{
    const struct str *value = api_map_find(&node->metadata.labels, STR(NODE_SIMULATED));
    return value && str_eqz(*value, "true");
}

enum selection node_term_match(const struct api_node_selector_term *t, const struct api_node *node)
{
    if (!t->match_expressions.n && !t->match_fields.n)
        return SELECTION_NO;
    enum selection labels = node_expressions_match(&t->match_expressions, &node->metadata.labels);
    if (labels == SELECTION_INVALID || !t->match_fields.n)
        return labels;
    enum selection fields = node_fields_match(&t->match_fields, node->metadata.name);
    return fields < labels ? fields : labels;
}

enum selection node_selector_match(const struct api_node_selector *s, const struct api_node *node)
{
    enum selection r = SELECTION_NO;
    for (size_t i = 0; i < s->node_selector_terms.n; i++) {
        enum selection term = node_term_match(&s->node_selector_terms.p[i], node);
        if (term == SELECTION_YES)
            return SELECTION_YES;
        if (term == SELECTION_INVALID)
            r = SELECTION_INVALID;
    }
    return r;
}

const struct api_node_selector *node_required(const struct api_pod_spec *spec)
{
    const struct api_node_affinity *affinity =
        spec->affinity ? spec->affinity->node_affinity : NULL;
    return affinity ? affinity->required_during_scheduling_ignored_during_execution : NULL;
}

bool node_takes_pod(const struct api_pod_spec *spec, const struct api_node *node)
{
    const struct api_node_selector *required = node_required(spec);
    return labels_include(&node->metadata.labels, &spec->node_selector) &&
           (!required || node_selector_match(required, node) > 0);
}

static bool node_topology_matches(const struct api_topology_selector_term *t,
                                  const struct api_str_map *labels)
{
    for (size_t i = 0; i < t->match_label_expressions.n; i++) {
        const struct api_topology_selector_label_requirement *e = &t->match_label_expressions.p[i];
        const struct label_requirement q = {
            .key = e->key, .relation = LABEL_IN, .values = e->values.p, .values_len = e->values.n};
        if (!label_requirement_holds(&q, api_map_find(labels, e->key)))
            return false;
    }
    return t->match_label_expressions.n > 0;
}

bool node_is_in_topologies(const struct api_topology_selector_term_array *terms,
                           const struct api_node *node)
{
    for (size_t i = 0; i < terms->n; i++)
        if (node_topology_matches(&terms->p[i], &node->metadata.labels))
            return true;
    return terms->n == 0;
}

// --- Devices -------------------------------------------------------------------------------------

static int node_requirement_fail(struct err *err, const char *what, struct str which)
{
    return err_set(err, ERR_INVALID, "%s: \"%.*s\"", what, STR_ARG(which));
}

static int node_expression_check(const struct api_node_selector_requirement *e, struct err *err)
{
    struct label_requirement q;
    if (label_requirement_read(e->key, e->operator, & e->values, true, &q))
        return 0;
    enum label_operator relation;
    if (!label_operator_read(e->operator, true, &relation))
        return node_requirement_fail(err, "Unsupported value of operator", e->operator);
    if (relation == LABEL_IN || relation == LABEL_NOT_IN)
        return node_requirement_fail(err, "for 'in', 'notin' operators, values set can't be empty",
                                     e->key);
    if (relation == LABEL_EXISTS || relation == LABEL_DOES_NOT_EXIST)
        return node_requirement_fail(err, "values set must be empty for exists and does not exist",
                                     e->key);
    return node_requirement_fail(err,
                                 e->values.n == 1
                                     ? "for 'Gt', 'Lt' operators, the value must be an integer"
                                     : "for 'Gt', 'Lt' operators, exactly one value is required",
                                 e->key);
}

static int node_field_check(const struct api_node_selector_requirement *f, struct err *err)
{
    bool in;
    enum label_operator relation;
    if (node_field_read(f, &in))
        return 0;
    if (label_operator_read(f->operator, false, &relation) &&
        (relation == LABEL_IN || relation == LABEL_NOT_IN))
        return node_requirement_fail(err, "must have one element", f->key);
    return node_requirement_fail(err, "Unsupported value of operator", f->operator);
}

// node_selector_check reports whether all terms can be read. For devices: there a selector with one
// unreadable term is an error even where another term matches. Returns 0 or -ERR_INVALID.
static int node_selector_check(const struct api_node_selector *s, struct err *err)
{
    for (size_t t = 0; t < s->node_selector_terms.n; t++) {
        const struct api_node_selector_term *term = &s->node_selector_terms.p[t];
        for (size_t i = 0; i < term->match_expressions.n; i++)
            if (node_expression_check(&term->match_expressions.p[i], err) < 0)
                return -ERR_INVALID;
        for (size_t i = 0; i < term->match_fields.n; i++)
            if (node_field_check(&term->match_fields.p[i], err) < 0)
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
    if (node_selector_check(selector, err) < 0)
        return err_wrap(err, "failed to parse node selector");
    return node_selector_match(selector, node) > 0;
}

struct str node_only_name(const struct api_node_selector *s)
{
    if (!s || s->node_selector_terms.n != 1)
        return (struct str){0};
    const struct api_node_selector_requirement_array *fields =
        &s->node_selector_terms.p[0].match_fields;
    bool in;
    for (size_t i = 0; i < fields->n; i++)
        if (str_eq(fields->p[i].key, node_name_field) && node_field_read(&fields->p[i], &in) && in)
            return fields->p[i].values.p[0];
    return (struct str){0};
}
