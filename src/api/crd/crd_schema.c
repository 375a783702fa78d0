// SPDX-License-Identifier: Apache-2.0
//
// Reading the schema of a custom resource.
#include "api/crd/crd_schema.h"

#include <stdlib.h>

#include "base/vec.h"
#include "cel/regex.h"

#include "base/banned.h"

struct reading {
    struct arena *a;
    struct json_strict *strict;
    struct err *err;
};

static int read_node(struct reading *rd, const struct dyn *v, struct crd_node **ret);

static int crd_schema_type_error(struct reading *rd, const char *key, const char *want)
{
    return err_set(rd->err, ERR_BAD_REQUEST, "%s must be %s", key, want);
}

static int crd_schema_read_text(struct reading *rd, const char *key, const struct dyn *v,
                                struct str *ret)
{
    if (v->type != DYN_STR)
        return crd_schema_type_error(rd, key, "a string");
    *ret = v->text;
    return 0;
}

static int crd_schema_read_bool(struct reading *rd, const char *key, const struct dyn *v, bool *ret)
{
    if (v->type != DYN_BOOL)
        return crd_schema_type_error(rd, key, "a boolean");
    *ret = v->truth;
    return 0;
}

static int crd_schema_read_int(struct reading *rd, const char *key, const struct dyn *v,
                               int64_t *ret)
{
    if (v->type != DYN_INT)
        return crd_schema_type_error(rd, key, "an integer");
    *ret = v->number;
    return 0;
}

static int read_double(struct reading *rd, const char *key, const struct dyn *v, double *ret,
                       bool *ret_there)
{
    if (!dyn_is_number(v))
        return crd_schema_type_error(rd, key, "a number");
    *ret = v->type == DYN_INT ? (double)v->number : v->real;
    *ret_there = true;
    return 0;
}

static int read_strings(struct reading *rd, const char *key, const struct dyn *v,
                        struct crd_strings *ret)
{
    if (v->type != DYN_LIST)
        return crd_schema_type_error(rd, key, "a list of strings");
    ret->p = arena_array(rd->a, struct str, v->items_len + 1);
    for (size_t i = 0; i < v->items_len; i++) {
        if (v->items[i].type != DYN_STR)
            return crd_schema_type_error(rd, key, "a list of strings");
        ret->p[ret->n++] = v->items[i].text;
    }
    return 0;
}

static int crd_schema_read_nodes(struct reading *rd, const char *key, const struct dyn *v,
                                 struct crd_nodes *ret)
{
    if (v->type != DYN_LIST)
        return crd_schema_type_error(rd, key, "a list of schemas");
    ret->p = arena_array(rd->a, struct crd_node *, v->items_len + 1);
    int r = 0;
    for (size_t i = 0; r == 0 && i < v->items_len; i++)
        r = read_node(rd, &v->items[i], &ret->p[ret->n++]);
    return r;
}

static int read_properties(struct reading *rd, const struct dyn *v, struct crd_node *n)
{
    if (v->type != DYN_OBJECT)
        return crd_schema_type_error(rd, "properties", "an object of schemas");
    n->properties = arena_array(rd->a, struct crd_property, v->members_len + 1);
    int r = 0;
    for (size_t i = 0; r == 0 && i < v->members_len; i++) {
        struct crd_property *p = &n->properties[n->properties_len++];
        p->name = v->members[i].key;
        size_t mark = json_strict_field(rd->strict, p->name);
        r = read_node(rd, &v->members[i].value, &p->node);
        json_strict_back(rd->strict, mark);
    }
    return r;
}

static int read_items(struct reading *rd, const struct dyn *v, struct crd_node *n)
{
    n->items_is_list = v->type == DYN_LIST;
    return n->items_is_list ? 0 : read_node(rd, v, &n->items);
}

static int read_additional(struct reading *rd, const struct dyn *v, struct crd_node *n)
{
    n->has_additional = true;
    n->additional_allows = v->type != DYN_BOOL || v->truth;
    return v->type == DYN_BOOL ? 0 : read_node(rd, v, &n->additional);
}

