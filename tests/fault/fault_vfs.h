// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails on command: a SQLite VFS whose files are in memory. It knows what was synced, so
// that a crash leaves what a real one could: everything up to the last sync, and any part of what was
// written since, torn at sectors. All of it follows from a seed.
#ifndef FAULT_FAULT_VFS_H
#define FAULT_FAULT_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_kind {
    FAULT_NONE,
    FAULT_WRITE, // EIO, nothing written
    FAULT_TORN,  // EIO, a part written
    FAULT_FULL,  // no space
    FAULT_SYNC,  // fsync fails; what was written may or may not be there after a crash
    FAULT_READ,
};

// fault_vfs_new registers the VFS under a name (static text). One at a time.
void fault_vfs_new(const char *name, uint64_t seed);
void fault_vfs_free(void);

// fault_vfs_plan lets operations of the kind's sort fail: after some more of them went well, for so
// many (UINT64_MAX: until told otherwise).
void fault_vfs_plan(enum fault_kind kind, uint64_t after, uint64_t times);

// fault_vfs_crash: from now on every operation fails, until fault_vfs_restart, which leaves what a
// crash at that moment could have left. All connections must be closed in between.
void fault_vfs_crash(void);
void fault_vfs_restart(void);

// fault_vfs_flip changes one bit of a file. False: the file is shorter.
bool fault_vfs_flip(const char *file, size_t byte, unsigned bit);
size_t fault_vfs_size(const char *file);

// fault_vfs_writes counts writes and syncs so far.
uint64_t fault_vfs_writes(void);

#endif
