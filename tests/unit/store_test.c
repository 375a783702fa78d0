// SPDX-License-Identifier: Apache-2.0
//
// The store in memory: heads and visible versions, order, history, watches, failing commits.
#include "store_util.h"

#include "base/banned.h"

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct store *store;
    bool fail;
};

static bool fail_when_told(void *arg, struct err *err)
{
    struct world *w = arg;
    if (w->fail)
        (void)err_set(err, ENOSPC, "no room for it");
    return w->fail;
}

static void begin(struct world *w, size_t history_events)
{
    *w = (struct world){0};
    clock_fake_init(&w->clock, 0);
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    struct err err;
    assert_int_equal(store_open(&(struct store_options){.exec = exec_sim_exec(w->sim),
                                                        .history_events = history_events,
                                                        .fail_commit = fail_when_told,
                                                        .fail_commit_arg = w},
                                &w->store, &err),
                     0);
}

static void end(struct world *w)
{
    store_close(w->store);
    exec_sim_free(w->sim);
}

static void run(struct world *w)
{
    exec_sim_run(w->sim, w->clock.mono);
}

static void check_get(const struct store *s, const char *namespace, const char *name,
                      const char *text)
{
    struct store_key key = {claims(), str_z(namespace), str_z(name)};
    const struct object *o = store_get(s, &key);
    if (!text) {
        assert_null(o);
        return;
    }
    assert_non_null(o);
    assert_str(text_of(o), text);
}

static void add_walked(struct sbuf *out, const struct object *o)
{
    sbuf_addf(out, "%s%.*s/%.*s=%.*s", out->n ? " " : "", STR_ARG(o->namespace), STR_ARG(o->name),
              STR_ARG(text_of(o)));
}

// A walk as text: "name=text name=text", one at a time and many at once.
static void check_walk(const struct store *s, struct store_walk w, const char *expected)
{
    cleanup_sbuf struct sbuf got = {0}, at_once = {0};
    const struct object *some[STORE_WALK_SOME];
    struct err err;
    w.kind = claims();
    struct store_walk again = w;
    assert_int_equal(store_walk_start(s, &w, &err), 0);
    for (const struct object *o; (o = store_walk_next(s, &w));)
        add_walked(&got, o);
    store_walk_done(&w);
    assert_str(sbuf_str(&got), expected);
    assert_int_equal(store_walk_start(s, &again, &err), 0);
    for (size_t n; (n = store_walk_some(s, &again, some));)
        for (size_t i = 0; i < n; i++)
            add_walked(&at_once, some[i]);
    store_walk_done(&again);
    assert_str(sbuf_str(&at_once), expected);
}

static void objects_share_their_json(void **state)
{
    (void)state;
    struct object *o = made(claims(), "default", "first", 7, "a-text");
    assert_str(o->namespace, "default");
    assert_str(o->name, "first");
    assert_str(
        str_from(o->json, o->body_offset),
        "\"metadata\":{\"name\":\"first\",\"namespace\":\"default\",\"resourceVersion\":\"7\"},"
        "\"text\":\"a-text\"}");
    assert_true(o->name.p > o->json.p && o->name.p < o->json.p + o->json.n);
    assert_str(o->uid, "uid-of-it");
    struct str v;
    assert_true(object_field(o, STR("metadata.name"), &v));
    assert_str(v, "first");
    assert_false(object_label(o, STR("other"), &v));
    object_unref(object_ref(o));
    object_unref(o);
    object_unref(NULL);
    // Nothing but kind and apiVersion.
    struct str bare = STR("{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\"}");
    o = object_new(&(struct object_parts){.kind = claims(), .revision = 1, .json = bare});
    assert_str(str_from(o->json, o->body_offset), "}");
    object_unref(o);
}

static void notes_go_with_their_objects_and_are_bounded(void **state)
{
    (void)state;
    struct object *o = made(claims(), "default", "first", 7, "a-text");
    struct object *other = made(claims(), "default", "second", 8, "a-text");
    assert_int_equal(object_note(o).n, 0);
    object_set_note(o, STR("bytes"));
    object_set_note(o, STR("others")); // the first one stays
    assert_str(object_note(o), "bytes");
    size_t one = object_notes_bytes();
    assert_true(one > 5 && one < 100);
    char *large = xcalloc(1, OBJECT_NOTES_MAX);
    object_set_note(other, str_make(large, OBJECT_NOTES_MAX)); // more than all may take
    assert_int_equal(object_note(other).n, 0);
    assert_int_equal(object_notes_bytes(), one);
    object_set_note(other, str_make(large, OBJECT_NOTES_MAX / 2));
    assert_int_equal(object_note(other).n, OBJECT_NOTES_MAX / 2);
    free(large);
    object_unref(other);
    object_unref(o);
    assert_int_equal(object_notes_bytes(), 0);
}

