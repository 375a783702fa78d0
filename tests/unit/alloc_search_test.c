// SPDX-License-Identifier: Apache-2.0
//
// The search: hard problems end after a bounded number of steps; on small problems it says no only
// when trying everything finds nothing; and the promises of the policy pack.
#include "alloc_case.h"
#include "alloc_hard.h"
#include "base/rand.h"

#include "base/banned.h"

// --- Hard problems -------------------------------------------------------------------------------

// Far above what any of them takes, far below what a search without reasons would.
#define STEPS_MAX 20000

static void check_hard(const struct alloc_hard *h, enum alloc_policy policy)
{
    struct question q = {0};
    struct prepared p = {0};
    struct err err = {0};
    cleanup_sbuf struct sbuf text = {0};
    alloc_hard_write(h, &text);
    if (alloc_question_read(&q, sbuf_str(&text), &err) < 0 ||
        alloc_question_prepare(&q, &p, &err) < 0)
        fail_msg("%s: %s", h->name, err.msg);
    struct alloc_solver *s = alloc_solver_new(&(struct alloc_options){.policy = policy});
    struct alloc_answer a;
    if (!p.views)
        abort(); // the test has failed already
    alloc_solve(s, p.views[0], q.claims.p, q.claims.n, &a);
    assert_int_equal(a.verdict, h->satisfiable ? ALLOC_ALLOCATED : ALLOC_UNSATISFIABLE);
    if (a.steps > STEPS_MAX)
        fail_msg("%s takes %llu steps", h->name, (unsigned long long)a.steps);
    alloc_solver_free(s);
    alloc_question_end(&q, &p);
    alloc_question_done(&q);
}

static void test_hard(void **state)
{
    check_hard(*state, ALLOC_FIRST);
    check_hard(*state, ALLOC_PACK);
    check_hard(*state, ALLOC_SPREAD);
}

// --- Searches that did not end -------------------------------------------------------------------

struct endless {
    const char *name;
    bool lists;        // devices have a number of their own and a common one, else only their own
    const char *first; // more of the first device
    const char *claims;
};

#define TAKE(name, n) CLAIM(name, REQ("r", COUNT(n)))

static const struct endless endless[] = {
    // Whatever the first two claims take, the last one contradicts itself.
    {"the-last-claim-alone-fails", true, "",
     TAKE("a", "5") "," TAKE("b", "5") "," CLAIM(
         "c", REQ("r", COUNT("3")),
         ",'constraints':[{'matchAttribute':'drv.example.com/x'},{'distinctAttribute':"
         "'drv.example.com/x'}]")},
    // The error behind the last claim is never met: there are not enough devices before it.
    {"too-few-before-an-error", false, "",
     TAKE("a", "6") "," TAKE("b", "6") "," TAKE("c", "13") "," CLAIM("d", REQ("r", EVERY), MATCH)},
    // Neither is this one: the first of all devices is refused for its taint.
    {"all-ends-before-its-error", false, TAINT,
     TAKE("a", "6") "," TAKE("b", "6") "," CLAIM("c", REQ("r", EVERY), MATCH)},
};

static void check_ends(const struct endless *e, enum alloc_policy policy)
{
    cleanup_sbuf struct sbuf devices = {0};
    cleanup_sbuf struct sbuf slices = {0};
    cleanup_sbuf struct sbuf text = {0};
    struct question q = {0};
    struct prepared p = {0};
    struct err err = {0};
    for (int i = 0; i < 24; i++)
        sbuf_addf(&devices, "%s{'name':'d%d','attributes':{'drv.example.com/x':{%s%d%s}}%s}",
                  i ? "," : "", i, e->lists ? "'ints':[100," : "'int':", i, e->lists ? "]" : "",
                  i ? "" : e->first);
    sbuf_addf(&slices, POOL("drv.example.com", "p", "s", "1", "'nodeName':'n','devices':[%.*s]"),
              STR_ARG(sbuf_str(&devices)));
    sbuf_addc(&slices, '\0');
    write_document(
        &(struct problem){.gates = ALL_GATES, .slices = slices.p, .claims = e->claims, .more = ""},
        &text);
    if (alloc_question_read(&q, sbuf_str(&text), &err) < 0 ||
        alloc_question_prepare(&q, &p, &err) < 0)
        fail_msg("%s: %s", e->name, err.msg);
    struct alloc_solver *s = alloc_solver_new(&(struct alloc_options){.policy = policy});
    struct alloc_answer a;
    if (!p.views)
        abort(); // the test has failed already
    alloc_solve(s, p.views[0], q.claims.p, q.claims.n, &a);
    assert_int_equal(a.verdict, ALLOC_UNSATISFIABLE);
    if (a.steps > STEPS_MAX)
        fail_msg("%s takes %llu steps", e->name, (unsigned long long)a.steps);
    alloc_solver_free(s);
    alloc_question_end(&q, &p);
    alloc_question_done(&q);
}

