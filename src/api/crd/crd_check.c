// SPDX-License-Identifier: Apache-2.0
//
// Whether a schema is one that custom resources may have: structural, with extensions that fit each other and
// defaults that are themselves valid.
#include "api/crd/crd_schema.h"
#include "base/vec.h"
#include "cel/regex.h"

#include "base/banned.h"

enum level { AT_ROOT, AT_ITEM, AT_FIELD };

struct checking {
    struct causes *causes;
    struct str no_defaults; // why there may be none here; empty: there may
    bool in_meta;           // below apiVersion, kind or metadata of an object
};

#define FORBID(c, at, name, why)                             \
    do {                                                     \
        const struct path forbid_at = path_field(at, name);  \
        (void)cause_forbidden((c)->causes, &forbid_at, why); \
    } while (0)

#define DEMAND(c, at, name, why)                            \
    do {                                                    \
        const struct path demand_at = path_field(at, name); \
        (void)cause_required((c)->causes, &demand_at, why); \
    } while (0)

#define REFUSE(c, at, name, value, why)                           \
    do {                                                          \
        const struct path refuse_at = path_field(at, name);       \
        (void)cause_invalid((c)->causes, &refuse_at, value, why); \
    } while (0)

// --- Structure -----------------------------------------------------------------------------------

static void check_pattern(struct checking *c, const struct crd_node *n, const struct path *at)
{
    char why[256] = "";
    if (n->pattern.n == 0)
        return;
    struct cel_regex *re = cel_regex_new(n->pattern.p, n->pattern.n, why, sizeof(why));
    if (!re)
        REFUSE(c, at, STR("pattern"), n->pattern,
               arena_strf(c->causes->arena, "must be a valid regular expression, but isn't: %s",
                          why));
    cel_regex_free(re);
}

// anyOf: [{type: integer}, {type: string}] is how integers or strings are written.
static bool is_int_or_string(const struct crd_nodes *any)
{
    return any->n == 2 && str_eqz(any->p[0]->type, "integer") && str_eqz(any->p[1]->type, "string");
}

static void check_nested(struct checking *c, const struct crd_node *n, const struct path *at,
                         bool typed);

// What stands below allOf, anyOf, oneOf and not may only judge values.
static void check_junctors(struct checking *c, const struct crd_node *n, const struct path *at)
{
    bool skip_any = n->int_or_string && is_int_or_string(&n->any_of);
    struct path list = path_field(at, STR("anyOf"));
    for (size_t i = 0; i < n->any_of.n; i++) {
        const struct path item = path_index(&list, i);
        check_nested(c, n->any_of.p[i], &item, skip_any);
    }
    list = path_field(at, STR("allOf"));
    for (size_t i = 0; i < n->all_of.n; i++) {
        const struct path item = path_index(&list, i);
        struct crd_node copy = *n->all_of.p[i];
        if (i == 0 && n->int_or_string && is_int_or_string(&copy.any_of))
            copy.any_of.n = 0;
        check_nested(c, &copy, &item, false);
    }
    list = path_field(at, STR("oneOf"));
    for (size_t i = 0; i < n->one_of.n; i++) {
        const struct path item = path_index(&list, i);
        check_nested(c, n->one_of.p[i], &item, false);
    }
    const struct path not_at = path_field(at, STR("not"));
    if (n->not_)
        check_nested(c, n->not_, &not_at, false);
    check_pattern(c, n, at);
}

