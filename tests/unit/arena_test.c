// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/limits.h"
#include "unit.h"

#include "base/banned.h"

static void gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    for (size_t align = 1; align <= 64; align *= 2) {
        unsigned char *p = arena_alloc(&a, 33, align);
        assert_int_equal((uintptr_t)p % align, 0);
        for (size_t i = 0; i < 33; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, 33);
    }
    assert_int_equal(a.used_bytes, 33 * 7);
}

static void holds_allocations_larger_than_a_chunk(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    char *small = arena_alloc(&a, 8, 8);
    memcpy(small, "original", 8);
    char *big = arena_alloc(&a, 5u * 1024 * 1024, 8);
    memset(big, 1, 5u * 1024 * 1024);
    assert_memory_equal(small, "original", 8);
    arena_reset(&a);
    assert_int_equal(a.used_bytes, 0);
    assert_non_null(arena_alloc(&a, 1, 1));
}

static void rewinds_to_a_mark(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    char *kept = arena_str(&a, STR("kept")).p ? arena_alloc(&a, 4, 1) : NULL;
    memcpy(kept, "kept", 4);
    struct arena_mark m = arena_mark(&a);
    size_t before = a.used_bytes;
    for (int i = 0; i < 1000; i++)
        (void)arena_alloc(&a, 100, 8);
    arena_rewind(&a, m);
    assert_int_equal(a.used_bytes, before);
    assert_memory_equal(kept, "kept", 4);
    // A mark of the empty arena frees everything.
    struct arena b = {0};
    m = arena_mark(&b);
    (void)arena_alloc(&b, 10, 1);
    arena_rewind(&b, m);
    assert_null(b.newest);
}

static void formats_and_copies_text(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    assert_str(arena_strf(&a, "%s-%d", "gpu", 7), "gpu-7");
    struct str s = arena_str(&a, STR("x"));
    assert_int_equal(s.p[1], '\0');
    assert_int_equal(arena_str(&a, (struct str){0}).n, 0);
}

static void refuses_sizes_that_no_input_needs(void **state)
{
    (void)state;
    struct rlimit no_core = {0};
    pid_t child = fork();
    if (child == 0) {
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGABRT, SIG_DFL);
        struct arena a = {0};
        arena_reserve(&a, (size_t)DRAY_ARENA_BLOCK_MAX + 1); // reserves, does not touch
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

RUN_TESTS(TEST_CASE(gives_zeroed_aligned_memory), TEST_CASE(holds_allocations_larger_than_a_chunk),
          TEST_CASE(rewinds_to_a_mark), TEST_CASE(formats_and_copies_text),
          TEST_CASE(refuses_sizes_that_no_input_needs))
