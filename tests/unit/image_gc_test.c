// SPDX-License-Identifier: Apache-2.0
//
// Images that nobody uses go when their disk fills up: which of them, when, and what is said. The disk's size is the
// test's.
#include <unistd.h>

#include <sys/stat.h>

#include "image_kit.h"
#include "node/image/image.h"
#include "node/image_keeper.h"
#include "pods_world.h"
#include "unit.h"

#include "base/banned.h"

#define SEC     CLOCK_NS_PER_SEC
#define MIN_AGE (120 * SEC)
#define ONE     UINT64_C(10000) // bytes of an image: a tenth of the disk

// --- The store -----------------------------------------------------------------------------------

static struct {
    char dir[64];
    struct clock_fake clock;
    struct image_store *store;
    struct arena arena;
    uint64_t others; // what else is on the disk, in images
    uint64_t late;   // images that are gone and not free yet
    int fails;       // errno of measuring; 0: none
} t;

static void count(void *arg, const struct image_info *info)
{
    *(uint64_t *)arg += info->size != 0;
}

static int measure(void *arg, uint64_t *ret_capacity, uint64_t *ret_available)
{
    uint64_t n = t.others + t.late;
    (void)arg;
    if (t.fails)
        return -t.fails;
    kit_each_image(t.store, count, &n);
    *ret_capacity = 10 * ONE;
    *ret_available = n < 10 ? (10 - n) * ONE : 0;
    return 0;
}

static void open_store(void)
{
    struct err err = {0};
    struct str folder = arena_strf(&t.arena, "%s/store", t.dir);
    struct str local = arena_strf(&t.arena, "%s/local", t.dir);
    const struct image_store_options o = {
        .folder = folder.p, .local = local.p, .clock = &t.clock.clock, .measure = measure};
    image_store_free(t.store);
    if (image_store_new(&o, &t.store, &err) < 0)
        fail_msg("%s", err.msg);
}

static int setup(void **state)
{
    (void)state;
    memset(&t, 0, sizeof(t));
    (void)snprintf(t.dir, sizeof(t.dir), "/tmp/dray-image-gc-XXXXXX");
    if (!mkdtemp(t.dir))
        return -1;
    clock_fake_init(&t.clock, INT64_C(1800000000) * SEC);
    (void)mkdir(arena_strf(&t.arena, "%s/local", t.dir).p, 0755);
    open_store();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    image_store_free(t.store);
    kit_remove(t.dir);
    arena_done(&t.arena);
    return 0;
}

// use has an image come, or only uses it, and a second passes.
static struct image_info use(const char *name)
{
    struct image_info info;
    struct err err = {0};
    const struct runtime_image image = {.reference = str_z(name)};
    if (image_get(t.store, &image, &t.arena, &info, &err) < 0)
        fail_msg("%s: %s", name, err.msg);
    clock_fake_advance(&t.clock, SEC);
    return info;
}

// make has images that were never here: a, b and so on.
static void make(const char *names)
{
    for (char name[2] = {*names}; *names; name[0] = *++names) {
        cleanup_sbuf struct sbuf bytes = {0};
        struct kit_tar tar = {0};
        sbuf_add_repeat(&bytes, *names, ONE);
        kit_tar_add(&tar, '0', "file", 0644, sbuf_str(&bytes), NULL);
        kit_tar_end(&tar);
        const struct str layers[] = {sbuf_str(&tar.bytes)};
        const struct kit_image image = {
            .layers = layers,
            .layers_len = 1,
            .config = arena_strf(&t.arena, "{\"Cmd\":[\"%s\"]}", name).p,
            .name = "latest",
        };
        kit_layout(arena_strf(&t.arena, "%s/local/%s", t.dir, name).p, &image);
        sbuf_done(&tar.bytes);
        (void)use(name);
    }
}

static void add_name(void *arg, const struct image_info *info)
{
    if (info->config.command.n)
        ((bool *)arg)[(unsigned char)info->config.command.p[0].p[0]] = true;
}

// here is the names of the images that are here; asking is no use.
static const char *here(void)
{
    bool all[256] = {false};
    struct sbuf out = {0};
    kit_each_image(t.store, add_name, all);
    for (int i = 0; i < 256; i++)
        if (all[i])
            sbuf_addc(&out, (char)i);
    const char *text = arena_str(&t.arena, sbuf_str(&out)).p;
    sbuf_done(&out);
    return text;
}

static bool is_used(void *arg, struct str id, struct str name)
{
    return arg && (str_eqz(id, arg) || str_eqz(name, arg));
}

