// SPDX-License-Identifier: Apache-2.0
//
// Opaque parameters: any text is decoded by the tables of every simulated driver or refused with a reason.
#include <assert.h>
#include <stdlib.h>

#include "driver/sim/hw.h"
#include "fuzz.h"

#include "base/banned.h"

static const char *const drivers[] = {"gpu.nvidia.com",  "compute-domain.nvidia.com",
                                      "gpu.example.com", "net.example.com",
                                      "dra.net",         "sriovnetwork.k8snetworkplumbingwg.io",
                                      "dra.cpu",         "fabric.example.com",
                                      "camera.dray.dev", "cxl.dray.dev"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    for (size_t i = 0; i < array_len(drivers); i++) {
        const struct hw_family *f = hw_family_of(drivers[i]);
        const struct dray_schema *schema = NULL;
        struct dray_params *params = NULL;
        struct dray_error err = {0};
        if (dray_decode(text, f->schemas, f->schemas_len, &schema, &params, &err) == 0) {
            assert(schema && dray_params_value(params));
            dray_params_free(params);
        } else {
            assert(err.message[0] != '\0');
        }
    }
    free(text);
    return 0;
}
