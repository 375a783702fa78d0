// SPDX-License-Identifier: Apache-2.0
//
// Scans the CDI directories and keeps the valid specs by device name. A hash over the files' stat
// data decides whether a refresh must read them again.
#include "cdi/cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"
#include "cdi/name.h"

#include "base/banned.h"

// A file that changed this shortly before it was looked at may change again with the same time
// stamp.
#define STAMP_GRAIN_NS (INT64_C(50) * CLOCK_NS_PER_MS)

struct device_slot {
    struct cdi_cached_device device;
    bool conflict;
};

struct slots MAP(struct device_slot);
struct file_problems VEC(struct cdi_file_problem);
struct cached_devices VEC(struct cdi_cached_device);
struct file_names VEC(struct str);

struct cdi_cache {
    struct file_names dirs;
    struct arena dirs_arena;
    struct arena arena; // everything below, until the next scan
    struct slots slots;
    struct cached_devices devices;
    struct file_problems problems;
    uint64_t stamp; // hash over the directories' files
    bool unsure;    // something changed so recently that the stamp proves nothing
};

struct cdi_cache *cdi_cache_new(const char *const *dirs, size_t n)
{
    static const char *const usual[] = {CDI_STATIC_DIR, CDI_DYNAMIC_DIR};
    struct cdi_cache *c = xcalloc(1, sizeof(*c));
    c->unsure = true;
    if (n == 0) {
        dirs = usual;
        n = array_len(usual);
    }
    for (size_t i = 0; i < n; i++)
        vec_push(&c->dirs, arena_str(&c->dirs_arena, str_z(dirs[i])));
    return c;
}

static void cdi_cache_clear(struct cdi_cache *c)
{
    map_done(&c->slots);
    c->slots = (struct slots){0};
    vec_clear(&c->devices);
    vec_clear(&c->problems);
    arena_reset(&c->arena);
}

void cdi_cache_free(struct cdi_cache *c)
{
    if (!c)
        return;
    cdi_cache_clear(c);
    vec_done(&c->devices);
    vec_done(&c->problems);
    vec_done(&c->dirs);
    arena_done(&c->arena);
    arena_done(&c->dirs_arena);
    free(c);
}

// --- Directories ---------------------------------------------------------------------------------

static bool is_spec_name(struct str name)
{
    return str_ends(name, STR(".json")) || str_ends(name, STR(".yaml"));
}

// Lists the spec files of a directory by name. A directory that does not exist is an empty one.
static int cdi_cache_list_directory(struct str dir, struct arena *arena, struct file_names *ret,
                                    struct err *err)
{
    DIR *d = opendir(dir.p);
    if (!d && errno == ENOENT)
        return 0;
    if (!d)
        return err_set(err, errno, "cannot read the directory: %s", strerrordesc_np(errno));
    int r = 0;
    while (r == 0) {
        errno = 0;
        const struct dirent *e = readdir(d); // NOLINT(concurrency-mt-unsafe): the stream is ours
        if (!e)
            break;
        if (!is_spec_name(str_z(e->d_name)) || e->d_type == DT_DIR)
            continue;
        if (ret->n == CDI_FILES_MAX)
            r = err_set(err, ERR_TOO_LARGE, "more than %d spec files; the rest is left out",
                        CDI_FILES_MAX);
        else
            vec_push(ret, arena_str(arena, str_z(e->d_name)));
    }
    if (r == 0 && errno != 0)
        r = err_set(err, errno, "cannot read the directory: %s", strerrordesc_np(errno));
    (void)closedir(d);
    if (ret->n)
        qsort(ret->p, ret->n, sizeof(*ret->p), str_cmp_elements);
    return r;
}

struct stamp {
    struct sbuf bytes;
    int64_t newest_ns;
};

static void stamp_file(struct stamp *s, const char *path)
{
    struct stat st;
    sbuf_add(&s->bytes, str_make(path, strlen(path) + 1));
    if (stat(path, &st) != 0)
        return;
    int64_t changed = (int64_t)st.st_ctim.tv_sec * CLOCK_NS_PER_SEC + st.st_ctim.tv_nsec;
    int64_t modified = (int64_t)st.st_mtim.tv_sec * CLOCK_NS_PER_SEC + st.st_mtim.tv_nsec;
    const int64_t facts[] = {(int64_t)st.st_dev, (int64_t)st.st_ino, (int64_t)st.st_size, changed,
                             modified};
    sbuf_add(&s->bytes, str_make((const char *)facts, sizeof(facts)));
    if (changed > s->newest_ns)
        s->newest_ns = changed;
}

// Hashes the stat data of all spec files. *ret_unsure: a file changed within the last moments.
static uint64_t cdi_cache_stamp(const struct cdi_cache *c, bool *ret_unsure)
{
    struct stamp s = {0};
    int64_t now_ns = clock_wall_ns(clock_system()); // compared with the file system's stamps
    cleanup_arena struct arena arena = {0};
    vec_foreach(&c->dirs, dir) {
        struct file_names names = {0};
        stamp_file(&s, dir->p);
        (void)cdi_cache_list_directory(*dir, &arena, &names, NULL);
        vec_foreach(&names, name)
            stamp_file(&s, arena_strf(&arena, "%s/%s", dir->p, name->p).p);
        vec_done(&names);
    }
    *ret_unsure = s.newest_ns > now_ns - STAMP_GRAIN_NS;
    uint64_t hash = hash_str(sbuf_str(&s.bytes));
    sbuf_done(&s.bytes);
    return hash;
}

// --- Reading -------------------------------------------------------------------------------------

static void cdi_cache_add_problem(struct cdi_cache *c, struct str path, const struct err *err)
{
    vec_push(&c->problems, (struct cdi_file_problem){path, *err});
}

