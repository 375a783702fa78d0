// SPDX-License-Identifier: Apache-2.0
//
// dray why for users who may not read the whole cluster: what their own objects say.
#ifndef CMD_WHY_WHY_LIMITED_H
#define CMD_WHY_WHY_LIMITED_H

#include "cmd/cluster.h"
#include "cmd/why/why_cluster.h"

// why_limited prints what a pod's or claim's own status says, and which kinds the user may not
// list. Returns one of VERB_*, or a negative code.
int why_limited(struct cluster *c, const struct why_question *q, struct err *err);

#endif
