// SPDX-License-Identifier: Apache-2.0
//
// The monitor's own parts. One thread, blocking where it may; it allocates little and frees at its
// end.
#ifndef NODE_MONITOR_MONITOR_INT_H
#define NODE_MONITOR_MONITOR_INT_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "node/monitor/monitor_plan.h"
#include "node/runtime/cgroup.h"

// --- Plan ----------------------------------------------------------------------------------------

struct monitor_bind {
    const char *host, *sub;
};

// The words are slices of `text`, NULL where the plan has none.
struct monitor_plan {
    struct sbuf text;
    const char *folder;
    const char *id, *runtime, *state, *cgroup, *hide, *lower, *users, *log;
    bool copy, shared, tty, wants_stdin, stdin_once;
    struct monitor_bind binds[MONITOR_BINDS_MAX];
    size_t binds_len;
};

// monitor_plan_read reads the file `plan` of the directory that is the working directory.
int monitor_plan_read(struct monitor_plan *p, struct err *err) MUST_USE;

// --- Time ----------------------------------------------------------------------------------------

int64_t monitor_now_ns(void); // on the wall clock

// --- Mounts --------------------------------------------------------------------------------------

// monitor_mounts gives this process a mount namespace of its own, with the container's root file
// system at rootfs and its sources at mounts/N: they go with the last process of the namespace.
int monitor_mounts(const struct monitor_plan *p, struct err *err) MUST_USE;

// monitor_hide leaves the mount namespace and hides a mount in the new one. path may be NULL.
int monitor_hide(const char *path, struct err *err) MUST_USE;

// --- User namespaces -----------------------------------------------------------------------------

// monitor_users_mount mounts a copy of the mount that a descriptor stands for, with the ids of a
// user namespace (-1: none).
int monitor_users_mount(int from, int users, const char *to, struct err *err) MUST_USE;

// --- Log -----------------------------------------------------------------------------------------

#define MONITOR_LINE_MAX 16384 // longer lines are written in parts, as the CRI has it

struct monitor_stream {
    const char *name; // stdout, stderr
    int fd;           // -1: ended
    size_t used;
    char line[MONITOR_LINE_MAX];
};

struct monitor_log {
    const char *path; // NULL: output is thrown away
    int fd;
    dev_t device;
    ino_t inode;
    // copy receives the raw bytes, for attached clients. May be NULL.
    void (*copy)(void *arg, const struct monitor_stream *s, struct str bytes);
    void *arg;
};

// monitor_log_pump reads once from a stream and writes complete lines. False: the stream ended.
bool monitor_log_pump(struct monitor_log *l, struct monitor_stream *s);
// monitor_log_flush writes the rest of a stream as a line.
void monitor_log_flush(struct monitor_log *l, struct monitor_stream *s);
void monitor_log_reopen(struct monitor_log *l);

// --- Children ------------------------------------------------------------------------------------

// monitor_spawn runs argv with the given standard descriptors (-1: /dev/null); the child dies with
// us. Returns its process id or -errno.
pid_t monitor_spawn(const char *const *argv, const int stdio[3]);

// monitor_exit_status is the exit code of a wait status, 128 + signal for a signal.
// monitor_read_pid reads the file `pid` that the runtime wrote; 0: there is none.
int monitor_exit_status(int status);
pid_t monitor_read_pid(void);

void monitor_set_nonblocking(int fd); // -1 is fine

// monitor_wait waits for one child. Returns its exit status, 128 + signal for a signal.
int monitor_wait(pid_t pid);

// monitor_console listens for the terminal that crun makes; monitor_console_take receives it. Both
// return a descriptor or -errno.
int monitor_console(const char *name);
int monitor_console_take(int listener);

// monitor_take_fd receives a packet and the descriptor that comes with it (-1: none). Returns the
// packet's length, 0 at the end, or -errno.
ssize_t monitor_take_fd(int from, char *buf, size_t cap, int *ret_fd);

// --- Requests of the caller of exec and attach ---------------------------------------------------

#define MONITOR_CONTROL 3 // its socket

struct monitor_lines {
    char text[128];
    size_t n;
};

// monitor_lines_read reads once and hands on whole lines. False: the caller is gone.
bool monitor_lines_read(struct monitor_lines *l, void (*each)(void *arg, struct str line),
                        void *arg);
void monitor_answer(const char *text);
_Noreturn void monitor_fail(const char *text); // "error TEXT", and the end

// --- Verbs ---------------------------------------------------------------------------------------

int monitor_run(const char *folder);
int monitor_exec(int argc, char **argv);
int monitor_attach(const char *folder);
int monitor_pause(void);
int monitor_users(char **argv); // FOLDER BASE LENGTH NAMES
int monitor_users_probe(const char *folder);

#endif
