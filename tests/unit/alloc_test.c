// SPDX-License-Identifier: Apache-2.0
//
// What the allocator does, rule by rule. A case is a problem written as JSON with single quotes,
// its verdict, and the devices of each claim or a part of the error. Every case is solved with and
// without pruning, which must agree, and every allocation is given to the checker.
#include "alloc_case.h"
#include "base/rand.h"

#include "base/banned.h"

static const struct problem problems[] = {
    {"admin-later-claim-shares", GATES, SLICE(DEV("d0")),
     CLAIM("a", REQ("r")) "," CLAIM("b", REQ("r", ADMIN)), "", ALLOC_ALLOCATED, "d0;d0"},
    {"admin-earlier-claim-blocks", GATES, SLICE(DEV("d0")),
     CLAIM("a", REQ("r", ADMIN)) "," CLAIM("b", REQ("r")), "", ALLOC_UNSATISFIABLE, ""},
    {"admin-same-claim", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r") "," REQ("q", ADMIN)), "",
     ALLOC_UNSATISFIABLE, ""},
    {"admin-ignores-in-use", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r", ADMIN)), IN_USE("d0"),
     ALLOC_ALLOCATED, "d0"},
    {"admin-respects-taints", GATES, SLICE(DEV("d0", TAINT)), CLAIM("a", REQ("r", ADMIN)), "",
     ALLOC_UNSATISFIABLE, ""},
    {"admin-double-counts-counters", GATES, COUNTED("1", DEV("d0", DRAWS("1"))),
     CLAIM("a", REQ("r", ADMIN)), IN_USE("d0"), ALLOC_UNSATISFIABLE, ""},
    {"all-in-use-fails", GATES, SLICE(DEV("d0") "," DEV("d1")), CLAIM("a", REQ("r", EVERY)),
     IN_USE("d1"), ALLOC_UNSATISFIABLE, ""},
    {"all-tainted-fails", GATES, SLICE(DEV("d0") "," DEV("d1", TAINT)), CLAIM("a", REQ("r", EVERY)),
     "", ALLOC_UNSATISFIABLE, ""},
    {"all-takes-all", GATES, SLICE(DEV("d0") "," DEV("d1")), CLAIM("a", REQ("r", EVERY)), "",
     ALLOC_ALLOCATED, "d0,d1"},
    {"all-no-device", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r", EVERY CEL("false"))), "",
     ALLOC_UNSATISFIABLE, ""},
    {"all-unrelated-incomplete-pool", GATES,
     SLICE(DEV("d0")) "," POOL("z.example.com", "q", "t", "2", "'nodeName':'n','devices':[]"),
     CLAIM("a", REQ("r", EVERY)), "", ALLOC_ERROR,
     "claim ns/a, request r: asks for all devices, but resource pool z.example.com/q is "
     "currently "
     "being updated"},
    {"exact-unrelated-incomplete-pool", GATES,
     SLICE(DEV("d0")) "," POOL("z.example.com", "q", "t", "2", "'nodeName':'n','devices':[]"),
     CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d0"},
    {"exact-only-invalid-pool", GATES, SLICE(DEV("d0") "," DEV("d0")), CLAIM("a", REQ("r")), "",
     ALLOC_NODE_ERROR, "invalid resource pools were encountered"},
    {"fa-all-constraint-is-fatal", GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':2}"))),
     CLAIM("a", ANY("r", SUB("s0", EVERY) "," SUB("s1")), MATCH), "", ALLOC_ERROR,
     "request s0: cannot add device drv.example.com/p/d1"},
    {"fa-missing-class-is-fatal", GATES, SLICE(DEV("d0")),
     CLAIM("a", ANY("r", SUB("s0") "," SUB("s1", ",'deviceClassName':'nope'"))), "", ALLOC_ERROR,
     "could not retrieve device class nope"},
    {"fa-second", GATES, SLICE(DEV("d0")),
     CLAIM("a", ANY("r", SUB("s0", COUNT("2")) "," SUB("s1"))), "", ALLOC_ALLOCATED, "d0"},
    {"cel-error-reached", GATES, SLICE(DEV("d0") "," DEV("d1", ATTR("{'int':1}"))),
     CLAIM("a", REQ("r", CEL("device.attributes['drv.example.com'].x == 1"))), "", ALLOC_ERROR,
     "claim ns/a: selector #0 on device drv.example.com/p/d0: CEL runtime error: no such key: "
     "x. "
     "consider"},
    {"cel-error-in-use-skipped", GATES, SLICE(DEV("d0") "," DEV("d1", ATTR("{'int':1}"))),
     CLAIM("a", REQ("r", CEL("device.attributes['drv.example.com'].x == 1"))), IN_USE("d0"),
     ALLOC_ALLOCATED, "d1"},
    {"cel-error-behind-solution", GATES, SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1")),
     CLAIM("a", REQ("r", CEL("device.attributes['drv.example.com'].x == 1"))), "", ALLOC_ALLOCATED,
     "d0"},
    {"cel-error-all", GATES, SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1")),
     CLAIM("a", REQ("r", EVERY CEL("device.attributes['drv.example.com'].x == 1"))), "",
     ALLOC_ERROR, "on device drv.example.com/p/d1"},
    {"cel-compile-error", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r", CEL("nope"))), "",
     ALLOC_ERROR, "claim ns/a: selector #0: CEL compile error: compilation failed"},
    {"cel-compile-error-no-device", GATES, SLICE(""), CLAIM("a", REQ("r", CEL("nope"))), "",
     ALLOC_UNSATISFIABLE, ""},
    {"match-missing-attribute", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r"), MATCH), "",
     ALLOC_UNSATISFIABLE, ""},
    {"match-type-differs", GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'string':'1'}"))),
     CLAIM("a", REQ("r", COUNT("2")), MATCH), "", ALLOC_UNSATISFIABLE, ""},
    {"match-skips-odd-one", GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':2}")) "," DEV(
         "d2", ATTR("{'int':2}"))),
     CLAIM("a", REQ("r", COUNT("2")), MATCH), "", ALLOC_ALLOCATED, "d1,d2"},
    {"match-list-off-single", GATES, SLICE(DEV("d0", ATTR("{'ints':[1]}"))),
     CLAIM("a", REQ("r"), MATCH), "", ALLOC_ALLOCATED, "d0"},
    {"match-list-off-two", GATES,
     SLICE(DEV("d0", ATTR("{'ints':[1]}")) "," DEV("d1", ATTR("{'ints':[1]}"))),
     CLAIM("a", REQ("r", COUNT("2")), MATCH), "", ALLOC_UNSATISFIABLE, ""},
    {"match-list-common", ALL_GATES,
     SLICE(DEV("d0", ATTR("{'ints':[1,2]}")) "," DEV("d1", ATTR("{'ints':[2,3]}")) "," DEV(
         "d2", ATTR("{'ints':[1,3]}")) "," DEV("d3", ATTR("{'int':2}"))),
     CLAIM("a", REQ("r", COUNT("3")), MATCH), "", ALLOC_ALLOCATED, "d0,d1,d3"},
    {"distinct-list-disjoint", ALL_GATES,
     SLICE(DEV("d0", ATTR("{'ints':[1,2]}")) "," DEV("d1", ATTR("{'ints':[2,3]}")) "," DEV(
         "d2", ATTR("{'ints':[3]}"))),
     CLAIM("a", REQ("r", COUNT("2")), DISTINCT), "", ALLOC_ALLOCATED, "d0,d2"},
    {"distinct-type-differs", GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'string':'1'}"))),
     CLAIM("a", REQ("r", COUNT("2")), DISTINCT), "", ALLOC_ALLOCATED, "d0,d1"},
    {"derived-shadows", ALL_GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':2}"))),
     CLAIM("a",
           REQ("r",
               COUNT("2") ",'derivedAttributes':[{'name':'drv.example.com/x','expression':'7'}]"),
           MATCH),
     "", ALLOC_ALLOCATED, "d0,d1"},
    {"counters-of-one-kind-twice", GATES,
     POOL("drv.example.com", "p", "s0", "2",
          "'nodeName':'n','sharedCounters':[{'name':'a','counters':{'m':{'value':'1'}}},{'name':'b'"
          ",'counters':{'m':{'value':'1'}}}]") "," POOL("drv.example.com", "p", "s1", "2",
                                                        "'nodeName':'n','devices':[" DEV(
                                                            "d0",
                                                            ",'allowMultipleAllocations':"
                                                            "true") "," DEV("d1", ",'"
                                                                                  "consumesCounters"
                                                                                  "':[{'counterSet'"
                                                                                  ":'a','counters':"
                                                                                  "{'m':{'value':'"
                                                                                  "1'}}},{"
                                                                                  "'counterSet':'b'"
                                                                                  ",'counters':{'m'"
                                                                                  ":{'value':'1'}}}"
                                                                                  "]") "]"),
     CLAIM("a", REQ("r") "," REQ("s") "," REQ("t")), "", ALLOC_ALLOCATED, "d0,d0,d0"},
    {"name-twice", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r") "," REQ("r")), "",
     ALLOC_UNSATISFIABLE, ""},
    {"derived-in-one-alternative", ALL_GATES, SLICE(DEV("d0")),
     CLAIM("a",
           ANY("r", SUB("a", ",'derivedAttributes':[{'name':'drv.example.com/"
                             "x','expression':'7'}]") "," SUB("b")),
           MATCH),
     "", ALLOC_ALLOCATED, "d0"},
    {"derived-off", GATES, SLICE(DEV("d0")),
     CLAIM("a", REQ("r", ",'derivedAttributes':[{'name':'drv.example.com/x','expression':'7'}]")),
     "", ALLOC_ERROR, "cannot handle request with derived attributes"},
    {"counters-limit", GATES,
     COUNTED("3", DEV("d0", DRAWS("2")) "," DEV("d1", DRAWS("2")) "," DEV("d2", DRAWS("1"))),
     CLAIM("a", REQ("r", COUNT("2"))), "", ALLOC_ALLOCATED, "d0,d2"},
    {"counter-negative-blocks-all", GATES,
     COUNTED("1", DEV("d0", DRAWS("2")) "," DEV("d1", DRAWS("0")) "," DEV("d2")),
     CLAIM("a", REQ("r", COUNT("2"))), IN_USE("d0"), ALLOC_UNSATISFIABLE, ""},
    {"counter-no-set", GATES, SLICE(DEV("d0", DRAWS("1"))), CLAIM("a", REQ("r")), "",
     ALLOC_NODE_ERROR, "invalid resource pools"},
    {"cap-count2-one-device", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", COUNT("2") WANTS("1"))), "", ALLOC_UNSATISFIABLE, ""},
    {"cap-two-requests-one-device", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", WANTS("4")) "," REQ("q", WANTS("4"))), "", ALLOC_ALLOCATED, "d0,d0"},
    {"cap-too-much", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", WANTS("4")) "," REQ("q", WANTS("5"))), "", ALLOC_UNSATISFIABLE, ""},
    {"cap-no-request-no-policy", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r") "," REQ("q", WANTS("1"))), "", ALLOC_UNSATISFIABLE, ""},
    {"cap-exclusive-device", GATES,
     SLICE(DEV("d0", ",'capacity':{'mem':{'value':'1'}}") "," DEV(
         "d1", ",'capacity':{'mem':{'value':'4'}}")),
     CLAIM("a", REQ("r", WANTS("2"))), "", ALLOC_ALLOCATED, "d1"},
    {"cap-unknown-name", GATES, SLICE(DEV("d0") "," DEV("d1", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", WANTS("1"))), "", ALLOC_ALLOCATED, "d1"},
    {"cap-negative", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", WANTS("-1"))), "", ALLOC_ERROR,
     "checking capacity for device drv.example.com/p/d0: capacity \"mem\": capacity value is "
     "negative"},
    {"cap-dedicated-blocks", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", WANTS("1"))), IN_USE("d0"), ALLOC_UNSATISFIABLE, ""},
    {"cap-off", "", SLICE(DEV("d0")), CLAIM("a", REQ("r", WANTS("1"))), "", ALLOC_ERROR,
     "DRAConsumableCapacity feature is disabled"},
    {"pool-too-many-slices", GATES,
     SLICE(DEV("d0")) "," POOL("drv.example.com", "p", "t", "1", "'nodeName':'n','devices':[]"),
     CLAIM("a", REQ("r")), "", ALLOC_UNSATISFIABLE, ""},
    {"pool-order", GATES,
     POOL("drv.example.com", "q", "s", "1", "'nodeName':'n','devices':[" DEV("d0") "]") "," POOL(
         "drv.example.com", "p", "t", "1", "'nodeName':'n','devices':[" DEV("d1") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d1"},
    {"pool-order-binding", GATES,
     POOL("drv.example.com", "p", "s", "1",
          "'nodeName':'n','devices':[" DEV(
              "d0", ",'bindingConditions':['b']") "]") "," POOL("drv.example.com", "q", "t", "1",
                                                                "'nodeName':'n','devices':[" DEV(
                                                                    "d1") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d1"},
    {"slice-order", GATES,
     POOL("drv.example.com", "p", "s2", "2", "'nodeName':'n','devices':[" DEV("d1") "]") "," POOL(
         "drv.example.com", "p", "s1", "2", "'nodeName':'n','devices':[" DEV("d2") "]"),
     CLAIM("a", REQ("r", COUNT("2"))), "", ALLOC_ALLOCATED, "d2,d1"},
    {"selector-two-terms", GATES,
     POOL("drv.example.com", "p", "s", "1",
          "'nodeSelector':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'a','operator':"
          "'DoesNotExist'}]},{'matchExpressions':[{'key':'b','operator':'Exists'}]}]},'devices':"
          "[" DEV("d0") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_ERROR,
     "create NodeSelector for claim a: unsupported ResourceSlice.NodeSelector with 2 terms"},
    {"selector-empty-term", GATES,
     POOL("drv.example.com", "p", "s", "1",
          "'nodeSelector':{'nodeSelectorTerms':[{}]},'devices':[" DEV("d0") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_UNSATISFIABLE, ""},
    {"pool-counts-disagree", GATES,
     POOL("drv.example.com", "p", "s", "2", "'nodeName':'n','devices':[" DEV("d0") "]") "," POOL(
         "drv.example.com", "p", "t", "1", "'nodeName':'n','devices':[" DEV("d1") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_NODE_ERROR, "invalid resource pools"},
    {"pool-counts-disagree-other-order", GATES,
     POOL("drv.example.com", "p", "t", "1", "'nodeName':'n','devices':[" DEV("d1") "]") "," POOL(
         "drv.example.com", "p", "s", "2", "'nodeName':'n','devices':[" DEV("d0") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_NODE_ERROR, "invalid resource pools"},
    {"pool-counts-disagree-elsewhere", GATES,
     SLICE(DEV("d0")) "," POOL("drv.example.com", "p", "t", "2",
                               "'nodeName':'m','devices':[" DEV("d1") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_NODE_ERROR, "invalid resource pools"},
    {"all-skips-counters-off", "'ConsumableCapacity'", SLICE(DEV("d0", DRAWS("1")) "," DEV("d1")),
     CLAIM("a", REQ("r", EVERY)), "", ALLOC_ALLOCATED, "d1"},
    {"counters-of-a-lost-device", GATES,
     COUNTED("9", DEV("d0", DRAWS("1")) "," DEV("d1", DRAWS("1"))), CLAIM("a", REQ("r")),
     IN_USE("gone"), ALLOC_UNSATISFIABLE, ""},
    {"counters-of-a-lost-device-bind-no-others", GATES,
     COUNTED("9", DEV("d0", DRAWS("1")) "," DEV("d1")), CLAIM("a", REQ("r")), IN_USE("gone"),
     ALLOC_ALLOCATED, "d1"},
    {"counters-of-a-published-device", GATES,
     COUNTED("9", DEV("d0", DRAWS("1")) "," DEV("d1", DRAWS("1"))), CLAIM("a", REQ("r")),
     IN_USE("d0"), ALLOC_ALLOCATED, "d1"},
    {"counter-consumed-below-zero", GATES,
     COUNTED("1", DEV("d0", DRAWS("-5")) "," DEV("d1", DRAWS("2"))),
     CLAIM("a", REQ("r", COUNT("2"))), "", ALLOC_NODE_ERROR, "invalid resource pools"},
    {"claim-empty", GATES, "", CLAIM("a", ""), "", ALLOC_ALLOCATED, ""},
    {"count-zero", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r", COUNT("0"))), "", ALLOC_ALLOCATED,
     ""},
    {"limit-33", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r", COUNT("33"))), "", ALLOC_ERROR,
     "adding 33 devices exceeds the claim limit of 32, with 0 already accounted for"},
    {"panic-no-exactly", GATES, SLICE(DEV("d0")), CLAIM("a", "{'name':'r'}"), "", ALLOC_ERROR,
     "neither exactly nor firstAvailable"},
    {"empty-constraint", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r"), ",'constraints':[{}]"), "",
     ALLOC_ERROR, "claim ns/a, constraint #0: empty constraint"},
};

// --- Random problems -----------------------------------------------------------------------------

static void random_devices(struct rng *r, struct sbuf *out, bool counters)
{
    size_t n = 2 + rng_below(r, 6);
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(out, "%s{'name':'d%zu','attributes':{'drv.example.com/x':{'int':%d}}",
                  i ? "," : "", i, (int)rng_below(r, 3));
        if (rng_below(r, 4) == 0)
            sbuf_addf(out, ",'allowMultipleAllocations':true,'capacity':{'mem':{'value':'%d'}}",
                      (int)rng_below(r, 5) + 1);
        if (counters && rng_below(r, 3))
            sbuf_addf(out,
                      ",'consumesCounters':[{'counterSet':'cs','counters':{'m':{'value':'%d'}}}]",
                      (int)rng_below(r, 3) + 1);
        sbuf_addc(out, '}');
    }
}

static void random_request(struct rng *r, struct sbuf *out, size_t i)
{
    sbuf_addf(out,
              "%s{'name':'r%zu','exactly':{'deviceClassName':'c','allocationMode':'ExactCount',"
              "'count':%d",
              i ? "," : "", i, (int)rng_below(r, 3) + 1);
    if (rng_below(r, 3) == 0)
        sbuf_addf(out,
                  ",'selectors':[{'cel':{'expression':"
                  "\"device.attributes['drv.example.com'].x >= %d\"}}]",
                  (int)rng_below(r, 3));
    if (rng_below(r, 6) == 0)
        sbuf_addz(out, ",'adminAccess':true");
    if (rng_below(r, 5) == 0)
        sbuf_addf(out, ",'capacity':{'requests':{'mem':'%d'}}", (int)rng_below(r, 3) + 1);
    sbuf_addz(out, "}}");
}

static void random_problem(struct rng *r, struct sbuf *out)
{
    cleanup_sbuf struct sbuf slices = {0};
    cleanup_sbuf struct sbuf claims = {0};
    bool counters = rng_below(r, 2);
    if (counters)
        sbuf_addf(&slices,
                  POOL("drv.example.com", "p", "s0", "2",
                       "'nodeName':'n','sharedCounters':[{'name':'cs','counters':{'m':{'value':'%d'"
                       "}}}]") ",",
                  (int)rng_below(r, 8));
    sbuf_addf(&slices,
              "{'metadata':{'name':'s1'},'spec':{'driver':'drv.example.com','nodeName':'n','pool':{"
              "'name':'p','generation':1,'resourceSliceCount':%d},'devices':[",
              counters ? 2 : 1);
    random_devices(r, &slices, counters);
    sbuf_addz(&slices, "]}}");
    for (size_t c = 0, n = 1 + rng_below(r, 2); c < n; c++) {
        sbuf_addf(&claims, "%s{'metadata':{'name':'c%zu'},'spec':{'devices':{'requests':[",
                  c ? "," : "", c);
        for (size_t i = 0, m = 1 + rng_below(r, 3); i < m; i++)
            random_request(r, &claims, i);
        uint64_t kind = rng_below(r, 3);
        sbuf_addz(&claims, kind == 0 ? "]" MATCH "}}}" : kind == 1 ? "]" DISTINCT "}}}" : "]}}}");
    }
    struct problem p = {.gates = GATES, .slices = slices.p, .claims = claims.p, .more = ""};
    write_document(&p, out);
}

static void test_pruning_changes_nothing(void **state)
{
    struct rng_seeded r;
    (void)state;
    rng_seeded_init(&r, 37);
    for (int i = 0; i < 3000; i++) {
        cleanup_sbuf struct sbuf text = {0};
        cleanup_sbuf struct sbuf plain = {0};
        cleanup_sbuf struct sbuf pruned = {0};
        random_problem(&r.rng, &text);
        struct alloc_options o = {.policy = ALLOC_FIRST, .no_pruning = true};
        enum alloc_verdict want = solve_text(sbuf_str(&text), &o, &plain);
        o.no_pruning = false;
        o.eager_pruning = i % 4 != 0;
        enum alloc_verdict got = solve_text(sbuf_str(&text), &o, &pruned);
        if (want != got || !str_eq(sbuf_str(&plain), sbuf_str(&pruned)))
            fail_msg("%s '%.*s' became %s '%.*s' in %.*s", alloc_verdict_name(want),
                     STR_ARG(sbuf_str(&plain)), alloc_verdict_name(got), STR_ARG(sbuf_str(&pruned)),
                     STR_ARG(sbuf_str(&text)));
    }
}

static void test_policies_agree(void **state)
{
    struct rng_seeded r;
    (void)state;
    rng_seeded_init(&r, 4711);
    for (int i = 0; i < 2000; i++) {
        cleanup_sbuf struct sbuf text = {0};
        cleanup_sbuf struct sbuf out = {0};
        random_problem(&r.rng, &text);
        struct alloc_options o = {.policy = ALLOC_FIRST};
        enum alloc_verdict want = solve_text(sbuf_str(&text), &o, &out);
        o.policy = ALLOC_PACK;
        o.eager_pruning = i % 2;
        assert_int_equal(solve_text(sbuf_str(&text), &o, &out), want);
        o.policy = ALLOC_SPREAD;
        assert_int_equal(solve_text(sbuf_str(&text), &o, &out), want);
    }
}

// --- Policies, time, names -----------------------------------------------------------------------

#define SIZED(name, gib) DEV(name, ",'capacity':{'mem':{'value':'" gib "'}}")

static void check_policy(enum alloc_policy policy, const struct problem *p, const char *expect)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_sbuf struct sbuf got = {0};
    struct alloc_options o = {.policy = policy};
    write_document(p, &text);
    assert_int_equal(solve_text(sbuf_str(&text), &o, &got), ALLOC_ALLOCATED);
    assert_str(sbuf_str(&got), expect);
}

static void test_pack_prefers_small(void **state)
{
    (void)state;
    struct problem p = {"",
                        GATES,
                        SLICE(SIZED("d0", "80Gi") "," SIZED("d1", "4Gi")),
                        CLAIM("a", REQ("r")),
                        "",
                        ALLOC_ALLOCATED,
                        ""};
    check_policy(ALLOC_FIRST, &p, "d0");
    check_policy(ALLOC_PACK, &p, "d1");
    check_policy(ALLOC_SPREAD, &p, "d0");
}

static void test_pack_finds_better_alternative(void **state)
{
    (void)state;
    struct problem p = {
        "",
        GATES,
        SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':2}"))),
        CLAIM("a", REQ("r") "," ANY(
                       "q", SUB("s0",
                                CEL("device.attributes['drv.example.com'].x == 1")) "," SUB("s1"))),
        "",
        ALLOC_ALLOCATED,
        ""};
    check_policy(ALLOC_FIRST, &p, "d0,d1");
    check_policy(ALLOC_PACK, &p, "d1,d0");
}

static void test_pack_breaks_no_new_device(void **state)
{
    (void)state;
    struct problem p = {
        "",
        GATES,
        POOL("drv.example.com", "p", "s0", "2",
             "'nodeName':'n','sharedCounters':[{'name':'a','counters':{'m':{'value':'2'}}},{'name':"
             "'b','counters':{'m':{'value':'2'}}}]") "," POOL("drv.example.com", "p", "s1", "2",
                                                              "'nodeName':'n','devices':["
                                                              "{'name':'a0','consumesCounters':[{'"
                                                              "counterSet':'a','counters':{'m':{'"
                                                              "value':'1'}}}]},"
                                                              "{'name':'b0','consumesCounters':[{'"
                                                              "counterSet':'b','counters':{'m':{'"
                                                              "value':'1'}}}]},"
                                                              "{'name':'b1','consumesCounters':[{'"
                                                              "counterSet':'b','counters':{'m':{'"
                                                              "value':'1'}}}]}"
                                                              "]"),
        CLAIM("a", REQ("r")),
        IN_USE("b0"),
        ALLOC_ALLOCATED,
        ""};
    check_policy(ALLOC_FIRST, &p, "a0");
    check_policy(ALLOC_PACK, &p, "b1");
    check_policy(ALLOC_SPREAD, &p, "a0");
}

static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

static void test_deadline(void **state)
{
    (void)state;
    struct problem p = {"", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r")), "", ALLOC_TIMEOUT, ""};
    cleanup_sbuf struct sbuf text = {0};
    cleanup_sbuf struct sbuf got = {0};
    struct alloc_options o = {.policy = ALLOC_FIRST, .expired = at_once};
    write_document(&p, &text);
    assert_int_equal(solve_text(sbuf_str(&text), &o, &got), ALLOC_TIMEOUT);
    assert_str(sbuf_str(&got), "filter operation aborted: context deadline exceeded");
}

static void test_features_by_gate(void **state)
{
    (void)state;
    struct alloc_features f = {0};
    assert_true(alloc_features_add(&f, STR("DRAAdminAccess")));
    assert_true(f.admin_access);
    assert_true(alloc_features_add(&f, STR("PrioritizedList")));
    assert_true(f.prioritized_list);
    assert_false(alloc_features_add(&f, STR("Nonsense")));
    assert_false(alloc_features_default().list_type_attributes);
    assert_true(alloc_features_default().consumable_capacity);
}

int main(void)
{
    struct CMUnitTest tests[array_len(problems) + 7];
    size_t n = 0;
    for (size_t i = 0; i < array_len(problems); i++)
        tests[n++] = (struct CMUnitTest){problems[i].name, test_problem, NULL, NULL,
                                         (void *)(uintptr_t)&problems[i]};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_pruning_changes_nothing),
        cmocka_unit_test(test_policies_agree),
        cmocka_unit_test(test_pack_prefers_small),
        cmocka_unit_test(test_pack_finds_better_alternative),
        cmocka_unit_test(test_pack_breaks_no_new_device),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_features_by_gate),
    };
    for (size_t i = 0; i < array_len(others); i++)
        tests[n++] = others[i];
    return _cmocka_run_group_tests("alloc", tests, n, NULL, NULL);
}
