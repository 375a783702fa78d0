// SPDX-License-Identifier: Apache-2.0
//
// Times as Kubernetes writes them: metav1.Time in whole seconds (2026-11-15T12:00:00Z) and
// MicroTime with six digits. Reading takes any RFC 3339 form, as Go does; writing is always UTC.
#ifndef CODEC_RFC3339_H
#define CODEC_RFC3339_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

// A moment: seconds since 1970-01-01T00:00:00Z, and nanoseconds within that second.
struct moment {
    int64_t sec;
    int32_t nsec; // 0..999999999
};

// rfc3339_parse reads the whole of text. Years 0000 to 9999; offsets up to 24 hours; a leap second
// (:60) is refused, as Go refuses it; fractions may have any number of digits, nine count.
// Returns 0 or -ERR_INVALID.
int rfc3339_parse(struct str text, struct moment *ret, struct err *err) MUST_USE;

// rfc3339_write_seconds and rfc3339_write_micros add the UTC form; finer digits are cut off. The
// moment must lie in the years 0000 to 9999.
void rfc3339_write_seconds(struct moment m, struct sbuf *out);
void rfc3339_write_micros(struct moment m, struct sbuf *out);

// rfc3339_write_nanos adds the UTC form with as many digits as needed, none if it is whole
// (Go's RFC3339Nano).
void rfc3339_write_nanos(struct moment m, struct sbuf *out);

// moment_from_ns and moment_cmp: from nanoseconds since 1970; by time.
struct moment moment_from_ns(int64_t ns);
int moment_cmp(struct moment a, struct moment b);

#endif
