// SPDX-License-Identifier: Apache-2.0
//
// Taking apart what a node has left on its machine: containers, namespaces, mounts, control groups,
// the bridge. For a node whose agent does not run.
#ifndef NODE_TEARDOWN_H
#define NODE_TEARDOWN_H

#include "node/agent.h"

struct node_teardown {
    size_t containers, pods; // that were there
};

// node_teardown stops and removes all pods of an agent's data directory; of the options it uses
// those of the runtime. Images and records of claims stay. It blocks. grace_ns: between the stop
// signal and the kill. Returns 0; -ERR_CONFLICT (an agent runs there), -ERR_UNSUPPORTED (not root,
// no runtime) or the first failure.
int node_teardown(const struct agent_options *options, int64_t grace_ns, struct node_teardown *ret,
                  struct err *err) MUST_USE;

#endif
