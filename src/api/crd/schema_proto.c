// SPDX-License-Identifier: Apache-2.0
//
// Schemas between JSON and protobuf (schema_proto.h), by one table of their fields. Recursion is
// bounded by proto_enter on the way in, and by the depth of parsed JSON on the way out.
#include "api/crd/schema_proto.h"

#include <math.h>

#include "base/limits.h"
#include "base/vec.h"
#include "codec/json.h"
#include "codec/json_writer.h"

#include "base/banned.h"

enum schema_kind {
    SCHEMA_STR,       // Go's string: on the wire even when it is empty
    SCHEMA_SHOWN_STR, // one that JSON shows even when it is empty
    SCHEMA_OPT_STR,   // a pointer to one
    SCHEMA_BOOL,
    SCHEMA_OPT_BOOL,
    SCHEMA_I64,
    SCHEMA_DOUBLE,
    SCHEMA_JSON,
    SCHEMA_ONE,     // a schema
    SCHEMA_OR_LIST, // a schema, or a list of them
    SCHEMA_OR_BOOL, // a schema, or whether anything goes
    SCHEMA_OR_STRS, // a schema, or a list of strings
    SCHEMA_DOCS,    // a message of strings
    SCHEMA_RULE,    // a CEL rule
};

enum schema_shape { SCHEMA_SINGLE, SCHEMA_LIST, SCHEMA_MAP };

struct schema_field {
    uint32_t number;
    enum schema_kind kind;
    enum schema_shape shape;
    struct str name;
};

#define ROW(number, kind, shape, name)               \
    {                                                \
        number, kind, SCHEMA_##shape, STR_INIT(name) \
    }

struct schema_message {
    const struct schema_field *fields;
    size_t n;
};

