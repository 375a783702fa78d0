// SPDX-License-Identifier: Apache-2.0
//
// YAML out of JSON values, on libyaml's emitter, whose port is what kubectl prints with.
#include <assert.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/utf8.h"
#include "codec/yaml.h"
#include "codec/yaml/yaml_int.h"

#include "base/banned.h"

struct writer {
    yaml_emitter_t emitter;
    bool sorted;
};

// libyaml copies what it is given and returns 0 only when out of memory or when events come in a
// wrong order; both end the program here.
static void yaml_write_emit_event(struct writer *w, yaml_event_t *event, int initialized)
{
    if (!initialized || !yaml_emitter_emit(&w->emitter, event))
        abort();
}

static int yaml_write_append_bytes(void *out, unsigned char *bytes, size_t n)
{
    sbuf_add(out, str_make((const char *)bytes, n));
    return 1;
}

static void emit_scalar(struct writer *w, struct str text, yaml_scalar_style_t style)
{
    yaml_event_t event;
    assert(text.n <= INT32_MAX);
    yaml_write_emit_event(w, &event,
                          yaml_scalar_event_initialize(&event, NULL, NULL,
                                                       (const yaml_char_t *)(text.p ? text.p : ""),
                                                       (int)text.n, 1, 1, style));
}

static void emit_string(struct writer *w, struct str s)
{
    yaml_scalar_style_t style = YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    if (str_find_char(s, '\n') >= 0)
        style = YAML_LITERAL_SCALAR_STYLE; // or quotes, where the emitter finds it does not fit
    else if (yaml_resolve(s).kind == YAML_STR && !yaml_is_base60(s) && !str_eqz(s, "<<"))
        style = YAML_PLAIN_SCALAR_STYLE; // the emitter quotes it if its characters ask for that
    emit_scalar(w, s, style);
}

static void emit_number(struct writer *w, const yyjson_val *v)
{
    cleanup_sbuf struct sbuf text = {0};
    enum json_type type = json_type(v);
    double d;
    if (type == JSON_INT)
        sbuf_add_i64(&text, v->uni.i64);
    else if (type == JSON_UINT)
        sbuf_add_u64(&text, v->uni.u64);
    else if (json_to_double(v, &d, NULL) == 0)
        yaml_add_float(&text, d, false);
    else
        sbuf_add(&text, json_str(v));
    emit_scalar(w, sbuf_str(&text), YAML_PLAIN_SCALAR_STYLE);
}

// --- Order of keys -------------------------------------------------------------------------------

struct pair {
    const yyjson_val *key;
    const yyjson_val *val;
};

static bool yaml_write_is_digit_at(struct str s, size_t at)
{
    return at < s.n && s.p[at] >= '0' && s.p[at] <= '9';
}

static bool yaml_write_is_letter(uint32_t cp)
{
    return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') || cp >= 0xAA;
}

// The number that starts at `at`, with a 1 before it when it goes on a number that began earlier
// with another digit than 0. Its end goes to *ret_end.
static uint64_t yaml_write_read_number(struct str s, size_t at, bool goes_on, size_t *ret_end)
{
    uint64_t v = goes_on;
    for (; yaml_write_is_digit_at(s, at); at++)
        v = v * 10 + (uint64_t)(s.p[at] - '0');
    *ret_end = at;
    return v;
}

// Orders keys that differ first at byte `at`, which starts a character in both.
static int order_at(struct str a, struct str b, size_t at)
{
    size_t len;
    uint32_t ca = utf8_decode(a, at, &len), cb = utf8_decode(b, at, &len);
    bool la = yaml_write_is_letter(ca), lb = yaml_write_is_letter(cb);
    if (la && lb)
        return ca < cb ? -1 : 1;
    if (la || lb)
        return lb ? -1 : 1;
    bool goes_on = false;
    if (ca == '0' || cb == '0')
        for (size_t i = at; !goes_on && i > 0 && yaml_write_is_digit_at(a, i - 1); i--)
            goes_on = a.p[i - 1] != '0';
    size_t end_a, end_b;
    uint64_t na = yaml_write_read_number(a, at, goes_on, &end_a),
             nb = yaml_write_read_number(b, at, goes_on, &end_b);
    if (na != nb)
        return na < nb ? -1 : 1;
    if (end_a != end_b)
        return end_a < end_b ? -1 : 1;
    return ca < cb ? -1 : 1;
}

