// SPDX-License-Identifier: Apache-2.0
//
// Waiting for an object to go, for verbs that delete.
#ifndef CMD_OBJECTS_WAIT_H
#define CMD_OBJECTS_WAIT_H

#include "cmd/cluster.h"
#include "cmd/objects/objects.h"

// wait_gone waits until no object of this name has this UID (empty: none of the name is there).
// deadline_ns is on the loop's clock, 0: none. Returns 0, -ERR_TIMEOUT or the server's error.
int wait_gone(struct cluster *c, const struct target *t, struct str namespace, struct str uid,
              int64_t deadline_ns, struct err *err) MUST_USE;

#endif
