// SPDX-License-Identifier: Apache-2.0
//
// The command-line engine: options in every form, words, subverbs, config files, errors, help,
// completion and manual pages; and the tables of all verbs, which have to be complete.
#include <stdio.h>
#include <unistd.h>

#include <sys/wait.h>

#include "cmd/verb.h"
#include "unit.h"

#include "base/banned.h"

static struct {
    const char *namespace, *kind, *mode;
    int64_t tail, since_ns;
    size_t size;
    double rate;
    bool stdin_, tty, all, none;
    struct cli_texts files, words, behind;
    char taken[64];
} args;

static int take_name(const struct cli_option *o, const char *value, struct err *err)
{
    (void)o;
    (void)snprintf(args.taken, sizeof(args.taken), "%s", value ? value : "(none)");
    return value && strcmp(value, "bad") == 0 ? err_set(err, ERR_INVALID, "--agent is not bad") : 0;
}

static int run_nothing(void)
{
    return VERB_OK;
}

static const struct cli_option options[] = {
    {"--namespace", "-n", "NAME", "use a namespace", .text = &args.namespace},
    {"--tail", NULL, "N", "show lines", .number = &args.tail, .most = 100},
    {"--size", NULL, "N", "set a size", .size = &args.size, .least = 1, .most = 8},
    {"--rate", NULL, "R", "set a rate", .decimal = &args.rate, .most = 10},
    {"--since", NULL, "TIME", "show lines from\nthis time on", .duration_ns = &args.since_ns},
    {"--stdin", "-i", NULL, "pass input", .flag = &args.stdin_, .needs = "--tty --size"},
    {"--tty", "-t", NULL, "use a terminal", .flag = &args.tty, .excludes = "--rate"},
    {"--all", .flag = &args.all},
    {"--no-none", NULL, NULL, "unset it", .flag = &args.none, .off = true},
    {"--mode", NULL, "MODE", "choose", .text = &args.mode, .choices = "fast slow",
     .alias = "--how"},
    {"--agent", NULL, "NAME", "be a node", .take = take_name, .optional = true},
    {"--filename", "-f", "FILE…", "read files", .many = &args.files, .greedy = true},
};
static const struct cli_group group = CLI_GROUP("Options", options);
static const struct cli_option sub_options[] = {
    {"--kind", "-k", "KIND", "use a kind", .text = &args.kind, .required = true},
};
static const struct cli_group sub_group = CLI_GROUP("Options", sub_options);

static const struct cli_verb try_verb = {
    .name = "try",
    .summary = "try things",
    .synopsis = "try WORD…\ntry -- WORD…",
    .text = "Tries\nthings.\n\n  kept as\n  it is\n\n.SH is 'no' \\request",
    .examples = "dray try a",
    .groups = {&group},
    .words = &args.words,
    .word = "WORD",
    .words_most = 3,
    .behind = &args.behind,
    .config = true,
    .run = run_nothing};
static const struct cli_verb sub_one = {.name = "one",
                                        .summary = "do one",
                                        .synopsis = "one NAME -k KIND",
                                        .text = "Does one.",
                                        .groups = {&sub_group},
                                        .words = &args.words,
                                        .word = "NAME",
                                        .words_least = 1,
                                        .words_most = 1,
                                        .run = run_nothing};
static const struct cli_verb sub_two = {
    .name = "two", .summary = "do two", .synopsis = "two", .text = "Does two.", .run = run_nothing};
static const struct cli_verb *const subverbs[] = {&sub_one, &sub_two, NULL};
static const struct cli_verb many_verb = {.name = "many",
                                          .summary = "do many things",
                                          .text = "Does them.",
                                          .examples = "dray many one",
                                          .subverbs = subverbs};

static char said[512];
static const struct cli_verb *chosen;

