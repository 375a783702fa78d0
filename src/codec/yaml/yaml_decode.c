// SPDX-License-Identifier: Apache-2.0
//
// A tree of YAML nodes made into a JSON document: scalars resolved, aliases expanded, maps merged.
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/vec.h"
#include "codec/json/keys.h"
#include "codec/json_writer.h"
#include "codec/yaml/yaml_int.h"

#include "base/banned.h"

struct entry {
    struct str key;
    struct yaml_node *key_node;
    struct yaml_node *value;
    bool aliased; // came by an alias
};

struct entries VEC(struct entry);

struct decode {
    struct json_builder builder;
    enum json_duplicates duplicates;
    struct arena keys;
    size_t alias_nodes; // made by expanding aliases
    size_t alias_bytes; // of their texts
    unsigned in_alias;  // aliases being expanded
    unsigned merges;    // maps being merged into each other
    struct err *err;
};

static int decode_node(struct decode *d, struct yaml_node *n);

static int fail_at(struct decode *d, const struct yaml_node *n, int code)
{
    err_at(d->err, n->at.line, n->at.column);
    return code;
}

// Counts a node that an alias brings; this is what stops the billion laughs.
static int yaml_decode_count_node(struct decode *d, const struct yaml_node *n)
{
    if (!d->in_alias)
        return 0;
    d->alias_bytes += n->value.n;
    if (++d->alias_nodes > DRAY_YAML_ALIAS_NODES_MAX)
        return fail_at(d, n,
                       err_set(d->err, ERR_BAD_REQUEST,
                               "aliases expand to more than %d nodes; write the values out",
                               DRAY_YAML_ALIAS_NODES_MAX));
    if (d->alias_bytes > DRAY_YAML_ALIAS_BYTES_MAX)
        return fail_at(d, n,
                       err_set(d->err, ERR_BAD_REQUEST,
                               "aliases expand to more than %zu bytes; write the values out",
                               DRAY_YAML_ALIAS_BYTES_MAX));
    return 0;
}

static int refuse_cycle(struct decode *d, const struct yaml_node *alias)
{
    return fail_at(d, alias,
                   err_set(d->err, ERR_BAD_REQUEST, "anchor '%.*s' contains itself",
                           STR_ARG(str_upto(alias->value, 100))));
}

// --- Scalars -------------------------------------------------------------------------------------

// A scalar's tag without prefix, if it is one of YAML's own; else empty.
static struct str own_tag(const struct yaml_node *n)
{
    struct str tag = str_z(n->tag);
    if (!str_starts(tag, STR(YAML_TAG_PREFIX)))
        return STR("");
    return str_from(tag, sizeof(YAML_TAG_PREFIX) - 1);
}

static bool is_resolved_tag(struct str tag)
{
    static const char *const tags[] = {"int", "float", "bool", "null", "timestamp"};
    for (size_t i = 0; i < array_len(tags); i++)
        if (str_eqz(tag, tags[i]))
            return true;
    return false;
}

// What a scalar is. Text is n->value, but for !!binary, where it is put into *bytes.
static int scalar_of(struct decode *d, const struct yaml_node *n, struct yaml_scalar *ret,
                     struct sbuf *bytes, bool *ret_binary)
{
    *ret = (struct yaml_scalar){.kind = YAML_STR};
    *ret_binary = false;
    struct str tag = own_tag(n);
    if (!n->tag) {
        if (n->implicit)
            *ret = yaml_resolve(n->value);
    } else if (is_resolved_tag(tag)) {
        int r = yaml_resolve_tagged(tag, n->value, ret, d->err);
        if (r < 0)
            return fail_at(d, n, r);
    } else if (str_eqz(tag, "binary")) {
        *ret_binary = true;
        if (!yaml_add_base64(bytes, n->value))
            return fail_at(d, n,
                           err_set(d->err, ERR_BAD_REQUEST, "the !!binary value is not base64"));
    }
    return 0;
}

// A double goes through its JSON text, as it does in kubectl: 1.0 becomes the integer 1.
static int build_float(struct decode *d, const struct yaml_node *n, double v)
{
    if (!isfinite(v))
        return fail_at(d, n,
                       err_set(d->err, ERR_BAD_REQUEST, "%.*s cannot be represented in JSON",
                               STR_ARG(str_upto(n->value, 20))));
    cleanup_sbuf struct sbuf text = {0};
    sbuf_add_json_double(&text, v);
    json_build_number(&d->builder, sbuf_str(&text));
    return 0;
}

