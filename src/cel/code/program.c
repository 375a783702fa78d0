// SPDX-License-Identifier: Apache-2.0
//
// Compiling and evaluating: the public face.
#include <assert.h>
#include <stdio.h>

#include "cel/code/code.h"
#include "cel/code/vm.h"
#include "cel/cost/estimate.h"
#include "cel/env.h"
#include "cel/front/check.h"
#include "cel/front/parse.h"

#include "base/banned.h"

static atomic_ullong serials;

static bool derived_scalar(const struct cel_type *t)
{
    return t->kind == CEL_T_BOOL || t->kind == CEL_T_INT || t->kind == CEL_T_STRING ||
           t->kind == CEL_T_ANY || t->kind == CEL_T_DYN ||
           (t->kind == CEL_T_STRUCT && str_eq(t->name, cel_type_semver.name));
}

// Which types a selector or a derived attribute may have.
static int program_check_result(const struct cel_env *env, const struct cel_type *t,
                                struct err *err)
{
    if (env->options.any_result || env->options.kind == CEL_ENV_GENERIC)
        return 0;
    cleanup_sbuf struct sbuf name = {0};
    cel_type_write_go(t, &name);
    if (env->options.kind == CEL_ENV_DRA) {
        if ((t->kind == CEL_T_BOOL && !t->nullable) || t->kind == env->attribute_type->kind)
            return 0;
        return err_set(err, ERR_INVALID, "must evaluate to bool or the unknown type, not %.*s",
                       STR_ARG(sbuf_str(&name)));
    }
    bool lists = env->options.list_type_attributes || !env->options.new_expressions;
    if (!t->nullable && derived_scalar(t))
        return 0;
    if (lists && t->kind == CEL_T_LIST && derived_scalar(t->param[0]))
        return 0;
    return err_set(err, ERR_INVALID,
                   "must evaluate to a primitive scalar (string, integer, boolean, semver)%s, not "
                   "%.*s",
                   lists ? " or a list of these scalars" : "", STR_ARG(sbuf_str(&name)));
}

static int source_error(const struct cel_source *source, struct sbuf *issues, struct err *err)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "compilation failed: ");
    cel_source_write(source, &b);
    if (issues)
        sbuf_add(issues, sbuf_str(&b));
    (void)err_set(err, ERR_INVALID, "%.*s", STR_ARG(sbuf_str(&b)));
    if (source->issues.n && source->issues.p[0].pos != CEL_NO_POS) {
        uint32_t line;
        uint32_t col;
        cel_source_line_col(source->text, source->issues.p[0].pos, &line, &col);
        err_at(err, line, col + 1);
    }
    return -ERR_INVALID;
}

static int program_compile_source(const struct cel_env *env, struct cel_source *source,
                                  struct cel_program *p, struct sbuf *issues, struct err *err)
{
    struct cel_node *root = cel_parse(source, env->syntax);
    if (!root)
        return source_error(source, issues, err);
    bool checked = !env->options.no_check;
    if (checked &&
        (!cel_check(env, source, root) || (env->validators && !cel_validate(env, source, root))))
        return source_error(source, issues, err);
    if (!checked)
        cel_resolve(env, source, root);
    if (checked) {
        int r = program_check_result(env, root->type, err);
        if (r < 0)
            return r;
        struct cel_range cost = cel_estimate(env, source->arena, root);
        p->min_cost = cost.min;
        p->max_cost = cost.max;
    }
    p->type = checked ? cel_type_copy(&p->arena, root->type) : &cel_type_dyn;
    p->strict_rules = env->options.kind == CEL_ENV_GENERIC;
    p->selector = env->options.kind == CEL_ENV_DRA && !env->options.any_result;
    p->derived = env->options.kind == CEL_ENV_DERIVED && !env->options.any_result;
    struct err why = {0};
    int r = cel_generate(env, source, p, root, &why);
    if (r < 0)
        return err_set(err, ERR_INTERNAL, "program instantiation failed: %s", why.msg);
    return 0;
}

const char cel_spending_refusal[] =
    "the request's CEL expressions take too long to compile; use fewer or shorter expressions and "
    "simpler regular expressions";

