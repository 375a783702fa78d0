// SPDX-License-Identifier: Apache-2.0
//
// The kernel's network interfaces: listing and changing them in any network namespace, by netlink.
// The kernel's message on a refusal is part of the error. A socket belongs to one thread at a time;
// it stays in the namespace it was opened in, whatever its thread does later.
#ifndef DRIVER_NET_NET_LINK_H
#define DRIVER_NET_NET_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "driver/net/net_plan.h"

// --- Namespaces ----------------------------------------------------------------------------------

// Identifies a namespace for as long as it lives.
struct net_ns_id {
    uint64_t device, inode;
};

// net_ns_open opens a namespace by a path (/proc/1/ns/net) into *ret_fd. Returns 0 or -errno.
int net_ns_open(const char *path, int *ret_fd, struct err *err) MUST_USE;
int net_ns_id(int fd, struct net_ns_id *ret, struct err *err) MUST_USE;

// net_ns_find opens the namespace of an id, if a process is in it (pid is tried first) or a file of
// /run/netns names it. proc is /proc. Returns 0 or -ERR_NOT_FOUND.
int net_ns_find(const char *proc, struct net_ns_id id, int pid, int *ret_fd,
                struct err *err) MUST_USE;

// net_ns_enter moves this thread into a namespace; *ret_back is for net_ns_leave, which does not
// fail.
int net_ns_enter(int fd, int *ret_back, struct err *err) MUST_USE;
void net_ns_leave(int back);

// --- Sockets -------------------------------------------------------------------------------------

struct net_sock;

// net_sock_open opens a socket in a namespace; -1: the thread's.
int net_sock_open(int ns_fd, struct net_sock **ret, struct err *err) MUST_USE;
void net_sock_free(struct net_sock *s);

// --- Reading -------------------------------------------------------------------------------------

struct net_link {
    int index;
    char name[IFNAMSIZ];
    char kind[32];    // veth, macvlan, …; empty: of a driver of hardware
    struct str alias; // in the arena
    struct net_mac mac;
    struct net_mac permanent; // n 0: it has none
    uint32_t mtu;
    uint32_t sizes[NET_SIZES];
    unsigned flags;        // IFF_UP, IFF_LOOPBACK, …
    uint16_t hardware;     // ARPHRD_…
    uint8_t state;         // IF_OPER_…
    int parent;            // interface below, 0: none
    int master;            // bridge, bond or VRF it belongs to
    bool parent_elsewhere; // in another namespace
};
struct net_links VEC(struct net_link);

struct net_address {
    int index;
    struct net_ip ip;
    uint8_t scope;
    bool permanent; // not by DHCP or router advertisements
};
struct net_addresses VEC(struct net_address);

// A route of the tables but local; gateway family 0: directly reachable.
struct net_known_route {
    int index;
    struct net_route route;
    uint8_t protocol; // RTPROT_…
};
struct net_known_routes VEC(struct net_known_route);

// net_links_read and the others fill lists from arena. Return 0 or -errno.
int net_links_read(struct net_sock *s, struct arena *arena, struct net_links *ret,
                   struct err *err) MUST_USE;
int net_addresses_read(struct net_sock *s, struct arena *arena, struct net_addresses *ret,
                       struct err *err) MUST_USE;
int net_routes_read(struct net_sock *s, struct arena *arena, struct net_known_routes *ret,
                    struct err *err) MUST_USE;

// net_link_state is the name of an operational state as `ip` has it, net_link_encapsulation that of
// a kind of hardware. Static storage.
const char *net_link_state(uint8_t state);
const char *net_link_encapsulation(uint16_t hardware);

// --- Changing ------------------------------------------------------------------------------------

// Changes of an interface; members that are 0, empty or NULL stay as they are.
struct net_change {
    const char *name;
    const char *alias; // "" takes it away
    const struct net_mac *mac;
    uint32_t mtu;
    uint32_t sizes[NET_SIZES];
    bool up, down;
    int master; // -1: none any more
    int ns_fd;  // moved there when moves
    bool moves;
};

int net_link_change(struct net_sock *s, int index, const struct net_change *c,
                    struct err *err) MUST_USE;

// A new interface. It may be made in another namespace than its parent or peer, which are of s.
struct net_new {
    const char *kind; // veth, macvlan, ipvlan, vlan, vrf, bridge, dummy, …
    const char *name;
    const char *alias;
    const struct net_mac *mac;
    uint32_t mtu;
    int parent;
    const char *peer; // of veth
    const char *peer_alias;
    uint16_t vlan;
    uint32_t vrf_table;
    int ns_fd;
    bool elsewhere; // in ns_fd
};

int net_link_add(struct net_sock *s, const struct net_new *n, struct err *err) MUST_USE;

// net_link_delete removes an interface; that there is none is fine.
int net_link_delete(struct net_sock *s, int index, struct err *err) MUST_USE;

// These add; an existing entry is success.
int net_address_add(struct net_sock *s, int index, const struct net_ip *ip,
                    struct err *err) MUST_USE;
int net_route_add(struct net_sock *s, int index, const struct net_route *r,
                  struct err *err) MUST_USE;
int net_rule_add(struct net_sock *s, const struct net_rule *r, struct err *err) MUST_USE;
int net_neighbor_add(struct net_sock *s, int index, const struct net_neighbor *n,
                     struct err *err) MUST_USE;

// net_programs_drop takes away what tc runs on an interface: the clsact qdisc with its filters.
int net_programs_drop(struct net_sock *s, int index, struct err *err) MUST_USE;

#endif
