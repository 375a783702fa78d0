// SPDX-License-Identifier: Apache-2.0
//
// Compiles the expressions of a ValidatingAdmissionPolicy and evaluates them for one request:
// match conditions, variables, validations and their messages.
#include "api/policy.h"

#include <stdlib.h>

#include "api/crd/dyn_cel.h"
#include "api/rules/at.h"

#include "base/banned.h"

// In the order of declaration.
enum { OBJECT, OLD_OBJECT, REQUEST, PARAMS, NAMESPACE_OBJECT, VARIABLES, VARS };

static const char *const names[VARS] = {"object", "oldObject",       "request",
                                        "params", "namespaceObject", "variables"};

// An expression and what became of it.
struct expression {
    struct cel_program *program; // NULL: it does not compile
    struct str why;
};

struct rule {
    struct expression test, message;
    struct str text, fixed_message, reason;
};

struct named {
    struct str name;
    struct expression e;
};

struct policy {
    struct arena arena;
    struct cel_env *env;
    struct named *variables, *conditions;
    size_t variables_len, conditions_len;
    struct rule *rules;
    size_t rules_len;
    bool fail; // what cannot be evaluated refuses
};

static struct cel_env *policy_make_env(void)
{
    const struct cel_env_options options = {.kind = CEL_ENV_GENERIC};
    struct cel_env *env = cel_env_new(&options);
    for (size_t i = 0; i < VARS; i++)
        cel_env_add_variable(env, str_z(names[i]), &cel_type_dyn);
    return env;
}

static struct expression policy_compile_expression(const struct cel_env *env, struct str text,
                                                   struct arena *a)
{
    struct expression e = {0};
    cleanup_sbuf struct sbuf issues = {0};
    if (cel_compile(env, text, &e.program, &issues, NULL) < 0)
        e.why = arena_str(a, sbuf_str(&issues));
    return e;
}

static struct named *compile_conditions(const struct cel_env *env,
                                        const struct api_match_condition_array *in, struct arena *a)
{
    struct named *out = arena_array(a, struct named, in->n + 1);
    for (size_t i = 0; i < in->n; i++)
        out[i] = (struct named){arena_str(a, in->p[i].name),
                                policy_compile_expression(env, in->p[i].expression, a)};
    return out;
}

struct policy *policy_new(const struct api_validating_admission_policy_spec *spec)
{
    struct policy *p = xcalloc(1, sizeof(*p));
    struct arena *a = &p->arena;
    p->env = policy_make_env();
    p->fail = !str_eqz(spec->failure_policy, "Ignore");
    p->variables = arena_array(a, struct named, spec->variables.n + 1);
    for (size_t i = 0; i < spec->variables.n; i++)
        p->variables[p->variables_len++] =
            (struct named){arena_str(a, spec->variables.p[i].name),
                           policy_compile_expression(p->env, spec->variables.p[i].expression, a)};
    p->conditions = compile_conditions(p->env, &spec->match_conditions, a);
    p->conditions_len = spec->match_conditions.n;
    p->rules = arena_array(a, struct rule, spec->validations.n + 1);
    for (size_t i = 0; i < spec->validations.n; i++) {
        const struct api_validation *v = &spec->validations.p[i];
        struct rule *r = &p->rules[p->rules_len++];
        r->text = arena_str(a, str_trim(v->expression));
        r->fixed_message = arena_str(a, str_trim(v->message));
        r->reason = v->has_reason ? arena_str(a, v->reason) : STR("");
        r->test = policy_compile_expression(p->env, v->expression, a);
        if (v->message_expression.n)
            r->message = policy_compile_expression(p->env, v->message_expression, a);
    }
    return p;
}

void policy_free(struct policy *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->variables_len; i++)
        cel_program_free(p->variables[i].e.program);
    for (size_t i = 0; i < p->conditions_len; i++)
        cel_program_free(p->conditions[i].e.program);
    for (size_t i = 0; i < p->rules_len; i++) {
        cel_program_free(p->rules[i].test.program);
        cel_program_free(p->rules[i].message.program);
    }
    cel_env_free(p->env);
    arena_done(&p->arena);
    free(p);
}

// --- Judging expressions -------------------------------------------------------------------------

static void policy_check_expression(const struct cel_env *env, const struct path *at,
                                    struct str text, const struct cel_type *want,
                                    struct causes *causes)
{
    cleanup_sbuf struct sbuf issues = {0};
    struct cel_program *p = NULL;
    if (str_trim(text).n == 0) {
        cause_required(causes, at, STR("expression is not specified"));
        return;
    }
    if (cel_compile(env, text, &p, &issues, NULL) < 0) {
        cause_invalid(causes, at, text, sbuf_str(&issues));
        return;
    }
    const struct cel_type *got = cel_program_type(p);
    bool dynamic = got->kind == CEL_T_DYN || got->kind == CEL_T_ANY;
    if (want && !dynamic && !cel_type_same(got, want))
        cause_invalid(causes, at, text,
                      want == &cel_type_bool ? STR("must evaluate to bool")
                                             : STR("must evaluate to string"));
    if (!cel_program_runnable(p))
        cause_invalid(causes, at, text, STR("it calls a function this server does not have"));
    cel_program_free(p);
}

