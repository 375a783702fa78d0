// SPDX-License-Identifier: Apache-2.0
//
// The machine. One function with a label per instruction; the stack, the slots and the cost live in
// locals. Anything that is not on the way of an ordinary selector is a call to a cold function.
#include "cel/code/vm.h"

#include <assert.h>
#include <math.h>

#include "cel/code/message.h"
#include "cel/code/vm_slow.h"
#include "cel/cost/cost.h"
#include "cel/cost/work.h"
#include "cel/env.h"

#include "base/banned.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

// Marks of a lazy slot, outside enum cel_kind.
enum { SLOT_UNSET = 254, SLOT_COMPUTING = 255 };

enum { SLOT_AT = 1, SLOT_VAR = 2, SLOT_VAR2 = 3 };

#define INTERRUPT_EVERY 100

// Calls with shorter texts and no containers that they walk (struct cel_call) are not weighed:
// their cost of at least 1 bounds them. A power of two, so that lengths are tested by their union.
#define LIGHT_TEXT 64U

__attribute__((noinline, cold)) static struct cel_val vm_first_error(const struct cel_val *args)
{
    while (args->kind != CEL_ERROR)
        args++;
    return *args;
}

static inline bool fits_guard(const struct cel_overload *o, const struct cel_val *args)
{
    for (unsigned i = 0; i < o->args; i++) {
        if (likely(o->arg_kind[i] == args[i].kind || o->arg_kind[i] == CEL_KIND_ANY))
            continue;
        if (!cel_fits(o->arg[i], args[i]))
            return false;
    }
    return true;
}

__attribute__((noinline, cold)) static struct cel_val not_bool(struct cel_val v)
{
    return cel_is_error(v) ? v : cel_no_such_overload();
}

static struct cel_val logic_and(struct cel_val l, struct cel_val r)
{
    if (likely(l.kind == CEL_BOOL && r.kind == CEL_BOOL))
        return cel_bool(l.b && r.b);
    if (r.kind == CEL_BOOL && !r.b)
        return cel_false;
    return not_bool(l.kind != CEL_BOOL ? l : r);
}

static struct cel_val logic_or(struct cel_val l, struct cel_val r)
{
    if (likely(l.kind == CEL_BOOL && r.kind == CEL_BOOL))
        return cel_bool(l.b || r.b);
    if (r.kind == CEL_BOOL && r.b)
        return cel_true;
    return not_bool(l.kind != CEL_BOOL ? l : r);
}

// cel_tenth of short lengths.
#define TENTHS_MAX 256
static uint8_t tenths[TENTHS_MAX];

__attribute__((constructor)) static void fill_tenths(void)
{
    for (unsigned i = 0; i < TENTHS_MAX; i++)
        tenths[i] = (uint8_t)cel_tenth(i);
}

static inline uint64_t vm_tenth_of(uint64_t n)
{
    return likely(n < TENTHS_MAX) ? tenths[n] : cel_tenth(n);
}

static inline uint64_t size_cost(struct cel_val l, struct cel_val r)
{
    if (likely((l.kind == CEL_STRING || l.kind == CEL_BYTES) && (l.flags & r.flags & CEL_F_ASCII)))
        return vm_tenth_of(l.n < r.n ? l.n : r.n);
    if (l.kind <= CEL_DOUBLE && r.kind <= CEL_DOUBLE)
        return 1; // scalars have size 1
    uint64_t a = cel_size_through_optional(l);
    uint64_t b = cel_size_through_optional(r);
    return cel_tenth(a < b ? a : b);
}

static inline uint64_t equal_cost(struct cel_val l, struct cel_val r)
{
    return unlikely(l.kind >= CEL_QUANTITY) ? 1 : size_cost(l, r);
}

__attribute__((noinline, cold)) static struct cel_val equal_slow(struct cel_run *run,
                                                                 struct cel_val l, struct cel_val r,
                                                                 bool negate)
{
    if (cel_is_error(l))
        return l;
    if (cel_is_error(r))
        return r;
    if (!cel_work_equal(run, l, r))
        return cel_no_such_overload(); // and it ends
    struct cel_val eq = cel_equal(l, r);
    // != is "not known to be equal": it does not fail where == does.
    return negate ? cel_bool(!cel_is_true(eq)) : eq;
}

