// SPDX-License-Identifier: Apache-2.0
//
// What LimitRanges give to containers that ask for nothing. Admission does it, and plans do.
#ifndef API_LIMITS_H
#define API_LIMITS_H

#include "api/types.h"
#include "base/arena.h"
#include "base/str.h"

// limits_default_pod adds what range gives to the containers of a new pod, in place, and lists them
// in added, which stays empty when there are none.
void limits_default_pod(struct api_pod *pod, const struct api_limit_range *range,
                        struct sbuf *added, struct arena *arena);

#endif
