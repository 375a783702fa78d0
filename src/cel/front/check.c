// SPDX-License-Identifier: Apache-2.0
//
// The type checker: resolves names and overloads and assigns a type to every node, with cel-go's
// error messages.
#include "cel/front/check.h"

#include <assert.h>

#include "cel/front/unify.h"

#include "base/banned.h"

struct scope {
    const struct scope *outer;
    struct str name;
    const struct cel_type *type;
};

struct checker {
    const struct cel_env *env;
    struct cel_source *source;
    struct arena *arena;
    struct cel_unifier types;
    const struct scope *scope;
};

static void check_node_type(struct checker *c, struct cel_node *n);

static struct str type_text(struct checker *c, const struct cel_type *t)
{
    cleanup_sbuf struct sbuf b = {0};
    cel_type_write(cel_substitute(&c->types, t, true), &b);
    return arena_str(c->arena, sbuf_str(&b));
}

static void check_report_mismatch(struct checker *c, uint32_t pos, const struct cel_type *want,
                                  const struct cel_type *got)
{
    cel_issue(c->source, pos, "expected type '%.*s' but found '%.*s'", STR_ARG(type_text(c, want)),
              STR_ARG(type_text(c, got)));
}

static void check_report_undeclared(struct checker *c, const struct cel_node *n, struct str name)
{
    cel_issue(c->source, n->pos, "undeclared reference to '%.*s' (in container '%.*s')",
              STR_ARG(name), STR_ARG(c->env->container));
}

static const struct scope *check_find_local(const struct checker *c, struct str name)
{
    for (const struct scope *s = c->scope; s; s = s->outer)
        if (str_eq(s->name, name))
            return s;
    return NULL;
}

// Turns n into a reference to a global of that name, if there is one: a variable, or a type.
static bool resolve_global(struct checker *c, struct cel_node *n, struct str name, bool shadowed)
{
    struct str candidate;
    for (size_t i = 0; cel_env_candidate(c->env, c->arena, name, i, &candidate); i++) {
        const struct cel_variable *v = cel_env_variable(c->env, candidate);
        const struct cel_type *t = v ? NULL : cel_env_named_type(candidate);
        if (!v && !t) {
            if (!str_eqz(candidate, "google.protobuf.NullValue.NULL_VALUE"))
                continue;
            n->kind = CEL_N_IDENT;
            n->ident = candidate;
            n->value = cel_int(0);
            n->constant_ref = true;
            n->type = &cel_type_int;
            return true;
        }
        n->kind = CEL_N_IDENT;
        n->ident = shadowed ? arena_strf(c->arena, ".%.*s", STR_ARG(candidate)) : candidate;
        n->type = v ? v->type : cel_type_of(c->arena, t);
        n->constant_ref = t != NULL;
        if (t)
            n->value = cel_type_value(t);
        return true;
    }
    return false;
}

static void check_ident(struct checker *c, struct cel_node *n)
{
    struct str name = n->ident;
    bool dotted = name.n && name.p[0] == '.';
    const struct scope *local = check_find_local(c, dotted ? str_from(name, 1) : name);
    if (local && !dotted) {
        n->type = local->type;
        return;
    }
    if (resolve_global(c, n, name, local != NULL))
        return;
    n->type = &cel_type_error;
    check_report_undeclared(c, n, name);
}

// The dotted name a.b.c that a select chain spells, if it is nothing else.
static bool dotted_name(struct checker *c, const struct cel_node *n, struct sbuf *out,
                        struct str *ret_first)
{
    (void)c;
    if (n->kind == CEL_N_IDENT) {
        *ret_first = n->ident;
        sbuf_add(out, n->ident);
        return true;
    }
    if (n->kind != CEL_N_SELECT || n->select.test_only)
        return false;
    if (!dotted_name(c, n->select.operand, out, ret_first))
        return false;
    sbuf_addc(out, '.');
    sbuf_add(out, n->select.field);
    return true;
}

