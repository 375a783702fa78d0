// SPDX-License-Identifier: Apache-2.0
//
// Types as the checker sees them. A type is immutable; simple ones are shared constants, composed
// ones live in an arena. Type parameters carry a number: in a declaration the position of the
// parameter, inside a check the number of a type variable.
#ifndef CEL_FRONT_TYPE_H
#define CEL_FRONT_TYPE_H

#include "base/arena.h"
#include "base/str.h"

enum cel_tkind {
    CEL_T_ERROR,
    CEL_T_DYN,
    CEL_T_ANY,
    CEL_T_NULL,
    CEL_T_BOOL,
    CEL_T_INT,
    CEL_T_UINT,
    CEL_T_DOUBLE,
    CEL_T_STRING,
    CEL_T_BYTES,
    CEL_T_DURATION,
    CEL_T_TIMESTAMP,
    CEL_T_LIST,
    CEL_T_MAP,
    CEL_T_TYPE,
    CEL_T_PARAM,
    CEL_T_STRUCT,
    CEL_T_OPAQUE,
};

#define CEL_TYPE_PARAMS_MAX 8

struct cel_type {
    enum cel_tkind kind;
    bool nullable;  // a wrapper such as google.protobuf.Int64Value
    uint8_t params; // how many of param are used
    uint32_t var;   // CEL_T_PARAM only
    struct str name;
    const struct cel_type *param[CEL_TYPE_PARAMS_MAX];
};

// map(dyn, dyn) and optional_type(dyn) say no more than their kind; so does cel_type_list_dyn.
extern const struct cel_type cel_type_map_dyn, cel_type_optional_dyn;

extern const struct cel_type cel_type_error, cel_type_dyn, cel_type_any, cel_type_null,
    cel_type_bool, cel_type_int, cel_type_uint, cel_type_double, cel_type_string, cel_type_bytes,
    cel_type_duration, cel_type_timestamp, cel_type_type, cel_type_quantity, cel_type_semver,
    cel_type_ip, cel_type_cidr, cel_type_url, cel_type_format, cel_type_list_dyn,
    cel_type_map_string_dyn, cel_type_wrap_bool, cel_type_wrap_int, cel_type_wrap_uint,
    cel_type_wrap_double, cel_type_wrap_string, cel_type_wrap_bytes;

// Composed types; the parts are borrowed and must live as long as the arena.
const struct cel_type *cel_type_list(struct arena *a, const struct cel_type *elem);
const struct cel_type *cel_type_map(struct arena *a, const struct cel_type *key,
                                    const struct cel_type *value);
const struct cel_type *cel_type_optional(struct arena *a, const struct cel_type *value);
const struct cel_type *cel_type_of(struct arena *a, const struct cel_type *value);
const struct cel_type *cel_type_var(struct arena *a, uint32_t var);
const struct cel_type *cel_type_opaque(struct arena *a, struct str name,
                                       const struct cel_type *const *params, size_t n);

// cel_type_copy copies a type into another arena; shared constants stay as they are.
const struct cel_type *cel_type_copy(struct arena *a, const struct cel_type *t);

bool cel_type_is_optional(const struct cel_type *t);

// cel_type_same reports whether two types are the same one (type variables by number).
bool cel_type_same(const struct cel_type *a, const struct cel_type *b);

// cel_type_write adds the name people see: int, list(string), optional_type(dyn).
void cel_type_write(const struct cel_type *t, struct sbuf *out);

// cel_type_write_go adds the name as compiled results report it, where wrapper types show their
// full name.
void cel_type_write_go(const struct cel_type *t, struct sbuf *out);

// cel_type_parse reads the notation of the declaration tables: "list(A)", "map(K,V)", "int",
// "optional(V)", "type(A)", "Quantity". Single capital letters are parameters, numbered through
// letters, which keeps the order of first appearance. Aborts on a bad table.
const struct cel_type *cel_type_parse(struct arena *a, const char **text, struct str *letters);

#endif
