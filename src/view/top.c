// SPDX-License-Identifier: Apache-2.0
//
// The picture of `dray top`, from an inventory.
#include "view/top.h"

#include "api/match/node.h"
#include "view/devices.h"
#include "view/human.h"

#include "base/banned.h"

#define MARKS_MAX     64 // devices of a node that are drawn one by one
#define MARKS_MIN     8
#define NUMBERS_WIDTH 23 // of the columns between a node's name and its marks, with the gaps

static const char marks[INVENTORY_STATES] = {'.', '+', '#', '~', '!', 'x', '%'};

// --- Order ---------------------------------------------------------------------------------------

struct line {
    uint32_t at; // node or device
    uint32_t key;
    struct str name;
};

static int line_cmp(const void *x, const void *y)
{
    const struct line *a = x;
    const struct line *b = y;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    int r = str_cmp(a->name, b->name);
    return r ? r : a->at < b->at ? -1 : a->at > b->at;
}

static uint32_t states_of(const struct inventory *inv, const struct inventory_node *n,
                          enum inventory_state state)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n->devices; i++)
        sum += inv->devices[inv->by_node[n->first + i]].state == state;
    return sum;
}

// Nodes that have devices, then one line for devices of no node in particular.
static size_t node_lines(const struct inventory *inv, enum top_sort sort, struct arena *arena,
                         struct line **ret)
{
    size_t n = 0;
    *ret = arena_array(arena, struct line, inv->nodes_len + 1);
    for (size_t i = 0; i < inv->nodes_len; i++) {
        const struct inventory_node *node = &inv->nodes[i];
        if (!node->devices)
            continue;
        uint32_t key = sort == TOP_BY_FREE   ? states_of(inv, node, INVENTORY_FREE)
                       : sort == TOP_BY_HELD ? states_of(inv, node, INVENTORY_HELD)
                                             : 0;
        (*ret)[n++] = (struct line){.at = (uint32_t)i, .key = key, .name = node->name};
    }
    if (n)
        qsort(*ret, n, sizeof(**ret), line_cmp);
    return n;
}

static size_t device_lines(const struct inventory *inv, enum top_sort sort, struct arena *arena,
                           struct line **ret)
{
    *ret = arena_array(arena, struct line, inv->devices_len + 1);
    for (size_t i = 0; i < inv->devices_len; i++) {
        const struct inventory_device *d = &inv->devices[i];
        uint32_t key = sort == TOP_BY_FREE   ? d->state == INVENTORY_FREE
                       : sort == TOP_BY_HELD ? d->state == INVENTORY_HELD
                                             : 0;
        (*ret)[i] = (struct line){.at = (uint32_t)i, .key = key, .name = d->node};
    }
    if (inv->devices_len)
        qsort(*ret, inv->devices_len, sizeof(**ret), line_cmp);
    return inv->devices_len;
}

// --- Lines ---------------------------------------------------------------------------------------

static void node_columns(struct view_table *t)
{
    view_table_column(t, STR("NODE"), VIEW_COLUMN_WHOLE);
    view_table_column(t, STR("DEVICES"), VIEW_COLUMN_RIGHT);
    view_table_column(t, STR("FREE"), VIEW_COLUMN_RIGHT);
    view_table_column(t, STR("HELD"), VIEW_COLUMN_RIGHT);
    view_table_column(t, STR("EACH"), 0);
}

// How many marks a line has room for beside its name and numbers.
static uint32_t marks_room(const struct inventory *inv, const struct top_look *look,
                           const struct line *lines, size_t n)
{
    size_t name = strlen("NODE");
    for (size_t i = 0; i < n; i++) {
        bool simulated = node_is_simulated(inv->nodes[lines[i].at].node);
        size_t width = view_width(lines[i].name) + (simulated ? strlen(INVENTORY_SIMULATED) : 0);
        name = width > name ? width : name;
    }
    size_t used = name + NUMBERS_WIDTH, columns = look->term.columns;
    if (!columns || columns >= used + MARKS_MAX)
        return MARKS_MAX;
    return columns > used + MARKS_MIN ? (uint32_t)(columns - used) : MARKS_MIN;
}

static void top_add_node_cells(struct view_table *t, const struct inventory *inv, uint32_t at,
                               uint32_t room)
{
    const struct inventory_node *n = &inv->nodes[at];
    char drawn[MARKS_MAX];
    uint32_t free = states_of(inv, n, INVENTORY_FREE) + states_of(inv, n, INVENTORY_PART);
    view_table_cellf(t, VIEW_PLAIN, "%.*s%s", STR_ARG(n->name),
                     node_is_simulated(n->node) ? INVENTORY_SIMULATED : "");
    view_table_cellf(t, VIEW_PLAIN, "%u", n->devices);
    view_table_cellf(t, free ? VIEW_GOOD : VIEW_DIM, "%u", free);
    view_table_cellf(t, VIEW_PLAIN, "%u", states_of(inv, n, INVENTORY_HELD));
    // More devices than there is room for: marks stand for equal parts of them.
    uint32_t shown = n->devices < room ? n->devices : room;
    for (uint32_t i = 0; i < shown; i++) {
        uint32_t k = (uint32_t)((uint64_t)i * n->devices / shown);
        drawn[i] = marks[inv->devices[inv->by_node[n->first + k]].state];
    }
    view_table_cell(t, str_make(drawn, shown), VIEW_PLAIN);
}

