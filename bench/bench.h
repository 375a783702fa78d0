// SPDX-License-Identifier: Apache-2.0
//
// Timing for the benchmark programs: a body runs in rounds of a fixed time, the best of them counts
// (noise only ever adds), and one JSON line a measurement goes to standard output. Rounds are shorter
// than the turns that a busy machine gives a process, so that some are never interrupted.
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define BENCH_ROUNDS   5 // at the least; more while BENCH_ALL_NS are not over
#define BENCH_ROUND_NS (2 * CLOCK_NS_PER_MS)
#define BENCH_ALL_NS   (300 * CLOCK_NS_PER_MS)

// bench_keep makes the compiler believe that a value is used.
#define bench_keep(value) __asm__ volatile("" : : "g"(value) : "memory")

// Processor time of this process: what neighbours on the machine do not change much.
static inline double bench_cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// bench_value writes one measurement as tools/bench reads it.
static inline void bench_value(const char *name, double value, const char *unit)
{
    printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"%s\"}\n", name, value, unit);
    (void)fflush(stdout);
}

// bench_point writes one point of a curve: the cost when there are n of something.
static inline void bench_point(const char *name, size_t n, double ns)
{
    printf("{\"name\":\"%s\",\"n\":%zu,\"value\":%.3f,\"unit\":\"ns\"}\n", name, n, ns);
    (void)fflush(stdout);
}

// bench_print is a time with more to say: bytes (per run) is left out when 0; against names another
// line of the same program to compare with, or is NULL.
static inline void bench_print(const char *name, double ns, size_t bytes, const char *against)
{
    printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"ns\"", name, ns);
    if (bytes)
        printf(",\"bytes\":%zu", bytes);
    if (against)
        printf(",\"against\":\"%s\"", against);
    puts("}");
    (void)fflush(stdout);
}

// BENCH runs the statement behind it over and over and prints nanoseconds per run under a name;
// BENCH_BYTES also says how many bytes a run handles.
#define BENCH(name, ...) BENCH_BYTES(name, 0, __VA_ARGS__)
#define BENCH_BYTES(name, bytes, ...)                                                        \
    do {                                                                                     \
        double bench_best = 0;                                                               \
        int64_t bench_all = 0;                                                               \
        for (int bench_round = 0; bench_round < BENCH_ROUNDS || bench_all < BENCH_ALL_NS;    \
             bench_round++) {                                                                \
            int64_t bench_runs = 0, bench_took, bench_start = clock_mono_ns(clock_system()); \
            do {                                                                             \
                for (int bench_i = 0; bench_i < 64; bench_i++) {                             \
                    __VA_ARGS__;                                                             \
                }                                                                            \
                bench_runs += 64;                                                            \
                bench_took = clock_mono_ns(clock_system()) - bench_start;                    \
            } while (bench_took < BENCH_ROUND_NS);                                           \
            bench_all += bench_took;                                                         \
            double bench_each = (double)bench_took / (double)bench_runs;                     \
            if (bench_round == 0 || bench_each < bench_best)                                 \
                bench_best = bench_each;                                                     \
        }                                                                                    \
        bench_print((name), bench_best, (bytes), NULL);                                      \
    } while (0)

// --- Instructions --------------------------------------------------------------------------------
//
// With --count a program runs its hot loops a fixed number of times instead, each between these two
// calls, by which callgrind tells where a loop begins and ends (bench/counts.py).

#ifdef __clang__
#    define BENCH_AS_IT_IS __attribute__((noinline, unused))
#    define BENCH_COMPILER "clang"
#    define BENCH_MAJOR    __clang_major__
#else
#    define BENCH_AS_IT_IS __attribute__((noipa, unused))
#    define BENCH_COMPILER "gcc"
#    define BENCH_MAJOR    __GNUC__
#endif

static BENCH_AS_IT_IS void bench_count_begin(void)
{
    __asm__ volatile("" : : : "memory");
}

static BENCH_AS_IT_IS void bench_count_end(void)
{
    __asm__ volatile("" : : : "memory");
}

// bench_counting says whether the program was started to be counted.
static inline bool bench_counting(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "--count") == 0;
}

// COUNT runs the statement so many times under the eyes of callgrind, once before that: the first
// time fills caches.
#define COUNT(name, runs, ...)                                                                \
    do {                                                                                      \
        {                                                                                     \
            __VA_ARGS__;                                                                      \
        }                                                                                     \
        bench_count_begin();                                                                  \
        for (int bench_i = 0; bench_i < (runs); bench_i++) {                                  \
            __VA_ARGS__;                                                                      \
        }                                                                                     \
        bench_count_end();                                                                    \
        printf("{\"name\":\"%s\",\"runs\":%d,\"compiler\":\"%s %d\"}\n", (name), (int)(runs), \
               BENCH_COMPILER, BENCH_MAJOR);                                                  \
        (void)fflush(stdout);                                                                 \
    } while (0)

#endif
