// SPDX-License-Identifier: Apache-2.0
//
// dray down: ends the cluster of a data directory and removes what it has left on this machine.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "cmd/common.h"
#include "cmd/data/data_dir.h"
#include "cmd/local.h"
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

// down_find_server: the process behind the server's socket; 0: none listens there.
static pid_t down_find_server(const char *socket_path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    if (strlen(socket_path) >= sizeof(to.sun_path))
        return 0;
    memcpy(to.sun_path, socket_path, strlen(socket_path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    bool found = connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 &&
                 getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    (void)close(fd);
    return found ? peer.pid : 0;
}

static int down_stop_server(const char *socket_path, struct err *err)
{
    pid_t pid = down_find_server(socket_path);
    if (pid <= 0)
        return 0;
    // The descriptor names the process even if its number is reused.
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == ESRCH)
        return 0;
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
    char *database = data_dir_path(dir, "dray.db"), *keys = data_dir_path(dir, "pki");
    bool ours = access(database, F_OK) == 0 || access(keys, F_OK) == 0;
    free(database);
    free(keys);
    if (!ours)
        return err_set(err, ERR_INVALID,
                       "%s is not deleted: it has neither dray.db nor pki, so it is no data "
                       "directory",
                       dir);
    int r = file_remove_tree(dir, err);
    if (r == 0)
        printf("deleted %s\n", dir);
    return r;
}

static int verb_down(void)
{
    cleanup_sbuf struct sbuf dir = {0}, socket_path = {0};
    struct err err = {0};
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (args.data_dir)
        sbuf_addz(&dir, args.data_dir);
    else
        sbuf_addf(&dir, "%s/.dray", home && home[0] ? home : ".");
    local_socket(&socket_path, NULL, dir.p);
    int r = access(dir.p, F_OK) == 0 ? 0
                                     : err_set(&err, ENOENT,
                                               "there is no data directory %s; give "
                                               "another with --data-dir",
                                               dir.p);
    if (r == 0)
        r = down_stop_server(socket_path.p, &err);
    if (r == 0)
        r = down_clear_machine(dir.p, &err);
    if (r == 0 && args.purge)
        r = down_purge(dir.p, &err);
    else if (r == 0)
        printf("nothing of it runs any more; %s has the data, --purge deletes it\n", dir.p);
    return r < 0 ? common_fail("down", &err) : VERB_OK;
}
