// SPDX-License-Identifier: Apache-2.0
//
// A kind or a field as text, for `dray explain`: documentation, type, bounds and the fields below
// it.
#include "api/explain.h"

#include <strings.h>

#include "api/types.h"

#include "base/banned.h"

static void type_name(const struct api_field *f, struct sbuf *out)
{
    static const char *const names[API_ELEMS] = {
        [API_STR] = "string",          [API_BOOL] = "boolean",        [API_I32] = "int32",
        [API_I64] = "int64",           [API_QUANTITY] = "Quantity",   [API_TIME] = "Time",
        [API_MICROTIME] = "MicroTime", [API_INTSTR] = "IntOrString",  [API_RAW] = "Object",
        [API_FIELDS] = "FieldsV1",     [API_BYTES] = "base64 string", [API_STRLIST] = "[]string",
    };
    sbuf_addz(out, f->shape == API_LIST ? "<[]" : f->shape == API_MAP ? "<map[string]" : "<");
    if (f->elem == API_STRUCT)
        sbuf_add(out, f->sub->name);
    else
        sbuf_addz(out, names[f->elem]);
    sbuf_addc(out, '>');
}

static void explain_add_fact(struct sbuf *out, const char *indent, const char *what,
                             const char *value)
{
    if (value)
        sbuf_addf(out, "%s%s: %s\n", indent, what, value);
}

static void explain_add_limit(struct sbuf *out, const char *indent, const char *what, int64_t value,
                              bool has)
{
    if (has)
        sbuf_addf(out, "%s%s: %lld\n", indent, what, (long long)value);
}

static void explain_add_facts(const struct api_field *f, const char *indent, struct sbuf *out)
{
    const struct api_field_info *i = f->info;
    if (i->values) {
        sbuf_addf(out, "%sValues: ", indent);
        for (const char *const *v = i->values; *v; v++)
            sbuf_addf(out, "%s%s", v == i->values ? "" : ", ", **v ? *v : "\"\"");
        sbuf_addc(out, '\n');
    }
    explain_add_fact(out, indent, "Default",
                     i->default_text && *i->default_text ? i->default_text : NULL);
    explain_add_fact(out, indent, "Format", i->format);
    explain_add_fact(out, indent, "Format of keys", i->key_format);
    explain_add_fact(out, indent, "Format of items", i->item_format);
    explain_add_limit(out, indent, "Items at most", i->max_items, i->max_items > 0);
    explain_add_limit(out, indent, "Bytes at most", i->max_bytes, i->max_bytes > 0);
    explain_add_limit(out, indent, "Characters at most", i->max_length, i->max_length > 0);
    explain_add_limit(out, indent, "Bytes of an item at most", i->item_max_bytes,
                      i->item_max_bytes > 0);
    explain_add_limit(out, indent, "At least", i->min, i->has_min);
    explain_add_limit(out, indent, "At most", i->max, i->has_max);
    explain_add_fact(out, indent, "Unique by", i->unique_by);
    if (f->flags & API_LIST_MAP)
        explain_add_fact(out, indent, "List keys", i->keys);
    explain_add_fact(out, indent, "Feature gate", i->gates);
    if (f->flags & API_IMMUTABLE)
        sbuf_addf(out, "%sCannot be changed once set\n", indent);
    if (f->flags & API_DEPRECATED)
        sbuf_addf(out, "%sDeprecated\n", indent);
}

static void explain_add_fields(const struct api_type *t, struct sbuf *out)
{
    if (t->json_len == 0)
        return;
    sbuf_addz(out, "FIELDS:\n");
    for (size_t i = 0; i < t->json_len; i++) {
        const struct api_field *f = &t->json[i];
        sbuf_addf(out, "  %.*s\t", STR_ARG(f->name));
        type_name(f, out);
        sbuf_addf(out, "%s\n    %s\n", f->flags & API_REQUIRED ? " -required-" : "", f->info->doc);
        explain_add_facts(f, "    ", out);
        sbuf_addc(out, '\n');
    }
}

// Recursive types end here; so does anything nested deeper than people read.
#define TREE_DEPTH_MAX 16

