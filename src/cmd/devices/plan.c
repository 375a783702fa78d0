// SPDX-License-Identifier: Apache-2.0
//
// dray plan: where would pods and claims land, what would they get, and what if?
#include "cmd/common.h"
#include "cmd/devices/plan_args.h"
#include "cmd/verb.h"

#include "base/banned.h"

static int verb_plan(void);

static const struct cli_option plan_options[] = {
    {"--all", NULL, NULL, "show pods and claims that are placed already as well",
     .flag = &plan_args.options.show_running},
    {"--needed", NULL, NULL,
     "find the smallest number of nodes of the kinds that --add-node names with which all fits",
     .flag = &plan_args.needed, .needs = "--add-node"},
    {"--output", "-o", "FORMAT", "print text, json, yaml or jsonpath='{.field}'",
     .text = &common.output, .suggest = "text json yaml jsonpath="},
};
static const struct cli_group plan_group = CLI_GROUP("Options", plan_options);

const struct cli_verb plan_verb = {
    .name = "plan",
    .summary = "predict where pods and claims land",
    .chapter = CLI_PLANNING,
    .everyday = true,
    .synopsis = "plan -f FILE… [WHAT IF] [OPTIONS]\nplan [WHAT IF] [OPTIONS]\n"
                "plan --offline -f FILE… [WHAT IF] [OPTIONS]",
    .text = "Runs the scheduler and the controllers on a copy of the cluster in memory. Pods and "
            "claims are placed in order of priority, then of the files; what does not fit is "
            "explained, with what would help. The cluster is the one that other verbs ask, "
            "changed by the files; --offline uses the files alone. Nothing is written to a "
            "cluster.\n\n"
            "Files need ResourceSlices, DeviceClasses, and Pods, Deployments, Jobs, ResourceClaims "
            "or templates. Allocated "
            "claims count as in use. Without Nodes, the slices name the nodes.\n\n"
            "Exit status: 0 all placed, 1 some not placed or something cannot be read, 2 wrong "
            "usage.",
    .examples = "dray plan --offline -f examples/slices.yaml examples/claim.yaml\n"
                "dray plan --drain gpu-node-3\n"
                "dray plan -f job.yaml --add-node like=gpu-node-3,count=2\n"
                "dray plan -f job.yaml --needed --add-node profile=nvidia-h100",
    .groups = {&plan_group, &plan_file_group, &plan_change_group, &common_cluster},
    .check = plan_args_format,
    .run = verb_plan,
};

static int verb_plan(void)
{
    return plan_args_answer("plan", NULL);
}
