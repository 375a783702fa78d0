// SPDX-License-Identifier: Apache-2.0
//
// Leader election on a Lease (coordination.k8s.io/v1), with the fields and the rules of client-go,
// so that kubectl and other programs read it as they are used to. Who has the lease renews it; who
// has not, looks at it every now and then, and takes it when it was not renewed for its duration:
// counted from when this process saw it change, so that clocks need not agree.
//
// A lease states which holder should act, not which can: two holders for a moment (a paused
// machine, a late write) must do no harm. dray's scheduler and controllers see to that themselves
// (docs/design/scheduler.md, "Late writes").
//
// Lives on the client's exec. No callback comes from within a call of this header.
#ifndef CLIENT_LEASE_H
#define CLIENT_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "client/client.h"

struct lease;

struct lease_options {
    struct client *client;      // borrowed
    struct str namespace, name; // of the Lease; copied
    struct str identity;        // who we are, unlike anybody else; copied
    int64_t duration_ns;        // others wait so long after the last renewal; whole seconds
    int64_t renew_deadline_ns;  // the holder gives up when it could not renew for so long
    int64_t retry_ns;           // between looks and between renewals
    // A holder that cannot renew goes on until it sees that another has it: for those who do no
    // harm beside another, and should not drop their work because a server is slow.
    bool steadfast;
    void (*leading)(void *arg); // we have it now
    void (*lost)(void *arg);    // we had it; look for it again with lease_start
    void (*holder)(void *arg,
                   struct str identity); // the holder, empty when there is none; may be NULL
    void *arg;
};

// lease_check reports whether the times make sense together, by client-go's rules. Returns 0 or
// -ERR_INVALID.
int lease_check(const struct lease_options *options, struct err *err) MUST_USE;

struct lease *lease_new(const struct lease_options *options);

// lease_start begins to look for the lease; also after lost.
void lease_start(struct lease *l);

// lease_release lets go of it, so that another takes it at once, and stops. done runs when the
// server knows, or cannot be reached; at once (later) when there is nothing to let go.
void lease_release(struct lease *l, exec_fn done, void *arg);

// lease_free stops without a word to the server. Answers still to come are dropped.
void lease_free(struct lease *l);

bool lease_leading(const struct lease *l);

#endif
