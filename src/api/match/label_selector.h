// SPDX-License-Identifier: Apache-2.0
//
// Label selectors: read from the text of a query or from a LabelSelector, matched against typed
// objects, written in their canonical form. Grammar, errors and meaning are those of apimachinery's
// labels package. What a requirement means is in label.h.
//
// A selector is immutable, lives in the arena it was read into and borrows nothing else. Matching
// allocates nothing. Zeroed, a selector matches everything.
#ifndef API_MATCH_LABEL_SELECTOR_H
#define API_MATCH_LABEL_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "api/match/label.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

// All requirements must hold; they are sorted by key.
struct label_selector {
    struct label_requirement *p;
    size_t n;
    bool nothing; // matches no object at all
};

// label_selector_parse reads "a=b,c in (d,e),!f". Returns 0 or -ERR_BAD_REQUEST.
int label_selector_parse(struct str text, struct arena *arena, struct label_selector *ret,
                         struct err *err) MUST_USE;

// label_selector_of makes one of an object's field: NULL matches nothing, an empty one everything.
// Returns 0 or -ERR_INVALID.
int label_selector_of(const struct api_label_selector *in, struct arena *arena,
                      struct label_selector *ret, struct err *err) MUST_USE;

bool label_selector_matches(const struct label_selector *s, const struct api_str_map *labels);

// label_selector_write adds the canonical form.
void label_selector_write(const struct label_selector *s, struct sbuf *out);

static inline bool label_selector_everything(const struct label_selector *s)
{
    return s->n == 0 && !s->nothing;
}

#endif
