// SPDX-License-Identifier: Apache-2.0
//
// The libraries: tables of functions by name. A function sees its arguments' kinds at run time and
// serves all overloads of its name.
#ifndef CEL_LIB_LIB_H
#define CEL_LIB_LIB_H

#include "cel/code/run.h"

struct cel_impl {
    const char *name;
    cel_fn fn;
};

struct cel_impls {
    const struct cel_impl *p;
    size_t n;
};

extern const struct cel_impls cel_lib_std, cel_lib_convert, cel_lib_time, cel_lib_strings,
    cel_lib_format, cel_lib_lists, cel_lib_optional, cel_lib_kubernetes, cel_lib_net, cel_lib_url,
    cel_lib_named_format, cel_lib_regex;

#define CEL_IMPLS(lib, table) const struct cel_impls cel_lib_##lib = {table, array_len(table)}

// Pieces the files share.
struct cel_val cel_add(struct cel_run *run, struct cel_val a, struct cel_val b);
struct cel_val cel_to_timestamp(struct cel_run *run, struct cel_val v);
struct cel_val cel_to_duration(struct cel_run *run, struct cel_val v);
struct cel_val cel_list_contains(const struct cel_list *l, struct cel_val v);

// cel_zone_offset finds what a zone's clocks were ahead of UTC by at an instant; false: no such
// zone. Names are IANA names, UTC, and ±hh:mm.
bool cel_zone_offset(struct str zone, int64_t unix_seconds, int64_t *ret_offset_seconds);

#endif
