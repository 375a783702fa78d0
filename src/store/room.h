// SPDX-License-Identifier: Apache-2.0
//
// How many bytes the accepted objects take, in all and by namespace, and whether a write fits: the
// bound of the database and the share of a namespace.
#ifndef STORE_ROOM_H
#define STORE_ROOM_H

#include "store/store.h"

// A write of one object may use the reserve beyond the bound, a sixteenth of it, if it adds at most
// this many bytes: finalizers are removed, leases renewed and states reported when all is full.
#define STORE_SMALL_GROWTH ((size_t)4 * 1024)

// store_room checks whether the database has room for o, the next version of its key. Writes that
// do not grow always fit. Returns 0, -ENOSPC (the database or its disk is full) or -ERR_FORBIDDEN
// (the namespace has its share).
int store_room(struct store *s, const struct object *o, struct err *err) MUST_USE;

// store_largest_namespaces fills ret with the namespaces that take the most bytes, largest first.
// Names are valid until the store changes. Returns how many there are, at most n.
struct store_namespace_bytes {
    struct str namespace;
    size_t bytes;
};
size_t store_largest_namespaces(const struct store *s, struct store_namespace_bytes *ret, size_t n);

#endif
