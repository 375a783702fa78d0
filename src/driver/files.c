// SPDX-License-Identifier: Apache-2.0
#include "driver/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/banned.h"

enum { TREE_DEPTH_MAX = 8 };

int files_step(const struct files *f, const char *what, struct err *err)
{
    int rc = f && f->step ? f->step(f->arg, what) : 0;
    return rc == 0 ? 0 : err_set(err, -rc, "%s: %s", what, strerrordesc_np(-rc));
}

static int failed(const char *what, const char *path, struct err *err)
{
    return err_set(err, errno, "cannot %s %s: %s", what, path, strerrordesc_np(errno));
}

static int write_all(int fd, const char *path, struct str bytes, struct err *err)
{
    while (bytes.n > 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed("write", path, err);
        bytes = str_from(bytes, (size_t)n);
    }
    return 0;
}

// With a hook the bytes go out in two halves, so that a test sees what a torn write leaves behind.
static int put(const struct files *f, int fd, const char *path, struct str bytes, struct err *err)
{
    int rc = files_step(f, "write", err);
    if (rc != 0)
        return rc;
    if (!f || !f->step)
        return write_all(fd, path, bytes, err);
    rc = write_all(fd, path, str_upto(bytes, bytes.n / 2), err);
    if (rc == 0)
        rc = files_step(f, "write the rest", err);
    return rc == 0 ? write_all(fd, path, str_from(bytes, bytes.n / 2), err) : rc;
}

static int sync_parent(const struct files *f, const char *path, struct err *err)
{
    int rc = files_step(f, "sync the folder", err);
    if (rc != 0)
        return rc;
    const char *slash = strrchr(path, '/');
    cleanup_free char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : xstrndup(".", 1);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed("open", dir, err);
    rc = fsync(fd) == 0 ? 0 : failed("sync", dir, err);
    (void)close(fd);
    return rc;
}

int files_append(const struct files *f, const char *path, struct str bytes, bool sync,
                 struct err *err)
{
    int rc = files_step(f, "open for appending", err);
    if (rc != 0)
        return rc;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed("open", path, err);
    rc = put(f, fd, path, bytes, err);
    if (rc == 0 && sync) {
        rc = files_step(f, "sync", err);
        if (rc == 0 && fdatasync(fd) != 0)
            rc = failed("sync", path, err);
    }
    if (close(fd) != 0 && rc == 0)
        rc = failed("close", path, err);
    return rc == 0 && sync ? sync_parent(f, path, err) : rc;
}

// The name neither ends as a CDI spec does nor starts like one, so no reader takes it for one.
int files_replace(const struct files *f, const char *path, struct str bytes, struct err *err)
{
    int rc = files_step(f, "make a new file", err);
    if (rc != 0)
        return rc;
    const char *slash = strrchr(path, '/');
    cleanup_sbuf struct sbuf temporary = {0};
    sbuf_addf(&temporary, "%.*s.new-XXXXXX.tmp", slash ? (int)(slash + 1 - path) : 0, path);
    int fd = mkostemps(temporary.p, 4, O_CLOEXEC);
    if (fd < 0)
        return failed("make a file beside", path, err);
    rc = put(f, fd, path, bytes, err);
    if (rc == 0 && fchmod(fd, 0644) != 0)
        rc = failed("set the mode of", path, err);
    if (close(fd) != 0 && rc == 0)
        rc = failed("close", path, err);
    if (rc == 0)
        rc = files_step(f, "rename", err);
    if (rc == 0 && rename(temporary.p, path) != 0)
        rc = failed("write", path, err);
    if (rc != 0)
        (void)unlink(temporary.p);
    return rc;
}

int files_remove(const struct files *f, const char *path, struct err *err)
{
    int rc = files_step(f, "remove", err);
    if (rc != 0)
        return rc;
    return unlink(path) == 0 || errno == ENOENT ? 0 : failed("remove", path, err);
}

// Containers may see it: its mode is 0755, whatever the umask.
static int files_make_dir(const char *path, struct err *err)
{
    if (mkdir(path, 0755) == 0)
        return chmod(path, 0755) == 0 ? 0 : failed("set the mode of", path, err);
    return errno == EEXIST ? 0 : failed("make the folder", path, err);
}

int files_make_dirs(const struct files *f, const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    int rc = files_step(f, "make a folder", err);
    if (rc != 0)
        return rc;
    cleanup_free char *copy = xstrndup(path, strlen(path));
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        rc = files_make_dir(copy, err);
        if (rc != 0)
            return rc;
        *p = '/';
    }
    return files_make_dir(copy, err);
}

const struct dirent *files_next(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): the stream is the caller's alone
}

static int remove_tree(const struct files *f, const char *path, int depth, struct err *err);

static int remove_entry(const struct files *f, const char *dir, const char *name, int depth,
                        struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", dir, name);
    struct stat st;
    if (lstat(path.p, &st) != 0)
        return errno == ENOENT ? 0 : failed("look at", path.p, err);
    if (!S_ISDIR(st.st_mode))
        return files_remove(f, path.p, err);
    return remove_tree(f, path.p, depth + 1, err);
}

static int remove_tree(const struct files *f, const char *path, int depth, struct err *err)
{
    if (depth > TREE_DEPTH_MAX)
        return err_set(err, ELOOP, "%s is deeper than anything a driver makes", path);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? 0 : failed("open", path, err);
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = files_next(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_entry(f, path, e->d_name, depth, err);
    (void)closedir(dir);
    if (rc == 0)
        rc = files_step(f, "remove a folder", err);
    if (rc == 0 && rmdir(path) != 0 && errno != ENOENT)
        rc = failed("remove", path, err);
    return rc;
}

int files_remove_tree(const struct files *f, const char *path, struct err *err)
{
    return remove_tree(f, path, 0, err);
}

int files_read(const char *path, size_t max, struct sbuf *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return failed("open", path, err);
    int rc = 0;
    for (;;) {
        ssize_t n = read(fd, sbuf_space(out, 4096), 4096);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = failed("read", path, err);
        if (n <= 0)
            break;
        sbuf_commit(out, (size_t)n);
        if (out->n > max) {
            rc = err_set(err, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, max);
            break;
        }
    }
    (void)close(fd);
    return rc;
}

int files_ensure(const struct files *f, const char *path, struct str bytes, struct err *err)
{
    cleanup_sbuf struct sbuf now = {0};
    if (files_read(path, bytes.n + 1, &now, NULL) == 0 && str_eq(sbuf_str(&now), bytes))
        return 0;
    return files_replace(f, path, bytes, err);
}
