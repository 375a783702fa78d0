// SPDX-License-Identifier: Apache-2.0
//
// JSON values that can be changed: what custom resources are made of. A value lives in an arena,
// its members are sorted by key, so that the same content has the same text. Numbers are int64
// where their text is an integer that fits, doubles otherwise, as Kubernetes' unstructured objects
// have them. Values nest no deeper than the documents they come from (DRAY_DOC_DEPTH_MAX).
#ifndef API_CRD_DYN_H
#define API_CRD_DYN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/json_writer.h"

enum dyn_type {
    DYN_NULL,
    DYN_BOOL,
    DYN_INT,
    DYN_DOUBLE,
    DYN_STR,
    DYN_LIST,
    DYN_OBJECT,
};

struct dyn_member;

struct dyn {
    enum dyn_type type;
    union {
        bool truth;
        int64_t number;
        double real;
        struct str text;
        struct {
            struct dyn *items;
            size_t items_len;
        };
        struct {
            struct dyn_member *members; // sorted by key
            size_t members_len;
        };
    };
};

struct dyn_member {
    struct str key;
    struct dyn value;
};

// dyn_of makes a value of a parsed one; nothing points into the document. Of keys that occur twice
// the last counts.
struct dyn dyn_of(const yyjson_val *v, struct arena *a);

// dyn_get finds a member; NULL when there is none or o is no object. dyn_at follows a path of
// names.
struct dyn *dyn_get(const struct dyn *o, struct str key);

// dyn_set adds or replaces a member of an object, dyn_remove takes one out.
void dyn_set(struct dyn *o, struct str key, struct dyn value, struct arena *a);
void dyn_remove(struct dyn *o, struct str key);

struct dyn dyn_copy(const struct dyn *v, struct arena *a);

// dyn_equal compares deeply; an integer and a double are never the same, as in Go.
bool dyn_equal(const struct dyn *a, const struct dyn *b);

static inline struct dyn dyn_str(struct str s)
{
    return (struct dyn){.type = DYN_STR, .text = s};
}

static inline struct dyn dyn_int(int64_t i)
{
    return (struct dyn){.type = DYN_INT, .number = i};
}

static inline bool dyn_is_number(const struct dyn *v)
{
    return v->type == DYN_INT || v->type == DYN_DOUBLE;
}

// dyn_type_name is OpenAPI's word for what a value is.
struct str dyn_type_name(const struct dyn *v);

void dyn_write(const struct dyn *v, struct json_writer *w);

// dyn_text adds the value as compact JSON; texts in Go's %v form are in custom_show.c.
void dyn_text(const struct dyn *v, struct sbuf *out);

#endif
