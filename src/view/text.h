// SPDX-License-Identifier: Apache-2.0
//
// Text on a screen: its width in columns, cut and padded to one, with colour or without. Text comes
// from anybody: what would steer a terminal is shown instead of sent.
#ifndef VIEW_TEXT_H
#define VIEW_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum view_style {
    VIEW_PLAIN,
    VIEW_HEAD, // of a table
    VIEW_GOOD,
    VIEW_WARN,
    VIEW_BAD,
    VIEW_DIM,
};

// view_width returns how many columns a text takes as view_add_line writes it: wide characters two,
// combining ones none.
size_t view_width(struct str s);

// view_add_line adds text as one line: up to its first line break (... marks it), control
// characters as ^X.
void view_add_line(struct sbuf *out, struct str s);

// view_add_cut adds at most width columns of a text that view_add_line wrote; … ends what was cut.
void view_add_cut(struct sbuf *out, struct str s, size_t width);

// view_add_cut_name adds as much of a name; the … is in its middle, since names that begin alike
// differ in their ends. What has spaces is no name, and is cut at its end.
void view_add_cut_name(struct sbuf *out, struct str s, size_t width);

// view_add_wrapped adds lines, each as view_add_line does, broken between words where they are
// longer than so many columns; what goes on stands a little further right. 0: nothing is broken.
void view_add_wrapped(struct sbuf *out, struct str text, size_t columns);

// view_add_hanging does the same, but what goes on stands under the text behind the line's last gap
// of two spaces or more: a field's value, the last column of a table.
void view_add_hanging(struct sbuf *out, struct str text, size_t columns);

// view_add_behind ends a line that is begun and has `at` columns so far with one text, broken as
// above; what goes on stands at that column.
void view_add_behind(struct sbuf *out, struct str text, size_t at, size_t columns);

// view_style_begin and view_style_end stand around what has a style; nothing is added without
// colour.
void view_style_begin(struct sbuf *out, enum view_style style, bool color);
void view_style_end(struct sbuf *out, enum view_style style, bool color);

// view_style_of guesses the style of a state that people look for in a table: Running, Pending,
// CrashLoopBackOff.
enum view_style view_style_of(struct str word);

#endif
