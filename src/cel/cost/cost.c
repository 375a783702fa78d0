// SPDX-License-Identifier: Apache-2.0
//
// Run-time cost of calls, as cel-go's tracker and Kubernetes' estimator count it.
#include "cel/cost/cost.h"

#include "cel/code/code.h"
#include "cel/lib/named_format.h"

#include "base/banned.h"

bool cel_fits(const struct cel_type *t, struct cel_val v)
{
    if (t->kind == CEL_T_DYN || t->kind == CEL_T_ANY || t->kind == CEL_T_PARAM)
        return true;
    if (!str_eq(t->name, cel_type_name(v)))
        return false;
    if (v.kind == CEL_LIST)
        return v.list->n == 0 || cel_fits(t->param[0], v.list->items[0]);
    if (v.kind == CEL_MAP)
        return v.map->n == 0 || (cel_fits(t->param[0], v.map->entries[0].key) &&
                                 cel_fits(t->param[1], v.map->entries[0].value));
    return true;
}

// Traversal charges one per scalar and a tenth per byte of text, rounded down.
static uint64_t cost_of_traversal(struct cel_val v)
{
    uint64_t sum = 0;
    switch (v.kind) {
    case CEL_STRING:
    case CEL_BYTES:
        return (uint64_t)((double)v.n * CEL_STRING_FACTOR);
    case CEL_LIST:
        for (uint32_t i = 0; i < v.list->n; i++)
            sum += cost_of_traversal(v.list->items[i]);
        return sum;
    case CEL_MAP:
        for (uint32_t i = 0; i < v.map->n; i++)
            sum += cost_of_traversal(v.map->entries[i].key) +
                   cost_of_traversal(v.map->entries[i].value);
        return sum;
    default:
        return 1;
    }
}

static uint64_t pattern_cost(uint64_t text_size, uint64_t pattern_size)
{
    uint64_t text = cel_ceil((1.0 + (double)text_size) * CEL_STRING_FACTOR);
    return text * cel_ceil((double)pattern_size * CEL_REGEX_FACTOR);
}

static uint64_t cost_of_allocation(double factor, uint64_t size)
{
    if (factor < 0)
        factor = 1;
    return (uint64_t)((double)size * factor) + 11;
}

static uint64_t self_compare(struct cel_val list)
{
    if (list.kind != CEL_LIST || list.list->n == 0)
        return cost_of_allocation(2, 0);
    uint8_t kind = list.list->items[0].kind;
    double factor = kind == CEL_STRING || kind == CEL_BYTES ? 2 + CEL_STRING_FACTOR : 2;
    return cost_of_allocation(factor, (uint64_t)list.list->n * list.list->n);
}

static uint64_t list_cost(const struct cel_call *c, const struct cel_val *args, struct cel_val r)
{
    switch (c->cost) {
    case CEL_COST_SLICE:
    case CEL_COST_RANGE:
    case CEL_COST_REVERSE:
        return cost_of_allocation(1, cel_size(r));
    case CEL_COST_FLATTEN:
        return cost_of_allocation(c->args == 2 && args[1].kind == CEL_INT ? (double)args[1].i : 1,
                                  cel_size(args[0]));
    case CEL_COST_DISTINCT:
    case CEL_COST_SORT:
    case CEL_COST_SORT_TEXT:
        return self_compare(args[0]);
    case CEL_COST_SORT_BY:
    case CEL_COST_SORT_BY_TEXT:
        return self_compare(args[1]);
    case CEL_COST_SETS:
        return 1 + cel_size(args[0]) * cel_size(args[1]);
    default:
        return 1 + cel_size(args[0]) * cel_size(args[1]) * 2;
    }
}

static uint64_t net_cost(const struct cel_call *c, const struct cel_val *args)
{
    uint64_t prefix = cel_size(args[0]);
    uint64_t cost = cel_tenth(prefix + prefix);
    if (c->cost == CEL_COST_CONTAINS_CIDR)
        cost += cel_tenth(prefix) + 1;
    if (c->takes_string)
        cost += cel_tenth(cel_size(args[1]));
    return cost;
}

static uint64_t compare_cost(const struct cel_val *args)
{
    uint64_t l = cel_size_through_optional(args[0]);
    uint64_t r = cel_size_through_optional(args[1]);
    return cel_tenth(l < r ? l : r);
}

static uint64_t kubernetes_cost(const struct cel_call *c, const struct cel_val *args,
                                struct cel_val r)
{
    switch (c->cost) {
    case CEL_COST_TRAVERSE:
        return cost_of_traversal(args[0]);
    case CEL_COST_REPLACE:
    case CEL_COST_SPLIT:
    case CEL_COST_CANONICAL:
        return cel_ceil((double)cel_size(args[0]) * 2 * CEL_STRING_FACTOR);
    case CEL_COST_JOIN:
        return cel_ceil((double)cel_size(r) * 2 * CEL_STRING_FACTOR);
    case CEL_COST_FIND:
        return pattern_cost(cel_size(args[0]), cel_size(args[1]));
    case CEL_COST_CONTAINS_IP:
    case CEL_COST_CONTAINS_CIDR:
        return net_cost(c, args);
    case CEL_COST_VALIDATE:
        if (args[0].kind != CEL_FORMAT)
            return 1;
        return pattern_cost(cel_size(args[1]), args[0].format->pattern_size);
    default: // one pass over the first argument
        return cel_tenth(cel_size(args[0]));
    }
}

static uint64_t standard_cost(const struct cel_call *c, const struct cel_val *args)
{
    switch (c->cost) {
    case CEL_COST_AFFIX:
        return cel_tenth(cel_size_through_optional(args[1]));
    case CEL_COST_STRING_TO_BYTES:
    case CEL_COST_BYTES_TO_STRING:
    case CEL_COST_QUOTE:
    case CEL_COST_FORMAT:
        return cel_tenth(cel_size_through_optional(args[0]));
    case CEL_COST_IN_LIST:
        return cel_size_through_optional(args[1]);
    case CEL_COST_COMPARE:
    case CEL_COST_EQUALS:
        return compare_cost(args);
    case CEL_COST_CONCAT:
        return cel_tenth(cel_size_through_optional(args[0]) + cel_size_through_optional(args[1]));
    case CEL_COST_MATCHES:
        return pattern_cost(cel_size_through_optional(args[0]), cel_size_through_optional(args[1]));
    case CEL_COST_CONTAINS:
        return cel_tenth(cel_size_through_optional(args[0])) *
               cel_tenth(cel_size_through_optional(args[1]));
    default:
        return 1;
    }
}

uint64_t cel_call_cost(const struct cel_call *c, const struct cel_val *args, struct cel_val r)
{
    if (c->cost == CEL_COST_ONE || c->cost == CEL_COST_NOMINAL)
        return 1;
    if (c->cost <= CEL_COST_SETS_TWICE)
        return list_cost(c, args, r);
    if (c->cost <= CEL_COST_VALIDATE)
        return kubernetes_cost(c, args, r);
    return standard_cost(c, args);
}
