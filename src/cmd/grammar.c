// SPDX-License-Identifier: Apache-2.0
#include "cmd/grammar.h"

#include <stdio.h>

#include "base/utf8.h"

#include "base/banned.h"

#define HELP_COLUMN 30

// --- Reading -------------------------------------------------------------------------------------

struct line {
    const char *verb;
    const struct grammar *g;
    int argc;
    char **argv;
    int at;
};

static int wrong(const struct line *l, const struct err *err)
{
    return verb_usage_error(l->verb, err->msg);
}

// find looks for an option by its long name or its letter.
static const struct option *find(const struct grammar *g, struct str name)
{
    for (size_t i = 0; i < GRAMMAR_GROUPS && g->groups[i]; i++) {
        const struct option_group *group = g->groups[i];
        for (size_t k = 0; k < group->n; k++) {
            const struct option *o = &group->options[k];
            if (str_eqz(name, o->name) || (o->letter && str_eqz(name, o->letter)))
                return o;
        }
    }
    return NULL;
}

// give sets an option; a value that is not given yet is the next word.
static int give(struct line *l, const struct option *o, const char *value)
{
    struct err err = {0};
    if (!value && option_needs_value(o) && l->at + 1 < l->argc)
        value = l->argv[++l->at];
    return option_set(o, value, &err) < 0 ? wrong(l, &err) : VERB_OK;
}

static int unknown_flag(const struct line *l, struct str name)
{
    struct err err = {0};
    (void)err_set(&err, ERR_INVALID, "there is no flag '%.*s'", STR_ARG(name));
    return wrong(l, &err);
}

static int take_long(struct line *l)
{
    struct str name, value;
    const char *word = l->argv[l->at];
    bool has_value = str_cut(str_z(word), '=', &name, &value);
    const struct option *o = find(l->g, name);
    return o ? give(l, o, has_value ? value.p : NULL) : unknown_flag(l, name);
}

// take_letters reads -A, -n VALUE, -nVALUE, -n=VALUE, -it.
static int take_letters(struct line *l)
{
    const char *word = l->argv[l->at];
    for (size_t i = 1; word[i]; i++) {
        const char letter[] = {'-', word[i], '\0'};
        const struct option *o = find(l->g, str_z(letter));
        if (!o)
            return unknown_flag(l, i == 1 ? str_z(word) : str_z(letter));
        const char *rest = &word[i + 1];
        if (option_needs_value(o))
            return give(l, o, rest[0] == '\0' ? NULL : rest[0] == '=' ? rest + 1 : rest);
        if (rest[0] == '=')
            return give(l, o, rest + 1);
        int r = give(l, o, NULL);
        if (r != VERB_OK)
            return r;
    }
    return VERB_OK;
}

static int take_word(struct line *l, struct option_texts *to)
{
    struct err err = {0};
    if (to) {
        vec_push(to, l->argv[l->at]);
        return VERB_OK;
    }
    (void)err_set(&err, ERR_INVALID, "'%s' makes no sense here", l->argv[l->at]);
    return wrong(l, &err);
}

int grammar_read(const char *verb, const struct grammar *g, int argc, char **argv)
{
    struct line l = {.verb = verb, .g = g, .argc = argc, .argv = argv};
    bool words_only = false;
    int r = VERB_OK;
    for (l.at = 1; l.at < argc && r == VERB_OK; l.at++) {
        const char *word = argv[l.at];
        if (words_only)
            r = take_word(&l, g->behind ? g->behind : g->words);
        else if (strcmp(word, "--") == 0)
            words_only = true;
        else if (word[0] == '-' && word[1] == '-')
            r = take_long(&l);
        else if (word[0] == '-' && word[1] != '\0')
            r = take_letters(&l);
        else
            r = take_word(&l, g->words);
    }
    return r;
}

// --- Help ----------------------------------------------------------------------------------------

