// SPDX-License-Identifier: Apache-2.0
//
// Ids of the host for pods with a user namespace: each has a range of its own, recorded in
// kubelet's file `userns` in the pod's directory. These files are all there is: what a pod has it
// keeps across restarts, for as long as it has a directory, and no other gets.
#ifndef NODE_LIMITS_ID_RANGES_H
#define NODE_LIMITS_ID_RANGES_H

#include <stdint.h>

#include "base/err.h"

#define ID_RANGE_LENGTH 65536u

struct id_ranges {
    uint32_t first, count; // the first id, and how many ranges follow it
};

// id_ranges_read reads the ranges of user `kubelet` from /etc/subuid and /etc/subgid; without an
// entry they are kubelet's default ones. Returns 0 or -ERR_INVALID.
int id_ranges_read(const char *subuid, const char *subgid, uint32_t pods_max, struct id_ranges *ret,
                   struct err *err) MUST_USE;

// id_ranges_assign answers the range of a pod below a directory of pods, and records it first where
// it is new. Returns 0, -ENOSPC when all are taken, or -errno.
int id_ranges_assign(const struct id_ranges *ranges, const char *pods, const char *uid,
                     uint32_t *ret, struct err *err) MUST_USE;

#endif
