// SPDX-License-Identifier: Apache-2.0
//
// dray completion: a script that makes a shell complete verbs, flags and their values. The script
// asks the program for candidates, which come from the tables of the verbs.
#include <stdio.h>

#include "cmd/verb.h"

#include "base/banned.h"

static struct {
    struct cli_texts shells, line;
    bool candidates;
} args;

static int verb_completion(void);

static const struct cli_option completion_options[] = {
    {"--candidates", .flag = &args.candidates}, // for the scripts
};
static const struct cli_group completion_group = CLI_GROUP("Options", completion_options);

const struct cli_verb completion_verb = {
    .name = "completion",
    .summary = "print a script for shell completion",
    .chapter = CLI_PROGRAM,
    .synopsis = "completion bash|zsh|fish",
    .text = "Prints a script that makes a shell complete verbs, flags and their values.",
    .examples = "source <(dray completion bash)                # this shell; for all: ~/.bashrc\n"
                "dray completion zsh > \"${fpath[1]}/_dray\"\n"
                "dray completion fish > ~/.config/fish/completions/dray.fish",
    .groups = {&completion_group},
    .words = &args.shells,
    .words_most = 1,
    .word_choices = "bash zsh fish",
    .behind = &args.line,
    .run = verb_completion,
};

static const char bash_script[] =
    "# dray completion for bash\n"
    "_dray() {\n"
    "    local IFS=$'\\n' cur=${COMP_WORDS[COMP_CWORD]} found\n"
    "    [[ $cur == '=' ]] && cur=''\n"
    "    found=$(dray completion --candidates -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" | cut -f1)\n"
    "    if [[ -n $found ]]; then\n"
    "        COMPREPLY=($found)\n"
    "    else\n"
    "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
    "    fi\n"
    "}\n"
    "complete -F _dray dray kubectl-dray\n";

static const char zsh_script[] =
    "#compdef dray kubectl-dray\n"
    "_dray() {\n"
    "    local -a found\n"
    "    local line\n"
    "    for line in \"${(@f)$(dray completion --candidates -- \"${(@)words[2,CURRENT]}\")}\"; do\n"
    "        [[ -n $line ]] && found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
    "    done\n"
    "    if (( $#found )); then _describe dray found; else _files; fi\n"
    "}\n"
    "if [[ $funcstack[1] = _dray ]]; then _dray \"$@\"; else compdef _dray dray kubectl-dray; fi\n";

static const char fish_script[] =
    "# dray completion for fish\n"
    "function __dray_candidates\n"
    "    set -l line (commandline -opc) (commandline -ct)\n"
    "    set -l found (dray completion --candidates -- $line[2..-1])\n"
    "    if test -n \"$found\"\n"
    "        printf '%s\\n' $found\n"
    "    else\n"
    "        __fish_complete_path (commandline -ct)\n"
    "    end\n"
    "end\n"
    "complete -c dray -f -a '(__dray_candidates)'\n";

static int verb_completion(void)
{
    static const struct {
        const char *shell, *script;
    } shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    cleanup_sbuf struct sbuf out = {0};
    if (args.candidates) {
        cli_complete(&program, args.line.p, args.line.n, &out);
        if (out.n)
            (void)fwrite(out.p, 1, out.n, stdout);
        return VERB_OK;
    }
    for (size_t i = 0; args.shells.n && i < array_len(shells); i++)
        if (strcmp(args.shells.p[0], shells[i].shell) == 0)
            return fputs(shells[i].script, stdout) < 0 ? VERB_NO : VERB_OK;
    return cli_usage_error("completion", "SHELL is one of bash, zsh, fish");
}
