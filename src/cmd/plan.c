// SPDX-License-Identifier: Apache-2.0
//
// dray plan: where would pods and claims land, what would they get, and what if?
#include "cmd/plan_args.h"
#include "cmd/verb.h"

#include "base/banned.h"

const char plan_usage[] =
    "dray plan -f FILE… [WHAT IF] [OPTIONS]     # files alone\n"
    "dray plan [WHAT IF] [OPTIONS]              # the cluster that kubectl would ask\n"
    "dray plan --kubeconfig FILE -f FILE…       # what files would do in a cluster\n\n"
    "Pods and claims are placed one after the other, in the order of the files; for what does not\n"
    "fit, the answer says why and what would help. Exit status: 0 all placed, 1 some not (or a\n"
    "file cannot be read), 2 wrong usage. --all: show what is placed already, "
    "too.\n\n" PLAN_OPTIONS_HELP "\nExamples:\n"
    "  dray plan -f examples/slices.yaml examples/claim.yaml\n"
    "  dray plan --drain gpu-node-3\n"
    "  dray plan --kubeconfig ~/.kube/config -f job.yaml --add-node like=gpu-node-3,count=2";

int verb_plan(int argc, char **argv)
{
    struct plan_args a = {.verb = "plan"};
    int r = plan_args_read(&a, argc, argv);
    if (r == VERB_OK)
        r = plan_args_answer(&a);
    plan_args_done(&a);
    return r;
}
