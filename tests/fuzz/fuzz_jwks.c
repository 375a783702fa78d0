// SPDX-License-Identifier: Apache-2.0
//
// What a token issuer serves: any bytes as a discovery document and as a key set are read or
// refused; no key of them verifies a signature that it did not make.
#include <stdlib.h>

#include "fuzz.h"
#include "server/oidc/oidc_token.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const algs[] = {"RS256", "PS512", "ES256", "ES384", "ES512"};
    struct str input = str_make((const char *)data, size), origin, target;
    cleanup_arena struct arena arena = {0};
    struct jwk_set *keys = NULL;
    struct err err = {0};
    char signature[256];
    memset(signature, 7, sizeof(signature));
    if (oidc_read_discovery(input, STR("https://issuer.example"), &arena, &origin, &target, &err) ==
            0 &&
        (!str_starts(origin, STR("https://")) || !str_starts(target, STR("/"))))
        abort();
    if (jwk_set_parse(input, &keys, &err) < 0)
        return 0;
    for (size_t i = 0; i < array_len(algs); i++)
        for (size_t n = 64; n <= sizeof(signature); n *= 2)
            if (jwk_set_verify(keys, str_z(algs[i]), STR(""), STR("text"),
                               str_make(signature, n)) == JWK_GOOD)
                abort();
    jwk_set_free(keys);
    return 0;
}
