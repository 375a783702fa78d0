// SPDX-License-Identifier: Apache-2.0
//
// CDI spec files: folders with priorities and conflicts, noticing changes.
#include <dirent.h>
#include <unistd.h>

#include <sys/stat.h>

#include "cdi/apply.h"
#include "cdi/cache.h"
#include "codec/json_writer.h"
#include "os/file.h"
#include "unit.h"

#include "base/banned.h"

struct world {
    char top[64];
    char low[80], high[80]; // folders; neither exists at first
    struct cdi_cache *cache;
};

static int make_world(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));
    (void)snprintf(w->top, sizeof(w->top), "/tmp/cdi_files_test-XXXXXX");
    if (!mkdtemp(w->top))
        return -1;
    (void)snprintf(w->low, sizeof(w->low), "%s/etc/cdi", w->top);
    (void)snprintf(w->high, sizeof(w->high), "%s/run", w->top);
    w->cache = cdi_cache_new((const char *const[]){w->low, w->high}, 2);
    *state = w;
    return 0;
}

static void empty_folder(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_type != DT_DIR)
            (void)unlink(path);
        else if (e->d_name[0] != '.')
            (void)rmdir(path);
    }
    (void)closedir(d);
    (void)rmdir(dir);
}

static int end_world(void **state)
{
    struct world *w = *state;
    char etc[80];
    (void)snprintf(etc, sizeof(etc), "%s/etc", w->top);
    empty_folder(w->low);
    empty_folder(w->high);
    (void)rmdir(etc);
    int rc = rmdir(w->top);
    cdi_cache_free(w->cache);
    free(w);
    return rc;
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

// Writes a spec of kind v/c with one device that sets one variable.
static void put(const char *dir, const char *file, const char *device, const char *env)
{
    struct str value = str_z(env);
    struct cdi_device d = {.name = str_z(device), .edits = {.env = {&value, 1, 1}}};
    struct cdi_spec spec = {.kind = STR("v/c"), .devices = {&d, 1, 1}};
    spec.version = str_z(cdi_spec_min_version(&spec));
    char path[512];
    struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    cdi_write_spec(&w, &spec);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    assert_int_equal(file_make_dirs(dir, 0755, NULL), 0);
    assert_int_equal(file_replace_atomic(AT_FDCWD, path, sbuf_str(&text), 0644, NULL), 0);
    sbuf_done(&text);
}

// Takes a spec away.
static void drop(const char *dir, const char *file)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    assert_int_equal(file_remove(path, NULL), 0);
}

static size_t device_count(const struct world *w)
{
    size_t n;
    (void)cdi_cache_devices(w->cache, &n);
    return n;
}

static struct str env_of(const struct world *w, const char *name)
{
    const struct cdi_cached_device *d = cdi_cache_find(w->cache, str_z(name));
    assert_non_null(d);
    return d->device->edits.env.p[0];
}

static void later_folders_win(void **state)
{
    struct world *w = *state;
    cdi_cache_rescan(w->cache);
    assert_int_equal(device_count(w), 0);
    put(w->low, "one.yaml", "a", "FROM=low");
    put(w->low, "two.yaml", "b", "FROM=low");
    put(w->high, "one.yaml", "a", "FROM=high");
    cdi_cache_rescan(w->cache);
    size_t n;
    const struct cdi_cached_device *all = cdi_cache_devices(w->cache, &n);
    assert_int_equal(n, 2);
    assert_str(all[0].name, "v/c=a");
    assert_str(all[1].name, "v/c=b");
    assert_str(env_of(w, "v/c=a"), "FROM=high");
    assert_str(env_of(w, "v/c=b"), "FROM=low");
    (void)cdi_cache_problems(w->cache, &n);
    assert_int_equal(n, 0);
}

static void conflicts_hide_a_device(void **state)
{
    struct world *w = *state;
    put(w->low, "one.yaml", "a", "A=1");
    put(w->low, "two.yaml", "a", "A=2");
    put(w->low, "three.yaml", "b", "B=1");
    put(w->high, "one.yaml", "a", "A=3");
    cdi_cache_rescan(w->cache);
    assert_null(cdi_cache_find(w->cache, STR("v/c=a")));
    assert_int_equal(device_count(w), 1);
    size_t n;
    const struct cdi_file_problem *problems = cdi_cache_problems(w->cache, &n);
    assert_int_equal(n, 2);
    assert_true(str_ends(problems[0].path, STR("/one.yaml")));
    assert_non_null(strstr(problems[0].err.msg, "/two.yaml"));
    assert_true(str_ends(problems[1].path, STR("/two.yaml")));
}

