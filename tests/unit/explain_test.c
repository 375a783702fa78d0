// SPDX-License-Identifier: Apache-2.0
//
// Explanations: which row takes which device away and why, what keeps requests apart, and that nodes in
// the same state are told once.
#include "alloc/explain/explain_int.h"
#include "alloc_problem.h"

#include "base/banned.h"

static struct alloc_explanation explain(struct asked *a)
{
    struct alloc_explanation e = {0};
    struct alloc_answer answer;
    alloc_solve(a->s, a->p.views[0], a->q.claims.p, a->q.claims.n, &answer);
    assert_int_equal(answer.verdict, ALLOC_UNSATISFIABLE);
    assert_true(alloc_explain(a->s, a->p.views[0], a->q.claims.p, a->q.claims.n, &e));
    return e;
}

static const struct alloc_reason *reason(const struct alloc_funnel *f, enum alloc_row row,
                                         const char *what)
{
    for (size_t i = 0; i < f->reasons_len; i++)
        if (f->reasons[i].row == row && str_eqz(f->reasons[i].what, what))
            return &f->reasons[i];
    fail_msg("no reason %s in row %d", what, (int)row);
    return NULL;
}

static void test_rows_add_up(void **state)
{
    (void)state;
    struct asked a;
    ask(&a,
        P_PROBLEM(P_NODE("n"),
                  P_SLICE("n", P_DEV("a", P_NUMBER("1")) "," P_DEV("b", P_NUMBER("2")) "," P_DEV(
                                   "c", P_NUMBER("2") P_TAINT) "," P_DEV("d", P_NUMBER("2"))),
                  P_CLAIM("x", P_REQ("r", "2", P_CEL("device.attributes['d.example.com'].n == 2"))),
                  P_USED("y", "n", "b")));
    struct alloc_explanation e = explain(&a);
    const struct alloc_funnel *f = &e.funnels[0];
    assert_int_equal(e.funnels_len, 1);
    assert_str(f->claim, "ns/x");
    assert_int_equal(f->published, 4);
    assert_int_equal(f->selector_refused, 1);
    assert_int_equal(f->in_use, 1);
    assert_int_equal(f->tainted, 1);
    assert_int_equal(f->usable, 1);
    assert_int_equal(f->wanted, 2);
    assert_false(f->satisfied);
    assert_int_equal(e.nearest, 0);
    assert_int_equal(reason(f, ALLOC_ROW_TAINTED, "fix=yes:NoSchedule")->devices, 1);
    assert_int_equal(reason(f, ALLOC_ROW_IN_USE, "other/y")->devices, 1);
    ask_done(&a);
}

static void test_term_that_refuses(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, P_PROBLEM(P_NODE("n"),
                      P_SLICE("n", P_DEV("a", P_NUMBER("1")) "," P_DEV(
                                       "b", P_NUMBER("2")) "," P_DEV("c", P_NUMBER("3"))),
                      P_CLAIM("x", P_REQ("r", "1",
                                         P_CEL("device.attributes['d.example.com'].n > 1 && "
                                               "(device.attributes['d.example.com'].k == 'k9' || "
                                               "false)"))),
                      ""));
    struct alloc_explanation e = explain(&a);
    assert_int_equal(reason(&e.funnels[0], ALLOC_ROW_SELECTOR,
                            "device.attributes['d.example.com'].n > 1")
                         ->devices,
                     1);
    assert_int_equal(reason(&e.funnels[0], ALLOC_ROW_SELECTOR,
                            "(device.attributes['d.example.com'].k == 'k9' || false)")
                         ->devices,
                     2);
    ask_done(&a);
}

static void test_failing_selector_says_why(void **state)
{
    (void)state;
    struct asked a;
    ask(&a,
        P_PROBLEM(P_NODE("n"), P_SLICE("n", P_DEV("a")),
                  P_CLAIM("x", P_REQ("r", "1", P_CEL("device.attributes['d.example.com'].z == 2"))),
                  P_USED("y", "n", "a")));
    struct alloc_explanation e = explain(&a); // in use, so that the search does not fail on it
    assert_int_equal(e.funnels[0].selector_failed, 1);
    assert_str(e.funnels[0].reasons[0].error, "no such key: z");
    ask_done(&a);
}