static void many_are_walked_at_once_through_writes(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 0);
    char name[16];
    for (size_t i = 0; i < STORE_WALK_SOME + 10; i++) {
        (void)snprintf(name, sizeof(name), "n%03zu", i);
        assert_int_equal(put(w.store, claims(), "one", name, "t", NULL), 0);
    }
    assert_int_equal(put(w.store, claims(), "two", "x", "t", NULL), 0);
    run(&w);
    const struct object *some[STORE_WALK_SOME];
    struct store_walk walk = {.kind = claims(), .one_namespace = true, .namespace = STR("one")};
    struct err err;
    assert_int_equal(store_walk_start(w.store, &walk, &err), 0);
    assert_int_equal(store_walk_some(w.store, &walk, some), STORE_WALK_SOME);
    assert_str(some[0]->name, "n000");
    assert_int_equal(put(w.store, claims(), "one", "n063", NULL, NULL), 0); // the last one seen
    assert_int_equal(put(w.store, claims(), "one", "n064", NULL, NULL), 0);
    assert_int_equal(put(w.store, claims(), "one", "n0641", "new", NULL), 0);
    run(&w);
    assert_int_equal(store_walk_some(w.store, &walk, some), 10);
    assert_str(some[0]->name, "n064"); // as it was
    assert_str(some[1]->name, "n065");
    assert_int_equal(store_walk_some(w.store, &walk, some), 0);
    store_walk_done(&walk);
    end(&w);
}

static void a_write_is_head_at_once_and_visible_when_safe(void **state)
{
    (void)state;
    struct world w;
    struct outcome first = {0}, second = {0}, third = {0};
    begin(&w, 0);
    assert_int_equal(put(w.store, claims(), "ns", "a", "one", &first), 0);
    struct store_key key = {claims(), STR("ns"), STR("a")};
    assert_null(store_get(w.store, &key));
    assert_str(text_of(store_head(w.store, &key)), "one");
    assert_int_equal(store_count(w.store, claims(), STR("")), 0);
    assert_int_equal(put(w.store, claims(), "ns", "a", "two", &second), 0);
    assert_int_equal(put(w.store, claims(), "ns", "a", NULL, &third), 0);
    assert_null(store_head(w.store, &key));
    assert_int_equal(first.calls, 0);
    check_walk(w.store, (struct store_walk){0}, "");
    run(&w);
    assert_int_equal(first.calls + second.calls + third.calls, 3);
    assert_int_equal(store_revision(w.store), 3);
    check_get(w.store, "ns", "a", NULL);
    check_walk(w.store, (struct store_walk){.revision = 1}, "ns/a=one");
    check_walk(w.store, (struct store_walk){.revision = 2}, "ns/a=two");
    check_walk(w.store, (struct store_walk){.revision = 3}, "");
    end(&w);
}

static void compare_and_swap_is_against_the_head(void **state)
{
    (void)state;
    struct world w;
    struct err err;
    begin(&w, 0);
    assert_int_equal(put(w.store, claims(), "ns", "a", "one", NULL), 0);
    struct object *o = made(claims(), "ns", "a", 2, "two");
    assert_int_equal(store_put(w.store, o, 0, NULL, NULL, &err), -ERR_CONFLICT);
    assert_int_equal(store_put(w.store, o, 9, NULL, NULL, &err), -ERR_CONFLICT);
    assert_int_equal(store_next_revision(w.store), 2);
    assert_int_equal(store_put(w.store, o, 1, NULL, NULL, &err), 0);
    object_unref(o);
    o = made(claims(), "ns", "other", 3, "x");
    assert_int_equal(store_delete(w.store, o, 1, NULL, NULL, &err), -ERR_CONFLICT);
    object_unref(o);
    run(&w);
    check_get(w.store, "ns", "a", "two");
    end(&w);
}

