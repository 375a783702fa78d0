// SPDX-License-Identifier: Apache-2.0
//
// A smallest set of requests and constraints that conflict: everything that can be dropped without
// making the rest fit is dropped, one after the other. What is left fits as soon as any one of it
// goes.
#include "alloc/explain/explain_int.h"
#include "api/api.h"

#include "base/banned.h"

#define CORE_PARTS_MAX 48 // one solve each

// A request, or a constraint where constraint is set.
struct core_part {
    uint32_t claim, at;
    bool constraint;
    bool dropped;
};

struct core_search {
    struct alloc_solver *s;
    const struct alloc_view *view;
    const struct api_resource_claim *const *claims;
    size_t claims_len;
    struct arena arena;
    struct core_part parts[CORE_PARTS_MAX];
    size_t parts_len;
};

static bool core_is_dropped(const struct core_search *c, uint32_t claim, uint32_t at,
                            bool constraint)
{
    for (size_t i = 0; i < c->parts_len; i++)
        if (c->parts[i].claim == claim && c->parts[i].at == at &&
            c->parts[i].constraint == constraint)
            return c->parts[i].dropped;
    return false;
}

static bool core_add_parts(struct core_search *c)
{
    for (uint32_t i = 0; i < c->claims_len; i++) {
        const struct api_device_claim *d = &c->claims[i]->spec.devices;
        if (c->parts_len + d->requests.n + d->constraints.n > CORE_PARTS_MAX)
            return false;
        // Constraints are tried first: fewer of them make what is left easier to read.
        for (uint32_t k = 0; k < d->constraints.n; k++)
            c->parts[c->parts_len++] = (struct core_part){i, k, true, false};
        for (uint32_t k = 0; k < d->requests.n; k++)
            c->parts[c->parts_len++] = (struct core_part){i, k, false, false};
    }
    return c->parts_len > 1;
}

static bool core_has_request(const struct api_device_claim *d, struct str name)
{
    struct str head, rest;
    if (!str_cut(name, '/', &head, &rest))
        head = name;
    for (size_t i = 0; i < d->requests.n; i++)
        if (str_eq(d->requests.p[i].name, head))
            return true;
    return false;
}

// A constraint that names requests which are gone speaks of the others only. False: of none.
static bool core_narrow_constraint(const struct api_device_claim *d,
                                   struct api_device_constraint *x)
{
    size_t n = 0;
    bool named = x->requests.n > 0;
    for (size_t i = 0; i < x->requests.n; i++)
        if (core_has_request(d, x->requests.p[i]))
            x->requests.p[n++] = x->requests.p[i];
    x->requests.n = n;
    return !named || n > 0;
}

static const struct api_resource_claim *core_narrow_claim(struct core_search *c, uint32_t at)
{
    struct api_resource_claim *copy = arena_one(&c->arena, struct api_resource_claim);
    api_copy(&api_resource_claim_type, c->claims[at], copy, &c->arena);
    struct api_device_claim *d = &copy->spec.devices;
    size_t n = 0;
    for (uint32_t i = 0; i < d->requests.n; i++)
        if (!core_is_dropped(c, at, i, false))
            d->requests.p[n++] = d->requests.p[i];
    d->requests.n = n;
    n = 0;
    for (uint32_t i = 0; i < d->constraints.n; i++)
        if (!core_is_dropped(c, at, i, true) && core_narrow_constraint(d, &d->constraints.p[i]))
            d->constraints.p[n++] = d->constraints.p[i];
    d->constraints.n = n;
    return n + d->requests.n ? copy : NULL;
}

// Solves without what is dropped.
static enum alloc_verdict core_solve(struct core_search *c)
{
    struct arena_mark mark = arena_mark(&c->arena);
    const struct api_resource_claim **left =
        arena_array(&c->arena, const struct api_resource_claim *, c->claims_len + 1);
    struct alloc_answer a = {.verdict = ALLOC_ALLOCATED};
    size_t n = 0;
    for (uint32_t i = 0; i < c->claims_len; i++) {
        const struct api_resource_claim *claim = core_narrow_claim(c, i);
        if (claim && claim->spec.devices.requests.n)
            left[n++] = claim;
    }
    if (n)
        alloc_solve(c->s, c->view, left, n, &a);
    enum alloc_verdict verdict = a.verdict;
    solver_begin(c->s, c->view); // the copies go
    arena_rewind(&c->arena, mark);
    return verdict;
}

static void core_write(const struct core_search *c, struct sbuf *out)
{
    size_t requests = 0;
    size_t constraints = 0;
    for (size_t i = 0; i < c->parts_len; i++)
        requests += !c->parts[i].dropped && !c->parts[i].constraint;
    sbuf_addf(out, "request%s ", requests == 1 ? "" : "s");
    for (size_t i = 0, n = 0; i < c->parts_len; i++) {
        const struct core_part *p = &c->parts[i];
        const struct api_resource_claim *claim = c->claims[p->claim];
        if (p->dropped || p->constraint)
            continue;
        sbuf_addf(out, "%s%.*s", n++ ? ", " : "",
                  STR_ARG(claim->spec.devices.requests.p[p->at].name));
        if (c->claims_len > 1)
            sbuf_addf(out, " of %.*s", STR_ARG(claim->metadata.name));
    }
    for (size_t i = 0; i < c->parts_len; i++) {
        const struct core_part *p = &c->parts[i];
        if (p->dropped || !p->constraint)
            continue;
        const struct api_device_constraint *x =
            &c->claims[p->claim]->spec.devices.constraints.p[p->at];
        sbuf_addf(out, "%s%.*s", constraints++ ? ", " : " and the constraint on ",
                  STR_ARG(x->has_match_attribute ? x->match_attribute : x->distinct_attribute));
    }
}

bool alloc_conflict_core(struct alloc_solver *s, const struct alloc_view *view,
                         const struct api_resource_claim *const *claims, size_t claims_len,
                         struct sbuf *out)
{
    struct core_search c = {.s = s, .view = view, .claims = claims, .claims_len = claims_len};
    bool certain = core_add_parts(&c) && core_solve(&c) == ALLOC_UNSATISFIABLE;
    size_t left = c.parts_len;
    for (size_t i = 0; certain && i < c.parts_len; i++) {
        c.parts[i].dropped = true;
        enum alloc_verdict v = core_solve(&c);
        c.parts[i].dropped = v == ALLOC_UNSATISFIABLE;
        left -= c.parts[i].dropped;
        certain = v == ALLOC_UNSATISFIABLE || v == ALLOC_ALLOCATED;
    }
    if (certain && left > 1)
        core_write(&c, out);
    arena_done(&c.arena);
    return certain && left > 1;
}
