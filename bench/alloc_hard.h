// SPDX-License-Identifier: Apache-2.0
//
// Hard allocation problems: 128 devices, 32 requests and more, constraints and counters that get in
// each other's way, with and without a solution. Searching them naively takes ages. The benchmark
// measures them; the tests hold the number of steps.
#ifndef BENCH_ALLOC_HARD_H
#define BENCH_ALLOC_HARD_H

#include "alloc/alloc.h"
#include "base/str.h"

struct alloc_hard {
    const char *name;
    void (*write)(struct sbuf *out, bool satisfiable);
    bool satisfiable;
};

extern const struct alloc_hard alloc_hard_problems[];
extern const size_t alloc_hard_count;

// alloc_hard_write adds a problem as a document of `dray alloc`.
void alloc_hard_write(const struct alloc_hard *h, struct sbuf *out);

#endif
