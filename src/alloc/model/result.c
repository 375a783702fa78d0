// SPDX-License-Identifier: Apache-2.0
//
// From picked devices to AllocationResults: device results in the order of picking, configurations
// of classes and claims, the node selector.
#include "alloc/search/solver_int.h"
#include "base/uuid.h"

#include "base/banned.h"

#define FIXED_SHARE "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"

// --- Devices -------------------------------------------------------------------------------------

// What only shared devices have: a share ID and all capacities, in one piece.
static void add_share(struct alloc_solver *s, const struct alternative *a,
                      const struct vw_device *d, struct api_device_request_allocation_result *r)
{
    const struct api_device_capacity_map *m = &d->cl->api->capacity;
    size_t bytes = m->n * sizeof(struct api_quantity_entry);
    struct api_quantity_entry *p =
        arena_alloc(&s->arena, bytes + UUID_TEXT_LEN + 1, _Alignof(max_align_t));
    r->has_share_id = true;
    r->share_id = STR(FIXED_SHARE);
    if (s->options.rng) {
        struct uuid u = uuid_random(s->options.rng);
        uuid_write(&u, (char *)p + bytes);
        r->share_id = str_make((const char *)p + bytes, UUID_TEXT_LEN);
    }
    if (m->n == 0)
        return;
    for (size_t i = 0; i < m->n; i++) {
        p[i].key = m->p[i].key;
        capacity_taken(s, a, d->first_cap + (uint32_t)i, &p[i].value);
    }
    r->consumed_capacity = (struct api_quantity_map){p, m->n};
}

static void result_add_device(struct alloc_solver *s, const struct pick *p,
                              struct api_device_request_allocation_result *r)
{
    const struct alternative *a = &s->p.alternatives[p->alternative];
    const struct vw_device *d = &s->view->devices[p->device];
    const struct alloc_cluster *c = s->view->cluster;
    const struct api_device *api = d->cl->api;
    r->request = a->full_name;
    r->driver = d->cl->slice->spec.driver;
    r->pool = d->cl->slice->spec.pool.name;
    r->device = api->name;
    r->has_admin_access = a->admin;
    r->admin_access = a->admin;
    r->tolerations = *a->tolerations;
    if (c->experimental)
        r->skip_node_operations = d->cl->slice->spec.skip_node_operations;
    if (c->features.binding_conditions) {
        r->binding_conditions = api->binding_conditions;
        r->binding_failure_conditions = api->binding_failure_conditions;
    }
    if (d->shared)
        add_share(s, a, d, r);
}

// --- Node selector -------------------------------------------------------------------------------

static bool same_values(const struct api_str_array *a, const struct api_str_array *b)
{
    for (size_t pass = 0; pass < 2; pass++) {
        const struct api_str_array *x = pass ? b : a;
        const struct api_str_array *y = pass ? a : b;
        for (size_t i = 0; i < x->n; i++) {
            size_t j = 0;
            while (j < y->n && !str_eq(x->p[i], y->p[j]))
                j++;
            if (j == y->n)
                return false;
        }
    }
    return true;
}

static void add_requirements(struct arena *m,
                             const struct api_node_selector_requirement_array *from,
                             struct api_node_selector_requirement_array *to)
{
    if (from->n == 0)
        return;
    struct api_node_selector_requirement *p =
        arena_array(m, struct api_node_selector_requirement, to->n + from->n);
    if (to->n)
        memcpy(p, to->p, to->n * sizeof(*p));
    to->p = p;
    for (size_t i = 0; i < from->n; i++) {
        const struct api_node_selector_requirement *r = &from->p[i];
        size_t j = 0;
        while (j < to->n && !(str_eq(p[j].key, r->key) && str_eq(p[j].operator, r->operator) &&
                              same_values(&p[j].values, &r->values)))
            j++;
        if (j == to->n)
            p[to->n++] = *r;
    }
}

// A selector with one term, in one piece.
struct one_term {
    struct api_node_selector selector;
    struct api_node_selector_term term;
    struct api_node_selector_requirement requirement;
    struct str name;
};

static struct api_node_selector *this_node(struct alloc_solver *s)
{
    struct one_term *t = arena_one(&s->arena, struct one_term);
    t->name = s->view->node->metadata.name;
    t->requirement =
        (struct api_node_selector_requirement){STR("metadata.name"), STR("In"), {&t->name, 1}};
    t->term.match_fields = (struct api_node_selector_requirement_array){&t->requirement, 1};
    t->selector.node_selector_terms = (struct api_node_selector_term_array){&t->term, 1};
    return &t->selector;
}

// False when a selector has several terms, which cannot be joined.
static bool node_selector(struct alloc_solver *s, const struct pick *picks, size_t n,
                          struct str claim, struct api_node_selector **ret)
{
    struct one_term *t = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct cl_device *d = s->view->devices[picks[i].device].cl;
        const struct api_resource_slice_spec *spec = &d->slice->spec;
        bool own = spec->has_per_device_node_selection && spec->per_device_node_selection;
        bool named = own ? d->api->has_node_name : spec->has_node_name;
        const struct api_node_selector *sel = own ? d->api->node_selector : spec->node_selector;
        if (named || (d->api->has_binds_to_node && d->api->binds_to_node)) {
            *ret = this_node(s);
            return true;
        }
        if (sel && sel->node_selector_terms.n > 1) {
            solver_fail(s,
                        "create NodeSelector for claim %.*s: unsupported "
                        "ResourceSlice.NodeSelector with %zu terms",
                        STR_ARG(claim), sel->node_selector_terms.n);
            return false;
        }
        if (sel && sel->node_selector_terms.n) {
            if (!t)
                t = arena_one(&s->arena, struct one_term);
            add_requirements(&s->arena, &sel->node_selector_terms.p[0].match_fields,
                             &t->term.match_fields);
            add_requirements(&s->arena, &sel->node_selector_terms.p[0].match_expressions,
                             &t->term.match_expressions);
        }
    }
    if (t && (t->term.match_fields.n || t->term.match_expressions.n)) {
        t->selector.node_selector_terms = (struct api_node_selector_term_array){&t->term, 1};
        *ret = &t->selector;
    }
    return true;
}

