// SPDX-License-Identifier: Apache-2.0
//
// All nodes as packing sees them, and the choice of one for a pod's claims. A fleet knows what is
// left on every node, counts requests, and names nodes for a question, the best first.
// Whether one will really do is the allocator's to say (alloc_solve); the fleet never keeps a node
// from being asked unless it is certain that it cannot serve.
//
// Nodes that cannot be distinguished are one class; what is known about a question on a class is
// kept until prices change, so that a choice costs little more than a look at a number for each
// class of equal nodes. One thread; deterministic.
#ifndef ALLOC_FLEET_H
#define ALLOC_FLEET_H

#include "alloc/alloc.h"
#include "alloc/fleet/worth.h"

// Requests of a question that are looked at, and questions that are remembered.
#define FLEET_WANTS     4
#define FLEET_QUESTIONS 512

struct fleet;

struct fleet_node {
    struct worth_state state;
    int64_t cpu_all;
    int64_t memory_all;
};

// What a pod asks for.
struct fleet_question {
    uint64_t hash;
    int64_t cpu;    // thousandths
    int64_t memory; // bytes
    struct worth_request wants[FLEET_WANTS];
    size_t wants_len;
    bool loose; // wants do not tell all
};

// Another rule than worth. score: the higher the better; equal scores go by order. ranks: which
// unit first, 0 is the best; NULL: the allocator decides. devices: the same for each device of the
// node's view. They are called only where the question fits.
struct fleet_rule {
    int64_t (*score)(void *arg, uint32_t node, const struct fleet_node *n,
                     const struct fleet_question *q);
    void (*ranks)(void *arg, uint32_t node, const struct fleet_node *n,
                  const struct fleet_question *q, uint16_t rank[WORTH_UNITS]);
    void (*devices)(void *arg, uint32_t node, uint32_t devices, uint16_t *rank);
    void *arg;
    bool by_state; // nodes with the same state have the same score
};

struct fleet_options {
    const struct fleet_rule *rule; // NULL: by worth; borrowed
    // view gives what a node sees, now; NULL: it cannot be seen.
    const struct alloc_view *(*view)(void *arg, uint32_t node);
    void *view_arg;
    struct alloc_meter *meter; // what selectors may cost; NULL: whatever they cost
};

struct fleet *fleet_new(const struct fleet_options *options);
void fleet_free(struct fleet *f);

struct fleet_room {
    uint32_t order; // among equals the lower first
    int64_t cpu, cpu_all;
    int64_t memory, memory_all;
};

// fleet_set sets the state of a node; view may be NULL: it has no devices, or none that are known.
// fleet_gone forgets it.
void fleet_set(struct fleet *f, uint32_t node, const struct fleet_room *room,
               const struct alloc_view *view);
void fleet_gone(struct fleet *f, uint32_t node);

// fleet_set_state is fleet_set for a node of whose devices the caller knows the state, a hash
// (index_state): nodes in the same state have equal views up to names, so that one is looked at for
// all of them.
void fleet_set_state(struct fleet *f, uint32_t node, const struct fleet_room *room, uint64_t state);

// fleet_hash is a hash of what claims request, for any pod.
uint64_t fleet_hash(const struct api_resource_claim *const *claims, size_t claims_len);

// fleet_ask makes a question the present one. hash is of what the claims ask for. Lives in the
// fleet until others push it out. When the meter refused an evaluation meanwhile the question must
// be asked again before it is used.
struct fleet_question *fleet_ask(struct fleet *f, uint64_t hash,
                                 const struct api_resource_claim *const *claims, size_t claims_len,
                                 int64_t cpu, int64_t memory);

// fleet_learn counts the present question so many times; fleet_settle makes prices of that now
// instead of some time later.
void fleet_learn(struct fleet *f, double times);
void fleet_settle(struct fleet *f);

// fleet_start begins to name nodes for the present question, fleet_next names the next one; false:
// no other may do. fleet_score is that of the one just named: by worth, 0 is the least loss there
// can be, INT64_MIN where the model sees no room.
void fleet_start(struct fleet *f);
bool fleet_next(struct fleet *f, uint32_t *ret_node);
int64_t fleet_score(const struct fleet *f);

// fleet_crowded reports whether some node lacks the processors or the memory for the present
// question.
bool fleet_crowded(const struct fleet *f);

// fleet_refused remembers that the allocator found nothing on a node for the present question;
// where states are set (fleet_set_state), on all nodes like it.
void fleet_refused(struct fleet *f, uint32_t node);

// fleet_at sets on which node the next solve is; UINT32_MAX: on none that the fleet should mind.
// fleet_loss is what it then answers to the allocator (alloc_options.loss; arg is the fleet).
void fleet_at(struct fleet *f, uint32_t node);
bool fleet_loss(void *arg, const struct alloc_view *view, uint32_t request, uint16_t *ret);

// fleet_node_at and fleet_worth let others look.
const struct fleet_node *fleet_node_at(const struct fleet *f, uint32_t node);
const struct worth *fleet_worth(const struct fleet *f);

#endif
