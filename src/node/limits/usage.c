// SPDX-License-Identifier: Apache-2.0
//
// Walks a directory tree and adds up its disk blocks. Directories to be visited are paths relative
// to an anchor; where such a path would get too long for the kernel, the directory becomes the next
// anchor. A tree with more anchors or files than that is endless: nesting hides nothing.
#include "node/limits/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include "base/banned.h"

#define PATH_BYTES_MAX 3000 // relative to an anchor: the kernel takes 4096
#define ANCHORS_MAX    128  // each is a descriptor

struct usage_paths VEC(char *);

struct usage_walk {
    struct usage *to;
    uint64_t files_left;
    dev_t device;
    int anchors;
    bool endless; // there is more than was counted
};

static void usage_add_anchor(struct usage_walk *w, int anchor);

static int usage_open_below(int anchor, const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    return (int)syscall(SYS_openat2, anchor, path, &how, sizeof(how));
}

static void usage_count_file(struct usage_walk *w, const struct stat *st)
{
    uint64_t names = st->st_nlink > 1 && !S_ISDIR(st->st_mode) ? st->st_nlink : 1;
    w->to->bytes += (uint64_t)st->st_blocks * 512 / names;
    w->to->files++;
    w->files_left--;
    w->endless |= w->files_left == 0;
}

// One entry of a directory; a directory is visited later, by its path from the anchor.
static void usage_add_entry(struct usage_walk *w, int folder, const char *name, const char *path,
                            struct usage_paths *later)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || st.st_dev != w->device)
        return;
    usage_count_file(w, &st);
    if (!S_ISDIR(st.st_mode))
        return;
    if (strlen(path) + strlen(name) < PATH_BYTES_MAX) {
        struct sbuf below = {0};
        sbuf_addf(&below, "%s/%s", path, name);
        vec_push(later, sbuf_take(&below));
        return;
    }
    w->endless |= w->anchors == ANCHORS_MAX;
    int next = w->anchors < ANCHORS_MAX ? usage_open_below(folder, name) : -1;
    if (next >= 0)
        usage_add_anchor(w, next);
}

static void usage_add_folder(struct usage_walk *w, int fd, const char *path,
                             struct usage_paths *later)
{
    DIR *d = fdopendir(fd);
    const struct dirent *e;
    if (!d) {
        (void)close(fd);
        return;
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours
    while (w->files_left > 0 && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            usage_add_entry(w, fd, e->d_name, path, later);
    (void)closedir(d);
}

// Takes the descriptor.
static void usage_add_anchor(struct usage_walk *w, int anchor)
{
    struct usage_paths later = {0};
    w->anchors++;
    vec_push(&later, xstrndup(".", 1));
    while (later.n > 0) {
        char *path = later.p[--later.n];
        int fd = w->files_left > 0 ? usage_open_below(anchor, path) : -1;
        if (fd >= 0)
            usage_add_folder(w, fd, path, &later);
        free(path);
    }
    vec_done(&later);
    (void)close(anchor);
    w->anchors--;
}

void usage_add_tree(const char *path, struct usage *to)
{
    struct usage_walk w = {.to = to, .files_left = USAGE_FILES_MAX};
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (fstat(fd, &st) != 0) {
        (void)close(fd);
        return;
    }
    w.device = st.st_dev;
    usage_count_file(&w, &st);
    usage_add_anchor(&w, fd);
    if (w.endless)
        usage_add(to, (struct usage){USAGE_ENDLESS, USAGE_ENDLESS});
}
