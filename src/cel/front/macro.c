// SPDX-License-Identifier: Apache-2.0
//
// Macros: calls that stand for comprehensions and tests. The trees are those of cel-go, since cost
// is counted on them node by node.
#include "cel/front/parse.h"

#include "base/banned.h"

struct expansion {
    struct cel_source *source;
    struct arena *a;
    uint32_t pos;
    const struct cel_node_call *call;
};

static struct cel_node *macro_report_error(struct expansion *x, uint32_t pos, const char *text)
{
    cel_issue(x->source, pos, "%s", text);
    return cel_node_new(x->a, CEL_N_ERROR, pos);
}

static struct cel_node *macro_get_arg(const struct expansion *x, uint32_t i)
{
    return x->call->args.p[i];
}

static struct cel_node *macro_new_literal(struct expansion *x, struct cel_val v)
{
    return cel_node_literal(x->a, x->pos, v);
}

static struct cel_node *macro_new_ident(struct expansion *x, struct str name)
{
    return cel_node_ident(x->a, x->pos, name);
}

static struct cel_node *macro_new_accu(struct expansion *x)
{
    return macro_new_ident(x, STR(CEL_ACCU));
}

static struct cel_node *macro_new_list(struct expansion *x, struct cel_node *item)
{
    struct cel_node *n = cel_node_new(x->a, CEL_N_LIST, x->pos);
    n->list.elems = cel_nodes_of(x->a, item, NULL, NULL);
    return n;
}

static struct cel_node *macro_new_call(struct expansion *x, const char *fn, struct cel_node *a0,
                                       struct cel_node *a1, struct cel_node *a2)
{
    return cel_node_call(x->a, x->pos, str_z(fn), NULL, cel_nodes_of(x->a, a0, a1, a2));
}

static struct cel_node *macro_new_member_call(struct expansion *x, const char *fn,
                                              struct cel_node *target)
{
    return cel_node_call(x->a, x->pos, str_z(fn), target, (struct cel_nodes){0});
}

static struct cel_node *macro_new_fold(struct expansion *x, struct cel_node_fold f)
{
    struct cel_node *n = cel_node_new(x->a, CEL_N_FOLD, x->pos);
    n->fold = f;
    return n;
}

// The iteration variables: one name, or two. False with an issue when they cannot be.
static bool loop_vars(struct expansion *x, uint32_t count, const char *not_a_name,
                      struct cel_node_fold *f, struct cel_node **ret_bad)
{
    struct str names[2] = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (macro_get_arg(x, i)->kind != CEL_N_IDENT) {
            *ret_bad = macro_report_error(x, macro_get_arg(x, i)->pos, not_a_name);
            return false;
        }
        names[i] = macro_get_arg(x, i)->ident;
    }
    if (count == 2 && str_eq(names[0], names[1])) {
        cel_issue(x->source, macro_get_arg(x, 1)->pos, "duplicate variable name: %.*s",
                  STR_ARG(names[0]));
        *ret_bad = cel_node_new(x->a, CEL_N_ERROR, macro_get_arg(x, 1)->pos);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (str_eqz(names[i], CEL_ACCU_OLD)) {
            *ret_bad = macro_report_error(x, macro_get_arg(x, i)->pos,
                                          "iteration variable overwrites accumulator variable");
            return false;
        }
    }
    f->var = names[0];
    f->var2 = names[1];
    f->accu = STR(CEL_ACCU);
    f->range = x->call->target;
    return true;
}

enum quantifier { ALL, EXISTS, EXISTS_ONE };

static struct cel_node *macro_expand_quantifier(struct expansion *x, uint32_t vars,
                                                enum quantifier kind)
{
    struct cel_node_fold f = {0};
    struct cel_node *failed = NULL;
    if (!loop_vars(x, vars, "argument must be a simple name", &f, &failed))
        return failed;
    struct cel_node *predicate = macro_get_arg(x, vars);
    f.result = macro_new_accu(x);
    switch (kind) {
    case ALL:
        f.init = macro_new_literal(x, cel_true);
        f.condition = macro_new_call(x, CEL_OP_NOT_STRICTLY, macro_new_accu(x), NULL, NULL);
        f.step = macro_new_call(x, CEL_OP_AND, macro_new_accu(x), predicate, NULL);
        break;
    case EXISTS:
        f.init = macro_new_literal(x, cel_false);
        f.condition = macro_new_call(x, CEL_OP_NOT_STRICTLY,
                                     macro_new_call(x, CEL_OP_NOT, macro_new_accu(x), NULL, NULL),
                                     NULL, NULL);
        f.step = macro_new_call(x, CEL_OP_OR, macro_new_accu(x), predicate, NULL);
        break;
    case EXISTS_ONE:
        f.init = macro_new_literal(x, cel_int(0));
        f.condition = macro_new_literal(x, cel_true);
        f.step = macro_new_call(x, CEL_OP_COND, predicate,
                                macro_new_call(x, "_+_", macro_new_accu(x),
                                               macro_new_literal(x, cel_int(1)), NULL),
                                macro_new_accu(x));
        f.result =
            macro_new_call(x, "_==_", macro_new_accu(x), macro_new_literal(x, cel_int(1)), NULL);
        break;
    }
    return macro_new_fold(x, f);
}

