// SPDX-License-Identifier: Apache-2.0
//
// Label and field selectors: read from the text of a query or from a LabelSelector, matched against
// typed objects, written in their canonical form. Grammar, errors and meaning are those of
// apimachinery's labels and fields packages and, for which fields a kind offers, those of
// kube-apiserver 1.37.
//
// A selector is immutable, lives in the arena it was read into and borrows nothing else. Matching
// allocates nothing. Zeroed, a selector matches everything.
#ifndef API_SELECTOR_H
#define API_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

// --- Labels --------------------------------------------------------------------------------------

enum label_operator {
    LABEL_EQUALS,
    LABEL_DOUBLE_EQUALS,
    LABEL_NOT_EQUALS,
    LABEL_IN,
    LABEL_NOT_IN,
    LABEL_EXISTS,
    LABEL_DOES_NOT_EXIST,
    LABEL_GREATER,
    LABEL_LESS,
};

struct label_requirement {
    struct str key;
    enum label_operator relation;
    struct str *values; // sorted, without repeats when they were read from text
    size_t values_len;
    int64_t number; // LABEL_GREATER, LABEL_LESS
};

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

// --- Fields --------------------------------------------------------------------------------------

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

// field_selector_parse reads "a=b,c!=d" with the fields that kind offers. Objects to match are of the
// type stored, another version of the kind; NULL: kind's own. Returns 0 or -ERR_BAD_REQUEST.
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
