// SPDX-License-Identifier: Apache-2.0
//
// The index of a whole cluster must say of every node what the allocator says there by itself: random clusters
// with shares, counters, constraints, taints and network pools, through random changes.
#include "alloc/fleet.h"
#include "alloc/index.h"
#include "alloc_problem.h"
#include "base/rand.h"

#include "base/banned.h"

#define NODES_MAX  12
#define POOLS_MAX  4
#define CLAIMS_MAX 40
#define STEPS      60

#define SLICES_OPEN "{'features':['all'],'resourceSlices':["

// --- Objects -------------------------------------------------------------------------------------

static const char *const questions[] = {
    P_CLAIM("a", P_REQ("r", "1")),
    P_CLAIM("b", P_REQ("r", "2")),
    P_CLAIM("c", P_REQ("r", "2"), P_MATCH),
    P_CLAIM("d", P_REQ("r", "2"), P_DISTINCT),
    P_CLAIM("e", P_REQ("r", "1", P_CEL("device.attributes['d.example.com'].n > 1"))),
    P_CLAIM("f", P_REQ("r", "1", P_CEL("device.attributes['d.example.com'].?n.orValue(0) > 0"))),
    P_CLAIM("g", P_REQ("r", "1", P_CEL("device.attributes['d.example.com'].all(k, k != 'odd')"))),
    P_CLAIM("h", P_REQ("r", "1", ",'capacity':{'requests':{'mem':'4'}}")),
    P_CLAIM("i", P_REQ("r", "1", ",'tolerations':[{'key':'fix','operator':'Exists'}]")),
    P_CLAIM("j", "{'name':'r','exactly':{'deviceClassName':'c','allocationMode':'All'}}"),
    P_CLAIM("k", "{'name':'r','firstAvailable':[{'name':'x','deviceClassName':'c','allocationMode':"
                 "'ExactCount','count':4},{'name':'y','deviceClassName':'c','allocationMode':"
                 "'ExactCount','count':1}]}"),
    P_CLAIM("l", P_REQ("r", "1", P_CEL("device.attributes['d.example.com'].k == 'k1'")) "," P_REQ(
                     "s", "1", P_CEL("device.attributes['d.example.com'].?k.orValue('') == 'k2'"))),
};

struct kept_questions VEC(struct question *);

struct world {
    struct rng_seeded rng;
    struct index *index;
    struct alloc_solver *solver;
    struct kept_questions kept; // what objects live in
    const struct api_node *nodes[NODES_MAX];
    bool there[NODES_MAX];
    const struct api_resource_slice *slices[NODES_MAX + POOLS_MAX][2];
    const struct api_device_taint_rule *rules[2];
    bool tainted[2];
    const struct question *base;
    struct held {
        struct index_user user;
        struct api_resource_claim claim;
        struct api_allocation_result result;
        struct arena arena;
    } held[CLAIMS_MAX];
    size_t nodes_len;
};

static struct question *read_text(struct world *w, struct str text)
{
    cleanup_sbuf struct sbuf b = {0};
    struct err err = {0};
    bool cel = false; // inside of an expression's double quotes, single ones stay
    for (size_t i = 0; i < text.n; i++) {
        cel ^= text.p[i] == '"';
        sbuf_addc(&b, text.p[i] == '\'' && !cel ? '"' : text.p[i]);
    }
    struct question *q = xcalloc(1, sizeof(*q));
    if (alloc_question_read(q, sbuf_str(&b), &err) < 0)
        fail_msg("%s in %s", err.msg, b.p);
    vec_push(&w->kept, q);
    return q;
}

static size_t chance(struct world *w, size_t n)
{
    return rng_below(&w->rng.rng, n);
}

