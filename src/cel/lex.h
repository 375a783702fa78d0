// SPDX-License-Identifier: Apache-2.0
//
// Tokens of CEL, one at a time, with byte and code point positions.
#ifndef CEL_LEX_H
#define CEL_LEX_H

#include "cel/source.h"

enum cel_tok {
    CEL_TOK_EOF,
    CEL_TOK_IDENT,
    CEL_TOK_QUOTED_IDENT, // `a-b`
    CEL_TOK_INT,
    CEL_TOK_UINT,
    CEL_TOK_DOUBLE,
    CEL_TOK_STRING,
    CEL_TOK_BYTES,
    CEL_TOK_TRUE,
    CEL_TOK_FALSE,
    CEL_TOK_NULL,
    CEL_TOK_IN,
    CEL_TOK_EQ,
    CEL_TOK_NE,
    CEL_TOK_LE,
    CEL_TOK_GE,
    CEL_TOK_AND,
    CEL_TOK_OR,
    CEL_TOK_BAD,
    // Single characters stand for themselves from here on.
    CEL_TOK_CHAR = 32,
};

struct cel_token {
    int kind; // enum cel_tok or a character
    uint32_t pos;
    struct str text;
};

struct cel_lexer {
    struct cel_source *source;
    size_t off;
    uint32_t pos;
};

// cel_lex reads the next token. What is no token is reported as an issue and skipped.
struct cel_token cel_lex(struct cel_lexer *l);

// cel_unescape turns the text of a string or bytes token (with quotes and r prefix, without b) into
// its value in the arena. False with *ret_why on a bad escape.
bool cel_unescape(struct arena *a, struct str token, bool bytes, struct str *ret,
                  const char **ret_why);

#endif
