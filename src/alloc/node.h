// SPDX-License-Identifier: Apache-2.0
//
// Node selectors: which nodes something is for.
#ifndef ALLOC_NODE_H
#define ALLOC_NODE_H

#include <stdbool.h>

#include "api/types.h"
#include "base/err.h"

// node_matches says whether a node name, all-nodes flag or selector picks the node. Returns 1, 0, or
// -ERR_INVALID for a selector that cannot be read.
int node_matches(const struct api_node *node, struct str name, bool all,
                 const struct api_node_selector *selector, struct err *err) MUST_USE;

// node_only_name is the name of the one node that a selector can pick, empty when it may pick others.
struct str node_only_name(const struct api_node_selector *selector);

#endif
