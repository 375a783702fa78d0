// SPDX-License-Identifier: Apache-2.0
//
// runtime.Unknown: the message around every Kubernetes object in protobuf.
#include "api/api.h"
#include "codec/proto.h"

#include "base/banned.h"

static const struct str magic = {"k8s", 4}; // with its NUL

struct envelope {
    struct str api_version;
    struct str kind;
    struct str raw;
    struct str encoding;
};

bool api_envelope_is(struct str body)
{
    return str_starts(body, magic);
}

static int read_type_meta(struct proto_reader in, struct envelope *e, struct err *err)
{
    struct proto_field f;
    int r;
    while ((r = proto_next(&in, &f, err)) > 0) {
        if (f.number == 1)
            r = proto_to_str(&in, &f, &e->api_version, err);
        else if (f.number == 2)
            r = proto_to_str(&in, &f, &e->kind, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int read_envelope(struct str body, struct envelope *e, struct err *err)
{
    struct proto_reader in = proto_reader_of(str_from(body, magic.n)), inside;
    struct proto_field f;
    int r;
    while ((r = proto_next(&in, &f, err)) > 0) {
        if (f.number == 1) {
            r = proto_enter(&in, &f, &inside, err);
            if (r == 0)
                r = read_type_meta(inside, e, err);
        } else if (f.number == 2) {
            r = proto_to_bytes(&in, &f, &e->raw, err);
        } else if (f.number == 3) {
            r = proto_to_str(&in, &f, &e->encoding, err);
        }
        if (r < 0)
            return r;
    }
    return r;
}

int api_envelope_read(struct str body, struct arena *arena, struct api_object *ret, struct err *err)
{
    struct envelope e = {0};
    if (!api_envelope_is(body))
        return err_set(err, ERR_BAD_REQUEST,
                       "the body does not start with the Kubernetes protobuf mark (k8s\\0)");
    int r = read_envelope(body, &e, err);
    if (r < 0)
        return err_wrap(err, "protobuf envelope");
    if (e.encoding.n)
        return err_set(err, ERR_BAD_REQUEST, "unknown content encoding \"%.*s\"",
                       STR_ARG(str_upto(e.encoding, 100)));
    const struct api_kind *kind = api_kind_find(e.api_version, e.kind);
    if (!kind)
        return err_set(err, ERR_NOT_FOUND, "no kind \"%.*s\" is registered for version \"%.*s\"",
                       STR_ARG(str_upto(e.kind, 100)), STR_ARG(str_upto(e.api_version, 100)));
    struct api_object o = {kind, arena_alloc(arena, kind->type->size, _Alignof(max_align_t))};
    r = api_proto_read(kind->type, e.raw, o.value, arena, err);
    if (r < 0)
        return r;
    api_set_type_meta_as(&o, arena_str(arena, e.api_version), kind->kind);
    *ret = o;
    return 0;
}

void api_envelope_write(const struct api_object *o, struct sbuf *out)
{
    cleanup_sbuf struct sbuf raw = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    api_proto_write(o->kind->type, o->value, &raw);
    proto_put_bytes(&w, 4, STR(""));
    proto_put_bytes(&w, 3, STR(""));
    proto_put_bytes(&w, 2, sbuf_str(&raw));
    size_t mark = proto_mark(&w);
    proto_put_bytes(&w, 2, o->kind->kind);
    proto_put_bytes(&w, 1, api_object_version(o));
    proto_close(&w, 1, mark);
    sbuf_add(out, magic);
    sbuf_add(out, proto_written(&w));
}