// add_indented adds lines, each behind so many spaces but the first.
static void add_indented(struct sbuf *out, const char *text, size_t indent, bool first_too)
{
    for (struct str rest = str_z(text), row; rest.n;) {
        str_cut(rest, '\n', &row, &rest);
        if (first_too)
            sbuf_add_repeat(out, ' ', indent);
        sbuf_add(out, row);
        sbuf_addc(out, '\n');
        first_too = true;
    }
}

static void add_option(struct sbuf *out, const struct option *o)
{
    size_t from = out->n;
    sbuf_addf(out, "  %s%s%s", o->letter ? o->letter : "  ", o->letter ? ", " : "  ", o->name);
    if (option_needs_value(o))
        sbuf_addf(out, " %s", o->value_name ? o->value_name : "VALUE");
    size_t used = utf8_count(str_from(sbuf_str(out), from));
    if (used + 2 > HELP_COLUMN) {
        sbuf_addc(out, '\n');
        used = 0;
    }
    sbuf_add_repeat(out, ' ', HELP_COLUMN - used);
    add_indented(out, o->help, HELP_COLUMN, false);
}

void grammar_help(const struct grammar *g, struct sbuf *out)
{
    for (struct str rest = str_z(g->synopsis), row; rest.n;) {
        str_cut(rest, '\n', &row, &rest);
        sbuf_addf(out, "dray %.*s\n", STR_ARG(row));
    }
    if (g->text)
        sbuf_addf(out, "\n%s\n", g->text);
    for (size_t i = 0; i < GRAMMAR_GROUPS && g->groups[i]; i++) {
        const struct option_group *group = g->groups[i];
        sbuf_addf(out, "\n%s:\n", group->title);
        for (size_t k = 0; k < group->n; k++)
            if (group->options[k].help)
                add_option(out, &group->options[k]);
    }
    if (g->examples) {
        sbuf_addz(out, "\nExamples:\n");
        add_indented(out, g->examples, 2, true);
    }
}

// --- Flags ---------------------------------------------------------------------------------------

static bool in_flag(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

// flags_of_text finds the flags that a usage text names: --words, and letters behind a bracket or a space.
static void flags_of_text(struct str text, verb_flag_fn each, void *arg)
{
    for (size_t i = 0; i + 1 < text.n; i++) {
        bool starts = i == 0 || strchr(" [(\n|,'", text.p[i - 1]) != NULL;
        if (text.p[i] != '-' || !starts)
            continue;
        size_t n = 1;
        bool is_long = text.p[i + 1] == '-';
        while (is_long && i + n < text.n && in_flag(text.p[i + n]))
            n++;
        if (!is_long && (i + 2 >= text.n || !strchr(" ]|,\n", text.p[i + 2])))
            continue;
        if (!is_long)
            n = 2;
        struct str name = str_make(text.p + i, n);
        char next = i + n + 1 < text.n ? text.p[i + n + 1] : '\0';
        char sep = i + n < text.n ? text.p[i + n] : '\0';
        const struct verb_flag flag = {
            .name = name, .value = (sep == ' ' || sep == '=') && next >= 'A' && next <= 'Z'};
        if (n > 2 || (!is_long && text.p[i + 1] >= 'A' && text.p[i + 1] <= 'z'))
            each(arg, &flag);
        i += n - 1;
    }
}

void verb_flags(const struct verb *v, verb_flag_fn each, void *arg)
{
    if (!v->grammar) {
        flags_of_text(str_z(v->usage), each, arg);
        return;
    }
    for (size_t i = 0; i < GRAMMAR_GROUPS && v->grammar->groups[i]; i++) {
        const struct option_group *group = v->grammar->groups[i];
        for (size_t k = 0; k < group->n; k++) {
            const struct option *o = &group->options[k];
            const struct verb_flag flag = {str_z(o->name), str_z(o->letter), o->help, o->choices,
                                           option_needs_value(o)};
            each(arg, &flag);
        }
    }
}