static int read_rule_member(struct reading *rd, const struct dyn_member *m, struct crd_rule *rule)
{
    const struct {
        const char *key;
        struct str *to;
    } texts[] = {
        {"rule", &rule->rule},
        {"message", &rule->message},
        {"messageExpression", &rule->message_expression},
        {"reason", &rule->reason},
        {"fieldPath", &rule->field_path},
    };
    for (size_t i = 0; i < array_len(texts); i++) {
        if (!str_eqz(m->key, texts[i].key))
            continue;
        rule->has_reason |= str_eqz(m->key, "reason");
        return crd_schema_read_text(rd, texts[i].key, &m->value, texts[i].to);
    }
    if (!str_eqz(m->key, "optionalOldSelf")) {
        json_strict_unknown(rd->strict, m->key);
        return 0;
    }
    rule->has_optional_old_self = true;
    return crd_schema_read_bool(rd, "optionalOldSelf", &m->value, &rule->optional_old_self);
}

static int crd_schema_read_rules(struct reading *rd, const struct dyn *v, struct crd_node *n)
{
    if (v->type != DYN_LIST)
        return crd_schema_type_error(rd, "x-kubernetes-validations", "a list of rules");
    n->rules = arena_array(rd->a, struct crd_rule, v->items_len + 1);
    int r = 0;
    for (size_t i = 0; r == 0 && i < v->items_len; i++) {
        struct crd_rule *rule = &n->rules[n->rules_len++];
        const struct dyn *item = &v->items[i];
        if (item->type != DYN_OBJECT)
            return crd_schema_type_error(rd, "x-kubernetes-validations", "a list of rules");
        for (size_t k = 0; r == 0 && k < item->members_len; k++)
            r = read_rule_member(rd, &item->members[k], rule);
        cleanup_sbuf struct sbuf text = {0};
        dyn_text(item, &text);
        rule->json = arena_str(rd->a, sbuf_str(&text));
    }
    n->any_rules |= n->rules_len > 0;
    return r;
}

// Members that are plain values. 1: it was none of them.
static int crd_schema_read_plain(struct reading *rd, struct str key, const struct dyn *v,
                                 struct crd_node *n)
{
    const struct {
        const char *key;
        struct str *to;
        bool *there;
    } texts[] = {
        {"type", &n->type, NULL},
        {"format", &n->format, NULL},
        {"pattern", &n->pattern, NULL},
        {"x-kubernetes-list-type", &n->list_type, &n->has_list_type},
        {"x-kubernetes-map-type", &n->map_type, &n->has_map_type},
    };
    const struct {
        const char *key;
        bool *to;
    } bools[] = {
        {"nullable", &n->nullable},
        {"uniqueItems", &n->unique_items},
        {"exclusiveMaximum", &n->exclusive_maximum},
        {"exclusiveMinimum", &n->exclusive_minimum},
        {"x-kubernetes-preserve-unknown-fields", &n->preserve},
        {"x-kubernetes-embedded-resource", &n->embedded},
        {"x-kubernetes-int-or-string", &n->int_or_string},
    };
    const struct {
        const char *key;
        int64_t *to;
    } ints[] = {
        {"maxLength", &n->max_length},         {"minLength", &n->min_length},
        {"maxItems", &n->max_items},           {"minItems", &n->min_items},
        {"maxProperties", &n->max_properties}, {"minProperties", &n->min_properties},
    };
    for (size_t i = 0; i < array_len(texts); i++)
        if (str_eqz(key, texts[i].key)) {
            if (texts[i].there)
                *texts[i].there = true;
            return crd_schema_read_text(rd, texts[i].key, v, texts[i].to);
        }
    for (size_t i = 0; i < array_len(bools); i++)
        if (str_eqz(key, bools[i].key))
            return crd_schema_read_bool(rd, bools[i].key, v, bools[i].to);
    for (size_t i = 0; i < array_len(ints); i++)
        if (str_eqz(key, ints[i].key))
            return crd_schema_read_int(rd, ints[i].key, v, ints[i].to);
    if (str_eqz(key, "maximum"))
        return read_double(rd, "maximum", v, &n->maximum, &n->has_maximum);
    if (str_eqz(key, "minimum"))
        return read_double(rd, "minimum", v, &n->minimum, &n->has_minimum);
    if (str_eqz(key, "multipleOf"))
        return read_double(rd, "multipleOf", v, &n->multiple_of, &n->has_multiple_of);
    return 1;
}

