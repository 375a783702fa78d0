// SPDX-License-Identifier: Apache-2.0
//
// A process that writes without pause is killed in the middle, again and again: every write it was
// told of is there, nothing is half there, revisions never go back. KILL_ROUNDS sets how often.
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <sys/wait.h>

#include "../unit/store_util.h"
#include "../unit/thread_exec.h"

#include "base/banned.h"

enum { NAMES = 200, IN_FLIGHT = 400 };

// What the writer tells its parent of each write that was acknowledged.
struct ack {
    uint64_t revision;
    uint32_t name;
    uint32_t deleted;
};

struct writer {
    struct thread_exec exec;
    struct store *store;
    int pipe;
    size_t in_flight;
};

struct pending {
    struct writer *writer;
    struct ack ack;
};

static void open_at(struct thread_exec *exec, const char *path, struct store **ret)
{
    struct err err;
    struct store_options options = {
        .exec = &exec->exec, .path = path, .history_events = 2000, .log_pages = 256};
    if (store_open(&options, ret, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        abort();
    }
}

static void acknowledged(void *arg, int code, const struct err *err)
{
    struct pending *p = arg;
    (void)err;
    p->writer->in_flight--;
    if (code == 0 && write(p->writer->pipe, &p->ack, sizeof(p->ack)) != sizeof(p->ack))
        _exit(2);
    free(p);
}

static void name_of(uint32_t i, char out[16])
{
    (void)snprintf(out, 16, "claim-%03u", i);
}

// The text says which revision it belongs to, many times over: half a write would show.
static struct object *make(uint32_t name_index, uint64_t revision)
{
    char name[16], text[512];
    name_of(name_index, name);
    size_t n = 0;
    while (n < 400)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%llu.", (unsigned long long)revision);
    return made(claims(), "ns", name, revision, text);
}

static void write_random(struct writer *w)
{
    uint32_t i = (uint32_t)rng_below(rng_system(), NAMES);
    char name[16];
    name_of(i, name);
    struct store_key key = {claims(), STR("ns"), str_z(name)};
    const struct object *head = store_head(w->store, &key);
    uint64_t revision = store_next_revision(w->store);
    bool deleted = head && rng_below(rng_system(), 4) == 0;
    struct object *o = make(i, revision);
    struct pending *p = xcalloc(1, sizeof(*p));
    *p = (struct pending){w, {revision, i, deleted}};
    struct err err;
    uint64_t expect = head ? head->revision : 0;
    int r = deleted ? store_delete(w->store, o, expect, acknowledged, p, &err)
                    : store_put(w->store, o, expect, acknowledged, p, &err);
    object_unref(o);
    if (r < 0)
        abort();
    w->in_flight++;
}

static void write_for_ever(const char *path, int pipe)
{
    struct writer w = {.pipe = pipe};
    thread_exec_init(&w.exec);
    open_at(&w.exec, path, &w.store);
    for (;;) {
        while (w.in_flight < IN_FLIGHT)
            write_random(&w);
        thread_exec_step(&w.exec);
    }
}

// What the parent knows: the newest acknowledged write of each name.
struct known {
    struct ack newest[NAMES];
    uint64_t highest;
    size_t acks;
};

static void read_acks(int pipe, struct known *k, size_t enough, pid_t child)
{
    struct ack a;
    for (size_t n = 0;; n++) {
        ssize_t got = read(pipe, &a, sizeof(a));
        if (got == 0)
            return;
        assert_int_equal(got, sizeof(a)); // whole ones only: they are smaller than PIPE_BUF
        assert_true(a.revision > k->highest);
        k->highest = a.revision;
        k->newest[a.name] = a;
        k->acks++;
        if (n == enough)
            assert_int_equal(kill(child, SIGKILL), 0);
    }
}

struct search {
    const char *name;
    bool deleted;
};

static void search_event(void *arg, const struct store_event *e)
{
    struct search *search = arg;
    search->deleted |= e->type == STORE_DELETED && str_eqz(e->object->name, search->name);
}

// was_deleted looks for a deletion after a revision.
static bool was_deleted(struct store *s, const char *name, uint64_t since)
{
    struct search search = {.name = name};
    struct store_watch watch = {
        .kind = claims(), .seen = since, .event = search_event, .arg = &search};
    struct err err;
    assert_int_equal(store_watch_start(s, &watch, &err), 0);
    store_watch_stop(s, &watch);
    return search.deleted;
}

static void check_name(struct store *s, const struct known *k, uint32_t i)
{
    char name[16];
    name_of(i, name);
    struct store_key key = {claims(), STR("ns"), str_z(name)};
    const struct object *o = store_get(s, &key);
    const struct ack *a = &k->newest[i];
    // Writes that were on disk but not yet told of may have followed.
    if (o) {
        assert_true(o->revision >= a->revision);
        assert_false(o->revision == a->revision && a->deleted);
        struct object *whole = make(i, o->revision);
        assert_true(str_eq(whole->json, o->json));
        object_unref(whole);
    } else if (a->revision >= store_oldest(s) && !a->deleted && a->revision) {
        assert_true(was_deleted(s, name, a->revision));
    }
}

static void check_after(const char *path, struct known *k)
{
    struct thread_exec exec;
    struct store *s;
    thread_exec_init(&exec);
    open_at(&exec, path, &s);
    assert_true(store_revision(s) >= k->highest);
    assert_true(store_next_revision(s) > k->highest);
    for (uint32_t i = 0; i < NAMES; i++)
        check_name(s, k, i);
    k->highest = store_revision(s);
    store_close(s);
    thread_exec_done(&exec);
}

static void one_round(const char *path, struct known *k, size_t enough)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(fds[0]);
        write_for_ever(path, fds[1]);
    }
    (void)close(fds[1]);
    read_acks(fds[0], k, enough, child);
    (void)close(fds[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    check_after(path, k);
}

static void killed_writers_lose_nothing(void **state)
{
    (void)state;
    uint64_t rounds = 4;
    if (getenv("KILL_ROUNDS"))
        assert_int_equal(str_to_u64(str_z(getenv("KILL_ROUNDS")), &rounds), 0);
    char folder[] = "/tmp/dray-kill-XXXXXX", path[64], log[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    (void)snprintf(log, sizeof(log), "%s/db-wal", folder);
    struct known k = {0};
    for (uint64_t i = 0; i < rounds; i++)
        one_round(path, &k, (size_t)rng_below(rng_system(), 6000));
    assert_true(k.acks > 0);
    (void)unlink(path);
    (void)unlink(log);
    char mark[128];
    (void)snprintf(mark, sizeof(mark), "%s.mark", path);
    (void)unlink(mark);
    assert_int_equal(rmdir(folder), 0);
}

RUN_TESTS(TEST_CASE(killed_writers_lose_nothing))
