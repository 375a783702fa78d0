// SPDX-License-Identifier: Apache-2.0
//
// Conditions of CertificateSigningRequests, read by the registry and the controllers alike.
#include "api/certificate.h"

#include "base/banned.h"

const struct api_certificate_signing_request_condition *certificate_condition(
    const struct api_certificate_signing_request *request, const char *type)
{
    for (size_t i = 0; i < request->status.conditions.n; i++)
        if (str_eqz(request->status.conditions.p[i].type, type))
            return &request->status.conditions.p[i];
    return NULL;
}
