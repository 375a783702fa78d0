// SPDX-License-Identifier: Apache-2.0
//
// The store against a simple model on a disk that fails: random writes, lists of any moment, watches,
// crashes and faults, all from a seed. What was acknowledged is there; what is there makes sense.
#include "../unit/store_util.h"
#include "fault_vfs.h"

#include "base/banned.h"

#define DB_FILE "/db"

enum { NAMES = 12, HISTORY = 20 };

// One change, as the model remembers it: text is 0 for a deletion.
struct change {
    uint64_t revision;
    size_t name;
    uint64_t text;
};

struct changes VEC(struct change);
struct revisions VEC(uint64_t);

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct store *store;
    struct changes known;    // acknowledged, in order
    struct changes waiting;  // accepted, not yet answered
    struct changes doubtful; // refused since the last success: a crash may show a group of them yet
    struct revisions groups; // where the refused groups end
    struct changes seen;     // by the watch
    struct store_watch watch;
    uint64_t texts;
    uint64_t highest; // revision ever seen
    size_t answered;  // of waiting, in this group
    int last_code;
};

static const char *name_of(size_t i)
{
    static const char *const names[NAMES] = {"a", "b",  "c",  "d",  "e",  "f",
                                             "g", "aa", "ab", "ac", "ba", "zz"};
    return names[i];
}

static size_t name_index(struct str name)
{
    for (size_t i = 0; i < NAMES; i++)
        if (str_eqz(name, name_of(i)))
            return i;
    fail_msg("an object nobody wrote: %.*s", STR_ARG(name));
    return 0;
}

static uint64_t number_of(const struct object *o)
{
    uint64_t n = 0;
    assert_int_equal(str_to_u64(text_of(o), &n), 0);
    return n;
}

static void on_event(void *arg, const struct store_event *e)
{
    struct world *w = arg;
    if (w->seen.n)
        assert_true(vec_last(&w->seen)->revision < e->object->revision);
    vec_push(&w->seen, ((struct change){e->object->revision, name_index(e->object->name),
                                        e->type == STORE_DELETED ? 0 : number_of(e->object)}));
}

static int open_store(struct world *w, struct err *err)
{
    return store_open(&(struct store_options){.exec = exec_sim_exec(w->sim),
                                              .path = DB_FILE,
                                              .vfs = "fault",
                                              .history_events = HISTORY,
                                              .log_pages = 100,
                                              .commit_on_exec = true},
                      &w->store, err);
}

static void start_watch(struct world *w, uint64_t since)
{
    struct err err;
    w->watch = (struct store_watch){.kind = claims(), .seen = since, .event = on_event, .arg = w};
    assert_int_equal(store_watch_start(w->store, &w->watch, &err), 0);
}

static void begin(struct world *w, uint64_t seed)
{
    struct err err;
    *w = (struct world){0};
    clock_fake_init(&w->clock, 0);
    rng_seeded_init(&w->rng, seed);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    fault_vfs_new("fault", seed + 1);
    if (open_store(w, &err) < 0)
        fail_msg("%s", err.msg);
    start_watch(w, 0);
}

static void end(struct world *w)
{
    store_watch_stop(w->store, &w->watch);
    store_close(w->store);
    exec_sim_free(w->sim);
    fault_vfs_free();
    vec_done(&w->known);
    vec_done(&w->waiting);
    vec_done(&w->doubtful);
    vec_done(&w->groups);
    vec_done(&w->seen);
}

static uint64_t below(struct world *w, uint64_t n)
{
    return rng_below(&w->rng.rng, n);
}

static void on_done(void *arg, int code, const struct err *err)
{
    struct world *w = arg;
    assert_true((code == 0) == (err == NULL));
    w->answered++;
    w->last_code = code;
}

// write_one accepts a random change.
static void write_one(struct world *w)
{
    size_t name = below(w, NAMES);
    struct store_key key = {claims(), STR("ns"), str_z(name_of(name))};
    const struct object *head = store_head(w->store, &key);
    bool remove = head && below(w, 3) == 0;
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)++w->texts);
    uint64_t revision = store_next_revision(w->store);
    assert_true(revision > w->highest);
    struct object *o = made(claims(), "ns", name_of(name), revision, text);
    struct err err;
    uint64_t expect = head ? head->revision : 0;
    int r = remove ? store_delete(w->store, o, expect, on_done, w, &err)
                   : store_put(w->store, o, expect, on_done, w, &err);
    object_unref(o);
    assert_int_equal(r, 0);
    vec_push(&w->waiting, ((struct change){revision, name, remove ? 0 : w->texts}));
}

