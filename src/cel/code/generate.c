// SPDX-License-Identifier: Apache-2.0
//
// From tree to bytecode. What upstream computes while planning is computed here: literals of
// constants, conversions of constants, sets for `in`, patterns. Attributes (a variable and the
// selections behind it) are charged by qualifier, plus one when evaluated for themselves and
// nothing when they are a branch of ?: or an index; that is how upstream's observers count.
#include "cel/code/generate.h"

#include <assert.h>

#include "cel/code/run.h"

#include "base/banned.h"

static bool is_call(const struct cel_node *n, const char *function)
{
    return n->kind == CEL_N_CALL && str_eqz(n->call.function, function);
}

void cel_gen_fail(struct cel_gen *g, const char *fmt, ...)
{
    if (g->failed)
        return;
    va_list ap;
    va_start(ap, fmt);
    (void)err_set_v(g->err, ERR_INTERNAL, fmt, ap);
    va_end(ap);
    g->failed = true;
}

uint32_t cel_gen_emit(struct cel_gen *g, enum cel_op op, unsigned a, int b, uint32_t c)
{
    vec_push(&g->p->code, (struct cel_ins){(uint8_t)op, (uint8_t)a, (uint16_t)(int16_t)b, c});
    vec_push(&g->p->positions, g->pos);
    return (uint32_t)(g->p->code.n - 1);
}

static uint32_t generate_emit_op(struct cel_gen *g, enum cel_op op, uint32_t c)
{
    return cel_gen_emit(g, op, 0, 0, c);
}

static void emit_word(struct cel_gen *g, uint32_t c)
{
    (void)generate_emit_op(g, CEL_I_RETURN, c);
}

static uint32_t generate_next_index(const struct cel_gen *g)
{
    return (uint32_t)g->p->code.n;
}

static void generate_patch_jump(struct cel_gen *g, uint32_t at)
{
    g->p->code.p[at].c = generate_next_index(g);
}

void cel_gen_push(struct cel_gen *g, int by)
{
    g->depth = (uint32_t)((int)g->depth + by);
    if (g->depth > g->p->stack)
        g->p->stack = g->depth;
}

uint32_t cel_gen_constant(struct cel_gen *g, struct cel_val v)
{
    vec_push(&g->p->constants, cel_copy(v, &g->p->arena));
    return (uint32_t)(g->p->constants.n - 1);
}

static void emit_const(struct cel_gen *g, struct cel_val v, int cost)
{
    (void)cel_gen_emit(g, CEL_I_CONST, 0, cost, cel_gen_constant(g, v));
    cel_gen_push(g, 1);
}

// Ends: places to patch with the end of the attribute being emitted.
static void add_end(struct cel_gen *g, struct cel_ends *ends, uint32_t at)
{
    vec_push_arena(g->scratch, ends, at);
}

static void patch_ends(struct cel_gen *g, const struct cel_ends *ends)
{
    for (size_t i = 0; i < ends->n; i++)
        generate_patch_jump(g, ends->p[i]);
}

static bool may_be_optional(const struct cel_node *n)
{
    const struct cel_type *t = n->type;
    return !t || t->kind == CEL_T_DYN || t->kind == CEL_T_ANY || t->kind == CEL_T_PARAM ||
           t->kind == CEL_T_ERROR || cel_type_is_optional(t);
}

static const struct cel_local *generate_find_local(const struct cel_gen *g, struct str name)
{
    for (const struct cel_local *l = g->locals; l; l = l->outer)
        if (str_eq(l->name, name))
            return l;
    return NULL;
}

