// SPDX-License-Identifier: Apache-2.0
//
// What a claim wants of a network interface in its pod: DRANET's NetworkConfig, read strictly from
// opaque parameters, checked, merged and kept as numbers the kernel understands. No I/O.
//
// Parameters of the class come first, those of the claim behind them: a single value of the later
// one replaces that of the earlier, lists are joined, equal entries count once.
#ifndef DRIVER_NET_NET_PLAN_H
#define DRIVER_NET_NET_PLAN_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "codec/json_writer.h"
#include "driver/net/net_ip.h"

#define NET_MTU_MIN         68
#define NET_LIST_MAX        64 // addresses, routes, rules, neighbours, features of one interface
#define NET_TABLE_MAIN      254
#define NET_SCOPE_LINK      253
#define NET_UNSET           (-1)
#define NET_VRF_TABLE_FIRST 100

struct net_route {
    struct net_ip destination, gateway, source;
    uint8_t scope; // 0 or NET_SCOPE_LINK
    uint32_t table;
    uint32_t metric; // 0: as the kernel has it
};
struct net_routes VEC(struct net_route);

struct net_rule {
    struct net_ip source, destination;
    uint32_t priority;
    uint32_t table;
};
struct net_rules VEC(struct net_rule);

struct net_neighbor {
    struct net_ip destination;
    struct net_mac mac;
};
struct net_neighbors VEC(struct net_neighbor);

struct net_flag {
    struct str name;
    bool on;
};
struct net_flags VEC(struct net_flag);

// The sizes of segments that an interface hands on: index of net_plan.sizes.
enum net_size { NET_GSO, NET_GRO, NET_GSO_V4, NET_GRO_V4, NET_SIZES };

// Lists live in an arena of the holder.
struct net_plan {
    char name[IFNAMSIZ]; // in the pod; empty: not set
    struct net_ips addresses;
    struct net_mac mac;
    int64_t mtu;              // 0: unchanged
    int64_t sizes[NET_SIZES]; // 0: unchanged
    int forwarding;           // NET_UNSET, 0, 1
    int arp_ignore, arp_announce;
    bool drop_ebpf;
    char vrf[IFNAMSIZ]; // empty: none
    uint32_t vrf_table;
    struct net_routes routes;
    struct net_rules rules;
    struct net_neighbors neighbors;
    struct net_flags features;
    struct net_flags private_flags;
};

// net_plan_init: a plan that wants nothing.
void net_plan_init(struct net_plan *p);

// net_plan_add reads parameters (JSON) and merges them into p; p is untouched on failure. Returns 0
// or -ERR_INVALID with the path of the field.
int net_plan_add(struct net_plan *p, const char *json, struct arena *arena,
                 struct err *err) MUST_USE;

// net_plan_read reads what net_plan_write wrote. That may be how the kernel has an interface, which
// is not all that a user may ask for: any name, hardware address, MTU and route that there is.
int net_plan_read(struct net_plan *p, const char *json, struct arena *arena,
                  struct err *err) MUST_USE;

// net_plan_write writes p as parameters that net_plan_read, and net_plan_add where they came from a
// user, read to the same plan.
void net_plan_write(const struct net_plan *p, struct json_writer *w);

// net_name_check checks that a text can be an interface's name. Returns 0 or -ERR_INVALID.
int net_name_check(struct str name, struct err *err) MUST_USE;

#endif
