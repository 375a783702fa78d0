// SPDX-License-Identifier: Apache-2.0
//
// The fields of a spec, described once: the reader and the writer both walk these tables. Private
// to cdi.
#ifndef CDI_SCHEMA_H
#define CDI_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "base/vec.h"

enum cdi_shape {
    CDI_TEXT,       // struct str
    CDI_INT,        // int64_t
    CDI_OPT_INT,    // struct cdi_opt_i64
    CDI_OPT_U32,    // struct cdi_opt_u32
    CDI_BOOL,       // bool
    CDI_TEXTS,      // struct cdi_texts
    CDI_U32S,       // struct cdi_gids
    CDI_PAIRS,      // struct cdi_pairs
    CDI_OBJECT,     // a struct in the struct
    CDI_OPT_OBJECT, // a pointer to a struct
    CDI_LIST,       // VEC of structs
};

struct cdi_type;

struct cdi_field {
    struct str name;
    enum cdi_shape shape;
    bool always; // written even when empty
    size_t offset;
    const struct cdi_type *type; // of the last three shapes
};

struct cdi_type {
    const struct cdi_field *fields;
    size_t n;
    size_t size;
};

// The layout of every VEC.
struct cdi_any_list VEC(void);

extern const struct cdi_type cdi_type_spec, cdi_type_device, cdi_type_edits;

#endif
