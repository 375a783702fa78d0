// SPDX-License-Identifier: Apache-2.0
//
// The -o formats: an object or a list as JSON, YAML, names or through a JSONPath template.
#include "view/output.h"

#include <stdlib.h>

#include "base/nearest.h"
#include "base/vec.h"
#include "codec/json_writer.h"
#include "codec/yaml.h"

#include "base/banned.h"

static const char *const names[] = {
    [VIEW_TABLE] = "table", [VIEW_WIDE] = "wide", [VIEW_JSON] = "json",
    [VIEW_YAML] = "yaml",   [VIEW_NAME] = "name", [VIEW_JSONPATH] = "jsonpath",
};

static int output_reject_format(const char *text, unsigned allowed, struct err *err)
{
    cleanup_sbuf struct sbuf list = {0};
    struct nearest near = {.word = str_z(text)};
    for (size_t i = 0; i < array_len(names); i++) {
        if (!(allowed & 1U << i))
            continue;
        sbuf_addf(&list, "%s%s%s", list.n ? ", " : "", names[i], i == VIEW_JSONPATH ? "=…" : "");
        nearest_try(&near, str_z(names[i]));
    }
    if (near.best.n)
        return err_set(err, ERR_INVALID, "-o '%s' is not known; did you mean '%.*s'?", text,
                       STR_ARG(near.best));
    static const char *const foreign[] = {"custom-columns", "go-template", "jsonpath-as-json",
                                          "jsonpath-file", "kyaml"};
    for (size_t i = 0; i < array_len(foreign); i++)
        if (str_starts(str_z(text), str_z(foreign[i])))
            return err_set(err, ERR_INVALID,
                           "-o %s is a format of kubectl, which works with this cluster, too; here "
                           "there is %s",
                           foreign[i], list.p);
    return err_set(err, ERR_INVALID, "-o '%s' is not known; there is %s", text, list.p);
}

int view_output_parse(const char *text, unsigned allowed, struct arena *arena,
                      struct view_output *ret, struct err *err)
{
    *ret = (struct view_output){0};
    if (!text)
        return 0;
    struct str name, rest;
    bool has_rest = str_cut(str_z(text), '=', &name, &rest);
    for (size_t i = 0; i < array_len(names); i++) {
        bool path = i == VIEW_JSONPATH;
        if (!str_eqz(name, names[i]) || !(allowed & 1U << i) || (has_rest && !path))
            continue;
        ret->format = (enum view_format)i;
        if (path && !rest.n)
            return err_set(err, ERR_INVALID,
                           "-o jsonpath needs a template: -o jsonpath='{.metadata.name}'");
        return path ? jsonpath_parse(rest, arena, &ret->path, err) : 0;
    }
    return output_reject_format(text, allowed, err);
}

// --- JSON with sorted keys -----------------------------------------------------------------------

struct pair {
    const yyjson_val *key, *value;
};

static int output_compare_keys(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return str_cmp(json_str(x->key), json_str(y->key));
}

// output_write_sorted goes as deep as the document does, which its reader has bounded.
static void output_write_sorted(struct json_writer *w,
                                const yyjson_val *v) // NOLINT(misc-no-recursion)
{
    if (json_is_array(v)) {
        json_write_array_begin(w);
        json_arr_foreach(v, item)
            output_write_sorted(w, item);
        json_write_array_end(w);
        return;
    }
    if (!json_is_object(v)) {
        json_write_value(w, v);
        return;
    }
    struct VEC(struct pair) pairs = {0};
    json_obj_foreach(v, key, value)
        vec_push(&pairs, (struct pair){key, value});
    if (pairs.n)
        qsort(pairs.p, pairs.n, sizeof(*pairs.p), output_compare_keys);
    json_write_object_begin(w);
    vec_foreach(&pairs, p) {
        json_write_key(w, json_str(p->key));
        output_write_sorted(w, p->value);
    }
    json_write_object_end(w);
    vec_done(&pairs);
}

void view_add_json(struct sbuf *out, const yyjson_val *v, unsigned indent)
{
    struct json_writer w = {.out = out, .html = true, .indent = indent};
    output_write_sorted(&w, v);
}

// --- Names ---------------------------------------------------------------------------------------

void view_add_name(struct sbuf *out, const yyjson_val *object)
{
    struct str kind = json_get_str(object, "kind");
    struct str group, version;
    for (size_t i = 0; i < kind.n; i++) {
        char c = kind.p[i];
        sbuf_addc(out, (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
    }
    if (str_cut(json_get_str(object, "apiVersion"), '/', &group, &version))
        sbuf_addf(out, ".%.*s", STR_ARG(group));
    const yyjson_val *meta = json_get(object, STR("metadata"));
    sbuf_addc(out, '/');
    if (meta)
        sbuf_add(out, json_get_str(meta, "name"));
}

static void output_add_names(struct sbuf *out, const yyjson_val *v)
{
    const yyjson_val *items = json_get(v, STR("items"));
    if (items && json_is_array(items)) {
        json_arr_foreach(items, item) {
            view_add_name(out, item);
            sbuf_addc(out, '\n');
        }
        return;
    }
    view_add_name(out, v);
    sbuf_addc(out, '\n');
}

int view_output_write(const struct view_output *o, const yyjson_val *value, struct sbuf *out,
                      struct err *err)
{
    switch (o->format) {
    case VIEW_JSON:
        view_add_json(out, value, 4);
        sbuf_addc(out, '\n');
        return 0;
    case VIEW_YAML:
        yaml_write(value, true, out);
        return 0;
    case VIEW_NAME:
        output_add_names(out, value);
        return 0;
    case VIEW_JSONPATH:
        return jsonpath_write(o->path, value, out, err);
    case VIEW_TABLE:
    case VIEW_WIDE:
        break;
    }
    return err_set(err, ERR_INTERNAL, "a table is not written from a value");
}
