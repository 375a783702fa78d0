// SPDX-License-Identifier: Apache-2.0
//
// Every name is opened below the root with RESOLVE_IN_ROOT, as a process chrooted there would see
// it, up to the directory it lies in; its last part is never followed.
#include "node/image/image_unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/arena.h"
#include "base/map.h"
#include "node/image/tree.h"
#include "os/file.h"

#include "base/banned.h"

struct names MAP(bool);

struct layer {
    struct unpack *u;
    struct tar_reader *reader;
    struct arena arena;
    struct names made; // by this layer, simplified: an opaque directory keeps them
    struct err *err;
};

void image_unpack_init(struct unpack *u, int root)
{
    *u = (struct unpack){.root = root,
                         .bytes_left = UNPACK_BYTES_MAX,
                         .entries_left = UNPACK_ENTRIES_MAX,
                         .keep_owners = geteuid() == 0};
}

// unpack_path simplifies a name of an archive: no empty parts, no ".", ".." undone. Empty for the
// directory itself. Returns 0 or -ERR_INVALID (leaves the directory, too deep).
static int unpack_path(struct str name, struct sbuf *out, struct err *err)
{
    size_t starts[UNPACK_DEPTH_MAX], depth = 0, begin = out->n;
    struct str rest = name, part;
    while (rest.n > 0) {
        (void)str_cut(rest, '/', &part, &rest);
        if (part.n == 0 || str_eq(part, STR(".")))
            continue;
        if (str_eq(part, STR(".."))) {
            if (depth == 0)
                return err_set(err, ERR_INVALID,
                               "the layer has a name that leaves its root: '%.*s'",
                               STR_ARG(str_upto(name, 200)));
            sbuf_truncate(out, starts[--depth]);
            continue;
        }
        if (depth == UNPACK_DEPTH_MAX || part.n > 255)
            return err_set(err, ERR_INVALID,
                           "the layer has a name that is too deep or too long: "
                           "'%.*s'",
                           STR_ARG(str_upto(name, 200)));
        starts[depth++] = out->n;
        if (out->n > begin)
            sbuf_addc(out, '/');
        sbuf_add(out, part);
    }
    return 0;
}

static int unpack_fail(struct layer *l, const char *doing, struct str name, int code)
{
    return err_set(l->err, code, "cannot %s '%.*s' of a layer: %s", doing,
                   STR_ARG(str_upto(name, 200)), strerrordesc_np(code));
}

// --- Directories above ---------------------------------------------------------------------------

static int make_above(struct layer *l, const char *path)
{
    cleanup_free char *copy = xstrndup(path, strlen(path));
    cleanup_fd int above = tree_open_in(l->u->root, "", O_PATH | O_DIRECTORY);
    char *at = copy;
    while (above >= 0) {
        char *slash = strchr(at, '/');
        if (slash)
            *slash = '\0';
        int fd = tree_open_in(l->u->root, copy, O_PATH | O_DIRECTORY);
        if (fd == -ENOENT && file_make_dir_at(above, at, 0755) == 0)
            fd = tree_open_in(l->u->root, copy, O_PATH | O_DIRECTORY);
        (void)close(above);
        above = fd;
        if (!slash)
            break;
        *slash = '/';
        at = slash + 1;
    }
    return fd_take(&above);
}

// Opens the directory a simplified path lies in, making what is missing; *ret_name is the last
// part.
static int open_above(struct layer *l, const char *path, bool make, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    if (!slash)
        return tree_open_in(l->u->root, "", O_PATH | O_DIRECTORY);
    cleanup_free char *above = xstrndup(path, (size_t)(slash - path));
    int fd = tree_open_in(l->u->root, above, O_PATH | O_DIRECTORY);
    return fd == -ENOENT && make ? make_above(l, above) : fd;
}

// --- Whiteouts -----------------------------------------------------------------------------------

// Removes what lower layers have in a directory; what this layer made stays.
static int clear_lower(struct layer *l, int folder, struct sbuf *path, int depth)
{
    DIR *d = fdopendir(folder); // takes it
    struct dirent *e;
    int r = 0;
    if (!d) {
        (void)close(folder);
        return -errno;
    }
    size_t start = path->n;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (r == 0 && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        sbuf_truncate(path, start);
        if (start)
            sbuf_addc(path, '/');
        sbuf_addz(path, e->d_name);
        if (!map_has(&l->made, sbuf_str(path))) {
            r = file_remove_tree_at(dirfd(d), e->d_name);
        } else if (e->d_type == DT_DIR && depth < UNPACK_DEPTH_MAX) {
            int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            r = fd < 0 ? -errno : clear_lower(l, fd, path, depth + 1);
        }
    }
    sbuf_truncate(path, start);
    (void)closedir(d);
    return r;
}

