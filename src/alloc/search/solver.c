// SPDX-License-Identifier: Apache-2.0
//
// The solver: one question after another with the same working memory.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc/explain/explain_int.h"
#include "alloc/search/search_int.h"
#include "api/api.h"

#include "base/banned.h"

struct alloc_solver *alloc_solver_new(const struct alloc_options *options)
{
    struct alloc_solver *s = xcalloc(1, sizeof(*s));
    s->run = cel_run_new();
    if (options)
        s->options = *options;
    return s;
}

void alloc_solver_set_options(struct alloc_solver *s, const struct alloc_options *options)
{
    s->options = *options;
}

static void drop_programs(struct alloc_solver *s)
{
    for (size_t i = 0; i < s->p.selsets_len; i++)
        for (size_t j = 0; j < s->p.selsets[i].programs_len; j++)
            cel_program_free(s->p.selsets[i].programs[j]);
    for (size_t i = 0; i < s->p.columns_len; i++)
        cel_program_free(s->p.columns[i].program);
    if (map_len(&s->p.local_values))
        map_done(&s->p.local_values);
}

void alloc_solver_free(struct alloc_solver *s)
{
    if (!s)
        return;
    drop_programs(s);
    cel_run_free(s->run);
    sbuf_done(&s->error);
    sbuf_done(&s->scratch);
    free(s->numbers);
    free(s->memo);
    explain_terms_forget(s);
    arena_done(&s->arena);
    free(s);
}

// Forgets the last question; what is worth keeping are its buffers.
void solver_begin(struct alloc_solver *s, const struct alloc_view *view)
{
    drop_programs(s);
    arena_reset(&s->arena);
    sbuf_clear(&s->error);
    s->view = view;
    s->p = (struct problem){0};
    s->at = (struct search){0};
    s->budget = (struct budget){.work = WORK_PER_LOOK};
    s->preference = (struct preference){0};
    s->improvement = (struct improvement){0};
    s->prune = NULL;
    if (view && view->cluster->kit.answers)
        answer_trim(view->cluster->kit.answers);
}

void solver_fail(struct alloc_solver *s, const char *fmt, ...)
{
    va_list ap;
    va_list again;
    if (s->budget.fatal)
        return; // the first error is the one that counts
    s->budget.fatal = true;
    sbuf_clear(&s->error);
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        (void)vsnprintf(sbuf_space(&s->error, (size_t)n + 1), (size_t)n + 1, fmt, again);
        sbuf_commit(&s->error, (size_t)n);
    }
    va_end(again);
}

void solver_claim_name(struct sbuf *out, const struct api_resource_claim *claim)
{
    if (claim->metadata.namespace.n) {
        sbuf_add(out, claim->metadata.namespace);
        sbuf_addc(out, '/');
    }
    sbuf_add(out, claim->metadata.name);
}

void solver_device_name(struct sbuf *out, const struct vw_device *d)
{
    sbuf_addf(out, "%.*s/%.*s/%.*s", STR_ARG(d->cl->slice->spec.driver),
              STR_ARG(d->cl->slice->spec.pool.name), STR_ARG(d->cl->api->name));
}

static bool any_alternatives(const struct alloc_solver *s)
{
    for (size_t i = 0; i < s->p.requests_len; i++)
        if (s->p.requests[i].has_alternatives)
            return true;
    return false;
}

// A new search of the same problem; what is known about devices stays.
static enum outcome search_again(struct alloc_solver *s)
{
    search_reset(s);
    s->budget.dead_ends = 0;
    s->prune = NULL;
    return search_run(s);
}

// With alternatives, upstream's order may settle for a worse one because of an earlier choice of
// devices. Here each request in turn gets the best alternative for which everything still fits.
static enum outcome search_best(struct alloc_solver *s)
{
    enum outcome o = search_run(s);
    if (o != SOLVED || !any_alternatives(s))
        return o;
    s->at.forced = arena_array(&s->arena, uint32_t, s->p.requests_len + 1);
    for (size_t i = 0; i < s->p.requests_len; i++)
        s->at.forced[i] = UINT32_MAX;
    for (size_t i = 0; i < s->p.requests_len; i++) {
        uint32_t known = s->at.chosen[i]; // of a solution that respects all forced so far
        for (uint32_t k = 0; s->p.requests[i].has_alternatives && k < known; k++) {
            s->at.forced[i] = k;
            o = search_again(s);
            if (o == STOPPED)
                return o;
            if (o == SOLVED)
                break;
        }
        if (o != SOLVED) {
            s->at.forced[i] = known;
            o = search_again(s);
            if (o != SOLVED)
                return o; // cannot be: it was solved before
        }
        s->at.forced[i] = s->at.chosen[i];
    }
    return o;
}

