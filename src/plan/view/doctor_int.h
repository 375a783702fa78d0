// SPDX-License-Identifier: Apache-2.0
//
// What the checks of `dray doctor` share: doctor.c has those of slices, drivers, classes and
// claims, doctor_state.c those of nodes, devices and pods.
#ifndef PLAN_DOCTOR_INT_H
#define PLAN_DOCTOR_INT_H

#include "plan/doctor.h"

// One check: counts, and reports the result.
struct doctor_look {
    struct doctor *d;
    const struct inventory *inv;
    struct moment now;
    const char *check;
    size_t told;
};

// doctor_has_room reports whether one more finding of a check is shown, and counts it.
bool doctor_has_room(struct doctor_look *l);
void doctor_begin_check(struct doctor_look *l, const char *check);

// doctor_end_check adds good when there was no finding, or how many were left out.
void doctor_end_check(struct doctor_look *l, const char *good);

void doctor_check_nodes(struct doctor_look *l);
void doctor_check_devices(struct doctor_look *l);
void doctor_check_pods(struct doctor_look *l);

#endif
