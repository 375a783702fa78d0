// SPDX-License-Identifier: Apache-2.0
//
// Trees of containers, by descriptors: no name is followed out of the tree, even if files are
// renamed meanwhile. Removing them is file_remove_tree's (os/file.h).
#ifndef NODE_IMAGE_TREE_H
#define NODE_IMAGE_TREE_H

#include "base/err.h"

// tree_copy_all copies the content of one directory into another with owners, modes, times, links
// and user's and security attributes; device nodes are left out. Returns 0 or -errno.
int tree_copy_all(int from, int to, struct err *err) MUST_USE;

// tree_unmount unmounts everything that is mounted at or below a path, the last one first.
void tree_unmount(const char *path);

// tree_open_in opens a path below root, as a process whose root it is would: links cannot lead out.
// flags as for open. Returns a descriptor or -errno.
int tree_open_in(int root, const char *path, int flags);

#endif
