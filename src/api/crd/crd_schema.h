// SPDX-License-Identifier: Apache-2.0
//
// The schema of a custom resource: read from a CustomResourceDefinition, judged, and used to prune,
// default and validate objects. One node type stands for a structural schema and for the value
// validations below allOf, anyOf, oneOf and not. A schema is immutable and counted; it holds
// compiled patterns and CEL programs.
#ifndef API_CRD_CRD_SCHEMA_H
#define API_CRD_CRD_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/cause.h"
#include "api/crd/dyn.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "cel/cel.h"
#include "codec/json_strict.h"

struct cel_regex;
struct crd_node;

struct crd_property {
    struct str name;
    struct crd_node *node;
};

struct crd_strings {
    struct str *p;
    size_t n;
};

struct crd_nodes {
    struct crd_node **p;
    size_t n;
};

// One of x-kubernetes-validations.
struct crd_rule {
    struct str rule, message, message_expression, reason, field_path;
    struct str json; // the whole rule, for messages
    bool has_reason;
    bool has_optional_old_self, optional_old_self;
    // Compiled (crd_cel.c).
    struct cel_program *program, *message_program;
    bool uses_old;
};

struct crd_node {
    struct { // types and formats
        struct str type, format, pattern, list_type, map_type;
        struct cel_regex *regex; // of pattern
        struct str pattern_why;  // why the pattern is none; empty: it is one
    };
    struct { // flags
        bool has_default, nullable, preserve, preserve_false, embedded, int_or_string, unique_items;
        bool has_list_type, has_map_type, has_title, has_description;
        bool has_maximum, has_minimum, has_multiple_of, exclusive_maximum, exclusive_minimum;
    };
    struct { // bounds
        double maximum, minimum, multiple_of;
        // -1: not set.
        int64_t max_length, min_length, max_items, min_items, max_properties, min_properties;
    };
    struct { // values
        struct dyn default_value;
        struct dyn enum_values; // a list
        struct crd_strings required, list_map_keys;
    };
    struct { // schemas below
        struct crd_node *items;
        bool items_is_list;              // of schemas, which no structural schema has
        struct crd_property *properties; // sorted by name
        size_t properties_len;
        bool has_additional, additional_allows;
        struct crd_node *additional;
        struct crd_nodes all_of, any_of, one_of;
        struct crd_node *not_;
    };
    struct { // rules
        struct crd_rule *rules;
        size_t rules_len;
        const char *unsupported; // a word no structural schema may have: $ref, definitions, …
        bool any_rules;          // here or below
        const struct cel_type *cel_type;
        struct cel_env *env, *message_env; // of the rules
    };
};

struct crd_schema {
    size_t refs;
    struct arena arena;
    struct crd_node *root;
    struct dyn json; // as published
};

// crd_schema_read reads a schema from JSON. A schema that is not made as one (a wrong type of a
// member) is -ERR_BAD_REQUEST with its path; unknown members are dropped and reported to strict.
int crd_schema_read(struct str json, struct json_strict *strict, struct crd_schema **ret,
                    struct err *err) MUST_USE;
void crd_schema_free(struct crd_schema *s);

const struct crd_node *crd_property(const struct crd_node *n, struct str name);

// crd_node_below is the schema of a member: its property's or that of all others; NULL when there
// is none.
const struct crd_node *crd_node_below(const struct crd_node *n, struct str name);

// What a definition demands of a schema.
struct crd_check {
    struct causes *causes;
    const struct path *at;        // of openAPIV3Schema
    bool status;                  // the version has a status of its own
    const struct crd_schema *old; // rules that were there before are taken as they are; may be NULL
};

// crd_schema_check judges a schema and compiles its rules: structural, defaults that are valid and
// complete, extensions that fit, expressions that compile and cost little enough.
void crd_schema_check(struct crd_schema *s, const struct crd_check *check);

// crd_schema_compile compiles the patterns of a schema.
void crd_schema_compile(struct crd_schema *s);

// crd_prune takes out what the schema does not know and reports it (strict may be NULL). root: v is
// a whole object, whose apiVersion, kind and metadata are not the schema's matter.
void crd_prune(struct dyn *v, const struct crd_node *n, bool root, struct json_strict *strict);

// crd_default sets what is absent, and takes out null where it may not stand. False: it stopped,
// because all of it would take more than DRAY_OBJECT_STORED_BYTES_MAX: a default may be much longer
// than what it is set for.
bool crd_default(struct dyn *v, const struct crd_node *n, struct arena *a);

// crd_validate adds what is wrong with a value. old, if not NULL, is what it was: what did not
// change is not judged again. blocking, if not NULL, is set when rules need not be asked.
void crd_validate(const struct dyn *v, const struct dyn *old, const struct crd_node *n,
                  struct causes *causes);

// crd_check_lists adds items of sets and maps that are there twice.
void crd_check_lists(const struct dyn *v, const struct crd_node *n, const struct path *at,
                     struct causes *causes);

// crd_check_embedded adds what is wrong with the metadata of embedded objects.
void crd_check_embedded(const struct dyn *v, const struct crd_node *n, const struct path *at,
                        struct causes *causes);

// crd_rules asks the rules of a schema about a value. old is NULL for a creation.
void crd_rules(const struct dyn *v, const struct dyn *old, const struct crd_node *n,
               struct causes *causes);

// --- Shared by the files -------------------------------------------------------------------------

// crd_show adds a value as the texts of errors show it: doubles as Go's %v does.
void crd_show(const struct dyn *v, struct sbuf *out);

// struct crd_before finds what the items of a list were: only those of maps are known again. Set
// the first three; texts of keys are put into arena.
struct crd_before {
    const struct dyn *old; // may be NULL
    const struct crd_node *node;
    struct arena *arena;
    struct MAP(size_t) places;
};
const struct dyn *crd_before_find(struct crd_before *b, const struct dyn *item);
void crd_before_done(struct crd_before *b);
#define cleanup_crd_before cleanup_with(crd_before_done)

// crd_format_known and crd_format_holds: formats of strings by name.
bool crd_format_known(struct str format);
bool crd_format_holds(struct str format, struct str text);

// crd_compile_rules makes the types and programs of the rules; check is NULL where errors are not
// reported.
void crd_compile_rules(struct crd_schema *s, const struct crd_check *check);

#endif
