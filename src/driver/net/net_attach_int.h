// SPDX-License-Identifier: Apache-2.0
//
// The inside of net_attach: where an interface is.
#ifndef DRIVER_NET_NET_ATTACH_INT_H
#define DRIVER_NET_NET_ATTACH_INT_H

#include "driver/net/net_attach.h"

enum net_place {
    NOWHERE,
    ON_HOST,
    IN_POD,
    IN_OTHER,  // in a namespace with processes
    IN_PINNED, // in one that only the driver holds: its pod has ended
};

struct net_found {
    enum net_place place;
    struct net_link link;
    struct net_sock *sock; // of the namespace it is in; owned
    int ns;                // of it; owned when IN_OTHER or IN_PINNED
};

void net_located_done(struct net_found *f);

// net_is_made: it was made for the claim, and ends with it.
bool net_is_made(const struct net_record *r);
bool net_ns_same(struct net_ns_id a, struct net_ns_id b);

// net_locate_in looks for the interface of a record in a namespace; host: by its name on the host,
// else in the pod. ret->place is the caller's. Returns 1 found, 0 not there, or a negative code.
int net_locate_in(int ns, const struct net_record *r, bool host, struct net_found *ret,
                  struct err *err) MUST_USE;

// net_locate finds where it is; pod_ns -1: there is no pod. net_locate_patiently waits for
// namespaces that are ending.
int net_locate(const struct net_world *w, const struct net_record *r, int pod_ns,
               struct net_ns_id pod, struct net_found *ret, struct err *err) MUST_USE;
int net_locate_patiently(const struct net_world *w, const struct net_record *r, int pod_ns,
                         struct net_ns_id pod, struct net_found *ret, struct err *err) MUST_USE;

void net_pause(void);

#endif
