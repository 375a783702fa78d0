// SPDX-License-Identifier: Apache-2.0
//
// Kubernetes' named string formats: format.dns1123Label() and its relatives.
#ifndef CEL_LIB_NAMED_FORMAT_H
#define CEL_LIB_NAMED_FORMAT_H

#include "base/str.h"

struct cel_run;
struct cel_list;

struct cel_format {
    const char *name;
    unsigned pattern_size; // what upstream charges a validation with

    // check adds upstream's messages about s to out; nothing when s is fine.
    void (*check)(struct cel_run *run, struct str s, struct cel_list *out);
};

#endif
