// SPDX-License-Identifier: Apache-2.0
//
// Which changes may help: what takes devices away by the explanation of each group of nodes.
#include "alloc/explain/remedy_int.h"

#include "base/banned.h"

// How much a change asks of people: waiting for another's claim costs more than asking for less.
enum {
    WEIGHT_TOLERATION = 650, // a taint has a reason
    WEIGHT_CAPACITY = 200,
    WEIGHT_COUNT = 300, // and one for each device less
    WEIGHT_SELECTOR = 400,
    WEIGHT_CONSTRAINT = 500,
    WEIGHT_HOLDER = 600, // and one for each device it holds
    WEIGHT_NODE = 10000,
};

// The request that a funnel is about.
struct about {
    uint32_t claim, request, sub;
};

static bool remedy_gather_same_change(const struct candidate *a, const struct candidate *b)
{
    return a->kind == b->kind && a->view == b->view && a->claim == b->claim &&
           a->request == b->request && a->sub == b->sub && a->selector == b->selector &&
           a->term == b->term && a->count == b->count && str_eq(a->what, b->what) &&
           str_eq(a->expression, b->expression);
}

static void remedy_gather_add(struct remedy_search *r, const struct candidate *c)
{
    for (size_t i = 0; i < r->candidates.n; i++)
        if (remedy_gather_same_change(&r->candidates.p[i], c))
            return;
    if (r->candidates.n == REMEDY_SINGLES_MAX) {
        r->dropped++;
        return;
    }
    struct candidate copy = *c;
    copy.what = arena_str(r->arena, c->what);
    copy.to = arena_str(r->arena, c->to);
    vec_push_arena(r->arena, &r->candidates, copy);
}

static struct candidate for_request(enum alloc_change_kind kind, struct about a, size_t weight)
{
    return (struct candidate){.kind = kind,
                              .view = UINT32_MAX,
                              .claim = a.claim,
                              .request = a.request,
                              .sub = a.sub,
                              .weight = weight};
}

static const struct api_device_request *remedy_gather_request_of(const struct remedy_search *r,
                                                                 struct about a)
{
    return &r->claims[a.claim]->spec.devices.requests.p[a.request];
}

static const struct api_device_selector_array *selectors_of(const struct remedy_search *r,
                                                            struct about a)
{
    const struct api_device_request *q = remedy_gather_request_of(r, a);
    return a.sub == UINT32_MAX ? &q->exactly->selectors : &q->first_available.p[a.sub].selectors;
}

static void add_terms(struct remedy_search *r, struct about a, const struct alloc_funnel *f)
{
    const struct api_device_selector_array *all = selectors_of(r, a);
    for (size_t i = 0; i < all->n; i++) {
        struct terms t = explain_terms_split(all->p[i].cel->expression, r->arena);
        for (size_t k = 0; k < t.n; k++) {
            bool refuses = false;
            for (size_t m = 0; m < f->reasons_len; m++)
                refuses |= (f->reasons[m].row == ALLOC_ROW_SELECTOR ||
                            f->reasons[m].row == ALLOC_ROW_SELECTOR_FAILED) &&
                           str_eq(f->reasons[m].what, t.p[k]);
            struct candidate c = for_request(ALLOC_CHANGE_SELECTOR, a, WEIGHT_SELECTOR);
            c.selector = (uint32_t)i;
            c.term = (uint32_t)k;
            c.what = t.p[k];
            if (refuses)
                remedy_gather_add(r, &c);
        }
    }
}

// The taint that a reason names, as the view's devices carry it.
static const struct api_device_taint *find_taint(const struct alloc_view *v, struct str what)
{
    for (size_t i = 0; i < v->devices_len; i++)
        for (size_t k = 0; k < v->devices[i].cl->taints.n; k++) {
            const struct api_device_taint *t = &v->devices[i].cl->taints.p[k];
            cleanup_sbuf struct sbuf b = {0};
            sbuf_addf(&b, "%.*s%s%.*s:%.*s", STR_ARG(t->key), t->value.n ? "=" : "",
                      STR_ARG(t->value), STR_ARG(t->effect));
            if (str_eq(sbuf_str(&b), what))
                return t;
        }
    return NULL;
}

