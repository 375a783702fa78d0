// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include "unit.h"

#include "base/banned.h"

static void carries_code_message_and_place(void **state)
{
    (void)state;
    struct err e = {0};
    char text[256];
    assert_int_equal(err_set(&e, ERR_INVALID, "must be %d or less", 63), -ERR_INVALID);
    err_path_field(&e, "name", 4);
    err_path_index(&e, 3);
    err_path_field(&e, "devices", 7);
    err_path_field(&e, "spec", 4);
    err_at(&e, 12, 5);
    assert_string_equal(e.path, "spec.devices[3].name");
    err_text(&e, text, sizeof(text));
    assert_string_equal(text, "line 12, column 5: spec.devices[3].name: must be 63 or less");
    assert_int_equal(err_wrap(&e, "file %s", "a.yaml"), -ERR_INVALID);
    assert_string_equal(e.msg, "file a.yaml: must be 63 or less");
    assert_int_equal(e.line, 12);
}

static void builds_key_paths(void **state)
{
    (void)state;
    struct err e = {0};
    (void)err_set(&e, ERR_INVALID, "x");
    err_path_key(&e, "gpu.example.com/memory", 22);
    err_path_field(&e, "capacity", 8);
    assert_string_equal(e.path, "capacity[gpu.example.com/memory]");
    (void)err_set(&e, ERR_INVALID, "y");
    assert_string_equal(e.path, "");
}

static void cuts_what_is_too_long(void **state)
{
    (void)state;
    struct err e = {0};
    char big[2 * DRAY_ERR_MSG_MAX];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    (void)err_set(&e, ERR_INVALID, "%s", big);
    assert_int_equal(strlen(e.msg), DRAY_ERR_MSG_MAX - 1);
    assert_string_equal(e.msg + DRAY_ERR_MSG_MAX - 4, "…");
    (void)err_wrap(&e, "%s", big);
    assert_int_equal(strlen(e.msg), DRAY_ERR_MSG_MAX - 1);
    for (int i = 0; i < 100; i++)
        err_path_field(&e, "a-rather-long-field-name", 24);
    assert_int_equal(strlen(e.path), DRAY_ERR_PATH_MAX - 1);
    (void)err_wrap(&e, "head");
    assert_memory_equal(e.msg, "head: ", 6);
}

static void works_without_an_err(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ENOENT, "x"), -ENOENT);
    err_at(NULL, 1, 1);
    err_path_field(NULL, "a", 1);
    err_path_index(NULL, 1);
    assert_true(err_wrap(NULL, "x") < 0);
    assert_string_equal(err_reason(ERR_TOO_LARGE), "RequestEntityTooLarge");
    assert_string_equal(err_reason(ENOENT), "InternalError");
}

RUN_TESTS(TEST_CASE(carries_code_message_and_place), TEST_CASE(builds_key_paths),
          TEST_CASE(cuts_what_is_too_long), TEST_CASE(works_without_an_err))
