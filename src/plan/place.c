// SPDX-License-Identifier: Apache-2.0
//
// Placing units one after the other: nodes that a pod may run on, the allocator on each, one of them
// chosen by the policy; why and what would help for those that fit nowhere.
#include "alloc/fleet.h"
#include "alloc/node.h"
#include "plan/plan_int.h"

#include "base/banned.h"

#define SOLVE_MS     10000 // Kubernetes' filter timeout
#define REMEDIES_MS  500
#define REMEDIES_TOP 5

struct claim_list VEC(const struct api_resource_claim *);

static bool expired(void *arg)
{
    const struct deadline *d = arg;
    return d->clock && clock_mono_ns(d->clock) >= d->at_ns;
}

static void set_deadline(struct plan *p, int64_t ms)
{
    if (p->deadline.clock)
        p->deadline.at_ns = clock_mono_ns(p->deadline.clock) + ms * CLOCK_NS_PER_MS;
}

// --- The snapshot --------------------------------------------------------------------------------

static void add_site(struct plan *p, const struct api_node *node)
{
    if (p->options.node.n && !str_eq(p->options.node, node->metadata.name))
        return;
    *map_put(&p->site_names, node->metadata.name) = (uint32_t)p->sites.n;
    vec_push(&p->sites, node);
}

static void infer_nodes(struct plan *p)
{
    struct names_seen MAP(bool) seen = {0};
    world_foreach(p->world, PLAN_SLICE, o)
    {
        const struct api_resource_slice_spec *s =
            &((const struct api_resource_slice *)o->value)->spec;
        bool is_new = false;
        if (s->node_name.n)
            (void)map_put_new(&seen, s->node_name, &is_new);
        if (!is_new)
            continue;
        struct api_node *node = arena_one(&p->arena, struct api_node);
        node->metadata.name = s->node_name;
        add_site(p, node);
    }
    // Devices that every node can use do not name one.
    if (map_len(&seen) == 0 && !p->options.node.n) {
        struct api_node *any = arena_one(&p->arena, struct api_node);
        any->metadata.name = STR("any-node");
        add_site(p, any);
    }
    map_done(&seen);
}

static void find_nodes(struct plan *p)
{
    size_t nodes = 0;
    size_t strangers = 0;
    world_foreach(p->world, PLAN_NODE, o)
    {
        nodes++;
        add_site(p, o->value);
    }
    if (nodes == 0) {
        infer_nodes(p);
        return;
    }
    world_foreach(p->world, PLAN_SLICE, o)
    {
        struct str name = ((const struct api_resource_slice *)o->value)->spec.node_name;
        strangers += name.n && !world_find(p->world, PLAN_NODE, name);
    }
    if (strangers)
        world_note(p->world,
                   "%zu slices are of nodes that are not in the files; they do not count. "
                   "Add the nodes, or leave all nodes out.",
                   strangers);
}

// What a claim has got is in use.
static void hold(struct plan *p, struct held_claim *c)
{
    c->user.owner = c->claim->metadata.namespace.n ? c->name : c->claim->metadata.name;
    if (c->claim->status.allocation)
        index_use(p->index, &c->user, c->claim->status.allocation);
}

static struct index_object as_object(const void *value)
{
    return (struct index_object){.value = value}; // the world outlives the index
}

static void make_index(struct plan *p)
{
    const struct index_object none = {0};
    p->index = index_new(
        &(struct index_options){.features = p->options.features, .policy = p->options.policy});
    vec_foreach(&p->classes, c)
        index_class(p->index, none, as_object(*c));
    world_foreach(p->world, PLAN_RULE, o) index_rule(p->index, none, as_object(o->value));
    world_foreach(p->world, PLAN_SLICE, o) index_slice(p->index, none, as_object(o->value));
    for (uint32_t i = 0; i < p->sites.n; i++)
        index_node(p->index, i, p->sites.p[i]->metadata.name, as_object(p->sites.p[i]));
    for (size_t i = 0; i < p->claims.n; i++)
        hold(p, &p->claims.p[i]);
}

