// SPDX-License-Identifier: Apache-2.0
//
// Tables as kubectl prints them: a line of names, lines of cells, columns as wide as their widest
// cell and three more. Where the terminal is narrower than that, dispensable columns are left out,
// then the others cut, the widest first, names after the rest, but before that is beyond
// recognition; … marks both.
#ifndef VIEW_TABLE_H
#define VIEW_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "view/term.h"
#include "view/text.h"

enum view_column_flags {
    VIEW_COLUMN_WIDE = 1,  // shown with -o wide only
    VIEW_COLUMN_RIGHT = 2, // numbers: never cut
    VIEW_COLUMN_WHOLE = 4, // cut last: names that people copy
    VIEW_COLUMN_SPARE = 8, // left out first where there is no room
};

struct view_column {
    struct str name;
    unsigned flags;
    size_t width; // of the widest cell so far
};

struct view_cell {
    struct str text;
    size_t width;
    enum view_style style;
};

// A table being filled. Zeroed, it is empty. Texts are copied.
struct view_table {
    struct arena arena; // names
    struct arena rows;  // texts of cells
    struct VEC(struct view_column) columns;
    struct VEC(struct view_cell) cells; // row by row
    bool headed;                        // the names were written
};

struct view_layout {
    struct view_term term;
    bool wide;
    bool no_headers;
};

// view_table_column adds a column; all of them before the first cell.
void view_table_column(struct view_table *t, struct str name, unsigned flags);

// view_table_cell adds the next cell; a row ends by itself. An empty one is shown as it is.
void view_table_cell(struct view_table *t, struct str text, enum view_style style);
void view_table_cellf(struct view_table *t, enum view_style style, const char *fmt, ...)
    ERR_PRINTF(3, 4);

// view_table_write adds the names (once) and the rows, and forgets the rows: what is written
// afterwards stands in the same columns. Every row must be whole.
void view_table_write(struct view_table *t, const struct view_layout *how, struct sbuf *out);

void view_table_done(struct view_table *t);
#define cleanup_view_table cleanup_with(view_table_done)

#endif
