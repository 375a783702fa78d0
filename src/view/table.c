// SPDX-License-Identifier: Apache-2.0
//
// Tables laid out as kubectl's, or fitted to the width of a terminal.
#include "view/table.h"

#include <assert.h>
#include <stdio.h>

#include "base/banned.h"

#define GAP         3 // between columns, as kubectl
#define GAP_NARROW  2
#define COLUMN_MIN  6 // with the gap, as kubectl
#define WIDTH_LEAST 6 // what a column keeps when it is cut
#define MARK_WIDTH  2 // of the mark that columns are left out

void view_table_column(struct view_table *t, struct str name, unsigned flags)
{
    assert(t->cells.n == 0);
    vec_push(&t->columns,
             ((struct view_column){.name = arena_str(&t->arena, name), .flags = flags}));
}

void view_table_cell(struct view_table *t, struct str text, enum view_style style)
{
    cleanup_sbuf struct sbuf line = {0};
    assert(t->columns.n);
    view_add_line(&line, text);
    struct view_cell c = {.text = arena_str(&t->rows, sbuf_str(&line)), .style = style};
    c.width = view_width(c.text);
    struct view_column *column = &t->columns.p[t->cells.n % t->columns.n];
    if (c.width > column->width)
        column->width = c.width;
    vec_push(&t->cells, c);
}

void view_table_cellf(struct view_table *t, enum view_style style, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    view_table_cell(t, str_z(n < 0 ? "" : text), style);
}

// --- Layout --------------------------------------------------------------------------------------

// How a table is put on lines: the columns that are shown, each with its width.
struct grid {
    const struct view_table *table;
    const struct view_layout *how;
    struct VEC(size_t) shown;  // indexes of columns
    struct VEC(size_t) widths; // of those
    size_t gap;
    size_t room; // columns for a line
    bool marked; // something is left out
};

static size_t table_total_width(const struct grid *g)
{
    size_t sum = 0;
    for (size_t i = 0; i < g->widths.n; i++)
        sum += g->widths.p[i] + (i + 1 < g->widths.n ? g->gap : 0);
    return sum;
}

static unsigned flags_of(const struct grid *g, size_t i)
{
    return g->table->columns.p[g->shown.p[i]].flags;
}

// table_widest_column finds the widest of the columns that may be cut, of names or of others, if it
// is wider than least; SIZE_MAX: none is. A number that is cut would be another one.
static size_t table_widest_column(const struct grid *g, bool names, size_t least)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < g->widths.n; i++) {
        bool name = flags_of(g, i) & VIEW_COLUMN_WHOLE;
        if (g->widths.p[i] > least && name == names && !(flags_of(g, i) & VIEW_COLUMN_RIGHT) &&
            (best == SIZE_MAX || g->widths.p[i] > g->widths.p[best]))
            best = i;
    }
    return best;
}

// leave_out drops a column. What is left out is marked by … behind the names, for which there has
// to be room.
static void leave_out(struct grid *g, size_t i)
{
    size_t behind = g->shown.n - i - 1;
    memmove(&g->shown.p[i], &g->shown.p[i + 1], behind * sizeof(g->shown.p[0]));
    memmove(&g->widths.p[i], &g->widths.p[i + 1], behind * sizeof(g->widths.p[0]));
    (void)vec_pop(&g->shown);
    (void)vec_pop(&g->widths);
    if (!g->marked && g->room > MARK_WIDTH)
        g->room -= MARK_WIDTH;
    g->marked = true;
}

