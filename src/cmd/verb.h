// SPDX-License-Identifier: Apache-2.0
//
// The verbs, each in a file of its name, and the program that they make.
#ifndef CMD_VERB_H
#define CMD_VERB_H

#include "cmd/engine/cli.h"

extern const struct cli_program program;

extern const struct cli_verb agent_verb, alloc_verb, apply_verb, backup_verb, bench_verb, cdi_verb,
    cel_verb, completion_verb, conformance_verb, controllers_verb, convert_verb, delete_verb,
    deny_verb, describe_verb, doctor_verb, down_verb, driver_verb, exec_verb, explain_verb,
    free_verb, get_verb, help_verb, history_verb, join_verb, kubelet_stub_verb, logs_verb,
    netns_hook_verb, plan_verb, replay_verb, request_verb, restore_verb, rotate_verb,
    sched_case_verb, scheduler_verb, server_verb, snapshot_verb, taint_verb, token_verb, top_verb,
    topo_verb, untaint_verb, up_verb, validate_verb, version_verb, wait_verb, who_verb, why_verb;

#endif
