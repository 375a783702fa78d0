// SPDX-License-Identifier: Apache-2.0
//
// The hook that container runtimes call (OCI createRuntime) for containers with a network device:
// the container's state comes on its input, its process leads to the pod's network namespace.
#ifndef DRIVER_NET_HOOK_H
#define DRIVER_NET_HOOK_H

#include "base/err.h"
#include "base/str.h"

#define NET_HOOK_STATE_MAX ((size_t)1 << 20)

struct net_hook {
    const char *state_dir; // of the driver's records
    const char *uid;       // of the claim
    const char *device;
};

// net_hook_pid finds the container's process in its state (JSON). Returns 0 or -ERR_INVALID.
int net_hook_pid(struct str state, int *ret, struct err *err) MUST_USE;

// net_hook_run attaches the device to the pod of a container. Codes as net_attach.
int net_hook_run(const struct net_hook *h, struct str state, struct err *err) MUST_USE;

#endif
