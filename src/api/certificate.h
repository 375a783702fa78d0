// SPDX-License-Identifier: Apache-2.0
//
// Conditions of a CertificateSigningRequest.
#ifndef API_CERTIFICATE_H
#define API_CERTIFICATE_H

#include "api/types.h"

// certificate_condition finds a condition of a request by its type: Approved, Denied, Failed. NULL:
// it has none.
const struct api_certificate_signing_request_condition *certificate_condition(
    const struct api_certificate_signing_request *request, const char *type);

#endif
