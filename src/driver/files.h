// SPDX-License-Identifier: Apache-2.0
//
// The few things a driver does with files, each as steps that a test can cut short: a hook is asked
// before every step and may fail it (disk full) or end the process there (a crash).
#ifndef DRIVER_FILES_H
#define DRIVER_FILES_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct files {
    // step, if set, says 0, or -errno to make the next step fail; it may not return at all.
    int (*step)(void *arg, const char *what);
    void *arg;
};

// files_append adds bytes to a file, made if it is missing (0600). sync: they are on the disk, and the
// file's name too, when it returns. Returns 0 or -errno; then a part of them may be there.
int files_append(const struct files *f, const char *path, struct str bytes, bool sync,
                 struct err *err) MUST_USE;

// files_replace makes a file (0644) of bytes: a reader sees the old one or the new one. Not synced.
int files_replace(const struct files *f, const char *path, struct str bytes,
                  struct err *err) MUST_USE;

// files_ensure is files_replace of a file that does not say just that already. (Replacing an existing file makes some
// file systems write the new one out at once.)
int files_ensure(const struct files *f, const char *path, struct str bytes,
                 struct err *err) MUST_USE;

// files_remove removes a file; that there is none is fine.
int files_remove(const struct files *f, const char *path, struct err *err) MUST_USE;

// files_make_dirs makes a folder and those above it (0755).
int files_make_dirs(const struct files *f, const char *path, struct err *err) MUST_USE;

// files_remove_tree removes a folder and what is in it, at most a few levels deep.
int files_remove_tree(const struct files *f, const char *path, struct err *err) MUST_USE;

// files_read adds a file's bytes. Returns 0, -ERR_TOO_LARGE or -errno.
int files_read(const char *path, size_t max, struct sbuf *out, struct err *err) MUST_USE;

// files_next is the next entry of a folder that the caller has opened for itself, or NULL.
const struct dirent *files_next(DIR *dir);

// files_step asks the hook alone: for steps that are not files.
int files_step(const struct files *f, const char *what, struct err *err) MUST_USE;

#endif
