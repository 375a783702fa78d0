// SPDX-License-Identifier: Apache-2.0
//
// Bytecode: a stack machine over cel_val. Instructions are eight bytes; some are followed by a
// second word with a jump target. The cost that upstream would count is part of the instructions.
#ifndef CEL_CODE_CODE_H
#define CEL_CODE_CODE_H

#include <stdatomic.h>

#include "base/map.h"
#include "base/vec.h"
#include "cel/cel.h"
#include "cel/front/ast.h"
#include "cel/front/decl.h"
#include "cel/lib/pattern.h"
#include "cel/regex.h"

enum cel_op {
    CEL_I_RETURN,
    CEL_I_CONST,       // c: constant; b: cost
    CEL_I_DEVICE,      // push the device as a map; b: cost
    CEL_I_DRIVER,      // b: cost
    CEL_I_MULTI,       // b: cost
    CEL_I_PATH,        // c: path (two qualifiers behind attributes or capacity); b: cost
    CEL_I_PATH_HAS,    // has() of such a path
    CEL_I_PATH_OPT,    // .?name: an optional
    CEL_I_PATH_MAP,    // c: path; the inner map of a domain
    CEL_I_DRIVER_EQ,   // c: constant short ASCII text: driver == text; b: cost of the driver
    CEL_I_PATH_EQ,     // c: path; next word c: such a constant: path == text
    CEL_I_LOCAL,       // c: slot; b: cost
    CEL_I_LAZY,        // c: slot; b: cost; next word c: code that computes it
    CEL_I_LAZY_RETURN, // c: slot
    CEL_I_LAZY_RESET,  // c: slot
    CEL_I_LAZY_TOUCH,  // c: slot; b: what computing it costs the first time
    CEL_I_VAR,         // c: variable; b: cost
    CEL_I_BEGIN,       // unwrap an optional root; next word c: end of the attribute
    CEL_I_QUAL,        // c: constant key; a: optional; next word c: end of the attribute
    CEL_I_QUAL_DYN,    // key on the stack; a: optional; next word c: end
    CEL_I_TEST,        // has(): c: constant key; next word c: end
    CEL_I_END,         // b: cost (16 bits, signed); a: 1 for has()
    CEL_I_ERROR_JUMP,  // a: values below to drop with it; c: target
    CEL_I_AND_TEST,    // c: target when false
    CEL_I_AND,
    CEL_I_OR_TEST,
    CEL_I_OR,
    CEL_I_COND, // c: else; next word c: end, for a condition that is no bool
    CEL_I_JUMP,
    CEL_I_CALL, // c: call
    CEL_I_EQ,
    CEL_I_NE,
    CEL_I_EQ_CONST, // c: constant on the right
    CEL_I_LT_CONST, // a: whether the cost is by size; c: constant on the right
    CEL_I_LE_CONST,
    CEL_I_GT_CONST,
    CEL_I_GE_CONST,
    CEL_I_LT, // a: whether the cost is by size
    CEL_I_LE,
    CEL_I_GT,
    CEL_I_GE,
    CEL_I_NOT,
    CEL_I_NOT_STRICTLY,
    CEL_I_IN_SET, // c: set
    CEL_I_LIST,   // c: count
    CEL_I_LIST_NEW,
    CEL_I_APPEND, // to the list below; a: the value is an optional; c: where errors go
    CEL_I_MAP_NEW,
    CEL_I_PUT,    // into the map below key and value; a: optional; c: where errors go
    CEL_I_STRUCT, // c: message; makes it of the map of its fields
    CEL_I_COST,   // b: cost alone
    CEL_I_OPT_OR, // c: end
    CEL_I_OPT_OR_VALUE,
    CEL_I_ITER,    // c: slot of the iterator; a: two variables; next word c: end
    CEL_I_NEXT,    // c: slot; a: two variables; next word c: exit
    CEL_I_ACCU,    // c: slot; next word c: constant to start from
    CEL_I_STORE,   // c: slot
    CEL_I_LOOP_IF, // c: exit unless the condition holds
    CEL_I_ALL_IF,  // c: exit; next word c: slot; b: cost: all()'s condition in one
    CEL_I_EXISTS_IF,
    CEL_I_FOLD_AND, // a: slot is c: accumulator && value; next word c: where the loop goes on
    CEL_I_FOLD_OR,
    CEL_I_CLOSE, // the result of a comprehension stops being open
    CEL_I_OPS,
};

struct cel_ins {
    uint8_t op;
    uint8_t a;
    uint16_t b;
    uint32_t c;
};

// A path into a device: attributes or capacity, domain, name.
struct cel_path_ref {
    bool capacity;
    struct str domain;
    struct str name;
    uint64_t hash; // of domain and name, see cel_path_hash
    uint64_t domain_hash;
};

struct cel_call {
    cel_fn impl;
    uint8_t args;
    uint8_t cost; // enum cel_cost
    uint8_t work; // enum cel_work
    bool takes_string;
    uint8_t zero_kind;                // kind of the sum of nothing
    uint16_t walked;                  // kinds of containers that the call walks, a bit each
    const struct cel_overload *guard; // the arguments must fit this overload; NULL: any
    struct str name;
    const struct cel_regex *regex; // compiled constant pattern, or NULL
    struct cel_pattern pattern;    // instead of regex, when it is a simple one
};

// A list of constants that `in` tests against: text by hash, the rest one by one.
struct cel_set {
    struct cel_list *items;
    uint32_t mask;
    uint32_t *index; // strings by hash, item number + 1
};

struct cel_message_code {
    const struct cel_message *message;
    struct str *fields;
    uint32_t n;
};

struct cel_program {
    struct arena arena;
    atomic_uint owners;
    uint64_t serial; // distinguishes programs that had the same address
    struct str source;
    const struct cel_type *type;
    uint64_t min_cost, max_cost;
    bool runnable;
    bool selector;     // the result must be a bool
    bool derived;      // the result must be an attribute's value
    bool strict_rules; // generic: follow the specification where Kubernetes is more lenient
    struct cel_inss VEC(struct cel_ins) code;
    struct cel_positions VEC(uint32_t) positions; // of each instruction
    struct cel_vals VEC(struct cel_val) constants;
    struct cel_paths VEC(struct cel_path_ref) paths;
    struct cel_calls VEC(struct cel_call) calls;
    struct cel_sets VEC(struct cel_set) sets;
    struct cel_messages VEC(struct cel_message_code) messages;
    struct cel_regexes MAP(struct cel_regex *) regexes; // constant patterns by text, owned
    struct cel_names VEC(struct str) variables;
    uint64_t used; // which of the first 64 variables occur
    uint32_t slots;
    uint32_t stack;
};

uint64_t cel_path_hash(struct str domain, struct str name);

// cel_call_cost is what upstream charges for a call with these arguments and this result.
uint64_t cel_call_cost(const struct cel_call *call, const struct cel_val *args,
                       struct cel_val result);

// cel_fits reports whether a value is of a type, as far as upstream looks: the kind, and of a list
// or map the first element.
bool cel_fits(const struct cel_type *t, struct cel_val v);

struct cel_source;

// cel_generate emits the code of a checked (or, in generic environments, merely parsed) tree.
// Returns 0 or -ERR_INTERNAL with upstream's planning error.
int cel_generate(const struct cel_env *env, const struct cel_source *source, struct cel_program *p,
                 struct cel_node *root, struct err *err) MUST_USE;

#endif