static void write_devices(struct world *w, struct sbuf *b, size_t site, const char *more)
{
    size_t n = 1 + chance(w, 4);
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(b, "%s{'name':'x%zu','attributes':{'uuid':{'string':'u-%zu-%zu'}", i ? "," : "",
                  i, site, i);
        if (chance(w, 5))
            sbuf_addf(b, ",'n':{'int':%zu},'k':{'string':'k%zu'}", i / 2, chance(w, 3));
        if (!chance(w, 12))
            sbuf_addz(b, ",'odd':{'bool':true}");
        sbuf_addz(b, "}");
        if (!chance(w, 6))
            sbuf_addz(b, P_TAINT);
        sbuf_addf(b, "%s}", more);
    }
}

// The head of a slice; of a node's, or of a network pool for some nodes.
static void write_head(struct world *w, struct sbuf *b, size_t site, size_t part, size_t count)
{
    bool own = site < NODES_MAX;
    sbuf_addf(b,
              "{'metadata':{'name':'s%zu-%zu'},'spec':{'driver':'d.example.com','pool':{'name':"
              "'p%zu','generation':%zu,'resourceSliceCount':%zu},",
              site, part, site, 1 + chance(w, 2) * part, count);
    if (own)
        sbuf_addf(b, "'nodeName':'n%zu',", site);
    else if (site % 3 == 0)
        sbuf_addz(b, "'allNodes':true,");
    else if (site % 3 == 1)
        sbuf_addf(b,
                  "'nodeSelector':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'zone',"
                  "'operator':'In','values':['z%zu']}]}]},",
                  chance(w, 3));
    else
        sbuf_addf(b,
                  "'nodeSelector':{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name',"
                  "'operator':'In','values':['n%zu']}]}]},",
                  chance(w, NODES_MAX));
}

static void write_site(struct world *w, struct sbuf *b, size_t site)
{
    size_t shape = chance(w, 5);
    if (shape == 0) { // counters
        write_head(w, b, site, 0, 2);
        sbuf_addf(b, "'sharedCounters':[{'name':'cs','counters':{'m':{'value':'%zu'}}}]}},",
                  2 + chance(w, 4));
        write_head(w, b, site, 1, 2);
        sbuf_addz(b, "'devices':[");
        write_devices(w, b, site, P_DRAWS("cs", "2"));
    } else {
        write_head(w, b, site, 0, chance(w, 8) ? 1 : 2); // some are incomplete
        sbuf_addz(b, "'devices':[");
        write_devices(w, b, site, shape == 1 ? P_SHARED("10") : "");
    }
    sbuf_addz(b, "]}}");
}

// --- Changes, to both ----------------------------------------------------------------------------

static struct index_object as_object(const void *value)
{
    return (struct index_object){.value = value};
}

static void publish(struct world *w, size_t site)
{
    cleanup_sbuf struct sbuf b = {0};
    const struct api_resource_slice *new[2] = {NULL, NULL};
    if (chance(w, 8)) {
        sbuf_addz(&b, SLICES_OPEN);
        write_site(w, &b, site);
        sbuf_addz(&b, "]}");
        const struct question *q = read_text(w, sbuf_str(&b));
        for (size_t i = 0; i < q->slices.n && i < 2; i++)
            new[i] = q->slices.p[i];
    }
    for (size_t i = 0; i < 2; i++) {
        if (w->slices[site][i] || new[i])
            index_set_slice(w->index, as_object(w->slices[site][i]), as_object(new[i]));
        w->slices[site][i] = new[i];
    }
}

static void set_node(struct world *w, size_t i, bool there)
{
    w->there[i] = there;
    index_set_node(w->index, (uint32_t)i, w->nodes[i]->metadata.name,
                   as_object(there ? w->nodes[i] : NULL));
}

static void toggle_rule(struct world *w, size_t i)
{
    w->tainted[i] = !w->tainted[i];
    if (w->tainted[i])
        index_set_rule(w->index, as_object(NULL), as_object(w->rules[i]));
    else
        index_set_rule(w->index, as_object(w->rules[i]), as_object(NULL));
}

