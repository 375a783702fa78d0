// SPDX-License-Identifier: Apache-2.0
//
// Placing units one after the other: nodes that a pod may run on, the allocator on each, one of them
// chosen by the policy; why and what would help for those that fit nowhere.
#include "alloc/fleet.h"
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
    if (!p->options.node.n || str_eq(p->options.node, node->metadata.name))
        vec_push(&p->sites, (struct plan_site){.node = node});
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

static int make_views(struct plan *p, struct err *err)
{
    struct claim_list claims = {0};
    world_foreach(p->world, PLAN_SLICE, o) vec_push(&p->slices, o->value);
    world_foreach(p->world, PLAN_CLASS, o) vec_push(&p->classes, o->value);
    world_foreach(p->world, PLAN_RULE, o) vec_push(&p->rules, o->value);
    for (size_t i = 0; i < p->claims.n; i++)
        vec_push(&claims, p->claims.p[i].claim);
    struct alloc_input in = {.features = p->options.features,
                             .slices = p->slices.p,
                             .slices_len = p->slices.n,
                             .classes = p->classes.p,
                             .classes_len = p->classes.n,
                             .taint_rules = p->rules.p,
                             .taint_rules_len = p->rules.n,
                             .claims = claims.p,
                             .claims_len = claims.n};
    int r = alloc_cluster_new(&in, &p->cluster, err);
    vec_done(&claims);
    for (size_t i = 0; r == 0 && i < p->sites.n; i++) {
        struct err local = {0};
        if (alloc_view_new(p->cluster, p->sites.p[i].node, &p->sites.p[i].first, &local) < 0)
            p->sites.p[i].broken = arena_str(&p->arena, str_z(local.msg));
    }
    return r;
}

// --- Packing -------------------------------------------------------------------------------------

static const struct alloc_view *view_at(void *arg, uint32_t site)
{
    const struct plan *p = arg;
    return site_view(&p->sites.p[site]);
}

// Processors and memory are not considered: what is known of nodes are their devices.
static void tell_fleet(const struct plan *p, size_t site)
{
    const struct plan_site *s = &p->sites.p[site];
    struct fleet_room room = {.order = (uint32_t)site};
    if (p->fleet && !s->broken.n)
        fleet_set(p->fleet, (uint32_t)site, &room, site_view(s));
}

static struct claim_list open_claims(struct plan *p, const struct unit *u);