static void add_counts(struct remedy_search *r, struct about a, const struct alloc_funnel *f)
{
    const struct api_device_request *q = remedy_gather_request_of(r, a);
    int64_t count = a.sub == UINT32_MAX ? q->exactly->count : q->first_available.p[a.sub].count;
    int64_t most = count - 1;
    if (f->all)
        count = most = (int64_t)f->usable; // as many as can be had instead of all
    // Where none is usable, fewer may help together with another change.
    int64_t have = (int64_t)(f->usable ? f->usable : f->published - f->class_refused);
    if (have < most)
        most = have;
    for (int64_t to = most; to > 0; to--) {
        struct candidate c =
            for_request(ALLOC_CHANGE_COUNT, a, WEIGHT_COUNT + (size_t)(count - to));
        c.count = to;
        remedy_gather_add(r, &c);
    }
}

static bool asks_capacity(const struct remedy_search *r, struct about a, struct str name)
{
    const struct api_device_request *q = remedy_gather_request_of(r, a);
    const struct api_capacity_requirements *cap =
        a.sub == UINT32_MAX ? q->exactly->capacity : q->first_available.p[a.sub].capacity;
    for (size_t i = 0; cap && i < cap->requests.n; i++)
        if (str_eq(cap->requests.p[i].key, name))
            return true;
    return false;
}

static void add_of_funnel(struct remedy_search *r, uint32_t view, struct about a,
                          const struct alloc_funnel *f)
{
    add_terms(r, a, f);
    add_counts(r, a, f);
    for (size_t i = 0; i < f->reasons_len; i++) {
        const struct alloc_reason *why = &f->reasons[i];
        struct candidate c = for_request(ALLOC_CHANGE_TOLERATION, a, WEIGHT_TOLERATION);
        c.what = why->what;
        if (why->row == ALLOC_ROW_TAINTED) {
            c.taint = find_taint(r->views[view].view, why->what);
            if (c.taint)
                remedy_gather_add(r, &c);
        } else if (why->row == ALLOC_ROW_CAPACITY && why->needs.n && !str_eqz(why->has, "0") &&
                   asks_capacity(r, a, why->what)) {
            c.kind = ALLOC_CHANGE_CAPACITY;
            c.weight = WEIGHT_CAPACITY;
            c.to = why->has;
            remedy_gather_add(r, &c);
        } else if (why->row == ALLOC_ROW_IN_USE && why->what.n) {
            struct candidate gone = {.kind = ALLOC_CHANGE_HOLDER,
                                     .view = view,
                                     .what = why->what,
                                     .weight = WEIGHT_HOLDER + why->devices};
            remedy_gather_add(r, &gone);
        }
    }
}

static bool remedy_gather_concerns(const struct alloc_explanation *e, struct str attribute)
{
    for (size_t i = 0; i < e->conflicts_len; i++)
        if (e->conflicts[i].kind == ALLOC_CONFLICT_TOGETHER ||
            str_eq(e->conflicts[i].what, attribute))
            return true;
    for (size_t i = 0; i < e->funnels_len; i++)
        for (size_t k = 0; k < e->funnels[i].reasons_len; k++)
            if (e->funnels[i].reasons[k].row == ALLOC_ROW_ATTRIBUTE &&
                str_eq(e->funnels[i].reasons[k].what, attribute))
                return true;
    return false;
}

