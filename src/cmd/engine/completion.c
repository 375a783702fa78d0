// SPDX-License-Identifier: Apache-2.0
//
// Candidates for a shell that completes a command line: verbs, subverbs, options, values of options
// and kinds. The scripts of the shells (cmd/tools/completion.c) ask for them at each key press.
#include "api/api.h"
#include "cmd/engine/cli.h"

#include "base/banned.h"

struct complete_line {
    const struct cli_program *program;
    struct sbuf *out;
    struct str cur;    // to be completed
    struct str prefix; // of candidates: --name= of --name=VALUE
};

static void complete_offer(const struct complete_line *l, struct str word, const char *about)
{
    if (!str_starts(word, l->cur))
        return;
    struct str first, rest;
    (void)str_cut(str_z(about), '\n', &first, &rest);
    sbuf_addf(l->out, "%.*s%.*s\t%.*s\n", STR_ARG(l->prefix), STR_ARG(word), STR_ARG(first));
}

static void complete_words(const struct complete_line *l, const char *words)
{
    for (struct str rest = str_z(words), one; rest.n;) {
        (void)str_cut(rest, ' ', &one, &rest);
        complete_offer(l, one, "");
    }
}

static void complete_verbs(const struct complete_line *l, const struct cli_verb *const *verbs,
                           size_t n)
{
    for (size_t i = 0; i < n && verbs[i]; i++)
        complete_offer(l, str_z(verbs[i]->name), verbs[i]->summary);
}

static void complete_options(const struct complete_line *l, const struct cli_verb *v)
{
    const struct cli_group *g;
    for (size_t i = 0; (g = cli_group_at(v, i)); i++)
        for (size_t k = 0; k < g->n; k++)
            if (g->options[k].help)
                complete_offer(l, str_z(g->options[k].name), g->options[k].help);
    complete_offer(l, STR("--help"), "show the usage");
}

// complete_kinds offers plurals, each once: kinds have several versions.
static void complete_kinds(const struct complete_line *l)
{
    for (size_t i = 0; i < api_kinds_len; i++) {
        bool again = false;
        for (size_t k = 0; k < i && !again; k++)
            again = str_eq(api_kinds[k].plural, api_kinds[i].plural);
        if (api_kinds[i].plural.n && api_kinds[i].list && !again)
            complete_offer(l, api_kinds[i].plural, "");
    }
}

static const struct cli_option *complete_find(const struct cli_verb *v, struct str name)
{
    const struct cli_option *o = cli_option_find(v, name);
    for (size_t i = 0; !o && v->subverbs && v->subverbs[i]; i++)
        o = cli_option_find(v->subverbs[i], name);
    return o;
}

static void complete_add_name(void *ctx, struct str name)
{
    complete_offer(ctx, name, "");
}

static void complete_names(struct complete_line *l, struct str kind)
{
    if (l->program->names && kind.n)
        l->program->names(kind, complete_add_name, l);
}

// complete_kind_name completes KIND/NAME: the name behind the kind.
static void complete_kind_name(struct complete_line *l, struct str kind)
{
    l->prefix = str_upto(l->cur, kind.n + 1);
    l->cur = str_from(l->cur, kind.n + 1);
    complete_names(l, kind);
}

static void complete_value(struct complete_line *l, const struct cli_option *o)
{
    if (o->names)
        complete_names(l, str_z(o->names));
    const char *values = o->choices ? o->choices : o->suggest;
    if (values)
        complete_words(l, values);
}

// complete_in_verb completes the last of the words that follow the verb's name.
static void complete_in_verb(struct complete_line *l, const struct cli_verb *v,
                             const struct str *words, size_t n)
{
    const struct cli_option *waits = NULL; // for its value
    struct str name, value, first = {0};
    size_t given = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        bool option = str_starts(words[i], STR("-"));
        if (waits && waits->text) // names depend on the cluster and the namespace
            *waits->text = words[i].p;
        if (waits || !option) {
            const struct cli_verb *sub = waits ? NULL : cli_subverb_find(v, words[i]);
            first = given == 0 && !waits && !sub ? words[i] : first;
            given += !waits && !sub;
            v = sub ? sub : v;
            waits = NULL;
            continue;
        }
        bool joined = str_cut(words[i], '=', &name, &value);
        waits = complete_find(v, name);
        if (waits && joined && waits->text)
            *waits->text = value.p;
        if (waits && (joined || !cli_option_wants_value(waits)))
            waits = NULL;
    }
    l->cur = words[n - 1];
    if (waits) {
        complete_value(l, waits);
    } else if (str_starts(l->cur, STR("--")) && str_cut(l->cur, '=', &name, &value)) {
        const struct cli_option *o = complete_find(v, name);
        l->prefix = str_upto(l->cur, name.n + 1);
        l->cur = value;
        if (o)
            complete_value(l, o);
    } else if (str_starts(l->cur, STR("-"))) {
        complete_options(l, v);
    } else if (v->subverbs) {
        complete_verbs(l, v->subverbs, SIZE_MAX);
    } else if (v->kinds && str_cut(l->cur, '/', &name, &value)) {
        complete_kind_name(l, name);
    } else if (v->kinds && given == 0) {
        complete_kinds(l);
    } else if (v->kinds) {
        complete_names(l, first);
    } else if (v->word_names && (given == 0 || v->words_most != 1)) {
        complete_names(l, str_z(v->word_names));
    } else if (v->word_choices && given == 0) {
        complete_words(l, v->word_choices);
    }
}

void cli_complete(const struct cli_program *p, const char *const *words, size_t n, struct sbuf *out)
{
    struct complete_line l = {.program = p, .out = out};
    struct VEC(struct str) line = {0};
    // bash splits --name=value at the =.
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], "=") != 0)
            vec_push(&line, str_z(words[i]));
        else if (i + 1 == n)
            vec_push(&line, STR(""));
    const struct cli_verb *v = line.n > 1 ? cli_verb_find(p, line.p[0]) : NULL;
    if (line.n == 1) {
        l.cur = line.p[0];
        complete_verbs(&l, p->verbs, p->n);
    } else if (v && strcmp(v->name, "help") == 0) {
        l.cur = line.p[line.n - 1];
        complete_verbs(&l, p->verbs, p->n);
    } else if (v) {
        complete_in_verb(&l, v, line.p + 1, line.n - 1);
    }
    vec_done(&line);
}
