// SPDX-License-Identifier: Apache-2.0
//
// Reading a command line. Words and options come in any order, -- ends the options, letters may
// stand together (-it). The line is first taken apart, then the config file is read, then values
// are set in the order of the line: values of the line win over those of the file. Relations
// between options are checked last.
#include <stdio.h>

#include "base/nearest.h"
#include "cmd/engine/cli.h"
#include "cmd/engine/config.h"

#include "base/banned.h"

// One piece of the line: an option, --NAME VALUE that the verb takes itself (name), or a word.
struct read_piece {
    const struct cli_option *o;
    struct str name;
    const char *value;
    bool behind; // --
};

// What was read. One process reads one line; tests read many.
static struct {
    const struct cli_verb *verb;
    struct VEC(struct read_piece) pieces;
    struct VEC(const struct cli_option *) set; // by the line or by the file
    struct arena arena;                        // strings of the file
} read_state;

struct read_line {
    const struct cli_verb *v;
    int argc, at, skip; // skip: where the name of the subverb is
    char **argv;
};

// --- Taking the line apart -----------------------------------------------------------------------

static bool read_is_of_kubectl(const struct cli_verb *v, struct str name)
{
    for (struct str rest = str_z(v->kubectl), one; rest.n;) {
        (void)str_cut(rest, ' ', &one, &rest);
        if (str_eq(one, name))
            return true;
    }
    return false;
}

static int read_unknown_flag(const struct cli_verb *v, struct str name, struct err *err)
{
    struct str near = cli_option_nearest(v, name);
    if (read_is_of_kubectl(v, name))
        return err_set(err, ERR_INVALID,
                       "'%.*s' is a flag of kubectl, which works with this cluster, too: 'kubectl "
                       "%s … %.*s …'",
                       STR_ARG(name), v->name, STR_ARG(name));
    return err_set(err, ERR_INVALID, "unknown flag '%.*s'%s%.*s%s", STR_ARG(name),
                   near.n ? "; did you mean '" : "", STR_ARG(near), near.n ? "'?" : "");
}

static void read_add_option(struct read_line *l, const struct cli_option *o, const char *value)
{
    if (!value && cli_option_wants_value(o) && l->at + 1 < l->argc)
        value = l->argv[++l->at];
    vec_push(&read_state.pieces, (struct read_piece){.o = o, .value = value});
    while (o->greedy && l->at + 1 < l->argc) {
        const char *next = l->argv[l->at + 1];
        if (next[0] == '-' && next[1] != '\0')
            break;
        vec_push(&read_state.pieces, (struct read_piece){.o = o, .value = next});
        l->at++;
    }
}

static int read_long_option(struct read_line *l, struct err *err)
{
    struct str name, value;
    bool joined = str_cut(str_z(l->argv[l->at]), '=', &name, &value);
    const struct cli_option *o = cli_option_find(l->v, name);
    if (o) {
        read_add_option(l, o, joined ? value.p : NULL);
        return 0;
    }
    if (!l->v->take_unknown)
        return read_unknown_flag(l->v, name, err);
    if (!joined && l->at + 1 >= l->argc)
        return err_set(err, ERR_INVALID, "%.*s needs a value", STR_ARG(name));
    vec_push(&read_state.pieces,
             (struct read_piece){.name = name, .value = joined ? value.p : l->argv[++l->at]});
    return 0;
}

// read_letters reads -A, -n VALUE, -nVALUE, -n=VALUE and -it.
static int read_letters(struct read_line *l, struct err *err)
{
    const char *word = l->argv[l->at];
    for (size_t i = 1; word[i]; i++) {
        const char letter[] = {'-', word[i], '\0'};
        const struct cli_option *o = cli_option_find(l->v, str_z(letter));
        const char *rest = &word[i + 1];
        if (!o)
            return read_unknown_flag(l->v, i == 1 ? str_z(word) : str_z(letter), err);
        if (rest[0] == '=' || (rest[0] && cli_option_has_value(o))) {
            read_add_option(l, o, rest[0] == '=' ? rest + 1 : rest);
            return 0;
        }
        read_add_option(l, o, NULL);
        if (cli_option_has_value(o))
            return 0;
    }
    return 0;
}

static bool read_is_word(const struct cli_verb *v, const char *word)
{
    return word[0] != '-' || word[1] == '\0' ||
           (v->dashed_words && word[1] != '-' && strchr(word, ' '));
}

