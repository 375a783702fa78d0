// SPDX-License-Identifier: Apache-2.0
//
// The state directory on a real file system: replaced files are durable, copies are hard links.
#include "node/machine/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

struct folder {
    struct disk disk;
    int fd;
    char *path;
};

static struct folder *disk_directory_of(struct disk *d)
{
    return container_of(d, struct folder, disk);
}

static int disk_fail(const struct folder *f, const char *doing, const char *name, int code,
                     struct err *err)
{
    return err_set(err, -code, "%s %s/%s: %s", doing, f->path, name, strerrordesc_np(-code));
}

static int disk_directory_read(struct disk *d, const char *name, struct sbuf *out, struct err *err)
{
    struct folder *f = disk_directory_of(d);
    int r = file_read_at(f->fd, name, DISK_FILE_BYTES_MAX, out);
    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_TOO_LARGE, "%s/%s is larger than %zu bytes", f->path, name,
                       DISK_FILE_BYTES_MAX);
    return r < 0 ? disk_fail(f, "cannot read", name, r, err) : 0;
}

static int disk_directory_replace(struct disk *d, const char *name, struct str bytes,
                                  struct err *err)
{
    struct folder *f = disk_directory_of(d);
    if (bytes.n > DISK_FILE_BYTES_MAX) // it could not be read again
        return err_set(err, ERR_TOO_LARGE, "%s/%s would be larger than %zu bytes", f->path, name,
                       DISK_FILE_BYTES_MAX);
    int r = file_replace_durable(f->fd, name, bytes, 0600, NULL);
    return r < 0 ? disk_fail(f, "cannot write", name, r, err) : 0;
}

static int disk_directory_copy(struct disk *d, const char *from, const char *to, struct err *err)
{
    struct folder *f = disk_directory_of(d);
    cleanup_sbuf struct sbuf temporary = {0};
    sbuf_addf(&temporary, ".%s.tmp", to);
    (void)unlinkat(f->fd, temporary.p, 0);
    fault_point("link the old file");
    if (linkat(f->fd, from, f->fd, temporary.p, 0) != 0)
        return disk_fail(f, "cannot keep a copy of", from, -errno, err);
    fault_point("rename the old file");
    if (renameat(f->fd, temporary.p, f->fd, to) != 0) {
        int code = -errno;
        (void)unlinkat(f->fd, temporary.p, 0);
        return disk_fail(f, "cannot keep a copy of", from, code, err);
    }
    // Two names of one file: rename leaves both, and the temporary one has to go.
    (void)unlinkat(f->fd, temporary.p, 0);
    return 0;
}

int disk_folder_new(const char *path, struct disk **ret, struct err *err)
{
    (void)file_make_dirs(path, 0755, NULL); // a failure shows when it is opened
    file_remove_temporaries(path, STR(""));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, errno, "cannot use the state directory %s: %s", path,
                       strerrordesc_np(errno));
    struct folder *f = xcalloc(1, sizeof(*f));
    *f = (struct folder){
        .disk = {.read = disk_directory_read,
                 .replace = disk_directory_replace,
                 .copy = disk_directory_copy},
        .fd = fd,
        .path = xstrndup(path, strlen(path)),
    };
    *ret = &f->disk;
    return 0;
}

void disk_folder_free(struct disk *d)
{
    if (!d)
        return;
    struct folder *f = disk_directory_of(d);
    (void)close(f->fd);
    free(f->path);
    free(f);
}
