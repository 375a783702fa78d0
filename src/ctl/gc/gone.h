// SPDX-License-Identifier: Apache-2.0
//
// UIDs of objects that are known to be gone, the newest GONE_MAX of them: caches of several kinds
// are not of the same moment, and asking the server costs a call.
#ifndef CTL_GC_GONE_H
#define CTL_GC_GONE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "base/str.h"

enum { GONE_MAX = 1000 };

struct gone_map MAP(bool);

// Zeroed, it is empty.
struct gone {
    struct gone_map uids; // keys belong to ring
    char *ring[GONE_MAX];
    size_t next;
};

void gone_add(struct gone *g, struct str uid);
bool gone_has(const struct gone *g, struct str uid);
void gone_done(struct gone *g);

#endif
