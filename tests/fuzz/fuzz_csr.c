// SPDX-License-Identifier: Apache-2.0
//
// Requests for certificates, and certificates, as strangers send them: any text is read or refused
// with a reason. The first byte chooses: PEM as it comes, or DER that is put into a PEM block of a
// request or of a certificate.
#include <assert.h>
#include <stdlib.h>

#include "codec/base64.h"
#include "fuzz.h"
#include "pki/csr.h"

#include "base/banned.h"

static void read_request(struct str pem)
{
    cleanup_arena struct arena arena = {0};
    struct csr_request r;
    struct err err = {0};
    if (csr_parse(pem, &arena, &r, &err) < 0) {
        assert(err.msg[0] != '\0');
        return;
    }
    for (size_t i = 0; i < r.names_len; i++)
        assert(r.names[i].type <= CSR_NAME_OTHER);
}

static void read_certificate(struct str pem)
{
    cleanup_sbuf struct sbuf name = {0};
    struct err err = {0};
    int64_t from = 0, until = 0;
    char pin[CSR_PIN_BYTES];
    char *found = NULL;
    if (csr_check_chain(pem, &err) < 0)
        assert(err.msg[0] != '\0');
    (void)csr_certificate_is_for(pem, STR("localhost"));
    (void)csr_certificate_is_for(pem, STR("::1"));
    (void)csr_signed_by(pem, pem);
    if (csr_common_name(pem, &name, &err) < 0)
        assert(err.msg[0] != '\0');
    if (csr_certificate_times(pem, &from, &until, &err) < 0)
        assert(err.msg[0] != '\0');
    if (csr_pin(pem, pin, &err) == 0 && csr_find_pin(pem, str_z(pin), &found, &err) == 0)
        free(found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const kinds[] = {"CERTIFICATE REQUEST", "CERTIFICATE"};
    if (size < 1 || size > 16384)
        return 0;
    cleanup_sbuf struct sbuf pem = {0};
    struct str rest = str_make((const char *)data + 1, size - 1);
    if (data[0] % 3 == 0) {
        sbuf_add(&pem, rest);
    } else {
        const char *kind = kinds[data[0] % 3 - 1];
        sbuf_addf(&pem, "-----BEGIN %s-----\n", kind);
        base64_encode(rest, BASE64_STD, &pem);
        sbuf_addf(&pem, "\n-----END %s-----\n", kind);
    }
    read_request(sbuf_str(&pem));
    read_certificate(sbuf_str(&pem));
    return 0;
}