static const struct cel_type *struct_field(struct checker *c, uint32_t pos, struct str type,
                                           struct str field)
{
    bool known;
    const struct cel_type *t = cel_env_field(c->env, type, field, &known);
    if (t)
        return t;
    if (known)
        cel_issue(c->source, pos, "undefined field '%.*s'", STR_ARG(field));
    else
        cel_issue(c->source, pos, "unexpected failed resolution of '%.*s'", STR_ARG(type));
    return NULL;
}

static const struct cel_type *select_type(struct checker *c, struct cel_node *n,
                                          struct cel_node *operand, struct str field, bool optional)
{
    check_node_type(c, operand);
    const struct cel_type *t = cel_substitute(&c->types, operand->type, false);
    bool was_optional = cel_type_is_optional(t);
    if (was_optional)
        t = t->param[0];
    const struct cel_type *result = &cel_type_error;
    switch ((int)t->kind) {
    case CEL_T_MAP:
        result = t->param[1];
        break;
    case CEL_T_STRUCT: {
        const struct cel_type *f = struct_field(c, n->pos, t->name, field);
        result = f ? f : &cel_type_error;
        break;
    }
    case CEL_T_PARAM:
        (void)cel_assignable(&c->types, &cel_type_dyn, t);
        result = &cel_type_dyn;
        break;
    default:
        if (t->kind != CEL_T_DYN && t->kind != CEL_T_ANY && t->kind != CEL_T_ERROR)
            cel_issue(c->source, n->pos, "type '%.*s' does not support field selection",
                      STR_ARG(type_text(c, t)));
        result = &cel_type_dyn;
        break;
    }
    return was_optional || optional ? cel_type_optional(c->arena, result) : result;
}

static void check_select(struct checker *c, struct cel_node *n)
{
    if (!n->select.test_only) {
        cleanup_sbuf struct sbuf name = {0};
        struct str first = {0};
        if (dotted_name(c, n, &name, &first)) {
            bool dotted = first.n && first.p[0] == '.';
            const struct scope *local = check_find_local(c, dotted ? str_from(first, 1) : first);
            if ((!local || dotted) &&
                resolve_global(c, n, arena_str(c->arena, sbuf_str(&name)), local != NULL))
                return;
        }
    }
    const struct cel_type *t = select_type(c, n, n->select.operand, n->select.field, false);
    n->type = n->select.test_only ? &cel_type_bool : cel_substitute(&c->types, t, false);
}

static void no_match(struct checker *c, const struct cel_node *n, struct str function,
                     const struct cel_type *const *args, size_t count, bool member)
{
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < count; i++) {
        if (i == 0 && !member)
            sbuf_addc(&b, '(');
        if (i > (member ? 1u : 0u))
            sbuf_addz(&b, ", ");
        sbuf_add(&b, type_text(c, args[i]));
        if (i == 0 && member)
            sbuf_addz(&b, ".(");
    }
    if (count == 0)
        sbuf_addc(&b, '(');
    sbuf_addc(&b, ')');
    cel_issue(c->source, n->pos, "found no matching overload for '%.*s' applied to '%.*s'",
              STR_ARG(function), STR_ARG(sbuf_str(&b)));
}

static void check_logic(struct checker *c, struct cel_node *n, const struct cel_function *f)
{
    bool ok = true;
    for (uint32_t i = 0; i < n->call.args.n; i++) {
        struct cel_node *arg = n->call.args.p[i];
        if (!cel_assignable(&c->types, arg->type, &cel_type_bool)) {
            check_report_mismatch(c, arg->pos, &cel_type_bool, arg->type);
            ok = false;
        }
    }
    n->type = ok ? &cel_type_bool : &cel_type_error;
    const struct cel_overload **one = arena_array(c->arena, const struct cel_overload *, 1);
    one[0] = &f->overloads[0];
    n->overloads = one;
    n->overload_count = 1;
}

