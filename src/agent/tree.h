// SPDX-License-Identifier: Apache-2.0
//
// Folders and what is in them, by descriptors: no name is followed out of where it began, whoever renames
// things meanwhile, and no depth is too deep.
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

// tree_remove_at removes a file, or a folder with all that is in it. What is not there is success. Mounts in it
// are not crossed (they fail it with EXDEV). Returns 0 or -errno.
int tree_remove_at(int folder, const char *name);
int tree_remove_path(const char *path);

// tree_copy_all copies the content of one folder into another with owners, modes, times, links and user's and
// security attributes; device nodes are left out. Returns 0 or -errno.
int tree_copy_all(int from, int to, struct err *err) MUST_USE;

// tree_mkdir_at makes a directory with exactly this mode: the umask, which may be 077 here, does not reach what
// containers see. Returns 0 or -errno; an existing one keeps its mode: -EEXIST.
int tree_mkdir_at(int folder, const char *name, unsigned mode);

// tree_make makes a folder with those above it. Returns 0 or -errno.
int tree_make(const char *path, unsigned mode);

// tree_unmount unmounts everything that is mounted at or below a path, the last one first.
void tree_unmount(const char *path);

// tree_read adds a file of at most max bytes to out; links are not followed. Returns 0, -ERR_TOO_LARGE or
// -errno. tree_write_file replaces a file whole.
int tree_read(int folder, const char *name, size_t max, struct sbuf *out);
int tree_write_file(int folder, const char *name, struct str bytes);

// tree_open_in opens a path below root, as a process whose root it is would: links cannot lead out. flags as
// for open. Returns a descriptor or -errno.
int tree_open_in(int root, const char *path, int flags);

#define cleanup_fd cleanup_with(tree_close)
void tree_close(int *fd);

// tree_take gives a descriptor away: the variable becomes -1.
static inline int tree_take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#endif
