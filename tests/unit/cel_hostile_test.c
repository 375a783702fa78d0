// SPDX-License-Identifier: Apache-2.0
//
// Ten thousand expressions made to hurt: nested macros, patterns that ruin backtrackers, huge lists,
// deep parentheses, garbage. Each must end, within the cost limit, and mostly with a refusal.
#include "cel/cel.h"
#include "unit.h"

#include "base/banned.h"

enum { EXPRESSIONS = 10000 };

static uint64_t state = 88172645463325252u;

static uint32_t pick(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

static void repeat(struct sbuf *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sbuf_addz(b, text);
}

static void nested_macros(struct sbuf *b)
{
    static const char *const macros[] = {"all", "exists", "map", "filter", "exists_one"};
    size_t depth = 1 + pick(12);
    for (size_t i = 0; i < depth; i++)
        sbuf_addf(b, "lists.range(%u).%s(v%zu, ", 10 + pick(1000), macros[pick(5)], i);
    sbuf_addf(b, "v%zu >= 0", depth - 1);
    repeat(b, ")", depth);
    if (pick(2))
        sbuf_addz(b, ".size() > 0");
}

static void patterns(struct sbuf *b)
{
    static const char *const bad[] = {"(a+)+$",
                                      "(a|aa)+$",
                                      "(.*a){20}",
                                      "(x+x+)+y",
                                      "a{1000}",
                                      "((a{100}){10}){10}",
                                      "(?:(?:(?:a*)*)*)*b",
                                      "[[:alpha:]]{500}",
                                      "(",
                                      "\\\\C",
                                      "(?<n>a)(?P<m>b)"};
    sbuf_addc(b, '\'');
    repeat(b, "a", 1 + pick(4000));
    sbuf_addf(b, "'.%s('%s')", pick(2) ? "matches" : "find", bad[pick(array_len(bad))]);
    if (pick(2))
        sbuf_addz(b, " == ''");
}

static void huge_lists(struct sbuf *b)
{
    static const char *const ends[] = {".sort()",
                                       ".distinct()",
                                       ".map(x, x).sum() > 0",
                                       " + lists.range(900000)",
                                       ".reverse().isSorted()",
                                       ".flatten()",
                                       ".slice(1, 2)"};
    if (pick(2)) {
        sbuf_addf(b, "lists.range(%u)%s", 1000u << pick(22), ends[pick(array_len(ends))]);
        return;
    }
    sbuf_addc(b, '[');
    repeat(b, "[1,2],", 1 + pick(1500));
    sbuf_addf(b, "]%s == []", ends[pick(array_len(ends))]);
}

static void deep(struct sbuf *b)
{
    static const struct {
        const char *open, *middle, *close;
    } forms[] = {{"(", "true", ")"},    {"!(", "true", ")"},    {"[", "1", "]"},
                 {"{1:", "1", "}"},     {"dyn(", "1", ")"},     {"-", "1", ""},
                 {"1+", "1", ""},       {"true&&", "true", ""}, {"true?true:", "false", ""},
                 {"'a'+(", "'b'", ")"}, {"a.", "b", ""},        {"cel.bind(x,[1],", "x", ")"},
                 {"{'a':[", "1", "]}"}};
    size_t f = pick(array_len(forms));
    size_t n = 1 + pick(2000);
    repeat(b, forms[f].open, n);
    sbuf_addz(b, forms[f].middle);
    repeat(b, forms[f].close, n);
}

static void doubling(struct sbuf *b)
{
    size_t n = 1 + pick(60);
    for (size_t i = 0; i < n; i++) {
        if (i == 0)
            sbuf_addz(b, "cel.bind(s0, 'aaaaaaaaaaaaaaaa', ");
        else
            sbuf_addf(b, "cel.bind(s%zu, s%zu + s%zu, ", i, i - 1, i - 1);
    }
    sbuf_addf(b, "s%zu.size() > 0", n - 1);
    repeat(b, ")", n);
}

static void garbage(struct sbuf *b)
{
    static const char *const words[] = {"device",
                                        ".",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "'",
                                        "\"",
                                        "1",
                                        "0x",
                                        "e9",
                                        "?",
                                        ":",
                                        "&&",
                                        "||",
                                        "in",
                                        "has",
                                        "\\u",
                                        "b'",
                                        "r'''",
                                        "`",
                                        "\xff",
                                        "\xc3\xa4",
                                        "{",
                                        "}",
                                        ",",
                                        "\n",
                                        "true",
                                        "-",
                                        "!",
                                        "device.attributes['d']",
                                        ".?x",
                                        "[?0]",
                                        "size",
                                        "//"};
    size_t n = 1 + pick(120);
    for (size_t i = 0; i < n; i++)
        sbuf_addz(b, words[pick(array_len(words))]);
}

// --- What costs little and is much ---------------------------------------------------------------

// let_many binds v0, v1, … each to what is made of the one before, given twice, and v to the last.
static void let_many(struct sbuf *b, const char *first, const char *open, const char *between,
                     const char *close, size_t depth, const char *end)
{
    sbuf_addf(b, "cel.bind(v0, %s, ", first);
    for (size_t i = 1; i < depth; i++)
        sbuf_addf(b, "cel.bind(v%zu, %sv%zu%sv%zu%s, ", i, open, i - 1, between, i - 1, close);
    sbuf_addf(b, "cel.bind(v, v%zu, %s)", depth - 1, end);
    repeat(b, ")", depth);
}

#define BOUND "operation cancelled: actual cost limit exceeded"

static void test_much_for_little(void **unused)
{
    (void)unused;
    static const struct {
        const char *first, *open, *between, *close, *end;
        size_t depth;
    } cases[] = {
        {"[1, 2]", "", " + ", "", "v.size() > 0", 60},
        {"['a']", "", " + ", "", "v[0] == 'a'", 60},
        {"[1]", "[", ", ", "]", "v == v", 60},
        {"[1]", "[", ", ", "]", "v != v", 60},
        {"[1]", "[", ", ", "]", "v in [v]", 60},
        {"[1]", "[", ", ", "]", "{'a': v} == {'a': v}", 60},
        {"[1]", "[", ", ", "]", "[optional.of(v)] == [optional.of(v)]", 60},
        {"[1]", "[", ", ", "]", "v.flatten(60).size() > 0", 60},
        {"[1]", "[", ", ", "]", "'%s'.format([v]).size() > 0", 60},
        {"[1]", "[", ", ", "]", "{dyn(v): 1, dyn([v]): 2}.size() > 0", 60},
        {"[1]", "[", ", ", "]", "lists.range(50000).all(i, v == v)", 16},
        {"[1]", "[", ", ", "]", "sets.contains(v, v)", 60},
        {"'a'", "'%s%s'.format([", ", ", "])", "v.size() > 0", 60},
        {"'aa'", "", " + ", "", "v.replace('a', v).size() > 0", 18},
        {"'aa'", "", " + ", "", "v.findAll('(a*b)?').size() > 0", 18},
        {"'aa'", "", " + ", "", "v.lastIndexOf(v.substring(65536) + 'b') == -1", 17},
        {"'\\u00e4'", "", " + ", "", "lists.range(10000).all(i, v.size() > 0)", 20},
    };
    struct cel_env *env = cel_env_new(&(struct cel_env_options){.kind = CEL_ENV_DRA});
    struct cel_run *run = cel_run_new();
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_sbuf struct sbuf text = {0};
        struct cel_program *p = NULL;
        struct cel_result r;
        struct err err;
        let_many(&text, cases[i].first, cases[i].open, cases[i].between, cases[i].close,
                 cases[i].depth, cases[i].end);
        if (cel_compile(env, sbuf_str(&text), &p, NULL, &err) < 0)
            fail_msg("%s: %s", cases[i].end, err.msg);
        // The API takes it.
        if (cel_program_max_cost(p) > DRAY_CEL_COST_MAX)
            fail_msg("%s: the API refuses it", cases[i].end);
        cel_eval_value(run, p, NULL, NULL, &r);
        if (!r.failed || !str_eqz(r.error, BOUND))
            fail_msg("%s: %.*s", cases[i].end, STR_ARG(r.error));
        assert_true(r.cost <= DRAY_CEL_COST_MAX && r.work > DRAY_CEL_WORK_MAX);
        cel_program_free(p);
    }
    cel_run_free(run);
    cel_env_free(env);
}