// The i-th overload in the order the environment declares them: Kubernetes' list functions come
// last since 1.37, and first before. The first that fits binds a type that is still open.
static const struct cel_overload *overload_at(const struct cel_env *env,
                                              const struct cel_function *f, uint32_t i)
{
    uint32_t lists = 0;
    while (lists < f->count && f->overloads[lists].lib == CEL_LIB_K8S_LISTS)
        lists++;
    bool lists_last = env->minor >= 37;
    return &f->overloads[lists_last && lists ? (i + lists) % f->count : i];
}

static void resolve_overload(struct checker *c, struct cel_node *n, const struct cel_function *f)
{
    bool member = n->call.target != NULL;
    size_t count = n->call.args.n + (member ? 1 : 0);
    const struct cel_type **args = arena_array(c->arena, const struct cel_type *, count + 1);
    if (member)
        args[0] = n->call.target->type;
    for (uint32_t i = 0; i < n->call.args.n; i++)
        args[i + (member ? 1 : 0)] = n->call.args.p[i]->type;
    if (str_eqz(f->name, CEL_OP_AND) || str_eqz(f->name, CEL_OP_OR)) {
        check_logic(c, n, f);
        return;
    }
    const struct cel_overload **found =
        arena_array(c->arena, const struct cel_overload *, f->count);
    uint32_t matches = 0;
    const struct cel_type *result = NULL;
    for (uint32_t i = 0; i < f->count; i++) {
        const struct cel_overload *o = overload_at(c->env, f, i);
        if (o->member != member || o->args != count || !cel_env_has_overload(c->env, o))
            continue;
        struct cel_instance inst = cel_instantiate(&c->types, o);
        if (!cel_assignable_list(&c->types, args, inst.arg, count))
            continue;
        found[matches++] = o;
        const struct cel_type *t = cel_substitute(&c->types, inst.result, false);
        if (!result)
            result = t;
        else if (result->kind != CEL_T_DYN && result->kind != CEL_T_ANY &&
                 !cel_type_same(t, result))
            result = &cel_type_dyn;
    }
    n->overloads = found;
    n->overload_count = matches;
    n->type = result ? result : &cel_type_error;
    if (!result)
        no_match(c, n, f->name, args, count, member);
}

static const struct cel_function *find_function(struct checker *c, struct str name,
                                                struct str *ret_name)
{
    struct str candidate;
    for (size_t i = 0; cel_env_candidate(c->env, c->arena, name, i, &candidate); i++) {
        const struct cel_function *f = cel_env_function(c->env, candidate);
        if (f) {
            *ret_name = f->name;
            return f;
        }
    }
    return NULL;
}

static void check_opt_select(struct checker *c, struct cel_node *n)
{
    struct cel_node *field = n->call.args.p[1];
    field->type = &cel_type_string;
    const struct cel_type *t = select_type(c, n, n->call.args.p[0], cel_str(field->value), true);
    n->type = cel_substitute(&c->types, t, false);
    const struct cel_function *f = cel_function_find(STR(CEL_OP_OPT_SELECT));
    const struct cel_overload **one = arena_array(c->arena, const struct cel_overload *, 1);
    one[0] = &f->overloads[0];
    n->overloads = one;
    n->overload_count = 1;
}