static inline struct cel_val vm_compare_equal(struct cel_run *run, struct cel_val l,
                                              struct cel_val r, bool negate)
{
    if (likely(l.kind == CEL_STRING && r.kind == CEL_STRING)) {
        bool eq = l.n == r.n && cel_same_bytes(l.s, r.s, l.n);
        return cel_bool(eq != negate);
    }
    return equal_slow(run, l, r, negate);
}

static struct cel_val vm_compare_order(struct cel_val l, struct cel_val r, enum cel_op op)
{
    int64_t c;
    if (likely(l.kind == CEL_INT && r.kind == CEL_INT)) {
        c = (l.i > r.i) - (l.i < r.i);
    } else {
        if (cel_is_error(l))
            return l;
        if (cel_is_error(r))
            return r;
        struct cel_val v = cel_compare(l, r);
        if (cel_is_error(v))
            return v;
        c = v.i;
    }
    switch ((int)op) {
    case CEL_I_LT:
        return cel_bool(c < 0);
    case CEL_I_LE:
        return cel_bool(c <= 0);
    case CEL_I_GT:
        return cel_bool(c > 0);
    default:
        return cel_bool(c >= 0);
    }
}

static bool in_numbers(const struct cel_list *l, struct cel_val v)
{
    for (uint32_t i = 0; i < l->n; i++) {
        struct cel_val e = l->items[i];
        // Whole numbers were entered as doubles too, rounded where need be.
        if (v.kind == CEL_DOUBLE && e.kind == CEL_INT    ? v.d == (double)e.i
            : v.kind == CEL_DOUBLE && e.kind == CEL_UINT ? v.d == (double)e.u
                                                         : cel_same(v, e))
            return true;
    }
    return false;
}

static struct cel_val in_set(const struct cel_set *set, struct cel_val v)
{
    if (v.kind == CEL_STRING) {
        uint32_t at = cel_text_hash(cel_str(v)) & set->mask;
        for (; set->index[at]; at = (at + 1) & set->mask) {
            struct cel_val e = set->items->items[set->index[at] - 1];
            if (e.n == v.n && cel_same_bytes(e.s, v.s, v.n))
                return cel_true;
        }
        return cel_false;
    }
    if (v.kind > CEL_DOUBLE)
        return cel_false;
    return cel_is_error(v) ? v : cel_bool(in_numbers(set->items, v));
}

static inline uint32_t path_slot(struct cel_run *run, const struct cel_program *p,
                                 const struct cel_device *d, uint32_t path, bool domain)
{
    struct cel_path_cache *c = &run->paths[path];
    if (likely(c->shape == d->shape))
        return c->slot;
    c->shape = d->shape;
    c->slot = cel_shape_find(d->shape, &p->paths.p[path], domain);
    return c->slot;
}

#define CHARGE(x)                        \
    do {                                 \
        cost += (uint64_t)(int64_t)(x);  \
        if (unlikely(cost > run->limit)) \
            goto over;                   \
    } while (0)
// An error gets its place, unless it is that too much was done.
#define PLACE(v)                                         \
    do {                                                 \
        if (unlikely((v).kind == CEL_ERROR)) {           \
            if (unlikely(run->work > DRAY_CEL_WORK_MAX)) \
                goto over;                               \
            (v) = cel_slow_placed(run, p, PC, (v));      \
        }                                                \
    } while (0)
// A comparison with a constant; whole numbers without a call.
#define ORDER_CONST(op, sign)                                           \
    do {                                                                \
        const struct cel_val *right = &p->constants.p[ip->c];           \
        if (likely(sp[-1].kind == CEL_INT && right->kind == CEL_INT)) { \
            CHARGE(1);                                                  \
            sp[-1] = cel_bool(sp[-1].i sign right->i);                  \
            NEXT;                                                       \
        }                                                               \
        CHARGE(ip->a ? size_cost(sp[-1], *right) : 1);                  \
        sp[-1] = vm_compare_order(sp[-1], *right, op);                  \
        if (unlikely(sp[-1].kind == CEL_ERROR))                         \
            sp[-1] = cel_slow_placed(run, p, PC, sp[-1]);               \
        NEXT;                                                           \
    } while (0)
