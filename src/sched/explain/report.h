// SPDX-License-Identifier: Apache-2.0
//
// Conditions and events of pods, and why no node fits one.
#ifndef SCHED_EXPLAIN_REPORT_H
#define SCHED_EXPLAIN_REPORT_H

#include "sched/core/sched_int.h"

// report_line writes in one line why no node fits. report_write_whole is for a->tips: all there is
// to say as JSON and as text, the cause in one line. report_set_message sets any other message: one
// that is written already is not repeated, and a text that changes often is written every few
// seconds.
void report_line(struct attempt *a, struct sbuf *out);
void report_write_whole(struct attempt *a, struct sbuf *out, struct sbuf *cause, struct sbuf *text);
void report_init(struct sched *s);
void report_set_message(struct sched *s, struct sched_pod *p, const char *reason,
                        struct str message);

// report_gated reports what it is waiting for before it can be tried, unless that comes soon.
void report_gated(struct sched *s, struct sched_pod *p);
void report_event(struct sched *s, const struct typed_object *about, const char *type,
                  const char *reason, struct str message);

// report_bound writes the event of a pod that got its node, unless there were many just now.
void report_bound(struct sched *s, const struct typed_object *pod, struct str node);

#endif