static void check_call(struct checker *c, struct cel_node *n)
{
    if (str_eqz(n->call.function, CEL_OP_OPT_SELECT)) {
        check_opt_select(c, n);
        return;
    }
    for (uint32_t i = 0; i < n->call.args.n; i++)
        check_node_type(c, n->call.args.p[i]);
    struct str name;
    const struct cel_function *f;
    if (!n->call.target) {
        f = find_function(c, n->call.function, &name);
        if (!f) {
            check_report_undeclared(c, n, n->call.function);
            n->type = &cel_type_error;
            return;
        }
        n->call.function = name;
        resolve_overload(c, n, f);
        return;
    }
    cleanup_sbuf struct sbuf qualified = {0};
    struct str first = {0};
    if (dotted_name(c, n->call.target, &qualified, &first)) {
        sbuf_addc(&qualified, '.');
        sbuf_add(&qualified, n->call.function);
        f = find_function(c, arena_str(c->arena, sbuf_str(&qualified)), &name);
        if (f) {
            n->call.target = NULL;
            n->call.function = name;
            resolve_overload(c, n, f);
            return;
        }
    }
    check_node_type(c, n->call.target);
    f = find_function(c, n->call.function, &name);
    if (f) {
        resolve_overload(c, n, f);
        return;
    }
    n->type = &cel_type_error;
    check_report_undeclared(c, n, n->call.function);
}

static const struct cel_type *join_types(struct checker *c, const struct cel_type *before,
                                         const struct cel_type *now)
{
    if (!before)
        return now;
    if (cel_assignable(&c->types, before, now))
        return cel_most_general(before, now);
    return &cel_type_dyn; // cel_validate refuses the mixture where it must not be
}

// The type inside an optional element; complains when it is none.
static const struct cel_type *unwrap_element(struct checker *c, const struct cel_node *n)
{
    const struct cel_type *t = n->type;
    if (cel_type_is_optional(t))
        return t->param[0];
    if (t->kind != CEL_T_DYN && t->kind != CEL_T_ANY)
        check_report_mismatch(c, n->pos, cel_type_optional(c->arena, t), t);
    return t;
}

static void check_list_literal(struct checker *c, struct cel_node *n)
{
    const struct cel_type *elem = NULL;
    for (uint32_t i = 0; i < n->list.elems.n; i++) {
        struct cel_node *e = n->list.elems.p[i];
        check_node_type(c, e);
        bool optional = n->list.optional && n->list.optional[i];
        elem = join_types(c, elem, optional ? unwrap_element(c, e) : e->type);
    }
    n->type = cel_type_list(c->arena, elem ? elem : cel_fresh(&c->types));
}

static void check_map_literal(struct checker *c, struct cel_node *n)
{
    const struct cel_type *key = NULL;
    const struct cel_type *value = NULL;
    for (uint32_t i = 0; i < n->entries.n; i++) {
        struct cel_node *k = n->entries.keys[i];
        check_node_type(c, k);
        key = join_types(c, key, k->type);
        struct cel_node *v = n->entries.values[i];
        check_node_type(c, v);
        value = join_types(c, value, n->entries.optional[i] ? unwrap_element(c, v) : v->type);
    }
    if (!key) {
        key = cel_fresh(&c->types);
        value = cel_fresh(&c->types);
    }
    n->type = cel_type_map(c->arena, key, value);
}

static void check_struct_fields(struct checker *c, struct cel_node *n, struct str type_name)
{
    for (uint32_t i = 0; i < n->entries.n; i++) {
        struct cel_node *v = n->entries.values[i];
        check_node_type(c, v);
        const struct cel_type *want =
            struct_field(c, n->entries.pos[i], type_name, n->entries.fields[i]);
        const struct cel_type *got = n->entries.optional[i] ? unwrap_element(c, v) : v->type;
        if (want && !cel_assignable(&c->types, want, got))
            cel_issue(c->source, n->entries.pos[i],
                      "expected type of field '%.*s' is '%.*s' but provided type is '%.*s'",
                      STR_ARG(n->entries.fields[i]), STR_ARG(type_text(c, want)),
                      STR_ARG(type_text(c, got)));
    }
}

