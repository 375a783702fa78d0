// SPDX-License-Identifier: Apache-2.0
#include "cmd/sim_driver.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/wait.h>

#include "base/arena.h"
#include "base/mem.h"

#include "base/banned.h"

enum { WORDS = 15, NODE_WORDS = 4 };

pid_t sim_driver_start(const struct sim_driver *d)
{
    cleanup_arena struct arena arena = {0};
    char *words[WORDS + NODE_WORDS + 1];
    const char *const all[WORDS + NODE_WORDS] = {
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
    size_t n = d->as_node ? array_len(all) : WORDS;
    for (size_t i = 0; i < n; i++)
        words[i] = xstrndup(all[i], strlen(all[i]));
    words[n] = NULL;
    posix_spawn_file_actions_t files;
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    if (posix_spawn(&pid, "/proc/self/exe", &files, NULL, words, environ) != 0) {
        pid = 0;
        (void)fprintf(stderr, "dray %s: the driver of simulated devices cannot be started\n",
                      d->verb);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    for (size_t i = 0; i < n; i++)
        free(words[i]);
    return pid;
}

void sim_driver_stop(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
}
