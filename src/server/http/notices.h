// SPDX-License-Identifier: Apache-2.0
//
// What clients are warned of by kind: versions that go, and kinds that are stored but that this
// cluster does not act on.
#ifndef SERVER_HTTP_NOTICES_H
#define SERVER_HTTP_NOTICES_H

#include "api/table.h"
#include "base/arena.h"
#include "base/str.h"

// Empty texts: nothing to say.
struct notices {
    struct str deprecated; // on every request for this version
    struct str removed;    // the release that serves it no more: 1.40
    struct str unserved;   // on writes
};

// notices_of finds what is to be said of a kind; texts live as long as arena.
struct notices notices_of(const struct api_kind *kind, struct arena *arena);

#endif