// read_line reads a line of words that spaces separate.
static int read_line(const struct cli_verb *v, const char *line)
{
    static char copy[512], name[] = "verb";
    char *argv[32] = {name};
    int argc = 1;
    struct err err = {0};
    cli_done();
    memset(&args, 0, sizeof(args));
    args.none = true;
    (void)snprintf(copy, sizeof(copy), "%s", line);
    for (char *p = copy; *p && argc < 32;) {
        argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = '\0';
    }
    int r = cli_read(v, argc, argv, &chosen, &err);
    (void)snprintf(said, sizeof(said), "%.511s", err.msg);
    return r;
}

static void read_good(const struct cli_verb *v, const char *line)
{
    if (read_line(v, line) != 0)
        fail_msg("%s: %s", line, said);
}

static void every_form(void **state)
{
    (void)state;
    static const char *const names[] = {"-n x", "-nx", "-n=x", "--namespace x", "--namespace=x"};
    for (size_t i = 0; i < array_len(names); i++) {
        read_good(&try_verb, names[i]);
        assert_string_equal(args.namespace, "x");
    }
    read_good(&try_verb, "a -it b --tail 5 --since=1.5s --size 8 -f one two -ftwo -- c -x");
    assert_true(args.stdin_ && args.tty);
    assert_int_equal(args.tail, 5);
    assert_int_equal(args.size, 8);
    assert_int_equal(args.since_ns, 1500000000);
    assert_int_equal(args.words.n, 2);
    assert_int_equal(args.files.n, 3);
    assert_string_equal(args.files.p[2], "two");
    assert_int_equal(args.behind.n, 2);
    assert_string_equal(args.behind.p[1], "-x");
    assert_true(cli_given("--filename") && !cli_given("--mode"));
    read_good(&try_verb, "--all=false --no-none - --how slow --rate 0.5 --agent --since 0");
    assert_false(args.all || args.none);
    assert_string_equal(args.words.p[0], "-");
    assert_string_equal(args.mode, "slow");
    assert_string_equal(args.taken, "(none)");
    assert_true(args.rate > 0.49 && args.rate < 0.51);
    read_good(&try_verb, "--tty=true -itn=y --agent=n1 -n y");
    assert_true(args.tty && args.stdin_);
    assert_string_equal(args.namespace, "y");
    assert_string_equal(args.taken, "n1");
    cli_done();
}

