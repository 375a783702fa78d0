// SPDX-License-Identifier: Apache-2.0
//
// The one fault-injection hook. Code calls fault_point before each change it makes outside the
// process: a file, a process, a device, another program. A hook may let it pass, fail it, or never
// return. Without a hook a point costs one load.
#ifndef OS_FAULT_H
#define OS_FAULT_H

#include <stdbool.h>

#include "base/err.h"

struct fault_hook {
    // fn returns 0, or -errno to fail the operation that follows. It may end the process. Any
    // thread. Points that it passes itself are not asked about.
    int (*fn)(void *arg, const char *point);
    void *arg;
};

// fault_point asks the hook about the operation that follows. Returns 0 or -errno. A caller that
// cannot report a failure ignores the answer: it is then a place to crash only.
int fault_point(const char *point);

// fault_check is fault_point with the failure in err.
int fault_check(const char *point, struct err *err) MUST_USE;

// fault_armed reports whether fault_point would ask a hook: writers then split what is normally one
// write.
bool fault_armed(void);

// fault_hook_set installs a hook for the whole process; NULL removes it. The hook is borrowed.
void fault_hook_set(const struct fault_hook *hook);

// FAULT_SCOPE makes a hook (may be NULL: none) precede the process's own on this thread, until the
// end of the block. Two simulated drivers of one process have a hook each.
#define FAULT_SCOPE(hook)                                                                          \
    __attribute__((cleanup(fault_scope_end), unused)) const struct fault_hook *fault_scope_outer = \
        fault_scope_begin(hook)
const struct fault_hook *fault_scope_begin(const struct fault_hook *hook);
void fault_scope_end(const struct fault_hook **outer);

#endif
