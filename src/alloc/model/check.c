// SPDX-License-Identifier: Apache-2.0
//
// The independent checker: is this an answer? It shares the view and the judgement of a single
// device and capacity with the search, but nothing of its bookkeeping: sums, sets and counts are
// recomputed from the results, with quantities and texts instead of amounts and numbers.
#include <stdarg.h>

#include "alloc/search/solver_int.h"

#include "base/banned.h"

struct checker {
    struct alloc_solver *s; // for selectors and attributes only
    const struct api_allocation_result *results;
    struct sbuf *problems;
    struct arena arena;
    bool ok;
};

static void check_add_problem(struct checker *c, const char *fmt, ...) ERR_PRINTF(2, 3);

static void check_add_problem(struct checker *c, const char *fmt, ...)
{
    va_list ap;
    struct err e = {0};
    va_start(ap, fmt);
    (void)err_set_v(&e, ERR_INVALID, fmt, ap);
    va_end(ap);
    c->ok = false;
    sbuf_addz(c->problems, e.msg);
    sbuf_addc(c->problems, '\n');
}

// --- Finding things ------------------------------------------------------------------------------

static uint32_t check_find_device(const struct alloc_view *v,
                                  const struct api_device_request_allocation_result *r)
{
    for (uint32_t i = 0; i < v->devices_len; i++) {
        const struct cl_device *d = v->devices[i].cl;
        if (str_eq(d->api->name, r->device) && str_eq(d->slice->spec.pool.name, r->pool) &&
            str_eq(d->slice->spec.driver, r->driver))
            return i;
    }
    return UINT32_MAX;
}

static const struct alternative *check_find_request(const struct alloc_solver *s, uint32_t claim,
                                                    struct str name)
{
    for (size_t i = 0; i < s->p.alternatives_len; i++)
        if (s->p.alternatives[i].claim == claim && str_eq(s->p.alternatives[i].full_name, name))
            return &s->p.alternatives[i];
    return NULL;
}

// A result with what it refers to.
struct entry {
    const struct api_device_request_allocation_result *r;
    const struct alternative *a;
    uint32_t device;
    uint32_t claim;
};

struct entries VEC(struct entry);

static void check_resolve_result(struct checker *c, struct entries *out)
{
    for (uint32_t i = 0; i < c->s->p.claims_len; i++) {
        const struct api_device_request_allocation_result_array *rs =
            &c->results[i].devices.results;
        if (rs->n > ALLOC_CLAIM_DEVICES_MAX)
            check_add_problem(c, "claim %u has %zu devices", i, rs->n);
        for (size_t k = 0; k < rs->n; k++) {
            struct entry e = {&rs->p[k], check_find_request(c->s, i, rs->p[k].request),
                              check_find_device(c->s->view, &rs->p[k]), i};
            if (!e.a)
                check_add_problem(c, "request %.*s does not exist", STR_ARG(e.r->request));
            else if (e.device == UINT32_MAX)
                check_add_problem(c, "device %.*s is not on this node", STR_ARG(e.r->device));
            else
                vec_push_arena(&c->arena, out, e);
        }
    }
}

// --- Counts --------------------------------------------------------------------------------------

static size_t check_count_of(const struct entries *es, const struct alternative *a)
{
    size_t n = 0;
    for (size_t i = 0; i < es->n; i++)
        n += es->p[i].a == a;
    return n;
}

static void check_counts(struct checker *c, const struct entries *es)
{
    const struct alloc_solver *s = c->s;
    for (size_t r = 0; r < s->p.requests_len; r++) {
        const struct request *q = &s->p.requests[r];
        size_t served = 0;
        bool nothing_wanted = false;
        for (uint32_t k = 0; k < q->n; k++) {
            const struct alternative *a = &s->p.alternatives[q->first + k];
            size_t n = check_count_of(es, a);
            nothing_wanted |= !a->mode_all && a->count == 0;
            if (n == 0)
                continue;
            served++;
            if ((int64_t)n != a->count)
                check_add_problem(c, "request %.*s has %zu devices instead of %lld",
                                  STR_ARG(a->full_name), n, (long long)a->count);
        }
        if (served > 1 || (served == 0 && !nothing_wanted))
            check_add_problem(c, "request %.*s: %zu alternatives are served",
                              STR_ARG(s->p.alternatives[q->first].full_name), served);
    }
}

// --- Devices by themselves -----------------------------------------------------------------------

