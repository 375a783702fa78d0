// SPDX-License-Identifier: Apache-2.0
//
// What people are told; shared by report.c and explain.c.
#ifndef SCHED_EXPLAIN_REPORT_H
#define SCHED_EXPLAIN_REPORT_H

#include "sched/core/sched_int.h"

// report_make asks every node and groups the answers. The caller frees the report before anything
// changes.
struct alloc_report *report_make(struct attempt *a);

#endif
