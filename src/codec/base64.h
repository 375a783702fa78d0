// SPDX-License-Identifier: Apache-2.0
//
// Base64 (RFC 4648): the standard alphabet with padding, and the URL-safe one without, as JSON web
// tokens use it. Decoding is strict but for line ends, which the standard form skips as Go does.
#ifndef CODEC_BASE64_H
#define CODEC_BASE64_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum base64_form { BASE64_STD, BASE64_URL };

void base64_encode(struct str bytes, enum base64_form form, struct sbuf *out);

// base64_decode adds the decoded bytes to out. Returns 0, or -ERR_INVALID naming the first bad
// byte's offset; then out is as before.
int base64_decode(struct str text, enum base64_form form, struct sbuf *out,
                  struct err *err) MUST_USE;

#endif