static void test_ends(void **state)
{
    check_ends(*state, ALLOC_FIRST);
    check_ends(*state, ALLOC_PACK);
    check_ends(*state, ALLOC_SPREAD);
}

// --- Everything tried ----------------------------------------------------------------------------

struct exhaustive {
    const struct question *q;
    const struct alloc_view *view;
    const struct api_resource_slice *slice; // the one with devices
    struct api_allocation_result result;    // of the only claim
    struct api_device_request_allocation_result devices[ALLOC_CLAIM_DEVICES_MAX];
    char names[8][16]; // request/alternative, by request
};

static bool any_valid(struct exhaustive *e, size_t request);

// Gives a request every set of `count` devices in turn.
static bool try_sets(struct exhaustive *e, size_t request, struct str name, int64_t count)
{
    const struct api_device_array *all = &e->slice->spec.devices;
    size_t before = e->result.devices.results.n;
    for (unsigned set = 0; set < 1U << all->n; set++) {
        if (__builtin_popcount(set) != count)
            continue;
        size_t n = before;
        for (size_t d = 0; d < all->n; d++)
            if (set >> d & 1)
                e->devices[n++] =
                    (struct api_device_request_allocation_result){.request = name,
                                                                  .driver = e->slice->spec.driver,
                                                                  .pool = e->slice->spec.pool.name,
                                                                  .device = all->p[d].name};
        e->result.devices.results.n = n;
        bool found = any_valid(e, request + 1);
        e->result.devices.results.n = before;
        if (found)
            return true;
    }
    return false;
}

// The checker is the only one to judge.
static bool any_valid(struct exhaustive *e, size_t request) // NOLINT(misc-no-recursion)
{
    const struct api_device_request_array *rs = &e->q->claims.p[0]->spec.devices.requests;
    if (request == rs->n) {
        cleanup_sbuf struct sbuf problems = {0};
        return alloc_check(e->view, e->q->claims.p, 1, &e->result, 1, &problems);
    }
    const struct api_device_request *r = &rs->p[request];
    if (r->exactly)
        return try_sets(e, request, r->name, r->exactly->count);
    for (size_t k = 0; k < r->first_available.n; k++) {
        char *name = e->names[request];
        int n = snprintf(name, sizeof(e->names[0]), "%.*s/%.*s", STR_ARG(r->name),
                         STR_ARG(r->first_available.p[k].name));
        if (try_sets(e, request, str_make(name, (size_t)n), r->first_available.p[k].count))
            return true;
    }
    return false;
}

static void add_small_devices(struct rng *r, struct sbuf *out, bool counters)
{
    for (size_t i = 0, n = 3 + rng_below(r, 3); i < n; i++) {
        sbuf_addf(out,
                  "%s{'name':'d%zu','attributes':{'drv.example.com/x':{'int':%d},"
                  "'drv.example.com/y':{'int':%d}}",
                  i ? "," : "", i, (int)rng_below(r, 3), (int)rng_below(r, 2));
        if (counters && rng_below(r, 4))
            sbuf_addf(out,
                      ",'consumesCounters':[{'counterSet':'%s','counters':{'m':{'value':'%d'}}}]",
                      rng_below(r, 2) ? "cs" : "cd", (int)rng_below(r, 3) + 1);
        sbuf_addc(out, '}');
    }
}

