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

bool reserve_make(const char *database)
{
    cleanup_sbuf struct sbuf path = {0};
    reserve_add_path(database, &path);
    struct stat st;
    if (stat(path.p, &st) == 0 && (uint64_t)st.st_size >= RESERVE_BYTES &&
        (uint64_t)st.st_blocks * 512 >= RESERVE_BYTES)
        return reserve_has_space(database);
    int cleanup_fd fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    int r = posix_fallocate(fd, 0, (off_t)RESERVE_BYTES);
    if (r == 0 && reserve_has_space(database))
        return true;
    (void)unlink(path.p); // a part of it would take space from what is urgent
    return false;
}

bool reserve_release(const char *database)
{
    cleanup_sbuf struct sbuf path = {0};
    reserve_add_path(database, &path);
    return unlink(path.p) == 0;
}
