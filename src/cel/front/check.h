// SPDX-License-Identifier: Apache-2.0
//
// The type checker: gives every node a type, every call its candidate overloads, every name its
// declaration. And the rules beyond types that Kubernetes checks on literals.
#ifndef CEL_FRONT_CHECK_H
#define CEL_FRONT_CHECK_H

#include "cel/env.h"
#include "cel/front/ast.h"
#include "cel/source.h"

// cel_check checks a tree in place. False when it left issues.
bool cel_check(const struct cel_env *env, struct cel_source *source, struct cel_node *root);

// cel_resolve binds the names of a tree that is not checked: the longest dotted name that is a
// declared variable is that variable.
void cel_resolve(const struct cel_env *env, struct cel_source *source, struct cel_node *root);

// cel_validate checks literal arguments of duration(), timestamp(), matches() and format(), and
// that list and map literals hold one type. False when it left issues.
bool cel_validate(const struct cel_env *env, struct cel_source *source,
                  const struct cel_node *root);

#endif
