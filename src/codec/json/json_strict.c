// SPDX-License-Identifier: Apache-2.0
//
// Unknown and duplicate fields, collected with their paths while a document is decoded.
#include "codec/json_strict.h"

#include <assert.h>

#include "codec/json/json_int.h"

#include "base/banned.h"

// Paths longer than the bound are cut; what would be added to one that is already too long is left
// out, so that the buffer stays small however long the keys are.
static void json_strict_add_step(struct sbuf *path, struct str text)
{
    if (path->n <= JSON_STRICT_PATH_MAX)
        sbuf_add(path, str_upto(text, JSON_STRICT_PATH_MAX));
}

size_t json_strict_field_slow(struct json_strict *s, struct str name)
{
    size_t mark = s->path.n;
    if (mark)
        json_strict_add_step(&s->path, STR("."));
    json_strict_add_step(&s->path, name);
    return mark;
}

size_t json_strict_index_slow(struct json_strict *s, size_t index)
{
    size_t mark = s->path.n;
    if (mark <= JSON_STRICT_PATH_MAX) {
        sbuf_addc(&s->path, '[');
        sbuf_add_u64(&s->path, index);
        sbuf_addc(&s->path, ']');
    }
    return mark;
}

static void json_strict_add_report(struct json_strict *s, const char *what, struct str name)
{
    size_t mark = json_strict_field_slow(s, name);
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text, what);
    sbuf_addc(&text, ' ');
    sbuf_add_quoted(&text, str_upto(sbuf_str(&s->path), JSON_STRICT_PATH_MAX));
    json_strict_back(s, mark);
    for (size_t i = 0; i < s->reports.n; i++)
        if (str_eq(s->reports.p[i], sbuf_str(&text)))
            return;
    if (s->reports.n == JSON_STRICT_REPORTS_MAX) {
        s->dropped++;
        return;
    }
    vec_push(&s->reports, arena_str(&s->arena, sbuf_str(&text)));
}

void json_strict_unknown(struct json_strict *s, struct str name)
{
    if (s)
        json_strict_add_report(s, "unknown field", name);
}

void json_strict_duplicate(struct json_strict *s, struct str name)
{
    if (s)
        json_strict_add_report(s, "duplicate field", name);
}

static void report_repeats(struct json_strict *s, const struct json_keys *keys)
{
    for (size_t i = 0; i < keys->n; i++)
        if (keys->first[i] != i)
            json_strict_duplicate(s, keys->keys[i]);
}

static void json_strict_walk_value(struct json_strict *s, const yyjson_val *v,
                                   struct json_keys *keys)
{
    if (json_is_object(v)) {
        if (json_has_repeats(keys, v)) {
            (void)json_keys_load(keys, v);
            report_repeats(s, keys);
        }
        json_obj_foreach(v, key, val) {
            if (!json_is_container(val))
                continue;
            size_t mark = json_strict_field(s, json_str(key));
            json_strict_walk_value(s, val, keys);
            json_strict_back(s, mark);
        }
    } else if (json_is_array(v)) {
        size_t index = 0;
        json_arr_foreach(v, item) {
            size_t mark = json_strict_index(s, index++);
            json_strict_walk_value(s, item, keys);
            json_strict_back(s, mark);
        }
    }
}

void json_strict_walk(struct json_strict *s, const yyjson_val *v)
{
    if (!s)
        return;
    struct json_keys keys = {0};
    json_strict_walk_value(s, v, &keys);
    json_keys_done(&keys);
}

void json_strict_text(const struct json_strict *s, struct sbuf *out)
{
    for (size_t i = 0; s && i < s->reports.n; i++) {
        if (i)
            sbuf_addz(out, ", ");
        sbuf_add(out, s->reports.p[i]);
    }
}

void json_strict_done(struct json_strict *s)
{
    sbuf_done(&s->path);
    vec_done(&s->reports);
    arena_done(&s->arena);
    *s = (struct json_strict){0};
}
