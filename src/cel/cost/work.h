// SPDX-License-Identifier: Apache-2.0
//
// What an evaluation really does, beside upstream's cost (work.c).
#ifndef CEL_COST_WORK_H
#define CEL_COST_WORK_H

#include "cel/code/run.h"

// How a call's work follows from its arguments.
enum cel_work {
    CEL_WORK_ARGS,   // it looks at all of them
    CEL_WORK_LIGHT,  // at containers from outside only
    CEL_WORK_LOOKUP, // likewise, if the last argument is a map
};

// cel_work_classify sets what the call's work follows from, by the name of its function.
void cel_work_classify(struct cel_call *call);

// cel_weight is how many values and how much text there is in a value, parts that it has more than
// once counted each time.
uint64_t cel_weight(struct cel_val v);

// cel_work_add counts work that is about to be done. False: that is too much, do nothing.
static inline bool cel_work_add(struct cel_run *run, uint64_t work)
{
    run->work = work > UINT64_MAX - run->work ? UINT64_MAX : run->work + work;
    return run->work <= DRAY_CEL_WORK_MAX;
}

// These count the work of a call and of a comparison.
bool cel_work_call(struct cel_run *run, const struct cel_call *call, const struct cel_val *args);
bool cel_work_equal(struct cel_run *run, struct cel_val l, struct cel_val r);

// cel_work_write adds a value as error texts show it, as far as anybody reads.
void cel_work_write(struct cel_run *run, struct cel_val v, struct sbuf *out);

#endif
