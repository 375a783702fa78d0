// SPDX-License-Identifier: Apache-2.0
//
// Databases as a disk may return them: rows with any content, some with a right checksum, or a file
// with any bytes changed. Opening succeeds or gives a reason; salvage makes every database of ours
// one that opens, unless its kinds are unknown.
#include <assert.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exec.h"
#include "base/rand.h"
#include "fuzz.h"
#include "os/file.h"
#include "store/record.h"
#include "store/store.h"

#include "base/banned.h"

#define FUZZ_ROWS_MAX 64

struct fuzz_rows {
    struct str rest;
    char folder[64];
    struct sbuf path;
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
};

static uint8_t rows_take_byte(struct fuzz_rows *f)
{
    if (!f->rest.n)
        return 0;
    uint8_t c = (uint8_t)f->rest.p[0];
    f->rest = str_from(f->rest, 1);
    return c;
}

static struct str rows_take_text(struct fuzz_rows *f, size_t max)
{
    size_t n = rows_take_byte(f) % (max + 1);
    struct str s = str_upto(f->rest, n < f->rest.n ? n : f->rest.n);
    f->rest = str_from(f->rest, s.n);
    return s;
}

static void rows_ignore_finding(void *arg, const char *finding)
{
    (void)arg;
    assert(finding[0]);
}

static int rows_open(struct fuzz_rows *f, bool salvage, struct store **ret, struct err *err)
{
    const struct store_options options = {.exec = exec_sim_exec(f->sim),
                                          .path = f->path.p,
                                          .commit_on_exec = true,
                                          .history_events = 8,
                                          .salvage = salvage ? rows_ignore_finding : NULL};
    return store_open(&options, ret, err);
}

// rows_bind_text: sometimes a number or NULL where a text belongs.
static void rows_bind_text(sqlite3_stmt *st, int i, struct str s)
{
    if (s.n == 1 && s.p[0] == '#')
        (void)sqlite3_bind_int64(st, i, INT64_MIN);
    else
        (void)sqlite3_bind_text(st, i, s.n ? s.p : "", (int)s.n, SQLITE_TRANSIENT);
}

static struct str rows_take_kind(struct fuzz_rows *f)
{
    static const struct str kinds[] = {STR_INIT("v1/ConfigMap"), STR_INIT("v1/Pod"),
                                       STR_INIT("resource.k8s.io/v1/ResourceClaim"),
                                       STR_INIT("example.com/*/Thing")};
    uint8_t which = rows_take_byte(f);
    return which < 250 ? kinds[which % array_len(kinds)] : rows_take_text(f, 40);
}

static void rows_add(struct fuzz_rows *f, sqlite3_stmt *st, int64_t *revision)
{
    uint8_t how = rows_take_byte(f);
    *revision = how & 1 ? *revision + 1 + (how >> 6) : (int64_t)1 << (how % 64);
    struct record_row row = {.revision = (uint64_t)*revision,
                             .kind = rows_take_kind(f),
                             .namespace = rows_take_text(f, 4),
                             .name = rows_take_text(f, 3),
                             .deleted = (how & 2) != 0};
    struct str payload = rows_take_text(f, 255);
    cleanup_sbuf struct sbuf blob = {0};
    sbuf_addc(&blob, how & 4 ? 1 : (char)how);
    uint64_t sum = how & 8 ? record_sum(&row, payload) : how;
    for (int i = 0; i < 8; i++)
        sbuf_addc(&blob, (char)(unsigned char)(sum >> (8 * i)));
    sbuf_add(&blob, payload);
    (void)sqlite3_bind_int64(st, 1, *revision);
    rows_bind_text(st, 2, row.kind);
    rows_bind_text(st, 3, row.namespace);
    rows_bind_text(st, 4, row.name);
    (void)sqlite3_bind_int(st, 5, how & 2 ? how & 16 ? 7 : 1 : 0);
    (void)sqlite3_bind_blob(st, 6, blob.p, (int)blob.n, SQLITE_TRANSIENT);
    (void)sqlite3_step(st);
    (void)sqlite3_reset(st);
}

static void rows_fill(struct fuzz_rows *f)
{
    sqlite3 *sql = NULL;
    sqlite3_stmt *st = NULL;
    char meta[128];
    int r = sqlite3_open(f->path.p, &sql);
    assert(r == SQLITE_OK);
    r = sqlite3_exec(sql, "PRAGMA synchronous=OFF; BEGIN", NULL, NULL, NULL);
    assert(r == SQLITE_OK);
    r = sqlite3_prepare_v2(sql, "INSERT OR REPLACE INTO object VALUES(?1,?2,?3,?4,?5,?6)", -1, &st,
                           NULL);
    assert(r == SQLITE_OK);
    int64_t revision = 0;
    uint8_t how = rows_take_byte(f);
    for (int i = 0; i < FUZZ_ROWS_MAX && f->rest.n; i++)
        rows_add(f, st, &revision);
    (void)sqlite3_finalize(st);
    (void)snprintf(meta, sizeof(meta), "UPDATE meta SET revision=%lld, oldest=%d, clean=%d",
                   how & 1 ? (long long)revision : (long long)how, how & 2 ? how >> 4 : 0,
                   how & 4 ? 1 : 0);
    (void)sqlite3_exec(sql, meta, NULL, NULL, NULL);
    (void)sqlite3_exec(sql, "COMMIT", NULL, NULL, NULL);
    (void)sqlite3_close(sql);
}

// rows_damage changes bytes of the file.
static void rows_damage(struct fuzz_rows *f)
{
    int fd = open(f->path.p, O_RDWR | O_CLOEXEC);
    assert(fd >= 0);
    while (f->rest.n) {
        off_t at = (off_t)rows_take_byte(f) << 8;
        at |= rows_take_byte(f);
        struct str bytes = rows_take_text(f, 16);
        ssize_t n = pwrite(fd, bytes.p ? bytes.p : "", bytes.n, at);
        assert(n == (ssize_t)bytes.n);
    }
    (void)close(fd);
}

static void rows_judge(struct fuzz_rows *f, bool ours)
{
    struct store *store = NULL;
    struct err err = {0};
    int r = rows_open(f, false, &store, &err);
    if (r == 0)
        store_close(store);
    else
        assert(err.msg[0]);
    bool was_good = r == 0;
    r = rows_open(f, true, &store, &err);
    if (r < 0) {
        assert(!was_good && err.msg[0]);
        assert(!ours || strstr(err.msg, "does not know"));
        return;
    }
    uint64_t revision = store_revision(store);
    store_close(store);
    r = rows_open(f, false, &store, &err);
    assert(r == 0 && store_revision(store) == revision);
    store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_rows f = {.rest = str_make((const char *)data, size)};
    struct store *store = NULL;
    struct err err = {0};
    (void)snprintf(f.folder, sizeof(f.folder), "%s/fuzz-rows-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(f.folder))
        abort();
    sbuf_addf(&f.path, "%s/db", f.folder);
    clock_fake_init(&f.clock, 0);
    rng_seeded_init(&f.rng, 1);
    f.sim = exec_sim_new(&f.clock, &f.rng.rng);
    int r = rows_open(&f, false, &store, &err);
    assert(r == 0);
    store_close(store);
    bool damage = rows_take_byte(&f) & 1;
    rows_fill(&f);
    if (damage)
        rows_damage(&f);
    rows_judge(&f, !damage);
    exec_sim_free(f.sim);
    sbuf_done(&f.path);
    (void)file_remove_tree(f.folder, NULL);
    return 0;
}
