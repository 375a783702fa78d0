// SPDX-License-Identifier: Apache-2.0
//
// Whether a schema is one that custom resources may have: structural, with extensions that fit each
// other and defaults that are themselves valid.
#include "api/crd/crd_schema.h"
#include "api/rules/at.h"
#include "base/vec.h"
#include "cel/regex.h"

#include "base/banned.h"

enum level { LEVEL_ROOT, LEVEL_ITEM, LEVEL_FIELD };

struct checking {
    struct causes *causes;
    struct str no_defaults; // why there may be none here; empty: there may
    bool in_meta;           // below apiVersion, kind or metadata of an object
};

// --- Structure -----------------------------------------------------------------------------------

static void check_pattern(struct checking *c, const struct crd_node *n, const struct path *at)
{
    char why[256] = "";
    if (n->pattern.n == 0)
        return;
    struct cel_regex *re = cel_regex_new(n->pattern.p, n->pattern.n, why, sizeof(why));
    if (!re)
        cause_invalid(c->causes, AT(at, "pattern"), n->pattern,
                      arena_strf(c->causes->arena,
                                 "must be a valid regular expression, but isn't: %s", why));
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
    for (size_t i = 0; i < n->any_of.n; i++)
        check_nested(c, n->any_of.p[i], AT_ITEM(AT(at, "anyOf"), i), skip_any);
    for (size_t i = 0; i < n->all_of.n; i++) {
        struct crd_node copy = *n->all_of.p[i];
        if (i == 0 && n->int_or_string && is_int_or_string(&copy.any_of))
            copy.any_of.n = 0;
        check_nested(c, &copy, AT_ITEM(AT(at, "allOf"), i), false);
    }
    for (size_t i = 0; i < n->one_of.n; i++)
        check_nested(c, n->one_of.p[i], AT_ITEM(AT(at, "oneOf"), i), false);
    if (n->not_)
        check_nested(c, n->not_, AT(at, "not"), false);
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
            cause_forbidden(c->causes, AT_NAME(at, words[i].name), words[i].why);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void check_nested(struct checking *c, const struct crd_node *n, const struct path *at,
                         bool typed)
{
    check_junctors(c, n, at);
    if (n->items)
        check_nested(c, n->items, AT(at, "items"), false);
    for (size_t i = 0; i < n->properties_len; i++) {
        check_nested(c, n->properties[i].node, AT_KEY(AT(at, "properties"), n->properties[i].name),
                     false);
        if (str_eqz(n->properties[i].name, "metadata"))
            cause_forbidden(c->causes, AT_KEY(AT(at, "properties"), n->properties[i].name),
                            STR("must not be specified in a nested context"));
    }
    check_nested_words(c, n, at, typed);
}

static void check_type_there(struct checking *c, const struct crd_node *n, enum level level,
                             const struct path *at)
{
    static const struct str why[] = {
        [LEVEL_ROOT] = STR_INIT("must not be empty at the root"),
        [LEVEL_ITEM] = STR_INIT("must not be empty for specified array items"),
        [LEVEL_FIELD] = STR_INIT("must not be empty for specified object fields"),
    };
    if (n->embedded && !str_eqz(n->type, "object")) {
        struct str must = STR("must be object if x-kubernetes-embedded-resource is true");
        if (n->type.n == 0)
            cause_required(c->causes, AT(at, "type"), must);
        else
            cause_invalid(c->causes, AT(at, "type"), n->type, must);
    } else if (n->type.n == 0 && !n->int_or_string && !n->preserve) {
        cause_required(c->causes, AT(at, "type"), why[level]);
    }
    if (n->embedded && n->has_additional)
        cause_forbidden(c->causes, AT(at, "additionalProperties"),
                        STR("must not be used if x-kubernetes-embedded-resource is set"));
    if (level == LEVEL_ROOT && n->type.n && !str_eqz(n->type, "object"))
        cause_invalid(c->causes, AT(at, "type"), n->type, STR("must be object at the root"));
}

static void check_metadata(struct checking *c, const struct crd_node *meta, enum level level,
                           bool checked, const struct path *at)
{
    if (checked && !str_eqz(meta->type, "object"))
        cause_invalid(c->causes, AT(at, "type"), meta->type, STR("must be object"));
    if (level != LEVEL_ROOT)
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
        cause_forbidden(c->causes, at,
                        STR("must not specify anything other than name and generateName, but "
                            "metadata is implicitly specified"));
}

static void check_object_words(struct checking *c, const struct crd_node *n, enum level level,
                               const struct path *at)
{
    static const char *const texts[] = {"kind", "apiVersion"};
    bool checked = level == LEVEL_ROOT || n->embedded;
    for (size_t i = 0; checked && i < array_len(texts); i++) {
        const struct crd_node *p = crd_property(n, str_z(texts[i]));
        if (p && !str_eqz(p->type, "string"))
            cause_invalid(c->causes, AT(AT_KEY(AT(at, "properties"), str_z(texts[i])), "type"),
                          p->type, STR("must be string"));
    }
    const struct crd_node *meta = crd_property(n, STR("metadata"));
    if (meta)
        check_metadata(c, meta, level, checked, AT_KEY(AT(at, "properties"), STR("metadata")));
    if (n->embedded && !n->preserve && n->properties_len == 0)
        cause_required(c->causes, AT(at, "properties"),
                       STR("must not be empty if x-kubernetes-embedded-resource is true without "
                           "x-kubernetes-preserve-unknown-fields"));
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void crd_check_structure(struct checking *c, const struct crd_node *n, enum level level,
                                const struct path *at)
{
    if (causes_full(c->causes))
        return;
    if (str_eqz(n->type, "array") && !n->items && !n->items_is_list)
        cause_required(c->causes, AT(at, "items"), STR("must be specified"));
    if (n->items)
        crd_check_structure(c, n->items, LEVEL_ITEM, AT(at, "items"));
    for (size_t i = 0; i < n->properties_len; i++)
        crd_check_structure(c, n->properties[i].node, LEVEL_FIELD,
                            AT_KEY(AT(at, "properties"), n->properties[i].name));
    if (n->has_additional && level == LEVEL_ROOT)
        cause_forbidden(c->causes, AT(at, "additionalProperties"),
                        STR("must not be used at the root"));
    if (n->additional)
        crd_check_structure(c, n->additional, LEVEL_FIELD, AT(at, "additionalProperties"));
    if (n->int_or_string && n->preserve)
        cause_invalid_bool(c->causes, AT(at, "x-kubernetes-preserve-unknown-fields"), true,
                           STR("must be false if x-kubernetes-int-or-string is true"));
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
    if (v->not_)
        crd_check_declared(c, v->not_, n, at, AT(from, "not"));
    for (size_t k = 0; k < array_len(lists); k++) {
        for (size_t i = 0; i < lists[k].nodes->n; i++)
            crd_check_declared(c, lists[k].nodes->p[i], n, at,
                               AT_ITEM(AT_NAME(from, lists[k].name), i));
    }
}

static void demand_declared(struct checking *c, const struct path *at, const struct path *from)
{
    cleanup_sbuf struct sbuf text = {0};
    path_write(from, &text);
    cause_required(c->causes, at,
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
    if (v->items)
        crd_check_declared(c, v->items, n->items, AT(at, "items"), AT(from, "items"));
    for (size_t i = 0; i < v->properties_len; i++) {
        struct str name = v->properties[i].name;
        crd_check_declared(c, v->properties[i].node, crd_property(n, name),
                           AT_KEY(AT(at, "properties"), name),
                           AT_KEY(AT(from, "properties"), name));
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
    if (!dyn_equal(&value, &pruned))
        cause_invalid_json(c->causes, AT(at, "default"), sbuf_str(&shown),
                           STR("must not have unknown fields"));
    struct causes found = {.arena = a};
    crd_validate(&value, NULL, n, &found);
    cleanup_sbuf struct sbuf where = {0};
    path_write(AT(at, "default"), &where);
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
    if (n->items)
        crd_check_defaults(c, n->items, AT(at, "items"));
    for (size_t i = 0; i < n->properties_len; i++)
        crd_check_defaults(c, n->properties[i].node,
                           AT_KEY(AT(at, "properties"), n->properties[i].name));
}

// --- Words and extensions ------------------------------------------------------------------------

static void check_words(struct checking *c, const struct crd_node *n, const struct path *at)
{
    static const struct str types[] = {STR_INIT("array"),  STR_INIT("boolean"), STR_INIT("integer"),
                                       STR_INIT("number"), STR_INIT("object"),  STR_INIT("string")};
    bool known = n->type.n == 0;
    for (size_t i = 0; i < array_len(types); i++)
        known |= str_eq(n->type, types[i]);
    if (!known)
        cause_not_supported(c->causes, AT(at, "type"), n->type, types, array_len(types));
    if (str_eqz(n->type, "null"))
        cause_forbidden(c->causes, AT(at, "type"),
                        STR("type cannot be set to null, use nullable as an alternative"));
    if (n->has_default && c->no_defaults.n)
        cause_forbidden(c->causes, AT(at, "default"),
                        arena_strf(c->causes->arena, "must not be set %.*s",
                                   STR_ARG(c->no_defaults)));
    if (n->unsupported)
        cause_forbidden(c->causes, AT_NAME(at, str_z(n->unsupported)),
                        arena_strf(c->causes->arena, "%s is not supported", n->unsupported));
    if (n->items_is_list)
        cause_forbidden(c->causes, AT(at, "items"),
                        STR("items must be a schema object and not an array"));
    if (c->in_meta && n->embedded)
        cause_forbidden(c->causes, AT(at, "x-kubernetes-embedded-resource"),
                        STR("must not be used inside of resource meta"));
    if (n->unique_items)
        cause_forbidden(
            c->causes, AT(at, "uniqueItems"),
            STR("uniqueItems cannot be set to true since the runtime complexity becomes "
                "quadratic"));
    if (n->has_additional && n->properties_len && (!n->additional_allows || n->additional))
        cause_forbidden(c->causes, AT(at, "additionalProperties"),
                        STR("additionalProperties and properties are mutual exclusive"));
    if (n->preserve_false)
        cause_invalid_bool(c->causes, AT(at, "x-kubernetes-preserve-unknown-fields"), false,
                           STR("must be true or undefined"));
}

static void check_needs(struct checking *c, const struct crd_node *n, const struct path *at,
                        const char *want, struct str why)
{
    if (str_eqz(n->type, want))
        return;
    if (n->type.n == 0)
        cause_required(c->causes, AT(at, "type"), why);
    else
        cause_invalid(c->causes, AT(at, "type"), n->type, why);
}

static void check_map_keys(struct checking *c, const struct crd_node *n, const struct path *at)
{
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
        const struct path *below = AT_KEY(AT(AT(at, "items"), "properties"), key);
        bool required = false;
        if (!p) {
            cause_invalid_json(c->causes, AT(at, "x-kubernetes-list-map-keys"), sbuf_str(&shown),
                               STR("entries must all be names of item properties"));
            continue;
        }
        if (str_eqz(p->type, "array") || str_eqz(p->type, "object"))
            cause_invalid(
                c->causes, AT(below, "type"), n->items->type,
                STR("must be a scalar type if parent array's x-kubernetes-list-type is map"));
        for (size_t k = 0; k < i; k++)
            if (str_eq(n->list_map_keys.p[k], key))
                cause_invalid_json(c->causes, AT(at, "x-kubernetes-list-map-keys"),
                                   sbuf_str(&shown), STR("must not contain duplicate entries"));
        for (size_t k = 0; k < n->items->required.n; k++)
            required |= str_eq(n->items->required.p[k], key);
        if (!required && !p->has_default)
            cause_required(
                c->causes, AT(below, "default"),
                STR("this property is in x-kubernetes-list-map-keys, so it must have a default "
                    "or be a required property"));
        if (p->nullable)
            cause_forbidden(
                c->causes, AT(below, "nullable"),
                STR("this property is in x-kubernetes-list-map-keys, so it cannot be nullable"));
    }
}

static void check_list_type(struct checking *c, const struct crd_node *n, const struct path *at)
{
    static const struct str types[] = {STR_INIT("atomic"), STR_INIT("set"), STR_INIT("map")};
    const struct path *here = AT(at, "x-kubernetes-list-type");
    const struct path *items = AT(at, "items");
    bool map = str_eqz(n->list_type, "map"), set = str_eqz(n->list_type, "set");
    if (n->has_list_type)
        check_needs(c, n, at, "array", STR("must be array if x-kubernetes-list-type is specified"));
    if (n->has_list_type && !map && !set && !str_eqz(n->list_type, "atomic"))
        cause_not_supported(c->causes, here, n->list_type, types, array_len(types));
    struct str needs_map = STR("must be map if x-kubernetes-list-map-keys is non-empty");
    if (n->list_map_keys.n && !n->has_list_type)
        cause_required(c->causes, here, needs_map);
    else if (n->list_map_keys.n && !map)
        cause_invalid(c->causes, here, n->list_type, needs_map);
    if (map && n->list_map_keys.n == 0)
        cause_required(c->causes, AT(at, "x-kubernetes-list-map-keys"),
                       STR("must not be empty if x-kubernetes-list-type is map"));
    if (map && n->items && !str_eqz(n->items->type, "object"))
        cause_invalid(c->causes, AT(items, "type"), n->items->type,
                      STR("must be object if parent array's x-kubernetes-list-type is map"));
    if ((map || set) && n->items && n->items->nullable)
        cause_forbidden(c->causes, AT(items, "nullable"),
                        arena_strf(c->causes->arena,
                                   "cannot be nullable when x-kubernetes-list-type is %.*s",
                                   STR_ARG(n->list_type)));
    if (set && n->items && str_eqz(n->items->type, "object") &&
        !str_eqz(n->items->map_type, "atomic"))
        cause_invalid(c->causes, AT(items, "x-kubernetes-map-type"), n->items->map_type,
                      STR("must be atomic as item of a list with x-kubernetes-list-type=set"));
    if (map && n->items && str_eqz(n->items->type, "object"))
        check_map_keys(c, n, at);
}

static void check_map_type(struct checking *c, const struct crd_node *n, const struct path *at)
{
    static const struct str types[] = {STR_INIT("atomic"), STR_INIT("granular")};
    if (!n->has_map_type)
        return;
    check_needs(c, n, at, "object", STR("must be object if x-kubernetes-map-type is specified"));
    if (!str_eqz(n->map_type, "atomic") && !str_eqz(n->map_type, "granular"))
        cause_not_supported(c->causes, AT(at, "x-kubernetes-map-type"), n->map_type, types,
                            array_len(types));
}

static void check_rule(struct checking *c, const struct crd_rule *r, const struct path *at)
{
    static const struct str reasons[] = {STR_INIT("FieldValueDuplicate"),
                                         STR_INIT("FieldValueForbidden"),
                                         STR_INIT("FieldValueInvalid"),
                                         STR_INIT("FieldValueRequired")};
    bool known = !r->has_reason;
    if (str_trim(r->rule).n == 0)
        cause_required(c->causes, AT(at, "rule"), STR("rule is not specified"));
    else if (r->message.n && str_trim(r->message).n == 0)
        cause_invalid(c->causes, AT(at, "message"), r->message,
                      STR("must be non-empty if specified"));
    else if (str_find_char(str_trim(r->message), '\n') >= 0)
        cause_invalid(c->causes, AT(at, "message"), r->message,
                      STR("must not contain line breaks"));
    else if (str_find_char(str_trim(r->rule), '\n') >= 0 && str_trim(r->message).n == 0)
        cause_required(c->causes, AT(at, "message"),
                       STR("message must be specified if rule contains line breaks"));
    if (r->message_expression.n && str_trim(r->message_expression).n == 0)
        cause_required(c->causes, AT(at, "messageExpression"),
                       STR("messageExpression must be non-empty if specified"));
    for (size_t i = 0; i < array_len(reasons); i++)
        known |= str_eq(r->reason, reasons[i]);
    if (!known)
        cause_not_supported(c->causes, AT(at, "reason"), r->reason, reasons, array_len(reasons));
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void check_extensions(struct checking *c, const struct crd_node *n, bool root,
                             const struct path *at)
{
    if (!n || causes_full(c->causes))
        return;
    check_words(c, n, at);
    const struct checking outer = *c;
    if (c->in_meta)
        c->no_defaults = STR("inside additionalProperties applying to object metadata");
    check_extensions(c, n->additional, false, AT(at, "additionalProperties"));
    *c = outer;
    for (size_t i = 0; i < n->properties_len; i++) {
        struct str name = n->properties[i].name;
        bool meta =
            str_eqz(name, "metadata") || str_eqz(name, "kind") || str_eqz(name, "apiVersion");
        if ((root || n->embedded) && meta) {
            c->in_meta = true;
            if (root)
                c->no_defaults = arena_strf(c->causes->arena, "in top-level %.*s", STR_ARG(name));
        }
        check_extensions(c, n->properties[i].node, false, AT_KEY(AT(at, "properties"), name));
        *c = outer;
    }
    check_extensions(c, n->items, false, AT(at, "items"));
    check_map_type(c, n, at);
    check_list_type(c, n, at);
    for (size_t i = 0; i < n->rules_len; i++)
        check_rule(c, &n->rules[i], AT_ITEM(AT(at, "x-kubernetes-validations"), i));
}

// --- All of it -----------------------------------------------------------------------------------

void crd_schema_check(struct crd_schema *s, const struct crd_check *check)
{
    struct checking c = {.causes = check->causes};
    size_t before = check->causes->n;
    if (s->root->nullable)
        cause_forbidden(c.causes, AT(check->at, "nullable"),
                        STR("nullable cannot be true at the root"));
    crd_check_structure(&c, s->root, LEVEL_ROOT, check->at);
    check_declared_lists(&c, s->root, s->root, check->at, check->at);
    if (check->causes->n == before) {
        crd_schema_compile(s);
        crd_check_defaults(&c, s->root, check->at);
    }
    check_extensions(&c, s->root, true, check->at);
    if (check->causes->n == before)
        crd_compile_rules(s, check);
}
