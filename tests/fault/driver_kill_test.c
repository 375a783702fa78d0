// SPDX-License-Identifier: Apache-2.0
//
// A driver that dies, or whose disk is full, at every single step of preparing and unpreparing claims.
// The hardware is a folder with a file for each device that is set up; the callbacks themselves have
// steps to die at. After each death: what is on disk is consistent, nobody else gets the devices, and
// calling again completes what was interrupted.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "cdi/cache.h"
#include "driver/sdk/core.h"
#include "driver/sdk/intents.h"
#include "os/fault.h"
#include "os/file.h"
#include "unit.h"

#include "base/banned.h"

enum { POINTS_MAX = 400 };

struct world {
    char top[64];
    char data[96], cdi[96], hw[96];
    const char *boot;
    int steps; // taken so far
    int die_at;
    int fail_at;
};

static int on_step(void *arg, const char *what)
{
    struct world *w = arg;
    (void)what;
    w->steps++;
    if (w->steps == w->die_at)
        (void)raise(SIGKILL);
    return w->steps == w->fail_at ? -ENOSPC : 0;
}

// --- The hardware --------------------------------------------------------------------------------

static int hw_prepare(void *arg, const struct dray_claim *claim, struct dray_outcome *out,
                      struct dray_error *err)
{
    struct world *w = arg;
    for (size_t i = 0; i < claim->devices_len; i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/%s.%s", w->hw, claim->devices[i].device, claim->uid);
        if (on_step(w, "set a device up") != 0)
            return dray_fail(err, "no space left");
        FILE *f = fopen(path, "we");
        if (!f)
            return dray_fail(err, "cannot set %s up", claim->devices[i].device);
        (void)fclose(f);
        dray_env(out, i, "DEVICE", claim->devices[i].device);
        dray_condition(out, i, "Ready", true, "SetUp", "");
    }
    return 0;
}

static int hw_unprepare(void *arg, const struct dray_claim *claim, struct dray_error *err)
{
    struct world *w = arg;
    DIR *dir = opendir(w->hw);
    assert_non_null(dir);
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = file_next_entry(dir));) {
        if (!str_ends(str_z(e->d_name), str_z(claim->uid)))
            continue;
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/%s", w->hw, e->d_name);
        if (on_step(w, "reset a device") != 0)
            rc = dray_fail(err, "no space left");
        else
            (void)unlink(path);
    }
    (void)closedir(dir);
    return rc;
}

// --- Claims --------------------------------------------------------------------------------------

static const struct dray_allocated devices_a[] = {
    {.request = "gpu", .request_ref = "gpu/big", .pool = "node-1", .device = "gpu-0"},
    {.request = "gpu", .request_ref = "gpu/big", .pool = "node-1", .device = "gpu-1"},
    {.request = "nic", .request_ref = "nic", .pool = "node-1", .device = "nic-0"}};
static const struct dray_allocated devices_b[] = {
    {.request = "one", .request_ref = "one", .pool = "node-1", .device = "gpu-1"}};

static const struct dray_claim claim_a = {.namespace_ = "default",
                                          .name = "a",
                                          .uid = "11111111-aaaa",
                                          .devices = devices_a,
                                          .devices_len = 3};
static const struct dray_claim claim_b = {.namespace_ = "default",
                                          .name = "b",
                                          .uid = "22222222-bbbb",
                                          .devices = devices_b,
                                          .devices_len = 1};

// A share of a device that A does not have.
static const struct dray_allocated devices_c[] = {{.request = "share",
                                                   .request_ref = "share",
                                                   .pool = "node-1",
                                                   .device = "dpu-0",
                                                   .share_id = "one"}};
static const struct dray_claim claim_c = {.namespace_ = "default",
                                          .name = "c",
                                          .uid = "33333333-cccc",
                                          .devices = devices_c,
                                          .devices_len = 1};

static struct core *open_core(struct world *w, bool hooked)
{
    static struct fault_hook hook;
    hook = (struct fault_hook){on_step, w};
    fault_hook_set(hooked ? &hook : NULL);
    const struct core_options o = {.driver = "gpu.example.com",
                                   .cdi_class = "device",
                                   .data_dir = w->data,
                                   .cdi_dir = w->cdi,
                                   .boot_id = w->boot,
                                   .metadata = true,
                                   .callbacks = {.prepare = hw_prepare, .unprepare = hw_unprepare},
                                   .arg = w,
                                   .clock = clock_system()};
    struct core *c = NULL;
    struct err err = {0};
    int rc = core_open(&o, &c, &err);
    if (rc != 0 && !hooked)
        fail_msg("core_open: %s", err.msg);
    return rc == 0 ? c : NULL;
}

