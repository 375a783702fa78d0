// SPDX-License-Identifier: Apache-2.0
//
// Command lines: options in every form, words, what is wrong with them; the help and the flags that come from the
// same tables.
#include "cmd/grammar.h"
#include "unit.h"

#include "base/banned.h"

static struct {
    const char *namespace;
    int64_t tail, since_ns;
    bool stdin_, tty, all;
    struct option_texts files, words, behind;
} args;

static const struct option options[] = {
    {.name = "--namespace",
     .letter = "-n",
     .value_name = "NAME",
     .text = &args.namespace,
     .help = "the namespace"},
    {.name = "--tail", .number = &args.tail, .least = 0, .help = "lines"},
    {.name = "--since", .duration_ns = &args.since_ns, .help = "from when on\nuntil now"},
    {.name = "--stdin", .letter = "-i", .flag = &args.stdin_, .value = true, .help = "in"},
    {.name = "--tty", .letter = "-t", .flag = &args.tty, .value = true, .help = "terminal"},
    {.name = "--all", .flag = &args.all, .value = true},
    {.name = "--filename", .letter = "-f", .many = &args.files, .help = "files"},
};
static const struct option_group group = OPTION_GROUP("Options", options);
static const struct grammar grammar = {.synopsis = "try WORD…\ntry -- WORD…",
                                       .text = "Tries.",
                                       .examples = "dray try a",
                                       .groups = {&group},
                                       .words = &args.words,
                                       .behind = &args.behind};

static char said[512];

int verb_usage_error(const char *verb, const char *what)
{
    (void)snprintf(said, sizeof(said), "%s: %s", verb, what);
    return VERB_USAGE;
}

static int read_line(const char *line)
{
    static char copy[512], verb[] = "try";
    char *argv[32] = {verb};
    int argc = 1;
    vec_done(&args.files);
    vec_done(&args.words);
    vec_done(&args.behind);
    memset(&args, 0, sizeof(args));
    said[0] = '\0';
    (void)snprintf(copy, sizeof(copy), "%s", line);
    for (char *p = copy; *p && argc < 32;) {
        argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = '\0';
    }
    return grammar_read("try", &grammar, argc, argv);
}

static void every_form(void **state)
{
    (void)state;
    static const char *const names[] = {"-n x", "-nx", "-n=x", "--namespace x", "--namespace=x"};
    for (size_t i = 0; i < array_len(names); i++) {
        assert_int_equal(read_line(names[i]), VERB_OK);
        assert_string_equal(args.namespace, "x");
    }
    assert_int_equal(read_line("a -it b --tail 5 --since=1.5s -f one -ftwo -- c -x"), VERB_OK);
    assert_true(args.stdin_ && args.tty);
    assert_int_equal(args.tail, 5);
    assert_int_equal(args.since_ns, 1500000000);
    assert_int_equal(args.words.n, 2);
    assert_int_equal(args.files.n, 2);
    assert_string_equal(args.files.p[1], "two");
    assert_int_equal(args.behind.n, 2);
    assert_string_equal(args.behind.p[1], "-x");
    assert_int_equal(read_line("--all --all=false -"), VERB_OK);
    assert_false(args.all);
    assert_string_equal(args.words.p[0], "-");
    assert_int_equal(read_line("--tty=true -itn=y"), VERB_OK);
    assert_true(args.tty && args.stdin_);
    assert_string_equal(args.namespace, "y");
}

static void what_is_wrong(void **state)
{
    static const struct {
        const char *line, *want;
    } rows[] = {
        {"--namespce x", "there is no flag '--namespce'"},
        {"-x", "there is no flag '-x'"},
        {"-ix", "there is no flag '-x'"},
        {"-n", "--namespace needs a value"},
        {"--tail x", "--tail needs a number, at least 0, not 'x'"},
        {"--tail -1", "--tail needs a number, at least 0, not '-1'"},
        {"--since soon", "--since: 'soon' is not a duration"},
        {"--tty=maybe", "--tty is true or false, not 'maybe'"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        assert_int_equal(read_line(rows[i].line), VERB_USAGE);
        if (!strstr(said, rows[i].want))
            fail_msg("%s: got '%s', want '%s'", rows[i].line, said, rows[i].want);
    }
    (void)read_line("");
}

static void the_help(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    (void)state;
    grammar_help(&grammar, &out);
    assert_str(sbuf_str(&out), "dray try WORD…\ndray try -- WORD…\n\nTries.\n\nOptions:\n"
                               "  -n, --namespace NAME        the namespace\n"
                               "      --tail VALUE            lines\n"
                               "      --since VALUE           from when on\n"
                               "                              until now\n"
                               "  -i, --stdin                 in\n"
                               "  -t, --tty                   terminal\n"
                               "  -f, --filename VALUE        files\n"
                               "\nExamples:\n  dray try a\n");
}

static void add_flag(void *arg, const struct verb_flag *f)
{
    sbuf_addf(arg, "%.*s%s ", STR_ARG(f->name), f->value ? "=" : "");
}

static void flags_of_both_kinds_of_verbs(void **state)
{
    static const struct verb with = {.name = "try", .grammar = &grammar};
    static const struct verb without = {
        .name = "old",
        .usage = "dray old FILE [--data-dir DIR] [-R] [--alone] -o json\n\n"
                 "--policy pack|spread  how; see well-known a-b and 'dray x --y'\n"
                 "-f, --filename=FILE   files"};
    cleanup_sbuf struct sbuf out = {0};
    (void)state;
    verb_flags(&with, add_flag, &out);
    assert_str(sbuf_str(&out), "--namespace= --tail= --since= --stdin --tty --all --filename= ");
    sbuf_clear(&out);
    verb_flags(&without, add_flag, &out);
    assert_str(sbuf_str(&out), "--data-dir= -R --alone -o --policy --y -f --filename= ");
}

RUN_TESTS(TEST_CASE(every_form), TEST_CASE(what_is_wrong), TEST_CASE(the_help),
          TEST_CASE(flags_of_both_kinds_of_verbs))