// A term that is false decides over one that fails before it, but not over one of an earlier selector.
static void test_failing_term_before_a_false_one(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, P_PROBLEM(P_NODE("n"),
                      P_SLICE("n", P_DEV("a", P_NUMBER("1")) "," P_DEV(
                                       "b", P_NUMBER("2")) "," P_DEV("c", P_NUMBER("3"))),
                      P_CLAIM("x", P_REQ("r", "1",
                                         ",\"selectors\":[{\"cel\":{\"expression\":\""
                                         "device.attributes['d.example.com'].z == 2 && "
                                         "device.attributes['d.example.com'].n > 1\"}},{\"cel\":{"
                                         "\"expression\":\"device.attributes['d.example.com'].n "
                                         "> 2\"}}]")),
                      P_USED("y", "n", "a") "," P_USED("y", "n", "b") "," P_USED("y", "n", "c")));
    struct alloc_explanation e = explain(&a);
    assert_int_equal(e.funnels[0].selector_refused, 1);
    assert_int_equal(e.funnels[0].selector_failed, 2);
    (void)reason(&e.funnels[0], ALLOC_ROW_SELECTOR, "device.attributes['d.example.com'].n > 1");
    const struct alloc_reason *r = reason(&e.funnels[0], ALLOC_ROW_SELECTOR_FAILED,
                                          "device.attributes['d.example.com'].z == 2");
    assert_int_equal(r->devices, 2);
    ask_done(&a);
}

static void test_capacity_short(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, P_PROBLEM(P_NODE("n"), P_SLICE("n", P_DEV("a", P_SHARED("80Gi"))),
                      P_CLAIM("x", P_REQ("r", "1", ",'capacity':{'requests':{'mem':'40Gi'}}")),
                      P_USED_SHARE("y", "n", "a", "30Gi") "," P_USED_SHARE("z", "n", "a", "20Gi")));
    struct alloc_explanation e = explain(&a);
    const struct alloc_reason *r = reason(&e.funnels[0], ALLOC_ROW_CAPACITY, "mem");
    assert_str(r->needs, "40Gi");
    assert_str(r->has, "30Gi");
    assert_int_equal(reason(&e.funnels[0], ALLOC_ROW_IN_USE, "other/y")->devices, 1);
    assert_int_equal(reason(&e.funnels[0], ALLOC_ROW_IN_USE, "other/z")->devices, 1);
    ask_done(&a);
}

#define COUNTED(n, devices)                                                          \
    P_SLICE_OF("n", "s0", "2",                                                       \
               "'sharedCounters':[{'name':'g','counters':{'m':{'value':'" n "'}}}]") \
    "," P_SLICE_OF("n", "s1", "2", "'devices':[" devices "]")

static void test_counters_short(void **state)
{
    (void)state;
    struct asked a;
    ask(&a,
        P_PROBLEM(P_NODE("n"),
                  COUNTED("80Gi", P_DEV("a", P_NUMBER("1") P_DRAWS("g", "60Gi")) "," P_DEV(
                                      "b", P_NUMBER("2") P_DRAWS("g", "40Gi"))),
                  P_CLAIM("x", P_REQ("r", "1", P_CEL("device.attributes['d.example.com'].n == 2"))),
                  P_USED("y", "n", "a")));
    struct alloc_explanation e = explain(&a);
    const struct alloc_reason *r = reason(&e.funnels[0], ALLOC_ROW_COUNTERS, "g/m");
    assert_int_equal(e.funnels[0].counters_short, 1);
    assert_str(r->needs, "40Gi");
    assert_str(r->has, "20Gi");
    assert_int_equal(reason(&e.funnels[0], ALLOC_ROW_IN_USE, "other/y")->devices, 1);
    ask_done(&a);
}

// --- Conflicts -----------------------------------------------------------------------------------

static const struct alloc_conflict *only_conflict(const struct alloc_explanation *e,
                                                  enum alloc_conflict_kind kind)
{
    assert_true(e->enough_each);
    assert_int_equal(e->conflicts_len, 1);
    assert_int_equal(e->conflicts[0].kind, kind);
    return &e->conflicts[0];
}

#define FOUR                  \
    P_DEV("a", P_NUMBER("1")) \
    "," P_DEV("b", P_NUMBER("1")) "," P_DEV("c", P_NUMBER("2")) "," P_DEV("d", P_NUMBER("3"))

static void test_match_within_request(void **state)
{
    (void)state;
    struct asked a;
    cleanup_sbuf struct sbuf text = {0};
    ask(&a, P_PROBLEM(P_NODE("n"), P_SLICE("n", FOUR), P_CLAIM("x", P_REQ("r", "3"), P_MATCH), ""));
    struct alloc_explanation e = explain(&a);
    const struct alloc_conflict *c = only_conflict(&e, ALLOC_CONFLICT_MATCH);
    assert_str(c->what, "d.example.com/n");
    assert_int_equal(c->needed, 3);
    assert_int_equal(c->best, 2);
    assert_int_equal(c->values_all, 3);
    assert_str(c->values[0].value, "1");
    assert_str(c->values[0].devices, "2");
    alloc_explain_text(&e, &text);
    assert_has(&text, "r: 3 devices must have the same d.example.com/n, at most 2 do (1: 2; ");
    ask_done(&a);
}

