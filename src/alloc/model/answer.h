// SPDX-License-Identifier: Apache-2.0
//
// Evaluating expressions on devices, and the answers that are kept by kind of device.
#ifndef ALLOC_MODEL_ANSWER_H
#define ALLOC_MODEL_ANSWER_H

#include "alloc/model/cluster_int.h"

// answer_make_record makes the CEL record of a device; answer_device_record does so if there is
// none yet, NULL: it cannot be read. answer_eval_device evaluates a selector on it.
int answer_make_record(const struct alloc_cluster *c, const struct cl_device *d,
                       struct err *err) MUST_USE;
const struct cel_device *answer_device_record(const struct alloc_cluster *c,
                                              const struct cl_device *d);
bool answer_eval_device(const struct alloc_cluster *c, const struct cl_device *d,
                        struct cel_run *run, const struct cel_program *p, struct cel_result *ret);

// Answers of expressions by kind of device. answer_begin comes before the kinds of a cluster are
// numbered, and is their generation. hash is of what expressions can see; of attributes those that
// some expression reads.
struct answers *answer_cache_new(void);
void answer_cache_free(struct answers *a);
uint32_t answer_begin(struct answers *a);
struct device_kind *answer_kind_of(struct answers *a, uint64_t hash);

// answer_learn: answers of this expression are to be kept for clusters whose kinds tell so many
// attributes apart.
void answer_learn(struct answers *a, struct str expression, uint32_t reads);

// answer_set_of are those of an expression on devices of this cluster; NULL: none are kept. Good
// until the next answer_learn or answer_begin. answer_passing are those of a part of an expression,
// such as a term; good until the next answer_trim, which makes room, or answer_begin.
// answer_kept_set are one or the other.
struct answer_set;
struct answer_set *answer_set_of(const struct alloc_cluster *c, struct str expression);
struct answer_set *answer_passing(const struct alloc_cluster *c, struct str expression);
struct answer_set *answer_kept_set(const struct alloc_cluster *c, struct str expression);
void answer_trim(struct answers *a);

// answer_find is what is known; answer_make evaluates, charges the meter and keeps the answer, or
// returns MATCH_UNKNOWN: the meter has nothing left. answer_failure is the text of a known failure,
// or stands for one that is not kept; borrowed from the set. A failure is not evaluated again for
// its text: a question that does so for each of many nodes would use up every slice without getting
// further.
struct evaluator {
    struct cel_run *run;
    const struct cel_program *program;
    struct alloc_meter *meter; // may be NULL
};
enum match_state answer_find(const struct answer_set *s, const struct cl_device *d);
enum match_state answer_make(const struct alloc_cluster *c, struct answer_set *s,
                             const struct cl_device *d, const struct evaluator *e);
struct str answer_failure(const struct answer_set *s, const struct cl_device *d);

// cluster_judge_class fills in which devices a class takes, those that are not known yet. Clusters
// with a kit do so when a question names the class, at the expense of its meter. False: the meter
// has nothing left.
bool cluster_judge_class(const struct alloc_cluster *c, const struct cl_class *k,
                         struct cel_run *run, struct alloc_meter *meter);

// answer_charge counts an evaluation; meter_refuses: no other may be made, and remembers
// that one was wanted.
void answer_charge(struct alloc_meter *m, const struct cel_result *r);
static inline bool meter_refuses(struct alloc_meter *m)
{
    if (!m || m->left)
        return false;
    m->refused = true;
    return true;
}

#endif
