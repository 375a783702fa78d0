// SPDX-License-Identifier: Apache-2.0
//
// Allocation problems: bytes are a JSON document. The search must end, agree with itself without
// pruning as long as neither runs out of steps, and every allocation must pass the checker.
#include <assert.h>

#include "fuzz.h"
#include "lab/alloc_question.h"

#include "base/banned.h"

#define CHECKS_MAX 2000

static bool expired(void *arg)
{
    unsigned *left = arg;
    if (*left == 0)
        return true;
    (*left)--;
    return false;
}

// Results name their request; of two of one name the checker cannot say whose they are.
static bool names_unique(const struct question *q)
{
    for (size_t c = 0; c < q->claims.n; c++) {
        const struct api_device_request_array *rs = &q->claims.p[c]->spec.devices.requests;
        for (size_t i = 0; i < rs->n; i++) {
            const struct api_device_sub_request_array *subs = &rs->p[i].first_available;
            for (size_t k = 0; k < i; k++)
                if (str_eq(rs->p[k].name, rs->p[i].name))
                    return false;
            for (size_t k = 1; k < subs->n; k++)
                for (size_t o = 0; o < k; o++)
                    if (str_eq(subs->p[o].name, subs->p[k].name))
                        return false;
        }
    }
    return true;
}

static enum alloc_verdict solve(const struct question *q, const struct prepared *p,
                                enum alloc_policy policy, bool plain, bool eager)
{
    unsigned left = CHECKS_MAX;
    struct alloc_options o = {.policy = policy,
                              .expired = expired,
                              .expired_arg = &left,
                              .no_pruning = plain,
                              .eager_pruning = eager};
    struct alloc_solver *s = alloc_solver_new(&o);
    struct alloc_answer a;
    alloc_solve(s, p->views[0], q->claims.p, q->claims.n, &a);
    if (a.verdict == ALLOC_ALLOCATED) {
        cleanup_sbuf struct sbuf problems = {0};
        bool ok = !names_unique(q) || alloc_check(p->views[0], q->claims.p, q->claims.n, a.results,
                                                  a.results_len, &problems);
        assert(ok);
    } else if (a.verdict == ALLOC_UNSATISFIABLE) {
        cleanup_sbuf struct sbuf text = {0};
        struct alloc_explanation e;
        if (alloc_explain(s, p->views[0], q->claims.p, q->claims.n, &e))
            alloc_explain_text(&e, &text);
    }
    alloc_solver_free(s);
    return a.verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct question q = {0};
    struct prepared p = {0};
    if (alloc_question_read(&q, str_make((const char *)data, size), NULL) == 0 &&
        alloc_question_prepare(&q, &p, NULL) == 0) {
        enum alloc_verdict plain = solve(&q, &p, ALLOC_FIRST, true, false);
        enum alloc_verdict pruned = solve(&q, &p, ALLOC_FIRST, false, false);
        enum alloc_verdict eager = solve(&q, &p, ALLOC_FIRST, false, true);
        assert(plain == pruned || plain == ALLOC_TIMEOUT || pruned == ALLOC_TIMEOUT);
        assert(plain == eager || plain == ALLOC_TIMEOUT || eager == ALLOC_TIMEOUT);
        (void)solve(&q, &p, ALLOC_PACK, false, true);
        (void)solve(&q, &p, ALLOC_SPREAD, false, false);
    }
    alloc_question_end(&q, &p);
    alloc_question_done(&q);
    return 0;
}