// Emits a variable's value; cost is what reading it counts.
static void emit_ident(struct cel_gen *g, const struct cel_node *n, int cost)
{
    bool dotted = n->ident.n && n->ident.p[0] == '.';
    struct str name = dotted ? str_from(n->ident, 1) : n->ident;
    const struct cel_local *l = dotted ? NULL : generate_find_local(g, name);
    if (l && l->lazy) {
        (void)cel_gen_emit(g, CEL_I_LAZY, 0, cost, l->slot);
        emit_word(g, l->code);
        uint32_t before = g->depth;
        cel_gen_push(g, (int)l->lazy_stack + 1);
        g->depth = before;
        cel_gen_push(g, 1);
        return;
    }
    if (l) {
        (void)cel_gen_emit(g, CEL_I_LOCAL, 0, cost, l->slot);
    } else if (g->env->device && str_eqz(name, "device")) {
        (void)cel_gen_emit(g, CEL_I_DEVICE, 0, cost, 0);
    } else {
        uint32_t at = 0;
        while (at < g->p->variables.n && !str_eq(g->p->variables.p[at], name))
            at++;
        if (at == g->p->variables.n) {
            emit_const(g, cel_errorf(g->scratch, "no such attribute(s): %.*s", STR_ARG(name)),
                       cost);
            return;
        }
        g->p->used |= at < 64 ? UINT64_C(1) << at : 0;
        (void)cel_gen_emit(g, CEL_I_VAR, 0, cost, at);
    }
    cel_gen_push(g, 1);
}

static bool is_attribute(const struct cel_node *n)
{
    if (n->constant_ref)
        return false;
    if (n->kind == CEL_N_IDENT || n->kind == CEL_N_SELECT)
        return true;
    return is_call(n, CEL_OP_INDEX) || is_call(n, CEL_OP_OPT_INDEX) ||
           is_call(n, CEL_OP_OPT_SELECT) || is_call(n, CEL_OP_COND);
}

static bool is_test(const struct cel_node *n)
{
    return n->kind == CEL_N_SELECT && n->select.test_only;
}

// Whether the attribute's root is a conditional: then evaluating it costs nothing extra.
bool cel_gen_is_conditional(const struct cel_node *n)
{
    for (;;) {
        if (n->constant_ref)
            return false;
        if (n->kind == CEL_N_SELECT)
            n = n->select.operand;
        else if (is_call(n, CEL_OP_INDEX) || is_call(n, CEL_OP_OPT_INDEX) ||
                 is_call(n, CEL_OP_OPT_SELECT))
            n = n->call.args.p[0];
        else
            return is_call(n, CEL_OP_COND);
    }
}

static void emit_chain(struct cel_gen *g, struct cel_node *n, struct cel_ends *ends);

static void emit_begin(struct cel_gen *g, const struct cel_node *root, struct cel_ends *ends)
{
    if (!may_be_optional(root))
        return;
    (void)generate_emit_op(g, CEL_I_BEGIN, 0);
    add_end(g, ends, generate_next_index(g));
    emit_word(g, 0);
}

static void emit_qual_const(struct cel_gen *g, enum cel_op op, struct cel_val key, bool optional,
                            struct cel_ends *ends)
{
    (void)cel_gen_emit(g, op, optional, 0, cel_gen_constant(g, key));
    add_end(g, ends, generate_next_index(g));
    emit_word(g, 0);
}

static bool qualifier_kind(struct cel_val v)
{
    return v.kind == CEL_STRING || v.kind == CEL_INT || v.kind == CEL_UINT || v.kind == CEL_BOOL ||
           v.kind == CEL_DOUBLE;
}

static void emit_index(struct cel_gen *g, struct cel_node *n, bool optional, struct cel_ends *ends)
{
    struct cel_node *key = n->call.args.p[1];
    emit_chain(g, n->call.args.p[0], ends);
    bool at_run_time = g->p->strict_rules && key->constant_ref && !qualifier_kind(key->value);
    if (key->constant_ref && !key->own_fold && !at_run_time) {
        if (!qualifier_kind(key->value))
            cel_gen_fail(g, "invalid qualifier type: %.*s", STR_ARG(cel_type_name(key->value)));
        g->pos = n->pos;
        emit_qual_const(g, CEL_I_QUAL, key->value, optional, ends);
        return;
    }
    uint32_t at = generate_emit_op(g, CEL_I_ERROR_JUMP, 0);
    add_end(g, ends, at);
    cel_gen_resolve(g, key);
    g->pos = n->pos;
    (void)cel_gen_emit(g, CEL_I_QUAL_DYN, optional, 0, 0);
    add_end(g, ends, generate_next_index(g));
    emit_word(g, 0);
    cel_gen_push(g, -1);
}

