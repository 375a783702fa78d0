// SPDX-License-Identifier: Apache-2.0
//
// Assignability of types with type variables, and a trail that undoes bindings when an overload
// does not fit.
#include "cel/front/unify.h"

#include <assert.h>

#include "base/banned.h"

const struct cel_type *cel_fresh(struct cel_unifier *u)
{
    vec_push_arena(u->arena, &u->subs, NULL);
    return cel_type_var(u->arena, (uint32_t)(u->subs.n - 1));
}

// Declared parameters are numbered from 0; base shifts them to fresh variables.
static const struct cel_type *unify_shift_vars(struct cel_unifier *u, const struct cel_type *t,
                                               uint32_t base)
{
    if (t->kind == CEL_T_PARAM)
        return cel_type_var(u->arena, t->var + base);
    bool has_params = false;
    const struct cel_type *params[CEL_TYPE_PARAMS_MAX];
    for (size_t i = 0; i < t->params; i++) {
        params[i] = unify_shift_vars(u, t->param[i], base);
        has_params = has_params || params[i] != t->param[i];
    }
    if (!has_params)
        return t;
    struct cel_type *copy = arena_one(u->arena, struct cel_type);
    *copy = *t;
    memcpy(copy->param, params, t->params * sizeof(params[0]));
    return copy;
}

struct cel_instance cel_instantiate(struct cel_unifier *u, const struct cel_overload *o)
{
    struct cel_instance inst = {.result = o->result};
    for (size_t i = 0; i < o->args; i++)
        inst.arg[i] = o->arg[i];
    if (!o->type_params)
        return inst;
    uint32_t base = (uint32_t)u->subs.n;
    for (size_t i = 0; i < o->type_params; i++)
        vec_push_arena(u->arena, &u->subs, NULL);
    for (size_t i = 0; i < o->args; i++)
        inst.arg[i] = unify_shift_vars(u, o->arg[i], base);
    inst.result = unify_shift_vars(u, o->result, base);
    return inst;
}

static void unify_bind_var(struct cel_unifier *u, const struct cel_type *var,
                           const struct cel_type *t)
{
    struct cel_undo undo = {var->var, u->subs.p[var->var]};
    vec_push_arena(u->arena, &u->trail, undo);
    u->subs.p[var->var] = t;
}

static void undo_to(struct cel_unifier *u, size_t mark)
{
    while (u->trail.n > mark) {
        struct cel_undo undo = vec_pop(&u->trail);
        u->subs.p[undo.var] = undo.old;
    }
}

static bool is_dyn(const struct cel_type *t)
{
    return t->kind == CEL_T_DYN || t->kind == CEL_T_ANY;
}

static bool less_specific(const struct cel_type *a, const struct cel_type *b)
{
    if (is_dyn(a) || a->kind == CEL_T_PARAM)
        return true;
    if (is_dyn(b) || b->kind == CEL_T_PARAM || a->kind != b->kind)
        return false;
    switch ((int)a->kind) {
    case CEL_T_OPAQUE:
        if (!str_eq(a->name, b->name))
            return false;
        __attribute__((fallthrough));
    case CEL_T_LIST:
    case CEL_T_MAP:
        if (a->params != b->params)
            return false;
        for (size_t i = 0; i < a->params; i++)
            if (!less_specific(a->param[i], b->param[i]))
                return false;
        return true;
    case CEL_T_TYPE:
        return true;
    default:
        return cel_type_same(a, b);
    }
}

const struct cel_type *cel_most_general(const struct cel_type *a, const struct cel_type *b)
{
    return less_specific(a, b) ? a : b;
}

// Occurs check: var must not be part of what it would stand for.
static bool absent_from(const struct cel_unifier *u, const struct cel_type *var,
                        const struct cel_type *t)
{
    if (t->kind == CEL_T_PARAM) {
        if (t->var == var->var)
            return false;
        const struct cel_type *sub = u->subs.p[t->var];
        return !sub || absent_from(u, var, sub);
    }
    for (size_t i = 0; i < t->params; i++)
        if (!absent_from(u, var, t->param[i]))
            return false;
    return true;
}

static bool unify_is_assignable(struct cel_unifier *u, const struct cel_type *a,
                                const struct cel_type *b);

