// SPDX-License-Identifier: Apache-2.0
//
// A scheduler's explanation of a pod or claim, for people.
#ifndef CMD_WHY_WHY_SHOW_H
#define CMD_WHY_WHY_SHOW_H

#include <stdbool.h>

#include "codec/json.h"

// What the events of a pod add to what its scheduler knows; empty: nothing.
struct why_event {
    struct str cause;
    struct sbuf advice; // one line
};

// why_show adds an explanation in words; fixes: remedies are marked that --fix can carry out.
// Returns whether it waits for something or does not run.
bool why_show(const yyjson_val *root, bool fixes, struct sbuf *out);

// why_show_needs_events: the scheduler knows that a claim of the pod is not there, the events know
// why.
bool why_show_needs_events(const yyjson_val *root);

// why_show_read_events finds the newest event with the reason why a claim of the pod could not be
// created. ret borrows from list.
void why_show_read_events(const yyjson_val *list, struct str namespace, struct why_event *ret);

#endif
