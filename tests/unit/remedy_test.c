// SPDX-License-Identifier: Apache-2.0
//
// Remedies: each kind of change is found when it helps and not told when it does not; the smallest come
// first; two changes when no single one helps; and the search says when it was cut.
#include "alloc_problem.h"

#include "base/banned.h"

struct search {
    struct asked a;
    struct alloc_report *report;
    struct alloc_remedies found;
};

static void search(struct search *s, const char *problem)
{
    ask(&s->a, problem);
    s->report = ask_report(&s->a);
    alloc_remedies_find(s->report, s->a.s, &s->found);
    assert_false(s->found.cut);
    assert_int_equal(s->found.tried, s->found.possible);
}

static void search_done(struct search *s)
{
    alloc_report_free(s->report);
    ask_done(&s->a);
}

// The texts of all remedies, a line each.
static void check_found(const struct search *s, const char *want)
{
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < s->found.remedies_len; i++) {
        const struct alloc_remedy *r = &s->found.remedies[i];
        for (size_t k = 0; k < r->changes_len; k++)
            sbuf_addf(&b, "%s%.*s", k ? " + " : "", STR_ARG(r->changes[k].text));
        sbuf_addf(&b, " @%.*s\n", STR_ARG(r->node));
    }
    assert_str(sbuf_str(&b), want);
}

#define TWO(node) P_SLICE(node, P_DEV("a", P_NUMBER("1")) "," P_DEV("b", P_NUMBER("2")))

static void test_holder_count_and_node(void **state)
{
    (void)state;
    struct search s;
    search(&s,
           P_PROBLEM(P_NODE("n"), TWO("n"), P_CLAIM("x", P_REQ("r", "2")), P_USED("y", "n", "a")));
    check_found(&s, "request r asking for 1 instead of 2 @n\n"
                    "claim other/y gone @n\n"
                    "one more node like n @n\n");
    search_done(&s);
}

static void test_selector_term(void **state)
{
    (void)state;
    struct search s;
    search(&s, P_PROBLEM(P_NODE("n"), TWO("n"),
                         P_CLAIM("x", P_REQ("r", "1",
                                            P_CEL("device.attributes['d.example.com'].n > 0 && "
                                                  "device.attributes['d.example.com'].k == 'z'"))),
                         ""));
    check_found(&s, "request r without device.attributes['d.example.com'].k == 'z' @n\n");
    search_done(&s);
}

static void test_toleration(void **state)
{
    (void)state;
    struct search s;
    search(&s, P_PROBLEM(P_NODE("n"), P_SLICE("n", P_DEV("a", P_TAINT)),
                         P_CLAIM("x", P_REQ("r", "1")), ""));
    check_found(&s, "request r tolerating the taint fix=yes:NoSchedule @n\n");
    search_done(&s);
}

static void test_constraint(void **state)
{
    (void)state;
    struct search s;
    search(&s, P_PROBLEM(P_NODE("n"), TWO("n"), P_CLAIM("x", P_REQ("r", "2"), P_MATCH), ""));
    check_found(&s, "request r asking for 1 instead of 2 @n\n"
                    "the constraint on d.example.com/n dropped @n\n");
    search_done(&s);
}

static void test_capacity(void **state)
{
    (void)state;
    struct search s;
    search(&s, P_PROBLEM(P_NODE("n"), P_SLICE("n", P_DEV("a", P_SHARED("80Gi"))),
                         P_CLAIM("x", P_REQ("r", "1", ",'capacity':{'requests':{'mem':'40Gi'}}")),
                         P_USED_SHARE("y", "n", "a", "50Gi")));
    check_found(&s, "request r asking for mem 30Gi instead of 40Gi @n\n"
                    "claim other/y gone @n\n"
                    "one more node like n @n\n");
    search_done(&s);
}

static void test_pairs_when_no_single_helps(void **state)
{
    (void)state;
    struct search s;
    search(
        &s,
        P_PROBLEM(
            P_NODE("n"),
            P_SLICE("n", P_DEV("a", P_NUMBER("1")) "," P_DEV("b", P_NUMBER("2") P_TAINT)),
            P_CLAIM("x",
                    P_REQ("r", "1", P_CEL("device.attributes['d.example.com'].n == 1")) "," P_REQ(
                        "q", "1", P_CEL("device.attributes['d.example.com'].n == 2"))),
            P_USED("y", "n", "a")));
    check_found(&s,
                "claim other/y gone + request q tolerating the taint fix=yes:NoSchedule @n\n"
                "request q tolerating the taint fix=yes:NoSchedule + one more node like n @n\n");
    search_done(&s);
}

static void test_two_terms_of_one_selector(void **state)
{
    (void)state;
    struct search s;
    search(&s, P_PROBLEM(P_NODE("n"),
                         P_SLICE("n", P_DEV("a", P_NUMBER("1")) "," P_DEV("b", P_NUMBER("2"))),
                         P_CLAIM("x", P_REQ("r", "2",
                                            P_CEL("device.attributes['d.example.com'].n > 1 && "
                                                  "device.attributes['d.example.com'].k == 'k1'"))),
                         ""));
    check_found(&s, "request r asking for 1 instead of 2 + request r without "
                    "device.attributes['d.example.com'].n > 1 @n\n"
                    "request r asking for 1 instead of 2 + request r without "
                    "device.attributes['d.example.com'].k == 'k1' @n\n"
                    "request r without device.attributes['d.example.com'].n > 1 + request r "
                    "without device.attributes['d.example.com'].k == 'k1' @n\n");
    search_done(&s);
}

