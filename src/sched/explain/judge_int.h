// SPDX-License-Identifier: Apache-2.0
//
// Shared by judge.c (filters) and judge_preempt.c (what follows when no node fits).
#ifndef SCHED_EXPLAIN_JUDGE_INT_H
#define SCHED_EXPLAIN_JUDGE_INT_H

#include "codec/json_writer.h"
#include "sched/core/sched_int.h"

struct judged_node {
    struct sched_node *node;
    int64_t rank;             // of the alternatives that its devices are
    struct refusals refusals; // none: it will do
};

void judge_write_reasons(struct json_writer *w, const struct refusals *all);
struct str judge_code(const struct refusals *all);

// judge_preempt writes preemption and message if none of the nodes, which are sorted by name, will
// do. judge_write_refused: the same for a pod that a plugin refused as a whole.
void judge_preempt(struct attempt *a, const struct judged_node *all, size_t n,
                   struct json_writer *w);
void judge_write_refused(struct attempt *a, struct json_writer *w, struct str plugin,
                         struct str reason);

#endif