static void take(struct world *w, const struct api_resource_claim *claim,
                 const struct alloc_answer *a)
{
    for (size_t i = 0; i < CLAIMS_MAX; i++) {
        struct held *h = &w->held[i];
        if (h->claim.status.allocation)
            continue;
        api_copy(&api_allocation_result_type, &a->results[0], &h->result, &h->arena);
        h->claim = *claim;
        h->claim.status.allocation = &h->result;
        index_use(w->index, &h->user, &h->result);
        return;
    }
}

static void release(struct world *w, size_t i)
{
    struct held *h = &w->held[i];
    index_use(w->index, &h->user, NULL);
    vec_done(&h->user.pools);
    arena_done(&h->arena);
    *h = (struct held){0};
}

// --- The same question, node by node -------------------------------------------------------------

struct reference {
    struct alloc_cluster *cluster;
    struct alloc_view *views[NODES_MAX];
    enum alloc_verdict verdicts[NODES_MAX];
};

static void look(const struct world *w, struct reference *r)
{
    const struct api_resource_slice *slices[2 * (NODES_MAX + POOLS_MAX)];
    const struct api_device_taint_rule *rules[2];
    const struct api_resource_claim *claims[CLAIMS_MAX];
    struct err err = {0};
    struct alloc_input in = {.features = w->base->features,
                             .slices = slices,
                             .classes = w->base->classes.p,
                             .classes_len = w->base->classes.n,
                             .taint_rules = rules,
                             .claims = claims};
    for (size_t i = 0; i < NODES_MAX + POOLS_MAX; i++)
        for (size_t k = 0; k < 2; k++)
            if (w->slices[i][k])
                slices[in.slices_len++] = w->slices[i][k];
    for (size_t i = 0; i < 2; i++)
        if (w->tainted[i])
            rules[in.taint_rules_len++] = w->rules[i];
    for (size_t i = 0; i < CLAIMS_MAX; i++)
        if (w->held[i].claim.status.allocation)
            claims[in.claims_len++] = &w->held[i].claim;
    *r = (struct reference){0};
    assert_int_equal(alloc_cluster_new(&in, &r->cluster, &err), 0);
    for (size_t i = 0; i < w->nodes_len; i++)
        if (w->there[i])
            assert_int_equal(alloc_view_new(r->cluster, w->nodes[i], &r->views[i], &err), 0);
}

static void solve_all(const struct world *w, struct reference *r,
                      const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < w->nodes_len; i++) {
        struct alloc_answer a = {0};
        if (!w->there[i])
            continue;
        alloc_solve(w->solver, r->views[i], &claim, 1, &a);
        r->verdicts[i] = a.verdict;
    }
}

static void forget(struct reference *r)
{
    for (size_t i = 0; i < NODES_MAX; i++)
        alloc_view_free(r->views[i]);
    alloc_cluster_free(r->cluster);
}

// Which node, by the order of nodes; nodes_len: none.
static size_t first_of(const struct world *w, const struct reference *r)
{
    for (size_t i = 0; i < w->nodes_len; i++)
        if (w->there[i] && r->verdicts[i] != ALLOC_UNSATISFIABLE &&
            r->verdicts[i] != ALLOC_NODE_ERROR)
            return i;
    return w->nodes_len;
}

static void compare_counts(struct world *w, const struct reference *r,
                           const struct api_resource_claim *claim)
{
    struct index_answer a;
    uint64_t hash = fleet_hash(&claim, 1);
    size_t serve = 0;
    index_count(w->index, w->solver,
                &(struct index_ask){.hash = hash, .claims = &claim, .claims_len = 1}, &a);
    const struct index_question *q = index_question(w->index, hash, &claim, 1);
    for (size_t i = 0; i < w->nodes_len; i++) {
        if (!w->there[i])
            continue;
        bool serves = r->verdicts[i] == ALLOC_ALLOCATED;
        serve += serves;
        if (index_serves(w->index, q, (uint32_t)i) != serves)
            fail_msg("claim %.*s, node %zu: %s by itself, %s in the index",
                     STR_ARG(claim->metadata.name), i, alloc_verdict_name(r->verdicts[i]),
                     serves ? "not served" : "served");
    }
    assert_int_equal(a.nodes, serve);
    assert_true(a.more >= serve);
}

