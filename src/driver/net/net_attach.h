// SPDX-License-Identifier: Apache-2.0
//
// Interfaces into pods and back. Every step may be the last of its process; the next call, of the
// hook or of the driver, finds out from the record and from the kernel how far things have come,
// and goes on.
//
// While a claim has an interface, that carries a mark (its alias) that survives everything the
// kernel does to it: moves, new names and numbers, the end of its namespace. Hardware comes back to
// the host by the kernel when its namespace ends, under another name if its own is taken;
// interfaces of software end with their namespace, unless the driver pins it.
#ifndef DRIVER_NET_NET_ATTACH_H
#define DRIVER_NET_NET_ATTACH_H

#include "base/clock.h"
#include "base/err.h"
#include "driver/net/net_record.h"

struct net_world {
    const char *state_dir; // of records and the lock
    const char *proc;      // /proc
    const char *sys;       // /sys
    const char *boot_id;
    int host_ns;
    int64_t wait_ns; // how long to wait for an interface whose namespace is ending
    const struct clock *clock;
};

// net_lock takes the lock of a state directory; *ret_fd is closed to let it go. Returns 0 or
// -errno.
int net_lock(const struct net_world *w, int *ret_fd, struct err *err) MUST_USE;

// net_attach puts a device of a claim into a pod's namespace, in which the process pid is, and sets
// it up as its record describes. Steps that are done are not repeated. A failure is undone and
// noted in the record. Takes the lock. Returns 0, or -ERR_NOT_FOUND (no such claim, or the
// interface is gone), -ERR_CONFLICT (it is in another pod), -ERR_ALREADY_EXISTS (its name is taken
// in the pod), -ERR_INVALID (the pod has the host's network), -errno.
int net_attach(const struct net_world *w, struct str uid, struct str device, int pod_ns, int pid,
               struct err *err) MUST_USE;

enum net_returned {
    NET_RETURNED,   // as it was
    NET_NAME_TAKEN, // it is back, but another interface has its name now
    NET_LOST,       // it is nowhere any more: it ended with its namespace, or was taken out
};

// net_return brings a device back to the host, or ends what was made for the claim, and removes the
// record. The caller holds the lock. *ret and note (what could not be made as it was; may be empty)
// say how it went. Returns 0 or a negative code: then the record is still there, and it can be
// tried again.
int net_return(const struct net_world *w, const struct net_record *r, enum net_returned *ret,
               struct err *note, struct err *err) MUST_USE;

// net_pin keeps a namespace from ending with its pod, so that an interface that would end with it
// can be brought back: as long as *ret_fd is open, and findable by others through the state
// directory. net_unpin lets go. Nothing is pinned for longer than a process lives.
int net_pin(const struct net_world *w, struct net_ns_id id, int pid, int *ret_fd,
            struct err *err) MUST_USE;
void net_unpin(const struct net_world *w, struct net_ns_id id, int fd);

// net_configure configures an interface of a namespace by a plan (net_configure.c).
int net_configure(const struct net_world *w, int ns, struct net_sock *s, int index,
                  const struct net_plan *plan, struct err *err) MUST_USE;

// net_ethtool sets features and private flags of an interface (net_ethtool.c).
int net_ethtool(int ns, const char *name, const struct net_flags *features,
                const struct net_flags *private_flags, struct err *err) MUST_USE;

#endif
