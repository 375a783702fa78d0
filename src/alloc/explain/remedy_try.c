// SPDX-License-Identifier: Apache-2.0
//
// Trying a change: claims are copied and changed; for a claim that goes or a node that comes, a
// small cluster of the node's own pools is rebuilt.
#include "alloc/explain/remedy_int.h"
#include "api/api.h"

#include "base/banned.h"

// What a request and an alternative of firstAvailable have in common.
struct parts {
    struct api_device_selector_array *selectors;
    struct api_device_toleration_array *tolerations;
    struct api_capacity_requirements *capacity;
    int64_t *count;
    struct str *mode;
    struct str *class_name;
};

static struct parts parts_of(struct api_resource_claim *claim, const struct candidate *c)
{
    struct api_device_request *r = &claim->spec.devices.requests.p[c->request];
    if (c->sub == UINT32_MAX)
        return (struct parts){&r->exactly->selectors,       &r->exactly->tolerations,
                              r->exactly->capacity,         &r->exactly->count,
                              &r->exactly->allocation_mode, &r->exactly->device_class_name};
    struct api_device_sub_request *s = &r->first_available.p[c->sub];
    return (struct parts){&s->selectors, &s->tolerations,     s->capacity,
                          &s->count,     &s->allocation_mode, &s->device_class_name};
}

// A term becomes "true", so that the numbers of the others stay.
static void drop_term(struct remedy_search *r, struct api_device_selector *sel, uint32_t term)
{
    struct terms t = explain_terms_split(sel->cel->expression, r->arena);
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < t.n; i++) {
        sbuf_addz(&b, i ? "\n&& " : ""); // a term may end in a comment
        sbuf_add(&b, i == term ? STR("true") : t.p[i]);
    }
    sel->cel->expression = arena_str(r->arena, sbuf_str(&b));
}

struct str remedy_drop_term(struct remedy_search *r, struct str expression, uint32_t term)
{
    struct terms t = explain_terms_split(expression, r->arena);
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < t.n; i++)
        if (i != term)
            sbuf_addf(&b, "%s%.*s", b.n ? "\n&& " : "", STR_ARG(t.p[i]));
    return arena_str(r->arena, sbuf_str(&b));
}

static void remedy_try_tolerate(struct remedy_search *r, struct api_device_toleration_array *all,
                                const struct api_device_taint *t)
{
    struct api_device_toleration *p =
        arena_array(r->arena, struct api_device_toleration, all->n + 1);
    if (all->n)
        memcpy(p, all->p, all->n * sizeof(*p));
    p[all->n] = (struct api_device_toleration){
        .key = t->key, .operator= STR("Equal"), .value = t->value, .effect = t->effect};
    *all = (struct api_device_toleration_array){p, all->n + 1};
}

static void drop_constraint(struct api_device_constraint_array *all, uint32_t at)
{
    memmove(all->p + at, all->p + at + 1, (all->n - at - 1) * sizeof(*all->p));
    all->n--;
}

static void lower_capacity(struct remedy_search *r, struct api_capacity_requirements *cap,
                           const struct candidate *c)
{
    for (size_t i = 0; cap && i < cap->requests.n; i++)
        if (str_eq(cap->requests.p[i].key, c->what) &&
            quantity_parse(c->to, r->arena, &cap->requests.p[i].value, NULL) < 0)
            return; // it was written by us, so it can be read
}

static void remedy_try_apply(struct remedy_search *r, struct api_resource_claim *claim,
                             const struct candidate *c)
{
    struct parts p = {0};
    if (c->kind != ALLOC_CHANGE_CONSTRAINT)
        p = parts_of(claim, c);
    switch (c->kind) {
    case ALLOC_CHANGE_TOLERATION:
        remedy_try_tolerate(r, p.tolerations, c->taint);
        break;
    case ALLOC_CHANGE_CAPACITY:
        lower_capacity(r, p.capacity, c);
        break;
    case ALLOC_CHANGE_COUNT:
        *p.count = c->count;
        *p.mode = STR("ExactCount");
        break;
    case ALLOC_CHANGE_REWRITE:
        if (c->selector == UINT32_MAX)
            *p.class_name = c->expression;
        else if (c->selector > ALLOC_REWRITE_NAMES)
            p.capacity->requests.p[ALLOC_REWRITE_CAPACITY - c->selector].key = c->expression;
        else
            p.selectors->p[c->selector].cel->expression = c->expression;
        break;
    case ALLOC_CHANGE_SELECTOR:
        drop_term(r, &p.selectors->p[c->selector], c->term);
        break;
    case ALLOC_CHANGE_CONSTRAINT:
        drop_constraint(&claim->spec.devices.constraints, c->selector);
        break;
    case ALLOC_CHANGE_HOLDER:
    case ALLOC_CHANGE_NODE:
        break;
    }
}