// True: the best answer may be taken; it is in *ret.
static bool compare(struct world *w, const struct api_resource_claim *claim,
                    struct index_answer *ret)
{
    struct reference r;
    look(w, &r);
    solve_all(w, &r, claim);
    compare_counts(w, &r, claim);
    index_best(
        w->index, w->solver,
        &(struct index_ask){.hash = fleet_hash(&claim, 1), .claims = &claim, .claims_len = 1}, ret);
    size_t first = first_of(w, &r);
    if (first == w->nodes_len) {
        assert_true(ret->verdict == ALLOC_UNSATISFIABLE || ret->verdict == ALLOC_NODE_ERROR);
    } else {
        assert_int_equal(ret->node, first);
        assert_int_equal(ret->verdict, r.verdicts[first]);
    }
    bool allocated = ret->verdict == ALLOC_ALLOCATED;
    cleanup_sbuf struct sbuf problems = {0};
    if (allocated && !alloc_check(r.views[ret->node], &claim, 1, ret->best.results, 1, &problems))
        fail_msg("%.*s", STR_ARG(sbuf_str(&problems)));
    forget(&r);
    return allocated;
}

// --- Runs ----------------------------------------------------------------------------------------

static void begin(struct world *w, uint64_t seed)
{
    cleanup_sbuf struct sbuf b = {0};
    *w = (struct world){0};
    rng_seeded_init(&w->rng, seed);
    sbuf_addz(&b, "{'features':['all']," P_CLASSES ",'nodes':[");
    for (size_t i = 0; i < NODES_MAX; i++)
        sbuf_addf(&b, "%s{'metadata':{'name':'n%zu','labels':{'zone':'z%zu'}}}", i ? "," : "", i,
                  i % 3);
    sbuf_addz(&b, "],'deviceTaintRules':[{'metadata':{'name':'all'},'spec':{'deviceSelector':{"
                  "'driver':'d.example.com'},'taint':{'key':'fix','effect':'NoSchedule'}}},"
                  "{'metadata':{'name':'one'},'spec':{'deviceSelector':{'driver':'d.example.com',"
                  "'pool':'p1'},'taint':{'key':'bad','effect':'NoExecute'}}}],'claims':[");
    for (size_t i = 0; i < array_len(questions); i++)
        sbuf_addf(&b, "%s%s", i ? "," : "", questions[i]);
    sbuf_addz(&b, "]}");
    w->base = read_text(w, sbuf_str(&b));
    w->nodes_len = 3 + chance(w, NODES_MAX - 2);
    for (size_t i = 0; i < w->nodes_len; i++)
        w->nodes[i] = w->base->nodes.p[i];
    w->rules[0] = w->base->rules.p[0];
    w->rules[1] = w->base->rules.p[1];
    w->index = index_new(&(struct index_options){
        .features = w->base->features, .policy = ALLOC_FIRST, .devices_kept = 1});
    w->solver = alloc_solver_new(&(struct alloc_options){.policy = ALLOC_FIRST});
    index_set_class(w->index, as_object(NULL), as_object(w->base->classes.p[0]));
    for (size_t i = 0; i < w->nodes_len; i++) {
        if (chance(w, 2))
            publish(w, i); // before its node
        set_node(w, i, true);
        publish(w, i);
    }
}

