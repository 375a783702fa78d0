// SPDX-License-Identifier: Apache-2.0
//
// Specs and configurations with the answers of the CDI library (tests/oracle/cdi). CDI_ROWS names
// another file of rows.
#include <unistd.h>

#include "cdi/apply.h"
#include "cdi/cache.h"
#include "os/file.h"
#include "unit.h"

#include "base/banned.h"

// The host of the rows.
static int look(void *context, struct str path, struct cdi_node_info *ret, struct err *err)
{
    (void)context;
    if (str_eq(path, STR("/dev/null")))
        *ret = (struct cdi_node_info){'c', 1, 3, 0666};
    else if (str_eq(path, STR("/dev/zero")))
        *ret = (struct cdi_node_info){'c', 1, 5, 0666};
    else
        return err_set(err, ENOENT, "no such file");
    return 0;
}

static const struct cdi_host host = {.look = look};

struct fixture {
    char dir[64];
    struct cdi_cache *cache;
    size_t line, accepted, applied;
};

static bool truth(const yyjson_val *row, struct str key)
{
    bool v = false;
    const yyjson_val *at = json_get(row, key);
    assert_non_null(at);
    assert_int_equal(json_to_bool(at, &v, NULL), 0);
    return v;
}

static struct str text(const yyjson_val *row, struct str key)
{
    const yyjson_val *at = json_get(row, key);
    return at ? json_str(at) : STR("");
}

static void check_spec(struct fixture *f, const yyjson_val *row)
{
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct err err = {0};
    struct str source = text(row, STR("spec"));
    bool read = cdi_spec_parse(source, &arena, &spec, &err) == 0;
    if (read != truth(row, STR("read")))
        fail_msg("row %zu is %s: %s\nupstream: %s\n%s", f->line, read ? "read" : "not read",
                 err.msg, text(row, STR("why")).p, source.p);
    if (read) {
        if (!str_eqz(text(row, STR("min")), cdi_spec_min_version(spec)))
            fail_msg("row %zu needs %s", f->line, cdi_spec_min_version(spec));
        bool good = cdi_spec_check(spec, &err) == 0;
        if (good != truth(row, STR("accepted")))
            fail_msg("row %zu is %s: %s: %s\nupstream: %s\n%s", f->line, good ? "good" : "bad",
                     err.path, err.msg, text(row, STR("why")).p, source.p);
        f->accepted += good;
    }
    arena_done(&arena);
}

static void check_result(struct fixture *f, const yyjson_val *row, const struct cdi_edits *edits)
{
    struct sbuf out = {0};
    struct json_doc doc = {0};
    struct err err = {0};
    struct json_writer w = {.out = &out};
    const yyjson_val *want = json_get(row, STR("result"));
    int rc = cdi_apply(edits, json_get(row, STR("config")), &host, &w, &err);
    if ((rc == 0) != (want != NULL))
        fail_msg("row %zu: %s\nupstream: %s", f->line, err.msg, text(row, STR("why")).p);
    if (want) {
        assert_int_equal(json_parse(sbuf_str(&out), NULL, &doc, &err), 0);
        struct sbuf wanted = {0};
        w = (struct json_writer){.out = &wanted};
        json_write_value(&w, want);
        if (!json_equal(doc.root, want))
            fail_msg("row %zu gives\n%s\nnot\n%s\n%s", f->line, out.p, wanted.p,
                     text(row, STR("spec")).p);
        sbuf_done(&wanted);
        f->applied++;
    }
    json_doc_done(&doc);
    sbuf_done(&out);
}

static void check_devices(struct fixture *f, const yyjson_val *row)
{
    char path[128];
    struct arena arena = {0};
    struct VEC(struct str) names = {0};
    struct cdi_edits edits = {0};
    struct err err = {0};
    (void)snprintf(path, sizeof(path), "%s/spec.yaml", f->dir);
    assert_int_equal(file_replace_durable(AT_FDCWD, path, text(row, STR("spec")), 0644, &err), 0);
    cdi_cache_rescan(f->cache);
    const yyjson_val *asked = json_get(row, STR("names"));
    if (asked && json_is_array(asked))
        json_arr_foreach(asked, name)
            vec_push(&names, json_str(name));
    const yyjson_val *missing = json_get(row, STR("unresolved"));
    int rc = cdi_cache_edits(f->cache, names.p, names.n, &arena, &edits, &err);
    if (missing) {
        assert_int_equal(rc, -ERR_NOT_FOUND);
        json_arr_foreach(missing, name)
            assert_non_null(strstr(err.msg, json_str(name).p));
    } else if (rc != 0) {
        fail_msg("row %zu: %s", f->line, err.msg);
    } else {
        check_result(f, row, &edits);
    }
    vec_done(&names);
    arena_done(&arena);
}

static void agrees_with_the_library(void **state)
{
    (void)state;
    struct fixture f = {.dir = "/tmp/cdi_rows_test-XXXXXX"};
    struct sbuf rows = {0};
    char path[1024];
    const char *other = getenv("CDI_ROWS"), *data = getenv("TEST_DATA");
    (void)snprintf(path, sizeof(path), "%s/cdi_rows.jsonl", data ? data : "tests/unit/data");
    read_file(other ? other : path, &rows);
    assert_non_null(mkdtemp(f.dir));
    f.cache = cdi_cache_new((const char *const[]){f.dir}, 1);
    struct str line, rest = sbuf_str(&rows);
    while (rest.n > 0) {
        struct json_doc doc = {0};
        (void)str_cut(rest, '\n', &line, &rest);
        f.line++;
        assert_int_equal(json_parse(line, NULL, &doc, NULL), 0);
        check_spec(&f, doc.root);
        if (truth(doc.root, STR("accepted")))
            check_devices(&f, doc.root);
        json_doc_done(&doc);
    }
    printf("%zu rows, %zu good specs, %zu applied\n", f.line, f.accepted, f.applied);
    assert_true(f.applied > 0 && f.accepted < f.line);
    (void)snprintf(path, sizeof(path), "%s/spec.yaml", f.dir);
    (void)unlink(path);
    (void)rmdir(f.dir);
    cdi_cache_free(f.cache);
    sbuf_done(&rows);
}

RUN_TESTS(TEST_CASE(agrees_with_the_library))
