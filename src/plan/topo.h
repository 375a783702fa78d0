// SPDX-License-Identifier: Apache-2.0
//
// How near devices of a node are to each other, as far as their attributes tell.
#ifndef PLAN_TOPO_H
#define PLAN_TOPO_H

#include "plan/inventory.h"

// From near to far.
enum topo_near {
    TOPO_SELF,
    TOPO_PART,    // made of the same counters: partitions of one piece of hardware
    TOPO_LINK,    // of one clique of fast links
    TOPO_PCIE,    // behind one PCIe root
    TOPO_NUMA,    // of one NUMA node
    TOPO_SOCKET,  // of one socket, in different NUMA nodes
    TOPO_SYSTEM,  // known to be farther apart
    TOPO_UNKNOWN, // their attributes do not tell
    TOPO_LEVELS,
};

// topo_word: X, PART, LINK, PHB, NODE, SOCK, SYS, ?; topo_meaning explains it. Static storage.
const char *topo_word(enum topo_near n);
const char *topo_meaning(enum topo_near n);

struct topo {
    uint32_t *devices; // in the inventory, by NUMA node, PCIe root and as published
    size_t n;
    uint32_t *folded; // by device: so many others are parts of the same hardware and left out
    uint8_t *near;    // enum topo_near, n times n
    struct str *pcie, *numa, *socket; // by device; empty: not known
};

// topo_find looks at the devices of a node; it lives in arena. Of devices that are parts of one
// piece of hardware the first stands for all, unless all are requested. Returns 0 or
// -ERR_NOT_FOUND.
int topo_find(const struct inventory *inv, struct str node, bool all, struct arena *arena,
              struct topo *ret, struct err *err) MUST_USE;

#endif
