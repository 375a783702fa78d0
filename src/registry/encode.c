// SPDX-License-Identifier: Apache-2.0
//
// Between typed objects and stored ones.
#include "api/partial.h"
#include "registry/stage_int.h"

#include "base/banned.h"

// --- Reading -------------------------------------------------------------------------------------

const struct api_kind *registry_stored_kind(const struct api_kind *kind)
{
    // Events of both groups are the same objects.
    if (kind->type == &api_events_event_type)
        return api_kind_find(STR("v1"), STR("Event"));
    return kind->custom ? kind->custom->hub : api_hub_kind(kind);
}

int encode_read_stored(const struct object *o, const struct api_time *now, struct arena *arena,
                       struct api_object *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = JSON_DUPLICATES_KEEP};
    int r = json_parse(o->json, &options, &doc, err);
    if (r == 0)
        r = api_decode_as(o->kind, &doc, doc.root, arena, NULL, ret, err);
    if (r < 0) {
        (void)err_wrap(err, "the stored %.*s %.*s cannot be read", STR_ARG(o->kind->kind),
                       STR_ARG(o->name));
        return -ERR_INTERNAL;
    }
    // Taints that were stored without a time have that of the reading.
    const struct api_default_options defaults = {.now = *now};
    api_default(o->kind->type, ret->value, &defaults, arena);
    return 0;
}

// op_decode_cached copies the typed form of o into the op's arena. False: there is none.
static bool op_decode_cached(struct op *op, const struct object *o, struct api_object *ret)
{
    struct typed_object *typed = typed_cache_find(op->reg->typed, o, o->kind);
    if (!typed)
        return false;
    const struct api_default_options defaults = {.now = op->now};
    const struct api_type *type = o->kind->type;
    *ret = (struct api_object){o->kind, arena_alloc(op->arena, type->size, _Alignof(max_align_t))};
    api_copy(type, typed->object.value, ret->value, op->arena);
    api_default(type, ret->value, &defaults, op->arena);
    typed_object_unref(typed);
    return true;
}

int op_decode(struct op *op, const struct object *o, struct api_object *ret)
{
    struct err err = {0};
    if (!o->kind->custom && op_decode_cached(op, o, ret))
        return 0;
    if (encode_read_stored(o, &op->now, op->arena, ret, &err) < 0)
        return fail_internal(op, "%s", err.msg);
    // What was stored may know more, or less, than the schema of today.
    if (o->kind->custom)
        custom_fit(op->request->kind, ret->value, op->arena);
    return 0;
}

// Of a partial kind only the metadata is read.
static int decode_partial(const struct object *o, const struct api_kind *as, struct arena *arena,
                          struct api_object *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = JSON_DUPLICATES_KEEP};
    int r = json_parse(o->json, &options, &doc, err);
    if (r == 0)
        r = api_decode_as(as, &doc, doc.root, arena, NULL, ret, err);
    if (r == 0)
        api_set_type_meta(ret);
    return r < 0 ? -ERR_INTERNAL : 0;
}

static int decode_as(const struct object *o, const struct api_kind *as, struct arena *arena,
                     struct api_object *ret, struct err *err)
{
    static const struct api_time unknown;
    struct api_object stored = {0};
    if (api_kind_is_partial(as))
        return decode_partial(o, as, arena, ret, err);
    int r = encode_read_stored(o, &unknown, arena, &stored, err);
    if (r < 0)
        return r;
    *ret = (struct api_object){as, stored.value};
    if (as->type != o->kind->type)
        r = api_convert(&stored, as, arena, ret, err);
    if (r == 0)
        api_set_type_meta(ret);
    return r < 0 ? -ERR_INTERNAL : 0;
}

int registry_decode(const struct object *o, const struct api_kind *as, struct arena *arena,
                    struct api_object *ret, struct err *err)
{
    return decode_as(o, as, arena, ret, err);
}

int registry_json(const struct object *o, const struct api_kind *as, bool in_list, struct sbuf *out,
                  struct err *err)
{
    if (as == o->kind) {
        if (in_list)
            sbuf_addc(out, '{');
        sbuf_add(out, in_list ? str_from(o->json, o->body_offset) : o->json);
        return 0;
    }
    cleanup_arena struct arena arena = {0};
    struct api_object object = {0};
    int r = decode_as(o, as, &arena, &object, err);
    if (r < 0)
        return r;
    if (in_list && !as->custom)
        api_set_type_meta_as(&object, STR(""), STR(""));
    struct json_writer w = {.out = out, .html = true};
    return api_json_write(as->type, object.value, &w, err) < 0 ? -ERR_INTERNAL : 0;
}