// Whether var can stand for t. *ret_bound: var already stood for something.
static bool substitution_valid(struct cel_unifier *u, const struct cel_type *t,
                               const struct cel_type *var, bool *ret_bound)
{
    *ret_bound = true;
    if (t->kind == CEL_T_PARAM && t->var == var->var)
        return true;
    const struct cel_type *sub = u->subs.p[var->var];
    if (sub) {
        if (cel_type_same(t, sub))
            return true;
        if (!unify_is_assignable(u, t, sub))
            return false;
        const struct cel_type *general = cel_most_general(t, sub);
        if (absent_from(u, var, general))
            unify_bind_var(u, var, general);
        return true;
    }
    *ret_bound = false;
    if (!absent_from(u, var, t))
        return false;
    unify_bind_var(u, var, t);
    return true;
}

static bool unify_is_nullable(const struct cel_type *t)
{
    return t->nullable || t->kind == CEL_T_OPAQUE || t->kind == CEL_T_STRUCT ||
           t->kind == CEL_T_ANY || t->kind == CEL_T_DURATION || t->kind == CEL_T_TIMESTAMP ||
           t->kind == CEL_T_NULL;
}

static bool assignable_concrete(struct cel_unifier *u, const struct cel_type *a,
                                const struct cel_type *b)
{
    if (a->kind == CEL_T_NULL)
        return unify_is_nullable(b);
    if (b->kind == CEL_T_NULL)
        return unify_is_nullable(a);
    if (a->kind != b->kind)
        return false;
    switch ((int)a->kind) {
    case CEL_T_TYPE:
        return true;
    case CEL_T_STRUCT:
        return str_eq(a->name, b->name);
    case CEL_T_OPAQUE:
        if (!str_eq(a->name, b->name))
            return false;
        __attribute__((fallthrough));
    case CEL_T_LIST:
    case CEL_T_MAP:
        if (a->params != b->params)
            return false;
        for (size_t i = 0; i < a->params; i++)
            if (!unify_is_assignable(u, a->param[i], b->param[i]))
                return false;
        return true;
    default:
        return true;
    }
}

static bool unify_is_assignable(struct cel_unifier *u, const struct cel_type *a,
                                const struct cel_type *b)
{
    if (b->kind == CEL_T_PARAM) {
        bool bound;
        if (substitution_valid(u, a, b, &bound))
            return true;
        if (bound)
            return false;
    }
    if (a->kind == CEL_T_PARAM) {
        bool bound;
        return substitution_valid(u, b, a, &bound);
    }
    if (is_dyn(a) || is_dyn(b) || a->kind == CEL_T_ERROR || b->kind == CEL_T_ERROR)
        return true;
    return assignable_concrete(u, a, b);
}

bool cel_assignable(struct cel_unifier *u, const struct cel_type *a, const struct cel_type *b)
{
    return cel_assignable_list(u, &a, &b, 1);
}

bool cel_assignable_list(struct cel_unifier *u, const struct cel_type *const *a,
                         const struct cel_type *const *b, size_t n)
{
    size_t mark = u->trail.n;
    for (size_t i = 0; i < n; i++) {
        if (!unify_is_assignable(u, a[i], b[i])) {
            undo_to(u, mark);
            return false;
        }
    }
    return true;
}

const struct cel_type *cel_substitute(const struct cel_unifier *u, const struct cel_type *t,
                                      bool to_dyn)
{
    if (t->kind == CEL_T_PARAM) {
        const struct cel_type *sub = u->subs.p[t->var];
        if (sub)
            return cel_substitute(u, sub, to_dyn);
        return to_dyn ? &cel_type_dyn : t;
    }
    if (!t->params)
        return t;
    const struct cel_type *params[CEL_TYPE_PARAMS_MAX];
    bool changed = false;
    for (size_t i = 0; i < t->params; i++) {
        params[i] = cel_substitute(u, t->param[i], to_dyn);
        changed = changed || params[i] != t->param[i];
    }
    if (!changed)
        return t;
    struct cel_type *copy = arena_one(u->arena, struct cel_type);
    *copy = *t;
    memcpy(copy->param, params, t->params * sizeof(params[0]));
    return copy;
}
