// SPDX-License-Identifier: Apache-2.0
//
// JSON documents: parsing with bounds, walking, positions, building. A document is an immutable
// array of yyjson values in text order (a container, then its content; in an object key, value,
// key, value, ...). Walking it is a pointer step, so the accessors here are inline and as thin as
// yyjson's own; typed decoders are made of json_obj_foreach, a switch on the key and json_to_*.
//
// What is read: RFC 8259, nothing more (no comments, trailing commas, NaN, byte order mark). Text
// must be valid UTF-8. An escaped lone surrogate ("\ud800") is refused, where Go silently puts
// U+FFFD: an API object must not change by being read. "\u0000" is accepted; strings are slices and
// may hold NUL.
//
// Numbers are exact. An integer in the text (no '.', no exponent) is int64 or uint64; one that fits
// neither is kept as its text (JSON_BIG) and reported as out of range by the integer accessors.
// Everything else is a double. As sigs.k8s.io/json, the integer accessors refuse 1.0 and 1e3: being
// integral is a matter of the text there. json_is_integral is for callers that are more lenient.
//
// Names are compared byte by byte; there is no case folding.
//
// Writing is in codec/json_writer.h, strict decoding in codec/json_strict.h.
#ifndef CODEC_JSON_H
#define CODEC_JSON_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

// What to do about a key that occurs twice in an object.
enum json_duplicates {
    JSON_DUPLICATES_REFUSE, // an error with its position
    JSON_DUPLICATES_LAST,   // as Go's maps: the last value, at the place of the first
    JSON_DUPLICATES_KEEP,   // leave them; json_get finds the last, a walk sees each
};

struct json_options {
    size_t max_bytes; // 0: DRAY_REQUEST_BYTES_MAX
    enum json_duplicates duplicates;
};

// A place in a source text; both start at 1, columns count bytes (YAML: characters).
struct json_pos {
    uint32_t line;
    uint32_t column;
};

// struct json_doc owns the values and their strings; a zeroed one is empty. It does not move with
// its address: the struct may be copied as long as one copy is done away with once.
struct json_doc {
    const yyjson_val *root;     // NULL in an empty document
    size_t count;               // values, keys included
    yyjson_doc *parsed;         // owner of the values when they were parsed from JSON
    yyjson_val *built;          // owner of the values when they were built
    struct arena strings;       // strings of built values
    struct json_pos *positions; // one a value for YAML and rebuilt documents, else NULL
    struct str source;          // borrowed: the text, for json_locate; may be empty
    struct json_pos start;      // where the document begins in the stream it came from
};

// json_parse reads text, which must hold one value and nothing else but white space. options may be
// NULL. The result copies what it needs; text must outlive it only for json_locate. Returns 0, or
// with position and byte offset -ERR_BAD_REQUEST (not JSON, too deep, a duplicate) or
// -ERR_TOO_LARGE (more than max_bytes).
int json_parse(struct str text, const struct json_options *options, struct json_doc *ret,
               struct err *err) MUST_USE;

// json_parse_next reads the first of several values that follow each other in text, starting at
// *offset, and moves *offset behind it. Returns 1, 0 when only white space is left, or as
// json_parse. *at is the position of *offset in the stream and moves along.
int json_parse_next(struct str text, size_t *offset, struct json_pos *at,
                    const struct json_options *options, struct json_doc *ret,
                    struct err *err) MUST_USE;

void json_doc_done(struct json_doc *doc);
#define cleanup_json_doc cleanup_with(json_doc_done)

// --- Walking -------------------------------------------------------------------------------------

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,  // fits int64
    JSON_UINT, // greater than INT64_MAX, fits uint64
    JSON_DOUBLE,
    JSON_BIG, // a number whose text fits neither an integer nor, maybe, a double
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

