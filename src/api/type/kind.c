// SPDX-License-Identifier: Apache-2.0
//
// Finding kinds, and decoding objects that say which kind they are.
#include <strings.h>

#include "api/api.h"

#include "base/banned.h"

// The kinds of the meta package are in the table as v1 or meta.k8s.io/v1.
static const struct api_kind *find_meta(struct str api_version, struct str kind)
{
    bool known = false;
    const struct api_kind *found = NULL;
    for (size_t i = 0; i < api_kinds_len; i++) {
        known |= str_eq(api_kinds[i].api_version, api_version);
        if (str_eqz(api_kinds[i].package, "meta/v1") && str_eq(api_kinds[i].kind, kind))
            found = &api_kinds[i];
    }
    return known ? found : NULL;
}

bool api_kind_in_proto(const struct api_kind *kind)
{
    return !kind->custom && kind->type->wire_len > 0;
}

const struct api_kind *api_kind_find(struct str api_version, struct str kind)
{
    for (size_t i = 0; i < api_kinds_len; i++)
        if (str_eq(api_kinds[i].kind, kind) && str_eq(api_kinds[i].api_version, api_version))
            return &api_kinds[i];
    return find_meta(api_version, kind);
}

const struct api_kind *api_kind_of_resource(struct str group, struct str version, struct str plural)
{
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *k = &api_kinds[i];
        if (k->plural.n && str_eq(k->plural, plural) && str_eq(k->group, group) &&
            str_eq(k->version, version))
            return k;
    }
    return NULL;
}

static bool kind_equal_fold(struct str a, struct str b)
{
    return a.n == b.n && a.n > 0 && strncasecmp(a.p, b.p, a.n) == 0;
}

static bool kind_has_name(const struct api_kind *k, struct str word)
{
    if (kind_equal_fold(k->kind, word) || kind_equal_fold(k->plural, word) ||
        kind_equal_fold(k->singular, word))
        return true;
    for (const char *const *s = k->short_names; s && *s; s++)
        if (kind_equal_fold(str_z(*s), word))
            return true;
    return false;
}

// kind_in_group reports whether what stands behind the first dot names the kind's group, or its
// version and then its group.
static bool kind_in_group(const struct api_kind *k, struct str rest)
{
    if (rest.n == 0 || str_eq(rest, k->group))
        return true;
    struct str version, group;
    (void)str_cut(rest, '.', &version, &group);
    return str_eq(version, k->version) && str_eq(group, k->group);
}

const struct api_kind *api_kind_by_name(struct str name)
{
    struct str word, rest;
    (void)str_cut(name, '.', &word, &rest);
    const struct api_kind *found = NULL;
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *k = &api_kinds[i];
        if (!kind_has_name(k, word) || !kind_in_group(k, rest))
            continue;
        // Resources before kinds that are not served, v1 before its betas.
        if (!found || (found->plural.n == 0 && k->plural.n > 0) ||
            (found->version.n > 2 && k->version.n < found->version.n && k->plural.n > 0))
            found = k;
    }
    return found;
}

static struct str kind_get_text(const yyjson_val *v, struct str key)
{
    const yyjson_val *found = json_get(v, key);
    return found && json_is_string(found) ? json_str(found) : STR("");
}

int api_decode_as(const struct api_kind *kind, const struct json_doc *doc, const yyjson_val *v,
                  struct arena *arena, struct json_strict *strict, struct api_object *ret,
                  struct err *err)
{
    void *value = arena_alloc(arena, kind->type->size, _Alignof(max_align_t));
    int r = api_json_read(kind->type, doc, v, value, arena, strict, err);
    if (r < 0)
        return r;
    *ret = (struct api_object){kind, value};
    return 0;
}

int api_decode(const struct json_doc *doc, const yyjson_val *v, struct arena *arena,
               struct json_strict *strict, struct api_object *ret, struct err *err)
{
    struct str version = kind_get_text(v, STR("apiVersion")), name = kind_get_text(v, STR("kind"));
    if (!json_is_object(v))
        return err_set(err, ERR_BAD_REQUEST, "an API object is a JSON object, not %s",
                       json_type_name(v));
    if (name.n == 0)
        return err_set(err, ERR_BAD_REQUEST, "Object 'Kind' is missing");
    if (version.n == 0)
        return err_set(err, ERR_BAD_REQUEST, "Object 'apiVersion' is missing");
    const struct api_kind *kind = api_kind_find(version, name);
    if (!kind)
        return err_set(err, ERR_NOT_FOUND, "no kind \"%.*s\" is registered for version \"%.*s\"",
                       STR_ARG(name), STR_ARG(version));
    return api_decode_as(kind, doc, v, arena, strict, ret, err);
}

struct api_object_meta *api_object_meta(const struct api_object *o)
{
    const struct api_field *f = api_type_field(o->kind->type, STR("metadata"));
    return f && f->sub == &api_object_meta_type ? api_member(f, o->value) : NULL;
}

// The first two fields of a root type are kind and apiVersion.
void api_set_type_meta_as(const struct api_object *o, struct str api_version, struct str kind)
{
    if (!o->kind->type->root)
        return;
    *(struct str *)api_member(&o->kind->type->fields[0], o->value) = kind;
    *(struct str *)api_member(&o->kind->type->fields[1], o->value) = api_version;
}

void api_set_type_meta(const struct api_object *o)
{
    api_set_type_meta_as(o, o->kind->api_version, o->kind->kind);
}

struct str api_object_version(const struct api_object *o)
{
    const struct str *own =
        o->kind->type->root ? api_member(&o->kind->type->fields[1], o->value) : NULL;
    return own && own->n ? *own : o->kind->api_version;
}