void policy_check(const struct api_validating_admission_policy_spec *spec, struct causes *causes)
{
    struct cel_env *env = policy_make_env();
    const struct path *root = AT(NULL, "spec");
    for (size_t i = 0; i < spec->variables.n; i++)
        policy_check_expression(env, AT(AT_ITEM(AT(root, "variables"), i), "expression"),
                                spec->variables.p[i].expression, NULL, causes);
    for (size_t i = 0; i < spec->match_conditions.n; i++)
        policy_check_expression(env, AT(AT_ITEM(AT(root, "matchConditions"), i), "expression"),
                                spec->match_conditions.p[i].expression, &cel_type_bool, causes);
    for (size_t i = 0; i < spec->validations.n; i++) {
        const struct api_validation *v = &spec->validations.p[i];
        policy_check_expression(env, AT(AT_ITEM(AT(root, "validations"), i), "expression"),
                                v->expression, &cel_type_bool, causes);
        if (v->message_expression.n)
            policy_check_expression(env,
                                    AT(AT_ITEM(AT(root, "validations"), i), "messageExpression"),
                                    v->message_expression, &cel_type_string, causes);
    }
    cel_env_free(env);
}

// --- Asking --------------------------------------------------------------------------------------

struct asking {
    struct cel_run *run;
    struct arena *arena;
    struct cel_val values[VARS];
    const struct cel_val *vars[VARS];
};

static void asking_start(struct asking *k, const struct policy_request *q, struct arena *arena)
{
    const struct dyn *in[] = {q->object, q->old, q->request, q->params, q->namespace_object};
    k->run = cel_run_new();
    k->arena = arena;
    for (size_t i = 0; i < array_len(in); i++)
        k->values[i] = in[i] ? dyn_cel(in[i], NULL, arena) : cel_null;
    k->values[VARIABLES] = cel_map_value(cel_map_new(arena, 8));
    for (size_t i = 0; i < VARS; i++)
        k->vars[i] = &k->values[i];
}

// The value of an expression, in the arena; an error value if there is none.
static struct cel_val policy_eval_expression(struct asking *k, const struct expression *e)
{
    struct cel_result r;
    if (!e->program)
        return cel_errorf(k->arena, "%.*s", STR_ARG(e->why));
    cel_eval_value(k->run, e->program, NULL, k->vars, &r);
    if (r.failed)
        return cel_errorf(k->arena, "%.*s", STR_ARG(r.error));
    return cel_copy(*r.value, k->arena);
}

static void set_variables(struct asking *k, const struct policy *p)
{
    // An error shows where the variable is used, and nowhere else.
    for (size_t i = 0; i < p->variables_len; i++)
        (void)cel_map_set(k->arena, k->values[VARIABLES].map, cel_string(p->variables[i].name),
                          policy_eval_expression(k, &p->variables[i].e));
}

static struct policy_verdict policy_eval_failure(struct asking *k, struct str text,
                                                 struct cel_val error)
{
    return (struct policy_verdict){
        .refused = true,
        .message = arena_strf(k->arena, "expression '%.*s' resulted in error: %.*s", STR_ARG(text),
                              STR_ARG(error.error->text)),
    };
}

static struct str policy_rule_message(struct asking *k, const struct rule *r)
{
    struct cel_val v = r->message.program ? policy_eval_expression(k, &r->message) : cel_null;
    struct str text = v.kind == CEL_STRING ? str_trim(cel_str(v)) : STR("");
    if (text.n && str_find_char(text, '\n') < 0 && text.n <= 5 * 1024)
        return text;
    if (r->fixed_message.n)
        return r->fixed_message;
    return arena_strf(k->arena, "failed expression: %.*s", STR_ARG(r->text));
}

static struct policy_verdict policy_judge_rule(struct asking *k, const struct policy *p,
                                               const struct rule *r)
{
    struct cel_val v = policy_eval_expression(k, &r->test);
    if (cel_is_error(v))
        return p->fail ? policy_eval_failure(k, r->text, v) : (struct policy_verdict){0};
    if (cel_is_true(v))
        return (struct policy_verdict){0};
    return (struct policy_verdict){
        .refused = true, .message = policy_rule_message(k, r), .reason = r->reason};
}

// Whether all conditions hold: 1, 0, or -1 with the error of one that cannot be evaluated, if none
// is false.
static int conditions_hold(struct asking *k, const struct named *conditions, size_t n,
                           struct cel_val *ret_error)
{
    int holds = 1;
    for (size_t i = 0; i < n; i++) {
        struct cel_val v = policy_eval_expression(k, &conditions[i].e);
        if (v.kind == CEL_BOOL && !v.b)
            return 0;
        if (cel_is_error(v)) {
            holds = -1;
            *ret_error = v;
        }
    }
    return holds;
}

int policy_ask(const struct policy *p, const struct policy_request *q, struct arena *arena,
               struct policy_verdict **ret)
{
    struct asking k;
    struct cel_val error = cel_null;
    int refused = 0;
    *ret = arena_array(arena, struct policy_verdict, p->rules_len + 1);
    asking_start(&k, q, arena);
    set_variables(&k, p);
    int holds = conditions_hold(&k, p->conditions, p->conditions_len, &error);
    if (holds < 0 && p->fail)
        (*ret)[refused++] = (struct policy_verdict){
            .refused = true,
            .message = arena_strf(arena, "match condition could not be evaluated: %.*s",
                                  STR_ARG(error.error->text))};
    for (size_t i = 0; holds > 0 && i < p->rules_len; i++) {
        struct policy_verdict v = policy_judge_rule(&k, p, &p->rules[i]);
        v.rule = i;
        if (v.refused)
            (*ret)[refused++] = v;
    }
    cel_run_free(k.run);
    return holds == 0 ? -1 : refused;
}
