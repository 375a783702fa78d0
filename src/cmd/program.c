// SPDX-License-Identifier: Apache-2.0
//
// The table of verbs, and the verb that lists them: help.
#include <stdio.h>
#include <unistd.h>

#include "cmd/common.h"
#include "cmd/run/process.h"
#include "cmd/tools/complete_names.h"
#include "cmd/verb.h"
#include "cmd/version.h"
#include "view/term.h"

#include "base/banned.h"

static struct {
    struct cli_texts words;
    const char *page, *directory;
} args;

static int verb_help(void);

static const struct cli_option help_options[] = {
    {"--man", NULL, "VERB", "print the manual page of a verb in troff; dray: of the program",
     .text = &args.page},
    {"--man-dir", NULL, "DIR", "write all manual pages into a directory", .text = &args.directory,
     .excludes = "--man"},
};
static const struct cli_group help_group = CLI_GROUP("Options", help_options);

const struct cli_verb help_verb = {
    .name = "help",
    .summary = "list the verbs, or show the usage of one",
    .chapter = CLI_PROGRAM,
    .synopsis = "help [all]\nhelp VERB [COMMAND]\nhelp --man VERB\nhelp --man-dir DIR",
    .text = "Lists the verbs; with all, those for developers and integrators as well. With a verb, "
            "shows its usage, as "
            "'dray VERB --help' does.",
    .examples = "dray help all\ndray help why\ndray help token create\n"
                "dray help --man why | man -l -",
    .groups = {&help_group},
    .words = &args.words,
    .words_most = 1,
    .run = verb_help,
};

static const struct cli_verb *const verbs[] = {
    &agent_verb,    &alloc_verb,      &apply_verb,      &backup_verb,      &bench_verb,
    &cdi_verb,      &cel_verb,        &completion_verb, &conformance_verb, &controllers_verb,
    &convert_verb,  &delete_verb,     &deny_verb,       &describe_verb,    &doctor_verb,
    &down_verb,     &driver_verb,     &exec_verb,       &explain_verb,     &free_verb,
    &get_verb,      &help_verb,       &history_verb,    &join_verb,        &kubelet_stub_verb,
    &logs_verb,     &netns_hook_verb, &plan_verb,       &replay_verb,      &request_verb,
    &restore_verb,  &rotate_verb,     &sched_case_verb, &scheduler_verb,   &server_verb,
    &snapshot_verb, &taint_verb,      &token_verb,      &top_verb,         &topo_verb,
    &untaint_verb,  &up_verb,         &validate_verb,   &version_verb,     &wait_verb,
    &who_verb,      &why_verb,
};

const struct cli_program program = {.verbs = verbs,
                                    .n = array_len(verbs),
                                    .leading = &common_cluster,
                                    .version = DRAY_VERSION,
                                    .begin = process_begin,
                                    .names = complete_names_of};

static int help_print_page(struct sbuf *out)
{
    const struct cli_verb *v = cli_verb_find(&program, str_z(args.page));
    if (!v && strcmp(args.page, "dray") != 0)
        return cli_usage_error("help", "--man names no verb ('dray help all' lists them)");
    cli_man_verb(&program, v, out);
    return VERB_OK;
}

static int verb_help(void)
{
    cleanup_sbuf struct sbuf out = {0};
    struct err err = {0};
    if (args.directory)
        return cli_man_write(&program, args.directory, &err) < 0 ? common_fail("help", &err)
                                                                 : VERB_OK;
    size_t columns = view_term_of(STDOUT_FILENO, VIEW_AUTO).columns;
    int r = VERB_OK;
    if (args.page)
        r = help_print_page(&out);
    else
        cli_help_program(&program, args.words.n > 0, columns, &out);
    if (r == VERB_OK)
        (void)fwrite(out.p, 1, out.n, stdout);
    return r == VERB_OK && fflush(stdout) != 0 ? VERB_NO : r;
}
