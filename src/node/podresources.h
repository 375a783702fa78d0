// SPDX-License-Identifier: Apache-2.0
//
// kubelet's PodResources API (v1.PodResourcesLister) on a gRPC server: which pods of the node have
// which dynamic resources and which devices of plugins. CPUs and memory of kubelet's other managers
// do not exist here.
#ifndef NODE_PODRESOURCES_H
#define NODE_PODRESOURCES_H

#include "net/grpc.h"
#include "node/devplug/devplug.h"
#include "node/dra.h"

struct podresources;

struct podresources_options {
    const struct dra *dra;         // borrowed
    const struct devplug *devices; // borrowed; may be NULL
    // pods calls each for every active pod, as in struct dra_options.
    bool (*pods)(void *arg, dra_pod_fn each, void *ctx);
    void *arg;
};

// podresources_new adds the methods to a server, which must not be asked any more when it is freed.
struct podresources *podresources_new(struct grpc_server *server,
                                      const struct podresources_options *options);
void podresources_free(struct podresources *p);

#endif
