// SPDX-License-Identifier: Apache-2.0
//
// One attempt at one pod.
#ifndef SCHED_CORE_CYCLE_H
#define SCHED_CORE_CYCLE_H

#include "sched/core/sched_int.h"

// --- cycle.c -------------------------------------------------------------------------------------

// cycle_run tries the pod; it ends in the queue or in a binding.
void cycle_run(struct sched *s, struct sched_pod *p);

// cycle_begin and cycle_end enclose everything that looks at one pod. cycle_begin: as dra_begin.
enum dra_begin cycle_begin(struct sched *s, struct sched_pod *p, struct attempt *a);
void cycle_end(struct attempt *a);

// cycle_signature is equal for pods that get the same answer; 0: it is not known.
uint64_t cycle_signature(struct attempt *a);

// cycle_find looks for the best node; NULL: none, and a->whys, a->failed and a->text say why. With
// a verdict that is known nothing is looked for, and *ret_known is it.
struct sched_node *cycle_find(struct attempt *a, const struct verdict **ret_known);

// cycle_keep remembers the message of the pod, for its equals.
void cycle_keep(struct attempt *a, struct str message);

// cycle_give_up finds a claim whose allocation keeps the pod from other nodes and that no other pod
// uses (PostFilter); NULL: none.
const struct want *cycle_give_up(const struct attempt *a);

// cycle_gate puts the pod aside until something lifts the gate; the text is a->text.
void cycle_gate(struct attempt *a);

#endif