// --- Packing -------------------------------------------------------------------------------------

static const struct alloc_view *view_at(void *arg, uint32_t site)
{
    const struct plan *p = arg;
    struct err err = {0};
    return index_view(p->index, site, &err);
}

// Processors and memory are not considered: what is known of nodes are their devices.
static void tell_fleet(const struct plan *p, uint32_t site)
{
    struct fleet_room room = {.order = site};
    fleet_set_state(p->fleet, site, &room, index_state(p->index, site));
}

// Nodes that see other devices than before, or others of them in use.
static void renew_fleet(struct plan *p)
{
    struct index_numbers *changed = index_touched(p->index);
    bool all = changed->n > p->sites.n;
    for (uint32_t i = 0; p->fleet && all && i < p->sites.n; i++)
        tell_fleet(p, i);
    for (size_t i = 0; p->fleet && !all && i < changed->n; i++)
        tell_fleet(p, changed->p[i]);
    vec_clear(changed);
}

static struct claim_list open_claims(struct plan *p, const struct unit *u);

// What is to be placed is what will be asked for.
static void make_fleet(struct plan *p)
{
    if (p->options.policy != ALLOC_PACK)
        return;
    p->fleet = fleet_new(&(struct fleet_options){.view = view_at, .view_arg = p});
    renew_fleet(p);
    for (size_t i = 0; i < p->units.n; i++) {
        struct claim_list open = open_claims(p, &p->units.p[i]);
        if (!open.n || p->units.p[i].error.n)
            continue;
        (void)fleet_ask(p->fleet, fleet_hash(open.p, open.n), open.p, open.n, 0, 0);
        fleet_learn(p->fleet, 1);
    }
    fleet_settle(p->fleet);
    alloc_solver_set_options(p->solver, &(struct alloc_options){.policy = p->options.policy,
                                                                .rng = p->options.rng,
                                                                .expired = expired,
                                                                .expired_arg = &p->deadline,
                                                                .loss = fleet_loss,
                                                                .loss_arg = p->fleet});
}

// --- One unit ------------------------------------------------------------------------------------

// Claims of a unit that have nothing yet.
static struct claim_list open_claims(struct plan *p, const struct unit *u)
{
    struct claim_list list = {0};
    for (size_t i = 0; i < u->claims.n; i++) {
        const struct api_resource_claim *c = p->claims.p[u->claims.p[i]].claim;
        if (!c->status.allocation)
            vec_push_arena(&p->arena, &list, c);
    }
    return list;
}

// Is there a reason, devices apart, that a node does not do?
static bool site_fits(struct plan *p, const struct unit *u, const struct api_node *node,
                      struct str *ret_reason)
{
    if (!fits_node(u->pod, node, &p->arena, ret_reason))
        return false;
    for (size_t i = 0; i < u->claims.n; i++) {
        const struct held_claim *c = &p->claims.p[u->claims.p[i]];
        if (fits_allocation(c->claim, node))
            continue;
        *ret_reason =
            arena_strf(&p->arena, "claim %.*s is allocated for other nodes", STR_ARG(c->name));
        return false;
    }
    return true;
}

struct search {
    struct plan *p;
    const struct unit *u;
    struct claim_list open;
    uint64_t hash;    // of what is asked
    uint32_t best;    // site; UINT32_MAX: none
    struct str error; // fatal for the unit
    size_t timeouts;  // nodes on which the search did not end
};

static enum alloc_verdict try_site(struct search *at, uint32_t site)
{
    struct plan *p = at->p;
    struct alloc_answer a = {.verdict = ALLOC_NODE_ERROR};
    struct err err = {0};
    const struct alloc_view *v = index_view(p->index, site, &err);
    set_deadline(p, p->options.solve_ms ? p->options.solve_ms : SOLVE_MS);
    if (v)
        alloc_solve(p->solver, v, at->open.p, at->open.n, &a);
    if (a.verdict == ALLOC_ERROR)
        at->error = arena_str(&p->arena, a.error);
    at->timeouts += a.verdict == ALLOC_TIMEOUT;
    return a.verdict;
}

