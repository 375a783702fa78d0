// SPDX-License-Identifier: Apache-2.0
//
// What every cluster has besides namespaces and roles: the objects of schema/cluster.yaml, and the
// ConfigMaps from which other components learn whose certificates the server believes.
#ifndef SERVER_AUTH_CLUSTER_H
#define SERVER_AUTH_CLUSTER_H

#include "base/exec.h"
#include "client/client.h"

// The objects, as the build has put them into the program.
extern const struct str cluster_objects;

struct cluster_facts {
    struct str client_ca_pem; // CA of client certificates; empty: none
    struct str proxy_ca_pem;  // CA of proxies that set X-Remote-User; empty: none
    struct str url;           // how other machines reach the server; empty: unknown
    int64_t now_ns;           // since 1970
};

// cluster_ensure makes what is missing and brings the ConfigMaps up to date. Failures are logged.
void cluster_ensure(struct client *client, const struct cluster_facts *facts);

// cluster_publish_ca brings the ConfigMaps up to date, when the CA was replaced.
void cluster_publish_ca(struct client *client, const struct cluster_facts *facts);

#endif
