// SPDX-License-Identifier: Apache-2.0
//
// The cost estimate: bounds on what upstream would count for any device, computed on the checked
// tree as cel-go's coster and Kubernetes' estimator do.
#ifndef CEL_COST_ESTIMATE_H
#define CEL_COST_ESTIMATE_H

#include "cel/env.h"
#include "cel/front/ast.h"

// cel_estimate returns the bounds; sums and products stop at UINT64_MAX. Uses arena for paths.
struct cel_range cel_estimate(const struct cel_env *env, struct arena *arena,
                              struct cel_node *root);

#endif
