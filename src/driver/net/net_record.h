// SPDX-License-Identifier: Apache-2.0
//
// What is remembered of a network device that a claim has: where it came from, how it was there,
// what the pod is to see, how far things have come. One file a device, replaced as a whole; the
// driver and the hook that the container runtime calls both read and write it, under one lock.
//
//     planned     the claim has it; nothing has been done to it
//     attaching   it may be on its way to, or in, the namespace ns
//     attached    it is in the namespace ns, configured by the plan
//     returning   it may be on its way back
#ifndef DRIVER_NET_NET_RECORD_H
#define DRIVER_NET_NET_RECORD_H

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "driver/net/net_link.h"
#include "driver/net/net_plan.h"

#define NET_RECORD_BYTES_MAX (64 * 1024)
#define NET_KIND_MOVE        "move" // of the host; other kinds are made for the claim

enum net_phase { NET_PLANNED, NET_ATTACHING, NET_ATTACHED, NET_RETURNING };

// Texts and lists live in an arena of the holder.
struct net_record {
    enum net_phase phase;
    struct str boot; // id of the boot it was written in
    struct str namespace, claim, uid;
    struct str pool, device;
    struct str kind;   // NET_KIND_MOVE, veth, macvlan, ipvlan, vlan
    struct str parent; // of a made interface: the one below it, or the bridge of a veth
    uint16_t vlan;
    struct net_plan plan; // in the pod
    struct net_plan host; // as it was: name, addresses, MTU, hardware address, sizes, routes
    struct str host_kind; // of the link: veth, empty for hardware
    struct str host_alias;
    bool host_up;
    struct net_mac permanent;
    struct str pci;        // address of hardware on that bus
    bool runtime_moves;    // the container runtime moves it, not the hook
    struct str attributes; // JSON: as published
    struct net_ns_id ns;
    int pid;          // a process that was in ns
    struct str error; // of the last attach; empty: none
};

// net_record_read reads a device's file. Returns 0, -ERR_NOT_FOUND, or another code for one that
// cannot be understood.
int net_record_read(const char *dir, struct str device, struct arena *arena, struct net_record *ret,
                    struct err *err) MUST_USE;

// net_record_parse reads a file's text.
int net_record_parse(struct str text, struct arena *arena, struct net_record *ret,
                     struct err *err) MUST_USE;

// net_record_write replaces it: a reader sees the old one or the new one.
int net_record_write(const char *dir, const struct net_record *r, struct err *err) MUST_USE;
int net_record_remove(const char *dir, struct str device, struct err *err) MUST_USE;

struct net_records VEC(struct net_record);

// A device whose file cannot be understood: it is damaged, or of another version of this program.
struct net_damaged {
    struct str device, why;
};

struct net_damages VEC(struct net_damaged);

// net_records_read reads all records of a directory. A damaged one costs its own device, no other;
// ret_damaged may be NULL.
int net_records_read(const char *dir, struct arena *arena, struct net_records *ret,
                     struct net_damages *ret_damaged, struct err *err) MUST_USE;

// net_record_mark is the alias an interface carries while a claim has it.
struct str net_record_mark(const struct net_record *r, struct arena *arena);

#endif