static enum index_reply ask_site(void *arg, uint32_t site)
{
    struct search *at = arg;
    struct str reason;
    struct arena_mark m = arena_mark(&at->p->arena);
    bool fits = site_fits(at->p, at->u, at->p->sites.p[site], &reason);
    arena_rewind(&at->p->arena, m);
    if (!fits)
        return INDEX_SKIP;
    enum alloc_verdict v = at->open.n ? try_site(at, site) : ALLOC_ALLOCATED;
    if (v == ALLOC_UNSATISFIABLE || v == ALLOC_NODE_ERROR)
        return INDEX_NO;
    if (v == ALLOC_TIMEOUT)
        return INDEX_SKIP;
    if (v == ALLOC_ALLOCATED)
        at->best = site;
    return INDEX_ENOUGH;
}

// The node where the claims cost those that come later the least; if worth offers none, by devices.
static void find_site(struct search *at)
{
    struct plan *p = at->p;
    struct index_ask ask = {.hash = at->hash,
                            .claims = at->open.p,
                            .claims_len = at->open.n,
                            .fleet = at->open.n ? p->fleet : NULL,
                            .ask = ask_site,
                            .arg = at};
    if (ask.fleet) {
        (void)fleet_ask(p->fleet, at->hash, at->open.p, at->open.n, 0, 0);
        fleet_start(p->fleet);
        index_find(p->index, &ask);
        if (at->best != UINT32_MAX || at->error.n)
            return;
        fleet_at(p->fleet, UINT32_MAX);
        ask.fleet = NULL;
    }
    index_find(p->index, &ask);
}

// Gives the claims what the allocator found.
static bool take(struct plan *p, const struct unit *u, const struct search *at)
{
    struct alloc_answer a = {.verdict = ALLOC_ALLOCATED};
    size_t k = 0;
    set_deadline(p, p->options.solve_ms ? p->options.solve_ms : SOLVE_MS);
    struct err err = {0};
    const struct alloc_view *v = index_view(p->index, at->best, &err);
    if (at->open.n && v)
        alloc_solve(p->solver, v, at->open.p, at->open.n, &a);
    if (a.verdict != ALLOC_ALLOCATED)
        return false; // it ran out of time
    for (size_t i = 0; i < u->claims.n; i++) {
        struct held_claim *c = &p->claims.p[u->claims.p[i]];
        if (c->claim->status.allocation)
            continue;
        struct api_resource_claim *copy = arena_one(&p->arena, struct api_resource_claim);
        struct api_allocation_result *got = arena_one(&p->arena, struct api_allocation_result);
        api_copy(&api_allocation_result_type, &a.results[k++], got, &p->arena);
        *copy = *c->claim;
        copy->status.allocation = got;
        c->claim = copy;
        hold(p, c);
    }
    renew_fleet(p);
    return true;
}

// --- Why not -------------------------------------------------------------------------------------

// A node that was refused, but whose devices would do.
static void tell_refused(struct search *at, struct sbuf *out)
{
    struct plan *p = at->p;
    struct index_question *q = index_question(p->index, at->hash, at->open.p, at->open.n);
    for (uint32_t i = 0; i < p->sites.n; i++) {
        struct str reason;
        struct alloc_answer a = {.verdict = ALLOC_NODE_ERROR};
        struct err err = {0};
        if (expired(&p->deadline) || (at->u->pod && at->u->pod->spec.node_name.n))
            return;
        if (index_ruled_out(p->index, q, i) || site_fits(p, at->u, p->sites.p[i], &reason))
            continue;
        const struct alloc_view *v = index_view(p->index, i, &err);
        if (v)
            alloc_solve(p->solver, v, at->open.p, at->open.n, &a);
        if (a.verdict == ALLOC_UNSATISFIABLE || a.verdict == ALLOC_NODE_ERROR)
            index_rule_out(p->index, q, i);
        if (a.verdict != ALLOC_ALLOCATED)
            continue;
        sbuf_addf(out, "Node %.*s has the devices, but: %.*s.\n",
                  STR_ARG(p->sites.p[i]->metadata.name), STR_ARG(reason));
        return;
    }
}

