// SPDX-License-Identifier: Apache-2.0
//
// The words of a command line that name objects (TYPE, TYPE/NAME), resolved with the server's
// discovery, and fields of objects.
#include "cmd/objects/objects.h"

#include "cmd/common.h"
#include "cmd/objects/follow.h"

#include "base/banned.h"

static const struct json_options big = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                        .duplicates = JSON_DUPLICATES_LAST};

// --- Words ---------------------------------------------------------------------------------------

struct str objects_plural(struct str word)
{
    static const struct {
        const char *word, *plural, *kind;
    } ours[] = {{"claim", "claims", "resourceclaims"},
                {"template", "templates", "resourceclaimtemplates"},
                {"slice", "slices", "resourceslices"},
                {"class", "classes", "deviceclasses"}};
    for (size_t i = 0; i < array_len(ours); i++)
        if (str_eqz(word, ours[i].word) || str_eqz(word, ours[i].plural))
            return str_z(ours[i].kind);
    return word;
}

// objects_find_kinds is discovery_find, with short words for the kinds that this program is about.
static int objects_find_kinds(const struct cluster *c, struct str word, struct arena *arena,
                              struct discovery_kinds *ret, struct err *err)
{
    int r = discovery_find(&c->kinds, word, arena, ret, err);
    struct str plural = objects_plural(word);
    return r == -ERR_NOT_FOUND && !str_eq(plural, word)
               ? discovery_find(&c->kinds, plural, arena, ret, err)
               : r;
}

// add_one adds KIND/NAME.
static int add_one(struct cluster *c, struct str word, struct arena *arena, struct targets *ret,
                   struct err *err)
{
    struct str kind, name;
    struct discovery_kinds kinds = {0};
    str_cut(word, '/', &kind, &name);
    if (!kind.n || !name.n || str_find_char(name, '/') >= 0)
        return err_set(err, ERR_INVALID, "'%.*s' is not KIND/NAME", STR_ARG(word));
    int r = objects_find_kinds(c, kind, arena, &kinds, err);
    if (r == 0 && kinds.n > 1)
        return err_set(err, ERR_INVALID, "'%.*s' is several kinds and has no names", STR_ARG(kind));
    if (r == 0)
        vec_push_arena(arena, ret, (struct target){kinds.p[0], name});
    return r;
}

// add_kinds adds KIND[,KIND…] with the names that follow.
static int add_kinds(struct cluster *c, const struct cli_texts *words, struct arena *arena,
                     struct targets *ret, struct err *err)
{
    for (struct str rest = str_z(words->p[0]), word; rest.n;) {
        struct discovery_kinds kinds = {0};
        str_cut(rest, ',', &word, &rest);
        int r = objects_find_kinds(c, word, arena, &kinds, err);
        if (r < 0)
            return r;
        for (size_t k = 0; k < kinds.n; k++) {
            if (words->n == 1)
                vec_push_arena(arena, ret, (struct target){.kind = kinds.p[k]});
            for (size_t i = 1; i < words->n; i++)
                vec_push_arena(arena, ret, (struct target){kinds.p[k], str_z(words->p[i])});
        }
    }
    return 0;
}

int objects_read(struct cluster *c, const struct cli_texts *words, struct arena *arena,
                 struct targets *ret, struct err *err)
{
    if (words->n == 0)
        return err_set(err, ERR_INVALID, "which kind? For example: pods");
    int r = cluster_kinds(c, false, err);
    if (r < 0)
        return r;
    if (!strchr(words->p[0], '/')) {
        for (size_t i = 1; i < words->n; i++)
            if (strchr(words->p[i], '/'))
                return err_set(err, ERR_INVALID, "either KIND NAME… or KIND/NAME…, not both");
        return add_kinds(c, words, arena, ret, err);
    }
    for (size_t i = 0; i < words->n && r == 0; i++)
        r = add_one(c, str_z(words->p[i]), arena, ret, err);
    return r;
}

void objects_add_path(struct sbuf *out, const struct target *t, struct str namespace)
{
    discovery_add_path(out, t->kind, namespace, t->name);
}

int objects_get(struct cluster *c, const struct target *t, struct str namespace,
                struct json_doc *ret, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, body = {0};
    objects_add_path(&path, t, namespace);
    int r = cluster_get(c, path.p, &body, err);
    return r < 0 ? r : json_parse(sbuf_str(&body), &big, ret, err);
}

struct naming {
    const struct discovery_kind *kind;
    struct arena *arena;
    struct targets *to;
};

static int objects_add_names(void *arg, const yyjson_val *page, struct err *err)
{
    struct naming *n = arg;
    const yyjson_val *items = objects_list(page, "items");
    (void)err;
    if (!items)
        return 0;
    json_arr_foreach(items, item) {
        struct str name = arena_str(n->arena, objects_text(item, "metadata.name"));
        vec_push_arena(n->arena, n->to, (struct target){n->kind, name});
    }
    return 0;
}

int objects_names(struct cluster *c, const struct discovery_kind *kind, struct arena *arena,
                  struct targets *ret, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, query = {0};
    struct naming n = {kind, arena, ret};
    discovery_add_path(&path, kind, common_namespace(c), (struct str){0});
    if (common.selector)
        follow_add_query(&query, "labelSelector", str_z(common.selector));
    const struct follow f = {
        .path = sbuf_str(&path), .query = sbuf_str(&query), .page = objects_add_names, .arg = &n};
    return follow_list(c, &f, NULL, err);
}

// --- Objects -------------------------------------------------------------------------------------

static int build_meta(struct json_builder *b, const yyjson_val *meta, struct err *err)
{
    int r = json_build_object(b, err);
    json_obj_foreach(meta, key, value) {
        if (r < 0 || str_eqz(json_str(key), "managedFields"))
            continue;
        json_build_str(b, json_str(key));
        r = json_build_value(b, value, err);
    }
    if (r == 0)
        json_build_end(b);
    return r;
}

static void build_text(struct json_builder *b, const char *key, struct str text)
{
    json_build_str(b, str_z(key));
    json_build_str(b, text);
}

int objects_build(struct json_builder *b, const yyjson_val *object, const struct discovery_kind *k,
                  struct err *err)
{
    cleanup_sbuf struct sbuf version = {0};
    int r = json_build_object(b, err);
    if (r == 0 && k && !json_get(object, STR("kind"))) {
        sbuf_addf(&version, "%.*s%s%.*s", STR_ARG(k->group), k->group.n ? "/" : "",
                  STR_ARG(k->version));
        build_text(b, "kind", k->kind);
        build_text(b, "apiVersion", sbuf_str(&version));
    }
    json_obj_foreach(object, key, value) {
        if (r < 0)
            break;
        json_build_str(b, json_str(key));
        r = str_eqz(json_str(key), "metadata") && json_is_object(value)
                ? build_meta(b, value, err)
                : json_build_value(b, value, err);
    }
    if (r == 0)
        json_build_end(b);
    return r;
}

const yyjson_val *objects_at(const yyjson_val *v, const char *path)
{
    bool whole = false;
    if (!v)
        return NULL;
    const yyjson_val *found = json_at_path(v, str_z(path), &whole);
    return whole ? found : NULL;
}

struct str objects_text(const yyjson_val *v, const char *path)
{
    const yyjson_val *t = objects_at(v, path);
    return t && json_is_string(t) ? json_str(t) : (struct str){0};
}

const yyjson_val *objects_list(const yyjson_val *v, const char *path)
{
    const yyjson_val *list = objects_at(v, path);
    return list && json_is_array(list) ? list : NULL;
}
