// SPDX-License-Identifier: Apache-2.0
//
// Numbers, durations and timestamps as text, both ways, with Go's spelling.
#ifndef CEL_TEXT_H
#define CEL_TEXT_H

#include "base/str.h"

struct cel_ip;

// cel_text_double adds the shortest text that reads back as d (Go's %g).
void cel_text_double(double d, struct sbuf *out);

// cel_text_read_double reads what Go's ParseFloat reads; false when it is no number or overflows.
bool cel_text_read_double(struct str s, double *ret);

// cel_text_duration adds seconds with an 's' (protobuf's JSON form, what string(duration) gives).
void cel_text_duration(int64_t nanos, struct sbuf *out);

// cel_text_read_duration reads Go's notation: "1h2m3.5s", "-1.5h", "0".
bool cel_text_read_duration(struct str s, int64_t *ret_nanos);

// Timestamps are RFC 3339; reading accepts any offset and up to nine digits of fraction.
// The offset a text was written with stays with the value and shows again when it is printed.
void cel_text_timestamp(int64_t seconds, uint32_t nanos, int offset_minutes, struct sbuf *out);
bool cel_text_read_timestamp(struct str s, int64_t *ret_seconds, uint32_t *ret_nanos,
                             int *ret_offset_minutes);

// cel_text_ip adds the canonical form. cel_text_read_ip reads as Go's netip.ParseAddr, without
// zones; *ret_why gets upstream's reason when it fails (may be NULL).
void cel_text_ip(const struct cel_ip *ip, struct sbuf *out);
bool cel_text_read_ip(struct str s, struct cel_ip *ret, const char **ret_why);

#endif
