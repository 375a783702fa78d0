// SPDX-License-Identifier: Apache-2.0
//
// A terminal's lines, painted again only where they changed.
#ifndef VIEW_SCREEN_H
#define VIEW_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "base/vec.h"

// Zeroed, it is empty, and nothing is known of what the terminal shows.
struct screen {
    struct VEC(struct sbuf) next;  // lines of the picture that is being made
    struct VEC(struct sbuf) shown; // what the terminal shows
    size_t next_len;
    bool fresh; // the terminal shows nothing of ours: the first paint clears it
    size_t rows, columns;
};

// screen_size sets the size of the terminal; a change makes the next paint a whole one.
void screen_size(struct screen *s, size_t rows, size_t columns);

// screen_text adds lines, as they are: cut to the width already, with colours or without. Lines
// below the terminal's last one are left out.
void screen_text(struct screen *s, struct str lines);

// screen_paint adds to out what makes the terminal show the picture, and begins the next one.
// Returns how many lines were painted.
size_t screen_paint(struct screen *s, struct sbuf *out);

// screen_enter and screen_leave add what switches to a screen of one's own, and back.
void screen_enter(struct screen *s, struct sbuf *out);
void screen_leave(struct sbuf *out);

void screen_done(struct screen *s);

#endif
