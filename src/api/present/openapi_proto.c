// SPDX-License-Identifier: Apache-2.0
//
// An OpenAPI v2 document from JSON to protobuf: the messages of openapi.v2 (gnostic), as far as
// documents of an API server use them. What a table does not name is left out. The writer runs
// backwards: fields by descending number, items from last to first.
#include <stdint.h>

#include "api/openapi.h"
#include "base/arena.h"
#include "codec/json.h"
#include "codec/json_writer.h"
#include "codec/proto.h"

#include "base/banned.h"

// Deeper documents are none of ours.
#define DEPTH_MAX 64

enum form {
    TEXT,
    FLAG,
    TEXTS,
    ANY,
    ANYS,
    MESSAGE,
    NAMED,      // an object whose members are messages with a name
    TYPE,       // one text or several, in a message of their own
    PARAMETERS, // the kind of each is in its "in"
};

struct message;

struct rule {
    const char *key;
    uint32_t number;
    enum form form;
    const struct message *sub;
    uint32_t wrap;  // MESSAGE, NAMED: sub is this field of a message that has nothing else
    uint32_t entry; // NAMED: the number of the entries
};

struct message {
    const struct rule *rules; // by ascending number
    size_t rules_len;
    uint32_t extensions; // number of the members that begin with x-
};

#define MESSAGE_OF(rules, extensions)       \
    {                                       \
        rules, array_len(rules), extensions \
    }

static const struct message schema_message;

static const struct rule schema_rules[] = {
    {"$ref", 1, TEXT, NULL, 0, 0},
    {"format", 2, TEXT, NULL, 0, 0},
    {"title", 3, TEXT, NULL, 0, 0},
    {"description", 4, TEXT, NULL, 0, 0},
    {"default", 5, ANY, NULL, 0, 0},
    {"pattern", 13, TEXT, NULL, 0, 0},
    {"uniqueItems", 16, FLAG, NULL, 0, 0},
    {"required", 19, TEXTS, NULL, 0, 0},
    {"enum", 20, ANYS, NULL, 0, 0},
    {"additionalProperties", 21, MESSAGE, &schema_message, 1, 0},
    {"type", 22, TYPE, NULL, 0, 0},
    {"items", 23, MESSAGE, &schema_message, 1, 0},
    {"properties", 25, NAMED, &schema_message, 0, 1},
    {"readOnly", 27, FLAG, NULL, 0, 0},
    {"example", 30, ANY, NULL, 0, 0},
};
static const struct message schema_message = MESSAGE_OF(schema_rules, 31);

static const struct rule body_rules[] = {
    {"description", 1, TEXT, NULL, 0, 0},
    {"name", 2, TEXT, NULL, 0, 0},
    {"in", 3, TEXT, NULL, 0, 0},
    {"required", 4, FLAG, NULL, 0, 0},
    {"schema", 5, MESSAGE, &schema_message, 0, 0},
};
static const struct message body_message = MESSAGE_OF(body_rules, 6);

static const struct rule query_rules[] = {
    {"required", 1, FLAG, NULL, 0, 0},     {"in", 2, TEXT, NULL, 0, 0},
    {"description", 3, TEXT, NULL, 0, 0},  {"name", 4, TEXT, NULL, 0, 0},
    {"type", 6, TEXT, NULL, 0, 0},         {"format", 7, TEXT, NULL, 0, 0},
    {"uniqueItems", 20, FLAG, NULL, 0, 0},
};
static const struct message query_message = MESSAGE_OF(query_rules, 23);

// Headers have the same.
static const struct rule path_rules[] = {
    {"required", 1, FLAG, NULL, 0, 0},     {"in", 2, TEXT, NULL, 0, 0},
    {"description", 3, TEXT, NULL, 0, 0},  {"name", 4, TEXT, NULL, 0, 0},
    {"type", 5, TEXT, NULL, 0, 0},         {"format", 6, TEXT, NULL, 0, 0},
    {"uniqueItems", 19, FLAG, NULL, 0, 0},
};
static const struct message path_message = MESSAGE_OF(path_rules, 22);

static const struct rule response_rules[] = {
    {"description", 1, TEXT, NULL, 0, 0},
    {"schema", 2, MESSAGE, &schema_message, 1, 0},
};
static const struct message response_message = MESSAGE_OF(response_rules, 5);

