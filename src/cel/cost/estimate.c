// SPDX-License-Identifier: Apache-2.0
//
// Bounds on the cost of an expression before it runs, as upstream's cost estimator computes them:
// validation rejects selectors whose upper bound is too high.
#include "cel/cost/estimate.h"

#include "base/utf8.h"
#include "cel/cost/cost.h"

#include "base/banned.h"

// A path into the variables: root name and steps, innermost last.
struct cel_path {
    const struct cel_path *before;
    struct str step;
};

struct local {
    const struct local *outer;
    struct str name;
    const struct cel_path *path;
    bool sized;
    struct cel_range size;
    struct cel_entry_range entry;
};

struct coster {
    const struct cel_env *env;
    struct arena *arena;
    const struct local *locals;
};

static const struct cel_range unknown_size = {0, UINT64_MAX};

static struct cel_range estimate_fixed_range(uint64_t n)
{
    return (struct cel_range){n, n};
}

static uint64_t add_u64(uint64_t a, uint64_t b)
{
    uint64_t r;
    return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

static uint64_t mul_u64(uint64_t a, uint64_t b)
{
    uint64_t r;
    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

static struct cel_range estimate_add_ranges(struct cel_range a, struct cel_range b)
{
    return (struct cel_range){add_u64(a.min, b.min), add_u64(a.max, b.max)};
}

static struct cel_range estimate_multiply_ranges(struct cel_range a, struct cel_range b)
{
    return (struct cel_range){mul_u64(a.min, b.min), mul_u64(a.max, b.max)};
}

static uint64_t factor_u64(uint64_t n, double f)
{
    double x = (double)n;
    if (x > 0 && f > 0 && x > 18446744073709551615.0 / f)
        return UINT64_MAX;
    double p = x * f;
    if (p >= 18446744073709551616.0)
        return UINT64_MAX;
    // Rounding up may reach 2^64.
    uint64_t t = (uint64_t)p;
    return t + (p > (double)t ? 1 : 0);
}

static struct cel_range estimate_scale_range(struct cel_range a, double f)
{
    return (struct cel_range){factor_u64(a.min, f), factor_u64(a.max, f)};
}

static struct cel_range estimate_unite_ranges(struct cel_range a, struct cel_range b)
{
    return (struct cel_range){a.min < b.min ? a.min : b.min, a.max > b.max ? a.max : b.max};
}

static struct cel_range estimate_node_cost(struct coster *c, struct cel_node *n);

static const struct local *estimate_find_local(const struct coster *c, struct str name)
{
    for (const struct local *l = c->locals; l; l = l->outer)
        if (str_eq(l->name, name))
            return l;
    return NULL;
}

static const struct cel_path *estimate_node_path(const struct coster *c, const struct cel_node *n)
{
    if (n->kind == CEL_N_IDENT) {
        const struct local *l = estimate_find_local(c, n->ident);
        if (l)
            return l->path;
    }
    return n->path;
}

static const struct cel_path *estimate_extend_path(struct coster *c, const struct cel_path *before,
                                                   struct str step)
{
    struct cel_path *p = arena_one(c->arena, struct cel_path);
    p->before = before;
    p->step = step;
    return p;
}

// The declared bounds of the device, as a tree walked by paths.
enum place { OUTSIDE, DEVICE, DRIVER, MULTI, OUTER, INNER, DOMAIN_KEY, ID_KEY, VALUE, QUANTITY };

struct spot {
    enum place place;
    bool capacity;
};

static struct spot step_into(const struct coster *c, struct spot at, struct str step)
{
    struct spot out = {OUTSIDE, at.capacity};
    bool elem = str_eqz(step, "@items") || str_eqz(step, "@values");
    bool key = str_eqz(step, "@keys");
    switch ((int)at.place) {
    case DEVICE:
        if (str_eqz(step, "driver"))
            out.place = DRIVER;
        else if (str_eqz(step, "allowMultipleAllocations") && c->env->multi_alloc_field)
            out.place = MULTI;
        else if (str_eqz(step, "attributes") || str_eqz(step, "capacity"))
            out = (struct spot){OUTER, str_eqz(step, "capacity")};
        break;
    case OUTER:
        out.place = elem ? INNER : key ? DOMAIN_KEY : OUTSIDE;
        break;
    case INNER:
        if (elem)
            out.place = at.capacity ? QUANTITY : VALUE;
        else if (key)
            out.place = ID_KEY;
        else if (!at.capacity)
            out.place = VALUE; // attributes are bounded whatever their name
        break;
    default:
        break;
    }
    return out;
}

static struct spot spot_of(const struct coster *c, const struct cel_path *p)
{
    if (!p->before) {
        struct spot root = {c->env->device && str_eqz(p->step, "device") ? DEVICE : OUTSIDE, false};
        return root;
    }
    struct spot at = spot_of(c, p->before);
    return at.place == OUTSIDE ? at : step_into(c, at, p->step);
}

static bool declared_size(const struct coster *c, const struct cel_path *p, struct cel_range *ret)
{
    if (!p)
        return false;
    static const uint64_t bounds[] = {
        [DRIVER] = 63, [MULTI] = 1,  [OUTER] = 32,   [INNER] = 32, [DOMAIN_KEY] = 63,
        [ID_KEY] = 32, [VALUE] = 64, [QUANTITY] = 0, [DEVICE] = 0,
    };
    struct spot s = spot_of(c, p);
    if (s.place == OUTSIDE)
        return false;
    *ret = (struct cel_range){0, bounds[s.place]};
    return true;
}

static bool literal_size(const struct cel_node *n, struct cel_range *ret)
{
    if (n->kind == CEL_N_LIST) {
        *ret = estimate_fixed_range(n->list.elems.n);
        return true;
    }
    if (n->kind == CEL_N_MAP) {
        *ret = estimate_fixed_range(n->entries.n);
        return true;
    }
    if (n->kind != CEL_N_LITERAL)
        return false;
    *ret = estimate_fixed_range(cel_size(n->value));
    return true;
}

static bool is_scalar(const struct cel_type *t)
{
    switch ((int)t->kind) {
    case CEL_T_BOOL:
    case CEL_T_DOUBLE:
    case CEL_T_DURATION:
    case CEL_T_INT:
    case CEL_T_TIMESTAMP:
    case CEL_T_UINT:
        return true;
    case CEL_T_OPAQUE:
        return cel_type_is_optional(t) && is_scalar(t->param[0]);
    default:
        return false;
    }
}

// What is known about a node's size; false: nothing.
static bool estimate_node_size(struct coster *c, struct cel_node *n, struct cel_range *ret)
{
    if (n->sized) {
        *ret = n->size;
        return true;
    }
    if (literal_size(n, ret))
        return true;
    if (declared_size(c, estimate_node_path(c, n), ret)) {
        n->sized = true;
        n->size = *ret;
        return true;
    }
    if (is_scalar(n->type)) {
        *ret = estimate_fixed_range(1);
        return true;
    }
    if (n->kind == CEL_N_IDENT) {
        const struct local *l = estimate_find_local(c, n->ident);
        if (l && l->sized) {
            *ret = l->size;
            return true;
        }
    }
    return false;
}

static struct cel_range size_or_unknown(struct coster *c, struct cel_node *n)
{
    struct cel_range r;
    return estimate_node_size(c, n, &r) ? r : unknown_size;
}

static void set_size(struct cel_node *n, struct cel_range size)
{
    n->sized = true;
    n->size = size;
}

static struct cel_entry_range entry_of(const struct coster *c, const struct cel_node *n)
{
    if (n->entry.container != CEL_T_ERROR)
        return n->entry;
    if (n->kind == CEL_N_IDENT) {
        const struct local *l = estimate_find_local(c, n->ident);
        if (l)
            return l->entry;
    }
    return (struct cel_entry_range){0};
}

static struct cel_entry_range unite_entries(struct cel_entry_range a, struct cel_entry_range b)
{
    if (a.container == CEL_T_ERROR || b.container == CEL_T_ERROR)
        return (struct cel_entry_range){0};
    a.key = estimate_unite_ranges(a.key, b.key);
    a.value = estimate_unite_ranges(a.value, b.value);
    return a;
}

// A call being costed: its arguments as nodes, and what they cost.
struct costed_call {
    struct cel_node *node;
    struct str function;
    struct cel_node *target;
    struct cel_node **args;
    uint32_t n;
    struct cel_range *arg_costs;
    struct cel_range arg_sum;
};

// A call's own cost, and the size of its result where known.
struct call_estimate {
    struct cel_range cost;
    bool sized;
    struct cel_range size;
};

static struct call_estimate estimate_cost_only(struct cel_range r)
{
    return (struct call_estimate){.cost = r};
}

static struct call_estimate with_size(struct cel_range r, struct cel_range size)
{
    return (struct call_estimate){.cost = r, .sized = true, .size = size};
}

// The size of a list's elements: by the path if there is one, unknown otherwise.
static bool estimate_list_element(struct coster *c, struct cel_node *list,
                                  const struct cel_type **ret_type, struct cel_range *ret_size)
{
    if (list->type->params == 0)
        return false;
    *ret_type = list->type->param[0];
    *ret_size = unknown_size;
    const struct cel_path *p = estimate_node_path(c, list);
    if (p && !str_eqz(p->step, CEL_ACCU))
        (void)declared_size(c, estimate_extend_path(c, p, STR("@items")), ret_size);
    return true;
}

static uint64_t literal_uint(const struct cel_node *n, uint64_t otherwise)
{
    if (n->kind != CEL_N_LITERAL || n->value.kind != CEL_INT)
        return otherwise;
    return n->value.i < 0 ? 0 : n->value.u;
}

static struct call_estimate estimate_allocation(double f, struct cel_range size)
{
    return with_size(estimate_add_ranges(estimate_scale_range(size, f), estimate_fixed_range(11)),
                     size);
}

static struct call_estimate list_estimate(struct coster *c, const struct costed_call *k,
                                          enum cel_cost kind)
{
    struct cel_range size = k->target ? size_or_unknown(c, k->target) : unknown_size;
    switch ((int)kind) {
    case CEL_COST_SLICE: {
        uint64_t from = literal_uint(k->args[0], 0);
        uint64_t to = literal_uint(k->args[1], size.max);
        return estimate_allocation(1, estimate_fixed_range(to - from));
    }
    case CEL_COST_RANGE:
        return estimate_allocation(1, estimate_fixed_range(literal_uint(k->args[0], UINT64_MAX)));
    case CEL_COST_REVERSE:
        return estimate_allocation(1, size);
    case CEL_COST_FLATTEN:
        return estimate_allocation(k->n ? (double)literal_uint(k->args[0], UINT64_MAX) : 1, size);
    case CEL_COST_DISTINCT:
    case CEL_COST_SORT:
        return estimate_allocation(2, estimate_multiply_ranges(size, size));
    case CEL_COST_SORT_TEXT:
        return estimate_allocation(2 + CEL_STRING_FACTOR, estimate_multiply_ranges(size, size));
    case CEL_COST_SORT_BY:
    case CEL_COST_SORT_BY_TEXT:
        size = size_or_unknown(c, k->args[0]);
        return estimate_allocation(kind == CEL_COST_SORT_BY ? 2 : 2 + CEL_STRING_FACTOR,
                                   estimate_multiply_ranges(size, size));
    default: {
        struct cel_range product = estimate_multiply_ranges(size_or_unknown(c, k->args[0]),
                                                            size_or_unknown(c, k->args[1]));
        return estimate_cost_only(estimate_add_ranges(
            estimate_scale_range(product, kind == CEL_COST_SETS ? 1 : 2), estimate_fixed_range(1)));
    }
    }
}

static struct call_estimate traverse_estimate(struct coster *c, const struct costed_call *k)
{
    struct cel_range size = size_or_unknown(c, k->target);
    const struct cel_type *type;
    struct cel_range item;
    if (estimate_list_element(c, k->target, &type, &item)) {
        struct cel_range each = estimate_fixed_range(1);
        if (type->kind == CEL_T_STRING || type->kind == CEL_T_BYTES)
            each = estimate_add_ranges(each, estimate_scale_range(item, CEL_STRING_FACTOR));
        return estimate_cost_only(estimate_multiply_ranges(size, each));
    }
    if (str_eqz(k->function, "includes"))
        return estimate_cost_only(estimate_multiply_ranges(size, estimate_fixed_range(1)));
    return estimate_cost_only(estimate_scale_range(size, CEL_STRING_FACTOR));
}

// What does not fit becomes 2^63, as Go's conversion makes it on the machines that matter.
static uint64_t divide_up(uint64_t a, uint64_t b)
{
    double q = (double)a / (double)b;
    return q >= 18446744073709551616.0 ? (uint64_t)1 << 63 : cel_ceil(q);
}

static struct call_estimate replace_estimate(struct coster *c, const struct costed_call *k)
{
    struct cel_range size = size_or_unknown(c, k->target);
    struct cel_range from = size_or_unknown(c, k->args[0]);
    struct cel_range to = size_or_unknown(c, k->args[1]);
    struct cel_range count = {0, 0};
    struct cel_range kept = {0, 0};
    if (from.min == 0) {
        count.max = add_u64(size.max, 1);
        kept.max = size.max;
    } else if (to.max <= from.min) {
        kept.max = size.max;
    } else {
        count.max = divide_up(size.max, from.min);
    }
    if (from.max == 0) {
        count.min = add_u64(size.min, 1);
        kept.min = size.min;
    } else if (from.max <= to.min) {
        kept.min = size.min;
    } else {
        count.min = divide_up(size.min, from.max);
    }
    return with_size(estimate_scale_range(size, 2 * CEL_STRING_FACTOR),
                     estimate_add_ranges(estimate_multiply_ranges(count, to), kept));
}

static struct call_estimate join_estimate(struct coster *c, const struct costed_call *k)
{
    struct cel_range list = size_or_unknown(c, k->target);
    struct cel_range size = {0, 0};
    const struct cel_type *type;
    struct cel_range item;
    if (estimate_list_element(c, k->target, &type, &item))
        size = estimate_multiply_ranges(list, item);
    if (k->n > 0) {
        struct cel_range between = {list.min ? list.min - 1 : 0, list.max ? list.max - 1 : 0};
        size = estimate_add_ranges(size, estimate_multiply_ranges(size_or_unknown(c, k->args[0]),
                                                                  between));
    }
    return with_size(estimate_scale_range(size, CEL_STRING_FACTOR), size);
}

static struct call_estimate net_estimate(struct coster *c, const struct costed_call *k,
                                         const struct cel_overload *o, bool cidr)
{
    struct cel_range bytes = {4, 16};
    struct cel_range r = estimate_scale_range(estimate_add_ranges(bytes, bytes), CEL_STRING_FACTOR);
    if (cidr)
        r = estimate_add_ranges(estimate_add_ranges(r,
                                                    estimate_scale_range(bytes, CEL_STRING_FACTOR)),
                                estimate_fixed_range(1));
    if (o->takes_string)
        r = estimate_add_ranges(r, estimate_scale_range(size_or_unknown(c, k->args[0]),
                                                        CEL_STRING_FACTOR));
    return estimate_cost_only(r);
}

#define NAMED_FORMAT_PATTERN_MAX 128

static bool kubernetes_estimate(struct coster *c, const struct costed_call *k,
                                const struct cel_overload *o, struct call_estimate *ret)
{
    struct cel_range size;
    switch (o->function->cost) {
    case CEL_COST_TRAVERSE:
        if (!k->target)
            return false;
        *ret = traverse_estimate(c, k);
        return true;
    case CEL_COST_PARSE_SIZED:
        size = size_or_unknown(c, k->args[0]);
        *ret = with_size(estimate_scale_range(size, CEL_STRING_FACTOR), size);
        return true;
    case CEL_COST_TRANSFORM:
        size = size_or_unknown(c, k->target);
        *ret = with_size(estimate_scale_range(size, CEL_STRING_FACTOR), size);
        return true;
    case CEL_COST_REPLACE:
        *ret = replace_estimate(c, k);
        return true;
    case CEL_COST_SPLIT: {
        size = size_or_unknown(c, k->target);
        uint64_t max = size.max;
        if (k->n > 1 && k->args[1]->kind == CEL_N_LITERAL && k->args[1]->value.kind == CEL_INT)
            max = k->args[1]->value.u;
        *ret = with_size(estimate_scale_range(size, 2 * CEL_STRING_FACTOR),
                         (struct cel_range){0, max});
        return true;
    }
    case CEL_COST_JOIN:
        *ret = join_estimate(c, k);
        return true;
    case CEL_COST_FIND: {
        size = size_or_unknown(c, k->target);
        struct cel_range text = estimate_scale_range(
            estimate_add_ranges(size, estimate_fixed_range(1)), CEL_STRING_FACTOR);
        struct cel_range pattern =
            estimate_scale_range(size_or_unknown(c, k->args[0]), CEL_REGEX_FACTOR);
        *ret = with_size(estimate_multiply_ranges(text, pattern), (struct cel_range){0, size.max});
        return true;
    }
    case CEL_COST_PARSE:
        if (k->n == 0) {
            *ret = estimate_cost_only(estimate_fixed_range(1)); // <CIDR>.ip()
            return true;
        }
        *ret = estimate_cost_only(
            estimate_scale_range(size_or_unknown(c, k->args[0]), CEL_STRING_FACTOR));
        return true;
    case CEL_COST_CANONICAL:
        *ret = estimate_cost_only(
            estimate_scale_range(size_or_unknown(c, k->args[0]), 2 * CEL_STRING_FACTOR));
        return true;
    case CEL_COST_CONTAINS_IP:
        *ret = net_estimate(c, k, o, false);
        return true;
    case CEL_COST_CONTAINS_CIDR:
        *ret = net_estimate(c, k, o, true);
        return true;
    case CEL_COST_VALIDATE:
        size = estimate_scale_range(size_or_unknown(c, k->args[0]), CEL_STRING_FACTOR);
        *ret = estimate_cost_only(
            estimate_scale_range(size, NAMED_FORMAT_PATTERN_MAX * CEL_REGEX_FACTOR));
        return true;
    case CEL_COST_CHECK:
        *ret = estimate_cost_only(estimate_fixed_range(350000));
        return true;
    default:
        return false;
    }
}

#define FORMAT_SIZE_MAX 64

// Kubernetes' own types compare at fixed cost.
static bool equality_estimate(struct coster *c, const struct costed_call *k,
                              struct call_estimate *ret)
{
    const struct cel_type *l = k->args[0]->type;
    const struct cel_type *r = k->args[1]->type;
    if (!cel_type_same(l, r))
        return false;
    if (l->kind == CEL_T_OPAQUE && l->params == 0) {
        *ret = estimate_cost_only(estimate_fixed_range(1));
        return str_eq(l->name, cel_type_ip.name) || str_eq(l->name, cel_type_cidr.name);
    }
    if (l->kind != CEL_T_STRUCT)
        return false;
    if (str_eq(l->name, cel_type_quantity.name) || str_eq(l->name, cel_type_semver.name)) {
        *ret = estimate_cost_only(estimate_fixed_range(1));
        return true;
    }
    if (str_eq(l->name, cel_type_format.name)) {
        *ret = estimate_cost_only(
            estimate_scale_range((struct cel_range){1, FORMAT_SIZE_MAX}, CEL_STRING_FACTOR));
        return true;
    }
    if (!str_eq(l->name, cel_type_url.name))
        return false;
    struct cel_range size = estimate_fixed_range(1);
    struct cel_range right;
    if (estimate_node_size(c, k->args[1], &right))
        size = right;
    *ret = estimate_cost_only(
        estimate_scale_range((struct cel_range){1, size.max}, CEL_STRING_FACTOR));
    return true;
}

static struct call_estimate compare_estimate(struct coster *c, const struct costed_call *k)
{
    uint64_t l = size_or_unknown(c, k->args[0]).max;
    uint64_t r = size_or_unknown(c, k->args[1]).max;
    uint64_t smallest = l < r ? l : r;
    struct cel_range size = {smallest > 0 ? 1 : 0, smallest};
    return estimate_cost_only(estimate_scale_range(size, CEL_STRING_FACTOR));
}

static struct call_estimate concat_estimate(struct coster *c, const struct costed_call *k,
                                            bool list)
{
    struct cel_range size =
        estimate_add_ranges(size_or_unknown(c, k->args[0]), size_or_unknown(c, k->args[1]));
    struct cel_entry_range entry = unite_entries(entry_of(c, k->args[0]), entry_of(c, k->args[1]));
    if (entry.container != CEL_T_ERROR)
        k->node->entry = entry;
    return with_size(list ? estimate_fixed_range(1) : estimate_scale_range(size, CEL_STRING_FACTOR),
                     size);
}

static struct call_estimate matches_estimate(struct coster *c, const struct costed_call *k)
{
    struct cel_node *text = k->target ? k->target : k->args[0];
    struct cel_node *pattern = k->target ? k->args[0] : k->args[1];
    struct cel_range a = estimate_scale_range(
        estimate_add_ranges(size_or_unknown(c, text), estimate_fixed_range(1)), CEL_STRING_FACTOR);
    return estimate_cost_only(estimate_multiply_ranges(
        a, estimate_scale_range(size_or_unknown(c, pattern), CEL_REGEX_FACTOR)));
}

static struct call_estimate standard_estimate(struct coster *c, const struct costed_call *k,
                                              const struct cel_overload *o)
{
    struct cel_range size;
    switch (o->cost) {
    case CEL_COST_FORMAT:
        return estimate_cost_only(
            estimate_scale_range(size_or_unknown(c, k->target), CEL_STRING_FACTOR));
    case CEL_COST_STRING_TO_BYTES:
        size = size_or_unknown(c, k->args[0]);
        return with_size(estimate_scale_range(size, CEL_STRING_FACTOR),
                         (struct cel_range){size.min, size.max * 4});
    case CEL_COST_BYTES_TO_STRING:
        size = size_or_unknown(c, k->args[0]);
        return with_size(estimate_scale_range(size, CEL_STRING_FACTOR),
                         (struct cel_range){size.min / 4, size.max});
    case CEL_COST_QUOTE:
        size = size_or_unknown(c, k->args[0]);
        return with_size(estimate_scale_range(size, CEL_STRING_FACTOR),
                         (struct cel_range){size.min + 2, size.max * 2 + 2});
    case CEL_COST_AFFIX:
        return estimate_cost_only(
            estimate_scale_range(size_or_unknown(c, k->args[0]), CEL_STRING_FACTOR));
    case CEL_COST_IN_LIST:
        return estimate_cost_only(estimate_scale_range(size_or_unknown(c, k->args[1]), 1));
    case CEL_COST_MATCHES:
        return matches_estimate(c, k);
    case CEL_COST_CONTAINS:
        return estimate_cost_only(estimate_multiply_ranges(
            estimate_scale_range(size_or_unknown(c, k->target), CEL_STRING_FACTOR),
            estimate_scale_range(size_or_unknown(c, k->args[0]), CEL_STRING_FACTOR)));
    case CEL_COST_CONCAT:
    case CEL_COST_CONCAT_LIST:
        return concat_estimate(c, k, o->cost == CEL_COST_CONCAT_LIST);
    case CEL_COST_COMPARE:
    case CEL_COST_EQUALS:
        return compare_estimate(c, k);
    default:
        return estimate_cost_only(estimate_fixed_range(1));
    }
}

// One candidate overload; the result includes the arguments' cost.
static struct call_estimate overload_estimate(struct coster *c, const struct costed_call *k,
                                              const struct cel_overload *o)
{
    struct call_estimate e;
    if (o->cost >= CEL_COST_SLICE && o->cost <= CEL_COST_SETS_TWICE) {
        e = list_estimate(c, k, o->cost);
    } else if (kubernetes_estimate(c, k, o, &e)) {
        // done
    } else if (o->cost == CEL_COST_EQUALS && equality_estimate(c, k, &e)) {
        // done
    } else if (o->cost == CEL_COST_LOGIC) {
        struct cel_range l = k->arg_costs[0];
        return estimate_cost_only(
            (struct cel_range){l.min, estimate_add_ranges(l, k->arg_costs[1]).max});
    } else if (o->cost == CEL_COST_CONDITIONAL) {
        k->node->entry = unite_entries(entry_of(c, k->args[1]), entry_of(c, k->args[2]));
        return with_size(
            estimate_add_ranges(k->arg_costs[0],
                                estimate_unite_ranges(k->arg_costs[1], k->arg_costs[2])),
            estimate_unite_ranges(size_or_unknown(c, k->args[1]), size_or_unknown(c, k->args[2])));
    } else {
        e = standard_estimate(c, k, o);
    }
    e.cost = estimate_add_ranges(e.cost, k->arg_sum);
    return e;
}

static struct cel_range cost_call(struct coster *c, struct cel_node *n)
{
    if (str_eqz(n->call.function, "dyn") && !n->call.target) {
        struct cel_node *arg = n->call.args.p[0];
        struct cel_range r = estimate_node_cost(c, arg);
        struct cel_range size;
        if (estimate_node_size(c, arg, &size))
            set_size(n, size);
        n->entry = entry_of(c, arg);
        return estimate_add_ranges(r, estimate_fixed_range(1));
    }
    struct costed_call k = {.node = n,
                            .function = n->call.function,
                            .target = n->call.target,
                            .args = n->call.args.p,
                            .n = n->call.args.n};
    k.arg_costs = arena_array(c->arena, struct cel_range, k.n + 1);
    for (uint32_t i = 0; i < k.n; i++) {
        k.arg_costs[i] = estimate_node_cost(c, k.args[i]);
        k.arg_sum = estimate_add_ranges(k.arg_sum, k.arg_costs[i]);
    }
    if (n->overload_count == 0)
        return (struct cel_range){0, 0};
    struct cel_range sum = k.target ? estimate_node_cost(c, k.target) : (struct cel_range){0, 0};
    struct cel_range own = {UINT64_MAX, 0};
    bool sized = false;
    struct cel_range size = {0, 0};
    for (uint32_t i = 0; i < n->overload_count; i++) {
        const struct cel_overload *o = n->overloads[i];
        struct call_estimate e = overload_estimate(c, &k, o);
        own = estimate_unite_ranges(own, e.cost);
        if (e.sized) {
            size = sized ? estimate_unite_ranges(size, e.size) : e.size;
            sized = true;
        }
        if (o->cost == CEL_COST_INDEX_LIST || o->cost == CEL_COST_INDEX_MAP) {
            struct cel_entry_range entry = entry_of(c, k.args[0]);
            sized = entry.container != CEL_T_ERROR;
            size = entry.value;
            bool list = o->cost == CEL_COST_INDEX_LIST;
            n->path = estimate_extend_path(c, estimate_node_path(c, k.args[0]),
                                           list ? STR("@items") : STR("@values"));
        }
        if (!sized)
            sized = estimate_node_size(c, n, &size);
    }
    if (sized)
        set_size(n, size);
    return estimate_add_ranges(sum, own);
}

static struct cel_range cost_select(struct coster *c, struct cel_node *n)
{
    struct cel_range sum = estimate_node_cost(c, n->select.operand);
    if (n->select.test_only)
        return sum;
    enum cel_tkind kind = n->select.operand->type->kind;
    if (kind == CEL_T_MAP || kind == CEL_T_STRUCT || kind == CEL_T_PARAM)
        sum = estimate_add_ranges(sum, estimate_fixed_range(1));
    n->path = estimate_extend_path(c, estimate_node_path(c, n->select.operand), n->select.field);
    return sum;
}

static struct cel_range cost_list(struct coster *c, struct cel_node *n)
{
    struct cel_range sum = estimate_fixed_range(10);
    struct cel_range item = {n->list.elems.n ? UINT64_MAX : 0, 0};
    for (uint32_t i = 0; i < n->list.elems.n; i++) {
        sum = estimate_add_ranges(sum, estimate_node_cost(c, n->list.elems.p[i]));
        item = estimate_unite_ranges(item, size_or_unknown(c, n->list.elems.p[i]));
    }
    n->entry = (struct cel_entry_range){CEL_T_LIST, estimate_fixed_range(1), item};
    return sum;
}

static struct cel_range cost_map(struct coster *c, struct cel_node *n)
{
    struct cel_range sum = estimate_fixed_range(30);
    struct cel_range key = {n->entries.n ? UINT64_MAX : 0, 0};
    struct cel_range value = key;
    for (uint32_t i = 0; i < n->entries.n; i++) {
        sum = estimate_add_ranges(sum, estimate_node_cost(c, n->entries.keys[i]));
        sum = estimate_add_ranges(sum, estimate_node_cost(c, n->entries.values[i]));
        key = estimate_unite_ranges(key, size_or_unknown(c, n->entries.keys[i]));
        value = estimate_unite_ranges(value, size_or_unknown(c, n->entries.values[i]));
    }
    n->entry = (struct cel_entry_range){CEL_T_MAP, key, value};
    return sum;
}

static bool estimate_is_bind(const struct cel_node *n)
{
    const struct cel_node_fold *f = &n->fold;
    return f->range->kind == CEL_N_LIST && f->range->list.elems.n == 0 &&
           f->condition->kind == CEL_N_LITERAL && f->condition->value.kind == CEL_BOOL &&
           !f->condition->value.b && !str_eqz(f->accu, CEL_ACCU_OLD);
}

static struct local local_of(struct coster *c, struct str name, struct cel_node *init)
{
    struct local l = {.outer = c->locals,
                      .name = name,
                      .path = estimate_node_path(c, init),
                      .entry = entry_of(c, init)};
    l.sized = estimate_node_size(c, init, &l.size);
    return l;
}

static struct cel_range cost_bind(struct coster *c, struct cel_node *n)
{
    struct cel_node_fold *f = &n->fold;
    struct cel_range sum = estimate_node_cost(c, f->range);
    sum = estimate_add_ranges(sum, estimate_node_cost(c, f->init));
    struct local var = local_of(c, f->accu, f->init);
    c->locals = &var;
    sum = estimate_add_ranges(sum, estimate_node_cost(c, f->result));
    c->locals = var.outer;
    struct cel_range size;
    if (estimate_node_size(c, f->result, &size))
        set_size(n, size);
    n->entry = entry_of(c, f->result);
    return sum;
}

// The loop's variables: sizes from the entries of the range where known, paths always.
static struct local loop_var(struct coster *c, struct str name, struct cel_node *range, bool value,
                             bool single)
{
    struct cel_entry_range entry = entry_of(c, range);
    bool known = entry.container != CEL_T_ERROR;
    enum cel_tkind container = known ? entry.container : range->type->kind;
    bool list = container == CEL_T_LIST;
    struct local l = {.outer = c->locals, .name = name, .sized = known};
    bool take_value = value || (single && list);
    l.size = take_value ? entry.value : entry.key;
    struct str step = take_value ? (list ? STR("@items") : STR("@values"))
                                 : (list && !single ? STR("@indices") : STR("@keys"));
    l.path = estimate_extend_path(c, estimate_node_path(c, range), step);
    return l;
}

static struct cel_range cost_fold(struct coster *c, struct cel_node *n)
{
    struct cel_node_fold *f = &n->fold;
    struct cel_range sum = estimate_node_cost(c, f->range);
    sum = estimate_add_ranges(sum, estimate_node_cost(c, f->init));
    struct local accu = local_of(c, f->accu, f->init);
    c->locals = &accu;
    bool two = f->var2.n > 0;
    struct local var = loop_var(c, f->var, f->range, false, !two);
    c->locals = &var;
    struct local var2 = {0};
    if (two) {
        var2 = loop_var(c, f->var2, f->range, true, false);
        c->locals = &var2;
    }
    struct cel_range each = estimate_node_cost(c, f->condition);
    each = estimate_add_ranges(estimate_node_cost(c, f->step), each);
    c->locals = &accu;
    sum = estimate_add_ranges(sum, estimate_node_cost(c, f->result));
    c->locals = accu.outer;
    struct cel_range count = size_or_unknown(c, f->range);
    sum = estimate_add_ranges(sum, estimate_multiply_ranges(count, each));
    struct cel_range size;
    if (f->init->kind == CEL_N_LITERAL && estimate_node_size(c, f->init, &size)) {
        set_size(n, size);
    } else if (f->init->kind == CEL_N_LIST || f->init->kind == CEL_N_MAP) {
        set_size(n, count);
        struct cel_entry_range entry = entry_of(c, f->step);
        if (entry.container != CEL_T_ERROR)
            n->entry = entry;
    }
    return sum;
}

static struct cel_range estimate_node_cost(struct coster *c, struct cel_node *n)
{
    struct cel_range sum = {0, 0};
    switch (n->kind) {
    case CEL_N_ERROR:
    case CEL_N_LITERAL:
        return sum;
    case CEL_N_IDENT: {
        const struct local *l = estimate_find_local(c, n->ident);
        n->path = l ? l->path : estimate_extend_path(c, NULL, n->ident);
        return estimate_fixed_range(1);
    }
    case CEL_N_SELECT:
        return cost_select(c, n);
    case CEL_N_CALL:
        return cost_call(c, n);
    case CEL_N_LIST:
        return cost_list(c, n);
    case CEL_N_MAP:
        return cost_map(c, n);
    case CEL_N_STRUCT:
        sum = estimate_fixed_range(40);
        for (uint32_t i = 0; i < n->entries.n; i++)
            sum = estimate_add_ranges(sum, estimate_node_cost(c, n->entries.values[i]));
        return sum;
    case CEL_N_FOLD:
        return estimate_is_bind(n) ? cost_bind(c, n) : cost_fold(c, n);
    }
    return sum;
}

struct cel_range cel_estimate(const struct cel_env *env, struct arena *arena, struct cel_node *root)
{
    struct coster c = {.env = env, .arena = arena};
    return estimate_node_cost(&c, root);
}
