// SPDX-License-Identifier: Apache-2.0
//
// The requests that a remedy consists of.
#ifndef CMD_WHY_WHY_STEP_H
#define CMD_WHY_WHY_STEP_H

#include "base/arena.h"
#include "base/vec.h"
#include "cmd/cluster.h"
#include "codec/json.h"

struct why_step {
    const char *method;
    struct str target, body;
    const char *type; // of the body
    struct str text;  // for people
    struct str path;  // wait until this object is gone; empty: do not wait
    struct str uid;   // … with this UID
};

struct why_steps VEC(struct why_step);

struct why_plan {
    struct cluster *c;
    const yyjson_val *explanation;
    struct arena arena;
    struct why_steps steps;
    bool pod_again; // the pod has to be made anew, for its claims have changed
    bool pod_made;  // … and is, by one of the steps
};

// why_plan_make finds the requests for a remedy, reading the objects they change. why_plan_run
// sends them. why_plan_done in any case.
int why_plan_make(struct why_plan *p, const yyjson_val *remedy, struct err *err) MUST_USE;
int why_plan_run(struct why_plan *p, struct err *err) MUST_USE;
void why_plan_done(struct why_plan *p);

#endif
