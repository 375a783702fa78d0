// SPDX-License-Identifier: Apache-2.0
//
// The token with which a list that was cut by its limit goes on: which revision, behind which
// object. In the form of Kubernetes' own, with one member more: how many objects are left.
#ifndef SERVER_AUTH_TOKEN_H
#define SERVER_AUTH_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct token {
    int64_t revision;     // -1: continue with the present objects
    struct str namespace; // of the last object given
    struct str name;
    int64_t left; // objects behind it, -1 when not known
};

// token_write adds the token's text.
void token_write(const struct token *t, bool namespaced, struct sbuf *out);

// token_read reads one for a list of a kind; in is the namespace that is listed, empty for all.
// Returns 0 or -ERR_BAD_REQUEST with upstream's text.
int token_read(struct str text, bool namespaced, struct str in, struct arena *arena,
               struct token *ret, struct err *err) MUST_USE;

#endif
