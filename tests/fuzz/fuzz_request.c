// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as what a client of the API server says: path, query, headers, continue token, body. The
// input is cut at line ends into those. Nothing may be read or written out of bounds, a token that is
// accepted must be written back the same, and a path that names an object must have a name.
#include <assert.h>

#include "fuzz.h"
#include "server/auth/token.h"
#include "server/http/body.h"
#include "server/http/catalog.h"
#include "server/http/encode.h"
#include "server/http/negotiate.h"
#include "server/http/query.h"
#include "server/http/route.h"

#include "base/banned.h"

static void check_path(struct str path)
{
    static struct catalog catalog;
    static bool made;
    struct err err = {0};
    if (!made) {
        int r = catalog_init(&catalog, STR("api/all=true"), &err);
        assert(r == 0);
        made = true;
    }
    struct route r;
    route_parse(&catalog, path, &r);
    if (r.type != ROUTE_RESOURCE)
        return;
    assert(r.resource && (!r.sub || r.name.n));
    unsigned verb = route_verb(&r, STR("GET"));
    assert(!(verb & VERB_GET) || r.name.n);
}

static void check_query(struct str text, struct arena *arena)
{
    struct query q;
    struct causes causes = {.arena = arena};
    struct err err = {0};
    struct list_options list;
    struct write_options write;
    struct api_delete_options options = {0};
    query_parse(text, arena, &q);
    if (query_list_options(&q, false, &list, &causes, &err) == 0)
        assert(causes.n == 0);
    (void)!query_write_options(&q, true, false, &write, &causes);
    if (query_delete_options(&q, true, arena, &options, &err) == 0)
        (void)!query_check_delete_options(&options, &causes);
}

static void check_headers(struct str header)
{
    struct form form;
    struct err err = {0};
    enum media media;
    enum patch_media patch;
    (void)!negotiate_accept(header, FORM_ALLOW_TRANSFORMS | FORM_ALLOW_DISCOVERY, &form, &err);
    (void)!negotiate_body(header, &media, &err);
    (void)!negotiate_patch(header, &patch, &err);
}

static void check_token(struct str text, bool namespaced, struct arena *arena)
{
    struct token t, again;
    struct err err = {0};
    if (token_read(text, namespaced, STR(""), arena, &t, &err) < 0)
        return;
    cleanup_sbuf struct sbuf out = {0};
    token_write(&t, namespaced, &out);
    // Longer texts than any token of ours are refused.
    if (token_read(sbuf_str(&out), namespaced, STR(""), arena, &again, &err) < 0)
        return;
    assert(again.revision == t.revision && str_eq(again.namespace, t.namespace));
}

static void check_body(struct str body, struct arena *arena)
{
    const struct api_kind *want = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"));
    cleanup_json_strict struct json_strict strict = {0};
    struct api_object object;
    struct api_delete_options *options = NULL;
    struct err err = {0};
    for (enum media m = MEDIA_JSON; m <= MEDIA_PROTOBUF; m++) {
        if (body_decode(body, m, want, arena, &strict, &object, &err) == 0)
            assert(object.kind == want);
        (void)!body_delete_options(body, m, arena, &options, &err);
    }
    cleanup_sbuf struct sbuf out = {0};
    encode_metadata(body, &out);
    encode_revision(body, 7, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_arena struct arena arena = {0};
    struct str rest = str_make((const char *)data, size), path, query, header, token;
    str_cut(rest, '\n', &path, &rest);
    str_cut(rest, '\n', &query, &rest);
    str_cut(rest, '\n', &header, &rest);
    str_cut(rest, '\n', &token, &rest);
    check_path(path);
    check_query(query, &arena);
    check_headers(header);
    check_token(token, true, &arena);
    check_token(token, false, &arena);
    check_body(rest, &arena);
    return 0;
}