static const struct schema_field props_fields[] = {
    ROW(1, SCHEMA_STR, SINGLE, "id"),
    ROW(2, SCHEMA_STR, SINGLE, "$schema"),
    ROW(3, SCHEMA_OPT_STR, SINGLE, "$ref"),
    ROW(4, SCHEMA_STR, SINGLE, "description"),
    ROW(5, SCHEMA_STR, SINGLE, "type"),
    ROW(6, SCHEMA_STR, SINGLE, "format"),
    ROW(7, SCHEMA_STR, SINGLE, "title"),
    ROW(8, SCHEMA_JSON, SINGLE, "default"),
    ROW(9, SCHEMA_DOUBLE, SINGLE, "maximum"),
    ROW(10, SCHEMA_BOOL, SINGLE, "exclusiveMaximum"),
    ROW(11, SCHEMA_DOUBLE, SINGLE, "minimum"),
    ROW(12, SCHEMA_BOOL, SINGLE, "exclusiveMinimum"),
    ROW(13, SCHEMA_I64, SINGLE, "maxLength"),
    ROW(14, SCHEMA_I64, SINGLE, "minLength"),
    ROW(15, SCHEMA_STR, SINGLE, "pattern"),
    ROW(16, SCHEMA_I64, SINGLE, "maxItems"),
    ROW(17, SCHEMA_I64, SINGLE, "minItems"),
    ROW(18, SCHEMA_BOOL, SINGLE, "uniqueItems"),
    ROW(19, SCHEMA_DOUBLE, SINGLE, "multipleOf"),
    ROW(20, SCHEMA_JSON, LIST, "enum"),
    ROW(21, SCHEMA_I64, SINGLE, "maxProperties"),
    ROW(22, SCHEMA_I64, SINGLE, "minProperties"),
    ROW(23, SCHEMA_STR, LIST, "required"),
    ROW(24, SCHEMA_OR_LIST, SINGLE, "items"),
    ROW(25, SCHEMA_ONE, LIST, "allOf"),
    ROW(26, SCHEMA_ONE, LIST, "oneOf"),
    ROW(27, SCHEMA_ONE, LIST, "anyOf"),
    ROW(28, SCHEMA_ONE, SINGLE, "not"),
    ROW(29, SCHEMA_ONE, MAP, "properties"),
    ROW(30, SCHEMA_OR_BOOL, SINGLE, "additionalProperties"),
    ROW(31, SCHEMA_ONE, MAP, "patternProperties"),
    ROW(32, SCHEMA_OR_STRS, MAP, "dependencies"),
    ROW(33, SCHEMA_OR_BOOL, SINGLE, "additionalItems"),
    ROW(34, SCHEMA_ONE, MAP, "definitions"),
    ROW(35, SCHEMA_DOCS, SINGLE, "externalDocs"),
    ROW(36, SCHEMA_JSON, SINGLE, "example"),
    ROW(37, SCHEMA_BOOL, SINGLE, "nullable"),
    ROW(38, SCHEMA_OPT_BOOL, SINGLE, "x-kubernetes-preserve-unknown-fields"),
    ROW(39, SCHEMA_BOOL, SINGLE, "x-kubernetes-embedded-resource"),
    ROW(40, SCHEMA_BOOL, SINGLE, "x-kubernetes-int-or-string"),
    ROW(41, SCHEMA_STR, LIST, "x-kubernetes-list-map-keys"),
    ROW(42, SCHEMA_OPT_STR, SINGLE, "x-kubernetes-list-type"),
    ROW(43, SCHEMA_OPT_STR, SINGLE, "x-kubernetes-map-type"),
    ROW(44, SCHEMA_RULE, LIST, "x-kubernetes-validations"),
};
static const struct schema_field docs_fields[] = {
    ROW(1, SCHEMA_STR, SINGLE, "description"),
    ROW(2, SCHEMA_STR, SINGLE, "url"),
};
static const struct schema_field rule_fields[] = {
    ROW(1, SCHEMA_SHOWN_STR, SINGLE, "rule"),
    ROW(2, SCHEMA_STR, SINGLE, "message"),
    ROW(3, SCHEMA_STR, SINGLE, "messageExpression"),
    ROW(4, SCHEMA_OPT_STR, SINGLE, "reason"),
    ROW(5, SCHEMA_STR, SINGLE, "fieldPath"),
    ROW(6, SCHEMA_OPT_BOOL, SINGLE, "optionalOldSelf"),
};
static const struct schema_message props = {props_fields, array_len(props_fields)};
static const struct schema_message docs = {docs_fields, array_len(docs_fields)};
static const struct schema_message rule = {rule_fields, array_len(rule_fields)};

static const struct schema_message *schema_message_of(enum schema_kind kind)
{
    return kind == SCHEMA_ONE ? &props : kind == SCHEMA_DOCS ? &docs : &rule;
}

// --- Reading -------------------------------------------------------------------------------------

// A message on its way to JSON.
struct schema_reader {
    struct json_writer w;
    struct err *err;
};

static int schema_read_message(struct schema_reader *rd, const struct schema_message *m,
                               struct proto_reader in);

static int schema_refuse(struct schema_reader *rd, const char *why)
{
    return err_set(rd->err, ERR_BAD_REQUEST, "%s", why);
}

// schema_read_raw reads the message around a JSON value. *ret is empty when there is none, or null.
static int schema_read_raw(struct schema_reader *rd, struct proto_reader in, struct json_doc *ret)
{
    struct proto_field f;
    struct str raw = {0};
    int r;
    while ((r = proto_next(&in, &f, rd->err)) > 0)
        if (f.number == 1 && (r = proto_to_bytes(&in, &f, &raw, rd->err)) < 0)
            return r;
    if (r < 0 || raw.n == 0)
        return r;
    r = json_parse(raw, NULL, ret, rd->err);
    if (r < 0)
        return schema_refuse(rd, "a value is not JSON");
    if (json_is_null(ret->root)) {
        json_doc_done(ret);
        *ret = (struct json_doc){0};
    }
    return 0;
}

static int schema_read_json(struct schema_reader *rd, struct proto_reader in, struct str key)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = schema_read_raw(rd, in, &doc);
    if (r < 0)
        return r;
    if (key.n && doc.root)
        json_write_key(&rd->w, key);
    if (doc.root)
        json_write_value(&rd->w, doc.root);
    else if (key.n == 0)
        json_write_null(&rd->w); // an item of a list; a member is left out
    return 0;
}

