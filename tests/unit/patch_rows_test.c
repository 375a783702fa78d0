// SPDX-License-Identifier: Apache-2.0
//
// Patches and selectors with the answers of Kubernetes' own packages (tests/oracle/patches). The file
// that PATCH_ROWS names replaces the sample.
#include "api/match/field_selector.h"
#include "api/match/label_selector.h"
#include "api/patch.h"
#include "unit.h"

#include "base/banned.h"

static const char *rows_path;

// How many rows differ before the test gives up; each is shown.
#define SHOWN 5

static size_t differences;

static void differs(struct str row, const char *what, struct str got, struct str want)
{
    differences++;
    (void)fprintf(stderr, "%s differs\n got  %.*s\n want %.*s\n row  %.*s\n", what,
                  STR_ARG(str_upto(got, 500)), STR_ARG(str_upto(want, 500)),
                  STR_ARG(str_upto(row, 100000)));
    if (differences >= SHOWN)
        fail_msg("too many differences");
}

static void parse(struct str text, struct json_doc *ret)
{
    struct json_options options = {.max_bytes = (size_t)64 << 20,
                                   .duplicates = JSON_DUPLICATES_LAST};
    struct err err = {0};
    if (json_parse(text, &options, ret, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(str_upto(text, 500)));
}

static int apply(struct str how, struct str kind, const struct json_doc *object,
                 const struct json_doc *patch, struct sbuf *out, struct err *err)
{
    if (str_eqz(how, "json"))
        return api_patch_json(object, patch, NULL, out, err);
    if (str_eqz(how, "merge"))
        return api_patch_merge(object, patch, NULL, out, err);
    struct str version, name;
    assert_true(str_cut(kind, ' ', &version, &name));
    const struct api_kind *k = api_kind_find(version, name);
    assert_non_null(k);
    return api_patch_strategic(k->type, object, patch, NULL, out, err);
}

static int status_of(int rc)
{
    switch (rc) {
    case 0:
        return 200;
    case -ERR_BAD_REQUEST:
        return 400;
    case -ERR_INVALID:
        return 422;
    default:
        return 500;
    }
}

// cells: how, kind, object, patch, status, result or message.
static void check_patch(struct str row, const struct str *cells)
{
    cleanup_json_doc struct json_doc object = {0}, patch = {0}, got = {0}, want = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct err err = {0};
    parse(cells[2], &object);
    parse(cells[3], &patch);
    int status = status_of(apply(cells[0], cells[1], &object, &patch, &out, &err));
    bool strategic = str_eqz(cells[0], "strategic");
    if ((status == 200) != str_eqz(cells[4], "200")) {
        differs(row, "status", status == 200 ? sbuf_str(&out) : str_z(err.msg), cells[5]);
        return;
    }
    if (status == 200) {
        parse(sbuf_str(&out), &got);
        parse(cells[5], &want);
        if (!json_equal(got.root, want.root))
            differs(row, "result", sbuf_str(&out), cells[5]);
        return;
    }
    if (!strategic && (status == 400) != str_eqz(cells[4], "400"))
        differs(row, "status", str_z(err.msg), cells[5]);
    // Messages are cut at the end of their buffer; what a random order decides is a "?".
    struct str message = str_z(err.msg);
    if (cells[5].n && !str_eqz(cells[5], "?") && !str_eqz(cells[4], "400") &&
        !str_eq(str_upto(message, 400), str_upto(cells[5], 400)))
        differs(row, "message", message, cells[5]);
}

static void fill_labels(const yyjson_val *set, struct arena *arena, struct api_str_map *ret)
{
    ret->p = arena_array(arena, struct api_str_entry, json_len(set));
    ret->n = 0;
    // Go writes maps sorted by key.
    json_obj_foreach(set, key, val) {
        ret->p[ret->n].key = json_str(key);
        ret->p[ret->n++].value = json_str(val);
    }
}

static void check_label(struct str row, const yyjson_val *cells)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct label_selector s;
    struct err err = {0};
    struct str want = json_str(json_at(cells, 3));
    bool good = false;
    assert_int_equal(json_to_bool(json_at(cells, 2), &good, NULL), 0);
    int rc = label_selector_parse(json_str(json_at(cells, 1)), &arena, &s, &err);
    if ((rc == 0) != good || rc < 0) {
        if (rc == 0 || good || !str_eq(str_upto(str_z(err.msg), 400), str_upto(want, 400)))
            differs(row, "label selector", str_z(rc == 0 ? "read" : err.msg), want);
        return;
    }
    label_selector_write(&s, &out);
    if (!str_eq(sbuf_str(&out), want))
        differs(row, "canonical form", sbuf_str(&out), want);
    struct str matches = json_str(json_at(cells, 5));
    for (size_t i = 0; i < matches.n; i++) {
        struct api_str_map labels;
        fill_labels(json_at(json_at(cells, 4), i), &arena, &labels);
        if (label_selector_matches(&s, &labels) != (matches.p[i] == '1'))
            differs(row, "match", str_make(&matches.p[i], 1), matches);
    }
}

static void check_field(struct str row, const yyjson_val *cells)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct field_selector s;
    struct err err = {0};
    struct str want = json_str(json_at(cells, 3));
    bool good = false;
    assert_int_equal(json_to_bool(json_at(cells, 2), &good, NULL), 0);
    const struct api_kind *pod = api_kind_find(STR("v1"), STR("Pod"));
    int rc = field_selector_parse(json_str(json_at(cells, 1)), pod, NULL, &arena, &s, &err);
    if (rc == 0)
        field_selector_write(&s, &out);
    struct str got = rc == 0 ? sbuf_str(&out) : str_z(err.msg);
    if ((rc == 0) != good || !str_eq(got, want))
        differs(row, "field selector", got, want);
}

static void check_row(struct str row)
{
    cleanup_json_doc struct json_doc doc = {0};
    parse(row, &doc);
    struct str how = json_str(json_at(doc.root, 0));
    if (str_eqz(how, "label")) {
        check_label(row, doc.root);
    } else if (str_eqz(how, "field")) {
        check_field(row, doc.root);
    } else {
        struct str cells[6];
        for (size_t i = 0; i < array_len(cells); i++)
            cells[i] = json_str(json_at(doc.root, i));
        check_patch(row, cells);
    }
}

static void every_row_is_answered_alike(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf file = {0};
    read_file(rows_path, &file);
    struct str rest = sbuf_str(&file), line;
    size_t rows = 0;
    while (rest.n) {
        (void)str_cut(rest, '\n', &line, &rest);
        check_row(line);
        rows++;
    }
    assert_true(rows >= 200);
    assert_int_equal(differences, 0);
    print_message("%zu rows\n", rows);
}

int main(void)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/patch_rows.jsonl", getenv("TEST_DATA"));
    rows_path = getenv("PATCH_ROWS") ? getenv("PATCH_ROWS") : path;
    const struct CMUnitTest tests[] = {TEST_CASE(every_row_is_answered_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