static void cdi_cache_add_conflict(struct cdi_cache *c, struct str name, struct str path,
                                   struct str other)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CONFLICT, "the device %.*s is also in %.*s; neither counts",
                  STR_ARG(str_upto(name, 200)), STR_ARG(str_upto(other, 200)));
    cdi_cache_add_problem(c, path, &err);
}

static void cdi_cache_add_device(struct cdi_cache *c, const struct cdi_cached_spec *spec,
                                 const struct cdi_device *device)
{
    struct str name = arena_strf(&c->arena, "%.*s/%.*s=%.*s", STR_ARG(spec->vendor),
                                 STR_ARG(spec->class), STR_ARG(device->name));
    bool is_new = false;
    struct device_slot *slot = map_put_new(&c->slots, name, &is_new);
    if (!is_new && slot->device.spec->priority == spec->priority) {
        slot->conflict = true;
        cdi_cache_add_conflict(c, name, slot->device.spec->path, spec->path);
        cdi_cache_add_conflict(c, name, spec->path, slot->device.spec->path);
        return;
    }
    slot->device = (struct cdi_cached_device){name, spec, device};
}

static void read_spec(struct cdi_cache *c, struct str path, size_t priority)
{
    cleanup_sbuf struct sbuf text = {0};
    struct err err = {0};
    if (cdi_spec_read_file(path.p, &text, &err) != 0) {
        if (err.code != ENOENT) // removed since it was listed
            cdi_cache_add_problem(c, path, &err);
        return;
    }
    struct cdi_problems problems = {0};
    struct cdi_spec *spec = NULL;
    if (cdi_spec_load(sbuf_str(&text), &c->arena, &spec, &problems) == 0) {
        struct cdi_cached_spec *cached = arena_one(&c->arena, struct cdi_cached_spec);
        *cached = (struct cdi_cached_spec){.path = path, .priority = priority, .spec = spec};
        (void)cdi_kind_split(spec->kind, &cached->vendor, &cached->class);
        vec_foreach(&spec->devices, d)
            cdi_cache_add_device(c, cached, d);
    }
    vec_foreach(&problems, p)
        cdi_cache_add_problem(c, path, p);
    vec_done(&problems);
}

static int by_device_name(const void *a, const void *b)
{
    const struct cdi_cached_device *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

static void cdi_cache_read_directories(struct cdi_cache *c)
{
    cdi_cache_clear(c);
    for (size_t i = 0; i < c->dirs.n; i++) {
        struct str dir = c->dirs.p[i];
        struct file_names names = {0};
        struct err err = {0};
        if (cdi_cache_list_directory(dir, &c->arena, &names, &err) != 0)
            cdi_cache_add_problem(c, dir, &err);
        vec_foreach(&names, name)
            read_spec(c, arena_strf(&c->arena, "%s/%s", dir.p, name->p), i);
        vec_done(&names);
    }
    map_foreach(&c->slots, i)
        if (!map_value(&c->slots, i)->conflict)
            vec_push(&c->devices, map_value(&c->slots, i)->device);
    if (c->devices.n)
        qsort(c->devices.p, c->devices.n, sizeof(*c->devices.p), by_device_name);
}

void cdi_cache_rescan(struct cdi_cache *c)
{
    // Looked at before reading: a change while reading shows next time.
    c->stamp = cdi_cache_stamp(c, &c->unsure);
    cdi_cache_read_directories(c);
}

bool cdi_cache_refresh(struct cdi_cache *c)
{
    bool unsure;
    if (!c->unsure && cdi_cache_stamp(c, &unsure) == c->stamp)
        return false;
    cdi_cache_rescan(c);
    return true;
}

// --- Lookup --------------------------------------------------------------------------------------

const struct cdi_cached_device *cdi_cache_find(const struct cdi_cache *c, struct str name)
{
    const struct device_slot *slot = map_get(&c->slots, name);
    return slot && !slot->conflict ? &slot->device : NULL;
}

const struct cdi_cached_device *cdi_cache_devices(const struct cdi_cache *c, size_t *ret_n)
{
    *ret_n = c->devices.n;
    return c->devices.p;
}

const struct cdi_file_problem *cdi_cache_problems(const struct cdi_cache *c, size_t *ret_n)
{
    *ret_n = c->problems.n;
    return c->problems.p;
}

struct pointers_seen MAP(bool);

// Whether this address is met for the first time; it must stay where it is.
static bool first_time(struct pointers_seen *seen, struct arena *arena, const void *address)
{
    bool is_new;
    const char *bytes = arena_dup(arena, (const void *)&address, sizeof(address), 1);
    (void)map_put_new(seen, str_make(bytes, sizeof(address)), &is_new);
    return is_new;
}

int cdi_cache_edits(const struct cdi_cache *c, const struct str *names, size_t n,
                    struct arena *arena, struct cdi_edits *ret, struct err *err)
{
    cleanup_sbuf struct sbuf missing = {0};
    struct pointers_seen seen = {0};
    struct cdi_edits edits = {0};
    for (size_t i = 0; i < n; i++) {
        const struct cdi_cached_device *d = cdi_cache_find(c, names[i]);
        if (!d) {
            sbuf_addf(&missing, "%s%.*s", missing.n ? ", " : "", STR_ARG(names[i]));
            continue;
        }
        if (first_time(&seen, arena, d->spec))
            cdi_edits_append(&edits, &d->spec->spec->edits, arena);
        if (first_time(&seen, arena, d->device))
            cdi_edits_append(&edits, &d->device->edits, arena);
    }
    map_done(&seen);
    if (missing.n)
        return err_set(err, ERR_NOT_FOUND, "no spec offers: %s", missing.p);
    *ret = edits;
    return 0;
}
