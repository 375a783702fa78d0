// SPDX-License-Identifier: Apache-2.0
//
// Which devices class and selectors take, and which term refuses the others. A selector is taken
// apart into terms, and the terms are asked in order; what the search has found out about a
// selector is not asked again.
#include "alloc/explain/explain_int.h"

#include "base/banned.h"

static struct cel_program *compile_term(const struct alloc_cluster *c, struct str text)
{
    struct cel_program *p = NULL;
    if (cel_cache_get(c->kit.cache, c->kit.env, text, &p, NULL, NULL) < 0)
        return NULL; // evaluating it fails
    return p;
}

void explain_programs_done(struct kept_programs *k)
{
    for (size_t i = 0; i < k->list.n; i++)
        cel_program_free(k->list.p[i].program);
    vec_done(&k->list);
    k->cluster = NULL;
}

// The program of a term. Terms that do not compile are not kept: their text may not live.
static struct cel_program *fetch_term(struct explainer *x, struct str text)
{
    const struct alloc_cluster *c = x->s->view->cluster;
    struct kept_programs *k = x->kept;
    if (!k)
        return compile_term(c, text);
    if (k->cluster != c)
        explain_programs_done(k);
    k->cluster = c;
    for (size_t i = 0; i < k->list.n; i++)
        if (str_eq(k->list.p[i].text, text))
            return k->list.p[i].program;
    struct cel_program *p = compile_term(c, text);
    if (p)
        vec_push(&k->list, (struct kept_program){cel_program_source(p), p});
    return p;
}

// Devices that the terms from here on are asked about.
struct asked {
    uint32_t *devices;
    const struct cel_device **records; // parallel
    size_t n;
    uint64_t *match, *failed; // bits by place in the lists
};

// Is the device known to pass all selectors? Then it passes all their terms.
static bool explain_known_to_pass(struct answer_set *const *answers, size_t n,
                                  const struct cl_device *d)
{
    size_t i = 0;
    while (i < n && answer_find(answers[i], d) == MATCH_YES)
        i++;
    return n && i == n;
}

// Those that the class takes; the others stay MATCH_UNKNOWN. One that cannot be read fails
// everywhere.
static struct asked explain_judge_list_devices(struct explainer *x, const struct selset *from,
                                               struct judged_set *set)
{
    const struct alloc_view *v = x->s->view;
    struct arena *arena = &x->s->arena;
    struct asked q = {.devices = arena_array(arena, uint32_t, v->devices_len + 1),
                      .records = arena_array(arena, const struct cel_device *, v->devices_len + 1),
                      .match = arena_array(arena, uint64_t, v->devices_len / 64 + 1),
                      .failed = arena_array(arena, uint64_t, v->devices_len / 64 + 1)};
    for (uint32_t d = 0; d < v->devices_len; d++) {
        uint8_t m = from->class_->match[v->devices[d].cl_index];
        if (m == MATCH_NO || m == MATCH_ERROR)
            continue;
        const struct cel_device *record = answer_device_record(v->cluster, v->devices[d].cl);
        set->match[d] = record || set->terms_len == 0 ? MATCH_YES : MATCH_ERROR;
        q.devices[q.n] = d;
        q.records[q.n] = record;
        q.n += record && !(set->answers && explain_known_to_pass(set->answers, from->selectors->n,
                                                                 v->devices[d].cl));
    }
    return q;
}

struct answer_set *explain_term_answers(const struct explainer *x, const struct flat_term *t)
{
    const struct alloc_cluster *c = x->s->view->cluster;
    if (!t->kept)
        return NULL;
    return t->whole ? answer_set_of(c, t->text) : answer_passing(c, t->text);
}