static int read_pieces(struct read_line *l, struct err *err)
{
    bool behind = false;
    int r = 0;
    for (l->at = 1; l->at < l->argc && r == 0; l->at++) {
        const char *word = l->argv[l->at];
        if (l->at == l->skip)
            continue;
        if (!behind && strcmp(word, "--") == 0)
            behind = true;
        else if (behind || read_is_word(l->v, word))
            vec_push(&read_state.pieces, (struct read_piece){.value = word, .behind = behind});
        else
            r = word[1] == '-' ? read_long_option(l, err) : read_letters(l, err);
    }
    return r;
}

// --- Setting values ------------------------------------------------------------------------------

static const char *read_value(const struct read_piece *p)
{
    return p->value ? p->value : p->o->flag ? "true" : "";
}

// read_check_repeats refuses an option that has two different values.
static int read_check_repeats(struct err *err)
{
    for (size_t i = 0; i < read_state.pieces.n; i++) {
        const struct read_piece *a = &read_state.pieces.p[i];
        if (!a->o || a->o->many || a->o->repeats)
            continue;
        for (size_t k = 0; k < i; k++) {
            const struct read_piece *b = &read_state.pieces.p[k];
            if (b->o == a->o && strcmp(read_value(a), read_value(b)) != 0)
                return err_set(err, ERR_INVALID,
                               "%s is given twice, as '%s' and '%s': give it once", a->o->name,
                               read_value(b), read_value(a));
        }
    }
    return 0;
}

static int read_set_word(const struct cli_verb *v, const struct read_piece *p, struct err *err)
{
    struct cli_texts *to = p->behind && v->behind ? v->behind : v->words;
    if (v->take_word)
        return v->take_word(p->value, err);
    if (!to || (to == v->words && v->words_most && to->n == v->words_most))
        return err_set(err, ERR_INVALID, "unexpected argument '%s'", p->value);
    vec_push(to, p->value);
    return 0;
}

static int read_set_pieces(const struct cli_verb *v, struct err *err)
{
    int r = 0;
    for (size_t i = 0; i < read_state.pieces.n && r >= 0; i++) {
        const struct read_piece *p = &read_state.pieces.p[i];
        if (p->o) {
            r = cli_option_set(p->o, p->value, err);
            vec_push(&read_state.set, p->o);
        } else if (p->name.n) {
            r = v->take_unknown(p->name, p->value, err);
        } else {
            r = read_set_word(v, p, err);
        }
    }
    return r;
}

static bool read_on_line(void *arg, const struct cli_option *o)
{
    (void)arg;
    vec_foreach(&read_state.pieces, p)
        if (p->o == o)
            return true;
    return false;
}

static void read_from_file(void *arg, const struct cli_option *o)
{
    (void)arg;
    vec_push(&read_state.set, o);
}

static int read_config(const struct cli_verb *v, struct err *err)
{
    const struct cli_option *o = cli_option_find(v, STR("--config"));
    const struct cli_config_ops ops = {.skip = read_on_line, .set = read_from_file};
    if (!v->config)
        return 0;
    vec_foreach(&read_state.pieces, p)
        if (p->o == o && p->value)
            return cli_config_read(p->value, v, &ops, &read_state.arena, err);
    return 0;
}

// --- Relations -----------------------------------------------------------------------------------

bool cli_given(const char *name)
{
    vec_foreach(&read_state.set, o)
        if (strcmp((*o)->name, name) == 0)
            return true;
    return false;
}

const char *cli_given_in(const struct cli_group *g)
{
    vec_foreach(&read_state.set, o)
        for (size_t i = 0; i < g->n; i++)
            if (*o == &g->options[i])
                return (*o)->name;
    return NULL;
}

// read_given_of gives the first of some names that is given; empty: none.
static struct str read_given_of(const char *names)
{
    for (struct str rest = str_z(names), one; rest.n;) {
        (void)str_cut(rest, ' ', &one, &rest);
        vec_foreach(&read_state.set, o)
            if (str_eqz(one, (*o)->name))
                return one;
    }
    return (struct str){0};
}

