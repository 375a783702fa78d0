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

// cmocka's assert_non_null does not come back when it fails; this one says so to the compiler.
#undef assert_non_null
#define assert_non_null(pointer)                           \
    do {                                                   \
        if (!(pointer)) {                                  \
            _assert_true(0, #pointer, __FILE__, __LINE__); \
            abort();                                       \
        }                                                  \
    } while (0)

// assert_str compares a slice with a NUL-terminated text and shows both when they differ.
#define assert_str(s, z)                                                      \
    do {                                                                      \
        struct str assert_str_got = (s);                                      \
        char *assert_str_copy = xstrndup(assert_str_got.p, assert_str_got.n); \
        assert_string_equal(assert_str_copy, (z));                            \
        free(assert_str_copy);                                                \
    } while (0)

// read_file adds a whole file to out; a file that cannot be read fails the test.
static inline void read_file(const char *path, struct sbuf *out)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    for (size_t n = 1; n;) {
        n = fread(sbuf_space(out, 65536), 1, 65536, f);
        sbuf_commit(out, n);
    }
    (void)fclose(f);
}

// sample is how far apart the cases are that `make test` runs of a long series: n, or 1 where
// TEST_ALL is set (tools/soak).
static inline int sample(int n)
{
    return getenv("TEST_ALL") ? 1 : n; // NOLINT(concurrency-mt-unsafe): nothing sets it
}

#define RUN_TESTS(...)                                    \
    int main(void)                                        \
    {                                                     \
        const struct CMUnitTest tests[] = {__VA_ARGS__};  \
        return cmocka_run_group_tests(tests, NULL, NULL); \
    }

#define TEST_CASE(f) cmocka_unit_test(f)

#endif