// Whoever builds no mountains does not meet the bound: these come near to the highest cost.
static void test_work_of_ordinary_ones(void **unused)
{
    (void)unused;
    static const char *const cases[] = {
        "cel.bind(l, lists.range(300), l.all(x, x in l))",
        "cel.bind(l, lists.range(100000), l.all(x, l.size() == 100000))",
        "cel.bind(l, lists.range(100000), l.all(x, l[x] == x))",
        "lists.range(60000).map(x, x + 1).size() == 60000",
        "cel.bind(m, {'a': lists.range(100000)}, lists.range(50000).all(x, 'a' in m))",
        "lists.range(200000) == lists.range(200000)",
        "lists.range(400).distinct().size() == 400",
    };
    struct cel_env *env = cel_env_new(&(struct cel_env_options){.kind = CEL_ENV_DRA});
    struct cel_run *run = cel_run_new();
    for (size_t i = 0; i < array_len(cases); i++) {
        struct cel_program *p = NULL;
        struct cel_result r;
        struct err err;
        if (cel_compile(env, str_z(cases[i]), &p, NULL, &err) < 0)
            fail_msg("%s: %s", cases[i], err.msg);
        cel_eval_value(run, p, NULL, NULL, &r);
        if (!r.match)
            fail_msg("%s: cost %llu, %.*s", cases[i], (unsigned long long)r.cost, STR_ARG(r.error));
        cel_program_free(p);
    }
    cel_run_free(run);
    cel_env_free(env);
}