static int prepare(struct core *c, const struct dray_claim *claim, char *ret_id, size_t cap)
{
    cleanup_arena struct arena arena = {0};
    struct journal_entry e = {0};
    struct err err = {0};
    int rc = core_prepare(c, claim, &arena, &e, &err);
    if (rc == 0 && ret_id)
        (void)snprintf(ret_id, cap, "%.*s", STR_ARG(e.ids[0].p[0]));
    return rc;
}

static int unprepare(struct core *c, const struct dray_claim *claim)
{
    const struct dray_claim only_names = {
        .namespace_ = claim->namespace_, .name = claim->name, .uid = claim->uid};
    return core_unprepare(c, &only_names, NULL);
}

// --- What must hold ------------------------------------------------------------------------------

static size_t count(const char *dir, const char *with)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    if (!d)
        return 0;
    for (const struct dirent *e; (e = file_next_entry(d));)
        n += e->d_name[0] != '.' && str_contains(str_z(e->d_name), str_z(with));
    (void)closedir(d);
    return n;
}

// What a death while a file was replaced has left.
static size_t temporaries(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = file_next_entry(d));)
        n += str_ends(str_z(e->d_name), STR(".tmp"));
    if (d)
        (void)closedir(d);
    return n;
}

// Every spec that runtimes see can be read.
static void check_specs(const struct world *w)
{
    const char *dirs[] = {w->cdi};
    struct cdi_cache *cache = cdi_cache_new(dirs, 1);
    cdi_cache_rescan(cache);
    size_t n;
    (void)cdi_cache_problems(cache, &n);
    cdi_cache_free(cache);
    assert_int_equal(n, 0);
}

static size_t journals(const struct world *w)
{
    char dir[128];
    (void)snprintf(dir, sizeof(dir), "%s/claims", w->data);
    return count(dir, ".journal");
}

static void check_clean(const struct world *w)
{
    assert_int_equal(count(w->hw, "."), 0);
    assert_int_equal(count(w->cdi, ".json"), 0);
    assert_int_equal(temporaries(w->cdi), 0);
    assert_int_equal(journals(w), 0);
    char dir[160];
    (void)snprintf(dir, sizeof(dir), "%s/dra-device-metadata", w->data);
    assert_int_equal(count(dir, "default"), 0);
}

// After a death: the devices are either free or held by the claim.
static void check_held(struct world *w, struct core *c)
{
    check_specs(w);
    bool touched = count(w->hw, claim_a.uid) > 0;
    size_t held = core_in_use(c, "node-1", "gpu-1");
    assert_false(touched && held == 0);
    int rc = prepare(c, &claim_b, NULL, 0);
    assert_int_equal(rc, held ? -ERR_CONFLICT : 0);
    if (rc == 0)
        assert_int_equal(unprepare(c, &claim_b), 0);
}

static void check_prepared(struct world *w, struct core *c)
{
    char id[128];
    assert_int_equal(prepare(c, &claim_a, id, sizeof(id)), 0);
    assert_string_equal(id, "gpu.example.com/device=11111111-aaaa-gpu-0");
    assert_int_equal(count(w->hw, claim_a.uid), 3);
    const char *dirs[] = {w->cdi};
    struct cdi_cache *cache = cdi_cache_new(dirs, 1);
    cdi_cache_rescan(cache);
    assert_non_null(cdi_cache_find(cache, str_z(id)));
    cdi_cache_free(cache);
}

// --- The world -----------------------------------------------------------------------------------