static int decode_scalar(struct decode *d, const struct yaml_node *n)
{
    struct yaml_scalar s;
    cleanup_sbuf struct sbuf bytes = {0};
    bool binary;
    int r = scalar_of(d, n, &s, &bytes, &binary);
    if (r < 0)
        return r;
    switch (s.kind) {
    case YAML_NULL:
        json_build_null(&d->builder);
        break;
    case YAML_BOOL:
        json_build_bool(&d->builder, s.truth);
        break;
    case YAML_INT:
        json_build_i64(&d->builder, s.i);
        break;
    case YAML_UINT:
        json_build_u64(&d->builder, s.u);
        break;
    case YAML_FLOAT:
        return build_float(d, n, s.f);
    case YAML_TIMESTAMP:
    case YAML_STR:
        json_build_str(&d->builder, binary ? sbuf_str(&bytes) : n->value);
        break;
    }
    return 0;
}

// --- Keys ----------------------------------------------------------------------------------------

static int yaml_decode_fail_key(struct decode *d, const struct yaml_node *n, const char *what)
{
    return fail_at(d, n,
                   err_set(d->err, ERR_BAD_REQUEST,
                           "unsupported map key: %s; keys are strings, put it in quotes", what));
}

static int yaml_decode_key_text(struct decode *d, struct yaml_node *n, struct str *ret)
{
    if (n->kind == YAML_NODE_ALIAS)
        n = n->target;
    if (n->kind != YAML_NODE_SCALAR)
        return yaml_decode_fail_key(d, n, n->kind == YAML_NODE_MAPPING ? "a map" : "a list");
    struct yaml_scalar s;
    cleanup_sbuf struct sbuf text = {0};
    bool binary;
    int r = scalar_of(d, n, &s, &text, &binary);
    if (r < 0)
        return r;
    switch (s.kind) {
    case YAML_NULL:
        return yaml_decode_fail_key(d, n, "null");
    case YAML_UINT:
        return yaml_decode_fail_key(d, n, "an integer past 63 bits");
    case YAML_BOOL:
        *ret = s.truth ? STR("true") : STR("false");
        return 0;
    case YAML_INT:
        sbuf_add_i64(&text, s.i);
        break;
    case YAML_FLOAT:
        yaml_add_float(&text, s.f, true);
        break;
    case YAML_TIMESTAMP:
    case YAML_STR:
        if (!binary) {
            *ret = n->value;
            return 0;
        }
        break;
    }
    *ret = arena_str(&d->keys, sbuf_str(&text));
    return 0;
}

static bool is_merge(const struct yaml_node *n)
{
    return n->kind == YAML_NODE_SCALAR && str_eqz(n->value, "<<") &&
           (n->implicit || str_eqz(own_tag(n), "merge"));
}

// --- Maps ----------------------------------------------------------------------------------------

static int yaml_decode_gather_entries(struct decode *d, struct yaml_node *map, struct entries *out);

// Adds the entries of a map, given directly or by an alias, which is merged into another.
static int merge_one(struct decode *d, struct yaml_node *n, struct entries *out)
{
    bool alias = n->kind == YAML_NODE_ALIAS;
    struct yaml_node *map = alias ? n->target : n;
    if (map->kind != YAML_NODE_MAPPING)
        return fail_at(d, n,
                       err_set(d->err, ERR_BAD_REQUEST,
                               "map merge requires map or sequence of maps as the value"));
    if (map->busy)
        return refuse_cycle(d, n);
    if (d->merges == DRAY_DOC_DEPTH_MAX)
        return fail_at(d, n,
                       err_set(d->err, ERR_BAD_REQUEST, "maps merged deeper than %d levels",
                               DRAY_DOC_DEPTH_MAX));
    d->merges++;
    d->in_alias += alias;
    map->busy = true;
    int r = yaml_decode_gather_entries(d, map, out);
    map->busy = false;
    d->in_alias -= alias;
    d->merges--;
    return r;
}

// The value of a `<<`. Of several maps the earlier wins, so they are merged from the last one on.
static int yaml_decode_merge_key(struct decode *d, struct yaml_node *n, struct entries *out)
{
    if (n->kind != YAML_NODE_SEQUENCE)
        return merge_one(d, n, out);
    struct yaml_nodes VEC(struct yaml_node *);
    struct yaml_nodes list = {0};
    for (struct yaml_node *item = n->first; item; item = item->next)
        vec_push(&list, item);
    int r = 0;
    while (r == 0 && list.n)
        r = merge_one(d, vec_pop(&list), out);
    vec_done(&list);
    return r;
}

// Finds for each entry the first with its key; the caller frees the list.
static size_t find_repeats(const struct entries *e, uint32_t **ret_first)
{
    cleanup_free struct str *keys = xreallocarray(NULL, e->n, sizeof(*keys));
    for (size_t i = 0; i < e->n; i++)
        keys[i] = e->p[i].key;
    *ret_first = xreallocarray(NULL, e->n, sizeof(**ret_first));
    return keys_first(keys, e->n, *ret_first);
}