static void explain_site(struct search *at, struct index_explaining *e, uint32_t site)
{
    const struct api_node *node = at->p->sites.p[site];
    struct str reason;
    struct err err = {0};
    if (site_fits(at->p, at->u, node, &reason)) {
        if (index_explain(at->p->index, e, site))
            return;
        reason = index_view(at->p->index, site, &err) ? STR("the claims cannot be judged there")
                                                      : str_z(err.msg);
    }
    alloc_report_refuse(e->report, node->metadata.name, reason);
}

static struct alloc_report *make_report(struct search *at)
{
    struct index_explaining e = {.solver = at->p->solver,
                                 .report = alloc_report_new(),
                                 .claims = at->open.p,
                                 .claims_len = at->open.n};
    for (uint32_t i = 0; i < at->p->sites.n; i++)
        explain_site(at, &e, i);
    map_done(&e.seen);
    return e.report;
}

static void explain(struct search *at, struct step *step)
{
    struct plan *p = at->p;
    struct alloc_remedies remedies;
    cleanup_sbuf struct sbuf b = {0};
    struct alloc_report *r = make_report(at);
    alloc_report_text(r, &b);
    step->explanation = arena_str(&p->arena, sbuf_str(&b));
    sbuf_clear(&b);
    alloc_report_json(r, &b);
    step->explanation_json = arena_str(&p->arena, sbuf_str(&b));
    set_deadline(p, p->options.remedies_ms ? p->options.remedies_ms : REMEDIES_MS);
    alloc_remedies_find(r, p->solver, &remedies);
    sbuf_clear(&b);
    if (at->timeouts)
        sbuf_addf(&b, "The search did not end in time on %zu nodes: they may fit after all.\n",
                  at->timeouts);
    tell_refused(at, &b);
    alloc_remedies_text(&remedies, REMEDIES_TOP, &b);
    step->remedies = arena_str(&p->arena, sbuf_str(&b));
    sbuf_clear(&b);
    alloc_remedies_json(&remedies, &b);
    step->remedies_json = arena_str(&p->arena, sbuf_str(&b));
    sbuf_clear(&b);
    alloc_report_summary(r, &remedies, &b);
    step->pub.summary = arena_str(&p->arena, sbuf_str(&b));
    alloc_report_free(r);
    index_unpin(p->index);
}

// --- Steps ---------------------------------------------------------------------------------------

// "; gpu: ", with the claim's name, short of the pod's, where there are several claims.
static void begin_request(const struct plan *p, const struct unit *u, size_t claim,
                          struct str request, struct sbuf *out)
{
    sbuf_addz(out, out->n ? "; " : "");
    if (u->claims.n > 1) {
        const struct api_object_meta *m = &p->claims.p[u->claims.p[claim]].claim->metadata;
        struct str short_name = m->name;
        struct str pod = u->pod->metadata.name;
        if (str_starts(m->name, pod) && m->name.n > pod.n + 1)
            short_name = str_from(m->name, pod.n + 1);
        sbuf_addf(out, "%.*s/", STR_ARG(short_name));
    }
    sbuf_addf(out, "%.*s: ", STR_ARG(request));
}