// table_fit_columns makes lines fit the terminal: it leaves out what is dispensable, from the
// right, makes columns narrower, and leaves out what still has no room. Names are cut after the
// rest, but before that is beyond recognition.
static void table_fit_columns(struct grid *g)
{
    g->room = g->how->term.columns;
    if (!g->room || table_total_width(g) <= g->room)
        return;
    g->gap = GAP_NARROW;
    for (size_t i = g->shown.n; i-- > 1 && table_total_width(g) > g->room;)
        if (flags_of(g, i) & VIEW_COLUMN_SPARE)
            leave_out(g, i);
    static const struct {
        bool names;
        size_t least;
    } cuts[] = {{false, 9}, {true, 16}, {false, WIDTH_LEAST}, {true, WIDTH_LEAST}};
    for (size_t k = 0; k < array_len(cuts); k++) {
        for (size_t over = table_total_width(g); over > g->room; over--) {
            size_t i = table_widest_column(g, cuts[k].names, cuts[k].least);
            if (i == SIZE_MAX)
                break;
            g->widths.p[i]--;
        }
    }
    while (table_total_width(g) > g->room && g->shown.n > 1)
        leave_out(g, g->shown.n - 1);
}

static void lay_out(struct grid *g)
{
    const struct view_table *t = g->table;
    for (size_t i = 0; i < t->columns.n; i++) {
        if ((t->columns.p[i].flags & VIEW_COLUMN_WIDE) && !g->how->wide)
            continue;
        size_t width = t->columns.p[i].width, name = view_width(t->columns.p[i].name);
        if (!g->how->no_headers && name > width)
            width = name;
        vec_push(&g->shown, i);
        vec_push(&g->widths, width + GAP < COLUMN_MIN ? COLUMN_MIN - GAP : width);
    }
    g->gap = GAP;
    table_fit_columns(g);
}

static void table_add_cell(const struct grid *g, size_t i, const struct view_cell *c,
                           struct sbuf *out)
{
    bool last = i + 1 == g->shown.n;
    bool right = flags_of(g, i) & VIEW_COLUMN_RIGHT;
    size_t width = g->widths.p[i];
    size_t pad = c->width < width ? width - c->width : 0;
    if (right)
        sbuf_add_repeat(out, ' ', pad);
    view_style_begin(out, c->style, g->how->term.color);
    if (c->width > width && g->how->term.columns && c->style == VIEW_HEAD)
        view_add_cut(out, c->text, width);
    else if (c->width > width && g->how->term.columns)
        view_add_cut_name(out, c->text, width);
    else
        sbuf_add(out, c->text);
    view_style_end(out, c->style, g->how->term.color);
    if (!last)
        sbuf_add_repeat(out, ' ', (right ? 0 : pad) + g->gap);
}

static void table_add_names(const struct grid *g, struct sbuf *out)
{
    for (size_t i = 0; i < g->shown.n; i++) {
        struct str name = g->table->columns.p[g->shown.p[i]].name;
        const struct view_cell c = {name, view_width(name), VIEW_HEAD};
        table_add_cell(g, i, &c, out);
    }
    sbuf_addz(out, g->marked ? " …\n" : "\n");
}

static void table_add_row(const struct grid *g, size_t row, struct sbuf *out)
{
    const struct view_cell *cells = &g->table->cells.p[row * g->table->columns.n];
    for (size_t i = 0; i < g->shown.n; i++)
        table_add_cell(g, i, &cells[g->shown.p[i]], out);
    sbuf_addc(out, '\n');
}

void view_table_write(struct view_table *t, const struct view_layout *how, struct sbuf *out)
{
    struct grid g = {.table = t, .how = how};
    assert(t->columns.n && t->cells.n % t->columns.n == 0);
    lay_out(&g);
    if (!t->headed && !how->no_headers)
        table_add_names(&g, out);
    for (size_t row = 0; row < t->cells.n / t->columns.n; row++)
        table_add_row(&g, row, out);
    t->headed = true;
    vec_clear(&t->cells);
    arena_reset(&t->rows);
    vec_done(&g.shown);
    vec_done(&g.widths);
}

void view_table_done(struct view_table *t)
{
    vec_done(&t->columns);
    vec_done(&t->cells);
    arena_done(&t->arena);
    arena_done(&t->rows);
    *t = (struct view_table){0};
}