static void what_is_wrong(void **state)
{
    static const struct {
        const char *line, *want;
    } rows[] = {
        {"--namespce x", "unknown flag '--namespce'; did you mean '--namespace'?"},
        {"-x", "unknown flag '-x'"},
        {"-ix", "unknown flag '-x'"},
        {"-n", "--namespace needs a value: NAME"},
        {"--mode", "--mode needs a value: fast slow"},
        {"--mode fats", "--mode is one of fast, slow, not 'fats'; did you mean 'fast'?"},
        {"--tail x", "--tail needs a number from 0 to 100, not 'x'"},
        {"--tail -1", "--tail needs a number from 0 to 100, not '-1'"},
        {"--tail 101", "--tail needs a number from 0 to 100, not '101'"},
        {"--size 0", "--size needs a number from 1 to 8, not '0'"},
        {"--rate nan", "--rate needs a number from 0 to 10, not 'nan'"},
        {"--rate 1x", "--rate needs a number from 0 to 10, not '1x'"},
        {"--since soon", "--since: 'soon' is not a duration"},
        {"--tty=maybe", "--tty is true or false, not 'maybe'"},
        {"-n a --namespace b", "--namespace is given twice, as 'a' and 'b'"},
        {"--all --all=false", "--all is given twice, as 'true' and 'false'"},
        {"-i", "--stdin needs --tty --size"},
        {"-t --rate 1", "--tty and --rate exclude each other"},
        {"a b c d", "unexpected argument 'd'"},
        {"--agent=bad", "--agent is not bad"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        assert_int_equal(read_line(&try_verb, rows[i].line), -ERR_INVALID);
        if (!strstr(said, rows[i].want))
            fail_msg("%s: got '%s', want '%s'", rows[i].line, said, rows[i].want);
    }
    cli_done();
}

static void subverbs_of_a_verb(void **state)
{
    static const struct {
        const char *line, *want;
    } wrong[] = {{"", "a command is missing; the commands are one, two"},
                 {"tow", "unknown command 'tow'; did you mean 'two'?"},
                 {"xyzzy", "unknown command 'xyzzy'; the commands are one, two"},
                 {"one -k x", "NAME is missing"},
                 {"one a", "--kind KIND is missing: use a kind"},
                 {"one a b -k x", "unexpected argument 'b'"},
                 {"two --kind x", "unknown flag '--kind'"}};
    (void)state;
    read_good(&many_verb, "one a -k x");
    assert_ptr_equal(chosen, &sub_one);
    read_good(&many_verb, "-k two one two"); // the value of an option is no subverb
    assert_ptr_equal(chosen, &sub_one);
    assert_string_equal(args.kind, "two");
    assert_string_equal(args.words.p[0], "two");
    for (size_t i = 0; i < array_len(wrong); i++) {
        assert_int_equal(read_line(&many_verb, wrong[i].line), -ERR_INVALID);
        if (!strstr(said, wrong[i].want))
            fail_msg("%s: got '%s', want '%s'", wrong[i].line, said, wrong[i].want);
    }
    cli_done();
}

static char file[64];

static const char *with_config(const char *text, const char *flags)
{
    static char line[256];
    (void)snprintf(file, sizeof(file), "/tmp/cli_test.%d.yaml", (int)getpid());
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(line, sizeof(line), "--config %s %s", file, flags);
    return line;
}

static void a_config_file(void **state)
{
    static const struct {
        const char *text, *want;
    } wrong[] = {{"tial: 1\n", "tial: there is no such setting; did you mean 'tail'?"},
                 {"tail: 101\n", "--tail needs a number from 0 to 100"},
                 {"tty: 1\n", "tty: must be true or false"},
                 {"filename: [a, 1]\n", "filename[1]: must be a text"},
                 {"mode: middling\n", "--mode is one of fast, slow"},
                 {"config: other.yaml\n", "config: there is no such setting"},
                 {"stdin: true\n", "--stdin needs --tty --size"},
                 {"[1]\n", "must hold settings"}};
    (void)state;
    read_good(&try_verb, with_config("tail: 7\nmode: slow\nagent: true\nfilename: [a, b]\n"
                                     "namespace: {A: true, B: false}\ntty: true\nsince: 2m\n",
                                     "--mode fast"));
    assert_int_equal(args.tail, 7);
    assert_string_equal(args.mode, "fast"); // flags win
    assert_string_equal(args.taken, "(none)");
    assert_string_equal(args.namespace, "A=true,B=false");
    assert_int_equal(args.files.n, 2);
    assert_int_equal(args.since_ns, 120000000000);
    assert_true(args.tty && cli_given("--tail"));
    read_good(&try_verb, with_config("filename: [a, b]\n", "-f c"));
    assert_int_equal(args.files.n, 1);
    for (size_t i = 0; i < array_len(wrong); i++) {
        assert_int_equal(read_line(&try_verb, with_config(wrong[i].text, "")), -ERR_INVALID);
        if (!strstr(said, wrong[i].want))
            fail_msg("%s: got '%s', want '%s'", wrong[i].text, said, wrong[i].want);
    }
    cli_done();
    (void)unlink(file);
}

static void the_help(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    (void)state;
    cli_help_verb(&sub_one, "many one", 0, &out);
    assert_str(sbuf_str(&out), "dray many one: do one\n\nUsage:\n  dray many one NAME -k KIND\n\n"
                               "Does one.\n\nOptions:\n"
                               "  -k, --kind KIND             use a kind\n");
    sbuf_clear(&out);
    cli_help_verb(&many_verb, "many", 0, &out);
    assert_str(
        sbuf_str(&out),
        "dray many: do many things\n\nUsage:\n  dray many one NAME -k KIND\n  dray many two\n"
        "\nDoes them.\n\nCommands:\n  one          do one\n  two          do two\n"
        "\nExamples:\n  dray many one\n"
        "\n'dray help many COMMAND' shows the options of a command.\n");
    sbuf_clear(&out);
    cli_help_verb(&try_verb, "try", 60, &out);
    assert_true(str_starts(sbuf_str(&out),
                           STR("dray try: try things\n\nUsage:\n  dray try WORD…\n"
                               "  dray try -- WORD…\n\nTries things.\n\n  kept as\n  it is\n")));
    assert_true(str_contains(sbuf_str(&out), STR("show lines from this time on\n")));
    assert_true(str_contains(sbuf_str(&out), STR("\n      --agent[=NAME]          be a node\n")));
    assert_false(str_contains(sbuf_str(&out), STR("--all")));
    assert_true(str_contains(sbuf_str(&out), STR("Configuration:\n      --config FILE")));
}

static void complete(const char *want, size_t n, const char *const *words)
{
    static const struct cli_verb *const verbs[] = {&many_verb, &try_verb};
    static const struct cli_program p = {.verbs = verbs, .n = 2};
    cleanup_sbuf struct sbuf out = {0};
    sbuf_addz(&out, "");
    cli_complete(&p, words, n, &out);
    if (!str_eqz(sbuf_str(&out), want))
        fail_msg("%s: got '%.*s', want '%s'", words[n - 1], STR_ARG(sbuf_str(&out)), want);
}

#define COMPLETE(want, ...)                                           \
    complete((want), array_len(((const char *const[]){__VA_ARGS__})), \
             (const char *const[]){__VA_ARGS__})

static void the_completion(void **state)
{
    (void)state;
    COMPLETE("many\tdo many things\n", "m");
    COMPLETE("one\tdo one\ntwo\tdo two\n", "many", "");
    COMPLETE("--kind\tuse a kind\n", "many", "one", "--k");
    COMPLETE("--size\tset a size\n--since\tshow lines from\n--stdin\tpass input\n", "try", "--s");
    COMPLETE("fast\t\nslow\t\n", "try", "--mode", "");
    COMPLETE("slow\t\n", "try", "--mode", "=", "s"); // as bash splits it
    COMPLETE("--mode=slow\t\n", "try", "--mode=s");
    COMPLETE("", "try", "-n", ""); // names of files
    COMPLETE("", "nothing", "");
}

// --- All verbs -----------------------------------------------------------------------------------

static void say_value(const struct cli_option *o, char *out, size_t n)
{
    if (o->choices)
        (void)snprintf(out, n, "%.*s", (int)strcspn(o->choices, " "), o->choices);
    else if (o->duration_ns)
        (void)snprintf(out, n, "%llds", (long long)(o->least / 1000000000 + 1));
    else if (o->number || o->size || o->decimal)
        (void)snprintf(out, n, "%lld", (long long)o->most);
    else
        (void)snprintf(out, n, "x");
}

// Other options may be needed beside it; what is said then is about them, and names it.
static void accept_option(const struct cli_verb *v, const char *path, const struct cli_option *o)
{
    static const char *const fine[] = {" needs --", " is missing", "exclude each other"};
    char value[128], name[] = "verb", flag[256];
    char *argv[] = {name, flag, NULL};
    struct err err = {0};
    say_value(o, value, sizeof(value));
    (void)snprintf(flag, sizeof(flag), "%s%s%s", o->name, cli_option_has_value(o) ? "=" : "",
                   cli_option_has_value(o) ? value : "");
    if (strcmp(o->name, "--config") == 0)
        return;
    struct cli_verb plain = *v; // values of tests before this one stay
    plain.check = NULL;
    int r = cli_read(&plain, 2, argv, &chosen, &err);
    bool good = r == 0 || (o->take && strstr(err.msg, o->name));
    for (size_t i = 0; i < array_len(fine) && !good; i++)
        good = strstr(err.msg, fine[i]) != NULL;
    cli_done();
    if (!good)
        fail_msg("dray %s %s: %s", path, flag, err.msg);
}

static void check_option(const struct cli_verb *v, const char *path, const struct cli_option *o)
{
    int targets = !!o->text + !!o->many + !!o->number + !!o->size + !!o->decimal +
                  !!o->duration_ns + (o->flag || o->take);
    if (targets != 1 || strncmp(o->name, "--", 2) != 0 || (o->letter && strlen(o->letter) != 2))
        fail_msg("dray %s %s: its table is wrong", path, o->name);
    if ((o->number || o->size || o->decimal) && o->most <= o->least)
        fail_msg("dray %s %s: a number has a least and a most", path, o->name);
    if (o->flag && o->value_name)
        fail_msg("dray %s %s: a flag has no value", path, o->name);
    if (cli_option_has_value(o) && !o->value_name)
        fail_msg("dray %s %s: its value has no name", path, o->name);
    const char *lists[] = {o->needs, o->excludes};
    for (size_t i = 0; i < 2; i++)
        for (struct str rest = str_z(lists[i]), one; rest.n;) {
            (void)str_cut(rest, ' ', &one, &rest);
            if (!cli_option_find(v, one))
                fail_msg("dray %s %s: there is no %.*s", path, o->name, STR_ARG(one));
        }
    if (cli_option_find(v, str_z(o->name)) != o ||
        (o->letter && cli_option_find(v, str_z(o->letter)) != o))
        fail_msg("dray %s %s: another option has its name", path, o->name);
}

static void check_verb(const struct cli_verb *v, const char *path, bool sub)
{
    const struct cli_group *g;
    cleanup_sbuf struct sbuf help = {0};
    if (!v->summary || !v->text || (!sub && !v->examples) || (!v->subverbs && !v->synopsis) ||
        !v->subverbs == !v->run)
        fail_msg("dray %s: summary, synopsis, text, an example, and run or subverbs", path);
    if (v->summary[0] < 'a' || v->summary[0] > 'z' || strlen(v->summary) > 60)
        fail_msg("dray %s: '%s' is no short imperative", path, v->summary);
    if (v->synopsis && strncmp(v->synopsis, v->name, strlen(v->name)) != 0)
        fail_msg("dray %s: its synopsis begins with its name", path);
    if (v->words && v->words_least && !v->word)
        fail_msg("dray %s: its words have no name", path);
    cli_help_verb(v, path, 80, &help);
    for (size_t i = 0; (g = cli_group_at(v, i)); i++)
        for (size_t k = 0; k < g->n; k++) {
            const struct cli_option *o = &g->options[k];
            check_option(v, path, o);
            if (!o->help)
                continue;
            if (!str_contains(sbuf_str(&help), str_z(o->name)))
                fail_msg("dray %s --help does not have %s", path, o->name);
            accept_option(v, path, o);
        }
    for (struct str rest = sbuf_str(&help), row; rest.n;) {
        (void)str_cut(rest, '\n', &row, &rest);
        if (row.n > 80 + 40) // bytes: a few characters have three
            fail_msg("dray %s --help: a long line: %.*s", path, STR_ARG(row));
    }
}

static void every_verb(void **state)
{
    (void)state;
    assert_true(program.n >= 42);
    for (size_t i = 0; i < program.n; i++) {
        const struct cli_verb *v = program.verbs[i];
        assert_true(i == 0 || strcmp(program.verbs[i - 1]->name, v->name) < 0);
        check_verb(v, v->name, false);
        for (size_t k = 0; v->subverbs && v->subverbs[k]; k++) {
            char path[128];
            (void)snprintf(path, sizeof(path), "%s %s", v->name, v->subverbs[k]->name);
            check_verb(v->subverbs[k], path, true);
        }
    }
}

// --- Manual pages --------------------------------------------------------------------------------

// check_troff looks for what troff would take for a request or an escape of its own.
static void check_troff(const char *name, struct str page)
{
    static const char *const requests[] = {".TH ", ".SH ", ".SS ", ".TP", ".PP", ".nf",
                                           ".fi",  ".B ",  ".BR ", ".I ", ".br"};
    bool kept = false;
    for (struct str row; page.n;) {
        (void)str_cut(page, '\n', &row, &page);
        bool known = row.n && row.p[0] != '.' && row.p[0] != '\'';
        for (size_t i = 0; i < array_len(requests) && !known; i++)
            known = str_starts(row, str_z(requests[i]));
        if (!known)
            fail_msg("%s: '%.*s' is no line of a manual page", name, STR_ARG(row));
        if (str_eqz(row, ".nf") == kept && (str_eqz(row, ".nf") || str_eqz(row, ".fi")))
            fail_msg("%s: .nf and .fi do not match", name);
        kept = str_eqz(row, ".nf") || (kept && !str_eqz(row, ".fi"));
        for (size_t i = 0; i < row.n; i++) {
            if ((unsigned char)row.p[i] >= 0x80)
                fail_msg("%s: a character that not every troff knows: %.*s", name, STR_ARG(row));
            if (row.p[i] == '\\' && (i + 1 == row.n || !strchr("&e-(f[", row.p[i + 1])))
                fail_msg("%s: an escape: %.*s", name, STR_ARG(row));
        }
    }
    if (kept)
        fail_msg("%s: .nf without .fi", name);
}

// lint_page lets mandoc or groff look at a page, if one of them is here.
static void lint_page(const char *name, const struct sbuf *page)
{
    char command[512];
    (void)snprintf(file, sizeof(file), "/tmp/cli_test.%d.1", (int)getpid());
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(page->p, 1, page->n, f), page->n);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(
        command, sizeof(command),
        "if command -v mandoc; then mandoc -T lint -W warning %s; elif command -v groff; "
        "then test -z \"$(groff -man -Tutf8 -ww -z %s 2>&1)\"; fi >/dev/null",
        file, file);
    int status = system(command); // NOLINT: a test
    (void)unlink(file);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s: troff complains", name);
}