static void remedy_gather_add_constraints(struct remedy_search *r,
                                          const struct alloc_explanation *e)
{
    for (size_t i = 0; i < r->claims_len; i++) {
        const struct api_device_constraint_array *all = &r->claims[i]->spec.devices.constraints;
        for (size_t k = 0; k < all->n; k++) {
            struct candidate c = for_request(ALLOC_CHANGE_CONSTRAINT,
                                             (struct about){(uint32_t)i, 0, 0}, WEIGHT_CONSTRAINT);
            c.selector = (uint32_t)k;
            c.what = all->p[k].has_match_attribute ? all->p[k].match_attribute
                                                   : all->p[k].distinct_attribute;
            if (remedy_gather_concerns(e, c.what))
                remedy_gather_add(r, &c);
        }
    }
}

static void add_of_view(struct remedy_search *r, uint32_t view, const struct alloc_explanation *e)
{
    size_t at = 0;
    for (uint32_t i = 0; i < r->claims_len; i++) {
        const struct api_device_request_array *rs = &r->claims[i]->spec.devices.requests;
        for (uint32_t j = 0; j < rs->n; j++) {
            size_t alternatives = rs->p[j].first_available.n ? rs->p[j].first_available.n : 1;
            for (uint32_t k = 0; k < alternatives && at < e->funnels_len; k++, at++) {
                struct about a = {i, j, rs->p[j].first_available.n ? k : UINT32_MAX};
                if (e->enough_each || !e->funnels[at].satisfied)
                    add_of_funnel(r, view, a, &e->funnels[at]);
            }
        }
    }
    remedy_gather_add_constraints(r, e);
    struct candidate node = {.kind = ALLOC_CHANGE_NODE,
                             .view = view,
                             .what = r->views[view].view->node->metadata.name,
                             .weight = WEIGHT_NODE + view};
    remedy_gather_add(r, &node);
}

static int candidate_cmp(const void *x, const void *y)
{
    const struct candidate *a = x;
    const struct candidate *b = y;
    if (a->weight != b->weight)
        return a->weight < b->weight ? -1 : 1;
    if (a->claim != b->claim)
        return a->claim < b->claim ? -1 : 1;
    if (a->selector != b->selector)
        return a->selector < b->selector ? -1 : 1;
    if (a->term != b->term)
        return a->term < b->term ? -1 : 1;
    return str_cmp(a->what, b->what);
}

// Words that the caller suggests.
static void add_rewrites(struct remedy_search *r)
{
    for (size_t i = 0; i < r->rewrites_len; i++) {
        const struct alloc_rewrite *w = &r->rewrites[i];
        struct candidate c = for_request(ALLOC_CHANGE_REWRITE,
                                         (struct about){w->claim, w->request, w->sub}, w->weight);
        c.selector = w->selector;
        c.expression = w->expression;
        c.from = w->from;
        c.to = w->to;
        remedy_gather_add(r, &c);
    }
}

void remedy_gather(struct remedy_search *r)
{
    add_rewrites(r);
    r->s->no_error_texts = true;
    for (uint32_t i = 0; i < r->views_len; i++) {
        struct alloc_explanation e;
        if (alloc_explain(r->s, r->views[i].view, r->claims, r->claims_len, &e))
            add_of_view(r, i, &e);
    }
    r->s->no_error_texts = false;
    if (r->candidates.n)
        qsort(r->candidates.p, r->candidates.n, sizeof(*r->candidates.p), candidate_cmp);
}

// --- Words ---------------------------------------------------------------------------------------

static struct str request_text(const struct remedy_search *r, const struct candidate *c)
{
    const struct api_device_request *q =
        remedy_gather_request_of(r, (struct about){c->claim, c->request, c->sub});
    if (c->sub == UINT32_MAX)
        return q->name;
    return arena_strf(r->arena, "%.*s/%.*s", STR_ARG(q->name),
                      STR_ARG(q->first_available.p[c->sub].name));
}

