// SPDX-License-Identifier: Apache-2.0
//
// The ways into `device` that expressions really use become single instructions.
#include "cel/code/generate.h"

#include "base/banned.h"

struct path {
    enum { NOT_DEVICE, DEVICE, DRIVER, MULTI, OUTER, INNER, LEAF } kind;
    bool capacity;
    bool optional; // the last step was .?
    bool test;     // has()
    struct str domain;
    struct str name;
    const struct cel_local *alias; // the path starts at a variable that stands for an inner map
};

// What computing an inner map costs: the device and two qualifiers.
#define INNER_COST 3

static bool const_string(const struct cel_node *n, struct str *ret)
{
    if (!n->constant_ref || n->value.kind != CEL_STRING)
        return false;
    *ret = cel_str(n->value);
    return true;
}

// The operand and the constant name of one selection step; false for anything else.
static bool gen_path_read_step(const struct cel_node *n, const struct cel_node **ret_operand,
                               struct str *ret_name, bool *ret_optional)
{
    *ret_optional = false;
    if (n->constant_ref)
        return false;
    if (n->kind == CEL_N_SELECT) {
        *ret_operand = n->select.operand;
        *ret_name = n->select.field;
        return true;
    }
    if (n->kind != CEL_N_CALL || n->call.target || n->call.args.n != 2)
        return false;
    *ret_operand = n->call.args.p[0];
    *ret_optional = str_eqz(n->call.function, CEL_OP_OPT_SELECT);
    if (!*ret_optional && !str_eqz(n->call.function, CEL_OP_INDEX))
        return false;
    return const_string(n->call.args.p[1], ret_name);
}

static bool is_device(struct cel_gen *g, const struct cel_node *n)
{
    if (!g->env->device || n->kind != CEL_N_IDENT || n->constant_ref)
        return false;
    if (str_eqz(n->ident, ".device"))
        return true;
    if (!str_eqz(n->ident, "device"))
        return false;
    for (const struct cel_local *l = g->locals; l; l = l->outer)
        if (str_eq(l->name, n->ident))
            return false;
    return true;
}

static const struct cel_local *alias_of(const struct cel_gen *g, const struct cel_node *n)
{
    if (n->kind != CEL_N_IDENT || n->constant_ref)
        return NULL;
    for (const struct cel_local *l = g->locals; l; l = l->outer)
        if (str_eq(l->name, n->ident))
            return l->alias ? l : NULL;
    return NULL;
}

static struct path gen_path_of_node(struct cel_gen *g, const struct cel_node *n)
{
    struct path p = {.kind = NOT_DEVICE};
    const struct cel_local *alias = alias_of(g, n);
    if (alias) {
        p.kind = INNER;
        p.capacity = alias->capacity;
        p.domain = alias->domain;
        p.alias = alias;
        return p;
    }
    const struct cel_node *operand = NULL;
    struct str name = {0};
    bool optional;
    if (is_device(g, n)) {
        p.kind = DEVICE;
        return p;
    }
    if (!gen_path_read_step(n, &operand, &name, &optional))
        return p;
    bool test = n->kind == CEL_N_SELECT && n->select.test_only;
    struct path outer = gen_path_of_node(g, operand);
    if (outer.optional || outer.test || ((test || optional) && outer.kind != INNER))
        return p;
    p = outer;
    p.optional = optional;
    p.test = test;
    if (outer.kind == DEVICE) {
        p.capacity = str_eqz(name, "capacity");
        p.kind = p.capacity || str_eqz(name, "attributes")   ? OUTER
                 : str_eqz(name, "driver")                   ? DRIVER
                 : str_eqz(name, "allowMultipleAllocations") ? MULTI
                                                             : NOT_DEVICE;
    } else if (outer.kind == OUTER) {
        p.kind = INNER;
        p.domain = name;
    } else if (outer.kind == INNER) {
        p.kind = LEAF;
        p.name = name;
    } else {
        p.kind = NOT_DEVICE;
    }
    return p;
}

static uint32_t gen_path_add(struct cel_gen *g, const struct path *p)
{
    struct cel_path_ref ref = {.capacity = p->capacity,
                               .domain = arena_str(&g->p->arena, p->domain),
                               .name = arena_str(&g->p->arena, p->name)};
    ref.hash = cel_path_hash(ref.domain, ref.name);
    ref.domain_hash = cel_path_hash(ref.domain, (struct str){0});
    vec_push(&g->p->paths, ref);
    return (uint32_t)(g->p->paths.n - 1);
}

// cost counts the qualifiers; own is 1 where the attribute itself is charged too. Behind a variable
// the first two qualifiers are charged once, where the variable is first used.
static bool emit_path(struct cel_gen *g, const struct path *p, int own)
{
    if (p->alias) {
        (void)cel_gen_emit(g, CEL_I_LAZY_TOUCH, 0, INNER_COST, p->alias->slot);
        own -= 2;
    }
    switch ((int)p->kind) {
    case DRIVER:
        (void)cel_gen_emit(g, CEL_I_DRIVER, 0, 1 + own, 0);
        break;
    case MULTI:
        (void)cel_gen_emit(g, CEL_I_MULTI, 0, 1 + own, 0);
        break;
    case INNER:
        (void)cel_gen_emit(g, CEL_I_PATH_MAP, 0, 2 + own, gen_path_add(g, p));
        break;
    case LEAF:
        if (p->test)
            (void)cel_gen_emit(g, CEL_I_PATH_HAS, 0, p->alias ? 1 : 3, gen_path_add(g, p));
        else if (p->optional)
            (void)cel_gen_emit(g, CEL_I_PATH_OPT, 0, 2 + own, gen_path_add(g, p));
        else
            (void)cel_gen_emit(g, CEL_I_PATH, 0, 3 + own, gen_path_add(g, p));
        break;
    default:
        return false;
    }
    cel_gen_push(g, 1);
    return true;
}

bool cel_gen_device_path(struct cel_gen *g, const struct cel_node *n, bool resolve)
{
    struct path p = gen_path_of_node(g, n);
    return emit_path(g, &p, resolve ? 0 : 1);
}

bool cel_gen_device_prefix(struct cel_gen *g, const struct cel_node *n)
{
    struct path p = gen_path_of_node(g, n);
    if (p.optional || p.test)
        return false;
    return emit_path(g, &p, 0);
}

bool cel_gen_alias(struct cel_gen *g, const struct cel_node *n, struct cel_local *l)
{
    struct path p = gen_path_of_node(g, n);
    if (p.kind != INNER || p.alias)
        return false;
    l->alias = true;
    l->capacity = p.capacity;
    l->domain = p.domain;
    return true;
}
