// SPDX-License-Identifier: Apache-2.0
//
// OpenAPI documents made from the tables, in the shape kube-apiserver publishes them: what kubectl
// explain, apply and validation and the typed mergers of server-side apply read.
#ifndef API_OPENAPI_H
#define API_OPENAPI_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

// api_openapi_v3 adds the document of one group and version. False, and nothing added, when the
// schema has no such.
bool api_openapi_v3(struct str group, struct str version, struct sbuf *out);

// api_openapi_v2 adds one document with every group and version for which served answers true (a
// NULL served stands for all), and with the kinds that users added (may be NULL).
struct custom_kinds;
void api_openapi_v2(bool (*served)(void *ctx, struct str group, struct str version), void *ctx,
                    const struct custom_kinds *customs, struct sbuf *out);

// api_openapi_v2_proto adds a v2 document, given as JSON, as a message of openapi.v2. Returns 0, or
// -ERR_BAD_REQUEST for what is not JSON.
int api_openapi_v2_proto(struct str json, struct sbuf *out, struct err *err) MUST_USE;

#endif