static void end(struct world *w)
{
    for (size_t i = 0; i < CLAIMS_MAX; i++)
        if (w->held[i].claim.status.allocation)
            release(w, i);
    alloc_solver_free(w->solver);
    index_free(w->index);
    vec_foreach(&w->kept, q) {
        alloc_question_done(*q);
        free(*q);
    }
    vec_done(&w->kept);
}

static void change(struct world *w)
{
    size_t which = chance(w, 12);
    if (which < 3)
        release(w, chance(w, CLAIMS_MAX));
    else if (which < 6)
        publish(w, chance(w, w->nodes_len));
    else if (which < 8)
        publish(w, NODES_MAX + chance(w, POOLS_MAX));
    else if (which == 8)
        toggle_rule(w, chance(w, 2));
    else if (which == 9)
        set_node(w, chance(w, w->nodes_len), chance(w, 4) != 0);
}

static void run(uint64_t seed)
{
    struct world w;
    begin(&w, seed);
    for (size_t i = 0; i < STEPS; i++) {
        struct index_answer a;
        const struct api_resource_claim *claim = w.base->claims.p[chance(&w, array_len(questions))];
        change(&w);
        if (compare(&w, claim, &a) && chance(&w, 3))
            take(&w, claim, &a.best);
    }
    end(&w);
}

static void the_index_answers_as_every_node_does(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        run(seed);
}

// Nodes that differ in nothing that is asked for are one state.
static void names_make_no_difference(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 7);
    for (size_t i = 0; i < w.nodes_len; i++) {
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addf(&b,
                  SLICES_OPEN "{'metadata':{'name':'t%zu'},'spec':{'driver':'d.example.com',"
                              "'pool':{'name':'q%zu','generation':%zu,'resourceSliceCount':1},"
                              "'nodeName':'n%zu','devices':[{'name':'g%zu','attributes':{"
                              "'uuid':{'string':'%zu'}}}]}}]}",
                  i, i, i + 1, i, i, i);
        for (size_t k = 0; k < 2; k++)
            if (w.slices[i][k])
                index_set_slice(w.index, as_object(w.slices[i][k]), as_object(NULL));
        index_set_slice(w.index, as_object(NULL),
                        as_object(read_text(&w, sbuf_str(&b))->slices.p[0]));
    }
    assert_int_equal(index_states(w.index), 1);
    assert_true(index_state(w.index, 0) != 0);
    // Once something reads the attribute, each is one by itself.
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "{'features':['all'],'claims':[" P_CLAIM(
                      "u", P_REQ("r", "1",
                                 P_CEL("device.attributes['d.example.com'].uuid == '1'"))) "]}");
    const struct api_resource_claim *claim = read_text(&w, sbuf_str(&b))->claims.p[0];
    struct index_answer a;
    index_count(w.index, w.solver,
                &(struct index_ask){.hash = 1, .claims = &claim, .claims_len = 1}, &a);
    assert_int_equal(a.nodes, 1);
    assert_int_equal(a.more, 1);
    assert_int_equal(index_states(w.index), w.nodes_len);
    end(&w);
}

// Claims can name as many attributes as there is room for in them. After some thousands all count, and no more are kept.
static void attributes_without_end(void **state)
{
    (void)state;
    enum { NAMES = 300000 };
    struct index *x = index_new(&(struct index_options){0});
    struct arena arena = {0};
    struct api_resource_claim claim = {0};
    struct api_device_constraint *all = arena_array(&arena, struct api_device_constraint, NAMES);
    for (size_t i = 0; i < NAMES; i++)
        all[i].match_attribute = arena_strf(&arena, "d.example.com/a%zu", i);
    claim.spec.devices.constraints.p = all;
    claim.spec.devices.constraints.n = NAMES;
    index_expect(x, &claim);
    assert_false(index_catch_up(x, 1));
    index_free(x);
    arena_done(&arena);
}

RUN_TESTS(TEST_CASE(the_index_answers_as_every_node_does), TEST_CASE(names_make_no_difference),
          TEST_CASE(attributes_without_end))
