// SPDX-License-Identifier: Apache-2.0
//
// The structs of all API types, made from schema/ by tools/gen_api.py. How Go's shapes look in C:
//
//     string, bool, int32, int64   the plain C value (struct str for a string)
//     *string, *bool, *int32 ...   the value x and `bool has_x`
//     Time, *Time                  struct api_time, which has `set`
//     Quantity, IntOrString        struct quantity, struct api_int_or_string; a pointer if optional
//     struct, *struct              the struct by value; a pointer if optional, NULL when absent
//     []T                          struct api_T_array {p, n}; p is NULL for nil, not for empty
//     map[string]T                 struct api_T_map {p, n}: entries {key, value} sorted by key
//     []byte, RawExtension         struct str; p is NULL when absent. RawExtension is its JSON text
//     embedded (inline) structs    a member named after the type, such as volume.volume_source
//
// A member's name is the JSON name in snake_case; C keywords get `_value` behind them.
#ifndef API_TYPES_H
#define API_TYPES_H

#include "api/table.h"
#include "api/type/basic.h"
#include "api/types.gen.h" // IWYU pragma: export

#endif
