// SPDX-License-Identifier: Apache-2.0
//
// From claims to a problem: every check that upstream makes before its search, in its order and
// with its texts; then requests, alternatives and constraints in flat arrays.
#include "alloc/search/solver_int.h"

#include "base/banned.h"

#define FOR_REQUEST "claim %.*s, request %.*s: "

static bool problem_refuse_request(struct alloc_solver *s, const struct alternative *a,
                                   const char *what)
{
    cleanup_sbuf struct sbuf claim = {0};
    solver_claim_name(&claim, s->p.claims[a->claim].api);
    solver_fail(s, FOR_REQUEST "%s", STR_ARG(sbuf_str(&claim)), STR_ARG(a->name), what);
    return false;
}

// --- Shared tables -------------------------------------------------------------------------------

static bool same_selectors(const struct api_device_selector_array *a,
                           const struct api_device_selector_array *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!str_eq(a->p[i].cel->expression, b->p[i].cel->expression))
            return false;
    return true;
}

static uint32_t selset_for(struct alloc_solver *s, const struct alternative *a)
{
    for (size_t i = 0; i < s->p.selsets_len; i++)
        if (s->p.selsets[i].class_ == a->class_ &&
            same_selectors(s->p.selsets[i].selectors, a->selectors))
            return (uint32_t)i;
    struct selset *set = &s->p.selsets[s->p.selsets_len];
    set->class_ = a->class_;
    set->selectors = a->selectors;
    set->class_only = a->selectors->n == 0;
    if (!set->class_only) {
        set->programs_len = a->selectors->n;
        const struct piece pieces[] = {
            PIECE(set->programs, a->selectors->n), PIECE(set->match, s->view->devices_len + 1),
            PIECE(set->answers, a->selectors->n),  PIECE(set->tried, a->selectors->n),
            PIECE(set->asked, a->selectors->n),
        };
        solver_allocate(s, pieces, array_len(pieces));
    }
    return (uint32_t)s->p.selsets_len++;
}

static bool same_capacity(const struct api_capacity_requirements *a,
                          const struct api_capacity_requirements *b)
{
    if (a->requests.n != b->requests.n)
        return false;
    for (size_t i = 0; i < a->requests.n; i++)
        if (!str_eq(a->requests.p[i].key, b->requests.p[i].key) ||
            quantity_cmp(&a->requests.p[i].value, &b->requests.p[i].value) != 0)
            return false;
    return true;
}

static uint32_t capreq_for(struct alloc_solver *s, const struct alternative *a)
{
    if (!a->capacity || a->capacity->requests.n == 0)
        return 0;
    for (size_t i = 1; i < s->p.capreqs_len; i++)
        if (same_capacity(s->p.capreqs[i].api, a->capacity))
            return (uint32_t)i;
    struct capreq *c = &s->p.capreqs[s->p.capreqs_len];
    c->api = a->capacity;
    const struct piece pieces[] = {
        PIECE(c->asked, a->capacity->requests.n),
        PIECE(c->need, s->view->caps_len + 1),
        PIECE(c->state, s->view->devices_len + 1),
    };
    solver_allocate(s, pieces, array_len(pieces));
    capacity_asked(a->capacity, c->asked);
    return (uint32_t)s->p.capreqs_len++;
}

static uint32_t column_for(struct alloc_solver *s, const struct alternative *a, struct str name)
{
    struct str expression = {0};
    for (size_t i = 0; a->derived && i < a->derived->n; i++)
        if (str_eq(a->derived->p[i].name, name))
            expression = a->derived->p[i].expression.p ? a->derived->p[i].expression : STR("");
    for (size_t i = 0; i < s->p.columns_len; i++)
        if (str_eq(s->p.columns[i].name, name) && str_eq(s->p.columns[i].expression, expression) &&
            !s->p.columns[i].expression.p == !expression.p)
            return (uint32_t)i;
    struct column *c = &s->p.columns[s->p.columns_len];
    c->name = name;
    c->expression = expression;
    c->values = arena_array(&s->arena, struct attr_value, s->view->devices_len + 1);
    return (uint32_t)s->p.columns_len++;
}

// --- Mode All ------------------------------------------------------------------------------------

static bool pools_settled(struct alloc_solver *s, const struct alternative *a,
                          const struct vw_pool *p)
{
    if (!p->incomplete && !p->invalid)
        return true;
    struct str text =
        arena_strf(&s->arena, "asks for all devices, but resource pool %.*s/%.*s is currently %s",
                   STR_ARG(p->driver), STR_ARG(p->name),
                   p->incomplete ? "being updated" : "invalid");
    return problem_refuse_request(s, a, text.p);
}

