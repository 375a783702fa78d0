// SPDX-License-Identifier: Apache-2.0
//
// A client of the registry in the same process. It may live on the registry's exec or on another
// thread's: calls and answers then hop from one to the other. Rules are the registry's, the same as
// for clients over the network.
#ifndef INPROC_LOCAL_H
#define INPROC_LOCAL_H

#include "client/client.h"
#include "registry/registry.h"

// local_client_new makes a client that acts as user (copied) and is answered on exec. Freed by
// client_free; the registry must outlive it, and work the client posted to the registry's exec must
// have run before the registry goes.
struct client *local_client_new(struct registry *registry, struct exec *exec,
                                const struct registry_user *user);

#endif
