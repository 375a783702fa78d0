// SPDX-License-Identifier: Apache-2.0
//
// Where text goes: a terminal of some width, or a file.
#ifndef VIEW_TERM_H
#define VIEW_TERM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum view_when {
    VIEW_AUTO,
    VIEW_ALWAYS,
    VIEW_NEVER,
};

struct view_term {
    bool tty;
    bool color;
    size_t columns; // 0: lines may be as long as they like
    size_t rows;    // 0: there is no end of them
};

// view_term_of looks at a file descriptor. Without a terminal, COLUMNS of the environment counts
// only when colour is forced: the output is for people.
struct view_term view_term_of(int fd, enum view_when color);

// view_when_parse reads auto, always or never; NULL is auto. Returns 0 or -ERR_INVALID.
int view_when_parse(const char *text, enum view_when *ret, struct err *err) MUST_USE;

#endif
