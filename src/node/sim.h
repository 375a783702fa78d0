// SPDX-License-Identifier: Apache-2.0
//
// Nodes that exist only in the API: made from profiles, with the slices their drivers would
// publish, and a kubelet's part played for their pods: one that is bound runs, one that is deleted
// stops, one of a Job succeeds after its run time. Devices that have to be attached are. So a whole
// control plane can be tried on a machine without devices. What exists already is kept: a second
// start continues where the first one was.
#ifndef NODE_SIM_H
#define NODE_SIM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/exec.h"
#include "client/client.h"
#include "driver/profile.h"

// A pod's annotation: how long it runs on a simulated node, as 90s or 1h30m.
#define POD_RUN_TIME "dray.dev/run-time"

struct sim_nodes;

struct sim_options {
    struct client *client; // borrowed, as the profiles
    struct exec *exec;     // the client's
    struct profile *const *profiles;
    size_t profiles_len;
    size_t nodes;      // of each profile
    size_t min_digits; // of the number in a node's name; 0: 1
    // How long pods of Jobs run that have no annotation; 0: until they are deleted.
    int64_t job_run_time_ns;
    // ready is called once, when everything has been made; err is NULL, or the first failure.
    void (*ready)(void *arg, const struct err *err);
    void *arg;
};

struct sim_nodes *sim_nodes_new(const struct sim_options *options);

// sim_nodes_start makes the nodes. Returns 0 or -ERR_… when a profile does not work.
int sim_nodes_start(struct sim_nodes *s, struct err *err) MUST_USE;
void sim_nodes_free(struct sim_nodes *s);

struct sim_stats {
    size_t nodes;
    size_t slices;
    size_t devices;
    size_t classes;
};

void sim_nodes_stats(const struct sim_nodes *s, struct sim_stats *ret);

#endif
