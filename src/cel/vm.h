// SPDX-License-Identifier: Apache-2.0
#ifndef CEL_VM_H
#define CEL_VM_H

#include "cel/device.h"
#include "cel/run.h"

// cel_execute runs a program; the result lives in run's arena, the program, the device or vars.
// run->cost gets what it cost. d may be NULL when the program does not use the device.
struct cel_val cel_execute(struct cel_run *run, const struct cel_program *p,
                           const struct cel_device *d, const struct cel_val *const *vars);

#endif