// Could the device hold the request if nothing else used it?
static bool fits_empty(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    for (uint32_t i = 0; i < d->caps_len; i++)
        if (need_amount(s, a, d->first_cap + i) > s->view->caps[d->first_cap + i].value)
            return false;
    return true;
}

// 1: the device belongs to the set, 0: it does not, -1: fatal.
static int wants_device(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    enum match_state m = select_match(s, a, device);
    if (m == MATCH_ERROR) {
        select_error(s, a, device);
        return -1;
    }
    if (m != MATCH_YES || !s->view->cluster->features.consumable_capacity)
        return m == MATCH_YES;
    enum need_state n = capacity_need_of(s, a, device);
    if (n == NEED_ERROR) {
        capacity_need_error(s, a, device, true);
        return -1;
    }
    return n == NEED_OK && fits_empty(s, a, device);
}

static bool collect_all(struct alloc_solver *s, struct alternative *a)
{
    const struct alloc_view *v = s->view;
    a->all = arena_array(&s->arena, uint32_t, v->devices_len + 1);
    a->count = 0;
    for (size_t p = 0; p < v->pools_len; p++) {
        if (!pools_settled(s, a, &v->pools[p]))
            return false;
        for (uint32_t i = 0; i < v->pools[p].devices_len; i++) {
            uint32_t device = v->pools[p].first_device + i;
            int r = wants_device(s, a, device);
            if (r < 0 || solver_tick(s, 8))
                return false;
            if (r)
                a->all[a->count++] = device;
        }
    }
    return true;
}

// --- One request or alternative ------------------------------------------------------------------

static bool selectors_are_cel(struct alloc_solver *s, const struct alternative *a)
{
    for (size_t i = 0; i < a->selectors->n; i++)
        if (!a->selectors->p[i].cel) {
            cleanup_sbuf struct sbuf claim = {0};
            solver_claim_name(&claim, s->p.claims[a->claim].api);
            solver_fail(s,
                        "claim %.*s, request %.*s, selector #%zu: CEL expression empty "
                        "(unsupported selector type?)",
                        STR_ARG(sbuf_str(&claim)), STR_ARG(a->name), i);
            return false;
        }
    return true;
}

// Few classes are compared faster than hashed.
#define CLASSES_COMPARED 4

static const struct cl_class *problem_class_named(const struct alloc_cluster *c, struct str name)
{
    if (c->classes_len > CLASSES_COMPARED) {
        const uint32_t *at = map_get(&c->class_names, name);
        return at ? &c->classes[*at] : NULL;
    }
    for (size_t i = 0; i < c->classes_len; i++)
        if (str_eq(c->classes[i].api->metadata.name, name))
            return &c->classes[i];
    return NULL;
}

static bool find_class(struct alloc_solver *s, struct alternative *a, struct str name)
{
    const struct alloc_cluster *c = s->view->cluster;
    if (!name.n)
        return problem_refuse_request(s, a,
                                      "missing device class name (unsupported request type?)");
    a->class_ = problem_class_named(c, name);
    if (!a->class_) {
        struct str text = arena_strf(&s->arena,
                                     "could not retrieve device class %.*s: "
                                     "deviceclass.resource.k8s.io \"%.*s\" not found",
                                     STR_ARG(name), STR_ARG(name));
        return problem_refuse_request(s, a, text.p);
    }
    s->budget.postponed |= !cluster_judge_class(c, a->class_, s->run, s->options.meter);
    return !s->budget.postponed;
}

// What exact requests and alternatives have in common.
struct asked {
    struct str class_name;
    struct str mode;
    bool has_admin;
};

static bool add_alternative(struct alloc_solver *s, struct alternative *a,
                            const struct asked *asked)
{
    const struct alloc_features *f = &s->view->cluster->features;
    if (a->derived->n && !f->derived_attributes)
        return problem_refuse_request(
            s, a, "cannot handle request with derived attributes, the feature is disabled");
    if (!selectors_are_cel(s, a))
        return false;
    if (asked->has_admin && !f->admin_access)
        return problem_refuse_request(s, a,
                                      "admin access is requested, but the feature is disabled");
    if (!find_class(s, a, asked->class_name))
        return false;
    a->selset = selset_for(s, a);
    a->capreq = capreq_for(s, a);
    s->p.any_admin |= a->admin;
    a->mode_all = str_eqz(asked->mode, "All");
    if (a->mode_all)
        return collect_all(s, a);
    if (!str_eqz(asked->mode, "ExactCount"))
        return problem_refuse_request(
            s, a, arena_strf(&s->arena, "unsupported count mode %.*s", STR_ARG(asked->mode)).p);
    if (a->count < 0)
        return problem_refuse_request(s, a, "negative number of devices");
    return true;
}

