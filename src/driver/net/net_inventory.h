// SPDX-License-Identifier: Apache-2.0
//
// Which network devices a node has to give: interfaces of the host that nothing depends on, and
// those that can be made on demand; with the attributes that DRANET publishes. A pure function of
// what the kernel and the records say.
#ifndef DRIVER_NET_NET_INVENTORY_H
#define DRIVER_NET_NET_INVENTORY_H

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "driver/net/net_link.h"
#include "driver/net/net_record.h"
#include "driver/net/net_sysfs.h"

#define NET_OFFERS_MAX  64
#define NET_DEVICES_MAX 1024

// What can be made: count interfaces of a kind, or one for each VLAN number.
struct net_offer {
    struct str kind;   // veth, macvlan, ipvlan, vlan
    struct str parent; // interface below; of veth: a bridge, or empty
    uint32_t count;
    uint16_t vlan_first, vlan_last;
};
struct net_offers VEC(struct net_offer);

// net_offer_parse reads KIND[:PARENT][=N], vlan:PARENT=FIRST[-LAST]. Returns 0 or -ERR_INVALID.
int net_offer_parse(const char *text, struct net_offer *ret, struct err *err) MUST_USE;

struct net_patterns VEC(const char *);

struct net_filter {
    struct net_patterns only; // patterns of names; empty: all
    struct net_patterns skip;
    struct net_patterns allow; // given away although something may depend on it
    struct net_offers offers;
};

struct net_device {
    struct str name;   // as published
    struct str kind;   // NET_KIND_MOVE, or of the offer
    struct str parent; // of the offer
    uint16_t vlan;
    const struct net_link *link; // NULL: it is made, or in a pod
    struct net_hardware hardware;
    struct str attributes; // JSON object: attributes of a resource.k8s.io Device
};
struct net_devices VEC(struct net_device);

// The kernel's view of a namespace.
struct net_view {
    struct net_links links;
    struct net_addresses addresses;
    struct net_known_routes routes;
    const char *sys;
    const struct net_pci_names *names;
};

// net_view_read fills a view from a namespace; sys and names are the caller's.
int net_view_read(int ns, struct arena *arena, struct net_view *ret, struct err *err) MUST_USE;

// net_inventory lists devices by name, in arena. Those of records are listed as they were
// published, wherever they are. Interfaces of the view are pointed to.
void net_inventory(const struct net_view *view, const struct net_filter *filter,
                   const struct net_records *records, struct arena *arena, struct net_devices *ret);

// net_why_not is the reason why an interface is not offered; NULL: it is. Static storage.
const char *net_why_not(const struct net_view *view, const struct net_filter *filter,
                        const struct net_link *link);

#endif