// Fills in the bits of a term. Where answers are kept they are asked first. False: the meter has
// nothing left.
static bool explain_ask_term(struct explainer *x, const struct flat_term *t, struct asked *q)
{
    struct alloc_solver *s = x->s;
    size_t words = (q->n + 63) / 64;
    struct answer_set *answers = explain_term_answers(x, t);
    const struct evaluator e = {s->run, t->program, s->options.meter};
    if (!t->program || (!answers && !e.meter)) {
        memset(q->failed, t->program ? 0 : UINT8_MAX, words * sizeof(*q->failed));
        if (t->program)
            (void)cel_eval_batch(s->run, t->program, q->records, q->n, q->match, q->failed, NULL);
        return true;
    }
    memset(q->match, 0, words * sizeof(*q->match));
    memset(q->failed, 0, words * sizeof(*q->failed));
    for (size_t i = 0; i < q->n; i++) {
        const struct cl_device *d = s->view->devices[q->devices[i]].cl;
        enum match_state m = answer_find(answers, d);
        if (m == MATCH_UNKNOWN)
            m = answer_make(s->view->cluster, answers, d, &e);
        if (m == MATCH_UNKNOWN)
            return false;
        q->match[i / 64] |= (uint64_t)(m == MATCH_YES) << i % 64;
        q->failed[i / 64] |= (uint64_t)(m == MATCH_ERROR) << i % 64;
    }
    return true;
}

// A conjunction is false if any term is, whatever the others do, and fails if one fails and none is
// false. Of several selectors the first that is not true decides.
static void judge_term(struct judged_set *set, struct asked *q, size_t term)
{
    const struct flat_term *t = &set->terms[term];
    bool more = term + 1 < set->terms_len && t[1].selector == t->selector;
    size_t n = 0;
    for (size_t i = 0; i < q->n; i++) {
        uint32_t d = q->devices[i];
        bool failed = q->failed[i / 64] >> i % 64 & 1;
        bool match = !failed && q->match[i / 64] >> i % 64 & 1;
        if (!match && !(failed && set->match[d] == MATCH_ERROR)) {
            set->refuser[d] = (uint16_t)term;
            set->match[d] = failed ? MATCH_ERROR : MATCH_NO;
        }
        q->devices[n] = d;
        q->records[n] = q->records[i];
        n += set->match[d] == MATCH_YES || (set->match[d] == MATCH_ERROR && more);
    }
    q->n = n;
}

static void explain_split_set(struct explainer *x, const struct selset *from,
                              struct judged_set *set)
{
    struct alloc_solver *s = x->s;
    const struct alloc_cluster *c = s->view->cluster;
    size_t n = 0;
    struct terms *split = arena_array(&s->arena, struct terms, from->selectors->n + 1);
    for (size_t i = 0; i < from->selectors->n; i++) {
        split[i] = explain_terms_of(s, from->selectors->p[i].cel->expression);
        n += split[i].n;
    }
    set->terms = arena_array(&s->arena, struct flat_term, n + 1);
    struct answer_set **answers =
        c->kit.answers ? arena_array(&s->arena, struct answer_set *, from->selectors->n + 1) : NULL;
    set->answers = answers;
    for (size_t i = 0; i < from->selectors->n; i++) {
        struct str expression = from->selectors->p[i].cel->expression;
        bool kept = answers && (answers[i] = answer_set_of(c, expression));
        if (!kept)
            set->answers = NULL;
        for (size_t k = 0; k < split[i].n && set->terms_len < UINT16_MAX; k++)
            set->terms[set->terms_len++] =
                (struct flat_term){.text = split[i].p[k],
                                   .selector = i,
                                   .program = fetch_term(x, split[i].p[k]),
                                   .whole = kept && str_eq(split[i].p[k], expression),
                                   .kept = kept};
    }
}

bool explain_judge_set(struct explainer *x, uint32_t index)
{
    struct alloc_solver *s = x->s;
    const struct selset *from = &s->p.selsets[index];
    struct judged_set *set = &x->sets[index];
    if (set->match)
        return true;
    set->match = arena_array(&s->arena, uint8_t, s->view->devices_len + 1);
    set->refuser = arena_array(&s->arena, uint16_t, s->view->devices_len + 1);
    explain_split_set(x, from, set);
    // Term by term: a program costs twice as much when another one ran before it.
    struct asked q = explain_judge_list_devices(x, from, set);
    for (size_t i = 0; i < set->terms_len && q.n; i++) {
        if (!explain_ask_term(x, &set->terms[i], &q))
            return false;
        judge_term(set, &q, i);
    }
    return true;
}
