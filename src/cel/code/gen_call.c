// SPDX-License-Identifier: Apache-2.0
//
// Code of calls: operators with instructions of their own, membership in constant lists, compiled
// constant patterns, and the general call.
#include "cel/code/generate.h"
#include "cel/code/run.h"
#include "cel/cost/work.h"
#include "cel/source.h"

#include "base/banned.h"

// The dotted name of a call's target, for functions with a namespace in unchecked trees.
static bool target_name(const struct cel_node *n, struct sbuf *out)
{
    if (n->kind == CEL_N_IDENT) {
        sbuf_add(out, n->ident);
        return true;
    }
    if (n->kind != CEL_N_SELECT || n->select.test_only || !target_name(n->select.operand, out))
        return false;
    sbuf_addc(out, '.');
    sbuf_add(out, n->select.field);
    return true;
}

static const struct cel_function *gen_call_find_function(struct cel_gen *g, struct str name)
{
    struct str candidate;
    for (size_t i = 0; cel_env_candidate(g->env, g->scratch, name, i, &candidate); i++) {
        const struct cel_function *f = cel_env_function(g->env, candidate);
        if (f)
            return f;
    }
    return NULL;
}

const struct cel_function *cel_gen_function(struct cel_gen *g, struct cel_node *n,
                                            const struct cel_overload **ret_only)
{
    *ret_only = n->overload_count == 1 ? n->overloads[0] : NULL;
    if (n->overload_count)
        return n->overloads[0]->function;
    if (n->call.target) {
        cleanup_sbuf struct sbuf b = {0};
        if (target_name(n->call.target, &b)) {
            sbuf_addc(&b, '.');
            sbuf_add(&b, n->call.function);
            const struct cel_function *f =
                gen_call_find_function(g, arena_str(g->scratch, sbuf_str(&b)));
            if (f) {
                n->call.target = NULL;
                return f;
            }
        }
    }
    return gen_call_find_function(g, n->call.function);
}

uint8_t cel_gen_cost(const struct cel_function *f, const struct cel_overload *only)
{
    if (only && only->cost >= CEL_COST_SLICE && only->cost <= CEL_COST_SETS_TWICE)
        return only->cost;
    if (only && str_eqz(only->id, "cidr_ip"))
        return CEL_COST_NOMINAL;
    if (f->cost != CEL_COST_ONE)
        return f->cost;
    return only ? only->cost : CEL_COST_ONE;
}

static bool plain_constant(const struct cel_node *n)
{
    return n->constant_ref && !n->own_fold && n->value.kind != CEL_ERROR;
}

#define FUSED_TEXT_MAX 200

// driver == "text" and path == "text": the comparison joins the instruction just emitted.
static bool fuse_equality(struct cel_gen *g, const struct cel_node *n)
{
    const struct cel_node *right = n->call.args.p[1];
    if (!plain_constant(right) || right->value.kind != CEL_STRING ||
        !(right->value.flags & CEL_F_ASCII) || right->value.n > FUSED_TEXT_MAX)
        return false;
    const struct cel_ins *last = vec_last(&g->p->code);
    // The instruction must be the whole left side, not the end of a longer one.
    if (cel_gen_is_conditional(n->call.args.p[0]) ||
        (last->op != CEL_I_PATH && last->op != CEL_I_DRIVER))
        return false;
    uint32_t constant = cel_gen_constant(g, right->value);
    struct cel_ins *ins = vec_last(&g->p->code);
    if (ins->op == CEL_I_DRIVER) {
        ins->op = CEL_I_DRIVER_EQ;
        ins->c = constant;
    } else {
        ins->op = CEL_I_PATH_EQ;
        (void)cel_gen_emit(g, CEL_I_RETURN, 0, 0, constant);
    }
    return true;
}

static bool emit_operator(struct cel_gen *g, struct cel_node *n, const struct cel_overload *only)
{
    static const struct {
        const char *name;
        enum cel_op op;
        uint32_t args;
        enum cel_op fused; // with a constant on the right; CEL_I_RETURN: none
    } table[] = {
        {"_==_", CEL_I_EQ, 2, CEL_I_EQ_CONST},
        {"_!=_", CEL_I_NE, 2, CEL_I_RETURN},
        {"_<_", CEL_I_LT, 2, CEL_I_LT_CONST},
        {"_<=_", CEL_I_LE, 2, CEL_I_LE_CONST},
        {"_>_", CEL_I_GT, 2, CEL_I_GT_CONST},
        {"_>=_", CEL_I_GE, 2, CEL_I_GE_CONST},
        {CEL_OP_NOT, CEL_I_NOT, 1, CEL_I_RETURN},
        {CEL_OP_NOT_STRICTLY, CEL_I_NOT_STRICTLY, 1, CEL_I_RETURN},
    };
    for (size_t i = 0; i < array_len(table); i++) {
        if (n->call.args.n != table[i].args || !str_eqz(n->call.function, table[i].name))
            continue;
        bool by_size = only && only->cost == CEL_COST_COMPARE;
        cel_gen_expr(g, n->call.args.p[0]);
        if (table[i].op == CEL_I_EQ && fuse_equality(g, n))
            return true;
        if (table[i].fused && plain_constant(n->call.args.p[1])) {
            g->pos = n->pos;
            (void)cel_gen_emit(g, table[i].fused, by_size, 0,
                               cel_gen_constant(g, n->call.args.p[1]->value));
            return true;
        }
        if (table[i].args > 1)
            cel_gen_expr(g, n->call.args.p[1]);
        g->pos = n->pos;
        (void)cel_gen_emit(g, table[i].op, by_size, 0, 0);
        cel_gen_push(g, 1 - (int)table[i].args);
        return true;
    }
    return false;
}

