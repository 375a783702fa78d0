// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions: RE2 behind a C face. regex_re2.cc is the only C++ file of the project.
#ifndef CEL_REGEX_H
#define CEL_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cel_regex;

// cel_regex_new compiles a pattern; free it with cel_regex_free. NULL when it is none, with a
// message in Go's words in why.
struct cel_regex *cel_regex_new(const char *pattern, size_t n, char *why, size_t why_size);
void cel_regex_free(struct cel_regex *re);

// cel_regex_size is the number of instructions that the pattern became. Compiling takes some 300 ns
// for each.
size_t cel_regex_size(const struct cel_regex *re);

// cel_regex_match searches text anywhere.
bool cel_regex_match(const struct cel_regex *re, const char *text, size_t n);

// cel_regex_find searches from an offset; *ret_start and *ret_end get the leftmost-first match.
bool cel_regex_find(const struct cel_regex *re, const char *text, size_t n, size_t from,
                    size_t *ret_start, size_t *ret_end);

#ifdef __cplusplus
}
#endif

#endif
