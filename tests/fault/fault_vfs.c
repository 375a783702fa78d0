// SPDX-License-Identifier: Apache-2.0
#include "fault_vfs.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/vec.h"

#include "base/banned.h"

#define SECTOR 512

struct bytes VEC(char);

// What was done to a file since its last sync.
struct change {
    size_t offset; // of a write; the new size of a truncation
    struct bytes data;
    bool truncate;
};

struct changes VEC(struct change);

struct disk_file {
    struct list_node node;
    char *name;
    struct bytes now;
    struct bytes synced;
    struct changes changes;
    bool ever_synced;
    int opens;
};

struct handle {
    sqlite3_file base;
    struct disk_file *file;
    bool temporary;
};

static struct {
    sqlite3_vfs vfs;
    struct list files;
    struct rng_seeded rng;
    enum fault_kind kind;
    uint64_t after, times;
    uint64_t writes;
    bool crashed;
} disk;

static void bytes_resize(struct bytes *b, size_t n)
{
    vec_reserve(b, n);
    if (n > b->n)
        memset(b->p + b->n, 0, n - b->n);
    b->n = n;
}

static void bytes_write(struct bytes *b, size_t offset, const void *data, size_t n)
{
    if (offset + n > b->n)
        bytes_resize(b, offset + n);
    if (n)
        memcpy(b->p + offset, data, n);
}

static void bytes_copy(struct bytes *to, const struct bytes *from)
{
    to->n = 0;
    bytes_write(to, 0, from->p, from->n);
}

static void forget_changes(struct disk_file *f)
{
    for (size_t i = 0; i < f->changes.n; i++)
        vec_done(&f->changes.p[i].data);
    vec_clear(&f->changes);
}

static void file_free(struct disk_file *f)
{
    list_remove(&f->node);
    forget_changes(f);
    vec_done(&f->changes);
    vec_done(&f->now);
    vec_done(&f->synced);
    free(f->name);
    free(f);
}

static struct disk_file *file_find(const char *name)
{
    list_foreach(&disk.files, n) {
        struct disk_file *f = list_entry(n, struct disk_file, node);
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

static struct disk_file *file_make(const char *name)
{
    struct disk_file *f = xcalloc(1, sizeof(*f));
    f->name = xstrndup(name, strlen(name));
    list_push_back(&disk.files, &f->node);
    return f;
}

// fails says whether this operation is one of those that are to fail.
static bool fails(enum fault_kind kind)
{
    if (disk.kind != kind || disk.times == 0)
        return false;
    if (disk.after > 0) {
        disk.after--;
        return false;
    }
    if (disk.times != UINT64_MAX)
        disk.times--;
    return true;
}

// --- Files ---------------------------------------------------------------------------------------

static struct handle *handle_of(sqlite3_file *file)
{
    return (struct handle *)(void *)file;
}

static int do_close(sqlite3_file *file)
{
    struct handle *h = handle_of(file);
    h->file->opens--;
    if (h->temporary)
        file_free(h->file);
    return SQLITE_OK;
}

static int do_read(sqlite3_file *file, void *out, int n, sqlite3_int64 offset)
{
    const struct bytes *b = &handle_of(file)->file->now;
    if (disk.crashed || fails(FAULT_READ))
        return SQLITE_IOERR_READ;
    memset(out, 0, (size_t)n);
    size_t from = (size_t)offset;
    if (from >= b->n)
        return SQLITE_IOERR_SHORT_READ;
    size_t there = b->n - from < (size_t)n ? b->n - from : (size_t)n;
    memcpy(out, b->p + from, there);
    return there == (size_t)n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static void apply_write(struct disk_file *f, size_t offset, const void *data, size_t n)
{
    struct change c = {.offset = offset};
    bytes_write(&c.data, 0, data, n);
    vec_push(&f->changes, c);
    bytes_write(&f->now, offset, data, n);
}

static int do_write(sqlite3_file *file, const void *data, int n, sqlite3_int64 offset)
{
    struct disk_file *f = handle_of(file)->file;
    disk.writes++;
    if (disk.crashed || fails(FAULT_WRITE))
        return SQLITE_IOERR_WRITE;
    if (fails(FAULT_FULL))
        return SQLITE_FULL;
    if (fails(FAULT_TORN)) {
        apply_write(f, (size_t)offset, data, (size_t)rng_below(&disk.rng.rng, (uint64_t)n));
        return SQLITE_IOERR_WRITE;
    }
    apply_write(f, (size_t)offset, data, (size_t)n);
    return SQLITE_OK;
}

static int do_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct disk_file *f = handle_of(file)->file;
    disk.writes++;
    if (disk.crashed || fails(FAULT_WRITE))
        return SQLITE_IOERR_TRUNCATE;
    struct change c = {.offset = (size_t)size, .truncate = true};
    vec_push(&f->changes, c);
    bytes_resize(&f->now, (size_t)size);
    return SQLITE_OK;
}

static int do_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    struct disk_file *f = handle_of(file)->file;
    disk.writes++;
    if (disk.crashed || fails(FAULT_SYNC))
        return SQLITE_IOERR_FSYNC;
    for (size_t i = 0; i < f->changes.n; i++) {
        const struct change *c = &f->changes.p[i];
        if (c->truncate)
            bytes_resize(&f->synced, c->offset);
        else
            bytes_write(&f->synced, c->offset, c->data.p, c->data.n);
    }
    forget_changes(f);
    f->ever_synced = true;
    return SQLITE_OK;
}

static int do_file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)handle_of(file)->file->now.n;
    return SQLITE_OK;
}

static int do_lock(sqlite3_file *file, int level)
{
    (void)level;
    // One connection at a time is all these tests have.
    return handle_of(file)->file->opens == 1 ? SQLITE_OK : SQLITE_BUSY;
}

