// SPDX-License-Identifier: Apache-2.0
//
// Literals of protobuf's well-known messages, which are plain CEL values.
#ifndef CEL_MESSAGE_H
#define CEL_MESSAGE_H

#include "cel/env.h"
#include "cel/run.h"

// cel_message_make turns the map of a message literal's fields into its value, or an error.
struct cel_val cel_message_make(struct cel_run *run, const struct cel_message *m,
                                const struct cel_map *fields);

#endif
