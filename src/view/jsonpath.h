// SPDX-License-Identifier: Apache-2.0
//
// JSONPath templates as kubectl's -o jsonpath takes them: text, and in braces what to find in it.
//
//   {.metadata.name}  {.items[*].spec.nodeName}  {.items[0]}  {.items[-1:]}  {.items[0:4:2]}
//   {..name}
//   {.items[?(@.status.phase=="Running")].metadata.name}
//   {.metadata.labels.app\.kubernetes\.io/name}
//   {.metadata['name','uid']}  {range .items[*]}{.metadata.name}{"\t"}{.spec.nodeName}{"\n"}{end}
//
// A field that is not there gives nothing. Maps are walked in the order they are written in. A
// template is foreign text: its length and nesting are bounded, and so is what running it may look
// at.
#ifndef VIEW_JSONPATH_H
#define VIEW_JSONPATH_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "codec/json.h"

#define JSONPATH_TEXT_MAX  ((size_t)64 * 1024)
#define JSONPATH_DEPTH_MAX 16                  // filters and unions within each other, and ranges
#define JSONPATH_STEPS_MAX ((size_t)20000000)  // values looked at in one run
#define JSONPATH_BYTES_MAX ((size_t)256 << 20) // of what it writes

struct jsonpath;

// jsonpath_parse reads a template into arena, which text must outlive. Returns 0 or -ERR_INVALID
// with the place in it.
int jsonpath_parse(struct str text, struct arena *arena, const struct jsonpath **ret,
                   struct err *err) MUST_USE;

// jsonpath_parse_relaxed takes one expression with or without braces and leading dot: {.a.b}, .a.b,
// a.b.
int jsonpath_parse_relaxed(struct str text, struct arena *arena, const struct jsonpath **ret,
                           struct err *err) MUST_USE;

// jsonpath_write runs a template on a value and adds what comes out. Returns 0, or -ERR_INVALID (an
// index out of bounds, values that cannot be compared), -ERR_TOO_LARGE; out may have got a part
// then.
int jsonpath_write(const struct jsonpath *path, const yyjson_val *root, struct sbuf *out,
                   struct err *err) MUST_USE;

struct jsonpath_values VEC(const yyjson_val *);

// jsonpath_find gives the values that the template's first expression finds, in arena and root's
// document. Returns as jsonpath_write.
int jsonpath_find(const struct jsonpath *path, const yyjson_val *root, struct arena *arena,
                  struct jsonpath_values *ret, struct err *err) MUST_USE;

#endif
