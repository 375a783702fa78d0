// SPDX-License-Identifier: Apache-2.0
//
// Options as a table: --name VALUE, --name=VALUE, -n VALUE, -nVALUE. One table serves the reading, the help, the
// suggestions and the completion of shells.
#ifndef CMD_OPTION_H
#define CMD_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"

struct option_texts VEC(const char *);

// Options that belong together.
struct option_group {
    const char *title; // above them in the help
    const struct option *options;
    size_t n;
};

#define OPTION_GROUP(title_, table)                                    \
    {                                                                  \
        .title = (title_), .options = (table), .n = array_len((table)) \
    }

// What an option sets: one of the five.
struct option {
    const char *name;
    const char *letter;     // "-n", or NULL
    const char *value_name; // what its value is called in the help
    const char *help;       // one line or more; NULL: not shown
    const char
        *choices; // words for the completion, with spaces between; a word that ends in = goes on
    const char **text;
    struct option_texts *many; // may be given several times
    int64_t *number;
    int64_t least; // of the number
    bool *flag;
    bool value;           // what the flag becomes; --name=false makes it the other
    int64_t *duration_ns; // 300ms, 1.5s, 2m, 1h
};

// option_take reads argv[*i], and what is behind it if it needs a value, when it is this option. False: it is
// another one, or its value makes no sense.
bool option_take(const struct option *o, int argc, char **argv, int *i);

// option_set gives an option a value (NULL: none was given). Returns 0 or -ERR_INVALID with what it needs.
int option_set(const struct option *o, const char *value, struct err *err) MUST_USE;

// option_needs_value: everything but a flag.
static inline bool option_needs_value(const struct option *o)
{
    return !o->flag;
}

// option_duration reads a duration. Returns 0 or -ERR_INVALID.
int option_duration(const char *text, int64_t *ret_ns, struct err *err) MUST_USE;

// option_file sets options from a YAML or JSON file whose fields have their names, without the dashes: texts, numbers, true and
// false; a list for what may be given several times or separated by commas; for lists of switches a map of them.
// Texts live in arena. Returns 0 or a negative code with file, position and field.
int option_file(const char *path, const struct option *options, size_t n, struct arena *arena,
                struct err *err) MUST_USE;

#endif
