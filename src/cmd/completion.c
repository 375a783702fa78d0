// SPDX-License-Identifier: Apache-2.0
//
// dray completion: what makes a shell complete verbs, flags and their values, made from the same tables that read
// them.
#include <stdio.h>

#include "api/api.h"
#include "cmd/grammar.h"
#include "cmd/verb.h"

#include "base/banned.h"

static struct option_texts words;

const struct grammar completion_grammar = {
    .synopsis = "completion bash|zsh|fish",
    .text = "Writes a script for a shell to standard output.",
    .examples = "source <(dray completion bash)                # this shell; put it into ~/.bashrc "
                "for all\n"
                "dray completion zsh > \"${fpath[1]}/_dray\"\n"
                "dray completion fish > ~/.config/fish/completions/dray.fish",
    .words = &words,
};

// takes_kinds: verbs whose first word is a kind.
static bool takes_kinds(const char *verb)
{
    static const char *const names[] = {"get", "describe", "delete", "wait", "explain"};
    for (size_t i = 0; i < array_len(names); i++)
        if (strcmp(names[i], verb) == 0)
            return true;
    return false;
}

// offered says whether a kind before this one has the same plural: kinds have several versions.
static bool offered(size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (str_eq(api_kinds[i].plural, api_kinds[at].plural))
            return true;
    return false;
}

static void add_kinds(struct sbuf *out)
{
    for (size_t i = 0; i < api_kinds_len; i++)
        if (api_kinds[i].plural.n && api_kinds[i].list && !offered(i))
            sbuf_addf(out, "%.*s ", STR_ARG(api_kinds[i].plural));
}

// add_help adds the help of a flag without quotes, up to its first line break.
static void add_help(struct sbuf *out, const char *help)
{
    for (const char *p = help ? help : ""; *p && *p != '\n'; p++)
        if (!strchr("'\"[]:`$\\", *p))
            sbuf_addc(out, *p);
}

// --- bash ----------------------------------------------------------------------------------------

static void bash_flag(void *arg, const struct verb_flag *f)
{
    sbuf_addf(arg, "%.*s ", STR_ARG(f->name));
}

static void bash_choices(void *arg, const struct verb_flag *f)
{
    if (!f->choices)
        return;
    sbuf_addf(arg, "        %.*s%s%.*s) choices='%s' ;;\n", STR_ARG(f->name),
              f->letter.n ? "|" : "", STR_ARG(f->letter), f->choices);
}

static void bash(struct sbuf *out)
{
    size_t n = 0;
    const struct verb *verbs = verb_table(&n);
    sbuf_addz(out, "# dray completion for bash\n"
                   "_dray() {\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                   "    local verb=${COMP_WORDS[1]} flags='' words='' choices=''\n"
                   "    [[ $prev == '=' ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                   "    [[ $cur == '=' ]] && prev=${COMP_WORDS[COMP_CWORD-1]} cur=''\n"
                   "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
                   "        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < n; i++)
        sbuf_addf(out, "%s ", verbs[i].name);
    sbuf_addz(out, "' -- \"$cur\"))\n        return\n    fi\n    case $verb in\n");
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(out, "    %s)\n        flags='", verbs[i].name);
        verb_flags(&verbs[i], bash_flag, out);
        sbuf_addz(out, "--help'\n");
        if (takes_kinds(verbs[i].name)) {
            sbuf_addz(out, "        words='");
            add_kinds(out);
            sbuf_addz(out, "'\n");
        }
        sbuf_addz(out, "        case $prev in\n");
        verb_flags(&verbs[i], bash_choices, out);
        sbuf_addz(out, "        esac ;;\n");
    }
    sbuf_addz(out, "    esac\n"
                   "    if [[ -n $choices ]]; then\n"
                   "        COMPREPLY=($(compgen -W \"$choices\" -- \"$cur\"))\n"
                   "    elif [[ $cur == -* ]]; then\n"
                   "        COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
                   "    elif [[ -n $words && $COMP_CWORD -eq 2 ]]; then\n"
                   "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                   "    else\n"
                   "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
                   "    fi\n"
                   "}\n"
                   "complete -F _dray dray kubectl-dray\n");
}

// --- zsh -----------------------------------------------------------------------------------------

