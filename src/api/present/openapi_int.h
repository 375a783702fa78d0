// SPDX-License-Identifier: Apache-2.0
//
// What the two halves of the OpenAPI writer share. Private to src/api.
#ifndef API_PRESENT_OPENAPI_INT_H
#define API_PRESENT_OPENAPI_INT_H

#include "api/table.h"
#include "base/arena.h"
#include "base/vec.h"
#include "codec/json_writer.h"

// A definition: a type under the name it has in a package. Versions share types, not names.
struct oas_def {
    struct str package;
    const struct api_type *type;
};

struct oas {
    struct json_writer w;
    bool v2;
    struct arena arena;
    struct VEC(struct oas_def) defs;
};

// openapi_collect_definitions adds the definition and all that it refers to.
void openapi_collect_definitions(struct oas *o, struct str package, const struct api_type *t);

// openapi_write_ref writes {"$ref": ...} to a definition; oas_ref_key only the pair.
void openapi_write_ref(struct oas *o, struct str package, const struct api_type *t);

// openapi_write_definitions writes the object of all definitions collected.
void openapi_write_definitions(struct oas *o);

// openapi_write_paths writes the paths of one group and version into the object that is open.
void openapi_write_paths(struct oas *o, struct str package);

// openapi_write_member writes a key and a string.
void openapi_write_member(struct oas *o, const char *key, struct str value);
void openapi_write_key(struct oas *o, const char *key);

// openapi_write_gvk writes {"group", "kind", "version"}.
void openapi_write_gvk(struct oas *o, const struct api_kind *k);

#endif
