// SPDX-License-Identifier: Apache-2.0
//
// Control groups of containers, version 1, 2 or both: their mounts, their processes, and whether
// the kernel killed one for memory. crun or runc makes the groups; leftovers are removed here.
#ifndef NODE_RUNTIME_CGROUP_H
#define NODE_RUNTIME_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "node/runtime/runtime.h"

#define CGROUP_MOUNTS_MAX 24

struct cgroup_mount {
    char *path;        // where it is mounted
    char *controllers; // of version 1: the mount's options; NULL: version 2
};

struct cgroup_layout {
    struct cgroup_mount mounts[CGROUP_MOUNTS_MAX];
    size_t n;
    bool unified; // only version 2
    bool hybrid;  // both
};

// cgroup_layout_read reads the machine's mounts. cgroup_layout_done frees what it found.
void cgroup_layout_read(struct cgroup_layout *ret);
void cgroup_layout_done(struct cgroup_layout *l);

// cgroup_has: a controller can be used for groups below the top one.
bool cgroup_has(const struct cgroup_layout *l, const char *controller);

// cgroup_hybrid_mount is the version 2 mount of a hybrid hierarchy, or NULL.
const char *cgroup_hybrid_mount(const struct cgroup_layout *l);

// cgroup_make makes the group at path and sets its limits, those whose controller there is. Returns
// 0 or -errno.
int cgroup_make(const struct cgroup_layout *l, const char *path,
                const struct runtime_limits *limits, struct err *err) MUST_USE;

// cgroup_memory is the working set of a group in bytes: what it uses, less what the kernel can take
// back at once. cgroup_processes is how many it has. 0: not known.
int64_t cgroup_memory(const struct cgroup_layout *l, const char *path);
int64_t cgroup_processes(const struct cgroup_layout *l, const char *path);

// cgroup_each_pid calls fn for each process in the group at path and below, until it returns false.
void cgroup_each_pid(const struct cgroup_layout *l, const char *path,
                     bool (*fn)(void *arg, int64_t pid), void *arg);

// cgroup_kill kills all processes in the group at path and below, and waits for their end, at most
// wait_ns. True: none is left.
bool cgroup_kill(const struct cgroup_layout *l, const char *path, int64_t wait_ns);

// cgroup_oom_killed: the kernel killed a process of the group for lack of memory.
bool cgroup_oom_killed(const struct cgroup_layout *l, const char *path);

// cgroup_remove removes the groups at path and below, as far as they are empty.
void cgroup_remove(const struct cgroup_layout *l, const char *path);

#define CGROUP_MARK "DRAY_EXEC=" // in the environment of commands run in a container

// cgroup_kill_marked kills those in the group whose environment has CGROUP_MARK and mark, until
// there are none, at most wait_ns. Without a group it looks at all processes.
void cgroup_kill_marked(const struct cgroup_layout *l, const char *path, const char *mark,
                        int64_t wait_ns);

#endif
