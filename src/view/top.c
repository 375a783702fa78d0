// SPDX-License-Identifier: Apache-2.0
//
// The picture of `dray top`, from an inventory.
#include "view/top.h"

#include <strings.h>

#include "api/match/node.h"
#include "codec/json_writer.h"
#include "view/devices.h"
#include "view/human.h"

#include "base/banned.h"

#define MARKS_MAX     64 // devices of a node that are drawn one by one
#define MARKS_MIN     8
#define DETAILS_ROWS  6
#define NUMBERS_WIDTH 23 // of the columns between a node's name and its marks, with the gaps

static const char marks[INVENTORY_STATES] = {'.', '+', '#', '~', '!', 'x', '%'};

// --- What is shown -------------------------------------------------------------------------------

// What a picture is made of.
struct top_picture {
    const struct inventory *inv;
    const struct top_look *look;
    const uint32_t *wholes; // of each device
    struct arena arena;
    struct line {
        uint32_t at; // node or device; UINT32_MAX: devices of no node
        uint32_t key;
        uint32_t part; // devices: the whole stands before its parts
        struct str name;
    } * lines;
    size_t lines_len;
    uint32_t *pods; // in inventory.pending
    size_t pods_len;
};

static bool top_contains(struct str s, struct str word)
{
    for (size_t i = 0; word.n && i + word.n <= s.n; i++)
        if (strncasecmp(s.p + i, word.p, word.n) == 0)
            return true;
    return word.n == 0;
}

static bool top_holder_matches(const struct inventory *inv, const struct inventory_hold *h,
                               const struct top_look *look, bool text)
{
    const struct inventory_claim *c = &inv->claims[h->claim];
    if (look->namespace.n && !str_eq(c->claim->metadata.namespace, look->namespace))
        return false;
    return !text || top_contains(c->name, look->filter) || top_contains(c->pods, look->filter);
}

static bool top_device_matches(const struct inventory *inv, uint32_t at,
                               const struct top_look *look)
{
    const struct inventory_device *d = &inv->devices[at];
    cleanup_sbuf struct sbuf name = {0};
    bool held = false, named = false;
    inventory_name(&d->id, &name);
    named = top_contains(sbuf_str(&name), look->filter) || top_contains(d->node, look->filter) ||
            top_contains(str_z(inventory_state_name(d->state)), look->filter);
    for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len && !held; k++)
        held = top_holder_matches(inv, &inv->holds[k], look, !named);
    return look->namespace.n ? held : named || held;
}

