// SPDX-License-Identifier: Apache-2.0
//
// The inside of simulated nodes: what the files that create objects, run pods and attach devices
// share.
#ifndef NODE_MACHINE_SIM_INT_H
#define NODE_MACHINE_SIM_INT_H

#include "base/list.h"
#include "base/vec.h"
#include "client/informer.h"
#include "client/work.h"
#include "node/sim.h"

struct object_list VEC(struct api_object);

struct sim_nodes {
    struct sim_options options;
    struct arena arena; // of all objects, until they are made
    struct informer *pods, *claims;
    struct work *pod_work, *claim_work;
    struct list calls;
    struct object_list objects; // classes, then for each node the Node and its slices
    size_t next;
    size_t under_way;
    size_t left;
    struct sim_stats stats;
    struct exec_timer ready; // calls options.ready when there is nothing to create
    struct err first_error;
    bool failed;
    bool reported;
    bool attaches; // a device has binding conditions
};

// A write of an object, or a step for a pod or a claim; the owner may be gone when it ends.
struct sim_call {
    struct list_node node;
    struct sim_nodes *owner;
    struct work *work;
    size_t index; // in objects
    char *key;    // of a pod or a claim
};

struct sim_call *sim_call_new(struct sim_nodes *s);

// sim_call_take ends a call; the owner, or NULL when it is gone.
struct sim_nodes *sim_call_take(struct sim_call *c);

// sim_step_call is a call for a step of work; it ends with sim_on_step_done.
struct sim_call *sim_step_call(struct sim_nodes *s, struct work *work, struct str key);
void sim_on_step_done(void *arg, const struct client_answer *a);

const struct api_kind *sim_kind_of(const char *api_version, const char *kind);

// sim_is_simulated: the node has one of the profiles.
bool sim_is_simulated(const struct sim_nodes *s, struct str node);

// sim_has_driver: a pool of one of the profiles is of this driver.
bool sim_has_driver(const struct sim_nodes *s, struct str driver);

// Each creates its informer and queue; informers are started by sim_nodes_start.
void sim_pods_new(struct sim_nodes *s);
void sim_attach_new(struct sim_nodes *s);

#endif
