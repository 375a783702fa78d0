// SPDX-License-Identifier: Apache-2.0
//
// Source to syntax tree, macros expanded on the way.
#ifndef CEL_FRONT_PARSE_H
#define CEL_FRONT_PARSE_H

#include "cel/front/ast.h"
#include "cel/source.h"

// Which macros and syntax an environment has; see struct cel_env.
enum {
    CEL_SYNTAX_MACROS = 1 << 0,
    CEL_SYNTAX_OPTIONAL = 1 << 1, // .? [?] and optMap, optFlatMap
    CEL_SYNTAX_BIND = 1 << 2,
    CEL_SYNTAX_TWO_VARS = 1 << 3,
    CEL_SYNTAX_SORT_BY = 1 << 4,
    CEL_SYNTAX_QUOTED = 1 << 5,     // `field-name`
    CEL_SYNTAX_EXISTS_ONE = 1 << 6, // existsOne with one variable
};

#define CEL_RECURSION_MAX   250
#define CEL_CODE_POINTS_MAX 100000

// cel_parse reads the whole source. NULL when there are issues (in source->issues).
struct cel_node *cel_parse(struct cel_source *source, unsigned syntax);

// cel_macro_expand tries to expand a call; NULL when no macro of that name and shape exists. A
// macro with bad arguments leaves an issue and gives an error node.
struct cel_node *cel_macro_expand(struct cel_source *source, unsigned syntax, uint32_t pos,
                                  const struct cel_node_call *call);

#endif