static void world_new(struct world *w)
{
    *w = (struct world){.boot = "boot-1"};
    // In memory where that is possible: thousands of syncs.
    (void)snprintf(w->top, sizeof(w->top), "%s/dray-kill-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(w->top));
    (void)snprintf(w->data, sizeof(w->data), "%s/data", w->top);
    (void)snprintf(w->cdi, sizeof(w->cdi), "%s/cdi", w->top);
    (void)snprintf(w->hw, sizeof(w->hw), "%s/hw", w->top);
    assert_int_equal(mkdir(w->hw, 0755), 0);
}

static void world_free(struct world *w)
{
    assert_int_equal(file_remove_tree(w->top, NULL), 0);
}

enum plan { PREPARE, BOTH };

// What the driver does until it dies.
static void act(struct world *w, enum plan plan)
{
    struct core *c = open_core(w, true);
    if (c && prepare(c, &claim_a, NULL, 0) == 0 && plan == BOTH &&
        prepare(c, &claim_c, NULL, 0) == 0 && unprepare(c, &claim_a) == 0)
        (void)unprepare(c, &claim_c);
    core_free(c);
}

// Runs act in a child that dies at a step; false: it had no such step.
static bool die(struct world *w, enum plan plan, int at)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        w->die_at = at;
        act(w, plan);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

// The kubelet asks again, as after a restart of the driver.
static void prepare_again(void **state)
{
    (void)state;
    int points = 0;
    for (int at = 1; at < POINTS_MAX; at++) {
        struct world w;
        world_new(&w);
        bool died = die(&w, BOTH, at);
        struct core *c = open_core(&w, false);
        check_held(&w, c);
        check_prepared(&w, c);
        assert_int_equal(prepare(c, &claim_b, NULL, 0), -ERR_CONFLICT);
        assert_int_equal(unprepare(c, &claim_a), 0);
        assert_int_equal(unprepare(c, &claim_c), 0);
        check_clean(&w);
        assert_int_equal(prepare(c, &claim_b, NULL, 0), 0);
        core_free(c);
        world_free(&w);
        if (!died)
            break;
        points++;
    }
    print_message("died at %d points\n", points);
    assert_true(points >= 50 && points < POINTS_MAX - 1);
}

// The pod was deleted meanwhile: kubelet asks to unprepare.
static void unprepare_after(void **state)
{
    (void)state;
    int points = 0;
    for (int at = 1; at < POINTS_MAX; at++, points++) {
        struct world w;
        world_new(&w);
        bool died = die(&w, BOTH, at);
        struct core *c = open_core(&w, false);
        check_held(&w, c);
        assert_int_equal(unprepare(c, &claim_a), 0);
        assert_int_equal(unprepare(c, &claim_c), 0);
        check_clean(&w);
        assert_int_equal(prepare(c, &claim_b, NULL, 0), 0);
        core_free(c);
        world_free(&w);
        if (!died)
            break;
    }
    assert_true(points >= 50);
}

// The machine died with the driver: nothing of the last boot is offered, all of it is made again.
static void reboot_after(void **state)
{
    (void)state;
    for (int at = 1; at < POINTS_MAX; at++) {
        struct world w;
        world_new(&w);
        bool died = die(&w, BOTH, at);
        w.boot = "boot-2";
        struct core *c = open_core(&w, false);
        assert_int_equal(count(w.cdi, ".json"), 0);
        check_prepared(&w, c);
        assert_int_equal(unprepare(c, &claim_a), 0);
        assert_int_equal(unprepare(c, &claim_c), 0);
        check_clean(&w);
        core_free(c);
        world_free(&w);
        if (!died)
            break;
    }
}

// What a machine that stops takes with it: journals that were never synced, by name or only by content.
static void lose_journals(const struct world *w, bool names)
{
    char dir[128], path[400];
    (void)snprintf(dir, sizeof(dir), "%s/claims", w->data);
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = file_next_entry(d));) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        assert_int_equal(names ? unlink(path) : truncate(path, 0), 0);
    }
    if (d)
        (void)closedir(d);
    assert_int_equal(file_remove_tree(w->cdi, NULL), 0);
}

// The machine stops at each step: no device that was touched is without a claim.
static void machine_stops(void **state)
{
    (void)state;
    for (int at = 1; at < 2 * POINTS_MAX; at++) {
        struct world w;
        world_new(&w);
        bool died = die(&w, BOTH, at / 2 + 1);
        lose_journals(&w, at % 2);
        w.boot = "boot-2";
        struct core *c = open_core(&w, false);
        check_held(&w, c);
        bool touched = count(w.hw, claim_c.uid) > 0;
        assert_false(touched && core_in_use(c, "node-1", "dpu-0") == 0);
        check_prepared(&w, c);
        assert_int_equal(unprepare(c, &claim_a), 0);
        assert_int_equal(unprepare(c, &claim_c), 0);
        check_clean(&w);
        core_free(c);
        world_free(&w);
        if (!died)
            break;
    }
}

static void count_intent(void *arg, const char *uid, struct str line)
{
    (void)uid;
    (void)line;
    ++*(size_t *)arg;
}

static size_t intents(const struct world *w)
{
    struct intents *i;
    size_t n = 0;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/intents", w->data);
    assert_int_equal(intents_open(path, &i, NULL), 0);
    intents_each(i, count_intent, &n);
    intents_close(i);
    return n;
}

