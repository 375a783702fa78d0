// SPDX-License-Identifier: Apache-2.0
//
// OpenAPI of the kinds that users added: their schemas as published, and the paths clients look
// for.
#ifndef API_OPENAPI_CUSTOM_H
#define API_OPENAPI_CUSTOM_H

#include "api/custom.h"

// openapi_custom_v3 adds the document of one group and version. False: no such kind is defined.
bool openapi_custom_v3(const struct custom_kinds *customs, struct str group, struct str version,
                       struct sbuf *out);

// openapi_custom_v2 adds what belongs into "definitions" and into "paths" of the document of
// everything; each member starts with a comma.
void openapi_custom_v2(const struct custom_kinds *customs, struct sbuf *definitions,
                       struct sbuf *paths);

#endif