// --- Configurations ------------------------------------------------------------------------------

static const struct alternative *chosen_of(const struct alloc_solver *s, uint32_t request)
{
    return &s->p.alternatives[s->p.requests[request].first + s->at.chosen[request]];
}

static void result_add_name(struct alloc_solver *s, struct api_str_array *list, struct str name)
{
    struct str *p = arena_array(&s->arena, struct str, list->n + 1);
    if (list->n)
        memcpy(p, list->p, list->n * sizeof(*p));
    p[list->n] = name;
    *list = (struct api_str_array){p, list->n + 1};
}

static void class_configs(struct alloc_solver *s, const struct claim *c,
                          struct api_device_allocation_configuration_array *out)
{
    for (uint32_t i = 0; i < c->requests_len; i++) {
        const struct alternative *a = chosen_of(s, c->first_request + i);
        size_t at = 0;
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++) {
            const struct cl_class *earlier = chosen_of(s, c->first_request + j)->class_;
            bool first_use = true;
            for (uint32_t k = 0; k < j; k++)
                first_use &= chosen_of(s, c->first_request + k)->class_ != earlier;
            if (earlier == a->class_)
                seen = true;
            else if (first_use)
                at += earlier->api->spec.config.n;
        }
        const struct api_device_class_configuration_array *configs = &a->class_->api->spec.config;
        for (size_t k = 0; k < configs->n; k++) {
            struct api_device_allocation_configuration *e =
                seen ? &out->p[at + k] : &out->p[out->n++];
            if (!seen)
                *e = (struct api_device_allocation_configuration){
                    .source = STR("FromClass"),
                    .device_configuration = configs->p[k].device_configuration};
            result_add_name(s, &e->requests, a->full_name);
        }
    }
}

// Does the list name this request, or the alternative chosen for it?
static bool names_request(const struct alloc_solver *s, const struct claim *c, uint32_t i,
                          const struct api_str_array *list)
{
    return api_str_listed(list, c->api->spec.devices.requests.p[i].name) ||
           api_str_listed(list, chosen_of(s, c->first_request + i)->full_name);
}

static void claim_configs(struct alloc_solver *s, const struct claim *c,
                          struct api_device_allocation_configuration_array *out)
{
    const struct api_device_claim_configuration_array *configs = &c->api->spec.devices.config;
    for (size_t i = 0; i < configs->n; i++) {
        const struct api_device_claim_configuration *k = &configs->p[i];
        bool used = k->requests.n == 0;
        for (uint32_t j = 0; j < c->requests_len && !used; j++)
            used = names_request(s, c, j, &k->requests);
        if (used)
            out->p[out->n++] = (struct api_device_allocation_configuration){
                .source = STR("FromClaim"),
                .requests = k->requests,
                .device_configuration = k->device_configuration};
    }
}

static void result_add_configs(struct alloc_solver *s, const struct claim *c,
                               struct api_device_allocation_configuration_array *out)
{
    size_t most = c->api->spec.devices.config.n;
    for (uint32_t i = 0; i < c->requests_len; i++)
        most += chosen_of(s, c->first_request + i)->class_->api->spec.config.n;
    if (most == 0)
        return;
    out->p = arena_array(&s->arena, struct api_device_allocation_configuration, most);
    class_configs(s, c, out);
    claim_configs(s, c, out);
    for (size_t i = 0; i < out->n; i++) {
        bool all = true;
        for (uint32_t j = 0; j < c->requests_len && all; j++)
            all = names_request(s, c, j, &out->p[i].requests);
        if (all && out->p[i].requests.n)
            out->p[i].requests = (struct api_str_array){0};
    }
    if (out->n == 0)
        out->p = NULL;
}

bool result_build(struct alloc_solver *s, struct alloc_answer *ret)
{
    struct api_allocation_result *results;
    struct api_device_request_allocation_result *devices;
    const struct piece pieces[] = {
        PIECE(results, s->p.claims_len + 1),
        PIECE(devices, s->at.picks_n + 1),
    };
    solver_allocate(s, pieces, array_len(pieces));
    size_t at = 0;
    for (size_t i = 0; i < s->p.claims_len; i++) {
        const struct claim *c = &s->p.claims[i];
        struct api_allocation_result *r = &results[i];
        size_t n = s->at.claim_picks[i];
        for (size_t k = 0; k < n; k++)
            result_add_device(s, &s->at.picks[at + k], &devices[at + k]);
        r->devices.results = (struct api_device_request_allocation_result_array){devices + at, n};
        result_add_configs(s, c, &r->devices.config);
        if (!node_selector(s, s->at.picks + at, n, c->api->metadata.name, &r->node_selector))
            return false;
        at += n;
    }
    ret->results = results;
    ret->results_len = s->p.claims_len;
    return true;
}
