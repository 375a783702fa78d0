// SPDX-License-Identifier: Apache-2.0
//
// x-kubernetes-validations: the types of a schema as CEL has them, rules compiled, rules asked.

#include "api/crd/dyn_cel.h"
#include "api/rules/at.h"
#include "base/vec.h"

#include "base/banned.h"

// What one object may cost, as upstream.
#define RULES_BUDGET INT64_C(10000000)

// --- Types ---------------------------------------------------------------------------------------

struct typing {
    struct crd_schema *s;
    struct cel_structs_vec VEC(struct cel_struct) structs;
};

static const struct cel_type *crd_cel_type_of(struct typing *t, struct crd_node *n, bool root);

static void crd_cel_add_field(struct arena *a, struct cel_struct_field *fields, size_t *n,
                              struct str name, const struct cel_type *type)
{
    struct str spelt;
    if (!type || !dyn_cel_escape(name, a, &spelt))
        return;
    for (size_t i = 0; i < *n; i++)
        if (str_eq(fields[i].name, spelt)) {
            fields[i].type = type;
            return;
        }
    fields[(*n)++] = (struct cel_struct_field){spelt, type};
}

static const struct cel_type *add_struct(struct typing *t, const struct cel_struct_field *fields,
                                         size_t n)
{
    struct arena *a = &t->s->arena;
    struct str name = arena_strf(a, "selfType.object%zu", t->structs.n);
    vec_push_arena(a, &t->structs, (struct cel_struct){name, fields, n});
    return cel_struct_type(a, name);
}

// apiVersion, kind and the names of metadata are always there at the root of an object.
static void crd_cel_add_metadata(struct typing *t, struct cel_struct_field *fields, size_t *n)
{
    struct arena *a = &t->s->arena;
    struct cel_struct_field *names = arena_array(a, struct cel_struct_field, 2);
    names[0] = (struct cel_struct_field){STR("name"), &cel_type_string};
    names[1] = (struct cel_struct_field){STR("generateName"), &cel_type_string};
    crd_cel_add_field(a, fields, n, STR("apiVersion"), &cel_type_string);
    crd_cel_add_field(a, fields, n, STR("kind"), &cel_type_string);
    crd_cel_add_field(a, fields, n, STR("metadata"), add_struct(t, names, 2));
}

static const struct cel_type *object_type(struct typing *t, struct crd_node *n, bool root)
{
    struct arena *a = &t->s->arena;
    if (n->has_additional && n->additional) {
        const struct cel_type *value = crd_cel_type_of(t, n->additional, n->additional->embedded);
        return value ? cel_type_map(a, &cel_type_string, value) : NULL;
    }
    struct cel_struct_field *fields =
        arena_array(a, struct cel_struct_field, n->properties_len + 3);
    size_t len = 0;
    for (size_t i = 0; i < n->properties_len; i++) {
        struct crd_node *p = n->properties[i].node;
        crd_cel_add_field(a, fields, &len, n->properties[i].name,
                          crd_cel_type_of(t, p, p->embedded));
    }
    if (root)
        crd_cel_add_metadata(t, fields, &len);
    return add_struct(t, fields, len);
}

static const struct cel_type *string_type(const struct crd_node *n)
{
    if (str_eqz(n->format, "byte"))
        return &cel_type_bytes;
    if (str_eqz(n->format, "duration"))
        return &cel_type_duration;
    if (str_eqz(n->format, "date") || str_eqz(n->format, "date-time"))
        return &cel_type_timestamp;
    return &cel_type_string;
}

// The type of a node; NULL: CEL cannot see it.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static const struct cel_type *crd_cel_type_of(struct typing *t, struct crd_node *n, bool root)
{
    const struct cel_type *type = NULL;
    if (n->int_or_string)
        type = &cel_type_dyn;
    else if (str_eqz(n->type, "array") && n->items) {
        const struct cel_type *item = crd_cel_type_of(t, n->items, n->items->embedded);
        type = item ? cel_type_list(&t->s->arena, item) : NULL;
    } else if (str_eqz(n->type, "object"))
        type = object_type(t, n, root);
    else if (str_eqz(n->type, "string"))
        type = string_type(n);
    else if (str_eqz(n->type, "boolean"))
        type = &cel_type_bool;
    else if (str_eqz(n->type, "number"))
        type = &cel_type_double;
    else if (str_eqz(n->type, "integer"))
        type = &cel_type_int;
    n->cel_type = type;
    return type;
}

