// SPDX-License-Identifier: Apache-2.0
//
// Pods in wait: those whose turn it is, those that back off, those that no node fits, in a list for
// each reason, so that an event wakes those it can help and looks at no others. Private to
// src/sched.
#ifndef SCHED_CORE_QUEUE_H
#define SCHED_CORE_QUEUE_H

#include "base/exec.h"
#include "sched/core/cluster.h"

#define QUEUE_BACKOFF_FIRST_NS (1 * CLOCK_NS_PER_SEC)
#define QUEUE_BACKOFF_MAX_NS   (10 * CLOCK_NS_PER_SEC)
#define QUEUE_FLUSH_NS         (300 * CLOCK_NS_PER_SEC)

// What keeps pods from being placed, for people: the reasons of enum why, and gates.
enum queue_block { BLOCK_GATES = WHYS, BLOCK_GANG, QUEUE_BLOCKS };

struct queue {
    struct exec *exec;
    struct heap active;
    struct heap backoff;
    struct heap
        postponed; // in the order of active; their turns alternate with those of active pods
    struct list waiting[WHYS];
    size_t waiting_len, gated_len, binding_len;
    size_t blocked[QUEUE_BLOCKS]; // pods by what kept them last; until they are tried again
    uint64_t order;
    struct exec_timer backoff_timer;
    struct exec_timer flush_timer;
    void (*ready)(void *arg); // something became active
    void *arg;
};

void queue_init(struct queue *q, struct exec *exec, void (*ready)(void *arg), void *arg);
void queue_done(struct queue *q);

// Each takes the pod out of whatever it is in.
void queue_activate(struct queue *q, struct sched_pod *p);
void queue_gate(struct queue *q, struct sched_pod *p);
void queue_wait(struct queue *q, struct sched_pod *p, uint32_t whys);
void queue_retry(struct queue *q, struct sched_pod *p); // after its back-off, if that is not over
void queue_postpone(struct queue *q, struct sched_pod *p);
void queue_bind(struct queue *q, struct sched_pod *p);
void queue_leave(struct queue *q, struct sched_pod *p);

// queue_peek is the pod whose turn it is next, NULL: none.
const struct sched_pod *queue_peek(const struct queue *q);

// queue_pop takes the pod whose turn it is: highest priority, then first come. NULL: none.
struct sched_pod *queue_pop(struct queue *q);

// queue_pop_postponed takes the one that goes on: as with queue_pop, so that one which came later
// does not keep it from its end. NULL: none.
struct sched_pod *queue_pop_postponed(struct queue *q);

// queue_ready_len counts pods whose turn comes without anything else happening: active and
// postponed ones.
size_t queue_ready_len(const struct queue *q);

// queue_wake gives every pod that waits for one of these reasons its turn, after its back-off.
void queue_wake(struct queue *q, uint32_t whys);

#define WHY_BIT(w) (1U << (w))
#define WHY_ALL    ((1U << WHYS) - 1)

#endif