static void test_match_between_requests(void **state)
{
    (void)state;
    struct asked a;
    ask(&a,
        P_PROBLEM(
            P_NODE("n"), P_SLICE("n", FOUR),
            P_CLAIM("x",
                    P_REQ("r", "2", P_CEL("device.attributes['d.example.com'].n == 1")) "," P_REQ(
                        "q", "1", P_CEL("device.attributes['d.example.com'].n > 1")),
                    P_MATCH),
            ""));
    struct alloc_explanation e = explain(&a);
    const struct alloc_conflict *c = only_conflict(&e, ALLOC_CONFLICT_MATCH);
    assert_str(c->requests, "r, q");
    assert_int_equal(c->needed, 3);
    assert_int_equal(c->best, 2);
    assert_str(c->values[0].devices, "r 2, q 0");
    ask_done(&a);
}

static void test_distinct(void **state)
{
    (void)state;
    struct asked a;
    ask(&a,
        P_PROBLEM(P_NODE("n"), P_SLICE("n", FOUR), P_CLAIM("x", P_REQ("r", "4"), P_DISTINCT), ""));
    struct alloc_explanation e = explain(&a);
    const struct alloc_conflict *c = only_conflict(&e, ALLOC_CONFLICT_DISTINCT);
    assert_int_equal(c->needed, 4);
    assert_int_equal(c->best, 3);
    ask_done(&a);
}

static void test_same_devices(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, P_PROBLEM(P_NODE("n"), P_SLICE("n", FOUR),
                      P_CLAIM("x", P_REQ("r", "3") "," P_REQ("q", "2")), ""));
    struct alloc_explanation e = explain(&a);
    const struct alloc_conflict *c = only_conflict(&e, ALLOC_CONFLICT_DEVICES);
    assert_str(c->requests, "r, q");
    assert_int_equal(c->needed, 5);
    assert_int_equal(c->best, 4);
    ask_done(&a);
}

static void test_counters_together(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, P_PROBLEM(P_NODE("n"),
                      COUNTED("10", P_DEV("a", P_DRAWS("g", "4")) "," P_DEV(
                                        "b", P_DRAWS("g", "4")) "," P_DEV("c", P_DRAWS("g", "4"))),
                      P_CLAIM("x", P_REQ("r", "3")), ""));
    struct alloc_explanation e = explain(&a);
    const struct alloc_conflict *c = only_conflict(&e, ALLOC_CONFLICT_COUNTERS);
    assert_int_equal(c->needed, 3);
    assert_int_equal(c->best, 2);
    ask_done(&a);
}

static void test_incomplete_pool_is_told(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, P_PROBLEM(P_NODE("n"), P_SLICE_OF("n", "s", "2", "'devices':[" P_DEV("a") "]"),
                      P_CLAIM("x", P_REQ("r", "1")), ""));
    struct alloc_explanation e = explain(&a);
    assert_int_equal(e.pools_unusable, 1);
    assert_true(str_contains(e.pools, STR("d.example.com/n does not count: slices are missing")));
    ask_done(&a);
}

// --- Reports -------------------------------------------------------------------------------------

#define THREE_NODES P_NODE("n1") "," P_NODE("n2") "," P_NODE("n3")
#define THREE_SLICES                                                                        \
    P_SLICE("n1", P_DEV("a", P_NUMBER("1")) "," P_DEV("b", P_NUMBER("2")))                  \
    "," P_SLICE("n2", P_DEV("a", P_NUMBER("7")) "," P_DEV("b", P_NUMBER("8"))) "," P_SLICE( \
        "n3", P_DEV("a", P_TAINT) "," P_DEV("b", P_TAINT))

