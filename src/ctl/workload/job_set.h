// SPDX-License-Identifier: Apache-2.0
//
// Sets of indexes of a Job, as spans: as large as the text they are read from or the pods they are
// made of, never as large as the number of completions, which is the user's to choose.
#ifndef CTL_WORKLOAD_JOB_SET_H
#define CTL_WORKLOAD_JOB_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

struct job_span {
    uint64_t first, last;
};

// Sorted, without overlap, once it was tidied; job_set_add leaves that to job_set_tidy. Everything
// is in an arena. Zeroed, it is empty.
struct job_set VEC(struct job_span);

// job_set_read reads a text such as 1,3-5. Indexes that are not below limit, and what is not a
// number, are left out.
struct job_set job_set_read(struct str text, uint64_t limit, struct arena *arena);

// job_set_write is the text of a tidy set.
struct str job_set_write(const struct job_set *set, struct arena *arena);

void job_set_add(struct job_set *set, uint64_t index, struct arena *arena);
void job_set_add_all(struct job_set *set, const struct job_set *more, struct arena *arena);
void job_set_tidy(struct job_set *set);

// These take tidy sets.
bool job_set_has(const struct job_set *set, uint64_t index);
uint64_t job_set_count(const struct job_set *set);
uint64_t job_set_count_both(const struct job_set *a, const struct job_set *b);

// job_set_gap is the lowest index that is not in the set.
uint64_t job_set_gap(const struct job_set *set);

#endif