// Members that hold schemas. 1: it was none of them.
static int read_below(struct reading *rd, struct str key, const struct dyn *v, struct crd_node *n)
{
    if (str_eqz(key, "properties"))
        return read_properties(rd, v, n);
    if (str_eqz(key, "items"))
        return read_items(rd, v, n);
    if (str_eqz(key, "additionalProperties"))
        return read_additional(rd, v, n);
    if (str_eqz(key, "allOf"))
        return crd_schema_read_nodes(rd, "allOf", v, &n->all_of);
    if (str_eqz(key, "anyOf"))
        return crd_schema_read_nodes(rd, "anyOf", v, &n->any_of);
    if (str_eqz(key, "oneOf"))
        return crd_schema_read_nodes(rd, "oneOf", v, &n->one_of);
    if (str_eqz(key, "not"))
        return read_node(rd, v, &n->not_);
    if (str_eqz(key, "x-kubernetes-validations"))
        return crd_schema_read_rules(rd, v, n);
    return 1;
}

static int crd_schema_read_member(struct reading *rd, const struct dyn_member *m,
                                  struct crd_node *n)
{
    static const char *const refused[] = {
        "$ref", "$schema",         "definitions",      "dependencies",
        "id",   "additionalItems", "patternProperties"};
    const struct dyn *v = &m->value;
    struct str key = m->key;
    if (v->type == DYN_NULL && !str_eqz(key, "default"))
        return 0;
    int r = crd_schema_read_plain(rd, key, v, n);
    if (r == 1)
        r = read_below(rd, key, v, n);
    if (r <= 0)
        return r;
    if (str_eqz(key, "required"))
        return read_strings(rd, "required", v, &n->required);
    if (str_eqz(key, "x-kubernetes-list-map-keys"))
        return read_strings(rd, "x-kubernetes-list-map-keys", v, &n->list_map_keys);
    if (str_eqz(key, "enum")) {
        n->enum_values = *v;
        return v->type == DYN_LIST ? 0 : crd_schema_type_error(rd, "enum", "a list");
    }
    if (str_eqz(key, "default")) {
        n->has_default = v->type != DYN_NULL;
        n->default_value = *v;
        return 0;
    }
    n->has_title |= str_eqz(key, "title") && v->type == DYN_STR && v->text.n > 0;
    n->has_description |= str_eqz(key, "description") && v->type == DYN_STR && v->text.n > 0;
    for (size_t i = 0; i < array_len(refused); i++)
        if (str_eqz(key, refused[i])) {
            n->unsupported = refused[i];
            return 0;
        }
    if (!str_eqz(key, "title") && !str_eqz(key, "description") && !str_eqz(key, "example") &&
        !str_eqz(key, "externalDocs"))
        json_strict_unknown(rd->strict, key);
    return 0;
}

