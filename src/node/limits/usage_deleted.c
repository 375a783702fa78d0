// SPDX-License-Identifier: Apache-2.0
//
// Files that a process holds open or mapped after their names are gone: they take disk space and no
// walk of a tree finds them. Looks at /proc; the process may end meanwhile.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/str.h"
#include "node/limits/usage.h"
#include "os/file.h"

#include "base/banned.h"

static bool usage_deleted_is_known(const struct usage_deleted *d, const struct stat *st)
{
    for (size_t i = 0; i < d->known.n; i++)
        if (d->known.p[i].device == st->st_dev && d->known.p[i].inode == st->st_ino)
            return true;
    return false;
}

// usage_deleted_on_disk: files in memory are the memory's matter.
static bool usage_deleted_on_disk(int folder, const char *name)
{
    struct statfs fs;
    int fd = openat(folder, name, O_PATH | O_CLOEXEC);
    bool on_disk = fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type != TMPFS_MAGIC &&
                   fs.f_type != HUGETLBFS_MAGIC;
    if (fd >= 0)
        (void)close(fd);
    return on_disk;
}

static void usage_deleted_look(struct usage_deleted *d, int folder, const char *name)
{
    struct stat st;
    d->left--;
    if (fstatat(folder, name, &st, 0) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 0 ||
        usage_deleted_is_known(d, &st) || !usage_deleted_on_disk(folder, name))
        return;
    // Beyond the bound a file counts for each descriptor.
    if (d->known.n < USAGE_DELETED_MAX)
        vec_push(&d->known, ((struct usage_inode){st.st_dev, st.st_ino}));
    d->usage.bytes += (uint64_t)st.st_blocks * 512;
    d->usage.files++;
}

void usage_add_deleted(struct usage_deleted *d, int64_t pid)
{
    static const char *const folders[] = {"fd", "map_files"};
    for (size_t i = 0; i < array_len(folders) && d->left > 0; i++) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "/proc/%lld/%s", (long long)pid, folders[i]);
        DIR *folder = opendir(path.p);
        const struct dirent *e;
        while (folder && d->left > 0 && (e = file_next_entry(folder)))
            usage_deleted_look(d, dirfd(folder), e->d_name);
        if (folder)
            (void)closedir(folder);
    }
}

void usage_deleted_done(struct usage_deleted *d)
{
    vec_done(&d->known);
}
