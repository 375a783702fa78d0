// SPDX-License-Identifier: Apache-2.0
//
// The syntax tree. Nodes live in one arena, know their position (code points from the start) and,
// after the check, their type, the overloads a call may take, and the constant an identifier means.
#ifndef CEL_FRONT_AST_H
#define CEL_FRONT_AST_H

#include "cel/front/type.h"
#include "cel/value.h"

struct cel_overload;

enum cel_node_kind {
    CEL_N_ERROR, // what a syntax error leaves behind
    CEL_N_LITERAL,
    CEL_N_IDENT,
    CEL_N_SELECT,
    CEL_N_CALL,
    CEL_N_LIST,
    CEL_N_MAP,
    CEL_N_STRUCT,
    CEL_N_FOLD,
};

// What the cost estimator knows about a value's size; max UINT64_MAX is "any".
struct cel_range {
    uint64_t min;
    uint64_t max;
};

// Sizes of the entries of a list or map.
struct cel_entry_range {
    enum cel_tkind container; // CEL_T_LIST or CEL_T_MAP; CEL_T_ERROR when nothing is known
    struct cel_range key;
    struct cel_range value;
};

struct cel_node;

struct cel_nodes {
    struct cel_node **p;
    uint32_t n;
};

struct cel_node_call {
    struct str function;
    struct cel_node *target; // NULL for a global call
    struct cel_nodes args;
};

struct cel_node_select {
    struct cel_node *operand;
    struct str field;
    bool test_only; // has()
};

struct cel_node_entries {
    struct str type_name;   // struct only
    struct cel_node **keys; // map only
    struct str *fields;     // struct only
    struct cel_node **values;
    bool *optional;
    uint32_t *pos;
    uint32_t n;
};

struct cel_node_list {
    struct cel_nodes elems;
    bool *optional; // NULL when none is
};

// range → for each element: while condition, accu = step → result. var2 empty: one variable.
struct cel_node_fold {
    struct str var, var2, accu;
    struct cel_node *range, *init, *condition, *step, *result;
};

struct cel_node {
    enum cel_node_kind kind;
    uint32_t pos;
    uint16_t height;        // depth of the parse tree below, as upstream's visitor counts it
    bool constant_ref;      // value is known when the program is made
    bool own_fold;          // upstream computes it at run time only: it is no constant to its rules
    uint16_t constant_cost; // what upstream counts for it all the same
    const struct cel_type *type;
    struct cel_val value; // literal; or the constant behind an identifier (constant_ref)
    const struct cel_overload *const *overloads; // candidates of a call after the check
    uint32_t overload_count;
    bool sized; // size is set
    struct cel_range size;
    struct cel_entry_range entry;
    const struct cel_path *path; // estimator
    union {
        struct str ident;
        struct cel_node_select select;
        struct cel_node_call call;
        struct cel_node_list list;
        struct cel_node_entries entries;
        struct cel_node_fold fold;
    };
};

// Operators are calls of functions with these names.
#define CEL_OP_AND          "_&&_"
#define CEL_OP_OR           "_||_"
#define CEL_OP_NOT          "!_"
#define CEL_OP_NEG          "-_"
#define CEL_OP_COND         "_?_:_"
#define CEL_OP_INDEX        "_[_]"
#define CEL_OP_OPT_INDEX    "_[?_]"
#define CEL_OP_OPT_SELECT   "_?._"
#define CEL_OP_IN           "@in"
#define CEL_OP_NOT_STRICTLY "@not_strictly_false"
#define CEL_ACCU            "@result"
#define CEL_ACCU_OLD        "__result__"
#define CEL_UNUSED_VAR      "#unused"
#define CEL_MAP_INSERT      "cel.@mapInsert"

struct cel_node *cel_node_new(struct arena *a, enum cel_node_kind kind, uint32_t pos);
struct cel_node *cel_node_literal(struct arena *a, uint32_t pos, struct cel_val v);
struct cel_node *cel_node_ident(struct arena *a, uint32_t pos, struct str name);
struct cel_node *cel_node_call(struct arena *a, uint32_t pos, struct str function,
                               struct cel_node *target, struct cel_nodes args);

// cel_nodes_of makes an argument list of one, two or three nodes (NULL ends it early).
struct cel_nodes cel_nodes_of(struct arena *a, struct cel_node *x, struct cel_node *y,
                              struct cel_node *z);

// cel_node_copy copies a whole tree.
struct cel_node *cel_node_copy(struct arena *a, const struct cel_node *n);

#endif