static void emit_conditional(struct cel_gen *g, struct cel_node *n, struct cel_ends *ends)
{
    cel_gen_expr(g, n->call.args.p[0]);
    g->pos = n->pos;
    uint32_t cond = generate_emit_op(g, CEL_I_COND, 0);
    add_end(g, ends, generate_next_index(g));
    emit_word(g, 0);
    cel_gen_push(g, -1);
    emit_chain(g, n->call.args.p[1], ends);
    uint32_t skip = generate_emit_op(g, CEL_I_JUMP, 0);
    generate_patch_jump(g, cond);
    cel_gen_push(g, -1);
    emit_chain(g, n->call.args.p[2], ends);
    generate_patch_jump(g, skip);
}

static void emit_test(struct cel_gen *g, struct cel_node *n, struct cel_ends *ends)
{
    emit_chain(g, n->select.operand, ends);
    g->pos = n->pos;
    emit_qual_const(g, CEL_I_TEST, cel_string(n->select.field), false, ends);
}

// Emits an attribute up to its last qualifier. The value is not yet wrapped into an optional where
// a qualifier was optional; CEL_I_END does that. Whatever ends the attribute early jumps there.
static void emit_chain(struct cel_gen *g, struct cel_node *n, struct cel_ends *ends)
{
    g->pos = n->pos;
    if (!is_attribute(n)) {
        cel_gen_expr(g, n);
        emit_begin(g, n, ends);
        return;
    }
    if (cel_gen_device_prefix(g, n))
        return;
    if (n->kind == CEL_N_IDENT) {
        emit_ident(g, n, 0);
        emit_begin(g, n, ends);
    } else if (is_test(n)) {
        emit_test(g, n, ends);
    } else if (n->kind == CEL_N_SELECT) {
        emit_chain(g, n->select.operand, ends);
        g->pos = n->pos;
        emit_qual_const(g, CEL_I_QUAL, cel_string(n->select.field), false, ends);
    } else if (is_call(n, CEL_OP_OPT_SELECT)) {
        emit_chain(g, n->call.args.p[0], ends);
        g->pos = n->pos;
        emit_qual_const(g, CEL_I_QUAL, n->call.args.p[1]->value, true, ends);
    } else if (is_call(n, CEL_OP_COND)) {
        emit_conditional(g, n, ends);
    } else {
        emit_index(g, n, is_call(n, CEL_OP_OPT_INDEX), ends);
    }
}

static void emit_attribute(struct cel_gen *g, struct cel_node *n, bool resolve)
{
    int cost = resolve || cel_gen_is_conditional(n) ? 0 : 1;
    if (cel_gen_device_path(g, n, resolve))
        return;
    if (n->kind == CEL_N_IDENT) {
        emit_ident(g, n, cost);
        return;
    }
    bool test = is_test(n);
    struct cel_ends ends = {0};
    emit_chain(g, n, &ends);
    if (test && !resolve)
        cost -= 1;
    g->pos = n->pos;
    patch_ends(g, &ends);
    if (ends.n || cost)
        (void)cel_gen_emit(g, CEL_I_END, test, cost, 0);
}

void cel_gen_resolve(struct cel_gen *g, struct cel_node *n)
{
    if (is_attribute(n))
        emit_attribute(g, n, true);
    else
        cel_gen_expr(g, n);
}

static void emit_logic(struct cel_gen *g, struct cel_node *n, bool and)
{
    cel_gen_expr(g, n->call.args.p[0]);
    uint32_t jump = generate_emit_op(g, and? CEL_I_AND_TEST : CEL_I_OR_TEST, 0);
    cel_gen_expr(g, n->call.args.p[1]);
    g->pos = n->pos;
    (void)generate_emit_op(g, and? CEL_I_AND : CEL_I_OR, 0);
    cel_gen_push(g, -1);
    generate_patch_jump(g, jump);
}

static void emit_optional_or(struct cel_gen *g, struct cel_node *n, bool value)
{
    cel_gen_expr(g, n->call.target);
    g->pos = n->pos;
    uint32_t jump = generate_emit_op(g, value ? CEL_I_OPT_OR_VALUE : CEL_I_OPT_OR, 0);
    cel_gen_push(g, -1);
    cel_gen_expr(g, n->call.args.p[0]);
    generate_patch_jump(g, jump);
}