// Each try writes over the one before it: of all refused groups a crash can show at most one, whole.
static void doubt_waiting(struct world *w)
{
    if (w->waiting.n == 0)
        return;
    vec_foreach(&w->waiting, c)
        vec_push(&w->doubtful, *c);
    vec_push(&w->groups, vec_last(&w->waiting)->revision);
}

// settle lets the group be committed, or fail as a whole.
static void settle(struct world *w)
{
    w->answered = 0;
    exec_sim_run(w->sim, w->clock.mono);
    assert_int_equal(w->answered, w->waiting.n);
    if (w->waiting.n == 0)
        return;
    if (w->last_code == 0) {
        vec_clear(&w->doubtful);
        vec_clear(&w->groups);
        vec_foreach(&w->waiting, c)
            vec_push(&w->known, *c);
        w->highest = vec_last(&w->known)->revision;
    } else {
        doubt_waiting(w);
    }
    vec_clear(&w->waiting);
}

// state_at is the model's answer to a list at a revision.
static void state_at(const struct world *w, uint64_t revision, uint64_t texts[NAMES])
{
    memset(texts, 0, NAMES * sizeof(texts[0]));
    for (size_t i = 0; i < w->known.n && w->known.p[i].revision <= revision; i++)
        texts[w->known.p[i].name] = w->known.p[i].text;
}

static void check_list(struct world *w, uint64_t revision)
{
    uint64_t expected[NAMES], got[NAMES] = {0};
    struct store_walk walk = {.kind = claims(), .revision = revision};
    struct err err;
    assert_int_equal(store_walk_start(w->store, &walk, &err), 0);
    for (const struct object *o; (o = store_walk_next(w->store, &walk));) {
        size_t name = name_index(o->name);
        assert_int_equal(got[name], 0);
        assert_true(o->revision <= walk.revision);
        got[name] = number_of(o);
    }
    store_walk_done(&walk);
    state_at(w, walk.revision, expected);
    assert_memory_equal(expected, got, sizeof(got));
}

static void check_now(struct world *w)
{
    uint64_t expected[NAMES];
    size_t count = 0;
    state_at(w, UINT64_MAX, expected);
    for (size_t i = 0; i < NAMES; i++) {
        struct store_key key = {claims(), STR("ns"), str_z(name_of(i))};
        const struct object *o = store_get(w->store, &key);
        assert_int_equal(o ? number_of(o) : 0, expected[i]);
        assert_ptr_equal(o, store_head(w->store, &key));
        count += o != NULL;
    }
    assert_int_equal(store_count(w->store, claims(), STR("ns")), count);
    assert_int_equal(store_revision(w->store), w->known.n ? vec_last(&w->known)->revision : 0);
    check_list(w, 0);
    uint64_t oldest = store_oldest(w->store), newest = store_revision(w->store);
    if (newest > oldest)
        check_list(w, oldest + 1 + below(w, newest - oldest));
}

static void check_seen(const struct world *w)
{
    assert_int_equal(w->seen.n, w->known.n);
    for (size_t i = 0; i < w->seen.n; i++)
        assert_memory_equal(&w->seen.p[i], &w->known.p[i], sizeof(struct change));
}

// reopen: after a crash, what was refused may be there after all.
static void reopen(struct world *w)
{
    struct err err;
    if (open_store(w, &err) < 0)
        fail_msg("%s", err.msg);
    uint64_t revision = store_revision(w->store);
    assert_true(revision >= w->highest);
    uint64_t group_start = w->highest;
    vec_foreach(&w->groups, end_of_group) {
        if (*end_of_group < revision)
            group_start = *end_of_group;
    }
    vec_foreach(&w->doubtful, c) {
        if (c->revision > group_start && c->revision <= revision)
            vec_push(&w->known, *c);
    }
    vec_clear(&w->groups);
    vec_clear(&w->doubtful);
    w->highest = revision;
    // The watch resumes where it was, across the restart.
    start_watch(w, w->seen.n ? vec_last(&w->seen)->revision : 0);
}

static void crash(struct world *w, bool before_commit)
{
    // A crash between accepting and committing takes what nobody was told of.
    store_watch_stop(w->store, &w->watch);
    fault_vfs_crash();
    w->answered = 0;
    store_close(w->store);
    if (before_commit)
        assert_int_equal(w->answered, w->waiting.n);
    doubt_waiting(w);
    vec_clear(&w->waiting);
    fault_vfs_restart();
    reopen(w);
}

