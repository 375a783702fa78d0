// SPDX-License-Identifier: Apache-2.0
//
// Environments: which variables, functions, macros and rules an expression is compiled with. An
// environment does not change after its last cel_env_add_*; programs do not keep a pointer to it.
#ifndef CEL_ENV_H
#define CEL_ENV_H

#include "base/vec.h"
#include "cel/cel.h"
#include "cel/front/decl.h"

struct cel_variable {
    struct str name;
    const struct cel_type *type;
};

// What the cost estimator knows about the device: sizes by path.
struct cel_decl_size {
    uint64_t max;
    const struct cel_decl_size *key;
    const struct cel_decl_size *elem;
};

struct cel_env {
    struct arena arena;
    struct cel_env_options options;
    struct str container;
    unsigned minor; // overloads introduced later do not exist
    unsigned syntax;
    bool validators; // literals of mixed types and bad constants are refused
    bool includes;   // list attributes bring the function ahead of its version
    bool device;     // has the variable `device`
    struct cel_variables VEC(struct cel_variable) variables;
    struct cel_functions VEC(struct cel_function *) functions;
    const struct cel_type *device_type, *attributes_type, *capacity_type, *attribute_type;
    bool multi_alloc_field;
    const struct cel_struct *structs; // of the caller's
    size_t structs_len;
};

// cel_env_variable finds a declared variable by its full name.
const struct cel_variable *cel_env_variable(const struct cel_env *env, struct str name);

// cel_env_function finds a function that has at least one overload in this environment.
const struct cel_function *cel_env_function(const struct cel_env *env, struct str name);

// cel_env_has_overload reports whether an overload exists in this environment.
bool cel_env_has_overload(const struct cel_env *env, const struct cel_overload *o);

// cel_env_candidate writes the i-th name that `name` may stand for inside the container; false
// when there are no more. A leading dot means the plain name alone.
bool cel_env_candidate(const struct cel_env *env, struct arena *a, struct str name, size_t i,
                       struct str *ret);

// cel_env_named_type finds the type that an identifier names: int, google.protobuf.Duration…
const struct cel_type *cel_env_named_type(struct str name);

// cel_env_field gives the type of a field of a struct type; NULL when there is no such field.
// *ret_known reports whether the struct type is known at all.
const struct cel_type *cel_env_field(const struct cel_env *env, struct str type, struct str field,
                                     bool *ret_known);

// cel_message_fields gives the field table of a well-known message name (NULL: not one).
struct cel_message_field {
    const char *name;
    const struct cel_type *type;
};
struct cel_message {
    const char *name;
    const struct cel_type *type; // what the literal evaluates to
    const struct cel_message_field *fields;
    size_t count;
};
const struct cel_message *cel_message_find(struct str name);

#endif
