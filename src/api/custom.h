// SPDX-License-Identifier: Apache-2.0
//
// Kinds that users add (CustomResourceDefinitions). To the rooms above they are kinds like others:
// a struct api_kind a version, found, decoded, converted, defaulted, validated and written by the
// same calls. What differs: they are made at run time, their objects are metadata and a JSON tree
// (struct custom_object), and their rules come from a schema.
//
// Objects of all versions of a kind are stored under one kind more, the hub, whose version is "*":
// it has no schema, so what was stored is read as it is. A table owns its kinds; they live as long
// as it does, because objects point to them. What they say changes when the definition does.
#ifndef API_CUSTOM_H
#define API_CUSTOM_H

#include "api/api.h"
#include "api/crd/crd_schema.h"
#include "api/validate.h"
#include "base/map.h"

// An object of such a kind. The first three are where every root type has them.
struct custom_object {
    struct str kind;
    struct str api_version;
    struct api_object_meta metadata;
    struct dyn content; // an object: all other members
    bool cut;           // some defaults are missing: they would have taken too much
};

struct custom_column {
    struct str name, type, format, description, path;
    int32_t priority;
};

struct custom_kind;

// What a version has beside its kind. Of the hub only hub and number mean something.
struct api_custom {
    struct custom_kind *owner;
    const struct api_kind *hub;
    size_t number;             // of the hub in its table
    bool defined;              // by a definition that is there and accepted
    bool terminating;          // its definition is being deleted: nothing may be created
    struct crd_schema *schema; // NULL: none
    bool has_status, has_scale;
    struct str spec_replicas, status_replicas, label_selector; // paths of a scale
    struct custom_column *columns;
    size_t columns_len;
    struct str *selectable; // paths that field selectors may ask for, with the first dot
    size_t selectable_len;
    bool deprecated;
    struct str deprecation;
};

struct custom_kinds;

struct custom_kinds *custom_kinds_new(void);
void custom_kinds_free(struct custom_kinds *t);

// custom_hub finds the stored kind of a group and kind, or makes one that is not defined yet.
const struct api_kind *custom_hub(struct custom_kinds *t, struct str group, struct str kind);

// custom_hub_of_text finds it by its name in a database, "group/*/Kind"; NULL for other texts.
const struct api_kind *custom_hub_of_text(struct custom_kinds *t, struct str text);

// custom_define creates or updates a kind from an accepted definition; custom_undefine removes all
// its versions.
void custom_define(struct custom_kinds *t, const struct api_custom_resource_definition *crd);
void custom_undefine(struct custom_kinds *t, struct str group, struct str kind);

// The kinds of a table: hubs by number, and the versions of one that are defined. NULL behind the
// last.
const struct api_kind *custom_hub_at(const struct custom_kinds *t, size_t number);
const struct api_kind *custom_version_at(const struct api_kind *hub, size_t i);

// custom_version_of finds another version of a custom kind by apiVersion; NULL when it has none
// such.
const struct api_kind *custom_version_of(const struct api_kind *kind, struct str api_version);

// custom_find finds a defined version by apiVersion and kind.
const struct api_kind *custom_find(const struct custom_kinds *t, struct str api_version,
                                   struct str kind);

// --- What api.h does for these kinds -------------------------------------------------------------

int custom_json_read(const struct api_custom *c, const struct json_doc *doc, const yyjson_val *v,
                     void *out, struct arena *arena, struct json_strict *strict,
                     struct err *err) MUST_USE;
int custom_json_write(const void *in, struct json_writer *w, struct err *err) MUST_USE;
void custom_copy(const void *in, void *out, struct arena *arena);
bool custom_equal(const void *a, const void *b);
void custom_default(const struct api_custom *c, void *value, struct arena *arena);
int custom_convert(const struct api_object *in, const struct api_kind *to, struct arena *arena,
                   struct api_object *ret);

// custom_prepare and custom_validate are api_prepare and api_validate. version selects the schema.
void custom_prepare(enum api_op op, const struct api_object *object, const struct api_object *old,
                    const struct api_kind *version, struct arena *a);
void custom_validate(enum api_op op, const struct api_object *object, const struct api_object *old,
                     const struct api_kind *version, struct causes *causes);

// custom_whole is the JSON of an object with its metadata, as rules see it.
struct dyn custom_whole(const struct custom_object *o, const struct api_kind *as, struct arena *a);

// custom_at follows a simple path (.spec.replicas) into an object; NULL when nothing is there.
const struct dyn *custom_at(const struct dyn *whole, struct str path);

// custom_fit prunes and defaults an object, as a version's schema has it.
void custom_fit(const struct api_kind *version, struct custom_object *o, struct arena *a);

#endif