static void check_use(struct checker *c, const struct entries *es, size_t i)
{
    const struct entry *e = &es->p[i];
    const struct vw_device *d = &c->s->view->devices[e->device];
    if (!e->a->admin && d->exclusive_use)
        check_add_problem(c, "device %.*s is in use", STR_ARG(e->r->device));
    for (size_t k = 0; k < i; k++) {
        const struct entry *o = &es->p[k];
        if (o->device != e->device)
            continue;
        if (o->a == e->a)
            check_add_problem(c, "device %.*s twice in a request", STR_ARG(e->r->device));
        else if (!d->shared && (!e->a->admin || o->claim == e->claim))
            check_add_problem(c, "device %.*s twice", STR_ARG(e->r->device));
    }
}

static void check_one_device(struct checker *c, const struct entry *e)
{
    const struct vw_device *d = &c->s->view->devices[e->device];
    const struct alloc_features *f = &c->s->view->cluster->features;
    if (select_match(c->s, e->a, e->device) != MATCH_YES)
        check_add_problem(c, "device %.*s is not selected by %.*s", STR_ARG(e->r->device),
                          STR_ARG(e->r->request));
    if (f->device_taints && !select_tolerates(d->cl, e->a->tolerations))
        check_add_problem(c, "device %.*s is tainted", STR_ARG(e->r->device));
    if (d->unsupported)
        check_add_problem(c, "device %.*s is not supported here", STR_ARG(e->r->device));
    if (e->r->has_share_id != d->shared)
        check_add_problem(c, "device %.*s: share ID", STR_ARG(e->r->device));
    if (e->r->has_admin_access != e->a->admin)
        check_add_problem(c, "device %.*s: admin access", STR_ARG(e->r->device));
}

// --- Constraints ---------------------------------------------------------------------------------

static bool shares_value(const struct attr_value *a, const struct attr_value *b)
{
    for (uint16_t i = 0; i < a->n; i++)
        for (uint16_t k = 0; k < b->n; k++)
            if (a->ids[i] == b->ids[k])
                return true;
    return false;
}

static void check_match_values(struct checker *c, const struct attr_value **vs, size_t n,
                               struct str name)
{
    for (size_t i = 0; n && i < vs[0]->n; i++) {
        struct attr_value one = {&vs[0]->ids[i], 1, ATTR_VALUE};
        size_t have = 0;
        while (have < n && shares_value(&one, vs[have]))
            have++;
        if (have == n)
            return;
    }
    if (n > 1 || (n == 1 && vs[0]->state == ATTR_MISSING))
        check_add_problem(c, "no common value of %.*s", STR_ARG(name));
}

static void check_distinct(struct checker *c, const struct attr_value **vs, size_t n,
                           struct str name)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (shares_value(vs[i], vs[k]))
                check_add_problem(c, "a value of %.*s occurs twice", STR_ARG(name));
}

static void check_constraints(struct checker *c, const struct entries *es)
{
    for (uint32_t i = 0; i < c->s->p.claims_len; i++) {
        const struct claim *claim = &c->s->p.claims[i];
        for (uint32_t j = 0; j < claim->constraints_len; j++) {
            const struct constraint *k = &c->s->p.constraints[claim->first_constraint + j];
            const struct attr_value **vs =
                arena_array(&c->arena, const struct attr_value *, es->n + 1);
            size_t n = 0;
            for (size_t e = 0; e < es->n; e++)
                if (es->p[e].claim == i && es->p[e].a->columns[j] != UINT32_MAX)
                    vs[n++] = attr_column_value(c->s, es->p[e].a->columns[j], es->p[e].device);
            for (size_t e = 0; e < n; e++)
                if (vs[e]->state == ATTR_MISSING || vs[e]->state == ATTR_ERROR)
                    check_add_problem(c, "a device lacks %.*s", STR_ARG(k->attribute));
            if (k->distinct)
                check_distinct(c, vs, n, k->attribute);
            else
                check_match_values(c, vs, n, k->attribute);
        }
    }
}

// --- Capacities and counters ---------------------------------------------------------------------