static bool add_exact(struct alloc_solver *s, const struct api_device_request *r,
                      struct alternative *a)
{
    const struct api_exact_device_request *e = r->exactly;
    a->full_name = r->name;
    a->name = r->name;
    if (!e)
        return problem_refuse_request(s, a, "neither exactly nor firstAvailable is set");
    a->selectors = &e->selectors;
    a->tolerations = &e->tolerations;
    a->capacity = e->capacity;
    a->derived = &e->derived_attributes;
    a->count = e->count;
    a->admin = e->has_admin_access && e->admin_access;
    return add_alternative(
        s, a, &(struct asked){e->device_class_name, e->allocation_mode, e->has_admin_access});
}

static bool add_sub(struct alloc_solver *s, const struct api_device_request *r,
                    const struct api_device_sub_request *e, struct alternative *a)
{
    char *full = arena_alloc(&s->arena, r->name.n + e->name.n + 2, 1);
    memcpy(full, r->name.p ? r->name.p : "", r->name.n);
    full[r->name.n] = '/';
    memcpy(full + r->name.n + 1, e->name.p ? e->name.p : "", e->name.n);
    a->full_name = str_make(full, r->name.n + e->name.n + 1);
    a->name = e->name;
    a->selectors = &e->selectors;
    a->tolerations = &e->tolerations;
    a->capacity = e->capacity;
    a->derived = &e->derived_attributes;
    a->count = e->count;
    return add_alternative(s, a, &(struct asked){e->device_class_name, e->allocation_mode, false});
}

// --- Requests ------------------------------------------------------------------------------------

static bool refuse_feature(struct alloc_solver *s, const struct api_resource_claim *claim,
                           const char *kind, struct str request, const char *why)
{
    cleanup_sbuf struct sbuf name = {0};
    solver_claim_name(&name, claim);
    solver_fail(s, "claim %.*s, %s %.*s: has %s feature is disabled", STR_ARG(sbuf_str(&name)),
                kind, STR_ARG(request), why);
    return false;
}

static bool features_allow(struct alloc_solver *s, const struct api_resource_claim *claim,
                           const struct api_device_request *r)
{
    static const char capacity[] = "capacity requests, but the DRAConsumableCapacity";
    const struct alloc_features *f = &s->view->cluster->features;
    if (!f->prioritized_list && r->first_available.n)
        return refuse_feature(s, claim, "request", r->name,
                              "subrequests, but the DRAPrioritizedList");
    if (f->consumable_capacity)
        return true;
    if (r->exactly && r->exactly->capacity)
        return refuse_feature(s, claim, "request", r->name, capacity);
    for (size_t i = 0; i < r->first_available.n; i++)
        if (r->first_available.p[i].capacity)
            return refuse_feature(s, claim, "subrequest", r->first_available.p[i].name, capacity);
    return true;
}

static bool problem_add_request(struct alloc_solver *s, uint32_t claim,
                                const struct api_device_request *r, int64_t *least)
{
    const struct api_resource_claim *api = s->p.claims[claim].api;
    struct request *q = &s->p.requests[s->p.requests_len];
    int64_t fewest = INT64_MAX;
    if (!features_allow(s, api, r))
        return false;
    q->claim = claim;
    q->first = (uint32_t)s->p.alternatives_len;
    q->has_alternatives = r->first_available.n > 0;
    q->n = q->has_alternatives ? (uint32_t)r->first_available.n : 1;
    for (uint32_t i = 0; i < q->n; i++) {
        struct alternative *a = &s->p.alternatives[s->p.alternatives_len++];
        a->claim = claim;
        a->request = (uint32_t)s->p.requests_len;
        if (!(q->has_alternatives ? add_sub(s, r, &r->first_available.p[i], a)
                                  : add_exact(s, r, a)))
            return false;
        if (a->count < fewest)
            fewest = a->count;
    }
    s->p.requests_len++;
    if (fewest > ALLOC_CLAIM_DEVICES_MAX - *least) {
        cleanup_sbuf struct sbuf name = {0};
        solver_claim_name(&name, api);
        solver_fail(s,
                    FOR_REQUEST "adding %lld devices exceeds the claim limit of %d, with %lld "
                                "already accounted for",
                    STR_ARG(sbuf_str(&name)), STR_ARG(r->name), (long long)fewest,
                    ALLOC_CLAIM_DEVICES_MAX, (long long)*least);
        return false;
    }
    *least += fewest;
    return true;
}

// --- Constraints ---------------------------------------------------------------------------------