static bool gen_call_is_primitive(struct cel_val v)
{
    return v.kind == CEL_BOOL || v.kind == CEL_DOUBLE || v.kind == CEL_INT || v.kind == CEL_UINT ||
           v.kind == CEL_STRING;
}

static void index_strings(struct cel_gen *g, struct cel_set *set)
{
    uint32_t size = 8;
    while (size < set->items->n * 2)
        size *= 2;
    set->mask = size - 1;
    set->index = arena_array(&g->p->arena, uint32_t, size);
    for (uint32_t i = 0; i < set->items->n; i++) {
        struct cel_val v = set->items->items[i];
        if (v.kind != CEL_STRING)
            continue;
        uint32_t at = cel_text_hash(cel_str(v)) & set->mask;
        while (set->index[at])
            at = (at + 1) & set->mask;
        set->index[at] = i + 1;
    }
}

// x in [constants]: a set, without cost, as upstream's optimizer makes it.
static bool emit_set(struct cel_gen *g, struct cel_node *n, const struct cel_overload *only)
{
    if (!only || !str_eqz(only->id, "in_list"))
        return false;
    struct cel_node *rhs = n->call.args.p[1];
    if (!rhs->constant_ref || rhs->own_fold || rhs->value.kind != CEL_LIST)
        return false;
    const struct cel_list *l = rhs->value.list;
    for (uint32_t i = 0; i < l->n; i++)
        if (!gen_call_is_primitive(l->items[i]))
            return false;
    struct cel_val copy = cel_copy(rhs->value, &g->p->arena);
    struct cel_set set = {.items = copy.list};
    index_strings(g, &set);
    vec_push(&g->p->sets, set);
    cel_gen_expr(g, n->call.args.p[0]);
    g->pos = n->pos;
    (void)cel_gen_emit(g, CEL_I_IN_SET, 0, 0, (uint32_t)(g->p->sets.n - 1));
    return true;
}

// Patterns known now are compiled now; a bad one is a planning error, as upstream.
static void constant_pattern(struct cel_gen *g, const struct cel_function *f,
                             const struct cel_node *pattern, struct cel_call *call)
{
    bool takes =
        str_eqz(f->name, "matches") || str_eqz(f->name, "find") || str_eqz(f->name, "findAll");
    if (!takes || !pattern || !pattern->constant_ref || pattern->value.kind != CEL_STRING)
        return;
    if (str_eqz(f->name, "matches")) {
        call->pattern = cel_pattern_of(cel_str(pattern->value));
        call->pattern.text = arena_str(&g->p->arena, call->pattern.text);
        if (call->pattern.simple)
            return;
    }
    char why[256];
    call->regex = cel_source_regex(g->source, cel_str(pattern->value), why, sizeof(why));
    if (!call->regex)
        cel_gen_fail(g, "%s", why);
}

static uint8_t zero_kind(const struct cel_overload *only)
{
    if (!only)
        return CEL_INT;
    switch ((int)only->result->kind) {
    case CEL_T_UINT:
        return CEL_UINT;
    case CEL_T_DOUBLE:
        return CEL_DOUBLE;
    case CEL_T_DURATION:
        return CEL_DURATION;
    default:
        return CEL_INT;
    }
}

void cel_gen_call(struct cel_gen *g, struct cel_node *n)
{
    const struct cel_overload *only = NULL;
    const struct cel_function *f = cel_gen_function(g, n, &only);
    if (!n->call.target && (emit_operator(g, n, only) || emit_set(g, n, only)))
        return;
    uint32_t member = n->call.target ? 1 : 0;
    uint32_t count = n->call.args.n + member;
    struct cel_call call = {.args = (uint8_t)count, .name = n->call.function};
    if (count > CEL_ARGS_MAX) {
        cel_gen_fail(g, "no such overload: %.*s(...)", STR_ARG(call.name));
        return;
    }
    call.name = arena_str(&g->p->arena, f ? f->name : n->call.function);
    call.impl = f ? f->impl : NULL;
    cel_work_classify(&call);
    if (f && !f->impl && n->overload_count)
        g->p->runnable = false;
    if (f) {
        call.cost = cel_gen_cost(f, only);
        call.takes_string = only && only->takes_string;
        call.zero_kind = zero_kind(only);
        if (only && only->lib != CEL_LIB_USER && !f->singleton)
            call.guard = only;
        if (count >= 2)
            constant_pattern(g, f, n->call.args.p[member ? 0 : 1], &call);
    }
    // With three arguments, several candidates, or a known pattern upstream stops at the first
    // argument that fails, and then charges nothing for the call.
    bool stops = count > 2 || call.regex || call.pattern.simple ||
                 (count == 2 && f && !f->singleton && !only);
    uint32_t jumps[CEL_ARGS_MAX];
    uint32_t jump_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        cel_gen_expr(g, i < member ? n->call.target : n->call.args.p[i - member]);
        if (stops && i + 1 < count)
            jumps[jump_count++] = cel_gen_emit(g, CEL_I_ERROR_JUMP, i, 0, 0);
    }
    g->pos = n->pos;
    vec_push(&g->p->calls, call);
    (void)cel_gen_emit(g, CEL_I_CALL, 0, 0, (uint32_t)(g->p->calls.n - 1));
    cel_gen_push(g, 1 - (int)count);
    for (uint32_t i = 0; i < jump_count; i++)
        g->p->code.p[jumps[i]].c = (uint32_t)g->p->code.n;
}
