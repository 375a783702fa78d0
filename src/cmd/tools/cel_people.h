// SPDX-License-Identifier: Apache-2.0
//
// dray cel for people: what an expression is, and which devices it matches.
#ifndef CMD_TOOLS_CEL_PEOPLE_H
#define CMD_TOOLS_CEL_PEOPLE_H

#include <stdbool.h>

#include "base/str.h"

// cel_people_check prints type and estimate, or what is wrong with the expression. VERB_*.
int cel_people_check(struct str expr, bool new_rules);

// cel_people_match prints which devices of the ResourceSlices in a file match. VERB_*.
int cel_people_match(struct str expr, const char *file, bool new_rules);

#endif
