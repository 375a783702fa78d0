// SPDX-License-Identifier: Apache-2.0
//
// Bad values as messages show them. Upstream marshals whatever Go value it holds: an object of the
// API shows as its JSON, an object of its internal types with Go's field names and every field. The
// second is done here by the tables, since internal types follow the hub version.
#include "api/validate/validate_int.h"
#include "codec/rfc3339.h"

#include "base/banned.h"

struct str validate_show_json(const struct api_type *t, const void *value, struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    struct json_writer w = {.out = &b, .html = true};
    if (api_json_write(t, value, &w, NULL) < 0)
        return STR("null"); // only a RawExtension that is no JSON, which decoding does not let in
    return arena_str(arena, sbuf_str(&b));
}

struct str validate_show_strings(const struct str *p, size_t n, struct arena *arena)
{
    if (!p)
        return STR("null");
    cleanup_sbuf struct sbuf b = {0};
    struct json_writer w = {.out = &b, .html = true};
    json_write_array_begin(&w);
    for (size_t i = 0; i < n; i++)
        json_write_str(&w, p[i]);
    json_write_array_end(&w);
    return arena_str(arena, sbuf_str(&b));
}

// Go's names that are not the JSON name with a capital.
static const struct {
    struct str json, go;
} go_names[] = {
    {STR_INIT("cel"), STR_INIT("CEL")},
    {STR_INIT("uid"), STR_INIT("UID")},
    {STR_INIT("seLinuxOptions"), STR_INIT("SELinuxOptions")},
    {STR_INIT("ips"), STR_INIT("IPs")},
    {STR_INIT("apiGroup"), STR_INIT("APIGroup")},
    {STR_INIT("int"), STR_INIT("IntValue")},
    {STR_INIT("bool"), STR_INIT("BoolValue")},
    {STR_INIT("string"), STR_INIT("StringValue")},
    {STR_INIT("version"), STR_INIT("VersionValue")},
    {STR_INIT("ints"), STR_INIT("IntValues")},
    {STR_INIT("bools"), STR_INIT("BoolValues")},
    {STR_INIT("strings"), STR_INIT("StringValues")},
    {STR_INIT("versions"), STR_INIT("VersionValues")},
};

static void write_go_name(struct json_writer *w, struct str json)
{
    for (size_t i = 0; i < array_len(go_names); i++) {
        if (str_eq(go_names[i].json, json)) {
            json_write_key(w, go_names[i].go);
            return;
        }
    }
    char name[128];
    size_t n = json.n < sizeof(name) ? json.n : sizeof(name);
    memcpy(name, json.p, n);
    if (n && name[0] >= 'a' && name[0] <= 'z')
        name[0] = (char)(name[0] - ('a' - 'A'));
    json_write_key(w, str_make(name, n));
}

static void show_struct(struct json_writer *w, const struct api_type *t, const void *value);

static bool show_is_meta(const struct api_type *t)
{
    return str_eqz(t->package, "meta/v1");
}

static void show_time(struct json_writer *w, const struct api_time *time, bool micro)
{
    if (!time->set) {
        json_write_null(w);
        return;
    }
    cleanup_sbuf struct sbuf b = {0};
    if (micro)
        rfc3339_write_micros(time->at, &b);
    else
        rfc3339_write_seconds(time->at, &b);
    json_write_str(w, sbuf_str(&b));
}

static void show_raw(struct json_writer *w, struct str raw)
{
    if (raw.p)
        json_write_raw(w, raw);
    else
        json_write_null(w);
}

