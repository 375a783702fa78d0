// SPDX-License-Identifier: Apache-2.0
//
// The simulated driver beside an agent: a child process that is started again when it ends, and
// that the kernel kills when the thread that started it is gone.
#include "cmd/run/sim_driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <sys/wait.h>

#include "base/arena.h"
#include "base/backoff.h"
#include "base/mem.h"
#include "os/process.h"

#include "base/banned.h"

#define LOOK_NS     (200 * CLOCK_NS_PER_MS)
#define STEADY_NS   (60 * CLOCK_NS_PER_SEC) // one that ran so long is not a failing one
#define END_NS      (10 * CLOCK_NS_PER_SEC) // between the request to end and the kill
#define END_POLL_NS (10 * CLOCK_NS_PER_MS)

enum { WORDS = 18, NODE_WORDS = 4 };

struct sim_driver_keeper {
    struct exec *exec;
    struct arena arena;
    const char *verb;
    const char *words[WORDS + NODE_WORDS + 1];
    pid_t pid; // 0: it does not run
    int64_t started_ns;
    uint64_t failures; // in a row
    struct exec_timer timer;
};

static void sim_driver_start(struct sim_driver_keeper *k)
{
    const struct process p = {.argv = k->words,
                              .path = "/proc/self/exe",
                              .in = PROCESS_OURS,
                              .err = PROCESS_OURS,
                              .keep_signals = true};
    struct err why = {0};
    k->started_ns = exec_now_ns(k->exec);
    if (process_start(&p, &k->pid, &why) == 0)
        return;
    k->pid = 0;
    (void)fprintf(stderr, "dray %s: the driver of simulated devices: %s\n", k->verb, why.msg);
}

// How long to wait before the next start.
static int64_t sim_driver_ended(struct sim_driver_keeper *k, int status)
{
    static const struct backoff_policy policy = {.first_ns = CLOCK_NS_PER_SEC / 2,
                                                 .max_ns = 30 * CLOCK_NS_PER_SEC};
    if (exec_now_ns(k->exec) - k->started_ns > STEADY_NS)
        k->failures = 0;
    int64_t wait_ns = backoff_wait_ns(&policy, k->failures++);
    (void)fprintf(stderr,
                  "dray %s: the driver of simulated devices ended with %s %d; it starts again in "
                  "%.1f s\n",
                  k->verb, WIFSIGNALED(status) ? "signal" : "code",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                  (double)wait_ns / (double)CLOCK_NS_PER_SEC);
    k->pid = 0;
    return wait_ns;
}

static void sim_driver_look(void *arg)
{
    struct sim_driver_keeper *k = arg;
    int status = 0;
    int64_t next_ns = LOOK_NS;
    if (k->pid == 0)
        sim_driver_start(k);
    else if (waitpid(k->pid, &status, WNOHANG) == k->pid)
        next_ns = sim_driver_ended(k, status);
    exec_timer_start(k->exec, &k->timer, next_ns);
}

struct sim_driver_keeper *sim_driver_keep(struct exec *exec, const struct sim_driver *d)
{
    struct sim_driver_keeper *k = xcalloc(1, sizeof(*k));
    struct arena *a = &k->arena;
    const char *words[WORDS + NODE_WORDS + 1] = {
        "dray",
        "driver",
        "sim",
        "--profile",
        arena_str(a, str_z(d->profiles)).p,
        "--node",
        arena_str(a, str_z(d->node)).p,
        "--kubeconfig",
        arena_str(a, str_z(d->kubeconfig)).p,
        "--plugins",
        arena_strf(a, "%s/plugins", d->data_dir).p,
        "--registry",
        arena_strf(a, "%s/plugins_registry", d->data_dir).p,
        "--cdi",
        arena_strf(a, "%s/cdi", d->data_dir).p,
        "--parent",
        arena_strf(a, "%d", (int)getpid()).p,
        "--device-nodes",
        "--no-classes",
        "--no-shared",
        "--lease-namespace",
        ""};
    if (!d->as_node)
        words[WORDS] = NULL;
    memcpy(k->words, words, sizeof(words));
    k->exec = exec;
    k->verb = d->verb;
    k->timer = (struct exec_timer){.fn = sim_driver_look, .arg = k};
    sim_driver_look(k);
    return k;
}

// A driver that does not end must not keep its parent from ending.
static void sim_driver_end(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = END_POLL_NS};
    (void)kill(pid, SIGTERM);
    for (int64_t waited_ns = 0; waited_ns < END_NS; waited_ns += END_POLL_NS) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return;
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

void sim_driver_drop(struct sim_driver_keeper *k)
{
    if (!k)
        return;
    exec_timer_stop(k->exec, &k->timer);
    if (k->pid > 0)
        sim_driver_end(k->pid);
    arena_done(&k->arena);
    free(k);
}