static int read_check_relations(const struct cli_verb *v, struct err *err)
{
    const struct cli_group *g;
    vec_foreach(&read_state.set, it) {
        const struct cli_option *o = *it;
        struct str other = read_given_of(o->excludes ? o->excludes : "");
        if (other.n)
            return err_set(err, ERR_INVALID, "%s and %.*s exclude each other: give one of them",
                           o->name, STR_ARG(other));
        if (o->needs && !read_given_of(o->needs).n)
            return err_set(err, ERR_INVALID, "%s needs %s", o->name, o->needs);
    }
    for (size_t i = 0; (g = cli_group_at(v, i)); i++)
        for (size_t k = 0; k < g->n; k++) {
            const struct cli_option *o = &g->options[k];
            if (o->required && !cli_given(o->name))
                return err_set(err, ERR_INVALID, "%s %s is missing: %s", o->name,
                               o->value_name ? o->value_name : "VALUE", o->help);
        }
    if (v->words && v->words->n < v->words_least)
        return err_set(err, ERR_INVALID, "%s is missing", v->word);
    return 0;
}

// --- Subverbs ------------------------------------------------------------------------------------

const struct cli_verb *cli_subverb_find(const struct cli_verb *v, struct str name)
{
    for (size_t i = 0; v->subverbs && v->subverbs[i]; i++)
        if (str_eqz(name, v->subverbs[i]->name))
            return v->subverbs[i];
    return NULL;
}

static const struct cli_option *read_find_below(const struct cli_verb *v, struct str name)
{
    const struct cli_option *o = NULL;
    for (size_t i = 0; !o && v->subverbs[i]; i++)
        o = cli_option_find(v->subverbs[i], name);
    return o;
}

// read_subverb finds the name of the subverb: the first word that is not the value of an option. 0:
// there is none.
static int read_subverb(const struct cli_verb *v, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        struct str name, value;
        if (argv[i][0] != '-')
            return i;
        bool joined = str_cut(str_z(argv[i]), '=', &name, &value);
        const struct cli_option *o = read_find_below(v, name);
        if (o && !joined && cli_option_wants_value(o))
            i++;
    }
    return 0;
}

static int read_no_subverb(const struct cli_verb *v, const char *word, struct err *err)
{
    struct nearest near = {.word = str_z(word ? word : "")};
    cleanup_sbuf struct sbuf names = {0};
    for (size_t i = 0; v->subverbs[i]; i++) {
        if (word)
            nearest_try(&near, str_z(v->subverbs[i]->name));
        sbuf_addf(&names, "%s%s", i ? ", " : "", v->subverbs[i]->name);
    }
    if (near.best.n)
        return err_set(err, ERR_INVALID, "unknown command '%s'; did you mean '%.*s'?", word,
                       STR_ARG(near.best));
    return err_set(err, ERR_INVALID, "%s%s%s; the commands are %s",
                   word ? "unknown command '" : "a command is missing", word ? word : "",
                   word ? "'" : "", names.p);
}

// --- The whole -----------------------------------------------------------------------------------

int cli_read(const struct cli_verb *v, int argc, char **argv, const struct cli_verb **ret,
             struct err *err)
{
    struct read_line l = {.v = v, .argc = argc, .argv = argv};
    *ret = v;
    if (v->subverbs) {
        l.skip = read_subverb(v, argc, argv);
        l.v = l.skip ? cli_subverb_find(v, str_z(argv[l.skip])) : NULL;
        if (!l.v)
            return read_no_subverb(v, l.skip ? argv[l.skip] : NULL, err);
    }
    *ret = read_state.verb = l.v;
    int r = read_pieces(&l, err);
    if (r == 0)
        r = read_check_repeats(err);
    if (r == 0)
        r = read_config(l.v, err);
    if (r == 0)
        r = read_set_pieces(l.v, err);
    if (r == 0)
        r = read_check_relations(l.v, err);
    if (r == 0 && l.v->check)
        r = l.v->check(err);
    return r < 0 ? -ERR_INVALID : 0;
}

void cli_done(void)
{
    const struct cli_verb *v = read_state.verb;
    const struct cli_group *g;
    if (v && v->words)
        vec_done(v->words);
    if (v && v->behind)
        vec_done(v->behind);
    for (size_t i = 0; v && (g = cli_group_at(v, i)); i++)
        for (size_t k = 0; k < g->n; k++)
            if (g->options[k].many)
                vec_done(g->options[k].many);
    vec_done(&read_state.pieces);
    vec_done(&read_state.set);
    arena_done(&read_state.arena);
    read_state.verb = NULL;
}
