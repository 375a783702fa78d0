// SPDX-License-Identifier: Apache-2.0
//
// A container's log in the CRI's format, read as kubelet reads it: lines of "TIME STREAM TAG TEXT",
// where a tag P means that the text continues in the next line. Bytes in, bytes out; no files.
#ifndef NODE_RUNTIME_CRI_LOG_H
#define NODE_RUNTIME_CRI_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "codec/rfc3339.h"

// Longer lines are dropped; runtimes cut at 16 KiB.
#define CRI_LOG_LINE_MAX ((size_t)1024 * 1024)

struct cri_line {
    struct moment time;
    struct str time_text;
    int stream; // 1 or 2
    bool partial;
    struct str text; // without the line's end
};

struct cri_log_options {
    struct moment since; // earlier lines are left out
    bool timestamps;
    bool no_stdout, no_stderr;
    int64_t limit_bytes; // -1: none
};

// What has been read so far. Zeroed, with options.
struct cri_log {
    struct cri_log_options options;
    struct sbuf line; // the beginning of a line
    bool skipping;    // a line that is too long
    bool inside;      // the last line was partial: the next continues it
    int64_t given;    // bytes
    size_t not_understood;
};

// cri_log_read adds what bytes of a log file say to out: all if stream is 0, else those of one
// stream. False: the limit has been reached.
bool cri_log_read(struct cri_log *l, struct str bytes, int stream, struct sbuf *out);

// cri_log_end adds what a file without a last line end has left.
void cri_log_end(struct cri_log *l, int stream, struct sbuf *out);
void cri_log_done(struct cri_log *l);

#endif
