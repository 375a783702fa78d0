// SPDX-License-Identifier: Apache-2.0
//
// Pages of help, made from the tables of verbs and filled to the width of the terminal.
#include "base/utf8.h"
#include "cmd/engine/cli.h"
#include "cmd/engine/text.h"
#include "view/text.h"

#include "base/banned.h"

#define HELP_COLUMN 30  // of the texts of options
#define HELP_WIDTH  100 // at most

const char *const cli_chapters[CLI_CHAPTERS] = {[CLI_CLUSTER] = "Cluster",
                                                [CLI_DEVICES] = "Devices",
                                                [CLI_PLANNING] = "Planning",
                                                [CLI_OBJECTS] = "Objects",
                                                [CLI_NODE] = "Node",
                                                [CLI_PROGRAM] = "Program",
                                                [CLI_DEVELOPERS] = "Developers and integrators"};

bool cli_text_next(struct str *rest, struct sbuf *out, bool *ret_verbatim)
{
    struct str row;
    sbuf_clear(out);
    *ret_verbatim = false;
    while (rest->n) {
        struct str after = *rest;
        (void)str_cut(after, '\n', &row, &after);
        bool verbatim = str_starts(row, STR("  "));
        if (out->n && (row.n == 0 || verbatim || *ret_verbatim))
            break;
        *rest = after;
        if (row.n == 0)
            continue;
        sbuf_addf(out, "%s%.*s", out->n ? " " : "", STR_ARG(row));
        *ret_verbatim = verbatim;
    }
    return out->n > 0;
}

// help_add_text adds paragraphs, with an empty line between them.
static void help_add_text(struct sbuf *out, const char *text, size_t columns)
{
    cleanup_sbuf struct sbuf one = {0};
    bool verbatim = false, before = false;
    for (struct str rest = str_z(text); cli_text_next(&rest, &one, &verbatim); before = verbatim) {
        if (!(verbatim && before))
            sbuf_addc(out, '\n');
        if (verbatim)
            view_add_wrapped(out, sbuf_str(&one), columns);
        else
            view_add_behind(out, sbuf_str(&one), 0, columns);
    }
}

static void help_add_lines(struct sbuf *out, const char *title, const char *prefix,
                           const char *lines, size_t columns)
{
    cleanup_sbuf struct sbuf line = {0};
    sbuf_addf(out, "\n%s:\n", title);
    for (struct str rest = str_z(lines), row; rest.n;) {
        (void)str_cut(rest, '\n', &row, &rest);
        sbuf_clear(&line);
        sbuf_addf(&line, "  %s%.*s\n", prefix, STR_ARG(row));
        view_add_wrapped(out, sbuf_str(&line), columns);
    }
}

static void help_add_option(struct sbuf *out, const struct cli_option *o, size_t columns)
{
    cleanup_sbuf struct sbuf text = {0};
    bool verbatim;
    size_t from = out->n;
    struct str rest = str_z(o->help);
    sbuf_addf(out, "  %s%s", o->letter ? o->letter : "  ", o->letter ? ", " : "  ");
    cli_text_add_option(out, o);
    size_t used = utf8_count(str_from(sbuf_str(out), from));
    if (used + 2 > HELP_COLUMN) {
        sbuf_addc(out, '\n');
        used = 0;
    }
    sbuf_add_repeat(out, ' ', HELP_COLUMN - used);
    (void)cli_text_next(&rest, &text, &verbatim);
    view_add_behind(out, sbuf_str(&text), HELP_COLUMN, columns);
}

void cli_text_add_option(struct sbuf *out, const struct cli_option *o)
{
    sbuf_addz(out, o->name);
    if (cli_option_has_value(o))
        sbuf_addf(out, "%s%s%s", o->optional ? "[=" : " ", o->value_name ? o->value_name : "VALUE",
                  o->optional ? "]" : "");
}