static void walks_go_in_order_and_through_writes(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 0);
    const char *const names[] = {"d", "b", "a", "c"};
    for (size_t i = 0; i < array_len(names); i++) {
        assert_int_equal(put(w.store, claims(), "two", names[i], "t", NULL), 0);
        assert_int_equal(put(w.store, claims(), "one", names[i], "t", NULL), 0);
    }
    assert_int_equal(put(w.store, classes(), "", "a", "t", NULL), 0);
    run(&w);
    check_walk(w.store, (struct store_walk){0},
               "one/a=t one/b=t one/c=t one/d=t two/a=t two/b=t two/c=t two/d=t");
    check_walk(w.store, (struct store_walk){.one_namespace = true, .namespace = STR("two")},
               "two/a=t two/b=t two/c=t two/d=t");
    check_walk(w.store, (struct store_walk){.after_namespace = STR("one"), .after_name = STR("c")},
               "one/d=t two/a=t two/b=t two/c=t two/d=t");
    check_walk(w.store,
               (struct store_walk){.one_namespace = true,
                                   .namespace = STR("two"),
                                   .after_namespace = STR("two"),
                                   .after_name = STR("c")},
               "two/d=t");
    assert_int_equal(store_count(w.store, claims(), STR("")), 8);
    assert_int_equal(store_count(w.store, claims(), STR("one")), 4);
    assert_int_equal(store_count(w.store, claims(), STR("three")), 0);
    // One step, then everything changes; the walk shows what was.
    struct store_walk walk = {.kind = claims()};
    struct err err;
    assert_int_equal(store_walk_start(w.store, &walk, &err), 0);
    assert_str(store_walk_next(w.store, &walk)->name, "a");
    assert_int_equal(put(w.store, claims(), "one", "a", NULL, NULL), 0);
    assert_int_equal(put(w.store, claims(), "one", "b", NULL, NULL), 0);
    assert_int_equal(put(w.store, claims(), "one", "bb", "new", NULL), 0);
    assert_int_equal(put(w.store, claims(), "one", "c", "new", NULL), 0);
    run(&w);
    const struct object *o = store_walk_next(w.store, &walk);
    assert_str(o->name, "b");
    assert_str(text_of(o), "t");
    o = store_walk_next(w.store, &walk);
    assert_str(o->name, "c");
    assert_str(text_of(o), "t");
    store_walk_done(&walk);
    assert_int_equal(store_count(w.store, claims(), STR("one")), 3);
    end(&w);
}

static void history_is_bounded_and_says_so(void **state)
{
    (void)state;
    struct world w;
    struct err err;
    begin(&w, 3);
    struct store_walk walk = {.kind = claims()};
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(w.store, claims(), "ns", "a", "t", NULL), 0);
    assert_int_equal(put(w.store, claims(), "ns", "b", "t", NULL), 0);
    run(&w);
    assert_int_equal(store_oldest(w.store), 1);
    assert_int_equal(store_walk_start(w.store, &walk, &err), 0);
    assert_non_null(store_walk_next(w.store, &walk));
    assert_int_equal(put(w.store, claims(), "ns", "b", NULL, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(w.store, claims(), "ns", "a", "t", NULL), 0);
    run(&w);
    assert_int_equal(store_oldest(w.store), 5);
    assert_null(store_walk_next(w.store, &walk));
    assert_true(walk.expired);
    store_walk_done(&walk);
    walk = (struct store_walk){.kind = claims(), .revision = 4};
    assert_int_equal(store_walk_start(w.store, &walk, &err), -ERR_EXPIRED);
    walk.revision = 99;
    assert_int_equal(store_walk_start(w.store, &walk, &err), -ERR_TIMEOUT);
    struct store_watch watch = {.kind = claims(), .seen = 4};
    assert_int_equal(store_watch_start(w.store, &watch, &err), -ERR_EXPIRED);
    struct store_stats stats;
    store_get_stats(w.store, &stats);
    assert_int_equal(stats.objects, 1);
    assert_int_equal(stats.history_events, 3);
    assert_int_equal(stats.writes, 8);
    end(&w);
}

struct watcher {
    struct store_watch watch;
    struct store *store;
    struct sbuf got;
    struct watcher *stops; // at the first event
};

static void watcher_event(void *arg, const struct store_event *e)
{
    struct watcher *w = arg;
    sbuf_addf(&w->got, "%c%llu ", "AMD"[e->type], (unsigned long long)e -> object -> revision);
    assert_true((e->before == NULL) == (e->type == STORE_ADDED));
    if (w->stops) {
        store_watch_stop(w->store, &w->stops->watch);
        w->stops = NULL;
    }
}

static void watcher_start(struct watcher *w, struct store *s, uint64_t since)
{
    struct err err;
    w->store = s;
    w->watch.kind = claims();
    w->watch.seen = since;
    w->watch.event = watcher_event;
    w->watch.arg = w;
    assert_int_equal(store_watch_start(s, &w->watch, &err), 0);
}