// A fold that collects: step is `accu` changed by one element, taken only where filter holds.
static struct cel_node *macro_expand_collector(struct expansion *x, struct cel_node_fold f,
                                               bool map, struct cel_node *filter,
                                               struct cel_node *step)
{
    f.init = map ? cel_node_new(x->a, CEL_N_MAP, x->pos) : macro_new_list(x, NULL);
    f.condition = macro_new_literal(x, cel_true);
    f.step = filter ? macro_new_call(x, CEL_OP_COND, filter, step, macro_new_accu(x)) : step;
    f.result = macro_new_accu(x);
    return macro_new_fold(x, f);
}

static struct cel_node *transform_list(struct expansion *x, uint32_t vars, const char *not_a_name)
{
    struct cel_node_fold f = {0};
    struct cel_node *failed = NULL;
    if (!loop_vars(x, vars, not_a_name, &f, &failed))
        return failed;
    bool filtered = x->call->args.n == vars + 2;
    struct cel_node *filter = filtered ? macro_get_arg(x, vars) : NULL;
    struct cel_node *item = macro_get_arg(x, vars + (filtered ? 1 : 0));
    return macro_expand_collector(x, f, false, filter,
                                  macro_new_call(x, "_+_", macro_new_accu(x),
                                                 macro_new_list(x, item), NULL));
}

static struct cel_node *filter_list(struct expansion *x)
{
    struct cel_node_fold f = {0};
    struct cel_node *failed = NULL;
    if (!loop_vars(x, 1, "argument is not an identifier", &f, &failed))
        return failed;
    struct cel_node *step =
        macro_new_call(x, "_+_", macro_new_accu(x), macro_new_list(x, macro_get_arg(x, 0)), NULL);
    return macro_expand_collector(x, f, false, macro_get_arg(x, 1), step);
}

static struct cel_node *transform_map(struct expansion *x, bool entries)
{
    struct cel_node_fold f = {0};
    struct cel_node *failed = NULL;
    if (!loop_vars(x, 2, "argument must be a simple name", &f, &failed))
        return failed;
    bool filtered = x->call->args.n == 4;
    struct cel_node *item = macro_get_arg(x, filtered ? 3 : 2);
    struct cel_node *step =
        entries
            ? macro_new_call(x, CEL_MAP_INSERT, macro_new_accu(x), item, NULL)
            : macro_new_call(x, CEL_MAP_INSERT, macro_new_accu(x), macro_new_ident(x, f.var), item);
    return macro_expand_collector(x, f, true, filtered ? macro_get_arg(x, 2) : NULL, step);
}

// cel.bind is a loop over nothing whose accumulator is the variable.
static struct cel_node *bind_var(struct expansion *x, struct str name, struct cel_node *init,
                                 struct cel_node *body)
{
    struct cel_node_fold f = {.var = STR(CEL_UNUSED_VAR),
                              .accu = name,
                              .range = macro_new_list(x, NULL),
                              .init = init,
                              .condition = macro_new_literal(x, cel_false),
                              .step = macro_new_ident(x, name),
                              .result = body};
    return macro_new_fold(x, f);
}

static struct cel_node *macro_expand_bind(struct expansion *x)
{
    const struct cel_node *t = x->call->target;
    if (t->kind != CEL_N_IDENT || !str_eqz(t->ident, "cel"))
        return NULL;
    if (macro_get_arg(x, 0)->kind != CEL_N_IDENT)
        return macro_report_error(x, macro_get_arg(x, 0)->pos,
                                  "cel.bind() variable names must be simple identifiers");
    return bind_var(x, macro_get_arg(x, 0)->ident, macro_get_arg(x, 1), macro_get_arg(x, 2));
}

static struct cel_node *opt_map(struct expansion *x, bool flat)
{
    if (macro_get_arg(x, 0)->kind != CEL_N_IDENT)
        return macro_report_error(x, macro_get_arg(x, 0)->pos,
                                  flat ? "optFlatMap() variable name must be a simple identifier"
                                       : "optMap() variable name must be a simple identifier");
    struct cel_node *target = x->call->target;
    struct cel_node *value = macro_new_member_call(x, "value", cel_node_copy(x->a, target));
    struct cel_node *body = bind_var(x, macro_get_arg(x, 0)->ident, value, macro_get_arg(x, 1));
    if (!flat)
        body = macro_new_call(x, "optional.of", body, NULL, NULL);
    return macro_new_call(x, CEL_OP_COND, macro_new_member_call(x, "hasValue", target), body,
                          macro_new_call(x, "optional.none", NULL, NULL, NULL));
}