static void plan_fault(struct world *w)
{
    static const enum fault_kind kinds[] = {FAULT_WRITE, FAULT_TORN, FAULT_FULL, FAULT_SYNC};
    fault_vfs_plan(kinds[below(w, array_len(kinds))], below(w, 12), 1 + below(w, 6));
}

static void random_run(uint64_t seed, size_t steps)
{
    struct world w;
    begin(&w, seed);
    for (size_t i = 0; i < steps; i++) {
        for (uint64_t n = 1 + below(&w, 4); n > 0; n--)
            write_one(&w);
        uint64_t what = below(&w, 24);
        if (what == 0) {
            crash(&w, true);
        } else if (what == 1) {
            settle(&w);
            crash(&w, false);
        } else if (what < 5) {
            plan_fault(&w);
            settle(&w);
        } else {
            settle(&w);
        }
        check_now(&w);
        check_seen(&w);
    }
    fault_vfs_plan(FAULT_NONE, 0, 0);
    end(&w);
}

static void store_and_model_agree(void **state)
{
    (void)state;
    const char *rounds = getenv("FAULT_ROUNDS");
    uint64_t n = 40;
    if (rounds)
        assert_int_equal(str_to_u64(str_z(rounds), &n), 0);
    for (uint64_t seed = 1; seed <= n; seed++)
        random_run(seed, 120);
}

// Every write and every sync of a small run fails once, in each way.
static void every_single_fault_is_survived(void **state)
{
    (void)state;
    for (int kind = FAULT_WRITE; kind <= FAULT_SYNC; kind++) {
        for (uint64_t at = 0; at < 60; at++) {
            struct world w;
            begin(&w, 7);
            fault_vfs_plan((enum fault_kind)kind, at, 1);
            for (int i = 0; i < 12; i++) {
                write_one(&w);
                write_one(&w);
                settle(&w);
                check_now(&w);
            }
            crash(&w, false);
            check_now(&w);
            check_seen(&w);
            end(&w);
        }
    }
}

static void a_full_disk_refuses_writes_and_keeps_reads(void **state)
{
    (void)state;
    struct world w;
    struct outcome out = {0};
    begin(&w, 3);
    write_one(&w);
    settle(&w);
    fault_vfs_plan(FAULT_FULL, 0, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        write_one(&w);
        settle(&w);
        assert_int_equal(w.last_code, -ENOSPC);
        check_now(&w);
    }
    assert_int_equal(put(w.store, classes(), "", "c", "t", &out), 0);
    exec_sim_run(w.sim, w.clock.mono);
    assert_int_equal(out.code, -ENOSPC);
    assert_non_null(strstr(out.text, "free some space"));
    fault_vfs_plan(FAULT_NONE, 0, 0);
    write_one(&w);
    settle(&w);
    assert_int_equal(w.last_code, 0);
    check_now(&w);
    end(&w);
}

// Whatever bit of the database changes: the store opens with what was there, or refuses with advice.
static void changed_bits_are_found(void **state)
{
    (void)state;
    size_t refused = 0, opened = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct world w;
        struct err err;
        begin(&w, 11);
        for (int i = 0; i < 30; i++) {
            write_one(&w);
            settle(&w);
        }
        store_watch_stop(w.store, &w.watch);
        store_close(w.store);
        struct rng_seeded rng;
        rng_seeded_init(&rng, seed);
        assert_true(fault_vfs_flip(DB_FILE, rng_below(&rng.rng, fault_vfs_size(DB_FILE)),
                                   (unsigned)rng_below(&rng.rng, 8)));
        w.store = NULL;
        if (open_store(&w, &err) == 0) {
            opened++;
            start_watch(&w, store_revision(w.store));
            check_now(&w);
            store_watch_stop(w.store, &w.watch);
            store_close(w.store);
        } else {
            refused++;
            assert_true(err.code == ERR_INVALID || err.code == EIO || err.code == EBUSY);
        }
        w.store = NULL;
        exec_sim_free(w.sim);
        fault_vfs_free();
        vec_done(&w.known);
        vec_done(&w.waiting);
        vec_done(&w.doubtful);
        vec_done(&w.groups);
        vec_done(&w.seen);
    }
    assert_true(refused > 0 && opened > 0);
}

RUN_TESTS(TEST_CASE(store_and_model_agree), TEST_CASE(every_single_fault_is_survived),
          TEST_CASE(a_full_disk_refuses_writes_and_keeps_reads), TEST_CASE(changed_bits_are_found))
