// SPDX-License-Identifier: Apache-2.0
//
// One question on many nodes: nodes in the same state are shown once. A state is the hash of what
// the explanation counts; who holds devices is gathered over all nodes of a group.
#include "alloc/explain/explain_int.h"

#include "base/banned.h"

struct alloc_report *alloc_report_new(void)
{
    return xcalloc(1, sizeof(struct alloc_report));
}

static void drop_holders(struct report_group *g)
{
    for (size_t i = 0; g->in_use && i < g->pub.explanation.funnels_len; i++)
        map_done(&g->in_use[i].counts);
}

void alloc_report_free(struct alloc_report *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->groups.n; i++)
        drop_holders(&r->groups.p[i]);
    vec_done(&r->groups);
    map_done(&r->by_state);
    explain_programs_done(&r->kept);
    arena_done(&r->arena);
    arena_done(&r->remedies);
    free(r);
}

void alloc_report_set_quiet(struct alloc_report *r)
{
    r->quiet = true;
}

void alloc_report_again(struct alloc_report *r, size_t group, struct str node)
{
    struct report_group *g = &r->groups.p[group];
    r->nodes++;
    r->sorted = NULL;
    r->last = group;
    g->pub.nodes++;
    if (g->pub.names_len < ALLOC_NAMES_SHOWN)
        g->pub.names[g->pub.names_len++] = arena_str(&r->arena, node);
}

// The group of a state, with the node counted in. *is_new: it has to be filled in.
static struct report_group *report_join_group(struct alloc_report *r, struct str state,
                                              struct str node, bool *is_new)
{
    const uint32_t *known = map_get(&r->by_state, state);
    *is_new = !known;
    if (!known) {
        *map_put(&r->by_state, arena_str(&r->arena, state)) = (uint32_t)r->groups.n;
        vec_push(&r->groups, (struct report_group){.order = r->nodes});
    }
    r->last = known ? *known : r->groups.n - 1;
    alloc_report_again(r, r->last, node);
    return &r->groups.p[r->last];
}

size_t alloc_report_last(const struct alloc_report *r, bool *ret_first)
{
    *ret_first = r->groups.p[r->last].pub.nodes == 1;
    return r->last;
}

void alloc_report_prefer_last(struct alloc_report *r)
{
    if (r->groups.n)
        r->groups.p[r->last].pub.preferred = true;
}

bool alloc_report_add(struct alloc_report *r, struct alloc_solver *s, const struct alloc_view *view,
                      const struct api_resource_claim *const *claims, size_t claims_len)
{
    struct explainer x;
    bool is_new = false;
    bool ok = explain_begin(&x, s, view, claims, claims_len, &r->kept);
    if (ok) {
        uint64_t state = explain_hash(&x);
        struct report_group *g = report_join_group(r, str_make((const char *)&state, sizeof(state)),
                                                   view->node->metadata.name, &is_new);
        if (is_new) {
            s->no_error_texts = r->quiet;
            explain_finish(&x, &r->arena, &g->pub.explanation);
            s->no_error_texts = false;
            g->pub.view = view;
            g->in_use = arena_array(&r->arena, struct holders, s->p.alternatives_len + 1);
        }
        for (size_t i = 0; i < s->p.alternatives_len; i++)
            explain_holders(&x, i, &g->in_use[i]);
        r->claims = claims;
        r->claims_len = claims_len;
    }
    explain_end(&x);
    return ok;
}

void alloc_report_refuse(struct alloc_report *r, struct str node, struct str reason)
{
    bool is_new = false;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addz(&key, "refused: "); // longer than a state
    sbuf_add(&key, reason);
    struct report_group *g = report_join_group(r, sbuf_str(&key), node, &is_new);
    if (is_new)
        g->pub.refused = arena_str(&r->arena, reason.n ? reason : STR("do not fit"));
}

// How many devices a group lacks, over all its requests; of alternatives the nearest counts.
static size_t report_count_lacking(const struct alloc_group *g)
{
    const struct alloc_explanation *e = &g->explanation;
    size_t sum = 0;
    if (!g->view)
        return SIZE_MAX;
    for (size_t i = 0; i < e->funnels_len; i++)
        if (!e->funnels[i].satisfied)
            sum += e->funnels[i].wanted > e->funnels[i].usable
                       ? e->funnels[i].wanted - e->funnels[i].usable
                       : 1;
    return sum;
}

// Devices that got past the selectors: of two groups that lack the same, these are nearer.
static size_t report_count_matching(const struct alloc_group *g)
{
    size_t sum = 0;
    for (size_t i = 0; i < g->explanation.funnels_len; i++) {
        const struct alloc_funnel *f = &g->explanation.funnels[i];
        sum += f->published - f->class_refused - f->selector_refused - f->selector_failed;
    }
    return sum;
}

static size_t report_count_of_class(const struct alloc_group *g)
{
    size_t sum = 0;
    for (size_t i = 0; i < g->explanation.funnels_len; i++)
        sum += g->explanation.funnels[i].published - g->explanation.funnels[i].class_refused;
    return sum;
}

static int group_cmp(const void *x, const void *y)
{
    const struct alloc_group *a = x;
    const struct alloc_group *b = y;
    size_t la = report_count_lacking(a), lb = report_count_lacking(b);
    if (la != lb)
        return la < lb ? -1 : 1;
    size_t ma = report_count_matching(a), mb = report_count_matching(b);
    if (ma != mb)
        return ma > mb ? -1 : 1;
    size_t ca = report_count_of_class(a), cb = report_count_of_class(b);
    if ((ca > 0) != (cb > 0))
        return ca > 0 ? -1 : 1;
    if (a->nodes != b->nodes)
        return a->nodes > b->nodes ? -1 : 1;
    return str_cmp(a->names[0], b->names[0]);
}

static void name_holders(struct alloc_report *r, struct report_group *g)
{
    struct alloc_explanation *e = &g->pub.explanation;
    if (!g->in_use)
        return;
    struct alloc_funnel *fs = arena_dup(&r->arena, e->funnels, (e->funnels_len + 1) * sizeof(*fs),
                                        _Alignof(struct alloc_funnel));
    for (size_t i = 0; i < e->funnels_len; i++)
        explain_name_holders(&fs[i], &g->in_use[i], &r->arena);
    r->sorted[g - r->groups.p].explanation.funnels = fs;
}

const struct alloc_group *alloc_report_finish(struct alloc_report *r, size_t *ret_len)
{
    *ret_len = r->groups.n;
    if (r->sorted)
        return r->sorted;
    r->sorted = arena_array(&r->arena, struct alloc_group, r->groups.n + 1);
    for (size_t i = 0; i < r->groups.n; i++) {
        r->sorted[i] = r->groups.p[i].pub;
        name_holders(r, &r->groups.p[i]);
    }
    qsort(r->sorted, r->groups.n, sizeof(*r->sorted), group_cmp);
    return r->sorted;
}
