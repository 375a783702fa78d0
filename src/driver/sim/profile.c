// SPDX-License-Identifier: Apache-2.0
//
// Profiles: a kind of node with its slices, as YAML with holes. Built-in ones are part of the
// program, others come from files.
#include "driver/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "codec/yaml.h"
#include "driver/sim/template.h"

#include "base/banned.h"

enum { PROFILE_BYTES_MAX = 1 << 20 };

struct profile {
    struct sbuf text; // positions of errors refer to it
    struct json_doc doc;
    const yyjson_val *values; // NULL or an object
    const yyjson_val *node;
    const yyjson_val *classes;
    const yyjson_val *pools;
    struct str name;
    struct str about;
};

// A name of the profile and what it must be.
struct member {
    struct str key;
    const yyjson_val **to;
    bool list;
};

static int profile_fail_at(const struct profile *p, const yyjson_val *v, const char *what,
                           struct err *err)
{
    struct json_pos pos;
    int r = err_set(err, ERR_INVALID, "%s", what);
    if (json_locate(&p->doc, v, &pos))
        err_at(err, pos.line, pos.column);
    return r;
}

static int profile_take_text(struct profile *p, struct str key, bool required, struct str *ret,
                             struct err *err)
{
    const yyjson_val *v = json_get(p->doc.root, key);
    if (!v && !required)
        return 0;
    if (!v || !json_is_string(v) || json_len(v) == 0)
        return err_set(err, ERR_INVALID, "a profile needs a text \"%.*s\"", STR_ARG(key));
    *ret = json_str(v);
    return 0;
}

static int take_members(struct profile *p, struct err *err)
{
    const struct member members[] = {{STR("values"), &p->values, false},
                                     {STR("node"), &p->node, false},
                                     {STR("classes"), &p->classes, true},
                                     {STR("pools"), &p->pools, true}};
    json_obj_foreach(p->doc.root, key, v) {
        struct str name = json_str(key);
        if (str_eq(name, STR("profile")) || str_eq(name, STR("about")))
            continue;
        size_t i = 0;
        while (i < array_len(members) && !str_eq(members[i].key, name))
            i++;
        if (i == array_len(members))
            return profile_fail_at(p, key,
                                   "a profile has profile, about, values, node, classes and pools, "
                                   "nothing else",
                                   err);
        if (members[i].list ? !json_is_array(v) : !json_is_object(v))
            return profile_fail_at(
                p, v, members[i].list ? "this must be a list" : "this must be an object", err);
        *members[i].to = v;
    }
    return 0;
}

