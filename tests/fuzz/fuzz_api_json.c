// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as an object in JSON. What is accepted must survive being written and read again, in JSON
// and in protobuf, also after defaulting, and must equal its copy.
#include <assert.h>
#include <string.h>

#include "api/api.h"
#include "fuzz.h"

#include "base/banned.h"

// write_json answers false when a RawExtension holds something that is not JSON.
static bool write_json(const struct api_object *o, struct sbuf *out)
{
    struct json_writer w = {.out = out, .html = true};
    return api_json_write(o->kind->type, o->value, &w, NULL) == 0;
}

static void check_copy(const struct api_object *o, struct arena *arena)
{
    void *copy = arena_alloc(arena, o->kind->type->size, _Alignof(max_align_t));
    api_copy(o->kind->type, o->value, copy, arena);
    assert(api_equal(o->kind->type, o->value, copy));
}

static void check_json(const struct api_object *o, struct arena *arena)
{
    cleanup_sbuf struct sbuf text = {0}, again = {0};
    cleanup_json_doc struct json_doc doc = {0};
    // Raw JSON inside an object is kept as it came, repeated keys included.
    struct json_options options = {.max_bytes = (size_t)64 << 20,
                                   .duplicates = JSON_DUPLICATES_KEEP};
    struct api_object back;
    if (!write_json(o, &text))
        return;
    int rc = json_parse(sbuf_str(&text), &options, &doc, NULL);
    assert(rc == 0);
    rc = api_decode_as(o->kind, &doc, doc.root, arena, NULL, &back, NULL);
    assert(rc == 0);
    bool written = write_json(&back, &again);
    assert(written && str_eq(sbuf_str(&text), sbuf_str(&again)));
}

static void check_proto(const struct api_object *o, struct arena *arena)
{
    cleanup_sbuf struct sbuf wire = {0}, again = {0};
    struct api_object back;
    api_envelope_write(o, &wire);
    int rc = api_envelope_read(sbuf_str(&wire), arena, &back, NULL);
    // Messages may nest less deep than JSON.
    if (rc < 0)
        return;
    api_envelope_write(&back, &again);
    assert(str_eq(sbuf_str(&wire), sbuf_str(&again)));
}

static void check_versions(const struct api_object *o, struct arena *arena)
{
    for (size_t i = 0; i < api_kinds_len; i++) {
        struct api_object there;
        if (str_eq(api_kinds[i].kind, o->kind->kind) &&
            str_eq(api_kinds[i].group, o->kind->group)) {
            int rc = api_convert(o, &api_kinds[i], arena, &there, NULL);
            assert(rc == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_json_strict struct json_strict strict = {0};
    struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
    struct api_object o;
    struct err err = {0};
    if (json_parse(str_make((const char *)data, size), &options, &doc, &err) < 0)
        return 0;
    if (api_decode(&doc, doc.root, &arena, &strict, &o, &err) < 0) {
        assert(err.code == ERR_BAD_REQUEST || err.code == ERR_NOT_FOUND);
        return 0;
    }
    check_json(&o, &arena);
    check_proto(&o, &arena);
    check_copy(&o, &arena);
    check_versions(&o, &arena);
    api_default(o.kind->type, o.value, NULL, &arena);
    check_json(&o, &arena);
    return 0;
}
