// SPDX-License-Identifier: Apache-2.0
//
// A control plane in a box: server with its disk, schedulers, controllers and kubelets on execs of
// their own, one fake clock, one seed. What happens is drawn from the seed and nothing else.
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "api/cel_check.h"
#include "base/vec.h"
#include "ctl/ctl.h"
#include "inproc/local.h"
#include "net.h"
#include "node/sim.h"
#include "registry/registry.h"
#include "sched/sched.h"

enum part_kind { PART_SCHED, PART_CTL, PART_KUBELET };

struct part {
    const char *name;
    enum part_kind kind;
    bool used;
    struct exec_sim *exec;
    struct rng_seeded rng;
    struct client *client; // NULL: it is down
    struct sched *sched;
    struct ctl *ctl;
    struct sim_nodes *kubelet;
    int64_t back_ns; // when it comes back
};

// UIDs.
struct uid_list VEC(char *);

// A gang that was seen: what became of it.
struct seen_gang {
    char *uid;
    size_t min;                  // the least it ever needed
    bool in_calm;                // it came when faults were over
    struct uid_list pods, bound; // ever
};

#define PARTS     4
#define LOG_LINES 60

#define SIM_HIGHEST "highest" // class of priority

struct sim {
    uint64_t seed;
    struct rng_seeded rng; // what happens
    struct rng_seeded net_rng;
    struct rng_seeded server_rng;
    struct clock_fake clock;
    struct exec_sim *net_exec;
    struct exec_sim *server_exec;
    struct net net;
    struct features features;
    struct api_cel_engine *cel;
    struct store *store; // NULL: the server is down
    struct registry *registry;
    struct client *hands; // of those who do things to the cluster, beside the network
    int64_t server_back_ns;
    struct part parts[PARTS];
    bool two_schedulers;
    bool same_pods;  // two schedulers that both serve all pods
    bool groups;     // PodGroups are among what happens
    bool priorities; // pods have some, and preempt each other
    bool losses;     // and they are hit at the worst moment
    bool calm;       // faults are over, and what was on its way has arrived
    bool ctl_crashed;
    size_t next_pod;
    struct seen_gangs VEC(struct seen_gang) gangs;
    struct uid_list known; // claims that had devices and pods that had nodes when calm came
    char *log[LOG_LINES];
    size_t logged;
    uint64_t steps;
    uint64_t checked; // revision of the store that was looked at, with calm as it is
    uint64_t driven;  // same, by drivers who had nothing to do
    bool verbose;
    bool broken; // an invariant is
    struct sbuf problem;
};

// sim_open makes everything and starts it. sim_close ends it.
void sim_open(struct sim *s, uint64_t seed, bool verbose);
void sim_close(struct sim *s);

// sim_run lets a span pass, at most max steps. False: there was more to do than that.
bool sim_run(struct sim *s, int64_t ns, uint64_t max);

void sim_log(struct sim *s, const char *fmt, ...) ERR_PRINTF(2, 3);

// sim_break notes a broken invariant.
void sim_break(struct sim *s, const char *fmt, ...) ERR_PRINTF(2, 3);

void part_start(struct sim *s, struct part *p);
void part_crash(struct sim *s, struct part *p);
void server_start(struct sim *s);
void server_crash(struct sim *s);

static inline uint64_t sim_draw(struct sim *s, uint64_t below)
{
    return rng_below(&s->rng.rng, below);
}

// sim_operate does something to the cluster, or to the house; sim_furnish makes what is there at
// first.
void sim_operate(struct sim *s);
void sim_furnish(struct sim *s);

// sim_operate_calmly does something to a pod or claim; the server must be up.
void sim_operate_calmly(struct sim *s);

// sim_strike waits for a gang that is half bound, and takes a node from it or crashes its
// scheduler. sim_heal makes nodes ready that are not.
void sim_strike(struct sim *s);
void sim_heal(struct sim *s);

// sim_contend makes two gangs that want the same, and strikes.
void sim_contend(struct sim *s);

// sim_drive lets drivers make devices ready, one claim in so many, of which one in fail_in fails
// (0: none).
void sim_drive(struct sim *s, uint64_t in, uint64_t fail_in);

// sim_note remembers which claims have devices and which pods have nodes: what comes later must be
// right.
void sim_note(struct sim *s);

// sim_check looks at what the store has: what must hold at any time.
void sim_check(struct sim *s);

// sim_check_end: what must hold once everything has come to rest.
void sim_check_end(struct sim *s);

#endif
