// SPDX-License-Identifier: Apache-2.0
//
// Keeps the API server's ResourceSlices of a driver as the driver wants them. Works step by step:
// each looks at the cache, makes the one write that is next, and comes back when the cache has seen
// it; so nothing has to be remembered, and others who change slices are corrected.
//
// A generation stays while one slice alone has to be written; otherwise all slices are written with
// the next one, and the old ones go when the new ones are complete. Lives on the client's exec.
#ifndef DRIVER_SDK_PUBLISH_H
#define DRIVER_SDK_PUBLISH_H

#include "base/err.h"
#include "client/client.h"
#include "driver/sdk/pool.h"

struct publisher;

struct publisher_options {
    struct client *client;
    struct str driver;
    struct str node; // empty: pools that belong to no node only
    // A Lease for each pool shows that the publisher lives, see alive.h; no namespace: there is
    // none.
    struct str lease_namespace;
    struct str lease_holder;
    int64_t lease_seconds;
    // trouble is called with what failed and will be tried again.
    void (*trouble)(void *arg, const struct err *err);
    void *arg;
};

struct publisher *publish_new(const struct publisher_options *options);
void publish_free(struct publisher *p);

// publish_old_server: the server is 1.34, which wants counters in the slices of their devices.
void publish_old_server(struct publisher *p);

// publish_set_pool makes a pool what specs say (copied); shared: of no node. publish_remove_pool
// removes one.
void publish_set_pool(struct publisher *p, struct str pool, bool shared,
                      const struct pool_specs *specs);
void publish_remove_pool(struct publisher *p, struct str pool);
bool publish_has_pool(const struct publisher *p, struct str pool);

// publish_taint and publish_untaint change the taints of a device; they outlive publish_set_pool.
void publish_taint(struct publisher *p, struct str pool, const struct pool_taint *taint);
void publish_untaint(struct publisher *p, struct str pool, struct str device, struct str key);

// publish_idle: all slices are as they should be, as far as the cache knows.
bool publish_idle(const struct publisher *p);

#endif