// What the messages that are one of two things hold.
struct schema_choice {
    struct proto_reader in, one;
    bool has_one, allows;
    uint32_t list; // number of the list; it has n items
    size_t n;
};

static int schema_read_choice(struct schema_reader *rd, struct proto_reader in, uint32_t one,
                              uint32_t list, struct schema_choice *ret)
{
    struct proto_field f;
    int r;
    *ret = (struct schema_choice){.in = in, .list = list};
    while ((r = proto_next(&in, &f, rd->err)) > 0) {
        if (f.number == one) {
            r = proto_enter(&in, &f, &ret->one, rd->err);
            ret->has_one = true;
        } else if (f.number == list) {
            ret->n++;
        } else if (list == 0 && f.number == 1) {
            r = proto_to_bool(&in, &f, &ret->allows, rd->err);
        }
        if (r < 0)
            return r;
    }
    return r;
}

static int schema_read_items(struct schema_reader *rd, const struct schema_choice *c, bool text)
{
    struct proto_reader in = c->in, inside;
    struct proto_field f;
    int r;
    json_write_array_begin(&rd->w);
    while ((r = proto_next(&in, &f, rd->err)) > 0) {
        struct str s = {0};
        if (f.number != c->list)
            continue;
        if (text) {
            r = proto_to_str(&in, &f, &s, rd->err);
            if (r == 0)
                json_write_str(&rd->w, s);
        } else {
            r = proto_enter(&in, &f, &inside, rd->err);
            if (r == 0)
                r = schema_read_message(rd, &props, inside);
        }
        if (r < 0)
            return r;
    }
    json_write_array_end(&rd->w);
    return r;
}

static int schema_read_either(struct schema_reader *rd, enum schema_kind kind,
                              struct proto_reader in, struct str key)
{
    struct schema_choice c;
    bool truth = kind == SCHEMA_OR_BOOL;
    int r = schema_read_choice(rd, in, truth ? 2 : 1, truth ? 0 : 2, &c);
    if (r < 0 || (kind == SCHEMA_OR_LIST && !c.has_one && c.n == 0))
        return r; // an empty one has no effect
    if (key.n)
        json_write_key(&rd->w, key);
    if (c.n > 0)
        return schema_read_items(rd, &c, kind == SCHEMA_OR_STRS);
    if (c.has_one)
        return schema_read_message(rd, &props, c.one);
    if (truth)
        json_write_bool(&rd->w, c.allows);
    else
        json_write_null(&rd->w);
    return 0;
}

static int schema_read_double(struct schema_reader *rd, const struct proto_reader *in,
                              const struct proto_field *f)
{
    double value = 0;
    int r = proto_to_double(in, f, &value, rd->err);
    if (r == 0 && !isfinite(value))
        return schema_refuse(rd, "a number that JSON cannot say");
    if (r == 0)
        json_write_double(&rd->w, value);
    return r;
}

// schema_read_plain: what is empty or false is left out, except where Go has a pointer, and of a
// rule.
static int schema_read_plain(struct schema_reader *rd, const struct schema_field *row,
                             const struct proto_reader *in, const struct proto_field *f)
{
    struct str text = {0};
    bool truth = false;
    int64_t number = 0;
    int r = 0;
    if (row->kind == SCHEMA_STR || row->kind == SCHEMA_OPT_STR || row->kind == SCHEMA_SHOWN_STR)
        r = proto_to_str(in, f, &text, rd->err);
    else if (row->kind == SCHEMA_BOOL || row->kind == SCHEMA_OPT_BOOL)
        r = proto_to_bool(in, f, &truth, rd->err);
    else if (row->kind == SCHEMA_I64)
        r = proto_to_i64(in, f, &number, rd->err);
    bool single = row->shape == SCHEMA_SINGLE;
    if (r < 0 || (single && row->kind == SCHEMA_STR && text.n == 0) ||
        (row->kind == SCHEMA_BOOL && !truth))
        return r;
    if (single)
        json_write_key(&rd->w, row->name);
    if (row->kind == SCHEMA_DOUBLE)
        return schema_read_double(rd, in, f);
    if (row->kind == SCHEMA_I64)
        json_write_i64(&rd->w, number);
    else if (row->kind == SCHEMA_BOOL || row->kind == SCHEMA_OPT_BOOL)
        json_write_bool(&rd->w, truth);
    else
        json_write_str(&rd->w, text);
    return 0;
}