const struct cel_regex *cel_source_regex(const struct cel_source *s, struct str pattern, char *why,
                                         size_t why_size)
{
    struct cel_program *p = s->program;
    struct cel_regex **known = map_get(&p->regexes, pattern);
    if (known)
        return *known;
    if (s->spending && s->spending->spent > CEL_SPENDING_MAX) {
        s->spending->refused = true;
        (void)snprintf(why, why_size, "%s", cel_spending_refusal);
        return NULL;
    }
    struct cel_regex *re = cel_regex_new(pattern.p, pattern.n, why, why_size);
    if (!re)
        return NULL;
    if (s->spending)
        s->spending->spent += cel_regex_size(re) * CEL_SPENDING_PER_INSTRUCTION;
    *map_put(&p->regexes, arena_str(&p->arena, pattern)) = re;
    return re;
}

int cel_compile(const struct cel_env *env, struct str text, struct cel_program **ret,
                struct sbuf *issues, struct err *err)
{
    return cel_compile_within(env, text, NULL, ret, issues, err);
}

int cel_compile_within(const struct cel_env *env, struct str text, struct cel_spending *spending,
                       struct cel_program **ret, struct sbuf *issues, struct err *err)
{
    if (spending)
        spending->spent += text.n;
    if (spending && spending->spent > CEL_SPENDING_MAX) {
        spending->refused = true;
        if (issues)
            sbuf_addz(issues, cel_spending_refusal);
        return err_set(err, ERR_INVALID, "%s", cel_spending_refusal);
    }
    struct cel_program *p = xcalloc(1, sizeof(*p));
    atomic_init(&p->owners, 1);
    p->serial = atomic_fetch_add(&serials, 1) + 1;
    p->source = arena_str(&p->arena, text);
    struct arena scratch = {0};
    struct cel_source source;
    cel_source_init(&source, &scratch, p->source);
    source.program = p;
    source.spending = spending;
    struct err local = {0};
    struct err *why = err ? err : &local;
    size_t before = issues ? issues->n : 0;
    int r = program_compile_source(env, &source, p, issues, why);
    arena_done(&scratch);
    if (r < 0) {
        if (issues && issues->n == before)
            sbuf_addz(issues, why->msg);
        cel_program_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

struct cel_program *cel_program_ref(struct cel_program *p)
{
    (void)atomic_fetch_add(&p->owners, 1);
    return p;
}

void cel_program_free(struct cel_program *p)
{
    if (!p || atomic_fetch_sub(&p->owners, 1) != 1)
        return;
    map_foreach(&p->regexes, i)
        cel_regex_free(*map_value(&p->regexes, i));
    map_done(&p->regexes);
    vec_done(&p->code);
    vec_done(&p->positions);
    vec_done(&p->constants);
    vec_done(&p->paths);
    vec_done(&p->calls);
    vec_done(&p->sets);
    vec_done(&p->messages);
    vec_done(&p->variables);
    arena_done(&p->arena);
    free(p);
}

uint64_t cel_program_min_cost(const struct cel_program *p)
{
    return p->min_cost;
}

uint64_t cel_program_max_cost(const struct cel_program *p)
{
    return p->max_cost;
}

const struct cel_type *cel_program_type(const struct cel_program *p)
{
    return p->type;
}

struct str cel_program_source(const struct cel_program *p)
{
    return p->source;
}

bool cel_program_uses(const struct cel_program *p, struct str variable)
{
    for (size_t i = 0; i < p->variables.n && i < 64; i++)
        if (str_eq(p->variables.p[i], variable))
            return (p->used >> i & 1) != 0;
    return false;
}

bool cel_program_reads(const struct cel_program *p,
                       void (*fn)(void *arg, struct str domain, struct str name), void *arg)
{
    // Second words of instructions look like instructions here: that can only say too much.
    for (size_t i = 0; i < p->code.n; i++)
        if (p->code.p[i].op == CEL_I_DEVICE || p->code.p[i].op == CEL_I_VAR)
            return false;
    for (size_t i = 0; i < p->paths.n; i++)
        if (!p->paths.p[i].capacity)
            fn(arg, p->paths.p[i].domain, p->paths.p[i].name);
    return true;
}

bool cel_program_runnable(const struct cel_program *p)
{
    return p->runnable;
}

struct cel_run *cel_run_new(void)
{
    struct cel_run *run = xcalloc(1, sizeof(*run));
    run->limit = DRAY_CEL_COST_MAX;
    return run;
}

void cel_run_free(struct cel_run *run)
{
    if (!run)
        return;
    arena_done(&run->arena);
    free(run->stack);
    free(run->paths);
    cel_regex_free(run->last_regex);
    sbuf_done(&run->last_pattern);
    sbuf_done(&run->text);
    free(run);
}

void cel_run_set_limit(struct cel_run *run, uint64_t limit)
{
    run->limit = limit;
}

void cel_run_set_cancel(struct cel_run *run, const volatile bool *flag)
{
    run->cancel = flag;
}

static inline struct cel_val program_run_code(struct cel_run *run, const struct cel_program *p,
                                              const struct cel_device *d,
                                              const struct cel_val *const *vars)
{
    if (run->arena.used_bytes)
        arena_reset(&run->arena);
    if (d && __builtin_expect(d->failure.kind == CEL_ERROR, 0)) {
        run->cost = run->work = 0;
        return d->failure;
    }
    return cel_execute(run, p, d, vars, NULL);
}

static void program_fill_result(struct cel_run *run, struct cel_val v, struct cel_result *ret)
{
    *ret = (struct cel_result){.cost = run->cost, .work = run->work, .error_pos = CEL_NO_POS};
    if (v.kind == CEL_ERROR) {
        ret->failed = true;
        ret->error = v.error->text;
        ret->error_pos = v.error->pos;
        ret->missing_key = v.error->missing_key;
        return;
    }
    run->result = v;
    ret->value = &run->result;
    ret->match = cel_is_true(v);
}

static bool attribute_kind(struct cel_val v)
{
    return v.kind == CEL_BOOL || v.kind == CEL_INT || v.kind == CEL_STRING || v.kind == CEL_SEMVER;
}

// A derived attribute is a scalar or a list of scalars of one kind; anything else is an error.
static struct cel_val as_attribute(struct cel_run *run, struct cel_val v)
{
    if (cel_is_error(v) || attribute_kind(v))
        return v;
    if (v.kind != CEL_LIST)
        return cel_errorf(&run->arena, "unsupported CEL return type: %.*s",
                          STR_ARG(cel_type_name(v)));
    for (uint32_t i = 0; i < v.list->n; i++) {
        struct cel_val e = v.list->items[i];
        if (!attribute_kind(v.list->items[0]))
            return cel_errorf(&run->arena, "unsupported list element type: %.*s",
                              STR_ARG(cel_type_name(e)));
        if (e.kind != v.list->items[0].kind)
            return cel_errorf(&run->arena, "expected list element at index %u to be %.*s, got %.*s",
                              i, STR_ARG(cel_type_name(v.list->items[0])),
                              STR_ARG(cel_type_name(e)));
    }
    return v;
}

void cel_eval_value(struct cel_run *run, const struct cel_program *p, const struct cel_device *d,
                    const struct cel_val *const *vars, struct cel_result *ret)
{
    struct cel_val v = program_run_code(run, p, d, vars);
    program_fill_result(run, p->derived ? as_attribute(run, v) : v, ret);
}

bool cel_eval_device(struct cel_run *run, const struct cel_program *p, const struct cel_device *d,
                     struct cel_result *ret)
{
    struct cel_val v = program_run_code(run, p, d, NULL);
    if (__builtin_expect(v.kind != CEL_BOOL && v.kind != CEL_ERROR, 0))
        v = cel_errorf(&run->arena,
                       "CEL result of type %.*s could not be converted to bool: unsupported native "
                       "conversion from %.*s to 'bool'",
                       STR_ARG(cel_type_name(v)), STR_ARG(cel_type_name(v)));
    program_fill_result(run, v, ret);
    return ret->match;
}

size_t cel_eval_batch(struct cel_run *run, const struct cel_program *p,
                      const struct cel_device *const *devices, size_t n, uint64_t *match,
                      uint64_t *failed, size_t *ret_failed)
{
    struct cel_batch batch = {.devices = devices, .n = n, .match = match, .failed = failed};
    size_t words = (n + 63) / 64;
    if (words) {
        memset(match, 0, words * sizeof(*match));
        if (failed)
            memset(failed, 0, words * sizeof(*failed));
        if (run->arena.used_bytes)
            arena_reset(&run->arena);
        (void)cel_execute(run, p, NULL, NULL, &batch);
    }
    if (ret_failed)
        *ret_failed = batch.failures;
    return batch.matches;
}
