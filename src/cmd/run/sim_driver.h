// SPDX-License-Identifier: Apache-2.0
//
// The driver of simulated devices beside an agent: a process of its own, so that what registers is
// what would register on any node.
#ifndef CMD_RUN_SIM_DRIVER_H
#define CMD_RUN_SIM_DRIVER_H

#include <stdbool.h>

#include "base/exec.h"

struct sim_driver_keeper;

struct sim_driver {
    const char *verb;     // who starts it, for messages; a literal
    const char *profiles; // by commas
    const char *node;
    const char *kubeconfig;
    const char *data_dir; // the agent's: plugins, plugins_registry and cdi below it
    bool as_node;         // with a node's rights: no classes, no pools beside the node's, no Lease
};

// sim_driver_keep starts it, and again, after growing waits, whenever it ends; it never outlives
// the calling thread, which must be that of exec. sim_driver_drop, on the same thread, ends it and
// waits, for a few seconds: one that does not end is killed. NULL is fine.
struct sim_driver_keeper *sim_driver_keep(struct exec *exec, const struct sim_driver *d);
void sim_driver_drop(struct sim_driver_keeper *k);

#endif
