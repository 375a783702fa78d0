// SPDX-License-Identifier: Apache-2.0
//
// From a path to what it means: a resource, its namespace, name and subresource; or a document.
#ifndef SERVER_HTTP_ROUTE_H
#define SERVER_HTTP_ROUTE_H

#include <stdbool.h>

#include "base/str.h"
#include "server/http/catalog.h"

enum route_type {
    ROUTE_UNKNOWN,     // no such path: "404 page not found"
    ROUTE_UNKNOWN_API, // below a group that is served, but nothing there: a Status
    ROUTE_RESOURCE,
    ROUTE_API_VERSIONS,  // /api
    ROUTE_API_GROUPS,    // /apis
    ROUTE_API_GROUP,     // /apis/G
    ROUTE_API_RESOURCES, // /api/V, /apis/G/V
    ROUTE_OPENAPI_V2,
    ROUTE_OPENAPI_V3, // the index, or with group and version one document
    ROUTE_VERSION,
    ROUTE_HEALTH, // /healthz, /livez, /readyz; name: the check behind it
    ROUTE_METRICS,
    ROUTE_ISSUER,  // /.well-known/openid-configuration: who signs tokens
    ROUTE_KEYS,    // /openid/v1/jwks: with which keys
    ROUTE_ROOT,    // the list of paths
    ROUTE_BACKUP,  // of dray
    ROUTE_EXPLAIN, // of dray
    ROUTE_CHECK,   // of dray
    ROUTE_DENY,    // of dray
};

struct route {
    enum route_type type;
    struct str group;
    struct str version;
    const struct catalog_resource *resource;
    const struct catalog_sub *sub; // NULL: the object itself
    struct str namespace;
    struct str name;
    bool watch; // by the old paths /watch/…
};

// route_parse understands a decoded path. Slices of the result point into path.
void route_parse(const struct catalog *c, struct str path, struct route *ret);

// route_verb is the verb of a method on a resource's path as a bit, 0 when it is not allowed.
unsigned route_verb(const struct route *r, struct str method);

#endif