static void watches_replay_then_follow(void **state)
{
    (void)state;
    struct world w;
    struct watcher all = {0}, late = {0}, ns = {.watch.namespace = STR("two")};
    begin(&w, 0);
    watcher_start(&all, w.store, 0);
    assert_int_equal(put(w.store, claims(), "one", "a", "t", NULL), 0);
    assert_int_equal(put(w.store, classes(), "", "a", "t", NULL), 0);
    assert_int_equal(put(w.store, claims(), "one", "a", "t", NULL), 0);
    assert_int_equal(put(w.store, claims(), "two", "a", "t", NULL), 0);
    assert_int_equal(put(w.store, claims(), "one", "a", NULL, NULL), 0);
    assert_str(sbuf_str(&all.got), "");
    run(&w);
    assert_str(sbuf_str(&all.got), "A1 M3 A4 D5 ");
    watcher_start(&late, w.store, 3);
    watcher_start(&ns, w.store, 0);
    assert_str(sbuf_str(&late.got), "A4 D5 ");
    assert_int_equal(put(w.store, claims(), "one", "a", "t", NULL), 0);
    run(&w);
    assert_str(sbuf_str(&late.got), "A4 D5 A6 ");
    assert_str(sbuf_str(&ns.got), "A4 ");
    store_watch_stop(w.store, &all.watch);
    store_watch_stop(w.store, &late.watch);
    store_watch_stop(w.store, &ns.watch);
    end(&w);
    sbuf_done(&all.got);
    sbuf_done(&late.got);
    sbuf_done(&ns.got);
}

static void callbacks_may_stop_any_watch(void **state)
{
    (void)state;
    struct world w;
    struct watcher a = {0}, b = {0}, c = {0}, self = {0};
    begin(&w, 0);
    watcher_start(&a, w.store, 0);
    watcher_start(&b, w.store, 0);
    watcher_start(&c, w.store, 0);
    a.stops = &b; // the next one
    c.stops = &c; // itself
    assert_int_equal(put(w.store, claims(), "ns", "a", "t", NULL), 0);
    assert_int_equal(put(w.store, claims(), "ns", "a", "u", NULL), 0);
    run(&w);
    assert_str(sbuf_str(&a.got), "A1 M2 ");
    assert_str(sbuf_str(&b.got), "");
    assert_str(sbuf_str(&c.got), "A1 ");
    self.stops = &self; // within the replay
    watcher_start(&self, w.store, 0);
    assert_str(sbuf_str(&self.got), "A1 ");
    store_watch_stop(w.store, &a.watch);
    end(&w);
    sbuf_done(&a.got);
    sbuf_done(&b.got);
    sbuf_done(&c.got);
    sbuf_done(&self.got);
}

static void a_failing_commit_loses_all_that_waited(void **state)
{
    (void)state;
    struct world w;
    struct outcome good = {0}, changed = {0}, added = {0}, removed = {0}, after = {0};
    struct store_stats stats;
    begin(&w, 0);
    assert_int_equal(put(w.store, claims(), "ns", "a", "one", &good), 0);
    run(&w);
    w.fail = true;
    assert_int_equal(put(w.store, claims(), "ns", "a", "two", &changed), 0);
    assert_int_equal(put(w.store, claims(), "ns", "b", "new", &added), 0);
    assert_int_equal(put(w.store, claims(), "ns", "b", NULL, &removed), 0);
    run(&w);
    assert_int_equal(changed.calls, 1);
    assert_int_equal(changed.code, -ENOSPC);
    assert_string_equal(changed.text, "no room for it");
    assert_int_equal(added.code, -ENOSPC);
    assert_int_equal(removed.code, -ENOSPC);
    store_get_stats(w.store, &stats);
    assert_true(stats.failing);
    struct store_key key = {claims(), STR("ns"), STR("a")};
    assert_str(text_of(store_head(w.store, &key)), "one");
    check_walk(w.store, (struct store_walk){0}, "ns/a=one");
    assert_int_equal(store_revision(w.store), 1);
    w.fail = false;
    uint64_t next = store_next_revision(w.store);
    assert_true(next > 4); // never used twice
    assert_int_equal(put(w.store, claims(), "ns", "b", "again", &after), 0);
    run(&w);
    assert_int_equal(after.code, 0);
    check_walk(w.store, (struct store_walk){0}, "ns/a=one ns/b=again");
    store_get_stats(w.store, &stats);
    assert_false(stats.failing);
    end(&w);
}

static void closing_answers_what_was_accepted(void **state)
{
    (void)state;
    struct world w;
    struct outcome out = {0};
    begin(&w, 0);
    assert_int_equal(put(w.store, claims(), "ns", "a", "t", &out), 0);
    end(&w);
    assert_int_equal(out.calls, 1);
    assert_int_equal(out.code, 0);
}

RUN_TESTS(TEST_CASE(objects_share_their_json),
          TEST_CASE(notes_go_with_their_objects_and_are_bounded),
          TEST_CASE(many_are_walked_at_once_through_writes),
          TEST_CASE(a_write_is_head_at_once_and_visible_when_safe),
          TEST_CASE(compare_and_swap_is_against_the_head),
          TEST_CASE(walks_go_in_order_and_through_writes),
          TEST_CASE(history_is_bounded_and_says_so), TEST_CASE(watches_replay_then_follow),
          TEST_CASE(callbacks_may_stop_any_watch),
          TEST_CASE(a_failing_commit_loses_all_that_waited),
          TEST_CASE(closing_answers_what_was_accepted))