static int collect(const char *used, bool all, struct image_freed *ret, struct err *err)
{
    const struct image_gc how = {
        .rules = {.high_percent = 85, .low_percent = 80, .min_age_ns = MIN_AGE, .all = all},
        .used = is_used,
        .arg = (void *)(uintptr_t)used};
    return image_gc(t.store, &how, ret, err);
}

static struct image_freed free_some(const char *used)
{
    struct image_freed freed;
    struct err err = {0};
    if (collect(used, false, &freed, &err) < 0)
        fail_msg("%s", err.msg);
    return freed;
}

static void the_oldest_go_first_and_no_more_than_needed(void **state)
{
    (void)state;
    make("abcd");
    (void)use("a"); // so b is the oldest
    clock_fake_advance(&t.clock, MIN_AGE);
    t.others = 4; // 80 %
    struct image_freed f = free_some(NULL);
    assert_int_equal(f.removed, 0);
    assert_int_equal(f.wanted, 0);
    assert_true(f.enough);
    assert_string_equal(here(), "abcd");
    t.others = 6; // 100 %
    f = free_some(NULL);
    assert_string_equal(here(), "ad");
    assert_int_equal(f.removed, 2);
    assert_int_equal(f.percent_before, 100);
    assert_int_equal(image_used_percent(&f), 80);
    assert_int_equal(f.wanted, 2 * ONE);
    assert_int_equal(f.freed, 2 * ONE);
    assert_true(f.enough);
    // What is gone can come again.
    (void)use("b");
    assert_string_equal(here(), "abd");
}

static void what_containers_have_stays(void **state)
{
    (void)state;
    make("abc");
    struct image_info c = use("c"), a = use("a");
    clock_fake_advance(&t.clock, MIN_AGE);
    t.others = 7;
    assert_true(c.name.n > 0);
    struct image_freed f = free_some(c.name.p); // containers say NAME@DIGEST, or
    assert_string_equal(here(), "c");
    assert_true(f.enough);
    t.others = 9;
    make("d");
    clock_fake_advance(&t.clock, MIN_AGE);
    f = free_some(c.id.p); // the id
    assert_string_equal(here(), "c");
    assert_int_equal(f.wanted, 2 * ONE);
    assert_int_equal(f.freed, ONE);
    assert_false(f.enough);
    assert_false(str_eq(a.id, c.id));
}

// Being had by a container is being used, so that it is young when the container is gone.
static void last_use_is_that_of_containers_and_survives_a_restart(void **state)
{
    (void)state;
    make("abc");
    struct image_info a = use("a");
    (void)use("b");
    (void)use("c");
    clock_fake_advance(&t.clock, MIN_AGE);
    (void)free_some(a.id.p);
    clock_fake_advance(&t.clock, MIN_AGE);
    open_store();
    t.others = 6; // 90 %
    (void)free_some(NULL);
    assert_string_equal(here(), "ac");
}

static void what_was_used_just_now_stays(void **state)
{
    struct image_freed f;
    struct err err = {0};
    (void)state;
    make("ab");
    clock_fake_advance(&t.clock, MIN_AGE - 2 * SEC); // a is old enough, b has a second to go
    t.others = 8;
    f = free_some(NULL);
    assert_string_equal(here(), "b");
    assert_false(f.enough);
    // Not even when the disk is full.
    assert_int_equal(collect(NULL, true, &f, &err), 0);
    assert_string_equal(here(), "b");
    clock_fake_advance(&t.clock, SEC);
    // Looking for it is a use.
    cleanup_arena struct arena arena = {0};
    struct image_info info;
    assert_int_equal(image_find(t.store, STR("b"), &arena, &info, &err), 0);
    (void)free_some(NULL);
    assert_string_equal(here(), "b");
}

static void everything_goes_when_a_pull_found_no_space(void **state)
{
    struct image_freed f;
    struct err err = {0};
    (void)state;
    make("abc");
    struct image_info b = use("b");
    clock_fake_advance(&t.clock, MIN_AGE);
    assert_int_equal(collect(b.id.p, true, &f, &err), 0); // 30 %
    assert_string_equal(here(), "b");
    assert_int_equal(f.removed, 2);
    assert_true(f.enough);
}

// Some file systems tell later that something is free: that does not cost every image.
static void a_disk_that_is_late_loses_no_more(void **state)
{
    (void)state;
    make("abcd");
    clock_fake_advance(&t.clock, MIN_AGE);
    t.others = 5;
    t.late = 100;
    struct image_freed f = free_some(NULL);
    assert_int_equal(f.removed, 2);
    assert_string_equal(here(), "cd");
}

