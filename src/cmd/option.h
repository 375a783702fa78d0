// SPDX-License-Identifier: Apache-2.0
//
// Long options as a table, for verbs with many: --name VALUE or --name=VALUE.
#ifndef CMD_OPTION_H
#define CMD_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

struct option_texts VEC(const char *);

// What an option sets: one of the four.
struct option {
    const char *name;
    const char **text;
    struct option_texts *many; // may be given several times
    int64_t *number;
    int64_t least; // of the number
    bool *flag;
    bool value; // what the flag becomes
};

// option_take reads argv[*i], and what is behind it if it needs a value, when it is this option. False: it is
// another one, or its value makes no sense.
bool option_take(const struct option *o, int argc, char **argv, int *i);

#endif
