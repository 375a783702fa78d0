// SPDX-License-Identifier: Apache-2.0
//
// Whole files: read with a bound, replace, append, remove; directories. The names of the functions
// that write state what they promise; README.md lists which data needs which promise. Everything
// blocks for as long as the disk does.
//
// dir is a directory's descriptor, or AT_FDCWD; name may have slashes. Functions with an err (may
// be NULL) set it when they fail.
#ifndef OS_FILE_H
#define OS_FILE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

// --- Reading -------------------------------------------------------------------------------------

// file_read adds a file's bytes to out. Links are followed. Returns 0, -ERR_TOO_LARGE (more than
// max bytes) or -errno; then out may have a part of them.
int file_read(const char *path, size_t max, struct sbuf *out, struct err *err) MUST_USE;

// file_read_at is file_read of a file that must not be a symbolic link. For files that others may
// exchange.
int file_read_at(int dir, const char *name, size_t max, struct sbuf *out) MUST_USE;

// file_read_fd reads to the end of an open file.
int file_read_fd(int fd, size_t max, struct sbuf *out) MUST_USE;

// --- Writing -------------------------------------------------------------------------------------

// file_replace_durable replaces or makes a file. A reader, and a machine that loses power at any
// moment, has the old content or the new; when it returns 0, the new content survives. On failure
// the content is the old (or, if only the directory could not be synced, the new), and no temporary
// file remains. A process that dies leaves one: see file_remove_temporaries. Writers of one file
// may be several.
int file_replace_durable(int dir, const char *name, struct str bytes, mode_t mode,
                         struct err *err) MUST_USE;

// file_replace_atomic is the same without syncing: a process that dies leaves the old content or
// the new, a machine that dies may leave an empty file.
int file_replace_atomic(int dir, const char *name, struct str bytes, mode_t mode,
                        struct err *err) MUST_USE;

// file_ensure_atomic replaces a file whose content differs. (Some file systems write a replaced
// file out at once, which takes as long as a sync.)
int file_ensure_atomic(int dir, const char *name, struct str bytes, mode_t mode,
                       struct err *err) MUST_USE;

// file_copy_durable is file_replace_durable with the bytes that are left in an open file.
int file_copy_durable(int from, int dir, const char *name, mode_t mode, struct err *err) MUST_USE;

// file_append adds bytes to a file, made if it is missing (0600). On failure a part of them may be
// there. file_append_durable: they, and the file's name, survive a loss of power when it returns 0.
int file_append(const char *path, struct str bytes, struct err *err) MUST_USE;
int file_append_durable(const char *path, struct str bytes, struct err *err) MUST_USE;

// file_copy_fd copies the rest of one open file to another. Returns 0 or -errno.
int file_copy_fd(int from, int to) MUST_USE;

// --- Removing ------------------------------------------------------------------------------------

// file_remove removes a file; a missing one is success.
int file_remove(const char *path, struct err *err) MUST_USE;

// file_remove_tree_at removes a file, or a directory with everything in it; a missing one is
// success. No name is followed out of it, whatever is renamed meanwhile; no depth is too deep;
// mounts are not crossed (-EXDEV). Returns 0 or -errno.
int file_remove_tree_at(int dir, const char *name);
int file_remove_tree(const char *path, struct err *err);

// file_remove_temporaries removes what killed processes left in a directory when they replaced
// files whose names begin with prefix. For the owner of these files, when it starts. A missing
// directory is fine.
void file_remove_temporaries(const char *dir, struct str prefix);

// --- Following -----------------------------------------------------------------------------------

// What changes when a file is replaced or written; all zero: it cannot be seen.
struct file_stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    int64_t changed_ns;
};

struct file_stamp file_take_stamp(const char *path);
bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b);

// --- Directories and descriptors -----------------------------------------------------------------

// file_make_dir_at makes a directory with exactly this mode: the umask, which may be 077 here, does
// not reach what containers see. Returns 0 or -errno; an existing one keeps its mode: -EEXIST.
int file_make_dir_at(int dir, const char *name, mode_t mode);

// file_make_dirs makes a directory and those above it, with this mode.
int file_make_dirs(const char *path, mode_t mode, struct err *err);

// file_next_entry is the next entry of a directory that the caller opened for itself, without "."
// and ".."; NULL at the end.
const struct dirent *file_next_entry(DIR *dir);

#define cleanup_fd cleanup_with(fd_close)
void fd_close(int *fd);

// fd_take gives a descriptor away: the variable becomes -1.
static inline int fd_take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#endif