static void test_nothing_helps(void **state)
{
    (void)state;
    struct search s;
    cleanup_sbuf struct sbuf text = {0};
    search(&s, P_PROBLEM(P_NODE("n"), "", P_CLAIM("x", P_REQ("r", "1")), ""));
    assert_int_equal(s.found.remedies_len, 0);
    alloc_remedies_text(&s.found, 5, &text);
    assert_has(&text, "No single change and no two together make it fit");
    search_done(&s);
}

// A change proven on one node is not told of another: holders are tried where they hold.
static void test_other_nodes_holder_does_not_help(void **state)
{
    (void)state;
    struct search s;
    search(&s, P_PROBLEM(P_NODE("n1") "," P_NODE("n2"),
                         TWO("n1") "," P_SLICE("n2", P_DEV("a", P_NUMBER("1"))),
                         P_CLAIM("x", P_REQ("r", "2")),
                         P_USED("y", "n1", "a") "," P_USED("z", "n2", "a")));
    check_found(&s, "request r asking for 1 instead of 2 @n1\n"
                    "claim other/y gone @n1\n"
                    "one more node like n1 @n1\n");
    search_done(&s);
}

static bool always(void *arg)
{
    (void)arg;
    return true;
}

static void test_cut_is_told(void **state)
{
    (void)state;
    struct asked a;
    struct alloc_remedies found;
    cleanup_sbuf struct sbuf text = {0};
    ask(&a, P_PROBLEM(P_NODE("n"), TWO("n"), P_CLAIM("x", P_REQ("r", "2")), P_USED("y", "n", "a")));
    struct alloc_report *r = ask_report(&a);
    alloc_solver_set_options(a.s, &(struct alloc_options){.expired = always});
    alloc_remedies_find(r, a.s, &found);
    assert_true(found.cut);
    assert_int_equal(found.tried, 0);
    assert_int_equal(found.possible, 3);
    alloc_remedies_text(&found, 5, &text);
    assert_has(&text, "searched 0 of 3 changes");
    alloc_report_free(r);
    ask_done(&a);
}

static void test_summary_has_the_best(void **state)
{
    (void)state;
    struct search s;
    cleanup_sbuf struct sbuf line = {0};
    search(&s,
           P_PROBLEM(P_NODE("n"), TWO("n"), P_CLAIM("x", P_REQ("r", "2")), P_USED("y", "n", "a")));
    alloc_report_summary(s.report, &s.found, &line);
    assert_has(&line, "; would fit with request r asking for 1 instead of 2");
    search_done(&s);
}

// Mode All with a device in use: its holder may go, or a number that can be had is asked for.
static void test_all_with_a_holder(void **state)
{
    (void)state;
    struct search s;
    search(&s, P_PROBLEM(P_NODE("n"), TWO("n"),
                         P_CLAIM("x", "{'name':'r','exactly':{'deviceClassName':'c',"
                                      "'allocationMode':'All'}}"),
                         P_USED("y", "n", "a")));
    check_found(&s, "request r asking for 1 instead of all @n\n"
                    "claim other/y gone @n\n"
                    "one more node like n @n\n");
    search_done(&s);
}

// Words that the caller suggests are tried like other changes.
static void test_words_of_the_caller(void **state)
{
    (void)state;
    struct asked a;
    struct arena arena = {0};
    struct alloc_remedies found = {0};
    ask(&a,
        P_PROBLEM(P_NODE("n"), TWO("n"),
                  P_CLAIM("x", P_REQ("r", "1", P_CEL("device.attributes['d.example.com'].n == 9"))),
                  ""));
    const struct alloc_rewrite words[] = {
        {.sub = UINT32_MAX,
         .expression = STR("device.attributes['d.example.com'].n == 8"),
         .from = STR("9"),
         .to = STR("8"),
         .weight = 1},
        {.sub = UINT32_MAX,
         .expression = STR("device.attributes['d.example.com'].n == 2"),
         .from = STR("9"),
         .to = STR("2"),
         .weight = 2},
    };
    const struct alloc_view *view = a.p.views[0];
    alloc_remedies_ask(a.s,
                       &(struct alloc_remedy_ask){.views = &view,
                                                  .views_len = 1,
                                                  .claims = a.q.claims.p,
                                                  .claims_len = a.q.claims.n,
                                                  .rewrites = words,
                                                  .rewrites_len = 2,
                                                  .arena = &arena},
                       &found);
    assert_true(found.remedies_len > 0);
    assert_str(found.remedies[0].changes[0].text, "request r with 2 instead of 9");
    arena_done(&arena);
    ask_done(&a);
}

// Requests that fit without any one of them, and not all together.
static void test_smallest_conflict(void **state)
{
    (void)state;
    struct asked a;
    cleanup_sbuf struct sbuf text = {0};
    ask(&a,
        P_PROBLEM(P_NODE("n"), TWO("n"), P_CLAIM("x", P_REQ("r", "1") "," P_REQ("q", "2")), ""));
    assert_true(alloc_conflict_core(a.s, a.p.views[0], a.q.claims.p, a.q.claims.n, &text));
    assert_str(sbuf_str(&text), "requests r, q");
    ask_done(&a);
}

RUN_TESTS(TEST_CASE(test_holder_count_and_node), TEST_CASE(test_selector_term),
          TEST_CASE(test_toleration), TEST_CASE(test_constraint), TEST_CASE(test_capacity),
          TEST_CASE(test_pairs_when_no_single_helps), TEST_CASE(test_two_terms_of_one_selector),
          TEST_CASE(test_nothing_helps), TEST_CASE(test_other_nodes_holder_does_not_help),
          TEST_CASE(test_cut_is_told), TEST_CASE(test_summary_has_the_best),
          TEST_CASE(test_all_with_a_holder), TEST_CASE(test_words_of_the_caller),
          TEST_CASE(test_smallest_conflict))