// What is to be placed is what will be asked for.
static void make_fleet(struct plan *p)
{
    if (p->options.policy != ALLOC_PACK)
        return;
    p->fleet = fleet_new(&(struct fleet_options){.view = view_at, .view_arg = p});
    for (size_t i = 0; i < p->sites.n; i++)
        tell_fleet(p, i);
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

static bool touches(const struct api_resource_claim *c, const struct alloc_view *v)
{
    const struct api_allocation_result *a = c->status.allocation;
    for (size_t i = 0; a && i < a->devices.results.n; i++)
        if (alloc_view_has_pool(v, a->devices.results.p[i].driver, a->devices.results.p[i].pool))
            return true;
    return false;
}

// Nodes that see a pool of which something was taken look again.
static void renew_sites(struct plan *p, const struct unit *u)
{
    for (size_t i = 0; i < p->sites.n; i++) {
        struct plan_site *s = &p->sites.p[i];
        struct claim_list here = {0};
        bool changed = false;
        for (size_t k = 0; s->first && k < u->claims.n; k++)
            changed |= touches(p->claims.p[u->claims.p[k]].claim, s->first);
        if (!changed)
            continue;
        for (size_t k = 0; k < p->claims.n; k++)
            if (touches(p->claims.p[k].claim, s->first))
                vec_push(&here, p->claims.p[k].claim);
        alloc_view_free(s->own);
        alloc_cluster_free(s->own_cluster);
        s->own = NULL;
        s->own_cluster = NULL;
        struct err err = {0};
        if (alloc_view_renew(s->first, here.p, here.n, &s->own_cluster, &s->own, &err) < 0)
            s->broken = arena_str(&p->arena, str_z(err.msg)); // it was readable before
        tell_fleet(p, i);
        vec_done(&here);
    }
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

static bool site_fits(struct plan *p, const struct unit *u, const struct plan_site *s,
                      struct str *ret_reason)
{
    if (s->broken.n) {
        *ret_reason = s->broken;
        return false;
    }
    if (!fits_node(u->pod, s->node, &p->arena, ret_reason))
        return false;
    for (size_t i = 0; i < u->claims.n; i++) {
        const struct held_claim *c = &p->claims.p[u->claims.p[i]];
        if (fits_allocation(c->claim, s->node))
            continue;
        *ret_reason =
            arena_strf(&p->arena, "claim %.*s is allocated for other nodes", STR_ARG(c->name));
        return false;
    }
    return true;
}

// Of two nodes that fit, is the second the better one? The first that fits wins among equals.
static bool better(const struct plan *p, const struct plan_site *best, const struct plan_site *s)
{
    size_t have = alloc_view_idle(site_view(best));
    size_t here = alloc_view_idle(site_view(s));
    return p->options.policy == ALLOC_PACK ? here < have : here > have;
}

struct search {
    struct claim_list open;
    const struct plan_site *best;
    struct str error; // fatal for the unit
    size_t timeouts;  // nodes on which the search did not end
};

static enum alloc_verdict try_site(struct plan *p, const struct plan_site *s, struct search *at)
{
    struct alloc_answer a;
    set_deadline(p, p->options.solve_ms ? p->options.solve_ms : SOLVE_MS);
    alloc_solve(p->solver, site_view(s), at->open.p, at->open.n, &a);
    if (a.verdict == ALLOC_ERROR)
        at->error = arena_str(&p->arena, a.error);
    at->timeouts += a.verdict == ALLOC_TIMEOUT;
    return a.verdict;
}

// The node where the claims cost those that come later the least.
static void find_by_worth(struct plan *p, const struct unit *u, struct search *at)
{
    uint32_t site;
    (void)fleet_ask(p->fleet, fleet_hash(at->open.p, at->open.n), at->open.p, at->open.n, 0, 0);
    fleet_start(p->fleet);
    while (!at->best && !at->error.n && fleet_next(p->fleet, &site)) {
        const struct plan_site *s = &p->sites.p[site];
        struct str reason;
        fleet_at(p->fleet, site);
        if (site_fits(p, u, s, &reason) && try_site(p, s, at) == ALLOC_ALLOCATED)
            at->best = s;
    }
}

static void find_site(struct plan *p, const struct unit *u, struct search *at)
{
    if (p->fleet && at->open.n) {
        find_by_worth(p, u, at);
        if (at->best)
            return;
        fleet_at(p->fleet, UINT32_MAX); // what worth does not offer is asked, too
    }
    for (size_t i = 0; i < p->sites.n && !at->error.n; i++) {
        const struct plan_site *s = &p->sites.p[i];
        struct str reason;
        if (!site_fits(p, u, s, &reason))
            continue;
        if (at->best && !better(p, at->best, s))
            continue; // whether it fits does not matter
        if (at->open.n && try_site(p, s, at) != ALLOC_ALLOCATED)
            continue;
        at->best = s;
        if (p->options.policy == ALLOC_FIRST)
            break;
    }
}

// Gives the claims what the allocator found.
static bool take(struct plan *p, const struct unit *u, const struct search *at)
{
    struct alloc_answer a = {.verdict = ALLOC_ALLOCATED};
    size_t k = 0;
    set_deadline(p, p->options.solve_ms ? p->options.solve_ms : SOLVE_MS);
    if (at->open.n)
        alloc_solve(p->solver, site_view(at->best), at->open.p, at->open.n, &a);
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
    }
    return true;
}

// --- Why not -------------------------------------------------------------------------------------

// Nodes that were refused, but whose devices would do.
static void tell_refused(struct plan *p, const struct unit *u, struct search *at, struct sbuf *out)
{
    for (size_t i = 0; i < p->sites.n; i++) {
        const struct plan_site *s = &p->sites.p[i];
        struct str reason;
        if (s->broken.n || site_fits(p, u, s, &reason))
            continue;
        if (expired(&p->deadline) || (u->pod && u->pod->spec.node_name.n))
            return;
        struct alloc_answer a;
        alloc_solve(p->solver, site_view(s), at->open.p, at->open.n, &a);
        if (a.verdict != ALLOC_ALLOCATED)
            continue;
        sbuf_addf(out, "Node %.*s has the devices, but: %.*s.\n", STR_ARG(s->node->metadata.name),
                  STR_ARG(reason));
        return;
    }
}

static struct alloc_report *make_report(struct plan *p, const struct unit *u, struct search *at)
{
    struct alloc_report *r = alloc_report_new();
    for (size_t i = 0; i < p->sites.n; i++) {
        const struct plan_site *s = &p->sites.p[i];
        struct str reason;
        if (!site_fits(p, u, s, &reason))
            alloc_report_refuse(r, s->node->metadata.name, reason);
        else if (!alloc_report_add(r, p->solver, site_view(s), at->open.p, at->open.n))
            alloc_report_refuse(r, s->node->metadata.name,
                                STR("the claims cannot be judged there"));
    }
    return r;
}

static void explain(struct plan *p, const struct unit *u, struct search *at, struct step *step)
{
    struct alloc_remedies remedies;
    cleanup_sbuf struct sbuf b = {0};
    struct alloc_report *r = make_report(p, u, at);
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
    tell_refused(p, u, at, &b);
    alloc_remedies_text(&remedies, REMEDIES_TOP, &b);
    step->remedies = arena_str(&p->arena, sbuf_str(&b));
    sbuf_clear(&b);
    alloc_remedies_json(&remedies, &b);
    step->remedies_json = arena_str(&p->arena, sbuf_str(&b));
    sbuf_clear(&b);
    alloc_report_summary(r, &remedies, &b);
    step->pub.summary = arena_str(&p->arena, sbuf_str(&b));
    alloc_report_free(r);
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

static struct str node_of(const struct plan *p, const struct unit *u)
{
    if (u->pod)
        return u->pod->spec.node_name;
    const struct plan_site *only = NULL;
    size_t n = 0;
    for (size_t i = 0; i < p->sites.n && n < 2; i++)
        if (fits_allocation(p->claims.p[u->claims.p[0]].claim, p->sites.p[i].node)) {
            only = &p->sites.p[i];
            n++;
        }
    return n == 1 ? only->node->metadata.name : n ? STR("(several)") : (struct str){0};
}

static void place(struct plan *p, const struct unit *u, bool tell)
{
    struct step step = {.unit = u};
    struct search at = {.open = open_claims(p, u), .error = u->error};
    step.pub.name = arena_strf(&p->arena, "%s %.*s", u->pod ? "pod" : "claim", STR_ARG(u->name));
    if (!at.error.n && running(p, u)) {
        step.pub.status = PLAN_RUNNING;
        step.pub.node = node_of(p, u);
    } else {
        if (!at.error.n)
            find_site(p, u, &at);
        step.pub.status = at.error.n ? PLAN_ERROR : at.best ? PLAN_PLACED : PLAN_NO;
        step.pub.summary = at.error;
        if (at.best && !at.error.n && !take(p, u, &at))
            step.pub.status = PLAN_NO;
        if (p->fleet)
            fleet_at(p->fleet, UINT32_MAX);
        if (step.pub.status == PLAN_PLACED) {
            step.pub.node = at.best->node->metadata.name;
            if (at.open.n)
                renew_sites(p, u);
        } else if (step.pub.status == PLAN_NO && tell) {
            explain(p, u, &at, &step);
        }
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
    units_collect(p);
    find_nodes(p);
    int r = 0;
    if (p->sites.n == 0 && options->node.n)
        r = err_set(err, ERR_NOT_FOUND, "there is no node %.*s in the files",
                    STR_ARG(options->node));
    if (r == 0)
        r = make_views(p, err);
    if (r == 0)
        make_fleet(p);
    if (r < 0)
        plan_free(p);
    else
        *ret = p;
    return r;
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
    for (size_t i = 0; i < p->sites.n; i++) {
        alloc_view_free(p->sites.p[i].own);
        alloc_cluster_free(p->sites.p[i].own_cluster);
        alloc_view_free(p->sites.p[i].first);
    }
    alloc_cluster_free(p->cluster);
    vec_done(&p->units);
    vec_done(&p->claims);
    vec_done(&p->sites);
    vec_done(&p->steps);
    vec_done(&p->slices);
    vec_done(&p->classes);
    vec_done(&p->rules);
    map_done(&p->claim_names);
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