static void show_write_element(struct json_writer *w, const struct api_field *f, const void *p)
{
    switch (f->elem) {
    case API_STR:
        json_write_str(w, *(const struct str *)p);
        break;
    case API_BOOL:
        json_write_bool(w, *(const bool *)p);
        break;
    case API_I32:
        json_write_i64(w, *(const int32_t *)p);
        break;
    case API_I64:
        json_write_i64(w, *(const int64_t *)p);
        break;
    case API_QUANTITY: {
        cleanup_sbuf struct sbuf b = {0};
        quantity_write(p, &b);
        json_write_str(w, sbuf_str(&b));
        break;
    }
    case API_TIME:
    case API_MICROTIME:
        show_time(w, p, f->elem == API_MICROTIME);
        break;
    case API_RAW:
    case API_FIELDS:
        show_raw(w, *(const struct str *)p);
        break;
    case API_STRUCT:
        show_struct(w, f->sub, p);
        break;
    case API_INTSTR: {
        const struct api_int_or_string *i = p;
        if (i->is_text)
            json_write_str(w, i->text);
        else
            json_write_i64(w, i->number);
        break;
    }
    case API_BYTES:
    case API_STRLIST:
    case API_ELEMS:
        json_write_null(w); // no internal type that is shown has these
        break;
    }
}

static void show_list(struct json_writer *w, const struct api_field *f, const struct api_span *span)
{
    if (!span->p) {
        json_write_null(w);
        return;
    }
    const char *item = span->p;
    json_write_array_begin(w);
    for (size_t i = 0; i < span->n; i++, item += api_elem_size(f))
        show_write_element(w, f, item);
    json_write_array_end(w);
}

static void show_map(struct json_writer *w, const struct api_field *f, const struct api_span *span)
{
    if (!span->p) {
        json_write_null(w);
        return;
    }
    const char *entry = span->p;
    json_write_object_begin(w);
    for (size_t i = 0; i < span->n; i++, entry += api_entry_size(f)) {
        json_write_key(w, *(const struct str *)(const void *)entry);
        show_write_element(w, f, entry + API_ENTRY_VALUE);
    }
    json_write_object_end(w);
}

static void show_fields(struct json_writer *w, const struct api_type *t, const void *value);

static void show_field(struct json_writer *w, const struct api_field *f, const void *owner)
{
    const void *p = api_member_const(f, owner);
    // Go shows embedded structs' fields as the owner's; ObjectMeta has JSON names even there.
    if (f->shape == API_INLINE) {
        show_fields(w, f->sub, p);
        return;
    }
    if (f->sub == &api_object_meta_type) {
        cleanup_sbuf struct sbuf b = {0};
        struct json_writer inner = {.out = &b, .html = true};
        if (api_json_write(f->sub, p, &inner, NULL) == 0 && b.n > 2) {
            // Its members go between the braces of the owner.
            if (w->comma)
                sbuf_addc(w->out, ',');
            sbuf_add(w->out, str_make(b.p + 1, b.n - 2));
            w->comma = true;
        }
        return;
    }
    write_go_name(w, f->name);
    if (f->shape == API_LIST) {
        show_list(w, f, p);
    } else if (f->shape == API_MAP) {
        show_map(w, f, p);
    } else if (f->shape == API_OPT && !api_field_present(f, owner)) {
        json_write_null(w);
    } else {
        show_write_element(w, f, api_field_is_pointer(f) ? *(const void *const *)p : p);
    }
}

static void show_fields(struct json_writer *w, const struct api_type *t, const void *value)
{
    for (size_t i = 0; i < t->fields_len; i++)
        show_field(w, &t->fields[i], value);
}

static void show_struct(struct json_writer *w, const struct api_type *t, const void *value)
{
    if (show_is_meta(t)) {
        cleanup_sbuf struct sbuf b = {0};
        struct json_writer inner = {.out = &b, .html = true};
        if (api_json_write(t, value, &inner, NULL) == 0)
            json_write_raw(w, sbuf_str(&b));
        else
            json_write_null(w);
        return;
    }
    json_write_object_begin(w);
    show_fields(w, t, value);
    json_write_object_end(w);
}

struct str validate_show_internal_json(const struct api_type *t, const void *value,
                                       struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    struct json_writer w = {.out = &b, .html = true};
    show_struct(&w, t, value);
    return arena_str(arena, sbuf_str(&b));
}
