// SPDX-License-Identifier: Apache-2.0
//
// Discovery documents: what groups, versions and resources there are, in the old form (one document
// a version) and in the aggregated one.
#ifndef SERVER_HTTP_DISCOVERY_H
#define SERVER_HTTP_DISCOVERY_H

#include <stdbool.h>

#include "base/str.h"
#include "server/http/catalog.h"

// discovery_versions is /api. address: host:port as clients should use it.
void discovery_versions(const struct catalog *c, struct str address, struct sbuf *out);

// discovery_groups is /apis, discovery_group /apis/G.
void discovery_groups(const struct catalog *c, struct sbuf *out);
void discovery_group(const struct catalog_group *g, struct sbuf *out);

// discovery_resources is /api/V and /apis/G/V.
void discovery_resources(const struct catalog_version *v, struct sbuf *out);

// discovery_aggregated is /api (core) or /apis in one document, in version v2 or v2beta1.
void discovery_aggregated(const struct catalog *c, bool core, bool v2beta1, struct sbuf *out);

#endif