static bool in_scope(const struct constraint *c, const struct api_device_request *r,
                     const struct alternative *a)
{
    if (c->requests->n == 0)
        return true;
    for (size_t i = 0; i < c->requests->n; i++)
        if (str_eq(c->requests->p[i], r->name) || str_eq(c->requests->p[i], a->full_name))
            return true;
    return false;
}

static bool problem_add_constraints(struct alloc_solver *s, struct claim *claim)
{
    const struct api_device_constraint_array *all = &claim->api->spec.devices.constraints;
    claim->first_constraint = (uint32_t)s->p.constraints_len;
    claim->constraints_len = (uint32_t)all->n;
    for (size_t i = 0; i < all->n; i++) {
        const struct api_device_constraint *k = &all->p[i];
        if (!k->has_match_attribute && !k->has_distinct_attribute) {
            cleanup_sbuf struct sbuf name = {0};
            solver_claim_name(&name, claim->api);
            solver_fail(s,
                        "claim %.*s, constraint #%zu: empty constraint (unsupported constraint "
                        "type?)",
                        STR_ARG(sbuf_str(&name)), i);
            return false;
        }
        s->p.constraints[s->p.constraints_len++] = (struct constraint){
            .attribute = k->has_match_attribute ? k->match_attribute : k->distinct_attribute,
            .requests = &k->requests,
            .distinct = !k->has_match_attribute};
    }
    return true;
}

static void attach_columns(struct alloc_solver *s, struct claim *claim)
{
    for (uint32_t i = 0; i < claim->requests_len; i++) {
        const struct request *q = &s->p.requests[claim->first_request + i];
        const struct api_device_request *r = &claim->api->spec.devices.requests.p[i];
        for (uint32_t k = 0; k < q->n; k++) {
            struct alternative *a = &s->p.alternatives[q->first + k];
            if (!claim->constraints_len)
                continue;
            a->columns = arena_array(&s->arena, uint32_t, claim->constraints_len);
            for (uint32_t j = 0; j < claim->constraints_len; j++) {
                const struct constraint *c = &s->p.constraints[claim->first_constraint + j];
                a->columns[j] = in_scope(c, r, a) ? column_for(s, a, c->attribute) : UINT32_MAX;
            }
        }
    }
}

// --- Everything ----------------------------------------------------------------------------------

static bool problem_reserve_arrays(struct alloc_solver *s,
                                   const struct api_resource_claim *const *claims,
                                   size_t claims_len)
{
    size_t requests = 0, alternatives = 0, constraints = 0, columns = 0;
    for (size_t i = 0; i < claims_len; i++) {
        const struct api_device_claim *d = &claims[i]->spec.devices;
        size_t here = 0;
        requests += d->requests.n;
        constraints += d->constraints.n;
        for (size_t j = 0; j < d->requests.n; j++)
            here += d->requests.p[j].first_available.n ? d->requests.p[j].first_available.n : 1;
        alternatives += here;
        columns += here * d->constraints.n;
    }
    if (requests > ALLOC_REQUESTS_MAX || alternatives > 8 * ALLOC_REQUESTS_MAX ||
        columns > 64 * ALLOC_REQUESTS_MAX) {
        solver_fail(s, "the claims have %zu requests, more than %d", requests, ALLOC_REQUESTS_MAX);
        return false;
    }
    const struct piece pieces[] = {
        PIECE(s->p.claims, claims_len + 1),         PIECE(s->p.requests, requests + 1),
        PIECE(s->p.alternatives, alternatives + 1), PIECE(s->p.constraints, constraints + 1),
        PIECE(s->p.selsets, alternatives + 1),      PIECE(s->p.capreqs, alternatives + 2),
        PIECE(s->p.columns, columns + 1),
    };
    solver_allocate(s, pieces, array_len(pieces));
    s->p.capreqs_len = 1;
    return true;
}

bool problem_build(struct alloc_solver *s, const struct api_resource_claim *const *claims,
                   size_t claims_len)
{
    if (!problem_reserve_arrays(s, claims, claims_len))
        return false;
    s->p.claims_len = claims_len;
    for (size_t i = 0; i < claims_len; i++) {
        struct claim *c = &s->p.claims[i];
        const struct api_device_request_array *rs = &claims[i]->spec.devices.requests;
        int64_t least = 0;
        c->api = claims[i];
        c->first_request = (uint32_t)s->p.requests_len;
        c->requests_len = (uint32_t)rs->n;
        for (size_t j = 0; j < rs->n; j++)
            if (!problem_add_request(s, (uint32_t)i, &rs->p[j], &least))
                return false;
        if (rs->n)
            s->p.requests[s->p.requests_len - 1].claim_ends = true;
        if (!problem_add_constraints(s, c))
            return false;
        attach_columns(s, c);
    }
    return true;
}