// sortBy binds the list once, maps it to its keys and sorts by them.
static struct cel_node *macro_expand_sort_by(struct expansion *x)
{
    struct cel_node *target = x->call->target;
    bool shape = target->kind == CEL_N_LIST || target->kind == CEL_N_SELECT ||
                 target->kind == CEL_N_IDENT || target->kind == CEL_N_FOLD ||
                 target->kind == CEL_N_CALL;
    if (!shape)
        return macro_report_error(x, target->pos,
                                  "sortBy can only be applied to a list, identifier, comprehension,"
                                  " call or select expression");
    if (macro_get_arg(x, 0)->kind != CEL_N_IDENT)
        return macro_report_error(x, macro_get_arg(x, 0)->pos, "argument is not an identifier");
    static const char var[] = "@__sortBy_input__";
    struct expansion inner = *x;
    struct cel_node_call map_call = {STR("map"), macro_new_ident(x, str_z(var)), x->call->args};
    inner.call = &map_call;
    struct cel_node *keys = transform_list(&inner, 1, "argument is not an identifier");
    if (keys->kind == CEL_N_ERROR)
        return keys;
    struct cel_node *sorted =
        cel_node_call(x->a, x->pos, STR("@sortByAssociatedKeys"), macro_new_ident(x, str_z(var)),
                      cel_nodes_of(x->a, keys, NULL, NULL));
    return bind_var(x, str_z(var), target, sorted);
}

static struct cel_node *macro_expand_has(struct expansion *x)
{
    struct cel_node *e = macro_get_arg(x, 0);
    if (e->kind != CEL_N_SELECT || e->select.test_only)
        return macro_report_error(x, e->pos, "invalid argument to has() macro");
    struct cel_node *n = cel_node_new(x->a, CEL_N_SELECT, x->pos);
    n->select = e->select;
    n->select.test_only = true;
    return n;
}

static struct cel_node *one_variable(struct expansion *x, unsigned syntax)
{
    struct str f = x->call->function;
    uint32_t n = x->call->args.n;
    if (n == 2 && str_eqz(f, "all"))
        return macro_expand_quantifier(x, 1, ALL);
    if (n == 2 && str_eqz(f, "exists"))
        return macro_expand_quantifier(x, 1, EXISTS);
    if (n == 2 && str_eqz(f, "exists_one"))
        return macro_expand_quantifier(x, 1, EXISTS_ONE);
    if (n == 2 && str_eqz(f, "existsOne") && (syntax & CEL_SYNTAX_EXISTS_ONE))
        return macro_expand_quantifier(x, 1, EXISTS_ONE);
    if ((n == 2 || n == 3) && str_eqz(f, "map"))
        return transform_list(x, 1, "argument is not an identifier");
    if (n == 2 && str_eqz(f, "filter"))
        return filter_list(x);
    return NULL;
}

static struct cel_node *two_variables(struct expansion *x)
{
    struct str f = x->call->function;
    uint32_t n = x->call->args.n;
    if (n == 3 && str_eqz(f, "all"))
        return macro_expand_quantifier(x, 2, ALL);
    if (n == 3 && str_eqz(f, "exists"))
        return macro_expand_quantifier(x, 2, EXISTS);
    if (n == 3 && (str_eqz(f, "existsOne") || str_eqz(f, "exists_one")))
        return macro_expand_quantifier(x, 2, EXISTS_ONE);
    if (n != 3 && n != 4)
        return NULL;
    if (str_eqz(f, "transformList"))
        return transform_list(x, 2, "argument must be a simple name");
    if (str_eqz(f, "transformMap"))
        return transform_map(x, false);
    return str_eqz(f, "transformMapEntry") ? transform_map(x, true) : NULL;
}

struct cel_node *cel_macro_expand(struct cel_source *source, unsigned syntax, uint32_t pos,
                                  const struct cel_node_call *c)
{
    struct expansion x = {source, source->arena, pos, c};
    if (!(syntax & CEL_SYNTAX_MACROS))
        return NULL;
    if (!c->target)
        return c->args.n == 1 && str_eqz(c->function, "has") ? macro_expand_has(&x) : NULL;
    struct cel_node *n = one_variable(&x, syntax);
    if (!n && (syntax & CEL_SYNTAX_TWO_VARS))
        n = two_variables(&x);
    if (!n && (syntax & CEL_SYNTAX_BIND) && c->args.n == 3 && str_eqz(c->function, "bind"))
        n = macro_expand_bind(&x);
    if (!n && (syntax & CEL_SYNTAX_OPTIONAL) && c->args.n == 2) {
        if (str_eqz(c->function, "optMap"))
            n = opt_map(&x, false);
        else if (str_eqz(c->function, "optFlatMap"))
            n = opt_map(&x, true);
    }
    if (!n && (syntax & CEL_SYNTAX_SORT_BY) && c->args.n == 2 && str_eqz(c->function, "sortBy"))
        n = macro_expand_sort_by(&x);
    return n;
}