static void test_equal_nodes_are_one_group(void **state)
{
    (void)state;
    struct asked a;
    size_t n = 0;
    cleanup_sbuf struct sbuf text = {0};
    ask(&a, P_PROBLEM(THREE_NODES, THREE_SLICES, P_CLAIM("x", P_REQ("r", "2")),
                      P_USED("train-1", "n1", "a") "," P_USED("train-2", "n2", "b")));
    struct alloc_report *r = ask_report(&a);
    alloc_report_refuse(r, STR("n4"), STR("cordoned"));
    alloc_report_refuse(r, STR("n5"), STR("cordoned"));
    const struct alloc_group *g = alloc_report_finish(r, &n);
    assert_int_equal(n, 3);
    assert_int_equal(g[0].nodes, 2); // the nearest first; devices and holders have other names
    assert_str(g[0].names[0], "n1");
    assert_str(g[0].names[1], "n2");
    assert_int_equal(g[0].explanation.funnels[0].reasons_len, 2);
    assert_int_equal(g[1].nodes, 1);
    assert_str(g[2].refused, "cordoned");
    assert_int_equal(g[2].nodes, 2);
    alloc_report_text(r, &text);
    assert_has(&text,
               "2 nodes (n1, n2):\n  request r: wants 2, 1 of 2 usable\n      1 in use, held by "
               "other/train-1, other/train-2\n");
    assert_has(&text, "2 nodes (n4, n5): cordoned\n");
    assert_has(&text, "Nearest: 2 nodes (n1, n2): request r lacks 1 of 2.");
    alloc_report_free(r);
    ask_done(&a);
}

static void test_summary(void **state)
{
    (void)state;
    struct asked a;
    cleanup_sbuf struct sbuf line = {0};
    ask(&a, P_PROBLEM(THREE_NODES, THREE_SLICES, P_CLAIM("x", P_REQ("r", "2")),
                      P_USED("train-1", "n1", "a") "," P_USED("train-2", "n2", "b") "," P_USED(
                          "train-3", "n2", "a")));
    struct alloc_report *r = ask_report(&a);
    alloc_report_refuse(r, STR("n4"), STR("cordoned"));
    alloc_report_summary(r, NULL, &line);
    assert_str(
        sbuf_str(&line),
        "0/4 nodes: 2 have fewer than 2 free devices for request r, held by 3 claims of other "
        "namespaces; 1 has fewer than 2 devices for request r without taint fix=yes:NoSchedule; 1 "
        "cordoned");
    alloc_report_free(r);
    ask_done(&a);
}

static void test_json_is_json(void **state)
{
    (void)state;
    struct asked a;
    struct json_doc doc = {0};
    cleanup_sbuf struct sbuf text = {0};
    ask(&a, P_PROBLEM(THREE_NODES, THREE_SLICES, P_CLAIM("x", P_REQ("r", "2")),
                      P_USED("y", "n1", "a")));
    struct alloc_report *r = ask_report(&a);
    alloc_report_json(r, &text);
    assert_int_equal(json_parse(sbuf_str(&text), NULL, &doc, NULL), 0);
    assert_int_equal(json_len(json_get(doc.root, STR("groups"))), 3);
    json_doc_done(&doc);
    alloc_report_free(r);
    ask_done(&a);
}

// --- Terms ---------------------------------------------------------------------------------------

static void check_split(const char *expression, const char *want)
{
    struct arena arena = {0};
    cleanup_sbuf struct sbuf got = {0};
    struct terms t = explain_terms_split(str_z(expression), &arena);
    for (size_t i = 0; i < t.n; i++)
        sbuf_addf(&got, "[%.*s]", STR_ARG(t.p[i]));
    assert_str(sbuf_str(&got), want);
    arena_done(&arena);
}

static void test_terms(void **state)
{
    (void)state;
    check_split("a", "[a]");
    check_split("a && b&&c", "[a][b][c]");
    check_split(" ( a && (b && c) ) ", "[a][(b && c)]");
    check_split("(a) && (b)", "[(a)][(b)]");
    check_split("a && b || c", "[a && b || c]");
    check_split("a && b ? c : d", "[a && b ? c : d]");
    check_split("a.?b.orValue(1) == 1 && c", "[a.?b.orValue(1) == 1][c]");
    check_split("x['&&'] == \"a && b\" && [1, 2].exists(i, i > 1 && i < 3)",
                "[x['&&'] == \"a && b\"][[1, 2].exists(i, i > 1 && i < 3)]");
    check_split("a // && b\n && c", "[a // && b][c]");
    check_split("", "[]");
    check_split("a && (b", "[a && (b]");
    check_split("a && 'b", "[a && 'b]");
}

RUN_TESTS(TEST_CASE(test_rows_add_up), TEST_CASE(test_term_that_refuses),
          TEST_CASE(test_failing_term_before_a_false_one),
          TEST_CASE(test_failing_selector_says_why), TEST_CASE(test_capacity_short),
          TEST_CASE(test_counters_short), TEST_CASE(test_match_within_request),
          TEST_CASE(test_match_between_requests), TEST_CASE(test_distinct),
          TEST_CASE(test_same_devices), TEST_CASE(test_counters_together),
          TEST_CASE(test_incomplete_pool_is_told), TEST_CASE(test_equal_nodes_are_one_group),
          TEST_CASE(test_summary), TEST_CASE(test_json_is_json), TEST_CASE(test_terms))
