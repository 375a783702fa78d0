// SPDX-License-Identifier: Apache-2.0
//
// Protobuf for clients. An object is decoded from its JSON and written by the tables, once for all
// lists; a list's items come one after the other, and what stands before them is written last,
// because the envelope holds their length.
#include <stdio.h>

#include "base/arena.h"
#include "codec/proto.h"
#include "registry/registry.h"
#include "server/http/encode.h"

#include "base/banned.h"

#define LIST_METADATA 1
#define LIST_ITEMS    2

static struct str encode_proto_meta_version(const struct encode_how *how)
{
    return how->v1beta1 ? STR("meta.k8s.io/v1beta1") : STR("meta.k8s.io/v1");
}

// The envelope's parts after and before the object's own message; the writer runs backwards.
static void close_envelope(struct proto_writer *w)
{
    proto_put_bytes(w, 4, STR(""));
    proto_put_bytes(w, 3, STR(""));
}

static void open_envelope(struct proto_writer *w, struct str api_version, struct str kind)
{
    size_t mark = proto_mark(w);
    proto_put_bytes(w, 2, kind);
    proto_put_bytes(w, 1, api_version);
    proto_close(w, 1, mark);
    proto_put_raw(w, (struct str){"k8s", 4}); // with its NUL
}

// as_wanted decodes an object, or what is wanted of it. *ret is in arena.
static int as_wanted(const struct object *o, const struct encode_how *how, struct arena *arena,
                     struct api_object *ret, struct err *err)
{
    int r = registry_decode(o, how->as, arena, ret, err);
    if (r < 0 || how->form != FORM_METADATA)
        return r;
    struct api_partial_object_metadata *partial =
        arena_one(arena, struct api_partial_object_metadata);
    partial->metadata = *api_object_meta(ret);
    partial->api_version = encode_proto_meta_version(how);
    *ret = (struct api_object){api_kind_find(STR("meta.k8s.io/v1"), STR("PartialObjectMetadata")),
                               partial};
    return 0;
}

int encode_proto_object(const struct object *o, const struct encode_how *how, uint64_t revision,
                        struct sbuf *out, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct api_object typed = {0};
    int r = as_wanted(o, how, &arena, &typed, err);
    if (r < 0)
        return r;
    if (revision && revision != o->revision)
        api_object_meta(&typed)->resource_version =
            arena_strf(&arena, "%llu", (unsigned long long)revision);
    api_envelope_write(&typed, out);
    return 0;
}

static int make_item(const struct object *o, const struct encode_how *how, struct sbuf *out,
                     struct err *err)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf message = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    struct api_object typed = {0};
    int r = as_wanted(o, how, &arena, &typed, err);
    if (r < 0)
        return r;
    api_proto_write(typed.kind->type, typed.value, &message);
    proto_put_bytes(&w, LIST_ITEMS, sbuf_str(&message));
    sbuf_add(out, proto_written(&w));
    return 0;
}

int encode_proto_item(const struct object *o, const struct encode_how *how, struct sbuf *out,
                      struct err *err)
{
    // Clients list the same objects repeatedly, and these do not change.
    bool kept = how->form == FORM_OBJECT && o->kind == how->as;
    struct str note = kept ? object_note(o) : (struct str){0};
    if (note.n) {
        sbuf_add(out, note);
        return 0;
    }
    size_t start = out->n;
    int r = make_item(o, how, out, err);
    if (r == 0 && kept)
        object_set_note(o, str_from(sbuf_str(out), start));
    return r;
}

static void encode_proto_list_meta(const struct encode_list *list, struct sbuf *out)
{
    char revision[24];
    int n = snprintf(revision, sizeof(revision), "%llu", (unsigned long long)list->revision);
    const struct api_list_meta meta = {.resource_version = str_make(revision, (size_t)n),
                                       .continue_value = list->continue_token,
                                       .remaining_item_count = list->remaining,
                                       .has_remaining_item_count = list->remaining >= 0};
    api_proto_write(&api_list_meta_type, &meta, out);
}

// varint_len is how many bytes a length takes.
static size_t varint_len(uint64_t v)
{
    size_t n = 1;
    while (v >>= 7)
        n++;
    return n;
}

static void add_varint(struct sbuf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        sbuf_addc(out, (char)(v | 0x80));
    sbuf_addc(out, (char)v);
}

// The envelope's fields may come in any order: the empty ones go first, so that the list's message
// is the last thing in it.
void encode_proto_list_head(const struct encode_how *how, const struct encode_list *list,
                            size_t items_len, struct sbuf *out)
{
    cleanup_sbuf struct sbuf meta = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    bool partial = how->form == FORM_METADATA;
    encode_proto_list_meta(list, &meta);
    close_envelope(&w);
    open_envelope(&w, partial ? encode_proto_meta_version(how) : how->as->api_version,
                  partial ? STR("PartialObjectMetadataList") : how->as->list->kind);
    sbuf_add(out, proto_written(&w));
    sbuf_addc(out, 2 << 3 | PROTO_BYTES);
    add_varint(out, 1 + varint_len(meta.n) + meta.n + items_len);
    sbuf_addc(out, LIST_METADATA << 3 | PROTO_BYTES);
    add_varint(out, meta.n);
    sbuf_add(out, sbuf_str(&meta));
}

void encode_proto_frame(struct str type, struct str object, struct sbuf *out)
{
    cleanup_proto_writer struct proto_writer w = {0};
    size_t mark = proto_mark(&w);
    proto_put_bytes(&w, 1, object);
    proto_close(&w, 2, mark);
    proto_put_bytes(&w, 1, type);
    struct str event = proto_written(&w);
    for (int shift = 24; shift >= 0; shift -= 8)
        sbuf_addc(out, (char)(event.n >> shift & 0xff));
    sbuf_add(out, event);
}

void encode_proto_bookmark(const struct encode_how *how, uint64_t revision, bool initial_end,
                           struct sbuf *out)
{
    cleanup_arena struct arena arena = {0};
    bool partial = how->form == FORM_METADATA;
    const struct api_kind *kind =
        partial ? api_kind_find(STR("meta.k8s.io/v1"), STR("PartialObjectMetadata")) : how->as;
    struct api_object o = {kind, arena_alloc(&arena, kind->type->size, _Alignof(max_align_t))};
    struct api_object_meta *meta = api_object_meta(&o);
    struct api_str_entry end = {STR("k8s.io/initial-events-end"), STR("true")};
    meta->resource_version = arena_strf(&arena, "%llu", (unsigned long long)revision);
    if (initial_end)
        meta->annotations = (struct api_str_map){&end, 1};
    api_set_type_meta_as(&o, partial ? encode_proto_meta_version(how) : kind->api_version,
                         kind->kind);
    api_envelope_write(&o, out);
}

void encode_proto_status(const struct api_status *status, struct sbuf *out)
{
    struct api_status copy = *status;
    copy.kind = STR("Status");
    copy.api_version = STR("v1");
    const struct api_object o = {api_kind_find(STR("v1"), STR("Status")), &copy};
    api_envelope_write(&o, out);
}
