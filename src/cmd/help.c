// SPDX-License-Identifier: Apache-2.0
#include "cmd/help.h"

#include <stdbool.h>

#include "view/text.h"

#include "base/banned.h"

#define OPTION_COLUMN 20 // at the least, what is said of options stands there
#define FULL \
    82 // a line that would be as long as this with the next line's first word was broken for its length

static size_t indent_of(struct str line)
{
    size_t n = 0;
    while (n < line.n && line.p[n] == ' ')
        n++;
    return n;
}

// text_column is where the text of a line starts that lines below may go on with: behind an option's name, or its indent.
static size_t text_column(struct str line)
{
    size_t indent = indent_of(line);
    for (size_t i = indent; i + 2 < line.n; i++)
        if (line.p[i] == ' ' && line.p[i + 1] == ' ') {
            size_t gap = indent_of(str_from(line, i));
            return view_width(str_upto(line, i)) + gap;
        }
    return indent;
}

static size_t first_word(struct str line)
{
    struct str word, rest;
    (void)str_cut(str_from(line, indent_of(line)), ' ', &word, &rest);
    return view_width(word);
}

// goes_on says whether a line is the rest of the one before it, which was broken because it was full.
static bool goes_on(struct str before, size_t column, struct str line)
{
    return line.n && before.n && indent_of(line) == column &&
           view_width(before) + 1 + first_word(line) >= FULL;
}

static bool fits(struct str text, size_t columns)
{
    for (struct str line; text.n;) {
        (void)str_cut(text, '\n', &line, &text);
        if (view_width(line) > columns)
            return false;
    }
    return true;
}

// add_filled adds a line that may be longer than the terminal is wide.
static void add_filled(struct sbuf *out, struct str line, size_t column, size_t columns)
{
    size_t indent = indent_of(line);
    bool paragraph = column == indent && (indent == 0 || indent >= OPTION_COLUMN);
    if (paragraph && !str_starts(line, STR("dray "))) {
        sbuf_add_repeat(out, ' ', indent);
        view_add_behind(out, str_from(line, indent), indent, columns);
    } else {
        view_add_hanging(out, line, columns);
    }
}

void help_fit(struct sbuf *out, struct str text, size_t columns)
{
    cleanup_sbuf struct sbuf whole = {0};
    struct str before = {0};
    size_t column = 0;
    if (!columns || fits(text, columns)) {
        sbuf_add(out, text);
        return;
    }
    for (struct str line; text.n; before = line) {
        (void)str_cut(text, '\n', &line, &text);
        if (goes_on(before, column, line)) {
            sbuf_addc(&whole, ' ');
            sbuf_add(&whole, str_from(line, indent_of(line)));
            continue;
        }
        if (before.p)
            add_filled(out, sbuf_str(&whole), column, columns);
        sbuf_clear(&whole);
        sbuf_add(&whole, line);
        column = text_column(line);
    }
    if (before.p)
        add_filled(out, sbuf_str(&whole), column, columns);
}
