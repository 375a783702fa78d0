// SPDX-License-Identifier: Apache-2.0
//
// What the files of the YAML codec share among themselves: scalar resolution and the node tree.
#ifndef CODEC_YAML_YAML_INT_H
#define CODEC_YAML_YAML_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"

#define YAML_TAG_PREFIX "tag:yaml.org,2002:"

enum yaml_kind {
    YAML_NULL,
    YAML_BOOL,
    YAML_INT,
    YAML_UINT, // greater than INT64_MAX
    YAML_FLOAT,
    YAML_TIMESTAMP, // text all the same
    YAML_STR,
};

struct yaml_scalar {
    enum yaml_kind kind;
    bool truth;
    int64_t i;
    uint64_t u;
    double f; // may be infinite or not a number
};

// yaml_resolve finds what an unquoted scalar without a tag is.
struct yaml_scalar yaml_resolve(struct str text);

// yaml_resolve_tagged is yaml_resolve for a scalar with one of the tags int, float, bool, null,
// timestamp (given without prefix). Returns 0 or -ERR_BAD_REQUEST when text is no such thing.
int yaml_resolve_tagged(struct str tag, struct str text, struct yaml_scalar *ret,
                        struct err *err) MUST_USE;

// yaml_is_base60 reports whether YAML 1.1 would read text as a number in base 60. We do not, but
// others do, so such strings are written in quotes.
bool yaml_is_base60(struct str text);

// yaml_add_float adds a double as Go's 'g' format with the fewest digits writes it; single is for
// the digits of a float32, which is how keys are written.
void yaml_add_float(struct sbuf *out, double v, bool single);

// yaml_add_base64 decodes text with line breaks in it; bytes that are not UTF-8 become U+FFFD.
// False when it is not base64.
bool yaml_add_base64(struct sbuf *out, struct str text);

enum yaml_node_kind {
    YAML_NODE_SCALAR,
    YAML_NODE_SEQUENCE,
    YAML_NODE_MAPPING,
    YAML_NODE_ALIAS,
};

struct yaml_node {
    uint8_t kind;
    bool implicit; // plain and without a tag: to be resolved
    bool busy;     // being decoded, to catch an anchor inside itself
    bool checked;  // keys are known to be distinct
    struct json_pos at;
    const char *tag;        // NULL if none
    struct str value;       // of a scalar; name of an alias
    struct yaml_node *next; // sibling
    struct yaml_node *first;
    union {
        struct yaml_node *last;   // child of a container
        struct yaml_node *target; // of an alias
    };
};

// yaml_decode turns a tree of nodes into a JSON document.
int yaml_decode(struct yaml_node *root, enum json_duplicates duplicates, struct json_doc *ret,
                struct err *err) MUST_USE;

#endif
