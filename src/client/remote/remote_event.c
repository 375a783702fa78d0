// SPDX-License-Identifier: Apache-2.0
//
// What a server sends on a watch and in lists, as objects: JSON or protobuf, whichever it chose.
//
// Protobuf is requested because it is cheaper, and because it alone is exact: in JSON a server
// gives opaque parameters compacted, and takes them for changed when they come back.
#include "client/remote/remote_int.h"
#include "codec/proto.h"

#include "base/banned.h"

static const struct json_options loose = {.max_bytes = REMOTE_EVENT_BYTES_MAX,
                                          .duplicates = JSON_DUPLICATES_LAST};

static struct str remote_event_field_text(const yyjson_val *v, const char *field)
{
    const yyjson_val *found = v ? json_get(v, str_z(field)) : NULL;
    return found && json_is_string(found) ? json_str(found) : (struct str){0};
}

// remote_event_parse_type finds the type of an event; 0 or a negative code, which an ERROR is not.
static int remote_event_parse_type(struct str name, enum client_event_type *ret, struct err *err)
{
    static const struct {
        const char *name;
        enum client_event_type type;
    } types[] = {{"ADDED", CLIENT_ADDED},
                 {"MODIFIED", CLIENT_MODIFIED},
                 {"DELETED", CLIENT_DELETED},
                 {"BOOKMARK", CLIENT_BOOKMARK},
                 {"ERROR", CLIENT_ENDED}};
    for (size_t i = 0; i < array_len(types); i++) {
        if (!str_eqz(name, types[i].name))
            continue;
        *ret = types[i].type;
        return 0;
    }
    return err_set(err, ERR_INTERNAL, "the server sent a watch event of type '%.*s'",
                   STR_ARG(name));
}

int remote_event_json(const struct api_kind *kind, struct str text, struct remote_event *ret,
                      struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(text, &loose, &doc, err);
    if (r < 0)
        return err_wrap(err, "invalid watch event from the server");
    const yyjson_val *object = json_get(doc.root, STR("object"));
    if (!object || !json_is_object(object))
        return err_set(err, ERR_INTERNAL, "the server sent a watch event without an object");
    r = remote_event_parse_type(remote_event_field_text(doc.root, "type"), &ret->type, err);
    if (r < 0)
        return r;
    if (ret->type == CLIENT_ENDED)
        return remote_status_value(0, object, err);
    ret->object = remote_decode(kind, &doc, object, true, err);
    return ret->object ? 0 : -err->code;
}

// The message of a WatchEvent: type 1, object 2 (a RawExtension: raw 1, an envelope).
static int read_watch_event(struct str frame, struct str *ret_type, struct str *ret_object,
                            struct err *err)
{
    struct proto_reader r = proto_reader_of(frame), inner;
    struct proto_field f;
    int code;
    while ((code = proto_next(&r, &f, err)) > 0) {
        if (f.number == 1)
            code = proto_to_str(&r, &f, ret_type, err);
        else if (f.number == 2)
            code = proto_enter(&r, &f, &inner, err);
        while (code == 0 && f.number == 2 && (code = proto_next(&inner, &f, err)) > 0) {
            code = f.number == 1 ? proto_to_bytes(&inner, &f, ret_object, err) : 0;
            f.number = 2; // on to the next field inside
        }
        if (code < 0)
            return code;
    }
    return code;
}

int remote_event_frame(const struct api_kind *kind, struct str frame, struct remote_event *ret,
                       struct err *err)
{
    struct str type = {0}, object = {0};
    int r = read_watch_event(frame, &type, &object, err);
    if (r < 0)
        return err_wrap(err, "invalid watch event from the server");
    r = remote_event_parse_type(type, &ret->type, err);
    if (r < 0)
        return r;
    if (ret->type == CLIENT_ENDED)
        return client_remote_status(0, object, err);
    r = remote_decode_envelope(kind, object, true, &ret->object, err);
    if (r == 0 && !ret->object)
        r = err_set(err, ERR_INTERNAL, "the server sent a watch event without an object");
    return r;
}

// --- Lists ---------------------------------------------------------------------------------------

static int page_revision(struct str text, struct remote_page *ret, struct err *err)
{
    if (ret->next.n || str_to_u64(text, &ret->revision) == 0)
        return 0;
    return err_set(err, ERR_INTERNAL, "the server sent a list without a resourceVersion");
}

static int page_json(const struct api_kind *kind, struct str body, remote_item_fn item, void *arg,
                     struct remote_page *ret, struct err *err)
{
    static const struct json_options options = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                                .duplicates = JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(body, &options, &doc, err);
    if (r < 0)
        return err_wrap(err, "invalid list from the server");
    const yyjson_val *items = json_get(doc.root, STR("items"));
    if (items && !json_is_null(items) && !json_is_array(items))
        return err_set(err, ERR_INTERNAL, "the server sent a list without items");
    if (items && json_is_array(items)) {
        json_arr_foreach(items, v) {
            struct typed_object *o = remote_decode(kind, &doc, v, true, err);
            if (!o)
                return -err->code;
            r = item(arg, o);
            typed_object_unref(o);
            if (r != 0)
                return r;
        }
    }
    const yyjson_val *meta = json_get(doc.root, STR("metadata"));
    sbuf_add(&ret->next, remote_event_field_text(meta, "continue"));
    return page_revision(remote_event_field_text(meta, "resourceVersion"), ret, err);
}

// The message of a list: metadata 1 (resourceVersion 2, continue 3), items 2.
static int page_meta(const struct proto_reader *r, const struct proto_field *f,
                     struct sbuf *version, struct sbuf *next, struct err *err)
{
    struct proto_reader inner;
    struct proto_field g;
    int code = proto_enter(r, f, &inner, err);
    while (code == 0 && (code = proto_next(&inner, &g, err)) > 0) {
        struct str text = {0};
        code = 0;
        if (g.number == 2 || g.number == 3)
            code = proto_to_str(&inner, &g, &text, err);
        sbuf_add(g.number == 2 ? version : next, g.number == 2 || g.number == 3 ? text : STR(""));
    }
    return code;
}

static int page_items(const struct api_kind *kind, struct str message, remote_item_fn item,
                      void *arg, struct remote_page *ret, struct err *err)
{
    cleanup_sbuf struct sbuf version = {0};
    struct proto_reader r = proto_reader_of(message);
    struct proto_field f;
    int code;
    while ((code = proto_next(&r, &f, err)) > 0) {
        code = 0;
        if (f.number == 1) {
            code = page_meta(&r, &f, &version, &ret->next, err);
        } else if (f.number == 2) {
            struct typed_object *o = NULL;
            code = remote_decode_message(kind, f.bytes, &o, err);
            code = code < 0 ? code : item(arg, o);
            typed_object_unref(o);
        }
        if (code != 0)
            return code;
    }
    return code < 0 ? code : page_revision(sbuf_str(&version), ret, err);
}

int remote_page_read(const struct api_kind *kind, struct str body, remote_item_fn item, void *arg,
                     struct remote_page *ret, struct err *err)
{
    if (!api_envelope_is(body))
        return page_json(kind, body, item, arg, ret, err);
    struct proto_reader r = proto_reader_of(str_from(body, 4));
    struct proto_field f;
    struct str message = {0};
    int code;
    while ((code = proto_next(&r, &f, err)) > 0)
        if (f.number == 2 && f.wire == PROTO_BYTES)
            message = f.bytes;
    return code < 0 ? err_wrap(err, "invalid list from the server")
                    : page_items(kind, message, item, arg, ret, err);
}