// schema_read_value writes a value behind key; key is empty for items and values of maps.
static int schema_read_value(struct schema_reader *rd, const struct schema_field *row,
                             const struct proto_reader *in, const struct proto_field *f,
                             struct str key)
{
    struct proto_reader inside;
    if (row->kind < SCHEMA_JSON)
        return schema_read_plain(rd, row, in, f);
    int r = proto_enter(in, f, &inside, rd->err);
    if (r < 0)
        return r;
    if (row->kind == SCHEMA_JSON)
        return schema_read_json(rd, inside, key);
    if (row->kind == SCHEMA_OR_LIST || row->kind == SCHEMA_OR_BOOL || row->kind == SCHEMA_OR_STRS)
        return schema_read_either(rd, row->kind, inside, key);
    if (key.n)
        json_write_key(&rd->w, key);
    return schema_read_message(rd, schema_message_of(row->kind), inside);
}

// schema_read_entry reads an entry of a map. Keys ascend, so that none comes twice.
static int schema_read_entry(struct schema_reader *rd, const struct schema_field *row,
                             const struct proto_reader *in, const struct proto_field *f,
                             struct str *last, bool first)
{
    struct proto_reader entry;
    struct proto_field part, value = {0};
    struct str key = {0};
    int r = proto_enter(in, f, &entry, rd->err);
    if (r < 0)
        return r;
    struct proto_reader at = entry;
    while ((r = proto_next(&at, &part, rd->err)) > 0) {
        if (part.number == 1)
            r = proto_to_str(&at, &part, &key, rd->err);
        else if (part.number == 2)
            value = part;
        if (r < 0)
            return r;
    }
    if (r < 0)
        return r;
    if (!first && str_cmp(key, *last) <= 0)
        return schema_refuse(rd, "keys of a schema's maps must come in order");
    *last = key;
    json_write_key(&rd->w, key);
    if (value.number == 2)
        return schema_read_value(rd, row, &entry, &value, STR(""));
    json_write_raw(&rd->w, row->kind == SCHEMA_OR_STRS ? STR("null") : STR("{}"));
    return 0;
}

static const struct schema_field *schema_find_field(const struct schema_message *m, uint32_t number)
{
    return number >= 1 && number <= m->n ? &m->fields[number - 1]
                                         : NULL; // they are numbered from 1
}

static void schema_open(struct schema_reader *rd, const struct schema_field *row)
{
    json_write_key(&rd->w, row->name);
    if (row->shape == SCHEMA_LIST)
        json_write_array_begin(&rd->w);
    else
        json_write_object_begin(&rd->w);
}

static void schema_close(struct schema_reader *rd, const struct schema_field *row)
{
    if (row && row->shape == SCHEMA_LIST)
        json_write_array_end(&rd->w);
    else if (row && row->shape == SCHEMA_MAP)
        json_write_object_end(&rd->w);
}

static int schema_read_field(struct schema_reader *rd, const struct schema_field *row,
                             const struct proto_reader *in, const struct proto_field *f,
                             struct str *last_key, bool first)
{
    if (rd->w.out->n > DRAY_OBJECT_STORED_BYTES_MAX)
        return schema_refuse(rd, "the schema is too large");
    if (row->shape == SCHEMA_MAP)
        return schema_read_entry(rd, row, in, f, last_key, first);
    return schema_read_value(rd, row, in, f, row->shape == SCHEMA_SINGLE ? row->name : STR(""));
}

