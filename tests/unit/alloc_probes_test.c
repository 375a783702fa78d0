// SPDX-License-Identifier: Apache-2.0
//
// Corner cases of upstream's allocator, one a test, each named after what it shows. alloc_test.c
// has the others of the kind (*). The variant "stable" is not imitated (-).
//
//   admin-consumes-capacity         admin-double-counts-counters *  admin-earlier-claim-blocks *
//   admin-ignores-in-use *          admin-later-claim-shares *      admin-respects-taints *
//   admin-same-claim *              admin-two-claims-same-device    all-in-use-fails *
//   all-no-device *                 all-tainted-fails *             all-unrelated-incomplete-pool *
//   all-unrelated-invalid-pool      binds-to-node                   bug-counter-cache-sweep
//   cap-all-full-fails              cap-all-too-small-skipped       cap-count2-one-device *
//   cap-counters-once               cap-dedicated-blocks *          cap-exclusive-device *
//   cap-fraction-off                cap-no-request-no-policy *      cap-qualified-name
//   cap-step                        cap-two-requests-one-device *   cap-unknown-name *
//   cap-values-round                cap-zero-request                cel-attribute-without-value
//   cel-class-shortcut              cel-compile-error-no-device *   cel-error-all *
//   cel-error-in-use-skipped *      cel-error-reached *             cel-list-when-off
//   cel-no-selectors                cel-non-bool-string             cel-unknown-domain-empty
//   claim-empty *                   config-unused-alternative       constraint-both
//   count-zero *                    counter-feature-off             counter-negative-blocks-all *
//   counter-negative-not-using      counter-no-set *                derived-empty-list
//   derived-last-wins               distinct-list-disjoint *        distinct-stable -
//   distinct-type-differs *         exact-only-invalid-pool *       exact-unrelated-incomplete-pool *
//   fa-all-constraint-is-fatal *    fa-all-incomplete-is-fatal      fa-constraint-parent-name
//   fa-greedy-device                fa-missing-class-is-fatal *     fa-second *
//   invalid-pool-but-other-fits     limit-33 *                      limit-fa-all
//   match-list-common *             match-list-off-single *         match-list-off-two *
//   match-missing-attribute *       match-type-differs *            match-version-is-text
//   panic-class-selector-empty      panic-no-exactly *              panic-step-without-min
//   per-device                      pool-dup-other-node             pool-newer-generation-elsewhere
//   pool-newer-generation-incomplete pool-order *                   pool-order-binding *
//   pool-split-nodes                pool-too-many-slices *          selector-empty-term *
//   selector-two-terms *            selector-union                  skip-ops-off
//   skip-ops-off-experimental       skip-ops-on                     skip-ops-on-undeclared
//   slice-order *                   toleration-recorded
#include "alloc_case.h"

#include "base/banned.h"

#define OTHER(rest)    POOL("other.example.com", "q", "t", "1", rest)
#define CAPACITY(text) ",'capacity':{'mem':" text "}"
#define POLICY(text)   SHARED("{'value':'10','requestPolicy':" text "}")
#define SHARE_OF(device, amount)                                                              \
    ",'allocated':{'sharedDevices':[{'driver':'drv.example.com','pool':'p','device':'" device \
    "','shareID':'x'}],'capacity':[{'driver':'drv.example.com','pool':'p','device':'" device  \
    "','capacity':{'mem':'" amount "'}}]}"
#define OLD_AND_NEW(count, where)                                                                \
    "{'metadata':{'name':'s'},'spec':{'driver':'drv.example.com','nodeName':'n','pool':{'name':" \
    "'p','generation':1,'resourceSliceCount':" count "},'devices':[" DEV(                        \
        "d0") "]}},"                                                                             \
              "{'metadata':{'name':'t'},'spec':{'driver':'drv.example.com','nodeName':'" where   \
              "','pool':{'name':'p','generation':2,'resourceSliceCount':1},'devices':[" DEV(     \
                  "d1") "]}}"
#define CLASS(name, expression)                                                               \
    "{'metadata':{'name':'" name "'},'spec':{'selectors':[{'cel':{'expression':\"" expression \
    "\"}}]}}"
#define OF_CLASS(name) ",'deviceClassName':'" name "'"
#define SKIPS                              \
    POOL("drv.example.com", "p", "s", "1", \
         "'nodeName':'n','skipNodeOperations':['NodePrepareResources'],'devices':[" DEV("d0") "]")
