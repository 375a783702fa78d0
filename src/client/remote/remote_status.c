// SPDX-License-Identifier: Apache-2.0
//
// Answers of a server, in our terms.
#include "client/remote/remote_int.h"

#include "base/banned.h"

// Reasons of a Status, as the registry's codes; what is not here goes by the HTTP status.
static const struct {
    const char *reason;
    int code;
} reasons[] = {
    {"BadRequest", ERR_BAD_REQUEST},
    {"Unauthorized", ERR_UNAUTHORIZED},
    {"Forbidden", ERR_FORBIDDEN},
    {"NotFound", ERR_NOT_FOUND},
    {"AlreadyExists", ERR_ALREADY_EXISTS},
    {"Conflict", ERR_CONFLICT},
    {"Gone", ERR_GONE},
    {"Expired", ERR_EXPIRED},
    {"Invalid", ERR_INVALID},
    {"RequestEntityTooLarge", ERR_TOO_LARGE},
    {"TooManyRequests", ERR_TOO_MANY},
    {"Timeout", ERR_TIMEOUT},
    {"ServerTimeout", ERR_TIMEOUT},
    {"ServiceUnavailable", ERR_UNAVAILABLE},
    {"UnsupportedMediaType", ERR_UNSUPPORTED},
    {"MethodNotAllowed", ERR_UNSUPPORTED},
    {"NotAcceptable", ERR_UNSUPPORTED},
    {"InternalError", ERR_INTERNAL},
    {"StorageReadError", ERR_INTERNAL},
};

static int by_status(int status)
{
    switch (status) {
    case 400:
        return ERR_BAD_REQUEST;
    case 401:
        return ERR_UNAUTHORIZED;
    case 403:
        return ERR_FORBIDDEN;
    case 404:
        return ERR_NOT_FOUND;
    case 405:
    case 406:
    case 415:
        return ERR_UNSUPPORTED;
    case 409:
        return ERR_CONFLICT;
    case 410:
        return ERR_EXPIRED;
    case 413:
        return ERR_TOO_LARGE;
    case 422:
        return ERR_INVALID;
    case 429:
        return ERR_TOO_MANY;
    case 502:
    case 503:
        return ERR_UNAVAILABLE;
    case 504:
        return ERR_TIMEOUT;
    default:
        return ERR_INTERNAL;
    }
}

static struct str remote_status_field_text(const yyjson_val *v, const char *field)
{
    const yyjson_val *found = json_get(v, str_z(field));
    return found && json_is_string(found) ? json_str(found) : (struct str){0};
}

// Informers look for this cause: the server does not know that revision yet, and may never.
static bool too_large_version(const yyjson_val *status)
{
    const yyjson_val *details = json_get(status, STR("details"));
    const yyjson_val *causes = details ? json_get(details, STR("causes")) : NULL;
    if (!causes || !json_is_array(causes))
        return false;
    json_arr_foreach(causes, cause) {
        if (str_eqz(remote_status_field_text(cause, "reason"), "ResourceVersionTooLarge"))
            return true;
    }
    return false;
}

int remote_status_value(int http_status, const yyjson_val *status, struct err *err)
{
    struct str reason = remote_status_field_text(status, "reason");
    struct str message = remote_status_field_text(status, "message");
    const yyjson_val *code = json_get(status, STR("code"));
    int64_t stated = 0;
    if (http_status == 0 && code && json_to_i64(code, &stated, NULL) == 0 && stated >= 300 &&
        stated < 600)
        http_status = (int)stated;
    int found = by_status(http_status);
    for (size_t i = 0; i < array_len(reasons); i++)
        if (str_eqz(reason, reasons[i].reason))
            found = reasons[i].code;
    if (too_large_version(status))
        found = ERR_EXPIRED;
    if (message.n)
        return err_set(err, found, "%.*s", STR_ARG(message));
    return err_set(err, found, "%s", err_reason(found));
}

