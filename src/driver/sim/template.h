// SPDX-License-Identifier: Apache-2.0
//
// Documents with holes: profiles describe thousands of devices in a page of YAML. A template is a
// JSON or YAML value in which
//
//   "${expr}"            a string that is one expression becomes its value, of any type
//   "gpu-${i}"           expressions within a text become text, in keys too
//   - $for: {i: 4}       an item of a list is repeated with i = 0 … 3
//     name: gpu-${i}     (a list of values, an expression, {from: a, count: n} instead of 4);
//                        several names nest, the first outermost
//   - $for: {i: 4}
//     $item: "${i}"      items that are not objects
//   $each: {$for: …, …}  in an object: the entries of every repetition, merged into it
//   $if: expr            beside $for or alone: leaves the item out when false or 0
//
// Expressions have integers, 'text', true, false, names, a.b, a[i], + - * / %, comparisons,
// parentheses, and the functions hex(n, digits), pad(n, digits), uuid(a, …), len(list).
#ifndef DRIVER_SIM_TEMPLATE_H
#define DRIVER_SIM_TEMPLATE_H

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"

// What an expression yields, or a name stands for.
struct template_value {
    enum { TEMPLATE_INT, TEMPLATE_BOOL, TEMPLATE_TEXT, TEMPLATE_JSON } type;
    int64_t number; // or 0, 1
    struct str text;
    const yyjson_val *json; // an object, an array, null or a number that is no integer
};

// Names that expressions can use; innermost first.
struct template_scope {
    const struct template_scope *parent;
    struct str name;
    struct template_value value;
};

// Values an expansion may produce at most; more is a mistake in the template.
#define TEMPLATE_VALUES_MAX 1000000

// template_expand makes *ret the expanded form of v, a value of doc. Returns 0 or, with the
// position in the document's source, -ERR_INVALID.
int template_expand(const struct json_doc *doc, const yyjson_val *v,
                    const struct template_scope *scope, struct json_doc *ret,
                    struct err *err) MUST_USE;

// template_value_of makes a value for a scope out of a document's value.
struct template_value template_value_of(const yyjson_val *v);

// template_eval evaluates an expression (without ${}). Texts it makes live in arena.
int template_eval(struct str expr, const struct template_scope *scope, struct arena *arena,
                  struct template_value *ret, struct err *err) MUST_USE;

#endif