static bool of_cluster(const struct candidate *c)
{
    return c->kind == ALLOC_CHANGE_HOLDER || c->kind == ALLOC_CHANGE_NODE;
}

// The claims with all changes that concern them.
static const struct api_resource_claim *const *changed_claims(
    struct remedy_search *r, const struct candidate *const *changes, size_t n)
{
    const struct api_resource_claim **all =
        arena_array(r->arena, const struct api_resource_claim *, r->claims_len + 1);
    for (size_t i = 0; i < r->claims_len; i++) {
        struct api_resource_claim *copy = NULL;
        all[i] = r->claims[i];
        // From the last to the first: candidates stand in order, and dropping moves what follows.
        for (size_t k = n; k > 0; k--) {
            const struct candidate *c = changes[k - 1];
            if (of_cluster(c) || c->claim != i)
                continue;
            if (!copy) {
                copy = arena_one(r->arena, struct api_resource_claim);
                api_copy(&api_resource_claim_type, r->claims[i], copy, r->arena);
                all[i] = copy;
            }
            remedy_try_apply(r, copy, c);
        }
    }
    return all;
}

static int remedy_try_solve(struct remedy_search *r, const struct alloc_view *v,
                            const struct api_resource_claim *const *claims, struct str *ret_node)
{
    struct alloc_answer a;
    alloc_solve(r->s, v, claims, r->claims_len, &a);
    if (a.verdict == ALLOC_TIMEOUT || a.verdict == ALLOC_POSTPONED)
        return -1;
    *ret_node = v->node->metadata.name;
    return a.verdict == ALLOC_ALLOCATED;
}

// --- Small clusters ------------------------------------------------------------------------------

static bool remedy_try_on_node(const struct remedy_view *v, const struct alloc_use *u)
{
    for (size_t i = 0; i < v->slices.n; i++) {
        const struct api_resource_slice_spec *s = &v->slices.p[i]->spec;
        if (s->node_name.n && str_eq(s->pool.name, u->id.pool) && str_eq(s->driver, u->id.driver))
            return true;
    }
    return false;
}

static bool remedy_try_keeps_use(const struct remedy_view *v, const struct alloc_use *u,
                                 const struct candidate *const *changes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((changes[i]->kind == ALLOC_CHANGE_HOLDER && str_eq(changes[i]->what, u->owner)) ||
            (changes[i]->kind == ALLOC_CHANGE_NODE && remedy_try_on_node(v, u)))
            return false;
    return true;
}

static int solve_small(struct remedy_search *r, const struct remedy_view *v,
                       const struct candidate *const *changes, size_t n,
                       const struct api_resource_claim *const *claims, struct str *ret_node)
{
    const struct alloc_cluster *from = v->view->cluster;
    struct alloc_use *uses = arena_array(r->arena, struct alloc_use, v->uses.n + 1);
    size_t uses_len = 0;
    for (size_t i = 0; i < v->uses.n; i++)
        if (remedy_try_keeps_use(v, &v->uses.p[i], changes, n))
            uses[uses_len++] = v->uses.p[i];
    struct alloc_kit kit = from->kit;
    // With the kit, the meter pays for classes, too. One of its own may be of several threads.
    struct alloc_input in = {.features = from->features,
                             .kit = from->own_kit ? NULL : &kit,
                             .slices = v->slices.p,
                             .slices_len = v->slices.n,
                             .classes = v->classes.p,
                             .classes_len = v->classes.n,
                             .taint_rules = from->taint_rules,
                             .taint_rules_len = from->taint_rules_len,
                             .uses = uses,
                             .uses_len = uses_len};
    struct alloc_cluster *cluster = NULL;
    struct alloc_view *view = NULL;
    int fits = 0;
    if (alloc_cluster_new(&in, &cluster, NULL) == 0 &&
        alloc_view_new(cluster, v->view->node, &view, NULL) == 0)
        fits = remedy_try_solve(r, view, claims, ret_node);
    solver_begin(r->s, v->view); // lets go of programs and devices of the small cluster
    alloc_view_free(view);
    alloc_cluster_free(cluster);
    return fits;
}

int remedy_try(struct remedy_search *r, const struct candidate *const *changes, size_t n,
               struct str *ret_node)
{
    struct arena_mark mark = arena_mark(r->arena);
    const struct api_resource_claim *const *claims = changed_claims(r, changes, n);
    uint32_t only = UINT32_MAX;
    int fits = 0;
    for (size_t i = 0; i < n; i++)
        if (of_cluster(changes[i]))
            only = changes[i]->view;
    if (only != UINT32_MAX) {
        fits = solve_small(r, &r->views[only], changes, n, claims, ret_node);
    } else {
        for (size_t i = 0; i < r->views_len && fits == 0; i++)
            fits = remedy_try_solve(r, r->views[i].view, claims, ret_node);
        solver_begin(r->s, r->views_len ? r->views[0].view : NULL); // the claims go
    }
    arena_rewind(r->arena, mark);
    return fits;
}
