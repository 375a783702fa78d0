// SPDX-License-Identifier: Apache-2.0
//
// Reads the lists of kinds that a server publishes, and finds the kind that a person means by a
// plural, a short name or KIND.GROUP.
#include "client/discovery.h"

#include "client/remote.h"
#include "codec/json.h"

#include "base/banned.h"

// --- Reading -------------------------------------------------------------------------------------

static struct str discovery_text_at(struct arena *a, const yyjson_val *v, struct str key)
{
    const yyjson_val *t = json_get(v, key);
    return t && json_is_string(t) ? arena_str(a, json_str(t)) : (struct str){0};
}

static const yyjson_val *discovery_list_at(const yyjson_val *v, struct str key)
{
    const yyjson_val *list = json_get(v, key);
    return list && json_is_array(list) ? list : NULL;
}

static void discovery_read_names(struct arena *a, const yyjson_val *v, struct str key,
                                 struct discovery_names *ret)
{
    const yyjson_val *list = discovery_list_at(v, key);
    if (!list)
        return;
    json_arr_foreach(list, item) {
        if (json_is_string(item))
            vec_push_arena(a, ret, arena_str(a, json_str(item)));
    }
}

static void discovery_read_kind(struct discovery *d, const yyjson_val *v, struct str group,
                                struct str version)
{
    struct arena *a = &d->arena;
    struct discovery_kind k = {.group = group, .version = version};
    const yyjson_val *response = json_get(v, STR("responseKind"));
    k.plural = discovery_text_at(a, v, STR("resource"));
    k.singular = discovery_text_at(a, v, STR("singularResource"));
    k.namespaced = str_eqz(discovery_text_at(a, v, STR("scope")), "Namespaced");
    if (response)
        k.kind = discovery_text_at(a, response, STR("kind"));
    discovery_read_names(a, v, STR("shortNames"), &k.short_names);
    discovery_read_names(a, v, STR("categories"), &k.categories);
    discovery_read_names(a, v, STR("verbs"), &k.verbs);
    if (k.plural.n && k.kind.n)
        vec_push_arena(a, &d->kinds, k);
}

static void read_group(struct discovery *d, const yyjson_val *group)
{
    const yyjson_val *meta = json_get(group, STR("metadata"));
    const yyjson_val *versions = discovery_list_at(group, STR("versions"));
    struct str name = meta ? discovery_text_at(&d->arena, meta, STR("name")) : (struct str){0};
    if (!versions)
        return;
    json_arr_foreach(versions, v) {
        struct str version = discovery_text_at(&d->arena, v, STR("version"));
        const yyjson_val *resources = discovery_list_at(v, STR("resources"));
        if (!resources)
            continue;
        json_arr_foreach(resources, r)
            discovery_read_kind(d, r, name, version);
    }
}

int discovery_read(struct discovery *d, struct str body, struct err *err)
{
    static const struct json_options options = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                                .duplicates = JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(body, &options, &doc, err) < 0)
        return err_wrap(err, "invalid list of kinds from the server");
    const yyjson_val *items = discovery_list_at(doc.root, STR("items"));
    if (!items)
        return err_set(err, ERR_BAD_REQUEST,
                       "the server does not tell its kinds (aggregated discovery)");
    json_arr_foreach(items, group)
        read_group(d, group);
    return 0;
}

// --- Finding -------------------------------------------------------------------------------------

