// SPDX-License-Identifier: Apache-2.0
//
// Objects, lists and watch events in the requested version and form. The newest encoded events are
// cached: a thousand watchers of one kind share one buffer.
#include "server/http/encode.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "codec/json_writer.h"
#include "registry/registry.h"

#include "base/banned.h"

static const struct str revision_key = STR_INIT("\"resourceVersion\":\"");

// In metadata only names, the UID and the like stand before resourceVersion: their text cannot hold
// a bare quote, so the first occurrence of the key is the one.
void encode_revision(struct str json, uint64_t revision, struct sbuf *out)
{
    ptrdiff_t at = str_find(json, revision_key);
    if (at < 0) {
        sbuf_add(out, json);
        return;
    }
    size_t start = (size_t)at + revision_key.n, end = start;
    while (end < json.n && json.p[end] != '"')
        end++;
    sbuf_add(out, str_upto(json, start));
    sbuf_add_u64(out, revision);
    sbuf_add(out, str_from(json, end));
}

void encode_metadata(struct str json, struct sbuf *out)
{
    static const struct str key = STR_INIT("\"metadata\":{");
    ptrdiff_t at = str_find(json, key);
    if (at < 0) {
        sbuf_add(out, STR("{}"));
        return;
    }
    size_t start = (size_t)at + key.n - 1, i = start, depth = 0;
    bool quoted = false;
    for (; i < json.n; i++) {
        char c = json.p[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{') {
            depth++;
        } else if (c == '}' && --depth == 0) {
            break;
        }
    }
    if (i < json.n)
        sbuf_add(out, str_make(json.p + start, i + 1 - start));
    else
        sbuf_add(out, STR("{}")); // not JSON to its end
}

static bool is_stored_version(const struct object *o, const struct encode_how *how)
{
    return o->kind == how->as;
}

// whole_json gives the object's JSON in the wanted version: the stored bytes, or converted ones in
// scratch.
static int whole_json(const struct object *o, const struct encode_how *how, struct sbuf *scratch,
                      struct str *ret, struct err *err)
{
    if (is_stored_version(o, how)) {
        *ret = o->json;
        return 0;
    }
    int r = registry_json(o, how->as, false, scratch, err);
    *ret = sbuf_str(scratch);
    return r;
}

static struct str encode_meta_version(const struct encode_how *how)
{
    return how->v1beta1 ? STR("meta.k8s.io/v1beta1") : STR("meta.k8s.io/v1");
}

static void metadata_object(struct str json, const struct encode_how *how, struct sbuf *out)
{
    sbuf_add(out, STR("{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\""));
    sbuf_add(out, encode_meta_version(how));
    sbuf_add(out, STR("\",\"metadata\":"));
    encode_metadata(json, out);
    sbuf_addc(out, '}');
}

static int encode_row(const struct object *o, const struct encode_how *how, struct sbuf *out,
                      struct err *err);

int encode_object(const struct object *o, const struct encode_how *how, uint64_t revision,
                  struct sbuf *out, struct err *err)
{
    if (how->protobuf)
        return encode_proto_object(o, how, revision, out, err);
    if (how->form == FORM_TABLE) {
        struct encode_list list = {.revision = revision ? revision : o->revision, .remaining = -1};
        encode_list_head(how, &list, out);
        int r = encode_row(o, how, out, err);
        encode_list_tail(out);
        return r;
    }
    cleanup_sbuf struct sbuf converted = {0}, moved = {0};
    struct str json;
    int r = whole_json(o, how, &converted, &json, err);
    if (r < 0)
        return r;
    if (revision && revision != o->revision) {
        encode_revision(json, revision, &moved);
        json = sbuf_str(&moved);
    }
    if (how->form == FORM_METADATA)
        metadata_object(json, how, out);
    else
        sbuf_add(out, json);
    return 0;
}

int encode_item(const struct object *o, const struct encode_how *how, struct sbuf *out,
                struct err *err)
{
    if (how->protobuf)
        return encode_proto_item(o, how, out, err);
    if (how->form == FORM_TABLE)
        return encode_row(o, how, out, err);
    if (how->form == FORM_METADATA)
        return encode_object(o, how, 0, out, err);
    if (!is_stored_version(o, how))
        return registry_json(o, how->as, true, out, err);
    struct str body = str_from(o->json, o->body_offset);
    char *to = sbuf_space(out, body.n + 1);
    to[0] = '{';
    memcpy(to + 1, body.p, body.n);
    sbuf_commit(out, body.n + 1);
    return 0;
}

static void encode_list_meta(const struct encode_list *list, struct sbuf *out)
{
    sbuf_add(out, STR("\"metadata\":{\"resourceVersion\":\""));
    sbuf_add_u64(out, list->revision);
    sbuf_addc(out, '"');
    if (list->continue_token.n) {
        sbuf_add(out, STR(",\"continue\":\""));
        sbuf_add(out, list->continue_token);
        sbuf_addc(out, '"');
    }
    if (list->remaining >= 0) {
        sbuf_add(out, STR(",\"remainingItemCount\":"));
        sbuf_add_i64(out, list->remaining);
    }
    sbuf_add(out, STR("},"));
}

static struct api_table_view table_of(const struct encode_how *how)
{
    return (struct api_table_view){.kind = how->as,
                                   .now = {.sec = how->now_ns / CLOCK_NS_PER_SEC},
                                   .include = how->include,
                                   .no_headers = how->no_headers};
}

static void table_head(const struct encode_how *how, const struct encode_list *list,
                       struct sbuf *out)
{
    char revision[24];
    int n = snprintf(revision, sizeof(revision), "%llu", (unsigned long long)list->revision);
    struct api_list_meta meta = {.resource_version = str_make(revision, (size_t)n),
                                 .continue_value = list->continue_token,
                                 .remaining_item_count = list->remaining,
                                 .has_remaining_item_count = list->remaining >= 0};
    struct api_table_view t = table_of(how);
    struct json_writer w = {.out = out};
    api_table_begin(&t, &meta, &w);
}

static int encode_row(const struct object *o, const struct encode_how *how, struct sbuf *out,
                      struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct api_object typed;
    int r = registry_decode(o, how->as, &arena, &typed, err);
    if (r < 0)
        return r;
    struct api_table_view t = table_of(how);
    struct json_writer w = {.out = out};
    return api_table_row(&t, typed.value, is_stored_version(o, how) ? o->json : (struct str){0}, &w,
                         err);
}

void encode_list_head(const struct encode_how *how, const struct encode_list *list,
                      struct sbuf *out)
{
    if (how->form == FORM_TABLE) {
        table_head(how, list, out);
        return;
    }
    sbuf_add(out, STR("{\"kind\":\""));
    if (how->form == FORM_METADATA)
        sbuf_add(out, STR("PartialObjectMetadataList"));
    else
        sbuf_add(out, how->as->list->kind);
    sbuf_add(out, STR("\",\"apiVersion\":\""));
    sbuf_add(out, how->form == FORM_OBJECT ? how->as->api_version : encode_meta_version(how));
    sbuf_add(out, STR("\","));
    encode_list_meta(list, out);
    sbuf_add(out, STR("\"items\":["));
}

void encode_list_tail(struct sbuf *out)
{
    sbuf_add(out, STR("]}"));
}

// --- Events --------------------------------------------------------------------------------------

static const struct str event_names[] = {
    [STORE_ADDED] = STR_INIT("ADDED"),
    [STORE_MODIFIED] = STR_INIT("MODIFIED"),
    [STORE_DELETED] = STR_INIT("DELETED"),
};

static bool same_how(const struct encode_how *a, const struct encode_how *b)
{
    return a->as == b->as && a->form == b->form && a->v1beta1 == b->v1beta1 &&
           a->include == b->include && a->no_headers == b->no_headers && a->protobuf == b->protobuf;
}

static void frame_event(struct str type, const struct object *o, uint64_t revision,
                        const struct encode_how *how, struct sbuf *out)
{
    cleanup_sbuf struct sbuf object = {0};
    struct err err = {0};
    // Damaged bytes: the watcher learns of the object's existence, not of its content.
    if (encode_proto_object(o, how, revision, &object, &err) < 0)
        sbuf_clear(&object);
    encode_proto_frame(type, sbuf_str(&object), out);
}

void encode_event_to(enum store_event_type type, const struct object *o, uint64_t revision,
                     const struct encode_how *how, struct sbuf *out)
{
    if (how->protobuf) {
        frame_event(event_names[type], o, revision, how, out);
        return;
    }
    sbuf_add(out, STR("{\"type\":\""));
    sbuf_add(out, event_names[type]);
    sbuf_add(out, STR("\",\"object\":"));
    size_t start = out->n;
    struct err err = {0};
    if (encode_object(o, how, revision, out, &err) < 0) {
        sbuf_truncate(out, start);
        sbuf_add(out, STR("null"));
    }
    sbuf_add(out, STR("}\n"));
}

static struct net_buf *make_event(enum store_event_type type, const struct object *o,
                                  uint64_t revision, const struct encode_how *how)
{
    struct sbuf line = {0};
    sbuf_reserve(&line, o->json.n + 64);
    encode_event_to(type, o, revision, how, &line);
    return net_buf_new(&line);
}

static void slot_clear(struct encode_slot *slot)
{
    if (!slot->object)
        return;
    object_unref(slot->object);
    net_buf_unref(slot->bytes);
    *slot = (struct encode_slot){0};
}

struct net_buf *encode_event(struct encode_cache *c, enum store_event_type type,
                             const struct object *o, uint64_t revision,
                             const struct encode_how *how)
{
    for (size_t i = 0; i < ENCODE_CACHE_SLOTS; i++) {
        struct encode_slot *slot =
            &c->slots[(c->next + ENCODE_CACHE_SLOTS - 1 - i) % ENCODE_CACHE_SLOTS];
        if (slot->object == o && slot->type == type && slot->revision == revision &&
            same_how(&slot->how, how)) {
            c->hits++;
            return net_buf_ref(slot->bytes);
        }
    }
    c->misses++;
    struct encode_slot *slot = &c->slots[c->next];
    c->next = (c->next + 1) % ENCODE_CACHE_SLOTS;
    slot_clear(slot);
    *slot = (struct encode_slot){.object = object_ref(o),
                                 .revision = revision,
                                 .type = type,
                                 .how = *how,
                                 .bytes = make_event(type, o, revision, how)};
    return net_buf_ref(slot->bytes);
}

void encode_cache_done(struct encode_cache *c)
{
    for (size_t i = 0; i < ENCODE_CACHE_SLOTS; i++)
        slot_clear(&c->slots[i]);
}

struct net_buf *encode_bookmark(const struct encode_how *how, uint64_t revision, bool initial_end)
{
    struct sbuf line = {0};
    if (how->protobuf) {
        cleanup_sbuf struct sbuf object = {0};
        encode_proto_bookmark(how, revision, initial_end, &object);
        encode_proto_frame(STR("BOOKMARK"), sbuf_str(&object), &line);
        return net_buf_new(&line);
    }
    sbuf_add(&line, STR("{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\""));
    if (how->form == FORM_TABLE)
        sbuf_add(&line, STR("Table"));
    else if (how->form == FORM_METADATA)
        sbuf_add(&line, STR("PartialObjectMetadata"));
    else
        sbuf_add(&line, how->as->kind);
    sbuf_add(&line, STR("\",\"apiVersion\":\""));
    sbuf_add(&line, how->form == FORM_OBJECT ? how->as->api_version : encode_meta_version(how));
    sbuf_add(&line, STR("\",\"metadata\":{\"resourceVersion\":\""));
    sbuf_add_u64(&line, revision);
    sbuf_addc(&line, '"');
    if (how->form == FORM_TABLE) {
        sbuf_add(&line, STR("},\"columnDefinitions\":null,\"rows\":["));
        if (initial_end)
            sbuf_addf(&line,
                      "{\"cells\":[],\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":"
                      "\"%.*s\",\"metadata\":{\"resourceVersion\":\"%llu\",\"annotations\":{\"k8s."
                      "io/initial-events-end\":\"true\"}}}}",
                      STR_ARG(encode_meta_version(how)), (unsigned long long)revision);
        sbuf_add(&line, STR("]}}\n"));
        return net_buf_new(&line);
    }
    if (initial_end)
        sbuf_add(&line, STR(",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}"));
    sbuf_add(&line, STR("}}}\n"));
    return net_buf_new(&line);
}

struct net_buf *encode_error(const struct encode_how *how, const struct api_status *status)
{
    struct sbuf line = {0};
    if (how->protobuf) {
        cleanup_sbuf struct sbuf object = {0};
        encode_proto_status(status, &object);
        encode_proto_frame(STR("ERROR"), sbuf_str(&object), &line);
        return net_buf_new(&line);
    }
    sbuf_add(&line, STR("{\"type\":\"ERROR\",\"object\":"));
    struct json_writer w = {.out = &line};
    struct err err = {0};
    int r = api_json_write(&api_status_type, status, &w, &err);
    assert(r == 0);
    sbuf_add(&line, STR("}\n"));
    return net_buf_new(&line);
}

// --- Bytes of a stored object --------------------------------------------------------------------

struct object_bytes {
    struct net_buf buf;
    const struct object *object;
};

static void release_object(struct net_buf *b)
{
    struct object_bytes *ob = container_of(b, struct object_bytes, buf);
    object_unref(ob->object);
    free(ob);
}

struct net_buf *encode_object_buf(const struct object *o)
{
    struct object_bytes *ob = xcalloc(1, sizeof(*ob));
    ob->object = object_ref(o);
    atomic_init(&ob->buf.refs, 1);
    ob->buf.bytes = o->json;
    ob->buf.release = release_object;
    return &ob->buf;
}