static void top_add_line(struct sbuf *out, const struct sbuf *line, const struct top_look *look)
{
    view_add_cut(out, sbuf_str(line), look->term.columns ? look->term.columns : line->n);
    sbuf_addc(out, '\n');
}

static const char *top_plural_word(size_t n, const char *one, const char *more)
{
    return n == 1 ? one : more;
}

static void top_add_summary(struct sbuf *out, const struct inventory *inv,
                            const struct top_look *look)
{
    size_t states[INVENTORY_STATES] = {0};
    cleanup_sbuf struct sbuf line = {0};
    for (size_t i = 0; i < inv->devices_len; i++)
        states[inv->devices[i].state]++;
    sbuf_addf(&line, "%zu node%s, %zu device%s; %zu claim%s %s devices, %zu pod%s %s",
              inv->nodes_len, top_plural_word(inv->nodes_len, "", "s"), inv->devices_len,
              top_plural_word(inv->devices_len, "", "s"), inv->claims_len,
              top_plural_word(inv->claims_len, "", "s"),
              top_plural_word(inv->claims_len, "holds", "hold"), inv->pending_len,
              top_plural_word(inv->pending_len, "", "s"),
              top_plural_word(inv->pending_len, "waits", "wait"));
    top_add_line(out, &line, look);
    sbuf_clear(&line);
    for (size_t i = 0; i < INVENTORY_STATES; i++)
        if (states[i] || i == INVENTORY_FREE)
            sbuf_addf(&line, "%s%zu %s %c", line.n ? "  " : "", states[i],
                      inventory_state_name((enum inventory_state)i), marks[i]);
    top_add_line(out, &line, look);
    sbuf_addc(out, '\n');
}

static void pending_table(struct sbuf *out, const struct inventory *inv,
                          const struct top_look *look, size_t most)
{
    cleanup_view_table struct view_table t = {0};
    const struct view_layout how = {.term = look->term};
    if (!inv->pending_len || !most)
        return;
    sbuf_addc(out, '\n');
    view_table_column(&t, STR("WAITING POD"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("FOR"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("REASON"), 0);
    for (size_t i = 0; i < inv->pending_len && i < most; i++) {
        const struct inventory_pending *p = &inv->pending[i];
        cleanup_sbuf struct sbuf age = {0};
        int64_t s = p->since.set ? look->now.sec - p->since.at.sec : 0;
        view_add_duration(&age, s > 0 ? s : 0);
        view_table_cell(&t, p->pod, VIEW_PLAIN);
        view_table_cell(&t, sbuf_str(&age), VIEW_PLAIN);
        view_table_cell(&t, p->reason.n ? p->reason : STR("not looked at yet"), VIEW_WARN);
    }
    view_table_write(&t, &how, out);
    if (inv->pending_len > most)
        sbuf_addf(out, "and %zu more\n", inv->pending_len - most);
}

// --- The picture ---------------------------------------------------------------------------------

// Rows for the list and for the pods that wait.
static void share_rows(const struct inventory *inv, const struct top_look *look, size_t *ret_list,
                       size_t *ret_pending)
{
    const size_t fixed = 5; // the summary, an empty line, the names of columns, keys
    *ret_list = *ret_pending = SIZE_MAX;
    if (!look->term.rows)
        return;
    size_t rows = look->term.rows > fixed + 1 ? look->term.rows - fixed : 1;
    size_t pending = inv->pending_len ? inv->pending_len + 3 : 0; // with its names and what is left
    if (pending > rows / 3)
        pending = rows / 3;
    *ret_pending = pending > 3 ? pending - 3 : 0;
    *ret_list = rows - (*ret_pending ? pending : 0);
}

static void fill_table(struct view_table *t, const struct inventory *inv,
                       const struct top_look *look, const struct line *lines, size_t n)
{
    uint32_t *devices = arena_array(&t->arena, uint32_t, n + 1);
    for (size_t i = 0; i < n; i++)
        devices[i] = lines[i].at;
    if (look->devices) {
        view_who(t, inv, devices, n, look->now);
        return;
    }
    uint32_t room = marks_room(inv, look, lines, n);
    node_columns(t);
    for (size_t i = 0; i < n; i++)
        top_add_node_cells(t, inv, lines[i].at, room);
}

size_t view_top(struct sbuf *out, const struct inventory *inv, const struct top_look *look)
{
    struct arena arena = {0};
    cleanup_view_table struct view_table t = {0};
    const struct view_layout how = {.term = look->term};
    struct line *lines = NULL;
    size_t rows = 0, pending = 0;
    size_t all = look->devices ? device_lines(inv, look->sort, &arena, &lines)
                               : node_lines(inv, look->sort, &arena, &lines);
    size_t from = look->scroll < all ? look->scroll : all;
    share_rows(inv, look, &rows, &pending);
    top_add_summary(out, inv, look);
    fill_table(&t, inv, look, lines + from, all - from < rows ? all - from : rows);
    view_table_write(&t, &how, out);
    pending_table(out, inv, look, pending);
    if (look->keys)
        sbuf_addz(out, "q quit  d devices/nodes  s sort  j/k scroll");
    arena_done(&arena);
    return all;
}
