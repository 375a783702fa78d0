// SPDX-License-Identifier: Apache-2.0
//
// The simulated driver of `dray up`: a child process that ends with its parent.
#include "cmd/run/sim_driver.h"

#include <signal.h>
#include <stdio.h>

#include <sys/wait.h>

#include "base/arena.h"
#include "os/process.h"

#include "base/banned.h"

enum { WORDS = 15, NODE_WORDS = 4 };

pid_t sim_driver_start(const struct sim_driver *d)
{
    cleanup_arena struct arena arena = {0};
    const char *words[WORDS + NODE_WORDS + 1] = {
        "dray",
        "driver",
        "sim",
        "--profile",
        d->profiles,
        "--node",
        d->node,
        "--kubeconfig",
        d->kubeconfig,
        "--plugins",
        arena_strf(&arena, "%s/plugins", d->data_dir).p,
        "--registry",
        arena_strf(&arena, "%s/plugins_registry", d->data_dir).p,
        "--cdi",
        arena_strf(&arena, "%s/cdi", d->data_dir).p,
        "--no-classes",
        "--no-shared",
        "--lease-namespace",
        ""};
    if (!d->as_node)
        words[WORDS] = NULL;
    const struct process p = {.argv = words,
                              .path = "/proc/self/exe",
                              .in = PROCESS_OURS,
                              .err = PROCESS_OURS,
                              .keep_signals = true};
    struct err why = {0};
    pid_t pid = 0;
    if (process_start(&p, &pid, &why) == 0)
        return pid;
    (void)fprintf(stderr, "dray %s: the driver of simulated devices: %s\n", d->verb, why.msg);
    return 0;
}

void sim_driver_stop(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
}
