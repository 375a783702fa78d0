// SPDX-License-Identifier: Apache-2.0
//
// The cluster of `dray up`: what its files share.
#ifndef CMD_UP_UP_INT_H
#define CMD_UP_UP_INT_H

#include "cmd/up/up_agent.h"
#include "cmd/up/up_watch.h"
#include "cmd/up/up_worker.h"
#include "cmd/verb.h"
#include "ctl/ctl.h"
#include "node/sim.h"
#include "sched/sched.h"

// What the command line asks for.
struct up_request {
    const char *sim, *policy_name, *preemption_name, *controller_list;
    size_t nodes;
    int64_t job_run_time_ns; // on simulated nodes
    enum alloc_policy policy;
    enum sched_preemption preemption;
    int64_t binding_timeout_ns; // 0: the scheduler's own
    struct cli_texts apply;
    bool controllers[CTL_CONTROLLERS]; // which run
    int64_t terminated_pods;           // how many may stay
    bool agent;
    const char *agent_name, *image_dir;
};

// Lives on the worker's thread, but for host, approver and what up_start prepares.
struct up {
    struct up_request asked;
    struct profile *profiles[16];
    size_t profiles_len;
    struct server_host host;
    struct up_worker *worker;
    struct client *client; // of the controllers and of the simulated nodes
    struct client *sched_client;
    struct sched *sched;
    struct ctl *ctl;
    struct up_agent *real; // this machine as a node
    struct sim_nodes *sim_nodes;
    struct up_watch *watch; // of the pods in files that were applied
    struct arena arena;
    struct { // simulated nodes of an earlier start that are not asked for
        struct client_watch *watch;
        struct VEC(struct str) profiles;
        size_t nodes;
    } others;
    // Approves requests for certificates on the server's thread: it asks the server's authorizer.
    struct client *approver_client;
    struct ctl *approver;
    bool stopping; // on the server's thread
};

// up_take_ca takes up a CA that was replaced. On the worker's thread; arg is the struct up.
void up_take_ca(void *arg);

// up_start_components starts scheduler, controllers and simulated nodes on the worker's loop,
// before its thread runs; ready is called when the nodes are there. Returns 0 or a negative code;
// what was started is stopped by up_stop_components then, too.
int up_start_components(struct up *u, void (*ready)(void *arg, const struct err *failure),
                        struct err *err) MUST_USE;

// On the worker's thread: up_stop_components ends them, up_free_clients frees what their last calls
// need. up_stop_approver is for the server's thread.
void up_stop_components(void *up);
void up_free_clients(void *up);
void up_stop_approver(struct up *u);

// up_ask passes a question of the server to the components (server_set_components).
void up_ask(void *up, struct server_question *q);

#endif
