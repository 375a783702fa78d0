// SPDX-License-Identifier: Apache-2.0
//
// Decodes CRI log lines into the text that the logs endpoint returns, incrementally, so that a
// followed log needs no whole file in memory.
#include "node/runtime/cri_log.h"

#include "base/banned.h"

// cri_log_parse reads one line without its end. False: it is none.
static bool cri_log_parse(struct str line, struct cri_line *ret)
{
    struct str rest, stream, tags, first;
    struct cri_line l = {0};
    if (!str_cut(line, ' ', &l.time_text, &rest) || rfc3339_parse(l.time_text, &l.time, NULL) < 0 ||
        !str_cut(rest, ' ', &stream, &rest) || !str_cut(rest, ' ', &tags, &l.text))
        return false;
    if (str_eqz(stream, "stdout"))
        l.stream = 1;
    else if (str_eqz(stream, "stderr"))
        l.stream = 2;
    else
        return false;
    str_cut(tags, ':', &first, &tags);
    l.partial = str_eqz(first, "P");
    *ret = l;
    return true;
}

// Times have nine digits behind the point, so that columns stand below each other.
static void cri_log_add_time(struct str text, struct sbuf *out)
{
    size_t end = 19; // 2026-11-16T09:00:00
    size_t digits = 0;
    if (text.n > end && text.p[end] == '.')
        for (end++; end < text.n && text.p[end] >= '0' && text.p[end] <= '9'; end++)
            digits++;
    sbuf_add(out, str_upto(text, 19));
    sbuf_addc(out, '.');
    sbuf_add(out, str_make(text.p + 20, digits < 9 ? digits : 9));
    if (digits < 9)
        sbuf_add_repeat(out, '0', 9 - digits);
    sbuf_add(out, str_from(text, end));
    sbuf_addc(out, ' ');
}

// True while there may be more.
static bool cri_log_add_line(struct cri_log *l, struct str line, bool ended, int stream,
                             struct sbuf *out)
{
    const struct cri_log_options *o = &l->options;
    struct cri_line c;
    if (!cri_log_parse(line, &c)) {
        l->not_understood++;
        return true;
    }
    bool goes_on = l->inside;
    l->inside = c.partial;
    if (moment_cmp(c.time, o->since) < 0 || (c.stream == 1 ? o->no_stdout : o->no_stderr) ||
        (stream && stream != c.stream))
        return true;
    size_t before = out->n;
    if (o->timestamps && !goes_on)
        cri_log_add_time(c.time_text, out);
    sbuf_add(out, c.text);
    if (!c.partial && ended)
        sbuf_addc(out, '\n');
    l->given += (int64_t)(out->n - before);
    if (o->limit_bytes < 0 || l->given < o->limit_bytes)
        return true;
    sbuf_truncate(out, out->n - (size_t)(l->given - o->limit_bytes));
    l->given = o->limit_bytes;
    return false;
}

bool cri_log_read(struct cri_log *l, struct str bytes, int stream, struct sbuf *out)
{
    while (bytes.n) {
        struct str part, rest;
        bool ended = str_cut(bytes, '\n', &part, &rest);
        bytes = rest;
        bool more = true;
        if (!l->skipping && l->line.n + part.n > CRI_LOG_LINE_MAX) {
            l->skipping = true;
            l->not_understood++;
            sbuf_clear(&l->line);
        }
        if (l->skipping) {
            l->skipping = !ended;
            continue;
        }
        if (!ended) {
            sbuf_add(&l->line, part);
        } else if (l->line.n) {
            sbuf_add(&l->line, part);
            more = cri_log_add_line(l, sbuf_str(&l->line), true, stream, out);
            sbuf_clear(&l->line);
        } else {
            more = cri_log_add_line(l, part, true, stream, out);
        }
        if (!more)
            return false;
    }
    return true;
}

void cri_log_end(struct cri_log *l, int stream, struct sbuf *out)
{
    if (l->line.n)
        (void)cri_log_add_line(l, sbuf_str(&l->line), false, stream, out);
    sbuf_clear(&l->line);
}

void cri_log_done(struct cri_log *l)
{
    sbuf_done(&l->line);
}