// --- Compiling -----------------------------------------------------------------------------------

struct compiling {
    const struct typing *types;
    const struct crd_check *check; // NULL: errors are not reported
};

static struct cel_env *crd_cel_make_env(const struct compiling *c, const struct crd_node *n,
                                        bool optional)
{
    const struct cel_env_options options = {.kind = CEL_ENV_GENERIC};
    struct cel_env *env = cel_env_new(&options);
    const struct cel_type *old = n->cel_type;
    if (optional)
        old = cel_type_optional(cel_env_arena(env), old);
    cel_env_add_variable(env, STR("self"), n->cel_type);
    cel_env_add_variable(env, STR("oldSelf"), old);
    cel_env_set_structs(env, c->types->structs.p, c->types->structs.n);
    return env;
}

static void crd_cel_report_rule(const struct compiling *c, const struct path *rule,
                                struct str field, const struct crd_rule *r, struct str why)
{
    if (!c->check)
        return;
    cause_invalid_json(c->check->causes, AT_NAME(rule, field), r->json, why);
}

static struct cel_program *compile_one(const struct compiling *c, struct cel_env *env,
                                       const struct crd_rule *r, const struct path *at,
                                       bool message)
{
    struct cel_program *p = NULL;
    cleanup_sbuf struct sbuf issues = {0};
    struct str text = message ? r->message_expression : r->rule;
    struct str field = message ? STR("messageExpression") : STR("rule");
    struct cel_spending *spending = c->check ? &c->check->causes->cel : NULL;
    if (spending && spending->refused)
        return NULL; // reported at the rule before
    if (cel_compile_within(env, text, spending, &p, &issues, NULL) < 0) {
        cleanup_sbuf struct sbuf why = {0};
        sbuf_addf(&why, "%s%.*s", message ? "messageExpression " : "", STR_ARG(sbuf_str(&issues)));
        crd_cel_report_rule(c, at, field, r, sbuf_str(&why));
        return NULL;
    }
    const struct cel_type *want = message ? &cel_type_string : &cel_type_bool;
    if (!cel_type_same(cel_program_type(p), want)) {
        crd_cel_report_rule(c, at, field, r,
                            message ? STR("messageExpression must evaluate to a string")
                                    : STR("cel expression must evaluate to a bool"));
        cel_program_free(p);
        return NULL;
    }
    if (!cel_program_runnable(p)) {
        crd_cel_report_rule(c, at, field, r, STR("it calls a function this server does not have"));
        cel_program_free(p);
        return NULL;
    }
    return p;
}

static void check_old(const struct compiling *c, const struct crd_rule *r, const struct path *at,
                      const struct path *forbidden)
{
    if (!c->check || !r->program)
        return;
    cleanup_sbuf struct sbuf where = {0};
    path_write(forbidden, &where);
    if (r->uses_old && forbidden)
        cause_invalid(c->check->causes, AT(at, "rule"), r->rule,
                      arena_strf(c->check->causes->arena,
                                 "oldSelf cannot be used on the uncorrelatable portion of "
                                 "the schema within %.*s",
                                 STR_ARG(sbuf_str(&where))));
    if (!r->uses_old && r->has_optional_old_self)
        cause_invalid_bool(c->check->causes, AT(at, "optionalOldSelf"), r->optional_old_self,
                           STR("may not be set if oldSelf is not used in rule"));
}

