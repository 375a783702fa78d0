// SPDX-License-Identifier: Apache-2.0
//
// The way from kubectl's own apply to the server's: what it applied by itself stands in an
// annotation. The manager "kubectl" may take over what it finds there unchanged, and keeps the
// annotation up to date.
#include "api/patch/managed_int.h"
#include "codec/json_writer.h"

#include "base/banned.h"

static const yyjson_val *managed_last_get_member(const yyjson_val *v, struct str key)
{
    return v ? json_get(v, key) : NULL;
}

struct field_set managed_last_allowed(struct work *w, const yyjson_val *live)
{
    struct field_set set = {0};
    const struct api_kind *kind = w->q->kind;
    struct field_type t = managed_type(kind);
    const yyjson_val *annotations =
        managed_last_get_member(managed_last_get_member(live, STR("metadata")), STR("annotations"));
    const yyjson_val *text = managed_last_get_member(annotations, STR(MANAGED_LAST_APPLIED));
    const yyjson_val *last = NULL;
    struct field_diff diff;
    if (!text || !json_is_string(text) || managed_parse(w, json_str(text), &last) < 0)
        return set;
    const yyjson_val *version = managed_last_get_member(last, STR("apiVersion"));
    if (!version || !json_is_string(version) || !str_eq(json_str(version), kind->api_version) ||
        field_check(&t, last, w->arena, NULL) < 0 ||
        field_compare(&t, last, live, w->arena, &diff, NULL) < 0)
        return set;
    set = field_set_of(&t, last, w->arena);
    set = field_set_difference(&set, &diff.modified, w->arena);
    set = field_set_difference(&set, &diff.added, w->arena);
    return field_set_difference(&set, &diff.removed, w->arena);
}

// As Go writes a map: keys in order.
static void managed_last_write_sorted(const yyjson_val *v, unsigned depth, struct arena *a,
                                      struct json_writer *w)
{
    if (json_is_array(v)) {
        json_write_array_begin(w);
        json_arr_foreach(v, item)
            managed_last_write_sorted(item, depth + 1, a, w);
        json_write_array_end(w);
        return;
    }
    if (!json_is_object(v)) {
        json_write_value(w, v);
        return;
    }
    struct field_members m = field_members_of(v, a);
    json_write_object_begin(w);
    for (size_t i = 0; i < m.n; i++) {
        // Itself is not part of it: it would double with every apply.
        if (depth == 2 && str_eqz(m.p[i].key, MANAGED_LAST_APPLIED))
            continue;
        json_write_key(w, m.p[i].key);
        managed_last_write_sorted(m.p[i].value, depth + 1, a, w);
    }
    json_write_object_end(w);
}

void managed_last_write(const yyjson_val *config, struct arena *a, struct sbuf *out)
{
    struct json_writer w = {.out = out, .html = true};
    managed_last_write_sorted(config, 0, a, &w);
    sbuf_addc(out, '\n');
}