// go-yaml's order: characters first, letters behind other characters, numbers by value.
static int yaml_write_order_keys(const void *x, const void *y)
{
    struct str a = json_str(((const struct pair *)x)->key);
    struct str b = json_str(((const struct pair *)y)->key);
    size_t at = 0;
    while (at < a.n && at < b.n && a.p[at] == b.p[at])
        at++;
    if (at == a.n || at == b.n)
        return (a.n > b.n) - (a.n < b.n);
    while (at > 0 && ((unsigned char)a.p[at] & 0xC0u) == 0x80u)
        at--; // back to the start of the character
    return order_at(a, b, at);
}

// --- Values --------------------------------------------------------------------------------------

static void emit_value(struct writer *w, const yyjson_val *v);

static void emit_sorted(struct writer *w, const yyjson_val *v)
{
    cleanup_free struct pair *pairs = xreallocarray(NULL, json_len(v), sizeof(*pairs));
    size_t n = 0;
    json_obj_foreach(v, key, val)
        pairs[n++] = (struct pair){key, val};
    qsort(pairs, n, sizeof(*pairs), yaml_write_order_keys);
    for (size_t i = 0; i < n; i++) {
        emit_string(w, json_str(pairs[i].key));
        emit_value(w, pairs[i].val);
    }
}

static void emit_object(struct writer *w, const yyjson_val *v)
{
    yaml_event_t event;
    yaml_write_emit_event(w, &event,
                          yaml_mapping_start_event_initialize(&event, NULL, NULL, 1,
                                                              YAML_BLOCK_MAPPING_STYLE));
    if (w->sorted) {
        emit_sorted(w, v);
    } else {
        json_obj_foreach(v, key, val) {
            emit_string(w, json_str(key));
            emit_value(w, val);
        }
    }
    yaml_write_emit_event(w, &event, yaml_mapping_end_event_initialize(&event));
}

static void emit_array(struct writer *w, const yyjson_val *v)
{
    yaml_event_t event;
    yaml_write_emit_event(w, &event,
                          yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
                                                               YAML_BLOCK_SEQUENCE_STYLE));
    json_arr_foreach(v, item)
        emit_value(w, item);
    yaml_write_emit_event(w, &event, yaml_sequence_end_event_initialize(&event));
}

// Recursion is bounded: documents are never deeper than DRAY_DOC_DEPTH_MAX.
static void emit_value(struct writer *w, const yyjson_val *v)
{
    bool truth = false;
    if (json_is_object(v))
        emit_object(w, v);
    else if (json_is_array(v))
        emit_array(w, v);
    else if (json_is_string(v))
        emit_string(w, json_str(v));
    else if (json_is_null(v))
        emit_scalar(w, STR("null"), YAML_PLAIN_SCALAR_STYLE);
    else if (json_to_bool(v, &truth, NULL) == 0)
        emit_scalar(w, truth ? STR("true") : STR("false"), YAML_PLAIN_SCALAR_STYLE);
    else
        emit_number(w, v);
}

void yaml_write(const yyjson_val *v, bool sorted, struct sbuf *out)
{
    struct writer w = {.sorted = sorted};
    yaml_event_t event;
    if (!yaml_emitter_initialize(&w.emitter))
        abort();
    yaml_emitter_set_output(&w.emitter, yaml_write_append_bytes, out);
    yaml_emitter_set_unicode(&w.emitter, 1);
    yaml_write_emit_event(&w, &event,
                          yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
    yaml_write_emit_event(&w, &event,
                          yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
    emit_value(&w, v);
    yaml_write_emit_event(&w, &event, yaml_document_end_event_initialize(&event, 1));
    w.emitter.open_ended = 0; // no "..." behind a block that keeps its last line breaks
    yaml_write_emit_event(&w, &event, yaml_stream_end_event_initialize(&event));
    yaml_emitter_delete(&w.emitter);
}