static void check_struct(struct checker *c, struct cel_node *n)
{
    struct str candidate;
    for (size_t i = 0; cel_env_candidate(c->env, c->arena, n->entries.type_name, i, &candidate);
         i++) {
        const struct cel_message *m = cel_message_find(candidate);
        if (m) {
            n->entries.type_name = str_z(m->name);
            n->type = m->type;
            check_struct_fields(c, n, n->entries.type_name);
            return;
        }
        if (cel_env_named_type(candidate)) {
            cel_issue(c->source, n->pos, "'%.*s' is not a message type", STR_ARG(candidate));
            n->type = &cel_type_error;
            return;
        }
    }
    check_report_undeclared(c, n, n->entries.type_name);
    n->type = &cel_type_error;
}

// The types of a comprehension's variables, from what it ranges over.
static void loop_types(struct checker *c, const struct cel_node *range, bool two,
                       const struct cel_type *ret[2])
{
    const struct cel_type *t = cel_substitute(&c->types, range->type, false);
    switch ((int)t->kind) {
    case CEL_T_LIST:
        ret[0] = two ? &cel_type_int : t->param[0];
        ret[1] = t->param[0];
        return;
    case CEL_T_MAP:
        ret[0] = t->param[0];
        ret[1] = t->param[1];
        return;
    case CEL_T_DYN:
    case CEL_T_ERROR:
    case CEL_T_PARAM:
        (void)cel_assignable(&c->types, &cel_type_dyn, t);
        ret[0] = ret[1] = &cel_type_dyn;
        return;
    default:
        cel_issue(c->source, range->pos,
                  "expression of type '%.*s' cannot be range of a comprehension (must be list, "
                  "map, or dynamic)",
                  STR_ARG(type_text(c, t)));
        ret[0] = ret[1] = &cel_type_error;
        return;
    }
}

static void assert_type(struct checker *c, const struct cel_node *n, const struct cel_type *want)
{
    if (!cel_assignable(&c->types, want, n->type))
        check_report_mismatch(c, n->pos, want, n->type);
}

static void check_fold(struct checker *c, struct cel_node *n)
{
    struct cel_node_fold *f = &n->fold;
    check_node_type(c, f->range);
    check_node_type(c, f->init);
    const struct cel_type *vars[2];
    loop_types(c, f->range, f->var2.n > 0, vars);
    const struct scope *outer = c->scope;
    struct scope accu = {outer, f->accu, f->init->type};
    struct scope var = {&accu, f->var, vars[0]};
    struct scope var2 = {&var, f->var2, vars[1]};
    c->scope = f->var2.n ? &var2 : &var;
    check_node_type(c, f->condition);
    assert_type(c, f->condition, &cel_type_bool);
    check_node_type(c, f->step);
    assert_type(c, f->step, f->init->type);
    c->scope = &accu;
    check_node_type(c, f->result);
    c->scope = outer;
    n->type = cel_substitute(&c->types, f->result->type, false);
}

static void check_node_type(struct checker *c, struct cel_node *n)
{
    switch (n->kind) {
    case CEL_N_ERROR:
        n->type = &cel_type_error;
        break;
    case CEL_N_LITERAL:
        n->type = cel_type_of_value(n->value);
        break;
    case CEL_N_IDENT:
        check_ident(c, n);
        break;
    case CEL_N_SELECT:
        check_select(c, n);
        break;
    case CEL_N_CALL:
        check_call(c, n);
        break;
    case CEL_N_LIST:
        check_list_literal(c, n);
        break;
    case CEL_N_MAP:
        check_map_literal(c, n);
        break;
    case CEL_N_STRUCT:
        check_struct(c, n);
        break;
    case CEL_N_FOLD:
        check_fold(c, n);
        break;
    }
    assert(n->type);
}

