// SPDX-License-Identifier: Apache-2.0
//
// Text on a terminal: display width, cutting, wrapping, colors, and harmless control characters.
#include "view/text.h"

#include <stdint.h>

#include "base/utf8.h"

#include "base/banned.h"

struct range {
    uint32_t from, to;
};

// Characters that take no column: combining marks, joiners, variation selectors.
static const struct range none[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A},   {0x064B, 0x065F},
    {0x06D6, 0x06DC}, {0x0730, 0x074A}, {0x0900, 0x0902}, {0x093C, 0x093C},   {0x0941, 0x0948},
    {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF},   {0x1DC0, 0x1DFF},
    {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064}, {0x20D0, 0x20F0},   {0x302A, 0x302D},
    {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF},
};

// Characters that take two: East Asian wide ones and pictures.
static const struct range two[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x25FD, 0x25FE},
    {0x2614, 0x2615},   {0x26A1, 0x26A1},   {0x2705, 0x2705},   {0x274C, 0x274C},
    {0x2753, 0x2755},   {0x2B50, 0x2B50},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
    {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xA960, 0xA97C},
    {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF},
    {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD},
};

static bool in_ranges(const struct range *r, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c > r[mid].to)
            low = mid + 1;
        else if (c < r[mid].from)
            high = mid;
        else
            return true;
    }
    return false;
}

static size_t columns_of(uint32_t c)
{
    if (c < 0x300)
        return 1;
    if (in_ranges(none, array_len(none), c))
        return 0;
    return in_ranges(two, array_len(two), c) ? 2 : 1;
}

// A name that has less room is cut at its end.
#define NAME_LEAST 9

// text_prefix_of_width gives the bytes of s that fit into width columns, and how many columns they
// take.
static size_t text_prefix_of_width(struct str s, size_t width, size_t *ret_columns)
{
    size_t columns = 0, at = 0;
    while (at < s.n) {
        size_t len = 0;
        size_t more = columns_of(utf8_decode(s, at, &len));
        if (columns + more > width)
            break;
        columns += more;
        at += len;
    }
    *ret_columns = columns;
    return at;
}

size_t view_width(struct str s)
{
    size_t columns = 0;
    (void)text_prefix_of_width(s, SIZE_MAX, &columns);
    return columns;
}

void view_add_line(struct sbuf *out, struct str s)
{
    for (size_t at = 0, len = 0; at < s.n; at += len) {
        uint32_t c = utf8_decode(s, at, &len);
        if (c == '\n' || c == '\r' || c == '\f') {
            sbuf_addz(out, "...");
            return;
        }
        if (c == '\t')
            sbuf_addc(out, ' ');
        else if (c < 0x20 || c == 0x7F)
            sbuf_addf(out, "^%c", (char)(c ^ 0x40));
        else if ((c >= 0x80 && c < 0xA0) || (c >= 0x202A && c <= 0x202E))
            sbuf_add_utf8(out, UTF8_REPLACEMENT); // controls too, and turning the line around
        else
            sbuf_add_utf8(out, c);
    }
}

void view_add_cut(struct sbuf *out, struct str s, size_t width)
{
    size_t columns = 0;
    size_t n = text_prefix_of_width(s, width, &columns);
    if (n < s.n && width > 0) {
        n = text_prefix_of_width(s, width - 1, &columns);
        sbuf_add(out, str_upto(s, n));
        sbuf_addz(out, "…");
        return;
    }
    sbuf_add(out, str_upto(s, n));
}

// --- Paragraphs ----------------------------------------------------------------------------------

#define HANGING 2 // what goes on stands so much further right

// tail_of gives the end of s that fits into width columns.
static struct str tail_of(struct str s, size_t width)
{
    struct str tail = str_from(s, s.n);
    for (size_t i = s.n; i-- > 0;) {
        if (((unsigned char)s.p[i] & 0xC0) == 0x80)
            continue; // in a character
        if (view_width(str_from(s, i)) > width)
            break;
        tail = str_from(s, i);
    }
    return tail;
}

void view_add_cut_name(struct sbuf *out, struct str s, size_t width)
{
    size_t columns = 0, head = width / 3;
    if (view_width(s) <= width || str_find_char(s, ' ') >= 0 || width < NAME_LEAST) {
        view_add_cut(out, s, width);
        return;
    }
    sbuf_add(out, str_upto(s, text_prefix_of_width(s, head, &columns)));
    sbuf_addz(out, "…");
    sbuf_add(out, tail_of(s, width - 1 - columns));
}

// break_at finds how much of a line goes into width columns: up to the last space, or all that fits
// of a word that is longer.
static size_t break_at(struct str line, size_t width)
{
    size_t columns = 0;
    size_t n = text_prefix_of_width(line, width, &columns);
    if (n == line.n)
        return n;
    for (size_t i = n; i > 0; i--)
        if (line.p[i] == ' ')
            return i;
    return n;
}