static int unpack_whiteout(struct layer *l, const char *path, const char *name, int above)
{
    struct str hidden = str_from(str_z(name), 4);
    if (str_eq(hidden, STR(".wh..opq"))) {
        cleanup_sbuf struct sbuf folder = {0};
        sbuf_add(&folder, str_make(path, (size_t)(name - path)));
        if (folder.n)
            sbuf_truncate(&folder, folder.n - 1); // the slash
        int fd = openat(above, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = fd < 0 ? -errno : clear_lower(l, fd, &folder, 0);
        return r < 0 ? unpack_fail(l, "empty the directory of", str_z(path), -r) : 0;
    }
    if (str_starts(hidden, STR(".wh."))) // of AUFS, for its own use
        return 0;
    if (hidden.n == 0 || str_eq(hidden, STR(".")) || str_eq(hidden, STR("..")))
        return err_set(l->err, ERR_INVALID, "the layer removes something without a name: '%s'",
                       path);
    int r = file_remove_tree_at(above, hidden.p);
    return r < 0 ? unpack_fail(l, "remove what is hidden by", str_z(path), -r) : 0;
}

// --- Entries -------------------------------------------------------------------------------------

static int unpack_write_file(struct layer *l, int fd, const struct tar_entry *e)
{
    char buf[65536];
    if (e->size > l->u->bytes_left)
        return err_set(l->err, ERR_TOO_LARGE, "the image is larger than %llu bytes",
                       (unsigned long long)UNPACK_BYTES_MAX);
    l->u->bytes_left -= e->size;
    while (true) {
        ssize_t n = tar_data(l->reader, buf, sizeof(buf), l->err);
        if (n <= 0)
            return (int)n;
        for (ssize_t at = 0; at < n;) {
            ssize_t w = write(fd, buf + at, (size_t)(n - at));
            if (w < 0 && errno != EINTR)
                return unpack_fail(l, "write", e->name, errno);
            at += w > 0 ? w : 0;
        }
    }
}

static void set_attributes(int fd, const struct tar_entry *e)
{
    vec_foreach(&e->attributes, a)
        if (str_starts(a->name, STR("user.")) || str_eq(a->name, STR("security.capability")))
            (void)fsetxattr(fd, a->name.p, a->value.p, a->value.n, 0);
}

// Owner before mode: the kernel takes set-user-id away when a file changes hands.
static int set_opened(struct layer *l, int fd, const struct tar_entry *e)
{
    const struct timespec times[2] = {{.tv_sec = e->mtime_sec}, {.tv_sec = e->mtime_sec}};
    if (l->u->keep_owners && fchown(fd, e->uid, e->gid) != 0)
        return unpack_fail(l, "give away", e->name, errno);
    if (fchmod(fd, e->mode) != 0)
        return unpack_fail(l, "set the mode of", e->name, errno);
    set_attributes(fd, e);
    (void)futimens(fd, times);
    return 0;
}

static int unpack_make_file(struct layer *l, int above, const char *name, const struct tar_entry *e)
{
    cleanup_fd int fd =
        openat(above, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return unpack_fail(l, "make", e->name, errno);
    int r = unpack_write_file(l, fd, e);
    return r < 0 ? r : set_opened(l, fd, e);
}

static int unpack_make_directory(struct layer *l, int above, const char *name,
                                 const struct tar_entry *e)
{
    if (mkdirat(above, name, 0700) != 0 && errno != EEXIST)
        return unpack_fail(l, "make", e->name, errno);
    cleanup_fd int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? unpack_fail(l, "open", e->name, errno) : set_opened(l, fd, e);
}

static int make_symbolic_link(struct layer *l, int above, const char *name,
                              const struct tar_entry *e)
{
    if (e->link.n == 0)
        return err_set(l->err, ERR_INVALID, "the layer has a link to nothing: '%.*s'",
                       STR_ARG(str_upto(e->name, 200)));
    if (symlinkat(e->link.p, above, name) != 0)
        return unpack_fail(l, "make", e->name, errno);
    if (l->u->keep_owners)
        (void)!fchownat(above, name, e->uid, e->gid, AT_SYMLINK_NOFOLLOW);
    return 0;
}

static int make_hard_link(struct layer *l, int above, const char *name, const struct tar_entry *e)
{
    cleanup_sbuf struct sbuf target = {0};
    struct stat st;
    const char *last;
    int r = unpack_path(e->link, &target, l->err);
    if (r < 0)
        return r;
    if (target.n == 0)
        return err_set(l->err, ERR_INVALID, "the layer has a hard link to its root");
    cleanup_fd int from = open_above(l, target.p, false, &last);
    if (from < 0)
        return unpack_fail(l, "link to", e->link, -from);
    if (fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return unpack_fail(l, "link to", e->link, errno);
    if (S_ISDIR(st.st_mode))
        return err_set(l->err, ERR_INVALID, "the layer has a hard link to a directory: '%.*s'",
                       STR_ARG(str_upto(e->link, 200)));
    return linkat(from, last, above, name, 0) == 0 ? 0 : unpack_fail(l, "link", e->name, errno);
}

static int make_fifo(struct layer *l, int above, const char *name, const struct tar_entry *e)
{
    if (mkfifoat(above, name, e->mode & 0777) != 0)
        return unpack_fail(l, "make", e->name, errno);
    if (l->u->keep_owners)
        (void)!fchownat(above, name, e->uid, e->gid, AT_SYMLINK_NOFOLLOW);
    return 0;
}

static int unpack_make_entry(struct layer *l, int above, const char *name,
                             const struct tar_entry *e)
{
    struct stat st;
    // A directory over a directory changes it; everything else replaces an existing entry.
    bool there = fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !(S_ISDIR(st.st_mode) && e->type == TAR_FOLDER)) {
        int r = file_remove_tree_at(above, name);
        if (r < 0)
            return unpack_fail(l, "replace", e->name, -r);
    }
    switch (e->type) {
    case TAR_FILE:
        return unpack_make_file(l, above, name, e);
    case TAR_FOLDER:
        return unpack_make_directory(l, above, name, e);
    case TAR_SYMBOLIC_LINK:
        return make_symbolic_link(l, above, name, e);
    case TAR_HARD_LINK:
        return make_hard_link(l, above, name, e);
    case TAR_FIFO:
        return make_fifo(l, above, name, e);
    case TAR_CHARACTER:
    case TAR_BLOCK_DEVICE:
        l->u->devices++;
        return 0;
    case TAR_OTHER:
        return 0;
    }
    return 0;
}

static int set_root(struct layer *l, const struct tar_entry *e)
{
    if (e->type != TAR_FOLDER)
        return err_set(l->err, ERR_INVALID, "the layer has a file in place of its root");
    cleanup_fd int fd = openat(l->u->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? unpack_fail(l, "open", e->name, errno) : set_opened(l, fd, e);
}

static int unpack_apply_entry(struct layer *l, const struct tar_entry *e)
{
    cleanup_sbuf struct sbuf path = {0};
    const char *name;
    int r = unpack_path(e->name, &path, l->err);
    if (r < 0)
        return r;
    if (path.n == 0)
        return set_root(l, e);
    cleanup_fd int above = open_above(l, path.p, true, &name);
    if (above < 0)
        return unpack_fail(l, "open the directory of", e->name, -above);
    if (strncmp(name, ".wh.", 4) == 0)
        return unpack_whiteout(l, path.p, name, above);
    r = unpack_make_entry(l, above, name, e);
    if (r == 0) {
        *map_put(&l->made, arena_str(&l->arena, sbuf_str(&path))) = true;
        if (l->arena.used_bytes > UNPACK_NAMES_MAX)
            r = err_set(l->err, ERR_TOO_LARGE, "the names of a layer have more than %zu bytes",
                        UNPACK_NAMES_MAX);
    }
    return r;
}

int image_unpack_layer(struct unpack *u, struct tar_reader *tar, struct err *err)
{
    struct layer l = {.u = u, .reader = tar, .err = err};
    struct tar_entry e;
    int r;
    while ((r = tar_next(tar, &e, err)) > 0) {
        if (u->entries_left == 0) {
            r = err_set(err, ERR_TOO_LARGE, "the image has more than %llu files",
                        (unsigned long long)UNPACK_ENTRIES_MAX);
            break;
        }
        u->entries_left--;
        r = unpack_apply_entry(&l, &e);
        if (r < 0)
            break;
    }
    map_done(&l.made);
    arena_done(&l.arena);
    return r;
}
