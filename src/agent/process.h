// SPDX-License-Identifier: Apache-2.0
//
// Programs run to their end, their output kept. It blocks: for threads that may.
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define PROCESS_OUTPUT_MAX ((size_t)64 * 1024) // kept of what a program says; the rest is dropped

struct process {
    const char *const *argv; // ends with NULL; argv[0] is a path, or looked up in PATH
    const char *const *env;  // NULL: ours
    int pass_fd;             // becomes the program's descriptor 3; 0: none
    int64_t timeout_ns;      // 0: none; a program that takes longer is killed
};

// process_run runs it with /dev/null as input and adds what it writes to both outputs to out (may be NULL).
// Returns its exit status (128 + signal when a signal ended it), -ERR_TIMEOUT, or -errno when it could not
// be started.
int process_run(const struct process *p, struct sbuf *out, struct err *err) MUST_USE;

// process_find adds the path of a program of PATH to out. False: there is none.
bool process_find(const char *name, struct sbuf *out);

#endif
