// SPDX-License-Identifier: Apache-2.0
//
// An answer for users who may not list slices and classes.
#ifndef CMD_DEVICES_OWN_CLAIMS_H
#define CMD_DEVICES_OWN_CLAIMS_H

#include "cmd/devices/device_verb.h"

// own_claims_answer says why there is no whole answer, prints the devices that claims of the own
// namespace hold, and closes the source. Returns one of VERB_*.
int own_claims_answer(const char *verb, struct device_source *s, const struct err *why);

#endif
