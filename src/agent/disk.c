// SPDX-License-Identifier: Apache-2.0
#include "agent/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/mem.h"

#include "base/banned.h"

struct folder {
    struct disk disk;
    int fd;
    char *path;
    void (*step)(void *arg, const char *what);
    void *arg;
};

static struct folder *folder_of(struct disk *d)
{
    return container_of(d, struct folder, disk);
}

static void step(struct folder *f, const char *what)
{
    if (f->step)
        f->step(f->arg, what);
}

static int fail(const struct folder *f, const char *doing, const char *name, int code,
                struct err *err)
{
    return err_set(err, code, "%s %s/%s: %s", doing, f->path, name, strerrordesc_np(code));
}

static int read_all(int fd, struct sbuf *out)
{
    enum { CHUNK = 65536 };
    while (true) {
        ssize_t n = read(fd, sbuf_space(out, CHUNK), CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        sbuf_commit(out, (size_t)n);
        if (out->n > DISK_FILE_BYTES_MAX)
            return -ERR_TOO_LARGE;
    }
}

static int folder_read(struct disk *d, const char *name, struct sbuf *out, struct err *err)
{
    struct folder *f = folder_of(d);
    int fd = openat(f->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return fail(f, "cannot read", name, errno, err);
    int rc = read_all(fd, out);
    (void)close(fd);
    if (rc == -ERR_TOO_LARGE)
        return err_set(err, ERR_TOO_LARGE, "%s/%s is larger than %zu bytes", f->path, name,
                       DISK_FILE_BYTES_MAX);
    return rc < 0 ? fail(f, "cannot read", name, -rc, err) : 0;
}

static int write_all(int fd, struct str bytes)
{
    while (bytes.n > 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes = str_from(bytes, (size_t)n);
    }
    return 0;
}

// The temporary file, filled and on disk.
static int fill(struct folder *f, const char *temporary, struct str bytes)
{
    step(f, "create the temporary file");
    int fd = openat(f->fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    step(f, "write the temporary file");
    // In two parts, so that a crash between them is a crash in the middle.
    int rc = write_all(fd, str_upto(bytes, bytes.n / 2));
    step(f, "write the rest");
    if (rc == 0)
        rc = write_all(fd, str_from(bytes, bytes.n / 2));
    step(f, "sync the temporary file");
    if (rc == 0 && fsync(fd) != 0)
        rc = -errno;
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

static int folder_replace(struct disk *d, const char *name, struct str bytes, struct err *err)
{
    struct folder *f = folder_of(d);
    cleanup_sbuf struct sbuf temporary = {0};
    if (bytes.n > DISK_FILE_BYTES_MAX) // it could not be read again
        return err_set(err, ERR_TOO_LARGE, "%s/%s would be larger than %zu bytes", f->path, name,
                       DISK_FILE_BYTES_MAX);
    sbuf_addf(&temporary, ".%s.tmp", name);
    int rc = fill(f, temporary.p, bytes);
    step(f, "rename");
    if (rc == 0 && renameat(f->fd, temporary.p, f->fd, name) != 0)
        rc = -errno;
    if (rc < 0) {
        (void)unlinkat(f->fd, temporary.p, 0);
        return fail(f, "cannot write", name, -rc, err);
    }
    step(f, "sync the folder");
    if (fsync(f->fd) != 0)
        return fail(f, "cannot make durable", name, errno, err);
    step(f, "written");
    return 0;
}

static int folder_copy(struct disk *d, const char *from, const char *to, struct err *err)
{
    struct folder *f = folder_of(d);
    cleanup_sbuf struct sbuf temporary = {0};
    sbuf_addf(&temporary, ".%s.tmp", to);
    (void)unlinkat(f->fd, temporary.p, 0);
    step(f, "link the old file");
    if (linkat(f->fd, from, f->fd, temporary.p, 0) != 0)
        return fail(f, "cannot keep a copy of", from, errno, err);
    step(f, "rename the old file");
    if (renameat(f->fd, temporary.p, f->fd, to) != 0) {
        int code = errno;
        (void)unlinkat(f->fd, temporary.p, 0);
        return fail(f, "cannot keep a copy of", from, code, err);
    }
    // Two names of one file: rename leaves both, and the temporary one has to go.
    (void)unlinkat(f->fd, temporary.p, 0);
    return 0;
}

static void make_folders(const char *path)
{
    cleanup_free char *copy = xstrndup(path, strlen(path));
    for (char *at = copy + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        (void)mkdir(copy, 0755); // opening the last one tells whether it worked
        *at = '/';
    }
    (void)mkdir(copy, 0755);
}

int disk_folder_new(const char *path, void (*step_fn)(void *arg, const char *what), void *arg,
                    struct disk **ret, struct err *err)
{
    make_folders(path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, errno, "cannot use the state folder %s: %s", path,
                       strerrordesc_np(errno));
    struct folder *f = xcalloc(1, sizeof(*f));
    *f = (struct folder){
        .disk = {.read = folder_read, .replace = folder_replace, .copy = folder_copy},
        .fd = fd,
        .path = xstrndup(path, strlen(path)),
        .step = step_fn,
        .arg = arg,
    };
    *ret = &f->disk;
    return 0;
}

void disk_folder_free(struct disk *d)
{
    if (!d)
        return;
    struct folder *f = folder_of(d);
    (void)close(f->fd);
    free(f->path);
    free(f);
}
