// SPDX-License-Identifier: Apache-2.0
//
// Programs: started, or run to their end with a time limit and their output kept. process_run
// blocks and is for threads that may; process_start does not. A program whose pipes belong to an
// event loop is started with libuv by its owner (node/runtime/crun_exec.c).
#ifndef OS_PROCESS_H
#define OS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

#define PROCESS_OUTPUT_MAX ((size_t)64 * 1024) // kept of a program's output unless stated otherwise

// What a program has as descriptor 0, 1 or 2: one of these, or an open descriptor (> 0).
enum {
    PROCESS_NULL = 0,    // /dev/null
    PROCESS_OURS = -1,   // the caller's
    PROCESS_OUTPUT = -2, // of stderr: where stdout goes
};

struct process {
    const char *const *argv; // ends with NULL; argv[0] is a path, or looked up in PATH
    const char *path;        // of the program; NULL: argv[0]
    const char *const *env;  // NULL: ours
    int in, out, err;        // process_run: out is a pipe, whatever this is
    int pass_fd;             // becomes the program's descriptor 3; 0: none
    bool new_session;
    bool keep_signals; // a part of this program: what we ignore or block, it does

    // Of process_run:
    int64_t timeout_ns; // 0: none; a program that takes longer is killed
    size_t output_max;  // 0: PROCESS_OUTPUT_MAX; more is dropped
    bool output_whole;  // more is a failure, and the program is killed
};

// process_start starts a program; the caller waits for it. Returns 0 or -errno.
int process_start(const struct process *p, pid_t *ret, struct err *err) MUST_USE;

// process_run runs a program and adds its output to out (may be NULL). It returns when the program
// and all that hold its output have closed it: the exit status (128 + signal when a signal ended
// it), -ERR_TIMEOUT,
// -ERR_TOO_LARGE, or -errno when it could not be started.
int process_run(const struct process *p, struct sbuf *out, struct err *err) MUST_USE;

// process_find adds the path of a program of PATH to out. False: there is none.
bool process_find(const char *name, struct sbuf *out);

#endif
