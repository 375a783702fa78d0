// SPDX-License-Identifier: Apache-2.0
//
// What the files of the JSON reader share among themselves.
#ifndef CODEC_JSON_JSON_INT_H
#define CODEC_JSON_JSON_INT_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "codec/json.h"

// The keys of one object, with the index of the first equal one; reused from object to object.
struct json_keys {
    struct str *keys;
    const yyjson_val **vals; // the key values themselves
    uint32_t *first;
    size_t n;
    size_t cap;
};

// json_keys_load reads the keys of an object; returns how many repeat an earlier one.
size_t json_keys_load(struct json_keys *k, const yyjson_val *object);
void json_keys_done(struct json_keys *k);

// json_has_repeats reports whether an object surely has no repeated key (false) or has one (true).
bool json_has_repeats(struct json_keys *k, const yyjson_val *object);

// json_drop_repeats makes *doc a document in which each key has its last value.
int json_drop_repeats(struct json_doc *doc, struct err *err) MUST_USE;

// json_positions lists where each of count values of a JSON text starts. The caller frees it.
struct json_pos *json_positions(struct str source, struct json_pos start, size_t count);

// json_shortest_digits finds the fewest decimal digits that read back as v (finite, v > 0), and
// where the point goes: the number is 0.DIGITS * 10^point. Returns how many there are.
size_t json_shortest_digits(double v, char digits[32], int *ret_point);

// json_skip_space returns the offset of the first byte at or behind offset that is not JSON white
// space.
size_t json_skip_space(struct str text, size_t offset);

#endif
