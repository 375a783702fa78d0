// SPDX-License-Identifier: Apache-2.0
//
// HTTP/1.1 requests as bytes: pure functions, no I/O. Strict: what two readers could understand in
// two ways is refused. The outcome depends on the bytes alone, never on how they were cut.
//
// Results below zero are the negative HTTP status to refuse with; *ret_why is the reason.
#ifndef NET_HTTP_H1_PARSE_H
#define NET_HTTP_H1_PARSE_H

#include "net/http.h"

// Bounds beyond the configured ones. Go's server, for comparison: 1 MiB of headers, 16 KiB of chunk
// overhead, any number of fields.
#define H1_FIELDS_MAX         ((size_t)128)
#define H1_METHOD_MAX         ((size_t)32)
#define H1_TARGET_MAX         ((size_t)16 * 1024)
#define H1_CHUNK_LINE_MAX     ((size_t)256)
#define H1_CHUNK_OVERHEAD_MAX ((size_t)16 * 1024) // extensions and trailers of one body

// Where the search for the end of a head stands. Zeroed at the start of a request.
struct h1_scan {
    size_t line; // where the unfinished line begins
    size_t seen; // no line feed before here
    size_t skip; // an empty line before the request line, which is ignored once
};

// h1_find_head looks for the end of a head in all bytes of a request there are so far; call it
// again with the same scan and more bytes when it returns 0. Otherwise the length of the head, or
// -400, -414 (request line too long), -431.
int h1_find_head(struct str bytes, size_t limit, struct h1_scan *scan, const char **ret_why);

enum h1_framing { H1_NO_BODY, H1_LENGTH, H1_CHUNKED };

struct h1_head {
    struct str method;
    struct str target; // as sent
    int minor;         // of HTTP/1
    struct http_header *headers;
    size_t headers_len;
    enum h1_framing framing;
    uint64_t length;
    bool keep_alive;
    bool expect_continue;
};

// h1_parse_head reads a whole head (from h1_find_head) and puts names into lower case in place;
// slices of ret point into it. Returns 0, -400, -414, -417, -431, -501 or -505.
int h1_parse_head(char *bytes, size_t n, struct arena *a, struct h1_head *ret,
                  const char **ret_why) MUST_USE;

// h1_split_target takes a target apart: origin form, absolute form and, for OPTIONS, "*". path is
// decoded into the arena. Returns 0, -400 or -501 (CONNECT). HTTP/2 uses it for :path.
int h1_split_target(struct str method, struct str target, struct arena *a, struct str *ret_path,
                    struct str *ret_query, const char **ret_why) MUST_USE;

// A chunked body. Zeroed at its start.
struct h1_chunks {
    int state;
    bool any_digit; // of the size
    uint64_t left;  // of the current chunk
    size_t line;    // length of the current size line
    size_t overhead;
};

// h1_read_chunks decodes from *in, moving it on, into body, up to limit bytes in all. Returns 1
// when the body is complete, 0 when more bytes are needed, -400 or -413.
int h1_read_chunks(struct h1_chunks *c, struct str *in, struct sbuf *body, size_t limit,
                   const char **ret_why);

// h1_is_token: a method, a field name. h1_is_value: what may be a field's value, or be empty.
// h1_is_target: what may be a request's target.
bool h1_is_token(struct str s);
bool h1_is_value(struct str s);
bool h1_is_target(struct str s);

// h1_same_ignoring_case compares with a text in lower case.
bool h1_same_ignoring_case(struct str s, struct str lower_case);

// h1_parse_field reads one header field, without its line's end, and puts its name into lower case
// in place. Returns 0 or -400.
int h1_parse_field(char *line, size_t n, struct http_header *ret, const char **ret_why) MUST_USE;

// h1_note_connection reads a Connection field; sets what it finds.
void h1_note_connection(struct str value, bool *close, bool *keep_alive);

#endif
