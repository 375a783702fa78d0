// SPDX-License-Identifier: Apache-2.0
//
// From a decision to a bound pod, and the calls of the client that are under way.
#ifndef SCHED_BIND_BIND_H
#define SCHED_BIND_BIND_H

#include "sched/core/sched_int.h"

// --- bind.c --------------------------------------------------------------------------------------

// bind_start reserves what the attempt found on node n and starts to write.
void bind_start(struct attempt *a, struct sched_node *n);

// bind_claim_changed and bind_pod_gone: news for bindings under way.
void bind_claims_listed(struct sched *s); // the watch is beyond its list
void bind_claim_changed(struct sched *s, struct sched_claim *k);
void bind_pod_changed(struct sched *s, struct sched_pod *p);
void bind_drop_all(struct sched *s);

// bind_deallocate clears the allocation of a claim that keeps a pod from being placed (PostFilter).
// bind_leftovers takes back what an earlier attempt left of a pod: reservations and special claims.
// Either ends with the pod in the queue. bind_leftovers: false when there is nothing.
void bind_deallocate(struct sched *s, struct sched_pod *p, const struct typed_object *claim);
bool bind_leftovers(struct sched *s, struct sched_pod *p);

// --- calls.c -------------------------------------------------------------------------------------

// A call of the client under way. Its answer goes to done unless the scheduler is gone by then.
typedef void (*call_fn)(struct sched *s, void *arg, const struct client_answer *answer);

struct call {
    struct list_node node;
    struct sched *s; // NULL: gone
    call_fn done;    // NULL: ignored
    void *arg;
    char *owned; // freed with the call; may be arg
};

struct call *calls_begin(struct sched *s, call_fn done, void *arg);
void calls_on_answer(void *arg, const struct client_answer *answer); // the client_done_fn of calls

#endif