int profile_parse(struct str text, struct profile **ret, struct err *err)
{
    struct profile *p = xcalloc(1, sizeof(*p));
    sbuf_add(&p->text, text);
    int r = yaml_parse(sbuf_str(&p->text), NULL, &p->doc, err);
    if (r == 0 && (!p->doc.root || !json_is_object(p->doc.root)))
        r = err_set(err, ERR_INVALID, "a profile is a YAML object; this is something else");
    if (r == 0)
        r = profile_take_text(p, STR("profile"), true, &p->name, err);
    if (r == 0)
        r = profile_take_text(p, STR("about"), false, &p->about, err);
    if (r == 0)
        r = take_members(p, err);
    if (r != 0) {
        profile_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

void profile_free(struct profile *p)
{
    if (!p)
        return;
    json_doc_done(&p->doc);
    sbuf_done(&p->text);
    free(p);
}

struct str profile_name(const struct profile *p)
{
    return p->name;
}

struct str profile_about(const struct profile *p)
{
    return p->about;
}

// --- Finding -------------------------------------------------------------------------------------

static int profile_read_file(const char *path, struct sbuf *out, struct err *err)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(err, errno, "cannot open the profile %s: %s", path, strerrordesc_np(errno));
    size_t n;
    do {
        n = fread(sbuf_space(out, 4096), 1, 4096, f);
        sbuf_commit(out, n);
    } while (n > 0 && out->n <= PROFILE_BYTES_MAX);
    bool broken = ferror(f) != 0;
    fclose(f);
    if (broken)
        return err_set(err, EIO, "cannot read the profile %s", path);
    if (out->n > PROFILE_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE, "the profile %s is larger than 1 MiB", path);
    return 0;
}

static int not_known(const char *name, struct err *err)
{
    struct sbuf names = {0};
    for (size_t i = 0; i < profile_builtins_len; i++)
        sbuf_addf(&names, "%s%s", i ? ", " : "", profile_builtins[i].name);
    int r = err_set(err, ERR_NOT_FOUND, "there is no profile \"%s\"; there are: %s (or a file)",
                    name, names.p);
    sbuf_done(&names);
    return r;
}

int profile_open(const char *name, struct profile **ret, struct err *err)
{
    for (size_t i = 0; i < profile_builtins_len; i++) {
        if (str_eqz(str_z(name), profile_builtins[i].name))
            return profile_parse(profile_builtins[i].text, ret, err);
    }
    if (!strchr(name, '/') && !str_ends(str_z(name), STR(".yaml")))
        return not_known(name, err);
    struct sbuf text = {0};
    int r = profile_read_file(name, &text, err);
    if (r == 0) {
        r = profile_parse(sbuf_str(&text), ret, err);
        if (r != 0)
            err_wrap(err, "profile %s", name);
    }
    sbuf_done(&text);
    return r;
}

// --- Making objects ------------------------------------------------------------------------------

struct class_list VEC(struct api_device_class *);
struct slice_list VEC(struct api_resource_slice *);

struct maker {
    const struct profile *p;
    struct template_scope *scopes; // node, index, then the values of the profile
    struct str node;
    struct arena *arena;
    struct class_list classes;
    struct slice_list slices;
    struct err *err;
};

static const struct template_scope *profile_current_scope(const struct maker *m)
{
    size_t n = 2 + (m->p->values ? json_len(m->p->values) : 0);
    return &m->scopes[n - 1];
}

static void make_scopes(struct maker *m, struct str node, size_t index)
{
    size_t n = 2 + (m->p->values ? json_len(m->p->values) : 0);
    m->scopes = arena_array(m->arena, struct template_scope, n);
    m->scopes[0] = (struct template_scope){.name = STR("node"),
                                           .value = {.type = TEMPLATE_TEXT, .text = node}};
    m->scopes[1] =
        (struct template_scope){.parent = &m->scopes[0],
                                .name = STR("index"),
                                .value = {.type = TEMPLATE_INT, .number = (int64_t)index}};
    if (!m->p->values)
        return;
    size_t i = 2;
    json_obj_foreach(m->p->values, key, v) {
        m->scopes[i] = (struct template_scope){
            .parent = &m->scopes[i - 1], .name = json_str(key), .value = template_value_of(v)};
        i++;
    }
}

static int profile_decode_object(const struct maker *m, const struct api_kind *kind,
                                 const struct json_doc *doc, const yyjson_val *v,
                                 struct api_object *ret)
{
    int r = api_decode_as(kind, doc, v, m->arena, NULL, ret, m->err);
    if (r != 0)
        return err_wrap(m->err, "profile %.*s", STR_ARG(m->p->name));
    api_set_type_meta(ret);
    api_default(kind->type, ret->value, NULL, m->arena);
    return 0;
}

static const struct api_kind *profile_find_kind(const char *api_version, const char *kind)
{
    return api_kind_find(str_z(api_version), str_z(kind));
}

static int make_classes(struct maker *m)
{
    if (!m->p->classes)
        return 0;
    struct json_doc doc = {0};
    int r = template_expand(&m->p->doc, m->p->classes, profile_current_scope(m), &doc, m->err);
    if (r != 0)
        return r;
    json_arr_foreach(doc.root, item) {
        struct api_object o;
        r = profile_decode_object(m, profile_find_kind("resource.k8s.io/v1", "DeviceClass"), &doc,
                                  item, &o);
        if (r != 0)
            break;
        vec_push_arena(m->arena, &m->classes, (struct api_device_class *)o.value);
    }
    json_doc_done(&doc);
    return r;
}

// What is the same in all slices of a pool.
struct pool {
    struct str driver;
    struct str name;
    bool shared; // belongs to no node
    size_t slices;
};

static int profile_make_slice(struct maker *m, const struct pool *pool, const struct json_doc *doc,
                              const yyjson_val *v, size_t index)
{
    struct api_resource_slice *s = arena_one(m->arena, struct api_resource_slice);
    int r = api_json_read(&api_resource_slice_spec_type, doc, v, &s->spec, m->arena, NULL, m->err);
    if (r != 0)
        return err_wrap(m->err, "profile %.*s: pool %.*s: slice %zu", STR_ARG(m->p->name),
                        STR_ARG(pool->name), index);
    s->spec.driver = pool->driver;
    s->spec.pool.name = pool->name;
    s->spec.pool.generation = 1;
    s->spec.pool.resource_slice_count = (int64_t)pool->slices;
    if (!pool->shared) {
        s->spec.node_name = m->node;
        s->spec.has_node_name = true;
    }
    s->metadata.name =
        arena_strf(m->arena, "%05zx-%.*s-%.*s", index, STR_ARG(pool->driver), STR_ARG(pool->name));
    const struct api_object o = {profile_find_kind("resource.k8s.io/v1", "ResourceSlice"), s};
    api_set_type_meta(&o);
    api_default(o.kind->type, s, NULL, m->arena);
    vec_push_arena(m->arena, &m->slices, s);
    return 0;
}

static int profile_read_pool(struct maker *m, const yyjson_val *v, struct pool *ret)
{
    const yyjson_val *driver = json_get(v, STR("driver"));
    const yyjson_val *name = json_get(v, STR("name"));
    const yyjson_val *shared = json_get(v, STR("shared"));
    if (!driver || !json_is_string(driver))
        return err_set(m->err, ERR_INVALID, "profile %.*s: a pool needs a driver",
                       STR_ARG(m->p->name));
    ret->driver = arena_str(m->arena, json_str(driver));
    if (shared && json_to_bool(shared, &ret->shared, m->err) != 0)
        return err_wrap(m->err, "profile %.*s: shared", STR_ARG(m->p->name));
    ret->name = name && json_is_string(name) ? arena_str(m->arena, json_str(name)) : m->node;
    if (ret->shared && !(name && json_is_string(name)))
        return err_set(m->err, ERR_INVALID, "profile %.*s: a shared pool needs a name",
                       STR_ARG(m->p->name));
    return 0;
}

static int make_pool(struct maker *m, const struct json_doc *doc, const yyjson_val *v, bool shared)
{
    struct pool pool = {0};
    int r = profile_read_pool(m, v, &pool);
    if (r != 0 || pool.shared != shared)
        return r;
    const yyjson_val *slices = json_get(v, STR("slices"));
    if (!slices || !json_is_array(slices))
        return err_set(m->err, ERR_INVALID, "profile %.*s: the pool of %.*s needs a list of slices",
                       STR_ARG(m->p->name), STR_ARG(pool.driver));
    pool.slices = json_len(slices);
    size_t index = 0;
    json_arr_foreach(slices, item) {
        r = profile_make_slice(m, &pool, doc, item, index++);
        if (r != 0)
            return r;
    }
    return 0;
}

static int make_pools(struct maker *m, bool shared)
{
    if (!m->p->pools)
        return 0;
    struct json_doc doc = {0};
    int r = template_expand(&m->p->doc, m->p->pools, profile_current_scope(m), &doc, m->err);
    if (r != 0)
        return r;
    json_arr_foreach(doc.root, item) {
        r = make_pool(m, &doc, item, shared);
        if (r != 0)
            break;
    }
    json_doc_done(&doc);
    return r;
}

static int profile_make_node(struct maker *m, struct api_node **ret)
{
    struct json_doc doc = {0};
    struct json_builder empty = {0};
    int r = 0;
    if (m->p->node) {
        r = template_expand(&m->p->doc, m->p->node, profile_current_scope(m), &doc, m->err);
    } else {
        r = json_build_object(&empty, m->err);
        json_build_end(&empty);
        json_build_finish(&empty, &doc);
    }
    struct api_object o = {0};
    if (r == 0)
        r = profile_decode_object(m, profile_find_kind("v1", "Node"), &doc, doc.root, &o);
    json_doc_done(&doc);
    json_builder_done(&empty);
    if (r != 0)
        return r;
    *ret = o.value;
    (*ret)->metadata.name = m->node;
    return 0;
}

static void hand_over(const struct maker *m, struct profile_objects *ret)
{
    ret->classes = m->classes.p;
    ret->classes_len = m->classes.n;
    ret->slices = m->slices.p;
    ret->slices_len = m->slices.n;
}

int profile_node(const struct profile *p, struct str node, size_t index, struct arena *arena,
                 struct profile_objects *ret, struct err *err)
{
    struct maker m = {.p = p, .arena = arena, .err = err, .node = arena_str(arena, node)};
    *ret = (struct profile_objects){0};
    make_scopes(&m, m.node, index);
    int r = profile_make_node(&m, &ret->node);
    if (r == 0)
        r = make_pools(&m, false);
    hand_over(&m, ret);
    return r;
}

int profile_shared(const struct profile *p, struct arena *arena, struct profile_objects *ret,
                   struct err *err)
{
    struct maker m = {.p = p, .arena = arena, .err = err};
    *ret = (struct profile_objects){0};
    make_scopes(&m, STR(""), 0);
    int r = make_classes(&m);
    if (r == 0)
        r = make_pools(&m, true);
    hand_over(&m, ret);
    return r;
}