static char discovery_lower_char(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool discovery_same_word(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (discovery_lower_char(a.p[i]) != discovery_lower_char(b.p[i]))
            return false;
    return true;
}

static bool discovery_has_name(const struct discovery_names *names, struct str word)
{
    vec_foreach(names, n)
        if (discovery_same_word(*n, word))
            return true;
    return false;
}

// How well a word names a kind; less is better.
enum fit { FIT_PLURAL, FIT_SINGULAR, FIT_SHORT, FIT_KIND, FIT_NONE };

static enum fit fit_of(const struct discovery_kind *k, struct str word)
{
    if (discovery_same_word(k->plural, word))
        return FIT_PLURAL;
    if (discovery_same_word(k->singular, word))
        return FIT_SINGULAR;
    if (discovery_has_name(&k->short_names, word))
        return FIT_SHORT;
    return discovery_same_word(k->kind, word) ? FIT_KIND : FIT_NONE;
}

// discovery_in_group: behind may be empty (any), GROUP, VERSION or VERSION.GROUP.
static bool discovery_in_group(const struct discovery_kind *k, struct str behind)
{
    struct str version, group;
    if (!behind.n || discovery_same_word(k->group, behind))
        return true;
    str_cut(behind, '.', &version, &group);
    return discovery_same_word(k->version, version) && discovery_same_word(k->group, group);
}

static const struct discovery_kind *discovery_best_kind(const struct discovery *d, struct str word,
                                                        struct str behind)
{
    const struct discovery_kind *found = NULL;
    enum fit least = FIT_NONE;
    vec_foreach(&d->kinds, k) {
        enum fit fit = discovery_in_group(k, behind) ? fit_of(k, word) : FIT_NONE;
        if (fit < least) {
            least = fit;
            found = k;
        }
    }
    return found;
}

// discovery_is_preferred reports whether no earlier version of the same group has the kind.
static bool discovery_is_preferred(const struct discovery *d, const struct discovery_kind *kind)
{
    for (const struct discovery_kind *k = d->kinds.p; k != kind; k++)
        if (str_eq(k->group, kind->group) && str_eq(k->plural, kind->plural))
            return false;
    return true;
}

int discovery_find(const struct discovery *d, struct str word, struct arena *arena,
                   struct discovery_kinds *ret, struct err *err)
{
    struct str name, behind;
    str_cut(word, '.', &name, &behind);
    const struct discovery_kind *one = discovery_best_kind(d, name, behind);
    if (one) {
        vec_push_arena(arena, ret, one);
        return 0;
    }
    vec_foreach(&d->kinds, k)
        if (discovery_has_name(&k->categories, word) && discovery_can(k, "list") &&
            discovery_is_preferred(d, k))
            vec_push_arena(arena, ret, k);
    return ret->n ? 0 : err_set(err, ERR_NOT_FOUND, "the server has no kind '%.*s'", STR_ARG(word));
}

const struct discovery_kind *discovery_of(const struct discovery *d, struct str api_version,
                                          struct str kind)
{
    struct str group, version;
    if (!str_cut(api_version, '/', &group, &version)) {
        version = api_version;
        group = (struct str){0};
    }
    vec_foreach(&d->kinds, k)
        if (str_eq(k->group, group) && str_eq(k->version, version) && str_eq(k->kind, kind))
            return k;
    return NULL;
}

bool discovery_can(const struct discovery_kind *k, const char *verb)
{
    return discovery_has_name(&k->verbs, str_z(verb));
}

// --- Names ---------------------------------------------------------------------------------------

void discovery_add_path(struct sbuf *out, const struct discovery_kind *k, struct str namespace,
                        struct str name)
{
    if (k->group.n)
        sbuf_addf(out, "/apis/%.*s/%.*s", STR_ARG(k->group), STR_ARG(k->version));
    else
        sbuf_addf(out, "/api/%.*s", STR_ARG(k->version));
    if (k->namespaced && namespace.n) {
        sbuf_addz(out, "/namespaces/");
        client_escape(out, namespace);
    }
    sbuf_addf(out, "/%.*s", STR_ARG(k->plural));
    if (name.n) {
        sbuf_addc(out, '/');
        client_escape(out, name);
    }
}

void discovery_add_name(struct sbuf *out, const struct discovery_kind *k, bool singular)
{
    sbuf_add(out, singular && k->singular.n ? k->singular : k->plural);
    if (k->group.n)
        sbuf_addf(out, ".%.*s", STR_ARG(k->group));
}

void discovery_done(struct discovery *d)
{
    arena_done(&d->arena);
    *d = (struct discovery){0};
}