// NOLINTBEGIN(bugprone-macro-parentheses): statements
#define NEXT      goto *labels[(++ip)->op]
#define NEXT_WORD goto *labels[(ip += 2)->op]
#define JUMP(to)  goto *labels[(ip = code + (to))->op]
// NOLINTEND(bugprone-macro-parentheses)
#define PC ((size_t)(ip - code))
// Ends a step into a map or message: f states whether v was found; soft: in an optional chain.
#define END_QUALIFY(f, v, soft)                                          \
    do {                                                                 \
        if ((f) == FOUND || !(soft))                                     \
            cost += 1;                                                   \
        if ((f) == FOUND && (soft))                                      \
            (v).flags |= CEL_F_CHAIN;                                    \
        sp[-1] = (f) == FAILED ? cel_slow_placed(run, p, PC, (v)) : (v); \
        CHARGE(0);                                                       \
        if ((f) != FOUND) {                                              \
            if (unlikely(run->work > DRAY_CEL_WORK_MAX))                 \
                goto over;                                               \
            JUMP(ip[1].c);                                               \
        }                                                                \
        NEXT_WORD;                                                       \
    } while (0)

// How many devices before its turn one is fetched into the cache.
#define AHEAD 6

// Enters the answer for one device of a batch.
static inline void vm_note_result(struct cel_batch *b, size_t at, struct cel_val v)
{
    uint64_t bit = (uint64_t)1 << at % 64;
    if (likely(v.kind == CEL_BOOL)) {
        b->match[at / 64] |= v.b ? bit : 0;
        b->matches += v.b;
        return;
    }
    b->failures++;
    if (b->failed)
        b->failed[at / 64] |= bit;
}

