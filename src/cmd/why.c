// SPDX-License-Identifier: Apache-2.0
//
// dray why: why does a pod or claim not fit, and what would help?
#include "cmd/plan_args.h"
#include "cmd/verb.h"

#include "base/banned.h"

const char why_usage[] =
    "dray why [pod/|claim/][NAMESPACE/]NAME -f FILE... [--alone] [--policy P] [--node NODE]\n"
    "         [--features A,B] [-R] [-o json] [WHAT IF]\n\n"
    "What is before it in the files is placed first, as dray plan does; --alone: only what is\n"
    "allocated already counts. Exit status: 0 it fits or runs, 1 it does not, 2 wrong "
    "usage.\n\n" PLAN_OPTIONS_HELP;

int verb_why(int argc, char **argv)
{
    struct plan_args a = {.verb = "why"};
    int r = plan_args_read(&a, argc, argv);
    if (r == VERB_OK && !a.target)
        r = verb_usage_error("why", "which pod or claim?");
    if (r == VERB_OK)
        r = plan_args_answer(&a);
    plan_args_done(&a);
    return r;
}
