// SPDX-License-Identifier: Apache-2.0
//
// What a verb is. argv[0] is the verb's name; the rest are its arguments.
#ifndef CMD_VERB_H
#define CMD_VERB_H

#include <stddef.h>

enum {
    VERB_OK = 0,    // done
    VERB_NO = 1,    // the answer is no: invalid, not found, refused
    VERB_USAGE = 2, // the command line makes no sense
};

struct grammar;

struct verb {
    const char *name;
    int (*run)(int argc, char **argv); // one of VERB_*
    const char *help;                  // one line
    const char *usage;                 // how to call it; `dray VERB --help` prints it
    const struct grammar *grammar;     // instead of usage: tables that say the same
};

// verb_usage_error prints one line, what is wrong with the command line and maybe what was meant, and returns VERB_USAGE.
// verb_no_sense, when there is nothing better to say: a flag that is not known is named instead.
int verb_usage_error(const char *verb, const char *what);
extern const char verb_no_sense[];

// verb_table gives all verbs. verb_find: NULL when there is no such verb.
const struct verb *verb_table(size_t *ret_n);
const struct verb *verb_find(const char *name);

// The verbs, each in a file of its name.
int verb_agent(int argc, char **argv);
int verb_alloc(int argc, char **argv);
int verb_apply(int argc, char **argv);
int verb_backup(int argc, char **argv);
int verb_bench(int argc, char **argv);
int verb_cdi(int argc, char **argv);
int verb_cel(int argc, char **argv);
int verb_completion(int argc, char **argv);
int verb_conformance(int argc, char **argv);
int verb_controllers(int argc, char **argv);
int verb_convert(int argc, char **argv);
int verb_delete(int argc, char **argv);
int verb_describe(int argc, char **argv);
int verb_driver(int argc, char **argv);
int verb_exec(int argc, char **argv);
int verb_explain(int argc, char **argv);
int verb_get(int argc, char **argv);
int verb_join(int argc, char **argv);
int verb_kubelet_stub(int argc, char **argv);
int verb_logs(int argc, char **argv);
int verb_netns_hook(int argc, char **argv);
int verb_plan(int argc, char **argv);
int verb_replay(int argc, char **argv);
int verb_sched_case(int argc, char **argv);
int verb_scheduler(int argc, char **argv);
int verb_server(int argc, char **argv);
int verb_up(int argc, char **argv);
int verb_validate(int argc, char **argv);
int verb_wait(int argc, char **argv);
int verb_why(int argc, char **argv);

// Those on devices.
int verb_doctor(int argc, char **argv);
int verb_free(int argc, char **argv);
int verb_history(int argc, char **argv);
int verb_request(int argc, char **argv);
int verb_snapshot(int argc, char **argv);
int verb_taint(int argc, char **argv);
int verb_token(int argc, char **argv);
int verb_top(int argc, char **argv);
int verb_topo(int argc, char **argv);
int verb_untaint(int argc, char **argv);
int verb_who(int argc, char **argv);

// How each is called, in the same files.
extern const char sched_case_usage[];
extern const char agent_usage[], alloc_usage[], backup_usage[], bench_usage[], cdi_usage[],
    cel_usage[], conformance_usage[], controllers_usage[], convert_usage[], driver_usage[],
    explain_usage[], kubelet_stub_usage[], netns_hook_usage[], plan_usage[], replay_usage[],
    scheduler_usage[], server_usage[], up_usage[], validate_usage[];

// The same as tables.
extern const struct grammar apply_grammar, completion_grammar, delete_grammar, describe_grammar,
    exec_grammar, get_grammar, join_grammar, logs_grammar, token_grammar, wait_grammar, why_grammar;
extern const struct grammar doctor_grammar, free_grammar, history_grammar, request_grammar,
    snapshot_grammar, taint_grammar, top_grammar, topo_grammar, untaint_grammar, who_grammar;

#endif
