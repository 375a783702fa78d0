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

// oas_collect adds the definition and all that it refers to.
void oas_collect(struct oas *o, struct str package, const struct api_type *t);

// oas_ref writes {"$ref": ...} to a definition; oas_ref_key only the pair.
void oas_ref(struct oas *o, struct str package, const struct api_type *t);

// oas_definitions writes the object of all definitions collected.
void oas_definitions(struct oas *o);

// oas_paths writes the paths of one group and version into the object that is open.
void oas_paths(struct oas *o, struct str package);

// oas_kv writes a key and a string.
void oas_kv(struct oas *o, const char *key, struct str value);
void oas_key(struct oas *o, const char *key);

// oas_gvk writes {"group", "kind", "version"}.
void oas_gvk(struct oas *o, const struct api_kind *k);

#endif
