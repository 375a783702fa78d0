// SPDX-License-Identifier: Apache-2.0
//
// Objects of the API: from bytes to structs and back, copies, comparison, defaults. Everything a
// typed object holds lives in the arena it was made in; nothing points into the source bytes.
//
// The functions that take a `const struct api_type *` work on any type of the schema, such as
// &api_device_request_type with a struct api_device_request.
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>

#include "api/table.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/json_strict.h"
#include "codec/json_writer.h"

// --- Whole objects -------------------------------------------------------------------------------

// An object and what it is. value is a struct of kind->type.
struct api_object {
    const struct api_kind *kind;
    void *value;
};

// api_decode reads an object whose apiVersion and kind say what it is. doc, strict and arena as for
// api_json_read. Returns 0; -ERR_BAD_REQUEST with the field path; or -ERR_NOT_FOUND for a kind that
// is not in the schema.
int api_decode(const struct json_doc *doc, const yyjson_val *v, struct arena *arena,
               struct json_strict *strict, struct api_object *ret, struct err *err) MUST_USE;

// api_decode_as reads an object of a kind that is known; apiVersion and kind in the text are taken
// as they are.
int api_decode_as(const struct api_kind *kind, const struct json_doc *doc, const yyjson_val *v,
                  struct arena *arena, struct json_strict *strict, struct api_object *ret,
                  struct err *err) MUST_USE;

// api_map_find is the value of a label, an annotation or another key; NULL when there is none.
const struct str *api_map_find(const struct api_str_map *map, struct str key);

// api_map_set adds a key or replaces its value, in a copy of the sorted map; texts are borrowed.
void api_map_set(struct api_str_map *map, struct arena *arena, struct str key, struct str value);

// api_object_meta is the metadata of an object, NULL when its kind has none.
struct api_object_meta *api_object_meta(const struct api_object *o);

// api_set_type_meta writes kind and apiVersion of o->kind into the object, if its type has them.
void api_set_type_meta(const struct api_object *o);

// api_set_type_meta_as writes the given ones: DeleteOptions and its like exist in many versions.
void api_set_type_meta_as(const struct api_object *o, struct str api_version, struct str kind);

// api_object_version is the apiVersion the object carries, or its kind's.
struct str api_object_version(const struct api_object *o);

// --- JSON ----------------------------------------------------------------------------------------

// api_json_read fills *out, a zeroed struct of type t, from a JSON value. doc is the document v
// belongs to: when its source text is still there, RawExtensions and quantities keep their exact
// text; otherwise they are written again. strict, if not NULL, collects unknown and duplicate
// fields. Returns 0 or, with the field path, -ERR_BAD_REQUEST.
int api_json_read(const struct api_type *t, const struct json_doc *doc, const yyjson_val *v,
                  void *out, struct arena *arena, struct json_strict *strict,
                  struct err *err) MUST_USE;

// api_json_write writes a struct of type t as Go's encoding/json would: fields in declaration
// order, omitempty as tagged. Returns 0, or -ERR_INVALID when a RawExtension does not hold JSON;
// what was written by then is useless.
int api_json_write(const struct api_type *t, const void *in, struct json_writer *w,
                   struct err *err) MUST_USE;

// --- Protobuf ------------------------------------------------------------------------------------

// api_proto_read fills *out from a message. Fields the type does not know are skipped, as
// Kubernetes does. Returns 0 or -ERR_BAD_REQUEST with the field path.
int api_proto_read(const struct api_type *t, struct str message, void *out, struct arena *arena,
                   struct err *err) MUST_USE;

// api_proto_write adds the message, byte for byte as Kubernetes writes it.
void api_proto_write(const struct api_type *t, const void *in, struct sbuf *out);

// api_envelope_read takes a body in Kubernetes' protobuf envelope: the bytes "k8s\0", then a
// message with apiVersion, kind and the object's own message. kind and apiVersion of the object are
// filled in. Returns as api_decode.
int api_envelope_read(struct str body, struct arena *arena, struct api_object *ret,
                      struct err *err) MUST_USE;

// api_envelope_is reports whether body starts with the envelope's mark.
bool api_envelope_is(struct str body);

// api_envelope_write adds an object in its envelope.
void api_envelope_write(const struct api_object *o, struct sbuf *out);

// --- Defaults and conversion ---------------------------------------------------------------------

// What defaulting needs to know of the world.
struct api_default_options {
    struct api_time now; // for timeAdded of taints; not set: they stay as they are
};

// api_default sets what Kubernetes sets in an object as it is decoded: the schema's defaults and
// those that depend on other fields. options may be NULL.
void api_default(const struct api_type *t, void *value, const struct api_default_options *options,
                 struct arena *arena);

// api_convert makes an object of another kind out of one: the same kind in another version, or an
// Event of the other group. The result shares nothing with the input. Returns 0, or -ERR_INVALID
// when there is no way from one to the other.
int api_convert(const struct api_object *in, const struct api_kind *to, struct arena *arena,
                struct api_object *ret, struct err *err) MUST_USE;

// --- Copy and comparison -------------------------------------------------------------------------

// api_copy makes *out a deep copy of *in in arena. out must not be in.
void api_copy(const struct api_type *t, const void *in, void *out, struct arena *arena);

// api_copy_bytes is what an arena must reserve to hold a value of type t and all that api_copy puts
// behind it. Not for custom kinds.
size_t api_copy_bytes(const struct api_type *t, const void *value);

// api_equal compares as apimachinery's semantic equality: quantities by value, times as moments,
// nil and empty lists and maps alike; a string pointer that is nil differs from one to "".
bool api_equal(const struct api_type *t, const void *a, const void *b);

// api_field_equal compares one field of two structs.
bool api_field_equal(const struct api_field *f, const void *a, const void *b);

// api_field_clear makes a field absent (or zero).
void api_field_clear(const struct api_field *f, void *owner);

#endif
