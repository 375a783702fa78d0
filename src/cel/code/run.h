// SPDX-License-Identifier: Apache-2.0
//
// An evaluation in progress, as library functions see it.
#ifndef CEL_CODE_RUN_H
#define CEL_CODE_RUN_H

#include "cel/code/code.h"
#include "cel/value.h"

struct cel_shape;

// What a path of the program was resolved to last time, by shape.
struct cel_path_cache {
    const struct cel_shape *shape;
    uint32_t slot; // CEL_SLOT_NONE: absent
};

#define CEL_SLOT_NONE UINT32_MAX

struct cel_run {
    struct arena arena; // values made by this evaluation
    uint64_t cost;
    uint64_t work; // really done (work.h)
    uint64_t limit;
    const volatile bool *cancel;
    const struct cel_call *call;       // the call being made, NULL while constants are computed
    const struct cel_program *program; // whose paths the cache is for
    uint64_t program_serial;
    struct cel_path_cache *paths;
    size_t paths_cap;
    struct cel_val *stack; // values, then slots
    size_t stack_cap;
    uint32_t iterations; // since the last look at cancel
    struct cel_val result;
    // The last pattern that was not constant.
    struct cel_regex *last_regex;
    struct sbuf last_pattern;
    struct sbuf text; // scratch for building strings
};

// cel_run_string copies text into the evaluation's arena as a string value.
struct cel_val cel_run_string(struct cel_run *run, struct str s);

// cel_run_take makes a string value of what is in run->text.
struct cel_val cel_run_take(struct cel_run *run);

// cel_run_mismatch is upstream's answer to arguments no overload takes.
struct cel_val cel_run_mismatch(struct cel_run *run, const char *function,
                                const struct cel_val *args, unsigned n);

#endif
