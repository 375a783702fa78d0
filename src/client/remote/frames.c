// SPDX-License-Identifier: Apache-2.0
//
// Cuts a stream of protobuf watch events into messages. Each has its length in four bytes before
// it; a length above the bound ends the stream.
#include "client/remote/frames.h"

#include <stdint.h>

#include "base/mem.h"

#include "base/banned.h"

#define HEAD 4

// Memory of a frame that is kept for the next one.
#define KEEP_BYTES ((size_t)64 * 1024)

static size_t length_of(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (size_t)u[0] << 24 | (size_t)u[1] << 16 | (size_t)u[2] << 8 | u[3];
}

static int frames_check_head(const struct frames *f, struct str bytes, struct err *err)
{
    if (bytes.n < HEAD || length_of(bytes.p) <= f->max)
        return 0;
    return err_set(err, ERR_TOO_LARGE, "the server sends a frame of %zu bytes; %zu are too many",
                   length_of(bytes.p), f->max);
}

// frames_is_whole reports whether bytes begin with a whole frame.
static bool frames_is_whole(struct str bytes)
{
    return bytes.n >= HEAD && bytes.n - HEAD >= length_of(bytes.p);
}

// frames_complete_frame fills up the frame that was cut off, and takes that from bytes. Returns 1
// when it is whole now.
static int frames_complete_frame(struct frames *f, struct str *bytes, struct err *err)
{
    while (bytes->n && !frames_is_whole(sbuf_str(&f->part))) {
        size_t want = f->part.n < HEAD ? HEAD - f->part.n : HEAD + length_of(f->part.p) - f->part.n;
        size_t n = want < bytes->n ? want : bytes->n;
        sbuf_add(&f->part, str_upto(*bytes, n));
        *bytes = str_from(*bytes, n);
        int r = frames_check_head(f, sbuf_str(&f->part), err);
        if (r < 0)
            return r;
    }
    return frames_is_whole(sbuf_str(&f->part));
}

int frames_feed(struct frames *f, struct str bytes, int (*frame)(void *arg, struct str body),
                void *arg, struct err *err)
{
    int r = 0;
    if (f->part.n) {
        r = frames_complete_frame(f, &bytes, err);
        if (r <= 0)
            return r;
        struct sbuf all = f->part; // the callback may reset the frames
        f->part = (struct sbuf){0};
        r = frame(arg, str_from(sbuf_str(&all), HEAD));
        sbuf_clear(&all);
        if (r == 0 && all.cap <= KEEP_BYTES && !f->part.p)
            f->part = all;
        else
            sbuf_done(&all);
    }
    while (r == 0 && (r = frames_check_head(f, bytes, err)) == 0 && frames_is_whole(bytes)) {
        size_t n = length_of(bytes.p);
        r = frame(arg, str_make(bytes.p + HEAD, n));
        bytes = str_from(bytes, HEAD + n);
    }
    if (r == 0)
        sbuf_add(&f->part, bytes);
    return r;
}

void frames_reset(struct frames *f)
{
    sbuf_clear(&f->part);
}

void frames_done(struct frames *f)
{
    sbuf_done(&f->part);
}
