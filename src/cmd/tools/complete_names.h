// SPDX-License-Identifier: Apache-2.0
//
// Names for shell completion: of objects in the cluster, of devices, of simulated profiles.
#ifndef CMD_TOOLS_COMPLETE_NAMES_H
#define CMD_TOOLS_COMPLETE_NAMES_H

#include "base/str.h"

// complete_names_of gives the names of a kind (pods, nodes, devices, profiles, …) in the namespace
// of -n or the context. A cluster that does not answer within two seconds ends the process: a shell
// waits for it.
void complete_names_of(struct str kind, void (*add)(void *ctx, struct str name), void *ctx);

#endif