// "gpu: gpu-0, gpu-1; nic: rdma-0"; the pool is named where it is not the node's name.
static struct str devices_text(struct plan *p, const struct unit *u, struct str node)
{
    cleanup_sbuf struct sbuf b = {0};
    struct str last = {0};
    for (size_t i = 0; i < u->claims.n; i++) {
        const struct api_allocation_result *a =
            p->claims.p[u->claims.p[i]].claim->status.allocation;
        last = (struct str){0};
        for (size_t k = 0; a && k < a->devices.results.n; k++) {
            const struct api_device_request_allocation_result *r = &a->devices.results.p[k];
            if (last.p && str_eq(last, r->request))
                sbuf_addz(&b, ", ");
            else
                begin_request(p, u, i, r->request, &b);
            last = r->request;
            if (!str_eq(r->pool, node))
                sbuf_addf(&b, "%.*s/", STR_ARG(r->pool));
            sbuf_add(&b, r->device);
            for (size_t m = 0; m < r->consumed_capacity.n; m++) {
                sbuf_addf(&b, "%s%.*s=", m ? "," : "(", STR_ARG(r->consumed_capacity.p[m].key));
                quantity_write(&r->consumed_capacity.p[m].value, &b);
            }
            if (r->consumed_capacity.n)
                sbuf_addc(&b, ')');
        }
    }
    return arena_str(&p->arena, sbuf_str(&b));
}

static bool running(const struct plan *p, const struct unit *u)
{
    for (size_t i = 0; i < u->claims.n; i++)
        if (!p->claims.p[u->claims.p[i]].claim->status.allocation)
            return false;
    return !u->pod || u->pod->spec.node_name.n;
}

// The one node where an allocated claim can be used.
static struct str node_of_claim(const struct plan *p, const struct api_resource_claim *c)
{
    struct str name = node_only_name(c->status.allocation->node_selector);
    const uint32_t *site = name.n ? map_get(&p->site_names, name) : NULL;
    const struct api_node *only = NULL;
    if (name.n)
        return site && fits_allocation(c, p->sites.p[*site]) ? name : (struct str){0};
    for (size_t i = 0; i < p->sites.n; i++) {
        if (!fits_allocation(c, p->sites.p[i]))
            continue;
        if (only)
            return STR("(several)");
        only = p->sites.p[i];
    }
    return only ? only->metadata.name : (struct str){0};
}

static struct str node_of(const struct plan *p, const struct unit *u)
{
    return u->pod ? u->pod->spec.node_name : node_of_claim(p, p->claims.p[u->claims.p[0]].claim);
}

static void place(struct plan *p, const struct unit *u, bool tell)
{
    struct step step = {.unit = u};
    struct search at = {
        .p = p, .u = u, .open = open_claims(p, u), .best = UINT32_MAX, .error = u->error};
    at.hash = at.open.n ? fleet_hash(at.open.p, at.open.n) : 0;
    step.pub.name = arena_strf(&p->arena, "%s %.*s", u->pod ? "pod" : "claim", STR_ARG(u->name));
    if (!at.error.n && running(p, u)) {
        step.pub.status = PLAN_RUNNING;
        step.pub.node = node_of(p, u);
    } else {
        if (!at.error.n)
            find_site(&at);
        bool found = at.best != UINT32_MAX;
        step.pub.status = at.error.n                 ? PLAN_ERROR
                          : found && take(p, u, &at) ? PLAN_PLACED
                                                     : PLAN_NO;
        step.pub.summary = at.error;
        if (p->fleet)
            fleet_at(p->fleet, UINT32_MAX);
        if (step.pub.status == PLAN_PLACED)
            step.pub.node = p->sites.p[at.best]->metadata.name;
        else if (step.pub.status == PLAN_NO && tell)
            explain(&at, &step);
    }
    step.pub.devices = devices_text(p, u, step.pub.node);
    if (tell)
        vec_push(&p->steps, step);
}

// --- Whole plans ---------------------------------------------------------------------------------

static int begin(struct plan_world *w, const struct plan_options *options, struct plan **ret,
                 struct err *err)
{
    struct plan *p = xcalloc(1, sizeof(*p));
    p->world = w;
    p->options = *options;
    p->deadline.clock = options->clock;
    p->solver = alloc_solver_new(&(struct alloc_options){.policy = options->policy,
                                                         .rng = options->rng,
                                                         .expired = expired,
                                                         .expired_arg = &p->deadline});
    world_foreach(w, PLAN_CLASS, o) vec_push(&p->classes, o->value);
    units_collect(p);
    find_nodes(p);
    if (p->sites.n == 0 && options->node.n) {
        plan_free(p);
        return err_set(err, ERR_NOT_FOUND, "there is no node %.*s in the files",
                       STR_ARG(options->node));
    }
    make_index(p);
    make_fleet(p);
    *ret = p;
    return 0;
}

