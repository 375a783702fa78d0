// SPDX-License-Identifier: Apache-2.0
//
// URLs as Go's net/url reads them with ParseRequestURI: absolute URIs and absolute paths.
#ifndef CEL_URL_H
#define CEL_URL_H

#include "cel/value.h"

struct cel_url {
    struct str scheme; // lower case
    struct str opaque;
    struct str user;     // as written, without '@'; has_user reports whether it is there
    struct str host;     // host or host:port, percent-decoded as Go does
    struct str path;     // decoded
    struct str raw_path; // as written, when its encoding is not the default one
    struct str query;    // as written, without '?'
    struct str fragment; // as written, without '#'
    bool has_user;
    bool force_query;
    bool omit_host;
};

// cel_url_valid reports whether text is what ParseRequestURI takes; the reason goes to err.
bool cel_url_valid(struct arena *a, struct str text, struct err *err);
bool cel_url_equal(const struct cel_url *a, const struct cel_url *b);
void cel_url_write(const struct cel_url *u, struct sbuf *out);
struct cel_val cel_url_copy(struct cel_val v, struct arena *a);

#endif
