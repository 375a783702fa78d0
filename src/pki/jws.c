// SPDX-License-Identifier: Apache-2.0
//
// The parts of a token.
#include "pki/jws.h"

#include "codec/base64.h"

#include "base/banned.h"

bool jws_split(struct str text, struct jws *ret)
{
    struct str rest;
    if (text.n > JWS_BYTES_MAX || !str_cut(text, '.', &ret->header, &rest) ||
        !str_cut(rest, '.', &ret->claims, &ret->signature) ||
        str_find_char(ret->signature, '.') >= 0)
        return false;
    ret->signed_text = str_make(text.p, ret->header.n + 1 + ret->claims.n);
    return ret->header.n && ret->claims.n && ret->signature.n;
}

int jws_fail(struct err *err, const char *what)
{
    return err_set(err, ERR_INVALID, "invalid token: %s", what);
}

int jws_parse_part(struct str part, struct json_doc *ret, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    if (base64_decode(part, BASE64_URL, &text, NULL) < 0 ||
        json_parse(sbuf_str(&text), NULL, ret, NULL) < 0)
        return jws_fail(err, "not base64url of a JSON object");
    if (json_is_object(ret->root))
        return 0;
    json_doc_done(ret);
    return jws_fail(err, "not base64url of a JSON object");
}
