// SPDX-License-Identifier: Apache-2.0
//
// What `dray plan` and `dray why` have in common: options about files and what-if changes, and the way to the answer.
#ifndef CMD_PLAN_ARGS_H
#define CMD_PLAN_ARGS_H

#include "cmd/engine/cli.h"
#include "plan/plan.h"
#include "view/output.h"

struct plan_change {
    const struct cli_option *o;
    const char *value;
};

// What the options below set.
struct plan_args {
    const char *verb;
    struct plan_options options;
    struct view_output format; // a table: text for people
    struct cli_texts files;
    struct VEC(struct plan_change) changes; // in the order of the command line
    const char *node, *policy, *features;
    bool recursive;
};

extern struct plan_args plan_args;

int plan_args_change(const struct cli_option *o, const char *value, struct err *err);

// Options of both verbs; needs_: the option without which they are invalid, or NULL.
#define PLAN_FILE_OPTIONS(needs_)                                                                   \
    {"--filename",                                                                                  \
     "-f",                                                                                          \
     "FILE…",                                                                                       \
     "read objects in YAML, JSON or protobuf from files, directories (.yaml, .yml, .json) or - "    \
     "for standard input",                                                                          \
     .many = &plan_args.files,                                                                      \
     .greedy = true},                                                                               \
        {"--recursive",                                                                             \
         "-R",                                                                                      \
         NULL,                                                                                      \
         "read directories recursively",                                                            \
         .flag = &plan_args.recursive,                                                              \
         .needs = "--filename"},                                                                    \
        {"--policy",                                                                                \
         NULL,                                                                                      \
         "POLICY",                                                                                  \
         "choose nodes and devices by this policy; default pack",                                   \
         .text = &plan_args.policy,                                                                 \
         .choices = "pack spread first",                                                            \
         .needs = (needs_)},                                                                        \
        {"--node", NULL, "NODE", "use this node only", .text = &plan_args.node, .needs = (needs_)}, \
    {                                                                                               \
        "--features", NULL, "A,B", "enable more features: names, gates, or all",                    \
            .text = &plan_args.features, .needs = (needs_)                                          \
    }

#define PLAN_CHANGE_OPTIONS(needs_)                                                                \
    {"--drain",        NULL, "NODE", "drain a node", .take = plan_args_change, .repeats = true,    \
     .needs = (needs_)},                                                                           \
        {"--taint",                                                                                \
         NULL,                                                                                     \
         "DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT",                                              \
         "taint devices; or driver=D,pool=P,device=X,key=K,value=V,effect=E with any of the "      \
         "selectors left out",                                                                     \
         .take = plan_args_change,                                                                 \
         .repeats = true,                                                                          \
         .needs = (needs_)},                                                                       \
        {"--without",                                                                              \
         NULL,                                                                                     \
         "[NAMESPACE/]CLAIM",                                                                      \
         "remove a claim and its pods",                                                            \
         .take = plan_args_change,                                                                 \
         .repeats = true,                                                                          \
         .needs = (needs_)},                                                                       \
    {                                                                                              \
        "--add-node", NULL, "like=NODE[,count=N][,name=PREFIX]", "add nodes like an existing one", \
            .take = plan_args_change, .repeats = true, .needs = (needs_)                           \
    }

// plan_args_format reads -o; for cli_verb.check.
int plan_args_format(struct err *err);

// plan_args_answer reads cluster and files, changes the world, asks and prints; target: what why is asked about, NULL
// for plan. Returns VERB_*.
int plan_args_answer(const char *verb, const char *target);

#endif
