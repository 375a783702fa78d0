// SPDX-License-Identifier: Apache-2.0
//
// Constants. Upstream's planner turns literals of constants and conversions of constants into
// constants that cost nothing; we also compute parsing functions of constants once, and charge at
// run time what upstream would.
#include "cel/code/generate.h"
#include "cel/code/run.h"

#include "base/banned.h"

static bool is_const(const struct cel_node *n)
{
    return n->constant_ref && !n->own_fold;
}

static void set_const(struct cel_node *n, struct cel_val v)
{
    n->constant_ref = true;
    n->value = v;
}

static bool is_conversion(struct str name)
{
    static const char *const words[] = {"bool", "bytes",  "double",    "duration", "dyn",
                                        "int",  "string", "timestamp", "type",     "uint"};
    return str_is_one_of(name, words, array_len(words));
}

static bool is_parser(struct str name)
{
    static const char *const words[] = {"quantity", "isQuantity", "semver", "isSemver", "ip",
                                        "isIP",     "cidr",       "isCIDR", "url",      "isURL"};
    return str_is_one_of(name, words, array_len(words));
}

static void fold_list(struct cel_gen *g, struct cel_node *n)
{
    bool all = !n->list.optional;
    for (uint32_t i = 0; i < n->list.elems.n; i++) {
        cel_fold(g, n->list.elems.p[i]);
        all = all && is_const(n->list.elems.p[i]);
    }
    if (!all)
        return;
    struct cel_list *l = cel_list_new(g->scratch, n->list.elems.n);
    for (uint32_t i = 0; i < n->list.elems.n; i++)
        cel_list_push(g->scratch, l, n->list.elems.p[i]->value);
    set_const(n, cel_list_value(l));
}

static void fold_map(struct cel_gen *g, struct cel_node *n)
{
    bool all = true;
    for (uint32_t i = 0; i < n->entries.n; i++) {
        cel_fold(g, n->entries.keys[i]);
        cel_fold(g, n->entries.values[i]);
        all = all && is_const(n->entries.keys[i]) && is_const(n->entries.values[i]) &&
              !n->entries.optional[i] &&
              cel_key_allowed(n->entries.keys[i]->value, g->p->strict_rules);
    }
    if (!all)
        return;
    struct cel_map *m = cel_map_new(g->scratch, n->entries.n);
    for (uint32_t i = 0; i < n->entries.n; i++)
        (void)cel_map_set(g->scratch, m, n->entries.keys[i]->value, n->entries.values[i]->value);
    if (m->n < n->entries.n && g->p->strict_rules)
        return; // a repeated key is an error when it is evaluated
    set_const(n, cel_map_value(m));
}

static void fold_conversion(struct cel_gen *g, struct cel_node *n, const struct cel_function *f)
{
    struct cel_val v = f->impl(g->run, &n->call.args.p[0]->value, 1);
    if (cel_is_error(v))
        cel_gen_fail(g, "%.*s", STR_ARG(v.error->text));
    else
        set_const(n, v);
}

static void fold_parser(struct cel_gen *g, struct cel_node *n, const struct cel_function *f,
                        const struct cel_overload *only)
{
    struct cel_val args[2];
    uint32_t count = n->call.args.n;
    if (count > 2 || n->call.target)
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_const(n->call.args.p[i]))
            return;
        args[i] = n->call.args.p[i]->value;
    }
    struct cel_val v = f->impl(g->run, args, count);
    struct cel_call call = {.cost = cel_gen_cost(f, only), .args = (uint8_t)count};
    uint64_t cost = cel_call_cost(&call, args, v);
    if (cost > INT16_MAX)
        return;
    set_const(n, v);
    n->own_fold = true;
    n->constant_cost = (uint16_t)cost;
}

static void fold_call(struct cel_gen *g, struct cel_node *n)
{
    if (n->call.target)
        cel_fold(g, n->call.target);
    for (uint32_t i = 0; i < n->call.args.n; i++)
        cel_fold(g, n->call.args.p[i]);
    if (g->failed)
        return;
    const struct cel_overload *only = NULL;
    const struct cel_function *f = cel_gen_function(g, n, &only);
    if (!f || !f->impl)
        return;
    if (is_conversion(f->name) && n->call.args.n == 1 && !n->call.target &&
        is_const(n->call.args.p[0]))
        fold_conversion(g, n, f);
    else if (is_parser(f->name))
        fold_parser(g, n, f, only);
    else if (only && str_eqz(only->id, "in_list") && is_const(n->call.args.p[1]) &&
             n->call.args.p[1]->value.kind == CEL_LIST && n->call.args.p[1]->value.list->n == 0)
        set_const(n, cel_false);
}

void cel_fold(struct cel_gen *g, struct cel_node *n)
{
    if (!n || g->failed)
        return;
    switch (n->kind) {
    case CEL_N_ERROR:
    case CEL_N_IDENT:
        break;
    case CEL_N_LITERAL:
        n->constant_ref = true;
        break;
    case CEL_N_SELECT:
        cel_fold(g, n->select.operand);
        break;
    case CEL_N_CALL:
        fold_call(g, n);
        break;
    case CEL_N_LIST:
        fold_list(g, n);
        break;
    case CEL_N_MAP:
        fold_map(g, n);
        break;
    case CEL_N_STRUCT:
        for (uint32_t i = 0; i < n->entries.n; i++)
            cel_fold(g, n->entries.values[i]);
        break;
    case CEL_N_FOLD:
        cel_fold(g, n->fold.range);
        cel_fold(g, n->fold.init);
        cel_fold(g, n->fold.condition);
        cel_fold(g, n->fold.step);
        cel_fold(g, n->fold.result);
        break;
    }
}