static void emit_list(struct cel_gen *g, struct cel_node *n)
{
    struct cel_ends ends = {0};
    uint32_t count = n->list.elems.n;
    bool plain = !n->list.optional && count < 200;
    if (!plain) {
        (void)generate_emit_op(g, CEL_I_LIST_NEW, count);
        cel_gen_push(g, 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        cel_gen_expr(g, n->list.elems.p[i]);
        g->pos = n->pos;
        if (!plain) {
            bool optional = n->list.optional && n->list.optional[i];
            add_end(g, &ends, cel_gen_emit(g, CEL_I_APPEND, optional, 0, 0));
            cel_gen_push(g, -1);
        } else if (!n->list.elems.p[i]->constant_ref) {
            add_end(g, &ends, cel_gen_emit(g, CEL_I_ERROR_JUMP, i, 0, 0));
        }
    }
    if (plain) {
        (void)generate_emit_op(g, CEL_I_LIST, count);
        cel_gen_push(g, 1 - (int)count);
    }
    patch_ends(g, &ends);
    (void)cel_gen_emit(g, CEL_I_COST, 0, 10, 0);
}

// Maps, and messages as the map of their fields.
static void emit_entries(struct cel_gen *g, struct cel_node *n)
{
    struct cel_ends ends = {0};
    (void)generate_emit_op(g, CEL_I_MAP_NEW, n->entries.n);
    cel_gen_push(g, 1);
    for (uint32_t i = 0; i < n->entries.n; i++) {
        if (n->kind == CEL_N_MAP)
            cel_gen_expr(g, n->entries.keys[i]);
        else
            emit_const(g, cel_string(n->entries.fields[i]), 0);
        add_end(g, &ends, cel_gen_emit(g, CEL_I_ERROR_JUMP, 1, 0, 0));
        cel_gen_expr(g, n->entries.values[i]);
        g->pos = n->pos;
        bool optional = n->entries.optional && n->entries.optional[i];
        add_end(g, &ends, cel_gen_emit(g, CEL_I_PUT, optional, 0, 0));
        cel_gen_push(g, -2);
    }
    if (n->kind == CEL_N_STRUCT) {
        const struct cel_message *m = cel_message_find(n->entries.type_name);
        struct str candidate;
        struct str name = n->entries.type_name;
        for (size_t i = 0; !m && cel_env_candidate(g->env, g->scratch, name, i, &candidate); i++)
            m = cel_message_find(candidate);
        if (!m) {
            cel_gen_fail(g, "unknown type: %.*s", STR_ARG(n->entries.type_name));
            return;
        }
        vec_push(&g->p->messages, (struct cel_message_code){.message = m});
        (void)generate_emit_op(g, CEL_I_STRUCT, (uint32_t)(g->p->messages.n - 1));
    }
    patch_ends(g, &ends);
    (void)cel_gen_emit(g, CEL_I_COST, 0, n->kind == CEL_N_MAP ? 30 : 40, 0);
}

static bool is_accu(const struct cel_node *n, const struct cel_node_fold *f)
{
    return n->kind == CEL_N_IDENT && str_eq(n->ident, f->accu);
}

enum loop_condition { LOOP_PLAIN, LOOP_ALWAYS, LOOP_ALL, LOOP_EXISTS };

// The conditions the macros make are known and cheap to test.
static enum loop_condition generate_loop_condition(const struct cel_node_fold *f)
{
    const struct cel_node *c = f->condition;
    if (c->kind == CEL_N_LITERAL && cel_is_true(c->value))
        return LOOP_ALWAYS;
    if (!is_call(c, CEL_OP_NOT_STRICTLY) || c->call.args.n != 1 || f->init->kind != CEL_N_LITERAL)
        return LOOP_PLAIN;
    const struct cel_node *x = c->call.args.p[0];
    if (is_accu(x, f))
        return LOOP_ALL;
    if (is_call(x, CEL_OP_NOT) && x->call.args.n == 1 && is_accu(x->call.args.p[0], f))
        return LOOP_EXISTS;
    return LOOP_PLAIN;
}

static uint32_t emit_loop_condition(struct cel_gen *g, struct cel_node_fold *f,
                                    enum loop_condition kind, uint32_t accu)
{
    uint32_t at = 0;
    switch (kind) {
    case LOOP_ALWAYS:
        break;
    case LOOP_ALL:
        at = cel_gen_emit(g, CEL_I_ALL_IF, 0, 2, 0);
        emit_word(g, accu);
        break;
    case LOOP_EXISTS:
        at = cel_gen_emit(g, CEL_I_EXISTS_IF, 0, 3, 0);
        emit_word(g, accu);
        break;
    case LOOP_PLAIN:
        cel_gen_expr(g, f->condition);
        at = generate_emit_op(g, CEL_I_LOOP_IF, 0);
        cel_gen_push(g, -1);
        break;
    }
    return at;
}

// The step of all() and exists(): accumulator && or || predicate.
static bool steps_by_logic(const struct cel_node_fold *f, enum loop_condition kind)
{
    return is_call(f->step, kind == LOOP_ALL ? CEL_OP_AND : CEL_OP_OR) &&
           f->step->call.args.n == 2 && is_accu(f->step->call.args.p[0], f);
}

// Slots of a loop: range, position, first and second variable, accumulator.
enum { SLOT_RANGE, SLOT_AT, SLOT_VAR, SLOT_VAR2, SLOT_ACCU, SLOTS_PER_LOOP };

// cel.bind and its relatives: a loop over nothing. The value is computed on first use.
static void emit_bind(struct cel_gen *g, struct cel_node *n)
{
    struct cel_node_fold *f = &n->fold;
    uint32_t slot = g->p->slots++;
    (void)generate_emit_op(g, CEL_I_LAZY_RESET, slot);
    struct cel_local known = {.outer = g->locals, .name = f->accu, .slot = slot};
    if (cel_gen_alias(g, f->init, &known)) {
        g->locals = &known;
        cel_gen_expr(g, f->result);
        g->locals = known.outer;
        (void)generate_emit_op(g, CEL_I_CLOSE, slot);
        return;
    }
    uint32_t skip = generate_emit_op(g, CEL_I_JUMP, 0);
    uint32_t code = generate_next_index(g);
    uint32_t saved_depth = g->depth;
    uint32_t saved_max = g->p->stack;
    g->p->stack = g->depth = 0;
    cel_gen_expr(g, f->init);
    (void)generate_emit_op(g, CEL_I_LAZY_RETURN, slot);
    uint32_t lazy_stack = g->p->stack;
    g->depth = saved_depth;
    g->p->stack = saved_max;
    generate_patch_jump(g, skip);
    struct cel_local var = {.outer = g->locals,
                            .name = f->accu,
                            .slot = slot,
                            .lazy = true,
                            .code = code,
                            .lazy_stack = lazy_stack};
    g->locals = &var;
    cel_gen_expr(g, f->result);
    g->locals = var.outer;
    (void)generate_emit_op(g, CEL_I_CLOSE, slot);
}

static bool generate_is_bind(const struct cel_node *n)
{
    const struct cel_node_fold *f = &n->fold;
    return f->range->kind == CEL_N_LIST && f->range->list.elems.n == 0 &&
           str_eqz(f->var, CEL_UNUSED_VAR);
}

static void emit_fold(struct cel_gen *g, struct cel_node *n)
{
    if (generate_is_bind(n)) {
        emit_bind(g, n);
        return;
    }
    struct cel_node_fold *f = &n->fold;
    bool two = f->var2.n > 0;
    uint32_t base = g->p->slots;
    g->p->slots += SLOTS_PER_LOOP;
    cel_gen_expr(g, f->range);
    g->pos = n->pos;
    (void)cel_gen_emit(g, CEL_I_ITER, two, 0, base);
    uint32_t iter_end = generate_next_index(g);
    emit_word(g, 0);
    cel_gen_push(g, -1);
    (void)generate_emit_op(g, CEL_I_ACCU, base + SLOT_ACCU);
    emit_word(g, cel_gen_constant(g, f->init->value));
    uint32_t loop = generate_next_index(g);
    (void)cel_gen_emit(g, CEL_I_NEXT, two, 0, base);
    uint32_t next_exit = generate_next_index(g);
    emit_word(g, 0);

    struct cel_local accu = {.outer = g->locals, .name = f->accu, .slot = base + SLOT_ACCU};
    struct cel_local var = {.outer = &accu, .name = f->var, .slot = base + SLOT_VAR};
    struct cel_local var2 = {.outer = &var, .name = f->var2, .slot = base + SLOT_VAR2};
    const struct cel_local *outer = g->locals;
    // Upstream looks the accumulator up before the variables.
    g->locals = two ? &var2 : &var;
    enum loop_condition kind = generate_loop_condition(f);
    uint32_t cond_exit = emit_loop_condition(g, f, kind, accu.slot);
    if ((kind == LOOP_ALL || kind == LOOP_EXISTS) && steps_by_logic(f, kind)) {
        cel_gen_expr(g, f->step->call.args.p[1]);
        (void)generate_emit_op(g, kind == LOOP_ALL ? CEL_I_FOLD_AND : CEL_I_FOLD_OR, accu.slot);
        emit_word(g, loop);
        g->p->code.p[cond_exit].a = 1; // reading the accumulator in the step
    } else {
        cel_gen_expr(g, f->step);
        (void)generate_emit_op(g, CEL_I_STORE, accu.slot);
        (void)generate_emit_op(g, CEL_I_JUMP, loop);
    }
    cel_gen_push(g, -1);
    generate_patch_jump(g, next_exit);
    if (kind != LOOP_ALWAYS)
        generate_patch_jump(g, cond_exit);
    g->locals = &accu;
    cel_gen_expr(g, f->result);
    g->locals = outer;
    (void)generate_emit_op(g, CEL_I_CLOSE, accu.slot);
    generate_patch_jump(g, iter_end);
}

void cel_gen_expr(struct cel_gen *g, struct cel_node *n)
{
    if (g->failed)
        return;
    g->pos = n->pos;
    if (n->constant_ref) {
        emit_const(g, n->value, n->constant_cost);
        return;
    }
    if (is_attribute(n)) {
        emit_attribute(g, n, false);
        return;
    }
    switch ((int)n->kind) {
    case CEL_N_CALL:
        if (is_call(n, CEL_OP_AND) || is_call(n, CEL_OP_OR))
            emit_logic(g, n, is_call(n, CEL_OP_AND));
        else if (n->call.target && n->call.args.n == 1 && str_eqz(n->call.function, "or"))
            emit_optional_or(g, n, false);
        else if (n->call.target && n->call.args.n == 1 && str_eqz(n->call.function, "orValue"))
            emit_optional_or(g, n, true);
        else
            cel_gen_call(g, n);
        break;
    case CEL_N_LIST:
        emit_list(g, n);
        break;
    case CEL_N_MAP:
    case CEL_N_STRUCT:
        emit_entries(g, n);
        break;
    case CEL_N_FOLD:
        emit_fold(g, n);
        break;
    default:
        cel_gen_fail(g, "unsupported expression");
        break;
    }
}

int cel_generate(const struct cel_env *env, const struct cel_source *source, struct cel_program *p,
                 struct cel_node *root, struct err *err)
{
    struct arena scratch = {0};
    struct cel_run run = {.limit = UINT64_MAX};
    struct cel_gen g = {
        .env = env, .source = source, .p = p, .scratch = &scratch, .err = err, .run = &run};
    for (size_t i = 0; i < env->variables.n; i++)
        vec_push(&p->variables, arena_str(&p->arena, env->variables.p[i].name));
    p->runnable = true;
    cel_fold(&g, root);
    if (!g.failed)
        cel_gen_expr(&g, root);
    (void)generate_emit_op(&g, CEL_I_RETURN, 0);
    arena_done(&scratch);
    arena_done(&run.arena);
    sbuf_done(&run.text);
    return g.failed ? -ERR_INTERNAL : 0;
}