static int do_unlock(sqlite3_file *file, int level)
{
    (void)file;
    (void)level;
    return SQLITE_OK;
}

static int do_check_lock(sqlite3_file *file, int *ret)
{
    (void)file;
    *ret = 0;
    return SQLITE_OK;
}

static int do_control(sqlite3_file *file, int op, void *arg)
{
    (void)file;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int do_sector_size(sqlite3_file *file)
{
    (void)file;
    return SECTOR;
}

static int do_characteristics(sqlite3_file *file)
{
    (void)file;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = do_close,
    .xRead = do_read,
    .xWrite = do_write,
    .xTruncate = do_truncate,
    .xSync = do_sync,
    .xFileSize = do_file_size,
    .xLock = do_lock,
    .xUnlock = do_unlock,
    .xCheckReservedLock = do_check_lock,
    .xFileControl = do_control,
    .xSectorSize = do_sector_size,
    .xDeviceCharacteristics = do_characteristics,
};

// --- The disk ------------------------------------------------------------------------------------

static int do_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                   int *ret_flags)
{
    (void)vfs;
    struct handle *h = handle_of(file);
    *h = (struct handle){.temporary = !name};
    if (disk.crashed)
        return SQLITE_CANTOPEN;
    struct disk_file *f = name ? file_find(name) : NULL;
    if (!f && !(flags & SQLITE_OPEN_CREATE) && name)
        return SQLITE_CANTOPEN;
    h->file = f ? f : file_make(name ? name : "temporary");
    h->file->opens++;
    h->base.pMethods = &methods;
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int do_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    (void)sync_folder;
    if (disk.crashed)
        return SQLITE_IOERR_DELETE;
    struct disk_file *f = file_find(name);
    if (!f)
        return SQLITE_IOERR_DELETE_NOENT;
    file_free(f);
    return SQLITE_OK;
}

static int do_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    (void)vfs;
    const struct disk_file *f = file_find(name);
    *ret = f && (flags != SQLITE_ACCESS_EXISTS || f->now.n > 0);
    return SQLITE_OK;
}

static int do_full_name(sqlite3_vfs *vfs, const char *name, int cap, char *out)
{
    (void)vfs;
    (void)sqlite3_snprintf(cap, out, "%s", name);
    return SQLITE_OK;
}

static int do_randomness(sqlite3_vfs *vfs, int n, char *out)
{
    (void)vfs;
    rng_fill(&disk.rng.rng, out, (size_t)n);
    return n;
}

static int do_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us;
}

static int do_time(sqlite3_vfs *vfs, double *ret)
{
    (void)vfs;
    *ret = 2460000.5;
    return SQLITE_OK;
}

static int do_last_error(sqlite3_vfs *vfs, int n, char *out)
{
    (void)vfs;
    (void)n;
    (void)out;
    return 0;
}

void fault_vfs_new(const char *name, uint64_t seed)
{
    memset(&disk, 0, sizeof(disk));
    list_init(&disk.files);
    rng_seeded_init(&disk.rng, seed);
    disk.vfs = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = sizeof(struct handle),
        .mxPathname = 256,
        .zName = name,
        .xOpen = do_open,
        .xDelete = do_delete,
        .xAccess = do_access,
        .xFullPathname = do_full_name,
        .xRandomness = do_randomness,
        .xSleep = do_sleep,
        .xCurrentTime = do_time,
        .xGetLastError = do_last_error,
    };
    (void)sqlite3_vfs_register(&disk.vfs, 0);
}

void fault_vfs_free(void)
{
    (void)sqlite3_vfs_unregister(&disk.vfs);
    list_foreach(&disk.files, n) {
        file_free(list_entry(n, struct disk_file, node));
    }
}

void fault_vfs_plan(enum fault_kind kind, uint64_t after, uint64_t times)
{
    disk.kind = kind;
    disk.after = after;
    disk.times = times;
}

void fault_vfs_crash(void)
{
    disk.crashed = true;
}

// A sector at a time, a change that was not synced is there or is not.
static void tear(struct disk_file *f, const struct change *c)
{
    if (c->truncate) {
        if (rng_below(&disk.rng.rng, 2))
            bytes_resize(&f->synced, c->offset);
        return;
    }
    for (size_t at = 0; at < c->data.n;) {
        size_t end = at + SECTOR - (c->offset + at) % SECTOR;
        end = end < c->data.n ? end : c->data.n;
        if (rng_below(&disk.rng.rng, 2))
            bytes_write(&f->synced, c->offset + at, c->data.p + at, end - at);
        at = end;
    }
}

void fault_vfs_restart(void)
{
    // Mostly a random part of the changes arrives; sometimes all of them, or none.
    uint64_t luck = rng_below(&disk.rng.rng, 4);
    list_foreach(&disk.files, n) {
        struct disk_file *f = list_entry(n, struct disk_file, node);
        if (luck == 0)
            bytes_copy(&f->synced, &f->now);
        else if (luck > 1)
            vec_foreach(&f->changes, c)
                tear(f, c);
        bytes_copy(&f->now, &f->synced);
        forget_changes(f);
    }
    disk.crashed = false;
    disk.kind = FAULT_NONE;
}

bool fault_vfs_flip(const char *file, size_t byte, unsigned bit)
{
    struct disk_file *f = file_find(file);
    if (!f || byte >= f->now.n)
        return false;
    f->now.p[byte] = (char)((unsigned char)f->now.p[byte] ^ 1U << bit);
    f->synced.p[byte] = f->now.p[byte];
    return true;
}

size_t fault_vfs_size(const char *file)
{
    const struct disk_file *f = file_find(file);
    return f ? f->now.n : 0;
}

uint64_t fault_vfs_writes(void)
{
    return disk.writes;
}
