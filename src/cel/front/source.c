// SPDX-License-Identifier: Apache-2.0
//
// Positions in the source text and issues with line, column and caret, as cel-go prints them.
#include "cel/source.h"

#include <stdio.h>

#include "base/utf8.h"
#include "cel/value.h"

#include "base/banned.h"

void cel_source_init(struct cel_source *s, struct arena *a, struct str text)
{
    *s = (struct cel_source){.arena = a, .text = text, .ascii = true};
    for (size_t i = 0; i < text.n && s->ascii; i++)
        s->ascii = (unsigned char)text.p[i] < 0x80;
    s->code_points = (uint32_t)(s->ascii ? text.n : utf8_count(text));
}

void cel_issue(struct cel_source *s, uint32_t pos, const char *fmt, ...)
{
    if (s->issues.n >= CEL_ISSUES_MAX)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    struct cel_issue issue = {pos, arena_str(s->arena, str_make(text, len))};
    // Insertion keeps them ordered; there are few.
    vec_push_arena(s->arena, &s->issues, issue);
    for (size_t i = s->issues.n - 1; i > 0 && s->issues.p[i - 1].pos > pos; i--) {
        s->issues.p[i] = s->issues.p[i - 1];
        s->issues.p[i - 1] = issue;
    }
}

void cel_source_line_col(struct str text, uint32_t pos, uint32_t *ret_line, uint32_t *ret_col)
{
    uint32_t line = 1;
    uint32_t col = 0;
    size_t off = 0;
    for (uint32_t i = 0; i < pos && off < text.n; i++) {
        size_t len = 1;
        uint32_t cp = utf8_decode(text, off, &len);
        off += len;
        col++;
        if (cp == '\n') {
            line++;
            col = 0;
        }
    }
    *ret_line = line;
    *ret_col = col;
}

static struct str source_line_text(struct str text, uint32_t line)
{
    struct str head = {0};
    struct str rest = text;
    for (uint32_t i = 0; i < line; i++)
        (void)str_cut(rest, '\n', &head, &rest);
    return head;
}

static bool is_wide(uint32_t cp)
{
    return (cp >= 0x1100 && cp <= 0x115F) || (cp >= 0x2E80 && cp <= 0xA4CF) ||
           (cp >= 0xAC00 && cp <= 0xD7A3) || (cp >= 0xF900 && cp <= 0xFAFF) ||
           (cp >= 0xFE30 && cp <= 0xFE6F) || (cp >= 0xFF00 && cp <= 0xFF60) ||
           (cp >= 0xFFE0 && cp <= 0xFFE6) || (cp >= 0x1F300 && cp <= 0x1FAFF) ||
           (cp >= 0x20000 && cp <= 0x3FFFD);
}

void cel_source_point(struct str text, uint32_t pos, struct str message, struct sbuf *out)
{
    if (pos == CEL_NO_POS) {
        sbuf_addf(out, "ERROR: <input>:-1:0: %.*s", STR_ARG(message));
        return;
    }
    uint32_t line;
    uint32_t col;
    cel_source_line_col(text, pos, &line, &col);
    sbuf_addf(out, "ERROR: <input>:%u:%u: %.*s", line, col + 1, STR_ARG(message));
    struct str src = source_line_text(text, line);
    sbuf_addz(out, "\n | ");
    for (size_t i = 0; i < src.n; i++)
        sbuf_addc(out, src.p[i] == '\t' ? ' ' : src.p[i]);
    sbuf_addz(out, "\n | ");
    size_t off = 0;
    for (uint32_t i = 0; i < col && off < src.n; i++) {
        size_t len = 1;
        bool wide = is_wide(utf8_decode(src, off, &len));
        off += len;
        sbuf_addz(out, wide ? "\xef\xbc\x8e" : ".");
    }
    size_t len = 1;
    bool wide = off < src.n && is_wide(utf8_decode(src, off, &len));
    sbuf_addz(out, wide ? "\xef\xbc\xbe" : "^");
}

void cel_source_write(const struct cel_source *s, struct sbuf *out)
{
    for (size_t i = 0; i < s->issues.n; i++) {
        if (i)
            sbuf_addc(out, '\n');
        cel_source_point(s->text, s->issues.p[i].pos, s->issues.p[i].text, out);
    }
}