// help_is_listed: of a chapter (-1: of any); all: not the everyday verbs alone.
static bool help_is_listed(const struct cli_verb *v, int chapter, bool all)
{
    return (chapter < 0 || (int)v->chapter == chapter) && (all || v->everyday);
}

static bool help_has_verbs(const struct cli_program *p, int chapter, bool all)
{
    for (size_t i = 0; i < p->n; i++)
        if (help_is_listed(p->verbs[i], chapter, all))
            return true;
    return false;
}

static void help_add_verbs(struct sbuf *out, const struct cli_verb *const *verbs, size_t n,
                           int chapter, bool all, size_t columns)
{
    size_t width = 12;
    for (size_t i = 0; i < n; i++) {
        cleanup_sbuf struct sbuf line = {0};
        if (!help_is_listed(verbs[i], chapter, all))
            continue;
        sbuf_addf(&line, "  %-*s %s\n", (int)width, verbs[i]->name, verbs[i]->summary);
        view_add_hanging(out, sbuf_str(&line), columns);
    }
}

void cli_text_add_synopsis(struct sbuf *out, const struct cli_verb *v)
{
    if (v->synopsis) {
        sbuf_addz(out, v->synopsis);
        return;
    }
    for (size_t i = 0; v->subverbs && v->subverbs[i]; i++)
        for (struct str rest = str_z(v->subverbs[i]->synopsis), row; rest.n;) {
            (void)str_cut(rest, '\n', &row, &rest);
            sbuf_addf(out, "%s%s %.*s", out->n ? "\n" : "", v->name, STR_ARG(row));
        }
}

static size_t help_width(size_t columns)
{
    return columns && columns < HELP_WIDTH ? columns : HELP_WIDTH;
}

void cli_help_verb(const struct cli_verb *v, const char *path, size_t columns, struct sbuf *out)
{
    cleanup_sbuf struct sbuf synopsis = {0}, prefix = {0};
    const struct cli_group *g;
    size_t n = 0;
    columns = help_width(columns);
    sbuf_addf(out, "dray %s: %s\n", path, v->summary);
    cli_text_add_synopsis(&synopsis, v);
    struct str parent = str_upto(str_z(path), strlen(path) - strlen(v->name));
    sbuf_addf(&prefix, "dray %.*s", STR_ARG(parent));
    help_add_lines(out, "Usage", prefix.p, synopsis.p, columns);
    help_add_text(out, v->text, columns);
    while (v->subverbs && v->subverbs[n])
        n++;
    if (n) {
        sbuf_addz(out, "\nCommands:\n");
        help_add_verbs(out, v->subverbs, n, -1, true, columns);
    }
    for (size_t i = 0; (g = cli_group_at(v, i)); i++) {
        sbuf_addf(out, "\n%s:\n", g->title);
        for (size_t k = 0; k < g->n; k++)
            if (g->options[k].help)
                help_add_option(out, &g->options[k], columns);
    }
    if (v->examples)
        help_add_lines(out, "Examples", "", v->examples, columns);
    if (n)
        sbuf_addf(out, "\n'dray help %s COMMAND' shows the options of a command.\n", path);
}

void cli_help_program(const struct cli_program *p, bool all, size_t columns, struct sbuf *out)
{
    columns = help_width(columns);
    sbuf_addz(out,
              "dray: Kubernetes Dynamic Resource Allocation\n\nUsage: dray VERB [ARGUMENTS]\n\n");
    for (int i = 0; i < CLI_CHAPTERS; i++) {
        if (!help_has_verbs(p, i, all))
            continue;
        sbuf_addf(out, "%s:\n", cli_chapters[i]);
        help_add_verbs(out, p->verbs, p->n, i, all, columns);
        sbuf_addc(out, '\n');
    }
    sbuf_addf(out, "'dray VERB --help' shows the usage of a verb%s.\n",
              all ? "" : ", 'dray help all' lists more verbs");
}
