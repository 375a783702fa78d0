// SPDX-License-Identifier: Apache-2.0
//
// The explanation of a pod, a claim or a group: shared by explain.c (pods),
// explain_claim.c and explain_group.c.
#ifndef SCHED_EXPLAIN_EXPLAIN_INT_H
#define SCHED_EXPLAIN_EXPLAIN_INT_H

#include "codec/json_writer.h"
#include "sched/explain/advice.h"
#include "sched/explain/cure.h"
#include "sched/explain/report.h"

// The explanation of a pod or group that waits.
struct told {
    struct advice advice;
    struct cures cures;
    struct sbuf cause;
    struct sbuf now;  // the whole, as JSON; empty: there is none
    struct sbuf text; // the same in words
};

void explain_verdict_done(struct told *t);

// explain_field adds a text, unless it is empty.
void explain_field(struct json_writer *w, const char *key, struct str value);

// explain_state is a word for where a pod stands.
const char *explain_state(const struct sched_pod *p);

// explain_attempt asks all nodes what they say to the pod of an attempt that has begun.
void explain_attempt(struct attempt *a, enum dra_begin begun, struct told *t);

// explain_group_fits looks whether the pods of a group that lacks some fit now, all at once. False:
// t has the reason.
bool explain_group_fits(struct sched *s, struct sched_group *g, struct told *t);

// explain_group_begin begins an object about a group; the caller ends it.
void explain_group_begin(struct json_writer *w, const struct sched_group *g);

// explain_pod and explain_claim add all as JSON, and what nodes say in words, if text is not NULL.
void explain_pod(struct sched *s, struct sched_pod *p, struct sbuf *out, struct sbuf *text);
void explain_claim(struct sched *s, struct sched_claim *k, struct sbuf *out, struct sbuf *text);
void explain_group(struct sched *s, struct sched_group *g, struct sbuf *out);

#endif