// add_broken adds a line that starts at column `used`, broken between words; what goes on stands at
// column `next`.
static void add_broken(struct sbuf *out, struct str line, size_t used, size_t next, size_t columns)
{
    for (;; used = next) {
        size_t n = columns > used ? break_at(line, columns - used) : line.n;
        sbuf_add(out, str_upto(line, n ? n : 1));
        sbuf_addc(out, '\n');
        line = str_from(line, n ? n : 1);
        while (line.n && line.p[0] == ' ')
            line = str_from(line, 1);
        if (!line.n)
            return;
        sbuf_add_repeat(out, ' ', next);
    }
}

static size_t indent_of(struct str line)
{
    size_t n = 0;
    while (n < line.n && line.p[n] == ' ')
        n++;
    return n;
}

// text_hanging_indent gives the column where the text behind the last gap of two spaces or more
// starts, which is where that of a field or of a table's last column does; 0 when there is none, or
// it leaves less than half of the terminal.
static size_t text_hanging_indent(struct str line, size_t columns)
{
    size_t at = 0, column = 0, spaces = 0;
    for (size_t i = indent_of(line), len = 0; i < line.n && column < columns; i += len) {
        uint32_t c = utf8_decode(line, i, &len);
        if (column == 0)
            column = i;
        if (c != ' ' && spaces >= 2)
            at = column;
        spaces = c == ' ' ? spaces + 1 : 0;
        column += columns_of(c);
    }
    return at > columns / 2 ? 0 : at;
}

static void add_lines(struct sbuf *out, struct str text, size_t columns, bool under)
{
    cleanup_sbuf struct sbuf safe = {0};
    for (struct str line; text.n;) {
        (void)str_cut(text, '\n', &line, &text);
        sbuf_clear(&safe);
        view_add_line(&safe, line);
        line = sbuf_str(&safe);
        if (!columns || view_width(line) <= columns) {
            sbuf_addf(out, "%.*s\n", STR_ARG(line));
            continue;
        }
        size_t indent = indent_of(line), at = under ? text_hanging_indent(line, columns) : 0;
        size_t next = at ? at : indent + HANGING < columns / 2 ? indent + HANGING : columns / 2;
        sbuf_add_repeat(out, ' ', indent);
        add_broken(out, str_from(line, indent), indent, next, columns);
    }
}

void view_add_wrapped(struct sbuf *out, struct str text, size_t columns)
{
    add_lines(out, text, columns, false);
}

void view_add_hanging(struct sbuf *out, struct str text, size_t columns)
{
    add_lines(out, text, columns, true);
}

void view_add_behind(struct sbuf *out, struct str text, size_t at, size_t columns)
{
    cleanup_sbuf struct sbuf safe = {0};
    view_add_line(&safe, text);
    add_broken(out, sbuf_str(&safe), at, at, columns > at ? columns : 0);
}

// --- Styles --------------------------------------------------------------------------------------

static const char *const codes[] = {
    [VIEW_PLAIN] = "",        [VIEW_HEAD] = "\x1b[1m", [VIEW_GOOD] = "\x1b[32m",
    [VIEW_WARN] = "\x1b[33m", [VIEW_BAD] = "\x1b[31m", [VIEW_DIM] = "\x1b[2m",
};

void view_style_begin(struct sbuf *out, enum view_style style, bool color)
{
    if (color)
        sbuf_addz(out, codes[style]);
}

void view_style_end(struct sbuf *out, enum view_style style, bool color)
{
    if (color && style != VIEW_PLAIN)
        sbuf_addz(out, "\x1b[0m");
}

enum view_style view_style_of(struct str word)
{
    static const struct {
        const char *word;
        enum view_style style;
    } known[] = {
        {"Running", VIEW_GOOD},
        {"Ready", VIEW_GOOD},
        {"Active", VIEW_GOOD},
        {"Bound", VIEW_GOOD},
        {"allocated,reserved", VIEW_GOOD},
        {"Succeeded", VIEW_DIM},
        {"Completed", VIEW_DIM},
        {"Terminating", VIEW_WARN},
        {"Pending", VIEW_WARN},
        {"pending", VIEW_WARN},
        {"ContainerCreating", VIEW_WARN},
        {"Unknown", VIEW_WARN},
        {"Warning", VIEW_WARN},
        {"Failed", VIEW_BAD},
        {"Error", VIEW_BAD},
        {"NotReady", VIEW_BAD},
        {"Evicted", VIEW_BAD},
        {"OOMKilled", VIEW_BAD},
        {"Lost", VIEW_BAD},
    };
    for (size_t i = 0; i < array_len(known); i++)
        if (str_eqz(word, known[i].word))
            return known[i].style;
    return str_ends(word, STR("BackOff")) || str_starts(word, STR("Err")) ? VIEW_BAD : VIEW_PLAIN;
}
