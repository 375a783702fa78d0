// SPDX-License-Identifier: Apache-2.0
//
// Functions, their overloads and the environments that pick from them. The registry of all known
// functions is built once and never changes; an environment is a filter over it plus variables and
// functions of its own.
#ifndef CEL_FRONT_DECL_H
#define CEL_FRONT_DECL_H

#include "cel/front/type.h"
#include "cel/value.h"

enum cel_lib {
    CEL_LIB_STD,
    CEL_LIB_STRINGS,
    CEL_LIB_OPTIONAL,
    CEL_LIB_SETS,
    CEL_LIB_LISTS,
    CEL_LIB_TWO_VARS,
    CEL_LIB_QUANTITY,
    CEL_LIB_SEMVER,
    CEL_LIB_NET,
    CEL_LIB_FORMAT,
    CEL_LIB_URLS,
    CEL_LIB_REGEX,
    CEL_LIB_K8S_LISTS,
    CEL_LIB_AUTHZ,
    CEL_LIB_USER, // declared by the caller
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): it reads as a row of the table
struct cel_decl_row {
    const char *function;
    uint8_t lib;
    uint8_t since; // 1.since
    const char *id;
    bool member;
    const char *signature;
};

extern const struct cel_decl_row cel_decl_rows[];
extern const size_t cel_decl_row_count;

// How a call is charged, at run time and in the estimate. The first group is chosen by overload id
// and comes first, the second by function name (Kubernetes' own estimator), the rest by overload
// id again (cel-go's).
enum cel_cost {
    CEL_COST_ONE,
    // ext.Lists and ext.Sets
    CEL_COST_SLICE,
    CEL_COST_RANGE,
    CEL_COST_REVERSE,
    CEL_COST_FLATTEN,
    CEL_COST_DISTINCT,
    CEL_COST_SORT,
    CEL_COST_SORT_TEXT,
    CEL_COST_SORT_BY,
    CEL_COST_SORT_BY_TEXT,
    CEL_COST_SETS,
    CEL_COST_SETS_TWICE,
    // Kubernetes
    CEL_COST_TRAVERSE,
    CEL_COST_PARSE_SIZED, // url: the estimate also knows the result's size
    CEL_COST_TRANSFORM,   // lowerAscii…
    CEL_COST_REPLACE,
    CEL_COST_SPLIT,
    CEL_COST_JOIN,
    CEL_COST_FIND,
    CEL_COST_PARSE, // cidr, quantity…
    CEL_COST_CANONICAL,
    CEL_COST_CONTAINS_IP,
    CEL_COST_CONTAINS_CIDR,
    CEL_COST_VALIDATE,
    CEL_COST_NOMINAL,
    CEL_COST_CHECK,
    CEL_COST_SELECTOR,
    // cel-go
    CEL_COST_AFFIX, // startsWith, endsWith
    CEL_COST_STRING_TO_BYTES,
    CEL_COST_BYTES_TO_STRING,
    CEL_COST_QUOTE,
    CEL_COST_FORMAT,
    CEL_COST_IN_LIST,
    CEL_COST_COMPARE,
    CEL_COST_EQUALS,
    CEL_COST_CONCAT,
    CEL_COST_CONCAT_LIST,
    CEL_COST_MATCHES,
    CEL_COST_CONTAINS,
    CEL_COST_LOGIC,
    CEL_COST_CONDITIONAL,
    CEL_COST_INDEX_LIST,
    CEL_COST_INDEX_MAP,
};

struct cel_run; // an evaluation in progress

// cel_fn is an implementation: n arguments, target first. It checks the kinds of its arguments and
// answers a value or an error value.
typedef struct cel_val (*cel_fn)(struct cel_run *run, const struct cel_val *args, unsigned n);

enum { CEL_ARGS_MAX = 5 };

// In place of a kind: everything fits.
#define CEL_KIND_ANY 255

struct cel_overload {
    struct cel_function *function;
    struct str id;
    uint8_t lib;
    uint8_t since;
    bool member;
    bool takes_string; // containsIP(string) and the like parse their argument
    uint8_t args;
    uint8_t type_params;
    uint8_t cost; // enum cel_cost by overload id, CEL_COST_ONE when the function decides
    const struct cel_type *arg[CEL_ARGS_MAX];
    const struct cel_type *result;
    // enum cel_kind that surely fits an argument; CEL_KINDS: look closer.
    uint8_t arg_kind[CEL_ARGS_MAX];
};

struct cel_function {
    struct str name;
    cel_fn impl;    // NULL: declared only
    uint8_t cost;   // enum cel_cost by function name, or CEL_COST_ONE
    bool singleton; // upstream binds one implementation for all overloads
    uint32_t count;
    struct cel_overload *overloads;
};

// cel_function_find looks a name up in the registry; NULL when unknown.
const struct cel_function *cel_function_find(struct str name);

// cel_impl_find gives the implementation of a function, NULL when it has none (see lib.c).
cel_fn cel_impl_find(struct str function);

#endif
