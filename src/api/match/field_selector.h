// SPDX-License-Identifier: Apache-2.0
//
// Field selectors: read from the text of a query, matched against typed objects, written in their
// canonical form. Grammar and errors are those of apimachinery's fields package; which fields a
// kind offers is as in kube-apiserver 1.37.
//
// A selector is immutable, lives in the arena it was read into and borrows nothing else. Matching
// allocates nothing. Zeroed, a selector matches everything.
#ifndef API_MATCH_FIELD_SELECTOR_H
#define API_MATCH_FIELD_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct field_row;

struct field_requirement {
    struct str field; // its name in the stored version
    struct str value;
    bool differs; // !=
    const struct field_row *row;
    size_t base; // where in the object what the row describes begins
};

// All requirements must hold.
struct field_selector {
    struct field_requirement *p;
    size_t n;
};

// field_selector_parse reads "a=b,c!=d" with the fields that kind offers. Objects to match are of
// the type stored, another version of the kind; NULL: kind's own. Returns 0 or -ERR_BAD_REQUEST.
int field_selector_parse(struct str text, const struct api_kind *kind,
                         const struct api_type *stored, struct arena *arena,
                         struct field_selector *ret, struct err *err) MUST_USE;

// field_selector_matches takes a struct of the type the selector was made for.
bool field_selector_matches(const struct field_selector *s, const void *object);

// field_selector_exact finds the value that a field must have; false when the selector leaves it
// open. For choosing an index: metadata.name, spec.nodeName.
bool field_selector_exact(const struct field_selector *s, struct str field, struct str *ret);

// field_selector_write adds the canonical form, with \, \= and \\ escaped.
void field_selector_write(const struct field_selector *s, struct sbuf *out);

static inline bool field_selector_everything(const struct field_selector *s)
{
    return s->n == 0;
}

#endif
