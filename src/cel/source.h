// SPDX-License-Identifier: Apache-2.0
//
// A source text and what is wrong with it. Positions are code point offsets; issues print with the
// line, a column in code points and a caret, as cel-go prints them.
#ifndef CEL_SOURCE_H
#define CEL_SOURCE_H

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

struct cel_issue {
    uint32_t pos; // CEL_NO_POS: no place
    struct str text;
};

struct cel_source {
    struct arena *arena;
    struct str text;
    struct cel_program *program;   // that it becomes; gets the patterns that validation compiles
    struct cel_spending *spending; // may be NULL
    uint32_t code_points;
    bool ascii;
    struct cel_issues VEC(struct cel_issue) issues; // in the arena
};

void cel_source_init(struct cel_source *s, struct arena *a, struct str text);

// cel_source_regex compiles a constant pattern of the program once. NULL: why says so.
const struct cel_regex *cel_source_regex(const struct cel_source *s, struct str pattern, char *why,
                                         size_t why_size);

// cel_issue adds a message; at most CEL_ISSUES_MAX are kept.
void cel_issue(struct cel_source *s, uint32_t pos, const char *fmt, ...) ERR_PRINTF(3, 4);

#define CEL_ISSUES_MAX 100

// cel_source_write adds all issues, one block each, ordered by position.
void cel_source_write(const struct cel_source *s, struct sbuf *out);

// cel_source_point adds "MESSAGE position and caret" lines for one position of a text.
void cel_source_point(struct str text, uint32_t pos, struct str message, struct sbuf *out);

// cel_source_line_col turns a position into a line from 1 and a column from 0.
void cel_source_line_col(struct str text, uint32_t pos, uint32_t *ret_line, uint32_t *ret_col);

#endif
