// SPDX-License-Identifier: Apache-2.0
#ifndef CEL_CODE_VM_H
#define CEL_CODE_VM_H

#include "cel/code/device.h"
#include "cel/code/run.h"

// Devices to run a selector on, and what came out: bits for matches and failures, cleared first.
struct cel_batch {
    const struct cel_device *const *devices;
    size_t n; // at least one
    uint64_t *match;
    uint64_t *failed; // may be NULL
    size_t matches, failures;
};

// cel_execute runs a program; the result lives in run's arena, the program, the device or vars.
// run->cost gets what it cost. d may be NULL when the program does not use the device.
// With batch, d is not used: the program runs on each of the batch's devices and the answers go to
// its bits.
struct cel_val cel_execute(struct cel_run *run, const struct cel_program *p,
                           const struct cel_device *d, const struct cel_val *const *vars,
                           struct cel_batch *batch);

#endif
