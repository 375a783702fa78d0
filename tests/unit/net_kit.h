// SPDX-License-Identifier: Apache-2.0
//
// A host and pods for the network driver: network namespaces of processes that do nothing else. The
// test's own namespace is never touched. Needs root; net_kit_missing says what else is missing.
#ifndef UNIT_NET_KIT_H
#define UNIT_NET_KIT_H

#include <sys/types.h>

#include "driver/net/net_prepare.h"
#include "driver/sdk/outcome.h"
#include "os/fault.h"
#include "unit.h"

// A namespace that lives as long as its process, unless somebody holds it open.
struct kit_ns {
    pid_t pid;
    int fd;
};

struct kit {
    char top[64];
    char state[96];
    struct kit_ns host;
    struct net_filter filter;
    struct net_preparer preparer;
    struct arena arena;
    struct fault_hook hook;
    int steps, die_at, fail_at;
    char told[1024]; // reasons, each with a space behind it
};

// net_kit_missing is why tests of this kind cannot run here; NULL: they can.
const char *net_kit_missing(void);
// kit_can says whether the kernel can make interfaces of a kind.
bool kit_can(const char *kind);

void kit_ns_new(struct kit_ns *ns);
void kit_ns_end(struct kit_ns *ns);

// kit_new: a host with the interfaces nic0 and eth1 (ends of veth pairs, the others being nic0-far and
// eth1-far) and the bridge br0. nic0 is up, has the
// addresses 10.7.0.2/24 and 2001:db8:7::2/64, two routes to 10.8.0.0/16 and the MTU 1400.
struct kit *kit_new(void);
void kit_free(struct kit *k);

// kit_claim is a claim for devices, which end with NULL, each with the same parameters (NULL: none).
const struct dray_claim *kit_claim(struct kit *k, const char *uid, const char *parameters,
                                   const char *const *devices);
int kit_prepare(struct kit *k, const struct dray_claim *claim, struct err *err);
int kit_attach(struct kit *k, const struct dray_claim *claim, const struct kit_ns *pod,
               struct err *err);
int kit_unprepare(struct kit *k, const struct dray_claim *claim, struct err *err);

// kit_link finds an interface of a namespace by name. Returns false when there is none.
bool kit_link(struct kit *k, const struct kit_ns *ns, const char *name, struct net_link *ret);
// kit_has_address: text is "10.0.0.1/24".
bool kit_has_address(struct kit *k, const struct kit_ns *ns, const char *name, const char *text);
bool kit_has_route(struct kit *k, const struct kit_ns *ns, const char *name, const char *network,
                   const char *gateway);
// kit_show is everything about the interfaces of a namespace as text, to be compared.
const char *kit_show(struct kit *k, const struct kit_ns *ns);
// kit_change changes an interface of a namespace; it must work.
void kit_change(struct kit *k, const struct kit_ns *ns, const char *name, struct net_change c);
void kit_add(const struct kit_ns *ns, const struct net_new *n);
size_t kit_records(struct kit *k);

#endif
