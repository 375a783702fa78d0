// SPDX-License-Identifier: Apache-2.0
//
// The file has its blocks, not only its length: a file with holes would keep nothing.
#include "store/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/str.h"
#include "os/file.h"

#include "base/banned.h"

// Below this much free space no object may grow: the rest is for writes that were accepted already.
#define RESERVE_LEAST_FREE ((uint64_t)4 * 1024 * 1024)

#define RESERVE_LEAST ((size_t)64 * 1024) // a log with a few pages

static void reserve_add_path(const char *database, struct sbuf *out)
{
    sbuf_addf(out, "%s.reserve", database);
}

bool reserve_has_space(const char *database)
{
    struct statvfs fs;
    // What cannot be asked is not full.
    return statvfs(database, &fs) < 0 ||
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize >= RESERVE_LEAST_FREE;
}

static bool reserve_allocate(const char *path, size_t bytes)
{
    int cleanup_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0;
}

bool reserve_make(const char *database)
{
    cleanup_sbuf struct sbuf path = {0};
    reserve_add_path(database, &path);
    struct stat st;
    if (stat(path.p, &st) == 0 && (uint64_t)st.st_size >= RESERVE_BYTES &&
        (uint64_t)st.st_blocks * 512 >= RESERVE_BYTES)
        return reserve_has_space(database);
    if (reserve_allocate(path.p, RESERVE_BYTES) && reserve_has_space(database))
        return true;
    (void)unlink(path.p); // a part of it would take space from what is urgent
    return false;
}

void reserve_make_some(const char *database)
{
    cleanup_sbuf struct sbuf path = {0};
    reserve_add_path(database, &path);
    for (size_t bytes = RESERVE_BYTES; bytes >= RESERVE_LEAST; bytes /= 4) {
        if (reserve_allocate(path.p, bytes))
            return;
        (void)unlink(path.p);
    }
}

bool reserve_release(const char *database)
{
    cleanup_sbuf struct sbuf path = {0};
    reserve_add_path(database, &path);
    return unlink(path.p) == 0;
}
