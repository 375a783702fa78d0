// SPDX-License-Identifier: Apache-2.0
//
// A sign of life for those who cannot see a driver's socket: a Lease that is renewed while the
// driver lives. Slices name it in the annotation META_PUBLISHER_LEASE; when it is not renewed,
// src/ctl/device/stale.c keeps new allocations from the pool's devices. Nothing competes for it: a
// second instance of the driver renews the same one.
#ifndef DRIVER_SDK_ALIVE_H
#define DRIVER_SDK_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

enum { ALIVE_SECONDS = 40 };

struct alive;

struct alive_options {
    struct client *client;
    struct str namespace;       // texts are copied
    struct str driver, pool;    // name the Lease
    struct str holder;          // who renews it
    struct str node, node_uid;  // who owns it: it goes with the node; empty: none
    int64_t seconds;            // how long it is good for; 0: ALIVE_SECONDS
    void (*changed)(void *arg); // alive_known or alive_lease has another answer
    void (*trouble)(void *arg, const struct err *err); // may be NULL
    void *arg;
};

// alive_new begins to renew at once; alive_free stops, and the Lease runs out.
struct alive *alive_new(const struct alive_options *options);
void alive_free(struct alive *a);

// alive_known: the server has taken the Lease, or refused it.
bool alive_known(const struct alive *a);

// alive_lease is NAMESPACE/NAME of the Lease; empty while there is none.
struct str alive_lease(const struct alive *a);

#endif