// NOLINTNEXTLINE(readability-function-size): a dispatch loop
struct cel_val cel_execute(struct cel_run *run, const struct cel_program *p,
                           const struct cel_device *d, const struct cel_val *const *vars,
                           struct cel_batch *batch)
{
    static const void *const labels[CEL_I_OPS] = {
        [CEL_I_RETURN] = &&op_return,
        [CEL_I_CONST] = &&op_const,
        [CEL_I_DEVICE] = &&op_device,
        [CEL_I_DRIVER] = &&op_driver,
        [CEL_I_MULTI] = &&op_multi,
        [CEL_I_PATH] = &&op_path,
        [CEL_I_PATH_HAS] = &&op_path_has,
        [CEL_I_PATH_OPT] = &&op_path_opt,
        [CEL_I_PATH_MAP] = &&op_path_map,
        [CEL_I_LAZY_TOUCH] = &&op_lazy_touch,
        [CEL_I_EQ_CONST] = &&op_eq_const,
        [CEL_I_LT_CONST] = &&op_lt_const,
        [CEL_I_LE_CONST] = &&op_le_const,
        [CEL_I_GT_CONST] = &&op_gt_const,
        [CEL_I_GE_CONST] = &&op_ge_const,
        [CEL_I_FOLD_AND] = &&op_fold_and,
        [CEL_I_FOLD_OR] = &&op_fold_or,
        [CEL_I_DRIVER_EQ] = &&op_driver_eq,
        [CEL_I_PATH_EQ] = &&op_path_eq,
        [CEL_I_LOCAL] = &&op_local,
        [CEL_I_LAZY] = &&op_lazy,
        [CEL_I_LAZY_RETURN] = &&op_lazy_return,
        [CEL_I_LAZY_RESET] = &&op_lazy_reset,
        [CEL_I_VAR] = &&op_var,
        [CEL_I_BEGIN] = &&op_begin,
        [CEL_I_QUAL] = &&op_qual,
        [CEL_I_QUAL_DYN] = &&op_qual_dyn,
        [CEL_I_TEST] = &&op_test,
        [CEL_I_END] = &&op_end,
        [CEL_I_ERROR_JUMP] = &&op_error_jump,
        [CEL_I_AND_TEST] = &&op_and_test,
        [CEL_I_AND] = &&op_and,
        [CEL_I_OR_TEST] = &&op_or_test,
        [CEL_I_OR] = &&op_or,
        [CEL_I_COND] = &&op_cond,
        [CEL_I_JUMP] = &&op_jump,
        [CEL_I_CALL] = &&op_call,
        [CEL_I_EQ] = &&op_eq,
        [CEL_I_NE] = &&op_ne,
        [CEL_I_LT] = &&op_order,
        [CEL_I_LE] = &&op_order,
        [CEL_I_GT] = &&op_order,
        [CEL_I_GE] = &&op_order,
        [CEL_I_NOT] = &&op_not,
        [CEL_I_NOT_STRICTLY] = &&op_not_strictly,
        [CEL_I_IN_SET] = &&op_in_set,
        [CEL_I_LIST] = &&op_list,
        [CEL_I_LIST_NEW] = &&op_list_new,
        [CEL_I_APPEND] = &&op_append,
        [CEL_I_MAP_NEW] = &&op_map_new,
        [CEL_I_PUT] = &&op_put,
        [CEL_I_STRUCT] = &&op_struct,
        [CEL_I_COST] = &&op_cost,
        [CEL_I_OPT_OR] = &&op_opt_or,
        [CEL_I_OPT_OR_VALUE] = &&op_opt_or,
        [CEL_I_ITER] = &&op_iter,
        [CEL_I_NEXT] = &&op_next,
        [CEL_I_ACCU] = &&op_accu,
        [CEL_I_STORE] = &&op_store,
        [CEL_I_LOOP_IF] = &&op_loop_if,
        [CEL_I_ALL_IF] = &&op_all_if,
        [CEL_I_EXISTS_IF] = &&op_exists_if,
        [CEL_I_CLOSE] = &&op_close,
    };
    if (unlikely(run->program != p || run->program_serial != p->serial))
        cel_slow_prepare(run, p);
    const struct cel_ins *const code = p->code.p;
    const struct cel_ins *ip = code;
    struct cel_val *sp = run->stack; // next free place
    struct cel_val *const slots = run->stack + p->stack + 4;
    uint64_t cost = 0;
    struct cel_val result;
    size_t turn = 0;
    if (batch) {
        d = batch->devices[0];
        if (unlikely(d->failure.kind == CEL_ERROR)) {
            result = d->failure;
            goto finish;
        }
    }
    run->iterations = 0;
    run->work = 0;
    goto *labels[ip->op];

op_return:
    result = sp[-1];
    goto finish;
op_const:
    *sp++ = p->constants.p[ip->c];
    CHARGE(ip->b);
    NEXT;
op_device:
    *sp++ = d->root;
    CHARGE(ip->b);
    NEXT;
op_driver:
    *sp++ = d->driver;
    CHARGE(ip->b);
    NEXT;
op_multi:
    *sp++ = d->multi;
    CHARGE(ip->b);
    NEXT;
op_path : {
    uint32_t slot = path_slot(run, p, d, ip->c, false);
    *sp++ = likely(slot != CEL_SLOT_NONE)
                ? d->values[slot]
                : cel_slow_placed(run, p, PC, cel_slow_no_name(run, p, ip->c));
    CHARGE(ip->b);
    NEXT;
}
op_driver_eq : {
    const struct cel_val *l = &d->driver;
    const struct cel_val *r = &p->constants.p[ip->c];
    if (likely(l->flags & CEL_F_ASCII)) {
        CHARGE(ip->b + tenths[l->n < r->n ? l->n : r->n]);
        *sp++ = cel_bool(l->n == r->n && cel_same_bytes(l->s, r->s, l->n));
        NEXT;
    }
    CHARGE(ip->b + equal_cost(*l, *r));
    *sp++ = vm_compare_equal(run, *l, *r, false);
    NEXT;
}
op_path_eq : {
    uint32_t slot = path_slot(run, p, d, ip->c, false);
    const struct cel_val *r = &p->constants.p[ip[1].c];
    if (likely(slot != CEL_SLOT_NONE)) {
        const struct cel_val *l = &d->values[slot];
        if (likely(l->kind == CEL_STRING && (l->flags & CEL_F_ASCII))) {
            CHARGE(ip->b + tenths[l->n < r->n ? l->n : r->n]);
            *sp++ = cel_bool(l->n == r->n && cel_same_bytes(l->s, r->s, l->n));
            NEXT_WORD;
        }
    }
    *sp = slot != CEL_SLOT_NONE ? d->values[slot]
                                : cel_slow_placed(run, p, PC, cel_slow_no_name(run, p, ip->c));
    CHARGE(ip->b);
    CHARGE(equal_cost(*sp, *r));
    *sp = equal_slow(run, *sp, *r, false);
    PLACE(*sp);
    sp++;
    NEXT_WORD;
}
op_path_has : {
    uint32_t slot = path_slot(run, p, d, ip->c, false);
    *sp++ = cel_bool(slot != CEL_SLOT_NONE);
    CHARGE(ip->b);
    NEXT;
}
op_path_opt : {
    // A value of the device outlives the evaluation, so the optional may point to it.
    uint32_t slot = path_slot(run, p, d, ip->c, false);
    bool there = slot != CEL_SLOT_NONE;
    *sp++ = (struct cel_val){.kind = CEL_OPTIONAL, .opt = there ? &d->values[slot] : NULL};
    CHARGE(ip->b + (there ? 1 : 0));
    NEXT;
}
op_path_map : {
    uint32_t slot = path_slot(run, p, d, ip->c, true);
    *sp++ = slot != CEL_SLOT_NONE ? d->maps[slot] : cel_map_value(&cel_empty_map);
    CHARGE(ip->b);
    NEXT;
}
op_local:
    *sp++ = slots[ip->c];
    CHARGE(ip->b);
    NEXT;
op_lazy : {
    struct cel_val *slot = &slots[ip->c];
    if (slot->kind == SLOT_UNSET) {
        slot->kind = SLOT_COMPUTING;
        slot->n = (uint32_t)PC;
        JUMP(ip[1].c);
    }
    *sp++ = *slot;
    CHARGE(ip->b);
    NEXT_WORD;
}
op_lazy_return : {
    struct cel_val *slot = &slots[ip->c];
    uint32_t back = slot->n;
    struct cel_val v = *--sp;
    *slot = v.kind == CEL_LIST || v.kind == CEL_MAP ? cel_slow_opened(run, v) : v;
    JUMP(back);
}
op_lazy_touch:
    if (slots[ip->c].kind == SLOT_UNSET) {
        slots[ip->c].kind = CEL_NULL;
        CHARGE(ip->b);
    }
    NEXT;
op_lazy_reset:
    slots[ip->c].kind = SLOT_UNSET;
    NEXT;
op_var : {
    const struct cel_val *v = vars ? vars[ip->c] : NULL;
    *sp++ =
        v ? *v
          : cel_errorf(&run->arena, "no such attribute(s): %.*s", STR_ARG(p->variables.p[ip->c]));
    CHARGE(ip->b);
    NEXT;
}
op_begin:
    if (sp[-1].kind == CEL_ERROR)
        JUMP(ip[1].c);
    if (unlikely(sp[-1].kind == CEL_OPTIONAL)) {
        if (!sp[-1].opt)
            JUMP(ip[1].c);
        sp[-1] = *sp[-1].opt;
        sp[-1].flags |= CEL_F_CHAIN;
    }
    NEXT_WORD;
op_qual_dyn : {
    struct cel_val key = *--sp;
    struct cel_val obj = sp[-1];
    bool soft = ip->a || (obj.flags & CEL_F_CHAIN);
    struct cel_val v = cel_none;
    enum found f = cel_slow_qualify(run, obj, key, soft, &v);
    END_QUALIFY(f, v, soft);
}
op_qual : {
    struct cel_val obj = sp[-1];
    if (unlikely(obj.kind == CEL_ERROR))
        JUMP(ip[1].c);
    bool soft = ip->a || (obj.flags & CEL_F_CHAIN);
    struct cel_val v = cel_none;
    enum found f;
    const struct cel_val *hit;
    if (likely(obj.kind == CEL_MAP) && (hit = cel_map_get(obj.map, p->constants.p[ip->c]))) {
        v = *hit;
        f = FOUND;
    } else {
        f = cel_slow_qualify(run, obj, p->constants.p[ip->c], soft, &v);
    }
    END_QUALIFY(f, v, soft);
}
op_test : {
    struct cel_val obj = sp[-1];
    if (unlikely(obj.kind == CEL_ERROR))
        JUMP(ip[1].c);
    struct cel_val v;
    enum found f = cel_slow_qualify(run, obj, p->constants.p[ip->c], true, &v);
    // In an optional chain an absent field is not observed.
    if (f != ABSENT || !(obj.flags & CEL_F_CHAIN))
        cost += 1;
    sp[-1] = f == FAILED ? cel_slow_placed(run, p, PC, v) : cel_bool(f == FOUND);
    CHARGE(0);
    NEXT_WORD;
}
op_end:
    if (unlikely((sp[-1].flags & CEL_F_CHAIN) || ip->a))
        sp[-1] = cel_slow_attribute_end(run, sp[-1], ip->a);
    CHARGE((int16_t)ip->b);
    NEXT;
op_error_jump:
    if (unlikely(sp[-1].kind == CEL_ERROR)) {
        struct cel_val e = sp[-1];
        sp -= ip->a;
        sp[-1] = e;
        JUMP(ip->c);
    }
    NEXT;
op_and_test:
    if (sp[-1].kind == CEL_BOOL && !sp[-1].b)
        JUMP(ip->c);
    NEXT;
op_and:
    sp--;
    if (likely(sp[-1].kind == CEL_BOOL && sp[0].kind == CEL_BOOL))
        sp[-1].b = sp[-1].b && sp[0].b;
    else
        sp[-1] = logic_and(sp[-1], sp[0]);
    NEXT;
op_or_test:
    if (sp[-1].kind == CEL_BOOL && sp[-1].b)
        JUMP(ip->c);
    NEXT;
op_or:
    sp--;
    if (likely(sp[-1].kind == CEL_BOOL && sp[0].kind == CEL_BOOL))
        sp[-1].b = sp[-1].b || sp[0].b;
    else
        sp[-1] = logic_or(sp[-1], sp[0]);
    NEXT;
op_cond:
    if (unlikely(sp[-1].kind != CEL_BOOL)) {
        sp[-1] = not_bool(sp[-1]);
        JUMP(ip[1].c);
    }
    sp--;
    if (!sp[0].b)
        JUMP(ip->c);
    NEXT_WORD;
op_jump:
    JUMP(ip->c);
op_call : {
    const struct cel_call *c = &p->calls.p[ip->c];
    struct cel_val *args = sp - c->args;
    struct cel_val v;
    uint32_t kinds = 0, lengths = 0;
    for (const struct cel_val *a = args; a != sp; a++) {
        kinds |= 1U << a->kind;
        lengths |= a->n;
    }
    bool bad = kinds >> CEL_ERROR & 1U;
    if (unlikely(bad)) {
        v = vm_first_error(args);
    } else {
        run->call = c;
        if (unlikely((kinds & c->walked) || lengths >= LIGHT_TEXT) && !cel_work_call(run, c, args))
            goto over;
        if (c->guard && unlikely(!fits_guard(c->guard, args)))
            v = cel_slow_misfit(run, c, args);
        else
            v = likely(c->impl != NULL) ? c->impl(run, args, c->args)
                                        : cel_slow_unbound(run, c, args);
        if (unlikely(run->work > DRAY_CEL_WORK_MAX))
            goto over;
        PLACE(v);
    }
    if (c->cost == CEL_COST_ONE || c->cost == CEL_COST_NOMINAL) {
        cost += 1;
    } else {
        if (unlikely(bad && cel_slow_cost_needs_list(c, args))) {
            result = cel_slow_fatal(run, "internal error: interface conversion: *types.Err is not "
                                         "traits.Lister: missing method Add");
            goto finish;
        }
        cost += cel_call_cost(c, args, v);
    }
    sp = args + 1;
    sp[-1] = v;
    CHARGE(0);
    NEXT;
}
op_eq:
    sp--;
    CHARGE(equal_cost(sp[-1], sp[0]));
    sp[-1] = vm_compare_equal(run, sp[-1], sp[0], false);
    PLACE(sp[-1]);
    NEXT;
op_eq_const : {
    const struct cel_val *r = &p->constants.p[ip->c];
    CHARGE(equal_cost(sp[-1], *r));
    sp[-1] = vm_compare_equal(run, sp[-1], *r, false);
    PLACE(sp[-1]);
    NEXT;
}
op_lt_const:
    ORDER_CONST(CEL_I_LT, <);
op_le_const:
    ORDER_CONST(CEL_I_LE, <=);
op_gt_const:
    ORDER_CONST(CEL_I_GT, >);
op_ge_const:
    ORDER_CONST(CEL_I_GE, >=);
op_ne:
    sp--;
    CHARGE(size_cost(sp[-1], sp[0]));
    sp[-1] = vm_compare_equal(run, sp[-1], sp[0], true);
    PLACE(sp[-1]);
    NEXT;
op_order:
    sp--;
    CHARGE(ip->a ? size_cost(sp[-1], sp[0]) : 1);
    sp[-1] = vm_compare_order(sp[-1], sp[0], ip->op);
    if (unlikely(sp[-1].kind == CEL_ERROR))
        sp[-1] = cel_slow_placed(run, p, PC, sp[-1]);
    NEXT;
op_not:
    if (likely(sp[-1].kind == CEL_BOOL))
        sp[-1].b = !sp[-1].b;
    else
        sp[-1] = not_bool(sp[-1]);
    CHARGE(1);
    NEXT;
op_not_strictly:
    if (sp[-1].kind != CEL_BOOL)
        sp[-1] = cel_true;
    CHARGE(1);
    NEXT;
op_in_set:
    if (unlikely(sp[-1].kind == CEL_SEMVER || sp[-1].kind == CEL_BYTES)) {
        result = cel_slow_unhashable(run, sp[-1]);
        goto finish;
    }
    sp[-1] = in_set(&p->sets.p[ip->c], sp[-1]);
    NEXT;
op_list : {
    struct cel_val v = cel_slow_list_of(run, sp - ip->c, ip->c);
    sp -= ip->c;
    *sp++ = v;
    NEXT;
}
op_list_new:
    *sp++ = cel_list_value(cel_list_new(&run->arena, ip->c));
    NEXT;
op_append : {
    struct cel_val v = cel_slow_append(run, sp[-2], sp[-1], ip->a);
    sp--;
    sp[-1] = v;
    if (v.kind == CEL_ERROR) {
        if (run->work > DRAY_CEL_WORK_MAX)
            goto over;
        JUMP(ip->c);
    }
    NEXT;
}
op_map_new:
    *sp++ = cel_map_value(cel_map_new(&run->arena, ip->c));
    NEXT;
op_put : {
    struct cel_val v = cel_slow_put(run, p, sp - 3, ip->a);
    sp -= 2;
    sp[-1] = v;
    if (v.kind == CEL_ERROR) {
        if (run->work > DRAY_CEL_WORK_MAX)
            goto over;
        JUMP(ip->c);
    }
    NEXT;
}
op_struct:
    sp[-1] = cel_message_make(run, p->messages.p[ip->c].message, sp[-1].map);
    if (sp[-1].kind == CEL_ERROR)
        sp[-1] = cel_slow_placed(run, p, PC, sp[-1]);
    NEXT;
op_cost:
    CHARGE(ip->b);
    NEXT;
op_opt_or:
    if (unlikely(sp[-1].kind != CEL_OPTIONAL)) {
        sp[-1] = not_bool(sp[-1]);
        JUMP(ip->c);
    }
    if (sp[-1].opt) {
        if (ip->op == CEL_I_OPT_OR_VALUE)
            sp[-1] = *sp[-1].opt;
        JUMP(ip->c);
    }
    sp--;
    NEXT;
op_iter : {
    struct cel_val range = sp[-1];
    if (unlikely(range.kind != CEL_LIST && range.kind != CEL_MAP)) {
        if (range.kind != CEL_ERROR)
            sp[-1] = cel_slow_placed(run, p, PC, cel_slow_not_iterable(run, range, ip->a));
        JUMP(ip[1].c);
    }
    sp--;
    slots[ip->c] = range;
    slots[ip->c + SLOT_AT] =
        (struct cel_val){.n = range.kind == CEL_LIST ? range.list->n : range.map->n};
    NEXT_WORD;
}
op_next : {
    struct cel_val *loop = &slots[ip->c];
    uint64_t at = loop[SLOT_AT].u;
    if (at >= loop[SLOT_AT].n)
        JUMP(ip[1].c);
    loop[SLOT_AT].u = at + 1;
    if (unlikely(++run->iterations >= INTERRUPT_EVERY)) {
        run->iterations = 0;
        if (run->cancel && *run->cancel) {
            result = cel_slow_fatal(run, "operation interrupted");
            goto finish;
        }
    }
    if (loop->kind == CEL_LIST) {
        loop[SLOT_VAR] = ip->a ? cel_int((int64_t)at) : loop->list->items[at];
        if (ip->a)
            loop[SLOT_VAR2] = loop->list->items[at];
    } else {
        loop[SLOT_VAR] = loop->map->entries[at].key;
        loop[SLOT_VAR2] = loop->map->entries[at].value;
    }
    NEXT_WORD;
}
op_accu : {
    struct cel_val v = p->constants.p[ip[1].c];
    slots[ip->c] = v.kind == CEL_LIST || v.kind == CEL_MAP ? cel_slow_opened(run, v) : v;
    NEXT_WORD;
}
op_store:
    slots[ip->c] = *--sp;
    NEXT;
op_loop_if:
    sp--;
    if (sp[0].kind == CEL_BOOL && !sp[0].b)
        JUMP(ip->c);
    NEXT;
op_all_if : {
    const struct cel_val *v = &slots[ip[1].c];
    CHARGE(ip->b);
    if (v->kind == CEL_BOOL && !v->b)
        JUMP(ip->c);
    CHARGE(ip->a);
    NEXT_WORD;
}
op_exists_if : {
    const struct cel_val *v = &slots[ip[1].c];
    CHARGE(ip->b);
    if (v->kind == CEL_BOOL && v->b)
        JUMP(ip->c);
    CHARGE(ip->a);
    NEXT_WORD;
}
op_fold_and : {
    struct cel_val *v = &slots[ip->c];
    sp--;
    *v = logic_and(*v, sp[0]);
    JUMP(ip[1].c);
}
op_fold_or : {
    struct cel_val *v = &slots[ip->c];
    sp--;
    *v = logic_or(*v, sp[0]);
    JUMP(ip[1].c);
}
op_close:
    if (sp[-1].kind == CEL_LIST || sp[-1].kind == CEL_MAP)
        sp[-1] = cel_slow_closed(run, sp[-1]);
    NEXT;
over:
    result = cel_slow_fatal(run, "operation cancelled: actual cost limit exceeded");
    goto finish;
finish:
    run->cost = cost;
    if (!batch)
        return result;
    // The next device: reset everything that an evaluation changes.
    for (;;) {
        vm_note_result(batch, turn, result);
        if (++turn == batch->n)
            return result;
        d = batch->devices[turn];
        if (likely(turn + AHEAD < batch->n)) {
            __builtin_prefetch(batch->devices[turn + AHEAD]);
            __builtin_prefetch((const char *)batch->devices[turn + AHEAD] + 256);
        }
        if (likely(d->failure.kind != CEL_ERROR))
            break;
        result = d->failure;
    }
    if (unlikely(run->arena.used_bytes))
        arena_reset(&run->arena);
    cost = 0;
    run->work = 0;
    run->iterations = 0;
    sp = run->stack;
    ip = code;
    goto *labels[ip->op];
}