int encode_to_stored(struct op *op, const struct api_object *in, struct api_object *ret)
{
    struct err err = {0};
    *ret = (struct api_object){op->stored, in->value};
    if (in->kind->type != op->stored->type && api_convert(in, op->stored, op->arena, ret, &err) < 0)
        return fail_internal(op, "%s", err.msg);
    api_set_type_meta(ret);
    return 0;
}

// --- Making --------------------------------------------------------------------------------------

// What stands beside the JSON.
static void fill_parts(const struct api_object *object, struct arena *arena,
                       struct object_parts *parts)
{
    const struct api_object_meta *meta = api_object_meta(object);
    struct pairs fields = {0};
    struct object_pair *labels = arena_array(arena, struct object_pair, meta->labels.n + 1);
    for (size_t i = 0; i < meta->labels.n; i++)
        labels[i] = (struct object_pair){meta->labels.p[i].key, meta->labels.p[i].value};
    kinds_fields_of(object, arena, &fields);
    parts->kind = object->kind;
    parts->namespace = meta->namespace;
    parts->name = meta->name;
    parts->uid = meta->uid;
    parts->labels = labels;
    parts->labels_len = meta->labels.n;
    parts->fields = fields.p;
    parts->fields_len = fields.n;
}

int encode_json(struct registry *reg, const struct api_object *object, uint64_t revision,
                struct arena *arena, struct err *err)
{
    struct api_object_meta *meta = api_object_meta(object);
    meta->resource_version =
        revision ? arena_strf(arena, "%llu", (unsigned long long)revision) : STR("");
    api_set_type_meta(object);
    sbuf_clear(&reg->json.text);
    struct json_writer w = {.out = &reg->json.text, .html = true};
    int r = api_json_write(object->kind->type, object->value, &w, err);
    reg->json.altered = w.altered;
    return r;
}

struct object *encode_new_object(struct registry *reg, const struct api_object *object,
                                 uint64_t revision, struct arena *arena)
{
    struct object_parts parts = {.revision = revision, .json = sbuf_str(&reg->json.text)};
    fill_parts(object, arena, &parts);
    return object_new(&parts);
}

// with_revision writes json with another resourceVersion to out. Metadata comes first in every
// kind, and before the version only strings, in which a quote is escaped: the first match is the
// right one.
static void with_revision(struct str json, uint64_t revision, struct sbuf *out)
{
    struct str key = STR("\"resourceVersion\":\"");
    ptrdiff_t at = str_find(json, key);
    if (at < 0) {
        sbuf_add(out, json);
        return;
    }
    struct str head = str_upto(json, (size_t)at + key.n), tail = str_from(json, head.n);
    sbuf_add(out, head);
    sbuf_add_u64(out, revision);
    sbuf_add(out, str_from(tail, (size_t)str_find_char(tail, '"')));
}

struct object *encode_new_object_at(struct registry *reg, const struct api_object *object,
                                    uint64_t revision, struct arena *arena)
{
    sbuf_clear(&reg->json.spliced);
    with_revision(sbuf_str(&reg->json.text), revision, &reg->json.spliced);
    api_object_meta(object)->resource_version =
        arena_strf(arena, "%llu", (unsigned long long)revision);
    struct object_parts parts = {.revision = revision, .json = sbuf_str(&reg->json.spliced)};
    fill_parts(object, arena, &parts);
    return object_new(&parts);
}

struct object *encode_object_at(struct registry *reg, const struct object *o, uint64_t revision)
{
    sbuf_clear(&reg->json.spliced);
    with_revision(o->json, revision, &reg->json.spliced);
    const struct object_parts parts = {.kind = o->kind,
                                       .revision = revision,
                                       .namespace = o->namespace,
                                       .name = o->name,
                                       .uid = o->uid,
                                       .json = sbuf_str(&reg->json.spliced),
                                       .labels = o->labels,
                                       .labels_len = o->labels_len,
                                       .fields = o->fields,
                                       .fields_len = o->fields_len};
    return object_new(&parts);
}
