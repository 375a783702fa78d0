// SPDX-License-Identifier: Apache-2.0
//
// From the program's arguments to a verb: options before the verb, requests for help, unknown
// verbs, and the exit status.
#include <stdio.h>
#include <unistd.h>

#include "base/nearest.h"
#include "cmd/engine/cli.h"
#include "view/term.h"

#include "base/banned.h"

const struct cli_verb *cli_verb_find(const struct cli_program *p, struct str name)
{
    for (size_t i = 0; i < p->n; i++)
        if (str_eqz(name, p->verbs[i]->name))
            return p->verbs[i];
    return NULL;
}

int cli_usage_error(const char *verb, const char *what)
{
    struct str name, rest;
    (void)str_cut(str_z(verb), ' ', &name, &rest);
    (void)fprintf(stderr, "dray %s: %s (see 'dray help %.*s')\n", verb, what, STR_ARG(name));
    return VERB_USAGE;
}

static int main_unknown_verb(const struct cli_program *p, const char *name)
{
    struct nearest near = {.word = str_z(name)};
    for (size_t i = 0; i < p->n; i++)
        nearest_try(&near, str_z(p->verbs[i]->name));
    if (name[0] == '-')
        (void)fprintf(stderr, "dray: no verb behind '%s' ('dray help' lists verbs)\n", name);
    else if (near.best.n)
        (void)fprintf(stderr, "dray: unknown verb '%s'; did you mean '%.*s'?\n", name,
                      STR_ARG(near.best));
    else
        (void)fprintf(stderr, "dray: unknown verb '%s' ('dray help' lists verbs)\n", name);
    return VERB_USAGE;
}

// main_leading_words is how many words an option takes that may precede the verb; 0: it is none.
static int main_leading_words(const struct cli_program *p, const char *word)
{
    struct str name, value;
    const struct cli_verb any = {.groups = {p->leading}};
    bool joined = str_cut(str_z(word), '=', &name, &value);
    const struct cli_option *o = cli_option_find(&any, name);
    return !o ? 0 : joined || !cli_option_wants_value(o) ? 1 : 2;
}

// main_verb_first moves the verb before such options: kubectl takes them on either side, and so do
// aliases.
static void main_verb_first(const struct cli_program *p, int argc, char **argv)
{
    int at = 1;
    for (int words; at < argc && (words = main_leading_words(p, argv[at])) > 0;)
        at += words;
    if (at == 1 || at >= argc)
        return;
    char *verb = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
    argv[1] = verb;
}

static bool main_asks_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

// main_help prints the page of a verb, or of the subverb that one of the words names.
static int main_help(const struct cli_verb *v, int argc, char **argv)
{
    cleanup_sbuf struct sbuf out = {0}, path = {0};
    const struct cli_verb *sub = NULL;
    for (int i = 0; i < argc && !sub; i++)
        sub = cli_subverb_find(v, str_z(argv[i]));
    sbuf_addf(&path, "%s%s%s", v->name, sub ? " " : "", sub ? sub->name : "");
    cli_help_verb(sub ? sub : v, path.p, view_term_of(STDOUT_FILENO, VIEW_AUTO).columns, &out);
    (void)fwrite(out.p, 1, out.n, stdout);
    return fflush(stdout) == 0 ? VERB_OK : VERB_NO;
}

static int main_run(const struct cli_verb *v, int argc, char **argv)
{
    const struct cli_verb *chosen = NULL;
    cleanup_sbuf struct sbuf path = {0};
    struct err err = {0};
    int r = cli_read(v, argc, argv, &chosen, &err);
    sbuf_addf(&path, "%s%s%s", v->name, chosen != v ? " " : "", chosen != v ? chosen->name : "");
    r = r < 0 ? cli_usage_error(path.p, err.msg) : chosen->run();
    cli_done();
    return r;
}

int cli_main(const struct cli_program *p, int argc, char **argv)
{
    main_verb_first(p, argc, argv);
    const char *name = argc > 1 ? argv[1] : "help";
    if (main_asks_help(argc > 1, argv + 1))
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct cli_verb *v = cli_verb_find(p, str_z(name));
    if (!v)
        return main_unknown_verb(p, name);
    bool is_help = strcmp(v->name, "help") == 0;
    if (is_help && argc > 2 && argv[2][0] != '-' && strcmp(argv[2], "all") != 0) {
        const struct cli_verb *about = cli_verb_find(p, str_z(argv[2]));
        return about ? main_help(about, argc - 3, argv + 3) : main_unknown_verb(p, argv[2]);
    }
    if (argc > 2 && main_asks_help(argc - 2, argv + 2))
        return main_help(v, argc - 2, argv + 2);
    p->begin();
    if (argc > 1 && argv[1][0] == '-') // --help, --version
        argc = 2;
    return main_run(v, argc > 1 && argv[1][0] != '-' ? argc - 1 : 1, argc > 1 ? argv + 1 : argv);
}
