// SPDX-License-Identifier: Apache-2.0
//
// Removes unused images when their disk fills up, by kubelet's rules. The time of last use is kept
// where it survives a restart, as the time of the image's directory.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/vec.h"
#include "node/image/image_int.h"
#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

static int image_gc_scan(struct image_store *s, const char *part, struct dirent ***ret)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", s->folder, part);
    return scandir(path.p, ret, NULL, alphasort);
}

// References that lead nowhere.
static void drop_references(struct image_store *s)
{
    struct dirent **names;
    int n = image_gc_scan(s, "refs", &names);
    for (int i = 0; i < n; i++) {
        cleanup_arena struct arena arena = {0};
        cleanup_sbuf struct sbuf path = {0}, text = {0};
        struct image_info info;
        struct str id, rest;
        sbuf_addf(&path, "refs/%s", names[i]->d_name);
        if (names[i]->d_name[0] != '.' &&
            file_read_at(s->fd, path.p, IMAGE_INFO_BYTES_MAX, &text) == 0) {
            (void)str_cut(sbuf_str(&text), '\n', &id, &rest);
            if (image_load_unused(s, id, &arena, &info, NULL) < 0)
                (void)unlinkat(s->fd, path.p, 0);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

// --- Last use ------------------------------------------------------------------------------------

static void image_gc_directory(struct str hex, struct sbuf *out)
{
    sbuf_addf(out, "unpacked/%.*s", STR_ARG(hex));
}

static void set_used(struct image_store *s, const char *folder, int64_t ns)
{
    const struct timespec at = {.tv_sec = ns / CLOCK_NS_PER_SEC, .tv_nsec = ns % CLOCK_NS_PER_SEC};
    const struct timespec both[2] = {at, at};
    (void)utimensat(s->fd, folder, both, AT_SYMLINK_NOFOLLOW);
}

void image_note_use(struct image_store *s, struct str hex)
{
    cleanup_sbuf struct sbuf folder = {0};
    image_gc_directory(hex, &folder);
    (void)pthread_mutex_lock(&s->use_lock);
    set_used(s, folder.p, clock_wall_ns(s->clock));
    (void)pthread_mutex_unlock(&s->use_lock);
}

static bool last_use(struct image_store *s, const char *folder, int64_t *ret_ns)
{
    struct stat st;
    if (fstatat(s->fd, folder, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    *ret_ns = (int64_t)st.st_mtim.tv_sec * CLOCK_NS_PER_SEC + st.st_mtim.tv_nsec;
    return true;
}

// --- Candidates ----------------------------------------------------------------------------------

struct old_image {
    struct str hex;
    uint64_t size;
    int64_t used_ns;
};

struct old_images VEC(struct old_image);

static int by_last_use(const void *a, const void *b)
{
    const struct old_image *x = a, *y = b;
    return x->used_ns != y->used_ns ? (x->used_ns < y->used_ns ? -1 : 1) : str_cmp(x->hex, y->hex);
}

static bool takes_space(struct image_store *s, struct str hex)
{
    cleanup_sbuf struct sbuf root = {0};
    struct stat st;
    image_gc_directory(hex, &root);
    sbuf_addz(&root, "/rootfs");
    return fstatat(s->fd, root.p, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void image_gc_judge(struct image_store *s, const struct image_gc *how, const char *name,
                           struct arena *arena, struct old_images *old)
{
    cleanup_sbuf struct sbuf folder = {0};
    struct image_info info = {.name = STR("")};
    struct old_image one = {.hex = arena_str(arena, str_z(name))};
    int64_t now = clock_wall_ns(s->clock);
    struct str id = arena_strf(arena, "sha256:%s", name);
    image_gc_directory(one.hex, &folder);
    if (!image_id_ok(id) || !last_use(s, folder.p, &one.used_ns))
        return;
    bool whole = image_read_info(s, one.hex, arena, &info, NULL) == 0;
    // A time to come is that of a clock that was wrong.
    if (how->used(how->arg, id, info.name) || one.used_ns > now)
        set_used(s, folder.p, now);
    else if (takes_space(s, one.hex)) {
        one.size = whole ? info.size : 0;
        vec_push_arena(arena, old, one);
    }
}

static void find_old(struct image_store *s, const struct image_gc *how, struct arena *arena,
                     struct old_images *old)
{
    struct dirent **names;
    int n = image_gc_scan(s, "unpacked", &names);
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.')
            image_gc_judge(s, how, names[i]->d_name, arena, old);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    if (old->n)
        qsort(old->p, old->n, sizeof(*old->p), by_last_use);
}

// --- Removal -------------------------------------------------------------------------------------

static int image_gc_measure(struct image_store *s, struct image_freed *f, struct err *err)
{
    struct statvfs fs = {0};
    int r = 0;
    if (s->measure)
        r = s->measure(s->measure_arg, &f->capacity, &f->available);
    else if (fstatvfs(s->fd, &fs) != 0)
        r = -errno;
    if (!s->measure) {
        f->capacity = (uint64_t)fs.f_blocks * fs.f_frsize;
        f->available = (uint64_t)fs.f_bavail * fs.f_frsize;
    }
    if (r == 0 && f->capacity == 0)
        return err_set(err, EINVAL, "the file system of %s reports no size", s->folder);
    if (f->available > f->capacity)
        f->available = f->capacity;
    return r < 0 ? err_set(err, -r, "cannot tell how full the disk of %s is: %s", s->folder,
                           strerrordesc_np(-r))
                 : 0;
}

unsigned image_used_percent(const struct image_freed *f)
{
    return f->capacity ? 100 - (unsigned)((double)f->available * 100 / (double)f->capacity) : 0;
}

// Renames the image away, then removes it, however long that takes. An image used meanwhile stays.
static int remove_one(struct image_store *s, const struct image_gc *how, const struct old_image *o)
{
    cleanup_sbuf struct sbuf from = {0}, to = {0};
    int64_t used_ns;
    int r = 0;
    image_gc_directory(o->hex, &from);
    sbuf_addf(&to, "tmp/%lu", s->next++);
    fault_point("let an image disappear");
    (void)pthread_mutex_lock(&s->use_lock);
    if (!last_use(s, from.p, &used_ns) || clock_wall_ns(s->clock) - used_ns < how->rules.min_age_ns)
        r = -EBUSY;
    else if (renameat(s->fd, from.p, s->fd, to.p) != 0)
        r = -errno;
    (void)pthread_mutex_unlock(&s->use_lock);
    if (r < 0)
        return r;
    fault_point("remove an image");
    return file_remove_tree_at(s->fd, to.p);
}

static int remove_old(struct image_store *s, const struct image_gc *how,
                      const struct old_images *old, struct image_freed *f, struct err *err)
{
    uint64_t goal = f->available + f->wanted;
    int worst = 0;
    for (size_t i = 0; i < old->n; i++) {
        // The file system may report the freed space later.
        if (!how->rules.all && (f->freed >= f->wanted || f->available >= goal))
            break;
        int r = remove_one(s, how, &old->p[i]);
        if (r == -EBUSY)
            continue;
        if (r < 0) {
            worst = err_set(err, -r, "cannot remove the image sha256:%.*s: %s",
                            STR_ARG(old->p[i].hex), strerrordesc_np(-r));
            continue;
        }
        f->removed++;
        f->freed += old->p[i].size;
        r = image_gc_measure(s, f, err);
        if (r < 0)
            return r;
    }
    f->enough = f->freed >= f->wanted || f->available >= goal;
    return worst;
}

int image_gc(struct image_store *s, const struct image_gc *how, struct image_freed *ret,
             struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct old_images old = {0};
    struct image_freed f = {.enough = true};
    int r = image_gc_measure(s, &f, err);
    f.percent_before = image_used_percent(&f);
    if (r == 0 && f.percent_before >= how->rules.high_percent) {
        uint64_t goal = (uint64_t)((double)f.capacity * (100 - how->rules.low_percent) / 100);
        f.wanted = goal > f.available ? goal - f.available : 0;
    }
    (void)pthread_mutex_lock(&s->lock);
    find_old(s, how, &arena, &old);
    if (r == 0 && (how->rules.all || f.wanted))
        r = remove_old(s, how, &old, &f, err);
    if (f.removed)
        drop_references(s);
    (void)pthread_mutex_unlock(&s->lock);
    *ret = f;
    return r;
}