static int line_cmp(const void *x, const void *y)
{
    const struct line *a = x;
    const struct line *b = y;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    int r = str_cmp(a->name, b->name);
    if (r || a->part != b->part)
        return r ? r : a->part < b->part ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

// In use, broken or not.
static bool top_is_used(const struct inventory_device *d)
{
    return d->state == INVENTORY_HELD || d->state == INVENTORY_BROKEN;
}

// Devices of a node, or those that several nodes have access to.
static uint32_t top_device_of(const struct inventory *inv, uint32_t node, uint32_t i)
{
    return node == UINT32_MAX ? i : inv->by_node[inv->nodes[node].first + i];
}

static uint32_t top_devices_of(const struct inventory *inv, uint32_t node)
{
    return node == UINT32_MAX ? (uint32_t)inv->devices_len : inv->nodes[node].devices;
}

static bool top_is_of(const struct inventory *inv, uint32_t node, uint32_t device)
{
    return node != UINT32_MAX || !inv->devices[device].node.n;
}

struct top_counts {
    uint32_t devices, free, used;
};

// Parts count as the devices that they are.
static struct top_counts top_count(const struct top_picture *p, uint32_t node)
{
    struct top_counts c = {0};
    for (uint32_t i = 0; i < top_devices_of(p->inv, node); i++) {
        uint32_t at = top_device_of(p->inv, node, i);
        const struct inventory_device *d = &p->inv->devices[at];
        if (!top_is_of(p->inv, node, at))
            continue;
        c.devices++;
        c.free += d->state == INVENTORY_FREE || d->state == INVENTORY_PART;
        c.used += top_is_used(d);
    }
    return c;
}

static void top_add_node_line(struct top_picture *p, uint32_t node)
{
    const struct top_look *look = p->look;
    struct str name = node == UINT32_MAX ? STR("(network)") : p->inv->nodes[node].name;
    struct top_counts c = top_count(p, node);
    bool matches = false;
    for (uint32_t i = 0; i < top_devices_of(p->inv, node) && !matches; i++) {
        uint32_t at = top_device_of(p->inv, node, i);
        matches = top_is_of(p->inv, node, at) && top_device_matches(p->inv, at, look);
    }
    if (!matches)
        return;
    uint32_t key = look->sort == TOP_BY_FREE ? c.free : look->sort == TOP_BY_HELD ? c.used : 0;
    p->lines[p->lines_len++] = (struct line){.at = node, .key = key, .name = name};
}

// Parts that nobody uses are left out unless the filter is about them.
static void top_add_device_line(struct top_picture *p, uint32_t at)
{
    const struct inventory_device *d = &p->inv->devices[at];
    bool part = p->wholes[at] != at;
    bool idle = d->state == INVENTORY_FREE || d->state == INVENTORY_BLOCKED;
    if ((part && idle && !p->look->filter.n) || !top_device_matches(p->inv, at, p->look))
        return;
    const struct inventory_device *whole = &p->inv->devices[p->wholes[at]];
    uint32_t key = p->look->sort == TOP_BY_FREE   ? whole->state == INVENTORY_FREE
                   : p->look->sort == TOP_BY_HELD ? top_is_used(whole)
                                                  : 0;
    p->lines[p->lines_len++] =
        (struct line){.at = at,
                      .key = key,
                      .part = part,
                      .name = arena_strf(&p->arena, "%.*s %010u", STR_ARG(d->node), p->wholes[at])};
}

static void top_find_lines(struct top_picture *p)
{
    const struct inventory *inv = p->inv;
    size_t most = p->look->devices ? inv->devices_len : inv->nodes_len + 1;
    p->wholes = inventory_wholes(inv, &p->arena);
    p->lines = arena_array(&p->arena, struct line, most + 1);
    for (uint32_t i = 0; p->look->devices && i < inv->devices_len; i++)
        top_add_device_line(p, i);
    for (uint32_t i = 0; !p->look->devices && i < inv->nodes_len; i++)
        if (inv->nodes[i].devices)
            top_add_node_line(p, i);
    if (p->lines_len)
        qsort(p->lines, p->lines_len, sizeof(*p->lines), line_cmp);
    if (!p->look->devices)
        top_add_node_line(p, UINT32_MAX);
}

static bool top_pod_matches(const struct inventory_pending *q, const struct top_look *look)
{
    struct str namespace, name;
    (void)str_cut(q->pod, '/', &namespace, &name);
    return (!look->namespace.n || str_eq(namespace, look->namespace)) &&
           (top_contains(q->pod, look->filter) || top_contains(q->reason, look->filter));
}

static void top_find_pods(struct top_picture *p)
{
    p->pods = arena_array(&p->arena, uint32_t, p->inv->pending_len + 1);
    for (uint32_t i = 0; i < p->inv->pending_len; i++)
        if (top_pod_matches(&p->inv->pending[i], p->look))
            p->pods[p->pods_len++] = i;
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

static struct str top_node_title(const struct top_picture *p, const struct line *l,
                                 struct arena *arena)
{
    bool simulated = l->at != UINT32_MAX && node_is_simulated(p->inv->nodes[l->at].node);
    return arena_strf(arena, "%.*s%s", STR_ARG(l->name), simulated ? INVENTORY_SIMULATED : "");
}

// How many marks a line has room for beside its name and numbers.
static uint32_t marks_room(struct top_picture *p, const struct line *lines, size_t n)
{
    size_t name = strlen("NODE");
    for (size_t i = 0; i < n; i++) {
        size_t width = view_width(top_node_title(p, &lines[i], &p->arena));
        name = width > name ? width : name;
    }
    size_t used = name + NUMBERS_WIDTH + (p->look->keys ? 2 : 0), columns = p->look->term.columns;
    if (!columns || columns >= used + MARKS_MAX)
        return MARKS_MAX;
    return columns > used + MARKS_MIN ? (uint32_t)(columns - used) : MARKS_MIN;
}

// top_mark is the mark of a whole device: partly used when one of its parts is.
static char top_mark(const struct top_picture *p, uint32_t at, const bool *used_parts)
{
    const struct inventory_device *d = &p->inv->devices[at];
    bool idle = d->state == INVENTORY_FREE || d->state == INVENTORY_BLOCKED;
    return marks[idle && used_parts[at] ? INVENTORY_PART : d->state];
}

// top_add_marks adds a mark for each device, its parts within.
static void top_add_marks(struct view_table *t, struct top_picture *p, uint32_t node, uint32_t room)
{
    uint32_t n = 0, all = top_devices_of(p->inv, node);
    bool *used = arena_array(&p->arena, bool, p->inv->devices_len + 1);
    char *drawn = arena_array(&p->arena, char, all + 1);
    for (uint32_t i = 0; i < all; i++) {
        uint32_t at = top_device_of(p->inv, node, i);
        used[p->wholes[at]] |= p->wholes[at] != at && top_is_used(&p->inv->devices[at]);
    }
    for (uint32_t i = 0; i < all; i++) {
        uint32_t at = top_device_of(p->inv, node, i);
        if (top_is_of(p->inv, node, at) && p->wholes[at] == at)
            drawn[n++] = top_mark(p, at, used);
    }
    // More devices than there is room for: marks stand for equal parts of them.
    uint32_t shown = n < room ? n : room;
    for (uint32_t i = 0; i < shown; i++)
        drawn[i] = drawn[(uint64_t)i * n / shown];
    view_table_cell(t, str_make(drawn, shown), VIEW_PLAIN);
}

static void top_add_node_cells(struct view_table *t, struct top_picture *p, const struct line *l,
                               uint32_t room)
{
    struct top_counts c = top_count(p, l->at);
    view_table_cell(t, top_node_title(p, l, &p->arena), VIEW_PLAIN);
    view_table_cellf(t, VIEW_PLAIN, "%u", c.devices);
    view_table_cellf(t, c.free ? VIEW_GOOD : VIEW_DIM, "%u", c.free);
    view_table_cellf(t, VIEW_PLAIN, "%u", c.used);
    top_add_marks(t, p, l->at, room);
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

// --- Tables with a cursor ------------------------------------------------------------------------

// top_add_marked adds a table; with keys, two columns before it say where the cursor is: at the
// rows from..to of it.
static void top_add_marked(struct sbuf *out, struct str table, const struct top_look *look,
                           size_t from, size_t to)
{
    struct str line;
    if (!look->keys) {
        sbuf_add(out, table);
        return;
    }
    for (size_t row = 0; table.n; row++) { // the first has the names of the columns
        (void)str_cut(table, '\n', &line, &table);
        sbuf_addf(out, "%s%.*s\n", row > from && row <= to ? "> " : "  ", STR_ARG(line));
    }
}

static struct view_layout top_layout(const struct top_look *look)
{
    struct view_layout how = {.term = look->term};
    if (look->keys && how.term.columns > 2)
        how.term.columns -= 2;
    return how;
}

static void top_add_pods(struct sbuf *out, const struct top_picture *p, size_t most)
{
    cleanup_view_table struct view_table t = {0};
    cleanup_sbuf struct sbuf text = {0};
    const struct top_look *look = p->look;
    const struct view_layout how = top_layout(look);
    size_t from = look->pods_scroll < p->pods_len ? look->pods_scroll : 0;
    size_t cursor = look->pods && look->cursor >= from ? look->cursor - from : SIZE_MAX - 1;
    if (!p->pods_len || !most)
        return;
    sbuf_addc(out, '\n');
    view_table_column(&t, STR("WAITING POD"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("FOR"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("REASON"), 0);
    for (size_t i = from; i < p->pods_len && i - from < most; i++) {
        const struct inventory_pending *q = &p->inv->pending[p->pods[i]];
        cleanup_sbuf struct sbuf age = {0};
        int64_t s = q->since.set ? look->now.sec - q->since.at.sec : 0;
        view_add_duration(&age, s > 0 ? s : 0);
        view_table_cell(&t, q->pod, VIEW_PLAIN);
        view_table_cell(&t, sbuf_str(&age), VIEW_PLAIN);
        view_table_cell(&t, q->reason.n ? q->reason : STR("not looked at yet"), VIEW_WARN);
    }
    view_table_write(&t, &how, &text);
    top_add_marked(out, sbuf_str(&text), look, cursor, cursor + 1);
    if (p->pods_len - from > most)
        sbuf_addf(out, "and %zu more\n", p->pods_len - from - most);
}

// top_rows_of: a device that several claims share has a row for each.
static size_t top_rows_of(const struct top_picture *p, const struct line *l)
{
    uint32_t holds = p->look->devices ? p->inv->devices[l->at].holds_len : 1;
    return holds ? holds : 1;
}

static void top_add_list(struct sbuf *out, struct top_picture *p, size_t from, size_t most)
{
    cleanup_view_table struct view_table t = {0};
    cleanup_sbuf struct sbuf text = {0};
    const struct top_look *look = p->look;
    const struct view_layout how = top_layout(look);
    size_t first = SIZE_MAX - 1, last = 0, rows = 0, n = 0;
    uint32_t *devices = arena_array(&p->arena, uint32_t, p->lines_len + 1);
    for (size_t i = from; i < p->lines_len && (rows < most || n == 0); i++) {
        if (!look->pods && look->keys && i == look->cursor) {
            first = rows;
            last = rows + top_rows_of(p, &p->lines[i]);
        }
        rows += top_rows_of(p, &p->lines[i]);
        devices[n++] = p->lines[i].at;
    }
    if (look->devices) {
        view_who(&t, p->inv, devices, n, p->wholes, look->now);
    } else {
        uint32_t room = marks_room(p, p->lines + from, n);
        node_columns(&t);
        for (size_t i = 0; i < n; i++)
            top_add_node_cells(&t, p, &p->lines[from + i], room);
    }
    view_table_write(&t, &how, &text);
    top_add_marked(out, sbuf_str(&text), look, first, last);
}

// --- Details -------------------------------------------------------------------------------------

// top_write_details writes all of what the cursor is on: names are whole, to be copied.
static void top_write_details(const struct top_picture *p, struct sbuf *out)
{
    const struct top_look *look = p->look;
    if (look->pods && look->cursor < p->pods_len) {
        const struct inventory_pending *q = &p->inv->pending[p->pods[look->cursor]];
        sbuf_addf(out, "%.*s: %.*s", STR_ARG(q->pod),
                  STR_ARG(q->reason.n ? q->reason : STR("not looked at yet")));
    } else if (!look->pods && look->devices && look->cursor < p->lines_len) {
        const struct inventory_device *d = &p->inv->devices[p->lines[look->cursor].at];
        inventory_name(&d->id, out);
        sbuf_addf(out, ": %s%s%.*s", inventory_state_name(d->state), d->why.n ? ", " : "",
                  STR_ARG(d->why));
        for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++) {
            const struct inventory_claim *c = &p->inv->claims[p->inv->holds[k].claim];
            sbuf_addf(out, "; claim %.*s, pod %.*s", STR_ARG(c->name),
                      STR_ARG(c->pods.n ? c->pods : STR("-")));
        }
    } else if (!look->pods && look->cursor < p->lines_len) {
        const struct top_counts c = top_count(p, p->lines[look->cursor].at);
        sbuf_addf(out, "%.*s: %u devices, parts included; %u free, %u in use",
                  STR_ARG(p->lines[look->cursor].name), c.devices, c.free, c.used);
    }
}

static void top_add_help(struct sbuf *out)
{
    sbuf_addz(out, "Keys of dray top\n\n"
                   "  j, down     next line              k, up       line before\n"
                   "  space       next page              b           page before\n"
                   "  Tab         list or waiting pods   d           nodes or devices\n"
                   "  s           sort by name, free or held devices\n"
                   "  /           filter by text: Enter keeps it, Esc removes it\n"
                   "  ?           this page, and back    q           quit\n\n"
                   "The line with > is shown whole below.\n\nMarks:\n");
    for (size_t i = 0; i < INVENTORY_STATES; i++)
        sbuf_addf(out, "  %c  %s%s\n", marks[i], inventory_state_name((enum inventory_state)i),
                  i == INVENTORY_PART     ? ", or partitions of it are in use"
                  : i == INVENTORY_BROKEN ? ", and in use"
                                          : "");
}

static void top_add_foot(struct sbuf *out, const struct top_look *look)
{
    cleanup_sbuf struct sbuf line = {0};
    if (look->typing)
        sbuf_addf(&line, "/%.*s_", STR_ARG(look->filter));
    else
        sbuf_addf(&line, "? help  q quit  d devices/nodes  Tab pods  s sort  / filter%s%.*s%s%.*s",
                  look->filter.n ? ": " : "", STR_ARG(look->filter),
                  look->namespace.n ? "  namespace " : "", STR_ARG(look->namespace));
    view_add_cut(out, sbuf_str(&line), look->term.columns ? look->term.columns : line.n);
}

// --- The picture ---------------------------------------------------------------------------------

// Rows for the list, and for the pods that wait; DETAILS_ROWS of the rest are for the details.
static void share_rows(const struct top_picture *p, struct top_seen *seen)
{
    const struct top_look *look = p->look;
    const size_t fixed = 5; // the summary, an empty line, the names of columns, keys
    seen->lines_room = seen->pods_room = SIZE_MAX;
    if (!look->term.rows)
        return;
    size_t rows = look->term.rows > fixed + 1 ? look->term.rows - fixed : 1;
    if (look->keys && rows > 3 * DETAILS_ROWS)
        rows -= DETAILS_ROWS;
    size_t pending = p->pods_len ? p->pods_len + 3 : 0; // with its names and what is left
    if (pending > rows / 3)
        pending = rows / 3;
    seen->pods_room = pending > 3 ? pending - 3 : 0;
    seen->lines_room = rows - (seen->pods_room ? pending : 0);
}

static void top_add_details(struct sbuf *out, const struct top_picture *p)
{
    cleanup_sbuf struct sbuf text = {0};
    if (!p->look->keys || (p->look->term.rows && p->look->term.rows < 3 * DETAILS_ROWS + 6))
        return;
    top_write_details(p, &text);
    if (!text.n)
        return;
    sbuf_addc(out, '\n');
    view_add_behind(out, sbuf_str(&text), 0, p->look->term.columns);
}

struct top_seen view_top(struct sbuf *out, const struct inventory *inv, const struct top_look *look)
{
    struct top_picture p = {.inv = inv, .look = look};
    struct top_seen seen = {0};
    if (look->help) {
        top_add_help(out);
        return seen;
    }
    top_find_lines(&p);
    top_find_pods(&p);
    share_rows(&p, &seen);
    seen.lines = p.lines_len;
    seen.pods = p.pods_len;
    top_add_summary(out, inv, look);
    top_add_list(out, &p, look->scroll < p.lines_len ? look->scroll : 0, seen.lines_room);
    top_add_pods(out, &p, seen.pods_room);
    top_add_details(out, &p);
    if (look->keys)
        top_add_foot(out, look);
    arena_done(&p.arena);
    return seen;
}

// --- Data ----------------------------------------------------------------------------------------

static void top_json_nodes(struct json_writer *w, const struct top_picture *p)
{
    json_write_key(w, STR("nodes"));
    json_write_array_begin(w);
    for (size_t i = 0; i < p->lines_len; i++) {
        const struct line *l = &p->lines[i];
        const struct top_counts c = top_count(p, l->at);
        const uint32_t numbers[] = {c.devices, c.free, c.used};
        static const char *const names[] = {"devices", "free", "used"};
        json_write_object_begin(w);
        json_write_text_if(w, "node", l->at == UINT32_MAX ? (struct str){0} : l->name);
        json_write_key(w, STR("simulated"));
        json_write_bool(w, l->at != UINT32_MAX && node_is_simulated(p->inv->nodes[l->at].node));
        for (size_t k = 0; k < array_len(names); k++) {
            json_write_key(w, str_z(names[k]));
            json_write_u64(w, numbers[k]);
        }
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void top_json_pods(struct json_writer *w, const struct top_picture *p)
{
    json_write_key(w, STR("waiting"));
    json_write_array_begin(w);
    for (size_t i = 0; i < p->pods_len; i++) {
        const struct inventory_pending *q = &p->inv->pending[p->pods[i]];
        cleanup_sbuf struct sbuf since = {0};
        if (q->since.set)
            rfc3339_write_seconds(q->since.at, &since);
        json_write_object_begin(w);
        json_write_text_if(w, "pod", q->pod);
        json_write_text_if(w, "since", sbuf_str(&since));
        json_write_text_if(w, "reason", q->reason);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

void view_top_json(struct json_writer *w, const struct inventory *inv, const struct top_look *look)
{
    struct top_look nodes = *look;
    nodes.devices = false;
    struct top_picture p = {.inv = inv, .look = &nodes};
    size_t n = 0;
    top_find_lines(&p);
    top_find_pods(&p);
    uint32_t *devices = arena_array(&p.arena, uint32_t, inv->devices_len + 1);
    for (uint32_t i = 0; i < inv->devices_len; i++)
        if (top_device_matches(inv, i, look))
            devices[n++] = i;
    json_write_object_begin(w);
    top_json_nodes(w, &p);
    json_write_key(w, STR("devices"));
    view_who_list_json(w, inv, devices, n);
    top_json_pods(w, &p);
    json_write_object_end(w);
    arena_done(&p.arena);
}
