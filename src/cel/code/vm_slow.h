// SPDX-License-Identifier: Apache-2.0
//
// The machine's cold functions; see vm_slow.c.
#ifndef CEL_CODE_VM_SLOW_H
#define CEL_CODE_VM_SLOW_H

#include "cel/code/device.h"
#include "cel/code/run.h"

#define COLD __attribute__((noinline, cold))

enum found { FOUND, ABSENT, FAILED };

// Gives an error that has no position yet the one of the instruction that made it.
struct cel_val cel_slow_placed(struct cel_run *run, const struct cel_program *p, size_t pc,
                               struct cel_val v) COLD;

// One qualification of a value by a key. `soft`: what is not there is ABSENT, no error.
enum found cel_slow_qualify(struct cel_run *run, struct cel_val obj, struct cel_val key, bool soft,
                            struct cel_val *ret) COLD;

// Upstream's cost trackers of these functions fall over when the list they count is an error.
bool cel_slow_cost_needs_list(const struct cel_call *c, const struct cel_val *args) COLD;

struct cel_val cel_slow_misfit(struct cel_run *run, const struct cel_call *c,
                               const struct cel_val *args) COLD;

// Arguments of a call that has no implementation, or whose function does not exist.
struct cel_val cel_slow_unbound(struct cel_run *run, const struct cel_call *c,
                                const struct cel_val *args) COLD;

struct cel_val cel_slow_unhashable(struct cel_run *run, struct cel_val v) COLD;

// Starts an iteration: slots range, position.
struct cel_val cel_slow_not_iterable(struct cel_run *run, struct cel_val v, bool two) COLD;

// An accumulator that starts empty grows in place, as upstream's mutable lists and maps.
struct cel_val cel_slow_opened(struct cel_run *run, struct cel_val v) COLD;

struct cel_val cel_slow_closed(struct cel_run *run, struct cel_val v) COLD;

// Appends to a list under construction; the result is the list or an error.
struct cel_val cel_slow_append(struct cel_run *run, struct cel_val list, struct cel_val v,
                               bool optional) COLD;

struct cel_val cel_slow_put(struct cel_run *run, const struct cel_program *p,
                            const struct cel_val *at, bool optional) COLD;

struct cel_val cel_slow_list_of(struct cel_run *run, const struct cel_val *items, uint32_t n) COLD;

struct cel_val cel_slow_fatal(struct cel_run *run, const char *text) COLD;

struct cel_val cel_slow_no_name(struct cel_run *run, const struct cel_program *p,
                                uint32_t path) COLD;

// The end of an attribute: wrap what came through an optional qualifier; has() answers a bool.
struct cel_val cel_slow_attribute_end(struct cel_run *run, struct cel_val v, bool test) COLD;

// The stack and slots for a program, and a path cache that belongs to it.
void cel_slow_prepare(struct cel_run *run, const struct cel_program *p) COLD;

#endif
