// SPDX-License-Identifier: Apache-2.0
//
// Cuts a stream of JSON watch events into lines of bounded length.
#include "client/lines.h"

#include "base/banned.h"

// Memory of a line that is kept for the next one.
#define KEEP_BYTES ((size_t)64 * 1024)

static int lines_deliver_line(struct str text, int (*line)(void *arg, struct str text), void *arg)
{
    if (text.n && text.p[text.n - 1] == '\r')
        text.n--;
    return text.n ? line(arg, text) : 0;
}

static int lines_fail_too_long(const struct lines *l, struct err *err)
{
    return err_set(err, ERR_TOO_LARGE, "a line of the answer has more than %zu bytes", l->max);
}

int lines_feed(struct lines *l, struct str bytes, int (*line)(void *arg, struct str text),
               void *arg, struct err *err)
{
    while (bytes.n) {
        const char *end = memchr(bytes.p, '\n', bytes.n);
        size_t n = end ? (size_t)(end - bytes.p) : bytes.n;
        if (l->part.n + n > l->max)
            return lines_fail_too_long(l, err);
        if (!end) {
            sbuf_add(&l->part, bytes);
            return 0;
        }
        int r;
        if (l->part.n == 0) {
            r = lines_deliver_line(str_upto(bytes, n), line, arg);
        } else {
            sbuf_add(&l->part, str_upto(bytes, n));
            // The callback may reset the lines.
            struct sbuf whole = l->part;
            l->part = (struct sbuf){0};
            r = lines_deliver_line(sbuf_str(&whole), line, arg);
            sbuf_clear(&whole);
            if (r == 0 && whole.cap <= KEEP_BYTES && !l->part.p)
                l->part = whole;
            else
                sbuf_done(&whole);
        }
        if (r != 0)
            return r;
        bytes = str_from(bytes, n + 1);
    }
    return 0;
}

void lines_reset(struct lines *l)
{
    sbuf_clear(&l->part);
}

void lines_done(struct lines *l)
{
    sbuf_done(&l->part);
}