static struct str amount_asked(const struct remedy_search *r, const struct candidate *c)
{
    const struct api_device_request *q =
        remedy_gather_request_of(r, (struct about){c->claim, c->request, c->sub});
    const struct api_capacity_requirements *cap =
        c->sub == UINT32_MAX ? q->exactly->capacity : q->first_available.p[c->sub].capacity;
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; cap && i < cap->requests.n; i++)
        if (str_eq(cap->requests.p[i].key, c->what))
            quantity_write(&cap->requests.p[i].value, &b);
    return arena_str(r->arena, sbuf_str(&b));
}

static void remedy_gather_describe(struct remedy_search *r, const struct candidate *c,
                                   struct alloc_change *ret, struct sbuf *b)
{
    const struct api_device_request *q =
        remedy_gather_request_of(r, (struct about){c->claim, c->request, c->sub});
    if (r->claims_len > 1)
        sbuf_addf(b, "claim %.*s, ", STR_ARG(ret->claim));
    if (c->kind == ALLOC_CHANGE_CONSTRAINT) {
        sbuf_addf(b, "the constraint on %.*s dropped", STR_ARG(c->what));
        return;
    }
    ret->request = request_text(r, c);
    sbuf_addf(b, "request %.*s ", STR_ARG(ret->request));
    if (c->kind == ALLOC_CHANGE_TOLERATION) {
        sbuf_addf(b, "tolerating the taint %.*s", STR_ARG(c->what));
    } else if (c->kind == ALLOC_CHANGE_CAPACITY) {
        ret->from = amount_asked(r, c);
        ret->to = c->to;
        sbuf_addf(b, "asking for %.*s %.*s instead of %.*s", STR_ARG(c->what), STR_ARG(ret->to),
                  STR_ARG(ret->from));
    } else if (c->kind == ALLOC_CHANGE_COUNT) {
        int64_t from =
            c->sub == UINT32_MAX ? q->exactly->count : q->first_available.p[c->sub].count;
        bool all = c->sub == UINT32_MAX
                       ? str_eqz(q->exactly->allocation_mode, "All")
                       : str_eqz(q->first_available.p[c->sub].allocation_mode, "All");
        ret->from = all ? STR("all") : arena_strf(r->arena, "%lld", (long long)from);
        ret->to = arena_strf(r->arena, "%lld", (long long)c->count);
        sbuf_addf(b, "asking for %.*s instead of %.*s", STR_ARG(ret->to), STR_ARG(ret->from));
    } else if (c->kind == ALLOC_CHANGE_REWRITE) {
        ret->from = c->from;
        ret->to = c->to;
        ret->expression = c->expression;
        sbuf_addf(b, "with %.*s instead of %.*s", STR_ARG(c->to), STR_ARG(c->from));
    } else {
        const struct api_device_selector_array *all =
            selectors_of(r, (struct about){c->claim, c->request, c->sub});
        ret->expression = remedy_drop_term(r, all->p[c->selector].cel->expression, c->term);
        sbuf_addz(b, "without ");
        for (size_t i = 0; i < c->what.n; i++)
            if (c->what.p[i] != '\n')
                sbuf_addc(b, c->what.p[i]);
    }
}

struct alloc_change remedy_change(struct remedy_search *r, const struct candidate *c)
{
    struct alloc_change ret = {.kind = c->kind,
                               .what = c->what,
                               .at = {c->claim, c->request, c->sub, c->selector},
                               .taint = c->taint,
                               .weight = c->weight};
    cleanup_sbuf struct sbuf b = {0};
    cleanup_sbuf struct sbuf name = {0};
    if (c->kind == ALLOC_CHANGE_HOLDER) {
        sbuf_addf(&b, "claim %.*s gone", STR_ARG(c->what));
    } else if (c->kind == ALLOC_CHANGE_NODE) {
        sbuf_addf(&b, "one more node like %.*s", STR_ARG(c->what));
    } else {
        solver_claim_name(&name, r->claims[c->claim]);
        ret.claim = arena_str(r->arena, sbuf_str(&name));
        remedy_gather_describe(r, c, &ret, &b);
    }
    ret.text = arena_str(r->arena, sbuf_str(&b));
    return ret;
}
