// SPDX-License-Identifier: Apache-2.0
//
// Percent-encoding (RFC 3986): of URLs and their queries, of gRPC's messages, of names in headers.
#ifndef CODEC_PERCENT_H
#define CODEC_PERCENT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

// percent_decode decodes a part of a URL; form: a plus sign is a space, as in queries. *ret is s
// itself if nothing is encoded, else in arena. False when a percent sign is not followed by two
// hexadecimal digits; *ret is untouched then.
bool percent_decode(struct str s, bool form, struct arena *arena, struct str *ret);

// percent_decode_lenient keeps percent signs that begin nothing. The result is in arena.
struct str percent_decode_lenient(struct str s, struct arena *arena);

// percent_encode adds s to out; bytes that are not plain are encoded.
void percent_encode(struct str s, bool (*plain)(unsigned char c), struct sbuf *out);

// percent_unreserved: letters, digits and "-_.~", which no part of a URL encodes.
bool percent_unreserved(unsigned char c);

#endif
