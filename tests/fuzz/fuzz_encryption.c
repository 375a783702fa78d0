// SPDX-License-Identifier: Apache-2.0
//
// Encryption configurations, and sealed rows: any bytes as a configuration are read or refused, and
// any bytes as a row are refused, since the keys are not known to their author.
#include <stdlib.h>

#include "api/table.h"
#include "fuzz.h"
#include "server/seal.h"

#include "base/banned.h"

#define FUZZ_CONFIG                                                                        \
    "{\"apiVersion\":\"apiserver.config.k8s.io/v1\",\"kind\":\"EncryptionConfiguration\"," \
    "\"resources\":[{\"resources\":[\"*.*\"],\"providers\":[{\"aesgcm\":{\"keys\":[{"      \
    "\"name\":\"a\",\"secret\":\"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\"}]}}]}]}"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct seal_config *known;
    struct err err = {0};
    struct seal_config *c = NULL;
    struct str input = str_make((const char *)data, size), plain;
    const struct api_kind *kind = api_kind_find(STR("v1"), STR("Secret"));
    const struct record_row row = {1, STR("v1/Secret"), STR("ns"), STR("n"), false};
    cleanup_sbuf struct sbuf blob = {0}, scratch = {0};
    bool stale;
    if (!known && seal_config_parse(STR(FUZZ_CONFIG), &known, NULL) < 0)
        abort();
    if (seal_config_parse(input, &c, &err) == 0) {
        const struct store_sealer *s = seal_config_sealer(c);
        sbuf_add(&blob, STR("\1text"));
        if (store_seal_row(s, &row, kind, &blob, &scratch, &err) < 0)
            abort();
        plain = sbuf_str(&blob);
        if (store_open_row(s, &row, kind, &plain, &scratch, &stale, &err) < 0 ||
            !str_eqz(plain, "\1text"))
            abort();
    }
    seal_config_free(c);
    if (store_open_row(seal_config_sealer(known), &row, kind, &input, &scratch, &stale, &err) == 0)
        abort();
    return 0;
}