static void add_wish(struct rng *r, struct sbuf *out)
{
    sbuf_addf(out, "'deviceClassName':'c','allocationMode':'ExactCount','count':%d",
              (int)rng_below(r, 2) + 1);
    if (rng_below(r, 3) == 0)
        sbuf_addf(out,
                  ",'selectors':[{'cel':{'expression':"
                  "\"device.attributes['drv.example.com'].x %s %d\"}}]",
                  rng_below(r, 2) ? ">=" : "!=", (int)rng_below(r, 3));
}

static void add_small_claim(struct rng *r, struct sbuf *out)
{
    size_t n = 1 + rng_below(r, 3);
    sbuf_addz(out, "{'metadata':{'name':'a'},'spec':{'devices':{'requests':[");
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(out, "%s{'name':'r%zu',", i ? "," : "", i);
        if (rng_below(r, 4)) {
            sbuf_addz(out, "'exactly':{");
            add_wish(r, out);
            sbuf_addz(out, "}}");
        } else {
            sbuf_addz(out, "'firstAvailable':[{'name':'s0',");
            add_wish(r, out);
            sbuf_addz(out, "},{'name':'s1',");
            add_wish(r, out);
            sbuf_addz(out, "}]}");
        }
    }
    sbuf_addz(out, "],'constraints':[");
    for (size_t i = 0, m = rng_below(r, 3); i < m; i++) {
        sbuf_addf(out, "%s{'%sAttribute':'drv.example.com/%s'", i ? "," : "",
                  rng_below(r, 2) ? "match" : "distinct", rng_below(r, 2) ? "x" : "y");
        if (rng_below(r, 2))
            sbuf_addf(out, ",'requests':['r%d','r%d']", (int)rng_below(r, n), (int)rng_below(r, n));
        sbuf_addc(out, '}');
    }
    sbuf_addz(out, "]}}}");
}