static void add_tree(const struct api_type *t, size_t depth, struct sbuf *out)
{
    if (depth > TREE_DEPTH_MAX)
        return;
    for (size_t i = 0; i < t->json_len; i++) {
        const struct api_field *f = &t->json[i];
        sbuf_add_repeat(out, ' ', depth * 2);
        sbuf_addf(out, "%.*s\t", STR_ARG(f->name));
        type_name(f, out);
        sbuf_addz(out, f->flags & API_REQUIRED ? " -required-\n" : "\n");
        if (f->elem == API_STRUCT && f->sub != t)
            add_tree(f->sub, depth + 1, out);
    }
}

static const struct api_field *explain_find_field(const struct api_type *t, struct str name,
                                                  struct err *err)
{
    for (size_t i = 0; i < t->json_len; i++)
        if (t->json[i].name.n == name.n && strncasecmp(t->json[i].name.p, name.p, name.n) == 0)
            return &t->json[i];
    struct sbuf all = {0};
    for (size_t i = 0; i < t->json_len; i++)
        sbuf_addf(&all, "%s%.*s", i ? ", " : "", STR_ARG(t->json[i].name));
    (void)err_set(err, ERR_NOT_FOUND, "%.*s has no field \"%.*s\"; it has: %.350s",
                  STR_ARG(t->name), STR_ARG(str_upto(name, 80)), all.p ? all.p : "none");
    sbuf_done(&all);
    return NULL;
}

// explain_find_kind takes the first word of the path, in the requested version.
static const struct api_kind *explain_find_kind(struct str word, struct str api_version)
{
    const struct api_kind *k = api_kind_by_name(word);
    if (!k || api_version.n == 0)
        return k;
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *other = &api_kinds[i];
        if (str_eq(other->kind, k->kind) && str_eq(other->group, k->group) &&
            (str_eq(other->api_version, api_version) || str_eq(other->version, api_version)))
            return other;
    }
    return api_kind_find(api_version, k->kind);
}

// explain_follow_path goes down the path from the kind's type; *ret_field stays NULL for the kind
// itself, *ret_type becomes NULL at a field without fields.
static int explain_follow_path(struct str path, const struct api_type **ret_type,
                               const struct api_field **ret_field, struct err *err)
{
    struct str word;
    while (path.n) {
        (void)str_cut(path, '.', &word, &path);
        if (!*ret_type)
            return err_set(err, ERR_NOT_FOUND, "there are no fields below, so no \"%.*s\"",
                           STR_ARG(str_upto(word, 80)));
        *ret_field = explain_find_field(*ret_type, word, err);
        if (!*ret_field)
            return -ERR_NOT_FOUND;
        *ret_type = (*ret_field)->elem == API_STRUCT ? (*ret_field)->sub : NULL;
    }
    return 0;
}

static void explain_describe_field(const struct api_type *t, const struct api_field *f,
                                   struct sbuf *out)
{
    if (f) {
        sbuf_addf(out, "FIELD: %.*s ", STR_ARG(f->name));
        type_name(f, out);
        sbuf_addf(out, "%s\n\nDESCRIPTION:\n    %s\n", f->flags & API_REQUIRED ? " -required-" : "",
                  f->info->doc);
    } else {
        sbuf_addz(out, "DESCRIPTION:\n");
    }
    if (t)
        sbuf_addf(out, "    %s\n", t->doc);
    if (f)
        explain_add_facts(f, "    ", out);
    sbuf_addc(out, '\n');
}

int api_explain(struct str path, struct str api_version, bool recursive, struct sbuf *out,
                struct err *err)
{
    struct str word, rest;
    (void)str_cut(path, '.', &word, &rest);
    const struct api_kind *k = explain_find_kind(word, api_version);
    if (!k)
        return err_set(err, ERR_NOT_FOUND, "no kind is called \"%.*s\"%s%.*s",
                       STR_ARG(str_upto(word, 80)), api_version.n ? " in " : "",
                       STR_ARG(api_version));
    const struct api_type *t = k->type;
    const struct api_field *f = NULL;
    int r = explain_follow_path(rest, &t, &f, err);
    if (r < 0)
        return r;
    if (k->group.n)
        sbuf_addf(out, "GROUP:      %.*s\n", STR_ARG(k->group));
    sbuf_addf(out, "KIND:       %.*s\nVERSION:    %.*s\n\n", STR_ARG(k->kind), STR_ARG(k->version));
    explain_describe_field(t, f, out);
    if (t && recursive) {
        sbuf_addz(out, "FIELDS:\n");
        add_tree(t, 1, out);
    } else if (t) {
        explain_add_fields(t, out);
    }
    return 0;
}
