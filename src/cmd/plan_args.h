// SPDX-License-Identifier: Apache-2.0
//
// What `dray plan` and `dray why` have in common: files, what-if, options, the way to answer.
#ifndef CMD_PLAN_ARGS_H
#define CMD_PLAN_ARGS_H

#include "base/rand.h"
#include "base/vec.h"
#include "plan/plan.h"
#include "view/output.h"

struct word_list VEC(const char *);

struct plan_args {
    const char *verb;
    struct plan_options options;
    struct word_list files;
    bool cluster;             // one is asked: that of `common`
    struct word_list changes; // option and value, in turn
    const char *target;       // of why
    struct arena arena;
    struct view_output format; // a table: text for people
    bool recursive;
    struct rng_seeded shares;
};

// plan_args_read reads the command line. Returns VERB_OK, or VERB_USAGE after a message. End with
// plan_args_done in any case.
int plan_args_read(struct plan_args *a, int argc, char **argv);
void plan_args_done(struct plan_args *a);

// plan_args_answer reads the files, changes the world, asks and prints. Returns VERB_*.
int plan_args_answer(struct plan_args *a);

// How the options read on the verbs' help pages.
#define PLAN_OPTIONS_HELP                                                                         \
    "FILE has objects in YAML, JSON or protobuf; a directory stands for its .yaml, .yml and "     \
    ".json\n"                                                                                     \
    "files (-R: below it too); - is standard input. Needed: ResourceSlices, DeviceClasses, and\n" \
    "Pods, Deployments, Jobs, ResourceClaims and templates. Allocated claims count as in use. "   \
    "Without\n"                                                                                   \
    "Nodes, the slices say which there are.\n\n"                                                  \
    "--kubeconfig FILE, --context NAME   begin with what any cluster has (read, nothing is "      \
    "written)\n"                                                                                  \
    "--policy pack|spread|first   which node and devices, of those that fit (pack)\n"             \
    "--node NODE                  only this node\n"                                               \
    "--features A,B               more features: names, gates, or all\n"                          \
    "-o, --output FORMAT          text, or for programs: json, yaml, jsonpath='{.field}'\n\n"     \
    "What if, any number of them:\n"                                                              \
    "--drain NODE                 nothing runs there any more\n"                                  \
    "--taint DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT\n"                                         \
    "--taint driver=D,pool=P,device=X,key=K,value=V,effect=E   any of the selectors left out\n"   \
    "--without [NAMESPACE/]CLAIM  the claim and its pods are gone\n"                              \
    "--add-node like=NODE[,count=N][,name=PREFIX]\n"

#endif