// More claims than intents: the others are synced themselves, and settling frees the slots.
static void more_claims_than_intents(void **state)
{
    (void)state;
    struct world w;
    world_new(&w);
    struct core *c = open_core(&w, false);
    enum { MANY = INTENT_SLOTS + 3 };
    char names[MANY][16];
    struct dray_allocated devices[MANY];
    struct dray_claim claims[MANY];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "gpu-%d", i);
        devices[i] = (struct dray_allocated){
            .request = "r", .request_ref = "r", .pool = "node-1", .device = names[i]};
        claims[i] = (struct dray_claim){.namespace_ = "default",
                                        .name = names[i],
                                        .uid = names[i],
                                        .devices = &devices[i],
                                        .devices_len = 1};
        assert_int_equal(prepare(c, &claims[i], NULL, 0), 0);
    }
    assert_int_equal(intents(&w), INTENT_SLOTS);
    assert_int_equal(unprepare(c, &claims[0]), 0);
    assert_int_equal(intents(&w), INTENT_SLOTS - 1);
    assert_true(core_unsettled(c));
    core_settle(c);
    assert_false(core_unsettled(c));
    assert_int_equal(intents(&w), 0);
    for (int i = 1; i < MANY; i++)
        assert_int_equal(unprepare(c, &claims[i]), 0);
    check_clean(&w);
    core_free(c);
    world_free(&w);
}

// It dies again while it looks at what the first death left.
static void die_twice(void **state)
{
    (void)state;
    for (int at = 1; at < POINTS_MAX; at += 8) {
        bool died = false;
        for (int again = 1; again < POINTS_MAX; again += 9) {
            struct world w;
            world_new(&w);
            died = die(&w, BOTH, at);
            bool died_again = die(&w, BOTH, again);
            struct core *c = open_core(&w, false);
            check_held(&w, c);
            check_prepared(&w, c);
            assert_int_equal(unprepare(c, &claim_a), 0);
            assert_int_equal(unprepare(c, &claim_c), 0);
            check_clean(&w);
            core_free(c);
            world_free(&w);
            if (!died_again)
                break;
        }
        if (!died)
            break;
    }
}

// Every step fails once with "no space left": an error, nothing leaked, the next try succeeds.
static void disk_full(void **state)
{
    (void)state;
    int failed = 0;
    for (int at = 1; at < POINTS_MAX; at++) {
        struct world w;
        world_new(&w);
        w.fail_at = at;
        act(&w, BOTH);
        bool reached = w.steps >= at;
        w.fail_at = 0;
        struct core *c = open_core(&w, false);
        check_held(&w, c);
        check_prepared(&w, c);
        assert_int_equal(unprepare(c, &claim_a), 0);
        assert_int_equal(unprepare(c, &claim_c), 0);
        check_clean(&w);
        core_free(c);
        world_free(&w);
        if (!reached)
            break;
        failed++;
    }
    assert_true(failed >= 50);
}

// A journal cut anywhere: the claim can be prepared and unprepared nevertheless.
static void cut_journal(void **state)
{
    (void)state;
    struct world w;
    world_new(&w);
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/claims/%s.journal", w.data, claim_a.uid);
    for (off_t size = 0;; size += 7) {
        act(&w, PREPARE);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        bool whole = size >= st.st_size;
        assert_int_equal(truncate(path, whole ? st.st_size : size), 0);
        struct core *c = open_core(&w, false);
        check_prepared(&w, c);
        assert_int_equal(unprepare(c, &claim_a), 0);
        core_free(c);
        act(&w, PREPARE);
        assert_int_equal(truncate(path, whole ? st.st_size : size), 0);
        c = open_core(&w, false);
        assert_int_equal(unprepare(c, &claim_a), 0);
        assert_int_equal(unprepare(c, &claim_c), 0);
        check_clean(&w);
        core_free(c);
        if (whole)
            break;
    }
    world_free(&w);
}

// Two instances of the driver, as in a rolling update, take turns.
static void two_instances(void **state)
{
    (void)state;
    struct world w;
    world_new(&w);
    struct core *old = open_core(&w, false);
    struct core *new = open_core(&w, false);
    assert_int_equal(prepare(old, &claim_a, NULL, 0), 0);
    assert_int_equal(prepare(new, &claim_b, NULL, 0), -ERR_CONFLICT);
    assert_int_equal(prepare(new, &claim_a, NULL, 0), 0);
    assert_int_equal(unprepare(new, &claim_a), 0);
    check_clean(&w);
    assert_int_equal(prepare(old, &claim_b, NULL, 0), 0);
    assert_int_equal(unprepare(new, &claim_b), 0);
    check_clean(&w);
    core_free(old);
    core_free(new);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prepare_again),
        cmocka_unit_test(unprepare_after),
        cmocka_unit_test(reboot_after),
        cmocka_unit_test(die_twice),
        cmocka_unit_test(disk_full),
        cmocka_unit_test(cut_journal),
        cmocka_unit_test(two_instances),
        cmocka_unit_test(machine_stops),
        cmocka_unit_test(more_claims_than_intents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
