// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as an object in protobuf: with the envelope, or the message alone behind two bytes that
// choose the kind. What is accepted must be written and read again without change.
#include <assert.h>

#include "api/api.h"
#include "fuzz.h"

#include "base/banned.h"

static bool write_json(const struct api_object *o, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    return api_json_write(o->kind->type, o->value, &w, NULL) == 0;
}

static void check_proto(const struct api_object *o, struct arena *arena)
{
    cleanup_sbuf struct sbuf wire = {0}, again = {0};
    struct api_object back;
    struct err err = {0};
    api_envelope_write(o, &wire);
    int rc = api_envelope_read(sbuf_str(&wire), arena, &back, &err);
    assert(rc == 0);
    assert(api_equal(o->kind->type, o->value, back.value) || !o->kind->type->root);
    api_envelope_write(&back, &again);
    assert(str_eq(sbuf_str(&wire), sbuf_str(&again)));
}

static void check_json(const struct api_object *o, struct arena *arena)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct json_options options = {.max_bytes = (size_t)64 << 20};
    struct api_object back;
    if (!write_json(o, &text))
        return;
    int rc = json_parse(sbuf_str(&text), &options, &doc, NULL);
    if (rc < 0)
        return; // nested deeper than JSON may be
    rc = api_decode_as(o->kind, &doc, doc.root, arena, NULL, &back, NULL);
    assert(rc == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_arena struct arena arena = {0};
    struct str body = {(const char *)data, size};
    struct api_object o;
    struct err err = {0};
    if (api_envelope_is(body)) {
        if (api_envelope_read(body, &arena, &o, &err) < 0)
            return 0;
    } else if (size >= 2) {
        size_t choice = ((size_t)data[0] << 8 | data[1]) % api_kinds_len;
        o.kind = &api_kinds[choice];
        o.value = arena_alloc(&arena, o.kind->type->size, _Alignof(max_align_t));
        if (api_proto_read(o.kind->type, str_from(body, 2), o.value, &arena, &err) < 0)
            return 0;
        api_set_type_meta(&o);
    } else {
        return 0;
    }
    check_proto(&o, &arena);
    check_json(&o, &arena);
    return 0;
}
