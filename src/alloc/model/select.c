// SPDX-License-Identifier: Apache-2.0
//
// Which devices a request selects: class and request selectors in order, then the device's own node
// selection. Answers are kept per distinct set of selectors; a selector is evaluated at most once
// on a device.
#include "alloc/search/solver_int.h"
#include "api/match/device_taint.h"
#include "api/match/node.h"
#include "api/match/taint.h"

#include "base/banned.h"

// What an evaluation amounts to, in the unit of solver_tick.
#define WORK_PER_EVALUATION 100

static struct answer_set *answers_for(struct alloc_solver *s, struct selset *set, size_t i)
{
    if (!set->asked[i]) {
        set->asked[i] = true;
        set->answers[i] = answer_kept_set(s->view->cluster, set->selectors->p[i].cel->expression);
    }
    return set->answers[i];
}

static struct cel_program *program_of(struct alloc_solver *s, struct selset *set, size_t i)
{
    if (!set->tried[i]) {
        const struct alloc_cluster *c = s->view->cluster;
        set->tried[i] = true;
        if (cel_cache_get(c->kit.cache, c->kit.env, set->selectors->p[i].cel->expression,
                          &set->programs[i], NULL, NULL) < 0)
            set->programs[i] = NULL;
    }
    return set->programs[i];
}

static enum match_state select_evaluate_device(struct alloc_solver *s, struct selset *set,
                                               const struct vw_device *d)
{
    enum match_state m = (enum match_state)set->class_->match[d->cl_index];
    for (size_t i = 0; m == MATCH_YES && i < set->selectors->n; i++) {
        struct answer_set *answers = answers_for(s, set, i);
        m = answer_find(answers, d->cl);
        if (m != MATCH_UNKNOWN)
            continue;
        struct cel_program *p = program_of(s, set, i);
        if (!p)
            return MATCH_ERROR;
        m = answer_make(s->view->cluster, answers, d->cl,
                        &(struct evaluator){s->run, p, s->options.meter});
        if (m == MATCH_UNKNOWN)
            s->budget.timeout = s->budget.postponed = true;
        (void)solver_tick(s, WORK_PER_EVALUATION); // who asked looks at the time
    }
    return m;
}

// select_selectors answers for class and selectors alone.
static enum match_state select_selectors(struct alloc_solver *s, const struct alternative *a,
                                         uint32_t device)
{
    struct selset *set = &s->p.selsets[a->selset];
    const struct vw_device *d = &s->view->devices[device];
    if (set->class_only)
        return (enum match_state)set->class_->match[d->cl_index];
    if (set->match[device] == MATCH_UNKNOWN)
        set->match[device] = (uint8_t)select_evaluate_device(s, set, d);
    // Unknown: the question is postponed, and whatever is concluded from here on is dropped.
    return set->match[device] == MATCH_UNKNOWN ? MATCH_NO : (enum match_state)set->match[device];
}

enum match_state select_match(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    if (d->refused)
        return MATCH_NO;
    enum match_state m = select_selectors(s, a, device);
    if (m == MATCH_YES && d->node != NODE_YES)
        return d->node == NODE_NO ? MATCH_NO : MATCH_ERROR;
    return m;
}

static void write_runtime_error(struct sbuf *out, struct str text, bool missing_key)
{
    sbuf_add(out, text);
    if (missing_key || str_starts(text, STR("no such key")) ||
        str_contains(text, STR("no such key:")))
        sbuf_addz(out, ". consider using CEL optional chaining (.? followed by orValue()) "
                       "or guarding the check with has() for optional fields");
}

// One selector again, for its error. True when it is the one that failed. What is known is not
// evaluated again.
static bool failed_here(struct alloc_solver *s, const struct vw_device *d,
                        const struct api_device_selector *sel, struct sbuf *compile,
                        struct sbuf *runtime)
{
    const struct alloc_cluster *c = s->view->cluster;
    struct cel_program *p = NULL;
    struct cel_result r;
    struct err err = {0};
    if (!sel->cel) {
        sbuf_addz(compile, "CEL expression empty (unsupported selector type?)");
        return true;
    }
    const struct answer_set *answers = answer_kept_set(c, sel->cel->expression);
    enum match_state known = answer_find(answers, d->cl);
    if (known == MATCH_ERROR)
        write_runtime_error(runtime, answer_failure(answers, d->cl), false);
    if (known != MATCH_UNKNOWN)
        return known == MATCH_ERROR;
    if (cel_cache_get(c->kit.cache, c->kit.env, sel->cel->expression, &p, compile, &err) < 0) {
        if (!compile->n)
            sbuf_addz(compile, err.msg);
        return true;
    }
    (void)answer_eval_device(c, d->cl, s->run, p, &r);
    answer_charge(s->options.meter, &r);
    if (r.failed)
        write_runtime_error(runtime, r.error, r.missing_key);
    cel_program_free(p);
    return r.failed;
}

static bool find_error(struct alloc_solver *s, const struct vw_device *d, const char *kind,
                       struct str owner, const struct api_device_selector_array *selectors)
{
    for (size_t i = 0; i < selectors->n; i++) {
        cleanup_sbuf struct sbuf compile = {0};
        cleanup_sbuf struct sbuf runtime = {0};
        cleanup_sbuf struct sbuf name = {0};
        if (!failed_here(s, d, &selectors->p[i], &compile, &runtime))
            continue;
        solver_device_name(&name, d);
        if (compile.n)
            solver_fail(s, "%s %.*s: selector #%zu: CEL compile error: %.*s", kind, STR_ARG(owner),
                        i, STR_ARG(sbuf_str(&compile)));
        else
            solver_fail(s, "%s %.*s: selector #%zu on device %.*s: CEL runtime error: %.*s", kind,
                        STR_ARG(owner), i, STR_ARG(sbuf_str(&name)), STR_ARG(sbuf_str(&runtime)));
        return true;
    }
    return false;
}

void select_error(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    cleanup_sbuf struct sbuf claim = {0};
    solver_claim_name(&claim, s->p.claims[a->claim].api);
    if (find_error(s, d, "class", a->class_->api->metadata.name, &a->class_->api->spec.selectors) ||
        find_error(s, d, "claim", sbuf_str(&claim), a->selectors))
        return;
    struct err err = {0};
    const struct api_device *api = d->cl->api;
    if (node_matches(s->view->node, api->node_name, api->has_all_nodes && api->all_nodes,
                     api->node_selector, &err) < 0)
        solver_fail(s, "%s", err.msg);
    else
        solver_fail(s, "device could not be judged");
}

// --- Taints --------------------------------------------------------------------------------------

const struct api_device_taint *select_refusing_taint(const struct cl_device *d,
                                                     const struct api_device_toleration_array *t)
{
    for (size_t i = 0; i < d->taints.n; i++) {
        const struct api_device_taint *taint = &d->taints.p[i];
        if (taint_is_hard(taint->effect) && !(t->n && device_taint_is_tolerated(t, taint)))
            return taint;
    }
    return NULL;
}

bool select_tolerates(const struct cl_device *d, const struct api_device_toleration_array *t)
{
    return !select_refusing_taint(d, t);
}
