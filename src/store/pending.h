// SPDX-License-Identifier: Apache-2.0
//
// Writes that were accepted and are not visible yet. A rule between objects must look at them,
// too: two writes of one commit do not see each other.
#ifndef STORE_PENDING_H
#define STORE_PENDING_H

#include "store/store.h"

// store_pending calls fn for each object of a kind that is being written, in order; not for
// removals. fn must not write.
void store_pending(const struct store *s, const struct api_kind *kind,
                   void (*fn)(void *arg, const struct object *o), void *arg);

#endif