static void find_rules(struct crd_node *n)
{
    n->any_rules |= n->items && n->items->any_rules;
    n->any_rules |= n->additional && n->additional->any_rules;
    for (size_t i = 0; i < n->properties_len; i++)
        n->any_rules |= n->properties[i].node->any_rules;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static int read_node(struct reading *rd, const struct dyn *v, struct crd_node **ret)
{
    struct crd_node *n = arena_one(rd->a, struct crd_node);
    *ret = n;
    n->max_length = n->min_length = n->max_items = n->min_items = -1;
    n->max_properties = n->min_properties = -1;
    n->enum_values.type = DYN_LIST;
    if (v->type != DYN_OBJECT)
        return crd_schema_type_error(rd, "a schema", "an object");
    int r = 0;
    for (size_t i = 0; r == 0 && i < v->members_len; i++) {
        bool named = str_eqz(v->members[i].key, "properties");
        size_t mark = json_strict_field(rd->strict, v->members[i].key);
        if (!named) // what it reports stands beside it
            json_strict_back(rd->strict, mark);
        r = crd_schema_read_member(rd, &v->members[i], n);
        json_strict_back(rd->strict, mark);
    }
    n->preserve_false = dyn_get(v, STR("x-kubernetes-preserve-unknown-fields")) && !n->preserve;
    find_rules(n);
    return r;
}

int crd_schema_read(struct str json, struct json_strict *strict, struct crd_schema **ret,
                    struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = JSON_DUPLICATES_KEEP};
    int r = json_parse(json, &options, &doc, err);
    if (r < 0)
        return r;
    struct crd_schema *s = xcalloc(1, sizeof(*s));
    s->refs = 1;
    s->json = dyn_of(doc.root, &s->arena);
    struct reading rd = {.a = &s->arena, .strict = strict, .err = err};
    r = read_node(&rd, &s->json, &s->root);
    if (r < 0) {
        crd_schema_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void crd_schema_finish_node(struct crd_node *n)
{
    if (!n)
        return;
    cel_regex_free(n->regex);
    for (size_t i = 0; i < n->rules_len; i++) {
        cel_program_free(n->rules[i].program);
        cel_program_free(n->rules[i].message_program);
    }
    cel_env_free(n->env);
    cel_env_free(n->message_env);
    crd_schema_finish_node(n->items);
    crd_schema_finish_node(n->additional);
    crd_schema_finish_node(n->not_);
    for (size_t i = 0; i < n->properties_len; i++)
        crd_schema_finish_node(n->properties[i].node);
    const struct crd_nodes *lists[] = {&n->all_of, &n->any_of, &n->one_of};
    for (size_t k = 0; k < array_len(lists); k++)
        for (size_t i = 0; i < lists[k]->n; i++)
            crd_schema_finish_node(lists[k]->p[i]);
}

void crd_schema_free(struct crd_schema *s)
{
    if (!s || --s->refs)
        return;
    crd_schema_finish_node(s->root);
    arena_done(&s->arena);
    free(s);
}

const struct crd_node *crd_property(const struct crd_node *n, struct str name)
{
    size_t low = 0, high = n ? n->properties_len : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = str_cmp(n->properties[middle].name, name);
        if (c == 0)
            return n->properties[middle].node;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct crd_node *crd_node_below(const struct crd_node *n, struct str name)
{
    const struct crd_node *p = crd_property(n, name);
    return p || !n ? p : n->additional;
}

// --- Patterns ------------------------------------------------------------------------------------

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void compile_patterns(struct crd_schema *s, struct crd_node *n)
{
    if (!n)
        return;
    if (n->pattern.n && !n->regex) {
        char why[256] = "";
        n->regex = cel_regex_new(n->pattern.p, n->pattern.n, why, sizeof(why));
        n->pattern_why = n->regex ? STR("") : arena_str(&s->arena, str_z(why));
    }
    compile_patterns(s, n->items);
    compile_patterns(s, n->additional);
    compile_patterns(s, n->not_);
    for (size_t i = 0; i < n->properties_len; i++)
        compile_patterns(s, n->properties[i].node);
    const struct crd_nodes *lists[] = {&n->all_of, &n->any_of, &n->one_of};
    for (size_t k = 0; k < array_len(lists); k++)
        for (size_t i = 0; i < lists[k]->n; i++)
            compile_patterns(s, lists[k]->p[i]);
}

void crd_schema_compile(struct crd_schema *s)
{
    compile_patterns(s, s->root);
}
