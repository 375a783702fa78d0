// SPDX-License-Identifier: Apache-2.0
//
// Protobuf: any bytes are walked to an end or an error; a message that is read whole and written
// field by field must read as the same fields.
#include <assert.h>
#include <string.h>

#include "base/vec.h"
#include "codec/proto.h"
#include "fuzz.h"

#include "base/banned.h"

struct fields VEC(struct proto_field);

static void walk_items(const struct proto_reader *r, const struct proto_field *f,
                       enum proto_wire wire)
{
    struct proto_items items;
    uint64_t v;
    int code = proto_items_of(r, f, wire, &items, NULL);
    while (code >= 0 && (code = proto_items_next(&items, &v, NULL)) > 0)
        continue;
}

// Walks a message and what looks like messages inside, as far as the reader lets it.
static void walk(struct proto_reader r, struct fields *top)
{
    struct proto_field f;
    struct err err = {0};
    int code;
    while ((code = proto_next(&r, &f, &err)) > 0) {
        assert(f.number > 0 && f.number <= PROTO_FIELD_MAX && f.raw.n > 0);
        if (top)
            vec_push(top, f);
        struct proto_reader inner;
        struct str text;
        walk_items(&r, &f, PROTO_VARINT);
        walk_items(&r, &f, PROTO_FIXED32);
        (void)!proto_to_str(&r, &f, &text, NULL);
        if (proto_enter(&r, &f, &inner, NULL) == 0)
            walk(inner, NULL);
    }
    assert(code == 0 || (err.code == ERR_BAD_REQUEST && err.msg[0]));
    if (code < 0 && top)
        vec_clear(top);
}

static void put_field(struct proto_writer *w, const struct proto_field *f)
{
    switch (f->wire) {
    case PROTO_VARINT:
        proto_put_varint(w, f->number, f->value);
        break;
    case PROTO_FIXED64: {
        double v;
        memcpy(&v, &f->value, sizeof(v));
        proto_put_double(w, f->number, v);
        break;
    }
    case PROTO_BYTES:
        if (f->number % 2) {
            size_t mark = proto_mark(w);
            proto_put_raw(w, f->bytes);
            proto_close(w, f->number, mark);
        } else {
            proto_put_bytes(w, f->number, f->bytes);
        }
        break;
    case PROTO_FIXED32:
    case PROTO_GROUP:
    case PROTO_GROUP_END:
        proto_put_raw(w, f->raw);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str message = str_make((const char *)data, size);
    struct fields fields = {0};
    walk(proto_reader_of(message), &fields);
    cleanup_proto_writer struct proto_writer w = {0};
    for (size_t i = fields.n; i > 0; i--)
        put_field(&w, &fields.p[i - 1]);
    struct proto_reader again = proto_reader_of(proto_written(&w));
    vec_foreach(&fields, want) {
        struct proto_field f;
        int code = proto_next(&again, &f, NULL);
        assert(code == 1);
        assert(f.number == want->number && f.wire == want->wire && f.value == want->value);
        assert(str_eq(f.bytes, want->bytes));
    }
    struct proto_field extra;
    int code = proto_next(&again, &extra, NULL);
    assert(code == 0);
    vec_done(&fields);
    return 0;
}
