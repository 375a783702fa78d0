// SPDX-License-Identifier: Apache-2.0
//
// Type variables and what they stand for: assignability with unification, as cel-go's checker does
// it, with an undo trail instead of copied maps.
#ifndef CEL_FRONT_UNIFY_H
#define CEL_FRONT_UNIFY_H

#include "base/vec.h"
#include "cel/front/decl.h"
#include "cel/front/type.h"

struct cel_unifier {
    struct arena *arena;
    struct cel_subs VEC(const struct cel_type *) subs; // by variable; NULL: free
    struct cel_trail VEC(struct cel_undo {
        uint32_t var;
        const struct cel_type *old;
    }) trail;
};

// An overload's types with fresh variables in the place of its parameters.
struct cel_instance {
    const struct cel_type *arg[CEL_ARGS_MAX];
    const struct cel_type *result;
};

const struct cel_type *cel_fresh(struct cel_unifier *u);
struct cel_instance cel_instantiate(struct cel_unifier *u, const struct cel_overload *o);

// cel_assignable reports whether a fits b and keeps what it learnt about variables only if so.
bool cel_assignable(struct cel_unifier *u, const struct cel_type *a, const struct cel_type *b);
bool cel_assignable_list(struct cel_unifier *u, const struct cel_type *const *a,
                         const struct cel_type *const *b, size_t n);

const struct cel_type *cel_most_general(const struct cel_type *a, const struct cel_type *b);

// cel_substitute replaces bound variables; with to_dyn also the free ones, by dyn.
const struct cel_type *cel_substitute(const struct cel_unifier *u, const struct cel_type *t,
                                      bool to_dyn);

#endif