int plan_make(struct plan_world *w, const struct plan_options *options, struct plan **ret,
              struct err *err)
{
    int r = begin(w, options, ret, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < (*ret)->units.n; i++)
        place(*ret, &(*ret)->units.p[i], true);
    return 0;
}

// The unit that a name means, SIZE_MAX when there is none. A claim of a pod means the pod.
static size_t unit_named(const struct plan *p, struct str name)
{
    bool pods = true;
    bool claims = true;
    if (str_starts(name, STR("pod/")) || str_starts(name, STR("claim/"))) {
        pods = name.p[0] == 'p';
        claims = !pods;
        (void)str_cut(name, '/', &(struct str){0}, &name);
    }
    for (size_t i = 0; i < p->units.n; i++) {
        const struct unit *u = &p->units.p[i];
        struct str namespace, rest;
        bool in_default = str_cut(u->name, '/', &namespace, &rest) && str_eqz(namespace, "default");
        if ((u->pod ? pods : claims) &&
            (str_eq(u->name, name) || (in_default && str_eq(rest, name))))
            return i;
        for (size_t k = 0; claims && k < u->claims.n; k++) {
            struct str claim = p->claims.p[u->claims.p[k]].name;
            in_default = str_cut(claim, '/', &namespace, &rest) && str_eqz(namespace, "default");
            if (str_eq(claim, name) || (in_default && str_eq(rest, name)))
                return i;
        }
    }
    return SIZE_MAX;
}

static int no_unit(const struct plan *p, struct str name, struct err *err)
{
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < p->units.n && i < 6; i++)
        sbuf_addf(&b, "%s%s %.*s", i ? ", " : "", p->units.p[i].pod ? "pod" : "claim",
                  STR_ARG(p->units.p[i].name));
    if (b.n == 0)
        return err_set(err, ERR_NOT_FOUND, "no pod or claim %.*s: the files have none at all",
                       STR_ARG(name));
    return err_set(err, ERR_NOT_FOUND, "no pod or claim %.*s in the files; there are %.*s%s",
                   STR_ARG(name), STR_ARG(sbuf_str(&b)), p->units.n > 6 ? ", …" : "");
}

int plan_why(struct plan_world *w, struct str name, const struct plan_options *options,
             struct plan **ret, struct err *err)
{
    int r = begin(w, options, ret, err);
    if (r < 0)
        return r;
    struct plan *p = *ret;
    size_t at = unit_named(p, name);
    if (at == SIZE_MAX) {
        r = no_unit(p, name, err);
        plan_free(p);
        *ret = NULL;
        return r;
    }
    p->why = true;
    for (size_t i = 0; i < at && !options->alone; i++)
        place(p, &p->units.p[i], false);
    place(p, &p->units.p[at], true);
    return 0;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    alloc_solver_free(p->solver);
    fleet_free(p->fleet);
    index_free(p->index);
    for (size_t i = 0; i < p->claims.n; i++)
        vec_done(&p->claims.p[i].user.pools);
    vec_done(&p->units);
    vec_done(&p->claims);
    vec_done(&p->sites);
    vec_done(&p->steps);
    vec_done(&p->classes);
    map_done(&p->claim_names);
    map_done(&p->site_names);
    arena_done(&p->arena);
    free(p);
}

bool plan_complete(const struct plan *p)
{
    for (size_t i = 0; i < p->steps.n; i++)
        if (p->steps.p[i].pub.status == PLAN_NO || p->steps.p[i].pub.status == PLAN_ERROR)
            return false;
    return true;
}

size_t plan_steps(const struct plan *p)
{
    return p->steps.n;
}

struct plan_step plan_step_at(const struct plan *p, size_t i)
{
    return p->steps.p[i].pub;
}
