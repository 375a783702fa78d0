// SPDX-License-Identifier: Apache-2.0
//
// Ten thousand expressions made to hurt: nested macros, patterns that ruin backtrackers, huge lists,
// deep parentheses, garbage. Each must end, within the cost limit, and mostly with a refusal.
#include "dray/cel.h"
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
    for (size_t i = 0; i < EXPRESSIONS; i++) {
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
    assert_true(refused > EXPRESSIONS / 10);
    assert_true(failed > EXPRESSIONS / 10);
    cel_device_free(d);
    cel_shapes_free(shapes);
    cel_run_free(run);
    cel_env_free(env);
}

RUN_TESTS(TEST_CASE(test_hostile))