static void broken_files_hide_nothing(void **state)
{
    struct world *w = *state;
    put(w->low, "m-good.yaml", "a", "A=1");
    write_text(w->low, "a-broken.json", "{\n  \"cdiVersion\": ");
    write_text(w->low, "z-broken.yaml", "cdiVersion: 1.1.0\nkind: v/c\ndevices: []\n");
    write_text(w->low, "notes.txt", "not a spec");
    char pipe_path[128];
    (void)snprintf(pipe_path, sizeof(pipe_path), "%s/pipe.json", w->low);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    write_text(w->top, "run", "a file where a folder should be");
    cdi_cache_rescan(w->cache);
    assert_str(env_of(w, "v/c=a"), "A=1");
    size_t n;
    const struct cdi_file_problem *p = cdi_cache_problems(w->cache, &n);
    assert_int_equal(n, 4);
    assert_true(str_ends(p[0].path, STR("/a-broken.json")) && p[0].err.line == 2);
    assert_true(str_ends(p[1].path, STR("/pipe.json")));
    assert_true(str_ends(p[2].path, STR("/z-broken.yaml")) && p[2].err.line == 3);
    assert_string_equal(p[2].err.path, "devices");
    assert_true(str_ends(p[3].path, STR("/run")) && p[3].err.code == ENOTDIR);
    (void)unlink(w->high);
}

static void names_all_that_is_missing(void **state)
{
    struct world *w = *state;
    struct arena arena = {0};
    struct cdi_edits edits = {0};
    struct err err = {0};
    (void)mkdir(w->high, 0755);
    write_text(w->high, "s.yaml",
               "cdiVersion: 0.5.0\nkind: v/c\ncontainerEdits: {env: [S=1]}\ndevices:\n"
               "- {name: a, containerEdits: {env: [A=1]}}\n- {name: b, containerEdits: {env: "
               "[B=1]}}\n");
    cdi_cache_rescan(w->cache);
    const struct str some[] = {STR("v/c=x"), STR("v/c=a"), STR("nonsense"), STR("v/c=y")};
    assert_int_equal(cdi_cache_edits(w->cache, some, 4, &arena, &edits, &err), -ERR_NOT_FOUND);
    assert_string_equal(err.msg, "no spec offers: v/c=x, nonsense, v/c=y");
    const struct str both[] = {STR("v/c=b"), STR("v/c=a"), STR("v/c=b")};
    assert_int_equal(cdi_cache_edits(w->cache, both, 3, &arena, &edits, &err), 0);
    assert_int_equal(edits.env.n, 3);
    assert_str(edits.env.p[0], "S=1");
    assert_str(edits.env.p[1], "B=1");
    assert_str(edits.env.p[2], "A=1");
    arena_done(&arena);
}

static void notices_changes(void **state)
{
    struct world *w = *state;
    assert_true(cdi_cache_refresh(w->cache));
    put(w->low, "a.yaml", "a", "A=1");
    assert_true(cdi_cache_refresh(w->cache));
    put(w->low, "a.yaml", "a", "A=2"); // as long as before, and maybe in the same moment
    assert_true(cdi_cache_refresh(w->cache));
    assert_str(env_of(w, "v/c=a"), "A=2");
    // Once nothing has changed for a moment, looking is enough.
    bool calm = false;
    for (int i = 0; i < 100 && !calm; i++) {
        (void)usleep(20000);
        calm = !cdi_cache_refresh(w->cache);
    }
    assert_true(calm);
    drop(w->low, "a.yaml");
    assert_true(cdi_cache_refresh(w->cache));
    assert_int_equal(device_count(w), 0);
}

static void looks_at_the_real_host(void **state)
{
    (void)state;
    struct cdi_node_info info;
    struct err err = {0};
    const struct cdi_host *host = cdi_host_system();
    assert_int_equal(host->look(NULL, STR("/dev/null"), &info, &err), 0);
    assert_true(info.type == 'c' && info.major == 1 && info.minor == 3);
    assert_int_equal(host->look(NULL, STR("/"), &info, &err), -ERR_INVALID);
    assert_int_equal(host->look(NULL, STR("/no/such"), &info, &err), -ENOENT);
    assert_int_equal(host->look(NULL, STR("/dev/null\0x"), &info, &err), -ERR_INVALID);
}

#define IN_WORLD(f) cmocka_unit_test_setup_teardown(f, make_world, end_world)

RUN_TESTS(IN_WORLD(later_folders_win), IN_WORLD(conflicts_hide_a_device),
          IN_WORLD(broken_files_hide_nothing), IN_WORLD(names_all_that_is_missing),
          IN_WORLD(notices_changes), TEST_CASE(looks_at_the_real_host))
