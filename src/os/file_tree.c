// SPDX-License-Identifier: Apache-2.0
//
// Removing trees by descriptors. Directories deeper than the recursion may go are moved to the top
// of the tree first, and found there in another pass.
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/stat.h>

#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

#define DEPTH_MAX 64 // of recursion

struct removal {
    int top; // where deep directories are moved to
    dev_t device;
    unsigned long next; // number of the next one
    int failed;
};

static void removal_take(struct removal *rm, int dir, const char *name, int depth);

static void removal_empty(struct removal *rm, int dir, int depth)
{
    DIR *d = fdopendir(dir); // takes it
    if (!d) {
        rm->failed = errno;
        (void)close(dir);
        return;
    }
    for (const struct dirent *e; (e = file_next_entry(d));)
        removal_take(rm, dirfd(d), e->d_name, depth);
    (void)closedir(d);
}

static void removal_take(struct removal *rm, int dir, const char *name, int depth)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return;
    if (errno != EISDIR && errno != EPERM) {
        rm->failed = errno;
        return;
    }
    if (depth >= DEPTH_MAX) {
        char moved[48];
        (void)snprintf(moved, sizeof(moved), ".deep-%d-%lu", (int)getpid(), rm->next++);
        if (renameat(dir, name, rm->top, moved) == 0)
            return; // found there later
    }
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_dev != rm->device) {
        rm->failed = fd < 0 ? errno : EXDEV;
        fd_close(&fd);
        return;
    }
    removal_empty(rm, fd, depth + 1);
    if (unlinkat(dir, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        rm->failed = errno;
}

// One pass over a directory. Returns 0 (it is gone), 1 (directories were moved up: once more) or
// -errno.
static int removal_pass(int dir, const char *name, const dev_t *device, unsigned long *moved)
{
    struct stat st;
    struct removal rm = {.next = *moved};
    cleanup_fd int top = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(top, &st) != 0 || (device && st.st_dev != *device))
        return -EXDEV;
    rm.top = top;
    rm.device = st.st_dev;
    int content = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (content >= 0)
        removal_empty(&rm, content, 0);
    else
        rm.failed = errno;
    int r = fault_point("directory: remove");
    if (r < 0)
        return r;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (rm.failed || rm.next == *moved) // nothing was moved up, so nothing will change
        return rm.failed ? -rm.failed : -errno;
    *moved = rm.next;
    return 1;
}

int file_remove_tree_at(int dir, const char *name)
{
    int r = fault_point("tree: remove");
    if (r < 0)
        return r;
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    struct stat st;
    bool below = dir != AT_FDCWD && fstat(dir, &st) == 0;
    dev_t device = below ? st.st_dev : 0;
    unsigned long moved = 0;
    do
        r = removal_pass(dir, name, below ? &device : NULL, &moved);
    while (r > 0);
    return r;
}

int file_remove_tree(const char *path, struct err *err)
{
    int r = file_remove_tree_at(AT_FDCWD, path);
    return r == 0 ? 0 : err_set(err, -r, "cannot remove %s: %s", path, strerrordesc_np(-r));
}