static void check_finish_types(struct checker *c, struct cel_node *n)
{
    if (!n)
        return;
    if (n->type)
        n->type = cel_substitute(&c->types, n->type, true);
    switch ((int)n->kind) {
    case CEL_N_SELECT:
        check_finish_types(c, n->select.operand);
        break;
    case CEL_N_CALL:
        check_finish_types(c, n->call.target);
        for (uint32_t i = 0; i < n->call.args.n; i++)
            check_finish_types(c, n->call.args.p[i]);
        break;
    case CEL_N_LIST:
        for (uint32_t i = 0; i < n->list.elems.n; i++)
            check_finish_types(c, n->list.elems.p[i]);
        break;
    case CEL_N_MAP:
    case CEL_N_STRUCT:
        for (uint32_t i = 0; i < n->entries.n; i++) {
            if (n->kind == CEL_N_MAP)
                check_finish_types(c, n->entries.keys[i]);
            check_finish_types(c, n->entries.values[i]);
        }
        break;
    case CEL_N_FOLD:
        check_finish_types(c, n->fold.range);
        check_finish_types(c, n->fold.init);
        check_finish_types(c, n->fold.condition);
        check_finish_types(c, n->fold.step);
        check_finish_types(c, n->fold.result);
        break;
    default:
        break;
    }
}

bool cel_check(const struct cel_env *env, struct cel_source *source, struct cel_node *root)
{
    struct checker c = {.env = env, .source = source, .arena = source->arena};
    c.types.arena = source->arena;
    check_node_type(&c, root);
    check_finish_types(&c, root);
    return source->issues.n == 0;
}

static void check_resolve_types(struct checker *c, struct cel_node *n);

static void resolve_all(struct checker *c, struct cel_node *const *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        check_resolve_types(c, p[i]);
}

static void resolve_name(struct checker *c, struct cel_node *n)
{
    cleanup_sbuf struct sbuf name = {0};
    struct str first = {0};
    if (dotted_name(c, n, &name, &first)) {
        bool dotted = first.n && first.p[0] == '.';
        const struct scope *local = check_find_local(c, dotted ? str_from(first, 1) : first);
        if ((!local || dotted) &&
            resolve_global(c, n, arena_str(c->arena, sbuf_str(&name)), local != NULL)) {
            n->type = NULL;
            return;
        }
    }
    if (n->kind == CEL_N_SELECT)
        check_resolve_types(c, n->select.operand);
}

static void resolve_fold(struct checker *c, struct cel_node_fold *f)
{
    check_resolve_types(c, f->range);
    check_resolve_types(c, f->init);
    const struct scope *outer = c->scope;
    struct scope accu = {outer, f->accu, &cel_type_dyn};
    struct scope var = {&accu, f->var, &cel_type_dyn};
    struct scope var2 = {&var, f->var2, &cel_type_dyn};
    c->scope = f->var2.n ? &var2 : &var;
    check_resolve_types(c, f->condition);
    check_resolve_types(c, f->step);
    c->scope = &accu;
    check_resolve_types(c, f->result);
    c->scope = outer;
}

static void check_resolve_types(struct checker *c, struct cel_node *n)
{
    switch (n->kind) {
    case CEL_N_ERROR:
    case CEL_N_LITERAL:
        break;
    case CEL_N_IDENT:
    case CEL_N_SELECT:
        resolve_name(c, n);
        break;
    case CEL_N_CALL:
        if (n->call.target)
            check_resolve_types(c, n->call.target);
        resolve_all(c, n->call.args.p, n->call.args.n);
        break;
    case CEL_N_LIST:
        resolve_all(c, n->list.elems.p, n->list.elems.n);
        break;
    case CEL_N_MAP:
        resolve_all(c, n->entries.keys, n->entries.n);
        resolve_all(c, n->entries.values, n->entries.n);
        break;
    case CEL_N_STRUCT:
        resolve_all(c, n->entries.values, n->entries.n);
        break;
    case CEL_N_FOLD:
        resolve_fold(c, &n->fold);
        break;
    }
}

void cel_resolve(const struct cel_env *env, struct cel_source *source, struct cel_node *root)
{
    struct checker c = {.env = env, .source = source, .arena = source->arena};
    c.types.arena = source->arena;
    check_resolve_types(&c, root);
}