static void check_small(struct rng *r)
{
    cleanup_sbuf struct sbuf devices = {0};
    cleanup_sbuf struct sbuf slices = {0};
    cleanup_sbuf struct sbuf claim = {0};
    cleanup_sbuf struct sbuf text = {0};
    add_small_devices(r, &devices, true);
    add_small_claim(r, &claim);
    sbuf_addf(&slices,
              POOL("drv.example.com", "p", "s0", "2",
                   "'nodeName':'n','sharedCounters':[{'name':'cs','counters':{'m':{'value':'%d'}}},"
                   "{'name':'cd','counters':{'m':{'value':'%d'}}}]") "," POOL("drv.example.com",
                                                                              "p", "s1", "2",
                                                                              "'nodeName':'n','"
                                                                              "devices':[%s]"),
              (int)rng_below(r, 6), (int)rng_below(r, 6), devices.p);
    struct problem p = {.gates = GATES, .slices = slices.p, .claims = claim.p, .more = ""};
    write_document(&p, &text);
    struct question q = {0};
    struct prepared prepared = {0};
    struct err err = {0};
    if (alloc_question_read(&q, sbuf_str(&text), &err) < 0 ||
        alloc_question_prepare(&q, &prepared, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(sbuf_str(&text)));
    if (!prepared.views)
        abort(); // the test has failed already
    struct exhaustive e = {.q = &q, .view = prepared.views[0], .slice = q.slices.p[1]};
    e.result.devices.results.p = e.devices;
    bool possible = any_valid(&e, 0);
    for (unsigned k = 0; k < 6; k++) {
        cleanup_sbuf struct sbuf got = {0};
        struct alloc_options o = {.policy = k / 2, .eager_pruning = k % 2};
        enum alloc_verdict v = solve_text(sbuf_str(&text), &o, &got);
        if (v != (possible ? ALLOC_ALLOCATED : ALLOC_UNSATISFIABLE))
            fail_msg("%s, but trying everything finds %s in %.*s", alloc_verdict_name(v),
                     possible ? "a solution" : "none", STR_ARG(sbuf_str(&text)));
    }
    alloc_question_end(&q, &prepared);
    alloc_question_done(&q);
}

static void test_says_no_only_when_nothing_fits(void **state)
{
    struct rng_seeded r;
    (void)state;
    rng_seeded_init(&r, 1237);
    for (int i = 0; i < 200; i++)
        check_small(&r.rng);
}

// --- What pack promises --------------------------------------------------------------------------

static void check_policy(enum alloc_policy policy, const char *slices, const char *claims,
                         const char *more, const char *expect)
{
    struct problem p = {.gates = GATES, .slices = slices, .claims = claims, .more = more};
    cleanup_sbuf struct sbuf text = {0};
    write_document(&p, &text);
    for (int i = 0; i < 2; i++) { // the same every time
        cleanup_sbuf struct sbuf got = {0};
        struct alloc_options o = {.policy = policy};
        assert_int_equal(solve_text(sbuf_str(&text), &o, &got), ALLOC_ALLOCATED);
        assert_str(sbuf_str(&got), expect);
    }
}

#define SIZED(name, gib) DEV(name, ",'capacity':{'mem':{'value':'" gib "'}}")

static void test_pack_takes_the_smallest_that_fits(void **state)
{
    (void)state;
    const char *slices = SLICE(SIZED("d0", "80Gi") "," SIZED("d1", "40Gi") "," SIZED("d2", "20Gi"));
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r", WANTS("30Gi"))), "", "d1");
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r")), "", "d2");
    check_policy(ALLOC_FIRST, slices, CLAIM("a", REQ("r", WANTS("30Gi"))), "", "d0");
}

// Like a GPU of eight memory slices: profiles of one, two and four at their places, and the whole.
#define SLOT(n) "'s" n "':{'value':'1'}"
#define PART(name, profile, slots)                                         \
    "{'name':'" name "','attributes':{'drv.example.com/x':{'int':" profile \
    "}},'consumesCounters':[{'counterSet':'gpu','counters':{" slots "}}]}"
#define FOUR(a, b, c, d) SLOT(a) "," SLOT(b) "," SLOT(c) "," SLOT(d)
#define GPU                                                                                                                                                                                                                                                                                                                                                                            \
    POOL("drv.example.com", "p", "s0", "2",                                                                                                                                                                                                                                                                                                                                            \
         "'nodeName':'n','sharedCounters':[{'name':'gpu','counters':{" FOUR(                                                                                                                                                                                                                                                                                                           \
             "0", "1", "2", "3") "," FOUR("4", "5", "6", "7") "}}]")                                                                                                                                                                                                                                                                                                                   \
    "," POOL("drv.example.com", "p", "s1", "2",                                                                                                                                                                                                                                                                                                                                        \
             "'nodeName':'n','devices':[" PART(                                                                                                                                                                                                                                                                                                                                        \
                 "whole", "8",                                                                                                                                                                                                                                                                                                                                                         \
                 FOUR("0", "1", "2", "3") "," FOUR(                                                                                                                                                                                                                                                                                                                                    \
                     "4", "5", "6",                                                                                                                                                                                                                                                                                                                                                    \
                     "7")) "," PART("half-0", "4",                                                                                                                                                                                                                                                                                                                                     \
                                    FOUR(                                                                                                                                                                                                                                                                                                                                              \
                                        "0", "1", "2",                                                                                                                                                                                                                                                                                                                                 \
                                        "3")) "," PART("half-4", "4",                                                                                                                                                                                                                                                                                                                  \
                                                       FOUR(                                                                                                                                                                                                                                                                                                                           \
                                                           "4", "5", "6",                                                                                                                                                                                                                                                                                                              \
                                                           "7")) "," PART("two-0", "2",                                                                                                                                                                                                                                                                                                \
                                                                          SLOT("0") "," SLOT(                                                                                                                                                                                                                                                                                          \
                                                                              "1")) "," PART("two"                                                                                                                                                                                                                                                                                     \
                                                                                             "-2",                                                                                                                                                                                                                                                                                     \
                                                                                             "2", SLOT("2") "," SLOT("3")) "," PART("two-4", "2", SLOT("4") "," SLOT("5")) "," PART("one-0", "1", SLOT("0")) "," PART("one-1", "1", SLOT("1")) "," PART("one-2", "1", SLOT("2")) "," PART("one-3", "1", SLOT("3")) "," PART("one-4",                                                   \
                                                                                                                                                                                                                                                                                                                            "1", SLOT("4")) "," PART("one-5",                          \
                                                                                                                                                                                                                                                                                                                                                     "1", SLOT("5")) "," PART("one-6", \
                                                                                                                                                                                                                                                                                                                                                                              "1",     \
                                                                                                                                                                                                                                                                                                                                                                              SLOT(    \
                                                                                                                                                                                                                                                                                                                                                                                  "6")) "]")
#define PROFILE(n) CEL("device.attributes['drv.example.com'].x == " n)

static void test_pack_places_partitions_tightly(void **state)
{
    (void)state;
    // The slice that no profile of two can have.
    check_policy(ALLOC_PACK, GPU, CLAIM("a", REQ("r", PROFILE("1"))), "", "one-6");
    check_policy(ALLOC_FIRST, GPU, CLAIM("a", REQ("r", PROFILE("1"))), "", "one-0");
    // Beside what is there, so that the other half stays whole.
    check_policy(ALLOC_PACK, GPU, CLAIM("a", REQ("r", PROFILE("1"))), IN_USE("one-2"), "one-3");
    check_policy(ALLOC_PACK, GPU, CLAIM("a", REQ("r", PROFILE("2"))), IN_USE("one-6"), "two-4");
    // Both at once: the half and, in the rest, the slice that leaves a profile of two.
    check_policy(ALLOC_PACK, GPU, CLAIM("a", REQ("r", PROFILE("1")) "," REQ("q", PROFILE("4"))), "",
                 "one-6,half-0");
}

#define ON(name, root, numa)                                                      \
    DEV(name, ",'attributes':{'resource.kubernetes.io/pcieRoot':{'string':'" root \
              "'},'resource.kubernetes.io/numaNode':{'int':" numa "}}")

static void test_pack_keeps_pcie_roots_whole(void **state)
{
    (void)state;
    const char *slices = SLICE(ON("a0", "A", "0") "," ON("a1", "A", "0") "," ON(
        "b0", "B", "0") "," ON("b1", "B", "0") "," ON("c0", "C", "0") "," ON("c1", "C", "0"));
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r")), IN_USE("b0"), "b1");
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r", COUNT("2"))), IN_USE("a0"), "b0,b1");
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r")) "," CLAIM("b", REQ("r")), "", "a0;a1");
    check_policy(ALLOC_SPREAD, slices, CLAIM("a", REQ("r", COUNT("3"))), "", "a0,b0,c0");
}

// The second request can only have b0: the first one should not begin A for that.
static void test_pack_looks_at_requests_together(void **state)
{
    (void)state;
    const char *slices = SLICE(
        ON("a0", "A", "0") "," ON("a1", "A", "0") "," ON("b0", "B", "0") "," ON("b1", "B", "0"));
    check_policy(
        ALLOC_PACK, slices,
        CLAIM("a", REQ("r") "," REQ(
                       "q", CEL("device.attributes['resource.kubernetes.io'].pcieRoot == 'B'"))),
        "", "b0,b1");
    check_policy(
        ALLOC_FIRST, slices,
        CLAIM("a", REQ("r") "," REQ(
                       "q", CEL("device.attributes['resource.kubernetes.io'].pcieRoot == 'B'"))),
        "", "a0,b0");
}

// Shared devices that draw on no counter serve any number of requests.
static void test_counters_elsewhere_do_not_limit_shares(void **state)
{
    (void)state;
    const char *slices = COUNTED("1", DEV("d0", DRAWS("1"))) "," POOL(
        "drv.example.com", "q", "t", "1",
        "'nodeName':'n','devices':[" DEV("s0", ",'allowMultipleAllocations':true") "]");
    const char *claims = CLAIM("a", REQ("r") "," REQ("q") "," REQ("p"));
    struct problem p = {.gates = GATES, .slices = slices, .claims = claims, .more = ""};
    cleanup_sbuf struct sbuf text = {0};
    cleanup_sbuf struct sbuf got = {0};
    write_document(&p, &text);
    struct alloc_options o = {.policy = ALLOC_FIRST, .eager_pruning = true};
    assert_int_equal(solve_text(sbuf_str(&text), &o, &got), ALLOC_ALLOCATED);
    assert_str(sbuf_str(&got), "d0,s0,s0");
}

static void test_pack_keeps_numa_nodes_whole(void **state)
{
    (void)state;
    const char *slices = SLICE(ON("a", "A", "0") "," ON("b", "B", "0") "," ON("c", "C", "1") "," ON(
        "d", "D", "1") "," ON("e", "E", "1"));
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r")), IN_USE("a"), "b");
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r", COUNT("2"))), IN_USE("c"), "a,b");
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r", COUNT("3"))), "", "c,d,e");
}

#define TWO_GPUS                                                                                 \
    POOL("drv.example.com", "p", "s0", "2",                                                      \
         "'nodeName':'n','sharedCounters':[{'name':'a','counters':{'m':{'value':'2'}}},{'name':" \
         "'b','counters':{'m':{'value':'2'}}}]")                                                 \
    "," POOL("drv.example.com", "p", "s1", "2",                                                  \
             "'nodeName':'n','devices':[" QUARTER("a0", "a") "," QUARTER("b0", "b") "," QUARTER( \
                 "a1", "a") "," QUARTER("b1", "b") "]")
#define QUARTER(name, set) \
    DEV(name, ",'consumesCounters':[{'counterSet':'" set "','counters':{'m':{'value':'1'}}}]")

static void test_pack_goes_on_with_broken_devices(void **state)
{
    (void)state;
    check_policy(ALLOC_PACK, TWO_GPUS, CLAIM("a", REQ("r")), IN_USE("b0"), "b1");
    check_policy(ALLOC_FIRST, TWO_GPUS, CLAIM("a", REQ("r")), IN_USE("b0"), "a0");
    check_policy(ALLOC_PACK, TWO_GPUS, CLAIM("a", REQ("r")) "," CLAIM("b", REQ("r")), "", "a0;a1");
    check_policy(ALLOC_PACK, TWO_GPUS, CLAIM("a", REQ("r", COUNT("2"))), "", "a0,a1");
    check_policy(ALLOC_SPREAD, TWO_GPUS, CLAIM("a", REQ("r", COUNT("2"))), "", "a0,b0");
}

static void test_pack_fills_shared_devices(void **state)
{
    (void)state;
    const char *slices =
        SLICE(DEV("d0", SHARED("{'value':'10'}")) "," DEV("d1", SHARED("{'value':'10'}")));
    const char *used = ",'allocated':{'sharedDevices':[{'driver':'drv.example.com','pool':'p',"
                       "'device':'d1','shareID':'x'}],'capacity':[{'driver':'drv.example.com',"
                       "'pool':'p','device':'d1','capacity':{'mem':'4'}}]}";
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r", WANTS("3"))), used, "d1");
    check_policy(ALLOC_PACK, slices, CLAIM("a", REQ("r", WANTS("7"))), used, "d0");
    check_policy(ALLOC_SPREAD, slices, CLAIM("a", REQ("r", WANTS("3"))), used, "d0");
}

int main(void)
{
    struct CMUnitTest tests[64];
    size_t n = 0;
    for (size_t i = 0; i < alloc_hard_count; i++)
        tests[n++] = (struct CMUnitTest){alloc_hard_problems[i].name, test_hard, NULL, NULL,
                                         (void *)(uintptr_t)&alloc_hard_problems[i]};
    for (size_t i = 0; i < array_len(endless); i++)
        tests[n++] = (struct CMUnitTest){endless[i].name, test_ends, NULL, NULL,
                                         (void *)(uintptr_t)&endless[i]};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_says_no_only_when_nothing_fits),
        cmocka_unit_test(test_pack_takes_the_smallest_that_fits),
        cmocka_unit_test(test_pack_places_partitions_tightly),
        cmocka_unit_test(test_pack_keeps_pcie_roots_whole),
        cmocka_unit_test(test_pack_looks_at_requests_together),
        cmocka_unit_test(test_counters_elsewhere_do_not_limit_shares),
        cmocka_unit_test(test_pack_keeps_numa_nodes_whole),
        cmocka_unit_test(test_pack_goes_on_with_broken_devices),
        cmocka_unit_test(test_pack_fills_shared_devices),
    };
    for (size_t i = 0; i < array_len(others); i++)
        tests[n++] = others[i];
    return _cmocka_run_group_tests("alloc_search", tests, n, NULL, NULL);
}
