// SPDX-License-Identifier: Apache-2.0
//
// Writing JSON straight into an sbuf, byte for byte as Go's encoding/json writes it: its escapes,
// its number forms, its indentation. No document is needed; json_write_value writes a parsed one.
// Keys come out in the order they are given. Wrong nesting is a programming error that the writer
// does not look for.
#ifndef CODEC_JSON_WRITER_H
#define CODEC_JSON_WRITER_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "codec/json.h"

struct json_writer {
    struct sbuf *out; // borrowed
    bool html;        // write <, > and & as \u003c, \u003e, \u0026 (Go's default)
    unsigned indent;  // spaces a level; 0: compact
    unsigned depth;
    bool comma;   // something stands before the next item at this level
    bool value;   // a key has been written and its value is next
    bool altered; // a text given as JSON was written otherwise: without white space, or escaped
};

// json_write_object_begin ... json_write_end: containers. An empty one is {} or [] in any layout.
void json_write_object_begin(struct json_writer *w);
void json_write_object_end(struct json_writer *w);
void json_write_array_begin(struct json_writer *w);
void json_write_array_end(struct json_writer *w);

void json_write_key(struct json_writer *w, struct str key);

// json_write_str writes a string. Bytes that are not UTF-8 become U+FFFD, as in Go.
void json_write_str(struct json_writer *w, struct str s);
void json_write_i64(struct json_writer *w, int64_t v);
void json_write_u64(struct json_writer *w, uint64_t v);
void json_write_bool(struct json_writer *w, bool v);
void json_write_null(struct json_writer *w);

// json_write_text writes a key and a string, json_write_text_if only if the string is not empty.
void json_write_text(struct json_writer *w, const char *key, struct str value);
void json_write_text_if(struct json_writer *w, const char *key, struct str value);

// json_write_number and json_write_flag write a key and its value. json_write_object_in and
// json_write_array_in write a key and begin its object or list.
void json_write_number(struct json_writer *w, const char *key, int64_t value);
void json_write_flag(struct json_writer *w, const char *key, bool value);
void json_write_object_in(struct json_writer *w, const char *key);
void json_write_array_in(struct json_writer *w, const char *key);

// json_write_double writes the shortest text that reads back as v; v must be finite.
void json_write_double(struct json_writer *w, double v);

// json_write_raw writes text, which must be one JSON value, as it is.
void json_write_raw(struct json_writer *w, struct str text);

// json_write_value writes a value of a document with its content. Doubles and strings come out in
// Go's form, integers and JSON_BIG exactly.
void json_write_value(struct json_writer *w, const yyjson_val *v);

// json_write_raw_key writes a key, given with its quotes and already escaped: for generated
// encoders, whose keys are literals.
void json_write_raw_key(struct json_writer *w, struct str quoted);

// json_plain_run is how many of the next eight bytes of a string, from the first on, need no look:
// ASCII, but no control character, quote, backslash, <, > or &. Each test sets the top bit of a
// byte that is zero after the exclusive or; quote and ampersand, and the two angle brackets, differ
// in one bit that is set first. Bits above the lowest one may be borrowed and are not looked at.
static inline size_t json_plain_run(const char *p)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    word = le64toh(word);
    uint64_t quote = (word | ones * 0x04) ^ ones * ('"' | 0x04);
    uint64_t angle = (word | ones * 0x02) ^ ones * ('<' | 0x02);
    uint64_t slash = word ^ ones * '\\';
    uint64_t control = (word - ones * 0x20) & ~word;
    uint64_t found = ((quote - ones) & ~quote) | ((angle - ones) & ~angle) |
                     ((slash - ones) & ~slash) | control | word;
    found &= tops;
    return found ? (size_t)__builtin_ctzll(found) / 8 : sizeof(word);
}

// sbuf_add_json_str adds s in quotes with JSON's escapes, sbuf_add_json_double a finite double.
void sbuf_add_json_str(struct sbuf *out, struct str s, bool html);
void sbuf_add_json_double(struct sbuf *out, double v);

#endif