// Refuses a map that has a key twice itself; own holds just its own keys.
static int check_own(struct decode *d, struct yaml_node *map, const struct entries *own)
{
    if (d->duplicates != JSON_DUPLICATES_REFUSE || map->checked)
        return 0;
    map->checked = true;
    cleanup_free uint32_t *first = NULL;
    if (own->n == 0 || find_repeats(own, &first) == 0)
        return 0;
    size_t i = 0;
    while (first[i] == i)
        i++;
    return fail_at(d, own->p[i].key_node,
                   err_set(d->err, ERR_BAD_REQUEST, "key \"%.*s\" already set in map on line %u",
                           STR_ARG(str_upto(own->p[i].key, 100)),
                           own->p[first[i]].key_node->at.line));
}

static int gather_pair(struct decode *d, struct yaml_node *key, struct entries *out,
                       struct entries *own)
{
    if (is_merge(key))
        return yaml_decode_merge_key(d, key->next, out);
    struct entry e = {.key_node = key, .value = key->next, .aliased = d->in_alias > 0};
    bool alias = key->kind == YAML_NODE_ALIAS;
    d->in_alias += alias;
    int r = yaml_decode_count_node(d, alias ? key->target : key);
    d->in_alias -= alias;
    if (r == 0)
        r = yaml_decode_key_text(d, key, &e.key);
    if (r < 0)
        return r;
    vec_push(out, e);
    if (d->duplicates == JSON_DUPLICATES_REFUSE)
        vec_push(own, e);
    return 0;
}

// Adds all entries of a map in the order in which they take effect, merged ones included.
static int yaml_decode_gather_entries(struct decode *d, struct yaml_node *map, struct entries *out)
{
    int r = yaml_decode_count_node(d, map);
    struct entries own = {0};
    for (struct yaml_node *key = map->first; r == 0 && key; key = key->next->next)
        r = gather_pair(d, key, out, &own);
    if (r == 0)
        r = check_own(d, map, &own);
    vec_done(&own);
    return r;
}

static int build_entry(struct decode *d, const struct entry *first, const struct entry *last)
{
    d->builder.at = last->key_node->at;
    json_build_str(&d->builder, first->key);
    d->in_alias += last->aliased;
    int r = decode_node(d, last->value);
    d->in_alias -= last->aliased;
    return r;
}

// Writes entries: each key once, at the place of its first mention, with its last value.
static int build_entries(struct decode *d, const struct entries *e)
{
    cleanup_free uint32_t *first = NULL;
    size_t repeats = find_repeats(e, &first);
    cleanup_free uint32_t *last = xreallocarray(NULL, e->n, sizeof(*last));
    for (size_t i = 0; repeats && i < e->n; i++)
        last[first[i]] = (uint32_t)i;
    int r = 0;
    for (size_t i = 0; r == 0 && i < e->n; i++)
        if (first[i] == i)
            r = build_entry(d, &e->p[i], &e->p[repeats ? last[i] : i]);
    return r;
}

static int decode_mapping(struct decode *d, struct yaml_node *n)
{
    int r = json_build_object(&d->builder, d->err);
    if (r < 0)
        return r;
    struct entries entries = {0};
    r = yaml_decode_gather_entries(d, n, &entries);
    if (r == 0)
        r = build_entries(d, &entries);
    vec_done(&entries);
    if (r == 0)
        json_build_end(&d->builder);
    return r;
}

static int decode_sequence(struct decode *d, struct yaml_node *n)
{
    int r = json_build_array(&d->builder, d->err);
    for (struct yaml_node *item = n->first; r == 0 && item; item = item->next)
        r = decode_node(d, item);
    if (r == 0)
        json_build_end(&d->builder);
    return r;
}

static int decode_alias(struct decode *d, struct yaml_node *n)
{
    if (n->target->busy)
        return refuse_cycle(d, n);
    d->in_alias++;
    int r = decode_node(d, n->target);
    d->in_alias--;
    return r;
}

// Recursion is bounded by the builder, which refuses documents that are too deep.
static int decode_node(struct decode *d, struct yaml_node *n)
{
    if (n->kind == YAML_NODE_ALIAS)
        return decode_alias(d, n);
    int r = n->kind == YAML_NODE_MAPPING ? 0 : yaml_decode_count_node(d, n); // gather counts maps
    if (r < 0)
        return r;
    d->builder.at = n->at;
    n->busy = true;
    if (n->kind == YAML_NODE_SCALAR)
        r = decode_scalar(d, n);
    else if (n->kind == YAML_NODE_SEQUENCE)
        r = decode_sequence(d, n);
    else
        r = decode_mapping(d, n);
    n->busy = false;
    return r;
}

int yaml_decode(struct yaml_node *root, enum json_duplicates duplicates, struct json_doc *ret,
                struct err *err)
{
    struct decode d = {.duplicates = duplicates, .err = err};
    d.builder.keep_positions = true;
    int r = decode_node(&d, root);
    arena_done(&d.keys);
    if (r < 0) {
        json_builder_done(&d.builder);
        return r;
    }
    json_build_finish(&d.builder, ret);
    return 0;
}
