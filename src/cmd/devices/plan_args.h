// SPDX-License-Identifier: Apache-2.0
//
// What `dray plan` and `dray why` have in common: options about files and what-if changes, and the
// way to the answer.
#ifndef CMD_DEVICES_PLAN_ARGS_H
#define CMD_DEVICES_PLAN_ARGS_H

#include "api/features.h"
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
    bool offline; // the files are all there is
    bool needed;  // how many nodes more?
};

extern struct plan_args plan_args;

// Options of both verbs: files, and what-if changes.
extern const struct cli_group plan_file_group, plan_change_group;

// plan_args_format reads -o; for cli_verb.check.
int plan_args_format(struct err *err);

// plan_args_answer reads cluster and files, changes the world, asks and prints; target: what why is
// asked about, NULL for plan. Returns VERB_*.
int plan_args_answer(const char *verb, const char *target);

#endif
