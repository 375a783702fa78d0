// SPDX-License-Identifier: Apache-2.0
//
// The output of `dray up`: how far it is, then where the pods of applied files went and what they
// got.
#ifndef CMD_UP_UP_WATCH_H
#define CMD_UP_UP_WATCH_H

#include "client/client.h"

// up_progress shows the current step: on a terminal in one line that changes, else in a line each.
// On standard error.
void up_progress(const char *fmt, ...) ERR_PRINTF(1, 2);

// up_progress_end leaves a terminal as it was before the first.
void up_progress_end(void);

// up_watch reports every pod when it gets its node, with the devices it got, and of those that
// wait, why. Free it before the client.
struct up_watch;
struct up_watch *up_watch_new(struct client *client);
void up_watch_free(struct up_watch *w);

#endif