static void clocks_that_were_wrong_keep_nothing_for_ever(void **state)
{
    (void)state;
    make("a");
    t.clock.wall -= 365 * 86400 * SEC;
    t.others = 9;
    (void)free_some(NULL);
    assert_string_equal(here(), "a");
    clock_fake_advance(&t.clock, MIN_AGE);
    (void)free_some(NULL);
    assert_string_equal(here(), "");
}

// A folder that is used as it is takes no space; removing what the store knows of it frees none.
static void folders_as_they_are_stay(void **state)
{
    cleanup_arena struct arena arena = {0};
    struct image_info info;
    struct image_freed f;
    struct err err = {0};
    (void)state;
    struct str root = arena_strf(&t.arena, "%s/local/root", t.dir);
    struct str reference = arena_strf(&t.arena, "dir:%s", root.p);
    assert_int_equal(mkdir(root.p, 0755), 0);
    (void)use(reference.p);
    clock_fake_advance(&t.clock, MIN_AGE);
    assert_int_equal(collect(NULL, true, &f, &err), 0);
    assert_int_equal(f.removed, 0);
    assert_int_equal(image_find(t.store, reference, &arena, &info, &err), 0);
}

static void a_disk_that_does_not_answer_is_an_error(void **state)
{
    struct image_freed f;
    struct err err = {0};
    (void)state;
    make("a");
    clock_fake_advance(&t.clock, MIN_AGE);
    t.fails = EIO;
    assert_int_equal(collect(NULL, true, &f, &err), -EIO);
    assert_non_null(strstr(err.msg, "how full"));
    assert_string_equal(here(), "a");
}

// --- Who looks after it --------------------------------------------------------------------------

static struct {
    struct runtime runtime;
    struct runtime_image_gc how;
    int calls;
    runtime_freed_fn done;
    void *arg;
    struct sbuf said;
} m;

static void on_gc(struct runtime *r, const struct runtime_image_gc *how, runtime_freed_fn done,
                  void *arg)
{
    (void)r;
    assert_null(m.done); // one at a time
    m.how = *how;
    m.calls++;
    m.done = done;
    m.arg = arg;
}

static void on_say(void *arg, const char *line)
{
    (void)arg;
    sbuf_addf(&m.said, "%s\n", line);
}

static const struct runtime_ops ops = {.image_gc = on_gc};

static struct image_keeper *keeper(struct pods_world *p)
{
    m.runtime.ops = &ops;
    m.calls = 0;
    m.done = NULL;
    const struct image_keeper_options o = {.exec = exec_sim_exec(p->w->sim),
                                           .runtime = &m.runtime,
                                           .events = p->events,
                                           .node = STR("n1"),
                                           .say = on_say};
    struct image_keeper *k = image_keeper_new(&o);
    image_keeper_start(k);
    world_run(p->w);
    return k;
}

static void answer(struct pods_world *p, int code, const struct image_freed *f)
{
    struct err err = {0};
    runtime_freed_fn done = m.done;
    if (code < 0)
        (void)err_set(&err, -code, "it does not answer");
    sbuf_clear(&m.said);
    m.done = NULL;
    done(m.arg, code, f, code < 0 ? &err : NULL);
    world_run(p->w);
}

static const struct image_freed nothing = {
    .capacity = 10 * ONE, .available = 5 * ONE, .enough = true};
static const struct image_freed too_little = {.capacity = 10 << 20,
                                              .available = 1 << 20,
                                              .percent_before = 95,
                                              .removed = 1,
                                              .wanted = 3 << 19,
                                              .freed = 1 << 19};

TEST_WITH_PODS(it_is_looked_every_five_minutes_and_at_once_without_space)
{
    struct image_keeper *k = keeper(p);
    assert_int_equal(m.calls, 1);
    assert_int_equal(m.how.high_percent, 85);
    assert_int_equal(m.how.low_percent, 80);
    assert_int_equal(m.how.min_age_ns, MIN_AGE);
    assert_false(m.how.all);
    assert_true(image_keeper_busy(k));
    // A pull finds no space meanwhile: that comes next.
    image_keeper_disk_full(k);
    image_keeper_disk_full(k);
    assert_int_equal(m.calls, 1);
    answer(p, 0, &nothing);
    assert_int_equal(m.calls, 2);
    assert_true(m.how.all);
    answer(p, 0, &nothing);
    assert_string_equal(m.said.n ? m.said.p : "", "");
    world_pass(p->w, 299);
    assert_int_equal(m.calls, 2);
    world_pass(p->w, 2);
    assert_int_equal(m.calls, 3);
    assert_false(m.how.all);
    // One that takes longer than that is not asked twice.
    world_pass(p->w, 700);
    assert_int_equal(m.calls, 3);
    answer(p, 0, &nothing);
    image_keeper_quiet(k);
    image_keeper_disk_full(k);
    world_pass(p->w, 700);
    assert_int_equal(m.calls, 3);
    assert_false(image_keeper_busy(k));
    image_keeper_free(k);
    sbuf_done(&m.said);
}

