// SPDX-License-Identifier: Apache-2.0
//
// Sets and positions of texts, with which checks find repeated names in lists without a bound.
#ifndef API_VALIDATE_SEEN_H
#define API_VALIDATE_SEEN_H

#include "base/map.h"

// struct seen is a set of texts, for lists without a bound. seen_add reports whether a text, which
// must live on, was there before. Zeroed, it is empty.
struct seen MAP(bool);

static inline bool seen_add(struct seen *s, struct str text)
{
    bool added;
    (void)map_put_new(s, text, &added);
    return !added;
}

static inline void seen_done(struct seen *s)
{
    map_done(s);
}
#define cleanup_seen cleanup_with(seen_done)

// struct positions maps a text to its index in a list without a bound.
struct positions MAP(size_t);

static inline void positions_done(struct positions *p)
{
    map_done(p);
}
#define cleanup_positions cleanup_with(positions_done)

#endif