static void compile_node(const struct compiling *c, struct crd_node *n, const struct path *at,
                         const struct path *forbidden)
{
    if (n->rules_len == 0 || !n->cel_type)
        return;
    for (size_t i = 0; i < n->rules_len; i++) {
        struct crd_rule *r = &n->rules[i];
        const struct path *here = AT_ITEM(AT(at, "x-kubernetes-validations"), i);
        if (str_trim(r->rule).n == 0 || r->program)
            continue;
        struct cel_env **env = r->optional_old_self ? &n->message_env : &n->env;
        if (!*env)
            *env = crd_cel_make_env(c, n, r->optional_old_self);
        r->program = compile_one(c, *env, r, here, false);
        r->uses_old = r->program && cel_program_uses(r->program, STR("oldSelf"));
        if (r->program && str_trim(r->message_expression).n)
            r->message_program = compile_one(c, *env, r, here, true);
        check_old(c, r, here, forbidden);
    }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void compile_all(const struct compiling *c, struct crd_node *n, const struct path *at,
                        const struct path *forbidden)
{
    if (!n || !n->any_rules)
        return;
    compile_node(c, n, at, forbidden);
    const struct path *no_items = forbidden;
    if (!str_eqz(n->list_type, "map") && !no_items)
        no_items = at;
    compile_all(c, n->items, AT(at, "items"), no_items);
    compile_all(c, n->additional, AT(at, "additionalProperties"), forbidden);
    const struct path *no_old = !forbidden && str_eqz(n->map_type, "atomic") ? at : forbidden;
    for (size_t i = 0; i < n->properties_len; i++)
        compile_all(c, n->properties[i].node, AT_KEY(AT(at, "properties"), n->properties[i].name),
                    no_old);
}

void crd_compile_rules(struct crd_schema *s, const struct crd_check *check)
{
    if (!s->root->any_rules)
        return;
    struct typing t = {.s = s};
    (void)crd_cel_type_of(&t, s->root, true);
    const struct compiling c = {&t, check};
    compile_all(&c, s->root, check ? check->at : NULL, NULL);
}

// --- Asking --------------------------------------------------------------------------------------

struct asking {
    struct causes *causes;
    struct cel_run *run;
    struct arena values;
    int64_t budget; // negative: no more rules
};

static void crd_cel_report(struct asking *k, const struct path *at, enum cause_type type,
                           struct str value, struct str detail)
{
    cause_add(k->causes, type, at ? at : AT(NULL, "<nil>"), value, detail);
}

static struct str type_value(struct asking *k, const struct crd_node *n)
{
    return arena_strf(k->causes->arena, "\"%.*s\"", STR_ARG(n->type));
}

static bool crd_cel_spend(struct asking *k, const struct path *at, const struct crd_node *n,
                          uint64_t cost)
{
    if (cost <= INT64_MAX && (int64_t)cost <= k->budget) {
        k->budget -= (int64_t)cost;
        return true;
    }
    crd_cel_report(
        k, at, CAUSE_INVALID, type_value(k, n),
        STR("validation failed due to running out of cost budget, no further validation rules "
            "will be run"));
    k->budget = -1;
    return false;
}

static void refuse_error(struct asking *k, const struct path *at, const struct crd_node *n,
                         const struct crd_rule *r, struct str error)
{
    struct arena *a = k->causes->arena;
    struct str rule = str_trim(r->message.n ? r->message : r->rule), text;
    if (str_starts(error, STR("no such overload"))) {
        text = arena_strf(a,
                          "'%.*s': call arguments did not match a supported operator, function or "
                          "macro signature for rule: %.*s",
                          STR_ARG(error), STR_ARG(rule));
    } else if (str_starts(error, STR("operation cancelled: actual cost limit exceeded"))) {
        text =
            arena_strf(a,
                       "'%.*s': no further validation rules will be run due to call cost exceeds "
                       "limit for rule: %.*s",
                       STR_ARG(error), STR_ARG(rule));
        k->budget = -1;
    } else {
        text = arena_strf(a, "%.*s evaluating rule: %.*s", STR_ARG(error), STR_ARG(rule));
    }
    crd_cel_report(k, at, CAUSE_INVALID, type_value(k, n), text);
}

static struct str crd_cel_rule_message(struct asking *k, const struct crd_rule *r,
                                       const struct cel_val *const *vars)
{
    struct arena *a = k->causes->arena;
    if (r->message_program) {
        struct cel_result result;
        cel_eval_value(k->run, r->message_program, NULL, vars, &result);
        k->budget -= result.cost < INT64_MAX ? (int64_t)result.cost : 0;
        struct str text = !result.failed && result.value->kind == CEL_STRING
                              ? str_trim(cel_str(*result.value))
                              : STR("");
        if (text.n && text.n <= 5 * 1024 && str_find_char(text, '\n') < 0)
            return arena_str(a, text);
    }
    struct str text = str_trim(r->message);
    return text.n ? text : arena_strf(a, "failed rule: %.*s", STR_ARG(str_trim(r->rule)));
}

static void refuse_rule(struct asking *k, const struct path *at, const struct crd_node *n,
                        const struct crd_rule *r, const struct dyn *v, struct str detail)
{
    cleanup_sbuf struct sbuf shown = {0};
    struct path below;
    if (r->field_path.n) {
        struct str path = r->field_path;
        below = path_field(at, str_from(path, path.p[0] == '.' ? 1 : 0));
        at = &below;
    }
    bool plain = !str_eqz(n->type, "object") && !str_eqz(n->type, "array");
    if (plain)
        crd_show(v, &shown);
    if (r->has_reason && str_eqz(r->reason, "FieldValueForbidden"))
        crd_cel_report(k, at, CAUSE_FORBIDDEN, STR(""), detail);
    else if (r->has_reason && str_eqz(r->reason, "FieldValueRequired"))
        crd_cel_report(k, at, CAUSE_REQUIRED, STR(""), detail);
    else if (r->has_reason && str_eqz(r->reason, "FieldValueDuplicate"))
        crd_cel_report(k, at, CAUSE_DUPLICATE, sbuf_str(&shown), STR(""));
    else
        crd_cel_report(k, at, CAUSE_INVALID, sbuf_str(&shown), detail);
}

static void crd_cel_eval_node(struct asking *k, const struct dyn *v, const struct dyn *old,
                              const struct crd_node *n, const struct path *at)
{
    struct cel_val self = dyn_cel(v, n, &k->values);
    struct cel_val before = old ? dyn_cel(old, n, &k->values) : cel_null;
    struct cel_val maybe = old ? cel_optional(&k->values, before) : cel_none;
    for (size_t i = 0; i < n->rules_len && k->budget >= 0; i++) {
        const struct crd_rule *r = &n->rules[i];
        struct cel_result result;
        if (!r->program || (r->uses_old && !old && !r->optional_old_self))
            continue;
        const struct cel_val *const vars[] = {&self, r->optional_old_self ? &maybe : &before};
        cel_eval_value(k->run, r->program, NULL, vars, &result);
        if (!crd_cel_spend(k, at, n, result.cost))
            return;
        if (result.failed) {
            refuse_error(k, at, n, r, result.error);
            continue;
        }
        // What has not changed may go on breaking a rule that does not look back.
        if (result.match || (!r->uses_old && old && dyn_equal(v, old)))
            continue;
        refuse_rule(k, at, n, r, v, crd_cel_rule_message(k, r, vars));
    }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void crd_cel_eval_all(struct asking *k, const struct dyn *v, const struct dyn *old,
                             const struct crd_node *n, const struct path *at)
{
    if (!n || !n->any_rules || v->type == DYN_NULL || k->budget < 0 || causes_full(k->causes))
        return;
    if (old && old->type == DYN_NULL)
        old = NULL;
    if (n->rules_len)
        crd_cel_eval_node(k, v, old, n, at);
    cleanup_crd_before struct crd_before earlier = {
        .old = old, .node = n, .arena = k->causes->arena};
    for (size_t i = 0; v->type == DYN_LIST && i < v->items_len; i++)
        crd_cel_eval_all(k, &v->items[i], crd_before_find(&earlier, &v->items[i]), n->items,
                         AT_ITEM(at, i));
    for (size_t i = 0; v->type == DYN_OBJECT && i < v->members_len; i++) {
        const struct dyn_member *m = &v->members[i];
        const struct crd_node *property = crd_property(n, m->key);
        const struct path below = property ? path_field(at, m->key) : path_key(at, m->key);
        const struct dyn *before = str_eqz(n->map_type, "atomic") ? NULL : dyn_get(old, m->key);
        crd_cel_eval_all(k, &m->value, before, property ? property : n->additional, &below);
    }
}

void crd_rules(const struct dyn *v, const struct dyn *old, const struct crd_node *n,
               struct causes *causes)
{
    if (!n->any_rules)
        return;
    struct asking k = {.causes = causes, .run = cel_run_new(), .budget = RULES_BUDGET};
    crd_cel_eval_all(&k, v, old, n, NULL);
    cel_run_free(k.run);
    arena_done(&k.values);
}
