// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with the devices of a cluster, and what to do about it.
#ifndef PLAN_DOCTOR_H
#define PLAN_DOCTOR_H

#include "base/vec.h"
#include "plan/inventory.h"

enum doctor_level {
    DOCTOR_GOOD,
    DOCTOR_WARN, // look at it
    DOCTOR_BAD,  // something does not work
};

struct doctor_finding {
    enum doctor_level level;
    const char *check; // pools, slices, drivers, classes, claims, devices, rules, …
    struct str what;
    struct str remedy; // empty where it is good
};

// Zeroed, it is empty.
struct doctor {
    struct arena arena;
    struct VEC(struct doctor_finding) findings;
};

void doctor_done(struct doctor *d);

// doctor_add_finding records a finding; remedy may be NULL.
void doctor_add_finding(struct doctor *d, enum doctor_level level, const char *check,
                        const char *remedy, const char *fmt, ...) ERR_PRINTF(5, 6);

// doctor_inspect makes all checks that need no more than the objects. Each check adds at least one
// finding.
void doctor_inspect(struct doctor *d, const struct inventory *inv, struct moment now);

// doctor_worst is the worst level of all findings.
enum doctor_level doctor_worst(const struct doctor *d);

#endif
