// SPDX-License-Identifier: Apache-2.0
//
// What the generated tables say about a type, a field, a kind. One engine interprets them for every
// format and every walk: JSON, protobuf, copy, comparison, defaults, conversion, OpenAPI, explain.
#ifndef API_TABLE_H
#define API_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

// What a field, or an item of it, is.
enum api_elem {
    API_STR,
    API_BOOL,
    API_I32,
    API_I64,
    API_QUANTITY,
    API_TIME,
    API_MICROTIME,
    API_INTSTR,
    API_RAW,     // RawExtension: JSON text, p NULL when absent
    API_FIELDS,  // FieldsV1: the same in another message
    API_BYTES,   // []byte, base64 in JSON
    API_STRLIST, // a list of strings that protobuf wraps in a message
    API_STRUCT,
    API_ELEMS, // how many there are
};

enum api_shape {
    API_ONE,
    API_OPT,    // a pointer in Go
    API_LIST,   // {T *p; size_t n}
    API_MAP,    // {struct {struct str key; T value} *p; size_t n}, sorted by key
    API_INLINE, // a struct whose fields JSON shows as the owner's
};

enum api_field_flag {
    API_REQUIRED = 1 << 0,
    API_ALWAYS = 1 << 1,   // no omitempty: JSON shows it even when empty
    API_OMITZERO = 1 << 2, // Go's omitzero: a struct that JSON leaves out when zero
    API_IMMUTABLE = 1 << 3,
    API_DEPRECATED = 1 << 4,
    API_UNION = 1 << 5, // one of several members of which at most one is set
    API_LIST_ATOMIC = 1 << 6,
    API_LIST_SET = 1 << 7,
    API_LIST_MAP = 1 << 8, // keys in info->keys
    API_MAP_ATOMIC = 1 << 9,
    API_MAP_GRANULAR = 1 << 10,
    API_STRUCT_ATOMIC = 1 << 11,
    API_PATCH_MERGE = 1 << 12, // strategic merge patch; key in info->merge_key
    API_PATCH_REPLACE = 1 << 13,
    API_PATCH_RETAIN_KEYS = 1 << 14,
    API_DEFAULT_DECLARED = 1 << 15, // its default is part of the published schema
    // Declarative validation:
    API_MUST = 1 << 16, // a value is demanded (OpenAPI's required list is another matter)
    API_STANDARD =
        1 << 17,          // its rules, and those below, hold whatever DeclarativeValidationBeta is
    API_CLOSED = 1 << 18, // forbidden while its gate is off
    API_NO_MODIFY = 1 << 19, // once set it may be cleared, not changed
    API_NO_SET = 1 << 20,    // only a new object may set it,
    API_NO_UNSET = 1 << 21,  // and it stays set
    API_NO_ADD = 1 << 22,    // a list that gets no items once it is made,
    API_NO_REMOVE = 1 << 23, // and loses none
    API_SCHEMA = 1 << 24,    // a schema: JSON text here, a message of its own in protobuf
};

// The rest of what is known of a field: for rules, documents and messages. Texts are NULL, numbers
// 0 when there is nothing to say.
struct api_field_info {
    const char *doc;
    const char *keys;          // of a list map, separated by commas
    const char *merge_key;     // of strategic merge patch
    const char *default_text;  // as in JSON, strings without quotes
    const char *gates;         // feature gates that must all be on, separated by commas
    const char *format;        // of the value, by the names of declarative validation
    const char *key_format;    // of a map's keys
    const char *item_format;   // of a list's items
    const char *unique;        // map or set: items must differ although the list is atomic
    const char *unique_by;     // keys for unique=map
    const char *const *values; // the values an enumeration allows, NULL-terminated
    int64_t max_items;
    int64_t max_bytes;
    int64_t max_length; // in characters
    int64_t item_max_bytes;
    int64_t min;
    int64_t max;
    bool has_min;
    bool has_max;
};

struct api_type;
struct api_custom; // api/custom.h

