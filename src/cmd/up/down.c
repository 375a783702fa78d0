// SPDX-License-Identifier: Apache-2.0
//
// dray down: ends the cluster of a data directory and removes what it has left on this machine.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "cmd/common.h"
#include "cmd/data/data_dir.h"
#include "cmd/verb.h"
#include "node/teardown.h"
#include "os/file.h"

#include "base/banned.h"

#define STOP_MS 60000 // between SIGTERM and giving up

static struct {
    const char *data_dir, *runtime, *bridge, *cgroup, *monitor;
    int64_t grace_ns;
    bool purge;
} args = {.grace_ns = 10 * CLOCK_NS_PER_SEC};

static int verb_down(void);

static const struct cli_option down_options[] = {
    {"--data-dir", NULL, "DIR", "end the cluster with this data directory; default ~/.dray",
     .text = &args.data_dir},
    {"--purge", NULL, NULL, "delete the data directory as well: all objects, keys and images",
     .flag = &args.purge},
    {"--grace", NULL, "TIME", "let containers end by themselves for this time; default 10s",
     .duration_ns = &args.grace_ns, .most = 3600 * CLOCK_NS_PER_SEC},
    {"--runtime", NULL, "PROGRAM", "the --runtime of 'dray up'", .text = &args.runtime},
    {"--bridge", NULL, "NAME", "the --bridge of 'dray up'", .text = &args.bridge},
    {"--cgroup", NULL, "NAME", "the --cgroup of 'dray up'", .text = &args.cgroup},
    {"--monitor", NULL, "PROGRAM", .text = &args.monitor},
};
static const struct cli_group down_group = CLI_GROUP("Options", down_options);

const struct cli_verb down_verb = {
    .name = "down",
    .summary = "stop the cluster of 'dray up' and its containers",
    .chapter = CLI_CLUSTER,
    .everyday = true,
    .synopsis = "down [--data-dir DIR] [--purge] [OPTIONS]",
    .text = "Stops the 'dray up' that runs with this data directory, if one does. Then stops and "
            "removes the containers of its node with their mounts, network interfaces, control "
            "groups and the bridge. Objects, keys and images stay for the next 'dray up', which "
            "starts the pods again; --purge deletes them.",
    .examples = "dray down\ndray down --purge\ndray down --data-dir try --purge",
    .groups = {&down_group},
    .run = verb_down,
};

// --- The process ---------------------------------------------------------------------------------

// down_has_open: the process has the file open.
static bool down_has_open(const char *pid, const char *file)
{
    cleanup_sbuf struct sbuf dir = {0};
    sbuf_addf(&dir, "/proc/%s/fd", pid);
    DIR *d = opendir(dir.p);
    bool found = false;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this stream has one thread
    for (const struct dirent *e; d && !found && (e = readdir(d));) {
        cleanup_sbuf struct sbuf link = {0};
        char target[PATH_MAX];
        sbuf_addf(&link, "%s/%s", dir.p, e->d_name);
        ssize_t n = readlink(link.p, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, file) == 0;
    }
    if (d)
        (void)closedir(d);
    return found;
}

// down_find_server: the process that has the database open, wherever its socket is; 0: none. dir is
// absolute.
static pid_t down_find_server(const char *dir)
{
    cleanup_sbuf struct sbuf database = {0};
    int64_t pid = 0;
    sbuf_addf(&database, "%s/dray.db", dir);
    DIR *d = opendir("/proc");
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this stream has one thread
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (str_to_i64(str_z(e->d_name), &pid) == 0 && pid > 1 && pid != getpid() &&
            down_has_open(e->d_name, database.p))
            break;
        pid = 0;
    }
    if (d)
        (void)closedir(d);
    return (pid_t)pid;
}

static int down_stop_server(const char *dir, struct err *err)
{
    pid_t pid = down_find_server(dir);
    if (pid <= 0)
        return 0;
    // The descriptor names the process even if its number is reused.
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == ESRCH)
        return 0;
    if (fd >= 0 && down_find_server(dir) != pid) { // it has ended meanwhile
        (void)close(fd);
        return 0;
    }
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) < 0) {
        int code = errno;
        if (fd >= 0)
            (void)close(fd);
        return err_set(err, code, "cannot stop process %d: %s", (int)pid, strerrordesc_np(code));
    }
    struct pollfd over = {.fd = fd, .events = POLLIN};
    int r = poll(&over, 1, STOP_MS);
    (void)close(fd);
    if (r <= 0)
        return err_set(err, ERR_TIMEOUT, "process %d has not ended within %d s of SIGTERM",
                       (int)pid, STOP_MS / 1000);
    printf("stopped the cluster (process %d)\n", (int)pid);
    return 0;
}

// --- The machine ---------------------------------------------------------------------------------

static int down_clear_machine(const char *dir, struct err *err)
{
    char *agent_dir = data_dir_path(dir, "agent"), *runtime = data_dir_path(agent_dir, "runtime");
    const struct agent_options o = {.data_dir = agent_dir,
                                    .runtime = args.runtime,
                                    .monitor = args.monitor,
                                    .bridge = args.bridge,
                                    .cgroup_top = args.cgroup};
    struct node_teardown found = {0};
    int r = 0;
    if (access(runtime, F_OK) == 0)
        r = node_teardown(&o, args.grace_ns, &found, err);
    if (found.pods)
        printf("removed %zu pod%s with %zu container%s\n", found.pods, found.pods == 1 ? "" : "s",
               found.containers, found.containers == 1 ? "" : "s");
    free(runtime);
    free(agent_dir);
    return r;
}

// A directory that no server has made is not ours to delete.
static int down_purge(const char *dir, struct err *err)
{
    static const char *const own[] = {"dray.db", "pki/ca.key", "pki/sa.key"};
    for (size_t i = 0; i < array_len(own); i++) {
        char *path = data_dir_path(dir, own[i]);
        bool there = access(path, F_OK) == 0;
        free(path);
        if (!there)
            return err_set(err, ERR_INVALID,
                           "%s is not deleted: it has no %s, so it is no data directory", dir,
                           own[i]);
    }
    int r = file_remove_tree(dir, err);
    if (r == 0)
        printf("deleted %s\n", dir);
    return r;
}

static int verb_down(void)
{
    cleanup_sbuf struct sbuf given = {0};
    char dir[PATH_MAX];
    struct err err = {0};
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (args.data_dir)
        sbuf_addz(&given, args.data_dir);
    else
        sbuf_addf(&given, "%s/.dray", home && home[0] ? home : ".");
    int r = realpath(given.p, dir)
                ? 0
                : err_set(&err, ENOENT,
                          "there is no data directory %s; give another with --data-dir", given.p);
    if (r == 0)
        r = down_stop_server(dir, &err);
    if (r == 0)
        r = down_clear_machine(dir, &err);
    if (r == 0 && args.purge)
        r = down_purge(dir, &err);
    else if (r == 0)
        printf("nothing of it runs any more; %s has the data, --purge deletes it\n", dir);
    return r < 0 ? common_fail("down", &err) : VERB_OK;
}