static const struct rule operation_rules[] = {
    {"tags", 1, TEXTS, NULL, 0, 0},
    {"summary", 2, TEXT, NULL, 0, 0},
    {"description", 3, TEXT, NULL, 0, 0},
    {"operationId", 5, TEXT, NULL, 0, 0},
    {"produces", 6, TEXTS, NULL, 0, 0},
    {"consumes", 7, TEXTS, NULL, 0, 0},
    {"parameters", 8, PARAMETERS, NULL, 0, 0},
    {"responses", 9, NAMED, &response_message, 1, 1},
    {"schemes", 10, TEXTS, NULL, 0, 0},
    {"deprecated", 11, FLAG, NULL, 0, 0},
};
static const struct message operation_message = MESSAGE_OF(operation_rules, 13);

static const struct rule path_item_rules[] = {
    {"get", 2, MESSAGE, &operation_message, 0, 0},
    {"put", 3, MESSAGE, &operation_message, 0, 0},
    {"post", 4, MESSAGE, &operation_message, 0, 0},
    {"delete", 5, MESSAGE, &operation_message, 0, 0},
    {"options", 6, MESSAGE, &operation_message, 0, 0},
    {"head", 7, MESSAGE, &operation_message, 0, 0},
    {"patch", 8, MESSAGE, &operation_message, 0, 0},
    {"parameters", 9, PARAMETERS, NULL, 0, 0},
};
static const struct message path_item_message = MESSAGE_OF(path_item_rules, 10);

static const struct rule info_rules[] = {
    {"title", 1, TEXT, NULL, 0, 0},
    {"version", 2, TEXT, NULL, 0, 0},
    {"description", 3, TEXT, NULL, 0, 0},
};
static const struct message info_message = MESSAGE_OF(info_rules, 7);

static const struct rule document_rules[] = {
    {"swagger", 1, TEXT, NULL, 0, 0},
    {"info", 2, MESSAGE, &info_message, 0, 0},
    {"paths", 8, NAMED, &path_item_message, 0, 2},
    {"definitions", 9, NAMED, &schema_message, 0, 1},
};
static const struct message document_message = MESSAGE_OF(document_rules, 16);

// --- Writing -------------------------------------------------------------------------------------

struct converter {
    struct proto_writer w;
    struct arena arena;
    unsigned depth;
};

static void put_message(struct converter *c, const struct message *m, yyjson_val *v);

static struct str openapi_proto_get_text(yyjson_val *v)
{
    return str_make(yyjson_get_str(v), yyjson_get_len(v));
}

static void put_any(struct converter *c, uint32_t number, yyjson_val *v)
{
    cleanup_sbuf struct sbuf yaml = {0};
    struct json_writer w = {.out = &yaml};
    json_write_value(&w, v); // JSON is YAML
    size_t mark = proto_mark(&c->w);
    proto_put_bytes(&c->w, 2, sbuf_str(&yaml));
    proto_close(&c->w, number, mark);
}

static void put_texts(struct converter *c, uint32_t number, yyjson_val *v)
{
    for (size_t i = yyjson_arr_size(v); i > 0; i--) {
        yyjson_val *item = yyjson_arr_get(v, i - 1);
        if (yyjson_is_str(item))
            proto_put_bytes(&c->w, number, openapi_proto_get_text(item));
    }
}

static void put_anys(struct converter *c, uint32_t number, yyjson_val *v)
{
    for (size_t i = yyjson_arr_size(v); i > 0; i--)
        put_any(c, number, yyjson_arr_get(v, i - 1));
}

static void put_type(struct converter *c, uint32_t number, yyjson_val *v)
{
    size_t mark = proto_mark(&c->w);
    if (yyjson_is_str(v))
        proto_put_bytes(&c->w, 1, openapi_proto_get_text(v));
    else
        put_texts(c, 1, v);
    proto_close(&c->w, number, mark);
}

// put_wrapped writes a message, or a field of another that has nothing else. What is a boolean
// where a schema could be is its second field.
static void put_wrapped(struct converter *c, const struct rule *r, uint32_t number, yyjson_val *v)
{
    size_t outer = proto_mark(&c->w);
    if (r->wrap && yyjson_is_bool(v)) {
        proto_put_bool(&c->w, r->wrap + 1, yyjson_get_bool(v));
    } else {
        put_message(c, r->sub, v);
        if (r->wrap)
            proto_close(&c->w, r->wrap, outer);
    }
    proto_close(&c->w, number, outer);
}

