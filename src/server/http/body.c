// SPDX-License-Identifier: Apache-2.0
//
// Bodies of requests: from JSON, YAML or protobuf to a typed object, with the strictness the client
// wants.
#include "server/http/body.h"

#include <stdio.h>

#include "codec/yaml.h"

#include "base/banned.h"

// body_cannot_be makes upstream's text for an object of a known kind that is not what was wanted.
static int body_cannot_be(struct str kind, struct str version, const struct api_kind *want,
                          struct str why, struct err *err)
{
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, version);
    return err_set(err, ERR_BAD_REQUEST, "%.*s in version %s cannot be handled as a %.*s: %.*s",
                   STR_ARG(kind), quoted.p, STR_ARG(want->kind), STR_ARG(why));
}

// not_recognized is for bodies that do not say what they are. Like upstream it shows their
// beginning in hexadecimal.
static int not_recognized(struct str body, const struct api_kind *want, const struct err *why,
                          struct err *err)
{
    cleanup_sbuf struct sbuf shown = {0};
    for (size_t i = 0; i < body.n && i < 30; i++)
        sbuf_addf(&shown, "%02x", (unsigned)(unsigned char)body.p[i]);
    if (body.n > 30)
        sbuf_add(&shown, STR(" ..."));
    if (body.n == 0)
        sbuf_add(&shown, STR("<empty>"));
    char text[DRAY_ERR_MSG_MAX];
    err_text(why, text, sizeof(text));
    return err_set(err, ERR_BAD_REQUEST,
                   "the object provided is unrecognized (must be of type %.*s): couldn't get "
                   "version/kind; json parse error: %.300s (%s)",
                   STR_ARG(want->kind), text, shown.p);
}

static int body_parse_text(struct str body, enum media media, struct json_doc *doc, struct err *err)
{
    struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
    if (media == MEDIA_YAML)
        return yaml_parse(body, &options, doc, err);
    return json_parse(body, &options, doc, err);
}

static struct str body_read_member(const yyjson_val *root, struct str key)
{
    const yyjson_val *v = json_get(root, key);
    return v && json_is_string(v) ? json_str(v) : (struct str){0};
}

// check_type compares the type that a body names with the route's.
static int check_type(struct str api_version, struct str kind, const struct api_kind *want,
                      struct err *err)
{
    struct str group, version;
    if (!str_cut(api_version, '/', &group, &version))
        version = api_version;
    if (kind.n && !str_eq(kind, want->kind)) {
        char why[DRAY_ERR_MSG_MAX]; // cut where it is too long, as all messages are
        (void)snprintf(why, sizeof(why), "this path takes kind %.*s of %.*s", STR_ARG(want->kind),
                       STR_ARG(want->api_version));
        return body_cannot_be(str_upto(kind, 100), str_upto(version, 100), want, str_z(why), err);
    }
    if (api_version.n && !str_eq(api_version, want->api_version))
        return err_set(err, ERR_BAD_REQUEST,
                       "the API version in the data (%.*s) does not match the expected API version "
                       "(%.*s)",
                       STR_ARG(str_upto(api_version, 100)), STR_ARG(want->api_version));
    return 0;
}

static int decode_text(struct str body, enum media media, const struct api_kind *want,
                       struct arena *arena, struct json_strict *strict, struct api_object *ret,
                       struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct err why = {0};
    int r = body_parse_text(body, media, &doc, &why);
    if (r == 0 && !json_is_object(doc.root))
        r = err_set(&why, ERR_BAD_REQUEST, "cannot unmarshal %s into Go value of type struct",
                    json_type_name(doc.root));
    if (r < 0)
        return not_recognized(body, want, &why, err);
    r = check_type(body_read_member(doc.root, STR("apiVersion")),
                   body_read_member(doc.root, STR("kind")), want, err);
    if (r < 0)
        return r;
    r = api_decode_as(want, &doc, doc.root, arena, strict, ret, &why);
    if (r < 0) {
        char text[DRAY_ERR_MSG_MAX];
        err_text(&why, text, sizeof(text));
        return body_cannot_be(want->kind, want->version, want, str_z(text), err);
    }
    api_set_type_meta(ret);
    return 0;
}

int body_decode(struct str body, enum media media, const struct api_kind *want, struct arena *arena,
                struct json_strict *strict, struct api_object *ret, struct err *err)
{
    if (media != MEDIA_PROTOBUF)
        return decode_text(body, media, want, arena, strict, ret, err);
    struct err why = {0};
    if (!api_kind_in_proto(want))
        return body_cannot_be(want->kind, want->version, want,
                              STR("this kind is taken as JSON or YAML, not as protobuf"), err);
    int r = api_envelope_read(body, arena, ret, &why);
    if (r < 0) {
        char text[DRAY_ERR_MSG_MAX];
        err_text(&why, text, sizeof(text));
        return body_cannot_be(want->kind, want->version, want, str_z(text), err);
    }
    r = check_type(api_object_version(ret), ret->kind->kind, want, err);
    if (r == 0)
        api_set_type_meta(ret);
    return r;
}

static int options_of_text(struct str body, enum media media, const struct api_kind *kind,
                           struct arena *arena, struct api_object *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = body_parse_text(body, media, &doc, err);
    if (r < 0)
        return r;
    if (!json_is_object(doc.root))
        return err_set(err, ERR_BAD_REQUEST, "DeleteOptions must be an object, not %s",
                       json_type_name(doc.root));
    struct str name = body_read_member(doc.root, STR("kind"));
    if (name.n && !str_eq(name, STR("DeleteOptions")))
        return err_set(err, ERR_BAD_REQUEST, "decoded object cannot be converted to DeleteOptions");
    return api_decode_as(kind, &doc, doc.root, arena, NULL, ret, err);
}

int body_delete_options(struct str body, enum media media, struct arena *arena,
                        struct api_delete_options **ret, struct err *err)
{
    const struct api_kind *kind = api_kind_find(STR("v1"), STR("DeleteOptions"));
    struct api_object o = {0};
    struct err why = {0};
    int r = media == MEDIA_PROTOBUF ? api_envelope_read(body, arena, &o, &why)
                                    : options_of_text(body, media, kind, arena, &o, &why);
    if (r == 0 && !str_eq(o.kind->kind, STR("DeleteOptions")))
        r = err_set(&why, ERR_BAD_REQUEST, "decoded object cannot be converted to DeleteOptions");
    if (r < 0) {
        char text[DRAY_ERR_MSG_MAX];
        err_text(&why, text, sizeof(text));
        return err_set(err, ERR_BAD_REQUEST, "%s", text);
    }
    *ret = o.value;
    return 0;
}