static void test_hostile(void **unused)
{
    (void)unused;
    void (*const makers[])(struct sbuf *) = {nested_macros, patterns, huge_lists,
                                             deep,          doubling, garbage};
    struct cel_env *env =
        cel_env_new(&(struct cel_env_options){.kind = CEL_ENV_DRA, .any_result = true});
    struct cel_run *run = cel_run_new();
    struct cel_shapes *shapes = cel_shapes_new();
    struct cel_device *d;
    assert_int_equal(
        cel_device_new(shapes, &(struct cel_device_input){.driver = STR("d")}, &d, NULL), 0);
    size_t refused = 0;
    size_t failed = 0;
    size_t expressions = EXPRESSIONS / (size_t)sample(5);
    for (size_t i = 0; i < expressions; i++) {
        cleanup_sbuf struct sbuf text = {0};
        makers[i % array_len(makers)](&text);
        struct cel_program *p = NULL;
        struct cel_result r;
        if (text.n > DRAY_CEL_EXPRESSION_BYTES_MAX ||
            cel_compile(env, sbuf_str(&text), &p, NULL, NULL) < 0) {
            refused++;
            continue;
        }
        cel_eval_value(run, p, d, NULL, &r);
        failed += r.failed;
        cel_program_free(p);
    }
    assert_true(refused > expressions / 10);
    assert_true(failed > expressions / 10);
    cel_device_free(d);
    cel_shapes_free(shapes);
    cel_run_free(run);
    cel_env_free(env);
}

// Expressions of one request together: patterns that are large stop being compiled, and one that is
// known costs its text alone.
static void test_spending(void **unused)
{
    (void)unused;
    const struct cel_env_options options = {.kind = CEL_ENV_DRA, .new_expressions = true};
    struct cel_env *env = cel_env_new(&options);
    struct cel_spending spending = {0};
    cleanup_sbuf struct sbuf text = {0}, issues = {0};
    int r = 0;
    unsigned n = 0;
    for (; n < 1024 && r == 0; n++) {
        struct cel_program *p = NULL;
        sbuf_clear(&text);
        sbuf_addf(&text, "'a'.matches('(?i)(\\\\p{L}{30}%u)')", n);
        r = cel_compile_within(env, sbuf_str(&text), &spending, &p, &issues, NULL);
        cel_program_free(p);
    }
    assert_int_equal(r, -ERR_INVALID);
    assert_true(spending.refused);
    assert_in_range(n, 2, 32);
    assert_true(str_contains(sbuf_str(&issues), STR("take too long to compile")));
    cel_env_free(env);
}

RUN_TESTS(TEST_CASE(test_spending), TEST_CASE(test_hostile), TEST_CASE(test_much_for_little),
          TEST_CASE(test_work_of_ordinary_ones))