static void reclaimed(void *arg)
{
    ++*(int *)arg;
}

// A caller that waits for space hears of the end, also when the agent stops meanwhile.
TEST_WITH_PODS(reclaiming_always_ends)
{
    struct image_keeper *k = keeper(p);
    int ends = 0;
    image_keeper_reclaim(k, reclaimed, &ends); // the usual look is under way
    answer(p, 0, &nothing);
    assert_int_equal(ends, 0);
    assert_true(m.how.all);
    answer(p, -EIO, &nothing);
    assert_int_equal(ends, 1);
    world_pass(p->w, 301);
    image_keeper_reclaim(k, reclaimed, &ends);
    image_keeper_quiet(k);
    answer(p, 0, &nothing);
    assert_int_equal(ends, 2);
    image_keeper_reclaim(k, reclaimed, &ends);
    world_run(p->w);
    assert_int_equal(ends, 3);
    image_keeper_free(k);
    sbuf_done(&m.said);
}

TEST_WITH_PODS(people_hear_what_went_and_what_could_not)
{
    struct image_keeper *k = keeper(p);
    answer(p, 0, &too_little);
    assert_string_equal(m.said.p,
                        "removed 1 unused image, 512.0 KiB: their disk was 95 % full, now it is "
                        "90 %\n"
                        "the disk of the images has 10.0 MiB, 90 % of it in use: 1.5 MiB should be "
                        "freed, unused images had 512.0 KiB. Remove something else, or give "
                        "it more room\n");
    pods_world_expect_event(p, "FreeDiskSpaceFailed|the disk of the images has 10.0 MiB, ");
    world_pass(p->w, 301);
    answer(p, -EIO, &nothing); // the first time it may pass
    assert_non_null(strstr(m.said.p, "cannot remove images: it does not answer"));
    assert_null(strstr(pods_world_events(p), "ImageGCFailed"));
    world_pass(p->w, 301);
    answer(p, -EIO, &nothing);
    pods_world_expect_event(p, "ImageGCFailed|cannot remove images: it does not answer\n");
    image_keeper_free(k);
    sbuf_done(&m.said);
}

TEST_WITH_PODS(who_goes_while_it_is_looked_hears_nothing)
{
    struct image_keeper *k = keeper(p);
    image_keeper_free(k);
    answer(p, 0, &too_little);
    assert_string_equal(m.said.n ? m.said.p : "", "");
    sbuf_done(&m.said);
}

// Whoever looks after the disk hears of it; the pull is tried again as any other.
TEST_WITH_PODS(an_image_without_space)
{
    p->machine.huge = "huge:1";
    assert_ok(do_create(p->w, POD("a"),
                        PODS_JSON("a", "\"containers\":[{\"name\":\"h\",\"image\":\"huge:1\"}]")));
    world_run(p->w);
    assert_int_equal(p->disk_full, 1);
    assert_pod(p, "a", "status.containerStatuses[0].state.waiting.reason", "ErrImagePull");
    p->machine.huge = "";
    p->machine.registry = "huge:1";
    world_pass(p->w, 20);
    assert_int_equal(fake_find(&p->machine, "h")->state, RUNTIME_RUNNING);
    assert_int_equal(p->disk_full, 1);
}

#define STORE_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(the_oldest_go_first_and_no_more_than_needed),
        STORE_CASE(what_containers_have_stays),
        STORE_CASE(last_use_is_that_of_containers_and_survives_a_restart),
        STORE_CASE(what_was_used_just_now_stays),
        STORE_CASE(everything_goes_when_a_pull_found_no_space),
        STORE_CASE(a_disk_that_is_late_loses_no_more),
        STORE_CASE(clocks_that_were_wrong_keep_nothing_for_ever),
        STORE_CASE(folders_as_they_are_stay),
        STORE_CASE(a_disk_that_does_not_answer_is_an_error),
        TEST_CASE(it_is_looked_every_five_minutes_and_at_once_without_space),
        TEST_CASE(reclaiming_always_ends),
        TEST_CASE(people_hear_what_went_and_what_could_not),
        TEST_CASE(who_goes_while_it_is_looked_hears_nothing),
        TEST_CASE(an_image_without_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
