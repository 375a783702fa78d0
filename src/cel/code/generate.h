// SPDX-License-Identifier: Apache-2.0
//
// Shared state of the code generator's files: generate.c walks the tree, gen_call.c makes calls,
// gen_fold.c computes constants, gen_path.c knows the device.
#ifndef CEL_CODE_GENERATE_H
#define CEL_CODE_GENERATE_H

#include "cel/code/code.h"
#include "cel/env.h"

struct cel_local {
    const struct cel_local *outer;
    struct str name;
    uint32_t slot;
    bool lazy;
    uint32_t code;       // lazy: where its value is computed
    uint32_t lazy_stack; // and how deep the stack gets there
    bool alias;          // stands for one of the device's inner maps, known by path
    bool capacity;
    struct str domain;
};

struct cel_ends VEC(uint32_t);

struct cel_gen {
    const struct cel_env *env;
    struct cel_program *p;
    struct arena *scratch;
    const struct cel_source *source;
    const struct cel_local *locals;
    struct err *err;
    struct cel_run *run; // to compute constants with
    uint32_t pos;
    uint32_t depth;
    bool failed;
};

void cel_gen_fail(struct cel_gen *g, const char *fmt, ...) ERR_PRINTF(2, 3);
uint32_t cel_gen_emit(struct cel_gen *g, enum cel_op op, unsigned a, int b, uint32_t c);

// cel_gen_push accounts for values pushed (or, negative, popped) by what was emitted.
void cel_gen_push(struct cel_gen *g, int by);
uint32_t cel_gen_constant(struct cel_gen *g, struct cel_val v);

// cel_gen_expr emits an expression evaluated for itself; cel_gen_resolve one used as an index,
// where an attribute's own step is not charged.
void cel_gen_expr(struct cel_gen *g, struct cel_node *n);
void cel_gen_resolve(struct cel_gen *g, struct cel_node *n);

// cel_gen_is_conditional reports whether an attribute's root is ?:, so that its code has several
// ends.
bool cel_gen_is_conditional(const struct cel_node *n);

void cel_gen_call(struct cel_gen *g, struct cel_node *n);

// cel_gen_device_path emits a whole attribute of the device as one instruction, if n is one.
bool cel_gen_device_path(struct cel_gen *g, const struct cel_node *n, bool resolve);

// cel_gen_device_prefix emits n as the beginning of a longer attribute, if it is one of the
// device's maps or values.
bool cel_gen_device_prefix(struct cel_gen *g, const struct cel_node *n);

// cel_gen_alias reports whether n is one of the device's inner maps by constant domain; fills l.
bool cel_gen_alias(struct cel_gen *g, const struct cel_node *n, struct cel_local *l);

// cel_fold marks what is constant, bottom up: constant_ref, value, constant_cost.
void cel_fold(struct cel_gen *g, struct cel_node *n);

// cel_gen_impl finds the function of a call, and its overload if only one applies.
const struct cel_function *cel_gen_function(struct cel_gen *g, struct cel_node *n,
                                            const struct cel_overload **ret_only);
uint8_t cel_gen_cost(const struct cel_function *f, const struct cel_overload *only);

#endif