static void manual_pages(void **state)
{
    static const struct cli_verb *const odd[] = {&try_verb};
    static const struct cli_program p = {.verbs = odd, .n = 1, .version = "1"};
    cleanup_sbuf struct sbuf page = {0};
    (void)state;
    cli_man_verb(&p, &try_verb, &page);
    assert_true(str_contains(sbuf_str(&page), STR(".SH NAME\ndray\\-try \\- try things\n")));
    assert_true(
        str_contains(sbuf_str(&page), STR("Tries things.\n.PP\n.nf\n  kept as\n  it is\n.fi")));
    assert_true(str_contains(sbuf_str(&page), STR("\\fB\\-f, \\-\\-filename FILE\\[u2026]\\fR\n")));
    assert_true(str_contains(sbuf_str(&page), STR("show lines from this time on\n")));
    assert_true(str_contains(sbuf_str(&page), STR("\n.PP\n\\&.SH is \\(aqno\\(aq \\erequest\n")));
    check_troff("try", sbuf_str(&page));
    lint_page("try", &page);
    for (size_t i = 0; i <= program.n; i++) {
        const struct cli_verb *v = i < program.n ? program.verbs[i] : NULL;
        sbuf_clear(&page);
        cli_man_verb(&program, v, &page);
        check_troff(v ? v->name : "dray", sbuf_str(&page));
        lint_page(v ? v->name : "dray", &page);
    }
}

RUN_TESTS(TEST_CASE(every_form), TEST_CASE(what_is_wrong), TEST_CASE(subverbs_of_a_verb),
          TEST_CASE(a_config_file), TEST_CASE(the_help), TEST_CASE(the_completion),
          TEST_CASE(every_verb), TEST_CASE(manual_pages))