static inline bool json_is_null(const yyjson_val *v)
{
    return (v->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_NULL;
}

static inline bool json_is_string(const yyjson_val *v)
{
    return (v->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_STR;
}

static inline bool json_is_array(const yyjson_val *v)
{
    return (v->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_ARR;
}

static inline bool json_is_object(const yyjson_val *v)
{
    return (v->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_OBJ;
}

// json_is_container: arrays and objects are the two types with both of these bits.
static inline bool json_is_container(const yyjson_val *v)
{
    return (v->tag & (YYJSON_TYPE_ARR & YYJSON_TYPE_OBJ)) == (YYJSON_TYPE_ARR & YYJSON_TYPE_OBJ);
}

enum json_type json_type(const yyjson_val *v);

// json_type_name is Go's word for it: null, bool, number, string, array, object. Static storage.
const char *json_type_name(const yyjson_val *v);

// json_len: bytes of a string, items of an array, pairs of an object, 0 for the rest.
static inline size_t json_len(const yyjson_val *v)
{
    return (size_t)(v->tag >> YYJSON_TAG_BIT);
}

// json_str is the text of a string, a key or a JSON_BIG; a NUL follows it. It lives as long as the
// document.
static inline struct str json_str(const yyjson_val *v)
{
    return (struct str){v->uni.str, json_len(v)};
}

// json_next is the value behind v and all its content: the next item of an array, the next key
// behind a value in an object. Past the last one it is the end of the container.
static inline const yyjson_val *json_next(const yyjson_val *v)
{
    return (const yyjson_val *)(const void *)((const char *)v +
                                              (json_is_container(v) ? v->uni.ofs : sizeof(*v)));
}

static inline const yyjson_val *json_obj_first(const yyjson_val *v)
{
    assert(json_is_object(v));
    return v + 1;
}

static inline const yyjson_val *json_arr_first(const yyjson_val *v)
{
    assert(json_is_array(v));
    return v + 1;
}

// NOLINTBEGIN(bugprone-macro-parentheses): they declare their names.
// json_arr_foreach walks an array; json_obj_foreach walks an object's pairs in text order.
#define json_arr_foreach(array, item)                                                    \
    for (const yyjson_val *item = json_arr_first(array), *item##_end = json_next(array); \
         item != item##_end; item = json_next(item))

#define json_obj_foreach(object, key, val)                               \
    for (const yyjson_val *key = json_obj_first(object), *val = key + 1, \
                          *key##_end = json_next(object);                \
         key != key##_end; key = json_next(val), val = key + 1)
// NOLINTEND(bugprone-macro-parentheses)

// json_get finds a key of an object, the last one if it occurs more than once. NULL when it is
// missing or v is not an object.
const yyjson_val *json_get(const yyjson_val *v, struct str key);

// json_get_str is the text of an object's member; empty when v is NULL or has no string there.
static inline struct str json_get_str(const yyjson_val *v, const char *key)
{
    const yyjson_val *t = v ? json_get(v, str_z(key)) : NULL;
    return t && json_is_string(t) ? json_str(t) : (struct str){0};
}

// json_at finds the item of an array, or NULL. It walks; use json_arr_foreach for more than one.
const yyjson_val *json_at(const yyjson_val *v, size_t index);

// json_at_path follows a field path such as spec.devices[0].labels[a.b/c] and answers the deepest
// value on the way that exists; *ret_whole (may be NULL) reports whether that is the whole way.
const yyjson_val *json_at_path(const yyjson_val *root, struct str path, bool *ret_whole);

// json_equal compares deeply; numbers by their exact value (1 and 1.0 are equal), objects without
// regard to order. An object with duplicate keys is equal to none.
bool json_equal(const yyjson_val *a, const yyjson_val *b);

// --- Typed values --------------------------------------------------------------------------------

// json_type_error reports that v cannot become a `want` (int64, string, ...), or is out of its
// range. Returns -ERR_BAD_REQUEST.
int json_type_error(const yyjson_val *v, const char *want, struct err *err);

// json_to_*: the value as a C type. Return 0 or -ERR_BAD_REQUEST by json_type_error. null is an
// error here: a decoder skips it first, as Go leaves a field alone for it.
static inline int json_to_i64(const yyjson_val *v, int64_t *ret, struct err *err)
{
    if (v->tag == (YYJSON_TYPE_NUM | YYJSON_SUBTYPE_SINT) ||
        (v->tag == (YYJSON_TYPE_NUM | YYJSON_SUBTYPE_UINT) && v->uni.u64 <= INT64_MAX)) {
        *ret = v->uni.i64;
        return 0;
    }
    return json_type_error(v, "int64", err);
}

static inline int json_to_i32(const yyjson_val *v, int32_t *ret, struct err *err)
{
    int64_t wide = 0;
    if (json_to_i64(v, &wide, NULL) == 0 && wide >= INT32_MIN && wide <= INT32_MAX) {
        *ret = (int32_t)wide;
        return 0;
    }
    return json_type_error(v, "int32", err);
}

static inline int json_to_u64(const yyjson_val *v, uint64_t *ret, struct err *err)
{
    if (v->tag == (YYJSON_TYPE_NUM | YYJSON_SUBTYPE_UINT)) {
        *ret = v->uni.u64;
        return 0;
    }
    return json_type_error(v, "uint64", err);
}

static inline int json_to_u32(const yyjson_val *v, uint32_t *ret, struct err *err)
{
    if (v->tag == (YYJSON_TYPE_NUM | YYJSON_SUBTYPE_UINT) && v->uni.u64 <= UINT32_MAX) {
        *ret = (uint32_t)v->uni.u64;
        return 0;
    }
    return json_type_error(v, "uint32", err);
}

static inline int json_to_bool(const yyjson_val *v, bool *ret, struct err *err)
{
    if ((v->tag & YYJSON_TYPE_MASK) != YYJSON_TYPE_BOOL)
        return json_type_error(v, "bool", err);
    *ret = (v->tag & YYJSON_SUBTYPE_MASK) == YYJSON_SUBTYPE_TRUE;
    return 0;
}

static inline int json_to_str(const yyjson_val *v, struct str *ret, struct err *err)
{
    if (!json_is_string(v))
        return json_type_error(v, "string", err);
    *ret = json_str(v);
    return 0;
}

// json_to_double takes any number, also an integer; one past the range of a double is an error.
int json_to_double(const yyjson_val *v, double *ret, struct err *err);

static inline int json_want_array(const yyjson_val *v, struct err *err)
{
    return json_is_array(v) ? 0 : json_type_error(v, "array", err);
}

static inline int json_want_object(const yyjson_val *v, struct err *err)
{
    return json_is_object(v) ? 0 : json_type_error(v, "object", err);
}

// json_is_integral reports whether a number, however it is written (5, 5.0, 5e0), is a whole number
// that fits int64; *ret gets it.
bool json_is_integral(const yyjson_val *v, int64_t *ret);

// --- Positions -----------------------------------------------------------------------------------

// json_locate finds where v of doc stands in its source. It reads the source again from the
// beginning for JSON: for error messages, not for loops. False when the document has no source.
bool json_locate(const struct json_doc *doc, const yyjson_val *v, struct json_pos *ret);

// json_locate_err gives err, which has a field path and no position yet, the position of the
// deepest value on that path.
void json_locate_err(const struct json_doc *doc, struct err *err);

// json_pos_of counts lines and columns up to a byte offset of text.
struct json_pos json_pos_of(struct str text, size_t offset);

// --- Building ------------------------------------------------------------------------------------

// struct json_builder makes a document value by value. Begin and end must match and keys and values
// alternate in objects; breaking that is a programming error (assert). Zeroed, it is ready.
struct json_builder {
    yyjson_val *vals;
    size_t n;
    size_t cap;
    struct json_pos *positions; // parallel to vals when keep_positions
    bool keep_positions;
    struct json_pos at; // given to the next values
    struct arena strings;
    size_t depth;
    uint32_t open[DRAY_DOC_DEPTH_MAX]; // indexes of the containers that are not closed
};

// json_build_object and json_build_array open a container; json_build_end closes the innermost.
// The first two return 0 or -ERR_BAD_REQUEST when the document gets too deep (or too large to
// index).
int json_build_object(struct json_builder *b, struct err *err) MUST_USE;
int json_build_array(struct json_builder *b, struct err *err) MUST_USE;
void json_build_end(struct json_builder *b);

void json_build_null(struct json_builder *b);
void json_build_bool(struct json_builder *b, bool v);
void json_build_i64(struct json_builder *b, int64_t v);
void json_build_u64(struct json_builder *b, uint64_t v);

// json_build_number adds what JSON reads from text, a JSON number.
void json_build_number(struct json_builder *b, struct str text);

// json_build_str adds a string or a key; it copies. s must be valid UTF-8.
void json_build_str(struct json_builder *b, struct str s);

// json_build_value copies a whole value with its content.
int json_build_value(struct json_builder *b, const yyjson_val *v, struct err *err) MUST_USE;

// json_build_finish moves what was built to *ret; the builder is empty then. Everything must be
// closed and exactly one value be there.
void json_build_finish(struct json_builder *b, struct json_doc *ret);

void json_builder_done(struct json_builder *b);
#define cleanup_json_builder cleanup_with(json_builder_done)

#endif
