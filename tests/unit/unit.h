// SPDX-License-Identifier: Apache-2.0
//
// cmocka with the headers it forgets to include, and checks for our own types.
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
// clang-format on

#include "base/str.h"

// assert_str compares a slice with a NUL-terminated text and shows both when they differ.
#define assert_str(s, z)                                                      \
    do {                                                                      \
        struct str assert_str_got = (s);                                      \
        char *assert_str_copy = xstrndup(assert_str_got.p, assert_str_got.n); \
        assert_string_equal(assert_str_copy, (z));                            \
        free(assert_str_copy);                                                \
    } while (0)

#define RUN_TESTS(...)                                    \
    int main(void)                                        \
    {                                                     \
        const struct CMUnitTest tests[] = {__VA_ARGS__};  \
        return cmocka_run_group_tests(tests, NULL, NULL); \
    }

#define TEST_CASE(f) cmocka_unit_test(f)

#endif