// openapi_proto_list_members lists an object's keys, whose values follow them.
static yyjson_val **openapi_proto_list_members(struct converter *c, yyjson_val *v)
{
    yyjson_val **keys = arena_array(&c->arena, yyjson_val *, yyjson_obj_size(v) + 1);
    yyjson_obj_iter iter = yyjson_obj_iter_with(v);
    for (size_t i = 0; i < yyjson_obj_size(v); i++)
        keys[i] = yyjson_obj_iter_next(&iter);
    return keys;
}

static void put_named(struct converter *c, const struct rule *r, yyjson_val *v)
{
    yyjson_val **keys = openapi_proto_list_members(c, v);
    size_t all = proto_mark(&c->w);
    for (size_t i = yyjson_obj_size(v); i > 0; i--) {
        size_t mark = proto_mark(&c->w);
        put_wrapped(c, r, 2, yyjson_obj_iter_get_val(keys[i - 1]));
        proto_put_bytes(&c->w, 1, openapi_proto_get_text(keys[i - 1]));
        proto_close(&c->w, r->entry, mark);
    }
    proto_close(&c->w, r->number, all);
}

static void put_extensions(struct converter *c, uint32_t number, yyjson_val *v)
{
    yyjson_val **keys = openapi_proto_list_members(c, v);
    for (size_t i = yyjson_obj_size(v); i > 0; i--) {
        if (!str_starts(openapi_proto_get_text(keys[i - 1]), STR("x-")))
            continue;
        size_t mark = proto_mark(&c->w);
        put_any(c, 2, yyjson_obj_iter_get_val(keys[i - 1]));
        proto_put_bytes(&c->w, 1, openapi_proto_get_text(keys[i - 1]));
        proto_close(&c->w, number, mark);
    }
}

// put_parameter writes ParametersItem{Parameter{body or {header, form, query or path}}}.
static void put_parameter(struct converter *c, uint32_t number, yyjson_val *v)
{
    struct str in = openapi_proto_get_text(yyjson_obj_get(v, "in"));
    bool body = str_eqz(in, "body"), query = str_eqz(in, "query");
    size_t mark = proto_mark(&c->w);
    put_message(c, body ? &body_message : query ? &query_message : &path_message, v);
    if (body) {
        proto_close(&c->w, 1, mark);
    } else {
        proto_close(&c->w, query ? 3 : str_eqz(in, "header") ? 1 : 4, mark);
        proto_close(&c->w, 2, mark);
    }
    proto_close(&c->w, 1, mark);
    proto_close(&c->w, number, mark);
}

static void put_rule(struct converter *c, const struct rule *r, yyjson_val *v)
{
    switch (r->form) {
    case TEXT:
        if (yyjson_is_str(v))
            proto_put_bytes(&c->w, r->number, openapi_proto_get_text(v));
        return;
    case FLAG:
        if (yyjson_get_bool(v))
            proto_put_bool(&c->w, r->number, true);
        return;
    case TEXTS:
        put_texts(c, r->number, v);
        return;
    case ANY:
        put_any(c, r->number, v);
        return;
    case ANYS:
        put_anys(c, r->number, v);
        return;
    case MESSAGE:
        put_wrapped(c, r, r->number, v);
        return;
    case NAMED:
        put_named(c, r, v);
        return;
    case TYPE:
        put_type(c, r->number, v);
        return;
    case PARAMETERS:
        for (size_t i = yyjson_arr_size(v); i > 0; i--)
            put_parameter(c, r->number, yyjson_arr_get(v, i - 1));
        return;
    }
}

static void put_message(struct converter *c, const struct message *m, yyjson_val *v)
{
    if (c->depth == DEPTH_MAX)
        return;
    c->depth++;
    put_extensions(c, m->extensions, v);
    for (size_t i = m->rules_len; i > 0; i--) {
        yyjson_val *field = yyjson_obj_get(v, m->rules[i - 1].key);
        if (field)
            put_rule(c, &m->rules[i - 1], field);
    }
    c->depth--;
}

int api_openapi_v2_proto(struct str json, struct sbuf *out, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.max_bytes = SIZE_MAX};
    int r = json_parse(json, &options, &doc, err);
    if (r < 0)
        return r;
    struct converter c = {0};
    // yyjson reads through pointers that are not const.
    put_message(&c, &document_message, (yyjson_val *)(uintptr_t)doc.root);
    sbuf_add(out, proto_written(&c.w));
    proto_writer_done(&c.w);
    arena_done(&c.arena);
    return 0;
}