static int schema_read_message(struct schema_reader *rd, const struct schema_message *m,
                               struct proto_reader in)
{
    const struct schema_field *open = NULL; // the row of the last field
    struct proto_field f;
    struct str last_key = {0};
    int r;
    json_write_object_begin(&rd->w);
    while ((r = proto_next(&in, &f, rd->err)) > 0) {
        const struct schema_field *row = schema_find_field(m, f.number);
        if (!row)
            continue;
        bool again = row == open;
        if (open && (row < open || (again && row->shape == SCHEMA_SINGLE)))
            return schema_refuse(rd, "fields of a schema must come once, by ascending number");
        if (!again) {
            schema_close(rd, open);
            if (row->shape != SCHEMA_SINGLE)
                schema_open(rd, row);
        }
        open = row;
        r = schema_read_field(rd, row, &in, &f, &last_key, !again);
        if (r < 0) {
            err_path_field(rd->err, row->name.p, row->name.n);
            return r;
        }
    }
    schema_close(rd, open);
    json_write_object_end(&rd->w);
    return r;
}

int schema_proto_read(struct proto_reader in, struct sbuf *out, struct err *err)
{
    const struct json_options options = {.max_bytes = 2 * DRAY_OBJECT_STORED_BYTES_MAX};
    cleanup_json_doc struct json_doc doc = {0};
    struct schema_reader rd = {.w = {.out = out}, .err = err};
    int r = schema_read_message(&rd, &props, in);
    // Values nest in schemas: together they may be deeper than a document can be.
    if (r == 0 && json_parse(sbuf_str(out), &options, &doc, err) < 0)
        r = schema_refuse(&rd, "the schema nests too deep");
    return r;
}

// --- Writing, from the end to the beginning ------------------------------------------------------

static void schema_write_message(const struct schema_message *m, const yyjson_val *in,
                                 struct proto_writer *w);

static void schema_write_json(const yyjson_val *v, struct proto_writer *w)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer out = {.out = &text};
    if (json_is_null(v))
        return;
    json_write_value(&out, v);
    proto_put_bytes(w, 1, sbuf_str(&text));
}

static void schema_write_one(const yyjson_val *v, uint32_t number, struct proto_writer *w)
{
    size_t mark = proto_mark(w);
    schema_write_message(&props, v, w);
    proto_close(w, number, mark);
}

struct schema_values VEC(const yyjson_val *);

// schema_items_of lists the items of an array: finding one by its position takes a walk.
static struct schema_values schema_items_of(const yyjson_val *list)
{
    struct schema_values all = {0};
    const yyjson_val *item = json_arr_first(list);
    for (size_t i = json_len(list); i > 0; i--) {
        vec_push(&all, item);
        item = i > 1 ? json_next(item) : NULL;
    }
    return all;
}

static void schema_write_list(const yyjson_val *list, bool text, uint32_t number,
                              struct proto_writer *w)
{
    struct schema_values all = schema_items_of(list);
    for (size_t i = all.n; i > 0; i--) {
        if (!text)
            schema_write_one(all.p[i - 1], number, w);
        else
            proto_put_bytes(w, number,
                            json_is_string(all.p[i - 1]) ? json_str(all.p[i - 1]) : STR(""));
    }
    vec_done(&all);
}

// schema_write_either writes the content of a message that is one of two things.
static void schema_write_either(enum schema_kind kind, const yyjson_val *v, struct proto_writer *w)
{
    bool truth = false;
    if (kind == SCHEMA_OR_BOOL) {
        if (json_is_object(v))
            schema_write_one(v, 2, w);
        proto_put_bool(w, 1, json_is_object(v) || (json_to_bool(v, &truth, NULL) == 0 && truth));
    } else if (json_is_array(v)) {
        schema_write_list(v, kind == SCHEMA_OR_STRS, 2, w);
    } else if (json_is_object(v)) {
        schema_write_one(v, 1, w);
    }
}

