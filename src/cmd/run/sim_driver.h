// SPDX-License-Identifier: Apache-2.0
//
// The driver of simulated devices beside an agent: a process of its own, so that what registers is
// what would register on any node.
#ifndef CMD_RUN_SIM_DRIVER_H
#define CMD_RUN_SIM_DRIVER_H

#include <stdbool.h>

#include <sys/types.h>

struct sim_driver {
    const char *verb;     // who starts it, for messages
    const char *profiles; // by commas
    const char *node;
    const char *kubeconfig;
    const char *data_dir; // the agent's: plugins, plugins_registry and cdi below it
    bool as_node;         // with a node's rights: no classes, no pools beside the node's, no Lease
};

// sim_driver_start starts it; 0: it could not be, which was reported. sim_driver_stop ends it and
// waits.
pid_t sim_driver_start(const struct sim_driver *d);
void sim_driver_stop(pid_t pid);

#endif