static void zsh_spec(struct sbuf *out, struct str name, const struct verb_flag *f)
{
    sbuf_addf(out, "            '%.*s[", STR_ARG(name));
    add_help(out, f->help);
    sbuf_addz(out, "]");
    if (f->choices)
        sbuf_addf(out, ":value:(%s)", f->choices);
    else if (f->value)
        sbuf_addz(out, ":value:_files");
    sbuf_addz(out, "' \\\n");
}

static void zsh_flag(void *arg, const struct verb_flag *f)
{
    zsh_spec(arg, f->name, f);
    if (f->letter.n)
        zsh_spec(arg, f->letter, f);
}

static void zsh(struct sbuf *out)
{
    size_t n = 0;
    const struct verb *verbs = verb_table(&n);
    sbuf_addz(out, "#compdef dray kubectl-dray\n"
                   "_dray() {\n"
                   "    local -a verbs\n    verbs=(\n");
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(out, "        '%s:", verbs[i].name);
        add_help(out, verbs[i].help);
        sbuf_addz(out, "'\n");
    }
    sbuf_addz(
        out,
        "    )\n"
        "    if (( CURRENT == 2 )); then\n        _describe verb verbs\n        return\n    fi\n"
        "    local verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
        "    case $verb in\n");
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(out, "        %s)\n            _arguments \\\n", verbs[i].name);
        verb_flags(&verbs[i], zsh_flag, out);
        if (takes_kinds(verbs[i].name)) {
            sbuf_addz(out, "            '1:kind:(");
            add_kinds(out);
            sbuf_addz(out, ")' \\\n");
        }
        sbuf_addz(out, "            '*:file:_files' ;;\n");
    }
    sbuf_addz(out, "    esac\n}\nif [[ $funcstack[1] = _dray ]]; then _dray \"$@\"; else compdef "
                   "_dray dray kubectl-dray; fi\n");
}

// --- fish ----------------------------------------------------------------------------------------

struct fish {
    struct sbuf *out;
    const char *verb;
};

static void fish_flag(void *arg, const struct verb_flag *f)
{
    const struct fish *fish = arg;
    struct str name = str_from(f->name, 2);
    if (f->name.n <= 2)
        return;
    sbuf_addf(fish->out, "complete -c dray -n '__fish_seen_subcommand_from %s' -l %.*s", fish->verb,
              STR_ARG(name));
    if (f->letter.n)
        sbuf_addf(fish->out, " -s %.*s", STR_ARG(str_from(f->letter, 1)));
    if (f->choices)
        sbuf_addf(fish->out, " -x -a '%s'", f->choices);
    else if (f->value)
        sbuf_addz(fish->out, " -r");
    sbuf_addz(fish->out, " -d '");
    add_help(fish->out, f->help);
    sbuf_addz(fish->out, "'\n");
}

static void fish(struct sbuf *out)
{
    size_t n = 0;
    const struct verb *verbs = verb_table(&n);
    sbuf_addz(out, "# dray completion for fish\n");
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(out, "complete -c dray -n __fish_use_subcommand -x -a %s -d '", verbs[i].name);
        add_help(out, verbs[i].help);
        sbuf_addz(out, "'\n");
        struct fish f = {out, verbs[i].name};
        verb_flags(&verbs[i], fish_flag, &f);
        if (!takes_kinds(verbs[i].name))
            continue;
        sbuf_addf(out, "complete -c dray -n '__fish_seen_subcommand_from %s' -a '", verbs[i].name);
        add_kinds(out);
        sbuf_addz(out, "'\n");
    }
}

int verb_completion(int argc, char **argv)
{
    static const struct {
        const char *shell;
        void (*write)(struct sbuf *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    cleanup_sbuf struct sbuf out = {0};
    int r = grammar_read("completion", &completion_grammar, argc, argv);
    for (size_t i = 0; r == VERB_OK && words.n == 1 && i < array_len(shells); i++)
        if (strcmp(words.p[0], shells[i].shell) == 0)
            shells[i].write(&out);
    vec_done(&words);
    if (r != VERB_OK)
        return r;
    if (!out.n)
        return verb_usage_error("completion", "for bash, zsh or fish");
    (void)fwrite(out.p, 1, out.n, stdout);
    return VERB_OK;
}
