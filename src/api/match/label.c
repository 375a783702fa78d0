// SPDX-License-Identifier: Apache-2.0
//
// Requirements on labels, one at a time and as LabelSelectors. Selectors are asked far more often
// than they change, by the scheduler for every node and pod, so an object's requirement is read on
// the stack: no copy is made of it.
#include "api/match/label.h"

#include "base/banned.h"

bool label_operator_read(struct str text, bool numbers, enum label_operator *ret)
{
    static const struct {
        struct str name;
        enum label_operator relation;
        bool numbers;
    } operators[] = {{STR_INIT("In"), LABEL_IN, false},
                     {STR_INIT("NotIn"), LABEL_NOT_IN, false},
                     {STR_INIT("Exists"), LABEL_EXISTS, false},
                     {STR_INIT("DoesNotExist"), LABEL_DOES_NOT_EXIST, false},
                     {STR_INIT("Gt"), LABEL_GREATER, true},
                     {STR_INIT("Lt"), LABEL_LESS, true}};
    for (size_t i = 0; i < array_len(operators); i++) {
        if (str_eq(text, operators[i].name)) {
            *ret = operators[i].relation;
            return numbers || !operators[i].numbers;
        }
    }
    return false;
}

bool label_number_read(struct str text, int64_t *ret)
{
    if (text.n > 1 && text.p[0] == '+' && text.p[1] != '-' && text.p[1] != '+')
        text = str_from(text, 1);
    return str_to_i64(text, ret) == 0;
}

bool label_requirement_read(struct str key, struct str operator,
                            const struct api_str_array * values, bool numbers,
                            struct label_requirement *ret)
{
    *ret = (struct label_requirement){.key = key, .values = values->p, .values_len = values->n};
    if (!label_operator_read(operator, numbers, &ret->relation))
        return false;
    switch (ret->relation) {
    case LABEL_IN:
    case LABEL_NOT_IN:
        return values->n > 0;
    case LABEL_EXISTS:
    case LABEL_DOES_NOT_EXIST:
        return values->n == 0;
    case LABEL_GREATER:
    case LABEL_LESS:
        return values->n == 1 && label_number_read(values->p[0], &ret->number);
    case LABEL_EQUALS:
    case LABEL_DOUBLE_EQUALS:
    case LABEL_NOT_EQUALS:
        break; // of queries alone
    }
    return false;
}

bool label_requirement_holds(const struct label_requirement *r, const struct str *value)
{
    int64_t number;
    switch (r->relation) {
    case LABEL_EQUALS:
    case LABEL_DOUBLE_EQUALS:
    case LABEL_IN:
        return value && str_listed(r->values, r->values_len, *value);
    case LABEL_NOT_EQUALS:
    case LABEL_NOT_IN:
        return !value || !str_listed(r->values, r->values_len, *value);
    case LABEL_EXISTS:
        return value != NULL;
    case LABEL_DOES_NOT_EXIST:
        return value == NULL;
    case LABEL_GREATER:
        return value && label_number_read(*value, &number) && number > r->number;
    case LABEL_LESS:
        return value && label_number_read(*value, &number) && number < r->number;
    }
    return false;
}

bool labels_include(const struct api_str_map *labels, const struct api_str_map *wanted)
{
    for (size_t i = 0; i < wanted->n; i++) {
        const struct str *have = api_map_find(labels, wanted->p[i].key);
        if (!have || !str_eq(*have, wanted->p[i].value))
            return false;
    }
    return true;
}

enum selection labels_match(const struct api_label_selector *s, const struct api_str_map *labels)
{
    if (!s)
        return SELECTION_NO;
    enum selection r = labels_include(labels, &s->match_labels) ? SELECTION_YES : SELECTION_NO;
    for (size_t i = 0; i < s->match_expressions.n; i++) {
        const struct api_label_selector_requirement *e = &s->match_expressions.p[i];
        struct label_requirement q;
        if (!label_requirement_read(e->key, e->operator, & e->values, false, &q))
            return SELECTION_INVALID;
        if (r == SELECTION_YES && !label_requirement_holds(&q, api_map_find(labels, q.key)))
            r = SELECTION_NO;
    }
    return r;
}
