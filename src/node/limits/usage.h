// SPDX-License-Identifier: Apache-2.0
//
// How much a directory tree holds. Containers write these trees while they are measured: nothing is
// followed, nothing outside the tree's own mount is entered, and numbers of files and of levels are
// bounded. A tree beyond these bounds counts as larger than any limit: what cannot be measured must
// not hide.
#ifndef NODE_LIMITS_USAGE_H
#define NODE_LIMITS_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/str.h"
#include "base/vec.h"

#define USAGE_FILES_MAX UINT64_C(16000000)  // of one tree
#define USAGE_ENDLESS   (UINT64_C(1) << 50) // bytes and files; the sum of many is no overflow

struct usage {
    uint64_t bytes; // of disk blocks; a file with several names counts once
    uint64_t files; // inodes
};

// usage_add_tree adds what the tree at path holds; a missing one holds nothing. It blocks.
void usage_add_tree(const char *path, struct usage *to);

// The folder of a pod's emptyDirs.
#define USAGE_EMPTY_DIR "kubernetes.io~empty-dir"

// Deleted files that processes hold open or mapped. Zeroed but for left: nothing yet.
#define USAGE_OPEN_MAX    ((size_t)1 << 20) // descriptors and mappings to look at
#define USAGE_DELETED_MAX 4096              // files that are told apart
struct usage_inode {
    dev_t device;
    ino_t inode;
};
struct usage_deleted {
    struct usage usage;
    size_t left; // to look at
    struct VEC(struct usage_inode) known;
};

// usage_mount_counts: whether files of a mount are the pod's to pay for: of its root, of an
// emptyDir, or of a mount that mountinfo (/proc/PID/mountinfo) does not list. Host paths and claims
// are not.
bool usage_mount_counts(struct str mountinfo, uint64_t mount);

// usage_add_deleted adds those of a process; a file counts once for all processes. It blocks.
void usage_add_deleted(struct usage_deleted *d, int64_t pid);
void usage_deleted_done(struct usage_deleted *d);

static inline void usage_add(struct usage *to, struct usage more)
{
    to->bytes += more.bytes;
    to->files += more.files;
}

#endif
