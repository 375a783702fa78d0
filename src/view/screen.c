// SPDX-License-Identifier: Apache-2.0
//
// A terminal screen that repaints only the lines that have changed.
#include "view/screen.h"

#include "base/banned.h"

void screen_size(struct screen *s, size_t rows, size_t columns)
{
    if (s->rows != rows || s->columns != columns)
        s->fresh = true;
    s->rows = rows;
    s->columns = columns;
}

// The next line's buffer, empty.
static struct sbuf *screen_next_line(struct screen *s)
{
    if (s->next_len == s->next.n)
        vec_push(&s->next, (struct sbuf){0});
    struct sbuf *b = &s->next.p[s->next_len++];
    sbuf_clear(b);
    return b;
}

void screen_text(struct screen *s, struct str lines)
{
    while (lines.n && s->next_len < s->rows) {
        struct str one;
        (void)str_cut(lines, '\n', &one, &lines);
        sbuf_add(screen_next_line(s), one);
    }
}

size_t screen_paint(struct screen *s, struct sbuf *out)
{
    size_t painted = 0;
    if (s->fresh)
        sbuf_addz(out, "\033[2J");
    for (size_t i = 0; i < s->next_len || i < s->shown.n; i++) {
        struct str now = i < s->next_len ? sbuf_str(&s->next.p[i]) : (struct str){0};
        if (i == s->shown.n)
            vec_push(&s->shown, (struct sbuf){0});
        struct sbuf *before = &s->shown.p[i];
        bool same = str_eq(sbuf_str(before), now);
        if (s->fresh ? now.n == 0 : same) {
            sbuf_clear(before);
            sbuf_add(before, now);
            continue;
        }
        sbuf_addf(out, "\033[%zu;1H", i + 1);
        sbuf_add(out, now);
        sbuf_addz(out, "\033[K");
        sbuf_clear(before);
        sbuf_add(before, now);
        painted++;
    }
    s->fresh = false;
    s->next_len = 0;
    return painted;
}

void screen_enter(struct screen *s, struct sbuf *out)
{
    sbuf_addz(out, "\033[?1049h\033[?25l"); // a screen of our own, no cursor
    s->fresh = true;
}

void screen_leave(struct sbuf *out)
{
    sbuf_addz(out, "\033[?25h\033[?1049l");
}

void screen_done(struct screen *s)
{
    vec_foreach(&s->next, b)
        sbuf_done(b);
    vec_foreach(&s->shown, b)
        sbuf_done(b);
    vec_done(&s->next);
    vec_done(&s->shown);
}
