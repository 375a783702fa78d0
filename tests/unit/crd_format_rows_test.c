// SPDX-License-Identifier: Apache-2.0
//
// Strings with upstream's answers to which formats they have (tests/oracle/formats). FORMAT_ROWS names another file of rows.
#include "api/crd/crd_schema.h"
#include "unit.h"

#include "base/banned.h"

// check_row says whether upstream and we agree.
static bool check_row(struct str line, size_t number)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    bool wanted = false;
    if (json_parse(line, NULL, &doc, &err) < 0)
        fail_msg("row %zu: %s", number, err.msg);
    struct str format = json_str(json_get(doc.root, STR("format")));
    struct str text = json_str(json_get(doc.root, STR("text")));
    assert_int_equal(json_to_bool(json_get(doc.root, STR("holds")), &wanted, NULL), 0);
    if (crd_format_holds(format, text) == wanted)
        return true;
    print_error("row %zu: ours %s: %.*s\n", number, wanted ? "does not hold" : "holds",
                STR_ARG(line));
    return false;
}

static void strings_have_the_formats_that_upstream_sees(void **state)
{
    (void)state;
    struct sbuf rows = {0};
    char path[512];
    const char *other = getenv("FORMAT_ROWS"); // NOLINT(concurrency-mt-unsafe): one thread
    const char *data = getenv("TEST_DATA");    // NOLINT(concurrency-mt-unsafe): one thread
    size_t number = 0, different = 0;
    (void)snprintf(path, sizeof(path), "%s/format_rows.jsonl", data ? data : ".");
    read_file(other ? other : path, &rows);
    for (struct str rest = sbuf_str(&rows), line; rest.n;) {
        (void)str_cut(rest, '\n', &line, &rest);
        different += !check_row(line, ++number);
    }
    assert_true(number > 1000);
    assert_int_equal(different, 0);
    sbuf_done(&rows);
}

RUN_TESTS(TEST_CASE(strings_have_the_formats_that_upstream_sees))
