// SPDX-License-Identifier: Apache-2.0
//
// Numbers as people read them.
#ifndef VIEW_HUMAN_H
#define VIEW_HUMAN_H

#include <stdint.h>

#include "base/str.h"
#include "codec/json.h"
#include "codec/rfc3339.h"

// view_add_age adds how long ago an RFC 3339 time was, as kubectl does: 5s, 3m20s, 2d4h; <unknown>
// for what is not a time.
void view_add_age(struct sbuf *out, struct str since, struct moment now);

// view_add_duration adds a length of time the same way.
void view_add_duration(struct sbuf *out, int64_t seconds);

// view_add_bytes adds an amount with its binary unit, three digits at most: 512, 1.5Ki, 80Gi,
// 1023Mi.
void view_add_bytes(struct sbuf *out, uint64_t bytes);

// view_now is the time of day.
struct moment view_now(void);

#endif