// A Status in protobuf becomes JSON, so that there is one way to read it.
static bool status_text(struct str body, struct sbuf *out)
{
    cleanup_arena struct arena arena = {0};
    struct api_object o;
    struct json_writer w = {.out = out};
    return api_envelope_read(body, &arena, &o, NULL) == 0 && o.kind->type == &api_status_type &&
           api_json_write(o.kind->type, o.value, &w, NULL) == 0;
}

int client_remote_status(int http_status, struct str body, struct err *err)
{
    if (http_status >= 200 && http_status < 300)
        return 0;
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf text = {0};
    if (api_envelope_is(body))
        body = status_text(body, &text) ? sbuf_str(&text) : STR("");
    if (json_parse(body, &(struct json_options){.duplicates = JSON_DUPLICATES_LAST}, &doc, NULL) ==
            0 &&
        json_is_object(doc.root) && str_eqz(remote_status_field_text(doc.root, "kind"), "Status"))
        return remote_status_value(http_status, doc.root, err);
    struct str line, rest;
    str_cut(str_trim(body), '\n', &line, &rest);
    return err_set(err, by_status(http_status), "the server answered %d%s%.*s", http_status,
                   line.n ? ": " : "", STR_ARG(str_upto(line, 200)));
}

// --- Objects -------------------------------------------------------------------------------------

// Takes what was decoded, or gives it up.
static struct typed_object *remote_status_finish_object(struct typed_object *o, struct err *err)
{
    o->meta = api_object_meta(&o->object);
    if (!o->meta) {
        (void)err_set(err, ERR_INTERNAL, "the server sent an object without metadata");
        typed_object_unref(o);
        return NULL;
    }
    api_set_type_meta(&o->object); // items of lists come without
    (void)!str_to_u64(o->meta->resource_version, &o->revision);
    return o;
}

// remote_status_compact_object is the same object in an arena of its own size.
static struct typed_object *remote_status_compact_object(struct typed_object *o)
{
    struct typed_object *small = typed_object_copy(&o->object, o->arena.used_bytes, 0);
    typed_object_unref(o);
    return small;
}

struct typed_object *remote_decode(const struct api_kind *kind, const struct json_doc *doc,
                                   const yyjson_val *v, bool compact, struct err *err)
{
    struct typed_object *o = typed_object_new();
    if (api_decode_as(kind, doc, v, &o->arena, NULL, &o->object, err) < 0) {
        typed_object_unref(o);
        return NULL;
    }
    return remote_status_finish_object(compact ? remote_status_compact_object(o) : o, err);
}

int remote_decode_message(const struct api_kind *kind, struct str message,
                          struct typed_object **ret, struct err *err)
{
    struct typed_object *o = typed_object_new();
    o->object.kind = kind;
    o->object.value = arena_alloc(&o->arena, kind->type->size, _Alignof(max_align_t));
    memset(o->object.value, 0, kind->type->size);
    int r = api_proto_read(kind->type, message, o->object.value, &o->arena, err);
    if (r < 0) {
        typed_object_unref(o);
        return r;
    }
    *ret = remote_status_finish_object(remote_status_compact_object(o), err);
    return *ret ? 0 : -err->code;
}

int remote_decode_envelope(const struct api_kind *kind, struct str body, bool compact,
                           struct typed_object **ret, struct err *err)
{
    struct typed_object *o = typed_object_new();
    // Typed, an object takes about this much; answers may stay for a while, many at once.
    arena_reserve(&o->arena, 512 + 2 * body.n);
    int r = api_envelope_read(body, &o->arena, &o->object, err);
    if (r == 0 && o->object.kind == kind) {
        *ret = remote_status_finish_object(compact ? remote_status_compact_object(o) : o, err);
        return *ret ? 0 : -err->code;
    }
    if (r == 0 && o->object.kind->type != &api_status_type)
        r = err_set(err, ERR_INTERNAL, "the server sent a %.*s instead of a %.*s",
                    STR_ARG(o->object.kind->kind), STR_ARG(kind->kind));
    typed_object_unref(o);
    return r;
}
