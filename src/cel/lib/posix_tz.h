// SPDX-License-Identifier: Apache-2.0
//
// The rule at the end of a TZif file, such as CET-1CEST,M3.5.0,M10.5.0/3.
#ifndef CEL_LIB_POSIX_TZ_H
#define CEL_LIB_POSIX_TZ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

// cel_posix_tz_offset computes the seconds east of UTC at an instant; false: no rule, or bad.
bool cel_posix_tz_offset(struct str rule, int64_t unix_seconds, int64_t *ret);

#endif
