// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 as RFC 3629: no surrogates, no over-long forms, nothing past U+10FFFF.
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define UTF8_REPLACEMENT 0xFFFDu

// utf8_decode reads one code point at s[off]; *ret_len gets its bytes (1..4). An invalid sequence
// yields UTF8_REPLACEMENT with length 1, as Go's range over a string does. off must be < s.n.
uint32_t utf8_decode(struct str s, size_t off, size_t *ret_len);

// utf8_decode_strict is utf8_decode that answers false on an invalid sequence.
bool utf8_decode_strict(struct str s, size_t off, uint32_t *ret_cp, size_t *ret_len);

// utf8_encode writes cp into out (4 bytes of room) and returns the length; an invalid code point
// is written as UTF8_REPLACEMENT.
size_t utf8_encode(uint32_t cp, char out[4]);

// utf8_valid reports whether the whole of s is valid; *ret_bad (if not NULL) gets the first bad
// offset.
bool utf8_valid(struct str s, size_t *ret_bad);

// utf8_count counts code points; an invalid byte counts as one.
size_t utf8_count(struct str s);

// utf8_printable reports whether Go's %q prints cp as itself: neither control, format, private,
// unassigned-by-range, surrogate, nor a space other than U+0020.
bool utf8_printable(uint32_t cp);

void sbuf_add_utf8(struct sbuf *b, uint32_t cp);

#endif