static void fail_answer(const struct alloc_solver *s, struct alloc_answer *ret)
{
    if (s->budget.postponed) {
        ret->verdict = ALLOC_POSTPONED;
        ret->error = STR("selectors cost more than is left to spend");
        return;
    }
    ret->verdict = s->budget.fatal ? ALLOC_ERROR : ALLOC_TIMEOUT;
    ret->error = s->budget.fatal ? sbuf_str(&s->error)
                                 : STR("filter operation aborted: context deadline exceeded");
}

#ifdef DRAY_CHECK_ANSWERS
static void print_object(const char *what, const struct api_type *type, const void *object)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    if (api_json_write(type, object, &w, NULL) == 0)
        (void)fprintf(stderr, "%s %.*s\n", what, STR_ARG(sbuf_str(&text)));
}

// Results name their request. Validated claims have no two of one name; the allocator takes them,
// as upstream does, but the checker could not tell their results apart.
static bool names_unique(const struct alloc_solver *s)
{
    for (size_t i = 0; i < s->p.alternatives_len; i++)
        for (size_t k = 0; k < i; k++)
            if (s->p.alternatives[k].claim == s->p.alternatives[i].claim &&
                str_eq(s->p.alternatives[k].full_name, s->p.alternatives[i].full_name))
                return false;
    return true;
}

// Debug builds let the independent checker see every answer; one that it refuses is a bug here.
static void check_answer(const struct alloc_view *view,
                         const struct api_resource_claim *const *claims, size_t claims_len,
                         const struct alloc_answer *a)
{
    cleanup_sbuf struct sbuf problems = {0};
    if (alloc_check(view, claims, claims_len, a->results, a->results_len, &problems))
        return;
    (void)fprintf(stderr, "the allocator gave an answer that is none:\n%.*s",
                  STR_ARG(sbuf_str(&problems)));
    for (size_t i = 0; i < claims_len; i++) {
        print_object("claim", &api_resource_claim_type, claims[i]);
        print_object("result", &api_allocation_result_type, &a->results[i]);
    }
    for (size_t i = 0; i < view->cluster->slices_len; i++)
        print_object("slice", &api_resource_slice_type, view->cluster->slices[i].api);
    for (size_t i = 0; i < view->cluster->use_list_len; i++) {
        const struct alloc_device_id *id = &view->cluster->use_list[i].id;
        (void)fprintf(stderr, "in use %.*s/%.*s/%.*s\n", STR_ARG(id->driver), STR_ARG(id->pool),
                      STR_ARG(id->device));
    }
    abort();
}
#endif

void alloc_solve(struct alloc_solver *s, const struct alloc_view *view,
                 const struct api_resource_claim *const *claims, size_t claims_len,
                 struct alloc_answer *ret)
{
    *ret = (struct alloc_answer){.verdict = ALLOC_UNSATISFIABLE};
    solver_begin(s, view);
    if (!problem_build(s, claims, claims_len) || !search_prepare(s)) {
        fail_answer(s, ret);
        return;
    }
    if (s->options.policy != ALLOC_FIRST && !order_begin(s))
        s->at.orders = NULL;
    enum outcome o = s->options.policy == ALLOC_FIRST ? search_run(s) : search_best(s);
    ret->steps = s->budget.steps;
    if (s->budget.fatal || s->budget.timeout) {
        fail_answer(s, ret);
    } else if (o == SOLVED) {
        improve_solution(s);
        if (s->budget.postponed || !result_build(s, ret)) {
            fail_answer(s, ret);
            return;
        }
        ret->verdict = ALLOC_ALLOCATED;
#ifdef DRAY_CHECK_ANSWERS
        if (names_unique(s))
            check_answer(view, claims, claims_len, ret);
#endif
    } else if (view->any_invalid) {
        ret->verdict = ALLOC_NODE_ERROR;
        ret->error = STR("invalid resource pools were encountered");
    }
}