static void check_nested_words(struct checking *c, const struct crd_node *n, const struct path *at,
                               bool typed)
{
    const struct {
        bool there;
        struct str name, why;
    } words[] = {
        {n->type.n && !typed, STR("type"), STR("must be empty to be structural")},
        {n->has_additional, STR("additionalProperties"), STR("must be undefined to be structural")},
        {n->has_default, STR("default"), STR("must be undefined to be structural")},
        {n->has_title, STR("title"), STR("must be empty to be structural")},
        {n->has_description, STR("description"), STR("must be empty to be structural")},
        {n->nullable, STR("nullable"), STR("must be false to be structural")},
        {n->preserve, STR("x-kubernetes-preserve-unknown-fields"),
         STR("must be false to be structural")},
        {n->embedded, STR("x-kubernetes-embedded-resource"), STR("must be false to be structural")},
        {n->int_or_string, STR("x-kubernetes-int-or-string"),
         STR("must be false to be structural")},
        {n->list_map_keys.n > 0, STR("x-kubernetes-list-map-keys"),
         STR("must be empty to be structural")},
        {n->has_list_type, STR("x-kubernetes-list-type"),
         STR("must be undefined to be structural")},
        {n->has_map_type, STR("x-kubernetes-map-type"), STR("must be undefined to be structural")},
        {n->rules_len > 0, STR("x-kubernetes-validations"), STR("must be empty to be structural")},
    };
    for (size_t i = 0; i < array_len(words); i++)
        if (words[i].there)
            FORBID(c, at, words[i].name, words[i].why);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void check_nested(struct checking *c, const struct crd_node *n, const struct path *at,
                         bool typed)
{
    check_junctors(c, n, at);
    const struct path items = path_field(at, STR("items"));
    if (n->items)
        check_nested(c, n->items, &items, false);
    const struct path properties = path_field(at, STR("properties"));
    for (size_t i = 0; i < n->properties_len; i++) {
        const struct path below = path_key(&properties, n->properties[i].name);
        check_nested(c, n->properties[i].node, &below, false);
        if (str_eqz(n->properties[i].name, "metadata"))
            (void)cause_forbidden(c->causes, &below,
                                  STR("must not be specified in a nested context"));
    }
    check_nested_words(c, n, at, typed);
}

static void check_type_there(struct checking *c, const struct crd_node *n, enum level level,
                             const struct path *at)
{
    static const struct str why[] = {
        [AT_ROOT] = STR_INIT("must not be empty at the root"),
        [AT_ITEM] = STR_INIT("must not be empty for specified array items"),
        [AT_FIELD] = STR_INIT("must not be empty for specified object fields"),
    };
    if (n->embedded && !str_eqz(n->type, "object")) {
        struct str must = STR("must be object if x-kubernetes-embedded-resource is true");
        if (n->type.n == 0)
            DEMAND(c, at, STR("type"), must);
        else
            REFUSE(c, at, STR("type"), n->type, must);
    } else if (n->type.n == 0 && !n->int_or_string && !n->preserve) {
        DEMAND(c, at, STR("type"), why[level]);
    }
    if (n->embedded && n->has_additional)
        FORBID(c, at, STR("additionalProperties"),
               STR("must not be used if x-kubernetes-embedded-resource is set"));
    if (level == AT_ROOT && n->type.n && !str_eqz(n->type, "object"))
        REFUSE(c, at, STR("type"), n->type, STR("must be object at the root"));
}

static void check_metadata(struct checking *c, const struct crd_node *meta, enum level level,
                           bool checked, const struct path *at)
{
    if (checked && !str_eqz(meta->type, "object"))
        REFUSE(c, at, STR("type"), meta->type, STR("must be object"));
    if (level != AT_ROOT)
        return;
    bool plain = !meta->items && !meta->has_additional && !meta->has_description &&
                 !meta->has_title && !meta->nullable && !meta->preserve && !meta->embedded &&
                 !meta->int_or_string && !meta->has_list_type && !meta->has_map_type &&
                 meta->rules_len == 0 && meta->required.n == 0 && meta->all_of.n == 0 &&
                 meta->any_of.n == 0 && meta->one_of.n == 0 && !meta->not_ &&
                 meta->max_properties < 0 && meta->min_properties < 0;
    for (size_t i = 0; i < meta->properties_len; i++)
        plain &= str_eqz(meta->properties[i].name, "name") ||
                 str_eqz(meta->properties[i].name, "generateName");
    if (!plain)
        (void)cause_forbidden(c->causes, at,
                              STR("must not specify anything other than name and generateName, but "
                                  "metadata is implicitly specified"));
}

static void check_object_words(struct checking *c, const struct crd_node *n, enum level level,
                               const struct path *at)
{
    static const char *const texts[] = {"kind", "apiVersion"};
    bool checked = level == AT_ROOT || n->embedded;
    const struct path properties = path_field(at, STR("properties"));
    for (size_t i = 0; checked && i < array_len(texts); i++) {
        const struct crd_node *p = crd_property(n, str_z(texts[i]));
        const struct path below = path_key(&properties, str_z(texts[i]));
        if (p && !str_eqz(p->type, "string"))
            REFUSE(c, &below, STR("type"), p->type, STR("must be string"));
    }
    const struct crd_node *meta = crd_property(n, STR("metadata"));
    const struct path below = path_key(&properties, STR("metadata"));
    if (meta)
        check_metadata(c, meta, level, checked, &below);
    if (n->embedded && !n->preserve && n->properties_len == 0)
        DEMAND(c, at, STR("properties"),
               STR("must not be empty if x-kubernetes-embedded-resource is true without "
                   "x-kubernetes-preserve-unknown-fields"));
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void crd_check_structure(struct checking *c, const struct crd_node *n, enum level level,
                                const struct path *at)
{
    if (causes_full(c->causes))
        return;
    const struct path items = path_field(at, STR("items"));
    if (str_eqz(n->type, "array") && !n->items && !n->items_is_list)
        (void)cause_required(c->causes, &items, STR("must be specified"));
    if (n->items)
        crd_check_structure(c, n->items, AT_ITEM, &items);
    const struct path properties = path_field(at, STR("properties"));
    for (size_t i = 0; i < n->properties_len; i++) {
        const struct path below = path_key(&properties, n->properties[i].name);
        crd_check_structure(c, n->properties[i].node, AT_FIELD, &below);
    }
    if (n->has_additional && level == AT_ROOT)
        FORBID(c, at, STR("additionalProperties"), STR("must not be used at the root"));
    const struct path additional = path_field(at, STR("additionalProperties"));
    if (n->additional)
        crd_check_structure(c, n->additional, AT_FIELD, &additional);
    if (n->int_or_string && n->preserve) {
        const struct path p = path_field(at, STR("x-kubernetes-preserve-unknown-fields"));
        (void)cause_invalid_bool(c->causes, &p, true,
                                 STR("must be false if x-kubernetes-int-or-string is true"));
    }
    check_junctors(c, n, at);
    check_type_there(c, n, level, at);
    check_object_words(c, n, level, at);
}

// --- Completeness: what is judged must also be declared ------------------------------------------

static void crd_check_declared(struct checking *c, const struct crd_node *v,
                               const struct crd_node *n, const struct path *at,
                               const struct path *from);

static void check_declared_lists(struct checking *c, const struct crd_node *v,
                                 const struct crd_node *n, const struct path *at,
                                 const struct path *from)
{
    const struct {
        const struct crd_nodes *nodes;
        struct str name;
    } lists[] = {
        {&v->all_of, STR("allOf")}, {&v->any_of, STR("anyOf")}, {&v->one_of, STR("oneOf")}};
    const struct path not_from = path_field(from, STR("not"));
    if (v->not_)
        crd_check_declared(c, v->not_, n, at, &not_from);
    for (size_t k = 0; k < array_len(lists); k++) {
        const struct path list = path_field(from, lists[k].name);
        for (size_t i = 0; i < lists[k].nodes->n; i++) {
            const struct path item = path_index(&list, i);
            crd_check_declared(c, lists[k].nodes->p[i], n, at, &item);
        }
    }
}

static void demand_declared(struct checking *c, const struct path *at, const struct path *from)
{
    cleanup_sbuf struct sbuf text = {0};
    path_write(from, &text);
    (void)cause_required(c->causes, at,
                         arena_strf(c->causes->arena, "because it is defined in %.*s",
                                    STR_ARG(sbuf_str(&text))));
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void crd_check_declared(struct checking *c, const struct crd_node *v,
                               const struct crd_node *n, const struct path *at,
                               const struct path *from)
{
    if (!n) {
        demand_declared(c, at, from);
        return;
    }
    check_declared_lists(c, v, n, at, from);
    const struct path items = path_field(at, STR("items")),
                      items_from = path_field(from, items.name);
    if (v->items)
        crd_check_declared(c, v->items, n->items, &items, &items_from);
    const struct path properties = path_field(at, STR("properties"));
    const struct path properties_from = path_field(from, STR("properties"));
    for (size_t i = 0; i < v->properties_len; i++) {
        struct str name = v->properties[i].name;
        const struct path below = path_key(&properties, name);
        const struct path below_from = path_key(&properties_from, name);
        crd_check_declared(c, v->properties[i].node, crd_property(n, name), &below, &below_from);
    }
}

// --- Defaults ------------------------------------------------------------------------------------

static void check_default(struct checking *c, const struct crd_node *n, bool embedded,
                          const struct path *at)
{
    struct arena *a = c->causes->arena;
    struct dyn value = dyn_copy(&n->default_value, a), pruned = dyn_copy(&n->default_value, a);
    crd_prune(&pruned, n, embedded, NULL);
    cleanup_sbuf struct sbuf shown = {0};
    dyn_text(&value, &shown);
    const struct path here = path_field(at, STR("default"));
    if (!dyn_equal(&value, &pruned))
        (void)cause_invalid_json(c->causes, &here, sbuf_str(&shown),
                                 STR("must not have unknown fields"));
    struct causes found = {.arena = a};
    crd_validate(&value, NULL, n, &found);
    cleanup_sbuf struct sbuf where = {0};
    path_write(&here, &where);
    for (size_t i = 0; i < found.n && !causes_full(c->causes); i++) {
        struct cause cause = found.p[i];
        bool whole = str_eqz(cause.field, "<nil>");
        cause.field =
            whole ? arena_str(a, sbuf_str(&where))
                  : arena_strf(a, "%.*s.%.*s", STR_ARG(sbuf_str(&where)), STR_ARG(cause.field));
        vec_push_arena(a, c->causes, cause);
    }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void crd_check_defaults(struct checking *c, const struct crd_node *n, const struct path *at)
{
    if (n->has_default)
        check_default(c, n, n->embedded, at);
    const struct path items = path_field(at, STR("items"));
    if (n->items)
        crd_check_defaults(c, n->items, &items);
    const struct path properties = path_field(at, STR("properties"));
    for (size_t i = 0; i < n->properties_len; i++) {
        const struct path below = path_key(&properties, n->properties[i].name);
        crd_check_defaults(c, n->properties[i].node, &below);
    }
}

// --- Words and extensions ------------------------------------------------------------------------

static void check_words(struct checking *c, const struct crd_node *n, const struct path *at)
{
    static const struct str types[] = {STR_INIT("array"),  STR_INIT("boolean"), STR_INIT("integer"),
                                       STR_INIT("number"), STR_INIT("object"),  STR_INIT("string")};
    bool known = n->type.n == 0;
    for (size_t i = 0; i < array_len(types); i++)
        known |= str_eq(n->type, types[i]);
    const struct path type = path_field(at, STR("type"));
    if (!known)
        (void)cause_not_supported(c->causes, &type, n->type, types, array_len(types));
    if (str_eqz(n->type, "null"))
        (void)cause_forbidden(c->causes, &type,
                              STR("type cannot be set to null, use nullable as an alternative"));
    if (n->has_default && c->no_defaults.n)
        FORBID(c, at, STR("default"),
               arena_strf(c->causes->arena, "must not be set %.*s", STR_ARG(c->no_defaults)));
    if (n->unsupported)
        FORBID(c, at, str_z(n->unsupported),
               arena_strf(c->causes->arena, "%s is not supported", n->unsupported));
    if (n->items_is_list)
        FORBID(c, at, STR("items"), STR("items must be a schema object and not an array"));
    if (c->in_meta && n->embedded)
        FORBID(c, at, STR("x-kubernetes-embedded-resource"),
               STR("must not be used inside of resource meta"));
    if (n->unique_items)
        FORBID(c, at, STR("uniqueItems"),
               STR("uniqueItems cannot be set to true since the runtime complexity becomes "
                   "quadratic"));
    if (n->has_additional && n->properties_len && (!n->additional_allows || n->additional))
        FORBID(c, at, STR("additionalProperties"),
               STR("additionalProperties and properties are mutual exclusive"));
    const struct path preserve = path_field(at, STR("x-kubernetes-preserve-unknown-fields"));
    if (n->preserve_false)
        (void)cause_invalid_bool(c->causes, &preserve, false, STR("must be true or undefined"));
}

static void check_needs(struct checking *c, const struct crd_node *n, const struct path *at,
                        const char *want, struct str why)
{
    if (str_eqz(n->type, want))
        return;
    if (n->type.n == 0)
        DEMAND(c, at, STR("type"), why);
    else
        REFUSE(c, at, STR("type"), n->type, why);
}

static void check_map_keys(struct checking *c, const struct crd_node *n, const struct path *at)
{
    const struct path items = path_field(at, STR("items"));
    const struct path properties = path_field(&items, STR("properties"));
    const struct path keys = path_field(at, STR("x-kubernetes-list-map-keys"));
    cleanup_sbuf struct sbuf shown = {0};
    sbuf_addc(&shown, '[');
    for (size_t i = 0; i < n->list_map_keys.n; i++) {
        sbuf_addz(&shown, i ? "," : "");
        sbuf_add_json_str(&shown, n->list_map_keys.p[i], false);
    }
    sbuf_addc(&shown, ']');
    for (size_t i = 0; i < n->list_map_keys.n; i++) {
        struct str key = n->list_map_keys.p[i];
        const struct crd_node *p = crd_property(n->items, key);
        const struct path below = path_key(&properties, key);
        bool required = false;
        if (!p) {
            (void)cause_invalid_json(c->causes, &keys, sbuf_str(&shown),
                                     STR("entries must all be names of item properties"));
            continue;
        }
        if (str_eqz(p->type, "array") || str_eqz(p->type, "object"))
            REFUSE(c, &below, STR("type"), n->items->type,
                   STR("must be a scalar type if parent array's x-kubernetes-list-type is map"));
        for (size_t k = 0; k < i; k++)
            if (str_eq(n->list_map_keys.p[k], key))
                (void)cause_invalid_json(c->causes, &keys, sbuf_str(&shown),
                                         STR("must not contain duplicate entries"));
        for (size_t k = 0; k < n->items->required.n; k++)
            required |= str_eq(n->items->required.p[k], key);
        if (!required && !p->has_default)
            DEMAND(c, &below, STR("default"),
                   STR("this property is in x-kubernetes-list-map-keys, so it must have a default "
                       "or be a required property"));
        if (p->nullable)
            FORBID(c, &below, STR("nullable"),
                   STR("this property is in x-kubernetes-list-map-keys, so it cannot be nullable"));
    }
}

static void check_list_type(struct checking *c, const struct crd_node *n, const struct path *at)
{
    static const struct str types[] = {STR_INIT("atomic"), STR_INIT("set"), STR_INIT("map")};
    const struct path here = path_field(at, STR("x-kubernetes-list-type"));
    const struct path items = path_field(at, STR("items"));
    bool map = str_eqz(n->list_type, "map"), set = str_eqz(n->list_type, "set");
    if (n->has_list_type)
        check_needs(c, n, at, "array", STR("must be array if x-kubernetes-list-type is specified"));
    if (n->has_list_type && !map && !set && !str_eqz(n->list_type, "atomic"))
        (void)cause_not_supported(c->causes, &here, n->list_type, types, array_len(types));
    struct str needs_map = STR("must be map if x-kubernetes-list-map-keys is non-empty");
    if (n->list_map_keys.n && !n->has_list_type)
        (void)cause_required(c->causes, &here, needs_map);
    else if (n->list_map_keys.n && !map)
        (void)cause_invalid(c->causes, &here, n->list_type, needs_map);
    if (map && n->list_map_keys.n == 0)
        DEMAND(c, at, STR("x-kubernetes-list-map-keys"),
               STR("must not be empty if x-kubernetes-list-type is map"));
    if (map && n->items && !str_eqz(n->items->type, "object"))
        REFUSE(c, &items, STR("type"), n->items->type,
               STR("must be object if parent array's x-kubernetes-list-type is map"));
    if ((map || set) && n->items && n->items->nullable)
        FORBID(c, &items, STR("nullable"),
               arena_strf(c->causes->arena,
                          "cannot be nullable when x-kubernetes-list-type is %.*s",
                          STR_ARG(n->list_type)));
    if (set && n->items && str_eqz(n->items->type, "object") &&
        !str_eqz(n->items->map_type, "atomic"))
        REFUSE(c, &items, STR("x-kubernetes-map-type"), n->items->map_type,
               STR("must be atomic as item of a list with x-kubernetes-list-type=set"));
    if (map && n->items && str_eqz(n->items->type, "object"))
        check_map_keys(c, n, at);
}

static void check_map_type(struct checking *c, const struct crd_node *n, const struct path *at)
{
    static const struct str types[] = {STR_INIT("atomic"), STR_INIT("granular")};
    const struct path here = path_field(at, STR("x-kubernetes-map-type"));
    if (!n->has_map_type)
        return;
    check_needs(c, n, at, "object", STR("must be object if x-kubernetes-map-type is specified"));
    if (!str_eqz(n->map_type, "atomic") && !str_eqz(n->map_type, "granular"))
        (void)cause_not_supported(c->causes, &here, n->map_type, types, array_len(types));
}

static void check_rule(struct checking *c, const struct crd_rule *r, const struct path *at)
{
    static const struct str reasons[] = {STR_INIT("FieldValueDuplicate"),
                                         STR_INIT("FieldValueForbidden"),
                                         STR_INIT("FieldValueInvalid"),
                                         STR_INIT("FieldValueRequired")};
    bool known = !r->has_reason;
    if (str_trim(r->rule).n == 0)
        DEMAND(c, at, STR("rule"), STR("rule is not specified"));
    else if (r->message.n && str_trim(r->message).n == 0)
        REFUSE(c, at, STR("message"), r->message, STR("must be non-empty if specified"));
    else if (str_find_char(str_trim(r->message), '\n') >= 0)
        REFUSE(c, at, STR("message"), r->message, STR("must not contain line breaks"));
    else if (str_find_char(str_trim(r->rule), '\n') >= 0 && str_trim(r->message).n == 0)
        DEMAND(c, at, STR("message"),
               STR("message must be specified if rule contains line breaks"));
    if (r->message_expression.n && str_trim(r->message_expression).n == 0)
        DEMAND(c, at, STR("messageExpression"),
               STR("messageExpression must be non-empty if specified"));
    for (size_t i = 0; i < array_len(reasons); i++)
        known |= str_eq(r->reason, reasons[i]);
    const struct path reason = path_field(at, STR("reason"));
    if (!known)
        (void)cause_not_supported(c->causes, &reason, r->reason, reasons, array_len(reasons));
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void check_extensions(struct checking *c, const struct crd_node *n, bool root,
                             const struct path *at)
{
    if (!n || causes_full(c->causes))
        return;
    check_words(c, n, at);
    const struct checking outer = *c;
    const struct path additional = path_field(at, STR("additionalProperties"));
    if (c->in_meta)
        c->no_defaults = STR("inside additionalProperties applying to object metadata");
    check_extensions(c, n->additional, false, &additional);
    *c = outer;
    const struct path properties = path_field(at, STR("properties"));
    for (size_t i = 0; i < n->properties_len; i++) {
        struct str name = n->properties[i].name;
        const struct path below = path_key(&properties, name);
        bool meta =
            str_eqz(name, "metadata") || str_eqz(name, "kind") || str_eqz(name, "apiVersion");
        if ((root || n->embedded) && meta) {
            c->in_meta = true;
            if (root)
                c->no_defaults = arena_strf(c->causes->arena, "in top-level %.*s", STR_ARG(name));
        }
        check_extensions(c, n->properties[i].node, false, &below);
        *c = outer;
    }
    const struct path items = path_field(at, STR("items"));
    check_extensions(c, n->items, false, &items);
    check_map_type(c, n, at);
    check_list_type(c, n, at);
    const struct path rules = path_field(at, STR("x-kubernetes-validations"));
    for (size_t i = 0; i < n->rules_len; i++) {
        const struct path rule = path_index(&rules, i);
        check_rule(c, &n->rules[i], &rule);
    }
}

// --- All of it -----------------------------------------------------------------------------------

void crd_schema_check(struct crd_schema *s, const struct crd_check *check)
{
    struct checking c = {.causes = check->causes};
    size_t before = check->causes->n;
    if (s->root->nullable)
        FORBID(&c, check->at, STR("nullable"), STR("nullable cannot be true at the root"));
    crd_check_structure(&c, s->root, AT_ROOT, check->at);
    check_declared_lists(&c, s->root, s->root, check->at, check->at);
    if (check->causes->n == before) {
        crd_schema_compile(s);
        crd_check_defaults(&c, s->root, check->at);
    }
    check_extensions(&c, s->root, true, check->at);
    if (check->causes->n == before)
        crd_compile_rules(s, check);
}