static void schema_write_inside(enum schema_kind kind, const yyjson_val *v, struct proto_writer *w)
{
    if (kind == SCHEMA_JSON)
        schema_write_json(v, w);
    else if (kind == SCHEMA_OR_LIST || kind == SCHEMA_OR_BOOL || kind == SCHEMA_OR_STRS)
        schema_write_either(kind, v, w);
    else
        schema_write_message(schema_message_of(kind), v, w);
}

// schema_write_value writes a value; v is NULL for a field that is not there and yet written.
static void schema_write_value(enum schema_kind kind, uint32_t number, const yyjson_val *v,
                               struct proto_writer *w)
{
    bool truth = false;
    int64_t integer = 0;
    double real = 0;
    if (kind == SCHEMA_STR || kind == SCHEMA_SHOWN_STR || kind == SCHEMA_OPT_STR) {
        proto_put_bytes(w, number, v && json_is_string(v) ? json_str(v) : STR(""));
    } else if (kind == SCHEMA_BOOL || kind == SCHEMA_OPT_BOOL) {
        proto_put_bool(w, number, v && json_to_bool(v, &truth, NULL) == 0 && truth);
    } else if (kind == SCHEMA_I64) {
        if (json_is_integral(v, &integer))
            proto_put_i64(w, number, integer);
    } else if (kind == SCHEMA_DOUBLE) {
        if (json_to_double(v, &real, NULL) == 0)
            proto_put_double(w, number, real);
    } else {
        size_t mark = proto_mark(w);
        schema_write_inside(kind, v, w);
        proto_close(w, number, mark);
    }
}

// An entry of a map, to be sorted by its key.
struct schema_entry {
    struct str key;
    const yyjson_val *value;
};

static void schema_write_map(const struct schema_field *row, const yyjson_val *map,
                             struct proto_writer *w)
{
    struct VEC(struct schema_entry) all = {0};
    const yyjson_val *key = json_obj_first(map);
    for (size_t i = json_len(map); i > 0; i--) {
        const yyjson_val *value = json_next(key);
        vec_push(&all, (struct schema_entry){json_str(key), value});
        key = i > 1 ? json_next(value) : NULL;
    }
    proto_sort_by_key(all.p, all.n, sizeof(*all.p));
    for (size_t i = all.n; i > 0; i--) {
        if (i < all.n && str_eq(all.p[i - 1].key, all.p[i].key))
            continue; // a repeated member
        size_t mark = proto_mark(w);
        schema_write_value(row->kind, 2, all.p[i - 1].value, w);
        proto_put_bytes(w, 1, all.p[i - 1].key);
        proto_close(w, row->number, mark);
    }
    vec_done(&all);
}

static void schema_write_field(const struct schema_field *row, const yyjson_val *v,
                               struct proto_writer *w)
{
    if (v && json_is_null(v))
        v = NULL;
    if (row->shape == SCHEMA_MAP && v && json_is_object(v) && json_len(v) > 0)
        schema_write_map(row, v, w);
    if (row->shape == SCHEMA_LIST && v && json_is_array(v)) {
        struct schema_values all = schema_items_of(v);
        for (size_t i = all.n; i > 0; i--)
            schema_write_value(row->kind, row->number, all.p[i - 1], w);
        vec_done(&all);
    }
    bool always =
        row->kind == SCHEMA_STR || row->kind == SCHEMA_SHOWN_STR || row->kind == SCHEMA_BOOL;
    if (row->shape == SCHEMA_SINGLE && (v || always))
        schema_write_value(row->kind, row->number, v, w);
}

static void schema_write_message(const struct schema_message *m, const yyjson_val *in,
                                 struct proto_writer *w)
{
    for (size_t i = m->n; i > 0; i--)
        schema_write_field(&m->fields[i - 1],
                           json_is_object(in) ? json_get(in, m->fields[i - 1].name) : NULL, w);
}

void schema_proto_write(struct str json, struct proto_writer *w)
{
    const struct json_options options = {.max_bytes = 2 * DRAY_OBJECT_STORED_BYTES_MAX,
                                         .duplicates = JSON_DUPLICATES_KEEP};
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(json, &options, &doc, NULL) == 0)
        schema_write_message(&props, doc.root, w);
}