struct api_field {
    struct str name; // in JSON
    struct str key;  // the same in quotes
    uint32_t number; // in protobuf; 0 when it is not there
    enum api_elem elem;
    enum api_shape shape;
    uint32_t flags;      // enum api_field_flag
    uint32_t offset;     // of the member
    uint32_t has_offset; // of its has_ flag, 0 when it has none
    const struct api_type *sub;
    const struct api_field_info *info;
};

struct api_type {
    struct str name;    // as in Go: DeviceRequest
    struct str package; // resource/v1
    size_t size;
    const struct api_field *fields; // in declaration order
    size_t fields_len;
    const struct api_field *json; // as JSON shows them: inline structs replaced by their fields
    size_t json_len;
    const uint16_t *wire; // positions in fields by ascending protobuf number
    size_t wire_len;
    bool root;     // starts with kind and apiVersion
    bool defaults; // something in it or below may be set by default
    bool atomic;   // apply replaces it as a whole
    const char *doc;
    const struct api_custom
        *custom; // of a kind users added: fields are its metadata, json the schema
};

struct api_kind {
    struct str group;
    struct str version;
    struct str api_version; // group/version, or the version alone for the core group
    struct str kind;
    struct str plural; // empty for kinds that are not resources, such as Status
    struct str singular;
    struct str package; // whose names the OpenAPI definitions carry
    bool namespaced;
    const char *const *short_names; // NULL-terminated lists, NULL when empty
    const char *const *subresources;
    const char *const *categories;
    const struct api_type *type;
    const struct api_kind *list;     // <kind>List, or NULL
    const struct api_kind *item;     // of a list: what it lists, else NULL
    const struct api_custom *custom; // of a kind users added, else NULL
};

// A resource's list kind stands behind it.
extern const struct api_kind api_kinds[];
extern const size_t api_kinds_len;
extern const struct api_type *const api_types[];
extern const size_t api_types_len;

// api_elem_size is the size of one element: of a list's item, a map's value, the target of a
// pointer.
size_t api_elem_size(const struct api_field *f);

// api_entry_size is the size of a map's entry; the value stands at API_ENTRY_VALUE.
#define API_ENTRY_VALUE sizeof(struct str)
size_t api_entry_size(const struct api_field *f);

// api_kind_in_proto reports whether objects of a kind can be written in protobuf: what users added
// has none.
bool api_kind_in_proto(const struct api_kind *kind);

// api_kind_find finds a kind by apiVersion and name, NULL when there is none. The option kinds of
// the meta package (DeleteOptions and its like) exist in every known group and version.
const struct api_kind *api_kind_find(struct str api_version, struct str kind);

// api_kind_of_resource finds the kind of a resource (its plural name) of a group and version.
const struct api_kind *api_kind_of_resource(struct str group, struct str version,
                                            struct str plural);

// api_kind_by_name finds a kind as people name it: by kind, plural, singular or short name in any
// case, with .group or .version.group behind it if need be. The preferred version comes first.
const struct api_kind *api_kind_by_name(struct str name);

// What lists and maps look like from here.
struct api_span {
    void *p;
    size_t n;
};

// api_field_present reports whether a field holds something: an optional that is set, a list or map
// that is not nil, a scalar that is not zero, a struct by value always.
bool api_field_present(const struct api_field *f, const void *owner);

// api_field_is_pointer reports whether the member is a pointer to its element.
static inline bool api_field_is_pointer(const struct api_field *f)
{
    return f->shape == API_OPT && (f->elem == API_STRUCT || f->elem == API_QUANTITY ||
                                   f->elem == API_INTSTR || f->elem == API_STRLIST);
}

// api_type_field finds a field by its JSON name, inline ones included; NULL when there is none.
const struct api_field *api_type_field(const struct api_type *t, struct str name);

static inline void *api_member(const struct api_field *f, void *owner)
{
    return (char *)owner + f->offset;
}

static inline const void *api_member_const(const struct api_field *f, const void *owner)
{
    return (const char *)owner + f->offset;
}

#endif