static void check_device_capacities(struct checker *c, const struct entries *es, size_t i)
{
    const struct vw_device *d = &c->s->view->devices[es->p[i].device];
    const struct api_device_capacity_map *m = &d->cl->api->capacity;
    if (!c->s->view->cluster->features.consumable_capacity)
        return;
    if (capacity_need_of(c->s, es->p[i].a, es->p[i].device) != NEED_OK)
        check_add_problem(c, "device %.*s cannot give what %.*s asks", STR_ARG(es->p[i].r->device),
                          STR_ARG(es->p[i].r->request));
    for (size_t k = 0; k < m->n; k++) {
        amount sum = d->cl->used[k];
        for (size_t e = 0; e < es->n; e++) {
            if (es->p[e].device != es->p[i].device || (!d->shared && e != i))
                continue;
            const struct api_quantity_map *took = &es->p[e].r->consumed_capacity;
            if (d->shared && (took->n != m->n || !str_eq(took->p[k].key, m->p[k].key)))
                check_add_problem(c, "device %.*s: consumed capacity", STR_ARG(es->p[i].r->device));
            else
                sum += d->shared ? amount_from_quantity(&took->p[k].value)
                                 : need_amount(c->s, es->p[e].a, d->first_cap + (uint32_t)k);
        }
        if (sum > amount_from_quantity(&m->p[k].value.value))
            check_add_problem(c, "device %.*s: capacity %.*s is exceeded",
                              STR_ARG(es->p[i].r->device), STR_ARG(m->p[k].key));
    }
}

// Is this the first use of a shared device, or any use of another? Only those draw on counters.
static bool check_charges_counters(const struct checker *c, const struct entries *es, size_t i)
{
    const struct vw_device *d = &c->s->view->devices[es->p[i].device];
    if (!d->shared)
        return true;
    for (size_t k = 0; k < i; k++)
        if (es->p[k].device == es->p[i].device)
            return false;
    return !d->shared_use;
}

static void check_counter_sums(struct checker *c, const struct entries *es)
{
    const struct alloc_view *v = c->s->view;
    amount *sums = arena_array(&c->arena, amount, v->counters.n + 1);
    bool *touched = arena_array(&c->arena, bool, v->pools_len + 1);
    for (size_t i = 0; i < es->n; i++) {
        const struct vw_device *d = &v->devices[es->p[i].device];
        if (!check_charges_counters(c, es, i) || d->groups_len == 0)
            continue;
        touched[d->pool] = true;
        for (uint16_t k = 0; k < d->counters_len; k++)
            sums[v->counter_uses[d->first_counter + k].counter] +=
                v->counter_uses[d->first_counter + k].value;
    }
    for (size_t i = 0; i < v->counters.n; i++)
        if (touched[v->counters.pool[i]] && sums[i] > v->counters.available[i])
            check_add_problem(c, "counter %.*s is exceeded", STR_ARG(v->counters.names[i]));
}

static void check_compatibility_groups(struct checker *c, const struct entries *es)
{
    const struct alloc_view *v = c->s->view;
    if (!v->cluster->features.compatibility_groups)
        return;
    struct group_state *g = arena_array(&c->arena, struct group_state, v->sets_len + 1);
    if (v->sets_len)
        memcpy(g, v->groups, v->sets_len * sizeof(*g));
    for (size_t i = 0; i < es->n; i++) {
        const struct vw_device *d = &v->devices[es->p[i].device];
        for (uint16_t k = 0; check_charges_counters(c, es, i) && k < d->groups_len; k++) {
            const struct group_use *u = &v->group_uses[d->first_group + k];
            struct group_state *x = &g[u->set];
            if (!x->members)
                *x = (struct group_state){u->mask, true, u->mask == 0};
            else if (x->all_empty != (u->mask == 0) || (u->mask && !(x->mask & u->mask)))
                check_add_problem(c, "device %.*s is not compatible with others",
                                  STR_ARG(es->p[i].r->device));
            else
                x->mask &= u->mask;
        }
    }
}

bool alloc_check(const struct alloc_view *view, const struct api_resource_claim *const *claims,
                 size_t claims_len, const struct api_allocation_result *results, size_t results_len,
                 struct sbuf *problems)
{
    struct checker c = {.results = results, .problems = problems, .ok = true};
    struct entries es = {0};
    if (claims_len != results_len) {
        check_add_problem(&c, "%zu results for %zu claims", results_len, claims_len);
        return false;
    }
    c.s = alloc_solver_new(NULL);
    c.s->view = view;
    if (!problem_build(c.s, claims, claims_len)) {
        check_add_problem(&c, "%.*s", STR_ARG(sbuf_str(&c.s->error)));
    } else {
        check_resolve_result(&c, &es);
        check_counts(&c, &es);
        for (size_t i = 0; i < es.n; i++) {
            check_use(&c, &es, i);
            check_one_device(&c, &es.p[i]);
            check_device_capacities(&c, &es, i);
        }
        check_constraints(&c, &es);
        check_counter_sums(&c, &es);
        check_compatibility_groups(&c, &es);
    }
    alloc_solver_free(c.s);
    arena_done(&c.arena);
    return c.ok;
}