#define DERIVED(expression) \
    ",'derivedAttributes':[{'name':'drv.example.com/x','expression':'" expression "'}]"
#define TEN(from)                                                                    \
    DEV(from "0")                                                                    \
    "," DEV(from "1") "," DEV(from "2") "," DEV(from "3") "," DEV(from "4") "," DEV( \
        from "5") "," DEV(from "6") "," DEV(from "7") "," DEV(from "8") "," DEV(from "9")
#define FORTY TEN("d0") "," TEN("d1") "," TEN("d2") "," TEN("d3")

static const struct problem problems[] = {
    // Admins.
    {"admin-two-claims-same-device", GATES, SLICE(DEV("d0")),
     CLAIM("a", REQ("r", ADMIN)) "," CLAIM("b", REQ("r", ADMIN)), "", ALLOC_ALLOCATED, "d0;d0"},
    {"admin-consumes-capacity", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", ADMIN WANTS("4"))), SHARE_OF("d0", "5"), ALLOC_UNSATISFIABLE, ""},

    // Mode All and pools that are not as they should be.
    {"all-unrelated-invalid-pool", GATES,
     SLICE(DEV("d0")) "," OTHER("'nodeName':'n','devices':[" DEV("e0") "," DEV("e0") "]"),
     CLAIM("a", REQ("r", EVERY)), "", ALLOC_ERROR,
     "claim ns/a, request r: asks for all devices, but resource pool other.example.com/q is "
     "currently invalid"},
    {"invalid-pool-but-other-fits", GATES,
     SLICE(DEV("d0")) "," OTHER("'nodeName':'n','devices':[" DEV("e0") "," DEV("e0") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d0"},
    {"fa-all-incomplete-is-fatal", GATES,
     SLICE(DEV("d0")) "," POOL("z.example.com", "q", "t", "2", "'nodeName':'n','devices':[]"),
     CLAIM("a", ANY("r", SUB("s0") "," SUB("s1", EVERY))), "", ALLOC_ERROR,
     "request s1: asks for all devices"},
    {"cap-all-too-small-skipped", GATES,
     SLICE(DEV("d0", SHARED("{'value':'2'}")) "," DEV("d1", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", EVERY WANTS("4"))), "", ALLOC_ALLOCATED, "d1"},
    {"cap-all-full-fails", GATES,
     SLICE(DEV("d0", SHARED("{'value':'8'}")) "," DEV("d1", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", EVERY WANTS("4"))), SHARE_OF("d1", "5"), ALLOC_UNSATISFIABLE, ""},

    // Alternatives.
    {"fa-greedy-device", GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':2}"))),
     CLAIM("a",
           REQ("a") "," ANY(
               "b", SUB("s0", CEL("device.attributes['drv.example.com'].x == 1")) "," SUB("s1"))),
     "", ALLOC_ALLOCATED, "d0,d1"},
    {"fa-constraint-parent-name", GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':2}")) "," DEV(
         "d2", ATTR("{'int':2}"))),
     CLAIM("a", ANY("r", SUB("s0", COUNT("2")) "," SUB("s1")),
           ",'constraints':[{'matchAttribute':'drv.example.com/x','requests':['r']}]"),
     "", ALLOC_ALLOCATED, "d1,d2"},

    // Selectors.
    {"cel-class-shortcut", GATES, SLICE(DEV("d0") "," DEV("d1", ATTR("{'int':1}"))),
     CLAIM("a", REQ("r", OF_CLASS("k") CEL("device.attributes['drv.example.com'].x == 1"))),
     ",'classes':[" CLASS("k", "'x' in device.attributes['drv.example.com']") "]", ALLOC_ALLOCATED,
     "d1"},
    {"cel-unknown-domain-empty", GATES, SLICE(DEV("d0")),
     CLAIM("a", REQ("r", CEL("size(device.attributes['no.example.com']) == 0"))), "",
     ALLOC_ALLOCATED, "d0"},
    {"cel-non-bool-string", GATES, SLICE(DEV("d0", ATTR("{'string':'s'}"))),
     CLAIM("a", REQ("r", CEL("device.attributes['drv.example.com'].x"))), "", ALLOC_ERROR,
     "selector #0 on device drv.example.com/p/d0: CEL runtime error: CEL result of type string"},
    {"cel-attribute-without-value", GATES, SLICE(DEV("d0", ATTR("{}"))),
     CLAIM("a", REQ("r", CEL("true"))), "", ALLOC_ERROR, "unsupported attribute value"},
    {"cel-no-selectors", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d0"},
    {"cel-list-when-off", GATES, SLICE(DEV("d0", ATTR("{'ints':[1,2]}"))),
     CLAIM("a", REQ("r", CEL("2 in device.attributes['drv.example.com'].x"))), "", ALLOC_ALLOCATED,
     "d0"},
    {"cel-error-class-false-protects", GATES, SLICE(DEV("d0")),
     CLAIM("a", REQ("r", OF_CLASS("k") CEL("device.attributes['drv.example.com'].x == 1"))),
     ",'classes':[" CLASS("k", "false") "]", ALLOC_UNSATISFIABLE, ""},

    // Constraints.
    {"match-version-is-text", GATES,
     SLICE(DEV("d0", ATTR("{'version':'1.0.0'}")) "," DEV("d1", ATTR("{'version':'1.0.0+b'}"))),
     CLAIM("a", REQ("r", COUNT("2")), MATCH), "", ALLOC_UNSATISFIABLE, ""},
    {"constraint-both", GATES, SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':1}"))),
     CLAIM("a", REQ("r", COUNT("2")),
           ",'constraints':[{'matchAttribute':'drv.example.com/x','distinctAttribute':"
           "'drv.example.com/x'}]"),
     "", ALLOC_ALLOCATED, "d0,d1"},
    {"distinct-works", GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':1}")) "," DEV(
         "d2", ATTR("{'int':2}"))),
     CLAIM("a", REQ("r", COUNT("2")), DISTINCT), "", ALLOC_ALLOCATED, "d0,d2"},
    {"derived-last-wins", ALL_GATES,
     SLICE(DEV("d0", ATTR("{'int':1}")) "," DEV("d1", ATTR("{'int':2}"))),
     CLAIM("a", REQ("r", COUNT("2") DERIVED("5")), MATCH), "", ALLOC_ALLOCATED, "d0,d1"},
    {"derived-empty-list", ALL_GATES, SLICE(DEV("d0", ATTR("{'int':1}"))),
     CLAIM("a", REQ("r", DERIVED("[]")), MATCH), "", ALLOC_UNSATISFIABLE, ""},

    // Counters.
    {"counter-negative-not-using", GATES,
     COUNTED("1", DEV("d0", DRAWS("2")) "," DEV("d1", DRAWS("0")) "," DEV("d2")),
     CLAIM("a", REQ("r")), IN_USE("d0"), ALLOC_ALLOCATED, "d2"},
    {"counter-feature-off", "'AdminAccess'", COUNTED("1", DEV("d0") "," DEV("d1", DRAWS("1"))),
     CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d0"},
    {"counter-feature-off-drawing", "'AdminAccess'", COUNTED("1", DEV("d1", DRAWS("1"))),
     CLAIM("a", REQ("r")), "", ALLOC_UNSATISFIABLE, ""},

    // Capacity.
    {"cap-step", GATES, SLICE(DEV("d0", POLICY("{'validRange':{'min':'1','step':'4','max':'9'}}"))),
     CLAIM("a", REQ("r", WANTS("2")) "," REQ("q", WANTS("2"))), "", ALLOC_ALLOCATED, "d0,d0"},
    {"cap-step-takes-more-than-asked", GATES,
     SLICE(DEV("d0", POLICY("{'validRange':{'min':'1','step':'4','max':'9'}}"))),
     CLAIM("a", REQ("r", WANTS("6")) "," REQ("q", WANTS("2"))), "", ALLOC_UNSATISFIABLE, ""},
    {"cap-values-round", GATES, SLICE(DEV("d0", POLICY("{'validValues':['2','6']}"))),
     CLAIM("a", REQ("r", WANTS("3")) "," REQ("q", WANTS("5"))), "", ALLOC_UNSATISFIABLE, ""},
    {"cap-values-none-large-enough", GATES, SLICE(DEV("d0", POLICY("{'validValues':['2','6']}"))),
     CLAIM("a", REQ("r", WANTS("7"))), "", ALLOC_UNSATISFIABLE, ""},
    {"cap-fraction-off", "'ConsumableCapacity'",
     SLICE(DEV("d0", POLICY("{'validRange':{'min':'500m','step':'500m','max':'9'}}"))),
     CLAIM("a", REQ("r", WANTS("9500m"))), "", ALLOC_UNSATISFIABLE, ""},
    {"cap-fraction-on", GATES,
     SLICE(DEV("d0", POLICY("{'validRange':{'min':'500m','step':'500m','max':'9'}}"))),
     CLAIM("a", REQ("r", WANTS("8300m"))), "", ALLOC_ALLOCATED, "d0"},
    {"cap-zero-request", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("a", WANTS("0")) "," REQ("b", WANTS("8"))), "", ALLOC_ALLOCATED, "d0,d0"},
    {"cap-qualified-name", GATES, SLICE(DEV("d0", SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("r", ",'capacity':{'requests':{'drv.example.com/mem':'1'}}")), "",
     ALLOC_UNSATISFIABLE, ""},
    {"cap-counters-once", GATES, COUNTED("1", DEV("d0", DRAWS("1") SHARED("{'value':'8'}"))),
     CLAIM("a", REQ("a", WANTS("4")) "," REQ("b", WANTS("4"))), "", ALLOC_ALLOCATED, "d0,d0"},

    // Pools.
    {"pool-newer-generation-elsewhere", GATES, OLD_AND_NEW("1", "m"), CLAIM("a", REQ("r")), "",
     ALLOC_ALLOCATED, "d0"},
    {"pool-newer-generation-incomplete", GATES, OLD_AND_NEW("2", "m"), CLAIM("a", REQ("r")), "",
     ALLOC_UNSATISFIABLE, ""},
    {"pool-newer-generation-here", GATES, OLD_AND_NEW("1", "n"), CLAIM("a", REQ("r")), "",
     ALLOC_ALLOCATED, "d1"},
    {"pool-split-nodes", GATES,
     POOL("drv.example.com", "p", "s", "2", "'nodeName':'n','devices':[" DEV("d0") "]") "," POOL(
         "drv.example.com", "p", "t", "2", "'nodeName':'m','devices':[" DEV("d1") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d0"},
    {"pool-dup-other-node", GATES,
     POOL("drv.example.com", "p", "s", "2", "'nodeName':'n','devices':[" DEV("d0") "]") "," POOL(
         "drv.example.com", "p", "t", "2",
         "'nodeName':'m','devices':[" DEV("d1") "," DEV("d1") "]"),
     CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d0"},
    {"per-device", GATES,
     POOL("drv.example.com", "p", "s", "1",
          "'perDeviceNodeSelection':true,'devices':[" DEV("d0", ",'nodeName':'m'") "," DEV(
              "d1", ",'nodeName':'n'") "," DEV("d2", ",'allNodes':true") "]"),
     CLAIM("a", REQ("r", COUNT("2"))), "", ALLOC_ALLOCATED, "d1,d2"},

    // Limits.
    {"limit-fa-all", GATES, SLICE(FORTY),
     CLAIM("a", ANY("a", SUB("s0", EVERY) "," SUB("s1", COUNT("2")))), "", ALLOC_ALLOCATED,
     "d00,d01"},
    {"limit-in-search", GATES, SLICE(FORTY),
     CLAIM("a",
           ANY("a", SUB("s0", COUNT("30")) "," SUB("s1", COUNT("2"))) "," REQ("b", COUNT("4"))),
     "", ALLOC_ALLOCATED, "d00,d01,d02,d03,d04,d05"},
    {"limit-sum", GATES, SLICE(FORTY), CLAIM("a", REQ("a", COUNT("30")) "," REQ("b", COUNT("3"))),
     "", ALLOC_ERROR,
     "adding 3 devices exceeds the claim limit of 32, with 30 already accounted for"},

    // Node operations.
    {"skip-ops-off", GATES, SKIPS, CLAIM("a", REQ("r")), "", ALLOC_ALLOCATED, "d0"},
    {"skip-ops-off-experimental", GATES ",'ListTypeAttributes'", SKIPS, CLAIM("a", REQ("r")), "",
     ALLOC_UNSATISFIABLE, ""},
    {"skip-ops-on", ALL_GATES, SKIPS, CLAIM("a", REQ("r")),
     ",'nodes':[{'metadata':{'name':'n'},'status':{'declaredFeatures':['DRAOptionalNodeOperations']"
     "}}]",
     ALLOC_ALLOCATED, "d0"},
    {"skip-ops-on-undeclared", ALL_GATES, SKIPS, CLAIM("a", REQ("r")), "", ALLOC_UNSATISFIABLE, ""},

    // Input that makes upstream crash.
    {"panic-class-selector-empty", GATES, SLICE(DEV("d0")), CLAIM("a", REQ("r", OF_CLASS("k"))),
     ",'classes':[{'metadata':{'name':'k'},'spec':{'selectors':[{}]}}]", ALLOC_ERROR,
     "CEL expression empty"},
    {"panic-step-without-min", GATES, SLICE(DEV("d0", POLICY("{'validRange':{'step':'1'}}"))),
     CLAIM("a", REQ("r", WANTS("2"))), "", ALLOC_ERROR, "validRange.step needs validRange.min"},
    {"panic-step-zero", GATES, SLICE(DEV("d0", POLICY("{'validRange':{'min':'1','step':'0'}}"))),
     CLAIM("a", REQ("r", WANTS("2"))), "", ALLOC_ERROR, "step must be greater than zero"},
};

// --- What results look like ----------------------------------------------------------------------

// Solves a problem that has an answer and hands its results to a check.
static void with_results(const struct problem *p,
                         void (*check)(const struct api_allocation_result *r))
{
    struct question q = {0};
    struct prepared prepared = {0};
    struct err err = {0};
    cleanup_sbuf struct sbuf text = {0};
    write_document(p, &text);
    if (alloc_question_read(&q, sbuf_str(&text), &err) < 0 ||
        alloc_question_prepare(&q, &prepared, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(sbuf_str(&text)));
    struct alloc_solver *s = alloc_solver_new(&(struct alloc_options){.policy = ALLOC_FIRST});
    struct alloc_answer a;
    if (!prepared.views)
        abort(); // the test has failed already
    alloc_solve(s, prepared.views[0], q.claims.p, q.claims.n, &a);
    assert_int_equal(a.verdict, ALLOC_ALLOCATED);
    check(&a.results[0]);
    alloc_solver_free(s);
    alloc_question_end(&q, &prepared);
    alloc_question_done(&q);
}

static void is_on_node_n(const struct api_allocation_result *r)
{
    assert_non_null(r->node_selector);
    const struct api_node_selector_term *t = &r->node_selector->node_selector_terms.p[0];
    assert_int_equal(t->match_fields.n, 1);
    assert_str(t->match_fields.p[0].values.p[0], "n");
}

static void test_binds_to_node(void **state)
{
    (void)state;
    struct problem p = {
        .gates = GATES,
        .slices = POOL("drv.example.com", "p", "s", "1",
                       "'allNodes':true,'devices':[" DEV("d0", ",'bindsToNode':true") "]"),
        .claims = CLAIM("a", REQ("r")),
        .more = ""};
    with_results(&p, is_on_node_n);
}

static void has_two_requirements(const struct api_allocation_result *r)
{
    assert_non_null(r->node_selector);
    assert_int_equal(r->node_selector->node_selector_terms.n, 1);
    assert_int_equal(r->node_selector->node_selector_terms.p[0].match_expressions.n, 2);
}

#define ONLY(terms) "'nodeSelector':{'nodeSelectorTerms':[{'matchExpressions':[" terms "]}]},"
#define LACKS(key)  "{'key':'" key "','operator':'DoesNotExist'}"

static void test_selector_union(void **state)
{
    (void)state;
    struct problem p = {
        .gates = GATES,
        .slices = POOL(
            "drv.example.com", "p", "s", "1",
            ONLY(LACKS("a")) "'devices':[" DEV(
                "d0") "]") "," POOL("drv.example.com", "q", "t", "1",
                                    ONLY(LACKS("a") "," LACKS("b")) "'devices':[" DEV("d1") "]"),
        .claims = CLAIM("a", REQ("r", COUNT("2"))),
        .more = ""};
    with_results(&p, has_two_requirements);
}

static void has_toleration(const struct api_allocation_result *r)
{
    assert_int_equal(r->devices.results.p[0].tolerations.n, 1);
    assert_str(r->devices.results.p[0].tolerations.p[0].key, "k");
}

static void test_toleration_recorded(void **state)
{
    (void)state;
    struct problem p = {
        .gates = GATES,
        .slices = SLICE(DEV("d0", TAINT)),
        .claims = CLAIM("a", REQ("r", ",'tolerations':[{'key':'k','operator':'Exists'}]")),
        .more = ""};
    with_results(&p, has_toleration);
}

static void has_one_config(const struct api_allocation_result *r)
{
    assert_int_equal(r->devices.config.n, 1);
    assert_int_equal(r->devices.config.p[0].requests.n, 0); // it covers all requests
}

static void test_config_unused_alternative(void **state)
{
    (void)state;
    struct problem p = {
        .gates = GATES,
        .slices = SLICE(DEV("d0")),
        .claims = CLAIM("a", ANY("r", SUB("s0", COUNT("2")) "," SUB("s1")),
                        ",'config':[{'requests':['r/s0'],'opaque':{'driver':'drv.example.com',"
                        "'parameters':{'of':'s0'}}},{'requests':['r/s1'],'opaque':{'driver':"
                        "'drv.example.com','parameters':{'of':'s1'}}}]"),
        .more = ""};
    with_results(&p, has_one_config);
}

static void took_five(const struct api_allocation_result *r)
{
    const struct api_quantity_map *took = &r->devices.results.p[0].consumed_capacity;
    assert_int_equal(took->n, 1);
    assert_int_equal(quantity_value(&took->p[0].value), 5);
    assert_true(r->devices.results.p[0].has_share_id);
}

static void test_cap_step_result(void **state)
{
    (void)state;
    struct problem p = {
        .gates = GATES,
        .slices = SLICE(DEV("d0", POLICY("{'validRange':{'min':'1','step':'4','max':'9'}}"))),
        .claims = CLAIM("a", REQ("r", WANTS("2"))),
        .more = ""};
    with_results(&p, took_five);
}

// Upstream keeps the counters of the first node that looked; here each node has its own.
static void test_bug_counter_cache_sweep(void **state)
{
    (void)state;
    const char *text =
        "{'features':['default-1.37'],'deviceClasses':[{'metadata':{'name':'c'},'spec':{}}],"
        "'nodes':[{'metadata':{'name':'m'}},{'metadata':{'name':'n'}}],'resourceSlices':["
        "{'metadata':{'name':'c1'},'spec':{'driver':'drv.example.com','nodeName':'m','pool':{'name'"
        ":'p','generation':1,'resourceSliceCount':1},'sharedCounters':[{'name':'old','counters':{"
        "'m':{'value':'100'}}}]}},"
        "{'metadata':{'name':'c2'},'spec':{'driver':'drv.example.com','nodeName':'n','pool':{'name'"
        ":'p','generation':2,'resourceSliceCount':2},'sharedCounters':[{'name':'cs','counters':{"
        "'m':{'value':'5'}}}]}},"
        "{'metadata':{'name':'d2'},'spec':{'driver':'drv.example.com','nodeName':'n','pool':{'name'"
        ":'p','generation':2,'resourceSliceCount':2},'devices':[" DEV(
            "d0", DRAWS("20")) "]}}],"
                               "'claims':[" CLAIM("a", REQ("r")) "]}";
    cleanup_sbuf struct sbuf json = {0};
    for (const char *c = text; *c; c++)
        sbuf_addc(&json, *c == '\'' ? '"' : *c);
    struct question q = {0};
    struct prepared p = {0};
    struct err err = {0};
    if (alloc_question_read(&q, sbuf_str(&json), &err) < 0 ||
        alloc_question_prepare(&q, &p, &err) < 0)
        fail_msg("%s", err.msg);
    struct alloc_solver *s = alloc_solver_new(NULL);
    for (size_t i = 0; i < q.nodes.n; i++) {
        struct alloc_answer a;
        alloc_solve(s, p.views[i], q.claims.p, q.claims.n, &a);
        assert_int_not_equal(a.verdict, ALLOC_ALLOCATED);
    }
    alloc_solver_free(s);
    alloc_question_end(&q, &p);
    alloc_question_done(&q);
}

int main(void)
{
    struct CMUnitTest tests[array_len(problems) + 6];
    size_t n = 0;
    for (size_t i = 0; i < array_len(problems); i++)
        tests[n++] = (struct CMUnitTest){problems[i].name, test_problem, NULL, NULL,
                                         (void *)(uintptr_t)&problems[i]};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_binds_to_node),
        cmocka_unit_test(test_selector_union),
        cmocka_unit_test(test_toleration_recorded),
        cmocka_unit_test(test_config_unused_alternative),
        cmocka_unit_test(test_cap_step_result),
        cmocka_unit_test(test_bug_counter_cache_sweep),
    };
    for (size_t i = 0; i < array_len(others); i++)
        tests[n++] = others[i];
    return _cmocka_run_group_tests("alloc_probes", tests, n, NULL, NULL);
}
