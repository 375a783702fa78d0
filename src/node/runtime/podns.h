// SPDX-License-Identifier: Apache-2.0
//
// The namespaces of a pod, held by mounts of their files instead of a process: DIR/ns/net, ipc,
// uts, and user where it has its own. One process id namespace for the whole pod needs a process,
// `dray-monitor pause`, in DIR/ns/pid.
#ifndef NODE_RUNTIME_PODNS_H
#define NODE_RUNTIME_PODNS_H

#include <stdbool.h>

#include "base/err.h"
#include "node/runtime/runtime.h"

struct podns_options {
    const char *folder;
    const char *monitor; // for pause
    bool net, ipc, uts, pid;
    struct str hostname;        // of uts; empty: the host's
    struct runtime_users users; // the namespaces belong to a user namespace with these ids
    const struct runtime_pair *sysctls;
    size_t sysctls_len;
};

// podns_make makes missing namespaces; a new network namespace has its loopback up. It blocks,
// on a thread of its own. Returns 0, -ERR_INVALID (a sysctl) or -errno.
int podns_make(const struct podns_options *options, struct err *err) MUST_USE;

// podns_remove removes them and all mounts below folder; missing ones are success.
void podns_remove(const char *folder);

#endif
