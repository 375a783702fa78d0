// SPDX-License-Identifier: Apache-2.0
//
// YAML on libyaml, read into JSON documents as kubectl reads it (sigs.k8s.io/yaml, that is
// go-yaml v2): YAML 1.1 words and numbers.
//
//   - true/false: y, yes, true, on, n, no, false, off, each in small letters, capitals or with a
//     capital first letter. null: ~, null, Null, NULL, nothing at all.
//   - Integers: decimal, 0x, 0o, 0b, and octal with a leading 0; underscores anywhere. Past 64 bits
//     a number is a double. Doubles are taken through Go's JSON form, so 1e3 and 1.0 arrive as the
//     integers 1000 and 1. Base 60 (1:30) is text. .inf and .nan are refused: JSON has none.
//   - Timestamps are text. Quoted and block scalars are text. Tags !!str, !!int, !!float, !!bool,
//     !!null, !!timestamp and !!binary (decoded; bytes not of UTF-8 become U+FFFD) are obeyed,
//     others are ignored and make a scalar text.
//   - Keys that are integers, doubles or booleans become text; null, lists and maps as keys are
//     refused.
//   - `<<` merges a map or a list of maps; as in go-yaml v2 a key later in the text wins
//     over one that was merged earlier, and the other way round.
//   - Aliases are expanded, at most DRAY_YAML_ALIAS_NODES_MAX nodes of
//     DRAY_YAML_ALIAS_BYTES_MAX bytes; an anchor may not contain itself.
//
// Duplicate keys follow struct json_options; by default they are refused, which kubectl leaves to
// the server. Every value keeps its line and column for json_locate; what came by an alias has the
// place where it was written.
#ifndef CODEC_YAML_H
#define CODEC_YAML_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"

struct yaml_reader;

// yaml_reader_new starts reading a stream. text is borrowed and must outlive the reader; start is
// the position of its first byte ({1, 1} for a whole file). options may be NULL; its max_bytes
// bounds the whole stream. The caller owns the result.
struct yaml_reader *yaml_reader_new(struct str text, struct json_pos start,
                                    const struct json_options *options);

// yaml_reader_next reads the next document that is not empty. Returns 1; 0 at the end; or with a
// position -ERR_BAD_REQUEST (not YAML, or not representable as JSON), -ERR_TOO_LARGE. After an
// error the reader is at its end.
int yaml_reader_next(struct yaml_reader *y, struct json_doc *ret, struct err *err) MUST_USE;

void yaml_reader_free(struct yaml_reader *y);

// yaml_parse reads text that holds exactly one document; none is read as null. Returns as
// yaml_reader_next, with -ERR_BAD_REQUEST for a second document.
int yaml_parse(struct str text, const struct json_options *options, struct json_doc *ret,
               struct err *err) MUST_USE;

// yaml_write adds v in the layout of `kubectl get -o yaml`: two spaces a level, lists not indented
// under their key, strings quoted only where they would be read as something else, multi-line
// strings as literal blocks, lines folded near column 80. sorted puts keys into kubectl's order
// (numbers in names by value), else they stay as they are. Reading it back gives v again, except
// that a JSON_BIG comes back as the nearest double.
void yaml_write(const yyjson_val *v, bool sorted, struct sbuf *out);

#endif
