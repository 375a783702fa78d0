// SPDX-License-Identifier: Apache-2.0
//
// The state directory behind an interface: small files that are read at the start and replaced as a
// whole. A reader after a crash finds the old text or the new one, never a part.
#ifndef NODE_MACHINE_DISK_H
#define NODE_MACHINE_DISK_H

#include "base/err.h"
#include "base/str.h"

#define DISK_FILE_BYTES_MAX ((size_t)256 * 1024 * 1024) // larger files are refused

struct disk {
    // read adds a file's bytes to out. Returns 0, -ENOENT, -ERR_TOO_LARGE or -errno.
    int (*read)(struct disk *d, const char *name, struct sbuf *out, struct err *err);
    // replace puts bytes into a file; when it returns 0 they survive a power cut. On failure the
    // file is as before. Returns 0, -ERR_TOO_LARGE or -errno.
    int (*replace)(struct disk *d, const char *name, struct str bytes, struct err *err);
    // copy gives the content of a file a second name, in place of what had it. Not synced: for
    // copies that are only wanted, not needed. Returns 0, -ENOENT or -errno.
    int (*copy)(struct disk *d, const char *from, const char *to, struct err *err);
};

// disk_folder is a directory of the file system, made (0755, with those above it) if it is missing.
// Temporary files of a killed process go. The caller frees it with disk_folder_free.
int disk_folder_new(const char *path, struct disk **ret, struct err *err) MUST_USE;
void disk_folder_free(struct disk *d);

#endif
