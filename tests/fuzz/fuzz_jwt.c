// SPDX-License-Identifier: Apache-2.0
//
// Tokens: whatever the bytes are, only what our key signed is believed. The input stands for a whole token, and for the
// claims of one that is signed well: those must be read without harm, too.
#include <stdlib.h>

#include "codec/base64.h"
#include "fuzz.h"
#include "pki/jwt.h"

#include "base/banned.h"

static struct sign_key *make_key(void)
{
    cleanup_sbuf struct sbuf pem = {0};
    struct sign_key *key = NULL;
    if (sign_key_make(&pem, NULL) < 0 || sign_key_load(sbuf_str(&pem), &key, NULL) < 0)
        abort();
    return key;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sign_key *key;
    struct err err = {0};
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf text = {0};
    unsigned char signature[SIGN_BYTES];
    struct str input = str_make((const char *)data, size);
    struct jwt t;
    if (!key)
        key = make_key();
    if (jwt_read(input, key, 1800000000, &arena, &t, &err) == 0)
        abort(); // nobody has the key
    base64_encode(STR("{\"alg\":\"ES256\"}"), BASE64_URL, &text);
    sbuf_addc(&text, '.');
    base64_encode(input, BASE64_URL, &text);
    if (sign_make(key, sbuf_str(&text), signature, &err) < 0)
        abort();
    sbuf_addc(&text, '.');
    base64_encode(str_make((const char *)signature, SIGN_BYTES), BASE64_URL, &text);
    if (jwt_read(sbuf_str(&text), key, 1800000000, &arena, &t, &err) == 0 &&
        (!t.namespace.n || !t.account.name.n || t.expires <= 1800000000))
        abort();
    return 0;
}
