// SPDX-License-Identifier: Apache-2.0
//
// What `dray up` tells people when it is ready and when it has stopped.
#ifndef CMD_UP_UP_CARD_H
#define CMD_UP_UP_CARD_H

#include "cmd/up/up_int.h"

// up_card_show prints where the cluster is, what it has, and commands to try.
void up_card_show(const struct up *u);

// up_card_show_end prints what was stopped, what is kept and what still runs.
void up_card_show_end(const struct up *u);

// up_card_check_profiles reports simulated nodes of profiles that are not asked for: an earlier
// start has made them, and nothing plays their part now.
void up_card_check_profiles(struct up *u);
void up_card_stop(struct up *u);

#endif
