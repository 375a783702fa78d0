// SPDX-License-Identifier: Apache-2.0
//
// Nodes of the syntax tree: construction, and walks over the children of a node.
#include "cel/front/ast.h"

#include "base/banned.h"

struct cel_node *cel_node_new(struct arena *a, enum cel_node_kind kind, uint32_t pos)
{
    struct cel_node *n = arena_one(a, struct cel_node);
    n->kind = kind;
    n->pos = pos;
    return n;
}

struct cel_node *cel_node_literal(struct arena *a, uint32_t pos, struct cel_val v)
{
    struct cel_node *n = cel_node_new(a, CEL_N_LITERAL, pos);
    n->value = v;
    return n;
}

struct cel_node *cel_node_ident(struct arena *a, uint32_t pos, struct str name)
{
    struct cel_node *n = cel_node_new(a, CEL_N_IDENT, pos);
    n->ident = name;
    return n;
}

struct cel_node *cel_node_call(struct arena *a, uint32_t pos, struct str function,
                               struct cel_node *target, struct cel_nodes args)
{
    struct cel_node *n = cel_node_new(a, CEL_N_CALL, pos);
    n->call.function = function;
    n->call.target = target;
    n->call.args = args;
    return n;
}

struct cel_nodes cel_nodes_of(struct arena *a, struct cel_node *x, struct cel_node *y,
                              struct cel_node *z)
{
    struct cel_nodes out = {arena_array(a, struct cel_node *, 3), 0};
    struct cel_node *all[3] = {x, y, z};
    for (size_t i = 0; i < 3 && all[i]; i++)
        out.p[out.n++] = all[i];
    return out;
}

static struct cel_node **copy_all(struct arena *a, struct cel_node *const *p, uint32_t n)
{
    struct cel_node **out = arena_array(a, struct cel_node *, n);
    for (uint32_t i = 0; i < n; i++)
        out[i] = cel_node_copy(a, p[i]);
    return out;
}

struct cel_node *cel_node_copy(struct arena *a, const struct cel_node *n)
{
    if (!n)
        return NULL;
    struct cel_node *c = arena_one(a, struct cel_node);
    *c = *n;
    switch (n->kind) {
    case CEL_N_ERROR:
    case CEL_N_LITERAL:
    case CEL_N_IDENT:
        break;
    case CEL_N_SELECT:
        c->select.operand = cel_node_copy(a, n->select.operand);
        break;
    case CEL_N_CALL:
        c->call.target = cel_node_copy(a, n->call.target);
        c->call.args.p = copy_all(a, n->call.args.p, n->call.args.n);
        break;
    case CEL_N_LIST:
        c->list.elems.p = copy_all(a, n->list.elems.p, n->list.elems.n);
        break;
    case CEL_N_MAP:
        c->entries.keys = copy_all(a, n->entries.keys, n->entries.n);
        c->entries.values = copy_all(a, n->entries.values, n->entries.n);
        break;
    case CEL_N_STRUCT:
        c->entries.values = copy_all(a, n->entries.values, n->entries.n);
        break;
    case CEL_N_FOLD:
        c->fold.range = cel_node_copy(a, n->fold.range);
        c->fold.init = cel_node_copy(a, n->fold.init);
        c->fold.condition = cel_node_copy(a, n->fold.condition);
        c->fold.step = cel_node_copy(a, n->fold.step);
        c->fold.result = cel_node_copy(a, n->fold.result);
        break;
    }
    return c;
}
